"""Venn-Abers calibration: two isotonic fits for each score, one for each outcome of the new sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from sklearn_calib import _validation
from sklearn_calib._core._grouping import group_scores
from sklearn_calib._core._isotonic import fit_isotonic
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators._base import BaseCalibrator
from sklearn_calib.calibrators._certificate import CutoffCertificateMixin, certify

_LOSSES = ("log", "brier")
# From this many scores on a lookup table is faster.
_LONG = 1 << 13


class VennAbersCalibrator(CutoffCertificateMixin, BaseCalibrator):
    r"""Inductive Venn-Abers predictor: isotonic regression with the new sample added to the training samples.

    For a new score :math:`s` isotonic regression is fitted twice, to the training samples and :math:`(s, 0)`,
    and to the training samples and :math:`(s, 1)`. The two values at :math:`s` are :math:`p_0 < p_1`. If all
    samples are exchangeable, the one that belongs to the true outcome is perfectly calibrated, for every
    sample size (Theorem 1 of [1]_); their distance measures the uncertainty. Scores can be any real numbers.

    Parameters
    ----------
    loss : {"log", "brier"}, default="log"
        How the two probabilities are merged: the value with the smallest maximal regret against :math:`p_0`
        and :math:`p_1` over both outcomes. "log": for the log loss, :math:`p_1 / (1 - p_0 + p_1)`. "brier":
        for the squared error, :math:`p_1 - (p_1^2 - p_0^2)/2`. Both are strictly between 0 and 1.

    Attributes
    ----------
    lower_thresholds_, lower_values_ : ndarray of shape (n_lower,), (n_lower + 1,)
        The step function :math:`p_0`: ``lower_values_[j]`` from threshold j - 1, included, to threshold j.
    upper_thresholds_, upper_values_ : ndarray of shape (n_upper,), (n_upper + 1,)
        The step function :math:`p_1`: ``upper_values_[j]`` from threshold j - 1 to threshold j, included.
    %(trained_fit)s

    See Also
    --------
    IsotonicCalibrator : A single fit, without the new sample.
    OneVsRestCalibrator : For multiclass targets, with the two probabilities of each class against the rest.

    Notes
    -----
    Weights are counts of samples, and the new sample has weight 1: multiplying all weights by a constant
    changes the result. Both probabilities, and their merged value, are non-decreasing in the score, so that
    the merged map has a certificate.

    Fitting takes O(n log n) and each prediction O(log n), as both functions are tabulated. Let :math:`P_i =
    (W_i, C_i)` be the cumulative sums of weight and of events after the i-th distinct score, and :math:`V`
    the vertices of their greatest convex minorant, whose slopes are the isotonic fit. With :math:`l` training
    scores below :math:`s`,

    .. math:: p_1(s) = \max_{i \le l} \min_{j > i,\, P_j \in V} \frac{C_j - C_i + 1}{W_j - W_i + 1},

    and 1 above all scores. In the min-max formula for the enlarged sample the minimum is attained at a
    vertex, because a sample with outcome 1 does not lower the fit; it is the tangent to a convex chain, found
    by bisection. :math:`p_0` follows by symmetry, with outcomes and direction reversed. Vovk et al. [2]_ give
    another algorithm of the same complexity.

    The cross Venn-Abers predictor of [2]_ combines the predictors of several folds.
    ``CalibratedClassifier(classifier, VennAbersCalibrator(), ensemble=True, average="log")`` is its version
    for the log loss, with geometric means of all :math:`p_1` and of all :math:`1 - p_0`, because :math:`\log
    p_1 - \log(1 - p_0)` is the log-odds of the merged probability. With ``average="probability"`` the merged
    probabilities are averaged.

    References
    ----------
    .. [1] Vovk, Petej (2014). Venn-Abers predictors. UAI. arXiv:1211.0025.
    .. [2] Vovk, Petej, Fedorova (2015). Large-scale probabilistic predictors with and without guarantees of
       validity. NeurIPS. arXiv:1511.00213.

    Examples
    --------
    >>> from sklearn_calib.calibrators import VennAbersCalibrator
    >>> calibrator = VennAbersCalibrator().fit([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])
    >>> lower, upper = calibrator.predict_interval([0.0, 0.25, 0.5])
    >>> lower.round(3), upper.round(3)
    (array([0.   , 0.333, 0.5  ]), array([0.5  , 0.667, 1.   ]))
    >>> calibrator.transform([0.0, 0.25, 0.5]).round(3)
    array([0.333, 0.5  , 0.667])
    """

    _multiclass = False
    lower_thresholds_: Array
    lower_values_: Array
    upper_thresholds_: Array
    upper_values_: Array

    def __init__(self, *, loss: str = "log") -> None:
        self.loss = loss

    def predict_interval(self, X: ArrayLike) -> tuple[Array, Array]:
        """Return the two probabilities of ``classes_[1]``, p_0 and p_1.

        Parameters
        ----------
        %(scores)s

        Returns
        -------
        tuple of two ndarrays of shape (n,)
            The isotonic fit at each score with a sample of that score and of ``classes_[0]`` added, and that
            with a sample of ``classes_[1]``.
        """
        check_is_fitted(self)
        breaks, lower, upper = self._tables()
        place = _place(breaks, self._check_scores(X, reset=False))
        return lower[place], upper[place]

    def _check_parameters(self) -> None:
        _validation.check_option(self.loss, "loss", _LOSSES)

    def _score_kind(self) -> str:
        return "score"

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        grouped = group_scores(codes, scores, weight)
        scores = grouped.prob
        total, events, misses = (
            np.append(0.0, np.cumsum(mass))
            for mass in (grouped.weight, grouped.positives, grouped.weight - grouped.positives)
        )
        blocks = fit_isotonic(grouped)
        vertex = np.searchsorted(scores, blocks.upper, side="right")
        # both tables are indexed by the number of training scores below (upper) or not above (lower) a score
        # never 0, even if a sum loses the new sample in rounding
        upper = np.maximum(1.0 - _complement_of_upper(total, misses, vertex), 2.0**-53)
        # the same with outcomes exchanged and scores reversed
        size = scores.shape[0]
        mirrored = np.append(size - vertex[-2::-1], size)
        lower = _complement_of_upper(total[-1] - total[::-1], events[-1] - events[::-1], mirrored)[::-1]
        self.upper_thresholds_, self.upper_values_ = _steps(scores, upper)
        self.lower_thresholds_, self.lower_values_ = _steps(scores, lower)
        certify(self, grouped, weight)

    @np.errstate(under="ignore")
    def _tables(self) -> tuple[Array, Array, Array]:
        """Return the scores at which either function may increase, and the values of both between them."""
        # a step that excludes its threshold is at the next float
        above = np.nextafter(self.upper_thresholds_, np.inf)
        breaks = np.union1d(self.lower_thresholds_, above)
        lower, upper = (
            values[np.append(0, np.searchsorted(thresholds, breaks, side="right"))]
            for thresholds, values in (
                (self.lower_thresholds_, self.lower_values_),
                (above, self.upper_values_),
            )
        )
        return breaks, lower, upper

    def _export(self, build: Any) -> Any:
        return build.constant(self, self._tables()[0])

    def _map_scores(self, scores: Array) -> Array:
        breaks, lower, upper = self._tables()
        # every operation is monotone, so that the rounded result is, too
        if self.loss == "log":
            merged: Array = 1.0 / (1.0 + (1.0 - lower) / upper)
        else:
            merged = (lower * lower + (1.0 - (1.0 - upper) * (1.0 - upper))) / 2.0
        return merged[_place(breaks, scores)]


def _place(breaks: Array, scores: Array) -> NDArray[np.intp]:
    """Return how many of the sorted breaks do not exceed each score."""
    if scores.shape[0] < _LONG or breaks.shape[0] < 2:
        return np.searchsorted(breaks, scores, side="right")
    return _place_by_buckets(breaks, scores)


def _place_by_buckets(breaks: Array, scores: Array) -> NDArray[np.intp]:
    """Do the same with a lookup table over intervals of equal width, each with few breaks."""
    low, high, n_buckets = float(breaks[0]), float(breaks[-1]), 16 * breaks.shape[0]
    span = high - low
    scale = n_buckets / span
    bucket = np.clip((scores - low) * scale, 0.0, n_buckets).astype(np.intp)
    # from one bucket earlier, so that rounding cannot start too far right
    edges = low + np.arange(-1, n_buckets) * (span / n_buckets)
    place = np.searchsorted(breaks, edges, side="right")[bucket]
    guarded = np.append(breaks, np.inf)
    for _ in range(2):
        place += guarded[place] <= scores
    rest = np.flatnonzero(guarded[place] <= scores)
    place[rest] = np.searchsorted(breaks, scores[rest], side="right")
    return place


def _complement_of_upper(weight: Array, misses: Array, vertex: NDArray[np.intp]) -> Array:
    """Return 1 - p_1 for a score above l of the m training scores, l = 0, ..., m.

    ``weight`` and ``misses`` are running sums of weight and of non-events, from 0; ``vertex`` holds the
    indices of the vertices of the minorant, without the origin.
    """
    # in terms of non-events the minorant is a concave majorant, and the formula a minimum over i of maxima
    # over j
    edges = np.append(0, vertex)
    width, rise = np.diff(weight[edges]), np.full(edges.shape[0], -np.inf)
    # weights that a sum has lost in rounding have none
    np.divide(np.diff(misses[edges]), width, out=rise[:-1], where=width > 0.0)
    top_weight, top_misses = weight[vertex], misses[vertex]
    sizes = np.diff(edges)
    # the vertex, among those beyond each point, to which the line is steepest: while the next edge is steeper
    # than the line to its beginning, it is further right, which is rare
    start_weight, start_misses = weight[:-1], misses[:-1]
    tangent = np.repeat(top_misses, sizes) - start_misses
    # the new sample is added to the difference, not to the sums, where it could be lost in rounding
    tangent /= np.repeat(top_weight, sizes) - start_weight + 1.0
    rows = np.flatnonzero(np.repeat(rise[1:], sizes) > tangent)
    low = np.searchsorted(edges, rows, side="right")
    high = np.full_like(low, vertex.shape[0] - 1)
    start_weight, start_misses = start_weight[rows], start_misses[rows]

    def slope_to(top: NDArray[np.intp]) -> Array:
        return np.asarray((top_misses[top] - start_misses) / (top_weight[top] - start_weight + 1.0))

    while (low < high).any():
        middle = (low + high) // 2
        further = (rise[middle + 1] > slope_to(middle)) & (low < high)
        low = np.where(further, middle + 1, low)
        high = np.where(further, high, middle)
    tangent[rows] = slope_to(low)
    return np.minimum.accumulate(np.append(tangent, 0.0))


def _steps(scores: Array, table: Array) -> tuple[Array, Array]:
    """Return the scores after which the table changes, and its values between them."""
    change = np.flatnonzero(table[1:] != table[:-1])
    return scores[change], table[np.append(0, change + 1)]
