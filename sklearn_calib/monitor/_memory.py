"""Memory of a streaming calibrator: all samples, a moving window, or exponential forgetting."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._typing import Array
from sklearn_calib.sketch import CalibrationSketch, WindowedSketch
from sklearn_calib.sketch._lock import Locked

Codes = NDArray[np.int64]

# Weights are rescaled after this many half-lives; those of samples twice as old are rounding errors.
_STEP = 32.0
#: A half-life in samples after which the sample before the last is a rounding error.
SHORTEST = 1.0 / _STEP


class Memory(Protocol):
    """A summary of a stream, of constant size; several threads may add samples."""

    def add(self, y: Codes, p: Array, w: Array | None) -> None:
        """Add samples, the oldest first."""

    def look(self) -> tuple[CalibrationSketch, int]:
        """Return a sketch of the remembered samples, and the number of samples so far."""

    @property
    def n_seen(self) -> int:
        """Number of samples so far."""


class FullMemory:
    """A sketch of all samples."""

    def __init__(self, precision: int) -> None:
        self._sketch = CalibrationSketch(precision=precision)

    @property
    def n_seen(self) -> int:
        """Number of samples so far."""
        return self._sketch.n_samples

    def add(self, y: Codes, p: Array, w: Array | None) -> None:
        """Add samples."""
        self._sketch.update(y, p, sample_weight=w)

    def look(self) -> tuple[CalibrationSketch, int]:
        """Return a sketch of all samples, and their number."""
        sketch = self._sketch.copy()
        return sketch, sketch.n_samples


class SlidingMemory:
    """A sketch of the last samples."""

    def __init__(self, precision: int, window: int, n_slots: int) -> None:
        self._window = WindowedSketch(window, n_slots=n_slots, precision=precision)

    @property
    def n_seen(self) -> int:
        """Number of samples so far."""
        return self._window.n_seen

    def add(self, y: Codes, p: Array, w: Array | None) -> None:
        """Add samples, the oldest first."""
        self._window.update(y, p, sample_weight=w)

    def look(self) -> tuple[CalibrationSketch, int]:
        """Return a sketch of the samples of the window, and the number of samples so far."""
        window = self._window.copy()
        return window.current(), window.n_seen


class FadingMemory(Locked):
    """A sketch of all samples, each with half the weight of a sample that came one half-life later.

    Instead of multiplying old weights by a factor below 1, new weights grow by its inverse, relative to that
    of a reference sample; occasionally all weights are divided by a power of two.
    """

    def __init__(self, precision: int, half_life: float) -> None:
        super().__init__()
        self._half_life, self._precision = half_life, precision
        # a sketch, and the differences of age and total number of samples from the samples in the sketch
        self._state = CalibrationSketch(precision=precision), 0.0, 0

    @property
    def n_seen(self) -> int:
        """Number of samples so far."""
        with self._lock:
            sketch, _, before = self._state
            return before + sketch.n_samples

    def add(self, y: Codes, p: Array, w: Array | None) -> None:
        """Add samples, the oldest first."""
        with self._lock:
            sketch, start, before = self._state
            n, span = p.shape[0], _STEP * self._half_life
            if start + sketch.n_samples + n < span:
                # atomic, because the sketch counts the samples
                self._grow(sketch, start + sketch.n_samples, y, p, w)
                return
            size = max(1, int(span))
            # older samples are negligible compared with the last one
            first = max(0, n - 2 * size)
            sketch, age = self._reduced(sketch.copy(), start + sketch.n_samples + first)
            for begin in range(first, n, size):
                part = slice(begin, min(begin + size, n))
                self._grow(sketch, age, y[part], p[part], None if w is None else w[part])
                sketch, age = self._reduced(sketch, age + part.stop - part.start)
            n_seen = before + self._state[0].n_samples + n
            self._state = sketch, age - sketch.n_samples, n_seen - sketch.n_samples

    def look(self) -> tuple[CalibrationSketch, int]:
        """Return a sketch of all samples in which the last one has its original weight, and their number."""
        with self._lock:
            sketch, start, before = self._state
            sketch = sketch.copy()
        factor = 2.0 ** ((1.0 - (start + sketch.n_samples)) / self._half_life)
        return self._scaled(sketch, factor), before + sketch.n_samples

    def _grow(self, sketch: CalibrationSketch, age: float, y: Codes, p: Array, w: Array | None) -> None:
        """Add samples, the first of which has this age."""
        grown = np.exp2((age + np.arange(p.shape[0])) / self._half_life)
        sketch.update(y, p, sample_weight=grown if w is None else grown * w)

    def _reduced(self, sketch: CalibrationSketch, age: float) -> tuple[CalibrationSketch, float]:
        """Return sketch and age, with smaller weights if they have grown too large."""
        halvings = _STEP * (age // (_STEP * self._half_life))
        if not halvings:
            return sketch, age
        return self._scaled(sketch, 2.0**-halvings), age - halvings * self._half_life

    def _scaled(self, sketch: CalibrationSketch, factor: float) -> CalibrationSketch:
        """Return the sketch with scaled weights, without negligible ones."""
        new = CalibrationSketch(precision=self._precision)
        if not sketch.n_samples:
            return new
        rows = sketch.as_weighted_sample()
        w = rows.w * factor
        keep = w > 2.0 ** (-2.0 * _STEP) * w.max()
        return new.update(rows.y[keep], rows.p[keep], sample_weight=w[keep])
