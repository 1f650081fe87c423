"""Comparison of any number of models on the same samples."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from inspect import signature
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core._multiple import CORRECTIONS, adjust_pvalues
from sklearn_calib._html import result_html
from sklearn_calib._validation import check_fraction, check_generator, check_option, check_size
from sklearn_calib.inference._comparison import (
    PairedComparison,
    assemble,
    choose_method,
    halves_test,
    swap_test,
)
from sklearn_calib.inference._intervals import confidence_interval
from sklearn_calib.inference._paired_samples import HalfSamples, PairedSamples, check_paired
from sklearn_calib.inference._redraw import Metric
from sklearn_calib.metrics._names import as_metric


@dataclass(frozen=True)
class ModelSummary:
    """One model of a comparison.

    Attributes
    ----------
    name : str
        Its name.
    value : float
        Its metric.
    null_mean : float
        Mean of the metric if it were perfectly calibrated.
    corrected : float
        The bias-corrected metric; NaN for ``method="swap"``.
    lower, upper : float
        Confidence interval of the metric in the population: that of :func:`confidence_interval` for binary
        calibration errors that support weights, else by half-samples; NaN for ``method="swap"``.
    in_best_set : bool
        Whether it is not significantly worse than any other model.
    """

    name: str
    value: float
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
    comparison : PairedComparison
        Their comparison.
    adjusted_pvalue : float
        Its p-value, adjusted for the number of tests.
    """

    name_a: str
    name_b: str
    comparison: PairedComparison
    adjusted_pvalue: float


@dataclass(frozen=True)
class ModelComparison:
    """Comparison of several models on the same samples.

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
    correction : str
        "holm", "bonferroni" or "none".
    confidence : float
        Confidence level of each interval.
    method : str
        "half-sampling" or "swap".
    n_samples : int
        Number of samples; frequency weights count.
    """

    models: tuple[ModelSummary, ...]
    pairs: tuple[ModelPair, ...]
    best_set: tuple[str, ...]
    reference: str | None
    correction: str
    confidence: float
    method: str
    n_samples: int

    def to_records(self) -> list[dict[str, Any]]:
        """Return one dict for each model, as input for ``pandas.DataFrame``.

        With a reference they also contain the test of the model against it; these are NaN for the reference.
        """
        table: list[dict[str, Any]] = []
        tests = {pair.name_a: pair for pair in self.pairs}
        for row in self.models:
            entry = {"model": row.name, **vars(row)}
            del entry["name"]
            if self.reference is not None:
                pair = tests.get(row.name)
                entry["difference"] = np.nan if pair is None else pair.comparison.difference
                entry["pvalue"] = np.nan if pair is None else pair.comparison.pvalue
                entry["adjusted_pvalue"] = np.nan if pair is None else pair.adjusted_pvalue
            table.append(entry)
        return table

    def pairs_to_records(self) -> list[dict[str, Any]]:
        """Return one dict for each test."""
        return [
            {
                "name_a": pair.name_a,
                "name_b": pair.name_b,
                "difference": pair.comparison.difference,
                "corrected_difference": pair.comparison.corrected_difference,
                "lower": pair.comparison.lower,
                "upper": pair.comparison.upper,
                "pvalue": pair.comparison.pvalue,
                "adjusted_pvalue": pair.adjusted_pvalue,
            }
            for pair in self.pairs
        ]

    def __str__(self) -> str:
        level = f"{100 * self.confidence:g}%"
        models = [["model", "value", "expected if calibrated", "bias-corrected", f"{level} interval", ""]]
        models += [
            [
                row.name,
                *_numbers(row.value, row.null_mean, row.corrected),
                _interval(row.lower, row.upper),
                "in best set" if row.in_best_set else "",
            ]
            for row in self.models
        ]
        adjusted = "p-value" if self.correction == "none" else f"p ({self.correction})"
        tests = [["a - b", "difference", "bias-corrected", f"{level} interval", adjusted]]
        for pair in self.pairs:
            found = pair.comparison
            tests.append(
                [
                    f"{pair.name_a} - {pair.name_b}",
                    *_numbers(found.difference, found.corrected_difference),
                    _interval(found.lower, found.upper),
                    f"{pair.adjusted_pvalue:.3g}",
                ]
            )
        footer = f"{self.method}, n = {self.n_samples}"
        return "\n\n".join([_aligned(models), _aligned(tests), footer])

    def _repr_html_(self) -> str:
        return result_html(
            "comparison of models",
            [
                ("best set", ", ".join(self.best_set)),
                ("reference", self.reference or ""),
                ("correction", self.correction),
                ("confidence", f"{100 * self.confidence:g}%"),
                ("method", f"{self.method}, n = {self.n_samples}"),
            ],
            [("models", self.models), ("tests", self.pairs_to_records())],
            unfolded=True,
        )


