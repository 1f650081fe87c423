"""Calibration where the labels lack a class whose column the scores have."""

import sqlite3

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from sklearn_calib import calibrators as cal
from sklearn_calib.export import from_json, to_json, to_onnx, to_sql
from sklearn_calib.inference import KernelTest
from sklearn_calib.meta import CalibratedClassifier
from sklearn_calib.metrics import smooth_ece
from tests._optional import onnxruntime
from tests._optional import pandas as pd
from tests._tiers import thorough

NAMES = np.array(["ape", "bee", "cat", "dog"])
ABLE = [cal.OneVsRestCalibrator(cal.PlattCalibrator()), cal.TemperatureCalibrator()]
ABLE += [cal.VectorScalingCalibrator(), cal.MatrixScalingCalibrator()]
ABLE += [cal.StructuredMatrixScalingCalibrator(), cal.DirichletCalibrator()]
ABLE = {type(calibrator).__name__: calibrator for calibrator in ABLE}
COMPOSED = {
    "average": cal.LogAverageCalibrator([cal.TemperatureCalibrator(), cal.VectorScalingCalibrator()]),
    "default average": cal.LogAverageCalibrator(),
    "auto": cal.AutoCalibrator(cv=2),
    "auto of two": cal.AutoCalibrator(
        candidates={"t": cal.TemperatureCalibrator(), "v": cal.VectorScalingCalibrator(penalty=1.0)}
    ),
    "groups": cal.GroupCalibrator(cal.TemperatureCalibrator()),
    "isotonic": cal.OneVsRestCalibrator(cal.IsotonicCalibrator()),
    "average of one-vs-rest": cal.LogAverageCalibrator([cal.OneVsRestCalibrator(cal.IsotonicCalibrator())]),
}
UNABLE = {
    "LogAverageCalibrator": cal.LogAverageCalibrator([cal.VectorScalingCalibrator(penalty=0.0)]),
    "AutoCalibrator": cal.AutoCalibrator(candidates={"vector": cal.VectorScalingCalibrator(penalty=0.0)}),
    "VectorScalingCalibrator": cal.VectorScalingCalibrator(penalty=0.0),
    "DirichletCalibrator": cal.DirichletCalibrator(penalty=0.0),
    "GroupCalibrator": cal.GroupCalibrator(cal.VectorScalingCalibrator(penalty=0.0)),
    "PriorShiftCalibrator": cal.PriorShiftCalibrator(training_weight="balanced"),
}
KEPT = "class 'bee' \\(1.72 expected\\)"


def sample(n=120, k=4, absent=1):
    """Overconfident forecasts, and labels that lack a class."""
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((n, k))
    logits[:, absent] -= 2.0
    kept = np.delete(np.arange(k), absent)
    return softmax(2.0 * logits, axis=1), kept[(logits[:, kept] + rng.gumbel(size=(n, k - 1))).argmax(axis=1)]


