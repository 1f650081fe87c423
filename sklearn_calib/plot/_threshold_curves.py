"""Decision curves and Murphy diagrams: the value of decisions over thresholds, for one or several models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._typing import Array
from sklearn_calib._validation import (
    Outcomes,
    check_fraction,
    check_generator,
    check_option,
    check_resamples,
)
from sklearn_calib.inference import DominanceResult
from sklearn_calib.inference._dominance import (
    Decisions,
    check_decisions,
    compare_decisions,
    decision_risk,
    threshold_curve,
)
from sklearn_calib.metrics._decision import check_thresholds
from sklearn_calib.metrics._reductions import REDUCTIONS, Reduction
from sklearn_calib.plot._estimator import DisplayMixin
from sklearn_calib.plot._matplotlib import (
    GREY,
    check_flags,
    full_names,
    legend_above,
    next_style,
    p_text,
    plain,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.lines import Line2D


_CURVE, _CONTEXT = "sklearn_calib.threshold_curve", "sklearn_calib.threshold_context"
_BANDS = ("pointwise", "simultaneous", "none")


@dataclass(frozen=True, eq=False)
class ThresholdCurve:
    """A mean over the samples at each decision threshold, with its confidence band.

    Attributes
    ----------
    thresholds : ndarray of shape (m,)
        Decision thresholds, increasing.
    value : ndarray of shape (m,)
        Net benefit, or mean elementary score.
    lower, upper : ndarray of shape (m,)
        Limits of the band.
    event_rate : float
        Frequency of the positive class.
    confidence : float
        Confidence level of the band.
    band : {"pointwise", "simultaneous", "none"}
        Whether the band covers each point with this probability, or the whole curve; "none" if it is not
        drawn.
    """

    thresholds: Array = field(repr=False)
    value: Array = field(repr=False)
    lower: Array = field(repr=False)
    upper: Array = field(repr=False)
    event_rate: float
    confidence: float
    band: str


class _ThresholdDisplay(DisplayMixin):
    """A display of curves over decision thresholds."""

    _multiclass = True
    _title = ""

    lines_: list[Line2D]
    bands_: list[Collection]

    def __init__(
        self,
        curves: Mapping[str | None, ThresholdCurve],
        *,
        differences: Mapping[str | None, DominanceResult] | None = None,
        reference: str | None = None,
        name: str | None = None,
    ) -> None:
        self.curves = dict(curves)
        self.differences = dict(differences or {})
        self.reference = reference
        self.name = name

    @staticmethod
    @abstractmethod
    def _loss(y: NDArray[np.int64], act: NDArray[np.bool_], thresholds: Array) -> Array:
        """Return the value of each sample at each threshold."""

    @staticmethod
    @abstractmethod
    def _scale(thresholds: Array) -> Array:
        """Return the factor from a difference of risks to a difference of curves."""

    @abstractmethod
    def _draw_context(self, ax: Axes) -> None:
        """Draw what belongs to no model, and set labels and limits of the vertical axis."""

    @classmethod
    def from_predictions(
        cls,
        y_true: Outcomes,
        y_proba: ArrayLike | Mapping[str, ArrayLike] | None = None,
        *,
        thresholds: ArrayLike | None = None,
        reference: str | None = None,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        reduction: Reduction = "classwise",
        labels: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        confidence: float = 0.95,
        band: Literal["pointwise", "simultaneous", "none"] | None = "pointwise",
        n_resamples: int = 499,
        random_state: int | np.random.Generator | np.random.RandomState | None = 0,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the curves of predictions.

        Parameters
        ----------
        %(models)s
        thresholds : array-like of shape (m,), default=None
            Thresholds strictly between 0 and 1. By default 0.01, 0.02, ..., 0.99.
        reference : str, default=None
            Name of the model with which the others are compared.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights; whole numbers are repetitions.
        %(pos_label)s
        %(reduction)s
        clusters : array-like of shape (n,), default=None
            Labels of clusters of dependent samples, as in :func:`~sklearn_calib.inference.dominance_test`.
        confidence : float, default=0.95
            Confidence level of the bands.
        band : {"pointwise", "simultaneous", "none"} or None, default="pointwise"
            Band of each curve: for a threshold fixed in advance, or for the whole curve.
        n_resamples : int, default=499
            Number of resamples of simultaneous bands and comparisons; at least 1 / (1 - ``confidence``) - 1.
        %(seeded_picture)s
        name : str, default=None
            Name of a single model in the legend.
        %(passed_on)s

        Returns
        -------
        display
            The display.

        Raises
        ------
        %(malformed)s
        TypeError
            If a parameter is of the wrong type.
        %(no_matplotlib)s
        """
        confidence = check_fraction(confidence, "confidence")
        band = "none" if band is None else band
        check_option(band, "band", _BANDS)
        check_option(reduction, "reduction", REDUCTIONS)
        n_resamples = check_resamples(n_resamples, confidence)
        generator = check_generator(random_state)
        tau = np.unique(check_thresholds(thresholds))
        models = y_proba if isinstance(y_proba, Mapping) else {None: y_proba}
        if not models:
            raise ValueError("y_proba is empty. Pass the predictions of at least one model.")
        if reference is not None and (not isinstance(reference, str) or reference not in models):
            raise ValueError(f"reference={reference!r} is not one of the models {[*models]}.")
        decisions: dict[str | None, Decisions] = {}
        for key, proba in models.items():
            decisions[key] = check_decisions(
                y_true, proba, sample_weight, pos_label, labels, reduction, clusters
            )
            if decisions[key].p.shape != next(iter(decisions.values())).p.shape:
                raise ValueError(f"y_proba[{key!r}] has other classes than the first model. Pass the same.")
        curves = {
            key: ThresholdCurve(
                tau,
                *threshold_curve(
                    each, tau, cls._loss, confidence, band == "simultaneous", n_resamples, generator
                ),
                float(np.average(each.y, weights=each.w)),
                confidence,
                band,
            )
            for key, each in decisions.items()
        }
        differences = {
            key: compare_decisions(each, decisions[reference], tau, confidence, n_resamples, generator)
            for key, each in decisions.items()
            if reference is not None and key != reference
        }
        display = cls(curves, differences=differences, reference=reference, name=name)
        return display.plot(ax, **plot_params)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        kind: Literal["curves", "differences"] = "curves",
        name: str | None = None,
        show_band: bool = True,
        show_legend: bool = True,
        **line_params: Any,
    ) -> Self:
        """Draw the curves, or their differences to that of the reference model.

        Several displays can share axes.

        Parameters
        ----------
        %(drawn_into)s
        kind : {"curves", "differences"}, default="curves"
            "differences" needs a ``reference``. Their bands are simultaneous. The legend shows the p-value of
            the hypothesis that both curves are equal.
        name : str, default=None
            Name in the legend of a single model; the display's own by default.
        show_band : bool, default=True
            Whether to draw the bands.
        show_legend : bool, default=True
            Whether to draw the legend.
        **line_params : dict
            Properties of the curves, such as ``linewidth``.

        Returns
        -------
        display
            The display itself.

        Raises
        ------
        ValueError
            If ``kind`` is not one of the options, or there are no differences.
        %(no_matplotlib)s
        """
        check_option(kind, "kind", ("curves", "differences"))
        check_flags(show_band=show_band, show_legend=show_legend)
        if kind == "differences" and not self.differences:
            raise ValueError("kind='differences' needs several models and a reference in from_predictions.")
        ax = self._new_or(ax, 6.4, 4.4)
        self.lines_, self.bands_ = [], []
        if kind == "curves":
            for key, curve in self.curves.items():
                label = self._named(self._title, name) if key is None else plain(str(key))
                limits = None if curve.band == "none" or not show_band else (curve.lower, curve.upper)
                self._draw(ax, curve.thresholds, curve.value, limits, label, line_params)
            self._draw_context(ax)
        else:
            for key, found in self.differences.items():
                scale = self._scale(found.thresholds)
                ends = np.sort(np.stack((scale * found.lower, scale * found.upper)), axis=0)
                label = plain(f"{key} - {self.reference}: {p_text(found.pvalue)}")
                limits = (ends[0], ends[1]) if show_band else None
                self._draw(ax, found.thresholds, scale * found.difference, limits, label, line_params)
            ax.axhline(0.0, color=GREY, linewidth=1.0, zorder=1)
            ax.set_ylabel(f"Difference in {self._title}")
        ax.set_xlim(0.0, 1.0)
        ax.set_xlabel("Decision threshold")
        if show_legend:
            legend_above(ax)
        return self

    def _draw(
        self,
        ax: Axes,
        tau: Array,
        value: Array,
        limits: tuple[Array, Array] | None,
        label: str,
        line_params: dict[str, Any],
    ) -> None:
        color, dashes = next_style(ax, _CURVE)
        line: dict[str, Any] = {"color": color, "linestyle": dashes, "linewidth": 2.0, "zorder": 4}
        line |= {"label": label} | full_names(line_params)
        if tau.shape[0] == 1:
            line = {"marker": "o"} | line
        (drawn,) = ax.plot(tau, value, gid=_CURVE, **line)
        self.lines_.append(drawn)
        if limits is not None:
            area = ax.fill_between(tau, *limits, zorder=2, color=drawn.get_color(), alpha=0.2, linewidth=0)
            self.bands_.append(area)


