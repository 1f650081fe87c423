"""What comparisons of models share: checked rows, the metric on half-samples, and on swapped predictions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._core._null import sample_labels, tail_rank
from sklearn_calib._validation import (
    as_array,
    check_classes,
    check_frequency_weights,
    check_labels,
    check_scores,
    check_weights,
)
from sklearn_calib.inference._floor import null_floor
from sklearn_calib.inference._redraw import Metric

__all__ = ["HalfSamples", "PairedRows", "check_rows", "swapped_differences"]

Array = NDArray[np.float64]

_FLOOR_DRAWS = 200
# Relative differences below this are rounding.
_ROUNDING = 1e-10


@dataclass(frozen=True, eq=False)
class PairedRows:
    """Checked rows: class codes (int64, shape (n,)) and the predictions of each model, (n,) or (n, K)."""

    y: NDArray[np.int64]
    predictions: tuple[Array, ...]

    def value(self, metric: Metric, model: int, rows: Any = slice(None)) -> float:
        """Return the metric of one model on some of the rows."""
        return _evaluate(metric, self.y[rows], self.predictions[model][rows])

    def floor(self, metric: Metric, model: int, generator: np.random.Generator) -> float:
        """Return the mean of the metric if the outcomes were drawn from the model's predictions."""
        p = self.predictions[model]
        if p.ndim == 1:
            return null_floor(metric, p, n_resamples=_FLOOR_DRAWS, random_state=generator).mean
        total = sum(
            _evaluate(metric, labels, p)
            for drawn in sample_labels(p, _FLOOR_DRAWS, generator)
            for labels in drawn
        )
        return total / _FLOOR_DRAWS


def check_rows(
    y_true: ArrayLike,
    predictions: Mapping[str, ArrayLike],
    sample_weight: ArrayLike | None,
    pos_label: Any,
) -> PairedRows:
    """Check labels, the predictions of all models by argument name, and weights; repeat rows by weight."""
    checked = {name: check_scores(p, name, kind="probability") for name, p in predictions.items()}
    first, *others = checked
    for name in others:
        if checked[name].shape != checked[first].shape:
            raise ValueError(
                f"{name} has shape {checked[name].shape} but {first} has {checked[first].shape}. Pass the "
                "predictions of all models for the same rows and classes."
            )
    n = checked[first].shape[0]
    if checked[first].ndim == 1:
        y = check_labels(y_true, pos_label)
    elif pos_label is not None:
        raise ValueError(
            f"pos_label={pos_label!r} is for two classes, but {first} has {checked[first].shape[1]} columns. "
            "Leave it out."
        )
    else:
        y = _class_codes(y_true, checked[first].shape[1], first)
    if y.shape[0] != n:
        raise ValueError(f"y_true has {y.shape[0]} rows but {first} has {n}. Pass arrays of the same length.")
    arrays = tuple(checked.values())
    if sample_weight is not None:
        times = check_frequency_weights(check_weights(sample_weight, n))
        y, arrays = np.repeat(y, times), tuple(np.repeat(p, times, axis=0) for p in arrays)
    return PairedRows(y, arrays)


def _class_codes(y_true: ArrayLike, n_classes: int, name: str) -> NDArray[np.int64]:
    classes, codes = check_classes(y_true, "y_true")
    if classes.shape[0] == n_classes:
        return codes
    if classes.dtype.kind in "biu" and classes[0] >= 0 and classes[-1] < n_classes:
        return as_array(y_true, "y_true").reshape(-1).astype(np.int64)
    raise ValueError(
        f"y_true has {classes.shape[0]} classes, {classes[:5].tolist()}, but {name} has {n_classes} columns. "
        f"Pass a column for each class, or code the labels 0, ..., {n_classes - 1} in their order."
    )


def _evaluate(metric: Metric, y: NDArray[Any], p: Array) -> float:
    try:
        value = float(metric(y, p))
    except ValueError as error:
        raise ValueError(
            f"metric failed on {y.shape[0]} rows with labels {np.unique(y).tolist()}: {error} A part of the "
            "rows can lack a class; tell the metric all of them, as in "
            "functools.partial(log_loss, labels=[0, 1])."
        ) from error
    if not np.isfinite(value):
        raise ValueError(
            f"metric returned {value} for {y.shape[0]} rows. Pass a metric that is finite for every sample."
        )
    return value


