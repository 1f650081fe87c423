"""Penalized logistic splines: the numerical part of the spline calibrator."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from scipy.linalg import solve_triangular
from scipy.optimize import nnls
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib import _validation
from sklearn_calib._core._grouping import group_starts
from sklearn_calib._core._newton import fit_logistic, log_likelihood
from sklearn_calib._typing import Array
from sklearn_calib.calibrators._inverse_temperature import shrunk_temperature

#: Finite penalties that are averaged by AICc, in decreasing order; an infinite one gives a straight line.
PENALTIES = tuple(10.0**k for k in range(3, -4, -1))
# Standard deviation of the normal prior of the logarithm of the slope of an anchor: a factor of two.
_PRIOR_DEVIATION = float(np.log(2.0))
# Weight of evenly spaced positions in the positions of the knots, which keeps neighboring knots apart.
_EVEN_WEIGHT = 0.02
# The last step gains no more than this per unit of weight; as the error is squared, rounding errors remain.
_LAST_GAIN = 1e-12
# Added to the unit diagonals of scaled matrices.
_RIDGE = 1e-14


@dataclass(frozen=True, eq=False)
class LogisticSpline:
    """A fitted cubic spline of log-odds, by its values and slopes at the knots; ``edf`` is a mean."""

    knots: Array
    values: Array
    slopes: Array
    penalty: float
    edf: float


@dataclass(frozen=True, eq=False)
class Anchor:
    """A line with a prior on its slope, averaged with the curve by their losses on ``observed``.

    With an ``origin`` it is zero there, and ``slope`` itself is a second model; without one its intercept is
    free, and the prior is centered at ``slope``.
    """

    slope: float
    origin: float | None
    observed: Array


class _Basis:
    """Cubic B-splines in coordinates in which the penalty is a sum of squares.

    The penalty is sum_j e_j^2 span_j, with e_j the second divided differences of the coefficients over the
    Greville abscissae: linear functions, whose coefficients are linear in these, are not penalized. The
    coordinates are intercept and slope of a line, and all e_j sqrt(span_j); ``coefficients`` maps them to the
    coefficients of the B-splines, and ``increments`` to the differences of these.
    """

    def __init__(self, knots: Array) -> None:
        self.knots = knots
        self.padded = np.concatenate([np.repeat(knots[0], 3), knots, np.repeat(knots[-1], 3)])
        size = knots.shape[0] + 2
        self.greville = (self.padded[1:-3] + self.padded[2:-2] + self.padded[3:-1]) / 3.0
        gaps, spans = np.diff(self.greville), (self.greville[2:] - self.greville[:-2]) / 2.0
        # slopes are sums of e_j span_j, and coefficients are sums of slopes times gaps
        bent = np.zeros((size, size - 2))
        bent[1:] = np.cumsum(np.tri(size - 1, size - 2, -1) * np.sqrt(spans) * gaps[:, np.newaxis], axis=0)
        line = np.column_stack([np.ones(size), self.greville])
        bent -= line @ np.linalg.lstsq(line, bent, rcond=None)[0]
        self.coefficients: Array = np.column_stack([line, bent])
        self.increments: Array = np.diff(self.coefficients, axis=0)
        self.penalized = np.append(np.zeros(2), np.ones(size - 2))

    def at_knots(self, theta: Array) -> tuple[Array, Array]:
        """Return values and slopes of the spline at the knots."""
        spline = BSpline(self.padded, self.coefficients @ theta, 3)
        return spline(self.knots), spline(self.knots, 1)


class _Problem:
    """The loss sum_i weight_i log(1 + exp(f_i)) - target_i f_i and its penalized minimizers.

    ``local`` holds the four B-splines that are not zero at each of the sorted points, and ``first`` the
    number of the first of them. ``least`` holds lower bounds of the increments of the coefficients, or is
    None.
    """

    def __init__(
        self, basis: _Basis, local: Array, first: Array, weight: Array, target: Array, least: Array | None
    ) -> None:
        self.basis, self.weight, self.target, self.least = basis, weight, target, least
        self.local, self.first = local, first
        every = np.zeros((first.shape[0], basis.greville.shape[0]))
        every[np.arange(first.shape[0])[:, np.newaxis], first[:, np.newaxis] + np.arange(4)] = local
        self.design: Array = every @ basis.coefficients

    def aicc(self, thetas: Array, edf: Array) -> Array:
        return aicc(thetas @ self.design.T, self.weight, self.target, edf)

    def solve(self, penalties: Array, start: Array) -> tuple[Array, Array]:
        """Return minimizers of loss + penalty / 2 sum_j e_j^2 span_j, and their numbers of parameters.

        There is a row for each penalty.
        """
        increments, least, coefficients = self.basis.increments, self.least, self.basis.coefficients
        products = (self.local[:, :, np.newaxis] * self.local[:, np.newaxis, :]).reshape(-1, 16)
        starts = group_starts(self.first)
        gaps = [slice(*ends) for ends in pairwise([*starts.tolist(), self.first.shape[0]])]
        inverse = np.empty(0)

        def gram(weight: Array) -> Array:
            found = np.zeros((weight.shape[0], *coefficients.shape))
            for j, rows in zip(self.first[starts].tolist(), gaps, strict=True):
                found[:, j : j + 4, j : j + 4] += (weight[:, rows] @ products[rows]).reshape(-1, 4, 4)
            return coefficients.T @ found @ coefficients

        def bounded(theta: Array, gradient: Array, hessian: Array) -> Array:
            nonlocal inverse
            inverse = _inverse(hessian)
            step = -(inverse @ gradient[:, :, np.newaxis])[:, :, 0]
            if least is not None:
                for m, slack in enumerate(theta @ increments.T - least):
                    step[m], inverse[m] = _bounded_step(inverse[m], step[m], increments, slack)
            return step

        fit = fit_logistic(
            self.design.T,
            self.weight,
            self.target,
            start=start,
            penalty=np.multiply.outer(penalties, self.basis.penalized),
            bound=bounded,
            last_gain=_LAST_GAIN,
            gram=gram,
        )
        if not fit.converged:
            _validation.warn_user("The spline did not converge.", ConvergenceWarning)
        return fit.coef, (inverse * fit.information).sum(axis=(1, 2))


def aicc(f: Array, weight: Array, target: Array, edf: Array) -> Array:
    """Return Akaike's criterion corrected for small samples of each row; infinite for too many parameters."""
    spare = weight.sum() - edf - 1.0
    found = 2.0 * edf * (1.0 + (edf + 1.0) / np.where(spare > 0.0, spare, 1.0))
    return np.where(spare > 0.0, found - 2.0 * log_likelihood(f, weight, target), np.inf)


