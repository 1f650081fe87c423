"""The reliability diagram."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor, log10
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.utils import check_consistent_length

from sklearn_calib import _validation
from sklearn_calib._compat import safe_indexing
from sklearn_calib._core._grouping import group_sample
from sklearn_calib._docs import shared_docs
from sklearn_calib._html import number_text
from sklearn_calib._typing import Array, Weights
from sklearn_calib.metrics._reductions import check_problem, class_samples, label_names
from sklearn_calib.metrics._scores import brier_score, roc_auc
from sklearn_calib.metrics._summary import recalibration_intervals
from sklearn_calib.plot._bands import ReliabilityBand
from sklearn_calib.plot._curve import ReliabilityCurve, reliability_curve
from sklearn_calib.plot._estimator import DisplayMixin, axis_title, estimator_predictions
from sklearn_calib.plot._matplotlib import (
    BAND,
    GREY,
    MARGIN,
    closes_figures,
    curves_of,
    draw_curve,
    few_bands,
    full_names,
    given_axes,
    legend_below,
    new_grid,
    set_range,
    unless_drawn,
)
from sklearn_calib.plot._smooth_curve import FAR, beyond, hidden_note, shown_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.lines import Line2D


_CURVE, _HISTOGRAM, _DIAGONAL = "sklearn_calib.reliability", "sklearn_calib.histogram", "perfect calibration"
_ANNOTATION = "sklearn_calib.annotation"
# Attribute of axes with the curves drawn on them, which is pickled with the figure.
_DRAWN = "_sklearn_calib_curves"
# Height of the histogram and its distance from the diagram, as fractions of the axes.
_HEIGHT, _GAP = 0.13, 0.02
# Scales of all histograms of a figure. Axes lower than so many inches have one tick of counts, or none, and
# those whose ticks would be nearer to each other have one.
_SCALES, _LOW, _NEAR = ("linear", "log"), (1.7, 1.25), 0.13
# Most histograms that are drawn as outlines; each of more has its own row.
_OUTLINES = 3
# Both axes show the same range, unless that of the curves is so many times as long on the vertical one.
_STEEPEST = 3.0
# Bars of single points extend the vertical axis by at most so many of its lengths on each side.
_LONGEST = 4.0
# Ratio of the longest bar to the shortest from which the axis of counts is logarithmic.
_UNEQUAL = 50.0
# Decades of odds by which frequencies of a kernel curve can exceed the predictions on a logit axis.
_BEYOND = 0.5
# Width in points of a kernel curve at the density of uniform predictions, and its limits as multiples of it.
_WIDTH, _WIDTHS = 3.0, (0.2, 3.5)
# Most columns of a grid of up to six diagrams and of larger ones.
_COLUMNS = (3, 4)
# Letters in an inch of its titles, fewest in a line, and inches from which its legend is one line.
_LETTERS, _FEWEST, _WIDE = 16.5, 12, 6.5
_CURVE_OPTIONS = ("curve", "n_bins", "strategy", "band", "confidence", "scale", "sharpness")
# Distance from 0 and 1 of points that stand for them on a logit axis, where these are at infinity.
_NEVER_SHOWN = 1e-12
_ROUNDING = 1e-9


class ReliabilityDisplay(DisplayMixin):
    """Reliability diagram: observed event frequency against predicted probability.

    Make one with :meth:`from_predictions`, :meth:`from_estimator` or :meth:`from_cv_results`. A curve on the
    diagonal shows perfect calibration. Above the diagonal the model underpredicts, below it overpredicts. The
    band shows the sampling uncertainty of the curve, the histogram the number of predictions, and the legend
    the calibration error. The axes end at the largest prediction if all are below 1/2, and begin at the
    smallest if all are above. Several displays can be drawn on the same axes.

    Parameters
    ----------
    curve : ReliabilityCurve
        What to show.
    name : str, default=None
        Name of the model in the legend.
    pos_label : label, default=None
        The positive class, named on the axes if given.
    annotation : str, default=None
        Text in a corner of the diagram: the upper left one, unless the curve is there.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the diagram, after :meth:`plot`.
    ax_histogram_ : matplotlib Axes or None
        Axes with the histogram, within the lower part of ``ax_``.
    figure_ : matplotlib Figure
        Figure containing it.
    line_ : matplotlib Line2D
        The curve.
    band_ : matplotlib Collection or None
        The band; with more than three curves on the axes bands are removed, and the legend says so.

    See Also
    --------
    reliability_grid : One diagram for each class, label, group or model.
    sklearn_calib.metrics.smooth_ece_result : Kernel regression of the outcomes, and smooth ECE.
    sklearn_calib.metrics.score_decomposition : The numbers behind ``curve="isotonic"``.

    Notes
    -----
    The smooth curve is logit P(y = 1 | p) = logit p + a(p). A straight line a is not penalized; changes of
    its slope are, at twelve strengths, whose fits are averaged by their marginal likelihood. Where
    predictions take few values, points with exact intervals are drawn instead, also for many predictions of
    exactly 0 or 1 beside a curve. The number in the legend is smooth ECE. "isotonic" (CORP [1]_) decomposes
    the Brier score into MCB - DSC + UNC: miscalibration, discrimination, uncertainty. "binned" shows the
    event frequency against the mean prediction in bins. "kernel" is the diagram of the authors of smooth
    ECE [3]_: the kernel regression of the outcomes at its bandwidth, where a prediction is within it, with
    the density of the predictions as the width of the line, and optionally the sharpness of a score [4]_.
    It shows smooth ECE as an area, but flattens steep curves.

    "confidence" bands are pointwise: for the smooth curve from the posterior variance of a, assuming a curve
    without jumps; exact Clopper-Pearson intervals for points and bins; and for "isotonic" exact bounds, valid
    if event probabilities are non-decreasing in the prediction. "consistency" shows pointwise quantiles of
    the curves of labels simulated from the predictions. "simultaneous" bounds the whole curve of event
    probabilities, assuming that it is non-decreasing [2]_: where the diagonal leaves the band, perfect
    calibration is rejected, and where the limits cross, there is evidence that the curve decreases.
    "bootstrap" shows how much the smooth or kernel curve varies; it is not a confidence band for event
    probabilities.

    The smallest and the largest 0.05% of the predictions do not determine the axes; the legend says how many
    are not shown.
    docs/plots.md has the details of curves, axes and bands, where bands do not cover, and what weights
    change.

    References
    ----------
    .. [1] T. Dimitriadis, T. Gneiting and A. I. Jordan (2021). Stable reliability diagrams for probabilistic
       classifiers. PNAS 118. arXiv:2008.03033
    .. [2] T. Dimitriadis, L. Duembgen, A. Henzi, M. Puke and J. Ziegel (2023). Honest calibration assessment
       for binary outcome predictions. Biometrika 110. arXiv:2203.04065
    .. [3] J. Blasiok and P. Nakkiran (2024). Smooth ECE: Principled Reliability Diagrams via Kernel
       Smoothing. ICLR. arXiv:2309.12236
    .. [4] M. Chidambaram and R. Ge (2024). Reassessing How to Compare and Improve the Calibration of Machine
       Learning Models. arXiv:2406.04068

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn_calib.plot import ReliabilityDisplay
    >>> y_true, y_proba = [0, 1, 0, 1, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]
    >>> display = ReliabilityDisplay.from_predictions(y_true, y_proba, name="forecast")
    >>> print(display.line_.get_label())
    forecast: smECE = 0.140
    >>> isotonic = ReliabilityDisplay.from_predictions(
    ...     y_true, y_proba, curve="isotonic", band="simultaneous"
    ... )
    >>> print(isotonic.curve)
    isotonic reliability curve: MCB = 0.0792, DSC = 0.0885, UNC = 0.2344 (n = 8)
    >>> print(isotonic.curve.band)
    95% confidence band (simultaneous); contains the diagonal
    >>> plt.close("all")
    """

    _multiclass = True
    ax_histogram_: Axes | None
    line_: Line2D
    band_: Collection | None

    def __init__(
        self,
        curve: ReliabilityCurve,
        *,
        name: str | None = None,
        pos_label: Any = None,
        annotation: str | None = None,
    ) -> None:
        self.curve = curve
        self.name = name
        self.pos_label = pos_label
        self.annotation = annotation

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        curve: Literal["smooth", "kernel", "binned", "isotonic"] = "smooth",
        n_bins: int | ArrayLike = 15,
        strategy: Literal["auto", "uniform", "quantile"] = "auto",
        band: Literal["auto", "confidence", "consistency", "simultaneous", "bootstrap"] | None = "auto",
        confidence: float = 0.95,
        scale: Literal["probability", "logit"] = "probability",
        sharpness: Literal["brier", "log_loss"] | None = None,
        annotate: bool = False,
        sample_weight: ArrayLike | None = None,
        weights: Weights = "sampling",
        clusters: ArrayLike | None = None,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the reliability diagram of binary predictions.

        Parameters
        ----------
        %(binary_sample)s
        curve : {"smooth", "kernel", "binned", "isotonic"}, default="smooth"
            Penalized shift of log-odds, or points where predictions take few values; kernel regression at the
            bandwidth of smooth ECE; frequencies in bins; or isotonic regression (CORP) with the decomposition
            of the Brier score. See the notes of the class.
        n_bins : int or array-like of edges, default=15
            Number of bins of ``curve="binned"``, or their edges, which increase from 0 to 1.
        strategy : {"auto", "uniform", "quantile"}, default="auto"
            Bins of equal width or of equal weight; not used with edges. "auto" is "uniform", on logit axes
            "quantile", and on axes that do not reach from 0 to 1 bins of equal expected number of the rarer
            outcome. A bin is [a, b) and the last one is closed, as in :func:`numpy.histogram`;
            :func:`sklearn.calibration.calibration_curve` places a prediction on an edge in the lower bin.
        band : {"auto", "confidence", "consistency", "simultaneous", "bootstrap"} or None, default="auto"
            Type of the band; see the notes of the class. "auto" is "confidence", but "bootstrap" for the
            kernel curve, and None with ``sharpness``. "bootstrap" is for the smooth and the kernel curve.
        confidence : float, default=0.95
            Confidence level of the band.
        scale : {"probability", "logit"}, default="probability"
            Scale of both axes. "logit" suits rare events; the error of a smooth curve is then smooth ECE
            on the logit scale. Predictions of exactly 0 or 1 are not drawn.
        sharpness : {"brier", "log_loss"} or None, default=None
            Score of the calibration-sharpness diagram, for the kernel curve: the height of an area around it
            is the score that is expected after calibration, times the density of the predictions. With
            three or more classes, ``y_proba`` has a column for each, and the curve is that of the predicted
            class. See docs/plots.md.
        annotate : bool, default=False
            Whether to write slope, intercept and observed/expected ratio with their intervals, those of
            :func:`~sklearn_calib.metrics.calibration_summary`, the AUC (c-statistic) and the Brier score into
            the diagram, as reports of clinical prediction models do.
        %(inference_weight)s
        clusters : array-like of shape (n,), default=None
            Label of the cluster (patient, customer, day) of each sample, within which outcomes can depend on
            each other. The bands "confidence", "consistency" and "bootstrap" allow for it; "simultaneous",
            and "confidence" for the isotonic curve, assume independent samples and raise an error.
        %(pos_label_or_labels)s
        %(named_picture)s
        """
        given = {"y_true": y_true, "y_proba": _validation.label_columns(y_proba)}
        widest = 2.0 if sharpness is None else np.inf
        for (argument, values), most in zip(given.items(), (1.0, widest), strict=True):
            if max(_validation.shape_of(values, argument)[1:], default=1) > most:
                raise ValueError(
                    f"{argument} has shape {_validation.shape_of(values, argument)}, but this diagram is "
                    "for a binary target. Draw one per class or label by reliability_grid(y_true, y_proba)."
                )
        classes: Any = None
        if max(_validation.shape_of(given["y_proba"], "y_proba")[1:], default=1) > 2:
            classes = check_problem(
                y_true, y_proba, sample_weight, pos_label, labels, clusters, weights=weights
            )
            sample, pos_label = class_samples(classes, "confidence")[0], "predicted class"
        else:
            if labels is not None:
                pos_label = _validation.positive_label(y_true, labels, pos_label)
            sample = _validation.check_binary(
                y_true, y_proba, sample_weight, pos_label, clusters, weights=weights
            )
        options: Any = {"sharpness": sharpness, "classes": classes}
        estimate = reliability_curve(sample, curve, n_bins, strategy, band, confidence, scale, **options)
        text = _statistics(sample, confidence) if _validation.check_flag(annotate, "annotate") else None
        return cls(estimate, name=name, pos_label=pos_label, annotation=text).plot(ax, **plot_params)

    @classmethod
    @_validation.own_predictions()
    def from_cv_results(
        cls,
        cv_results: dict[str, Any],
        X: Any,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        **params: Any,
    ) -> Self:
        """Draw the pooled out-of-fold predictions of a cross-validation.

        Outcomes of different folds are treated as independent given the predictions. The predictions of a
        sample that is in several test folds, as in repeated cross-validation, form a cluster. To see the
        folds one by one, draw each with :meth:`from_estimator` on the same axes.

        Parameters
        ----------
        cv_results : dict
            What :func:`sklearn.model_selection.cross_validate` returned with ``return_estimator=True`` and
            ``return_indices=True``, for a binary classifier; of more classes with ``sharpness``.
        X : array-like of shape (n, n_features)
            The data passed to ``cross_validate``.
        y : array-like of shape (n,)
            Their labels.
        sample_weight, clusters, pos_label
            As in :meth:`from_predictions`; ``classes_[1]`` is positive by default.
        name : str, default=None
            Name in the legend; the class of the estimators by default.
        **params : dict
            Passed to :meth:`from_predictions`.

        %(display_returned)s
        """
        if not isinstance(cv_results, Mapping) or not {"estimator", "indices"} <= set(cv_results):
            raise ValueError(
                "cv_results must be the dict of cross_validate, called with return_estimator=True and "
                f"return_indices=True, got {type(cv_results).__name__} without them."
            )
        check_consistent_length(X, y, sample_weight, clusters)
        estimators, folds = cv_results["estimator"], cv_results["indices"]["test"]
        rows = np.concatenate(folds)
        labels = _validation.as_array(y, "y")
        if clusters is None and np.unique(rows).shape[0] < rows.shape[0]:
            # repeated predictions of a sample have one outcome
            clusters = np.arange(labels.shape[0])
        if rows.max() >= labels.shape[0]:
            raise ValueError(
                f"cv_results has a test fold with row {int(rows.max())}, but y has {labels.shape[0]} rows. "
                "Pass the data that were cross-validated."
            )
        parts = [
            estimator_predictions(estimator, safe_indexing(X, fold), labels, pos_label, True)
            for estimator, fold in zip(estimators, folds, strict=True)
        ]
        proba = [part.pop("y_proba") for part in parts]
        if any(part != parts[0] for part in parts):
            raise ValueError("the estimators of cv_results have different classes.")
        return cls.from_predictions(
            labels[rows],
            np.concatenate(proba),
            sample_weight=None
            if sample_weight is None
            else _validation.as_array(sample_weight, "sample_weight")[rows],
            clusters=None if clusters is None else _validation.as_array(clusters, "clusters")[rows],
            **parts[0],
            name=type(estimators[0]).__name__ if name is None else name,
            **params,
        )

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        show_histogram: bool = True,
        show_legend: bool = True,
        **line_params: Any,
    ) -> Self:
        """Draw the diagram.

        Several displays can share axes; each is drawn in its own color and line style.

        Parameters
        ----------
        %(drawn_into)s
        show_histogram : bool, default=True
            Whether to draw the histogram of the predictions.
        %(named_legend)s
        **line_params : dict
            Properties of the curve, such as ``color`` or ``linewidth``; band and histogram use the same
            color.

        %(self_returned)s
        """
        curve, (ax, line_params) = self.curve, self._new_or(ax, 5.2, 5.6, line_params)
        scale = "logit" if ax.get_xscale() == "logit" else "probability"
        if scale != curve.scale and _drawn_curves(ax):
            raise ValueError(f"ax has a diagram with scale={scale!r}. Use the same scale, or other axes.")
        label = self._named(curve.label.replace(", ", "\n", 1), name)
        hidden = curve.n_samples - curve.counts.sum()
        outside = beyond(*curve.edges[[0, -1]].tolist())
        for weight, place in ((hidden, outside), (curve.n_elsewhere, "between the points")):
            label += hidden_note(weight, curve.n_samples, place, curve.n_effective is None)
        diagonal = unless_drawn(ax, _DIAGONAL)
        if diagonal == _DIAGONAL:
            # on a logit axis the line from corner to corner is the diagonal, however far these are
            ends = [_NEVER_SHOWN, 1.0 - _NEVER_SHOWN] if curve.scale == "logit" else [0.0, 1.0]
            ax.plot(ends, ends, color=GREY, linestyle=":", linewidth=1.5, label=diagonal, zorder=1)
        points, alone = curve.kind in ("binned", "points"), _alone(curve.observed)
        style: dict[str, Any] = {"marker": "o", "markersize": 5} if points or alone else {}
        if points:
            style["linewidth"] = 1.2 if curve.kind == "binned" else 0.0
        elif alone:
            style["markevery"] = alone
        # whole dots on the border, unless some are beyond it
        first, last = curve.edges[[0, -1]] + [-_ROUNDING, _ROUNDING]
        style["clip_on"] = not (style and first <= curve.predicted[0] and curve.predicted[-1] <= last)
        if curve.density is not None:
            style["linewidth"] = 1.0
        self.line_ = draw_curve(ax, _CURVE, curve.predicted, curve.observed, label, line_params, **style)
        drawn = [*_drawn_curves(ax), _DrawnCurve(self.line_, curve, self.annotation, show_histogram)]
        setattr(ax, _DRAWN, drawn)
        _set_limits(ax, drawn)
        if curve.density is not None:
            _draw_density(ax, self.line_, curve)
        self.band_ = None if curve.band is None else _draw_band(ax, curve.band, self.line_.get_color())
        self.ax_histogram_ = _draw_histogram(ax, drawn) if show_histogram else None
        if self.annotation is not None:
            _annotate(ax, drawn)
        ax.set_xlabel(axis_title("Predicted probability", self.pos_label))
        ax.set_ylabel(axis_title("Observed frequency", self.pos_label))
        without = few_bands(ax, _CURVE)
        if without is not None:
            self.band_ = None
        if show_legend:
            legend_below(ax, title=without)
        return self


