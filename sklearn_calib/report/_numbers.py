"""The numbers of a report: metrics with intervals and null distributions, tests, regions of predictions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import norm
from sklearn.model_selection import PredefinedSplit

from sklearn_calib import _validation
from sklearn_calib._core._grouping import (
    GroupedOutcomes,
    as_sampled,
    group_sample,
    pooled_if_many,
    weight_fields,
)
from sklearn_calib._core._links import logit
from sklearn_calib._core._multiple import adjust_pvalues
from sklearn_calib._core._null import rejects
from sklearn_calib._core._weights import written_out
from sklearn_calib._typing import Array
from sklearn_calib.calibrators import (
    AutoCalibrator,
    CalibratorSelection,
    PlattCalibrator,
    SplineCalibrator,
    StructuredMatrixScalingCalibrator,
    TemperatureCalibrator,
)
from sklearn_calib.inference import (
    BinomialTest,
    CalibrationTest,
    CalibrationTestResult,
    CombinedTest,
    CoxTest,
    CutoffTest,
    Region,
    Segment,
    SegmentsResult,
    SpiegelhalterTest,
    TCal,
    confidence_interval,
    expected_under_calibration,
    find_segments,
)
from sklearn_calib.inference._data_checks import contradiction_pvalue
from sklearn_calib.inference._intervals import SharedIntervals
from sklearn_calib.inference._means import Mean, half_width, mean_loss
from sklearn_calib.inference._null_distribution import null_distribution_of
from sklearn_calib.inference._regions import scan_regions
from sklearn_calib.inference._sample_metric import SampleMetric
from sklearn_calib.inference._testing import _simulated
from sklearn_calib.metrics import (
    CalibrationSummary,
    ScoreDecomposition,
    calibration_loss,
    cutoff_calibration_error,
    expected_calibration_error,
    integrated_calibration_index,
    logit_smoothed_ece,
    smooth_ece,
)
from sklearn_calib.metrics._decomposition import decompose
from sklearn_calib.metrics._scores import BRIER, LOG
from sklearn_calib.metrics._summary import event_rate_limits, summarize

Step = Callable[[str], Any]
# Fields of weights and clusters.
_SUPPORT = ("n_clusters", "design_effect", "n_effective", "weight_spread", "weights")
_NAN = float("nan")


@dataclass(frozen=True)
class ReportMetric:
    """One metric with its confidence interval and its distribution under perfect calibration.

    Attributes
    ----------
    key : str
        Short name, such as "smooth_ece".
    name : str
        Name for readers.
    estimate : float
        What the metric returns on the sample.
    lower, upper : float
        Confidence interval of its value in the population; NaN if there is none.
    expected : float
        Its mean if the model were perfectly calibrated, for the same predictions; NaN for metrics whose value
        is not evidence for or against calibration.
    null_lower, null_upper : float
        Range that contains the metric of a perfectly calibrated model with probability ``confidence``.
        ``null_lower`` is NaN for errors, of which only large values are evidence against calibration.
    reduction : {"binary", "confidence", "pairs", "classwise", "multiclass"}
        What it is computed from: a binary problem; the largest class probability and whether its class is
        right; all pairs of a sample and a label; the mean over classes, each against the rest; or all class
        probabilities.
    corrected : float
        The estimate, corrected for its bias; equal to ``estimate`` if it is not a calibration error.
    method : str or None
        How the interval was computed: as in :func:`~sklearn_calib.inference.confidence_interval` or
        :func:`~sklearn_calib.metrics.calibration_summary`, which return the same; None if there is none.
    """

    key: str
    name: str
    estimate: float
    lower: float = _NAN
    upper: float = _NAN
    expected: float = _NAN
    null_lower: float = _NAN
    null_upper: float = _NAN
    reduction: str = "binary"
    corrected: float = _NAN
    method: str | None = None

    @property
    def exceeds(self) -> bool:
        """Whether the estimate lies outside the range of perfectly calibrated predictions."""
        return self.estimate > self.null_upper or self.estimate < self.null_lower


@dataclass(frozen=True)
class ReportTest:
    """One test of calibration.

    Attributes
    ----------
    name : str
        Name for readers.
    question : str
        What it detects.
    result : CalibrationTestResult
        Its result, without the samples that contradict predictions of exactly 0 or 1.
    adjusted : float
        Its p-value, adjusted by Holm's method for the number of secondary tests, and at least that of the
        report; NaN for the primary test.
    reduction : {"binary", "confidence", "pairs", "joint"}
        What is tested, as in :class:`ReportMetric`; "joint" is each class, their mean and the confidence, or
        each label.
    """

    name: str
    question: str
    result: CalibrationTestResult
    adjusted: float
    reduction: str = "binary"


@dataclass(frozen=True)
class ReportPart:
    """One class against the rest, or one group of samples.

    Attributes
    ----------
    name : str
        Label of the class or group; for multilabel targets, name of the label.
    n_samples, n_events : float
        Numbers of samples and events.
    predicted, observed : float
        Mean prediction and event frequency.
    estimate : float
        Smooth ECE of its samples.
    expected, null_upper : float
        Mean and upper quantile of smooth ECE under perfect calibration.
    pvalue : float
        p-value of the cutoff test.
    adjusted : float
        The same, adjusted for the number of parts, by the joint test of classes or Holm's method for groups,
        and multiplied by the number of families of tests.
    region : Region or None
        The interval of predictions with the largest error, if one is significant.
    """

    name: str
    n_samples: float
    n_events: float
    predicted: float
    observed: float
    estimate: float
    expected: float
    null_upper: float
    pvalue: float
    adjusted: float
    region: Region | None


def _part_of(row: Segment) -> ReportPart:
    """Return a segment as a part; its error is the difference."""
    events, error, p = row.observed * row.n_samples, abs(row.difference), row.adjusted_pvalue
    means = row.predicted, row.observed
    return ReportPart(str(row), row.n_samples, events, *means, error, 0.0, 0.0, p, p, None)


def badness(part: ReportPart) -> tuple[float, float]:
    """Return the key that sorts parts, the worst first: p-value, then excess over the expected error."""
    return part.pvalue, part.expected - part.estimate


@dataclass(frozen=True, eq=False)
class ReportNumbers:
    """All numbers of a report; :class:`CalibrationReport` describes them."""

    name: str
    kind: str
    positive: str
    n_samples: float
    n_events: float
    n_distinct: int
    n_certain: float
    n_impossible: float
    rounding: float
    selection: CalibratorSelection | None = field(repr=False)
    predicted: float
    observed: float
    metrics: tuple[ReportMetric, ...] = field(repr=False)
    tests: tuple[ReportTest, ...] = field(repr=False)
    pvalue: float
    regions: tuple[Region, ...] = field(repr=False)
    residual_pvalue: float = field(repr=False)
    classes: tuple[ReportPart, ...] = field(repr=False)
    groups: tuple[ReportPart, ...] = field(repr=False)
    groups_pvalue: float = field(repr=False)
    segments: SegmentsResult | None = field(repr=False)
    summary: CalibrationSummary = field(repr=False)
    brier: ScoreDecomposition = field(repr=False)
    log_loss: ScoreDecomposition = field(repr=False)
    confidence: float = field(repr=False)
    n_resamples: int = field(repr=False)
    seed: int = field(repr=False)
    version: str = field(repr=False)
    n_clusters: int | None
    design_effect: float | None
    n_effective: float | None
    weight_spread: float | None
    weights: str | None
    dependence_pvalue: float = field(repr=False)
    _problem: _validation.BinarySample | _validation.ClassSample = field(repr=False)

    def metric(self, key: str) -> ReportMetric:
        """Return a metric by its key, such as "smooth_ece", "slope" or "brier"."""
        lines = {line.key: line for line in self.metrics}
        return lines[_validation.check_option(key, "key", lines)]

    def is_significant(self, pvalue: float) -> bool:
        """Tell whether an adjusted p-value rejects calibration at level 1 - ``confidence``."""
        return rejects(pvalue, 1.0 - self.confidence)

    @property
    def n_families(self) -> int:
        """Number of families of tests: all predictions, groups and segments."""
        return 1 + bool(self.groups) + (self.segments is not None)

    @property
    def significant_parts(self) -> tuple[tuple[str, ReportPart], ...]:
        """Miscalibrated classes, labels, groups, segments: pairs such as ("class", part), the worst first."""
        of_classes = "label" if self.kind == "multilabel" else "class"
        parts = [(of_classes, part) for part in self.classes] + [("group", part) for part in self.groups]
        parts += [("segment", _part_of(row)) for row in (self.segments.segments if self.segments else ())]
        found = [pair for pair in parts if self.is_significant(pair[1].adjusted)]
        return tuple(sorted(found, key=lambda pair: (pair[1].adjusted, *badness(pair[1]))))

    @property
    def miscalibrated(self) -> bool:
        """Whether calibration is rejected: by ``pvalue``, a part, or contradicted predictions."""
        return self.is_significant(self.pvalue) or bool(self.significant_parts) or self.contradicts

    @property
    def contradicts(self) -> bool:
        """Whether more predictions of exactly 0 or 1 are contradicted than rounding explains."""
        return self.is_significant(contradiction_pvalue(self.n_impossible, self.n_certain, self.rounding))


#: The calibration errors of a report: key, name, function.
ERRORS: tuple[tuple[str, str, Callable[..., float]], ...] = (
    ("smooth_ece", "smooth ECE", smooth_ece),
    ("cutoff", "cutoff calibration error", cutoff_calibration_error),
    ("logit_smoothed_ece", "logit-smoothed ECE", logit_smoothed_ece),
    ("ece", "ECE, 15 bins of equal width", expected_calibration_error),
    (
        "l2",
        "debiased l2 ECE, 15 quantile bins",
        partial(expected_calibration_error, norm="l2", strategy="quantile", debias=True),
    ),
    ("ici", "integrated calibration index (ICI)", integrated_calibration_index),
    ("brier_miscalibration", "miscalibration (Brier score)", calibration_loss),
    ("log_loss_miscalibration", "miscalibration (log loss)", partial(calibration_loss, score="log_loss")),
)


@dataclass(frozen=True)
class Budget:
    """Level, number of resamples and seed of all intervals and simulations."""

    confidence: float
    n_resamples: int
    seed: int

    @property
    def n_draws(self) -> int:
        """The number of simulated samples of a test: 999 for 200 resamples."""
        return max(5 * self.n_resamples - 1, _FEW_DRAWS)

    @property
    def generator(self) -> np.random.Generator:
        """A new generator with the same state at each call."""
        return np.random.default_rng(self.seed)


def _error(key: str, name: str, metric: Callable[..., float], shared: SharedIntervals) -> ReportMetric:
    """Return a calibration error with its confidence interval and its null distribution."""
    prob = shared.grouped.prob
    if key == "log_loss_miscalibration" and (prob[0] <= 0.0 or prob[-1] >= 1.0):
        # infinite for some outcomes
        return ReportMetric(key, name, _value(metric, shared.sample))
    null, found = shared.null(metric), shared.interval(metric)
    return ReportMetric(
        key,
        name,
        found.estimate,
        found.lower,
        found.upper,
        null.expected,
        null_upper=null.quantile,
        corrected=found.corrected,
        method=found.method,
    )


def _value(metric: Callable[..., float], sample: _validation.BinarySample) -> float:
    return float(metric(sample.y, sample.p, sample_weight=sample.w, pos_label=1))


@dataclass(frozen=True)
class _Normal:
    """Means and logistic recalibration of a sample, with normal ranges under perfect calibration."""

    sample: _validation.BinarySample
    grouped: GroupedOutcomes
    alpha: float

    def null_half_width(self, slope: Array) -> float:
        """Return half the width of the range of the mean of ``slope`` times y - p.

        ``slope`` is given for each distinct prediction. Without clusters the variance is that of the
        predictions.
        """
        grouped, sample = self.grouped, self.sample
        if sample.clusters is None:
            return float(norm.isf(self.alpha / 2.0) * np.sqrt(grouped.variance @ slope**2)) / grouped.total
        values = slope[np.searchsorted(grouped.prob, sample.p)] * (sample.y - sample.p)
        return half_width(sample, values - np.average(values, weights=sample.w), self.alpha)

    def mean(
        self,
        key: str,
        name: str,
        found: Mean,
        slope: Array,
        limits: tuple[float, float],
        method: str = "normal",
    ) -> ReportMetric:
        """Return a mean with ``limits``; ``slope`` is the difference between the values for both outcomes."""
        center, around = found.expected, self.null_half_width(slope)
        low, high = np.clip([center - around, center + around], *limits).tolist()
        ends = found.lower, found.upper, center, low, high
        return ReportMetric(key, name, found.estimate, *ends, corrected=found.estimate, method=method)

    def recalibration(self, summary: CalibrationSummary) -> list[ReportMetric]:
        """Return observed / expected frequency, intercept and slope.

        The ranges of intercept and slope are those of the score at a = 0, b = 1, divided by the expected
        information.
        """
        grouped = self.grouped
        weight, x, total = (
            grouped.weight * grouped.prob * (1.0 - grouped.prob),
            logit(grouped.prob),
            grouped.total,
        )
        expected, information = float(grouped.weight @ grouped.prob), float(weight.sum())
        shift = self.null_half_width(np.ones_like(x)) * total
        of_ratio = shift / expected if expected > 0.0 else _NAN
        of_intercept = of_slope = _NAN
        if information > 0.0:
            # predictions of exactly 0 and 1 carry no information
            of_intercept = self.null_half_width((weight > 0.0).astype(np.float64)) * total / information
            centered = np.where(weight > 0.0, x - weight @ x / information, 0.0)
            around = float(weight @ centered**2)
            if around > 1e-12 * information:
                of_slope = self.null_half_width(centered) * total / around
        lines = []
        most = grouped.total / expected if expected > 0.0 else _NAN
        for key, name, ideal, width, limits in (
            ("observed_over_expected", "observed / expected frequency", 1.0, of_ratio, (0.0, most)),
            ("intercept", "calibration intercept (slope 1)", 0.0, of_intercept, (-np.inf, np.inf)),
            ("slope", "calibration slope", 1.0, of_slope, (-np.inf, np.inf)),
        ):
            found, (low, high) = getattr(summary, key), np.clip([ideal - width, ideal + width], *limits)
            ends = found.lower, found.upper
            numbers = found.estimate, *ends, ideal, float(low), float(high)
            lines.append(ReportMetric(key, name, *numbers, corrected=found.estimate, method=found.method))
        return lines


def class_metrics(
    sample: _validation.ClassSample, parts: Sequence[ReportPart], budget: Budget
) -> list[ReportMetric]:
    """Return ``smooth_ece(y, P)`` and the proper scores of the class probabilities."""
    name, reduction = "smooth ECE, mean over classes", "classwise"
    error = float(np.mean([part.estimate for part in parts]))
    line = ReportMetric("smooth_ece_classwise", name, error, reduction=reduction)
    if len(parts) <= _MOST_INTERVALS and sample.total <= _LARGE:
        least = max(min(50, budget.n_resamples), _validation.least_resamples(1.0 - budget.confidence))
        given: dict[str, Any] = {
            "metric": smooth_ece,
            "confidence": budget.confidence,
            "n_resamples": max(least, budget.n_resamples // 4),
            "random_state": budget.seed,
            "sample_weight": sample.w,
            "weights": "sampling" if sample.sampling else "frequency",
            "clusters": sample.clusters,
            "labels": range(len(parts)),
        }
        found = confidence_interval(sample.y, sample.p, **given)
        null = expected_under_calibration(sample.y, sample.p, **given)
        ends = found.lower, found.upper, null.expected
        line = ReportMetric(
            line.key,
            name,
            error,
            *ends,
            null_upper=null.quantile,
            corrected=found.corrected,
            method=found.method,
            reduction=reduction,
        )
    lines = [line]
    for key, name, loss in (
        ("brier_multiclass", "Brier score, sum over classes", BRIER),
        ("log_loss_multiclass", "log loss", LOG),
    ):
        mean = mean_loss(loss, sample, None, 1.0 - budget.confidence)
        given = {"corrected": mean.estimate, "method": "normal"}
        lines.append(ReportMetric(key, name, *mean, reduction="multiclass", **given))
    return lines


#: Number of steps that ``examine`` reports to the progress bar.
N_STEPS = len(ERRORS) + 4
# From this size on simulations use bins of neighboring predictions.
_LARGE = 100_000
# With so few distinct predictions, each of so many samples, every one of them can be tested.
_FEW_VALUES, _SAMPLES_PER_VALUE = 50, 5
# Parts are many and small: fewer bins and simulations.
_PART_DISTINCT, _PART_DRAWS = 512, 199
# The joint test simulates so many outcomes of classes, in at least so many samples.
_MOST_OUTCOMES, _FEW_DRAWS = 200_000_000, 199
# Calibrators are compared for at most so many classes; intervals of their mean error are for fewer.
_MOST_COMPARED, _MOST_INTERVALS = 20, 10


def examine(sample: _validation.BinarySample, budget: Budget, step: Step) -> dict[str, Any]:
    """Return what a report contains about a checked binary sample."""
    step("scores and slopes")
    grouped = group_sample(sample)
    summary = summarize(grouped, budget.confidence)
    brier, log_loss = (decompose(grouped, score) for score in ("brier", "log_loss"))
    shared = SharedIntervals(sample, budget.confidence, budget.n_resamples, budget.seed)
    metrics = []
    for key, name, metric in ERRORS:
        step(name)
        # the correction of the debiased error needs numbers of samples
        if key != "l2" or not sample.sampling:
            metrics.append(_error(key, name, metric, shared))
    del shared
    alpha, p = 1.0 - budget.confidence, grouped.prob
    normal, (predicted, observed) = _Normal(sample, grouped, alpha), grouped.frequencies()
    low, high = event_rate_limits(grouped, budget.confidence)
    difference = Mean(observed - predicted, low - predicted, high - predicted, 0.0)
    metrics += [
        normal.mean(
            "observed_minus_expected",
            "observed - expected frequency",
            difference,
            np.ones_like(p),
            (-predicted, 1.0 - predicted),
            "Clopper-Pearson",
        ),
        *normal.recalibration(summary),
        normal.mean("brier", "Brier score", mean_loss(BRIER, sample, None, alpha), 1.0 - 2.0 * p, (0.0, 1.0)),
        normal.mean("log_loss", "log loss", mean_loss(LOG, sample, None, alpha), logit(p), (0.0, np.inf)),
        *(
            ReportMetric(f"brier_{part}", f"{part} (Brier score)", value, corrected=value)
            for part, value in (("discrimination", brier.discrimination), ("uncertainty", brier.uncertainty))
        ),
    ]
    step("tests of calibration")
    tests = _tests(sample, grouped, budget)
    step("what remains after recalibration")
    residual_pvalue = _after_recalibration(sample, summary, budget)
    step("regions of predictions")
    regions = scan_regions(grouped, budget.confidence, budget.n_draws, budget.generator)
    support = weight_fields(sample, grouped.clusters, grouped.sampled_probability)
    samples = grouped.samples
    return {
        "n_samples": samples.total,
        "n_events": float(samples.positives.sum()),
        "n_distinct": int(grouped.prob.shape[0]),
        "n_certain": summary.n_extreme,
        "n_impossible": summary.n_contradicted,
        "predicted": predicted,
        "observed": observed,
        "metrics": tuple(metrics),
        "tests": tests,
        "regions": regions,
        "residual_pvalue": residual_pvalue,
        "summary": summary,
        "brier": brier,
        "log_loss": log_loss,
        **{key: support.get(key) for key in _SUPPORT},
    }


def counts_of(sample: _validation.BinarySample | _validation.ClassSample) -> Array:
    """Return how many samples each row stands for."""
    return np.ones(sample.y.shape[0]) if sample.sampling else sample.weights


def pooled_labels(columns: Sequence[_validation.BinarySample]) -> _validation.BinarySample:
    """Return all pairs of sample and label of a multilabel target, in which samples are clusters."""
    first = columns[0]
    counted = first.w is not None and not first.sampling
    rows = written_out(first.weights) if counted else np.arange(first.y.shape[0])
    codes = np.arange(rows.shape[0]) if first.clusters is None else first.clusters[rows]
    y, p = (
        np.concatenate([part[rows] for part in parts])
        for parts in zip(*((s.y, s.p) for s in columns), strict=True)
    )
    w = None if first.w is None or counted else np.tile(first.w, len(columns))
    return _validation.BinarySample(y, p, w, clusters=np.tile(codes, len(columns)), sampling=first.sampling)


def side_by_side(
    columns: Sequence[_validation.BinarySample], names: Sequence[str]
) -> _validation.ClassSample:
    """Return a multilabel sample, whose ``y`` has a column for each label, for tests."""
    first = columns[0]
    y, p = (np.column_stack(parts) for parts in zip(*((s.y, s.p) for s in columns), strict=True))
    kept: dict[str, Any] = {"clusters": first.clusters, "sampling": first.sampling}
    return _validation.ClassSample(y, p, first.w, classes=np.asarray(names), **kept)


def samples_of_labels(
    pairs: _validation.BinarySample, n_labels: int, clustered: bool
) -> list[_validation.BinarySample]:
    """Return the samples of each label, which are independent unless ``clustered``."""
    parts = [pairs.take(rows) for rows in np.split(np.arange(pairs.y.shape[0]), n_labels)]
    return parts if clustered else [replace(part, clusters=None) for part in parts]


def pooled_sample(sample: _validation.BinarySample, cells: int = 0) -> _validation.BinarySample:
    """Return a sample with fewer rows, of bins of neighboring predictions, unless its rows matter."""
    if sample.clusters is not None or sample.sampling:
        return sample
    return _validation.BinarySample(*pooled_if_many(group_sample(sample), cells=cells).rows())


def _tests(sample: _validation.BinarySample, grouped: GroupedOutcomes, budget: Budget) -> list[ReportTest]:
    draws: dict[str, Any] = {"n_resamples": budget.n_draws, "random_state": budget.seed}
    small = sample
    if grouped.total >= _LARGE and not _simulated.is_large(sample):
        # too few events for asymptotic distributions; the combined test pools predictions itself
        small = pooled_sample(sample)
    chosen: list[tuple[str, str, CalibrationTest]] = [
        ("combined test", "any miscalibration", CombinedTest(**draws)),
        ("T-Cal", "miscalibration at any scale", TCal(**draws)),
        ("cutoff test", "over- or underprediction in an interval", CutoffTest(**draws)),
        ("Cox test", "intercept and slope of the log-odds", CoxTest(**draws)),
        ("Spiegelhalter's z", "over- or underconfidence", SpiegelhalterTest(**draws)),
    ]
    distinct = grouped.prob.shape[0]
    counted = not sample.sampling and grouped.total >= _SAMPLES_PER_VALUE * distinct
    if 1 < distinct <= _FEW_VALUES and counted:
        chosen.append(("binomial test", "each distinct prediction", BinomialTest(**draws)))
    return [
        ReportTest(name, question, _result(test, sample if name == "combined test" else small), _NAN)
        for name, question, test in chosen
    ]


def _result(
    test: CalibrationTest, sample: _validation.BinarySample | _validation.ClassSample
) -> CalibrationTestResult:
    """Return the result without the samples that contradict predictions of exactly 0 or 1."""
    found = test._run(as_sampled(sample))
    return found.others or found


def with_adjusted(tests: Sequence[ReportTest], n_families: int) -> tuple[float, tuple[ReportTest, ...]]:
    """Return the p-value of the primary test, the first, and all tests with their adjusted p-values.

    Bonferroni for the families. The others are tested if the first rejects (fixed sequence), by Holm's
    method, so that their p-values are at least that of the primary test.
    """
    primary, *others = (min(1.0, n_families * test.result.pvalue) for test in tests)
    adjusted = [_NAN, *(max(primary, value) for value in holm(others))]
    return primary, tuple(replace(test, adjusted=p) for test, p in zip(tests, adjusted, strict=True))


def holm(pvalues: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's method."""
    return [float(p) for p in adjust_pvalues(np.array(pvalues, dtype=np.float64))]