def _inverse(hessian: Array) -> Array:
    """Invert positive definite matrices after scaling their diagonals to one."""
    scale = 1.0 / np.sqrt(hessian.diagonal(axis1=1, axis2=2))
    both = scale[:, np.newaxis] * scale[:, :, np.newaxis]
    # keeps the system solvable where rounding has made it singular
    inverse = np.linalg.inv(hessian * both + _RIDGE * np.eye(scale.shape[1])) * both
    return np.asarray((inverse + inverse.transpose(0, 2, 1)) / 2.0)


def _bounded_step(inverse: Array, step: Array, increments: Array, slack: Array) -> tuple[Array, Array]:
    """Correct a Newton step such that the increments of the coefficients fall by no more than ``slack``.

    The correction u minimizes u'Hu, H the Hessian, subject to increments @ (step + u) >= -slack. Its
    multipliers m minimize m'Qm / 2 - m'b over m >= 0 with Q = increments @ inverse @ increments' and b the
    shortage of the plain step: non-negative least squares. Also returned is the inverse of the Hessian in the
    directions in which no bound is met.
    """
    shortage = -(slack + increments @ step)
    if shortage.max() <= 0.0:
        return step, inverse
    toward = inverse @ increments.T
    scale = 1.0 / np.sqrt(np.sum(increments * toward.T, axis=1))
    gram = (increments @ toward) * scale * scale[:, np.newaxis]
    gram[np.diag_indices_from(gram)] += _RIDGE
    factor = np.linalg.cholesky(gram)
    aim = solve_triangular(factor, shortage * scale, lower=True)
    multipliers, _ = nnls(factor.T, aim, maxiter=50 * aim.shape[0])
    active = multipliers > 0.0
    met = toward[:, active] * scale[active]
    kept = inverse - met @ np.linalg.solve(gram[np.ix_(active, active)], met.T)
    return step + toward @ (multipliers * scale), kept