@dataclass(frozen=True, eq=False)
class _DrawnCurve:
    """A curve on axes. With a later one, limits, histogram and annotations are made for all of them."""

    line: Line2D
    curve: ReliabilityCurve
    annotation: str | None
    in_histogram: bool


def _drawn_curves(ax: Axes) -> list[_DrawnCurve]:
    """Return the curves that displays have drawn on the axes and that are still there."""
    return [drawn for drawn in getattr(ax, _DRAWN, ()) if drawn.line in ax.lines]


def _statistics(sample: _validation.BinarySample, confidence: float) -> str:
    """Return the numbers that are reported for clinical prediction models, one in each line."""
    summary = recalibration_intervals(group_sample(sample), confidence)
    area, brier = (metric(sample.y, sample.p, sample_weight=sample.w) for metric in (roc_auc, brier_score))
    area_text = f"{area:.3f}" if np.isfinite(area) else "not determined"
    fits = {
        "slope": summary.slope,
        "intercept": summary.intercept,
        "observed/expected": summary.observed_over_expected,
    }
    lines = [
        f"{name} {fit.estimate:z.2f} [{fit.lower:z.2f}, {fit.upper:z.2f}]"
        if np.isfinite(fit.estimate)
        else f"{name} {fit}"
        for name, fit in fits.items()
    ]
    head = f"estimate [{100 * confidence:g}% interval]"
    return "\n".join([head, *lines, f"AUC {area_text}", f"Brier score {number_text(brier, 3)}"])


