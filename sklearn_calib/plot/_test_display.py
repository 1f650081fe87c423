"""Display of a test of calibration: null distribution with the statistic, or path of a sequential test."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtri

from sklearn_calib import _validation
from sklearn_calib._core._null import TIE
from sklearn_calib._typing import Array, Weights
from sklearn_calib.inference import CalibrationTest, CalibrationTestResult, SequentialTestResult
from sklearn_calib.inference._names import as_test
from sklearn_calib.inference._testing._tails import null_density
from sklearn_calib.plot._estimator import DisplayMixin, check_result
from sklearn_calib.plot._matplotlib import (
    BLUE,
    DASHES,
    GREY,
    PALE,
    VERMILION,
    draw_critical,
    draw_marks,
    legend_below,
    plain,
    result_finding,
    thinned,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


_BINS, _NODES = 20, 801
# Densities are cut off here: that of chi-squared with 1 degree of freedom has a pole.
_HIGHEST = 1.0
# The axis reaches at most this many times the length of the null distribution beyond it.
_REACH = 2.0
_EXTREME = {
    "upper": "larger = stronger evidence",
    "lower": "smaller = stronger evidence",
    "two-sided": "farther from 0 = stronger evidence",
}
_NAMES = {"normal": "normal distribution", "brownian range": "distribution of the range of Brownian motion"}


def _is_extreme(values: Array, result: CalibrationTestResult, slack: float = 0.0) -> NDArray[np.bool_]:
    """Return which values are at least as extreme as the observed statistic."""
    observed, tail = result.statistic, result.tail
    if tail == "upper":
        return values >= observed - slack
    if tail == "lower":
        return values <= observed + slack
    return np.asarray(np.abs(values) >= abs(observed) - slack)


class TestDisplay(DisplayMixin):
    """Result of a test of calibration: null distribution with the observed statistic, or path of an e-value.

    Make one with :meth:`from_predictions` or :meth:`from_estimator`, which run a test, or with
    :meth:`from_result`. The null distribution is simulated or asymptotic; its dark part is at least as
    extreme as the observed statistic, and the fraction of this part is the p-value. Of a sequential test, the
    e-value after each observation is shown.

    Parameters
    ----------
    result : CalibrationTestResult
        Result to show.
    name : str, default=None
        Title of the legend; the name of the test by default.

    Attributes
    ----------
    %(axes)s
    observed_ : matplotlib Line2D
        The line at the observed statistic; or the e-value, as a logarithm to base 10.
    null_ : matplotlib BarContainer or Line2D
        The bars of all simulations or the density; or the line of an e-value of 1, no evidence.
    tail_ : matplotlib BarContainer, Collection or Line2D
        The bars of the simulations at least as extreme as observed, or that part of the density; or the point
        where the e-value first reached 1 / (1 - ``confidence``), if it did.
    critical_ : matplotlib Line2D or None
        For a sequential test, the e-value of 1 / (1 - ``confidence``).

    See Also
    --------
    ReliabilityDisplay : Where and by how much the predictions are miscalibrated.

    Notes
    -----
    The Monte Carlo p-value also counts the observed sample: with N simulations it is 1 / (N + 1) if none is
    as extreme. For T-Cal the statistic is the smallest p-value of a scale divided by its weight:
    small values are extreme, and the axis is logarithmic. A statistic far beyond the null distribution is
    drawn at the end of the axis, and its value is in the legend.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn_calib.inference import CutoffTest
    >>> from sklearn_calib.plot import TestDisplay
    >>> p = np.linspace(0.05, 0.95, 50)
    >>> test = CutoffTest(n_resamples=199, random_state=0)
    >>> display = TestDisplay.from_predictions(p > 0.4, p, test=test)
    >>> print(display.observed_.get_label())
    observed 3.17
    >>> plt.close(display.figure_)
    """

    # the name does not make it a case for pytest
    __test__: ClassVar[bool] = False
    _multiclass = True

    observed_: Line2D
    null_: Any
    tail_: Any
    critical_: Line2D | None

    def __init__(self, result: CalibrationTestResult, *, name: str | None = None) -> None:
        self.result = result
        self.name = name

    @classmethod
    def from_result(
        cls,
        result: CalibrationTestResult,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the result of a test.

        Parameters
        ----------
        result : CalibrationTestResult
            Result of ``test``, or ``result_`` of a fitted test.
        name : str, default=None
            Title of the legend; the name of the test by default.
        %(passed_on)s

        %(display_returned)s
        """
        check_result(result, CalibrationTestResult, "Pass the result of test(), or result_ of a fitted test.")
        return cls(result, name=name).plot(ax, **plot_params)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        test: str | CalibrationTest,
        sample_weight: ArrayLike | None = None,
        weights: Weights = "sampling",
        clusters: ArrayLike | None = None,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Run a test on predictions, and draw its result.

        If outcomes contradict predictions of exactly 0 or 1, the picture is that of the other samples, and
        the legend says how many are contradicted.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Outcomes.
        y_proba : array-like of shape (n,), (n, 1), (n, 2) or (n, K)
            Predicted probabilities.
        test : CalibrationTest or str
            The test, which is not fitted, or its name, such as "tcal".
        sample_weight, weights, clusters, pos_label, labels
            As in ``test.test``.
        name : str, default=None
            Title of the legend; the name of the test by default.
        %(passed_on)s

        %(display_returned)s
        """
        result = as_test(test).test(
            y_true,
            y_proba,
            sample_weight=sample_weight,
            weights=weights,
            pos_label=pos_label,
            labels=labels,
            clusters=clusters,
        )
        return cls.from_result(result, name=name, ax=ax, **plot_params)

    @classmethod
    def _of_estimator(cls, estimator: Any) -> dict[str, Any]:
        # the legend has the name of the test
        return {}

    def plot(
        self,
        ax: Axes | None = None,
        *,
        confidence: float = 0.95,
        name: str | None = None,
        show_legend: bool = True,
        **line_params: Any,
    ) -> Self:
        """Draw the test.

        Parameters
        ----------
        %(drawn_into)s
        confidence : float, default=0.95
            1 minus the level of the finding in the legend, and of the critical value of a sequential test.
        %(named_legend)s
        **line_params : dict
            Properties of the line of the observed statistic or e-value, such as ``color`` or ``linewidth``.

        %(self_returned)s
        """
        # so that 0.9 is the level 0.1 in spite of rounding
        level = max(round(1.0 - _validation.check_fraction(confidence, "confidence"), 15), 1e-15)
        # of the samples that do not contradict predictions of 0 and 1
        result = self.result.others or self.result
        sequential = isinstance(result, SequentialTestResult)
        if not sequential and result.null_distribution is None and not result.asymptotic_null:
            raise ValueError(
                f"The result of {result.test!r} ({result.method}) has no null distribution. Run a test that "
                "keeps its simulations, such as TCal(method='monte_carlo')."
            )
        if not sequential and not np.isfinite(result.statistic):
            raise ValueError(
                f"The statistic of {result.test!r} is {result.statistic}, which cannot be shown on an axis. "
                f"The p-value is {result.pvalue:.3g}: {result.reason}."
            )
        ax, given = self._new_or(ax, 6.4, 4.2, line_params)
        if isinstance(result, SequentialTestResult):
            self._draw_path(ax, result, level, given)
        else:
            self._draw_null(ax, result, given)
        if show_legend:
            chosen = self.name if name is None else name
            title = plain(result.test if chosen is None else chosen)
            legend_below(ax, title=f"{title}: {result_finding(self.result, level)}")
        return self

    def _draw_null(self, ax: Axes, result: CalibrationTestResult, line_params: dict[str, Any]) -> None:
        """Draw the null distribution, and the observed statistic as a line."""
        if result.null_distribution is not None:
            top, low, high = self._draw_histogram(ax, result, result.null_distribution)
        else:
            top, low, high = self._draw_density(ax, result, result.asymptotic_null)
        # a statistic far beyond the null distribution would leave no space for it
        scale = ax.xaxis.get_transform()
        left, right = scale.transform(np.array([low, high]))
        ends = scale.inverted().transform(
            np.array([left - _REACH * (right - left), right + _REACH * (right - left)])
        )
        at = float(np.clip(result.statistic, *ends))
        far = "" if at == result.statistic else ", beyond the axis"
        line: dict[str, Any] = {"color": VERMILION, "linestyle": DASHES, "linewidth": 2.2, "zorder": 4}
        if far:
            line |= {"marker": "<" if at < low else ">", "markevery": [1], "clip_on": False}
        line |= {"label": f"observed {result.statistic:.3g}{far}"} | line_params
        (self.observed_,) = ax.plot([at] * 2, [0.0, 1.02 * top], **line)
        self.critical_ = None
        ax.set_xlabel(f"Statistic ({_EXTREME[result.tail]})")
        ax.set_ylim(0.0, 1.06 * top)

    def _draw_histogram(
        self, ax: Axes, result: CalibrationTestResult, simulated: Array
    ) -> tuple[float, float, float]:
        """Draw the simulated statistics, and those at least as extreme as observed in front of them.

        Return the largest count and both ends.
        """
        observed = result.statistic
        extreme = _is_extreme(simulated, result, TIE * (abs(observed) + float(simulated.std())))
        # small p-values span orders of magnitude
        if result.tail == "lower" and min(observed, float(simulated.min())) > 0.0:
            edges = np.exp(np.histogram_bin_edges(np.log(simulated), _BINS))
            edges[0], edges[-1] = min(edges[0], simulated.min()), max(edges[-1], simulated.max())
            ax.set_xscale("log")
        else:
            edges = np.histogram_bin_edges(simulated, _BINS)
        style: dict[str, Any] = {"edgecolor": ax.get_facecolor(), "linewidth": 0.5, "zorder": 2}
        counts, _, self.null_ = ax.hist(
            simulated, edges, color=PALE, label=f"{simulated.size} simulations under calibration", **style
        )
        text = f"{extreme.sum()} as extreme or more" if extreme.any() else ""
        _, _, self.tail_ = ax.hist(simulated[extreme], edges, color=BLUE, label=text, **style)
        ax.set_ylabel("Simulations under the null hypothesis")
        return float(np.max(counts)), float(edges[0]), float(edges[-1])

    def _draw_density(
        self, ax: Axes, result: CalibrationTestResult, distribution: str
    ) -> tuple[float, float, float]:
        """Draw an asymptotic null distribution over its bulk; return its height and both ends."""
        if distribution == "normal":
            low, high = -4.0, 4.0
        elif distribution == "brownian range":
            low, high = 0.0, 4.5
        else:
            degrees = int(distribution.removeprefix("chi2(").removesuffix(")"))
            high = float(chdtri(degrees, 1e-3))
            low = 1e-6 * high
        x = np.union1d(
            np.linspace(low, high, _NODES), np.clip([-result.statistic, result.statistic], low, high)
        )
        density = null_density(distribution, x)
        name = _NAMES.get(distribution) or f"chi-squared distribution, {degrees} df"
        (self.null_,) = ax.plot(x, density, color=GREY, linewidth=1.5, zorder=3, label=name)
        where = _is_extreme(x, result)
        text = "as extreme or more" if where.any() else ""
        self.tail_ = ax.fill_between(x, density, where=where, color=BLUE, linewidth=0, zorder=2, label=text)
        ax.set_ylabel("Density under the null hypothesis")
        return min(float(density.max()), _HIGHEST), low, high

    def _draw_path(
        self, ax: Axes, result: SequentialTestResult, level: float, line_params: dict[str, Any]
    ) -> None:
        """Draw the logarithm to base 10 of the e-value against the number of observations."""
        path = result.log_e_path / math.log(10.0)
        number = result.n_before + np.arange(1.0, path.shape[0] + 1.0)
        kept = thinned(np.linspace(0.0, 1.0, path.shape[0]), path)
        line: dict[str, Any] = {"color": BLUE, "linewidth": 1.8, "zorder": 4, "label": "e-value"}
        (self.observed_,) = ax.plot(number[kept], path[kept], **line | line_params)
        self.null_ = ax.axhline(0.0, color=GREY, linewidth=1.0, zorder=1)
        early = result.max_log_e_before >= -math.log(level)
        reached = None if early else result.rejected_at(level)
        text = ", reached before the first observation shown" if early else ", not reached"
        if reached is not None:
            text = f", reached at observation {reached}"
        height = -math.log10(level)
        self.critical_ = draw_critical(ax, height, f"rejects at level {level:g}{text}")
        at = [] if reached is None else [reached]
        self.tail_ = draw_marks(ax, at, [height] * len(at), self.observed_.get_color())
        ax.set_xlabel("Number of observations")
        ax.set_ylabel("log10 of the e-value")
