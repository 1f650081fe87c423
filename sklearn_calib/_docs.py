"""Paragraphs of docstrings that several public functions share."""

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["shared_docs"]

Function = TypeVar("Function", bound=Callable[..., Any])

_PARAGRAPHS = {
    "sample": """y_true : array-like of shape (n,) or (n, n_labels), or CalibrationSketch
        Labels of two or more classes; or one column of zeros and ones for each of several labels, over which
        the error is averaged.
    y_proba : array-like of shape (n,), (n, 1), (n, n_classes) or (n, n_labels), default=None
        Predicted probabilities in [0, 1]: of the positive class (of two columns the last is used), of three
        or more classes in sorted order, or of each label. Left out with a sketch.""",
    "weight": """sample_weight : array-like of shape (n,), default=None
        Non-negative weights; weight k counts as k repetitions of the sample.
    pos_label : label, default=None
        The positive class. By default 1 for labels in {0, 1} or {-1, 1}, else the greater of the two
        labels.""",
    "reduction": """reduction : {"classwise", "confidence", "top-label"}, default="classwise"
        How multiclass predictions are evaluated. "classwise": each class against the rest, the mean over
        classes; "confidence": the largest probability as a forecast that its class is the right one;
        "top-label": the same within the samples of each predicted class, the mean weighted by their
        frequency. The latter two also apply to binary predictions.""",
    "labels": """labels : array-like of shape (n_classes,), default=None
        Labels of three or more columns, which stand in sorted order. Needed where a label is missing in
        ``y_true``, unless labels are 0, ..., n_classes - 1.""",
}


def shared_docs(function: Function) -> Function:
    """Replace ``%(name)s`` in the docstring of a function by the shared paragraph of that name."""
    if function.__doc__ is not None:
        for name, paragraph in _PARAGRAPHS.items():
            function.__doc__ = function.__doc__.replace(f"%({name})s", paragraph)
    return function
