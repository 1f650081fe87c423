"""Isotonic regression of grouped outcomes by pooling adjacent violators."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from sklearn_calib._core._grouping import GroupedOutcomes

__all__ = ["IsotonicFit", "fit_isotonic"]

Array = NDArray[np.float64]


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
