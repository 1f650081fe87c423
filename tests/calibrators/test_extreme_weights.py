"""Weights that stand for more rows than can be counted."""

from fractions import Fraction

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
        ValueError, match=r"sample_weight sums to 4\.9e\+301, which exceeds the limit of 2\*\*53"
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


def isotonic_at(x, label, scores, outcomes, weights):
    """Return the isotonic fit at x with a row of weight 1 added, by the formula of maxima of minima."""
    rows = {}
    for score, outcome, weight in [*zip(scores, outcomes, weights, strict=True), (x, label, 1)]:
        total, events = rows.get(score, (Fraction(0), Fraction(0)))
        rows[score] = total + Fraction(weight), events + Fraction(weight) * int(outcome)
    keys = sorted(rows)
    place = keys.index(x)

    def mean(i, j):
        return sum(rows[k][1] for k in keys[i : j + 1]) / sum(rows[k][0] for k in keys[i : j + 1])

    return float(max(min(mean(i, j) for j in range(place, len(keys))) for i in range(place + 1)))


@pytest.mark.parametrize("seed", range(8))
def test_venn_abers_with_weights_of_many_orders_of_magnitude(seed):
    rng = np.random.default_rng(seed)
    scores = rng.permutation(8) / 8
    outcomes = rng.integers(0, 2, 8)
    outcomes[:2] = 0, 1
    # sums of the first have more digits than a float
    weights = rng.choice([1.0, 1e16], 8) if seed % 2 else 10.0 ** rng.uniform(-3, 17, 8)
    calibrator = VennAbersCalibrator().fit(scores, outcomes, weights)
    asked = np.concatenate([scores, scores + 1 / 16, [-1.0]])
    bounds = calibrator.predict_interval(asked)
    for label, found in enumerate(bounds):
        expected = [isotonic_at(x, label, scores, outcomes, weights) for x in asked]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    lower, upper = bounds
    np.testing.assert_allclose(calibrator.transform(asked), upper / (1 - lower + upper), rtol=0, atol=1e-12)
