"""The three pictures of a test, drawn into axes.

Each function returns what was observed, what the null hypothesis expects, what speaks against it, and the
critical value.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_calib.inference import CalibrationTestResult
from sklearn_calib.plot._matplotlib import BLUE, GREY, PALE, VERMILION, plain
from sklearn_calib.plot._test_data import EvidencePath, NullCurve, NullHistogram, ScaleEvidence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

__all__ = ["draw_null", "draw_path", "draw_scales"]

_DASHES = (0, (6, 2))
_EXTREME = {"upper": "large is extreme", "lower": "small is extreme", "two-sided": "far from 0 is extreme"}


def draw_null(
    ax: "Axes", shown: NullHistogram | NullCurve, result: CalibrationTestResult, line_params: dict[str, Any]
) -> "tuple[Line2D, Any, Any, None]":
    """Draw the null distribution, and the observed statistic as a line."""
    if isinstance(shown, NullHistogram):
        null, tail = _histogram(ax, shown)
        highest = float(shown.counts.max())
    else:
        null, tail = _curve(ax, shown, result.null_law)
        highest = shown.top
    line: dict[str, Any] = {"color": VERMILION, "linestyle": _DASHES, "linewidth": 2.2, "zorder": 4}
    line |= {"label": f"observed {result.statistic:.3g}, p-value {result.pvalue:.3g}"} | line_params
    (observed,) = ax.plot([result.statistic] * 2, [0.0, 1.02 * highest], **line)
    ax.set_xlabel(f"Statistic ({_EXTREME[result.tail]})")
    ax.set_ylim(0.0, 1.06 * highest)
    return observed, null, tail, None


def _histogram(ax: "Axes", shown: NullHistogram) -> tuple[Any, Any]:
    left, width = shown.edges[:-1], np.diff(shown.edges)
    parts = []
    for chosen, color, text in (
        (~shown.extreme, PALE, "less extreme"),
        (shown.extreme, BLUE, "as extreme or more"),
    ):
        counts = shown.counts[chosen]
        draws = "draw" if counts.sum() == 1 else "draws"
        parts.append(
            ax.bar(
                left[chosen],
                counts,
                width[chosen],
                align="edge",
                color=color,
                edgecolor=ax.get_facecolor(),
                linewidth=0.5,
                zorder=2,
                label=f"{counts.sum()} {draws} {text}" if counts.size else "",
            )
        )
    if shown.log:
        ax.set_xscale("log")
    ax.set_ylabel("Draws under the null")
    return parts[0], parts[1]


def _curve(ax: "Axes", shown: NullCurve, law: str) -> tuple[Any, Any]:
    (null,) = ax.plot(shown.x, shown.density, color=GREY, linewidth=1.5, zorder=3, label=_law_in_words(law))
    tail = ax.fill_between(
        shown.x,
        shown.density,
        where=shown.extreme,
        color=BLUE,
        linewidth=0,
        zorder=2,
        label="as extreme or more",
    )
    ax.set_ylabel("Density under the null")
    return null, tail


def _law_in_words(law: str) -> str:
    if law == "brownian range":
        return "law of the range of Brownian motion"
    chi2 = law.removeprefix("chi2(").removesuffix(")")
    return "normal law" if chi2 == law else f"chi-squared law, {chi2} df"


def draw_scales(
    ax: "Axes", shown: ScaleEvidence, level: float, line_params: dict[str, Any]
) -> "tuple[Line2D, Any, Line2D, Line2D]":
    """Draw the evidence of each part of a test as stems, and the critical value as a line."""
    strong = shown.pvalues <= level
    point: dict[str, Any] = {"color": BLUE, "linestyle": "none", "marker": "o", "markersize": 6.5}
    weak_text = f"p-value above {level:g}" if not strong.all() else ""
    hollow = {"markerfacecolor": ax.get_facecolor(), "label": weak_text, "zorder": 4}
    (observed,) = ax.plot(shown.at, shown.shown, **point | hollow | line_params)
    color = observed.get_color()
    strong_text = f"p-value of the {shown.part} at most {level:g}" if strong.any() else ""
    (tail,) = ax.plot(
        shown.at[strong], shown.shown[strong], **point | line_params | {"label": strong_text, "zorder": 5}
    )
    origin = 1.0 if shown.by_pvalue else 0.0
    stems = ax.vlines(shown.at, origin, shown.shown, color=color, linewidth=1.4, zorder=3)
    ax.axhline(origin, color=GREY, linewidth=1.0, zorder=1)
    critical = ax.axhline(
        shown.critical,
        color=VERMILION,
        linestyle=_DASHES,
        linewidth=1.5,
        zorder=2,
        label=f"{level:g} critical value {shown.critical_name}",
    )
    if shown.base:
        ax.set_xscale("log", base=shown.base)
        ax.set_xlim(shown.at.min() / 1.6, shown.at.max() * 1.6)
    elif shown.names:
        ax.set_xlim(-0.6, len(shown.names) - 0.4)
        ax.set_xticks(shown.at, [plain(name) for name in shown.names])
    else:
        ax.set_xlim(-0.04, 1.04)
    ax.set_xlabel(shown.axis)
    if shown.by_pvalue:
        ax.set_yscale("log")
        for x, y in zip(shown.at[shown.pvalues == 0.0], shown.shown[shown.pvalues == 0.0], strict=True):
            ax.annotate("0", (x, y), (0, 6), textcoords="offset points", ha="center", fontsize="small")
        ax.set_ylim(1.5, min(shown.shown.min(), shown.critical) ** 1.05 / 1.5)
        ax.set_ylabel(f"p-value of the {shown.part}")
    else:
        ax.set_ylabel("Statistic / null standard deviation")
        low, high = min(0.0, float(shown.shown.min())), max(shown.critical, float(shown.shown.max()))
        pad = 0.07 * (high - low)
        ax.set_ylim(low - pad, high + pad)
    return observed, stems, tail, critical


def draw_path(
    ax: "Axes", shown: EvidencePath, level: float, line_params: dict[str, Any]
) -> "tuple[Line2D, Line2D, Line2D, Line2D]":
    """Draw the e-value of a sequential test against the number of observations."""
    line: dict[str, Any] = {"color": BLUE, "linewidth": 1.8, "zorder": 4, "label": "e-value"} | line_params
    (observed,) = ax.plot(shown.number, shown.evidence, **line)
    none = ax.axhline(0.0, color=GREY, linewidth=1.0, zorder=1)
    text = ", not reached"
    if shown.early:
        text = ", reached before the first observation shown"
    elif shown.reached is not None:
        text = f", reached at observation {shown.reached}"
    critical = ax.axhline(
        shown.critical,
        color=VERMILION,
        linestyle=_DASHES,
        linewidth=1.5,
        zorder=2,
        label=f"rejects at level {level:g}{text}",
    )
    at = [] if shown.reached is None else [shown.reached]
    (tail,) = ax.plot(
        at,
        [shown.critical] * len(at),
        color=observed.get_color(),
        marker="o",
        markersize=8,
        markeredgecolor=ax.get_facecolor(),
        linestyle="none",
        zorder=5,
    )
    low, high = min(0.0, float(shown.evidence.min())), max(shown.critical, float(shown.evidence.max()))
    pad = 0.05 * (high - low)
    ax.set_ylim(low - pad, high + pad)
    ax.set_xlabel("Number of observations")
    ax.set_ylabel("log10 of the e-value")
    return observed, none, tail, critical
