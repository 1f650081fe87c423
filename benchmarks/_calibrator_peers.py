"""Calibrators to compare, of this package and of others, with a common interface.

An entry is a function ``(scores, labels, new_scores) -> probabilities``. For binary problems scores have
shape (n,), labels are 0 and 1, and the result contains the probabilities of class 1; for multiclass problems
scores have shape (n, K), labels are class indices, and the result has shape (m, K). Packages that cannot be
imported are reported and omitted.
"""

import contextlib
import importlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np

from sklearn_calib import calibrators as ours

Method = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

# Packages and their import names.
PACKAGES = {
    "betacal": "betacal",
    "venn-abers": "venn_abers",
    "uncertainty-calibration": "calibration",
    "probcal": "probcal",
    "calibre": "calibre",
    "splinecalib": "splinecalib",
    "netcal": "netcal",
    "probmetrics": "probmetrics",
}


def own_binary() -> dict[str, Method]:
    """Return the binary calibrators of this package."""
    spline, beta, venn_abers = ours.SplineCalibrator(), ours.BetaCalibrator(), ours.VennAbersCalibrator()
    return {
        name: _fitted(calibrator)
        for name, calibrator in {
            "automatic": ours.AutoCalibrator(),
            "spline": spline,
            "spline, monotone": ours.SplineCalibrator(monotone=True),
            "log average (spline, Venn-Abers, beta)": ours.LogAverageCalibrator([spline, venn_abers, beta]),
            "beta abm": beta,
            "beta ab": ours.BetaCalibrator(parameters="ab"),
            "beta am": ours.BetaCalibrator(parameters="am"),
            "Venn-Abers": venn_abers,
            "Platt, logit": ours.PlattCalibrator(),
            "modified Platt": ours.ModifiedPlattCalibrator(),
            "temperature": ours.TemperatureCalibrator(),
            "isotonic": ours.IsotonicCalibrator(),
            "isotonic, clipped": ours.IsotonicCalibrator(clip="auto"),
            "smoothed": ours.SmoothedCalibrator(),
            "histogram binning": ours.HistogramBinningCalibrator(),
            "scaling-binning": ours.ScalingBinningCalibrator(random_state=0),
            "scaling-binning, all rows": ours.ScalingBinningCalibrator(split=False),
        }.items()
    }


def own_multiclass() -> dict[str, Method]:
    """Return the multiclass calibrators of this package."""
    lift, spline = ours.OneVsRestCalibrator, ours.SplineCalibrator()
    return {
        name: _fitted(calibrator)
        for name, calibrator in {
            "automatic": ours.AutoCalibrator(),
            "log average": ours.LogAverageCalibrator(),
            "temperature": ours.TemperatureCalibrator(),
            "vector scaling": ours.VectorScalingCalibrator(),
            "matrix scaling": ours.MatrixScalingCalibrator(),
            "structured matrix scaling": ours.StructuredMatrixScalingCalibrator(),
            "Dirichlet": ours.DirichletCalibrator(),
            "spline, one vs rest": lift(spline),
            "beta, one vs rest": lift(ours.BetaCalibrator()),
            "Venn-Abers, one vs rest": lift(ours.VennAbersCalibrator()),
            "isotonic, one vs rest": lift(ours.IsotonicCalibrator()),
            "Platt, one vs rest": lift(ours.PlattCalibrator()),
        }.items()
    }


def peers(several: bool, log: Callable[[str], None]) -> dict[str, Method]:
    """Return the calibrators of other packages, named "package: method"."""
    methods = _scikit_learn()
    for package, module in PACKAGES.items():
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                importlib.import_module(module)
                methods |= _READERS[package](several)
        except ImportError as error:
            log(f"{package} is omitted: {error}")
    return methods


def peer(name: str, several: bool) -> Method:
    """Return one of them, and import only its package."""
    package = name.split(": ")[0]
    methods = _scikit_learn() if package == "scikit-learn" else _READERS[package](several)
    return methods[name]


class Forecasts:
    """A fitted classifier whose scores are its probabilities."""

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self.classes_ = np.arange(n_classes)

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Forecasts":
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return X

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classes_[X.argmax(axis=1)]

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _fitted(calibrator: Any) -> Method:
    from sklearn.base import clone

    return lambda scores, labels, new: clone(calibrator).fit(scores, labels).transform(new)


def _both(p: np.ndarray) -> np.ndarray:
    return np.column_stack([1.0 - p, p])


def _scikit_learn() -> dict[str, Method]:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    model = type("Model", (ClassifierMixin, Forecasts, BaseEstimator), {})

    def method(name: str) -> Method:
        def calibrate(scores: np.ndarray, labels: np.ndarray, new: np.ndarray) -> np.ndarray:
            binary = scores.ndim == 1
            wide, new_wide = (_both(scores), _both(new)) if binary else (scores, new)
            frozen = FrozenEstimator(model(wide.shape[1]))
            found = CalibratedClassifierCV(frozen, method=name).fit(wide, labels).predict_proba(new_wide)
            return found[:, 1] if binary else found

        return calibrate

    return {f"scikit-learn: {name}": method(name) for name in ("sigmoid", "isotonic", "temperature")}


def _betacal(several: bool) -> dict[str, Method]:
    from betacal import BetaCalibration

    def method(parameters: str) -> Method:
        return lambda scores, labels, new: (
            BetaCalibration(parameters).fit(scores[:, None], labels).predict(new)
        )

    return {} if several else {f"betacal: {name}": method(name) for name in ("abm", "ab", "am")}


