"""A smooth calibration curve: logistic regression on a natural cubic spline of the log-odds."""

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._links import expit, logit

__all__ = ["KNOT_QUANTILES", "natural_spline", "smooth_frequency"]

Array = NDArray[np.float64]

#: Where the knots lie, as quantiles of the predictions.
KNOT_QUANTILES = {
    3: (0.1, 0.5, 0.9),
    4: (0.05, 0.35, 0.65, 0.95),
    5: (0.05, 0.275, 0.5, 0.725, 0.95),
    6: (0.05, 0.23, 0.41, 0.59, 0.77, 0.95),
    7: (0.025, 0.1833, 0.3417, 0.5, 0.6583, 0.8167, 0.975),
}

# Weight of the variance of the log-odds in the penalty, in units of observations: there is a finite fit where
# the outcomes are separated, and elsewhere it is without effect.
_RIDGE = 0.01
_MOST_STEPS = 100
_MOST_HALVINGS = 40
_CONVERGED = 1e-14


def natural_spline(x: Array, knots: Array) -> Array:
    """Return x and k - 2 sums of truncated cubics, linear beyond the outer of k >= 3 knots: (n, k - 1)."""
    last, before = knots[-1], knots[-2]
    unit = (last - knots[0]) ** 2
    columns = [x]
    for knot in knots[:-2]:
        term = np.maximum(x - knot, 0.0) ** 3
        term -= np.maximum(x - before, 0.0) ** 3 * ((last - knot) / (last - before))
        term += np.maximum(x - last, 0.0) ** 3 * ((before - knot) / (last - before))
        columns.append(term / unit)
    return np.column_stack(columns)


def smooth_frequency(grouped: GroupedOutcomes, n_knots: int) -> Array:
    """Return the fitted event frequency of each group; the base rate where nothing else can be fitted."""
    share = grouped.weight / grouped.total
    base_rate = float(grouped.positives.sum() / grouped.total)
    x = logit(grouped.prob)
    if x[0] == x[-1] or base_rate in (0.0, 1.0):
        return np.full_like(x, base_rate)
    middle = np.cumsum(share) - 0.5 * share
    knots = np.unique(np.interp(KNOT_QUANTILES[n_knots], middle, x))
    # the fit is that of any knots if these coincide
    basis = natural_spline(x, knots) if knots.shape[0] > 2 else x[:, np.newaxis]
    basis -= share @ basis
    basis /= np.sqrt(share @ basis**2)
    _, spread, directions = np.linalg.svd(np.sqrt(share)[:, np.newaxis] * basis, full_matrices=False)
    kept = spread > 1e-9 * spread[0]
    # of mean 0, variance 1, uncorrelated
    basis = basis @ (directions[kept].T / spread[kept])
    return expit(_fit(np.column_stack((np.ones_like(x), basis)), grouped, base_rate))


def _fit(design: Array, grouped: GroupedOutcomes, base_rate: float) -> Array:
    """Return the linear predictor that maximises the penalised likelihood, by Newton's method."""
    penalty = np.full(design.shape[1], _RIDGE)
    penalty[0] = 0.0
    negatives = grouped.weight - grouped.positives
    point = np.zeros(design.shape[1])
    point[0] = np.log(base_rate) - np.log1p(-base_rate)

    def loss(at: Array) -> float:
        eta = design @ at
        terms = grouped.positives * np.logaddexp(0.0, -eta) + negatives * np.logaddexp(0.0, eta)
        return float(terms.sum() + 0.5 * penalty @ at**2)

    current = loss(point)
    for _ in range(_MOST_STEPS):
        eta = design @ point
        high, low = expit(eta), expit(-eta)
        gradient = design.T @ (grouped.positives * low - negatives * high) - penalty * point
        curvature = (design.T * (grouped.weight * high * low)) @ design + np.diag(penalty)
        step = np.linalg.lstsq(curvature, gradient, rcond=None)[0]
        gain = float(gradient @ step)
        for _ in range(_MOST_HALVINGS):
            trial = loss(point + step)
            if trial <= current + 1e-13 * (1.0 + abs(current)):
                break
            step /= 2.0
        point, current = point + step, trial
        if gain < _CONVERGED * (1.0 + grouped.total):
            break
    return np.asarray(design @ point)
