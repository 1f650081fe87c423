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

__all__ = ["POSITIONS", "CellGrid", "Workspace", "cell_grid"]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

_POSITION_BITS = 16
#: Steps in which positions inside a cell are counted.
POSITIONS = 1 << _POSITION_BITS

# Tails begin here, as exponents of two: octaves of cells from _OUTER to _INNER, equal cells below.
_INNER, _OUTER = -8, -40
_MANTISSA = 52
_INNER_VALUE, _OUTER_VALUE = 2.0**_INNER, 2.0**_OUTER
_LINEAR = 2.0 ** (_MANTISSA - _OUTER)
# A tail with fewer than one row in so many is handled by itself.
_FEW = 6
# Tail codes: bits of the float from 2**_OUTER on, fixed point below, continued so that both are one scale.
_CODE_SHIFT = int(np.float64(_OUTER_VALUE).view(np.int64)) - (1 << _MANTISSA)


class Workspace:
    """Arrays for what is computed between a prediction and its cell, for so many rows at a time."""

    def __init__(self, rows: int) -> None:
        self.value = np.empty(rows)
        self.code = np.empty(rows, dtype=np.int64)
        self.place = np.empty(rows, dtype=np.int64)
        self.mask = np.empty(rows, dtype=bool)
        self.many_in_tails = False


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

    def locate(self, p: Array, cell: Codes, position: Codes, spare: Workspace) -> None:
        """Write cell and position of each checked prediction into arrays of the same length."""
        n = p.shape[0]
        if not spare.many_in_tails:
            self._locate_middle(p, cell, position, spare)
            # read as unsigned, negative numbers are large
            mask = np.greater_equal(cell.view(np.uint64), self._n_middle, out=spare.mask[:n])
            number = int(np.count_nonzero(mask))
            spare.many_in_tails = _FEW * number > n
            if not spare.many_in_tails:
                np.add(cell, self._first_middle, out=cell)
                if number:
                    rows = np.flatnonzero(mask)
                    upper = p[rows] > 0.5
                    for side, part in ((False, rows[~upper]), (True, rows[upper])):
                        if part.shape[0]:
                            cell[part], position[part] = self._locate_tail(p[part], side, spare)
                return
        self._locate_many(p, cell, position, spare)

    def _locate_middle(self, p: Array, cell: Codes, position: Codes, spare: Workspace) -> None:
        """Write cell, less the first of the middle, and position, as if all were in the middle."""
        value = spare.value[: p.shape[0]]
        np.multiply(p, self._scale, out=value)
        np.copyto(position, value, casting="unsafe")
        np.right_shift(position, _POSITION_BITS, out=cell)
        np.bitwise_and(position, POSITIONS - 1, out=position)
        np.subtract(cell, self._edge, out=cell)

    def _locate_many(self, p: Array, cell: Codes, position: Codes, spare: Workspace) -> None:
        """Locate predictions many of which are in a tail: as the sum of two places, one at the seam."""
        value, given, sides = spare.value[: p.shape[0]], p, []
        if p.min() < _INNER_VALUE:
            given = np.maximum(given, _INNER_VALUE, out=value)
            sides.append(False)
        if p.max() >= 1.0 - _INNER_VALUE:
            given = np.minimum(given, 1.0 - _INNER_VALUE, out=value)
            sides.append(True)
        self._locate_middle(given, cell, position, spare)
        np.add(cell, self._first_middle, out=cell)
        for upper in sides:
            number, place = self._locate_tail(p, upper, spare)
            np.subtract(number, self._first_middle + upper * self._n_middle, out=number)
            np.add(cell, number, out=cell)
            np.add(position, place, out=position)
        spare.many_in_tails = bool(sides)

    def _locate_tail(self, p: Array, upper: bool, spare: Workspace) -> tuple[Codes, Codes]:
        """Return cell and position in one tail; predictions outside of it are taken for its inner end."""
        n = p.shape[0]
        q, code, place = spare.value[:n], spare.code[:n], spare.place[:n]
        if upper:
            np.subtract(1.0, p, out=q)
            np.minimum(q, _INNER_VALUE, out=q)
        else:
            np.minimum(p, _INNER_VALUE, out=q)
        np.subtract(q.view(np.int64), _CODE_SHIFT, out=code)
        smallest = float(q.min())
        if smallest < _OUTER_VALUE:
            small = np.flatnonzero(q < _OUTER_VALUE)
            step = 1 << (self._shift - _POSITION_BITS)
            code[small] = np.maximum((q[small] * _LINEAR).astype(np.int64), step)
        if upper:
            # negative codes keep these cells, too, half open on the upper side
            np.negative(code, out=code)
        np.bitwise_and(code, (1 << self._shift) - 1, out=place)
        np.right_shift(place, self._shift - _POSITION_BITS, out=place)
        np.right_shift(code, self._shift, out=code)
        np.add(code, self._one if upper else 1, out=code)
        if smallest == 0.0:
            alone = np.flatnonzero(q == 0.0)
            code[alone] = self._one if upper else 0
            place[alone] = 0
        return code, place

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
