"""The smooth reliability curve, and its effective sample size."""

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct, idct

from sklearn_calib._core._bounds import whole_numbers
from sklearn_calib._core._grouping import group_starts
from sklearn_calib._core._smoothing import TAIL, WIDEST_SCALE
from sklearn_calib._typing import Array
from sklearn_calib._validation import BinarySample
from sklearn_calib.metrics._smooth import smooth_result
from sklearn_calib.plot._bands import ReliabilityBand, wilson_interval
from sklearn_calib.plot._curve import ReliabilityCurve, UnitAxis, distribution, edge_predictions, interior

# A picture cannot show more nodes than this; the bins are half as wide as their distance.
_NODES = 512
BINS = 1024
# Number of bandwidths, from that of smooth ECE to Silverman's rule, compared by cross-validation.
_CANDIDATES = 8
# A wide kernel may carry the curve this far beyond the predictions, in units of the axis' length.
_BEYOND = 1.0 / 50
# The curve is drawn where the kernel weights of the predictions sum to at least this number.
_NEARBY = 5.0


def squared_weights(w: Array | None) -> Array | None:
    """Return the weights whose sum replaces sum w^2 in the variance of a weighted mean.

    Integers count repetitions, each an independent observation; other weights are sampling weights, with
    Kish's effective sample size (sum w)^2 / sum w^2.
    """
    return w if w is None or whole_numbers(w) else w**2


def _silverman(place: Array, w: Array | None, smallest: float) -> float:
    """Return Silverman's rule of thumb for the density of the predictions, or 1 if they are all equal."""
    spread = float(np.sqrt(np.cov(place, ddof=0, aweights=w)))
    squares = squared_weights(w)
    size = float(place.shape[0]) if w is None or squares is None else float(w.sum() ** 2 / squares.sum())
    return max(1.06 * spread * size**-0.2, smallest) if spread > 0 else 1.0


def _cross_validated(place: Array, sample: BinarySample, narrow: float, wide: float) -> float:
    """Return the widest bandwidth whose leave-one-out error is within a standard error of the smallest.

    The kernel is reflected at 0 and 1, which is a product in the basis of the discrete cosine transform.
    """
    bin_of = KernelWindow.find(place)
    mass = np.bincount(bin_of, weights=sample.w, minlength=BINS).astype(np.float64)
    events = sample.y if sample.w is None else sample.w * sample.y
    events = np.bincount(bin_of, weights=events, minlength=BINS).astype(np.float64)
    used = mass > 0
    total = float(mass.sum())
    middle = (np.arange(BINS) + 0.5) / BINS
    widths, losses = np.geomspace(wide, narrow, _CANDIDATES), []
    for s in widths:
        damping = np.exp(-0.5 * (math.pi * s * np.arange(BINS)) ** 2)
        near, sums = (idct(damping * dct(part))[used] for part in (mass, events))
        # the weight of a prediction in its own estimate
        itself = 1.0 + np.exp(-2.0 * (middle / s) ** 2) + np.exp(-2.0 * ((1.0 - middle) / s) ** 2)
        itself = (itself / (math.sqrt(2.0 * math.pi) * s * BINS))[used]
        rest = np.maximum(near - itself, 1e-12 * total)
        # leave-one-out squared errors of events and of non-events in each bin
        losses.append(np.stack((((near - sums) / rest) ** 2, (sums / rest) ** 2)))
    count = np.stack((events, mass - events))[:, used]
    best = losses[int(np.argmin([float((count * loss).sum()) for loss in losses]))]
    for s, loss in zip(widths, losses, strict=True):
        excess = loss - best
        mean = float((count * excess).sum()) / total
        variance = float((count * (excess - mean) ** 2).sum()) / total
        if mean <= math.sqrt(variance / total):
            return float(s)
    return narrow


class KernelWindow:
    """A Gaussian kernel of scale s at each node of an axis, acting on binned predictions.

    A kernel narrower than the bins is widened to them; ``shrink`` is s over the scale in use.

    Parameters
    ----------
    nodes : ndarray of shape (m,)
        Where the kernel is centred, on [0, 1].
    place : ndarray of shape (n,)
        The predictions on that axis.
    s : float
        Scale.
    reflect : bool
        Whether the kernel is reflected at 0 and 1.
    """

    def __init__(self, nodes: Array, place: Array, w: Array | None, s: float, *, reflect: bool) -> None:
        self.bin_of = self.find(place)
        mass = self.gather(w)
        self.used = np.flatnonzero(mass)
        self.mass = mass[self.used]
        self.squares = self.gather(squared_weights(w))[self.used]
        self.x = self.gather(place if w is None else w * place)[self.used] / self.mass
        if reflect:
            s = min(s, WIDEST_SCALE)
        scale = max(s, 2.0 / BINS)
        self.shrink = s / scale
        self.kernel = np.zeros((nodes.shape[0], self.x.shape[0]))
        reach = math.ceil((TAIL * scale + 1.0) / 2.0) if reflect else 0
        for period in range(-reach, reach + 1):
            for image in (2.0 * period + self.x, 2.0 * period - self.x)[: 1 + reflect]:
                if image.max() > -TAIL * scale and image.min() < 1.0 + TAIL * scale:
                    self.kernel += np.exp(-0.5 * ((nodes[:, np.newaxis] - image) / scale) ** 2)
        self.total = self.kernel @ self.mass

    @staticmethod
    def find(place: Array) -> NDArray[np.int64]:
        """Return the bin of each place."""
        return np.minimum((place * BINS).astype(np.int64), BINS - 1)

    def gather(self, values: Array | None) -> Array:
        """Return the sum of values, one for each prediction, in each of the bins."""
        return np.bincount(self.bin_of, weights=values, minlength=BINS).astype(np.float64)

    def mean(self, sums: Array) -> Array:
        """Return the kernel mean at each node of values whose sums in the used bins are given."""
        total = self.total if sums.ndim == 1 else self.total[:, np.newaxis]
        out = np.full((self.total.shape[0], *sums.shape[1:]), np.nan)
        np.divide(self.kernel @ sums, total, out=out, where=total > 0)
        return out

    def effective_size(self) -> Array:
        """Return (sum w K)^2 / sum w^2 K^2 at each node; it is proportional to s as s vanishes."""
        spread = self.kernel**2 @ self.squares
        size = np.zeros_like(self.total)
        np.divide(self.total**2, spread, out=size, where=spread > 0)
        return size * self.shrink

    def nearby(self) -> Array:
        """Return the sum of exp(-(t - x)^2 / 2 s^2), in which a prediction at t counts 1."""
        unit = float(self.squares.sum() / self.mass.sum())
        return self.total * (self.shrink / unit)


