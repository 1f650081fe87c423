"""Calibration errors of several models side by side: a dot plot with intervals, floors and tests."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core._multiple import CORRECTIONS
from sklearn_calib._validation import check_fraction, check_generator, check_option
from sklearn_calib.inference import ModelComparison, PairedComparison, compare_models
from sklearn_calib.metrics import smooth_ece
from sklearn_calib.plot._comparison_data import (
    Metric,
    as_comparison,
    enough_resamples,
    named_metrics,
    one_model,
)
from sklearn_calib.plot._comparison_drawing import draw_panel
from sklearn_calib.plot._estimator import positive_column, predicted_probabilities
from sklearn_calib.plot._matplotlib import (
    check_axes,
    check_flags,
    legend_above,
    new_panels,
    plain,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

__all__ = ["ComparisonDisplay"]


class ComparisonDisplay:
    """Errors of several models on the same rows, with intervals, null floors and tests: a forest plot.

    Make one with :meth:`from_predictions`, :meth:`from_estimators` or :meth:`from_result`. Each row is a
    model, say before and after calibration, and each panel a metric. The dot is the metric as measured, the
    line the confidence interval of its value in the population, and the grey tick the floor: what a
    perfectly calibrated model with these predictions would show on average. A dot is hollow if a test found
    the model worse than another one. At the right stand the p-value of a pair, or of each model against the
    reference, or else letters: models that share one were not found to differ.

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
    floors_ : list of matplotlib Line2D
        For each metric the ticks at the null floors; empty if they were not asked for.
    marks_ : list of list of matplotlib Text
        For each metric what the tests say, from top to bottom.

    See Also
    --------
    sklearn_calib.inference.compare_models : The numbers behind the picture, and what the tests assume.
    sklearn_calib.inference.null_floor : The floor.

    Notes
    -----
    Noise adds to a calibration error, the more the fewer rows there are; the interval is of the error without
    it, and can therefore lie below the dot. A dot on the tick is as good as can be told from these rows. For
    scores such as the Brier score the tick is the score that the model promises by its own predictions.

    The intervals are of one model each. Whether two of them overlap does not tell whether the models differ:
    they are judged on the same rows, and only the tests make use of that.

    Letters are a compact letter display [1]_: every pair whose adjusted p-value is at most 1 - ``confidence``
    shares none, and every other pair at least one.

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

    axes_: "list[Axes]"
    ax_: "Axes"
    figure_: "Figure | SubFigure"
    models_: list[str]
    points_: "list[Line2D]"
    worse_: "list[Line2D]"
    intervals_: "list[LineCollection]"
    floors_: "list[Line2D]"
    marks_: "list[list[Text]]"

    def __init__(self, comparisons: Mapping[str, ModelComparison]) -> None:
        self.comparisons = dict(comparisons)

    @classmethod
    def from_result(
        cls,
        result: ModelComparison | PairedComparison | Mapping[str, ModelComparison | PairedComparison],
        *,
        metric_name: str = "error",
        model_names: tuple[str, str] = ("model a", "model b"),
        ax: "Axes | Sequence[Axes] | None" = None,
        **plot_params: Any,
    ) -> Self:
        """Draw what :func:`~sklearn_calib.inference.compare_models` or ``paired_test`` returned.

        Parameters
        ----------
        result : ModelComparison, PairedComparison, or mapping of str to these
            One result, or the name of each metric and its result. A PairedComparison holds no intervals of
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
            If ``result`` is neither.
        ValueError
            If the results are not of the same models, or ``ax`` does not fit them.
        ImportError
            If matplotlib is not installed.
        """
        if not isinstance(metric_name, str):
            raise TypeError(f"metric_name must be a text, got {metric_name!r}.")
        given = result if isinstance(result, Mapping) else {metric_name: result}
        if not isinstance(model_names, Sequence) or len(model_names) != 2:
            raise ValueError(f"model_names must be the names of two models, got {model_names!r}.")
        comparisons = {name: as_comparison(found, model_names) for name, found in given.items()}
        return cls(comparisons).plot(ax, **plot_params)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        predictions: Mapping[str, ArrayLike],
        *,
        metrics: Metric | Sequence[Metric] | Mapping[str, Metric] = smooth_ece,
        reference: str | None = None,
        correction: Literal["holm", "bonferroni", "none"] = "holm",
        n_resamples: int | None = None,
        confidence: float = 0.95,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        random_state: int | np.random.Generator | np.random.RandomState | None = 0,
        ax: "Axes | Sequence[Axes] | None" = None,
        **plot_params: Any,
    ) -> Self:
        """Compare predictions of the same rows, and draw the result.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels.
        predictions : mapping of str to array-like
            Name of each model and its predicted probabilities, of shape (n,), (n, 1), (n, 2) or (n, K). One
            model is enough; then there are no tests.
        metrics : callable, list of callables or mapping of str to callable, default=smooth_ece
            ``metric(y_true, y_proba) -> float``, smaller is better, as in
            :func:`~sklearn_calib.inference.compare_models`; a mapping gives their names.
        reference, correction, confidence, sample_weight, pos_label
            As in :func:`~sklearn_calib.inference.compare_models`.
        n_resamples : int, default=None
            Number of random splits. By default 999, or more where the adjusted p-values of so many pairs
            could not be small otherwise.
        random_state : int, Generator, RandomState or None, default=0
            Source of the draws; by default the same data give the same picture.
        ax : matplotlib Axes or list of these, default=None
            Where to draw, one for each metric; a new figure by default.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        ComparisonDisplay

        Raises
        ------
        ValueError
            If an argument is malformed; the message names it.
        TypeError
            If ``predictions`` is no mapping, a metric cannot be called, or a parameter is of the wrong type.
        ImportError
            If matplotlib is not installed.

        Notes
        -----
        Costs 2 ``n_resamples`` evaluations of each metric on n / 2 rows for each model, and some more for
        intervals and floors.
        """
        if not isinstance(predictions, Mapping):
            raise TypeError(f"predictions must map names to arrays, got {type(predictions).__name__}.")
        if not predictions:
            raise ValueError("predictions is empty. Pass the predictions of at least one model.")
        named = named_metrics(metrics)
        _check_axes(ax, len(named))
        check_option(correction, "correction", CORRECTIONS)
        confidence = check_fraction(confidence, "confidence")
        pairs = len(predictions) - 1 if reference is not None else math.comb(len(predictions), 2)
        n_resamples = enough_resamples(n_resamples, 1 if correction == "none" else pairs, confidence)
        generator = check_generator(random_state)
        params: dict[str, Any] = {
            "n_resamples": n_resamples,
            "confidence": confidence,
            "sample_weight": sample_weight,
            "pos_label": pos_label,
            "random_state": generator,
        }
        comparisons = {}
        for label, metric in named.items():
            if len(predictions) == 1:
                comparisons[label] = one_model(metric, y_true, predictions, **params)
            else:
                comparisons[label] = compare_models(
                    metric, y_true, predictions, reference=reference, correction=correction, **params
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
            Data on which they predict; not those they were trained on.
        y : array-like of shape (n,)
            Their labels.
        pos_label : label, default=None
            The positive class of two; ``classes_[1]`` by default.
        **params : dict
            Passed to :meth:`from_predictions`.

        Returns
        -------
        ComparisonDisplay

        Raises
        ------
        TypeError
            If ``estimators`` is no mapping, or one of them does not predict probabilities.
        ValueError
            If they do not know the same classes, or as :meth:`from_predictions`.
        """
        if not isinstance(estimators, Mapping):
            raise TypeError(
                f"estimators must map names to fitted classifiers, got {type(estimators).__name__}."
            )
        predictions, known = {}, None
        for name, estimator in estimators.items():
            proba, classes = predicted_probabilities(estimator, X)
            if known is not None and classes != known:
                raise ValueError(
                    f"estimators[{name!r}] knows the classes {classes}, others {known}. Compare classifiers "
                    "of the same classes."
                )
            known, predictions[name] = classes, proba
        if known is not None and len(known) == 2:
            for name, proba in predictions.items():
                predictions[name], label = positive_column(proba, known, pos_label)
            pos_label = label
        return cls.from_predictions(y, predictions, pos_label=pos_label, **params)

    def plot(
        self,
        ax: "Axes | Sequence[Axes] | None" = None,
        *,
        order: Literal["given", "value"] = "given",
        show_floor: bool = True,
        show_tests: bool = True,
        show_legend: bool = True,
        **marker_params: Any,
    ) -> Self:
        """Draw the models in rows and the metrics in panels.

        Parameters
        ----------
        ax : matplotlib Axes or list of these, default=None
            Where to draw, one for each metric; a new figure by default, which grows with the models. Size and
            style of what is given are left alone.
        order : {"given", "value"}, default="given"
            Order of the models from top to bottom; "value": by the first metric, the smallest on top.
        show_floor : bool, default=True
            Whether to mark the null floors.
        show_tests : bool, default=True
            Whether to say at the right what the tests found. Dots are hollow or filled in any case.
        show_legend : bool, default=True
            Whether to draw the legend, in the first panel.
        **marker_params : dict
            Properties of the dots, such as ``color`` or ``markersize``; the intervals share their colour.

        Returns
        -------
        ComparisonDisplay
            The display itself.

        Raises
        ------
        ValueError
            If ``order`` is none of its options, or the number of axes is not that of the metrics.
        ImportError
            If matplotlib is not installed.
        """
        check_option(order, "order", ("given", "value"))
        check_flags(show_floor=show_floor, show_tests=show_tests, show_legend=show_legend)
        given = self._models()
        panels = _check_axes(ax, len(self.comparisons))
        if panels is None:
            columns = len(self.comparisons)
            panels = new_panels(2.4 + 3.6 * columns, 2.0 + 0.4 * len(given), columns)
        rows = {row.name: row for row in next(iter(self.comparisons.values())).rows}
        self.models_ = given if order == "given" else sorted(given, key=lambda name: rows[name].value)
        drawn = [
            draw_panel(panel, label, comparison, self.models_, show_floor, show_tests, marker_params)
            for panel, (label, comparison) in zip(panels, self.comparisons.items(), strict=True)
        ]
        self.points_, self.worse_ = [each.points for each in drawn], [each.worse for each in drawn]
        self.intervals_, self.marks_ = [each.intervals for each in drawn], [each.marks for each in drawn]
        self.floors_ = [each.floors for each in drawn if each.floors is not None]
        bottom, top = len(given) - 0.5, -0.5
        panels[0].set_yticks(range(len(given)), [plain(name) for name in self.models_])
        panels[0].set_ylim(bottom, top)
        if show_legend:
            legend_above(panels[0])
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
        names = [[row.name for row in comparison.rows] for comparison in self.comparisons.values()]
        for label, found in zip(self.comparisons, names, strict=True):
            if found != names[0]:
                raise ValueError(
                    f"comparisons[{label!r}] is of the models {found}, others of {names[0]}. Compare the "
                    "same models by every metric."
                )
        return names[0]


def _check_axes(ax: Any, n_metrics: int) -> "list[Axes] | None":
    """Return one of the axes for each metric, or None if none were given."""
    if ax is None:
        return None
    panels = list(np.atleast_1d(np.asarray(ax, dtype=object)).ravel())
    for panel in panels:
        check_axes(panel)
    if len(panels) != n_metrics:
        raise ValueError(
            f"ax holds {len(panels)} axes, but there are {n_metrics} metrics. Pass one of the axes for each."
        )
    return panels
