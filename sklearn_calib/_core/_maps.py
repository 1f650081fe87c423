"""Representation of fitted maps: a few types of nodes, each with its formula.

A node is evaluated with the operations of a backend: numpy, text of SQL, or nodes of ONNX. The input of a
scalar map is the score of ``classes_[1]``, that of a vector map one score per class. The method ``_export``
of a calibrator returns its node.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from sklearn_calib._core._links import EPS, clip_probability, logit
from sklearn_calib._typing import Array

#: Largest absolute score at which a map may change, as in the fit.
LARGEST = 1e100
AXES = ("score", "logit", "asinh")
VALUES = ("probability", "logit")
SCALES = ("probability", "log")
#: Log-odds of the smallest probability of a map that never returns 0 or 1.
FAR = float(-logit(np.array([EPS]))[0])
_STEEPEST = float(np.finfo(np.float64).max)
#: Smallest positive divisor.
TINY = float(np.finfo(np.float64).tiny)


class _Numpy:
    """The operations of maps on arrays: scalars of shape (n,), vectors of shape (K, n)."""

    exp = staticmethod(np.exp)
    log = staticmethod(np.log)
    asinh = staticmethod(np.arcsinh)
    maximum = staticmethod(np.maximum)
    clip = staticmethod(np.clip)
    expit = staticmethod(expit)
    logit = staticmethod(logit)
    inside = staticmethod(clip_probability)
    stack = staticmethod(np.stack)

    @staticmethod
    def let(x: Any) -> Any:
        return x

    @staticmethod
    def sigmoid(x: Array) -> Array:
        return clip_probability(expit(x))

    @staticmethod
    def constant(values: Array) -> Array:
        return values[:, np.newaxis]

    @staticmethod
    def product(matrix: Array, x: Array) -> Array:
        return np.asarray(matrix @ x)

    @staticmethod
    def sum(x: Array) -> Array:
        return np.asarray(x.sum(axis=0))

    @staticmethod
    def column(x: Array, k: int) -> Array:
        return np.asarray(x[k])

    @staticmethod
    def log_softmax(x: Array) -> Array:
        shifted = x - x.max(axis=0)
        return shifted - np.log(np.exp(shifted).sum(axis=0))

    @staticmethod
    def if_positive(condition: Array, then: Any, other: Any) -> Array:
        return np.where(condition > 0.0, then, other)

    @staticmethod
    def piecewise(
        score: Array, x: Array, edges: Array, start: Array | None, value: Array, slope: Array | None
    ) -> Array:
        part = edges.searchsorted(score, side="right")
        if start is None or slope is None:
            return np.asarray(value[part])
        return np.asarray(value[part] + (x - start[part]) * slope[part])


#: The backend of arrays.
NUMPY = _Numpy()


class Node(ABC):
    """Base of all kinds of nodes."""

    kind: ClassVar[str]
    #: Whether it maps one score; otherwise one per class.
    scalar: ClassVar[bool] = False

    @abstractmethod
    def evaluate(self, ops: Any, scores: Any) -> Any:
        """Return the probabilities of scores, with the operations of a backend."""

    @property
    def monotone(self) -> bool:
        """Whether the map is non-decreasing or non-increasing."""
        return False

    def check(self, n_classes: int) -> None:  # noqa: B027 (not every node has conditions)
        """Raise ValueError unless the node is a map for ``n_classes`` classes."""


@dataclass(frozen=True, eq=False)
class Logistic(Node):
    """The probability with log-odds ``slope * score + intercept``."""

    kind = "logistic"
    scalar = True
    slope: float
    intercept: float

    @property
    def monotone(self) -> bool:
        return True

    def evaluate(self, ops: Any, scores: Any) -> Any:
        return ops.sigmoid(ops.let(scores * self.slope + self.intercept))


@dataclass(frozen=True, eq=False)
class Beta(Node):
    """The probability with log-odds ``low * log(p) - high * log(1 - p) + intercept``.

    ``p`` is clipped such that ``p`` and ``1 - p`` are at least ``floor``.
    """

    kind = "beta"
    scalar = True
    low: float
    high: float
    intercept: float
    floor: float

    @property
    def monotone(self) -> bool:
        return self.low * self.high >= 0.0

    def evaluate(self, ops: Any, scores: Any) -> Any:
        low, high = (ops.log(ops.clip(p, self.floor, 1.0 - self.floor)) for p in (scores, 1.0 - scores))
        return ops.sigmoid(ops.let(low * self.low - high * self.high + self.intercept))

    def check(self, n_classes: int) -> None:
        require(0.0 < self.floor <= 0.5, "floor is out of range")


@dataclass(frozen=True, eq=False)
class Step(Node):
    """A step function: ``values[i]`` from ``edges[i - 1]`` on and below ``edges[i]``."""

    kind = "step"
    scalar = True
    edges: Array
    values: Array

    @property
    def monotone(self) -> bool:
        return _one_way(self.values)

    def evaluate(self, ops: Any, scores: Any) -> Any:
        return ops.piecewise(scores, scores, self.edges, None, self.values, None)

    def check(self, n_classes: int) -> None:
        _require_increasing(self.edges)
        require(self.values.shape[0] == self.edges.shape[0] + 1, "values and edges do not match")
        _require_inside(self.values)


@dataclass(frozen=True, eq=False)
class Linear(Node):
    r"""A function that is linear between knots and constant outside.

    It is linear in ``axis``: the "score", its "logit", or "asinh", :math:`\mathrm{asinh}((s - center) /
    scale)`. ``values`` is the interpolated quantity: the "probability" or its "logit".
    """

    kind = "linear"
    scalar = True
    axis: str
    center: float
    scale: float
    values: str
    x: Array
    y: Array

    @property
    def monotone(self) -> bool:
        return _one_way(self.y)

    def along(self, ops: Any, scores: Any) -> Any:
        """Return the positions of scores on the axis."""
        if self.axis == "logit":
            return ops.logit(scores)
        if self.axis == "score":
            return scores
        # beyond the knots the quotient may overflow
        inner = ops.let(ops.clip(scores, float(self.x[0]), float(self.x[-1])))
        return ops.asinh((inner - self.center) * (1.0 / self.scale))

    @cached_property
    def pieces(self) -> tuple[Array, Array, Array]:
        """Position on the axis, value and slope from each knot on; the first of each is for lower scores."""
        knots = np.asarray(self.along(NUMPY, self.x))
        gap, rise = np.diff(knots), np.diff(self.y)
        with np.errstate(over="ignore"):
            slope = np.divide(rise, gap, out=np.zeros_like(gap), where=gap > 0.0)
        slope = np.clip(slope, -_STEEPEST, _STEEPEST)
        # rounding must not exceed the value at the next knot, so that monotone maps remain monotone
        for _ in range(8):
            beyond = np.abs(self.y[:-1] + gap * slope - self.y[:-1]) > np.abs(rise)
            slope = np.where(beyond, np.nextafter(slope, 0.0), slope)
        first = np.zeros(1)
        return (
            np.append(knots[0], knots),
            np.append(self.y[0], self.y),
            np.concatenate([first, slope, first]),
        )

    def evaluate(self, ops: Any, scores: Any) -> Any:
        start, value, slope = self.pieces
        found = ops.piecewise(scores, self.along(ops, scores), self.x, start, value, slope)
        return found if self.values == "probability" else ops.expit(found)

    def check(self, n_classes: int) -> None:
        require(self.axis in AXES and self.values in VALUES, "axis or values is unknown")
        require(self.scale > 0.0 and 1.0 / self.scale < np.inf, "scale is not positive")
        _require_increasing(self.x)
        require(self.x.shape == self.y.shape and self.x.shape[0] > 0, "x and y do not match")
        if self.axis == "logit":
            require(self.x[0] > 0.0 and self.x[-1] < 1.0, "x is outside (0, 1)")
        if self.values == "probability":
            _require_inside(self.y)
        else:
            require(bool((np.abs(self.y) <= FAR).all()), "y is out of range")


@dataclass(frozen=True, eq=False)
class Softmax(Node):
    """The softmax of ``coef @ z + intercept``, of logits or log-probabilities ``z``.

    Probabilities are clipped to at least ``floor`` before the logarithm; 0 for logits. With ``beta`` > 0,
    ``z`` is then the logarithm of ``share * softmax(beta * z) + (1 - share) / K``. With ``center`` its mean
    is subtracted. A vector ``coef`` is the diagonal of a matrix.
    """

    kind = "softmax"
    floor: float
    beta: float
    share: float
    center: bool
    coef: Array
    intercept: Array

    def evaluate(self, ops: Any, scores: Any) -> Any:
        n_classes = self.intercept.shape[0]
        z = ops.log(ops.maximum(scores, self.floor)) if self.floor > 0.0 else scores
        if self.beta > 0.0:
            z = ops.log_softmax(ops.let(z * self.beta))
            if self.share < 1.0:
                z = ops.log(ops.exp(z) * self.share + (1.0 - self.share) / n_classes)
        z = ops.let(z)
        if self.center:
            z = z - ops.let(ops.sum(z) * (1.0 / n_classes))
        y = z * ops.constant(self.coef) if self.coef.ndim == 1 else ops.product(self.coef, z)
        return ops.exp(ops.log_softmax(ops.let(y + ops.constant(self.intercept))))

    def check(self, n_classes: int) -> None:
        require(self.intercept.shape == (n_classes,), "intercept does not match the classes")
        require(self.coef.shape in ((n_classes,), (n_classes, n_classes)), "coef does not match the classes")
        require(0.0 <= self.floor < 1.0 and self.beta >= 0.0, "floor or beta is out of range")
        require(0.0 <= self.share <= 1.0, "share is out of range")


@dataclass(frozen=True, eq=False)
class OneVsRest(Node):
    """A scalar map for each class, normalized to sum 1; uniform if the sum is 0."""

    kind = "one_vs_rest"
    maps: tuple[Node, ...]

    def evaluate(self, ops: Any, scores: Any) -> Any:
        parts = [node.evaluate(ops, ops.column(scores, k)) for k, node in enumerate(self.maps)]
        proba = ops.let(ops.stack(parts))
        total = ops.let(ops.sum(proba))
        return ops.if_positive(total, proba / ops.maximum(total, TINY), 1.0 / len(self.maps))

    def check(self, n_classes: int) -> None:
        _require_maps(self.maps, n_classes, n_classes, scalar=True)


@dataclass(frozen=True, eq=False)
class Average(Node):
    """The mean of vector maps, or with ``scale`` "log" the normalized geometric mean."""

    kind = "average"
    scale: str
    weights: Array
    maps: tuple[Node, ...]

    def evaluate(self, ops: Any, scores: Any) -> Any:
        return self.mean(ops, [node.evaluate(ops, scores) for node in self.maps])

    def mean(self, ops: Any, tables: Sequence[Any]) -> Any:
        """Return the mean of tables of probabilities."""
        total: Any = 0.0
        for table, weight in zip(tables, self.weights.tolist(), strict=True):
            part = ops.log(ops.inside(ops.let(table))) if self.scale == "log" else table
            total = part * weight + total
        return ops.exp(ops.log_softmax(ops.let(total))) if self.scale == "log" else total

    def check(self, n_classes: int) -> None:
        require(self.scale in SCALES, "scale is unknown")
        require(self.weights.shape == (len(self.maps),), "weights and maps do not match")
        require(bool((self.weights >= 0.0).all()), "weights are negative")
        require(abs(float(self.weights.sum()) - 1.0) <= 1e-9, "weights do not sum to 1")
        _require_maps(self.maps, len(self.maps), n_classes, scalar=n_classes == 2)


@dataclass(frozen=True, eq=False)
class Chain(Node):
    """Two vector maps, the second of the probabilities of the first."""

    kind = "chain"
    maps: tuple[Node, ...]

    def evaluate(self, ops: Any, scores: Any) -> Any:
        return self.maps[1].evaluate(ops, ops.let(self.maps[0].evaluate(ops, scores)))

    def check(self, n_classes: int) -> None:
        _require_maps(self.maps, 2, n_classes, scalar=False)


@dataclass(frozen=True, eq=False)
class Recalibrated(Node):
    """Probabilities with log-odds ``slope * logit(p) + intercept`` of a map's; normalized if multiclass."""

    kind = "recalibrated"
    maps: tuple[Node, ...]
    slope: Array
    intercept: Array

    @property
    def scalar(self) -> bool:  # type: ignore[override]
        return self.maps[0].scalar

    def evaluate(self, ops: Any, scores: Any) -> Any:
        z = ops.let(ops.logit(ops.let(ops.inside(ops.let(self.maps[0].evaluate(ops, scores))))))
        if self.scalar:
            return ops.sigmoid(ops.let(z * float(self.slope[0]) + float(self.intercept[0])))
        proba = ops.let(ops.sigmoid(ops.let(z * ops.constant(self.slope) + ops.constant(self.intercept))))
        return proba / ops.let(ops.sum(proba))

    def check(self, n_classes: int) -> None:
        _require_maps(self.maps, 1, n_classes, scalar=n_classes == 2)
        shape = (1 if n_classes == 2 else n_classes,)
        require(self.slope.shape == self.intercept.shape == shape, "slope does not match the classes")


