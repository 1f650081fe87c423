"""calibration_report: its numbers are those of the functions that it calls, and its input is checked."""

import json
import sys
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom, norm
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss

from sklearn_calib import metrics
from sklearn_calib.inference import (
    BinomialTest,
    CombinedTest,
    CoxTest,
    CutoffTest,
    SpiegelhalterTest,
    TCal,
    confidence_interval,
    expected_under_calibration,
    find_segments,
)
from sklearn_calib.inference._data_checks import contradiction_pvalue, largest_rounded
from sklearn_calib.report import CalibrationReport, calibration_report
from sklearn_calib.report._words import segment_words
from tests._every import short_report
from tests._optional import pandas as pd
from tests._references import holm
from tests._samples import simulated, simulated_classes
from tests._tiers import thorough
from tests.report._page import checked

DEBIASED = partial(metrics.expected_calibration_error, norm="l2", strategy="quantile", debias=True)
FUNCTIONS = {
    "smooth_ece": metrics.smooth_ece,
    "cutoff": metrics.cutoff_calibration_error,
    "logit_smoothed_ece": metrics.logit_smoothed_ece,
    "ece": metrics.expected_calibration_error,
    "l2": DEBIASED,
    "ici": metrics.integrated_calibration_index,
    "brier_miscalibration": metrics.calibration_loss,
    "log_loss_miscalibration": partial(metrics.calibration_loss, score="log_loss"),
}


@pytest.mark.parametrize("key", FUNCTIONS)
def test_values_and_floors_are_those_of_the_functions(key, forecast, report):
    """Intervals are compared in test_one_number."""
    line = report.metric(key)
    assert line.estimate == pytest.approx(FUNCTIONS[key](*forecast), rel=1e-9)
    if key not in ("ici", "logit_smoothed_ece", "log_loss_miscalibration"):
        given = {"metric": FUNCTIONS[key], "n_resamples": 20, "random_state": 3}
        floor = expected_under_calibration(None, forecast[1], **given)
        found = line.expected, line.null_upper
        np.testing.assert_allclose(found, (floor.expected, floor.quantile), rtol=1e-9)
        assert line.exceeds == (line.estimate > floor.quantile)


def test_observed_minus_expected(forecast, report):
    summary, difference = metrics.calibration_summary(*forecast), report.metric("observed_minus_expected")
    assert difference.estimate == pytest.approx(summary.observed_minus_expected)
    ratio, predicted = summary.observed_over_expected, forecast[1].mean()
    ends = [predicted * (end - 1) for end in (ratio.lower, ratio.upper)]
    np.testing.assert_allclose([difference.lower, difference.upper], ends, rtol=1e-6)
    with pytest.raises(ValueError, match="'smooth_ece'"):
        report.metric("nothing")


def test_intervals_and_ranges_stay_in_those_of_their_quantities():
    ranges = {"brier": (0, 1), "log_loss": (0, np.inf), "observed_over_expected": (0, 1 / 0.002)}
    ranges["observed_minus_expected"] = (-0.002, 0.998)
    found = calibration_report([0] * 29 + [1], [0.002] * 30, n_resamples=20)
    for key, (low, high) in ranges.items():
        line = found.metric(key)
        assert low <= line.lower < line.estimate < line.upper <= high
        assert low <= line.null_lower < line.null_upper <= high


@pytest.mark.parametrize("score", ["brier", "log_loss"])
def test_parts_of_scores(score, forecast, report):
    parts = metrics.score_decomposition(*forecast, score=score)
    assert report.metric(score).estimate == pytest.approx(parts.score)
    assert getattr(report, score).miscalibration == pytest.approx(parts.miscalibration)
    if score == "brier":
        assert report.metric("brier_discrimination").estimate == pytest.approx(parts.discrimination)
        assert report.metric("brier_uncertainty").estimate == pytest.approx(parts.uncertainty)


@pytest.mark.weekly
def test_normal_ranges_of_perfect_predictions_agree_with_draws(forecast):
    p, rng, drawn = forecast[1], np.random.default_rng(5), []
    for _ in range(300):
        y = (rng.random(600) < p).astype(int)
        summary = metrics.calibration_summary(y, p)
        losses = np.mean((y - p) ** 2), -np.mean(np.log(np.where(y == 1, p, 1 - p)))
        drawn.append((*losses, np.mean(y - p), summary.intercept.estimate, summary.slope.estimate))
    report = calibration_report(*forecast, n_resamples=20)
    names = ("brier", "log_loss", "observed_minus_expected", "intercept", "slope")
    for key, values in zip(names, np.transpose(drawn), strict=True):
        line = report.metric(key)
        assert abs(values.mean() - line.expected) < 0.1 * (line.null_upper - line.null_lower)
        inside = np.mean((values >= line.null_lower) & (values <= line.null_upper))
        # 300 draws: four standard errors, and a little for the approximation
        assert 0.89 < inside <= 1.0


