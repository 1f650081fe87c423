"""Cumulative residuals, whose range is the cutoff calibration error."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from sklearn_calib._core._bounds import whole_numbers
from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._null import tail_rank
from sklearn_calib._typing import Array
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
    full_names,
    legend_above,
    next_style,
    result_finding,
    shade,
    thinned,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    from matplotlib.text import Annotation


_WALK = "sklearn_calib.walk"
_STRIP = "sklearn_calib.strip"
# The bar that shows the error lies between the data and the right end of the axes.
_BAR, _RIGHT_END = 1.05, 1.13


def _is_strip(patch: Any) -> TypeGuard[Rectangle]:
    return bool(patch.get_gid() == _STRIP)


def _walk_test(
    result: CutoffResult, n_resamples: int, generator: np.random.Generator
) -> CalibrationTestResult:
    """Return the cutoff test for the data of a result."""
    weight, positives = result.weight, result.positives
    if whole_numbers(weight) and whole_numbers(positives):
        grouped = GroupedOutcomes(result.probabilities, weight, positives)
        test = CutoffTest(n_resamples=n_resamples, random_state=generator)
        return test._run(BinarySample(*grouped.rows()))
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
    """Return the null standard deviation of the endpoint of the cumulative residuals."""
    p = result.probabilities
    fraction = result.weight / result.weight.sum()
    return math.sqrt(float(fraction @ (p * (1.0 - p))) / result.n_samples)


def _strip_height(
    result: CutoffResult, test: CalibrationTestResult | None, confidence: float
) -> float | None:
    """Return the quantile of the range under perfect calibration, or None if it is unknown."""
    if test is None:
        return None
    if test.null_distribution is not None:
        values = np.sort(test.null_distribution)
        rank = min(tail_rank(values.shape[0], 1.0 - confidence), values.shape[0])
        if rank < 1:
            raise ValueError(
                f"confidence={confidence:g} needs more simulations than the {values.shape[0]} of the test. "
                f"Use n_resamples >= {least_resamples(1.0 - confidence)}, or show_strip=False."
            )
        return float(values[-rank]) * _deviation(result)
    if test.asymptotic_null != "brownian range":
        return None
    critical = brentq(lambda c: brownian_range_sf(c) - (1.0 - confidence), 0.1, 40.0, xtol=1e-10)
    return float(critical) * _deviation(result)


def _drawn_path(result: CutoffResult, x: str) -> tuple[Array, Array, tuple[float, float]]:
    """Return the points of the path to draw, and the ends of the interval that attains the error."""
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
    """Describe the interval that attains the error, and the mean error of the predictions in it."""
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
    r"""Cumulative residuals, with the interval of predictions that attains the cutoff calibration error.

    Make one with :meth:`from_predictions`, :meth:`from_estimator` or :meth:`from_result`. Residuals y - p are
    summed in the order of the predictions. The curve falls where the model overpredicts, rises where it
    underpredicts, and is level where it is calibrated. The error is the distance between its highest and its
    lowest level, both dotted; the interval between them is shaded and described in the legend. The hatched
    strip is the null band: under perfect calibration the curve stays within a strip of this height with
    probability ``confidence``.

    Parameters
    ----------
    result : CutoffResult
        The cumulative residuals.
    test : CalibrationTestResult, default=None
        Result of :class:`~sklearn_calib.inference.CutoffTest` for the same data; None for neither strip nor
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
        The test that gives strip and p-value.
    %(axes)s
    line_ : matplotlib Line2D
        The cumulative residuals, from 0.
    interval_ : matplotlib Rectangle or None
        The interval that attains the error.
    levels_ : matplotlib LineCollection or None
        The two levels whose distance is the error.
    bar_ : matplotlib Annotation or None
        The double arrow between them.
    strip_ : matplotlib Rectangle or None
        The null band.

    See Also
    --------
    sklearn_calib.metrics.cutoff_result : The numbers behind the plot.
    DecisionDisplay : The cost of miscalibration at each decision threshold.

    Notes
    -----
    At prediction t the curve is the sum of w_i (y_i - p_i) over all samples with p_i <= t, divided by the
    total weight: the cumulative differences of [2]_. Its range is the cutoff calibration error of [1]_. With
    ``x="fraction"``, its slope is the mean residual.

    The strip is not centred at 0, because the error is a range: it is placed to contain as much of the curve
    as possible, and always its start at 0. The curve leaves it if and only if the test rejects at level
    1 - ``confidence``. Its height is the critical value of the range: by Monte Carlo simulation if the test
    has simulated, exact for any sample size, else c sqrt(sum p (1 - p)) / n with the quantile c of the range
    of Brownian motion (2.497 at 95%). An envelope around 0 would not be a valid test: it can contain a curve
    whose range is significant.

    Integer weights are repetitions. The test does not support other weights; for them the asymptotic
    distribution is used with Kish's effective sample size, (sum w)^2 / sum w^2, instead of n.

    A path of more than 4000 points is drawn through the ends and extremes of 1000 columns, which keeps all
    extremes; the cost is that of a sort and of the test.

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

    line_: Line2D
    interval_: Rectangle | None
    levels_: LineCollection | None
    bar_: Annotation | None
    strip_: Rectangle | None

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
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw a result of :func:`~sklearn_calib.metrics.cutoff_result`.

        Parameters
        ----------
        result : CutoffResult
            What is shown.
        n_resamples : int, default=999
            Number of simulations of the test, for effective sample sizes below 2000; above, the asymptotic
            distribution is used.
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
            If ``result`` is not a CutoffResult, or a parameter is of the wrong type.
        ValueError
            If a parameter is out of range.
        %(no_matplotlib)s
        """
        check_result(result, CutoffResult, "Pass the result of cutoff_result().")
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
        clusters: ArrayLike | None = None,
        n_resamples: int = 999,
        random_state: int | np.random.Generator | np.random.RandomState | None = 0,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the cumulative residuals of predictions.

        Parameters
        ----------
        %(binary_sample)s
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights.
        %(pos_label)s
        clusters : array-like of shape (n,), default=None
            Label of the cluster (patient, customer, day) of each sample, within which outcomes can depend on
            each other; the test and the null band then allow for it. Weights must be integers.
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
        if clusters is not None:
            test = CutoffTest(n_resamples=n_resamples, random_state=random_state).test(
                y_true, y_proba, sample_weight=sample_weight, pos_label=pos_label, clusters=clusters
            )
            label = shown_label(y_true, pos_label)
            return cls(result, test=test, name=name, pos_label=label).plot(ax, **plot_params)
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
        ax: Axes | None = None,
        *,
        x: Literal["probability", "fraction"] = "probability",
        confidence: float = 0.95,
        name: str | None = None,
        show_interval: bool = True,
        show_strip: bool = True,
        show_legend: bool = True,
        **line_params: Any,
    ) -> Self:
        """Draw the cumulative residuals.

        Several displays can share axes; enable ``show_interval`` and ``show_strip`` for one of them.

        Parameters
        ----------
        %(drawn_into)s
        x : {"probability", "fraction"}, default="probability"
            Horizontal axis: the prediction, or the fraction of samples with a smaller prediction, which
            spreads concentrated predictions.
        confidence : float, default=0.95
            Probability under perfect calibration that the curve stays in a strip of this height.
        name : str, default=None
            Name in the legend; the display's own by default.
        show_interval : bool, default=True
            Whether to shade the interval that attains the error, and to mark its two levels.
        show_strip : bool, default=True
            Whether to draw the null band.
        show_legend : bool, default=True
            Whether to draw the legend.
        **line_params : dict
            Properties of the curve, such as ``color`` or ``linewidth``; the interval has the same colour.

        Returns
        -------
        CutoffDisplay
            The display itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, or the test has too few simulations for ``confidence``.
        TypeError
            If a parameter is of the wrong type.
        %(no_matplotlib)s
        """
        check_option(x, "x", ("probability", "fraction"))
        # so that its complement is less than 1
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
            text += f", {result_finding(self.test, 1.0 - confidence)}"
        return self._named(text, name)

    def _draw_interval(self, ax: Axes, ends: tuple[float, float], walk: Array, confidence: float) -> None:
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

    def _draw_strip(self, ax: Axes, walk: Array, height: float, confidence: float) -> None:
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
            label=f"{100 * confidence:g}% null band",
        )

    def _finish(self, ax: Axes, x: str, show_legend: bool) -> None:
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
