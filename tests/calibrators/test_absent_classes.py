"""Calibration where the labels lack a class whose column the scores have."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from sklearn_calib.calibrators import (
    AutoCalibrator,
    DirichletCalibrator,
    GroupCalibrator,
    LogAverageCalibrator,
    MatrixScalingCalibrator,
    OneVsRestCalibrator,
    PlattCalibrator,
    StructuredMatrixScalingCalibrator,
    TemperatureCalibrator,
    VectorScalingCalibrator,
)
from sklearn_calib.meta import CalibratedClassifier

NAMES = np.array(["ape", "bee", "cat", "dog"])
ABLE = {
    "TemperatureCalibrator": TemperatureCalibrator(),
    "VectorScalingCalibrator": VectorScalingCalibrator(),
    "MatrixScalingCalibrator": MatrixScalingCalibrator(),
    "StructuredMatrixScalingCalibrator": StructuredMatrixScalingCalibrator(),
    "DirichletCalibrator": DirichletCalibrator(),
}
COMPOSED = {
    "average": LogAverageCalibrator([TemperatureCalibrator(), VectorScalingCalibrator()]),
    "default average": LogAverageCalibrator(),
    "auto": AutoCalibrator(cv=2),
    "auto of two": AutoCalibrator(
        candidates={"t": TemperatureCalibrator(), "v": VectorScalingCalibrator(penalty=1.0)}
    ),
    "groups": GroupCalibrator(TemperatureCalibrator()),
}
UNABLE = {
    "OneVsRestCalibrator": OneVsRestCalibrator(PlattCalibrator()),
    "LogAverageCalibrator": LogAverageCalibrator([OneVsRestCalibrator(PlattCalibrator())]),
    "AutoCalibrator": AutoCalibrator(candidates={"platt": OneVsRestCalibrator(PlattCalibrator())}),
    "VectorScalingCalibrator": VectorScalingCalibrator(penalty=0.0),
    "DirichletCalibrator": DirichletCalibrator(penalty=0.0),
    "GroupCalibrator": GroupCalibrator(OneVsRestCalibrator(PlattCalibrator())),
}


def sample(n=120, k=4, absent=1):
    """Overconfident forecasts, and labels that lack a class."""
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((n, k))
    logits[:, absent] -= 2.0
    kept = np.delete(np.arange(k), absent)
    codes = kept[(logits[:, kept] + rng.gumbel(size=(n, k - 1))).argmax(axis=1)]
    return softmax(2.0 * logits, axis=1), codes


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.thorough] if name == "auto" else [])
        for name in (*ABLE, *COMPOSED)
    ],
)
def test_a_class_may_be_absent(name):
    calibrator = (ABLE | COMPOSED)[name]
    proba, codes = sample()
    found = calibrator.fit(proba, NAMES[codes], classes=NAMES).predict_proba(proba)
    np.testing.assert_array_equal(calibrator.classes_, NAMES)
    assert found.shape == (120, 4)
    assert (found > 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    # a sample of weight zero shows the class, too, and nothing else
    more, labels = np.vstack([proba, proba[:1]]), np.append(NAMES[codes], "bee")
    weighted = calibrator.fit(more, labels, np.append(np.ones(120), 0.0)).predict_proba(proba)
    if name == "auto":
        # which of the weighted samples are equal is decided anew
        return
    np.testing.assert_allclose(found, weighted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", UNABLE)
def test_the_others_name_the_class_and_those_that_can(name):
    proba, codes = sample()
    with pytest.raises(ValueError, match=f"no sample of class 'bee', but {name} needs") as error:
        UNABLE[name].fit(proba, NAMES[codes], classes=NAMES)
    listed = str(error.value).split("or use ")[1].split(", which")[0].split(", ")
    assert listed == list(ABLE)


@pytest.mark.parametrize(
    ("classes", "named"),
    [
        (["ape", "cat", "dog", "eel", "fox"], "X has 4 columns but y has 5 classes"),
        (["ape", "bee", "cat", "eel"], "y contains 'dog' .* not in classes"),
        ([0, 1, 2, 3], "y contains 'ape' .* not in classes"),
        (None, "X has 4 columns but y has 3 classes.*classes="),
    ],
)
def test_wrong_classes(classes, named):
    proba, codes = sample()
    with pytest.raises(ValueError, match=named):
        TemperatureCalibrator().fit(proba, NAMES[codes], classes=classes)


@pytest.fixture(scope="module")
def network():
    """A classifier of four classes, and samples without the second one."""
    rng = np.random.default_rng(2)
    codes = np.arange(400) % 4
    X = np.eye(4)[codes] + rng.standard_normal((400, 4))
    model = LogisticRegression(C=100.0).fit(X[:200], NAMES[codes[:200]])
    held = np.flatnonzero(codes[200:] != 1) + 200
    return model, X[held], NAMES[codes[held]]


@pytest.mark.parametrize(
    ("method", "calibrator", "ensemble"),
    [("predict_proba", None, False), ("decision_function", None, True),
     ("predict_proba", "temperature", True), ("decision_function", "temperature", False)],
)  # fmt: skip
def test_a_frozen_classifier_knows_more_classes(network, method, calibrator, ensemble):
    model, X, y = network
    link = "logit" if method == "predict_proba" else "identity"
    calibrator = TemperatureCalibrator(link=link) if calibrator else None
    calibrated = CalibratedClassifier(
        FrozenEstimator(model), calibrator, response_method=method, ensemble=ensemble, cv=3
    ).fit(X, y)
    np.testing.assert_array_equal(calibrated.classes_, NAMES)
    proba = calibrated.predict_proba(X)
    assert proba.shape == (X.shape[0], 4)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert (proba > 0).all()
    if calibrator:
        np.testing.assert_array_equal(model.predict(X), calibrated.predict(X))
    else:
        # what never happens becomes less likely
        assert proba[:, 1].mean() < model.predict_proba(X)[:, 1].mean()


def test_the_default_where_a_class_has_no_weight(network):
    model, X, y = network
    weight = np.where(y == "dog", 0.0, 1.0)
    calibrated = CalibratedClassifier(FrozenEstimator(model)).fit(X, y, sample_weight=weight)
    assert calibrated.predict_proba(X)[:, 3].mean() < model.predict_proba(X)[:, 3].mean()
