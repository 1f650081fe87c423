"""Parts of T-Cal by themselves: redrawn pairs, bounds under a tolerance, skewness of draws, sparse tables."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import skew

from sklearn_calib._core._alcoves import SharedCells
from sklearn_calib._core._dyadic import dyadic_moments
from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib._core._null import draw_outcomes
from sklearn_calib.inference._tcal_asymptotic import any_exceeds, relaxed, tail_probability
from sklearn_calib.inference._tcal_bins import ROUNDING, NestedBins, null_deviation
from sklearn_calib.inference._tcal_classes import _Level
from sklearn_calib.inference._tcal_decision import _displacement, weighted_tails
from sklearn_calib.inference._tcal_draws import draw_pairs
from sklearn_calib.inference._tcal_scales import scale_shares

LEVELS = 6


def grouped_sample(kind, seed=0, n=120):
    rng = np.random.default_rng(seed)
    p = rng.integers(1, 25, n) / 25 if kind == "tied" else rng.random(n)
    return group_outcomes((rng.random(n) < p).astype(np.int64), p)


@pytest.mark.parametrize("kind", ["tied", "distinct"])
def test_redrawn_pairs_have_the_moments_of_their_own_rows(kind):
    grouped = grouped_sample(kind)
    draws = draw_pairs(grouped, NestedBins.dyadic(grouped, LEVELS), 30, np.random.default_rng(5))
    own = dyadic_moments(grouped, LEVELS)
    np.testing.assert_allclose(draws.observed, own.statistic, atol=1e-12)
    np.testing.assert_allclose(draws.deviation, np.sqrt(own.variance), atol=1e-12)
    np.testing.assert_allclose(draws.observed_z, own.statistic / np.sqrt(own.variance), atol=1e-9)
    parts = list(draw_outcomes(grouped, 30, np.random.default_rng(5)))
    counts, positives = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    for k in range(30):
        drawn = counts[:, k] > 0
        rows = GroupedOutcomes(grouped.prob[drawn], counts[drawn, k].astype(float), positives[drawn, k])
        expected = dyadic_moments(rows, LEVELS)
        np.testing.assert_allclose(draws.drawn[k], expected.statistic, atol=1e-12)
        np.testing.assert_allclose(
            draws.drawn_z[k], expected.statistic / np.sqrt(expected.variance), atol=1e-9
        )


@pytest.mark.parametrize("kind", ["tied", "distinct"])
def test_deviations_stay_above_rounding(kind):
    grouped = grouped_sample(kind)
    bins = NestedBins.dyadic(grouped, 3)
    variance = np.array([0.25, 0.0, 0.0])
    expected = [0.5]
    for level in (2, 3):
        cell = np.minimum((grouped.prob * 2**level).astype(int), 2**level - 1)
        # the expected sum of squares of T: of each bin the mean of p (1 - p), over n
        means = [
            grouped.variance[cell == k].sum() / grouped.weight[cell == k].sum()
            for k in range(2**level)
            if grouped.weight[cell == k].sum() > 1
        ]
        expected.append(ROUNDING * sum(means) / grouped.total)
    np.testing.assert_allclose(null_deviation(grouped, bins, variance), expected)


def test_moments_of_a_multiple_and_independent_noise():
    moments = dyadic_moments(grouped_sample("distinct"), LEVELS)
    factor, mean, spread = 1.7, 0.02, 3e-4
    found = relaxed(moments, factor**2 * moments.variance, mean, spread)
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
    found = relaxed(alone, alone.variance, mean, spread)
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


def test_skewness_of_draws_without_a_law():
    rng = np.random.default_rng(0)
    z = rng.gamma(2.0, size=(40, 3)) - 2.0
    draws = SimpleNamespace(observed_z=z[0], drawn_z=z[1:])
    options = SimpleNamespace(statistic="biased", resample="labels", tolerance=0.0)
    smallest, which = weighted_tails(draws, SimpleNamespace(n_bins=np.arange(5)), options)
    ratio = tail_probability(z, skew(z, axis=0)) / scale_shares(5)[:3]
    np.testing.assert_allclose(smallest, ratio.min(axis=1))
    np.testing.assert_array_equal(which, ratio.argmin(axis=1))
    # draws that are all the same have none
    draws = SimpleNamespace(observed_z=np.zeros(2), drawn_z=np.zeros((9, 2)))
    smallest, _ = weighted_tails(draws, SimpleNamespace(n_bins=np.arange(2)), options)
    np.testing.assert_allclose(smallest, 0.5 / scale_shares(2).max())


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
