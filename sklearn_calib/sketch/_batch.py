"""A batch of checked samples, read in pieces that stay in cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib import _validation
from sklearn_calib._core._blocks import blocks
from sklearn_calib._typing import Array, Codes

#: Rows handled at a time: few enough for the cache, and so many that calls on a few of them cost little.
PIECE = 1 << 15


@dataclass(frozen=True, eq=False)
class Batch:
    """Checked samples: outcomes 0 or 1, predictions, weights of any numeric type or None."""

    y: Codes
    p: Array
    w: NDArray[Any] | None

    def part(self, rows: Any) -> Batch:
        """Return some of the samples."""
        return Batch(self.y[rows], self.p[rows], None if self.w is None else self.w[rows])

    def pieces(self) -> Iterator[tuple[NDArray[Any], Array, Array | None]]:
        """Yield outcomes, predictions and weights of the samples with weight, up to PIECE at a time."""
        for rows in blocks(self.p.shape[0], PIECE):
            y, p = self.y[rows], self.p[rows]
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
    y, p = _validation.as_array(y_true, "y_true"), _validation.as_array(y_proba, "y_proba")
    if y.ndim == p.ndim == 0:
        # a single sample
        y, p = y_true, y_proba = y[np.newaxis], p[np.newaxis]
        if sample_weight is not None:
            sample_weight = np.atleast_1d(_validation.as_array(sample_weight, "sample_weight"))
    w = None if sample_weight is None else _validation.as_array(sample_weight, "sample_weight")
    if y.size == 0 and p.size == 0 and (w is None or w.size == 0):
        return Batch(np.empty(0, dtype=np.int64), np.empty(0), None)
    p, codes = _validation.check_probabilities(p), _validation.check_labels(y, pos_label)
    if pos_label is None and not (y.ravel() == codes).all():
        labels = set(np.unique(y).tolist())
        if not labels <= {-1, 0, 1} or labels == {-1, 0}:
            raise ValueError(
                f"y_true has the labels {sorted(labels)}, of which a later batch may contain only one. Name "
                "the positive class by the parameter pos_label."
            )
    _validation.check_length("y_true", codes.shape[0], "y_proba", p.shape[0])
    _validation.check_columns_of(y_proba, y_true, codes, "y_proba", pos_label)
    n = p.shape[0]
    # all weights of one batch may be 0, those of another one are not; the factor leaves room for positions
    if w is not None and (
        w.shape != (n,) or w.dtype.kind not in "biuf" or not (w.min() >= 0 and float(w.max()) * n < 1e300)
    ):
        w = _validation.check_weights(sample_weight, n)
    return Batch(codes, p, w)
