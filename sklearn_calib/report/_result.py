"""The result of a report: all numbers, and the ways to show them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from sklearn_calib._validation import BinarySample, check_option
from sklearn_calib._writing import write_whole
from sklearn_calib.metrics import CalibrationSummary, ScoreDecomposition
from sklearn_calib.plot._estimator import positive_column, predicted_probabilities
from sklearn_calib.report._lines import ReportMetric, ReportPart, ReportRegion, ReportTest

__all__ = ["CalibrationReport"]


@dataclass(frozen=True, eq=False)
class CalibrationReport:
    """What :func:`calibration_report` found; prints as text, shows as HTML in notebooks.

    Attributes
    ----------
    name : str
        Name of the model; empty if none was given.
    kind : {"binary", "confidence"}
        What the measures, tests and stretches are about: the probability of the positive class; or, of three
        or more classes, the largest probability as a forecast that its class is the right one.
    positive : str
        Label of the positive class; empty for several classes.
    n_samples, n_events : float
        Numbers of rows, and of events among them.
    n_distinct : int
        Number of distinct predictions.
    n_certain, n_impossible : float
        Number of rows whose prediction is exactly 0 or 1, and of those whose outcome this calls impossible.
    predicted, observed : float
        Mean prediction and event frequency.
    metrics : tuple of ReportMetric
        Measures, each with its interval and with what perfectly calibrated predictions would show.
    tests : tuple of ReportTest
        Tests. Those without adjusted p-value decide: the combined test and, of several classes, the test of
        all of them together.
    pvalue : float
        The p-value that decides.
    regions : tuple of ReportRegion
        Stretches of predictions that are off beyond chance.
    residual_pvalue : float
        p-value of what a shift and a stretch of the log-odds would leave; NaN where it is not determined.
    classes, groups : tuple of ReportPart
        A line for each class against the rest, and for each group.
    summary : CalibrationSummary
        The clinical measures; of more than 4096 distinct predictions, after averaging neighbours.
    brier, log_loss : ScoreDecomposition
        The proper scores and their parts.
    confidence : float
        Level of intervals and ranges; 1 - ``confidence`` is that of the tests.
    n_resamples, seed : int
        Number of resamples and the seed that were used.
    version : str
        Version of the package.
    sketched : bool
        Whether it was made from a sketch, whose cells stand for the predictions in them, instead of rows.
    """

    name: str
    kind: str
    positive: str
    n_samples: float
    n_events: float
    n_distinct: int
    n_certain: float
    n_impossible: float
    predicted: float
    observed: float
    metrics: tuple[ReportMetric, ...] = field(repr=False)
    tests: tuple[ReportTest, ...] = field(repr=False)
    pvalue: float
    regions: tuple[ReportRegion, ...] = field(repr=False)
    residual_pvalue: float = field(repr=False)
    classes: tuple[ReportPart, ...] = field(repr=False)
    groups: tuple[ReportPart, ...] = field(repr=False)
    summary: CalibrationSummary = field(repr=False)
    brier: ScoreDecomposition = field(repr=False)
    log_loss: ScoreDecomposition = field(repr=False)
    confidence: float = field(repr=False)
    n_resamples: int = field(repr=False)
    seed: int = field(repr=False)
    version: str = field(repr=False)
    sketched: bool = field(repr=False)
    _sample: BinarySample = field(repr=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        pos_label: Any = None,
        name: str | None = None,
        **params: Any,
    ) -> "CalibrationReport":
        """Report on a fitted classifier's predictions for data.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``predict_proba`` and ``classes_``.
        X : array-like of shape (n, n_features)
            Data on which it predicts; not those it was trained on.
        y : array-like of shape (n,)
            Their labels.
        pos_label : label, default=None
            The positive class of two; ``classes_[1]`` by default.
        name : str, default=None
            Name of the model; the class of the estimator by default.
        **params : dict
            Passed to :func:`calibration_report`, among them ``sample_weight`` and ``groups``.

        Returns
        -------
        CalibrationReport

        Raises
        ------
        TypeError
            If the estimator does not predict probabilities.
        ValueError
            If an argument is malformed; the message names it.
        """
        from sklearn_calib.report._report import calibration_report

        proba, classes = predicted_probabilities(estimator, X)
        shown = type(estimator).__name__ if name is None else name
        if len(classes) != 2:
            return calibration_report(y, proba, labels=classes, pos_label=pos_label, name=shown, **params)
        p, pos_label = positive_column(proba, classes, pos_label)
        return calibration_report(y, p, pos_label=pos_label, name=shown, **params)

    def metric(self, key: str) -> ReportMetric:
        """Return a measure by its key.

        Parameters
        ----------
        key : str
            Such as "smooth_ece", "slope" or "brier".

        Returns
        -------
        ReportMetric

        Raises
        ------
        ValueError
            If there is no such measure; the message lists them.
        """
        lines = {line.key: line for line in self.metrics}
        return lines[check_option(key, "key", lines)]

    @property
    def miscalibrated(self) -> bool:
        """Whether the evidence against calibration is beyond chance: ``pvalue <= 1 - confidence``."""
        # 1 - 0.95 is a little more than 0.05, and a p-value of 0.05 counts
        return self.pvalue <= 1.0 - self.confidence + 1e-12

    @property
    def verdict(self) -> str:
        """The result in a sentence or two."""
        from sklearn_calib.report._words import verdict

        found = verdict(self)
        return f"{found.title} {found.detail}"

    @property
    def findings(self) -> tuple[str, ...]:
        """Where and in which way the predictions are off, in words."""
        from sklearn_calib.report._words import findings

        return findings(self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to be careful about in these data."""
        from sklearn_calib.report._advice import warnings

        return warnings(self)

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do next."""
        from sklearn_calib.report._advice import advice

        return advice(self)

    def __str__(self) -> str:
        from sklearn_calib.report._text import report_text

        return report_text(self)

    def _repr_html_(self) -> str:
        from sklearn_calib.report._page import report_fragment

        return report_fragment(self)

    def to_html(self, path: str | Path | None = None, *, title: str | None = None) -> str:
        """Return the report as a page of HTML that stands alone, and write it to a file if one is named.

        Pictures are drawn with matplotlib; without it the page has none and says so. Nothing is loaded from
        elsewhere, no script runs, and all texts of the user are escaped.

        Parameters
        ----------
        path : str or Path, default=None
            Where to write it. A file of this name is replaced when the page is complete, and keeps its mode.
        title : str, default=None
            Title of the page; "Calibration report", with the name of the model, by default.

        Returns
        -------
        str
            The page.

        Raises
        ------
        TypeError
            If ``title`` is no text.
        OSError
            If the file cannot be written; it names ``path``.
        """
        from sklearn_calib.report._page import report_page

        page = report_page(self, title)
        if path is not None:
            write_whole(path, page.encode("utf-8"))
        return page

    def to_dict(self) -> dict[str, Any]:
        """Return numbers and sentences as plain Python objects, ready for JSON; NaN and infinity are None.

        Returns
        -------
        dict
        """
        from sklearn_calib.report._text import report_dict

        return report_dict(self)
