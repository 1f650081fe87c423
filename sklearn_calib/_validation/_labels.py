"""Outcomes, class labels, and groups of samples."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from sklearn_calib._validation._arrays import as_array, missing_values, shape_of
from sklearn_calib._validation._columns import categorical, column_names, read_column
from sklearn_calib._validation._numbers import check_length, only_rounding
from sklearn_calib._validation._warnings import warn_user

# Integer labels within this range are counted, not sorted.
_MAX_LABEL_SPAN = 1 << 16
# Fewer clusters are refused; fewer than the second are warned of.
_FEWEST_CLUSTERS, _ENOUGH_CLUSTERS = 4, 15
_SHORT = reprlib.Repr()
_SHORT.maxlist, _SHORT.maxstring = 10, 40


def check_labels(
    y_true: ArrayLike,
    pos_label: Any = None,
    name: str = "y_true",
    *,
    ordered: bool = True,
    fractions: bool = False,
) -> NDArray[Any]:
    """Return outcomes as 0/1 int64 of shape (n,), 1 for the positive class.

    With ``fractions``, outcomes in [0, 1] of which some lie between are returned as they are, as float64.
    Without ``pos_label``, labels among {0, 1} or {-1, 1} (booleans too) have positive label 1; of any other
    two labels the greater one in sorted order is positive, as in ``classes_[1]`` of scikit-learn. A single
    label that is none of these is ambiguous and needs ``pos_label``. So do two texts with ``ordered=False``,
    for a single column of probabilities.
    """
    y = as_array(y_true, name)
    _refuse_complex(y, name)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"{name} must have shape (n,), got shape {y.shape}. Pass one label per sample.")
    if y.shape[0] == 0:
        raise ValueError(f"{name} is empty. Pass at least one sample.")
    if pos_label is None or (isinstance(pos_label, Real) and pos_label == 1):
        if y.dtype == np.int64 and np.bitwise_or.reduce(y) in (0, 1):
            return y
        if y.dtype == bool:
            return y.astype(np.int64)
        if y.dtype.kind in "iuf":
            positive = y == 1
            if (positive | (y == 0)).all():
                return positive.astype(np.int64)
        if fractions and _are_fractions(y):
            return np.clip(y.astype(np.float64), 0.0, 1.0)
        refuse_fractions(y, name)
    return _binarize(y, pos_label, name, ordered)


def greater_text(y_true: ArrayLike, name: str = "y_true") -> Any:
    """Return the greater of two labels that are texts; None for all other labels."""
    y = as_array(y_true, name)
    if y.dtype.kind not in "OSU" or not y.size or not isinstance(y.flat[0], str | bytes):
        return None
    known = set(y.ravel().tolist()) if all(isinstance(label, type(y.flat[0])) for label in y.flat) else set()
    return max(known) if len(known) == 2 else None


def _binarize(y: NDArray[Any], pos_label: Any, name: str, ordered: bool) -> NDArray[np.int64]:
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = int(np.flatnonzero(~np.isfinite(y))[0])
        raise ValueError(f"{name} contains {y[row]} at index {row}. Remove or impute missing labels first.")
    refuse_missing(y, name)
    with _orderable(name):
        labels = np.unique(y)
    shown = labels[:5].tolist()
    if labels.shape[0] > 2:
        wrong = (
            "needs two, or floats from 0 to 1. Pass the probabilities of all classes, one column each, if "
            "multiclass targets are supported, or one class against the rest."
        )
        if _are_fractions(labels):
            wrong = f"of outcomes from 0 to 1 needs pos_label=1, got {pos_label!r}. For 0 pass 1 - {name}."
        elif labels.dtype.kind == "O" and all(isinstance(label, float) for label in labels):
            wrong = "needs two, or an array of floats; this one has dtype object. Convert it to float."
        raise ValueError(
            f"{name} has {labels.shape[0]} distinct values, among them {shown}, but a binary metric {wrong}"
        )
    known = labels.tolist()
    if pos_label is not None:
        check_pos_label(pos_label)
        if pos_label not in known and len(known) == 2:
            raise ValueError(
                f"pos_label={pos_label!r} is not a label of {name}, whose labels are {shown}. "
                "Pass one of them."
            )
        positive = y == pos_label
    elif labels.dtype.kind in "biuf" and set(known) <= {-1, 0, 1} and set(known) != {-1, 0}:
        positive = y == 1
    elif len(known) == 2 and not ordered and isinstance(known[0], str | bytes):
        raise ValueError(
            f"{name} contains the labels {known}, and pos_label is not specified, so the class of the "
            f"probabilities is ambiguous. Pass pos_label={known[0]!r} or pos_label={known[1]!r}, or the "
            "probabilities of both classes in two columns."
        )
    elif len(known) == 2:
        positive = y == labels[1]
    else:
        raise ValueError(
            f"{name} contains the single label {known[0]!r}, so the positive class is ambiguous. "
            "Pass pos_label."
        )
    return np.asarray(positive, dtype=bool).astype(np.int64)


def _are_fractions(y: NDArray[Any]) -> bool:
    """Tell whether outcomes are numbers in [0, 1], up to rounding, of which some lie between 0 and 1."""
    return y.dtype.kind == "f" and bool(((y > 0) & (y < 1)).any()) and only_rounding(y)


def refuse_fractions(y_true: ArrayLike, name: str = "y_true", *, swapped: bool = False) -> None:
    """Raise if outcomes lie between 0 and 1; ``swapped`` if the predictions are all 0 or 1."""
    y = as_array(y_true, name).ravel()
    if _are_fractions(y):
        row = int(np.argmax((y > 0) & (y < 1)))
        order = "Scores or features come first, then outcomes"
        if name == "y_true":
            order = "Outcomes come first, then probabilities"
        found = f"{name} looks like probabilities: it contains {float(y[row]):.6g} at index {row}"
        if swapped:
            raise ValueError(
                f"{found}, and the other argument only 0 and 1, as outcomes do. Did you swap the arguments? "
                f"{order}."
            )
        raise ValueError(
            f"{found}, but outcomes 0 and 1 are needed here. Did you swap the arguments? {order}. Of mean "
            "judgments, pass all single judgments, with the item as clusters. If these are unknown, draw "
            f"an outcome for each sample, rng.random(n) < {name}, or use a metric or calibrator that accepts "
            "soft labels (docs/inputs.md)."
        )


def refuse_missing(labels: NDArray[Any], name: str) -> None:
    """Raise if object labels contain None, NaN, missing values of pandas, or collections."""
    if labels.dtype.kind != "O" or not labels.size:
        return
    _refuse_collections(labels, name)
    if missing_values(labels.ravel()).any():
        raise ValueError(f"{name} contains missing values. Remove or impute missing labels first.")


def _refuse_collections(labels: NDArray[Any], name: str) -> None:
    """Raise if object labels are tuples or other collections."""
    first = labels.flat[0]
    if isinstance(first, Collection) and not isinstance(first, str | bytes):
        raise ValueError(
            f"{name} contains the {type(first).__name__} {repr(first)[:60]}. Pass a number or a text for "
            "each label."
        )


def _refuse_complex(labels: NDArray[Any], name: str) -> None:
    if labels.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} must contain labels.")


def check_pos_label(value: Any) -> None:
    """Raise if ``value`` is a collection of labels."""
    if isinstance(value, Collection) and not isinstance(value, str | bytes) and getattr(value, "ndim", 1) > 0:
        raise ValueError(f"pos_label must be one label, got {value!r}.")


def flat_labels(values: ArrayLike, name: str, *, warn: bool = False) -> NDArray[Any]:
    """Return labels of shape (n,) or (n, 1) as shape (n,); errors are worded as in scikit-learn."""
    labels = as_array(values, name)
    _refuse_complex(labels, name)
    if labels.ndim != 1 and not (labels.ndim == 2 and labels.shape[1] == 1):
        swapped = "Did you swap the arguments? Scores or features come first, then outcomes. "
        raise ValueError(
            f"{name} should be a 1d array, got an array of shape {labels.shape}. "
            f"{swapped if _are_fractions(labels) else ''}Pass one label per sample; "
            "if samples have several labels, fit one model for each: "
            "MultiOutputClassifier(CalibratedClassifier(...))."
        )
    if labels.shape[0] == 0:
        raise ValueError(f"{name} is empty. Pass at least one sample.")
    flat: NDArray[Any] = labels if labels.ndim == 1 else column_or_1d(labels, warn=warn)
    return flat


def check_classes(
    y: ArrayLike, name: str = "y", *, fractions: bool = False
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the sorted distinct class labels and, for each sample, the index of its label among them.

    There must be at least two classes; a column of labels is flattened with scikit-learn's usual warning.
    With ``fractions``, of outcomes between 0 and 1 the classes are 0 and 1, and the outcomes are returned.
    """
    labels = flat_labels(y, name, warn=True)
    if fractions and _are_fractions(labels):
        return np.arange(2), np.clip(labels.astype(np.float64), 0.0, 1.0)
    refuse_fractions(labels, name)
    if labels.dtype.kind in "biu":
        classes, codes = _integer_classes(labels)
    else:
        classes, codes = _sorted_classes(labels, name)
    if classes.shape[0] < 2:
        raise ValueError(
            f"{name} contains only one class, {classes.tolist()[0]!r}, but calibration needs at least two."
        )
    return classes, codes.astype(np.int64, copy=False)


