"""Distances from calibration against the programs of their definitions, interval error by enumeration."""

import numpy as np
import pytest

from sklearn_calib import metrics
from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._core._transport import interval_error
from tests._references import lipschitz_program
from tests._samples import simulated, small


def test_few_distinct_predictions():
    """Proposition A.1: b / (b + 1) ECE, which these predictions attain."""
    for b in (0.201, 0.503):
        result = metrics.distance_from_calibration([0, 1], [0.5 + b / 2, 0.5 - b / 2])
        assert result.lower == pytest.approx(b / 2)
        assert result.transport - result.resolution < b / 2 - 0.001
    constant = metrics.distance_from_calibration([0, 1, 1], np.full(3, 0.253))
    assert constant.lower == pytest.approx(2 / 3 - 0.253)


def test_by_hand():
    # .5 +- eps with outcomes 0 and 1: parts of 1/2 - eps change places, the smooth error sees about half
    eps = 0.01
    y, p = [0, 1], [0.5 - eps, 0.5 + eps]
    found = metrics.distance_from_calibration(y, p)
    assert found.transport == pytest.approx((0.5 - eps) * 2 * eps, abs=1e-9)
    assert (found.smooth, found.interval) == (pytest.approx((0.5 - eps) * eps), pytest.approx(2 * eps))


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
    grouped = group_outcomes(y, p)
    full = interval_error(grouped, 200)
    assert full == metrics.interval_calibration_error(y, p)
    for cells in (20, 100):
        assert full <= interval_error(grouped, cells) <= full + 2 / cells
    assert metrics.distance_from_calibration(y, p).lower <= full


def test_no_error_of_gathered_predictions_is_above_one():
    # events at predictions near 0, more than are told apart: their error is that of their mean, and a width
    p = np.append(np.zeros(9_000), np.linspace(0, 1e-4, 5_000))
    y = np.ones(14_000, dtype=np.int64)
    assert interval_error(group_outcomes(y, p), 100) > 1 + 1e-5
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


def test_predictions_that_the_smallest_numbers_part():
    # no Lipschitz function can tell them apart: what is left is the residual of all
    p = np.array([0.0, 5e-324, 1e-323, 1.5e-323])
    assert metrics.smooth_calibration_error([1, 0, 1, 0], p) == pytest.approx(0.5)
