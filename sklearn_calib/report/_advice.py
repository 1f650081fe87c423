"""What to be careful about in the data of a report, and what to do next."""

from typing import TYPE_CHECKING

import numpy as np

from sklearn_calib.report._words import (
    capital,
    is_bent,
    is_shifted,
    one_line,
    rows_words,
    slope_kind,
    verdict,
)

if TYPE_CHECKING:
    from sklearn_calib.report._result import CalibrationReport

__all__ = ["advice", "warnings"]

# Fewer events (or non-events, if these are fewer) than these allow next to nothing, and only few parameters.
_VERY_FEW, _FEW, _MANY = 10, 100, 1000


def warnings(report: "CalibrationReport") -> tuple[str, ...]:
    """Return what these data make doubtful."""
    lines = []
    n, events = report.n_samples, report.n_events
    rarer = min(events, n - events)
    name = (
        ("right" if report.kind == "confidence" else "events")
        if events <= n - events
        else ("wrong" if report.kind == "confidence" else "non-events")
    )
    if rarer == 0:
        lines.append(
            f"All {rows_words(n)} have the same outcome: slopes are not determined, and little can be said."
        )
    elif rarer < _VERY_FEW:
        lines.append(
            f"Only {rarer:,.0f} of {rows_words(n)} are {name}: nothing but a gross error could be seen."
        )
    elif rarer < _FEW:
        lines.append(
            f"Only {rarer:,.0f} of {rows_words(n)} are {name}. Intervals are wide, and curves follow "
            f"chance; a "
            "hundred of each outcome, better two hundred, is what a curve needs."
        )
    if report.n_impossible:
        lines.append(
            f"{rows_words(report.n_impossible)} had a prediction of exactly 0 or 1 and the other "
            f"outcome. Such a "
            "prediction is refuted by one row, the log loss is infinite, and no number of good predictions "
            "makes up for it: keep predictions inside (0, 1), for example by IsotonicCalibrator(clip=...)."
        )
    elif report.n_certain:
        lines.append(
            f"{rows_words(report.n_certain)} have a prediction of exactly 0 or 1. All came true here, "
            f"but the "
            "first that does not makes the log loss infinite."
        )
    if report.n_distinct == 1:
        lines.append("All predictions are equal: only their mean can be judged, and they tell no rows apart.")
    elif report.n_distinct <= 50 and n >= 5 * report.n_distinct:
        lines.append(
            f"Only {report.n_distinct} distinct predictions: the binomial test judges each of them, and "
            f"a smooth "
            "curve between them means little."
        )
    if report.n_distinct > 1 and rarer and _is_uninformative(report):
        lines.append(
            "The predictions hardly tell events from non-events: discrimination is no more than chance. "
            "A model "
            "that always promises the base rate is calibrated too, and useless."
        )
    return tuple(lines)


def _is_uninformative(report: "CalibrationReport") -> bool:
    slope = report.summary.slope
    return bool(np.isfinite(slope.value) and slope.lower <= 0.0 <= slope.upper)


def advice(report: "CalibrationReport") -> tuple[str, ...]:
    """Return what to do next: whether to recalibrate, with what, on which rows."""
    if not report.miscalibrated:
        lines = [
            "Leave the predictions as they are: a calibrator would fit noise."
            if verdict(report).level == "fine"
            else "Collect more rows before you rely on the probabilities, or recalibrate: what is not "
            "seen here "
            "may still be there."
        ]
    elif verdict(report).level == "slight":
        lines = [
            "The error is real and small. Recalibrate only if decisions depend on such differences; "
            f"{_calibrator(report)}"
        ]
    elif slope_kind(report) == "reversed":
        lines = [
            "Check first that the column of the right class was taken, and pos_label: a model is hardly ever "
            "this wrong."
        ]
    else:
        lines = [f"Recalibrate. {capital(_calibrator(report))}", _which_rows(report)]
    off = [one_line(part.name, 40) for part in report.groups if part.adjusted <= 1.0 - report.confidence]
    if off and len(report.groups) > 1:
        lines.append(
            f"Groups differ: {_listed(off)} {'is' if len(off) == 1 else 'are'} off by itself (Holm). "
            "GroupCalibrator fits one map for each group."
            if len(off) == 1
            else f"Groups differ: {_listed(off)} are off by themselves (Holm). GroupCalibrator fits one map "
            "for "
            "each group."
        )
    lines.append(
        "Calibration is not accuracy: read the Brier score or log loss beside it, and choose models by those."
    )
    return tuple(lines)


def _listed(names: list[str]) -> str:
    shown = names[:5] + ([f"{len(names) - 5} more"] if len(names) > 5 else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _calibrator(report: "CalibrationReport") -> str:
    """Return which calibrator suits the kind of error and the number of events."""
    rarer = min(report.n_events, report.n_samples - report.n_events)
    if report.kind == "confidence":
        off = sum(part.adjusted <= 1.0 - report.confidence for part in report.classes)
        if off <= 1 and not is_bent(report):
            return "one number may do: TemperatureCalibrator()."
        return (
            f"{off} of {len(report.classes)} classes are off by themselves: begin with "
            f"TemperatureCalibrator(), "
            "and compare StructuredMatrixScalingCalibrator(), which goes on to factors and offsets of the "
            "classes where the rows allow it."
        )
    if rarer < _FEW:
        return "with so few events take no more than two parameters: PlattCalibrator()."
    if not is_bent(report):
        if is_shifted(report) and not slope_kind(report):
            return (
                "this is a shift: PlattCalibrator() corrects it; if only the base rate differs from that in "
                "training, PriorShiftCalibrator(training_prior=...) needs no other parameter."
            )
        return "shift and slope are enough: PlattCalibrator(), two parameters on the log-odds."
    if rarer < _MANY:
        return "a line is not enough: SplineCalibrator(), which bends as far as the rows allow."
    return (
        "a line is not enough, and rows are plenty: IsotonicCalibrator(), or SplineCalibrator() for a "
        "smooth map."
    )


def _which_rows(report: "CalibrationReport") -> str:
    first = "TemperatureCalibrator" if report.kind == "confidence" else "calibrator"
    name = f"{first}()" if report.kind == "confidence" else first
    return (
        "Fit it on rows that the model was not trained on, never on the rows of this report: "
        f"CalibratedClassifier(model, {name}) does so by cross-validation within the training rows. Then run "
        "this report again on rows that neither has seen."
    )
