"""Checked multiclass and multilabel samples, and the simulation of others like them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from sklearn_calib import _validation
from sklearn_calib._core._clusters import Clusters, clusters_of_classes
from sklearn_calib._core._grouping import sampled_probability, sampling_rate
from sklearn_calib._core._links import logit
from sklearn_calib._core._null import MAX_ELEMENTS, sample_labels, spawn
from sklearn_calib._core._weights import within_classes, written_out
from sklearn_calib._typing import Array
from sklearn_calib.inference._sample_metric import Metric, reduced_once
from sklearn_calib.metrics._reductions import (
    REDUCTIONS,
    check_problem,
    class_samples,
    multilabel_words,
    split_classes,
    two_columns,
)

# Numbers of samples of each row, (n, r) or (n, 1), and a function that returns those of class or label k.
Draws = Iterator[tuple[Array, Callable[[int], Array]]]


@dataclass(frozen=True, eq=False)
class SampleTable:
    """Checked samples of K classes, ``y`` of shape (n,), or of L labels, 0 or 1 in ``y`` of shape (n, L).

    ``members`` has the rows of each binary problem if the problems divide the rows of a single column, and is
    empty otherwise. Sampling weights ``w`` may depend on the class alone: ``class_weights``. Frequencies have
    been written out.
    """

    y: NDArray[np.int64]
    prob: Array
    clusters: Clusters | None = None
    members: tuple[NDArray[np.intp], ...] = ()
    w: Array | None = None
    sampling: bool = False
    class_weights: Array | None = None

    @property
    def sampled_probability(self) -> Array:
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
    def rarest(self) -> float:
        """Number of samples with the rarest class or label, or without the most frequent one."""
        events = [self.occurred(k).sum() for k in range(self.prob.shape[1])]
        return float(min(min(events), self.total - max(events)))

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

    def probabilities(self, q: Array) -> Array:
        """Return ``q``, (n, columns), clipped to probabilities, of classes divided by their sum."""
        q = np.clip(q, 0.0, 1.0)
        return q / q.sum(axis=1, keepdims=True) if self.exclusive else q

    def tangent(self, direction: Array) -> Array:
        """Return changes of the probabilities, (n, columns), of classes with the sum 0."""
        if not self.exclusive:
            return direction
        return direction - self.prob * direction.sum(axis=1, keepdims=True)

    def simulated(
        self, truth: Array, n_draws: int, generator: np.random.Generator, estimated: Array | None = None
    ) -> Draws:
        """Yield samples with the same predictions and outcomes simulated from ``truth``.

        If weights depend on the class, the predictions of the population are kept, which are those of the
        sample if its probabilities are ``estimated``.
        """
        by_class, factor = self.class_weights, np.ones((1, 1))
        if by_class is not None:
            factor = within_classes(self)[:, np.newaxis]
            if estimated is not None:
                factor *= (sampling_rate(truth, by_class) / sampling_rate(estimated, by_class))[:, np.newaxis]
            truth = sampled_probability(truth, by_class)
        for drawn in self._outcomes(truth, n_draws, generator):
            count = self.weights[:, np.newaxis] if by_class is None else by_class[drawn].T * factor
            yield count, partial(self._positives, drawn, None if self.w is None else count)

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
            yield count, partial(self._positives, self.y[np.newaxis], count)

    def _positives(self, drawn: NDArray[Any], count: Array | None, k: int) -> Array:
        """Return the numbers of samples of class or label k, (n, r), from the outcome of each row."""
        occurred = (drawn == k if self.exclusive else drawn[..., k]).T.astype(np.float64)
        return occurred if count is None else occurred * count

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

        Errors that labels have in common are no dependence: p is recalibrated first by v x' beta, a step of
        the logistic recalibration, with v = p (1 - p) and x = (1, logit p).
        """
        v, x = self.prob * (1.0 - self.prob), np.stack((np.ones_like(self.prob), logit(self.prob)))
        information = np.einsum("jnk,lnk->kjl", v * x, x)
        score = np.einsum("jnk,nk->kj", x, self.y - self.prob)[..., np.newaxis]
        beta = (np.linalg.pinv(information, hermitian=True) @ score)[..., 0]
        p = np.clip(self.prob + v * np.einsum("jnk,kj->nk", x, beta), 1e-9, 1.0 - 1e-9)
        residual = self.y - p
        density = np.exp(-0.5 * ndtri(p) ** 2) / np.sqrt(2.0 * np.pi)
        ratio = (residual.T @ residual) / np.maximum(density.T @ density, 1e-300)
        correlation = np.sin(np.clip(ratio, -0.5 * np.pi, 0.5 * np.pi))
        np.fill_diagonal(correlation, 1.0)
        values, vectors = np.linalg.eigh(correlation)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        scaled: Array = root / np.sqrt((root**2).sum(axis=1, keepdims=True))
        return scaled