def _annotate(ax: Axes, drawn: list[_DrawnCurve]) -> None:
    """Write the text of each curve into the upper left corner, or the lower right one if the curve is there.

    Each of several begins with the name of the model and has the color of its curve.
    """
    for old in [text for text in ax.texts if text.get_gid() == _ANNOTATION]:
        old.remove()
    bottom = _HEIGHT + _GAP if _histogram_of(ax) is not None else 0.0
    style: dict[str, Any] = {"bbox": {"facecolor": "white", "alpha": 0.7, "linewidth": 0.0, "pad": 2.0}}
    style |= {"fontsize": "small", "textcoords": "offset points", "zorder": 5, "gid": _ANNOTATION}
    texts = [(each.line, each.annotation) for each in drawn if each.annotation is not None]
    # points by which the next text is moved in the lower and in the upper corner
    shifts = [0.0, 0.0]
    for line, text in texts:
        if len(texts) > 1:
            text = f"{str(line.get_label()).rsplit(': ', 1)[0]}\n{text}"
            style["color"] = line.get_color()
        x, y = (line.get_transform() - ax.transAxes).transform(line.get_xydata()).T
        upper = not ((x < 0.5) & (y > 0.7)).any()
        place = (0.03, 0.97) if upper else (0.97, bottom + 0.03)
        style |= {"va": "top", "ha": "left"} if upper else {"va": "bottom", "ha": "right"}
        written = ax.annotate(text, place, (0.0, shifts[upper]), ax.transAxes, **style)
        size: Any = written.get_fontsize()
        shifts[upper] += (-1.25 if upper else 1.25) * size * (text.count("\n") + 1.5)


