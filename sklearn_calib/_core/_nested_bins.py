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
predictive
   models. Journal of Machine Learning Research 24.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from sklearn_calib._core._grouping import GroupedOutcomes, group_starts
from sklearn_calib._typing import Array

#: Finest level: predictions in [1/2, 1] are multiples of 2**-53, and finer bins do not separate them.
MAX_LEVEL = 52

#: Down to this level the third cumulant is exact (for 2**19 groups and more, up to a relative error of about
#: 2**-12). Samples in a narrower bin are treated as equal, an error of the order of the width of the bin.
EXACT_LEVELS = 12

# With so many groups the third cumulants come from sums over the bins of this level.
_ALIKE_FROM, _ALIKE_LEVEL = 1 << 19, EXACT_LEVELS + 5

# A standard deviation below this fraction of the expected sum of squares is rounding error.
_ROUNDING = 1e-6

# Groups in a block, so that its sums stay in cache: for one sample, and for many of them.
_BLOCK, _BLOCK_OF_MANY = 1 << 16, 1 << 12

Levels = NDArray[np.int8]


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


@dataclass(frozen=True, eq=False)
class _Bins:
    """Some bins of two samples and more, each a bin of one level, or of several neighbouring ones.

    ``inverse`` is 1/|I|; ``above`` is that of the next greater bin. A
    bin exists at the levels start + 1, ..., stop, and all of a kind at the same; ``kinds`` adds up terms /
    |I| of each kind (None if all are bins of one level).
    """

    count: Array
    inverse: Array
    above: Array
    start: Any
    stop: Any
    kinds: Any = None

    @classmethod
    def of_ranges(cls, count: Array, coarser: Array, start: Levels, stop: Levels) -> "_Bins":
        """Return bins that exist at different levels; ``coarser`` are the counts of the next greater bins."""
        kind = start.astype(np.int16) * (MAX_LEVEL + 1) + stop
        occurs = np.bincount(kind) > 0
        found, inverse = np.flatnonzero(occurs), 1.0 / count
        index = (np.cumsum(occurs, dtype=np.int32) - 1).take(kind)
        kinds = csc_array((inverse, index, np.arange(kind.size + 1, dtype=np.int32)), (found.size, kind.size))
        return cls(count, inverse, 1.0 / coarser, *np.divmod(found, MAX_LEVEL + 1), kinds)

    def exist(self, n_levels: int) -> Array:
        """Return 1 for each level (row) and kind (column) of bins that exist there, else 0."""
        level = np.arange(1, n_levels + 1)[:, np.newaxis]
        return ((self.start < level) & (level <= self.stop)).astype(np.float64)

    def add(self, total: Array, terms: Array) -> None:
        """Add terms / |I| to the total of each level at which a bin exists."""
        if self.kinds is None:
            # not BLAS, which starts threads for long vectors
            total[self.stop - 1] += np.einsum("b,b->", self.inverse, terms)
        else:
            total += self.exist(total.shape[0]) @ (self.kinds @ terms)

    def add_covariance(self, total: Array, w: Array) -> None:
        """Add W / (|I| |J|) of each bin I to the next coarser level, whose bin J contains it."""
        if self.kinds is None:
            if self.start > 0:
                total[self.start - 1] += np.einsum("b,b,b->", w, self.inverse, self.above)
            return
        level = np.arange(1, total.shape[0] + 1)[:, np.newaxis]
        total += ((self.start < level) & (level < self.stop)) @ (self.kinds @ (w * self.inverse))
        total += (self.start == level) @ (self.kinds @ (w * self.above))


class _Tree(NamedTuple):
    """Bins of a block below the middle level, sums over each, its first group, and the one after it."""

    bins: _Bins
    sums: Array
    begins: NDArray[Any]
    ends: NDArray[Any]