def positive_label(y_true: ArrayLike, labels: ArrayLike, pos_label: Any = None) -> Any:
    """Return the positive one of both ``labels`` of a binary problem, the last; ``y_true`` may lack one."""
    both = as_array(labels, "labels")
    known = both.tolist()
    if both.shape != (2,) or known[0] == known[1]:
        raise ValueError(
            "labels must be both labels of a binary problem, as y_proba belongs to one: the negative and the "
            f"positive one, got {_shown(both)}."
        )
    if pos_label is not None and pos_label != known[1]:
        raise ValueError(
            f"pos_label={pos_label!r} contradicts labels={known}, of which the last is positive. Omit one of "
            "them."
        )
    y = flat_labels(y_true, "y_true")
    refuse_missing(y, "y_true")
    strange = ~np.isin(y, both)
    if strange.any() and not _are_fractions(y):
        row = int(strange.argmax())
        raise ValueError(f"y_true contains {y.tolist()[row]!r} at index {row}, which is not in labels.")
    return known[1]


def check_indicators(y_true: NDArray[Any]) -> NDArray[np.int64]:
    """Return a matrix with one column per label (multilabel) as int64 if it contains 0 and 1 only."""
    advice = "pass one column at a time, with the rows in which it is known, and average over the columns."
    missing = missing_values(y_true.ravel()).reshape(y_true.shape)
    if missing.any():
        row, k = np.argwhere(missing)[0].tolist()
        raise ValueError(f"y_true lacks the label of row {row} and column {k} (multilabel): {advice}")
    if not np.isin(y_true, (0, 1)).all():
        raise ValueError(
            "y_true with one column per label (multilabel) must hold 0 and 1 only; if another value marks "
            f"missing labels, {advice}"
        )
    return y_true.astype(np.int64)


