"""Comparison of two or more models on the same samples."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core._multiple import adjust_pvalues
from sklearn_calib._core._null import monte_carlo_pvalue, tail_rank
from sklearn_calib._docs import shared_docs
from sklearn_calib._html import result_html
from sklearn_calib._typing import Array
from sklearn_calib._validation import (
    check_fraction,
    check_generator,
    check_option,
    check_size,
    least_resamples,
)
from sklearn_calib.inference._intervals import confidence_interval
from sklearn_calib.inference._paired_samples import (
    HalfSamples,
    PairedSamples,
    check_models,
    swapped_differences,
)
from sklearn_calib.inference._redraw import Metric
from sklearn_calib.metrics._names import as_metric

# With fewer samples "auto" does not use half-sampling.
_FEW_SAMPLES, _FEWEST_SAMPLES = 30, 4


@dataclass(frozen=True)
class ModelSummary:
    """One model of a comparison.

    Attributes
    ----------
    name : str
        Its name.
    estimate : float
        Its metric on the sample; smaller is better.
    null_mean : float
        Mean of the metric if the model were perfectly calibrated: the expected value of a calibration error
        under perfect calibration, or the score expected under the model's own predictions.
    corrected : float
        The bias-corrected metric; NaN for ``method="swap"``.
    lower, upper : float
        Confidence interval of the metric in the population: that of :func:`confidence_interval` for binary
        calibration errors that support weights, else by half-samples; NaN for ``method="swap"``.
    in_best_set : bool
        Whether it is not significantly worse than any other model.
    """

    name: str
    estimate: float
    null_mean: float
    corrected: float
    lower: float
    upper: float
    in_best_set: bool


@dataclass(frozen=True)
class ModelPair:
    """The test of one pair of models.

    Attributes
    ----------
    name_a, name_b : str
        The models.
    difference : float
        Metric of model a minus that of model b; negative if model a is better.
    corrected : float
        The bias-corrected difference, the centre of the interval. Equal to ``difference`` for averages over
        the samples, NaN for ``method="swap"``.
    lower, upper : float
        Confidence interval of the difference in the population; NaN for ``method="swap"``.
    pvalue : float
        Two-sided p-value of the hypothesis of ``method``.
    adjusted_pvalue : float
        The same, adjusted for the number of tests.
    null_distribution : ndarray
        Differences after each swap, or simulated errors of ``corrected``.
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


@dataclass(frozen=True)
class ModelComparison:
    """Comparison of models on the same samples.

    Attributes
    ----------
    models : tuple of ModelSummary
        The models, as they were given.
    pairs : tuple of ModelPair
        The tests.
    best_set : tuple of str
        Models that are not significantly worse than any other, at level 1 - ``confidence``.
    reference : str or None
        The model to which the others were compared, or None: every pair.
    correction : str or None
        "holm", "bonferroni" or None.
    confidence : float
        Confidence level of each interval.
    method : str
        "half-sampling" or "swap".
    n_samples : int
        Number of samples; frequency weights count.
    n_clusters : int or None
        Number of clusters; None if samples were taken to be independent.
    """

    models: tuple[ModelSummary, ...]
    pairs: tuple[ModelPair, ...]
    best_set: tuple[str, ...]
    reference: str | None
    correction: str | None
    confidence: float
    method: str
    n_samples: int
    n_clusters: int | None = None

    def to_records(self) -> list[dict[str, Any]]:
        """Return one dict for each model, as input for ``pandas.DataFrame``."""
        return [dict(vars(model)) for model in self.models]

    def pairs_to_records(self) -> list[dict[str, Any]]:
        """Return one dict for each test."""
        left_out = "null_distribution"
        return [{key: value for key, value in vars(pair).items() if key != left_out} for pair in self.pairs]

    def _method(self) -> str:
        clusters = "" if self.n_clusters is None else f", {self.n_clusters} clusters"
        return f"{self.method}, n = {self.n_samples}{clusters}"

    def __str__(self) -> str:
        interval = f"{100 * self.confidence:g}% interval"
        models = [["model", "value", "expected if calibrated", "bias-corrected", interval, ""]]
        for row in self.models:
            numbers = _numbers(row.estimate, row.null_mean, row.corrected)
            best = "in best set" if row.in_best_set else ""
            models.append([row.name, *numbers, _interval(row), best])
        adjusted = len(self.pairs) > 1 and self.correction is not None
        pvalue = f"p ({self.correction})" if adjusted else "p-value"
        tests = [["a - b", "difference", "bias-corrected", interval, pvalue]]
        for pair in self.pairs:
            numbers = _numbers(pair.difference, pair.corrected)
            name = f"{pair.name_a} - {pair.name_b}"
            tests.append([name, *numbers, _interval(pair), f"{pair.adjusted_pvalue:.3g}"])
        return "\n\n".join([_aligned(models), _aligned(tests), self._method()])

    def _repr_html_(self) -> str:
        return result_html(
            "comparison of models",
            [
                ("best set", ", ".join(self.best_set)),
                ("reference", self.reference or ""),
                ("correction", self.correction or ""),
                ("confidence", f"{100 * self.confidence:g}%"),
                ("method", self._method()),
            ],
            [("models", self.models), ("tests", self.pairs_to_records())],
            unfolded=True,
        )


