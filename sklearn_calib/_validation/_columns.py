"""What columns of features and groups contain: numbers, dates or categories."""

from __future__ import annotations

import math
import re
import reprlib
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from sklearn_calib._core._columns import Column, value_text
from sklearn_calib._typing import Array
from sklearn_calib._validation._arrays import as_array, missing_values
from sklearn_calib._validation._warnings import warn_user

# Kinds by the types of all values; durations come first, as those of numpy are integers, too.
_TYPES: dict[str, tuple[type, ...]] = {
    "durations": (timedelta, np.timedelta64),
    "dates": (date, np.datetime64),
    "booleans": (bool, np.bool_),
    "numbers": (Real, Decimal, np.bool_),
}
# Texts of kinds: numbers below 1e308 without leading zeros, which codes have, and dates as in ISO 8601.
_TEXTS = {
    "numbers": re.compile(r"[+-]?(0|[1-9]\d{0,200}|(?=\.\d))(\.\d*)?([eE](\+?\d{1,2}|-\d{1,3}))?", re.ASCII),
    "dates": re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:.*)?", re.ASCII),
}
# If so many distinct texts, and most of them, are numbers or dates, but others are not, a warning tells.
_FEWEST_TOLD = 20


def column_names(table: Any) -> list[str]:
    """Return the names of the columns of a table; of other objects none."""
    return [] if isinstance(table, Mapping) else list(map(str, _keys(table)))


def _keys(table: Any) -> list[Any]:
    """Return the keys of the columns of a table; raise if two are equal as text."""
    own = table if isinstance(table, Mapping) else getattr(table, "columns", ())
    keys = list(getattr(table, "column_names", own))
    _by_text(((key, str(key)) for key in keys), "There are columns named")
    return keys


def _by_text(pairs: Iterable[tuple[Any, str]], what: str) -> dict[str, Any]:
    """Return values by their texts; raise if different ones have the same."""
    found: dict[str, Any] = {}
    for value, text in pairs:
        other = found.setdefault(text, value)
        if other is not value and other != value:
            pair = f"{reprlib.repr(other)} and {reprlib.repr(value)}"
            raise ValueError(f"{what} {pair}, which are equal as text. Change one of them.")
    return found


def table_columns(table: Any, name: str, *, single: bool = False) -> dict[str, tuple[Any, str]]:
    """Return the columns of a table, mapping or array by name, each with its place for messages.

    Columns of arrays are called x0, x1, ...; with ``single``, an array of one dimension is one.
    """
    # some sparse matrices are mappings
    if (isinstance(table, Mapping) and not issparse(table)) or hasattr(table, "columns"):
        return {str(key): (table[key], f"{name}[{key!r}]") for key in _keys(table)}
    # an array of another type would turn numbers beside texts into texts, all as long as the longest
    array = np.array(table, dtype=object) if isinstance(table, list | tuple) else as_array(table, name)
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} must contain real numbers.")
    array = array[:, np.newaxis] if single and array.ndim == 1 else array
    if array.ndim != 2:
        raise ValueError(
            f"{name} must have shape (n, n_columns), got shape {array.shape}. Reshape your data: a single "
            "sample is one row."
        )
    return {f"x{j}": (column, f"{name}[:, {j}]") for j, column in enumerate(array.T)}


def read_column(
    values: Any, name: str, kind: str | None = None, labels: Sequence[Any] = (), *, parse: bool = True
) -> Column:
    """Return a column, of its own kind or of a fitted one, whose categories were ``labels``.

    Texts are numbers or dates if all of them are; not with ``parse=False``, in a column of a
    categorical type, or if categories were fitted.
    """
    if isinstance(values, Column):
        return values
    declared = str(getattr(values, "dtype", getattr(values, "type", ""))).lower()
    is_declared = declared.startswith(("categ", "enum", "dictionary"))
    column = _read(values, name, parse and not is_declared if kind is None else kind != "categories")
    if kind is None:
        return categorical(column) if is_declared else column
    if kind == column.kind or {kind, column.kind} == {"numbers", "booleans"}:
        return column
    found = categorical(column)
    if not found.labels:
        return Column(name, kind, np.zeros(column.missing.shape[0], dtype=np.intp), column.missing)
    if kind == "categories" and (not labels or not set(labels).isdisjoint(found.labels)):
        return found
    strange = (text for text in found.labels if kind not in _TEXTS or _value_of(text, kind) is None)
    known = f"{kind}, such as {reprlib.repr(labels[0])}," if labels else kind
    raise ValueError(
        f"{name} contains {column.kind}, such as {reprlib.repr(next(strange, found.labels[0]))}, but {known} "
        f"were fitted. Pass {kind}, as in fit."
    )


def categorical(column: Column) -> Column:
    """Return a column whose categories are the texts of its values."""
    if column.kind == "categories":
        return column
    found, places = np.unique(column.known, return_inverse=True)
    codes, labels = _coded([value_text(value, column.kind) for value in found.tolist()], column.name)
    return _filled(column.name, "categories", column.missing, codes[places], labels)


