"""Miscalibrated intervals of predictions: those that exist are found, others no more often than stated."""

import numpy as np
import pytest

from sklearn_calib.inference import find_regions
from tests._samples import simulated


def regions_of(y, p, w=None, seed=0, confidence=0.95):
    options = {"confidence": confidence, "n_resamples": 199, "random_state": seed, "pos_label": 1}
    return find_regions(np.asarray(y, dtype=int), p, sample_weight=w, weights="frequency", **options)


def test_a_region_that_overpredicts_is_found():
    y, p = simulated(8000, truth=lambda p: np.where((p > 0.6) & (p < 0.8), p - 0.12, p))
    (region,) = regions_of(y, p)
    assert (region.lower, region.upper) == (pytest.approx(0.6, abs=0.04), pytest.approx(0.8, abs=0.04))
    rows = (p >= region.lower) & (p <= region.upper)
    assert (region.n_samples, region.predicted) == (rows.sum(), pytest.approx(p[rows].mean()))
    assert region.observed == pytest.approx(y[rows].mean())
    assert region.gap == pytest.approx(-0.12, abs=0.03)
    assert region.lower <= region.worst_lower <= region.worst_upper <= region.upper
    assert region.worst_observed - region.worst_predicted <= region.gap


@pytest.mark.parametrize("scale", [1.0, 0.02])
def test_calibrated_predictions_have_none_but_for_the_level(scale):
    rng = np.random.default_rng(2)
    p = scale * rng.uniform(size=400 if scale == 1 else 2000)
    found = sum(bool(regions_of(rng.random(p.shape[0]) < p, p, seed=k, confidence=0.9)) for k in range(20))
    # 20 samples at level 0.1: mean 2, standard deviation 1.3
    assert found <= 6


def test_calibrated_regions_are_left_alone():
    rng, wrong = np.random.default_rng(3), 0
    for k in range(25):
        p = rng.uniform(size=2000)
        y = rng.random(2000) < np.where(p < 0.5, p + 0.2, p)
        wrong += any(region.lower > 0.55 for region in regions_of(y, p, seed=k))
    # 25 samples at level 0.05, which the other half of the predictions makes smaller
    assert wrong <= 4


def test_ties_and_weights():
    p, y = np.repeat([0.2, 0.5, 0.8], 200), np.tile(np.arange(200) < 100, 3).astype(int)
    low, high = regions_of(y, p)
    assert (low.lower, low.upper, low.predicted, low.observed) == (0.2, 0.2, pytest.approx(0.2), 0.5)
    assert (high.lower, high.upper, high.n_samples) == (0.8, 0.8, 200.0)
    tied = regions_of([1, 0] * 3, [0.2, 0.2, 0.5, 0.5, 0.8, 0.8], np.full(6, 100.0))
    assert tied == (low, high)
    assert regions_of([0, 1, 1], [0.0, 1.0, 1.0]) == ()
    assert regions_of([1, 0], [0.0, 1.0]) == ()


def test_many_predictions_are_averaged_for_the_draws_alone():
    y, p = simulated(9000, seed=4, truth=lambda p: np.where(p < 0.3, p + 0.1, p))
    (region,) = regions_of(y, p)
    assert region.lower in p
    assert region.upper in p
    assert region.upper == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("value", [0.0005, 0.01])
@pytest.mark.parametrize("others", ["uniform", "sure"])
def test_a_prediction_of_many_samples_is_named_alone(value, others):
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 4000) if others == "uniform" else np.full(4000, 0.9995)
    p[:800] = value
    truth = np.where(p == value, 0.17, p)
    for mirrored in (False, True):
        y = (rng.random(4000) < truth).astype(int)
        (region,) = regions_of(1 - y if mirrored else y, 1 - p if mirrored else p)
        assert region.lower == region.upper == (1 - value if mirrored else value)
        assert region.n_samples == 800
        assert region.observed == pytest.approx(0.83 if mirrored else 0.17, abs=0.05)


def test_regions_end_at_gaps():
    rng = np.random.default_rng(0)
    p = np.concatenate((rng.uniform(0.1, 0.3, 1000), rng.uniform(0.6, 0.8, 1000)))
    low, high = regions_of(rng.random(2000) < p + 0.15, p)
    assert low.upper < 0.31
    assert high.lower > 0.59
    found = regions_of(*simulated(6000, truth=lambda p: p - 0.25 * np.isin(np.round(p, 1), (0.4, 0.8))))
    assert [round(region.predicted, 1) for region in found] == [0.4, 0.8]
    assert all(region.gap < -0.2 for region in found)
