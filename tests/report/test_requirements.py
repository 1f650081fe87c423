"""Requirements on calibration: judged by equivalence, and written for machines and for people."""

import re
from functools import partial
from itertools import product
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import binom, norm

from sklearn_calib.inference import confidence_interval
from sklearn_calib.metrics import (
    calibration_summary,
    cutoff_calibration_error,
    expected_calibration_error,
    net_benefit,
)
from sklearn_calib.report import CalibrationRequirements, RequirementResult, RequirementsResult
from tests._optional import pandas as pd
from tests._program import main
from tests._samples import simulated, simulated_classes
from tests._tiers import thorough, weekly

EVIL = 'a|b <c> & "d"\n\x00\ud800 \' `e`'


@pytest.fixture(scope="module")
def sample():
    return simulated(1500, "uniform", 0.05, 0.95, truth=lambda p: expit(0.1 + 0.9 * logit(p)), digits=3)


def judged(limits, y, p, **given):
    return CalibrationRequirements(limits).check(y, p, **given).results


@pytest.mark.parametrize("name", ["slope", "intercept", "observed_over_expected"])
def test_lines_are_judged_by_their_interval(name, sample):
    found = getattr(calibration_summary(*sample, confidence=0.9), name)
    lower, upper, e = found.lower, found.upper, 1e-6
    cases = {(lower - e, upper + e): "pass", (lower + e, upper + 1): "undecided"}
    cases |= {
        (lower - 1, upper - e): "undecided",
        (upper + e, upper + 1): "fail",
        (lower - 1, lower - e): "fail",
    }
    for limits, outcome in cases.items():
        (result,) = judged({name: list(limits)}, *sample)
        assert result.outcome == outcome
        numbers = result.estimate, result.lower, result.upper
        assert numbers == pytest.approx((found.estimate, lower, upper), abs=1e-7)
    assert result.requirement == f"{name} in [{lower - 1}, {lower - e}]"


def several_classes():
    y, p = simulated_classes(100, np.ones(3))
    return y, p**4 / (p**4).sum(axis=1, keepdims=True), {"n_resamples": 20, "random_state": 3}


@pytest.mark.parametrize("reduction", ["binary", thorough(None), thorough("top-label")])
def test_metrics_are_judged_by_their_interval(reduction, sample):
    y, p, given = several_classes()
    if reduction == "binary":
        y, p = sample[0][:100], sample[1][:100] ** 3
    else:
        given["reduction"] = reduction
    expected = confidence_interval(y, p, metric="smooth_ece", confidence=0.9, **given)
    assert expected.lower > 0.001
    limits = {expected.upper: "pass", expected.upper - 1e-6: "undecided", expected.lower - 1e-6: "fail"}
    for limit, outcome in limits.items():
        (result,) = judged({"smooth_ece": limit}, y, p, **given)
        assert (result.outcome, result.n_samples) == (outcome, 100)
        found = result.estimate, result.corrected, result.lower, result.upper
        assert found == (expected.estimate, expected.corrected, expected.lower, expected.upper)