def test_tests_are_those_of_the_subpackage(forecast, report):
    found = {line.name: line.result.pvalue for line in report.tests}
    expected = {"combined test": CombinedTest, "T-Cal": TCal, "cutoff test": CutoffTest, "Cox test": CoxTest}
    expected["Spiegelhalter's z"] = SpiegelhalterTest
    draws = {"n_resamples": 199, "random_state": 3}
    assert found == {name: test(**draws).test(*forecast).pvalue for name, test in expected.items()}
    # two families of tests, because the report has groups
    assert report.pvalue == min(1.0, 2 * found["combined test"])
    assert np.isnan(report.tests[0].adjusted)
    rest = [2 * line.result.pvalue for line in report.tests[1:]]
    adjusted = np.maximum(holm(rest), report.pvalue)
    assert [line.adjusted for line in report.tests[1:]] == pytest.approx(adjusted, rel=1e-12)


def test_which_tests_are_made(one_measure):
    y, p = simulated(300, "choice", [0.2, 0.5, 0.7])
    report = calibration_report(y, p, n_resamples=20)
    assert report.tests[-1].result.pvalue == BinomialTest().test(y, p).pvalue
    assert any("3 distinct predictions" in text for text in report.warnings)
    # asymptotic distributions need events, not only samples
    p, million = [1e-6, 1e-6, 2e-6, 2e-6], 10**6
    times = [1, million, 3, million]
    report = calibration_report([1, 0, 1, 0], p, sample_weight=times, weights="frequency", n_resamples=20)
    result = report.tests[0].result
    assert "simulations" in result.method
    assert result.pvalue > 0.2


def test_frequencies_are_repetitions(forecast, one_measure):
    y, p = forecast[0][:50], forecast[1][:50]
    times = np.random.default_rng(0).integers(0, 4, 50)
    weighted = calibration_report(y, p, sample_weight=times, weights="frequency", n_resamples=20)
    repeated = calibration_report(np.repeat(y, times), np.repeat(p, times), n_resamples=20)
    assert weighted.n_samples == repeated.n_samples == times.sum()
    for one, other in zip(weighted.metrics, repeated.metrics, strict=True):
        for name in ("estimate", "lower", "upper", "expected", "null_upper"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-5, atol=1e-7)
    for one, other in zip(weighted.tests, repeated.tests, strict=True):
        assert one.result.pvalue == pytest.approx(other.result.pvalue)
    assert weighted.regions == repeated.regions


def test_equal_seeds_give_equal_reports(forecast, one_measure):
    y, p = forecast[0][:40], forecast[1][:40]
    first, second, other = (calibration_report(y, p, n_resamples=20, random_state=seed) for seed in (7, 7, 8))
    assert str(first) == str(second) != str(other)
    drawn = calibration_report(y, p, n_resamples=20, random_state=np.random.default_rng(0))
    assert str(calibration_report(y, p, n_resamples=20, random_state=drawn.seed)) == str(drawn)


def test_multiclass(multiclass, multiclass_report):
    (y, p), report = multiclass, multiclass_report
    right, confidence = (p.argmax(axis=1) == y).astype(int), p.max(axis=1)
    assert report.kind == "confidence"
    assert report.metric("smooth_ece").estimate == pytest.approx(metrics.smooth_ece(right, confidence))
    assert [part.name for part in report.classes] == ["0", "1", "2"]
    for k, part in enumerate(report.classes):
        assert part.estimate == pytest.approx(metrics.smooth_ece((y == k).astype(int), p[:, k]))
        assert part.n_events == (y == k).sum()
        assert part.predicted == pytest.approx(p[:, k].mean())
    joint = CutoffTest(n_resamples=199, random_state=0).test(y, p)
    assert report.pvalue == report.tests[0].result.pvalue == joint.pvalue
    tested = {part.label: part for part in joint.scales}
    for k, part in enumerate(report.classes):
        assert (part.pvalue, part.adjusted) == (tested[k].pvalue, tested[k].adjusted_pvalue)
    assert report.miscalibrated
    assert "mean over classes p " in str(report)
    assert "confidence p " in str(report)


