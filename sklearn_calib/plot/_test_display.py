"""What a test of calibration saw: null distribution, evidence of its parts, or path of a sequential test."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation import Outcomes, check_fraction, check_option
from sklearn_calib.inference import CalibrationTest, CalibrationTestResult, SequentialTestResult
from sklearn_calib.plot._estimator import positive_column, predicted_probabilities
from sklearn_calib.plot._matplotlib import check_axes, check_flags, full_names, legend_above, new_axes, plain
from sklearn_calib.plot._test_data import (
    EvidencePath,
    NullCurve,
    NullHistogram,
    ScaleEvidence,
    evidence_path,
    null_curve,
    null_histogram,
    scale_evidence,
)
from sklearn_calib.plot._test_drawing import draw_null, draw_path, draw_scales

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

__all__ = ["TestDisplay"]

_KINDS = ("auto", "null", "scales", "path")
_TAILS = ("upper", "lower", "two-sided")
_ADVICE = "Run a test that keeps its draws, such as TCal() or CutoffTest(method='monte_carlo')"


class TestDisplay:
    """What a test of calibration saw, beside what it would see if the predictions were calibrated.

    Make one with :meth:`from_predictions` or :meth:`from_estimator`, which run a test, or with
    :meth:`from_result`. There are three pictures. "null": the distribution of the statistic under the null
    hypothesis, redrawn or in theory, with the observed statistic as a line; what lies as far out or farther
    is dark, and its share is the p-value. "scales": for a test of several parts (T-Cal's numbers of bins, the
    bandwidths of a kernel, the values of a binomial test, the components of a combined test), the evidence of
    each: its statistic in units of the null standard deviation, or its p-value. "path": for a sequential
    test, the e-value after each observation.

    Parameters
    ----------
    result : CalibrationTestResult
        What to show.
    name : str, default=None
        Title of the legend; the name of the test by default.

    Attributes
    ----------
    result : CalibrationTestResult
        What is shown.
    ax_ : matplotlib Axes
        Axes with the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Figure containing it.
    kind_ : {"null", "scales", "path"}
        Which picture it is.
    observed_ : matplotlib Line2D
        "null": the line at the observed statistic. "scales": the points, one for each part. "path": the
        e-value, as a logarithm to base 10.
    null_ : matplotlib BarContainer, Line2D or LineCollection
        "null": the bars of all redrawn samples that are less extreme, or the density. "scales": the stems,
        from 0, or from a p-value of 1. "path": the line of no evidence, an e-value of 1.
    tail_ : matplotlib BarContainer, Collection or Line2D
        What speaks against the null hypothesis. "null": the bars or the area at least as extreme as
        observed. "scales": the filled points, whose own p-value is at most 1 - ``confidence``. "path": the
        point where the e-value first reached 1 / (1 - ``confidence``), if it did.
    critical_ : matplotlib Line2D or None
        "scales": the critical value. "path": the e-value of 1 / (1 - ``confidence``).

    See Also
    --------
    ReliabilityDisplay : Where and how far the predictions are off.

    Notes
    -----
    The histogram has an edge at the observed statistic, so that no bar holds draws of both kinds; draws that
    only rounding parts from it count as ties. With N draws the p-value counts the observed sample too, and is
    1 / (N + 1) where nothing is dark. For T-Cal the statistic is the smallest p-value of a scale, by default
    divided by the share of the level that the scale has: small ones are extreme. With ``combine="min-p"``
    ties are broken by the standardised statistic, so that the dark part can be more than the p-value. The
    axis is logarithmic where such statistics span more than a factor of 20.

    "scales" shows p-values of the values of a binomial test adjusted for their number, those of components as
    if each were the only test. Of scales it shows standardised statistics where these are what the test
    compares, as T-Cal does with ``combine="max"``; otherwise p-values, on a logarithmic axis that points
    down. A p-value of 0, of what is impossible, stands above all others and is marked so. The critical value
    is that of the largest statistic, or of the smallest p-value, by the draws. Without draws it is that of a
    single scale; for statistics it is then the normal one, approximate, and too small for few bins.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn_calib.inference import CutoffTest
    >>> from sklearn_calib.plot import TestDisplay
    >>> p = np.linspace(0.05, 0.95, 50)
    >>> test = CutoffTest(n_resamples=199, random_state=0)
    >>> display = TestDisplay.from_predictions(test, p > 0.4, p)
    >>> display.kind_
    'null'
    >>> print(display.observed_.get_label())
    observed 3.17, p-value 0.01
    >>> plt.close(display.figure_)
    """

    # the name does not make it a case for pytest
    __test__: ClassVar[bool] = False

    ax_: "Axes"
    figure_: "Figure | SubFigure"
    kind_: str
    observed_: "Line2D"
    null_: Any
    tail_: Any
    critical_: "Line2D | None"

    def __init__(self, result: CalibrationTestResult, *, name: str | None = None) -> None:
        self.result = result
        self.name = name

    @classmethod
    def from_result(
        cls,
        result: CalibrationTestResult,
        *,
        name: str | None = None,
        ax: "Axes | None" = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the result of a test.

        Parameters
        ----------
        result : CalibrationTestResult
            What ``test`` returned, or ``result_`` of a fitted test.
        name : str, default=None
            Title of the legend; the name of the test by default.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        TestDisplay

        Raises
        ------
        TypeError
            If ``result`` is not the result of a test.
        ValueError
            If it does not hold what is to be drawn; the message says what to do.
        ImportError
            If matplotlib is not installed.
        """
        if not isinstance(result, CalibrationTestResult):
            raise TypeError(
                f"result must be a CalibrationTestResult, got {type(result).__name__}. Pass what test() "
                "returns, or result_ of a fitted test."
            )
        return cls(result, name=name).plot(ax, **plot_params)

    @classmethod
    def from_predictions(
        cls,
        test: CalibrationTest,
        y_true: Outcomes,
        y_proba: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        name: str | None = None,
        ax: "Axes | None" = None,
        **plot_params: Any,
    ) -> Self:
        """Run a test on predictions, and draw its result.

        Parameters
        ----------
        test : CalibrationTest
            The test; it is not fitted.
        y_true : array-like of shape (n,) or CalibrationSketch
            Outcomes.
        y_proba : array-like of shape (n,), (n, 1), (n, 2) or (n, K), default=None
            Predicted probabilities. Left out with a sketch.
        sample_weight : array-like of shape (n,), default=None
            Frequencies.
        pos_label : label, default=None
            The positive class of two.
        labels : array-like of shape (K,), default=None
            The labels of three or more columns.
        name : str, default=None
            Title of the legend; the name of the test by default.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        TestDisplay

        Raises
        ------
        TypeError
            If ``test`` is not a test of calibration.
        ValueError
            If an argument is malformed, as ``test.test`` says; or the result does not hold what is to be
            drawn.
        ImportError
            If matplotlib is not installed.
        """
        _check_test(test)
        result = test.test(y_true, y_proba, sample_weight=sample_weight, pos_label=pos_label, labels=labels)
        return cls.from_result(result, name=name, ax=ax, **plot_params)

    @classmethod
    def from_estimator(
        cls,
        test: CalibrationTest,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        pos_label: Any = None,
        **params: Any,
    ) -> Self:
        """Run a test on the probabilities that a fitted classifier predicts, and draw its result.

        Parameters
        ----------
        test : CalibrationTest
            The test; it is not fitted.
        estimator : object
            Fitted classifier, or pipeline that ends in one, with ``predict_proba`` and ``classes_``.
        X : array-like of shape (n, n_features)
            Data on which it predicts; not those it was trained on.
        y : array-like of shape (n,)
            Their labels.
        pos_label : label, default=None
            The positive class of two; ``classes_[1]`` by default.
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
            As :meth:`from_predictions`; or if the estimator has three classes or more, and the test is for
            two.
        """
        _check_test(test)
        proba, classes = predicted_probabilities(estimator, X)
        if len(classes) > 2:
            return cls.from_predictions(test, y, proba, pos_label=pos_label, labels=classes, **params)
        y_proba, pos_label = positive_column(proba, classes, pos_label)
        return cls.from_predictions(test, y, y_proba, pos_label=pos_label, **params)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        kind: Literal["auto", "null", "scales", "path"] = "auto",
        confidence: float = 0.95,
        name: str | None = None,
        show_legend: bool = True,
        **line_params: Any,
    ) -> Self:
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default. Its size and the style in force are left alone.
        kind : {"auto", "null", "scales", "path"}, default="auto"
            The null distribution, the evidence of each part of the test, or the e-value of a sequential test.
            "auto" is the last for such a test, else the first where the result knows it.
        confidence : float, default=0.95
            1 less the level of the critical value of "scales" and "path", and of the filled points.
        name : str, default=None
            Title of the legend; the display's own by default.
        show_legend : bool, default=True
            Whether to draw the legend.
        **line_params : dict
            Properties of the line or points of what was observed, such as ``color`` or ``linewidth``.

        Returns
        -------
        TestDisplay
            The display itself.

        Raises
        ------
        ValueError
            If the result does not hold what is to be drawn, the statistic is not finite, or a parameter is
            wrong.
        ImportError
            If matplotlib is not installed.
        """
        check_option(kind, "kind", _KINDS)
        # so that 0.9 is the level 0.1, and not one that rounding makes less
        level = max(round(1.0 - check_fraction(confidence, "confidence"), 15), 1e-15)
        check_flags(show_legend=show_legend)
        check_axes(ax)
        shown = self._content(kind, level)
        drawn: tuple[Line2D, Any, Any, Line2D | None]
        ax = new_axes(6.4, 4.2) if ax is None else ax
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
            if self.kind_ != "null":
                title += f": p-value {self.result.pvalue:.3g}"
            legend_above(ax, title=title)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _content(self, kind: str, level: float) -> NullHistogram | NullCurve | ScaleEvidence | EvidencePath:
        """Return what is drawn, or raise if the result does not hold it."""
        result = self.result
        if isinstance(result, SequentialTestResult) and kind in ("auto", "path"):
            if not result.log_e_path.shape[0]:
                raise ValueError("The result holds no observations, so that there is no path to draw.")
            return evidence_path(result, level)
        if kind == "path":
            raise ValueError(
                f"kind='path' is for a SequentialTest, but the result is of {result.test!r}. "
                "Draw kind='auto'."
            )
        check_option(result.tail, "result.tail", _TAILS)
        known = result.null_distribution is not None or bool(result.null_law)
        if kind == "null" or (kind == "auto" and known):
            if not known:
                raise ValueError(
                    f"kind='null' needs a null distribution, which this result of {result.test!r} "
                    f"({result.method}) does not hold. {_ADVICE}"
                    + (", or draw kind='scales'." if scale_evidence(result, level) else ".")
                )
            if not np.isfinite(result.statistic):
                raise ValueError(
                    f"The statistic of {result.test!r} is {result.statistic}, which has no place on an axis. "
                    f"The p-value is {result.pvalue:.3g}: {result.reason}."
                )
            if result.null_distribution is None:
                return null_curve(result.null_law, result.statistic, result.tail)
            return null_histogram(result.null_distribution, result.statistic, result.tail)
        evidence = scale_evidence(result, level)
        if evidence is None:
            raise ValueError(
                f"The result of {result.test!r} ({result.method}) holds "
                + ("" if kind == "scales" else "no null distribution and ")
                + "no scales to draw. "
                + ("Draw kind='null'." if known else f"{_ADVICE}.")
            )
        return evidence


def _check_test(test: Any) -> None:
    if not isinstance(test, CalibrationTest):
        shown = f"the class {test.__name__}" if isinstance(test, type) else repr(test)
        raise TypeError(f"test must be a test of calibration, such as TCal(), got {shown}.")