def test_requirements_of_several_labels():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=(200, 2))
    y = (rng.uniform(size=p.shape) < p**1.5).astype(int)
    given = {"groups": np.arange(200) % 2, "n_resamples": 20, "random_state": 1}
    limits = {"slope": [0.9, 1.1], "segment_difference": 0.1, "certificate": 0.05}
    single = [judged(limits, y[:, k], p[:, k], **given) for k in range(2)]
    limits = {"smooth_ece": 0.01} | limits
    found = judged(limits, y, [np.column_stack([1 - q, q]) for q in p.T], **given)
    assert list(map(str, found)) == list(map(str, judged(limits, y, p, **given)))
    for rows, alone in (((1, 3, 4, 7), single[0]), ((2, 5, 6, 8), single[1])):
        for row, one in zip(rows, alone, strict=True):
            same = ("name", "estimate", "upper", "outcome")
            assert all(getattr(found[row], name) == getattr(one, name) for name in same)
    interval = confidence_interval(y, p, confidence=0.9, n_resamples=20, random_state=1)
    assert (found[0].estimate, found[0].corrected) == (interval.estimate, interval.corrected)
    assert found[1].requirement == "slope in [0.9, 1.1], label 0"
    assert found[4].requirement == "|observed - predicted| <= 0.1 in group 1, label 0"
    named = judged({"slope": [0.9, 1.1]}, pd.DataFrame(y, columns=["red", "big"]), p)
    assert [each.requirement for each in named] == [f"slope in [0.9, 1.1], label {c}" for c in ("red", "big")]
    with pytest.raises(ValueError, match="segment_difference needs groups"):
        judged({"segment_difference": 0.1}, y, p)
    for sample in ((y, p), (y[:, 0], p[:, 0])):
        with pytest.raises(ValueError, match="groups are for segment_difference, which is not required"):
            judged({"slope": [0.9, 1.1]}, *sample, groups=np.zeros(len(y)))


def test_confidence_is_a_binary_problem():
    y, p, few = several_classes()
    with pytest.raises(ValueError, match="slope needs a binary problem"):
        judged({"slope": [0.9, 1.1]}, y, p, **few)
    limits = {"slope": [0.9, 1.1], "smooth_ece": 0.01, "certificate": 0.01}
    found = judged(limits, y, p, reduction="confidence", **few)
    expected = judged(limits, p.argmax(axis=1) == y, p.max(axis=1), **few)
    for one, other in zip(found, expected, strict=True):
        for number in ("estimate", "lower", "upper"):
            assert getattr(one, number) == pytest.approx(getattr(other, number), abs=1e-9)
    assert "smooth_ece (confidence) <= 0.01" in [one.requirement for one in found]


def test_certificate_by_a_plain_bootstrap(sample):
    y, p = sample[0][:600], sample[1][:600]
    (result,) = judged({"certificate": 0.02}, y, p)
    order = np.argsort(p, kind="stable")
    last = np.append(p[order][1:] != p[order][:-1], True)
    rng, ranges = np.random.default_rng(7), []
    for _ in range(2000):
        times = rng.multinomial(600, np.full(600, 1 / 600))
        walk = np.append(0, np.cumsum((times - 1) * (y - p)[order])[last] / 600)
        ranges.append(np.ptp(walk))
    error = cutoff_calibration_error(y, p)
    margin = result.upper - error
    assert margin == pytest.approx(np.quantile(ranges, 0.95) + 1 / 600, rel=0.05)
    assert result.lower == pytest.approx(max(0, error - margin))


def test_segments_by_an_independent_root_search(sample):
    y, p = sample
    groups = np.arange(1500) % 7 // 3  # 0 and 1 are large, 2 is small
    limits = {"segment_difference": {"limit": 0.05, "min_samples": 300}}
    results = judged(limits, y, p, groups=groups)
    # level 2 alpha, two segments, two sides
    z = norm.isf(0.05 / 2)

    def off(shift, side, y, p):
        q = np.clip(p + shift, 0, 1)
        return side * (q.sum() - y.sum()) - 0.5 - z * np.sqrt((q * (1 - q)).sum())

    for label, result in zip((0, 1), results, strict=True):
        part = y[groups == label], p[groups == label]
        ends = []
        for side in (-1, 1):
            shift = brentq(off, -0.5 * side, 0.5 * side, args=(side, *part), xtol=1e-13)
            ends.append(np.clip(part[1] + shift, 0, 1).mean() - part[1].mean())
        assert (result.lower, result.upper) == pytest.approx(ends, abs=1e-9)
        assert result.estimate == pytest.approx(part[0].mean() - part[1].mean())
        assert result.n_samples == part[0].size