def test_names_of_classes_and_two_families(multiclass, one_measure, no_class_intervals):
    """Columns are those of the sorted names; with groups there are two families of tests."""
    y, p = multiclass[0][:150], multiclass[1][:150]
    given = np.array(["c", "a", "b"])[y], p[:, [1, 2, 0]]
    report = calibration_report(*given, groups=np.arange(150) % 2, n_resamples=20)
    assert [part.name for part in report.classes] == ["a", "b", "c"]
    assert report.classes[2].estimate == pytest.approx(metrics.smooth_ece((y == 0).astype(int), p[:, 0]))
    joint = CutoffTest(n_resamples=199, random_state=0).test(*given)
    assert report.pvalue == min(1.0, 2 * joint.pvalue)
    adjusted = {part.label: min(1.0, 2 * part.adjusted_pvalue) for part in joint.scales}
    assert [part.adjusted for part in report.classes] == [adjusted[label] for label in "abc"]


def test_multiclass_numbers_say_their_reduction(multiclass, multiclass_report):
    """Metrics of the confidence come first, then the values that the functions return for (y, P)."""
    (y, p), report = multiclass, multiclass_report
    assert report.metric("smooth_ece").reduction == "confidence"
    for key, value, reduction in (
        ("smooth_ece_classwise", metrics.smooth_ece(y, p), "classwise"),
        ("log_loss_multiclass", log_loss(y, p), "multiclass"),
        ("brier_multiclass", np.mean(np.sum((p - np.eye(3)[y]) ** 2, axis=1)), "multiclass"),
    ):
        line = report.metric(key)
        assert (line.estimate, line.reduction) == (pytest.approx(value, rel=1e-9), reduction)
    assert {test.reduction for test in report.tests} == {"confidence", "joint"}
    text = str(report)
    for reduction in ("confidence: ", "classwise: ", "multiclass: "):
        assert f"\n  {reduction}" in text
    for test in report.tests:
        assert f"{test.name} ({test.reduction})" in text
    (y, p), line = multiclass, multiclass_report.metric("smooth_ece_classwise")
    given = {"metric": "smooth_ece", "n_resamples": 20, "reduction": "classwise"}
    found = confidence_interval(y, p, **given)
    ends = found.lower, found.upper, found.corrected
    assert (line.lower, line.upper, line.corrected) == pytest.approx(ends, rel=1e-9)
    null = expected_under_calibration(y, p, **given)
    assert (line.expected, line.null_upper) == pytest.approx((null.expected, null.quantile), rel=1e-9)
    loss, line = confidence_interval(y, p, metric="log_loss"), multiclass_report.metric("log_loss_multiclass")
    assert (line.lower, line.upper) == pytest.approx((loss.lower, loss.upper), rel=1e-6)


@pytest.mark.thorough
@pytest.mark.usefixtures("one_measure", "no_class_intervals")
def test_large_samples_of_classes_are_simulated_less_often(multiclass, monkeypatch):
    monkeypatch.setattr("sklearn_calib.report._numbers._MOST_OUTCOMES", 250 * 300)
    y, p = multiclass
    report = calibration_report(y[:100], p[:100], n_resamples=80)
    assert report.tests[0].result.null_distribution.size == 250
    assert np.isnan(report.metric("smooth_ece_classwise").lower)


def test_infinite_log_loss_of_all_classes(one_measure, no_class_intervals):
    p = np.tile([[1.0, 0.0, 0.0], [0.2, 0.3, 0.5]], (30, 1))
    report = calibration_report(np.tile([0, 1, 1, 2, 0, 0], 10), p, n_resamples=20)
    # 30 samples with two zeros each; of their outcomes 0, 1, 0 a third is contradicted
    assert (report.n_certain, report.n_impossible) == (60, 10)
    assert report.findings[0].startswith("10 of 60 predictions of exactly 0 or 1 were contradicted")
    assert report.metric("log_loss_multiclass").estimate == np.inf
    assert "inf" in str(report)
    assert report.to_dict()["metrics"]["log_loss_multiclass"]["estimate"] is None


