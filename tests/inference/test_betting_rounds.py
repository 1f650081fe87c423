"""Bets on batches without an order, against their definition: fair for all labels, alike for all orders."""

import itertools
import math
import pickle

import numpy as np
import pytest

from sklearn_calib._core import _blocks
from sklearn_calib.inference._betting import _rounds
from sklearn_calib.inference._betting._rounds import BettingRounds
from tests._samples import simulated
from tests.inference._bets import reference

INF = math.inf


def draw(n, seed, truth=None):
    return simulated(n, "uniform", 0.02, 0.98, seed=seed, truth=lambda p: p if truth is None else truth(p))


def played(y, p, cuts, **params):
    rounds = BettingRounds(**params)
    parts = zip(np.split(y, cuts), np.split(p, cuts), strict=True)
    return np.exp([rounds.play(*part) for part in parts])


@pytest.mark.parametrize(
    ("cuts", "lives", "adds_wealth"),
    [
        ([40, 45, 80, 100], (INF,), True),
        ([40, 45, 80, 100], (1.0, 2.0, INF), False),
        ([1, 2, 70, 110, 150, 190], (1.0, 2.0, INF), True),
        (range(1, 90), (INF,), False),
    ],
)
def test_equals_the_definition(monkeypatch, cuts, lives, adds_wealth):
    monkeypatch.setattr(_blocks, "BLOCK_ROWS", 17)
    y, p = draw(200, len(cuts), np.square if adds_wealth else None)
    parts = zip(np.split(y, cuts), np.split(p, cuts), strict=True)
    batches = [list(zip(*(a.tolist() for a in part), strict=True)) for part in parts]
    expected = reference(batches, lives, adds_wealth)
    found = played(y, p, cuts, lives=lives, adds_wealth=adds_wealth)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("adds_wealth", "expected"),
    [pytest.param(False, [1, 1, 1], marks=pytest.mark.thorough), (True, [1, 1 + 3, 1 + 3 + 2])],
)
def test_expectation_over_all_labels(monkeypatch, adds_wealth, expected):
    """Under calibration it is 1, or the capital brought so far; forecasts depend on the batches before."""
    monkeypatch.setattr(_rounds, "BLOCK", 1)
    total = np.zeros(3)
    for labels in itertools.product((0, 1), repeat=6):
        y = np.array(labels)
        second = [0.2, 0.9] if sum(labels[:3]) % 2 else [0.6, 0.61]
        p = np.array([0.3, 0.97, 0.02, *second, 0.3 if labels[3] else 0.7])
        probability = np.prod(np.where(y == 1, p, 1 - p))
        total += probability * played(y, p, [3, 5], adds_wealth=adds_wealth, lives=(1.0, INF))
    np.testing.assert_allclose(total, expected, rtol=1e-10)


@pytest.mark.parametrize("adds_wealth", [False, True])
def test_certain_forecasts(adds_wealth):
    y, p = draw(90, 4)
    plain, filled = (BettingRounds(adds_wealth=adds_wealth) for _ in range(2))
    certain = np.array([0, 1, 1]), np.array([0.0, 1.0, 1.0])
    filled.play(*certain)
    assert filled.log_wealth == (-INF if adds_wealth else 0.0)
    for rows in np.split(np.arange(90), [40, 80]):
        plain.play(y[rows], p[rows])
        filled.play(np.append(y[rows], certain[0]), np.append(p[rows], certain[1]))
    assert filled.log_wealth == plain.log_wealth
    assert (plain.n_samples, filled.n_samples) == (90, 102)
    filled.play(np.array([1, 0]), np.array([0.4, 1.0]))
    assert filled.impossible == (0, 1.0)
    filled.play(y, p)
    assert filled.log_wealth == INF
    assert np.isfinite(filled.log_wealths).all()


@pytest.mark.parametrize("p", [1e-300, 5e-324, 1e-17, 1 - 2.0**-53])
def test_extreme_forecasts_stay_finite(p):
    for label in (0, 1):
        rounds = BettingRounds(adds_wealth=True)
        for _ in range(3):
            assert np.isfinite(rounds.play(np.full(50, label), np.full(50, p)))


def test_the_state_does_not_grow():
    rng = np.random.default_rng(6)
    rounds, sizes = BettingRounds(), []
    for _ in range(100):
        p = rng.uniform(size=40)
        rounds.play((rng.random(40) < p).astype(int), p)
        sizes.append(len(pickle.dumps(rounds)))
    assert sizes[-1] < sizes[10] + 200
