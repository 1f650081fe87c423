"""Functions for comparisons of models: input validation, and the metric on random parts of the samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from sklearn_calib import _validation
from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._grouping import GroupedOutcomes, group_starts, weighting
from sklearn_calib._core._null import TIE, tail_rank
from sklearn_calib._core._weights import written_out
from sklearn_calib._typing import Array
from sklearn_calib.inference._null_distribution import expected_under_calibration
from sklearn_calib.inference._sample_metric import FEWEST_OF_ROWS, Metric, pooled_for_kernel
from sklearn_calib.metrics._metric_kernel import Evaluate, bind_kernel, declaration
from sklearn_calib.metrics._reductions import (
    Problem,
    check_problem,
    multilabel_words,
    split_classes,
    two_columns,
)

_NULL_SAMPLES = 200
# Of more samples one subset at a time is as fast.
_MOST_BATCHED = 1 << 13
# Samples times subsets at a time.
_MAX_ELEMENTS = 1 << 20

Sample = _validation.BinarySample | _validation.ClassSample


def check_models(
    y_true: ArrayLike,
    predictions: Mapping[str, ArrayLike],
    sample_weight: ArrayLike | None = None,
    weights: str | None = "sampling",
    clusters: ArrayLike | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
) -> list[Sample]:
    """Return the samples of two or more models; errors name ``predictions[name]``."""
    if not isinstance(predictions, Mapping):
        raise TypeError(
            f"predictions must map names to arrays, got {type(predictions).__name__}. Pass a dict; of a data "
            "frame with a column for each model dict(frame)."
        )
    if len(predictions) < 2:
        raise ValueError(f"predictions must contain at least two models, got {len(predictions)}. Name each.")
    found: dict[str, Sample] = {}
    for name, p in predictions.items():
        shown = f"predictions[{name!r}]"
        try:
            found[shown] = check_model(y_true, p, sample_weight, weights, clusters, pos_label, labels)
        except (TypeError, ValueError) as error:
            raise type(error)(str(error).replace("y_proba", shown)) from None
    (first, sample), *others = found.items()
    for name, other in others:
        if other.p.shape != sample.p.shape:
            raise ValueError(
                f"{name} has shape {other.p.shape} but {first} has {sample.p.shape}. Pass the predictions of "
                "all models for the same samples and classes."
            )
    return list(found.values())


def check_model(y_true: ArrayLike, y_proba: ArrayLike, *given: Any) -> Sample:
    """Return a checked sample, whose ``y`` and ``p`` have the shape (n, n_labels) if it is multilabel."""
    sample_weight, weights, clusters, pos_label, labels = given
    problem = check_problem(y_true, y_proba, sample_weight, pos_label, labels, clusters, weights=weights)
    if not isinstance(problem, list):
        return problem
    y, p = (
        np.stack(columns, axis=1) for columns in zip(*((each.y, each.p) for each in problem), strict=True)
    )
    return replace(problem[0], y=y, p=p)


def problems_of(sample: Sample, reduction: str | None) -> list[Problem]:
    """Return the binary problems of a reduction; None leaves the sample as it is."""
    y, p = sample.y, sample.p
    if reduction is None or (p.ndim == 1 and reduction == "classwise"):
        return [Problem(1.0, y, p, None)]
    if y.ndim == 1:
        return split_classes(y, two_columns(p) if p.ndim == 1 else p, reduction, sample.w)
    if reduction != "classwise":
        raise ValueError(multilabel_words(reduction))
    share = 1.0 / p.shape[1]
    return [
        Problem(share, outcome, np.ascontiguousarray(q), None) for outcome, q in zip(y.T, p.T, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class PairedSamples:
    """The samples of each model, in which frequencies are written out.

    The metric is that of binary problems of the ``reduction``, or of the whole sample (None). ``support`` are
    the fields with which results describe the weights.
    """

    samples: tuple[Sample, ...]
    reduction: str | None = None
    support: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, samples: list[Sample], reduction: str | None = None) -> PairedSamples:
        """Repeat the samples by their frequencies."""
        first = samples[0]
        support = weighting(first)
        if first.w is not None and not first.sampling:
            rows = written_out(first.w)
            samples = [replace(sample.take(rows), w=None) for sample in samples]
        return cls(tuple(samples), reduction, support)

    @property
    def n_samples(self) -> int:
        """Number of samples; frequencies count."""
        return int(self.samples[0].y.shape[0])

    @property
    def weight(self) -> Array | None:
        """Sampling weights with mean 1, if there are any."""
        return self.samples[0].w

    @property
    def units(self) -> NDArray[np.int64]:
        """A code for each sample: those of the same code stay together."""
        clusters = self.samples[0].clusters
        return np.arange(self.n_samples) if clusters is None else clusters

    def problems(self, model: int) -> list[Problem]:
        """Return the binary problems of one model."""
        return problems_of(self.samples[model], self.reduction)

    def value(self, metric: Metric, model: int, name: str) -> float:
        """Return the metric of one model."""
        given, total = f"predictions[{name!r}] and ", 0.0
        for fraction, y, p, members in self.problems(model):
            weight = self.weight if self.weight is None or members is None else self.weight[members]
            total += fraction * _evaluate(metric, y, p, given, weight=weight)
        return total

    def given(self, model: int) -> dict[str, Any]:
        """Return the arguments of functions that evaluate a single model."""
        sample = self.samples[model]
        return {
            "y_true": sample.y,
            "y_proba": sample.p,
            "sample_weight": sample.w,
            "clusters": sample.clusters,
            "pos_label": 1 if sample.p.ndim == 1 else None,
            "reduction": self.reduction,
            "labels": np.arange(sample.p.shape[1]) if sample.p.ndim > sample.y.ndim else None,
        }

    def expected(self, metric: Metric, model: int, seed: int) -> float:
        """Return the mean of the metric for outcomes simulated from the model's predictions."""
        return expected_under_calibration(
            **self.given(model), metric=metric, n_resamples=_NULL_SAMPLES, random_state=seed
        ).expected


