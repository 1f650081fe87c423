"""Sums over the nested bins of T-Cal, and the debiased statistic T of every level with its null moments.

Level k cuts [0, 1] into 2^k bins of equal width, the last closed at 1. With the residuals r_i = y_i - p_i
of the samples in a bin I, S = sum r_i and Q = sum r_i^2, the statistic of a level is eq. (6) of [1]_,

    T = sum over bins I of X / (n |I|),   X = S^2 - Q = sum over i != j in I of r_i r_j.

If the predictions are the event probabilities, samples are independent with variance v = p (1 - p) and third
central moment m = v (1 - 2p); hence X has mean 0 and

    variance         2 W,  W = (sum v)^2 - sum v^2
    third cumulant   4 [(sum m)^2 - sum m^2] + 8 [(sum v)^3 - 3 sum v sum v^2 + 2 sum v^3],

bins of a level are independent, and for a bin f inside a bin c of a coarser level cov(X_f, X_c) = var(X_f).
All of this needs sums over bins only, which :class:`NestedBins` makes in O(n) for all levels together.

.. [1] D. Lee, X. Huang, H. Hassani, E. Dobriban (2023). T-Cal: An optimal test for the calibration of
   predictive models. Journal of Machine Learning Research 24.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._grouping import CHUNK, GroupedOutcomes, group_starts, ones
from sklearn_calib._typing import Array

#: Finest level: predictions in [1/2, 1] are multiples of 2**-53, and finer bins do not separate them.
MAX_LEVEL = 52

# A standard deviation below this fraction of the expected sum of squares is rounding error.
_ROUNDING = 1e-6

# Groups in a block, so that its sums stay in cache: for one sample, and for many of them.
_BLOCK, _BLOCK_OF_MANY = 3 << 14, 1 << 12


@dataclass(frozen=True, eq=False)
class NullMoments:
    """The statistic of one or several partitions, and its moments under perfect calibration.

    One entry for each partition: ``statistic`` is T, whose mean is 0; ``variance`` and ``third_cumulant``
    belong to it; ``covariance`` is that with the next entry (0 for the last). ``n_paired`` counts the
    samples that share their bin, ``pairs`` is the number of pairs of deviating samples behind T, see
    :func:`effective_pairs`, and ``noise`` the expected sum of Q / (n |I|).
    """

    statistic: Array
    variance: Array
    third_cumulant: Array
    covariance: Array
    n_paired: Array
    pairs: Array
    noise: Array

    @property
    def deviation(self) -> Array:
        """The standard deviation of T, kept above what is rounding of S^2 - Q, so that it can divide."""
        return np.maximum(np.sqrt(self.variance), _ROUNDING * self.noise)


def effective_pairs(w2: Array, w4: Array) -> Array:
    """Return (sum W/|I|^2)^2 / (2 sum W/|I|^4), from the two sums over bins.

    If all bins have the same size this is sum W/2, the sum of v_i v_j over the pairs of samples in the same
    bin: for rare events, the expected number of pairs of events. Bins are weighted by their fraction of the
    variance of T, so that bins with few samples that dominate the variance are not outweighed by others.
    """
    w2 = np.maximum(w2, 0.0)
    return np.divide(w2 * w2, 2.0 * w4, out=np.zeros_like(w2), where=w4 > 0.0)


class NestedBins:
    """Bins of several levels, each inside a bin of the next coarser one, and sums over all of them.

    At a middle level, with 4 to 8 groups in a bin, groups are summed once; coarser levels add neighboring
    bins. At finer levels only those groups matter that share a bin or contain several samples. Groups are
    handled in blocks, so that sums stay in cache.

    Parameters
    ----------
    grouped : GroupedOutcomes
        Predictions in increasing order, with integer weights, the numbers of their samples. Some may be tied.
    finest : int, default=1
        The levels are 1, ..., ``finest``.
    bin_of : ndarray of shape (groups,) or None, default=None
        The bin of each group, non-decreasing, if there is a single level of other bins.
    scale : ndarray of shape (groups,) or None, default=None
        Sampling weights w of the samples of each group: residuals are w (y - p), their moments w^2 v and
        w^3 m, and |I| remains the number of samples.
    """

    def __init__(
        self,
        grouped: GroupedOutcomes,
        finest: int = 1,
        bin_of: NDArray[np.int64] | None = None,
        scale: Array | None = None,
    ) -> None:
        self.grouped, self.n_levels = grouped, finest
        n_groups = grouped.prob.shape[0]
        self.scale = ones(n_groups) if scale is None else scale
        self._shared = np.zeros(n_groups, dtype=np.int8)
        if bin_of is None:
            for rows in blocks(n_groups - 1):
                code = _equal_bins(grouped.prob[rows.start : rows.stop + 1], finest).astype(np.int64)
                self._shared[rows.start + 1 : rows.stop + 1] = _shared_levels(code, finest)
            n_occupied = int(np.count_nonzero(self._shared < finest))
            self._middle = min(finest, max(n_occupied.bit_length() - 3, 1))
            self._n_bins, self._bin_of = 1 << self._middle, np.empty(n_groups, dtype=np.int32)
            for rows in blocks(n_groups):
                self._bin_of[rows] = _equal_bins(grouped.prob[rows], self._middle)
        else:
            self._middle = 1
            self._bin_of = np.cumsum(np.append(False, bin_of[1:] > bin_of[:-1]), dtype=np.int32)
            self._n_bins = int(self._bin_of[-1]) + 1
        self._count = np.zeros(self._n_bins)
        for rows in self._blocks(_BLOCK):
            low = self._bin_of[rows.start]
            found = np.bincount(self._bin_of[rows] - low, grouped.weight[rows])
            self._count[low : low + found.shape[0]] += found

    def moments(self, prob: Array | None = None) -> NullMoments:
        """Return T of the sample, and its moments if ``prob``, by default the predictions, is true."""
        grouped, n = self.grouped, self.grouped.total
        null = grouped.prob if prob is None else prob
        totals, sums = np.zeros((7, 2 * self.n_levels)), np.zeros((7, self._n_bins))
        for rows in self._blocks(_BLOCK):
            self._add_block(rows, null, sums, totals)
        count = self._count
        for level in range(self._middle, 0, -1):
            coarser = count[::2] + count[1::2] if level > 1 else count
            for part in blocks(count.shape[0], CHUNK):
                several = part.start + np.flatnonzero(count[part] > 1.5)
                size, around = count[several], coarser[several // 2 if level > 1 else several]
                terms = _terms(size, sums[:, several])
                for total, bin_size, term in zip(totals, [size] * 6 + [around], terms, strict=True):
                    total[level - 1] += np.einsum("b,b->", 1.0 / bin_size, term)
                if level > 1:
                    left, right = sums[:, part.start : part.stop : 2], sums[:, part.start + 1 : part.stop : 2]
                    sums[:, part.start // 2 : part.stop // 2] = left + right
            count = coarser
        statistic, w2, w4, third, noise, n_paired, covariance = _of_levels(totals.T).T
        return NullMoments(
            statistic=statistic / n,
            variance=2.0 * w2 / n**2,
            third_cumulant=third / n**3,
            # that with the next coarser level belongs to the latter
            covariance=2.0 * np.append(covariance[1:], 0.0) / n**2,
            n_paired=np.rint(n_paired),
            pairs=effective_pairs(w2, w4),
            noise=noise / n,
        )

    def _add_block(self, rows: slice, null: Array, sums: Array, totals: Array) -> None:
        """Add a block to the sums over bins of the middle level, and its finer bins to the totals."""
        grouped, bins = self.grouped, self._within(rows)
        parts = grouped.positives, grouped.weight, grouped.prob, null, self.scale
        # products with all columns at once read a matrix once
        inner = np.ascontiguousarray((bins.adder @ _columns(*(part[rows] for part in parts))).T)
        sums[:, bins.occupied] += inner[:, : bins.occupied.shape[0]]
        *shared, covered = _terms(bins.size, inner)
        totals[:6] += [bins.share @ term for term in shared]
        totals[6] += bins.cover @ covered

    def statistic_around(self, center: Array) -> "NestedStatistic":
        """Return the function that computes T, with residuals around ``center``, of many samples."""
        return NestedStatistic(self, center)

    def _blocks(self, size: int) -> Iterator[slice]:
        """Yield blocks of about ``size`` groups that fill bins of the middle level if there are finer."""
        n_groups = self._bin_of.shape[0]
        # equal ones, as a short one at the end takes as much time for its levels
        size = -(-n_groups // max(n_groups // size, 1))
        if self._middle == self.n_levels:
            yield from blocks(n_groups, size)
            return
        # the first group of the bin that holds each of some groups
        cuts = np.unique(np.searchsorted(self._bin_of, self._bin_of[::size]))
        for first, last in pairwise([*cuts.tolist(), n_groups]):
            yield slice(first, last)

    def _within(self, rows: slice) -> "_BlockBins":
        """Return the bins of a block: those of the middle level, and finer ones of two samples and more."""
        weight, bin_of = self.grouped.weight[rows], self._bin_of[rows]
        position, tied = np.append(0.0, np.cumsum(weight)), weight > 1.5
        any_tied = tied.any()
        starts = group_starts(bin_of)
        occupied, n_bins = bin_of[starts], starts.shape[0]
        # bins of the level before
        number, size = np.arange(n_bins, dtype=np.int32), self._count[occupied]
        bins = [(starts, np.append(starts[1:], weight.shape[0]), size)]
        share: list[tuple[Any, ...]] = [(0, number[:0], size[:0])]
        cover = share.copy()
        # groups that still share a bin, that bin, and the level that each shares with the one before
        index: NDArray[Any] = np.arange(weight.shape[0])
        outer: NDArray[Any] = np.repeat(number, np.diff(starts, append=index.size))
        shared: NDArray[Any] = self._shared[rows]
        for level in range(self._middle + 1, self.n_levels + 1):
            deep = shared >= level
            together = deep.copy()
            together[:-1] |= deep[1:]
            # a group alone in its bin is so at all finer levels
            alone = np.flatnonzero(tied[index] & ~together) if any_tied else starts[:0]
            if alone.size:
                own = weight[index[alone]]
                bins.append((index[alone], index[alone] + 1, own))
                new = np.arange(n_bins, n_bins + alone.size, dtype=np.int32)
                share.append((self.n_levels + level - 1, new, own))
                cover.append((level - 1, new, size[outer[alone]]))
                if level < self.n_levels:
                    cover.append((self.n_levels + level, new, own))
                n_bins += alone.size
            kept = np.flatnonzero(together)
            if not kept.size:
                break
            if kept.size < index.size:
                index, shared, outer = (part.take(kept) for part in (index, shared, outer))
            first = shared < level
            starts = np.flatnonzero(first)
            begins, ends = index[starts], index[np.append(starts[1:], index.size) - 1] + 1
            around, number = size[outer[starts]], number[outer[starts]]
            size = position[ends] - position[begins]
            # others are bins of the level before, too
            new = np.flatnonzero(size < around)
            number[new] = np.arange(n_bins, n_bins + new.size)
            n_bins += new.size
            bins.append((begins[new], ends[new], size[new]))
            share.append((level - 1, number, size))
            cover.append((level - 1, number, around))
            outer = np.cumsum(first) - 1
        begins, ends, size = (np.concatenate(column) for column in zip(*bins, strict=True))
        shape = 2 * self.n_levels, n_bins
        adder = _range_sums(begins, ends, weight.shape[0])
        return _BlockBins(occupied, size, adder, _inverses(share, shape), _inverses(cover, shape))


@dataclass(frozen=True, eq=False)
class _BlockBins:
    """Bins of a block, and their sizes |I|; the first ones are the bins ``occupied`` of the middle level.

    ``adder`` sums over the groups of each bin. ``share`` adds up terms / |I| at each level below the middle
    one at which a bin I exists, and ``cover`` terms / |J|, where J is the bin of the next coarser level that
    contains I. The second half of their rows is for all levels from one on.
    """

    occupied: NDArray[np.int32]
    size: Array
    adder: csr_array
    share: csr_array
    cover: csr_array


def _inverses(entries: list[tuple[Any, ...]], shape: tuple[int, int]) -> csr_array:
    """Return the matrix with 1 / size at the bins of a row, from entries (row, bins, size)."""
    entries = sorted(entries, key=itemgetter(0))
    counts = np.bincount([row for row, _, _ in entries], [bins.size for _, bins, _ in entries], shape[0])
    bins, size = (np.concatenate([entry[k] for entry in entries]) for k in (1, 2))
    pointers = np.append(0, np.cumsum(counts)).astype(np.int32)
    return csr_array((np.divide(1.0, size, out=size), bins, pointers), shape)


def _of_levels(total: Array) -> Array:
    """Return the total of each level, from sums for single levels and for all levels from one on."""
    single, from_one_on = np.split(total, 2)
    out: Array = single + np.cumsum(from_one_on, axis=0)
    return out


class NestedStatistic:
    """T of each level for samples of the same predictions; see :meth:`NestedBins.statistic_around`."""

    def __init__(self, bins: NestedBins, center: Array) -> None:
        self._bins = bins
        weight, scale = bins.grouped.weight, bins.scale
        self._expected = (weight * center)[:, np.newaxis]
        self._scale = None if (scale == 1.0).all() else scale[:, np.newaxis]
        # in a group of w samples around c, sum r^2 = w c (1 - c) + (1 - 2c) sum r: Q is linear in the
        # residuals
        slope, constant = scale * (1.0 - 2.0 * center), scale * scale * weight * center * (1.0 - center)
        self._constant = np.bincount(bins._bin_of, constant, bins._n_bins)[:, np.newaxis]
        self._finer_constant = np.zeros((2 * bins.n_levels, 1))
        self._parts: list[tuple[Any, ...]] = []
        for rows in bins._blocks(_BLOCK_OF_MANY):
            found = bins._within(rows)
            # Q / |I|, added up over the bins of each level
            squares = csr_array(found.share @ found.adder)
            self._finer_constant[:, 0] += squares @ constant[rows]
            squares.data *= slope[rows][squares.indices]
            own = found.adder[: found.occupied.shape[0]]
            own.data = slope[rows][own.indices]
            self._parts.append((rows, found.occupied, found.adder, own, found.share, squares))

    def __call__(self, positives: NDArray[Any]) -> Array:
        """Return T, shape (r, levels), from the positives of each group, shape (groups, r)."""
        bins, r = self._bins, positives.shape[1]
        s: Array = np.zeros((bins._n_bins, r))
        q: Array = np.repeat(self._constant, r, axis=1)
        total = np.repeat(-self._finer_constant, r, axis=1)
        for rows, occupied, adder, own, share, squares in self._parts:
            # as sparse products need it
            residual = np.ascontiguousarray(positives[rows]) - self._expected[rows]
            if self._scale is not None:
                residual *= self._scale[rows]
            sums = adder @ residual
            s[occupied] += sums[: occupied.shape[0]]
            q[occupied] += own @ residual
            sums *= sums
            total += share @ sums - squares @ residual
        total = _of_levels(total)
        count = bins._count
        for level in range(bins._middle, 0, -1):
            # eq. (6)
            x = s * s
            x -= q
            total[level - 1] += np.where(count > 1.5, 1.0 / np.maximum(count, 1.0), 0.0) @ x
            if level > 1:
                s, q, count = s[::2] + s[1::2], q[::2] + q[1::2], count[::2] + count[1::2]
        return total.T / bins.grouped.total


def _columns(positives: NDArray[Any], weight: Array, center: Array, null: Array, scale: Array) -> Array:
    """Return what groups add to S, Q, sum v, sum v^2, sum v^3, sum m and sum m^2."""
    out = np.empty((weight.shape[0], 7))
    columns = out.T
    residual = scale * (positives - weight * center)
    v = scale * scale * null * (1.0 - null)
    m = scale * v * (1.0 - 2.0 * null)
    columns[0] = residual
    # sum r^2 = w c (1 - c) + (1 - 2c) sum r in a group of w samples around c
    columns[1] = weight * scale * scale * (center * (1.0 - center)) + scale * (1.0 - 2.0 * center) * residual
    columns[2] = weight * v
    # products, because v**3 is slow in numpy
    columns[3] = columns[2] * v
    columns[4] = columns[3] * v
    columns[5] = weight * m
    columns[6] = columns[5] * m
    return out


def _terms(size: Array, sums: Array) -> tuple[Array, ...]:
    """Return the terms of bins whose sum, over |I|, are T, the moments and numbers of a level.

    The last one, over the size of the next greater bin, is half of the covariance.
    """
    s, q, v, v2, v3, m, m2 = sums
    w = np.maximum(v * v - v2, 0.0) / size
    kappa = 4.0 * (m * m - m2) + 8.0 * (v * (v * v - 3.0 * v2) + 2.0 * v3)
    square = size * size
    # eq. (6)
    return s * s - q, w, w / square, kappa / square, v, square, w


def _equal_bins(prob: Array, level: int) -> Array:
    """Return the bin of each prediction, a whole number after conversion to integers."""
    bins = prob * 2.0**level
    return np.minimum(bins, 2.0**level - 1.0, out=bins)


def _shared_levels(bin_of: NDArray[np.int64], finest: int) -> NDArray[np.int32]:
    """Return the finest level at which each of the sorted predictions but one shares its bin with the next.

    ``bin_of`` are their bins at the level ``finest``; 0 means that only the whole interval is shared.
    """
    # the exponent of a float counts binary digits; below 2**53 the conversion is exact
    return finest - np.frexp((bin_of[1:] ^ bin_of[:-1]).astype(np.float64))[1]


def _range_sums(begins: NDArray[np.intp], ends: NDArray[np.intp], n_rows: int) -> csr_array:
    """Return the matrix that sums the rows begins, ..., ends - 1 of another one, for each of these pairs."""
    pointers = np.append(0, np.cumsum(ends - begins)).astype(np.int32)
    # steps of 1, but from the end of a range to the begin of the next
    columns = np.ones(pointers[-1], dtype=np.int32)
    columns[0] = begins[0]
    columns[pointers[1:-1]] = begins[1:] - ends[:-1] + 1
    np.cumsum(columns, out=columns)
    return csr_array((np.ones(columns.shape[0]), columns, pointers), (begins.shape[0], n_rows))