@pytest.mark.parametrize(
    "name",
    [thorough(name) if name == "auto" else name for name in (*ABLE, *COMPOSED)],
)
def test_a_class_may_be_absent(name):
    calibrator = (ABLE | COMPOSED)[name]
    proba, codes = sample()
    with pytest.warns(UserWarning, match=KEPT) as caught:
        found = calibrator.fit(proba, NAMES[codes], classes=NAMES).predict_proba(proba)
    assert [warning.filename for warning in caught] == [__file__]
    np.testing.assert_array_equal(calibrator.classes_, NAMES)
    assert found.shape == (120, 4)
    assert (found[:, 1] > 0).all()
    # fewer than three were expected
    np.testing.assert_allclose(found[:, 1], proba[:, 1], rtol=1e-12, atol=0)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    # a sample of weight zero shows the class, too, and nothing else
    more, labels = np.vstack([proba, proba[:1]]), np.append(NAMES[codes], "bee")
    with pytest.warns(UserWarning, match=KEPT):
        weighted = calibrator.fit(more, labels, np.append(np.ones(120), 0.0)).predict_proba(proba)
    if name == "auto":
        # which of the weighted samples are equal is decided anew
        return
    np.testing.assert_allclose(found, weighted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("times", [1, 3])
def test_one_vs_rest_divides_the_rest_among_the_other_classes(times):
    proba, codes = sample()
    expected = times * proba[:, 1].sum()
    calibrator = cal.OneVsRestCalibrator(cal.PlattCalibrator())
    with pytest.warns(UserWarning, match=f"{expected:.3g} expected"):
        calibrator.fit(proba, NAMES[codes], np.full(120, float(times)), classes=NAMES)
    single, weight = cal.PlattCalibrator(), np.full(120, float(times))
    each = (single.fit(proba[:, k], codes == k, weight).transform(proba[:, k]) for k in (0, 2, 3))
    others = np.column_stack(list(each))
    own = proba[:, 1] / (1.0 if expected < 3 else 1.0 + expected)
    rest = others / others.sum(axis=1, keepdims=True) * (1.0 - own[:, np.newaxis])
    found = calibrator.predict_proba(proba)
    np.testing.assert_allclose(found, np.insert(rest, 1, own, axis=1), rtol=0, atol=1e-14)
    assert calibrator.calibrators_[1] is None


def test_joint_maps_reduce_a_class_of_which_several_were_expected():
    proba, codes = sample(240)
    assert proba[:, 1].sum() > 3
    calibrator = cal.VectorScalingCalibrator(penalty=1.0)
    with pytest.warns(UserWarning, match="reduced otherwise"):
        calibrator.fit(proba, NAMES[codes], classes=NAMES)
    logs = np.log(proba)
    logs -= logs.mean(axis=1, keepdims=True)
    found = calibrator.predict_proba(proba)
    np.testing.assert_allclose(found, softmax(calibrator.coef_ * logs + calibrator.intercept_, axis=1))
    assert found[:, 1].mean() < proba[:, 1].mean()


@pytest.mark.parametrize("calibrator", [cal.IsotonicCalibrator(), cal.PlattCalibrator(link="identity")])
def test_the_model_of_other_scores_is_their_softmax(calibrator):
    proba, codes = sample()
    logits, lifted = np.log(proba) + 3.0, cal.OneVsRestCalibrator(calibrator)
    with pytest.warns(UserWarning, match=KEPT):
        lifted.fit(logits, NAMES[codes], classes=NAMES)
    np.testing.assert_allclose(lifted.predict_proba(logits)[:, 1], proba[:, 1], rtol=1e-12)


def test_groups_keep_the_probability_too():
    proba, codes = sample()
    groups = np.arange(120) % 2
    calibrator = cal.GroupCalibrator(cal.OneVsRestCalibrator(cal.PlattCalibrator()))
    with pytest.warns(UserWarning, match=KEPT):
        calibrator.fit(proba, NAMES[codes], groups=groups, classes=NAMES)
    found = calibrator.predict_proba(proba, groups=groups)
    np.testing.assert_allclose(found[:, 1], proba[:, 1], rtol=1e-12)
    loaded = from_json(to_json(calibrator))
    np.testing.assert_allclose(loaded.predict_proba(proba, groups=groups), found, rtol=0, atol=1e-12)


@pytest.mark.parametrize("names", [NAMES, np.array([2, 3, 5, 7])], ids=["texts", "integers"])
def test_names_of_columns_are_labels(names):
    proba, codes = sample()
    frame = pd.DataFrame(proba, columns=names)
    with pytest.warns(UserWarning, match=f"class {names.tolist()[1]!r} "):
        named = cal.TemperatureCalibrator().fit(frame, names[codes])
    np.testing.assert_array_equal(named.classes_, names)
    with pytest.warns(UserWarning, match="no sample"):
        given = cal.TemperatureCalibrator().fit(proba, names[codes], classes=names)
    np.testing.assert_array_equal(named.predict_proba(frame), given.predict_proba(proba))
    assert smooth_ece(names[codes], frame) == smooth_ece(names[codes], proba, labels=names)
    tested = KernelTest(n_resamples=19, random_state=0).fit(frame, names[codes])
    np.testing.assert_array_equal(tested.classes_, names)
    np.testing.assert_array_equal(tested.predict(frame), names[proba.argmax(axis=1)])
    # other names are those of features
    with pytest.raises(ValueError, match="X has 4 columns but y has 3 classes"):
        cal.TemperatureCalibrator().fit(pd.DataFrame(proba, columns=list("abcd")), names[codes])


def test_many_absent_classes_are_counted():
    proba, codes = np.random.default_rng(0).dirichlet(np.ones(10), 30), np.arange(30) % 2
    with pytest.warns(UserWarning, match=r"class 2 .* expected\), 6 \(.* expected\) and 3 more\. The"):
        cal.TemperatureCalibrator().fit(proba, codes, classes=np.arange(10))


def test_exports_keep_the_probability():
    proba, codes = sample()
    calibrator = cal.OneVsRestCalibrator(cal.IsotonicCalibrator())
    with pytest.warns(UserWarning, match="class 1 "):
        calibrator.fit(proba, codes, classes=np.arange(4))
    found = calibrator.predict_proba(proba)
    np.testing.assert_allclose(from_json(to_json(calibrator)).predict_proba(proba), found, rtol=0, atol=1e-14)
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE t (a, b, c, d)")
    database.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", proba.tolist())
    rows = database.execute(to_sql(calibrator, ["a", "b", "c", "d"], table="t")).fetchall()
    database.close()
    np.testing.assert_allclose(np.array(rows), found, rtol=0, atol=1e-14)
    pytest.importorskip("skl2onnx")
    model = to_onnx(calibrator, dtype="float64")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"scores": proba})[1], found, rtol=0, atol=1e-12)


