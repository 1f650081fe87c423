"""ONNX: the numbers of the estimators, for calibrators alone and as parts of pipelines."""

import importlib.util

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sklearn_calib import CalibratedClassifier, CrossFitScorer, calibrators
from sklearn_calib.export import from_json, register_onnx_converters, to_json, to_onnx, to_sql
from tests._optional import onnxruntime, skl2onnx
from tests._tiers import thorough
from tests.export._fitted import VOTED, data, every_kind, fitted, new_scores, votes
from tests.export.test_sql import duck, query, sqlite

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("skl2onnx") is None, reason="skl2onnx is not installed"),
    # skl2onnx and onnx call each other's old names
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]
ACCURACY, DECISIONS = {"float32": 1e-6, "float64": 1e-12}, "decision_function"


def run(model, **inputs):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


@every_kind
def test_calibrators(case, n_classes):
    _, loaded = fitted(case, n_classes)
    for dtype, accuracy in ACCURACY.items():
        scores = new_scores(case, n_classes, 100).astype(dtype)
        columns = scores[:, np.newaxis] if n_classes == 2 else scores
        labels, proba = run(to_onnx(loaded, dtype=dtype), scores=columns)
        wanted = loaded.predict_proba(scores.astype(np.float64))
        assert proba.dtype == dtype
        assert np.abs(proba - wanted).max() <= accuracy
        clear = np.sort(wanted, axis=1)[:, -2:] @ [-1.0, 1.0] > 1e-6
        np.testing.assert_array_equal(labels[clear], loaded.predict(scores.astype(np.float64))[clear])


@pytest.mark.parametrize("name", VOTED)
def test_probabilities_are_clipped_at_the_limit_of_the_fit(name):
    loaded = from_json(to_json(VOTED[name].fit(*votes()), tolerance=1e-4))
    p = np.array([0.0, 1e-3, 0.01, 0.02, 0.5, 0.97, 1.0])
    _, proba = run(to_onnx(loaded, dtype="float64"), scores=p[:, np.newaxis])
    np.testing.assert_allclose(proba, loaded.predict_proba(p), rtol=1e-12)
    sql = to_sql(loaded, table="scores", keep=["id"])
    found = query(sqlite({"id": list(range(7)), "p": p.tolist()}), sql)
    np.testing.assert_allclose(found[:, -1], loaded.transform(p), rtol=1e-12)


def models(n_classes):
    logistic, svm = LogisticRegression(), LinearSVC(random_state=0)
    several = calibrators.VectorScalingCalibrator() if n_classes > 2 else calibrators.PlattCalibrator()
    temperature = calibrators.TemperatureCalibrator
    raw = temperature(link="identity")
    return {
        "ensemble": CalibratedClassifier(logistic, several, cv=2),
        "single": CalibratedClassifier(logistic, calibrators.IsotonicCalibrator(), cv=2, ensemble=False),
        "geometric": CalibratedClassifier(logistic, calibrators.PlattCalibrator(), cv=2, average="log"),
        "decision_function": CalibratedClassifier(svm, raw, cv=2),
        "passthrough": CalibratedClassifier(logistic, "passthrough", cv=2),
        "pipeline_inside": CalibratedClassifier(make_pipeline(StandardScaler(), logistic), several, cv=2),
        "tail": make_pipeline(StandardScaler(), CalibratedClassifier(logistic, several, cv=2)),
        "scorer": make_pipeline(StandardScaler(), CrossFitScorer(logistic), temperature()),
        "scorer_of_decisions": make_pipeline(CrossFitScorer(logistic, response_method=DECISIONS), raw),
    }