def _set_limits(ax: Axes, drawn: list[_DrawnCurve]) -> None:
    """Set scales and limits around all curves of the axes, with space for a histogram below."""
    from matplotlib.ticker import FixedLocator, LogitLocator, NullLocator

    curve, histogram = drawn[-1].curve, drawn[-1].in_histogram or _histogram_of(ax) is not None
    below = _HEIGHT + _GAP if histogram else 0.0
    if curve.scale == "logit" != ax.get_xscale():
        ax.set_xscale("logit", one_half="0.5")
        ax.set_yscale("logit", one_half="0.5")
        ax.xaxis.set_major_locator(LogitLocator(nbins=5))
    scale = ax.xaxis.get_transform()
    left, right = set_range(ax, _CURVE, *scale.transform(curve.edges[[0, -1]]).tolist())
    # up to the rounding of the ends
    pad = MARGIN * (right - left)

    def heights(paths: list[Array]) -> Array:
        x, y = np.concatenate([*paths, np.zeros((0, 2))]).T
        if curve.scale == "logit":
            # 0 and 1 are at infinity
            y = np.clip(np.where((y > 0.0) & (y < 1.0), y, np.nan), expit(-FAR), expit(FAR))
        x, y = scale.transform(x), scale.transform(y)
        return np.asarray(y[(x >= left - pad) & (x <= right + pad) & np.isfinite(y)])

    def bars_of(kind: str) -> list[Array]:
        bands = [each.curve.band for each in drawn if each.curve.kind == kind and each.curve.band is not None]
        return [np.column_stack((band.predicted, end)) for band in bands for end in (band.lower, band.upper)]

    lines = [np.asarray(line.get_xydata()) for line in curves_of(ax, _CURVE)]
    y = heights([*lines, *bars_of("points")])
    if curve.scale == "logit" and curve.density is not None:
        # frequencies of noise near 0 and 1 would be far away
        y = np.clip(y, left - _BEYOND, right + _BEYOND)
    low, high = min([left, *y]), max([right, *y])
    # both axes are equal unless the curve would be a sliver
    if right - left < high - low <= _STEEPEST * (right - left):
        set_range(ax, _CURVE, low, high)
    # bars of bins are shown whole unless the diagonal would be flat beside them
    bars = heights(bars_of("binned"))
    bars = np.clip(bars, left - _LONGEST * (right - left), right + _LONGEST * (right - left))
    low, high = min([low, *bars]), max([high, *bars])
    pad = MARGIN * (high - low)
    low, high = low - pad, high + pad
    bottom = high - (high - low) / (1.0 - below)
    bottom, low, high = scale.inverted().transform(np.array([bottom, low, high])).tolist()
    ax.set_ylim(bottom, high)
    # no ticks beside the histogram
    ticks = np.asarray(ax.xaxis.get_major_locator().tick_values(low, high))
    ax.yaxis.set_major_locator(FixedLocator(ticks[(ticks >= low) & (ticks <= high)].tolist()))
    ax.yaxis.set_minor_locator(NullLocator())


