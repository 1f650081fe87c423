"""Bins, sums over them, and bins that are narrow near 0 and 1 against their definition."""

import bisect
from fractions import Fraction

import numpy as np
import pytest

from sklearn_calib._core import _binning
from sklearn_calib._core._grouping import GroupedOutcomes


@pytest.mark.parametrize("n_bins", [1, 3, 7, 10, 15, 49, 100, 1000])
def test_edges_decide(n_bins):
    edges = np.arange(n_bins + 1) / n_bins
    near = np.nextafter(edges[1:], 0), np.nextafter(edges[:-1], 1)
    p = np.unique(np.concatenate([edges, *near, np.linspace(0, 1, 997)]))
    expected = np.minimum(np.searchsorted(edges, p, side="right") - 1, n_bins - 1)
    np.testing.assert_array_equal(_binning.uniform_bins(p, n_bins), expected)


def test_quantile_bins_share_the_weight():
    grouped = GroupedOutcomes(np.arange(6) / 6, np.array([1.0, 1, 4, 1, 1, 4]), np.zeros(6))
    # middles at .5, 1.5, 4, 6.5, 7.5, 10 of 12
    assert _binning.quantile_bins(grouped.weight, 3).tolist() == [0, 0, 1, 1, 1, 2]
    assert _binning.quantile_bins(grouped.weight, 1).tolist() == [0] * 6


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
        for strategy in ("quantile", "uniform"):
            place = grouped.weight if strategy == "quantile" else grouped.prob
            index = getattr(_binning, f"{strategy}_bins")(place, n_bins)
            expected = [0, *(np.flatnonzero(np.diff(index)) + 1)]
            np.testing.assert_array_equal(_binning.bin_starts(grouped, n_bins, strategy), expected)


def test_a_weight_too_small_to_count_falls_into_the_last_bin():
    # its middle rounds to the total
    grouped = GroupedOutcomes(np.array([0.2, 0.7]), np.array([1.0, 1e-20]), np.zeros(2))
    assert _binning.quantile_bins(grouped.weight, 4).tolist() == [2, 3]


def test_offsets_are_from_the_centers():
    index, offset = _binning.bin_offsets(np.array([0.0, 0.1, 0.25, 0.99, 1.0]), 4)
    assert index.tolist() == [0, 0, 1, 3, 3]
    np.testing.assert_allclose(offset, [-0.5, -0.1, -0.5, 0.46, 0.5])


@pytest.mark.parametrize(("n", "weights", "n_bins"), [(2, [0.2, 0.1], 15), (147, None, 6)])
def test_a_middle_that_rounding_puts_on_an_edge_belongs_to_the_upper_bin(n, weights, n_bins):
    w = np.ones(n) if weights is None else np.array(weights)
    grouped = GroupedOutcomes(np.linspace(0.1, 0.9, n), w, np.zeros(n))
    expected = [0, *(np.flatnonzero(np.diff(_binning.quantile_bins(grouped.weight, n_bins))) + 1)]
    assert _binning.bin_starts(grouped, n_bins, "quantile").tolist() == expected


EXTREMES = [
    0.0, 5e-324, 1e-300, 2.0**-65, 2.0**-64, 2.0**-49, np.nextafter(2.0**-40, 0), 2.0**-40, 2.0**-9,
    np.nextafter(2.0**-8, 0), 2.0**-8, 0.3, np.nextafter(0.5, 0), 0.5, np.nextafter(0.5, 1),
    np.nextafter(1 - 2.0**-8, 0), 1 - 2.0**-8, np.nextafter(1 - 2.0**-8, 1), 1 - 2.0**-20, 1 - 2.0**-40,
    np.nextafter(1 - 2.0**-40, 1), 1 - 2.0**-52, 1 - 2.0**-53, 1.0,
]  # fmt: skip


