"""A batch of samples, checked without a copy of it, and read in pieces that stay in cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._typing import Array
from sklearn_calib._validation import (
    as_array,
    check_columns_of,
    check_labels,
    check_length,
    check_probabilities,
    check_weights,
)

#: Rows handled at a time: few enough for the cache, and so many that calls on a few of them cost little.
PIECE = 1 << 15
_BITS_OF_ONE = int(np.float64(1.0).view(np.uint64))


@dataclass(frozen=True, eq=False)
class Batch:
    """Checked samples: outcomes 0 or 1, predictions, weights or None, of any numeric type."""

    y: NDArray[Any]
    p: NDArray[Any]
    w: NDArray[Any] | None

    def part(self, rows: Any) -> Batch:
        """Return some of the samples."""
        return Batch(self.y[rows], self.p[rows], None if self.w is None else self.w[rows])

    def pieces(self) -> Iterator[tuple[NDArray[Any], Array, Array | None]]:
        """Yield outcomes, predictions and weights of the samples with weight, up to PIECE at a time."""
        for start in range(0, self.p.shape[0], PIECE):
            rows = slice(start, start + PIECE)
            y, p = self.y[rows], np.ascontiguousarray(self.p[rows], dtype=np.float64)
            if self.w is None:
                yield y, p, None
                continue
            w = self.w[rows].astype(np.float64, copy=False)
            keep = w > 0
            if keep.all():
                yield y, p, w
            elif keep.any():
                yield y[keep], p[keep], w[keep]


def check_batch(y_true: ArrayLike, y_proba: ArrayLike, sample_weight: Any, pos_label: Any) -> Batch:
    """Check a batch, which may be empty, and may have one label only."""
    y, p = as_array(y_true, "y_true"), as_array(y_proba, "y_proba")
    w = None if sample_weight is None else as_array(sample_weight, "sample_weight")
    if y.size == 0 and p.size == 0 and (w is None or w.size == 0):
        return Batch(np.empty(0, dtype=np.int64), np.empty(0), None)
    if p.ndim != 1 or not p.size or not _in_unit_interval(p):
        p = check_probabilities(p)
    y = _check_outcomes(y, pos_label)
    check_length("y_true", y.shape[0], "y_proba", p.shape[0])
    check_columns_of(y_proba, y_true, y, "y_proba", pos_label)
    if w is None:
        return Batch(y, p, None)
    n = p.shape[0]
    # all weights of one batch may be 0, those of another one are not; the factor leaves room for positions
    if w.shape != (n,) or w.dtype.kind not in "biuf" or not (w.min() >= 0 and float(w.max()) * n < 1e300):
        w = check_weights(sample_weight, n)
    return Batch(y, p, w)


def _check_outcomes(y: NDArray[Any], pos_label: Any) -> NDArray[Any]:
    """Return outcomes 0 or 1 of any numeric type: the array itself where it holds them already."""
    usual = pos_label is None or (isinstance(pos_label, Integral) and pos_label == 1)
    if usual and y.ndim == 1 and y.size:
        if y.dtype.kind == "b" or (y.dtype.kind in "iu" and y.dtype.isnative and _bits(y).max() <= 1):
            return y
        pieces = (y[start : start + PIECE] for start in range(0, y.shape[0], PIECE))
        if y.dtype.kind == "f" and all(bool(((piece == 0) | (piece == 1)).all()) for piece in pieces):
            return y
    codes = check_labels(y, pos_label)
    if pos_label is None:
        labels = set(np.unique(y).tolist())
        if not labels <= {-1, 0, 1} or labels == {-1, 0}:
            raise ValueError(
                f"y_true has the labels {sorted(labels)}, of which a later batch may contain only one. Name "
                "the positive class by the parameter pos_label."
            )
    return codes


def _in_unit_interval(p: NDArray[Any]) -> bool:
    """Tell whether all values are floats in [0, 1]; the bits of no others are at most those of 1."""
    if p.dtype.kind != "f":
        return False
    if p.dtype == np.float64 and _bits(p).max() <= _BITS_OF_ONE:
        return True
    # -0.0 is one of them, too
    return bool(p.min() >= 0 and p.max() <= 1)


def _bits(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as unsigned integers of the same bits, of which one maximum tells both bounds."""
    return values.view(f"u{values.dtype.itemsize}")