@pytest.mark.parametrize(
    ("name", "n_classes", "dtype"),
    [(name, 2 + place % 2, list(ACCURACY)[place // 2 % 2]) for place, name in enumerate(models(2))]
    + [thorough("ensemble", 3, "float64"), thorough("geometric", 2, "float32")],
)
def test_pipelines(name, n_classes, dtype):
    X, y = make_classification(120, 5, n_informative=4, n_redundant=0, n_classes=n_classes, random_state=0)
    X, y = X.astype(np.float32).astype(np.float64), np.array(["no", "perhaps", "yes"])[y]
    model = models(n_classes)[name].fit(X, y)
    labels, proba = run(to_onnx(model, dtype=dtype), X=X.astype(dtype))
    assert np.abs(proba - model.predict_proba(X)).max() <= ACCURACY[dtype]
    assert (labels == model.predict(X)).mean() > 0.99


def test_approximated_members_keep_the_tolerance():
    X, y = make_classification(300, random_state=0)
    X = X.astype(np.float32).astype(np.float64)
    for average in ("probability", "log"):
        spline = calibrators.SplineCalibrator()
        model = CalibratedClassifier(LogisticRegression(), spline, cv=2, average=average).fit(X, y)
        _, proba = run(to_onnx(model, dtype="float64", tolerance=1e-4), X=X)
        assert np.abs(proba - model.predict_proba(X)).max() <= 1e-4


def test_frozen_classifier_and_converters_of_skl2onnx():
    X, y = make_classification(200, random_state=0)
    X = X.astype(np.float32)
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))
    model = CalibratedClassifier(frozen, calibrators.PlattCalibrator()).fit(X, y)
    register_onnx_converters()
    found = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False})
    np.testing.assert_allclose(run(found, X=X)[1], model.predict_proba(X), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("n_classes", "labels", "kind"), [(2, ["a", "b"], object), (3, [3, 7], np.int64)])
def test_groups(n_classes, labels, kind):
    scores, y = data(n_classes)
    groups = np.array(labels)[np.arange(len(scores)) % 2]
    calibrator = calibrators.GroupCalibrator(calibrators.TemperatureCalibrator())
    calibrator.fit(scores, y, groups=groups)
    columns = scores[:, np.newaxis] if n_classes == 2 else scores
    inputs = {"scores": columns, "groups": groups[:, np.newaxis].astype(kind)}
    _, proba = run(to_onnx(calibrator, dtype="float64"), **inputs)
    np.testing.assert_allclose(proba, calibrator.predict_proba(scores, groups=groups), rtol=0, atol=1e-12)


#: Scores that exceed [0, 1] by rounding, and by more.
ROUNDED = [-1e-9, 1.0 + 1e-7, -9.9e-7, 1.00000099, -1e-300, 1.0 + 2.0**-52]
OUTSIDE = [-1.1e-6, 1.0000011, -0.1, 1.1]


@pytest.mark.parametrize(
    "calibrator",
    [
        calibrators.PlattCalibrator(),
        calibrators.SplineCalibrator(),
        calibrators.GroupCalibrator(),
        thorough(calibrators.BetaCalibrator()),
        thorough(calibrators.ScalingBinningCalibrator(random_state=0)),
        thorough(calibrators.TemperatureCalibrator()),
    ],
    ids=lambda calibrator: type(calibrator).__name__,
)
def test_all_back_ends_clip_the_same_scores(calibrator):
    scores = np.concatenate([data(2)[0], np.zeros(20), np.ones(20)])
    labels = np.concatenate([data(2)[1], np.arange(40) % 4 == 0])
    grouped = isinstance(calibrator, calibrators.GroupCalibrator)
    given = {"groups": np.array(["a", "b"])[np.arange(scores.size) % 2]} if grouped else {}
    calibrator.fit(scores, labels, **given)
    given = {"groups": np.array(["a"] * 6)} if grouped else {}
    wanted, new = calibrator.transform(np.array([0.0, 1.0] * 3), **given), np.array(ROUNDED)
    np.testing.assert_array_equal(calibrator.transform(new, **given), wanted)
    loaded = from_json(to_json(calibrator))
    np.testing.assert_allclose(loaded.transform(new, **given), wanted, rtol=0, atol=1e-4)
    columns = {"id": list(range(10)), "p": [*ROUNDED, *OUTSIDE], "g": ["a"] * 10}
    named = {"group": "g"} if grouped else {}
    for database, sql in (
        (sqlite, to_sql(calibrator, table="scores", keep=["id"], **named)),
        (duck, f"SELECT id, {to_sql(calibrator, **named)} FROM scores"),
    ):
        found = query(database(columns), sql)[:, 0]
        np.testing.assert_allclose(found[:6], wanted, rtol=0, atol=1e-4)
        assert np.isnan(found[6:]).all()
    inputs = {"groups": np.array([["a"]] * 11, dtype=object)} if grouped else {}
    inputs["scores"] = np.array([*ROUNDED, *OUTSIDE, np.nan])[:, np.newaxis]
    found = run(to_onnx(calibrator, dtype="float64"), **inputs)[1][:, 1]
    np.testing.assert_allclose(found[:6], wanted, rtol=0, atol=1e-4)
    assert np.isnan(found[6:]).all()
    for value in OUTSIDE:
        for model in (calibrator, loaded):
            with pytest.raises(ValueError, match="outside"):
                model.transform([value], **({"groups": ["a"]} if grouped else {}))


