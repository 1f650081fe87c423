"""Bootstrap of the cutoff walk: its statistics by search, its distribution by enumeration, its coverage."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib.metrics._cutoff import bootstrap_margin


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


@pytest.mark.parametrize(("atoms", "rate"), [(4, 0.5), (0, 0.05)])
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
