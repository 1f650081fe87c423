"""Rows and their sketch, for the tests of what accepts one."""

from dataclasses import dataclass

import numpy as np
import pytest

from sklearn_calib.sketch import CalibrationSketch


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    p = np.concatenate((rng.random(n - 40), rng.choice([0.1, 0.5, 0.75], 40)))
    return (rng.random(n) < 0.1 + 0.8 * p).astype(np.int64), p


@dataclass(frozen=True)
class Data:
    """Rows, their sketch, and the arrays for which the sketch stands."""

    y: np.ndarray
    p: np.ndarray
    sketch: CalibrationSketch
    arrays: tuple
    w: np.ndarray


@pytest.fixture(scope="module")
def data():
    y, p = rows()
    sketch = CalibrationSketch().update(y, p)
    sample = sketch.as_weighted_sample()
    return Data(y, p, sketch, (sample.y, sample.p), sample.w)