def edges_by_definition(precision):
    """Return the lower edges of all bins but the last, and their upper ends, as fractions."""
    per_octave = 2 ** (precision - 8)
    lower = [Fraction(j, per_octave * 2**40) for j in range(per_octave)]
    for exponent in range(-40, -8):
        low = Fraction(2) ** exponent
        lower += [low + low * j / per_octave for j in range(per_octave)]
    middle = [Fraction(j, 2**precision) for j in range(per_octave, 2**precision - per_octave)]
    upper = [1 - edge for edge in lower[::-1]]
    # the lower tail holds [low, high), the upper one too: its edges are those of the mirror image, one on
    ends = [1 - edge for edge in [*lower[1:], Fraction(1, 256)][::-1]]
    return [*lower, *middle, *ends], [*lower[1:], *middle, *ends, upper[-1]]


def located(grid, p):
    return grid.locate(np.asarray(p, dtype=np.float64))


@pytest.mark.parametrize("precision", [8, 10])
def test_bins_are_those_of_the_definition(precision):
    grid = _binning.OctaveBins(precision)
    lower, upper = edges_by_definition(precision)
    # 0 and 1 have bins of their own
    assert grid.n_bins == len(lower) + 2
    low, width = grid.edges(np.arange(grid.n_bins))
    assert [Fraction(value) for value in low[1:-1]] == lower
    assert [Fraction(value) for value in low[1:-1] + width[1:-1]] == upper
    assert (low[0], width[0], low[-1], width[-1]) == (0.0, 0.0, 1.0, 0.0)
    rng = np.random.default_rng(0)
    tails = 2.0 ** -rng.uniform(0, 60, 300)
    p = np.concatenate((EXTREMES, rng.random(300), tails, 1 - tails, low, np.nextafter(low[1:], 0)))
    index, position = located(grid, p)
    for value, found, place in zip(p.tolist(), index.tolist(), position.tolist(), strict=True):
        if value in (0.0, 1.0):
            assert (found, place) == (0 if value == 0 else grid.n_bins - 1, 0)
            continue
        index = bisect.bisect_right(lower, Fraction(value)) - 1
        share = (Fraction(value) - lower[index]) / (upper[index] - lower[index])
        if value >= 2.0 ** (-48 - precision):
            assert (found, place) == (1 + index, int(share * _binning.POSITIONS))
        else:
            # rounded up to the first step, not down to 0
            assert (found, place) == (1, 1)


@pytest.mark.parametrize("precision", [8, 13, 17, 20])
def test_edges_are_exact_and_increasing_at_every_precision(precision):
    grid = _binning.OctaveBins(precision)
    index = np.arange(grid.n_bins)
    low, width = grid.edges(index)
    # the first two begin at 0: 0 alone, and what is above it
    assert low[1] == 0.0
    assert (np.diff(low[1:]) > 0).all()
    np.testing.assert_array_equal(low[1:-1] + width[1:-1], low[2:])
    found, position = located(grid, np.delete(low, 1))
    np.testing.assert_array_equal(found, np.delete(index, 1))
    below, _ = located(grid, np.nextafter(low[2:], 0))
    np.testing.assert_array_equal(below, index[1:-1])
    assert (position == 0).all()


@pytest.mark.parametrize(("lower", "upper"), [(0, 0), (3, 3), (3, 300), (300, 3), (300, 300), (0, 300)])
def test_predictions_together_take_the_bins_that_each_takes_alone(lower, upper):
    grid, rng = _binning.OctaveBins(14), np.random.default_rng(2)
    middle, low, high = rng.uniform(0.01, 0.99, 300), rng.uniform(8, 60, lower), rng.uniform(8, 60, upper)
    p = np.concatenate((middle, 2.0**-low, 1 - 2.0**-high, np.zeros(lower // 3), np.ones(upper // 3)))
    rng.shuffle(p)
    one_by_one = [located(grid, p[row : row + 1]) for row in range(p.shape[0])]
    expected = [np.concatenate(alone) for alone in zip(*one_by_one, strict=True)]
    for together, alone in zip(located(grid, p), expected, strict=True):
        np.testing.assert_array_equal(together, alone)
