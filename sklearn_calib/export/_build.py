"""The map of a fitted calibrator as a node; maps without a closed form are approximated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.frozen import FrozenEstimator

from sklearn_calib._core._inverse import switches
from sklearn_calib._core._links import EPS, logit
from sklearn_calib._core._maps import FAR, LARGEST, NUMPY, Average, Beta, Linear, Logistic, Node, Step
from sklearn_calib._typing import Array
from sklearn_calib.calibrators._base import BaseCalibrator, inside, may_be_certain
from sklearn_calib.calibrators._multiclass import event_probability, scores_wanted

# Deviations are measured on a grid this much finer than the knots.
_FINER = 10
_FIRST_KNOTS = 33
_MOST_KNOTS = 50_000
# Fraction of the tolerance for deviations on the grid: between its points they are slightly larger.
_SAFETY = 0.98
_REACH = 700.0


@dataclass(frozen=True)
class Axis:
    """Scale of the scores: log-odds, or the inverse hyperbolic sine around a center."""

    name: str
    center: float = 0.0
    scale: float = 1.0

    def scores(self, n: int) -> Array:
        """Return n scores that cover the range of all scores."""
        if self.name == "logit":
            found = expit(np.linspace(-FAR, FAR, n))
            found[[0, -1]] = EPS, 1.0 - EPS
            return np.asarray(found)
        # quotients of scores and scale must be finite
        reach = min(float(np.log(LARGEST) - np.log(self.scale)), _REACH)
        return np.clip(self.center + self.scale * np.sinh(np.linspace(-reach, reach, n)), -LARGEST, LARGEST)

    def between(self, low: Array, high: Array, fraction: Array | float) -> Array:
        """Return scores between two others on the axis."""
        if self.name == "logit":
            a, b = logit(low), logit(high)
            found = expit(a + (b - a) * fraction)
        else:
            a, b = (np.arcsinh((end - self.center) / self.scale) for end in (low, high))
            found = self.center + self.scale * np.sinh(a + (b - a) * fraction)
        return np.asarray(np.clip(found, low, high))


def approximate(
    function: Callable[[Array], Array], axis: Axis, breaks: Array, tolerance: float, relative: bool
) -> Linear:
    """Return a piecewise linear function that deviates by at most ``tolerance`` from a map.

    Log-odds are linear along the axis. The function of scores is evaluated at knots, at all floats next to
    ``breaks``, where it may have jumps or corners, and at nine points between neighboring knots; a piece
    that deviates more is split. With ``relative`` the deviation is that of log-odds.
    """
    ends = axis.scores(_FIRST_KNOTS)
    breaks = breaks[(breaks > ends[0]) & (breaks < ends[-1])]
    knots = np.unique(np.concatenate([ends, np.nextafter(breaks, -np.inf), breaks]))
    fraction = np.arange(1, _FINER)[:, np.newaxis] / _FINER
    while True:
        values = np.clip(logit(function(knots)), -FAR, FAR)
        line = Linear(axis.name, axis.center, axis.scale, "logit", knots, values)
        probe = axis.between(knots[:-1], knots[1:], fraction)
        truth = function(probe.ravel()).reshape(probe.shape)
        allowed = tolerance * _SAFETY * (truth * (1.0 - truth) if relative else 1.0)
        if relative:
            # near 1 the probabilities themselves are rounded
            allowed += np.where(truth > 0.5, 4.0 * EPS, 0.0)
        wrong = np.flatnonzero((np.abs(line.evaluate(NUMPY, probe) - truth) > allowed).any(axis=0))
        # there are no scores between neighboring floats
        new = np.setdiff1d(axis.between(knots[wrong], knots[wrong + 1], 0.5), knots)
        if not new.size:
            return line
        knots = np.union1d(knots, new)
        if knots.size > _MOST_KNOTS:
            raise ValueError(
                f"tolerance={tolerance:g} needs more than {_MOST_KNOTS} knots for this map. Pass a "
                "greater one."
            )


_STEP_GRID = 4097


@dataclass(frozen=True)
class MapBuilder:
    """The argument of ``_export`` of calibrators, which returns the node of a map.

    ``tolerance`` is the largest deviation of an approximation: of probabilities, or of log-odds if
    ``relative``. ``nested`` is true for the parts of averages.
    """

    tolerance: float
    relative: bool = False
    nested: bool = False
    #: The approximated calibrators, of this object and all that derive from it.
    approximated: list[Any] = field(default_factory=list)

    def part(self, calibrator: Any) -> Any:
        """Return the node of a fitted calibrator, or of another classifier of scores."""
        if isinstance(calibrator, FrozenEstimator):
            return self.part(calibrator.estimator)
        n_classes = calibrator.classes_.shape[0]
        # deviations of log p of the parts by d change the softmax of their means by d / 2 at most, and those
        # of quotients are twice as large
        own = self if n_classes == 2 else replace(self, relative=True)
        node: Any
        if hasattr(calibrator, "_export"):
            node = calibrator._export(own)
            if isinstance(node, Node) and isinstance(calibrator, BaseCalibrator):
                node = calibrator._kept_node(node)
        elif n_classes == 2:
            # the map of a wrapper has its jumps and corners where the wrapped calibrator has
            inner = getattr(calibrator, "calibrator_", None)
            node = own.composed(calibrator, [inner] if isinstance(inner, BaseCalibrator) else [])
        else:
            whose = "A calibrator of your own" if isinstance(calibrator, BaseCalibrator) else "A classifier"
            raise TypeError(
                f"calibrator={type(calibrator).__name__} of {n_classes} classes cannot be exported. {whose} "
                "is exported for two classes, also in OneVsRestCalibrator."
            )
        if may_be_certain(calibrator):
            return node
        if isinstance(node, Step):
            return replace(node, values=inside(node.values))
        interpolated = isinstance(node, Linear) and node.values == "probability"
        return replace(node, y=inside(node.y)) if interpolated else node

    def curve(self, calibrator: Any, center: float | None = None, scale: float = 1.0) -> Linear:
        """Approximate a map that is smooth in log-odds, or in the inverse hyperbolic sine around a center."""
        axis = Axis("logit") if center is None else Axis("asinh", center, scale)
        return self._line(calibrator, axis, np.zeros(0))

    def composed(self, calibrator: Any, parts: Sequence[Any]) -> Linear | Step:
        """Approximate the map of a calibrator composed of others, which determine its jumps and corners."""
        nodes = [self.part(one) for one in parts]
        breaks = _breaks(nodes)
        if hasattr(calibrator, "min_proba_"):
            breaks = np.union1d(breaks, _corners(calibrator.min_proba_))
        if nodes and all(isinstance(node, Step) for node in nodes):
            return self.constant(calibrator, breaks)
        return self._line(calibrator, _axis(calibrator, nodes), breaks)

    def steps(self, calibrator: Any, part: Any) -> Step:
        """Return a piecewise constant map of a part, with at most one jump between two points of a grid."""
        node = self.part(part)
        axis, breaks, function = _axis(calibrator, [node]), _breaks([node]), _function(calibrator)
        known = np.unique(np.concatenate([axis.scores(_STEP_GRID), np.nextafter(breaks, -np.inf), breaks]))
        if axis.name == "logit":
            known = np.concatenate([[0.0], known, [1.0]])
        values = function(known)
        jump = np.flatnonzero(values[1:] != values[:-1])
        same = values[jump]
        edges = switches(lambda scores: function(scores) == same, known[jump], known[jump + 1])[1]
        return Step(edges, function(np.append(known[0], edges)))

    def constant(self, calibrator: Any, breaks: Array) -> Step:
        """Return a map that changes only at given scores."""
        below = np.nextafter(breaks[:1], -np.inf) if breaks.size else np.array([0.5])
        values = event_probability(calibrator, np.append(below, breaks))
        kept = np.flatnonzero(np.diff(values))
        return Step(breaks[kept], values[np.append(0, kept + 1)])

    def log_average(self, calibrators: Sequence[Any], weights: Array) -> Average:
        """Return the geometric mean of the maps of three or more classes."""
        # a member that is an average itself doubles the deviation
        share = self.tolerance / ((1.0 + self.nested) * len(calibrators))
        parts = [
            replace(self, tolerance=share / weight, nested=True).part(one)
            for one, weight in zip(calibrators, weights.tolist(), strict=True)
        ]
        return Average("log", weights, tuple(parts))

    def _line(self, calibrator: Any, axis: Axis, breaks: Array) -> Linear:
        self.approximated.append(calibrator)
        return approximate(_function(calibrator), axis, breaks, self.tolerance, self.relative)


def _function(calibrator: Any) -> Callable[[Array], Array]:
    return lambda scores: event_probability(calibrator, scores)


def _axis(calibrator: Any, nodes: list[Node]) -> Axis:
    """Return an axis on which the map is smooth."""
    if scores_wanted(calibrator) == "probability":
        return Axis("logit")
    for node in nodes:
        if isinstance(node, Logistic) and node.slope != 0.0:
            return Axis("asinh", -node.intercept / node.slope, abs(1.0 / node.slope))
        if isinstance(node, Linear) and node.axis == "asinh":
            return Axis("asinh", node.center, node.scale)
        ends = node.x if isinstance(node, Linear) else node.edges if isinstance(node, Step) else np.zeros(0)
        if ends.shape[0] > 1:
            return Axis("asinh", ends[0] / 2.0 + ends[-1] / 2.0, ends[-1] / 2.0 - ends[0] / 2.0)
    return Axis("asinh")


def _breaks(nodes: list[Node]) -> Array:
    """Return scores at which maps jump or have a corner."""
    found = [node.x for node in nodes if isinstance(node, Linear) and node.axis == "score"]
    found += [node.edges for node in nodes if isinstance(node, Step)]
    found += [_corners(node.floor) for node in nodes if isinstance(node, Beta)]
    return np.unique(np.concatenate([np.zeros(0), *found]))


def _corners(floor: float) -> Array:
    """Return the probabilities beyond which scores are clipped."""
    return np.array([floor, 1.0 - floor])
