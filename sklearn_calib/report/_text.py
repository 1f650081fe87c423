"""A report as plain text of at most 100 columns, and as plain Python objects."""

from dataclasses import fields
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_calib.report._advice import advice, warnings
from sklearn_calib.report._lines import ReportMetric, ReportPart
from sklearn_calib.report._words import (
    findings,
    floor_words,
    multiple_testing,
    number,
    one_line,
    part_words,
    probability,
    rows_words,
    verdict,
)

if TYPE_CHECKING:
    from sklearn_calib.report._result import CalibrationReport

__all__ = [
    "about",
    "chance_range",
    "heading",
    "interval_text",
    "pvalue_text",
    "report_dict",
    "report_text",
    "reported_parts",
]

WIDTH = 100
#: The text lists at most so many classes or groups: those with the smallest p-values.
MOST_PARTS = 20


def heading(report: "CalibrationReport") -> str:
    """Return the title."""
    return f"Calibration report: {one_line(report.name)}" if report.name else "Calibration report"


def about(report: "CalibrationReport") -> str:
    """Return what the report is about, in one line."""
    share = 100.0 * report.observed
    shown = f"{share:.1f} %" if 0.95 <= share <= 99.05 or share in (0.0, 100.0) else f"{share:.2g} %"
    if report.kind == "binary":
        what = f"{rows_words(report.n_samples)}, {rows_words(report.n_events, 'event')} ({shown})"
        label = "" if report.positive == "1" else f', an event is "{one_line(report.positive, 40)}"'
        source = ", read from a sketch" if report.sketched else ""
        return f"{what}, mean prediction {probability(report.predicted)}{label}{source}"
    return (
        f"{rows_words(report.n_samples)}, {len(report.classes)} classes, predicted class right in "
        f"{shown}, mean "
        f"confidence {probability(report.predicted)}"
    )


def interval_text(line: ReportMetric) -> str:
    """Return the confidence interval, or nothing."""
    if np.isnan(line.lower) or np.isnan(line.upper):
        return ""
    return f"{number(line.lower)} to {number(line.upper)}"


def chance_range(line: ReportMetric) -> str:
    """Return the range of perfectly calibrated predictions."""
    if np.isnan(line.chance_upper):
        return ""
    if np.isnan(line.chance_lower):
        return f"up to {number(line.chance_upper)}"
    return f"{number(line.chance_lower)} to {number(line.chance_upper)}"


def pvalue_text(value: float) -> str:
    """Return a p-value with two digits."""
    return "" if np.isnan(value) else "< 0.0001" if 0.0 < value < 1e-4 else f"{value:.2g}"


def reported_parts(parts: tuple[ReportPart, ...], most: int) -> tuple[ReportPart, ...]:
    """Return the parts with the smallest p-values, in their own order."""
    if len(parts) <= most:
        return parts
    order = sorted(range(len(parts)), key=lambda i: parts[i].pvalue)[:most]
    return tuple(parts[i] for i in sorted(order))


def _paragraph(text: str, first: str = "  ", rest: str = "  ") -> list[str]:
    return wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def _items(texts: tuple[str, ...]) -> list[str]:
    return [line for text in texts for line in _paragraph(text, "  - ", "    ")]


def _metric_lines(report: "CalibrationReport") -> list[str]:
    level = f"{100 * report.confidence:g} %"
    head = f"  {'':<38}{'value':>9}  {level + ' interval':>19}  {'perfect':>8}  {'range':>17}"
    lines = [head]
    for line in report.metrics:
        mark = "*" if line.exceeds else ""
        shown = number(line.chance_mean) if np.isfinite(line.chance_mean) else ""
        lines.append(
            f"{mark:<2}{line.name:<38}{number(line.value):>9}  {interval_text(line):>19}  {shown:>8}  "
            f"{chance_range(line):>17}".rstrip()
        )
    lines += _paragraph(
        f"perfect, range: what a perfectly calibrated model with these predictions shows on average, and in "
        f"{level} of samples. * marks what lies outside. An interval is one for the population, without the "
        "noise that is in the value, and can lie below it."
    )
    return lines


