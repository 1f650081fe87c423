"""Access to matplotlib, and the style shared by all displays."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._null import rejects
from sklearn_calib._html import printable_lines, pvalue_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    from matplotlib.transforms import Affine2D, Bbox

    from sklearn_calib.inference import CalibrationTestResult


#: Color of context: diagonals, axes of strips.
GREY = "0.45"
#: Color of areas that are context: null bands.
PALE = "0.8"

#: Distance of the curves from the edges of the axes, as a fraction of the range shown.
MARGIN = 0.02

#: Mark of the artists of bands.
BAND = "sklearn_calib.band"
# Most curves on the same axes whose bands are drawn: more would pile up.
_FEW = 3

_OWN = "sklearn_calib.figure"
# Largest fraction of the axes that a legend replaces, smallest letters, in points, and most columns.
_MOST_LEGEND, _SMALLEST_LETTERS, _MOST_COLUMNS = 0.6, 4.5, 3

# Number of columns of a thinned path; the ends and extremes of each are kept.
_PATH_COLUMNS = 1000

_MISSING = (
    "Drawing needs matplotlib, which is not installed. Install it with "
    'python -m pip install "sklearn-calib[plot]"'
)

# Colors of Okabe and Ito, which are safe for color-blind readers; dashes distinguish them in gray.
BLUE, VERMILION = "#0072B2", "#D55E00"
DASHES = (0, (6, 2))
_STYLES: tuple[tuple[str, Any], ...] = (
    (BLUE, "-"),
    (VERMILION, DASHES),
    ("#009E73", (0, (6, 2, 1.5, 2))),
    ("#CC79A7", (0, (1.5, 1.5))),
    ("#000000", (0, (6, 2, 1.5, 2, 1.5, 2))),
    ("#E69F00", (0, (10, 3))),
    ("#56B4E9", (0, (3, 1.5, 1, 1.5))),
)


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(_MISSING) from error
    return plt


@contextmanager
def closes_figures() -> Iterator[None]:
    """Close the new figures of a function that fails: nobody else knows them."""
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    before = set() if pyplot is None else set(pyplot.get_fignums())
    try:
        yield
    except BaseException:
        for number in set(_pyplot().get_fignums()) - before:
            _pyplot().close(number)
        raise


def draw_critical(ax: "Axes", height: float, label: str) -> "Line2D":
    """Draw the line of the critical value."""
    return ax.axhline(height, color=VERMILION, linestyle=DASHES, linewidth=1.5, zorder=2, label=label)


def draw_marks(ax: "Axes", x: Any, y: Any, color: Any, **params: Any) -> "Line2D":
    """Draw highlighted points."""
    given: dict[str, Any] = {"marker": "o", "markersize": 8, "zorder": 5} | params
    edge = ax.get_facecolor()
    (marks,) = ax.plot(x, y, color=color, markeredgecolor=edge, linestyle="none", **given)
    return marks


def new_axes(width: float, height: float, rows: int = 1, columns: int = 1, **params: Any) -> list["Axes"]:
    """Return axes, row by row, of a new figure made through pyplot, so that it shows in notebooks."""
    figure, axes = _pyplot().subplots(
        rows, columns, figsize=(width, height), layout="constrained", squeeze=False, **params
    )
    figure.set_gid(_OWN)
    return list(axes.ravel())


def new_grid(
    number: int,
    most: int,
    width: float,
    height: float,
    below: float = 0.0,
    n_cols: int | None = None,
    figsize: tuple[float, float] | None = None,
) -> list["Axes"]:
    """Return axes with the same limits in a new figure, in rows of ``n_cols`` or at most ``most``."""
    rows = ceil(number / (n_cols or most))
    columns = min(n_cols or ceil(number / rows), number)
    shape: dict[str, Any] = {"sharex": True, "sharey": True}
    size = (width * columns, height * rows + below) if figsize is None else figsize
    axes = new_axes(*size, rows, columns, **shape)
    for spare in axes[number:]:
        spare.set_axis_off()
    return axes[:number]


def next_style(ax: "Axes", gid: str) -> tuple[str, Any]:
    """Return the color and dashes for the next curve marked ``gid`` on these axes."""
    drawn = sum(artist.get_gid() == gid for artist in ax.lines)
    return _STYLES[drawn % len(_STYLES)]


def draw_curve(
    ax: "Axes", gid: str, x: Any, y: Any, label: str, line_params: dict[str, Any], **style: Any
) -> "Line2D":
    """Draw the next curve marked ``gid`` on these axes, a single point as a marker."""
    color, dashes = next_style(ax, gid)
    line = {"color": color, "linestyle": dashes, "linewidth": 2.0, "zorder": 4, "label": label, "gid": gid}
    if len(x) == 1:
        # whole on the edge of the axes, too
        line |= {"marker": "o", "clip_on": False}
    (drawn,) = ax.plot(x, y, **line | style | line_params)
    return drawn


def unless_drawn(ax: "Axes", label: str) -> str:
    """Return a label for the legend, hidden by an underscore if the axes already hold it."""
    return f"_{label}" if label in ax.get_legend_handles_labels()[1] else label


def full_names(line_params: dict[str, Any]) -> dict[str, Any]:
    """Return properties of a line by their full names, "linewidth" for "lw"."""
    _pyplot()
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    given = dict(normalize_kwargs(line_params, Line2D))
    for name in given:
        if not hasattr(Line2D, f"set_{name}"):
            raise TypeError(
                f"{name!r} is neither a parameter of this display nor a property of a matplotlib line."
            )
    return given


def shade(
    ax: "Axes", ends: tuple[float, float], axis: Literal["x", "y"], extent: float = 1.0, **patch_params: Any
) -> "Rectangle":
    """Shade the axes between two numbers on one axis, up to a fraction of the other, whatever that shows."""
    from matplotlib.patches import Rectangle

    low, width = ends[0], ends[1] - ends[0]
    if axis == "x":
        patch = Rectangle((low, 0.0), width, extent, transform=ax.get_xaxis_transform(), **patch_params)
    else:
        patch = Rectangle((0.0, low), extent, width, transform=ax.get_yaxis_transform(), **patch_params)
    ax.add_patch(patch)
    return patch


def given_axes(ax: Any, numbers: tuple[int, ...], expected: str) -> list["Axes"]:
    """Return Axes, or an array of them, as a list of one of the numbers that are possible."""
    axes = list(np.ravel(np.asarray(ax, dtype=object)))
    if not all(hasattr(each, "get_xaxis_transform") for each in axes):
        raise TypeError(f"ax must be {expected}, got {ax!r}.")
    other = next((each.name for each in axes if each.name != "rectilinear"), None)
    if other is not None:
        raise ValueError(f"ax must be {expected} without projection, got the projection {other!r}.")
    if len(axes) not in numbers:
        raise ValueError(f"ax must be {expected}, got {len(axes)} axes.")
    return axes


def plain(text: str) -> str:
    """Return a text that matplotlib can draw and does not parse as mathematics."""
    if not isinstance(text, str):
        raise TypeError(f"A name to be shown must be a string, got {text!r}.")
    return printable_lines(text.split("\n")).replace("$", r"\$")


def result_finding(result: "CalibrationTestResult", level: float) -> str:
    """Return what a test found; contradicted predictions of 0 and 1 apart from all others."""
    pvalue = result.pvalue_others if result.n_contradicted else result.pvalue
    certain = f"{result.n_contradicted:,} of {result.n_extreme:,} predictions of\nexactly 0 or 1"
    if np.isnan(pvalue):
        return f"{certain} contradicted"
    found = "miscalibrated" if rejects(pvalue, level) else "no evidence of miscalibration"
    without = f"\nwithout {certain} that are contradicted" if result.n_contradicted else ""
    return f"{found} ({pvalue_words(pvalue)}){without}"


def thinned(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the first, last, lowest and highest of ordered points in each of 1000 columns; of 4000, all."""
    n = x.shape[0]
    if n <= 4 * _PATH_COLUMNS:
        return np.arange(n)
    column = np.minimum((x * _PATH_COLUMNS).astype(np.int64), _PATH_COLUMNS - 1)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    order = np.lexsort((y, column))
    stops = np.append(starts[1:], n) - 1
    # a stable sort within each column: the first is the lowest and the last the highest
    return np.unique(np.concatenate((starts, stops, order[starts], order[stops])))


