"""Logistic regression on one score: the solver of Platt and temperature scaling, and its parts."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib._core._links import expit

__all__ = [
    "StandardRows",
    "chunks",
    "is_long",
    "minimise_logistic",
    "pool_in_pairs",
    "pool_neighbours",
    "power_of_two",
    "step_length",
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


def chunks(n: int) -> Iterator[slice]:
    """Yield slices that together cover n rows."""
    for start in range(0, n, _CHUNK):
        yield slice(start, start + _CHUNK)


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


def minimise_logistic(rows: StandardRows, linear: Array, start: Array, hessian: Array | None = None) -> Array:
    """Minimise the loss of (a, b) less ``linear @ (a, b)``: the targets enter by their moments only.

    With a Hessian that is nearly right, a step that proves small enough needs no other.
    """

    def objective(at: Array) -> float:
        return rows.loss(at) - float(linear @ at)

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
            step *= step_length(objective, theta, step, float(gradient @ step), abs(float(linear @ theta)))
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


def step_length(
    objective: Callable[[Array], float], theta: Array, step: Array, slope: float, cancelled: float = 0.0
) -> float:
    """Halve a Newton step until the objective falls by a fixed share of what its slope promises (Armijo).

    ``cancelled`` is the size of terms that cancel in the objective, and leave their rounding in it.
    """
    length, start = 1.0, objective(theta)
    rounding = 1e-14 * (abs(start) + cancelled)
    while length > 1e-10 and objective(theta + length * step) > start + 1e-4 * length * slope + rounding:
        length /= 2.0
    return length
