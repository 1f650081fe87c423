"""Penalized softmax regression by Newton's method, for vector, matrix and Dirichlet calibration.

The scores of a sample with features x in R^K are W x + b, and the parameters are held as one array: [W, b] of
shape (K, K + 1), or, for a diagonal W, its diagonal and b as two columns, shape (K, 2).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sklearn_calib._core._blocks import blocks
from sklearn_calib._typing import Array, Codes

_MAX_NEWTON = 100
_MAX_CONJUGATE = 500
_MAX_HALVINGS = 40
# Iterations end where no derivative exceeds this, per unit of weight and of the typical feature; one more
# Newton step follows, whose conjugate gradients end at _LAST_RESIDUAL of the gradient.
_GRADIENT = 1e-9
_ROUGH_GRADIENT = 1e-6
_LAST_RESIDUAL = 1e-5
_ARMIJO = 1e-4
# Changes of the objective below this fraction of it are rounding errors.
_NOISE = 1e-13
_EPS = 2.0**-53
# Largest number of parameters whose second derivatives are all computed for the evidence.
_MOST_EXACT = 250
# Entries of its temporary arrays.
_WORK = 1 << 16
# Directions with less curvature, as a fraction of the largest, change all classes equally and have no effect.
_FLAT = 1e-13
# Preconditioner: number of conjugate gradient iterations after which it is recomputed; number of classes
# above which it is diagonal; fraction of the largest p (1 - p) below which blocks ignore samples; ridge of
# the blocks, as a fraction of the largest diagonal entry.
_MANY_CONJUGATE = 20
_MAX_BLOCKS = 30
_NO_DOUBT = 1e-3
_JITTER = 1e-10


@dataclass(frozen=True, eq=False)
class AffinePoint:
    """Parameters, with probabilities, summed log loss, and largest absolute score of the samples."""

    theta: Array
    proba: Array
    loss: float
    largest: float


@dataclass(frozen=True, eq=False)
class AffineProblem:
    """Minimize sum_i weight_i (log sum_k exp s_ik - s_iy) + sum_j penalty_j (theta_j - center_j)^2 / 2."""

    features: Array
    codes: Codes
    weight: Array
    penalty: Array
    center: Array

    def at(self, theta: Array) -> AffinePoint:
        scores = affine_scores(theta, self.features)
        losses, proba = losses_and_softmax(scores, self.codes)
        return AffinePoint(theta, proba, float(losses @ self.weight), float(np.abs(scores).max()))

    def value(self, point: AffinePoint) -> float:
        """Return the objective."""
        return point.loss + float((self.penalty * np.square(point.theta - self.center)).sum()) / 2.0

    def gradient(self, point: AffinePoint) -> Array:
        """Return the derivative of the objective."""
        residual = point.proba.copy(order="K")
        residual[np.arange(self.codes.shape[0]), self.codes] -= 1.0
        residual *= self.weight[:, np.newaxis]
        return _adjoint(residual, self.features, point.theta) + self.penalty * (point.theta - self.center)

    def curvature(self, direction: Array, proba: Array) -> Array:
        """Return the second derivative at the probabilities, times a direction."""
        moved = affine_scores(direction, self.features)
        moved -= np.einsum("ij,ij->i", moved, proba)[:, np.newaxis]
        moved *= proba
        moved *= self.weight[:, np.newaxis]
        return _adjoint(moved, self.features, direction) + self.penalty * direction

    def log_evidence_ratio(self, gain: float, information: Array) -> float:
        """Return log evidence with the penalty as a normal prior, minus that of fixed parameters ``center``.

        By Laplace's approximation at the minimizer, with the second derivative of the loss there, and the
        gain in the objective.
        """
        deviation = (1.0 / np.sqrt(self.penalty)).reshape(information.shape[:2])
        bend = information * deviation[:, :, np.newaxis] * deviation[:, np.newaxis, :]
        return gain - float(np.linalg.slogdet(np.eye(bend.shape[-1]) + bend)[1].sum()) / 2.0

    def information(self, proba: Array) -> Array:
        """Return the second derivative of the loss by all parameters as one block, of shape (1, m, m).

        With many parameters it is replaced by its diagonal blocks, one for each class, of shape (K, m, m).
        """
        n_classes, size = self.penalty.shape
        if n_classes * size > _MOST_EXACT:
            return _class_blocks(proba * (1.0 - proba) * self.weight[:, np.newaxis], self.features)
        full = size > 2
        found = _products(proba, self.features, self.weight) if full else self._diagonal_information(proba)
        return found.reshape(1, n_classes * size, n_classes * size)

    def _diagonal_information(self, proba: Array) -> Array:
        """Return the second derivative of the loss by a diagonal W and b."""
        n_classes = proba.shape[1]
        found = np.zeros((n_classes, 2, n_classes, 2))
        every, own = found.reshape(2 * n_classes, -1), np.arange(n_classes)
        for rows in blocks(proba.shape[0], _WORK, 2 * n_classes):
            # samples last: loops over a few features are slow
            root = np.sqrt(self.weight[rows])
            x = np.stack((root * self.features[rows].T, np.broadcast_to(root, (n_classes, root.shape[0]))), 1)
            moved = proba[rows].T[:, np.newaxis] * x
            flat = moved.reshape(2 * n_classes, -1)
            # a matrix times itself takes half the time of other products
            every -= flat @ flat.T
            found[own, :, own, :] += moved @ x.transpose(0, 2, 1)
        return found


class Preconditioner:
    """Approximate inverse of the Hessian, reused between steps and penalties.

    It is exact for the probabilities at which it was computed; with many parameters it inverts the diagonal
    blocks, one for each class, or, for a diagonal W or many classes, only the diagonal. The contribution of
    the samples is computed at the first use and after a step with many conjugate gradient iterations; the
    penalties are those of the problem.
    """

    def __init__(self) -> None:
        self._found: Array | None = None
        self._ready: tuple[AffineProblem, Callable[[Array], Array], float] | None = None

    def report(self, iterations: int) -> None:
        """Store the number of conjugate gradient iterations of a step."""
        if iterations > _MANY_CONJUGATE:
            self._found = None

    def update(self, information: Array) -> None:
        """Set the contribution of the samples."""
        self._found, self._ready = information, None

    def prepare(self, problem: AffineProblem, proba: Array) -> tuple[Callable[[Array], Array], float]:
        """Return the approximate inverse, and the largest entry of the diagonal."""
        found = self._found
        if found is None:
            n_classes, size = problem.penalty.shape
            few = n_classes * size <= _MOST_EXACT or (size > 2 and n_classes <= _MAX_BLOCKS)
            found = problem.information(proba) if few else _diagonal(problem, proba)
            self.update(found)
        if self._ready is None or self._ready[0] is not problem:
            self._ready = problem, *_inverse(found, problem.penalty)
        return self._ready[1:]


def _diagonal(problem: AffineProblem, proba: Array) -> Array:
    """Return the diagonal of the second derivative of the loss, in the shape of the parameters."""
    spread = proba * (1.0 - proba) * problem.weight[:, np.newaxis]
    return _adjoint(spread, np.square(problem.features), problem.penalty)


def _inverse(found: Array, penalty: Array) -> tuple[Callable[[Array], Array], float]:
    """Return the inverse of a diagonal, or of blocks, plus the penalties, and the largest diagonal entry."""
    if found.ndim == 2:
        entries = found + penalty
        largest = float(entries.max())
        entries = np.maximum(entries, _JITTER * largest + np.finfo(np.float64).tiny)
        return (lambda residual: residual / entries), largest
    matrices, own = found.copy(), np.arange(found.shape[1])
    matrices[:, own, own] += penalty.reshape(found.shape[:2])
    largest = float(matrices[:, own, own].max())
    matrices[:, own, own] += _JITTER * largest + np.finfo(np.float64).tiny
    inverse = np.linalg.inv(matrices)
    column = (*found.shape[:2], 1)
    return (lambda residual: (inverse @ residual.reshape(column)).reshape(residual.shape)), largest


def _products(proba: Array, features: Array, weight: Array) -> Array:
    """Return sum_i w_i (p_ik [k = m] - p_ik p_im) x_i x_i^T for classes k and m, with a 1 appended to x.

    Products of two probabilities, and of two features, are the same in either order. As probabilities sum to
    1, p_ik is the sum of the p_ik p_im over m.
    """
    n_classes = proba.shape[1]
    (k, m), (i, j) = np.triu_indices(n_classes), np.triu_indices(n_classes + 1)
    sums = np.zeros((k.shape[0], i.shape[0]))
    for rows in blocks(proba.shape[0], _WORK, (n_classes + 1) ** 2):
        # samples last, as the product is of long rows
        x, p = np.vstack((features[rows].T, np.ones(weight[rows].shape[0]))), proba[rows].T
        sums += ((p * weight[rows])[k] * p[m]) @ (x[i] * x[j]).T
    pair, place = np.empty((n_classes,) * 2, np.intp), np.empty((n_classes + 1,) * 2, np.intp)
    pair[k, m] = pair[m, k] = np.arange(k.shape[0])
    place[i, j] = place[j, i] = np.arange(i.shape[0])
    found = -sums[pair[:, np.newaxis, :, np.newaxis], place[:, np.newaxis, :]]
    own = np.arange(n_classes)
    found[own, :, own, :] -= found.sum(axis=2)
    return found


def _class_blocks(spread: Array, features: Array) -> Array:
    """Return sum_i spread_ik x_i x_i^T for each class, with a 1 appended to x."""
    n_classes = spread.shape[1]
    every = np.column_stack([features, np.ones(features.shape[0])])
    blocks = np.empty((n_classes, n_classes + 1, n_classes + 1))
    for k in range(n_classes):
        rows = np.flatnonzero(spread[:, k] > _NO_DOUBT * spread[:, k].max())
        part = every[rows]
        blocks[k] = part.T @ (part * spread[rows, k, np.newaxis])
    return blocks


def affine_scores(theta: Array, features: Array) -> Array:
    """Return W x + b of every sample."""
    full = theta.shape[1] == theta.shape[0] + 1
    scores = linear_map(features, theta[:, :-1]) if full else features * theta[:, 0]
    scores += theta[:, -1]
    return scores


def log_losses(scores: Array, codes: Codes) -> Array:
    """Return -log of the softmax of the true class for each sample."""
    return losses_and_softmax(scores, codes)[0]


@dataclass(frozen=True, eq=False)
class AffineMinimum:
    """Minimizer, and the objective there; Newton steps, and whether they converged."""

    point: AffinePoint
    value: float
    n_iter: int
    converged: bool


def minimize_affine(
    problem: AffineProblem,
    start: AffinePoint,
    rough: bool = False,
    preconditioner: Preconditioner | None = None,
) -> AffineMinimum:
    """Minimize the objective.

    Truncated Newton: each step by conjugate gradients, preconditioned, to a residual that
    shrinks with the gradient (Nocedal and Wright, Numerical Optimization, Algorithm 7.1), then halved until
    the objective decreases. ``rough`` is for comparisons of penalties. A ``preconditioner`` can be reused for
    another penalty.
    """
    preconditioner = Preconditioner() if preconditioner is None else preconditioner
    point, value = start, problem.value(start)
    total = float(problem.weight.sum())
    typical = float(np.sqrt(np.square(problem.features).mean()))
    small = (_ROUGH_GRADIENT if rough else _GRADIENT) * total * max(1.0, typical)
    first, slope = 0.0, -np.inf
    for step in range(1, _MAX_NEWTON + 1):
        gradient = problem.gradient(point)
        size = float(np.abs(gradient).max())
        # with large penalties the derivative stops decreasing when the objective is constant up to rounding
        noise = _NOISE * abs(value) + _EPS * point.largest * total
        last = size <= small or -slope <= noise
        first = max(first, size)
        if size == 0.0 or (last and rough):
            return AffineMinimum(point, value, step - 1, True)
        residual = _LAST_RESIDUAL if last else min(0.3, float(np.sqrt(size / first)))
        move = _conjugate_gradients(problem, preconditioner, point.proba, gradient, residual)
        slope = float((gradient * move).sum())
        factor = 1.0
        for _ in range(_MAX_HALVINGS):
            trial = problem.at(point.theta + factor * move)
            reached = problem.value(trial)
            # the last bits of the objective are rounding errors
            if reached <= value + _ARMIJO * factor * slope + noise:
                point, value = trial, reached
                break
            factor /= 2.0
        else:
            return AffineMinimum(point, value, step, last or -slope <= noise)
        if last:
            return AffineMinimum(point, value, step, True)
    return AffineMinimum(point, value, _MAX_NEWTON, False)


def _conjugate_gradients(
    problem: AffineProblem, preconditioner: Preconditioner, proba: Array, gradient: Array, tolerance: float
) -> Array:
    """Return an approximate Newton step, a descent direction for any number of iterations."""
    invert, largest = preconditioner.prepare(problem, proba)
    flat = _FLAT * largest
    move = np.zeros_like(gradient)
    residual = -gradient
    scaled = invert(residual)
    direction = scaled
    product = float((residual * scaled).sum())
    goal = tolerance**2 * product
    iterations = 0
    while iterations < _MAX_CONJUGATE:
        iterations += 1
        curved = problem.curvature(direction, proba)
        bend = float((direction * curved).sum())
        if bend <= flat * float(np.square(direction).sum()):
            break
        length = product / bend
        move = move + length * direction
        residual = residual - length * curved
        scaled = invert(residual)
        before, product = product, float((residual * scaled).sum())
        if product <= goal:
            break
        direction = scaled + (product / before) * direction
    preconditioner.report(iterations)
    return move


def _adjoint(rows: Array, features: Array, like: Array) -> Array:
    """Return the transpose of ``affine_scores`` applied to an array (n, K), in the shape of ``like``."""
    found = np.empty(like.shape)
    if like.shape[1] == like.shape[0] + 1:
        np.matmul(rows.T, features, out=found[:, :-1])
    else:
        found[:, 0] = np.einsum("ij,ij->j", rows, features)
    found[:, -1] = rows.sum(axis=0)
    return found


def linear_map(features: Array, coef: Array) -> Array:
    """Return W x of every sample, with contiguous classes."""
    return np.asarray((coef @ features.T).T)


@np.errstate(under="ignore")
def losses_and_softmax(scores: Array, codes: Codes) -> tuple[Array, Array]:
    """Return -log of the softmax of the true class, and the probabilities, of scores (n, K)."""
    largest = scores.max(axis=1)
    proba = scores - largest[:, np.newaxis]
    np.exp(proba, out=proba)
    total = proba.sum(axis=1)
    proba /= total[:, np.newaxis]
    return np.log(total) + largest - scores[np.arange(codes.shape[0]), codes], proba


def softmax(scores: Array) -> Array:
    """Return the probabilities of scores (n, K)."""
    proba = scores - scores.max(axis=1, keepdims=True)
    np.exp(proba, out=proba)
    proba /= proba.sum(axis=1, keepdims=True)
    return proba