class Smoother(NamedTuple):
    """The samples that a curve smooths, their axis, the kernel, and the offset at each node."""

    sample: BinarySample
    axis: UnitAxis
    window: KernelWindow
    shift: Array

    def smooth(self, prob: Array, sums: Array) -> Array:
        """Return the smoothed frequencies for sums of labels, (groups, r), at the predictions ``prob``."""
        bin_of = self.window.find(self.axis.locate(prob))
        starts = group_starts(bin_of)
        gathered = np.zeros((BINS, sums.shape[1]))
        gathered[bin_of[starts]] = np.add.reduceat(sums, starts, axis=0)
        found = self.window.mean(gathered[self.window.used]) + self.shift[:, np.newaxis]
        return np.asarray(np.clip(found, 0.0, 1.0))


def smooth_curve(
    sample: BinarySample,
    bandwidth: float | Literal["auto", "smooth_ece"],
    confidence: float,
    scale: str = "probability",
) -> tuple[ReliabilityCurve, Smoother]:
    """Return the kernel regression with a band for the smoothed frequency, and the smoother.

    The error is smooth ECE at its own bandwidth, whatever the bandwidth of the curve.
    """
    inner = interior(sample) if scale == "logit" else sample
    axis = UnitAxis(scale, inner.p, 1.0)
    result = smooth_result(sample, "auto", scale)
    error, width = result.value, result.bandwidth
    place = axis.locate(inner.p)
    if bandwidth == "auto":
        rule = axis.length * _silverman(place, inner.w, 1.0 / _NODES)
        # smooth ECE is a probability, not a length on an axis of log-odds
        width = rule if axis.logit or width >= rule else _cross_validated(place, inner, width, rule)
    elif bandwidth != "smooth_ece":
        width = float(bandwidth)
    if axis.logit:
        # a little beyond the predictions, so that a single one also gives a curve
        t = np.linspace(-_BEYOND, 1.0 + _BEYOND, _NODES + 1)
        window = KernelWindow(t, place, inner.w, width / axis.length, reflect=False)
        events = inner.y.astype(np.float64) if inner.w is None else inner.w * inner.y
        observed = np.clip(window.mean(window.gather(events)[window.used]), 0.0, 1.0)
        predicted = axis.probability(t)
        support = window.total / float(window.total.max())
    else:
        if width != result.bandwidth:
            result = smooth_result(inner, width, scale)
        stride = max(1, (result.grid.shape[0] - 1) // _NODES)
        t, observed = result.grid[::stride], result.curve[::stride].copy()
        window = KernelWindow(t, place, inner.w, width, reflect=True)
        predicted, support = t, result.density[::stride]
    shift = np.zeros_like(t)
    if bandwidth == "auto" and not axis.logit:
        # residuals are smoothed instead of outcomes: a wide kernel would flatten the curve at its ends
        shift = t - window.mean(window.x * window.mass)
        observed = np.clip(observed + shift, 0.0, 1.0)
    nearby = window.nearby()
    shown = nearby >= min(_NEARBY, 0.5 * float(nearby.max()))
    # a wide kernel would extend the curve beyond the predictions
    shown &= (t >= place.min() - _BEYOND) & (t <= place.max() + _BEYOND)
    observed[~shown] = np.nan
    lower, upper = wilson_interval(observed, window.effective_size(), confidence)
    curve = ReliabilityCurve(
        "smooth",
        predicted,
        observed,
        (ReliabilityBand("confidence", confidence, predicted, lower, upper),),
        support,
        distribution(sample, scale),
        "smECE" if scale == "probability" else "logit smECE",
        error,
        confidence,
        sample.total,
        bandwidth=width,
        scale=scale,
        at_edges=edge_predictions(sample) if scale == "logit" else (),
    )
    return curve, Smoother(inner, axis, window, shift)
