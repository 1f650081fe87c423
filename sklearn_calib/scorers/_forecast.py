"""Predictions of an estimator together with the true labels, and the base class of scorers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib import _validation
from sklearn_calib.metrics._reductions import REDUCTIONS, Problem, multilabel_words, split_classes
from sklearn_calib.scorers._routing import WeightedScorer

Array = NDArray[Any]
Reduction = Literal["classwise", "confidence", "top-label"] | None


class Forecast(NamedTuple):
    """Probabilities (n, K) for X, and the column that belongs to the true label of each sample.

    Of multilabel targets, ``codes`` are the labels, (n, K), and ``classes`` the numbers of the columns.
    """

    codes: NDArray[np.int64]
    probabilities: Array
    classes: Array


class ForecastScorer(WeightedScorer, ABC):
    """Base class of scorers of probabilities."""

    pos_label: Any
    response_method: str | Sequence[str]
    reduction: Reduction

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y_true: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> float:
        """Score a fitted estimator; greater is better.

        Parameters
        ----------
        estimator : object
            Fitted, with the method ``response_method`` and, unless it is a regressor, ``classes_``.
        X : array-like or sparse matrix with n rows
            Test data.
        y_true : array-like of shape (n,) or (n, n_labels)
            Labels; or an indicator matrix of zeros and ones for multilabel targets.
        sample_weight : array-like of shape (n,), default=None
            Weights.
        groups : array-like of shape (n,), default=None
            Groups, which are passed to the prediction method of the estimator.

        Returns
        -------
        float
            The score.
        """
        if self.reduction is not None:
            _validation.check_option(self.reduction, "reduction", REDUCTIONS)
        if self.pos_label is not None and self.reduction != "classwise":
            raise ValueError(
                f"pos_label={self.pos_label!r} selects one class, but reduction={self.reduction!r} uses all "
                "classes. Leave one of the two at its default."
            )
        weight = None if sample_weight is None else _validation.as_array(sample_weight, "sample_weight")
        metadata = {} if groups is None else {"groups": groups}
        forecast = read_forecast(estimator, X, y_true, self.response_method, self.pos_label, metadata)
        with _validation.own_predictions():
            return self._score(forecast, weight)

    @abstractmethod
    def _score(self, forecast: Forecast, sample_weight: Array | None) -> float:
        """Return the score of a forecast."""

    def _problems(self, forecast: Forecast, sample_weight: Array | None) -> list[Problem]:
        """Return outcomes and probabilities of each class that is evaluated."""
        codes, proba, classes = forecast
        if codes.ndim == 2:
            if self.reduction != "classwise":
                raise ValueError(multilabel_words(self.reduction))
            return [Problem(1.0 / codes.shape[1], *pair, None) for pair in zip(codes.T, proba.T, strict=True)]
        if self.reduction == "classwise" and (self.pos_label is not None or classes.shape[0] == 2):
            found = [1] if self.pos_label is None else np.flatnonzero(classes == self.pos_label)
            column = int(found[0])
            return [Problem(1.0, (codes == column).astype(np.int64), proba[:, column], None)]
        weight = None if sample_weight is None else _validation.check_weights(sample_weight, codes.shape[0])
        return split_classes(codes, proba, str(self.reduction), weight)


def read_forecast(
    estimator: Any,
    X: Any,
    y_true: ArrayLike,
    response_method: str | Sequence[str],
    pos_label: Any,
    metadata: Mapping[str, Any],
) -> Forecast:
    """Predict with a fitted estimator, and find the column of each label by the estimator's classes."""
    names = [response_method] if isinstance(response_method, str) else list(response_method)
    method = next((found for name in names if callable(found := getattr(estimator, name, None))), None)
    if method is None:
        raise TypeError(
            f"{type(estimator).__name__} has no method {' or '.join(names)}. Use a classifier that predicts "
            "probabilities, or turn its scores into probabilities with a calibrator first."
        )
    y = _validation.as_array(y_true, "y_true")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    classes = getattr(estimator, "classes_", None)
    several = isinstance(classes, list) and bool(classes) and np.ndim(classes[0]) == 1
    if y.ndim == 2:
        if pos_label is not None:
            raise ValueError(
                f"pos_label={pos_label!r} selects a class, but y_true has one column per label (multilabel). "
                "Omit it, or score a model of that label."
            )
        matrix = _validation.label_columns(method(X, **metadata), classes)
        _validation.check_response(np.asarray(matrix), estimator, method.__name__)
        return _by_label(y, matrix)
    if y.ndim != 1:
        raise ValueError(f"y_true must have shape (n,), got shape {y.shape}. Pass one label per sample.")
    if several:
        raise ValueError("The estimator has several outputs, but y_true one column. Pass all columns.")
    response = _validation.as_array(method(X, **metadata), "the prediction of X")
    _validation.check_response(response, estimator, method.__name__)
    if response.shape[:1] != y.shape:
        raise ValueError(
            f"y_true has {y.shape[0]} samples but the prediction of X has shape {response.shape}. "
            "Pass X and y_true of the same length."
        )
    if response.ndim == 1:
        response = response[:, None]
    if classes is None:
        # a regressor for binary outcomes
        if response.shape[1] > 2:
            raise ValueError(
                f"The estimator has no classes_ and predicts {response.shape[1]} columns, whose classes are "
                "unknown. Score a classifier, or a regressor that predicts one probability per sample."
            )
        codes = _validation.check_labels(y, pos_label)
        labels = np.array([0, 1] if pos_label is None else [None, pos_label], dtype=object)
        return Forecast(codes, _two_columns(response), labels)
    return _by_classes(y, response, np.asarray(classes), pos_label)


def _by_label(y: Array, response: Any) -> Forecast:
    response = _validation.as_array(response, "the prediction of X")
    if response.shape != y.shape:
        raise ValueError(
            f"y_true has shape {y.shape} but the prediction of X has shape {response.shape}. Pass X and "
            "y_true with the same samples and labels. Outputs of three or more classes must be scored one at "
            "a time."
        )
    return Forecast(_validation.check_indicators(y), response, np.arange(y.shape[1]))


def _by_classes(y: Array, response: Array, classes: Array, pos_label: Any) -> Forecast:
    n_classes = classes.shape[0]
    if n_classes == 2:
        response = _two_columns(response)
    if response.shape[1] != n_classes:
        raise ValueError(
            f"The estimator has {n_classes} classes but predicts {response.shape[1]} columns. "
            "Use a response_method that gives one probability per class."
        )
    if n_classes == 1:
        raise ValueError(
            f"The estimator was trained on the class {classes.tolist()[0]!r} only. Use stratified folds."
        )
    _validation.refuse_missing(y, "y_true")
    _validation.refuse_fractions(y)
    codes = np.full(y.shape[0], -1, dtype=np.int64)
    for k, label in enumerate(classes):
        codes[y == label] = k
    unknown = codes < 0
    shown = classes[:5].tolist()
    if unknown.any():
        raise ValueError(
            f"y_true contains the label {y[unknown].tolist()[0]!r}, unknown to the estimator, whose "
            f"classes_ are {shown}{'...' if n_classes > 5 else ''}. Encode the labels as in training; if a "
            "training fold lacked the class, use stratified folds."
        )
    if pos_label is not None and not np.any(classes == pos_label):
        raise ValueError(
            f"pos_label={pos_label!r} is not among the estimator's classes_ {shown}. Pass one of them."
        )
    return Forecast(codes, response, classes)


def _two_columns(response: Array) -> Array:
    return np.hstack([1 - response, response]) if response.shape[1] == 1 else response
