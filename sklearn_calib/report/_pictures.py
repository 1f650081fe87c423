"""The pictures of a report, as SVG that takes its colours from the page."""

import re
from collections.abc import Callable
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib.report._sample import condensed, rows_of
from sklearn_calib.report._words import capital

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sklearn_calib._validation import BinarySample
    from sklearn_calib.report._result import CalibrationReport

__all__ = ["Picture", "pictures"]

# What is drawn in these colours takes the colour of the page.
_INK, _CLEAR = "#010203", "none"
_COLORS = {
    "#010203": "currentColor",
    "#000000": "currentColor",
    "#0072b2": "var(--blue)",
    "#d55e00": "var(--red)",
    "#737373": "var(--grey)",
    "#c7c7c7": "var(--pale)",
    "#cccccc": "var(--pale)",
}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": 10.0,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.facecolor": _CLEAR,
    "figure.facecolor": _CLEAR,
    "savefig.facecolor": _CLEAR,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "legend.title_fontsize": 9.0,
    "axes.unicode_minus": False,
}
_BINS = 40
# Predictions that are all below this, or all above 1 minus it, lie at one end.
_END = 0.2
# From this ratio of the highest bars on, they are drawn on a logarithmic scale.
_UNEQUAL = 30.0


class Picture(NamedTuple):
    """A picture: its title, what it shows, and its SVG."""

    title: str
    caption: str
    svg: str


def pictures(report: "CalibrationReport", prefix: str) -> tuple[Picture, ...]:
    """Return the pictures, or none where matplotlib is not installed; ids begin with ``prefix``."""
    try:
        import matplotlib as mpl
    except ImportError:
        return ()
    from sklearn_calib.plot import CutoffDisplay, ReliabilityDisplay, TestDisplay

    grouped = group_outcomes(report._sample.y, report._sample.p, report._sample.w)
    rows = rows_of(condensed(grouped))
    given: dict[str, Any] = {"sample_weight": rows.w, "pos_label": 1}

    sure = report.kind == "confidence"
    # where all predictions lie at one end, the usual scale would show nothing
    at_end = float(rows.p.max()) < _END or float(rows.p.min()) > 1.0 - _END
    named = "Confidence" if sure else "Predicted probability"

    def reliability(ax: "Axes") -> None:
        ReliabilityDisplay.from_predictions(
            rows.y,
            rows.p,
            confidence=report.confidence,
            scale="logit" if at_end else "probability",
            ax=ax,
            **given,
        )
        ax.set_xlabel(named)
        ax.set_ylabel("Share of right predictions" if sure else "Observed frequency")

    def walk(ax: "Axes") -> None:
        CutoffDisplay.from_predictions(
            rows.y,
            rows.p,
            n_resamples=5 * report.n_resamples - 1,
            random_state=report.seed,
            x="share" if at_end else "probability",
            confidence=report.confidence,
            ax=ax,
            **given,
        )
        if not at_end:
            ax.set_xlabel(named)

    drawn: list[tuple[str, str, Callable[[Axes], None]]] = [
        (
            "Reliability",
            "How often events happened, against what was predicted. On the dotted line promises are "
            "kept; below "
            "it too much is promised. The band says how far chance may have moved the curve.",
            reliability,
        ),
        (
            "Running sum",
            "What was observed minus what was promised, added up from small to large predictions. Where it "
            "falls, predictions are too high; calibrated ones stay within the grey. The marked stretch "
            "is the "
            "cutoff calibration error.",
            walk,
        ),
        (
            "Predictions",
            "Where the predictions lie, rows with the event above, rows without it below.",
            lambda ax: _histogram(ax, rows, report.kind),
        ),
    ]
    known = (test.result for test in report.tests)
    shown = next((r for r in known if r.null_distribution is not None or r.null_law), None)
    if shown is not None:

        def null(ax: "Axes") -> None:
            TestDisplay.from_result(shown, ax=ax, kind="null")

        drawn.append(
            (
                capital(shown.test),
                "What the test would see if the predictions were calibrated, and what it saw. What is "
                "dark is as "
                "extreme or more: its share is the p-value.",
                null,
            )
        )
    out = []
    for number, (title, caption, draw) in enumerate(drawn):
        with mpl.rc_context({**_STYLE, "svg.hashsalt": f"{prefix}{number}"}):
            out.append(Picture(title, caption, _svg(draw, f"{prefix}{number}-", title)))
    return tuple(out)


def _histogram(ax: "Axes", rows: "BinarySample", kind: str) -> None:
    """Draw how many events and non-events have which predictions."""
    from matplotlib.ticker import MaxNLocator

    low, high = float(rows.p.min()), float(rows.p.max())
    at_end = high < _END or low > 1.0 - _END
    edges = np.linspace(low, high, _BINS + 1) if at_end and high > low else np.linspace(0.0, 1.0, _BINS + 1)
    names = ("right", "wrong") if kind == "confidence" else ("event", "no event")
    weight = np.ones_like(rows.p) if rows.w is None else rows.w
    highest = []
    for outcome, sign, color, name in ((1, 1.0, "#D55E00", names[0]), (0, -1.0, "#0072B2", names[1])):
        chosen = rows.y == outcome
        height = np.histogram(rows.p[chosen], edges, weights=weight[chosen])[0]
        highest.append(float(height.max()))
        ax.bar(edges[:-1], sign * height, np.diff(edges), align="edge", color=color, alpha=0.75, label=name)
    if min(highest) > 0.0 and max(highest) > _UNEQUAL * min(highest):
        ax.set_yscale("symlog", linthresh=1.0)
    else:
        ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.axhline(0.0, color=_INK, linewidth=0.6)
    ax.yaxis.set_major_formatter(lambda value, _: f"{abs(value):,.0f}")
    ax.set_xlabel("Confidence" if kind == "confidence" else "Predicted probability")
    ax.set_ylabel("Rows")
    ax.legend()


def _svg(draw: Callable[["Axes"], None], prefix: str, title: str) -> str:
    """Return a drawing as an SVG element: ids of its own, colours and fonts of the page."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 4.2), layout="constrained")
    draw(figure.subplots())
    text = StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    # a style inside would rule the whole page
    svg = re.sub(r"<(metadata|style)\b.*?</\1>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\b(id="|href="#|url\(#)', lambda found: found[1] + prefix, svg)
    for color, name in _COLORS.items():
        svg = re.sub(re.escape(color) + r"\b", name, svg, flags=re.IGNORECASE)
    # text without a colour of its own is black
    svg = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1; font-family: inherit", svg)
    svg = re.sub(r"font-family: (?!inherit)[^;\"]*", "font-family: inherit", svg)
    head, rest = svg.split(">", 1)
    head = re.sub(r' (width|height|version|xmlns(:xlink)?)="[^"]*"', "", head)
    look = 'fill="currentColor" stroke-linejoin="round" stroke-linecap="butt"'
    return f'{head} role="img" aria-label="{escape(title)}" {look}>{rest}'.strip()
