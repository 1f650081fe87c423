"""Risk-coverage curve of selective prediction, and the area under it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma

from sklearn_calib import _validation
from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._grouping import CHUNK, group_outcomes
from sklearn_calib._core._weights import effective_size
from sklearn_calib._docs import shared_docs
from sklearn_calib._frame import FrameMixin
from sklearn_calib._html import number_text, text_html
from sklearn_calib._typing import Array
from sklearn_calib.metrics._metric_kernel import MetricKernel
from sklearn_calib.metrics._reductions import (
    Reduction,
    check_problem,
    checked_error,
    class_samples,
)


@dataclass(frozen=True, eq=False)
class RiskCoverageCurve(FrameMixin):
    """Risk among the accepted samples as a function of the fraction that is accepted.

    Attributes
    ----------
    threshold : ndarray of shape (m,)
        The distinct confidences in decreasing order; samples with at least this confidence are accepted.
    coverage : ndarray of shape (m,)
        Fraction of the samples that is accepted; the last one is 1.
    risk : ndarray of shape (m,)
        Error rate among them.
    area : float
        Area under the curve (AURC); see :func:`area_under_risk_coverage`.
    n_samples : float
        Number of samples; with non-integer weights, the effective sample size.
    """

    _columns_in = ("threshold", "coverage", "risk")

    threshold: Array = field(repr=False)
    coverage: Array = field(repr=False)
    risk: Array = field(repr=False)
    area: float
    n_samples: float

    def at(self, threshold: float) -> tuple[float, float]:
        """Return coverage and risk if samples with at least this confidence are accepted.

        Parameters
        ----------
        threshold : float
            Threshold of the confidence.

        Returns
        -------
        coverage, risk : float
            Above the highest confidence the coverage is 0 and the risk NaN.
        """
        threshold = _validation.check_not_negative(threshold, "threshold")
        last = int(np.searchsorted(-self.threshold, -threshold, side="right")) - 1
        return (float(self.coverage[last]), float(self.risk[last])) if last >= 0 else (0.0, float("nan"))

    def __str__(self) -> str:
        return (
            f"AURC = {number_text(self.area)}, risk {number_text(self.risk[-1])} without abstention "
            f"({self.threshold.shape[0]} thresholds, n = {self.n_samples:g})"
        )

    _repr_html_ = text_html


def _curve(sample: _validation.BinarySample) -> RiskCoverageCurve:
    """Return the curve of outcomes 1 (right) and 0 (wrong) that are accepted by descending ``p``."""
    grouped = group_outcomes(sample.y, sample.p, sample.w)
    n = sample.total if sample.w is None else effective_size(sample.w)
    scale, weights = n / grouped.total, grouped.weight[::-1]
    # the risk takes the place of the weights of positives
    coverage, risk = np.empty(weights.shape[0]), grouped.positives[::-1]
    area = accepted = errors = 0.0
    for rows in blocks(weights.shape[0], CHUNK):
        weight, wrong = weights[rows] * scale, (weights[rows] - risk[rows]) * scale
        after, before = accepted + np.cumsum(weight), errors - wrong
        before += np.cumsum(wrong)
        # sum over i = after - weight + 1, ..., after of the expected risk
        # (wrong_before + (i - after + weight) rate) / i of the first i samples; with the harmonic sum as a
        # difference of digamma functions
        excess = wrong / weight
        excess *= weight - after
        excess += before
        harmonic = 1.0 / after
        if (tied := weight != 1.0).any():
            harmonic[tied] = digamma(after[tied] + 1.0) - digamma(after[tied] - weight[tied] + 1.0)
        area += float(excess @ harmonic)
        coverage[rows] = after
        before += wrong
        risk[rows] = before / after
        accepted, errors = float(after[-1]), float(before[-1])
    coverage /= accepted
    return RiskCoverageCurve(
        threshold=grouped.prob[::-1],
        coverage=coverage,
        risk=np.clip(risk, 0.0, 1.0, out=risk),
        area=float(np.clip((errors + area) / n, 0.0, 1.0)),
        n_samples=n,
    )


@shared_docs
def risk_coverage_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "confidence",
    labels: ArrayLike | None = None,
) -> RiskCoverageCurve:
    """Compute the error rate among the samples of highest confidence, for each fraction that is accepted.

    Parameters
    ----------
    y_true, y_proba, sample_weight, pos_label, labels
        As in :func:`area_under_risk_coverage`, for one label per sample.
    reduction : {"confidence", "classwise"}, default="confidence"
        "confidence": the predicted class with its probability, the largest one. "classwise", for binary
        targets: the positive class with its probability; the risk is 1 - precision.

    Returns
    -------
    RiskCoverageCurve
        Coverage and risk at each threshold, and the area under the curve.

    %(raised)s

    See Also
    --------
    area_under_risk_coverage : The area alone.
    sklearn_calib.meta.SelectiveClassifier : Chooses a threshold with a guarantee for the risk.

    Examples
    --------
    >>> from sklearn_calib.metrics import risk_coverage_curve
    >>> curve = risk_coverage_curve([0, 0, 1, 1], [0.1, 0.6, 0.3, 0.8])
    >>> print(curve)
    AURC = 0.2083, risk 0.5000 without abstention (4 thresholds, n = 4)
    >>> for threshold, coverage, risk in zip(curve.threshold, curve.coverage, curve.risk):
    ...     print(f"accept from {threshold:.1f}: coverage {coverage:.2f}, risk {risk:.2f}")
    accept from 0.9: coverage 0.25, risk 0.00
    accept from 0.8: coverage 0.50, risk 0.00
    accept from 0.7: coverage 0.75, risk 0.33
    accept from 0.6: coverage 1.00, risk 0.50
    """
    _validation.check_option(reduction, "reduction", ("confidence", "classwise"))
    problem = check_problem(y_true, y_proba, sample_weight, pos_label, labels, fractions=True)
    binary = isinstance(problem, _validation.BinarySample)
    if isinstance(problem, list) or (reduction == "classwise" and not binary):
        raise ValueError(
            "One curve needs one confidence per sample, but y_proba holds those of several "
            f"{'labels' if isinstance(problem, list) else 'classes'}. "
            "Pass y_true == label with the column of that label and reduction='classwise'."
        )
    if isinstance(problem, _validation.BinarySample) and reduction == "classwise":
        return _curve(problem)
    return _curve(class_samples(problem, "confidence")[0])


@shared_docs
@MetricKernel(_range=(0.0, 1.0))
def area_under_risk_coverage(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "confidence",
    labels: ArrayLike | None = None,
) -> float:
    r"""Compute the area under the risk-coverage curve (AURC).

    The error rate among the accepted samples, averaged over all coverages, if samples are accepted in the
    order of their confidence: how well the confidence separates right from wrong predictions. It depends on
    the order of the confidences only, and is not a measure of calibration.

    Parameters
    ----------
    %(sample)s
    reduction : {"confidence", "classwise", "top-label"}, default="confidence"
        What is right or wrong. "confidence": the predicted class, with its probability as confidence.
        "classwise": the positive class, with its probability, so that the risk is 1 - precision; use it for
        probabilities that an answer is correct. The mean over classes if there are several. "top-label": as
        "confidence", within the samples of each predicted class, the mean weighted by their frequency.
    %(labels)s

    Returns
    -------
    float
        Area in [0, 1]; 0 is best. For a confidence without information it is the error rate.

    %(raised)s

    See Also
    --------
    risk_coverage_curve : The curve.

    Notes
    -----
    With the samples in descending order of confidence and losses :math:`\ell_1, \dots, \ell_n` of 0 and 1
    (risk and coverage of [1]_, their curve and its area in Section 2 of [2]_)

    .. math:: \mathrm{AURC} = \frac1n \sum_{i=1}^n \frac1i \sum_{j \le i} \ell_j .

    Samples with equal confidence have no order: the expected value over random orders within ties is
    computed, exactly, from harmonic sums. Weights are repetitions; non-integer weights are scaled so that
    their sum is the effective sample size :math:`(\sum w)^2 / \sum w^2`. O(n log n).

    References
    ----------
    .. [1] R. El-Yaniv and Y. Wiener (2010). On the foundations of noise-free selective classification.
       Journal of Machine Learning Research 11.
    .. [2] Y. Geifman, G. Uziel and R. El-Yaniv (2019). Bias-reduced uncertainty estimation for deep neural
       classifiers. ICLR. arXiv:1805.08206

    Examples
    --------
    >>> from sklearn_calib.metrics import area_under_risk_coverage
    >>> print(f"{area_under_risk_coverage([0, 0, 1, 1], [0.1, 0.6, 0.3, 0.8]):.4f}")
    0.2083
    """
    return checked_error(
        lambda sample: _curve(sample).area, y_true, y_proba, sample_weight, pos_label, reduction, labels
    )
