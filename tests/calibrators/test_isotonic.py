"""Isotonic calibration against its min-max formula and against scikit-learn."""

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from sklearn_calib.calibrators import IsotonicCalibrator


@pytest.mark.parametrize("n", [2, 7, 100, 3000])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_scikit_learn(n, weighted):
    rng = np.random.default_rng(n)
    scores = rng.normal(size=n) * 5
    y = (rng.random(n) < 1 / (1 + np.exp(-scores))).astype(int)
    y[:2] = [0, 1]
    w = rng.random(n) if weighted else None
    reference = IsotonicRegression(out_of_bounds="clip").fit(scores, y, w)
    grid = np.concatenate([scores, rng.normal(size=500) * 8])
    result = IsotonicCalibrator().fit(scores, y, w).transform(grid)
    np.testing.assert_allclose(result, reference.predict(grid), rtol=0, atol=1e-12)


def test_interpolation_by_hand():
    calibrator = IsotonicCalibrator().fit([1.0, 2.0, 3.0, 5.0, 9.0], [0, 1, 0, 1, 1])
    assert calibrator.X_thresholds_.tolist() == [1.0, 2.0, 3.0, 5.0, 9.0]
    assert calibrator.y_thresholds_.tolist() == [0.0, 0.5, 0.5, 1.0, 1.0]
    points = [-100.0, 1.0, 1.5, 2.7, 4.5, 5.0, 100.0]
    assert calibrator.transform(points).tolist() == [0.0, 0.0, 0.25, 0.5, 0.875, 1.0, 1.0]
    step = IsotonicCalibrator(interpolation="step").fit([1.0, 2.0, 3.0, 5.0, 9.0], [0, 1, 0, 1, 1])
    assert step.transform(points).tolist() == [0.0, 0.0, 0.0, 0.5, 0.5, 1.0, 1.0]


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        # two blocks of frequencies 0 and 1, of weights 3 and 2
        ([0, 0, 0, 1, 1], [1 / 5, 1 / 5, 1 / 5, 3 / 4, 3 / 4]),
        # the block between is nearer to 0 than 1/3
        ([0, 1, 0, 0, 0, 1], [1 / 4, 1 / 4, 1 / 4, 1 / 4, 1 / 4, 2 / 3]),
        # and nearer to 1 than 2/3
        ([0, 1, 1, 1, 0, 1], [1 / 3, 3 / 4, 3 / 4, 3 / 4, 3 / 4, 3 / 4]),
        # no extreme block
        ([1, 0, 1, 0], [0.5, 0.5, 0.5, 0.5]),
    ],
)
def test_clip_auto_by_hand(y, expected):
    scores = np.arange(float(len(y)))
    result = IsotonicCalibrator(clip="auto").fit(scores, y).transform(scores)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_clipped_values_are_those_of_the_rule(seed):
    rng = np.random.default_rng(seed)
    scores = np.round(rng.random(60), 2)
    y = (rng.random(60) < scores**2 * (3 - 2 * scores)).astype(int)
    w = rng.integers(1, 4, 60).astype(float)
    raw = IsotonicCalibrator().fit(scores, y, w).transform(scores)
    calibrator = IsotonicCalibrator(clip="auto").fit(scores, y, w)
    result = calibrator.transform(scores)
    assert (raw == 0).any()
    between = raw[(raw > 0) & (raw < 1)]
    low = min(1 / (w[raw == 0].sum() + 2), between.min())
    high = max(1 - 1 / (w[raw == 1].sum() + 2), between.max())
    expected = np.where(raw == 0, low, np.where(raw == 1, high, raw))
    # two blocks at most are moved, each by less than one row
    assert 0 < calibrator.training_cutoff_error_ < 2 / w.sum()
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-15)
    assert (np.diff(calibrator.y_thresholds_) >= 0).all()
