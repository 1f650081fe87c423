"""Curves over decision thresholds, of one or several models: net benefit, elementary score and risk gap."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib import _validation
from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes, group_sample
from sklearn_calib._core._null import TIE, monte_carlo_pvalue
from sklearn_calib._frame import FrameMixin
from sklearn_calib._html import number_text, pvalue_words
from sklearn_calib._typing import Array, Weights
from sklearn_calib.inference._dominance import (
    Decisions,
    compare_decisions,
    decision_risk,
    decisions_of,
    threshold_curve,
)
from sklearn_calib.inference._means import benefit_limits, score_limits
from sklearn_calib.inference._paired_samples import check_model
from sklearn_calib.metrics._decision import check_thresholds, decision_risks, n_risk_bins
from sklearn_calib.metrics._reductions import REDUCTIONS, Reduction, class_samples
from sklearn_calib.plot._estimator import DisplayMixin
from sklearn_calib.plot._matplotlib import (
    BAND,
    GREY,
    draw_curve,
    few_bands,
    full_names,
    legend_below,
    new_grid,
    plain,
    set_range,
    unless_drawn,
)
from sklearn_calib.plot._simulated import SimulatedOutcomes
from sklearn_calib.plot._smooth_curve import end_text, shown_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.lines import Line2D


# Words for the bands.
_BANDS = {
    "pointwise": "{:g}% confidence band (pointwise)",
    "simultaneous": "{:g}% confidence band (simultaneous)",
    "null": "{:g}% null band (at each threshold)",
}
# This fraction of the predictions at each end does not determine the range of the thresholds.
_RARE = 0.005
# Most panels in a row, and letters in a line of their titles.
_COLUMNS, _TITLE_WIDTH = 3, 36
# The axis of net benefits reaches so far below 0, as a fraction of its other part.
_BELOW = 0.1
# The axis of differences in net benefit shows this fraction of them; all if none is so many times as large.
_BULK, _LONGER = 0.9, 4.0

_CURVE, _CONTEXT = "sklearn_calib.threshold_curve", "sklearn_calib.threshold_context"


@dataclass(frozen=True, eq=False)
class ThresholdCurve(FrameMixin):
    """A quantity at each decision threshold, with a band.

    Attributes
    ----------
    thresholds : ndarray of shape (m,)
        Decision thresholds, increasing.
    value : ndarray of shape (m,)
        The quantity of the display, or its difference to that of the reference model.
    lower, upper : ndarray of shape (m,)
        Limits of the band; NaN if ``band`` is None.
    event_rate : float
        Frequency of the positive class.
    confidence : float
        Confidence level of the band.
    band : {"pointwise", "simultaneous", "null"} or None
        Whether the band covers each point with this probability, or the whole curve; "null": it contains the
        value of calibrated predictions at each threshold.
    pvalue : float or None
        p-value of the hypothesis that a difference is 0 at all thresholds, or that the predictions are
        calibrated. None for a single curve without such a hypothesis.
    """

    _columns_in = ("thresholds", "value", "lower", "upper")

    thresholds: Array = field(repr=False)
    value: Array = field(repr=False)
    lower: Array = field(repr=False)
    upper: Array = field(repr=False)
    event_rate: float
    confidence: float
    band: str | None
    pvalue: float | None = None


class _ThresholdDisplay(DisplayMixin):
    """A display of curves over decision thresholds."""

    _title = _axis = ""

    lines_: list[Line2D]
    bands_: list[Collection]

    def __init__(
        self,
        curves: Mapping[str | None, ThresholdCurve],
        *,
        reference: str | None = None,
        name: str | None = None,
    ) -> None:
        self.curves = dict(curves)
        self.reference = reference
        self.name = name

    def _draw_context(self, ax: Axes, low: float, high: float) -> None:
        """Draw what belongs to no model between two thresholds; set label and limits of the vertical axis."""
        ax.autoscale(axis="y")
        ax.set_ylim(bottom=0.0)
        ax.set_ylabel(self._axis)

    def _label(self, name: str, curve: ThresholdCurve) -> str:
        """Return the legend entry of a curve."""
        return name if curve.pvalue is None else f"{name} - {self.reference}: {pvalue_words(curve.pvalue)}"

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        show_legend: bool = True,
        **line_params: Any,
    ) -> Self:
        """Draw the curves. Several displays can share axes.

        In a new figure, each of several differences to a reference has its own panel.

        Parameters
        ----------
        %(drawn_into)s
        %(named_legend)s
        **line_params : dict
            Properties of the curves, such as ``linewidth``.

        %(self_returned)s
        """
        number = len(self.curves)
        panels = ax is None and self.reference is not None and number > 1
        if panels:
            given, axes = full_names(line_params), new_grid(number, _COLUMNS, 3.3, 2.8)
            self.ax_, self.figure_ = axes[0], axes[0].figure
        else:
            ax, given = self._new_or(ax, 6.4, 4.4, line_params)
            axes = [ax] * number
        self.lines_, self.bands_ = [], []
        single = self.name if name is None else name
        area: dict[str, Any] = {"linewidth": 0, "zorder": 2, "alpha": 0.2, "gid": BAND}
        for ax, (key, curve) in zip(axes, self.curves.items(), strict=True):
            label = plain(self._label((single or self._title) if key is None else str(key), curve))
            drawn = draw_curve(ax, _CURVE, curve.thresholds, curve.value, label, given)
            self.lines_.append(drawn)
            if curve.band is not None:
                area["label"] = unless_drawn(ax, _BANDS[curve.band].format(100 * curve.confidence))
                limits = curve.thresholds, curve.lower, curve.upper
                self.bands_.append(ax.fill_between(*limits, color=drawn.get_color(), **area))
            ends = set_range(ax, _CURVE, *curve.thresholds[[0, -1]].tolist())
            ax.set_xlabel("Decision threshold")
            if self.reference is not None:
                self._draw_difference(ax)
        if self.reference is None:
            self._draw_context(self.ax_, *ends)
        if panels:
            self._name_panels(axes, show_legend)
            return self
        without = few_bands(self.ax_, _CURVE)
        if without is not None:
            self.bands_ = []
        if show_legend:
            legend_below(self.ax_, title=without)
        return self

    def _name_panels(self, axes: list[Axes], show_legend: bool) -> None:
        """Write the legend entry of each curve above its panel."""
        for ax, line in zip(axes, self.lines_, strict=True):
            parts = str(line.get_label()).rsplit(": ", 1)
            ax.set_title("\n".join(fill(part, _TITLE_WIDTH) for part in parts), fontsize="small")
            ax.set_ylabel(f"Difference in\n{self._title}")
            ax.label_outer()
        if show_legend:
            place: Any = {"loc": "outside lower left", "frameon": False, "fontsize": "small"}
            self.ax_.figure.legend(handles=self.bands_[:1], **place)

    def _draw_difference(self, ax: Axes) -> None:
        """Draw the line at 0 of differences to a reference; set label and limits of the vertical axis."""
        if not ax.get_ylabel():
            ax.axhline(0.0, color=GREY, linewidth=1.0, zorder=1)
        ax.set_ylabel(f"Difference in {self._title}")
        ax.autoscale(axis="y")


class _MeanLossDisplay(_ThresholdDisplay):
    """A display of the mean over the samples of a value that depends on outcome, decision and threshold."""

    _multiclass = True

    @staticmethod
    @abstractmethod
    def _loss(y: NDArray[np.int64], act: NDArray[np.bool_], thresholds: Array) -> Array:
        """Return the value of each sample at each threshold."""

    @staticmethod
    @abstractmethod
    def _scale(thresholds: Array) -> Array:
        """Return the factor from a difference of risks to a difference of curves."""

    @staticmethod
    @abstractmethod
    def _limits(grouped: GroupedOutcomes, thresholds: Array, alpha: float) -> tuple[Array, Array]:
        """Return limits at each threshold of one binary problem, which hold with few samples, too."""

    @staticmethod
    @abstractmethod
    def _range(thresholds: Array) -> tuple[Array, Array]:
        """Return the least and greatest value at each threshold."""

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        predictions: ArrayLike | Mapping[str, ArrayLike],
        *,
        thresholds: ArrayLike | None = None,
        reference: str | None = None,
        confidence: float = 0.95,
        band: Literal["pointwise", "simultaneous"] | None = "pointwise",
        n_resamples: int = 999,
        sample_weight: ArrayLike | None = None,
        weights: Weights = "sampling",
        clusters: ArrayLike | None = None,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        reduction: Reduction = "classwise",
        random_state: int | np.random.Generator | np.random.RandomState | None = 0,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the curves of predictions, or their differences to that of a reference model.

        Parameters
        ----------
        %(models)s
        %(display_thresholds)s
        reference : str, default=None
            Name of the model whose curve is subtracted from the others. The bands are then simultaneous, and
            the legend shows the p-value of the hypothesis that both curves are equal.
        confidence : float, default=0.95
            Confidence level of the bands.
        band : {"pointwise", "simultaneous"} or None, default="pointwise"
            Band of each curve: for a threshold fixed in advance, or for the whole curve.
        n_resamples : int, default=999
            Number of resamples of simultaneous bands and comparisons; at least 1 / (1 - ``confidence``) - 1.
        %(inference_weight)s
        clusters : array-like of shape (n,), default=None
            Labels of clusters of dependent samples, as in :func:`~sklearn_calib.inference.dominance_test`.
        %(pos_label)s
        %(reduction)s
        %(seeded_picture)s
        %(named_picture)s
        """
        confidence = _validation.check_fraction(confidence, "confidence")
        if band is not None:
            _validation.check_option(band, "band", ("pointwise", "simultaneous"), "None")
        _validation.check_option(reduction, "reduction", REDUCTIONS)
        n_resamples = _validation.check_resamples(n_resamples, confidence)
        generator = _validation.check_generator(random_state)
        tau = np.unique(check_thresholds(thresholds))
        models = named_models(predictions)
        if reference is not None and (not isinstance(reference, str) or reference not in models):
            raise ValueError(f"reference={reference!r} is not one of the models {[*models]}.")
        given = sample_weight, weights, clusters, pos_label, labels
        samples = {key: check_model(y_true, p, *given) for key, p in models.items()}
        decisions = {key: decisions_of(sample, reduction) for key, sample in samples.items()}
        if thresholds is None:
            tau = _in_range(tau, [_grouped(each) for each in decisions.values()])
        first = next(iter(decisions.values()))
        for key, each in decisions.items():
            if each.p.shape != first.p.shape:
                raise ValueError(f"predictions[{key!r}] has other classes than the first model.")
        rate = float(np.average(first.y.mean(axis=1), weights=first.w))
        curves: dict[str | None, ThresholdCurve] = {}
        for key, each in decisions.items():
            if reference is None:
                whole = band == "simultaneous"
                value, lower, upper = threshold_curve(
                    each, tau, cls._loss, confidence, whole, n_resamples, generator
                )
                if each.p.shape[1] == 1:
                    least = cls._limits(
                        group_sample(_problem(samples[key], reduction)), tau, 1.0 - confidence
                    )
                    lower, upper = np.minimum(lower, least[0]), np.maximum(upper, least[1])
                lower, upper = (np.clip(end, *cls._range(tau)) for end in (lower, upper))
                curves[key] = ThresholdCurve(tau, value, lower, upper, rate, confidence, band)
            elif key != reference:
                found = compare_decisions(each, decisions[reference], tau, confidence, n_resamples, generator)
                value, *ends = (
                    cls._scale(tau) * part for part in (found.difference, found.lower, found.upper)
                )
                lower, upper = np.sort(ends, axis=0)
                shown = None if band is None else "simultaneous"
                curves[key] = ThresholdCurve(tau, value, lower, upper, rate, confidence, shown, found.pvalue)
        return cls(curves, reference=reference, name=name).plot(ax, **plot_params)


