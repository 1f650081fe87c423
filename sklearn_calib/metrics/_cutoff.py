"""Cutoff calibration error: the largest residual sum over an interval of predictions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib import _validation
from sklearn_calib._core._bounds import MARGIN_METHODS, cutoff_bound
from sklearn_calib._core._grouping import (
    CHUNK,
    GroupedOutcomes,
    group_outcomes,
    packed_sort,
    weight_words,
)
from sklearn_calib._core._null import bootstrap_counts
from sklearn_calib._core._weights import kish_size
from sklearn_calib._docs import shared_docs
from sklearn_calib._frame import FrameMixin
from sklearn_calib._html import number_text, text_html
from sklearn_calib._typing import Array, Weights
from sklearn_calib.metrics._metric_kernel import Evaluate, MetricKernel, residuals
from sklearn_calib.metrics._reductions import Reduction, checked_error


def walk_ranges(steps: Array) -> Array:
    """Return the range of each walk, including its start at 0; ``steps`` (groups, r) is overwritten."""
    walks = np.cumsum(steps, axis=0, out=steps)
    out: Array = np.maximum(walks.max(axis=0), 0.0) - np.minimum(walks.min(axis=0), 0.0)
    return out


def _make(prob: Array, n_samples: float) -> Evaluate:
    # the supremum of Proposition 4.1 is the range of the walk, over n
    def errors(count: Array, positives: Array) -> Array:
        return np.asarray(walk_ranges(residuals(prob, count, positives)) / count.sum(axis=0))

    return errors


def cutoff_of_groups(grouped: GroupedOutcomes) -> float:
    """Return the cutoff calibration error of grouped outcomes."""
    walk = residual_walk(grouped)
    return float(walk.max() - walk.min()) / grouped.total


def walk_range(y: NDArray[np.int64], p: Array) -> float:
    """Return max - min of the unweighted walk, start included; one sort, then parts that stay in cache."""
    key = packed_sort(y, p)
    high = low = carry = 0.0
    for start in range(0, key.shape[0], CHUNK):
        # with the first sample of the next part
        part = key[start : start + CHUNK + 1]
        prob = part >> 1
        walk = np.cumsum(((part & 1) - prob.view(np.float64))[:CHUNK])
        walk += carry
        carry = float(walk[-1])
        # the walk is only defined after the last sample of each tie
        seen = walk[np.append(prob[1:] != prob[:-1], True)[:CHUNK]]
        high, low = float(seen.max(initial=high)), float(seen.min(initial=low))
    return high - low


def residual_walk(grouped: GroupedOutcomes) -> Array:
    """Return the walk of m + 1 values: 0, then the residual sum up to and including each group."""
    walk = np.zeros(grouped.prob.shape[0] + 1)
    np.cumsum(grouped.residual, out=walk[1:])
    return walk


def walk_extremes(walk: Array) -> tuple[int, int, float]:
    """Return the first and last group of the interval whose residual sum is the range of the walk, and it.

    The sum is positive where events are more frequent than predicted. If the range is 0, the interval is the
    first group.
    """
    high, low = int(walk.argmax()), int(walk.argmin())
    if high == low:
        return 0, 0, 0.0
    first, last = min(high, low), max(high, low)
    return first, last - 1, float(walk[last] - walk[first])


@shared_docs
@dataclass(frozen=True, eq=False)
class CutoffResult(FrameMixin):
    """Cutoff calibration error, the interval that attains it, and the cumulative residuals.

    Attributes
    ----------
    value : float
        The cutoff calibration error, in [0, 1].
    lower, upper : float
        Ends, both included, of the interval of predictions that attains it.
    signed : float
        Mean residual over that interval times its fraction of the sample: ``value`` with a sign, positive
        if events are more frequent than predicted.
    n_samples : float
        Number of samples; for frequencies their sum.
    base_rate : float
        Event frequency.
    probabilities : ndarray of shape (m,)
        Distinct predictions in increasing order.
    walk : ndarray of shape (m,)
        Cumulative residuals: the residual sum over all predictions up to and including each of
        ``probabilities``, divided by the total weight.
    weight, positives : ndarrays of shape (m,)
        Weight, and weight of positive samples, at each of ``probabilities``.
    weights : {"sampling", "frequency"} or None
        What the weights were taken to mean; None if there are none, or all sampling weights are equal.
    n_effective : float or None
        Effective number of samples, (sum w)^2 / sum w^2, for sampling weights.
    """

    _columns_in = ("probabilities", "walk", "weight", "positives")

    value: float
    lower: float
    upper: float
    signed: float
    n_samples: float
    base_rate: float
    probabilities: Array = field(repr=False)
    walk: Array = field(repr=False)
    weight: Array = field(repr=False)
    positives: Array = field(repr=False)
    weights: str | None = None
    n_effective: float | None = None

    def margin(
        self,
        confidence: float = 0.95,
        method: Literal["asymptotic", "dkw", "paper", "bootstrap"] = "asymptotic",
        *,
        n_resamples: int = 999,
        random_state: int | np.random.Generator | np.random.RandomState | None = 0,
    ) -> float:
        """Bound the distance between ``value`` and the cutoff calibration error of the population.

        Parameters
        ----------
        confidence : float, default=0.95
            Probability with which the bound holds, for independent samples and a predictor fitted on other
            data.
        method : {"asymptotic", "dkw", "paper", "bootstrap"}, default="asymptotic"
            "asymptotic": limiting distribution of the largest deviation over all monotone maps of the
            predictions; "dkw": its finite-sample version; "paper": (20 + sqrt(2 log(1 / (1 - confidence)))) /
            sqrt(n), Proposition 4.1 of Rossellini et al. (2025);
            "bootstrap", the tightest: bootstrap distribution of the deviation for these predictions alone,
            the range of the centered cumulative residuals.
        n_resamples : int, default=999
            Bootstrap samples; at least 1 / (1 - ``confidence``) - 1.
        %(random_state)s

        Returns
        -------
        float
            The margin; ``value + margin`` is an upper bound on the true error.

        Raises
        ------
        ValueError
            If a parameter is out of range, or if the weights are sampling weights and the method is not
            "asymptotic".
        TypeError
            If a parameter is of the wrong type.

        Notes
        -----
        "dkw" and "paper" hold for every sample size; "asymptotic" and "bootstrap" hold asymptotically, and
        the bootstrap needs a sample with some events. Each bootstrap sample costs O(n). With sampling weights
        n is the effective number of samples.
        """
        _validation.check_fraction(confidence, "confidence")
        _validation.check_option(method, "method", MARGIN_METHODS)
        _validation.check_size(n_resamples, "n_resamples")
        _validation.check_randomness(random_state)
        if self.weights == "sampling" and method != "asymptotic":
            raise ValueError(
                f"method={method!r} cannot be used with sampling weights. Use method='asymptotic', or pass "
                "weights='frequency' to cutoff_result if a sample_weight of k stands for k samples."
            )
        if method == "bootstrap":
            generator = _validation.check_generator(random_state)
            n_resamples = _validation.check_resamples(n_resamples, confidence)
            grouped = GroupedOutcomes(self.probabilities, self.weight, self.positives)
            return bootstrap_margin(grouped, confidence, n_resamples, generator)
        return cutoff_bound(self.n_effective or self.n_samples, confidence, method, base_rate=self.base_rate)

    def ece_bound(self, confidence: float = 0.95) -> float:
        r"""Bound the calibration error over the distinct predictions (ECE) in the population from above.

        Parameters
        ----------
        confidence : float, default=0.95
            Probability with which the bound holds, for independent samples and a predictor fitted on other
            data.

        Returns
        -------
        float
            The bound, at most 1.

        Raises
        ------
        ValueError
            If ``confidence`` is out of range, or if the weights are sampling weights.
        TypeError
            If ``confidence`` is of the wrong type.

        See Also
        --------
        effective_support : The number of distinct predictions that matter.

        Notes
        -----
        It holds for every sample size, distribution and predictor, but is small only if distinct predictions
        have many samples each: the calibration error of others cannot be tested (Theorem 4.1 of Rossellini
        et al. 2025). With r = y - p, :math:`L = \log(2 / (1 - \text{confidence}))` and signs s of the
        distinct predictions it is the largest empirical Bernstein bound

        .. math:: \bar{sr} + \sqrt{2 L V(sr) / n} + 14 L / (3 (n - 1)),

        with mean and sample variance of s r; the first term is at most the error in the sample.
        docs/certificates.md has the proof.
        """
        _validation.check_fraction(confidence, "confidence")
        n = self.n_samples
        if self.weights == "sampling":
            raise ValueError(
                "ece_bound cannot be used with sampling weights. Pass weights='frequency' to cutoff_result "
                "if a sample_weight of k stands for k samples."
            )
        if n < 2:
            return 1.0
        p, events, others = self.probabilities, self.positives, self.weight - self.positives
        error = float(np.abs(events - self.weight * p).sum()) / n
        # of outcomes between 0 and 1, an upper bound
        square = float(events @ (1.0 - p) ** 2 + others @ p**2) / n
        unit = math.log(2.0 / (1.0 - confidence)) / (n - 1.0)
        # the mean of s r that has the largest bound
        mean = min(error, math.sqrt(square / (1.0 + 2.0 * unit)))
        return min(1.0, mean + math.sqrt(2.0 * unit * (square - mean**2)) + 14.0 / 3.0 * unit)

    def effective_support(self, fraction: float = 0.95) -> int:
        """Return the smallest number of distinct predictions that hold a fraction of the samples.

        Parameters
        ----------
        fraction : float, default=0.95
            The fraction, 1 - gamma in Section 4.2 of Rossellini et al. (2025), strictly between 0 and 1.

        Returns
        -------
        int
            The number.

        Raises
        ------
        ValueError
            If ``fraction`` is out of range.
        TypeError
            If ``fraction`` is of the wrong type.
        """
        _validation.check_fraction(fraction, "fraction")
        held = np.cumsum(np.sort(self.weight)[::-1])
        # up to rounding of the sums
        return int(np.searchsorted(held, (1.0 - 1e-12) * fraction * held[-1])) + 1

    def _where(self) -> str:
        """Return the interval that attains the error, in words."""
        if self.value == 0:
            return "no residual sum differs from 0"
        verb = "too low" if self.signed > 0 else "too high"
        return f"predictions in [{self.lower:.3g}, {self.upper:.3g}] are {verb}"

    def __str__(self) -> str:
        value = number_text(self.value)
        weights = f"; {weight_words(self)}" if self.weights else ""
        return f"cutoff calibration error = {value}: {self._where()} (n = {self.n_samples:g}{weights})"

    _repr_html_ = text_html


def _cutoff_error(sample: _validation.BinarySample) -> float:
    if sample.w is None:
        # one pass, without groups
        return walk_range(sample.y, sample.p) / sample.total
    return cutoff_of_groups(group_outcomes(sample.y, sample.p, sample.w))


def bootstrap_margin(
    grouped: GroupedOutcomes, confidence: float, n_resamples: int, generator: np.random.Generator
) -> float:
    """Return the bootstrap quantile of the deviation of the cutoff calibration error, for integer weights.

    1 / n is added for intervals of the population that end between two predictions of the sample.
    O(n_resamples * n).
    """
    deviations = []
    for drawn, events in bootstrap_counts(grouped, n_resamples, generator):
        events -= grouped.positives[:, np.newaxis]
        drawn -= grouped.weight[:, np.newaxis]
        drawn *= grouped.prob[:, np.newaxis]
        events -= drawn
        deviations.append(walk_ranges(events))
    values = np.concatenate(deviations) / grouped.total
    # the j-th of N ordered values is not exceeded with probability j / (N + 1)
    return float(np.quantile(values, confidence, method="weibull")) + 1.0 / grouped.total


@shared_docs
@MetricKernel(_make, calibration_error=True)
def cutoff_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    r"""Compute the cutoff calibration error of predicted probabilities.

    The largest absolute sum of residuals over an interval of predictions, divided by the sample size. It
    has no parameter, can be estimated at rate n**(-1/2), and bounds the benefit of recalibration: at every
    decision threshold, no non-decreasing recalibration lowers the risk by more than this error.

    Parameters
    ----------
    %(sample)s
    %(reduction)s

    %(error)s

    See Also
    --------
    cutoff_result : The same error with the interval that attains it and confidence margins.
    decision_risk_gap : The risk gap that this error bounds.

    Notes
    -----
    The plug-in estimate of Definition 2.1 of [1]_, with total weight n and residuals r_i = y_i - p_i,

    .. math:: \max_I \Bigl|\frac1n \sum_i w_i\, r_i\, 1\{p_i \in I\}\Bigr|

    over all intervals I. Proposition 4.1 of [1]_ defines it for equal weights and bounds its distance from
    the error of the population; :meth:`CutoffResult.margin` has that bound and sharper ones. It is the range,
    start included, of the cumulative residual sum over the sorted distinct predictions, divided by n: the
    ECCE-R of [2]_ and the numerator of Kuiper's statistic. One sort, O(n log n).

    %(not_proper)s

    References
    ----------
    .. [1] R. Rossellini, J. A. Soloff, R. F. Barber, Z. Ren and R. Willett (2025). Can a calibration metric
       be both testable and actionable? COLT. arXiv:2502.19851
    .. [2] I. Arrieta-Ibarra, P. Gujral, J. Tannen, M. Tygert and C. Xu (2022). Metrics of Calibration for
       Probabilistic Predictions. JMLR. arXiv:2205.09680

    Examples
    --------
    >>> from sklearn_calib.metrics import cutoff_calibration_error
    >>> print(f"{cutoff_calibration_error([0, 1, 0, 1], [0.2, 0.4, 0.9, 0.9]):.2f}")
    0.20
    """
    return checked_error(_cutoff_error, y_true, y_proba, sample_weight, pos_label, reduction, labels)


@shared_docs
def cutoff_result(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    weights: Weights = "sampling",
    pos_label: Any = None,
    labels: ArrayLike | None = None,
) -> CutoffResult:
    """Compute the cutoff calibration error with the attaining interval, cumulative residuals and margins.

    Parameters
    ----------
    y_true, y_proba
        As in :func:`cutoff_calibration_error`, for binary targets.
    %(inference_weight)s
    %(pos_label_or_labels)s

    Returns
    -------
    CutoffResult
        Value, attaining interval and cumulative residuals. Its method ``margin`` gives confidence margins.

    %(raised)s

    Examples
    --------
    >>> from sklearn_calib.metrics import cutoff_result
    >>> print(cutoff_result([0, 0, 1, 1], [0.2, 0.8, 0.8, 0.9]))
    cutoff calibration error = 0.2000: predictions in [0.2, 0.8] are too high (n = 4)
    """
    sample = _validation.check_binary(
        y_true, y_proba, sample_weight, pos_label, fractions=True, labels=labels
    )
    n, w = float(sample.y.shape[0]), sample.w
    meaning: str | None = None
    effective: float | None = None
    _validation.check_option(weights, "weights", ("sampling", "frequency"))
    if w is not None and weights == "frequency":
        n, meaning = float(_validation.check_frequency_weights(w).sum()), weights
    elif w is not None and w.min() < w.max():
        effective, meaning = kish_size(w), weights
    grouped = group_outcomes(sample.y, sample.p, w if meaning else None)
    total = grouped.total
    walk = residual_walk(grouped)
    first, last, signed = walk_extremes(walk)
    return CutoffResult(
        value=abs(signed) / total,
        lower=float(grouped.prob[first]),
        upper=float(grouped.prob[last]),
        signed=signed / total,
        n_samples=n,
        base_rate=float(grouped.positives.sum() / total),
        probabilities=grouped.prob,
        walk=walk[1:] / total,
        weight=grouped.weight,
        positives=grouped.positives,
        weights=meaning,
        n_effective=effective,
    )
