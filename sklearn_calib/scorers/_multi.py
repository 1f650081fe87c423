"""Several scorers with a single prediction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from traceback import format_exc
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from sklearn_calib import _validation
from sklearn_calib._compat import routing_enabled, value_of_failures
from sklearn_calib.scorers._names import get_scorer
from sklearn_calib.scorers._routing import WeightedScorer
from sklearn_calib.scorers._scorer import accepts

_RESPONSES = ("decision_function", "predict", "predict_log_proba", "predict_proba")


class MultiScorer(WeightedScorer, BaseEstimator):
    """Several scorers as one callable that predicts once.

    Use it as ``scoring`` of ``cross_validate`` or of a search, where it gives one column for each name. The
    scorers need not be registered, and the estimator predicts each fold once.

    Parameters
    ----------
    scoring : list of str, or mapping of str to str or callable
        Names accepted by :func:`get_scorer`; or a mapping from names of columns to such names or to scorers
        ``scorer(estimator, X, y)``. Either all scorers support sample weights, or none are given.

    Notes
    -----
    Calibration errors are not proper scores; combine them with "neg_log_loss" or "neg_brier_score" and select
    by ``refit=BestCalibrated()``. In a cross-validation or search, a scorer that fails has the score
    ``error_score`` with a warning, and the others keep theirs; elsewhere its error is raised.

    With metadata routing enabled, each scorer receives what it requests;
    ``set_score_request(sample_weight=True)`` of this object applies to all of them instead.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import cross_validate
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_calib.scorers import MultiScorer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> scoring = MultiScorer(["neg_smooth_ece", "neg_log_loss"])
    >>> scores = cross_validate(GaussianNB(), X, y, scoring=scoring, cv=3)
    >>> scores["test_neg_smooth_ece"].round(3)
    array([-0.078, -0.049, -0.047])
    >>> scores["test_neg_log_loss"].round(3)
    array([-1.045, -0.543, -0.414])
    """

    def __init__(self, scoring: Collection[str] | Mapping[str, str | Callable[..., float]]) -> None:
        _resolve(scoring)
        self.scoring = scoring

    def _accept_sample_weight(self) -> bool:
        return all(map(_accepts_weight, _resolve(self.scoring).values()))

    def get_metadata_routing(self) -> Any:
        """Return the metadata request of this scorer, or of its parts if it has none of its own."""
        if hasattr(self, "_metadata_request"):
            return super().get_metadata_routing()
        mapping = MethodMapping().add(caller="score", callee="score")
        parts = _resolve(self.scoring)
        return MetadataRouter(owner=type(self).__name__).add(method_mapping=mapping, **parts)

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y_true: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        **params: Any,
    ) -> dict[str, float]:
        """Score a fitted estimator.

        Parameters
        ----------
        estimator : object
            Fitted estimator.
        X : array-like or sparse matrix with n rows
            Test data.
        y_true : array-like of shape (n,) or (n, n_labels)
            Labels; or an indicator matrix of zeros and ones for multilabel targets.
        sample_weight : array-like of shape (n,), default=None
            Weights, for every scorer; with metadata routing for those that request them.
        **params : dict
            Further metadata that the scorers request, with metadata routing.

        Returns
        -------
        dict of str to float
            One score for each name.
        """
        scorers = _resolve(self.scoring)
        y_true = _validation.as_array(y_true, "y_true")
        if sample_weight is not None:
            params["sample_weight"] = _validation.as_array(sample_weight, "sample_weight")
        if routing_enabled() and not hasattr(self, "_metadata_request"):
            routed = process_routing(self, "score", **params)
            given = {name: routed[name].score for name in scorers}
        else:
            unweighted = [name for name, scorer in scorers.items() if not _accepts_weight(scorer)]
            if "sample_weight" in params and unweighted:
                raise ValueError(
                    f"sample_weight was given but the scorers {unweighted} do not support it. Omit them, or "
                    "score without weights."
                )
            given = dict.fromkeys(scorers, params)
        once, failed, found = _predicts_once(estimator, X), value_of_failures(), {}
        for name, scorer in scorers.items():
            try:
                found[name] = scorer(once, X, y_true, **given[name])
            except Exception:
                if isinstance(failed, str):
                    raise
                found[name] = failed
                _validation.warn_user(
                    f"Scoring failed. The score {name!r} on this train-test partition for these parameters "
                    f"will be set to {failed}. Details: \n{format_exc()}"
                )
        return found


def _predicts_once(estimator: Any, X: Any) -> Any:
    """Return a shallow copy of a fitted estimator that keeps its predictions for X."""
    once = object.__new__(type(estimator))
    once.__dict__ = dict(vars(estimator))
    for name in _RESPONSES:
        method = getattr(estimator, name, None)
        if callable(method):
            once.__dict__[name] = _cached(method, X)
    return once


def _cached(method: Callable[..., Any], X: Any) -> Callable[..., Any]:
    kept: list[Any] = []

    @wraps(method)
    def response(data: Any, *args: Any, **kwargs: Any) -> Any:
        if data is not X or args or kwargs:
            return method(data, *args, **kwargs)
        if not kept:
            kept.append(method(X))
        return kept[0]

    return response


def _accepts_weight(scorer: Callable[..., float]) -> bool:
    """Tell whether a scorer of any kind supports ``sample_weight``."""
    if hasattr(scorer, "_accept_sample_weight"):
        return bool(scorer._accept_sample_weight())
    # scorers of scikit-learn before 1.7 always accept weights, and pass them on
    return accepts(getattr(scorer, "_score_func", scorer), "sample_weight")


def _resolve(scoring: Any) -> dict[str, Callable[..., float]]:
    if isinstance(scoring, Mapping):
        pairs = list(scoring.items())
    elif isinstance(scoring, Collection) and not isinstance(scoring, str):
        pairs = [(name, name) for name in scoring]
    else:
        raise TypeError(
            f"scoring must be a list of names or a dictionary of scorers, got {scoring!r}. "
            "Pass [name] for a single scorer."
        )
    names = [name for name, _ in pairs]
    if not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"The names of scoring must be strings, got {names}. Use a dictionary to name scorers."
        )
    if not names or len(set(names)) < len(names):
        raise ValueError(f"scoring must contain at least one name and no duplicates, got {names}.")
    return {name: get_scorer(scorer) for name, scorer in pairs}
