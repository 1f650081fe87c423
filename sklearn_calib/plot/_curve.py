"""What a reliability diagram shows, computed before anything is drawn."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sklearn_calib._core._binning import quantile_bins, uniform_bins
from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._core._smoothing import TAIL
from sklearn_calib._html import result_html
from sklearn_calib._validation import BinarySample
from sklearn_calib.inference import confidence_interval
from sklearn_calib.metrics import expected_calibration_error, smooth_ece_result

__all__ = ["ReliabilityCurve", "binned_curve", "smooth_curve", "wilson_interval", "with_error_interval"]

Array = NDArray[np.float64]

# A picture cannot show more nodes than this; the cells are half as wide as their distance.
_NODES = 512
_CELLS = 1024
_HISTOGRAM = 50
# The curve is drawn where the predictions nearby are worth at least this many at the very spot.
_NEARBY = 5.0


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Observed frequency against predicted probability, with its uncertainty.

    Attributes
    ----------
    method : {"smooth", "binned"}
        How observations are gathered.
    predicted : ndarray of shape (m,)
        Predicted probabilities, increasing.
    observed : ndarray of shape (m,)
        Event frequency there; NaN where there are too few predictions to show one.
    lower, upper : ndarray of shape (m,)
        Pointwise confidence limits of ``observed``.
    edges : ndarray of shape (b + 1,)
        Edges of the bins of a histogram of the predictions.
    density : ndarray of shape (b,)
        Density of the predictions in each bin, per unit of probability.
    error_name : str
        Short name of the calibration error of this curve.
    error : float
        Its value.
    error_interval : (float, float) or None
        Confidence interval of the error in the population, if asked for.
    confidence : float
        Confidence level of the limits and of the interval.
    n_samples : float
        Total weight.
    bandwidth : float or None
        Bandwidth of a smooth curve.
    """

    method: str
    predicted: Array = field(repr=False)
    observed: Array = field(repr=False)
    lower: Array = field(repr=False)
    upper: Array = field(repr=False)
    edges: Array = field(repr=False)
    density: Array = field(repr=False)
    error_name: str
    error: float
    confidence: float
    n_samples: float
    bandwidth: float | None = None
    error_interval: tuple[float, float] | None = None

    def __str__(self) -> str:
        return f"{self.method} reliability curve: {self.label(4)} (n = {self.n_samples:g})"

    def _repr_html_(self) -> str:
        return result_html(
            f"{self.method} reliability curve", [("error", self.label(4)), ("n", f"{self.n_samples:g}")]
        )

    def label(self, digits: int = 3) -> str:
        """Return the calibration error as a text such as ``"smECE = 0.067 [0.042, 0.085]"``.

        Parameters
        ----------
        digits : int, default=3
            Digits after the decimal point.

        Returns
        -------
        str
        """
        text = f"{self.error_name} = {self.error:.{digits}f}"
        if self.error_interval is not None:
            low, high = self.error_interval
            text += f" [{low:.{digits}f}, {high:.{digits}f}]"
        return text


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
    return replace(curve, error_interval=(interval.low, interval.high))


def wilson_interval(frequency: Array, size: Array, confidence: float) -> tuple[Array, Array]:
    """Return Wilson's score interval of a proportion observed in (effectively) ``size`` trials.

    It solves ``(f - q)^2 = z^2 q (1 - q) / size`` for q, so unlike a bootstrap it keeps its width where no
    event, or nothing but events, was seen.
    """
    z2 = float(ndtri(0.5 + confidence / 2)) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        shrunk = 1.0 / (1.0 + z2 / size)
        centre = shrunk * (frequency + z2 / (2.0 * size))
        half = shrunk * np.sqrt(z2 * (frequency * (1.0 - frequency) / size + z2 / (4.0 * size**2)))
    return np.clip(centre - half, 0.0, 1.0), np.clip(centre + half, 0.0, 1.0)


def _squared_weights(w: Array | None) -> Array | None:
    """Return the weights whose sum plays the part of sum w^2 in the variance of a weighted mean.

    Whole numbers count repetitions, each an observation of its own; other weights are sampling weights, for
    which Kish's effective sample size (sum w)^2 / sum w^2 applies.
    """
    return w if w is None or bool((w == np.rint(w)).all()) else w**2


def _silverman(sample: BinarySample) -> float:
    """Return Silverman's rule of thumb for the density of the predictions, or 1 if they are all equal."""
    spread = float(np.sqrt(np.cov(sample.p, ddof=0, aweights=sample.w)))
    squares = _squared_weights(sample.w)
    size = sample.total if squares is None else sample.total**2 / float(squares.sum())
    return max(1.06 * spread * size**-0.2, 1.0 / _NODES) if spread > 0 else 1.0


