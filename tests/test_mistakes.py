"""Frequent mistakes and shortcuts: names as strings, swapped arguments, labels in place of probabilities."""

import inspect
import pkgutil
import subprocess
import sys
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.feature_selection import RFECV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import sklearn_calib
from sklearn_calib import CalibratedClassifier, CrossFitScorer, get_scorer, get_scorer_names, metrics
from sklearn_calib.calibrators import (
    IsotonicCalibrator,
    PlattCalibrator,
    PriorShiftCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
    VennAbersCalibrator,
)
from sklearn_calib.inference import (
    CutoffTest,
    TCal,
    compare_models,
    confidence_interval,
    dominance_test,
    required_n_samples,
)
from sklearn_calib.metrics import expected_performance, smooth_ece
from sklearn_calib.monitor import CalibrationMonitor
from sklearn_calib.report import CalibrationReport
from sklearn_calib.scorers import CalibrationScorer
from sklearn_calib.sketch import CalibrationSketch
from tests._entries import N, Y, entries
from tests._optional import pandas as pd
from tests._samples import simulated

NAME = "neg_smooth_ece"


@pytest.fixture(scope="module")
def data():
    return make_classification(200, 5, random_state=0)


@pytest.fixture(scope="module")
def forecast():
    return simulated(60)


def test_scoring_strings_in_searches_of_scikit_learn(data):
    X, y = data
    model, grid = LogisticRegression(), {"C": [0.1, 1.0]}
    alone = GridSearchCV(model, grid, scoring=NAME, cv=3).fit(X, y)
    named = GridSearchCV(model, grid, scoring=[NAME, "neg_log_loss"], refit="neg_log_loss", cv=3).fit(X, y)
    held = GridSearchCV(model, grid, scoring=get_scorer(NAME), cv=3).fit(X, y)
    for found in (alone.cv_results_["mean_test_score"], named.cv_results_[f"mean_test_{NAME}"]):
        np.testing.assert_array_equal(found, held.cv_results_["mean_test_score"])
    assert RFECV(model, scoring=NAME, cv=2).fit(X, y).n_features_ >= 1
    X, y = data
    found = cross_validate(GaussianNB(), X[:80], y[:80], scoring=get_scorer_names(), cv=2)
    assert {name for name in get_scorer_names() if not np.isfinite(found[f"test_{name}"]).all()} == set()


