"""Smooth calibration error in the sense of Lipschitz test functions (weak calibration error)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._isotonic import monotone_distance
from sklearn_calib._docs import shared_docs
from sklearn_calib.metrics._metric_kernel import MetricKernel
from sklearn_calib.metrics._reductions import Reduction, error_of_groups


def _lipschitz_supremum(grouped: GroupedOutcomes) -> float:
    """Return max of sum_j c_j u(p_j) over 1-Lipschitz u with values in [-1, 1], c the residual of each group.

    Let C be the cumulative residuals and m their last value, m >= 0 without loss of generality. Because
    the predictions span at most 1, an optimal u attains 1 and its lower bound is never active. Writing the
    dual of the remaining problem as a flow along the line gives m + min over non-decreasing D with values in
    [0, m] of the integral of |C(t) - D(t)| dt, an isotonic median regression of C with the gaps between
    predictions as weights. The bounds on D are equivalent to clipping C, at the cost of the part clipped.
    """
    residual = grouped.residual
    mass = float(residual.sum())
    if mass < 0:
        residual, mass = -residual, -mass
    gap = np.diff(grouped.prob)
    if gap.shape[0] == 0:
        return mass
    walk = np.cumsum(residual[:-1])
    inside = np.clip(walk, 0.0, mass)
    walk -= inside
    return mass + float(gap @ np.abs(walk)) + monotone_distance(inside, gap)


@shared_docs
@MetricKernel(calibration_error=True)
def smooth_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    r"""Compute the smooth calibration error (wCE) of predicted probabilities.

    The largest mean product of the residuals with a Lipschitz function of the prediction, also called weak
    calibration error. It is within a factor of two of the lower distance to calibration, the earth mover's
    distance to the nearest perfectly calibrated predictor. Not to be confused with :func:`smooth_ece`, which
    smooths with a kernel.

    Parameters
    ----------
    %(sample)s
    %(reduction)s

    %(error)s

    Notes
    -----
    Over functions u with :math:`|u(a) - u(b)| \le |a - b|` and values in [-1, 1],

    .. math:: \mathrm{wCE} = \max_u \frac1n \sum_i w_i\, u(p_i)\,(y_i - p_i),

    a linear program with one variable for each distinct prediction. Its dual is an isotonic median
    regression of the cumulative residuals, solved exactly by divide and conquer in about O(n log n). The
    lower distance to calibration (dCE) satisfies dCE/2 <= wCE <= 2 dCE [1]_.

    %(not_proper)s

    %(distance_paper)s

    Examples
    --------
    >>> from sklearn_calib.metrics import smooth_calibration_error
    >>> print(f"{smooth_calibration_error([0, 1], [0.4, 0.6]):.2f}")
    0.04
    >>> print(f"{smooth_calibration_error([0, 1, 1, 1], [0.5, 0.5, 0.5, 0.5]):.2f}")
    0.25
    """
    given = y_true, y_proba, sample_weight, pos_label, reduction, labels
    return error_of_groups(lambda grouped: _lipschitz_supremum(grouped) / grouped.total, *given)
