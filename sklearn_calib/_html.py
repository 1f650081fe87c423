"""Results as HTML, for notebooks: a title, labelled values, and tables that fold out.

The block stands alone: styles are inline, nothing is loaded, everything is escaped. Text takes the colour of
the page, and rules are translucent grey, so that it reads on light and on dark ground.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from numbers import Integral, Real
from typing import Any

__all__ = ["result_html"]

_RULE = "1px solid rgba(128,128,128,.45)"
# Notebooks stripe the rows of tables and align them to the right, unless told otherwise.
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

#: A table shows at most so many rows.
MOST_ROWS = 100


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
        What the result is of.
    pairs : iterable of (label, value)
        Texts, one line each. A value that is empty is left out.
    tables : iterable of (caption, rows)
        Tables, folded up at first. Rows that are dicts have their keys as columns, instances of one dataclass
        its fields; other rows are shown by their text. An empty table is left out.
    unfolded : bool
        Whether the tables are open at first.

    Returns
    -------
    str
        The block; all texts are escaped.
    """
    lines = "".join(
        f'<tr style="{_PLAIN}"><th scope="row" style="{_LABEL}">{escape(label)}</th>'
        f'<td style="{_VALUE}">{escape(value)}</td></tr>'
        for label, value in pairs
        if value
    )
    folded = "".join(_folded(caption, rows, unfolded) for caption, rows in tables if rows)
    return (
        f'<div style="{_BLOCK}"><div style="font-weight:600;">{escape(title)}</div>'
        f'<table style="{_TABLE}"><tbody>{lines}</tbody></table>{folded}</div>'
    )


def _folded(caption: str, rows: Sequence[Any], unfolded: bool) -> str:
    """Return a table behind a line that opens it."""
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
    """Return a number with four digits, whole numbers in full, anything else as its text."""
    if isinstance(value, Real) and not isinstance(value, Integral):
        return f"{float(value):.4g}"
    return str(value)
