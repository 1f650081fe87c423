"""The curve of smooth ECE: kernel regression of the outcomes, and the sharpness of a score along it."""

import math
from dataclasses import replace

import numpy as np
from scipy.interpolate import CubicSpline

from sklearn_calib import _validation
from sklearn_calib._core._links import logit
from sklearn_calib._core._smoothing import NODES_PER_SCALE, SMALLEST_SCALE, TAIL
from sklearn_calib._typing import Array
from sklearn_calib.metrics import ScoreDecomposition
from sklearn_calib.metrics._metric_kernel import MeanLoss
from sklearn_calib.metrics._scores import BRIER, LOG
from sklearn_calib.metrics._smooth import SmoothingAxis, smooth_result
from sklearn_calib.plot._simulated import SimulatedOutcomes
from sklearn_calib.plot._smooth_curve import UnitAxis

# Nodes of the curve at equal distances and, at most, at predictions; nodes of the grid they are chosen from.
_EVEN, _AT_PREDICTIONS, _MOST_NODES = 257, 129, 2.0**18
# The curve is drawn where the kernel holds so many samples, or this fraction of the most that it holds, and a
# prediction is within a bandwidth.
_FEWEST, _FRACTION = 5.0, 0.1
_TINY = 1e-12
_LOSSES = {"brier": BRIER, "log_loss": LOG}


