"""Platt scaling: a logistic curve of two parameters, and its solver."""

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._links import expit, logit
from sklearn_calib.calibrators._base import check_link
from sklearn_calib.calibrators._certificate import MonotoneCalibrator

__all__ = [
    "PlattCalibrator",
    "fit_platt",
    "is_long",
    "link_scores",
    "logistic_curve",
    "platt_targets",
    "pool_neighbours",
]

Array = NDArray[np.float64]

_MAX_ITERATIONS = 200
# A step that moves no log-odds by more than this changes each curvature p (1 - p) by less than 30 %, so that
# it needs no line search; and one as small as the second constant leaves an error of about its square.
_SAFE_MOVE = 0.25
_LAST_MOVE = 1e-8
# More groups than this are first pooled into so many, whose solution is the start for all groups.
_COARSE_GROUPS = 4096
# Rows at a time: temporaries stay in cache, and dot products stay below the length from which BLAS libraries
# start threads, which cost more than they gain here and make the last digits depend on the machine.
_CHUNK = 1 << 13


class PlattCalibrator(MonotoneCalibrator):
    r"""Platt scaling, :math:`h(s) = 1 / (1 + \exp(-(a s + b)))`.

    Slope :math:`a` and intercept :math:`b` minimise the weighted log loss against the smoothed targets of
    Platt, :math:`(N_+ + 1)/(N_+ + 2)` for events and :math:`1/(N_- + 2)` for non-events, with :math:`N_\pm`
    the weights of both classes. These keep the fit finite for scores that separate the classes.

    Parameters
    ----------
    link : {"logit", "identity"}, default="logit"
        What the scores are. "logit": probabilities, whose log-odds take the place of :math:`s`; 0 and 1 are
        moved inwards by 2**-53. "identity": any real scores, taken as they are, such as margins of a support
        vector machine; scikit-learn's ``method="sigmoid"`` does this for probabilities too.

    Attributes
    ----------
    slope_ : float
        :math:`a`. It is negative if events have the lower scores; the map is then decreasing.
    intercept_ : float
        :math:`b`.
    training_cutoff_error_ : float
        Cutoff calibration error of the fitted map on the training rows.
    training_event_rate_ : float
        Weighted frequency of ``classes_[1]`` among the training rows.
    training_size_ : float
        Number of training rows; with weights that are not integers, their effective number.
    classes_ : ndarray of shape (2,)
        The sorted class labels.
    n_features_in_ : int
        Number of columns of ``X``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of ``X``, where it has string names.

    See Also
    --------
    ModifiedPlattCalibrator : falls back where two parameters do not suffice.

    Notes
    -----
    Newton's method with a safeguarded line search [2]_, on standardised scores; O(n log n) for the sort that
    groups equal scores, then O(n) a step. Above 4096 distinct scores a coarse solution comes first, so that
    two or three steps on all rows suffice. If all scores are equal, the slope is 0. A decreasing map has a
    certificate as an increasing one has: it, too, is monotone.

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

    slope_: float
    intercept_: float

    def __init__(self, link: str = "logit") -> None:
        self.link = link

    def _score_kind(self) -> str:
        return check_link(self.link)

    def _fit_monotone(self, grouped: GroupedOutcomes) -> None:
        self.slope_, self.intercept_ = fit_platt(link_scores(grouped.prob, self.link), grouped)

    def _map_scores(self, scores: Array) -> Array:
        return logistic_curve(scores, self.link, self.slope_, self.intercept_)


def logistic_curve(scores: Array, link: str, slope: float, intercept: float) -> Array:
    """Return the probability at which the log-odds are linear in the linked scores."""
    mapped: Array = expit(slope * link_scores(scores, link) + intercept)
    return mapped


def link_scores(scores: Array, link: str) -> Array:
    """Return the log-odds of probabilities for link "logit", the scores as they are for "identity"."""
    return logit(scores) if link == "logit" else scores


def fit_platt(scores: Array, grouped: GroupedOutcomes) -> tuple[float, float]:
    """Return slope and intercept of Platt scaling of sorted scores, one per group."""
    target = platt_targets(grouped)
    # standardised in two steps, so that scores near the largest float do not overflow
    magnitude = float(np.abs(scores[[0, -1]]).max())
    unit = scores / magnitude if magnitude > 0 else scores
    centre = float((unit * grouped.weight).sum()) / grouped.total
    x = unit - centre
    spread = float(np.sqrt((x * x * grouped.weight).sum() / grouped.total))
    mean = float(target.sum()) / grouped.total
    start = np.array([0.0, np.log(mean / (1.0 - mean))])
    if scores[0] == scores[-1] or spread == 0.0:
        return 0.0, float(start[1])
    x /= spread
    if is_long(x):
        start = _newton(*pool_neighbours(x, grouped.weight, target), start)
    slope, intercept = _newton(x, grouped.weight, target, start).tolist()
    return slope / spread / magnitude, intercept - slope * (centre / spread)


def platt_targets(grouped: GroupedOutcomes) -> Array:
    """Return the sum of the smoothed targets in each group, (N+ + 1)/(N+ + 2) or 1/(N- + 2) for each row."""
    positive = float(grouped.positives.sum())
    negative = grouped.total - positive
    high, low = (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0)
    target: Array = low * grouped.weight + (high - low) * grouped.positives
    return target


def is_long(x: Array) -> bool:
    """Tell whether a coarse solution should come first."""
    return x.shape[0] > 2 * _COARSE_GROUPS


def pool_neighbours(x: Array, weight: Array, mass: Array) -> tuple[Array, Array, Array]:
    """Pool sorted groups into few: the weighted mean of ``x`` and the sums of ``weight`` and ``mass``."""
    starts = np.linspace(0, x.shape[0], _COARSE_GROUPS, endpoint=False).astype(np.intp)
    pooled = np.add.reduceat(weight, starts)
    return np.add.reduceat(weight * x, starts) / pooled, pooled, np.add.reduceat(mass, starts)


def _newton(x: Array, weight: Array, target: Array, start: Array) -> Array:
    """Minimise sum_i weight_i log(1 + exp(z_i)) - target_i z_i over z = a x + b; return (a, b)."""
    theta = start
    reach = float(np.abs(x).max())
    for _ in range(_MAX_ITERATIONS):
        gradient, hessian = _derivatives(x, weight, target, theta)
        # keeps the system solvable where rounding has made it singular
        hessian[[0, 1], [0, 1]] += 1e-15 * hessian.trace()
        step: Array = np.linalg.solve(hessian, -gradient).astype(np.float64, copy=False)
        move = reach * abs(step[0]) + abs(step[1])
        if move > _SAFE_MOVE:
            step *= _step_length(x, weight, target, theta, step, float(gradient @ step))
        theta = theta + step
        if move <= _LAST_MOVE:
            return theta
    warnings.warn(
        f"Platt scaling did not converge in {_MAX_ITERATIONS} Newton steps; the scores may span too many "
        "orders of magnitude.",
        ConvergenceWarning,
        stacklevel=2,
    )
    return theta


def _step_length(x: Array, weight: Array, target: Array, theta: Array, step: Array, slope: float) -> float:
    """Halve a Newton step until the loss falls by a fixed share of what its slope promises (Armijo)."""
    length, loss = 1.0, _loss(x, weight, target, theta)
    rounding = 1e-14 * abs(loss)
    while _loss(x, weight, target, theta + length * step) > loss + 1e-4 * length * slope + rounding:
        length /= 2.0
        if length < 1e-10:
            break
    return length


def _loss(x: Array, weight: Array, target: Array, theta: Array) -> float:
    total = 0.0
    for start in range(0, x.shape[0], _CHUNK):
        rows = slice(start, start + _CHUNK)
        z = theta[0] * x[rows] + theta[1]
        total += float(weight[rows] @ np.logaddexp(0.0, z) - target[rows] @ z)
    return total


def _derivatives(x: Array, weight: Array, target: Array, theta: Array) -> tuple[Array, Array]:
    """Return gradient and Hessian of the loss, summed in chunks that stay in cache."""
    gradient, hessian = np.zeros(2), np.zeros((2, 2))
    for start in range(0, x.shape[0], _CHUNK):
        rows = slice(start, start + _CHUNK)
        part, w = x[rows], weight[rows]
        p = expit(theta[0] * part + theta[1])
        mass = w * p
        residual = mass - target[rows]
        curvature = mass - mass * p
        tilted = curvature * part
        gradient += residual @ part, residual.sum()
        hessian += [[tilted @ part, tilted.sum()], [0.0, curvature.sum()]]
    hessian[1, 0] = hessian[0, 1]
    return gradient, hessian
