"""The kernel calibration error against double loops, and against the test of the same name."""

import math

import numpy as np
import pytest

from sklearn_calib.inference import KernelTest
from sklearn_calib.metrics import kernel_calibration_error as kce


def distance(p, q):
    return np.abs(np.subtract(p, q)).sum() / (1 if np.ndim(p) == 0 else 2)


def by_pairs(residuals, p, s, debias):
    n, total = len(p), 0.0
    for i in range(n):
        for j in range(n):
            if i != j or not debias:
                total += math.exp(-distance(p[i], p[j]) / s) * float(np.dot(residuals[i], residuals[j]))
    return total / (n * (n - 1) if debias else n * n)


def sample(n_classes, n=40):
    rng = np.random.default_rng(n_classes)
    p = rng.dirichlet(np.ones(n_classes), size=n)
    p[10:20] = p[:10]
    return rng.integers(0, n_classes, n), p


@pytest.mark.parametrize("debias", [True, False])
@pytest.mark.parametrize("s", [1.0, 0.05])
def test_equals_a_double_loop(debias, s):
    options = {"debias": debias, "bandwidth": s}
    for n_classes in (2, 4):
        y, p = sample(n_classes)
        residuals, places = (y - p[:, 1], p[:, 1]) if n_classes == 2 else (np.eye(4)[y] - p, p)
        expected = by_pairs(residuals, places, s, debias)
        assert kce(y, p, squared=True, **options) == pytest.approx(expected, abs=1e-12)
        assert kce(y, p, **options) == pytest.approx(math.sqrt(max(expected, 0)), abs=1e-9)


def test_weights_are_repetitions_of_several_classes():
    y, p = sample(3)
    w = np.random.default_rng(0).integers(0, 4, y.shape[0])
    for debias in (True, False):
        expected = kce(np.repeat(y, w), np.repeat(p, w, axis=0), debias=debias)
        assert kce(y, p, sample_weight=w, debias=debias) == pytest.approx(expected, abs=1e-10)
    with pytest.raises(ValueError, match="sample_weight must contain whole numbers"):
        kce(y, p, sample_weight=w / 3)


def test_rows_beyond_one_block():
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(3), size=1100), rng.integers(0, 3, 1100)
    residual, gaps = np.eye(3)[y] - p, np.abs(p[:, None] - p[None]).sum(axis=2) / 2
    expected = np.sum(np.exp(-gaps) * (residual @ residual.T)) / 1100**2
    assert kce(y, p, debias=False, squared=True) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_equals_the_statistic_of_the_test(n_classes):
    y, p = sample(n_classes)
    for bandwidth in ("median", 0.3):
        result = KernelTest(bandwidth=bandwidth, n_resamples=19, random_state=0).test(y, p)
        assert kce(y, p, bandwidth=bandwidth) == pytest.approx(result.estimate, abs=1e-10)
        assert kce(y, p, bandwidth=bandwidth, squared=True) == pytest.approx(result.statistic, abs=1e-12)
