"""Kernel calibration error of binary predictions and of vectors of class probabilities."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib import _validation
from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._core._kernel import kernel_form, median_distance
from sklearn_calib._core._weights import whole_numbers
from sklearn_calib._docs import shared_docs
from sklearn_calib._typing import Array
from sklearn_calib.metrics._decomposition import mean_score
from sklearn_calib.metrics._metric_kernel import MetricKernel
from sklearn_calib.metrics._reductions import REDUCTIONS, check_problem, reduced_error


def _squared_error(
    points: Array,
    weight: Array,
    residuals: Array,
    diagonal: float,
    bandwidth: float | str,
    debias: bool,
) -> float:
    """Return the squared error of samples at points in increasing order, with or without ties.

    ``residuals`` are weighted, one column for each class or one for the positive class, and ``diagonal`` is
    the sum over samples of their squared norm.
    """
    width = median_distance(points, weight) if isinstance(bandwidth, str) else float(bandwidth)
    total = float(weight.sum())
    if not debias:
        # in this order it depends on normalized weights only
        return float(kernel_form(points, width)(residuals.T / total).sum())
    all_pairs = float(kernel_form(points, width)(residuals.T).sum())
    return 0.0 if total < 2.0 else (all_pairs - diagonal) / (total * (total - 1.0))


def _of_binary(sample: _validation.BinarySample, bandwidth: float | str, debias: bool) -> float:
    grouped = group_outcomes(sample.y, sample.p, sample.w)
    diagonal = grouped.total * mean_score(grouped.weight, grouped.positives, grouped.prob, "brier")
    if sample.y.dtype.kind == "f":
        # (y - p)^2 is y (1 - p)^2 + (1 - y) p^2 less y (1 - y), which is 0 for outcomes 0 and 1
        diagonal -= float(sample.weights @ (sample.y * (1.0 - sample.y)))
    points, residuals = grouped.prob[:, np.newaxis], grouped.residual[:, np.newaxis]
    # rounding can exceed 1 by an ulp
    return min(_squared_error(points, grouped.weight, residuals, diagonal, bandwidth, debias), 1.0)


def _of_classes(sample: _validation.ClassSample, bandwidth: float | str, debias: bool) -> float:
    sample = sample.ordered()
    residual = -sample.p
    residual[np.arange(sample.y.shape[0]), sample.y] += 1.0
    weighted = sample.weights[:, np.newaxis] * residual
    diagonal = float(np.sum(weighted * residual))
    return _squared_error(sample.p, sample.weights, weighted, diagonal, bandwidth, debias)


@shared_docs
@MetricKernel(calibration_error=True)
def kernel_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    bandwidth: float | Literal["median"] = 1.0,
    debias: bool = True,
    squared: bool = False,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Literal["canonical", "classwise", "confidence", "top-label"] = "canonical",
    labels: ArrayLike | None = None,
) -> float:
    r"""Compute the kernel calibration error (KCE) of predicted probabilities.

    The kernel-weighted mean product of the residuals of pairs of samples: it is large if samples with similar
    predictions have residuals of the same sign. It needs no bins, and for multiclass targets it measures
    canonical calibration, that of the whole vector of probabilities.

    Parameters
    ----------
    %(outcomes)s
    bandwidth : float or "median", default=1.0
        The scale s of the kernel, in units of probability. "median" is the median distance of the
        predictions, as in :class:`~sklearn_calib.inference.KernelTest`; it differs between models, so that
        their errors are not comparable.
    debias : bool, default=True
        Exclude the pairs of a sample with itself. The squared error is then an unbiased estimate, with mean
        0 if predictions are calibrated. This and "median" need weights that are whole numbers.
    squared : bool, default=False
        Return the squared error (SKCE). The debiased squared error can be negative; its root is then 0.
    %(weight)s
    reduction : {"canonical", "classwise", "confidence", "top-label"}, default="canonical"
        How multiclass predictions are evaluated. "canonical": the whole vector of probabilities, by the
        formula below. "classwise": each class against the rest, the mean of the squares over classes;
        "confidence": the largest probability as a forecast that its class is the true one; "top-label": the
        same within the samples of each predicted class, the mean of the squares weighted by their frequency.
    %(labels)s

    Returns
    -------
    float
        Error, 0 is best; at most 1, for multiclass targets at most the root of 2. With ``debias``, 0 for a
        single sample.

    %(raised)s

    See Also
    --------
    sklearn_calib.inference.KernelTest : Test of calibration based on this error.
    smooth_calibration_error : The largest mean product of the residuals with a Lipschitz function.

    Notes
    -----
    With residuals r_i = y_i - p_i and the Laplacian kernel :math:`\kappa(p, q) = e^{-|p - q| / s}`,

    .. math:: \mathrm{SKCE} = \frac{1}{n(n-1)} \sum_{i \ne j} \kappa(p_i, p_j)\, r_i r_j
              \qquad\text{or}\qquad \frac{1}{n^2} \sum_{i, j} \kappa(p_i, p_j)\, r_i r_j ,

    with or without ``debias``. For multiclass targets r_i is the one-hot label minus the vector of
    probabilities, the product is an inner product, and half of the l1 distance replaces :math:`|p - q|`:
    eq. 2 and Table 1 of [1]_, for a kernel times the identity. For two classes written as vectors, the
    squared error would be twice the binary one. With bandwidth 1 and not debiased, it is the kernel
    calibration error that [2]_ shows to be a consistent measure of the distance from calibration.

    Complexity: O(n log n) for binary targets, O(n^2 n_classes) for multiclass targets; memory is bounded.

    %(not_proper)s

    References
    ----------
    .. [1] D. Widmann, F. Lindsten and D. Zachariah (2019). Calibration tests in multi-class classification: A
       unifying framework. NeurIPS. arXiv:1910.11385
    .. [2] J. Blasiok et al. (2023). A Unifying Theory of Distance from Calibration. STOC. arXiv:2211.16886

    Examples
    --------
    >>> from sklearn_calib.metrics import kernel_calibration_error
    >>> y_true = [0, 0, 1, 1]
    >>> print(f"{kernel_calibration_error(y_true, [0.9, 0.9, 0.9, 0.9], debias=False):.3f}")
    0.400
    >>> y_proba = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]]
    >>> print(f"{kernel_calibration_error([0, 1, 2, 1], y_proba, debias=False):.3f}")
    0.286
    """
    _validation.check_option(reduction, "reduction", ("canonical", *REDUCTIONS))
    if isinstance(bandwidth, str):
        _validation.check_option(bandwidth, "bandwidth", ("median",), "a number")
    else:
        _validation.check_positive(bandwidth, "bandwidth")
    debias, squared = _validation.check_flag(debias, "debias"), _validation.check_flag(squared, "squared")
    problem = check_problem(y_true, y_proba, sample_weight, pos_label, labels, fractions=True)
    given = None if sample_weight is None else _validation.check_numbers(sample_weight, "sample_weight")
    if (debias or isinstance(bandwidth, str)) and not whole_numbers(given):
        raise ValueError(
            "sample_weight must contain whole numbers (how often each sample was observed) with debias=True "
            "or bandwidth='median', which count samples. For other weights, also for sampling weights of "
            "intervals, pass debias=False, by functools.partial(kernel_calibration_error, debias=False)."
        )
    if reduction == "canonical" and isinstance(problem, _validation.ClassSample):
        value = _of_classes(problem, bandwidth, debias)
    else:
        value = reduced_error(
            lambda sample: _of_binary(sample, bandwidth, debias),
            problem,
            "classwise" if reduction == "canonical" else reduction,
        )
    return value if squared else math.sqrt(max(value, 0.0))
