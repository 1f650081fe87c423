"""The nested bins of T-Cal, sums over them, and the null variance of T at each level."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sklearn_calib._core._dyadic import shared_levels
from sklearn_calib._core._grouping import GroupedOutcomes, group_starts

__all__ = ["ROUNDING", "NestedBins", "null_deviation", "null_variance"]

Array = NDArray[np.float64]

#: A standard deviation below this part of the expected sum of squares is all rounding error: it does not
#: divide.
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class _Step:
    """How to sum over the bins of one level.

    ``matrix`` adds up groups, or, if ``chained``, the bins of the step before. ``inverse`` is 1/|I|, 0 for
    a bin of one row. ``members`` are the groups that take part (None for all): the others are alone in
    their bin.
    """

    matrix: csr_array
    inverse: Array
    chained: bool
    members: NDArray[np.intp] | None


@dataclass(frozen=True, eq=False)
class NestedBins:
    """Bins of several levels, each inside a bin of the next coarser one; ``steps`` go from fine to coarse.

    A level with about as many bins as groups is summed over all of them, coarser ones over its bins; finer
    ones over the groups that still share a bin. A draw therefore costs O(n) for all levels together.
    """

    steps: tuple[_Step, ...]

    @classmethod
    def dyadic(cls, grouped: GroupedOutcomes, finest: int) -> "NestedBins":
        """Return the bins of the levels 1, ..., ``finest``."""
        prob, weight = grouped.prob, grouped.weight
        n_groups = prob.shape[0]
        # two groups share a bin down to this level; the first has no left neighbour, the last no right one
        shared = shared_levels(prob, finest)
        company = np.where(weight > 1.5, finest, np.maximum(shared[:-1], shared[1:]))
        levels = np.arange(finest + 1)
        n_members = n_groups - np.searchsorted(np.sort(company), levels)
        n_bins = 1 + np.searchsorted(np.sort(shared[1:-1]), levels)
        finer_cost = np.cumsum(n_members[::-1])[::-1] - n_members
        coarser_cost = np.cumsum(n_bins) - n_bins[0]
        link = 1 + int((finer_cost + coarser_cost)[1:].argmin())
        steps: list[_Step] = []
        parts = np.arange(n_groups)
        for level in range(finest, 0, -1):
            if level > link:
                members = np.flatnonzero(company >= level)
                starts = np.flatnonzero(shared[members] < level)
                count = np.add.reduceat(weight[members], starts) if members.shape[0] else np.empty(0)
                steps.append(_Step(_adder(members, starts, n_groups), _inverse(count), False, members))
                continue
            opens = np.flatnonzero(shared[:-1] < level)
            count = np.add.reduceat(weight, opens)
            if level == link:
                steps.append(
                    _Step(_adder(np.arange(n_groups), opens, n_groups), _inverse(count), False, None)
                )
            else:
                starts = np.searchsorted(parts, opens)
                adder = _adder(np.arange(parts.shape[0]), starts, parts.shape[0])
                steps.append(_Step(adder, _inverse(count), True, None))
            parts = opens
        return cls(tuple(steps))

    @classmethod
    def single(cls, grouped: GroupedOutcomes, cell: NDArray[np.int64]) -> "NestedBins":
        """Return one level of bins; ``cell`` is the non-decreasing bin of each group."""
        starts = group_starts(cell)
        n_groups = cell.shape[0]
        inverse = _inverse(np.add.reduceat(grouped.weight, starts))
        return cls((_Step(_adder(np.arange(n_groups), starts, n_groups), inverse, False, None),))

    def sums(self, *values: Array) -> Iterator[tuple[_Step, list[Array]]]:
        """Yield each step with the sums over its bins of arrays of shape (groups, r)."""
        totals = list(values)
        for step in self.steps:
            totals = [step.matrix @ part for part in (totals if step.chained else values)]
            yield step, totals


def _adder(members: NDArray[np.intp], starts: NDArray[np.intp], n_columns: int) -> csr_array:
    """Return the matrix that adds up runs of ``members``, each begun at one of ``starts``."""
    ends = np.append(starts, members.shape[0])
    ones = np.ones(members.shape[0])
    return csr_array(
        (ones, members.astype(np.int32), ends.astype(np.int32)), shape=(starts.shape[0], n_columns)
    )


def _inverse(count: Array) -> Array:
    return np.where(count > 1.5, 1.0 / count, 0.0)


def null_variance(grouped: GroupedOutcomes, bins: NestedBins, law: Array) -> Array:
    """Return the variance of T of every level, coarse to fine, if ``law`` are the event probabilities."""
    v = law * (1.0 - law)
    sums = bins.sums((grouped.weight * v)[:, np.newaxis], (grouped.weight * v * v)[:, np.newaxis])
    terms = [2.0 * step.inverse**2 @ (a * a - v2)[:, 0] for step, (a, v2) in sums]
    return np.maximum(np.array(terms[::-1]), 0.0) / grouped.total**2


def null_deviation(grouped: GroupedOutcomes, bins: NestedBins, variance: Array) -> Array:
    """Return the square roots of variances of T, kept above rounding."""
    v = grouped.variance[:, np.newaxis]
    scale = np.array([step.inverse @ total[:, 0] for step, (total,) in bins.sums(v)])[::-1]
    out: Array = np.maximum(np.sqrt(variance), ROUNDING * scale / grouped.total)
    return out
