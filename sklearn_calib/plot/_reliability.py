"""The reliability diagram, of one curve or of several."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, Literal, Self

from numpy.typing import ArrayLike

from sklearn_calib._docs import shared_docs
from sklearn_calib._validation import Outcomes, check_option, sample_arrays, shape_of, shown_label
from sklearn_calib.metrics._reductions import REDUCTIONS, check_problem
from sklearn_calib.plot._compute import CurveOptions
from sklearn_calib.plot._curve import ReliabilityCurve, mean_curve
from sklearn_calib.plot._draw import (
    CURVE,
    check_scale,
    draw_band,
    draw_departures,
    draw_diagonal,
    draw_distribution,
    draw_edges,
    draw_legend,
    draw_width,
    finish,
    set_scale,
)
from sklearn_calib.plot._estimator import DisplayMixin, axis_title
from sklearn_calib.plot._matplotlib import (
    check_axes,
    check_flags,
    full_names,
    new_axes,
    new_grid,
    next_style,
    plain,
)
from sklearn_calib.plot._parts import checked_groups, fold_samples, group_parts, reduced_parts

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D


_DENSITIES = ("strip", "classes", "rug", "width", "none")
_WIDTHS = {"binned": 1.2, "belt": 1.4, "corp": 1.9}
# With more curves than these, each has a diagram of its own; no bands; no strips.
_MOST_CURVES, _MOST_BANDS, _MOST_STRIPS = 5, 3, 4
_COLUMNS = 4
_THIN: dict[str, Any] = {"linewidth": 0.9, "alpha": 0.45, "linestyle": "-", "marker": "", "zorder": 3.2}


class ReliabilityDisplay(DisplayMixin):
    """Reliability diagram: observed event frequency against predicted probability.

    Make one with :meth:`from_predictions`, :meth:`from_estimator` or :meth:`from_cv_results`. A curve on the
    diagonal shows perfect calibration. Above the diagonal the model underpredicts, below it overpredicts. The
    band shows the sampling uncertainty of the curve, the strip below the diagram the distribution of the
    predictions, and the legend the calibration error.

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
        The widest band.
    bands_ : list of matplotlib Collection
        All bands; a belt has two.
    density_ : matplotlib Collection or None
        The distribution of the predictions.
    diagonal_ : matplotlib Line2D or None
        Line of perfect calibration; None if it was not asked for or the axes had one.
    departures_ : matplotlib Collection or None
        Marks on the diagonal where it lies outside a simultaneous band or a belt.
    edges_ : list of matplotlib Artist
        Marks at the edges of logit axes: predictions of 0 and 1, and bins with no events or only events.
    displays_ : list of ReliabilityDisplay
        The display itself; for a :class:`ReliabilityPanel`, its single displays.

    See Also
    --------
    ReliabilityPanel : Several classes, groups or folds.
    sklearn_calib.metrics.smooth_ece_result : The numbers behind the smooth curve.
    sklearn_calib.metrics.score_decomposition : The numbers behind ``method="corp"``.

    Notes
    -----
    **Curves.** The smooth curve is the kernel regression of the outcome on the prediction with a Gaussian
    reflected at 0 and 1 ([1]_, eq. 1). The authors use smooth ECE itself as the bandwidth,
    ``bandwidth="smooth_ece"``, and show the density of the predictions as the width of the curve,
    ``density="width"``. The area between curve and diagonal, weighted by that density, then differs from the
    error by up to 0.8 times the bandwidth (Lemma 10), so the error can be read off the diagram. But this
    bandwidth is too wide for a badly calibrated model and too narrow for a well calibrated one. "auto" is
    therefore at most Silverman's rule for the predictions, 1.06 sd(p) n^(-1/5) [2]_. If smooth ECE is
    smaller, it is the widest of eight bandwidths between the two whose leave-one-out Brier score is within
    one standard error of the best. "auto" smooths residuals, r(t) = t + sum K (y - p) / sum K, which
    removes the bias of wide kernels near 0 and 1. On logit axes "auto" is Silverman's rule for the log-odds,
    and the kernel is not reflected. The number in the legend is always smooth ECE. The curve is drawn within
    the range of the predictions where at least five of them, each with weight exp(-d^2 / 2s^2) at distance
    d, support it.

    "corp" is the isotonic regression of the outcome on the prediction [3]_: constant on blocks of
    predictions, with straight lines between blocks. It has no tuning parameter and decomposes the Brier score
    into MCB - DSC + UNC: miscalibration, discrimination, uncertainty. "binned" shows the event frequency
    against the mean prediction in bins.

    "belt" is the calibration belt used in medicine, for external validation [4]_: the log-odds of the event
    are modelled as a polynomial of the log-odds of the prediction, whose degree increases from 1 to at most 4
    while the likelihood-ratio test of the next coefficient rejects at level 0.05. The belts, at
    ``confidence`` and at 0.8, invert the likelihood-ratio test of all coefficients; the p-value in the legend
    is for the null hypothesis of perfect calibration. Both use the asymptotic distribution of the statistic
    given the selected degree, which accounts for the selection. More than 2048 distinct predictions are
    binned first.

    **Bands.** "confidence" is pointwise. For a smooth curve: Wilson's score interval [5]_ of the observed
    frequency, with the effective size (sum w K)^2 / sum w^2 K^2 of the kernel's window as the number of
    trials. It covers the smoothed event frequency, which differs from the true one where that is curved
    within a bandwidth. For bins: the exact Clopper-Pearson interval for the mean event probability of the
    bin. For "corp": at each point, the largest lower and smallest upper bound of exact intervals from
    neighbouring predictions, at levels adjusted for their number; valid for samples of any size if event
    probabilities are non-decreasing in the prediction. (The bootstrap is inconsistent for isotonic
    regression.)

    "consistency" simulates all labels from the predictions, ``n_resamples`` times, computes the curve anew
    with the same bandwidth or bins, and shows pointwise quantiles. Parts of a calibrated curve can leave this
    band, since each point does so with probability 1 - ``confidence``.

    "simultaneous" bounds the whole curve of event probabilities at once, assuming that it is non-decreasing
    [6]_: exact intervals of pooled frequencies for runs of neighbouring predictions, at levels that add up to
    1 - ``confidence``, bound the curve to their left from above and to their right from below. It is valid
    for samples of any size and any distribution of the predictions. Predictions are first binned, regardless
    of the outcomes, into at most 4.5 n^(1/3) bins of equal mass (and at most 500), and runs have lengths in
    geometric progression. This is fast, and for a thousand samples about 10% narrower than with all runs of
    all predictions. Where the diagonal leaves the band, it is marked: perfect calibration is rejected. Where
    the limits cross, there is evidence that the curve decreases, and the legend says so. Predictions with few
    distinct values have bars at each value, where the limits are narrower than between the values.

    Integer weights count repetitions. Other weights are sampling weights (Kish's effective size), which exact
    bands for "corp", "simultaneous" and belts do not support.

    References
    ----------
    .. [1] J. Blasiok and P. Nakkiran (2024). Smooth ECE: Principled Reliability Diagrams via Kernel
       Smoothing. ICLR. arXiv:2309.12236
    .. [2] B. W. Silverman (1986). Density Estimation for Statistics and Data Analysis. Chapman and Hall.
    .. [3] T. Dimitriadis, T. Gneiting and A. I. Jordan (2021). Stable reliability diagrams for probabilistic
       classifiers. PNAS 118. arXiv:2008.03033
    .. [4] G. Nattino, S. Finazzi and G. Bertolini (2014). A new calibration test and a reappraisal of the
       calibration belt for the assessment of prediction models based on dichotomous outcomes. Statistics in
       Medicine 33.
    .. [5] E. B. Wilson (1927). Probable inference, the law of succession, and statistical inference. JASA 22.
    .. [6] T. Dimitriadis, L. Duembgen, A. Henzi, M. Puke and J. Ziegel (2023). Honest calibration assessment
       for binary outcome predictions. Biometrika 110. arXiv:2203.04065

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn_calib.plot import ReliabilityDisplay
    >>> y_true, y_proba = [0, 1, 0, 1, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]
    >>> display = ReliabilityDisplay.from_predictions(y_true, y_proba, name="forecast")
    >>> print(display.line_.get_label())
    forecast: smECE = 0.140
    >>> corp = ReliabilityDisplay.from_predictions(y_true, y_proba, method="corp", band="simultaneous")
    >>> print(corp.curve)
    corp reliability curve: MCB = 0.0792, DSC = 0.0885, UNC = 0.2344 (n = 8)
    >>> print(corp.curve.bands[0])
    95% confidence band (simultaneous); contains the diagonal
    >>> plt.close("all")
    """

    line_: Line2D
    band_: Collection | None
    bands_: list[Collection]
    density_: Collection | None
    diagonal_: Line2D | None
    departures_: Collection | None
    edges_: list[Artist]
    displays_: list[ReliabilityDisplay]

    def __init__(self, curve: ReliabilityCurve, *, name: str | None = None, pos_label: Any = None) -> None:
        self.curve = curve
        self.name = name
        self.pos_label = pos_label

    @classmethod
    def from_predictions(
        cls,
        y_true: Outcomes,
        y_proba: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        reduction: Literal["classwise", "confidence", "top-label"] | None = None,
        groups: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        method: Literal["smooth", "binned", "corp", "isotonic", "belt"] = "smooth",
        band: Literal["confidence", "consistency", "simultaneous", "none"] | None = "confidence",
        bandwidth: float | Literal["auto", "smooth_ece"] = "auto",
        n_bins: int = 15,
        strategy: Literal["uniform", "quantile"] = "uniform",
        scale: Literal["probability", "logit"] = "probability",
        confidence: float = 0.95,
        error_interval: bool = False,
        n_resamples: int = 999,
        random_state: Any = 0,
        layout: Literal["overlay", "grid"] | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> ReliabilityDisplay | ReliabilityPanel:
        """Draw the reliability diagram of predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,) or CalibrationSketch
            Labels of two or more classes.
        y_proba : array-like of shape (n,), (n, 1), (n, 2) or (n, K), default=None
            Predicted probabilities in [0, 1] of the positive class; of two columns the last is used. Three or
            more columns are the probabilities of the classes. Omitted with a sketch.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. Exact bands need integer weights, which count repetitions.
        %(pos_label)s
        labels : array-like of shape (K,), default=None
            Class labels of three or more columns, in sorted order.
        reduction : {"classwise", "confidence", "top-label"}, default=None
            Reduction of multiclass predictions. "classwise", the default for three or more classes: one curve
            for each class against the rest. "confidence": the largest probability of each sample against
            whether the predicted class is correct. "top-label": the same within the samples of each predicted
            class. The latter two also apply to binary predictions.
        groups : array-like of shape (n,), default=None
            Group of each sample: one curve for each group, with its own number.
        clusters : array-like of shape (n,), default=None
            Label of the cluster (patient, customer, day) of each sample, within which outcomes can depend on
            each other. The bands "confidence" and "consistency" allow for it; the other bands, the belt and
            ``method="corp"`` with a confidence band assume independent samples and raise an error.
        method : {"smooth", "binned", "corp", "isotonic", "belt"}, default="smooth"
            Kernel regression; frequencies in bins; isotonic regression with the decomposition of the Brier
            score ("corp", also named "isotonic"); or polynomial recalibration with its calibration belt. See
            the notes of the class.
        band : {"confidence", "consistency", "simultaneous", "none"} or None, default="confidence"
            "confidence": pointwise, around the curve. "consistency": pointwise, around the diagonal, where
            the curve would lie under perfect calibration. "simultaneous": for the whole curve of event
            probabilities at once, assuming that it is non-decreasing. A belt has its own band.
        bandwidth : float or {"auto", "smooth_ece"}, default="auto"
            Bandwidth of ``method="smooth"``, in units of probability or, for ``scale="logit"``, of log-odds.
            "smooth_ece" uses that of smooth ECE; "auto" uses Silverman's rule or a smaller one chosen by
            cross-validation.
        n_bins : int, default=15
            Number of bins of ``method="binned"``.
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width or of equal mass. The latter suit rare events.
        scale : {"probability", "logit"}, default="probability"
            Scale of both axes. "logit" suits rare events: smoothing takes place in log-odds, the error of a
            smooth curve is smooth ECE on the logit scale, and predictions of exactly 0 or 1 are drawn at the
            edge and listed in the legend.
        confidence : float, default=0.95
            Confidence level of the band and of the interval of the error. A belt is also drawn at 0.8.
        error_interval : bool, default=False
            Whether to show the bias-corrected error with its confidence interval in the legend, by
            :func:`~sklearn_calib.inference.confidence_interval` (``random_state=0``). Costs about two
            thousand evaluations of the error; weights must then be integers.
        n_resamples : int, default=999
            Number of simulated samples for ``band="consistency"``.
        random_state : int, Generator, RandomState or None, default=0
            Seed or source of the simulations.
        layout : {"overlay", "grid"}, default=None
            Several curves in one diagram, or each in its own. By default "overlay" if there are at most five
            or ``ax`` is given.
        name : str, default=None
            Name of the model in the legend.
        %(passed_on)s

        Returns
        -------
        ReliabilityDisplay or ReliabilityPanel
            A panel, whose ``displays_`` are the single ones, for ``groups`` or multiclass predictions, unless
            ``reduction="confidence"``.

        Raises
        ------
        %(malformed)s
        %(no_matplotlib)s
        """
        options = CurveOptions(
            method=method,
            band=band,
            bandwidth=bandwidth,
            n_bins=n_bins,
            strategy=strategy,
            confidence=confidence,
            error_interval=error_interval,
            scale=scale,
            n_resamples=n_resamples,
            random_state=random_state,
        )
        if layout is not None:
            check_option(layout, "layout", ("overlay", "grid"))
        if reduction is not None:
            check_option(reduction, "reduction", REDUCTIONS)
        _check_density(plot_params)
        label = shown_label(y_true, pos_label)
        y_true, y_proba, sample_weight = sample_arrays(
            y_true, y_proba, sample_weight, pos_label, groups, clusters
        )
        problem = check_problem(y_true, y_proba, sample_weight, pos_label, labels, clusters)
        if isinstance(problem, list):
            raise ValueError(
                "y_true has one column per label, and a reliability diagram shows one label. Pass its column "
                "of y_true and of y_proba."
            )
        parts = reduced_parts(problem, reduction or "classwise")
        judged = reduction in ("confidence", "top-label")
        axes = ("Confidence", "Accuracy") if judged else ("Predicted probability", "Observed frequency")
        if groups is not None:
            if len(parts) > 1:
                raise ValueError(
                    f"groups cannot be combined with {len(parts)} classes. Pass reduction='confidence', or "
                    "the column of one class."
                )
            keys = checked_groups(groups, sample_weight, shape_of(y_proba, "y_proba")[0])
            parts = group_parts(parts[0].sample, keys)
        elif len(parts) == 1:
            display = cls(options.curve(parts[0].sample), name=name, pos_label=None if judged else label)
            display._axes = axes
            return display.plot(ax, **plot_params)
        for part in parts:
            options.check_sample(part.sample)
        displays = [cls(options.curve(part.sample), name=part.name) for part in parts]
        for display in displays:
            display._axes, display._brief = axes, True
            display.pos_label = None if judged or groups is None else label
        return ReliabilityPanel(displays, name=name, layout=layout).plot(ax, **plot_params)

    @classmethod
    def from_cv_results(
        cls,
        cv_results: dict[str, Any],
        X: Any,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        summary: Literal["pooled", "mean"] = "pooled",
        name: str | None = None,
        ax: Axes | None = None,
        **params: Any,
    ) -> ReliabilityPanel:
        """Draw the reliability curves of cross-validation folds as thin lines, and a summary as a thick one.

        Parameters
        ----------
        cv_results : dict
            What :func:`sklearn.model_selection.cross_validate` returned with ``return_estimator=True`` and
            ``return_indices=True``, for a binary classifier.
        X : array-like of shape (n, n_features)
            The data passed to ``cross_validate``.
        y : array-like of shape (n,)
            Their labels.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights.
        pos_label : label, default=None
            The positive class; ``classes_[1]`` by default.
        summary : {"pooled", "mean"}, default="pooled"
            The summary curve. "pooled": the curve of the out-of-fold predictions of all folds, with its band
            and error; outcomes of different folds are treated as independent given the predictions. "mean":
            the mean of the curves where all of them exist, plus or minus one standard deviation across folds;
            the error is the mean over folds with its standard deviation.
        name : str, default=None
            Name in the legend; the class of the estimators by default.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        **params : dict
            Parameters of :meth:`from_predictions`, such as ``method`` and ``scale``, and of :meth:`plot` for
            the summary curve.

        Returns
        -------
        ReliabilityPanel
            Its ``displays_`` are those of the folds, and ``summary_`` is the summary.

        Raises
        ------
        TypeError
            If the estimators do not predict probabilities.
        ValueError
            If ``cv_results`` lacks estimators or indices, or an argument is malformed.
        %(no_matplotlib)s
        """
        check_option(summary, "summary", ("pooled", "mean"))
        _check_density(params)
        known = {key: params.pop(key) for key in CurveOptions.__dataclass_fields__ if key in params}
        options = CurveOptions(**known)
        if summary == "mean" and options.method == "belt":
            raise ValueError("summary='mean' does not support method='belt'. Use summary='pooled'.")
        folds, pooled, default_name = fold_samples(cv_results, X, y, sample_weight, pos_label)
        plain_options = CurveOptions(**known | {"band": "none", "error_interval": False})
        curves = [plain_options.curve(fold) for fold in folds]
        summarized = mean_curve(curves) if summary == "mean" else options.curve(pooled)
        whole = cls(summarized, name=f"{summary}, {len(folds)} folds", pos_label=pos_label)
        displays = [
            cls(curve, name=f"fold {number}", pos_label=pos_label) for number, curve in enumerate(curves)
        ]
        title = default_name if name is None else name
        panel = ReliabilityPanel(displays, name=title, layout="overlay", summary=whole)
        return panel.plot(ax, **params)

    _multiclass = True
    _axes = ("Predicted probability", "Observed frequency")
    _brief = False

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        show_band: bool = True,
        density: Literal["strip", "classes", "rug", "width", "none"] = "strip",
        show_diagonal: bool = True,
        show_legend: bool = True,
        **line_params: Any,
    ) -> Self:
        """Draw the diagram.

        Several displays can share axes; each is drawn in its own colour and line style.

        Parameters
        ----------
        %(drawn_into)s
        name : str, default=None
            Name in the legend; the display's own by default.
        show_band : bool, default=True
            Whether to draw the band.
        density : {"strip", "classes", "rug", "width", "none"}, default="strip"
            How to show the distribution of the predictions: a histogram in a strip below the diagram;
            histograms of events (upward) and non-events (downward) in the strip; ticks for single
            predictions, those of events in the upper half of the strip; the width of the curve (for bins, the
            area of the markers); or not at all.
        show_diagonal : bool, default=True
            Whether to draw the line of perfect calibration, once per axes.
        show_legend : bool, default=True
            Whether to draw the legend.
        **line_params : dict
            Properties of the curve, such as ``color`` or ``linewidth``; band and strip use the same colour.

        Returns
        -------
        ReliabilityDisplay
            The display itself.

        Raises
        ------
        ValueError
            If ``density`` is not one of the options, or ``ax`` holds a diagram with another scale.
        %(no_matplotlib)s
        """
        check_option(density, "density", _DENSITIES)
        check_flags(
            show_band=show_band,
            show_diagonal=show_diagonal,
            show_legend=show_legend,
        )
        ax = self._new_or(ax, 5.2, 5.2)
        line_params = full_names(line_params)
        curve = self.curve
        check_scale(ax, curve.scale)
        color, dashes = next_style(ax, CURVE)
        set_scale(ax, curve)
        line: dict[str, Any] = {"color": color, "linestyle": dashes, "zorder": 4}
        line["linewidth"] = _WIDTHS.get(curve.method, 2.2)
        if curve.method == "binned":
            line |= {"marker": "o", "markersize": 5}
        if density == "width":
            line |= {"linewidth": 0.9, "markersize": 3}
        line |= {"label": self._label(name)} | line_params
        self.diagonal_ = draw_diagonal(ax) if show_diagonal else None
        (self.line_,) = ax.plot(curve.predicted, curve.observed, gid=CURVE, **line)
        used = self.line_.get_color()
        bands = curve.bands if show_band else ()
        self.bands_ = [draw_band(ax, band, used) for band in bands]
        self.band_ = self.bands_[-1] if self.bands_ else None
        self.departures_ = draw_departures(ax, bands[-1], used) if bands else None
        if density == "width":
            self.density_ = draw_width(ax, curve, self.line_)
        else:
            self.density_ = None if density == "none" else draw_distribution(ax, curve, used, density)
        limits = finish(ax, curve)
        self.edges_ = draw_edges(ax, curve, used, limits)
        ax.set_xlabel(axis_title(self._axes[0], self.pos_label))
        ax.set_ylabel(axis_title(self._axes[1], self.pos_label))
        self.displays_ = [self]
        if show_legend:
            draw_legend(ax, [curve])
        return self

    def _label(self, name: str | None) -> str:
        number = self.curve.label(4 if self.curve.scale == "logit" or self.curve.method == "corp" else 3)
        # three components of a score are too long for one line, and uncertainty hardly differs between curves
        number = number.partition(", UNC")[0] if self._brief else number.replace(", DSC", "\nDSC")
        return self._named(number, name)


@shared_docs
class ReliabilityPanel:
    """Reliability diagrams of several classes, groups or folds.

    :meth:`ReliabilityDisplay.from_predictions` returns it for multiclass predictions or ``groups``, and
    :meth:`ReliabilityDisplay.from_cv_results` for folds. The artists are attributes of the single displays.

    Parameters
    ----------
    displays : list of ReliabilityDisplay
        The single diagrams.
    name : str, default=None
        Title of the legend, or of the figure.
    layout : {"overlay", "grid"}, default=None
        All curves in one diagram, or each in its own. By default "overlay" if there are at most five or axes
        are given.
    summary : ReliabilityDisplay, default=None
        Display drawn as a thick line over the others, which are then thin.

    Attributes
    ----------
    displays_ : list of ReliabilityDisplay
        The single displays, after :meth:`plot`.
    summary_ : ReliabilityDisplay or None
        The summary display.
    axes_ : list of matplotlib Axes
        Their axes, one for all or one each.
    ax_ : matplotlib Axes
        The first of them.
    figure_ : matplotlib Figure
        Figure containing them.

    See Also
    --------
    ReliabilityDisplay : A single diagram.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn_calib.plot import ReliabilityDisplay
    >>> y_true, y_proba = [0, 1, 0, 1, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]
    >>> panel = ReliabilityDisplay.from_predictions(y_true, y_proba, groups=list("aabbaabb"))
    >>> [display.name for display in panel.displays_]
    ['a (n = 4)', 'b (n = 4)']
    >>> plt.close(panel.figure_)
    """

    displays_: list[ReliabilityDisplay]
    summary_: ReliabilityDisplay | None
    axes_: list[Axes]
    ax_: Axes
    figure_: Figure | SubFigure

    def __init__(
        self,
        displays: list[ReliabilityDisplay],
        *,
        name: str | None = None,
        layout: Literal["overlay", "grid"] | None = None,
        summary: ReliabilityDisplay | None = None,
    ) -> None:
        self.displays = displays
        self.name = name
        self.layout = layout
        self.summary = summary

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        show_band: bool = True,
        density: Literal["strip", "classes", "rug", "width", "none"] = "strip",
        show_diagonal: bool = True,
        show_legend: bool = True,
        **line_params: Any,
    ) -> Self:
        """Draw the diagrams.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw all of them; a new figure by default.
        name : str, default=None
            Title of the legend or of the figure; the display's own by default.
        show_band, density, show_diagonal, show_legend
            As in :meth:`ReliabilityDisplay.plot`. In one diagram, bands are drawn for up to three curves and
            strips for up to four.
        **line_params : dict
            Properties of all curves, or of the summary curve if there is one.

        Returns
        -------
        ReliabilityPanel
            The display itself.

        Raises
        ------
        ValueError
            If ``layout="grid"`` and axes are given, or an argument is invalid.
        %(no_matplotlib)s
        """
        check_flags(
            show_band=show_band,
            show_diagonal=show_diagonal,
            show_legend=show_legend,
        )
        check_option(density, "density", _DENSITIES)
        check_axes(ax)
        title = self.name if name is None else name
        layout = self.layout
        if layout is not None:
            check_option(layout, "layout", ("overlay", "grid"))
        if layout == "grid" and ax is not None:
            raise ValueError("layout='grid' creates a new figure. Omit ax, or use layout='overlay'.")
        number = len(self.displays)
        grid = layout == "grid" or (layout is None and ax is None and number > _MOST_CURVES)
        if self.summary is None:
            crowded = 0 if grid else number
            strips = crowded <= _MOST_STRIPS or density == "width"
            shown: dict[str, Any] = {
                "show_band": show_band and crowded <= _MOST_BANDS,
                "density": density if strips else "none",
            }
        else:
            shown = _THIN | {"show_band": False, "density": "none", "label": "_fold"}
        shown["show_diagonal"] = show_diagonal
        if grid:
            self.axes_ = self._plot_grid(title, show_legend, shown | line_params)
        else:
            self.axes_ = [new_axes() if ax is None else ax]
            thick: dict[str, Any] = {"show_band": show_band, "density": density}
            self._plot_overlay(self.axes_[0], title, show_legend, shown, thick, line_params)
        self.displays_, self.summary_ = self.displays, self.summary
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        return self

    def _plot_grid(self, title: str | None, show_legend: bool, params: dict[str, Any]) -> list[Axes]:
        number = len(self.displays)
        # few empty places, and not too wide
        columns = number if number <= _COLUMNS else min((4, 5, 3), key=lambda width: -number % width)
        axes = new_grid(ceil(number / columns), columns, 3.0)
        for place in axes[number:]:
            place.set_axis_off()
        for index, (place, display) in enumerate(zip(axes, self.displays, strict=False)):
            display.plot(place, show_legend=False, **params)
            place.set_title(plain(str(display.name)))
            if show_legend:
                display.line_.set_label(display._label("").removeprefix(": "))
                # bands and the diagonal are in the legend once
                draw_legend(place, [display.curve], display.line_ if index else None)
            if index % columns:
                place.set_ylabel("")
            if index + columns < number:
                place.set_xlabel("")
            else:
                place.tick_params(labelbottom=True)
        if title is not None:
            axes[0].figure.suptitle(plain(title))
        return axes[:number]

    def _plot_overlay(
        self,
        ax: Axes,
        title: str | None,
        show_legend: bool,
        params: dict[str, Any],
        thick: dict[str, Any],
        line_params: dict[str, Any],
    ) -> None:
        if self.summary is None:
            for display in self.displays:
                display.plot(ax, show_legend=False, **params | line_params)
        else:
            # all folds look alike
            line_params = full_names(line_params)
            color = line_params.get("color", next_style(ax, CURVE)[0])
            for index, display in enumerate(self.displays):
                named = {"label": "_fold" if index else "single folds", "color": color}
                display.plot(ax, show_legend=False, **params | named)
            style = {"color": color, "linestyle": "-", "linewidth": 2.8, "show_diagonal": False}
            self.summary.plot(ax, show_legend=False, **style | thick | line_params)
        if show_legend:
            last = self.displays if self.summary is None else [self.summary]
            legend = draw_legend(ax, [display.curve for display in last])
            if title is not None:
                legend.set_title(plain(title))


def _check_density(plot_params: dict[str, Any]) -> None:
    """Check the arguments for :meth:`ReliabilityDisplay.plot` before anything is computed."""
    check_option(plot_params.get("density", "strip"), "density", _DENSITIES)
