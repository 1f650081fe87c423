"""Words of a report, against models whose error is known, and of numbers one by one."""

import re
from dataclasses import replace

import numpy as np
import pytest

from sklearn_calib.calibrators import GroupCalibrator, PlattCalibrator
from sklearn_calib.inference import Region
from sklearn_calib.metrics import IntervalEstimate
from sklearn_calib.report import calibration_report
from sklearn_calib.report._words import probability, region_words, verdict, warnings
from tests._every import short_report
from tests._optional import pandas as pd
from tests._samples import simulated
from tests._tiers import thorough

pytestmark = pytest.mark.usefixtures("one_measure")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def report_of(truth, p, seed=1, **given):
    y = (np.random.default_rng(seed).random(p.shape[0]) < truth).astype(int)
    return calibration_report(y, p, **({"n_resamples": 20} | given))


@pytest.fixture(scope="module")
def uniform():
    return np.random.default_rng(42).uniform(0.02, 0.98, 2500).round(2)


@pytest.fixture(scope="module")
def calibrated(uniform):
    return short_report((np.random.default_rng(1).random(2500) < uniform).astype(int), uniform)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.714, "0.71"), (0.00123, "0.0012"), (0.9988, "0.999"), (1.0, "1"), (3e-7, "3e-07"),
     (1 - 1e-7, "1-1e-07")],
)  # fmt: skip
def test_probability(value, text):
    assert probability(value) == text


@pytest.mark.parametrize(
    ("region", "text"),
    [((0.1, 0.4, 0.2, 0.35, 90, 0.3, 0.4, 0.35, 0.6),
      "Between 0.10 and 0.40 the model underpredicts by 15 percentage points: 0.20 predicted, 0.35 observed, "
      "90 samples; the largest error is between 0.30 and 0.40: 0.35 predicted, 0.60 observed."),
     ((0.5, 0.5, 0.5, 0.51, 1),
      "At 0.50 the model underpredicts by 1 percentage point: 0.50 predicted, 0.51 observed, 1 sample."),
     ((0.0005, 0.02, 0.0012, 0.0024, 7000),
      "Between 0.00050 and 0.020 events are 2 times as frequent as predicted: 0.0012 predicted, 0.0024 "
      "observed, 7,000 samples."),
     ((0.0005, 0.02, 0.01, 0.0, 900),
      "Between 0.00050 and 0.020 no events were observed: 0.010 predicted, 0 observed, 900 samples.")],
)  # fmt: skip
def test_region_words(region, text):
    """Without a part of larger error, it is the whole region."""
    assert region_words(Region(*map(float, region + region[:4] * (len(region) == 5)))) == text


def test_calibrated_predictions(calibrated):
    report = calibrated
    assert not report.miscalibrated
    assert report.verdict.startswith(f"No evidence of miscalibration (p = {report.pvalue:.2g})")
    assert len(report.findings) == 1
    assert "Recalibrate" not in " ".join(report.advice)
    assert "sampling noise inflates estimates" in calibrated.verdict
    first, *others = calibrated.metrics
    below = replace(first, estimate=0.5 * first.corrected)
    assert "inflates" not in verdict(replace(calibrated, metrics=(below, *others))).detail


@pytest.mark.parametrize(
    ("slope", "shift", "kind"),
    [(0.4, 0.0, "Overconfident"), (2.0, 0.0, "Underconfident"),
     (1.0, -0.8, "Calibration in the large: predictions are too high"),
     (1.0, 0.8, "Calibration in the large: predictions are too low")],
)  # fmt: skip
def test_kinds_of_error(slope, shift, kind, uniform):
    truth = sigmoid(shift + slope * np.log(uniform / (1 - uniform)))
    report = report_of(truth, uniform)
    (found,) = (text for text in report.findings if text.startswith(kind))
    assert ("calibration intercept" in found) == (slope == 1.0)
    assert any(text.startswith("No evidence of nonlinear") for text in report.findings)
    assert ("PriorShiftCalibrator" if slope == 1.0 else "PlattCalibrator()") in report.advice[0]
    assert "never on the samples of this report" in report.advice[1]


