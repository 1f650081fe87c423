"""Outcomes simulated from predictions, summed in bins of neighbouring predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._binning import quantile_bins
from sklearn_calib._core._bounds import whole_numbers
from sklearn_calib._core._grouping import GroupedOutcomes, group_starts
from sklearn_calib._core._null import bootstrap_counts, draw_positives, spawn
from sklearn_calib._typing import Array
from sklearn_calib._validation import BinarySample


class SimulatedOutcomes:
    """Sums of simulated labels, Y* ~ Bernoulli(p), dependent within clusters, in bins of equal mass.

    ``prob``, ``weight`` and ``part`` are mean prediction, weight and part of the bins, ``index`` the bin of
    each distinct prediction. The sum of labels of a bin has the exact mean, and a variance exact to the
    square of its width. Integer weights are numbers of independent labels, others those of single labels.
    """

    def __init__(
        self,
        sample: BinarySample,
        grouped: GroupedOutcomes,
        n_bins: int,
        parts: NDArray[np.int64] | None = None,
    ) -> None:
        self._sample, self._distinct = sample, grouped.prob
        number = grouped.prob.shape[0]
        found = quantile_bins(grouped.weight, n_bins) if number > n_bins else np.arange(number)
        if parts is None:
            parts = np.zeros_like(found)
        # both are non-decreasing: a change of either one changes the sum
        starts = group_starts(found + parts)
        self.part = parts[starts]
        self.index = np.repeat(np.arange(starts.shape[0]), np.diff(starts, append=number))
        self._bins = grouped.pooled(starts)
        self.prob, self.weight = self._bins.prob, self._bins.weight

    def set_truth(self, truth: Array) -> None:
        """Simulate from these event probabilities of the bins, instead of from the predictions."""
        self._bins = replace(self._bins, prob=truth)

    def resample(self, n_resamples: int, generator: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        """Yield weights of positive labels and of all, (bins, r), of bootstrap samples of whole clusters."""
        for weight, positives in bootstrap_counts(self._bins, n_resamples, generator):
            yield positives, weight

    def simulate(self, n_resamples: int, generator: np.random.Generator) -> Iterator[Array]:
        """Yield the weights of positive labels of shape (bins, r), ``n_resamples`` in all."""
        w = self._sample.w
        if w is None or whole_numbers(w):
            for positives in draw_positives(self._bins, n_resamples, generator):
                yield positives.astype(np.float64)
            return
        (stream,) = spawn(generator, 1)
        # an order that does not depend on that of the input
        order = np.lexsort((w, self._sample.p))
        p, w = self._sample.p[order], w[order]
        bin_of = self.index[np.searchsorted(self._distinct, p)]
        for _ in range(n_resamples):
            labels = stream.random(p.shape[0]) < p
            positives = np.bincount(bin_of, weights=w * labels, minlength=self.weight.shape[0])
            yield positives.astype(np.float64)[:, np.newaxis]
