"""Decisions at thresholds: risk gap, calibration decision loss and net benefit."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from sklearn_calib import _validation
from sklearn_calib._core._binning import quantile_bins
from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib._core._isotonic import fit_isotonic
from sklearn_calib._core._links import logit
from sklearn_calib._docs import shared_docs
from sklearn_calib._frame import FrameMixin
from sklearn_calib._html import number_text, text_html
from sklearn_calib._typing import Array
from sklearn_calib.metrics._cutoff import cutoff_of_groups
from sklearn_calib.metrics._metric_kernel import Evaluate, MetricKernel, one_by_one, value_of_groups
from sklearn_calib.metrics._reductions import Reduction, checked_error, error_of_groups

# Predictions are pooled in bins of equal mass, so many for each n^(1/3) samples. Where predictions are
# calibrated the best cut lies within some n^(-1/3) of the mass around the threshold: a bin is a small part.
_BINS_PER_ROOT = 64.0
# The lowest risk over all cuts needs finer bins than other metrics.
_MOST_DISTINCT = 1 << 14
# Points that are not higher than this above a line lie on it.
_ROUNDING = 1e-15
# Simulated samples of bootstrapped predictions have more ties: this matters less the more there are.
_FEWEST_TIED = 10

Recalibration = Literal["monotone", "either", "any"]
_RECALIBRATIONS = get_args(Recalibration)


@dataclass(frozen=True, eq=False)
class DecisionRiskResult(FrameMixin):
    """Decision risk over thresholds, and the lowest risk that a recalibration attains.

    Attributes
    ----------
    thresholds : ndarray of shape (m,)
        Decision thresholds in [0, 1).
    risk : ndarray of shape (m,)
        Risk of decisions based on the predictions.
    best_risk : ndarray of shape (m,)
        Lowest risk over all recalibrations of the chosen kind.
    gap : ndarray of shape (m,)
        ``risk - best_risk``, never negative.
    bound : float
        Upper bound of every gap, as in :func:`decision_risk_gap`.
    """

    _columns_in = ("thresholds", "risk", "best_risk", "gap")

    thresholds: Array = field(repr=False)
    risk: Array = field(repr=False)
    best_risk: Array = field(repr=False)
    gap: Array = field(repr=False)
    bound: float

    def __str__(self) -> str:
        worst, m = int(self.gap.argmax()), self.thresholds.shape[0]
        return (
            f"decision risk gap: {number_text(self.gap[worst])} at threshold {self.thresholds[worst]:.3g}"
            f"{f', the maximum over {m} thresholds' if m > 1 else ''} (bound {number_text(self.bound)})"
        )

    _repr_html_ = text_html


def decision_risks(
    grouped: GroupedOutcomes, thresholds: Array, recalibration: str = "monotone"
) -> tuple[Array, Array]:
    """Return risk and lowest risk for each threshold."""
    costs = _Costs(grouped)
    risk = costs.of_cut(thresholds, grouped.prob.searchsorted(thresholds))
    best = risk
    for each in costs.orders(recalibration):
        best = np.minimum(best, each.lowest(thresholds))
    return risk, best


class _Costs:
    """Costs tau * (negatives from index j on) + (1 - tau) * (positives before) of acting from group j on."""

    def __init__(self, grouped: GroupedOutcomes) -> None:
        self.grouped, self.total = grouped, grouped.total
        self.events_before, self.negatives_after = np.zeros((2, grouped.prob.shape[0] + 1))
        grouped.positives.cumsum(out=self.events_before[1:])
        after = grouped.weight.cumsum(out=self.negatives_after[1:])
        after -= self.events_before[1:]
        np.subtract(after[-1], self.negatives_after, out=self.negatives_after)

    def orders(self, recalibration: str) -> list[_Costs]:
        """Return the costs in each order of which a recalibration may act on the last groups."""
        if recalibration == "monotone":
            return [self]
        prob, weight, positives = self.grouped.prob, self.grouped.weight, self.grouped.positives
        if recalibration == "either":
            return [self, _Costs(GroupedOutcomes(prob, weight[::-1], positives[::-1]))]
        order = np.argsort(positives / weight, kind="stable")
        return [_Costs(GroupedOutcomes(prob, weight[order], positives[order]))]

    def of_cut(self, thresholds: Array, cut: NDArray[np.intp] | slice) -> Array:
        risk = thresholds * self.negatives_after[cut] + (1.0 - thresholds) * self.events_before[cut]
        return np.asarray(risk / self.total)

    @cached_property
    def _blocks(self) -> tuple[Array, NDArray[np.intp]]:
        """The values of the isotonic fit, and the first group of each block and the number of groups."""
        prob, fit = self.grouped.prob, fit_isotonic(self.grouped)
        return fit.value, np.concatenate((prob.searchsorted(fit.lower), (prob.shape[0],)))

    def lowest(self, thresholds: Array) -> Array:
        """Return the minimum over all cuts, which is where the isotonic fit first reaches the threshold."""
        value, starts = self._blocks
        return self.of_cut(thresholds, starts[value.searchsorted(thresholds)])


def _gaps_at_predictions(grouped: GroupedOutcomes, recalibration: str) -> list[Array]:
    """Return the risk gap at each prediction, the greater one of its limits from both sides, for each order.

    Between two predictions the risk is linear and the lowest risk concave in the threshold. The gap is
    therefore convex, and nowhere greater than at the ends.
    """
    tau, costs, found = grouped.prob, _Costs(grouped), []
    for each in costs.orders(recalibration):
        # the isotonic fit needs memory before the gaps do
        _ = each._blocks
        gap = np.empty_like(tau)
        for rows in blocks(tau.shape[0]):
            cuts = rows, slice(rows.start + 1, rows.stop + 1)
            risk = np.maximum(*(costs.of_cut(tau[rows], cut) for cut in cuts))
            gap[rows] = np.maximum(risk - each.lowest(tau[rows]), 0.0)
        found.append(gap)
    return found


def _decision_loss(grouped: GroupedOutcomes, recalibration: str = "monotone") -> float:
    return max(_loss_of_gaps(grouped.prob, gap) for gap in _gaps_at_predictions(grouped, recalibration))


def _loss_of_gaps(tau: Array, gap: Array) -> float:
    """Return twice the least concave majorant of the risk gap, at 1/2.

    The line through the ends is replaced by that through the point farthest above it, on its side of 1/2,
    until no point is above.
    """
    left, right = (0.0, 0.0), (1.0, 0.0)
    while True:
        slope = (right[1] - left[1]) / (right[0] - left[0])
        above = gap - (left[1] + slope * (tau - left[0]))
        if above.max(initial=0.0) <= _ROUNDING:
            return 2.0 * (left[1] + slope * (0.5 - left[0]))
        worst = int(above.argmax())
        point = (float(tau[worst]), float(gap[worst]))
        if point[0] == 0.5:
            return 2.0 * point[1]
        left, right = (point, right) if point[0] < 0.5 else (left, point)
        kept = above > _ROUNDING
        del above
        # a copy is worth its memory if it is short
        if 2 * np.count_nonzero(kept) <= kept.shape[0]:
            tau, gap = tau[kept], gap[kept]


def n_risk_bins(total: float) -> int:
    """Return a number of bins of equal mass within which the null distribution of gaps hardly changes."""
    return int(np.ceil(_BINS_PER_ROOT * np.cbrt(total)))


def _loss_bins(grouped: GroupedOutcomes, recalibration: str = "monotone") -> NDArray[np.int64] | None:
    # the greatest of many gaps changes more than a single one
    return None if recalibration == "any" else quantile_bins(grouped.weight, 8 * n_risk_bins(grouped.total))


def _gap_bins(
    grouped: GroupedOutcomes, threshold: float | str = 0.5, recalibration: str = "monotone"
) -> NDArray[np.int64] | None:
    return _loss_bins(grouped, recalibration) if threshold == "max" else None


def _check_ties(n_samples: float, n_distinct: int, recalibration: str = "monotone", **params: Any) -> None:
    """Raise if too few samples share their predictions to tell event frequencies from noise."""
    if recalibration == "any" and n_samples < _FEWEST_TIED * n_distinct:
        raise ValueError(
            f"recalibration='any' needs event frequencies of each distinct prediction, but {n_samples:g} "
            f"samples with {n_distinct} distinct predictions do not give these. Round the predictions, so "
            f"that each has {_FEWEST_TIED} samples or more, or use recalibration='monotone'."
        )


def _overconfident(prob: Array, direction: Array) -> Array:
    """Return the direction to half of the log-odds: few decisions change, so that noise exceeds the gap."""
    return expit(0.5 * logit(prob)) - prob


def _make(
    prob: Array, n_samples: float, threshold: float | str = 0.5, recalibration: str = "monotone"
) -> Evaluate:
    if isinstance(threshold, str):
        return one_by_one(lambda g: np.max(_gaps_at_predictions(g, recalibration)))(prob, n_samples)

    # the cost of acting from group j on is, up to a constant, the cumulative sum of
    # positives - threshold * count
    start = int(np.searchsorted(prob, threshold, side="left"))

    def gaps(count: Array, positives: Array) -> Array:
        walk = threshold * count
        walk = np.subtract(positives, walk, out=walk if walk.shape == positives.shape else None)
        lowest = np.minimum(walk, 0.0).sum(axis=0) if recalibration == "any" else 0.0
        np.cumsum(walk, axis=0, out=walk)
        cost = walk[start - 1] if start else np.zeros(walk.shape[1])
        if recalibration != "any":
            lowest = np.minimum(walk.min(axis=0), 0.0)
        if recalibration == "either":
            # acting up to group j
            lowest = np.minimum(lowest, walk[-1] - np.maximum(walk.max(axis=0), 0.0))
        return np.asarray(np.maximum(cost - lowest, 0.0) / count.sum(axis=0))

    return gaps


@shared_docs
@MetricKernel(
    _make,
    calibration_error=True,
    _bins=_gap_bins,
    _most_distinct=_MOST_DISTINCT,
    _least_favorable=_overconfident,
    _check=_check_ties,
)
def decision_risk_gap(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    threshold: float | Literal["max"] = 0.5,
    recalibration: Recalibration = "monotone",
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    r"""Compute the decision risk that recalibration would remove at one threshold, or at the worst.

    Parameters
    ----------
    %(outcomes)s
    threshold : float or "max", default=0.5
        Act if the prediction is at least this. It is also the cost of a false positive, if false positive and
        false negative together cost 1. At least 0 and less than 1. "max" is the largest gap over all
        thresholds, the supremum.
    %(recalibration)s
    %(weight)s
    %(reduction)s

    Returns
    -------
    float
        Reduction of risk, in [0, 1]; 0 is best. At most the cutoff calibration error for "monotone", twice
        this error for "either", and the ECE of the distinct predictions for "any".

    %(raised)s

    See Also
    --------
    decision_risk_result : Risk and risk gap for many thresholds.
    calibration_decision_loss : The largest gap over all decision problems with bounded payoffs.
    cutoff_calibration_error : Bounds the gap at every threshold.

    Notes
    -----
    The risk at threshold :math:`\tau` (Section 3 of [1]_) has cost :math:`\tau` for a false positive and
    :math:`1 - \tau` for a false negative:

    .. math:: R(f; \tau) = \frac1n \sum_i w_i \bigl[\tau\,(1 - y_i)\,1\{p_i \ge \tau\}
              + (1 - \tau)\,y_i\,1\{p_i < \tau\}\bigr].

    The gap is :math:`R(f; \tau) - \min_h R(h \circ f; \tau)` over the permitted maps h. The best
    non-decreasing map is the isotonic fit, the best of all maps the event frequency of each prediction.
    O(n log n).

    Acting where :math:`h(p_i) \ge \tau` reduces the risk by :math:`\sum \pm w_i (y_i - \tau)/n` over the
    samples whose decision changes, + if :math:`p_i < \tau` (eq. 3), which does not decrease if :math:`p_i`
    replaces :math:`\tau`: hence the bound by the ECE (Proposition 3.1). The samples form one interval if h is
    non-decreasing, hence the cutoff error, and two if h is non-increasing (Proposition 3.2).

    For outcomes between 0 and 1 it is also the gap of the sign-testing risk (Appendix B.4), the mean loss
    :math:`|y - \tau|` of predictions on the wrong side of :math:`\tau`.

    %(cutoff_paper)s

    Examples
    --------
    >>> from sklearn_calib.metrics import decision_risk_gap
    >>> y, p = [0, 1, 1, 1], [0.76, 0.74, 0.74, 0.74]  # Example 3.1: cutoff error .195, ECE .385
    >>> for maps in ("monotone", "either", "any"):
    ...     print(decision_risk_gap(y, p, threshold=0.75, recalibration=maps))
    0.1875
    0.375
    0.375
    """
    _validation.check_option(recalibration, "recalibration", _RECALIBRATIONS)
    tau = threshold if isinstance(threshold, str) else _validation.check_below_one(threshold, "threshold")
    if isinstance(tau, str):
        _validation.check_option(tau, "threshold", ("max",), "a number")
    given = y_true, y_proba, sample_weight, pos_label, reduction, labels
    return error_of_groups(lambda g: value_of_groups(_make(g.prob, g.total, tau, recalibration), g), *given)


@shared_docs
@MetricKernel(
    one_by_one(_decision_loss),
    calibration_error=True,
    _bins=_loss_bins,
    _most_distinct=_MOST_DISTINCT,
    _least_favorable=_overconfident,
    _check=_check_ties,
)
def calibration_decision_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    recalibration: Recalibration = "monotone",
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    r"""Compute the calibration decision loss (CDL).

    It is the largest improvement of a decision maker's mean payoff by recalibration, over all decision
    problems whose payoffs lie in [0, 1].

    Parameters
    ----------
    %(outcomes)s
    %(recalibration)s
    %(weight)s
    %(reduction)s

    Returns
    -------
    float
        Improvement in [0, 1]; 0 is best. At most twice the bound of :func:`decision_risk_gap`.

    %(raised)s

    See Also
    --------
    decision_risk_gap : The improvement at a single threshold.
    cutoff_calibration_error : Bounds half of the loss.

    Notes
    -----
    A decision maker who trusts the prediction chooses the action with the highest expected payoff. Payoffs in
    [0, 1] of the chosen actions are proper scores S with values in [0, 1], and the calibration decision loss
    is the supremum over these,

    .. math:: \mathrm{CDL} = \sup_S \max_h \frac1n \sum_i w_i \bigl[S(h(p_i), y_i) - S(p_i, y_i)\bigr],

    over the permitted maps h. A proper score is a mixture of decisions at thresholds :math:`\tau`. With
    mixing measure :math:`\mu` the improvement is :math:`\int \mathrm{gap}(\tau)\, d\mu(\tau)`, with the gap
    of :func:`decision_risk_gap`, because one map is best at all thresholds: the isotonic fit, or the event
    frequencies; "either" is the greater loss of the two directions. Values of S remain in [0, 1] if
    :math:`\int \tau\, d\mu \le 1` and :math:`\int (1 - \tau)\, d\mu \le 1`. The dual of this linear program
    is the lowest line above the gap at 1/2: with :math:`\overline{\mathrm{gap}}` the least concave majorant
    of the gap on [0, 1],

    .. math:: \mathrm{CDL} = 2\, \overline{\mathrm{gap}}(1/2) ,
              \qquad \sup_\tau \mathrm{gap}(\tau) \le \mathrm{CDL} \le 2 \sup_\tau \mathrm{gap}(\tau).

    O(n log n). Restricted classes of maps are those of [2]_, where proper losses have values in [-1, 1].

    References
    ----------
    .. [1] L. Hu and Y. Wu (2024). Predict to minimize swap regret for all payoff-bounded tasks. FOCS.
       arXiv:2404.13503
    .. [2] P. Gopalan et al. (2025). Efficient calibration for decision making. arXiv:2511.13699

    Examples
    --------
    >>> from sklearn_calib.metrics import calibration_decision_loss
    >>> print(f"{calibration_decision_loss([0, 0, 0, 1], [0.1, 0.6, 0.7, 0.8]):.4f}")
    0.5100
    """
    _validation.check_option(recalibration, "recalibration", _RECALIBRATIONS)
    given = y_true, y_proba, sample_weight, pos_label, reduction, labels
    return error_of_groups(lambda grouped: _decision_loss(grouped, recalibration), *given)


def _make_benefit(prob: Array, n_samples: float, threshold: float = 0.5) -> Evaluate:
    start, odds = int(np.searchsorted(prob, threshold)), threshold / (1.0 - threshold)

    def benefits(count: Array, positives: Array) -> Array:
        treated, events = count[start:].sum(axis=0), positives[start:].sum(axis=0)
        return np.asarray((events - odds * (treated - events)) / count.sum(axis=0))

    return benefits


def _treated(grouped: GroupedOutcomes, threshold: float = 0.5) -> NDArray[np.int64]:
    return (grouped.prob >= threshold).astype(np.int64)


def _benefit(sample: _validation.BinarySample, threshold: float) -> float:
    # samples below and above the threshold: no sort is needed
    above = sample.p >= threshold
    events = sample.y if sample.w is None else sample.w * sample.y
    weight, positives = (np.bincount(above, each, 2).astype(np.float64) for each in (sample.w, events))
    grouped = GroupedOutcomes(np.array([0.0, threshold]), weight, positives)
    return value_of_groups(_make_benefit(grouped.prob, grouped.total, threshold), grouped)


@shared_docs
@MetricKernel(_make_benefit, greater_is_better=True, _bins=_treated, _range=(-np.inf, 1.0))
def net_benefit(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    threshold: float = 0.5,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    r"""Compute the net benefit of decisions at a threshold, as in decision curve analysis.

    Parameters
    ----------
    %(outcomes)s
    threshold : float, default=0.5
        Act (treat, intervene) if the prediction is at least this. At least 0 and less than 1.
    %(weight)s
    %(reduction)s

    Returns
    -------
    float
        Net benefit, in units of true positives per sample; larger is better. At most the event rate. 0 if
        no sample is treated; negative if treating none is better.

    %(raised)s

    See Also
    --------
    sklearn_calib.plot.DecisionCurveDisplay : Net benefit over thresholds, with bands and comparisons.
    decision_risk_result : Risk over thresholds.

    Notes
    -----
    With TP and FP the weights of true and false positives and n the total weight [1]_,

    .. math:: \mathrm{NB}(t) = \frac{\mathrm{TP}}{n} - \frac{\mathrm{FP}}{n} \, \frac{t}{1 - t}
              = \bar y - \frac{R(t)}{1 - t},

    with the event rate :math:`\bar y` and the risk R of :func:`decision_risk_gap`. It is not a calibration
    error: it measures calibration and discrimination together.

    References
    ----------
    .. [1] A. J. Vickers and E. B. Elkin (2006). Decision curve analysis: a novel method for evaluating
       prediction models. Medical Decision Making 26.

    Examples
    --------
    >>> from sklearn_calib.metrics import net_benefit
    >>> print(f"{net_benefit([0, 0, 0, 1], [0.1, 0.6, 0.7, 0.8], threshold=0.2):.4f}")
    0.1250
    """
    t = _validation.check_below_one(threshold, "threshold")
    given = y_true, y_proba, sample_weight, pos_label, reduction, labels
    return checked_error(lambda sample: _benefit(sample, t), *given)


@shared_docs
def decision_risk_result(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    thresholds: ArrayLike | None = None,
    recalibration: Recalibration = "monotone",
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
) -> DecisionRiskResult:
    """Compute decision risk and risk gap over many thresholds.

    Parameters
    ----------
    y_true, y_proba, sample_weight, pos_label, labels
        As in :func:`decision_risk_gap`, for binary targets.
    thresholds : array-like of shape (m,), default=None
        Thresholds, at least 0 and less than 1. By default 0.01, 0.02, ..., 0.99.
    %(recalibration)s

    Returns
    -------
    DecisionRiskResult
        Risk, lowest risk, risk gap, and their bound.

    %(raised)s

    Examples
    --------
    >>> from sklearn_calib.metrics import decision_risk_result
    >>> print(decision_risk_result([0, 0, 0, 1], [0.1, 0.6, 0.7, 0.8]))
    decision risk gap: 0.3000 at threshold 0.6, the maximum over 99 thresholds (bound 0.3500)
    """
    _validation.check_option(recalibration, "recalibration", _RECALIBRATIONS)
    tau = check_thresholds(thresholds)
    sample = _validation.check_binary(
        y_true, y_proba, sample_weight, pos_label, fractions=True, labels=labels
    )
    grouped = group_outcomes(sample.y, sample.p, sample.w)
    risk, best = decision_risks(grouped, tau, recalibration)
    # Propositions 3.1 and 3.2
    if recalibration == "any":
        bound = float(np.abs(grouped.residual).sum() / grouped.total)
    else:
        bound = cutoff_of_groups(grouped) * (2.0 if recalibration == "either" else 1.0)
    return DecisionRiskResult(tau, risk, best, risk - best, bound)


def check_thresholds(thresholds: ArrayLike | None) -> Array:
    """Return the decision thresholds, by default 0.01, 0.02, ..., 0.99."""
    if thresholds is None:
        return np.arange(1, 100) / 100.0
    tau = _validation.check_numbers(thresholds, "thresholds")
    if tau.ndim != 1 or tau.shape[0] == 0 or not ((tau >= 0) & (tau < 1)).all():
        raise ValueError(
            f"thresholds must be a non-empty list of numbers, at least 0 and less than 1, got {thresholds!r}."
        )
    return tau
