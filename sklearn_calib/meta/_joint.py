"""Classifiers that are each fitted to about half of the samples, whose mean score is calibrated once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.parallel import delayed

from sklearn_calib._typing import Array
from sklearn_calib.calibrators import (
    AutoCalibrator,
    BaseCalibrator,
    CertifiedCalibrator,
    LogAverageCalibrator,
    ScalingBinningCalibrator,
)
from sklearn_calib.meta import _responses
from sklearn_calib.meta._folds import Fold, HeldScores, Indices, in_parallel, score_fold

#: The number of parts into which the samples are divided.
PARTS = 6
#: With fewer parts, a model would be fitted to few samples, or a score would come from few models.
FEWEST_PARTS = 4
# Each model leaves out three of six parts. Every part is left out by five of the ten models, every two parts
# by two of them.
_LEFT_OUT = ("012", "013", "024", "035", "045", "125", "134", "145", "234", "235")


@dataclass(frozen=True, eq=False)
class MeanClassifier:
    """Fitted classifiers; the scores are the mean of theirs.

    Attributes
    ----------
    estimators : tuple
        The fitted classifiers.
    classes_ : ndarray of shape (n_classes,)
        The sorted class labels.
    """

    estimators: tuple[Any, ...]
    classes_: NDArray[Any]

    def scores(self, X: Any, method: str) -> Array:
        """Return the mean scores: shape (n, 1), those of ``classes_[1]``, or (n, n_classes)."""
        tables = (
            _responses.class_scores(estimator, X, method, self.classes_) for estimator in self.estimators
        )
        total: Array = reduce(np.add, tables)
        return total / len(self.estimators)

    def predict_proba(self, X: Any) -> Array:
        """Return the mean probabilities, one column per class."""
        mean = self.scores(X, "predict_proba")
        return np.hstack([1.0 - mean, mean]) if mean.shape[1] == 1 else mean

    def decision_function(self, X: Any) -> Array:
        """Return the mean decision scores."""
        mean = self.scores(X, "decision_function")
        return mean[:, 0] if mean.shape[1] == 1 else mean


def suits(calibrator: Any) -> bool:
    """Tell whether a calibrator gains from scores of several models: smooth maps without guarantees."""
    if calibrator is None:
        return True
    if not isinstance(calibrator, BaseCalibrator) or hasattr(calibrator, "predict_interval"):
        return False
    if isinstance(calibrator, AutoCalibrator | CertifiedCalibrator | ScalingBinningCalibrator):
        return False
    if isinstance(calibrator, LogAverageCalibrator):
        return all(map(suits, calibrator.calibrators or ()))
    if hasattr(calibrator, "calibrator"):
        return suits(calibrator.calibrator)
    return not calibrator._may_be_certain()


def members_of(estimator: Any) -> tuple[Any, ...]:
    """Return the classifiers of which one is the mean, or itself alone."""
    return estimator.estimators if isinstance(estimator, MeanClassifier) else (estimator,)


def is_partition(folds: Sequence[Fold], n_samples: int) -> bool:
    """Tell whether each sample is held out exactly once."""
    times = np.bincount(np.concatenate([fold.test for fold in folds]), minlength=n_samples)
    return bool((times == 1).all())


def are_complements(folds: Sequence[Fold], n_samples: int) -> bool:
    """Tell whether each training part has all samples that are not held out, each once."""
    rows = (np.append(fold.train, fold.test) for fold in folds)
    return all((np.bincount(each, minlength=n_samples) == 1).all() for each in rows)


def overlapping_folds(folds: Sequence[Fold], n_samples: int) -> list[Fold]:
    """Return the samples of each model.

    Of a partition into four or five parts every two are left out by a model; six parts give ten models that
    leave out three, and more parts are first merged into six of about the same size. A model is fitted to
    the samples that are in the training parts of all that it leaves out. Other splits are those of a model
    each.
    """
    if not is_partition(folds, n_samples):
        return list(folds)
    if len(folds) > PARTS:
        folds = _merged(folds)
    together = combinations(range(len(folds)), 2) if len(folds) < PARTS else _LEFT_OUT
    return [_left_out([folds[int(k)] for k in parts]) for parts in together]


def _merged(folds: Sequence[Fold]) -> list[Fold]:
    """Return six folds of about the same size, the largest first to the smallest so far."""
    groups: list[list[Fold]] = [[] for _ in range(PARTS)]
    sizes = np.zeros(PARTS, dtype=np.intp)
    for fold in sorted(folds, key=lambda fold: -fold.test.shape[0]):
        smallest = int(sizes.argmin())
        groups[smallest].append(fold)
        sizes[smallest] += fold.test.shape[0]
    return [_left_out(group) for group in groups]


def _left_out(folds: Sequence[Fold]) -> Fold:
    """Return the fold that holds out the samples of several."""
    train = reduce(np.intersect1d, [fold.train for fold in folds])
    return Fold(train, np.sort(np.concatenate([fold.test for fold in folds])))


def joint_scores(
    estimator: Any,
    X: Any,
    target: _responses.Target,
    folds: Sequence[Fold],
    metadata: dict[str, Any],
    order: Sequence[str],
    n_jobs: int | None,
) -> tuple[HeldScores, Indices]:
    """Return the classifiers, the mean of the scores of each sample they have not seen, and the samples."""
    calls = [delayed(score_fold)(clone(estimator), X, target, fold, metadata, order) for fold in folds]
    parts = in_parallel(calls, n_jobs)
    total = np.zeros((target.codes.shape[0], parts[0].scores.shape[1]))
    times = np.zeros(target.codes.shape[0])
    for fold, part in zip(folds, parts, strict=True):
        np.add.at(total, fold.test, part.scores)
        np.add.at(times, fold.test, 1.0)
    rows = np.flatnonzero(times)
    mean = MeanClassifier(tuple(part.estimator for part in parts), target.classes)
    return HeldScores(mean, parts[0].response_method, total[rows] / times[rows, np.newaxis]), rows
