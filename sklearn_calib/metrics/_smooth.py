"""Smooth ECE: calibration error after Gaussian smoothing, with an automatic bandwidth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from sklearn_calib import _validation
from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._grouping import CHUNK, GroupedOutcomes
from sklearn_calib._core._links import logit
from sklearn_calib._core._smoothing import (
    FIRST,
    NODES_PER_SCALE,
    SMALLEST_SCALE,
    CosineProjection,
    LogitPositions,
    coefficients_of_masses,
    fixed_points,
    integrate_absolute_rows,
    node_count,
    smooth_at_nodes,
    smoothed_errors,
)
from sklearn_calib._docs import shared_docs
from sklearn_calib._frame import FrameMixin
from sklearn_calib._html import number_text, text_html
from sklearn_calib._typing import Array, Codes
from sklearn_calib.metrics._metric_kernel import Evaluate, MetricKernel, residuals
from sklearn_calib.metrics._reductions import Reduction, checked_error

# The initial guess uses about this many samples, and is a constant for fewer than the second number.
_FEW_SAMPLES, _FEWEST_GUESSED = 1 << 14, 1 << 12
_START = 0.03
# Noise contributes about so many times as much on the logit axis, which is longer.
_LOGIT_PER_PROBABILITY = 2.0
_WIDE_BINS = 8
# Below this fraction of the smoothing axis the cosine series would need more than 2**21 terms.
_SMALLEST_BANDWIDTH = 1e-5
_CURVE_NODES, _DENSITY_BINS = 4096, 4096
# Number of samples of a batch that are solved first.
_PILOT = 16
# If cancellation can change the error by no more than this, no bandwidth is searched.
_NEGLIGIBLE = 1e-9
# Pooling positions in bins of width H increases the variance of a kernel of scale s from s^2 to
# s^2 + H^2 / 12. An error proportional to s^-1/2, as that of calibrated predictions, changes by the fraction
# H^2 / (48 s^2), less than 0.1% with this H / s.
_POOLED_PER_SCALE = 0.2
# If predictions are resampled, pooling loses their variance within a bin, less than this fraction of that of
# the residuals.
_WIDEST_POOLED = 0.01
# Values of calibrated samples lie above this fraction of their mean.
_SAFETY = 0.75
_SUPPORT = 1e-8
# Least margin of a part of the axis, and its distance from the predictions in bandwidths.
_NARROWEST = 2.0**-8
_REACH = 8.0


@dataclass(frozen=True, eq=False)
class SmoothECEResult(FrameMixin):
    """Smooth ECE with bandwidth, smoothed calibration curve and density of the predictions.

    Attributes
    ----------
    value : float
        The smooth ECE, in [0, 1].
    bandwidth : float
        Scale s of the Gaussian, in units of probability or, for ``scale="logit"``, of log-odds. Equal to
        ``value`` when chosen automatically, unless the solution lies below the resolution.
    scale : {"probability", "logit"}
        Axis on which the kernel acts.
    grid : ndarray of shape (m,)
        Increasing probabilities at which the curve is given.
    curve : ndarray of shape (m,)
        Smoothed event frequency at ``grid``: the kernel regression of the outcome on the prediction. NaN
        if there are no predictions nearby.
    density : ndarray of shape (m,)
        Kernel density of the predictions at ``grid``, per unit of the smoothing axis.
    curve_error : float
        Mean absolute distance of ``curve`` from the diagonal, weighted by ``density``: the area between them
        in a plot of both. It is the ECE of the predictions after Gaussian noise of scale s is added on the
        smoothing axis, and differs from smECE_s by at most 0.8 s, or 0.2 s on the logit scale.
    underprediction, overprediction : float
        The parts of ``value`` where events are more and less frequent than predicted: their sum is ``value``,
        their difference the mean residual. Of confidences they are under- and overconfidence.
    n_samples : float
        Total weight.
    """

    _columns_in = ("grid", "curve", "density")

    value: float
    bandwidth: float
    scale: str
    curve_error: float
    underprediction: float
    overprediction: float
    n_samples: float
    grid: Array = field(repr=False)
    curve: Array = field(repr=False)
    density: Array = field(repr=False)

    def __str__(self) -> str:
        return (
            f"smooth ECE = {number_text(self.value)} (bandwidth {number_text(self.bandwidth)} on the "
            f"{self.scale} scale, n = {self.n_samples:g})"
        )

    _repr_html_ = text_html


def logit_axis(low: float, high: float, widest: float) -> tuple[float, float]:
    """Return origin and length of the logit axis of data in [low, high]."""
    # beyond it less than 1e-9 of the kernel is reflected, at every scale in use
    margin = 6.2 * widest
    return low - margin, high - low + 2.0 * margin


class SmoothingAxis:
    """A sample mapped to the unit interval on which it is smoothed."""

    def __init__(self, sample: _validation.BinarySample, scale: str, widest: float) -> None:
        self.sample, self.logit = sample, scale == "logit"
        self.origin, self.length = 0.0, 1.0
        if self.logit:
            low, high = logit(np.array([sample.p.min(), sample.p.max()])).tolist()
            self.origin, self.length = logit_axis(low, high, widest)

    def check(self, bandwidth: float) -> None:
        """Raise if a bandwidth is too small for a cosine series."""
        if bandwidth < _SMALLEST_BANDWIDTH * self.length:
            raise ValueError(
                f"bandwidth={bandwidth!r} is below the smallest possible value, "
                f"{_SMALLEST_BANDWIDTH * self.length:.2g} for these predictions. For an error without "
                "smoothing, use cutoff_calibration_error or expected_calibration_error."
            )

    def curve(
        self, bandwidth: float, per_scale: float = NODES_PER_SCALE
    ) -> tuple[Array, Array, Array, float]:
        """Return nodes, the smoothed weights of events and of all samples there, and the area of eq. 7."""
        s = bandwidth / self.length
        # the sigmoid changes within a few log-odds, however large the bandwidth
        nodes = node_count(min(s, max(1.0 / self.length, _SMALLEST_BANDWIDTH)), per_scale)
        t = np.linspace(0.0, 1.0, nodes + 1)
        if self.logit:
            t = expit(self.origin + self.length * t)
        y, w = self.sample.y, self.sample.w
        if y.dtype.kind == "f":
            terms = self.sample.weights * (1.0 - y), self.sample.weights * y
            coefficients = np.concatenate([self._coefficients(term.__getitem__, s) for term in terms])
        else:
            coefficients = self._coefficients((lambda rows: 1.0) if w is None else w.__getitem__, s, y)
        others, events = smooth_at_nodes(coefficients, s, nodes)
        weight = others + events
        # eq. 7; t - 0 and t - 1 are odd about 0 and 1
        odd = weight[[0, -1]] * [1.0 / nodes, -1.0 / nodes]
        area = integrate_absolute_rows((events - t * weight)[np.newaxis], 1.0 / nodes, odd)[0]
        return t, events, weight, float(min(max(area, 0.0), 1.0))

    def residual_coefficients(self, s: float) -> Array:
        """Return the cosine coefficients, of shape (1, K), of the mean residual, down to scale s."""
        y, p, w = self.sample.y, self.sample.p, self.sample.w

        def residual(rows: slice) -> Array:
            return y[rows] - p[rows] if w is None else w[rows] * (y[rows] - p[rows])

        return self._coefficients(residual, s)

    def _coefficients(
        self, masses: Callable[[slice], Array | float], s: float, outcome: Codes | None = None
    ) -> Array:
        p = self.sample.p
        x = LogitPositions(p, self.origin, self.length) if self.logit else p
        return coefficients_of_masses(x, masses, p.shape[0], s, outcome) / self.sample.total


def _solve(
    sample: _validation.BinarySample, bandwidth: float | Literal["auto"], scale: str
) -> tuple[float, float, SmoothingAxis]:
    """Return the value, the bandwidth in units of the axis, and the axis."""
    if isinstance(bandwidth, str):
        (noise, bias), widest = _guess(sample), 1.0
        if scale == "logit":
            noise *= _LOGIT_PER_PROBABILITY
            widest, bias = _residual_sums(sample)
        axis, guess = SmoothingAxis(sample, scale, widest), max(noise, bias)

        def coefficients(_: NDArray[np.intp], s: float) -> Array:
            return axis.residual_coefficients(s)

        value = float(fixed_points(coefficients, np.array([guess]), FIRST * guess, axis.length)[0])
        return value, max(value, SMALLEST_SCALE * axis.length), axis
    axis = SmoothingAxis(sample, scale, float(bandwidth))
    axis.check(float(bandwidth))
    s = float(bandwidth) / axis.length
    error = smoothed_errors(axis.residual_coefficients(s), np.array([s]))
    return float(error[0]), float(bandwidth), axis


def _scale_of(bias: Any, squares: Any) -> Any:
    """Guess the smooth ECE, of order (n s)**-1/2, from the sums of residuals and of their squares."""
    return np.minimum(np.maximum(0.55 * squares ** (1.0 / 3.0), np.abs(bias)), 0.5)


def _guess(sample: _validation.BinarySample) -> tuple[float, float]:
    """Return guesses of the smooth ECE from noise and from bias; they affect only the speed."""
    n = sample.y.shape[0]
    step = 1 + n // _FEW_SAMPLES
    residual = (sample.y[::step] - sample.p[::step]) / sample.total
    if sample.w is not None:
        residual *= sample.w[::step]
    # in small samples the guess is exactly invariant to scaling and repetition of weights
    noise = _START if n <= _FEWEST_GUESSED else float(_scale_of(0.0, step * (residual**2).sum()))
    return noise, float(abs(step * residual.sum()))


def _residual_sums(sample: _validation.BinarySample) -> tuple[float, float]:
    """Return a bound of the smooth ECE, the mean absolute residual or .001, and the ECE with wide bins."""
    largest, binned = 0.0, np.zeros(_WIDE_BINS + 1)
    for rows in blocks(sample.p.shape[0], CHUNK):
        p = sample.p[rows]
        residual = sample.y[rows] - p
        if sample.w is not None:
            residual *= sample.w[rows]
        largest += float(np.abs(residual).sum())
        binned += np.bincount((_WIDE_BINS * p).astype(np.intp), residual, _WIDE_BINS + 1)
    return max(largest / sample.total, 1e-3), float(np.abs(binned).sum()) / sample.total


def smoothing_bins(position: Array, grouped: GroupedOutcomes, bandwidth: float | str) -> NDArray[np.int64]:
    """Return bins that are narrow compared with the smoothing scale of calibrated samples."""
    scale = _SAFETY * _null_scale(position, grouped) if isinstance(bandwidth, str) else bandwidth
    width = min(_POOLED_PER_SCALE * scale, _WIDEST_POOLED)
    return np.floor((position - position[0]) / width).astype(np.int64)


def _null_scale(position: Array, grouped: GroupedOutcomes) -> float:
    """Return the scale that equals the smoothed error expected under perfect calibration.

    At scale s the smoothed residual has variance v(t) / (2 sqrt(pi) s n), with v the density of p (1 - p),
    and the error is sqrt(2 / pi) times the integral of its root; so s^3 = I^2 / (pi^1.5 n), with I the
    integral of the root of v.
    """
    low, span = float(position[0]), float(position[-1] - position[0])
    index = np.minimum(((position - low) * (_DENSITY_BINS / span)).astype(np.int64), _DENSITY_BINS - 1)
    mass = np.bincount(index, grouped.variance, _DENSITY_BINS) / grouped.total
    integral = float(np.sqrt(mass * (span / _DENSITY_BINS)).sum())
    return (integral**2 / (math.pi**1.5 * grouped.total)) ** (1.0 / 3.0)


def _of_columns(projection: CosineProjection, masses: Array) -> Callable[[NDArray[np.intp], float], Array]:
    return lambda index, s: projection(masses[:, index], s)


def _fixed_points(projection: CosineProjection, residual: Array, length: float) -> Array:
    """Return the smooth ECE of r samples of residuals, shape (groups, r), divided by the total weight."""
    total, mass = np.abs(residual.sum(axis=0)), np.abs(residual).sum(axis=0)
    values = total.copy()
    # residuals of one sign cannot cancel: their error is their sum, at every scale
    pending = np.flatnonzero(mass - total > _NEGLIGIBLE)
    if pending.shape[0]:
        guess = _scale_of(total, np.einsum("ij,ij->j", residual, residual))[pending]
        # the solutions of the first samples correct the guess for the others
        for part in (slice(0, _PILOT), slice(_PILOT, None)):
            some, begin = pending[part], guess[part]
            if some.shape[0]:
                finest = FIRST * float(np.median(begin))
                masses = residual[:, some]
                values[some] = fixed_points(_of_columns(projection, masses), begin, finest, length)
                guess *= float(np.median(values[some] / begin))
    return np.minimum(values, 1.0)


def _make(
    prob: Array, n_samples: float, bandwidth: float | str = "auto", scale: str = "probability"
) -> Evaluate:
    length, x = 1.0, prob
    if scale == "logit":
        h = logit(prob)
        origin, length = logit_axis(
            float(h[0]), float(h[-1]), 1.0 if isinstance(bandwidth, str) else bandwidth
        )
        x = (h - origin) / length
    projection = CosineProjection(x)
    # smoothing of errors that are small compared with the range of the predictions, such as those of rare
    # events, needs only a part of the axis
    margin = max(float(prob[-1] - prob[0]), _NARROWEST)
    low, high = max(0.0, float(prob[0]) - margin), min(1.0, float(prob[-1]) + margin)
    near = CosineProjection((prob - low) / (high - low))

    def errors(count: Array, positives: Array) -> Array:
        residual = residuals(prob, count, positives)
        residual /= count.sum(axis=0)
        if isinstance(bandwidth, str):
            # the bandwidth is at most the mean absolute residual, and the kernel is 1e-14 at eight bandwidths
            if scale == "probability" and _REACH * np.abs(residual).sum(axis=0).max() <= margin:
                return _fixed_points(near, residual, high - low)
            return _fixed_points(projection, residual, length)
        s = bandwidth / length
        return smoothed_errors(projection(residual, s), np.full(residual.shape[1], s))

    return errors


def _pooling_bins(
    grouped: GroupedOutcomes, bandwidth: float | str = "auto", scale: str = "probability"
) -> NDArray[np.int64]:
    return smoothing_bins(logit(grouped.prob) if scale == "logit" else grouped.prob, grouped, bandwidth)


def check_smoothing(bandwidth: float | Literal["auto"], scale: str) -> None:
    """Check the parameters of smooth ECE."""
    _validation.check_option(scale, "scale", ("probability", "logit"))
    if isinstance(bandwidth, str):
        _validation.check_option(bandwidth, "bandwidth", ("auto",), "a number")
    else:
        _validation.check_positive(bandwidth, "bandwidth")


@shared_docs
@MetricKernel(_make, calibration_error=True, _accuracy=1e-6, _bins=_pooling_bins)
def smooth_ece(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    bandwidth: float | Literal["auto"] = "auto",
    scale: Literal["probability", "logit"] = "probability",
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    r"""Compute the smooth expected calibration error (smECE) of predicted probabilities.

    A calibration error without bins: residuals are smoothed with a Gaussian kernel, reflected at 0 and 1,
    whose bandwidth equals the resulting error. It is continuous in the predictions, has no parameter to
    choose, and approximates the distance from calibration up to a square root.

    Parameters
    ----------
    %(outcomes)s
    bandwidth : float or "auto", default="auto"
        Scale s of the kernel, at least 1e-5 of the length of the axis. "auto" solves s = smECE_s.
    scale : {"probability", "logit"}, default="probability"
        Axis on which the kernel acts. On the logit axis the kernel is not reflected and the bandwidth is in
        log-odds, which resolves predictions near 0 and 1.
    %(weight)s
    %(reduction)s

    %(error)s

    See Also
    --------
    smooth_ece_result : The same error with bandwidth, smoothed curve and density.
    logit_smoothed_ece : Smooths the predictions themselves, on the logit axis.

    Notes
    -----
    With total weight n, residuals r_i = y_i - p_i and K_s the density at t of p_i plus Gaussian noise of
    standard deviation s folded into [0, 1] (eq. 2 of [1]_; a prediction of exactly 0 or 1 and its mirror
    image both count),

    .. math:: \mathrm{smECE}_s = \int_0^1 \Bigl|\frac1n \sum_i w_i K_s(t, p_i)\, r_i\Bigr|\,dt,

    and smECE is the unique s with smECE_s = s (Definition 2; smECE_s does not increase in s, Lemma 1). After
    one pass over the data each s costs O(K log K), K of order 1/s. If the solution is below 2**-14 of the
    length of the axis, the error at that bandwidth is returned; see docs/methods/smooth_ece.md.

    %(not_proper)s
    In a finite sample it is positive even for a perfectly calibrated model; see
    :func:`~sklearn_calib.inference.expected_under_calibration`.

    References
    ----------
    .. [1] J. Blasiok and P. Nakkiran (2024). Smooth ECE: Principled Reliability Diagrams via Kernel
       Smoothing. ICLR. arXiv:2309.12236

    Examples
    --------
    >>> from sklearn_calib.metrics import smooth_ece
    >>> y_true = [0, 0, 1, 1]
    >>> print(f"{smooth_ece(y_true, [0.5, 0.5, 0.5, 0.5]):.3f}")
    0.000
    >>> print(f"{smooth_ece(y_true, [0.9, 0.9, 0.9, 0.9]):.3f}")
    0.400
    """
    check_smoothing(bandwidth, scale)

    def error(sample: _validation.BinarySample) -> float:
        return _solve(sample, bandwidth, scale)[0]

    return checked_error(error, y_true, y_proba, sample_weight, pos_label, reduction, labels)


def smooth_ece_result(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    bandwidth: float | Literal["auto"] = "auto",
    scale: Literal["probability", "logit"] = "probability",
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
) -> SmoothECEResult:
    r"""Compute the smooth ECE with its bandwidth, smoothed calibration curve, and density of predictions.

    Parameters
    ----------
    y_true, y_proba, sample_weight, pos_label, labels, bandwidth, scale
        As in :func:`smooth_ece`, for binary targets.

    Returns
    -------
    SmoothECEResult
        Value, bandwidth, and the curve on a grid of the probability axis.

    Notes
    -----
    The curve is the kernel regression (eq. 1 of the paper of :func:`smooth_ece`) with bandwidth s,
    :math:`\hat\mu(t) = \sum_i w_i K_s(t, p_i) y_i / \sum_i w_i K_s(t, p_i)`, and the density is
    :math:`\hat\delta(t) = \sum_i w_i K_s(t, p_i)/n`. ``curve_error`` is (eq. 7, where it has a tilde)

    .. math:: \int_0^1 |\hat\mu(t) - t|\,\hat\delta(t)\,dt = \mathrm{smECE}_s \pm s\sqrt{2/\pi}

    (Lemma 10), so a plot of curve and density shows the error. Unlike smECE_s it can grow with s, and it is
    positive for calibrated predictions: .8 s if all of them are 1/2. On the logit scale it is
    :func:`logit_smoothed_ece` at the same bandwidth, and a quarter of the bound holds, as a probability
    changes by at most a quarter of the change of its log-odds.

    The integrals of the positive and negative parts of the smoothed residual add up to smECE_s. As the kernel
    integrates to 1, they differ by the mean residual :math:`\bar r`: ``underprediction`` is
    :math:`(\mathrm{smECE}_s + \bar r) / 2`, ``overprediction`` :math:`(\mathrm{smECE}_s - \bar r) / 2`.

    Examples
    --------
    >>> from sklearn_calib.metrics import smooth_ece_result
    >>> result = smooth_ece_result([0, 1, 0, 1], [0.1, 0.9, 0.4, 0.6], bandwidth=0.1)
    >>> print(result)
    smooth ECE = 0.1865 (bandwidth 0.1000 on the probability scale, n = 4)
    >>> print(f"{result.curve_error:.4f}")
    0.1707
    >>> print(f"{result.underprediction:.4f} {result.overprediction:.4f}")
    0.0933 0.0933
    """
    check_smoothing(bandwidth, scale)
    sample = _validation.check_binary(
        y_true, y_proba, sample_weight, pos_label, fractions=True, labels=labels
    )
    return smooth_result(sample, bandwidth, scale)


def signed_parts(value: float, bias: float) -> tuple[float, float]:
    """Return the parts of a smooth ECE with positive and negative residuals, whose mean is ``bias``."""
    # rounding must not make a part negative
    return max(0.0, 0.5 * (value + bias)), max(0.0, 0.5 * (value - bias))


def smooth_result(
    sample: _validation.BinarySample,
    bandwidth: float | Literal["auto"],
    scale: str,
    per_scale: float = NODES_PER_SCALE,
    most_nodes: int = _CURVE_NODES,
) -> SmoothECEResult:
    """Return the result of :func:`smooth_ece_result` for a checked sample.

    The curve has at least ``per_scale`` nodes for each bandwidth, and at most about ``most_nodes`` in all.
    """
    value, width, axis = _solve(sample, bandwidth, scale)
    signed = signed_parts(value, float(np.average(sample.y - sample.p, weights=sample.w)))
    t, events, weight, area = axis.curve(width, per_scale)
    # where the kernel is negligible, its sums are rounding errors of either sign
    stride = max(1, t.shape[0] // most_nodes)
    t, events, weight = t[::stride], events[::stride], weight[::stride]
    supported = weight > _SUPPORT
    curve = np.full(weight.shape, np.nan)
    curve[supported] = np.clip(events[supported] / weight[supported], 0.0, 1.0)
    density = np.maximum(weight, 0.0) / axis.length
    return SmoothECEResult(value, width, scale, area, *signed, sample.total, t, curve, density)