def _problem(sample: Any, reduction: Reduction) -> Any:
    """Return the sample of the only binary problem of a reduction."""
    return sample if reduction == "classwise" else class_samples(sample, "confidence")[0]


def _grouped(found: Decisions) -> GroupedOutcomes:
    w = None if found.w is None else np.repeat(found.w, found.p.shape[1])
    return group_outcomes(found.y.ravel(), found.p.ravel(), w)


def _in_range(thresholds: Array, groups: list[GroupedOutcomes]) -> Array:
    """Return thresholds between 0 and 1 moved to the range that a diagram of the predictions shows."""
    low, high = np.array([shown_range(each.prob, each.weight, _RARE) for each in groups]).T
    return np.asarray(low.min() + (high.max() - low.min()) * thresholds)


def named_models(predictions: ArrayLike | Mapping[str, ArrayLike]) -> dict[str | None, Any]:
    """Return the predictions by the names of the models; None stands for a single model."""
    if not isinstance(predictions, Mapping):
        return {None: predictions}
    if not predictions:
        raise ValueError("predictions is empty. Pass the predictions of at least one model.")
    return {str(name): proba for name, proba in predictions.items()}


def _treat_all(rate: float, thresholds: Array) -> Array:
    return rate - (1.0 - rate) * thresholds / (1.0 - thresholds)


