"""Logit-smoothed ECE against quadrature of its definition, and the paper's theory."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import expit

from sklearn_calib.metrics import logit_smoothed_ece
from tests._references import logit_smoothed_ece_at
from tests._tiers import thorough

EPS = 2.0**-53


def sample(seed=0, n=25):
    rng = np.random.default_rng(seed)
    p = np.concatenate([rng.random(n), [0.0, 0.0, 1.0, 1.0, 0.5, 0.5, 0.3, 0.3, 0.3 + 1e-6]])
    return (rng.random(p.shape[0]) < 0.5).astype(int), p, rng.integers(1, 4, p.shape[0]).astype(float)


@pytest.mark.parametrize("s", [thorough(1e-3), 0.1, 1.0, 10.0])
def test_gaussian_noise_is_the_definition(s):
    y, p, w = sample(n=0 if s < 0.01 else 25)
    value = logit_smoothed_ece(y, p, sample_weight=w, bandwidth=s)
    assert value == pytest.approx(logit_smoothed_ece_at(y, p, w, s, EPS), abs=1e-6)


def test_wide_noise_of_few_predictions_is_the_definition():
    # the sigmoid, not the noise, determines how many nodes are needed
    y, p = np.array([1, 0, 1, 0]), np.array([0.479, 0.588, 0.497, 0.606])
    expected = logit_smoothed_ece_at(y, p, np.ones(4), 2.0, EPS)
    assert logit_smoothed_ece(y, p, bandwidth=2.0) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("s", [1e-3, 0.1, 1.0, 20.0])
def test_uniform_noise_is_the_definition(s):
    y, p, w = sample(1)
    h = np.log(np.clip(p, EPS, 1 - EPS) / (1 - np.clip(p, EPS, 1 - EPS)))
    edges, total = np.unique(np.concatenate([h - s / 2, h + s / 2])), 0.0
    for low, high in pairwise(edges):
        inside, t = np.abs((low + high) / 2 - h) < s / 2, np.linspace(low, high, 4001)
        g = (w[inside] * (y[inside] - expit(t)[:, None])).sum(axis=1)
        total += trapezoid(np.abs(g), t)
    value = logit_smoothed_ece(y, p, sample_weight=w, bandwidth=s, noise="uniform")
    assert value == pytest.approx(total / (s * w.sum()), abs=1e-6)


def test_default_bandwidth_vanishes_slowly():
    y, p, w = sample()
    assert logit_smoothed_ece(y, p) == logit_smoothed_ece(y, p, bandwidth=34 ** (-1 / 3))
    found = logit_smoothed_ece(y, p, sample_weight=w)
    assert found == logit_smoothed_ece(y, p, sample_weight=w, bandwidth=w.sum() ** (-1 / 3))
    fractional = w / 7
    size = fractional.sum() ** 2 / (fractional**2).sum()
    expected = logit_smoothed_ece(y, p, sample_weight=fractional, bandwidth=size ** (-1 / 3))
    assert logit_smoothed_ece(y, p, sample_weight=fractional) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("noise", ["gaussian", "uniform"])
def test_noise_that_cannot_be_resolved_is_refused(noise):
    y, p, _ = sample(n=0)
    # by distinct predictions, the limit of all that is smoothed less and less
    exact = sum(abs((y - p)[value == p].sum()) for value in np.unique(p)) / y.shape[0]
    error = partial(logit_smoothed_ece, y, p, noise=noise)
    # log-odds from -36.7 to 36.7; the quadrature of Gaussian noise takes long
    if noise == "uniform":
        assert error(bandwidth=7.4e-4) == pytest.approx(exact, abs=1e-3)
    for bandwidth in (7e-4, 1e-9, 1e-299):
        with pytest.raises(ValueError, match=r"is below the smallest possible value, 0\.00073"):
            error(bandwidth=bandwidth)
    # sigma is 0 or 1 nearly everywhere
    expected = abs(np.mean(y)) / 2 + abs(1 - np.mean(y)) / 2
    for bandwidth in (1e7, 1e200):
        assert error(bandwidth=bandwidth) == pytest.approx(expected, abs=1e-4)


def test_the_automatic_bandwidth_of_huge_samples_can_be_resolved():
    y, p, huge = [0, 1, 1], [0.3, 0.5, 0.50001], np.full(3, 10**11)
    expected = logit_smoothed_ece(y, p, sample_weight=huge, bandwidth=1e-3)
    assert logit_smoothed_ece(y, p, sample_weight=huge) == expected
