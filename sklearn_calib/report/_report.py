"""A calibration report for one set of predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib import _validation
from sklearn_calib._core._grouping import as_sampled, weighting
from sklearn_calib._docs import shared_docs
from sklearn_calib._progress import Progress
from sklearn_calib._typing import Weights
from sklearn_calib._version import __version__
from sklearn_calib._writing import write_whole
from sklearn_calib.inference._data_checks import largest_rounded, serial_dependence
from sklearn_calib.inference._group_differences import differences_of
from sklearn_calib.inference._segments import feature_columns
from sklearn_calib.metrics._reductions import check_problem, class_samples, label_names
from sklearn_calib.plot._estimator import estimator_predictions
from sklearn_calib.report import _numbers
from sklearn_calib.report._words import advice, findings, report_dict, report_text, verdict, warnings


@shared_docs
@dataclass(frozen=True, eq=False)
class CalibrationReport(_numbers.ReportNumbers):
    """Result of :func:`calibration_report`; printed as text, displayed as HTML in notebooks.

    Attributes
    ----------
    name : str
        Name of the model; empty if none was given.
    kind : {"binary", "confidence", "multilabel"}
        What metrics, tests and regions refer to: the probability of the positive class; for multiclass
        targets, the confidence, that is the largest class probability as a forecast that the predicted class
        is right; for multilabel targets, the probabilities of all pairs of a sample and a label.
    positive : str
        Label of the positive class; empty for multiclass and multilabel targets.
    n_samples, n_events : float
        Numbers of samples, and of events among them, both unweighted if weights are sampling weights. For
        multilabel targets, numbers of pairs of a sample and a label.
    n_distinct : int
        Number of distinct predictions.
    n_certain, n_impossible : float
        Number of samples whose prediction is exactly 0 or 1, and of those with the opposite outcome. For
        multiclass targets, number of class probabilities of exactly 0, and of those of the true class.
    rounding : float
        Largest probability that may have been rounded to 0: half the largest step of at most 1/10 of which
        all predictions are multiples, if there is one, and at least 1 / (2 n).
    predicted, observed : float
        Mean prediction and event frequency.
    metrics : tuple of ReportMetric
        Metrics, each with its confidence interval and its range under perfect calibration. Multiclass
        reports have those of the confidence and, with their own ``reduction``, those of all classes.
    tests : tuple of ReportTest
        Tests. The first is primary: the combined test, or for multiclass and multilabel targets the joint
        cutoff test, whose ``scales`` are the p-values of the labels, or of the classes, their mean and the
        confidence, the worst first.
    pvalue : float
        p-value of the primary test, multiplied by the number of families of tests. If
        predictions of exactly 0 or 1 are contradicted, it is that of the other samples, and the
        contradictions are the first of the findings.
    selection : CalibratorSelection or None
        Cross-validated comparison of the calibrators among which the report recommends one, if it is
        miscalibrated; None for more than 20 classes or fewer than five samples of an outcome.
    regions : tuple of Region
        Intervals of predictions that are significantly miscalibrated.
    residual_pvalue : float
        p-value of a test after correcting intercept and slope; NaN if these are not determined.
    classes, groups : tuple of ReportPart
        Results for each class against the rest or each label, and for each group.
    segments : SegmentsResult or None
        Result of :func:`~sklearn_calib.inference.find_segments`, for multiclass targets of the confidence.
        Its p-values are multiplied by the number of families of tests. None without ``features``.
    groups_pvalue : float
        p-value of a test that all groups have the same calibration intercept and slope; NaN without groups,
        and where the slope is not determined.
    summary : CalibrationSummary
        The clinical measures; for more than 4096 distinct predictions, neighboring ones are averaged first.
    brier, log_loss : ScoreDecomposition
        The proper scores and their components.
    confidence : float
        Level of intervals and ranges; the tests have level 1 - ``confidence``.
    n_resamples, seed : int
        Number of resamples and the seed that were used.
    version : str
        Version of the package.
    %(dependence)s
    dependence_pvalue : float
        p-value of a test of autocorrelation of the residuals in the order of the samples; NaN with clusters,
        frequencies or sorted outcomes.
    """

    @classmethod
    @_validation.own_predictions()
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        pos_label: Any = None,
        name: str | None = None,
        **params: Any,
    ) -> CalibrationReport:
        """Report on a fitted classifier's predictions for data.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``predict_proba`` and ``classes_``.
        %(held_out)s
        name : str, default=None
            Name of the model; the class of the estimator by default.
        **params : dict
            Passed to :func:`calibration_report`, among them ``sample_weight``, ``groups``, ``features`` and
            ``clusters``.
        """
        found = estimator_predictions(estimator, X, y, pos_label, True)
        shown = type(estimator).__name__ if name is None else name
        return calibration_report(y, found.pop("y_proba"), **found, name=shown, **params)

    @property
    def verdict(self) -> str:
        """The result in a sentence or two."""
        found = verdict(self)
        return f"{found.title} {found.detail}"

    @property
    def findings(self) -> tuple[str, ...]:
        """Which predictions are miscalibrated, and how, in sentences."""
        return findings(self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Limitations of these data."""
        return warnings(self)

    @property
    def advice(self) -> tuple[str, ...]:
        """Recommendations, such as which calibrator to use."""
        return advice(self)

    def __str__(self) -> str:
        return report_text(self)

    def _repr_html_(self) -> str:
        from sklearn_calib.report._page import report_fragment

        try:
            return report_fragment(self)
        except ImportError:
            return f"<pre>{escape(str(self))}</pre>"

    def to_html(self, path: str | Path | None = None, *, title: str | None = None) -> str:
        """Return the report as a self-contained HTML page, and write it to a file if one is named.

        Figures need matplotlib; without it the page has a note instead. The page does not load external
        resources or run scripts, and all texts of the user are escaped. Equal reports give equal pages.

        Parameters
        ----------
        path : str or Path, default=None
            File to write. An existing file is replaced when the page is complete, and keeps its permissions.
        title : str, default=None
            Title of the page; "Calibration report", with the name of the model, by default.

        Returns
        -------
        str
            The page.

        Raises
        ------
        ImportError
            If jinja2 is not installed; it comes with the extra ``report``.
        """
        from sklearn_calib.report._page import report_page

        page = report_page(self, title)
        if path is not None:
            write_whole(path, page.encode("utf-8"))
        return page

    def to_dict(self) -> dict[str, Any]:
        """Return numbers and sentences as plain Python objects for JSON; NaN and infinity become None."""
        return report_dict(self)


