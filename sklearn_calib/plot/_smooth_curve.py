"""The smooth reliability curve: a penalized shift of the log-odds of the predictions."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import expit, ndtri
from scipy.special import logit as log_odds

from sklearn_calib import _validation
from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._grouping import DISTINCT, GroupedOutcomes, as_sampled, group_sample, group_starts
from sklearn_calib._core._links import logit
from sklearn_calib._typing import Array
from sklearn_calib.plot._bands import ReliabilityBand
from sklearn_calib.plot._monotone_band import squared_weights
from sklearn_calib.plot._simulated import SimulatedOutcomes

# Log-odds beyond which predictions are moved to the ends of a logit axis: 1e-6.
FAR = 13.8
# Bins of neighboring predictions, bends that are distinguished, and nodes evenly spaced on each scale.
_BINS, _BENDS, _NODES = 120, 40, 257
# Strengths of the penalty: bends of at most so many half waves are hardly penalized.
_HALF_WAVES = np.geomspace(0.5, 24.0, 12)
# Standard deviation of the slope: per unit of log-odds, or per standard deviation of predictions within that.
_SLOPE = 0.5
# Bins nearer to each other than this fraction of the range of log-odds, or of _SHORTEST, are one: changes of
# slope between them would have no numerical meaning.
_NEAREST, _SHORTEST = 1e-5, 1e-3
# The curve is not drawn across this fraction of the range without predictions, and five mean distances.
_GAP, _DISTANCES = 0.125, 5.0
# Predictions between gaps are shown if they have so many samples, or none between gaps have as many.
_OFTEN = 5.0
# Length in log-odds of a logit axis of nearly equal predictions; shorter ones have unreadable ticks.
_NARROWEST = 1.0
# This fraction of the predictions at each end does not determine the range shown.
_HIDDEN = 0.0005
# Longest step after which no other is made: Newton's method leaves its square, with leverages a part of it.
_STEPS, _LAST, _LAST_FIRTH = 50, 1e-2, 1e-4


def shown_range(prob: Array, weight: Array, hidden: float = _HIDDEN) -> tuple[float, float]:
    """Return the part of [0, 1] that a diagram shows of sorted predictions.

    It ends at the largest of them if all are below 1/2, and begins at the smallest if all are above. A
    fraction ``hidden`` of the predictions at each end does not count.
    """
    low, high = _ends(prob, weight, hidden)
    return low if low > 0.5 and low < 1.0 else 0.0, high if 0.0 < high < 0.5 else 1.0


def _ends(prob: Array, weight: Array, hidden: float) -> tuple[float, float]:
    """Return the first and the last of sorted predictions without a fraction ``hidden`` at each end."""
    ends = np.searchsorted(np.cumsum(weight), np.array([hidden, 1.0 - hidden]) * weight.sum())
    low, high = prob[np.minimum(ends, prob.shape[0] - 1)].tolist()
    return low, high


def hidden_note(weight: float, total: float, where: str, number: bool = True) -> str:
    """Return a line of a legend on the predictions not shown, their number or fraction; "" if none."""
    percent = float(f"{100.0 * weight / total:.2g}")
    shown = "less than 0.01%" if percent < 0.01 else f"{percent:g}%"
    shown = f"{weight:,.9g}" if number else f"{shown} of the"
    words = "prediction" if shown == "1" else "predictions"
    return f"\n({shown} {words} {where} not shown)" if weight > 1e-9 * total else ""


def beyond(low: float, high: float) -> str:
    """Return where predictions outside a range are, in words."""
    ends = [f"below {end_text(low)}"] if low > 0.0 else []
    return " or ".join([*ends, f"above {end_text(high)}"] if high < 1.0 else ends)


def end_text(end: float) -> str:
    """Return the end of an axis with three digits, or two of its distance from 1."""
    return f"{end:.3g}" if end < 0.9 else f"{end:.{1 - math.floor(math.log10(1.0 - end))}f}".rstrip("0")


class UnitAxis:
    """The range shown of the axis of a diagram, moved to [0, 1], and the samples in it.

    On the logit scale it has no place for 0 and 1, nor for the fraction _HIDDEN at each end of all others,
    and is at least _NARROWEST long.
    """

    def __init__(
        self,
        sample: _validation.BinarySample,
        grouped: GroupedOutcomes,
        scale: str,
        shown: tuple[float, float],
    ) -> None:
        self.logit, (low, high) = scale == "logit", shown
        between = (grouped.prob > 0.0) & (grouped.prob < 1.0)
        if self.logit and between.any():
            low, high = _ends(grouped.prob[between], grouped.weight[between], _HIDDEN)
        inside = (sample.p >= low) & (sample.p <= high)
        self.sample = sample if inside.all() or not inside.any() else sample.take(inside)
        self.origin, self.length = low, high - low
        if self.logit:
            x = np.clip(logit(self.sample.p), -FAR, FAR)
            self.length = max(float(np.ptp(x)), _NARROWEST)
            self.origin = 0.5 * float(x.min() + x.max() - self.length)

    def locate(self, p: Array) -> Array:
        """Return the places of predictions."""
        x = np.clip(logit(p), -FAR, FAR) if self.logit else p
        return np.clip((x - self.origin) / self.length, 0.0, 1.0)

    def probability(self, place: Array) -> Array:
        """Return the predictions at places."""
        x = self.origin + self.length * place
        return np.asarray(expit(x)) if self.logit else x


class PenalizedShift:
    """Shift of log-odds ``u`` in bins, of effectively ``size`` samples and ``events`` events.

    Lines are free but for a weak prior of their slope. Bends, the changes of slope from bin to bin, have a
    normal prior of one of twelve strengths. ``shift`` is the mean of the twelve fits with ``share``, their
    (Laplace) marginal likelihood, as weights; ``variance`` is that within fits plus that between them.
    """

    def __init__(self, u: Array, size: Array, events: Array) -> None:
        self.u, m = u, u.shape[0]
        center = float(np.average(u, weights=size))
        # per unit of log-odds, or per standard deviation if that is smaller
        unit = min(1.0, float(np.sqrt(np.average((u - center) ** 2, weights=size))))
        self._shapes = np.stack((np.ones(m), (u - center) / (unit or 1.0)))[:m]
        flat, bends = np.array([0.0, _SLOPE**-2])[:m], np.zeros(0)
        # one half of an event and of a non-event for each coefficient of the line (Firth) keep it finite, of
        # a class of which the predictions expect less than one sample, half of what they expect
        expected = size @ expit(u), size @ expit(-u)
        half = 0.5 * (1.0 + max(0.0, 1.0 - expected[1]) - max(0.0, 1.0 - expected[0]))
        lines, leverage = self._maximize(size, events, np.zeros(flat.shape[0]), flat, half)
        self.size, self.events = size + leverage, events + half * leverage
        if m > 2:
            distance = np.diff(u)
            slopes = np.diff(np.eye(m), axis=0) * (np.median(distance) / distance)[:, np.newaxis]
            change = np.diff(slopes, axis=0)
            sizes, waves = np.linalg.eigh(change.T @ change)
            bends = sizes[2 : _BENDS + 2]
            self._shapes = np.concatenate((self._shapes, waves.T[2 : _BENDS + 2]))
        # the penalty of a shape of k half waves is (pi k / m)^4, and equals its information at this k
        scale = np.mean(self.size * expit(u) * expit(-u)) * (m / (np.pi * _HALF_WAVES)) ** 4
        strengths = scale[:, np.newaxis] if m > 2 else np.zeros((1, 1))
        self._precisions = [np.concatenate((flat, each * bends)) for each in strengths]
        b = np.concatenate((lines, np.zeros(bends.shape[0])))
        evidence, shifts, variances = [], [], []
        for precision in self._precisions:
            b, _ = self._maximize(self.size, self.events, b, precision)
            shifts.append(b @ self._shapes)
            odds = u + shifts[-1]
            information = self.size * expit(odds) * expit(-odds) + 1e-9
            factor = np.linalg.cholesky(self._hessian(information, precision))
            variances.append((solve_triangular(factor, self._shapes, lower=True) ** 2).sum(axis=0))
            likelihood = self.events @ odds - self.size @ np.logaddexp(0.0, odds) - 0.5 * precision @ b**2
            determinant = 0.5 * np.log(precision[2:]).sum() - np.log(np.diag(factor)).sum()
            evidence.append(float(likelihood + determinant))
        share = np.exp(np.array(evidence) - max(evidence))
        self.share = share / share.sum()
        self.shift = self.share @ np.array(shifts)
        self.variance = self.share @ (np.array(variances) + (np.array(shifts) - self.shift) ** 2)

    def _hessian(self, information: Array, precision: Array) -> Array:
        """Return minus the second derivative of the penalized log-likelihood."""
        hessian = np.asarray((self._shapes * information) @ self._shapes.T)
        hessian.flat[:: precision.shape[0] + 1] += precision
        return hessian

    def _maximize(
        self, size: Array, events: Array, b: Array, precision: Array, half: float | None = None
    ) -> tuple[Array, Array]:
        """Return the coefficients of the shapes, by Newton's method from ``b``, and the leverage of bins."""
        shapes, leverage = self._shapes, np.zeros_like(self.u)
        odds = self.u + b @ shapes
        for _ in range(_STEPS):
            q = expit(odds)
            # not singular where predictions are nearly certain
            information = size * q * (1.0 - q) + 1e-9
            hessian, residual = self._hessian(information, precision), events - size * q
            if half is not None:
                leverage = information * (shapes * np.linalg.solve(hessian, shapes)).sum(axis=0)
                residual += leverage * (half - q)
            step = np.linalg.solve(hessian, shapes @ residual - precision * b)
            change = step @ shapes
            largest = float(np.abs(change).max())
            part = min(1.0, 2.0 / max(largest, 2.0))
            b, odds = b + part * step, odds + part * change
            if largest < (_LAST if half is None else _LAST_FIRTH):
                break
        return b, leverage

    def response(self, shift: Array) -> Array:
        """Return the change of the shift in each bin by one event more in another, (bins, bins), at a shift.

        It is that of one Newton step from there, at fixed strengths.
        """
        q = expit(self.u + shift)
        information, shapes = self.size * q * (1.0 - q) + 1e-9, self._shapes
        inverse: Any = sum(
            part * np.linalg.inv(self._hessian(information, precision))
            for part, precision in zip(self.share, self._precisions, strict=True)
            if part > 1e-6
        )
        return np.asarray(shapes.T @ inverse @ shapes)