def fit_spline(
    x: Array,
    weight: Array,
    target: Array,
    knots: Array,
    line: tuple[float, float],
    penalty: float | None,
    least_slope: float | None,
    anchor: Anchor | None,
) -> LogisticSpline:
    """Fit the spline at a penalty or, for None, average over :data:`PENALTIES` and infinity.

    In the average a fit has a weight in proportion to exp(-AICc / 2), and the average and the ``anchor`` have
    theirs. ``line`` is the fit with infinite penalty, by slope and intercept. With a ``least_slope`` the
    increments of the coefficients are at least those of a line of this slope.
    """
    basis = _Basis(knots)
    least = None if least_slope is None else least_slope * np.diff(basis.greville)
    splines = BSpline.design_matrix(x, basis.padded, 3)
    problem = _Problem(basis, splines.data.reshape(-1, 4), splines.indices[::4], weight, target, least)
    penalties = np.array((np.inf, *PENALTIES) if penalty is None else (penalty,))
    thetas, sizes = np.zeros((penalties.shape[0], basis.greville.shape[0])), np.full(penalties.shape, 2.0)
    thetas[:, :2] = line[1], line[0]
    finite = penalties < np.inf
    if finite.any():
        thetas[finite], sizes[finite] = problem.solve(penalties[finite], thetas[finite])
    akaike = akaike_weights(problem.aicc(thetas, sizes))
    best = float(penalties[akaike.argmax()])
    theta, edf = akaike @ thetas, float(akaike @ sizes)
    if penalty is None and anchor is not None:
        straight, size = _fit_anchor(problem.design, weight, anchor)
        problem.target = anchor.observed
        thetas, sizes = np.array([straight, theta]), np.array([size, edf])
        akaike = akaike_weights(problem.aicc(thetas, sizes))
        theta, edf = akaike @ thetas, float(akaike @ sizes)
    return LogisticSpline(knots, *basis.at_knots(theta), best, edf)


def _fit_anchor(design: Array, weight: Array, anchor: Anchor) -> tuple[Array, float]:
    """Return the parameters of the anchor, and their effective number."""
    x = design[:, 1] - (anchor.origin or 0.0)
    theta = np.zeros(design.shape[1])
    intercept = 0.0
    ones = np.broadcast_to(1.0, (1, x.shape[0]))

    def place(slope: float) -> None:
        """Set the intercept that is best for a slope."""
        nonlocal intercept
        if anchor.origin is None:
            start = np.array([intercept])
            fit = fit_logistic(ones, weight, anchor.observed, start=start, offset=slope * x)
            intercept = float(fit.coef[0])

    def derivatives(slope: float) -> tuple[float, float]:
        place(slope)
        p = expit(slope * x + intercept)
        mass = weight * p
        curvature = mass - mass * p
        moment, second = float(curvature @ x), float(curvature @ (x * x))
        if anchor.origin is None:
            second -= moment * moment / float(curvature.sum())
        return float((mass - anchor.observed) @ x), second

    def loss(slope: float) -> float:
        place(slope)
        return -float(log_likelihood(slope * x + intercept, weight, anchor.observed))

    slope, posterior = shrunk_temperature(derivatives, loss, anchor.slope, _PRIOR_DEVIATION)
    if anchor.origin is None:
        edf = 2.0
        place(slope)
    else:
        slope, edf = posterior * slope + (1.0 - posterior) * anchor.slope, posterior
        intercept = -slope * anchor.origin
    theta[:2] = intercept, slope
    return theta, edf


