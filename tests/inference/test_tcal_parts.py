"""Parts of T-Cal by themselves: bounds under a tolerance, the probability of a union, sparse tables."""

from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._core._simplex_bins import SharedCells, _Level
from sklearn_calib.inference._tcal import _displacement, _relaxed, any_exceeds
from tests.core.test_nested_bins import dyadic_moments

LEVELS = 6


def test_moments_of_a_multiple_and_independent_noise():
    rng = np.random.default_rng(0)
    p = rng.random(120)
    moments = dyadic_moments(group_outcomes((rng.random(120) < p).astype(np.int64), p), LEVELS)
    factor, mean, spread = 1.7, 0.02, 3e-4
    found = _relaxed(moments, factor**2 * moments.variance, mean, spread)
    np.testing.assert_allclose(found.statistic, moments.statistic - mean)
    np.testing.assert_allclose(found.variance, factor**2 * moments.variance + spread)
    # the noise is the same at all scales
    np.testing.assert_allclose(found.covariance[:-1], factor**2 * moments.covariance[:-1] + spread)
    np.testing.assert_allclose(
        found.third_cumulant / found.variance**1.5, moments.third_cumulant / moments.variance**1.5
    )
    # at a scale at which no two rows share a bin there is the noise alone
    alone = dyadic_moments(group_outcomes(np.array([0, 1, 1]), np.array([0.1, 0.4, 0.9])), 3)
    assert alone.variance[-1] == 0 < alone.variance[0]
    found = _relaxed(alone, alone.variance, mean, spread)
    assert (found.variance[-1], found.third_cumulant[-1]) == (spread, 0)
    np.testing.assert_allclose(found.covariance[:-1], alone.covariance[:-1] + spread)


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


def test_probability_of_a_union_lies_between_the_largest_and_one():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n_scales = int(rng.integers(2, 9))
        tails = rng.choice([0.3, 0.9, 0.999, 1 - 1e-9], n_scales) * rng.uniform(0.9, 1.0, n_scales)
        found = any_exceeds(tails, rng.random(n_scales - 1))
        assert tails.max() <= found <= 1


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
    np.testing.assert_allclose(_Level.of(cells, p).squared_sums(y), expected)
