"""Decompositions of proper scores into miscalibration, discrimination and uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlog1py, xlogy

from sklearn_calib import _validation
from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib._core._isotonic import fit_isotonic
from sklearn_calib._docs import shared_docs
from sklearn_calib._html import number_text, text_html
from sklearn_calib._typing import Array
from sklearn_calib.metrics._metric_kernel import Evaluate, MetricKernel
from sklearn_calib.metrics._reductions import Reduction, error_of_groups
from sklearn_calib.metrics._scores import BRIER, LOG, mean_of_outcomes

#: Names of the scores.
SCORES = {"brier": "Brier score", "log_loss": "log loss"}
#: Names of the parts of a decomposition.
COMPONENTS = ("score", "miscalibration", "discrimination", "uncertainty")
# Largest size of temporary arrays, so that they stay in cache.
_WORK = 1 << 16


@dataclass(frozen=True)
class ScoreDecomposition:
    """A mean score as miscalibration - discrimination + uncertainty.

    Attributes
    ----------
    score : float
        The mean score of the predictions; smaller is better.
    miscalibration : float
        The part of the score that recalibration removes, also called calibration or reliability loss.
    discrimination : float
        How much better the recalibrated predictions score than the event frequency, also called resolution.
    uncertainty : float
        The mean score of the event frequency as a prediction.
    score_name : {"brier", "log_loss"}
        The score.
    n_samples : float
        Total weight.
    recalibration : {"isotonic", "any", "kernel"}
        The recalibrated predictions: isotonic regression, the event frequency of each distinct prediction, or
        the kernel curve of :class:`~sklearn_calib.plot.ReliabilityDisplay`.
    """

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float
    score_name: str
    n_samples: float
    recalibration: str = "isotonic"

    @property
    def refinement_loss(self) -> float:
        """The score after recalibration, ``uncertainty - discrimination``."""
        return self.uncertainty - self.discrimination

    def __str__(self) -> str:
        kind = {"any": "distinct predictions", "kernel": "kernel regression"}.get(
            self.recalibration, "isotonic"
        )
        return (
            f"{SCORES[self.score_name]} {number_text(self.score)} = miscalibration "
            f"{number_text(self.miscalibration)} - discrimination {number_text(self.discrimination)} + "
            f"uncertainty {number_text(self.uncertainty)} ({kind}, n = {self.n_samples:g})"
        )

    _repr_html_ = text_html


def mean_score(weight: Array, positives: Array, prediction: Array, score: str) -> float:
    """Return the mean score of one prediction per group; infinite if an event had probability 0."""
    total = 0.0
    for rows in blocks(weight.shape[0]):
        events, p = positives[rows], prediction[rows]
        others = weight[rows] - events
        if score == "brier":
            total += float((events * (1.0 - p) ** 2 + others * p**2).sum())
        else:
            total -= float((xlogy(events, p) + xlog1py(others, -p)).sum())
    return total / float(weight.sum())


def _entropy(frequency: Any, score: str) -> Any:
    """Return the mean score of event frequencies as predictions of the same outcomes."""
    if score == "brier":
        return frequency * (1.0 - frequency)
    return -(xlogy(frequency, frequency) + xlog1py(1.0 - frequency, -frequency))


def decompose(grouped: GroupedOutcomes, score: str, recalibration: str = "isotonic") -> ScoreDecomposition:
    """Return the decomposition of grouped outcomes."""
    if recalibration == "isotonic":
        fit = fit_isotonic(grouped)
        recalibrated, weight = fit.value, fit.weight
    else:
        recalibrated, weight = grouped.positives / grouped.weight, grouped.weight
    original = mean_score(grouped.weight, grouped.positives, grouped.prob, score)
    refined = float((weight * _entropy(recalibrated, score)).sum() / grouped.total)
    uncertainty = float(_entropy(grouped.positives.sum() / grouped.total, score))
    return ScoreDecomposition(
        score=original,
        # non-negative up to rounding, as the fit is optimal among all (monotone) functions
        miscalibration=max(original - refined, 0.0),
        discrimination=max(uncertainty - refined, 0.0),
        uncertainty=uncertainty,
        score_name=score,
        n_samples=grouped.total,
        recalibration=recalibration,
    )


@shared_docs
def score_decomposition(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    score: Literal["brier", "log_loss"] = "brier",
    recalibration: Literal["isotonic", "any"] = "isotonic",
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
) -> ScoreDecomposition:
    r"""Decompose the Brier score or the log loss into miscalibration, discrimination and uncertainty.

    Parameters
    ----------
    %(binary_sample)s
    score : {"brier", "log_loss"}, default="brier"
        The mean squared difference, or the mean negative log-likelihood.
    recalibration : {"isotonic", "any"}, default="isotonic"
        c in the formula below: isotonic regression of the outcomes (CORP), or the event frequency of each
        distinct prediction (Murphy's partition), which suits forecasts of few distinct values.
    %(weight)s
    labels : array-like of shape (2,), default=None
        The negative and the positive class, instead of ``pos_label``.

    Returns
    -------
    ScoreDecomposition
        The score and its three components.

    %(raised)s

    See Also
    --------
    calibration_loss : Miscalibration only, also for multiclass targets.
    refinement_loss : Uncertainty minus discrimination, also for multiclass targets.

    Notes
    -----
    With S the mean score, c(p) the isotonic regression of the outcomes on the predictions and :math:`\bar y`
    the event frequency,

    .. math:: S(p) = \underbrace{S(p) - S(c(p))}_{\text{miscalibration}}
              - \underbrace{(S(\bar y) - S(c(p)))}_{\text{discrimination}}
              + \underbrace{S(\bar y)}_{\text{uncertainty}} .

    Miscalibration and discrimination are never negative (CORP, Theorem 1 of [1]_): the fit is optimal among
    all non-decreasing functions of the predictions for every proper score. Miscalibration is 0 if and only if
    the predictions equal their isotonic fit, discrimination if and only if the fit is constant. With
    ``recalibration="any"``, c(p) is the event frequency of the samples with prediction p: Murphy's partition
    [2]_ REL - RES + UNC, of the Brier score with REL = mean of (p - c(p))^2 and RES = mean of
    (c(p) - ybar)^2. If few predictions are equal, it attributes nearly all noise to both.

    Outcomes between 0 and 1 have the expected score of an event with this probability: the Brier score is
    :math:`y (1 - p)^2 + (1 - y) p^2`, which exceeds :math:`(y - p)^2` by :math:`y (1 - y)`.

    The fit overfits small samples: there even calibrated predictions have positive miscalibration. The log
    loss of an event with prediction 0 (or a non-event with prediction 1) is infinite, and so is the
    miscalibration. O(n log n).

    References
    ----------
    .. [1] T. Dimitriadis, T. Gneiting and A. I. Jordan (2021). Stable reliability diagrams for probabilistic
       classifiers. PNAS 118. arXiv:2008.03033
    .. [2] A. H. Murphy (1973). A new vector partition of the probability score. Journal of Applied
       Meteorology 12.

    Examples
    --------
    >>> from sklearn_calib.metrics import score_decomposition
    >>> print(score_decomposition([0, 0, 1, 1], [0.1, 0.6, 0.5, 0.7]))
    Brier score 0.1775 = miscalibration 0.0525 - discrimination 0.1250 + uncertainty 0.2500 (isotonic, n = 4)
    """
    _validation.check_option(score, "score", SCORES)
    _validation.check_option(recalibration, "recalibration", ("isotonic", "any"))
    sample = _validation.check_binary(
        y_true, y_proba, sample_weight, pos_label, fractions=True, labels=labels
    )
    return decompose(group_outcomes(sample.y, sample.p, sample.w), score, recalibration)


def _refined(prob: Array, n_samples: float, score: str = "brier") -> Evaluate:
    def evaluate(count: Array, positives: Array) -> Array:
        values = np.empty(positives.shape[1])
        for part in blocks(values.shape[0], _WORK, prob.shape[0]):
            events = positives[:, part].T
            used = (weight := np.broadcast_to(count, positives.shape)[:, part].T) > 0.0
            row = np.repeat(np.arange(used.shape[0]), used.sum(axis=1))
            weight, events = weight[used], events[used].astype(np.float64)
            # one regression for several samples, whose frequencies are far apart
            apart = events + 2.0 * row * weight
            fit = fit_isotonic(GroupedOutcomes(np.arange(float(row.shape[0])), weight, apart))
            starts = fit.lower.astype(np.intp)
            # sums in one order, so that no frequency exceeds 1
            events, weight = (np.add.reduceat(sums, starts) for sums in (events, weight))
            losses = weight * _entropy(events / weight, score)
            values[part] = np.bincount(row[starts], losses, used.shape[0]) / n_samples
        return values

    return evaluate


def _miscalibration(prob: Array, n_samples: float, score: str = "brier") -> Evaluate:
    refined, loss = _refined(prob, n_samples, score), BRIER if score == "brier" else LOG
    original = mean_of_outcomes(*loss.of_outcomes(prob), n_samples)
    return lambda count, positives: np.maximum(original(count, positives) - refined(count, positives), 0.0)


@shared_docs
@MetricKernel(_miscalibration, calibration_error=True)
def calibration_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    score: Literal["brier", "log_loss"] = "brier",
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    """Compute the part of the Brier score or the log loss that isotonic recalibration removes.

    Parameters
    ----------
    %(outcomes)s
    score : {"brier", "log_loss"}, default="brier"
        The mean squared difference, or the mean negative log-likelihood.
    %(weight)s
    %(reduction)s

    Returns
    -------
    float
        The miscalibration of :func:`score_decomposition`, never negative; 0 is best. At most 1 for the Brier
        score.

    %(raised)s

    See Also
    --------
    score_decomposition : All components of the score.

    Notes
    -----
    O(n log n).

    %(not_proper)s

    Examples
    --------
    >>> from sklearn_calib.metrics import calibration_loss
    >>> print(f"{calibration_loss([0, 0, 1, 1], [0.1, 0.6, 0.5, 0.7]):.4f}")
    0.0525
    """
    _validation.check_option(score, "score", SCORES)
    given = y_true, y_proba, sample_weight, pos_label, reduction, labels
    return error_of_groups(lambda grouped: decompose(grouped, score).miscalibration, *given)


@shared_docs
@MetricKernel(_refined, _range=(0.0, np.inf))
def refinement_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    score: Literal["brier", "log_loss"] = "brier",
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    """Compute the Brier score or the log loss after isotonic recalibration.

    It depends only on the order of the predictions. Use it to select a model that will be recalibrated
    afterward. The isotonic regression is fitted to the same samples, so that the loss is optimistic in small
    samples.

    Parameters
    ----------
    y_true, y_proba, sample_weight, pos_label, score, reduction, labels
        As in :func:`calibration_loss`.

    Returns
    -------
    float
        The score of the isotonic fit, uncertainty - discrimination in :func:`score_decomposition`; smaller is
        better. At most 1/4 for the Brier score.

    %(raised)s

    See Also
    --------
    score_decomposition : All components of the score.

    Examples
    --------
    >>> from sklearn_calib.metrics import refinement_loss
    >>> print(f"{refinement_loss([0, 0, 1, 1], [0.1, 0.6, 0.5, 0.7]):.4f}")
    0.1250
    """
    _validation.check_option(score, "score", SCORES)
    given = y_true, y_proba, sample_weight, pos_label, reduction, labels
    return error_of_groups(lambda grouped: decompose(grouped, score).refinement_loss, *given)
