"""What the bins hold, at rest and while samples are added."""

from dataclasses import dataclass, replace

import numpy as np

from sklearn_calib._core._binning import POSITIONS, OctaveBins
from sklearn_calib._typing import Array, Codes
from sklearn_calib.sketch._batch import PIECE, Batch

# Batches of no more samples than this are gathered first.
_MOST_WAITING = PIECE >> 4


@dataclass(frozen=True, eq=False)
class Contents:
    """Numbers of occupied bins (k,) in increasing order, their sums (3, k), and the number of samples.

    The sums are the weights of negatives and of positives, and the weighted sum of positions; ``values`` are
    the predictions of bins all of whose predictions are equal, NaN in others.
    """

    bins: Codes
    sums: Array
    values: Array
    n_samples: int

    @property
    def weight(self) -> Array:
        """Weight of each bin."""
        total: Array = self.sums[0] + self.sums[1]
        return total

    def swapped(self) -> "Contents":
        """Return the bins with the outcomes exchanged."""
        return replace(self, sums=self.sums[[1, 0, 2]])

    def means(self, grid: OctaveBins) -> Array:
        """Return the mean prediction of each bin, exactly where all are equal."""
        low, width = grid.edges(self.bins)
        mean = low + width * (self.sums[2] / self.weight / POSITIONS)
        return np.where(np.isnan(self.values), mean, self.values)

    def weighted_sample(self, grid: OctaveBins) -> tuple[Codes, Array, Array]:
        """Return outcomes, predictions and weights, one for each outcome that has weight in a bin."""
        w = self.sums[:2].T.ravel()
        y = np.tile(np.array([0, 1], dtype=np.int64), self.bins.shape[0])
        p = np.repeat(self.means(grid), 2)
        keep = w > 0
        return y[keep], p[keep], w[keep]


def note_values(known: Array, index: Codes, given: Array) -> None:
    """Add values to what is known of bins: their only value, NaN if they have several, -1 if none."""
    held = known[index]
    rows = np.flatnonzero((held != given) & (held == held))
    if rows.size:
        index, given = index[rows], given[rows]
        known[index] = np.where(held[rows] < 0.0, given + 0.0, np.nan)
        # of several values for an empty bin one has been kept
        known[index[known[index] != given]] = np.nan


class Accumulator:
    """Sums over all bins to which samples are added."""

    def __init__(self, grid: OctaveBins) -> None:
        self._grid = grid
        self._n_added = 0
        # the sums, as in Contents, of all bins, and their only values, see note_values
        self._sums: Array | None = None
        self._values = np.empty(0)
        # outcomes and predictions of small batches, added when there are enough of them for one pass
        self._waiting: Batch | None = None
        self._n_waiting = 0

    @property
    def n_samples(self) -> int:
        """Number of samples with weight."""
        return self._n_added + self._n_waiting

    def add_batch(self, batch: Batch) -> None:
        """Add checked samples."""
        n = batch.p.shape[0]
        if n > _MOST_WAITING or batch.w is not None:
            self._add(batch)
            return
        if self._waiting is None:
            self._waiting = Batch(np.empty(PIECE, dtype=np.int64), np.empty(PIECE), None)
        elif self._n_waiting + n > PIECE:
            self._add(self._waiting.part(slice(self._n_waiting)))
            self._n_waiting = 0
        rows = slice(self._n_waiting, self._n_waiting + n)
        self._waiting.y[rows], self._waiting.p[rows] = batch.y, batch.p
        self._n_waiting += n

    def add_contents(self, other: Contents) -> None:
        """Add other bins."""
        self._open()[:, other.bins] += other.sums
        note_values(self._values, other.bins, other.values)
        self._n_added += other.n_samples

    def contents(self, settled: Contents) -> Contents:
        """Return the occupied bins, with those of ``settled``; nothing changes."""
        n, n_samples = self._n_waiting, settled.n_samples + self.n_samples
        bins, sums, values = settled.bins, settled.sums, settled.values
        if self._waiting is not None and n:
            waiting, position = self._grid.locate(self._waiting.p[:n])
            y = self._waiting.y[:n]
            bins = np.concatenate((bins, waiting))
            sums = np.concatenate((sums, np.stack((1 - y, y, position))), axis=1)
            values = np.concatenate((values, self._waiting.p[:n]))
        if self._sums is None:
            # few samples, without sums over all bins
            bins, index = np.unique(bins, return_inverse=True)
            sums = np.stack([np.bincount(index, row, bins.shape[0]) for row in sums])
            known = np.full(bins.shape[0], -1.0)
            note_values(known, index, values)
            return Contents(bins, sums, known, n_samples)
        total, known = self._sums.copy(), self._values.copy()
        note_values(known, bins, values)
        for row, part in zip(total, sums, strict=True):
            np.add.at(row, bins, part)
        bins = np.flatnonzero((total[0] > 0) | (total[1] > 0)).astype(np.int64)
        return Contents(bins, total[:, bins], known[bins], n_samples)

    def _add(self, batch: Batch) -> None:
        """Add samples at once, in pieces."""
        sums = self._open()
        for y, p, w in batch.pieces():
            bins, position = self._grid.locate(p)
            note_values(self._values, bins, p)
            np.add.at(
                sums.reshape(-1), y.astype(np.int64) * self._grid.n_bins + bins, 1.0 if w is None else w
            )
            np.add.at(sums[2], bins, position.astype(np.float64) if w is None else w * position)
            self._n_added += p.shape[0]

    def _open(self) -> Array:
        if self._sums is None:
            self._sums = np.zeros((3, self._grid.n_bins))
            self._values = np.full(self._grid.n_bins, -1.0)
        return self._sums