@dataclass(frozen=True, eq=False)
class Kept(Node):
    """Classes that keep a share of the model's probability, and a map that divides the rest among the others.

    ``share`` is 0 for the classes of the map. The scores are probabilities, or ``logits``.
    """

    kind = "kept"
    logits: bool
    share: Array
    maps: tuple[Node, ...]

    def evaluate(self, ops: Any, scores: Any) -> Any:
        return self.mix(ops, scores, self.maps[0].evaluate(ops, scores))

    def mix(self, ops: Any, scores: Any, proba: Any) -> Any:
        """Return the probabilities of scores, given those of the map."""
        if self.logits:
            model = ops.exp(ops.log_softmax(ops.let(scores)))
        else:
            model = scores / ops.maximum(ops.let(ops.sum(scores)), TINY)
        own = ops.let(model * ops.constant(self.share))
        mapped = (self.share == 0.0).astype(np.float64)
        others = ops.let(proba * ops.constant(mapped))
        total = ops.let(ops.sum(others))
        parts = ops.if_positive(total, others / ops.maximum(total, TINY), ops.constant(mapped / mapped.sum()))
        return own + parts * ops.maximum(ops.let(1.0 - ops.sum(own)), 0.0)

    def check(self, n_classes: int) -> None:
        _require_maps(self.maps, 1, n_classes, scalar=False)
        require(self.share.shape == (n_classes,), "share does not match the classes")
        require(bool(((self.share >= 0.0) & (self.share <= 1.0)).all()), "a share is outside [0, 1]")
        require(bool((self.share == 0.0).any()), "no class is left for the map")


