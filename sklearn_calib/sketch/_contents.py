"""What the bins hold, at rest and while samples are added."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._binning import POSITIONS, OctaveBins, Workspace
from sklearn_calib._typing import Array
from sklearn_calib.sketch._batch import PIECE, Batch
from sklearn_calib.sketch._sample import WeightedSample

Codes = NDArray[np.int64]

# A packed sum holds a count above this unit, and the positions of the same samples below it.
_UNIT_BITS = 40
# Samples after which packed sums are unpacked: fewer than 2**23 counts above bit 40 fit into 63 bits, and as
# many positions below 2**16 stay below the unit.
_MOST_PACKED = (1 << 23) - 1
# Batches of no more samples than this are gathered first.
_MOST_WAITING = PIECE >> 4
# Batches of more samples than this are summed apart first.
_MOST_AT_ONCE = 4 * PIECE


@dataclass(frozen=True, eq=False)
class Contents:
    """Occupied bins in increasing order: weight of either outcome, and weighted sum of positions."""

    bins: Codes
    negatives: Array
    positives: Array
    offset: Array
    n_samples: int

    @classmethod
    def empty(cls) -> Self:
        return cls(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0), np.empty(0), 0)

    @property
    def sums(self) -> tuple[Array, Array, Array]:
        """Weights of either outcome, and sums of positions."""
        return self.negatives, self.positives, self.offset

    @property
    def weight(self) -> Array:
        """Weight of each bin."""
        total: Array = self.negatives + self.positives
        return total

    @property
    def total(self) -> float:
        """Weight of all bins."""
        return float(self.weight.sum())

    @property
    def event_rate(self) -> float:
        """Fraction of the weight that belongs to the positive class."""
        return float(self.positives.sum() / self.weight.sum())

    @property
    def n_kinds(self) -> int:
        """Number of pairs of a bin and an outcome that have weight; there are as many samples at least."""
        return int(np.count_nonzero(self.negatives) + np.count_nonzero(self.positives))

    @property
    def whole(self) -> bool:
        """Whether all weights are whole numbers, and all sums were therefore exact."""
        return all(np.array_equal(values, np.rint(values)) for values in (self.negatives, self.positives))

    def swapped(self) -> "Contents":
        """Return the bins with the outcomes exchanged."""
        return replace(self, negatives=self.positives, positives=self.negatives)

    def same_as(self, other: "Contents") -> bool:
        """Tell whether the bins of both are equal, bit for bit."""
        pairs = zip((self.bins, *self.sums), (other.bins, *other.sums), strict=True)
        return all(np.array_equal(mine, theirs) for mine, theirs in pairs)

    def without(self, other: "Contents") -> "Contents | None":
        """Return what is left when a part is taken away, or None if it is no part; weights are whole."""
        if other.n_samples > self.n_samples or not np.isin(other.bins, self.bins).all():
            return None
        if not other.bins.shape[0]:
            return self
        where = np.searchsorted(self.bins, other.bins)
        negatives, positives, offset = self.negatives.copy(), self.positives.copy(), self.offset.copy()
        negatives[where] -= other.negatives
        positives[where] -= other.positives
        offset[where] -= other.offset
        weight = negatives + positives
        most = weight * (POSITIONS - 1)
        if min(negatives.min(), positives.min(), offset.min(), (most - offset).min()) < 0:
            return None
        keep = weight > 0
        left = Contents(bins=self.bins[keep], negatives=negatives[keep], positives=positives[keep],
                        offset=offset[keep], n_samples=self.n_samples - other.n_samples)  # fmt: skip
        # a weight of k is k samples, of which some may be left when the one that was counted is taken away
        return replace(left, n_samples=max(left.n_samples, left.n_kinds))

    def means(self, grid: OctaveBins) -> Array:
        """Return the mean prediction of each bin."""
        low, width = grid.edges(self.bins)
        mean: Array = low + width * (self.offset / self.weight / POSITIONS)
        return mean

    def mean_prediction(self, grid: OctaveBins) -> float:
        """Return the mean prediction of all bins."""
        weight = self.weight
        return float((self.means(grid) * weight).sum() / weight.sum())

    def weighted_sample(self, grid: OctaveBins) -> WeightedSample:
        """Return one sample for each outcome that has weight in a bin."""
        w = np.column_stack((self.negatives, self.positives)).ravel()
        y = np.tile(np.array([0, 1], dtype=np.int64), self.bins.shape[0])
        p = np.repeat(self.means(grid), 2)
        keep = w > 0
        return WeightedSample(y[keep], p[keep], w[keep])


class Accumulator:
    """Sums over all bins to which samples are added.

    Samples without weights are added as one integer, with the count above bit 40 and the position below: one
    pass over the samples, exact, and independent of their order.

    Each array of sums ends with the number of samples in it, and each addition is one call of numpy, which
    nothing interrupts: a batch is in with all of its samples and their number, or not at all.
    """

    def __init__(self, grid: OctaveBins) -> None:
        self._grid = grid
        # 2 * bin + outcome: packed sums; then the number of samples that were gathered first, and of all
        self._n_packed_sums = 2 * grid.n_bins + 2
        # 2 * bin + outcome: weights; then by bin sums of weighted positions; then the number of samples
        self._n_sums = 3 * grid.n_bins + 1
        # both are replaced together
        self._arrays: tuple[Codes | None, Array | None] = None, None
        self._waiting: tuple[Codes, Array] | None = None
        # of these, the ones that are in the packed sums wait no longer
        self._n_gathered = 0

    @property
    def n_samples(self) -> int:
        """Number of samples with weight."""
        packed, sums = self._arrays
        n_packed = 0 if packed is None else int(packed[-1])
        return self._n_waiting + n_packed + (0 if sums is None else int(sums[-1]))

    @property
    def _n_waiting(self) -> int:
        packed, _ = self._arrays
        return self._n_gathered - (0 if packed is None else int(packed[-2]))

    def add_batch(self, batch: Batch) -> None:
        """Add checked samples; small batches wait until there are enough of them for one pass."""
        n = batch.p.shape[0]
        if n > _MOST_AT_ONCE:
            apart = Accumulator(self._grid)
            places = _Places(self._grid, _MOST_AT_ONCE, batch.w is not None)
            for start in range(0, n, _MOST_AT_ONCE):
                part = batch.part(slice(start, start + _MOST_AT_ONCE))
                apart._add_places(places, part)
            self._add_sums(apart)
        elif n > _MOST_WAITING or batch.w is not None:
            self._add_places(_Places(self._grid, n, batch.w is not None), batch)
        else:
            self._gather(batch)

    def add_contents(self, other: Contents) -> None:
        """Add other bins."""
        if other.bins.shape[0]:
            keys, last = 2 * other.bins, self._n_sums - 1
            index = np.concatenate((keys, keys + 1, other.bins + 2 * self._grid.n_bins, [last]))
            np.add.at(self._sums(), index, np.concatenate((*other.sums, [float(other.n_samples)])))

    def contents(self, settled: Contents) -> Contents:
        """Return the occupied bins, with those of ``settled``."""
        self._add_waiting()
        sums, n_bins = self._unpacked(), self._grid.n_bins
        negatives, positives, offset = (
            sums[0 : 2 * n_bins : 2],
            sums[1 : 2 * n_bins : 2],
            sums[2 * n_bins :],
        )
        if settled.bins.shape[0]:
            negatives[settled.bins] += settled.negatives
            positives[settled.bins] += settled.positives
            offset[settled.bins] += settled.offset
        bins = np.flatnonzero((negatives > 0) | (positives > 0)).astype(np.int64)
        n_samples = settled.n_samples + int(sums[-1])
        return Contents(bins, negatives[bins], positives[bins], offset[bins], n_samples)

    def _gather(self, batch: Batch) -> None:
        """Let a small batch wait."""
        n, first = batch.p.shape[0], self._n_waiting
        if first + n > PIECE:
            self._add_waiting()
            first = 0
        if self._waiting is None:
            self._waiting = np.empty(PIECE, dtype=np.int64), np.empty(PIECE)
        rows = slice(first, first + n)
        self._waiting[0][rows], self._waiting[1][rows] = batch.y, batch.p
        self._n_gathered += n

    def _add_waiting(self) -> None:
        """Add the samples that wait."""
        n = self._n_waiting
        if n and self._waiting is not None:
            batch = Batch(self._waiting[0][:n], self._waiting[1][:n], None)
            self._add_places(_Places(self._grid, n, weighted=False), batch, n_waited=n)

    def _add_places(self, places: "_Places", batch: Batch, n_waited: int = 0) -> None:
        """Add samples for which there are places enough."""
        target: Any = self._packed(batch.p.shape[0]) if batch.w is None else self._sums()
        places.fill(batch, target.shape[0], n_waited)
        np.add.at(target, places.index[: places.used], places.value[: places.used])

    def _add_sums(self, other: "Accumulator") -> None:
        """Add what was summed apart, without samples that wait."""
        packed, sums = other._arrays
        if sums is None and packed is not None:
            mine = self._packed(int(packed[-1]))
            np.add(mine, packed, out=mine)
        else:
            total = self._sums()
            np.add(total, other._unpacked() if sums is None or packed is not None else sums, out=total)

    def _packed(self, n: int) -> Codes:
        """Return the packed sums, with room for n more samples."""
        packed, sums = self._arrays
        if packed is None:
            packed = np.zeros(self._n_packed_sums, dtype=np.int64)
            self._arrays = packed, sums
        elif int(packed[-1]) + n > _MOST_PACKED:
            empty = np.zeros(self._n_packed_sums, dtype=np.int64)
            empty[-2] = packed[-2]
            self._arrays = empty, self._unpacked()
            packed = empty
        return packed

    def _sums(self) -> Array:
        packed, sums = self._arrays
        if sums is None:
            sums = np.zeros(self._n_sums)
            self._arrays = packed, sums
        return sums

    def _unpacked(self) -> Array:
        """Return a copy of the sums that holds those that are packed, too."""
        packed, sums = self._arrays
        total = np.zeros(self._n_sums) if sums is None else sums.copy()
        if packed is not None:
            n_keys = 2 * self._grid.n_bins
            part = packed[:n_keys] >> _UNIT_BITS
            total[:n_keys] += part
            np.bitwise_and(packed[:n_keys], (1 << _UNIT_BITS) - 1, out=part)
            total[n_keys:-1] += part[0::2]
            total[n_keys:-1] += part[1::2]
            total[-1] += packed[-1]
        return total


class _Places:
    """Where samples are added to an array of sums, and what is added there."""

    def __init__(self, grid: OctaveBins, n: int, weighted: bool) -> None:
        # of a weighted sample the weight and the position are added at two places; the last is of the number
        size = 2 * n + 1 if weighted else n + 2
        self.index = np.empty(size, dtype=np.int64)
        self.value: NDArray[Any] = np.empty(size, dtype=np.float64 if weighted else np.int64)
        self.used = 0
        piece = min(PIECE, n)
        self._grid, self._spare = grid, Workspace(piece)
        self._bins = np.empty(piece, dtype=np.int64)
        self._position = np.empty(piece if weighted else 0, dtype=np.int64)

    def fill(self, batch: Batch, n_sums: int, n_waited: int) -> None:
        """Fill in a batch that is added to an array of so many sums."""
        used = n_samples = 0
        for y, p, w in batch.pieces():
            n = p.shape[0]
            bins, rows = self._bins[:n], slice(used, used + n)
            key, value = self.index[rows], self.value[rows]
            position = value if w is None else self._position[:n]
            self._grid.locate(p, bins, position, self._spare)
            np.left_shift(bins, 1, out=key)
            np.add(key, y, out=key, casting="unsafe")
            used, n_samples = used + n, n_samples + n
            if w is None:
                np.add(position, 1 << _UNIT_BITS, out=position)
                continue
            rows = slice(used, used + n)
            value[:] = w
            np.add(bins, 2 * self._grid.n_bins, out=self.index[rows])
            np.multiply(w, position, out=self.value[rows])
            used += n
        if batch.w is None:
            self.index[used], self.value[used] = n_sums - 2, n_waited
            used += 1
        self.index[used], self.value[used] = n_sums - 1, n_samples
        self.used = used + 1
