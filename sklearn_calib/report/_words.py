"""The words of a report: verdict, findings, warnings, recommendations, and all of it as text."""

from dataclasses import fields, is_dataclass
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np

from sklearn_calib._core._clusters import cluster_words
from sklearn_calib._core._grouping import contradiction_words, weight_words
from sklearn_calib._html import number_text, printable, printable_lines, pvalue_text, pvalue_words
from sklearn_calib.inference import Region
from sklearn_calib.inference._comparison import aligned
from sklearn_calib.inference._data_checks import DEPENDENCE_LEVEL, contradiction_pvalue
from sklearn_calib.metrics._smooth import signed_parts
from sklearn_calib.report import _numbers

# Errors whose upper bound lies below these, and below a fraction of the rarer outcome's frequency, are called
# small and very small.
_SMALL, _TINY = 0.05, 0.01
# Below this, frequencies are compared by their ratio.
_RARE = 0.02
# With fewer events (or non-events, if these are fewer) than these, almost nothing, or few parameters, can
# be estimated.
_VERY_FEW, _FEW = 10, 100
# Contradicted predictions of 0 and 1 that are fewer than this fraction of the samples are a slight error.
_MATERIAL = 0.01
_WIDTH = 100
_PARTS = {"class": "classes", "label": "labels", "group": "groups"}
# The headline and the findings name at most so many classes or groups.
_MOST_NAMED = 3
# Longer names are cut there.
_LONGEST = 200
# The text lists at most so many classes or groups: those with the smallest p-values.
_MOST_PARTS = 20

#: What the numbers of a multiclass report are computed from.
REDUCTIONS = {
    "confidence": "confidence: largest class probability, and whether its class is right",
    "pairs": "all pairs of a sample and a label",
    "classwise": "classwise: each class against the rest, mean over classes",
    "multiclass": "multiclass: all class probabilities",
}


class Verdict(NamedTuple):
    """The result of a report: its grade, one sentence, the numbers behind it, and what the grades mean."""

    level: str  # "off", "slight", "fine" or "open"
    title: str
    detail: str
    grades: str


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
    """Return a metric with at least two digits, in full if it is large, a dash if it is not determined."""
    if np.isnan(value):
        return "-"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return number_text(value) if abs(value) < 100 else f"{value:.4g}"


def one_line(text: str, most: int = 0) -> str:
    """Return a text of the user on one line, cut to ``most`` characters; control characters are escaped."""
    shown = printable(" ".join(text.split()))
    return shown if not most or len(shown) <= most else shown[: most - 3] + "..."


def sample_words(value: float, what: str = "sample") -> str:
    """Return a number with its unit, such as "1,203 samples"."""
    return f"{value:,.0f} {what}{'' if value == 1 else 's'}"


def level_text(report: _numbers.ReportNumbers) -> str:
    """Return the confidence level, such as "95%"."""
    return f"{100 * report.confidence:g}%"


def interval_text(line: _numbers.ReportMetric) -> str:
    """Return the confidence interval, or nothing."""
    if np.isnan(line.lower) or np.isnan(line.upper):
        return ""
    return f"{number(line.lower)} to {number(line.upper)}"


def null_range(line: _numbers.ReportMetric) -> str:
    """Return the range of perfectly calibrated predictions, or nothing."""
    if np.isnan(line.null_upper):
        return ""
    if np.isnan(line.null_lower):
        return f"up to {number(line.null_upper)}"
    return f"{number(line.null_lower)} to {number(line.null_upper)}"


def test_label(test: _numbers.ReportTest) -> str:
    """Return the name of a test; in a multiclass report with what it tests."""
    return test.name if test.reduction == "binary" else f"{test.name} ({test.reduction})"


def _span(lower: float, upper: float) -> str:
    low, high = probability(lower), probability(upper)
    return f"at {low}" if lower == upper or low == high else f"between {low} and {high}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _error(predicted: float, observed: float, kind: str) -> str:
    """Return the error of predictions: in percentage points, or as a ratio of rare events."""
    if max(predicted, observed) < _RARE and predicted > 0.0:
        if observed == 0.0:
            return "no events were observed"
        return f"events are {observed / predicted:.2g} times as frequent as predicted"
    if min(predicted, observed) > 1.0 - _RARE and predicted < 1.0:
        return f"non-events are {(1.0 - observed) / (1.0 - predicted):.2g} times as frequent as predicted"
    what = f"{'under' if observed > predicted else 'over'}predicts"
    what += " its accuracy" if kind == "confidence" else ""
    size = 100.0 * abs(observed - predicted)
    digits = 0 if size >= 9.5 else 1
    points = f"{size:.{digits}f}".removesuffix(".0") if size >= 0.095 else f"{size:.1g}"
    return f"the model {what} by {points} percentage point{'' if points == '1' else 's'}"


