"""Cosine series and quadrature of absolute values."""

import numpy as np
import pytest

from sklearn_calib._core._links import logit
from sklearn_calib._core._smoothing import (
    LogitPositions,
    coefficients_of_masses,
    condensed_sample,
    integrate_absolute_rows,
    node_count,
    outcome_coefficients,
    residual_coefficients,
    smooth_at_nodes,
)


def cosine_coefficients(x, mass, s):
    masses = np.atleast_2d(mass)
    return coefficients_of_masses([(x, masses)], masses.shape[0], s).reshape(*mass.shape[:-1], -1)


def integral(values, step):
    return integrate_absolute_rows(values[np.newaxis], step)[0]


def test_integral_converges_at_fourth_order():
    errors = []
    for nodes in (32, 64, 128):
        t = np.linspace(0, 1, nodes + 1)
        f = 0.2 + np.cos(3 * np.pi * t)
        fine = np.linspace(0, 1, 1_000_001)
        exact = np.abs(0.2 + np.cos(3 * np.pi * fine)).mean()
        errors.append(abs(integral(f, 1 / nodes) - exact))
    assert errors[0] < 1e-4
    assert errors[2] < 5e-6


def test_samples_are_condensed_only_where_exact_enough():
    rng = np.random.default_rng(0)
    x = rng.random(200_000)
    y = (rng.random(200_000) < x).astype(np.int64)
    assert condensed_sample(y, x, None, 0.1)[1].shape[0] < 50_000
    assert condensed_sample(y, x, None, 1e-4)[1].shape[0] == 200_000
    assert condensed_sample(y, x, np.ones(200_000), 0.1)[1].shape[0] == 200_000


@pytest.mark.parametrize("s", [0.02, 0.005])
def test_condensed_samples_smooth_like_all(s):
    # the first is gathered at means, the second keeps second moments
    rng = np.random.default_rng(4)
    x = np.where(rng.random(300_000) < 0.2, np.round(rng.random(300_000), 1), rng.beta(0.4, 0.6, 300_000))
    y = (rng.random(300_000) < x).astype(np.int64)
    few = condensed_sample(y, x, None, s)
    assert few[1].shape[0] < 150_000
    nodes = node_count(s)
    # with weights every sample is placed by itself
    expected = smooth_at_nodes(outcome_coefficients(y, x, np.ones(300_000), s), s, nodes)
    for found in (outcome_coefficients(*few, s), outcome_coefficients(y, x, None, s)):
        assert np.abs(smooth_at_nodes(found, s, nodes) - expected).mean(axis=1).max() < 1e-6 * 300_000


@pytest.mark.parametrize("n", [1000, 1 << 17])
@pytest.mark.parametrize("s", [0.05, 0.01])
def test_outcome_coefficients_are_sums_of_cosines(n, s):
    # many repetitions of few predictions, both ends among them, cost little to sum
    rng = np.random.default_rng(7)
    p = np.append(rng.random(98), (0.0, 1.0))
    index = rng.integers(0, 100, n)
    y = rng.integers(0, 2, n)
    both = np.stack((np.bincount(index, y, 100), np.bincount(index, minlength=100)))
    x = LogitPositions(p[index], -40.0, 80.0)
    for given, place in ((p[index], p), (x, np.clip((logit(p) + 40.0) / 80.0, 0.0, 1.0))):
        found = outcome_coefficients(y, given, None, s)
        damping = np.exp(-0.5 * (np.pi * s * np.arange(found.shape[1])) ** 2)
        expected = both @ np.cos(np.pi * np.multiply.outer(place, np.arange(found.shape[1])))
        np.testing.assert_allclose(found * damping, expected * damping, atol=2e-6 * n)


def test_log_odds_by_slices():
    p = np.array([0.0, 0.1, 0.5, 0.9, 1.0])
    x = LogitPositions(p, -4.0, 8.0)
    expected = [0.0, (np.log(1 / 9) + 4.0) / 8.0, 0.5, (np.log(9) + 4.0) / 8.0, 1.0]
    np.testing.assert_allclose(x[0:5], expected)
    np.testing.assert_allclose(x[1:3], expected[1:3])


def test_residual_coefficients_are_those_of_masses():
    rng = np.random.default_rng(6)
    p, w = rng.random(50_000), rng.random(50_000)
    y = rng.integers(0, 2, 50_000)
    np.testing.assert_allclose(
        residual_coefficients(y, p, p, w, 0.1), cosine_coefficients(p, w * (y - p), 0.1), atol=1e-9
    )
