"""Equivalent calls of other packages, for timing in comparison with ours.

For each entry of ``_entries``, ``PEERS`` has those of other packages that compute the same quantity, or fit
the same type of map; ``tests/test_peers.py`` tests which of them return equal numbers. Data are converted,
for example to tensors, before the timing starts. A package is imported when its first entry is created.
"""

import importlib
import warnings
from typing import Any

import numpy as np
import sklearn.calibration
from _calibrator_peers import PACKAGES, peer
from _entries import Build, Data

# The compared function is private.
_SIGMOID = sklearn.calibration._SigmoidCalibration
N_BINS = 15


def function(path: str, order: str = "yp", **settings: Any) -> Build:
    """Return the entry of a function of outcomes and predictions, in this order ("yp") or reversed ("py")."""

    def build(data: Data) -> Any:
        call = _load(path)
        first, second = (data.y, data.p) if order == "yp" else (data.p, data.y)
        return lambda: call(first, second, **settings)

    return build


def _load(path: str) -> Any:
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)


def netcal_measure(name: str, *arguments: Any, **settings: Any) -> Build:
    def build(data: Data) -> Any:
        measure = _load(f"netcal.metrics.{name}")(*arguments, **settings).measure
        return lambda: measure(data.p, data.y)

    return build


def probmetrics_measure(name: str) -> Build:
    def build(data: Data) -> Any:
        import torch
        from probmetrics import distributions, metrics

        measure = getattr(metrics, name)()
        y_true = distributions.CategoricalDirac(torch.as_tensor(data.y), 2)
        y_pred = distributions.CategoricalProbs(torch.as_tensor(np.column_stack([1 - data.p, data.p])))
        return lambda: measure.compute(y_true, y_pred)

    return build


def torchmetrics_ece(norm: str) -> Build:
    def build(data: Data) -> Any:
        import torch
        from torchmetrics.functional.classification import binary_calibration_error as error

        p, y = torch.as_tensor(data.p), torch.as_tensor(data.y)
        return lambda: error(p, y, n_bins=N_BINS, norm=norm)

    return build


def equal_width(path: str) -> Build:
    """Return the binned error of uncertainty-calibration, whose default bins have equal mass."""

    def build(data: Data) -> Any:
        call, bins = _load(path), _load("calibration.utils.get_equal_prob_bins")
        return lambda: call(data.p, data.y, p=1, debias=False, num_bins=N_BINS, binning_scheme=bins)

    return build


def of_grades(path: str) -> Build:
    """Return the entry of a test of outcomes that are grouped by twenty grades."""

    def build(data: Data) -> Any:
        call, grades = _load(path), (data.p * 20).astype(np.int64)
        p = (grades + 0.5) / 20
        return lambda: call(data.y, p, grades)

    return build


def regressor(make: Any, **settings: Any) -> Build:
    """Return the entry of a regressor of scikit-learn, without a wrapper."""

    def build(data: Data) -> Any:
        return lambda: make(**settings).fit(data.p, data.y).predict(data.fresh)

    return build


def calibrator(name: str, several: bool = False) -> Build:
    """Return the entry of a calibrator of ``_calibrator_peers``: its fit, and its map of new scores."""

    def build(data: Data) -> Any:
        method = peer(name, several)
        if several:
            return lambda: method(data.rows, data.labels, data.fresh_rows)
        return lambda: method(data.p, data.y, data.fresh)

    return build


def _calibrators(*names: str, several: bool = False) -> dict[str, Build]:
    return {name: calibrator(name, several) for name in names}


