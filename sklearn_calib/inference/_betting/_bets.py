"""The test martingale (e-process) of the sequential test, a mixture of betting strategies on a stream.

A strategy with probabilities q, fixed before the outcomes y, multiplies its wealth by q(y) / p(y) at every
sample. Wealth is stored as logarithms; the size of the state does not grow with the length of the stream.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._links import logit
from sklearn_calib._typing import Array
from sklearn_calib.inference._betting._tree import N_BINS, BettingTree, smallest_bin, softplus

#: Recalibrations logit q = a + b logit p, all but the identity.
GRID = np.array(
    [
        (a, b)
        for a in (-1.0, -0.3, -0.1, 0.0, 0.1, 0.3, 1.0)
        for b in (0.5, 0.75, 1.0, 4.0 / 3.0, 2.0)
        if (a, b) != (0.0, 1.0)
    ]
)
# Half of the initial wealth is split equally among the grid, the tree has the other half.
_LOG_INITIAL = np.log(np.append(np.full(len(GRID), 0.5 / len(GRID)), 0.5))
#: Strategies start at the beginning of every block of so many samples, each start with its initial weight.
BLOCK = 32


def binned_cutoff_error(residuals: NDArray[Any], n_samples: int) -> float:
    """Return the cutoff calibration error of residual sums of bins."""
    walk = np.append(0.0, np.cumsum(residuals))
    return float(walk.max() - walk.min()) / max(1, n_samples)


class BettingStream:
    """The total wealth of all strategies, the e-value, after the samples so far.

    The largest log-wealth is at least 0, the start, and was first reached after sample ``index_of_max``,
    counted from 1; ``impossible`` is the first outcome of probability zero, and its forecast.
    """

    def __init__(self) -> None:
        self.n_samples = 0
        self.max_log_wealth = 0.0
        self.index_of_max = 0
        self.impossible: tuple[int, float] | None = None
        self._finite = 0.0
        self._bets = 0
        self._log_wealths = np.zeros(len(_LOG_INITIAL))
        # log sum_i v_i / W(start i), the sum over the starts so far
        self._log_units = np.full(len(_LOG_INITIAL), -np.inf)
        self._tree = BettingTree()
        self._residuals = np.zeros(N_BINS)

    @property
    def log_wealth(self) -> float:
        return np.inf if self.impossible is not None else self._finite

    @property
    def cutoff_error(self) -> float:
        """Largest absolute residual sum over runs of neighboring bins, divided by the number of samples."""
        return binned_cutoff_error(self._residuals, self.n_samples)

    def advance(self, y: NDArray[np.int64], p: Array, times: NDArray[np.int64] | None = None) -> Array:
        """Process the samples in order, sample i ``times[i]`` times; return the log-wealth after each."""
        parts = [self._advance_chunk(y[rows], p[rows]) for rows in _chunks(y.shape[0], times)]
        return np.concatenate(parts)

    def _advance_chunk(self, y: NDArray[np.int64], p: Array) -> Array:
        bin_of = smallest_bin(p)
        self._residuals += np.bincount(bin_of, y - p, minlength=N_BINS)
        open_ = (p > 0.0) & (p < 1.0)
        if open_.all():
            path = self._bet(y, p, bin_of)
        else:
            # certain forecasts multiply all wealth by 1, or, if they are wrong, by infinity
            path = np.append(self._finite, self._bet(y[open_], p[open_], bin_of[open_]))[np.cumsum(open_)]
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
            self.max_log_wealth, self.index_of_max = float(path[top]), self.n_samples + top + 1
        self.n_samples += path.shape[0]
        return path

    def _bet(self, y: NDArray[np.int64], p: Array, bin_of: NDArray[np.uint8]) -> Array:
        """Return the log-wealth after each sample, all forecasts strictly between 0 and 1."""
        n = y.shape[0]
        if n == 0:
            return np.empty(0)
        sign, signed, base = in_log_odds(y, p)
        after = np.empty((len(_LOG_INITIAL), n + 1))
        after[:, 0] = self._log_wealths
        after[:-1, 1:] = grid_gains(sign, signed, base)
        np.cumsum(after[:-1], axis=1, out=after[:-1])
        after[-1, 1:] = self._tree.advance(y, p, sign, signed, base, bin_of)
        # starts at the samples whose number, from 0, is j * block; start j has the initial weight
        # 1 / ((j + 1) (j + 2))
        block = np.arange(self._bets, self._bets + n) // BLOCK
        first = -(-self._bets // BLOCK)
        starts = np.arange(first, int(block[-1]) + 1)
        units = np.empty((len(_LOG_INITIAL), starts.shape[0] + 1))
        units[:, 0] = self._log_units
        units[:, 1:] = -np.log((starts + 1.0) * (starts + 2.0)) - after[:, starts * BLOCK - self._bets]
        np.logaddexp.accumulate(units, axis=1, out=units)
        self._log_wealths, self._log_units = after[:, -1].copy(), units[:, -1].copy()
        self._bets += n
        wealth = after[:, 1:]
        wealth += _LOG_INITIAL[:, None]
        wealth += units[:, block - (first - 1)]
        # the rest has not started yet: sum_{j > block} 1 / ((j + 1) (j + 2)) = 1 / (block + 2)
        return np.logaddexp(np.logaddexp.reduce(wealth), -np.log(block + 2.0))


def _chunks(n: int, times: NDArray[np.int64] | None) -> Iterator[Any]:
    """Yield indices of samples, sample i ``times[i]`` times, in chunks."""
    if times is None:
        return blocks(n)
    ends = np.cumsum(times)
    rows = (np.arange(part.start, part.stop) for part in blocks(int(ends[-1])))
    return (np.searchsorted(ends, each, side="right") for each in rows)


def in_log_odds(y: NDArray[np.int64], p: Array) -> tuple[Array, Array, Array]:
    """Return the sign of each outcome, the log-odds of its forecast times it, and minus log p(y)."""
    sign: Array = 2.0 * y.astype(np.float64) - 1.0
    signed = sign * logit(p, 0.0)
    return sign, signed, softplus(-signed)


def grid_gains(sign: Array, signed: Array, base: Array) -> Array:
    """Return log q(y) / p(y) of each recalibration of the grid, shape (n_strategies, n)."""
    belief = np.multiply.outer(GRID[:, 1], signed)
    belief += np.multiply.outer(GRID[:, 0], sign)
    np.subtract(base, softplus(np.negative(belief, out=belief)), out=belief)
    return belief
