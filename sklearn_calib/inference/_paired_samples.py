"""Functions for comparisons of models: input validation, and the metric on half-samples and after swaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._core._clusters import clusters_of_classes
from sklearn_calib._core._grouping import GroupedOutcomes, group_starts
from sklearn_calib._core._null import sample_labels, tail_rank
from sklearn_calib._typing import Array
from sklearn_calib._validation import (
    as_array,
    check_classes,
    check_clusters,
    check_frequency_weights,
    check_labels,
    check_scores,
    check_weights,
    shape_of,
)
from sklearn_calib.inference._null_distribution import expected_under_calibration
from sklearn_calib.inference._redraw import Metric, pooled
from sklearn_calib.metrics._metric_kernel import Evaluate, bind_kernel

_NULL_SAMPLES = 200
# Relative differences below this are rounding.
_ROUNDING = 1e-10
# Of more samples one subset at a time is as fast.
_MOST_BATCHED = 1 << 13
# Samples times subsets at a time.
_MAX_ELEMENTS = 1 << 20


@dataclass(frozen=True, eq=False)
class PairedSamples:
    """Checked samples: class codes (int64, shape (n,)) and the predictions of each model, (n,) or (n, K)."""

    y: NDArray[np.int64]
    predictions: tuple[Array, ...]
    clusters: NDArray[np.int64] | None = None

    @cached_property
    def units(self) -> NDArray[np.int64]:
        """Return a code for each sample: those of the same code stay together."""
        return np.arange(self.y.shape[0]) if self.clusters is None else self.clusters

    def value(self, metric: Metric, model: int) -> float:
        """Return the metric of one model."""
        return _evaluate(metric, self.y, self.predictions[model])

    def null_mean(self, metric: Metric, model: int, generator: np.random.Generator) -> float:
        """Return the mean of the metric for outcomes simulated from the model's predictions."""
        p = self.predictions[model]
        if p.ndim == 1:
            return expected_under_calibration(
                None if self.clusters is None else self.y,
                p,
                metric=metric,
                clusters=self.clusters,
                n_resamples=_NULL_SAMPLES,
                random_state=generator,
            ).mean
        clusters = None if self.clusters is None else clusters_of_classes(self.y, p, self.clusters)
        total = sum(
            _evaluate(metric, labels, p)
            for drawn in sample_labels(p, _NULL_SAMPLES, generator, clusters)
            for labels in drawn
        )
        return total / _NULL_SAMPLES


def check_predictions(predictions: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """Return the checked predictions of two or more models, by ``predictions[name]``."""
    if not isinstance(predictions, Mapping):
        raise TypeError(f"predictions must map names to arrays, got {type(predictions).__name__}.")
    if len(predictions) < 2:
        raise ValueError(f"predictions must contain at least two models, got {len(predictions)}. Name each.")
    shown = {f"predictions[{name!r}]": p for name, p in predictions.items()}
    checked = {name: check_scores(p, name, kind="probability") for name, p in shown.items()}
    first, *others = checked
    for name in others:
        if checked[name].shape != checked[first].shape:
            raise ValueError(
                f"{name} has shape {checked[name].shape} but {first} has {checked[first].shape}. Pass the "
                "predictions of all models for the same samples and classes."
            )
    return checked


def check_models(
    y_true: ArrayLike,
    predictions: Mapping[str, ArrayLike],
    sample_weight: ArrayLike | None,
    pos_label: Any,
    clusters: ArrayLike | None = None,
) -> PairedSamples:
    """Check labels, the predictions of all models, and weights; repeat samples by weight."""
    checked = check_predictions(predictions)
    first = next(iter(checked))
    n = checked[first].shape[0]
    if checked[first].ndim == 1:
        both = all(shape_of(p, "predictions")[1:] == (2,) for p in predictions.values())
        y = check_labels(y_true, pos_label, ordered=both)
    elif pos_label is not None:
        raise ValueError(
            f"pos_label={pos_label!r} is for binary problems, but {first} has {checked[first].shape[1]} "
            "columns. Omit it."
        )
    else:
        y = _class_codes(y_true, checked[first].shape[1], first)
    if y.shape[0] != n:
        raise ValueError(
            f"y_true has {y.shape[0]} samples but {first} has {n}. Pass arrays of the same length."
        )
    arrays = tuple(checked.values())
    weight = None if sample_weight is None else check_weights(sample_weight, n)
    times = None if weight is None else check_frequency_weights(weight)
    codes = None if clusters is None else check_clusters(clusters, n, weight)
    if times is not None:
        y, arrays = np.repeat(y, times), tuple(np.repeat(p, times, axis=0) for p in arrays)
        codes = None if codes is None else np.repeat(codes, times[times > 0])
    return PairedSamples(y, arrays, codes)


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
            f"metric failed on {y.shape[0]} samples with labels {np.unique(y).tolist()}: {error} A subset of "
            "the samples can lack a class; pass all labels to the metric, as in "
            "functools.partial(log_loss, labels=[0, 1])."
        ) from error
    if not np.isfinite(value):
        raise ValueError(
            f"metric returned {value} for {y.shape[0]} samples. Pass a metric that is finite for any sample."
        )
    return value


