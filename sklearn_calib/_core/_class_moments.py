"""The debiased plug-in statistic of several classes, and its moments under perfect calibration.

A cell with rows I contributes X/|I|, X = sum over i != j in I of R_i . R_j, where R = (one-hot label) - z.
If z is the true law of the label, rows are independent with covariance C = diag(z) - z z'; hence X has mean 0
and

    var(X)   = 2 W,  W = sum_{i != j} tr(C_i C_j)
    kappa(X) = 4 sum_{i != j} E (R_i . R_j)^3 + 8 sum_{i, j, k distinct} tr(C_i C_j C_k)    (third cumulant)

cells are independent, and for a cell f that is part of a cell c of a coarser partition cov(X_f, X_c) =
var(X_f).
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._alcoves import SharedCells
from sklearn_calib._core._null_moments import NullMoments, effective_pairs

__all__ = ["cell_cumulants", "cell_statistics", "class_moments"]

Array = NDArray[np.float64]

# Numbers in the arrays of one step.
_WORK = 1 << 20


def cell_statistics(cells: SharedCells, y: NDArray[np.int64], p: Array) -> Array:
    """Return X of each cell."""
    residual = -p[cells.rows]
    residual[np.arange(residual.shape[0]), y[cells.rows]] += 1.0
    total = np.add.reduceat(residual, cells.starts, axis=0)
    squares = np.add.reduceat(np.square(residual).sum(axis=1), cells.starts)
    return np.square(total).sum(axis=1) - squares


def cell_cumulants(cells: SharedCells, z: Array) -> tuple[Array, Array]:
    """Return W and kappa of each cell, if labels have the laws ``z``, shape (n, K).

    W is exact. So is kappa for rows alike, and for large cells its second sum up to a share of order 1/|I|;
    else rows stand for the mean of their cell. O(n K min(K, |I|)).
    """
    w, kappa = np.empty(cells.count.shape[0]), np.empty(cells.count.shape[0])
    for chosen, rows in _same_size(cells, z.shape[1]):
        size = rows.shape[1]
        part = z[rows]
        squares = part * part
        q2, q3 = squares.sum(axis=2), (squares * part).sum(axis=2)
        total, g = part.sum(axis=1), squares.sum(axis=1)
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
        w[chosen] = trace2 - (q2 - 2.0 * q3 + q2 * q2).sum(axis=1)
        mean = total / size
        kappa[chosen] = 4.0 * size * (size - 1) * _third_moment_of_a_pair(mean)
        if size > 2:
            m3 = ((gram @ gram) * gram).sum(axis=(1, 2))
            trace3 = (total**3).sum(axis=1) - 3.0 * (total**2 * g).sum(axis=1) + 3.0 * d_m2 - m3
            kappa[chosen] += 8.0 * trace3 * (1.0 - 1.0 / size) * (1.0 - 2.0 / size)
    return np.maximum(w, 0.0), kappa


def _third_moment_of_a_pair(z: Array) -> Array:
    """Return E (R_1 . R_2)^3 for two independent rows of the same law, from its power sums."""
    q2, q3, q4 = ((z**k).sum(axis=1) for k in (2, 3, 4))
    return q2 - 6.0 * q3 + 10.0 * q4 + 3.0 * q2**2 - 12.0 * q2 * q3 + 4.0 * q2**3


def _same_size(cells: SharedCells, n_classes: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield the indices of cells of the same size, and their rows, shape (cells, size)."""
    for size in np.unique(cells.count):
        chosen = np.flatnonzero(cells.count == size)
        step = max(1, _WORK // (int(size) * n_classes))
        for first in range(0, chosen.shape[0], step):
            part = chosen[first : first + step]
            yield part, cells.rows[cells.starts[part][:, np.newaxis] + np.arange(size)]


def class_moments(
    partitions: list[SharedCells], y: NDArray[np.int64], p: Array, law: Array | None = None
) -> NullMoments:
    """Return statistic and moments of partitions, coarse to fine, each a refinement of the one before.

    ``law`` are the label probabilities under the null hypothesis, ``p`` if None.
    """
    n = p.shape[0]
    z = p if law is None else law
    rows = [np.zeros(len(partitions)) for _ in range(7)]
    statistic, variance, third, covariance, paired, w2, w4 = rows
    parent = np.ones(n)
    for k, cells in enumerate(partitions):
        if not cells.count.size:
            break
        count = cells.count.astype(np.float64)
        w, kappa = cell_cumulants(cells, z)
        statistic[k] = (cell_statistics(cells, y, p) / count).sum() / n
        variance[k] = 2.0 * (w / count**2).sum() / n**2
        third[k] = (kappa / count**3).sum() / n**3
        if k:
            covariance[k - 1] = 2.0 * (w / (count * parent[cells.rows[cells.starts]])).sum() / n**2
        paired[k] = count.sum()
        w2[k], w4[k] = (w / count**2).sum(), (w / count**4).sum()
        parent[cells.rows] = np.repeat(count, cells.count)
    # tr(C_i C_j) is 4 v_i v_j for two classes: pairs count alike in both conventions
    return NullMoments(statistic, variance, third, covariance, paired, effective_pairs(w2, w4) / 4.0)
