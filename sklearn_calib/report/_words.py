"""What a report found, in words: verdict, stretches, kinds of error, what tests and floors mean."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sklearn_calib.report._lines import ReportPart, ReportRegion

if TYPE_CHECKING:
    from sklearn_calib.report._result import CalibrationReport

__all__ = [
    "Verdict",
    "capital",
    "findings",
    "floor_words",
    "is_bent",
    "is_shifted",
    "multiple_testing",
    "number",
    "one_line",
    "part_words",
    "probability",
    "pvalue_words",
    "region_words",
    "rows_words",
    "slope_kind",
    "verdict",
]

# Errors whose upper bound lies below these, and below a part of the rarer outcome's share, are called small
# and very small.
_SMALL, _TINY = 0.05, 0.01
# Below this, frequencies are compared by their ratio.
_RARE = 0.02


class Verdict(NamedTuple):
    """The result of a report: its tone, one sentence, and the numbers behind it."""

    level: str  # "off", "slight", "fine" or "open"
    title: str
    detail: str


def probability(value: float) -> str:
    """Return a probability: 0.71, or with more digits where it is close to 0 or 1: 0.041, 0.0012, 0.9988."""
    if value in (0.0, 1.0):
        return f"{value:g}"
    if value < 1e-5:
        return f"{value:.0e}"
    if value > 1.0 - 1e-5:
        return f"1-{1.0 - value:.0e}"
    if value < 0.5:
        digits = 1 - int(np.floor(np.log10(value) + 0.02))
    else:
        digits = -int(np.floor(np.log10(1.0 - value)))
    return f"{value:.{max(2, digits)}f}"


def number(value: float) -> str:
    """Return a measure with four digits after the point, in full where it is large, a dash where unknown."""
    if np.isnan(value):
        return "-"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    if 1e-9 < abs(value) < 9.5e-4:
        return f"{value:.2g}"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.4g}"


def one_line(text: str, most: int = 0) -> str:
    """Return a text of the user on one line, without control characters, cut to ``most`` characters."""
    shown = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return shown if not most or len(shown) <= most else shown[: most - 3] + "..."


def rows_words(value: float, what: str = "row") -> str:
    """Return a number of things, such as "1,203 rows"."""
    return f"{value:,.0f} {what}{'' if value == 1 else 's'}"


def pvalue_words(value: float) -> str:
    """Return a p-value as "p = 0.012"; below 0.0001 as "p < 0.0001"."""
    return f"p {_short_pvalue(value, '= ')}"


def _short_pvalue(value: float, equals: str = "") -> str:
    return "< 0.0001" if 0.0 < value < 1e-4 else f"{equals}{value:.2g}"


def _points(gap: float) -> str:
    size = 100.0 * abs(gap)
    shown = (
        f"{size:.0f}" if size >= 9.5 else f"{size:.1f}".removesuffix(".0") if size >= 0.095 else f"{size:.1g}"
    )
    return f"{shown} point{'' if shown == '1' else 's'}"


def _span(lower: float, upper: float) -> str:
    low, high = probability(lower), probability(upper)
    return f"at {low}" if lower == upper or low == high else f"between {low} and {high}"


def capital(text: str) -> str:
    """Return a text with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]


def _amount(predicted: float, observed: float, verb: str = "promises") -> str:
    """Return by how much predictions are off: in points, or, of rare things, as a ratio."""
    if max(predicted, observed) < _RARE and predicted > 0.0:
        if observed == 0.0:
            return f"{verb} events that never come"
        return f"events are {observed / predicted:.2g} times as frequent as promised"
    if min(predicted, observed) > 1.0 - _RARE and predicted < 1.0:
        return f"non-events are {(1.0 - observed) / (1.0 - predicted):.2g} times as frequent as promised"
    return f"{verb} {_points(observed - predicted)} too {'little' if observed > predicted else 'much'}"


def region_words(region: ReportRegion, who: str = "it") -> str:
    """Return a stretch of predictions as a sentence, with signs and sizes."""
    off = _amount(region.predicted, region.observed)
    if off.startswith("promises"):
        off = f"{who} {off}"
    text = (
        f"{capital(_span(region.lower, region.upper))} {off}: {probability(region.predicted)} predicted, "
        f"{probability(region.observed)} observed, {rows_words(region.n_samples)}"
    )
    part = (region.worst_lower, region.worst_upper) != (region.lower, region.upper)
    worst_gap = region.worst_observed - region.worst_predicted
    if part and abs(worst_gap) > 1.3 * abs(region.gap) and abs(worst_gap) > 0.001:
        text += (
            f"; most of all {_span(region.worst_lower, region.worst_upper)}, with "
            f"{probability(region.worst_predicted)} predicted and {probability(region.worst_observed)} "
            f"observed"
        )
    return text + "."


def part_words(part: ReportPart) -> str:
    """Return what is off about a class or group, or nothing."""
    return "" if part.region is None else region_words(part.region)


