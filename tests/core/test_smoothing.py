"""Cosine series and quadrature of absolute values."""

import numpy as np
import pytest

from sklearn_calib._core._links import logit
from sklearn_calib._core._smoothing import LogitPositions, coefficients_of_masses


@pytest.mark.parametrize("n", [1000, 1 << 17])
@pytest.mark.parametrize("s", [0.05, 0.01])
def test_coefficients_are_sums_of_cosines(n, s):
    # many repetitions of few predictions, both ends among them, cost little to sum
    rng = np.random.default_rng(7)
    p, index = np.append(rng.random(98), (0.0, 1.0)), rng.integers(0, 100, n)
    y = rng.integers(0, 2, n)
    both = np.stack((np.bincount(index, 1 - y, 100), np.bincount(index, y, 100)))
    x = LogitPositions(p[index], -40.0, 80.0)
    for given, place in ((p[index], p), (x, np.clip((logit(p) + 40.0) / 80.0, 0.0, 1.0))):
        found = coefficients_of_masses(given, lambda rows: np.ones(y[rows].shape), n, s, y)
        damping = np.exp(-0.5 * (np.pi * s * np.arange(found.shape[1])) ** 2)
        expected = both @ np.cos(np.pi * np.multiply.outer(place, np.arange(found.shape[1])))
        np.testing.assert_allclose(found * damping, expected * damping, atol=2e-6 * n)
