"""The weighted sample that represents a sketch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class WeightedSample:
    """Outcomes, predictions and weights that represent all samples of a sketch.

    Attributes
    ----------
    y : ndarray of shape (m,)
        Outcomes 0 or 1, int64.
    p : ndarray of shape (m,)
        Predictions in increasing order: the mean prediction of each occupied bin, once for each outcome that
        has weight.
    w : ndarray of shape (m,)
        Positive weights; whole numbers where all samples had integer weights.

    Examples
    --------
    >>> from sklearn_calib.sketch import CalibrationSketch
    >>> sketch = CalibrationSketch().update([1, 0, 1, 1], [0.5, 0.25, 0.5, 0.25])
    >>> sample = sketch.as_weighted_sample()
    >>> sample.y.tolist(), sample.p.tolist(), sample.w.tolist()
    ([0, 1, 1], [0.25, 0.25, 0.5], [1.0, 1.0, 2.0])
    """

    y: NDArray[np.int64]
    p: NDArray[np.float64]
    w: NDArray[np.float64]

    def __str__(self) -> str:
        return f"weighted sample: {self.y.shape[0]} points of total weight {self.w.sum():g}"
