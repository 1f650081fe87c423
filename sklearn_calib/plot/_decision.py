"""The risk gap over decision thresholds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib._core._null import monte_carlo_pvalue
from sklearn_calib._html import result_html
from sklearn_calib._typing import Array
from sklearn_calib._validation import (
    BinarySample,
    Outcomes,
    check_binary,
    check_flag,
    check_fraction,
    check_generator,
    check_option,
    check_resamples,
)
from sklearn_calib.metrics import DecisionRiskResult
from sklearn_calib.metrics._decision import check_thresholds, decision_risks, n_risk_bins, risk_result
from sklearn_calib.plot._estimator import ResultDisplayMixin
from sklearn_calib.plot._matplotlib import (
    GREY,
    PALE,
    check_flags,
    draw_marks,
    full_names,
    legend_above,
    next_style,
    p_text,
)
from sklearn_calib.plot._simulated import SimulatedOutcomes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.lines import Line2D


_GAP = "sklearn_calib.gap"
_BOUND = "sklearn_calib.gap_bound"
_NULL_BAND = "sklearn_calib.gap_null_band"
# A bound higher than this multiple of the rest would compress it.
_FAR = 2.0


@dataclass(frozen=True, eq=False)
class RiskGapNullDistribution:
    """The risk gap at each threshold if the predictions were perfectly calibrated.

    Attributes
    ----------
    thresholds : ndarray of shape (m,)
        Decision thresholds.
    mean : ndarray of shape (m,)
        Mean gap of calibrated predictions.
    quantile : ndarray of shape (m,)
        Upper quantile of each gap: calibrated predictions exceed it with probability 1 - ``confidence``.
    confidence : float
        Level of ``quantile``.
    pvalue : float
        Probability under perfect calibration of a gap, at any of the thresholds, as large as the largest
        observed.
    n_resamples : int
        Number of simulated samples.
    """

    thresholds: Array = field(repr=False)
    mean: Array = field(repr=False)
    quantile: Array = field(repr=False)
    confidence: float
    pvalue: float
    n_resamples: int

    def __str__(self) -> str:
        worst = int(self.quantile.argmax())
        return (
            f"risk gap under perfect calibration: up to {self.quantile[worst]:.4f}, at threshold "
            f"{self.thresholds[worst]:.3g}, with probability {self.confidence:g} "
            f"({self.n_resamples} simulations); p-value of the largest gap {self.pvalue:.3g}"
        )

    def _repr_html_(self) -> str:
        worst = int(self.quantile.argmax())
        return result_html(
            "risk gap under perfect calibration",
            [
                ("up to", f"{self.quantile[worst]:.4f} with probability {self.confidence:g}"),
                ("at threshold", f"{self.thresholds[worst]:.3g}"),
                ("p-value of the largest gap", f"{self.pvalue:.3g}"),
                ("simulations", str(self.n_resamples)),
            ],
        )


def _top(ax: Axes) -> float:
    """Return the height that the axes must show."""
    tops = [float(np.max(line.get_ydata())) for line in ax.lines if line.get_gid() in (_GAP, _BOUND)]
    tops += [
        float(np.asarray(path.vertices)[:, 1].max())
        for part in ax.collections
        if part.get_gid() == _NULL_BAND
        for path in part.get_paths()
    ]
    return max(tops)


def risk_gap_null(
    sample: BinarySample,
    result: DecisionRiskResult,
    confidence: float,
    n_resamples: int,
    generator: np.random.Generator,
) -> RiskGapNullDistribution:
    """Return the risk gaps of samples whose outcomes are simulated from the predictions.

    One isotonic fit for each simulation, on bins that no threshold divides. Integer weights are repetitions
    with independent outcomes; other weights stay with their samples.
    """
    bins = _gathered(sample, group_outcomes(sample.y, sample.p, sample.w), result.thresholds)
    gaps = np.empty((n_resamples, result.thresholds.shape[0]))
    simulated = (positives for part in bins.simulate(n_resamples, generator) for positives in part.T)
    for k, positives in enumerate(simulated):
        risk, best = decision_risks(GroupedOutcomes(bins.prob, bins.weight, positives), result.thresholds)
        gaps[k] = np.maximum(risk - best, 0.0)
    return RiskGapNullDistribution(
        thresholds=result.thresholds,
        mean=gaps.mean(axis=0),
        quantile=np.quantile(gaps, confidence, axis=0, method="weibull"),
        confidence=confidence,
        pvalue=monte_carlo_pvalue(float(result.gap.max()), gaps.max(axis=1), 1e-12),
        n_resamples=n_resamples,
    )


def _gathered(sample: BinarySample, grouped: GroupedOutcomes, thresholds: Array) -> SimulatedOutcomes:
    """Gather predictions in bins of nearly equal mass that no threshold divides."""
    side = np.searchsorted(np.sort(thresholds), grouped.prob, side="right")
    return SimulatedOutcomes(sample, grouped, n_risk_bins(grouped.total), side)


class DecisionDisplay(ResultDisplayMixin):
    r"""Risk gap over decision thresholds: how much recalibration could reduce the cost of decisions.

    Make one with :meth:`from_predictions`, :meth:`from_estimator` or :meth:`from_result`. A decision maker
    who acts when the prediction is at least the threshold pays for false positives and false negatives. The
    gap is the part of this cost, per sample, that the best non-decreasing recalibration would save. It never
    exceeds the cutoff calibration error, the dashed line. The grey area is the null band at each threshold.
    Gaps of calibrated predictions are positive, too, because the best recalibration is chosen in hindsight.

    Parameters
    ----------
    result : DecisionRiskResult
        The gaps.
    null : RiskGapNullDistribution, default=None
        The gaps under perfect calibration, at the same thresholds; None for neither null band nor p-value.
    name : str, default=None
        Name of the model in the legend.

    Attributes
    ----------
    result : DecisionRiskResult
        What is shown.
    null : RiskGapNullDistribution or None
        The gaps under perfect calibration.
    %(axes)s
    line_ : matplotlib Line2D
        The gap at each threshold.
    worst_ : matplotlib Line2D or None
        The point at the threshold with the largest gap; None if all gaps are 0.
    bound_ : matplotlib Line2D or None
        The cutoff calibration error.
    null_band_ : matplotlib Collection or None
        The null band.

    See Also
    --------
    sklearn_calib.metrics.decision_risk_result : The numbers behind the plot.
    CutoffDisplay : The interval that attains the cutoff calibration error.

    Notes
    -----
    With threshold t, a false positive costs t and a false negative 1 - t, as in Section 3 of [1]_; t is
    therefore also the ratio of the first cost to the sum of both.

    The bound, the cutoff calibration error, is proved in the notes of
    :func:`~sklearn_calib.metrics.decision_risk_gap`.

    Null band: outcomes are simulated from the predictions, and the gap is computed with the best
    recalibration of each simulated sample. The quantile is pointwise, for a threshold fixed in advance. The
    p-value accounts for the choice of the threshold: it compares the largest gap over all thresholds with the
    largest one of each simulated sample. For this, predictions are gathered in 64 n^(1/3) bins that no
    threshold divides. Integer weights are repetitions; other weights stay with their samples.

    References
    ----------
    .. [1] R. Rossellini, J. A. Soloff, R. F. Barber, Z. Ren and R. Willett (2025). Can a calibration metric
       be both testable and actionable? COLT. arXiv:2502.19851

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn_calib.plot import DecisionDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=1000)
    >>> y = rng.uniform(size=1000) < p**2
    >>> display = DecisionDisplay.from_predictions(y, p)
    >>> print(display.worst_.get_label())
    largest at 0.38: 0.031, p = 0.002
    >>> bool((display.result.gap <= display.bound_.get_ydata()[0]).all())
    True
    >>> plt.close(display.figure_)
    """

    line_: Line2D
    worst_: Line2D | None
    bound_: Line2D | None
    null_band_: Collection | None
    _result_type = DecisionRiskResult
    _result_function = "decision_risk_result"

    def __init__(
        self,
        result: DecisionRiskResult,
        *,
        null: RiskGapNullDistribution | None = None,
        name: str | None = None,
    ) -> None:
        self.result = result
        self.null = null
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        y_true: Outcomes,
        y_proba: ArrayLike | None = None,
        *,
        thresholds: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        confidence: float = 0.95,
        n_resamples: int = 499,
        random_state: int | np.random.Generator | np.random.RandomState | None = 0,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the risk gaps of predictions.

        Parameters
        ----------
        %(binary_sample)s
        thresholds : array-like of shape (m,), default=None
            Thresholds strictly between 0 and 1. By default 0.01, 0.02, ..., 0.99.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights.
        %(pos_label)s
        confidence : float, default=0.95
            Probability at each threshold that the gap of calibrated predictions lies in the grey area.
        n_resamples : int, default=499
            Number of simulated samples; at least 1 / (1 - ``confidence``) - 1.
        %(seeded_picture)s
        name : str, default=None
            Name of the model in the legend.
        %(passed_on)s

        Returns
        -------
        DecisionDisplay

        Raises
        ------
        %(malformed)s
        TypeError
            If a parameter is of the wrong type.
        %(no_matplotlib)s
        """
        confidence = check_fraction(confidence, "confidence")
        n_resamples = check_resamples(n_resamples, confidence)
        generator = check_generator(random_state)
        tau = check_thresholds(thresholds)
        sample = check_binary(y_true, y_proba, sample_weight, pos_label)
        result = risk_result(sample, tau)
        null = risk_gap_null(sample, result, confidence, n_resamples, generator)
        return cls(result, null=null, name=name).plot(ax, **plot_params)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        x: Literal["threshold", "cost_ratio"] = "threshold",
        name: str | None = None,
        show_null_band: bool = True,
        show_bound: bool | Literal["auto"] = "auto",
        show_legend: bool = True,
        **line_params: Any,
    ) -> Self:
        """Draw the risk gaps.

        Several displays can share axes; enable ``show_null_band`` and ``show_bound`` for one of them.

        Parameters
        ----------
        %(drawn_into)s
        x : {"threshold", "cost_ratio"}, default="threshold"
            Horizontal axis: the threshold t, or (1 - t) / t on a logarithmic axis, the ratio of the cost of a
            false negative to that of a false positive.
        name : str, default=None
            Name in the legend; the display's own by default.
        show_null_band : bool, default=True
            Whether to draw the null band, if available.
        show_bound : bool or "auto", default="auto"
            Whether to draw the cutoff calibration error, which no gap exceeds. With "auto" it is only listed
            in the legend if it is more than twice as high as everything else.
        show_legend : bool, default=True
            Whether to draw the legend.
        **line_params : dict
            Properties of the line of gaps, such as ``color`` or ``linewidth``.

        Returns
        -------
        DecisionDisplay
            The display itself.

        Raises
        ------
        ValueError
            If ``x`` is not one of the options.
        %(no_matplotlib)s
        """
        check_option(x, "x", ("threshold", "cost_ratio"))
        check_flags(show_null_band=show_null_band, show_legend=show_legend)
        if isinstance(show_bound, str):
            check_option(show_bound, "show_bound", ("auto",))
        else:
            check_flag(show_bound, "show_bound")
        ax = self._new_or(ax, 6.4, 4.4)
        result = self.result
        order = np.argsort(result.thresholds, kind="stable")
        tau, gap = result.thresholds[order], result.gap[order]
        at = tau if x == "threshold" else (1.0 - tau) / tau
        color, dashes = next_style(ax, _GAP)
        line: dict[str, Any] = {"color": color, "linestyle": dashes, "linewidth": 2.0, "zorder": 4}
        line |= {"label": self._named("risk gap", name)} | full_names(line_params)
        if at.shape[0] == 1:
            line = {"marker": "o"} | line
        (self.line_,) = ax.plot(at, gap, gid=_GAP, **line)
        self.worst_, self.bound_, self.null_band_ = None, None, None
        if gap.max() > 0:
            self._draw_worst(ax, at, tau, gap)
        if show_null_band and self.null is not None:
            self.null_band_ = ax.fill_between(
                at,
                self.null.quantile[order],
                color=PALE,
                linewidth=0,
                zorder=1,
                gid=_NULL_BAND,
                label=f"{100 * self.null.confidence:g}% null band (at each threshold)",
            )
        if show_bound:
            within = show_bound is True or result.bound <= _FAR * _top(ax)
            self.bound_ = ax.axhline(
                result.bound,
                color=GREY,
                linestyle="--",
                linewidth=1.5,
                zorder=2,
                gid=_BOUND if within else None,
                label=f"upper bound: cutoff error {result.bound:.3f}{'' if within else ', off the axis'}",
            )
        self._finish(ax, x, show_legend)
        return self

    def _draw_worst(self, ax: Axes, at: Array, tau: Array, gap: Array) -> None:
        worst = int(gap.argmax())
        label = f"largest at {tau[worst]:.2f}: {gap[worst]:.3f}"
        if self.null is not None:
            label += f", {p_text(self.null.pvalue)}"
        color = self.line_.get_color()
        self.worst_ = draw_marks(ax, at[worst], gap[worst], color, marker="D", markersize=7, label=label)

    def _finish(self, ax: Axes, x: str, show_legend: bool) -> None:
        if x == "cost_ratio":
            ax.set_xscale("log")
            ax.set_xlabel("Cost of a false negative / cost of a false positive")
        else:
            ax.set_xlim(0.0, 1.0)
            ax.set_xlabel("Decision threshold")
        ax.set_ylabel("Risk reduction by recalibration")
        ax.set_ylim(0.0, 1.05 * _top(ax) or 0.01)
        if show_legend:
            legend_above(ax)