def test_extrapolated_size_by_hand():
    # 20 of 100 at prediction .3: a difference of -.1
    y, p = np.repeat([1, 0], [200, 800]), np.full(1000, 0.3)
    (first,) = judged({"segment_difference": 0.105}, y, p, groups=np.zeros(1000))
    assert (first.outcome, first.estimate) == ("undecided", pytest.approx(-0.1))
    assert first.n_needed == np.ceil(1000 * ((first.estimate - first.lower) / (0.105 + first.estimate)) ** 2)
    (second,) = judged({"segment_difference": 0.095}, y, p, groups=np.zeros(1000))
    ratio = (second.upper - second.estimate) / (-0.095 - second.estimate)
    assert second.n_needed == np.ceil(1000 * ratio**2)
    assert first.detail.endswith(" samples would show that it passes")
    assert second.detail.endswith(" samples would show that it fails")
    assert (first.projected_outcome, second.projected_outcome) == ("pass", "fail")
    # so many samples with the same frequencies decide
    for result, limit, outcome in ((first, 0.105, "pass"), (second, 0.095, "fail")):
        for factor, expected in ((1.2, outcome), (0.8, "undecided")):
            k = int(factor * result.n_needed / 1000)
            given = {"groups": np.zeros(k * 1000)}
            (many,) = judged({"segment_difference": limit}, np.tile(y, k), np.tile(p, k), **given)
            assert many.outcome == expected
    at_limit = np.repeat([1, 0], [1, 3]), np.full(4, 0.5)
    (even,) = judged({"segment_difference": 0.25}, *at_limit, groups=np.zeros(4))
    assert np.isinf(even.n_needed)
    assert even.projected_outcome == "undecided"
    y, p = np.tile([0, 1], 500), np.full(1000, 0.5)
    (result,) = judged({"observed_over_expected": [0.9, 1.0 + 1e-9]}, y, p)
    assert (result.outcome, result.projected_outcome, result.n_needed) == ("undecided", "undecided", np.inf)
    assert "at the limit" in result.detail
    (result,) = judged({"slope": [0.9, 1.1]}, [1] * 3, [0.2, 0.3, 0.4])
    assert (result.outcome, result.n_needed) == ("undecided", np.inf)
    assert result.detail == "not determined by 3 samples"


@pytest.mark.parametrize(
    ("rate", "ratio", "n"),
    [(0.95, 0.8, 1), (0.95, 0.8, 5), (0.98, 0.8, 60), (0.1, 0.8, 30), (0.1, 1.25, 100)],
)
def test_observed_over_expected_at_a_limit_passes_rarely(rate, ratio, n):
    """Every number of events, with its probability."""
    passing = 0.0
    for k in range(n + 1):
        (result,) = judged({"observed_over_expected": [0.8, 1.25]}, np.arange(n) < k, np.full(n, rate))
        passing += binom.pmf(k, n, ratio * rate) * (result.outcome == "pass")
    assert passing <= 0.05


# The population value of a score of equal predictions p, if an event has probability q.
OF_EQUAL = {
    "brier_score": lambda p, q: q * (1 - p) ** 2 + (1 - q) * p**2,
    "log_loss": lambda p, q: -q * np.log(p) - (1 - q) * np.log1p(-p),
    "refinement_loss": lambda p, q: q * (1 - q),
    "net_benefit": lambda p, q: 2 * q - 1 if p >= 0.5 else 0.0,
    "area_under_risk_coverage": lambda p, q: q if p < 0.5 else 1 - q,
    "certificate": lambda p, q: abs(q - p),
}


@pytest.mark.parametrize("name", OF_EQUAL)
@pytest.mark.parametrize("n", [1, 3, thorough(10), weekly(40)])
def test_a_violated_limit_passes_rarely(name, n):
    """Every number of events, with its probability, where the value is just beyond a limit."""
    for p, q in ((0.03, 0.1), (0.03, 0.8), (0.6, 0.3)):
        value = OF_EQUAL[name](p, q)
        limits = [[-9.0, value - 1e-6], [value + 1e-6, 9.0]]
        for limit in [value - 1e-6] if name == "certificate" else limits:
            passing = 0.0
            for k in range(n + 1):
                (found,) = judged({name: limit}, np.arange(n) < k, np.full(n, p), n_resamples=20)
                passing += binom.pmf(k, n, q) * (found.outcome == "pass")
            assert passing <= 0.0501, (p, q, limit)


