"""The border: everything a user passes is checked here, once, before any work is done.

Every failure is a ``ValueError`` (or ``TypeError`` for a wrong kind of object) that names the argument,
says what was found, and what to do. Nothing is silently repaired.

Long because it is the only place where input is checked.
"""

from collections.abc import Collection
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Protocol, TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from sklearn_calib._arrays import as_array, missing_values, shape_of

__all__ = [
    "BinarySample",
    "ClassSample",
    "Outcomes",
    "SampleSummary",
    "as_array",
    "as_double",
    "check_binary",
    "check_class_sample",
    "check_classes",
    "check_flag",
    "check_fraction",
    "check_frequency_weights",
    "check_generator",
    "check_groups",
    "check_integer",
    "check_labels",
    "check_length",
    "check_not_negative",
    "check_numbers",
    "check_option",
    "check_positive",
    "check_probabilities",
    "check_resamples",
    "check_scores",
    "check_share",
    "check_two_labels",
    "check_weights",
    "fit_rows",
    "is_summary",
    "sample_rows",
    "shape_of",
    "shown_label",
]

Array = NDArray[np.float64]


class SampleSummary(Protocol):
    """What can stand for outcomes, predictions and weights of a binary problem, such as a sketch."""

    def as_weighted_sample(self) -> Any:
        """Return an object with outcomes 0 or 1 as ``y``, predictions as ``p``, and weights as ``w``."""


#: Outcomes, or a summary in place of outcomes, predictions and weights.
Outcomes = ArrayLike | SampleSummary

# bits of 1.0: read as unsigned integers, exactly the floats in [0, 1] do not exceed it
# (negative numbers, infinities and NaN all lie above)
_ONE_BITS = np.float64(1.0).view(np.uint64)
_ROW_SUM_TOLERANCE = 1e-3
# Whole numbers up to here are floats.
_MOST_COUNTED = 2.0**53
# Integer labels within such a span are counted, not sorted.
_MAX_LABEL_SPAN = 1 << 16


@dataclass(frozen=True, eq=False)
class BinarySample:
    """Checked binary data: outcomes 0/1 (int64), predictions (float64), weights (float64) or None.

    Rows of zero weight have been dropped; weights are therefore positive.
    """

    y: NDArray[np.int64]
    p: Array
    w: Array | None

    @property
    def total(self) -> float:
        """Total weight n."""
        return float(self.y.shape[0]) if self.w is None else float(self.w.sum())


@dataclass(frozen=True, eq=False)
class ClassSample:
    """Checked data of K >= 3 classes: class indices (int64), probabilities (n, K), weights or None.

    Rows of zero weight have been dropped, and rows of ``p`` divided by their sum.
    """

    y: NDArray[np.int64]
    p: Array
    w: Array | None


def is_summary(values: Any) -> TypeGuard[SampleSummary]:
    """Tell whether an argument stands for a whole sample."""
    return hasattr(values, "as_weighted_sample")


def sample_rows(
    y_true: Outcomes,
    y_proba: ArrayLike | None,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    groups: ArrayLike | None = None,
) -> tuple[ArrayLike, ArrayLike, ArrayLike | None]:
    """Return outcomes, predictions and weights: those that were passed, or those of a summary.

    Every function that takes a summary in place of outcomes and predictions begins with this.
    """
    if not is_summary(y_true):
        if y_proba is None:
            raise TypeError(
                "y_proba is missing. Pass the predicted probabilities beside y_true, or a CalibrationSketch "
                "alone."
            )
        return cast(ArrayLike, y_true), y_proba, sample_weight
    kind = type(y_true).__name__
    for name, value in (("y_proba", y_proba), ("sample_weight", sample_weight)):
        if value is not None:
            raise ValueError(f"{name} was passed beside a {kind}, which holds its own. Leave it out.")
    if pos_label is not None and not (isinstance(pos_label, Integral) and pos_label == 1):
        raise ValueError(
            f"pos_label={pos_label!r} was passed beside a {kind}, whose outcomes are 0 and 1. Leave it out."
        )
    if groups is not None:
        raise ValueError(
            f"groups need rows, which a {kind} does not keep. Pass arrays, or one {kind} per group."
        )
    rows = y_true.as_weighted_sample()
    return rows.y, rows.p, rows.w


