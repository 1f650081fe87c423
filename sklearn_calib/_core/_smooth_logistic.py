"""A smooth calibration curve: logistic regression on a natural cubic spline of the log-odds."""

import numpy as np
from scipy.special import expit

from sklearn_calib._core._binning import weight_middles
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
    """Return x and k - 2 sums of truncated cubics, linear beyond the outer of k >= 3 knots: (n, k - 1)."""
    last, before = knots[-1], knots[-2]
    columns = [x]
    for knot in knots[:-2]:
        term = np.maximum(x - knot, 0.0) ** 3
        term -= np.maximum(x - before, 0.0) ** 3 * ((last - knot) / (last - before))
        term += np.maximum(x - last, 0.0) ** 3 * ((before - knot) / (last - before))
        columns.append(term)
    return np.column_stack(columns)


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
    fraction = grouped.weight / grouped.total
    base_rate = float(grouped.positives.sum() / grouped.total)
    x = logit(grouped.prob)
    if x[0] == x[-1] or base_rate in (0.0, 1.0):
        return np.full_like(x, base_rate)
    middle = weight_middles(grouped.weight)
    middle /= grouped.total
    knots = np.unique(np.interp(_KNOTS, middle, x))
    del middle
    design = _design(x, fraction, knots)
    del x, fraction
    return _fit(design, grouped, base_rate)


def _design(x: Array, fraction: Array, knots: Array) -> Array:
    """Return ones, and an uncorrelated basis of the splines with mean 0 and variance 1: at most (n, k)."""
    # linear if there are fewer than three distinct knots
    n_columns = knots.shape[0] - 1 if knots.shape[0] > 2 else 1
    basis = natural_spline(x, knots) if n_columns > 1 else x[:, np.newaxis]
    basis = basis - fraction @ basis
    basis /= np.sqrt(fraction @ basis**2)
    triangle = np.linalg.qr(np.sqrt(fraction)[:, np.newaxis] * basis, mode="r")
    _, spread, directions = np.linalg.svd(triangle, full_matrices=False)
    kept = spread > 1e-9 * spread[0]
    return np.column_stack((np.ones(x.shape[0]), basis @ (directions[kept].T / spread[kept])))


def _fit(design: Array, grouped: GroupedOutcomes, base_rate: float) -> Array:
    """Return the frequencies that maximize the penalized likelihood, the same for weights times a number."""
    penalty = np.full(design.shape[1], _RIDGE * base_rate * (1.0 - base_rate))
    start = np.zeros(design.shape[1])
    penalty[0], start[0] = 0.0, np.log(base_rate) - np.log1p(-base_rate)
    weight, positives = grouped.weight / grouped.total, grouped.positives / grouped.total
    fit = fit_logistic(design.T, weight, positives, start=start, penalty=penalty)
    return np.asarray(expit(design @ fit.coef))
