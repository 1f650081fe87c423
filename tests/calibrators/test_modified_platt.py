"""Modified Platt scaling: Figure 4 of the paper, its tolerances, its fallbacks."""

import math

import numpy as np
import pytest

from sklearn_calib.calibrators import ModifiedPlattCalibrator, PlattCalibrator
from sklearn_calib.metrics import cutoff_result
from tests._samples import simulated

# Rossellini et al. (2025), Figure 4: the score is uniform on four values, event probabilities 1, 0, 0, 1
SCORES = np.array([0.0, 0.25, 0.5, 1.0])
OUTCOMES = np.array([1, 0, 0, 1])


def rows(count):
    return SCORES, OUTCOMES, np.full(4, float(count))


def test_platt_keeps_its_error_with_infinite_data():
    calibrator = PlattCalibrator(link="identity").fit(*rows(1e12))
    assert calibrator.slope_ == pytest.approx(0.930895, abs=1e-6)
    assert calibrator.intercept_ == pytest.approx(-0.405804, abs=1e-6)
    assert calibrator.training_cutoff_error_ == pytest.approx(0.242936, abs=1e-6)


def test_the_modified_one_does_not():
    calibrator = ModifiedPlattCalibrator(link="identity").fit(*rows(1e12))
    assert calibrator.fallback_used_
    assert calibrator.platt_cutoff_error_ == pytest.approx(0.242936, abs=1e-6)
    assert calibrator.slope_ == pytest.approx(0.930895, abs=1e-6)
    assert calibrator.training_cutoff_error_ < 1e-12
    assert calibrator.cutoff_certificate(weights="frequency").upper < 1e-5
    np.testing.assert_allclose(calibrator.transform(SCORES), 0.5, rtol=0, atol=1e-12)


def test_a_right_curve_is_kept():
    y, p = simulated(5000)
    calibrator, platt = ModifiedPlattCalibrator().fit(p, y), PlattCalibrator().fit(p, y)
    assert not calibrator.fallback_used_
    assert calibrator.platt_cutoff_error_ == calibrator.training_cutoff_error_
    assert calibrator.training_cutoff_error_ == platt.training_cutoff_error_
    np.testing.assert_array_equal(calibrator.transform(p), platt.transform(p))


def test_tolerances():
    p, y, w = rows(25)
    made = ModifiedPlattCalibrator(link="identity", tolerance="paper").fit(p, y, w)
    assert made.tolerance_ == pytest.approx((20 + math.sqrt(2 * math.log(20))) / 10)
    assert not made.fallback_used_
    made = ModifiedPlattCalibrator(link="identity", confidence=0.8).fit(p, y, w)
    assert made.tolerance_ == pytest.approx(
        cutoff_result(y, p, sample_weight=w, weights="frequency").margin(0.8)
    )
    made = ModifiedPlattCalibrator(link="identity", tolerance=0.123).fit(p, y, w)
    assert made.tolerance_ == 0.123
    assert made.fallback_used_


def test_the_comparison_is_with_the_tolerance():
    p, y, w = rows(10)
    error = ModifiedPlattCalibrator(link="identity").fit(p, y, w).platt_cutoff_error_
    assert not ModifiedPlattCalibrator(link="identity", tolerance=error).fit(p, y, w).fallback_used_
    below = np.nextafter(error, 0)
    assert ModifiedPlattCalibrator(link="identity", tolerance=below).fit(p, y, w).fallback_used_


def test_paper_tolerance_cannot_reject_small_samples():
    """At n = 500 it is 1: no error is larger."""
    large, small = (
        ModifiedPlattCalibrator(tolerance="paper").fit([0.2, 0.7], [0, 1], [n / 2, n / 2]).tolerance_
        for n in (500, 504)
    )
    assert large > 1 > small


def test_weights_that_are_not_counts_use_their_effective_number():
    p, y, w = rows(0.3)
    w[0] = 0.6
    effective = w.sum() ** 2 / np.sum(w**2)
    made = ModifiedPlattCalibrator(link="identity").fit(p, y, w)
    assert made.training_size_ == pytest.approx(effective)
    assert made.tolerance_ == pytest.approx(cutoff_result(y, p, sample_weight=w).margin())