def _histogram_of(ax: Axes) -> Any:
    """Return the axes of the histogram, or None."""
    return next((child for child in ax.child_axes if child.get_gid() == _HISTOGRAM), None)


def _alone(values: Array) -> list[int]:
    """Return which values have no neighbors, so that no line goes through them."""
    known = np.concatenate(([False], np.isfinite(values), [False]))
    return np.flatnonzero(known[1:-1] & ~known[:-2] & ~known[2:]).tolist()


def _draw_band(ax: Axes, band: ReliabilityBand, color: Any) -> Collection:
    """Draw the limits: an area, or bars if they hold only at the points."""
    label = band.label
    if band.kind == "simultaneous":
        label += f"\n{'excludes' if band.departures else 'contains'} the diagonal"
    label = unless_drawn(ax, label)
    x, low, high = band.predicted, band.lower, band.upper
    if ax.get_xscale() == "logit":
        x, low, high = (np.clip(values, _NEVER_SHOWN, 1.0 - _NEVER_SHOWN) for values in (x, low, high))
    consistency = band.kind == "consistency"
    alone = list(range(x.shape[0])) if band.bars else _alone(low)
    if alone:
        style: dict[str, Any] = {"alpha": 0.3, "linewidth": 7.0} if consistency else {"linewidth": 1.4}
        style |= {"color": color, "zorder": 1.8, "gid": BAND, "label": label if band.bars else None}
        bars = ax.vlines(x[alone], low[alone], high[alone], **style)
        if band.bars:
            return bars
    if band.kind in ("consistency", "simultaneous"):
        # the edge distinguishes them from a band around a curve
        dashes: Any = (0, (2, 2)) if consistency else "-"
        for limit in (low, high):
            edge: dict[str, Any] = {"linestyle": dashes, "linewidth": 0.9, "alpha": 0.8, "zorder": 1.9}
            ax.plot(x, limit, color=color, gid=BAND, **edge)
    # overlapping areas stay transparent
    area: dict[str, Any] = {"color": color, "alpha": 0.2, "linewidth": 0, "zorder": 1.7, "gid": BAND}
    return ax.fill_between(x, low, high, where=~(low > high), label=label, **area)


