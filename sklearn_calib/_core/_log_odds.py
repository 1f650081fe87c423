"""Many rows on the axis of log-odds: positions a slice at a time, and cells found without a logarithm.

The exponent and the first binary digits of the odds p / (1 - p) number cells that are nearly equally wide in
log-odds. A cell keeps count, sum and sum of squares of the odds of its rows, for each outcome: enough for
mean and variance of their log-odds.
"""

import math
from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._links import EPS, logit

__all__ = ["LogOddsCells", "LogitPositions"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Part = tuple[Index, Array, Array | None, Array | None]

# Cells for each bandwidth s. With mean and variance known, third moments remain, at most 0.1 h^3 in cells of
# width h, which move a smoothed sum by at most 0.025 (h/s)^3 of the total mass: below 1e-6. (A sixth of that
# times the integral of the kernel's third derivative in absolute value, 1.51/s^3.)
_CELLS_PER_SCALE = 32.0
# With fewer rows than this it is not worth it, nor with fewer than 8 rows for each entry (a cell and an
# outcome). Many entries would need memory: there are 30 rows for each one beyond so many.
_FEWEST_ROWS = 1 << 17
_FEW_ENTRIES = 5 << 16
# Rows that tell which octaves are worth cells, the part of them that stays out on either side, and the part
# that may have to.
_PILOT, _TRIM, _MOST_OUTSIDE = 1 << 13, 0.005, 0.05
# Rows handled at a time.
_ROWS = 1 << 15
# Packed sums hold no more rows than 2 to this power: 24 bits are for the count, 24 + 14 for the sum.
_BLOCK = 24
# Entries unpacked at a time.
_ENTRIES = 1 << 12
# All finite log-odds are smaller.
_FAR = 700.0


class LogitPositions:
    """Log-odds on an interval that is scaled to [0, 1], computed for the slice that is asked for.

    Parameters
    ----------
    p : ndarray of shape (n,)
        Probabilities, clipped to [eps, 1 - eps].
    origin, length : float
        The interval of log-odds; what lies outside is put at its ends.
    eps : float
        Clipping of the probabilities.
    """

    def __init__(self, p: Array, origin: float, length: float, eps: float = EPS) -> None:
        self.p, self.origin, self.length, self.eps = p, origin, length, eps
        self.shape = p.shape

    def __getitem__(self, rows: slice) -> Array:
        h = logit(self.p[rows], self.eps)
        h -= self.origin
        h /= self.length
        return np.clip(h, 0.0, 1.0, out=h)


class LogOddsCells:
    """Unweighted rows, summarised where they are dense; one pass, O(n).

    Parameters
    ----------
    y : ndarray of shape (n,)
        Outcomes 0 or 1, int64.
    p : ndarray of shape (n,)
        Probabilities, clipped to [eps, 1 - eps].
    eps : float
        Clipping of the probabilities.
    first, octaves : int
        Odds from 2**first to 2**(first + octaves) are gathered in cells; other rows are kept.
    digits : int
        Binary digits that number the cells of an octave.
    """

    def __init__(self, y: Index, p: Array, eps: float, first: int, octaves: int, digits: int) -> None:
        self._first, self._digits = first, digits
        self._cells = octaves << digits
        n = y.shape[0]
        bits = min(n.bit_length(), _BLOCK)
        self._shift, self._offset_bits = 62 - bits, 62 - 2 * bits
        # rows outside share the last cell, which nobody reads
        size = 2 * self._cells + 2
        self._packed, self._square = np.zeros(size, dtype=np.int64), np.zeros(size)
        self._unpacked = np.zeros((2, size if n >> _BLOCK else 0))
        outside = [np.empty(0, dtype=np.uint64)]
        work = tuple(np.empty(min(n, _ROWS)) for _ in range(4))
        for start in range(0, n, _ROWS):
            rows = slice(start, min(start + _ROWS, n))
            outside.append(self._add(y[rows], p[rows], eps, [part[: rows.stop - start] for part in work]))
            if self._unpacked.shape[1] and (rows.stop == n or not rows.stop % (1 << _BLOCK)):
                self._unpacked += self._unpack(slice(None))
                self._packed[:] = 0
        del work
        keys = np.concatenate(outside)
        del outside
        keys.sort()
        self._outcome = (keys & np.uint64(1)).astype(np.int8)
        keys >>= np.uint64(1)
        self._outside = np.log(keys.view(np.float64))

    @classmethod
    def gather(cls, y: Index, p: Array, s: float, eps: float = EPS) -> Self | None:
        """Return a summary exact enough for smoothing at scales from s on, or None if it is not worth it."""
        n = y.shape[0]
        digits = max(4, math.ceil(math.log2(_CELLS_PER_SCALE / s)))
        room = max(n // 30, min(n // 8, _FEW_ENTRIES)) >> (digits + 1)
        if n < _FEWEST_ROWS or room == 0:
            return None
        pilot = np.clip(p[:: max(1, n // _PILOT)], eps, 1.0 - eps)
        octave = np.sort(np.frexp(pilot / (1.0 - pilot))[1]) - 1
        skip = int(_TRIM * octave.shape[0])
        first, last = int(octave[skip]), int(octave[-1 - skip])
        if last - first >= room:
            # the fullest ones have to do
            inside = np.searchsorted(octave, octave + room) - np.arange(octave.shape[0])
            if inside.max() < (1.0 - _MOST_OUTSIDE) * octave.shape[0]:
                return None
            first, last = int(octave[inside.argmax()]), int(octave[inside.argmax()]) + room - 1
        return cls(y, p, eps, first, last - first + 1, digits)

    def _add(self, y: Index, p: Array, eps: float, work: list[Array]) -> NDArray[np.uint64]:
        """Add rows to their cells; return the bits of the odds of those that have none, and after them y."""
        q, odds, code, low = work[0], work[1], work[2].view(np.int64), work[3].view(np.int64)
        bits, rest = odds.view(np.int64), 52 - self._digits
        np.clip(p, eps, 1.0 - eps, out=q)
        np.subtract(1.0, q, out=odds)
        np.divide(q, odds, out=odds)
        np.right_shift(bits, rest, out=code)
        np.subtract(code, (self._first + 1023) << self._digits, out=code)
        # cells before the first one are large numbers as well
        unsigned = code.view(np.uint64)
        np.minimum(unsigned, np.uint64(self._cells), out=unsigned)
        others = np.flatnonzero(code == self._cells)
        outside = (bits[others] << 1 | y[others]).view(np.uint64)
        np.left_shift(code, 1, out=code)
        np.bitwise_or(code, y, out=code)
        # the other digits, as a float that begins with a one, are the distance from the centre of the cell
        np.bitwise_and(bits, (1 << rest) - 1, out=low)
        np.bitwise_or(low, np.float64(1.0).view(np.int64), out=q.view(np.int64))
        np.subtract(q, 1.0 + 0.5 ** (self._digits + 1), out=q)
        np.multiply(q, q, out=q)
        np.add.at(self._square, code, q)
        np.right_shift(low, rest - self._offset_bits, out=low)
        np.add(low, 1 << self._shift, out=low)
        np.add.at(self._packed, code, low)
        return outside

    def _unpack(self, entries: slice) -> Array:
        """Return counts, and sums of distances from the lower end in units of the cell's width."""
        packed = self._packed[entries]
        count = (packed >> self._shift).astype(np.float64)
        # digits were cut off, half a unit on average
        offset = (packed & ((1 << self._shift) - 1)) + 0.5 * count
        return np.stack((count, offset * 0.5**self._offset_bits))

    def _moments(self, entries: slice) -> Part:
        """Return outcomes, log-odds, counts and variances of some entries."""
        count, offset = self._unpacked[:, entries] if self._unpacked.shape[1] else self._unpack(entries)
        occupied = np.flatnonzero(count)
        count = count[occupied]
        mean = offset[occupied]
        mean /= count
        mean -= 0.5
        mean *= 0.5**self._digits
        variance = self._square[entries][occupied]
        variance /= count
        variance -= mean * mean
        np.maximum(variance, 0.0, out=variance)
        occupied += entries.start
        outcome, cell = occupied & 1, occupied >> 1
        mean += 1.0 + 0.5 ** (self._digits + 1) + (cell & ((1 << self._digits) - 1)) * 0.5**self._digits
        # mean and variance of the logarithm, but for what is of third order
        variance /= mean * mean
        h = np.log(mean, out=mean)
        h -= 0.5 * variance
        cell >>= self._digits
        h += math.log(2.0) * (cell + self._first)
        return outcome, h, count, variance

    def _entry(self, h: float) -> int:
        """Return the first entry of the cell that holds log-odds h, or of the nearest cell."""
        bits = np.exp(np.clip(h, -_FAR, _FAR)).view(np.int64)
        cell = (int(bits) >> (52 - self._digits)) - ((self._first + 1023) << self._digits)
        return 2 * min(max(cell, 0), self._cells - 1)

    def between(self, low: float = -np.inf, high: float = np.inf) -> Iterator[Part]:
        """Yield, in parts, the rows in [low, high] and a few beyond.

        A part holds outcomes, log-odds, number of rows (None for one each), and the variance of their
        log-odds (None for 0).
        """
        stop = self._entry(high) + 2
        for start in range(self._entry(low), stop, _ENTRIES):
            yield self._moments(slice(start, min(start + _ENTRIES, stop)))
        ends = np.searchsorted(self._outside, (low, high))
        for start in range(int(ends[0]), int(ends[1]), _ENTRIES):
            rows = slice(start, min(start + _ENTRIES, int(ends[1])))
            yield self._outcome[rows].astype(np.int64), self._outside[rows], None, None

    def points(self) -> Iterator[tuple[Index, Array, Array]]:
        """Yield, in parts, outcomes, log-odds and weights: two points for the rows of an entry."""
        for y, h, count, variance in self.between():
            if count is None or variance is None:
                yield y, h, np.ones_like(h)
                continue
            deviation = np.sqrt(variance)
            for sign in (-1.0, 1.0):
                yield y, h + sign * deviation, 0.5 * count

    @property
    def span(self) -> tuple[float, float]:
        """Bounds of the log-odds: ends of the outermost cells in use, or the outermost other rows."""
        occupied = (self._unpacked[0] if self._unpacked.shape[1] else self._packed)[:-2] != 0
        edges = np.empty(0, dtype=np.int64)
        if occupied.any():
            edges = np.array([occupied.argmax() >> 1, self._cells - (occupied[::-1].argmax() >> 1)])
        octave, within = self._first + (edges >> self._digits), edges & ((1 << self._digits) - 1)
        h = np.log1p(within * 0.5**self._digits) + math.log(2.0) * octave
        every = np.concatenate((h, self._outside[:1], self._outside[-1:]))
        return float(every.min()), float(every.max())
