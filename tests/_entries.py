"""Every public entry with good arguments, for tests of what it does with others.

A new public function, class or method that nothing here leads to
needs a line, and ``tests/test_fuzz.py`` asks for it.
"""

import importlib.util
import inspect
from dataclasses import dataclass, is_dataclass
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from sklearn_calib import (
    calibrators,
    datasets,
    export,
    inference,
    meta,
    metrics,
    monitor,
    plot,
    report,
    scorers,
    sketch,
)
from tests.calibrators._registry import CALIBRATORS

SUBPACKAGES = (
    calibrators,
    datasets,
    export,
    inference,
    meta,
    metrics,
    monitor,
    plot,
    report,
    scorers,
    sketch,
)

N = 24
P = np.round(np.random.default_rng(0).random(N), 2)
Y = (np.random.default_rng(1).random(N) < P).astype(int)
W = np.random.default_rng(2).integers(1, 3, N)
GROUPS = np.arange(N) % 2
FEATURES = np.column_stack([P, GROUPS])
Y3 = np.arange(N) % 3
P3 = np.random.default_rng(3).dirichlet([1.0, 1.0, 1.0], N)
MODEL = LogisticRegression().fit(FEATURES, Y)

ROWS = {"y_true": Y, "y_proba": P, "sample_weight": W}
CLASSES = {"y_true": Y3, "y_proba": P3, "sample_weight": W}
FIT = {"X": P, "y": Y, "sample_weight": W}
FEW = {"n_resamples": 39, "random_state": 0}
MODELS = {"predictions": {"a": P, "b": np.sqrt(P)}}
CUTOFF = metrics.cutoff_calibration_error

#: What an estimator needs beside its defaults, by name of its class.
NEEDED = {
    "OneVsRestCalibrator": {"calibrator": calibrators.PlattCalibrator()},
    "TopLabelCalibrator": {"calibrator": calibrators.PlattCalibrator()},
    "PriorShiftCalibrator": {"training_prior": 0.5},
    "AutoCalibrator": {"n_folds": 2},
    "StreamingCalibrator": {"half_life": 10.0},
    "ConsistencyTest": {"metric": CUTOFF},
    "BinomialTest": {"max_values": 100},
    "CrossFitScorer": {"estimator": LogisticRegression()},
    "SelectiveClassifier": {"estimator": LogisticRegression()},
}
#: Arguments of the methods of estimators, by name of the method.
METHODS = {
    "fit": FIT,
    "fit_transform": FIT,
    "partial_fit": FIT,
    "score": FIT,
    "test": ROWS,
    "transform": {"X": P},
    "inverse_transform": {"X": P},
    "predict": {"X": P},
    "predict_proba": {"X": P},
    "predict_interval": {"X": P},
    "cutoff_certificate": {},
}


@dataclass(frozen=True)
class Entry:
    """A call, its good arguments, and those that are replaced by wrong ones."""

    name: str
    call: object
    good: dict
    fuzzed: tuple