def region_words(region: Region, kind: str = "binary") -> str:
    """Return an interval of predictions as a sentence, with signs and sizes."""
    span = _span(region.lower, region.upper)
    text = (
        f"{_capital(f'with confidence {span}' if kind == 'confidence' else span)} "
        f"{_error(region.predicted, region.observed, kind)}: {probability(region.predicted)} predicted, "
        f"{probability(region.observed)} observed, {sample_words(region.n_samples)}"
    )
    worst_gap = region.worst_observed - region.worst_predicted
    if abs(worst_gap) > 1.3 * abs(region.gap) and abs(worst_gap) > 0.001:
        text += (
            f"; the largest error is {_span(region.worst_lower, region.worst_upper)}: "
            f"{probability(region.worst_predicted)} predicted, {probability(region.worst_observed)} observed"
        )
    return text + "."


def heading(report: _numbers.ReportNumbers) -> str:
    """Return the title."""
    return f"Calibration report: {one_line(report.name)}" if report.name else "Calibration report"


def about(report: _numbers.ReportNumbers) -> str:
    """Return a one-line description of the data."""
    percent = 100.0 * report.observed
    shown = f"{percent:.1f}%" if 0.95 <= percent <= 99.05 or percent in (0.0, 100.0) else f"{percent:.2g}%"
    within = f"; clusters: {cluster_words(report)}" if report.n_clusters else ""
    if report.weights is not None:
        within += f"; weights: {weight_words(report)}"
        shown = shown if report.weights == "frequency" else f"weighted: {shown}"
    if report.kind == "binary":
        label = "" if report.positive == "1" else f', positive class "{one_line(report.positive, 40)}"'
        return (
            f"{sample_words(report.n_samples)}, {sample_words(report.n_events, 'event')} ({shown}), "
            f"mean prediction {probability(report.predicted)}{label}{within}"
        )
    if report.kind == "multilabel":
        return (
            f"{sample_words(report.n_samples, 'prediction')} of {len(report.classes)} labels, "
            f"{sample_words(report.n_events, 'event')} ({shown}), mean prediction "
            f"{probability(report.predicted)}{within}"
        )
    return (
        f"{sample_words(report.n_samples)}, {len(report.classes)} classes, accuracy {shown}, mean confidence "
        f"{probability(report.predicted)}{within}"
    )


