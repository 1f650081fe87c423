"""Cutoff calibration error: the largest residual sum over an interval of predictions."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._core._bounds import MARGIN_METHODS, cutoff_bound, effective_size
from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib._core._walk import residual_walk, walk_extremes, walk_range
from sklearn_calib._core._walk_bootstrap import bootstrap_margin
from sklearn_calib._html import result_html
from sklearn_calib._validation import (
    BinarySample,
    Outcomes,
    check_binary,
    check_fraction,
    check_generator,
    check_option,
    check_randomness,
    check_resamples,
    check_size,
)
from sklearn_calib.metrics._reductions import Reduction, reduced_error

__all__ = ["CutoffResult", "cutoff_calibration_error", "cutoff_result"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CutoffResult:
    """Cutoff calibration error, the interval that attains it, and the walk behind it.

    Attributes
    ----------
    value : float
        The cutoff calibration error, in [0, 1].
    lower, upper : float
        Ends, both included, of the interval of predictions that attains it.
    signed : float
        Mean residual over that interval times its share of the sample: ``value`` with a sign, positive
        where events are more frequent than predicted.
    n_samples : float
        Total weight (for weights that are not whole numbers, the effective sample size).
    base_rate : float
        Event frequency.
    probabilities : ndarray of shape (m,)
        Distinct predictions in increasing order.
    walk : ndarray of shape (m,)
        Residual sum over all predictions up to and including each of ``probabilities``, divided by the
        total weight.
    weight, positives : ndarrays of shape (m,)
        Weight, and weight of positive rows, of each of ``probabilities``.
    """

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

    def margin(
        self,
        confidence: float = 0.95,
        method: Literal["asymptotic", "dkw", "paper", "bootstrap"] = "asymptotic",
        *,
        n_resamples: int = 999,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> float:
        """Bound the distance between ``value`` and the cutoff calibration error of the population.

        Parameters
        ----------
        confidence : float, default=0.95
            Probability with which the bound holds, for independent rows and a predictor fitted on other data.
        method : {"asymptotic", "dkw", "paper", "bootstrap"}, default="asymptotic"
            Limit law of a deviation that holds for all monotone maps of the predictions at once, its
            finite-sample version, the bound of Proposition 4.1 of the paper, or the tightest: the law of the
            deviation for these predictions alone, the range of the centred residual walk, by bootstrap.
        n_resamples : int, default=999
            Bootstrap samples; at least 1 / (1 - ``confidence``) - 1.
        random_state : int, Generator, RandomState or None, default=None
            Source of the bootstrap samples; an integer makes the margin reproducible.

        Returns
        -------
        float
            The margin; ``value + margin`` is an upper bound on the true error.

        Raises
        ------
        ValueError
            If a parameter is out of range, or the bootstrap is asked for and the weights are not whole
            numbers, so that rows cannot be drawn.
        TypeError
            If a parameter is of the wrong type.

        Notes
        -----
        "dkw" and "paper" hold for every sample size; "asymptotic" and "bootstrap" in the limit, and the last
        needs some events among the rows. The bootstrap costs O(n) for each sample.
        """
        check_fraction(confidence, "confidence")
        check_option(method, "method", MARGIN_METHODS)
        check_size(n_resamples, "n_resamples")
        check_randomness(random_state)
        if method == "bootstrap":
            generator = check_generator(random_state)
            n_resamples = check_resamples(n_resamples, confidence)
            if not np.array_equal(self.weight, np.rint(self.weight)):
                raise ValueError(
                    "sample_weight had weights that are not whole numbers, but the bootstrap draws rows. "
                    "Pass row counts as weights, or choose another method."
                )
            grouped = GroupedOutcomes(self.probabilities, self.weight, self.positives)
            return bootstrap_margin(grouped, confidence, n_resamples, generator)
        return cutoff_bound(self.n_samples, confidence, method, base_rate=self.base_rate)

    def _where(self) -> str:
        """Return the interval that attains the error, in words."""
        if self.value == 0:
            return "no interval of predictions is off"
        verb = "too low" if self.signed > 0 else "too high"
        return f"predictions in [{self.lower:.3g}, {self.upper:.3g}] are {verb}"

    def __str__(self) -> str:
        return f"cutoff calibration error = {self.value:.4f}: {self._where()} (n = {self.n_samples:g})"

    def _repr_html_(self) -> str:
        return result_html(
            "cutoff calibration error",
            [("value", f"{self.value:.4f}"), ("where", self._where()), ("n", f"{self.n_samples:g}")],
        )


def _cutoff_error(sample: BinarySample) -> float:
    if sample.w is None:
        return walk_range(sample.y, sample.p) / sample.total
    grouped = group_outcomes(sample.y, sample.p, sample.w)
    return float(np.ptp(residual_walk(grouped)) / grouped.total)


def cutoff_calibration_error(
    y_true: Outcomes,
    y_proba: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    r"""Compute the cutoff calibration error of predicted probabilities.

    The largest absolute sum of residuals over an interval of predictions, divided by the sample size. It
    has no parameter, can be estimated at rate n**(-1/2) from any sample, and bounds what can be gained by
    re-thresholding: at every decision threshold, no monotone recalibration lowers the risk by more than
    this error.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, n_labels), or CalibrationSketch
        Labels of two or more classes; or one column of zeros and ones for each of several labels, over which
        the error is averaged.
    y_proba : array-like of shape (n,), (n, 1), (n, n_classes) or (n, n_labels), default=None
        Predicted probabilities in [0, 1]: of the positive class (of two columns the last is used), of three
        or more classes in sorted order, or of each label. Left out with a sketch.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights; weight k counts as k repetitions of the row.
    pos_label : label, default=None
        The positive class. By default 1 for labels in {0, 1} or {-1, 1}, else the greater of the two labels.
    reduction : {"classwise", "confidence", "top-label"}, default="classwise"
        How three or more classes are judged. "classwise": each against the rest, the mean over classes;
        "confidence": the largest probability as a forecast that its class is the right one; "top-label": the
        same within the rows of each predicted class, the mean weighted by their frequency. The latter two
        also apply to two classes.
    labels : array-like of shape (n_classes,), default=None
        Labels of three or more columns, which stand in sorted order. Needed where a label is missing in
        ``y_true``, unless labels are 0, ..., n_classes - 1.

    Returns
    -------
    float
        Error in [0, 1]; 0 is best.

    Raises
    ------
    ValueError
        If an argument is malformed; the message names it.

    See Also
    --------
    cutoff_result : The same with the interval that attains it and confidence margins.
    decision_risk_gap : The risk gap that this error bounds.

    Notes
    -----
    Plug-in version (Proposition 4.1 of [1]_) of Definition 2.1 with total weight n and residuals r_i = y_i
    - p_i,

    .. math:: \max_I \Bigl|\frac1n \sum_i w_i\, r_i\, 1\{p_i \in I\}\Bigr|

    over all intervals I. It is the range, start included, of the cumulative residual sum over the sorted
    distinct predictions, divided by n: the ECCE-R of [2]_ and the numerator of Kuiper's statistic. One
    sort, O(n log n).

    Like every calibration error it is not a proper score: a constant prediction of the event frequency has
    none.

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
    return reduced_error(_cutoff_error, y_true, y_proba, sample_weight, pos_label, reduction, labels)


