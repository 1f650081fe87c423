"""Grouped outcomes: the representation on which every binary calibration quantity depends.

For each distinct prediction we keep its total weight and its weight of positives. Quantities computed from
these three arrays do not depend on the order of the samples or on ties, and weight 2 is equivalent to a
repeated sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._clusters import Clusters, dependence, dependence_of
from sklearn_calib._core._weights import kish_size, spread_within, within_classes
from sklearn_calib._typing import Array

#: More distinct predictions are pooled before a computation whose time grows with them, as of simulations.
DISTINCT = 4096
#: Samples processed at a time, so that the temporaries of a pass over the data stay in cache.
CHUNK = 1 << 14
_ONE = np.float64(1.0).tobytes()


@dataclass(frozen=True, eq=False)
class EventLabels:
    """Which labels of a multiclass sample are the events of a binary sample, or of grouped outcomes.

    The event of sample ``rows[i]``, of group ``group[i]``, is the label ``event[i]``; groups are sorted, and
    in a binary sample they are its samples. Simulated events are those of ``labels``, which others share.
    """

    labels: Any
    rows: NDArray[np.intp]
    event: NDArray[np.intp]
    group: NDArray[np.intp]

    def moved(self, place: NDArray[np.intp]) -> EventLabels:
        """Return the events with group ``place[g]`` in place of g."""
        return replace(self, group=place[self.group])

    def taken(self, groups: NDArray[np.bool_]) -> EventLabels:
        """Return the events of a subset of the groups."""
        kept = groups[self.group]
        group = (np.cumsum(groups) - 1)[self.group[kept]]
        return EventLabels(self.labels, self.rows[kept], self.event[kept], group)

    def positives(self, labels: NDArray[Any]) -> Array:
        """Return the number of events of each group, (groups, r), for labels (r, n)."""
        events = labels[:, self.rows] == self.event.astype(labels.dtype)
        starts = group_starts(self.group)
        if starts.shape[0] < self.group.shape[0]:
            events = np.add.reduceat(events, starts, axis=1, dtype=np.float64)
        # simulations lie one after the other in memory, as sums over many groups need them
        return events.astype(np.float64).T


@dataclass(frozen=True, eq=False)
class SamplingCells:
    """Samples with sampling weights: cells of samples of the same prediction and weight.

    ``group`` is the index of the prediction of each cell, non-decreasing, ``weight`` that of each of its
    ``count`` samples, of which ``positives`` are positive. If weights depend on the outcome, they are
    ``class_weights``, of negative and positive samples, times ``weight``. ``clusters`` and ``events`` refer
    to cells.
    """

    group: NDArray[np.intp]
    weight: Array
    count: Array
    positives: Array
    clusters: Clusters | None = None
    class_weights: Array | None = None
    events: EventLabels | None = None

    def samples(self, prob: Array) -> GroupedOutcomes:
        """Return the cells, whose predictions can be tied, from the event probability of each prediction."""
        prob = sampled_probability(prob, self.class_weights)
        return GroupedOutcomes(
            prob[self.group], self.count, self.positives, self.clusters, events=self.events
        )

    def weighted_sums(self, count: Array, positives: NDArray[Any]) -> tuple[Array, Array]:
        """Return weight and weight of positives of each prediction, from numbers in each cell, (cells, r)."""
        if self.class_weights is None:
            return self.sums(count), self.sums(positives)
        negative, positive = self.class_weights
        events = self.sums(positive * positives)
        return events + self.sums(negative * (count - positives)), events

    def sums(self, values: NDArray[Any]) -> Array:
        """Return the weighted sum of ``values``, (cells,) or (cells, r), for each prediction."""
        weighted = values * (self.weight if values.ndim == 1 else self.weight[:, np.newaxis])
        starts = group_starts(self.group)
        if starts.shape[0] == self.group.shape[0]:
            return weighted
        out: Array = np.add.reduceat(weighted, starts, axis=0)
        return out

    @property
    def squares(self) -> Array:
        """The sum of squared weights of the samples of each prediction."""
        return self.sums(self.weight * self.count)

    def taken(self, groups: NDArray[np.bool_]) -> SamplingCells:
        """Return the cells of a subset of the predictions."""
        cells = groups[self.group]
        return replace(
            self,
            group=(np.cumsum(groups) - 1)[self.group[cells]],
            weight=self.weight[cells],
            count=self.count[cells],
            positives=self.positives[cells],
            clusters=None if self.clusters is None else self.clusters.taken(cells),
            events=None if self.events is None else self.events.taken(cells),
        )


@dataclass(frozen=True, eq=False)
class GroupedOutcomes:
    """Distinct predictions in increasing order, with their weight and weight of positives.

    ``clusters`` says which samples are dependent; None means independent samples. ``design`` holds the
    samples if weights are sampling weights; None means that weights are numbers of samples. With ``events``,
    here or in the design, simulated outcomes are those of multiclass labels.
    """

    prob: Array
    weight: Array
    positives: Array
    clusters: Clusters | None = None
    design: SamplingCells | None = None
    events: EventLabels | None = None

    @property
    def total(self) -> float:
        """Total weight n."""
        return float(self.weight.sum())

    @property
    def sampled_probability(self) -> Array:
        """Event probabilities among the samples, where they differ from those in the population."""
        return sampled_probability(self.prob, None if self.design is None else self.design.class_weights)

    @property
    def rarest(self) -> float:
        """Number of samples of the rarer class."""
        samples = self.samples
        events = float(samples.positives.sum())
        return min(events, samples.total - events)

    @property
    def residual(self) -> Array:
        """Weighted residual sum of each group, positives - weight * prob."""
        expected = self.weight * self.prob
        return np.subtract(self.positives, expected, out=expected)

    @property
    def variance(self) -> Array:
        """Null variance of the residual sum of each group: the sum of w^2 p (1 - p) over its samples.

        With class weights the sum of w^2 (y - p)^2 has this expectation, where w depends on y.
        """
        p, design = self.prob, self.design
        if design is None:
            return self.weight * p * (1.0 - p)
        if design.class_weights is None:
            return design.squares * p * (1.0 - p)
        negative, positive = design.class_weights
        sampled = sampled_probability(p, design.class_weights)
        variance = sampled * (positive * (1.0 - p)) ** 2 + (1.0 - sampled) * (negative * p) ** 2
        return design.squares * variance

    @property
    def samples(self) -> GroupedOutcomes:
        """The groups themselves, or the cells of the design, with numbers of samples as weights."""
        return self if self.design is None else self.design.samples(self.prob)

    def weighted_sums(self, positives: NDArray[Any]) -> Array:
        """Return weights of positives of groups from numbers of positives of ``samples``."""
        return positives if self.design is None else self.design.sums(positives)

    def pooled(self, starts: NDArray[np.intp]) -> GroupedOutcomes:
        """Return one group for each run of groups, at the mean of its predictions."""
        weight, positives = (np.add.reduceat(part, starts) for part in (self.weight, self.positives))
        mean = np.add.reduceat(self.weight * self.prob, starts) / weight
        # rounding must not move a mean out of its run, which would break the order
        last = np.append(starts[1:], self.prob.shape[0]) - 1
        clusters = None if self.clusters is None else self.clusters.pooled(starts, self.prob.shape[0])
        design, events = self.design, self.events
        if design is not None or events is not None:
            run = np.repeat(np.arange(starts.shape[0]), np.diff(starts, append=self.prob.shape[0]))
            design = design and replace(design, group=run[design.group])
            events = events and events.moved(run)
        prob = np.clip(mean, self.prob[starts], self.prob[last])
        return GroupedOutcomes(prob, weight, positives, clusters, design, events)

    def as_sampled(self) -> GroupedOutcomes:
        """Return the predictions, if weights depend on the outcome, as probabilities among the samples."""
        design = self.design
        if design is None or design.class_weights is None:
            return self
        if (design.weight == 1.0).all():
            return self.samples
        weight, positives = design.sums(design.count), design.sums(design.positives)
        return replace(
            self,
            prob=self.sampled_probability,
            weight=weight,
            positives=positives,
            design=replace(design, class_weights=None),
        )

    def uncertain(self) -> GroupedOutcomes:
        """Return the groups with finite log-odds: without predictions of exactly 0 and 1."""
        rows = slice(int(self.prob.searchsorted(0.0, "right")), int(self.prob.searchsorted(1.0)))
        if rows == slice(0, self.prob.shape[0]):
            return self
        inside = np.zeros(self.prob.shape, dtype=bool)
        inside[rows] = True
        clusters = None if self.clusters is None else self.clusters.taken(inside)
        design = None if self.design is None else self.design.taken(inside)
        events = None if self.events is None else self.events.taken(inside)
        return GroupedOutcomes(
            self.prob[rows], self.weight[rows], self.positives[rows], clusters, design, events
        )

    def parts(self) -> Iterator[GroupedOutcomes]:
        """Yield blocks of the groups, as independent samples."""
        for rows in blocks(self.prob.shape[0]):
            yield GroupedOutcomes(self.prob[rows], self.weight[rows], self.positives[rows])

    def frequencies(self) -> tuple[float, float]:
        """Return mean prediction and event frequency."""
        return float(self.weight @ self.prob) / self.total, float(self.positives.sum()) / self.total

    def contradictions(self) -> tuple[float, float]:
        """Return how many samples contradict a prediction of exactly 0 or 1, and how many have one."""
        negatives = self.weight - self.positives
        zero, one = self.prob <= 0.0, self.prob >= 1.0
        wrong = self.positives[zero].sum() + negatives[one].sum()
        return float(wrong), float(self.weight[zero | one].sum())

    def rows(self) -> tuple[NDArray[np.int64], Array, Array]:
        """Return outcomes, predictions and weights: per group one event and one non-event of weight > 0."""
        negatives = self.weight - self.positives
        event, other = np.flatnonzero(self.positives > 0), np.flatnonzero(negatives > 0)
        return (
            np.repeat(np.array([1, 0]), [event.shape[0], other.shape[0]]),
            np.concatenate((self.prob[event], self.prob[other])),
            np.concatenate((self.positives[event], negatives[other])),
        )


def sampled_probability(p: Array, class_weights: Array | None) -> Array:
    """Return the probabilities of outcomes among samples whose weights depend on the outcome.

    An outcome k of weight c_k is sampled with probability proportional to 1 / c_k, so that it has the
    probability p_k / c_k, divided by the sum over all outcomes. ``p`` has K columns, or is that of k = 1.
    Without class weights it is returned.
    """
    if class_weights is None:
        return p
    rate = sampling_rate(p, class_weights)
    found = p / class_weights / rate[:, np.newaxis] if p.ndim == 2 else p / class_weights[1] / rate
    return np.asarray(found)


def sampling_rate(p: Array, class_weights: Array) -> Array:
    """Return the sum of p_k / c_k over outcomes k: numbers of samples in proportion to the population's."""
    columns = p if p.ndim == 2 else np.column_stack((1.0 - p, p))
    return np.asarray((columns / class_weights).sum(axis=1))


