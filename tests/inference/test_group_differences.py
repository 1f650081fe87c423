"""The test of differences between groups: the score test of separate lines, level and power."""

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import binom, chi2

from sklearn_calib.inference import group_differences_test
from sklearn_calib.metrics import calibration_summary


def test_score_test_of_separate_lines():
    """The score of separate lines of the groups at the common line, by the information of all of them."""
    rng = np.random.default_rng(0)
    groups = rng.choice(3, 400, p=(0.6, 0.3, 0.1))
    p = expit(rng.normal(groups - 1.0, 1.0))
    y = (rng.random(400) < p ** (1 + 0.3 * (groups == 1))).astype(int)
    summary, x = calibration_summary(y, p), np.column_stack((np.ones(400), logit(p)))
    q = expit(x @ [summary.slope_intercept.estimate, summary.slope.estimate])
    X = np.hstack([x * (groups == g)[:, np.newaxis] for g in range(3)])
    score = X.T @ (y - q)
    statistic = score @ np.linalg.solve((X.T * (q * (1 - q))) @ X, score)
    found = group_differences_test(y, p, groups=groups)
    assert (found.degrees_of_freedom, found.n_groups) == (4, 3)
    assert found.statistic == pytest.approx(statistic, rel=1e-6)
    assert found.pvalue == pytest.approx(chi2.sf(statistic, 4), rel=1e-6)
    assert str(found).startswith("differences between 3 groups: p-value ")
    weighted = group_differences_test(y, p, groups=groups, sample_weight=np.full(400, 2), weights="frequency")
    y, p, groups = (np.repeat(values, 2) for values in (y, p, groups))
    repeated = group_differences_test(y, p, groups=groups)
    assert weighted.statistic == pytest.approx(repeated.statistic)
    assert np.isnan(group_differences_test([0, 1, 1], [0.2, 0.4, 0.9], groups=["a", "a", "a"]).pvalue)
    assert np.isnan(group_differences_test([0, 1, 1, 0], [0.5] * 4, groups=[0, 0, 1, 1]).pvalue)
    with pytest.raises(ValueError, match="groups"):
        group_differences_test([0, 1], [0.2, 0.4], groups=[0])


def test_dependence_within_clusters_divides_the_statistic():
    """Each sample twice, as clusters of two equal samples."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.9, 300)
    y, groups = (rng.random(300) < p).astype(int), rng.integers(2, size=300)
    alone = group_differences_test(y, p, groups=groups)
    y, p, groups, clusters = (np.repeat(values, 2) for values in (y, p, groups, np.arange(300)))
    found = group_differences_test(y, p, groups=groups, clusters=clusters)
    assert found.statistic == pytest.approx(alone.statistic, rel=0.1)


@pytest.mark.thorough
def test_level_with_weights():
    rng, rejected = np.random.default_rng(1), 0
    for _ in range(300):
        p, w = rng.uniform(0.05, 0.95, 300), rng.exponential(size=300) + 0.2
        y, groups = rng.random(300) < expit(0.3 + 0.7 * logit(p)), rng.integers(3, size=300)
        rejected += group_differences_test(y, p, groups=groups, sample_weight=w).pvalue <= 0.05
    assert binom.ppf(0.001, 300, 0.05) <= rejected <= binom.ppf(0.999, 300, 0.05)