def _neighbors(prob: Array, weight: Array) -> NDArray[np.intp]:
    """Return the first of each bin of sorted predictions.

    A quarter of the bins each is for even numbers of samples, sums of p (1 - p), lengths, and lengths in
    log-odds. What a curve can show on the axes of either scale depends on all of them.
    """
    length, found = max(prob[-1] - prob[0], 1e-300), np.empty(prob.shape[0], dtype=np.int16)
    total = np.array([weight.sum(), sum(w @ (p * (1.0 - p)) for p, w in _pairs(prob, weight))])
    before, first, (start, end) = np.zeros(2), 0, logit(prob[[0, -1]]).tolist()
    odds = max(end - start, 1e-300)
    for p, w in _pairs(prob, weight):
        mass = np.stack((w, w * p * (1.0 - p)))
        ends = np.cumsum(mass, axis=1)
        ends += before[:, np.newaxis]
        before = ends[:, -1].copy()
        place = (p - prob[0]) / length + (logit(p) - start) / odds
        place += ((ends - 0.5 * mass) / total[:, np.newaxis]).sum(axis=0)
        found[first : first + p.shape[0]] = np.minimum(_BINS / 4.0 * place, _BINS - 1)
        first += p.shape[0]
    starts = group_starts(found)
    u = logit(np.add.reduceat(weight * prob, starts) / np.add.reduceat(weight, starts))
    apart = np.diff(u, prepend=-np.inf) > _NEAREST * max(float(u[-1] - u[0]), _SHORTEST)
    return starts[apart]