class DecisionCurveDisplay(FrameMixin, _MeanLossDisplay):
    r"""Decision curve: the net benefit of one or several models over decision thresholds.

    Make one with :meth:`from_predictions` or :meth:`from_estimator`. At each threshold the model with the
    largest net benefit is best, if it exceeds that of treating all and of treating none, the gray lines.

    %(threshold_display)s

    See Also
    --------
    sklearn_calib.metrics.net_benefit : The net benefit at one threshold.
    sklearn_calib.inference.dominance_test : The test behind the p-value of a difference.
    MurphyDisplay : The same risks on the scale of proper scores.
    DecisionDisplay : The part of the risk that is due to miscalibration.

    Notes
    -----
    The net benefit at threshold t is TP/n - FP/n t/(1 - t). Treating all has the net benefit
    :math:`\bar y - (1 - \bar y)\, t / (1 - t)`, treating none 0.

    ``to_frame()`` is the table of decision curve analysis, with a row for each model and threshold:
    "net_benefit", or its difference to the reference model, with "lower" and "upper"; "treat_all";
    "standardized_net_benefit", the net benefit over :math:`\bar y`, whose maximum is 1 [2]_; and
    "interventions_avoided", the difference to treating all, or to the reference, times (1 - t)/t: the
    interventions per sample that the model avoids without missing an event [1]_.

    Pointwise bands are normal, simultaneous ones use the quantile of the largest standardized deviation over
    the thresholds, from random signs of the deviations. Both contain the exact limits that the interval of
    the net benefit contains, except those of a mean over several classes or labels; see docs/plots.md.

    References
    ----------
    .. [1] A. J. Vickers and E. B. Elkin (2006). Decision curve analysis: a novel method for evaluating
       prediction models. Medical Decision Making 26.
    .. [2] K. F. Kerr, M. D. Brown, K. Zhu and H. Janes (2016). Assessing the clinical impact of risk
       prediction models with decision curves. Journal of Clinical Oncology 34.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn_calib.plot import DecisionCurveDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=1000)
    >>> y = rng.uniform(size=1000) < p
    >>> display = DecisionCurveDisplay.from_predictions(y, {"squared": p**2, "true": p}, reference="true")
    >>> print(display.lines_[0].get_label())
    squared - true: p = 0.001
    >>> plt.close(display.figure_)
    """

    _title = "net benefit"
    _rows_in = "_table"

    @property
    def _table(self) -> list[dict[str, Any]]:
        rows = []
        for name, curve in self.curves.items():
            treat_all = _treat_all(curve.event_rate, curve.thresholds)
            limits = zip(curve.thresholds, curve.value, curve.lower, curve.upper, treat_all, strict=True)
            for t, value, lower, upper, everyone in limits:
                gain = value - (0.0 if self.reference is not None else everyone)
                row = {"model": self.name if name is None else name, "threshold": t, "net_benefit": value}
                row |= {"lower": lower, "upper": upper, "treat_all": everyone}
                row["standardized_net_benefit"] = value / curve.event_rate if curve.event_rate else np.nan
                row["interventions_avoided"] = gain * (1.0 - t) / t if t else np.nan
                rows.append(row)
        return rows

    @staticmethod
    def _loss(y: NDArray[np.int64], act: NDArray[np.bool_], thresholds: Array) -> Array:
        return np.where(y[:, np.newaxis] == 1, 1.0, -thresholds / (1.0 - thresholds)) * act

    @staticmethod
    def _scale(thresholds: Array) -> Array:
        return -1.0 / (1.0 - thresholds)

    @staticmethod
    def _limits(grouped: GroupedOutcomes, thresholds: Array, alpha: float) -> tuple[Array, Array]:
        return benefit_limits(grouped, thresholds, alpha)

    @staticmethod
    def _range(thresholds: Array) -> tuple[Array, Array]:
        return -thresholds / (1.0 - thresholds), np.ones_like(thresholds)

    def _draw_context(self, ax: Axes, low: float, high: float) -> None:
        rate = next(iter(self.curves.values())).event_rate
        for line in [line for line in ax.lines if line.get_gid() == _CONTEXT]:
            line.remove()
        tau = np.linspace(low, high, 1001)
        treat_all = _treat_all(rate, tau)
        context: dict[str, Any] = {"color": GREY, "linewidth": 1.2, "zorder": 3, "gid": _CONTEXT}
        ax.plot(tau, treat_all, label="treat all", **context)
        ax.plot([low, high], [0.0, 0.0], linestyle=":", label="treat none", **context)
        curves = [np.asarray(line.get_ydata()) for line in ax.lines if line.get_gid() == _CURVE]
        values = np.concatenate((treat_all, *curves))
        highest = [curve.upper for curve in self.curves.values()]
        top = 1.05 * float(np.nanmax(np.minimum(np.concatenate((values, *highest)), 1.25 * values.max())))
        if top > 0.0:
            # the curves, as far below treating none as above it
            lowest = 1.05 * float(np.nanmin(np.concatenate(curves)))
            ax.set_ylim(-min(max(_BELOW * top, -lowest), top), top)
        ax.set_ylabel("Net benefit")

    def _draw_difference(self, ax: Axes) -> None:
        super()._draw_difference(ax)
        # a false positive costs t / (1 - t): thresholds near 1 would make all others flat
        limits = [part for curve in self.curves.values() for part in (curve.value, curve.lower, curve.upper)]
        most, bulk = float(np.nanmax(np.abs(limits))), float(np.nanquantile(np.abs(limits), _BULK))
        top = 1.1 * (most if most <= _LONGER * bulk else bulk)
        if top > 0.0:
            ax.set_ylim(-top, top)


