"""The cumulative residual walk over sorted distinct predictions, and its range."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import CHUNK, GroupedOutcomes, packed_sort

__all__ = ["WalkExtremes", "residual_walk", "walk_extremes", "walk_range", "walk_ranges"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class WalkExtremes:
    """Where the walk, started at 0, is highest and lowest.

    ``first`` and ``last`` are the indices of the groups that bound the interval between the two
    extremes, both included; ``signed`` is the residual sum over it: positive where events are more
    frequent than predicted. For an empty range the interval is the first group alone.
    """

    first: int
    last: int
    signed: float


def residual_walk(grouped: GroupedOutcomes) -> Array:
    """Return the walk of m + 1 values: 0, then the residual sum up to and including each group."""
    walk = np.zeros(grouped.prob.shape[0] + 1)
    np.cumsum(grouped.residual, out=walk[1:])
    return walk


def walk_extremes(walk: Array) -> WalkExtremes:
    """Locate the interval over which the residual sum is largest in absolute value."""
    high, low = int(walk.argmax()), int(walk.argmin())
    if high == low:
        return WalkExtremes(0, 0, 0.0)
    return WalkExtremes(
        min(high, low), max(high, low) - 1, float(walk[max(high, low)] - walk[min(high, low)])
    )


def walk_range(y: NDArray[np.int64], p: Array) -> float:
    """Return max - min of the unweighted walk, start included; O(n log n), one sort.

    Sums are taken in 64-bit fixed point with as many fraction bits as n leaves free (42 for a million
    rows): integer addition is exact and, unlike a chain of floating-point additions, not bound by latency.
    Truncating the predictions moves the result by at most n * 2**-bits, so the mean by 2**-bits.
    """
    key = packed_sort(y, p)
    n = key.shape[0]
    bits = 62 - max(10, n.bit_length())
    size = min(n, CHUNK)
    steps, value, whole = (np.empty(size, dtype=np.int64) for _ in range(3))
    last_of_tie = np.empty(size, dtype=bool)
    high = low = carry = 0
    for start in range(0, n, CHUNK):
        part = key[start : start + CHUNK]
        m = part.shape[0]
        step, prob, cast, ends = steps[:m], value[:m], whole[:m], last_of_tie[:m]
        np.right_shift(part, 1, out=prob)
        np.not_equal(prob[1:], prob[:-1], out=ends[:-1])
        ends[-1] = start + m == n or key[start + m] >> 1 != prob[-1]
        scaled = prob.view(np.float64)
        np.multiply(scaled, float(1 << bits), out=scaled)
        np.copyto(cast, scaled, casting="unsafe")
        np.bitwise_and(part, 1, out=step)
        np.left_shift(step, bits, out=step)
        np.subtract(step, cast, out=step)
        step[0] += carry
        np.cumsum(step, out=step)
        carry = int(step[-1])
        # inside a tie the walk has no value: only the last row of each counts
        seen = step if ends.all() else step[ends]
        if seen.shape[0]:
            high, low = max(high, int(seen.max())), min(low, int(seen.min()))
    return float(high - low) / float(1 << bits)


def walk_ranges(steps: Array) -> Array:
    """Return the range of each walk, its start at 0 included; ``steps`` (groups, r) become the walks."""
    walks = np.cumsum(steps, axis=0, out=steps)
    out: Array = np.maximum(walks.max(axis=0), 0.0) - np.minimum(walks.min(axis=0), 0.0)
    return out
