"""Grouped outcomes: the object on which every binary calibration quantity depends.

For each distinct prediction we keep its total weight and its weight of positives. Whatever is
computed from these three arrays cannot depend on the order of the rows or on ties, and a weight of
two is a repeated row by construction.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CHUNK",
    "GroupedOutcomes",
    "group_outcomes",
    "group_scores",
    "group_starts",
    "packed_sort",
    "sorted_outcomes",
]

#: Rows handled at a time, so that the temporaries of a pass over the data stay in cache.
CHUNK = 1 << 14

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GroupedOutcomes:
    """Distinct predictions in increasing order, with their weight and weight of positives."""

    prob: Array
    weight: Array
    positives: Array

    @property
    def total(self) -> float:
        """Total weight n."""
        return float(self.weight.sum())

    @property
    def residual(self) -> Array:
        """Weighted residual sum of each group, positives - weight * prob."""
        return self.positives - self.weight * self.prob


def packed_sort(y: NDArray[np.int64], p: Array) -> NDArray[np.int64]:
    """Return the keys ``(bits(p) << 1) | y`` in increasing order: sorted by prediction, then by outcome.

    For p in [0, 1] the bits of the float, read as an integer, are increasing in p and below 2**62, so the
    key loses nothing; sorting it in place is several times faster than argsort. It is sorted as the
    positive finite float of the same bits, because numpy sorts those faster than integers.
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


def sorted_outcomes(y: NDArray[np.int64], p: Array) -> tuple[NDArray[np.int64], Array]:
    """Return the outcomes and predictions ordered by prediction, then by outcome."""
    key = packed_sort(y, p)
    outcome = np.bitwise_and(key, 1)
    np.right_shift(key, 1, out=key)
    return outcome, key.view(np.float64)


def group_starts(sorted_values: NDArray[np.generic]) -> NDArray[np.intp]:
    """Return the index at which each run of equal values begins; the input is sorted and not empty."""
    change = np.empty(sorted_values.shape[0], dtype=bool)
    change[0] = True
    np.not_equal(sorted_values[1:], sorted_values[:-1], out=change[1:])
    return np.flatnonzero(change)


def group_outcomes(y: NDArray[np.int64], p: Array, w: Array | None = None) -> GroupedOutcomes:
    """Group checked outcomes by distinct prediction, O(n log n).

    Parameters
    ----------
    y : ndarray of shape (n,)
        Outcomes 0 or 1, int64.
    p : ndarray of shape (n,)
        Predictions in [0, 1], float64.
    w : ndarray of shape (n,) or None
        Positive weights; None means one each.

    Returns
    -------
    GroupedOutcomes
    """
    if w is None:
        outcome, prob = sorted_outcomes(y, p)
        starts = group_starts(prob)
        if starts.shape[0] == prob.shape[0]:
            return GroupedOutcomes(prob, np.ones_like(prob), outcome.astype(np.float64))
        weight = np.diff(starts, append=prob.shape[0]).astype(np.float64)
        positives = np.add.reduceat(outcome, starts).astype(np.float64)
        return GroupedOutcomes(prob[starts], weight, positives)
    # sorting by weight inside a tie fixes the order of the floating-point sums: row order cannot matter
    order = np.lexsort((w, y, p))
    prob, outcome, weights = p[order] + 0.0, y[order], w[order]
    starts = group_starts(prob)
    return GroupedOutcomes(
        prob[starts], np.add.reduceat(weights, starts), np.add.reduceat(weights * outcome, starts)
    )


def group_scores(y: NDArray[np.int64], scores: Array, w: Array | None = None) -> GroupedOutcomes:
    """Group checked outcomes by distinct score, any finite numbers, O(n log n).

    As :func:`group_outcomes`, for scores that need not be probabilities; they are the ``prob`` of the result.
    """
    if w is not None or (scores.min() >= 0.0 and scores.max() <= 1.0):
        return group_outcomes(y, scores, w)
    order = np.argsort(scores)
    value = scores[order]
    value += 0.0
    outcome = y[order]
    starts = group_starts(value)
    if starts.shape[0] == value.shape[0]:
        return GroupedOutcomes(value, np.ones_like(value), outcome.astype(np.float64))
    weight = np.diff(starts, append=value.shape[0]).astype(np.float64)
    return GroupedOutcomes(value[starts], weight, np.add.reduceat(outcome, starts).astype(np.float64))
