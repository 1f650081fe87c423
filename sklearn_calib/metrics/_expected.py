"""Expected performance: classification metrics estimated from calibrated probabilities, without labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlog1py, xlogy

from sklearn_calib import _validation
from sklearn_calib._core._blocks import block_sum
from sklearn_calib._docs import shared_docs
from sklearn_calib._frame import FrameMixin
from sklearn_calib._html import number_text, text_html
from sklearn_calib._typing import Array
from sklearn_calib.metrics._summary import IntervalEstimate


@dataclass(frozen=True)
class ExpectedPerformance(FrameMixin):
    """Expected performance of decisions and predictions, from the predicted probabilities alone.

    Every estimate has the interval that the certificate guarantees; without a certificate its ends are NaN.
    A rate without denominator, such as the precision if no prediction reaches the threshold, is NaN.

    Attributes
    ----------
    event_rate : IntervalEstimate
        Mean of Y.
    recall, false_positive_rate : IntervalEstimate
        P(p >= threshold | Y = 1) and P(p >= threshold | Y = 0).
    precision, negative_predictive_value : IntervalEstimate
        P(Y = 1 | p >= threshold) and P(Y = 0 | p < threshold).
    f1, accuracy : IntervalEstimate
        F1 score and accuracy of the decisions p >= threshold.
    cost : IntervalEstimate
        Mean cost of the decisions.
    roc_auc, log_loss, brier_score : IntervalEstimate
        Area under the ROC curve, log loss and Brier score of the predictions.
    flagged : float
        Fraction of predictions that are at least ``threshold``; known exactly.
    threshold : float
        The decision threshold.
    certificate : float or None
        The bound on the cutoff calibration error.
    max_density_ratio : float
        Factor by which the certificate was multiplied to allow for a changed distribution of the predictions.
    n_samples : float
        Total weight of the samples.
    assumption : str
        What the estimates and intervals assume.
    """

    _rows_in = "_measures"

    event_rate: IntervalEstimate
    recall: IntervalEstimate
    false_positive_rate: IntervalEstimate
    precision: IntervalEstimate
    negative_predictive_value: IntervalEstimate
    f1: IntervalEstimate
    accuracy: IntervalEstimate
    cost: IntervalEstimate
    roc_auc: IntervalEstimate
    log_loss: IntervalEstimate
    brier_score: IntervalEstimate
    flagged: float
    threshold: float
    certificate: float | None
    max_density_ratio: float
    n_samples: float
    assumption: str = field(repr=False)

    def _intervals(self) -> dict[str, IntervalEstimate]:
        return {name: found for name, found in vars(self).items() if isinstance(found, IntervalEstimate)}

    @property
    def _measures(self) -> list[dict[str, Any]]:
        return [{"measure": name, **vars(found)} for name, found in self._intervals().items()]

    def __str__(self) -> str:
        lines = [f"expected performance of {self.n_samples:g} samples at threshold {self.threshold:g}"]
        for name, found in self._intervals().items():
            alone = self.certificate is None and not np.isnan(found.estimate)
            value = number_text(found.estimate) if alone else str(found)
            lines.append(f"  {name.replace('_', ' '):<26}{value}")
        return "\n".join([*lines, self.assumption])

    _repr_html_ = text_html


@shared_docs
def expected_performance(
    y_proba: ArrayLike,
    *,
    threshold: float = 0.5,
    certificate: float | None = None,
    max_density_ratio: float = 1.0,
    cost_false_positive: float = 1.0,
    cost_false_negative: float = 1.0,
    sample_weight: ArrayLike | None = None,
) -> ExpectedPerformance:
    r"""Estimate classification metrics of unlabeled samples from their calibrated probabilities.

    If predictions are calibrated, the event probability given the prediction p is p, so that the expected
    value of every metric can be computed without labels. A certificate of the calibrator, an upper bound on
    its cutoff calibration error, gives guaranteed intervals.

    Parameters
    ----------
    y_proba : array-like of shape (n,), (n, 1) or (n, 2)
        Predicted probabilities of the positive class in [0, 1]; of two columns the last is used.
    threshold : float, default=0.5
        Decisions are positive where the prediction is at least this; strictly between 0 and 1.
    certificate : float, default=None
        Upper bound on the cutoff calibration error, as ``cutoff_certificate().upper`` of a calibrator. By
        default no intervals are computed.
    max_density_ratio : float, default=1.0
        Upper bound, at least 1, on the ratio of the densities of the predictions: those of ``y_proba`` over
        those for which the certificate was computed. The ratio must be unimodal (increasing, decreasing, or
        first increasing and then decreasing). With 1, the intervals hold only if this distribution has not
        changed. The bound cannot be estimated from samples without further assumptions.
    cost_false_positive, cost_false_negative : float, default=1.0
        Cost of the two errors; at least 0.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights of the predictions.

    Returns
    -------
    ExpectedPerformance
        Estimates with intervals, and the assumption under which they hold.

    %(raised)s

    See Also
    --------
    cutoff_calibration_error : The error that the certificate bounds.

    Notes
    -----
    With expectations over the predictions p, the estimates are those of confidence-based performance
    estimation [1]_: true positives :math:`a = E[p\,1\{p \ge t\}]`, false negatives :math:`b =
    E[p\,1\{p < t\}]`, positive decisions :math:`s = P(p \ge t)`; precision a / s, recall a / (a + b), F1
    score 2 a / (s + a + b), and so on. The Brier score is :math:`E[p (1 - p)]`, the log loss the mean
    entropy, and

    .. math:: \mathrm{AUC} = \frac{\int a(u)\,ds(u) - \pi^2 / 2}{\pi (1 - \pi)}, \quad
              a(u) = E[p\,1\{p \ge u\}],\ s(u) = P(p \ge u),\ \pi = a(0).

    *Intervals.* A certificate c states that :math:`|E[(Y - p)\,1\{p \in I\}]| \le c` for all intervals I
    [2]_. The true positives are therefore in :math:`a \pm c` and the false negatives in :math:`b \pm c`, and
    rates, which are monotone in both, attain their extreme values at :math:`(a \pm c, b \mp c)`. If
    the densities of the predictions have a unimodal ratio, new over old, of at most M, c M replaces c.
    docs/monitoring.md has the derivations.

    *Assumption.* The probability of an event given the prediction has not changed since the certificate was
    computed. Unlabeled data cannot show whether this holds. The intervals are for expectations: predictions
    and outcomes of n samples vary around them by a further :math:`O(1/\sqrt n)`. O(n log n).

    References
    ----------
    .. [1] J. Białek, W. Kuberski, N. Perrakis and A. Bifet (2023). Estimating model performance under
       covariate shift without labels. arXiv:2401.08348
    .. [2] R. Rossellini, J. A. Soloff, R. F. Barber, Z. Ren and R. Willett (2025). Can a calibration metric
       be both testable and actionable? COLT. arXiv:2502.19851

    Examples
    --------
    >>> from sklearn_calib.metrics import expected_performance
    >>> found = expected_performance([0.1, 0.2, 0.6, 0.9], threshold=0.5, certificate=0.05)
    >>> print(found.precision)
    0.7500 [0.6500, 0.8500]
    >>> print(f"{found.recall.estimate:.3f}")
    0.833
    """
    t = _validation.check_fraction(threshold, "threshold")
    if hasattr(certificate, "upper"):
        raise TypeError("certificate must be a number. Pass certificate.upper, the bound.")
    c = np.nan if certificate is None else _validation.check_not_negative(certificate, "certificate")
    cost_fp = _validation.check_not_negative(cost_false_positive, "cost_false_positive")
    cost_fn = _validation.check_not_negative(cost_false_negative, "cost_false_negative")
    factor = _validation.check_not_negative(max_density_ratio, "max_density_ratio")
    if factor < 1.0:
        raise ValueError(
            "max_density_ratio must be at least 1, its value for an unchanged distribution, got "
            f"{max_density_ratio!r}."
        )
    if factor > 1.0 and certificate is None:
        raise ValueError("max_density_ratio changes the intervals of a certificate. Pass certificate, too.")
    p, w, total = _sorted_predictions(y_proba, sample_weight)
    c *= factor

    first = int(np.searchsorted(p, t, side="left"))
    mass = w * p
    # sums of the same numbers, so that a class or decision without samples has exactly zero
    a, b, s, u = (float(part.sum()) for part in (mass[first:], mass[:first], w[first:], w[:first]))
    # the extremes of true positives and of false negatives that the certificate allows
    best = min(a + c, s), max(b - c, 0.0)
    worst = max(a - c, 0.0), min(b + c, u)

    def rate(of: Callable[[float, float], float]) -> IntervalEstimate:
        value, first, last = (of(*counts) for counts in ((a, b), best, worst))
        if certificate is None:
            return IntervalEstimate(value, np.nan, np.nan)
        # where one has no denominator, the other is the only value
        return IntervalEstimate(value, float(np.fmin(first, last)), float(np.fmax(first, last)))

    def scored(value: float, g: Array, highest: float) -> IntervalEstimate:
        # g decreases with p, so that its extremes are attained at the ends
        margin = c * (max(float(g[0]), 0.0) + max(-float(g[-1]), 0.0)) if c else 0.0
        return IntervalEstimate(value, max(value - margin, 0.0), min(value + margin, highest))

    ends = p[[0, -1]]
    with np.errstate(divide="ignore"):
        minus_logit = np.log1p(-ends) - np.log(ends)
    return ExpectedPerformance(
        event_rate=IntervalEstimate(a + b, max(a + b - c, 0.0), min(a + b + c, 1.0)),
        recall=rate(lambda a, b: _ratio(a, a + b)),
        false_positive_rate=rate(lambda a, b: _ratio(s - a, (s - a) + (u - b))),
        precision=rate(lambda a, b: _ratio(a, s)),
        negative_predictive_value=rate(lambda a, b: _ratio(u - b, u)),
        f1=rate(lambda a, b: _ratio(2.0 * a, s + a + b)),
        accuracy=rate(lambda a, b: a + u - b),
        cost=rate(lambda a, b: cost_fp * (s - a) + cost_fn * b),
        roc_auc=_roc_auc(w, mass, c),
        log_loss=scored(_entropy(p, w), minus_logit, np.inf),
        brier_score=scored(float(mass @ (1.0 - p)), 1.0 - 2.0 * ends, 1.0),
        flagged=s,
        threshold=t,
        certificate=None if certificate is None else float(certificate),
        max_density_ratio=factor,
        n_samples=total,
        assumption=_assumption(certificate, factor),
    )


def _sorted_predictions(y_proba: ArrayLike, sample_weight: ArrayLike | None) -> tuple[Array, Array, float]:
    """Return checked predictions in increasing order, weights that sum to 1, and the total weight."""
    _validation.check_columns(y_proba, None, "y_proba")
    p = _validation.check_probabilities(y_proba, "y_proba")
    if sample_weight is None:
        return np.sort(p), np.broadcast_to(1.0 / p.shape[0], p.shape), float(p.shape[0])
    w = _validation.check_weights(sample_weight, p.shape[0])
    order = np.argsort(p)
    order, total = order[w[order] > 0], float(w.sum())
    return p[order], w[order] / total, total


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0 else np.nan


def _entropy(p: Array, w: Array) -> float:
    """Return the mean of -p log p - (1 - p) log(1 - p) of sorted predictions, with 0 log 0 = 0."""

    def entropy(rows: slice) -> Array:
        part = p[rows]
        return np.asarray(w[rows] @ (xlogy(part, part) + xlog1py(1.0 - part, -part)))

    return -float(block_sum(p.shape[0], entropy))


def _roc_auc(w: Array, mass: Array, c: float) -> IntervalEstimate:
    """Return the area, and its extremes over a(u) + d(u), with all differences of d within ``c``.

    ``d(0)`` is the error of the event rate. For a given one, d(u) <= c + min(0, d(0)), and the greatest area,
    (integral of a(u) + d(u)) - rate^2 / 2 over rate (1 - rate), is a function of one variable.
    """
    other = w - mass
    event_rate, other_rate = float(mass.sum()), float(other.sum())
    if not (event_rate > 0.0 and other_rate > 0.0):
        return IntervalEstimate(np.nan, np.nan, np.nan)
    # sum of p_i (1 - p_j) over j before i, and one half of it for ties
    below = np.cumsum(other)
    below -= 0.5 * other
    ordered = float(mass @ below)
    value = min(ordered / (event_rate * other_rate), 1.0)
    if np.isnan(c):
        return IntervalEstimate(value, np.nan, np.nan)
    low, high = event_rate - c, event_rate + c
    if not (low > 0.0 and high < 1.0):
        return IntervalEstimate(value, 0.0, 1.0)

    def area(rate: float, deviation: float) -> float:
        return (integral + deviation - rate * rate / 2.0) / (rate * (1.0 - rate))

    integral = ordered + event_rate**2 / 2.0
    k_up, k_down = integral + c, integral - c
    # Stationary points: with a constant numerator K - r^2/2, r^2 - 4 K r + 2 K = 0; with K + r - r^2/2,
    # r^2 + 4 K r - 2 K = 0.
    candidates = [low, event_rate, high]
    for factor in (-4.0 * k_up, -4.0 * k_down, 4.0 * (k_up - event_rate), 4.0 * (k_down - event_rate)):
        roots = np.roots([1.0, factor, -factor / 2.0])
        candidates += roots.real[np.isreal(roots)].tolist()
    rates = [r for r in candidates if low <= r <= high]
    upper = max(area(r, c + min(0.0, r - event_rate)) for r in rates)
    lower = min(area(r, -c + max(0.0, r - event_rate)) for r in rates)
    return IntervalEstimate(value, max(lower, 0.0), min(upper, 1.0))


def _assumption(certificate: float | None, factor: float) -> str:
    if certificate is None:
        return "Assumes that the predictions are calibrated on these samples."
    unchanged = f"since the certificate of {certificate:.4g} was computed"
    if factor == 1.0:
        return (
            "Assumes that neither P(event | prediction) nor the distribution of the predictions has changed "
            f"{unchanged} (pass max_density_ratio= to allow for another distribution)."
        )
    return (
        f"Assumes that P(event | prediction) has not changed {unchanged}, and that the ratio of the "
        f"densities of the predictions, new to old, is unimodal and at most {factor:.4g}."
    )
