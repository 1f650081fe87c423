"""What calibrators that map log-probabilities linearly share: parameters, folds, the path of penalties."""

import warnings
from abc import abstractmethod
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib._core._grouping import group_scores
from sklearn_calib._core._links import EPS, logit
from sklearn_calib.calibrators._base import BaseCalibrator, check_link
from sklearn_calib.calibrators._softmax import AffineProblem, affine_scores, log_losses, minimise_affine
from sklearn_calib.calibrators._temperature import fit_inverse_temperature

__all__ = ["AffineCalibrator", "check_penalty"]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

_FOLDS = 5
# Logits that agree to so many decimals count as equal: the last bits depend on the order of the classes.
_DIGITS = 8
# The path of penalties ends where the loss of the folds exceeds the least so far by this factor.
_WORSE = 1.01


class AffineCalibrator(BaseCalibrator):
    """Base of calibrators of the form softmax(W x + b), with x log-probabilities and penalties on W and b.

    A subclass defines the features, the penalties, and where they pull to. Two classes are the case K = 2,
    with log-odds t read as the logits (-t/2, t/2).
    """

    link: str
    penalty: Any
    penalty_: float
    coef_: Array
    intercept_: Array
    n_iter_: int

    # Penalties tried by "cv", in decreasing order.
    _path: tuple[float, ...] = tuple(10.0**power for power in range(4, -4, -1))

    @abstractmethod
    def _features(self, logits: Array, beta: float, total: float) -> Array:
        """Return what W is multiplied with, given inverse temperature and total weight of the fit."""

    @abstractmethod
    def _centre(self, n_classes: int, beta: float) -> tuple[Array, Array]:
        """Return the parameters that the penalties pull to, and those to start from."""

    @abstractmethod
    def _penalties(self, penalty: float, n_classes: int, total: float) -> Array:
        """Return the factor of half the square of each parameter's deviation; the loss is a weighted sum."""

    @abstractmethod
    def _keep(self, theta: Array, beta: float, total: float) -> None:
        """Set the fitted attributes."""

    @abstractmethod
    def _map_logits(self, logits: Array) -> Array:
        """Return the scores W x + b of the fitted map."""

    def _check_parameters(self) -> None:
        check_link(self.link)
        check_penalty(self.penalty, "penalty", "cv")

    def _score_kind(self) -> str:
        return "probability" if check_link(self.link) == "probability" else "logit"

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        if scores.ndim == 1:
            grouped = group_scores(codes, scores, weight)
            # one cell for each score and class, so that ties and the order of rows cannot matter
            scores = np.repeat(grouped.prob, 2)
            codes = np.tile(np.array([0, 1], dtype=np.int64), grouped.prob.shape[0])
            weight = np.column_stack([grouped.weight - grouped.positives, grouped.positives]).ravel()
            keep = weight > 0
            scores, codes, weight = scores[keep], codes[keep], weight[keep]
        elif weight is None:
            weight = np.ones(scores.shape[0])
        logits = self._logits(scores)
        self.penalty_ = self._choose(logits, codes, weight) if self.penalty == "cv" else float(self.penalty)
        fit = _Fit(self, logits, codes, weight)
        fit.solve(self.penalty_)
        if not fit.converged:
            warnings.warn(
                f"{type(self).__name__} did not converge in {fit.n_iter} Newton steps. A greater penalty "
                "makes the problem better conditioned.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.n_iter_ = fit.n_iter
        self._keep(fit.theta, fit.beta, fit.total)

    def _map_scores(self, scores: Array) -> Array:
        proba: Array = softmax(self._map_logits(self._logits(scores)), axis=1)
        return proba[:, 1] if scores.ndim == 1 else proba

    def _logits(self, scores: Array) -> Array:
        """Return logits that sum to zero in each row."""
        if scores.ndim == 1:
            half = (scores if self.link == "identity" else logit(scores)) / 2.0
            return np.column_stack([-half, half])
        logits = scores if self.link == "identity" else np.log(np.maximum(scores, EPS))
        centred: Array = logits - logits.mean(axis=1, keepdims=True)
        return centred

    def _choose(self, logits: Array, codes: Codes, weight: Array) -> float:
        """Return the penalty of the path with the least log loss of rows left out, fold by fold."""
        folds = _folds(logits, codes)
        n_folds = int(folds.max()) + 1
        if n_folds == 1:
            return self._path[0]
        parts = []
        for fold in range(n_folds):
            out = folds == fold
            fit = _Fit(self, logits[~out], codes[~out], weight[~out])
            parts.append((fit, self._features(logits[out], fit.beta, fit.total), codes[out], weight[out]))
        best, least = self._path[0], float("inf")
        for penalty in self._path:
            loss = 0.0
            for fit, features, labels, share in parts:
                fit.solve(penalty, rough=True)
                loss += float(log_losses(affine_scores(fit.theta, features), labels) @ share)
            if loss < least:
                best, least = penalty, loss
            elif loss > _WORSE * least:
                break
        return best


class _Fit:
    """Rows with the features of a calibrator, and the solution for one penalty as the start for the next."""

    def __init__(self, calibrator: AffineCalibrator, logits: Array, codes: Codes, weight: Array) -> None:
        self._calibrator, self._codes, self._weight = calibrator, codes, weight
        self.total = float(weight.sum())
        self.beta = fit_inverse_temperature(logits, codes, weight)
        self._features = calibrator._features(logits, self.beta, self.total)
        self._target, self.theta = calibrator._centre(logits.shape[1], self.beta)
        self.n_iter, self.converged = 0, False

    def solve(self, penalty: float, rough: bool = False) -> None:
        penalties = self._calibrator._penalties(penalty, self._features.shape[1], self.total)
        problem = AffineProblem(self._features, self._codes, self._weight, penalties, self._target)
        self.theta, self.n_iter, self.converged = minimise_affine(problem, self.theta, rough)


def _folds(logits: Array, codes: Codes) -> Codes:
    """Return the fold of each row: equal rows share one, and neither order nor names of classes matter.

    Rows are put in the order of their sorted logits and then of the logit of the true class, and dealt out.
    """
    rows = np.arange(codes.shape[0])
    keys = np.column_stack([np.sort(logits, axis=1)[:, ::-1], logits[rows, codes]]).round(_DIGITS)
    order = np.lexsort(keys.T[::-1])
    changes = (keys[order][1:] != keys[order][:-1]).any(axis=1)
    groups = np.empty(rows.shape[0], dtype=np.int64)
    groups[order] = np.concatenate([[0], np.cumsum(changes)])
    folds: Codes = groups % _FOLDS
    return folds


def check_penalty(value: Any, name: str, *options: str | None) -> None:
    """Raise unless ``value`` is one of the options or a finite number that is not negative."""
    if (value is None or isinstance(value, str)) and value in options:
        return
    listed = "".join(f" or {option!r}" for option in options)
    if isinstance(value, str):
        raise ValueError(f"{name} must be a number{listed}, got {value!r}.")
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number{listed}, got {value!r}.")
    if not 0 <= float(value) < float("inf"):
        raise ValueError(f"{name} must be finite and not negative, got {value!r}.")
