"""Bounds of the distance from calibration: lower distance, interval calibration error, and both around it."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib._core._transport import gather, interval_error, transport_distance
from sklearn_calib._docs import shared_docs
from sklearn_calib._html import result_html
from sklearn_calib._validation import BinarySample, Outcomes, check_binary, check_size
from sklearn_calib.metrics._distance import smooth_calibration_error
from sklearn_calib.metrics._metric_kernel import MetricKernel
from sklearn_calib.metrics._reductions import Reduction, checked_error

__all__ = [
    "CalibrationDistance",
    "distance_from_calibration",
    "interval_calibration_error",
    "lower_distance_to_calibration",
]

# Distinct predictions between which every partition into intervals is tried.
_INTERVAL_CELLS = 1 << 12
# The time of the linear program grows with the square of the cells.
_MOST_BINS = 10_000


@dataclass(frozen=True)
class CalibrationDistance:
    """Bounds of the distance from calibration (dCE) of a sample, and what they are made of.

    The distance is the mean absolute difference between the predictions and the nearest perfectly calibrated
    ones. It depends on the features, of which a sample of labels and predictions tells nothing.

    Attributes
    ----------
    lower : float
        No distance is smaller: the larger of ``transport - resolution`` and ``smooth / 2``.
    upper : float
        No distance is larger: the smaller of ``interval`` and ``4 sqrt(transport)``.
    transport : float
        The lower distance to calibration, computed on a grid.
    smooth : float
        The smooth calibration error.
    interval : float
        The interval calibration error.
    resolution : float
        What the grid can have added to ``transport``, or, if predictions were gathered, changed.
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
            f"distance from calibration between {self.lower:.4f} and {self.upper:.4f} (lower distance "
            f"{self.transport:.4f}, smooth error {self.smooth:.4f}, interval error {self.interval:.4f}, "
            f"n = {self.n_samples:g})"
        )

    def _repr_html_(self) -> str:
        return result_html(
            "distance from calibration",
            [
                ("between", f"{self.lower:.4f} and {self.upper:.4f}"),
                ("lower distance", f"{self.transport:.4f}"),
                ("smooth error", f"{self.smooth:.4f}"),
                ("interval error", f"{self.interval:.4f}"),
                ("n", f"{self.n_samples:g}"),
            ],
        )


def _transport(grouped: GroupedOutcomes, n_bins: int) -> tuple[float, float]:
    """Return the lower distance on a grid of so many cells, and the largest error of it."""
    moved = 0.0
    if grouped.prob.shape[0] > n_bins:
        grouped, moved = gather(grouped, n_bins)
    return transport_distance(grouped, np.arange(n_bins + 1) / n_bins), moved + 0.5 / n_bins