def test_scores_of_few_samples_of_an_outcome_are_undecided():
    (none,) = judged({"brier_score": [0.0, 0.05]}, [0, 0], [0.02, 0.03])
    assert none.outcome == "undecided"
    assert none.requirement == "brier_score in [0.0, 0.05], 0 samples of the rarer outcome"
    assert np.isinf(none.n_needed)
    assert none.detail.endswith("; more samples would show that it passes")
    # nine events of sixty, ranked without an error: the exact limit of nine pairs
    y, p = np.arange(60) >= 51, np.linspace(0.01, 0.9, 60)
    (few,) = judged({"roc_auc": [0.8, 1.0]}, y, p)
    assert (few.outcome, few.lower) == ("undecided", pytest.approx(0.05 ** (1 / 9)))
    assert few.n_needed == np.ceil(60 * ((1 - 0.05 ** (1 / 9)) / 0.2) ** 2)
    (enough,) = judged({"roc_auc": [0.7, 1.0]}, np.arange(60) >= 50, p)
    assert enough.outcome == "pass"
    # an AUC that is not defined does not prevent the others
    for y, p in (([0, 0], [0.02, 0.03]), ([[0, 1], [0, 0]], [[0.1, 0.6], [0.2, 0.3]])):
        auc, other = judged({"roc_auc": [0.8, 1.0], "smooth_ece": 1.0}, y, p)
        assert (auc.outcome, other.outcome) == ("undecided", "pass")
        assert auc.detail == "not determined by 2 samples"
    # with no event in 1000 samples, whichever of them could be events, the score is below .02
    (decided,) = judged({"brier_score": [0.0, 0.02]}, np.zeros(1000), np.tile([0.01, 0.1], 500))
    assert decided.outcome == "pass"
    y, p = np.repeat([0, 1, 2], [20, 20, 9]), np.full((49, 3), 1 / 3)
    with pytest.warns(UserWarning, match="has only 9 samples"):
        (classes,) = judged({"brier_score": [0.0, 0.9]}, y, p)
    assert (classes.outcome, classes.n_needed) == ("undecided", np.ceil(490 / 9))


@pytest.mark.parametrize("weights", [None, "sampling", "frequency"])
def test_score_of_equal_outcomes_is_that_of_the_exact_limit(weights):
    p, w = np.array([0.1, 0.3, 0.2, 0.4]), np.array([1.0, 2.0, 3.0, 4.0])
    given, size, share = {}, 4.0, np.ones(4)
    if weights:
        given, share = {"sample_weight": w, "weights": weights}, w
        size = 10.0 if weights == "frequency" else 100 / 30
    rate = 1 - 0.05 ** (1 / size)
    # events where they are predicted
    mean = rate * np.average((1 - p) ** 2, weights=share * p) + (1 - rate) * np.average(p**2, weights=share)
    (found,) = judged({"brier_score": [0.0, 0.3]}, np.zeros(4), p, **given)
    assert found.upper == pytest.approx(mean, rel=1e-9)
    assert found.upper > found.estimate == pytest.approx(np.average(p**2, weights=share))


def test_weights_are_repetitions(sample):
    y, p = sample
    w = np.arange(1500) % 3
    limits = {"slope": [0.8, 1.2], "certificate": 0.05, "smooth_ece": 0.05, "segment_difference": 0.1}
    groups = np.where(np.arange(1500) % 2, "a", "b")
    times = {"sample_weight": w, "weights": "frequency"}
    weighted = judged(limits, y, p, **times, groups=groups, n_resamples=20)
    repeated = judged(limits, np.repeat(y, w), np.repeat(p, w), groups=np.repeat(groups, w), n_resamples=20)
    assert [str(each) for each in weighted] == [str(each) for each in repeated]


