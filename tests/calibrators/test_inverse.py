"""Scores for probabilities: the inverse of monotone maps, with plateaus and jumps."""

import numpy as np
import pytest

from sklearn_calib import calibrators
from sklearn_calib._validation import LARGEST_SCORE
from sklearn_calib.export import from_json, to_json
from tests.calibrators._registry import CALIBRATORS, once_a_class

RNG = np.random.default_rng(0)
SCORES = np.round(RNG.random(300), 3)
LABELS = (RNG.random(300) < SCORES).astype(int)
MONOTONE = [case for case in CALIBRATORS if case.monotone and not case.constant]


@pytest.mark.parametrize("falling", [False, True])
@pytest.mark.parametrize("case", once_a_class(MONOTONE))
def test_round_trip(case, falling):
    """The ends are the scores at which the definition holds, and their neighbors those where it fails."""
    calibrator = case.make().fit(SCORES, 1 - LABELS if falling else LABELS)
    inner = np.linspace(0.0, 1.0, 101)
    proba = calibrator.transform(inner)
    left, right = (calibrator.inverse_transform(proba, side=side) for side in ("left", "right"))
    # the map reaches all of these; the last bit of a smooth one is not monotone
    np.testing.assert_allclose(calibrator.transform(left), proba, rtol=1e-14, atol=0)
    np.testing.assert_allclose(calibrator.transform(right), proba, rtol=1e-14, atol=0)
    assert (left <= inner + 1e-15).all()
    assert (inner <= right + 1e-15).all()
    least = 0.0 if calibrator._score_kind() == "probability" else -LARGEST_SCORE
    found = left > least
    if found.any():
        assert (calibrator.transform(np.nextafter(left[found], -np.inf)) != proba[found]).all()


def test_plateaus_and_jumps_by_hand():
    calibrator = calibrators.IsotonicCalibrator(interpolation="step").fit([1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1])
    np.testing.assert_array_equal(calibrator.transform([1.0, 2.0, 3.9, 4.0]), [0.0, 0.5, 0.5, 1.0])
    left = calibrator.inverse_transform([0.0, 0.3, 0.5, 0.7, 1.0])
    right = calibrator.inverse_transform([0.0, 0.3, 0.5, 0.7, 1.0], side="right")
    most = LARGEST_SCORE
    np.testing.assert_array_equal(left, [-most, 2.0, 2.0, 4.0, 4.0])
    below = [np.nextafter(2.0, 0.0), np.nextafter(2.0, 0.0), np.nextafter(4.0, 0.0), np.nextafter(4.0, 0.0)]
    np.testing.assert_array_equal(right, [*below, most])
    # the scores in the band [.4, .8]
    low, high = calibrator.inverse_transform([0.4])[0], calibrator.inverse_transform([0.8], side="right")[0]
    assert (low, high) == (2.0, np.nextafter(4.0, 0.0))


def test_probabilities_that_are_not_reached_have_no_score():
    calibrator = calibrators.PlattCalibrator(link="identity").fit(SCORES, LABELS)
    narrow = calibrators.TemperatureCalibrator().fit([0.4, 0.6, 0.5, 0.4, 0.6], [0, 1, 1, 1, 0])
    assert calibrator.inverse_transform([0.5]).shape == (1,)
    assert calibrator.inverse_transform([[0.5], [0.6]]).shape == (2, 1)
    step = calibrators.ModifiedPlattCalibrator(tolerance=0.0, link="identity").fit(SCORES, LABELS)
    assert np.isnan(step.inverse_transform([0.95])).all()
    assert np.isnan(step.inverse_transform([0.05], side="right")).all()
    assert step.inverse_transform([0.05])[0] == -LARGEST_SCORE
    assert narrow.inverse_transform([0.5])[0] <= 0.5


@pytest.mark.parametrize(
    "make", [calibrators.IsotonicCalibrator, lambda: calibrators.SplineCalibrator(monotone=True)]
)
def test_inverse_of_what_was_exported(make):
    calibrator = make().fit(SCORES, LABELS)
    loaded = from_json(to_json(calibrator, tolerance=1e-4))
    proba = loaded.transform(SCORES)
    assert np.abs(loaded.transform(loaded.inverse_transform(proba)) - proba).max() < 1e-15
    # an error of 1e-4 in a probability moves the score by that over the slope
    found, wanted = loaded.inverse_transform([0.3, 0.6]), calibrator.inverse_transform([0.3, 0.6])
    np.testing.assert_allclose(found, wanted, atol=1e-2)


def test_inverse_of_other_maps_is_refused():
    for calibrator in (calibrators.HistogramBinningCalibrator(), calibrators.SplineCalibrator()):
        assert not hasattr(calibrator, "inverse_transform")
    with pytest.raises(AttributeError, match="inverse_transform"):
        _ = calibrators.SplineCalibrator().inverse_transform
    binned = from_json(to_json(calibrators.HistogramBinningCalibrator(n_bins=20).fit(SCORES, LABELS)))
    assert not hasattr(binned, "inverse_transform")
    several = calibrators.TemperatureCalibrator().fit(np.eye(3)[[0, 1, 2, 0]], [0, 1, 2, 1])
    with pytest.raises(ValueError, match="Only maps of two classes"):
        several.inverse_transform([0.5])
    fitted = calibrators.PlattCalibrator().fit(SCORES, LABELS)
    for wrong, given in (("side", {"side": "both"}), ("1.5", {"X": [1.5]}), ("shape", {"X": np.eye(3)})):
        with pytest.raises(ValueError, match=wrong):
            fitted.inverse_transform(**{"X": [0.5], **given})
