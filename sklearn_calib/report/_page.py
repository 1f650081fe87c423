"""A report as HTML: a self-contained page, and a block for notebooks. The templates escape every text."""

import re
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_calib._html import printable_lines
from sklearn_calib.report import _numbers
from sklearn_calib.report import _words as words
from sklearn_calib.report._figures import figures

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


_MOST_PARTS = 200
_CODE = re.compile(
    r"\b(make_pipeline\(.*?\)\.fit\([^()]*\)|calibrator\.predict_proba\([^()]*\)|pos_label|"
    r"(?:calibrator = )?\w+(?:Calibrator|Classifier)(?:\([^()]*(?:\(\))?\))?(?:\.fit\([^()]*\))?)"
)
# The small graph of a metric: width, and the margin for its mark.
_WIDTH, _EDGE = 150.0, 6.0


@cache
def _templates() -> "Environment":
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError(
            "A report as HTML needs jinja2, which is not installed. Install it with "
            'python -m pip install "sklearn-calib[report]", or print the report as text.'
        ) from error
    templates = Environment(
        loader=PackageLoader("sklearn_calib.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    templates.filters["code"] = _with_code
    templates.globals.update(words=vars(words), graph=_graph)
    return templates


def report_page(report: _numbers.ReportNumbers, title: str | None = None) -> str:
    """Return a self-contained page."""
    if title is not None and not isinstance(title, str):
        raise TypeError(f"title must be a string, got {title!r}.")
    shown = words.heading(report) if title is None else words.one_line(title)
    page = _templates().get_template("page.html").render(_content(report, shown))
    return printable_lines(page.split("\n"))


def report_fragment(report: _numbers.ReportNumbers) -> str:
    """Return a block for a notebook; its style does not affect the rest of the page."""
    block = _templates().get_template("block.html").render(_content(report, words.heading(report)))
    return printable_lines(block.split("\n"))


def _content(report: _numbers.ReportNumbers, title: str) -> dict[str, Any]:
    """Return the variables of the templates."""
    of = " (confidence)" if report.kind == "confidence" else ""
    table, about = "Classes", f"Each class against the rest, worst first. {words.joint_words(report)}"
    if report.kind == "multilabel":
        table, about = "Labels", "Each label, worst first."
    return {
        "report": report,
        "title": title,
        "verdict": words.verdict(report),
        "tiles": _tiles(report),
        # ids must differ between reports in one notebook
        "figures": figures(report, sha256(str(report).encode()).hexdigest()),
        "tables": [
            _table(table, about, report, report.classes),
            _table(f"Groups{of}", "Each group of samples separately, worst first.", report, report.groups),
        ],
    }


def _with_code(text: str) -> "Markup":
    """Return an escaped text with names of the package set as code."""
    from markupsafe import Markup, escape

    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def _tiles(report: _numbers.ReportNumbers) -> list[tuple[str, str]]:
    """Return the main numbers with their descriptions."""
    error = report.metric("smooth_ece")
    of = " of the confidence" if report.kind == "confidence" else ""
    expected = words.number(error.expected)
    tiles = [
        (
            words.number(error.corrected),
            f"smooth ECE{of}, corrected for bias; estimate {words.number(error.estimate)}, expected under "
            f"perfect calibration {expected}",
        ),
        (
            words.pvalue_text(report.pvalue),
            "p-value of the primary test" + ", adjusted" * (report.n_families > 1),
        ),
    ]
    for key, name in (("observed_over_expected", "observed / expected"), ("slope", "calibration slope")):
        line = report.metric(key)
        if np.isfinite(line.estimate):
            ends = f"{line.lower:z.2f} to {line.upper:z.2f}"
            tiles.append(
                (
                    f"{line.estimate:z.2f}",
                    f"{name}{of}; {words.level_text(report)} interval {ends}, 1 is ideal",
                )
            )
    return tiles


def _table(
    title: str, about: str, report: _numbers.ReportNumbers, parts: tuple[_numbers.ReportPart, ...]
) -> dict[str, Any]:
    """Return the table of classes or groups: those with the smallest p-values."""
    shown = words.reported_parts(parts, _MOST_PARTS)
    return {
        "title": title,
        "about": about,
        "parts": shown,
        "n_parts": len(parts),
        "n_off": sum(report.is_significant(part.adjusted) for part in parts),
        "left": len(parts) - len(shown),
    }


def _graph(line: _numbers.ReportMetric) -> dict[str, float] | None:
    """Return the positions of a metric, its interval and its range under perfect calibration on a scale."""
    if not np.isfinite(line.estimate) or not np.isfinite(line.null_upper):
        return None
    values = {
        "value": line.estimate,
        "lower": line.lower,
        "upper": line.upper,
        "mean": line.expected,
        "start": 0.0 if np.isnan(line.null_lower) else line.null_lower,
        "end": line.null_upper,
    }
    known = {name: value for name, value in values.items() if np.isfinite(value)}
    low, high = min(known.values()), max(known.values())
    if high <= low:
        return None
    scale = (_WIDTH - 2.0 * _EDGE) / (high - low)
    return {name: _EDGE + scale * (value - low) for name, value in known.items()}