def test_groups(forecast, groups, report, one_measure):
    y, p = forecast
    assert [part.name for part in report.groups] == np.unique(groups).tolist()
    for part in report.groups:
        rows = groups == part.name
        assert part.estimate == pytest.approx(metrics.smooth_ece(y[rows], p[rows]), rel=1e-9)
        assert (part.n_samples, part.n_events) == (rows.sum(), y[rows].sum())
        assert part.pvalue == CutoffTest(n_resamples=199, random_state=3).test(y[rows], p[rows]).pvalue
    pvalues = np.array([part.pvalue for part in report.groups])
    assert [part.adjusted for part in report.groups] == pytest.approx(holm(2 * pvalues), rel=1e-12)
    y, p = forecast[0][:60], forecast[1][:60]
    w = np.arange(60) % 2
    report = calibration_report(y, p, groups=np.array(["left", "right"])[w], sample_weight=w, n_resamples=20)
    assert [part.name for part in report.groups] == ["right"]


@pytest.fixture(scope="module")
def segmented():
    """Predictions that are too low in one segment, calibrated on average, and the report."""
    rng, n = np.random.default_rng(0), 1500
    X = {"age": rng.integers(18, 80, n), "region": rng.choice(["north", "south"], n), "nothing": [None] * n}
    p, off = rng.uniform(0.1, 0.5, n).round(2), (X["age"] <= 31) & (X["region"] == "south")
    y = (rng.random(n) < p + np.where(off, 0.35, -0.04)).astype(int)
    return X, y, p, short_report(y, p, features=X, random_state=3)


SEGMENT = "age <= 31 and region = south"
PIPELINE = "make_pipeline(CrossFitScorer(model, passthrough=True), SegmentCalibrator()).fit(X, y)"


def test_segments(segmented):
    """All p-values are multiplied by the number of families."""
    X, y, p, report = segmented
    found = find_segments(X, y, p, confidence=0.975, n_resamples=199, random_state=3)
    assert [row.segment for row in report.segments.segments] == [row.segment for row in found.segments]
    first = report.segments.segments[0]
    assert (first.segment, first.adjusted_pvalue) == (SEGMENT, 2 * found.segments[0].adjusted_pvalue)
    assert (first.lower, first.upper) == (found.segments[0].lower, found.segments[0].upper)
    # calibrated on average, so that the segment alone is significant
    assert report.pvalue == min(1.0, 2 * report.tests[0].result.pvalue) > 0.05
    assert report.to_dict()["segments"]["segments"][0]["segment"] == SEGMENT


def test_segments_are_shown(segmented, no_matplotlib):
    pytest.importorskip("jinja2")
    report = segmented[-1]
    assert SEGMENT in report.verdict
    assert PIPELINE in report.advice[1]
    assert any(line.startswith(f"Segment {SEGMENT}: the model underpredicts by") for line in report.findings)
    text = " ".join(str(report).split())
    assert "multiplied by 2, because segments are tested, too" in text
    assert "Columns left out: nothing (all values are missing)." in text
    assert max(map(len, str(report).splitlines())) <= 100
    html = report.to_html()
    assert {SEGMENT, "Segments"} <= set(checked(html).text)
    assert f"<code>{PIPELINE}</code>" in html


def test_without_significant_segments(one_measure, no_matplotlib):
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.5, 300).round(2)
    y, X = (rng.random(300) < p).astype(int), {"age": rng.integers(18, 80, 300)}
    report = calibration_report(y, p, features=X, n_resamples=20)
    assert not report.miscalibrated
    assert segment_words(report).startswith("No evidence of miscalibration")
    assert f'<h2>Segments</h2>\n<p class="soft small">{segment_words(report)}' in report.to_html()
    few = calibration_report([0, 1] * 10, [0.5] * 20, features=[1] * 20, n_resamples=20)
    assert few.segments.n_tested == 0


@pytest.fixture(scope="module")
def labeled():
    """Outcomes and too extreme predictions of two labels that depend on each other."""
    rng = np.random.default_rng(0)
    p = rng.beta(2, 3, 80)
    y = rng.random(80) < p
    P = np.column_stack([p**1.5, np.where(y, 0.6, 0.4)])
    return np.column_stack([y, rng.random(80) < P[:, 1]]).astype(int), P


