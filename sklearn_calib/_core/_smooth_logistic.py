"""A smooth calibration curve: logistic regression on a natural cubic spline of the log-odds."""

import numpy as np
from scipy.special import expit

from sklearn_calib._core._binning import weight_middles
from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._links import logit
from sklearn_calib._core._newton import fit_logistic
from sklearn_calib._typing import Array

# Where the knots lie, as quantiles of the predictions.
_KNOTS = (0.05, 0.275, 0.5, 0.725, 0.95)

# Weight of the variance of the log-odds in the penalty, as a fraction of the variance of the outcomes: the
# fit is finite under perfect separation, and otherwise the effect is negligible.
_RIDGE = 1e-4


def natural_spline(x: Array, knots: Array) -> Array:
    """Return 1, x and k - 2 sums of truncated cubics, linear beyond the outer of k knots: (k, n)."""
    rows = [np.ones_like(x), x]
    if knots.shape[0] < 3:
        return np.stack(rows)
    last, before = knots[-1], knots[-2]
    at_last, at_before = _cubes(x, last), _cubes(x, before)
    for knot in knots[:-2]:
        term = _cubes(x, knot)
        term -= at_before * ((last - knot) / (last - before))
        term += at_last * ((before - knot) / (last - before))
        rows.append(term)
    return np.stack(rows)


def _cubes(x: Array, knot: float) -> Array:
    t = np.maximum(x - knot, 0.0)
    return np.asarray(t * t * t)


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
    return _fit(_basis(x, grouped.weight, knots), knots, x, grouped, base_rate)


def _basis(x: Array, weight: Array, knots: Array) -> Array:
    """Return the map from the splines to ones, and uncorrelated columns of mean 0 and variance 1."""

    def triangle_of(table: Array) -> Array:
        return np.asarray(np.linalg.qr(table, mode="r"))

    parts = blocks(x.shape[0])
    roots = (np.sqrt(weight[rows]) * natural_spline(x[rows], knots) for rows in parts)
    triangle = triangle_of(np.concatenate([triangle_of(part.T) for part in roots]))
    # the triangle of the centered splines, per unit of weight
    mean, triangle = triangle[0, 1:] / triangle[0, 0], triangle[1:, 1:] / triangle[0, 0]
    deviation = np.sqrt((triangle**2).sum(axis=0))
    _, spread, directions = np.linalg.svd(triangle / deviation, full_matrices=False)
    kept = spread > 1e-9 * spread[0]
    turn = directions[kept] / spread[kept, np.newaxis] / deviation
    return np.vstack((np.eye(1, mean.shape[0] + 1), np.column_stack((-turn @ mean, turn))))


def _fit(basis: Array, knots: Array, x: Array, grouped: GroupedOutcomes, base_rate: float) -> Array:
    """Return the frequencies that maximize the penalized likelihood, the same for weights times a number."""

    def columns(rows: slice) -> Array:
        return basis @ natural_spline(x[rows], knots)

    penalty = np.full(basis.shape[0], _RIDGE * base_rate * (1.0 - base_rate) * grouped.total)
    start = np.zeros(basis.shape[0])
    penalty[0], start[0] = 0.0, np.log(base_rate) - np.log1p(-base_rate)
    fit = fit_logistic(columns, grouped.weight, grouped.positives, start=start, penalty=penalty)
    # in place of the log-odds, which are no longer needed
    for rows in blocks(x.shape[0]):
        x[rows] = expit(fit.coef @ columns(rows))
    return x
