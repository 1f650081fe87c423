"""Wealth of bettors who play against a stream of forecasts: the test martingale of the sequential test.

A bettor who believes in probabilities q, known before the outcomes y, multiplies her wealth by q(y) / p(y) in
every row. All wealth is kept as logarithms; what a stream must remember does not grow with its length.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._links import logit

__all__ = ["BettingStream"]

Array = NDArray[np.float64]

# Recalibrations logit q = a + b logit p, all but the identity.
_GRID = np.array(
    [
        (a, b)
        for a in (-1.0, -0.3, -0.1, 0.0, 0.1, 0.3, 1.0)
        for b in (0.5, 0.75, 1.0, 4.0 / 3.0, 2.0)
        if (a, b) != (0.0, 1.0)
    ]
)
# Half of the capital is split equally among the grid, the tree has the other half.
_LOG_CAPITAL = np.log(np.append(np.full(len(_GRID), 0.5 / len(_GRID)), 0.5))
# Bettors start at the beginning of every block of so many rows, each start with its share of the capital.
_BLOCK = 32

# Levels of the tree: level d cuts the arcsine axis into 3**d equal cells. Three, not two, so that no cell
# ends at 1/2 and the mirror image of a cell is a cell.
_DEPTH = 4
_SHIFTS = np.array([-1.0, -0.3, 0.3, 1.0])
# Capital of the bettors within a cell: one for each fixed shift, one who learns the shift, one who stays out.
_LOG_CELL = np.log(np.append(np.full(len(_SHIFTS), 1.0 / (3.0 * len(_SHIFTS))), (1.0 / 3.0, 1.0 / 3.0)))
_MOST_LEARNED = 1.0
_PRIOR_VARIANCE = 1.0
_LOG_HALF = float(np.log(0.5))

# Rows at a time: a block of all wealths stays in cache.
_CHUNK = 8192


class BettingStream:
    """The wealth of all bettors together after the rows seen so far.

    Attributes
    ----------
    n_samples : int
        Rows seen.
    log_wealth, max_log_wealth : float
        Logarithm of the wealth now, and of the largest wealth so far (at least 0, the start).
    row_of_max : int
        After which row, counted from 1, it was first reached; 0 for the start.
    impossible : tuple of (int, float) or None
        The first outcome that its forecast called impossible, and the forecast.
    """

    def __init__(self) -> None:
        self.n_samples = 0
        self.max_log_wealth = 0.0
        self.row_of_max = 0
        self.impossible: tuple[int, float] | None = None
        self._finite = 0.0
        self._bets = 0
        self._log_wealths = np.zeros(len(_LOG_CAPITAL))
        # log sum_i v_i / W(start i), the sum over the starts so far
        self._log_shares = np.full(len(_LOG_CAPITAL), -np.inf)
        self._tree = _Tree()
        self._residuals = np.zeros(3**_DEPTH)

    @property
    def log_wealth(self) -> float:
        return np.inf if self.impossible is not None else self._finite

    @property
    def cutoff_error(self) -> float:
        """Largest absolute residual sum over runs of neighbouring cells, divided by the number of rows."""
        walk = np.append(0.0, np.cumsum(self._residuals))
        return float(walk.max() - walk.min()) / max(1, self.n_samples)

    def advance(self, y: NDArray[np.int64], p: Array, times: NDArray[np.int64] | None = None) -> Array:
        """Play the rows in order, row i ``times[i]`` times; return the log-wealth after each."""
        parts = [self._advance_chunk(y[rows], p[rows]) for rows in _chunks(y.shape[0], times)]
        return np.concatenate(parts)

    def _advance_chunk(self, y: NDArray[np.int64], p: Array) -> Array:
        cell = np.minimum((np.arcsin(np.sqrt(p)) * (2.0 / np.pi) * 3**_DEPTH).astype(np.uint8), 3**_DEPTH - 1)
        self._residuals += np.bincount(cell, y - p, minlength=3**_DEPTH)
        open_ = (p > 0.0) & (p < 1.0)
        if open_.all():
            path = self._bet(y, p, cell)
        else:
            # certain forecasts multiply all wealth by 1, or, if they are wrong, by infinity
            path = np.append(self._finite, self._bet(y[open_], p[open_], cell[open_]))[np.cumsum(open_)]
        self._finite = float(path[-1])
        if self.impossible is not None:
            path = np.full(path.shape[0], np.inf)
        else:
            wrong = ~open_ & (p != y)
            if wrong.any():
                row = int(wrong.argmax())
                self.impossible = (int(y[row]), float(p[row]))
                path[row:] = np.inf
        top = int(path.argmax())
        if path[top] > self.max_log_wealth:
            self.max_log_wealth, self.row_of_max = float(path[top]), self.n_samples + top + 1
        self.n_samples += path.shape[0]
        return path

    def _bet(self, y: NDArray[np.int64], p: Array, cell: NDArray[np.uint8]) -> Array:
        """Return the log-wealth after each row, all forecasts strictly between 0 and 1."""
        n = y.shape[0]
        if n == 0:
            return np.empty(0)
        sign: Array = 2.0 * y.astype(np.float64) - 1.0
        signed = sign * logit(p, 0.0)
        base = _softplus(-signed)
        after = np.empty((len(_LOG_CAPITAL), n + 1))
        after[:, 0] = self._log_wealths
        belief = np.multiply.outer(_GRID[:, 1], signed)
        belief += np.multiply.outer(_GRID[:, 0], sign)
        np.subtract(base, _softplus(np.negative(belief, out=belief)), out=after[:-1, 1:])
        np.cumsum(after[:-1], axis=1, out=after[:-1])
        after[-1, 1:] = self._tree.advance(y, p, sign, signed, base, cell)
        # starts at the rows whose number, from 0, is j * block; the share of start j is 1 / ((j + 1) (j + 2))
        block = np.arange(self._bets, self._bets + n) // _BLOCK
        first = -(-self._bets // _BLOCK)
        starts = np.arange(first, int(block[-1]) + 1)
        shares = np.empty((len(_LOG_CAPITAL), starts.shape[0] + 1))
        shares[:, 0] = self._log_shares
        shares[:, 1:] = -np.log((starts + 1.0) * (starts + 2.0)) - after[:, starts * _BLOCK - self._bets]
        np.logaddexp.accumulate(shares, axis=1, out=shares)
        self._log_wealths, self._log_shares = after[:, -1].copy(), shares[:, -1].copy()
        self._bets += n
        wealth = after[:, 1:]
        wealth += _LOG_CAPITAL[:, None]
        wealth += shares[:, block - (first - 1)]
        # the rest has not started yet: sum_{j > block} 1 / ((j + 1) (j + 2)) = 1 / (block + 2)
        return np.logaddexp(_log_sum(wealth), -np.log(block + 2.0))


class _Tree:
    """Bettors on the cells of nested partitions, and on every way to prune their tree.

    A cell's capital is halved: one half is bet on the cell as a whole, the other is handed on to the three
    cells within, where their wealths multiply. Level by level from the leaves to the root.
    """

    def __init__(self) -> None:
        cells = [3**d for d in range(_DEPTH + 1)]
        self._moments = [np.zeros((2, m)) for m in cells]
        self._log_wealths = [np.zeros((len(_SHIFTS) + 1, m)) for m in cells]
        self._log_totals = [np.zeros((1, m)) for m in cells]

    def advance(
        self, y: NDArray[np.int64], p: Array, sign: Array, signed: Array, base: Array, cell: NDArray[np.uint8]
    ) -> Array:
        """Return the log-wealth of the root after each row."""
        moments = np.stack((y - p, p * (1.0 - p)))
        fixed = base - _softplus(-(signed + np.multiply.outer(_SHIFTS, sign)))
        gains = np.empty((len(_SHIFTS) + 1, sign.shape[0]))
        gained = handed_on = np.empty((1, 0))
        for level in range(_DEPTH, -1, -1):
            groups = _Groups(cell // 3 ** (_DEPTH - level))
            order = groups.order
            seen = groups.running(moments[:, order], self._moments[level])
            residual, variance = groups.before(seen, self._moments[level])
            shift = np.clip(residual / (variance + _PRIOR_VARIANCE), -_MOST_LEARNED, _MOST_LEARNED)
            gains[:-1] = fixed[:, order]
            gains[-1] = base[order] - _softplus(-(signed[order] + shift * sign[order]))
            wealths = groups.running(gains, self._log_wealths[level])
            total = _log_sum(np.vstack((wealths, np.zeros_like(shift))) + _LOG_CELL[:, None])[None]
            if level < _DEPTH:
                within = groups.running(gained[:, order], handed_on)
                total = np.logaddexp(total, within) + _LOG_HALF
            totals = self._log_totals[level]
            gained = np.empty_like(total)
            gained[:, order] = total - groups.before(total, totals)
            if level:
                handed_on = totals.reshape(1, -1, 3).sum(axis=2)
            groups.store(seen, self._moments[level])
            groups.store(wealths, self._log_wealths[level])
            groups.store(total, totals)
        return total[0]  # all rows are in one group, in order


class _Groups:
    """Rows grouped by cell, in time order within each, for running sums that continue earlier ones."""

    def __init__(self, cell: NDArray[np.uint8]) -> None:
        self.order = np.argsort(cell, kind="stable")
        ordered = cell[self.order]
        self._starts = np.append(0, np.flatnonzero(ordered[1:] != ordered[:-1]) + 1)
        self._lasts = np.append(self._starts[1:], cell.shape[0]) - 1
        self._cells = ordered[self._starts]
        self._lengths = self._lasts - self._starts + 1

    def running(self, values: Array, carry: Array) -> Array:
        """Return the sums of ordered ``values`` (k, n) up to each row in its cell, on top of ``carry``."""
        out: Array = np.cumsum(values, axis=1)
        level = carry[:, self._cells]
        level[:, 1:] -= out[:, self._lasts[:-1]]
        out += np.repeat(level, self._lengths, axis=1)
        return out

    def before(self, after: Array, carry: Array) -> Array:
        """Return the values one row earlier in the same cell; ``carry`` where there is none."""
        out = np.empty_like(after)
        out[:, 1:] = after[:, :-1]
        out[:, self._starts] = carry[:, self._cells]
        return out

    def store(self, after: Array, carry: Array) -> None:
        """Write the values after the last row of each cell to ``carry``."""
        carry[:, self._cells] = after[:, self._lasts]


def _chunks(n: int, times: NDArray[np.int64] | None) -> Iterator[Any]:
    """Yield indices of rows, row i ``times[i]`` times, in portions."""
    if times is None:
        for start in range(0, n, _CHUNK):
            yield slice(start, start + _CHUNK)
        return
    ends = np.cumsum(times)
    for start in range(0, int(ends[-1]), _CHUNK):
        yield np.searchsorted(ends, np.arange(start, min(start + _CHUNK, int(ends[-1]))), side="right")


def _softplus(z: Array) -> Array:
    """Return log(1 + exp(z)), with an absolute error of some 1e-16: minus the log of a probability."""
    out: Array = np.abs(z)
    np.negative(out, out=out)
    np.exp(out, out=out)
    out += 1.0
    np.log(out, out=out)
    out += np.maximum(z, 0.0)
    return out


def _log_sum(logs: Array) -> Array:
    """Return the log of the sum of exponentials along the first axis."""
    top = logs.max(axis=0)
    out: Array = np.log(np.exp(logs - top).sum(axis=0))
    out += top
    return out