def _draw_density(ax: Axes, line: Line2D, curve: ReliabilityCurve) -> None:
    """Draw the density of the predictions as the width of a kernel curve, and its sharpness as an area."""
    from matplotlib.collections import LineCollection

    x, y, density = curve.predicted, curve.observed, curve.density
    # 1 is the density of predictions that are uniform in the range shown
    density = density * np.ptp(ax.xaxis.get_transform().transform(curve.edges[[0, -1]]))
    points = np.column_stack((x, y))
    widths = _WIDTH * np.clip(np.sqrt(0.5 * (density[1:] + density[:-1])), *_WIDTHS)
    color, place = line.get_color(), line.get_zorder()
    ax.add_collection(
        LineCollection(
            list(np.stack((points[:-1], points[1:]), axis=1)),
            linewidths=widths,
            colors=[color],
            capstyle="round",
            zorder=place,
        )
    )
    if curve.gap is None:
        return
    half = 0.5 * curve.gap * density
    low, high = (np.clip(y + part, _NEVER_SHOWN, 1.0 - _NEVER_SHOWN) for part in (-half, half))
    ax.fill_between(
        x,
        low,
        high,
        color=color,
        alpha=0.25,
        linewidth=0.8,
        zorder=1.7,
        gid=BAND,
        label=unless_drawn(ax, "sharpness gap"),
    )


def _draw_histogram(ax: Axes, drawn: list[_DrawnCurve]) -> Axes:
    """Draw the numbers of predictions of all curves into the lower part of the axes.

    The counts of all histograms of a figure are on the same scale: others are drawn anew if it changes.
    """
    inset: Any = ax.inset_axes((0.0, 0.0, 1.0, _HEIGHT), sharex=ax, gid=_HISTOGRAM)
    histogram = _histogram_of(ax)
    if histogram is not inset:
        # that of earlier displays gets the new height
        histogram.set_axes_locator(inset.get_axes_locator())
        inset.remove()
    # those within other axes are not among the axes of the figure
    together = {each: bars for each in {*ax.figure.figure.axes, ax} if (bars := _bars(each))}
    log = any(highest > _UNEQUAL * lowest for bars in together.values() for lowest, highest in [_ends(bars)])
    for each, bars in together.items():
        if each is ax or _histogram_of(each).get_label() != _SCALES[log]:
            _fill_histogram(each, bars, log)
    return histogram


def _bars(ax: Axes) -> list[tuple[_DrawnCurve, Array]]:
    """Return the curves in the histogram of the axes with their counts, in the widest of their bins."""
    shown = [each for each in _drawn_curves(ax) if each.in_histogram and _histogram_of(ax) is not None]
    ends = [ax.xaxis.get_transform().transform(each.curve.edges[[0, -1]]) for each in shown]
    widths = np.ptp(np.reshape(ends, (-1, 2)), axis=1)
    return [
        (each, each.curve.counts * (widths.max() / width)) for each, width in zip(shown, widths, strict=True)
    ]


def _ends(bars: list[tuple[_DrawnCurve, Array]]) -> tuple[float, float]:
    """Return the smallest count that is not 0, and the largest."""
    counts = np.concatenate([heights for _, heights in bars])
    return float(counts[counts > 0.0].min()), float(counts.max())


