"""Several classes or labels as binary problems: the one way in which every metric judges them."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._validation import (
    BinarySample,
    Outcomes,
    as_array,
    check_binary,
    check_class_sample,
    check_option,
    sample_rows,
    shape_of,
)

__all__ = ["REDUCTIONS", "Problem", "Reduction", "has_classes", "reduced_error", "split_classes"]

Array = NDArray[np.float64]

Reduction = Literal["classwise", "confidence", "top-label"]
REDUCTIONS = ("classwise", "confidence", "top-label")


class Problem(NamedTuple):
    """A binary problem that several classes lead to.

    It has a share of the mean, outcomes 0 or 1, and the probability of 1. ``rows`` are the rows of the sample
    that take part; None means all of them.
    """

    share: float
    outcome: NDArray[np.int64]
    probability: NDArray[Any]
    rows: NDArray[np.intp] | None


def split_classes(
    codes: NDArray[np.int64], proba: NDArray[Any], reduction: str, weight: Array | None = None
) -> list[Problem]:
    """Return the binary problems of n rows and K classes; their shares add up to 1.

    "classwise": each class against the rest, with equal shares. "confidence": the largest probability of a
    row (of several, the first) against whether its class is the right one. "top-label": the same for the rows
    of each predicted class apart, in proportion to their weight.
    """
    if reduction == "classwise":
        n_classes = proba.shape[1]
        return [
            Problem(1.0 / n_classes, (codes == k).astype(np.int64), np.ascontiguousarray(proba[:, k]), None)
            for k in range(n_classes)
        ]
    top = proba.argmax(axis=1)
    confidence = np.take_along_axis(proba, top[:, np.newaxis], axis=1)[:, 0]
    right = (codes == top).astype(np.int64)
    if reduction == "confidence":
        return [Problem(1.0, right, confidence, None)]
    mass = np.bincount(top, weights=weight, minlength=proba.shape[1]).astype(np.float64)
    total = mass.sum()
    problems = []
    for k in np.flatnonzero(mass).tolist():
        rows = np.flatnonzero(top == k)
        problems.append(Problem(float(mass[k] / total), right[rows], confidence[rows], rows))
    return problems


def _is_multilabel(y_true: ArrayLike, y_proba: ArrayLike) -> bool:
    """Tell whether labels and probabilities have one column each for every label."""
    shape = shape_of(y_true, "y_true")
    return len(shape) == 2 and shape[1] >= 2 and shape == shape_of(y_proba, "y_proba")


def has_classes(y_true: ArrayLike, y_proba: ArrayLike, pos_label: Any) -> bool:
    """Tell whether the probabilities are of three or more classes that exclude each other.

    Raises ValueError if they are, or are those of several labels, and yet there is a ``pos_label``.
    """
    shape = shape_of(y_proba, "y_proba")
    multilabel = _is_multilabel(y_true, y_proba)
    several = len(shape) == 2 and shape[1] > 2
    if pos_label is not None and (multilabel or several):
        raise ValueError(
            f"pos_label={pos_label!r} belongs to a binary problem, but y_proba has {shape[1]} columns. "
            "Leave it out, or pass y_true == label with the column of that label."
        )
    return several and not multilabel


def reduced_error(
    error: Callable[[BinarySample], float],
    y_true: Outcomes,
    y_proba: ArrayLike | None,
    sample_weight: ArrayLike | None,
    pos_label: Any,
    reduction: str,
    labels: ArrayLike | None,
) -> float:
    """Return the error of binary, multiclass or multilabel predictions, after checking them.

    Parameters
    ----------
    error : callable
        The error of a checked binary sample.
    y_true, y_proba, sample_weight, pos_label, reduction, labels
        What the user passed to the metric.
    """
    check_option(reduction, "reduction", REDUCTIONS)
    y_true, y_proba, sample_weight = sample_rows(y_true, y_proba, sample_weight, pos_label)
    y_true, y_proba = as_array(y_true, "y_true"), as_array(y_proba, "y_proba")
    if has_classes(y_true, y_proba, pos_label):
        sample = check_class_sample(y_true, y_proba, sample_weight, labels)
        return _mean_error(error, sample.y, sample.p, sample.w, reduction)
    if _is_multilabel(y_true, y_proba):
        return _multilabel_error(error, y_true, y_proba, sample_weight, reduction, labels)
    if labels is not None:
        raise ValueError(
            "labels are those of the columns of three or more classes, but y_proba belongs to a binary "
            "problem. Pass pos_label instead."
        )
    binary = check_binary(y_true, y_proba, sample_weight, pos_label)
    if reduction == "classwise":
        return error(binary)
    return _mean_error(error, binary.y, np.column_stack((1.0 - binary.p, binary.p)), binary.w, reduction)


def _mean_error(
    error: Callable[[BinarySample], float],
    codes: NDArray[np.int64],
    proba: Array,
    weight: Array | None,
    reduction: str,
) -> float:
    total = 0.0
    for share, outcome, probability, rows in split_classes(codes, proba, reduction, weight):
        part = weight if weight is None or rows is None else weight[rows]
        total += share * error(BinarySample(outcome, probability, part))
    return total


def _multilabel_error(
    error: Callable[[BinarySample], float],
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None,
    reduction: str,
    labels: ArrayLike | None,
) -> float:
    if reduction != "classwise":
        raise ValueError(
            f"reduction={reduction!r} asks for the most probable of classes that exclude each other, but "
            "y_true has one column per label. Use reduction='classwise', or pass one label per row."
        )
    if labels is not None:
        raise ValueError("labels must be left out if y_true has one column per label.")
    y, p = as_array(y_true, "y_true"), as_array(y_proba, "y_proba")
    if not np.isin(y, (0, 1)).all():
        raise ValueError("y_true with one column per label must hold 0 and 1 only.")
    errors = [error(check_binary(y[:, k], p[:, k], sample_weight, 1)) for k in range(y.shape[1])]
    return float(np.mean(errors))
