"""Calibration errors of several models: a dot plot with intervals, null means and tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core._multiple import CORRECTIONS
from sklearn_calib._docs import shared_docs
from sklearn_calib._validation import (
    check_fraction,
    check_generator,
    check_option,
    check_size,
    least_resamples,
)
from sklearn_calib.inference import (
    ModelComparison,
    ModelPair,
    ModelSummary,
    PairedComparison,
    compare_models,
)
from sklearn_calib.inference._comparison import choose_method
from sklearn_calib.inference._comparison_table import interval_of_one
from sklearn_calib.inference._paired_samples import HalfSamples, check_paired
from sklearn_calib.metrics._names import as_metric
from sklearn_calib.plot._estimator import positive_column, predicted_probabilities
from sklearn_calib.plot._matplotlib import (
    BLUE,
    GREY,
    check_axes,
    check_flags,
    full_names,
    legend_above,
    new_panels,
    p_text,
    plain,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D
    from matplotlib.text import Text


Metric = Callable[..., float]

# Default number of random splits.
_RESAMPLES = 999
# Spelling of words in the names of functions.
_SPELLED = {"ece": "ECE", "brier": "Brier"}
# The axis starts at 0 if the smallest number is less than this fraction of the largest.
_NEAR_ZERO = 0.4
# Fraction of the width reserved for the results of the tests.
_MARGIN = 0.24


def _letters(names: list[str], comparison: ModelComparison) -> dict[str, str]:
    """Return the letters of each model: a pair has none in common if and only if it differs significantly.

    Sets of models are divided for each pair that differs, and subsets of others dropped; each remaining set
    has a letter.
    """
    groups = [frozenset(names)]
    for pair in comparison.pairs:
        if pair.adjusted_pvalue > 1.0 - comparison.confidence + 1e-12:
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


def _as_comparison(result: Any, names: tuple[str, str]) -> ModelComparison:
    """Return a comparison of models; that of a pair has no intervals."""
    if isinstance(result, ModelComparison):
        return result
    if not isinstance(result, PairedComparison):
        raise TypeError(
            f"result must be a ModelComparison or a PairedComparison, got {type(result).__name__}. Pass the "
            "result of compare_models() or paired_test()."
        )
    shift = result.corrected_difference
    shift = result.difference if np.isnan(shift) else shift
    found = result.pvalue <= 1.0 - result.confidence + 1e-12
    models = tuple(
        ModelSummary(name, value, null_mean, np.nan, np.nan, np.nan, not (found and sign * shift > 0))
        for name, value, null_mean, sign in (
            (names[0], result.value_a, result.null_mean_a, 1),
            (names[1], result.value_b, result.null_mean_b, -1),
        )
    )
    return ModelComparison(
        models=models,
        pairs=(ModelPair(names[0], names[1], result, result.pvalue),),
        best_set=tuple(model.name for model in models if model.in_best_set),
        reference=None,
        correction="none",
        confidence=result.confidence,
        method=result.method,
        n_samples=result.n_samples,
    )


def _one_model(
    metric: Metric,
    y_true: ArrayLike,
    predictions: Mapping[str, ArrayLike],
    *,
    n_resamples: int,
    confidence: float,
    sample_weight: ArrayLike | None,
    pos_label: Any,
    clusters: ArrayLike | None,
    random_state: np.random.Generator,
) -> ModelComparison:
    """Return the summary of a single model, as a comparison without tests."""
    (name,) = predictions
    samples = check_paired(
        y_true, {f"predictions[{name!r}]": predictions[name]}, sample_weight, pos_label, clusters
    )
    n = samples.y.shape[0]
    method = choose_method("half-sampling", n, n_resamples, confidence, 2)
    halves = HalfSamples.draw(metric, samples, n_resamples, random_state)
    summary = ModelSummary(
        name,
        samples.value(metric, 0),
        samples.null_mean(metric, 0, random_state),
        float(halves.root(halves.corrected)[0]),
        *interval_of_one(metric, samples, halves, 0, confidence, random_state),
        in_best_set=True,
    )
    return ModelComparison((summary,), (), (name,), None, "none", confidence, method, n)


def _enough_resamples(n_resamples: Any, n_tests: int, confidence: float) -> int:
    """Return the number of resamples if the smallest p-value, 2 / (1 + number), can be significant."""
    needed = least_resamples((1.0 - confidence) / (2.0 * max(n_tests, 1)))
    if n_resamples is None:
        return max(_RESAMPLES, needed)
    if check_size(n_resamples, "n_resamples") < needed:
        raise ValueError(
            f"n_resamples={n_resamples} is too few for {n_tests} tests at confidence={confidence:g}: no "
            f"difference could be significant. Use n_resamples >= {needed}, a reference, or fewer models."
        )
    return int(n_resamples)


def _named_metrics(metrics: Any) -> dict[str, Metric]:
    """Return the metrics by their names."""
    if isinstance(metrics, Mapping):
        named = {name: as_metric(metric, f"metrics[{name!r}]") for name, metric in metrics.items()}
    else:
        listed = [metrics] if callable(metrics) or isinstance(metrics, str) else metrics
        if not isinstance(listed, Sequence):
            raise TypeError(
                "metrics must be a name, a function, a list or a mapping of these, got an object of type "
                f"{type(metrics).__name__}."
            )
        functions = [as_metric(metric, "metrics") for metric in listed]
        named = {_metric_name(metric): metric for metric in functions}
        if len(named) < len(listed):
            raise ValueError(
                "metrics contains two metrics of the same name. Pass a mapping from names to metrics."
            )
    if not named:
        raise ValueError("metrics is empty. Pass at least one metric.")
    return named


def _metric_name(metric: Any) -> str:
    """Return the name of a function in words, with the parameters fixed by a partial."""
    if isinstance(metric, partial):
        fixed = ", ".join(f"{key}={value!r}" for key, value in metric.keywords.items())
        return f"{_metric_name(metric.func)} ({fixed})" if fixed else _metric_name(metric.func)
    words = getattr(metric, "__name__", repr(metric)).split("_")
    return " ".join(_SPELLED.get(word, word) for word in words if word)


class _Drawn(NamedTuple):
    """The artists of a panel."""

    points: Line2D
    worse: Line2D
    intervals: LineCollection
    null_means: Line2D | None
    marks: list[Text]


def _draw_panel(
    ax: Axes,
    label: str,
    comparison: ModelComparison,
    models: list[str],
    show_null_mean: bool,
    show_tests: bool,
    marker_params: dict[str, Any],
) -> _Drawn:
    """Draw the models in rows, by one metric, and the results of the tests."""
    known = {summary.name: summary for summary in comparison.models}
    rows = [known[name] for name in models]
    heights = np.arange(len(rows), dtype=np.float64)
    best = np.array([row.in_best_set for row in rows])
    values, null_means, low, high = np.array(
        [(row.value, row.null_mean, row.lower, row.upper) for row in rows], dtype=np.float64
    ).T
    tested = bool(comparison.pairs)
    dot: dict[str, Any] = {
        "color": BLUE,
        "marker": "o",
        "markersize": 8,
        "linestyle": "none",
        "zorder": 4,
    }
    dot |= full_names(marker_params)
    text = "estimate" + (", not significantly worse" if tested else "")
    (filled,) = ax.plot(values[best], heights[best], **{"label": text} | dot)
    hollow = {"markerfacecolor": ax.get_facecolor(), "markeredgewidth": 1.8}
    text = "estimate, significantly worse" if tested and not best.all() else ""
    (worse,) = ax.plot(values[~best], heights[~best], **dot | hollow | {"label": text})
    with_interval = np.isfinite(low)
    text = f"{100 * comparison.confidence:g}% confidence interval" if with_interval.any() else ""
    intervals = ax.hlines(
        heights[with_interval],
        low[with_interval],
        high[with_interval],
        color=filled.get_color(),
        linewidth=2.4,
        zorder=3,
        label=text,
    )
    ticks = None
    if show_null_mean:
        (ticks,) = ax.plot(
            null_means,
            heights,
            color=GREY,
            marker="|",
            markersize=17,
            markeredgewidth=2.0,
            linestyle="none",
            zorder=2,
        )
        # a marker that fits in the legend
        short: dict[str, Any] = {"markersize": 10, "markeredgewidth": 2.0, "linestyle": "none"}
        ax.plot([], [], color=GREY, marker="|", **short, label="expected under calibration (null mean)")
    marks = _draw_tests(ax, comparison, models) if show_tests and tested else []
    shown = np.concatenate([values, low, high] + ([null_means] if show_null_mean else []))
    ax.set_xlim(_limits(shown[np.isfinite(shown)], _MARGIN if marks else 0.0))
    ax.set_xlabel(plain(label))
    ax.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.8)
    ax.set_axisbelow(True)
    return _Drawn(filled, worse, intervals, ticks, marks)


def _draw_tests(ax: Axes, comparison: ModelComparison, models: list[str]) -> list[Text]:
    """Write the results of the tests at the right of the rows."""
    place = ax.get_yaxis_transform()
    # the background hides the grid line of the row
    ground = {"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 1.5}
    style: dict[str, Any] = {"transform": place, "va": "center", "fontsize": "small", "bbox": ground}
    height = {name: k for k, name in enumerate(models)}
    if comparison.reference is not None:
        tests = {pair.name_a: p_text(pair.adjusted_pvalue) for pair in comparison.pairs}
        return [
            ax.text(0.98, height[name], tests.get(name, "reference"), ha="right", **style) for name in models
        ]
    if len(comparison.pairs) == 1:
        (pair,) = comparison.pairs
        ends = sorted((height[pair.name_a], height[pair.name_b]))
        ax.plot([0.77, 0.79, 0.79, 0.77], np.repeat(ends, 2), transform=place, color=GREY, linewidth=1.2)
        return [ax.text(0.81, sum(ends) / 2.0, p_text(pair.adjusted_pvalue), ha="left", **style)]
    shared = _letters(models, comparison)
    ax.plot([], [], linestyle="none", label="same letter: not significantly different")
    return [ax.text(0.98, height[name], shared[name], ha="right", **style) for name in models]


def _limits(shown: Any, margin: float) -> tuple[float, float]:
    """Return limits around the numbers, from 0 if they come near it, with a margin at the right."""
    low, high = float(shown.min()), float(shown.max())
    from_zero = 0.0 <= low <= _NEAR_ZERO * high
    spread = high - (0.0 if from_zero else low) or abs(high) or 1.0
    left = -0.03 * spread if from_zero else low - 0.08 * spread
    right = high + 0.08 * spread
    return left, left + (right - left) / (1.0 - margin)


@shared_docs
class ComparisonDisplay:
    """Errors of several models on the same samples, with intervals, null means and tests: a forest plot.

    Make one with :meth:`from_predictions`, :meth:`from_estimators` or :meth:`from_result`. Each row is a
    model, e.g. before and after calibration, and each panel a metric. The dot is the estimate, the line the
    confidence interval of the population value, and the grey tick the null mean: the expected value under
    perfect calibration with these predictions. A dot is hollow if the model is significantly worse than
    another one. The right margin shows the p-value of a pair, or of each model against the reference, or else
    letters: models with a common letter are not significantly different.

    Parameters
    ----------
    comparisons : mapping of str to ModelComparison
        Name of each metric, and the comparison of the same models by it.

    Attributes
    ----------
    comparisons : dict
        What is shown.
    axes_ : list of matplotlib Axes
        Axes of each metric, after :meth:`plot`.
    ax_ : matplotlib Axes
        The first of them.
    figure_ : matplotlib Figure
        Figure containing them.
    models_ : list of str
        The models from top to bottom.
    points_, worse_ : list of matplotlib Line2D
        For each metric the dots of the models in the best set, and those of the others.
    intervals_ : list of matplotlib LineCollection
        For each metric the confidence intervals.
    null_means_ : list of matplotlib Line2D
        For each metric the ticks at the null means; empty if they were not asked for.
    marks_ : list of list of matplotlib Text
        For each metric the results of the tests, from top to bottom.

    See Also
    --------
    sklearn_calib.inference.compare_models : The numbers behind the plot, and the assumptions of the tests.
    sklearn_calib.inference.expected_under_calibration : The null mean.

    Notes
    -----
    The estimate of a calibration error is biased upward by sampling noise, more so in smaller samples. The
    interval is for the error without this bias and can therefore lie below the dot. A dot on the tick gives
    no evidence of miscalibration. For scores such as the Brier score the tick is the score that the model's
    own predictions imply.

    Each interval is for a single model. Overlapping intervals do not show that two models are equally good:
    they are evaluated on the same samples, and only the paired tests account for that.

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
    >>> from sklearn_calib.metrics import cutoff_calibration_error
    >>> from sklearn_calib.plot import ComparisonDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=500)
    >>> y = rng.uniform(size=500) < p
    >>> models = {"squared": p**2, "true": p}
    >>> display = ComparisonDisplay.from_predictions(
    ...     y, models, metrics=cutoff_calibration_error, n_resamples=199
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
    models_: list[str]
    points_: list[Line2D]
    worse_: list[Line2D]
    intervals_: list[LineCollection]
    null_means_: list[Line2D]
    marks_: list[list[Text]]

    def __init__(self, comparisons: Mapping[str, ModelComparison]) -> None:
        self.comparisons = dict(comparisons)

    @classmethod
    def from_result(
        cls,
        result: ModelComparison | PairedComparison | Mapping[str, ModelComparison | PairedComparison],
        *,
        metric_name: str = "error",
        model_names: tuple[str, str] = ("model a", "model b"),
        ax: Axes | Sequence[Axes] | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw what :func:`~sklearn_calib.inference.compare_models` or ``paired_test`` returned.

        Parameters
        ----------
        result : ModelComparison, PairedComparison, or mapping of str to these
            One result, or the name of each metric and its result. A PairedComparison has no intervals for
            single models.
        metric_name : str, default="error"
            Name of the metric of a single result.
        model_names : (str, str), default=("model a", "model b")
            Names of the models of a PairedComparison.
        ax : matplotlib Axes or list of these, default=None
            Where to draw, one for each metric; a new figure by default.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        ComparisonDisplay

        Raises
        ------
        TypeError
            If ``result`` is of another type.
        ValueError
            If the results are for different models, or the number of axes does not match.
        %(no_matplotlib)s
        """
        if not isinstance(metric_name, str):
            raise TypeError(f"metric_name must be a string, got {metric_name!r}.")
        given = result if isinstance(result, Mapping) else {metric_name: result}
        if not isinstance(model_names, Sequence) or len(model_names) != 2:
            raise ValueError(f"model_names must be the names of two models, got {model_names!r}.")
        comparisons = {name: _as_comparison(found, model_names) for name, found in given.items()}
        return cls(comparisons).plot(ax, **plot_params)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        predictions: Mapping[str, ArrayLike],
        *,
        metrics: str | Metric | Sequence[str | Metric] | Mapping[str, str | Metric] = "smooth_ece",
        reference: str | None = None,
        correction: Literal["holm", "bonferroni", "none"] = "holm",
        n_resamples: int | None = None,
        confidence: float = 0.95,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        clusters: ArrayLike | None = None,
        random_state: int | np.random.Generator | np.random.RandomState | None = 0,
        ax: Axes | Sequence[Axes] | None = None,
        **plot_params: Any,
    ) -> Self:
        """Compare predictions for the same samples, and draw the result.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels.
        predictions : mapping of str to array-like
            Name of each model and its predicted probabilities, of shape (n,), (n, 1), (n, 2) or (n, K). One
            model is enough, without tests.
        metrics : str, callable, or list or mapping of these, default="smooth_ece"
            Names of functions of :mod:`sklearn_calib.metrics` that return a number, or ``metric(y_true,
            y_proba) -> float``, smaller is better, as in :func:`~sklearn_calib.inference.compare_models`. The
            keys of a mapping are used as labels.
        reference, correction, confidence, sample_weight, pos_label, clusters
            As in :func:`~sklearn_calib.inference.compare_models`.
        n_resamples : int, default=None
            Number of random splits. By default 999, or more if adjusted p-values could otherwise not be
            significant.
        %(seeded_picture)s
        ax : matplotlib Axes or list of these, default=None
            Where to draw, one for each metric; a new figure by default.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        ComparisonDisplay

        Raises
        ------
        %(malformed)s
        TypeError
            If ``predictions`` is not a mapping, a metric is not callable, or a parameter is of the wrong
            type.
        %(no_matplotlib)s

        Notes
        -----
        Costs 2 ``n_resamples`` evaluations of each metric on n / 2 samples for each model, plus those for
        intervals and null means.
        """
        if not isinstance(predictions, Mapping):
            raise TypeError(f"predictions must map names to arrays, got {type(predictions).__name__}.")
        if not predictions:
            raise ValueError("predictions is empty. Pass the predictions of at least one model.")
        named = _named_metrics(metrics)
        _check_axes(ax, len(named))
        check_option(correction, "correction", CORRECTIONS)
        confidence = check_fraction(confidence, "confidence")
        pairs = len(predictions) - 1 if reference is not None else math.comb(len(predictions), 2)
        n_resamples = _enough_resamples(n_resamples, 1 if correction == "none" else pairs, confidence)
        generator = check_generator(random_state)
        params: dict[str, Any] = {
            "n_resamples": n_resamples,
            "confidence": confidence,
            "sample_weight": sample_weight,
            "pos_label": pos_label,
            "clusters": clusters,
            "random_state": generator,
        }
        comparisons = {}
        for label, metric in named.items():
            if len(predictions) == 1:
                comparisons[label] = _one_model(metric, y_true, predictions, **params)
            else:
                comparisons[label] = compare_models(
                    y_true, predictions, metric=metric, reference=reference, correction=correction, **params
                )
        return cls(comparisons).plot(ax, **plot_params)

    @classmethod
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
        X : array-like of shape (n, n_features)
            Held-out data, not the training data.
        y : array-like of shape (n,)
            Labels of the held-out data.
        pos_label : label, default=None
            The positive class of a binary target; ``classes_[1]`` by default.
        **params : dict
            Passed to :meth:`from_predictions`.

        Returns
        -------
        ComparisonDisplay

        Raises
        ------
        TypeError
            If ``estimators`` is not a mapping, or one of them does not predict probabilities.
        ValueError
            If their classes differ, or as in :meth:`from_predictions`.
        """
        if not isinstance(estimators, Mapping):
            raise TypeError(
                f"estimators must map names to fitted classifiers, got {type(estimators).__name__}."
            )
        predictions, common = {}, None
        for name, estimator in estimators.items():
            proba, classes = predicted_probabilities(estimator, X)
            if common is not None and classes != common:
                raise ValueError(
                    f"estimators[{name!r}] has the classes {classes}, others {common}. Compare classifiers "
                    "with the same classes."
                )
            common, predictions[name] = classes, proba
        if common is not None and len(common) == 2:
            for name, proba in predictions.items():
                predictions[name], label = positive_column(proba, common, pos_label)
            pos_label = label
        return cls.from_predictions(y, predictions, pos_label=pos_label, **params)

    def plot(
        self,
        ax: Axes | Sequence[Axes] | None = None,
        *,
        order: Literal["given", "value"] = "given",
        show_null_mean: bool = True,
        show_tests: bool = True,
        show_legend: bool = True,
        **marker_params: Any,
    ) -> Self:
        """Draw the models in rows and the metrics in panels.

        Parameters
        ----------
        ax : matplotlib Axes or list of these, default=None
            Where to draw, one for each metric; by default a new figure, whose height depends on the number of
            models. Size and style of given axes are not changed.
        order : {"given", "value"}, default="given"
            Order of the models from top to bottom. "value" sorts by the first metric, the smallest on top.
        show_null_mean : bool, default=True
            Whether to mark the null means.
        show_tests : bool, default=True
            Whether to write the results of the tests at the right. Dots are hollow or filled in any case.
        show_legend : bool, default=True
            Whether to draw the legend, in the first panel.
        **marker_params : dict
            Properties of the dots, such as ``color`` or ``markersize``; the intervals have the same colour.

        Returns
        -------
        ComparisonDisplay
            The display itself.

        Raises
        ------
        ValueError
            If ``order`` is not one of the options, or the number of axes differs from that of the metrics.
        %(no_matplotlib)s
        """
        check_option(order, "order", ("given", "value"))
        check_flags(show_null_mean=show_null_mean, show_tests=show_tests, show_legend=show_legend)
        given = self._models()
        panels = _check_axes(ax, len(self.comparisons))
        if panels is None:
            columns = len(self.comparisons)
            panels = new_panels(2.4 + 3.6 * columns, 2.4 + 0.4 * len(given), columns)
        summaries = {summary.name: summary for summary in next(iter(self.comparisons.values())).models}
        self.models_ = given if order == "given" else sorted(given, key=lambda name: summaries[name].value)
        drawn = [
            _draw_panel(panel, label, comparison, self.models_, show_null_mean, show_tests, marker_params)
            for panel, (label, comparison) in zip(panels, self.comparisons.items(), strict=True)
        ]
        self.points_, self.worse_ = [each.points for each in drawn], [each.worse for each in drawn]
        self.intervals_, self.marks_ = [each.intervals for each in drawn], [each.marks for each in drawn]
        self.null_means_ = [each.null_means for each in drawn if each.null_means is not None]
        bottom, top = len(given) - 0.5, -0.5
        panels[0].set_yticks(range(len(given)), [plain(name) for name in self.models_])
        panels[0].set_ylim(bottom, top)
        if show_legend:
            legend_above(panels[0], ncols=2)
        for panel in panels[1:]:
            panel.set_ylim(panels[0].get_ylim())
            panel.set_yticks(range(len(given)))
            panel.tick_params(axis="y", labelleft=False)
        self.axes_, self.ax_, self.figure_ = panels, panels[0], panels[0].figure
        return self

    def _models(self) -> list[str]:
        """Return the names of the models, the same in all comparisons."""
        if not self.comparisons:
            raise ValueError("comparisons is empty. Pass the comparison of at least one metric.")
        names = [[model.name for model in comparison.models] for comparison in self.comparisons.values()]
        for label, found in zip(self.comparisons, names, strict=True):
            if found != names[0]:
                raise ValueError(
                    f"comparisons[{label!r}] compares the models {found}, others compare {names[0]}. Compare "
                    "the same models by every metric."
                )
        return names[0]


def _check_axes(ax: Any, n_metrics: int) -> list[Axes] | None:
    """Return one of the axes for each metric, or None if none were given."""
    if ax is None:
        return None
    panels = list(np.atleast_1d(np.asarray(ax, dtype=object)).ravel())
    for panel in panels:
        check_axes(panel)
    if len(panels) != n_metrics:
        raise ValueError(
            f"ax holds {len(panels)} axes, but there are {n_metrics} metrics. Pass one Axes for each metric."
        )
    return panels