def _read(values: Any, name: str, parse: bool) -> Column:
    """Return a column of its own kind."""
    is_list = isinstance(values, list | tuple)
    array = np.fromiter(values, object, len(values)) if is_list else as_array(values, name)
    if array.ndim != 1:
        raise ValueError(
            f"{name} must be one column of shape (n,) and of a distinct name, got shape {array.shape}."
        )
    if array.dtype.kind in "biufMm":
        missing = missing_values(array)
        kind = {"b": "booleans", "M": "dates", "m": "durations"}.get(array.dtype.kind, "numbers")
        found = array[~missing] if missing.any() else array
        return _filled(name, kind, missing, _seconds(found) if array.dtype.kind in "Mm" else found)
    array = array.astype(object, copy=False)
    wrong = tuple(one for one in set(map(type, array.tolist())) if _is_refused(one))
    if wrong:
        row = next(row for row, value in enumerate(array.tolist()) if isinstance(value, wrong))
        raise ValueError(
            f"{name} contains the {type(array[row]).__name__} {reprlib.repr(array[row])} at index {row}. "
            "Pass a number, a text or a date for each sample."
        )
    missing = missing_values(array)
    known: Any = array[~missing].tolist()
    if known and all(hasattr(one, "to_timestamp") for one in set(map(type, known))):
        # periods of pandas
        known = [value.to_timestamp() for value in known]
    types = set(map(type, known)) or {object}
    kinds = (kind for kind, own in _TYPES.items() if all(issubclass(one, own) for one in types))
    kind = next(kinds, "categories")
    if parse and all(issubclass(one, str) for one in types):
        kind, known = _parsed(known, name)
    if kind == "categories":
        return _filled(name, kind, missing, *_coded(known, name))
    if kind == "numbers":
        rows = np.flatnonzero(~missing).tolist()
        for row, value in zip(rows, known, strict=True):
            if math.inf > abs(value) > sys.float_info.max:
                raise ValueError(f"{name} contains a number beyond 1.8e308 at index {row}. Rescale it.")
    return _filled(name, kind, missing, _converted(known, kind))


def _filled(
    name: str, kind: str, missing: NDArray[np.bool_], known: NDArray[Any], labels: tuple[str, ...] = ()
) -> Column:
    """Return a column from its values that are not missing."""
    values = known
    if missing.any():
        values = np.zeros(missing.shape[0], dtype=known.dtype)
        values[~missing] = known
    return Column(name, kind, values, missing, labels)


def _is_refused(kind: type) -> bool:
    """Tell whether values of a type are no categories: collections, bytes, complex numbers, mutable ones."""
    wrong = issubclass(kind, (Collection, complex, np.complexfloating)) and not issubclass(kind, str)
    return wrong or getattr(kind, "__hash__", None) is None


def _coded(values: list[Any], name: str) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """Return the place of each value among the sorted texts of all."""
    # True and 1 are equal, but not as text
    keys = values if len(set(map(type, values))) < 2 else list(zip(map(type, values), values, strict=True))
    first = dict(zip(keys, values, strict=True))
    texts = {key: value_text(value, "") for key, value in first.items()}
    labels = sorted(_by_text(zip(first.values(), texts.values(), strict=True), f"{name} contains"))
    place = {text: code for code, text in enumerate(labels)}
    codes = {key: place[text] for key, text in texts.items()}
    return np.fromiter(map(codes.__getitem__, keys), np.intp, len(keys)), tuple(labels)


def _parsed(texts: list[str], name: str) -> tuple[str, list[Any]]:
    """Return the kind that texts have, and their values; warn if most are numbers or dates, but not all."""
    distinct = list(dict.fromkeys(texts))
    for kind in _TEXTS:
        if all(_value_of(text, kind) is None for text in distinct[:_FEWEST_TOLD]):
            continue
        found = {text: _value_of(text, kind) for text in distinct}
        strange = [text for text, value in found.items() if value is None]
        number = len(found) - len(strange)
        if not strange:
            return kind, [found[text] for text in texts]
        if number > max(_FEWEST_TOLD, len(strange)):
            warn_user(
                f"{name} contains texts: {number:,} different {kind}, but also {reprlib.repr(strange[0])}, "
                f"so that all are categories. Replace it by a missing value to have {kind}, or convert the "
                "column to a categorical type."
            )
    return "categories", texts


def _value_of(text: str, kind: str) -> Any:
    """Return the number or date that a text is, or None."""
    if _TEXTS[kind].fullmatch(text.strip()):
        with suppress(ValueError):
            return float(text) if kind == "numbers" else datetime.fromisoformat(text.strip())
    return None


def _converted(values: list[Any], kind: str) -> NDArray[Any]:
    """Return values of a kind; dates with a time zone in UTC, and others as they are."""
    if kind == "dates":
        pairs = ((value, getattr(value, "tzinfo", None)) for value in values)
        values = [value.astimezone(UTC).replace(tzinfo=None) if zone else value for value, zone in pairs]
    if kind in ("dates", "durations"):
        return _seconds(np.array(values, dtype="M8[us]" if kind == "dates" else "m8[us]"))
    array = np.array(values)
    return array if array.dtype.kind in "biuf" else array.astype(np.float64)


def _seconds(values: NDArray[Any]) -> Array:
    """Return durations in seconds, and dates in seconds since 1970; equal ones are equal in every unit."""
    whole = values.astype(f"{values.dtype.kind}8[s]")
    values = whole if np.datetime_data(values.dtype)[0] in "YM" else values
    seconds: Array = whole.astype(np.int64) + (values - whole) / np.timedelta64(1, "s")
    return seconds