@shared_docs
def calibration_report(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    name: str | None = None,
    confidence: float = 0.95,
    n_resamples: int = 200,
    random_state: int | np.random.Generator | np.random.RandomState | None = 0,
    progress: bool | Callable[[int, int, str], Any] | None = None,
    groups: ArrayLike | None = None,
    features: Any = None,
    sample_weight: ArrayLike | None = None,
    weights: Weights = "sampling",
    clusters: ArrayLike | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
) -> CalibrationReport:
    """Report whether predicted probabilities are calibrated, where they are not, and what to do about it.

    Every metric comes with its confidence interval and with its distribution under perfect calibration, for
    the same predictions. Tests of all predictions, of each class and of each group decide whether the model
    is miscalibrated; others describe the type of miscalibration. Intervals of predictions that are
    significantly miscalibrated are listed.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, n_labels)
        Labels of samples that the model was not trained on; or an indicator matrix of zeros and ones for
        multilabel targets.
    y_proba : array-like of shape (n,), (n, 1), (n, 2), (n, n_classes) or (n, n_labels)
        Predicted probabilities in [0, 1]: of the positive class (of two columns the last is used), of three
        or more classes in sorted order, or of each label.
    name : str, default=None
        Name of the model, for the title.
    confidence : float, default=0.95
        Level of intervals and ranges; the tests have level 1 - ``confidence``.
    n_resamples : int, default=200
        Number of simulated samples for each null distribution and each step of a confidence interval; tests
        use ``5 * n_resamples - 1``. At least 1 / (1 - ``confidence``) - 1 and at least 20. Run time is nearly
        proportional to it.
    random_state : int, Generator, RandomState or None, default=0
        Seed: equal seeds give equal reports. None uses a random seed.
    progress : bool, callable or None, default=None
        Whether to show a progress bar. None shows one if stderr is a terminal and tqdm is installed. A
        function is called as ``progress(done, total, what)``.
    groups : array-like of shape (n,), default=None
        Group of each sample, such as a region or a year; each is evaluated separately.
    features : data frame, mapping of str to array-like, or array-like of shape (n, n_features), default=None
        Features among whose bins, categories and pairs of these miscalibrated segments are searched for.
    %(inference_weight)s
    %(clusters)s
        By default all samples are assumed independent, and the report warns if consecutive ones are
        positively autocorrelated.
    %(pos_label)s
    %(labels)s

    Returns
    -------
    CalibrationReport
        The report: ``print`` it, display it in a notebook, or write it with ``to_html``.

    Raises
    ------
    %(invalid)s

    See Also
    --------
    sklearn_calib.inference.compare_models : Several models on the same samples.
    sklearn_calib.inference.CombinedTest : The primary test.

    Notes
    -----
    The headline is "Miscalibrated" if a p-value is at most 1 - ``confidence``, or more predictions of exactly
    0 or 1 are contradicted than rounding explains. p-values are adjusted for up to three families of tests:
    the primary test, the cutoff tests of the groups, and the segments. A calibrated model is therefore called
    miscalibrated with probability at most 1 - ``confidence``, if the tests keep their level.

    With more than 4096 distinct predictions, simulations use 2048 bins of neighboring predictions. Metrics
    and regions of multiclass predictions use the confidence, the largest class probability as a forecast that
    the predicted class is right; the primary test is the joint
    :class:`~sklearn_calib.inference.CutoffTest`. Of multilabel targets they use all pairs of a sample and a
    label, with the samples as clusters unless ``clusters`` are given; the primary test is the joint one of
    all labels. docs/reports.md has the details.

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
    >>> print(report.metric("observed_minus_expected").estimate < 0)
    True
    >>> len(report.regions)
    1
    """
    _validation.check_fraction(confidence, "confidence")
    _validation.check_size(n_resamples, "n_resamples", minimum=20)
    seed = _validation.seed_of(random_state)
    budget = _numbers.Budget(confidence, _validation.check_resamples(n_resamples, confidence), seed)
    problem = check_problem(y_true, y_proba, sample_weight, pos_label, labels, clusters, weights=weights)
    labeled: _validation.ClassSample | None = None
    if isinstance(problem, list):
        if groups is not None or features is not None:
            raise ValueError(
                "groups and features are not supported for multilabel targets (y_true has one column per "
                "label). Report on one label at a time, or omit them."
            )
        labeled = _numbers.side_by_side(problem, label_names(y_true, y_proba, len(problem)))
        problem = _numbers.pooled_labels(problem)
    understood: dict[str, Any] = {}
    if isinstance(problem, _validation.ClassSample):
        # weights by class: the classes as they were sampled, and the probabilities corrected for that
        if problem.class_weights is not None:
            understood = weighting(problem)
            del understood["n_effective"]
        problem = as_sampled(problem)
    whole = problem if isinstance(problem, _validation.ClassSample) else labeled
    sample = (
        problem if isinstance(problem, _validation.BinarySample) else class_samples(problem, "confidence")[0]
    )
    parts = [] if groups is None else _validation.samples_of_groups(sample, groups, sample_weight)
    several, n_classes = whole is not None, 0 if whole is None else whole.classes.shape[0]
    kind = "multilabel" if labeled else "confidence" if several else "binary"
    if features is not None:
        features = feature_columns(features, "features", _validation.shape_of(y_true, "y_true")[0])
    # of tests: all predictions, groups, segments
    n_families = 1 + bool(parts) + (features is not None)
    with Progress(
        progress, _numbers.N_STEPS + several + n_classes + len(parts) + (features is not None)
    ) as step:
        found = _numbers.examine(sample, budget, step) | understood
        classes: tuple[_numbers.ReportPart, ...] = ()
        if whole is not None:
            step("all classes together")
            joint, of = _numbers.class_test(whole, budget), "pairs" if labeled else "confidence"
            found["tests"] = [joint, *(replace(test, reduction=of) for test in found["tests"])]
            columns = (
                class_samples(whole, "classwise")
                if labeled is None
                else _numbers.samples_of_labels(sample, n_classes, clusters is not None)
            )
            classes = _numbers.examine_classes(
                whole.classes.tolist(), columns, joint, budget, n_families, step
            )
            found["metrics"] = [replace(line, reduction=of) for line in found["metrics"]]
            if labeled is None:
                zero = whole.p == 0.0
                times = _numbers.counts_of(whole)
                found["n_certain"] = float(times @ zero.sum(axis=1))
                found["n_impossible"] = float(times @ zero[np.arange(whole.y.shape[0]), whole.y])
                found["metrics"] += _numbers.class_metrics(whole, classes, budget)
            found["metrics"] = tuple(found["metrics"])
        group_lines = _numbers.examine_groups(parts, budget, n_families, step)
        segments = None
        if features is not None:
            step("segments")
            more: dict[str, Any] = {"weights": weights, "clusters": clusters, "pos_label": pos_label}
            more |= {"labels": labels, "reduction": "confidence" if several else "classwise"}
            given = features, y_true, y_proba
            segments = _numbers.examine_segments(
                given, budget, n_families, sample_weight=sample_weight, **more
            )
    untested = (
        clusters is not None
        or labeled is not None
        or (whole is not None and bool((np.diff(whole.y) >= 0).all()))
    )
    pvalue, found["tests"] = _numbers.with_adjusted(found["tests"], n_families)
    fitted = np.array([found["summary"].slope_intercept.estimate, found["summary"].slope.estimate])
    report = CalibrationReport(
        name="" if name is None else str(name),
        kind=kind,
        positive="" if several else _positive(y_true, pos_label, labels),
        pvalue=pvalue,
        rounding=largest_rounded(problem.p, found["n_samples"]),
        selection=None,
        classes=classes,
        groups=group_lines,
        segments=segments,
        groups_pvalue=differences_of([part for _, part in parts], fitted, found["design_effect"]).pvalue,
        confidence=float(confidence),
        n_resamples=budget.n_resamples,
        seed=seed,
        version=__version__,
        dependence_pvalue=np.nan if untested else serial_dependence(sample, seed),
        _problem=problem,
        **found,
    )
    if not report.miscalibrated:
        return report
    return replace(report, selection=_numbers.select_calibrator(problem, seed))


def _positive(y_true: ArrayLike, pos_label: Any, labels: ArrayLike | None) -> str:
    """Return the label of the positive class by the rules of ``check_binary``."""
    if labels is not None:
        pos_label = _validation.positive_label(y_true, labels)
    if pos_label is not None:
        return str(pos_label)
    known = np.unique(_validation.as_array(y_true, "y_true"))
    return str(known[-1]) if known.dtype.kind not in "biuf" or not set(known.tolist()) <= {-1, 0, 1} else "1"
