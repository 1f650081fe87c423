"""Distances from calibration against the programs of their definitions, interval error by enumeration."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._core._transport import interval_error
from sklearn_calib.metrics import (
    distance_from_calibration,
    interval_calibration_error,
    lower_distance_to_calibration,
    smooth_calibration_error,
)
from tests._references import lipschitz_program
from tests._samples import simulated


def transport_program(y, p, w, grid):
    """The least E|u - p| over couplings of (p, y) with u on a grid that are calibrated: a dense program."""
    n, k = p.shape[0], grid.shape[0]
    cost = np.abs(grid - p[:, None]).ravel()
    marginal = np.kron(np.eye(n), np.ones(k))
    # sum_i pi(i, u) (y_i - u) = 0 for every u
    balance = np.hstack([np.diag(outcome - grid) for outcome in y])
    solution = linprog(
        cost,
        A_eq=np.vstack([marginal, balance]),
        b_eq=np.concatenate([w / w.sum(), np.zeros(k)]),
        method="highs",
    )
    assert solution.status == 0
    return solution.fun


def by_partitions(y, p, w):
    """The interval error by trying all partitions of the distinct predictions."""
    values = np.unique(p)
    best = np.inf
    for cuts in itertools.product([False, True], repeat=len(values) - 1):
        parts, part = [], [values[0]]
        for cut, value in zip(cuts, values[1:], strict=True):
            if cut:
                parts.append(part)
                part = []
            part.append(value)
        parts.append(part)
        total = 0.0
        for part in parts:
            rows = (p >= part[0]) & (p <= part[-1])
            total += abs(np.sum((w * (y - p))[rows])) + (part[-1] - part[0]) * w[rows].sum()
        best = min(best, total)
    return best / w.sum()


def sample(seed, largest=25):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, largest))
    p = rng.random(n) if seed % 2 else rng.integers(0, 11, n) / 10
    y = (rng.random(n) < rng.random(n) ** rng.uniform(0.1, 5)).astype(int)
    return y, p, rng.integers(1, 5, n)


@pytest.mark.parametrize("seed", range(8))
def test_equals_the_dense_program(seed):
    y, p, w = sample(seed)
    value = lower_distance_to_calibration(y, p, sample_weight=w, pos_label=1, n_bins=30)
    expected = transport_program(y, p, w, np.arange(31) / 30)
    assert value == pytest.approx(expected, abs=1e-8)


def test_few_distinct_predictions():
    """Proposition A.1: b / (b + 1) ECE, which these predictions attain."""
    for b in (0.201, 0.503):
        result = distance_from_calibration([0, 1], [0.5 + b / 2, 0.5 - b / 2])
        assert result.lower == pytest.approx(b / 2)
        assert result.transport - result.resolution < b / 2 - 0.001
    constant = distance_from_calibration([0, 1, 1], np.full(3, 0.253))
    assert constant.lower == pytest.approx(2 / 3 - 0.253)


@pytest.mark.parametrize("seed", range(8))
def test_interval_error_by_enumeration(seed):
    y, p, w = sample(seed, largest=10)
    value = interval_calibration_error(y, p, sample_weight=w, pos_label=1)
    assert value == pytest.approx(by_partitions(y, p, w), abs=1e-12)


def test_by_hand():
    # .5 +- eps with outcomes 0 and 1: parts of 1/2 - eps change places, the smooth error sees about half
    eps = 0.01
    y, p = [0, 1], [0.5 - eps, 0.5 + eps]
    found = distance_from_calibration(y, p)
    assert found.transport == pytest.approx((0.5 - eps) * 2 * eps, abs=1e-9)
    assert found.smooth == pytest.approx((0.5 - eps) * eps)
    assert found.interval == pytest.approx(2 * eps)
    # one prediction: nothing is nearer than a mean of 2/3
    assert lower_distance_to_calibration([1, 1, 0], [0.2] * 3) == pytest.approx(2 / 3 - 0.2)
    assert interval_calibration_error([1, 1, 0], [0.2] * 3) == pytest.approx(2 / 3 - 0.2)
    assert lower_distance_to_calibration([0, 0], [1.0, 1.0]) == pytest.approx(1.0)


def test_the_text_contains_the_error_of_the_grid():
    # calibrated, but between two grid points: the upper bound is below the lower distance on the grid
    found = distance_from_calibration([0.2525], [0.2525])
    assert found.upper < found.transport
    assert "grid error of at most 0.0025," in str(found)
    assert "0.0025" in found._repr_html_()


def test_only_more_predictions_than_bins_are_gathered():
    y, p = np.tile([0, 1], 6), np.linspace(0.4, 0.6, 12)
    for n_bins in (12, 13, 30):
        assert distance_from_calibration(y, p, n_bins=n_bins).resolution == 0.5 / n_bins
    assert 0.5 / 11 < distance_from_calibration(y, p, n_bins=11).resolution <= 1.5 / 11


def test_many_predictions():
    """Gathering moves the lower distance by no more than it says, and the interval error only upwards."""
    y, p = simulated(200, truth=lambda p: 0.5 + 0.4 * np.sin(12 * p))
    exact = lower_distance_to_calibration(y, p, n_bins=200)
    coarse = distance_from_calibration(y, p, n_bins=50)
    assert coarse.lower == max(coarse.transport - coarse.resolution, coarse.smooth / 2)
    assert abs(coarse.transport - exact) <= coarse.resolution + 0.5 / 200
    assert 0.5 / 50 < coarse.resolution <= 1 / 50 + 0.5 / 50
    grouped = group_outcomes(y, p)
    full = interval_error(grouped, 200)
    assert full == interval_calibration_error(y, p)
    for cells in (20, 100):
        assert full <= interval_error(grouped, cells) <= full + 2 / cells
    assert distance_from_calibration(y, p).lower <= full


def test_no_error_of_gathered_predictions_is_above_one():
    # events at predictions near 0, more than are told apart: their error is that of their mean, and a width
    p = np.append(np.zeros(9_000), np.linspace(0, 1e-4, 5_000))
    y = np.ones(14_000, dtype=np.int64)
    assert interval_error(group_outcomes(y, p), 100) > 1 + 1e-5
    assert interval_calibration_error(y, p, pos_label=1) == 1
    assert distance_from_calibration(y, p, pos_label=1).interval == 1


def log_odds(p):
    return np.log(max(p, 2.0**-53) / max(1 - p, 2.0**-53))


@pytest.mark.parametrize("seed", range(16))
def test_equals_the_linear_program(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    p = rng.random(n) if seed % 2 else rng.integers(0, 11, n) / 10
    y = (rng.random(n) < p ** rng.uniform(0.1, 5)).astype(int)
    w = rng.integers(1, 5, n)
    value = smooth_calibration_error(y, p, sample_weight=w)
    assert value == pytest.approx(lipschitz_program(y, p, w), abs=1e-12)
    # of predictions with log-odds that are near each other, too
    for q in (p, 0.5 + 0.1 * (p - 0.5)):
        value = smooth_calibration_error(y, q, sample_weight=w, scale="logit")
        assert value == pytest.approx(lipschitz_program(y, q, w, log_odds), abs=1e-9)
        assert value >= smooth_calibration_error(y, q, sample_weight=w) - 1e-12


def test_predictions_that_the_smallest_numbers_part():
    # no Lipschitz function can tell them apart: what is left is the residual of all
    p = np.array([0.0, 5e-324, 1e-323, 1.5e-323])
    assert smooth_calibration_error([1, 0, 1, 0], p) == pytest.approx(0.5)


def test_extremes():
    assert smooth_calibration_error([0, 0], [1.0, 1.0]) == 1.0
    # u = -1 at 1 and u = 0 at 0: mass at 0 is met by a residual of 1 there
    y, p = [0, 1], [1.0, 0.0]
    assert smooth_calibration_error(y, p) == pytest.approx(
        lipschitz_program(np.array(y), np.array(p), np.ones(2))
    )