def _pairs(prob: Array, weight: Array) -> Iterator[tuple[Array, Array]]:
    """Yield predictions and their weights, some at a time, which stay in the cache."""
    return ((prob[rows], weight[rows]) for rows in blocks(prob.shape[0]))


class SmoothCurve:
    """The smooth curve: logit P(y = 1 | p) = logit p + a(p), where a is a penalized shift.

    It is NaN in wide gaps between predictions, in which single predictions are points. With weights by
    class, the shift is that of the samples as they were drawn, whose log-odds are larger by ``_offset``.
    """

    def __init__(
        self,
        sample: _validation.BinarySample,
        grouped: GroupedOutcomes,
        shown: tuple[float, float],
    ) -> None:
        between = (grouped.prob > 0.0) & (grouped.prob < 1.0)
        inside, number = grouped.prob[between], grouped.weight[between]
        self.sample, self._offset = as_sampled(sample), 0.0
        if sample.class_weights is not None:
            self._offset = float(np.log(sample.class_weights[0] / sample.class_weights[1]))
            grouped = group_sample(self.sample)
        self._grouped = grouped
        prob, weight = np.clip(grouped.prob, expit(-FAR), expit(FAR)), grouped.weight
        self._starts = _neighbors(prob, weight)
        sums = (weight, weight * prob, grouped.positives, squared_weights(grouped))
        self._mass, means, events, squares = (np.add.reduceat(each, self._starts) for each in sums)
        # effective numbers per weight (Kish, 1965): 1 without sampling weights
        self._unit = self._mass / squares
        u = logit(means / self._mass)
        self.fit = PenalizedShift(u, self._unit * self._mass, self._unit * events)
        self._residual = self._unit * (events - self._mass * expit(u + self.fit.shift))
        # predictions of exactly 0 and 1 would stretch the curve
        low, high = np.clip(logit(inside[[0, -1]]), u[0] - self._offset, u[-1] - self._offset)
        # evenly spaced on both axes
        even = log_odds(np.linspace(expit(low), expit(high), _NODES)[1:-1])
        self._nodes = np.unique(np.concatenate((even, np.linspace(low, high, _NODES))))
        self.predicted = np.asarray(expit(self._nodes))
        width = min(inside[-1], shown[1]) - max(inside[0], shown[0])
        wide = np.diff(inside) > width * max(_GAP, _DISTANCES / inside.shape[0])
        # few predictions between gaps are not shown
        first = np.append(0, np.flatnonzero(wide) + 1)
        together = np.add.reduceat(number, first)
        few = np.repeat(together < min(_OFTEN, together.max()), np.diff(first, append=inside.shape[0]))
        self._nodes[(wide | few[1:])[np.searchsorted(inside[1:-1], self.predicted)]] = np.nan
        # single predictions between gaps
        alone = inside[~few & np.append(True, wide) & np.append(wide, True)]
        place = np.searchsorted(self.predicted, alone)
        self._nodes = np.insert(self._nodes, place, logit(alone))
        self.predicted = np.insert(self.predicted, place, alone)
        self.observed = self._probability(self.fit.shift)

    def _outcomes(self) -> SimulatedOutcomes:
        """Return simulated outcomes, of which each bin has its own."""
        sizes = np.diff(self._starts, append=self._grouped.prob.shape[0])
        bins = np.repeat(np.arange(sizes.shape[0]), sizes)
        return SimulatedOutcomes(self._grouped, DISTINCT, bins)

    def _probability(self, shift: Array) -> Array:
        """Return the curve of a shift given in each bin."""
        return np.asarray(expit(self._nodes + np.interp(self._nodes + self._offset, self.fit.u, shift)))

    def band(
        self, kind: str, confidence: float, n_resamples: int, generator: np.random.Generator
    ) -> ReliabilityBand:
        """Return the pointwise band: of the posterior of the shift, or of the shifts of simulated samples."""
        u, shift, tail = self.fit.u, self.fit.shift, 0.5 - confidence / 2
        if kind == "confidence":
            sd = np.sqrt(self.fit.variance)
            if self.sample.clusters is not None:
                outcomes = self._outcomes()
                x, q = logit(outcomes.prob), expit(u + shift)
                outcomes.set_truth(expit(x + np.interp(x, u, shift)))
                alone = self.fit.response(shift) ** 2 @ (self._unit * self._mass * q * (1.0 - q))
                found = self._shifts(outcomes.simulate(n_resamples, generator), outcomes, shift)
                sd *= np.sqrt(np.maximum(found.var(axis=1) / alone, 1.0))
            limits = [shift + ndtri(each) * sd for each in (tail, 1.0 - tail)]
        else:
            outcomes = self._outcomes()
            drawn = outcomes.resample if kind == "bootstrap" else outcomes.simulate
            start, center = (shift, self._residual) if kind == "bootstrap" else (np.zeros_like(u), 0.0)
            shifts = self._shifts(drawn(n_resamples, generator), outcomes, start, center)
            limits = list(np.quantile(shifts, [tail, 1.0 - tail], axis=1))
        lower, upper = map(self._probability, limits)
        return ReliabilityBand(kind, confidence, self.predicted, lower, upper)

    def _shifts(
        self,
        samples: Iterator[tuple[Array, Array]],
        outcomes: SimulatedOutcomes,
        start: Array,
        center: Array | float = 0.0,
    ) -> Array:
        """Return shifts of simulated samples, (bins, r), by one Newton step from ``start``."""
        q, starts = expit(self.fit.u + start)[:, np.newaxis], group_starts(outcomes.part)
        sums = [[np.add.reduceat(part, starts, axis=0) for part in sample] for sample in samples]
        events = np.concatenate([positives - q * weight for weight, positives in sums], axis=1)
        residual = self._unit[:, np.newaxis] * events - np.reshape(center, (-1, 1))
        return np.asarray(start[:, np.newaxis] + self.fit.response(start) @ residual)
