"""The one place that imports matplotlib, and the style that all displays share."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BLUE", "GREY", "VERMILION", "new_axes", "next_style"]

#: Colour of what is context: diagonals, axes of strips.
GREY = "0.45"

# Colours of Okabe and Ito, which people who are colour-blind tell apart; the dashes tell them apart in grey.
BLUE, VERMILION = "#0072B2", "#D55E00"
_STYLES: tuple[tuple[str, Any], ...] = (
    (BLUE, "-"),
    (VERMILION, (0, (6, 2))),
    ("#009E73", (0, (6, 2, 1.5, 2))),
    ("#CC79A7", (0, (1.5, 1.5))),
    ("#000000", (0, (6, 2, 1.5, 2, 1.5, 2))),
)


def new_axes(width: float = 5.2, height: float = 5.2) -> "Axes":
    """Return the axes of a new figure made through pyplot, so that it shows in notebooks."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Drawing needs matplotlib, which is not installed. Install the extra that brings it: "
            'python -m pip install "sklearn-calib[plot]"'
        ) from error
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def next_style(ax: "Axes", gid: str) -> tuple[str, Any]:
    """Return the colour and dashes for the next curve marked ``gid`` on these axes."""
    drawn = sum(artist.get_gid() == gid for artist in ax.lines)
    return _STYLES[drawn % len(_STYLES)]