def as_sampled(sample: Any) -> Any:
    """Return a checked sample, if its weights depend on the outcome, as it was sampled.

    It has the weights within the classes, and none if weights depend on the outcome alone.
    """
    if sample.class_weights is None:
        return sample
    p, within = sampled_probability(sample.p, sample.class_weights), within_classes(sample)
    w = None if (within == 1.0).all() else within / within.mean()
    return replace(sample, p=p, w=w, sampling=w is not None, class_weights=None)


def packed_sort(y: NDArray[np.int64], p: Array) -> NDArray[np.int64]:
    """Return the keys ``(bits(p) << 1) | y`` in increasing order: sorted by prediction, then by outcome.

    For p in [0, 1] the bits of the float, read as an integer, are increasing in p and below 2**62, so the
    key is lossless; sorting it in place is several times faster than argsort. It is sorted as the positive
    finite float of the same bits, because numpy sorts floats faster than integers.
    """
    n = p.shape[0]
    key = np.empty(n, dtype=np.int64)
    as_float = key.view(np.float64)
    for rows in blocks(n, CHUNK):
        part = key[rows]
        # adding 0.0 turns -0.0, whose bits would sort last, into 0.0
        np.add(p[rows], 0.0, out=as_float[rows])
        np.left_shift(part, 1, out=part)
        np.bitwise_or(part, y[rows], out=part)
    as_float.sort()
    return key


