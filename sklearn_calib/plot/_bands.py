"""Bands of reliability curves, of the kind that is asked for, whatever the curve is."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes, group_starts
from sklearn_calib._validation import BinarySample
from sklearn_calib.plot._curve import ReliabilityBand, ReliabilityCurve
from sklearn_calib.plot._redraws import Redraws
from sklearn_calib.plot._smooth_curve import Smoother

__all__ = ["binned_consistency", "corp_consistency", "smooth_consistency"]

Array = NDArray[np.float64]

# Redrawn samples have at most so many distinct predictions.
_CELLS = 4096
# The isotonic band is drawn at so many of the predictions.
_POINTS = 400


def _band(
    redraws: Redraws,
    n_draws: int,
    generator: np.random.Generator,
    confidence: float,
    predicted: Array,
    curve_of: Callable[[Array], Array],
    *,
    bars: bool = False,
) -> ReliabilityBand:
    """Return quantiles of redrawn curves at each point, as far apart as ``confidence`` says."""
    curves = np.concatenate([curve_of(positives) for positives in redraws.draws(n_draws, generator)], axis=1)
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
    redraws = Redraws(rows, group_outcomes(rows.y, rows.p, rows.w), _CELLS)
    shown = np.where(np.isfinite(curve.observed), 1.0, np.nan)[:, np.newaxis]
    return _band(
        redraws,
        n_draws,
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
    redraws = Redraws(sample, grouped, _CELLS, bin_of)
    starts = group_starts(redraws.part)
    mass = np.add.reduceat(redraws.weight, starts)[:, np.newaxis]
    return _band(
        redraws,
        n_draws,
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
    redraws = Redraws(sample, grouped, _CELLS)
    n_cells = redraws.prob.shape[0]
    chosen = np.unique(np.rint(np.linspace(0, n_cells - 1, min(_POINTS, n_cells))).astype(np.int64))

    def fits(sums: Array) -> Array:
        frequencies = sums / redraws.weight[:, np.newaxis]
        return np.stack(
            [isotonic_regression(column, weights=redraws.weight).x[chosen] for column in frequencies.T],
            axis=1,
        )

    return _band(redraws, n_draws, generator, confidence, redraws.prob[chosen], fits)