def _test_lines(report: "CalibrationReport") -> list[str]:
    lines = [f"  {'':<20}{'looks for':<36}{'p-value':>10}{'Holm':>10}"]
    for test in report.tests:
        pvalue, adjusted = pvalue_text(test.result.pvalue), pvalue_text(test.adjusted)
        lines.append(f"  {test.name:<20}{test.question:<36}{pvalue:>10}{adjusted or 'decides':>10}")
    methods = "; ".join(f"{test.name}: {test.result.method}" for test in report.tests)
    return [*lines, *_paragraph(f"p-values: {methods}."), *_paragraph(multiple_testing(report))]


def _part_lines(report: "CalibrationReport", parts: tuple[ReportPart, ...]) -> list[str]:
    shown = reported_parts(parts, MOST_PARTS)
    lines = [
        f"  {'':<20}{'rows':>10}{'events':>10}{'predicted':>11}{'observed':>10}{'smECE':>9}{'perfect':>9}"
        f"{'p':>9}{'Holm':>9}"
    ]
    for part in shown:
        mark = "*" if part.adjusted <= 1.0 - report.confidence else ""
        lines.append(
            f"{mark:<2}{one_line(part.name, 19):<20}{part.n_samples:>10,.0f}{part.n_events:>10,.0f}"
            f"{probability(part.predicted):>11}{probability(part.observed):>10}{number(part.error):>9}"
            f"{number(part.chance_mean):>9}{pvalue_text(part.pvalue):>9}{pvalue_text(part.adjusted):>9}"
        )
        if part.region is not None and mark:
            lines += _paragraph(part_words(part), "      ", "      ")
    if len(shown) < len(parts):
        lines.append(f"  and {len(parts) - len(shown)} more, with greater p-values")
    return lines


def report_text(report: "CalibrationReport") -> str:
    """Return the report as text."""
    found = verdict(report)
    title = wrap(heading(report), WIDTH)
    lines = [*title, "=" * max(len(line) for line in title), *_paragraph(about(report), "", "")]
    lines += ["", *_paragraph(found.title.upper(), "", ""), *_paragraph(found.detail)]
    sections: list[tuple[str, list[str]]] = [
        ("Where and how", _items(findings(report))),
        ("Take care", _items(warnings(report))),
        ("What to do", _items(advice(report))),
        ("Measures", _metric_lines(report)),
        ("Tests", _test_lines(report)),
        ("Classes, each against the rest", _part_lines(report, report.classes) if report.classes else []),
        ("Groups", _part_lines(report, report.groups) if report.groups else []),
        ("Noise alone", _paragraph(floor_words(report))),
    ]
    for name, body in sections:
        if body:
            lines += ["", name, "-" * len(name), *body]
    lines += [
        "",
        f"n_resamples={report.n_resamples}, random_state={report.seed}, sklearn_calib {report.version}",
    ]
    return "\n".join(lines)


def _plain(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    return value


def report_dict(report: "CalibrationReport") -> dict[str, Any]:
    """Return the report as plain Python objects."""
    found = verdict(report)
    out: dict[str, Any] = {
        name: _plain(getattr(report, name))
        for name in (
            "name",
            "kind",
            "positive",
            "n_samples",
            "n_events",
            "n_distinct",
            "n_certain",
            "n_impossible",
            "predicted",
            "observed",
            "pvalue",
            "residual_pvalue",
            "confidence",
            "n_resamples",
            "seed",
            "version",
            "sketched",
            "regions",
            "classes",
            "groups",
        )
    }
    out["miscalibrated"] = bool(report.miscalibrated)
    out["verdict"] = {"level": found.level, "title": found.title, "detail": found.detail}
    out["findings"], out["warnings"], out["advice"] = (
        list(texts(report)) for texts in (findings, warnings, advice)
    )
    out["metrics"] = {line.key: {**_plain(line), "exceeds": bool(line.exceeds)} for line in report.metrics}
    out["tests"] = [
        {
            "name": test.name,
            "question": test.question,
            "pvalue": _plain(test.result.pvalue),
            "adjusted": _plain(test.adjusted),
            "statistic": _plain(float(test.result.statistic)),
            "estimate": _plain(float(test.result.estimate)),
            "method": test.result.method,
            "reason": test.result.reason,
        }
        for test in report.tests
    ]
    return out