def _fill_histogram(ax: Axes, bars: list[tuple[_DrawnCurve, Array]], log: bool) -> None:
    """Draw bars for one model, outlines for two or three, bars in rows for more."""
    from matplotlib.colors import to_rgba
    from matplotlib.patches import StepPatch
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

    histogram, (lowest, highest) = _histogram_of(ax), _ends(bars)
    histogram.set_label(_SCALES[log])
    rows = len(bars) > _OUTLINES
    for patch in list(histogram.patches):
        patch.remove()
    for k, (each, heights) in enumerate(bars):
        base = len(bars) - 1.0 - k if rows else 0.0
        part = np.log1p(heights) / np.log1p(highest) if log else heights / highest
        # its limits need not be known
        histogram.add_artist(
            StepPatch(
                base + 0.85 * part if rows else heights,
                each.curve.edges,
                baseline=base,
                fill=rows or len(bars) == 1,
                facecolor=to_rgba(each.line.get_color(), 0.35),
                edgecolor=each.line.get_color(),
                linewidth=0.8,
                linestyle="-" if rows or len(bars) == 1 else each.line.get_linestyle(),
            )
        )
    title = "Count" if bars[-1][0].curve.n_effective is None else "Weighted\ncount"
    ticks: list[float] = []
    scale = _SCALES[log and not rows]
    if histogram.get_yscale() != scale:
        histogram.set_yscale(scale)
    if rows:
        title += (" (log)" if log else "") + f"\nto {_count_text(highest)}"
        histogram.set(ylim=(0.0, len(bars)), ylabel=title)
    elif log:
        histogram.set(ylim=(0.5 * lowest, 3.0 * highest), ylabel=f"{title}\n(log)")
        powers = 10.0 ** np.arange(ceil(log10(lowest)), floor(log10(highest)) + 1.0)
        ticks = powers[[0, -1][: powers.shape[0]]].tolist() or [highest]
    else:
        histogram.set(ylim=(0.0, 1.2 * highest), ylabel=title)
        # no parts of samples
        steps = MaxNLocator(3, integer=highest >= 1.0, steps=[1, 2, 5, 10]).tick_values(0.0, highest)
        ticks = [0.0, max(t for t in steps if t <= highest)]
    inches = ax.get_window_extent().height / ax.figure.figure.dpi
    if (
        log
        and ticks
        and inches * _HEIGHT * log10(ticks[-1] / ticks[0]) < _NEAR * log10(6.0 * highest / lowest)
    ):
        ticks = ticks[-1:]
    histogram.yaxis.set_major_locator(FixedLocator(ticks[sum(inches < low for low in _LOW) :]))
    histogram.minorticks_off()
    histogram.yaxis.set_major_formatter(FuncFormatter(_count_text))
    histogram.xaxis.set_visible(False)
    histogram.tick_params(axis="y", labelsize="small")
    histogram.yaxis.label.set_fontsize("small")


def _count_text(value: float, position: int | None = None) -> str:
    """Return a count, short enough for the margin of default axes: "20k"."""
    from matplotlib.ticker import EngFormatter

    return EngFormatter(sep="")(value) if value >= 1e4 else f"{value:,.6g}"