#: Entries of other packages, "package: name", by the equivalent entry of this package.
PEERS: dict[str, dict[str, Build]] = {
    "expected_calibration_error": {
        "scikit-learn: calibration_curve": function(
            "sklearn.calibration.calibration_curve", n_bins=N_BINS, strategy="uniform"
        ),
        "netcal: ECE": netcal_measure("ECE", N_BINS),
        "probcal: ece": function("probcal.metrics.ece", n_bins=N_BINS, strategy="width"),
        "relplot: binnedECE": function("relplot.metrics.binnedECE", "py", nbins=N_BINS),
        "uncertainty-calibration: get_ece": equal_width("calibration.lower_bound_scaling_ce"),
        "calibre: expected_calibration_error": function("calibre.expected_calibration_error", n_bins=N_BINS),
        "torchmetrics: binary_calibration_error": torchmetrics_ece("l1"),
    },
    "expected_calibration_error, equal mass": {
        "probcal: ece": function("probcal.metrics.ece", n_bins=N_BINS),
        "netcal: ACE": netcal_measure("ACE", N_BINS, equal_intervals=False),
        "uncertainty-calibration: get_ece_em": function(
            "calibration.utils.get_ece_em", "py", num_bins=N_BINS
        ),
        "calibre: binned_calibration_error": function(
            "calibre.binned_calibration_error", n_bins=N_BINS, strategy="quantile"
        ),
    },
    "expected_calibration_error, debiased l2": {
        "uncertainty-calibration: lower_bound_scaling_ce": function(
            "calibration.lower_bound_scaling_ce", "py", num_bins=N_BINS
        ),
        "probcal: ece_debiased": function("probcal.metrics.ece_debiased", n_bins=N_BINS),
    },
    "expected_calibration_error, largest gap": {
        "netcal: MCE": netcal_measure("MCE", N_BINS),
        "probcal: ece": function("probcal.metrics.ece", n_bins=N_BINS, strategy="width", norm="max"),
        "calibre: maximum_calibration_error": function("calibre.maximum_calibration_error", n_bins=N_BINS),
        "torchmetrics: binary_calibration_error": torchmetrics_ece("max"),
    },
    "sweep_calibration_error": {"probcal: ece_sweep": function("probcal.metrics.ece_sweep")},
    "smooth_ece": {
        "relplot: smECE": function("relplot.smECE", "py"),
        "probmetrics: SmoothCalibrationError": probmetrics_measure("SmoothCalibrationError"),
    },
    "smooth_ece, logit scale": {"probcal: smooth_ece": function("probcal.metrics.smooth_ece")},
    "cutoff_calibration_error": {
        "probcal: ecce": function("probcal.metrics.ecce"),
        "probmetrics: Kuiper": probmetrics_measure("KuiperCalibrationMetric"),
    },
    "kernel_calibration_error": {"probcal: skce": function("probcal.metrics.skce")},
    "kernel_calibration_error, biased": {
        "netcal: MMCE": netcal_measure("MMCE"),
        "probcal: skce": function("probcal.metrics.skce", estimator="biased"),
        "relplot: laplace_calibration_approx": function("relplot.metrics.laplace_calibration_approx", "py"),
    },
    "interval_calibration_error": {"relplot: intCE_rand": function("relplot.metrics.intCE_rand", "py")},
    "integrated_calibration_index": {"probcal: ici": function("probcal.metrics.ici")},
    "calibration_summary": {"probcal: reliability_summary": function("probcal.metrics.reliability_summary")},
    "score_decomposition": {
        "probcal: murphy_decomposition": function("probcal.metrics.murphy_decomposition")
    },
    "score_decomposition, log loss": {
        "probcal: logloss_calibration_refinement": function("probcal.metrics.logloss_calibration_refinement")
    },
    "decision_risk_result": {
        "probcal: murphy_curve": function("probcal.metrics.murphy_curve", thresholds=99)
    },
    "SpiegelhalterTest, asymptotic": {
        "probcal: spiegelhalter_z": function("probcal.metrics.spiegelhalter_z")
    },
    "HosmerLemeshowTest, asymptotic": {
        "probcal: hosmer_lemeshow": function("probcal.metrics.hosmer_lemeshow")
    },
    "CoxTest, asymptotic": {"probcal: calibration_test": function("probcal.metrics.calibration_test")},
    "KernelTest": {"probcal: skce_test": function("probcal.metrics.skce_test")},
    "BinomialTest": {"probcal: binomial_grade_test": of_grades("probcal.metrics.binomial_grade_test")},
    "IsotonicCalibrator": {
        "scikit-learn: IsotonicRegression": regressor(
            _load("sklearn.isotonic.IsotonicRegression"), out_of_bounds="clip"
        ),
        **_calibrators("scikit-learn: isotonic", "probcal: isotonic", "netcal: isotonic"),
    },
    "SmoothedCalibrator": _calibrators("calibre: smoothed isotonic"),
    "PlattCalibrator": {
        "scikit-learn: _SigmoidCalibration": regressor(_SIGMOID),
        **_calibrators(
            "scikit-learn: sigmoid",
            "probcal: Platt",
            "netcal: logistic",
            "uncertainty-calibration: Platt",
            "probmetrics: affine-scaling",
        ),
    },
    "TemperatureCalibrator": _calibrators(
        "scikit-learn: temperature",
        "probcal: temperature",
        "netcal: temperature",
        "probmetrics: temp-scaling",
    ),
    "BetaCalibrator": _calibrators("betacal: abm", "probcal: beta", "netcal: beta"),
    "BetaCalibrator, ab": _calibrators("betacal: ab"),
    "BetaCalibrator, am": _calibrators("betacal: am"),
    "SplineCalibrator": _calibrators("splinecalib: spline"),
    "SplineCalibrator, monotone": _calibrators("probcal: spline", "calibre: I-spline"),
    "VennAbersCalibrator": _calibrators("venn-abers: inductive", "probcal: Venn-Abers", "probmetrics: ivap"),
    "HistogramBinningCalibrator": _calibrators("probcal: histogram", "uncertainty-calibration: histogram"),
    "HistogramBinningCalibrator, equal width": _calibrators("netcal: histogram"),
    "ScalingBinningCalibrator": _calibrators("probcal: scaling-binning"),
    "ScalingBinningCalibrator, all rows": _calibrators("uncertainty-calibration: Platt binner"),
    "AutoCalibrator": _calibrators("probcal: selector"),
    "TemperatureCalibrator, ten classes": _calibrators(
        "scikit-learn: temperature", "netcal: temperature", "probmetrics: temp-scaling", several=True
    ),
    "StructuredMatrixScalingCalibrator, ten classes": _calibrators("probmetrics: sms", several=True),
    "VectorScalingCalibrator, ten classes": _calibrators("probmetrics: svs", several=True),
    "OneVsRestCalibrator(IsotonicCalibrator), ten classes": _calibrators(
        "scikit-learn: isotonic", "netcal: isotonic", several=True
    ),
    "OneVsRestCalibrator(PlattCalibrator), ten classes": _calibrators("scikit-learn: sigmoid", several=True),
    "OneVsRestCalibrator(VennAbersCalibrator), ten classes": _calibrators(
        "venn-abers: inductive", "probmetrics: ivap-ovr", several=True
    ),
    "OneVsRestCalibrator(BetaCalibrator), ten classes": _calibrators("netcal: beta", several=True),
}
#: Packages by their import names.
MODULES = PACKAGES | {"relplot": "relplot", "torchmetrics": "torchmetrics", "scikit-learn": "sklearn"}


def missing_packages() -> dict[str, str]:
    """Return the packages that cannot be imported, with the reason."""
    found = {}
    for package, module in MODULES.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(module)
        except ImportError as error:
            found[package] = str(error)
    return found