def _numbers(*values: float) -> list[str]:
    return ["-" if np.isnan(value) else f"{value:.4f}" for value in values]


def _interval(row: ModelSummary | ModelPair) -> str:
    return "-" if np.isnan(row.lower) else f"[{row.lower:.4f}, {row.upper:.4f}]"


def _aligned(table: list[list[str]]) -> str:
    """Return the table with its first column to the left and all others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if j == 0 else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    )


@shared_docs
def compare_models(
    y_true: ArrayLike,
    predictions: Mapping[str, ArrayLike],
    *,
    metric: str | Metric,
    reference: str | None = None,
    method: Literal["auto", "half-sampling", "swap"] = "auto",
    correction: Literal["holm", "bonferroni"] | None = "holm",
    confidence: float = 0.95,
    n_resamples: int = 999,
    random_state: int | np.random.Generator | np.random.RandomState | None = 0,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    pos_label: Any = None,
) -> ModelComparison:
    r"""Test whether models differ in a metric, from their predictions for the same samples.

    Two models can be one model before and after calibration. The estimate of a calibration error is biased
    upwards by an amount that depends on the model. A smaller estimate alone, or a bootstrap interval of the
    difference, is therefore no evidence of better calibration.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    predictions : mapping of str to array-like
        Name of each model and its predicted probabilities in [0, 1], of shape (n,), (n, 1), (n, 2) or (n, K).
        At least two models. One or two columns are passed to the metric as the probability of the positive
        class, more of them unchanged.
    metric : str or callable
        Name of a function of :mod:`sklearn_calib.metrics` that returns a number, "brier_score" or "log_loss",
        or ``metric(y_true, y_proba) -> float``, smaller is better, such as
        :func:`sklearn.metrics.brier_score_loss`, with parameters fixed by :func:`functools.partial`. Labels
        are passed as 0, ..., K - 1. Subsets of the samples can lack a class: scikit-learn's ``log_loss``
        needs ``labels``.
    reference : str or None, default=None
        The model to which all others are compared; None compares every pair.
    method : {"auto", "half-sampling", "swap"}, default="auto"
        "half-sampling" tests that the metric of both models is equal in the population, with an interval.
        "swap" is an exact test of a stronger hypothesis: see Notes. "auto" is "half-sampling", but "swap"
        for fewer than 30 samples.
    correction : {"holm", "bonferroni"} or None, default="holm"
        Adjustment of the p-values for the number of tests. Both control the family-wise error rate under any
        dependence of the tests; "holm" [3]_ is uniformly more powerful.
    confidence : float, default=0.95
        Confidence level of each interval, in (0, 1); intervals are not adjusted for their number.
    n_resamples : int, default=999
        Number of random splits or swaps. With "half-sampling", at least 2 / (1 - ``confidence``) - 1. With
        many pairs, adjusted p-values need more: no p-value is smaller than 1 / (1 + ``n_resamples``), twice
        that for half-sampling.
    %(random_state)s
    %(frequencies)s
    clusters : array-like of shape (n,) or None, default=None
        Label of the cluster of each sample. Clusters, which are independent, are halved and swapped whole.
    pos_label : label, default=None
        The positive class of a binary problem, as in the metrics.

    Returns
    -------
    ModelComparison
        A summary of each model, the tests, and the best set.

    Raises
    ------
    %(invalid)s

    See Also
    --------
    expected_under_calibration : The null means, with quantiles.
    dominance_test : Comparison of two models at all decision thresholds.

    Notes
    -----
    A model belongs to the best set unless it is significantly worse than another model: adjusted two-sided
    p-value at most 1 - ``confidence``, and the bias-corrected difference not in its favour. Without a
    reference, and with p-values adjusted, a model with the smallest metric in the population is left out
    with probability at most 1 - ``confidence``, up to the level of the tests themselves. With a reference
    only the tests against it are made, and only they decide. With ``correction=None`` the error rate is
    controlled for each test separately only.

    **Swap.** For each sample the two predictions are exchanged with probability 1/2. The null hypothesis is
    that this does not change the distribution of the data (given the outcome, and independently over
    samples). The p-value is the fraction of swaps, the identity included, with a difference at least as
    extreme. It is valid at any n and for any metric; all swaps are enumerated if there are no more than
    ``n_resamples`` + 1. For averages it is the sign-flip test of the differences of losses, which for large n
    is also valid for equal means. For calibration errors the hypothesis is stronger than equal errors:
    calibrated models of different sharpness are not exchangeable, nor are an overconfident and an
    underconfident model, and the hypothesis of equal errors is then rejected too often.

    **Half-sampling.** Samples are split at random into halves; the metric of the halves is
    :math:`t_1, t_2`, of all samples :math:`t`. If the metric is an average over samples (which is verified on
    the splits) the error of :math:`t` is distributed as :math:`(t_1 - t_2) / 2`, as in McCarthy [1]_.
    Otherwise squares are compared. Consider the metric as a norm of :math:`\mu + Z`, miscalibration plus
    noise: the halves have :math:`\mu + Z + e` and :math:`\mu + Z - e` with :math:`e` distributed as
    :math:`Z`. Then

    .. math:: C = \tfrac{1}{2} (t_1^2 + t_2^2) - t^2, \qquad L = \tfrac{1}{2} (t_1^2 - t_2^2)

    are the bias due to noise and the linear part: for a Euclidean norm :math:`C = \lVert e \rVert^2` and
    :math:`L = 2 (\mu + Z)^\top e`. So :math:`t^2 - \bar C` is unbiased for the squared error in the
    population, at perfect calibration for any norm; no model of the noise is needed. With differences between
    models :math:`\Delta` throughout, simulated errors are :math:`\Delta C - \overline{\Delta C} + \kappa
    \Delta L` with :math:`\kappa^2 = (1 - \operatorname{var} \Delta C / \operatorname{var} \Delta L)_+`, which
    removes from L a part of the variance that :math:`Z` adds to its slope. The p-value is obtained by
    inverting the interval at 0. Squares are converted to the units of the metric by dividing by the sum of
    both corrected errors, or by the noise where that is larger; the interval of two nearly calibrated models
    is therefore one of an attenuated difference. The approximation is best for norms of binned, cutoff or
    smoothed residuals with fixed parameters; its level is measured in ``benchmarks/comparison_level.py``.

    Cost: two evaluations of the metric on n / 2 samples for each model and resample, with swaps on n samples
    for each pair and resample; and those of the null means.

    References
    ----------
    .. [1] P. J. McCarthy (1969). Pseudo-replication: half samples. Review of the International Statistical
       Institute 37.
    .. [2] B. Phipson and G. K. Smyth (2010). Permutation P-values should never be zero. Statistical
       Applications in Genetics and Molecular Biology 9.
    .. [3] S. Holm (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of
       Statistics 6.

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
    if correction is not None:
        check_option(correction, "correction", ("holm", "bonferroni"), "None")
    confidence = check_fraction(confidence, "confidence")
    n_resamples = check_size(n_resamples, "n_resamples")
    generator = check_generator(random_state)
    rows = check_models(y_true, predictions, sample_weight, pos_label, clusters)
    names = list(predictions)
    if reference is not None and (not isinstance(reference, Hashable) or reference not in predictions):
        raise ValueError(f"reference={reference!r} is not one of the models {names}.")
    n = rows.y.shape[0]
    method_used = _choose_method(method, n, n_resamples, confidence)
    every = range(len(names))
    if reference is None:
        tested = list(combinations(every, 2))
    else:
        base = names.index(reference)
        tested = [(k, base) for k in every if k != base]

    values = [rows.value(metric, k) for k in every]
    halves = None
    if method_used == "half-sampling":
        halves = HalfSamples.draw(metric, rows, n_resamples, generator)
        contrasts = [_halves_test(halves, a, b, confidence) for a, b in tested]
        corrected = halves.root(halves.corrected).tolist()
    else:
        contrasts = [
            _swap_test(metric, rows, a, b, values[a], values[b], n_resamples, generator) for a, b in tested
        ]
        corrected = [np.nan] * len(names)
    null_means = [rows.null_mean(metric, k, generator) for k in every]
    if halves is None:
        intervals = [(np.nan, np.nan)] * len(names)
    else:
        intervals = [_interval_of_one(metric, rows, halves, k, confidence, generator) for k in every]
    pvalues = np.array([contrast.pvalue for contrast in contrasts])
    adjusted = pvalues if correction is None else adjust_pvalues(pvalues, correction)
    pairs = []
    worse = set()
    for (a, b), contrast, pvalue in zip(tested, contrasts, adjusted.tolist(), strict=True):
        difference = values[a] - values[b]
        numbers = (contrast.corrected, contrast.lower, contrast.upper, contrast.pvalue, pvalue)
        pairs.append(ModelPair(names[a], names[b], difference, *numbers, contrast.draws))
        if pvalue <= 1.0 - confidence + 1e-12:
            shift = difference if np.isnan(contrast.corrected) else contrast.corrected
            worse.add(a if shift > 0 else b)
    models = tuple(
        ModelSummary(names[k], values[k], null_means[k], corrected[k], *intervals[k], k not in worse)
        for k in every
    )
    return ModelComparison(
        models=models,
        pairs=tuple(pairs),
        best_set=tuple(model.name for model in models if model.in_best_set),
        reference=reference,
        correction=correction,
        confidence=confidence,
        method=method_used,
        n_samples=n,
        n_clusters=None if rows.clusters is None else int(rows.clusters.max()) + 1,
    )


@dataclass(frozen=True, eq=False)
class _Contrast:
    """The part of a test that depends on the method."""

    corrected: float
    lower: float
    upper: float
    pvalue: float
    draws: Array


def _choose_method(method: str, n_samples: int, n_resamples: int, confidence: float) -> str:
    """Return the method that is used, if there are enough samples and resamples for it."""
    check_option(method, "method", ("auto", "half-sampling", "swap"))
    if method == "auto":
        method = "half-sampling" if n_samples >= _FEW_SAMPLES else "swap"
    if method == "half-sampling":
        if n_samples < _FEWEST_SAMPLES:
            raise ValueError(
                f"method='half-sampling' needs at least {_FEWEST_SAMPLES} samples, got {n_samples}. "
                "Use method='swap'."
            )
        tail = (1.0 - confidence) / 2
        if tail_rank(n_resamples, tail) < 1:
            raise ValueError(
                f"n_resamples={n_resamples} is too few for confidence={confidence:g}. "
                f"Use n_resamples >= {least_resamples(tail)}."
            )
    return method


def _halves_test(halves: HalfSamples, a: int, b: int, confidence: float) -> _Contrast:
    """Return interval and p-value of the difference of two models by their values on half-samples."""
    corrected, draws = halves.contrast(a, b)
    ordered = np.sort(draws)
    rank = tail_rank(draws.shape[0], (1.0 - confidence) / 2)
    low, high = (corrected - float(ordered[end]) for end in (-rank, rank - 1))
    # where a metric has few values, simulated values equal the estimate up to rounding
    tolerance = 1e-10 * max(abs(corrected), float(np.abs(draws).max()))
    tails = (monte_carlo_pvalue(sign * corrected, sign * draws, tolerance) for sign in (-1, 1))
    return _Contrast(corrected, low, high, min(1.0, 2.0 * min(tails)), draws)


def _swap_test(
    metric: Metric,
    rows: PairedSamples,
    a: int,
    b: int,
    value_a: float,
    value_b: float,
    n_resamples: int,
    generator: np.random.Generator,
) -> _Contrast:
    """Return the p-value of the swap test; it has no interval."""
    draws, exact, accuracy = swapped_differences(metric, rows, a, b, n_resamples, generator)
    sizes = np.abs(draws)
    # sums in another order differ by rounding, and values of the kernel by its accuracy
    tolerance = 1e-10 * max(abs(value_a), abs(value_b), float(sizes.max())) + 4.0 * accuracy
    # of all swaps the first is the identity, counted once
    pvalue = monte_carlo_pvalue(abs(value_a - value_b), sizes[1:] if exact else sizes, tolerance)
    return _Contrast(np.nan, np.nan, np.nan, pvalue, draws)


def _interval_of_one(
    metric: Metric,
    rows: PairedSamples,
    halves: HalfSamples,
    model: int,
    confidence: float,
    generator: np.random.Generator,
) -> tuple[float, float]:
    """Return the interval of one model: test inversion for binary calibration errors, else half-samples."""
    if halves.is_average or rows.predictions[model].ndim > 1 or not _takes_weights(metric):
        return halves.interval(model, confidence)
    found = confidence_interval(
        rows.y,
        rows.predictions[model],
        metric=metric,
        confidence=confidence,
        pos_label=1,
        clusters=rows.clusters,
        random_state=generator,
    )
    return found.lower, found.upper


def _takes_weights(metric: Metric) -> bool:
    try:
        parameters = signature(metric).parameters
    except (TypeError, ValueError):
        return False
    return "sample_weight" in parameters