@pytest.mark.thorough
def test_the_order_of_imports_does_not_matter():
    """Where scikit-learn's searches are there before its table of scorers is extended."""
    code = (
        "import sklearn.feature_selection\nimport sklearn_calib\n"
        "from sklearn.feature_selection import SequentialFeatureSelector\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "from sklearn.datasets import make_classification\n"
        f"X, y = make_classification(60, 5, random_state=0)\n"
        f"SequentialFeatureSelector(LogisticRegression(), scoring={NAME!r}, cv=2).fit(X, y)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True)


def test_texts_as_labels_need_pos_label_for_one_column():
    y, p = np.array(["fraud", "legit"] * 15), np.linspace(0.05, 0.95, 30)
    with pytest.raises(ValueError, match="pos_label is not specified"):
        brier_score_loss(y, p)
    for call in (
        lambda: smooth_ece(y, p),
        lambda: CutoffTest().test(y, p[:, None]),
        lambda: confidence_interval(y, p, metric="smooth_ece"),
        lambda: compare_models(y, {"a": p, "b": p**2}, metric="smooth_ece"),
        lambda: smooth_ece(y.astype(object), p),
    ):
        with pytest.raises(ValueError, match=r"pos_label is not specified.*Pass pos_label='fraud' or"):
            call()
    assert smooth_ece(y, p, pos_label="fraud") == smooth_ece(y == "fraud", p)
    # columns are in the order of the sorted labels
    assert smooth_ece(y, np.column_stack([1 - p, p])) == smooth_ece(y == "legit", p)
    # a fitted test and a calibrator are estimators, which know their classes
    assert CutoffTest().fit(np.column_stack([1 - p, p]), y).classes_.tolist() == ["fraud", "legit"]
    assert IsotonicCalibrator().fit(p, y).classes_.tolist() == ["fraud", "legit"]


def entries_with(argument):
    found = [entry for entry in entries() if argument in inspect.signature(entry.call).parameters]
    assert len(found) > 5
    return found


#: Functions with ``labels`` that have no multiclass form.
BINARY = {
    *("calibration_summary", "cutoff_result", "decision_risk_result", "distance_from_calibration"),
    *("find_regions", "group_differences_test", "mean_label", "score_decomposition"),
    *("smooth_ece_result", "CutoffDisplay", "DecisionDisplay", "ReliabilityDisplay"),
}


def test_labels_must_be_sorted():
    names, proba = np.repeat(["a", "m", "z"], 8), np.random.default_rng(0).dirichlet([1.0, 2.0, 3.0], 24)
    given = {"y_true": names, "y_proba": proba, "predictions": {"a": proba, "b": proba}}
    for entry in entries_with("labels"):
        good = {key: given.get(key, value) for key, value in entry.good.items() if key != "sample_weight"}
        message = r"labels must be in sorted order, \['a', 'm', 'z'\], got \['z', 'a'"
        if entry.name in BINARY:
            message = r"(for|of) a binary (problem|target)"
        with pytest.raises(ValueError, match=message):
            entry.call(**good, labels=["z", "a", "m"])
    for entry in entries_with("classes"):
        with pytest.raises(ValueError, match=r"classes must be in sorted order, \[0, 1\], got \[1, 0\]"):
            entry.call(**entry.good, classes=[1, 0])


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_named_columns_must_be_sorted(library):
    module = pytest.importorskip(library)
    make = module.table if library == "pyarrow" else module.DataFrame
    names, proba = np.repeat(["a", "m", "z"], 8), np.random.default_rng(0).dirichlet([1.0, 2.0, 3.0], 24)
    three, few = dict(zip("amz", proba.T, strict=True)), names[8:]
    two = {"m": proba[8:, 0], "z": 1.0 - proba[8:, 0]}
    for name, call in (
        ("y_proba", smooth_ece),
        ("y_proba", lambda y, p: TCal(n_resamples=39).test(y, p).statistic),
        ("X", lambda y, p: TemperatureCalibrator().fit(p, y).temperature_),
    ):
        assert call(names, make(three)) == call(names, proba)
        assert call(few, make(two)) == call(few, np.column_stack([*two.values()]))
        for y, columns, order in ((names, three, "zam"), (few, two, "zm")):
            message = f"columns of {name} are .'z', .*, but must be in the order of"
            with pytest.raises(ValueError, match=message):
                call(y, make({key: columns[key] for key in order}))
    # one column for each of several labels that do not exclude each other
    labels = {key: np.arange(24) % k for key, k in zip("amz", (2, 3, 5), strict=True)}
    labels = {key: (value == 0).astype(int) for key, value in labels.items()}
    assert smooth_ece(make(labels), make(three)) == smooth_ece(np.column_stack([*labels.values()]), proba)
    with pytest.raises(ValueError, match="columns of y_proba are"):
        smooth_ece(make(labels), make({key: three[key] for key in "zam"}))
    # of two columns the last belongs to the positive class
    turned = make({"z": two["z"], "m": two["m"]})
    assert smooth_ece(few, turned, pos_label="m") == smooth_ece(few == "m", two["m"])


@pytest.mark.parametrize(
    "library", ["pandas", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("polars", "pyarrow"))]
)
def test_columns_named_by_labels_must_be_sorted_everywhere(library):
    module = pytest.importorskip(library)
    make = module.table if library == "pyarrow" else module.DataFrame
    rng = np.random.default_rng(0)
    p = rng.random(60)
    y, columns = (rng.random(60) < p).astype(int), [(0, 1.0 - p), (1, p)]
    if library != "pandas":
        columns = [(str(k), column) for k, column in columns]
    good, bad = make(dict(columns)), make(dict(columns[::-1]))
    three, labels = rng.dirichlet([1.0, 2.0, 3.0], 60), np.arange(60) % 3
    three_bad = make({str(k): three[:, k] for k in (2, 0, 1)})
    for call in (
        lambda table: compare_models(y, {"a": good, "b": table}, n_resamples=39),
        lambda table: CalibrationSketch().update(y, table),
        lambda table: CalibrationMonitor().update(y, table),
        lambda table: smooth_ece(np.ones(60, dtype=int), table),
        lambda table: PriorShiftCalibrator(training_prior=0.5, target_prior="em").fit(table),
        lambda table: expected_performance(table),
        lambda table: PlattCalibrator().fit(good, y).transform(table),
        lambda table: required_n_samples(table, shift=0.3),
    ):
        call(good)
        with pytest.raises(ValueError, match=r"(columns of .* must be in the order|feature names)"):
            call(bad)
    with pytest.raises(ValueError, match=r"columns of predictions\['b'\] are"):
        compare_models(labels, {"a": three, "b": three_bad}, n_resamples=39)


