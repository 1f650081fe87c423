"""Any metric as a test: exactness by enumeration, agreement with the cutoff test, level, power."""

import numpy as np
import pytest

from sklearn_calib import metrics
from sklearn_calib.inference import ConsistencyTest


def test_pairs_vary_the_predictions():
    # the Brier score of predictions .5 is fixed by them; that of redrawn predictions is not
    y, p = np.array([0, 0, 1, 0]), np.array([0.5, 0.5, 0.5, 0.01])
    labels = ConsistencyTest("brier_score", n_resamples=99, random_state=0).test(y[:3], p[:3])
    assert (labels.null_distribution, labels.pvalue) == (pytest.approx(0.25), 1)
    pairs = ConsistencyTest("brier_score", n_resamples=99, resample="pairs", random_state=0).test(y, p)
    assert pairs.null_distribution.min() < 0.13 < 0.24 < pairs.null_distribution.max()
    assert pairs.method == "99 resampled pairs"


def test_a_metric_gets_labels_0_and_1_with_their_predictions():
    y, p = np.array([1, 0, 1, 1, 0]), np.array([0.2, 0.2, 0.5, 0.7, 0.9])
    seen = []

    def squares(y_true, y_proba, sample_weight=None):
        seen.extend(y_true.tolist())
        weight = np.ones(len(y_true)) if sample_weight is None else sample_weight
        return float(np.average((y_true - y_proba) ** 2, weights=weight))

    for weight in (None, [1, 2, 1, 0, 3]):
        test = ConsistencyTest(squares, n_resamples=9, random_state=0)
        result = test.test(y, p, sample_weight=weight, weights="frequency")
        assert result.estimate == pytest.approx(np.average((y - p) ** 2, weights=weight))
    assert set(seen) == {0, 1}


def test_differences_of_rounding_are_ties():
    y, p = np.array([1, 0, 1]), np.array([0.2, 0.3, 0.7])

    def nearly_nothing(y_true, y_proba):
        return 1e-14 * float(y_true[0])

    test = ConsistencyTest(metric=nearly_nothing, n_resamples=19, random_state=0)
    assert (test.test(y, p).null_distribution.min(), test.test(y, p).pvalue) == (0, 1)
    # errors |k / 4 - .3| of k events of four are known to 1e-6: those of k = 2, .2, are ties, and .05 is less
    equal = ConsistencyTest(metric=metrics.smooth_ece, n_resamples=400, random_state=0)
    found = equal.test(np.array([1, 1, 0, 0]), np.full(4, 0.3))
    assert found.pvalue == np.mean(np.append(found.null_distribution, 0.2) > 0.1)
