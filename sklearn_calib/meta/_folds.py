"""Held-out scores: the split of the data and the fit of one fold."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed

from sklearn_calib import _validation
from sklearn_calib._compat import safe_split, slice_metadata
from sklearn_calib._typing import Array
from sklearn_calib.meta import _responses

Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Fold:
    """Row numbers of a training part and of the part held out from it."""

    train: Indices
    test: Indices


@dataclass(frozen=True, eq=False)
class HeldScores:
    """A model (None if it is not needed), the method used, and the scores of the held-out samples.

    ``first`` marks the first score of each sample if some are held out more than once; equal samples follow
    each other.
    """

    estimator: Any
    response_method: str
    scores: Array
    first: Flags | None = None


def split(X: Any, target: _responses.Target, cv: Any, metadata: dict[str, Any]) -> list[Fold]:
    """Return the folds of a splitter, at least one."""
    if isinstance(cv, str):
        raise ValueError(
            f"cv must be an integer, a splitter or a list of splits, got {cv!r}. For a fitted classifier "
            "pass FrozenEstimator(classifier) of sklearn.frozen as estimator, and omit cv."
        )
    splitter = check_cv(cv, target.labels, classifier=True)
    indices = np.arange(target.codes.shape[0])
    folds = [
        Fold(indices[np.asarray(train)], indices[np.asarray(test)])
        for train, test in splitter.split(X, target.labels, **metadata)
    ]
    if not folds:
        raise ValueError("cv yields no split. Pass an integer, a splitter, or a non-empty list of splits.")
    return folds


def check_folds(
    folds: Sequence[Fold], target: _responses.Target, trained: Flags | None, calibrated: Flags | None
) -> None:
    """Raise an error if a class is absent from one of the folds.

    ``trained`` and ``calibrated`` mark the samples with positive weight for the estimator and the calibrator:
    each class needs one in every training or held-out part. None: nothing is fitted there.
    """
    for number, fold in enumerate(folds, start=1):
        where = f"fold {number} of {len(folds)}"
        absent = _absent_class(target, fold.train, trained)
        if absent:
            raise ValueError(
                f"The class {absent[0]!r} has no sample of positive weight for training in {where}, so "
                "that the model of this fold cannot predict it. Use a stratified splitter (StratifiedKFold, "
                "StratifiedGroupKFold), other folds, or more samples of this class."
            )
        absent = _absent_class(target, fold.test, calibrated)
        if absent:
            raise ValueError(
                f"The class {absent[0]!r} has no sample of positive weight in the held-out part of {where}, "
                "where a calibrator is to be fitted. Use ensemble=False, which fits one calibrator on all "
                "held-out parts together, a stratified splitter, or fewer folds."
            )


def plan_folds(
    X: Any, target: _responses.Target, cv: Any, metadata: dict[str, Any], trained: Flags | None
) -> list[Fold]:
    """Return the folds, or raise an error if a class is absent from the training part of one of them."""
    folds = split(X, target, cv, metadata)
    check_folds(folds, target, trained, None)
    return folds


def have_every_class(parts: Sequence[Indices], target: _responses.Target, counted: Flags | None) -> bool:
    """Tell whether each part has a sample of positive weight of every class."""
    return not any(_absent_class(target, part, counted) for part in parts)


def has_weight(metadata: dict[str, Any], n_samples: int) -> Flags:
    """Return which samples have positive weight for a part that receives this metadata."""
    weight = metadata.get("sample_weight")
    return np.ones(n_samples, dtype=bool) if weight is None else np.asarray(weight) > 0


def score_fold(
    estimator: Any,
    X: Any,
    target: _responses.Target,
    fold: Fold,
    metadata: dict[str, Any],
    order: Sequence[str],
    keep: bool = True,
) -> HeldScores:
    """Fit the estimator on the training part of a fold and score the held-out part."""
    X_train, y_train = safe_split(estimator, X, target.labels, fold.train)
    X_test, _ = safe_split(estimator, X, None, fold.test, fold.train)
    estimator.fit(X_train, y_train, **slice_metadata(X, metadata, fold.train))
    method = _responses.resolve_response(estimator, order)
    scores = _responses.class_scores(estimator, X_test, method, target.classes)
    return HeldScores(estimator if keep else None, method, scores)


def in_parallel(calls: list[Any], n_jobs: int | None) -> list[Any]:
    """Return the results of delayed calls, with no more workers than calls."""
    if n_jobs is not None:
        # negative numbers count down from the number of processors, as in joblib
        n_jobs = min(_validation.check_integer(n_jobs, "n_jobs", -(10**6)), len(calls))
    return list(Parallel(n_jobs=n_jobs)(calls))


def cross_fit(
    estimator: Any,
    X: Any,
    target: _responses.Target,
    folds: Sequence[Fold],
    metadata: dict[str, Any],
    order: Sequence[str],
    n_jobs: int | None,
) -> tuple[HeldScores, Indices]:
    """Return a model of all samples, the held-out scores, and their samples in ascending order."""
    calls = [delayed(score_fold)(clone(estimator), X, target, fold, metadata, order, False) for fold in folds]
    calls.append(delayed(fit_whole)(clone(estimator), X, target.labels, metadata, order))
    *parts, (whole, method) = in_parallel(calls, n_jobs)
    indices = np.concatenate([fold.test for fold in folds])
    scores = np.concatenate([part.scores for part in parts])
    ascending = np.argsort(indices, kind="stable")
    rows = indices[ascending]
    first = np.diff(rows, prepend=-1) > 0
    return HeldScores(whole, method, scores[ascending], None if first.all() else first), rows


def fit_whole(
    estimator: Any, X: Any, labels: NDArray[Any], metadata: dict[str, Any], order: Sequence[str]
) -> tuple[Any, str]:
    """Fit the estimator on all samples."""
    estimator.fit(X, labels, **metadata)
    return estimator, _responses.resolve_response(estimator, order)


def _absent_class(target: _responses.Target, indices: Indices, counted: Flags | None) -> list[Any]:
    """Return, in a list, the first class without a sample of positive weight; an empty list if none."""
    if counted is None:
        return []
    present = np.bincount(target.codes[indices][counted[indices]], minlength=target.classes.shape[0])
    return [] if present.all() else [target.label(int(present.argmin()))]
