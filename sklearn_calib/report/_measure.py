"""The measures of a report, each beside what perfectly calibrated predictions would show."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlog1py, xlogy
from scipy.stats import norm

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._links import logit
from sklearn_calib._validation import BinarySample
from sklearn_calib.inference import confidence_interval, null_floor
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
from sklearn_calib.report._lines import ReportMetric
from sklearn_calib.report._sample import condensed, rows_of

__all__ = ["ERRORS", "Budget", "large_scale_lines", "measure_error", "plain", "score_lines"]

Array = NDArray[np.float64]
_NAN = float("nan")

#: The calibration errors of a report: key, name, function.
ERRORS: tuple[tuple[str, str, Callable[..., float]], ...] = (
    ("smooth_ece", "smooth ECE", smooth_ece),
    ("cutoff", "cutoff calibration error", cutoff_calibration_error),
    ("logit_smoothed_ece", "logit-smoothed ECE", logit_smoothed_ece),
    ("ece", "ECE, 15 bins by width", expected_calibration_error),
    (
        "l2",
        "l2 error, 15 bins by mass, debiased",
        partial(expected_calibration_error, norm="l2", strategy="quantile", debias=True),
    ),
    ("ici", "integrated calibration index (ICI)", integrated_calibration_index),
    ("brier_miscalibration", "miscalibration in the Brier score", calibration_loss),
    (
        "log_loss_miscalibration",
        "miscalibration in the log loss",
        partial(calibration_loss, score="log_loss"),
    ),
)

# Measures whose every value takes a fit: on how many cells of neighbours, with which part of the resamples.
_DEAR = {"ici": (256, 128, 4)}
_FEWEST = 50


@dataclass(frozen=True)
class Budget:
    """Level, number of resamples and seed of all intervals and floors."""

    confidence: float
    n_resamples: int
    seed: int

    @property
    def z(self) -> float:
        """The two-sided normal quantile."""
        return float(norm.isf((1.0 - self.confidence) / 2.0))


def measure_error(
    key: str, name: str, metric: Callable[..., float], value: float, grouped: GroupedOutcomes, budget: Budget
) -> ReportMetric:
    """Return an error with interval and floor; the value is that of all rows, without averaging."""
    most, cells, part = _DEAR.get(key, (0, 0, 1))
    if key == "log_loss_miscalibration" and _saturated(grouped):
        return ReportMetric(key, name, value, _NAN, _NAN, _NAN, _NAN, _NAN)
    small = condensed(grouped, most, cells) if most else condensed(grouped)
    number = (
        budget.n_resamples if part == 1 else max(min(_FEWEST, budget.n_resamples), budget.n_resamples // part)
    )
    single = bool((small.weight == 1).all())
    rows = rows_of(small)
    floor = null_floor(
        metric,
        small.prob,
        sample_weight=None if single else small.weight,
        n_resamples=number,
        random_state=budget.seed,
        confidence=budget.confidence,
    )
    low = high = _NAN
    if np.isfinite(value):
        interval = confidence_interval(
            metric,
            rows.y,
            rows.p,
            sample_weight=None if single else rows.w,
            confidence=budget.confidence,
            n_resamples=max(number, 20),
            pos_label=1,
            random_state=budget.seed,
        )
        low, high = interval.lower, interval.upper
    return ReportMetric(key, name, value, low, high, floor.mean, _NAN, floor.quantile)


def _saturated(grouped: GroupedOutcomes) -> bool:
    """Tell whether a prediction is 0 or 1: the log loss is infinite for some outcomes then."""
    return bool(grouped.prob[0] <= 0.0 or grouped.prob[-1] >= 1.0)


def large_scale_lines(
    grouped: GroupedOutcomes, summary: CalibrationSummary, budget: Budget
) -> list[ReportMetric]:
    """Return observed against expected, intercept and slope, beside their laws if predictions are right."""
    z, total = budget.z, grouped.total
    variance = grouped.variance
    frequency = float(grouped.positives.sum()) / total
    expected = float(grouped.weight @ grouped.prob)
    difference = frequency - expected / total
    error = float(np.sqrt(_residual_variance(grouped, 1.0))) / total
    chance = z * float(np.sqrt(variance.sum())) / total
    lines = [
        ReportMetric(
            "observed_minus_expected",
            "observed - expected frequency",
            difference,
            difference - z * error,
            difference + z * error,
            0.0,
            -chance,
            chance,
        )
    ]
    ratio = summary.observed_over_expected
    spread = z * float(np.sqrt(variance.sum())) / expected if expected > 0.0 else _NAN
    lines.append(
        ReportMetric(
            "observed_over_expected",
            "observed / expected frequency",
            ratio.value,
            ratio.lower,
            ratio.upper,
            1.0,
            max(0.0, 1.0 - spread) if np.isfinite(spread) else _NAN,
            1.0 + spread,
        )
    )
    about_intercept, about_slope = (z * value for value in _null_errors(grouped))
    for key, name, estimate, ideal, around in (
        ("intercept", "calibration intercept (slope 1)", summary.intercept, 0.0, about_intercept),
        ("slope", "calibration slope", summary.slope, 1.0, about_slope),
    ):
        lines.append(
            ReportMetric(
                key,
                name,
                estimate.value,
                estimate.lower,
                estimate.upper,
                ideal,
                ideal - around,
                ideal + around,
            )
        )
    return lines


def _residual_variance(grouped: GroupedOutcomes, lever: Array | float) -> float:
    """Return the sum of squared deviations of (y - p) times a lever from its mean."""
    negatives = grouped.weight - grouped.positives
    event, other = lever * (1.0 - grouped.prob), -lever * grouped.prob
    mean = float(grouped.positives @ event + negatives @ other) / grouped.total
    return float(grouped.positives @ (event - mean) ** 2 + negatives @ (other - mean) ** 2)


def _null_errors(grouped: GroupedOutcomes) -> tuple[float, float]:
    """Return standard errors of intercept and slope at a = 0, b = 1 from the expected information."""
    variance, x = grouped.variance, logit(grouped.prob)
    total = float(variance.sum())
    if total <= 0.0:
        return _NAN, _NAN
    around = float(variance @ (x - variance @ x / total) ** 2)
    return total**-0.5, around**-0.5 if around > 1e-12 * total else _NAN


def score_lines(
    grouped: GroupedOutcomes, brier: ScoreDecomposition, log_loss: ScoreDecomposition, budget: Budget
) -> list[ReportMetric]:
    """Return the proper scores, beside their law if the predictions are right, and the parts of the first."""
    p, w = grouped.prob, grouped.weight
    negatives = w - grouped.positives
    with np.errstate(divide="ignore"):
        losses = (
            (brier.score, (1.0 - p) ** 2, p**2, p * (1.0 - p), 1.0 - 2.0 * p),
            (log_loss.score, -np.log(p), -np.log1p(-p), -(xlogy(p, p) + xlog1py(1.0 - p, -p)), logit(p)),
        )
    lines = []
    for (key, name), (value, event, other, mean, lever) in zip(
        (("brier", "Brier score"), ("log_loss", "log loss")), losses, strict=True
    ):
        half = _NAN
        if np.isfinite(value):
            happened = np.where(grouped.positives > 0, event, 0.0), np.where(negatives > 0, other, 0.0)
            squares = grouped.positives @ (happened[0] - value) ** 2 + negatives @ (happened[1] - value) ** 2
            half = budget.z * float(np.sqrt(squares)) / grouped.total
        centre = float(w @ mean) / grouped.total
        chance = budget.z * float(np.sqrt(grouped.variance @ lever**2)) / grouped.total
        low = max(0.0, value - half) if np.isfinite(half) else _NAN
        lines.append(
            ReportMetric(key, name, value, low, value + half, centre, centre - chance, centre + chance)
        )
    for part in ("discrimination", "uncertainty"):
        number = getattr(brier, part)
        lines.append(
            ReportMetric(f"brier_{part}", f"{part} in the Brier score", number, _NAN, _NAN, _NAN, _NAN, _NAN)
        )
    return lines


def plain(sample: BinarySample, metric: Callable[..., float]) -> float:
    """Return a metric of a checked sample."""
    return float(metric(sample.y, sample.p, sample_weight=sample.w, pos_label=1))
