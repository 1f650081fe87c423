"""Calls of every metric, test and calibrator of the package, for timing.

They are found by the ``__all__`` of the subpackages, so that none is missing. Objects with required arguments
have them in ``SETTINGS``; other settings with a different cost are listed in ``VARIANTS``.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from sklearn_calib import calibrators, inference, metrics, plot, report
from sklearn_calib.monitor import StreamingCalibrator
from sklearn_calib.sketch import CalibrationSketch

Task = Callable[[], object]
N_CLASSES = 10


@dataclass(frozen=True)
class Data:
    """Outcomes and predictions of n samples, binary and with ten classes, and new predictions."""

    n: int

    @cached_property
    def p(self) -> np.ndarray:
        return np.random.default_rng(0).beta(0.7, 0.9, self.n)

    @cached_property
    def y(self) -> np.ndarray:
        return (np.random.default_rng(1).random(self.n) < self.p**1.1).astype(np.int64)

    @cached_property
    def fresh(self) -> np.ndarray:
        return np.random.default_rng(2).beta(0.7, 0.9, self.n)

    @cached_property
    def rows(self) -> np.ndarray:
        """Overconfident probabilities of ten classes."""
        return _softmax(2 * np.random.default_rng(3).standard_normal((self.n, N_CLASSES)))

    @cached_property
    def labels(self) -> np.ndarray:
        noise = np.random.default_rng(4).gumbel(size=(self.n, N_CLASSES))
        labels = (0.5 * np.log(self.rows) + noise).argmax(axis=1)
        labels[:N_CLASSES] = np.arange(N_CLASSES)
        return labels

    @cached_property
    def fresh_rows(self) -> np.ndarray:
        return _softmax(2 * np.random.default_rng(5).standard_normal((self.n, N_CLASSES)))


Build = Callable[[Data], Task]


@lru_cache(maxsize=8)
def data_of(n: int) -> Data:
    """Return n samples."""
    return Data(n)


def _softmax(logits: np.ndarray) -> np.ndarray:
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return logits


#: Required arguments.
SETTINGS: dict[str, dict[str, Any]] = {
    "decision_risk_gap": {"threshold": 0.3},
    "risk_coverage_curve": {"reduction": "confidence"},
    "ConsistencyTest": {"metric": metrics.smooth_ece},
    "PriorShiftCalibrator": {"training_weight": "balanced"},
    "ScalingBinningCalibrator": {"random_state": 0},
    "CertifiedCalibrator": {"random_state": 0},
    "OneVsRestCalibrator": {"calibrator": calibrators.IsotonicCalibrator()},
}
#: Other settings of the same objects, by their description.
VARIANTS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "expected_calibration_error": [
        ("equal mass", {"strategy": "quantile"}),
        ("debiased l2", {"strategy": "quantile", "norm": "l2", "debias": True}),
        ("largest gap", {"norm": "max"}),
    ],
    "smooth_ece": [("logit scale", {"scale": "logit"})],
    "kernel_calibration_error": [("biased", {"debias": False})],
    "score_decomposition": [("log loss", {"score": "log_loss"})],
    "TCal": [("asymptotic", {"method": "asymptotic"})],
    "SpiegelhalterTest": [("asymptotic", {"method": "asymptotic"})],
    "HosmerLemeshowTest": [("asymptotic", {"method": "asymptotic"})],
    "CoxTest": [("asymptotic", {"method": "asymptotic"})],
    "CombinedTest": [("asymptotic", {"method": "asymptotic"})],
    "KernelTest": [
        ("asymptotic", {"method": "asymptotic"}),
    ],
    "BetaCalibrator": [("ab", {"parameters": "ab"}), ("am", {"parameters": "am"})],
    "SplineCalibrator": [("monotone", {"monotone": True})],
    "ScalingBinningCalibrator": [("all rows", {"split": False})],
    "HistogramBinningCalibrator": [("equal width", {"strategy": "uniform"})],
}
# These are the same as others for two classes, or base classes.
_SEVERAL_ONLY = {"OneVsRestCalibrator"}
_ABSTRACT = {"BaseCalibrator", "CalibrationTest"}


def _named(name: str, settings: dict[str, Any], make: Callable[[dict[str, Any]], Build]) -> dict[str, Build]:
    """Return the entries of an object: with default settings, and its variants."""
    found = {name: make(settings)}
    for said, other in VARIANTS.get(name, []):
        found[f"{name}, {said}"] = make(settings | other)
    return found


def own_metrics() -> dict[str, Build]:
    """Return every function of ``sklearn_calib.metrics``."""
    found: dict[str, Build] = {}
    for name in metrics.__all__:
        function = getattr(metrics, name)
        if inspect.isfunction(function):
            alone = "y_true" not in inspect.signature(function).parameters

            def make(settings: dict[str, Any], function: Any = function, alone: bool = alone) -> Build:
                return lambda data: _call(function, *([] if alone else [data.y]), data.p, **settings)

            found |= _named(name, SETTINGS.get(name, {}), make)
    found["CalibrationSketch"] = lambda data: _call(
        lambda y, p: CalibrationSketch().update(y, p), data.y, data.p
    )
    return found


def own_tests(draws: int | None = None) -> dict[str, Build]:
    """Return every test of calibration, with ``draws`` simulations if given."""
    found: dict[str, Build] = {}
    for name in inference.__all__:
        kind = getattr(inference, name)
        if not inspect.isclass(kind) or not issubclass(kind, inference.CalibrationTest) or name in _ABSTRACT:
            continue

        def make(settings: dict[str, Any], kind: Any = kind) -> Build:
            settings = settings | _draws(kind, draws)
            return lambda data: _call(kind(**settings).test, data.y, values_of(kind, data))

        found |= _named(name, SETTINGS.get(name, {}), make)
    return found


def values_of(kind: type, data: Data) -> np.ndarray:
    """Return the predictions; for the binomial test, which needs few distinct ones, bin midpoints."""
    return (np.floor(data.p * 20) + 0.5) / 20 if kind is inference.BinomialTest else data.p


def calibrator_classes() -> list[str]:
    """Return the names of all calibrators."""
    return [
        name
        for name in calibrators.__all__
        if inspect.isclass(getattr(calibrators, name))
        and issubclass(getattr(calibrators, name), calibrators.BaseCalibrator)
        and name not in _ABSTRACT
    ]


def own_calibrators() -> dict[str, Build]:
    """Return every binary calibrator: its fit, and its map of as many new scores."""
    found: dict[str, Build] = {}
    for name in calibrator_classes():
        if name not in _SEVERAL_ONLY:

            def make(settings: dict[str, Any], name: str = name) -> Build:
                made = getattr(calibrators, name)(**settings)
                return lambda data: _fit(made, data.p, data.y, data.fresh)

            found |= _named(name, SETTINGS.get(name, {}), make)
    # it refits while it iterates over the samples
    found["StreamingCalibrator"] = lambda data: _fit(StreamingCalibrator(), data.p, data.y, data.fresh)
    return found


def own_several() -> dict[str, Build]:
    """Return every multiclass calibrator, for ten classes."""
    found: dict[str, Build] = {}
    lift = calibrators.OneVsRestCalibrator
    for name in calibrator_classes():
        made = getattr(calibrators, name)(**SETTINGS.get(name, {}))
        if made.__sklearn_tags__().classifier_tags.multi_class:
            found[f"{name}, ten classes"] = lambda data, made=made: _fit(
                made, data.rows, data.labels, data.fresh_rows
            )
    del found["OneVsRestCalibrator, ten classes"]
    for name in ("IsotonicCalibrator", "PlattCalibrator", "VennAbersCalibrator", "BetaCalibrator"):
        made = lift(getattr(calibrators, name)())
        found[f"OneVsRestCalibrator({name}), ten classes"] = lambda data, made=made: _fit(
            made, data.rows, data.labels, data.fresh_rows
        )
    return found


def own_metrics_of_classes() -> dict[str, Build]:
    """Return every metric with multiclass support, for ten classes."""
    found: dict[str, Build] = {}
    for name in metrics.__all__:
        function = getattr(metrics, name)
        if inspect.isfunction(function) and "reduction" in inspect.signature(function).parameters:
            settings = {"reduction": "classwise"} | SETTINGS.get(name, {})
            found[f"{name}, ten classes"] = lambda data, function=function, settings=settings: _call(
                function, data.labels, data.rows, **settings
            )
    return found


def own_intervals(draws: int | None = None) -> dict[str, Build]:
    """Return every function that quantifies the uncertainty of an error by resampling."""
    metric = metrics.smooth_ece

    def of_pair(function: Any, *, table: bool) -> Build:
        some = _draws(function, draws) | {"random_state": 0}

        def build(data: Data) -> Task:
            if table:
                models = {"one": data.p, "two": data.fresh}
                return _call(function, data.y, models, metric=metrics.expected_calibration_error, **some)
            return _call(function, data.y, data.p, data.fresh, metric=metric, **some)

        return build

    interval, null = inference.confidence_interval, inference.expected_under_calibration
    some = _draws(interval, draws) | {"random_state": 0}
    return {
        "confidence_interval": lambda data: _call(interval, data.y, data.p, metric=metric, **some),
        "confidence_interval, percentile": lambda data: _call(
            interval, data.y, data.p, metric=metric, method="bootstrap", **some
        ),
        "expected_under_calibration": lambda data: _call(null, None, data.p, metric=metric, **some),
        "compare_models": of_pair(inference.compare_models, table=True),
        "cutoff_certificate": lambda data: _call(
            lambda p, y: calibrators.IsotonicCalibrator().fit(p, y).cutoff_certificate(method="asymptotic"),
            data.p,
            data.y,
        ),
        "cutoff_certificate, fitted": lambda data: _call(
            lambda p, y: (
                calibrators.IsotonicCalibrator()
                .fit(p, y)
                .cutoff_certificate(n_resamples=draws or 999, random_state=0)
            ),
            data.p,
            data.y,
        ),
    }


def own_report(draws: int | None = None) -> dict[str, Build]:
    """Return the calibration report."""
    return {
        "calibration_report": lambda data: _call(
            report.calibration_report, data.y, data.p, n_resamples=draws or 200, random_state=0
        )
    }


def own_displays(draws: int | None = None) -> dict[str, Build]:
    """Return every display of predictions, including its computations."""
    few = {} if draws is None else {"n_resamples": draws}
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "ReliabilityDisplay": (plot.ReliabilityDisplay, {}),
        "ReliabilityDisplay, consistency": (plot.ReliabilityDisplay, {"band": "consistency"}),
        "ReliabilityDisplay, logit axes": (plot.ReliabilityDisplay, {"scale": "logit"}),
        "ReliabilityDisplay, binned": (plot.ReliabilityDisplay, {"curve": "binned"}),
        "ReliabilityDisplay, isotonic": (plot.ReliabilityDisplay, {"curve": "isotonic"}),
        "ReliabilityDisplay, isotonic, simultaneous": (
            plot.ReliabilityDisplay,
            {"curve": "isotonic", "band": "simultaneous"},
        ),
        "CutoffDisplay": (plot.CutoffDisplay, {}),
        "DecisionDisplay": (plot.DecisionDisplay, {}),
        "RiskCoverageDisplay": (plot.RiskCoverageDisplay, {"confidence": 0.95}),
        "BinningDisplay": (plot.BinningDisplay, {}),
        "TestDisplay": (plot.TestDisplay, {"test": inference.CutoffTest(**few, random_state=0)}),
        "ComparisonDisplay": (
            plot.ComparisonDisplay,
            few | {"metrics": metrics.expected_calibration_error, "random_state": 0},
        ),
    }

    def make(kind: Any, settings: dict[str, Any]) -> Build:
        def build(data: Data) -> Task:
            given: tuple[Any, ...] = (data.y, data.p)
            if kind is plot.ComparisonDisplay:
                given = (data.y, {"one": data.p, "two": data.fresh})
            return lambda: _closed(kind.from_predictions(*given, **settings))

        return build

    return {name: make(*entry) for name, entry in kinds.items()}


def _closed(display: Any) -> Any:
    from matplotlib import pyplot

    pyplot.close("all")
    return display


def families(draws: int | None = None) -> dict[str, dict[str, Build]]:
    """Return all entries, by family."""
    found = {
        "metrics": own_metrics(),
        "tests": own_tests(draws),
        "intervals": own_intervals(draws),
        "calibrators": own_calibrators(),
        "metrics of ten classes": own_metrics_of_classes(),
        "calibrators of ten classes": own_several(),
        "displays": own_displays(draws),
        "report": own_report(draws),
    }
    found["sketch"] = {"CalibrationSketch": found["metrics"].pop("CalibrationSketch")}
    return found


def own() -> dict[str, Build]:
    """Return all of them."""
    return own_metrics() | own_tests() | own_calibrators() | own_several()


def _draws(function: Any, draws: int | None) -> dict[str, int]:
    known = inspect.signature(function).parameters
    return {} if draws is None or "n_resamples" not in known else {"n_resamples": draws}


def _call(function: Callable[..., object], *arguments: Any, **settings: Any) -> Task:
    return lambda: function(*arguments, **settings)


def _fit(calibrator: Any, scores: np.ndarray, labels: np.ndarray, fresh: np.ndarray) -> Task:
    from sklearn.base import clone

    return lambda: clone(calibrator).fit(scores, labels).predict_proba(fresh)
