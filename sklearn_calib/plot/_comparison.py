"""Calibration errors of several models: a dot plot with intervals, expected values and tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib import _validation
from sklearn_calib._core._null import rejects
from sklearn_calib._docs import shared_docs
from sklearn_calib._html import pvalue_words
from sklearn_calib._typing import Array, Weights
from sklearn_calib.inference import ModelComparison, compare_models
from sklearn_calib.metrics._direction import declared_direction
from sklearn_calib.metrics._names import as_metric, name_of
from sklearn_calib.plot._estimator import check_result, estimator_predictions
from sklearn_calib.plot._matplotlib import (
    BLUE,
    GREY,
    closes_figures,
    full_names,
    given_axes,
    legend_below,
    new_axes,
    plain,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D
    from matplotlib.text import Text


Metric = Callable[..., float]

# The axis starts at 0 if the smallest number is less than this fraction of the largest.
_NEAR_ZERO = 0.4
# Fraction of the width reserved for the results of the tests.
_MARGIN = 0.24


def _letters(comparison: ModelComparison) -> dict[str, str]:
    """Return the letters of each model: a pair has none in common if and only if it differs significantly."""
    names = [model.name for model in comparison.models]
    groups = [frozenset(names)]
    for pair in comparison.pairs:
        if not rejects(pair.adjusted_pvalue, 1.0 - comparison.confidence):
            continue
        divided = []
        for group in groups:
            both = {pair.name_a, pair.name_b} <= group
            divided += [group - {pair.name_a}, group - {pair.name_b}] if both else [group]
        unique = list(dict.fromkeys(divided))
        groups = [group for group in unique if not any(group < other for other in unique)]
    groups.sort(key=lambda group: sorted(names.index(name) for name in group))
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    symbols = [alphabet[k] if k < len(alphabet) else f"({k})" for k in range(len(groups))]
    return {
        name: "".join(s for s, group in zip(symbols, groups, strict=True) if name in group) for name in names
    }


def _named_metrics(metrics: Any) -> dict[str, Metric]:
    """Return the metrics by their names."""
    if not isinstance(metrics, Mapping):
        if not (callable(metrics) or isinstance(metrics, str | Sequence)):
            raise TypeError(f"metrics must be a metric, or a list or mapping of metrics, got {metrics!r}.")
        given = [metrics] if callable(metrics) or isinstance(metrics, str) else list(metrics)
        functions = [as_metric(metric, "metrics") for metric in given]
        metrics = {_metric_name(metric): metric for metric in functions}
        if len(metrics) < len(given):
            raise ValueError(
                "metrics contains two metrics of the same name. Pass a mapping from names to metrics."
            )
    if not metrics:
        raise ValueError("metrics is empty. Pass at least one metric.")
    return {name: as_metric(metric, f"metrics[{name!r}]") for name, metric in metrics.items()}


def _metric_name(metric: Any) -> str:
    """Return the name of a function in words; of a partial, that of its function."""
    words = name_of(metric).split("_")
    return " ".join({"ece": "ECE", "brier": "Brier"}.get(word, word) for word in words if word)


def _limits(shown: Array, margin: float) -> tuple[float, float]:
    """Return limits around the numbers, from 0 if they come near it, with a margin at the right."""
    low, high = float(shown.min()), float(shown.max())
    from_zero = 0.0 <= low <= _NEAR_ZERO * high
    spread = high - (0.0 if from_zero else low) or abs(high) or 1.0
    left = -0.03 * spread if from_zero else low - 0.08 * spread
    right = high + 0.08 * spread
    return left, left + (right - left) / (1.0 - margin)


@shared_docs
class ComparisonDisplay:
    """Errors of several models on the same samples, with intervals, expected values and tests: a forest plot.

    Make one with :meth:`from_predictions`, :meth:`from_estimators` or :meth:`from_result`. Each row is a
    model, e.g. before and after calibration, and each panel a metric. The dot is the estimate, the line the
    confidence interval of the population value, and the gray tick the value that is expected under
    perfect calibration with these predictions. A dot is hollow if the model is significantly worse than
    another one. The right margin shows the p-value of a pair, or of each model against the reference, or else
    letters: models with a common letter are not significantly different.

    Parameters
    ----------
    comparisons : mapping of str to ModelComparison
        Name of each metric, and the comparison of the same models by it.

    Attributes
    ----------
    %(panels)s
    points_, worse_ : list of matplotlib Line2D
        For each metric the dots of the models in the best set, and those of the others.
    intervals_ : list of matplotlib LineCollection
        For each metric the confidence intervals.
    expected_ : list of matplotlib Line2D
        For each metric the ticks at the expected values.
    marks_ : list of list of matplotlib Text
        For each metric the results of the tests, from top to bottom.

    See Also
    --------
    sklearn_calib.inference.compare_models : The numbers behind the plot, and the assumptions of the tests.
    sklearn_calib.inference.expected_under_calibration : The expected value.

    Notes
    -----
    The interval is for the error without the upward bias of sampling noise, and can lie below the dot. For
    scores such as the Brier score the tick is the score that the model's own predictions imply. Overlapping
    intervals do not show that two models are equally good: only the paired tests account for the common
    samples.

    Letters are a compact letter display [1]_: a pair whose adjusted p-value is at most 1 - ``confidence`` has
    no letter in common, and every other pair at least one.

    References
    ----------
    .. [1] H.-P. Piepho (2004). An algorithm for a letter-based representation of all-pairwise comparisons.
       Journal of Computational and Graphical Statistics 13.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn_calib.plot import ComparisonDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=500)
    >>> y = rng.uniform(size=500) < p
    >>> models = {"squared": p**2, "true": p}
    >>> display = ComparisonDisplay.from_predictions(
    ...     y, models, metrics="cutoff_calibration_error", n_resamples=199
    ... )
    >>> [text.get_text() for text in display.marks_[0]]
    ['p = 0.01']
    >>> display.comparisons["cutoff calibration error"].best_set
    ('true',)
    >>> plt.close(display.figure_)
    """

    axes_: list[Axes]
    ax_: Axes
    figure_: Figure | SubFigure
    points_: list[Line2D]
    worse_: list[Line2D]
    intervals_: list[LineCollection]
    expected_: list[Line2D]
    marks_: list[list[Text]]

    def __init__(self, comparisons: Mapping[str, ModelComparison]) -> None:
        self.comparisons = dict(comparisons)

    @classmethod
    def from_result(
        cls,
        result: ModelComparison | Mapping[str, ModelComparison],
        *,
        ax: Axes | Sequence[Axes] | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw what :func:`~sklearn_calib.inference.compare_models` returned.

        Parameters
        ----------
        result : ModelComparison or mapping of str to these
            One result, or the name of each metric and its result.
        %(metric_axes)s
        """
        comparisons = (
            result if isinstance(result, Mapping) else {_metric_name(getattr(result, "metric", "")): result}
        )
        for found in comparisons.values():
            check_result(found, ModelComparison, "Pass the result of compare_models().")
            if not found.has_intervals:
                raise ValueError(
                    "result was made with intervals=False and has no intervals to draw. "
                    "Pass the result of compare_models(..., intervals=True)."
                )
        return cls(comparisons).plot(ax, **plot_params)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        predictions: Mapping[str, ArrayLike],
        *,
        metrics: str | Metric | Sequence[str | Metric] | Mapping[str, str | Metric] = "smooth_ece",
        greater_is_better: bool | None = None,
        reference: str | None = None,
        correction: Literal["max-t"] | None = "max-t",
        confidence: float = 0.95,
        n_resamples: int = 999,
        sample_weight: ArrayLike | None = None,
        weights: Weights = "sampling",
        clusters: ArrayLike | None = None,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        random_state: int | np.random.Generator | np.random.RandomState | None = 0,
        ax: Axes | Sequence[Axes] | None = None,
        **plot_params: Any,
    ) -> Self:
        """Compare predictions for the same samples, and draw the result.

        Parameters
        ----------
        y_true : array-like of shape (n,) or (n, n_labels)
            Labels; or an indicator matrix of zeros and ones for multilabel targets.
        predictions : mapping of str to array-like
            Name of each model and its predicted probabilities, of shape (n,), (n, 1), (n, 2), (n, K) or (n,
            n_labels).
        metrics : str, callable, or list or mapping of these, default="smooth_ece"
            Metrics as in :func:`~sklearn_calib.inference.compare_models`. The keys of a mapping are used as
            labels.
        greater_is_better : bool or None, default=None
            Whether greater values are better, of metrics that do not declare it; see
            :func:`~sklearn_calib.inference.compare_models`.
        reference, correction, confidence, n_resamples, sample_weight, weights, clusters, pos_label, labels
            As in :func:`~sklearn_calib.inference.compare_models`.
        %(seeded_picture)s
        %(metric_axes)s
        """
        seed = _validation.seed_of(random_state)
        comparisons = {
            label: compare_models(
                y_true,
                predictions,
                metric=metric,
                greater_is_better=greater_is_better if declared_direction(metric) is None else None,
                reference=reference,
                correction=correction,
                confidence=confidence,
                n_resamples=n_resamples,
                sample_weight=sample_weight,
                weights=weights,
                clusters=clusters,
                pos_label=pos_label,
                labels=labels,
                random_state=seed,
            )
            for label, metric in _named_metrics(metrics).items()
        }
        return cls(comparisons).plot(ax, **plot_params)

    @classmethod
    @_validation.own_predictions()
    def from_estimators(
        cls,
        estimators: Mapping[str, Any],
        X: Any,
        y: ArrayLike,
        *,
        pos_label: Any = None,
        **params: Any,
    ) -> Self:
        """Compare the probabilities that fitted classifiers predict, and draw the result.

        Parameters
        ----------
        estimators : mapping of str to object
            Name of each model and the fitted classifier, with ``predict_proba`` and the same ``classes_``.
        %(held_out)s
        **params : dict
            Passed to :meth:`from_predictions`.

        %(display_returned)s
        """
        predictions: dict[str, Any] = {}
        given: dict[str, Any] = {}
        common = None
        for name, estimator in estimators.items():
            given = estimator_predictions(estimator, X, y, pos_label, True)
            predictions[name] = given.pop("y_proba")
            # of multilabel targets they are those of each label, or its number
            exclusive = "labels" in given or predictions[name].ndim == 1
            classes = sorted(map(str, estimator.classes_)) if exclusive else None
            if common is not None and classes != common:
                raise ValueError(
                    f"estimators[{name!r}] has the classes {classes}, others {common}. Compare classifiers "
                    "with the same classes."
                )
            common = classes
        return cls.from_predictions(y, predictions, **given, **params)

    @closes_figures()
    def plot(
        self,
        ax: Axes | Sequence[Axes] | None = None,
        *,
        show_legend: bool = True,
        **marker_params: Any,
    ) -> Self:
        """Draw the models in rows and the metrics in panels.

        Parameters
        ----------
        ax : matplotlib Axes or list of these, default=None
            Where to draw, one for each metric; by default a new figure, whose height depends on the number of
            models. Size and style of given axes are not changed.
        show_legend : bool, default=True
            Whether to draw the legend, in the first panel.
        **marker_params : dict
            Properties of the dots, such as ``color`` or ``markersize``; the intervals have the same color.

        %(self_returned)s
        """
        given = full_names(marker_params)
        models = [[model.name for model in found.models] for found in self.comparisons.values()]
        if any(names != models[0] for names in models):
            raise ValueError(f"comparisons compares different models: {models}. Compare the same models.")
        n_metrics, n_models = len(models), len(models[0])
        if ax is None:
            panels = new_axes(2.4 + 3.6 * n_metrics, 2.4 + 0.4 * n_models, 1, n_metrics, sharey=True)
        else:
            panels = given_axes(ax, (n_metrics,), f"matplotlib Axes for {n_metrics} metrics")
        self.axes_, self.ax_, self.figure_ = panels, panels[0], panels[0].figure
        self.points_, self.worse_, self.intervals_, self.expected_, self.marks_ = [], [], [], [], []
        for panel, (label, comparison) in zip(panels, self.comparisons.items(), strict=True):
            self._draw_panel(panel, comparison, given)
            panel.set_xlabel(plain(label))
        self.ax_.set_yticks(range(n_models), [plain(name) for name in models[0]])
        self.ax_.set_ylim(n_models - 0.5, -0.5)
        if show_legend:
            legend_below(self.ax_)
        for panel in panels[1:]:
            panel.set_ylim(self.ax_.get_ylim())
            panel.set_yticks(range(n_models))
            panel.tick_params(axis="y", labelleft=False)
        return self

    def _draw_panel(self, ax: Axes, comparison: ModelComparison, marker_params: dict[str, Any]) -> None:
        """Draw the models in rows, by one metric, and the results of the tests."""
        rows = comparison.models
        heights = np.arange(len(rows), dtype=np.float64)
        best = np.array([row.in_best_set for row in rows])
        values, expected, low, high = np.array(
            [(row.estimate, row.expected, row.lower, row.upper) for row in rows], dtype=np.float64
        ).T
        dot: dict[str, Any] = {"color": BLUE, "marker": "o", "markersize": 8, "linestyle": "none"}
        dot |= {"zorder": 4, "label": "estimate, not significantly worse"} | marker_params
        (filled,) = ax.plot(values[best], heights[best], **dot)
        hollow = {"markerfacecolor": ax.get_facecolor(), "markeredgewidth": 1.8}
        hollow["label"] = "" if best.all() else "estimate, significantly worse"
        (worse,) = ax.plot(values[~best], heights[~best], **dot | hollow)
        with_interval = np.isfinite(low)
        text = f"{100 * comparison.confidence:g}% confidence interval" if with_interval.any() else ""
        if text and comparison.calibration_error:
            # the dot can lie outside
            text += ",\nwithout the bias of the estimate"
        style: dict[str, Any] = {"color": filled.get_color(), "linewidth": 2.4, "zorder": 3, "label": text}
        ends = (part[with_interval] for part in (heights, low, high))
        intervals = ax.hlines(*ends, **style)
        tick: dict[str, Any] = {"color": GREY, "marker": "|", "markersize": 12, "markeredgewidth": 2.0}
        tick |= {"linestyle": "none", "zorder": 2, "label": "expected under calibration"}
        (ticks,) = ax.plot(expected, heights, **tick)
        shown = np.concatenate([values, low, high, expected])
        ax.set_xlim(_limits(shown[np.isfinite(shown)], _MARGIN))
        ax.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.8)
        ax.set_axisbelow(True)
        self.points_.append(filled)
        self.worse_.append(worse)
        self.intervals_.append(intervals)
        self.expected_.append(ticks)
        self.marks_.append(_draw_tests(ax, comparison))


def _draw_tests(ax: Axes, comparison: ModelComparison) -> list[Text]:
    """Write the results of the tests at the right of the rows."""
    place = ax.get_yaxis_transform()
    # the background hides the grid line of the row
    ground = {"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 1.5}
    style: dict[str, Any] = {"transform": place, "va": "center", "fontsize": "small", "bbox": ground}
    names = [model.name for model in comparison.models]
    if len(comparison.pairs) == 1 and comparison.reference is None:
        ax.plot([0.77, 0.79, 0.79, 0.77], [0, 0, 1, 1], transform=place, color=GREY, linewidth=1.2)
        return [ax.text(0.81, 0.5, pvalue_words(comparison.pairs[0].adjusted_pvalue), ha="left", **style)]
    if comparison.reference is not None:
        marks = {pair.name_a: pvalue_words(pair.adjusted_pvalue) for pair in comparison.pairs}
        marks[comparison.reference] = "reference"
    else:
        marks = _letters(comparison)
        handle: dict[str, Any] = {"marker": "$a$", "color": ax.yaxis.label.get_color(), "linestyle": "none"}
        ax.plot([], [], label="same letter: not significantly different", **handle)
    return [ax.text(0.98, k, marks[name], ha="right", **style) for k, name in enumerate(names)]