def test_waves_and_reversed_predictions(uniform):
    truth = np.clip(uniform + 0.15 * np.sin(14 * uniform), 0, 1)
    report = report_of(truth, uniform)
    assert any(text.startswith("Nonlinear miscalibration") for text in report.findings)
    assert report.selection.chosen == "SplineCalibrator()"
    assert "CalibratedClassifier(model, SplineCalibrator())" in report.advice[1]
    report = report_of(1 - uniform, uniform)
    assert any(text.startswith("Reversed") for text in report.findings)
    assert "pos_label" in report.advice[0]


@pytest.mark.parametrize("groups", [thorough(None), np.tile(np.arange(400) % 2, 2)])
def test_small_but_certain_errors_are_called_slight(groups):
    p, times = np.random.default_rng(0).uniform(0.3, 0.7, 400).round(3), np.full(400, 5000)
    events = np.random.default_rng(1).binomial(times, p + 0.002)
    given = {"sample_weight": np.concatenate((events, times - events)), "weights": "frequency"}
    y, p = np.repeat([1, 0], 400), np.tile(p, 2)
    report = calibration_report(y, p, groups=groups, n_resamples=20, **given)
    assert report.miscalibrated
    assert ("Miscalibrated when tested separately" in verdict(report).title) == (groups is not None)
    assert verdict(report).level == "slight"
    assert report.advice[0].startswith("The miscalibration is significant but small.")
    if groups is not None:
        # one group with a large error is a reason to recalibrate
        large = replace(report.groups[0], estimate=0.02)
        assert verdict(replace(report, groups=(large, report.groups[1]))).level == "off"
        apart = replace(report, pvalue=0.9)
        assert verdict(apart).level == "slight"
        assert apart.advice[0].startswith("The miscalibration is significant but small.")


def test_few_events(calibrated):
    for events, n, words in (
        (4, 500, "Only 4 of 500 samples are events: only large errors"),
        (460, 500, "Only 40 of 500 samples are non-events"),
        (75, 150, "Only 75 of 150 samples are events: confidence intervals are wide"),
    ):
        (text,) = warnings(replace(calibrated, n_samples=float(n), n_events=float(events)))
        assert text.startswith(words)


def test_predictions_that_tell_nothing():
    p = np.random.default_rng(0).uniform(0.45, 0.55, 800).round(2)
    report = report_of(np.full(800, 0.5), p)
    assert any("no evidence that the predictions discriminate" in text for text in report.warnings)
    constant = report_of(np.full(100, 0.5), np.full(100, 0.5))
    assert any(text.startswith("All predictions are equal") for text in constant.warnings)
    p = np.linspace(-0.001, 0.001, 50).clip(0.0005)
    found = calibration_report(np.zeros(50, dtype=int), p, n_resamples=20).warnings
    assert any(text.startswith("All 50 samples have the same outcome") for text in found)


def test_groups_that_differ_are_named(uniform):
    groups = np.where(np.arange(2500) % 2, "good", "bad")
    truth = np.where(groups == "bad", uniform**2, uniform)
    y = (np.random.default_rng(1).random(2500) < truth).astype(int)
    report = calibration_report(y, uniform, groups=groups, n_resamples=20)
    assert report.advice[0].startswith("Groups differ (p < 0.0001): bad is significantly miscalibrated.")
    # the recommended calls, as printed
    calls = r"(?:Group)?[Cc]alibrator(?:\(\).fit|.predict_proba)\([^)]*\)"
    fit, predict = re.findall(calls, report.advice[1])
    given = {"p": uniform, "y": y, "groups": groups, "GroupCalibrator": GroupCalibrator}
    given["calibrator"] = eval(fit, given)
    found = eval(predict, given)[:, 1]
    assert np.abs(found - truth).mean() < 0.03