def _evaluate(
    metric: Metric,
    y: NDArray[Any],
    p: Array,
    given: str = "",
    *,
    subset: bool = False,
    weight: Array | None = None,
) -> float:
    """Return the metric; it may be NaN on a subset of the samples, but not infinite."""
    weighted = {} if weight is None else {"sample_weight": weight}
    try:
        value = float(metric(y, p, **weighted))
    except ValueError as error:
        raise ValueError(
            f"metric failed on {y.shape[0]} samples with labels {np.unique(y).tolist()}: "
            f"{str(error).rstrip('.')}. A subset of the samples can lack a class; pass all labels to the "
            "metric, as in functools.partial(log_loss, labels=[0, 1])."
        ) from error
    if not (np.isfinite(value) or (subset and np.isnan(value))):
        raise ValueError(
            f"metric returned {value} for {given}{y.shape[0]} samples. Pass a metric that is finite for any "
            "sample. A log loss is infinite if a prediction of exactly 0 or 1 is contradicted: leave out the "
            "model, which is worse than any of finite loss, or clip its predictions."
        )
    return value


class _Subsets:
    """A metric on subsets of ``size`` samples, the weighted mean over its binary problems."""

    def __init__(self, metric: Metric, rows: PairedSamples, model: int, size: int) -> None:
        self.parts = [_SubsetMetric(metric, rows, problem, size) for problem in rows.problems(model)]
        self.accuracy = max(part.accuracy for part in self.parts)

    def __call__(self, member: NDArray[np.bool_]) -> Array:
        """Return the metric of r subsets; ``member``, of shape (r, n), says which samples are in each."""
        values, weights = zip(*(part(member) for part in self.parts), strict=True)
        return np.asarray(sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights))