@pytest.mark.parametrize("kind", ["sampling", "clusters", thorough("plain"), thorough("frequency")])
def test_labels_are_tested_jointly_and_pairs_have_samples_as_clusters(kind, labeled, one_measure):
    y, p = labeled
    rng, rows = np.random.default_rng(1), np.arange(80)
    given, pairs = {}, {}
    if kind == "sampling":
        given = {"sample_weight": rng.uniform(0.5, 2, 80)}
        pairs = {"sample_weight": np.tile(given["sample_weight"], 2)}
    elif kind == "frequency":
        given = {"sample_weight": rng.integers(0, 3, 80), "weights": kind}
        rows = np.repeat(rows, given["sample_weight"])
    elif kind == "clusters":
        given = {"clusters": np.arange(80) // 4}
    pairs["clusters"] = np.tile(given.get("clusters", np.arange(rows.size)), 2)
    found = calibration_report(y, p, n_resamples=20, **given)
    expected = calibration_report(y[rows].T.ravel(), p[rows].T.ravel(), n_resamples=20, **pairs)
    assert (found.kind, found.n_samples) == ("multilabel", 2 * rows.size)
    for line, other in zip(found.metrics, expected.metrics, strict=True):
        assert line.reduction == "pairs"
        for name in ("estimate", "lower", "upper"):
            np.testing.assert_allclose(getattr(line, name), getattr(other, name))
    assert [test.result.pvalue for test in found.tests[1:]] == [t.result.pvalue for t in expected.tests]
    assert found.n_clusters == expected.n_clusters
    joint = CutoffTest(n_resamples=199, random_state=0).test(y, p, **given)
    assert found.pvalue == joint.pvalue
    tested = sorted(joint.scales, key=lambda each: each.label)
    for k, (part, single) in enumerate(zip(found.classes, tested, strict=True)):
        assert (part.name, part.n_events) == (str(k), y[rows, k].sum())
        assert (part.pvalue, part.adjusted) == (single.pvalue, single.adjusted_pvalue)
        error = metrics.smooth_ece(y[:, k], p[:, k], sample_weight=given.get("sample_weight"))
        assert part.estimate == pytest.approx(error)
    assert np.isnan(found.dependence_pvalue)


def test_words_of_a_multilabel_report(labeled, one_measure):
    y, p = (np.tile(part, (3, 1)) for part in labeled)
    each = [np.column_stack([1 - q, q]) for q in p.T]
    report = calibration_report(y, each, n_resamples=20)
    assert report.miscalibrated
    page, text = report.to_html(), str(report)
    assert "480 predictions of 2 labels" in text
    assert "Labels, worst first" in text
    assert "Joint test:" not in text
    assert "Joint cutoff test of all labels: p = 0.005" in " ".join(text.split())
    assert "Miscalibrated when tested separately: label 0." in report.verdict
    assert any(line.startswith("Label 0: the model underpredicts") for line in report.findings)
    assert "MultiOutputClassifier(CalibratedClassifier(model, " in report.advice[1]
    assert "<h2>Labels" in page
    assert "Calibration curve of each label." in page
    assert checked(page)


def test_one_or_two_names_of_labels(labeled, one_measure):
    y, p = labeled
    table = pd.DataFrame(y, columns=["red", "big"])
    assert [part.name for part in calibration_report(table, p, n_resamples=20).classes] == ["red", "big"]
    with pytest.raises(ValueError, match="groups and features are not supported for multilabel targets"):
        calibration_report(y, p, groups=y[:, 0])
    words = np.array(["no", "yes"])[y[:, 0]]
    report = calibration_report(words, p[:, 0], labels=["no", "yes"], n_resamples=20)
    assert (report.positive, report.n_events) == ("yes", y[:, 0].sum())
    assert report.metric("smooth_ece").estimate == pytest.approx(metrics.smooth_ece(y[:, 0], p[:, 0]))


def test_from_estimator(one_measure, no_class_intervals, labeled):
    X, y = load_iris(return_X_y=True)
    X = X + np.random.default_rng(0).normal(0, 1.0, X.shape)
    model = LogisticRegression().fit(X[::2], y[::2])
    report = CalibrationReport.from_estimator(model, X[1::2], y[1::2], n_resamples=20)
    assert report.name == "LogisticRegression"
    proba = model.predict_proba(X[1::2])
    expected = metrics.smooth_ece(y[1::2], proba, reduction="confidence")
    assert report.metric("smooth_ece").estimate == pytest.approx(expected)
    names = np.array(["no", "yes"])[(y > 0).astype(int)]
    model = LogisticRegression().fit(X[::2], names[::2])
    given = {"name": "it", "pos_label": "no", "n_resamples": 20}
    binary = CalibrationReport.from_estimator(model, X[1::2], names[1::2], **given)
    p = model.predict_proba(X[1::2])[:, 0]
    assert (binary.name, binary.positive) == ("it", "no")
    expected = metrics.smooth_ece((names[1::2] == "no").astype(int), p)
    assert binary.metric("smooth_ece").estimate == pytest.approx(expected, rel=1e-9)
    with pytest.raises(TypeError, match="predict_proba"):
        CalibrationReport.from_estimator(RidgeClassifier().fit(X, y), X, y)
    y, p = labeled
    model = RandomForestClassifier(5, max_depth=2, random_state=0).fit(p, y)
    report = CalibrationReport.from_estimator(model, p, y, n_resamples=20)
    P = np.column_stack([q[:, 1] for q in model.predict_proba(p)])
    assert report.metric("smooth_ece").estimate == pytest.approx(metrics.smooth_ece(y.ravel(), P.ravel()))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("y", "p"),
    [([0, 1], [0.3, 0.6]), ([1] * 40, np.linspace(0.1, 0.9, 40)), ([0] * 40, [0.2] * 40),
     ([0, 1, 0, 1], [0.0, 1.0, 0.0, 1.0]), ([1, 0, 0, 1, 1], [0.0, 1.0, 0.5, 0.5, 1.0]),
     (np.arange(60) % 2, [0.5] * 60)],
    ids=["two rows", "only events", "no event", "certain and right", "impossible", "constant"],
)  # fmt: skip
def test_odd_samples_are_reported(y, p):
    report = calibration_report(y, p, n_resamples=20)
    text, page = str(report), report.to_html()
    assert max(map(len, text.splitlines())) <= 100
    assert "nan" not in text.lower()
    assert page.startswith("<!DOCTYPE html>")
    assert report.to_dict()["n_samples"] == len(y)