def shown_label(y_true: Outcomes, pos_label: Any) -> Any:
    """Return the positive class to be shown: what was passed, or what a summary knows."""
    return getattr(y_true, "pos_label", None) if pos_label is None and is_summary(y_true) else pos_label


def fit_rows(
    X: Outcomes, y: ArrayLike | None, sample_weight: ArrayLike | None
) -> tuple[ArrayLike, ArrayLike, ArrayLike | None]:
    """Return scores, labels and weights of a fit: those that were passed, or those of a summary."""
    if is_summary(X):
        if y is not None:
            raise ValueError(f"y was passed beside a {type(X).__name__}, which holds its own. Leave it out.")
        labels, scores, weight = sample_rows(X, None, sample_weight)
        return scores, labels, weight
    if y is None:
        # in the words that scikit-learn looks for
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None. Pass labels, or a "
            "CalibrationSketch alone."
        )
    return cast(ArrayLike, X), y, sample_weight


def check_binary(
    y_true: Outcomes,
    y_proba: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> BinarySample:
    """Check outcomes, predicted probabilities of the positive class, and weights of a binary problem.

    A summary in place of outcomes and predictions is taken for the rows that it stands for.
    """
    y_true, y_proba, sample_weight = sample_rows(y_true, y_proba, sample_weight, pos_label)
    p = check_probabilities(y_proba)
    y = check_labels(y_true, pos_label)
    check_length("y_true", y.shape[0], "y_proba", p.shape[0])
    if sample_weight is None:
        return BinarySample(y, p, None)
    w = check_weights(sample_weight, p.shape[0])
    keep = w > 0
    if not keep.all():
        y, p, w = y[keep], p[keep], w[keep]
    return BinarySample(y, p, w)


def check_class_sample(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> ClassSample:
    """Check labels, probabilities of K >= 3 classes, and weights.

    The columns belong to ``labels`` in sorted order; without them, to the K distinct labels of ``y_true``, or
    to 0, ..., K - 1 if ``y_true`` holds such integers but lacks some.
    """
    p = check_scores(y_proba, "y_proba", kind="probability")
    n_classes = p.shape[1]
    y = column_or_1d(as_array(y_true, "y_true"))
    check_length("y_true", y.shape[0], "y_proba", p.shape[0])
    if labels is not None:
        # twice, as labels that are all different look like the targets of a regression
        known, _ = check_classes(np.tile(column_or_1d(as_array(labels, "labels")), 2), "labels")
        if known.shape[0] != n_classes:
            raise ValueError(
                f"labels has {known.shape[0]} distinct values but y_proba has {n_classes} columns. "
                "Pass the label of each column."
            )
        strange = ~np.isin(y, known)
        if strange.any():
            row = int(strange.argmax())
            raise ValueError(f"y_true contains {y.tolist()[row]!r} at row {row}, which is not in labels.")
        codes = np.searchsorted(known, y)
    else:
        counted = y.dtype.kind in "biu" and y.min() >= 0 and y.max() < n_classes
        known, codes = (np.arange(n_classes), y) if counted else check_classes(y, "y_true")
        if known.shape[0] != n_classes:
            raise ValueError(
                f"y_true has {known.shape[0]} distinct labels but y_proba has {n_classes} columns. "
                "Pass labels=, the label of each column."
            )
    y, p = codes.astype(np.int64), p / p.sum(axis=1, keepdims=True)
    if sample_weight is None:
        return ClassSample(y, p, None)
    w = check_weights(sample_weight, p.shape[0])
    keep = w > 0
    return ClassSample(y[keep], p[keep], w[keep])


def check_probabilities(y_proba: ArrayLike, name: str = "y_proba") -> Array:
    """Return the probability of the positive class as float64 of shape (n,).

    Accepts shapes (n,), (n, 1) and (n, 2); of two columns the last is the positive class.
    """
    p = check_numbers(y_proba, name)
    if p.ndim == 2 and p.shape[1] == 2:
        # each column is checked first, so that the sum below cannot be blamed for a NaN
        negative = _check_unit_interval(np.ascontiguousarray(p[:, 0]), name)
        p = _check_unit_interval(np.ascontiguousarray(p[:, 1]), name)
        gap = np.abs(negative + p - 1.0)
        if gap.size and gap.max() > _ROW_SUM_TOLERANCE:
            row = int(gap.argmax())
            raise ValueError(
                f"{name} has two columns but row {row} sums to {negative[row] + p[row]:.6g}, not 1. "
                "Pass the probabilities of both classes, or only those of the positive class."
            )
        return p
    if p.ndim == 2 and p.shape[1] == 1:
        p = p[:, 0]
    if p.ndim != 1:
        raise ValueError(
            f"{name} must have shape (n,), (n, 1) or (n, 2) for a binary problem, got shape {p.shape}. "
            "Pass the predicted probability of the positive class."
        )
    return _check_unit_interval(np.ascontiguousarray(p), name)


def check_labels(y_true: ArrayLike, pos_label: Any = None, name: str = "y_true") -> NDArray[np.int64]:
    """Return outcomes as 0/1 int64 of shape (n,), 1 where the label is the positive one.

    Without ``pos_label``, labels among {0, 1} or {-1, 1} (booleans too) have positive label 1; of any other
    two labels the greater one in sorted order is positive, as in ``classes_[1]`` of scikit-learn. A single
    label that is none of these is ambiguous and needs ``pos_label``.
    """
    y = as_array(y_true, name)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"{name} must have shape (n,), got shape {y.shape}. Pass one label per row.")
    if y.shape[0] == 0:
        raise ValueError(f"{name} is empty. Pass at least one row.")
    if pos_label is None or (isinstance(pos_label, Integral) and pos_label == 1):
        if y.dtype == np.int64 and np.bitwise_or.reduce(y) in (0, 1):
            return y
        if y.dtype == bool:
            return y.astype(np.int64)
        if y.dtype.kind in "iuf":
            positive = y == 1
            if (positive | (y == 0)).all():
                return positive.astype(np.int64)
    return _binarize(y, pos_label, name)


def _binarize(y: NDArray[Any], pos_label: Any, name: str) -> NDArray[np.int64]:
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = int(np.flatnonzero(~np.isfinite(y))[0])
        raise ValueError(f"{name} contains {y[row]} at row {row}. Remove or impute missing labels first.")
    if y.dtype.kind == "O" and missing_values(y).any():
        raise ValueError(f"{name} contains missing values. Remove or impute missing labels first.")
    try:
        labels = np.unique(y)
    except TypeError as error:
        raise ValueError(
            f"{name} mixes labels of types that cannot be ordered ({error}). Use labels of one type."
        ) from None
    shown = labels[:5].tolist()
    if labels.shape[0] > 2:
        raise ValueError(
            f"{name} has {labels.shape[0]} distinct values, among them {shown}, but a binary metric "
            "needs two. Reduce the problem to one class against the rest first."
        )
    known = labels.tolist()
    if pos_label is not None:
        if np.ndim(pos_label) > 0:
            raise ValueError(f"pos_label must be one label, got {pos_label!r}.")
        if pos_label not in known and len(known) == 2:
            raise ValueError(
                f"pos_label={pos_label!r} is not a label of {name}, whose labels are {shown}. "
                "Pass one of them."
            )
        positive = y == pos_label
    elif labels.dtype.kind in "biuf" and set(known) <= {-1, 0, 1} and set(known) != {-1, 0}:
        positive = y == 1
    elif len(known) == 2:
        positive = y == labels[1]
    else:
        raise ValueError(
            f"{name} contains the single label {known[0]!r}, so the positive class cannot be told. "
            "Pass pos_label."
        )
    return np.asarray(positive, dtype=bool).astype(np.int64)


def check_classes(y: ArrayLike, name: str = "y") -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the sorted distinct class labels and, for each row, the index of its label among them.

    There must be at least two classes; a column of labels is flattened with scikit-learn's usual warning.
    """
    given = as_array(y, name)
    if given.dtype.kind == "c":
        # in the words that scikit-learn looks for
        raise ValueError(f"Complex data not supported: {name} must contain labels.")
    labels = column_or_1d(given, warn=True)
    if labels.shape[0] == 0:
        raise ValueError(f"{name} is empty. Pass at least one row.")
    if labels.dtype.kind in "biu":
        classes, codes = _integer_classes(labels)
    else:
        classes, codes = _sorted_classes(labels, name)
    if classes.shape[0] < 2:
        raise ValueError(
            f"{name} contains only one class, {classes.tolist()[0]!r}, but calibration needs at least two."
        )
    return classes, codes.astype(np.int64, copy=False)


def _integer_classes(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what np.unique does with its inverse, by counting where the labels lie close together."""
    low, high = int(labels.min()), int(labels.max())
    # the second condition is about unsigned labels that the signed type cannot hold
    if high - low >= _MAX_LABEL_SPAN or high >= 1 << 62:
        classes, codes = np.unique(labels, return_inverse=True)
        return classes, codes
    codes = labels.astype(np.int64, copy=False)
    codes = codes - low if low else codes
    # of two neighbours both are there
    present = np.bincount(codes) > 0 if high - low > 1 else np.ones(high - low + 1, dtype=bool)
    classes = (np.flatnonzero(present) + low).astype(labels.dtype)
    return classes, codes if present.all() else (np.cumsum(present) - 1)[codes]


def _sorted_classes(labels: NDArray[Any], name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what np.unique does with its inverse, for labels that are not integers."""
    if labels.dtype.kind == "O" and missing_values(labels).any():
        raise ValueError(f"{name} contains missing values. Remove or impute missing labels first.")
    assert_all_finite(labels, input_name=name)
    try:
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            f"{name} mixes labels of types that cannot be ordered ({error}). Use labels of one type."
        ) from None
    return classes, codes


def check_two_labels(y: ArrayLike, classes: ArrayLike | None = None) -> NDArray[Any]:
    """Return both labels of a stream, sorted: those given, or those of its first outcomes."""
    if classes is not None:
        known = np.unique(as_array(classes, "classes"))
        if known.shape[0] != 2:
            raise ValueError(f"classes must hold two distinct labels, got {known.tolist()}.")
        return known
    labels = as_array(y, "y")
    if labels.size and (labels == labels.flat[0]).all():
        if labels.dtype == bool:
            return np.array([False, True])
        only = labels.ravel()[:1].tolist()[0]
        if labels.dtype.kind in "iuf" and only in (-1, 0, 1):
            return np.array([-1 if only == -1 else 0, 1], dtype=labels.dtype)
        raise ValueError(
            f"y contains the single label {only!r}, so the positive class cannot be told. Begin with "
            "partial_fit and pass classes, both labels."
        )
    check_labels(y, name="y")
    return np.unique(labels)


def check_groups(groups: Any, n_rows: int, name: str = "groups") -> NDArray[Any]:
    """Return the group of each row, shape (n_rows,): numbers or texts that can be ordered, none missing."""
    keys = as_array(groups, name)
    if keys.ndim != 1:
        raise ValueError(f"{name} must have shape (n,), got shape {keys.shape}. Pass one group per row.")
    check_length(name, keys.shape[0], "X", n_rows)
    if keys.dtype.names is not None:
        raise ValueError(
            f"{name} must hold numbers or texts, got records {keys.dtype}. Pass one of their fields."
        )
    missing = missing_values(keys)
    if missing.any():
        raise ValueError(
            f"{name} has a missing value at row {int(missing.argmax())}. Give such rows a group of their own."
        )
    try:
        np.unique(keys)
    except TypeError as error:
        raise ValueError(
            f"{name} mixes values of types that cannot be ordered ({error}). Use values of one type."
        ) from None
    return keys


def check_scores(X: Any, name: str = "X", *, kind: str) -> Array:
    """Return scores as float64: shape (n,) for a binary problem, (n, K) with K >= 3 otherwise.

    Parameters
    ----------
    X : array-like of shape (n,), (n, 1) or (n, K)
        One column is the score of the positive class.
    name : str
        Name of the argument in messages.
    kind : {"probability", "score", "logit"}
        What the values are. "probability": all in [0, 1], and the rows of several columns sum to 1. "score":
        any finite numbers; but two columns are always probabilities of both classes. "logit": any finite
        numbers; two columns are the logits of both classes. Of two probabilities the last one is returned, of
        two logits the last minus the first.
    """
    if issparse(X):
        raise TypeError(f"{name} is a sparse matrix, but scores are dense. Pass {name}.toarray().")
    scores = check_numbers(X, name)
    if scores.ndim not in (1, 2):
        raise ValueError(f"{name} must have shape (n,), (n, 1) or (n, K), got shape {scores.shape}.")
    if scores.ndim == 2 and scores.shape[1] == 0:
        raise ValueError(
            f"{name} has 0 feature(s) (shape={scores.shape}) while a minimum of 1 is required. "
            "Pass one score per row or one per class."
        )
    if scores.shape[0] == 0:
        raise ValueError(f"{name} is empty. Pass at least one row.")
    columns = 1 if scores.ndim == 1 else scores.shape[1]
    if kind == "probability":
        return check_probabilities(scores, name) if columns <= 2 else _check_simplex(scores, name)
    if kind == "score" and columns == 2:
        try:
            return check_probabilities(scores, name)
        except ValueError as error:
            raise ValueError(
                f"{error} Two columns are always read as the probabilities of both classes; pass any other "
                "score as one column."
            ) from None
    if not np.isfinite(scores).all():
        row = int(np.argwhere(~np.isfinite(scores))[0, 0])
        value = scores[row][~np.isfinite(scores[row])].flat[0] if columns > 1 else scores.flat[row]
        raise ValueError(
            f"{name} contains {_shown(value)} at row {row}. Remove or impute missing scores first."
        )
    if columns == 1:
        return scores.reshape(-1)
    return scores[:, 1] - scores[:, 0] if columns == 2 else scores


def _check_simplex(p: Array, name: str) -> Array:
    """Return ``p`` of shape (n, K) if its rows are probability vectors."""
    p = np.ascontiguousarray(p)
    if p.view(np.uint64).max() > _ONE_BITS:
        # not so fast, but it finds the row
        for column in range(p.shape[1]):
            _check_unit_interval(np.ascontiguousarray(p[:, column]), name)
    total = p.sum(axis=1)
    row = int(np.abs(total - 1.0).argmax())
    if abs(total[row] - 1.0) > _ROW_SUM_TOLERANCE:
        raise ValueError(
            f"{name} has {p.shape[1]} columns but row {row} sums to {total[row]:.6g}, not 1. "
            "Pass the probabilities of all classes."
        )
    return p


def check_weights(sample_weight: ArrayLike, n_rows: int, name: str = "sample_weight") -> Array:
    """Return finite non-negative weights with a positive sum, float64 of shape (n_rows,)."""
    w = check_numbers(sample_weight, name)
    if w.ndim != 1:
        raise ValueError(f"{name} must have shape (n,), got shape {w.shape}. Pass one weight per row.")
    check_length(name, w.shape[0], "the data", n_rows)
    if not np.isfinite(w).all():
        row = int(np.flatnonzero(~np.isfinite(w))[0])
        raise ValueError(f"{name} contains {w[row]} at row {row}. Weights must be finite.")
    if w.min() < 0:
        row = int(w.argmin())
        raise ValueError(f"{name} contains {w[row]:.6g} at row {row}. Weights must not be negative.")
    with np.errstate(over="ignore"):
        total = w.sum()
    if total == 0:
        raise ValueError(f"{name} is zero everywhere. At least one weight must be positive.")
    if not np.isfinite(total):
        raise ValueError(f"The sum of {name} overflows. Divide the weights by a constant.")
    return w


def check_frequency_weights(w: Array, name: str = "sample_weight") -> NDArray[np.int64]:
    """Return checked weights as int64 if they are whole numbers, which tests and intervals need."""
    times = np.rint(w)
    if not np.array_equal(times, w):
        row = int(np.flatnonzero(times != w)[0])
        raise ValueError(
            f"{name} must hold whole numbers (how often each row was observed), got {w[row]!r} at row "
            f"{row}. Tests and intervals depend on the number of observations; leave {name} out, or round it."
        )
    if w.sum() > _MOST_COUNTED:
        raise ValueError(
            f"{name} stands for {w.sum():.3g} rows, and no more than 2**53 can be counted. Divide it."
        )
    return times.astype(np.int64)


def check_resamples(n_resamples: Any, confidence: float) -> int:
    """Return ``n_resamples`` as int if so many draws have an upper quantile at level ``confidence``."""
    number = check_integer(n_resamples, "n_resamples")
    needed = int(np.ceil(1.0 / (1.0 - confidence) - 1e-9)) - 1
    if number < needed:
        raise ValueError(
            f"n_resamples={number} is too few for confidence={confidence:g}. Use n_resamples >= {needed}."
        )
    return number


def check_generator(random_state: Any, name: str = "random_state") -> np.random.Generator:
    """Return a generator: a new one from None or an integer, the same one, or one seeded by a RandomState."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 1 << 32, size=4, dtype=np.uint32))
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, bool) or not isinstance(random_state, Integral):
        raise TypeError(
            f"{name} must be None, an integer, a Generator or a RandomState, got {random_state!r}."
        )
    if random_state < 0:
        raise ValueError(f"{name} must not be negative, got {random_state!r}.")
    return np.random.default_rng(int(random_state))


def check_option(value: Any, name: str, options: Collection[str]) -> str:
    """Return ``value`` if it is one of the options."""
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {listed}, got {value!r}.")
    return value


def check_flag(value: Any, name: str) -> bool:
    """Return ``value`` as bool if it is True or False, those of numpy included."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_positive(value: Any, name: str) -> float:
    """Return ``value`` as a finite float greater than zero."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    if not 0 < as_double(value) < float("inf"):
        raise ValueError(f"{name} must be positive and finite, got {value!r}.")
    return float(value)


def check_not_negative(value: Any, name: str) -> float:
    """Return ``value`` as a finite float that is not less than zero."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    if not 0 <= as_double(value) < float("inf"):
        raise ValueError(f"{name} must be at least 0 and finite, got {value!r}.")
    return float(value)


def check_fraction(value: Any, name: str) -> float:
    """Return ``value`` as a float strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    if not 0 < as_double(value) < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {value!r}.")
    return float(value)


def check_share(value: Any, name: str) -> float:
    """Return ``value`` as a float in [0, 1)."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    if not 0 <= as_double(value) < 1:
        raise ValueError(f"{name} must be at least 0 and less than 1, got {value!r}.")
    return float(value)


def check_integer(value: Any, name: str, minimum: int = 1) -> int:
    """Return ``value`` as an int not below ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if int(value) < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value!r}.")
    return int(value)