def parameters(function):
    """Return the names of the parameters that a caller may pass."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    known = inspect.signature(function).parameters
    return tuple(name for name, value in known.items() if value.kind in kinds and name != "self")


def entry(function, name=None, leave_out=(), **good):
    """Return an entry of a function, of those arguments that it has."""
    names = tuple(each for each in parameters(function) if each not in leave_out)
    return Entry(name or function.__qualname__, function, good, names)


def of_parameters(cls, use, leave_out=(), **good):
    """Return an entry of the parameters of a class, checked at the latest when it is used."""
    names = tuple(each for each in parameters(cls) if each not in leave_out)
    return Entry(f"{cls.__name__}()", lambda **given: use(cls(**given)), good, names)


def fresh(make, method):
    """Return what calls a method of a new object each time."""

    def call(**given):
        return getattr(make(), method)(**given)

    return call


def of_method(make, method, leave_out=(), **good):
    """Return an entry of a method of a new object."""
    first = make()
    names = tuple(each for each in parameters(getattr(first, method)) if each not in leave_out)
    return Entry(f"{type(first).__name__}.{method}", fresh(make, method), good, names)


def estimators(subpackage):
    """Return the classes of the estimators of scores of a subpackage."""
    found = [getattr(subpackage, name) for name in subpackage.__all__]
    return [
        cls
        for cls in found
        if inspect.isclass(cls) and issubclass(cls, BaseEstimator) and not inspect.isabstract(cls)
    ]


def good_parameters(cls):
    known = inspect.signature(cls).parameters
    few = {key: value for key, value in FEW.items() if key in known}
    return {**few, **NEEDED.get(cls.__name__, {})}


def public_methods(cls):
    """Return the methods of a class with an argument, but for those that it has of scikit-learn."""
    for name, value in inspect.getmembers(cls):
        if name.startswith("_") and name != "__call__":
            continue
        foreign = (getattr(value, "__module__", None) or "builtins").startswith(("sklearn.", "builtins"))
        if not inspect.isroutine(value) or foreign or name.endswith(("_request", "names_out", "_params")):
            continue
        if parameters(value):
            yield name


def count_of(y_true, y_proba):
    """Return the number of samples: a metric of a user."""
    return float(len(y_true))


def of_metrics(folder):
    for name in metrics.__all__:
        function = getattr(metrics, name)
        if name == "expected_performance":
            yield entry(function, y_proba=P, reference=np.sqrt(P), certificate=0.02, sample_weight=W)
        elif inspect.isfunction(function):
            yield entry(function, **ROWS)
            if "reduction" in inspect.signature(function).parameters:
                leave_out = ("pos_label", "sample_weight")
                kind = "confidence" if name == "risk_coverage_curve" else "classwise"
                yield entry(function, f"{name}.classes", leave_out, **CLASSES, reduction=kind)
    yield entry(metrics.cutoff_result(Y, P).margin)
    yield entry(metrics.risk_coverage_curve(Y, P).at, threshold=0.6)
    yield entry(metrics.MetricKernel(), "MetricKernel.__call__", metric=count_of)


def of_inference(folder):
    yield entry(inference.confidence_interval, metric=CUTOFF, **ROWS, **FEW)
    yield entry(inference.expected_under_calibration, metric=CUTOFF, y_proba=P, sample_weight=W, **FEW)
    two = {"y_true": Y, "y_proba_a": P, "y_proba_b": np.sqrt(P)}
    yield entry(inference.paired_test, metric=CUTOFF, **two, sample_weight=W, **FEW)
    yield entry(inference.compare_models, metric=CUTOFF, y_true=Y, sample_weight=W, **MODELS, **FEW)
    yield entry(inference.dominance_test, **two, sample_weight=W, **FEW)
    yield entry(
        inference.dominance_test,
        "dominance_test.classes",
        ("pos_label", "sample_weight"),
        y_true=Y3,
        y_proba_a=P3,
        y_proba_b=P3[:, ::-1],
        **FEW,
    )
    yield entry(inference.required_n_samples, y_proba=P, bound=0.1, n_resamples=39, random_state=0)
    result = inference.SpiegelhalterTest().test(Y, P)
    yield entry(result.rejects)
    stream = inference.SequentialTest().test(Y, P)
    yield of_method(lambda: stream, "rejects")
    yield of_method(lambda: stream, "rejected_at")
    values = inference.BinomialTest(max_values=100).test(Y, P)
    yield entry(values.scales[0].rejects)


def of_estimators(subpackage, folder):
    for cls in estimators(subpackage):
        good = good_parameters(cls)
        make = partial(cls, **good)
        if issubclass(cls, inference.CalibrationTest):
            yield of_parameters(cls, lambda test: test.test(Y, P), **good)
        else:
            yield of_parameters(cls, lambda estimator: estimator.fit(P, Y), **good)
        # a certificate of the fitted map needs 100 samples
        fitted = make().fit(np.tile(P, 5), np.tile(Y, 5))
        for method in public_methods(cls):
            if hasattr(fitted, method):
                anew = method in ("fit", "fit_transform", "partial_fit", "test")
                yield of_method(make if anew else lambda fitted=fitted: fitted, method, **METHODS[method])


def of_several_classes(folder):
    for case in CALIBRATORS:
        if case.multiclass:
            scores = np.log(P3) if case.log_odds else P3
            fitted = case.make().fit(scores, Y3)
            name = f"{type(fitted).__name__}.{case.name}"
            yield entry(case.make().fit, f"{name}.fit", ("sample_weight",), X=scores, y=Y3)
            yield entry(fitted.predict_proba, f"{name}.predict_proba", X=scores)
    for cls in (inference.TCal, inference.KernelTest, inference.SampleSplittingTest):
        test = cls(**good_parameters(cls))
        yield entry(test.test, f"{cls.__name__}.test.classes", ("sample_weight", "pos_label"), **CLASSES)


def of_groups(folder):
    monotone = calibrators.SplineCalibrator(monotone=True).fit(P, Y)
    yield of_method(lambda: monotone, "cutoff_certificate")
    grouped = partial(calibrators.GroupCalibrator, calibrators.PlattCalibrator(), min_group_size=1)
    yield of_method(grouped, "fit", **FIT, groups=GROUPS)
    fitted = grouped().fit(P, Y, groups=GROUPS)
    for method in ("predict_proba", "transform", "predict"):
        yield of_method(lambda: fitted, method, X=P, groups=GROUPS)


def of_meta(folder):
    inner = {"estimator": LogisticRegression(), "cv": 2}
    # the features are the business of the model
    good = {"X": FEATURES, "y": Y, "sample_weight": W}
    # what scikit-learn and joblib answer for
    theirs = ("cv", "n_jobs")
    yield of_parameters(meta.CalibratedClassifier, lambda model: model.fit(FEATURES, Y), theirs, **inner)
    yield of_parameters(meta.CrossFitScorer, lambda model: model.fit_transform(FEATURES, Y), theirs, **inner)
    for cls in (meta.CalibratedClassifier, meta.CrossFitScorer):
        fitted = cls(**inner).fit(FEATURES, Y)
        for method in set(public_methods(cls)) - {"cutoff_certificate"}:
            made = partial(cls, **inner) if method.startswith("fit") else lambda fitted=fitted: fitted
            known = {key: value for key, value in good.items() if key in parameters(getattr(fitted, method))}
            yield of_method(made, method, ("X",), **known)
    rejecting = {
        "estimator": LogisticRegression(),
        "target": 0.9,
        "validation_fraction": 0.5,
        "random_state": 1,
    }
    theirs = ("estimator", "abstain_label")  # any label will do
    yield of_parameters(meta.SelectiveClassifier, lambda model: model.fit(FEATURES, Y), theirs, **rejecting)
    yield of_method(partial(meta.SelectiveClassifier, **rejecting), "fit", ("X",), **good)
    fitted = meta.SelectiveClassifier(**rejecting).fit(FEATURES, Y)
    for method in ("accepts", "predict", "predict_proba"):
        yield of_method(lambda fitted=fitted: fitted, method, ("X",), X=FEATURES)
    single = meta.CalibratedClassifier(**inner, calibrator=calibrators.PlattCalibrator(), ensemble=False)
    yield of_method(lambda: single.fit(FEATURES, Y), "cutoff_certificate")
    (pair, *_) = meta.CalibratedClassifier(**inner).fit(FEATURES, Y).calibrated_classifiers_
    yield of_method(lambda: pair, "predict_proba", ("X",), X=FEATURES)
    yield of_method(lambda: pair, "scores", ("X",), X=FEATURES)


def of_monitor(folder):
    watched = partial(monitor.CalibrationMonitor, window=10)
    yield of_parameters(monitor.CalibrationMonitor, lambda made: made.update(Y, P))
    yield of_method(watched, "update", **ROWS, time=np.arange(N))
    yield of_method(watched, "restart", empty_window=True)
    compared = partial(watched, reference=sketch.CalibrationSketch().update(Y, P))
    yield of_method(compared, "expected_performance", y_proba=P, certificate=0.02)


def of_plot(folder):
    test = inference.SpiegelhalterTest()
    good = {
        **FEW,
        **MODELS,
        **ROWS,
        "estimator": MODEL,
        "estimators": {"a": MODEL, "b": MODEL},
        "X": FEATURES,
        "y": Y,
        "test": test,
        "cv_results": {"estimator": [MODEL] * 2, "indices": {"test": [np.arange(12), np.arange(12, N)]}},
        "monitor": watched(),
    }
    results = {
        "ComparisonDisplay": inference.compare_models(Y, metric=CUTOFF, **MODELS, **FEW),
        "CutoffDisplay": metrics.cutoff_result(Y, P),
        "DecisionDisplay": metrics.decision_risk_result(Y, P),
        "RiskCoverageDisplay": metrics.risk_coverage_curve(Y, P),
        "TestDisplay": test.test(Y, P),
    }
    for name in plot.__all__:
        cls = getattr(plot, name)
        for method in public_methods(cls):
            if not method.startswith("from_"):
                continue
            make = getattr(cls, method)
            known = {key: value for key, value in good.items() if key in parameters(make)}
            if "band" in parameters(make):
                known["band"] = "none"
            if "metrics" in parameters(make):
                known["metrics"] = CUTOFF
            if hasattr(cls, "plot"):
                # it takes most of the time
                known["show_legend"] = False
            if method == "from_result":
                known["result"] = results[name]
            # the features are the business of the model; what plot takes is passed to it below
            leave_out = ("X", *(parameters(cls.plot) if method != "from_predictions" else ()))
            yield entry(make, f"{name}.{method}", leave_out, **known)
        if hasattr(cls, "plot"):
            display = drawn(cls, results)
            yield of_method(lambda display=display: display, "plot", show_legend=False)
    curve = plot.ReliabilityDisplay.from_predictions(Y, P).curve
    yield entry(curve.label, digits=3)
    belt = plot.ReliabilityDisplay.from_predictions(Y, np.clip(P, 0.01, 0.99), method="belt").curve
    yield entry(belt.bands[0].at, predicted=P)
    yield entry(belt.belt.curve, predicted=P[P > 0])
    yield entry(belt.belt.band, predicted=np.sort(P[P > 0]), confidence=0.9)


def watched():
    made = monitor.CalibrationMonitor(window=10)
    made.update(Y, P)
    return made


def drawn(cls, results):
    """Return a display of a class."""
    if cls.__name__ in results:
        return cls.from_result(results[cls.__name__])
    if hasattr(cls, "from_monitor"):
        return cls.from_monitor(watched())
    if cls.__name__ == "ReliabilityPanel":
        return plot.ReliabilityDisplay.from_predictions(Y, P, band="none", groups=GROUPS)
    if "band" not in parameters(cls.from_predictions):
        return cls.from_predictions(Y, P)
    return cls.from_predictions(Y, P, band="none")


def of_report(folder):
    yield entry(report.calibration_report, **ROWS, n_resamples=20)
    made = report.calibration_report(Y, P, n_resamples=20)
    given = {"estimator": MODEL, "X": FEATURES, "y": Y}
    few = partial(report.CalibrationReport.from_estimator, n_resamples=20)
    yield entry(few, "CalibrationReport.from_estimator", ("X",), **given)
    yield entry(made.metric, "CalibrationReport.metric", key="smooth_ece")
    # a path is whatever names a file
    yield entry(made.to_html, None, ("path",))
    requirements = report.CalibrationRequirements
    yield of_parameters(requirements, lambda made: made, limits={"slope": [0.5, 2.0], "smooth_ece": 0.1})
    yield entry(requirements.from_dict, data={"slope": [0.5, 2.0]})
    file = folder / "requirements.toml"
    file.write_text("slope = [0.5, 2.0]", encoding="utf-8")
    yield entry(requirements.from_toml, None, ("path",), path=file)
    limited = requirements({"slope": [0.5, 2.0], "segment_difference": 0.5})
    yield entry(limited.check, **ROWS, groups=GROUPS, **FEW)
    yield entry(limited.check(Y, P, groups=GROUPS).to_junit, undecided="failure")


def of_sketch(folder):
    for cls in (sketch.CalibrationSketch, partial(sketch.WindowedSketch, 100)):
        time = {} if isinstance(cls, type) else {"time": np.arange(N)}
        full = lambda cls=cls, time=time: cls().update(Y, P, **time)  # noqa: E731
        yield of_method(cls, "update", **ROWS, **time)
        yield of_method(full, "merge", other=full())
        yield of_method(full, "from_dict", data=full().to_dict())
        file = folder / f"{type(full()).__name__}.json"
        full().save(file)
        yield of_method(full, "save", path=file)
        yield of_method(full, "load", path=file)
    clustered = lambda: sketch.ClusteredSketch().update(Y, P, GROUPS)  # noqa: E731
    yield of_method(sketch.ClusteredSketch, "update", **ROWS, clusters=GROUPS)
    yield of_method(clustered, "merge", other=clustered())
    yield of_parameters(sketch.ClusteredSketch, lambda made: made.update(Y, P, GROUPS))
    yield of_method(lambda: sketch.WindowedSketch(10), "current")
    yield of_parameters(sketch.CalibrationSketch, lambda made: made.update(Y, P))
    yield of_parameters(sketch.WindowedSketch, lambda made: made.update(Y, P), window=10)
    yield entry(sketch.sketch_batches, batches=[(Y, P)])
    table = Path(folder / "rows.csv")
    rows = "".join(f"{y},{p},{w}\n" for y, p, w in zip(Y, P, W, strict=True))
    table.write_text("y,p,w\n" + rows, encoding="utf-8")
    try:
        import pyarrow
    except ImportError:
        batches = []
    else:
        yield entry(sketch.sketch_file, path=table, y="y", p="p", sample_weight="w")
        batches = [pyarrow.RecordBatch.from_pydict({"y": Y, "p": P, "w": W})]
    yield entry(sketch.sketch_arrow, batches=batches, y="y", p="p", sample_weight="w")


def of_export(folder):
    fitted = calibrators.PlattCalibrator().fit(P, Y)
    loaded = export.from_json(export.to_json(fitted))
    for function in (export.to_json, export.to_sql, export.to_python):
        # a path is whatever names a file
        yield entry(function, None, ("path",), calibrator=fitted)
    if importlib.util.find_spec("skl2onnx"):
        yield entry(export.to_onnx, None, ("X",), estimator=fitted)
    yield entry(export.from_json, None, ("source",), source=export.to_json(fitted))
    yield of_parameters(export.ExportedCalibrator, lambda made: made.transform(P), document=loaded.document)
    for method in ("transform", "inverse_transform", "predict_proba", "predict"):
        yield of_method(lambda: loaded, method, X=P)
    yield of_method(lambda: loaded, "fit")


def of_scorers(folder):
    yield entry(scorers.get_scorer, scoring="neg_smooth_ece")
    scored = {"estimator": MODEL, "X": FEATURES, "y_true": Y, "sample_weight": W}
    made = {
        "CalibrationScorer": partial(scorers.CalibrationScorer, CUTOFF),
        "MultiScorer": partial(scorers.MultiScorer, ["neg_smooth_ece"]),
        "PValueScorer": partial(scorers.PValueScorer, inference.SpiegelhalterTest()),
    }
    for name, make in made.items():
        # the features are the business of the model
        yield entry(make(), f"{name}.__call__", ("X",), **scored)
    yield of_parameters(scorers.CalibrationScorer, lambda made: made, metric=CUTOFF)
    yield of_parameters(scorers.MultiScorer, lambda made: made, scoring=["neg_smooth_ece"])
    yield of_parameters(scorers.PValueScorer, lambda made: made, test=inference.SpiegelhalterTest())
    yield of_parameters(scorers.BestCalibrated, lambda made: made)
    results = {f"split{k}_test_neg_log_loss": np.array([-0.1 * k, -0.2]) for k in range(3)}
    results |= {f"mean_test_neg_{name}": np.array([-0.1, -0.2]) for name in ("smooth_ece", "log_loss")}
    yield entry(scorers.BestCalibrated(), "BestCalibrated.__call__", cv_results=results)


def of_datasets(folder):
    yield entry(datasets.make_forecasts, n_samples=20, random_state=0)
    yield entry(datasets.make_multiclass_forecasts, n_samples=20, random_state=0)
    simulated = {"n_samples": 20, "forecasts": [0.2, 0.8], "frequencies": [0.3, 0.7], "random_state": 0}
    yield entry(datasets.make_discrete_forecasts, **simulated)
    credit = datasets.load_german_credit()
    yield of_method(lambda: credit, "column", name=credit.feature_names[0])


#: What yields the entries, given a folder for files.
MAKERS = {
    "metrics": of_metrics,
    "inference": of_inference,
    "calibrators": partial(of_estimators, calibrators),
    "tests": partial(of_estimators, inference),
    "streaming": partial(of_estimators, monitor),
    "several_classes": of_several_classes,
    "groups": of_groups,
    "meta": of_meta,
    "monitor": of_monitor,
    "plot": of_plot,
    "report": of_report,
    "scorers": of_scorers,
    "sketch": of_sketch,
    "export": of_export,
    "datasets": of_datasets,
}

#: With data on a cluster: the tests of Dask cover it.
ELSEWHERE = {"sketch_dask", *(() if importlib.util.find_spec("skl2onnx") else ("to_onnx",))}


def wanted():
    """Return the names of what must have an entry: every public function, class that is made, and method."""
    names = set()
    for subpackage in SUBPACKAGES:
        for name in subpackage.__all__:
            value = getattr(subpackage, name)
            if not inspect.isclass(value):
                names |= {name} if parameters(value) else set()
                continue
            if inspect.isabstract(value):
                continue
            result = is_dataclass(value) or issubclass(value, float) or subpackage is plot
            names |= set() if result else {f"{name}()"}
            names |= {f"{name}.{method}" for method in public_methods(value)}
    return names - ELSEWHERE
