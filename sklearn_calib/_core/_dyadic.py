"""Moments of the debiased plug-in statistic over nested dyadic bins, all levels at once.

Level k cuts [0, 1] into 2**k bins of equal width, the last closed at 1. The formulas are those of
``_null_moments``; the work is O(n) for sorted predictions.

The bins of a middle level, with about as many cells as rows, are summed once; coarser levels add
neighbours. Finer levels matter only to rows that still share their cell: two of them contribute the same
to every level down to the one that parts them, which is read off their binary digits, and only the rows
of cells with more are summed again. Rows are handled in blocks of whole cells, so that what is computed
stays in cache.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import GroupedOutcomes, group_starts
from sklearn_calib._core._null_moments import (
    NullMoments,
    alike_powers,
    effective_pairs,
    residual_sums,
    row_powers,
    third_cumulants,
)

__all__ = ["EXACT_LEVELS", "MAX_LEVEL", "dyadic_moments", "shared_levels"]

#: Finest level: predictions in [1/2, 1] are multiples of 2**-53, and finer bins part nothing there.
MAX_LEVEL = 52

#: Down to this level the third cumulant is exact (for more than 2**16 rows, but for a relative error of
#: about 2**-12). Rows in a narrower bin are taken for alike, an error of the order of the bin's width.
EXACT_LEVELS = 12

# log2 of the cells of a block, and the levels a block is carried before all blocks go on together
_BLOCK_LEVELS = 16
_BLOCK_DEPTH = 5
# for longer vectors BLAS would start threads
_LONGEST = 1 << 13

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Place = Callable[[Index], tuple[Index, int]]

# rows of cell sums: residuals, v, squared residuals, v^2, rows, and W/|I| of the cells one level finer
_S, _A, _Q, _V2, _N, _U = range(6)
# rows of the totals by level: T, variance, third cumulant, rows, W/|I|^4, covariance with the level one finer
_T, _VAR, _K3, _ROWS, _W4, _COV = range(6)


def shared_levels(p: Array, finest: int) -> NDArray[np.int8]:
    """Return the finest level at which each of the sorted predictions shares its bin with the one before.

    The result has one entry more than ``p``: the first and the last, -1, stand for neighbours that do not
    exist. 0 means that only the whole interval is shared. Exact for ``finest`` up to ``MAX_LEVEL``.
    """
    return _shared(_cells(p, finest), finest)


def dyadic_moments(grouped: GroupedOutcomes, finest: int) -> NullMoments:
    """Return statistic and moments of the levels 1, ..., ``finest``.

    Parameters
    ----------
    grouped : GroupedOutcomes
        Distinct predictions with integer weights, the numbers of their rows.
    finest : int
        Finest level, from 1 to ``MAX_LEVEL``.
    """
    totals = _Totals(finest)
    n, n_groups = grouped.total, grouped.prob.shape[0]
    level = min(finest, n_groups.bit_length())
    block_level = max(0, level - _BLOCK_LEVELS)
    handover = max(level - _BLOCK_DEPTH, block_level)
    cells = 1 << (level - block_level)
    edges = np.searchsorted(grouped.prob, np.arange(1, 1 << block_level) * 2.0**-block_level)
    crowded: dict[int, list[_Rows]] = {}
    blocks: list[Array] = []
    for block, (first, last) in enumerate(pairwise([0, *edges.tolist(), n_groups])):
        place = partial(_from_origin, block * cells, cells)
        sums: Any = None
        span = slice(first, last)
        weight = None if n_groups == int(n) else grouped.weight[span]
        rows = _Rows(grouped.prob[span], grouped.positives[span], weight)
        for piece in _blocks(rows.p, level):
            part, rest = _sum_cells(totals, rows.part(piece), level, place)
            sums = part if sums is None else [a + b for a, b in zip(sums, part, strict=True)]
            _refine(totals, rest, level, crowded)
        blocks.append(_halve(_climb(totals, sums, level, handover + 1)))
    coarse = np.concatenate(blocks, axis=1)
    wide = min(finest, EXACT_LEVELS)
    if handover >= wide:
        powers = alike_powers(coarse[_A], coarse[_V2], coarse[_N]).reshape(6, 1 << wide, -1).sum(axis=2)
    else:
        powers = row_powers(grouped, _cells(grouped.prob, wide), 1 << wide)
    if handover:
        totals.add(handover, coarse)
        _climb(totals, coarse, handover, 1)
    while crowded:
        level = min(crowded)
        rows = _Rows.join(crowded.pop(level))
        for piece in _blocks(rows.p, level):
            _refine(totals, rows.part(piece), level, crowded)
    by_level = totals.by_level
    by_level[_K3, 1 : wide + 1] = third_cumulants(powers)
    return NullMoments(
        statistic=by_level[_T, 1:] / n,
        variance=2.0 * np.maximum(by_level[_VAR, 1:], 0.0) / n**2,
        third_cumulant=by_level[_K3, 1:] / n**3,
        covariance=2.0 * np.maximum(by_level[_COV, 1:], 0.0) / n**2,
        rows=by_level[_ROWS, 1:],
        pairs=effective_pairs(by_level[_VAR, 1:], by_level[_W4, 1:]),
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """Consecutive groups; ``weight`` is None where every group is a single row."""

    p: Array
    positives: Array
    weight: Array | None

    @classmethod
    def join(cls, parts: list["_Rows"]) -> "_Rows":
        weights = [part.weight for part in parts if part.weight is not None]
        return cls(
            np.concatenate([part.p for part in parts]),
            np.concatenate([part.positives for part in parts]),
            np.concatenate(weights) if weights else None,
        )

    def part(self, rows: slice | NDArray[np.intp]) -> "_Rows":
        return _Rows(self.p[rows], self.positives[rows], None if self.weight is None else self.weight[rows])


class _Bins(NamedTuple):
    """Residual sum, sum of v, X, W and rows of bins; the last three are plain numbers for single rows."""

    s: Array
    a: Array
    x: Any
    w: Any
    count: Any

    @classmethod
    def of(cls, rows: _Rows) -> "_Bins":
        """Return every group as a bin."""
        v = 1.0 - rows.p
        v *= rows.p
        if rows.weight is None:
            return cls(rows.positives.astype(np.float64) - rows.p, v, 0.0, 0.0, 1.0)
        s, q = residual_sums(rows.p, rows.weight, rows.positives)
        return cls(s, rows.weight * v, s * s - q, rows.weight * (rows.weight - 1.0) * v * v, rows.weight)

    @property
    def same_size(self) -> bool:
        """Whether all bins have as many rows: groups of single rows, or pairs of them."""
        return not isinstance(self.count, np.ndarray)

    def at(self, where: NDArray[Any]) -> "_Bins":
        """Return some of the bins."""
        if self.same_size:
            return _Bins(self.s[where], self.a[where], self.x, self.w, self.count)
        return _Bins(*(values[where] for values in self))

    def merge(self, other: "_Bins") -> "_Bins":
        """Return the union of each of these bins with one of the others."""
        x, w = self.s * other.s, self.a * other.a
        x *= 2.0
        w *= 2.0
        if not self.same_size:
            x += self.x + other.x
            w += self.w + other.w
        return _Bins(self.s + other.s, self.a + other.a, x, w, self.count + other.count)


class _Totals:
    """Totals by level."""

    def __init__(self, finest: int) -> None:
        self.finest = finest
        self.by_level = np.zeros((6, finest + 1))

    def add(self, level: int, sums: Array) -> None:
        """Add the bins of one level, and put W/|I| of each in place of that of the finer level.

        Bins of one row and empty ones add exactly 0.
        """
        total = self.by_level[:, level]
        count, finer = sums[_N], sums[_U]
        inverse = np.maximum(count, 1.0)
        total[_ROWS] += inverse.sum() - np.count_nonzero(count < 1.5)
        np.divide(1.0, inverse, out=inverse)
        total[_COV] += _dot(finer, inverse)
        # S, A and Q, V2 are neighbours: X and W at once
        xw = sums[:2] * sums[:2]
        xw -= sums[2:4]
        x, w = xw
        total[_T] += _dot(x, inverse)
        np.multiply(w, inverse, out=finer)
        third = np.multiply(finer, inverse, out=w)
        total[_VAR] += third.sum()
        third *= inverse
        total[_W4] += _dot(third, inverse)
        if level > EXACT_LEVELS:
            # rows alike: v = A/|I|, (1 - 2p)^2 = 1 - 4v, so kappa = 4 W [1 + 2 A (1 - 4/|I|)]
            total[_K3] += 4.0 * third.sum()
            third *= sums[_A]
            total[_K3] += 8.0 * third.sum() - 32.0 * _dot(third, inverse)

    def add_range(self, bins: _Bins, start: int | Index, stop: Index, parent: Any = None) -> None:
        """Add bins of the levels start + 1, ..., stop, which are the same at all of them.

        If they are parts of bins with ``parent`` rows at level ``start``, their covariance is added too.
        """
        if isinstance(start, np.ndarray):
            for level in np.unique(start[start < stop]).tolist():
                some = np.flatnonzero((start == level) & (stop > level))
                self.add_range(bins.at(some), level, stop[some], None if parent is None else parent[some])
            return
        finer = slice(start + 1, None)
        inverse = 1.0 / bins.count
        # rows alike: kappa / |I|^3 = W (4 / |I|^3 + A (8 / |I|^3 - 32 / |I|^4))
        if bins.same_size:
            x, w, wa = (self._down_to(term, start, stop) for term in (bins.x, bins.w, bins.w * bins.a))
            rows = bins.count * self._down_to(None, start, stop)
            density = inverse**2 * w
            third = inverse * (4.0 * density + (8.0 - 32.0 * inverse) * inverse**2 * wa)
            received: tuple[Array, ...] = (inverse * x, density, third, rows, inverse**2 * density)
        else:
            w = bins.w * inverse**2
            third = w * inverse * (4.0 + bins.a * (8.0 - 32.0 * inverse))
            terms = (bins.x * inverse, w, third, bins.count, w * inverse**2)
            received = tuple(self._down_to(term, start, stop) for term in terms)
        for row, values in zip((_T, _VAR, _K3, _ROWS, _W4), received, strict=True):
            self.by_level[row, finer] += values
        # the covariance of two neighbouring levels at which the bin exists is its variance
        self.by_level[_COV, start + 1 : -1] += received[1][1:]
        if parent is not None:
            self.by_level[_COV, start] += np.sum(bins.w * inverse / parent)

    def _down_to(self, term: Array | None, start: int, stop: Index) -> Array:
        """Return the sums of terms that the levels start + 1, ... receive, each term down to its stop."""
        ending: Array = np.bincount(stop, term, self.finest + 1).astype(np.float64, copy=False)
        return np.cumsum(ending[:start:-1])[::-1]


def _dot(a: Array, b: Array) -> float:
    if a.shape[0] <= _LONGEST:
        return float(a @ b)
    return sum(
        float(a[first : first + _LONGEST] @ b[first : first + _LONGEST])
        for first in range(0, a.shape[0], _LONGEST)
    )


def _cells(p: Array, level: int) -> Index:
    """Return the index of the bin of ``level`` that holds each p in [0, 1]."""
    cell = (p * 2.0**level).astype(np.int64)
    return np.minimum(cell, (1 << level) - 1, out=cell)


def _shared(cell: Index, finest: int) -> NDArray[np.int8]:
    # the exponent of a float counts binary digits; below 2**53 the conversion is exact
    digits = np.bitwise_xor(cell[1:], cell[:-1]).astype(np.float64).view(np.int64)
    np.right_shift(digits, 52, out=digits)
    np.subtract(finest + 1022, digits, out=digits)
    out = np.empty(cell.shape[0] + 1, dtype=np.int8)
    out[0] = out[-1] = -1
    np.minimum(digits, finest, out=out[1:-1], casting="unsafe")
    return out


def _sum_cells(totals: _Totals, rows: _Rows, level: int, place: Place) -> tuple[Any, _Rows]:
    """Return the sums over the cells of ``level``, and the rows of those with more than two groups.

    What cells with fewer give to ``level`` and all finer ones is added to the totals; ``place`` turns cells
    into indices from 0 on, and their number. At the finest level every cell is added, and no row is left.
    """
    finest = totals.finest
    code = _cells(rows.p, finest)
    shared = _shared(code, finest)
    np.right_shift(code, finest - level, out=code)
    cell, n_cells = place(code)
    bins = _Bins.of(rows)
    q, v2 = bins.s * bins.s, bins.a * bins.a
    if not bins.same_size:
        q -= bins.x
        v2 -= bins.w
    # without rows or weights bincount returns integers
    sums = [
        np.bincount(cell, term, n_cells).astype(np.float64, copy=False)
        for term in (bins.s, bins.a, q, v2, rows.weight)
    ]
    if level == finest:
        every = np.stack((*sums, np.zeros(n_cells)))
        totals.add(level, every)
        return every, rows.part(slice(0, 0))
    finer = sums[_A] * sums[_A]
    finer -= sums[_V2]
    finer /= np.maximum(sums[_N], 1.0)
    return [*sums, finer], rows.part(np.flatnonzero(_add_pairs(totals, bins, shared, level)))


def _add_pairs(totals: _Totals, bins: _Bins, shared: NDArray[np.int8], level: int) -> NDArray[np.bool_]:
    """Add what cells of ``level`` with one or two groups give to it and all finer levels; mark the others."""
    start = level - 1
    together = shared >= level
    with_last, with_next = together[:-1], together[1:]
    company = with_last | with_next
    if not bins.same_size:
        alone = np.flatnonzero(~company)
        _add_alone(totals, bins.at(alone), np.full(alone.shape[0], start), None)
    begins = with_next[:-1] & ~with_last[:-1] & ~with_next[1:]
    company[:-1] &= ~begins
    company[1:] &= ~begins
    left = np.flatnonzero(begins)
    if left.shape[0]:
        first, second = bins.at(left), bins.at(left + 1)
        pair, until = first.merge(second), shared[left + 1].astype(np.int64)
        totals.add_range(pair, start, until)
        _add_alone(totals, first, until, pair.count)
        _add_alone(totals, second, until, pair.count)
    return company


def _add_alone(totals: _Totals, bins: _Bins, start: Index, parent: Any) -> None:
    """Add groups that are alone in their bin from level start + 1 on; those of one row give nothing."""
    if not bins.same_size:
        several = np.flatnonzero(bins.count > 1.5)
        stop = np.full(several.shape[0], totals.finest)
        totals.add_range(bins.at(several), start[several], stop, None if parent is None else parent[several])


def _halve(sums: Any) -> Array:
    """Return the sums of the next coarser level."""
    out = np.empty((len(sums), sums[0].shape[0] // 2))
    for row, values in enumerate(sums):
        np.add(values[::2], values[1::2], out=out[row])
    return out


def _climb(totals: _Totals, sums: Any, level: int, last: int) -> Any:
    """Add the levels coarser than ``level`` down to ``last`` to the totals; return the sums of ``last``."""
    for current in range(level - 1, last - 1, -1):
        sums = _halve(sums)
        totals.add(current, sums)
    return sums


def _refine(totals: _Totals, rows: _Rows, level: int, crowded: dict[int, list[_Rows]]) -> None:
    """Go on with the rows of crowded cells of ``level``: add that level, and some finer ones.

    The rows of cells that are crowded still are put down under the level that was reached.
    """
    n_rows = rows.p.shape[0]
    if n_rows == 0:
        return
    n_roots = group_starts(_cells(rows.p, level)).shape[0]
    reached = min(totals.finest, level + (n_rows // n_roots).bit_length())
    sums, rest = _sum_cells(totals, rows, reached, partial(_from_roots, reached - level))
    _climb(totals, sums, reached, level)
    if rest.p.shape[0]:
        crowded.setdefault(reached, []).append(rest)


def _from_origin(origin: int, n_cells: int, cell: Index) -> tuple[Index, int]:
    """Count cells from the first one of a block."""
    cell -= origin
    return cell, n_cells


def _from_roots(step: int, cell: Index) -> tuple[Index, int]:
    """Count the cells inside those cells ``step`` levels coarser that occur, one of these after the other."""
    root = cell >> step
    change = np.zeros_like(root)
    np.not_equal(root[1:], root[:-1], out=change[1:], casting="unsafe")
    index = np.cumsum(change, out=change)
    n_cells = (int(index[-1]) + 1) << step
    np.left_shift(index, step, out=index)
    cell &= (1 << step) - 1
    index |= cell
    return index, n_cells


def _blocks(p: Array, level: int) -> Iterator[slice]:
    """Cut many rows into blocks, all rows of a cell of ``level`` in the same."""
    n, size = p.shape[0], 1 << _BLOCK_LEVELS
    starts = group_starts(_cells(p, level)) if n > 2 * size else np.zeros(1, dtype=np.intp)
    wanted = np.searchsorted(starts, np.arange(size, n, size))
    cuts = np.unique(starts[wanted[wanted < starts.shape[0]]])
    for first, last in pairwise([0, *cuts[cuts > 0].tolist(), n]):
        yield slice(first, last)