def test_names_of_segments():
    rng = np.random.default_rng(0)
    status = rng.choice(["Married-civ-spouse-or-partner", "Never-married"], 3000)
    work = rng.choice(["Exec-managerial-and-professional", "Other-service"], 3000)
    p = rng.uniform(0.1, 0.9, 3000).round(2)
    off = (status == "Never-married") == (work == "Other-service")
    features = {"marital-status": status, "occupation": work}
    report = report_of(p + np.where(off, -0.1, 0.1), p, features=features)
    names = [str(segment) for segment in report.segments.segments]
    assert max(map(len, names)) > 70
    text = " ".join(report.findings)
    assert all(f"Segment {name}: the model" in text for name in names[:3])
    assert all(name in report.verdict for name in names[:3])
    assert any("passthrough=True), SegmentCalibrator()).fit(X, y)" in line for line in report.advice)
    assert "SegmentCalibrator" not in str(replace(report, segments=None))
    rng = np.random.default_rng(0)
    X, p = rng.integers(0, 2, (2000, 2)), rng.uniform(0.4, 0.6, 2000).round(2)
    shift = np.where(X[:, 0] == 1, np.where(X[:, 1] == 1, 0.3, 0.0), np.where(X[:, 1] == 1, 0.0, -0.3))
    y = (rng.random(2000) < p + shift).astype(int)
    table = pd.DataFrame(X.astype(str), columns=["a", "b"])
    report = calibration_report(y, p, features=table, n_resamples=20)
    names = [str(each) for each in report.segments.segments[:2]]
    assert all(" and " in name for name in names)
    text = " ".join(str(report).split())
    assert any(f"segments {'; '.join(order)}" in text for order in (names, names[::-1]))


def test_classes_ask_for_multiclass_calibrators(multiclass_report):
    report = multiclass_report
    assert "TemperatureCalibrator()" in report.advice[0]
    assert "the model overpredicts its accuracy by" in report.findings[0]
    assert any(text.startswith("Overconfident") for text in report.findings)
    # of classes with equal p-values the largest excess over the expected error is the worst
    tied = tuple(
        replace(part, name=name, pvalue=0.01, adjusted=0.01, estimate=error, expected=0.02)
        for part, name, error in zip(report.classes, "abc", (0.03, 0.1, 0.05), strict=True)
    )
    title = verdict(replace(report, classes=tied)).title
    assert title.endswith("Miscalibrated when tested separately: classes b, c and a.")


def test_the_grade_is_what_the_interval_shows():
    """Limits .01 and .05, for outcomes of which the rarer has more than a quarter."""
    p = np.linspace(0.1, 0.9, 400)
    report = calibration_report(np.random.default_rng(0).random(400) < p, p, n_resamples=20)
    others = tuple(line for line in report.metrics if line.key != "smooth_ece")
    for lower, upper, grade in (
        (0.001, 0.009, "small"),
        (0.0, 0.016, "at most 0.0160"),
        (0.0, 0.3, "at most 0.3000"),
        (0.012, 0.04, "between small and large"),
        (0.03, 0.06, "between 0.0300 and 0.0600"),
        (0.06, 0.1, "large"),
    ):
        error = replace(report.metric("smooth_ece"), lower=lower, upper=upper)
        found = verdict(replace(report, pvalue=0.001, metrics=(error, *others)))
        assert found.title.startswith(f"Miscalibrated (p = 0.001); the error is {grade}.")


def test_a_region_without_a_rejection_is_a_hint():
    # one that draws have flagged by chance, where the test that decides sees nothing
    report = calibration_report(*simulated(200, seed=35, digits=2), n_resamples=40)
    assert (report.miscalibrated, len(report.regions)) == (False, 1)
    said = report.findings
    assert len(said) == 2
    assert said[1].startswith("The primary test does not reject calibration")


