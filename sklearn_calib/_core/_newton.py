r"""Logistic regression on few columns: the likelihood, and the one Newton solver of the package.

Observation i has columns :math:`x_i`, weight :math:`w_i` and sum of outcomes :math:`s_i`, which may be
fractional, and log-odds :math:`z_i = o_i + \theta \cdot x_i`. The solution minimizes

.. math:: \sum_i w_i \log(1 + e^{z_i}) - s_i z_i + \frac12 \sum_j \lambda_j (\theta_j - c_j)^2.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from sklearn_calib._core._blocks import ALL, BLOCK_ROWS, blocks
from sklearn_calib._typing import Array

#: The columns as an array (k, n), or a function from a slice of observations to that part of it.
Columns = Array | Callable[[slice], Array]
#: From coefficients, gradient and Hessian to a step.
Bound = Callable[[Array, Array, Array], Array]
#: From weights of the observations to the weighted sums of products of the columns.
Gram = Callable[[Array], Array]

_MOST_STEPS = 200
_MOST_HALVINGS = 60
# A step must gain this fraction of what its slope predicts (Armijo), but for the rounding of the objective. A
# full step that moves no log-odds by more than 1 gains at least the fraction 3 - e, as third derivatives are
# less than second ones.
_ARMIJO, _ROUNDING = 1e-4, 1e-13
# The first step moves no log-odds farther than this, the next no farther than twice this, and so on: after a
# step that makes all outcomes but a few certain, little would be known about the next.
_FARTHEST = 10.0
# More observations than twice this many are first pooled into so many, whose solution is the start.
_COARSE = 4096
# Columns of at most so many observations are kept, if they are computed by a function.
_KEPT = 1 << 17
# The last step moves no log-odds by more than this, of many observations by more than the second number,
# which saves a pass over them, or gains no more than the third, per unit of weight.
_LAST_MOVE, _LAST_MOVE_OF_MANY, _LAST_GAIN = 1e-7, 3e-5, 1e-20
# Directions of less curvature are flat but for rounding: no step goes there.
_FLAT = 1e-13
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """Coefficients; the Hessian of the loss, without the penalty, before the last step; if there was one."""

    coef: Array
    information: Array
    converged: bool


def log_likelihood(z: Array, weight: Array, positives: Array) -> Array:
    """Return sum_i s_i z_i - w_i log(1 + exp(z_i)), without cancellation, of log-odds (n,) or (m, n)."""
    logs = np.log1p(np.exp(-np.abs(z))) @ weight
    return np.asarray(-logs - (_excess(z, weight, positives) * z).sum(axis=-1))


def fit_logistic(
    columns: Columns,
    weight: Array,
    positives: Array,
    *,
    start: Array,
    penalty: Array | float = 0.0,
    center: Array | float = 0.0,
    offset: Array | None = None,
    bound: Bound | None = None,
    last_gain: float = _LAST_GAIN,
    gram: Gram | None = None,
) -> LogisticFit:
    """Minimize the penalized loss by Newton's method with halved steps.

    It ends with a step that moves no log-odds by more than 1e-7, or 3e-5 with more than 8192 observations:
    then they are right to about 1e-9. If no finite coefficients are best, it ends where a step gains no more
    than ``last_gain`` per unit of weight. Many observations should be ordered such that neighbors are alike:
    these are pooled to find a start from which one or two steps suffice. Where coefficients must stay in a
    convex set, ``bound`` returns the step, given the coefficients, the gradient and the Hessian.

    ``gram`` returns the information from weights (n,) where that is faster than from the columns; there is
    then no pooling. With penalties and starts of shape (m, k), m problems are solved at once, whose steps
    ``bound`` and whose information ``gram`` must return.
    """
    if callable(columns) and weight.shape[0] <= _KEPT:
        # computed once for all steps
        columns = columns(ALL)
    problem = _Problem(columns, weight, positives, penalty, center, offset, bound, last_gain, gram)
    if problem.is_long():
        start = problem.pooled().solve(start).coef
    return problem.solve(start)


def _newton_step(hessian: Array, gradient: Array) -> Array:
    """Return the shortest step -hessian^-1 gradient, in units in which the diagonal is 1."""
    if gradient.shape[0] == 1:
        # faster; and where all outcomes are certain in floating point, downhill as far as is admitted
        return -gradient / np.maximum(hessian[0], 1e-200 * np.abs(gradient) + _TINY)
    scale = 1.0 / np.sqrt(np.maximum(hessian.diagonal(), _TINY))
    values, vectors = np.linalg.eigh(hessian * scale * scale[:, np.newaxis])
    part = (scale * gradient) @ vectors
    part /= np.where(values > _FLAT, values, np.inf)
    step: Array = -scale * (vectors @ part)
    return step


@dataclass(frozen=True, eq=False)
class _Problem:
    columns: Columns
    weight: Array
    positives: Array
    penalty: Array | float
    center: Array | float
    offset: Array | None
    bound: Bound | None
    last_gain: float
    gram: Gram | None = None

    def is_long(self) -> bool:
        return self.weight.shape[0] > 2 * _COARSE and self.gram is None

    @np.errstate(under="ignore")
    def solve(self, theta: Array) -> LogisticFit:
        total, farthest = self.weight.sum(), _FARTHEST
        value: Array | None = None
        ridge = np.asarray(self.penalty)[..., np.newaxis] * np.eye(theta.shape[-1])
        last_move = _LAST_MOVE_OF_MANY if self.is_long() else _LAST_MOVE
        for _ in range(_MOST_STEPS):
            gradient, information = self.derivatives(theta)
            hessian = information + ridge
            step = _newton_step(hessian, gradient) if not self.bound else self.bound(theta, gradient, hessian)
            gain = -(gradient * step).sum(axis=-1)
            move = self.largest_move(step)
            if ((move <= last_move) | (gain <= self.last_gain * total)).all():
                return LogisticFit(theta + step, information, True)
            if (move > 1.0).any():
                longest = np.minimum(1.0, farthest / np.maximum(move, _TINY))
                value = self.value(theta) if value is None else value
                length, value = self.length(theta, step, gain, longest[..., np.newaxis], value)
                step *= length
            else:
                value = None
            theta, farthest = theta + step, 2.0 * farthest
        return LogisticFit(theta, information, False)

    def length(
        self, theta: Array, step: Array, gain: Array, length: Array, value: Array
    ) -> tuple[Array, Array]:
        """Return the first of the length, its half and so on that gains enough, and the objective there."""
        for _ in range(_MOST_HALVINGS):
            limit = value - _ARMIJO * length[..., 0] * gain + _ROUNDING * np.abs(value)
            trial = self.value(theta + length * step)
            enough = trial <= limit
            if enough.all():
                break
            length = np.where(enough[..., np.newaxis], length, length / 2.0)
        return length, trial

    def parts(self) -> Iterable[tuple[slice, Array]]:
        n = self.weight.shape[0]
        if n <= BLOCK_ROWS or self.gram is not None:
            return [(ALL, self.part(ALL))]
        return ((rows, self.part(rows)) for rows in blocks(n))

    def part(self, rows: slice) -> Array:
        return self.columns(rows) if callable(self.columns) else self.columns[:, rows]

    def log_odds(self, theta: Array, rows: slice, part: Array) -> Array:
        z: Array = theta @ part
        if self.offset is not None:
            z += self.offset[rows]
        return z

    def value(self, theta: Array) -> Array:
        """Return the objective."""
        away = theta - self.center
        value = 0.5 * (self.penalty * away * away).sum(axis=-1)
        for rows, part in self.parts():
            z = self.log_odds(theta, rows, part)
            value -= log_likelihood(z, self.weight[rows], self.positives[rows])
        return value

    def derivatives(self, theta: Array) -> tuple[Array, Array]:
        """Return the gradient of the objective, and its Hessian without the penalty."""
        gradient = self.penalty * (theta - self.center)
        information = np.zeros((*theta.shape, theta.shape[-1]))
        for rows, part in self.parts():
            z, weight = self.log_odds(theta, rows, part), self.weight[rows]
            # p and 1 - p without cancellation: the smaller of them is small / (1 + small)
            small = np.exp(-np.abs(z))
            larger = 1.0 / (1.0 + small)
            small *= larger
            small *= weight
            residual = _excess(z, weight, self.positives[rows])
            residual -= np.copysign(small, z)
            gradient += residual @ part.T
            small *= larger
            information += (part * small) @ part.T if self.gram is None else self.gram(small)
        return gradient, information

    def largest_move(self, step: Array) -> Array:
        moves = [np.abs(step @ part).max(axis=-1) for _, part in self.parts()]
        return moves[0] if len(moves) == 1 else np.max(moves, axis=0)

    def pooled(self) -> "_Problem":
        """Return the problem of neighbors pooled at their weighted means."""
        n = self.weight.shape[0]
        edges = np.linspace(0, n, _COARSE + 1).astype(np.intp)
        pools, found = max(1, _COARSE * BLOCK_ROWS // n), []
        for first in range(0, _COARSE, pools):
            starts = edges[first : first + pools + 1]
            rows = slice(starts[0], starts[-1])
            part = self.part(rows)
            table = np.empty((part.shape[0] + 3, part.shape[1]))
            table[0] = weight = self.weight[rows]
            table[1] = self.positives[rows]
            table[2] = 0.0 if self.offset is None else weight * self.offset[rows]
            np.multiply(part, weight, out=table[3:])
            found.append(np.add.reduceat(table, starts[:-1] - starts[0], axis=1))
        weight, positives, *means = np.concatenate(found, axis=1)
        offset, *columns = np.array(means) / weight
        return _Problem(
            np.array(columns),
            weight,
            positives,
            self.penalty,
            self.center,
            offset,
            self.bound,
            self.last_gain,
        )


def _excess(z: Array, weight: Array, positives: Array) -> Array:
    # w log(1 + exp(z)) - s z = w log(1 + exp(-|z|)) + (w [z > 0] - s) z
    # the sign bit, as of -0.0 in copysign, too
    excess = np.where(np.signbit(z), 0.0, weight)
    excess -= positives
    return excess