def test_a_class_without_a_sample_has_no_certificate():
    proba, codes = sample()
    calibrator = cal.OneVsRestCalibrator(cal.IsotonicCalibrator())
    with pytest.warns(UserWarning, match=KEPT):
        calibrator.fit(proba, NAMES[codes], classes=NAMES)
    with pytest.raises(ValueError, match="no certificate, because fit had no sample of class 'bee'"):
        calibrator.cutoff_certificate()


@pytest.mark.parametrize("name", UNABLE)
def test_the_others_name_the_class_and_those_that_can(name):
    proba, codes = sample()
    with pytest.raises(ValueError, match=f"no sample of class 'bee', but {name} needs") as error:
        UNABLE[name].fit(proba, NAMES[codes], classes=NAMES)
    assert str(error.value).split("or use ")[1].split(", which")[0].split(", ") == list(ABLE)


def test_wrong_classes():
    for classes, named in [
        (["ape", "cat", "dog", "eel", "fox"], "X has 4 columns but y has 5 classes"),
        (["ape", "bee", "cat", "eel"], "y contains 'dog' .* not in classes"),
        ([0, 1, 2, 3], "y contains 'ape' .* not in classes"),
        (None, "X has 4 columns but y has 3 classes.*classes=, their labels"),
    ]:
        proba, codes = sample()
        with pytest.raises(ValueError, match=named):
            cal.TemperatureCalibrator().fit(proba, NAMES[codes], classes=classes)


@pytest.fixture(scope="module")
def network():
    """A classifier of four classes, and samples without the second one."""
    rng, codes = np.random.default_rng(2), np.arange(400) % 4
    X = np.eye(4)[codes] + rng.standard_normal((400, 4))
    model = LogisticRegression(C=100.0).fit(X[:200], NAMES[codes[:200]])
    held = np.flatnonzero(codes[200:] != 1) + 200
    return model, X[held], NAMES[codes[held]]


@pytest.mark.parametrize(
    ("method", "calibrator", "ensemble"),
    [("predict_proba", None, False), ("predict_proba", "platt", False), ("decision_function", None, True),
     ("predict_proba", "temperature", True), ("decision_function", "temperature", False)],
)  # fmt: skip
def test_a_frozen_classifier_knows_more_classes(network, method, calibrator, ensemble):
    model, X, y = network
    link = "logit" if method == "predict_proba" else "identity"
    made = {"temperature": cal.TemperatureCalibrator(link=link), "platt": cal.PlattCalibrator()}
    with pytest.warns(UserWarning, match=r"class 'bee' \(.* expected"):
        calibrated = CalibratedClassifier(
            FrozenEstimator(model), made.get(calibrator), response_method=method, ensemble=ensemble, cv=3
        ).fit(X, y)
    np.testing.assert_array_equal(calibrated.classes_, NAMES)
    proba = calibrated.predict_proba(X)
    assert proba.shape == (X.shape[0], 4)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert (proba > 0).all()
    if calibrator == "temperature":
        np.testing.assert_array_equal(model.predict(X), calibrated.predict(X))
    else:
        # what never happens becomes less likely
        assert proba[:, 1].mean() < model.predict_proba(X)[:, 1].mean()


def test_the_default_where_a_class_has_no_weight(network):
    model, X, y = network
    weight = np.where(y == "dog", 0.0, 1.0)
    with pytest.warns(UserWarning, match="class 'bee' .* 'dog' "):
        calibrated = CalibratedClassifier(FrozenEstimator(model)).fit(X, y, sample_weight=weight)
    assert calibrated.predict_proba(X)[:, 3].mean() < model.predict_proba(X)[:, 3].mean()