@pytest.mark.parametrize("n_classes", [2, pytest.param(3, marks=pytest.mark.thorough)])
def test_reports_on_estimators_with_unsorted_classes(data, one_measure, n_classes):
    X, y = data

    class Reversed(LogisticRegression):
        def predict_proba(self, X):
            return super().predict_proba(X)[:, ::-1]

    labels = np.array(["a", "b", "c"])[np.minimum(y + (X[:, 0] > 1), n_classes - 1)]
    model, other = LogisticRegression().fit(X, labels), Reversed().fit(X, labels)
    other.classes_ = other.classes_[::-1]
    given, made = (X[:60], labels[:60]), CalibrationReport.from_estimator
    found, expected = (made(each, *given, name="one", n_resamples=20) for each in (other, model))
    assert str(found) == str(expected)


#: Calls with outcomes y and probabilities p, and what their errors say.
MISTAKES = [
    (lambda y, p: smooth_ece(p, y.astype(float)), r"y_true looks like.*other argument only 0 and 1.*swap"),
    *(
        (lambda y, p, each=each: each.fit(y, p), r"y looks like.*swap.*Scores or features come first")
        for each in (PlattCalibrator(link="identity"), IsotonicCalibrator(), VennAbersCalibrator())
    ),
    (lambda y, p: CalibratedClassifier().fit(p[:, None], p), "Scores or features come first, then outcomes"),
    (
        lambda y, p: CalibrationScorer(smooth_ece)(PlattCalibrator().fit(p, y), p, np.where(y, 0.8, 0.1)),
        "y_true looks like probabilities",
    ),
    (lambda y, p: smooth_ece(y, 100 * p), "looks like percentages: divide by 100"),
    (lambda y, p: smooth_ece(y, 6 * p - 3), "decision scores"),
    (
        lambda y, p: smooth_ece(y, p + 1.00001 - p.max()),
        r"1.00001 at index .*, outside .* by more than the 1e-6",
    ),
    (
        lambda y, p: PlattCalibrator().fit(
            np.column_stack([p.astype(object), np.where(y == 1, "a", "b")]), y
        ),
        r"got '[ab]' in column 1\. .* leave this column out",
    ),
    (
        lambda y, p: CalibratedClassifier(LogisticRegression()).fit(np.eye(60), np.column_stack([y] * 3)),
        r"y should be a 1d array.* MultiOutputClassifier\(Calib",
    ),
    (
        lambda y, p: PlattCalibrator().fit(np.column_stack([p] * 3), np.column_stack([y] * 3)),
        r"sums to .*if samples have several labels, one column at a time",
    ),
]


@pytest.mark.parametrize(("call", "message"), MISTAKES)
def test_mistakes(call, message, forecast):
    with pytest.raises(ValueError, match=message):
        call(*forecast)
    y, p = forecast
    with pytest.raises(TypeError, match="got an object of type ndarray"):
        confidence_interval(y, p, metric=p)
    with pytest.warns(UserWarning, match="y_proba contains only 0 and 1.*predict_proba"):
        smooth_ece(y, (p > 0.5).astype(int))


#: Calibrators that accept outcomes between 0 and 1.
SOFT = (
    "Beta", "Certified", "HistogramBinning", "Isotonic", "ModifiedPlatt", "Platt", "Smoothed", "Spline",
    "Temperature",
)  # fmt: skip


def test_outcomes_between_0_and_1_are_accepted_or_refused():
    y = np.where(np.arange(N) % 3 == 0, 0.25, Y)
    accepted = {name for name in metrics.__all__ if name != "calibration_summary"}
    accepted |= {f"{name}Calibrator.fit" for name in SOFT} | {"BinningDisplay", "mean_label"}
    for entry in entries():
        for name in {"y_true", "y"} & set(entry.good):
            given = {**entry.good, name: y}
            if entry.name in accepted:
                entry.call(**given)
                continue
            with pytest.raises(ValueError, match=r"looks like probabilities.*as clusters.*rng.random.n. < y"):
                entry.call(**given)


def test_rounding_is_clipped(forecast):
    y, p = forecast
    near, exact = p.copy(), p.copy()
    near[:2], exact[:2] = [1.0000001, -1e-7], [1.0, 0.0]
    assert (smooth_ece(y, near), near[0]) == (smooth_ece(y, exact), 1.0000001)
    sketches = [CalibrationSketch().update(y, values) for values in (near, exact)]
    assert sketches[0] == sketches[1]


