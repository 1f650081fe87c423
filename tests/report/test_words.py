"""Words of a report, against models whose error is known, and of numbers one by one."""

import numpy as np
import pytest

from sklearn_calib.report import ReportRegion, calibration_report
from sklearn_calib.report._words import probability, region_words, verdict

pytestmark = pytest.mark.usefixtures("one_measure")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def report_of(truth, p, seed=1, **given):
    y = (np.random.default_rng(seed).random(p.shape[0]) < truth).astype(int)
    return calibration_report(y, p, **({"n_resamples": 20} | given))


@pytest.fixture(scope="module")
def uniform():
    return np.random.default_rng(42).uniform(0.02, 0.98, 2500)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.714, "0.71"),
        (0.00123, "0.0012"),
        (0.9988, "0.999"),
        (1.0, "1"),
        (3e-7, "3e-07"),
        (1 - 1e-7, "1-1e-07"),
    ],
)
def test_probability(value, text):
    assert probability(value) == text


@pytest.mark.parametrize(
    ("region", "text"),
    [
        (
            (0.1, 0.4, 0.2, 0.35, 90, 0.3, 0.4, 0.35, 0.6),
            "Between 0.10 and 0.40 the model underpredicts by 15 percentage points: 0.20 predicted, 0.35 "
            "observed, 90 samples; the largest error is between 0.30 and 0.40: 0.35 predicted, 0.60 "
            "observed.",
        ),
        (
            (0.5, 0.5, 0.5, 0.51, 1, 0.5, 0.5, 0.5, 0.51),
            "At 0.50 the model underpredicts by 1 percentage point: 0.50 predicted, 0.51 observed, 1 sample.",
        ),
        (
            (0.0005, 0.02, 0.0012, 0.0024, 7000, 0.0005, 0.02, 0.0012, 0.0024),
            "Between 0.00050 and 0.020 events are 2 times as frequent as predicted: 0.0012 predicted, 0.0024 "
            "observed, 7,000 samples.",
        ),
        (
            (0.0005, 0.02, 0.01, 0.0, 900, 0.0005, 0.02, 0.01, 0.0),
            "Between 0.00050 and 0.020 no events were observed: 0.010 predicted, 0 observed, 900 samples.",
        ),
    ],
)
def test_region_words(region, text):
    assert region_words(ReportRegion(*map(float, region))) == text


def test_a_known_region_in_words(uniform):
    report = report_of(np.where((uniform > 0.5) & (uniform < 0.8), uniform - 0.2, uniform), uniform)
    (region,) = report.regions
    first = report.findings[0]
    span = f"Between {probability(region.lower)} and {probability(region.upper)}"
    assert first.startswith(f"{span} the model overpredicts by")
    assert 15 < -100 * region.gap < 25
    assert verdict(report).level == "off"


def test_calibrated_predictions(uniform):
    report = report_of(uniform, uniform)
    assert not report.miscalibrated
    assert verdict(report).level in ("fine", "open")
    assert report.verdict.startswith(f"No evidence of miscalibration (p = {report.pvalue:.2g})")
    assert len(report.findings) == 1
    assert "Recalibrate" not in " ".join(report.advice)


@pytest.mark.parametrize(
    ("slope", "shift", "kind", "calibrator"),
    [
        (0.4, 0.0, "Overconfident", "PlattCalibrator()"),
        (2.0, 0.0, "Underconfident", "PlattCalibrator()"),
        (1.0, -0.8, "Calibration in the large: predictions are too high", "PriorShiftCalibrator"),
        (1.0, 0.8, "Calibration in the large: predictions are too low", "PriorShiftCalibrator"),
    ],
)
def test_kinds_of_error(slope, shift, kind, calibrator, uniform):
    truth = sigmoid(shift + slope * np.log(uniform / (1 - uniform)))
    report = report_of(truth, uniform)
    assert any(text.startswith(kind) for text in report.findings)
    assert any(text.startswith("No evidence of nonlinear") for text in report.findings)
    assert calibrator in report.advice[0]
    assert "never on the samples of this report" in report.advice[1]