@shared_docs
@closes_figures()
def reliability_grid(
    y_true: ArrayLike,
    predictions: ArrayLike | Mapping[str, ArrayLike],
    *,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    weights: Weights = "sampling",
    clusters: ArrayLike | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    show_legend: bool = True,
    ax: Any = None,
    n_cols: int | None = None,
    figsize: tuple[float, float] | None = None,
    **params: Any,
) -> list[ReliabilityDisplay]:
    """Draw a reliability diagram for each class, label, group or model, in a grid with one legend.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, n_labels)
        Labels of two or more classes; or an indicator matrix of zeros and ones for multilabel targets.
    predictions : array-like of shape (n,) or (n, K), or mapping of str to these
        Probabilities of K >= 3 classes, or of K labels: one diagram for each class against the rest, or for
        each label. The name of each model and its predictions: the diagrams of each model. With ``groups``,
        the probabilities of the positive class of one model.
    groups : array-like of shape (n,), default=None
        Group of each sample: one diagram for each group.
    sample_weight, weights, clusters
        As in :meth:`ReliabilityDisplay.from_predictions`.
    %(pos_label)s
    %(labels)s
    show_legend : bool, default=True
        Whether to draw the legend below the diagrams, which leave it space in a constrained layout.
    ax : array-like of matplotlib Axes, default=None
        Axes for the diagrams, one for each; by default those of a new figure.
    n_cols : int, default=None
        Number of columns of a new figure; by default at most three, or four for more than six diagrams.
    figsize : tuple of float, default=None
        Width and height of a new figure, in inches; by default three for each column and row.
    **params : dict
        Passed to :meth:`ReliabilityDisplay.from_predictions`.

    Returns
    -------
    list of ReliabilityDisplay
        The displays, whose attribute ``figure_`` is the figure.

    %(raised)s
    %(no_matplotlib)s

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn_calib.plot import reliability_grid
    >>> y_true, y_proba = [0, 1, 0, 1, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]
    >>> displays = reliability_grid(y_true, y_proba, groups=list("aabbaabb"))
    >>> [display.name for display in displays]
    ['a (n = 4)', 'b (n = 4)']
    >>> plt.close("all")
    """
    if n_cols is not None:
        n_cols = _validation.check_integer(n_cols, "n_cols")
    if ax is not None and (n_cols, figsize) != (None, None):
        raise ValueError("n_cols and figsize are those of a new figure, but ax is given. Pass one of both.")
    parts = _samples(y_true, predictions, groups, sample_weight, weights, clusters, pos_label, labels)
    if labels is not None and len(both := _validation.as_array(labels, "labels")) == 2:
        pos_label = both.tolist()[1]
    options = {key: params.pop(key) for key in _CURVE_OPTIONS if key in params}
    # one range for all, since they share axes
    groups_of = [group_sample(part) for _, part in parts]
    low, high = np.array([shown_range(each.prob, each.weight) for each in groups_of]).T
    shown = (float(low.min()), float(high.max()))
    displays = [
        ReliabilityDisplay(reliability_curve(part, shown=shown, **options), name=name) for name, part in parts
    ]
    full_names({key: value for key, value in params.items() if key != "show_histogram"})
    number, columns = len(parts), 1
    if ax is None:
        axes = new_grid(number, _COLUMNS[number > 6], 3.0, 3.0, 0.9, n_cols, figsize)
        grid: Any = axes[0].get_gridspec()
        columns = grid.ncols
    else:
        axes = given_axes(ax, (number,), f"an array of {number} matplotlib Axes")
    for index, (each, display) in enumerate(zip(axes, displays, strict=True)):
        display.plot(each, show_legend=False, **params)
        # below the name, in lines that are no wider than the axes
        title = "\n".join(str(display.line_.get_label()).rsplit(": ", 1)).replace(" not shown", "\nnot shown")
        letters = int(_LETTERS * each.get_window_extent().width / display.figure_.figure.dpi)
        title = "\n".join(fill(line, max(letters, _FEWEST)) for line in title.split("\n"))
        each.set_title(title, fontsize="small")
        display.line_.set_label("calibration curve")
        if ax is None:
            # axes of a new figure are shared
            lowest = index + columns >= number
            each.set_xlabel(axis_title("Predicted probability", pos_label) if lowest else "")
            each.tick_params(labelbottom=lowest)
            each.set_ylabel("" if index % columns else axis_title("Observed frequency", pos_label))
    if show_legend:
        handles, names = axes[0].get_legend_handles_labels()
        histograms = [display.ax_histogram_ for display in displays if display.ax_histogram_ is not None]
        for histogram in histograms:
            # the legend has the space for it
            title = histogram.get_ylabel().replace("\n", " ")
            histogram.set_ylabel("")
        if histograms:
            handles.append(histograms[0].patches[0])
            names.append(title)
        figure = axes[0].figure
        ncols = len(names) if figure.figure.get_size_inches()[0] > _WIDE else 1
        place: dict[str, Any] = {"loc": "outside lower center", "fontsize": "small", "frameon": False}
        figure.legend(handles, names, ncols=ncols, **place)
    return displays


def _number(sample: _validation.BinarySample) -> float:
    """Return the number of samples."""
    return sample.y.shape[0] if sample.sampling else sample.total


def _samples(
    y_true: ArrayLike,
    predictions: ArrayLike | Mapping[str, ArrayLike],
    groups: ArrayLike | None,
    sample_weight: ArrayLike | None,
    weights: str,
    clusters: ArrayLike | None,
    pos_label: Any,
    labels: ArrayLike | None,
) -> list[tuple[str, _validation.BinarySample]]:
    """Return the binary sample of each model, group, class or label, with its name."""
    given: dict[str, Any] = {"labels": labels, "weights": weights}
    if groups is not None:
        if isinstance(predictions, Mapping):
            raise ValueError("groups need the predictions of one model, not a mapping of models.")
        sample = _validation.check_binary(y_true, predictions, sample_weight, pos_label, clusters, **given)
        parts = _validation.samples_of_groups(sample, groups, sample_weight)
        return [(f"{name} (n = {_number(part):g})", part) for name, part in parts]
    several = isinstance(predictions, Mapping)
    models: Mapping[str, ArrayLike] = predictions if isinstance(predictions, Mapping) else {"": predictions}
    found: list[tuple[str, _validation.BinarySample]] = []
    for model, p in models.items():
        problem = check_problem(y_true, p, sample_weight, pos_label, clusters=clusters, **given)
        if isinstance(problem, _validation.BinarySample):
            found.append((str(model), problem))
            continue
        if isinstance(problem, list):
            names, each = [f"label {name}" for name in label_names(y_true, p, len(problem))], problem
        else:
            names, each = list(map(str, problem.classes.tolist())), class_samples(problem, "classwise")
        found += zip([f"{model}: {name}" for name in names] if several else names, each, strict=True)
    if not several and len(found) == 1:
        raise ValueError(
            "predictions must have one column for each of three or more classes or of two or more labels, or "
            "be a mapping of models (dict(frame) of a frame with a column for each), or groups must be "
            "given. Draw a single curve with ReliabilityDisplay.from_predictions."
        )
    return found
