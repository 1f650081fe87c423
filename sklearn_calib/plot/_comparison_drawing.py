"""The panel of one metric in a comparison of models: dots, intervals, floors, and what the tests say."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sklearn_calib.inference import ModelComparison
from sklearn_calib.plot._comparison_data import letters
from sklearn_calib.plot._curve import p_text
from sklearn_calib.plot._matplotlib import BLUE, GREY, full_names, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

__all__ = ["ComparisonPanel", "draw_panel", "limits"]

# The axis starts at 0 if the smallest number is less than this part of the largest.
_NEAR_ZERO = 0.4
# Part of the width that is kept free for what the tests say.
_MARGIN = 0.24


class ComparisonPanel(NamedTuple):
    """What was drawn."""

    points: "Line2D"
    worse: "Line2D"
    intervals: "LineCollection"
    floors: "Line2D | None"
    marks: "list[Text]"


def draw_panel(
    ax: "Axes",
    label: str,
    comparison: ModelComparison,
    models: list[str],
    show_floor: bool,
    show_tests: bool,
    marker_params: dict[str, Any],
) -> ComparisonPanel:
    """Draw the models in rows, by one metric, and what the tests say of them."""
    known = {row.name: row for row in comparison.rows}
    rows = [known[name] for name in models]
    heights = np.arange(len(rows), dtype=np.float64)
    best = np.array([row.in_best_set for row in rows])
    values, floors, low, high = np.array(
        [(row.value, row.floor, row.lower, row.upper) for row in rows], dtype=np.float64
    ).T
    tested = bool(comparison.pairs)
    dot: dict[str, Any] = {
        "color": BLUE,
        "marker": "o",
        "markersize": 8,
        "linestyle": "none",
        "zorder": 4,
    }
    dot |= full_names(marker_params)
    text = "measured" + (", not found worse" if tested else "")
    (filled,) = ax.plot(values[best], heights[best], **{"label": text} | dot)
    hollow = {"markerfacecolor": ax.get_facecolor(), "markeredgewidth": 1.8}
    text = "measured, found worse" if tested and not best.all() else ""
    (worse,) = ax.plot(values[~best], heights[~best], **dot | hollow | {"label": text})
    with_interval = np.isfinite(low)
    text = f"{100 * comparison.confidence:g} % interval of the true value" if with_interval.any() else ""
    intervals = ax.hlines(
        heights[with_interval],
        low[with_interval],
        high[with_interval],
        color=filled.get_color(),
        linewidth=2.4,
        zorder=3,
        label=text,
    )
    ticks = None
    if show_floor:
        (ticks,) = ax.plot(
            floors,
            heights,
            color=GREY,
            marker="|",
            markersize=17,
            markeredgewidth=2.0,
            linestyle="none",
            zorder=2,
        )
        # a sign that fits in the legend
        short: dict[str, Any] = {"markersize": 10, "markeredgewidth": 2.0, "linestyle": "none"}
        ax.plot([], [], color=GREY, marker="|", **short, label="if calibrated (on average)")
    marks = _draw_tests(ax, comparison, models) if show_tests and tested else []
    shown = np.concatenate([values, low, high] + ([floors] if show_floor else []))
    ax.set_xlim(limits(shown[np.isfinite(shown)], _MARGIN if marks else 0.0))
    ax.set_xlabel(plain(label))
    ax.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.8)
    ax.set_axisbelow(True)
    return ComparisonPanel(filled, worse, intervals, ticks, marks)


def _draw_tests(ax: "Axes", comparison: ModelComparison, models: list[str]) -> "list[Text]":
    """Write what the tests say at the right of the rows."""
    place = ax.get_yaxis_transform()
    # the ground hides the rule of the row
    ground = {"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 1.5}
    style: dict[str, Any] = {"transform": place, "va": "center", "fontsize": "small", "bbox": ground}
    height = {name: k for k, name in enumerate(models)}
    if comparison.reference is not None:
        tests = {pair.name_a: p_text(pair.adjusted_pvalue) for pair in comparison.pairs}
        return [
            ax.text(0.98, height[name], tests.get(name, "reference"), ha="right", **style) for name in models
        ]
    if len(comparison.pairs) == 1:
        (pair,) = comparison.pairs
        ends = sorted((height[pair.name_a], height[pair.name_b]))
        ax.plot([0.77, 0.79, 0.79, 0.77], np.repeat(ends, 2), transform=place, color=GREY, linewidth=1.2)
        return [ax.text(0.81, sum(ends) / 2.0, p_text(pair.adjusted_pvalue), ha="left", **style)]
    shared = letters(models, comparison)
    ax.plot([], [], linestyle="none", label="same letter: no difference found")
    return [ax.text(0.98, height[name], shared[name], ha="right", **style) for name in models]


def limits(shown: Any, margin: float) -> tuple[float, float]:
    """Return limits around the numbers, from 0 if they come near it, with room at the right."""
    low, high = float(shown.min()), float(shown.max())
    from_zero = 0.0 <= low <= _NEAR_ZERO * high
    spread = high - (0.0 if from_zero else low) or abs(high) or 1.0
    left = -0.03 * spread if from_zero else low - 0.08 * spread
    right = high + 0.08 * spread
    return left, left + (right - left) / (1.0 - margin)