def _effective_size(t: Array, p: Array, w: Array | None, s: float) -> Array:
    """Return (sum w K)^2 / sum w^2 K^2 at each t, for the reflected Gaussian K of scale s about t.

    Predictions are first gathered at the means of 1024 cells. A kernel narrower than the cells is widened to
    them, and the size, which is proportional to s as s vanishes, scaled back.
    """
    cell = np.minimum((p * _CELLS).astype(np.int64), _CELLS - 1)
    mass = np.bincount(cell, weights=w, minlength=_CELLS)
    squares = np.bincount(cell, weights=_squared_weights(w), minlength=_CELLS)
    moment = np.bincount(cell, weights=p if w is None else w * p, minlength=_CELLS)
    used = mass > 0
    x = moment[used] / mass[used]
    scale = max(s, 2.0 / _CELLS)
    kernel = np.zeros((t.shape[0], x.shape[0]))
    reach = math.ceil((TAIL * scale + 1.0) / 2.0)
    for period in range(-reach, reach + 1):
        for image in (2.0 * period + x, 2.0 * period - x):
            if image.max() > -TAIL * scale and image.min() < 1.0 + TAIL * scale:
                kernel += np.exp(-0.5 * ((t[:, None] - image) / scale) ** 2)
    spread = kernel**2 @ squares[used]
    size = np.zeros_like(t)
    np.divide((kernel @ mass[used]) ** 2, spread, out=size, where=spread > 0)
    return size * (s / scale)


def smooth_curve(
    sample: BinarySample, bandwidth: float | Literal["auto", "smooth_ece"], confidence: float
) -> ReliabilityCurve:
    """Return the kernel regression with a band for the smoothed frequency.

    The error is smooth ECE at its own bandwidth whatever that of the curve, so that numbers can be compared.
    """
    result = smooth_ece_result(sample.y, sample.p, sample_weight=sample.w, pos_label=1)
    error, width = result.value, result.bandwidth
    if bandwidth == "auto":
        width = min(width, _silverman(sample))
    elif bandwidth != "smooth_ece":
        width = float(bandwidth)
    if width != result.bandwidth:
        result = smooth_ece_result(sample.y, sample.p, sample_weight=sample.w, pos_label=1, bandwidth=width)
    stride = max(1, (result.grid.shape[0] - 1) // _NODES)
    t, observed = result.grid[::stride], result.curve[::stride].copy()
    squares = _squared_weights(sample.w)
    unit = 1.0 if sample.w is None or squares is None else float(squares.sum()) / sample.total
    # sum of exp(-(t - p)^2 / 2s^2): predictions count by their nearness, one at t counts 1
    nearby = result.density[::stride] * (sample.total / unit * result.bandwidth * math.sqrt(2.0 * math.pi))
    shown = nearby >= min(_NEARBY, 0.5 * float(nearby.max()))
    # a wide kernel would carry the curve to where no prediction is
    shown &= (t >= sample.p.min() - 1.0 / _HISTOGRAM) & (t <= sample.p.max() + 1.0 / _HISTOGRAM)
    observed[~shown] = np.nan
    size = _effective_size(t, sample.p, sample.w, result.bandwidth)
    lower, upper = wilson_interval(observed, size, confidence)
    return ReliabilityCurve(
        "smooth",
        t,
        observed,
        lower,
        upper,
        *_histogram(sample),
        "smECE",
        error,
        confidence,
        sample.total,
        width,
    )


def binned_curve(
    sample: BinarySample, n_bins: int, strategy: Literal["uniform", "quantile"], confidence: float
) -> ReliabilityCurve:
    """Return event frequency against mean prediction in each occupied bin, with Wilson's intervals."""
    grouped = group_outcomes(sample.y, sample.p, sample.w)
    uniform = strategy == "uniform"
    found = uniform_bins(grouped.prob, n_bins) if uniform else quantile_bins(grouped, n_bins)
    index = np.unique(found, return_inverse=True)[1]
    mass = np.bincount(index, weights=grouped.weight)
    predicted = np.bincount(index, weights=grouped.weight * grouped.prob) / mass
    observed = np.bincount(index, weights=grouped.positives) / mass
    squares = mass
    if sample.w is not None:
        row = index[np.searchsorted(grouped.prob, sample.p)]
        squares = np.bincount(row, weights=_squared_weights(sample.w))
    lower, upper = wilson_interval(observed, mass**2 / squares, confidence)
    error = expected_calibration_error(
        sample.y, sample.p, sample_weight=sample.w, pos_label=1, n_bins=n_bins, strategy=strategy
    )
    return ReliabilityCurve(
        "binned",
        predicted,
        observed,
        lower,
        upper,
        *_histogram(sample),
        "ECE",
        error,
        confidence,
        sample.total,
    )


def _histogram(sample: BinarySample) -> tuple[Array, Array]:
    """Return edges and density of a fine histogram of the predictions.

    A kernel density at the bandwidth of the curve would hide where the predictions of a bad model lie.
    """
    mass = np.bincount(uniform_bins(sample.p, _HISTOGRAM), weights=sample.w, minlength=_HISTOGRAM)
    density = np.asarray(mass, dtype=np.float64) * (_HISTOGRAM / sample.total)
    return np.linspace(0.0, 1.0, _HISTOGRAM + 1), density
