"""Bootstrap of the cutoff walk: its statistics by search, its distribution by enumeration, its coverage."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib._core._null import bootstrap_counts
from sklearn_calib.metrics._cutoff import bootstrap_margin, largest_disagreement


def disagreement_by_search(events, others):
    """Over all intervals and all steps, rising and falling, by loops."""
    best, m = 0.0, events.shape[0]
    for first in range(m):
        for last in range(first, m):
            inside = slice(first, last + 1)
            for cut in range(first, last + 2):
                for h in (np.arange(m) >= cut, np.arange(m) < cut):
                    best = max(best, abs(np.sum(((1 - h) * events - h * others)[inside])))
    return best


def test_largest_disagreement_is_that_of_a_search():
    rng = np.random.default_rng(0)
    events, others = rng.normal(size=(2, 6, 40))
    found = largest_disagreement(events, others)
    expected = [disagreement_by_search(events[:, j], others[:, j]) for j in range(40)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_no_monotone_map_disagrees_more():
    rng = np.random.default_rng(1)
    events, others = rng.normal(size=(2, 5, 200))
    h = np.sort(rng.random((5, 200)), axis=0)
    h[:, ::2] = h[::-1, ::2]
    walk = np.cumsum(np.vstack([np.zeros(200), (1 - h) * events - h * others]), axis=0)
    assert (np.ptp(walk, axis=0) <= largest_disagreement(events, others) + 1e-12).all()


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


@pytest.mark.parametrize(("refitted", "event_rate"), [(False, False), (False, True), (True, False)])
def test_quantile_by_enumeration(refitted, event_rate):
    """All samples of four rows drawn with replacement."""
    y, p = np.array([1, 0, 1, 0]), np.array([0.1, 0.4, 0.4, 0.8])
    deviations = []
    for rows in itertools.product(range(4), repeat=4):
        excess = np.bincount(rows, minlength=4) - 1.0
        events, others = (
            np.array([(excess * (y == k))[p == v].sum() for v in (0.1, 0.4, 0.8)]) for k in (1, 0)
        )
        if refitted:
            deviations.append(disagreement_by_search(events, others) / 4)
        else:
            steps = [(excess * (y - p))[p == v].sum() for v in (0.1, 0.4, 0.8)]
            rate = abs((excess * y).sum()) if event_rate else 0.0
            deviations.append(max(np.ptp(np.concatenate([[0.0], np.cumsum(steps)])), rate) / 4)
    distribution = np.sort(deviations)
    rows = 2 / 4 if refitted else 1 / 4
    for confidence in (0.3, 0.7, 0.9):
        options = {"refitted": refitted, "event_rate": event_rate}
        margin = bootstrap_margin(group_outcomes(y, p), confidence, 3999, np.random.default_rng(0), **options)
        error = 4 * np.sqrt(confidence * (1 - confidence) / 3999)
        low, high = np.quantile(distribution, [confidence - error, confidence + error], method="inverted_cdf")
        assert low - 1e-12 <= margin - rows <= high + 1e-12


def test_the_event_rate_deviates_both_ways():
    # of two rows with one event, a half of all samples has none or two; the walk hardly moves
    grouped = group_outcomes(np.array([0, 1]), np.array([0.01, 0.99]))
    for confidence, rate in [(0.4, 0.0), (0.6, 0.5)]:
        margins = [
            bootstrap_margin(grouped, confidence, 999, np.random.default_rng(0), event_rate=event_rate)
            for event_rate in (False, True)
        ]
        assert margins == pytest.approx([1 / 2, 1 / 2 + rate], abs=0.011)


@pytest.mark.parametrize("refitted", [False, True])
@pytest.mark.parametrize(("atoms", "rate"), [(0, 0.5), (4, 0.5), (0, 0.05)])
def test_coverage(atoms, rate, refitted):
    rng = np.random.default_rng(2)
    cells = atoms or 500
    score = (np.arange(cells) + 0.5) / cells
    event = 2 * rate * score
    held = 0
    for _ in range(120):
        rows = rng.integers(0, cells, 300)
        y = (rng.random(300) < event[rows]).astype(np.int64)
        margin = bootstrap_margin(group_outcomes(y, score[rows]), 0.9, 99, rng, refitted=refitted)
        count = np.bincount(rows, minlength=cells) / 300 - 1 / cells
        events = np.bincount(rows, weights=y, minlength=cells) / 300 - event / cells
        if refitted:
            deviation = largest_disagreement(events[:, None], (count - events)[:, None])[0]
        else:
            deviation = np.ptp(np.concatenate([[0.0], np.cumsum(events - score * count)]))
        held += margin >= deviation
    assert held >= binom.ppf(1e-3, 120, 0.9)


def test_certain_outcomes_leave_only_the_end_rows():
    grouped = GroupedOutcomes(np.array([0.0, 1.0]), np.array([5.0, 5.0]), np.array([0.0, 5.0]))
    assert bootstrap_margin(grouped, 0.9, 19, np.random.default_rng(0)) == pytest.approx(0.1)
