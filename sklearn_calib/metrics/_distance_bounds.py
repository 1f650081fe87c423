"""Smooth calibration error, and bounds on the distance from calibration: lower distance, interval error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib import _validation
from sklearn_calib._core._binning import uniform_bins
from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._grouping import DISTINCT, GroupedOutcomes, group_outcomes, group_starts
from sklearn_calib._core._isotonic import monotone_distance, variation_distance
from sklearn_calib._core._links import logit
from sklearn_calib._core._transport import gather, interval_errors, transport_distances
from sklearn_calib._docs import shared_docs
from sklearn_calib._html import number_text, text_html
from sklearn_calib._typing import Array
from sklearn_calib.metrics._metric_kernel import (
    Evaluate,
    MetricKernel,
    of_groups,
    one_by_one,
    residuals,
    value_of_groups,
)
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
    del residual
    inside = np.clip(walk, 0.0, mass)
    walk -= inside
    outside = float(gap @ np.abs(walk, out=walk))
    del walk
    return mass + outside + monotone_distance(inside, gap)


def _smooth_error(grouped: GroupedOutcomes, scale: str = "probability") -> float:
    if scale == "probability":
        return _lipschitz_supremum(grouped) / grouped.total
    # The dual is a flow along the line that may start and end anywhere at a cost of 1: the minimum of the
    # integral of |C(t) - D(t)| dt plus the total variation of D, from 0 to the last C, held by weights of 2.
    # Across a gap of 2, any two values are possible.
    gap = np.minimum(np.diff(logit(grouped.prob)), 2.0)
    walk = np.append(0.0, np.cumsum(grouped.residual))
    return min(variation_distance(walk, np.concatenate(([2.0], gap, [2.0]))) / grouped.total, 1.0)


@shared_docs
@MetricKernel(one_by_one(_smooth_error), calibration_error=True, _most_distinct=1 << 10)
def smooth_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    scale: Literal["probability", "logit"] = "probability",
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
    %(outcomes)s
    scale : {"probability", "logit"}, default="probability"
        Axis on which functions are Lipschitz. "logit" (Corollary 15 of [2]_) allows them to change faster
        near 0 and 1, where small differences matter for the log loss; the error is at least as large.
    %(weight)s
    %(reduction)s

    %(error)s

    Notes
    -----
    Over functions u with :math:`|u(a) - u(b)| \le |a - b|` and values in [-1, 1],

    .. math:: \mathrm{wCE} = \max_u \frac1n \sum_i w_i\, u(p_i)\,(y_i - p_i),

    a linear program with one variable for each distinct prediction. Its dual is an isotonic median
    regression of the cumulative residuals, solved exactly by divide and conquer in about O(n log n). The
    lower distance to calibration (dCE) satisfies dCE/2 <= wCE <= 2 dCE [1]_. On the logit scale,
    where the distance of predictions is that of their log-odds (Definition 11 of [2]_), the dual is a median
    regression with a penalty on its total variation, solved in the same way.

    %(not_proper)s

    %(distance_paper)s
    .. [2] J. Blasiok and P. Nakkiran (2024). Smooth ECE: Principled Reliability Diagrams via Kernel
       Smoothing. ICLR. arXiv:2309.12236

    Examples
    --------
    >>> from sklearn_calib.metrics import smooth_calibration_error
    >>> print(f"{smooth_calibration_error([0, 1], [0.4, 0.6]):.2f}")
    0.04
    >>> print(f"{smooth_calibration_error([0, 1, 1, 1], [0.5, 0.5, 0.5, 0.5]):.2f}")
    0.25
    """
    _validation.check_option(scale, "scale", ("probability", "logit"))
    given = y_true, y_proba, sample_weight, pos_label, reduction, labels
    return error_of_groups(partial(_smooth_error, scale=scale), *given)


# Size of arrays of intervals of several samples.
_WORK = 1 << 18
# Finer grids take longer, and the discretization error of this one is at most 1 / 20000.
_MOST_BINS = 10_000


