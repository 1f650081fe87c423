"""Averaged two-bin calibration error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib._docs import shared_docs
from sklearn_calib._typing import Array
from sklearn_calib._validation import BinarySample, Outcomes
from sklearn_calib.metrics._metric_kernel import Evaluate, MetricKernel, residuals, value_of_groups
from sklearn_calib.metrics._reductions import Reduction, checked_error

# The null mean is that of p (1 - p), whatever the positions: pooling within this width hardly changes it.
_POOLED_WIDTH = 2.0**-12


def _make(prob: Array, n_samples: float) -> Evaluate:
    # lengths of the intervals of q before, between and after the predictions
    width = np.diff(prob, prepend=0.0, append=1.0)

    def errors(count: Array, positives: Array) -> Array:
        below = residuals(prob, count, positives)
        np.cumsum(below, axis=0, out=below)
        total = below[-1].copy()
        squares = width[1:] @ below**2
        np.subtract(total, below, out=below)
        squares += width[1:] @ below**2 + width[0] * total**2
        return np.asarray(squares / count.sum(axis=0) ** 2)

    return errors


def _pooling_bins(grouped: GroupedOutcomes) -> NDArray[np.int64]:
    return np.floor(grouped.prob / _POOLED_WIDTH).astype(np.int64)


@shared_docs
@MetricKernel(_make, bins=_pooling_bins)
def averaged_two_bin_calibration_error(
    y_true: Outcomes,
    y_proba: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    r"""Compute the averaged two-bin calibration error (ATB), which is truthful.

    The predictions are divided into two bins at a threshold, the squares of both mean residuals are added,
    and the sum is averaged over all thresholds. It is truthful: no other predictions have a smaller expected
    value than the true probabilities. Other calibration errors can be reduced by less informative
    predictions, for example by their mean.

    Parameters
    ----------
    %(sample)s
    %(reduction)s

    %(error)s

    Raises
    ------
    %(malformed)s

    See Also
    --------
    smooth_calibration_error : Its square is bounded by multiples of this error.

    Notes
    -----
    Definition 1 of [1]_, with weights :math:`w_i` of sum n:

    .. math:: \mathrm{ATB} = \int_0^1 \Bigl(\frac1n \sum_{p_i < q} w_i (p_i - y_i)\Bigr)^2
              + \Bigl(\frac1n \sum_{p_i \ge q} w_i (p_i - y_i)\Bigr)^2 dq .

    It is a square: compare its root with other errors. It is the integral of a step function, computed
    exactly in O(n log n).

    For independent outcomes with probabilities :math:`\pi_i` and unit weights its expected value is the error
    with :math:`\pi_i` in place of :math:`y_i`, plus :math:`\sum_i \pi_i (1 - \pi_i) / n^2` (Theorem 35). The
    second term does not depend on the predictions, and the first one is 0 if they are the true
    probabilities. By Corollary 32, with the smooth calibration error :math:`\mathrm{smCE}` and the lower
    distance to calibration :math:`\underline{\mathrm{dCE}}`,

    .. math:: \tfrac29\, \mathrm{smCE}^2 \le \mathrm{ATB} \le 3\, \underline{\mathrm{dCE}} .

    The error is 0 for a constant prediction of the event frequency of the sample, as is every calibration
    error.

    References
    ----------
    .. [1] J. Hartline, L. Hu and Y. Wu (2026). A perfectly truthful calibration measure. COLT.
       arXiv:2508.13100

    Examples
    --------
    >>> from sklearn_calib.metrics import averaged_two_bin_calibration_error
    >>> print(f"{averaged_two_bin_calibration_error([0, 1], [0.25, 0.75]):.6f}")
    0.015625
    """

    def error(sample: BinarySample) -> float:
        grouped = group_outcomes(sample.y, sample.p, sample.w)
        return value_of_groups(_make(grouped.prob, grouped.total), grouped)

    return checked_error(error, y_true, y_proba, sample_weight, pos_label, reduction, labels)
