"""What displays ask of a fitted classifier."""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._validation import as_array, check_pos_label

__all__ = ["BinaryDisplay", "positive_column", "predicted_probabilities"]

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


class BinaryDisplay(ABC):
    """A display of the predictions of two classes."""

    @classmethod
    @abstractmethod
    def from_predictions(cls, y_true: Any, y_proba: Any = None, **params: Any) -> Self:
        """Draw predictions."""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        pos_label: Any = None,
        name: str | None = None,
        **params: Any,
    ) -> Self:
        """Draw the probabilities that a fitted classifier predicts.

        Parameters
        ----------
        estimator : object
            Fitted binary classifier with ``predict_proba`` and ``classes_``.
        X : array-like of shape (n, n_features)
            Data on which it predicts; not those it was trained on.
        y : array-like of shape (n,)
            Their labels.
        pos_label : label, default=None
            The positive class; ``classes_[1]`` by default.
        name : str, default=None
            Name in the legend; that of the estimator's class by default.
        **params : dict
            Passed to :meth:`from_predictions`.

        Returns
        -------
        display
            As :meth:`from_predictions` does.

        Raises
        ------
        TypeError
            If the estimator does not predict probabilities.
        ValueError
            If it has more than two classes, or as :meth:`from_predictions`.
        """
        proba, classes = predicted_probabilities(estimator, X)
        if len(classes) != 2:
            raise ValueError(
                f"estimator must have two classes, got {len(classes)}. Pass the probabilities of one class "
                "against the rest to from_predictions."
            )
        y_proba, pos_label = positive_column(proba, classes, pos_label)
        shown = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, y_proba, pos_label=pos_label, name=shown, **params)
