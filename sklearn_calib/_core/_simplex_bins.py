"""T-Cal for K classes: partitions of the probability simplex, the statistic T, and its null moments.

In the coordinates c_i = m (z_1 + ... + z_i), i = 1, ..., K - 1, the simplex is 0 <= c_1 <= ... <= m. The
hyperplanes on which a coordinate, or the difference of two coordinates, is an integer divide it into
m^(K-1) simplices of equal volume and a diameter of order 1/m (hypercubes, divided into hypersimplices and
then by Stanley's triangulation; App. 8.2.3 of [1]_). The cell of a point is determined by the integer parts
of its coordinates and the order of their fractional parts; cells are never enumerated. The partition for 2 m
refines that for m.

A cell with samples I contributes X / (n |I|) to T, X = sum over i != j in I of R_i . R_j, where R =
(one-hot label) - z. If z is the true distribution of the label, samples are independent with covariance C =
diag(z) - z z'; hence X has mean 0 and

    variance         2 W,  W = sum_{i != j} tr(C_i C_j)
    third cumulant   4 sum_{i != j} E (R_i . R_j)^3 + 8 sum_{i, j, k distinct} tr(C_i C_j C_k),

With sampling weights w residuals are w R, C becomes w^2 C, and |I| and n remain numbers of samples. Cells are
independent, and for a cell f inside a cell c of a coarser partition cov(X_f, X_c) = var(X_f).

.. [1] D. Lee, X. Huang, H. Hassani, E. Dobriban (2023). T-Cal: An optimal test for the calibration of
   predictive models. Journal of Machine Learning Research 24.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._binning import uniform_bins
from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._clusters import Clusters
from sklearn_calib._core._grouping import group_starts
from sklearn_calib._core._nested_bins import NullMoments, effective_pairs
from sklearn_calib._core._null import sample_labels
from sklearn_calib._typing import Array

Labels = NDArray[np.int64]

_SEED = 7

# Largest size of temporary arrays.
_WORK = 1 << 20


@dataclass(frozen=True, eq=False)
class SharedCells:
    """The cells that hold two samples or more.

    ``rows`` are their samples, cell by cell; ``starts`` the first position of each cell, ``count`` its size.
    """

    rows: NDArray[np.intp]
    starts: NDArray[np.intp]
    count: NDArray[np.intp]


def alcoves(p: Array, m: float) -> NDArray[np.uint64]:
    """Return an identifier of the cell of each row of ``p``, shape (n, K).

    It is a hash of 64 bits. The probability of a collision is negligible for any n that fits into memory, and
    a collision only merges two cells. Cells are closed above at the faces of the simplex. Of two classes they
    are the equal-width bins of the last column.
    """
    if p.shape[1] == 2:
        return uniform_bins(p[:, 1], int(m)).astype(np.uint64)
    c = np.cumsum(p[:, :-1], axis=1)
    c *= m
    np.minimum(c, np.nextafter(m, 0.0), out=c)
    whole = np.floor(c)
    c -= whole
    order = np.argsort(c, axis=1, kind="stable").astype(np.uint64)
    odd = np.random.default_rng(_SEED).integers(1 << 63, size=(2, c.shape[1]), dtype=np.uint64) * 2 + 1
    with np.errstate(over="ignore"):
        # uint64 arithmetic wraps around, as intended for a hash
        return (whole.astype(np.uint64) * odd[0]).sum(axis=1) + (order * odd[1]).sum(axis=1)


def shared_alcoves(p: Array, m: float, among: NDArray[np.intp] | None = None) -> SharedCells:
    """Return the cells with two samples or more, of all samples or of those ``among``.

    If ``among`` are the samples that share a cell of a coarser partition, all shared cells are found.
    """
    code = alcoves(p if among is None else p[among], m)
    order = np.argsort(code, kind="stable")
    starts = group_starts(code[order])
    count = np.diff(starts, append=order.shape[0])
    shared = count > 1
    rows = order[np.repeat(shared, count)]
    count = count[shared]
    return SharedCells(
        rows=rows if among is None else among[rows],
        starts=np.concatenate((np.zeros(1, dtype=np.intp), np.cumsum(count)[:-1])) if count.size else count,
        count=count,
    )


def nested_alcoves(p: Array, n_bins: Array) -> list[SharedCells]:
    """Return the shared cells for each number of bins per axis, each of which divides the next."""
    partitions: list[SharedCells] = []
    among = None
    for m in n_bins:
        cells = shared_alcoves(p, float(m), among) if among is None or among.size else partitions[-1]
        partitions.append(cells)
        among = cells.rows
    return partitions


def cell_statistics(cells: SharedCells, y: Labels, p: Array, scale: Array) -> Array:
    """Return X of each cell; ``scale`` are sampling weights."""
    residual = -p[cells.rows]
    residual[np.arange(residual.shape[0]), y[cells.rows]] += 1.0
    residual *= scale[cells.rows, np.newaxis]
    total = np.add.reduceat(residual, cells.starts, axis=0)
    squares = np.add.reduceat(np.square(residual).sum(axis=1), cells.starts)
    return np.square(total).sum(axis=1) - squares


def cell_cumulants(cells: SharedCells, z: Array, scale: Array) -> tuple[Array, Array]:
    """Return W and kappa of each cell, if labels have the distributions ``z``, shape (n, K).

    W is exact. kappa is exact for equal rows of ``z``, and for large cells its second sum is exact up to a
    relative error of order 1/|I|; otherwise rows are replaced by the mean of the cell. O(n K min(K, |I|)).
    """
    w, kappa = np.empty(cells.count.shape[0]), np.empty(cells.count.shape[0])
    for chosen, rows in _same_size(cells, z.shape[1]):
        size = rows.shape[1]
        part, mass = z[rows], scale[rows] ** 2
        squares = part * part
        q2, q3 = squares.sum(axis=2), (squares * part).sum(axis=2)
        total = (part * mass[:, :, np.newaxis]).sum(axis=1)
        part *= scale[rows][:, :, np.newaxis]
        g = (part * part).sum(axis=1)
        # A = D - Z'Z is the sum of the C_i, D = diag(total); powers of Z'Z through the smaller Gram matrix
        if size < z.shape[1]:
            gram = part @ part.transpose(0, 2, 1)
            weighted = (part * total[:, np.newaxis]) @ part.transpose(0, 2, 1)
            d_m2 = (weighted * gram).sum(axis=(1, 2))
        else:
            gram = part.transpose(0, 2, 1) @ part
            d_m2 = ((gram * gram).sum(axis=2) * total).sum(axis=1)
        m2 = (gram * gram).sum(axis=(1, 2))
        trace2 = (total * total).sum(axis=1) - 2.0 * (total * g).sum(axis=1) + m2
        w[chosen] = trace2 - (mass * mass * (q2 - 2.0 * q3 + q2 * q2)).sum(axis=1)
        sums, cubes = mass.sum(axis=1), mass * scale[rows]
        mean = total / sums[:, np.newaxis]
        pairs = cubes.sum(axis=1) ** 2 - (cubes * cubes).sum(axis=1)
        kappa[chosen] = 4.0 * pairs * _third_moment_of_a_pair(mean)
        if size > 2:
            m3 = ((gram @ gram) * gram).sum(axis=(1, 2))
            trace3 = (total**3).sum(axis=1) - 3.0 * (total**2 * g).sum(axis=1) + 3.0 * d_m2 - m3
            # the part of triples of different samples, (1 - 1/|I|) (1 - 2/|I|) without weights
            second, third = (mass**2).sum(axis=1) / sums**2, (mass**3).sum(axis=1) / sums**3
            kappa[chosen] += 8.0 * trace3 * (1.0 - 3.0 * second + 2.0 * third)
    return np.maximum(w, 0.0), kappa


def _third_moment_of_a_pair(z: Array) -> Array:
    """Return E (R_1 . R_2)^3 for two independent samples with the same z, from its power sums."""
    q2, q3, q4 = ((z**k).sum(axis=1) for k in (2, 3, 4))
    return q2 - 6.0 * q3 + 10.0 * q4 + 3.0 * q2**2 - 12.0 * q2 * q3 + 4.0 * q2**3


def _same_size(cells: SharedCells, n_classes: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield the indices of cells of the same size, and their samples, shape (cells, size)."""
    for size in np.unique(cells.count):
        chosen = np.flatnonzero(cells.count == size)
        for some in blocks(chosen.shape[0], _WORK, int(size) * n_classes):
            part = chosen[some]
            yield part, cells.rows[cells.starts[part][:, np.newaxis] + np.arange(size)]