def curves_of(ax: "Axes", gid: str) -> list["Line2D"]:
    """Return the curves marked ``gid`` on these axes and on those that share their horizontal axis."""
    together = ax.get_shared_x_axes().get_siblings(ax)
    return [line for each in together for line in each.lines if line.get_gid() == gid]


def set_range(ax: "Axes", gid: str, low: float, high: float) -> tuple[float, float]:
    """Set the x-limits to a range on the scale of the axis, joined with that of other curves; return it."""
    from matplotlib.ticker import MaxNLocator

    scale = ax.xaxis.get_transform()
    if ax.get_xscale() == "linear":
        # labels of steps of 25 are longer, and overlap next to 0 and 1
        ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10]))
    if len(curves_of(ax, gid)) > 1:
        left, right = scale.transform(np.array(ax.get_xlim()))
        pad = MARGIN / (1.0 + 2.0 * MARGIN) * (right - left)
        low, high = min(low, left + pad), max(high, right - pad)
    pad = MARGIN * ((high - low) or 1.0)
    ax.set_xlim(*scale.inverted().transform(np.array([low - pad, high + pad])))
    return low, high


def few_bands(ax: "Axes", gid: str) -> str | None:
    """Remove the bands if the axes hold more than three curves; return a title of the legend that says so."""
    bands = [artist for artist in (*ax.lines, *ax.collections) if artist.get_gid() == BAND]
    if not bands or len([line for line in ax.lines if line.get_gid() == gid]) <= _FEW:
        return None
    for band in bands:
        band.remove()
    return f"Bands are drawn for at most {_FEW} curves"


