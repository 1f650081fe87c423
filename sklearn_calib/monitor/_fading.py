"""A sketch that forgets exponentially."""

import numpy as np

from sklearn_calib._typing import Array, Codes
from sklearn_calib.sketch import CalibrationSketch

# Weights are rescaled after this many half-lives; those of samples twice as old are rounding errors.
_STEP = 32.0


class FadingSketch:
    """A sketch of all samples, each with half the weight of a sample that came one half-life later.

    Instead of multiplying old weights by a factor below 1, new weights grow by its inverse, relative to that
    of a reference sample; occasionally all weights are divided by a power of two.
    """

    def __init__(self, precision: int, half_life: float) -> None:
        self._half_life, self._precision = half_life, precision
        self._sketch = CalibrationSketch(precision=precision)
        self.n_seen = 0
        # of the next sample, in samples since the reference
        self._age = 0.0

    def update(self, y: Codes, p: Array, *, sample_weight: Array | None) -> None:
        """Add samples, the oldest first."""
        n, size = p.shape[0], max(1, int(_STEP * self._half_life))
        self.n_seen += n
        # older samples are negligible compared with the last one
        first = max(0, n - 2 * size)
        self._age += first
        for begin in range(first, n, size):
            halvings = _STEP * (self._age // (_STEP * self._half_life))
            if halvings:
                self._sketch = self._scaled(2.0**-halvings)
                self._age -= halvings * self._half_life
            part = slice(begin, min(begin + size, n))
            grown = np.exp2((self._age + np.arange(part.stop - begin)) / self._half_life)
            weight = grown if sample_weight is None else grown * sample_weight[part]
            self._sketch.update(y[part], p[part], sample_weight=weight)
            self._age += part.stop - begin

    def current(self) -> CalibrationSketch:
        """Return a sketch of all samples in which the last one has its original weight."""
        return self._scaled(2.0 ** ((1.0 - self._age) / self._half_life))

    def _scaled(self, factor: float) -> CalibrationSketch:
        """Return the sketch with scaled weights, without negligible ones."""
        new = CalibrationSketch(precision=self._precision)
        if not self._sketch.n_samples:
            return new
        y, p, w = self._sketch.weighted_sample()
        w = w * factor
        keep = w > 2.0 ** (-2.0 * _STEP) * w.max()
        return new.update(y[keep], p[keep], sample_weight=w[keep])
