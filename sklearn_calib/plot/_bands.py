"""Bands of reliability curves, and the limits of one frequency."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from sklearn_calib import _validation
from sklearn_calib._frame import FrameMixin
from sklearn_calib._typing import Array


class Departure(NamedTuple):
    """A range of predictions whose band lies entirely on one side of the diagonal, "above" or "below"."""

    start: float
    stop: float
    side: str


@dataclass(frozen=True, eq=False)
class ReliabilityBand(FrameMixin):
    """Confidence, consistency or bootstrap band of a reliability curve.

    Attributes
    ----------
    kind : {"confidence", "consistency", "simultaneous", "bootstrap"}
        "confidence": pointwise, for the event frequency. "consistency": pointwise, where the curve would lie
        under perfect calibration. "simultaneous": for the whole curve of event probabilities, assuming that
        it is non-decreasing. "bootstrap": pointwise, where the curves of bootstrap samples lie; not a
        confidence band for event probabilities.
    confidence : float
        Confidence level; the fraction of the curves for "bootstrap".
    predicted : ndarray of shape (m,)
        Predictions, non-decreasing. A value occurs twice where the limits jump.
    lower, upper : ndarray of shape (m,)
        Limits at these predictions, joined by straight lines unless ``bars``.
    bars : bool
        Whether the limits hold only at the points themselves.
    """

    _columns_in = ("predicted", "lower", "upper")

    kind: str
    confidence: float
    predicted: Array = field(repr=False)
    lower: Array = field(repr=False)
    upper: Array = field(repr=False)
    bars: bool = False

    @property
    def label(self) -> str:
        """Description of the band, for a legend."""
        level = f"{100 * self.confidence:.6g}%"
        if self.kind == "bootstrap":
            return f"{level} of bootstrap curves (pointwise)"
        kind = "consistency" if self.kind == "consistency" else "confidence"
        extent = "simultaneous" if self.kind == "simultaneous" else "pointwise"
        text = f"{level} {kind} {'intervals' if self.bars else 'band'} ({extent})"
        return text + ", limits cross" * (self.kind == "simultaneous" and self.crosses)

    @property
    def crosses(self) -> bool:
        """Whether the lower limit lies above the upper one somewhere.

        For "simultaneous" this rejects, at its level, that event probabilities are non-decreasing in the
        prediction.
        """
        return bool((self.lower > self.upper).any())

    @property
    def departures(self) -> tuple[Departure, ...]:
        """Ranges of predictions, between the first and the last, whose band excludes the diagonal.

        For "simultaneous", any such range rejects perfect calibration at the level of the band.
        """
        x = self.predicted
        above = self.lower > x
        found: list[Departure] = []
        for inside, gap, side in (
            (above, self.lower - x, "above"),
            ((self.upper < x) & ~above, x - self.upper, "below"),
        ):
            rows = np.flatnonzero(inside)
            for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1) if rows.size else ():
                i, j = int(run[0]), int(run[-1])
                # a line from one point to the next, if any, crosses the diagonal at one place at most
                start = x[i] if i == 0 or np.isnan(gap[i - 1]) else _zero(x, gap, i - 1)
                stop = x[j] if j == x.shape[0] - 1 or np.isnan(gap[j + 1]) else _zero(x, gap, j)
                found.append(Departure(float(start), float(stop), side))
        return tuple(sorted(found))

    def at(self, predicted: ArrayLike) -> tuple[Array, Array]:
        """Return the limits at other predictions; NaN outside the range of the band.

        Where the limits jump, this is the lower limit to the right and the upper limit to the left.

        Parameters
        ----------
        predicted : array-like of shape (k,)
            Predictions.

        Returns
        -------
        lower, upper : ndarrays of shape (k,)
        """
        t = _validation.check_numbers(predicted, "predicted")
        x = self.predicted
        outside = (t < x[0]) | (t > x[-1])
        # the last point that is not beyond t, and the first one that is not before it
        left = np.clip(np.searchsorted(x, t, side="right") - 1, 0, x.shape[0] - 1)
        right = np.clip(np.searchsorted(x, t, side="left"), 0, x.shape[0] - 1)
        span = x[right] - x[left]
        fraction = np.divide(t - x[left], span, out=np.zeros_like(t), where=span > 0)
        limits = []
        for values, on_jump in ((self.lower, left), (self.upper, right)):
            between = values[left] + fraction * (values[right] - values[left])
            limits.append(np.where(outside, np.nan, np.where(span > 0, between, values[on_jump])))
        return limits[0], limits[1]

    def __str__(self) -> str:
        found = ", ".join(f"{part.start:.3g} to {part.stop:.3g} ({part.side})" for part in self.departures)
        return f"{self.label}; " + (f"excludes the diagonal in {found}" if found else "contains the diagonal")


def _zero(x: Array, gap: Array, i: int) -> float:
    """Return where the line from (x[i], gap[i]) to the next point is zero."""
    fraction = gap[i] / (gap[i] - gap[i + 1])
    return float(x[i] + fraction * (x[i + 1] - x[i]))


def equivalent_trials(prob: Array, curves: Array, confidence: float) -> Array:
    """Return the number of independent trials whose frequency varies as curves do, shape (m, r).

    The curves are simulated from ``prob``. The number is z^2 q (1 - q) / h^2, where h is half the width of
    their central interval, or z times their standard deviation if that is larger, as for rare events.
    """
    z = float(ndtri(0.5 + confidence / 2))
    lower, upper = np.quantile(curves, [0.5 - confidence / 2, 0.5 + confidence / 2], axis=1)
    half = np.maximum(0.5 * (upper - lower), z * curves.std(axis=1))
    with np.errstate(divide="ignore"):
        return np.asarray(z**2 * prob * (1.0 - prob) / half**2)


def pointwise_band(
    kind: str, confidence: float, predicted: Array, curves: Array, bars: bool
) -> ReliabilityBand:
    """Return pointwise quantiles of simulated curves, shape (m, r)."""
    risk = 0.5 * (1.0 - confidence)
    lower, upper = np.clip(np.quantile(curves, [risk, 1.0 - risk], axis=1), 0.0, 1.0)
    return ReliabilityBand(kind, confidence, predicted, lower, upper, bars)