def group_starts(sorted_values: NDArray[np.generic]) -> NDArray[np.intp]:
    """Return the index at which each run of equal values begins; the input is sorted."""
    change = np.empty(sorted_values.shape[0], dtype=bool)
    change[:1] = True
    np.not_equal(sorted_values[1:], sorted_values[:-1], out=change[1:])
    return np.flatnonzero(change)


def group_outcomes(
    y: NDArray[np.int64], p: Array, w: Array | None = None, clusters: NDArray[np.int64] | None = None
) -> GroupedOutcomes:
    """Group checked outcomes by distinct prediction, O(n log n); weights are positive.

    ``clusters`` are codes 0, 1, ..., without gaps; weights are then numbers of samples.
    """
    if clusters is not None:
        return _group_clusters(y, p, np.ones_like(p) if w is None else w, clusters)
    if w is None and y.dtype.kind == "f":
        # outcomes between 0 and 1
        w = np.ones_like(p)
    if w is None:
        key = packed_sort(y, p)
        return _merge_ties(_take_outcomes(key), key.view(np.float64))
    if (p[1:] >= p[:-1]).all() and (p[2:] > p[:-2]).all():
        # sorted, at most two are equal, as the points of a summary; two weights have one sum in either order
        prob, outcome, weights = p + 0.0, y, w
    else:
        # sorting ties by weight makes the floating-point sums independent of the order of the samples
        order = np.lexsort((w, y, p))
        prob, outcome, weights = p[order] + 0.0, y[order], w[order]
    starts = group_starts(prob)
    return GroupedOutcomes(
        prob[starts], np.add.reduceat(weights, starts), np.add.reduceat(weights * outcome, starts)
    )