def cutoff_result(
    y_true: Outcomes,
    y_proba: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> CutoffResult:
    """Compute the cutoff calibration error with the interval that attains it, the walk, and margins.

    Parameters
    ----------
    y_true, y_proba, sample_weight, pos_label
        As in :func:`cutoff_calibration_error`, of two classes.

    Returns
    -------
    CutoffResult
        Value, attaining interval, walk; its method ``margin`` gives confidence margins.

    Raises
    ------
    ValueError
        If an argument is malformed; the message names it.

    Examples
    --------
    >>> from sklearn_calib.metrics import cutoff_result
    >>> print(cutoff_result([0, 0, 1, 1], [0.2, 0.8, 0.8, 0.9]))
    cutoff calibration error = 0.2000: predictions in [0.2, 0.8] are too high (n = 4)
    """
    sample = check_binary(y_true, y_proba, sample_weight, pos_label)
    grouped = group_outcomes(sample.y, sample.p, sample.w)
    total = grouped.total
    walk = residual_walk(grouped)
    extremes = walk_extremes(walk)
    return CutoffResult(
        value=abs(extremes.signed) / total,
        lower=float(grouped.prob[extremes.first]),
        upper=float(grouped.prob[extremes.last]),
        signed=extremes.signed / total,
        n_samples=total if sample.w is None else effective_size(sample.w),
        base_rate=float(grouped.positives.sum() / total),
        probabilities=grouped.prob,
        walk=walk[1:] / total,
        weight=grouped.weight,
        positives=grouped.positives,
    )