def verdict(report: _numbers.ReportNumbers) -> Verdict:
    """Return the result: is there evidence of miscalibration, and how large can it be."""
    error, level, p = report.metric("smooth_ece"), level_text(report), pvalue_words(report.pvalue)
    tiny, small = _limits(report.observed)
    test, of_classes = "Combined test", ""
    if report.kind == "confidence":
        test = "Joint cutoff test of all classes and the confidence"
        smooth, log_loss, brier = (
            number(report.metric(key).estimate)
            for key in ("smooth_ece_classwise", "log_loss_multiclass", "brier_multiclass")
        )
        of_classes = (
            f"For the matrix P of all class probabilities: smooth_ece(y, P) {smooth}, log_loss(y, P) "
            f"{log_loss}, brier_score_loss(y, P) {brier}. "
        )
    elif report.kind == "multilabel":
        test = "Joint cutoff test of all labels"
    if report.n_impossible:
        verb = "contradicts" if report.n_impossible == 1 else "contradict"
        test += f", without {sample_words(report.n_impossible)} that {verb} a prediction of 0 or 1"
    test += " (adjusted)" if report.n_families > 1 else ""
    noise = ": sampling noise inflates estimates" if error.estimate > error.corrected else ""
    numbers = (
        f"{_error_name(report)}, corrected for bias: {number(error.corrected)} ({level} confidence interval "
        f"{number(error.lower)} to {number(error.upper)}). The estimate is {number(error.estimate)} "
        f"({_signed_parts(error.estimate, report)}), where "
        f"{number(error.expected)} is expected under perfect calibration ({level} quantile "
        f"{number(error.null_upper)}){noise}. {test}: {p}. {of_classes}"
    ).rstrip()
    grades = (
        f"Small: the confidence interval of the smooth ECE ends below {number(tiny)}. Large: it begins above "
        f"{number(small)}. These limits are 10% and 20% of the frequency of the rarer outcome, at most "
        f"{_TINY:g} and {_SMALL:g}."
    )
    parts = report.significant_parts
    named = " and ".join(
        f"{kind if len(names) == 1 else plural} {listed(names, _MOST_NAMED)}"
        for kind, plural in (*_PARTS.items(), ("segment", "segments"))
        if (names := [part.name for of, part in parts if of == kind])
    )
    if report.is_significant(report.pvalue):
        grade = (
            "small" if error.upper < tiny else "large" if error.lower > small else "between small and large"
        )
        if error.lower < tiny <= error.upper or error.lower <= small < error.upper:
            low, high = number(error.lower), number(error.upper)
            grade = f"at most {high}" if low == number(0.0) else f"between {low} and {high}"
        also = f" Miscalibrated when tested separately: {named}." if named else ""
        title = f"Miscalibrated ({p}); the error is {grade}.{also}"
        slight = grade == "small" and not any(_is_material(part) for _, part in parts)
        return Verdict("slight" if slight else "off", title, numbers, grades)
    if named:
        title = f"Miscalibrated: {named} (adjusted {pvalue_words(parts[0][1].adjusted)})."
        slight = error.upper < tiny and not any(_is_material(part) for _, part in parts)
        together = "No evidence of miscalibration of all predictions together."
        return Verdict("slight" if slight else "off", title, f"{together} {numbers}", grades)
    if report.contradicts:
        words = contradiction_words(report.n_impossible, report.n_certain)
        few = report.n_impossible < _MATERIAL * report.n_samples
        return Verdict("slight" if few else "off", f"Miscalibrated: {words}.", numbers, grades)
    others, hints, large = report.tests[1:], _hints(report), error.upper > small
    if large:
        verb = "is" if report.n_samples == 1 else "are"
        n = sample_words(report.n_samples)
        numbers = f"{n} {verb} compatible with an error of up to {number(error.upper)}. {numbers}"
    secondary = _numbers.holm([report.n_families * test.result.pvalue for test in others])
    rejecting = [test for test, value in zip(others, secondary, strict=True) if report.is_significant(value)]
    if rejecting:
        which = listed([f"the {test_label(test)}" for test in rejecting], len(rejecting))
        verb = "does" if len(rejecting) == 1 else "do"
        title = f"Inconclusive: the primary test does not reject calibration ({p}), but {which} {verb} "
        return Verdict("open", f"{title}({pvalue_words(min(secondary))} by Holm's method).", numbers, grades)
    if hints:
        verb = "suggest" if len(hints) > 1 or hints[0][0].isdigit() else "suggests"
        title = f"Unclear ({p}): {' and '.join(hints)} {verb} miscalibration, the test does not."
        return Verdict("open", title, numbers, grades)
    if large:
        title = f"Too few samples to tell ({p}): no evidence of miscalibration, but large errors are not"
        return Verdict("open", f"{title} ruled out.", numbers, grades)
    return Verdict(
        "fine", f"No evidence of miscalibration ({p}); large errors are ruled out.", numbers, grades
    )


def _signed_parts(estimate: float, report: _numbers.ReportNumbers) -> str:
    """Return the parts of smooth ECE of either sign: their difference is the mean residual."""
    low, high = map(number, signed_parts(estimate, report.observed - report.predicted))
    if report.kind == "confidence":
        return f"underconfidence {low} and overconfidence {high}"
    return f"{low} where predictions are too low and {high} where they are too high"


def _limits(observed: float) -> tuple[float, float]:
    """Return the errors below and above which they are graded small and large, by the event frequency."""
    base = min(observed, 1.0 - observed)
    return min(_TINY, 0.1 * base), min(_SMALL, 0.2 * base)


def _is_material(part: _numbers.ReportPart) -> bool:
    """Tell whether the error of a class, group or segment, whose noise is left in, is not small."""
    return part.estimate >= _limits(part.observed)[0]


