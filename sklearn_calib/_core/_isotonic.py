"""Isotonic least squares regression of grouped outcomes, and isotonic median regression of a sequence."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._typing import Array

Index = NDArray[np.int64]

# Elements that are processed together: large enough to amortize calls, small enough for the cache.
_ROWS = 1 << 16
# After this many divisions at pivots from the data, blocks are divided by bisection, which always terminates.
_BY_VALUE = 40
# Weights are scaled to integers whose sum is below 2 to this power: integer sums are exact and fast.
_UNIT_BITS = 60


@dataclass(frozen=True, eq=False)
class IsotonicFit:
    """Blocks of the isotonic fit: smallest and largest prediction, event frequency, and total weight."""

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

    For two neighbouring values, the optimal D crosses once from the lower to the upper one: at the minimum of
    the problem with only these two values. To the left of it D is at most the lower value, to the right at
    least the upper one, and values beyond can be moved there at a known cost. All blocks are divided in this
    way at the same time. A block ends where no value before is greater than any after; a block of one element
    costs nothing.
    """
    # scaling by a power of two is exact
    shift = _UNIT_BITS - math.frexp(float(weights.sum()))[1]
    # the bits of non-negative floats have the order of the floats, and integers are faster to compare
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
    """Return the elements of blocks with several values, and the first and last index of each block."""
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
    """Yield slices of the blocks with about ``_ROWS`` elements each."""
    if ends.shape[1]:
        wanted = np.searchsorted(ends[0], np.arange(_ROWS, ends[1, -1] + 1, _ROWS))
        cuts = np.unique(np.concatenate(([0], wanted, [ends.shape[1]])))
        yield from (slice(first, last) for first, last in pairwise(cuts.tolist()))


def _gathered(parts: list[tuple[Index, Index]]) -> list[tuple[Index, Index]]:
    """Concatenate neighbouring small parts, and drop empty ones."""
    groups: list[list[tuple[Index, Index]]] = []
    capacity = 0
    for part in parts:
        size = part[0].shape[0]
        if size == 0:
            continue
        if size > capacity:
            groups.append([])
            capacity = _ROWS
        groups[-1].append(part)
        capacity -= size
    return [
        group[0]
        if len(group) == 1
        else (np.concatenate([k for k, _ in group]), np.concatenate([w for _, w in group]))
        for group in groups
    ]


def _halve(key: Index, weight: Index, ends: NDArray[np.intp], by_value: bool) -> tuple[float, Index, Index]:
    """Divide each block at a pivot; return the cost of moving elements to it, and the remaining elements."""
    first, last = ends
    size = last - first + 1
    low, high = np.minimum.reduceat(key, first), np.maximum.reduceat(key, first)
    inside = np.flatnonzero((key > np.repeat(low, size)) & (key < np.repeat(high, size)))
    begin = np.searchsorted(inside, first)
    number = np.diff(begin, append=inside.shape[0])
    # a block with two values is divided above the lower one, and then finished
    more = number > 0
    middle = high.copy()
    middle[more] = low[more] + (high[more] - low[more]) // 2
    if by_value:
        # the median of three elements approximates the median
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
