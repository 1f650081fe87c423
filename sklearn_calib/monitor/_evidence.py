"""The evidence of a monitor: an e-process or e-detector, and the estimated time of the change."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib.inference._betting_rounds import BettingRounds


class Evidence:
    """An e-process or e-detector, and the time at which the wealth of the best strategy began to grow.

    Parameters
    ----------
    detector : bool
        Whether every start adds wealth (e-detector).
    dependent : bool
        Whether outcomes of a batch may depend on each other.
    """

    def __init__(self, detector: bool, dependent: bool = False) -> None:
        self._rounds = BettingRounds(adds_wealth=detector, dependent=dependent)
        # the smallest wealth of each strategy so far, and when it was that small: None before the first round
        self._lowest = np.zeros(self._rounds.log_wealths.shape[0])
        self._since: list[Any] = [None] * self._lowest.shape[0]
        self.largest = self._rounds.log_wealth

    @property
    def n_samples(self) -> int:
        return self._rounds.n_samples

    @property
    def log_value(self) -> float:
        return self._rounds.log_wealth

    @property
    def pvalue(self) -> float:
        """Anytime-valid p-value of an e-process; 0 only for an impossible outcome, not by underflow."""
        if self._rounds.impossible is not None:
            return 0.0
        return max(math.exp(-max(0.0, self.largest)), np.finfo(np.float64).tiny)

    @property
    def impossible(self) -> tuple[int, float] | None:
        return self._rounds.impossible

    @property
    def since(self) -> Any:
        """The last time at which the strategy that has grown most since its minimum was at its minimum."""
        return self._since[int((self._rounds.log_wealths - self._lowest).argmax())]

    def play(
        self, y: NDArray[np.int64], p: NDArray[np.float64], times: NDArray[np.int64] | None, now: Any
    ) -> float:
        """Bet on a batch; return the logarithm of the evidence."""
        value = self._rounds.play(y, p, times)
        self.largest = max(self.largest, value)
        for k in np.flatnonzero(self._rounds.log_wealths <= self._lowest):
            self._since[k] = now
        np.minimum(self._lowest, self._rounds.log_wealths, out=self._lowest)
        return value