def compare_models(
    y_true: ArrayLike,
    predictions: Mapping[str, ArrayLike],
    *,
    metric: str | Metric,
    reference: str | None = None,
    correction: Literal["holm", "bonferroni", "none"] = "holm",
    method: Literal["auto", "half-sampling", "swap"] = "auto",
    n_resamples: int = 999,
    confidence: float = 0.95,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    pos_label: Any = None,
    random_state: int | np.random.Generator | np.random.RandomState | None = None,
) -> ModelComparison:
    """Compare a metric between several models that predict the same samples.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    predictions : mapping of str to array-like
        Name of each model and its predicted probabilities, of shape (n,), (n, 1), (n, 2) or (n, K). At least
        two models.
    metric : str or callable
        Name of a metric or ``metric(y_true, y_proba) -> float``, smaller is better, as in
        :func:`paired_test`.
    reference : str or None, default=None
        The model to which all others are compared; None compares every pair.
    correction : {"holm", "bonferroni", "none"}, default="holm"
        Adjustment of the p-values for the number of tests. Both control the family-wise error rate under any
        dependence of the tests; "holm" [1]_ is uniformly more powerful.
    method, n_resamples, confidence, sample_weight, clusters, pos_label, random_state
        As in :func:`paired_test`. All models are evaluated on the same half-samples. Intervals are for
        one model or one pair each, not adjusted for their number.

    Returns
    -------
    ModelComparison
        A summary of each model, the tests, and the best set.

    Raises
    ------
    ValueError
        If an argument is malformed (the message names it), weights are not whole numbers, there are too few
        samples or resamples, or the metric fails or is not finite on a subset of the samples.
    TypeError
        If ``metric`` cannot be called, ``predictions`` is not a mapping, or a parameter is of the wrong type.

    See Also
    --------
    paired_test : The test of a pair, with the assumptions of its methods.

    Notes
    -----
    A model belongs to the best set unless it is significantly worse than another model: adjusted two-sided
    p-value at most 1 - ``confidence``, and the bias-corrected difference not in its favour. Without a
    reference, and with p-values adjusted, a model with the smallest metric in the population is left out
    with probability at most 1 - ``confidence``, up to the level of the tests themselves. With a reference
    only the tests against it are made, and only they decide. With ``correction="none"`` the error rate is
    controlled for each test separately only.

    The p-value of a swap test cannot be smaller than 1 / (1 + ``n_resamples``), and that of half-sampling is
    at least twice that: with many pairs, adjusted p-values need more resamples.

    Cost: with half-sampling, two evaluations of the metric on n / 2 samples for each model and resample; with
    swaps, two on n samples for each pair and resample.

    References
    ----------
    .. [1] S. Holm (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of
       Statistics 6.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import compare_models
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> y = rng.random(500) < p
    >>> models = {"true": p, "squared": p**2, "halved": p / 2}
    >>> compare_models(y, models, metric="cutoff_calibration_error", random_state=0).best_set
    ('true',)
    """
    metric = as_metric(metric)
    if not isinstance(predictions, Mapping):
        raise TypeError(f"predictions must map names to arrays, got {type(predictions).__name__}.")
    names = list(predictions)
    if len(names) < 2:
        raise ValueError(f"predictions contains {len(names)} models. Pass at least two.")
    if reference is not None and (not isinstance(reference, Hashable) or reference not in predictions):
        raise ValueError(f"reference={reference!r} is not one of the models {names}.")
    check_option(correction, "correction", CORRECTIONS)
    confidence = check_fraction(confidence, "confidence")
    n_resamples = check_size(n_resamples, "n_resamples")
    generator = check_generator(random_state)
    arrays = {f"predictions[{name!r}]": predictions[name] for name in names}
    checked = check_paired(y_true, arrays, sample_weight, pos_label, clusters)
    n = checked.y.shape[0]
    method_used = choose_method(method, n, n_resamples, confidence, 2)
    if reference is None:
        tested = list(combinations(range(len(names)), 2))
    else:
        base = names.index(reference)
        tested = [(k, base) for k in range(len(names)) if k != base]

    values = [checked.value(metric, k) for k in range(len(names))]
    halves = None
    if method_used == "half-sampling":
        halves = HalfSamples.draw(metric, checked, n_resamples, generator)
        contrasts = [halves_test(halves, a, b, confidence, "two-sided") for a, b in tested]
        corrected = halves.root(halves.corrected).tolist()
    else:
        contrasts = [swap_test(metric, checked, a, b, n_resamples, generator, "two-sided") for a, b in tested]
        corrected = [np.nan] * len(names)
    null_means = [checked.null_mean(metric, k, generator) for k in range(len(names))]
    intervals = [
        (np.nan, np.nan)
        if halves is None
        else interval_of_one(metric, checked, halves, k, confidence, generator)
        for k in range(len(names))
    ]
    adjusted = adjust_pvalues(np.array([contrast.pvalue for contrast in contrasts]), correction)
    pairs = []
    worse = set()
    for (a, b), contrast, pvalue in zip(tested, contrasts, adjusted.tolist(), strict=True):
        comparison = assemble(
            contrast,
            [values[a], values[b]],
            [null_means[a], null_means[b]],
            confidence,
            "two-sided",
            method_used,
            checked,
        )
        pairs.append(ModelPair(names[a], names[b], comparison, pvalue))
        if pvalue <= 1.0 - confidence + 1e-12:
            shift = comparison.difference if np.isnan(contrast.corrected) else contrast.corrected
            worse.add(a if shift > 0 else b)
    rows = tuple(
        ModelSummary(names[k], values[k], null_means[k], corrected[k], *intervals[k], k not in worse)
        for k in range(len(names))
    )
    return ModelComparison(
        models=rows,
        pairs=tuple(pairs),
        best_set=tuple(row.name for row in rows if row.in_best_set),
        reference=reference,
        correction=correction,
        confidence=confidence,
        method=method_used,
        n_samples=n,
    )


def interval_of_one(
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


def _numbers(*values: float) -> list[str]:
    return ["-" if np.isnan(value) else f"{value:.4f}" for value in values]


def _interval(low: float, high: float) -> str:
    return "-" if np.isnan(low) else f"[{low:.4f}, {high:.4f}]"


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