def group_sample(sample: Any) -> GroupedOutcomes:
    """Group the outcomes of a checked binary sample; if it has clusters, only the first time.

    So the dependence within clusters, which takes longer than the rest, is estimated once for each sample.
    """
    found: GroupedOutcomes | None = sample.cache.get("grouped")
    if found is not None:
        return found
    found = (
        _group_design(sample)
        if sample.sampling
        else group_outcomes(sample.y, sample.p, sample.w, sample.clusters)
    )
    if sample.events is not None:
        found = _with_events(found, sample)
    if sample.clusters is not None or sample.sampling or sample.events is not None:
        sample.cache["grouped"] = found
    return found


def _with_events(grouped: GroupedOutcomes, sample: Any) -> GroupedOutcomes:
    """Return grouped outcomes whose simulated events are those of the labels of the sample."""
    # cells of equal predictions and, if these are sampling weights, of equal weights
    order = np.lexsort((sample.weights, sample.p))
    p, w = sample.p[order], sample.weights[order]
    new = np.append(False, (p[1:] != p[:-1]) | (w[1:] != w[:-1]))
    rows, event = sample.events.rows[order], sample.events.event[order]
    events = EventLabels(sample.events.labels, rows, event, np.cumsum(new))
    if grouped.design is None:
        return replace(grouped, events=events)
    return replace(grouped, design=replace(grouped.design, events=events))


def weight_fields(sample: Any, clusters: Clusters | None, prob: Array) -> dict[str, Any]:
    """Return the fields with which results describe the weights of a checked sample, and its clusters."""
    found = dependence_of(clusters, prob)
    return {**found, **weighting(sample, found.get("design_effect"))}


def weighting(sample: Any, design_effect: float | None = None) -> dict[str, Any]:
    """Return the fields with which results describe the weights of a checked sample."""
    if sample.w is None:
        return {}
    if not sample.sampling:
        return {"weights": "frequency"}
    kind = "sampling" if sample.class_weights is None else "case-control"
    found = {"weights": kind, "n_effective": kish_size(sample.w) / (design_effect or 1.0)}
    if kind == "case-control" and (within_classes(sample) != 1.0).any():
        found["weight_spread"] = spread_within(sample.y, sample.w)
    return found


def weight_words(result: Any, *, corrected: bool = True) -> str:
    """Return what a result tells of weights, in words; nothing if there are none."""
    if result.weights == "case-control":
        spread = "" if result.weight_spread is None else f", spread of log weights {result.weight_spread:.2g}"
        if corrected:
            return f"by class (case-control){spread}, tested as probabilities among the samples"
        return f"by class (case-control){spread}, effective number of samples {result.n_effective:,.0f}"
    if result.weights == "sampling":
        return f"sampling weights, effective number of samples {result.n_effective:,.0f}"
    return "" if result.weights is None else "frequencies"


def balanced_bins(grouped: GroupedOutcomes, n_bins: int) -> NDArray[np.intp]:
    """Return the bin of each group, non-decreasing: bins hold equal fractions of samples and variance.

    With samples alone, most bins would lie where rare events hardly ever are; with variance alone, none would
    lie among predictions of nearly 0 and 1.
    """
    fraction = grouped.variance
    fraction /= fraction.sum()
    fraction += grouped.weight / grouped.total
    fraction *= 0.5 * n_bins
    middle = np.cumsum(fraction)
    fraction *= 0.5
    middle -= fraction
    return np.clip(middle, 0, n_bins - 1, out=middle).astype(np.intp)


