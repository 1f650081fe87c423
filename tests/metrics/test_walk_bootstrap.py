"""Bootstrap of the cutoff walk: its statistics by search, its distribution by enumeration, its coverage."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib._core._null import bootstrap_counts
from sklearn_calib.metrics._cutoff import bootstrap_margin


@pytest.mark.parametrize("copies", [1, 30], ids=["rows", "counts"])
def test_rows_are_drawn_with_replacement(copies):
    y, p = np.array([1, 0, 1, 0]), np.array([0.2, 0.2, 0.5, 0.9])
    grouped = group_outcomes(y, p, np.full(4, float(copies)))
    count, positives = (
        np.concatenate(part, axis=1)
        for part in zip(*bootstrap_counts(grouped, 4000, np.random.default_rng(0)), strict=True)
    )
    n = 4 * copies
    assert (count.sum(axis=0) == n).all()
    assert (positives <= count).all()
    cells = np.stack([count[0] - positives[0], positives[0], positives[1], count[2] - positives[2]]) / copies
    assert cells.sum() == 4 * 4000
    # multinomial with equal shares
    np.testing.assert_allclose(cells.mean(axis=1), 1, atol=4 * np.sqrt(0.75 / copies / 4000))
    covariance = np.cov(cells) * copies
    np.testing.assert_allclose(covariance, np.eye(4) - 0.25, atol=0.08)


def test_quantile_by_enumeration():
    """All samples of four rows drawn with replacement."""
    y, p = np.array([1, 0, 1, 0]), np.array([0.1, 0.4, 0.4, 0.8])
    deviations = []
    for rows in itertools.product(range(4), repeat=4):
        excess = np.bincount(rows, minlength=4) - 1.0
        steps = [(excess * (y - p))[p == v].sum() for v in (0.1, 0.4, 0.8)]
        deviations.append(np.ptp(np.concatenate([[0.0], np.cumsum(steps)])) / 4)
    distribution = np.sort(deviations)
    for confidence in (0.3, 0.7, 0.9):
        margin = bootstrap_margin(group_outcomes(y, p), confidence, 3999, np.random.default_rng(0))
        error = 4 * np.sqrt(confidence * (1 - confidence) / 3999)
        low, high = np.quantile(distribution, [confidence - error, confidence + error], method="inverted_cdf")
        assert low - 1e-12 <= margin - 1 / 4 <= high + 1e-12


@pytest.mark.parametrize(("atoms", "rate"), [(0, 0.5), (4, 0.5), (0, 0.05)])
def test_coverage(atoms, rate):
    rng = np.random.default_rng(2)
    cells = atoms or 500
    score = (np.arange(cells) + 0.5) / cells
    event = 2 * rate * score
    held = 0
    for _ in range(120):
        rows = rng.integers(0, cells, 300)
        y = (rng.random(300) < event[rows]).astype(np.int64)
        margin = bootstrap_margin(group_outcomes(y, score[rows]), 0.9, 99, rng)
        count = np.bincount(rows, minlength=cells) / 300 - 1 / cells
        events = np.bincount(rows, weights=y, minlength=cells) / 300 - event / cells
        held += margin >= np.ptp(np.concatenate([[0.0], np.cumsum(events - score * count)]))
    assert held >= binom.ppf(1e-3, 120, 0.9)


def test_certain_outcomes_leave_only_the_end_rows():
    grouped = GroupedOutcomes(np.array([0.0, 1.0]), np.array([5.0, 5.0]), np.array([0.0, 5.0]))
    assert bootstrap_margin(grouped, 0.9, 19, np.random.default_rng(0)) == pytest.approx(0.1)