@shared_docs
@MetricKernel()
def lower_distance_to_calibration(
    y_true: Outcomes,
    y_proba: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    n_bins: int = 200,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    r"""Compute the lower distance to calibration of predicted probabilities.

    The least mean distance by which predictions must move so that they become perfectly calibrated, if each
    may move with the knowledge of its outcome. It bounds the distance from calibration from below, and up to
    a square root from above.

    Parameters
    ----------
    %(sample)s
    n_bins : int, default=200
        Bins of the grid on which the moved predictions lie; it adds at most ``1 / (2 n_bins)``. More
        distinct predictions than that are first gathered at their means over the cells, which changes the
        result by at most the mean distance to those, less than ``1 / n_bins``.
    %(reduction)s

    %(error)s

    Raises
    ------
    %(malformed)s

    See Also
    --------
    distance_from_calibration : Bounds on both sides.
    smooth_calibration_error : Between half and twice of this, and much faster.

    Notes
    -----
    Over joint laws of the predictions p, the outcomes y and moved predictions u,

    .. math:: \underline{\mathrm{dCE}} = \min\{ \mathrm{E}|u - p| : \mathrm{P}(y = 1 \mid u) = u \}

    is the lower distance of [1]_. As rows move along a line, it is a minimum cost flow: a linear program with
    a number of variables proportional to the grid, solved by HiGHS, and not to the square of it. A law on the
    continuum becomes one on the grid by dividing every u between its two neighbours, which moves it by at
    most half a cell on average.

    %(not_proper)s

    References
    ----------
    .. [1] J. Blasiok, P. Gopalan, L. Hu and P. Nakkiran (2023). A Unifying Theory of Distance from
       Calibration. STOC. arXiv:2211.16886

    Examples
    --------
    >>> from sklearn_calib.metrics import lower_distance_to_calibration
    >>> print(f"{lower_distance_to_calibration([0, 1], [0.4, 0.6]):.2f}")
    0.08
    """
    n_bins = check_size(n_bins, "n_bins", maximum=_MOST_BINS)

    def error(sample: BinarySample) -> float:
        value, _ = _transport(group_outcomes(sample.y, sample.p, sample.w), n_bins)
        return min(value, 1.0)

    return checked_error(error, y_true, y_proba, sample_weight, pos_label, reduction, labels)


@shared_docs
@MetricKernel()
def interval_calibration_error(
    y_true: Outcomes,
    y_proba: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    r"""Compute the interval calibration error of predicted probabilities.

    The binned calibration error plus the mean width of the bins, for the bins that make this sum least. No
    distance from calibration is larger.

    Parameters
    ----------
    y_true, y_proba, sample_weight, pos_label, reduction, labels
        As in :func:`lower_distance_to_calibration`.

    %(error)s

    Raises
    ------
    %(malformed)s

    See Also
    --------
    distance_from_calibration : Bounds on both sides.
    expected_calibration_error : Bins of your own choice, and no charge for their width.

    Notes
    -----
    Over all partitions of [0, 1] into intervals I with total weight n,

    .. math:: \min \sum_I \Bigl( \Bigl|\frac1n \sum_{p_i \in I} w_i (y_i - p_i)\Bigr|
              + |I|\, \frac1n \sum_{p_i \in I} w_i \Bigr)

    [1]_, where intervals end at predictions: gaps cost nothing. Exact by dynamic
    programming, O(n log n + m^2) for m distinct predictions. If m is above 4096, predictions that share one
    of 4096 cells share an interval; the sum can only become larger by that, and remains an upper bound of the
    distance. It is at most the calibration error over the distinct predictions, and at most 4 times the root
    of the lower distance.

    %(not_proper)s

    References
    ----------
    .. [1] J. Blasiok, P. Gopalan, L. Hu and P. Nakkiran (2023). A Unifying Theory of Distance from
       Calibration. STOC. arXiv:2211.16886

    Examples
    --------
    >>> from sklearn_calib.metrics import interval_calibration_error
    >>> print(f"{interval_calibration_error([0, 1], [0.4, 0.6]):.2f}")
    0.20
    """

    def error(sample: BinarySample) -> float:
        # of predictions that share a cell the error is a bound, which its width can carry above 1
        return min(interval_error(group_outcomes(sample.y, sample.p, sample.w), _INTERVAL_CELLS), 1.0)

    return checked_error(error, y_true, y_proba, sample_weight, pos_label, reduction, labels)


@shared_docs
def distance_from_calibration(
    y_true: Outcomes,
    y_proba: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    n_bins: int = 200,
) -> CalibrationDistance:
    r"""Compute bounds of the distance from calibration of binary predictions.

    Parameters
    ----------
    %(binary_sample)s
    sample_weight, pos_label, n_bins
        As in :func:`lower_distance_to_calibration`.

    Returns
    -------
    CalibrationDistance
        The bounds, with the errors that they come from.

    Raises
    ------
    %(malformed)s

    Notes
    -----
    With dCE the distance, wCE the smooth calibration error and intCE the interval calibration error [1]_,

    .. math:: \tfrac12 \mathrm{wCE} \le \underline{\mathrm{dCE}} \le \mathrm{dCE} \le \mathrm{intCE}
              \qquad\text{and}\qquad \mathrm{dCE} \le 4 \sqrt{\underline{\mathrm{dCE}}} .

    The bounds are of the distance in the sample; that of the population differs by sampling error.

    References
    ----------
    .. [1] J. Blasiok, P. Gopalan, L. Hu and P. Nakkiran (2023). A Unifying Theory of Distance from
       Calibration. STOC. arXiv:2211.16886

    Examples
    --------
    >>> from sklearn_calib.metrics import distance_from_calibration
    >>> result = distance_from_calibration([0, 1], [0.4, 0.6])
    >>> print(f"{result.lower:.4f} {result.upper:.4f}")
    0.0775 0.2000
    """
    n_bins = check_size(n_bins, "n_bins", maximum=_MOST_BINS)
    sample = check_binary(y_true, y_proba, sample_weight, pos_label)
    grouped = group_outcomes(sample.y, sample.p, sample.w)
    transport, resolution = _transport(grouped, n_bins)
    interval = min(interval_error(grouped, _INTERVAL_CELLS), 1.0)
    smooth = smooth_calibration_error(sample.y, sample.p, sample_weight=sample.w, pos_label=1)
    upper = min(interval, 4.0 * math.sqrt(transport))
    return CalibrationDistance(
        lower=min(max(transport - resolution, smooth / 2.0), upper),
        upper=upper,
        transport=transport,
        smooth=smooth,
        interval=interval,
        resolution=resolution,
        n_samples=grouped.total,
    )