def class_moments(
    partitions: list[SharedCells], y: Labels, p: Array, scale: Array, prob: Array | None = None
) -> NullMoments:
    """Return statistic and moments of partitions, coarse to fine, each a refinement of the one before.

    ``prob`` are the label probabilities under the null hypothesis, ``p`` if None.
    """
    n = p.shape[0]
    z = p if prob is None else prob
    statistic, variance, third, covariance, paired, w2, w4 = np.zeros((7, len(partitions)))
    parent = np.ones(n)
    for k, cells in enumerate(partitions):
        if not cells.count.size:
            break
        count = cells.count.astype(np.float64)
        w, kappa = cell_cumulants(cells, z, scale)
        statistic[k] = (cell_statistics(cells, y, p, scale) / count).sum() / n
        variance[k] = 2.0 * (w / count**2).sum() / n**2
        third[k] = (kappa / count**3).sum() / n**3
        if k:
            covariance[k - 1] = 2.0 * (w / (count * parent[cells.rows[cells.starts]])).sum() / n**2
        paired[k] = count.sum()
        w2[k], w4[k] = (w / count**2).sum(), (w / count**4).sum()
        parent[cells.rows] = np.repeat(count, cells.count)
    # tr(C_i C_j) is 4 v_i v_j for two classes: the division makes both conventions agree
    pairs = effective_pairs(w2, w4) / 4.0
    return NullMoments(statistic, variance, third, covariance, paired, pairs, np.zeros_like(pairs))