def test_clusters_reach_the_intervals(sample):
    """Three copies of each sample are one sample."""
    y, p = np.repeat(sample[0][:300], 3), np.repeat(sample[1][:300], 3)
    limits = {"slope": [0.5, 1.5], "smooth_ece": 0.1, "certificate": 0.1, "segment_difference": 0.1}
    given = {"groups": np.zeros(900), "n_resamples": 20}
    alone = judged(limits, y, p, **given)
    found = judged(limits, y, p, clusters=np.repeat(np.arange(300), 3), **given)
    widths = [[each.upper - each.estimate for each in results] for results in (found, alone)]
    ratio = np.divide(*widths)
    assert (ratio > 1.25).all()
    assert ratio[3] == pytest.approx(np.sqrt(3), rel=0.15)


def test_text_markdown_and_junit(sample):
    y, p = sample
    groups = np.where(np.arange(1500) % 3, EVIL, "right")
    limits = {"slope": [0.5, 1.5], "intercept": [5, 6], "segment_difference": 0.021}
    result = CalibrationRequirements(limits).check(y, p, groups=groups)
    outcomes = [each.outcome for each in result.results]
    assert outcomes[:2] == ["pass", "fail"]
    assert "undecided" in outcomes
    assert result.outcome == "fail"
    text = str(result)
    assert text.count("\n") == 4
    assert re.search(r"about [\d,]+ samples would show that it (passes|fails)", text)
    table = [line for line in result.to_markdown().splitlines() if line.startswith("|")]
    assert len(table) == 6
    # three cells, whatever the name of a group
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {4}
    for undecided in ("failure", "skipped"):
        xml = result.to_junit(undecided=undecided)
        (suite,) = ElementTree.fromstring(xml.encode())
        cases = list(suite)
        assert suite.get("tests") == "4"
        assert [case.get("name") for case in cases] == [each.requirement for each in result.results]
        said = {"fail": "failure", "undecided": undecided}
        for kind, total in (("failure", "failures"), ("skipped", "skipped")):
            found = [bool(case.findall(kind)) for case in cases]
            assert found == [said.get(each) == kind for each in outcomes]
            assert suite.get(total) == str(sum(found))

    def result(*outcomes):
        lines = (RequirementResult("slope", "slope", each, 1, 0, 2, 9, 20) for each in outcomes)
        return RequirementsResult(tuple(lines), 0.05, 9).outcome

    assert (result("pass", "pass"), result("pass", "undecided")) == ("pass", "undecided")
    assert result("undecided", "fail", "pass") == "fail"


@pytest.mark.parametrize("reduction", [None, "confidence", "classwise"])
def test_parameters_of_a_metric(sample, reduction):
    y, p = sample
    p = p if reduction is None else np.column_stack((0.6 * (1.0 - p), 0.4 * (1.0 - p), p))
    y = y if reduction is None else np.where(y == 1, 2, np.arange(len(y)) % 2)
    limits = {
        "net_benefit": {"limit": [-1.0, 1.0], "threshold": 0.1},
        "expected_calibration_error": {"limit": 0.5, "n_bins": 5},
        "decision_risk_gap": 0.5,
    }
    found = judged(limits, y, p, reduction=reduction, n_resamples=30)
    named = ["net_benefit(threshold=0.1)", "expected_calibration_error(n_bins=5)"]
    for each, name in zip(found, [*named, "decision_risk_gap(threshold=0.5)"], strict=True):
        assert each.requirement.startswith(f"{name} ({reduction})" if reduction else f"{name} ")
    for each, metric in (
        (found[0], partial(net_benefit, threshold=0.1)),
        (found[1], partial(expected_calibration_error, n_bins=5)),
    ):
        alone = confidence_interval(
            y, p, metric=metric, reduction=reduction, confidence=0.9, n_resamples=30, random_state=0
        )
        assert (each.estimate, each.lower, each.upper) == (alone.estimate, alone.lower, alone.upper)


