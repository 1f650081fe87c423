# ruff: noqa
"""A temporary record of behaviour: numbers of every public metric, calibrator, test, interval and certificate.

``python benchmarks/_record.py write FILE`` before a change, ``python benchmarks/_record.py compare FILE`` after it. Deterministic numbers are
compared to 1e-12, smoothed ones to 1e-6; each other tolerance stands in ``LOOSE`` with its reason.
"""

import dataclasses
import pickle
import re
import sys
import tempfile
import time
import traceback
import warnings
from functools import partial
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.naive_bayes import GaussianNB

from sklearn_calib import CalibratedClassifier, CrossFitScorer, inference, metrics, report, scorers, sketch
from sklearn_calib.monitor import CalibrationMonitor, StreamingCalibrator
from tests._registry import METRICS
from tests.calibrators._registry import CALIBRATORS
from tests.inference._registry import TESTS

#: Patterns of keys, their tolerance, and why.
LOOSE = {
    r"smooth|logit_smoothed|ici|consistency": (1e-6, "smoothed to 1e-6"),
    r"spline|log_average|auto|default|streaming": (1e-6, "iterative fits"),
    r"matrix|dirichlet|vector|structured|temperature|beta|platt|summary|cox": (1e-7, "iterative fits"),
}


def binary(n, seed, kind="uniform"):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.02, 0.98, n)
    if kind == "ties":
        p = np.round(p, 1).clip(0.1, 0.9)
    if kind == "rare":
        p = 0.04 * p
    if kind == "extreme":
        p = np.where(rng.random(n) < 0.1, np.rint(p), p)
    y = (rng.random(n) < np.clip(p**1.2, 0, 1)).astype(int)
    if kind == "extreme":
        y = np.where((p == 0) | (p == 1), p.astype(int), y)
    return y, p


def classes(n, k, seed):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.linspace(0.5, 2.0, k), n)
    y = (rng.random(n)[:, None] > (P**1.2 / (P**1.2).sum(1, keepdims=True)).cumsum(axis=1)).sum(axis=1)
    y = np.minimum(y, k - 1)
    y[:k] = np.arange(k)
    return y, P


rng = np.random.default_rng(99)
SAMPLES = {
    kind: (*binary(300, k, kind), None) for k, kind in enumerate(("uniform", "ties", "rare", "extreme"))
}
SAMPLES["counts"] = (*binary(200, 7, "ties"), rng.integers(0, 5, 200).astype(float))
SAMPLES["weights"] = (*binary(200, 8), rng.uniform(0.1, 3.0, 200))
SAMPLES["few"] = (*binary(12, 9), None)
SAMPLES["many"] = (*binary(30_000, 10), None)
CLASSES = {"three": classes(240, 3, 1), "ten": classes(600, 10, 2)}
GRID = np.linspace(0.001, 0.999, 57)


