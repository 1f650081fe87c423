"""Metrics of this package on many redrawn samples at once."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._batch_smoothing import CosineProjection, smoothed_errors, smoothed_fixed_points
from sklearn_calib._core._binning import uniform_bins
from sklearn_calib._core._grouping import group_starts
from sklearn_calib._core._links import EPS, expit, logit
from sklearn_calib._core._smoothing import (
    NODES_PER_SCALE,
    TAIL,
    integrate_absolute_rows,
    node_count,
    smooth_at_nodes,
)
from sklearn_calib._core._walk import walk_ranges
from sklearn_calib.metrics import (
    cutoff_calibration_error,
    decision_risk_gap,
    expected_calibration_error,
    logit_smoothed_ece,
    smooth_ece,
)

__all__ = ["Kernel", "batched", "known_metric"]

Array = NDArray[np.float64]
Evaluate = Callable[[Array, Array], Array]

_ACCURACY = 1e-12
_SMOOTHED_ACCURACY = 1e-6
# On an axis that needs more nodes, the metric itself is as fast: it cuts gaps out.
_MOST_NODES = 1 << 14
# Samples times nodes held at a time.
_WORK = 1 << 16


@dataclass(frozen=True)
class Kernel:
    """A metric on many samples of the same predictions.

    Attributes
    ----------
    evaluate : callable
        ``evaluate(count, positives) -> values``: the numbers of rows, shape (groups,) or (groups, r), and of
        positive rows, shape (groups, r), for each distinct prediction; the values of the r samples.
    accuracy : float
        What values can differ by from those of the function.
    """

    evaluate: Evaluate
    accuracy: float


def batched(metric: Any, prob: Array, total: float) -> Kernel | None:
    """Return a kernel that evaluates a metric on many samples of the same predictions, or None.

    Known are functions of :mod:`sklearn_calib.metrics`, bare or with keywords fixed by
    :func:`functools.partial`. Values agree with those of the function to 1e-6, and without smoothing to
    rounding: 1e-12 (for a debiased error, in the square). The parameters are taken to be valid: the caller
    has evaluated the metric itself once.

    Parameters
    ----------
    metric : callable
        The metric.
    prob : ndarray of shape (groups,)
        Distinct predictions in increasing order.
    total : float
        Number of rows of each sample.

    Returns
    -------
    Kernel or None
        The kernel, or None where the metric is unknown or no kernel is faster.
    """
    known = known_metric(metric, total)
    if known is None:
        return None
    function, arguments = known
    evaluate = _MAKERS[function](prob, **arguments)
    smoothed = function in (smooth_ece, logit_smoothed_ece)
    return None if evaluate is None else Kernel(evaluate, _SMOOTHED_ACCURACY if smoothed else _ACCURACY)


def known_metric(metric: Any, total: float) -> tuple[Any, dict[str, Any]] | None:
    """Return the function of a metric that has a kernel, and the arguments that matter; None for others."""
    arguments: dict[str, Any] = {}
    if isinstance(metric, partial):
        if metric.args:
            return None
        metric, arguments = metric.func, dict(metric.keywords)
    try:
        known = metric in _MAKERS
    except TypeError:  # cannot be hashed
        return None
    # labels of redrawn samples are 0 and 1, and weights are theirs
    if not known or arguments.pop("sample_weight", None) is not None:
        return None
    if arguments.pop("pos_label", 1) not in (None, 1):
        return None
    if (
        arguments.pop("reduction", "classwise") not in ("classwise", "canonical")
        or arguments.pop("labels", None) is not None
    ):
        return None
    if metric is logit_smoothed_ece and arguments.get("bandwidth", "auto") == "auto":
        arguments["bandwidth"] = total ** (-1.0 / 3.0)
    return metric, arguments


def _columns(count: Array) -> Array:
    return count if count.ndim == 2 else count[:, np.newaxis]


def _residual(prob: Array, count: Array, positives: Array) -> Array:
    return positives - _columns(count * prob if count.ndim == 1 else count * prob[:, np.newaxis])


def _cutoff(prob: Array) -> Evaluate:
    def kernel(count: Array, positives: Array) -> Array:
        return np.asarray(walk_ranges(_residual(prob, count, positives)) / count.sum(axis=0))

    return kernel


def _decision(prob: Array, threshold: float = 0.5) -> Evaluate:
    # the cost of acting from group j on is, but for a constant, the walk of positives - threshold * count
    start = int(np.searchsorted(prob, threshold, side="left"))

    def kernel(count: Array, positives: Array) -> Array:
        walk = positives - threshold * _columns(count)
        np.cumsum(walk, axis=0, out=walk)
        cost = walk[start - 1] if start else np.zeros(walk.shape[1])
        return np.asarray(np.maximum(cost - np.minimum(walk.min(axis=0), 0.0), 0.0) / count.sum(axis=0))

    return kernel


def _binned(
    prob: Array, n_bins: int = 15, strategy: str = "uniform", norm: str = "l1", debias: bool = False
) -> Evaluate:
    uniform = uniform_bins(prob, n_bins)

    def bin_sums(count: Array, positives: Array) -> list[Array]:
        """Return weight, positives and residual, each of shape (bins, r) or (bins, 1)."""
        residual = _residual(prob, count, positives)
        index = uniform
        if strategy == "quantile":
            # as quantile_bins, of which every sample of other counts has its own
            middle = np.cumsum(count, axis=0) - 0.5 * count
            shares = np.floor(middle * (n_bins / count.sum(axis=0)))
            index = np.minimum(shares, n_bins - 1).astype(np.int64)
        if index.ndim == 1:
            starts = group_starts(index)
            return [np.add.reduceat(mass, starts, axis=0) for mass in (_columns(count), positives, residual)]
        r = positives.shape[1]
        place = (index * r + np.arange(r)).ravel()
        return [
            np.bincount(place, mass.ravel(), n_bins * r).astype(np.float64).reshape(n_bins, r)
            for mass in (count, positives, residual)
        ]

    def kernel(count: Array, positives: Array) -> Array:
        weight, event, residual = bin_sums(count, positives.astype(np.float64, copy=False))
        gap = np.divide(residual, weight, out=np.zeros_like(residual), where=weight > 0)
        if norm == "max":
            return np.asarray(np.abs(gap).max(axis=0))
        share = weight / weight.sum(axis=0)
        if norm == "l1":
            return np.asarray((share * np.abs(gap)).sum(axis=0))
        squared = gap**2
        if debias:
            many = weight > 1
            frequency = np.divide(event, weight, out=np.zeros_like(event), where=many)
            variance = np.divide(
                frequency * (1 - frequency), weight - 1, out=np.zeros_like(event), where=many
            )
            squared = np.where(many, squared - variance, 0.0)
        return np.asarray(np.sqrt(np.maximum((share * squared).sum(axis=0), 0.0)))

    return kernel


def _smooth(prob: Array, bandwidth: float | str = "auto", scale: str = "probability") -> Evaluate:
    length, x = 1.0, prob
    if scale == "logit":
        h = logit(prob)
        margin = TAIL * (1.0 if isinstance(bandwidth, str) else bandwidth)
        length = float(h[-1] - h[0]) + 2.0 * margin
        x = (h - h[0] + margin) / length
    projection = CosineProjection(x)

    def kernel(count: Array, positives: Array) -> Array:
        residual = _residual(prob, count, positives)
        residual /= count.sum(axis=0)
        if isinstance(bandwidth, str):
            return smoothed_fixed_points(projection, residual, length)
        s = bandwidth / length
        return smoothed_errors(projection(residual, s), np.full(residual.shape[1], s))

    return kernel


def _logit_smoothed(
    prob: Array, bandwidth: float, noise: str = "gaussian", eps: float = EPS
) -> Evaluate | None:
    h = logit(prob, eps)
    margin = TAIL * bandwidth
    length = float(h[-1] - h[0]) + 2.0 * margin
    finest = min(bandwidth, 2.0) / length
    if noise != "gaussian" or finest * _MOST_NODES < NODES_PER_SCALE:
        return None
    s, nodes = bandwidth / length, node_count(finest)
    target = expit(h[0] - margin + length / nodes * np.arange(nodes + 1))
    projection = CosineProjection(np.clip((h - h[0] + margin) / length, 0.0, 1.0))
    rows = max(1, _WORK // nodes)

    def kernel(count: Array, positives: Array) -> Array:
        total = count.sum(axis=0)
        mass = projection(_columns(count), s)
        event = projection(positives.astype(np.float64, copy=False), s)
        expected = smooth_at_nodes(mass, s, nodes) * target if count.ndim == 1 else None
        values = np.empty(event.shape[0])
        for start in range(0, event.shape[0], rows):
            part = slice(start, start + rows)
            difference = smooth_at_nodes(event[part], s, nodes)
            difference -= smooth_at_nodes(mass[part], s, nodes) * target if expected is None else expected
            values[part] = integrate_absolute_rows(difference, 1.0 / nodes)
        return np.asarray(np.minimum(values / total, 1.0))

    return kernel


_MAKERS: dict[Any, Callable[..., Evaluate | None]] = {
    cutoff_calibration_error: _cutoff,
    decision_risk_gap: _decision,
    expected_calibration_error: _binned,
    logit_smoothed_ece: _logit_smoothed,
    smooth_ece: _smooth,
}