class DecisionCurveDisplay(_ThresholdDisplay):
    r"""Decision curve: the net benefit of one or several models over decision thresholds.

    Make one with :meth:`from_predictions` or :meth:`from_estimator`. At each threshold the model with the
    largest net benefit is best, if it exceeds that of treating all and of treating none, the grey lines.

    %(threshold_display)s

    See Also
    --------
    sklearn_calib.metrics.net_benefit : The net benefit at one threshold.
    sklearn_calib.inference.dominance_test : The test behind the p-value of a difference.
    MurphyDisplay : The same risks on the scale of proper scores.
    DecisionDisplay : The part of the risk that is due to miscalibration.

    Notes
    -----
    The net benefit at threshold t is TP/n - FP/n t/(1 - t) [1]_. Treating all has the net benefit
    :math:`\bar y - (1 - \bar y)\, t / (1 - t)`, treating none 0.

    Pointwise bands are the mean plus or minus a normal quantile times its standard error. Simultaneous bands
    use the quantile of the largest standardized deviation over the thresholds, from random signs of the
    deviations. Both are approximations for many samples on both sides of a threshold.

    References
    ----------
    .. [1] A. J. Vickers and E. B. Elkin (2006). Decision curve analysis: a novel method for evaluating
       prediction models. Medical Decision Making 26.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn_calib.plot import DecisionCurveDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=1000)
    >>> y = rng.uniform(size=1000) < p
    >>> models = {"squared": p**2, "true": p}
    >>> display = DecisionCurveDisplay.from_predictions(y, models, reference="true", kind="differences")
    >>> print(display.lines_[0].get_label())
    squared - true: p = 0.002
    >>> plt.close(display.figure_)
    """

    _title = "net benefit"

    @staticmethod
    def _loss(y: NDArray[np.int64], act: NDArray[np.bool_], thresholds: Array) -> Array:
        return np.where(y[:, np.newaxis] == 1, 1.0, -thresholds / (1.0 - thresholds)) * act

    @staticmethod
    def _scale(thresholds: Array) -> Array:
        return -1.0 / (1.0 - thresholds)

    def _draw_context(self, ax: Axes) -> None:
        rates = [curve.event_rate for curve in self.curves.values()]
        if not any(line.get_gid() == _CONTEXT for line in ax.lines) and np.ptp(rates) <= 1e-9:
            tau, rate = np.arange(0, 1000) / 1000.0, rates[0]
            treat_all = rate - (1.0 - rate) * tau / (1.0 - tau)
            context: dict[str, Any] = {"color": GREY, "linewidth": 1.2, "zorder": 3, "gid": _CONTEXT}
            ax.plot(tau, treat_all, label="treat all", **context)
            ax.plot([0.0, 1.0], [0.0, 0.0], linestyle=":", label="treat none", **context)
        drawn = [float(np.max(line.get_ydata())) for line in ax.lines if line.get_gid() == _CURVE]
        top = 1.1 * max(*drawn, *rates) or 0.1
        ax.set_ylim(-0.25 * top, top)
        ax.set_ylabel("Net benefit")


