"""What a report is made of, computed from checked samples."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib._core._links import expit, logit
from sklearn_calib._core._multiple import adjust_pvalues
from sklearn_calib._validation import BinarySample, ClassSample
from sklearn_calib.inference import (
    BinomialTest,
    CalibrationTest,
    CalibrationTestResult,
    CombinedTest,
    CoxTest,
    CutoffTest,
    KernelTest,
    SpiegelhalterTest,
    TCal,
    null_floor,
)
from sklearn_calib.metrics import (
    CalibrationSummary,
    ScoreDecomposition,
    calibration_summary,
    score_decomposition,
    smooth_ece,
)
from sklearn_calib.report._lines import ReportMetric, ReportPart, ReportRegion, ReportTest
from sklearn_calib.report._measure import (
    ERRORS,
    Budget,
    large_scale_lines,
    measure_error,
    plain,
    score_lines,
)
from sklearn_calib.report._regions import find_regions
from sklearn_calib.report._sample import MOST_DISTINCT, condensed, rows_of

__all__ = ["Findings", "binary_steps", "classes_test", "examine", "part_lines", "with_adjusted"]

Array = NDArray[np.float64]
Step = Callable[[str], Any]

# From this size and null variance on the laws of large samples replace draws.
_LARGE, _LARGE_VARIANCE = 100_000, 2000.0
# With so few distinct predictions, each of so many rows, every one of them can be tested.
_FEW_VALUES, _ROWS_PER_VALUE = 50, 5
# Parts are many and small: their floors come from at most so many distinct predictions.
_PART_DISTINCT, _PART_CELLS = 512, 256
_PART_DRAWS = 199
_MOST_TCAL_CLASSES, _MOST_PAIRS = 20, 2000


@dataclass(frozen=True, eq=False)
class Findings:
    """All that a report says about one binary problem."""

    grouped: GroupedOutcomes
    metrics: tuple[ReportMetric, ...]
    tests: tuple[ReportTest, ...]
    regions: tuple[ReportRegion, ...]
    summary: CalibrationSummary
    brier: ScoreDecomposition
    log_loss: ScoreDecomposition
    residual_pvalue: float


def binary_steps() -> int:
    """Return how many steps ``examine`` announces."""
    return len(ERRORS) + 4


def examine(sample: BinarySample, budget: Budget, step: Step) -> Findings:
    """Return all measures, tests and stretches of a binary sample with frequency weights."""
    step("scores and slopes")
    grouped = group_outcomes(sample.y, sample.p, sample.w)
    small = rows_of(condensed(grouped))
    summary = calibration_summary(
        small.y,
        small.p,
        sample_weight=small.w,
        pos_label=1,
        confidence=budget.confidence,
        interval="profile",
    )
    rows = rows_of(grouped)
    brier, log_loss = (
        score_decomposition(rows.y, rows.p, sample_weight=rows.w, pos_label=1, score=score)
        for score in ("brier", "log_loss")
    )
    metrics = []
    for key, name, metric in ERRORS:
        step(name)
        metrics.append(measure_error(key, name, metric, plain(sample, metric), grouped, budget))
    metrics += large_scale_lines(grouped, summary, budget)
    metrics += score_lines(grouped, brier, log_loss, budget)
    step("tests of calibration")
    tests = _tests(sample, grouped, budget)
    step("what remains after recalibration")
    residual = _after_recalibration(grouped, summary, budget)
    step("stretches of predictions")
    generator = np.random.default_rng(budget.seed)
    regions = find_regions(grouped, budget.confidence, _draws(budget), generator)
    return Findings(grouped, tuple(metrics), tests, regions, summary, brier, log_loss, residual)


def _draws(budget: Budget) -> int:
    """Return the number of redrawn samples of a test: 999 for 200 resamples."""
    return max(5 * budget.n_resamples - 1, 199)


def _by_law(grouped: GroupedOutcomes) -> bool:
    """Tell whether the laws of large samples are to be trusted, and draws are dear."""
    return grouped.total >= _LARGE and float(grouped.variance.sum()) >= _LARGE_VARIANCE


def _tests(sample: BinarySample, grouped: GroupedOutcomes, budget: Budget) -> tuple[ReportTest, ...]:
    draws: dict[str, Any] = {"n_resamples": _draws(budget), "random_state": budget.seed}
    method = "asymptotic" if _by_law(grouped) else "monte_carlo"
    if grouped.total >= _LARGE and method == "monte_carlo":
        sample = rows_of(condensed(grouped))
    chosen: list[tuple[str, str, CalibrationTest]] = [
        (
            "combined test",
            "anything",
            CombinedTest(method=method, **draws),
        ),
        ("T-Cal", "waves and bumps", TCal(method=method, **draws)),
        (
            "cutoff test",
            "whole ranges too high or too low",
            CutoffTest(**draws),
        ),
        ("Cox test", "shift and slope of the log-odds", CoxTest(**draws)),
        ("Spiegelhalter's z", "over- or under-confidence", SpiegelhalterTest(**draws)),
    ]
    distinct = grouped.prob.shape[0]
    if 1 < distinct <= _FEW_VALUES and grouped.total >= _ROWS_PER_VALUE * distinct:
        chosen.append(("binomial test", "each distinct prediction", BinomialTest()))
    results = [
        (name, question, test.test(sample.y, sample.p, sample_weight=sample.w, pos_label=1))
        for name, question, test in chosen
    ]
    return with_adjusted(results, 1)


def with_adjusted(
    results: Sequence[tuple[str, str, CalibrationTestResult]], deciding: int
) -> tuple[ReportTest, ...]:
    """Return the lines of tests; p-values of those after the deciding ones are adjusted to each other."""
    adjusted = _holm([result.pvalue for _, _, result in results[deciding:]])
    padded = [float("nan")] * deciding + adjusted
    return tuple(
        ReportTest(name, question, result, value)
        for (name, question, result), value in zip(results, padded, strict=True)
    )


def _holm(pvalues: Sequence[float]) -> list[float]:
    adjusted: list[float] = adjust_pvalues(np.array(pvalues, dtype=np.float64), "holm").tolist()
    return adjusted


def classes_test(sample: ClassSample, budget: Budget) -> CalibrationTestResult:
    """Return a test of the whole vectors of class probabilities."""
    n, n_classes = sample.p.shape
    if n_classes <= _MOST_TCAL_CLASSES:
        method = "monte_carlo" if n * n_classes <= _LARGE else "asymptotic"
        test: CalibrationTest = TCal(method=method, n_resamples=_draws(budget), random_state=budget.seed)
    else:
        estimator = "quadratic" if n <= _MOST_PAIRS else "block"
        test = KernelTest(estimator=estimator, n_resamples=_draws(budget), random_state=budget.seed)
    labels = np.arange(n_classes)
    return test.test(sample.y, sample.p, sample_weight=sample.w, labels=labels)


def _after_recalibration(grouped: GroupedOutcomes, summary: CalibrationSummary, budget: Budget) -> float:
    """Return the p-value of what shift and slope leave; NaN where these are not determined.

    Two fitted parameters make the statistics smaller: the p-value errs on the large side.
    """
    intercept, slope = summary.slope_intercept.value, summary.slope.value
    if not (np.isfinite(intercept) and np.isfinite(slope)) or slope <= 0.0:
        return float("nan")
    fitted = expit(intercept + slope * logit(grouped.prob))
    rows = rows_of(condensed(GroupedOutcomes(fitted, grouped.weight, grouped.positives)))
    test = CombinedTest(components=("tcal", "cutoff"), n_resamples=_draws(budget), random_state=budget.seed)
    if _by_law(grouped):
        test.set_params(method="asymptotic")
    return test.test(rows.y, rows.p, sample_weight=rows.w, pos_label=1).pvalue


def part_lines(
    parts: Sequence[tuple[str, BinarySample]], budget: Budget, step: Step
) -> tuple[ReportPart, ...]:
    """Return a line for each class or group, with p-values adjusted to their number."""
    lines = []
    for name, sample in parts:
        step(name)
        lines.append(_part(name, sample, budget))
    adjusted = _holm([line.pvalue for line in lines])
    return tuple(
        ReportPart(**{**vars(line), "adjusted": value}) for line, value in zip(lines, adjusted, strict=True)
    )


def _part(name: str, sample: BinarySample, budget: Budget) -> ReportPart:
    grouped = group_outcomes(sample.y, sample.p, sample.w)
    small = condensed(grouped, _PART_DISTINCT, _PART_CELLS)
    floor = null_floor(
        smooth_ece,
        small.prob,
        sample_weight=small.weight,
        n_resamples=budget.n_resamples,
        random_state=budget.seed,
        confidence=budget.confidence,
    )
    rows = rows_of(grouped if grouped.prob.shape[0] <= MOST_DISTINCT else condensed(grouped))
    test = CutoffTest(n_resamples=_draws(budget), random_state=budget.seed)
    result = test.test(rows.y, rows.p, sample_weight=rows.w, pos_label=1)
    generator = np.random.default_rng(budget.seed)
    regions = find_regions(grouped, budget.confidence, _PART_DRAWS, generator)
    total, events = grouped.total, float(grouped.positives.sum())
    most = max(regions, key=lambda region: abs(region.gap) * region.n_samples, default=None)
    return ReportPart(
        name=name,
        n_samples=total,
        n_events=events,
        predicted=float(grouped.weight @ grouped.prob) / total,
        observed=events / total,
        error=plain(sample, smooth_ece),
        chance_mean=floor.mean,
        chance_upper=floor.quantile,
        pvalue=result.pvalue,
        adjusted=result.pvalue,
        region=most,
    )
