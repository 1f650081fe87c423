"""Held-out scores: the split of the data and the work of one fold."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils.parallel import Parallel, delayed

from .._compat import safe_split, slice_metadata
from ._responses import Target, class_scores, resolve_response

__all__ = ["Fold", "HeldScores", "cross_fit", "fit_whole", "plan_folds", "score_fold"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Fold:
    """Row numbers of a training part and of the part held out from it."""

    train: Rows
    test: Rows


@dataclass(frozen=True, eq=False)
class HeldScores:
    """A model (None if it was not to be kept), the method read, and the scores of the held-out rows."""

    estimator: Any
    response_method: str
    scores: Array


def plan_folds(
    X: Any,
    target: Target,
    cv: Any,
    metadata: dict[str, Any],
    weight: Array | None,
    every_class_held_out: bool,
) -> list[Fold]:
    """Return the folds, once it is known that each can work.

    Every class must occur in every training part, and with ``every_class_held_out``, with positive
    weight, in every held-out part.
    """
    splitter = check_cv(cv, target.labels, classifier=True)
    if every_class_held_out and (isinstance(cv, Integral) or cv is None or isinstance(cv, StratifiedKFold)):
        _check_counts(target, splitter.get_n_splits())
    rows = np.arange(target.codes.shape[0])
    folds = [
        Fold(rows[np.asarray(train)], rows[np.asarray(test)])
        for train, test in splitter.split(X, target.labels, **metadata)
    ]
    if not folds:
        raise ValueError("cv yields no split. Pass an integer, a splitter, or a non-empty list of splits.")
    n_classes = target.classes.shape[0]
    counted = None if weight is None else (weight > 0).astype(np.float64)
    for number, fold in enumerate(folds, start=1):
        where = f"fold {number} of {len(folds)}"
        present = np.bincount(target.codes[fold.train], minlength=n_classes)
        if not present.all():
            absent = target.label(int(present.argmin()))
            raise ValueError(
                f"The class {absent!r} has no row in the training part of "
                f"{where}, so that a model fitted there can not score it. Use a stratified splitter "
                "(StratifiedKFold, StratifiedGroupKFold), other folds, or more rows of this class."
            )
        if not every_class_held_out:
            continue
        held = np.bincount(
            target.codes[fold.test],
            weights=None if counted is None else counted[fold.test],
            minlength=n_classes,
        )
        if not held.all():
            absent = target.label(int(held.argmin()))
            raise ValueError(
                f"The class {absent!r} has no row of positive weight in the "
                f"held-out part of {where}, where a calibrator is to be fitted. Use ensemble=False, which "
                "fits one calibrator on all held-out parts together, a stratified splitter, or fewer folds."
            )
    return folds


def score_fold(
    estimator: Any,
    X: Any,
    labels: NDArray[Any],
    classes: NDArray[Any],
    fold: Fold,
    metadata: dict[str, Any],
    order: Sequence[str],
    keep: bool = True,
) -> HeldScores:
    """Fit the estimator on the training part of a fold and score the held-out part."""
    X_train, y_train = safe_split(estimator, X, labels, fold.train)
    X_test, _ = safe_split(estimator, X, None, fold.test, fold.train)
    estimator.fit(X_train, y_train, **slice_metadata(X, metadata, fold.train))
    method = resolve_response(estimator, order)
    scores = class_scores(estimator, X_test, method, classes)
    return HeldScores(estimator if keep else None, method, scores)


def cross_fit(
    estimator: Any,
    X: Any,
    target: Target,
    folds: Sequence[Fold],
    metadata: dict[str, Any],
    order: Sequence[str],
    n_jobs: int | None,
) -> tuple[HeldScores, Rows]:
    """Return a model fitted on all rows, the held-out scores of all folds, and the row of each score.

    The rows are in ascending order; a row stands as often as it was held out.
    """
    shared = (X, target.labels, target.classes)
    held = Parallel(n_jobs=n_jobs)(
        [
            *(delayed(score_fold)(clone(estimator), *shared, fold, metadata, order, False) for fold in folds),
            delayed(fit_whole)(clone(estimator), X, target.labels, metadata, order),
        ]
    )
    *parts, (whole, method) = held
    rows = np.concatenate([fold.test for fold in folds])
    scores = np.concatenate([part.scores for part in parts])
    ascending = np.argsort(rows, kind="stable")
    return HeldScores(whole, method, scores[ascending]), rows[ascending]


def fit_whole(
    estimator: Any, X: Any, labels: NDArray[Any], metadata: dict[str, Any], order: Sequence[str]
) -> tuple[Any, str]:
    """Fit the estimator on all rows."""
    estimator.fit(X, labels, **metadata)
    return estimator, resolve_response(estimator, order)


def _check_counts(target: Target, n_folds: int) -> None:
    """Raise if stratified folds cannot all hold a row of the rarest class."""
    counts = np.bincount(target.codes)
    rarest = int(counts.argmin())
    if counts[rarest] < n_folds:
        fewer = f"cv={counts[rarest]}, " if counts[rarest] > 1 else ""
        raise ValueError(
            f"The class {target.label(rarest)!r} has {counts[rarest]} row(s), fewer than the "
            f"{n_folds} folds, but each fold needs one to fit its calibrator. Use {fewer}ensemble=False (one "
            "calibrator, fitted on all held-out parts together), or more rows of this class."
        )
