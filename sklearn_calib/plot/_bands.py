"""Bands of reliability curves, of the kind that is asked for, whatever the curve is."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from sklearn_calib._core._binning import quantile_bins
from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes, group_starts
from sklearn_calib._core._null import draw_positives, spawn
from sklearn_calib._validation import BinarySample
from sklearn_calib.plot._curve import ReliabilityBand, ReliabilityCurve
from sklearn_calib.plot._smooth_curve import Smoother

__all__ = ["binned_consistency", "corp_consistency", "smooth_consistency"]

Array = NDArray[np.float64]

# Redrawn samples have at most so many distinct predictions: more are gathered at their means, in cells of
# equal mass. The sum of labels of a cell has the right mean, and a variance right to the square of its width.
_CELLS = 4096
# The isotonic band is drawn at so many of the predictions.
_POINTS = 400


class _Redraws:
    """Sums of redrawn labels, Y* ~ Bernoulli(p), in cells of neighbouring predictions.

    ``prob`` and ``weight`` are mean prediction and weight of the cells, and ``index`` the cell of each
    distinct prediction; no cell has predictions of two ``parts``. Whole-numbered weights are numbers of
    labels, drawn one by one; other weights are those of single labels.
    """

    def __init__(
        self,
        sample: BinarySample,
        grouped: GroupedOutcomes,
        n_draws: int,
        parts: NDArray[np.int64] | None = None,
    ) -> None:
        self.sample, self.n_draws = sample, n_draws
        self.distinct = grouped.prob
        if grouped.prob.shape[0] > _CELLS:
            found = quantile_bins(grouped, _CELLS)
        else:
            found = np.arange(grouped.prob.shape[0])
        if parts is None:
            parts = np.zeros_like(found)
        # both do not decrease: a change of either one shows in the sum
        starts = group_starts(found + parts)
        self.part = parts[starts]
        self.index = np.repeat(np.arange(starts.shape[0]), np.diff(starts, append=found.shape[0]))
        self.weight = np.add.reduceat(grouped.weight, starts)
        # rounding must not carry a mean beyond 1
        self.prob = np.clip(np.add.reduceat(grouped.weight * grouped.prob, starts) / self.weight, 0.0, 1.0)

    def draws(self, generator: np.random.Generator) -> Iterator[Array]:
        """Yield the weight of positive labels of shape (cells, r), ``n_draws`` in all."""
        w = self.sample.w
        if w is None or np.array_equal(w, np.rint(w)):
            cells = GroupedOutcomes(self.prob, self.weight, np.zeros_like(self.weight))
            for positives in draw_positives(cells, self.n_draws, generator):
                yield positives.astype(np.float64)
            return
        (stream,) = spawn(generator, 1)
        # rows in an order that does not depend on how they came
        order = np.lexsort((w, self.sample.p))
        p, w = self.sample.p[order], w[order]
        cell = self.index[np.searchsorted(self.distinct, p)]
        for _ in range(self.n_draws):
            labels = stream.random(p.shape[0]) < p
            drawn = np.bincount(cell, weights=w * labels, minlength=self.weight.shape[0])
            yield drawn.astype(np.float64)[:, np.newaxis]


def _band(
    redraws: _Redraws,
    generator: np.random.Generator,
    confidence: float,
    predicted: Array,
    curve_of: Callable[[Array], Array],
    *,
    bars: bool = False,
) -> ReliabilityBand:
    """Return quantiles of redrawn curves at each point, as far apart as ``confidence`` says."""
    curves = np.concatenate([curve_of(positives) for positives in redraws.draws(generator)], axis=1)
    risk = 0.5 * (1.0 - confidence)
    lower, upper = np.quantile(curves, [risk, 1.0 - risk], axis=1)
    return ReliabilityBand("consistency", confidence, predicted, lower, upper, bars)


def smooth_consistency(
    curve: ReliabilityCurve,
    smoother: Smoother,
    confidence: float,
    n_draws: int,
    generator: np.random.Generator,
) -> ReliabilityBand:
    """Return the band of a smooth curve where it is drawn, at its bandwidth."""
    rows = smoother.rows
    redraws = _Redraws(rows, group_outcomes(rows.y, rows.p, rows.w), n_draws)
    shown = np.where(np.isfinite(curve.observed), 1.0, np.nan)[:, np.newaxis]
    return _band(
        redraws,
        generator,
        confidence,
        curve.predicted,
        lambda sums: shown * smoother.smooth(redraws.prob, sums),
    )


def binned_consistency(
    sample: BinarySample,
    grouped: GroupedOutcomes,
    bin_of: NDArray[np.int64],
    predicted: Array,
    confidence: float,
    n_draws: int,
    generator: np.random.Generator,
) -> ReliabilityBand:
    """Return bars at the bins of the groups, whose numbers do not decrease."""
    redraws = _Redraws(sample, grouped, n_draws, bin_of)
    starts = group_starts(redraws.part)
    mass = np.add.reduceat(redraws.weight, starts)[:, np.newaxis]
    return _band(
        redraws,
        generator,
        confidence,
        predicted,
        lambda sums: np.add.reduceat(sums, starts, axis=0) / mass,
        bars=True,
    )


def corp_consistency(
    sample: BinarySample,
    grouped: GroupedOutcomes,
    confidence: float,
    n_draws: int,
    generator: np.random.Generator,
) -> ReliabilityBand:
    """Return the band of the isotonic fit."""
    redraws = _Redraws(sample, grouped, n_draws)
    n_cells = redraws.prob.shape[0]
    chosen = np.unique(np.rint(np.linspace(0, n_cells - 1, min(_POINTS, n_cells))).astype(np.int64))

    def fits(sums: Array) -> Array:
        frequencies = sums / redraws.weight[:, np.newaxis]
        return np.stack(
            [isotonic_regression(column, weights=redraws.weight).x[chosen] for column in frequencies.T],
            axis=1,
        )

    return _band(redraws, generator, confidence, redraws.prob[chosen], fits)