def check_numbers(values: ArrayLike, name: str) -> Array:
    """Return real numbers of any shape as float64."""
    array = as_array(values, name)
    if array.dtype == np.float64:
        return array
    # the last are floats of 8 and 16 bits that other packages add to numpy
    if array.dtype.kind in "biuf" or (array.dtype.kind == "V" and "float" in array.dtype.name):
        return array.astype(np.float64)
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} must contain real numbers.")
    # object columns of numbers (a nullable pandas column) are fine; text and missing values are not
    if array.dtype.kind == "O" and not any(isinstance(v, str | bytes) for v in array.ravel()):
        try:
            return array.astype(np.float64)
        except OverflowError:
            raise ValueError(f"{name} contains an integer beyond double precision. Divide it.") from None
        except (TypeError, ValueError):
            missing = missing_values(array.ravel()).reshape(array.shape)
        if missing.any():
            row = int(np.argwhere(missing)[0, 0])
            raise ValueError(
                f"{name} contains a missing value at row {row}. Remove or impute missing values first."
            )
    raise ValueError(f"{name} must contain numbers only, got dtype {array.dtype} (missing values or text?).")


def as_double(value: Any) -> float:
    """Return a number as float, infinite where an integer or a fraction is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _check_unit_interval(p: Array, name: str) -> Array:
    """Return contiguous ``p`` if every value lies in [0, 1]."""
    if p.shape[0] == 0:
        raise ValueError(f"{name} is empty. Pass at least one row.")
    if p.view(np.uint64).max() <= _ONE_BITS:
        return p
    if np.isfinite(p).all() and p.min() >= 0 and p.max() <= 1:
        return p + 0.0  # -0.0, whose sign bit is set, becomes 0.0
    row = int(np.flatnonzero(~((p >= 0) & (p <= 1)))[0])
    if not np.isfinite(p[row]):
        raise ValueError(
            f"{name} contains {_shown(p[row])} at row {row}. Remove or impute missing predictions first."
        )
    raise ValueError(
        f"{name} contains {float(p[row])!r} at row {row}, outside [0, 1]. Pass probabilities; decision "
        "scores and logits first need a calibrator of any scores (isotonic, or Platt with link='identity')."
    )


def _shown(value: float) -> str:
    """Return the usual name of a number that is not finite."""
    return "NaN" if np.isnan(value) else str(value)


def check_length(name: str, found: int, other: str, expected: int) -> None:
    """Raise if two arguments differ in their number of rows."""
    if found != expected:
        raise ValueError(
            f"{name} has {found} rows but {other} has {expected}. Pass arrays of the same length."
        )
