"""The evidence of a monitor: an e-process or e-detector, and the estimated time of the change."""

import math
from typing import Any

import numpy as np

from sklearn_calib._typing import Array, Codes
from sklearn_calib.inference._betting._rounds import BettingRounds


class Evidence(BettingRounds):
    """An e-process, or an e-detector, and the time at which the wealth of the best strategy began to grow."""

    def __init__(self, detector: bool, dependent: bool = False) -> None:
        super().__init__(adds_wealth=detector, dependent=dependent)
        # the smallest wealth of each strategy so far, and when it was that small: None before the first round
        self._lowest = np.zeros(self.log_wealths.shape[0])
        self._lowest_at: list[Any] = [None] * self._lowest.shape[0]
        self.largest = self.log_wealth

    @property
    def pvalue(self) -> float | None:
        """Anytime-valid p-value, None of a detector; 0 only for an impossible outcome, not by underflow."""
        if self._adds_wealth:
            return None
        if self.impossible is not None:
            return 0.0
        return max(math.exp(-max(0.0, self.largest)), np.finfo(np.float64).tiny)

    @property
    def since(self) -> Any:
        """The last time at which the strategy that has grown most since its minimum was at its minimum."""
        return self._lowest_at[int((self.log_wealths - self._lowest).argmax())]

    def play_at(self, now: Any, y: Codes, p: Array, times: Codes | None = None) -> float:
        """Bet on a batch; return the logarithm of the evidence."""
        value = self.play(y, p, times)
        self.largest = max(self.largest, value)
        for k in np.flatnonzero(self.log_wealths <= self._lowest):
            self._lowest_at[k] = now
        np.minimum(self._lowest, self.log_wealths, out=self._lowest)
        return value
