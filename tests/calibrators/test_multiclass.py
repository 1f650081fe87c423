"""The one-versus-rest lift."""

import numpy as np
import pytest

from sklearn_calib import calibrators as cal
from tests._samples import simulated, simulated_classes
from tests.calibrators._registry import calibrators_with


@pytest.fixture
def data():
    y, proba = simulated_classes(300, [0.5, 1.0, 2.0])
    return proba, y, np.random.default_rng(1).integers(1, 4, 300)


@calibrators_with(without="multiclass")
def test_lifts_every_binary_calibrator(case, data):
    proba, y, w = data
    names = np.array(["low", "mid", "top"])[y]
    lifted = cal.OneVsRestCalibrator(case.make()).fit(proba, names, w)
    single = np.array([case.make().fit(p, y == k, w).transform(p) for k, p in enumerate(proba.T)]).T
    total = single.sum(axis=1, keepdims=True)
    expected = np.where(total > 0, single / np.where(total > 0, total, 1), 1 / 3)
    np.testing.assert_allclose(lifted.predict_proba(proba), expected, rtol=0, atol=1e-12)
    assert set(lifted.predict(proba)) <= set(names)


def test_a_zero_row_becomes_uniform():
    proba = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    lifted = cal.OneVsRestCalibrator(cal.IsotonicCalibrator()).fit(np.vstack([proba, proba]), [0, 1, 2] * 2)
    np.testing.assert_array_equal(lifted.predict_proba(proba), np.eye(3))
    found = lifted.predict_proba([[0.1, 0.1, 0.8], [1 / 3 - 0.3, 0.7, 0.3 - 1 / 30]])[0]
    np.testing.assert_array_equal(found, [0, 0, 1])
    low = cal.OneVsRestCalibrator(cal.IsotonicCalibrator(interpolation="step"))
    low.fit(np.vstack([proba, proba]), [0, 1, 2] * 2)
    np.testing.assert_array_equal(low.predict_proba([[0.3, 0.3, 0.4]]), [[1 / 3, 1 / 3, 1 / 3]])


def test_two_classes_are_left_to_the_calibrator(data):
    proba, y, w = data
    p, y = proba[:, 2], np.minimum(y, 1)
    both = np.column_stack([1 - p, p])
    lifted = cal.OneVsRestCalibrator(cal.IsotonicCalibrator()).fit(both, y, w)
    assert len(lifted.calibrators_) == 1
    expected = cal.IsotonicCalibrator().fit(both, y, w).predict_proba(both)
    np.testing.assert_array_equal(lifted.predict_proba(both), expected)


class Halved(cal.PlattCalibrator):
    def predict_proba(self, X):
        return super().predict_proba(X) / 2


def test_a_wrapped_calibrator_predicts_by_its_own_method():
    y, p = simulated(200)
    expected = cal.PlattCalibrator().fit(p, y).transform(p) / 2
    for wrapped in (cal.OneVsRestCalibrator(Halved()), cal.AutoCalibrator(candidates={"halved": Halved()})):
        np.testing.assert_allclose(wrapped.fit(p, y).predict_proba(p)[:, 1], expected, rtol=1e-12)