class NestedBins:
    """Bins of several levels, each inside a bin of the next coarser one, and sums over all of them.

    At a middle level, with somewhat fewer bins than groups, samples are summed once; coarser levels add
    neighbouring bins. At finer levels only those groups matter that share a bin. They form a binary tree,
    in which a union of neighbours is a bin of one or several levels, and is summed once. Groups are handled
    in blocks, so that sums stay in cache.

    Parameters
    ----------
    grouped : GroupedOutcomes
        Predictions in increasing order, with integer weights, the numbers of their samples.
    finest : int, default=1
        The levels are 1, ..., ``finest``.
    bin_of : ndarray of shape (groups,) or None, default=None
        The bin of each group, non-decreasing, if there is a single level of other bins.
    fine : bool, default=False
        Whether the middle level has 1 to 2 groups in a bin, with which the moments take less time, instead
        of 4 to 8, with which the statistics of many samples do.
    """

    def __init__(
        self,
        grouped: GroupedOutcomes,
        finest: int = 1,
        bin_of: NDArray[np.int64] | None = None,
        fine: bool = False,
    ) -> None:
        self.grouped, self.n_levels = grouped, finest
        weight, n_groups = grouped.weight, grouped.prob.shape[0]
        self._dyadic = bin_of is None
        if bin_of is None:
            code = _bin_index(grouped.prob, finest)
            self._shared = shared_levels(code, finest)
            # a leaf holds the groups of one bin of the finest level
            self._leaf = np.flatnonzero(self._shared[:-1] < finest)
            self._middle = min(finest, max(self._leaf.shape[0].bit_length() - (1 if fine else 3), 1))
            self._bin_of = np.right_shift(code, finest - self._middle, out=code)
            self._n_bins = 1 << self._middle
        else:
            self._leaf = group_starts(bin_of)
            self._middle, self._n_bins = 1, self._leaf.shape[0]
            self._bin_of = np.repeat(np.arange(self._n_bins), np.diff(self._leaf, append=n_groups))
        self._count = np.bincount(self._bin_of, weight, self._n_bins).astype(np.float64, copy=False)

    def moments(self, prob: Array | None = None) -> NullMoments:
        """Return T of the sample, and its moments if ``prob``, by default the predictions, is true."""
        grouped, n = self.grouped, self.grouped.total
        null = grouped.prob if prob is None else prob
        statistic, w2, w4, third, covariance, n_paired, noise = np.zeros((7, self.n_levels))

        def add(bins: _Bins, sums: Any) -> None:
            s, q, a, v2, _ = sums
            # eq. (6)
            bins.add(statistic, s * s - q)
            w = np.maximum(a * a - v2, 0.0)
            bins.add_covariance(covariance, w)
            bins.add(noise, a)
            bins.add(n_paired, bins.count * bins.count)
            w *= bins.inverse
            bins.add(w2, w)
            w *= bins.inverse
            # samples alike: v = A/|I| and (1 - 2p)^2 = 1 - 4v, hence the third cumulant of X is
            # 4 W [1 + 2 A (1 - 4/|I|)]
            bins.add(third, w * (4.0 + a * (8.0 - 32.0 * bins.inverse)))
            bins.add(w4, w * bins.inverse)

        def climb(totals: Array, level: int, last: int) -> Array:
            """Add the levels down to ``last``, and return the sums of the one before."""
            for current in range(level, last - 1, -1):
                coarser = totals[:, ::2] + totals[:, 1::2] if current > 1 else totals
                for first in range(0, totals.shape[1], _BLOCK):
                    part = totals[:, first : first + _BLOCK]
                    some = np.flatnonzero(part[4] > 1.5)
                    count = part[4].take(some)
                    above = coarser[4, first >> 1 :].take(some >> 1) if current > 1 else count
                    add(_Bins(count, 1.0 / count, 1.0 / above, current - 1, current), part.take(some, axis=1))
                totals = coarser
            return totals

        # of many bins, a part that stays in cache is added up to a coarser level at a time
        coarse = min(self._middle, _ALIKE_LEVEL)
        n_bins = self._n_bins if coarse == self._middle else _BLOCK
        steps = self._middle - coarse
        totals = np.zeros((5, self._n_bins >> steps))
        for first in range(0, self._n_bins, n_bins):
            begin, end = np.searchsorted(self._bin_of, (first, first + n_bins))
            part = np.zeros((5, n_bins))
            part[4] = self._count[first : first + n_bins]
            for rows in self._blocks(_BLOCK, begin, end):
                p, w = grouped.prob[rows], grouped.weight[rows]
                columns = np.empty((5, p.shape[0]))
                # sum r^2 = w p (1 - p) + (1 - 2p) sum r in a group of w samples
                v = p * (1.0 - p)
                columns[0] = grouped.positives[rows] - w * p
                columns[1] = w * v + (1.0 - 2.0 * p) * columns[0]
                if prob is not None:
                    v = prob[rows] * (1.0 - prob[rows])
                columns[2] = w * v
                columns[3] = columns[2] * v
                columns[4] = w
                finer = self._finer(rows, columns)
                if finer is not None:
                    add(finer.bins, finer.sums)
                low, high = self._bin_of[rows.start], self._bin_of[rows.stop - 1] + 1
                bin_of = self._bin_of[rows] - low
                for total, row in zip(part[:4, low - first : high - first], columns[:4], strict=True):
                    total[:] = np.bincount(bin_of, row)
            if end > begin:
                totals[:, first >> steps : (first + n_bins) >> steps] = climb(part, self._middle, coarse + 1)
        powers = None
        if coarse == _ALIKE_LEVEL and self._leaf.shape[0] >= _ALIKE_FROM:
            powers = _alike_powers(totals[2], totals[3], totals[4])
        climb(totals, coarse, 1)
        exact = self._third_cumulants(null, powers)
        third[: exact.shape[0]] = exact
        return NullMoments(
            statistic=statistic / n,
            variance=2.0 * w2 / n**2,
            third_cumulant=third / n**3,
            covariance=2.0 * covariance / n**2,
            n_paired=np.rint(n_paired),
            pairs=effective_pairs(w2, w4),
            noise=noise / n,
        )

    def statistic_around(self, centre: Array) -> Callable[[NDArray[Any]], Array]:
        """Return the function that computes T from samples of the same predictions.

        Its argument, of shape (groups, r), holds the numbers of positive samples of each group; its result,
        of shape (r, levels), T with residuals around the probabilities ``centre``.
        """
        n, weight, n_levels, n_bins = self.grouped.total, self.grouped.weight, self.n_levels, self._n_bins
        # in a group of w samples around c, sum r^2 = w c (1 - c) + (1 - 2c) sum r: Q is linear in the
        # residuals
        slope, constant = 1.0 - 2.0 * centre, weight * centre * (1.0 - centre)
        expected = (weight * centre)[:, np.newaxis]
        bin_constant = np.bincount(self._bin_of, constant, n_bins)[:, np.newaxis]
        total_constant = np.zeros(n_levels)
        parts: list[Any] = []
        for rows in self._blocks(_BLOCK_OF_MANY, 0, self._bin_of.shape[0]):
            first, n_rows = group_starts(self._bin_of[rows]), rows.stop - rows.start
            begins, ends = first, np.append(first[1:], n_rows)
            inside = self._finer(rows, weight[np.newaxis, rows])
            if inside is not None:
                begins, ends = np.append(inside.begins, begins), np.append(inside.ends, ends)
            adder = _range_sums(begins, ends, n_rows)
            kinds, finer, exist = None, None, np.empty((n_levels, 0))
            if inside is not None:
                # for each kind of bins, what is to be added up of Q / |I|
                kinds = inside.bins.kinds
                finer = csr_array(kinds @ adder[: inside.begins.shape[0]])
                exist = inside.bins.exist(n_levels)
                total_constant += exist @ (finer @ constant[rows])
                finer.data *= slope[rows][finer.indices]
            bin_adder = adder[begins.shape[0] - first.shape[0] :]
            bin_adder.data = slope[rows][bin_adder.indices]
            parts.append((rows, self._bin_of[rows][first], adder, bin_adder, kinds, exist, finer))
        inverses, count = [], self._count
        for level in range(self._middle, 0, -1):
            inverses.append(np.where(count > 1.5, 1.0 / np.maximum(count, 1.0), 0.0))
            count = count[::2] + count[1::2] if level > 1 else count
        work = np.empty((3, n_bins, 0))

        def statistic(positives: NDArray[Any]) -> Array:
            nonlocal work
            r = positives.shape[1]
            if work.shape[2] != r:
                work = np.empty((3, n_bins, r))
            s, q, x = work
            s[:], q[:] = 0.0, bin_constant
            total = np.zeros((n_levels, r))
            total -= total_constant[:, np.newaxis]
            for rows, occupied, adder, bin_adder, kinds, exist, finer in parts:
                residual = positives[rows] - expected[rows]
                sums = adder @ residual
                s[occupied] = sums[-occupied.shape[0] :]
                q[occupied] += bin_adder @ residual
                if kinds is not None:
                    inner = sums[: -occupied.shape[0]]
                    inner *= inner
                    total += exist @ (kinds @ inner - finer @ residual)
            for k, inverse in enumerate(inverses):
                size = n_bins >> k
                if k:
                    np.add(s[: 2 * size : 2], s[1 : 2 * size : 2], out=s[:size])
                    np.add(q[: 2 * size : 2], q[1 : 2 * size : 2], out=q[:size])
                # eq. (6)
                np.multiply(s[:size], s[:size], out=x[:size])
                x[:size] -= q[:size]
                total[self._middle - 1 - k] += inverse @ x[:size]
            return total.T / n

        return statistic

    def _blocks(self, size: int, begin: int, end: int) -> Iterator[slice]:
        """Yield blocks of about ``size`` of some groups that fill bins of the middle level."""
        # the first group of the bin that holds each of some groups
        cuts = np.unique(np.searchsorted(self._bin_of, self._bin_of[begin:end:size]))
        for first, last in pairwise([*cuts.tolist(), int(end)]):
            yield slice(first, last)

    def _finer(self, rows: slice, columns: Array) -> "_Tree | None":
        """Return the bins of a block below the middle level, and sums over them; the last column counts."""
        if self._middle == self.n_levels:
            return None
        first, last = np.searchsorted(self._leaf, (rows.start, rows.stop))
        group = np.append(self._leaf[first:last], rows.stop)
        shared = np.maximum(self._shared[group], np.int8(self._middle))
        shared[[0, -1]] = self._middle
        group -= rows.start
        if group[-1] >= group.shape[0]:
            n = int(group[-1])
            leaves = csr_array((np.ones(n), np.arange(n, dtype=np.int32), group.astype(np.int32)))
            columns = np.array([leaves @ row for row in columns])
        return _tree(shared, columns, group, self._count, self._bin_of[rows], self.n_levels)

    def _third_cumulants(self, null: Array, powers: Array | None) -> Array:
        """Return those of X / |I|, summed over the bins of each level down to ``EXACT_LEVELS``."""
        n_bins = self._n_bins
        if self._dyadic:
            n_bins = 1 << min(self.n_levels, EXACT_LEVELS)
        if powers is None:
            bin_of = (
                _bin_index(self.grouped.prob, min(self.n_levels, EXACT_LEVELS))
                if self._dyadic
                else self._bin_of
            )
            powers = np.array(
                [np.bincount(bin_of, row, n_bins) for row in _powers(null, self.grouped.weight)]
            )
        powers = powers.reshape(6, n_bins, -1).sum(axis=2)
        out = [_third_cumulant(powers)]
        while self._dyadic and powers.shape[1] > 2:
            powers = powers[:, ::2] + powers[:, 1::2]
            out.append(_third_cumulant(powers))
        return np.array(out[::-1])


