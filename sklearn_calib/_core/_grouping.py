"""Grouped outcomes: the representation on which every binary calibration quantity depends.

For each distinct prediction we keep its total weight and its weight of positives. Quantities computed from
these three arrays do not depend on the order of the samples or on ties, and weight 2 is equivalent to a
repeated sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._clusters import Clusters, dependence
from sklearn_calib._typing import Array

#: Samples processed at a time, so that the temporaries of a pass over the data stay in cache.
CHUNK = 1 << 14


@dataclass(frozen=True, eq=False)
class GroupedOutcomes:
    """Distinct predictions in increasing order, with their weight and weight of positives.

    ``clusters`` says which samples are dependent; None means independent samples.
    """

    prob: Array
    weight: Array
    positives: Array
    clusters: Clusters | None = None

    @property
    def total(self) -> float:
        """Total weight n."""
        return float(self.weight.sum())

    @property
    def residual(self) -> Array:
        """Weighted residual sum of each group, positives - weight * prob."""
        return self.positives - self.weight * self.prob

    @property
    def variance(self) -> Array:
        """Null variance of the events of each group, weight * prob * (1 - prob)."""
        return self.weight * self.prob * (1.0 - self.prob)

    def pooled(self, starts: NDArray[np.intp]) -> GroupedOutcomes:
        """Return one group for each run of groups, at the mean of its predictions."""
        weight, positives = (np.add.reduceat(part, starts) for part in (self.weight, self.positives))
        mean = np.add.reduceat(self.weight * self.prob, starts) / weight
        # rounding must not move a mean out of its run, which would break the order
        last = np.append(starts[1:], self.prob.shape[0]) - 1
        clusters = None if self.clusters is None else self.clusters.pooled(starts, self.prob.shape[0])
        return GroupedOutcomes(np.clip(mean, self.prob[starts], self.prob[last]), weight, positives, clusters)

    def uncertain(self) -> GroupedOutcomes:
        """Return the groups with finite log-odds: without predictions of exactly 0 and 1."""
        inside = (self.prob > 0.0) & (self.prob < 1.0)
        if inside.all():
            return self
        clusters = None if self.clusters is None else self.clusters.taken(inside)
        return GroupedOutcomes(self.prob[inside], self.weight[inside], self.positives[inside], clusters)

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


def packed_sort(y: NDArray[np.int64], p: Array) -> NDArray[np.int64]:
    """Return the keys ``(bits(p) << 1) | y`` in increasing order: sorted by prediction, then by outcome.

    For p in [0, 1] the bits of the float, read as an integer, are increasing in p and below 2**62, so the
    key is lossless; sorting it in place is several times faster than argsort. It is sorted as the positive
    finite float of the same bits, because numpy sorts floats faster than integers.
    """
    n = p.shape[0]
    key = np.empty(n, dtype=np.int64)
    as_float = key.view(np.float64)
    for start in range(0, n, CHUNK):
        rows = slice(start, start + CHUNK)
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
    if sample.clusters is None:
        return group_outcomes(sample.y, sample.p, sample.w)
    if "grouped" not in sample.cache:
        sample.cache["grouped"] = group_outcomes(sample.y, sample.p, sample.w, sample.clusters)
    found: GroupedOutcomes = sample.cache["grouped"]
    return found


def balanced_bins(grouped: GroupedOutcomes, n_bins: int) -> NDArray[np.intp]:
    """Return the bin of each group, non-decreasing: bins hold equal fractions of samples and variance.

    With samples alone, most bins would lie where rare events hardly ever are; with variance alone, none would
    lie among predictions of nearly 0 and 1.
    """
    variance = grouped.variance
    fraction = 0.5 * (grouped.weight / grouped.total + variance / variance.sum())
    middle = np.cumsum(fraction) - 0.5 * fraction
    return np.clip((middle * n_bins).astype(np.intp), 0, n_bins - 1)


def condensed(grouped: GroupedOutcomes, most: int = 4096, n_bins: int = 2048) -> GroupedOutcomes:
    """Return the sample itself, or bins of neighbours if it has more than ``most`` distinct predictions.

    Predictions of exactly 0 and 1 have bins of their own.
    """
    if grouped.prob.shape[0] <= most:
        return grouped
    bins = balanced_bins(grouped, n_bins) + (grouped.prob > 0.0) + (grouped.prob >= 1.0)
    return grouped.pooled(group_starts(bins))


def contradiction_words(n_contradicted: float, n_extreme: float) -> str:
    """Return how many predictions of exactly 0 or 1 were contradicted; nothing if none were."""
    if not n_contradicted:
        return ""
    were = "was" if n_contradicted == 1 else "were"
    return f"{n_contradicted:,.0f} of {n_extreme:,.0f} predictions of exactly 0 or 1 {were} contradicted"


def _group_clusters(y: NDArray[np.int64], p: Array, w: Array, code: NDArray[np.int64]) -> GroupedOutcomes:
    order = np.lexsort((code, p))
    prob, code, weight = p[order] + 0.0, code[order], w[order]
    new_group = np.append(True, prob[1:] != prob[:-1])
    cells = np.flatnonzero(new_group | np.append(True, code[1:] != code[:-1]))
    count, positives = np.add.reduceat(weight, cells), np.add.reduceat(weight * y[order], cells)
    group, code = (np.cumsum(new_group) - 1)[cells], code[cells]
    found = dependence(code, prob[cells], count, positives)
    clusters = Clusters(group, code, count, positives, int(code.max()) + 1, found)
    starts = np.flatnonzero(new_group[cells])
    return GroupedOutcomes(
        prob[cells][starts], np.add.reduceat(count, starts), np.add.reduceat(positives, starts), clusters
    )


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
    for start in range(0, key.shape[0], CHUNK):
        rows = slice(start, start + CHUNK)
        outcome[rows] = np.bitwise_and(key[rows], 1)
        np.right_shift(key[rows], 1, out=key[rows])
    return outcome


def _merge_ties(outcome: Array, value: Array) -> GroupedOutcomes:
    """Return one group for each run of equal values."""
    if (value[1:] != value[:-1]).all():
        return GroupedOutcomes(value, np.ones_like(value), outcome)
    starts = group_starts(value)
    weight = np.diff(starts, append=value.shape[0]).astype(np.float64)
    return GroupedOutcomes(value[starts], weight, np.add.reduceat(outcome, starts))
