"""Isotonic least squares regression of grouped outcomes, and median regression of a sequence."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from sklearn_calib._core._grouping import CHUNK, GroupedOutcomes
from sklearn_calib._typing import Array


@dataclass(frozen=True, eq=False)
class IsotonicFit:
    """Blocks of the isotonic fit: smallest and largest prediction, event frequency, and total weight."""

    lower: Array
    upper: Array
    value: Array
    weight: Array


def fit_isotonic(grouped: GroupedOutcomes) -> IsotonicFit:
    """Fit the non-decreasing step function nearest in weighted squared error, O(m) for m groups."""
    runs = _runs(grouped.positives / grouped.weight)
    weight, positives = (np.add.reduceat(part, runs) for part in (grouped.weight, grouped.positives))
    edges = isotonic_regression(positives / weight, weights=weight).blocks
    starts, first = edges[:-1], runs[edges[:-1]]
    last = np.append(first[1:], grouped.prob.shape[0]) - 1
    weight = np.add.reduceat(weight, starts)
    # the ratio of the sums, not the pooled mean of ratios, makes the residuals of a block cancel exactly
    value = np.add.reduceat(positives, starts) / weight
    return IsotonicFit(grouped.prob[first], grouped.prob[last], value, weight)


def _runs(values: Array) -> NDArray[np.intp]:
    """Return the first of each run of values that do not increase, which is in one block of the fit."""
    return np.flatnonzero(np.append(True, values[1:] > values[:-1]))


def monotone_distance(values: Array, weights: Array) -> float:
    """Return the minimum of sum_i weights_i |values_i - D_i| over non-decreasing D, O(m log m).

    D takes some of the values, and the rank of each D_i is found bit by bit: whether it is at least
    ``low + step`` is a problem with only two neighboring values, whose solution is where the least squares
    fit of its indicators exceeds 1/2. Different ``low`` keep the blocks that are already divided apart.
    """
    levels, rank = _ranks(values)
    low, step = np.zeros_like(rank), 1 << (levels.shape[0] - 1).bit_length()
    while step > 1:
        step //= 2
        low += np.int32(step) * (_regression(2.0 * low + (rank >= low + step), weights) > 2.0 * low + 0.5)
    return float(weights @ np.abs(values - levels[low]))


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


def _regression(values: Array, weights: Array) -> Array:
    """Return the isotonic fit, of many values through their runs; ``values`` are overwritten."""
    if values.shape[0] <= CHUNK:
        return np.asarray(isotonic_regression(values, weights=weights).x)
    runs = _runs(values)
    values *= weights
    weight = np.add.reduceat(weights, runs)
    fit = isotonic_regression(np.add.reduceat(values, runs) / weight, weights=weight).x
    return np.repeat(fit, np.diff(runs, append=values.shape[0]))


def _ranks(values: Array) -> tuple[Array, NDArray[np.int32]]:
    """Return the distinct values, and the index of each value among them."""
    order = np.argsort(values)
    levels = values[order]
    new = np.append(False, levels[1:] != levels[:-1])
    rank = np.empty(values.shape[0], dtype=np.int32)
    rank[order] = np.cumsum(new, dtype=np.int32)
    new[0] = True
    return levels[new], rank