class _Subsets:
    """A metric on subsets of ``size`` samples: many at a time if it declares a kernel."""

    def __init__(self, metric: Metric, y: NDArray[np.int64], p: Array, size: int) -> None:
        self.metric, self.y, self.p, self.size = metric, y, p, size
        bound = bind_kernel(metric, size) if p.ndim == 1 else None
        self.evaluate: Evaluate | None = None
        self.accuracy = 0.0
        if bound is None:
            return
        self.order = np.argsort(p, kind="stable")
        ordered = p[self.order]
        self.starts = group_starts(ordered)
        prob = ordered[self.starts] + 0.0
        if p.shape[0] > _MOST_BATCHED:
            # of more samples, only those of pooled predictions are faster together
            count = np.diff(self.starts, append=p.shape[0]).astype(np.float64)
            positives = np.add.reduceat(y[self.order], self.starts).astype(np.float64)
            small = pooled(bound, GroupedOutcomes(prob, count, positives))
            if small.prob.shape[0] > _MOST_BATCHED:
                return
            ends = np.cumsum(small.weight).astype(np.int64)
            self.starts, prob = np.append(0, ends[:-1]), small.prob
        self.evaluate = bound.evaluator(prob, size)
        self.accuracy = bound.accuracy

    def __call__(self, member: NDArray[np.bool_]) -> Array:
        """Return the metric of r subsets; ``member``, of shape (r, n), says which samples are in each."""
        if self.evaluate is None:
            rows = (np.flatnonzero(some) for some in member)
            return np.array([_evaluate(self.metric, self.y[some], self.p[some]) for some in rows])
        count = member.T[self.order].astype(np.float64)
        # subsets of clusters differ in size, and the kernel is bound to one
        count *= self.size / count.sum(axis=0)
        positives = count * self.y[self.order, np.newaxis]
        if self.starts.shape[0] < self.order.shape[0]:
            count, positives = (np.add.reduceat(each, self.starts, axis=0) for each in (count, positives))
        return self.evaluate(count, positives)


