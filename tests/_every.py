"""Every public estimator and every public result, made from small samples, for tests of what holds for all.

Calibrators and tests of calibration come from their registries; a new kind of estimator or result that
none of these leads to needs a line here, and ``tests/test_persistence.py`` asks for it.
"""

import dataclasses
import importlib
import inspect
import pkgutil
from functools import cache
from unittest import mock

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import sklearn_calib
from sklearn_calib import (
    CalibratedClassifier,
    CrossFitScorer,
    SelectiveClassifier,
    calibrators,
    datasets,
    inference,
    metrics,
    report,
)
from sklearn_calib._validation import check_binary
from sklearn_calib.export import from_json, to_json
from sklearn_calib.monitor import CalibrationMonitor, StreamingCalibrator
from sklearn_calib.plot import ThresholdCurve
from sklearn_calib.plot._curve import reliability_curve
from sklearn_calib.report._numbers import ERRORS
from tests.calibrators._registry import CALIBRATORS
from tests.inference._registry import TESTS


@cache
def binary(n=120, seed=0):
    """Return labels and probabilities that are a little wrong; not to be changed."""
    rng = np.random.default_rng(seed)
    p = np.round(rng.uniform(0.02, 0.98, n), 3)
    return _frozen((rng.random(n) < p**1.3).astype(int), p)


@cache
def several(n=90, seed=1):
    """Return labels and probabilities of three classes; not to be changed."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([1.0, 1.5, 2.0], n)
    return _frozen(np.minimum((rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1), 2), p)


@cache
def features(n=120, seed=2):
    """Return features and labels; not to be changed."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    return _frozen(X, (X[:, 0] + 0.8 * rng.standard_normal(n) > 0).astype(int))


def _frozen(*arrays):
    for values in arrays:
        values.setflags(write=False)
    return arrays


def _groups():
    return np.where(np.arange(120) % 3 == 0, "a", "b")


#: What fits each calibrator of the registry, and some with several classes or groups, by name.
CALIBRATOR_MAKERS = {case.name: case.make for case in CALIBRATORS} | {
    "streaming": lambda: StreamingCalibrator(half_life=50),
    "exported": lambda: from_json(to_json(calibrators.IsotonicCalibrator().fit(*reversed(binary())))),
}
SEVERAL_MAKERS = {f"{case.name}_3": case.make for case in CALIBRATORS if case.multiclass}
TEST_MAKERS = {case.name: case.test for case in TESTS}
META_MAKERS = {
    "default": CalibratedClassifier(cv=3),
    "ensemble": CalibratedClassifier(LogisticRegression(), calibrators.IsotonicCalibrator(), cv=3),
    "pooled": CalibratedClassifier(
        GaussianNB(), calibrators.PlattCalibrator(), cv=3, ensemble=False, average="log"
    ),
    "passthrough": CalibratedClassifier(GaussianNB(), "passthrough", cv=3),
    "cross_fit": CrossFitScorer(LogisticRegression(), cv=3),
    "selective": SelectiveClassifier(LogisticRegression(), target=0.8, random_state=0),
    # the first feature is the score
    "features": calibrators.SegmentCalibrator(calibrators.SplineCalibrator(link="identity")),
}


@cache
def fitted_calibrator(name):
    """Return a fitted calibrator and the scores that it was fitted to; not to be changed."""
    maker = CALIBRATOR_MAKERS.get(name) or SEVERAL_MAKERS[name]
    y, scores = several() if name in SEVERAL_MAKERS else binary()
    return maker().fit(scores, y), scores


CALIBRATOR_NAMES = [*CALIBRATOR_MAKERS, *SEVERAL_MAKERS]


def short_report(*data, **given):
    """Return a report with one measure: the intervals of the others take most of the time."""
    with mock.patch("sklearn_calib.report._numbers.ERRORS", ERRORS[:1]):
        return report.calibration_report(*data, n_resamples=20, **given)


def _comparison():
    y, p = binary()
    models, metric = {"one": p, "two": np.sqrt(p)}, metrics.expected_calibration_error
    return inference.compare_models(y, models, metric=metric, **FEW)


