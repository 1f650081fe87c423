"""Calibrators inside others, fitted to rows that are counted by score and class."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

__all__ = ["check_divisible", "fit_cells"]

# More rows numpy cannot divide by a draw without replacement.
_MOST_ROWS = 10**9


def check_divisible(total: int, instead: str) -> None:
    """Raise if so many rows cannot be divided at random."""
    if total >= _MOST_ROWS:
        raise ValueError(
            f"sample_weight stands for {total} rows, and no more than 10**9 can be divided. Pass smaller "
            f"weights, or {instead}."
        )


def fit_cells(
    calibrator: Any,
    scores: NDArray[np.float64],
    codes: NDArray[np.int64],
    counts: NDArray[Any],
    generator: np.random.Generator,
    *,
    weighted: bool,
) -> Any:
    """Return a clone fitted to ``counts`` rows of each score and class, as weights or one by one.

    The rows are in random order, not sorted by score, as a calibrator may divide them once more.
    """
    cells = np.flatnonzero(counts)
    rows = generator.permutation(cells if weighted else np.repeat(cells, counts[cells].astype(np.int64)))
    # calibrators that know no weights can be fitted unless there are some
    metadata = {"sample_weight": counts[rows].astype(np.float64)} if weighted else {}
    return clone(calibrator).fit(scores[rows, np.newaxis], codes[rows], **metadata)
