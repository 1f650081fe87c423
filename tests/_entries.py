"""Calls of every public function, estimator and display with good arguments."""

import inspect
from dataclasses import dataclass
from functools import cache, partial

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
    sketch,
)
from tests._optional import Missing
from tests._optional import pyplot as plt

N = 24
P = np.round(np.random.default_rng(0).random(N), 2)
Y = (np.random.default_rng(1).random(N) < P).astype(int)
W = np.random.default_rng(2).integers(1, 3, N)
GROUPS = np.arange(N) % 2
FEATURES = np.column_stack([P, GROUPS])
CUTOFF = metrics.cutoff_calibration_error

#: Good arguments by name: those without a default, data, and what makes a call short.
GOOD = {
    "y_true": Y,
    "y_proba": P,
    "y_score": P,
    "predictions": {"a": P, "b": np.sqrt(P)},
    "sample_weight": W,
    "X": P,
    "y": Y,
    "metric": CUTOFF,
    "n_resamples": 39,
    "n_samples": 20,
    "max_values": 100,
    "n_folds": 2,
    "forecasts": [0.2, 0.8],
    "frequencies": [0.3, 0.7],
    "calibrator": calibrators.PlattCalibrator(),
    "estimator": LogisticRegression(),
    "test": inference.SpiegelhalterTest(),
    "training_prior": 0.5,
    "half_life": 10.0,
    "bound": 0.1,
}
#: Good arguments of single functions and classes.
SPECIAL = {
    "group_differences_test": {"groups": np.arange(N) % 2},
    "TestDisplay": {"test": inference.SpiegelhalterTest()},
    **{f"SequentialTest.{method}": {"weights": "frequency"} for method in ("fit", "test", "partial_fit")},
    "StreamingCalibrator": {"calibrator": calibrators.PlattCalibrator(), "half_life": 10.0},
    "CertifiedCalibrator": {"weights": "frequency"},
    "SegmentCalibrator": {"calibrator": calibrators.PlattCalibrator(link="identity")},
    "CalibratedClassifier": {"estimator": LogisticRegression()},
    "SelectiveClassifier": {"estimator": LogisticRegression(), "target": 0.9, "validation_fraction": 0.5},
}
SPECIAL["SelectiveClassifier"] |= {"random_state": 1, "weights": "frequency"}
DATA = ("y_true", "y_proba", "sample_weight", "X", "y", "groups", "clusters", "labels", "classes", "time")
DATA += ("thresholds", "forecasts", "frequencies", "weights", "reference")
# checked by scikit-learn, joblib or matplotlib; names and paths may be any text
THEIRS = ("cv", "n_jobs", "ax", "name", "path", "estimator", "abstain_label", "params", "options", "progress")

ESTIMATORS = {
    cls: FEATURES if subpackage is meta or cls is calibrators.SegmentCalibrator else P
    for subpackage in (calibrators, inference, meta, monitor)
    for cls in (getattr(subpackage, name) for name in subpackage.__all__)
    if inspect.isclass(cls) and issubclass(cls, BaseEstimator) and not inspect.isabstract(cls)
}
#: Optional arguments that are passed.
FEW = ("y_proba", "y", "sample_weight", "n_resamples", "max_values", "n_folds", "training_prior", "half_life")
FEW += ("bound",)


@dataclass(frozen=True)
class Entry:
    """A call with good arguments, and the names of those that are replaced by wrong ones."""

    name: str
    call: object
    good: dict

    @property
    def names(self):
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        known = inspect.signature(self.call).parameters
        # features are checked by the model
        theirs = ("self", "X", *THEIRS) if self.good.get("X") is FEATURES else ("self", *THEIRS)
        return [name for name, each in known.items() if each.kind in kinds and name not in theirs]


def good_of(call, name):
    """Return good arguments of a call: those that are required, and those that make it short."""
    known, special = inspect.signature(call).parameters, SPECIAL.get(name, {})
    wanted = [key for key, each in known.items() if each.default is each.empty or key in FEW]
    return {key: GOOD[key] for key in wanted if key in GOOD} | special


def public(subpackage):
    return {name: getattr(subpackage, name) for name in subpackage.__all__}


@cache
def entries(displays=True):
    found = []
    for subpackage in (metrics, inference, datasets):
        for name, value in public(subpackage).items():
            if inspect.isfunction(value) and inspect.signature(value).parameters:
                found.append(Entry(name, value, good_of(value, name)))
    short = {"y_true": Y, "y_proba": P, "n_resamples": 20}
    found.append(Entry("calibration_report", report.calibration_report, short))
    found.append(Entry("to_json", export.to_json, {"calibrator": calibrators.PlattCalibrator().fit(P, Y)}))
    for cls, X in ESTIMATORS.items():
        found += of_estimator(cls, X)
    for cls in (sketch.CalibrationSketch, partial(sketch.WindowedSketch, 10)):
        update = with_signature(cls().update, lambda cls=cls, **given: cls().update(**given))
        found.append(Entry(f"{type(cls()).__name__}.update", update, good_of(update, "")))
    if displays and not isinstance(plt, Missing):
        for name, cls in public(plot).items():
            if hasattr(cls, "from_predictions"):
                found.append(Entry(name, cls.from_predictions, good_of(cls.from_predictions, name)))
    return found


def of_estimator(cls, X):
    """Yield the entries of the parameters of an estimator, and of its methods."""
    name = cls.__name__
    good = good_of(cls, name)
    yield Entry(f"{name}()", with_signature(cls, lambda **given: cls(**given).fit(X, Y)), good)
    for method in ("fit", "test", "partial_fit"):
        if hasattr(cls, method):
            known = getattr(cls(**good), method)
            anew = with_signature(known, lambda m=method, **own: getattr(cls(**good), m)(**own))
            data = good_of(anew, f"{name}.{method}")
            yield Entry(f"{name}.{method}", anew, data | ({"X": X} if "X" in data else {}))
    # a table of features is checked by the model
    for method in ("transform", "predict_proba", "predict") if X is P else ():
        if hasattr(cls, method):
            known = getattr(cls(**good), method)
            later = with_signature(known, lambda m=method, **own: getattr(cls(**good).fit(X, Y), m)(**own))
            yield Entry(f"{name}.{method}", later, {"X": P})


def with_signature(known, call):
    """Return a function of keywords with the signature of another."""
    call.__signature__ = inspect.signature(known)
    return call
