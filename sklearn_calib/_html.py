"""Texts and numbers as they are shown, and results as HTML: a title, labeled values, collapsible tables.

The block is self-contained: styles are inline, nothing is loaded, all texts are escaped. Text has the color
of the page, and rules are translucent gray, so that it is readable on light and dark backgrounds.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from numbers import Integral, Real
from typing import Any

_RULE = "1px solid rgba(128,128,128,.45)"
# Overrides the striped rows and right alignment of tables in notebooks.
_PLAIN = "background:none;color:inherit;border:0;"
_TABLE = f"border-collapse:collapse;margin:.2em 0 0 0;{_PLAIN}"
_LABEL = f"text-align:left;vertical-align:top;font-weight:400;opacity:.7;padding:.05em 1em .05em 0;{_PLAIN}"
_VALUE = f"text-align:left;vertical-align:top;max-width:46em;white-space:normal;padding:.05em 0;{_PLAIN}"
_HEAD = f"text-align:right;font-weight:600;padding:.1em .7em;{_PLAIN}border-bottom:{_RULE};"
_CELL = f"text-align:right;padding:.05em .7em;font-variant-numeric:tabular-nums;{_PLAIN}"
_BLOCK = (
    f"display:inline-block;text-align:left;line-height:1.45;border:{_RULE};border-radius:4px;"
    "padding:.45em .9em .55em .9em;color:inherit;background:none;"
)

#: Largest number of rows that a table shows.
MOST_ROWS = 100

# Control characters, line separators, overrides of the direction of writing, surrogates and noncharacters:
# terminals obey them, XML has none of them, or a text reads otherwise than it is.
_HIDDEN = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    r"""Return a text of the user with escapes such as "\x1b" for characters that are not to be shown."""
    return _HIDDEN.sub(lambda found: repr(found[0])[1:-1], text)


def printable_lines(lines: Iterable[str]) -> str:
    """Return lines as one text; every text that is printed or drawn passes here."""
    return "\n".join(map(printable, lines))


def number_text(value: float, decimals: int = 4, digits: int = 2) -> str:
    """Return a number with some decimals, or more where it has fewer significant digits; 0 below 1e-9."""
    if 1e-9 < abs(value) < 1.0:
        decimals = max(decimals, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:z.{decimals}f}"


def pvalue_text(value: float) -> str:
    """Return a p-value with two digits, or nothing if there is none."""
    return "" if math.isnan(value) else "< 0.0001" if 0.0 < value < 1e-4 else f"{value:.2g}"


def pvalue_words(value: float) -> str:
    """Return a p-value as "p = 0.012"; below 0.0001 as "p < 0.0001"."""
    text = pvalue_text(value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def result_html(
    title: str,
    pairs: Iterable[tuple[str, str]],
    tables: Iterable[tuple[str, Sequence[Any]]] = (),
    *,
    unfolded: bool = False,
) -> str:
    """Return a result as a block of HTML.

    Parameters
    ----------
    title : str
        Title of the result.
    pairs : iterable of (label, value)
        Texts, one line each. Empty values are omitted.
    tables : iterable of (caption, rows)
        Tables, collapsed at first. The columns are the keys of dicts or the fields of dataclass instances;
        other rows are shown as text. Empty tables are omitted.
    unfolded : bool
        Whether the tables are open at first.

    Returns
    -------
    str
        The HTML block; all texts are escaped.
    """
    lines = "".join(
        f'<tr style="{_PLAIN}"><th scope="row" style="{_LABEL}">{escape(label)}</th>'
        f'<td style="{_VALUE}">{escape(value)}</td></tr>'
        for label, value in pairs
        if value
    )
    folded = "".join(_folded(caption, rows, unfolded) for caption, rows in tables if rows)
    return printable(
        f'<div style="{_BLOCK}"><div style="font-weight:600;">{escape(title)}</div>'
        f'<table style="{_TABLE}"><tbody>{lines}</tbody></table>{folded}</div>'
    )


def text_html(result: object) -> str:
    """Return the text of a result as HTML: the first line is the title, others have a label and a value."""
    title, *lines = str(result).splitlines()
    pairs = [line.strip().partition("  ") for line in lines]
    return result_html(
        title, [(label, value.strip()) if value else ("note", label) for label, _, value in pairs]
    )


def _folded(caption: str, rows: Sequence[Any], unfolded: bool) -> str:
    """Return a collapsible table."""
    kind = type(rows[0])
    if is_dataclass(kind) and all(type(row) is kind for row in rows):
        names = [item.name for item in fields(kind)]
        cells = [[_text(getattr(row, name)) for name in names] for row in rows[:MOST_ROWS]]
    elif kind is dict:
        names = list(rows[0])
        cells = [[_text(value) for value in row.values()] for row in rows[:MOST_ROWS]]
    else:
        names, cells = [], [[_text(row)] for row in rows[:MOST_ROWS]]
    head = "".join(f'<th scope="col" style="{_HEAD}">{escape(name)}</th>' for name in names)
    body = "".join(
        f'<tr style="{_PLAIN}">'
        + "".join(f'<td style="{_CELL}">{escape(text)}</td>' for text in line)
        + "</tr>"
        for line in cells
    )
    rest = len(rows) - len(cells)
    more = f'<div style="opacity:.7;">and {rest} more</div>' if rest else ""
    return (
        f'<details{" open" if unfolded else ""} style="margin-top:.3em;">'
        '<summary style="cursor:pointer;opacity:.85;">'
        f'{escape(caption)}</summary><table style="{_TABLE}">'
        + (f'<thead><tr style="{_PLAIN}">{head}</tr></thead>' if head else "")
        + f"<tbody>{body}</tbody></table>{more}</details>"
    )


def _text(value: Any) -> str:
    """Return a number with four significant digits, integers in full, anything else as text."""
    if isinstance(value, Real) and not isinstance(value, Integral):
        return f"{float(value):.4g}"
    return str(value)