def listed(names: list[str], most: int) -> str:
    """Return the first names as "a, b and 2 more", or apart by semicolons if one contains "and"."""
    shown = [one_line(name, _LONGEST) for name in names[:most]]
    shown += [f"{len(names) - most} more"] * (len(names) > most)
    if any(" and " in name for name in shown):
        return "; ".join(shown)
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _hints(report: _numbers.ReportNumbers) -> list[str]:
    """Return which intervals exclude the ideal value, and which metrics lie outside their ranges."""
    hints = []
    for name, ideal in (("intercept", 0.0), ("slope", 1.0)):
        found = getattr(report.summary, name)
        if found.upper < ideal or found.lower > ideal:
            ends = f"{found.lower:z.2f} to {found.upper:z.2f}"
            hints.append(
                f"the calibration {name} {found.estimate:z.2f} ({level_text(report)} interval {ends})"
            )
    outside = [line for line in report.metrics if line.exceeds]
    if outside and not hints:
        what = f"{len(outside)} of the metrics" if len(outside) > 1 else f'the metric "{outside[0].name}"'
        hints.append(f"{what} outside the {level_text(report)} range under perfect calibration")
    return hints


def _error_name(report: _numbers.ReportNumbers) -> str:
    return "Smooth ECE of the confidence" if report.kind == "confidence" else "Smooth ECE"


def findings(report: _numbers.ReportNumbers) -> tuple[str, ...]:
    """Return in which regions and in which way predictions are miscalibrated."""
    first = [_contradicted(report)] if report.n_impossible else []
    whole = report.is_significant(report.pvalue)
    lines = [region_words(region, report.kind) for region in report.regions]
    if not lines:
        lines.append(
            "No interval of predictions is significantly miscalibrated by itself"
            + ("; the evidence is spread over all predictions." if whole else ".")
        )
    elif not whole:
        lines.append("The primary test does not reject calibration: treat these intervals as exploratory.")
    parts = [_part_words(of, part, report) for of, part in report.significant_parts[:_MOST_NAMED]]
    return (*first, *lines, *_kinds(report), *parts) if whole else (*first, *parts, *lines)


def _part_words(of: str, part: _numbers.ReportPart, report: _numbers.ReportNumbers) -> str:
    """Return how a class or group is miscalibrated: on average, or in its worst interval of predictions."""
    kind = report.kind if of != "class" else "binary"
    gap = abs(part.observed - part.predicted)
    if part.region is not None and gap < 0.5 * part.estimate:
        text = region_words(part.region, kind).removesuffix(".")
        text = text[0].lower() + text[1:]
    else:
        text = (
            f"{_error(part.predicted, part.observed, kind)}: {probability(part.predicted)} predicted, "
            f"{probability(part.observed)} observed, {sample_words(part.n_samples)}"
        )
    return f"{_capital(of)} {one_line(part.name, _LONGEST)}: {text} (adjusted {pvalue_words(part.adjusted)})."


def _contradicted(report: _numbers.ReportNumbers) -> str:
    """Return how many predictions of exactly 0 or 1 were contradicted, and if by rounding."""
    p = contradiction_pvalue(report.n_impossible, report.n_certain, report.rounding)
    verb = "more than rounding explains" if report.contradicts else "as rounding may explain"
    return (
        f"{contradiction_words(report.n_impossible, report.n_certain)}, {verb} (of probabilities of up to "
        f"{report.rounding:.2g}; {pvalue_words(p)}). Strictly, a single one refutes such predictions "
        "(p = 0), and the log loss is infinite. Tests exclude contradicted samples; slope and "
        "intercept do not use predictions of 0 and 1."
    )


