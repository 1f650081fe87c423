"""Samples that stand behind several curves: of classes, of groups, of the folds of a cross-validation."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._core._links import expit, logit
from sklearn_calib._validation import (
    BinarySample,
    as_array,
    check_binary,
    check_class_sample,
    check_groups,
    check_labels,
    check_option,
    check_probabilities,
    check_weights,
    equals_label,
    shape_of,
)
from sklearn_calib.metrics._reductions import REDUCTIONS, has_classes, split_classes
from sklearn_calib.plot._curve import ReliabilityBand, ReliabilityCurve
from sklearn_calib.plot._estimator import positive_column, predicted_probabilities

__all__ = ["Part", "class_parts", "fold_parts", "group_parts", "mean_curve"]

Array = NDArray[np.float64]

_GRID = 201


class Part(NamedTuple):
    """A sample with its name, and the outcomes and probabilities of all rows before any was dropped."""

    name: str
    sample: BinarySample
    y_true: NDArray[np.int64]
    y_proba: NDArray[Any]


def class_parts(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None,
    pos_label: Any,
    labels: ArrayLike | None,
    reduction: str | None,
) -> list[Part] | None:
    """Return the binary problems of several classes; None for two classes that are shown as usual."""
    if reduction is not None:
        check_option(reduction, "reduction", REDUCTIONS)
    if has_classes(y_true, y_proba, pos_label):
        # a weight of zero drops rows, which groups would miss
        sample = check_class_sample(y_true, y_proba, None, labels)
        codes, proba = sample.y, sample.p
        known = [str(label) for label in sample.classes.tolist()]
        reduction = "classwise" if reduction is None else reduction
    else:
        if labels is not None:
            raise ValueError(
                "labels are those of the columns of three or more classes, but y_proba belongs to a binary "
                "problem. Pass pos_label instead."
            )
        if reduction in (None, "classwise"):
            return None
        p = check_probabilities(y_proba)
        codes, proba = check_labels(y_true, pos_label), np.column_stack((1.0 - p, p))
        check_binary(codes, p, None, 1)
        known = ["negative", "positive"]
    parts = []
    top = proba.argmax(axis=1)
    for number, problem in enumerate(split_classes(codes, proba, str(reduction))):
        rows = slice(None) if problem.rows is None else problem.rows
        weight = None if sample_weight is None else as_array(sample_weight, "sample_weight")
        if weight is not None and weight.shape[:1] == codes.shape:
            weight = weight[rows]
        y, p = problem.outcome, np.asarray(problem.probability, dtype=np.float64)
        if reduction == "classwise":
            name = known[number]
        else:
            name = "" if problem.rows is None else f"predicted {known[top[problem.rows[0]]]}"
        parts.append(Part(name, check_binary(y, p, weight, 1), y, p))
    return parts


def group_parts(
    y_true: ArrayLike, y_proba: ArrayLike, sample_weight: ArrayLike | None, pos_label: Any, groups: ArrayLike
) -> list[Part]:
    """Return the sample of each group, in sorted order, with its size in the name."""
    # one group may lack a class, so outcomes are told apart before
    y, p = check_labels(y_true, pos_label), check_probabilities(y_proba)
    check_binary(y, p, sample_weight, 1)
    if shape_of(groups, "groups")[:1] != p.shape:
        raise ValueError(
            f"groups has shape {shape_of(groups, 'groups')} but y_proba has {p.shape[0]} rows. Pass one "
            "group per row."
        )
    keys = check_groups(groups, p.shape[0])
    weight = None if sample_weight is None else as_array(sample_weight, "sample_weight")
    parts = []
    values = np.unique(keys)
    for value, label in zip(values, values.tolist(), strict=True):
        rows = equals_label(keys, value)
        if weight is not None and not (weight[rows] > 0).any():
            continue
        sample = check_binary(y[rows], p[rows], None if weight is None else weight[rows], 1)
        parts.append(Part(f"{label} (n = {sample.total:g})", sample, y[rows], p[rows]))
    return parts


def fold_parts(
    cv_results: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, pos_label: Any
) -> tuple[list[BinarySample], BinarySample, str]:
    """Return the samples of the folds, all of them together, and the name of the estimators."""
    if not isinstance(cv_results, Mapping):
        raise TypeError(f"cv_results must be the dict of cross_validate, got {type(cv_results).__name__}.")
    missing = [key for key in ("estimator", "indices") if key not in cv_results]
    if missing:
        raise ValueError(
            f"cv_results lacks {' and '.join(missing)}. Call cross_validate with return_estimator=True and "
            "return_indices=True."
        )
    labels = as_array(y, "y")
    if labels.ndim == 0:
        raise ValueError(
            "y must have shape (n,), got a single value. Pass the data that were cross-validated."
        )
    weight = None if sample_weight is None else check_weights(sample_weight, labels.shape[0])
    folds = []
    for estimator, rows in zip(cv_results["estimator"], cv_results["indices"]["test"], strict=True):
        if rows.shape[0] == 0 or int(rows.max()) >= labels.shape[0]:
            raise ValueError(
                f"cv_results has a test fold with row {int(rows.max(initial=-1))}, but y has "
                f"{labels.shape[0]} rows. Pass the data that were cross-validated."
            )
        proba, classes = predicted_probabilities(estimator, _take(X, rows))
        if len(classes) != 2:
            raise ValueError(
                f"cv_results holds estimators of {len(classes)} classes, and two are needed. Draw the folds "
                "of several classes one by one with from_estimator."
            )
        p, positive = positive_column(proba, classes, pos_label)
        folds.append(check_binary(labels[rows], p, None if weight is None else weight[rows], positive))
    pooled = BinarySample(
        np.concatenate([fold.y for fold in folds]),
        np.concatenate([fold.p for fold in folds]),
        None if weight is None else np.concatenate([_weights(fold) for fold in folds]),
    )
    return folds, pooled, type(cv_results["estimator"][0]).__name__


def _weights(sample: BinarySample) -> Array:
    return np.ones(sample.p.shape[0]) if sample.w is None else sample.w


def _take(X: Any, rows: NDArray[np.intp]) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return [X[row] for row in rows.tolist()] if isinstance(X, list) else X[rows]


def mean_curve(curves: list[ReliabilityCurve]) -> ReliabilityCurve:
    """Return the mean of curves where all of them exist, with their standard deviation as a band."""
    first = curves[0]
    low = max(float(curve.predicted[np.isfinite(curve.observed)].min()) for curve in curves)
    high = min(float(curve.predicted[np.isfinite(curve.observed)].max()) for curve in curves)
    if low > high:
        raise ValueError(
            "summary='mean' needs folds whose predictions overlap, and these do not. Use summary='pooled'."
        )
    if first.scale == "logit":
        # even on the axis on which the curve is drawn
        start, stop = logit(np.array([low, high]))
        grid = expit(np.linspace(start, stop, _GRID))
    else:
        grid = np.linspace(low, high, _GRID)
    # a gap within the predictions of one fold is a gap of the mean
    values = np.stack([_on_grid(curve, grid) for curve in curves])
    mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1 if len(curves) > 1 else 0)
    errors = np.array([curve.error for curve in curves])
    band = ReliabilityBand(
        "folds", float("nan"), grid, np.maximum(mean - spread, 0.0), np.minimum(mean + spread, 1.0)
    )
    shown = first.distribution
    return ReliabilityCurve(
        first.method if first.method != "binned" else "smooth",
        grid,
        mean,
        (band,),
        np.interp(grid, 0.5 * (shown.edges[1:] + shown.edges[:-1]), shown.density),
        shown,
        first.error_name,
        float(errors.mean()),
        first.confidence,
        sum(curve.n_samples for curve in curves),
        error_spread=float(errors.std(ddof=1 if len(curves) > 1 else 0)),
        scale=first.scale,
    )


def _on_grid(curve: ReliabilityCurve, grid: Array) -> Array:
    """Return the curve on a grid: NaN between points of which one is NaN."""
    if curve.method != "binned" and curve.method != "corp":
        return np.interp(grid, curve.predicted, curve.observed)
    known = np.isfinite(curve.observed)
    return np.interp(grid, curve.predicted[known], curve.observed[known])
