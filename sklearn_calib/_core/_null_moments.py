"""The debiased plug-in statistic of a partition into bins, and its moments under perfect calibration.

A bin with rows I has residual sum S and square sum Q = sum r_i^2, and contributes X/|I|, X = S^2 - Q: twice
the sum of r_i r_j over its pairs of rows. If the predictions are the true probabilities, rows are
independent with variance v = p(1 - p) and third moment m = v(1 - 2p); hence X has mean 0 and

    var(X)   = 2 W,  W = (sum v)^2 - sum v^2
    kappa(X) = 4 [(sum m)^2 - sum m^2] + 8 [(sum v)^3 - 3 sum v sum v^2 + 2 sum v^3]    (third cumulant)

bins are independent, and for a bin f that is part of a bin c of a coarser partition cov(X_f, X_c) =
var(X_f).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import GroupedOutcomes, group_starts

__all__ = [
    "NullMoments",
    "alike_powers",
    "bin_moments",
    "effective_pairs",
    "residual_sums",
    "row_powers",
    "third_cumulant",
    "third_cumulants",
    "third_powers",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NullMoments:
    """The statistic of one or several partitions, and its moments if predictions are true probabilities.

    One entry for each partition: ``statistic`` is T = sum over bins of X/(n |I|), whose mean is 0;
    ``variance`` and ``third_cumulant`` belong to it; ``covariance`` is that with the next entry (0 for the
    last). ``rows`` counts the rows that share their bin, and ``pairs`` says on how many pairs of deviating
    rows T rests, see :func:`effective_pairs`.
    """

    statistic: Array
    variance: Array
    third_cumulant: Array
    covariance: Array
    rows: Array
    pairs: Array


def effective_pairs(w2: Array, w4: Array) -> Array:
    """Return (sum W/|I|^2)^2 / (2 sum W/|I|^4), from the two sums over bins.

    If all bins have the same size this is sum W/2, the sum of v_i v_j over the pairs of rows that share a
    bin: for rare events, the expected number of pairs of events. A bin counts by its share of the variance
    of T, so that one with few rows, on which the variance rests, is not outweighed by pairs elsewhere.
    """
    w2 = np.maximum(w2, 0.0)
    return np.divide(w2 * w2, 2.0 * w4, out=np.zeros_like(w2), where=w4 > 0.0)


def residual_sums(p: Array, weight: Array, positives: Array) -> tuple[Array, Array]:
    """Return the residual sum and the sum of squared residuals of groups of tied rows; arrays broadcast."""
    negatives = weight - positives
    return positives * (1.0 - p) - negatives * p, positives * (1.0 - p) ** 2 + negatives * p**2


def third_powers(p: Array, weight: Array) -> Array:
    """Return what groups add to sum v, sum v^2, sum v^3, sum m and sum m^2, shape (5, groups)."""
    out = np.empty((5, p.shape[0]))
    v = np.multiply(p, 1.0 - p, out=out[0])
    np.multiply(v, v, out=out[1])
    np.multiply(out[1], v, out=out[2])
    np.multiply(v, 1.0 - 2.0 * p, out=out[3])
    np.multiply(out[3], out[3], out=out[4])
    out *= weight
    return out


def third_cumulant(powers: Array, count: Array) -> float:
    """Return the sum over bins of the third cumulant of X/|I|, from their sums of ``third_powers``."""
    v, v2, v3, m, m2 = powers
    kappa = 4.0 * (m * m - m2) + 8.0 * (v * (v * v - 3.0 * v2) + 2.0 * v3)
    # of a single row it is 0, whatever rounding makes of it
    return float(np.sum(np.where(count > 1.5, kappa, 0.0) / np.maximum(count, 1.0) ** 3))


def third_cumulants(powers: Array) -> Array:
    """Return the third cumulants, but for n, of dyadic levels 1, 2, ... from sums over the finest bins.

    ``powers``, of shape (6, bins), holds the sums of ``third_powers``, and the rows of each bin.
    """
    out = []
    while powers.shape[1] > 1:
        out.append(third_cumulant(powers[:5], powers[5]))
        powers = powers[:, ::2] + powers[:, 1::2]
    return np.array(out[::-1])


def row_powers(grouped: GroupedOutcomes, cell: NDArray[np.int64], n_cells: int) -> Array:
    """Return sums of ``third_powers``, and rows, of cells; ``cell`` is non-decreasing."""
    powers = np.zeros((6, n_cells))
    starts = group_starts(cell)
    powers[:5, cell[starts]] = np.add.reduceat(third_powers(grouped.prob, grouped.weight), starts, axis=1)
    powers[5, cell[starts]] = np.add.reduceat(grouped.weight, starts)
    return powers


def alike_powers(a: Array, v2: Array, count: Array) -> Array:
    """Return what ``row_powers`` does, of cells so narrow that their rows are taken for alike.

    ``a`` and ``v2`` are the sums of v and v^2; the cells cut [0, 1] into equal parts, so that the sign of
    1 - 2p, which v does not tell, changes in the middle.
    """
    v = a / np.maximum(count, 1.0)
    slope = np.sqrt(np.maximum(1.0 - 4.0 * v, 0.0))
    slope[slope.shape[0] // 2 :] *= -1.0
    return np.stack((a, v2, v2 * v, a * slope, v2 * slope**2, count))


def bin_moments(grouped: GroupedOutcomes, cell: NDArray[np.int64]) -> NullMoments:
    """Return statistic and moments of one partition, arrays of one entry.

    Parameters
    ----------
    grouped : GroupedOutcomes
        Distinct predictions with integer weights, the numbers of their rows.
    cell : ndarray of shape (groups,)
        The bin of each group, non-decreasing.
    """
    starts = group_starts(cell)
    n, weight = grouped.total, grouped.weight
    count = np.add.reduceat(weight, starts)
    powers = np.add.reduceat(third_powers(grouped.prob, weight), starts, axis=1)
    residual, square = residual_sums(grouped.prob, weight, grouped.positives)
    shared = count > 1.5
    x = np.where(shared, np.add.reduceat(residual, starts) ** 2 - np.add.reduceat(square, starts), 0.0)
    w = np.where(shared, np.maximum(powers[0] ** 2 - powers[1], 0.0), 0.0)
    return NullMoments(
        statistic=np.array([np.sum(x / count) / n]),
        variance=np.array([2.0 * np.sum(w / count**2) / n**2]),
        third_cumulant=np.array([third_cumulant(powers, count) / n**3]),
        covariance=np.zeros(1),
        rows=np.array([count[shared].sum()]),
        pairs=effective_pairs(np.array([np.sum(w / count**2)]), np.array([np.sum(w / count**4)])),
    )