def test_contradicted_predictions_of_0_and_1(one_measure):
    y, p = np.r_[np.arange(300) % 2, 1, 0, 0], np.r_[np.full(300, 0.5), 0.0, 0.0, 0.0]
    report = calibration_report(y, p, n_resamples=20)
    assert (report.n_impossible, report.n_certain) == (1.0, 3.0)
    assert report.pvalue == report.tests[0].result.pvalue > 0.5
    assert report.verdict.startswith("Miscalibrated: 1 of 3 predictions of exactly 0 or 1 was contradicted")
    assert report.to_dict()["verdict"]["level"] == "slight"
    assert "without 1 sample that contradicts a prediction of 0 or 1" in report.verdict
    assert report.advice[1].startswith("Clip predictions to [0.0017, 1 - 0.0017]")
    assert "small" not in report.advice[0]
    assert report.metric("log_loss").estimate == np.inf
    # as many as rounding explains are a finding alone
    rounded = calibration_report(np.r_[y, np.zeros(97)], np.r_[p, np.zeros(97)], n_resamples=20)
    assert not rounded.miscalibrated
    assert rounded.findings[0].startswith("1 of 100 predictions of exactly 0 or 1 was contradicted, as")
    # slope, its interval and its range are those of the samples with finite log-odds
    y, p = np.r_[y, np.arange(600) % 4 > 0], np.r_[p, np.full(600, 0.75)]
    found, inside = (calibration_report(*given, n_resamples=20) for given in ((y, p), (y[p > 0], p[p > 0])))
    for key in ("intercept", "slope"):
        line, expected = found.metric(key), inside.metric(key)
        assert (line.estimate, line.lower, line.upper) == (expected.estimate, expected.lower, expected.upper)
        assert line.null_upper == pytest.approx(expected.null_upper, rel=1e-12)
    assert found.residual_pvalue == inside.residual_pvalue
    # a classifier that knows only 0 and 1, and is right in 80% of all cases
    y = (np.arange(500) % 5 > 0).astype(int)
    report = calibration_report(y, np.ones(500), n_resamples=20)
    assert report.miscalibrated
    words = "Miscalibrated: 100 of 500 predictions of exactly 0 or 1 were contradicted."
    assert report.verdict.startswith(words)
    assert "more than rounding explains (of probabilities of up to 0.001; p < 0.0001)" in report.findings[0]


@pytest.mark.parametrize(
    ("values", "rounding"),
    [
        *(([0, 0.01, 0.02, 0.05, 0.3], 0.005), ([0.05, 0.3, 0.45, 1], 0.025), ([0, 1 / 300, 0.5], 1 / 600)),
        # not rounded; steps too wide to call this rounding; finer than 1 / n
        *(([0, 0.013579246, 0.3], 1 / 5000), ([0, 0.25, 1], 1 / 5000), ([0, 0.0001, 0.3], 1 / 5000)),
    ],
)
def test_the_step_of_rounded_predictions(values, rounding):
    for dtype in (np.float64, np.float32):
        p = np.array(values, dtype=dtype).astype(float)
        assert largest_rounded(p, 2500) == pytest.approx(rounding)


