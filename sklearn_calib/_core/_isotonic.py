"""Isotonic regression of grouped outcomes, in squares; and that of any sequence in absolute values."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from sklearn_calib._core._grouping import GroupedOutcomes

__all__ = ["IsotonicFit", "fit_isotonic", "monotone_distance"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]

# Rows that are halved together: enough for the calls to cost little, few enough to stay in cache.
_ROWS = 1 << 16
# After so many halvings at values in the middle of a block, it goes on by bisection, which ends for certain.
_BY_VALUE = 40
# Weights become whole numbers that add up to less than 2 to this power: their sums are exact, and fast.
_UNIT_BITS = 60


@dataclass(frozen=True, eq=False)
class IsotonicFit:
    """Blocks of the isotonic fit, in increasing order.

    ``lower`` and ``upper`` are the smallest and largest prediction of each block, ``value`` is its
    event frequency, and ``weight`` its total weight.
    """

    lower: Array
    upper: Array
    value: Array
    weight: Array


def fit_isotonic(grouped: GroupedOutcomes) -> IsotonicFit:
    """Fit the non-decreasing step function nearest in weighted squared error, O(m) for m groups."""
    pooled = isotonic_regression(grouped.positives / grouped.weight, weights=grouped.weight)
    first, last = pooled.blocks[:-1], pooled.blocks[1:] - 1
    weight = np.add.reduceat(grouped.weight, first)
    # the ratio of the sums, not the pooled mean of ratios, makes the residuals of a block cancel exactly
    value = np.add.reduceat(grouped.positives, first) / weight
    return IsotonicFit(grouped.prob[first], grouped.prob[last], value, weight)


def monotone_distance(values: Array, weights: Array) -> float:
    """Return the minimum of sum_i weights_i |values_i - D_i| over non-decreasing D, about O(m log m).

    Between any two neighbouring values, the best D crosses once from below to above: at the place that costs
    least in the problem in which only above or below counts. To the left of it D is at most the lower value,
    to the right at least the upper one, and values that lie beyond can be moved there, for a cost that is
    certain. All blocks of rows are divided so at the same time. A block ends where no value before is
    greater than any after; one row alone costs nothing.

    Parameters
    ----------
    values : ndarray of shape (m,)
        Numbers from 0 on.
    weights : ndarray of shape (m,)
        Not negative, with a positive sum.
    """
    # a power of two loses no digits, and there is one for the smallest weights too
    shift = _UNIT_BITS - math.frexp(float(weights.sum()))[1]
    # the bits of floats that are not negative are ordered as these are, and integers are faster to compare
    key = (values + 0.0).view(np.int64)
    pieces = [(key, np.ldexp(weights, shift).astype(np.int64))]
    cost, halvings = 0.0, 0
    while pieces:
        left: list[tuple[Index, Index]] = []
        for piece in pieces:
            key, weight, ends = _blocks(*piece)
            for part in _parts(ends):
                rows = slice(int(ends[0, part][0]), int(ends[1, part][-1]) + 1)
                spent, *rest = _halve(
                    key[rows], weight[rows], ends[:, part] - rows.start, halvings < _BY_VALUE
                )
                cost += spent
                left.append((rest[0], rest[1]))
        pieces = _gathered(left)
        halvings += 1
    return math.ldexp(cost, -shift)


def _blocks(key: Index, weight: Index) -> tuple[Index, Index, NDArray[np.intp]]:
    """Return the rows of blocks of several values; and the first and last row of each, shape (2, blocks)."""
    change = np.ones(key.shape[0], dtype=bool)
    np.not_equal(key[1:], key[:-1], out=change[1:])
    starts = np.flatnonzero(change)
    if starts.shape[0] < 0.7 * key.shape[0]:
        # neighbours of one value have one D
        key, weight = key[starts], np.add.reduceat(weight, starts)
    begins = np.ones(key.shape[0] + 1, dtype=bool)
    below, above = np.maximum.accumulate(key), np.minimum.accumulate(key[::-1])[::-1]
    np.less_equal(below[:-1], above[1:], out=begins[1:-1])
    edges = np.flatnonzero(begins)
    size = np.diff(edges)
    size = size[size > 1]
    kept = np.flatnonzero(~(begins[1:] & begins[:-1]))
    if kept.shape[0] < key.shape[0]:
        key, weight = key[kept], weight[kept]
    last = np.cumsum(size) - 1
    return key, weight, np.stack((last - size + 1, last))


def _parts(ends: NDArray[np.intp]) -> Iterator[slice]:
    """Cut the blocks into parts of about as many rows as are halved together."""
    if ends.shape[1]:
        wanted = np.searchsorted(ends[0], np.arange(_ROWS, ends[1, -1] + 1, _ROWS))
        cuts = np.unique(np.concatenate(([0], wanted, [ends.shape[1]])))
        yield from (slice(first, last) for first, last in pairwise(cuts.tolist()))


def _gathered(parts: list[tuple[Index, Index]]) -> list[tuple[Index, Index]]:
    """Join neighbouring parts that have become small; those without rows vanish."""
    groups: list[list[tuple[Index, Index]]] = []
    room = 0
    for part in parts:
        size = part[0].shape[0]
        if size == 0:
            continue
        if size > room:
            groups.append([])
            room = _ROWS
        groups[-1].append(part)
        room -= size
    return [
        group[0]
        if len(group) == 1
        else (np.concatenate([k for k, _ in group]), np.concatenate([w for _, w in group]))
        for group in groups
    ]


def _halve(key: Index, weight: Index, ends: NDArray[np.intp], by_value: bool) -> tuple[float, Index, Index]:
    """Divide each block at a value of its own; return the cost of moving rows there, and what is left."""
    first, last = ends
    size = last - first + 1
    low, high = np.minimum.reduceat(key, first), np.maximum.reduceat(key, first)
    inside = np.flatnonzero((key > np.repeat(low, size)) & (key < np.repeat(high, size)))
    begin = np.searchsorted(inside, first)
    number = np.diff(begin, append=inside.shape[0])
    # two values are divided above the lower one, and that is the end
    more = number > 0
    middle = high.copy()
    middle[more] = low[more] + (high[more] - low[more]) // 2
    if by_value:
        # a median of three stands for the median
        begin, number = begin[more], number[more]
        one, two, three = (key[inside[begin + k * number // 6]] for k in (1, 3, 5))
        middle[more] = np.maximum(np.minimum(one, two), np.minimum(np.maximum(one, two), three))
    target = np.repeat(middle, size)
    under = key < target
    balance = np.cumsum(np.where(under, weight, -weight))
    most = np.maximum.reduceat(balance, first)
    best = np.flatnonzero(balance == np.repeat(most, size))
    cut = best[np.searchsorted(best, first)] + 1
    cut = np.where(most > np.append(0, balance[last[:-1]]), cut, first)
    moved = np.flatnonzero((np.arange(key.shape[0]) < np.repeat(cut, size)) != under)
    goal = target[moved]
    way = np.abs(key[moved].view(np.float64) - goal.view(np.float64))
    new = key.copy()
    new[moved] = goal
    if not more.all():
        stays = np.repeat(more, size)
        span = np.repeat(high.view(np.float64) - low.view(np.float64), size)
        way = np.where(stays[moved], way, span[moved])
        new, kept = new[stays], weight[stays]
    else:
        kept = weight
    return float(weight[moved] @ way), new, kept