def _blocks(n_draws: int, n: int) -> Iterator[range]:
    """Yield the numbers of the simulations, in blocks whose mask of n samples is small."""
    size = max(1, _MAX_ELEMENTS // n)
    return (range(start, min(start + size, n_draws)) for start in range(0, n_draws, size))


@dataclass(frozen=True, eq=False)
class HalfSamples:
    """A metric of several models on the same random halves of the samples, and on the complements.

    ``estimate``, (models,), is the metric t of all samples, or t^2 unless it ``is_average``: the mean of its
    values on both halves, weighted by their sizes, for every model and split. ``linear`` and ``curved``,
    (n_resamples, models), are half the difference, and the mean less the estimate, of those of the halves.
    """

    estimate: Array
    linear: Array
    curved: Array
    is_average: bool

    @classmethod
    def draw(
        cls, metric: Metric, rows: PairedSamples, n_resamples: int, generator: np.random.Generator
    ) -> HalfSamples:
        """Split the samples ``n_resamples`` times."""
        n, models = rows.y.shape[0], range(len(rows.predictions))
        # as the halves are evaluated
        everything = np.ones((1, n), dtype=bool)
        whole = np.array([_Subsets(metric, rows.y, p, n)(everything)[0] for p in rows.predictions])
        half = n // 2
        n_units = int(rows.units.max()) + 1
        fraction = np.empty((n_resamples, 1))
        halves = [[_Subsets(metric, rows.y, p, size) for p in rows.predictions] for size in (half, n - half)]
        parts = np.empty((2, n_resamples, len(models)))
        for block in _blocks(n_resamples, n):
            member = np.zeros((len(block), n), dtype=bool)
            for subset in member:
                chosen_units = np.zeros(n_units, dtype=bool)
                chosen_units[generator.permutation(n_units)[: n_units // 2]] = True
                subset[:] = chosen_units[rows.units]
            fraction[block.start : block.stop, 0] = member.mean(axis=1)
            for side, chosen in enumerate((member, ~member)):
                for model in models:
                    parts[side, block.start : block.stop, model] = halves[side][model](chosen)
        mean = fraction * parts[0] + (1.0 - fraction) * parts[1]
        # 1/2 for halves of equal size
        unit = np.sqrt(fraction * (1.0 - fraction)) if rows.clusters is not None else 0.5
        rounding = _ROUNDING * np.abs(parts).max() + halves[0][0].accuracy
        is_average = bool((np.abs(mean - whole) <= rounding).all())
        if is_average:
            return cls(whole, (parts[0] - parts[1]) * unit, np.zeros_like(mean), is_average)
        if min(whole.min(), parts.min()) < 0:
            raise ValueError(
                f"metric returned {min(whole.min(), parts.min()):.6g}. For a metric that is not an average "
                "over samples, method='half-sampling' needs values >= 0; use method='swap'."
            )
        parts, whole = parts**2, whole**2
        mean = fraction * parts[0] + (1.0 - fraction) * parts[1]
        return cls(whole, (parts[0] - parts[1]) * unit, mean - whole, is_average)

    @property
    def corrected(self) -> Array:
        """The bias-corrected estimates."""
        return self.estimate - self.curved.mean(axis=0)

    def root(self, values: Array) -> Array:
        """Return (squared) metrics as metrics; negative estimates of squares become zero."""
        return values if self.is_average else np.sqrt(np.maximum(values, 0.0))

    def contrast(self, a: int, b: int) -> tuple[float, Array]:
        """Return the corrected difference of two models and its simulated errors, in units of the metric."""
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
    """Return simulated errors: the curved part unchanged, the linear one without the noise in its slope."""
    variance = float(linear.var())
    kept = max(variance - float(curved.var()), 0.0) / variance if variance > 0 else 0.0
    return curved - curved.mean() + np.sqrt(kept) * linear


def swapped_differences(
    metric: Metric, rows: PairedSamples, a: int, b: int, n_resamples: int, generator: np.random.Generator
) -> tuple[Array, bool, float]:
    """Return differences of two models after random swaps, whether these are all swaps, and their accuracy.

    Samples with equal predictions are not swapped. Of all swaps the first is the identity.
    """
    first, second = rows.predictions[a], rows.predictions[b]
    n = first.shape[0]
    # clusters in which the models differ
    differs = np.unique(rows.units[(first != second).reshape(n, -1).any(axis=1)])
    d = differs.shape[0]
    exact = d < 60 and 1 << d <= n_resamples + 1
    n_draws = 1 << d if exact else n_resamples
    subsets = _Subsets(metric, np.tile(rows.y, 2), np.concatenate((first, second)), n)
    draws = []
    for block in _blocks(n_draws, 2 * n):
        swap = np.zeros((len(block), int(rows.units.max()) + 1), dtype=bool)
        for subset, number in zip(swap, block, strict=True):
            # the binary digits of the number, or a random bit for each cluster
            subset[differs] = (
                [number >> (d - 1 - k) & 1 for k in range(d)] if exact else generator.random(d) < 0.5
            )
        swap = swap if rows.clusters is None else swap[:, rows.units]
        draws.append(subsets(np.hstack((~swap, swap))) - subsets(np.hstack((swap, ~swap))))
    return np.concatenate(draws), exact, subsets.accuracy