def pooled_if_many(grouped: GroupedOutcomes, most: int = DISTINCT, cells: int = 0) -> GroupedOutcomes:
    """Return the sample itself, or ``most / 2`` bins of neighbors if it has more distinct predictions.

    Predictions of exactly 0 and 1 have bins of their own. For drawings, bins are divided where ``cells`` of
    equal length end: few predictions in a long bin would be seen in one place.
    """
    if grouped.prob.shape[0] <= most:
        return grouped
    bins = balanced_bins(grouped, most // 2)
    bins += grouped.prob > 0.0
    bins += grouped.prob >= 1.0
    if cells:
        bins += (cells * (grouped.prob - grouped.prob[0]) / np.ptp(grouped.prob)).astype(np.intp)
    return grouped.pooled(group_starts(bins))


def contradiction_words(n_contradicted: float, n_extreme: float) -> str:
    """Return how many predictions of exactly 0 or 1 were contradicted; nothing if none were."""
    if not n_contradicted:
        return ""
    were = "was" if n_contradicted == 1 else "were"
    return f"{n_contradicted:,.0f} of {n_extreme:,.0f} predictions of exactly 0 or 1 {were} contradicted"


def _group_clusters(y: NDArray[np.int64], p: Array, w: Array, code: NDArray[np.int64]) -> GroupedOutcomes:
    prob, group = np.unique(p + 0.0, return_inverse=True)
    clusters = _clusters(y, prob, group, w, code)
    starts = group_starts(clusters.group)
    weight, positives = (np.add.reduceat(part, starts) for part in (clusters.count, clusters.positives))
    return GroupedOutcomes(prob, weight, positives, clusters)


def _clusters(
    y: NDArray[np.int64], prob: Array, group: NDArray[np.intp], w: Array, code: NDArray[np.int64]
) -> Clusters:
    """Return the clusters of samples of given groups, whose predictions are ``prob``."""
    order = np.lexsort((code, group))
    group, code, weight = group[order], code[order], w[order]
    cells = np.flatnonzero(np.append(True, group[1:] != group[:-1]) | np.append(True, code[1:] != code[:-1]))
    count, positives = np.add.reduceat(weight, cells), np.add.reduceat(weight * y[order], cells)
    group, code = group[cells], code[cells]
    found = dependence(code, prob[group], count, positives)
    return Clusters(group, code, count, positives, int(code.max()) + 1, found)


def _group_design(sample: Any) -> GroupedOutcomes:
    """Group outcomes with sampling weights."""
    y, p, codes, class_weights = sample.y, sample.p, sample.clusters, sample.class_weights
    w = sample.w if class_weights is None else within_classes(sample)
    order = np.lexsort((w, p))
    prob, weight = p[order] + 0.0, w[order]
    new_group = np.append(True, prob[1:] != prob[:-1])
    new_cell = new_group | np.append(True, weight[1:] != weight[:-1])
    cells, ones = np.flatnonzero(new_cell), np.ones_like(p)
    count, positives = np.add.reduceat(ones, cells), np.add.reduceat(ones * y[order], cells)
    group, clusters, of_groups = (np.cumsum(new_group) - 1)[cells], None, None
    if codes is not None:
        sampled = sampled_probability(prob, class_weights)
        clusters = _clusters(y[order], sampled[cells], np.cumsum(new_cell) - 1, ones, codes[order])
        of_groups = replace(clusters, group=group[clusters.group])
    design = SamplingCells(group, weight[cells], count, positives, clusters, class_weights)
    return GroupedOutcomes(prob[new_group], *design.weighted_sums(count, positives), of_groups, design)


def group_scores(y: NDArray[np.int64], scores: Array, w: Array | None = None) -> GroupedOutcomes:
    """Group checked outcomes by distinct score, any finite numbers, O(n log n).

    As :func:`group_outcomes`, for scores that need not be probabilities; they are the ``prob`` of the result.
    """
    if w is not None or y.dtype.kind == "f" or (scores.min() >= 0.0 and scores.max() <= 1.0):
        return group_outcomes(y, scores, w)
    # sums of outcomes 0 and 1 do not depend on the order of ties
    order = np.argsort(scores)
    return _merge_ties(y[order].astype(np.float64), scores[order] + 0.0)


def _take_outcomes(key: NDArray[np.int64]) -> Array:
    """Return the last bit of each key, and shift the keys in place."""
    outcome = np.empty(key.shape[0])
    for rows in blocks(key.shape[0], CHUNK):
        outcome[rows] = np.bitwise_and(key[rows], 1)
        np.right_shift(key[rows], 1, out=key[rows])
    return outcome


def ones(n: int) -> Array:
    """Return n ones that are one number, read-only."""
    return np.ndarray((n,), buffer=_ONE, strides=(0,))


def _merge_ties(outcome: Array, value: Array) -> GroupedOutcomes:
    """Return one group for each run of equal values."""
    if (value[1:] != value[:-1]).all():
        return GroupedOutcomes(value, ones(value.shape[0]), outcome)
    starts = group_starts(value)
    weight = np.diff(starts, append=value.shape[0]).astype(np.float64)
    return GroupedOutcomes(value[starts], weight, np.add.reduceat(outcome, starts))