def label_columns(y_proba: Any, classes: Any = None) -> Any:
    """Return the matrix (n, n_labels) of a list that has an array (n, 2) for each label; else the argument.

    ``predict_proba`` of ``MultiOutputClassifier`` and of trees returns such a list. Its array has a single
    column if the training data contained only one class of the label, which ``classes`` tell.
    """
    if not (isinstance(y_proba, list | tuple) and len(y_proba)) and getattr(y_proba, "ndim", 0) != 3:
        return y_proba
    if np.ndim(y_proba[0]) != 2:
        return y_proba
    parts = [as_array(part, f"y_proba[{k}]") for k, part in enumerate(y_proba)]
    if any(part.shape[1:] not in ((1,), (2,)) for part in parts):
        return y_proba
    for k, part in enumerate(parts):
        if part.shape[1] == 1 and classes is None:
            raise ValueError(
                f"y_proba[{k}] has one column, because the training data have one class only of label {k}. "
                "Leave the label out, or pass a matrix with the probability of each label."
            )
    return np.column_stack(
        [
            part[:, 1] if part.shape[1] == 2 else np.full(part.shape[0], float(classes[k][0] == 1))
            for k, part in enumerate(parts)
        ]
    )


def place_labels(
    y: ArrayLike, classes: ArrayLike, name: str = "y", classes_name: str = "classes"
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return sorted ``classes`` and, for each label of ``y``, its index among them; ``y`` may lack some."""
    known = check_sorted(classes, classes_name)
    labels = flat_labels(y, name)
    strange = ~np.isin(labels, known)
    if strange.any():
        row = int(strange.argmax())
        raise ValueError(
            f"{name} contains {labels.tolist()[row]!r} at index {row}, which is not in {classes_name}."
        )
    return known, np.searchsorted(known, labels).astype(np.int64)


def check_sorted(classes: ArrayLike, name: str) -> NDArray[Any]:
    """Return the distinct labels of ``classes``; raise ValueError if they are not in sorted order."""
    given = flat_labels(classes, name)
    # repeated, because distinct labels look like regression targets
    known, codes = check_classes(np.tile(given, 2), name)
    if (np.diff(codes[: given.shape[0]]) < 0).any():
        raise ValueError(
            f"{name} must be in sorted order, {_shown(known)}, got {_shown(given)}. Sort the labels, and the "
            "columns of the probabilities in the same way."
        )
    return known


def named_classes(table: Any, y: ArrayLike) -> NDArray[Any] | None:
    """Return the names of three or more columns as labels, if ``y`` has labels of only some of them."""
    names = column_names(table)
    if len(names) < 3:
        return None
    labels = as_array(y, "y")
    found = set(map(str, (labels.ravel() if labels.dtype.kind == "O" else np.unique(labels)).tolist()))
    names = _bare(names, found)
    if not found < set(names):
        return None
    if labels.dtype.kind in "iu":
        return np.array(list(map(int, names)), dtype=labels.dtype)
    return np.array(names) if labels.dtype.kind in "OU" else None


def _bare(names: list[str], labels: Collection[str]) -> list[str]:
    """Return names of columns without what all have before and after their label, such as "p_"."""
    if set(labels) <= set(names):
        return names
    for name, label in product(names, filter(None, labels)):
        before, _, after = name.rpartition(label)
        if label in name and {before + other + after for other in labels} <= set(names):
            return [name.removeprefix(before).removesuffix(after) for name in names]
    return names


def check_columns(table: Any, known: Iterable[Any] | None, name: str) -> None:
    """Raise if columns are named by the classes ``known``, as in "p_low", but in another order.

    Of unknown classes, None, the names are checked if all are integers.
    """
    found = column_names(table)
    if known is None:
        found = _bare(found, [each[len(each.rstrip("0123456789")) :] for each in found])
    try:
        expected = sorted(found, key=int) if known is None else list(map(str, known))
    except ValueError:
        return
    found = _bare(found, expected)
    if found != expected and sorted(found) == sorted(expected):
        raise ValueError(
            f"The columns of {name} are {_shown(column_names(table))}, but must be in the order of the "
            f"labels, {_shown(expected)}. Reorder the columns."
        )


def check_order(y: Any, table: Any, name: str) -> None:
    """Raise if labels have another order than the sorted one, which that of columns without names must be."""
    kind: Any = getattr(y, "dtype", None)
    if not getattr(kind, "ordered", False):
        return
    order = list(kind.categories)
    if order != sorted(order) and not column_names(table) and max(shape_of(table, "X")[1:], default=1) > 1:
        raise ValueError(
            f"{name} is an ordered categorical, {_shown(order)}, but columns without names are those of the "
            f"sorted labels, {_shown(sorted(order))}. Pass a table whose columns are named by the labels; if "
            f"they are in sorted order, as from predict_proba, pass the labels as {name}.astype(object)."
        )


def check_columns_of(table: Any, y_true: ArrayLike, codes: NDArray[Any], name: str, pos_label: Any) -> None:
    """Raise if the columns of a table are not in the order of the codes that labels were given."""
    if not column_names(table):
        return
    check_columns(table, as_array(y_true, "y_true").ravel()[np.unique(codes, return_index=True)[1]], name)
    if pos_label is None:
        # labels that do not occur are not among those above
        check_columns(table, None, name)


def _shown(labels: Any) -> str:
    """Return the first labels of an array or list, for a message."""
    return _SHORT.repr(np.asarray(labels).tolist())


def _integer_classes(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return np.unique(labels, return_inverse=True), by counting if the labels have a small range."""
    low, high = int(labels.min()), int(labels.max())
    # the second condition excludes unsigned labels that overflow the signed type
    if high - low >= _MAX_LABEL_SPAN or high >= 1 << 62:
        classes, codes = np.unique(labels, return_inverse=True)
        return classes, codes
    codes = labels.astype(np.int64, copy=False)
    codes = codes - low if low else codes
    # two neighboring labels are both present
    present = np.bincount(codes) > 0 if high - low > 1 else np.ones(high - low + 1, dtype=bool)
    classes = (np.flatnonzero(present) + low).astype(labels.dtype)
    return classes, codes if present.all() else (np.cumsum(present) - 1)[codes]


def _sorted_classes(labels: NDArray[Any], name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return np.unique(labels, return_inverse=True), for labels that are not integers."""
    refuse_missing(labels, name)
    assert_all_finite(labels, input_name=name)
    with _orderable(name):
        try:
            check_classification_targets(labels)
        except ValueError as error:
            raise ValueError(f"{name} does not contain class labels. {error}") from None
        return np.unique(labels, return_inverse=True)


@contextmanager
def _orderable(name: str) -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        raise ValueError(
            f"{name} mixes labels of types that cannot be ordered ({error}). Use labels of one type."
        ) from None


def check_two_labels(y: ArrayLike, classes: ArrayLike | None = None) -> NDArray[Any]:
    """Return both labels of a stream, sorted: ``classes``, or the labels of its first outcomes."""
    if classes is not None:
        known = check_sorted(classes, "classes")
        if known.shape[0] != 2:
            raise ValueError(f"classes must contain two distinct labels, got {known.tolist()}.")
        return known
    labels = as_array(y, "y")
    refuse_missing(labels, "y")
    if labels.size and (labels == labels.flat[0]).all():
        if labels.dtype == bool:
            return np.array([False, True])
        only = labels.ravel()[:1].tolist()[0]
        if labels.dtype.kind in "iuf" and only in (-1, 0, 1):
            return np.array([-1 if only == -1 else 0, 1], dtype=labels.dtype)
        raise ValueError(
            f"y contains the single label {only!r}, so the positive class is ambiguous. Begin with "
            "partial_fit and pass classes, both labels."
        )
    check_labels(y, name="y")
    return np.unique(labels)


def check_clusters(clusters: Any, n_samples: int, w: NDArray[Any] | None = None) -> NDArray[np.int64] | None:
    """Return a code 0, 1, ... for the cluster of each sample of positive weight; None if all are single."""
    _, places = check_groups(clusters, n_samples, "clusters", "y_true")
    codes = np.unique(places if w is None else places[w > 0], return_inverse=True)[1]
    n_clusters = int(codes.max()) + 1
    if n_clusters == (n_samples if w is None else w.sum()):
        return None
    if n_clusters < _FEWEST_CLUSTERS:
        raise ValueError(
            f"clusters has {n_clusters} distinct label{'s'[: n_clusters > 1]}, too few to estimate how much "
            f"the samples of a cluster depend on each other. Pass at least {_FEWEST_CLUSTERS}, better "
            f"{_ENOUGH_CLUSTERS} and more; or, if parts of a cluster are independent, labels of these."
        )
    if n_clusters < _ENOUGH_CLUSTERS:
        warn_user(
            f"clusters has {n_clusters} distinct labels. With fewer than {_ENOUGH_CLUSTERS}, p-values and "
            "intervals are not reliable, and tests have little power.",
        )
    return codes


def check_groups(
    groups: Any,
    n_samples: int,
    name: str = "groups",
    other: str = "X",
    fitted: Sequence[Any] = (),
) -> tuple[list[Any], NDArray[np.intp]]:
    """Return the sorted distinct groups, numbers or texts, and the place of each sample's among them.

    They are of the kind of the ``fitted`` groups, if there are any.
    """
    kind = None if not fitted else "categories" if isinstance(fitted[0], str) else "numbers"
    column = read_column(groups, name, kind, fitted, parse=False)
    column = column if column.kind in ("numbers", "booleans") else categorical(column)
    check_length(name, column.missing.shape[0], other, n_samples)
    if column.missing.any():
        raise ValueError(
            f"{name} has a missing value at index {int(column.missing.argmax())}. Give such samples a label."
        )
    if column.kind == "categories":
        return list(column.labels), column.values
    found, places = np.unique(column.values, return_inverse=True)
    return found.tolist(), places