class KernelCurve:
    """Kernel regression of the outcomes at the bandwidth of smooth ECE (eq. 1), and the kernel density.

    It is NaN without a prediction within the bandwidth. ``density`` is per unit of the axis of the
    kernel. The bandwidth converges to the error of the model, which need not be 0, and is too narrow to
    be seen if it is. With ``length``, that of an axis, it is between n^(-1/3) and n^(-1/5) times the
    standard deviation of uniform predictions there, and the curve is consistent.
    """

    bin_of = None

    def __init__(
        self, sample: _validation.BinarySample, scale: str, axis: UnitAxis, length: float | None
    ) -> None:
        found = smooth_result(sample, "auto", scale)
        self.sample, self.error, self.bandwidth = sample, found.value, found.bandwidth
        if length is not None:
            bounds = length / math.sqrt(12.0) * sample.total ** np.array([-1.0 / 3.0, -0.2])
            smallest = SMALLEST_SCALE * max(length, 1.0)
            self.bandwidth = float(np.clip(self.bandwidth, *np.maximum(bounds, smallest)))
        ends = axis.probability(np.array([0.0, 1.0]))
        if axis.logit and not ((sample.p > 0.0) & (sample.p < 1.0)).any():
            # a logit axis shows predictions of 0 and 1, if there are no others, at its ends
            sample = replace(sample, p=np.clip(sample.p, *ends))
        self._scale, self._axis = scale, SmoothingAxis(sample, scale, self.bandwidth)
        self._s = self.bandwidth / self._axis.length
        low, high = self._place(ends).tolist()
        # fine enough for the range shown, which may be short
        fine = min((_EVEN - 1) * self._s / max(high - low, 1e-12), _MOST_NODES * self._s)
        self._per_scale = max(NODES_PER_SCALE, fine)
        t, self._events, self._weight, _ = self._axis.curve(self.bandwidth, self._per_scale)
        nodes = t.shape[0] - 1
        inside = np.clip(np.sort(self._place(axis.sample.p)), low, high)
        chosen = np.linspace(0, inside.shape[0] - 1, min(inside.shape[0], _AT_PREDICTIONS)).astype(int)
        places = np.concatenate((np.linspace(low, high, _EVEN), inside[chosen]))
        self._nodes = np.unique(np.rint(np.clip(places, low, high) * nodes).astype(int))
        self.predicted, self._grid = t[self._nodes], np.linspace(0.0, 1.0, nodes + 1)
        events, weight = self._events[self._nodes], self._weight[self._nodes]
        held = weight * sample.total * self._s * math.sqrt(2.0 * math.pi)
        self.observed = np.full(weight.shape, np.nan)
        near = held >= min(_FEWEST, _FRACTION * float(held.max()))
        place, reach = self._nodes / nodes, self._s + 0.5 / nodes
        near &= np.append(inside, np.inf)[np.searchsorted(inside, place - reach)] <= place + reach
        self.observed[near] = np.clip(events[near] / weight[near], 0.0, 1.0)
        self.density = np.maximum(weight, 0.0) / self._axis.length
        self._kernel: Array | None = None

    def _place(self, p: Array) -> Array:
        """Return the places of predictions on the axis of the kernel, in [0, 1]."""
        axis = self._axis
        return np.clip(((logit(p) if axis.logit else p) - axis.origin) / axis.length, 0.0, 1.0)

    def curves(self, outcomes: SimulatedOutcomes, weight: Array, positives: Array) -> tuple[Array, Array]:
        """Return the nodes, and the curves of r simulated samples, (nodes, r), at the same bandwidth."""
        if self._kernel is None:
            t, x, reach = self._grid[self._nodes], self._place(outcomes.prob), math.ceil(0.5 * TAIL * self._s)
            self._kernel = np.zeros((t.shape[0], x.shape[0]))
            for image in (2.0 * k + sign * x for k in range(-reach, reach + 1) for sign in (1.0, -1.0)):
                self._kernel += np.exp(-0.5 * ((t[:, np.newaxis] - image) / self._s) ** 2)
        events, mass = self._kernel @ positives, self._kernel @ weight
        # a bootstrap sample can be without samples near a node
        curve = self.observed[:, np.newaxis]
        found = np.where(mass > _TINY, events / np.maximum(mass, _TINY), curve)
        return self.predicted, np.where(np.isnan(curve), np.nan, found)

    def sharpness(
        self, score: str, classes: _validation.ClassSample | None
    ) -> tuple[Array, ScoreDecomposition]:
        """Return the expected score that calibration leaves at each node, and the parts of the mean score.

        With ``classes``, whose predicted ones the curve is about, the score is that of all probabilities.
        """
        loss, sample, w = _LOSSES[score], self.sample, self.sample.weights
        losses, rate = loss.of_sample(sample), np.array([np.average(sample.y, weights=w)])
        gap, uncertainty = _expected(loss, self.observed, self.observed), _expected(loss, rate, rate)
        if classes is not None:
            whole = loss.of_classes(classes.p, classes.y)
            if np.isfinite(whole).all():
                # what the probabilities of the other classes add
                other = SmoothingAxis(replace(sample, y=whole - losses), self._scale, self.bandwidth)
                added = other.curve(self.bandwidth, self._per_scale)[1][self._nodes]
                gap += added / np.maximum(self._weight[self._nodes], _TINY)
            losses = whole
            uncertainty = loss.expected(np.bincount(classes.y, w, classes.p.shape[1])[np.newaxis] / w.sum())
        events, weight = CubicSpline(self._grid, [self._events, self._weight], axis=1)(self._place(sample.p))
        r = np.clip(events / weight, 0.0, 1.0)
        distance = _expected(loss, r, sample.p) - _expected(loss, r, r)
        total, error = (float(np.average(each, weights=w)) for each in (losses, distance))
        if not np.isfinite(total + error):
            raise ValueError(
                f"sharpness={score!r} is infinite for these predictions of exactly 0 or 1. Clip them, or "
                "pass sharpness='brier'."
            )
        parts = ScoreDecomposition(
            total,
            error,
            float(uncertainty[0]) - total + error,
            float(uncertainty[0]),
            score,
            sample.total,
            "kernel",
        )
        return np.where(np.isnan(self.observed), np.nan, gap), parts


def _expected(loss: MeanLoss, prob: Array, predicted: Array) -> Array:
    """Return the expected loss of predictions if events have the probabilities ``prob``."""
    of_0, of_1 = loss.of_outcomes(predicted)
    # an infinite loss of an outcome that has probability 0 does not count
    with np.errstate(invalid="ignore"):
        return np.where(prob < 1.0, (1.0 - prob) * of_0, 0.0) + np.where(prob > 0.0, prob * of_1, 0.0)