def _powers(p: Array, weight: Array) -> Iterator[Array]:
    """Yield what groups add to sum v, sum v^2, sum v^3, sum m, sum m^2 and |I|."""
    v = p * (1.0 - p)
    yield (power := weight * v)
    # products, because v**3 is slow in numpy
    yield (power := power * v)
    yield power * v
    m = v * (1.0 - 2.0 * p)
    yield (power := weight * m)
    yield power * m
    yield weight


def _alike_powers(a: Array, v2: Array, count: Array) -> Array:
    """Return sums of ``_powers`` over all bins of a level, so narrow that their samples count as alike.

    ``a`` and ``v2`` are the sums of v and v^2; the sign of 1 - 2p, which v does not tell, changes in the
    middle.
    """
    v = a / np.maximum(count, 1.0)
    slope = np.sqrt(np.maximum(1.0 - 4.0 * v, 0.0))
    slope[slope.shape[0] // 2 :] *= -1.0
    return np.stack((a, v2, v2 * v, a * slope, v2 * slope**2, count))


def _third_cumulant(powers: Array) -> float:
    """Return the sum over bins of the third cumulant of X / |I|, from sums of ``_powers``."""
    v, v2, v3, m, m2, count = powers
    kappa = 4.0 * (m * m - m2) + 8.0 * (v * (v * v - 3.0 * v2) + 2.0 * v3)
    # for a single sample it is exactly 0
    return float(np.sum(np.where(count > 1.5, kappa, 0.0) / np.maximum(count, 1.0) ** 3))


def _bin_index(p: Array, level: int) -> NDArray[np.int64]:
    """Return the index of the bin of ``level`` that holds each p in [0, 1]."""
    bin_of = (p * 2.0**level).astype(np.int64)
    return np.minimum(bin_of, (1 << level) - 1, out=bin_of)


def shared_levels(bin_of: NDArray[np.int64], finest: int) -> Levels:
    """Return the finest level at which each of the sorted predictions shares its bin with the one before.

    ``bin_of`` are their bins at the level ``finest``. The result has one more entry: the first and the last,
    0, are for neighbours that do not exist; otherwise 0 means that only the whole interval is shared.
    """
    # the exponent of a float counts binary digits; below 2**53 the conversion is exact
    digits = np.bitwise_xor(bin_of[1:], bin_of[:-1]).astype(np.float64).view(np.int64)
    np.right_shift(digits, 52, out=digits)
    np.subtract(finest + 1022, digits, out=digits)
    out = np.zeros(bin_of.shape[0] + 1, dtype=np.int8)
    np.minimum(digits, finest, out=out[1:-1], casting="unsafe")
    return out


def _tree(
    shared: Levels, leaves: Array, group: NDArray[Any], in_bin: Array, bin_of: NDArray[np.int64], finest: int
) -> _Tree | None:
    """Return the bins of a block below the middle level, None if there are none.

    Parameters
    ----------
    shared : ndarray of shape (leaves + 1,)
        The finest level at which a leaf shares its bin with the leaf before; the middle level, if that is
        finer.
    leaves : ndarray of shape (k, leaves)
        Sums over the leaves, the last row of which are the numbers of samples.
    group : ndarray of shape (leaves + 1,)
        The first group of each leaf.
    in_bin : ndarray of shape (bins of the middle level,)
        The number of samples in each bin of the middle level.
    bin_of : ndarray of shape (groups,)
        The bin of the middle level that holds each group.
    finest : int
        The finest level.
    """
    middle = shared[0]
    wider = np.maximum(shared[:-1], shared[1:])
    leaf = np.flatnonzero((wider > middle) | (leaves[-1] > 1.5))
    # the nodes of the tree: all leaves, then unions of two neighbours
    n_leaves = n_nodes = leaves.shape[1]
    most = n_leaves + leaf.shape[0]
    begins, ends = np.empty((2, most), dtype=np.int32)
    sums, above = np.empty((leaves.shape[0], most)), np.empty(most)
    start, stop = np.empty((2, most), dtype=np.int8)
    begins[:n_nodes] = np.arange(n_nodes)
    ends[:n_nodes] = np.arange(1, n_nodes + 1)
    sums[:, :n_nodes], start[:n_nodes], stop[:n_nodes] = leaves, wider, finest
    # those that are not united yet, in their order, and the level that each shares with the one before
    node, between = leaf, np.append(shared[leaf], middle)
    while True:
        rises = between[1:] > between[:-1]
        peak = np.flatnonzero(rises[:-1] & ~rises[1:])
        if peak.shape[0] == 0:
            break
        left, right = node.take(peak), node.take(peak + 1)
        new = slice(n_nodes, n_nodes + peak.shape[0])
        begins[new], ends[new] = begins.take(left), ends.take(right)
        start[new], stop[new] = np.maximum(between.take(peak), between.take(peak + 2)), between.take(peak + 1)
        for row in sums:
            np.add(row.take(left), row.take(right), out=row[new])
        above[left] = above[right] = sums[-1, new]
        node[peak] = np.arange(new.start, new.stop)
        n_nodes = new.stop
        # those that fill a bin of the middle level are done
        stays = (between > middle) | np.append(between[1:] > middle, True)
        stays[peak + 1] = False
        kept = np.flatnonzero(stays)
        between, node = between.take(kept), node.take(kept[:-1])
    bins: Any = slice(n_leaves, n_nodes)
    if leaves[-1].max() > 1.5:
        bins = np.flatnonzero(sums[-1, :n_nodes] > 1.5)
    begins, ends, start, above = begins[bins], ends[bins], start[bins], above[bins]
    if begins.shape[0] == 0:
        return None
    begins, sums = group[begins], sums[:, bins]
    root = np.flatnonzero(start == middle)
    above[root] = in_bin[bin_of[begins[root]]]
    return _Tree(_Bins.of_ranges(sums[-1], above, start, stop[bins]), sums, begins, group[ends])


def _range_sums(begins: NDArray[Any], ends: NDArray[Any], n_rows: int) -> csr_array:
    """Return the matrix that sums the rows begins, ..., ends - 1 of another one, for each of these pairs."""
    pointers = _pointers(ends - begins)
    columns = np.arange(pointers[-1], dtype=np.int32)
    columns += np.repeat((begins - pointers[:-1]).astype(np.int32), np.diff(pointers))
    return csr_array((np.ones(columns.shape[0]), columns, pointers), (begins.shape[0], n_rows))


def _pointers(sizes: NDArray[Any]) -> NDArray[np.int32]:
    out = np.zeros(sizes.shape[0] + 1, dtype=np.int32)
    np.cumsum(sizes, out=out[1:])
    return out
