"""The partition of the probability simplex into simplices of equal volume, and its cells that are occupied.

In the coordinates c_i = m (z_1 + ... + z_i), i = 1, ..., K - 1, the simplex is 0 <= c_1 <= ... <= m. The
hyperplanes on which a coordinate, or the difference of two of them, is a whole number cut it into
m^(K-1) simplices of equal volume and a diameter of order 1/m (hypercubes, cut into hypersimplices, cut by
Stanley's triangulation; App. 8.2.3 of Lee, Huang, Hassani, Dobriban 2023). The cell of a point is told by the
integer parts of its coordinates, and by the order of their fractional parts; cells are never enumerated. The
partition for 2 m refines that for m.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import group_starts

__all__ = ["SharedCells", "alcoves", "shared_alcoves"]

Array = NDArray[np.float64]

_SEED = 7


@dataclass(frozen=True, eq=False)
class SharedCells:
    """The cells that hold two rows or more.

    ``rows`` lists their rows, cell after cell; ``starts`` says where each cell begins, ``count`` how many
    rows it has.
    """

    rows: NDArray[np.intp]
    starts: NDArray[np.intp]
    count: NDArray[np.intp]


def alcoves(p: Array, m: float) -> NDArray[np.uint64]:
    """Return a number for each row of ``p``, shape (n, K), that is the same for rows of the same cell.

    It is a hash of 64 bits: two cells get the same one with a probability that is negligible for any n that
    fits into memory, and would then merely count as one cell. Cells are closed above at the faces of the
    simplex.
    """
    c = np.cumsum(p[:, :-1], axis=1)
    c *= m
    np.minimum(c, np.nextafter(m, 0.0), out=c)
    whole = np.floor(c)
    c -= whole
    order = np.argsort(c, axis=1, kind="stable").astype(np.uint64)
    odd = np.random.default_rng(_SEED).integers(1 << 63, size=(2, c.shape[1]), dtype=np.uint64) * 2 + 1
    with np.errstate(over="ignore"):
        # uint64 arithmetic wraps around, which is what a hash wants
        return (whole.astype(np.uint64) * odd[0]).sum(axis=1) + (order * odd[1]).sum(axis=1)


def shared_alcoves(p: Array, m: float, among: NDArray[np.intp] | None = None) -> SharedCells:
    """Return the cells with two rows or more, of all rows or of those ``among``.

    If ``among`` are the rows that share a cell of a coarser partition, all shared cells are found.
    """
    code = alcoves(p if among is None else p[among], m)
    order = np.argsort(code, kind="stable")
    starts = group_starts(code[order])
    count = np.diff(starts, append=order.shape[0])
    shared = count > 1
    rows = order[np.repeat(shared, count)]
    count = count[shared]
    return SharedCells(
        rows=rows if among is None else among[rows],
        starts=np.concatenate((np.zeros(1, dtype=np.intp), np.cumsum(count)[:-1])) if count.size else count,
        count=count,
    )