def class_test(sample: _validation.ClassSample, budget: Budget) -> ReportTest:
    """Return the joint test of all classes, their mean and the confidence, or of all labels."""
    n, n_classes = sample.p.shape
    # fewer simulations of large samples, whose smallest p-value rejects in two families
    fewest = max(_FEW_DRAWS, ceil(2.0 / (1.0 - budget.confidence)))
    draws = min(budget.n_draws, max(fewest, _MOST_OUTCOMES // (n * n_classes)))
    found = _result(CutoffTest(n_resamples=draws, random_state=budget.seed), sample)
    question = "any class, their mean, the confidence" if sample.y.ndim == 1 else "any label"
    return ReportTest("cutoff test", question, found, _NAN, "joint")


def _after_recalibration(
    sample: _validation.BinarySample, summary: CalibrationSummary, budget: Budget
) -> float:
    """Return the p-value of a test after logistic recalibration; NaN where this is not determined.

    Two fitted parameters make the statistics smaller: the p-value is conservative.
    """
    intercept, slope = summary.slope_intercept.estimate, summary.slope.estimate
    if not (np.isfinite(intercept) and np.isfinite(slope)) or slope <= 0.0:
        return _NAN

    # predictions of exactly 0 and 1 have no finite log-odds
    sample = sample.take((sample.p > 0.0) & (sample.p < 1.0))
    sample = replace(sample, p=np.asarray(expit(intercept + slope * logit(sample.p))))
    parts = ("tcal", "cutoff")
    test = CombinedTest(components=parts, n_resamples=budget.n_draws, random_state=budget.seed)
    return test._run(as_sampled(pooled_sample(sample))).pvalue


# The calibrators that are compared by cross-validation, from the simplest to the most flexible.
_BINARY = {"PlattCalibrator()": PlattCalibrator(), "SplineCalibrator()": SplineCalibrator()}
_MULTICLASS = {
    "TemperatureCalibrator()": TemperatureCalibrator(),
    "StructuredMatrixScalingCalibrator()": StructuredMatrixScalingCalibrator(),
}
_N_FOLDS = 5


def select_calibrator(
    sample: _validation.BinarySample | _validation.ClassSample, seed: int
) -> CalibratorSelection | None:
    """Return the comparison of calibrators by cross-validated log loss; folds consist of whole clusters.

    None for more than 20 classes, which take too long, and if an outcome is missing in a training part.
    """
    n_classes = sample.p.shape[1] if sample.p.ndim == 2 else 2
    if n_classes > _MOST_COMPARED or np.bincount(sample.y, minlength=n_classes).min() < _N_FOLDS:
        return None
    y, p, w, folds = sample.y, sample.p, sample.w, _N_FOLDS
    if sample.clusters is not None:
        rows = written_out(counts_of(sample))
        y, p, w = y[rows], p[rows], w if sample.sampling else None
        fold = np.random.default_rng(seed).permutation(int(sample.clusters.max()) + 1) % _N_FOLDS
        fold = fold[sample.clusters[rows]]
        if any(np.unique(y[fold != k]).size < n_classes for k in range(_N_FOLDS)):
            return None
        folds = PredefinedSplit(fold)
    elif isinstance(sample, _validation.BinarySample) and not sample.sampling:
        y, p, w = pooled_if_many(group_sample(sample)).rows()
    if w is not None and sample.sampling:
        # the sum is the effective number of samples, on which standard errors depend
        w = w * (w.sum() / (w @ w))
    candidates = _BINARY if p.ndim == 1 else _MULTICLASS
    return AutoCalibrator(candidates=candidates, cv=folds, random_state=seed).fit(p, y, w).selection_


def examine_classes(
    labels: Sequence[Any],
    samples: Sequence[_validation.BinarySample],
    test: ReportTest,
    budget: Budget,
    n_families: int,
    step: Step,
) -> tuple[ReportPart, ...]:
    """Return a line for each class or label, with its p-values in the joint test."""
    tested = {part.label: part for part in test.result.scales}
    lines = []
    for label, problem in zip(labels, samples, strict=True):
        step(str(label))
        found = tested[label]
        adjusted = min(1.0, n_families * found.adjusted_pvalue)
        lines.append(replace(_part(str(label), problem, budget), pvalue=found.pvalue, adjusted=adjusted))
    return tuple(lines)


def examine_groups(
    groups: Sequence[tuple[str, _validation.BinarySample]], budget: Budget, n_families: int, step: Step
) -> tuple[ReportPart, ...]:
    """Return a line for each group, with p-values adjusted for their number and the families."""
    lines = []
    # the smallest p-value of a simulation must be able to reject
    n_draws = max(budget.n_draws, ceil(2 * n_families * len(groups) / (1.0 - budget.confidence)))
    for name, sample in groups:
        step(name)
        lines.append(replace(_part(name, sample, budget), pvalue=_group_pvalue(sample, budget, n_draws)))
    adjusted = holm([n_families * line.pvalue for line in lines])
    return tuple(replace(line, adjusted=value) for line, value in zip(lines, adjusted, strict=True))


def examine_segments(given: Any, budget: Budget, n_families: int, **params: Any) -> SegmentsResult:
    """Return the segments that ``find_segments`` reports, with p-values adjusted for the families."""
    level = 1.0 - (1.0 - budget.confidence) / n_families
    params |= {"confidence": level, "n_resamples": budget.n_draws, "random_state": budget.seed}
    found = find_segments(*given, **params)
    pvalues = [min(1.0, n_families * row.adjusted_pvalue) for row in found.segments]
    rows = (replace(row, adjusted_pvalue=p) for row, p in zip(found.segments, pvalues, strict=True))
    return replace(found, segments=tuple(rows), pvalue=min(1.0, n_families * found.pvalue))


def _group_pvalue(sample: _validation.BinarySample, budget: Budget, n_draws: int) -> float:
    """Return the p-value of the cutoff test."""
    if sample.clusters is not None and not sample.clusters.any():
        # the variance between clusters cannot be estimated from a single one
        return 1.0
    tested, number = pooled_sample(sample), budget.n_draws
    pvalue = _result(CutoffTest(n_resamples=number, random_state=budget.seed), tested).pvalue
    if number < n_draws and pvalue < 1.5 / (number + 1):
        # no simulation was as extreme: the p-value of more of them decides
        pvalue = _result(CutoffTest(n_resamples=n_draws, random_state=budget.seed), tested).pvalue
    return pvalue


def _part(name: str, sample: _validation.BinarySample, budget: Budget) -> ReportPart:
    """Return the line of a class or group, without its test."""
    grouped = group_sample(sample)
    small = pooled_if_many(grouped, _PART_DISTINCT)
    bound = SampleMetric(smooth_ece, small, weighted=bool((small.weight != 1).any()))
    null = null_distribution_of(bound, budget.n_resamples, budget.generator, budget.confidence)
    regions = scan_regions(grouped, budget.confidence, _PART_DRAWS, budget.generator)
    predicted, observed = grouped.frequencies()
    return ReportPart(
        name=name,
        n_samples=grouped.samples.total,
        n_events=float(grouped.samples.positives.sum()),
        predicted=predicted,
        observed=observed,
        estimate=bound.estimate if small is grouped else _value(smooth_ece, sample),
        expected=null.expected,
        null_upper=null.quantile,
        pvalue=_NAN,
        adjusted=_NAN,
        region=max(regions, key=lambda region: abs(region.gap) * region.n_samples, default=None),
    )