def test_waves_ask_for_more_than_a_line(uniform):
    truth = np.clip(uniform + 0.15 * np.sin(14 * uniform), 0, 1)
    report = report_of(truth, uniform)
    assert any(text.startswith("Nonlinear miscalibration") for text in report.findings)
    assert "IsotonicCalibrator()" in report.advice[0]
    fewer = report_of(truth[:900], uniform[:900])
    assert "SplineCalibrator()" in fewer.advice[0]
    assert "Isotonic" not in fewer.advice[0]


def test_small_but_certain_errors_are_called_slight():
    p = np.random.default_rng(0).uniform(0.3, 0.7, 400)
    times = np.full(400, 5000)
    events = np.random.default_rng(1).binomial(times, p + 0.002)
    report = calibration_report(
        np.repeat([1, 0], 400),
        np.tile(p, 2),
        sample_weight=np.concatenate((events, times - events)),
        n_resamples=20,
    )
    assert report.miscalibrated
    assert verdict(report).level == "slight"
    assert report.advice[0].startswith("The miscalibration is significant but small.")


@pytest.mark.parametrize(
    ("events", "n", "words"),
    [
        (4, 500, "Only 4 of 500 samples are events: only large errors"),
        (460, 500, "Only 40 of 500 samples are non-events"),
        (75, 150, "Only 75 of 150 samples are events"),
        (0, 50, "All 50 samples have the same outcome"),
    ],
)
def test_few_events(events, n, words):
    y = (np.arange(n) < events).astype(int)
    p = np.clip(np.full(n, events / n) + np.linspace(-0.001, 0.001, n), 0.0005, 0.9995)
    assert any(text.startswith(words) for text in calibration_report(y, p, n_resamples=20).warnings)


def test_few_events_ask_for_few_parameters():
    rng = np.random.default_rng(0)
    p = rng.beta(1, 30, 1500)
    report = report_of(np.minimum(2.2 * p, 1), p)
    assert report.n_events < 120
    if report.n_events < 100:
        assert "so few events" in report.advice[0]


def test_predictions_that_tell_nothing():
    p = np.random.default_rng(0).uniform(0.45, 0.55, 800)
    report = report_of(np.full(800, 0.5), p)
    assert any("no evidence that the predictions discriminate" in text for text in report.warnings)
    constant = report_of(np.full(100, 0.5), np.full(100, 0.5))
    assert any(text.startswith("All predictions are equal") for text in constant.warnings)


def test_groups_that_differ_are_named(uniform):
    groups = np.where(np.arange(2500) % 2, "good", "bad")
    report = report_of(np.where(groups == "bad", uniform**2, uniform), uniform, groups=groups)
    assert any(
        text.startswith("Groups differ: bad is significantly miscalibrated (Holm).") for text in report.advice
    )


def test_classes_ask_for_multiclass_calibrators(multiclass_report):
    report = multiclass_report
    assert "TemperatureCalibrator()" in report.advice[0]
    assert "the model overpredicts its accuracy by" in report.findings[0]
    assert any(text.startswith("Overconfident") for text in report.findings)


def test_a_region_without_a_rejection_is_a_hint():
    # one that draws have flagged by chance, where the test that decides sees nothing
    rng = np.random.default_rng(35)
    p = np.round(rng.uniform(size=200), 2)
    report = calibration_report((rng.random(200) < p).astype(int), p, n_resamples=40)
    assert (report.miscalibrated, len(report.regions)) == (False, 1)
    said = report.findings
    assert len(said) == 2
    assert said[1].startswith("The primary test does not reject calibration")


def test_reversed_predictions(uniform):
    report = report_of(1 - uniform, uniform)
    assert any(text.startswith("Reversed") for text in report.findings)
    assert "pos_label" in report.advice[0]


def test_one_sample_is_singular():
    report = calibration_report([1], [0.5], n_resamples=50)
    assert "1 sample is compatible" in str(report)
