"""What chance alone makes of the risk gap, computed before anything is drawn."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib._core._null import monte_carlo_pvalue
from sklearn_calib._html import result_html
from sklearn_calib._validation import BinarySample
from sklearn_calib.metrics import DecisionRiskResult
from sklearn_calib.metrics._decision import decision_risks
from sklearn_calib.plot._redraws import Redraws

__all__ = ["RiskGapFloor", "risk_gap_floor"]

Array = NDArray[np.float64]

# Predictions are gathered in cells of equal mass, so many for each n^(1/3) rows. Where predictions are
# calibrated the best cut lies within some n^(-1/3) of the mass around the threshold: a cell is a small part.
_CELLS = 64.0


@dataclass(frozen=True, eq=False)
class RiskGapFloor:
    """The risk gap at each threshold if the predictions were perfectly calibrated.

    Attributes
    ----------
    thresholds : ndarray of shape (m,)
        Decision thresholds.
    mean : ndarray of shape (m,)
        Mean gap of calibrated predictions.
    quantile : ndarray of shape (m,)
        Upper quantile of each: calibrated predictions exceed it with probability 1 - ``confidence``.
    confidence : float
        Level of ``quantile``.
    pvalue : float
        Probability, if the predictions are calibrated, of a gap as large as the largest one observed at any
        of the thresholds.
    n_resamples : int
        Number of redrawn samples.
    """

    thresholds: Array = field(repr=False)
    mean: Array = field(repr=False)
    quantile: Array = field(repr=False)
    confidence: float
    pvalue: float
    n_resamples: int

    def __str__(self) -> str:
        worst = int(self.quantile.argmax())
        return (
            f"risk gap by chance alone: up to {self.quantile[worst]:.4f}, at threshold "
            f"{self.thresholds[worst]:.3g}, with probability {self.confidence:g} ({self.n_resamples} draws); "
            f"p-value of the largest gap {self.pvalue:.3g}"
        )

    def _repr_html_(self) -> str:
        worst = int(self.quantile.argmax())
        return result_html(
            "risk gap by chance alone",
            [
                ("up to", f"{self.quantile[worst]:.4f} with probability {self.confidence:g}"),
                ("at threshold", f"{self.thresholds[worst]:.3g}"),
                ("p-value of the largest gap", f"{self.pvalue:.3g}"),
                ("draws", str(self.n_resamples)),
            ],
        )


def risk_gap_floor(
    sample: BinarySample,
    result: DecisionRiskResult,
    confidence: float,
    n_resamples: int,
    generator: np.random.Generator,
) -> RiskGapFloor:
    """Return the risk gaps of samples whose outcomes are redrawn from the predictions.

    One isotonic fit for each draw, on cells that no threshold divides. Weights that are whole numbers are
    repetitions, each with an outcome of its own; other weights stay with their rows.
    """
    cells = _gathered(sample, group_outcomes(sample.y, sample.p, sample.w), result.thresholds)
    gaps = np.empty((n_resamples, result.thresholds.shape[0]))
    drawn = (positives for part in cells.draws(n_resamples, generator) for positives in part.T)
    for k, positives in enumerate(drawn):
        risk, best = decision_risks(GroupedOutcomes(cells.prob, cells.weight, positives), result.thresholds)
        gaps[k] = np.maximum(risk - best, 0.0)
    return RiskGapFloor(
        thresholds=result.thresholds,
        mean=gaps.mean(axis=0),
        quantile=np.quantile(gaps, confidence, axis=0, method="weibull"),
        confidence=confidence,
        pvalue=monte_carlo_pvalue(float(result.gap.max()), gaps.max(axis=1), 1e-12),
        n_resamples=n_resamples,
    )


def _gathered(sample: BinarySample, grouped: GroupedOutcomes, thresholds: Array) -> Redraws:
    """Gather predictions in cells of nearly equal mass that no threshold divides."""
    side = np.searchsorted(np.sort(thresholds), grouped.prob, side="right")
    return Redraws(sample, grouped, int(np.ceil(_CELLS * np.cbrt(grouped.total))), side)