def test_decision_scores_and_a_calibrator_of_probabilities(data):
    X, y = data
    message = r"Use SplineCalibrator\(link='identity'\), which supports any scores"
    with pytest.raises(ValueError, match=message):
        CalibratedClassifier(LinearSVC(), SplineCalibrator()).fit(X, y)
    model = CalibratedClassifier(LinearSVC(), SplineCalibrator(link="identity"), cv=2).fit(X, y)
    assert model.response_method_ == "decision_function"


def test_certificate_of_a_classifier(data):
    X, y = data
    frozen = FrozenEstimator(LogisticRegression().fit(X[:100], y[:100]))
    model = CalibratedClassifier(frozen, IsotonicCalibrator()).fit(X[100:], y[100:])
    some = {"confidence": 0.9, "random_state": 0}
    assert model.cutoff_certificate(**some) == model.calibrators_[0].cutoff_certificate(**some)
    pooled = CalibratedClassifier(LogisticRegression(), IsotonicCalibrator(), ensemble=False).fit(X, y)
    found, plain = (each.cutoff_certificate(method="dkw") for each in (pooled, pooled.calibrators_[0]))
    assert "approximate" in str(found)
    assert replace(found, note="") == plain
    several = CalibratedClassifier(LogisticRegression(), IsotonicCalibrator()).fit(X, y)
    with pytest.raises(ValueError, match=r"a single classifier \(ensemble=False, or FrozenEstimator"):
        several.cutoff_certificate()
    for calibrator, shown in (("passthrough", "'passthrough'"), (LogisticRegression(), "LogisticRegression")):
        other = CalibratedClassifier(frozen, calibrator).fit(X[100:], y[100:])
        message = f"needs a monotone binary calibrator.*that of the fit is {shown}"
        with pytest.raises(ValueError, match=message):
            other.cutoff_certificate()
    three = CalibratedClassifier(LogisticRegression(), TemperatureCalibrator(), ensemble=False).fit(X, y % 2)
    assert 0 < three.cutoff_certificate(random_state=0).upper <= 1


def test_dir_lists_public_names_only():
    for info in pkgutil.iter_modules(sklearn_calib.__path__):
        if info.ispkg and not info.name.startswith("_"):
            module = import_module(f"sklearn_calib.{info.name}")
            extra = set(get_scorer_names()) if info.name == "scorers" else set()
            shown = {name for name in dir(module) if not name.startswith("_")}
            assert shown == set(module.__all__) | extra
    packages = {info.name for info in pkgutil.iter_modules(sklearn_calib.__path__) if info.ispkg}
    shown = {name for name in packages if not name.startswith("_")}
    assert set(dir(sklearn_calib)) == set(sklearn_calib.__all__) | shown


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(entry, marks=pytest.mark.thorough if "Display" in entry.name else (), id=entry.name)
        for entry in entries()
        if "pos_label" in inspect.signature(entry.call).parameters
    ],
)
def test_of_two_labels_the_last_is_positive(entry, one_measure):
    if entry.name == "SelectiveClassifier()":
        pytest.skip("its pos_label is a parameter of a risk")
    given = entry.good | {"y_true": np.array(["no", "yes"])[Y]}
    found = str(entry.call(**given, labels=["no", "yes"]))
    if "object at 0x" not in found:
        assert found == str(entry.call(**given, pos_label="yes"))
    with pytest.raises(ValueError, match="pos_label='no' contradicts labels="):
        entry.call(**given, labels=["no", "yes"], pos_label="no")


@pytest.mark.parametrize(
    "function", [metrics.calibration_summary, metrics.cutoff_result, metrics.smooth_ece_result]
)
def test_multilabel_targets_of_binary_functions(function, forecast):
    Y, P = (np.column_stack([each] * 2) for each in forecast)
    with pytest.raises(ValueError, match=r"y_true has one column per label .* one label at a time"):
        function(Y, P)


class Broken(LogisticRegression):
    """A classifier that predicts NaN for the third sample."""

    def predict_proba(self, X):
        proba = super().predict_proba(X)
        proba[2] = np.nan
        return proba


R = np.random.default_rng(0)
P, THREE = R.uniform(0.1, 0.9, 60), R.dirichlet([1.0, 1.0, 1.0], 60)
B, CLASSES = (R.random(60) < P).astype(int), np.arange(60) % 3
Z, BOTH = R.standard_normal((60, 3)), np.column_stack([B, 1 - B])
SWAPPED, DICT = "Did you swap the arguments", r"If the columns are models, pass dict\(table\)"
ROUNDED = r"If they were rounded, divide them by their sum: p / p.sum\(axis=1, keepdims=True\)"
NAN = "predict_proba of Broken returned NaN for sample 2"


