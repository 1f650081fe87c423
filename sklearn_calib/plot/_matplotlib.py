"""Access to matplotlib, and the style shared by all displays."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    from sklearn_calib.inference import CalibrationTestResult


#: Colour of context: diagonals, axes of strips.
GREY = "0.45"
#: Colour of areas that are context: null bands.
PALE = "0.8"

# Maximum height and width of a legend as fractions of the axes, unless its letters would be smaller than this
# many points; and its distance from the data.
_MOST_LEGEND, _LEGEND_WIDTH, _LEGEND_GAP = 0.6, 0.88, 0.04
_SMALLEST_LETTERS = 4.5
_MOST_DECADES = 300.0

# Number of columns of a thinned path; the ends and extremes of each are kept.
_PATH_COLUMNS = 1000

_MISSING = (
    "Drawing needs matplotlib, which is not installed. Install it with "
    'python -m pip install "sklearn-calib[plot]"'
)

# Colours of Okabe and Ito, which are safe for colour-blind readers; dashes distinguish them in grey.
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
    _, axes = _pyplot().subplots(
        rows, columns, figsize=(width, height), layout="constrained", squeeze=False, **params
    )
    return list(axes.ravel())


def next_style(ax: "Axes", gid: str) -> tuple[str, Any]:
    """Return the colour and dashes for the next curve marked ``gid`` on these axes."""
    drawn = sum(artist.get_gid() == gid for artist in ax.lines)
    return _STYLES[drawn % len(_STYLES)]


def full_names(line_params: dict[str, Any]) -> dict[str, Any]:
    """Return properties of a line by their full names, "linewidth" for "lw"."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return dict(normalize_kwargs(line_params, Line2D))


def shade(ax: "Axes", ends: tuple[float, float], axis: Literal["x", "y"], **patch_params: Any) -> "Rectangle":
    """Shade the axes between two numbers on one axis, whatever the other axis shows."""
    from matplotlib.patches import Rectangle

    low, width = ends[0], ends[1] - ends[0]
    if axis == "x":
        patch = Rectangle((low, 0.0), width, 1.0, transform=ax.get_xaxis_transform(), **patch_params)
    else:
        patch = Rectangle((0.0, low), 1.0, width, transform=ax.get_yaxis_transform(), **patch_params)
    ax.add_patch(patch)
    return patch


def check_axes(ax: Any) -> None:
    """Raise if ``ax`` is given and is not an Axes."""
    if ax is not None and not hasattr(ax, "get_xaxis_transform"):
        raise TypeError(f"ax must be matplotlib Axes, got {ax!r}.")


def plain(text: str) -> str:
    """Return a text that matplotlib does not parse as mathematics."""
    if not isinstance(text, str):
        raise TypeError(f"A name to be shown must be a string, got {text!r}.")
    return text.replace("$", r"\$")


def p_text(pvalue: float) -> str:
    """Return a p-value as text with two digits."""
    return f"p = {pvalue:.2g}" if pvalue >= 1e-4 else "p < 0.0001"


def finding(pvalue: float, level: float) -> str:
    """Return the finding of a test of calibration at a level, with its p-value."""
    # a level of 1 - confidence is rounded
    found = "miscalibrated" if pvalue <= level + 1e-12 else "no evidence of miscalibration"
    return f"{found} ({p_text(pvalue)})"


def result_finding(result: "CalibrationTestResult", level: float) -> str:
    """Return what a test found; contradicted predictions of 0 and 1 apart from all others."""
    if not result.n_contradicted:
        return finding(result.pvalue, level)
    found, others = f"{result.n_contradicted:,} of {result.n_extreme:,}", result.pvalue_others
    if np.isnan(others):
        return f"{found} predictions of\nexactly 0 or 1 contradicted"
    return f"{finding(others, level)}\nwithout {found} predictions of\nexactly 0 or 1 that are contradicted"


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


def legend_above(ax: "Axes", **legend_params: Any) -> "Legend":
    """Draw a legend, in smaller letters if it is too wide, above the data by a larger upper y-limit."""
    frame = ax.get_window_extent()
    widest = _LEGEND_WIDTH * frame.width
    legend = ax.legend(loc="upper left", **legend_params)
    if legend.get_window_extent().width > widest:
        legend_params["ncols"] = 1
        legend = ax.legend(loc="upper left", **legend_params)
        size = float(legend.get_texts()[0].get_fontsize())
        size = max(min(1.0, widest / legend.get_window_extent().width) * size, _SMALLEST_LETTERS)
        legend = ax.legend(loc="upper left", fontsize=size, title_fontsize=size, **legend_params)
    legend.set_in_layout(False)
    fraction = legend.get_window_extent().height / frame.height + _LEGEND_GAP
    scale = ax.yaxis.get_transform()
    lower, upper = scale.transform(ax.get_ylim())
    upper = lower + (upper - lower) / (1.0 - min(fraction, _MOST_LEGEND))
    if ax.get_yscale() == "log":
        # floating-point numbers end there
        upper = min(max(upper, -_MOST_DECADES), _MOST_DECADES)
    ax.set_ylim(*scale.inverted().transform([lower, upper]))
    return legend