class _Placed:
    """The place of axes without its lowest inches, and the shift of a legend to below their labels.

    Matplotlib calls it before it draws, as a locator. Other locators of the axes keep their place.
    """

    def __init__(self, ax: Any, inches: float, shift: "Affine2D") -> None:
        self.inches, self.shift = inches, shift
        other = ax.get_axes_locator()
        self.other: Any = other.other if isinstance(other, _Placed) else other
        self.get_subplotspec = getattr(self.other, "get_subplotspec", ax.get_subplotspec)
        ax.apply_aspect(self._place(ax, None))

    def _place(self, ax: Any, renderer: Any) -> "Bbox":
        from matplotlib.transforms import Bbox

        place: Bbox = ax.get_position(original=True) if self.other is None else self.other(ax, renderer)
        if self.other is not None:
            return place
        drop = self.inches * ax.figure.figure.dpi / ax.figure.bbox.height
        low = place.y0 + min(drop, _MOST_LEGEND * place.height)
        return Bbox.from_extents(place.x0, low, place.x1, place.y1)

    def __call__(self, ax: Any, renderer: Any) -> "Bbox":
        place, labels = self._place(ax, renderer), ax.xaxis.get_tightbbox(renderer)
        gap = 0.0 if labels is None else min(labels.y0 - ax.bbox.y0, 0.0)
        self.shift.clear().translate(0.0, gap)
        return place


def legend_below(ax: "Axes", **legend_params: Any) -> None:
    """Draw the legend below the axes, in as many columns as fit: lines first, then bands and intervals.

    A figure made by :func:`new_axes` grows by it. In a figure without layout engine, axes and legend together
    have the place of the axes.
    """
    from matplotlib.lines import Line2D
    from matplotlib.transforms import Affine2D

    figure, shift, frame, old = ax.figure.figure, Affine2D(), ax.get_window_extent(), ax.get_legend()
    given: dict[str, Any] = {
        "handles": sorted(ax.get_legend_handles_labels()[0], key=lambda part: not isinstance(part, Line2D)),
        "loc": "upper left",
        "bbox_to_anchor": (0.0, 0.0),
        "bbox_transform": ax.transAxes + shift,
        "fontsize": "small",
        "title_fontsize": "small",
        "alignment": "left",
        "frameon": False,
    } | legend_params
    before = 0.0 if old is None else old.get_window_extent().height
    legend = ax.legend(**given)
    box, letters = legend.get_window_extent(), legend.get_texts()
    widths, size = [text.get_window_extent().width for text in letters], float(letters[0].get_fontsize())
    if box.width > frame.width:
        size = max(frame.width / box.width * size, _SMALLEST_LETTERS)
        box = ax.legend(**given | {"fontsize": size, "title_fontsize": size}).get_window_extent()
        widths = []
    around = 2.0 * legend.borderpad - legend.columnspacing
    beside = legend.handlelength + legend.handletextpad + legend.columnspacing
    for ncols in range(min(len(widths), _MOST_COLUMNS), 1, -1):
        width = sum(max(part) for part in np.array_split(widths, ncols))
        if width + size * figure.dpi / 72.0 * (ncols * beside + around) <= frame.width:
            box = ax.legend(ncols=ncols, **given).get_window_extent()
            break
    raised = 0.0
    if figure.get_gid() == _OWN:
        inches = figure.get_size_inches()
        figure.set_size_inches(inches[0], inches[1] + (box.height - before) / figure.dpi)
    elif figure.get_layout_engine() is None:
        raised = box.height / figure.dpi
    ax.set_axes_locator(_Placed(ax, raised, shift))
