"""Base class of calibrators that map log-probabilities linearly: parameters, folds, penalty path."""

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib import _validation
from sklearn_calib._core._grouping import group_scores
from sklearn_calib._core._maps import NUMPY, Softmax, logistic
from sklearn_calib._core._null import TIE
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators._base import BaseCalibrator, check_link
from sklearn_calib.calibrators._inverse_temperature import fit_inverse_temperature, fit_shrunk_temperature
from sklearn_calib.calibrators._log_clip import LogClip
from sklearn_calib.calibrators._softmax import (
    AffineProblem,
    Preconditioner,
    affine_scores,
    log_losses,
    minimize_affine,
)

_FOLDS = 3
# Logits are compared after rounding to this many decimals: the last bits depend on the order of the classes.
_DIGITS = 8
# "auto" tries the multiples by powers of ten, from this one down to one, of the least penalty, which for a
# penalty per unit of weight is the following number, divided by the total weight.
_DECADES = 5
_LEAST = 500.0
# The best of them is compared with its multiples by this factor and its inverse.
_HALF_STEP = 10.0**0.5
# A greater penalty is preferred if its mean loss exceeds the least by no more than so many standard errors of
# the difference; the path is left where the excess is more than the second number of them.
_AS_GOOD = 0.5
_GIVE_UP = 2.0


class AffineCalibrator(LogClip, BaseCalibrator):
    """Base of calibrators of the form softmax(W x + b), with x log-probabilities and penalties on W and b.

    A subclass defines the penalties and the map. By default x are the logits times the inverse temperature,
    and the parameters are shrunk to W = I and b = 0. Binary problems are the case K = 2, with logits (-t/2,
    t/2) for log-odds t.
    """

    link: str
    penalty: Any
    shrink_temperature: bool = False
    penalty_: float
    coef_: Array
    intercept_: Array
    n_iter_: int

    def _features(self, logits: Array, beta: float, total: float) -> Array:
        """Return the features x, given inverse temperature and total weight of the fit."""
        return beta * logits

    def _center(self, n_classes: int, beta: float) -> Array:
        """Return the parameters with penalty 0, which are the initial ones."""
        return np.eye(n_classes, n_classes + 1)

    @abstractmethod
    def _penalties(self, penalty: float, n_classes: int, total: float) -> Array:
        """Return the factor of half the square of each parameter's deviation; the loss is a weighted sum."""

    def _least_penalty(self, n_classes: int, total: float) -> float:
        """Return the smallest penalty that is evaluated, which decreases with the number of samples."""
        return _LEAST / total

    def _solve(self, fit: "AffineFit") -> None:
        """Find the parameters."""
        fit.solve(self.penalty_)

    def _keep(self, fit: "AffineFit") -> None:
        """Set the fitted attributes, given the solution."""
        self.coef_ = fit.theta[:, :-1].copy()
        self.intercept_ = fit.theta[:, -1].copy()

    def _inner(self) -> tuple[float, float, bool]:
        """Return ``beta``, ``share`` and ``center`` of the node of the map, which make x of the scores."""
        return 0.0, 1.0, True

    def _check_parameters(self) -> None:
        check_link(self.link)
        if isinstance(self.penalty, str):
            _validation.check_option(self.penalty, "penalty", ("auto",), "a number")
        else:
            _validation.check_not_negative(self.penalty, "penalty")
        _validation.check_flag(self.shrink_temperature, "shrink_temperature")

    def _score_kind(self) -> str:
        return check_link(self.link, "logit")

    def _needs_every_class(self) -> bool:
        # without a penalty the intercept of an absent class has no finite optimum
        return not isinstance(self.penalty, str) and float(self.penalty) == 0.0

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        self._fit_clip(scores, codes, weight)
        if scores.ndim == 1:
            # sums over grouped samples do not depend on their order
            codes, scores, weight = group_scores(codes, scores, weight).rows()
        else:
            weight = np.ones(scores.shape[0]) if weight is None else weight
        # contiguous classes: sums over a short contiguous axis are slow
        logits = np.asfortranarray(self._logits(scores))
        if self.shrink_temperature:
            beta = fit_shrunk_temperature(logits, codes, weight, self.link == "logit")
        else:
            beta = fit_inverse_temperature(logits, codes, weight)
        chosen = isinstance(self.penalty, str)
        self.penalty_ = self._choose(logits, codes, weight, beta) if chosen else float(self.penalty)
        fit = AffineFit(self, logits, codes, weight, beta)
        self._solve(fit)
        if not fit.converged:
            _validation.warn_user(
                f"{type(self).__name__} did not converge in {fit.n_iter} Newton steps. A larger penalty "
                "makes the problem better conditioned.",
                ConvergenceWarning,
            )
        self.n_iter_ = fit.n_iter
        self._keep(fit)

    def _softmax(self, floor: float) -> Softmax:
        """Return the map of logits, or of probabilities that are clipped at ``floor``."""
        return Softmax(floor, *self._inner(), self.coef_.copy(), self.intercept_.copy())

    def _export(self, build: Any) -> Any:
        if self.classes_.shape[0] > 2:
            return self._softmax(self._floor)
        if self._inner()[0] > 0.0:
            return build.composed(self, [])
        coef, intercept = self.coef_, self.intercept_
        coef = np.diag(coef) if coef.ndim == 1 else coef
        # the logits of the classes are minus and plus half the log-odds
        slope = float(coef[1] @ [-0.5, 0.5] - coef[0] @ [-0.5, 0.5])
        return logistic(self._floor, slope, float(intercept[1] - intercept[0]))

    def _map_scores(self, scores: Array) -> Array:
        if scores.ndim == 1:
            proba = self._softmax(0.0).evaluate(NUMPY, self._logits(scores).T)
            return np.asarray(proba[1])
        return np.asarray(self._softmax(self._floor).evaluate(NUMPY, scores.T).T)

    def _logits(self, scores: Array) -> Array:
        """Return logits that sum to zero in each sample."""
        logits = self._linked(scores)
        if scores.ndim == 1:
            half = logits / 2.0
            return np.stack((-half, half)).T
        centered: Array = logits - logits.mean(axis=1, keepdims=True)
        return centered

    def _choose(self, logits: Array, codes: Codes, weight: Array, beta: float) -> float:
        """Return the largest penalty whose loss exceeds the smallest by at most half a standard error."""
        total = float(weight.sum())
        least_penalty = self._least_penalty(logits.shape[1], total)
        path = [least_penalty * 10.0**power for power in range(_DECADES, -1, -1)]
        fractions = fold_fractions(logits, codes, weight)
        # one temperature for all folds, so that only the penalties differ
        parts, counts = [], []
        for fraction in fractions.T:
            rest, out = np.flatnonzero(fraction < 1), np.flatnonzero(fraction > 0)
            if rest.size == 0:
                return path[0]
            fit = AffineFit(self, _rows(logits, rest), codes[rest], (weight * (1 - fraction))[rest], beta)
            parts.append((fit, self._features(_rows(logits, out), beta, fit.total), codes[out]))
            counts.append((weight * fraction)[out])
        count = np.concatenate(counts)

        def left_out(penalty: float) -> Array:
            for fit, _, _ in parts:
                fit.solve(penalty, rough=True)
            return np.concatenate(
                [log_losses(affine_scores(fit.theta, features), labels) for fit, features, labels in parts]
            )

        found: dict[float, Array] = {}
        best, least = path[0], float("inf")
        for penalty in path:
            found[penalty] = left_out(penalty)
            loss = float(found[penalty] @ count)
            if loss < least:
                best, least = penalty, loss
            elif not _is_as_good(found[penalty], found[best], count, _GIVE_UP):
                break
        for penalty in (best / _HALF_STEP, best * _HALF_STEP):
            if path[-1] < penalty < path[0]:
                found[penalty] = left_out(penalty)
        lowest = min(found.values(), key=lambda losses: float(losses @ count))
        return max(penalty for penalty in found if _is_as_good(found[penalty], lowest, count, _AS_GOOD))


