"""Everything about the calibration of one set of predictions, in one call."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._validation import (
    BinarySample,
    ClassSample,
    check_binary,
    check_class_sample,
    check_classes,
    check_fraction,
    check_frequency_weights,
    check_generator,
    check_groups,
    check_resamples,
    check_weights,
)
from sklearn_calib.metrics import CalibrationSummary, ScoreDecomposition
from sklearn_calib.metrics._reductions import split_classes
from sklearn_calib.plot._estimator import positive_column, predicted_probabilities
from sklearn_calib.report._compute import (
    binary_steps,
    classes_test,
    examine,
    part_lines,
    with_adjusted,
)
from sklearn_calib.report._lines import ReportMetric, ReportPart, ReportRegion, ReportTest
from sklearn_calib.report._measure import Budget
from sklearn_calib.report._progress import Progress

__all__ = ["CalibrationReport", "calibration_report"]

_FEWEST_RESAMPLES = 20


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
        for line in self.metrics:
            if line.key == key:
                return line
        known = ", ".join(repr(line.key) for line in self.metrics)
        raise ValueError(f"key must be one of {known}, got {key!r}.")

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
        from sklearn_calib.report._words import warnings

        return warnings(self)

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do next."""
        from sklearn_calib.report._words import advice

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
            Where to write it.
        title : str, default=None
            Title of the page; "Calibration report", with the name of the model, by default.

        Returns
        -------
        str
            The page.
        """
        from sklearn_calib.report._page import report_page

        page = report_page(self, title)
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def to_dict(self) -> dict[str, Any]:
        """Return numbers and sentences as plain Python objects, ready for JSON; NaN and infinity are None.

        Returns
        -------
        dict
        """
        from sklearn_calib.report._text import report_dict

        return report_dict(self)


def calibration_report(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    name: str | None = None,
    confidence: float = 0.95,
    n_resamples: int = 200,
    random_state: int | np.random.Generator | np.random.RandomState | None = 0,
    progress: bool | Callable[[int, int, str], Any] | None = None,
) -> CalibrationReport:
    """Say in one call how well predicted probabilities are calibrated, where they are off, and what to do.

    Every measure stands beside its confidence interval and beside its floor: what a perfectly calibrated
    model with the same predictions would show on as many rows. One test decides whether the model is
    miscalibrated; others say in which way. Stretches of predictions that are off are named where the evidence
    is beyond chance.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, of rows that the model was not trained on.
    y_proba : array-like of shape (n,), (n, 1), (n, 2) or (n, n_classes)
        Predicted probabilities in [0, 1]: of the positive class (of two columns the last is used), or of three
        or more classes in sorted order.
    sample_weight : array-like of shape (n,), default=None
        Frequencies: whole numbers, how often each row was observed.
    pos_label : label, default=None
        The positive class of two. By default 1 for labels in {0, 1} or {-1, 1}, else the greater one.
    labels : array-like of shape (n_classes,), default=None
        Labels of three or more columns, which stand in sorted order. Needed where a label is missing in
        ``y_true``, unless labels are 0, ..., n_classes - 1.
    groups : array-like of shape (n,), default=None
        Group of each row, such as a region or a year; the report then has a line for each group.
    name : str, default=None
        Name of the model, for the title.
    confidence : float, default=0.95
        Level of intervals and ranges; the tests have level 1 - ``confidence``.
    n_resamples : int, default=200
        Resamples behind each floor and each step of an interval; tests redraw 5 times as many less one. At
        least 1 / (1 - ``confidence``) - 1 and at least 20. The time is nearly proportional to it.
    random_state : int, Generator, RandomState or None, default=0
        Seed: equal seeds give equal reports. None draws a fresh one.
    progress : bool, callable or None, default=None
        None shows a bar if stderr is a terminal and tqdm is installed, True always, False never. A function is
        called as ``progress(done, total, what)``.

    Returns
    -------
    CalibrationReport
        The report: ``print`` it, let a notebook show it, or write it with ``to_html``.

    Raises
    ------
    ValueError
        If an argument is malformed (the message names it), or weights are not whole numbers.
    TypeError
        If a parameter is of the wrong type.
    ImportError
        If ``progress=True`` and tqdm is not installed.

    See Also
    --------
    sklearn_calib.inference.compare_models : Several models on the same rows.
    sklearn_calib.inference.CombinedTest : The test that decides.

    Notes
    -----
    Values, scores and tests are those of :mod:`sklearn_calib.metrics` and :mod:`sklearn_calib.inference`,
    intervals and floors those of :func:`~sklearn_calib.inference.confidence_interval` and
    :func:`~sklearn_calib.inference.null_floor`. The ranges of perfectly calibrated predictions for observed -
    expected, intercept, slope and the proper scores are normal, with the variance that the predictions
    imply; intervals of the scores are normal too.

    Of more than 4096 distinct predictions, floors, intervals, slopes and redrawn stretches are those of 2048
    cells of neighbouring predictions, each with its mean (ICI: 128 cells of more than 256, and a quarter of
    the resamples). From 100 000 rows on the tests take the laws of large samples instead of draws.

    Three or more classes are judged twice: all measures are of the confidence, the largest probability as a
    forecast that its class is right; and each class has a line of its own. The p-value that decides is twice
    the smaller of the combined test of the confidence and the test of all classes together (T-Cal, with more
    than 20 classes the kernel test).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.report import calibration_report
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=500)
    >>> y = rng.uniform(size=500) < p**2
    >>> report = calibration_report(y, p, name="too high", n_resamples=50)
    >>> report.miscalibrated
    True
    >>> print(report.metric("observed_minus_expected").value < 0)
    True
    >>> len(report.regions)
    1
    """
    check_fraction(confidence, "confidence")
    n_resamples = check_resamples(n_resamples, confidence)
    if n_resamples < _FEWEST_RESAMPLES:
        raise ValueError(f"n_resamples must be at least {_FEWEST_RESAMPLES}, got {n_resamples}.")
    seed = _seed(random_state)
    budget = Budget(confidence, n_resamples, seed)
    keys = None if groups is None else check_groups(groups, np.asarray(y_true).shape[0])
    shape = np.shape(y_proba)
    if sample_weight is not None:
        check_frequency_weights(check_weights(sample_weight, shape[0] if shape else 0))
        if keys is not None:
            keys = keys[np.asarray(sample_weight) > 0]
    several = len(shape) == 2 and shape[1] > 2
    whole: ClassSample | None = None
    names: list[str] = []
    if several:
        if pos_label is not None:
            raise ValueError(
                f"pos_label={pos_label!r} belongs to a binary problem, but y_proba has {shape[1]} columns. "
                "Leave it out, or pass one column."
            )
        whole = check_class_sample(y_true, y_proba, sample_weight, labels)
        names = _class_names(y_true, labels, shape[1])
        (problem,) = split_classes(whole.y, whole.p, "confidence", whole.w)
        sample = BinarySample(problem.outcome, problem.probability, whole.w)
    else:
        if labels is not None:
            raise ValueError("labels belongs to three or more columns; with two classes pass pos_label.")
        sample = check_binary(y_true, y_proba, sample_weight, pos_label)
    group_names = [] if keys is None else np.unique(keys).tolist()
    with Progress(progress, binary_steps() + bool(several) + len(names) + len(group_names)) as step:
        found = examine(sample, budget, step)
        tests, classes = found.tests, ()
        if whole is not None:
            step("all classes together")
            joint = ("all classes", "all classes together", classes_test(whole, budget))
            first, *rest = [(line.name, line.question, line.result) for line in tests]
            tests = with_adjusted([first, joint, *rest], 2)
            problems = split_classes(whole.y, whole.p, "classwise", whole.w)
            classes = part_lines(
                [
                    (label, BinarySample(part.outcome, part.probability, whole.w))
                    for label, part in zip(names, problems, strict=True)
                ],
                budget,
                step,
            )
        parts = [] if keys is None else [(str(key), _rows(sample, keys == key)) for key in group_names]
        group_lines = part_lines(parts, budget, step)
    from sklearn_calib import __version__

    deciding = [line.result.pvalue for line in tests if np.isnan(line.adjusted)]
    grouped = found.grouped
    certain = (grouped.prob <= 0.0) | (grouped.prob >= 1.0)
    impossible = np.where(grouped.prob <= 0.0, grouped.positives, grouped.weight - grouped.positives)
    return CalibrationReport(
        name="" if name is None else str(name),
        kind="confidence" if several else "binary",
        positive="" if several else _positive(y_true, pos_label),
        n_samples=grouped.total,
        n_events=float(grouped.positives.sum()),
        n_distinct=int(grouped.prob.shape[0]),
        n_certain=float(grouped.weight[certain].sum()),
        n_impossible=float(impossible[certain].sum()),
        predicted=float(grouped.weight @ grouped.prob) / grouped.total,
        observed=float(grouped.positives.sum()) / grouped.total,
        metrics=found.metrics,
        tests=tests,
        pvalue=min(1.0, len(deciding) * min(deciding)),
        regions=found.regions,
        residual_pvalue=found.residual_pvalue,
        classes=classes,
        groups=group_lines,
        summary=found.summary,
        brier=found.brier,
        log_loss=found.log_loss,
        confidence=float(confidence),
        n_resamples=n_resamples,
        seed=seed,
        version=__version__,
        _sample=sample,
    )


def _seed(random_state: Any) -> int:
    """Return the seed itself, or one drawn from a source of randomness."""
    generator = check_generator(random_state)
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(generator.integers(1 << 32))


def _rows(sample: BinarySample, chosen: NDArray[np.bool_]) -> BinarySample:
    return BinarySample(sample.y[chosen], sample.p[chosen], None if sample.w is None else sample.w[chosen])


def _class_names(y_true: ArrayLike, labels: ArrayLike | None, n_classes: int) -> list[str]:
    """Return the labels of the columns, found as the checks of class probabilities find them."""
    known = check_classes(y_true if labels is None else labels)[0]
    if known.shape[0] != n_classes:
        known = np.arange(n_classes)
    return [str(label) for label in known.tolist()]


def _positive(y_true: ArrayLike, pos_label: Any) -> str:
    """Return the label of the positive class, as the checks of a binary sample find it."""
    if pos_label is not None:
        return str(pos_label)
    known = np.unique(np.asarray(y_true))
    return str(known[-1]) if known.dtype.kind not in "biuf" or not set(known.tolist()) <= {-1, 0, 1} else "1"
