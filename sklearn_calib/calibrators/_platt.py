"""Platt scaling: a logistic curve of two parameters."""

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib import _validation
from sklearn_calib._core._blocks import block_sum
from sklearn_calib._core._grouping import GroupedOutcomes, group_scores
from sklearn_calib._core._maps import Node, logistic
from sklearn_calib._core._newton import fit_logistic
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators._base import BaseCalibrator, check_link
from sklearn_calib.calibrators._certificate import CutoffCertificateMixin, certify
from sklearn_calib.calibrators._log_clip import LogClip

# Least variance within the classes, as a fraction of that of all scores, for the first slope.
_LEAST_WITHIN = 0.1


class PlattCalibrator(LogClip, CutoffCertificateMixin, BaseCalibrator):
    r"""Platt scaling, :math:`h(s) = 1 / (1 + \exp(-(a s + b)))`.

    Slope :math:`a` and intercept :math:`b` minimize the weighted log loss against the smoothed targets of
    Platt, :math:`(N_+ + 1)/(N_+ + 2)` for events and :math:`1/(N_- + 2)` for non-events, with :math:`N_\pm`
    the weights of both classes. With these the fit is finite even under perfect separation. An outcome y
    between 0 and 1 has the target of events times y plus that of non-events times 1 - y.

    Parameters
    ----------
    %(score_link)s

    Attributes
    ----------
    slope_ : float
        :math:`a`. It is negative if events have lower scores than non-events; the map is then decreasing.
    intercept_ : float
        :math:`b`.
    %(min_proba)s
    %(trained_fit)s

    See Also
    --------
    ModifiedPlattCalibrator : With a fallback for misspecified curves.

    Notes
    -----
    Newton's method with a line search [2]_, on standardized scores; O(n log n) for the sort that groups equal
    scores, then O(n) for each step. More than 8192 distinct scores are first pooled, which preserves means
    and variances; from the solution of this smaller problem one or two steps on all samples suffice. If all
    scores are equal, the slope is 0. Decreasing maps have certificates, too.

    %(clipped)s

    References
    ----------
    .. [1] Platt (1999). Probabilistic outputs for support vector machines and comparisons to regularized
       likelihood methods. Advances in Large Margin Classifiers.
    .. [2] Lin, Lin, Weng (2007). A note on Platt's probabilistic outputs for support vector machines. Machine
       Learning 68.

    Examples
    --------
    >>> from sklearn_calib.calibrators import PlattCalibrator
    >>> calibrator = PlattCalibrator(link="identity").fit([-2.0, -1.0, 1.0, 2.0], [0, 1, 0, 1])
    >>> calibrator.transform([-2.0, 0.0, 2.0]).round(3)
    array([0.4, 0.5, 0.6])
    """

    _multiclass = False
    _fractions = True
    slope_: float
    intercept_: float

    def __init__(self, *, link: str = "logit") -> None:
        self.link = link

    def _score_kind(self) -> str:
        return check_link(self.link)

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        self._fit_clip(scores, codes, weight)
        grouped = group_scores(codes, scores, weight)
        z = self._linked(grouped.prob)
        self.slope_, self.intercept_ = fit_platt(z, grouped)
        z = self.slope_ * z + self.intercept_
        certify(self, grouped, weight, expit(z, out=z))

    def _export(self, build: Any) -> Node:
        return logistic(self._floor, self.slope_, self.intercept_)

    def _map_scores(self, scores: Array) -> Array:
        return np.asarray(expit(self.slope_ * self._linked(scores) + self.intercept_))


def or_platt(calibrator: Any) -> Any:
    """Return a calibrator, or the default one for None."""
    return PlattCalibrator() if calibrator is None else calibrator


def fit_platt(scores: Array, grouped: GroupedOutcomes) -> tuple[float, float]:
    """Return slope and intercept of Platt scaling of sorted scores, one per group."""
    target = platt_targets(grouped)
    mean = float(target.sum()) / grouped.total
    log_odds = float(np.log(mean / (1.0 - mean)))
    if scores[0] == scores[-1]:
        return 0.0, log_odds
    n, weight = scores.shape[0], grouped.weight
    center = float(block_sum(n, lambda rows: (scores[rows] * weight[rows]).sum())) / grouped.total
    squares = block_sum(n, lambda rows: (np.square(scores[rows] - center) * weight[rows]).sum())
    spread = float(np.sqrt(squares / grouped.total))
    if spread == 0.0:
        return 0.0, log_odds

    def columns(rows: slice) -> Array:
        part = scores[rows]
        table = np.ones((2, part.shape[0]))
        np.subtract(part, center, out=table[0])
        table[0] /= spread
        return table

    # linear discriminant analysis: difference between the means of events and non-events, over the variance
    # within both
    variance = mean * (1.0 - mean)
    along = float(block_sum(n, lambda rows: (scores[rows] - center) @ target[rows])) / spread
    difference = along / grouped.total / variance
    slope = difference / max(1.0 - variance * difference**2, _LEAST_WITHIN)
    start = np.array([slope, log_odds - slope * difference * (0.5 - mean)])
    fit = fit_logistic(columns, weight, target, start=start)
    if not fit.converged:
        _validation.warn_user(
            "Platt scaling did not converge; the scores may span too many orders of magnitude.",
            ConvergenceWarning,
        )
    slope, intercept = fit.coef.tolist()
    return slope / spread, intercept - slope * (center / spread)


def platt_targets(grouped: GroupedOutcomes) -> Array:
    """Return the sum of targets in each group: 1/(N- + 2) of non-events and (N+ + 1)/(N+ + 2) of events."""
    positive = float(grouped.positives.sum())
    low, high = 1.0 / (grouped.total - positive + 2.0), (positive + 1.0) / (positive + 2.0)
    target: Array = low * grouped.weight + (high - low) * grouped.positives
    return target
