"""Predictions that a metric can hardly tell apart, drawn together: many rows cost no more than some."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._binning import uniform_bins
from sklearn_calib._core._grouping import GroupedOutcomes, group_starts
from sklearn_calib._core._links import EPS, logit
from sklearn_calib.inference._batch import known_metric
from sklearn_calib.metrics import expected_calibration_error, logit_smoothed_ece, smooth_ece

__all__ = ["pooled"]

Array = NDArray[np.float64]

# Cells within the bins of a binned error.
_BINNED_WIDTH = 2.0**-13
# Fewer predictions than this are drawn one by one.
_FEWEST = 1 << 13
# Pooled positions widen a kernel of scale s from s^2 to s^2 + H^2 / 12. An error that falls as s^-1/2, which
# that of noise does, changes by the share H^2 / (48 s^2): less than a thousandth with this H / s.
_PER_SCALE = 0.2
# Where predictions are redrawn, their spread within a cell is lost: in variance, less than this share of the
# residuals'.
_WIDEST = 0.01
# Values of calibrated samples lie near their mean, above this share of it.
_SAFETY = 0.75


def pooled(metric: Any, grouped: GroupedOutcomes) -> GroupedOutcomes:
    """Return fewer groups, of whose redrawn samples a metric has the same law to a thousandth; or the same.

    Groups that share a cell become one, with their mean prediction. Smoothed errors allow cells much narrower
    than the smallest scale they can have, which calibrated predictions have; binned ones those within a bin.
    A single value can move by more than its mean, as it would with other draws. Other metrics, and samples of
    few groups, are left alone.

    Parameters
    ----------
    metric : callable
        The metric.
    grouped : GroupedOutcomes
        The distinct predictions.

    Returns
    -------
    GroupedOutcomes
    """
    known = known_metric(metric, grouped.total)
    if known is None or grouped.prob.shape[0] < _FEWEST:
        return grouped
    cell = _cells(*known, grouped)
    if cell is None:
        return grouped
    starts = group_starts(cell)
    if 2 * starts.shape[0] > grouped.prob.shape[0]:
        return grouped
    weight = np.add.reduceat(grouped.weight, starts)
    mean = np.add.reduceat(grouped.weight * grouped.prob, starts) / weight
    return GroupedOutcomes(mean, weight, np.add.reduceat(grouped.positives, starts))


def _cells(function: Any, arguments: dict[str, Any], grouped: GroupedOutcomes) -> NDArray[np.int64] | None:
    """Return the number of the cell of each group, or None if the metric tells all predictions apart."""
    if function is expected_calibration_error:
        if arguments.get("strategy", "uniform") != "uniform" or arguments.get("norm", "l1") == "max":
            return None
        cell = np.floor(grouped.prob / _BINNED_WIDTH).astype(np.int64)
        # both grow with the prediction, and so does their sum
        return cell + uniform_bins(grouped.prob, arguments.get("n_bins", 15))
    if function is logit_smoothed_ece:
        position = logit(grouped.prob, arguments.get("eps", EPS))
    elif function is smooth_ece:
        on_logits = arguments.get("scale", "probability") == "logit"
        position = logit(grouped.prob) if on_logits else grouped.prob
    else:
        return None
    scale = arguments.get("bandwidth", "auto")
    if isinstance(scale, str):
        scale = _SAFETY * _noise_scale(position, grouped)
    width = min(_PER_SCALE * scale, _WIDEST)
    return np.floor((position - position[0]) / width).astype(np.int64)


def _noise_scale(position: Array, grouped: GroupedOutcomes) -> float:
    """Return the scale at which noise alone has an error as large as the scale.

    At scale s the smoothed residual has variance v(t) / (2 sqrt(pi) s n), with v the density of p (1 - p),
    and the error is sqrt(2 / pi) times the integral of its root; so s^3 = I^2 / (pi^1.5 n), with I the
    integral of the root of v.
    """
    cells = 1 << 12
    low, span = float(position[0]), float(position[-1] - position[0])
    index = np.minimum(((position - low) * (cells / span)).astype(np.int64), cells - 1)
    mass = np.bincount(index, grouped.variance, cells) / grouped.total
    integral = float(np.sqrt(mass * (span / cells)).sum())
    return (integral**2 / (math.pi**1.5 * grouped.total)) ** (1.0 / 3.0)
