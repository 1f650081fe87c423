"""Decision risk gap: the excess risk due to miscalibration at a decision threshold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib._core._isotonic import fit_isotonic
from sklearn_calib._docs import shared_docs
from sklearn_calib._html import result_html
from sklearn_calib._validation import BinarySample, Outcomes, check_binary, check_fraction, check_numbers
from sklearn_calib.metrics._cutoff import cutoff_of_groups
from sklearn_calib.metrics._metric_kernel import Evaluate, MetricKernel, value_of_groups
from sklearn_calib.metrics._reductions import Reduction, checked_error

__all__ = [
    "DecisionRiskResult",
    "check_thresholds",
    "decision_risk_gap",
    "decision_risk_result",
    "decision_risks",
    "risk_result",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DecisionRiskResult:
    """Decision risk over thresholds, and the lowest risk that a monotone recalibration attains.

    Attributes
    ----------
    thresholds : ndarray of shape (m,)
        Decision thresholds in (0, 1).
    risk : ndarray of shape (m,)
        Risk of decisions based on the predictions.
    best_risk : ndarray of shape (m,)
        Lowest risk over all non-decreasing recalibrations.
    gap : ndarray of shape (m,)
        ``risk - best_risk``, never negative.
    bound : float
        The cutoff calibration error: no gap exceeds it.
    """

    thresholds: Array = field(repr=False)
    risk: Array = field(repr=False)
    best_risk: Array = field(repr=False)
    gap: Array = field(repr=False)
    bound: float

    def __str__(self) -> str:
        worst = int(self.gap.argmax())
        return (
            f"decision risk gap: at most {self.gap[worst]:.4f}, at threshold {self.thresholds[worst]:.3g} "
            f"(bound {self.bound:.4f}) over {self.thresholds.shape[0]} thresholds"
        )

    def _repr_html_(self) -> str:
        worst = int(self.gap.argmax())
        return result_html(
            "decision risk gap",
            [
                ("at most", f"{self.gap[worst]:.4f}"),
                ("at threshold", f"{self.thresholds[worst]:.3g}"),
                ("bound", f"{self.bound:.4f}"),
                ("thresholds", str(self.thresholds.shape[0])),
            ],
        )


def decision_risks(grouped: GroupedOutcomes, thresholds: Array) -> tuple[Array, Array]:
    """Return risk and lowest risk for each threshold.

    Acting on the groups from index j on costs tau * (negatives among them) + (1 - tau) * (positives before
    them). The minimum over j is where the isotonic fit first reaches tau.
    """
    events_before = np.concatenate(([0.0], np.cumsum(grouped.positives)))
    weight_before = np.concatenate(([0.0], np.cumsum(grouped.weight)))
    negatives_after = (weight_before[-1] - weight_before) - (events_before[-1] - events_before)

    def cost(cut: NDArray[np.intp]) -> Array:
        return (thresholds * negatives_after[cut] + (1.0 - thresholds) * events_before[cut]) / grouped.total

    blocks = fit_isotonic(grouped)
    block_start = np.append(np.searchsorted(grouped.prob, blocks.lower), grouped.prob.shape[0])
    best_cut = block_start[np.searchsorted(blocks.value, thresholds, side="left")]
    return cost(np.searchsorted(grouped.prob, thresholds, side="left")), cost(best_cut)


def _make(prob: Array, n_samples: float, threshold: float = 0.5) -> Evaluate:
    # the cost of acting from group j on is, up to a constant, the cumulative sum of
    # positives - threshold * count
    start = int(np.searchsorted(prob, threshold, side="left"))

    def gaps(count: Array, positives: Array) -> Array:
        walk = positives - threshold * count
        np.cumsum(walk, axis=0, out=walk)
        cost = walk[start - 1] if start else np.zeros(walk.shape[1])
        return np.asarray(np.maximum(cost - np.minimum(walk.min(axis=0), 0.0), 0.0) / count.sum(axis=0))

    return gaps


@shared_docs
@MetricKernel(_make)
def decision_risk_gap(
    y_true: Outcomes,
    y_proba: ArrayLike | None = None,
    *,
    threshold: float = 0.5,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    r"""Compute the decision risk that monotone recalibration would remove at one threshold.

    Parameters
    ----------
    %(outcomes)s
    threshold : float, default=0.5
        Act if the prediction is at least this. It is also the cost of a false positive, if false positive and
        false negative together cost 1. Strictly between 0 and 1.
    %(weight)s
    %(reduction)s

    Returns
    -------
    float
        Reduction of risk, in [0, 1]; 0 is best. At most the cutoff calibration error.

    Raises
    ------
    %(malformed)s

    See Also
    --------
    decision_risk_result : Risk and risk gap for many thresholds.
    cutoff_calibration_error : Bounds the gap at every threshold.

    Notes
    -----
    The risk at threshold :math:`\tau` (Section 3 of [1]_) has cost :math:`\tau` for a false positive and
    :math:`1 - \tau` for a false negative:

    .. math:: R(f; \tau) = \frac1n \sum_i w_i \bigl[\tau\,(1 - y_i)\,1\{p_i \ge \tau\}
              + (1 - \tau)\,y_i\,1\{p_i < \tau\}\bigr].

    The gap is :math:`R(f; \tau) - \min_h R(h \circ f; \tau)` over non-decreasing h, attained by the
    isotonic fit. O(n log n).

    It is at most the cutoff calibration error, half of the bound in Proposition 3.2: acting from c on instead
    of from :math:`\tau < c` reduces the risk by :math:`\sum_{\tau \le p_i < c} w_i (\tau - y_i)/n`. As
    :math:`\tau \le p_i`, this is at most :math:`\sum w_i (p_i - y_i)/n` over the same interval; the case
    :math:`c < \tau` is analogous.

    References
    ----------
    .. [1] R. Rossellini, J. A. Soloff, R. F. Barber, Z. Ren and R. Willett (2025). Can a calibration metric
       be both testable and actionable? COLT. arXiv:2502.19851

    Examples
    --------
    >>> from sklearn_calib.metrics import decision_risk_gap
    >>> print(f"{decision_risk_gap([0, 0, 0, 1], [0.1, 0.6, 0.7, 0.8], threshold=0.5):.2f}")
    0.25
    """
    tau = check_fraction(threshold, "threshold")

    def error(sample: BinarySample) -> float:
        grouped = group_outcomes(sample.y, sample.p, sample.w)
        return value_of_groups(_make(grouped.prob, grouped.total, tau), grouped)

    return checked_error(error, y_true, y_proba, sample_weight, pos_label, reduction, labels)


@shared_docs
def decision_risk_result(
    y_true: Outcomes,
    y_proba: ArrayLike | None = None,
    *,
    thresholds: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> DecisionRiskResult:
    """Compute decision risk and risk gap over many thresholds.

    Parameters
    ----------
    y_true, y_proba, sample_weight, pos_label
        As in :func:`decision_risk_gap`, for binary targets.
    thresholds : array-like of shape (m,), default=None
        Thresholds strictly between 0 and 1. By default 0.01, 0.02, ..., 0.99.

    Returns
    -------
    DecisionRiskResult
        Risk, lowest risk, risk gap, and their bound, the cutoff calibration error.

    Raises
    ------
    %(malformed)s

    Examples
    --------
    >>> from sklearn_calib.metrics import decision_risk_result
    >>> print(decision_risk_result([0, 0, 0, 1], [0.1, 0.6, 0.7, 0.8]))
    decision risk gap: at most 0.3000, at threshold 0.6 (bound 0.3500) over 99 thresholds
    """
    return risk_result(check_binary(y_true, y_proba, sample_weight, pos_label), check_thresholds(thresholds))


def check_thresholds(thresholds: ArrayLike | None) -> Array:
    """Return the decision thresholds, by default 0.01, 0.02, ..., 0.99."""
    if thresholds is None:
        return np.arange(1, 100) / 100.0
    tau = check_numbers(thresholds, "thresholds")
    if tau.ndim != 1 or tau.shape[0] == 0 or not ((tau > 0) & (tau < 1)).all():
        raise ValueError(
            f"thresholds must be a non-empty list of numbers strictly between 0 and 1, got {thresholds!r}."
        )
    return tau


def risk_result(sample: BinarySample, tau: Array) -> DecisionRiskResult:
    """Return the result of :func:`decision_risk_result` for a checked sample and thresholds."""
    grouped = group_outcomes(sample.y, sample.p, sample.w)
    risk, best = decision_risks(grouped, tau)
    bound = cutoff_of_groups(grouped)
    return DecisionRiskResult(tau, risk, best, np.maximum(risk - best, 0.0), bound)
