"""The figures of a report, as SVG in the colours of the page."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from sklearn_calib._core._grouping import condensed, group_outcomes
from sklearn_calib._validation import BinarySample
from sklearn_calib.plot import CutoffDisplay, ReliabilityDisplay, TestDisplay
from sklearn_calib.plot._matplotlib import plain
from sklearn_calib.report._numbers import ReportNumbers
from sklearn_calib.report._words import level_text, one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# These colours are replaced by colours of the page.
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
# If all predictions are below this, or above 1 minus it, scales that spread them are used.
_END = 0.2
# Ratio of the highest bars from which the scale is logarithmic.
_UNEQUAL = 30.0


class Figure(NamedTuple):
    """A figure: title, caption and SVG."""

    title: str
    caption: str
    svg: str


def figures(report: ReportNumbers, salt: str) -> list[Figure]:
    """Return the figures, or none where matplotlib is not installed; ids depend on ``salt``."""
    try:
        import matplotlib as mpl
    except ImportError:
        return []
    sample = report._sample
    points = BinarySample(*condensed(group_outcomes(sample.y, sample.p, sample.w)).rows())
    options: dict[str, Any] = {"sample_weight": points.w, "pos_label": 1, "confidence": report.confidence}
    sure = report.kind == "confidence"
    at_end = float(points.p.max()) < _END or float(points.p.min()) > 1.0 - _END
    axis = "Confidence" if sure else "Predicted probability"
    if report.positive not in ("", "1"):
        axis += f" ({plain(one_line(report.positive, 40))})"

    def reliability(ax: Axes) -> None:
        scale: Any = "logit" if at_end else "probability"
        ReliabilityDisplay.from_predictions(points.y, points.p, scale=scale, ax=ax, **options)
        ax.set_xlabel(axis)
        ax.set_ylabel("Accuracy" if sure else "Observed frequency")

    def residuals(ax: Axes) -> None:
        draws: dict[str, Any] = {"n_resamples": 5 * report.n_resamples - 1, "random_state": report.seed}
        x: Any = "fraction" if at_end else "probability"
        CutoffDisplay.from_predictions(points.y, points.p, x=x, ax=ax, **draws, **options)
        if not at_end:
            ax.set_xlabel(axis)

    drawn: list[tuple[str, str, Callable[[Axes], Any]]] = [
        (
            "Calibration curve",
            f"Observed {'accuracy' if sure else 'event frequency'} by prediction. A perfectly calibrated "
            "model lies on the dotted diagonal; below it the model overpredicts. Shaded: "
            f"{level_text(report)} pointwise confidence band.",
            reliability,
        ),
        (
            "Cumulative residuals",
            "Outcomes minus predictions, summed from small to large predictions: where the curve falls, "
            f"predictions are too high. Hatched: {level_text(report)} null band. The marked interval attains "
            "the cutoff calibration error.",
            residuals,
        ),
        (
            "Distribution of predictions",
            f"{'Correctly classified samples' if sure else 'Events'} above the axis, others below.",
            lambda ax: _histogram(ax, points, sure, axis, at_end),
        ),
    ]
    results = (test.result for test in report.tests)
    shown = next((r for r in results if r.null_distribution is not None or r.asymptotic_null), None)
    if shown is not None:
        drawn.append(
            (
                f"Null distribution of the {shown.test}{' (confidence)' if sure else ''}",
                "Distribution of the test statistic under perfect calibration, and its observed value. Dark: "
                "values at least as extreme, whose fraction is the p-value.",
                lambda ax: TestDisplay.from_result(shown, ax=ax),
            )
        )
    out = []
    for number, (title, caption, draw) in enumerate(drawn):
        # ids are hashes: the salt makes them differ between figures, and equal from run to run
        with mpl.rc_context({**_STYLE, "svg.hashsalt": f"{salt}-{number}"}):
            out.append(Figure(title, caption, _svg(draw, title)))
    return out


def _histogram(ax: Axes, points: BinarySample, sure: bool, axis: str, at_end: bool) -> None:
    """Draw the predictions of events and of non-events."""
    from matplotlib.ticker import MaxNLocator

    low, high = float(points.p.min()), float(points.p.max())
    ends = (low, high) if at_end and high > low else (0.0, 1.0)
    edges = np.linspace(*ends, _BINS + 1)
    names = ("correct", "wrong") if sure else ("event", "no event")
    weight, highest = points.weights, []
    for outcome, sign, color, name in ((1, 1.0, "#D55E00", names[0]), (0, -1.0, "#0072B2", names[1])):
        chosen = points.y == outcome
        height = np.histogram(points.p[chosen], edges, weights=weight[chosen])[0]
        highest.append(float(height.max()))
        ax.bar(edges[:-1], sign * height, np.diff(edges), align="edge", color=color, alpha=0.75, label=name)
    if min(highest) > 0.0 and max(highest) > _UNEQUAL * min(highest):
        ax.set_yscale("symlog", linthresh=1.0)
    else:
        ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.axhline(0.0, color=_INK, linewidth=0.6)
    ax.yaxis.set_major_formatter(lambda value, _: f"{abs(value):,.0f}")
    ax.set_xlabel(axis)
    ax.set_ylabel("Samples")
    ax.legend()


def _local(name: str) -> str:
    """Return a name of XML without its namespace, which HTML does not need."""
    return name.rpartition("}")[2]


def _svg(draw: Callable[[Axes], Any], title: str) -> str:
    """Return a drawing as an SVG element for a page of HTML, with the colours of the page."""
    from matplotlib import figure, layout_engine

    drawn = figure.Figure(figsize=(5.2, 4.7))
    draw(drawn.subplots())
    # a figure that has this engine would be drawn twice
    layout_engine.ConstrainedLayoutEngine().execute(drawn)
    file = BytesIO()
    drawn.savefig(file, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    root = ElementTree.fromstring(file.getvalue())
    for element in root.iter():
        for child in list(element):
            # a style would apply to the whole page
            if _local(child.tag) in ("style", "metadata"):
                element.remove(child)
        element.tag = _local(element.tag)
        element.attrib = {_local(name): value for name, value in element.attrib.items()}
        if element.tag == "g":
            # the same in each figure, and referred to by nothing
            element.attrib.pop("id", None)
        for color, name in _COLORS.items():
            if "style" in element.attrib:
                element.attrib["style"] = element.attrib["style"].replace(color, name)
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": title,
        "fill": "currentColor",
        "stroke-linejoin": "round",
        "stroke-linecap": "butt",
    }
    return ElementTree.tostring(root, encoding="unicode")
