"""Shared parts of the displays of a model: estimators, axes and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib import _validation
from sklearn_calib._docs import shared_docs
from sklearn_calib._typing import Array
from sklearn_calib.plot._matplotlib import closes_figures, full_names, given_axes, new_axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


def predicted_probabilities(estimator: Any, X: Any) -> tuple[Array, list[Any]]:
    """Return the probabilities that a classifier predicts, and the sorted classes of their columns."""
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(
            f"estimator must have predict_proba, which {type(estimator).__name__} lacks. Wrap a "
            "classifier with decision scores in CalibratedClassifier."
        )
    proba = _validation.as_array(estimator.predict_proba(X), "the prediction of X")
    _validation.check_response(proba, estimator, "predict_proba")
    classes = _validation.as_array(estimator.classes_, "estimator.classes_")
    order = np.argsort(classes, kind="stable")
    return proba[:, order], classes[order].tolist()


def positive_column(proba: Array, classes: list[Any], pos_label: Any) -> tuple[Array, Any]:
    """Return the probabilities of the positive class, by default the last of the classes, and its label."""
    if pos_label is None:
        pos_label = classes[-1]
    _validation.check_pos_label(pos_label)
    if pos_label not in classes:
        shown = pos_label.item() if isinstance(pos_label, np.generic) else pos_label
        raise ValueError(f"pos_label={shown!r} is not among the classes {classes} of the estimator.")
    return proba[:, classes.index(pos_label)], pos_label


def check_result(result: Any, kind: type, advice: str) -> None:
    """Raise if ``result`` is not of a kind."""
    if not isinstance(result, kind):
        raise TypeError(f"result must be a {kind.__name__}, got {type(result).__name__}. {advice}")


def axis_title(title: str, pos_label: Any) -> str:
    """Return the title of an axis, with the positive class if it is known."""
    return title if pos_label is None else f"{title} ({plain(str(pos_label))})"


def estimator_predictions(
    estimator: Any, X: Any, y: ArrayLike, pos_label: Any, multiclass: bool
) -> dict[str, Any]:
    """Return the arguments of ``from_predictions`` for a classifier: the probabilities, and their classes."""
    labels = _validation.shape_of(y, "y")[1:]
    if labels and labels[0] > 1:
        if not multiclass:
            raise ValueError(
                "y has one column per label (multilabel). Draw each label by reliability_grid, or pass one "
                "at a time to from_predictions."
            )
        proba = _validation.label_columns(estimator.predict_proba(X), getattr(estimator, "classes_", None))
        return {"y_proba": proba, "pos_label": pos_label}
    proba, classes = predicted_probabilities(estimator, X)
    if len(classes) > 2 and multiclass:
        return {"y_proba": proba, "pos_label": pos_label, "labels": classes}
    if len(classes) != 2:
        raise ValueError(
            f"estimator must have two classes, got {len(classes)}. Draw each class by reliability_grid, or "
            "pass the probabilities of one class against the rest to from_predictions."
        )
    y_proba, pos_label = positive_column(proba, classes, pos_label)
    return {"y_proba": y_proba, "pos_label": pos_label}


@shared_docs
class DisplayMixin:
    """A display in one Axes of predictions, binary or, with ``_multiclass``, also of K classes."""

    _multiclass = False
    name: str | None
    ax_: Axes
    figure_: Figure | SubFigure

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        shared_docs(cls)
        if "plot" in vars(cls):
            cls.plot = closes_figures()(cls.plot)  # type: ignore[attr-defined]

    def _new_or(
        self, ax: Axes | None, width: float, height: float, line_params: dict[str, Any]
    ) -> tuple[Axes, dict[str, Any]]:
        """Return the axes to draw into, by default those of a new figure, and the checked properties."""
        given = full_names(line_params)
        (self.ax_,) = new_axes(width, height) if ax is None else given_axes(ax, (1,), "matplotlib Axes")
        self.figure_ = self.ax_.figure
        return self.ax_, given

    def _named(self, text: str, name: str | None) -> str:
        """Return a legend entry: the name of the model, if there is one, and a text."""
        shown = self.name if name is None else name
        return plain(text if shown is None else f"{shown}: {text}")

    @classmethod
    @_validation.own_predictions()
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        pos_label: Any = None,
        name: str | None = None,
        **params: Any,
    ) -> Any:
        """Draw the probabilities that a fitted classifier predicts.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``predict_proba`` and ``classes_``; binary, unless
            :meth:`from_predictions` supports multiclass predictions.
        %(held_out)s
        name : str, default=None
            Name in the legend; by default that of the estimator's class, or of a test.
        **params : dict
            Passed to :meth:`from_predictions`, among them ``sample_weight`` and ``ax``.

        %(display_returned)s
        """
        make: Any = cls
        options = cls._of_estimator(estimator) | params
        label = options.pop("pos_label", None) if pos_label is None else pos_label
        if name is not None:
            options["name"] = name
        given = estimator_predictions(estimator, X, y, label, cls._multiclass)
        return make.from_predictions(y, given.pop("y_proba"), **options, **given)

    @classmethod
    def _of_estimator(cls, estimator: Any) -> dict[str, Any]:
        """Return default arguments of ``from_predictions`` for a classifier."""
        return {"name": type(estimator).__name__}
