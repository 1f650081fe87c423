"""T of every level for many draws of labels at a time."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._null import MAX_CELLS
from sklearn_calib.inference._tcal_bins import NestedBins

__all__ = ["LabelStatistics", "cells_at_once"]

Array = NDArray[np.float64]

# Groups in a block.
_BLOCK = 1 << 12

# Draws at a time of large samples, unless these are more numbers than the second, but at least the third.
_DRAWS, _MOST_DRAWN, _FEWEST_DRAWS = 16, 1 << 21, 8


class _Block(NamedTuple):
    """Some consecutive groups, whose bins at the link level and at finer ones lie inside.

    ``adder`` sums over their bins, those of the link level last, ``expected`` holds the expected sums, and
    ``inverse`` adds up the squares of a level; ``linear`` is what the levels subtract for a positive row.
    ``link`` are the bins of the link level; ``link_linear`` and ``coarse`` do for coarser levels what
    ``linear`` does.
    """

    rows: slice
    adder: csr_array
    expected: Array
    inverse: csr_array
    linear: csr_array
    link: slice
    link_linear: csr_array
    coarse: Array


class LabelStatistics:
    """T of every level for given numbers of positives, which share the predictions of one sample.

    With k positives among the w rows of a group, residuals around the probability c have the sum k - w c and
    the square sum k (1 - 2c) + w c^2: the second is linear in k, so that squares are only taken of sums over
    bins.

    Parameters
    ----------
    grouped : GroupedOutcomes
        The predictions; outcomes are not used, except by ``own``.
    bins : NestedBins
        Their bins.
    centre : ndarray of shape (groups,)
        The probabilities around which residuals are taken.
    """

    def __init__(self, grouped: GroupedOutcomes, bins: NestedBins, centre: Array) -> None:
        self.grouped = grouped
        self._fine = [step for step in bins.steps if not step.chained]
        self._chained = [step for step in bins.steps if step.chained]
        expected, square = grouped.weight * centre, grouped.weight * centre * centre
        totals = list(bins.sums(expected[:, np.newaxis], square[:, np.newaxis]))
        self._expected = [total for _, (total, _) in totals]
        self._constant = np.array([[float(step.inverse @ total[:, 0])] for step, (_, total) in totals])
        # 1/|I| of the coarser bins that hold a bin of the link level
        place = np.arange(self._fine[-1].inverse.shape[0])
        coarse = np.empty((len(self._chained), place.shape[0]))
        for row, step in enumerate(self._chained):
            place = np.repeat(np.arange(step.inverse.shape[0]), np.diff(step.matrix.indptr))[place]
            coarse[row] = step.inverse[place]
        ones = np.ones(sum(step.matrix.nnz for step in self._fine))
        slope = 1.0 - 2.0 * centre
        first_groups = [step.matrix.indices[step.matrix.indptr[:-1]] for step in self._fine]
        starts = self._fine[-1].matrix.indptr
        wanted = np.arange(_BLOCK, centre.shape[0], _BLOCK)
        cuts = np.unique(np.concatenate(([0], np.searchsorted(starts[:-1], wanted), [starts.shape[0] - 1])))
        self._blocks = [
            self._block(slice(first, last), first_groups, slope, coarse[:, first:last], ones)
            for first, last in pairwise(cuts.tolist())
        ]

    def _block(
        self, link: slice, first_groups: list[Any], slope: Array, coarse: Array, ones: Array
    ) -> _Block:
        """Collect the bins of all levels from the link level on that lie in some bins of that level."""
        starts = self._fine[-1].matrix.indptr
        first, last = int(starts[link.start]), int(starts[link.stop])
        members, sizes, inverses, expected = [], [], [], []
        for step, groups, total in zip(self._fine, first_groups, self._expected, strict=False):
            pointer = step.matrix.indptr
            begin, end = np.searchsorted(groups, (first, last))
            members.append(step.matrix.indices[pointer[begin] : pointer[end]] - first)
            sizes.append(np.diff(pointer[begin : end + 1]))
            inverses.append(step.inverse[begin:end])
            expected.append(total[begin:end])
        indices, inverse = np.concatenate(members), np.concatenate(inverses)
        n_rows, per_bin = last - first, np.concatenate(sizes)
        own = slope[first:last]
        levels = _pointers([part.shape[0] for part in inverses])
        return _Block(
            rows=slice(first, last),
            adder=csr_array(
                (ones[: indices.shape[0]], indices, _pointers(per_bin)), shape=(inverse.shape[0], n_rows)
            ),
            expected=np.concatenate(expected),
            inverse=csr_array(
                (inverse, np.arange(inverse.shape[0], dtype=np.int32), levels),
                shape=(len(inverses), inverse.shape[0]),
            ),
            linear=csr_array(
                (
                    np.repeat(inverse, per_bin) * own[indices],
                    indices,
                    _pointers([part.shape[0] for part in members]),
                ),
                shape=(len(inverses), n_rows),
            ),
            link=link,
            link_linear=csr_array(
                (own, np.arange(n_rows, dtype=np.int32), _pointers(sizes[-1])),
                shape=(sizes[-1].shape[0], n_rows),
            ),
            coarse=coarse,
        )

    @property
    def own(self) -> NDArray[Any]:
        """The positives of the sample itself, shape (groups, 1)."""
        return np.asarray(self.grouped.positives, dtype=np.float64)[:, np.newaxis]

    def __call__(self, positives: NDArray[Any]) -> Array:
        """Return T of ``positives``, shape (groups, r), at each level, coarse to fine: shape (r, levels)."""
        r, n_fine = positives.shape[1], len(self._fine)
        out = np.zeros((n_fine + len(self._chained), r))
        fine, coarse = out[:n_fine], out[n_fine:]
        sums = np.empty((self._fine[-1].inverse.shape[0] if self._chained else 0, r))
        for block in self._blocks:
            part = np.ascontiguousarray(positives[block.rows], dtype=np.float64)
            total = block.adder @ part
            fine -= block.linear @ part
            if self._chained:
                sums[block.link] = total[block.link.start - block.link.stop :]
                coarse -= block.coarse @ (block.link_linear @ part)
            total -= block.expected
            total *= total
            fine += block.inverse @ total
        for row, (step, expected) in enumerate(zip(self._chained, self._expected[n_fine:], strict=True)):
            sums = step.matrix @ sums
            total = sums - expected
            total *= total
            coarse[row] += step.inverse @ total
        out -= self._constant
        out /= self.grouped.total
        return out[::-1].T


def _pointers(sizes: Any) -> NDArray[np.int32]:
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)


def cells_at_once(n_groups: int) -> int:
    """Return how many numbers to draw at a time: more than memory asks for where it is faster."""
    return max(MAX_CELLS, min(_DRAWS * n_groups, _MOST_DRAWN), _FEWEST_DRAWS * n_groups)
