"""Checked labels, and the scores of a classifier."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, get_tags, indexable
from sklearn.utils.validation import check_is_fitted

from sklearn_calib import _validation
from sklearn_calib._compat import as_kind_of
from sklearn_calib._typing import Array, Codes

RESPONSE_METHODS = ("auto", "predict_proba", "decision_function")
DECISION_FIRST = ("decision_function", "predict_proba")
PROBABILITY_FIRST = ("predict_proba", "decision_function")


@dataclass(frozen=True, eq=False)
class Target:
    """Checked labels, the sorted classes, which may not all occur, and each sample's index among these.

    With array API dispatch, labels that are numbers are an array of the kind of the features.
    """

    labels: Any
    classes: NDArray[Any]
    codes: Codes

    def label(self, code: int) -> Any:
        """Return a class as a Python object, which prints without the name of its numpy type."""
        return self.classes.tolist()[code]


def check_data(owner: Any, estimator: Any, X: Any, y: Any) -> tuple[Any, Target]:
    """Return checked features and labels, with all classes of a frozen estimator."""
    if y is None:
        raise ValueError(f"{type(owner).__name__} requires y to be passed, but the target y is None.")
    classes, codes = _validation.check_classes(y)
    target = Target(as_kind_of(X, classes[codes]), classes, codes)
    X, _ = indexable(X, target.labels)
    if isinstance(estimator, FrozenEstimator):
        check_is_fitted(estimator)
        target = with_known_classes(estimator, target)
    return X, target


def check_classifier(estimator: Any) -> None:
    """Raise unless the object is an instance with ``fit``, and not a regressor."""
    if isinstance(estimator, type):
        raise TypeError(
            f"estimator is the class {estimator.__name__}; pass an instance, {estimator.__name__}()."
        )
    if not hasattr(estimator, "fit"):
        raise TypeError(f"estimator must be a classifier with a fit method, got {estimator!r}.")
    if isinstance(estimator, RegressorMixin) and not any(hasattr(estimator, m) for m in DECISION_FIRST):
        raise TypeError(
            f"estimator must be a classifier, but {type(estimator).__name__} is a regressor. Pass a "
            "classifier with predict_proba or decision_function."
        )


def with_known_classes(estimator: Any, target: Target) -> Target:
    """Return the labels with all classes of a fitted estimator, which must include those of the data."""
    own = np.asarray(getattr(estimator, "classes_", target.classes))
    if np.array_equal(own, target.classes):
        return target
    known, found = own.tolist(), target.classes.tolist()
    unknown = [label for label in found if label not in known]
    if unknown:
        raise ValueError(
            f"y contains the class {unknown[0]!r}, which the fitted {type(estimator).__name__} does not have "
            f"(its classes: {known}). Refit the estimator, or drop the samples of that class."
        )
    classes, place = _validation.place_labels(target.classes, np.sort(own))
    return Target(target.labels, classes, place[target.codes])


def resolve_response(estimator: Any, order: Sequence[str]) -> str:
    """Return the first method of ``order`` that the (fitted) estimator has."""
    for method in order:
        if hasattr(estimator, method):
            return method
    name = type(estimator).__name__
    other = next((m for m in DECISION_FIRST if hasattr(estimator, m)), None)
    if other is None:
        raise TypeError(f"estimator must have predict_proba or decision_function, but {name} has neither.")
    needs = " and a calibrator of unbounded scores" if other == "decision_function" else ""
    raise ValueError(
        f"{name} has no {order[0]}. Use its {other} instead (response_method={other!r}{needs}), or use an "
        f"estimator with {order[0]}."
    )


def class_scores(estimator: Any, X: Any, method: str, classes: NDArray[Any]) -> Array:
    """Return the scores as float64: shape (n, 1), those of ``classes[1]``, or (n, n_classes)."""
    scores = _validation.as_array(getattr(estimator, method)(X), method).astype(np.float64, copy=False)
    if scores.ndim == 1:
        scores = scores[:, np.newaxis]
    n_classes = classes.shape[0]
    n_columns = 1 if n_classes == 2 and method == "decision_function" else n_classes
    if scores.ndim != 2 or scores.shape[1] != n_columns:
        advice = " (decision_function_shape='ovr')" if method == "decision_function" else ""
        raise ValueError(
            f"{method} of {type(estimator).__name__} returned shape {scores.shape} for {n_classes} classes, "
            f"expected {n_columns} column{'s' if n_columns > 1 else ''}: one score per class{advice}."
        )
    _validation.check_response(scores, estimator, method)
    own = np.asarray(getattr(estimator, "classes_", classes))
    if not np.array_equal(own, classes):
        # an estimator may keep its classes in another order than the sorted one
        scores = -scores if n_columns == 1 else scores[:, np.argsort(own, kind="stable")]
    return scores[:, 1:] if n_classes == 2 and n_columns == 2 else scores


def with_tags_of(estimator: Any, tags: Tags) -> Tags:
    """Return the tags of a meta-estimator, with those of its classifier."""
    inner = get_tags(estimator)
    tags.input_tags, tags.non_deterministic = inner.input_tags, inner.non_deterministic
    if inner.classifier_tags is not None and tags.classifier_tags is not None:
        # one label for each sample, even if the classifier supports multilabel targets
        tags.classifier_tags = replace(inner.classifier_tags, multi_label=False)
    return tags


def record_features(owner: Any, fitted: Any) -> None:
    """Copy the attributes for features of the fitted classifier, if it has them."""
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(fitted, name):
            setattr(owner, name, getattr(fitted, name))
        elif hasattr(owner, name):
            delattr(owner, name)  # of an earlier fit on other data
