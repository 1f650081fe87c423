"""Checked samples: labels, predictions and weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._core._weights import spread_within
from sklearn_calib._typing import Array
from sklearn_calib._validation._arrays import as_array, shape_of
from sklearn_calib._validation._columns import column_names
from sklearn_calib._validation._labels import (
    check_classes,
    check_clusters,
    check_columns,
    check_columns_of,
    check_groups,
    check_labels,
    check_order,
    flat_labels,
    named_classes,
    place_labels,
    positive_label,
    refuse_fractions,
)
from sklearn_calib._validation._numbers import (
    check_frequency_weights,
    check_length,
    check_probabilities,
    check_scores,
    check_weights,
)
from sklearn_calib._validation._parameters import check_option
from sklearn_calib._validation._warnings import warn_user

# Weights depend nearly on the class alone: each has so many samples, and the standard deviation of log w
# within the classes is at most this fraction of the greatest difference between their means.
_FEWEST_OF_CLASS, _LARGEST_SPREAD = 10, 0.25
# From this number of samples on, predictions that are all 0 or 1 cause a warning.
_MANY = 20
# Fewer clusters with an event (or a non-event, if these are rarer) are warned of.
_FEWEST_WITH_EVENTS = 10
# Whether probabilities are those that the package has asked a classifier for.
_OWN: ContextVar[bool] = ContextVar("own predictions", default=False)


@contextmanager
def own_predictions() -> Iterator[None]:
    """Do not ask whether probabilities are labels: the package has called ``predict_proba``."""
    token = _OWN.set(True)
    try:
        yield
    finally:
        _OWN.reset(token)


@dataclass(frozen=True, eq=False)
class _Weighted:
    y: NDArray[Any]
    p: Array
    w: Array | None
    # codes 0, 1, ... of the clusters; None means independent samples
    clusters: NDArray[np.int64] | None = field(default=None, kw_only=True)
    # sampling weights, with mean 1; otherwise weights are numbers of samples, or those of a metric
    sampling: bool = field(default=False, kw_only=True)
    # the mean sampling weight of each class, if weights depend on the class alone, or nearly so
    class_weights: Array | None = field(default=None, kw_only=True)
    # simulated outcomes are these events of labels that other samples share; subsets have their own
    events: Any = field(default=None, kw_only=True)
    # what is computed from the sample once
    cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def total(self) -> float:
        """Total weight n."""
        return float(self.y.shape[0]) if self.w is None else float(self.w.sum())

    @property
    def weights(self) -> Array:
        """The weights as an array, ones if there are none."""
        return np.ones(self.y.shape[0]) if self.w is None else self.w

    @property
    def sampling_weights(self) -> Array | None:
        """The weights if they are sampling weights."""
        return self.w if self.sampling else None

    def take(self, index: NDArray[Any]) -> Self:
        """Return a subset of the samples."""
        w = None if self.w is None else self.w[index]
        clusters = self.clusters
        if clusters is not None:
            # without gaps
            clusters = np.unique(clusters[index], return_inverse=True)[1]
        return replace(self, y=self.y[index], p=self.p[index], w=w, clusters=clusters, events=None)


@dataclass(frozen=True, eq=False)
class BinarySample(_Weighted):
    """Checked binary data: outcomes 0/1 (int64), predictions (float64), weights (float64) or None.

    Samples of zero weight have been dropped; weights are therefore positive. For functions that accept them,
    outcomes may be fractions (float64), which always have weights.
    """


@dataclass(frozen=True, eq=False)
class ClassSample(_Weighted):
    """Checked data of K >= 3 classes: class indices (int64), probabilities (n, K), weights or None.

    Samples of zero weight have been dropped, and rows of ``p`` divided by their sum. ``classes`` are the
    labels of the columns.
    """

    classes: NDArray[Any]

    def ordered(self) -> ClassSample:
        """Return the samples sorted by value, so that results do not depend on their original order."""
        return self.take(np.lexsort((self.weights, self.y, *self.p.T[::-1])))


def check_binary(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    clusters: ArrayLike | None = None,
    *,
    weights: str | None = None,
    fractions: bool = False,
    labels: ArrayLike | None = None,
) -> BinarySample:
    """Check outcomes, probabilities of the positive class, weights and clusters of a binary problem.

    ``weights`` tells what the weights mean, "sampling" or "frequency"; None is for metrics. With clusters,
    weights must be whole numbers unless they are sampling weights. With ``fractions``, outcomes may lie
    between 0 and 1. Of two ``labels`` the last is positive.
    """
    # anything but a table with names is converted once
    y_proba = y_proba if column_names(y_proba) else as_array(y_proba, "y_proba")
    columns = shape_of(y_proba, "y_proba")[1:]
    if max(columns, default=1) > 1 and shape_of(y_true, "y_true")[1:] == columns:
        raise ValueError(
            "y_true has one column per label (multilabel), but a binary target is needed here. Pass one "
            "label at a time."
        )
    p = check_probabilities(y_proba)
    if labels is not None:
        pos_label = positive_label(y_true, labels, pos_label)
    elif pos_label is None:
        check_order(y_true, y_proba, "y_true")
    ordered = columns == (2,)
    y = check_labels(y_true, pos_label, ordered=ordered, fractions=fractions)
    if y.dtype.kind == "f" and np.isin(p, (0.0, 1.0)).all():
        refuse_fractions(y_true, swapped=True)
    _warn_of_predicted_labels(p)
    check_length("y_true", y.shape[0], "y_proba", p.shape[0])
    check_columns_of(y_proba, y_true, y, "y_proba", pos_label)
    if sample_weight is None:
        w = np.ones(p.shape[0]) if y.dtype.kind == "f" else None
    else:
        w = check_weights(sample_weight, p.shape[0])
    codes = None if clusters is None else _cluster_codes(clusters, p.shape[0], w, weights)
    if w is not None and not (keep := w > 0).all():
        y, p, w = y[keep], p[keep], w[keep]
    if codes is not None:
        _warn_of_few_events(y, codes)
    return BinarySample(y, p, clusters=codes, **_understood(y, w, weights, 2))


def _understood(y: NDArray[Any], w: Array | None, weights: str | None, n_classes: int) -> dict[str, Any]:
    """Return the fields of a sample that depend on its positive weights."""
    if weights is not None:
        check_option(weights, "weights", ("sampling", "frequency"))
    if w is None or weights is None:
        return {"w": w}
    if weights == "frequency":
        check_frequency_weights(w)
        return {"w": w}
    if w.min() == w.max():
        return {"w": None}
    w = w / w.mean()
    classes, first = np.unique(y, return_index=True)
    weight = np.full(n_classes, np.nan)
    weight[classes] = w[first]
    # of few samples, equal weights within the classes are no evidence; up to rounding, as of single precision
    by_class = y.shape[0] > 2 * n_classes and np.allclose(w, weight[y], rtol=1e-6, atol=0.0)
    if by_class:
        w = weight[y]
    elif (count := np.bincount(y, minlength=n_classes)).min() >= _FEWEST_OF_CLASS:
        mean = np.bincount(y, np.log(w)) / count
        by_class = spread_within(y, w) <= _LARGEST_SPREAD * np.ptp(mean)
        weight = np.bincount(y, w) / count
    if by_class and classes.shape[0] < n_classes:
        missing = int(np.flatnonzero(np.isnan(weight))[0])
        raise ValueError(
            "sample_weight depends on the class alone (case-control), but y_true has no sample of the class "
            f"of column {missing} of y_proba, so that its weight is not known. Omit the column, and divide "
            "the others by their sum, or pass weights='frequency' if weights are numbers of samples."
        )
    return {"w": w, "sampling": True, "class_weights": weight if by_class else None}


def samples_of_groups(
    sample: BinarySample, groups: ArrayLike, sample_weight: ArrayLike | None
) -> list[tuple[str, BinarySample]]:
    """Return the name and the samples of each group; ``sample_weight`` are the weights before the check."""
    kept = None if sample_weight is None else as_array(sample_weight, "sample_weight") > 0
    labels, codes = check_groups(groups, sample.y.shape[0] if kept is None else kept.shape[0], other="y_true")
    codes = codes if kept is None else codes[kept]
    return [(str(labels[k]), _rescaled(sample.take(codes == k))) for k in np.unique(codes).tolist()]


def _rescaled(sample: BinarySample) -> BinarySample:
    """Return a sample whose sampling weights, if any, have mean 1."""
    if not sample.sampling:
        return sample
    own, scale = sample.class_weights, sample.weights.mean()
    return replace(sample, w=sample.weights / scale, class_weights=None if own is None else own / scale)


def _cluster_codes(
    clusters: ArrayLike, n: int, w: Array | None, weights: str | None
) -> NDArray[np.int64] | None:
    if w is not None and weights == "sampling":
        w = (w > 0.0).astype(np.float64)
    elif w is not None:
        check_frequency_weights(w)
    return check_clusters(clusters, n, w)


def _warn_of_few_events(y: NDArray[np.int64], clusters: NDArray[np.int64]) -> None:
    """Warn if few clusters contain the rarer outcome."""
    rarer = int(2 * np.count_nonzero(y) < y.shape[0])
    found = np.unique(clusters[y == rarer]).shape[0]
    if found < _FEWEST_WITH_EVENTS:
        warn_user(
            f"Only {found} clusters contain the outcome {rarer}. With fewer than {_FEWEST_WITH_EVENTS}, the "
            "dependence within clusters is hardly known, and tests have little power.",
        )


def _warn_of_predicted_labels(p: Array) -> None:
    """Warn if probabilities are 0 and 1 only, as are the labels that ``predict`` returns."""
    # the first values decide it, for nearly every sample without an array operation
    if _OWN.get() or p.shape[0] < _MANY or any(value not in (0.0, 1.0) for value in p[:_MANY].tolist()):
        return
    if ((p == 0.0) | (p == 1.0)).all() and p.min() < p.max():
        warn_user(
            "y_proba contains only 0 and 1. If these are the labels that predict returns, pass the "
            "probabilities of predict_proba instead.",
        )


def check_class_sample(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    *,
    weights: str | None = None,
) -> ClassSample:
    """Check labels, probabilities of K >= 3 classes, and weights; see :func:`check_binary`.

    The columns belong to ``labels``, which must be sorted; without them, to the K distinct labels of
    ``y_true``; if it lacks some, to the names of the columns, or to 0, ..., K - 1 if it contains such
    integers.
    """
    labels = named_classes(y_proba, y_true) if labels is None else labels
    p = check_scores(y_proba, "y_proba", kind="probability")
    n_classes = p.shape[1]
    y = flat_labels(y_true, "y_true")
    check_length("y_true", y.shape[0], "y_proba", p.shape[0])
    if labels is not None:
        known, codes = place_labels(y, labels, "y_true", "labels")
        if known.shape[0] != n_classes:
            raise ValueError(
                f"labels has {known.shape[0]} distinct values but y_proba has {n_classes} columns. "
                "Pass the label of each column."
            )
    else:
        counted = y.dtype.kind in "biu" and y.min() >= 0 and y.max() < n_classes
        known, codes = (np.arange(n_classes), y) if counted else check_classes(y, "y_true")
        if known.shape[0] != n_classes:
            raise ValueError(
                f"y_true has {known.shape[0]} distinct labels but y_proba has {n_classes} columns. "
                "Pass labels=, the label of each column."
            )
    check_columns(y_proba, known, "y_proba")
    y, p = codes.astype(np.int64), p / p.sum(axis=1, keepdims=True)
    w = None if sample_weight is None else check_weights(sample_weight, p.shape[0])
    cluster_codes = None if clusters is None else _cluster_codes(clusters, p.shape[0], w, weights)
    if w is not None:
        keep = w > 0
        y, p, w = y[keep], p[keep], w[keep]
    understood = _understood(y, w, weights, n_classes)
    return ClassSample(y, p, classes=known, clusters=cluster_codes, **understood)
