"""Comparison of two or more models on the same samples."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib import _validation
from sklearn_calib._core._grouping import weight_words
from sklearn_calib._core._null import rejects
from sklearn_calib._docs import shared_docs
from sklearn_calib._frame import FrameMixin
from sklearn_calib._html import number_text, printable, printable_lines, result_html
from sklearn_calib._typing import Array, Weights
from sklearn_calib.inference._intervals import confidence_interval
from sklearn_calib.inference._paired_samples import (
    PairedSamples,
    Splits,
    adjusted_pvalues,
    check_models,
)
from sklearn_calib.inference._sample_metric import Metric
from sklearn_calib.inference._sample_table import resolve_reduction
from sklearn_calib.metrics._direction import check_direction
from sklearn_calib.metrics._metric_kernel import check_estimable, declaration
from sklearn_calib.metrics._names import as_metric, name_of

# Simulated samples of an interval, as by default in confidence_interval.
_PATH_SAMPLES = 200


@dataclass(frozen=True)
class ModelSummary:
    """One model of a comparison.

    Attributes
    ----------
    name : str
        Its name.
    estimate : float
        What the metric returns on the sample. Sampling noise increases it for a calibration error.
    expected : float
        Mean of the metric if the model were perfectly calibrated: the expected value of a calibration error
        under perfect calibration, or the score expected under the model's own predictions.
    corrected : float
        The estimate, corrected for its bias; equal to ``estimate`` if it is not a calibration error.
    lower, upper : float
        Confidence interval of the metric in the population.
    method : str
        How ``corrected`` and the interval were computed: that of :func:`confidence_interval`, which returns
        the same; or "splits", for calibration errors that do not support weights or a reduction.
    in_best_set : bool
        Whether it is not significantly worse in any test made; with a reference, in that against it.
    """

    name: str
    estimate: float
    expected: float
    corrected: float
    lower: float
    upper: float
    method: str
    in_best_set: bool


@dataclass(frozen=True)
class ModelPair:
    """The test of one pair of models.

    Attributes
    ----------
    name_a, name_b : str
        The models.
    difference : float
        Difference of the estimates: that of model a minus that of model b.
    corrected : float
        The difference, corrected for its bias; equal to ``difference`` if the metric is not a calibration
        error. It is not the difference of the corrected estimates of the models, which cannot be negative.
    lower, upper : float
        Confidence interval of the difference in the population; infinite with too few clusters or samples.
    pvalue : float
        Two-sided p-value of the hypothesis that the difference in the population is 0.
    adjusted_pvalue : float
        The same, adjusted for the number of tests.
    null_distribution : ndarray of shape (2 * n_resamples,)
        Simulated values of ``corrected`` if the difference in the population were 0.
    """

    name_a: str
    name_b: str
    difference: float
    corrected: float
    lower: float
    upper: float
    pvalue: float
    adjusted_pvalue: float
    null_distribution: Array = field(repr=False, compare=False)


@shared_docs
@dataclass(frozen=True)
class ModelComparison(FrameMixin):
    """Comparison of models on the same samples.

    Attributes
    ----------
    models : tuple of ModelSummary
        The models, as they were given.
    pairs : tuple of ModelPair
        The tests.
    best_set : tuple of str
        Models that are not significantly worse than another in the tests made, at level 1 - ``confidence``:
        with a reference, only in those against it.
    reference : str or None
        The model to which the others were compared, or None: every pair.
    correction : str or None
        "max-t" or None.
    confidence : float
        Confidence level of each interval.
    n_samples : int
        Number of samples; frequencies count.
    n_clusters : int or None
        Number of clusters; None if samples were taken to be independent.
    %(weighting)s
    metric : str
        Name of the metric.
    calibration_error : bool
        What the metric declares.
    greater_is_better : bool
        Whether greater values are better.
    constant : tuple of str
        Models whose predictions are all equal.
    """

    _rows_in = "models"

    models: tuple[ModelSummary, ...]
    pairs: tuple[ModelPair, ...]
    best_set: tuple[str, ...]
    reference: str | None
    correction: str | None
    confidence: float
    n_samples: int
    n_clusters: int | None = None
    metric: str = "metric"
    calibration_error: bool = True
    greater_is_better: bool = False
    weights: str | None = None
    n_effective: float | None = None
    weight_spread: float | None = None
    constant: tuple[str, ...] = ()

    def pairs_to_records(self) -> list[dict[str, Any]]:
        """Return one dict for each test."""
        left_out = "null_distribution"
        return [{key: value for key, value in vars(pair).items() if key != left_out} for pair in self.pairs]

    def _shown_models(self) -> list[dict[str, Any]]:
        left_out = () if self.has_intervals else ("expected", "corrected", "lower", "upper", "method")
        return [
            {key: value for key, value in vars(row).items() if key not in left_out} for row in self.models
        ]

    def _size(self) -> str:
        clusters = "" if self.n_clusters is None else f", {self.n_clusters} clusters"
        weights = f"; {weight_words(self, corrected=False)}" if self.weights else ""
        return f"n = {self.n_samples}{clusters}{weights}"

    def __str__(self) -> str:
        interval = f"{100 * self.confidence:g}% interval"
        # of metrics without bias, corrected values repeat the estimates
        corrected = ["corrected"] if self.calibration_error else []
        numbers = ["estimate"]
        if self.calibration_error and self.has_intervals:
            numbers += ["expected", "corrected"]
        ends = [interval] if self.has_intervals else []
        models = [["model", *numbers, *ends, ""]]
        for row in self.models:
            values = [number_text(getattr(row, key)) for key in numbers]
            models.append([row.name, *values, *[_interval(row) for _ in ends], self._verdict(row)])
        adjusted = len(self.pairs) > 1 and self.correction is not None
        pvalue = f"p ({self.correction})" if adjusted else "p-value"
        tests = [["a - b", "difference", *corrected, interval, pvalue]]
        for pair in self.pairs:
            values = [number_text(value) for value in (pair.difference, pair.corrected)[: 1 + len(corrected)]]
            name = f"{pair.name_a} - {pair.name_b}"
            tests.append([name, *values, _interval(pair), f"{pair.adjusted_pvalue:.3g}"])
        better = f"{self.metric}: {'greater' if self.greater_is_better else 'smaller'} is better"
        note = "; p-values are adjusted for the number of tests, intervals are not" if adjusted else ""
        flat = [name for name in self.best_set if name in self.constant] if self.calibration_error else []
        flat = [f"{name} predicts a constant, which does not separate samples" for name in flat]
        tables = [*aligned(models), "", *aligned(tests)]
        return printable_lines([better, "", *tables, "", self._size() + note, *flat])

    @property
    def has_intervals(self) -> bool:
        """Whether the intervals of single models were computed."""
        return not all(np.isnan(row.lower) for row in self.models)

    def _verdict(self, row: ModelSummary) -> str:
        """Return the result of the tests of one model."""
        if self.reference is None:
            return "in best set" if row.in_best_set else ""
        if row.name == self.reference:
            return "reference"
        return f"{'not worse' if row.in_best_set else 'worse'} than {self.reference}"

    def _repr_html_(self) -> str:
        return result_html(
            "comparison of models",
            [
                ("metric", f"{self.metric}, {'greater' if self.greater_is_better else 'smaller'} is better"),
                ("best set", "" if self.reference is not None else ", ".join(self.best_set)),
                ("reference", self.reference or ""),
                ("constant predictions", ", ".join(self.constant)),
                ("correction", self.correction or ""),
                ("confidence", f"{100 * self.confidence:g}%"),
                ("samples", self._size()),
            ],
            [("models", self._shown_models()), ("tests", self.pairs_to_records())],
            unfolded=True,
        )


def _interval(row: ModelSummary | ModelPair) -> str:
    return f"[{number_text(row.lower)}, {number_text(row.upper)}]"


def aligned(table: list[list[str]]) -> list[str]:
    """Return the lines of a table with its first column to the left and all others to the right."""
    table = [list(map(printable, line)) for line in table]
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if j == 0 else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    ]


@shared_docs
def compare_models(
    y_true: ArrayLike,
    predictions: Mapping[str, ArrayLike],
    *,
    metric: str | Metric = "smooth_ece",
    greater_is_better: bool | None = None,
    reference: str | None = None,
    correction: Literal["max-t"] | None = "max-t",
    confidence: float = 0.95,
    n_resamples: int = 999,
    random_state: int | np.random.Generator | np.random.RandomState | None = 0,
    intervals: bool = True,
    sample_weight: ArrayLike | None = None,
    weights: Weights = "sampling",
    clusters: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Literal["classwise", "confidence", "top-label"] | None = None,
    labels: ArrayLike | None = None,
) -> ModelComparison:
    r"""Test whether models differ in a metric, from their predictions for the same samples.

    Two models can be one model before and after calibration. The estimate of a calibration error is biased
    upward by an amount that depends on the model. A smaller estimate alone, or a bootstrap interval of the
    difference, is therefore no evidence of better calibration. ``print`` shows the estimate, the value that
    is expected under perfect calibration, and the corrected value with its interval.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, n_labels)
        Labels of two or more classes; or an indicator matrix of zeros and ones for multilabel targets.
    predictions : mapping of str to array-like
        Name of each model and its predicted probabilities in [0, 1], of shape (n,), (n, 1), (n, 2), (n, K) or
        (n, n_labels). At least two models. One or two columns are passed to the metric as the probability of
        the positive class.
    metric : str or callable, default="smooth_ece"
        Name of a function of :mod:`sklearn_calib.metrics` that returns a number, "brier_score", "log_loss" or
        "roc_auc", or ``metric(y_true, y_proba) -> float``, such as :func:`sklearn.metrics.brier_score_loss`,
        with parameters fixed by :func:`functools.partial`. Labels are passed as 0, ..., K - 1. Subsets of the
        samples can lack a class: scikit-learn's ``log_loss`` needs ``labels``. A function of yours declares
        by :class:`~sklearn_calib.metrics.MetricKernel` whether it is a calibration error, which is corrected
        for its bias.
    greater_is_better : bool or None, default=None
        Whether greater values of the metric are better. None means what the metric declares: by
        :class:`~sklearn_calib.metrics.MetricKernel`, or as a function of scikit-learn by its registered
        scorer, such as that of :func:`sklearn.metrics.roc_auc_score`. Any other function needs True or False.
    reference : str or None, default=None
        The model to which all others are compared; None compares every pair.
    correction : "max-t" or None, default="max-t"
        Adjustment of the p-values for the number of tests: step-down max-t [3]_, which controls the
        family-wise error rate and takes the dependence of the tests into account.
    confidence : float, default=0.95
        Confidence level of each interval, in (0, 1); intervals are not adjusted for their number.
    n_resamples : int, default=999
        Number of random splits, at least 1 / (1 - ``confidence``) - 1, also with many models. No p-value is
        smaller than 1 / (1 + ``n_resamples``) [2]_.
    %(random_state)s
    intervals : bool, default=True
        Whether to compute the expected value, the corrected value and the interval of each model. They
        take most of the time and are NaN without; the tests of the pairs are the same.
    %(inference_weight)s
    clusters : array-like of shape (n,) or None, default=None
        Label of the cluster of each sample. Clusters, which are independent, are not divided by the splits.
        At least 4; with less than 6, no difference is significant at 5%, and intervals are infinite.
    %(pos_label)s
    %(inference_reduction)s

    Returns
    -------
    ModelComparison
        A summary of each model, the tests, and the best set.

    Raises
    ------
    %(invalid)s
        Also if the metric is NaN in a part of every split.

    See Also
    --------
    expected_under_calibration : The expected values, with quantiles.
    dominance_test : Comparison of two models at all decision thresholds.

    Notes
    -----
    A model belongs to the best set unless it is significantly worse than another model: adjusted two-sided
    p-value at most 1 - ``confidence``, and the corrected difference not in its favor. Without a
    reference, and with p-values adjusted, a model with the best metric in the population is left out
    with probability at most 1 - ``confidence``, up to the level of the tests themselves. With a reference
    only the tests against it are made, and only they decide. With ``correction=None`` the error rate is
    controlled for each test separately only.

    In each split every sample, or cluster, is in the first part with probability 1/2. The metric of the
    parts, with fractions f and 1 - f of the samples, is :math:`t_1, t_2`, that of all samples :math:`t`;
    :math:`\Delta` is a difference between models.

    **Metrics that are not calibration errors.** A difference :math:`\delta` in the population is rejected if
    few splits have it between :math:`\Delta t_1` and :math:`\Delta t_2` [1]_: the p-value is their fraction,
    and the interval contains all :math:`\delta` with p-values above 1 - ``confidence``.

    **Calibration errors.** Squares are compared, after the bias due to noise is subtracted. With

    .. math:: C = f t_1^2 + (1 - f) t_2^2 - t^2, \qquad
              L = t_1^2 - t_2^2 - \frac{1 - 2 f}{f (1 - f)} C

    and :math:`\theta = \Delta t^2 - \Delta \bar C`, the simulated differences of equally calibrated models
    are :math:`\Delta C - \Delta \bar C \pm [(2 f - 1) \theta + 2 f (1 - f) \kappa \Delta L]`.
    docs/intervals.md derives them, and the factor :math:`\kappa`. The level is measured in
    ``benchmarks/comparison_level.py``.

    **Several pairs.** All pairs are evaluated on the same splits. The j-th largest of the statistics
    :math:`|\theta|` divided by the root mean square of its simulated values is compared with the simulated
    maxima of the absolute values of itself and all smaller ones; adjusted p-values do not decrease in j.

    Cost: two evaluations of the metric on n / 2 samples for each model and split; with ``intervals``, for
    each model also those of its expected value and of :func:`confidence_interval`.

    References
    ----------
    .. [1] J. A. Hartigan (1969). Using subsample values as typical values. Journal of the American
       Statistical Association 64.
    .. [2] B. Phipson and G. K. Smyth (2010). Permutation P-values should never be zero. Statistical
       Applications in Genetics and Molecular Biology 9.
    .. [3] P. H. Westfall and S. S. Young (1993). Resampling-based multiple testing. Wiley.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import compare_models
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> y = rng.random(500) < p
    >>> models = {"true": p, "squared": p**2, "halved": p / 2}
    >>> compare_models(y, models, metric="cutoff_calibration_error").best_set
    ('true',)
    """
    metric = as_metric(metric)
    greater = check_direction(metric, greater_is_better)
    if correction is not None:
        _validation.check_option(correction, "correction", ("max-t",), "None")
    confidence = _validation.check_fraction(confidence, "confidence")
    n_resamples = _validation.check_resamples(n_resamples, confidence)
    seed = _validation.seed_of(random_state)
    generator = np.random.default_rng(seed)
    tail = 1.0 - confidence
    metric, resolved = resolve_reduction(metric, reduction)
    given = sample_weight, weights, clusters, pos_label, labels
    rows = PairedSamples.of(check_models(y_true, predictions, *given), resolved)
    if rows.weight is not None and "sample_weight" not in signature(metric).parameters:
        raise TypeError("metric has no parameter sample_weight, which sampling weights need. Add it.")
    names = list(predictions)
    if reference is not None and (not isinstance(reference, Hashable) or reference not in predictions):
        raise ValueError(f"reference={reference!r} is not one of the models {names}.")
    every = range(len(names))
    for problem in [each for k in every for each in rows.problems(k)]:
        check_estimable(metric, problem.outcome.shape[0], problem.probability)
    if reference is None:
        tested = list(combinations(every, 2))
    else:
        base = names.index(reference)
        tested = [(k, base) for k in every if k != base]

    values = [rows.value(metric, k, names[k]) for k in every]
    splits = Splits.draw(metric, rows, n_resamples, generator)
    single: list[tuple[float, float, float, float, str]] = [(np.nan, np.nan, np.nan, np.nan, "")] * len(names)
    if intervals:
        single = [_one(metric, rows, splits, k, confidence, seed) for k in every]
    contrasts = [splits.of_pair(a, b) for a, b in tested]
    pvalues = [contrast.pvalue for contrast in contrasts]
    adjusted = pvalues if correction is None else adjusted_pvalues(contrasts)
    pairs = []
    worse = set()
    for (a, b), contrast, pvalue in zip(tested, contrasts, adjusted, strict=True):
        pairs.append(
            ModelPair(
                names[a],
                names[b],
                values[a] - values[b],
                contrast.estimate,
                *contrast.interval(confidence),
                contrast.pvalue,
                pvalue,
                contrast.draws,
            )
        )
        if rejects(pvalue, tail):
            worse.add(a if (contrast.estimate > 0) != greater else b)
    models = tuple(ModelSummary(names[k], values[k], *single[k], k not in worse) for k in every)
    return ModelComparison(
        models=models,
        pairs=tuple(pairs),
        best_set=tuple(model.name for model in models if model.in_best_set),
        reference=reference,
        correction=correction,
        confidence=confidence,
        n_samples=rows.n_samples,
        n_clusters=None if rows.samples[0].clusters is None else int(rows.units.max()) + 1,
        metric=name_of(metric),
        calibration_error=declaration(metric).calibration_error,
        greater_is_better=greater,
        constant=tuple(names[k] for k in every if not np.ptp(rows.samples[k].p, axis=0).any()),
        **rows.support,
    )


def _one(
    metric: Metric, rows: PairedSamples, splits: Splits, model: int, confidence: float, seed: int
) -> tuple[float, float, float, float, str]:
    """Return expected and corrected value, interval and method of one model."""
    inverts = "sample_weight" in signature(metric).parameters
    if splits.squared and (not inverts or (rows.samples[model].p.ndim == 2 and rows.reduction is None)):
        ends = splits.root(np.array(splits.of_one(model).interval(confidence))).tolist()
        corrected = float(splits.root(splits.corrected[model]))
        return rows.expected(metric, model, seed), corrected, *ends, "splits"
    n_resamples = max(_PATH_SAMPLES, _validation.least_resamples(1.0 - confidence))
    given: dict[str, Any] = {"confidence": confidence, "n_resamples": n_resamples, "random_state": seed}
    found = confidence_interval(**rows.given(model), metric=metric, **given)
    exact = found.method == "normal"
    expected = found.expected if exact else rows.expected(metric, model, seed)
    return expected, found.corrected, found.lower, found.upper, str(found.method)