def test_malformed_requirements():
    with pytest.raises(ValueError, match="alpha must be less than"):
        CalibrationRequirements({"slope": [0.9, 1.1]}, alpha=0.5)
    for limits, message in [
        ({}, "one requirement or more"),
        ({"slop": [0.9, 1.1]}, "'slope', 'intercept'"),
        ({"refinement_loss": 0.1}, "refinement_loss must be .low, high."),
        ({"net_benefit": {"threshold": 0.1}}, "must have the key 'limit'"),
        ({"net_benefit": {"limit": [0, 1], "tau": 0.1}}, "parameters of the metric, not .'tau'."),
        ({"slope": 0.9}, "slope must be .low, high."),
        ({"slope": [1.1, 0.9]}, "low < high"),
        ({"smooth_ece": 0}, "smooth_ece must be positive"),
        ({"segment_difference": {"limit": 0.1, "least": 5}}, "'min_samples'"),
        ({"segment_difference": {"limit": 0.1, "min_samples": 0.5}}, "min_samples must be an integer"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            CalibrationRequirements(limits)


def test_segments_need_groups_of_the_size(sample):
    limits = {"segment_difference": {"limit": 0.1, "min_samples": 800}}
    with pytest.raises(ValueError, match="segment_difference needs groups"):
        judged(limits, *sample)
    with pytest.raises(ValueError, match="no group has min_samples=800 samples; the largest has 750"):
        judged(limits, *sample, groups=np.arange(1500) % 2)


def test_dict_and_file_agree(tmp_path):
    path, segments = tmp_path / "r.toml", "[segment_difference]\nlimit = 0.1\nmin_samples = 50\n"
    path.write_text(f"alpha = 0.1\nslope = [0.9, 1]\nsmooth_ece = 0.03\n{segments}", encoding="utf-8")
    limits = {"slope": [0.9, 1], "smooth_ece": 0.03, "segment_difference": {"limit": 0.1, "min_samples": 50}}
    assert CalibrationRequirements.from_toml(path) == CalibrationRequirements(limits, alpha=0.1)
    wrong = [b"slope = [0.9", b"\xff", b"", b"slope = 1", b"slope = [0.9, 1.1]\nalpha = 0.5"]
    # booleans are not numbers; numbers that are no floats; values that are nested deeply
    wrong += [b"slope = [true, 2]", b"smooth_ece = true", b"slope = [0.5, 1" + b"0" * 400 + b"]"]
    wrong += [b"slope = " + b"[" * 5000 + b"]" * 5000]
    for content in wrong:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=re.escape(str(path))):
            CalibrationRequirements.from_toml(path)


class TestCommand:
    @pytest.fixture(autouse=True)
    def files(self, tmp_path, sample):
        pytest.importorskip("pyarrow", reason="pyarrow reads files")
        self.table, self.toml = tmp_path / "p.csv", tmp_path / "r.toml"
        rows = [f"{y},{p},{k % 2}" for k, (y, p) in enumerate(zip(*sample, strict=True))]
        self.table.write_text("\n".join(["y,p,g", *rows]), encoding="utf-8")
        self.folder = tmp_path

    def run(self, requirements, *more):
        self.toml.write_text(requirements, encoding="utf-8")
        return main(["check", self.table, "--requirements", self.toml, "--y", "y", "--p", "p", *more])

    @pytest.mark.parametrize(
        ("requirements", "status", "skipped"),
        [
            ("slope = [0.5, 1.5]", 0, 0),
            ("slope = [0.5, 1.5]\nintercept = [5, 6]", 1, 1),
            ("slope = [0.5, 1.5]\ncertificate = 0.03", 3, 0),
            ("intercept = [5, 6]\ncertificate = 0.03", 1, 1),
        ],
    )
    def test_exit_status(self, requirements, status, skipped, capsys):
        assert self.run(requirements) == status
        out, err = capsys.readouterr()
        assert out.startswith("calibration requirements: ")
        assert (err, self.run(requirements, "--undecided", "skipped")) == ("", skipped)

    def test_files_are_written(self, sample, capsys):
        xml, table = self.folder / "o.xml", self.folder / "o.md"
        requirements = "segment_difference = { limit = 0.1, min_samples = 500 }\nsmooth_ece = 0.2"
        options = ["--group", "g", "--junit", xml, "--markdown", table, "--n-resamples", "20", "--seed", "5"]
        assert self.run(requirements, *options) == 0
        limits = {"segment_difference": {"limit": 0.1, "min_samples": 500}, "smooth_ece": 0.2}
        given = {"groups": np.arange(1500) % 2, "n_resamples": 20, "random_state": 5}
        expected = CalibrationRequirements(limits).check(*sample, **given)
        assert capsys.readouterr().out == f"{expected}\n"
        assert xml.read_text(encoding="utf-8") == expected.to_junit()
        assert table.read_text(encoding="utf-8") == expected.to_markdown()

    @pytest.mark.parametrize(
        ("requirements", "more", "message"),
        [
            ("slope = [0.5, 1.5]", ["--junit", "same.xml", "--markdown", "same.xml"], "name the same file"),
            ("slope = [0.5, 1.5]", ["--n-resamples", "3"], "--n-resamples must be at least 20"),
            ("slope = [0.5, 1.5]", ["--seed", "-1"], "--seed must be at least 0"),
            ("slope = [0.5, 1.5]", ["--clusters", "none"], "none"),
            ("slope = [0.5, 1.5]", ["--junit", "{folder}/r.toml"], "which is an input file"),
            ("slope = [0.5, 1.5]", ["--requirements", "{folder}/none.toml"], "none.toml"),
            ("slope = [0.5, 1.5]", ["--p", "p", "g", "y"], "for a binary or a multilabel target"),
            ("slope = [", [], "r.toml"),
            ("segment_difference = 0.1", [], "segment_difference needs groups"),
        ],
    )
    def test_bad_options_and_files_are_refused_with_status_2(self, requirements, more, message, capsys):
        assert self.run(requirements, *(each.format(folder=self.folder) for each in more)) == 2
        assert message in capsys.readouterr().err


def population_error(name, quantiles, truth):
    """Return the error of the population of 2000 quantiles."""
    p = quantiles((np.arange(2000) + 0.5) / 2000)
    if name != "smooth_ece":
        return np.ptp(np.append(0, np.cumsum(truth(p) - p))) / 2000
    from sklearn_calib._core._grouping import GroupedOutcomes
    from sklearn_calib.inference._sample_metric import SampleMetric
    from sklearn_calib.metrics import smooth_ece

    bound = SampleMetric(smooth_ece, GroupedOutcomes(p, np.ones(2000), np.rint(p)), weighted=True)
    return bound.population(truth(p))


QUANTILES = {
    "uniform": lambda u: u,
    "logit-normal": lambda u: expit(1.5 * norm.ppf(u) - 1),
    "common": lambda u: 0.6 * u,
    "rare": lambda u: 0.04 * u,
}
CURVES = {
    "slope 1.15": lambda p: expit(1.15 * logit(p)),
    "slope 0.85": lambda p: expit(0.85 * logit(p)),
    "intercept 0.3": lambda p: expit(logit(p) + 0.3),
    "intercept -0.3": lambda p: expit(logit(p) - 0.3),
    "fewer": lambda p: 0.8 * p,
    "more": lambda p: 1.25 * p,
    "shift": lambda p: np.clip(p + 0.04, 0, 1),
    "flat": lambda p: expit(0.7 * logit(p)),
    "wave": lambda p: np.clip(p + 0.08 * np.sin(4 * np.pi * p), 0, 1),
}
LINES = [("slope", [0.4, 1.15], "slope 1.15"), ("slope", [0.85, 1.9], "slope 0.85")]
LINES += [("intercept", [-0.9, 0.3], "intercept 0.3"), ("intercept", [-0.3, 0.9], "intercept -0.3")]
RATIOS = [("observed_over_expected", [0.8, 3.0], "fewer"), ("observed_over_expected", [0.3, 1.25], "more")]
ERRORS = product(("smooth_ece", "cutoff_calibration_error", "certificate"), [None], ("shift", "flat", "wave"))
#: A requirement, its limits of which one is the truth, the true curve, predictions, their number and runs.
EDGES = [
    *((*line, kind, n, 400) for line, kind, n in product(LINES, ("uniform", "logit-normal"), (300, 2000))),
    *((*ratio, kind, 2000, 400) for ratio, kind in product(RATIOS, ("common", "rare"))),
    *((*error, kind, 1000, 100) for error, kind in product(ERRORS, ("uniform", "logit-normal"))),
]


def within_level(shown, repetitions):
    """Tell whether a number of errors is at most three standard errors above 5%: there are 38 cases."""
    return shown <= 0.05 * repetitions + 3 * np.sqrt(0.05 * 0.95 * repetitions)


@pytest.mark.weekly
@pytest.mark.parametrize(("name", "limits", "curve", "quantiles", "n", "repetitions"), EDGES)
def test_level_at_the_edge(name, limits, curve, quantiles, n, repetitions):
    """How often a requirement at whose edge the truth lies is shown."""
    quantiles, truth = QUANTILES[quantiles], CURVES[curve]
    limits = population_error(name, quantiles, truth) if limits is None else limits
    rng, shown = np.random.default_rng(0), 0
    for _ in range(repetitions):
        p = quantiles(rng.random(n))
        y = rng.random(n) < truth(p)
        (found,) = judged({name: limits}, y, p, n_resamples=100, random_state=rng)
        shown += found.outcome == "pass"
    assert within_level(shown, repetitions), shown
    # the test has power where the limits are wide: it is no vacuous test
    assert shown > 0.01 * repetitions or n != 2000


@pytest.mark.weekly
@pytest.mark.parametrize("rare", [False, True], ids=["common", "rare"])
@pytest.mark.parametrize("side", [-1, 1])
def test_level_of_segments_at_the_edge(side, rare):
    """One of three, though all are at the edge."""
    limit, groups = 0.01 if rare else 0.05, np.repeat([0, 1, 2], 400)
    rng, errors = np.random.default_rng(1), 0
    for _ in range(600):
        p = rng.beta(2, 30, 1200) if rare else rng.random(1200) * 0.8 + 0.1
        p = np.clip(p, limit, 1 - limit)
        y = rng.random(1200) < p + side * limit
        found = judged({"segment_difference": limit * (1 + 1e-9)}, y, p, groups=groups)
        errors += any(each.outcome == "pass" for each in found)
    assert within_level(errors, 600), errors


def test_sampling_weights(sample):
    y, p = sample
    w = np.random.default_rng(0).lognormal(size=1500)
    limits = {"slope": [0.8, 1.2], "certificate": 0.05, "smooth_ece": 0.05, "segment_difference": 0.1}
    given = {"groups": np.where(np.arange(1500) % 2, "a", "b"), "n_resamples": 20}
    wanted = CalibrationRequirements(limits)
    found, again = (wanted.check(y, p, sample_weight=scale * w, **given) for scale in (1, 4))
    assert str(found) == str(again)
    assert [each.n_samples for each in found.results] == [1500] * 3 + [750] * 2
    assert found.results[1].upper > found.results[1].estimate
    assert (found.weights, found.n_effective) == ("sampling", pytest.approx(w.sum() ** 2 / (w @ w)))
    assert f"effective number of samples {found.n_effective:,.0f})" in str(found)
    # wider than of as many samples without weights, by the effective number
    alone = judged(limits, y, p, **given)
    for one, other in zip(found.results[3:], alone[3:], strict=True):
        assert 1.2 < (one.upper - one.lower) / (other.upper - other.lower) < 2.2
