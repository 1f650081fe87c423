"""Cumulative residuals, whose range is the cutoff calibration error."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from sklearn_calib import _validation
from sklearn_calib._core._null import tail_rank
from sklearn_calib._html import number_text
from sklearn_calib._typing import Array, Weights
from sklearn_calib.inference import CalibrationTestResult, CutoffTest
from sklearn_calib.inference._testing._tails import brownian_range_sf
from sklearn_calib.metrics import CutoffResult, cutoff_result
from sklearn_calib.plot._estimator import DisplayMixin, axis_title
from sklearn_calib.plot._matplotlib import (
    GREY,
    PALE,
    curves_of,
    draw_curve,
    legend_below,
    result_finding,
    set_range,
    shade,
    thinned,
)
from sklearn_calib.plot._smooth_curve import beyond, hidden_note, shown_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle


_WALK = "sklearn_calib.walk"
# Height of the bar of the interval, as a fraction of the axes.
_BAR = 0.02


def _strip_height(test: CalibrationTestResult, confidence: float) -> float | None:
    """Return the quantile of the range under perfect calibration, or None if it is unknown."""
    # the test of weights by class is that of other cumulative residuals, of corrected predictions
    if test.weights == "case-control" or not 0.0 < test.statistic < math.inf:
        return None
    # the statistic is the range in units of the null standard deviation of its end
    unit = test.estimate / test.statistic
    if test.null_distribution is not None:
        values = np.sort(test.null_distribution)
        rank = min(tail_rank(values.shape[0], 1.0 - confidence), values.shape[0])
        if rank < 1:
            raise ValueError(
                f"confidence={confidence:g} needs more simulations than the {values.shape[0]} of the test. "
                f"Use n_resamples >= {_validation.least_resamples(1.0 - confidence)}, or confidence=None."
            )
        return float(values[-rank]) * unit
    if test.asymptotic_null != "brownian range":
        return None
    critical = brentq(lambda c: brownian_range_sf(c) - (1.0 - confidence), 0.1, 40.0, xtol=1e-10)
    return float(critical) * unit


def _drawn_path(
    result: CutoffResult, x: str, shown: tuple[float, float]
) -> tuple[Array, Array, tuple[float, float]]:
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
    kept = thinned(np.clip((at - shown[0]) / (shown[1] - shown[0]), 0.0, 1.0), walk)
    at, walk = at[kept], walk[kept]
    if x == "probability" and at[-1] < 1.0:
        at, walk = np.append(at, 1.0), np.append(walk, walk[-1])
    return at, walk, ends


def _interval_in_words(result: CutoffResult) -> str:
    """Describe the interval that attains the error, and the mean error of the predictions in it."""
    inside = (result.probabilities >= result.lower) & (result.probabilities <= result.upper)
    points = 100.0 * result.value * float(result.weight.sum() / result.weight[inside].sum())
    shown = f"{points:.0f}" if points >= 9.5 else f"{points:.2g}"
    verb = "underpredicts" if result.signed > 0 else "overpredicts"
    form = ".2f" if result.upper - result.lower >= 0.02 else ".3g"
    where = "\u2013".join(dict.fromkeys(f"{end:{form}}" for end in (result.lower, result.upper)))
    return f"worst {where}: {verb} by {shown} percentage point{'' if shown == '1' else 's'}"


class CutoffDisplay(DisplayMixin):
    r"""Cumulative residuals, with the interval of predictions that attains the cutoff calibration error.

    Make one with :meth:`from_predictions` or :meth:`from_estimator`. Residuals y - p are summed in the order
    of the predictions. The curve falls where the model overpredicts, rises where it underpredicts, and is
    level where it is calibrated. The error is the distance between its highest and its lowest level, both
    dotted; the bar on the horizontal axis is the interval between them, described in the legend. The gray
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
    %(axes)s
    line_ : matplotlib Line2D
        The cumulative residuals, from 0.
    interval_ : matplotlib Rectangle or None
        The interval that attains the error.
    levels_ : matplotlib LineCollection or None
        The two levels whose distance is the error.
    strip_ : matplotlib Rectangle or None
        The null band.

    See Also
    --------
    sklearn_calib.metrics.cutoff_result : The numbers behind the plot.
    DecisionDisplay : The cost of miscalibration at each decision threshold.

    Notes
    -----
    At prediction t the curve is the sum of w_i (y_i - p_i) over all samples with p_i <= t, divided by the
    total weight. Its range is :func:`~sklearn_calib.metrics.cutoff_calibration_error`, where references are.
    The curve leaves the strip if and only if the test rejects at level 1 - ``confidence``. The height of the
    strip is the critical value of the range: by Monte Carlo simulation if the test has simulated, exact for
    any sample size, else c sqrt(sum p (1 - p)) / n with the quantile c of the range of Brownian motion (2.497
    at 95%). docs/plots.md explains where the strip lies. There is none for case-control weights.

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
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        n_resamples: int = 999,
        sample_weight: ArrayLike | None = None,
        weights: Weights = "sampling",
        clusters: ArrayLike | None = None,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        random_state: int | np.random.Generator | np.random.RandomState | None = 0,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the cumulative residuals of predictions.

        Parameters
        ----------
        %(binary_sample)s
        n_resamples : int, default=999
            Number of simulations of the test, for samples of less than 2000; above, the asymptotic
            distribution is used.
        %(inference_weight)s
        clusters : array-like of shape (n,), default=None
            Label of the cluster (patient, customer, day) of each sample, within which outcomes can depend on
            each other; the test and the null band then allow for it.
        %(pos_label_or_labels)s
        %(seeded_picture)s
        %(named_picture)s
        """
        _validation.refuse_fractions(y_true)
        given: dict[str, Any] = {"sample_weight": sample_weight, "weights": weights, "pos_label": pos_label}
        given["labels"] = labels
        result = cutoff_result(y_true, y_proba, **given)
        run = CutoffTest(n_resamples=n_resamples, random_state=random_state)
        test = run.test(y_true, y_proba, clusters=clusters, **given)
        pos_label = pos_label if labels is None else _validation.positive_label(y_true, labels)
        return cls(result, test=test, name=name, pos_label=pos_label).plot(ax, **plot_params)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        x: Literal["probability", "fraction"] = "probability",
        confidence: float | None = 0.95,
        name: str | None = None,
        show_interval: bool = True,
        show_legend: bool = True,
        **line_params: Any,
    ) -> Self:
        """Draw the cumulative residuals.

        Several displays can share axes; interval and null band are those of the first one.

        Parameters
        ----------
        %(drawn_into)s
        x : {"probability", "fraction"}, default="probability"
            Horizontal axis: the prediction, in the range that :class:`ReliabilityDisplay` shows, or the
            fraction of samples with a smaller prediction, which spreads concentrated predictions.
        confidence : float or None, default=0.95
            Probability under perfect calibration that the curve stays within the null band; None for no band.
        show_interval : bool, default=True
            Whether to mark the interval that attains the error, and its two levels.
        %(named_legend)s
        **line_params : dict
            Properties of the curve, such as ``color`` or ``linewidth``; the interval has the same color.

        %(self_returned)s
        """
        _validation.check_option(x, "x", ("probability", "fraction"))
        height = None
        if confidence is not None:
            # so that its complement is less than 1
            confidence = max(_validation.check_fraction(confidence, "confidence"), 2.0**-53)
            height = None if self.test is None else _strip_height(self.test, confidence)
        ax, given = self._new_or(ax, 6.4, 4.4, line_params)
        first = not curves_of(ax, _WALK)
        probability = x == "probability"
        shown = shown_range(self.result.probabilities, self.result.weight) if probability else (0.0, 1.0)
        at, walk, ends = _drawn_path(self.result, x, shown)
        text = f"cutoff error {number_text(self.result.value, 3)}"
        if self.test is not None:
            text += f", {result_finding(self.test, 1.0 - (confidence or 0.95))}"
        weight, p = self.result.weight, self.result.probabilities
        if probability:
            hidden = float(weight[(p < shown[0]) | (p > shown[1])].sum())
            counts = self.result.weights != "sampling"
            text += hidden_note(hidden, float(weight.sum()), beyond(*shown), counts)
        style = {"drawstyle": "steps-post" if probability else "default", "linewidth": 1.8}
        self.line_ = draw_curve(ax, _WALK, at, walk, self._named(text, name), given, **style)
        drawn_in = self.line_.get_color()
        self.interval_, self.levels_, self.strip_ = None, None, None
        low, high = float(walk.min()), float(walk.max())
        if show_interval and first and self.result.value > 0:
            # a single value has no width
            bar: dict[str, Any] = {"color": drawn_in, "linewidth": 0.0 if ends[0] < ends[1] else 2.0}
            self.interval_ = shade(ax, ends, "x", _BAR, label=_interval_in_words(self.result), **bar)
            dotted: dict[str, Any] = {"color": drawn_in, "linestyle": ":", "linewidth": 1.2, "zorder": 3}
            self.levels_ = ax.hlines([low, high], 0.0, 1.0, **dotted)
        if height is not None and first:
            bottom = float(np.clip((low + high) / 2.0 - height / 2.0, -height, 0.0))
            area: dict[str, Any] = {"color": PALE, "alpha": 0.5, "linewidth": 0, "zorder": 0.5}
            area["label"] = f"{100 * (confidence or 0.0):g}% null band"
            self.strip_ = shade(ax, (bottom, bottom + height), "y", **area)
        ax.autoscale(axis="y")
        label = "Fraction of samples, ordered by predicted probability"
        if probability:
            label = axis_title("Predicted probability", self.pos_label)
        ax.set_xlabel(label)
        ax.set_ylabel("Cumulative residuals y \u2212 p\n(falling: overprediction, rising: underprediction)")
        ax.axhline(0.0, color=GREY, linewidth=0.8, zorder=2)
        set_range(ax, _WALK, *shown)
        if show_legend:
            legend_below(ax)
        return self
