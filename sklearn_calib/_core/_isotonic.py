"""Isotonic least squares regression of grouped outcomes, and isotonic median regression of a sequence."""

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
