"""The residual walk, in floating and in fixed point."""

import numpy as np
import pytest

from sklearn_calib._core._grouping import CHUNK, group_outcomes
from sklearn_calib.metrics._cutoff import residual_walk, walk_extremes, walk_range, walk_ranges


@pytest.mark.parametrize("n", [1, 2, 7, 1000, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
@pytest.mark.parametrize("ties", [False, True])
def test_fixed_point_equals_floating_point(n, ties):
    rng = np.random.default_rng(n)
    p = rng.integers(0, 8, n) / 7 if ties else rng.random(n)
    y = (rng.random(n) < p).astype(np.int64)
    walk = residual_walk(group_outcomes(y, p))
    assert walk_range(y, p) / n == pytest.approx(np.ptp(walk) / n, abs=1e-12)


def test_a_tie_across_a_chunk_is_one_group():
    n = 2 * CHUNK + 10
    y = np.tile([0, 1], n // 2)
    assert walk_range(y, np.full(n, 0.5)) == 0.0
    for first in (y, y[::-1], np.sort(y), np.sort(y)[::-1]):
        assert walk_range(np.ascontiguousarray(first), np.full(n, 0.5)) == 0.0


def test_a_tie_that_begins_with_the_last_row_of_a_chunk():
    # the walk stays at 0 until then; inside the tie it has no value
    p = np.append(np.zeros(CHUNK - 1), [0.5, 0.5])
    y = np.append(np.zeros(CHUNK, dtype=np.int64), 1)
    assert walk_range(y, p) == 0.0
    assert walk_range(y, np.where(p == 0.5, [*p[:-1], 0.75], p)) == 0.5


def test_ranges_of_walks_by_hand():
    # .1 -.3 .2 .3: between -.2 and .3; the start counts where a walk stays on one side of it
    steps = np.array([[0.1, 0.1, -0.5], [-0.3, 0.2, 0.1], [0.2, 0.0, 0.1], [0.3, 0.1, 0.1]])
    np.testing.assert_allclose(walk_ranges(steps), [0.5, 0.4, 0.5])


def test_extremes():
    found = walk_extremes(np.array([0.0, -1.0, 2.0, 1.5]))
    assert (found.first, found.last, found.signed) == (1, 1, 3.0)
    found = walk_extremes(np.array([0.0, 1.0, -0.5, -2.0]))
    assert (found.first, found.last, found.signed) == (1, 2, -3.0)
    found = walk_extremes(np.array([0.0, 0.0]))
    assert found.signed == 0.0
