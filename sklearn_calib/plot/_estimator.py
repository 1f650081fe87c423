"""What displays ask of a fitted classifier."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._validation import as_array, check_pos_label

__all__ = ["binary_prediction", "positive_column", "predicted_probabilities"]

Array = NDArray[np.float64]


def predicted_probabilities(estimator: Any, X: Any) -> tuple[Array, list[Any]]:
    """Return the probabilities that a classifier predicts, and the classes of their columns."""
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(
            f"estimator must have predict_proba, which {type(estimator).__name__} lacks. Wrap a "
            "classifier that only gives scores in CalibratedClassifier."
        )
    return as_array(estimator.predict_proba(X), "the prediction of X"), list(estimator.classes_)


def positive_column(proba: Array, classes: list[Any], pos_label: Any) -> tuple[Array, Any]:
    """Return the probabilities of the positive class, by default the last of the classes, and its label."""
    if pos_label is None:
        pos_label = classes[-1]
    check_pos_label(pos_label)
    if pos_label not in classes:
        raise ValueError(f"pos_label={pos_label!r} is not among the classes {classes} of the estimator.")
    return proba[:, classes.index(pos_label)], pos_label


def binary_prediction(estimator: Any, X: Any, pos_label: Any) -> tuple[Array, Any]:
    """Return the probabilities of the positive class by a classifier of two classes, and its label."""
    proba, classes = predicted_probabilities(estimator, X)
    if len(classes) != 2:
        raise ValueError(
            f"estimator must have two classes, got {len(classes)}. Pass the probabilities of one class "
            "against the rest to from_predictions."
        )
    return positive_column(proba, classes, pos_label)
