"""The cells of a sketch: which cell a prediction falls in, and where inside, by shifts of its bits.

Cells cover [0, 1] in increasing order, each half open, [low, high):

- 0 alone, and 1 alone;
- for p from 2**-8 to 1 - 2**-8, cells of width 2**-precision;
- below 2**-8, and in the same way for 1 - p, 2**(precision - 8) cells of equal width for each octave, down to
  2**-40; as many cells of equal width share what remains.

The position inside a cell is counted in steps of 2**-16 of its width, rounded down, so that the sum of
positions is a sum of whole numbers. Only what is positive and below the first step, 2**-(precision + 48), is
rounded up to it.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["POSITIONS", "CellGrid", "cell_grid"]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

_POSITION_BITS = 16
#: Steps in which positions inside a cell are counted.
POSITIONS = 1 << _POSITION_BITS

# Tails begin here, as exponents of two: octaves of cells from _OUTER to _INNER, equal cells below.
_INNER, _OUTER = -8, -40
_MANTISSA = 52
_LINEAR = 2.0 ** (_MANTISSA - _OUTER)
_OUTER_VALUE = 2.0**_OUTER
# Tail codes: bits of the float from 2**_OUTER on, fixed point below, continued so that both are one scale.
_CODE_SHIFT = int(np.float64(_OUTER_VALUE).view(np.int64)) - (1 << _MANTISSA)


class CellGrid:
    """Numbering of the cells for one precision.

    Parameters
    ----------
    precision : int
        Cells of the middle have width ``2 ** -precision``.

    Attributes
    ----------
    n_cells : int
        Number of cells.
    """

    def __init__(self, precision: int) -> None:
        per_octave = 1 << (precision + _INNER)
        tail = (_INNER - _OUTER + 1) * per_octave
        middle = (1 << precision) - 2 * per_octave
        self.precision = precision
        # bits of a tail code that tell the position inside a cell
        self._shift = _MANTISSA - (precision + _INNER)
        self._first_middle, self._n_middle, self._edge = 1 + tail, middle, per_octave
        # numbers in the upper tail are counted back from 1
        self._one = 1 + tail + middle + tail
        self.n_cells = self._one + 1
        self._scale = 2.0 ** (precision + _POSITION_BITS)

    def locate(self, p: Array, cell: Codes, position: Codes, spare: Array) -> None:
        """Write cell and position of each checked prediction into arrays of the same length."""
        np.multiply(p, self._scale, out=spare)
        np.copyto(position, spare, casting="unsafe")
        np.right_shift(position, _POSITION_BITS, out=cell)
        np.bitwise_and(position, POSITIONS - 1, out=position)
        np.subtract(cell, self._edge, out=cell)
        # read as unsigned, negative numbers are large
        unsigned = cell.view(np.uint64)
        if int(unsigned.max()) < self._n_middle:
            np.add(cell, self._first_middle, out=cell)
            return
        rows = np.flatnonzero(unsigned >= self._n_middle)
        np.add(cell, self._first_middle, out=cell)
        cell[rows], position[rows] = self._locate_tails(p[rows])

    def _locate_tails(self, p: Array) -> tuple[Codes, Codes]:
        """Return cell and position of predictions below 2**-8 or from 1 - 2**-8 on."""
        upper = p > 0.5
        q = np.where(upper, 1.0 - p, p)
        code = q.view(np.int64) - _CODE_SHIFT
        small = q < _OUTER_VALUE
        step = 1 << (self._shift - _POSITION_BITS)
        if small.any():
            code[small] = np.maximum((q[small] * _LINEAR).astype(np.int64), step)
        # negative codes keep the cells of the upper tail half open on the same side
        np.negative(code, out=code, where=upper)
        cell = code >> self._shift
        position = code & ((1 << self._shift) - 1)
        position >>= self._shift - _POSITION_BITS
        cell[~upper] += 1
        cell[upper] += self._one
        alone = q == 0.0
        if alone.any():
            cell[alone] = np.where(upper[alone], self._one, 0)
            position[alone] = 0
        return cell, position

    def edges(self, cell: Codes) -> tuple[Array, Array]:
        """Return the lower edge and the width of cells; cells of one value have width 0."""
        low, width = np.zeros(cell.shape[0]), np.zeros(cell.shape[0])
        low[cell == self._one] = 1.0
        middle = (cell >= self._first_middle) & (cell < self._first_middle + self._n_middle)
        width[middle] = 2.0**-self.precision
        low[middle] = (cell[middle] - self._first_middle + self._edge) * width[middle]
        lower = (cell > 0) & (cell < self._first_middle)
        low[lower], width[lower] = self._tail_edges(cell[lower] - 1)
        upper = (cell >= self._first_middle + self._n_middle) & (cell < self._one)
        # the cell that ends where 1 - p is q begins where 1 - p is q + width
        near, width[upper] = self._tail_edges(self._one - 1 - cell[upper])
        low[upper] = 1.0 - (near + width[upper])
        return low, width

    def _tail_edges(self, number: Codes) -> tuple[Array, Array]:
        """Return the edge towards 0 and the width of the cells of a tail, counted from 0."""
        ends = [self._tail_value((number + step) << self._shift) for step in (0, 1)]
        return ends[0], ends[1] - ends[0]

    def _tail_value(self, code: Codes) -> Array:
        value: Array = (code + _CODE_SHIFT).view(np.float64)
        small = code < 1 << _MANTISSA
        value[small] = code[small] / _LINEAR
        return value


@lru_cache(maxsize=8)
def cell_grid(precision: int) -> CellGrid:
    """Return the cells of a precision."""
    return CellGrid(precision)
