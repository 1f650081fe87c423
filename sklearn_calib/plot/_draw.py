"""The artists of a reliability diagram."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from sklearn_calib._core._links import logit
from sklearn_calib.plot._curve import ReliabilityBand, ReliabilityCurve
from sklearn_calib.plot._matplotlib import GREY

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D


CURVE = "sklearn_calib.reliability"
_DIAGONAL = "sklearn_calib.diagonal"
_VALUES = "sklearn_calib.values"
_STRIP = "sklearn_calib.density"
_OTHERS = "sklearn_calib.density.others"
# Lanes for the distributions of the predictions lie below the diagram, that of the first curve on top: their
# heights if there is one and if there are several, and their distance, as fractions of the axes.
_LANE, _LANES, _GAP = 0.115, 0.072, 0.018
# The line of a curve whose width shows the density, in points.
_THICKEST, _THINNEST = 14.0, 0.8
_MARGIN = 0.02
# Up to this many values of discrete predictions have their own bars.
_MOST_VALUES = 50
_TICKS = (0.5, 0.1, 0.01, 0.001, 0.9, 0.99, 0.999, 1e-4, 1 - 1e-4, 1e-5, 1 - 1e-5, 1e-6, 1 - 1e-6)
_FINER = (0.05, 0.2, 0.02, 0.005, 0.002, 0.8, 0.95, 0.98, 0.3, 0.7, 0.03, 0.003, 0.015, 0.07)
# Maximum width and height of a legend, and their sum, as fractions of the diagram, unless its letters would
# be smaller than this many points.
_LEGEND_WIDTH, _LEGEND_HEIGHT, _LEGEND_CORNER, _SMALLEST_LETTERS = 0.85, 0.45, 1.0, 6.0
# With fewer ticks than this, finer ones are added.
_FEW_TICKS = 4
# A logit axis ends at this distance from 0 and 1 at the latest.
_FAR = 1e-6
_NEVER_SHOWN = 1e-12


def check_scale(ax: "Axes", scale: str) -> None:
    """Raise if the axes hold a diagram of the other scale."""
    if any(line.get_gid() == CURVE for line in ax.lines):
        shown = "logit" if ax.get_xscale() == "logit" else "probability"
        if shown != scale:
            raise ValueError(f"ax holds a diagram with scale={shown!r}. Use the same scale, or other axes.")


def set_scale(ax: "Axes", curve: ReliabilityCurve) -> None:
    """Set the scales and the limits for the data; on a logit axis, those that hold all curves."""
    if curve.scale == "probability":
        if not any(line.get_gid() == CURVE for line in ax.lines):
            ax.set_xlim(-_MARGIN, 1.0 + _MARGIN)
        return
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    values = np.concatenate((curve.predicted, curve.observed, curve.distribution.ticks))
    values = values[(values > 0.0) & (values < 1.0)]
    low, high = (float(values.min()), float(values.max())) if values.size else (0.1, 0.9)
    if ax.get_xscale() == "logit":
        left, right = ax.get_xlim()
    else:
        for axis in ("x", "y"):
            getattr(ax, f"set_{axis}scale")("logit", nonpositive="clip")
        left, right = 0.5, 0.5
    ends = logit(np.clip(np.array([low, high]), _FAR, 1.0 - _FAR))
    # equal predictions need a range too
    pad = _MARGIN * max(float(ends[1] - ends[0]), 1.0)
    left, right = min(left, float(expit(ends[0] - pad))), max(right, float(expit(ends[1] + pad)))
    ax.set_xlim(left, right)
    # matplotlib's automatic limits would be infinite with predictions of 0 and 1
    ax.set_ylim(left, right)
    ticks = _ticks(ax, left, right)
    for shown in (ax.xaxis, ax.yaxis):
        shown.set_major_locator(FixedLocator(ticks))
        shown.set_minor_locator(NullLocator())
        shown.set_major_formatter(FuncFormatter(lambda tick, _: _percent(tick)))


def _percent(tick: float) -> str:
    return f"{100 * tick:.8g}%"


def _ticks(ax: "Axes", left: float, right: float) -> list[float]:
    """Return round ticks of a logit axis whose labels do not overlap, the roundest first."""
    low, high = (float(end) for end in logit(np.array([left, right])))
    # pixels for each unit of log-odds, and approximately for each letter
    unit = ax.get_window_extent().width / (high - low)
    letter = 0.56 * float(ax.xaxis.get_label().get_fontsize()) * ax.figure.dpi / 72
    chosen: list[float] = []
    spans: list[tuple[float, float]] = []
    for number, tick in enumerate((*_TICKS, *_FINER)):
        if number >= len(_TICKS) and len(chosen) >= _FEW_TICKS:
            break
        if left <= tick <= right:
            middle = (float(logit(np.array([tick]))[0]) - low) * unit
            half = 0.5 * letter * (len(_percent(tick)) + 1)
            if all(middle + half < start or middle - half > stop for start, stop in spans):
                chosen.append(tick)
                spans.append((middle - half, middle + half))
    return sorted(chosen)


def draw_diagonal(ax: "Axes") -> "Line2D | None":
    """Draw the line of perfect calibration, once per axes."""
    if any(artist.get_gid() == _DIAGONAL for artist in ax.lines):
        return None
    # on a logit axis the line from corner to corner is the diagonal, however far these are
    ends = [0.0, 1.0] if ax.get_xscale() == "linear" else [_NEVER_SHOWN, 1.0 - _NEVER_SHOWN]
    (line,) = ax.plot(
        ends,
        ends,
        color=GREY,
        linestyle=":",
        linewidth=1.5,
        label="perfect calibration",
        gid=_DIAGONAL,
        zorder=1,
    )
    return line


def draw_band(ax: "Axes", band: ReliabilityBand, color: Any) -> "Collection":
    """Draw the limits: an area, or bars if they hold only at the points."""
    label = band.label + ": limits cross" * (band.kind == "simultaneous" and band.crosses)
    named: dict[str, Any] = {"label": label if _is_new(ax, label) else "_" + label}
    x, low, high = band.predicted, band.lower, band.upper
    if ax.get_xscale() == "logit":
        # 0 and 1 are far beyond the axes, at infinity
        x, low, high = (np.clip(values, _NEVER_SHOWN, 1.0 - _NEVER_SHOWN) for values in (x, low, high))
    if band.bars and band.kind == "consistency":
        return ax.vlines(x, low, high, color=color, alpha=0.3, linewidth=7.0, zorder=1.8, **named)
    if band.bars:
        return ax.vlines(x, low, high, color=color, linewidth=1.4, zorder=3, **named)
    # overlapping areas stay transparent
    alpha = {"belt": 0.18, "consistency": 0.16}.get(band.kind, 0.2)
    surface = ax.fill_between(
        x, low, high, where=~(low > high), color=color, alpha=alpha, linewidth=0, zorder=1.7, **named
    )
    if band.crosses and band.kind == "simultaneous":
        ax.fill_between(
            x,
            high,
            low,
            where=low > high,
            facecolor="none",
            edgecolor=color,
            hatch="///",
            linewidth=0,
            alpha=0.5,
        )
    # limits at a value of many samples are narrower than those between values
    shared = np.unique(x[2:][x[2:] == x[:-2]])
    if 0 < shared.shape[0] <= _MOST_VALUES:
        low_there, high_there = ReliabilityBand(band.kind, band.confidence, x, low, high).at(shared)
        some = low_there <= high_there
        ax.vlines(
            shared[some], low_there[some], high_there[some], color=color, linewidth=1.6, gid=_VALUES, zorder=3
        )
    if band.kind in ("consistency", "simultaneous"):
        # the edge distinguishes them from a band around a curve
        style = (0, (2, 2)) if band.kind == "consistency" else "-"
        for limit in (low, high):
            ax.plot(x, limit, color=color, linewidth=0.9, linestyle=style, alpha=0.8, zorder=1.9)
    return surface


def draw_departures(ax: "Axes", band: ReliabilityBand, color: Any) -> "Collection | None":
    """Mark the diagonal where it lies outside a simultaneous band."""
    from matplotlib.collections import LineCollection

    parts = band.departures if band.kind in ("simultaneous", "belt") else ()
    if not parts:
        return None
    label = "perfect calibration, outside the band"
    # a straight line on a logit axis too
    lines = [np.repeat(np.linspace(part.start, part.stop, 3)[:, np.newaxis], 2, axis=1) for part in parts]
    marks = LineCollection(lines, colors=[color], linewidths=6.0, alpha=0.55, capstyle="round", zorder=1.75)
    marks.set_label(label if _is_new(ax, label) else "_" + label)
    ax.add_collection(marks, autolim=False)
    return marks


def draw_width(ax: "Axes", curve: ReliabilityCurve, line: "Line2D") -> "Collection":
    """Show the density of the predictions by the width of the curve, or the area of the markers of bins."""
    from matplotlib.collections import LineCollection

    relative = curve.support / float(np.nanmax(curve.support))
    color = line.get_color()
    if curve.method == "binned":
        area = np.pi / 4 * (_THINNEST + _THICKEST * np.sqrt(relative)) ** 2
        return ax.scatter(
            curve.predicted, curve.observed, s=area, color=color, alpha=0.55, linewidths=0, zorder=3.5
        )
    points = np.stack((curve.predicted, curve.observed), axis=1)
    # each piece overlaps the next, so that no gap shows between them
    pieces = np.stack((points[:-1], points[1:], np.concatenate((points[2:], points[-1:]))), axis=1)
    width = _THINNEST + (_THICKEST - _THINNEST) * 0.5 * (relative[:-1] + relative[1:])
    if curve.method == "corp":
        # no predictions lie where the fit rises from block to block
        pieces = pieces[:, :2]
        level = pieces[:, 0, 1] == pieces[:, 1, 1]
        pieces, width = pieces[level], width[level]
    known = np.isfinite(pieces).all(axis=(1, 2))
    drawn = LineCollection(
        list(pieces[known]), linewidths=width[known], colors=[color], capstyle="butt", zorder=3.5
    )
    ax.add_collection(drawn, autolim=False)
    return drawn


def draw_distribution(ax: "Axes", curve: ReliabilityCurve, color: Any, style: str) -> "Collection":
    """Draw the distribution of the predictions, from 0 to 1 in the lane that :func:`finish` will choose."""
    data = curve.distribution
    common: dict[str, Any] = {"color": color, "zorder": 2, "gid": _STRIP}
    common["transform"] = ax.get_xaxis_transform()
    if style == "rug":
        some, others = data.ticks_events > 0.0, data.ticks_events < 1.0
        ends = np.repeat([1.0, 0.0], [int(some.sum()), int(others.sum())])
        x = np.concatenate((data.ticks[some], data.ticks[others]))
        return ax.vlines(x, 0.5, ends, linewidth=0.7, alpha=0.6, **common)
    x = np.repeat(data.edges, 2)[1:-1]
    if style == "strip":
        top = np.repeat(data.density / data.density.max(), 2)
        return ax.fill_between(x, 0.0, top, alpha=0.45, linewidth=0, **common)
    # events upward, non-events downward, each on its own scale so that rare events are visible
    up, down = (
        0.5 * np.repeat(part / max(float(part.max()), 1e-300), 2)
        for part in (data.events, np.maximum(data.density - data.events, 0.0))
    )
    below = ax.fill_between(x, 0.5 - down, 0.5, alpha=0.3, linewidth=0, **common | {"gid": _OTHERS})
    above = ax.fill_between(x, 0.5, 0.5 + up, alpha=0.8, linewidth=0, **common)
    below.set_label("non-events (down)" if _is_new(ax, "non-events (down)") else "_others")
    above.set_label("events (up)" if _is_new(ax, "events (up)") else "_events")
    return above


def _lane_layout(ax: "Axes") -> tuple[int, float, float]:
    """Return the number of lanes, the height of each, and of all with their distances."""
    lanes = sum(artist.get_gid() == _STRIP for artist in ax.collections)
    height = _LANE if lanes == 1 else _LANES
    return lanes, height, (lanes * (height + _GAP) + _GAP) * (lanes > 0)


def _place_lanes(ax: "Axes") -> None:
    """Move the distributions into their lanes."""
    from matplotlib.transforms import Affine2D, blended_transform_factory

    lanes, height, _ = _lane_layout(ax)
    passed = 0
    for artist in ax.collections:
        if artist.get_gid() in (_STRIP, _OTHERS):
            base = _GAP / 2 + (lanes - 1 - passed) * (height + _GAP)
            # data along the axis; across it, from the lane to the axes
            across = Affine2D().scale(1.0, height).translate(0.0, base) + ax.transAxes
            artist.set_transform(blended_transform_factory(ax.transData, across))
            passed += artist.get_gid() == _STRIP


def finish(ax: "Axes", curve: ReliabilityCurve) -> tuple[float, float]:
    """Set the vertical limits so that the lanes lie below the diagram; return the limits of the data."""
    from matplotlib.ticker import FixedLocator

    lanes, _, part = _lane_layout(ax)
    _place_lanes(ax)
    if curve.scale == "logit":
        low, high = ax.get_xlim()
        ends = logit(np.array([low, high]))
        ax.set_ylim(float(expit(ends[1] - (ends[1] - ends[0]) / (1.0 - part))), high)
        return low, high
    low, high = -_MARGIN, 1.0 + _MARGIN
    ax.set_ylim(high - (high - low) / (1.0 - part), high)
    if lanes:
        # no ticks next to the lanes
        ax.yaxis.set_major_locator(FixedLocator(np.linspace(0.0, 1.0, 6).tolist()))
    return 0.0, 1.0


def draw_legend(ax: "Axes", curves: Sequence[ReliabilityCurve], only: "Line2D | None" = None) -> "Legend":
    """Draw the legend in the corner away from the curves, in letters that fit the axes.

    With ``only``, that line is its single entry.
    """
    place: dict[str, Any] = {"loc": "upper left"}
    handles, labels = ([only], [str(only.get_label())]) if only else ax.get_legend_handles_labels()
    # curves first, then bands and the diagonal
    order = sorted(range(len(labels)), key=lambda i: not hasattr(handles[i], "get_drawstyle"))
    place |= {"handles": [handles[i] for i in order], "labels": [labels[i] for i in order]}
    legend = ax.legend(**place)
    frame, extent = ax.get_window_extent(), legend.get_window_extent()
    wide = extent.width / frame.width
    high = extent.height / (frame.height * (1.0 - _lane_layout(ax)[2]))
    # a corner of the diagram, on this side of the diagonal
    excess = max(wide / _LEGEND_WIDTH, high / _LEGEND_HEIGHT, (wide + high) / _LEGEND_CORNER)
    if excess > 1.0:
        size = float(legend.get_texts()[0].get_fontsize())
        place["fontsize"] = max(size / excess, _SMALLEST_LETTERS)
        legend = ax.legend(**place)
    # how much of the curves lies within the legend in each corner
    extent, floor = legend.get_window_extent(), frame.y0 + frame.height * _lane_layout(ax)[2]
    points = [ax.transData.transform(np.column_stack([c.predicted, c.observed])).T for c in curves]
    above = [np.mean((x < extent.x1) & (y > extent.y0)) for x, y in points]
    below = [np.mean((x > frame.x1 - extent.width) & (y < floor + extent.height)) for x, y in points]
    if sum(below) < sum(above):
        legend = ax.legend(**place | {"loc": "lower right", "bbox_to_anchor": (1.0, _lane_layout(ax)[2])})
    legend.set_in_layout(False)
    return legend


def draw_edges(
    ax: "Axes", curve: ReliabilityCurve, color: Any, limits: tuple[float, float]
) -> "list[Artist]":
    """Draw, at the edges of logit axes, predictions of 0 and 1, and bins with no events or only events."""
    drawn: list[Artist] = []
    total = sum(edge.weight for edge in curve.at_edges)
    for number, edge in enumerate(curve.at_edges):
        (mark,) = ax.plot(
            [edge.value],
            [min(max(edge.frequency, limits[0]), limits[1])],
            transform=ax.get_yaxis_transform(),
            linestyle="none",
            marker="<" if edge.value == 0.0 else ">",
            markersize=9,
            color=color,
            clip_on=False,
            zorder=5,
            label=f"predicted 0 or 1 (n = {total:g})" if number == 0 else "_edge",
        )
        drawn.append(mark)
    if curve.scale == "logit" and curve.method == "binned":
        for value, end, marker in ((0.0, limits[0], "v"), (1.0, limits[1], "^")):
            bins = (curve.observed == value) & (curve.predicted > 0.0) & (curve.predicted < 1.0)
            if bins.any():
                x = curve.predicted[bins]
                (mark,) = ax.plot(
                    x,
                    np.full_like(x, end),
                    linestyle="none",
                    marker=marker,
                    color=color,
                    markersize=7,
                    zorder=4,
                )
                drawn.append(mark)
    return drawn


def _is_new(ax: "Axes", label: str) -> bool:
    """Tell whether no artist of the axes has this label."""
    return all(artist.get_label() != label for artist in (*ax.collections, *ax.lines))
