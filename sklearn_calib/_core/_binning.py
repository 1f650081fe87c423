"""Bins of equal width, of equal mass, and narrow near 0 and 1; sums over bins in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._blocks import BLOCK_ROWS, blocks
from sklearn_calib._core._grouping import GroupedOutcomes, group_starts
from sklearn_calib._typing import Array, Codes

_POSITION_BITS = 16
#: Steps in which positions inside a bin are counted.
POSITIONS = 1 << _POSITION_BITS

# Tails begin here, as exponents of two: octaves of bins from _OUTER to _INNER, equal bins below.
_INNER, _OUTER = -8, -40
_MANTISSA = 52
_OUTER_VALUE = 2.0**_OUTER
_LINEAR = 2.0 ** (_MANTISSA - _OUTER)
# Tail codes: bits of the float from 2**_OUTER on, fixed point below, continued so that both are one scale.
_CODE_SHIFT = int(np.float64(_OUTER_VALUE).view(np.int64)) - (1 << _MANTISSA)


def uniform_bins(p: Array, n_bins: int) -> Codes:
    """Return the index of the equal-width bin [j/n, (j+1)/n) of each p in [0, 1]; the last bin is closed.

    The product p * n can round across an edge (0.29 * 100 is below 29), so near an edge p is compared with
    the edge itself.
    """
    index = np.empty(p.shape, dtype=np.int64)
    for rows in blocks(p.shape[0]):
        _place(p[rows], n_bins, index[rows])
    return index


def _place(p: Array, n_bins: int, index: Codes) -> None:
    """Write the equal-width bins of a slice of samples."""
    product = p * n_bins
    index[...] = product
    np.subtract(product, np.rint(product), out=product)
    np.abs(product, out=product)
    # products and edges have a rounding error of half an ulp each
    near = np.flatnonzero(product < n_bins * 2.0**-51)
    if near.size:
        found, value = index[near], p[near]
        found -= value < found / n_bins
        found += value >= (found + 1) / n_bins
        index[near] = np.minimum(found, n_bins - 1)


def uniform_residuals(y: Codes, p: Array, w: Array | None, n_bins: int) -> Array:
    """Return the sum of weighted residuals y - p of each equal-width bin."""
    residual = np.zeros(n_bins)
    for _, index, gap in _binned(y, p, w, n_bins):
        residual += np.bincount(index, gap, n_bins)
    return residual


def uniform_sums(y: Codes, p: Array, w: Array | None, n_bins: int) -> tuple[Array, Array, Array]:
    """Return weight, weight of positives, and sum of weighted residuals y - p of each equal-width bin."""
    weight, positives, residual = np.zeros((3, n_bins))
    for rows, index, gap in _binned(y, p, w, n_bins):
        mass = np.ones(index.shape[0]) if w is None else w[rows]
        weight += np.bincount(index, mass, n_bins)
        positives += np.bincount(index, mass * y[rows], n_bins)
        residual += np.bincount(index, gap, n_bins)
    return weight, positives, residual


def _binned(y: Codes, p: Array, w: Array | None, n_bins: int) -> Iterator[tuple[slice, Codes, Array]]:
    """Yield slices of the samples with their bins and weighted residuals."""
    spare = np.empty(min(p.shape[0], BLOCK_ROWS), dtype=np.int64)
    for rows in blocks(p.shape[0]):
        prob = p[rows]
        index = spare[: prob.shape[0]]
        _place(prob, n_bins, index)
        gap = y[rows] - prob
        yield rows, index, gap if w is None else w[rows] * gap


def weight_middles(weight: Array) -> Array:
    """Return the midpoint of the cumulative weight of each group; columns are samples."""
    if weight.ndim == 1 and (weight == 1.0).all():
        return np.arange(0.5, weight.shape[0])
    middle = np.cumsum(weight, axis=0, dtype=np.float64)
    middle -= 0.5 * weight
    return middle


def quantile_bins(weight: Array, n_bins: int) -> Codes:
    """Return the equal-mass bin of each group, by the midpoint of its cumulative weight.

    A group is never divided, so ties stay together; a bin can be empty. Columns are samples.
    """
    place = weight_middles(weight)
    place *= n_bins / weight.sum(axis=0)
    return np.minimum(np.floor(place, out=place), n_bins - 1, out=place).astype(np.int64)


def quantile_starts(middle: Array, total: float, n_bins: int) -> NDArray[np.intp]:
    """Return the first group of each occupied equal-mass bin, from the middles of the weights.

    The bins are those of :func:`quantile_bins`, found in O(n_bins log n).
    """
    scale, edges = n_bins / total, np.arange(1.0, n_bins)
    found = np.searchsorted(middle, edges / scale)
    # the quotient is rounded, but the product decides
    while (early := (found > 0) & (middle[found - 1] * scale >= edges)).any():
        found -= early
    last = middle.shape[0] - 1
    while (late := (found <= last) & (middle[np.minimum(found, last)] * scale < edges)).any():
        found += late
    starts = np.append(0, found[found <= last])
    return starts[group_starts(starts)]


def fixed_bins(p: Array, bins: int | Array) -> Codes:
    """Return the bin [a, b) of each p in [0, 1], of equal width or between edges; the last bin is closed."""
    return uniform_bins(p, bins) if isinstance(bins, int) else np.searchsorted(bins[1:-1], p, side="right")


def bin_starts(grouped: GroupedOutcomes, bins: int | Array, strategy: str) -> NDArray[np.intp]:
    """Return the first group of each occupied bin: of edges, of equal mass ("quantile") or equal width."""
    if strategy == "quantile" and isinstance(bins, int):
        return quantile_starts(weight_middles(grouped.weight), grouped.total, bins)
    return group_starts(fixed_bins(grouped.prob, bins))


def bin_offsets(x: Array, n_bins: int) -> tuple[Codes, Array]:
    """Return the equal-width bin of each x in [0, 1], and the offset from its center in widths.

    Bins are those of the rounded product, unlike in :func:`uniform_bins`; the offset is consistent with them.
    """
    offset = x * n_bins
    whole = np.floor(offset)
    np.minimum(whole, n_bins - 1, out=whole)
    offset -= whole
    offset -= 0.5
    return whole.astype(np.int64), offset


class OctaveBins:
    """Bins of a sketch: equal width in the middle, and an equal number in each octave near 0 and 1.

    Bins cover [0, 1] in increasing order, each half open, [low, high):

    - one bin each for the values 0 and 1;
    - for p from 2**-8 to 1 - 2**-8, bins of width 2**-precision;
    - below 2**-8, and symmetrically for 1 - p, 2**(precision - 8) bins of equal width for each octave, down
      to 2**-40; the same number of bins of equal width covers the remaining interval.

    The position inside a bin is measured in steps of 2**-16 of its width, rounded down, so that the sum of
    positions is a sum of integers. Only positive values below the first step, 2**-(precision + 48), are
    rounded up to it.
    """

    def __init__(self, precision: int) -> None:
        per_octave = 1 << (precision + _INNER)
        tail = (_INNER - _OUTER + 1) * per_octave
        middle = (1 << precision) - 2 * per_octave
        self.precision = precision
        # bits of a tail code that encode the position inside a bin
        self._shift = _MANTISSA - (precision + _INNER)
        self._first_middle, self._n_middle, self._edge = 1 + tail, middle, per_octave
        # bins of the upper tail are numbered downwards from 1
        self._one = 1 + tail + middle + tail
        self.n_bins = self._one + 1
        self._scale = 2.0 ** (precision + _POSITION_BITS)

    def locate(self, p: Array) -> tuple[Codes, Codes]:
        """Return bin and position of each checked prediction."""
        position = (p * self._scale).astype(np.int64)
        index = (position >> _POSITION_BITS) - self._edge
        position &= POSITIONS - 1
        # as unsigned integers, negative numbers are large
        rows = np.flatnonzero(index.view(np.uint64) >= self._n_middle)
        index += self._first_middle
        upper = p[rows] > 0.5
        for side, part in ((False, rows[~upper]), (True, rows[upper])):
            if part.shape[0]:
                index[part], position[part] = self._locate_tail(p[part], side)
        return index, position

    def _locate_tail(self, p: Array, upper: bool) -> tuple[Codes, Codes]:
        """Return bin and position in one tail."""
        q = 1.0 - p if upper else p
        code = q.view(np.int64) - _CODE_SHIFT
        small, step = np.flatnonzero(q < _OUTER_VALUE), 1 << (self._shift - _POSITION_BITS)
        code[small] = np.maximum((q[small] * _LINEAR).astype(np.int64), step)
        if upper:
            # with negative codes these bins are half open on the upper side, too
            np.negative(code, out=code)
        place = (code & ((1 << self._shift) - 1)) >> (self._shift - _POSITION_BITS)
        code >>= self._shift
        code += self._one if upper else 1
        alone = q == 0.0
        code[alone], place[alone] = self._one if upper else 0, 0
        return code, place

    def edges(self, index: Codes) -> tuple[Array, Array]:
        """Return the lower edge and the width of bins; bins of a single value have width 0."""
        low, width = np.zeros(index.shape[0]), np.zeros(index.shape[0])
        low[index == self._one] = 1.0
        middle = (index >= self._first_middle) & (index < self._first_middle + self._n_middle)
        width[middle] = 2.0**-self.precision
        low[middle] = (index[middle] - self._first_middle + self._edge) * width[middle]
        lower = (index > 0) & (index < self._first_middle)
        low[lower], width[lower] = self._tail_edges(index[lower] - 1)
        upper = (index >= self._first_middle + self._n_middle) & (index < self._one)
        # the bin that ends where 1 - p is q begins where 1 - p is q + width
        near, width[upper] = self._tail_edges(self._one - 1 - index[upper])
        low[upper] = 1.0 - (near + width[upper])
        return low, width

    def _tail_edges(self, number: Codes) -> tuple[Array, Array]:
        """Return the edge toward 0 and the width of the bins of a tail, counted from 0."""
        ends = [self._tail_value((number + step) << self._shift) for step in (0, 1)]
        return ends[0], ends[1] - ends[0]

    def _tail_value(self, code: Codes) -> Array:
        value: Array = (code + _CODE_SHIFT).view(np.float64)
        small = code < 1 << _MANTISSA
        value[small] = code[small] / _LINEAR
        return value


@lru_cache(maxsize=8)
def octave_bins(precision: int) -> OctaveBins:
    """Return the bins of a precision."""
    return OctaveBins(precision)


def octaves_pooled(grouped: GroupedOutcomes, precision: int) -> GroupedOutcomes:
    """Return one group for each occupied bin of a precision, at the mean of its predictions."""
    bins, index = octave_bins(precision), np.empty(grouped.prob.shape[0], dtype=np.int32)
    for rows in blocks(index.shape[0]):
        index[rows] = bins.locate(grouped.prob[rows])[0]
    return grouped.pooled(group_starts(index))