def test_rows_of_scores_are_clipped_and_checked_in_all_back_ends():
    calibrator = calibrators.TemperatureCalibrator().fit(*data(3))
    rows = np.array([[-1e-7, 0.4, 0.6], [1.0 + 5e-7, 0.0, -5e-7], [0.2, 0.3, 0.5039], [0.2, 0.3, 0.505]])
    wanted = calibrator.transform(rows[:3])
    np.testing.assert_array_equal(calibrator.transform(np.clip(rows[:3], 0, 1)), wanted)
    with pytest.raises(ValueError, match="sums to"):
        calibrator.transform(rows)
    columns = {"id": [0, 1, 2, 3]} | {f"p {k}": rows[:, k].tolist() for k in range(3)}
    sql = to_sql(calibrator, ["p 0", "p 1", "p 2"], table="scores", keep=["id"])
    found = [query(database(columns), sql) for database in (sqlite, duck)]
    for proba in (*found, run(to_onnx(calibrator, dtype="float64"), scores=rows)[1]):
        np.testing.assert_allclose(proba[:3], wanted, rtol=0, atol=1e-12)
        assert np.isnan(proba[3]).all()


def test_groups_that_are_no_integers_are_refused():
    scores, y = data(2)
    calibrator = calibrators.GroupCalibrator()
    calibrator.fit(scores, y, groups=np.array([0.5, 1.5])[np.arange(len(scores)) % 2])
    with pytest.raises(ValueError, match=r"groups must be strings or integers in ONNX, got \[0.5, 1.5\]"):
        to_onnx(calibrator)


def test_what_is_unknown_is_said():
    with pytest.raises(ValueError, match="dtype"):
        to_onnx(calibrators.PlattCalibrator().fit(*data(2)), dtype="float16")
    with pytest.raises(ValueError, match="X is missing"):
        to_onnx(make_pipeline(LogisticRegression()))
    X, y = make_classification(100, random_state=0)
    model = CalibratedClassifier(LogisticRegression(), LogisticRegression(), cv=2).fit(X, y)
    with pytest.raises(TypeError, match="cannot be converted"):
        to_onnx(model)


class Unregistered(LogisticRegression):
    """A classifier without a converter."""


def test_what_skl2onnx_does_not_convert_is_named():
    X, y = make_classification(100, random_state=0)
    model = CalibratedClassifier(Unregistered(), calibrators.PlattCalibrator(), cv=2).fit(X, y)
    message = r"skl2onnx .* cannot convert Unregistered \(RuntimeError: .*\)\. Use another converter"
    with pytest.raises(ValueError, match=message) as caught:
        to_onnx(model)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("link", ["logit", "identity"])
def test_two_columns_of_scores(link):
    scores, y = data(2)
    columns = np.column_stack([1.0 - scores, scores])
    calibrator = calibrators.PlattCalibrator(link=link).fit(columns, y)
    register_onnx_converters()
    found = skl2onnx.to_onnx(calibrator, columns[:1], options={"zipmap": False})
    (name,) = (one.name for one in found.graph.input)
    expected = calibrator.predict_proba(columns)
    np.testing.assert_allclose(run(found, **{name: columns})[1], expected, rtol=0, atol=1e-12)