@dataclass(frozen=True, eq=False)
class HalfSamples:
    """A metric of several models on the same random halves of the rows, and on the complements.

    Attributes
    ----------
    estimate : ndarray of shape (models,)
        The metric t, or t^2 unless the metric is an average, on all rows.
    linear, curved : ndarrays of shape (n_resamples, models)
        Half the difference, and the mean less the estimate, of the (squared) metric of the two halves.
    is_average : bool
        Whether the metric of all rows is the mean of its values on both halves, weighted by their sizes, for
        every model and every split.
    """

    estimate: Array
    linear: Array
    curved: Array
    is_average: bool

    @classmethod
    def draw(
        cls, metric: Metric, rows: PairedRows, n_resamples: int, generator: np.random.Generator
    ) -> "HalfSamples":
        """Split the rows ``n_resamples`` times."""
        n, models = rows.y.shape[0], range(len(rows.predictions))
        whole = np.array([rows.value(metric, model) for model in models])
        half = n // 2
        parts = np.empty((2, n_resamples, len(models)))
        for b in range(n_resamples):
            order = generator.permutation(n)
            for side, chosen in enumerate((order[:half], order[half:])):
                parts[side, b] = [rows.value(metric, model, chosen) for model in models]
        share = half / n
        mean = share * parts[0] + (1.0 - share) * parts[1]
        is_average = bool((np.abs(mean - whole) <= _ROUNDING * np.abs(parts).max()).all())
        if is_average:
            return cls(whole, (parts[0] - parts[1]) / 2.0, np.zeros_like(mean), is_average)
        if min(whole.min(), parts.min()) < 0:
            raise ValueError(
                f"metric returned {min(whole.min(), parts.min()):.6g}. Of a metric that is no average "
                "over the rows, method='half-sampling' needs values >= 0; use method='swap'."
            )
        parts, whole = parts**2, whole**2
        mean = share * parts[0] + (1.0 - share) * parts[1]
        return cls(whole, (parts[0] - parts[1]) / 2.0, mean - whole, is_average)

    @property
    def corrected(self) -> Array:
        """The estimates without what noise adds to them."""
        return self.estimate - self.curved.mean(axis=0)

    def root(self, values: Array) -> Array:
        """Return (squared) metrics as metrics; what noise has pushed below zero becomes zero."""
        return values if self.is_average else np.sqrt(np.maximum(values, 0.0))

    def contrast(self, a: int, b: int) -> tuple[float, Array]:
        """Return the corrected difference of two models and draws of its error, in units of the metric."""
        corrected = self.corrected
        draws = _errors(self.linear[:, a] - self.linear[:, b], self.curved[:, a] - self.curved[:, b])
        difference = corrected[a] - corrected[b]
        rounding = _ROUNDING * max(abs(self.estimate[a]), abs(self.estimate[b]))
        if abs(difference) <= rounding and np.abs(draws).max() <= rounding:
            return 0.0, np.zeros_like(draws)
        if self.is_average:
            return float(difference), draws
        noise = self.curved[:, [a, b]].mean(axis=0)
        scale = max(self.root(corrected[[a, b]]).sum(), self.root(noise).max())
        return float(difference / scale), draws / scale

    def interval(self, model: int, confidence: float) -> tuple[float, float]:
        """Return the confidence interval of one model's metric."""
        draws = np.sort(_errors(self.linear[:, model], self.curved[:, model]))
        rank = tail_rank(draws.shape[0], (1.0 - confidence) / 2.0)
        ends = self.corrected[model] - draws[[-rank, rank - 1]]
        low, high = self.root(ends)
        return float(low), float(high)


def _errors(linear: Array, curved: Array) -> Array:
    """Return draws of the error: the curved part as it is, the linear one without the noise in its slope."""
    variance = float(linear.var())
    kept = max(variance - float(curved.var()), 0.0) / variance if variance > 0 else 0.0
    return curved - curved.mean() + np.sqrt(kept) * linear


def swapped_differences(
    metric: Metric, rows: PairedRows, a: int, b: int, n_resamples: int, generator: np.random.Generator
) -> tuple[Array, bool]:
    """Return differences of two models after random swaps, or, True then, after every swap if these are few.

    Rows with equal predictions are left alone. Of all swaps the first is none at all.
    """
    first, second = rows.predictions[a], rows.predictions[b]
    differs = np.flatnonzero((first != second).reshape(first.shape[0], -1).any(axis=1))
    d = differs.shape[0]
    exact = d < 60 and 1 << d <= n_resamples + 1
    swaps: Iterable[NDArray[np.bool_]]
    if exact:
        swaps = (np.array(swap, dtype=bool) for swap in product([False, True], repeat=d))
    else:
        swaps = (generator.random(d) < 0.5 for _ in range(n_resamples))
    draws = []
    for swap in swaps:
        chosen = differs[swap]
        p, q = first.copy(), second.copy()
        p[chosen], q[chosen] = second[chosen], first[chosen]
        draws.append(_evaluate(metric, rows.y, p) - _evaluate(metric, rows.y, q))
    return np.array(draws), exact
