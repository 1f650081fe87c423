"""Bins and cells: equal width, equal mass, and the packed one-pass summary of a large sample."""

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import CHUNK, GroupedOutcomes

__all__ = ["condense", "quantile_bins", "uniform_bins"]

Array = NDArray[np.float64]

# Rows per pass of `condense`: large enough to amortise the zeroing of the cells, small enough for the cache.
_ROWS = 1 << 18


def uniform_bins(p: Array, n_bins: int) -> NDArray[np.int64]:
    """Return the index of the equal-width bin [j/n, (j+1)/n) of each p in [0, 1]; the last bin is closed.

    The product p * n can round across an edge (0.29 * 100 is below 29), so the edges decide, not the product.
    """
    index = np.floor(p * n_bins)
    index -= p < index / n_bins
    index += p >= (index + 1) / n_bins
    return np.minimum(index, n_bins - 1).astype(np.int64)


def quantile_bins(grouped: GroupedOutcomes, n_bins: int) -> NDArray[np.int64]:
    """Return the equal-mass bin of each group: where the middle of its weight falls in n_bins equal shares.

    A group is never divided, so ties stay together; a bin can stay empty.
    """
    middle = np.cumsum(grouped.weight) - 0.5 * grouped.weight
    return np.minimum(np.floor(middle * (n_bins / grouped.total)), n_bins - 1).astype(np.int64)


def condense(y: NDArray[np.int64], x: Array, cells: int) -> tuple[NDArray[np.int64], Array, Array]:
    """Summarise rows with x in [0, 1] by one weighted row for each occupied (cell, outcome).

    Each row is replaced by the mean position of the rows of its outcome that share its cell, so all first
    moments stay exact and positions move by less than 1/cells. One pass without a sort: adding
    1.5 * 2**52 / cells rounds x to a multiple of 1/cells and leaves the cell's number in the low bits, and
    the sum of 1 + (x - node) over a cell holds both the count, in its integer part, and the sum of offsets.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Outcomes 0 or 1, int64.
    x : ndarray of shape (n,)
        Positions in [0, 1].
    cells : int
        A power of two from 64 to 2**20.

    Returns
    -------
    outcome, position, weight : ndarrays of shape (m,), m <= 2 * (cells + 1)
        Outcome, mean position, and number of the rows gathered.
    """
    width = 1.0 / cells
    magic = 1.5 * 2.0**52 * width
    magic_bits = int(np.float64(magic).view(np.int64))
    # an offset is at most width / 2, so those of one pass add up to less than half a unit
    unit = 2.0 ** np.ceil(np.log2(_ROWS * width + 1.0))
    size = 2 * (cells + 1)
    count, offset = np.zeros(size), np.zeros(size)
    rows = min(x.shape[0], _ROWS)
    shifted, key = np.empty(rows), np.empty(rows, dtype=np.int64)
    for start in range(0, x.shape[0], _ROWS):
        stop = min(start + _ROWS, x.shape[0])
        for a in range(start, stop, CHUNK):
            b = min(a + CHUNK, stop)
            part, code = shifted[a - start : b - start], key[a - start : b - start]
            np.add(x[a:b], magic, out=part)
            np.subtract(part.view(np.int64), magic_bits, out=code)
            np.left_shift(code, 1, out=code)
            np.add(code, y[a:b], out=code)
            np.subtract(part, magic + unit, out=part)
            np.subtract(x[a:b], part, out=part)
        packed = np.bincount(key[: stop - start], weights=shifted[: stop - start], minlength=size)
        in_cell = np.rint(packed / unit)
        count += in_cell
        offset += packed - unit * in_cell
    occupied = np.flatnonzero(count)
    weight = count[occupied]
    position = np.clip((occupied >> 1) * width + offset[occupied] / weight, 0.0, 1.0)
    return occupied & 1, position, weight
