"""Weights that stand for more rows than can be counted."""

import numpy as np
import pytest

from sklearn_calib.calibrators import (
    CertifiedCalibrator,
    HistogramBinningCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    ScalingBinningCalibrator,
    SplineCalibrator,
    VennAbersCalibrator,
)

P = np.linspace(0.02, 0.98, 49)
Y = (np.arange(49) * 7 % 10 < 10 * P).astype(int)
HUGE = np.full(49, 1e300)


@pytest.mark.parametrize("calibrator", [CertifiedCalibrator(), ScalingBinningCalibrator()])
def test_rows_that_cannot_be_divided_are_an_error(calibrator):
    with pytest.raises(
        ValueError, match=r"sample_weight stands for 4\.9e\+301 rows, and no more than 2\*\*53"
    ):
        calibrator.fit(P, Y, HUGE)


def test_a_new_row_without_weight_leaves_the_isotonic_fit():
    found = VennAbersCalibrator().fit(P, Y, HUGE).transform(P)
    np.testing.assert_allclose(found, IsotonicCalibrator().fit(P, Y).transform(P), rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1e-6, 1e-300])
def test_a_spline_of_less_than_one_row_does_not_turn_around(scale):
    calibrator = SplineCalibrator().fit(P, Y, np.full(49, scale))
    found = calibrator.transform(P)
    assert (np.diff(found) >= 0).all()
    assert ((found > 0.2) & (found < 0.8)).all()


def test_bins_of_their_own_number_are_limited():
    calibrator = HistogramBinningCalibrator(n_bins="auto", strategy="uniform").fit(P, Y, HUGE)
    assert calibrator.n_bins_ == 10**6
    np.testing.assert_allclose(calibrator.transform(P), Y, rtol=0, atol=1e-12)
    averaged = ScalingBinningCalibrator(PlattCalibrator(), n_bins="auto", split=False).fit(P, Y, HUGE)
    plain = ScalingBinningCalibrator(PlattCalibrator(), n_bins=10**6, split=False).fit(P, Y, HUGE)
    np.testing.assert_array_equal(averaged.transform(P), plain.transform(P))
