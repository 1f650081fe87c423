"""Brier score, log loss and AUC, for inference by name; scikit-learn has the public functions."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from sklearn_calib import _validation
from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._typing import Array
from sklearn_calib.metrics._metric_kernel import Evaluate, MeanLoss, MetricKernel, value_of_groups
from sklearn_calib.metrics._reductions import check_problem, reduced_error


def log_losses(p: NDArray[Any], codes: NDArray[np.int64], *, clip: bool = False) -> Array:
    """Return -log(probability of the true class) of each sample; it is infinite for a contradicted 0.

    With ``clip``, probabilities are clipped at the machine epsilon of their type, as in scikit-learn.
    """
    of_true = np.take_along_axis(p, codes[:, np.newaxis], axis=1)[:, 0]
    if clip:
        eps = np.finfo(p.dtype if p.dtype.kind == "f" else np.float64).eps
        of_true = np.clip(of_true, eps, 1.0 - eps)
    with np.errstate(divide="ignore"):
        return np.asarray(0.0 - np.log(of_true))


def _log_losses_of_outcomes(p: Array) -> tuple[Array, Array]:
    """Return the losses -log(1 - p) and -log p of the outcomes 0 and 1."""
    with np.errstate(divide="ignore"):
        return 0.0 - np.log1p(-p), 0.0 - np.log(p)


def squared_distances(p: NDArray[Any], codes: NDArray[np.int64]) -> Array:
    """Return the sum over k of (p_k - 1{y = k})^2 of each sample, for class indices ``codes``."""
    gap = np.array(p, dtype=np.float64)
    gap[np.arange(codes.shape[0]), codes] -= 1.0
    return np.asarray(np.einsum("ij,ij->i", gap, gap))


def mean_of_outcomes(loss_of_0: Array, loss_of_1: Array, n_samples: float) -> Evaluate:
    """Return the mean loss, from the loss of either outcome at each distinct prediction."""
    losses = loss_of_0, loss_of_1
    finite = [np.where(np.isinf(loss), 0.0, loss) for loss in losses]

    def evaluate(count: Array, positives: Array) -> Array:
        counts = count - positives, positives
        mean = (finite[0] @ counts[0] + finite[1] @ counts[1]) / n_samples
        for loss, times in zip(losses, counts, strict=True):
            mean[(times[np.isinf(loss)] > 0).any(axis=0)] = np.inf
        return np.asarray(mean)

    return evaluate


BRIER = MeanLoss(
    lambda p: (p**2, (1.0 - p) ** 2), squared_distances, lambda p: 1.0 - np.einsum("ij,ij->i", p, p), 2.0
)
LOG = MeanLoss(_log_losses_of_outcomes, log_losses, lambda p: -xlogy(p, p).sum(axis=1), np.inf)


@MetricKernel(lambda prob, n_samples: mean_of_outcomes(*BRIER.of_outcomes(prob), n_samples), _loss=BRIER)
def brier_score(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    """Return the mean squared distance of forecast and outcome; of probability vectors with three classes."""
    return _mean_loss(BRIER, check_problem(y_true, y_proba, sample_weight, pos_label, None))


@MetricKernel(lambda prob, n_samples: mean_of_outcomes(*LOG.of_outcomes(prob), n_samples), _loss=LOG)
def log_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    """Return the mean of -log(probability of the true class), infinite if a 0 or 1 is contradicted."""
    return _mean_loss(LOG, check_problem(y_true, y_proba, sample_weight, pos_label, None))


def _make_auc(prob: Array, n_samples: float) -> Evaluate:
    def evaluate(count: Array, positives: Array) -> Array:
        negatives = count - positives
        # pairs of an event and a non-event in the right order; ties count half
        below = np.cumsum(negatives, axis=0) - 0.5 * negatives
        with np.errstate(invalid="ignore"):
            pairs = positives.sum(axis=0) * negatives.sum(axis=0)
            # rounding can exceed 1 by an ulp
            return np.minimum((positives * below).sum(axis=0) / pairs, 1.0)

    return evaluate


@MetricKernel(_make_auc, greater_is_better=True, _range=(0.0, 1.0))
def roc_auc(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    """Return the area under the ROC curve; NaN without events, or without non-events."""

    def area(sample: _validation.BinarySample) -> float:
        grouped = group_outcomes(sample.y, sample.p, sample.w)
        return value_of_groups(_make_auc(grouped.prob, grouped.total), grouped)

    problem = check_problem(y_true, y_proba, sample_weight, pos_label, None)
    return reduced_error(area, problem, "classwise")


def _mean_loss(
    loss: MeanLoss,
    problem: _validation.BinarySample | _validation.ClassSample | list[_validation.BinarySample],
) -> float:
    """Return the mean loss of outcomes, of class probabilities, or the mean over labels."""
    if isinstance(problem, _validation.ClassSample):
        return float(np.average(loss.of_classes(problem.p, problem.y), weights=problem.w))

    def mean(sample: _validation.BinarySample) -> float:
        return float(np.average(loss.of_sample(sample), weights=sample.w))

    return reduced_error(mean, problem, "classwise")