def _kinds(report: _numbers.ReportNumbers) -> list[str]:
    """Return calibration in the large, slope and nonlinear miscalibration, each if it is significant."""
    slope, ratio = report.summary.slope, report.summary.observed_over_expected
    kinds = []
    if _is_shifted(report):
        frequency = "accuracy" if report.kind == "confidence" else "event frequency"
        shown, decisive = f"observed / expected {ratio.estimate:.2f}", report.summary.intercept
        if np.isnan(decisive.estimate):
            decisive = ratio
        else:
            shown += f"; calibration intercept {decisive.estimate:z.3f}"
        kinds.append(
            f"Calibration in the large: predictions are too "
            f"{'low' if report.observed > report.predicted else 'high'} on average; mean prediction "
            f"{probability(report.predicted)}, {frequency} {probability(report.observed)} ({shown}, "
            f"{level_text(report)} confidence interval {decisive.lower:z.3f} to {decisive.upper:z.3f})."
        )
    kind = {
        "reversed": "Reversed: events are less frequent at higher predictions",
        "over": "Overconfident: predictions are too close to 0 and 1",
        "under": "Underconfident: predictions are too far from 0 and 1",
    }.get(_slope_kind(report))
    if kind:
        kinds.append(
            f"{kind}; calibration slope {slope.estimate:z.2f} ({level_text(report)} confidence interval "
            f"{slope.lower:z.2f} to {slope.upper:z.2f}), 1 is ideal."
        )
    p = pvalue_words(report.residual_pvalue)
    if report.is_significant(report.residual_pvalue):
        kinds.append(f"Nonlinear miscalibration remains after correcting intercept and slope ({p}).")
    elif kinds and np.isfinite(report.residual_pvalue):
        kinds.append(f"No evidence of nonlinear miscalibration after correcting intercept and slope ({p}).")
    return kinds


def _is_shifted(report: _numbers.ReportNumbers) -> bool:
    """Tell whether the model is significantly miscalibrated in the large."""
    intercept = report.summary.intercept
    if np.isnan(intercept.estimate):
        return report.metric("observed_minus_expected").exceeds
    return not intercept.lower <= 0.0 <= intercept.upper


def _slope_kind(report: _numbers.ReportNumbers) -> str:
    """Return "over", "under", "reversed" or nothing, by the interval of the slope."""
    slope = report.summary.slope
    if np.isnan(slope.estimate) or slope.lower <= 1.0 <= slope.upper:
        return ""
    return "reversed" if slope.upper < 0.0 else "over" if slope.upper < 1.0 else "under"


def warnings(report: _numbers.ReportNumbers) -> tuple[str, ...]:
    """Return the limitations of these data."""
    lines = []
    if report.dependence_pvalue <= DEPENDENCE_LEVEL:
        lines.append(
            "Consecutive samples look dependent: their residuals are autocorrelated "
            f"({pvalue_words(report.dependence_pvalue)}). If samples share a patient, customer, session or "
            "day, p-values are too small and intervals too narrow: pass clusters=."
        )
    n, events, sure = report.n_samples, report.n_events, report.kind == "confidence"
    rarer = min(events, n - events)
    if events <= n - events:
        name = "classified correctly" if sure else "events"
    else:
        name = "misclassified" if sure else "non-events"
    few = f"Only {rarer:,.0f} of {sample_words(n)} are {name}"
    if rarer == 0:
        lines.append(
            f"All {sample_words(n)} have the same outcome: the calibration slope is not determined, and "
            "calibration cannot be assessed reliably."
        )
    elif rarer < _VERY_FEW:
        lines.append(f"{few}: only large errors can be detected.")
    elif rarer < _FEW:
        lines.append(
            f"{few}: confidence intervals are wide and calibration curves are noisy. A calibration curve "
            "needs at least 100, preferably 200 samples of each outcome."
        )
    if report.n_certain and not report.n_impossible:
        lines.append(
            f"{sample_words(report.n_certain, 'prediction')} of exactly 0 or 1: all outcomes agree with "
            "them, but a single outcome that does not would make the log loss infinite."
        )
    if report.n_distinct == 1:
        lines.append("All predictions are equal: only their mean can be assessed.")
    elif report.n_distinct <= 50 and n >= 5 * report.n_distinct:
        lines.append(
            f"Only {report.n_distinct} distinct predictions: the binomial test is applied to each of them. "
            "Do not interpret the smooth calibration curve between them."
        )
    slope = report.summary.slope
    if report.n_distinct > 1 and rarer and np.isfinite(slope.estimate) and slope.lower <= 0.0 <= slope.upper:
        lines.append(
            "There is no evidence that the predictions discriminate between events and non-events: the "
            "calibration slope is not significantly different from 0. Calibration alone does not make a "
            "model useful: a model that always predicts the base rate is calibrated, too."
        )
    return tuple(lines)


