"""What the cells hold, at rest and while rows are added."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sklearn_calib.sketch._batch import PIECE, Batch
from sklearn_calib.sketch._cells import POSITIONS, CellGrid, Workspace
from sklearn_calib.sketch._sample import WeightedSample

__all__ = ["Accumulator", "Contents"]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

# A packed sum holds a count above this unit, and the positions of the same rows below it.
_UNIT_BITS = 40
# Rows after which packed sums are taken apart: 2**23 positions below 2**16 stay below the unit.
_MOST_PACKED = 1 << 23
# Batches of no more rows than this are gathered first.
_MOST_WAITING = PIECE >> 4


@dataclass(frozen=True, eq=False)
class Contents:
    """Occupied cells in increasing order: weight of either outcome, and weighted sum of positions."""

    cell: Codes
    negatives: Array
    positives: Array
    offset: Array

    @classmethod
    def empty(cls) -> Self:
        return cls(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0), np.empty(0))

    @property
    def weight(self) -> Array:
        """Weight of each cell."""
        total: Array = self.negatives + self.positives
        return total

    @property
    def whole(self) -> bool:
        """Whether all weights are whole numbers, and all sums were therefore exact."""
        return all(np.array_equal(values, np.rint(values)) for values in (self.negatives, self.positives))

    def same_as(self, other: "Contents") -> bool:
        """Tell whether both are equal, bit for bit."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return all(np.array_equal(mine, theirs) for mine, theirs in pairs)

    def without(self, other: "Contents") -> "Contents | None":
        """Return what is left when a part is taken away, or None if it is no part; weights are whole."""
        if not np.isin(other.cell, self.cell).all():
            return None
        where = np.searchsorted(self.cell, other.cell)
        negatives, positives, offset = self.negatives.copy(), self.positives.copy(), self.offset.copy()
        negatives[where] -= other.negatives
        positives[where] -= other.positives
        offset[where] -= other.offset
        weight = negatives + positives
        most = weight * (POSITIONS - 1)
        if min(negatives.min(), positives.min(), offset.min(), (most - offset).min()) < 0:
            return None
        left = weight > 0
        return Contents(self.cell[left], negatives[left], positives[left], offset[left])

    def means(self, grid: CellGrid) -> Array:
        """Return the mean prediction of each cell."""
        low, width = grid.edges(self.cell)
        mean: Array = low + width * (self.offset / self.weight / POSITIONS)
        return mean

    def weighted_sample(self, grid: CellGrid) -> WeightedSample:
        """Return one row for each outcome that has weight in a cell."""
        w = np.column_stack((self.negatives, self.positives)).ravel()
        y = np.tile(np.array([0, 1], dtype=np.int64), self.cell.shape[0])
        p = np.repeat(self.means(grid), 2)
        keep = w > 0
        return WeightedSample(y[keep], p[keep], w[keep])


class Accumulator:
    """Sums over all cells to which rows are added.

    Rows without weights are added as one integer, with the count above bit 40 and the position below: one
    pass over the rows, exact, and independent of their order.
    """

    def __init__(self, grid: CellGrid) -> None:
        self._grid = grid
        self._packed: Codes | None = None
        self._n_packed = 0
        self._weight: Array | None = None
        self._offset: Array | None = None
        self._waiting: tuple[Codes, Array] | None = None
        self._n_waiting = 0

    def add_batch(self, batch: Batch) -> int:
        """Add checked rows; return how many had weight.

        Small batches wait until there are enough of them for one pass.
        """
        n = batch.p.shape[0]
        if n > _MOST_WAITING or batch.w is not None:
            return self._add_now(batch)
        if self._n_waiting + n > PIECE:
            self._add_waiting()
        if self._waiting is None:
            self._waiting = np.empty(PIECE, dtype=np.int64), np.empty(PIECE)
        rows = slice(self._n_waiting, self._n_waiting + n)
        self._waiting[0][rows], self._waiting[1][rows] = batch.y, batch.p
        self._n_waiting += n
        return n

    def _add_waiting(self) -> None:
        if self._waiting is not None:
            rows = slice(0, self._n_waiting)
            self._n_waiting = 0
            self._add_now(Batch(self._waiting[0][rows], self._waiting[1][rows], None))

    def _add_now(self, batch: Batch) -> int:
        size, n_rows = min(PIECE, batch.p.shape[0]), 0
        cells, positions, keys = (np.empty(size, dtype=np.int64) for _ in range(3))
        spare = Workspace(size)
        for y, p, w in batch.pieces():
            n = p.shape[0]
            cell, position, key = cells[:n], positions[:n], keys[:n]
            self._grid.locate(p, cell, position, spare)
            np.left_shift(cell, 1, out=key)
            np.add(key, y, out=key, casting="unsafe")
            if w is None:
                self._add_rows(key, position)
            else:
                self._add_weighted(key, cell, position, w)
            n_rows += n
        return n_rows

    def _add_rows(self, key: Codes, position: Codes) -> None:
        """Add rows by 2 * cell + outcome; ``position`` is overwritten."""
        n = key.shape[0]
        if self._n_packed + n > _MOST_PACKED:
            self._unpack()
        if self._packed is None:
            self._packed = np.zeros(2 * self._grid.n_cells, dtype=np.int64)
        np.add(position, 1 << _UNIT_BITS, out=position)
        np.add.at(self._packed, key, position)
        self._n_packed += n

    def _add_weighted(self, key: Codes, cell: Codes, position: Codes, w: Array) -> None:
        """Add weighted rows."""
        weight, offset = self._sums()
        np.add.at(weight, key, w)
        np.add.at(offset, cell, w * position)

    def add_contents(self, other: Contents) -> None:
        """Add other cells."""
        weight, offset = self._sums()
        weight[2 * other.cell] += other.negatives
        weight[2 * other.cell + 1] += other.positives
        offset[other.cell] += other.offset

    def contents(self) -> Contents:
        """Return the occupied cells."""
        self._add_waiting()
        self._unpack()
        weight, offset = self._sums()
        negatives, positives = weight[0::2], weight[1::2]
        cell = np.flatnonzero((negatives > 0) | (positives > 0)).astype(np.int64)
        return Contents(cell, negatives[cell], positives[cell], offset[cell])

    def _sums(self) -> tuple[Array, Array]:
        if self._weight is None or self._offset is None:
            n_cells = self._grid.n_cells
            self._weight, self._offset = np.zeros(2 * n_cells), np.zeros(n_cells)
        return self._weight, self._offset

    def _unpack(self) -> None:
        if self._packed is None:
            return
        weight, offset = self._sums()
        weight += self._packed >> _UNIT_BITS
        self._packed &= (1 << _UNIT_BITS) - 1
        offset += self._packed[0::2]
        offset += self._packed[1::2]
        self._packed, self._n_packed = None, 0
