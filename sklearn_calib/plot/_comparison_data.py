"""What a comparison display shows, computed before anything is drawn."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation import check_size
from sklearn_calib.inference import ModelComparison, ModelPair, ModelSummary, PairedComparison
from sklearn_calib.inference._comparison import choose_method
from sklearn_calib.inference._comparison_table import interval_of_one
from sklearn_calib.inference._paired_draws import HalfSamples, check_rows

__all__ = ["Metric", "as_comparison", "enough_resamples", "letters", "named_metrics", "one_model"]

Metric = Callable[..., float]

# Random splits, where no more are needed.
_RESAMPLES = 999
# Words of the names of functions that are not written as they are.
_SPELLED = {"ece": "ECE", "brier": "Brier"}


def letters(names: list[str], comparison: ModelComparison) -> dict[str, str]:
    """Return the letters of each model: a pair shares none if and only if a test parts it.

    Sets of models are divided for each pair that differs, and sets within others dropped; each that is left
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


def as_comparison(result: Any, names: tuple[str, str]) -> ModelComparison:
    """Return a comparison of models; that of a pair lacks the intervals of each."""
    if isinstance(result, ModelComparison):
        return result
    if not isinstance(result, PairedComparison):
        raise TypeError(
            f"result must be a ModelComparison or a PairedComparison, got {type(result).__name__}. Pass what "
            "compare_models() or paired_test() returns."
        )
    shift = result.corrected_difference
    shift = result.difference if np.isnan(shift) else shift
    found = result.pvalue <= 1.0 - result.confidence + 1e-12
    rows = tuple(
        ModelSummary(name, value, floor, np.nan, np.nan, np.nan, not (found and sign * shift > 0))
        for name, value, floor, sign in (
            (names[0], result.value_a, result.floor_a, 1),
            (names[1], result.value_b, result.floor_b, -1),
        )
    )
    return ModelComparison(
        rows=rows,
        pairs=(ModelPair(names[0], names[1], result, result.pvalue),),
        best_set=tuple(row.name for row in rows if row.in_best_set),
        reference=None,
        correction="none",
        confidence=result.confidence,
        method=result.method,
        n_samples=result.n_samples,
    )


def one_model(
    metric: Metric,
    y_true: ArrayLike,
    predictions: Mapping[str, ArrayLike],
    *,
    n_resamples: int,
    confidence: float,
    sample_weight: ArrayLike | None,
    pos_label: Any,
    random_state: np.random.Generator,
) -> ModelComparison:
    """Return the summary of a single model, as a comparison without tests."""
    (name,) = predictions
    rows = check_rows(y_true, {f"predictions[{name!r}]": predictions[name]}, sample_weight, pos_label)
    n = rows.y.shape[0]
    method = choose_method("half-sampling", n, n_resamples, confidence, 2)
    halves = HalfSamples.draw(metric, rows, n_resamples, random_state)
    summary = ModelSummary(
        name,
        rows.value(metric, 0),
        rows.floor(metric, 0, random_state),
        float(halves.root(halves.corrected)[0]),
        *interval_of_one(metric, rows, halves, 0, confidence, random_state),
        in_best_set=True,
    )
    return ModelComparison((summary,), (), (name,), None, "none", confidence, method, n)


def enough_resamples(n_resamples: Any, n_tests: int, confidence: float) -> int:
    """Return the number of resamples if the smallest p-value, 2 / (1 + number), can be found significant."""
    needed = math.ceil(2.0 * max(n_tests, 1) / (1.0 - confidence) - 1e-9) - 1
    if n_resamples is None:
        return max(_RESAMPLES, needed)
    if check_size(n_resamples, "n_resamples") < needed:
        raise ValueError(
            f"n_resamples={n_resamples} is too few for {n_tests} tests at confidence={confidence:g}: no "
            f"difference could be found. Use n_resamples >= {needed}, a reference, or fewer models."
        )
    return int(n_resamples)


def named_metrics(metrics: Any) -> dict[str, Metric]:
    """Return the metrics by their names."""
    if isinstance(metrics, Mapping):
        named = dict(metrics)
    else:
        listed = [metrics] if callable(metrics) else metrics
        if isinstance(listed, str) or not isinstance(listed, Sequence):
            raise TypeError(f"metrics must be callable, a list of callables or a mapping, got {metrics!r}.")
        named = {_metric_name(metric): metric for metric in listed}
        if len(named) < len(listed):
            raise ValueError("metrics holds two of the same name. Pass a mapping from names to metrics.")
    if not named:
        raise ValueError("metrics is empty. Pass at least one metric.")
    for name, metric in named.items():
        if not callable(metric):
            raise TypeError(f"metrics[{name!r}] must be callable, got {metric!r}.")
    return named


def _metric_name(metric: Any) -> str:
    """Return the name of a function in words, with the parameters that a partial has fixed."""
    if isinstance(metric, partial):
        fixed = ", ".join(f"{key}={value!r}" for key, value in metric.keywords.items())
        return f"{_metric_name(metric.func)} ({fixed})" if fixed else _metric_name(metric.func)
    words = getattr(metric, "__name__", repr(metric)).split("_")
    return " ".join(_SPELLED.get(word, word) for word in words if word)