@dataclass(frozen=True, eq=False)
class _Level:
    """Quantities of one partition that determine T: cells, 1/|I|, and expected counts of labels."""

    rows: NDArray[np.intp]
    # sampling weights of the rows
    scale: Array
    cell: NDArray[np.intp]
    inverse: Array
    expected: Array

    @classmethod
    def of(cls, cells: SharedCells, p: Array, scale: Array) -> "_Level":
        cell = np.repeat(np.arange(cells.count.shape[0]), cells.count)
        scale = scale[cells.rows]
        expected = np.add.reduceat(p[cells.rows] * scale[:, np.newaxis], cells.starts, axis=0)
        return cls(cells.rows, scale, cell, 1.0 / cells.count, expected)

    def squared_sums(self, y: Labels) -> Array:
        """Return the sum over cells of the squared residual sum over |I|, for labels of shape (r, n).

        With counts N and expected counts E of a cell it is N.N - 2 N.E + E.E, and N.E a sum over samples.
        """
        r, (n_cells, n_classes) = y.shape[0], self.expected.shape
        label = y[:, self.rows]
        place = self.cell * n_classes + label
        cross = _sums(self.expected.ravel()[place], self.inverse[self.cell] * self.scale)
        constant = float(np.square(self.expected).sum(axis=1) @ self.inverse)
        if n_cells * n_classes <= 8 * self.rows.shape[0]:
            place += (np.arange(r) * (n_cells * n_classes))[:, np.newaxis]
            counts = np.bincount(place.ravel(), np.tile(self.scale, r), r * n_cells * n_classes)
            squares = _sums(np.square(counts.reshape(r, n_cells, n_classes)).sum(axis=2), self.inverse)
        else:
            # sum N.N/|I| from runs of sorted indices, for sparse tables
            squares = np.empty(r)
            for k, row in enumerate(place):
                order = np.argsort(row)
                draw = row[order]
                begins = group_starts(draw)
                runs = np.add.reduceat(self.scale[order], begins)
                squares[k] = runs**2 @ self.inverse[draw[begins] // n_classes]
        out: Array = squares - 2.0 * cross + constant
        return out


def _sums(terms: Array, weights: Array | float = 1.0) -> Array:
    """Return the weighted sum of each row; the rounding of a matrix product would depend on other rows."""
    out: Array = np.multiply(terms, weights, order="C").sum(axis=1)
    return out


def simulated_statistics(
    partitions: list[SharedCells],
    y: Labels,
    p: Array,
    scale: Array,
    relative: Callable[[Labels], Array | float],
    n_resamples: int,
    generator: np.random.Generator,
    clusters: Clusters | None = None,
) -> Array:
    """Return T of every partition for labels ``y``, and for labels simulated from ``p``.

    ``scale`` are sampling weights or ones; T is multiplied by ``relative(labels)``. The result has the shape
    (1 + n_resamples, partitions); residuals are taken around ``p``.
    """
    levels = [_Level.of(cells, p, scale) for cells in partitions]
    norms, rows = np.square(p).sum(axis=1), np.arange(p.shape[0])
    values = []
    for labels in chain([y[np.newaxis]], sample_labels(p, n_resamples, generator, clusters)):
        # the squared norm of each residual
        squares = (1.0 - 2.0 * p[rows, labels] + norms) * (scale * scale)
        found = [
            level.squared_sums(labels) - _sums(squares[:, level.rows], level.inverse[level.cell])
            for level in levels
        ]
        values.append(np.reshape(found, (len(levels), labels.shape[0])) * relative(labels))
    return np.concatenate(values, axis=1).T / p.shape[0]
