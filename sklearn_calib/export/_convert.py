"""Conversion of a fitted calibrator to the representation of its map."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from sklearn_calib import calibrators as known
from sklearn_calib._core._links import EPS
from sklearn_calib._typing import Array
from sklearn_calib.calibrators._affine import AffineCalibrator
from sklearn_calib.calibrators._base import BaseCalibrator, inside, may_be_certain
from sklearn_calib.calibrators._multiclass import event_probability, scores_wanted
from sklearn_calib.export import _maps as maps
from sklearn_calib.export._approximate import Axis, approximate, find_steps, merge_steps
from sklearn_calib.export._maps import Linear, Node, Step

_AVERAGES = known.LogAverageCalibrator | known.AutoCalibrator


@dataclass(frozen=True)
class Tolerance:
    """The largest deviation of an approximation: of probabilities, or relative, of log-odds."""

    value: float
    relative: bool = False
    #: Names of the approximated parts, for all objects that share this one.
    used: list[Any] = field(default_factory=list)


def convert(
    calibrator: Any, n_classes: int, tolerance: float, relative: bool = False
) -> tuple[Node | maps.Groups, bool]:
    """Return the map of a fitted calibrator, and whether it is exact or deviates by up to ``tolerance``."""
    wanted = Tolerance(tolerance, relative)
    node = _grouped(calibrator, n_classes, wanted)
    return node, not wanted.used


def _grouped(calibrator: Any, n_classes: int, wanted: Tolerance) -> Node | maps.Groups:
    if isinstance(calibrator, known.GroupCalibrator):
        if not calibrator._grouped:
            return _part(calibrator.pooled_calibrator_, n_classes, wanted)
        parts = calibrator.calibrators_
        return maps.Groups(
            tuple(parts),
            tuple(_part(one, n_classes, wanted) for one in parts.values()),
            (_part(calibrator.pooled_calibrator_, n_classes, wanted),),
        )
    return _part(calibrator, n_classes, wanted)


def _part(calibrator: Any, n_classes: int, tolerance: Tolerance) -> Node:
    if n_classes == 2:
        return _scalar(calibrator, tolerance)
    # deviations of log p of the parts by d change the softmax of their means by d / 2 at most, and those of
    # quotients are twice as large
    return _vector(calibrator, n_classes, replace(tolerance, relative=True))


@singledispatch
def _scalar(calibrator: Any, tolerance: Tolerance) -> Node:
    """Return the map of a binary calibrator; an approximation for unknown classes."""
    return _approximated(calibrator, (), tolerance)


def _approximated(calibrator: Any, parts: tuple[Any, ...], tolerance: Tolerance) -> Linear:
    """Approximate the map of a calibrator composed of others, which determine its jumps and corners."""
    nodes = [_scalar(part, tolerance) for part in parts]
    return _line(calibrator, _axis(calibrator, nodes), _breaks(nodes), tolerance)


def _line(
    calibrator: Any, axis: Axis, breaks: Array, tolerance: Tolerance, *, straight: bool = False
) -> Linear:
    tolerance.used.append(calibrator)
    return approximate(
        _function(calibrator),
        axis,
        breaks,
        tolerance.value,
        relative=tolerance.relative,
        straight=straight,
    )


def _function(calibrator: Any) -> Any:
    return lambda scores: event_probability(calibrator, scores)


def _axis(calibrator: Any, nodes: list[Node]) -> Axis:
    """Return an axis on which the map is smooth."""
    if scores_wanted(calibrator) == "probability":
        return Axis("logit")
    for node in nodes:
        if isinstance(node, maps.Logistic) and node.slope != 0.0:
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
    return np.unique(np.concatenate([np.zeros(0), *found]))


def _logistic(link: str, slope: float, intercept: float) -> Node:
    if link == "identity":
        return maps.Logistic(slope, intercept)
    return maps.Beta(slope, slope, intercept, EPS)


def _blocks(x: Array, y: Array, step: bool = False) -> Node:
    """Return the map through the blocks of an isotonic fit."""
    if step:
        change = np.flatnonzero(np.diff(y)) + 1
        return Step(x[change], y[np.append(0, change)])
    return Linear("score", 0.0, 1.0, "probability", x.copy(), y.copy())


@_scalar.register
def _(calibrator: BaseCalibrator, tolerance: Tolerance) -> Node:
    # the map of a wrapper has its jumps and corners where the wrapped calibrator has
    inner = getattr(calibrator, "calibrator_", None)
    return _approximated(calibrator, (inner,) if isinstance(inner, BaseCalibrator) else (), tolerance)


@_scalar.register
def _(calibrator: FrozenEstimator, tolerance: Tolerance) -> Node:
    return _scalar(calibrator.estimator, tolerance)


@_scalar.register
def _(calibrator: known.PlattCalibrator, tolerance: Tolerance) -> Node:
    return _logistic(calibrator.link, calibrator.slope_, calibrator.intercept_)


@_scalar.register
def _(calibrator: known.ModifiedPlattCalibrator, tolerance: Tolerance) -> Node:
    if calibrator.fallback_used_:
        x, y = calibrator._thresholds
        return _blocks(x, y if may_be_certain(calibrator) else inside(y))
    return _logistic(calibrator.link, calibrator.slope_, calibrator.intercept_)


@_scalar.register
def _(calibrator: known.TemperatureCalibrator, tolerance: Tolerance) -> Node:
    return _logistic(calibrator.link, 1.0 / calibrator.temperature_, 0.0)


@_scalar.register
def _(calibrator: known.BetaCalibrator, tolerance: Tolerance) -> Node:
    return maps.Beta(calibrator.a_, calibrator.b_, calibrator.c_, EPS)


@_scalar.register
def _(calibrator: known.PriorShiftCalibrator, tolerance: Tolerance) -> Node:
    # probabilities other than 0 and 1 are not clipped, because the formula does not clip
    return maps.Beta(1.0, 1.0, float(np.log(calibrator.odds_factor_)), maps.TINY)


@_scalar.register
def _(calibrator: known.IsotonicCalibrator, tolerance: Tolerance) -> Node:
    y = calibrator.y_thresholds_ if may_be_certain(calibrator) else inside(calibrator.y_thresholds_)
    return _blocks(calibrator.X_thresholds_, y, calibrator.interpolation == "step")


@_scalar.register
def _(calibrator: known.CenteredIsotonicCalibrator, tolerance: Tolerance) -> Node:
    if may_be_certain(calibrator):
        return _blocks(calibrator.X_thresholds_, calibrator.y_thresholds_)
    center, scale = (calibrator._magnitude * part for part in (calibrator._middle, calibrator._half_range))
    axis = Axis("asinh", center, scale)
    return _line(calibrator, axis, calibrator.X_thresholds_, tolerance, straight=True)


@_scalar.register
def _(calibrator: known.HistogramBinningCalibrator, tolerance: Tolerance) -> Node:
    values = calibrator.bin_values_
    return Step(calibrator.bin_edges_.copy(), values if may_be_certain(calibrator) else inside(values))


@_scalar.register
def _(calibrator: known.ScalingBinningCalibrator, tolerance: Tolerance) -> Node:
    inner = _scalar(calibrator.calibrator_, tolerance)
    return find_steps(_function(calibrator), _axis(calibrator, [inner]), _breaks([inner]))


@_scalar.register
def _(calibrator: known.SmoothedCalibrator, tolerance: Tolerance) -> Node:
    if calibrator.randomized:
        raise ValueError(
            "calibrator is a SmoothedCalibrator(randomized=True), whose map is random. Fit it with "
            "randomized=False."
        )
    return _line(calibrator, Axis("logit"), calibrator.grid_, tolerance)


@_scalar.register
def _(calibrator: known.SplineCalibrator, tolerance: Tolerance) -> Node:
    bulk = calibrator._axis
    axis = Axis("asinh", bulk.middle * bulk.magnitude, bulk.half_width * bulk.magnitude)
    axis = Axis("logit") if calibrator.link == "logit" else axis
    return _line(calibrator, axis, np.zeros(0), tolerance)


@_scalar.register
def _(calibrator: known.VennAbersCalibrator, tolerance: Tolerance) -> Node:
    breaks = calibrator._tables()[0]
    least = np.nextafter(breaks[:1], -np.inf)
    values = event_probability(calibrator, np.concatenate([least, breaks]))
    step = merge_steps(Step(breaks, values), tolerance.value, tolerance.relative)
    if step.edges.shape[0] < np.count_nonzero(np.diff(values)):
        tolerance.used.append(calibrator)
    return step


@_scalar.register
def _(calibrator: known.OneVsRestCalibrator, tolerance: Tolerance) -> Node:
    return _scalar(calibrator.calibrators_[0], tolerance)


@_scalar.register
def _(calibrator: known.CertifiedCalibrator, tolerance: Tolerance) -> Node:
    if not calibrator.accepted_:
        return Step(np.zeros(0), np.array([calibrator.mean_]))
    if isinstance(calibrator.calibrator_, str):
        ends = np.array([0.0, 1.0])
        return Linear("score", 0.0, 1.0, "probability", ends, ends)
    return _scalar(calibrator.calibrator_, tolerance)


@_scalar.register
def _(calibrator: known.AutoCalibrator, tolerance: Tolerance) -> Node:
    node = _scalar(calibrator.calibrator_, tolerance)
    if calibrator._counts is None:
        return node
    if isinstance(node, Step):
        edges = node.edges
        return Step(edges, event_probability(calibrator, np.append(_below(edges), edges)))
    return _line(calibrator, _axis(calibrator, [node]), _breaks([node]), tolerance)


def _below(edges: Array) -> Array:
    return np.nextafter(edges[:1], -np.inf) if edges.size else np.array([0.5])


@_scalar.register
def _(calibrator: known.LogAverageCalibrator, tolerance: Tolerance) -> Node:
    parts = [one for one, weight in zip(calibrator.calibrators_, calibrator.weights_, strict=True) if weight]
    return _approximated(calibrator, tuple(parts), tolerance)


@_scalar.register
def _(calibrator: known.TopLabelCalibrator, tolerance: Tolerance) -> Node:
    nodes = [_scalar(one, tolerance) for one in calibrator.calibrators_ if one is not None]
    breaks = _breaks(nodes)
    breaks = np.unique(np.concatenate([[0.5], breaks, 1.0 - breaks, np.nextafter(1.0 - breaks, 2.0)]))
    return _line(calibrator, Axis("logit"), breaks, tolerance)


@_scalar.register
def _(calibrator: AffineCalibrator, tolerance: Tolerance) -> Node:
    if isinstance(calibrator, known.VectorScalingCalibrator | known.MatrixScalingCalibrator):
        coef, intercept = calibrator.coef_, calibrator.intercept_
        coef = np.diag(coef) if coef.ndim == 1 else coef
        # the logits of the classes are minus and plus half the log-odds
        slope = float(coef[1] @ [-0.5, 0.5] - coef[0] @ [-0.5, 0.5])
        return _logistic(calibrator.link, slope, float(intercept[1] - intercept[0]))
    return _approximated(calibrator, (), tolerance)


def _vector(calibrator: Any, n_classes: int, tolerance: Tolerance) -> Node:
    """Return the map of a calibrator of three or more classes."""
    identity = getattr(calibrator, "link", "logit") == "identity"
    floor = 0.0 if identity else float(getattr(calibrator, "min_proba_", EPS))
    zeros = np.zeros(n_classes)
    if isinstance(calibrator, known.TemperatureCalibrator):
        coef = np.full(n_classes, 1.0 / calibrator.temperature_)
        return maps.Softmax(floor, 0.0, 1.0, False, coef, zeros)
    if isinstance(calibrator, AffineCalibrator):
        coef, intercept = calibrator.coef_.copy(), calibrator.intercept_.copy()
        if isinstance(calibrator, known.StructuredMatrixScalingCalibrator):
            fraction = calibrator._total / (calibrator._total + 1.0)
            return maps.Softmax(floor, 1.0 / calibrator.temperature_, fraction, True, coef, intercept)
        if isinstance(calibrator, known.DirichletCalibrator):
            return maps.Softmax(floor, 1.0, 1.0, False, coef, intercept)
        return maps.Softmax(floor, 0.0, 1.0, True, coef, intercept)
    if isinstance(calibrator, known.OneVsRestCalibrator):
        return maps.OneVsRest(tuple(_scalar(one, tolerance) for one in calibrator.calibrators_))
    if isinstance(calibrator, known.TopLabelCalibrator):
        rate = Step(np.zeros(0), np.array([calibrator.pooled_rate_]))
        return maps.TopLabel(
            tuple(rate if one is None else _scalar(one, tolerance) for one in calibrator.calibrators_)
        )
    if isinstance(calibrator, known.LogAverageCalibrator):
        used = np.flatnonzero(calibrator.weights_)
        parts = []
        for m in used:
            # a member that is an average itself doubles the deviation
            depth = 2.0 if isinstance(calibrator.calibrators_[m], _AVERAGES) else 1.0
            fraction = tolerance.value / (depth * used.shape[0] * float(calibrator.weights_[m]))
            parts.append(_vector(calibrator.calibrators_[m], n_classes, replace(tolerance, value=fraction)))
        return maps.Average("log", calibrator.weights_[used], tuple(parts))
    if isinstance(calibrator, known.AutoCalibrator):
        node = _vector(calibrator.calibrator_, n_classes, tolerance)
        if calibrator._counts is None:
            return node
        total = float(calibrator._counts.sum())
        fraction = float(min(0.1 / total, 1.0))
        rates = (calibrator._counts + 0.5) / (total + n_classes / 2.0)
        constant = maps.Softmax(EPS, 0.0, 1.0, False, zeros, np.log(rates))
        return maps.Average("probability", np.array([1.0 - fraction, fraction]), (node, constant))
    name = type(calibrator).__name__
    own = " A calibrator of your own" if isinstance(calibrator, BaseCalibrator) else " A classifier"
    raise TypeError(
        f"calibrator={name} of {n_classes} classes cannot be exported.{own} is exported for two classes, "
        "also in OneVsRestCalibrator."
    )