@pytest.mark.parametrize(("n", "step"), [(20_000, 0.01), (2000, 0.05)])
def test_rounding_of_calibrated_predictions_is_not_miscalibration(n, step):
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        p = rng.beta(1, 4, n)
        rounded, y = np.rint(p / step) * step, rng.random(n) < p
        contradicted = np.sum(y[rounded == 0])
        found.append(contradiction_pvalue(contradicted, np.sum(rounded == 0), largest_rounded(rounded, n)))
    assert np.mean(np.array(found) <= 0.05) <= 0.05


def test_progress_is_announced(forecast, capsys):
    seen = []
    given = {"groups": np.arange(40) % 2, "progress": lambda *step: seen.append(step)}
    calibration_report(forecast[0][:40], forecast[1][:40], n_resamples=20, **given)
    total = seen[0][1]
    assert [step[0] for step in seen] == list(range(total))
    assert {step[2] for step in seen} >= {"smooth ECE", "tests of calibration"}
    assert capsys.readouterr().err == ""


def test_a_bar_is_drawn_on_stderr_and_needs_tqdm(forecast, capsys, monkeypatch, one_measure):
    pytest.importorskip("tqdm")
    given = {"y_true": forecast[0][:50], "y_proba": forecast[1][:50], "n_resamples": 20, "progress": True}
    calibration_report(**given)
    out, err = capsys.readouterr()
    assert out == ""
    assert "tests of calibration" in err
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ImportError, match=r"sklearn-calib\[report\]"):
        calibration_report(**given)
    calibration_report(**given | {"progress": False})


def test_bad_input():
    for change, error, message in [
        ({"y_proba": [0.5] * 5 + [1.5]}, ValueError, "outside"),
        ({"confidence": 1.0}, ValueError, "confidence"),
        ({"n_resamples": 19}, ValueError, "at least 20"),
        ({"random_state": "x"}, TypeError, "random_state"),
        ({"sample_weight": [0.5] * 6, "weights": "frequency"}, ValueError, "whole numbers"),
        ({"sample_weight": [0.5] * 6, "weights": "counts"}, ValueError, "weights must be one of"),
        ({"groups": [0, 1]}, ValueError, "groups"),
        ({"y_proba": np.full((6, 3), 1 / 3), "pos_label": 1}, ValueError, "pos_label"),
        ({"y_proba": np.full((6, 3), 0.5), "y_true": [0, 1, 2] * 2}, ValueError, "sums to"),
    ]:
        given = {"y_true": [0, 1, 0, 1, 0, 1], "y_proba": [0.2, 0.4, 0.6, 0.8, 0.3, 0.7]} | change
        with pytest.raises(error, match=message):
            calibration_report(**given)


def designed(seed, distorted=1.0):
    """Samples of two strata with weights 1 and 10, and their groups."""
    rng = np.random.default_rng(seed)
    y, p = simulated(400, "beta", 2, 3, seed=seed, truth=distorted, digits=3)
    return y, p, np.where(rng.random(400) < 0.5, 1.0, 10.0), rng.integers(3, size=400)


def test_sampling_weights(one_measure):
    y, p, w, groups = designed(0, distorted=2.0)
    report = calibration_report(y, p, sample_weight=w, groups=groups, n_resamples=20)
    assert (report.weights, report.n_samples, report.n_events) == ("sampling", 400, y.sum())
    assert report.n_effective == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert "sampling weights, effective number of samples " in " ".join(str(report).split("\n"))
    assert report.observed == pytest.approx(np.average(y, weights=w))
    # sums of independent terms w (y - p), and their variance under perfect calibration
    total, z, v = w.sum(), norm.isf(0.025), p * (1 - p)
    line, ratio = report.metric("observed_minus_expected"), report.metric("observed_over_expected")
    upper = np.average(p, weights=w) * (ratio.upper - 1)
    assert [line.estimate, line.upper] == pytest.approx([w @ (y - p) / total, upper])
    assert line.null_upper == pytest.approx(z * np.sqrt(np.sum(w**2 * v)) / total)
    x = np.log(p / (1 - p))
    centered = x - np.sum(w * v * x) / np.sum(w * v)
    spread = np.sqrt(np.sum(w**2 * v * centered**2)) / np.sum(w * v * centered**2)
    assert report.metric("slope").null_upper == pytest.approx(1 + z * spread)
    draws = {"n_resamples": 199, "random_state": 0}
    expected = [test(**draws).test(y, p, sample_weight=w).pvalue for test in (CombinedTest, TCal, CutoffTest)]
    assert [test.result.pvalue for test in report.tests[:3]] == expected
    for k, part in enumerate(report.groups):
        rows = groups == k
        assert (part.n_samples, part.n_events) == (rows.sum(), y[rows].sum())
        error = metrics.smooth_ece(y[rows], p[rows], sample_weight=w[rows])
        assert part.estimate == pytest.approx(error, rel=1e-9)
        found = CutoffTest(**draws).test(y[rows], p[rows], sample_weight=w[rows])
        # a p-value that no simulation exceeds is that of more of them
        assert part.pvalue == found.pvalue or part.pvalue < found.pvalue == 1 / 200
    assert report.regions
    for region in report.regions:
        rows = (p >= region.lower) & (p <= region.upper)
        assert region.n_samples == rows.sum()
        assert region.observed == pytest.approx(np.average(y[rows], weights=w[rows]))
    assert report.selection is not None
    again = calibration_report(y, p, sample_weight=8 * w, groups=groups, n_resamples=20)
    assert json.dumps(again.to_dict()) == json.dumps(report.to_dict())