def advice(report: _numbers.ReportNumbers) -> tuple[str, ...]:
    """Return what to do next: whether to recalibrate, with which calibrator, on which samples."""
    level = verdict(report).level
    off = [part.name for of, part in report.significant_parts if of == "group"] * (len(report.groups) > 1)
    groups = f"{listed(off, 5)} {'is' if len(off) == 1 else 'are'} significantly miscalibrated" if off else ""
    found = [of for of, _ in report.significant_parts]
    by_features = [
        "SegmentCalibrator corrects segments by their features: make_pipeline(CrossFitScorer(model, "
        "passthrough=True), SegmentCalibrator()).fit(X, y), where X has the features of training samples."
    ] * ("segment" in found and report.kind == "binary")
    p, differ = pvalue_words(report.groups_pvalue), off and report.is_significant(report.groups_pvalue)
    if level == "fine":
        lines = ["Do not recalibrate: a calibrator would fit noise."]
    elif level == "open":
        lines = ["Collect more samples: these neither show miscalibration nor rule it out."]
    elif _slope_kind(report) == "reversed":
        lines = [
            "Check first that the probabilities are those of the positive class, and that pos_label is "
            "correct: a slope below 0 is rarely a property of the model."
        ]
    elif level == "slight" and not (report.is_significant(report.pvalue) or found):
        lines = ["Only predictions of exactly 0 or 1 are shown to be wrong; others need no recalibration."]
    elif level == "slight":
        lines = [
            "The miscalibration is significant but small. Recalibrate only if decisions depend on such "
            f"differences. {_calibrator(report)}",
            *by_features,
        ]
        if differ:
            lines.append(f"Groups differ ({p}): {groups}. GroupCalibrator fits a map for each group.")
    elif set(found) == {"segment"}:
        lines = [
            "Confirm the segments on new samples. A calibrator of the score alone cannot correct them.",
            *by_features,
        ]
    else:
        name = report.selection.chosen if report.selection else "calibrator"
        how = f"Recalibrate. {_calibrator(report)}"
        fit = f"CalibratedClassifier(model, {name})"
        fit = f"MultiOutputClassifier({fit})" if report.kind == "multilabel" else fit
        fit += " uses cross-validation on the training samples"
        if differ:
            how = f"Groups differ ({p}): {groups}. Recalibrate with GroupCalibrator, which fits a map for "
            how += "each group, shrunk to a pooled one."
            pooled = "" if report.kind == "binary" else "TemperatureCalibrator()"
            fit = f"calibrator = GroupCalibrator({pooled}).fit(p, y, groups=groups), then "
            fit += "calibrator.predict_proba(p, groups=groups)"
        lines = [
            how,
            "Fit it on samples that the model was not trained on, never on the samples of this report: "
            f"{fit}. Then repeat this report on new samples.",
            *by_features,
        ]
    if report.n_impossible and level != "off":
        least = f"{report.rounding:.2g}"
        lines.append(
            f"Clip predictions to [{least}, 1 - {least}]: a contradicted 0 or 1 makes the log loss infinite."
        )
    if off and not differ:
        tested = f" ({p})" if np.isfinite(report.groups_pvalue) else ""
        lines.append(f"Of the groups, {groups}, but there is no evidence that groups differ{tested}.")
    lines.append("Calibration is not accuracy: choose between models by the Brier score or the log loss.")
    return tuple(lines)


def _calibrator(report: _numbers.ReportNumbers) -> str:
    """Return which calibrator has the best cross-validated log loss."""
    found = report.selection
    if found is None:
        return "Choose the calibrator with AutoCalibrator()."
    names = listed([one.name for one in found.candidates], 2)
    text = f"Of {names}, {found.chosen} has the smallest log loss"
    if found.chosen != found.best:
        text = f"{found.chosen} is the simplest calibrator whose log loss is close to that of {found.best}"
    text += f" in {found.n_folds}-fold cross-validation on these samples."
    if found.chosen == "PlattCalibrator()" and _is_shifted(report) and not _slope_kind(report):
        text += (
            " If only the base rate differs from that in training, PriorShiftCalibrator(training_prior=...) "
            "needs no other parameter."
        )
    return text


def multiple_testing(report: _numbers.ReportNumbers) -> str:
    """Return the role of each test, and how p-values are adjusted."""
    first = f"The {test_label(report.tests[0])} is the primary test."
    if report.n_families > 1:
        also = " and ".join(["groups"] * bool(report.groups) + ["segments"] * (report.segments is not None))
        first += (
            f" All adjusted p-values are multiplied by {report.n_families}, because {also} are tested, too."
        )
    return (
        f"{first} The other {len(report.tests) - 1} tests describe the type of miscalibration. Their "
        "p-values are adjusted by Holm's method, and are at least that of the report."
    )


