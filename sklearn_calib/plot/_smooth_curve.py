"""The smooth reliability curve, and its effective sample size."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct, idct
from scipy.special import expit
from scipy.special import logit as log_odds

from sklearn_calib._core._grouping import group_starts
from sklearn_calib._core._links import logit
from sklearn_calib._core._smoothing import TAIL, WIDEST_SCALE
from sklearn_calib._core._weights import within_classes
from sklearn_calib._typing import Array
from sklearn_calib._validation import BinarySample
from sklearn_calib.metrics._smooth import smooth_result
from sklearn_calib.plot._bands import wilson_interval
from sklearn_calib.plot._simulated import SimulatedOutcomes

# Log-odds beyond which predictions are moved to the ends of a logit axis: 1e-6.
FAR = 13.8
# A picture cannot show more nodes than this; the bins are half as wide as their distance.
_NODES = 512
BINS = 1024
# Number of bandwidths, from that of smooth ECE to Silverman's rule, compared by cross-validation.
_CANDIDATES = 8
# A wide kernel may carry the curve this far beyond the predictions, in units of the axis' length.
_BEYOND = 1.0 / 50
# This fraction of the predictions at each end does not determine the range shown.
_HIDDEN = 0.0005
# The curve is drawn where the kernel weights of the predictions sum to at least this number.
_NEARBY = 5.0
# In log-odds it is drawn where at least so many outcomes of the rarer kind are expected among them.
_RARER = 0.5
# Nine in ten predictions within this fraction of the axis are smoothed in log-odds, to this fraction of it.
_CROWDED, _FINEST = 0.1, 1e-3


def shown_range(prob: Array, weight: Array, hidden: float = _HIDDEN) -> tuple[float, float]:
    """Return the part of [0, 1] that a diagram shows of sorted predictions.

    It ends at the largest of them if all are below 1/2, and begins at the smallest if all are above. A
    fraction ``hidden`` of the predictions at each end does not count.
    """
    ends = np.searchsorted(np.cumsum(weight), np.array([hidden, 1.0 - hidden]) * weight.sum())
    low, high = prob[np.minimum(ends, prob.shape[0] - 1)].tolist()
    return low if low > 0.5 and low < 1.0 else 0.0, high if 0.0 < high < 0.5 else 1.0


def hidden_note(weight: float, total: float, where: str, number: bool = True) -> str:
    """Return a line of a legend on the predictions not shown, their number or fraction; "" if none."""
    shown = f"{weight:g} predictions" if number else f"{100.0 * weight / total:.2g}% of the predictions"
    return f"\n({shown} {where} not shown)" if weight > 1e-9 * total else ""


def beyond(low: float, high: float) -> str:
    """Return where predictions outside a range are, in words."""
    return f"above {high:.3g}" if low == 0.0 else f"below {low:.3g}"


def moved(prob: Array, shift: Array | float, in_log_odds: bool) -> Array:
    """Return probabilities plus a shift, or with a shift of their log-odds."""
    return np.asarray(expit(log_odds(prob) + shift) if in_log_odds else prob + shift)


class UnitAxis:
    """The range shown of the axis of a diagram, moved to [0, 1], and the samples in it.

    On the logit scale it holds all predictions but 0 and 1. On the "crowded" one, log-odds are those of the
    range shown, up to a thousandth of it.
    """

    def __init__(self, sample: BinarySample, scale: str, shown: tuple[float, float], shortest: float) -> None:
        self.logit, (low, high) = scale != "probability", shown
        inside = (sample.p >= low) & (sample.p <= high)
        self._ends = np.array([-FAR, FAR])
        if scale == "crowded":
            finest = _FINEST * (high - low)
            self._ends = logit(np.array([max(low, finest), min(high, 1.0 - finest)]))
        elif self.logit:
            inside = (sample.p > 0.0) & (sample.p < 1.0)
        self.sample = sample if inside.all() or not inside.any() else sample.take(inside)
        self.origin, self.length = low, high - low
        if self.logit:
            x = self.log_odds(self.sample.p)
            self.origin, self.length = float(x.min()), max(float(np.ptp(x)), shortest)

    def locate(self, p: Array) -> Array:
        """Return the places of predictions."""
        x = self.log_odds(p) if self.logit else p
        return np.clip((x - self.origin) / self.length, 0.0, 1.0)

    def log_odds(self, p: Array) -> Array:
        """Return log-odds, moved to the ends of the axis if they lie beyond."""
        return np.clip(logit(p), *self._ends)

    def probability(self, place: Array) -> Array:
        """Return the predictions at places."""
        x = self.origin + self.length * place
        return np.asarray(expit(x)) if self.logit else x


def _is_crowded(sample: BinarySample, shown: tuple[float, float]) -> bool:
    """Return whether nearly all predictions are near 0 or near 1, compared with the range shown."""
    place = (sample.p - shown[0]) / (shown[1] - shown[0])
    distances = [x for x, end in ((place, shown[0] == 0.0), (1.0 - place, shown[1] == 1.0)) if end]
    return any(np.average(x > _CROWDED, weights=sample.w) < _CROWDED for x in distances)


def _squared_weights(sample: BinarySample) -> Array | None:
    """Return w^2 of sampling weights; a frequency w stands for as many samples of weight 1."""
    return sample.w**2 if sample.sampling and sample.w is not None else sample.w


def _silverman(place: Array, sample: BinarySample, smallest: float) -> float:
    """Return Silverman's rule of thumb for the predictions, or 1 if they are all equal.

    The number of samples is twice that of the outcome with the smaller effective number, which limits what a
    curve can show.
    """
    spread = float(np.sqrt(np.cov(place, ddof=0, aweights=sample.w)))
    both = (sample.w, _squared_weights(sample))
    mass, squares = (np.bincount(sample.y, weights=each, minlength=2) for each in both)
    size = 2.0 * float((mass**2 / np.maximum(squares, 1e-300)).min())
    return max(1.06 * spread * max(size, 1.0) ** -0.2, smallest) if spread > 0 else 1.0


def _cross_validated(place: Array, sample: BinarySample, narrow: float, wide: float) -> float:
    """Return the widest bandwidth whose leave-one-out error is within a standard error of the smallest.

    The kernel is reflected at 0 and 1, which is a product in the basis of the discrete cosine transform.
    """
    bin_of = _bins(place)
    mass = _gather(bin_of, sample.w)
    events = _gather(bin_of, sample.y if sample.w is None else sample.w * sample.y)
    squares = _gather(bin_of, _squared_weights(sample))
    used = mass > 0
    total = float(mass.sum())
    middle = (np.arange(BINS) + 0.5) / BINS
    widths = np.geomspace(wide, narrow, _CANDIDATES)
    # leave-one-out squared errors of events and of non-events in each bin, for each width
    losses = np.empty((_CANDIDATES, 2, int(used.sum())))
    for s, loss in zip(widths, losses, strict=True):
        damping = np.exp(-0.5 * (math.pi * s * np.arange(BINS)) ** 2)
        total_near, events_near = (idct(damping * dct(part))[used] for part in (mass, events))
        # the weight of a prediction in the estimate at its own place, which is left out
        left_out = 1.0 + np.exp(-2.0 * (middle / s) ** 2) + np.exp(-2.0 * ((1.0 - middle) / s) ** 2)
        left_out = (left_out / (math.sqrt(2.0 * math.pi) * s * BINS))[used] * (squares[used] / mass[used])
        others = np.maximum(total_near - left_out, 1e-12 * total)
        loss[:] = ((total_near - events_near) / others) ** 2, (events_near / others) ** 2
    count = np.stack((events, mass - events))[:, used]
    excess = losses - losses[np.argmin((count * losses).sum(axis=(1, 2)))]
    mean = (count * excess).sum(axis=(1, 2)) / total
    variance = (count * (excess - mean[:, np.newaxis, np.newaxis]) ** 2).sum(axis=(1, 2)) / total
    return float(widths[np.argmax(mean <= np.sqrt(variance * squares.sum()) / total)])


def _bins(place: Array) -> NDArray[np.int64]:
    """Return the bin of each place on [0, 1]."""
    return np.minimum((place * BINS).astype(np.int64), BINS - 1)


def _gather(bin_of: NDArray[np.int64], values: Array | NDArray[np.int64] | None) -> Array:
    """Return the sum of values, one for each prediction, in each of the bins."""
    return np.bincount(bin_of, weights=values, minlength=BINS).astype(np.float64)


class KernelWindow:
    """A Gaussian kernel of scale s, at least two bins, at nodes on [0, 1], acting on binned predictions."""

    def __init__(self, nodes: Array, place: Array, sample: BinarySample, s: float, *, reflect: bool) -> None:
        self.bin_of, w = _bins(place), sample.w
        mass = _gather(self.bin_of, w)
        self.used = np.flatnonzero(mass)
        self.mass = mass[self.used]
        self.squares = _gather(self.bin_of, _squared_weights(sample))[self.used]
        self._by_class = sample.class_weights is not None
        self._within = within_classes(sample)
        self.x = _gather(self.bin_of, place if w is None else w * place)[self.used] / self.mass
        if reflect:
            s = min(s, WIDEST_SCALE)
        self.kernel = np.zeros((nodes.shape[0], self.x.shape[0]))
        reach = math.ceil((TAIL * s + 1.0) / 2.0) if reflect else 0
        for period in range(-reach, reach + 1):
            for image in (2.0 * period + self.x, 2.0 * period - self.x)[: 1 + reflect]:
                if image.max() > -TAIL * s and image.min() < 1.0 + TAIL * s:
                    self.kernel += np.exp(-0.5 * ((nodes[:, np.newaxis] - image) / s) ** 2)
        self.total = self.kernel @ self.mass

    def mean(self, sums: Array, mass: Array) -> Array:
        """Return kernel means at each node from the sums of values, (bins, r), and weights in used bins."""
        total = self.kernel @ mass
        out = np.full((total.shape[0], sums.shape[1]), np.nan)
        np.divide(self.kernel @ sums, total, out=out, where=total > 0)
        return out

    def local_size(self, prob: Array) -> Array:
        """Return the effective number of samples at each node, for event probabilities in the used bins.

        It is (sum w K)^2 / sum w^2 K^2, and smaller if the probabilities about the node, which count most in
        the variance, vary more than their mean; w are the weights within classes, if weights depend on them.
        """
        total, squares = self.total, self.squares
        if self._by_class:
            squares = _gather(self.bin_of, self._within**2)[self.used]
            total = self.kernel @ _gather(self.bin_of, self._within)[self.used]
        square = self.kernel**2
        spread, variance = square @ squares, square @ (squares * prob * (1.0 - prob))
        size, ratio = np.zeros_like(total), np.ones_like(total)
        np.divide(total**2, spread, out=size, where=spread > 0)
        mean = self.mean((self.mass * prob)[:, np.newaxis], self.mass[:, np.newaxis])[:, 0]
        np.divide(mean * (1.0 - mean) * spread, variance, out=ratio, where=variance > 0)
        return np.asarray(size * np.minimum(ratio, 1.0))

    def nearby(self, mass: Array) -> Array:
        """Return the sum of exp(-(t - x)^2 / 2 s^2) for weights in used bins; a prediction at t counts 1."""
        unit = float(self.squares.sum() / self.mass.sum())
        return np.asarray(self.kernel @ mass / unit)


class SmoothCurve:
    """Kernel regression of the outcome on the prediction, on the axis of the diagram.

    The curve is NaN where it has too few samples; ``error`` is smooth ECE, which has its own bandwidth. At
    each point the curve is the event ``frequency`` in the kernel's window, of effectively ``size`` samples,
    plus a ``shift``, of log-odds if ``in_log_odds``.
    """

    # any neighbouring predictions are pooled when outcomes are simulated
    bin_of = None
    limits = staticmethod(wilson_interval)

    def __init__(self, sample: BinarySample, scale: str, shown: tuple[float, float]) -> None:
        smoothed = "crowded" if scale == "probability" and _is_crowded(sample, shown) else scale
        self._axis = axis = UnitAxis(sample, smoothed, shown, 1.0)
        self.sample = in_range = axis.sample
        place = axis.locate(in_range.p)
        result = smooth_result(sample, "auto", scale)
        self.error_name = "smECE" if scale == "probability" else "logit smECE"
        self.error, width = result.value, max(result.bandwidth / axis.length, 1.0 / _NODES)
        rule = _silverman(place, in_range, 1.0 / _NODES)
        # the bandwidth of smooth ECE is its value, a probability, not a length on an axis of log-odds
        width = rule if axis.logit or width >= rule else _cross_validated(place, in_range, width, rule)
        self.bandwidth = width * axis.length
        # on a logit axis a little beyond the predictions, so that a single one also gives a curve
        beyond = _BEYOND if scale == "logit" else 0.0
        t = np.linspace(-beyond, 1.0 + beyond, _NODES + 1)
        self.predicted = axis.probability(t)
        self._window = window = KernelWindow(t, place, in_range, width, reflect=not axis.logit)
        events, expected = (
            _gather(window.bin_of, each if in_range.w is None else in_range.w * each)[window.used, np.newaxis]
            for each in (in_range.y, in_range.p)
        )
        mass, self.in_log_odds = window.mass[:, np.newaxis], axis.logit
        self._expected = expected / mass
        self.frequency = window.mean(events, mass)[:, 0]
        self.shift = self._shift(mass)[:, 0]
        self.observed = np.clip(moved(self.frequency, self.shift, axis.logit), 0.0, 1.0)
        if not axis.logit:
            self.shift = self.observed - self.frequency
        self.size = window.local_size(expected[:, 0] / window.mass)
        nearby = window.nearby(window.mass)
        enough = nearby >= min(_NEARBY, 0.5 * float(nearby.max()))
        if axis.logit:
            # where no event is expected, the curve would only fall to the end of the axis
            rarer = window.nearby(np.minimum(expected, mass - expected)[:, 0])
            enough &= rarer >= min(_RARER, 0.5 * float(rarer.max()))
        # a wide kernel would extend the curve beyond the predictions
        enough &= (t >= place.min() - _BEYOND) & (t <= place.max() + _BEYOND)
        self.observed[~enough] = self.shift[~enough] = np.nan

    def _shift(self, mass: Array) -> Array:
        """Return the nodes less the mean predictions in their windows, (nodes, r), or those of log-odds.

        A wide kernel would flatten the mean outcome at the ends of the curve, as it flattens this mean.
        """
        mean, nodes = self._window.mean(self._expected * mass, mass), self.predicted[:, np.newaxis]
        return np.asarray(log_odds(nodes) - self._axis.log_odds(mean) if self.in_log_odds else nodes - mean)

    def curves(self, outcomes: SimulatedOutcomes, weight: Array, positives: Array) -> tuple[Array, Array]:
        """Return the points of the curves of r simulated samples, and the curves, (points, r)."""
        bin_of = _bins(self._axis.locate(outcomes.prob))
        starts = group_starts(bin_of)

        def gathered(values: Array) -> Array:
            sums = np.zeros((BINS, values.shape[1]))
            sums[bin_of[starts]] = np.add.reduceat(values, starts, axis=0)
            return sums[self._window.used]

        mass = gathered(weight)
        # not clipped to [0, 1]
        curves = moved(self._window.mean(gathered(positives), mass), self._shift(mass), self.in_log_odds)
        curves[np.isnan(self.observed)] = np.nan
        return self.predicted, curves

    def spread(self, values: Array, outcomes: SimulatedOutcomes) -> Array:
        """Return values at the points of the curve as values at the predictions of simulated outcomes."""
        known = np.isfinite(values)
        return np.interp(outcomes.prob, self.predicted[known], values[known])
