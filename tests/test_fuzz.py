"""Every public entry, fed with what it cannot take: documented errors that name the argument, nothing else.

What an entry can take after all is fine; but no input may change, and no warning may leak.
"""

import copy
import importlib
import inspect
from dataclasses import dataclass, is_dataclass

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LogisticRegression

from sklearn_calib import (
    calibrators,
    datasets,
    inference,
    meta,
    metrics,
    monitor,
    plot,
    report,
    scorers,
    sketch,
)

pd = pytest.importorskip("pandas")
plt = pytest.importorskip("matplotlib.pyplot")
ROOMS = (calibrators, datasets, inference, meta, metrics, monitor, plot, report, scorers, sketch)

N = 24
P = np.round(np.random.default_rng(0).random(N), 2)
Y = (np.random.default_rng(1).random(N) < P).astype(int)
W = np.random.default_rng(2).integers(1, 3, N)
GROUPS = np.arange(N) % 2

#: In place of an array.
ARRAYS = {
    "text": "text",
    "bytes": b"x",
    "object": object(),
    "number": 0.5,
    "none_list": [None] * N,
    "empty": [],
    "empty_row": [[]],
    "no_rows": np.zeros((0, 1)),
    "no_columns": np.zeros((N, 0)),
    "ragged": [[0.1], [0.1, 0.9]] * (N // 2),
    "zero_d": np.array(0.5),
    "three_d": np.zeros((N, 1, 1)),
    "complex": np.full(N, 0.5 + 0j),
    "nan": np.where(np.arange(N) == 3, np.nan, 0.5),
    "infinite": np.where(np.arange(N) == 3, np.inf, 0.5),
    "negative": np.full(N, -1),
    "huge": [10**400] * N,
    "dates": np.full(N, "2020-01-01", dtype="M8[D]"),
    "no_date": np.full(N, "NaT", dtype="M8[D]"),
    "spans": np.full(N, 3, dtype="m8[D]"),
    "dict": {"a": 1},
    "set": {0.1, 0.2},
    "iterator": iter([0.1]),
    "function": len,
    "sparse": csr_matrix(np.full((N, 1), 0.5)),
    "texts": ["a", "b", "c"] * (N // 3),
    "mixed": [0, "a"] * (N // 2),
    "dicts": [{}] * N,
    "lists": np.array([[0.1], None] * (N // 2), dtype=object),
    "records": np.zeros(N, dtype=[("a", float), ("b", int)]),
    "shorter": np.full(N - 1, 0.5),
    "frame": pd.DataFrame({"a": ["x"] * N, "b": 0.5}),
    "nullable": pd.Series([None] + [0.5] * (N - 1), dtype="Float64"),
    "masked": np.ma.masked_array(np.full(N, 0.5), mask=np.arange(N) == 2),
}
#: In place of a number, a word, or an object.
VALUES = {
    "none": None,
    "word": "word",
    "bytes": b"x",
    "true": True,
    "minus": -1,
    "zero": 0,
    "fraction": 1.5,
    "nan": float("nan"),
    "infinite": float("inf"),
    "huge": 10**400,
    "complex": 1j,
    "object": object(),
    "list": [],
    "dict": {},
    "array": np.array([1.0, 2.0]),
    "date": np.datetime64("NaT"),
    "class": int,
}
DATA = ("y_true", "y_proba", "y_proba_a", "y_proba_b", "sample_weight", "X", "y", "groups", "labels")
#: What an argument is called by those to which it is handed on.
OTHER_NAMES = {
    "X": ("y_proba", "features"),
    "y": ("y_true",),
    "group_column": ("X must have a column",),
    "scoring": ("scorer",),
    "batches": ("batch ",),
}
#: These may agree with themselves, but not with another argument, which may be the one that is named.
DISAGREE = ("shorter", "array")
#: Arguments that go on to matplotlib, scikit-learn or the user's own code, which answer for them.
FOREIGN = ("ax", "progress", "metric", "name", "n_jobs", "random_state", "estimator", "cv")


@dataclass(frozen=True)
class Entry:
    """A call, its good arguments, and those that are replaced by wrong ones."""

    name: str
    call: object
    good: dict
    fuzzed: tuple


def names_of(function, good, leave_out=FOREIGN):
    names = [
        name
        for name, value in inspect.signature(function).parameters.items()
        if value.kind in (value.POSITIONAL_OR_KEYWORD, value.KEYWORD_ONLY) and name != "self"
    ]
    return tuple(name for name in names if name not in leave_out)


def of_function(function, name=None, **good):
    return Entry(name or function.__qualname__, function, good, names_of(function, good))


def of_parameters(cls, use, **good):
    """Parameters of an estimator, checked when it is used."""
    return Entry(f"{cls.__name__}()", lambda **given: use(cls(**given)), good, names_of(cls, good))


def entries():
    rows = {"y_true": Y, "y_proba": P, "sample_weight": W}
    for name in metrics.__all__:
        function = getattr(metrics, name)
        if inspect.isfunction(function):
            yield of_function(function, **rows)
    few = {"n_resamples": 39, "random_state": 0}
    cutoff = metrics.cutoff_calibration_error
    yield of_function(inference.confidence_interval, metric=cutoff, **rows, **few)
    yield of_function(inference.null_floor, metric=cutoff, y_proba=P, sample_weight=W, **few)
    two = {"y_true": Y, "y_proba_a": P, "y_proba_b": np.sqrt(P)}
    yield of_function(inference.paired_test, metric=cutoff, **two, sample_weight=W, **few)
    models = {"predictions": {"a": P, "b": np.sqrt(P)}}
    yield of_function(inference.compare_models, metric=cutoff, y_true=Y, sample_weight=W, **models, **few)
    for name in inference.__all__:
        cls = getattr(inference, name)
        if inspect.isclass(cls) and issubclass(cls, BaseEstimator) and not inspect.isabstract(cls):
            known = inspect.signature(cls).parameters
            good = {key: value for key, value in few.items() if key in known}
            if name == "ConsistencyTest":
                good["metric"] = cutoff
            if name == "BinomialTest":
                good["max_values"] = 100
            yield of_parameters(cls, lambda test: test.test(Y, P), **good)
            yield of_function(cls(**good).test, f"{name}.test", **rows)
            fit = cls(**good).fit
            yield of_function(fit, f"{name}.fit", X=P, y=Y, sample_weight=W)
    for cls in (getattr(calibrators, name) for name in calibrators.__all__):
        if issubclass(cls, BaseEstimator) and not inspect.isabstract(cls):
            good = {"random_state": 0} if "random_state" in inspect.signature(cls).parameters else {}
            if cls.__name__ in ("OneVsRestCalibrator", "TopLabelCalibrator"):
                good["calibrator"] = calibrators.PlattCalibrator()
            if cls.__name__ == "PriorShiftCalibrator":
                good["training_prior"] = 0.5
            if cls.__name__ == "AutoCalibrator":
                good["n_folds"] = 2
            yield of_parameters(cls, lambda estimator: estimator.fit(P, Y), **good)
            yield of_function(cls(**good).fit, f"{cls.__name__}.fit", X=P, y=Y, sample_weight=W)
            fitted = cls(**good).fit(P, Y)
            for method in ("transform", "predict", "predict_proba"):
                yield of_function(getattr(fitted, method), f"{cls.__name__}.{method}", X=P)
    streaming = monitor.StreamingCalibrator
    yield of_parameters(streaming, lambda estimator: estimator.fit(P, Y), half_life=10.0)
    yield Entry(
        "StreamingCalibrator.partial_fit",
        lambda **given: streaming(half_life=10.0).partial_fit(**given),
        {"X": P, "y": Y, "sample_weight": W},
        ("X", "y", "sample_weight", "classes"),
    )
    features = np.column_stack([P, GROUPS])
    inner = {"estimator": LogisticRegression(), "cv": 2}
    yield of_parameters(meta.CalibratedClassifier, lambda model: model.fit(features, Y), **inner)
    yield of_parameters(meta.CrossFitScorer, lambda model: model.fit_transform(features, Y), **inner)
    fit = meta.CalibratedClassifier(**inner).fit
    yield Entry(
        "CalibratedClassifier.fit", fit, {"X": features, "y": Y, "sample_weight": W}, ("y", "sample_weight")
    )
    yield Entry(
        "CrossFitScorer.fit_transform",
        meta.CrossFitScorer(**inner).fit_transform,
        {"X": features, "y": Y, "sample_weight": W},
        ("y", "sample_weight"),
    )
    for name in plot.__all__:
        cls = getattr(plot, name)
        if hasattr(cls, "from_predictions"):
            make = cls.from_predictions
            known = inspect.signature(make).parameters
            good = {k: v for k, v in {**rows, **few, **models}.items() if k in known}
            if "band" in known:
                good["band"] = "none"
            if name == "ComparisonDisplay":
                good["metrics"] = cutoff
            if name == "TestDisplay":
                good["test"] = inference.SpiegelhalterTest()
            yield of_function(make, f"{name}.from_predictions", **good)
    yield of_function(report.calibration_report, **rows, n_resamples=20)
    yield of_parameters(sketch.CalibrationSketch, lambda made: made.update(Y, P))
    yield of_function(
        lambda y_true, y_proba, sample_weight: sketch.CalibrationSketch().update(
            y_true, y_proba, sample_weight=sample_weight
        ),
        "CalibrationSketch.update",
        **rows,
    )
    yield of_parameters(sketch.WindowedSketch, lambda made: made, window=10.0)
    yield of_parameters(monitor.CalibrationMonitor, lambda made: made.update(Y, P))
    yield of_function(sketch.sketch_batches, batches=[(Y, P)])
    yield of_function(sketch.sketch_arrow, batches=[], y="y", p="p")
    yield of_function(sketch.sketch_file, path="no_such_file.csv", y="y", p="p")
    yield of_function(scorers.get_scorer, scoring="neg_smooth_ece")
    yield Entry("MultiScorer()", scorers.MultiScorer, {"scoring": ["neg_smooth_ece"]}, ("scoring",))
    yield of_parameters(scorers.BestCalibrated, lambda rule: rule)
    scorer = {"pos_label": 1, "response_method": "predict_proba", "reduction": None}
    yield Entry(
        "CalibrationScorer()",
        lambda **given: scorers.CalibrationScorer(cutoff, **given),
        scorer,
        ("greater_is_better", "reduction", "response_method"),
    )
    yield Entry(
        "PValueScorer()",
        scorers.PValueScorer,
        {"test": inference.SpiegelhalterTest()},
        ("test", "reduction", "response_method"),
    )
    yield of_function(datasets.make_forecasts, n_samples=20, random_state=0)
    yield of_function(datasets.make_multiclass_forecasts, n_samples=20, random_state=0)
    simulated = {"n_samples": 20, "forecasts": [0.2, 0.8], "frequencies": [0.3, 0.7], "random_state": 0}
    yield of_function(datasets.make_discrete_forecasts, **simulated)


ENTRIES = list(entries())
#: Without arguments, or with data on a cluster, which the tests of Dask cover.
ELSEWHERE = {"get_scorer_names", "load_solar_flares", "sketch_dask"}


def test_every_public_callable_has_an_entry():
    covered = {entry.name.split(".")[0].removesuffix("()") for entry in ENTRIES} | ELSEWHERE
    for room in ROOMS:
        for name in importlib.import_module(room.__name__).__all__:
            value = getattr(room, name)
            result = inspect.isclass(value) and (is_dataclass(value) or inspect.isabstract(value))
            assert result or name in covered or name in plot.__all__, name


def wrong_values(entry):
    for name in entry.fuzzed:
        array = name in (*DATA, "thresholds", "forecasts", "frequencies", "weights")
        for key, value in (ARRAYS if array else VALUES).items():
            if key == "huge" and name.startswith("n_"):
                # a number of rows or draws that is only too large is not wrong
                continue
            if key == "class" and name == "metrics":
                # it can be called, and answers for itself
                continue
            yield name, key, iter([0.1]) if key == "iterator" else value


def complaint(entry, name, key, value):
    """Return what is wrong with the answer to a wrong argument, or None."""
    given = {**entry.good, name: value}
    names = (name, *OTHER_NAMES.get(name, ()), *(entry.good if key in DISAGREE else ()))
    try:
        entry.call(**given)
    except DataConversionWarning:
        # a column of labels, as scikit-learn warns
        return None
    except (ValueError, TypeError) as error:
        if not any(known in str(error) for known in names):
            return f"does not name it: {type(error).__name__}: {error}"
    except UserWarning as error:
        # a table after a fit of arrays, as scikit-learn warns
        return None if "feature names" in str(error) else repr(error)
    except FileNotFoundError as error:
        return None if "sketch_file" in entry.name else repr(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        plt.close("all")
    return None


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_wrong_arguments(entry):
    found = [
        f"{name}={key}: {trouble}"
        for name, key, value in wrong_values(entry)
        if (trouble := complaint(entry, name, key, value)) is not None
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_arguments_may_be_read_only_and_stay_as_they_are(entry):
    if entry.name == "sketch_file":
        pytest.skip("its argument is a path")
    frozen = copy.deepcopy(entry.good)
    for value in frozen.values():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
    entry.call(**frozen)
    plt.close("all")
    free = copy.deepcopy(entry.good)
    entry.call(**free)
    plt.close("all")
    for name, value in free.items():
        if isinstance(value, np.ndarray | dict | list):
            np.testing.assert_equal(value, entry.good[name])
