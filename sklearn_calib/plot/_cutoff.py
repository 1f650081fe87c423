"""The cumulative residual walk, whose range is the cutoff calibration error."""

import math
from typing import TYPE_CHECKING, Any, Literal, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from sklearn_calib._core._bounds import whole_numbers
from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._null import tail_rank
from sklearn_calib._validation import (
    BinarySample,
    Outcomes,
    check_fraction,
    check_generator,
    check_option,
    check_size,
    least_resamples,
    shown_label,
)
from sklearn_calib.inference import CalibrationTestResult, CutoffTest
from sklearn_calib.inference._tails import brownian_range_sf
from sklearn_calib.metrics import CutoffResult, cutoff_result
from sklearn_calib.plot._estimator import DisplayMixin, axis_title, check_result
from sklearn_calib.plot._matplotlib import (
    GREY,
    PALE,
    check_flags,
    finding,
    full_names,
    legend_above,
    next_style,
    shade,
    thinned,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    from matplotlib.text import Annotation

__all__ = ["CutoffDisplay"]

Array = NDArray[np.float64]

_WALK = "sklearn_calib.walk"
_STRIP = "sklearn_calib.strip"
# The bar that measures the error stands between the data and the right end of the axes.
_BAR, _RIGHT_END = 1.05, 1.13


def _is_strip(patch: Any) -> TypeGuard["Rectangle"]:
    return bool(patch.get_gid() == _STRIP)


def _walk_test(
    result: CutoffResult, n_resamples: int, generator: np.random.Generator
) -> CalibrationTestResult:
    """Return the cutoff test of the data behind a result."""
    weight, positives = result.weight, result.positives
    if whole_numbers(weight) and whole_numbers(positives):
        grouped = GroupedOutcomes(result.probabilities, weight, positives)
        test = CutoffTest(n_resamples=n_resamples, random_state=generator)
        return test._test_binary(BinarySample(*grouped.rows()))
    deviation = _deviation(result)
    statistic = result.value / deviation if deviation > 0 else 0.0
    return CalibrationTestResult(
        test="cutoff test",
        null_hypothesis="P(Y = 1 | p) = p",
        statistic=statistic,
        pvalue=brownian_range_sf(statistic),
        estimate=result.value,
        method="asymptotic, effective sample size",
        n_samples=round(result.n_samples),
        asymptotic_null="brownian range" if deviation > 0 else "",
    )


def _deviation(result: CutoffResult) -> float:
    """Return the null standard deviation of the end of the walk."""
    p = result.probabilities
    fraction = result.weight / result.weight.sum()
    return math.sqrt(float(fraction @ (p * (1.0 - p))) / result.n_samples)


def _strip_height(
    result: CutoffResult, test: CalibrationTestResult | None, confidence: float
) -> float | None:
    """Return the range that calibrated walks keep with the given probability, or None if it is not known."""
    if test is None:
        return None
    if test.null_distribution is not None:
        draws = np.sort(test.null_distribution)
        rank = min(tail_rank(draws.shape[0], 1.0 - confidence), draws.shape[0])
        if rank < 1:
            raise ValueError(
                f"confidence={confidence:g} needs more simulations than the {draws.shape[0]} of the test. "
                f"Use n_resamples >= {least_resamples(1.0 - confidence)}, or show_strip=False."
            )
        return float(draws[-rank]) * _deviation(result)
    if test.asymptotic_null != "brownian range":
        return None
    critical = brentq(lambda c: brownian_range_sf(c) - (1.0 - confidence), 0.1, 40.0, xtol=1e-10)
    return float(critical) * _deviation(result)


def _drawn_path(result: CutoffResult, x: str) -> tuple[Array, Array, tuple[float, float]]:
    """Return the points of the path that are drawn, and the ends of the interval that attains the error."""
    walk = np.concatenate(([0.0], result.walk))
    if x == "probability":
        at = np.concatenate(([0.0], result.probabilities))
        ends = (result.lower, result.upper)
    else:
        at = np.concatenate(([0.0], np.cumsum(result.weight)))
        at /= at[-1]
        first = int(np.searchsorted(result.probabilities, result.lower))
        ends = (float(at[first]), float(at[int(np.searchsorted(result.probabilities, result.upper)) + 1]))
    kept = thinned(at, walk)
    at, walk = at[kept], walk[kept]
    if x == "probability" and at[-1] < 1.0:
        at, walk = np.append(at, 1.0), np.append(walk, walk[-1])
    return at, walk, ends


def _interval_in_words(result: CutoffResult) -> str:
    """Return the interval that attains the error, and how far predictions are off there on average."""
    inside = (result.probabilities >= result.lower) & (result.probabilities <= result.upper)
    points = 100.0 * result.value * float(result.weight.sum() / result.weight[inside].sum())
    width = result.upper - result.lower
    digits = 2 if width >= 0.02 else 1 - math.floor(math.log10(width or 0.01))
    where = f"{result.lower:.{digits}f}\u2013{result.upper:.{digits}f}"
    if width == 0:
        where = f"at {result.lower:.3g}"
    shown = f"{points:.0f}" if points >= 9.5 else f"{points:.2g}"
    verb = "underpredicts" if result.signed > 0 else "overpredicts"
    return f"worst {where}: {verb} by {shown} percentage point{'' if shown == '1' else 's'}"


class CutoffDisplay(DisplayMixin):
    r"""Cumulative residual walk, with the interval of predictions that attains the cutoff calibration error.

    Make one with :meth:`from_predictions`, :meth:`from_estimator` or :meth:`from_result`. Residuals y - p are
    added up in the order of the predictions: where the walk falls predictions are too high, where it rises
    they are too low, and where it is level they are right. The error is the distance between its highest and
    its lowest level, both dotted; the interval between them is shaded and put in words in the legend. The
    hatched strip is the null band: the walk of a calibrated model stays within a strip of this
    height with probability ``confidence``.

    Parameters
    ----------
    result : CutoffResult
        The walk.
    test : CalibrationTestResult, default=None
        What :class:`~sklearn_calib.inference.CutoffTest` says of the same data; None for neither strip nor
        p-value.
    name : str, default=None
        Name of the model in the legend.
    pos_label : label, default=None
        The positive class, named on the axis if given.

    Attributes
    ----------
    result : CutoffResult
        What is shown.
    test : CalibrationTestResult or None
        The test behind strip and p-value.
    %(axes)s
    line_ : matplotlib Line2D
        The walk, from 0.
    interval_ : matplotlib Rectangle or None
        The interval that attains the error.
    levels_ : matplotlib LineCollection or None
        The two levels whose distance is the error.
    bar_ : matplotlib Annotation or None
        The double arrow between them.
    strip_ : matplotlib Rectangle or None
        The strip in which a calibrated walk stays.

    See Also
    --------
    sklearn_calib.metrics.cutoff_result : The numbers behind the picture.
    DecisionDisplay : What the error costs at each decision threshold.

    Notes
    -----
    At prediction t the walk is the sum of w_i (y_i - p_i) over all samples with p_i <= t, divided by the
    total weight: the cumulative differences of [2]_. Its range is the cutoff calibration error of [1]_. Over
    fractions of the samples, ``x="fraction"``, its slope is the mean residual there.

    The strip does not surround 0, because the error is a range: at each sample it is moved to hold as much of
    the walk as it can, and the start at 0 always. So the walk leaves it if and only if the test rejects at
    level 1 - ``confidence``. Its height is the critical value of the range: by redrawn outcomes where the
    test has redrawn them, exact for any sample, else c sqrt(sum p (1 - p)) / n with the quantile c of the
    range of Brownian motion (2.497 at 95%). An envelope about 0 would not do: it can hold a walk whose range
    is far too large.

    Weights that are whole numbers are repetitions. The test does not take others; for them the limit
    distribution is used with Kish's effective sample size, (sum w)^2 / sum w^2, in the place of n.

    A path of more than 4000 points is drawn through the ends and extremes of 1000 columns, so that no extreme
    is lost; the cost is that of a sort and of the test.

    References
    ----------
    .. [1] R. Rossellini, J. A. Soloff, R. F. Barber, Z. Ren and R. Willett (2025). Can a calibration metric
       be both testable and actionable? COLT. arXiv:2502.19851
    .. [2] I. Arrieta-Ibarra, P. Gujral, J. Tannen, M. Tygert and C. Xu (2022). Metrics of Calibration for
       Probabilistic Predictions. JMLR. arXiv:2205.09680

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn_calib.plot import CutoffDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=1000)
    >>> y = rng.uniform(size=1000) < p**2
    >>> display = CutoffDisplay.from_predictions(y, p, name="forecast")
    >>> print(display.line_.get_label())
    forecast: cutoff error 0.153, miscalibrated (p = 0.001)
    >>> print(display.interval_.get_label())
    worst 0.00–0.91: overpredicts by 17 percentage points
    >>> plt.close(display.figure_)
    """

    line_: "Line2D"
    interval_: "Rectangle | None"
    levels_: "LineCollection | None"
    bar_: "Annotation | None"
    strip_: "Rectangle | None"

    def __init__(
        self,
        result: CutoffResult,
        *,
        test: CalibrationTestResult | None = None,
        name: str | None = None,
        pos_label: Any = None,
    ) -> None:
        self.result = result
        self.test = test
        self.name = name
        self.pos_label = pos_label

    @classmethod
    def from_result(
        cls,
        result: CutoffResult,
        *,
        n_resamples: int = 999,
        random_state: int | np.random.Generator | np.random.RandomState | None = 0,
        name: str | None = None,
        pos_label: Any = None,
        ax: "Axes | None" = None,
        **plot_params: Any,
    ) -> Self:
        """Draw a result of :func:`~sklearn_calib.metrics.cutoff_result`.

        Parameters
        ----------
        result : CutoffResult
            What is shown.
        n_resamples : int, default=999
            Redrawn samples of the test, for effective sizes below 2000; above, the limit distribution is
            used.
        %(seeded_picture)s
        name : str, default=None
            Name of the model in the legend.
        pos_label : label, default=None
            The positive class, named on the axis if given.
        %(passed_on)s

        Returns
        -------
        CutoffDisplay

        Raises
        ------
        TypeError
            If ``result`` is no CutoffResult, or a parameter is of the wrong type.
        ValueError
            If a parameter is out of range.
        %(no_matplotlib)s
        """
        check_result(result, CutoffResult, "Pass what cutoff_result() returns.")
        check_size(n_resamples, "n_resamples")
        generator = check_generator(random_state)
        test = _walk_test(result, n_resamples, generator)
        return cls(result, test=test, name=name, pos_label=pos_label).plot(ax, **plot_params)

    @classmethod
    def from_predictions(
        cls,
        y_true: Outcomes,
        y_proba: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        n_resamples: int = 999,
        random_state: int | np.random.Generator | np.random.RandomState | None = 0,
        name: str | None = None,
        ax: "Axes | None" = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the walk of predictions.

        Parameters
        ----------
        %(binary_sample)s
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights.
        %(pos_label)s
        n_resamples, random_state, name, ax, **plot_params
            As in :meth:`from_result`.

        Returns
        -------
        CutoffDisplay

        Raises
        ------
        %(malformed)s
        TypeError
            If a parameter is of the wrong type.
        %(no_matplotlib)s
        """
        result = cutoff_result(y_true, y_proba, sample_weight=sample_weight, pos_label=pos_label)
        return cls.from_result(
            result,
            n_resamples=n_resamples,
            random_state=random_state,
            name=name,
            pos_label=shown_label(y_true, pos_label),
            ax=ax,
            **plot_params,
        )

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        x: Literal["probability", "fraction", "share"] = "probability",
        confidence: float = 0.95,
        name: str | None = None,
        show_interval: bool = True,
        show_strip: bool = True,
        show_legend: bool = True,
        **line_params: Any,
    ) -> Self:
        """Draw the walk.

        Several displays can share axes; then ``show_interval`` and ``show_strip`` are best left to one.

        Parameters
        ----------
        %(drawn_into)s
        x : {"probability", "fraction"}, default="probability"
            What the horizontal axis measures: the prediction, or the fraction of samples with a smaller one,
            which spreads predictions that are crowded.
        confidence : float, default=0.95
            Probability that the walk of a calibrated model stays in a strip as high as the one drawn.
        name : str, default=None
            Name in the legend; the display's own by default.
        show_interval : bool, default=True
            Whether to shade the interval that attains the error, and to mark its two levels.
        show_strip : bool, default=True
            Whether to draw the strip in which a calibrated walk stays.
        show_legend : bool, default=True
            Whether to draw the legend.
        **line_params : dict
            Properties of the walk, such as ``color`` or ``linewidth``; the interval shares its colour.

        Returns
        -------
        CutoffDisplay
            The display itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, or the test has drawn too few samples for ``confidence``.
        TypeError
            If a parameter is of the wrong type.
        %(no_matplotlib)s
        """
        check_option(x, "x", ("probability", "fraction", "share"))
        x = "fraction" if x == "share" else x
        # so that its complement is less than 1 too
        confidence = max(check_fraction(confidence, "confidence"), 2.0**-53)
        check_flags(show_interval=show_interval, show_strip=show_strip, show_legend=show_legend)
        height = _strip_height(self.result, self.test, confidence) if show_strip else None
        ax = self._new_or(ax, 6.4, 4.4)
        at, walk, ends = _drawn_path(self.result, x)
        color, dashes = next_style(ax, _WALK)
        line: dict[str, Any] = {"color": color, "linestyle": dashes, "linewidth": 1.8, "zorder": 4}
        line |= {"label": self._label(name, confidence)} | full_names(line_params)
        style = "steps-post" if x == "probability" else "default"
        (self.line_,) = ax.plot(at, walk, gid=_WALK, drawstyle=style, **line)
        self.interval_, self.levels_, self.bar_, self.strip_ = None, None, None, None
        if show_interval and self.result.value > 0:
            self._draw_interval(ax, ends, walk, confidence)
        if height is not None:
            self._draw_strip(ax, walk, height, confidence)
        self._finish(ax, x, show_legend)
        return self

    def _label(self, name: str | None, confidence: float) -> str:
        text = f"cutoff error {self.result.value:.3f}"
        if self.test is not None:
            text += f", {finding(self.test.pvalue, 1.0 - confidence)}"
        return self._named(text, name)

    def _draw_interval(self, ax: "Axes", ends: tuple[float, float], walk: Array, confidence: float) -> None:
        color = self.line_.get_color()
        self.interval_ = shade(
            ax,
            ends,
            "x",
            color=color,
            alpha=0.15,
            # a single value has no width
            linewidth=0.0 if ends[0] < ends[1] else 2.0,
            zorder=1,
            label=_interval_in_words(self.result),
        )
        levels = [float(walk.min()), float(walk.max())]
        self.levels_ = ax.hlines(
            levels, 0.0, _BAR + 0.015, color=color, linestyle=":", linewidth=1.2, zorder=3
        )
        self.bar_ = ax.annotate(
            "",
            (_BAR, levels[1]),
            (_BAR, levels[0]),
            arrowprops={"arrowstyle": "<->", "color": color, "shrinkA": 0, "shrinkB": 0, "linewidth": 1.2},
        )
        ax.annotate(
            f"error {self.result.value:.3f}",
            (_BAR, sum(levels) / 2),
            (4, 0),
            textcoords="offset points",
            rotation=90,
            va="center",
            ha="left",
            color=color,
        )

    def _draw_strip(self, ax: "Axes", walk: Array, height: float, confidence: float) -> None:
        middle = (float(walk.min()) + float(walk.max())) / 2.0
        bottom = float(np.clip(middle - height / 2.0, -height, 0.0))
        self.strip_ = shade(
            ax,
            (bottom, bottom + height),
            "y",
            facecolor="none",
            edgecolor=PALE,
            hatch="////",
            linewidth=0,
            zorder=0.5,
            gid=_STRIP,
            label=f"{100 * confidence:g}% null band (stays inside if calibrated)",
        )

    def _finish(self, ax: "Axes", x: str, show_legend: bool) -> None:
        label = axis_title("Predicted probability", self.pos_label)
        if x == "fraction":
            label = "Fraction of samples, ordered by predicted probability"
        ax.set_xlabel(label)
        ax.set_ylabel("Cumulative residuals y \u2212 p\n(falling: overprediction, rising: underprediction)")
        ax.axhline(0.0, color=GREY, linewidth=0.8, zorder=2)
        marked = any(line.get_gid() == _WALK for line in ax.lines) and len(ax.texts) > 0
        ax.set_xlim(-0.02, _RIGHT_END if marked else 1.02)
        heights = [line.get_ydata() for line in ax.lines if line.get_gid() == _WALK]
        # of a rectangle whose height is in units of the data
        heights += [patch.get_bbox().intervaly for patch in ax.patches if _is_strip(patch)]
        values = np.concatenate([np.asarray(part, dtype=np.float64) for part in heights])
        low, high = float(values.min()), float(values.max())
        pad = 0.05 * (high - low) or 0.01
        ax.set_ylim(low - pad, high + pad)
        if show_legend:
            legend_above(ax)
