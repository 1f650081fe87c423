"""Display of a test of calibration: null distribution, evidence of its parts, or path of a sequential test.

The contents are computed first, as a :class:`NullHistogram`, :class:`NullCurve`, :class:`ScaleEvidence` or
:class:`EvidencePath`, and drawn afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtri, ndtri

from sklearn_calib._core._null import tail_rank
from sklearn_calib._typing import Array
from sklearn_calib._validation import check_fraction, check_option
from sklearn_calib.inference import (
    BinomialValue,
    CalibrationTest,
    CalibrationTestResult,
    SequentialTestResult,
    SplitClass,
    TestComponent,
)
from sklearn_calib.inference._names import as_test
from sklearn_calib.inference._tails import null_density
from sklearn_calib.plot._estimator import AxesMixin, check_result, estimator_predictions
from sklearn_calib.plot._matplotlib import (
    BLUE,
    DASHES,
    GREY,
    PALE,
    VERMILION,
    check_flags,
    draw_critical,
    draw_marks,
    full_names,
    legend_above,
    plain,
    result_finding,
    thinned,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


Mask = NDArray[np.bool_]

_KINDS = ("auto", "null", "scales", "path")
_TAILS = ("upper", "lower", "two-sided")
_ADVICE = "Run a test that keeps its simulations, such as TCal() or CutoffTest(method='monte_carlo')"
# Tolerance for ties with the observed statistic, as in the tests.
_TIE = 1e-8
_FEWEST_BINS, _MOST_BINS = 8, 60
# Small values that span this factor are shown on a logarithmic axis.
_WIDE = 20.0
_NODES = 801
# Smaller p-values are drawn here.
_LEAST = 1e-250
# Position of a p-value of 0, as a fraction of the smallest positive one.
_BEYOND = 1e-3
_EXTREME = {"upper": "large is extreme", "lower": "small is extreme", "two-sided": "far from 0 is extreme"}


@dataclass(frozen=True, eq=False)
class NullHistogram:
    """Counts of the simulated statistics.

    ``extreme`` marks the bins of those at least as extreme as observed; no bin contains both kinds. ``log``
    requests a logarithmic axis.
    """

    edges: Array
    counts: NDArray[np.int64]
    extreme: Mask
    log: bool


@dataclass(frozen=True, eq=False)
class NullCurve:
    """Density of the null distribution at ``x``; ``extreme`` marks where ``x`` is as extreme as observed.

    ``top`` is the largest density to show, in case the density has a pole.
    """

    x: Array
    density: Array
    extreme: Mask
    top: float


@dataclass(frozen=True, eq=False)
class ScaleEvidence:
    """Evidence of each part of a test, with a critical value and its description.

    ``at`` places the parts on an axis with the title ``axis``, logarithmic to ``base`` if that is not 0, or
    numbers them if they have ``names``. ``shown`` are standardised statistics, or with ``by_pvalue`` the
    p-values.
    """

    at: Array
    axis: str
    base: int
    names: tuple[str, ...]
    part: str
    shown: Array
    pvalues: Array
    critical: float
    critical_name: str
    by_pvalue: bool


@dataclass(frozen=True, eq=False)
class EvidencePath:
    """Logarithm to base 10 of the e-value after each observation, thinned, and where it passed a level.

    ``reached`` is the number of the observation, or None; ``early`` says that it was before the first one.
    """

    number: Array
    evidence: Array
    critical: float
    reached: int | None
    early: bool


def null_histogram(simulated: Array, observed: float, tail: str) -> NullHistogram:
    """Return a histogram of simulated statistics, with an edge on the less extreme side of the observed one.

    The width follows Freedman and Diaconis, 2 IQR n^(-1/3), within bounds.
    """
    slack = _TIE * (abs(observed) + float(simulated.std()))
    log = tail == "lower" and min(observed, simulated.min()) > 0.0
    log = log and simulated.max() > _WIDE * simulated.min()
    if tail == "upper":
        cuts = np.array([observed - slack])
    elif tail == "lower":
        cuts = np.array([observed + slack])
    else:
        cuts = np.array([-1.0, 1.0]) * max(abs(observed) - slack, 0.0)
    values = simulated
    if log:
        values, cuts = np.log(simulated), np.log(cuts)
    edges = _edges(values, cuts)
    counts, _ = np.histogram(values, edges)
    occupied = np.flatnonzero(counts)
    first, last = int(occupied[0]), int(occupied[-1]) + 1
    edges, counts = edges[first : last + 1], counts[first:last]
    extreme = edges[:-1] >= cuts[-1]
    if tail == "lower":
        extreme = ~extreme
    elif tail == "two-sided":
        extreme |= edges[1:] <= cuts[0]
    return NullHistogram(np.exp(edges) if log else edges, counts, extreme, log)


def _edges(values: Array, cuts: Array) -> Array:
    """Return edges over the range of the values and beyond, with the cuts among them."""
    low, high = float(values.min()), float(values.max())
    spread = high - low
    lower, upper = np.quantile(values, (0.25, 0.75))
    width = float(np.clip(2.0 * (upper - lower) * values.shape[0] ** (-1 / 3), spread / _MOST_BINS, None))
    width = min(width, spread / _FEWEST_BINS)
    if spread <= 1e-12 * max(abs(low), abs(high)):
        width = 0.1 * max(abs(low), abs(high)) or 1.0
    below = np.arange(max(np.ceil((cuts[0] - low) / width), 0.0) + 1.0, 0.0, -1.0)
    above = np.arange(1.0, max(np.ceil((high - cuts[-1]) / width), 0.0) + 2.0)
    between = cuts
    if cuts[-1] > cuts[0]:
        # nothing is drawn outside the values, where few edges suffice
        parts = int(np.clip(np.rint((cuts[-1] - cuts[0]) / width), 1, 8 * _MOST_BINS))
        between = np.linspace(cuts[0], cuts[-1], parts + 1)
    return np.unique(np.concatenate((cuts[0] - width * below, between, cuts[-1] + width * above)))


def null_curve(distribution: str, observed: float, tail: str) -> NullCurve:
    """Return the density of a distribution over its bulk, extended to the observed statistic."""
    reach = abs(observed)
    if distribution == "normal":
        high = max(4.0, 1.1 * reach)
        low = -high
    elif distribution == "brownian range":
        low, high = 0.0, max(4.5, 1.1 * reach)
    else:
        high = max(float(chdtri(_degrees(distribution), 1e-3)), 1.1 * reach)
        low = 1e-6 * high
    x = np.union1d(
        np.linspace(low, high, _NODES), [-reach, reach] if distribution == "normal" else max(observed, low)
    )
    if tail == "upper":
        extreme = x >= observed
    elif tail == "lower":
        extreme = x <= observed
    else:
        extreme = np.abs(x) >= reach
    density = null_density(distribution, x)
    top = float(density.max())
    if distribution == "chi2(1)":
        top = 2.0 * float(null_density(distribution, chdtri(1.0, np.array([0.5])))[0])
    return NullCurve(x, density, extreme, top)


def _degrees(distribution: str) -> int:
    null_density(distribution, np.ones(1))  # raises for an unknown distribution
    return int(distribution.removeprefix("chi2(").removesuffix(")"))


def scale_evidence(result: CalibrationTestResult, level: float) -> ScaleEvidence | None:
    """Return the evidence of each part of a test, or None if the result has no parts.

    These are standardised statistics of scales if the test compares them, otherwise p-values, since the null
    mean of the statistics need not be 0.
    """
    first = result.scales[0] if result.scales else None
    if isinstance(first, BinomialValue):
        at, pvalues = _columns(result.scales, "value", "adjusted_pvalue")
        whole = "for all values at once"
        return _by_pvalue(at, "Predicted probability", 0, (), "value", pvalues, level, whole)
    if isinstance(first, TestComponent | SplitClass):
        numbers = np.arange(float(len(result.scales)))
        (pvalues,) = _columns(result.scales, "pvalue")
        part = "component" if isinstance(first, TestComponent) else "class"
        names = tuple(
            scale.name if part == "component" else f"{scale.label}, half {scale.half + 1}"
            for scale in result.scales
        )
        axis = "" if part == "component" else "Predicted class, and the half that keeps its labels"
        return _by_pvalue(numbers, axis, 0, names, part, pvalues, level, f"of one {part} alone")
    for place, axis, base, part in (
        ("n_bins", "Number of bins", 2, "scale"),
        ("bandwidth", "Bandwidth of the kernel", 10, "bandwidth"),
    ):
        wanted = (place, "statistic", "null_std", "pvalue")
        scales = [scale for scale in result.scales if all(hasattr(scale, name) for name in wanted)]
        scales = sorted((scale for scale in scales if scale.null_std > 0.0), key=attrgetter(place))
        if scales:
            return _of_scales(result, level, _columns(scales, *wanted), (axis, base, part))
    return None


def _columns(scales: Sequence[Any], *names: str) -> Array:
    return np.array([[float(getattr(scale, name)) for scale in scales] for name in names])


def _by_pvalue(
    at: Array,
    axis: str,
    base: int,
    names: tuple[str, ...],
    part: str,
    pvalues: Array,
    critical: float,
    critical_name: str,
) -> ScaleEvidence:
    # p-values of 0 are drawn above all others
    possible = np.append(pvalues[pvalues > 0.0], critical)
    shown = np.maximum(pvalues, max(_BEYOND * float(possible.min()), _LEAST))
    return ScaleEvidence(at, axis, base, names, part, shown, pvalues, critical, critical_name, True)


def _of_scales(
    result: CalibrationTestResult,
    level: float,
    columns: Array,
    words: tuple[str, int, str],
) -> ScaleEvidence:
    """Return the evidence of scales that have a statistic and its null standard deviation."""
    at, statistic, deviation, pvalues = columns
    axis, base, part = words
    z = statistic / deviation
    simulated = None if result.null_distribution is None else _critical_value(result, level)
    critical, name = -float(ndtri(level)), f"of one {part} alone, normal distribution"
    standardised = _close(result.statistic, z.max())
    if standardised and simulated is not None:
        critical, name = simulated, "of the largest, simulated"
    elif simulated is not None and z.shape[0] == 1 and _close(result.statistic, statistic[0]):
        standardised, critical, name = True, simulated / float(deviation[0]), "simulated"
    if standardised:
        return ScaleEvidence(at, axis, base, (), part, z, pvalues, critical, name, False)
    critical, name = level, f"of one {part} alone"
    if simulated is not None and result.tail == "lower" and _close(result.statistic, pvalues.min()):
        critical, name = simulated, "of the smallest, simulated"
    return _by_pvalue(at, axis, base, (), part, pvalues, critical, name)


def evidence_path(result: SequentialTestResult, level: float) -> EvidencePath:
    """Return the evidence of a sequential test against the number of observations."""
    path = result.log_e_path / math.log(10.0)
    number = result.n_before + np.arange(1.0, path.shape[0] + 1.0)
    early = result.max_log_e_before >= -math.log(level)
    reached = None if early else result.rejected_at(level)
    kept = thinned((number - number[0]) / max(1.0, number[-1] - number[0]), path)
    return EvidencePath(number[kept], path[kept], -math.log10(level), reached, early)


def _close(a: float, b: float) -> bool:
    return bool(np.isclose(a, b, rtol=1e-6, atol=1e-9))


def _critical_value(result: CalibrationTestResult, level: float) -> float | None:
    """Return the simulated value beyond which the Monte Carlo p-value is at most ``level``."""
    values: Any = result.null_distribution
    rank = tail_rank(values.shape[0], level)
    if rank < 1 or result.tail == "two-sided":
        return None
    return float(np.sort(values)[rank - 1 if result.tail == "lower" else -rank])


def draw_null(
    ax: Axes, shown: NullHistogram | NullCurve, result: CalibrationTestResult, line_params: dict[str, Any]
) -> tuple[Line2D, Any, Any, None]:
    """Draw the null distribution, and the observed statistic as a line."""
    if isinstance(shown, NullHistogram):
        null, tail = _histogram(ax, shown)
        highest = float(shown.counts.max())
    else:
        null, tail = _curve(ax, shown, result.asymptotic_null)
        highest = shown.top
    line: dict[str, Any] = {"color": VERMILION, "linestyle": DASHES, "linewidth": 2.2, "zorder": 4}
    line |= {"label": f"observed {result.statistic:.3g}"} | line_params
    (observed,) = ax.plot([result.statistic] * 2, [0.0, 1.02 * highest], **line)
    ax.set_xlabel(f"Statistic ({_EXTREME[result.tail]})")
    ax.set_ylim(0.0, 1.06 * highest)
    return observed, null, tail, None


def _histogram(ax: Axes, shown: NullHistogram) -> tuple[Any, Any]:
    left, width = shown.edges[:-1], np.diff(shown.edges)
    parts = []
    for chosen, color, text in (
        (~shown.extreme, PALE, "less extreme"),
        (shown.extreme, BLUE, "as extreme or more"),
    ):
        counts = shown.counts[chosen]
        simulations = "simulation" if counts.sum() == 1 else "simulations"
        parts.append(
            ax.bar(
                left[chosen],
                counts,
                width[chosen],
                align="edge",
                color=color,
                edgecolor=ax.get_facecolor(),
                linewidth=0.5,
                zorder=2,
                label=f"{counts.sum()} {simulations} {text}" if counts.size else "",
            )
        )
    if shown.log:
        ax.set_xscale("log")
    ax.set_ylabel("Simulations under the null hypothesis")
    return parts[0], parts[1]


def _curve(ax: Axes, shown: NullCurve, distribution: str) -> tuple[Any, Any]:
    (null,) = ax.plot(
        shown.x, shown.density, color=GREY, linewidth=1.5, zorder=3, label=_distribution_name(distribution)
    )
    tail = ax.fill_between(
        shown.x,
        shown.density,
        where=shown.extreme,
        color=BLUE,
        linewidth=0,
        zorder=2,
        label="as extreme or more",
    )
    ax.set_ylabel("Density under the null hypothesis")
    return null, tail


def _distribution_name(distribution: str) -> str:
    if distribution == "brownian range":
        return "distribution of the range of Brownian motion"
    chi2 = distribution.removeprefix("chi2(").removesuffix(")")
    return "normal distribution" if chi2 == distribution else f"chi-squared distribution, {chi2} df"


def draw_scales(
    ax: Axes, shown: ScaleEvidence, level: float, line_params: dict[str, Any]
) -> tuple[Line2D, Any, Line2D, Line2D]:
    """Draw the evidence of each part of a test as stems, and the critical value as a line."""
    strong = shown.pvalues <= level
    point: dict[str, Any] = {"color": BLUE, "linestyle": "none", "marker": "o", "markersize": 6.5}
    weak_text = f"p-value above {level:g}" if not strong.all() else ""
    hollow = {"markerfacecolor": ax.get_facecolor(), "label": weak_text, "zorder": 4}
    (observed,) = ax.plot(shown.at, shown.shown, **point | hollow | line_params)
    color = observed.get_color()
    strong_text = f"p-value of the {shown.part} at most {level:g}" if strong.any() else ""
    (tail,) = ax.plot(
        shown.at[strong], shown.shown[strong], **point | line_params | {"label": strong_text, "zorder": 5}
    )
    origin = 1.0 if shown.by_pvalue else 0.0
    stems = ax.vlines(shown.at, origin, shown.shown, color=color, linewidth=1.4, zorder=3)
    ax.axhline(origin, color=GREY, linewidth=1.0, zorder=1)
    critical = draw_critical(ax, shown.critical, f"{level:g} critical value {shown.critical_name}")
    if shown.base:
        ax.set_xscale("log", base=shown.base)
        ax.set_xlim(shown.at.min() / 1.6, shown.at.max() * 1.6)
    elif shown.names:
        ax.set_xlim(-0.6, len(shown.names) - 0.4)
        ax.set_xticks(shown.at, [plain(name) for name in shown.names])
    else:
        ax.set_xlim(-0.04, 1.04)
    ax.set_xlabel(shown.axis)
    if shown.by_pvalue:
        ax.set_yscale("log")
        for x, y in zip(shown.at[shown.pvalues == 0.0], shown.shown[shown.pvalues == 0.0], strict=True):
            ax.annotate("0", (x, y), (0, 6), textcoords="offset points", ha="center", fontsize="small")
        ax.set_ylim(1.5, min(shown.shown.min(), shown.critical) ** 1.05 / 1.5)
        ax.set_ylabel(f"p-value of the {shown.part}")
    else:
        ax.set_ylabel("Statistic / null standard deviation")
        low, high = min(0.0, float(shown.shown.min())), max(shown.critical, float(shown.shown.max()))
        pad = 0.07 * (high - low)
        ax.set_ylim(low - pad, high + pad)
    return observed, stems, tail, critical


def draw_path(
    ax: Axes, shown: EvidencePath, level: float, line_params: dict[str, Any]
) -> tuple[Line2D, Line2D, Line2D, Line2D]:
    """Draw the e-value of a sequential test against the number of observations."""
    line: dict[str, Any] = {"color": BLUE, "linewidth": 1.8, "zorder": 4, "label": "e-value"} | line_params
    (observed,) = ax.plot(shown.number, shown.evidence, **line)
    none = ax.axhline(0.0, color=GREY, linewidth=1.0, zorder=1)
    text = ", not reached"
    if shown.early:
        text = ", reached before the first observation shown"
    elif shown.reached is not None:
        text = f", reached at observation {shown.reached}"
    critical = draw_critical(ax, shown.critical, f"rejects at level {level:g}{text}")
    at = [] if shown.reached is None else [shown.reached]
    tail = draw_marks(ax, at, [shown.critical] * len(at), observed.get_color())
    low, high = min(0.0, float(shown.evidence.min())), max(shown.critical, float(shown.evidence.max()))
    pad = 0.05 * (high - low)
    ax.set_ylim(low - pad, high + pad)
    ax.set_xlabel("Number of observations")
    ax.set_ylabel("log10 of the e-value")
    return observed, none, tail, critical


class TestDisplay(AxesMixin):
    """Result of a test of calibration: observed statistic and null distribution.

    Make one with :meth:`from_predictions` or :meth:`from_estimator`, which run a test, or with
    :meth:`from_result`. There are three kinds of plot. "null": the null distribution of the statistic,
    simulated or asymptotic, with the observed statistic as a line; the dark area is at least as extreme as
    the observed value, and its fraction is the p-value. "scales": for a test with several parts (the numbers
    of bins of T-Cal, the bandwidths of a kernel test, the values of a binomial test, the components of a
    combined test), the evidence of each part: its statistic in units of the null standard deviation, or its
    p-value. "path": for a sequential test, the e-value after each observation.

    Parameters
    ----------
    result : CalibrationTestResult
        Result to show.
    name : str, default=None
        Title of the legend; the name of the test by default.

    Attributes
    ----------
    result : CalibrationTestResult
        What is shown.
    %(axes)s
    kind_ : {"null", "scales", "path"}
        Kind of the plot.
    observed_ : matplotlib Line2D
        "null": the line at the observed statistic. "scales": the points, one for each part. "path": the
        e-value, as a logarithm to base 10.
    null_ : matplotlib BarContainer, Line2D or LineCollection
        "null": the bars of the simulations that are less extreme, or the density. "scales": the stems, from
        0, or from a p-value of 1. "path": the line of an e-value of 1, no evidence.
    tail_ : matplotlib BarContainer, Collection or Line2D
        Evidence against the null hypothesis. "null": the bars or the area at least as extreme as observed.
        "scales": the filled points, whose own p-value is at most 1 - ``confidence``. "path": the point where
        the e-value first reached 1 / (1 - ``confidence``), if it did.
    critical_ : matplotlib Line2D or None
        "scales": the critical value. "path": the e-value of 1 / (1 - ``confidence``).

    See Also
    --------
    ReliabilityDisplay : Where and by how much the predictions are miscalibrated.

    Notes
    -----
    The histogram has an edge at the observed statistic, so that no bar contains simulations of both kinds;
    simulations that differ from it only by rounding count as ties. The Monte Carlo p-value also counts the
    observed sample: with N simulations it is 1 / (N + 1) if no bar is dark. For T-Cal the statistic is the
    smallest p-value of a scale, by default divided by the weight of the scale: small values are extreme. With
    ``combine="min-p"`` ties are broken by the standardised statistic, so that the dark fraction can exceed
    the p-value. The axis is logarithmic if such statistics span more than a factor of 20.

    "scales" shows adjusted p-values for the values of a binomial test, and unadjusted p-values for the
    components of a combined test. For scales it shows standardised statistics if the test compares these, as
    T-Cal does with ``combine="max"``; otherwise p-values, on a logarithmic axis that points down. A p-value
    of 0 is drawn above all others and labelled "0". The critical value is that of the largest statistic, or
    of the smallest p-value, by simulation. Without simulations it is that of a single scale; for statistics
    it is then the normal one, an approximation that is too small for few bins.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn_calib.inference import CutoffTest
    >>> from sklearn_calib.plot import TestDisplay
    >>> p = np.linspace(0.05, 0.95, 50)
    >>> test = CutoffTest(n_resamples=199, random_state=0)
    >>> display = TestDisplay.from_predictions(p > 0.4, p, test=test)
    >>> display.kind_
    'null'
    >>> print(display.observed_.get_label())
    observed 3.17
    >>> plt.close(display.figure_)
    """

    # the name does not make it a case for pytest
    __test__: ClassVar[bool] = False

    kind_: str
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

        Returns
        -------
        TestDisplay

        Raises
        ------
        TypeError
            If ``result`` is not the result of a test.
        ValueError
            If it does not contain the requested plot; the message says what to do.
        %(no_matplotlib)s
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
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
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
        sample_weight : array-like of shape (n,), default=None
            Frequencies.
        pos_label : label, default=None
            The positive class of a binary target.
        labels : array-like of shape (K,), default=None
            Class labels of three or more columns.
        clusters : array-like of shape (n,), default=None
            Label of the cluster of each sample, for tests that support clusters.
        name : str, default=None
            Title of the legend; the name of the test by default.
        %(passed_on)s

        Returns
        -------
        TestDisplay

        Raises
        ------
        TypeError
            If ``test`` is not a test of calibration.
        ValueError
            If an argument is malformed, as in ``test.test``, or the result does not contain the requested
            plot.
        %(no_matplotlib)s
        """
        result = as_test(test).test(
            y_true,
            y_proba,
            sample_weight=sample_weight,
            pos_label=pos_label,
            labels=labels,
            clusters=clusters,
        )
        return cls.from_result(result, name=name, ax=ax, **plot_params)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        pos_label: Any = None,
        test: str | CalibrationTest,
        **params: Any,
    ) -> Self:
        """Run a test on the probabilities that a fitted classifier predicts, and draw its result.

        Parameters
        ----------
        estimator : object
            Fitted classifier, or pipeline that ends in one, with ``predict_proba`` and ``classes_``.
        %(held_out)s
        test : CalibrationTest or str
            The test, which is not fitted, or its name, such as "tcal".
        **params : dict
            Passed to :meth:`from_predictions`, among them ``sample_weight``, ``name`` and ``ax``.

        Returns
        -------
        TestDisplay

        Raises
        ------
        TypeError
            If ``test`` is not a test of calibration, or the estimator does not predict probabilities.
        ValueError
            As in :meth:`from_predictions`, or if the estimator is multiclass and the test is binary.
        """
        test = as_test(test)
        forecast = estimator_predictions(estimator, X, pos_label, True)
        return cls.from_predictions(y, test=test, **forecast, **params)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        kind: Literal["auto", "null", "scales", "path"] = "auto",
        confidence: float = 0.95,
        name: str | None = None,
        show_legend: bool = True,
        **line_params: Any,
    ) -> Self:
        """Draw the test.

        Parameters
        ----------
        %(drawn_into)s
        kind : {"auto", "null", "scales", "path"}, default="auto"
            The null distribution, the evidence of each part of the test, or the e-value of a sequential test.
            "auto" is the last for a sequential test, else the first if the result has a null distribution.
        confidence : float, default=0.95
            1 minus the level of the critical value of "scales" and "path", and of the filled points.
        name : str, default=None
            Title of the legend; the display's own by default.
        show_legend : bool, default=True
            Whether to draw the legend.
        **line_params : dict
            Properties of the line or points of the observed values, such as ``color`` or ``linewidth``.

        Returns
        -------
        TestDisplay
            The display itself.

        Raises
        ------
        ValueError
            If the result does not contain the requested plot, the statistic is not finite, or a parameter is
            invalid.
        %(no_matplotlib)s
        """
        check_option(kind, "kind", _KINDS)
        # so that 0.9 is the level 0.1 in spite of rounding
        level = max(round(1.0 - check_fraction(confidence, "confidence"), 15), 1e-15)
        check_flags(show_legend=show_legend)
        shown = self._content(kind, level)
        drawn: tuple[Line2D, Any, Any, Line2D | None]
        ax = self._new_or(ax, 6.4, 4.2)
        line_params = full_names(line_params)
        if isinstance(shown, NullHistogram | NullCurve):
            self.kind_, drawn = "null", draw_null(ax, shown, self.result, line_params)
        elif isinstance(shown, ScaleEvidence):
            self.kind_, drawn = "scales", draw_scales(ax, shown, level, line_params)
        else:
            self.kind_, drawn = "path", draw_path(ax, shown, level, line_params)
        self.observed_, self.null_, self.tail_, self.critical_ = drawn
        if show_legend:
            given = self.name if name is None else name
            title = plain(self.result.test if given is None else given)
            legend_above(ax, title=f"{title}: {result_finding(self.result, level)}")
        return self

    def _content(self, kind: str, level: float) -> NullHistogram | NullCurve | ScaleEvidence | EvidencePath:
        """Return the contents of the plot, or raise if the result does not have them."""
        # of the samples that do not contradict predictions of 0 and 1
        result = self.result.clipped or self.result
        if isinstance(result, SequentialTestResult) and kind in ("auto", "path"):
            if not result.log_e_path.shape[0]:
                raise ValueError("result contains no observations, so there is no path to draw.")
            return evidence_path(result, level)
        if kind == "path":
            raise ValueError(
                f"kind='path' is for a SequentialTest, but the result is from {result.test!r}. "
                "Use kind='auto'."
            )
        check_option(result.tail, "result.tail", _TAILS)
        known = result.null_distribution is not None or bool(result.asymptotic_null)
        if kind == "null" or (kind == "auto" and known):
            if not known:
                raise ValueError(
                    f"kind='null' needs a null distribution, which this result of {result.test!r} "
                    f"({result.method}) does not have. {_ADVICE}"
                    + (", or use kind='scales'." if scale_evidence(result, level) else ".")
                )
            if not np.isfinite(result.statistic):
                raise ValueError(
                    f"The statistic of {result.test!r} is {result.statistic}, which cannot be shown on an "
                    f"axis. The p-value is {result.pvalue:.3g}: {result.reason}."
                )
            if result.null_distribution is None:
                return null_curve(result.asymptotic_null, result.statistic, result.tail)
            return null_histogram(result.null_distribution, result.statistic, result.tail)
        evidence = scale_evidence(result, level)
        if evidence is None:
            raise ValueError(
                f"The result of {result.test!r} ({result.method}) has "
                + ("" if kind == "scales" else "no null distribution and ")
                + "no scales to draw. "
                + ("Use kind='null'." if known else f"{_ADVICE}.")
            )
        return evidence
