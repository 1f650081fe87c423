"""T of many draws of labels at a time, against sums over bins one after the other."""

import numpy as np
import pytest

from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib.inference import _tcal_labels
from sklearn_calib.inference._tcal_bins import NestedBins, null_deviation, null_variance
from sklearn_calib.inference._tcal_draws import _TIE as TIE
from sklearn_calib.inference._tcal_labels import LabelStatistics

FINEST = 9


def plain(prob, weight, positives, centre, level):
    """Return T of one draw at the level of 2**level bins: eq. (6) of the paper, a loop over bins."""
    cell = np.minimum((prob * 2**level).astype(int), 2**level - 1)
    total = 0.0
    for bin_ in range(2**level):
        inside = cell == bin_
        rows = weight[inside].sum()
        if rows > 1:
            y, w, c = positives[inside], weight[inside], centre[inside]
            s = np.sum(y - w * c)
            q = np.sum(y * (1 - c) ** 2 + (w - y) * c**2)
            total += (s * s - q) / rows
    return total / weight.sum()


def sample(law, n, rng):
    if law == "spread":
        p = rng.random(n)
    elif law == "few values":
        p = rng.choice(np.linspace(0.0, 1.0, 12), n)
    else:
        p = np.append(rng.beta(0.5, 100.0, n - 4), [0.0, 1.0, 0.25, 0.5])
    return group_outcomes((rng.random(n) < p).astype(np.int64), p)


@pytest.mark.parametrize("block", [1, 7, 1 << 12])
@pytest.mark.parametrize("law", ["spread", "few values", "rare events"])
def test_every_level_is_the_sum_over_its_bins(law, block, monkeypatch):
    monkeypatch.setattr(_tcal_labels, "_BLOCK", block)
    rng = np.random.default_rng(0)
    grouped = sample(law, 150, rng)
    centre = rng.random(grouped.prob.shape[0])
    positives = rng.binomial(grouped.weight.astype(int)[:, np.newaxis], 0.4, (grouped.prob.shape[0], 5))
    found = LabelStatistics(grouped, NestedBins.dyadic(grouped, FINEST), centre)(positives)
    expected = [
        [plain(grouped.prob, grouped.weight, draw, centre, level) for level in range(1, FINEST + 1)]
        for draw in positives.T
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("law", ["spread", "few values"])
def test_equal_labels_tie_whatever_stands_beside_them(law):
    rng = np.random.default_rng(1)
    grouped = sample(law, 9000, rng)
    bins = NestedBins.dyadic(grouped, FINEST)
    statistics = LabelStatistics(grouped, bins, grouped.prob)
    others = rng.binomial(grouped.weight.astype(int)[:, np.newaxis], 0.4, (grouped.prob.shape[0], 6))
    beside = statistics(np.column_stack((others, statistics.own)))
    # far inside of what counts as a tie
    deviation = null_deviation(grouped, bins, null_variance(grouped, bins, grouped.prob))
    assert np.all(np.abs(beside[-1] - statistics(statistics.own)[0]) < 1e-3 * TIE * deviation)
    if law == "spread":
        np.testing.assert_array_equal(statistics(others > 0), statistics(others))