def verdict(report: "CalibrationReport") -> Verdict:
    """Return the result: is it off beyond chance, and is that much."""
    error = report.metric("smooth_ece")
    numbers = (
        f"Smooth ECE {number(error.value)} on these rows, where a perfectly calibrated model would show "
        f"{number(error.chance_mean)} on average and at most {number(error.chance_upper)} in "
        f"{_share(report.confidence)} of samples; freed of that noise, {number(error.lower)} to "
        f"{number(error.upper)} ({_share(report.confidence)} interval). {_deciding(report)}: "
        f"{pvalue_words(report.pvalue)}."
    )
    if report.n_impossible and report.miscalibrated:
        return Verdict(
            "off",
            "Not calibrated: outcomes happened that the predictions call impossible.",
            f"{rows_words(report.n_impossible)} with a prediction of 0 or 1 came out the other way. "
            f"{numbers}",
        )
    base = min(report.observed, 1.0 - report.observed)
    if report.miscalibrated:
        if error.upper < min(_TINY, 0.1 * base):
            return Verdict("slight", "Miscalibrated beyond chance, but only slightly.", numbers)
        return Verdict(
            "off", "Not calibrated: the predictions are off by more than chance explains.", numbers
        )
    if error.upper <= min(_SMALL, 0.2 * base):
        return Verdict("fine", "No sign of miscalibration, and little room for it.", numbers)
    return Verdict(
        "open",
        "No sign of miscalibration, but there is room for it.",
        f"{rows_words(report.n_samples)} do not rule out an error as large as {number(error.upper)}. "
        f"{numbers}",
    )


def _share(confidence: float) -> str:
    return f"{100 * confidence:g} %"


def _deciding(report: "CalibrationReport") -> str:
    if report.kind == "binary":
        return "Combined test"
    return "Combined test of the confidence and test of all classes, the smaller p-value doubled"


def findings(report: "CalibrationReport") -> tuple[str, ...]:
    """Return where predictions are off, and in which way; only what is beyond chance."""
    who = "the model" if report.kind == "confidence" else "it"
    lines = [region_words(region, who) for region in report.regions]
    if not lines:
        lines.append(
            "No stretch of predictions is off by more than chance explains"
            + ("; the evidence is spread over them." if report.miscalibrated else ".")
        )
    elif not report.miscalibrated:
        lines.append(
            "The test that decides does not reject, so take this as a hint: with this many rows it is the "
            "one place that stands out."
        )
    return (*lines, *_kinds(report)) if report.miscalibrated else tuple(lines)


def _kinds(report: "CalibrationReport") -> list[str]:
    """Return shift, slope and what is left, where each is beyond chance."""
    slope, ratio = report.summary.slope, report.summary.observed_over_expected
    kinds = []
    what = "right" if report.kind == "confidence" else "events"
    if is_shifted(report):
        many = "too low" if report.observed > report.predicted else "too high"
        kinds.append(
            f"Shift: predictions are {many} on the whole; {probability(report.predicted)} predicted, "
            f"{probability(report.observed)} of the rows are {what} (observed / expected {ratio.value:.2f}, "
            f"{ratio.lower:.2f} to {ratio.upper:.2f})."
        )
    kind = slope_kind(report)
    around = f"calibration slope {slope.value:.2f}, {slope.lower:.2f} to {slope.upper:.2f}, where 1 is right"
    if kind == "reversed":
        kinds.append(f"Reversed: higher predictions go with fewer events; {around}.")
    elif kind == "over":
        kinds.append(f"Over-confidence: predictions are too extreme, too close to 0 and 1; {around}.")
    elif kind == "under":
        kinds.append(f"Under-confidence: predictions are too timid, too far from 0 and 1; {around}.")
    if is_bent(report):
        kinds.append(
            "Bend or wave: something is left when shift and slope are corrected "
            f"({pvalue_words(report.residual_pvalue)})."
        )
    elif kinds and np.isfinite(report.residual_pvalue):
        kinds.append(
            "Nothing speaks for a bend or wave beyond that: corrected for shift and slope the predictions "
            f"look calibrated ({pvalue_words(report.residual_pvalue)})."
        )
    return kinds


def is_shifted(report: "CalibrationReport") -> bool:
    """Tell whether the calibration in the large is off."""
    intercept = report.summary.intercept
    if np.isnan(intercept.value):
        return report.metric("observed_minus_expected").exceeds
    return not intercept.lower <= 0.0 <= intercept.upper


def slope_kind(report: "CalibrationReport") -> str:
    """Return "over", "under", "reversed" or nothing, by the interval of the slope."""
    slope = report.summary.slope
    if np.isnan(slope.value) or slope.lower <= 1.0 <= slope.upper:
        return ""
    return "reversed" if slope.upper < 0.0 else "over" if slope.upper < 1.0 else "under"


def is_bent(report: "CalibrationReport") -> bool:
    """Tell whether something is left after shift and slope."""
    return report.residual_pvalue <= 1.0 - report.confidence


def multiple_testing(report: "CalibrationReport") -> str:
    """Return what the number of tests means."""
    further = [test for test in report.tests if np.isfinite(test.adjusted)]
    deciding = len(report.tests) - len(further)
    first = (
        "The combined test decides, alone, so that it needs no correction."
        if deciding == 1
        else "The first two tests decide together: the smaller p-value counts, doubled."
    )
    chance = 1.0 - report.confidence
    return (
        f"{first} The other {len(further)} look at the same rows and say in which way the model is off; "
        f"by chance "
        f"one of several is at most {chance:.2g} more often than {chance:.0%} of the time. Their last "
        f"column is "
        "corrected for that (Holm)."
    )


def floor_words(report: "CalibrationReport") -> str:
    """Return what a floor is, with the numbers at hand."""
    error = report.metric("smooth_ece")
    return (
        "A calibration error is never 0 on a finite sample. "
        f"With these {rows_words(report.n_samples)} even perfect predictions would show a smooth ECE of "
        f"{number(error.chance_mean)} on average: do not read differences between models that are "
        f"smaller, and "
        "compare errors of samples of different size only beside their floors. Four times as many rows about "
        "halve it."
    )
