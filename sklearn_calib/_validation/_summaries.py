"""Summaries of a sample, such as a sketch, in place of outcomes, predictions and weights."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Protocol, TypeGuard, cast

from numpy.typing import ArrayLike


class SampleSummary(Protocol):
    """Summary of outcomes, predictions and weights of a binary problem, such as a sketch."""

    def as_weighted_sample(self) -> Any:
        """Return an object with outcomes 0 or 1 as ``y``, predictions as ``p``, and weights as ``w``."""


#: Outcomes, or a summary in place of outcomes, predictions and weights.
Outcomes = ArrayLike | SampleSummary


def is_summary(values: Any) -> TypeGuard[SampleSummary]:
    """Tell whether an argument is a summary of a sample."""
    return hasattr(values, "as_weighted_sample")


def sample_arrays(
    y_true: Outcomes,
    y_proba: ArrayLike | None,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    groups: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> tuple[ArrayLike, ArrayLike, ArrayLike | None]:
    """Return outcomes, predictions and weights: those that were passed, or those of a summary.

    Every function that accepts a summary in place of outcomes and predictions calls this first.
    """
    if not is_summary(y_true):
        if y_proba is None:
            raise TypeError(
                "y_proba is missing. Pass the predicted probabilities with y_true, or a CalibrationSketch "
                "alone."
            )
        return cast(ArrayLike, y_true), y_proba, sample_weight
    kind = type(y_true).__name__
    for name, value in (("y_proba", y_proba), ("sample_weight", sample_weight)):
        if value is not None:
            raise ValueError(f"{name} was passed together with a {kind}, which contains it. Omit it.")
    if pos_label is not None and not (isinstance(pos_label, Integral) and pos_label == 1):
        raise ValueError(
            f"pos_label={pos_label!r} was passed with a {kind}, whose outcomes are 0 and 1. Omit it."
        )
    if clusters is not None:
        raise ValueError(
            f"clusters need the outcomes of each sample, which a {kind} does not keep. Pass arrays, or those "
            "of a ClusteredSketch."
        )
    if groups is not None:
        raise ValueError(
            f"groups need single samples, which a {kind} does not keep. Pass arrays, or one {kind} per group."
        )
    sample = y_true.as_weighted_sample()
    if getattr(sample, "clusters", None) is not None:
        raise ValueError(
            f"A {kind} is passed by its arrays: with s = sketch.as_weighted_sample(), pass s.y, s.p, "
            "sample_weight=s.w, and clusters=s.clusters where clusters are accepted."
        )
    return sample.y, sample.p, sample.w


def shown_label(y_true: Outcomes, pos_label: Any) -> Any:
    """Return the positive class to be shown: the argument, or that of a summary."""
    return getattr(y_true, "pos_label", None) if pos_label is None and is_summary(y_true) else pos_label


def fit_arrays(
    X: Outcomes,
    y: ArrayLike | None,
    sample_weight: ArrayLike | None,
    clusters: ArrayLike | None = None,
) -> tuple[ArrayLike, ArrayLike, ArrayLike | None]:
    """Return scores, labels and weights of a fit: those that were passed, or those of a summary."""
    if is_summary(X):
        if y is not None:
            raise ValueError(f"y was passed together with a {type(X).__name__}, which contains it. Omit it.")
        labels, scores, weight = sample_arrays(X, None, sample_weight, clusters=clusters)
        return scores, labels, weight
    if y is None:
        # the wording that scikit-learn's checks require
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None. Pass labels, or a "
            "CalibrationSketch alone."
        )
    return cast(ArrayLike, X), y, sample_weight
