"""The sample that is resampled: of many distinct predictions, neighbours are averaged."""

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._validation import BinarySample

__all__ = ["MOST_DISTINCT", "cells_of", "condensed", "pooled", "rows_of"]

Array = NDArray[np.float64]

#: With more distinct predictions than this, floors and intervals are those of neighbours averaged.
MOST_DISTINCT = 4096
_CELLS = 2048


def cells_of(grouped: GroupedOutcomes, n_cells: int) -> NDArray[np.intp]:
    """Return the cell of each group, not decreasing: cells hold like parts of the rows and of the variance.

    Of rows alone, most cells would lie where rare events hardly ever are; of variance alone, none would lie
    among predictions of nearly 0 and 1. Some cells can be empty.
    """
    share = grouped.weight / grouped.total
    variance = grouped.variance
    share = 0.5 * (share + variance / variance.sum())
    middle = np.cumsum(share) - 0.5 * share
    return np.clip((middle * n_cells).astype(np.intp), 0, n_cells - 1)


def pooled(grouped: GroupedOutcomes, cell: NDArray[np.intp]) -> GroupedOutcomes:
    """Return one group for each cell that is not empty: its rows, its events, and its mean prediction."""
    cell = np.unique(cell, return_inverse=True)[1]
    weight, positives = (
        np.bincount(cell, weights=each).astype(np.float64) for each in (grouped.weight, grouped.positives)
    )
    expected = np.bincount(cell, weights=grouped.weight * grouped.prob)
    return GroupedOutcomes(np.clip(expected / weight, 0.0, 1.0), weight, positives)


def condensed(grouped: GroupedOutcomes, most: int = MOST_DISTINCT, n_cells: int = _CELLS) -> GroupedOutcomes:
    """Return the sample itself, or cells of neighbours if it has more than ``most`` predictions."""
    return grouped if grouped.prob.shape[0] <= most else pooled(grouped, cells_of(grouped, n_cells))


def rows_of(grouped: GroupedOutcomes) -> BinarySample:
    """Return the sample as two weighted rows, events and others, for each distinct prediction."""
    outcome = np.repeat(np.array([1, 0]), grouped.prob.shape[0])
    weight = np.concatenate((grouped.positives, grouped.weight - grouped.positives))
    used = weight > 0
    return BinarySample(outcome[used], np.tile(grouped.prob, 2)[used], weight[used])
