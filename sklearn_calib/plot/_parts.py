"""Samples for several curves: of classes, of groups, of the folds of a cross-validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._validation import (
    BinarySample,
    ClassSample,
    as_array,
    binary_sample,
    check_groups,
    check_weights,
    equals_label,
    shape_of,
)
from sklearn_calib.metrics._reductions import split_classes
from sklearn_calib.plot._estimator import positive_column, predicted_probabilities


class Part(NamedTuple):
    """A binary sample with its name."""

    name: str
    sample: BinarySample


def reduced_parts(problem: BinarySample | ClassSample, reduction: str) -> list[Part]:
    """Return the binary problems of multiclass predictions, or of binary ones reduced to their confidence."""
    if isinstance(problem, ClassSample):
        proba, known = problem.p, [str(label) for label in problem.classes.tolist()]
    elif reduction == "classwise":
        return [Part("", problem)]
    else:
        proba, known = np.column_stack((1.0 - problem.p, problem.p)), ["negative", "positive"]
    top = proba.argmax(axis=1)
    parts = []
    for k, (_, y, p, rows) in enumerate(split_classes(problem.y, proba, reduction)):
        if reduction == "classwise":
            name = known[k]
        else:
            name = "" if rows is None else f"predicted {known[top[rows[0]]]}"
        chosen = problem if rows is None else problem.take(rows)
        parts.append(Part(name, BinarySample(y, p, chosen.w, clusters=chosen.clusters)))
    return parts


def checked_groups(groups: ArrayLike, sample_weight: ArrayLike | None, n_samples: int) -> NDArray[Any]:
    """Return the groups of the samples whose weight is not zero."""
    if shape_of(groups, "groups")[:1] != (n_samples,):
        raise ValueError(
            f"groups has shape {shape_of(groups, 'groups')} but y_proba has {n_samples} samples. Pass one "
            "group per sample."
        )
    keys = check_groups(groups, n_samples)
    return keys if sample_weight is None else keys[check_weights(sample_weight, n_samples) > 0]


def group_parts(sample: BinarySample, keys: NDArray[Any]) -> list[Part]:
    """Return the sample of each group, in sorted order, with its size in the name."""
    parts = []
    values = np.unique(keys)
    for value, label in zip(values, values.tolist(), strict=True):
        part = sample.take(equals_label(keys, value))
        parts.append(Part(f"{label} (n = {part.total:g})", part))
    return parts


def fold_samples(
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
                f"cv_results holds estimators of {len(classes)} classes, but this display is for binary "
                "classifiers. Draw the folds of multiclass estimators one by one with from_estimator."
            )
        p, positive = positive_column(proba, classes, pos_label)
        folds.append(binary_sample(labels[rows], p, None if weight is None else weight[rows], positive))
    pooled = BinarySample(
        np.concatenate([fold.y for fold in folds]),
        np.concatenate([fold.p for fold in folds]),
        None if weight is None else np.concatenate([fold.weights for fold in folds]),
    )
    return folds, pooled, type(cv_results["estimator"][0]).__name__


def _take(X: Any, rows: NDArray[np.intp]) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return [X[row] for row in rows.tolist()] if isinstance(X, list) else X[rows]
