"""Kernel calibration error of binary predictions and of vectors of class probabilities."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._core._kernel import kernel_form, kernel_matrix, median_distance
from sklearn_calib._docs import shared_docs
from sklearn_calib._typing import Array
from sklearn_calib._validation import (
    BinarySample,
    ClassSample,
    check_flag,
    check_frequency_weights,
    check_option,
    check_positive,
)
from sklearn_calib.metrics._metric_kernel import MetricKernel
from sklearn_calib.metrics._reductions import REDUCTIONS, check_problem, reduced_error

# Rows of the kernel matrix that are held in memory at a time.
_CHUNK = 512


class _Kernel:
    """The options of the error, applied to a form of the kernel."""

    def __init__(self, bandwidth: float | str, debias: bool) -> None:
        self.bandwidth, self.debias = bandwidth, debias

    def width(self, points: Array, weight: Array) -> float:
        """Return the bandwidth for points in increasing order, with or without ties."""
        if isinstance(self.bandwidth, str):
            return median_distance(points, weight)
        return float(self.bandwidth)

    def check(self, weight: Array | None) -> None:
        """Raise ValueError if the error needs the number of samples and weights are not whole numbers."""
        if weight is not None and (self.debias or isinstance(self.bandwidth, str)):
            check_frequency_weights(weight)

    def unit(self, total: float) -> float:
        """Return the divisor of the weights: the biased error depends on normalized weights only."""
        return 1.0 if self.debias else total

    def finish(self, all_pairs: float, diagonal: float, total: float) -> float:
        """Return the squared error from the sums over all pairs of samples and over the diagonal."""
        if not self.debias:
            return all_pairs
        return 0.0 if total < 2.0 else (all_pairs - diagonal) / (total * (total - 1.0))

    def binary(self, sample: BinarySample) -> float:
        self.check(sample.w)
        grouped = group_outcomes(sample.y, sample.p, sample.w)
        points, total = grouped.prob[:, np.newaxis], grouped.total
        form = kernel_form(points, self.width(points, grouped.weight))
        all_pairs = float(form((grouped.residual / self.unit(total))[np.newaxis])[0])
        squares = grouped.positives * (1.0 - grouped.prob) ** 2
        squares += (grouped.weight - grouped.positives) * grouped.prob**2
        # (y - p)^2 is y (1 - p)^2 + (1 - y) p^2 less y (1 - y), which is 0 for outcomes 0 and 1
        diagonal = float(squares.sum() - sample.weights @ (sample.y * (1.0 - sample.y)))
        # rounding can exceed 1 by an ulp
        return min(self.finish(all_pairs, diagonal, total), 1.0)

    def classes(self, sample: ClassSample) -> float:
        self.check(sample.w)
        sample = sample.ordered()
        p, y, w = sample.p, sample.y, sample.weights
        width = self.width(p, w)
        residual = -p
        residual[np.arange(y.shape[0]), y] += 1.0
        total = float(w.sum())
        weighted = (w / self.unit(total))[:, np.newaxis] * residual
        all_pairs = 0.0
        for first in range(0, y.shape[0], _CHUNK):
            rows = slice(first, first + _CHUNK)
            near = kernel_matrix(p[rows], p, width)
            all_pairs += float(np.sum(weighted[rows] * (near @ weighted)))
        diagonal = float(np.sum(weighted * residual))
        return self.finish(all_pairs, diagonal, total)


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
    probabilities, the product is an inner product, and half of the l1 distance replaces |p - q|: eq. 2 and
    Table 1 of [1]_, for a kernel times the identity. For two classes written as vectors, the squared error
    would be twice the binary one. With bandwidth 1 and not debiased, it is the kernel calibration error that
    [2]_ shows to be a consistent measure of the distance from calibration.

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
    check_option(reduction, "reduction", ("canonical", *REDUCTIONS))
    if isinstance(bandwidth, str):
        check_option(bandwidth, "bandwidth", ("median",), "a number")
    else:
        check_positive(bandwidth, "bandwidth")
    debias, squared = check_flag(debias, "debias"), check_flag(squared, "squared")
    error = _Kernel(bandwidth, debias)
    problem = check_problem(y_true, y_proba, sample_weight, pos_label, labels, fractions=True)
    if reduction == "canonical" and isinstance(problem, ClassSample):
        value = error.classes(problem)
    else:
        value = reduced_error(error.binary, problem, "classwise" if reduction == "canonical" else reduction)
    return value if squared else math.sqrt(max(value, 0.0))
