"""Bins, and sums over them."""

import numpy as np
import pytest

from sklearn_calib._core._binning import (
    bin_offsets,
    bin_starts,
    quantile_bins,
    uniform_bins,
    uniform_residuals,
    uniform_sums,
)
from sklearn_calib._core._grouping import GroupedOutcomes


@pytest.mark.parametrize("n_bins", [1, 3, 7, 10, 15, 49, 100, 1000])
def test_edges_decide(n_bins):
    edges = np.arange(n_bins + 1) / n_bins
    p = np.unique(
        np.concatenate(
            [edges, np.nextafter(edges[1:], 0), np.nextafter(edges[:-1], 1), np.linspace(0, 1, 997)]
        )
    )
    expected = np.minimum(np.searchsorted(edges, p, side="right") - 1, n_bins - 1)
    np.testing.assert_array_equal(uniform_bins(p, n_bins), expected)


def test_quantile_bins_share_the_weight():
    grouped = GroupedOutcomes(np.arange(6) / 6, np.array([1.0, 1, 4, 1, 1, 4]), np.zeros(6))
    # middles at .5, 1.5, 4, 6.5, 7.5, 10 of 12
    assert quantile_bins(grouped.weight, 3).tolist() == [0, 0, 1, 1, 1, 2]
    assert quantile_bins(grouped.weight, 1).tolist() == [0] * 6


@pytest.mark.parametrize("weights", ["none", "few whole", "real", "wide"])
@pytest.mark.parametrize("n", [1, 2, 7, 48, 3000])
def test_starts_are_where_the_bin_changes(n, weights):
    rng = np.random.default_rng(n)
    w = {
        "none": np.ones(n),
        "few whole": rng.integers(1, 4, n).astype(float),
        "real": rng.random(n) / 3,
        "wide": 10.0 ** rng.uniform(-12, 12, n),
    }[weights]
    grouped = GroupedOutcomes(np.sort(rng.random(n)), w, np.zeros(n))
    for n_bins in (1, 2, 3, 10, 15, 49, n, 4 * n, 1000):
        for strategy, index in (
            ("quantile", quantile_bins(grouped.weight, n_bins)),
            ("uniform", uniform_bins(grouped.prob, n_bins)),
        ):
            expected = [0, *(np.flatnonzero(np.diff(index)) + 1)]
            np.testing.assert_array_equal(bin_starts(grouped, n_bins, strategy), expected)


def test_a_weight_too_small_to_count_falls_into_the_last_bin():
    # its middle rounds to the total
    grouped = GroupedOutcomes(np.array([0.2, 0.7]), np.array([1.0, 1e-20]), np.zeros(2))
    assert quantile_bins(grouped.weight, 4).tolist() == [2, 3]


def test_offsets_are_from_the_centres():
    index, offset = bin_offsets(np.array([0.0, 0.1, 0.25, 0.99, 1.0]), 4)
    assert index.tolist() == [0, 0, 1, 3, 3]
    np.testing.assert_allclose(offset, [-0.5, -0.1, -0.5, 0.46, 0.5])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "n_bins"), [(1, 15), (500, 1), (500, 15), (500, 100), (70_000, 15)])
def test_sums_of_equal_width_bins_by_a_loop(n, n_bins, weighted):
    rng = np.random.default_rng(n)
    p = np.where(rng.random(n) < 0.2, rng.integers(0, 101, n) / 100, rng.random(n))
    y = rng.integers(0, 2, n)
    w = rng.random(n) if weighted else None
    found = uniform_sums(y, p, w, n_bins)
    np.testing.assert_array_equal(uniform_residuals(y, p, w, n_bins), found[2])
    edges = np.arange(n_bins + 1) / n_bins
    index = np.minimum(np.searchsorted(edges, p, side="right") - 1, n_bins - 1)
    mass = np.ones(n) if w is None else w
    for k in range(n_bins):
        inside = index == k
        expected = (mass[inside].sum(), (mass * y)[inside].sum(), (mass * (y - p))[inside].sum())
        np.testing.assert_allclose([sums[k] for sums in found], expected, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize(("n", "weights", "n_bins"), [(2, [0.2, 0.1], 15), (147, None, 6)])
def test_a_middle_that_rounding_puts_on_an_edge_belongs_to_the_upper_bin(n, weights, n_bins):
    w = np.ones(n) if weights is None else np.array(weights)
    grouped = GroupedOutcomes(np.linspace(0.1, 0.9, n), w, np.zeros(n))
    expected = [0, *(np.flatnonzero(np.diff(quantile_bins(grouped.weight, n_bins))) + 1)]
    assert bin_starts(grouped, n_bins, "quantile").tolist() == expected