@dataclass(frozen=True, eq=False)
class Groups:
    """A map for each group, and one for all other samples."""

    kind: ClassVar[str] = "groups"
    labels: list[Any]
    maps: tuple[Node, ...]
    others: tuple[Node, ...]

    def check(self, n_classes: int) -> None:
        """Raise ValueError unless all maps are for ``n_classes`` classes."""
        numbers = all(type(label) in (bool, int, float) for label in self.labels)
        texts = all(type(label) is str for label in self.labels)
        require(numbers or texts, "labels are neither all numbers nor all strings")
        require(len(set(self.labels)) == len(self.labels), "labels occur twice")
        _require_maps(self.others, 1, n_classes, scalar=n_classes == 2)
        if self.maps or self.labels:
            _require_maps(self.maps, len(self.labels), n_classes, scalar=n_classes == 2)


def logistic(floor: float, slope: float, intercept: float) -> Node:
    """Return the probability that is logistic in the log-odds, clipped at ``floor``; for 0 in the score."""
    return Beta(slope, slope, intercept, floor) if floor > 0.0 else Logistic(slope, intercept)


def recalibrated(node: Node, slope: Array, intercept: Array) -> Node:
    """Return a map with log-odds ``slope * logit(p) + intercept``, in closed form if there is one."""
    a, b = float(slope[0]), float(intercept[0])
    if isinstance(node, Logistic):
        return Logistic(a * node.slope, a * node.intercept + b)
    if isinstance(node, Beta):
        return replace(node, low=a * node.low, high=a * node.high, intercept=a * node.intercept + b)
    return Recalibrated((node,), slope, intercept)


def through(x: Array, y: Array) -> Linear:
    """Return the probability that is linear between points."""
    return Linear("score", 0.0, 1.0, "probability", x.copy(), y.copy())


def _one_way(values: Array) -> bool:
    steps = np.diff(values)
    return bool((steps >= 0.0).all() or (steps <= 0.0).all())


def require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)


def _require_increasing(values: Array) -> None:
    require(values.ndim == 1 and bool((np.diff(values) > 0.0).all()), "scores do not increase")
    require(bool((np.abs(values) <= LARGEST).all()), "a score is out of range")


def _require_inside(values: Array) -> None:
    require(values.ndim == 1 and bool(((values >= 0.0) & (values <= 1.0)).all()), "a value is outside [0, 1]")


def _require_maps(maps: tuple[Node, ...], number: int, n_classes: int, scalar: bool) -> None:
    require(len(maps) == number > 0, "the number of maps is wrong")
    for node in maps:
        require(isinstance(node, Node) and node.scalar is scalar, f"a map of kind {node.kind} is here")
        node.check(n_classes)