@dataclass(frozen=True)
class CalibrationDistance:
    """Bounds on the distance from calibration (dCE) of a sample, and their components.

    The distance is the mean absolute difference between the predictions and the nearest perfectly calibrated
    predictions. It depends on the features, so that labels and predictions only determine bounds.

    Attributes
    ----------
    lower : float
        Lower bound: the largest of ``transport - resolution``, ``smooth / 2`` and the bound for few distinct
        predictions.
    upper : float
        Upper bound: the smaller of ``interval`` and ``4 sqrt(transport)``.
    transport : float
        The lower distance to calibration, computed on a grid.
    smooth : float
        The smooth calibration error.
    interval : float
        The interval calibration error.
    resolution : float
        Bound on the discretization error of ``transport``.
    n_samples : float
        Total weight.
    """

    lower: float
    upper: float
    transport: float
    smooth: float
    interval: float
    resolution: float
    n_samples: float

    def __str__(self) -> str:
        return (
            f"distance from calibration between {number_text(self.lower)} and {number_text(self.upper)} "
            f"(lower distance {number_text(self.transport)} with a grid error of at most "
            f"{number_text(self.resolution)}, smooth error {number_text(self.smooth)}, interval error "
            f"{number_text(self.interval)}, n = {self.n_samples:g})"
        )

    _repr_html_ = text_html


def _transport(samples: list[GroupedOutcomes], n_bins: int = 200) -> tuple[Array, Array]:
    """Return the lower distance of each sample on a grid of ``n_bins`` bins, and a bound on its error."""
    few = [gather(each, n_bins) if each.prob.shape[0] > n_bins else (each, 0.0) for each in samples]
    gathered, moved = zip(*few, strict=True)
    return np.minimum(transport_distances(gathered, n_bins), 1.0), np.array(moved) + 0.5 / n_bins


def _lower_distances(samples: list[GroupedOutcomes], n_bins: int = 200) -> Array:
    return _transport(samples, n_bins)[0]


