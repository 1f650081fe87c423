"""Distances from calibration against the programs of their definitions, interval error by enumeration."""

import numpy as np
import pytest

from sklearn_calib import metrics
from tests._references import lipschitz_program, transport_program
from tests._samples import simulated, small


def test_few_distinct_predictions():
    """b / (b + 2) ECE; b / (b + 1) ECE is above the distance of these predictions from the constant 1/4."""
    result = metrics.distance_from_calibration([1, 0, 0, 0], [0.0, 0.25, 0.25, 0.25])
    assert result.lower <= 1 / 16 == pytest.approx(result.transport)
    y, p = [1, 0, 0, 1], [0.1, 0.8, 0.8, 0.8]
    few = metrics.distance_from_calibration(y, p, n_bins=3)
    assert few.lower == pytest.approx(0.7 / 2.7 * (0.9 + 1.4) / 4)
    assert few.lower > max(few.transport - few.resolution, few.smooth / 2)
    constant = metrics.distance_from_calibration([0, 1, 1], np.full(3, 0.253))
    assert constant.lower == pytest.approx(2 / 3 - 0.253)


def test_by_hand():
    # .5 +- eps with outcomes 0 and 1: parts of 1/2 - eps change places, the smooth error sees about half
    eps = 0.01
    y, p = [0, 1], [0.5 - eps, 0.5 + eps]
    found = metrics.distance_from_calibration(y, p)
    assert found.transport == pytest.approx((0.5 - eps) * 2 * eps, abs=1e-9)
    assert (found.smooth, found.interval) == (pytest.approx((0.5 - eps) * eps), pytest.approx(2 * eps))


def awkward(rng):
    """Few samples, also on or next to the grid or in a corner, of any weights, and nearly calibrated ones."""
    n_bins = rng.integers(1, 13)
    n = rng.integers(1, n_bins + 1)
    grid = rng.integers(0, n_bins + 1, n) / n_bins
    p = [
        rng.random(n),
        grid,
        np.clip(grid + rng.choice([0, 1e-16, 1e-12, -1e-12, 1e-8], n), 0, 1),
        rng.beta(0.1, 0.1, n),
        rng.choice([0, 1e-300, 1e-9, 0.5, 1 - 1e-9, 1], n),
    ][rng.integers(5)]
    weight = [np.ones(n), 10 ** rng.uniform(-3, 3, n), 10 ** rng.uniform(-8, 8, n)][rng.integers(3)]
    rate = [rng.random(n), rng.integers(0, 2, n), p, np.clip(p + rng.choice([1e-9, 1e-4], n), 0, 1)]
    events = rate[rng.integers(4)] * weight
    y, p, w = np.repeat([1, 0], n), np.tile(p, 2), np.append(events, weight - events)
    return y[w > 0], p[w > 0], w[w > 0], n_bins


def check_transport(seeds):
    for seed in seeds:
        y, p, w, n_bins = awkward(np.random.default_rng(seed))
        found = metrics.lower_distance_to_calibration(y, p, n_bins=n_bins, sample_weight=w, pos_label=1)
        expected = transport_program(y, p, w, np.arange(n_bins + 1) / n_bins)
        assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.filterwarnings("ignore:y_proba contains only 0 and 1")
def test_the_lower_distance_is_its_program():
    check_transport(range(24))


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:y_proba contains only 0 and 1")
def test_the_lower_distance_is_its_program_in_many_cases():
    check_transport(range(24, 900))


@pytest.mark.parametrize("excess", [0.0, 1e-12, 1e-9, 1e-7, 1e-4, 0.013, 0.4])
def test_a_constant_prediction_on_the_grid_moves_by_its_error(excess):
    for p, n_bins in ((0.5, 200), (0.5, 2), (0.25, 4)):
        found = metrics.lower_distance_to_calibration(
            [1, 0], [p, p], sample_weight=[p + excess, 1 - p - excess], n_bins=n_bins
        )
        assert found == pytest.approx(excess, abs=1e-10)


@pytest.mark.parametrize("rare", [1e-12, 1e-8, 1e-5])
def test_an_outcome_of_little_weight(rare):
    found = metrics.lower_distance_to_calibration([1, 0], [0.25, 0.25], sample_weight=[rare, 1 - rare])
    assert found == pytest.approx(0.25 - rare, abs=1e-9)


def test_the_text_contains_the_error_of_the_grid():
    # calibrated, but between two grid points: the upper bound is below the lower distance on the grid
    found = metrics.distance_from_calibration([0.2525], [0.2525])
    assert found.upper < found.transport
    assert "grid error of at most 0.0025," in str(found)
    assert "0.0025" in found._repr_html_()


