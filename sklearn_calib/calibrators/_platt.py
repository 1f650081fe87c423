"""Platt scaling: a logistic curve of two parameters, and its solver."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._links import expit, logit
from sklearn_calib.calibrators._base import check_link
from sklearn_calib.calibrators._certificate import MonotoneCalibrator
from sklearn_calib.calibrators._remote import balanced_intercept, discount_remote

__all__ = [
    "PlattCalibrator",
    "StandardRows",
    "chunks",
    "fit_linked",
    "fit_platt",
    "is_long",
    "link_scores",
    "logistic_curve",
    "platt_targets",
    "pool_in_pairs",
    "pool_neighbours",
    "power_of_two",
    "target_levels",
]

Array = NDArray[np.float64]

_MAX_ITERATIONS = 200
# A step that moves no log-odds by more than this changes each curvature p (1 - p) by less than 30 %, so that
# it needs no line search; and one as small as the second constant leaves an error of about its square.
_SAFE_MOVE = 0.25
_LAST_MOVE = 1e-8
# The same for a step with the Hessian of pooled scores, whose relative error is far below 1e-4.
_LAST_CHORD = 1e-6
# More groups than this are first pooled into so many, whose solution is the start for all groups.
_COARSE_GROUPS = 4096
_POOLS = 64
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
    groups equal scores, then O(n) a step. More than 8192 distinct scores are first pooled, which keeps their
    means and variances; from the solution of this smaller problem one or two steps on all rows suffice. If
    all scores are equal, the slope is 0. A decreasing map has a certificate as an increasing one has: it,
    too, is monotone.

    *Remote probabilities.* With ``link="logit"`` a score of exactly 0 or 1 has log-odds of about 37 either
    way, and a few of them that are wrong would flatten the whole curve. So beyond the reach :math:`r`, three
    times the .95 quantile by weight of the absolute log-odds :math:`|\ell|` but at least three times
    :math:`\log 19`, the weight of a row is multiplied by :math:`r^3/|\ell|^3`, as in
    :class:`BetaCalibrator`; and :math:`b` is then set so that the map and the targets have the same mean over
    all rows, each counted in full. Without log-odds beyond :math:`r`, and with ``link="identity"`` always,
    this is plain Platt scaling.

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
        self.slope_, self.intercept_ = fit_linked(grouped, self.link)

    def _map_scores(self, scores: Array) -> Array:
        return logistic_curve(scores, self.link, self.slope_, self.intercept_)


def logistic_curve(scores: Array, link: str, slope: float, intercept: float) -> Array:
    """Return the probability at which the log-odds are linear in the linked scores."""
    mapped = np.empty(scores.shape[0])
    for rows in chunks(scores.shape[0]):
        part = mapped[rows]
        np.multiply(link_scores(scores[rows], link), slope, out=part)
        np.add(part, intercept, out=part)
        expit(part, out=part)
    return mapped


def link_scores(scores: Array, link: str) -> Array:
    """Return the log-odds of probabilities for link "logit", the scores as they are for "identity"."""
    return logit(scores) if link == "logit" else scores


def fit_linked(grouped: GroupedOutcomes, link: str) -> tuple[float, float]:
    """Return slope and intercept of Platt scaling; of probabilities, remote ones count less for the slope."""
    z = link_scores(grouped.prob, link)
    discounted = discount_remote(z, grouped) if link == "logit" else None
    if discounted is None:
        return fit_platt(z, grouped)
    slope, intercept = fit_platt(z, discounted)
    return slope, balanced_intercept(slope * z, grouped.weight, platt_targets(grouped), intercept)


def chunks(n: int) -> Iterator[slice]:
    """Yield slices that together cover n rows."""
    for start in range(0, n, _CHUNK):
        yield slice(start, start + _CHUNK)


def fit_platt(scores: Array, grouped: GroupedOutcomes) -> tuple[float, float]:
    """Return slope and intercept of Platt scaling of sorted scores, one per group."""
    low, high = target_levels(grouped)
    mean = float(low * grouped.total + (high - low) * grouped.positives.sum()) / grouped.total
    start = np.array([0.0, np.log(mean / (1.0 - mean))])
    if scores[0] == scores[-1]:
        return 0.0, float(start[1])
    # standardised in two steps, so that scores near the largest float do not overflow
    magnitude = power_of_two(scores)
    if is_long(scores):
        few, mass = pool_in_pairs(scores, grouped.weight, 1.0 / magnitude)
    else:
        few, mass = scores / magnitude, grouped.weight
    centre = float((few * mass).sum()) / grouped.total
    spread = float(np.sqrt((np.square(few - centre) * mass).sum() / grouped.total))
    if spread == 0.0:
        return 0.0, float(start[1])
    rows = StandardRows(scores, grouped.weight, 1.0 / magnitude, centre, 1.0 / spread)
    x = (few - centre) / spread
    linear = low * np.array([mass @ x, mass.sum()]) + (high - low) * rows.moments(grouped.positives)
    theta = _newton(StandardRows(x, mass), linear, start)
    if is_long(scores):
        theta = _newton(rows, linear, theta, StandardRows(x, mass).derivatives(theta)[1])
    slope, intercept = theta.tolist()
    return slope / spread / magnitude, intercept - slope * (centre / spread)


def target_levels(grouped: GroupedOutcomes) -> tuple[float, float]:
    """Return the smoothed targets of a non-event, 1/(N- + 2), and of an event, (N+ + 1)/(N+ + 2)."""
    positive = float(grouped.positives.sum())
    return 1.0 / (grouped.total - positive + 2.0), (positive + 1.0) / (positive + 2.0)


def platt_targets(grouped: GroupedOutcomes) -> Array:
    """Return the sum of the smoothed targets in each group."""
    low, high = target_levels(grouped)
    target: Array = low * grouped.weight + (high - low) * grouped.positives
    return target


def power_of_two(sorted_scores: Array) -> float:
    """Return a power of two near the largest absolute score, whose inverse is a float as well."""
    largest = float(np.abs(sorted_scores[[0, -1]]).max())
    return float(2.0 ** np.clip(np.frexp(largest)[1] - 1, -1000, 1023))


def is_long(x: Array) -> bool:
    """Tell whether a coarse solution should come first."""
    return x.shape[0] > 2 * _COARSE_GROUPS


def pool_neighbours(x: Array, weight: Array, mass: Array) -> tuple[Array, Array, Array]:
    """Pool sorted groups into few: the weighted mean of ``x`` and the sums of ``weight`` and ``mass``."""
    starts = np.linspace(0, x.shape[0], _COARSE_GROUPS, endpoint=False).astype(np.intp)
    pooled = np.add.reduceat(weight, starts)
    return np.add.reduceat(weight * x, starts) / pooled, pooled, np.add.reduceat(mass, starts)


def pool_in_pairs(x: Array, weight: Array, unit: float = 1.0) -> tuple[Array, Array]:
    """Pool sorted groups of ``unit * x`` into pairs of points with the same weight, mean and variance."""
    starts = np.linspace(0, x.shape[0], _COARSE_GROUPS + 1).astype(np.intp)
    pooled, mean, square = np.empty((3, _COARSE_GROUPS))
    for first in range(0, _COARSE_GROUPS, _POOLS):
        pools = slice(first, first + _POOLS)
        rows = slice(starts[first], starts[first + _POOLS])
        local = starts[pools] - starts[first]
        share = weight[rows]
        # moments around the first score of each pool, as scores may be far from 0
        origin = x[starts[pools]] * unit
        part = x[rows] * unit
        part -= np.repeat(origin, np.diff(starts[first : first + _POOLS + 1]))
        pooled[pools] = np.add.reduceat(share, local)
        tilted = share * part
        shift = np.add.reduceat(tilted, local) / pooled[pools]
        tilted *= part
        square[pools] = np.add.reduceat(tilted, local) / pooled[pools] - np.square(shift)
        mean[pools] = origin + shift
    deviation = np.sqrt(np.maximum(square, 0.0))
    return np.concatenate([mean - deviation, mean + deviation]), np.tile(pooled / 2.0, 2)


@dataclass(frozen=True, eq=False)
class StandardRows:
    """Scores s with weights, standardised chunk by chunk: x = (unit * s - centre) * scale."""

    scores: Array
    weight: Array
    unit: float = 1.0
    centre: float = 0.0
    scale: float = 1.0

    def parts(self) -> Iterator[tuple[slice, Array]]:
        for rows in chunks(self.scores.shape[0]):
            x = self.scores[rows] * self.unit
            x -= self.centre
            x *= self.scale
            yield rows, x

    def moments(self, mass: Array) -> Array:
        """Return sum_i mass_i (x_i, 1)."""
        total = np.zeros(2)
        for rows, x in self.parts():
            total += mass[rows] @ x, mass[rows].sum()
        return total

    def reach(self) -> float:
        ends = (np.array([self.scores.min(), self.scores.max()]) * self.unit - self.centre) * self.scale
        return float(np.abs(ends).max())

    def loss(self, theta: Array) -> float:
        """Return sum_i weight_i log(1 + exp(z_i)), z = a x + b."""
        total = 0.0
        for rows, x in self.parts():
            total += float(self.weight[rows] @ np.logaddexp(0.0, theta[0] * x + theta[1]))
        return total

    def gradient(self, theta: Array) -> Array:
        """Return the gradient of the loss."""
        total = np.zeros(2)
        for rows, x in self.parts():
            mass = self._mapped(theta, x)
            mass *= self.weight[rows]
            total += mass @ x, mass.sum()
        return total

    def derivatives(self, theta: Array) -> tuple[Array, Array]:
        """Return gradient and Hessian of the loss."""
        gradient, hessian = np.zeros(2), np.zeros((2, 2))
        for rows, x in self.parts():
            mass = self._mapped(theta, x)
            curvature = 1.0 - mass
            mass *= self.weight[rows]
            curvature *= mass
            gradient += mass @ x, mass.sum()
            hessian[1, 1] += curvature.sum()
            curvature *= x
            hessian[0] += curvature @ x, curvature.sum()
        hessian[1, 0] = hessian[0, 1]
        # keeps the system solvable where rounding has made it singular
        hessian[[0, 1], [0, 1]] += 1e-15 * hessian.trace()
        return gradient, hessian

    def _mapped(self, theta: Array, x: Array) -> Array:
        z = theta[0] * x
        z += theta[1]
        mapped: Array = expit(z, out=z)
        return mapped


def _newton(rows: StandardRows, linear: Array, start: Array, hessian: Array | None = None) -> Array:
    """Minimise the loss of (a, b) less ``linear @ (a, b)``: the targets enter by their moments only.

    With a Hessian that is nearly right, a step that proves small enough needs no other.
    """
    theta, reach = start, rows.reach()
    if hessian is not None:
        step = _solve(hessian, linear - rows.gradient(theta))
        if reach * abs(step[0]) + abs(step[1]) <= _LAST_CHORD:
            return theta + step
    for _ in range(_MAX_ITERATIONS):
        gradient, hessian = rows.derivatives(theta)
        gradient -= linear
        step = _solve(hessian, -gradient)
        move = reach * abs(step[0]) + abs(step[1])
        if move > _SAFE_MOVE:
            step *= _step_length(rows, linear, theta, step, float(gradient @ step))
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


def _solve(hessian: Array, right: Array) -> Array:
    return np.linalg.solve(hessian, right).astype(np.float64, copy=False)


def _step_length(rows: StandardRows, linear: Array, theta: Array, step: Array, slope: float) -> float:
    """Halve a Newton step until the loss falls by a fixed share of what its slope promises (Armijo)."""

    def objective(at: Array) -> float:
        return rows.loss(at) - float(linear @ at)

    length, loss = 1.0, objective(theta)
    rounding = 1e-14 * (abs(loss) + abs(float(linear @ theta)))
    while objective(theta + length * step) > loss + 1e-4 * length * slope + rounding:
        length /= 2.0
        if length < 1e-10:
            break
    return length