def resolve_reduction(metric: Metric, reduction: str | None) -> tuple[Metric, str | None]:
    """Return a metric of binary problems and the reduction to them; None if the metric is not reduced.

    Without ``reduction`` it is that of the metric.
    """
    if reduction is not None:
        _validation.check_option(reduction, "reduction", REDUCTIONS, "None")
    parameter = signature(metric).parameters.get("reduction")
    default = None if parameter is None else parameter.default
    if isinstance(metric, partial) and "reduction" in metric.keywords and reduction is not None:
        raise ValueError(
            f"reduction={reduction!r} is passed, but metric has reduction={default!r}. Pass only one."
        )
    reduction = reduction or default
    if isinstance(metric, partial) and reduction not in (None, "canonical"):
        # a binary problem has neither
        kept = {k: value for k, value in metric.keywords.items() if k not in ("reduction", "labels")}
        metric = partial(metric.func, *metric.args, **kept)
    return reduced_once(metric), None if reduction == "canonical" else reduction


def check_table(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None,
    weights: str,
    clusters: ArrayLike | None,
    pos_label: Any,
    reduction: str | None,
    labels: ArrayLike | None,
) -> _validation.BinarySample | SampleTable:
    """Check samples, and return those of the binary problem if it is one."""
    problem = check_problem(y_true, y_proba, sample_weight, pos_label, labels, clusters, weights=weights)
    of_predicted = reduction in ("confidence", "top-label")
    members: tuple[NDArray[np.intp], ...] = ()
    if isinstance(problem, list):
        if of_predicted:
            raise ValueError(multilabel_words(reduction))
        if clusters is not None:
            raise ValueError("clusters are not supported for multilabel targets. Pass one label at a time.")
        first: _validation.BinarySample | _validation.ClassSample = problem[0]
        y, p = (np.stack(columns, axis=1) for columns in zip(*((s.y, s.p) for s in problem), strict=True))
    elif isinstance(problem, _validation.BinarySample) and not of_predicted:
        return problem
    else:
        first, y = problem, problem.y
        p = two_columns(problem.p) if isinstance(problem, _validation.BinarySample) else problem.p
    w, codes, by_class = first.w, first.clusters, first.class_weights if y.ndim == 1 else None
    if by_class is not None and of_predicted:
        if (within_classes(first) == 1.0).all():
            raise ValueError(
                f"weights that depend on the class alone are not supported by reduction={reduction!r}. Use "
                "reduction='classwise'."
            )
        by_class = None
    if reduction == "confidence":
        return class_samples(first, "confidence")[0]
    if w is not None and not first.sampling:
        rows = written_out(_validation.check_frequency_weights(w))
        y, p, w = y[rows], p[rows], np.ones(rows.shape[0])
        codes = None if codes is None else codes[rows]
    if reduction == "top-label":
        members = tuple(part.members for part in split_classes(y, p, reduction) if part.members is not None)
        ((_, y, p, _),) = split_classes(y, p, "confidence")
    dependent = None if codes is None else clusters_of_classes(y, sampled_probability(p, by_class), codes)
    if reduction == "top-label":
        y, p = y[:, np.newaxis], p[:, np.newaxis]
    return SampleTable(y, p, dependent, members, w, first.sampling, by_class)