def test_only_more_predictions_than_bins_are_gathered():
    y, p = np.tile([0, 1], 6), np.linspace(0.4, 0.6, 12)
    for n_bins in (12, 13, 30):
        assert metrics.distance_from_calibration(y, p, n_bins=n_bins).resolution == 0.5 / n_bins
    assert 0.5 / 11 < metrics.distance_from_calibration(y, p, n_bins=11).resolution <= 1.5 / 11


def test_many_predictions():
    """Gathering moves the lower distance by no more than it says, and the interval error only upward."""
    y, p = simulated(200, truth=lambda p: 0.5 + 0.4 * np.sin(12 * p))
    exact = metrics.lower_distance_to_calibration(y, p, n_bins=200)
    coarse = metrics.distance_from_calibration(y, p, n_bins=50)
    assert coarse.lower == max(coarse.transport - coarse.resolution, coarse.smooth / 2)
    assert abs(coarse.transport - exact) <= coarse.resolution + 0.5 / 200
    assert 0.5 / 50 < coarse.resolution <= 1 / 50 + 0.5 / 50
    assert metrics.distance_from_calibration(y, p).lower <= metrics.interval_calibration_error(y, p)


def by_last_interval(y, p):
    """The interval error of distinct predictions, over all beginnings of the last interval."""
    order = np.argsort(p)
    p, residual = p[order], (y - p)[order]
    best = [0.0]
    for j in range(1, p.shape[0] + 1):
        sums = np.cumsum(residual[:j][::-1])[::-1]
        best.append(np.min(best + np.abs(sums) + np.arange(j, 0, -1) * (p[j - 1] - p[:j])))
    return best[-1] / p.shape[0]


@pytest.mark.parametrize("truth", [1.0, 3.0, lambda p: 0.5 + 0.4 * np.sin(12 * p), lambda p: 0.5])
def test_intervals_of_many_predictions(truth):
    for n in (65, 700):
        y, p = simulated(n, truth=truth)
        assert metrics.interval_calibration_error(y, p) == pytest.approx(by_last_interval(y, p), abs=1e-12)


def test_an_interval_of_all_predictions():
    # only all residuals together cancel
    p = 0.5 + np.linspace(-1e-3, 1e-3, 400)
    assert metrics.interval_calibration_error(p > 0.5, p) == pytest.approx(2e-3)


def test_more_predictions_than_intervals_can_separate():
    y, p = simulated(5000)
    exact = by_last_interval(y, p)
    assert exact <= metrics.interval_calibration_error(y, p) <= 1.05 * exact


def test_no_error_of_gathered_predictions_is_above_one():
    # events at predictions near 0, more than are told apart: their error is that of their mean, and a width
    p = np.append(np.zeros(9_000), np.linspace(0, 1e-4, 5_000))
    y = np.ones(14_000, dtype=np.int64)
    assert metrics.interval_calibration_error(y, p, pos_label=1) == 1
    assert metrics.distance_from_calibration(y, p, pos_label=1).interval == 1


def log_odds(p):
    return np.log(max(p, 2.0**-53) / max(1 - p, 2.0**-53))


@pytest.mark.parametrize("seed", range(8))
def test_weak_calibration_on_log_odds_is_its_program(seed):
    y, p, w = small(seed)
    # of predictions with log-odds that are near each other, too
    for q in (p, 0.5 + 0.1 * (p - 0.5)):
        value = metrics.smooth_calibration_error(y, q, sample_weight=w, scale="logit")
        assert value == pytest.approx(lipschitz_program(y, q, w, log_odds), abs=1e-9)
        assert value >= metrics.smooth_calibration_error(y, q, sample_weight=w) - 1e-12


def test_weak_calibration_of_many_predictions_on_log_odds_is_its_program():
    """Residuals of either sign between predictions with log-odds from -9 to 9, most of them at either end."""
    rng = np.random.default_rng(0)
    for n in (1, 2, 40, 250):
        p = 1 / (1 + np.exp(-rng.choice([1.0, 9.0], n) * np.tanh(rng.normal(size=n))))
        y, w = (rng.random(n) < p).astype(int), rng.random(n) + 0.1
        value = metrics.smooth_calibration_error(y, p, sample_weight=w, scale="logit", pos_label=1)
        assert value == pytest.approx(lipschitz_program(y, p, w, log_odds), abs=1e-9)


def test_predictions_that_the_smallest_numbers_part():
    # no Lipschitz function can tell them apart: what is left is the residual of all
    p = np.array([0.0, 5e-324, 1e-323, 1.5e-323])
    assert metrics.smooth_calibration_error([1, 0, 1, 0], p) == pytest.approx(0.5)