def test_one_miscalibrated_group():
    """It underpredicts by 16 percentage points, and all samples together do not show it."""
    rng = np.random.default_rng(2)
    p, groups = rng.beta(2, 3, 2000).round(2), np.where(np.arange(2000) < 100, "B", "A")
    y = (rng.random(2000) < np.where(groups == "B", p + 0.16, p)).astype(int)
    report = calibration_report(y, p, groups=groups, n_resamples=20)
    assert report.pvalue > 0.05
    assert report.miscalibrated
    (_, part) = report.groups
    assert report.verdict.startswith(f"Miscalibrated: group B (adjusted p = {part.adjusted:.2g}).")
    assert report.findings[0].startswith("Group B: the model underpredicts by ")
    assert report.advice[0].startswith(f"Groups differ (p = {report.groups_pvalue:.2g}): B is significantly")
    assert "Do not recalibrate" not in str(report)
    # The larger of two groups is significantly miscalibrated, the other is too small to show it
    rng = np.random.default_rng(0)
    p, groups = rng.uniform(0.1, 0.9, 3300).round(2), np.where(np.arange(3300) < 300, "B", "A")
    report = report_of(sigmoid(np.log(p / (1 - p)) + 0.25), p, groups=groups)
    assert [part.name for _, part in report.significant_parts] == ["A"]
    assert report.groups_pvalue > 0.05
    assert report.advice[0].startswith("Recalibrate. Of")
    words = "Of the groups, A is significantly miscalibrated, but there is no evidence that groups differ"
    assert f"{words} (p = {report.groups_pvalue:.2g})." in report.advice


def test_intervals_without_the_ideal_value_are_too_few_samples():
    """The primary test does not reject, and an interval of the slope does."""
    p = np.random.default_rng(5).uniform(size=60)
    report = report_of(sigmoid(0.5 * np.log(p / (1 - p))), p, seed=33)
    slope = report.metric("slope")
    assert slope.upper < 1
    assert not report.miscalibrated
    assert report.verdict.startswith(f"Unclear (p = {report.pvalue:.2g}): the calibration")
    assert f"calibration slope {slope.estimate:.2f} (95% interval {slope.lower:.2f} to" in report.verdict
    assert report.advice[0].startswith("Collect more samples")
    # secondary tests are not significant unless the primary test is
    assert min(test.adjusted for test in report.tests[1:]) >= report.pvalue


def test_inconclusive_reports(calibrated):
    """The primary test does not reject, and another test, an interval, or a metric does."""
    assert verdict(calibrated).level == "fine"
    cox = replace(calibrated.tests[3], result=replace(calibrated.tests[3].result, pvalue=0.004))
    shifted = replace(calibrated.summary, intercept=IntervalEstimate(0.25, 0.03, 0.48))
    starred = [replace(line, estimate=line.null_upper + 1) for line in calibrated.metrics[:2]]
    for change, words in (
        ({"tests": (*calibrated.tests[:3], cox, *calibrated.tests[4:])}, "(p = 0.016 by Holm's method)."),
        ({"summary": shifted}, "the calibration intercept 0.25 (95% interval 0.03 to 0.48) suggests"),
        ({"metrics": (*starred, *calibrated.metrics[2:])}, "2 of the metrics outside the 95% range under"),
        ({"metrics": (starred[0], *calibrated.metrics[1:])}, 'the metric "smooth ECE" outside the 95% range'),
    ):
        found = verdict(replace(calibrated, **change))
        assert found.level == "open"
        assert found.title.startswith("Inconclusive: the primary" if "tests" in change else "Unclear (p = ")
        assert words in found.title
        assert "metrics" in change or found.detail == verdict(calibrated).detail


def test_recommendations_leave_out_whole_clusters():
    """The predictions name the clusters, and the outcomes of other samples of a cluster predict nothing."""
    rng, clusters = np.random.default_rng(0), np.repeat(np.arange(60), 20)
    p = np.linspace(0.2, 0.8, 60)[clusters]
    rate = sigmoid(np.log(p / (1 - p)) + 1.0 + 1.5 * rng.normal(size=60)[clusters])
    y = (rng.random(1200) < rate).astype(int)
    report = calibration_report(y, p, clusters=clusters, n_resamples=20)
    losses = {one.name: one.log_loss for one in report.selection.candidates}
    expected, fold = 0.0, (np.random.default_rng(0).permutation(60) % 5)[clusters]
    for k in range(5):
        q = PlattCalibrator().fit(p[fold != k], y[fold != k]).transform(p[fold == k])
        expected -= np.sum(np.log(np.where(y[fold == k], q, 1 - q)))
    assert losses["PlattCalibrator()"] == pytest.approx(expected / 1200, rel=1e-9)
