"""The sketch of dependent samples: sums for each bin of predictions and cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._core._binning import OctaveBins, Workspace, octave_bins
from sklearn_calib._html import result_html
from sklearn_calib._typing import Array
from sklearn_calib._validation import check_frequency_weights, check_groups, check_size
from sklearn_calib.sketch._batch import PIECE, Batch, check_batch
from sklearn_calib.sketch._contents import Contents
from sklearn_calib.sketch._lock import Locked
from sklearn_calib.sketch._sample import WeightedSample
from sklearn_calib.sketch._saved import check_precision

Codes = NDArray[np.int64]

# Cells of batches that wait until they are summed, if there are not more in the sketch.
_MOST_WAITING, _MOST_PARTS = 1 << 16, 256


@dataclass(frozen=True, eq=False)
class _Cells:
    """Sums of the samples of a cluster in a bin, sorted by both; ``code`` is the index of the label."""

    labels: NDArray[Any]
    code: Codes
    bins: Codes
    # negatives, positives, and sums of positions
    sums: Array


class ClusteredSketch(Locked):
    """Mergeable summary of outcomes, predictions and clusters of dependent samples.

    It holds sums for each pair of a cluster and an occupied bin of predictions. Its size grows with the
    number of such cells, of which there are at most as many as samples, and is limited by ``max_cells``.

    Parameters
    ----------
    precision : int, default=10
        Resolution of the predictions, ``2 ** -precision``, and finer near 0 and 1; from 8 to 20.
    pos_label : label, default=None
        The positive class, as for :class:`CalibrationSketch`.
    max_cells : int, default=4194304
        Largest number of cells; a cell takes about 50 bytes.

    See Also
    --------
    CalibrationSketch : The sketch of independent samples, of constant size.

    Notes
    -----
    Bins are those of :class:`CalibrationSketch`, and predictions are rounded as there. Weights are numbers of
    samples of the same cluster. All sums are sums of integers: the sketch does not depend on the order of
    samples, batches or merges.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import CutoffTest
    >>> from sklearn_calib.sketch import ClusteredSketch
    >>> rng = np.random.default_rng(0)
    >>> sketch = ClusteredSketch()
    >>> for day in range(30):
    ...     p = rng.uniform(size=200)
    ...     sketch = sketch.update(rng.uniform(size=200) < p, p, clusters=np.full(200, day))
    >>> print(sketch)
    sketch of 6000 samples
      clusters         30
      cells            5440 of precision 10
    >>> sample = sketch.as_weighted_sample()
    >>> test = CutoffTest(random_state=0)
    >>> result = test.test(sample.y, sample.p, sample_weight=sample.w, clusters=sample.clusters)
    >>> result.n_clusters, result.rejects()
    (30, False)
    """

    def __init__(self, *, precision: int = 10, pos_label: Any = None, max_cells: int = 1 << 22) -> None:
        super().__init__()
        self._precision = check_precision(precision)
        self._pos_label = pos_label
        self._max_cells = check_size(max_cells, "max_cells")
        self._parts: tuple[_Cells, ...] = ()

    def update(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        clusters: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add a batch of samples.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Outcomes; one label only, or no sample at all, is allowed.
        y_proba : array-like of shape (n,), (n, 1) or (n, 2)
            Predicted probabilities of the positive class in [0, 1]; of two columns the last is used.
        clusters : array-like of shape (n,)
            Label of the cluster of each sample, numbers or texts; a cluster may continue in other batches.
        sample_weight : array-like of shape (n,), default=None
            Whole numbers of samples.

        Returns
        -------
        self
            The sketch, unchanged if an argument is invalid.

        Raises
        ------
        ValueError
            If an argument is malformed (the message names it), or there are more than ``max_cells`` cells.
        """
        batch = check_batch(y_true, y_proba, sample_weight, self._pos_label)
        labels = check_groups(clusters, batch.p.shape[0], "clusters", "y_true")
        if batch.w is not None:
            check_frequency_weights(batch.w.astype(np.float64))
            keep = batch.w > 0
            batch, labels = batch.part(keep), labels[keep]
        return self._add(_cells_of(batch, labels, octave_bins(self._precision))) if labels.size else self

    def merge(self, other: ClusteredSketch) -> Self:
        """Add all samples of another sketch, in place; clusters of the same label are the same.

        Parameters
        ----------
        other : ClusteredSketch
            A sketch of the same precision and positive class.

        Returns
        -------
        self
            The sketch.

        Raises
        ------
        ValueError
            If precision, positive class or the type of the labels differ, or there are more than
            ``max_cells`` cells.
        TypeError
            If ``other`` is not such a sketch.
        """
        if not isinstance(other, ClusteredSketch):
            raise TypeError(f"Only sketches with clusters can be merged, got {type(other).__name__}.")
        mine, theirs = ((s._precision, s._pos_label) for s in (self, other))
        if mine != theirs:
            raise ValueError(f"precision and pos_label differ: {mine} and {theirs}. Use the same for both.")
        parts = other._parts
        return self._add(*parts) if parts else self

    def __add__(self, other: Any) -> Self:
        if not isinstance(other, ClusteredSketch):
            return NotImplemented
        new = type(self)(precision=self._precision, pos_label=self._pos_label, max_cells=self._max_cells)
        return new.merge(self).merge(other)

    def __radd__(self, other: Any) -> Self:
        # sum() begins with 0
        return self if isinstance(other, int) and other == 0 else NotImplemented

    @property
    def n_samples(self) -> int:
        """Number of samples, of which a weight of k stands for k."""
        return int(sum(part.sums[:2].sum() for part in self._parts))

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        cells = self._settled()
        return 0 if cells is None else cells.labels.shape[0]

    @property
    def n_cells(self) -> int:
        """Number of pairs of a cluster and a bin that have a sample."""
        cells = self._settled()
        return 0 if cells is None else cells.code.shape[0]

    def as_weighted_sample(self) -> WeightedSample:
        """Return the samples by bin, outcome and cluster, to be passed to functions that accept clusters.

        Returns
        -------
        WeightedSample
            Outcomes, mean predictions of the bins, in increasing order, numbers of samples, and the labels of
            the clusters.

        Raises
        ------
        ValueError
            If the sketch is empty.
        """
        cells = self._settled()
        if cells is None:
            raise ValueError("The sketch is empty. Add samples to it by update or merge first.")
        grid = octave_bins(self._precision)
        order = np.lexsort((cells.code, cells.bins))
        sums = cells.sums[:, order]
        bins, index = np.unique(cells.bins[order], return_inverse=True)
        starts = np.flatnonzero(np.diff(index, prepend=-1))
        negatives, positives, offset = np.add.reduceat(sums, starts, axis=1)
        whole = Contents(bins, negatives, positives, offset, self.n_samples)
        w = sums[:2].T.ravel()
        keep = w > 0
        return WeightedSample(
            np.tile(np.array([0, 1]), index.shape[0])[keep],
            np.repeat(whole.means(grid)[index], 2)[keep],
            w[keep],
            np.repeat(cells.labels[cells.code[order]], 2)[keep],
        )

    def __str__(self) -> str:
        title, facts = self._facts()
        return "\n".join([title, *(f"  {name:<15}  {value}" for name, value in facts)])

    def __repr__(self) -> str:
        return f"<ClusteredSketch(precision={self._precision}) of {self.n_samples} samples>"

    def _repr_html_(self) -> str:
        return result_html(*self._facts())

    def _facts(self) -> tuple[str, list[tuple[str, str]]]:
        return f"sketch of {self.n_samples} samples", [
            ("clusters", str(self.n_clusters)),
            ("cells", f"{self.n_cells} of precision {self._precision}"),
        ]

    def _add(self, *new: _Cells) -> Self:
        with self._lock:
            parts = (*self._parts, *new)
            first, *waiting = (part.code.shape[0] for part in parts)
            many = len(parts) > _MOST_PARTS or sum(waiting) > max(first, _MOST_WAITING)
            many |= first + sum(waiting) > self._max_cells
            kinds = {part.labels.dtype.kind in "biuf" for part in parts}
            if len(kinds) > 1:
                raise ValueError("clusters has numbers in one batch and texts in another. Use one type.")
            self._parts = (self._joined(parts),) if many else parts
        return self

    def _settled(self) -> _Cells | None:
        """Return the cells of all that was added; None if there is nothing."""
        with self._lock:
            if len(self._parts) > 1:
                self._parts = (self._joined(self._parts),)
            return self._parts[0] if self._parts else None

    def _joined(self, parts: tuple[_Cells, ...]) -> _Cells:
        labels = np.unique(np.concatenate([part.labels for part in parts]))
        code = np.concatenate([np.searchsorted(labels, part.labels)[part.code] for part in parts])
        bins = np.concatenate([part.bins for part in parts])
        cells = _summed(labels, code, bins, np.concatenate([part.sums for part in parts], axis=1))
        if cells.code.shape[0] > self._max_cells:
            raise ValueError(
                f"The sketch would have {cells.code.shape[0]:,} cells of a cluster and a bin, more than "
                f"max_cells={self._max_cells:,}. Use a lower precision, from 8 on, or pass arrays."
            )
        return cells


def _cells_of(batch: Batch, labels: NDArray[Any], grid: OctaveBins) -> _Cells:
    """Return the cells of checked samples."""
    n = batch.p.shape[0]
    known, code = np.unique(labels, return_inverse=True)
    bins, position = np.empty((2, n), dtype=np.int64)
    spare, start = Workspace(min(PIECE, n)), 0
    for _, p, _ in Batch(batch.y, batch.p, None).pieces():
        rows = slice(start, start + p.shape[0])
        grid.locate(p, bins[rows], position[rows], spare)
        start += p.shape[0]
    w = np.ones(n) if batch.w is None else batch.w.astype(np.float64)
    y = batch.y.astype(np.float64)
    return _summed(known, code, bins, np.stack((w * (1.0 - y), w * y, w * position)))


def _summed(labels: NDArray[Any], code: Codes, bins: Codes, sums: Array) -> _Cells:
    """Return cells that occur once."""
    order = np.lexsort((bins, code))
    code, bins = code[order], bins[order]
    first = np.append(True, (np.diff(code) != 0) | (np.diff(bins) != 0))
    return _Cells(
        labels, code[first], bins[first], np.add.reduceat(sums[:, order], np.flatnonzero(first), axis=1)
    )