@pytest.mark.parametrize("n_classes", [2, thorough(3)])
def test_weights_by_class_correct_the_probabilities(n_classes, one_measure, no_class_intervals):
    """The report is that of the sampled classes of a calibrated population, with corrected probabilities."""
    rng, weight = np.random.default_rng(0), np.array([8.0, 1.0, 1.0])[:n_classes]
    p = rng.dirichlet([8.0, 1.0, 1.0][:n_classes], 2000).clip(0.005)
    p[:, 0] = 1 - p[:, 1:].sum(axis=1)
    y = (p.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
    kept = rng.random(2000) < 1 / weight[y]
    y, p, w = y[kept], p[kept], weight[y[kept]]
    sampled = p / weight
    sampled /= sampled.sum(axis=1, keepdims=True)
    report = calibration_report(y, p, sample_weight=w, n_resamples=20)
    expected = calibration_report(y, sampled, n_resamples=20)
    assert (report.weights, report.miscalibrated, report.regions) == ("case-control", False, ())
    assert "case-control" in str(report).split("\n\n")[0]
    for one, other in zip(report.tests[: 3 if n_classes == 2 else 1], expected.tests, strict=False):
        assert one.result.pvalue == pytest.approx(other.result.pvalue)
    if n_classes == 3:
        for one, other in zip(report.metrics, expected.metrics, strict=True):
            np.testing.assert_allclose(one.estimate, other.estimate, rtol=1e-9)
        return
    assert report.observed == pytest.approx(np.average(y, weights=w))
    # too high in the population
    q = 1 - (1 - p[:, 1]) ** 1.5
    high = calibration_report(y, q, sample_weight=w, n_resamples=20)
    assert high.regions
    for region in high.regions:
        rows = (q >= region.lower) & (q <= region.upper)
        assert region.observed == pytest.approx(np.average(y[rows], weights=w[rows]))
        assert region.gap < 0


@pytest.mark.weekly
@pytest.mark.parametrize("kind", ["plain", "classes", "weights", "weights on average", "weights by class"])
def test_calibrated_predictions_are_rarely_called_miscalibrated(kind, one_measure):
    """The familywise level of the headline with groups, classes, regions and tests of equal groups."""
    counts, repetitions = np.zeros(3), 40 if kind == "classes" else 75
    for seed in range(repetitions):
        y, p, w, groups = designed(seed)
        given, rng = {}, np.random.default_rng(seed)
        if kind == "classes":
            y, p = simulated_classes(120, np.ones(3), seed)
            groups, given = groups[:120], {"labels": range(3)}
        elif kind == "weights":
            given["sample_weight"] = w
        elif kind == "weights on average":
            # weights 1 and 4, too high and too low
            given["sample_weight"] = np.where(w > 1.0, 4.0, 1.0)
            y = (rng.random(400) < p + np.where(w > 1.0, 0.1, -0.4) * p * (1 - p)).astype(int)
        elif kind == "weights by class":
            kept = (y == 1) | (rng.random(400) < 0.3)
            given["sample_weight"] = np.where(y, 1.0, 1 / 0.3)[kept]
            y, p, groups = y[kept], p[kept], groups[kept]
        report = calibration_report(y, p, groups=groups, n_resamples=20, **given)
        counts += report.miscalibrated, bool(report.regions), report.groups_pvalue <= 0.05
    assert counts.max() <= binom.ppf(0.999, repetitions, 0.05)
