"""Isotonic least squares regression of grouped outcomes, and isotonic median regression of a sequence."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from sklearn_calib._core._grouping import GroupedOutcomes
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
    frequency = grouped.positives / grouped.weight
    # neighbors whose frequencies do not increase are in one block
    runs = np.flatnonzero(np.append(True, frequency[1:] > frequency[:-1]))
    del frequency
    weight, positives = (np.add.reduceat(part, runs) for part in (grouped.weight, grouped.positives))
    edges = isotonic_regression(positives / weight, weights=weight).blocks
    starts, first = edges[:-1], runs[edges[:-1]]
    last = np.append(first[1:], grouped.prob.shape[0]) - 1
    weight = np.add.reduceat(weight, starts)
    # the ratio of the sums, not the pooled mean of ratios, makes the residuals of a block cancel exactly
    value = np.add.reduceat(positives, starts) / weight
    return IsotonicFit(grouped.prob[first], grouped.prob[last], value, weight)


def monotone_distance(values: Array, weights: Array) -> float:
    """Return the minimum of sum_i weights_i |values_i - D_i| over non-decreasing D, O(m log m).

    D takes some of the values, and the rank of each D_i is found bit by bit: whether it is at least
    ``low + step`` is a problem with only two neighboring values, whose solution is where the least squares
    fit of its indicators exceeds 1/2. Different ``low`` keep the blocks that are already divided apart.
    """
    levels, rank = np.unique(values, return_inverse=True)
    low, step = np.zeros_like(rank), 1 << (levels.shape[0] - 1).bit_length()
    while step > 1:
        step //= 2
        fit = isotonic_regression(2.0 * low + (rank >= low + step), weights=weights).x
        low += step * (fit > 2.0 * low + 0.5)
    return float(weights @ np.abs(values - levels[low]))
