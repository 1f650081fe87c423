"""What a streaming calibrator remembers of its rows: all of them, the last ones, or the old ones less."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sklearn_calib.sketch import CalibrationSketch, WindowedSketch

__all__ = ["SHORTEST", "FadingMemory", "FullMemory", "Memory", "SlidingMemory"]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

# Weights are reduced after so many half-lives, and those of rows that are twice as old are rounding errors.
_STEP = 32.0
#: A half-life in rows after which the row before the last is a rounding error.
SHORTEST = 1.0 / _STEP


class Memory(Protocol):
    """A summary of a stream, of constant size."""

    def add(self, y: Codes, p: Array, w: Array | None) -> None:
        """Add rows, the oldest first."""

    def sketch(self) -> CalibrationSketch:
        """Return a sketch of what is remembered."""


class FullMemory:
    """A sketch of all rows."""

    def __init__(self, precision: int) -> None:
        self._sketch = CalibrationSketch(precision=precision)

    def add(self, y: Codes, p: Array, w: Array | None) -> None:
        """Add rows."""
        self._sketch.update(y, p, sample_weight=w)

    def sketch(self) -> CalibrationSketch:
        """Return a sketch of all rows."""
        return self._sketch.copy()


class SlidingMemory:
    """A sketch of the last rows."""

    def __init__(self, precision: int, window: int, n_slots: int) -> None:
        self._window = WindowedSketch(window, n_slots=n_slots, precision=precision)

    def add(self, y: Codes, p: Array, w: Array | None) -> None:
        """Add rows, the oldest first."""
        self._window.update(y, p, sample_weight=w)

    def sketch(self) -> CalibrationSketch:
        """Return a sketch of the rows of the window."""
        return self._window.current()


class FadingMemory:
    """A sketch of all rows, each with half the weight of a row that came one half-life later.

    Instead of old weights becoming smaller new ones become larger, in units of the weight of a row that came
    ``_age`` rows ago, if the next one is row 0; from time to time they are all divided by a power of two.
    """

    def __init__(self, precision: int, half_life: float) -> None:
        self._half_life, self._precision = half_life, precision
        self._sketch = CalibrationSketch(precision=precision)
        self._age = 0.0

    def add(self, y: Codes, p: Array, w: Array | None) -> None:
        """Add rows, the oldest first."""
        n = p.shape[0]
        size = max(1, int(_STEP * self._half_life))
        # what is older is nothing beside the last row
        first = max(0, n - 2 * size)
        self._pass(first)
        for start in range(first, n, size):
            rows = slice(start, min(start + size, n))
            grown = np.exp2((self._age + np.arange(rows.stop - rows.start)) / self._half_life)
            self._sketch.update(y[rows], p[rows], sample_weight=grown if w is None else grown * w[rows])
            self._pass(rows.stop - rows.start)

    def sketch(self) -> CalibrationSketch:
        """Return a sketch of all rows in which the last one has its own weight."""
        return self._scaled(2.0 ** ((1.0 - self._age) / self._half_life))

    def _pass(self, rows: int) -> None:
        """Let time pass, and reduce all weights where they have grown too large."""
        self._age += rows
        halvings = _STEP * (self._age // (_STEP * self._half_life))
        if halvings:
            self._sketch = self._scaled(2.0**-halvings)
            self._age -= halvings * self._half_life

    def _scaled(self, factor: float) -> CalibrationSketch:
        """Return the sketch with other weights, without those that are rounding errors."""
        new = CalibrationSketch(precision=self._precision)
        if not self._sketch.n_rows:
            return new
        rows = self._sketch.as_weighted_sample()
        w = rows.w * factor
        keep = w > 2.0 ** (-2.0 * _STEP) * w.max()
        return new.update(rows.y[keep], rows.p[keep], sample_weight=w[keep])