class _SubsetMetric:
    """A metric on subsets of one problem: many at a time if it declares a kernel."""

    def __init__(self, metric: Metric, rows: PairedSamples, problem: Problem, size: int) -> None:
        _, y, p, self.members = problem
        weight = rows.weight
        if self.members is not None:
            size = max(size * p.shape[0] // rows.n_samples, 1)
            weight = None if weight is None else weight[self.members]
        self.metric, self.y, self.p, self.size, self.weight = metric, y, p, size, weight
        bound = bind_kernel(metric, size) if p.ndim == 1 else None
        self.evaluate: Evaluate | None = None
        self.accuracy = 0.0
        if bound is None:
            return
        order = np.argsort(p, kind="stable")
        starts, ordered = group_starts(p[order]), y[order].astype(np.float64)
        count = np.diff(starts, append=p.shape[0]).astype(np.float64)
        positives = np.add.reduceat(ordered, starts)
        grouped = GroupedOutcomes(p[order][starts] + 0.0, count, positives)
        small = pooled_for_kernel(bound, grouped, FEWEST_OF_ROWS)
        # of more samples, only those of pooled predictions are faster together
        if small.prob.shape[0] > _MOST_BATCHED:
            return
        of_row = np.ones_like(ordered) if weight is None else weight[order]
        ends = np.append(0, np.cumsum(small.weight)).astype(np.int64)
        shape = small.prob.shape[0], p.shape[0]
        self.sums, self.events = (csr_array((x, order, ends), shape) for x in (of_row, of_row * ordered))
        self.evaluate, self.accuracy = bound.evaluator(small.prob, size), bound.accuracy

    def __call__(self, member: NDArray[np.bool_]) -> tuple[Array, Any]:
        """Return the metric of r subsets, and its weight in the mean over problems."""
        share: Any = 1.0
        if self.members is not None:
            member = member[:, self.members]
            share = member.sum(axis=1) if self.weight is None else member @ self.weight
        if self.evaluate is None:
            return np.array([self._one(np.flatnonzero(some)) for some in member]), share
        chosen = np.ascontiguousarray(member.T, dtype=np.float64)
        # a subset without a member, whose weight is 0
        chosen[:, ~member.any(axis=1)] = 1.0
        count, positives = self.sums @ chosen, self.events @ chosen
        # subsets of clusters or sampling weights differ in size, and the kernel is bound to one
        factor = self.size / count.sum(axis=0)
        return self.evaluate(count * factor, positives * factor), share

    def _one(self, rows: NDArray[np.intp]) -> float:
        if not rows.size:
            return 0.0
        weight = None if self.weight is None else self.weight[rows]
        return _evaluate(self.metric, self.y[rows], self.p[rows], subset=True, weight=weight)


@dataclass(frozen=True, eq=False)
class Contrast:
    """A metric, or a difference of metrics, by its values on the parts of the sample.

    ``draws`` are its simulated values if it were 0 in the population, two for each split (the second ones in
    the second half), and ``ends`` the values of the population at which these draws just reach the estimate;
    both in units of the metric.
    """

    estimate: float
    draws: Array
    ends: Array
    tolerance: float

    @property
    def pvalue(self) -> float:
        """Return the two-sided p-value of the value 0."""
        below, above = (np.count_nonzero(sign * self.ends <= self.tolerance) for sign in (1.0, -1.0))
        return min(1.0, (1.0 + min(below, above)) / (1.0 + self.ends.shape[0] // 2))

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the values that are not rejected."""
        rank = tail_rank(self.ends.shape[0] // 2, 1.0 - confidence)
        ordered = np.sort(self.ends)
        return float(ordered[rank - 1]), float(ordered[-rank])


@dataclass(frozen=True, eq=False)
class Splits:
    """A metric of several models on the same random parts of the samples, and on the rest of the samples.

    ``fraction``, (splits, 1), is the size of the part, and ``parts``, (2, splits, models), has the metric of
    both, or its square if the metric is a calibration error (``squared``), as has ``whole``, (models,), of
    the sample. Units, samples or clusters, are in the part with probability 1/2. Splits in which one part is
    empty, or has no metric (NaN), are only counted: ``n_empty``.
    """

    whole: Array
    parts: Array
    fraction: Array
    squared: bool
    n_empty: int
    accuracy: float

    @classmethod
    def draw(
        cls, metric: Metric, rows: PairedSamples, n_resamples: int, generator: np.random.Generator
    ) -> Splits:
        """Split the samples ``n_resamples`` times."""
        n, models = rows.n_samples, range(len(rows.samples))
        # as the parts are evaluated
        subsets = [_Subsets(metric, rows, model, n) for model in models]
        whole = np.array([evaluate(np.ones((1, n), dtype=bool))[0] for evaluate in subsets])
        subsets = [_Subsets(metric, rows, model, max(n // 2, 1)) for model in models]
        fraction, parts = [np.empty(0)], [np.empty((2, 0, len(models)))]
        units = rows.units
        for some in blocks(n_resamples, _MAX_ELEMENTS, n):
            member = (generator.random((some.stop - some.start, int(units.max()) + 1)) < 0.5)[:, units]
            size = member.sum(axis=1)
            member = member[(size > 0) & (size < n)]
            if not member.size:
                continue
            fraction.append(member.mean(axis=1) if rows.weight is None else member @ rows.weight / n)
            parts.append(np.stack([np.stack([e(m) for e in subsets], axis=1) for m in (member, ~member)]))
        sizes, values = np.concatenate(fraction)[:, np.newaxis], np.concatenate(parts, axis=1)
        # such as the AUC of a part without events
        known = ~np.isnan(values).any(axis=(0, 2))
        sizes, values = sizes[known], values[:, known]
        if not known.any():
            raise ValueError(
                "metric is NaN in a part of the samples for every random split. Pass more samples of the "
                "rarer class (or more clusters that contain it), or a metric that is defined without it."
            )
        squared = declaration(metric).calibration_error
        if squared:
            whole, values = whole**2, values**2
        return cls(whole, values, sizes, squared, n_resamples - sizes.shape[0], subsets[0].accuracy)

    @cached_property
    def curved(self) -> Array:
        """C, the mean of the squares of both parts, weighted by their sizes, less that of the sample."""
        if not self.squared:
            return np.zeros_like(self.parts[0])
        f = self.fraction
        return f * self.parts[0] + (1.0 - f) * self.parts[1] - self.whole

    @property
    def corrected(self) -> Array:
        """The corrected metrics, or their squares."""
        return self.whole - self.curved.mean(axis=0)

    def root(self, values: Any) -> Any:
        """Return (squared) metrics as metrics; negative estimates of squares become zero."""
        return np.sqrt(np.maximum(values, 0.0)) if self.squared else values

    def of_one(self, model: int) -> Contrast:
        """Return the metric of one model, or its square."""
        return self._contrast(np.eye(self.whole.shape[0])[model], 1.0)

    def of_pair(self, a: int, b: int) -> Contrast:
        """Return the metric of model a minus that of model b."""
        one, scale = np.eye(self.whole.shape[0]), 1.0
        if self.squared:
            # a difference of squares is divided by the sum of the metrics, or by their noise
            sizes = self.root(self.corrected[[a, b]]).sum(), self.root(self.curved.mean(axis=0))[[a, b]].max()
            scale = max(*sizes) or 1.0
        return self._contrast(one[a] - one[b], scale)

    def _contrast(self, weight: Array, scale: float) -> Contrast:
        f = self.fraction[:, 0]
        curved, slope = self.curved @ weight, (self.parts[0] - self.parts[1]) @ weight
        # of squares, the difference of both parts without the part that is due to their sizes
        slope = slope - (1.0 - 2.0 * f) / (f * (1.0 - f)) * curved
        linear = np.sqrt(f * (1.0 - f)) * slope
        variance = float(linear.var())
        kept = max(variance - float(curved.var()), 0.0) / variance if variance > 0.0 else 0.0
        estimate = float(self.corrected @ weight)
        # the metric after swaps of the predictions in one part
        swapped = (2.0 * f - 1.0) * estimate + 2.0 * f * (1.0 - f) * np.sqrt(kept) * slope
        curved = curved - curved.mean()
        ends = (estimate - curved - swapped) / (2.0 * (1.0 - f)), (estimate - curved + swapped) / (2.0 * f)
        # if one part is empty nothing is swapped, whatever the value in the population
        empty = np.ones(self.n_empty)
        draws = np.concatenate((curved + swapped, estimate * empty, curved - swapped, -estimate * empty))
        tolerance = TIE * np.abs(self.whole[weight != 0.0]).max() + 4.0 * self.accuracy
        return Contrast(
            estimate / scale,
            draws / scale,
            np.concatenate((ends[0], -np.inf * empty, ends[1], np.inf * empty)) / scale,
            tolerance / scale,
        )


def adjusted_pvalues(contrasts: list[Contrast]) -> list[float]:
    """Return step-down max-|t| p-values: each is also the largest of those of greater statistics.

    The null distribution is that of the largest of its own statistic and all smaller ones.
    """
    estimate, slack = np.array([(c.estimate, c.tolerance) for c in contrasts]).T
    draws = np.where(estimate < 0.0, -1.0, 1.0)[:, np.newaxis] * [c.draws for c in contrasts]
    deviation = np.sqrt(np.mean(draws**2, axis=1))
    # models that are equal up to rounding
    deviation[deviation <= slack] = np.inf
    found, slack = np.abs(estimate) / deviation, slack / deviation
    # a split and its mirror image are both in the null distribution: the larger of their values counts
    draws = np.maximum(*np.split(draws / deviation[:, np.newaxis], 2, axis=1))
    order = np.argsort(-found, kind="stable")
    largest = np.maximum.accumulate(draws[order[::-1]], axis=0)[::-1]
    least, out = 0.0, np.empty(len(contrasts))
    for k, reached in zip(order, largest, strict=True):
        count = np.count_nonzero(reached >= found[k] - slack[k])
        least = max(least, (1.0 + count) / (1.0 + draws.shape[1]), contrasts[k].pvalue)
        out[k] = min(1.0, least)
    return [float(value) for value in out]
