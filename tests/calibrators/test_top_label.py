"""Top-label calibration."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_calib.calibrators import IsotonicCalibrator, PlattCalibrator, TopLabelCalibrator
from sklearn_calib.meta import CalibratedClassifier


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.6, 0.6, 0.6, 0.6], 500)
    flat = np.sqrt(p) / np.sqrt(p).sum(axis=1, keepdims=True)
    y = (flat.cumsum(axis=1) > rng.random((500, 1))).argmax(axis=1)
    return p, y, rng.integers(1, 4, 500)


def plain(calibrator, p, y, w, new, per_class):
    """Row by row: the calibrator of the predicted class, then the rest in proportion."""
    result = np.empty_like(new)
    top, right = p.argmax(axis=1), p.argmax(axis=1) == y
    for i, row in enumerate(new):
        k = row.argmax()
        part = top == k if per_class else np.ones(len(y), dtype=bool)
        fitted = type(calibrator)().fit(p.max(axis=1)[part], right[part].astype(int), w[part])
        c = fitted.transform(np.array([row[k]]))[0]
        for j in range(len(row)):
            result[i, j] = c if j == k else (1 - c) * row[j] / (row.sum() - row[k])
    return result


@pytest.mark.parametrize("calibrator", [IsotonicCalibrator(), PlattCalibrator()], ids=repr)
@pytest.mark.parametrize("mode", ["per_class", "pooled"])
def test_is_its_definition(calibrator, mode, data):
    p, y, w = data
    found = TopLabelCalibrator(calibrator, mode=mode).fit(p, y, w).predict_proba(p[:40])
    np.testing.assert_allclose(
        found, plain(calibrator, p, y, w, p[:40], mode == "per_class"), rtol=0, atol=1e-12
    )


def test_each_predicted_class_is_right_as_often_as_it_says(data):
    p, y, w = data
    q = TopLabelCalibrator(IsotonicCalibrator()).fit(p, y, w).predict_proba(p)
    top, rows = p.argmax(axis=1), np.arange(500)
    assert abs(p.max(axis=1) @ w - (top == y) @ w) > 0.02 * w.sum()
    for k in range(4):
        part = rows[top == k]
        # isotonic regression balances every block
        assert q[part, k] @ w[part] == pytest.approx((y[part] == k) @ w[part], rel=1e-9)
        for value in np.unique(q[part, k]):
            block = part[q[part, k] == value]
            if block.shape[0] > 1 and np.ptp(p[block, k]) > 0:
                assert value == pytest.approx(np.average(y[block] == k, weights=w[block]), rel=1e-9)


def test_classes_without_both_outcomes_share_the_calibrator_of_all_rows():
    p = np.array([[0.8, 0.1, 0.1], [0.6, 0.2, 0.2], [0.3, 0.6, 0.1], [0.2, 0.7, 0.1]] * 5)
    y = np.array([0, 2, 1, 1] * 5)
    y[4] = 2
    calibrator = TopLabelCalibrator(PlattCalibrator()).fit(p, y)
    own, always_right, never_predicted = calibrator.calibrators_
    assert own is not calibrator.pooled_
    assert always_right is never_predicted is calibrator.pooled_
    expected = PlattCalibrator().fit(p.max(axis=1), (p.argmax(axis=1) == y).astype(int))
    new = np.array([[0.2, 0.7, 0.1], [0.1, 0.1, 0.8]])
    np.testing.assert_allclose(
        calibrator.predict_proba(new)[[0, 1], [1, 2]], expected.transform([0.7, 0.8]), rtol=1e-12
    )


@pytest.mark.parametrize("right", [True, False])
def test_nothing_to_fit_gives_the_rule_of_laplace(right):
    p = np.tile([[0.6, 0.3, 0.1], [0.1, 0.7, 0.2], [0.1, 0.2, 0.7]], (6, 1))
    y = np.tile([0, 1, 2] if right else [1, 2, 0], 6)
    calibrator = TopLabelCalibrator(IsotonicCalibrator()).fit(p, y)
    rate = 19 / 20 if right else 1 / 20
    assert calibrator.pooled_ is None
    assert calibrator.pooled_rate_ == pytest.approx(rate)
    np.testing.assert_allclose(
        calibrator.predict_proba(p[:1]), [[rate, (1 - rate) * 0.75, (1 - rate) * 0.25]], rtol=1e-12
    )


def test_the_rest_of_a_certain_forecast_is_divided_equally():
    p = np.tile(np.eye(3), (10, 1))
    y = np.tile([0, 1, 2], 10)
    y[:5] = (y[:5] + 1) % 3
    q = TopLabelCalibrator(IsotonicCalibrator(), mode="pooled").fit(p, y).predict_proba(np.eye(3))
    np.testing.assert_allclose(q, np.full((3, 3), 1 / 12) + 0.75 * np.eye(3), atol=1e-12)


def test_two_classes_are_calibrated_apart():
    p = np.array([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9] * 3)
    y = np.array([0, 1, 0, 1, 1, 0, 1, 1] * 3)
    q = TopLabelCalibrator(PlattCalibrator()).fit(p, y).transform(p)
    low, high = p < 0.5, p > 0.5
    no = PlattCalibrator().fit(1 - p[low], 1 - y[low]).transform(1 - p[low])
    np.testing.assert_allclose(q[low], 1 - no, rtol=1e-12)
    np.testing.assert_allclose(
        q[high], PlattCalibrator().fit(p[high], y[high]).transform(p[high]), rtol=1e-12
    )


def test_any_classifier_and_a_hundred_classes():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(1000, 4)), np.array([f"c{i}" for i in np.arange(1000) % 100])
    model = CalibratedClassifier(
        LogisticRegression(max_iter=500), TopLabelCalibrator(LogisticRegression()), cv=2, ensemble=False
    )
    q = model.fit(X, y).predict_proba(X)
    assert q.shape == (1000, 100)
    np.testing.assert_allclose(q.sum(axis=1), 1, atol=1e-12)
    assert set(model.predict(X)) <= set(y)


@pytest.mark.parametrize(
    ("calibrator", "error", "message"),
    [
        (TopLabelCalibrator(None), TypeError, "calibrator must have fit and predict_proba"),
        (TopLabelCalibrator(PlattCalibrator), TypeError, "pass an instance"),
        (
            TopLabelCalibrator(PlattCalibrator(), mode="all"),
            ValueError,
            "mode must be one of 'per_class', 'pooled'",
        ),
    ],
    ids=repr,
)
def test_bad_parameters(calibrator, error, message, data):
    with pytest.raises(error, match=message):
        calibrator.fit(*data)


def test_scores_must_be_probabilities(data):
    p, y, _ = data
    with pytest.raises(ValueError, match="outside"):
        TopLabelCalibrator(PlattCalibrator()).fit(np.log(p), y)


@pytest.mark.parametrize("tiny", [5e-324, 2e-316, 1e-300])
def test_other_classes_may_be_next_to_impossible(tiny):
    p = np.array([[1.0, tiny, 0.0], [0.2, 0.7, 0.1], [0.9, 0.1, 0.0], [0.3, 0.3, 0.4]])
    found = TopLabelCalibrator(PlattCalibrator(), mode="pooled").fit(p, [0, 1, 2, 1]).predict_proba(p)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert found[0, 1] == pytest.approx(1 - found[0, 0], rel=1e-12)
    assert found[0, 2] == 2.0**-53
