"""Isotonic least squares regression of grouped outcomes, and median regression of a sequence."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from sklearn_calib._core._blocks import block_sum, blocks
from sklearn_calib._core._grouping import CHUNK, GroupedOutcomes
from sklearn_calib._typing import Array

#: Values of a median regression that are fitted together; more are first divided, which needs less memory.
_FEW = 1 << 17


@dataclass(frozen=True, eq=False)
class IsotonicFit:
    """Blocks of the isotonic fit: smallest and largest prediction, event frequency, and total weight."""

    lower: Array
    upper: Array
    value: Array
    weight: Array


def fit_isotonic(grouped: GroupedOutcomes) -> IsotonicFit:
    """Fit the non-decreasing step function nearest in weighted squared error, O(m) for m groups."""
    m, positives, weight = grouped.prob.shape[0], grouped.positives, grouped.weight
    runs = _runs(m, lambda rows: positives[rows] / weight[rows])
    weight, positives = (np.add.reduceat(part, runs) for part in (weight, positives))
    edges = isotonic_regression(positives / weight, weights=weight).blocks
    starts, first = edges[:-1], runs[edges[:-1]]
    last = np.append(first[1:], m) - 1
    weight = np.add.reduceat(weight, starts)
    # the ratio of the sums, not the pooled mean of ratios, makes the residuals of a block cancel exactly
    value = np.add.reduceat(positives, starts) / weight
    return IsotonicFit(grouped.prob[first], grouped.prob[last], value, weight)


def _runs(n: int, values: Callable[[slice], Array]) -> NDArray[np.intp]:
    """Return the first of each run of n values that do not increase, which is in one block of the fit."""
    new = np.ones(n, dtype=bool)
    for rows in blocks(n):
        part = values(slice(rows.start, rows.stop + 1))
        new[rows.start + 1 : rows.stop + 1] = part[1:] > part[:-1]
    return np.flatnonzero(new)


def monotone_distance(values: Array, weights: Array) -> float:
    """Return the minimum of sum_i weights_i |values_i - D_i| over non-decreasing D, O(m log m).

    D takes some of the values, and the rank of each D_i is found bit by bit: whether it is at least
    ``low + step`` is a problem with only two neighboring values. Many values of the same ``low`` are divided
    where the sum over those before is least, of the weights of ranks of at least ``low + step`` less the
    other weights. Few values are then fitted together: the solution is where the least squares fit of the
    indicators exceeds 1/2, and different ``low`` keep the blocks that are already divided apart.

    ``values`` are overwritten.
    """
    found, rank = _ranks(values)
    levels = values[: found.shape[0]]
    levels[:] = found
    # frees the order of the values
    del found
    return _divided(levels, rank, weights, 0, 1 << (levels.shape[0] - 1).bit_length())


def _divided(levels: Array, rank: NDArray[np.int32], weights: Array, least: int, step: int) -> float:
    """Return the minimum over D whose ranks are at least ``least`` and less than ``least + step``."""
    n = rank.shape[0]
    if n <= _FEW or step == 1:
        low = np.full_like(rank, least)
        while step > 1 and n:
            step //= 2
            low += np.int32(step) * _upper(rank, low, step, weights)
        costs = block_sum(n, lambda rows: weights[rows] @ np.abs(levels[rank[rows]] - levels[low[rows]]))
        return float(costs)
    step //= 2
    cut, lowest, total = 0, 0.0, 0.0
    for rows in blocks(n):
        walk = np.where(rank[rows] >= least + step, weights[rows], -weights[rows])
        walk = np.cumsum(walk, out=walk)[::-1]
        last = int(walk.argmin())
        if total + walk[last] <= lowest:
            cut, lowest = rows.stop - last, total + walk[last]
        total += walk[0]
    lower = _divided(levels, rank[:cut], weights[:cut], least, step)
    return lower + _divided(levels, rank[cut:], weights[cut:], least + step, step)


def variation_distance(values: Array, weights: Array) -> float:
    """Return the minimum of sum_i weights_i |values_i - D_i| + sum_i |D_{i+1} - D_i| over D, O(m log m).

    As for :func:`monotone_distance`, the rank of each D_i is found bit by bit. Whether it is at least
    ``low + step`` is a problem with two levels, solved by dynamic programming: a walk is the excess of the
    least sum for the upper level at i over that for the lower one. Outside [-1, 1], and at the end, it
    decides, and otherwise the level at i + 1 does. Neighbors with another ``low`` are above or below both
    levels.
    """
    levels, rank = _ranks(values)
    low, step = np.zeros_like(rank), 1 << (levels.shape[0] - 1).bit_length()
    places = np.arange(rank.shape[0])
    while step > 1:
        step //= 2
        rise = np.sign(np.diff(low)).astype(np.float64)
        before, after = np.append(0.0, rise), np.append(rise, 0.0)
        bounds = np.where(before != 0.0, before, [[-1.0], [1.0]])
        bounds[:, 0] = 0.0
        excess = _clipped_walk(np.where(rank >= low + step, -weights, weights), bounds)
        decided = np.abs(excess) > 1.0
        decided[-1] = True
        upper = np.where(decided, excess < 0.0, after > 0.0)
        known = np.where(decided | (after != 0.0), places, rank.shape[0])
        low += np.int32(step) * upper[np.minimum.accumulate(known[::-1])[::-1]]
    found = levels[low]
    return float(weights @ np.abs(values - found)) + float(np.abs(np.diff(found)).sum())


def _clipped_walk(steps: Array, bounds: Array) -> Array:
    """Return the walk x_i = clip(x_{i-1}, bounds_i) + steps_i.

    Over an interval it is again a clipped shift. So the ends of about m^(1/2) intervals are found first, all
    intervals at a time, and the walks within them from there.
    """
    m = steps.shape[0]
    length = int(np.sqrt(m)) + 1
    pad = -m % length
    steps = np.append(steps, np.zeros(pad)).reshape(-1, length).T.copy()
    low, high = (np.append(each, np.zeros(pad)).reshape(-1, length).T.copy() for each in bounds)
    ends = np.outer([-np.inf, np.inf], np.ones(steps.shape[1]))
    for i in range(length):
        ends = np.minimum(np.maximum(ends, low[i]), high[i]) + steps[i]
    starts, x = [], 0.0
    for total, least, most in zip(steps.sum(axis=0).tolist(), *ends.tolist(), strict=True):
        starts.append(x)
        x = min(max(x + total, least), most)
    walk, at = np.empty_like(steps), np.array(starts)
    for i in range(length):
        at = np.minimum(np.maximum(at, low[i]), high[i]) + steps[i]
        walk[i] = at
    return walk.T.ravel()[:m]


def _upper(rank: NDArray[np.int32], low: NDArray[np.int32], step: int, weights: Array) -> NDArray[np.bool_]:
    """Return where the rank of D is at least ``low + step``, of many values through their runs."""
    values = 2.0 * low.astype(np.float64)
    values += rank >= low + step
    if rank.shape[0] <= CHUNK:
        return np.asarray(isotonic_regression(values, weights=weights).x > 2.0 * low + 0.5)
    runs = _runs(rank.shape[0], lambda rows: values[rows])
    values *= weights
    weight, values = (np.add.reduceat(part, runs) for part in (weights, values))
    values /= weight
    above = isotonic_regression(values, weights=weight).x > 2.0 * low[runs] + 0.5
    return np.repeat(above, np.diff(runs, append=rank.shape[0]))


def _ranks(values: Array) -> tuple[Array, NDArray[np.int32]]:
    """Return the distinct values, and the index of each value among them."""
    order = np.argsort(values).astype(np.int64, copy=False)
    # the distinct values take the place of the part of the order that is no longer needed
    levels, n_levels, last = order.view(np.float64), 0, np.nan
    rank = np.empty(values.shape[0], dtype=np.int32)
    for rows in blocks(values.shape[0]):
        part = values[order[rows]]
        new = part != np.append(last, part[:-1])
        rank[order[rows]] = np.cumsum(new) + (n_levels - 1)
        last, found = part[-1], part[new]
        levels[n_levels : n_levels + found.shape[0]] = found
        n_levels += found.shape[0]
    return levels[:n_levels], rank
