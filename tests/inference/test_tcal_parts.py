"""Parts of T-Cal by themselves: bounds under a tolerance, the probability of a union, sparse tables."""

from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_calib._core._simplex_bins import SharedCells, _Level
from sklearn_calib.inference._testing._tcal import _displacement


@pytest.mark.parametrize("n_classes", [2, 3])
def test_displacement_bounds_what_miscalibration_adds(n_classes):
    """T of residuals (Y - q) + d, in one bin: mean and variance of what d adds, where these are largest."""
    n, tolerance = 200, 0.1
    mean, spread = _displacement(SimpleNamespace(n_classes=n_classes, n=n), tolerance)
    if n_classes == 2:
        covariance, d = np.array([[0.25]]), np.array([tolerance])
    else:
        q = np.array([0.5, 0.5, 0.0])
        covariance, d = np.diag(q) - np.outer(q, q), tolerance * np.array([1, -1, 0]) / np.sqrt(2)
    # sum over i != j of d.d / (n |I|), and the variance of 2 sum over i of (Y_i - q).(n - 1) d / (n |I|)
    assert mean == pytest.approx(d @ d)
    added = n * (n - 1) * (d @ d) / n**2
    assert 0.99 * mean < added <= mean
    variance = n * 4 * (n - 1) ** 2 * (d @ covariance @ d) / n**4
    assert 0.98 * spread < variance <= spread


@pytest.mark.parametrize(("n_classes", "size"), [(3, 20), (20, 2), (40, 4)])
def test_squared_sums_of_few_and_of_many_empty_entries(n_classes, size):
    """With many classes and few rows in a cell the table of counts is not written out."""
    rng = np.random.default_rng(n_classes)
    n = 10 * size
    p, y = rng.dirichlet(np.ones(n_classes), n), rng.integers(0, min(n_classes, 5), (4, n))
    cells = SharedCells(rng.permutation(n), np.arange(0, n, size), np.full(10, size))
    expected = []
    for labels in y:
        total = 0.0
        for start in cells.starts:
            rows = cells.rows[start : start + size]
            total += np.sum((np.eye(n_classes)[labels[rows]] - p[rows]).sum(axis=0) ** 2) / size
        expected.append(total)
    np.testing.assert_allclose(_Level.of(cells, p, np.ones(y.shape[1])).squared_sums(y), expected)