def joint_words(report: _numbers.ReportNumbers) -> str:
    """Return the p-values of the joint test other than those of the classes; nothing if there are none."""
    parts = "; ".join(
        f"{part.name} {pvalue_words(part.pvalue)}, adjusted "
        f"{pvalue_words(min(1.0, report.n_families * part.adjusted_pvalue))}"
        for part in report.tests[0].result.scales
        if report.classes and part.label is None
    )
    return f"Joint test: {parts}." if parts else ""


def expected_words(report: _numbers.ReportNumbers) -> str:
    """Return what the expected value under perfect calibration means, with the numbers at hand."""
    error = report.metric("smooth_ece")
    return (
        "Sampling noise makes a calibration error positive even for a perfectly calibrated model. With these "
        f"{sample_words(report.n_samples)} the expected {_error_name(report).replace('Smooth', 'smooth')} of "
        f"a perfectly calibrated model is {number(error.expected)}: do not interpret smaller differences "
        "between models, and compare errors of samples of different sizes only relative to their expected "
        "values. Quadrupling the sample size roughly halves it. A corrected value is not the estimate less "
        "the expected value, since noise adds less to a large error than to none: it is the error of a model "
        "whose samples have this estimate on average."
    )


def reported_parts(parts: tuple[_numbers.ReportPart, ...], most: int) -> tuple[_numbers.ReportPart, ...]:
    """Return parts, the worst first."""
    return tuple(sorted(parts, key=_numbers.badness)[:most])