@shared_docs
@MetricKernel(of_groups(_lower_distances), calibration_error=True, _most_distinct=1 << 11)
def lower_distance_to_calibration(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 200,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    r"""Compute the lower distance to calibration of predicted probabilities.

    The smallest mean distance by which predictions must move to become perfectly calibrated, where moves may
    depend on the outcome. It is a lower bound on the distance from calibration, and 4 times its square root
    is an upper bound.

    Parameters
    ----------
    %(outcomes)s
    n_bins : int, default=200
        Bins of the grid on which the moved predictions lie; it adds at most ``1 / (2 n_bins)``. If there are
        more distinct predictions, they are first replaced by their means over bins, which changes the result
        by at most their mean distance to these, less than ``1 / n_bins``.
    %(weight)s
    %(reduction)s

    %(error)s

    See Also
    --------
    distance_from_calibration : Lower and upper bound on the distance.
    smooth_calibration_error : Between half and twice this distance, and much faster.

    Notes
    -----
    Over joint distributions of the predictions p, the outcomes y and moved predictions u,

    .. math:: \underline{\mathrm{dCE}} = \min\{ \mathrm{E}|u - p| : \mathrm{P}(y = 1 \mid u) = u \}

    is the lower distance of [1]_. As predictions move along a line, it is a minimum cost flow: a linear
    program whose number of variables is proportional to the grid and not to its square. It is solved to 1e-10
    by an interior-point method, whose steps take a time proportional to the grid. A continuous distribution
    is discretized by splitting every u between its two neighbors in the grid, which moves it by at most half
    a bin on average.

    %(not_proper)s

    %(distance_paper)s

    Examples
    --------
    >>> from sklearn_calib.metrics import lower_distance_to_calibration
    >>> print(f"{lower_distance_to_calibration([0, 1], [0.4, 0.6]):.2f}")
    0.08
    """
    n_bins = _validation.check_size(n_bins, "n_bins", maximum=_MOST_BINS)
    given = y_true, y_proba, sample_weight, pos_label, reduction, labels
    return error_of_groups(lambda grouped: float(_lower_distances([grouped], n_bins)[0]), *given)


def _make_interval(prob: Array, n_samples: float) -> Evaluate:
    m = prob.shape[0]
    starts = group_starts(uniform_bins(prob, DISTINCT)) if m > DISTINCT else np.arange(m)
    low, high = prob[starts], prob[np.append(starts[1:], m) - 1]

    def errors(count: Array, positives: Array) -> Array:
        # predictions of weight 0 cost nothing as intervals of their own
        sums = (np.add.reduceat(part, starts) for part in (count, residuals(prob, count, positives)))
        weight, residual = np.broadcast_arrays(*sums)
        parts = blocks(residual.shape[1], _WORK, starts.shape[0])
        found = [interval_errors(low, high, weight[:, part], residual[:, part]) for part in parts]
        # with bins the error is an upper bound, which can exceed 1 by the width of a bin
        return np.minimum(np.concatenate(found), 1.0)

    return errors


def _interval_error(grouped: GroupedOutcomes) -> float:
    return value_of_groups(_make_interval(grouped.prob, grouped.total), grouped)


@shared_docs
@MetricKernel(_make_interval, calibration_error=True)
def interval_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    r"""Compute the interval calibration error of predicted probabilities.

    The binned calibration error plus the mean width of the bins, minimized over all choices of bins. It is an
    upper bound on the distance from calibration.

    Parameters
    ----------
    y_true, y_proba, sample_weight, pos_label, reduction, labels
        As in :func:`lower_distance_to_calibration`.

    %(error)s

    See Also
    --------
    distance_from_calibration : Lower and upper bound on the distance.
    expected_calibration_error : Error for given bins, without the term for their width.

    Notes
    -----
    Over all partitions of [0, 1] into intervals I with total weight n,

    .. math:: \min \sum_I \Bigl( \Bigl|\frac1n \sum_{p_i \in I} w_i (y_i - p_i)\Bigr|
              + |I|\, \frac1n \sum_{p_i \in I} w_i \Bigr)

    [1]_, where intervals start and end at predictions, so that gaps between predictions add no width. Exact
    by dynamic programming, O(n log n + m^2) for m distinct predictions. If m is above 4096, predictions in
    the same of 4096 bins are kept in one interval; this can only increase the sum, which remains an upper
    bound on the distance. It is at most the calibration error over the distinct predictions, and at most 4
    times the root of the lower distance.

    %(not_proper)s

    %(distance_paper)s

    Examples
    --------
    >>> from sklearn_calib.metrics import interval_calibration_error
    >>> print(f"{interval_calibration_error([0, 1], [0.4, 0.6]):.2f}")
    0.20
    """
    given = y_true, y_proba, sample_weight, pos_label, reduction, labels
    return error_of_groups(_interval_error, *given)


@shared_docs
def distance_from_calibration(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 200,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
) -> CalibrationDistance:
    r"""Compute bounds on the distance from calibration of binary predictions.

    Parameters
    ----------
    y_true, y_proba, n_bins, sample_weight, pos_label, labels
        As in :func:`lower_distance_to_calibration`, for binary targets.

    Returns
    -------
    CalibrationDistance
        The bounds, and the errors from which they are computed.

    %(raised)s

    Notes
    -----
    With dCE the distance, wCE the smooth calibration error and intCE the interval calibration error [1]_,

    .. math:: \tfrac12 \mathrm{wCE} \le \underline{\mathrm{dCE}} \le \mathrm{dCE} \le \mathrm{intCE}
              \qquad\text{and}\qquad \mathrm{dCE} \le 4 \sqrt{\underline{\mathrm{dCE}}} .

    If distinct predictions differ by at least b, dCE is at least b / (b + 2) times the calibration error ECE
    over the distinct predictions; of a constant prediction it is ECE. Proposition A.1 of [2]_ states
    b / (b + 1), for which docs/methods/cutoff.md has a counterexample.

    The bounds are for the distance in the sample; the distance in the population differs by sampling error.

    %(distance_paper)s
    .. [2] Rossellini, Soloff, Barber, Ren, Willett (2025). Can a calibration metric be both testable and
       actionable? COLT. arXiv:2502.19851.

    Examples
    --------
    >>> from sklearn_calib.metrics import distance_from_calibration
    >>> result = distance_from_calibration([0, 1], [0.4, 0.6])
    >>> print(f"{result.lower:.4f} {result.upper:.4f}")
    0.0775 0.2000
    """
    n_bins = _validation.check_size(n_bins, "n_bins", maximum=_MOST_BINS)
    sample = _validation.check_binary(
        y_true, y_proba, sample_weight, pos_label, fractions=True, labels=labels
    )
    grouped = group_outcomes(sample.y, sample.p, sample.w)
    transport, resolution = (float(values[0]) for values in _transport([grouped], n_bins))
    interval = _interval_error(grouped)
    smooth = _smooth_error(grouped)
    upper = min(interval, 4.0 * math.sqrt(transport))
    # Proposition A.1, corrected: b / (b + 2) ECE
    gap = float(np.diff(grouped.prob).min(initial=np.inf))
    separated = float(np.abs(grouped.residual).sum()) / grouped.total / (1.0 + 2.0 / gap)
    return CalibrationDistance(
        lower=min(max(transport - resolution, smooth / 2.0, separated), upper),
        upper=upper,
        transport=transport,
        smooth=smooth,
        interval=interval,
        resolution=resolution,
        n_samples=grouped.total,
    )
