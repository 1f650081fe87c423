"""Display of a calibration monitor: evidence and error over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib import _validation
from sklearn_calib._docs import shared_docs
from sklearn_calib.plot._matplotlib import (
    BLUE,
    GREY,
    VERMILION,
    closes_figures,
    draw_critical,
    draw_marks,
    full_names,
    given_axes,
    legend_below,
    new_axes,
    plain,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D


_NOT_METRICS = ("time", "n_samples", "log_evidence", "alert", "event_rate", "mean_prediction")
# The y-limits are at most this multiple of the threshold, and its negative.
_HIGHEST = 2.0
_BEYOND = 1e6


@shared_docs
class MonitorDisplay:
    """Evidence and error of a :class:`CalibrationMonitor` over time.

    Make one with :meth:`from_monitor`. The upper panel shows the evidence after each batch, as a logarithm to
    base 10, the alert threshold, and the alerts; evidence far beyond the threshold is cut off. The lower
    panel shows a metric on the window.

    Parameters
    ----------
    history : mapping of str to array-like
        Result of :meth:`CalibrationMonitor.history`.
    threshold : float
        Evidence that raises an alert; greater than 1.
    name : str, default=None
        Title of the legend.

    Attributes
    ----------
    %(panels)s
    evidence_ : matplotlib Line2D
        Logarithm of the evidence to base 10.
    threshold_ : matplotlib Line2D
        The alert threshold.
    alerts_ : matplotlib Line2D
        A point for each alert.
    error_ : matplotlib Line2D or None
        The metric; None without a lower panel.

    See Also
    --------
    TestDisplay : The evidence of a sequential test after each observation.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn_calib.monitor import CalibrationMonitor
    >>> from sklearn_calib.plot import MonitorDisplay
    >>> monitor, rng = CalibrationMonitor(), np.random.default_rng(0)
    >>> for _ in range(20):
    ...     p = rng.uniform(size=100)
    ...     _ = monitor.update(rng.uniform(size=100) < p, p)
    >>> display = MonitorDisplay.from_monitor(monitor)
    >>> [ax.get_ylabel() for ax in display.axes_]
    ['log10 of the evidence', 'smooth_ece']
    >>> plt.close(display.figure_)
    """

    axes_: list[Axes]
    ax_: Axes
    figure_: Figure | SubFigure
    evidence_: Line2D
    threshold_: Line2D
    alerts_: Line2D
    error_: Line2D | None

    def __init__(
        self,
        history: Mapping[str, ArrayLike],
        *,
        threshold: float,
        name: str | None = None,
    ) -> None:
        self.history = history
        self.threshold = threshold
        self.name = name

    @classmethod
    def from_monitor(
        cls,
        monitor: Any,
        *,
        name: str | None = None,
        ax: Axes | Sequence[Axes] | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the history of a monitor.

        Parameters
        ----------
        monitor : CalibrationMonitor
            The monitor.
        name : str, default=None
            Title of the legend.
        ax : matplotlib Axes or list of two, default=None
            Where to draw; a new figure by default.
        **plot_params : dict
            Passed to :meth:`plot`.

        %(display_returned)s
        """
        if not hasattr(monitor, "history"):
            raise TypeError(f"monitor must be a CalibrationMonitor, got {type(monitor).__name__}.")
        history = monitor.history()
        if not len(history["time"]):
            raise ValueError("The monitor has no history: it has not been updated. Call update() first.")
        display = cls(history, threshold=monitor.threshold_, name=name)
        return display.plot(ax, **plot_params)

    @closes_figures()
    def plot(
        self,
        ax: Axes | Sequence[Axes] | None = None,
        *,
        metric: str | None = None,
        show_legend: bool = True,
        **line_params: Any,
    ) -> Self:
        """Draw both panels.

        Parameters
        ----------
        ax : matplotlib Axes or list of two, default=None
            Where to draw: the evidence alone, or evidence and error; a new figure by default.
        metric : str, default=None
            Metric to show; by default the first one of the monitor.
        show_legend : bool, default=True
            Whether to draw the legend.
        **line_params : dict
            Properties of the lines of evidence and error, such as ``color``.

        %(self_returned)s
        """
        given = full_names(line_params)
        metrics = [name for name in self.history if name not in _NOT_METRICS]
        metric = metrics[0] if metric is None else _validation.check_option(metric, "metric", metrics)
        shape: dict[str, Any] = {"sharex": True, "height_ratios": (3.0, 2.0)}
        expected = "one matplotlib Axes, or two"
        axes = new_axes(7.2, 5.2, 2, **shape) if ax is None else given_axes(ax, (1, 2), expected)
        self.axes_, self.ax_, self.figure_ = axes, axes[0], axes[0].figure
        time = np.asarray(self.history["time"])
        line: dict[str, Any] = {"color": BLUE, "linewidth": 1.8, "zorder": 3} | given
        self._draw_evidence(axes[0], time, line)
        self.error_ = None
        if len(axes) == 2:
            error = np.asarray(self.history[metric], dtype=np.float64)
            known = np.isfinite(error)
            params: dict[str, Any] = {"marker": ".", "markersize": 5} | line
            (self.error_,) = axes[1].plot(time[known], error[known], **params)
            axes[1].set_ylim(bottom=min(0.0, float(error[known].min(initial=0.0))))
            axes[1].set_ylabel(plain(metric))
        axes[-1].set_xlabel("Samples" if time.dtype.kind in "iu" else "Time")
        if show_legend:
            legend_below(self.ax_, title=None if self.name is None else plain(self.name))
        return self

    def _draw_evidence(self, ax: Axes, time: Any, line: dict[str, Any]) -> None:
        shown = np.asarray(self.history["log_evidence"], dtype=np.float64) / np.log(10.0)
        # infinite evidence is cut off, and zero evidence of a detector that has not started is not drawn
        shown = np.where(np.isneginf(shown), np.nan, np.minimum(shown, _BEYOND))
        critical = np.log10(self.threshold)
        most = _HIGHEST * critical
        (self.evidence_,) = ax.plot(time, shown, **{"label": "evidence", **line})
        self.threshold_ = draw_critical(ax, critical, f"alert at {self.threshold:g}")
        alerts = np.flatnonzero(self.history["alert"])
        text = {0: None, 1: "alert"}.get(alerts.size, f"{alerts.size} alerts")
        heights = np.minimum(shown[alerts], most)
        self.alerts_ = draw_marks(ax, time[alerts], heights, VERMILION, zorder=4, label=text)
        ax.axhline(0.0, color=GREY, linewidth=1.0, zorder=1)
        low = max(np.nanmin(shown, initial=0.0), -most)
        high = min(np.nanmax(shown, initial=critical), most)
        pad = 0.06 * (high - low)
        ax.set_ylim(low - pad, high + pad)
        ax.set_ylabel("log10 of the evidence")