class MurphyDisplay(_MeanLossDisplay):
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
    else 0. With the factor 2 the area under the curve from 0 to 1 is the Brier score [2]_. Bands are those of
    :class:`DecisionCurveDisplay`.

    References
    ----------
    .. [1] W. Ehm et al. (2016). Of quantiles and expectiles: consistent scoring functions, Choquet
       representations and forecast rankings. Journal of the Royal Statistical Society B 78.
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
    >>> display = MurphyDisplay.from_predictions(y, {"squared": p**2, "true": p})
    >>> bool((display.curves["true"].value <= display.curves["squared"].value + 0.01).all())
    True
    >>> plt.close(display.figure_)
    """

    _title, _axis = "mean elementary score", "Mean elementary score"

    @staticmethod
    def _loss(y: NDArray[np.int64], act: NDArray[np.bool_], thresholds: Array) -> Array:
        return 2.0 * decision_risk(y, act, thresholds)

    @staticmethod
    def _scale(thresholds: Array) -> Array:
        return np.full_like(thresholds, 2.0)

    @staticmethod
    def _limits(grouped: GroupedOutcomes, thresholds: Array, alpha: float) -> tuple[Array, Array]:
        return score_limits(grouped, thresholds, alpha)

    @staticmethod
    def _range(thresholds: Array) -> tuple[Array, Array]:
        return np.zeros_like(thresholds), 2.0 * np.maximum(thresholds, 1.0 - thresholds)


class DecisionDisplay(_ThresholdDisplay):
    r"""Risk gap over decision thresholds: how much recalibration could reduce the cost of decisions.

    Make one with :meth:`from_predictions` or :meth:`from_estimator`. A decision maker who acts when the
    prediction is at least the threshold pays for false positives and false negatives. The gap is the part of
    this cost, per sample, that the best non-decreasing recalibration would save. It never exceeds the cutoff
    calibration error. The area is the null band at each threshold: gaps of calibrated predictions are
    positive, too, because the best recalibration is chosen in hindsight.

    %(threshold_display)s

    See Also
    --------
    sklearn_calib.metrics.decision_risk_result : Risk, lowest risk and gap at each threshold.
    CutoffDisplay : The interval that attains the cutoff calibration error.

    Notes
    -----
    With threshold t, a false positive costs t and a false negative 1 - t, as in
    :func:`~sklearn_calib.metrics.decision_risk_gap`; t is also the ratio of the first cost to their sum.

    The null band is the quantile of the gaps of outcomes simulated from the predictions, for a threshold
    fixed in advance. The p-value compares the largest gap over all thresholds with the largest one of each
    simulated sample; see docs/plots.md.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn_calib.plot import DecisionDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=1000)
    >>> y = rng.uniform(size=1000) < p**2
    >>> display = DecisionDisplay.from_predictions(y, p)
    >>> print(display.lines_[0].get_label())
    risk gap: maximum 0.031, at 0.38 (p = 0.001)
    >>> plt.close(display.figure_)
    """

    _title, _axis = "risk gap", "Risk reduction by recalibration"

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        predictions: ArrayLike | Mapping[str, ArrayLike],
        *,
        thresholds: ArrayLike | None = None,
        confidence: float = 0.95,
        band: Literal["null"] | None = "null",
        n_resamples: int = 999,
        sample_weight: ArrayLike | None = None,
        weights: Weights = "sampling",
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        random_state: int | np.random.Generator | np.random.RandomState | None = 0,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the risk gaps of predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Binary labels.
        predictions : array-like of shape (n,), (n, 1) or (n, 2), or mapping of str to these
            Predicted probabilities of the positive class; or the name of each model and its predictions for
            the same samples.
        %(display_thresholds)s
        confidence : float, default=0.95
            Probability at each threshold that the gap of calibrated predictions lies in the null band.
        band : "null" or None, default="null"
            None for neither null band nor p-value.
        n_resamples : int, default=999
            Number of simulated samples; at least 1 / (1 - ``confidence``) - 1.
        %(inference_weight)s
        %(pos_label_or_labels)s
        %(seeded_picture)s
        %(named_picture)s
        """
        confidence = _validation.check_fraction(confidence, "confidence")
        if band is not None:
            _validation.check_option(band, "band", ("null",), "None")
        n_resamples = _validation.check_resamples(n_resamples, confidence)
        generator = _validation.check_generator(random_state)
        tau = np.unique(check_thresholds(thresholds))
        models = named_models(predictions).items()
        given: dict[str, Any] = {"pos_label": pos_label, "labels": labels, "weights": weights}
        groups = {
            key: group_sample(_validation.check_binary(y_true, proba, sample_weight, **given))
            for key, proba in models
        }
        if thresholds is None:
            tau = _in_range(tau, list(groups.values()))
        curves = {}
        for key, grouped in groups.items():
            gap = np.subtract(*decision_risks(grouped, tau))
            upper, pvalue = np.full_like(tau, np.nan), None
            if band is not None:
                null = _simulated_gaps(grouped, tau, n_resamples, generator)
                upper = np.quantile(null, confidence, axis=0, method="weibull")
                pvalue = monte_carlo_pvalue(float(gap.max()), null.max(axis=1), TIE)
            rate = float(grouped.positives.sum() / grouped.total)
            curves[key] = ThresholdCurve(tau, gap, np.zeros_like(tau), upper, rate, confidence, band, pvalue)
        return cls(curves, name=name).plot(ax, **plot_params)

    def _label(self, name: str, curve: ThresholdCurve) -> str:
        worst = int(curve.value.argmax())
        value, at = number_text(curve.value[worst], 3), curve.thresholds[worst]
        text = f"{name}: maximum {value}, at {number_text(at, 2) if at < 0.9 else end_text(at)}"
        return text if curve.pvalue is None else f"{text} ({pvalue_words(curve.pvalue)})"


def _simulated_gaps(
    grouped: GroupedOutcomes,
    thresholds: Array,
    n_resamples: int,
    generator: np.random.Generator,
) -> Array:
    """Return the risk gaps of samples whose outcomes are simulated, in bins that no threshold divides."""
    side = np.searchsorted(thresholds, grouped.prob, side="right")
    bins = SimulatedOutcomes(grouped, n_risk_bins(grouped.total), side)
    return np.array(
        [
            np.subtract(*decision_risks(GroupedOutcomes(bins.prob, *pair), thresholds))
            for weight, positives in bins.simulate(n_resamples, generator)
            for pair in zip(np.broadcast_to(weight, positives.shape).T, positives.T, strict=True)
        ]
    )