def _paragraph(text: str, first: str = "  ", rest: str = "  ") -> list[str]:
    return wrap(text, _WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def _items(texts: tuple[str, ...]) -> list[str]:
    return [line for text in texts for line in _paragraph(text, "  - ", "    ")]


def _metric_lines(report: _numbers.ReportNumbers) -> list[str]:
    level = level_text(report)
    ends = level + " interval"
    lines = [f"  {'':<34}{'estimate':>8} {'corrected':>9} {ends:>18} {'expected':>8} {'range':>17}"]
    before = "binary"
    for line in report.metrics:
        if line.reduction != before:
            before = line.reduction
            lines.append(f"  {REDUCTIONS[before]}")
        mark = "*" if line.exceeds else ""
        shown = number(line.expected) if np.isfinite(line.expected) else ""
        corrected = number(line.corrected) if line.method == "inversion" else ""
        lines.append(
            f"{mark:<2}{line.name} {number(line.estimate):>{41 - len(line.name)}} {corrected:>9} "
            f"{interval_text(line):>18} {shown:>8} {null_range(line):>17}".rstrip()
        )
    lines += _paragraph(
        f"expected, range: mean and {level} range under perfect calibration, for the same predictions. * "
        "marks estimates outside the range. Corrected values and confidence intervals of calibration errors "
        "allow for the bias of estimates that sampling noise causes; compare estimates with expected values."
    )
    return lines


def _test_lines(report: _numbers.ReportNumbers) -> list[str]:
    wide = max(len(test_label(test)) for test in report.tests) + 2
    lines = [f"  {'':<{wide}}{'detects':<40}{'p-value':>10}{'adjusted':>10}"]
    for test in report.tests:
        pvalue, adjusted = pvalue_text(test.result.pvalue), pvalue_text(test.adjusted)
        lines.append(
            f"  {test_label(test):<{wide}}{test.question:<40}{pvalue:>10}{adjusted or 'primary':>10}"
        )
    methods = "; ".join(f"{test_label(test)}: {test.result.method}" for test in report.tests)
    return [*lines, *_paragraph(f"Methods: {methods}."), *_paragraph(multiple_testing(report))]


def _part_lines(report: _numbers.ReportNumbers, parts: tuple[_numbers.ReportPart, ...]) -> list[str]:
    shown = reported_parts(parts, _MOST_PARTS)
    lines = [
        f"  {'':<20}{'samples':>10}{'events':>10}{'predicted':>11}{'observed':>10}{'smECE':>9}{'expected':>9}"
        f"{'p':>9}{'adjusted':>9}"
    ]
    for part in shown:
        mark = "*" if report.is_significant(part.adjusted) else ""
        lines.append(
            f"{mark:<2}{one_line(part.name, 19):<20}{part.n_samples:>10,.0f}{part.n_events:>10,.0f}"
            f"{probability(part.predicted):>11}{probability(part.observed):>10}{number(part.estimate):>9}"
            f"{number(part.expected):>9}{pvalue_text(part.pvalue):>9}{pvalue_text(part.adjusted):>9}"
        )
        if part.region is not None and mark:
            lines += _paragraph(region_words(part.region), "      ", "      ")
    if len(shown) < len(parts):
        lines.append(f"  and {len(parts) - len(shown)} more, with larger p-values")
    return lines


def segment_rows(report: _numbers.ReportNumbers) -> list[list[str]]:
    """Return the table of segments, without intervals."""
    found = report.segments._table() if report.segments else []
    return [[one_line(row[0], 44), *row[1:-1]] for row in found]


def segment_words(report: _numbers.ReportNumbers) -> str:
    """Return what was searched and found."""
    found = report.segments
    facts = dict(found._facts()) if found else {}
    shown = [f"{_capital(name)}: {facts[name]}." for name in ("note", "columns left out") if name in facts]
    return " ".join([f"{_capital(found._finding)}." if found else "", *shown])


def _segment_lines(report: _numbers.ReportNumbers) -> list[str]:
    rows = [f"  {line}" for line in aligned(segment_rows(report))]
    return [*_paragraph(segment_words(report)), *rows[: len(rows) * (len(rows) > 1)]]


def report_text(report: _numbers.ReportNumbers) -> str:
    """Return the report as text of at most 100 columns."""
    found = verdict(report)
    title = wrap(heading(report), _WIDTH)
    lines = [*title, "=" * max(len(line) for line in title), *_paragraph(about(report), "", "")]
    lines += ["", *_paragraph(found.title, "", ""), *_paragraph(found.detail)]
    of = " (confidence)" if report.kind == "confidence" else ""
    sections: list[tuple[str, list[str]]] = [
        ("Findings", _items(findings(report))),
        ("Warnings", _items(warnings(report))),
        ("Recommendations", _items(advice(report))),
        ("Metrics", _metric_lines(report)),
        ("Tests", _test_lines(report)),
        (
            "Labels, worst first"
            if report.kind == "multilabel"
            else "Classes, each against the rest, worst first",
            [*_part_lines(report, report.classes), *_paragraph(joint_words(report))]
            if report.classes
            else [],
        ),
        (f"Groups{of}, worst first", _part_lines(report, report.groups) if report.groups else []),
        (f"Segments{of}", _segment_lines(report) if report.segments else []),
        ("Expected values under perfect calibration", _paragraph(expected_words(report))),
    ]
    for name, body in sections:
        if body:
            lines += ["", name, "-" * len(name), *body]
    lines += [
        "",
        *_paragraph(found.grades, "", ""),
        f"n_resamples={report.n_resamples}, random_state={report.seed}, sklearn_calib {report.version}",
    ]
    return printable_lines(lines)


def _plain(value: Any) -> Any:
    """Return numbers, texts and their containers as JSON has them; NaN and infinity as None."""
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        value = {item.name: getattr(value, item.name) for item in fields(value)}
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def report_dict(report: _numbers.ReportNumbers) -> dict[str, Any]:
    """Return the report as plain Python objects."""
    left_out = {"metrics", "tests", "summary", "brier", "log_loss", "_problem"}
    found = {item.name: getattr(report, item.name) for item in fields(report) if item.name not in left_out}
    tests = [
        {"name": test.name, "question": test.question, "reduction": test.reduction, "adjusted": test.adjusted}
        | {key: getattr(test.result, key) for key in ("pvalue", "statistic", "estimate", "method", "reason")}
        for test in report.tests
    ]
    found |= {
        "miscalibrated": bool(report.miscalibrated),
        "verdict": verdict(report)._asdict(),
        "findings": findings(report),
        "warnings": warnings(report),
        "advice": advice(report),
        "metrics": {line.key: {**_plain(line), "exceeds": bool(line.exceeds)} for line in report.metrics},
        "tests": tests,
    }
    plain: dict[str, Any] = _plain(found)
    return plain
