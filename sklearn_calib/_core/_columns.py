"""How a column of features is divided into bins: numbers at quantiles, other values into categories."""

from collections import Counter
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_numerical(values: NDArray[Any]) -> bool:
    """Tell whether values that are not missing are numbers or dates; booleans are categories."""
    if values.dtype.kind != "O":
        return values.dtype.kind in "iufmM"
    return all(isinstance(value, Real) and not isinstance(value, bool) for value in values.tolist())


def quantile_edges(values: NDArray[Any], n_bins: int) -> NDArray[Any]:
    """Return all upper ends but the last of bins of about equal numbers of values, or of single ones."""
    ordered = np.sort(values)
    distinct = ordered[np.append(True, ordered[1:] != ordered[:-1])[: ordered.shape[0]]]
    if distinct.shape[0] <= n_bins:
        return distinct[:-1]
    # the smallest value with at least the fraction k / n_bins of the values at or below it
    edges = np.unique(ordered[-(-np.arange(1, n_bins) * ordered.shape[0] // n_bins) - 1])
    return edges[edges < distinct[-1]]


def frequent_categories(labels: list[Any], most: int, least: float = 0.0) -> dict[Any, int]:
    """Return codes of the most frequent labels, from 0 on, of those that occur ``least`` times or more."""
    found = sorted(Counter(labels).items(), key=lambda pair: (-pair[1], str(pair[0])))
    return {label: code for code, (label, number) in enumerate(found[:most]) if number >= least}