def flat(value):
    """Return numbers and texts of a result, nested."""
    if isinstance(value, np.ndarray):
        return value if value.dtype.kind in "biufc" else value.tolist()
    if dataclasses.is_dataclass(value):
        return {field.name: flat(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): flat(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [flat(part) for part in value]
    if isinstance(value, str | bool | int | float | type(None) | np.generic):
        return value
    return type(value).__name__


def jobs():
    """Yield names and calls."""
    for case in METRICS:
        for name, (y, p, w) in SAMPLES.items():
            if name == "many" and case.name in ("smooth_calibration_error", "lower_distance"):
                continue
            yield f"metric {case.name} {name}", partial(case.call, y, p, sample_weight=w)
        for name, (y, P) in CLASSES.items():
            for reduction in ("classwise", "confidence", "top-label"):
                yield f"metric {case.name} {name} {reduction}", partial(case.call, y, P, reduction=reduction)
        s = sketch.CalibrationSketch().update(*SAMPLES["many"][:2])
        if case.name not in ("smooth_calibration_error", "lower_distance"):
            yield f"metric {case.name} sketch", partial(case.call, s)
    for function in (
        "calibration_summary",
        "cutoff_result",
        "decision_risk_result",
        "distance_from_calibration",
        "refinement_loss",
        "score_decomposition",
        "smooth_ece_result",
    ):
        for name in ("uniform", "ties", "extreme", "weights"):
            y, p, w = SAMPLES[name]
            yield f"result {function} {name}", partial(getattr(metrics, function), y, p, sample_weight=w)
    for case in TESTS:
        for name in ("uniform", "ties", "rare", "few", "counts"):
            if case.ordered and name == "counts":
                continue
            y, p, w = SAMPLES[name]
            yield f"test {case.name} {name}", partial(case.test.test, y, p, sample_weight=w)
        if "tcal" in case.name or "kernel" in case.name or "splitting" in case.name:
            for name, (y, P) in CLASSES.items():
                yield f"test {case.name} {name}", partial(case.test.test, y, P)
    for method in ("CoxTest", "SpiegelhalterTest", "HosmerLemeshowTest", "CutoffTest"):
        for name in ("uniform", "ties", "rare", "few", "counts"):
            y, p, w = SAMPLES[name]
            made = getattr(inference, method)
            params = {"random_state": 0} if "random_state" in made().get_params() else {}
            yield f"test {method} {name}", partial(made(**params).test, y, p, sample_weight=w)
    for metric in (
        metrics.smooth_ece,
        metrics.cutoff_calibration_error,
        metrics.logit_smoothed_ece,
        metrics.expected_calibration_error,
        metrics.decision_risk_gap,
        metrics.kernel_calibration_error,
        partial(metrics.expected_calibration_error, norm="l2", debias=True),
    ):
        label = getattr(metric, "__name__", "ece_l2_debiased")
        for name in ("uniform", "ties", "counts", "many"):
            y, p, w = SAMPLES[name]
            if label == "kernel_calibration_error" and name == "many":
                continue
            yield (
                f"floor {label} {name}",
                partial(
                    inference.expected_under_calibration,
                    p,
                    metric=metric,
                    sample_weight=w,
                    n_resamples=39,
                    random_state=0,
                ),
            )
            yield (
                f"consistency {label} {name}",
                partial(
                    inference.ConsistencyTest(metric, n_resamples=39, random_state=0).test,
                    y,
                    p,
                    sample_weight=w,
                ),
            )
            if name != "many":
                yield (
                    f"interval {label} {name}",
                    partial(
                        inference.confidence_interval,
                        y,
                        p,
                        metric=metric,
                        sample_weight=w,
                        n_resamples=39,
                        random_state=0,
                    ),
                )
        y, p, _ = SAMPLES["uniform"]
        yield (
            f"paired {label}",
            partial(inference.paired_test, y, p, np.sqrt(p), metric=metric, n_resamples=39, random_state=0),
        )
        yield (
            f"compare {label}",
            partial(
                inference.compare_models,
                y,
                {"a": p, "b": np.sqrt(p), "c": p**2},
                metric=metric,
                n_resamples=39,
                random_state=0,
            ),
        )
    for case in CALIBRATORS:
        for name in ("uniform", "ties", "extreme", "weights"):
            y, p, w = SAMPLES[name]

            def fitted(case=case, y=y, p=p, w=w):
                model = case.make().fit(p, y, sample_weight=w)
                found = {"map": model.predict_proba(GRID)}
                if hasattr(model, "cutoff_certificate"):
                    try:
                        found["certificate"] = flat(model.cutoff_certificate(method="asymptotic"))
                    except ValueError:
                        found["certificate"] = "ValueError"
                return found

            yield f"calibrator {case.name} {name}", fitted
        if case.multiclass:
            for name, (y, P) in CLASSES.items():
                if name == "ten" and case.name.startswith(("log_average", "auto")):
                    continue
                yield (
                    f"calibrator {case.name} {name}",
                    lambda case=case, y=y, P=P: case.make().fit(P, y).predict_proba(P[:50]),
                )
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:, :5], y
    Xi, yi = load_iris(return_X_y=True)
    for name, model in {
        "default": CalibratedClassifier(GaussianNB(), cv=3),
        "pooled": CalibratedClassifier(GaussianNB(), cv=3, ensemble=False),
        "cross_fit": CrossFitScorer(GaussianNB(), cv=3),
    }.items():
        for data, (features, target) in {"cancer": (X, y), "iris": (Xi, yi)}.items():

            def run(model=model, features=features, target=target):
                model.fit(features, target)
                return (
                    model.predict_proba(features[::7])
                    if hasattr(model, "predict_proba")
                    else model.transform(features[::7])
                )

            yield f"meta {name} {data}", run
    fitted_model = GaussianNB().fit(X, y)
    for name in scorers.get_scorer_names():
        yield f"scorer {name}", partial(scorers.get_scorer(name), fitted_model, X, y)

    def streamed():
        model = StreamingCalibrator(half_life=100)
        y, p, _ = SAMPLES["uniform"]
        for part in np.array_split(np.arange(300), 4):
            model.partial_fit(p[part], y[part])
        return model.predict_proba(GRID)

    yield "streaming", streamed

    def monitored():
        monitor = CalibrationMonitor()
        y, p, _ = SAMPLES["many"]
        for part in np.array_split(np.arange(3000), 10):
            monitor.update(y[part], p[part] ** 2)
        return {"evidence": flat(monitor.history_) if hasattr(monitor, "history_") else str(monitor)}

    yield "monitor", monitored
    for name in ("uniform", "counts"):
        yy, p, w = SAMPLES[name]
        yield (
            f"report {name}",
            lambda yy=yy, p=p, w=w: report.calibration_report(
                yy, p, sample_weight=w, n_resamples=39, random_state=0
            ).to_dict(),
        )
    yy, P = CLASSES["three"]
    yield "report three", lambda: report.calibration_report(yy, P, n_resamples=39, random_state=0).to_dict()

    def sketched():
        s = sketch.CalibrationSketch().update(*SAMPLES["many"][:2])
        with tempfile.TemporaryDirectory() as folder:
            s.save(Path(folder) / "s.npz")
            s = sketch.CalibrationSketch.load(Path(folder) / "s.npz")
        return flat(s.as_weighted_sample())

    yield "sketch", sketched


def collect(only):
    found = {}
    for name, call in jobs():
        if not re.search(only, name):
            continue
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found[name] = flat(call())
            except Exception as error:  # what is refused stays refused
                found[name] = f"{type(error).__name__}"
                if type(error).__name__ in ("ImportError", "AttributeError", "NameError", "KeyError"):
                    traceback.print_exc()
        if time.perf_counter() - start > 3:
            print(f"{name}: {time.perf_counter() - start:.1f} s")
    return found


def tolerance(name):
    return max([1e-12] + [value for pattern, (value, _) in LOOSE.items() if re.search(pattern, name)])


def differences(name, a, b, path=""):
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(set(a) | set(b)):
            if key not in a or key not in b:
                yield f"{name}{path}: only {'after' if key in b else 'before'}: {key}"
            else:
                yield from differences(name, a[key], b[key], f"{path}.{key}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for k, (one, two) in enumerate(zip(a, b, strict=True)):
            yield from differences(name, one, two, f"{path}[{k}]")
    elif isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        # words may change
        if type(a) is not type(b) or (path == "" and a != b):
            yield f"{name}{path}: {a!r} | {b!r}"
    elif isinstance(a, list) or isinstance(b, list):
        yield f"{name}{path}: lengths differ"
    else:
        one, two = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
        if one.shape != two.shape:
            yield f"{name}{path}: shapes {one.shape} {two.shape}"
        elif not np.allclose(one, two, rtol=tolerance(name), atol=tolerance(name), equal_nan=True):
            yield f"{name}{path}: largest difference {np.nanmax(np.abs(one - two)):.3g}"


if __name__ == "__main__":
    action, path = sys.argv[1], Path(sys.argv[2])
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    now = collect(only)
    if action == "write":
        path.write_bytes(pickle.dumps(now))
        print(f"{len(now)} entries")
    else:
        before = {
            name: value for name, value in pickle.loads(path.read_bytes()).items() if re.search(only, name)
        }
        lines = [
            line
            for name in before
            for line in (differences(name, before[name], now[name]) if name in now else [f"{name}: gone"])
        ]
        print("\n".join(lines[:200]))
        print(f"{len(before)} entries, {len(lines)} differences")
        sys.exit(bool(lines))
