"""A smooth calibration curve: logistic regression on a natural cubic spline of the log-odds."""

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from sklearn_calib._core._binning import weight_middles
from sklearn_calib._core._blocks import ALL, BLOCK_ROWS, blocks
from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._links import logit
from sklearn_calib._core._newton import fit_logistic
from sklearn_calib._typing import Array

# Where the knots lie, as quantiles of the predictions.
_KNOTS = (0.05, 0.275, 0.5, 0.725, 0.95)

# Weight of the variance of the log-odds in the penalty, as a fraction of the variance of the outcomes: the
# fit is finite under perfect separation, and otherwise the effect is negligible.
_RIDGE = 1e-4

# The splines of some rows.
Splines = Callable[[slice], Array]


def natural_spline(x: Array, knots: Array) -> Array:
    """Return 1, x and k - 2 sums of truncated cubics, linear beyond the outer of k knots: (k, n)."""
    out = np.ones((max(2, knots.shape[0]), x.shape[0]))
    out[1] = x
    if knots.shape[0] > 2:
        last, before, others = knots[-1], knots[-2], knots[:-2, np.newaxis]
        t = np.maximum(x - knots[:, np.newaxis], 0.0)
        t *= t * t
        out[2:] = t[:-2] - t[-2] * ((last - others) / (last - before))
        out[2:] += t[-1] * ((before - others) / (last - before))
    return out


def smooth_frequency(grouped: GroupedOutcomes) -> Array:
    """Return the fitted event frequency of each group; the base rate for constant predictions or outcomes.

    At 0 and 1, whose log-odds are infinite, it is the observed event frequency.
    """
    inside = grouped.uncertain()
    if inside is not grouped:
        curve = grouped.positives / grouped.weight
        if inside.prob.size:
            curve[(grouped.prob > 0.0) & (grouped.prob < 1.0)] = smooth_frequency(inside)
        return curve
    base_rate = float(grouped.positives.sum() / grouped.total)
    x = logit(grouped.prob)
    if x[0] == x[-1] or base_rate in (0.0, 1.0):
        return np.full_like(x, base_rate)
    middle = weight_middles(grouped.weight)
    middle /= grouped.total
    knots = np.unique(np.interp(_KNOTS, middle, x))
    del middle

    def splines(rows: slice) -> Array:
        return natural_spline(x[rows], knots)

    kept = splines(ALL) if x.shape[0] <= BLOCK_ROWS else None
    columns = splines if kept is None else lambda rows: kept[:, rows]
    return _fit(_basis(columns, grouped.weight), columns, x, grouped, base_rate)


def _basis(splines: Splines, weight: Array) -> Array:
    """Return the map from the splines to ones, and uncorrelated columns of mean 0 and variance 1."""

    def triangle_of(table: Array) -> Array:
        return np.asarray(np.linalg.qr(table, mode="r"))

    parts = blocks(weight.shape[0])
    triangles = [triangle_of((np.sqrt(weight[rows]) * splines(rows)).T) for rows in parts]
    triangle = triangles[0] if len(triangles) == 1 else triangle_of(np.concatenate(triangles))
    # the triangle of the centered splines, per unit of weight
    mean, triangle = triangle[0, 1:] / triangle[0, 0], triangle[1:, 1:] / triangle[0, 0]
    deviation = np.sqrt((triangle**2).sum(axis=0))
    _, spread, directions = np.linalg.svd(triangle / deviation, full_matrices=False)
    kept = spread > 1e-9 * spread[0]
    turn = directions[kept] / spread[kept, np.newaxis] / deviation
    return np.vstack((np.eye(1, mean.shape[0] + 1), np.column_stack((-turn @ mean, turn))))


def _fit(basis: Array, splines: Splines, x: Array, grouped: GroupedOutcomes, base_rate: float) -> Array:
    """Return the frequencies that maximize the penalized likelihood, the same for weights times a number."""

    def columns(rows: slice) -> Array:
        return basis @ splines(rows)

    penalty = np.full(basis.shape[0], _RIDGE * base_rate * (1.0 - base_rate) * grouped.total)
    start = np.zeros(basis.shape[0])
    penalty[0], start[0] = 0.0, np.log(base_rate) - np.log1p(-base_rate)
    fit = fit_logistic(columns, grouped.weight, grouped.positives, start=start, penalty=penalty)
    # in place of the log-odds, which are no longer needed
    for rows in blocks(x.shape[0]):
        x[rows] = expit(fit.coef @ columns(rows))
    return x