class MurphyDisplay(_ThresholdDisplay):
    r"""Murphy diagram: the mean elementary score of one or several models over decision thresholds.

    Make one with :meth:`from_predictions` or :meth:`from_estimator`. Every proper score is a weighted mean of
    the curve. A model whose curve is nowhere higher than another one is better by every proper score, and for
    every decision maker: it dominates.

    %(threshold_display)s

    See Also
    --------
    sklearn_calib.inference.dominance_test : The test of dominance.
    DecisionCurveDisplay : The same risks as net benefit.
    ScoreDecompositionDisplay : Miscalibration and discrimination of several models.

    Notes
    -----
    The elementary score at threshold t [1]_ is 2t for a false positive and 2(1 - t) for a false negative,
    else 0. With the factor 2 the area under the curve is the Brier score [2]_. It is twice the risk of
    :func:`~sklearn_calib.metrics.decision_risk_result`, and 2(1 - t) times the difference between event rate
    and net benefit.

    For more than two classes the curve is the mean over the classes, each against the rest, or that of the
    largest probability. Bands are those of :class:`DecisionCurveDisplay`.

    References
    ----------
    .. [1] W. Ehm, T. Gneiting, A. Jordan and F. Krüger (2016). Of quantiles and expectiles: consistent
       scoring functions, Choquet representations and forecast rankings. Journal of the Royal Statistical
       Society B 78.
    .. [2] T. Dimitriadis, T. Gneiting, A. I. Jordan and P. Vogel (2024). Evaluating probabilistic
       classifiers: the triptych. International Journal of Forecasting 40. arXiv:2301.10803

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn_calib.plot import MurphyDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=1000)
    >>> y = rng.uniform(size=1000) < p
    >>> display = MurphyDisplay.from_predictions(y, {"squared": p**2, "true": p}, reference="true")
    >>> print(display.differences["squared"].pvalue_b_dominates > 0.5)
    True
    >>> plt.close(display.figure_)
    """

    _title = "mean elementary score"

    @staticmethod
    def _loss(y: NDArray[np.int64], act: NDArray[np.bool_], thresholds: Array) -> Array:
        return 2.0 * decision_risk(y, act, thresholds)

    @staticmethod
    def _scale(thresholds: Array) -> Array:
        return np.full_like(thresholds, 2.0)

    def _draw_context(self, ax: Axes) -> None:
        ax.set_ylim(bottom=0.0)
        ax.set_ylabel("Mean elementary score")