CUTOFF, FEW = metrics.cutoff_calibration_error, {"n_resamples": 39, "random_state": 0}
#: What makes a result, or several, of every kind, by name.
RESULT_MAKERS = {
    **{f"test_{name}": (lambda test=test: test.test(*binary(60))) for name, test in TEST_MAKERS.items()},
    "tcal_of_classes": lambda: inference.TCal(n_resamples=49, random_state=0).test(*several()),
    "cutoff_of_classes": lambda: inference.CutoffTest(n_resamples=49).test(*several()),
    "cutoff": lambda: metrics.cutoff_result(*binary()),
    "decision_risk": lambda: metrics.decision_risk_result(*binary()),
    "expected_performance": lambda: metrics.expected_performance(binary()[1], certificate=0.02),
    "certificate": lambda: fitted_calibrator("isotonic")[0].cutoff_certificate(n_resamples=99),
    "risk_coverage": lambda: metrics.risk_coverage_curve(*binary()),
    "smooth": lambda: metrics.smooth_ece_result(*binary()),
    "decomposition": lambda: metrics.score_decomposition(*binary()),
    "distance": lambda: metrics.distance_from_calibration(*binary()),
    "summary": lambda: metrics.calibration_summary(*binary()),
    "summary_without_slope": lambda: metrics.calibration_summary([0, 0], [0.1, 0.2]),
    "floor": lambda: inference.expected_under_calibration(None, binary()[1], metric=CUTOFF, **FEW),
    "interval": lambda: inference.confidence_interval(*binary(), metric=CUTOFF, **FEW),
    "comparison": _comparison,
    "dominance": lambda: inference.dominance_test(
        binary()[0], {"a": binary()[1], "b": binary()[1] ** 2}, **FEW
    ),
    "segments": lambda: inference.find_segments({"g": _groups()}, *binary(), segments=[0], n_resamples=39),
    "group_differences": lambda: inference.group_differences_test(*binary(), groups=_groups()),
    "mean_label": lambda: inference.mean_label(*binary()),
    "multicalibration": lambda: inference.multicalibration_error({"g": _groups()}, *binary(), n_resamples=39),
    "threshold_curve": lambda: ThresholdCurve(*np.full((4, 1), 0.5), 0.5, 0.95, "pointwise"),
    "selection": lambda: calibrators.AutoCalibrator().fit(*reversed(several())).selection_,
    "pairs": lambda: META_MAKERS["ensemble"].fit(*features()).calibrated_classifiers_,
    "curve": lambda: reliability_curve(check_binary(*binary())),
    "report": lambda: short_report(*binary(), groups=_groups()),
    "report_of_classes": lambda: short_report(*several(45)),
    "requirements": lambda: report.CalibrationRequirements({"slope": [0.9, 1.1]}),
    "requirements_result": lambda: report.CalibrationRequirements(
        {"slope": [0.5, 1.5], "smooth_ece": 0.05, "segment_difference": 0.1}
    ).check(*binary(), groups=_groups(), n_resamples=20),
    "alert": lambda: CalibrationMonitor(alpha=0.5).update(np.ones(50), np.full(50, 0.3)),
    "forecasts": lambda: datasets.make_forecasts(50, random_state=0),
    "multiclass_forecasts": lambda: datasets.make_multiclass_forecasts(50, random_state=0),
    "solar_flares": datasets.load_solar_flares,
    "labeled_table": datasets.load_german_credit,
    "model_answers": datasets.load_mmlu_answers,
    "metric_kernel": lambda: metrics.expected_calibration_error.metric_kernel,
}


def public_modules():
    """Return every module of the package without a leading underscore in its path."""
    found = pkgutil.walk_packages(sklearn_calib.__path__, "sklearn_calib.")
    return ["sklearn_calib", *sorted(info.name for info in found if "._" not in info.name)]


def public_classes():
    modules = map(importlib.import_module, public_modules())
    found = {getattr(module, name) for module in modules for name in module.__all__}
    return {value for value in found if inspect.isclass(value) and not inspect.isabstract(value)}


def public_estimators():
    return {value for value in public_classes() if issubclass(value, BaseEstimator)}


def public_dataclasses():
    return {value for value in public_classes() if dataclasses.is_dataclass(value)}


def parts(value, seen=None):
    """Yield an object and all that it holds, once each."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    yield value
    if isinstance(value, dict):
        inner = list(value.values())
    elif isinstance(value, list | tuple):
        inner = list(value)
    elif hasattr(value, "__dict__") and not inspect.isroutine(value) and not inspect.isclass(value):
        inner = list(vars(value).values())
    else:
        inner = []
    for part in inner:
        yield from parts(part, seen)


def differs(first, second, path="value"):
    """Return where two objects differ, in any part and any bit of a number; None if they are the same."""
    if type(first) is not type(second) and not isinstance(first, np.ndarray):
        return f"{path}: {type(first).__name__} and {type(second).__name__}"
    if isinstance(first, np.ndarray):
        same = first.dtype == second.dtype and first.shape == second.shape
        same = same and np.array_equal(first, second, equal_nan=first.dtype.kind in "fc")
        return None if same else f"{path}: {first!r} and {second!r}"
    if isinstance(first, float):
        same = first == second or (first != first and second != second)
        return None if same else f"{path}: {first} {second}"
    if isinstance(first, dict):
        if list(first) != list(second):
            return f"{path}: keys {list(first)} and {list(second)}"
        pairs = [(f"{path}[{key!r}]", first[key], second[key]) for key in first]
    elif isinstance(first, list | tuple):
        if len(first) != len(second):
            return f"{path}: lengths {len(first)} and {len(second)}"
        pairs = [(f"{path}[{k}]", a, b) for k, (a, b) in enumerate(zip(first, second, strict=True))]
    elif hasattr(first, "__dict__") and not inspect.isroutine(first) and not inspect.isclass(first):
        # as they are pickled: what a sketch holds is finished then
        states = first.__getstate__(), second.__getstate__()
        return differs(*(states if isinstance(states[0], dict) else (vars(first), vars(second))), path)
    else:
        return None if first == second or first is second else f"{path}: {first!r} and {second!r}"
    return next((found for place, a, b in pairs if (found := differs(a, b, place))), None)
