"""How near a sequence is to a non-decreasing one, against a heap and against enumeration."""

import heapq
from itertools import combinations_with_replacement

import numpy as np
import pytest

from sklearn_calib._core import _isotonic
from sklearn_calib._core._isotonic import monotone_distance


def by_heap(values, weights):
    """Slope trick: the cost as a function of the last level, as breakpoints with their changes of slope."""
    heap, top = [], np.empty_like(values)
    for i, (value, weight) in enumerate(zip(values.tolist(), weights.tolist(), strict=True)):
        heapq.heappush(heap, (-value, 2.0 * weight))
        surplus = weight
        while surplus > 0:
            breakpoint_, change = heapq.heappop(heap)
            if change > surplus:
                heapq.heappush(heap, (breakpoint_, change - surplus))
            surplus -= change
        top[i] = -heap[0][0]
    return float(weights @ np.abs(values - np.minimum.accumulate(top[::-1])[::-1]))


def by_enumeration(values, weights):
    """The best levels are among the values."""
    levels = combinations_with_replacement(np.unique(values), values.shape[0])
    return min(float(weights @ np.abs(values - np.array(d))) for d in levels)


@pytest.mark.parametrize("seed", range(8))
def test_is_the_best_of_all_sequences(seed):
    rng = np.random.default_rng(seed)
    values, weights = rng.integers(0, 4, 7) / 3, rng.random(7)
    expected = by_enumeration(values, weights)
    assert by_heap(values, weights) == pytest.approx(expected, abs=1e-12)
    assert monotone_distance(values.copy(), weights) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("few", [8, 1 << 17])
def test_agrees_with_a_heap(few, monkeypatch):
    # of more values, halves are divided first
    monkeypatch.setattr(_isotonic, "_FEW", few)
    for seed in range(24):
        rng = np.random.default_rng(seed)
        m = int(rng.integers(1, 120))
        noise, drift = rng.normal(size=m), rng.choice([0.0, 0.2, 2.0]) * np.arange(m)
        walk = np.cumsum(noise) if seed % 3 else noise.round(1)
        values = np.abs(walk + drift) if seed % 2 else np.clip(walk + drift, 0.0, 3.0)
        weights = rng.random(m) ** 3 * 10.0 ** rng.integers(-3, 4)
        expected = by_heap(values, weights)
        assert monotone_distance(values.copy(), weights) == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_long_walks():
    rng = np.random.default_rng(0)
    for drift in (0.0, 0.05, 1.0, -1.0):
        values, weights = np.abs(np.cumsum(rng.normal(drift, 1.0, 8000))), rng.random(8000)
        assert monotone_distance(values.copy(), weights) == pytest.approx(by_heap(values, weights), rel=1e-10)


def test_extremes():
    assert monotone_distance(np.array([3.0]), np.array([2.0])) == 0.0
    assert monotone_distance(np.array([0.0, -0.0, 1.0, 1.0]), np.ones(4)) == 0.0
    # two rows meet anywhere in between, for the smaller weight
    assert monotone_distance(np.array([5.0, 2.0]), np.array([3.0, 0.5])) == pytest.approx(1.5)
    falling = np.arange(1001.0)[::-1]
    assert monotone_distance(falling.copy(), np.ones(1001)) == pytest.approx(np.abs(falling - 500.0).sum())
    # neighbors that only the last bits tell apart
    close = 1.0 + np.array([3, 1, 2, 0, 1]) * 2.0**-52
    weights = np.array([1.0, 2.0, 1.0, 3.0, 1.0])
    assert monotone_distance(close.copy(), weights) == pytest.approx(by_heap(close, weights), rel=1e-10)


@pytest.mark.parametrize("power", [-1060, -1000, 900])
def test_weights_of_any_size(power):
    rng = np.random.default_rng(5)
    values, weights = rng.integers(0, 9, 40).astype(float), rng.integers(1, 50, 40).astype(float)
    expected = monotone_distance(values.copy(), weights)
    assert expected > 0
    assert monotone_distance(values, np.ldexp(weights, power)) == np.ldexp(expected, power)
