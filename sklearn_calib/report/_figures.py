"""The figures of a report, as SVG in the colors of the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from sklearn_calib import _validation
from sklearn_calib.inference import SegmentsResult
from sklearn_calib.metrics._reductions import class_samples
from sklearn_calib.plot import CutoffDisplay, ReliabilityDisplay, SegmentsDisplay, TestDisplay
from sklearn_calib.plot._curve import reliability_curve
from sklearn_calib.plot._matplotlib import plain
from sklearn_calib.plot._smooth_curve import shown_range
from sklearn_calib.report import _numbers
from sklearn_calib.report._words import (
    level_text,
    listed,
    number,
    one_line,
    pvalue_words,
    reported_parts,
    test_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# The style is set for the whole process: threads draw one after the other.
_DRAWING = Lock()
# These colors are replaced by colors of the page.
_INK, _CLEAR = "#010203", "none"
_COLORS = {
    "#010203": "currentColor",
    "#000000": "currentColor",
    "#0072b2": "var(--blue)",
    "#d55e00": "var(--red)",
    "#737373": "var(--gray)",
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
# Bins of neighboring predictions are no longer than one of so many parts of their range.
_CELLS = 400
# If all predictions are below this, or above 1 minus it, scales that spread them are used.
_END = 0.2
# Ratio of the highest bars from which the scale is logarithmic.
_UNEQUAL = 30.0
# Small diagrams of classes: at most so many, so many in a line.
_SEGMENTS = "Segments in which predictions are too high or too low"
_CLASSES, _MOST_CLASSES, _COLUMNS = "Calibration curve of each class against the rest", 12, 4
_LABELS = "Calibration curve of each label"


class Figure(NamedTuple):
    """A figure: title, caption and SVG; ``wide`` if it needs a line of its own."""

    title: str
    caption: str
    svg: str
    wide: bool = False


def figures(report: _numbers.ReportNumbers, salt: str) -> list[Figure]:
    """Return the figures, or none where matplotlib is not installed; ids depend on ``salt``."""
    try:
        import matplotlib as mpl
    except ImportError:
        return []
    problem, found = report._problem, report.segments
    points = _points(
        problem if isinstance(problem, _validation.BinarySample) else class_samples(problem, "confidence")[0]
    )
    weights = "sampling" if points.sampling else "frequency"
    options: dict[str, Any] = {"sample_weight": points.w, "weights": weights, "pos_label": 1}
    options["confidence"] = report.confidence
    sure = report.kind == "confidence"
    at_end = float(points.p.max()) < _END or float(points.p.min()) > 1.0 - _END
    axis = "Confidence" if sure else "Predicted probability"
    if report.positive not in ("", "1"):
        axis += f" ({plain(one_line(report.positive, 40))})"

    # CutoffDisplay draws none for weights by class
    band = f"Gray: {level_text(report)} null band. " if points.class_weights is None else ""

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

    drawn: list[tuple[str, str, Callable[[Any], Any]]] = [
        (
            "Calibration curve",
            f"Observed {'accuracy' if sure else 'event frequency'} by prediction. A perfectly calibrated "
            "model lies on the dotted diagonal; below it the model overpredicts. Shaded, "
            f"or bars at single predictions: {level_text(report)} pointwise confidence limits.",
            reliability,
        ),
        (
            "Cumulative residuals",
            "Outcomes minus predictions, summed from small to large predictions: where the curve falls, "
            "predictions are too high. "
            f"{band}The bar marks the interval that attains the cutoff calibration error.",
            residuals,
        ),
        (
            "Distribution of predictions",
            f"{'Correctly classified samples' if sure else 'Events'} above the axis, others below"
            f"{', in weighted counts' if points.sampling else ''}.",
            lambda ax: _histogram(ax, points, sure, axis, at_end),
        ),
    ]
    simulated = (
        t for t in report.tests if t.result.null_distribution is not None or t.result.asymptotic_null
    )
    shown = next(simulated, None)
    if shown is not None:
        drawn.append(
            (
                f"Null distribution of the {test_label(shown)}",
                "Distribution of the test statistic under perfect calibration, and its observed value. Dark: "
                "values at least as extreme, whose fraction is the p-value.",
                lambda ax: TestDisplay.from_result(shown.result, ax=ax),
            )
        )
    if report.classes:
        labels = report.kind == "multilabel"
        worst = reported_parts(report.classes, len(report.classes))
        rest = [part.name for part in worst[_MOST_CLASSES:]]
        drawn.append(
            (
                _LABELS if labels else _CLASSES,
                "Those with the smallest p-values first (adjusted p-value of the cutoff test, smooth ECE). "
                "All diagrams have the same axes; one event is one sample of the class or with the label."
                + (f" Not shown: {listed(rest, _MOST_CLASSES)}, with larger p-values." if rest else ""),
                lambda figure: _class_diagrams(figure, report, worst[:_MOST_CLASSES]),
            )
        )
    if found is not None and found.segments:
        caption = f"Intervals hold for all {found.n_tested:,} tested segments together."
        drawn.append((_SEGMENTS, caption, lambda figure: _segments(figure, found)))
    out = []
    for index, (title, caption, draw) in enumerate(drawn):
        # ids are hashes: the salt makes them differ between figures, and equal from run to run
        with _DRAWING, mpl.rc_context({**_STYLE, "svg.hashsalt": f"{salt}-{index}"}):
            wide = title in (_CLASSES, _LABELS, _SEGMENTS)
            out.append(Figure(title, caption, _svg(draw, title, wide), wide))
    return out


def _points(sample: _validation.BinarySample) -> _validation.BinarySample:
    """Return the samples as if they were independent, and bins of neighbors of many distinct predictions."""
    return _numbers.pooled_sample(replace(sample, clusters=None), _CELLS)


def _class_diagrams(
    figure: Any, report: _numbers.ReportNumbers, parts: tuple[_numbers.ReportPart, ...]
) -> None:
    """Draw a small reliability diagram of each class or label, with common axes."""
    names, sample = [part.name for part in report.classes], report._problem
    if isinstance(sample, _validation.ClassSample):
        problems = class_samples(sample, "classwise")
    else:
        problems = _numbers.samples_of_labels(sample, len(names), True)
    chosen = [_points(problems[names.index(part.name)]) for part in parts]
    order = [np.argsort(part.p) for part in chosen]
    ranges = [shown_range(s.p[o], s.weights[o]) for s, o in zip(chosen, order, strict=True)]
    shown = min(low for low, _ in ranges), max(high for _, high in ranges)
    columns = min(_COLUMNS, len(parts))
    rows = -(-len(parts) // columns)
    figure.set_size_inches(2.7 * columns, 2.7 * rows + 0.3)
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for index, (ax, part, points) in enumerate(zip(axes, parts, chosen, strict=False)):
        curve = reliability_curve(points, confidence=report.confidence, shown=shown)
        ReliabilityDisplay(curve).plot(ax, show_histogram=False, show_legend=False)
        lowest = index + columns >= len(parts)
        title = (
            f"{plain(one_line(part.name, 26))}\n{pvalue_words(part.adjusted)}, smECE {number(part.estimate)}"
        )
        ax.set_title(title, fontsize=9.0)
        ax.set(
            xlabel="Predicted probability" * lowest, ylabel="" if index % columns else "Observed frequency"
        )
        ax.tick_params(labelbottom=lowest)
    for ax in axes[len(parts) :]:
        ax.set_axis_off()


def _segments(figure: Any, found: SegmentsResult) -> None:
    """Draw the forest plot."""
    figure.set_size_inches(10.8, 1.2 + 0.34 * len(found.segments))
    SegmentsDisplay.from_result(found, ax=figure.subplots())


def _histogram(ax: Axes, points: _validation.BinarySample, sure: bool, axis: str, at_end: bool) -> None:
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


def _svg(draw: Callable[[Any], Any], title: str, wide: bool) -> str:
    """Return a drawing as an SVG element for a page of HTML, with the colors of the page."""
    from matplotlib import figure, layout_engine

    drawn = figure.Figure(figsize=(5.2, 4.7))
    draw(drawn if wide else drawn.subplots())
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
