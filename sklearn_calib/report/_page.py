"""A report as HTML: a page of its own, and a block for notebooks. Every text is escaped here."""

import re
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from sklearn_calib.report._advice import advice, warnings
from sklearn_calib.report._graphs import measure_graph, region_strip
from sklearn_calib.report._lines import ReportPart
from sklearn_calib.report._pictures import pictures
from sklearn_calib.report._style import BLOCK_STYLE, PAGE_STYLE, ROOT
from sklearn_calib.report._text import (
    about,
    chance_range,
    heading,
    interval_text,
    pvalue_text,
    reported_parts,
)
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

__all__ = ["report_fragment", "report_page"]

_MOST_PARTS = 200
# Nothing runs and nothing is loaded: browsers refuse both even if a text should ever get through unescaped.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_CODE = re.compile(r"\b(\w+(?:Calibrator|Classifier)(?:\([^()]*(?:\(\))?\))?|pos_label)")
_NO_PICTURES = (
    "No pictures: matplotlib is not installed. With it (python -m pip install "
    '"sklearn-calib[plot]") this report shows the reliability diagram and more.'
)


def report_page(report: "CalibrationReport", title: str | None = None) -> str:
    """Return a page that stands alone."""
    if title is not None and not isinstance(title, str):
        raise TypeError(f"title must be a text, got {title!r}.")
    shown = heading(report) if title is None else one_line(title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(shown)}</title>\n<style>{PAGE_STYLE}</style>\n</head>\n"
        f'<body class="{ROOT}">\n<main>{_body(report, shown, "p")}</main>\n</body>\n</html>\n'
    )


def report_fragment(report: "CalibrationReport") -> str:
    """Return a block for a notebook; its rules hold for nothing else on the page."""
    body = _body(report, heading(report), _ids(report))
    return f'<div class="{ROOT}"><style>{BLOCK_STYLE}</style>{body}</div>'


def _ids(report: "CalibrationReport") -> str:
    """Return a beginning of ids that differs between reports in one notebook."""
    error = report.metric("smooth_ece").value
    return f"r{abs(hash((report.name, report.n_samples, report.n_events, report.predicted, error))) % 10**8}-"


def _body(report: "CalibrationReport", title: str, prefix: str) -> str:
    found = verdict(report)
    sections = [
        f'<section class="verdict {found.level}"><h2>{escape(found.title)}</h2><p>{escape(found.detail)}</p>'
        f"{_tiles(report)}</section>",
        _where(report),
        _advice_and_warnings(report),
        _pictures(report, prefix),
        _measures(report),
        _parts("Classes", "Each class against the rest.", report, report.classes),
        _parts("Groups", "Each group of rows by itself.", report, report.groups),
        _tests(report),
    ]
    return (
        f'<header><h1>{escape(title)}</h1><div class="soft">{escape(about(report))}</div></header>'
        + "\n".join(section for section in sections if section)
        + f"<footer>n_resamples={report.n_resamples}, random_state={report.seed}; the same call gives "
        "the same "
        f"report. sklearn_calib {escape(report.version)}</footer>"
    )


def _tiles(report: "CalibrationReport") -> str:
    error, ratio = report.metric("smooth_ece"), report.metric("observed_over_expected")
    slope = report.metric("slope")
    level = f"{100 * report.confidence:g} %"
    tiles = [
        (number(error.value), f"smooth ECE; a perfect model: {number(error.chance_mean)}"),
        (pvalue_text(report.pvalue), "p-value of the test that decides"),
    ]
    for line, name in ((ratio, "observed / expected"), (slope, "calibration slope")):
        if np.isfinite(line.value):
            ends = f"{line.lower:.2f} to {line.upper:.2f}"
            tiles.append((f"{line.value:.2f}", f"{name}; {level} interval {ends}, right is 1"))
    cells = "".join(
        f'<div class="tile"><b>{escape(big)}</b><span>{escape(small)}</span></div>' for big, small in tiles
    )
    return f'<div class="tiles">{cells}</div>'


def _listed(texts: tuple[str, ...]) -> str:
    return "<ul>" + "".join(f"<li>{_with_code(text)}</li>" for text in texts) + "</ul>"