def akaike_weights(criteria: Array) -> Array:
    """Return weights in proportion to exp(-criterion / 2), all to the first where none is finite."""
    # AICc is infinite for models with nearly as many parameters as samples: use the simplest
    finite = np.array([min(criteria[0], np.finfo(np.float64).max), *criteria[1:]])
    weights = np.exp(-0.5 * (finite - finite.min()))
    return np.asarray(weights / weights.sum())


def mid_quantiles(x: Array, weight: Array, levels: Array) -> Array:
    """Return quantiles of sorted values by interpolating the mid-distribution function."""
    middle = np.cumsum(weight) - weight / 2.0
    return np.asarray(np.interp(levels * weight.sum(), middle, x))


def place_knots(x: Array, weight: Array, n_knots: int) -> Array:
    """Return knots from the smallest to the largest of the sorted values, the inner ones near quantiles."""
    levels = np.linspace(0.0, 1.0, n_knots)
    knots = (1.0 - _EVEN_WEIGHT) * mid_quantiles(x, weight, levels)
    knots += _EVEN_WEIGHT * (x[0] + (x[-1] - x[0]) * levels)
    knots[[0, -1]] = x[0], x[-1]
    return knots


def cells(x: Array, knots: Array, number: int) -> NDArray[np.intp]:
    """Return the first of the sorted values in each of so many cells of equal width between two knots."""
    edges = np.linspace(knots[:-1], knots[1:], number, endpoint=False, axis=1).ravel()
    starts = np.searchsorted(x, edges)
    starts = starts[group_starts(starts)]
    return starts[starts < x.shape[0]]


def evaluate(spline: LogisticSpline, x: Array, monotone: bool) -> Array:
    """Return the log-odds at ``x``: cubic between knots, straight outside.

    If the spline does not decrease, each cubic is a sum of functions that rise from 0 to 1, times the
    differences of its four Bezier coefficients, so that it does not decrease in floating point either. Other
    splines are evaluated by Horner's rule. Outside the knots, a negative slope is replaced by 0, so that the
    extrapolation does not reverse the order of the scores.
    """
    knots, values = spline.knots, spline.values
    gap = knots[1:] - knots[:-1]
    first, last = gap * spline.slopes[:-1] / 3.0, gap * spline.slopes[1:] / 3.0
    middle = values[1:] - values[:-1] - first - last
    interval = np.searchsorted(knots[1:-1], x, side="right")
    t = x - knots[interval]
    t /= gap[interval]
    np.maximum(t, 0.0, out=t)
    np.minimum(t, 1.0, out=t)
    if monotone:
        first, middle, last = (np.maximum(part, 0.0) for part in (first, middle, last))
        u = 1.0 - t
        f: Array = first[interval] * (1.0 - u * u * u)
        f += middle[interval] * (t * t * (3.0 - 2.0 * t))
        f += last[interval] * (t * t * t)
        f += values[interval]
        np.minimum(f, values[interval + 1], out=f)
    else:
        f = (first - 2.0 * middle + last)[interval]
        for coefficient in (3.0 * (middle - first), 3.0 * first, values):
            f *= t
            f += coefficient[interval]
    if x.min() < knots[0]:
        f += max(float(spline.slopes[0]), 0.0) * np.minimum(x - knots[0], 0.0)
    if x.max() > knots[-1]:
        f += max(float(spline.slopes[-1]), 0.0) * np.maximum(x - knots[-1], 0.0)
    return f
