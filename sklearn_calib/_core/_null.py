"""Simulation of outcomes under perfect calibration, bootstrap samples, and the Monte Carlo p-value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._clusters import Clusters
from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._weights import written_out
from sklearn_calib._typing import Array

#: Values that differ by less, relative to their size, are equal up to rounding: equal sums of 10^7 terms in
#: different orders may differ by 10^7 times the precision of floats, 2e-9.
TIE = 1e-8
#: Random numbers generated at a time (at least one sample): bounds the memory without changing the samples.
MAX_ELEMENTS = 1 << 18

#: Bytes of simulated labels or counts that are kept.
MAX_KEPT = 1 << 27

# With at most so many classes, comparing with all of them is faster than a binary search.
_FEW_CLASSES = 128

# Groups of at most this size are simulated sample by sample, which is faster than a binomial variate.
_LIGHT = 8


def draw_positives(
    grouped: GroupedOutcomes, n_draws: int, generator: np.random.Generator, max_elements: int = MAX_ELEMENTS
) -> Iterator[NDArray[Any]]:
    """Yield the weight of positives of each group, (groups, r), in simulations Y* ~ Bernoulli(p).

    Weights are numbers of samples, or those of a design, but not by class: see :func:`draw_null`. Outcomes
    are independent, or depend on each other within ``grouped.clusters`` as those of the sample do. At most
    ``max_elements`` random numbers are generated at a time; the advance of the generator does not depend on
    the sample. The counts are bool if every group is a single sample.
    """
    if grouped.design is not None:
        for drawn in draw_positives(grouped.samples, n_draws, generator, max_elements):
            yield grouped.design.sums(drawn)
        return
    prob, weight = grouped.prob, grouped.weight
    n_groups = prob.shape[0]
    if grouped.events is not None:
        yield from map(grouped.events.positives, grouped.events.labels.draw(n_draws, generator))
        return
    if grouped.clusters is not None:
        at_once = max(1, max_elements // n_groups)
        yield from grouped.clusters.draw(prob, n_draws, spawn(generator, 3), at_once)
        return
    light = min(int(weight.max()), _LIGHT)
    # every layer has its own stream, read simulation by simulation: results do not depend on the chunk size
    *layers, binomial = spawn(generator, light + 1)
    single = light == 1
    heavy = np.flatnonzero(weight > _LIGHT)
    members = [np.flatnonzero((weight >= layer) & (weight <= _LIGHT)) for layer in range(1, light + 1)]
    at_once = max(1, min(max_elements, MAX_ELEMENTS) // n_groups)
    uniform = np.empty((at_once, n_groups)) if single else np.empty((0, 0))
    for some in blocks(n_draws, max_elements, n_groups):
        r = some.stop - some.start
        if single:
            drawn = np.empty((r, n_groups), dtype=bool)
            for few in blocks(r, at_once):
                rows = drawn[few]
                part = uniform[: rows.shape[0]]
                layers[0].random(out=part)
                np.less(part, prob, out=rows)
            yield drawn.T
            continue
        # of a group in one row, which is faster to index
        small = np.zeros((n_groups, r), dtype=np.uint8)
        for stream, chosen in zip(layers, members, strict=True):
            small[chosen] += (stream.random((r, chosen.shape[0])) < prob[chosen]).T
        positives = small.astype(np.float64)
        if heavy.shape[0]:
            trials = weight[heavy].astype(np.int64)
            positives[heavy] = binomial.binomial(trials, prob[heavy], size=(r, heavy.shape[0])).T
        yield positives


def draw_null(
    grouped: GroupedOutcomes, n_draws: int, generator: np.random.Generator
) -> Iterator[tuple[Array, NDArray[Any]]]:
    """Yield weights, (groups, 1) or (groups, r), and weights of positives, (groups, r), of simulations.

    The outcomes have the predicted probabilities in the population; see :func:`draw_positives`. Weights
    differ between simulations only if they depend on the outcome.
    """
    design = grouped.design
    if design is None or design.class_weights is None:
        for positives in draw_positives(grouped, n_draws, generator):
            yield grouped.weight[:, np.newaxis], positives
        return
    samples = grouped.samples
    for positives in draw_positives(samples, n_draws, generator):
        yield design.weighted_sums(samples.weight[:, np.newaxis], positives)


def draw_outcomes(
    grouped: GroupedOutcomes,
    n_draws: int,
    generator: np.random.Generator,
    max_elements: int = MAX_ELEMENTS,
    truth: Array | None = None,
) -> Iterator[tuple[Array, Array]]:
    """Yield weights and weights of positives, (groups, r), of samples: p with replacement, and outcomes.

    Sampling weights are drawn with their predictions. The outcomes have the probabilities ``truth``, or the
    predictions. With clusters, predictions are not resampled: the dependence of outcomes accounts for
    nearly all of the variance. See :func:`draw_positives`.
    """
    prob, weight = grouped.prob if truth is None else truth, grouped.weight
    if grouped.design is not None:
        samples = grouped.design.samples(prob)
        for count, positives in draw_outcomes(samples, n_draws, generator, max_elements):
            yield grouped.design.weighted_sums(count, positives)
        return
    if grouped.clusters is not None:
        for positives in draw_positives(replace(grouped, prob=prob), n_draws, generator, max_elements):
            yield np.broadcast_to(weight[:, np.newaxis], positives.shape), positives.astype(np.float64)
        return
    if few_per_group(grouped):
        pairs = _light_samples(grouped, n_draws, generator)
        n_groups = prob.shape[0]
        for some in blocks(n_draws, max_elements, n_groups):
            # simulations lie one after the other in memory, as sums over many groups need them
            counts, events = np.empty((2, some.stop - some.start, n_groups))
            for row in range(counts.shape[0]):
                drawn, uniform = next(pairs)
                counts[row] = np.bincount(drawn, minlength=n_groups)
                events[row] = np.bincount(drawn[uniform < prob[drawn]], minlength=n_groups)
            yield counts.T, events.T
        return
    choice, outcome = spawn(generator, 2)
    fraction = weight / weight.sum()
    for some in blocks(n_draws, max_elements, prob.shape[0]):
        trials = choice.multinomial(round(grouped.total), fraction, size=some.stop - some.start)
        drawn_positives = outcome.binomial(trials, prob)
        yield (
            np.ascontiguousarray(trials.T, dtype=np.float64),
            np.ascontiguousarray(drawn_positives.T, dtype=np.float64),
        )


def few_per_group(grouped: GroupedOutcomes) -> bool:
    """Tell whether samples are simulated one by one, which is faster for few of each group."""
    single = grouped.design is None and grouped.clusters is None
    few = single and int(grouped.total) <= _LIGHT * grouped.prob.shape[0]
    return few and np.array_equal(grouped.weight, np.rint(grouped.weight))


class CoupledOutcomes:
    """The samples of :func:`draw_outcomes` for truths between ``low`` and ``high``, of few samples per group.

    They come from the same random numbers, so that only samples with uniform numbers between ``low`` and
    ``high`` have outcomes that depend on the truth. Everything else is kept.
    """

    def __init__(
        self, grouped: GroupedOutcomes, n_draws: int, generator: np.random.Generator, low: Array, high: Array
    ) -> None:
        self.n_groups = grouped.prob.shape[0]
        self.kept: list[tuple[NDArray[Any], NDArray[Any], NDArray[np.int32], Array]] = []
        for drawn, uniform in _light_samples(grouped, n_draws, generator):
            event = uniform < low[drawn]
            open_ = ~event & (uniform < high[drawn])
            count, sure = (np.bincount(group, minlength=self.n_groups) for group in (drawn, drawn[event]))
            small = np.min_scalar_type(int(count.max()))
            rest = drawn[open_].astype(np.int32), uniform[open_]
            self.kept.append((count.astype(small), sure.astype(small), *rest))

    def draw(self, truth: Array) -> Iterator[tuple[Array, Array]]:
        """Yield numbers of samples and of positive samples, (groups, r)."""
        for some in blocks(len(self.kept), MAX_ELEMENTS, self.n_groups):
            counts, events = np.empty((2, some.stop - some.start, self.n_groups))
            for row, (count, sure, drawn, uniform) in enumerate(self.kept[some]):
                counts[row] = count
                np.add(sure, np.bincount(drawn[uniform < truth[drawn]], minlength=self.n_groups), events[row])
            yield counts.T, events.T


def _light_samples(
    grouped: GroupedOutcomes, n_draws: int, generator: np.random.Generator
) -> Iterator[tuple[NDArray[np.int64], Array]]:
    """Yield the groups and the uniform numbers of samples drawn with replacement."""
    choice, outcome = spawn(generator, 2)
    group_of = written_out(grouped.weight)
    n: int = group_of.shape[0]
    for _ in range(n_draws):
        yield group_of[choice.integers(n, size=n)], outcome.random(n)


def bootstrap_counts(
    grouped: GroupedOutcomes, n_draws: int, generator: np.random.Generator, max_elements: int = MAX_ELEMENTS
) -> Iterator[tuple[Array, Array]]:
    """Yield weights and weights of positives, (groups, r), of bootstrap samples, of whole clusters if any."""
    if grouped.design is not None:
        for count, positives in bootstrap_counts(grouped.samples, n_draws, generator, max_elements):
            yield grouped.design.weighted_sums(count, positives)
        return
    if grouped.clusters is not None:
        at_once = max(1, max_elements // grouped.prob.shape[0])
        yield from grouped.clusters.resample(n_draws, generator, at_once)
        return
    n_groups, n = grouped.prob.shape[0], int(grouped.total)
    # each group has two categories, without and with event
    categories = np.concatenate((grouped.weight - grouped.positives, grouped.positives))
    (choice,) = spawn(generator, 1)
    # outcomes between 0 and 1 are drawn as events with this probability
    if n <= _LIGHT * n_groups and np.array_equal(categories, np.rint(categories)):
        category_of = written_out(categories)
        for some in blocks(n_draws, max_elements, n):
            r = some.stop - some.start
            place = category_of[choice.integers(n, size=(r, n))] * r + np.arange(r)[:, np.newaxis]
            drawn = np.bincount(place.ravel(), minlength=2 * n_groups * r).astype(np.float64)
            negatives, positives = drawn.reshape(2, n_groups, r)
            yield negatives + positives, positives
        return
    rates = categories / categories.sum()
    for some in blocks(n_draws, max_elements, n_groups):
        drawn = choice.multinomial(n, rates, size=some.stop - some.start).T.astype(np.float64)
        yield drawn[:n_groups] + drawn[n_groups:], np.ascontiguousarray(drawn[n_groups:])


def sample_labels(
    p: Array, n_draws: int, generator: np.random.Generator, clusters: Clusters | None = None
) -> Iterator[NDArray[np.int64]]:
    """Yield labels simulated from the rows of ``p``, shape (r, n), ``n_draws`` simulations in all.

    Random numbers are generated simulation by simulation: results do not depend on the chunk size.
    """
    if clusters is not None:
        yield from clusters.draw_labels(p, n_draws, spawn(generator, 3))
        return
    n, n_classes = p.shape
    below = np.cumsum(p, axis=1)
    below /= below[:, -1:]
    few = n_classes <= _FEW_CLASSES
    below = np.ascontiguousarray(below.T[:-1]) if few else below.ravel()
    for some in blocks(n_draws, MAX_ELEMENTS, n):
        r = some.stop - some.start
        uniform = generator.random((r, n))
        # the first class whose cumulative probability exceeds the uniform number; of many by binary search
        if few:
            passed_by = np.zeros((r, n), dtype=np.uint8)
            for limit in below:
                passed_by += limit <= uniform
            yield passed_by.astype(np.int64)
            continue
        found = np.zeros((r, n), dtype=np.int64)
        row = np.arange(n) * n_classes
        size = 1 << (n_classes - 1).bit_length()
        while size > 1:
            size //= 2
            probe = found + (size - 1)
            passed = probe < n_classes - 1
            passed &= below[row + np.minimum(probe, n_classes - 1)] <= uniform
            found += size * passed
        yield found


class SharedLabels:
    """Labels simulated from the rows of ``p``: the same for all generators in the same state."""

    def __init__(self, p: Array, clusters: Clusters | None = None) -> None:
        self.p, self.clusters = p, clusters
        self._kept: dict[tuple[int, ...], list[NDArray[Any]]] = {}

    def draw(self, n_draws: int, generator: np.random.Generator) -> Iterator[NDArray[Any]]:
        """Yield labels, shape (r, n), ``n_draws`` simulations in all; they are kept if memory permits."""
        seed = generator.integers(1 << 32, size=4).tolist()
        key = (n_draws, *seed)
        if key not in self._kept:
            code = np.min_scalar_type(self.p.shape[1])
            drawn = (
                labels.astype(code)
                for labels in sample_labels(self.p, n_draws, np.random.default_rng(seed), self.clusters)
            )
            if n_draws * self.p.shape[0] * code.itemsize > MAX_KEPT:
                yield from drawn
                return
            self._kept[key] = list(drawn)
        yield from self._kept[key]


def monte_carlo_pvalue(observed: float, draws: Array, atol: float = 0.0) -> float:
    """Return the Monte Carlo p-value (1 + #{draws >= observed}) / (1 + number of draws).

    It is valid for any number of draws, and never 0. Draws below ``observed`` by at most ``TIE`` of it, or by
    at most ``atol``, count as ties.
    """
    threshold = observed - max(atol, TIE * abs(observed))
    return float((1 + np.count_nonzero(draws >= threshold)) / (1 + draws.shape[0]))


def rejects(pvalue: float, level: float) -> bool:
    """Tell whether a p-value rejects at a level, up to the rounding of 1 - 0.9, which is less than 0.1."""
    return bool(pvalue <= level * (1.0 + TIE))


def tail_rank(n_draws: int, tail: float) -> int:
    """Return the largest k such that a value is below the k-th of N draws with probability <= ``tail``."""
    return int(np.floor((n_draws + 1) * tail + 1e-9))


def spawn(generator: np.random.Generator, n_streams: int) -> list[np.random.Generator]:
    """Return independent generators, seeded by the next numbers of ``generator``."""
    seed = np.random.SeedSequence(generator.integers(1 << 32, size=4).tolist())
    return [np.random.default_rng(child) for child in seed.spawn(n_streams)]