def _with_code(text: str) -> str:
    """Return an escaped text, names of the package set as code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _where(report: "CalibrationReport") -> str:
    low, high = float(report._sample.p.min()), float(report._sample.p.max())
    strip = region_strip(report.regions, low, high)
    return f"<section><h2>Where and how it is off</h2>{strip}{_listed(findings(report))}</section>"


def _advice_and_warnings(report: "CalibrationReport") -> str:
    careful = warnings(report)
    boxes = [f"<section><h2>What to do</h2>{_listed(advice(report))}</section>"]
    if careful:
        boxes.append(f"<section><h2>Take care</h2>{_listed(careful)}</section>")
    return f'<div class="pair">{"".join(boxes)}</div>'


def _pictures(report: "CalibrationReport", prefix: str) -> str:
    drawn = pictures(report, prefix)
    if not drawn:
        return f'<section><h2>Pictures</h2><p class="soft">{escape(_NO_PICTURES)}</p></section>'
    figures = "".join(
        f"<figure>{picture.svg}<figcaption><b>{escape(picture.title)}.</b> {escape(picture.caption)}"
        "</figcaption></figure>"
        for picture in drawn
    )
    return f'<section><h2>Pictures</h2><div class="pictures">{figures}</div></section>'


def _measures(report: "CalibrationReport") -> str:
    level = f"{100 * report.confidence:g} %"
    rows = []
    for line in report.metrics:
        mean = number(line.chance_mean) if np.isfinite(line.chance_mean) else ""
        rows.append(
            f'<tr{_marked(line.exceeds)}><th scope="row"><span class="dot"></span>{escape(line.name)}</th>'
            f'<td class="value">{number(line.value)}</td><td>{interval_text(line)}</td>'
            f"<td>{measure_graph(line)}</td><td>{mean}</td><td>{chance_range(line)}</td></tr>"
        )
    return (
        "<section><h2>Measures</h2>"
        '<p class="soft small">Each beside its floor: what a perfectly calibrated model with these '
        "predictions "
        f"shows on average, and in {level} of samples (the shaded range). Coloured, with a filled mark: "
        f"outside "
        "that range. An interval is for the population, without the noise that is in the value, and can lie "
        "below it.</p>"
        '<div class="scroll"><table><thead><tr><th scope="col" class="left">measure</th><th '
        'scope="col">value</th>'
        f'<th scope="col">{level} interval</th><th scope="col"></th><th scope="col">perfect model</th>'
        f'<th scope="col">its range</th></tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        f'<p class="soft small">{escape(floor_words(report))}</p></section>'
    )


def _marked(out: bool) -> str:
    return ' class="out"' if out else ""


def _tests(report: "CalibrationReport") -> str:
    rows = []
    for test in report.tests:
        out = test.result.pvalue <= 1.0 - report.confidence
        rows.append(
            f'<tr{_marked(out)}><th scope="row"><span class="dot"></span>{escape(test.name)}</th>'
            f'<td class="left">{escape(test.question)}</td><td '
            f'class="value">{pvalue_text(test.result.pvalue)}</td>'
            f"<td>{pvalue_text(test.adjusted) or 'decides'}</td>"
            f'<td class="note">{escape(test.result.method)}; '
            f"{escape(test.result.reason or 'no reason given')}</td>"
            "</tr>"
        )
    return (
        '<section><h2>Tests</h2><div class="scroll"><table><thead><tr><th scope="col" class="left">test</th>'
        '<th scope="col" class="left">looks for</th><th scope="col">p-value</th><th scope="col">Holm</th>'
        f'<th scope="col" class="left">how, and what it '
        f"saw</th></tr></thead><tbody>{''.join(rows)}</tbody></table>"
        f'</div><p class="soft small">{escape(multiple_testing(report))}</p></section>'
    )


def _parts(title: str, about_them: str, report: "CalibrationReport", parts: tuple[ReportPart, ...]) -> str:
    if not parts:
        return ""
    shown = reported_parts(parts, _MOST_PARTS)
    rows = []
    for part in shown:
        out = part.adjusted <= 1.0 - report.confidence
        note = escape(part_words(part)) if out else ""
        rows.append(
            f'<tr{_marked(out)}><th scope="row"><span class="dot"></span>{escape(one_line(part.name))}</th>'
            f"<td>{part.n_samples:,.0f}</td><td>{part.n_events:,.0f}</td><td>{probability(part.predicted)}</td>"
            f'<td>{probability(part.observed)}</td><td class="value">{number(part.error)}</td>'
            f"<td>{number(part.chance_mean)}</td><td>{pvalue_text(part.adjusted)}</td></tr>"
        )
        if note:
            rows.append(f'<tr><td class="note" colspan="8">{note}</td></tr>')
    off = sum(part.adjusted <= 1.0 - report.confidence for part in parts)
    left = len(parts) - len(shown)
    more = f"<p>{rows_words(left, 'more line')} with greater p-values left out.</p>" if left else ""
    heads = ("rows", "events", "predicted", "observed", "smooth ECE", "perfect model", "p (Holm)")
    columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return (
        f'<section><h2>{title}</h2><p class="soft small">{escape(about_them)} {off} of {len(parts)} off '
        f"beyond "
        "chance, by the cutoff test, with p-values corrected for their number (Holm).</p>"
        f'<div class="scroll"><table><thead><tr><th scope="col" class="left"></th>{columns}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{more}</section>"
    )
