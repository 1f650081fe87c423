"""Binned calibration error with the largest number of bins for which event frequencies are monotone."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib import _validation
from sklearn_calib._core._binning import bin_starts, quantile_starts, uniform_bins, weight_middles
from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes, group_starts
from sklearn_calib._core._weights import whole_numbers
from sklearn_calib._docs import shared_docs
from sklearn_calib._typing import Array
from sklearn_calib.metrics._metric_kernel import MetricKernel
from sklearn_calib.metrics._reductions import Reduction, checked_error


def _is_monotone(positives: Array, weight: Array) -> bool:
    """Tell whether frequencies are non-decreasing, by products, which are exact for integers."""
    return bool((positives[1:] * weight[:-1] >= positives[:-1] * weight[1:]).all())


def _sweep_error(sample: _validation.BinarySample, strategy: str, norm: str) -> float:
    """Return the error of a binary sample; for "l2" its square."""
    grouped = group_outcomes(sample.y, sample.p, sample.w)
    most = grouped.prob.shape[0]
    if _is_monotone(grouped.positives, grouped.weight):
        # every union of neighboring groups is monotone, too
        starts = bin_starts(grouped, most, strategy)
    else:
        starts = _monotone_starts(grouped, strategy)
    weight, residual = (np.add.reduceat(mass, starts) for mass in (grouped.weight, grouped.residual))
    fraction, gap = weight / weight.sum(), np.abs(residual / weight)
    return float(fraction @ gap) if norm == "l1" else float(fraction @ gap**2)


def _monotone_starts(grouped: GroupedOutcomes, strategy: str) -> NDArray[np.intp]:
    """Return the starts of the bins, one bin fewer than the smallest number that is not monotone."""
    weight, positives, total = grouped.weight, grouped.positives, grouped.total
    middle = weight_middles(weight)
    # differences of cumulative sums are exact for whole numbers
    whole = whole_numbers(weight) and whole_numbers(positives)
    until = np.cumsum(positives) if whole else positives

    def sums(starts: NDArray[np.intp]) -> tuple[Array, Array]:
        if not whole:
            return np.add.reduceat(positives, starts), np.add.reduceat(weight, starts)
        events, samples = until[starts] - positives[starts], middle[starts] - 0.5 * weight[starts]
        return np.diff(events, append=until[-1]), np.diff(samples, append=total)

    chosen = np.zeros(1, dtype=np.intp)
    for n_bins in range(2, grouped.prob.shape[0] + 1):
        if strategy == "quantile":
            starts = quantile_starts(middle, total, n_bins)
        else:
            starts = group_starts(uniform_bins(grouped.prob, n_bins))
        if not _is_monotone(*sums(starts)):
            break
        chosen = starts
    return chosen


@shared_docs
@MetricKernel(calibration_error=True)
def sweep_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    strategy: Literal["quantile", "uniform"] = "quantile",
    norm: Literal["l1", "l2"] = "l1",
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    r"""Compute the calibration error with the monotone sweep choice of bins.

    A binned calibration error with a data-driven number of bins: the number increases from 1 as long as the
    event frequencies of the bins are non-decreasing. Too many bins give frequencies that decrease because of
    noise; stopping before has less bias than a fixed number of bins.

    Parameters
    ----------
    %(outcomes)s
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal weight or of equal width, as in :func:`expected_calibration_error`. The former have the
        smaller bias [1]_.
    norm : {"l1", "l2"}, default="l1"
        Mean gap, or root mean squared gap, also over the classes.
    %(weight)s
    %(reduction)s

    %(error)s

    See Also
    --------
    expected_calibration_error : Calibration error with a fixed number of bins.
    smooth_ece : Calibration error without bins.

    Notes
    -----
    For b = 1, 2, ... let bins have the event frequencies :math:`\bar y_1, \bar y_2, \ldots` (empty bins do
    not count). The chosen number is the last b before the first with a :math:`\bar y_{j+1} < \bar y_j`
    (Algorithm 1 of [1]_), and at most the number of distinct predictions. The error is that of
    :func:`expected_calibration_error` with b bins. Complexity O(n log n + b m) for m distinct predictions.

    The number of bins also depends on discrimination: for a model that ranks poorly there may be a single
    bin, and miscalibration within it is not detected.

    %(not_proper)s

    References
    ----------
    .. [1] R. Roelofs, N. Cain, J. Shlens and M. C. Mozer (2022). Mitigating Bias in Calibration Error
       Estimation. AISTATS. arXiv:2012.08668

    Examples
    --------
    >>> from sklearn_calib.metrics import sweep_calibration_error
    >>> y_true, y_proba = [0, 1, 0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4, 0.8, 0.9]
    >>> print(f"{sweep_calibration_error(y_true, y_proba):.2f}")
    0.28
    """
    _validation.check_option(strategy, "strategy", ("quantile", "uniform"))
    _validation.check_option(norm, "norm", ("l1", "l2"))

    def error(sample: _validation.BinarySample) -> float:
        return _sweep_error(sample, strategy, norm)

    value = checked_error(error, y_true, y_proba, sample_weight, pos_label, reduction, labels)
    return math.sqrt(value) if norm == "l2" else value