def frame(n_models=2):
    return pd.DataFrame({name: P ** (k + 1) for k, name in enumerate("abc"[:n_models])})


def displays(method, *arguments, names=("Reliability", "Cutoff", "DecisionCurve", "RiskCoverage")):
    plot = pytest.importorskip("sklearn_calib.plot")
    pytest.importorskip("matplotlib")
    for name in names:
        yield lambda name=name: getattr(getattr(plot, f"{name}Display"), method)(*arguments)


def test_errors_say_what_to_do():
    for call, message in [
        (lambda: CalibratedClassifier(Broken()).fit(Z, B), NAN),
        (lambda: CrossFitScorer(Broken()).fit_transform(Z, B), NAN),
        (lambda: get_scorer(NAME)(Broken().fit(Z, CLASSES), Z, CLASSES), NAN),
        (lambda: CalibrationReport.from_estimator(Broken().fit(Z, B), Z, B), NAN),
        (
            lambda: get_scorer(NAME)(MultiOutputClassifier(Broken()).fit(Z, BOTH), Z, BOTH),
            "of MultiOutputClassifier",
        ),
        (lambda: smooth_ece(THREE, CLASSES), SWAPPED),
        (lambda: TCal().test(THREE, CLASSES), SWAPPED),
        (lambda: compare_models(THREE, {"a": CLASSES, "b": CLASSES}), SWAPPED),
        (lambda: IsotonicCalibrator().fit(CLASSES, THREE), SWAPPED),
        (lambda: TemperatureCalibrator().fit(Z[:, 0], B), r"TemperatureCalibrator\(link='identity'"),
        (lambda: SplineCalibrator().fit(Z[:, 0], B), r"SplineCalibrator\(link='identity'"),
        (lambda: metrics.kernel_calibration_error(CLASSES, THREE.round(2)), ROUNDED),
        (lambda: smooth_ece(B, np.column_stack([1.006 - P, P])), ROUNDED),
        (lambda: CalibratedClassifier(LogisticRegression(), cv="prefit").fit(Z, B), "FrozenEstimator"),
        (lambda: compare_models(B, frame()), r"dict\(frame\)"),
        (lambda: smooth_ece(B, frame(3)), DICT),
        (
            lambda: SplineCalibrator().inverse_transform([0.5]),
            r"needs a monotone map.*SplineCalibrator\(monotone=",
        ),
        (lambda: metrics.net_benefit(B, P, threshold=1.0), "at least 0 and less than 1"),
        (lambda: dominance_test(B, {"a": P, "b": P}, thresholds=[0.0, 1.0]), "at least 0 and less than 1"),
    ]:
        with pytest.raises((ValueError, TypeError, AttributeError), match=message):
            call()


def test_displays_say_what_to_do():
    for call in displays("from_predictions", B, frame()):
        with pytest.raises(ValueError, match=DICT):
            call()
    for call in displays("from_estimator", Broken().fit(Z, B), Z, B):
        with pytest.raises(ValueError, match=NAN):
            call()


def test_a_threshold_of_0_treats_all():
    tau, models = np.arange(0, 1, 0.01), {"a": P, "b": P**2}
    assert metrics.net_benefit(B, P, threshold=0.0) == B.mean()
    found, others = (dominance_test(B, models, thresholds=t) for t in (tau, tau[1:]))
    assert (found.difference[0], found.lower[0], found.upper[0]) == (0.0, 0.0, 0.0)
    assert (found.pvalue, found.pvalue_a_dominates) == (others.pvalue, others.pvalue_a_dominates)
    assert metrics.decision_risk_result(B, P, thresholds=tau).risk[0] == 0.0
    plot = pytest.importorskip("sklearn_calib.plot")
    pytest.importorskip("matplotlib")
    for name, first in (("DecisionCurve", B.mean()), ("Murphy", 0.0), ("Decision", 0.0)):
        curve = getattr(plot, f"{name}Display").from_predictions(B, P, thresholds=tau).curves[None]
        assert (curve.thresholds[0], curve.value[0]) == (0.0, first)


@pytest.mark.thorough
def test_predictions_of_trees_are_no_labels(recwarn):
    """The package calls predict_proba itself: a warning would accuse its user."""
    tree = DecisionTreeClassifier(random_state=0).fit(Z, B)
    cross_val_score(tree, Z, B, scoring=NAME)
    get_scorer("pvalue_cutoff")(tree, Z, B)
    for call in displays("from_estimator", tree, Z, B):
        call()
    assert [str(each.message) for each in recwarn] == []
