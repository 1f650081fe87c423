"""Hosmer-Lemeshow test: arithmetic against a double loop, exact mean, bins without variance, level, power."""

import numpy as np
import pytest
from scipy.stats import chi2

from sklearn_calib.inference import HosmerLemeshowTest
from sklearn_calib.metrics import expected_calibration_error
from tests.inference import _properties


def hosmer_lemeshow(**parameters):
    """The test without simulations; tests/inference/test_simulated.py has those."""
    return HosmerLemeshowTest(**{"method": "asymptotic"} | parameters)


def reference(y, p, n_bins, strategy):
    """Statistic and degrees of freedom by a loop over bins; quantile bins hold the middle of equal rows."""
    n, statistic, df = len(p), 0.0, 0
    middle = np.array([np.sum(p < value) + np.sum(p == value) / 2 for value in p])
    place, size = (p, 1) if strategy == "uniform" else (middle, n)
    for b in range(n_bins):
        above = place >= b * size / n_bins
        inside = above & ((place < (b + 1) * size / n_bins) | (b == n_bins - 1))
        mean = p[inside].mean() if inside.any() else 0.0
        if 0 < mean < 1:
            statistic += (y[inside] - p[inside]).sum() ** 2 / (inside.sum() * mean * (1 - mean))
            df += 1
    return statistic, df


@pytest.mark.parametrize(
    ("strategy", "n_bins", "digits"),
    [("quantile", 1, 9), ("quantile", 7, 1), ("quantile", 10, 2), ("quantile", 100, 1), ("uniform", 2, 1),
     ("uniform", 10, 1), ("uniform", 100, 2)],
)  # fmt: skip
def test_against_loops(strategy, n_bins, digits):
    y, p = _properties.sample(57, seed=n_bins)
    p = np.round(p, digits)
    p[:3], y[:3] = [0.0, 0.0, 1.0], [0, 0, 1]
    statistic, df = reference(y, p, n_bins, strategy)
    result = hosmer_lemeshow(n_bins=n_bins, strategy=strategy).test(y, p)
    assert result.statistic == pytest.approx(statistic)
    assert result.method == f"asymptotic, chi-squared with {df} df"
    assert result.pvalue == pytest.approx(chi2.sf(statistic, df))
    metric = expected_calibration_error(y, p, n_bins=n_bins, strategy=strategy, norm="l2")
    assert result.estimate == pytest.approx(metric)


def test_by_hand():
    # one of four where a quarter, three of four where a half is expected: 0 + 1 / (4 / 4)
    y, p = [0, 0, 0, 1, 0, 1, 1, 1], [0.25] * 4 + [0.5] * 4
    result = hosmer_lemeshow(n_bins=2).test(y, p)
    assert (result.statistic, result.pvalue) == (pytest.approx(1), pytest.approx(np.exp(-0.5)))
    assert result.reason.endswith("in a bin: 1")
    result = hosmer_lemeshow(n_bins=2, strategy="uniform").test([0, 0, 1, 0], [0.0, 0.0, 0.5, 0.5])
    assert result.statistic == 0
    assert "with 1 df" in result.method
    assert hosmer_lemeshow().test([0, 1], [0.0, 1.0]).reason.startswith("no information")
    assert hosmer_lemeshow(n_bins=2, strategy="uniform").test([1, 0, 1], [0.0, 0.5, 0.5]).statistic == np.inf
    result = hosmer_lemeshow(n_bins=2).test([1, 0, 1, 0], [5e-324, 5e-324, 0.5, 0.5])
    # (1 - e)^2 / e for e = 2e-60, where 1e-60 stands for the smallest predictions
    assert result.statistic == pytest.approx(5e59)
    assert 0.0 < result.pvalue < 1e-300
    y, p = _properties.sample(57, seed=0)
    result = hosmer_lemeshow(n_bins=[0, 0.25, 0.5, 0.75, 1]).test(y, p)
    assert result.statistic == hosmer_lemeshow(n_bins=4, strategy="uniform").test(y, p).statistic
    with pytest.raises(ValueError, match="must increase from 0 to 1"):
        hosmer_lemeshow(n_bins=[0.2, 1]).test(y, p)
