"""Samples redrawn from their predictions, summed in cells of neighbouring predictions."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._binning import quantile_bins
from sklearn_calib._core._bounds import whole_numbers
from sklearn_calib._core._grouping import GroupedOutcomes, group_starts
from sklearn_calib._core._null import draw_positives, spawn
from sklearn_calib._validation import BinarySample

__all__ = ["Redraws"]

Array = NDArray[np.float64]


class Redraws:
    """Sums of redrawn labels, Y* ~ Bernoulli(p), in cells of neighbouring predictions.

    ``prob`` and ``weight`` are mean prediction and weight of the cells, ``part`` the part in which each
    lies, and ``index`` the cell of each distinct prediction. Whole-numbered weights are numbers of labels,
    drawn one by one; other weights are those of single labels.

    Parameters
    ----------
    sample : BinarySample
        The rows.
    grouped : GroupedOutcomes
        The same, grouped.
    n_cells : int
        More distinct predictions than this are gathered in so many cells of equal mass. The sum of labels of
        a cell has the right mean, and a variance right to the square of its width.
    parts : ndarray of shape (groups,) or None
        Non-decreasing numbers: no cell has predictions of two of them.
    """

    def __init__(
        self,
        sample: BinarySample,
        grouped: GroupedOutcomes,
        n_cells: int,
        parts: NDArray[np.int64] | None = None,
    ) -> None:
        self._sample, self._distinct = sample, grouped.prob
        number = grouped.prob.shape[0]
        found = quantile_bins(grouped.weight, n_cells) if number > n_cells else np.arange(number)
        if parts is None:
            parts = np.zeros_like(found)
        # both do not decrease: a change of either one shows in the sum
        starts = group_starts(found + parts)
        self.part = parts[starts]
        self.index = np.repeat(np.arange(starts.shape[0]), np.diff(starts, append=number))
        self._cells = grouped.pooled(starts)
        self.prob, self.weight = self._cells.prob, self._cells.weight

    def draws(self, n_draws: int, generator: np.random.Generator) -> Iterator[Array]:
        """Yield the weight of positive labels of shape (cells, r), ``n_draws`` in all."""
        w = self._sample.w
        if w is None or whole_numbers(w):
            for positives in draw_positives(self._cells, n_draws, generator):
                yield positives.astype(np.float64)
            return
        (stream,) = spawn(generator, 1)
        # rows in an order that does not depend on how they came
        order = np.lexsort((w, self._sample.p))
        p, w = self._sample.p[order], w[order]
        cell = self.index[np.searchsorted(self._distinct, p)]
        for _ in range(n_draws):
            labels = stream.random(p.shape[0]) < p
            drawn = np.bincount(cell, weights=w * labels, minlength=self.weight.shape[0])
            yield drawn.astype(np.float64)[:, np.newaxis]