def _venn_abers(several: bool) -> dict[str, Method]:
    from venn_abers import VennAbers

    def binary(scores: np.ndarray, labels: np.ndarray, new: np.ndarray) -> np.ndarray:
        found = VennAbers().fit(_both(scores), labels).predict_proba(_both(new))
        return np.asarray(found[0])[:, 1]

    def multiclass(scores: np.ndarray, labels: np.ndarray, new: np.ndarray) -> np.ndarray:
        from venn_abers import VennAbersCalibrator

        return np.asarray(VennAbersCalibrator().predict_proba(p_cal=scores, y_cal=labels, p_test=new))

    return {"venn-abers: inductive": multiclass if several else binary}


def _uncertainty_calibration(several: bool) -> dict[str, Method]:
    import calibration

    names = {
        False: {
            "Platt": "PlattCalibrator",
            "histogram": "HistogramCalibrator",
            "Platt binner": "PlattBinnerCalibrator",
        },
        True: {"histogram": "HistogramMarginalCalibrator", "Platt binner": "PlattBinnerMarginalCalibrator"},
    }[several]

    def method(name: str) -> Method:
        def calibrate(scores: np.ndarray, labels: np.ndarray, new: np.ndarray) -> np.ndarray:
            calibrator = getattr(calibration, name)(len(labels), 10)
            calibrator.train_calibration(scores, labels)
            return np.asarray(calibrator.calibrate(new))

        return calibrate

    return {f"uncertainty-calibration: {title}": method(name) for title, name in names.items()}


def _probcal(several: bool) -> dict[str, Method]:
    if several:
        return {}
    import probcal

    names = {
        "selector": "CalibratorSelector",
        "spline": "SplineCalibrator",
        "beta": "BetaCalibrator",
        "Platt": "PlattCalibrator",
        "temperature": "TemperatureCalibrator",
        "Venn-Abers": "VennAbersCalibrator",
        "cross Venn-Abers": "CrossVennAbersCalibrator",
        "isotonic": "IsotonicCalibrator",
        "centered isotonic": "CenteredIsotonicCalibrator",
        "histogram": "HistogramBinningCalibrator",
        "scaling-binning": "ScalingBinningCalibrator",
        "BBQ": "BBQCalibrator",
        "ENIR": "ENIRCalibrator",
    }

    def method(name: str) -> Method:
        return lambda scores, labels, new: getattr(probcal, name)().fit(scores, labels).predict_proba(new)

    return {f"probcal: {title}": method(name) for title, name in names.items()}


def _calibre(several: bool) -> dict[str, Method]:
    if several:
        return {}
    import calibre

    names = {
        "nearly isotonic": "NearlyIsotonicRegression",
        "I-spline": "ISplineCalibrator",
        "relaxed PAVA": "RelaxedPAVA",
        "regularized isotonic": "RegularizedIsotonicRegression",
        "smoothed isotonic": "SmoothedIsotonicRegression",
    }

    def method(name: str) -> Method:
        return lambda scores, labels, new: getattr(calibre, name)().fit(scores, labels).transform(new)

    return {f"calibre: {title}": method(name) for title, name in names.items()}


def _splinecalib(several: bool) -> dict[str, Method]:
    from splinecalib import SplineCalib

    def calibrate(scores: np.ndarray, labels: np.ndarray, new: np.ndarray) -> np.ndarray:
        calibrator = SplineCalib()
        calibrator.fit(scores, labels)
        return np.asarray(calibrator.calibrate(new))

    return {"splinecalib: spline": calibrate}


def _netcal(several: bool) -> dict[str, Method]:
    from netcal import binning, scaling

    modules = {
        "temperature": (scaling, "TemperatureScaling"),
        "logistic": (scaling, "LogisticCalibration"),
        "beta": (scaling, "BetaCalibration"),
        "isotonic": (binning, "IsotonicRegression"),
        "histogram": (binning, "HistogramBinning"),
    }
    if not several:
        modules |= {"BBQ": (binning, "BBQ"), "ENIR": (binning, "ENIR")}

    def method(module: Any, name: str) -> Method:
        def calibrate(scores: np.ndarray, labels: np.ndarray, new: np.ndarray) -> np.ndarray:
            calibrator = getattr(module, name)()
            calibrator.fit(scores, labels)
            return np.asarray(calibrator.transform(new))

        return calibrate

    return {f"netcal: {title}": method(*place) for title, place in modules.items()}


def _probmetrics(several: bool) -> dict[str, Method]:
    from probmetrics.calibrators import get_calibrator

    names = {
        False: ("affine-scaling", "quadratic-scaling", "temp-scaling", "ivap", "logistic-mix"),
        True: ("temp-scaling", "svs", "sms", "ivap-ovr", "ts-mix", "logistic-mix"),
    }[several]

    def method(name: str) -> Method:
        def calibrate(scores: np.ndarray, labels: np.ndarray, new: np.ndarray) -> np.ndarray:
            binary = scores.ndim == 1
            wide, new_wide = (_both(scores), _both(new)) if binary else (scores, new)
            calibrator = get_calibrator(name).fit(wide, labels)
            found = np.asarray(calibrator.predict_proba(new_wide))
            return found[:, 1] if binary else found

        return calibrate

    return {f"probmetrics: {name}": method(name) for name in names}


_READERS: dict[str, Callable[[bool], dict[str, Method]]] = {
    "betacal": _betacal,
    "venn-abers": _venn_abers,
    "uncertainty-calibration": _uncertainty_calibration,
    "probcal": _probcal,
    "calibre": _calibre,
    "splinecalib": _splinecalib,
    "netcal": _netcal,
    "probmetrics": _probmetrics,
}
