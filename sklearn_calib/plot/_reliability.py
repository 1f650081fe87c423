"""The reliability diagram."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation import (
    check_binary,
    check_fraction,
    check_integer,
    check_option,
    check_positive,
)
from sklearn_calib.metrics import expected_calibration_error, smooth_ece
from sklearn_calib.plot._curve import ReliabilityCurve, binned_curve, smooth_curve, with_error_interval
from sklearn_calib.plot._estimator import positive_column, predicted_probabilities
from sklearn_calib.plot._matplotlib import GREY, new_axes, next_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

__all__ = ["ReliabilityDisplay"]

_CURVE = "sklearn_calib.reliability"
_DIAGONAL = "sklearn_calib.diagonal"
_STRIP = "sklearn_calib.density"
# The strip with the histogram of the predictions lies below the diagram, between these heights.
_STRIP_FLOOR, _STRIP_TOP = -0.17, -0.03


class ReliabilityDisplay:
    """Reliability diagram: observed event frequency against predicted probability.

    Make one with :meth:`from_predictions` or :meth:`from_estimator`. A curve on the diagonal is perfect;
    above it events are more frequent than predicted, below it less. The band says how far chance alone may
    have moved the curve, the strip below where the predictions lie, and the legend the calibration error.

    Parameters
    ----------
    curve : ReliabilityCurve
        What to show.
    name : str, default=None
        Name of the model in the legend.
    pos_label : label, default=None
        The positive class, named on the axes if given.

    Attributes
    ----------
    curve : ReliabilityCurve
        What is shown.
    ax_ : matplotlib Axes
        Axes with the diagram, after :meth:`plot`.
    figure_ : matplotlib Figure
        Figure containing it.
    line_ : matplotlib Line2D
        The curve.
    band_ : matplotlib Collection or None
        Confidence band of the curve.
    density_ : matplotlib Collection or None
        Strip with a histogram of the predictions.
    diagonal_ : matplotlib Line2D or None
        Line of perfect calibration; None if it was not asked for or the axes had one.

    See Also
    --------
    sklearn_calib.metrics.smooth_ece_result : The numbers behind the smooth curve.

    Notes
    -----
    The smooth curve is the kernel regression of the outcome on the prediction with a Gaussian reflected at 0
    and 1 ([1]_, eq. 1). The authors take smooth ECE itself as its bandwidth, ``bandwidth="smooth_ece"``. The
    area between curve and diagonal, weighted by the density of the predictions, then differs from the error
    by up to 0.8 times the bandwidth (Lemma 10): a badly calibrated model looks better than it is. Therefore
    "auto" goes no further than Silverman's rule for the predictions, 1.06 sd(p) n^(-1/5) [2]_. The number in
    the legend is always smooth ECE.

    The curve is drawn within the range of the predictions, where at least five of them, counted by nearness
    exp(-d^2 / 2s^2), support it. The band is pointwise: Wilson's score interval [3]_ of the observed
    frequency, with the effective size (sum w K)^2 / sum w^2 K^2 of the kernel's window as the number of
    trials. It is meant for the smoothed frequency; where the true one bends within a bandwidth, the two
    differ. Whole numbers as weights are repetitions; other weights are taken as sampling weights (Kish's
    effective size).

    References
    ----------
    .. [1] J. Blasiok and P. Nakkiran (2024). Smooth ECE: Principled Reliability Diagrams via Kernel
       Smoothing. ICLR. arXiv:2309.12236
    .. [2] B. W. Silverman (1986). Density Estimation for Statistics and Data Analysis. Chapman and Hall.
    .. [3] E. B. Wilson (1927). Probable inference, the law of succession, and statistical inference. JASA 22.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn_calib.plot import ReliabilityDisplay
    >>> y_true, y_proba = [0, 1, 0, 1, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]
    >>> display = ReliabilityDisplay.from_predictions(y_true, y_proba, name="forecast")
    >>> print(display.line_.get_label())
    forecast: smECE = 0.140
    >>> plt.close(display.figure_)
    """

    ax_: "Axes"
    figure_: "Figure | SubFigure"
    line_: "Line2D"
    band_: "Collection | None"
    density_: "Collection | None"
    diagonal_: "Line2D | None"

    def __init__(self, curve: ReliabilityCurve, *, name: str | None = None, pos_label: Any = None) -> None:
        self.curve = curve
        self.name = name
        self.pos_label = pos_label

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        method: Literal["smooth", "binned"] = "smooth",
        bandwidth: float | Literal["auto", "smooth_ece"] = "auto",
        n_bins: int = 15,
        strategy: Literal["uniform", "quantile"] = "uniform",
        confidence: float = 0.95,
        error_interval: bool = False,
        name: str | None = None,
        ax: "Axes | None" = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the reliability diagram of predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels of two classes.
        y_proba : array-like of shape (n,), (n, 1) or (n, 2)
            Predicted probabilities of the positive class in [0, 1]; of two columns the last is used.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights.
        pos_label : label, default=None
            The positive class. By default 1 for labels in {0, 1} or {-1, 1}, else the greater of the two
            labels.
        method : {"smooth", "binned"}, default="smooth"
            Kernel regression, or frequencies in bins.
        bandwidth : float or {"auto", "smooth_ece"}, default="auto"
            Bandwidth of ``method="smooth"``: that of smooth ECE, or with "auto" Silverman's rule if that is
            smaller.
        n_bins : int, default=15
            Number of bins of ``method="binned"``.
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width or of equal mass.
        confidence : float, default=0.95
            Pointwise confidence of the band, and of the interval of the error.
        error_interval : bool, default=False
            Whether to add to the number in the legend its interval by
            :func:`~sklearn_calib.inference.confidence_interval` (``random_state=0``). Costs some two thousand
            evaluations of the error; weights must then be whole numbers.
        name : str, default=None
            Name of the model in the legend.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        ReliabilityDisplay

        Raises
        ------
        ValueError
            If an argument is malformed; the message names it.
        ImportError
            If matplotlib is not installed.
        """
        check_option(method, "method", ("smooth", "binned"))
        check_option(strategy, "strategy", ("uniform", "quantile"))
        check_integer(n_bins, "n_bins")
        check_fraction(confidence, "confidence")
        if isinstance(bandwidth, str):
            check_option(bandwidth, "bandwidth", ("auto", "smooth_ece"))
        else:
            check_positive(bandwidth, "bandwidth")
        sample = check_binary(y_true, y_proba, sample_weight, pos_label)
        metric: Callable[..., float] = smooth_ece
        if method == "smooth":
            curve = smooth_curve(sample, bandwidth, confidence)
        else:
            curve = binned_curve(sample, n_bins, strategy, confidence)
            metric = partial(expected_calibration_error, n_bins=n_bins, strategy=strategy)
        if error_interval:
            curve = with_error_interval(curve, metric, sample)
        return cls(curve, name=name, pos_label=pos_label).plot(ax, **plot_params)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        pos_label: Any = None,
        name: str | None = None,
        **params: Any,
    ) -> Self:
        """Draw the reliability diagram of a fitted classifier on data.

        Parameters
        ----------
        estimator : object
            Fitted binary classifier with ``predict_proba`` and ``classes_``.
        X : array-like of shape (n, n_features)
            Data on which it predicts; not those it was trained on.
        y : array-like of shape (n,)
            Their labels.
        pos_label : label, default=None
            The positive class; ``classes_[1]`` by default.
        name : str, default=None
            Name in the legend; the class of the estimator by default.
        **params : dict
            Passed to :meth:`from_predictions`, among them ``sample_weight``, ``method`` and ``ax``.

        Returns
        -------
        ReliabilityDisplay

        Raises
        ------
        TypeError
            If the estimator does not predict probabilities.
        ValueError
            If it does not have two classes, or another argument is malformed.
        """
        proba, classes = predicted_probabilities(estimator, X)
        if len(classes) != 2:
            raise ValueError(
                f"estimator must have two classes, got {len(classes)}. Pass the probabilities of one class "
                "against the rest to from_predictions."
            )
        y_proba, pos_label = positive_column(proba, classes, pos_label)
        shown = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, y_proba, pos_label=pos_label, name=shown, **params)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        name: str | None = None,
        show_band: bool = True,
        show_density: bool = True,
        show_diagonal: bool = True,
        show_legend: bool = True,
        **line_params: Any,
    ) -> Self:
        """Draw the diagram.

        Several displays can share axes: each further one takes the next colour and dashes.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default. Its size and the style in force are left alone.
        name : str, default=None
            Name in the legend; the display's own by default.
        show_band : bool, default=True
            Whether to draw the confidence band.
        show_density : bool, default=True
            Whether to draw a histogram of the predictions, in a strip below zero.
        show_diagonal : bool, default=True
            Whether to draw the line of perfect calibration (once on the same axes).
        show_legend : bool, default=True
            Whether to draw the legend.
        **line_params : dict
            Properties of the curve, such as ``color`` or ``linewidth``; colour is shared by band and strip.

        Returns
        -------
        ReliabilityDisplay
            The display itself.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        ax = new_axes() if ax is None else ax
        curve = self.curve
        color, dashes = next_style(ax, _CURVE)
        line: dict[str, Any] = {"color": color, "linestyle": dashes, "linewidth": 2.2, "zorder": 4}
        if curve.method == "binned":
            line |= {"linewidth": 1.2, "marker": "o", "markersize": 5}
        line |= {"label": self._label(name)} | line_params
        self.diagonal_ = _draw_diagonal(ax) if show_diagonal else None
        (self.line_,) = ax.plot(curve.predicted, curve.observed, gid=_CURVE, **line)
        used = self.line_.get_color()
        self.band_ = self._draw_band(ax, used) if show_band else None
        self.density_ = self._draw_density(ax, used) if show_density else None
        self._finish(ax, show_legend)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _label(self, name: str | None) -> str:
        shown = self.name if name is None else name
        number = self.curve.label()
        return number if shown is None else f"{shown}: {number}"

    def _draw_band(self, ax: "Axes", color: Any) -> "Collection":
        curve = self.curve
        if curve.method == "binned":
            return ax.vlines(curve.predicted, curve.lower, curve.upper, color=color, linewidth=1.4, zorder=3)
        return ax.fill_between(
            curve.predicted, curve.lower, curve.upper, color=color, alpha=0.2, linewidth=0, zorder=2
        )

    def _draw_density(self, ax: "Axes", color: Any) -> "Collection":
        curve = self.curve
        x = np.repeat(curve.edges, 2)[1:-1]
        height = np.repeat(curve.density / curve.density.max(), 2)
        top = _STRIP_FLOOR + (_STRIP_TOP - _STRIP_FLOOR) * height
        return ax.fill_between(
            x, _STRIP_FLOOR, top, color=color, alpha=0.45, linewidth=0, zorder=2, gid=_STRIP
        )

    def _finish(self, ax: "Axes", show_legend: bool) -> None:
        event = "" if self.pos_label is None else f" of {self.pos_label!r}"
        ax.set_xlabel(f"Predicted probability{event}")
        ax.set_ylabel(f"Observed frequency{event}")
        ax.set_xlim(-0.02, 1.02)
        has_strip = any(artist.get_gid() == _STRIP for artist in ax.collections)
        ax.set_ylim(_STRIP_FLOOR if has_strip else -0.02, 1.02)
        if show_legend:
            ax.legend(loc="upper left")


def _draw_diagonal(ax: "Axes") -> "Line2D | None":
    if any(artist.get_gid() == _DIAGONAL for artist in ax.lines):
        return None
    (line,) = ax.plot(
        [0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1.5, label="perfect", gid=_DIAGONAL, zorder=1
    )
    return line
