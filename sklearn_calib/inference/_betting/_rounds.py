"""The test martingale (e-process) for batches of forecasts, one round of bets for each batch.

The strategies are those of the sequential test, but all bets on a batch are made before its outcomes are
known, so that the order of its samples does not matter. All trees but one are regularly replaced by new ones,
so that an error that begins late is detected by a tree without a long history.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._blocks import blocks
from sklearn_calib._typing import Array
from sklearn_calib.inference._betting._bets import BLOCK, GRID, grid_gains, in_log_odds
from sklearn_calib.inference._betting._tree import BatchTrees, smallest_bin

# Starts after which a tree is replaced by a new one.
_LIVES = (16.0, 64.0, 256.0, 1024.0, np.inf)


class BettingRounds:
    """The total wealth of all strategies, the e-value, after the rounds so far.

    Strategies start before the first round, and before every round that at least 32 samples precede since the
    last start. With ``adds_wealth`` every start adds wealth, the number of samples since the last start (1 at
    first), which makes an e-detector of a change; otherwise one unit is divided among all starts, and the
    wealth is a martingale. A new tree takes the place of tree k after ``lives[k]`` starts.

    If samples of a round may be ``dependent``, the wealth of a strategy with probabilities q is multiplied by
    the mean of q(y) / p(y) over the round, whose expectation is 1 whatever their dependence, instead of by
    the product, and there are no trees. ``log_wealths`` are those of each strategy per unit of initial wealth
    since the first round; ``impossible`` is the first outcome of probability zero, and its forecast.
    """

    def __init__(
        self, *, adds_wealth: bool = False, lives: Sequence[float] = _LIVES, dependent: bool = False
    ) -> None:
        self.n_samples = 0
        self._dependent = dependent
        if dependent:
            lives = ()
        self.impossible: tuple[int, float] | None = None
        self.log_wealths = np.zeros(len(GRID) + len(lives))
        self._adds_wealth, self._lives = adds_wealth, lives
        of_grid = 0.5 if lives else 1.0
        units = np.append(
            np.full(len(GRID), of_grid / len(GRID)), np.full(len(lives), (1.0 - of_grid) / max(1, len(lives)))
        )
        self._log_initial = np.log(units)
        self._finite = -np.inf if adds_wealth else 0.0
        # starts so far, and samples on which bets were made since the last one
        self._starts = self._since = 0
        # log sum_i v_i / W(start i), the sum over the starts so far
        self._log_units = np.full(self.log_wealths.shape[0], -np.inf)
        self._trees = BatchTrees(len(lives))
        # the wealth of the trees of the past per unit, and when the last one started
        self._log_inherited, self._born = np.zeros(len(lives)), np.zeros(len(lives), dtype=np.int64)

    @property
    def log_wealth(self) -> float:
        return np.inf if self.impossible is not None else self._finite

    def play(self, y: NDArray[np.int64], p: Array, times: NDArray[np.int64] | None = None) -> float:
        """Process samples as one round, sample i ``times[i]`` times; return the log-wealth after it."""
        open_ = (p > 0.0) & (p < 1.0)
        if not open_.all():
            # certain forecasts multiply all wealth by 1, or, if they are wrong, by infinity
            wrong = ~open_ & (p != y)
            if wrong.any() and self.impossible is None:
                row = int(wrong.argmax())
                self.impossible = (int(y[row]), float(p[row]))
        weight = np.ones(p.shape[0]) if times is None else times.astype(np.float64)
        self.n_samples += int(weight.sum())
        if open_.any():
            self._bet(y[open_], p[open_], weight[open_])
        return self.log_wealth

    def _bet(self, y: NDArray[np.int64], p: Array, weight: Array) -> None:
        """Process a round, all forecasts strictly between 0 and 1."""
        if not self._starts or self._since >= BLOCK:
            self._start()
        gains = np.full(len(GRID), -np.inf if self._dependent else 0.0)
        self._trees.begin()
        for rows in blocks(p.shape[0]):
            outcome, forecast, times = y[rows], p[rows], weight[rows]
            sign, signed, base = in_log_odds(outcome, forecast)
            if self._dependent:
                # log of the weighted sum of q(y) / p(y)
                gains = np.logaddexp(
                    gains, np.logaddexp.reduce((grid_gains(sign, signed, base) + np.log(times)).T)
                )
                continue
            gains += grid_gains(sign, signed, base) @ times
            moments = (outcome - forecast, forecast * (1.0 - forecast))
            self._trees.add(*moments, times, sign, signed, base, smallest_bin(forecast))
        if self._dependent:
            gains -= np.log(weight.sum())
        self._since += int(weight.sum())
        grid, roots = self.log_wealths[: len(GRID)] + gains, self._log_inherited + self._trees.close()
        self.log_wealths = np.append(grid, roots)
        owned = np.logaddexp.reduce(self.log_wealths + self._log_units + self._log_initial)
        # the rest has not started yet: sum_{j >= starts} 1 / ((j + 1) (j + 2)) = 1 / (starts + 1)
        waiting = -np.inf if self._adds_wealth else -np.log(self._starts + 1.0)
        self._finite = float(np.logaddexp(owned, waiting))

    def _start(self) -> None:
        """Start all strategies again, and replace the trees whose lifetime has ended."""
        j = self._starts
        wealth = max(1, self._since) if self._adds_wealth else 1.0 / ((j + 1.0) * (j + 2.0))
        self._log_units = np.logaddexp(self._log_units, np.log(wealth) - self.log_wealths)
        for k, life in enumerate(self._lives):
            if j - self._born[k] >= life:
                self._trees.replace(k)
                self._born[k] = j
                self._log_inherited[k] = self.log_wealths[len(GRID) + k]
        self._starts, self._since = j + 1, 0
