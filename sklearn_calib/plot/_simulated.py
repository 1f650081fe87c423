"""Outcomes simulated from predictions, summed in bins of neighboring predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._binning import quantile_bins
from sklearn_calib._core._grouping import GroupedOutcomes, group_starts
from sklearn_calib._core._null import bootstrap_counts, draw_null
from sklearn_calib._typing import Array


class SimulatedOutcomes:
    """Sums of simulated labels, Y* ~ Bernoulli(p), dependent within clusters, in bins of equal mass.

    ``prob``, ``weight`` and ``part`` are mean prediction, weight and part of the bins. The sum of labels of a
    bin has the exact mean, and a variance exact to the square of its width.
    """

    def __init__(self, grouped: GroupedOutcomes, n_bins: int, parts: NDArray[np.int64] | None = None) -> None:
        number = grouped.prob.shape[0]
        found = quantile_bins(grouped.weight, n_bins) if number > n_bins else np.arange(number)
        if parts is None:
            parts = np.zeros_like(found)
        # both are non-decreasing: a change of either one changes the sum
        starts = group_starts(found + parts)
        self.part = parts[starts]
        self._bins = grouped.pooled(starts)
        self.prob, self.weight = self._bins.prob, self._bins.weight

    def set_truth(self, truth: Array) -> None:
        """Simulate from these event probabilities of the bins, instead of from the predictions."""
        self._bins = replace(self._bins, prob=truth)

    def resample(self, n_resamples: int, generator: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        """Yield weights, and of positive labels, (bins, r), of bootstrap samples of whole clusters."""
        yield from bootstrap_counts(self._bins, n_resamples, generator)

    def simulate(self, n_resamples: int, generator: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        """Yield weights, (bins, 1) or (bins, r), and weights of positive labels, (bins, r)."""
        for weight, positives in draw_null(self._bins, n_resamples, generator):
            yield weight, positives.astype(np.float64)
