"""Any metric on samples redrawn under perfect calibration."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._null import draw_outcomes, draw_positives

__all__ = ["Metric", "check_metric", "metric_value", "redrawn_values"]

Array = NDArray[np.float64]
Metric = Callable[..., float]


def check_metric(metric: Any) -> Metric:
    """Return ``metric`` if it can be called."""
    if not callable(metric):
        raise TypeError(f"metric must be callable, metric(y_true, y_proba) -> float, got {metric!r}.")
    return metric


def metric_value(metric: Metric, prob: Array, count: Array, positives: Array, weighted: bool) -> float:
    """Return the metric of a sample given by counts for each distinct prediction.

    ``weighted`` passes counts as ``sample_weight``; otherwise rows are repeated, so that the metric need not
    know of weights.
    """
    if weighted:
        y = np.repeat(np.array([1, 0]), prob.shape[0])
        weight = np.concatenate((positives, count - positives))
        value = metric(y, np.tile(prob, 2), sample_weight=weight)
    else:
        times = np.stack((positives, count - positives), axis=1).ravel().astype(np.int64)
        y = np.repeat(np.tile(np.array([1, 0]), prob.shape[0]), times)
        value = metric(y, np.repeat(np.repeat(prob, 2), times))
    number = float(value)
    if not np.isfinite(number):
        raise ValueError(
            f"metric returned {number} for {positives.sum():g} positives among {count.sum():g} outcomes. "
            "Pass a metric that is finite for every sample."
        )
    return number


def redrawn_values(
    metric: Metric,
    grouped: GroupedOutcomes,
    n_resamples: int,
    generator: np.random.Generator,
    *,
    weighted: bool,
    pairs: bool = False,
) -> Array:
    """Return the metric of samples with redrawn outcomes, or, if ``pairs``, redrawn predictions too."""
    draws: Iterator[tuple[Array, NDArray[Any]]]
    if pairs:
        draws = chain.from_iterable(
            zip(count.T, positives.T, strict=True)
            for count, positives in draw_outcomes(grouped, n_resamples, generator)
        )
    else:
        draws = (
            (grouped.weight, column.astype(np.float64))
            for positives in draw_positives(grouped, n_resamples, generator)
            for column in positives.T
        )
    return np.array([metric_value(metric, grouped.prob, *draw, weighted) for draw in draws])
