"""Brier score, log loss and AUC, for inference by name; scikit-learn has the public functions."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._typing import Array
from sklearn_calib._validation import check_binary, check_class_sample, shape_of
from sklearn_calib.metrics._metric_kernel import Evaluate, MetricKernel, value_of_groups


def _minus_log(p: NDArray[Any]) -> Array:
    """Return -log p; as in scikit-learn, p is clipped at the machine epsilon of its type."""
    eps = np.finfo(p.dtype if p.dtype.kind == "f" else np.float64).eps
    return np.asarray(-np.log(np.clip(p, eps, 1.0 - eps)))


def log_losses(p: NDArray[Any], codes: NDArray[np.int64], *, clip: bool = True) -> Array:
    """Return -log(probability of the true class) of each sample; without ``clip`` it can be infinite."""
    of_true = np.take_along_axis(p, codes[:, np.newaxis], axis=1)[:, 0]
    with np.errstate(divide="ignore"):
        return _minus_log(of_true) if clip else np.asarray(-np.log(of_true))


def squared_distances(p: NDArray[Any], codes: NDArray[np.int64]) -> Array:
    """Return the sum over k of (p_k - 1{y = k})^2 of each sample, for class indices ``codes``."""
    gap = np.array(p, dtype=np.float64)
    gap[np.arange(codes.shape[0]), codes] -= 1.0
    return np.asarray(np.einsum("ij,ij->i", gap, gap))


def _mean_of(loss_of_0: Array, loss_of_1: Array, n_samples: float) -> Evaluate:
    """Return the mean loss, from the loss of either outcome at each distinct prediction."""

    def evaluate(count: Array, positives: Array) -> Array:
        return np.asarray((loss_of_0 @ (count - positives) + loss_of_1 @ positives) / n_samples)

    return evaluate


@MetricKernel(lambda prob, n_samples: _mean_of(prob**2, (1.0 - prob) ** 2, n_samples))
def brier_score(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    """Return the mean squared distance of forecast and outcome; of probability vectors with three classes."""
    given = y_true, y_proba, sample_weight, pos_label
    return _mean_loss(lambda y, p: (y - p) ** 2, squared_distances, *given)


@MetricKernel(lambda prob, n_samples: _mean_of(_minus_log(1.0 - prob), _minus_log(prob), n_samples))
def log_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    """Return the mean of -log(probability of the true class); a sample may lack a class."""
    given = y_true, y_proba, sample_weight, pos_label
    return _mean_loss(lambda y, p: _minus_log(np.where(y == 1, p, 1.0 - p)), log_losses, *given)


def _make_auc(prob: Array, n_samples: float) -> Evaluate:
    def evaluate(count: Array, positives: Array) -> Array:
        negatives = count - positives
        # pairs of an event and a non-event in the right order; ties count half
        below = np.cumsum(negatives, axis=0) - 0.5 * negatives
        with np.errstate(invalid="ignore"):
            pairs = positives.sum(axis=0) * negatives.sum(axis=0)
            return np.asarray((positives * below).sum(axis=0) / pairs)

    return evaluate


@MetricKernel(_make_auc, greater_is_better=True)
def roc_auc(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    """Return the area under the ROC curve; NaN without events, or without non-events."""
    binary = check_binary(y_true, y_proba, sample_weight, pos_label)
    grouped = group_outcomes(binary.y, binary.p, binary.w)
    return value_of_groups(_make_auc(grouped.prob, grouped.total), grouped)


def _mean_loss(
    of_outcomes: Callable[[Any, Array], Array],
    of_classes: Callable[[Array, Any], Array],
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None,
    pos_label: Any,
) -> float:
    """Return the mean loss of binary outcomes, or of class probabilities with three or more columns."""
    shape = shape_of(y_proba, "y_proba")
    if len(shape) == 2 and shape[1] > 2:
        sample = check_class_sample(y_true, y_proba, sample_weight)
        return float(np.average(of_classes(sample.p, sample.y), weights=sample.w))
    binary = check_binary(y_true, y_proba, sample_weight, pos_label)
    return float(np.average(of_outcomes(binary.y, binary.p), weights=binary.w))
