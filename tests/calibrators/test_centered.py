"""Centred isotonic calibration against a plain loop, and the ranking that it keeps."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from sklearn_calib.calibrators import CenteredIsotonicCalibrator, IsotonicCalibrator
from sklearn_calib.meta import CalibratedClassifier


def centred_by_loop(x, y, w):
    """Pool points by the definition: until the frequencies increase, two neighbours become one point."""
    points = []
    for value in np.unique(x):
        at = x == value
        points.append([value, np.average(y[at], weights=w[at]), w[at].sum()])
    pooled = True
    while pooled:
        pooled = False
        for i in range(len(points) - 1):
            (x0, y0, w0), (x1, y1, w1) = points[i : i + 2]
            if y0 >= y1:
                total = w0 + w1
                points[i : i + 2] = [[(w0 * x0 + w1 * x1) / total, (w0 * y0 + w1 * y1) / total, total]]
                pooled = True
                break
    return np.array(points)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_pooling_by_definition(seed):
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(size=80), 1)
    y = (rng.random(80) < 1 / (1 + np.exp(-x))).astype(int)
    w = rng.integers(1, 4, 80).astype(float)
    expected = centred_by_loop(x, y, w)
    calibrator = CenteredIsotonicCalibrator(tilt=0.0).fit(x, y, w)
    np.testing.assert_allclose(calibrator.X_thresholds_, expected[:, 0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(calibrator.y_thresholds_, expected[:, 1], rtol=0, atol=1e-12)
    grid = np.linspace(-4, 4, 200)
    found = np.interp(grid, expected[:, 0], expected[:, 1])
    np.testing.assert_allclose(calibrator.transform(grid), found, rtol=0, atol=1e-12)


def test_by_hand():
    """Blocks {1}, {2, 3} and {4, 5} of frequencies 0, 1/2 and 1."""
    calibrator = CenteredIsotonicCalibrator(tilt=0.0).fit([1, 2, 3, 4, 5], [0, 1, 0, 1, 1])
    np.testing.assert_allclose(calibrator.transform([0, 1.75, 2.5, 3.5, 9]), [0, 0.25, 0.5, 0.75, 1])
    tilted = CenteredIsotonicCalibrator(tilt=0.5).fit([1, 2, 3, 4, 5], [0, 1, 0, 1, 1])
    # u = -1, 0, 1 give 1/4, 1/2, 3/4
    np.testing.assert_allclose(tilted.transform([1, 3, 5]), [0.125, 0.5 * 0.625 + 0.25, 0.875])


def test_keeps_the_ranking_and_the_area_under_the_curve():
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    y = (rng.random(2000) < 1 / (1 + np.exp(-2 * np.sin(2 * x) - x))).astype(int)
    half, rest = slice(0, 1000), slice(1000, 2000)
    kept = CenteredIsotonicCalibrator().fit(x[half], y[half]).transform(x[rest])
    assert np.array_equal(np.argsort(kept), np.argsort(x[rest]))
    assert roc_auc_score(y[rest], kept) == roc_auc_score(y[rest], x[rest])
    assert np.unique(IsotonicCalibrator().fit(x[half], y[half]).transform(x[rest])).size < 500


def test_strict_between_the_block_means_without_tilt():
    rng = np.random.default_rng(1)
    x, y = rng.random(500), rng.integers(0, 2, 500)
    plain = CenteredIsotonicCalibrator(tilt=0.0).fit(x, y)
    inside = np.linspace(plain.X_thresholds_[0], plain.X_thresholds_[-1], 1000)
    assert np.diff(plain.transform(inside)).min() > 0
    assert np.ptp(plain.transform([-5.0, plain.X_thresholds_[0]])) == 0
    tilted = CenteredIsotonicCalibrator(tilt=1e-4).fit(x, y)
    wide = np.linspace(-5, 6, 1000)
    assert np.diff(tilted.transform(wide)).min() > 0
    assert np.abs(tilted.transform(wide) - plain.transform(wide)).max() <= 1e-4
    assert ((tilted.transform(wide) > 0) & (tilted.transform(wide) < 1)).all()


def test_scores_of_any_size():
    for scale in (1e-300, 1e308):
        x = np.array([-1.0, -0.5, 0.0, 0.5, 1.0]) * scale
        values = CenteredIsotonicCalibrator(tilt=0.0).fit(x, [0, 1, 0, 1, 1]).transform(x)
        np.testing.assert_allclose(values, [0, 1 / 3, 0.625, 0.875, 1])


def test_in_a_calibrated_classifier(calibration_data):
    X, y, estimator = calibration_data
    model = CalibratedClassifier(estimator, CenteredIsotonicCalibrator(), ensemble=False).fit(X, y)
    raw = model.estimators_[0].predict_proba(X)[:, 1]
    assert np.diff(model.predict_proba(X)[np.argsort(raw), 1]).min() >= 0
    assert np.mean((model.predict_proba(X)[:, 1] - y) ** 2) < np.mean((raw - y) ** 2) - 0.01


@pytest.mark.parametrize(("tilt", "error"), [(1.0, ValueError), (-0.1, ValueError), ("a", TypeError)])
def test_tilt_out_of_range(tilt, error):
    with pytest.raises(error, match="tilt must be"):
        CenteredIsotonicCalibrator(tilt=tilt).fit([0.1, 0.2], [0, 1])
