"""Columns of features and groups, and how they are divided: numbers at quantiles, others into categories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Column:
    """A column as it was read.

    Its kind is "numbers", "booleans", "dates" (seconds since 1970, in UTC), "durations" (seconds) or
    "categories": places in ``labels``, which are sorted texts. Values that are missing have no meaning.
    """

    name: str
    kind: str
    values: NDArray[Any]
    missing: NDArray[np.bool_]
    labels: tuple[str, ...] = ()

    @property
    def known(self) -> NDArray[Any]:
        """The values that are not missing."""
        return self.values[~self.missing]

    def take(self, rows: NDArray[Any]) -> Column:
        """Return some of the rows."""
        return replace(self, values=self.values[rows], missing=self.missing[rows])


@dataclass(frozen=True, eq=False)
class Scale:
    """The kind of a column, and its bins by their upper ends but the last, or its categories."""

    kind: str
    edges: NDArray[Any]
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, column: Column, n_bins: int, most: int, least: float = 0.0) -> Scale:
        """Divide numbers into bins; keep the ``most`` frequent categories, of ``least`` samples each."""
        known = column.known
        if column.kind != "categories":
            return cls(column.kind, quantile_edges(known, n_bins))
        number = np.bincount(known, minlength=len(column.labels))
        frequent = np.argsort(-number, kind="stable")[:most]
        kept = frequent[number[frequent] >= max(least, 1.0)]
        return cls(column.kind, np.empty(0), tuple(column.labels[k] for k in kept.tolist()))

    @property
    def size(self) -> int:
        """Number of bins or categories."""
        return len(self.labels) if self.kind == "categories" else self.edges.shape[0] + 1

    def codes(self, column: Column) -> NDArray[np.intp]:
        """Return bins or categories from 0 on, ``size`` for others, and ``size + 1`` for missing values."""
        if self.kind == "categories":
            place = {label: code for code, label in enumerate(self.labels)}
            own = [place.get(label, self.size) for label in column.labels]
            codes = np.array([*own, self.size], dtype=np.intp)[column.values]
        else:
            codes = np.searchsorted(self.edges, column.values)
        return np.where(column.missing, self.size + 1, codes)


def value_text(value: Any, kind: str, digits: int = 15) -> str:
    """Return a value of a column as text."""
    if kind == "dates":
        moment = (round(value * 1e6), "us") if abs(value) < 9e12 else (int(value), "s")
        return str(np.datetime_as_string(np.datetime64(*moment), unit="auto"))
    if kind == "durations":
        return f"{value / 86400.0:.{digits}g} days"
    if kind == "booleans":
        return str(bool(value))
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def quantile_edges(values: NDArray[Any], n_bins: int) -> NDArray[Any]:
    """Return all upper ends but the last of bins of about equal numbers of values, or of single ones."""
    ordered = np.sort(values)
    distinct = ordered[np.append(True, ordered[1:] != ordered[:-1])[: ordered.shape[0]]]
    if distinct.shape[0] <= n_bins:
        return distinct[:-1]
    # the smallest value with at least the fraction k / n_bins of the values at or below it
    edges = np.unique(ordered[-(-np.arange(1, n_bins) * ordered.shape[0] // n_bins) - 1])
    edges = edges[edges < distinct[-1]]
    return edges if edges.shape[0] else distinct[-2:-1]
