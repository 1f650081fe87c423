"""Binned expected calibration error."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib import _validation
from sklearn_calib._core._binning import (
    bin_starts,
    fixed_bins,
    quantile_bins,
    uniform_residuals,
    uniform_sums,
)
from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes, group_starts
from sklearn_calib._core._simplex_bins import alcoves
from sklearn_calib._core._weights import whole_numbers
from sklearn_calib._docs import shared_docs
from sklearn_calib._typing import Array
from sklearn_calib.metrics._metric_kernel import Evaluate, MetricKernel, residuals
from sklearn_calib.metrics._reductions import REDUCTIONS, check_problem, reduced_error


def _check_repetitions(w: Array | None) -> None:
    if not whole_numbers(w):
        raise ValueError(
            "sample_weight must hold whole numbers (frequencies) when debias=True: the correction needs the "
            "number of samples in each bin."
        )


# Predictions are pooled within this width, inside the bins.
_POOLED_WIDTH = 2.0**-13


def _errors(weight: Array, positives: Array, residual: Array, norm: str, debias: bool) -> Array:
    """Return the error, for "l2" its square, of each column of bin sums, of shape (bins, r) or (bins, 1)."""
    gap = np.divide(residual, weight, out=np.zeros_like(residual), where=weight > 0)
    if norm == "max":
        return np.asarray(np.abs(gap).max(axis=0))
    fraction = weight / weight.sum(axis=0)
    if norm == "l1":
        return np.asarray((fraction * np.abs(gap)).sum(axis=0))
    squared = gap**2
    if debias:
        # unbiased estimate of the variance of the event frequency
        many = weight > 1
        frequency = np.divide(positives, weight, out=np.zeros_like(positives), where=many)
        variance = np.divide(
            frequency * (1 - frequency), weight - 1, out=np.zeros_like(positives), where=many
        )
        squared = np.where(many, squared - variance, 0.0)
    return np.asarray((fraction * squared).sum(axis=0))


def _make(
    prob: Array,
    n_samples: float,
    n_bins: Any = 15,
    strategy: str = "uniform",
    norm: str = "l1",
    debias: bool = False,
) -> Evaluate:
    bins = _validation.check_number_or_edges(n_bins)
    fixed = fixed_bins(prob, bins)[:, np.newaxis]

    def errors(count: Array, positives: Array) -> Array:
        positives = positives.astype(np.float64, copy=False)
        residual, index = residuals(prob, count, positives), fixed
        if strategy == "quantile" and isinstance(bins, int):
            # bins of equal weight differ between samples whose counts differ
            index = quantile_bins(count, bins)
        terms = (count, positives, residual)
        if index.shape[1] == 1:
            starts = group_starts(index[:, 0])
            weight, event, gap = (np.add.reduceat(term, starts, axis=0) for term in terms)
        else:
            r = positives.shape[1]
            place = (index * r + np.arange(r)).ravel()
            weight, event, gap = (
                np.bincount(place, term.ravel(), n_bins * r).astype(np.float64).reshape(-1, r)
                for term in terms
            )
        values = _errors(weight, event, gap, norm, debias)
        return np.sqrt(np.maximum(values, 0.0)) if norm == "l2" else values

    return errors


def _pooling_bins(
    grouped: GroupedOutcomes,
    n_bins: Any = 15,
    strategy: str = "uniform",
    norm: str = "l1",
    debias: bool = False,
) -> NDArray[np.int64] | None:
    bins = _validation.check_number_or_edges(n_bins)
    if (strategy != "uniform" and isinstance(bins, int)) or norm == "max":
        return None
    # both terms are non-decreasing in the prediction, so their sum numbers the intersections
    return np.floor(grouped.prob / _POOLED_WIDTH).astype(np.int64) + fixed_bins(grouped.prob, bins)


def binned_error(
    sample: _validation.BinarySample, bins: int | Array, strategy: str, norm: str = "l1", debias: bool = False
) -> float:
    """Return the error of a binary sample; for "l2" its square."""
    if debias:
        _check_repetitions(sample.w)
        if sample.y.dtype.kind == "f":
            raise ValueError(
                "y_true has outcomes between 0 and 1, but debias=True subtracts the variance of outcomes 0 "
                "and 1. Omit it, or use kernel_calibration_error, which is debiased for all outcomes."
            )
    if strategy == "quantile" or not isinstance(bins, int):
        grouped = group_outcomes(sample.y, sample.p, sample.w)
        starts = bin_starts(grouped, bins, strategy)
        terms = (grouped.weight, grouped.positives, grouped.residual)
        weight, positives, residual = (np.add.reduceat(term, starts) for term in terms)
    elif norm == "l1":
        # the weight of a bin cancels: one sum for each bin
        return float(np.abs(uniform_residuals(sample.y, sample.p, sample.w, bins)).sum() / sample.total)
    else:
        # one pass, without grouping
        weight, positives, residual = uniform_sums(sample.y, sample.p, sample.w, bins)
    sums = weight[:, np.newaxis], positives[:, np.newaxis], residual[:, np.newaxis]
    return float(_errors(*sums, norm, debias)[0])


def _canonical_error(sample: _validation.ClassSample, n_bins: int, norm: str, debias: bool) -> float:
    """Return the error over bins of the simplex; a gap is a vector with half its l1 or squared l2 norm."""
    if debias:
        _check_repetitions(sample.w)
    sample = sample.ordered()
    p, y, w = sample.p, sample.y, sample.weights
    bins, index = np.unique(alcoves(p, float(n_bins)), return_inverse=True)
    shape = (bins.shape[0], p.shape[1])
    events = np.bincount(index * shape[1] + y, weights=w, minlength=shape[0] * shape[1]).reshape(shape)
    predicted = np.column_stack([np.bincount(index, weights=w * column) for column in p.T])
    weight = np.bincount(index, weights=w)[:, np.newaxis]
    gap = (events - predicted) / weight
    fraction = weight[:, 0] / weight.sum()
    if norm != "l2":
        length = 0.5 * np.abs(gap).sum(axis=1)
        # rounding can exceed 1 by an ulp
        return min(float(length.max() if norm == "max" else fraction @ length), 1.0)
    squared = 0.5 * np.square(gap).sum(axis=1)
    if debias:
        many = weight[:, 0] > 1
        frequency = events[many] / weight[many]
        squared[many] -= 0.5 * np.sum(frequency * (1 - frequency) / (weight[many] - 1), axis=1)
        squared[~many] = 0.0
    return min(math.sqrt(max(float(fraction @ squared), 0.0)), 1.0)


@shared_docs
@MetricKernel(_make, calibration_error=True, _bins=_pooling_bins)
def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int | ArrayLike = 15,
    strategy: Literal["uniform", "quantile"] = "uniform",
    norm: Literal["l1", "l2", "max"] = "l1",
    debias: bool = False,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Literal["classwise", "confidence", "top-label", "canonical"] = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    r"""Compute the binned expected calibration error (ECE) of predicted probabilities.

    The average absolute difference (gap) between event frequency and mean prediction over bins of the
    prediction. It depends on the bins and jumps when a prediction crosses a bin edge. Prefer
    :func:`smooth_ece` or :func:`cutoff_calibration_error`, unless you compare with published values.

    Parameters
    ----------
    %(outcomes)s
    n_bins : int or array-like of edges, default=15
        Number of bins, or their edges, which increase from 0 to 1. Empty bins are ignored.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width or of equal weight; not used with edges. Tied predictions are always in the same
        bin, so that with ties quantile bins differ in weight. A bin is [a, b) and the last one is closed, as
        in :func:`numpy.histogram`; :func:`sklearn.calibration.calibration_curve` places a prediction on an
        edge in the lower bin.
    norm : {"l1", "l2", "max"}, default="l1"
        Mean gap, root mean squared gap, or largest gap.
    debias : bool, default=False
        Subtract from each squared gap the sampling variance of the event frequency. Only for ``norm="l2"``
        and weights that are whole numbers.
    %(weight)s
    reduction : {"classwise", "confidence", "top-label", "canonical"}, default="classwise"
        How multiclass predictions are evaluated. "classwise": each class against the rest, the mean over
        classes (for "l2" the root mean square); "confidence": the largest probability as a forecast that its
        class is the true one; "top-label": the same within the samples of each predicted class, the mean
        (for "l2" of the squares) weighted by their frequency. The latter two also apply to binary
        predictions. "canonical": the whole vector of probabilities, with bins of the simplex (see Notes);
        only for bins of equal width. Binary and multilabel predictions are then evaluated as for
        "classwise".
    %(labels)s

    %(error)s

    See Also
    --------
    smooth_ece : Calibration error without bins.

    Notes
    -----
    With n_b the weight, :math:`\bar y_b` the event frequency and :math:`\bar p_b` the mean prediction of
    bin b,

    .. math:: \mathrm{ECE}_{1} = \sum_b \frac{n_b}{n} |\bar y_b - \bar p_b|, \quad
              \mathrm{ECE}_{2}^2 = \sum_b \frac{n_b}{n} (\bar y_b - \bar p_b)^2, \quad
              \mathrm{ECE}_{\max} = \max_b |\bar y_b - \bar p_b| .

    The debiased version [2]_ replaces each squared gap by :math:`(\bar y_b - \bar p_b)^2 - \bar y_b (1 -
    \bar y_b)/(n_b - 1)`, omits bins with a single sample, and returns the root of the sum, or 0 if the
    sum is negative. Complexity O(n) for uniform bins, O(n log n) for quantile bins.

    For K classes, with :math:`\mathrm{ECE}_{2, k}` the error of class k against the rest, "classwise" is the
    marginal calibration error of [2]_ (Section 2) with equal weights,

    .. math:: \mathrm{ECE}_2^2 = \frac1K \sum_k \mathrm{ECE}_{2, k}^2 .

    For "top-label" the sum is over the predicted classes weighted by their frequency, for multilabel data
    over the labels. Debiased squares are summed with their sign, so that the sum is unbiased before it is
    truncated at 0. The l1 and the maximum norm are averaged over classes.

    "canonical" partitions the simplex of K probabilities into ``n_bins ** (K - 1)`` simplices of equal
    volume, the scheme of [3]_; only those that contain samples are stored. Gaps are then vectors, measured
    by half their l1 norm, or for "l2" by the Euclidean norm divided by the root of 2; for two classes both
    equal the binary gap. With many classes almost every bin contains a single sample unless ``n_bins`` is
    small: consider :func:`kernel_calibration_error`.

    %(not_proper)s

    References
    ----------
    .. [1] M. P. Naeini et al. (2015). Obtaining Well Calibrated Probabilities Using Bayesian Binning. AAAI.
    .. [2] A. Kumar, P. Liang and T. Ma (2019). Verified Uncertainty Calibration. NeurIPS. arXiv:1909.10155
    .. [3] D. Lee, X. Huang, H. Hassani and E. Dobriban (2023). T-Cal: An Optimal Test for the Calibration of
       Predictive Models. JMLR. arXiv:2203.01850. Appendix 8.2.3.

    Examples
    --------
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> y_true, y_proba = [0, 0, 1, 1], [0.2, 0.2, 0.7, 0.7]
    >>> print(f"{expected_calibration_error(y_true, y_proba):.2f}")
    0.25
    >>> print(f"{expected_calibration_error(y_true, y_proba, norm='max'):.2f}")
    0.30
    """
    bins = _validation.check_number_or_edges(n_bins)
    _validation.check_option(strategy, "strategy", ("uniform", "quantile"))
    _validation.check_option(norm, "norm", ("l1", "l2", "max"))
    debias = _validation.check_flag(debias, "debias")
    if debias and norm != "l2":
        raise ValueError(f"debias=True is only defined for norm='l2', got norm={norm!r}.")
    _validation.check_option(reduction, "reduction", (*REDUCTIONS, "canonical"))
    if reduction == "canonical" and (strategy != "uniform" or not isinstance(bins, int)):
        given = f"strategy={strategy!r}" if isinstance(bins, int) else "n_bins as edges"
        raise ValueError(
            f"{given} is not defined for reduction='canonical', whose bins of the simplex have equal volume. "
            "Use strategy='uniform' and a number of bins."
        )
    problem = check_problem(y_true, y_proba, sample_weight, pos_label, labels, fractions=True)
    if reduction == "canonical" and isinstance(problem, _validation.ClassSample):
        assert isinstance(bins, int)
        return _canonical_error(problem, bins, norm, debias)

    def error(sample: _validation.BinarySample) -> float:
        return binned_error(sample, bins, strategy, norm, debias)

    value = reduced_error(error, problem, "classwise" if reduction == "canonical" else reduction)
    return math.sqrt(max(value, 0.0)) if norm == "l2" else value
