"""The content of a reliability diagram, without matplotlib."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from sklearn_calib._core._binning import uniform_bins
from sklearn_calib._core._links import logit
from sklearn_calib._html import result_html
from sklearn_calib._typing import Array
from sklearn_calib._validation import BinarySample, check_size
from sklearn_calib.metrics import ScoreDecomposition
from sklearn_calib.plot._bands import ReliabilityBand
from sklearn_calib.plot._belt import CalibrationBelt
from sklearn_calib.plot._matplotlib import FAR, p_text

_HISTOGRAM = 50
# Maximum number of ticks of a rug.
_TICKS = 1000
# Points at which curves of folds are averaged.
_GRID = 201


class EdgePredictions(NamedTuple):
    """Predictions of exactly 0 or 1, which a logit axis cannot show.

    ``value`` is 0 or 1, ``weight`` their number, ``frequency`` their event frequency.
    """

    value: float
    weight: float
    frequency: float


@dataclass(frozen=True, eq=False)
class Distribution:
    """Distribution of the predictions.

    Attributes
    ----------
    edges : ndarray of shape (b + 1,)
        Edges of the bins of a histogram; equally spaced on the axis of the diagram.
    density : ndarray of shape (b,)
        Fraction of the weight in each bin, per unit of the axis (probability or log-odds); on the logit axis
        without predictions of exactly 0 or 1.
    events : ndarray of shape (b,)
        The part of ``density`` that belongs to events.
    ticks : ndarray of shape (t,)
        Predictions, thinned to at most a thousand positions on the axis.
    ticks_events : ndarray of shape (t,)
        Fraction of events among the predictions at each tick.
    """

    edges: Array = field(repr=False)
    density: Array = field(repr=False)
    events: Array = field(repr=False)
    ticks: Array = field(repr=False)
    ticks_events: Array = field(repr=False)

    def density_at(self, predicted: Array) -> Array:
        """Return the density at predictions, by interpolation between the middles of the bins."""
        return np.interp(predicted, 0.5 * (self.edges[1:] + self.edges[:-1]), self.density)


class UnitAxis:
    """The axis of a diagram, moved to [0, 1]; on the logit scale it holds the predictions ``p``."""

    def __init__(self, scale: str, p: Array, shortest: float) -> None:
        self.logit = scale == "logit"
        self.origin, self.length = 0.0, 1.0
        if self.logit:
            x = np.clip(logit(p), -FAR, FAR)
            self.origin, self.length = float(x.min()), max(float(np.ptp(x)), shortest)

    def locate(self, p: Array) -> Array:
        """Return the places of predictions."""
        if not self.logit:
            return p
        return np.clip((np.clip(logit(p), -FAR, FAR) - self.origin) / self.length, 0.0, 1.0)

    def probability(self, place: Array) -> Array:
        """Return the predictions at places."""
        return np.asarray(expit(self.origin + self.length * place)) if self.logit else place


def distribution(sample: BinarySample, scale: str) -> Distribution:
    """Return a fine histogram of the predictions, by outcome, and a rug.

    A kernel density at the bandwidth of the curve would be too smooth for a badly calibrated model.
    """
    if scale == "logit":
        # the others are drawn at the edge
        sample = interior(sample)
    y, w = sample.y, sample.w
    axis = UnitAxis(scale, sample.p, 1e-6)
    place = axis.locate(sample.p)
    found = uniform_bins(place, _HISTOGRAM) * 2 + y
    mass = np.bincount(found, weights=w, minlength=2 * _HISTOGRAM).astype(np.float64)
    unit = _HISTOGRAM / (float(mass.sum()) * axis.length)
    fine = uniform_bins(place, _TICKS)
    number = np.bincount(fine, weights=w, minlength=_TICKS).astype(np.float64)
    used = np.flatnonzero(number)
    ticks, events = (
        np.bincount(fine, weights=part if w is None else w * part, minlength=_TICKS)[used] / number[used]
        for part in (place, y)
    )
    return Distribution(
        axis.probability(np.linspace(0.0, 1.0, _HISTOGRAM + 1)),
        (mass[::2] + mass[1::2]) * unit,
        mass[1::2] * unit,
        axis.probability(ticks),
        # the mean of equal numbers can differ from them by rounding
        np.clip(events, 0.0, 1.0),
    )


def edge_predictions(sample: BinarySample) -> tuple[EdgePredictions, ...]:
    """Return the predictions of exactly 0 and of exactly 1, if there are any."""
    found = []
    for value in (0.0, 1.0):
        equal = sample.take(sample.p == value)
        if equal.y.shape[0]:
            events = float(equal.weights @ equal.y)
            found.append(EdgePredictions(value, equal.total, events / equal.total))
    return tuple(found)


def interior(sample: BinarySample) -> BinarySample:
    """Return the samples with predictions other than 0 and 1, or all if there are no others."""
    inside = (sample.p > 0.0) & (sample.p < 1.0)
    if inside.all() or not inside.any():
        return sample
    return sample.take(inside)


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Observed frequency against predicted probability, with its uncertainty.

    Attributes
    ----------
    method : {"smooth", "binned", "corp", "belt"}
        Method of the curve.
    predicted : ndarray of shape (m,)
        Predicted probabilities, non-decreasing.
    observed : ndarray of shape (m,)
        Event frequency at each prediction; NaN where there are too few samples to estimate it.
    bands : tuple of ReliabilityBand
        Bands, the narrowest first.
    support : ndarray of shape (m,)
        Density of the predictions at each point, or the weight of each bin.
    distribution : Distribution
        Distribution of the predictions.
    error_name : str
        Short name of the calibration error of this curve, or of the p-value of a belt.
    error : float
        Its value.
    error_interval : (float, float) or None
        Confidence interval of the population error, if requested.
    error_corrected : float or None
        Bias-corrected estimate of the population error, which lies in the interval.
    error_spread : float or None
        Standard deviation of the error across folds, for the mean of the curves of folds.
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
    error_corrected: float | None = None
    error_spread: float | None = None
    scale: str = "probability"
    decomposition: ScoreDecomposition | None = None
    belt: CalibrationBelt | None = None
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
        """Return the calibration error as text such as ``"smECE = 0.067 [0.042, 0.085]"``.

        Parameters
        ----------
        digits : int, default=3
            Digits after the decimal point.

        Returns
        -------
        str
            The bias-corrected error if there is an interval, else the raw one. For "corp", the three
            components of the Brier score, of which MCB is the error; for "belt", degree and p-value.

        Raises
        ------
        ValueError
            If ``digits`` is negative.
        TypeError
            If it is not an integer.
        """
        digits = check_size(digits, "digits", 0, 100)
        if self.belt is not None:
            return f"degree {self.belt.degree}, {p_text(self.belt.pvalue)}"
        value = f"{self.error:.{digits}f}"
        if self.error_interval is not None:
            low, high = self.error_interval
            corrected = f"{self.error_corrected:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
            # the raw components add up to the Brier score
            value = f"{value} (corrected {corrected})" if self.decomposition is not None else corrected
        text = f"{self.error_name} = {value}"
        if self.error_spread is not None:
            text += f" ± {self.error_spread:.{digits}f}"
        if self.decomposition is not None:
            parts = self.decomposition
            text += f", DSC = {parts.discrimination:.{digits}f}, UNC = {parts.uncertainty:.{digits}f}"
        return text


def mean_curve(curves: list[ReliabilityCurve]) -> ReliabilityCurve:
    """Return the mean of curves where all of them exist, with their standard deviation as a band."""
    first = curves[0]
    low = max(float(curve.predicted[np.isfinite(curve.observed)].min()) for curve in curves)
    high = min(float(curve.predicted[np.isfinite(curve.observed)].max()) for curve in curves)
    if low > high:
        raise ValueError(
            "summary='mean' needs overlapping predictions, but those of the folds do not overlap. "
            "Use summary='pooled'."
        )
    if first.scale == "logit":
        # even on the axis on which the curve is drawn
        start, stop = logit(np.array([low, high]))
        grid = expit(np.linspace(start, stop, _GRID))
    else:
        grid = np.linspace(low, high, _GRID)
    # a gap within the predictions of one fold is a gap of the mean
    values = np.stack([_on_grid(curve, grid) for curve in curves])
    mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1 if len(curves) > 1 else 0)
    errors = np.array([curve.error for curve in curves])
    band = ReliabilityBand(
        "folds", float("nan"), grid, np.maximum(mean - spread, 0.0), np.minimum(mean + spread, 1.0)
    )
    shown = first.distribution
    return ReliabilityCurve(
        first.method if first.method != "binned" else "smooth",
        grid,
        mean,
        (band,),
        shown.density_at(grid),
        shown,
        first.error_name,
        float(errors.mean()),
        first.confidence,
        sum(curve.n_samples for curve in curves),
        error_spread=float(errors.std(ddof=1 if len(curves) > 1 else 0)),
        scale=first.scale,
    )


def _on_grid(curve: ReliabilityCurve, grid: Array) -> Array:
    """Return the curve on a grid: NaN next to points that are NaN."""
    if curve.method != "binned" and curve.method != "corp":
        return np.interp(grid, curve.predicted, curve.observed)
    known = np.isfinite(curve.observed)
    return np.interp(grid, curve.predicted[known], curve.observed[known])
