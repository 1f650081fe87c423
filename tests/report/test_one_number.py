"""Every function that offers a quantity returns the same estimate, interval and method."""

from functools import cache

import numpy as np
import pytest
from scipy.special import expit, logit

from sklearn_calib.inference import compare_models, confidence_interval
from sklearn_calib.metrics import calibration_summary
from sklearn_calib.plot import ReliabilityDisplay
from sklearn_calib.report import CalibrationRequirements, calibration_report
from tests._samples import simulated
from tests._tiers import thorough

LINES = ("slope", "intercept", "observed_over_expected")
# Names in the report of metrics.
METRICS = {
    "smooth_ece": "smooth_ece", "cutoff_calibration_error": "cutoff", "expected_calibration_error": "ece",
    "integrated_calibration_index": "ici", "calibration_loss": "brier_miscalibration",
    "brier_score": "brier", "log_loss": "log_loss", "roc_auc": None,
}  # fmt: skip
METHODS = {"brier_score": "normal", "log_loss": "normal", "roc_auc": "bootstrap"}
FEW = {"n_resamples": 20, "random_state": 3}
SOME = pytest.mark.parametrize("kind", ["unweighted", "clusters", *map(thorough, ("frequency", "sampling"))])


def given(kind, n=60):
    rng = np.random.default_rng(5)
    p = np.round(expit(rng.normal(-0.3, 1.5, n)), 2).clip(0.02, 0.98)
    y = (rng.random(n) < expit(0.2 + 0.6 * logit(p))).astype(int)
    arguments = {
        "frequency": {"sample_weight": rng.integers(1, 4, n), "weights": "frequency"},
        "sampling": {"sample_weight": np.exp(0.5 * rng.normal(size=n))},
        "clusters": {"clusters": np.arange(n) // 4},
    }.get(kind, {})
    return y, p, arguments


@cache
def report_of(kind):
    y, p, arguments = given(kind)
    return calibration_report(y, p, confidence=0.9, **FEW, **arguments)


def numbers(found):
    return found.estimate, found.lower, found.upper


@pytest.mark.parametrize("kind", ["unweighted", *map(thorough, ("clusters", "frequency", "sampling"))])
def test_slope_intercept_and_ratio(kind):
    y, p, arguments = given(kind)
    summary, report = calibration_summary(y, p, confidence=0.9, **arguments), report_of(kind)
    # of the interval with confidence 1 - 2 alpha
    limits = {name: [-5.0, 5.0] for name in LINES}
    checked = CalibrationRequirements(limits, alpha=0.05).check(y, p, **FEW, **arguments)
    look = {"annotate": True, "band": None, "curve": "binned", "show_legend": False}
    drawn = ReliabilityDisplay.from_predictions(y, p, confidence=0.9, **look, **arguments)
    head, *shown = drawn.annotation.split("\n")
    assert head == "estimate [90% interval]"
    in_json = report.to_dict()["metrics"]
    robust = kind not in ("unweighted", "frequency")
    for name, required, text in zip(LINES, checked.results, shown, strict=False):
        expected = getattr(summary, name)
        method = "Clopper-Pearson" if name == LINES[2] else "sandwich" if robust else "profile"
        assert expected.method == required.method == report.metric(name).method == method
        assert numbers(getattr(report.summary, name)) == numbers(expected)
        assert numbers(report.metric(name)) == pytest.approx(numbers(expected), rel=1e-12)
        assert numbers(required) == pytest.approx(numbers(expected), rel=1e-9)
        saved = [in_json[name][key] for key in ("estimate", "lower", "upper")]
        assert saved == pytest.approx(numbers(expected), rel=1e-12)
        shown_ends = f"[{expected.lower:.2f}, {expected.upper:.2f}]"
        assert text == f"{name.replace('_over_', '/')} {expected.estimate:.2f} {shown_ends}"


@SOME
def test_metrics(kind):
    y, p, arguments = given(kind)
    report = report_of(kind)
    errors = [name for name in METRICS if name not in METHODS]
    limits = dict.fromkeys(errors, 0.5) | {name: [-1.0, 2.0] for name in METHODS}
    checked = CalibrationRequirements(limits, alpha=0.05).check(y, p, **FEW, **arguments)
    assert [result.name for result in checked.results] == list(limits)
    for required in checked.results:
        name = required.name
        expected = confidence_interval(y, p, metric=name, confidence=0.9, **FEW, **arguments)
        assert expected.method == required.method == METHODS.get(name, "inversion")
        pairs = [required]
        if METRICS[name]:
            pairs.append(report.metric(METRICS[name]))
            in_json = report.to_dict()["metrics"][METRICS[name]]
            assert in_json["method"] == expected.method
            assert in_json["corrected"] == pytest.approx(expected.corrected, rel=1e-12)
        if name == "brier_score":
            assert report.metric("brier").expected == pytest.approx(expected.expected, rel=1e-12)
        for found in pairs:
            assert numbers(found) == pytest.approx(numbers(expected), rel=1e-12)
            assert found.corrected == pytest.approx(expected.corrected, rel=1e-12)


@SOME
@pytest.mark.parametrize("metric", ["cutoff_calibration_error", "brier_score", "roc_auc"])
def test_models_of_a_comparison(kind, metric):
    y, p, arguments = given(kind)
    models = {"a": p, "b": p**2}
    for row in compare_models(y, models, metric=metric, n_resamples=19, **arguments).models:
        expected = confidence_interval(y, models[row.name], metric=metric, **arguments)
        assert row.method == expected.method == METHODS.get(metric, "inversion")
        assert numbers(row) == pytest.approx(numbers(expected), rel=1e-9)
        assert row.corrected == pytest.approx(expected.corrected, rel=1e-9)


def test_many_distinct_predictions():
    """Both doors pool neighbors in the same way."""
    y, p = simulated(5000, truth=1.1)
    given = {"metric": "cutoff_calibration_error", "confidence": 0.9}
    found = confidence_interval(y, p, **given, **FEW)
    (checked,) = CalibrationRequirements({"cutoff_calibration_error": 0.1}).check(y, p, **FEW).results
    assert (*numbers(checked), checked.corrected) == (*numbers(found), found.corrected)
    slope = calibration_summary(y, p, confidence=0.9).slope
    (checked,) = CalibrationRequirements({"slope": [0.1, 2]}).check(y, p, **FEW).results
    assert numbers(checked) == numbers(slope)
