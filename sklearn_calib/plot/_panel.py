"""Several reliability diagrams, in one or side by side."""

from math import ceil
from typing import TYPE_CHECKING, Any, Literal, Self

from sklearn_calib._validation import check_option
from sklearn_calib.plot._draw import CURVE, draw_legend
from sklearn_calib.plot._matplotlib import (
    check_axes,
    check_flags,
    full_names,
    new_axes,
    new_grid,
    next_style,
    plain,
)
from sklearn_calib.plot._reliability import DENSITIES, ReliabilityDisplay

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ReliabilityPanel"]

# With more curves than these, each has a diagram of its own; no bands; no strips.
_MOST_CURVES, _MOST_BANDS, _MOST_STRIPS = 5, 3, 4
_COLUMNS = 4
_THIN: dict[str, Any] = {"linewidth": 0.9, "alpha": 0.45, "linestyle": "-", "marker": "", "zorder": 3.2}


class ReliabilityPanel(ReliabilityDisplay):
    """Reliability diagrams of several classes, groups or folds.

    It is what :meth:`ReliabilityDisplay.from_predictions` returns for several classes or ``groups``, and
    :meth:`ReliabilityDisplay.from_cv_results` for folds. The artists are attributes of the single displays.

    Parameters
    ----------
    displays : list of ReliabilityDisplay
        The single diagrams.
    name : str, default=None
        Title of the legend, or of the figure.
    layout : {"overlay", "grid"}, default=None
        All curves in one diagram, or each in its own. By default the former if there are at most five or axes
        are given.
    summary : ReliabilityDisplay, default=None
        What is drawn bold over the others, which are then thin.

    Attributes
    ----------
    displays_ : list of ReliabilityDisplay
        The single displays, after :meth:`plot`.
    summary_ : ReliabilityDisplay or None
        What is bold.
    axes_ : list of matplotlib Axes
        Their axes, one for all or one each.
    ax_ : matplotlib Axes
        The first of them.
    figure_ : matplotlib Figure
        Figure containing them.

    See Also
    --------
    ReliabilityDisplay : A single diagram.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn_calib.plot import ReliabilityDisplay
    >>> y_true, y_proba = [0, 1, 0, 1, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]
    >>> panel = ReliabilityDisplay.from_predictions(y_true, y_proba, groups=list("aabbaabb"))
    >>> [display.name for display in panel.displays_]
    ['a (n = 4)', 'b (n = 4)']
    >>> plt.close(panel.figure_)
    """

    summary_: ReliabilityDisplay | None
    axes_: "list[Axes]"

    def __init__(
        self,
        displays: list[ReliabilityDisplay],
        *,
        name: str | None = None,
        layout: Literal["overlay", "grid"] | None = None,
        summary: ReliabilityDisplay | None = None,
    ) -> None:
        super().__init__((displays[0] if summary is None else summary).curve, name=name)
        self.displays = displays
        self.layout = layout
        self.summary = summary

    @classmethod
    def _single(cls) -> type[ReliabilityDisplay]:
        return ReliabilityDisplay

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        name: str | None = None,
        show_band: bool = True,
        density: Literal["strip", "classes", "rug", "width", "none"] = "strip",
        show_diagonal: bool = True,
        show_legend: bool = True,
        **line_params: Any,
    ) -> Self:
        """Draw the diagrams.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw all of them; a new figure by default.
        name : str, default=None
            Title of the legend or of the figure; the display's own by default.
        show_band, density, show_diagonal, show_legend
            As in :meth:`ReliabilityDisplay.plot`. In one diagram, more than three curves have no bands and
            more than four no strips.
        **line_params : dict
            Properties of all curves; of the bold one if there is one.

        Returns
        -------
        ReliabilityPanel
            The display itself.

        Raises
        ------
        ValueError
            If ``layout="grid"`` and axes are given, or an argument is wrong.
        ImportError
            If matplotlib is not installed.
        """
        check_flags(
            show_band=show_band,
            show_diagonal=show_diagonal,
            show_legend=show_legend,
        )
        check_option(density, "density", DENSITIES)
        check_axes(ax)
        title = self.name if name is None else name
        layout = self.layout
        if layout is not None:
            check_option(layout, "layout", ("overlay", "grid"))
        if layout == "grid" and ax is not None:
            raise ValueError(
                "layout='grid' makes a figure of its own. Leave ax out, or use layout='overlay'."
            )
        number = len(self.displays)
        grid = layout == "grid" or (layout is None and ax is None and number > _MOST_CURVES)
        if self.summary is None:
            crowded = 0 if grid else number
            strips = crowded <= _MOST_STRIPS or density == "width"
            shown: dict[str, Any] = {
                "show_band": show_band and crowded <= _MOST_BANDS,
                "density": density if strips else "none",
            }
        else:
            shown = _THIN | {"show_band": False, "density": "none", "label": "_fold"}
        shown["show_diagonal"] = show_diagonal
        if grid:
            self.axes_ = self._plot_grid(title, show_legend, shown | line_params)
        else:
            self.axes_ = [new_axes() if ax is None else ax]
            bold: dict[str, Any] = {"show_band": show_band, "density": density}
            self._plot_overlay(self.axes_[0], title, show_legend, shown, bold, line_params)
        self.displays_, self.summary_ = self.displays, self.summary
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        return self

    def _plot_grid(self, title: str | None, show_legend: bool, params: dict[str, Any]) -> "list[Axes]":
        number = len(self.displays)
        # few empty places, and not too wide
        columns = number if number <= _COLUMNS else min((4, 5, 3), key=lambda width: -number % width)
        axes = new_grid(ceil(number / columns), columns, 3.0)
        for place in axes[number:]:
            place.set_axis_off()
        for index, (place, display) in enumerate(zip(axes, self.displays, strict=False)):
            display.plot(place, show_legend=False, **params)
            place.set_title(plain(str(display.name)))
            if show_legend:
                display.line_.set_label(display._label("").removeprefix(": "))
                # what surrounds the curves is explained once
                draw_legend(place, [display.curve], display.line_ if index else None)
            if index % columns:
                place.set_ylabel("")
            if index + columns < number:
                place.set_xlabel("")
            else:
                place.tick_params(labelbottom=True)
        if title is not None:
            axes[0].figure.suptitle(plain(title))
        return axes[:number]

    def _plot_overlay(
        self,
        ax: "Axes",
        title: str | None,
        show_legend: bool,
        params: dict[str, Any],
        bold: dict[str, Any],
        line_params: dict[str, Any],
    ) -> None:
        if self.summary is None:
            for display in self.displays:
                display.plot(ax, show_legend=False, **params | line_params)
        else:
            # all folds look alike
            line_params = full_names(line_params)
            color = line_params.get("color", next_style(ax, CURVE)[0])
            for index, display in enumerate(self.displays):
                named = {"label": "_fold" if index else "single folds", "color": color}
                display.plot(ax, show_legend=False, **params | named)
            style = {"color": color, "linestyle": "-", "linewidth": 2.8, "show_diagonal": False}
            self.summary.plot(ax, show_legend=False, **style | bold | line_params)
        if show_legend:
            last = self.displays if self.summary is None else [self.summary]
            legend = draw_legend(ax, [display.curve for display in last])
            if title is not None:
                legend.set_title(plain(title))
