"""What a reliability diagram shows, computed before anything is drawn."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._html import result_html
from sklearn_calib._validation import BinarySample, check_numbers, check_size
from sklearn_calib.inference import confidence_interval
from sklearn_calib.metrics import ScoreDecomposition
from sklearn_calib.plot._distribution import Distribution, EdgePredictions

if TYPE_CHECKING:
    from sklearn_calib.plot._belt import CalibrationBelt

__all__ = [
    "Departure",
    "ReliabilityBand",
    "ReliabilityCurve",
    "p_text",
    "with_error_interval",
]

Array = NDArray[np.float64]


class Departure(NamedTuple):
    """A range of predictions in which a band lies ``side`` the diagonal: "above" or "below" it."""

    start: float
    stop: float
    side: str


@dataclass(frozen=True, eq=False)
class ReliabilityBand:
    """Limits of a reliability curve, and what they are limits of.

    Attributes
    ----------
    kind : {"confidence", "consistency", "simultaneous", "belt", "folds"}
        "confidence": pointwise, for the event frequency. "consistency": pointwise, where the curve would lie
        if the predictions were perfectly calibrated. "simultaneous": for the whole curve of event
        probabilities, if that does not decrease. "belt": for the whole polynomial curve on the logit axis.
        "folds": one standard deviation between the curves of folds to either side of their mean.
    confidence : float
        Its level; NaN for "folds".
    predicted : ndarray of shape (m,)
        Predictions, non-decreasing. A value stands twice where the limits jump.
    lower, upper : ndarray of shape (m,)
        Limits there, which are joined by straight lines, unless ``bars``.
    bars : bool
        Whether the limits hold only at the points themselves.
    """

    kind: str
    confidence: float
    predicted: Array = field(repr=False)
    lower: Array = field(repr=False)
    upper: Array = field(repr=False)
    bars: bool = False

    @property
    def label(self) -> str:
        """What the band is, for a legend."""
        if self.kind == "folds":
            return "± 1 standard deviation of folds"
        level = f"{100 * self.confidence:.6g} %"
        return f"{level} " + {
            "confidence": "confidence, pointwise",
            "consistency": "consistency, pointwise",
            "simultaneous": "confidence, simultaneous",
            "belt": "calibration belt",
        }.get(self.kind, self.kind)

    @property
    def crosses(self) -> bool:
        """Whether the lower limit lies above the upper one somewhere.

        For "simultaneous" this contradicts, at its level, that event probabilities do not decrease with the
        prediction.
        """
        return bool((self.lower > self.upper).any())

    @property
    def departures(self) -> tuple[Departure, ...]:
        """Ranges of predictions, between the first and the last, whose band leaves out the diagonal.

        For "simultaneous" and "belt", any such range rejects perfect calibration at the level of the band.
        """
        x = self.predicted
        sides = np.where(self.lower > x, 1, np.where(self.upper < x, -1, 0))
        # a line from one point to the next crosses the diagonal at one place at most
        found: list[Departure] = []
        for side, gap, word in (
            (1, self.lower - x, "above"),
            (-1, x - self.upper, "below"),
        ):
            inside = (sides == side).astype(np.int64)
            first = np.flatnonzero(np.diff(inside, prepend=0) == 1)
            last = np.flatnonzero(np.diff(inside, append=0) == -1)
            for i, j in zip(first.tolist(), last.tolist(), strict=True):
                start = x[i] if i == 0 else _zero(x, gap, i - 1)
                stop = x[j] if j == x.shape[0] - 1 else _zero(x, gap, j)
                found.append(Departure(float(start), float(stop), word))
        return tuple(sorted(found))

    def at(self, predicted: Array) -> tuple[Array, Array]:
        """Return the limits at other predictions; NaN beyond the ends.

        Where the limits jump, the lower one is that to the right, the upper one that to the left.

        Parameters
        ----------
        predicted : array-like of shape (k,)
            Predictions.

        Returns
        -------
        lower, upper : ndarrays of shape (k,)

        Raises
        ------
        ValueError
            If ``predicted`` holds anything but numbers.
        """
        t = check_numbers(predicted, "predicted")
        x = self.predicted
        outside = (t < x[0]) | (t > x[-1])
        # the last point that is not beyond t, and the first one that is not before it
        left = np.clip(np.searchsorted(x, t, side="right") - 1, 0, x.shape[0] - 1)
        right = np.clip(np.searchsorted(x, t, side="left"), 0, x.shape[0] - 1)
        span = x[right] - x[left]
        share = np.divide(t - x[left], span, out=np.zeros_like(t), where=span > 0)
        limits = []
        for values, on_jump in ((self.lower, left), (self.upper, right)):
            between = values[left] + share * (values[right] - values[left])
            limits.append(np.where(outside, np.nan, np.where(span > 0, between, values[on_jump])))
        return limits[0], limits[1]

    def __str__(self) -> str:
        text = self.label + ", limits cross" * (self.kind == "simultaneous" and self.crosses)
        if self.kind == "folds":
            return text
        return f"{text}; " + (
            "leaves out the diagonal in "
            + ", ".join(f"{part.start:.3g} to {part.stop:.3g} ({part.side})" for part in self.departures)
            if self.departures
            else "contains the diagonal"
        )


def _zero(x: Array, gap: Array, i: int) -> float:
    """Return where the line from (x[i], gap[i]) to the next point is zero."""
    share = gap[i] / (gap[i] - gap[i + 1])
    return float(x[i] + share * (x[i + 1] - x[i]))


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Observed frequency against predicted probability, with its uncertainty.

    Attributes
    ----------
    method : {"smooth", "binned", "corp", "belt"}
        How observations are gathered.
    predicted : ndarray of shape (m,)
        Predicted probabilities, non-decreasing.
    observed : ndarray of shape (m,)
        Event frequency there; NaN where there are too few predictions to show one.
    bands : tuple of ReliabilityBand
        Limits, the narrowest first.
    support : ndarray of shape (m,)
        How many predictions are near each point: their density, or the weight of a bin.
    distribution : Distribution
        Where the predictions lie.
    error_name : str
        Short name of the calibration error of this curve, or of the p-value of a belt.
    error : float
        Its value.
    error_interval : (float, float) or None
        Confidence interval of the error in the population, if asked for.
    error_spread : float or None
        Standard deviation of the error between folds, if this is the mean of the curves of folds.
    confidence : float
        Confidence level of the limits and of the interval.
    n_samples : float
        Total weight.
    bandwidth : float or None
        Bandwidth of a smooth curve.
    scale : {"probability", "logit"}
        Axis on which the diagram is drawn, and on which a smooth curve is smoothed.
    decomposition : ScoreDecomposition or None
        Decomposition of the Brier score, for ``method="corp"``.
    belt : CalibrationBelt or None
        The polynomial recalibration and its test, for ``method="belt"``.
    at_edges : tuple of EdgePredictions
        Predictions of exactly 0 or 1, for ``scale="logit"``.
    """

    method: str
    predicted: Array = field(repr=False)
    observed: Array = field(repr=False)
    bands: tuple[ReliabilityBand, ...]
    support: Array = field(repr=False)
    distribution: Distribution = field(repr=False)
    error_name: str
    error: float
    confidence: float
    n_samples: float
    bandwidth: float | None = None
    error_interval: tuple[float, float] | None = None
    error_spread: float | None = None
    scale: str = "probability"
    decomposition: ScoreDecomposition | None = None
    belt: "CalibrationBelt | None" = None
    at_edges: tuple[EdgePredictions, ...] = ()

    @property
    def lower(self) -> Array:
        """Lower limits of the widest band at ``predicted``; NaN if there is none."""
        return self._limits()[0]

    @property
    def upper(self) -> Array:
        """Upper limits of the widest band at ``predicted``; NaN if there is none."""
        return self._limits()[1]

    def _limits(self) -> tuple[Array, Array]:
        if not self.bands:
            nothing = np.full_like(self.predicted, np.nan)
            return nothing, nothing
        band = self.bands[-1]
        if band.predicted is self.predicted:
            return band.lower, band.upper
        return band.at(self.predicted)

    @property
    def edges(self) -> Array:
        """Edges of the bins of the histogram of the predictions."""
        return self.distribution.edges

    @property
    def density(self) -> Array:
        """Density of the predictions in each bin."""
        return self.distribution.density

    def __str__(self) -> str:
        return f"{self.method} reliability curve: {self.label(4)} (n = {self.n_samples:g})"

    def _repr_html_(self) -> str:
        return result_html(
            f"{self.method} reliability curve", [("error", self.label(4)), ("n", f"{self.n_samples:g}")]
        )

    def label(self, digits: int = 3) -> str:
        """Return the number of the curve as a text such as ``"smECE = 0.067 [0.042, 0.085]"``.

        Parameters
        ----------
        digits : int, default=3
            Digits after the decimal point.

        Returns
        -------
        str
            For "corp", the three parts of the Brier score, of which MCB is the error; for "belt", degree and
            p-value.

        Raises
        ------
        ValueError
            If ``digits`` is negative.
        TypeError
            If it is no integer.
        """
        digits = check_size(digits, "digits", 0, 100)
        if self.belt is not None:
            return f"degree {self.belt.degree}, {p_text(self.belt.pvalue)}"
        text = f"{self.error_name} = {self.error:.{digits}f}"
        if self.error_interval is not None:
            low, high = self.error_interval
            text += f" [{low:.{digits}f}, {high:.{digits}f}]"
        if self.error_spread is not None:
            text += f" ± {self.error_spread:.{digits}f}"
        if self.decomposition is not None:
            parts = self.decomposition
            text += f", DSC = {parts.discrimination:.{digits}f}, UNC = {parts.uncertainty:.{digits}f}"
        return text


def p_text(pvalue: float) -> str:
    """Return a p-value as a text with two digits."""
    return f"p = {pvalue:.2g}" if pvalue >= 1e-4 else "p < 0.0001"


def with_error_interval(
    curve: ReliabilityCurve, metric: Callable[..., float], sample: BinarySample
) -> ReliabilityCurve:
    """Return the curve with a confidence interval of its error, ``metric``, in the population."""
    interval = confidence_interval(
        metric,
        sample.y,
        sample.p,
        sample_weight=sample.w,
        pos_label=1,
        confidence=curve.confidence,
        random_state=0,
    )
    return replace(curve, error_interval=(interval.lower, interval.upper))
