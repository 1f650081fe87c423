"""Differences between outcomes and predictions in segments: a forest plot."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib import _validation
from sklearn_calib._docs import shared_docs
from sklearn_calib._html import pvalue_words
from sklearn_calib.inference import SegmentsResult, find_segments
from sklearn_calib.plot._estimator import check_result, estimator_predictions
from sklearn_calib.plot._matplotlib import BLUE, GREY, closes_figures, full_names, given_axes, new_axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D


# Most letters in a line of the name of a segment: the plot has half of the figure.
_LETTERS = 36


@shared_docs
class SegmentsDisplay:
    """Observed minus predicted event frequency in segments, with simultaneous intervals: a forest plot.

    Make one with :meth:`from_predictions`, :meth:`from_estimator` or :meth:`from_result`. Predictions are too
    low in segments at the right of the line at 0, and too high at the left; a segment is significant if its
    interval does not contain 0. The numbers of samples and adjusted p-values are at the right.

    Parameters
    ----------
    result : SegmentsResult
        The segments.

    Attributes
    ----------
    %(axes)s
    points_ : matplotlib Line2D
        The dots.
    intervals_ : matplotlib LineCollection
        The intervals.

    See Also
    --------
    sklearn_calib.inference.find_segments : The numbers behind the plot.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn_calib.plot import SegmentsDisplay
    >>> rng = np.random.default_rng(0)
    >>> age, p = rng.integers(18, 80, 2000), rng.uniform(0.1, 0.5, 2000)
    >>> y = rng.random(2000) < p + 0.2 * (age <= 30)
    >>> display = SegmentsDisplay.from_predictions({"age": age}, y, p)
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['age <= 31']
    >>> plt.close(display.figure_)
    """

    ax_: Axes
    figure_: Figure | SubFigure
    points_: Line2D
    intervals_: LineCollection

    def __init__(self, result: SegmentsResult) -> None:
        self.result = result

    @classmethod
    def from_result(cls, result: SegmentsResult, *, ax: Axes | None = None, **plot_params: Any) -> Self:
        """Draw what :func:`~sklearn_calib.inference.find_segments` returned.

        Parameters
        ----------
        result : SegmentsResult
            The result.
        %(passed_on)s

        %(display_returned)s
        """
        check_result(result, SegmentsResult, "Pass the result of find_segments().")
        return cls(result).plot(ax, **plot_params)

    @classmethod
    def from_predictions(
        cls,
        X: Any,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        ax: Axes | None = None,
        **params: Any,
    ) -> Self:
        """Find segments, and draw them.

        Parameters
        ----------
        X, y_true, y_proba
            As in :func:`~sklearn_calib.inference.find_segments`.
        ax : matplotlib Axes, default=None
            Axes for the plot; by default those of a new figure.
        **params : dict
            Passed to :func:`~sklearn_calib.inference.find_segments`.

        %(display_returned)s
        """
        return cls(find_segments(X, y_true, y_proba, **params)).plot(ax)

    @classmethod
    @_validation.own_predictions()
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, pos_label: Any = None, **params: Any
    ) -> Self:
        """Find segments in the features of a fitted classifier, and draw them.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``predict_proba`` and ``classes_``.
        %(held_out)s
        **params : dict
            Passed to :meth:`from_predictions`.

        %(display_returned)s
        """
        given = estimator_predictions(estimator, X, y, pos_label, True)
        return cls.from_predictions(X, y, given.pop("y_proba"), **given, **params)

    @closes_figures()
    def plot(self, ax: Axes | None = None, **marker_params: Any) -> Self:
        """Draw the segments in rows, the most significant one at the top.

        Parameters
        ----------
        %(drawn_into)s
        **marker_params : dict
            Properties of the dots, such as ``color`` or ``markersize``; the intervals have the same color.

        %(self_returned)s
        """
        rows, level = self.result.segments, f"{100 * self.result.confidence:.3g}%"
        names = [fill(plain(str(row)), _LETTERS) for row in rows]
        lines = max((name.count("\n") for name in names), default=0)
        height = 1.3 + (0.34 + 0.16 * lines) * max(len(rows), 1)
        (self.ax_,) = new_axes(8.0, height) if ax is None else given_axes(ax, (1,), "matplotlib Axes")
        self.figure_, place = self.ax_.figure, self.ax_.get_yaxis_transform()
        numbers = np.array([(row.difference, row.lower, row.upper) for row in rows]).reshape(-1, 3)
        middle, low, high = numbers.T
        dot: dict[str, Any] = {
            "color": BLUE,
            "marker": "o",
            "markersize": 7,
            "linestyle": "none",
            "zorder": 4,
        }
        (self.points_,) = self.ax_.plot(middle, np.arange(len(rows)), **dot | full_names(marker_params))
        color = self.points_.get_color()
        self.intervals_ = self.ax_.hlines(
            np.arange(len(rows)), low, high, color=color, linewidth=2.0, zorder=3
        )
        if rows:
            self.ax_.axvline(0.0, color=GREY, linewidth=1.0, zorder=1)
        self.ax_.set_yticks(np.arange(len(rows)), names)
        self.ax_.set_ylim(len(rows) - 0.5, -0.5 - (not rows))
        for k, row in enumerate(rows):
            words = f"  n = {row.n_samples:,.0f}, {pvalue_words(row.adjusted_pvalue)}"
            self.ax_.text(1.0, k, words, transform=place, va="center", fontsize="small")
        if not rows:
            # the axis has nothing to show
            self.ax_.set_xticks([])
            self.ax_.text(0.5, -1.0, "no segment found", transform=place, ha="center", va="center")
        self.ax_.set_xlabel(f"Observed minus predicted, {level} simultaneous interval")
        return self