class AffineFit:
    """Samples with the features of a calibrator, and the solution of one penalty as the next start."""

    def __init__(
        self, calibrator: AffineCalibrator, logits: Array, codes: Codes, weight: Array, beta: float
    ) -> None:
        self._calibrator, self.codes, self.weight = calibrator, codes, weight
        self.total, self.beta = float(weight.sum()), beta
        self.features = calibrator._features(logits, self.beta, self.total)
        self._target = self.theta = calibrator._center(logits.shape[1], self.beta)
        self.n_iter, self.converged = 0, True
        self._preconditioner = Preconditioner()

    def solve(self, penalty: float, rough: bool = False) -> None:
        penalties = self._calibrator._penalties(penalty, self.features.shape[1], self.total)
        self.problem = AffineProblem(self.features, self.codes, self.weight, penalties, self._target)
        found = minimize_affine(self.problem, self.problem.at(self.theta), rough, self._preconditioner)
        self.theta, self.n_iter, self.converged = found.point.theta, found.n_iter, found.converged


def _rows(logits: Array, rows: NDArray[np.intp]) -> Array:
    return np.asfortranarray(logits[rows])


def _is_as_good(losses: Array, best: Array, weight: Array, errors: float) -> bool:
    """Tell whether the mean loss exceeds the best by at most ``errors`` standard errors, or by rounding."""
    total = float(weight.sum())
    excess = losses - best
    mean = float(excess @ weight) / total
    error = float(np.sqrt(np.square(excess - mean) @ weight)) / total
    return mean <= errors * error + TIE * float(best @ weight) / total


def fold_fractions(logits: Array, codes: Codes, weight: Array) -> Array:
    """Return the fraction of each sample that each fold holds out, invariant to order and names of classes.

    Groups of equal samples, sorted by their sorted logits and then by the logit of the true class, are
    assigned to the folds in turn; groups with sufficient weight are divided among all folds.
    """
    rows = np.arange(codes.shape[0])
    keys = np.column_stack([np.sort(logits, axis=1)[:, ::-1], logits[rows, codes]]).round(_DIGITS)
    # by the first key, and those that are equal in it by all of them
    order = np.argsort(keys[:, 0], kind="stable")
    equal = np.diff(keys[order, 0]) == 0.0
    tied = np.append(equal, False) | np.append(False, equal)
    part = order[tied]
    order[tied] = part[np.lexsort(keys[part].T[::-1])]
    ranked = keys[order]
    changes = (ranked[1:] != ranked[:-1]).any(axis=1)
    groups = np.empty(rows.shape[0], dtype=np.int64)
    groups[order] = np.concatenate([[0], np.cumsum(changes)])
    fractions = np.zeros((rows.shape[0], _FOLDS))
    fractions[rows, groups % _FOLDS] = 1.0
    fractions[np.bincount(groups, weights=weight)[groups] >= _FOLDS] = 1.0 / _FOLDS
    return fractions[:, fractions.any(axis=0)]
