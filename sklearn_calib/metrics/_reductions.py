"""Reduction of multiclass and multilabel problems to binary problems, shared by all metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib import _validation
from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib._typing import Array

Reduction = Literal["classwise", "confidence", "top-label"]
REDUCTIONS = ("classwise", "confidence", "top-label")


class Problem(NamedTuple):
    """A weighted binary problem of a multiclass one; ``members`` are its samples, None for all."""

    weight: float
    outcome: NDArray[Any]
    probability: NDArray[Any]
    members: NDArray[np.intp] | None


def split_classes(
    codes: NDArray[Any], proba: NDArray[Any], reduction: str, weight: Array | None = None
) -> list[Problem]:
    """Return the binary problems of n samples and K classes; their weights add up to 1.

    "classwise": each class against the rest, with equal weights. "confidence": the largest probability of a
    sample (the first of tied ones) against whether its class is the true one. "top-label": the same
    separately for each predicted class, weighted by the total weight of its samples.
    """
    if reduction == "classwise":
        n_classes = proba.shape[1]
        return [
            Problem(1.0 / n_classes, (codes == k).astype(np.int64), np.ascontiguousarray(proba[:, k]), None)
            for k in range(n_classes)
        ]
    top = proba.argmax(axis=1)
    confidence = np.take_along_axis(proba, top[:, np.newaxis], axis=1)[:, 0]
    # of an outcome y between 0 and 1, y for class 1 and 1 - y for class 0
    right = 1 - np.abs(codes - top) if codes.dtype.kind == "f" else (codes == top).astype(np.int64)
    if reduction == "confidence":
        return [Problem(1.0, right, confidence, None)]
    mass = np.bincount(top, weights=weight, minlength=proba.shape[1]).astype(np.float64)
    total = mass.sum()
    problems = []
    for k in np.flatnonzero(mass).tolist():
        index = np.flatnonzero(top == k)
        problems.append(Problem(float(mass[k] / total), right[index], confidence[index], index))
    return problems


def class_samples(
    sample: _validation.BinarySample | _validation.ClassSample, reduction: str
) -> list[_validation.BinarySample]:
    """Return the binary problems of "classwise" or "confidence" as samples."""
    p = two_columns(sample.p) if sample.p.ndim == 1 else sample.p
    kept: dict[str, Any] = {"clusters": sample.clusters, "sampling": sample.sampling}
    return [
        _validation.BinarySample(y, q, sample.w, **kept)
        for _, y, q, _ in split_classes(sample.y, p, reduction)
    ]


def two_columns(p: Array) -> Array:
    """Return the probabilities of both classes of a binary problem.

    Those of the first class are rounded to 15 decimals, so that .68 and 1 - .32 are ties.
    """
    return np.column_stack((np.round(1.0 - p, 15), p))


def check_problem(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None,
    pos_label: Any,
    labels: ArrayLike | None,
    clusters: ArrayLike | None = None,
    *,
    weights: str | None = None,
    fractions: bool = False,
) -> _validation.BinarySample | _validation.ClassSample | list[_validation.BinarySample]:
    """Check the input of a metric: a binary sample, a multiclass sample, or a binary sample per label.

    For inference, ``weights`` tells what the weights mean. With ``fractions``, binary outcomes may lie
    between 0 and 1.
    """
    if labels is None and pos_label is None:
        _validation.check_order(y_true, y_proba, "y_true")
    y = _validation.as_array(y_true, "y_true")
    if y.ndim == 2:
        y_proba = _validation.label_columns(y_proba)
    p = _validation.as_array(y_proba, "y_proba")
    # anything but a table with names is converted once
    table = y_proba if _validation.column_names(y_proba) else p
    multilabel = p.ndim == 2 and p.shape[1] >= 2 and y.shape == p.shape
    if y.ndim == 2 and y.shape[1] >= 2 and not multilabel:
        if p.ndim == 1:
            _validation.refuse_fractions(y)
        raise ValueError(
            f"y_true has shape {y.shape}, one column per label (multilabel), but y_proba has shape "
            f"{p.shape}. Pass the probability of each label, or one label per sample."
        )
    several = multilabel or (p.ndim == 2 and p.shape[1] > 2)
    if several and pos_label is not None:
        raise ValueError(
            f"pos_label={pos_label!r} needs a binary problem, but y_proba has {p.shape[1]} columns. "
            "Omit it, or pass y_true == label with the column of that label."
        )
    if several and not multilabel:
        return _validation.check_class_sample(y, table, sample_weight, labels, clusters, weights=weights)
    if multilabel:
        if labels is not None:
            raise ValueError("labels must be omitted if y_true has one column per label (multilabel).")
        _validation.check_columns(y_proba, _validation.column_names(y_true), "y_proba")
        pairs = zip(_validation.check_indicators(y).T, p.T, strict=True)
        return [
            _validation.check_binary(*pair, sample_weight, 1, clusters, weights=weights) for pair in pairs
        ]
    given = y, table, sample_weight, pos_label, clusters
    return _validation.check_binary(*given, weights=weights, fractions=fractions, labels=labels)


def label_names(y_true: Any, y_proba: Any, n_labels: int) -> list[str]:
    """Return the names of the columns of multilabel targets or predictions, or else their numbers."""
    return (
        _validation.column_names(y_true)
        or _validation.column_names(y_proba)
        or list(map(str, range(n_labels)))
    )


def multilabel_words(reduction: str | None, instead: str = "classwise") -> str:
    """Return the error message for a reduction that multilabel targets do not have."""
    return (
        f"reduction={reduction!r} needs mutually exclusive classes, but y_true has one column per label "
        f"(multilabel). Use reduction={instead!r}, or pass one label per sample."
    )


def reduced_error(
    error: Callable[[_validation.BinarySample], float],
    problem: _validation.BinarySample | _validation.ClassSample | list[_validation.BinarySample],
    reduction: str,
) -> float:
    """Return the error of checked predictions; ``error`` is that of a binary sample."""
    if isinstance(problem, list):
        if reduction != "classwise":
            raise ValueError(multilabel_words(reduction))
        return float(np.mean([error(sample) for sample in problem]))
    proba = problem.p
    if isinstance(problem, _validation.BinarySample):
        if reduction == "classwise":
            return error(problem)
        proba = two_columns(problem.p)
    total, parts = 0.0, split_classes(problem.y, proba, reduction, problem.w)
    del proba
    for fraction, outcome, probability, index in parts:
        part = problem.w if problem.w is None or index is None else problem.w[index]
        total += fraction * error(_validation.BinarySample(outcome, probability, part))
    return total


def checked_error(
    error: Callable[[_validation.BinarySample], float],
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None,
    pos_label: Any,
    reduction: str,
    labels: ArrayLike | None,
) -> float:
    """Check the input of a metric, and return its error."""
    _validation.check_option(reduction, "reduction", REDUCTIONS)
    problem = check_problem(y_true, y_proba, sample_weight, pos_label, labels, fractions=True)
    return reduced_error(error, problem, reduction)


def error_of_groups(value: Callable[[GroupedOutcomes], float], *given: Any) -> float:
    """Return what :func:`checked_error` returns, for a metric of grouped outcomes."""
    return checked_error(lambda sample: value(group_outcomes(sample.y, sample.p, sample.w)), *given)
