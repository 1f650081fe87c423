"""The Lipschitz (weak, smooth) calibration error against its linear program."""

import numpy as np
import pytest

from sklearn_calib.metrics import smooth_calibration_error
from tests._references import lipschitz_program


@pytest.mark.parametrize("seed", range(16))
def test_equals_the_linear_program(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    p = rng.random(n) if seed % 2 else rng.integers(0, 11, n) / 10
    y = (rng.random(n) < p ** rng.uniform(0.1, 5)).astype(int)
    w = rng.integers(1, 5, n)
    value = smooth_calibration_error(y, p, sample_weight=w)
    assert value == pytest.approx(lipschitz_program(y, p, w), abs=1e-12)


def test_predictions_that_the_smallest_numbers_part():
    # no Lipschitz function can tell them apart: what is left is the residual of all
    p = np.array([0.0, 5e-324, 1e-323, 1.5e-323])
    assert smooth_calibration_error([1, 0, 1, 0], p) == pytest.approx(0.5)


def test_by_hand():
    # residuals -.4 and +.4, .2 apart: u differs by at most .2 between them
    assert smooth_calibration_error([0, 1], [0.4, 0.6]) == pytest.approx(0.4 * 0.2 / 2)
    # y = 0/1 just below/above one half: u(b) - u(a) = 2 eps
    eps = 1e-3
    value = smooth_calibration_error([0, 1], [0.5 - eps, 0.5 + eps])
    assert value == pytest.approx((0.5 - eps) * 2 * eps / 2)
    # one prediction: |y - p|
    assert smooth_calibration_error([1, 1, 0], [0.2] * 3) == pytest.approx(2 / 3 - 0.2)


def test_extremes():
    assert smooth_calibration_error([0, 0], [1.0, 1.0]) == 1.0
    # u = -1 at 1 and u = 0 at 0: mass at 0 is met by a residual of 1 there
    y, p = [0, 1], [1.0, 0.0]
    assert smooth_calibration_error(y, p) == pytest.approx(
        lipschitz_program(np.array(y), np.array(p), np.ones(2))
    )
