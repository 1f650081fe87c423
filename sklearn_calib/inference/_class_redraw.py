"""Any metric on simulated multiclass and multilabel samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import ndtri

from sklearn_calib._core._clusters import Clusters, clusters_of_classes
from sklearn_calib._core._grouping import group_outcomes, group_sample, sampled_probability, sampling_rate
from sklearn_calib._core._null import MAX_ELEMENTS, sample_labels, spawn
from sklearn_calib._typing import Array
from sklearn_calib._validation import BinarySample, ClassSample, check_frequency_weights, check_option
from sklearn_calib.inference._redraw import Metric, Redrawn, reduced_once
from sklearn_calib.metrics._metric_kernel import check_estimable, declaration
from sklearn_calib.metrics._reductions import (
    REDUCTIONS,
    check_problem,
    class_samples,
    multilabel_words,
    split_classes,
    two_columns,
)

# Numbers of samples of each row, (n, r) or (n, 1), and a function that returns those of class or label k.
Draws = Iterator[tuple[Array, Callable[[int], Any]]]


@dataclass(frozen=True, eq=False)
class Table:
    """Checked samples of K classes, ``y`` of shape (n,), or of L labels, 0 or 1 in ``y`` of shape (n, L).

    ``members`` are the rows of each binary problem in a single column, if there are several. Sampling weights
    ``w`` may depend on the class alone: ``class_weights``. Frequencies have been written out.
    """

    y: NDArray[np.int64]
    prob: Array
    clusters: Clusters | None = None
    members: tuple[NDArray[np.intp], ...] = ()
    w: Array | None = None
    sampling: bool = False
    class_weights: Array | None = None

    @property
    def chance(self) -> Array:
        """Probabilities among the samples, where they differ from those in the population."""
        return sampled_probability(self.prob, self.class_weights)

    @property
    def exclusive(self) -> bool:
        """Whether exactly one of the columns occurs in each row."""
        return self.y.ndim == 1

    @property
    def total(self) -> float:
        """Number of samples."""
        return float(self.y.shape[0])

    @property
    def weights(self) -> Array:
        """The weights as an array, ones if there are none."""
        return np.ones(self.y.shape[0]) if self.w is None else self.w

    def occurred(self, k: int) -> NDArray[np.int64]:
        """Return whether class or label k occurred, shape (n,)."""
        return (self.y == k).astype(np.int64) if self.exclusive else self.y[:, k]

    def problems(self) -> Iterator[tuple[int, NDArray[np.intp]]]:
        """Yield the column and the rows of each binary problem."""
        if self.members:
            return ((0, rows) for rows in self.members)
        return ((k, np.arange(self.y.shape[0])) for k in range(self.prob.shape[1]))

    def simulated(
        self, truth: Array, n_draws: int, generator: np.random.Generator, estimated: Array | None = None
    ) -> Draws:
        """Yield samples with the same predictions and outcomes simulated from ``truth``.

        If weights depend on the class, the predictions of the population are kept, which are those of the
        sample if its probabilities are ``estimated``.
        """
        each, factor = self.class_weights, np.ones((self.y.shape[0], 1))
        if each is not None:
            if estimated is not None:
                factor = (sampling_rate(truth, each) / sampling_rate(estimated, each))[:, np.newaxis]
            truth = sampled_probability(truth, each)
        for drawn in self._outcomes(truth, n_draws, generator):
            if each is not None:
                yield each[drawn].T * factor, partial(self._of_column, drawn, np.multiply.outer(each, factor))
            else:
                count = self.w[:, np.newaxis] if self.w is not None else factor
                yield count, partial(self._of_column, drawn, None if self.w is None else count)

    def bootstrapped(self, n_draws: int, generator: np.random.Generator) -> Draws:
        """Yield bootstrap samples of rows, or of clusters."""
        code = np.arange(self.y.shape[0]) if self.clusters is None else self.clusters.code
        n_units = int(code.max()) + 1
        step = max(1, MAX_ELEMENTS // self.y.shape[0])
        for first in range(0, n_draws, step):
            r = min(step, n_draws - first)
            chosen = generator.integers(n_units, size=(r, n_units)) + n_units * np.arange(r)[:, np.newaxis]
            times = np.bincount(chosen.ravel(), minlength=r * n_units).reshape(r, n_units)
            count = times.T[code] * self.weights[:, np.newaxis]
            yield count, partial(self._repeated, count)

    def _repeated(self, count: Array, k: int) -> Array:
        return np.asarray(count * self.occurred(k)[:, np.newaxis])

    def _of_column(self, drawn: NDArray[Any], weight: Array | None, k: int) -> Any:
        happened = (drawn == k if self.exclusive else drawn[..., k]).T.astype(np.float64)
        if weight is None:
            return happened
        return happened * (weight if self.class_weights is None else weight[k])

    def _outcomes(self, truth: Array, n_draws: int, generator: np.random.Generator) -> Iterator[NDArray[Any]]:
        """Yield codes of classes, (r, n), or whether labels occur, (r, n, L), ``n_draws`` in all."""
        if self.exclusive:
            yield from sample_labels(truth, n_draws, generator, self.clusters)
            return
        if self.clusters is not None:
            at_once = max(1, MAX_ELEMENTS // truth.size)
            for drawn in self.clusters.draw(truth[:, 0], n_draws, spawn(generator, 3), at_once):
                yield drawn.T[..., np.newaxis]
            return
        threshold, step = ndtri(truth), max(1, MAX_ELEMENTS // truth.size)
        for first in range(0, n_draws, step):
            shape = min(step, n_draws - first), *truth.shape
            yield generator.standard_normal(shape) @ self._root.T < threshold

    @cached_property
    def _root(self) -> Array:
        """The root of the correlations of the normal variables from which the labels are simulated.

        With quantiles q = Phi^-1(p) and residuals e, E[e_a e_b] = rho phi(q_a) phi(q_b) for small rho, and
        asin(rho) phi(0)^2 for any rho if p = 1/2; so rho = sin(sum e_a e_b / sum phi(q_a) phi(q_b)).
        """
        residual = self.y - self.prob
        density = np.exp(-0.5 * ndtri(np.clip(self.prob, 1e-9, 1.0 - 1e-9)) ** 2) / np.sqrt(2.0 * np.pi)
        ratio = (residual.T @ residual) / np.maximum(density.T @ density, 1e-300)
        correlation = np.sin(np.clip(ratio, -0.5 * np.pi, 0.5 * np.pi))
        np.fill_diagonal(correlation, 1.0)
        values, vectors = np.linalg.eigh(correlation)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        scaled: Array = root / np.sqrt((root**2).sum(axis=1, keepdims=True))
        return scaled


def own_reduction(metric: Metric, reduction: str | None) -> tuple[Metric, str | None]:
    """Return a metric of binary problems and the reduction to them; None if the metric is not reduced.

    Without ``reduction`` it is that of the metric.
    """
    if reduction is not None:
        check_option(reduction, "reduction", REDUCTIONS, "None")
    known = signature(metric).parameters.get("reduction")
    own = None if known is None else known.default
    if isinstance(metric, partial) and "reduction" in metric.keywords and reduction is not None:
        raise ValueError(
            f"reduction={reduction!r} is passed, but metric has reduction={own!r}. Pass only one."
        )
    found = reduction or own
    if isinstance(metric, partial) and found not in (None, "canonical"):
        # a binary problem has neither
        kept = {k: value for k, value in metric.keywords.items() if k not in ("reduction", "labels")}
        metric = partial(metric.func, *metric.args, **kept)
    return reduced_once(metric), None if found == "canonical" else found


def check_table(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None,
    weights: str,
    clusters: ArrayLike | None,
    pos_label: Any,
    reduction: str | None,
    labels: ArrayLike | None,
) -> BinarySample | Table:
    """Check samples, and return those of the binary problem if it is one."""
    problem = check_problem(y_true, y_proba, sample_weight, pos_label, labels, clusters, weights=weights)
    of_predicted = reduction in ("confidence", "top-label")
    members: tuple[NDArray[np.intp], ...] = ()
    if isinstance(problem, list):
        if of_predicted:
            raise ValueError(multilabel_words(reduction))
        if clusters is not None:
            raise ValueError("clusters are not supported for multilabel targets. Pass one label at a time.")
        first: BinarySample | ClassSample = problem[0]
        y, p = (np.stack(columns, axis=1) for columns in zip(*((s.y, s.p) for s in problem), strict=True))
    elif isinstance(problem, BinarySample) and not of_predicted:
        return problem
    else:
        first, y = problem, problem.y
        p = two_columns(problem.p) if isinstance(problem, BinarySample) else problem.p
    w, codes, by_class = first.w, first.clusters, first.class_weights if y.ndim == 1 else None
    if by_class is not None and of_predicted:
        raise ValueError(
            f"weights that depend on the class alone are not supported by reduction={reduction!r}. Use "
            "reduction='classwise'."
        )
    if reduction == "confidence":
        return class_samples(first, "confidence")[0]
    if w is not None and not first.sampling:
        times = check_frequency_weights(w)
        y, p, w = np.repeat(y, times, axis=0), np.repeat(p, times, axis=0), np.ones(times.sum())
        codes = None if codes is None else np.repeat(codes, times)
    if reduction == "top-label":
        members = tuple(part.members for part in split_classes(y, p, reduction) if part.members is not None)
        ((_, y, p, _),) = split_classes(y, p, "confidence")
    found = None if codes is None else clusters_of_classes(y, sampled_probability(p, by_class), codes)
    if reduction == "top-label":
        y, p = y[:, np.newaxis], p[:, np.newaxis]
    return Table(y, p, found, members, w, first.sampling, by_class)


class _Part:
    """A metric on one binary problem of a table."""

    def __init__(self, metric: Metric, table: Table, column: int, rows: NDArray[np.intp], pool: bool) -> None:
        self.column, self.rows = column, rows
        y, p = table.occurred(column)[rows], table.prob[rows, column]
        w = table.weights[rows]
        grouped = group_outcomes(y, p, w if table.sampling else None)
        self.redrawn = Redrawn(
            metric, grouped, weighted=table.sampling, pool=pool, w=w if table.sampling else None
        )
        self.grouped = self.redrawn.grouped
        # runs of distinct predictions that were pooled
        run = np.searchsorted(
            np.cumsum(self.grouped.weight), np.cumsum(grouped.weight) - 0.5 * grouped.weight
        )
        self.group = run[np.searchsorted(grouped.prob, p)]
        one, self._weights = np.ones(rows.shape[0]), table.weights
        self._sums = csr_array((one, (self.group, rows)), (self.grouped.prob.shape[0], table.y.shape[0]))
        if table.clusters is not None:
            order = np.argsort(self.group, kind="stable")
            code = table.clusters.code[rows][order]
            clusters = replace(
                table.clusters,
                group=self.group[order],
                code=code,
                count=one,
                positives=y[order].astype(np.float64),
            )
            self.grouped = replace(self.grouped, clusters=clusters)

    def counts(self, count: Array, positives: Any) -> tuple[Array, Array, Array]:
        """Return samples and positives of each distinct prediction, and the numbers of samples."""
        count, positives = self._sums @ count, self._sums @ positives
        total = count.sum(axis=0)
        if np.allclose(total, self.grouped.total, rtol=1e-12, atol=0.0):
            return count, positives, total
        # a sample without a member of the problem, where its metric does not count
        count[:, total == 0.0] = self.grouped.weight[:, np.newaxis]
        if self.redrawn.batched:
            # the kernel is bound to a number of samples
            factor = self.grouped.total / count.sum(axis=0)
            count, positives = count * factor, positives * factor
        return count, positives, total

    def truth(self, truth: Array) -> Array:
        """Return the event probabilities of the distinct predictions."""
        return np.asarray(self._sums @ (self._weights * truth[:, self.column]) / self.grouped.weight)


class Reduced(Redrawn):
    """A metric on the binary problems of a multiclass or multilabel sample, and its weighted mean.

    As :class:`Redrawn`, for counts of the rows of a table.
    """

    def __init__(self, metric: Metric, table: Table, *, pool: bool = True) -> None:
        self.grouped: Any = table
        self.parts = [_Part(metric, table, column, rows, pool) for column, rows in table.problems()]
        self.estimate = self._mean([part.redrawn.estimate for part in self.parts])
        self.accuracy = max(part.redrawn.accuracy for part in self.parts)

    def _mean(self, values: Any, totals: Any = None) -> Any:
        """Return the mean over problems, weighted by their numbers of samples in a single column."""
        if totals is None or not self.grouped.members:
            totals = [part.grouped.total for part in self.parts]
        return sum(v * t for v, t in zip(values, totals, strict=True)) / sum(totals)

    def values(self, count: Array, positives: Any) -> Array:
        """Return the metric of r samples."""
        values, totals = [], []
        for part in self.parts:
            *counts, total = part.counts(count, positives(part.column))
            values.append(part.redrawn.values(*counts))
            totals.append(total)
        return np.asarray(self._mean(values, totals))

    def population(self, truth: Array) -> float:
        """Return the metric of a population with probabilities ``truth``, shape (n, columns)."""
        return float(self._mean([part.redrawn.population(part.truth(truth)) for part in self.parts]))

    def resampled_populations(self, truth: Array, count: Array) -> Array:
        """Return the metric of populations in which the rows have the counts (n, r)."""
        values, totals = [], []
        for part in self.parts:
            weight, _, total = part.counts(count, count)
            values.append(part.redrawn.resampled_populations(part.truth(truth), weight))
            totals.append(total)
        return np.asarray(self._mean(values, totals))

    @property
    def other_direction(self) -> Callable[[Array, Array], Array] | None:
        """Return what a metric with a kernel declares on the lower end of its intervals."""
        of_one = self.parts[0].redrawn.other_direction
        if of_one is None:
            return None
        return lambda prob, direction: np.column_stack(
            [of_one(p, d) for p, d in zip(prob.T, direction.T, strict=True)]
        )

    @property
    def rarer(self) -> float:
        """Number of samples with the rarest class or label, or without the most frequent one."""
        events = [self.grouped.occurred(k).sum() for k in range(self.grouped.prob.shape[1])]
        return float(min(min(events), self.grouped.total - max(events)))

    def null_samples(self, n_draws: int, generator: np.random.Generator) -> Draws:
        """Yield samples under perfect calibration."""
        return self.grouped.simulated(self.grouped.prob, n_draws, generator)

    def bootstrap_samples(self, n_draws: int, generator: np.random.Generator) -> Draws:
        """Yield bootstrap samples."""
        return self.grouped.bootstrapped(n_draws, generator)


class Whole(Reduced):
    """A metric of the probabilities of all classes, such as the log loss."""

    def __init__(self, metric: Metric, table: Table) -> None:
        self.grouped, self.metric, self.accuracy = table, metric, 0.0
        self.estimate = self._value(table.y, np.arange(table.y.shape[0]))
        if not np.isfinite(self.estimate) and not (declaration(metric).make and self.estimate == np.inf):
            raise ValueError(
                f"metric returned {self.estimate}. Pass a metric that is finite for every sample."
            )

    def values(self, count: Array, positives: Any) -> Array:
        """Return the metric of r samples."""
        occurred = np.stack([positives(k) > 0.0 for k in range(self.grouped.prob.shape[1])], axis=2)
        y = occurred.argmax(axis=2) if self.grouped.exclusive else occurred.astype(np.int64)
        if not self.grouped.sampling:
            times, rows = count.astype(np.int64), np.arange(count.shape[0])
            drawn = (np.repeat(rows, times[:, j % times.shape[1]]) for j in range(y.shape[1]))
            return np.array([self._value(y[some, j], some) for j, some in enumerate(drawn)])
        return np.array(
            [self._value(y[:, j], slice(None), count[:, j % count.shape[1]]) for j in range(y.shape[1])]
        )

    def _value(self, y: NDArray[Any], rows: Any, weight: Array | None = None) -> float:
        if self.grouped.sampling:
            weight = self.grouped.w if weight is None else weight
            return float(self.metric(y, self.grouped.prob, sample_weight=weight))
        return float(self.metric(y, self.grouped.prob[rows]))


def redrawn_of(
    metric: Metric,
    sample: BinarySample | Table,
    reduction: str | None,
    *,
    pool: bool = True,
    population: bool = False,
) -> Redrawn:
    """Return the metric of checked samples, which must determine that of their ``population``."""
    if isinstance(sample, BinarySample):
        grouped = group_sample(sample)
        if population:
            check_estimable(metric, grouped.total, grouped.prob)
        return Redrawn(metric, grouped, weighted=sample.w is not None, pool=pool, w=sample.sampling_weights)
    if reduction is None:
        return Whole(metric, sample)
    if population:
        for column, rows in sample.problems():
            check_estimable(metric, rows.shape[0], sample.prob[rows, column])
    return Reduced(metric, sample, pool=pool)
