"""The cutoff error in fixed point against floating point, and the bootstrap of its walk by enumeration."""

import itertools

import numpy as np
import pytest

from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib.metrics import cutoff_calibration_error, cutoff_result
from sklearn_calib.metrics._cutoff import bootstrap_margin

#: Number of samples that the computation in fixed point handles at a time.
CHUNK = 1 << 14


@pytest.mark.parametrize("n", [1, 2, 7, 1000, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
@pytest.mark.parametrize("ties", [False, True])
def test_fixed_point_equals_floating_point(n, ties):
    rng = np.random.default_rng(n)
    p = rng.integers(0, 8, n) / 7 if ties else rng.random(n)
    y = (rng.random(n) < p).astype(np.int64)
    path = np.append(0.0, cutoff_result(y, p, pos_label=1).walk)
    assert cutoff_calibration_error(y, p, pos_label=1) == pytest.approx(np.ptp(path), abs=1e-12)


def test_a_tie_across_a_chunk_is_one_group():
    n = 2 * CHUNK + 10
    y = np.tile([0, 1], n // 2)
    for first in (y, y[::-1], np.sort(y), np.sort(y)[::-1]):
        assert cutoff_calibration_error(first, np.full(n, 0.5)) == 0.0


def test_a_tie_that_begins_with_the_last_sample_of_a_chunk():
    # the sum is 0 until then; inside the tie it is not defined
    p = np.append(np.zeros(CHUNK - 1), [0.5, 0.5])
    y = np.append(np.zeros(CHUNK, dtype=np.int64), 1)
    assert cutoff_calibration_error(y, p) == 0.0
    assert cutoff_calibration_error(y, np.where(p == 0.5, [*p[:-1], 0.75], p)) * p.size == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("y", "p", "interval", "signed"),
    [
        # cumulative residuals -.1, .5, -.3
        ([0, 1, 0], [0.1, 0.4, 0.8], (0.8, 0.8), -0.8),
        # .8, .5, -.2: from the start to the first, or from there to the last
        ([1, 0, 0], [0.2, 0.3, 0.7], (0.3, 0.7), -1.0),
        # -.2, .4, .8: the start is not the lowest
        ([0, 1, 1], [0.2, 0.4, 0.6], (0.4, 0.6), 1.0),
        ([0, 1], [0.5, 0.5], (0.5, 0.5), 0.0),
    ],
)
def test_the_interval_by_hand(y, p, interval, signed):
    found = cutoff_result(y, p)
    assert ((found.lower, found.upper), found.signed) == (interval, pytest.approx(signed / len(y)))
    assert found.value == pytest.approx(abs(signed) / len(y))
    assert found.value == pytest.approx(cutoff_calibration_error(y, p))


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


def test_certain_outcomes_leave_only_the_end_rows():
    grouped = GroupedOutcomes(np.array([0.0, 1.0]), np.array([5.0, 5.0]), np.array([0.0, 5.0]))
    assert bootstrap_margin(grouped, 0.9, 19, np.random.default_rng(0)) == pytest.approx(0.1)
