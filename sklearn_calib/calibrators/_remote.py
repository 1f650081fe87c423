"""Down-weighting of remote scores in parametric fits, for robustness."""

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._newton import fit_logistic

__all__ = ["balanced_intercept", "core_reach", "discount_remote", "discounts"]

Array = NDArray[np.float64]

# The core of the scores: absolute log-odds that this fraction of the weight does not exceed, or those of .95.
_CORE_SHARE = 0.95
_LEAST_REACH = float(np.log(19.0))
# Remote scores are so many times farther from log-odds 0 than the core reaches.
_REMOTE = 3.0


def core_reach(odds: Array, weight: Array) -> float:
    """Return the absolute log-odds that the core of the weight does not exceed, or a floor."""
    # by increasing score these fall, then rise: a stable sort merges the two runs
    order = np.argsort(odds, kind="stable")
    mass = np.cumsum(weight[order])
    # a little less, so that rounding of the sum cannot move on to the next score
    core = np.searchsorted(mass, _CORE_SHARE * (1.0 - 1e-12) * mass[-1])
    return max(float(odds[order[core]]), _LEAST_REACH)


def discounts(odds: Array, reach: float) -> Array:
    """Return the factor of the weight at absolute log-odds: min(1, (reach / odds)^3)."""
    ratio = np.divide(reach, odds, out=np.ones_like(odds), where=odds > reach)
    return np.asarray(ratio * ratio * ratio)


def discount_remote(z: Array, grouped: GroupedOutcomes) -> GroupedOutcomes | None:
    """Return log-odds with their weights, those of remote ones discounted, or None if there are none.

    The factor depends on the score alone, so that a model that is right is still estimated consistently. What
    a sample weighs in the derivative by the slope, its distance, then falls with the square of the distance.
    """
    farthest = float(np.abs(z[[0, -1]]).max())
    if farthest <= _REMOTE * _LEAST_REACH:
        return None
    # mostly it is enough to see that the core reaches farther than a third of the way
    inside = slice(*np.searchsorted(z, [-farthest / _REMOTE, farthest / _REMOTE]))
    if grouped.weight[inside].sum() < _CORE_SHARE * (1.0 - 1e-9) * grouped.total:
        return None
    odds = np.abs(z)
    reach = _REMOTE * core_reach(odds, grouped.weight)
    if farthest <= reach:
        return None
    factor = discounts(odds, reach)
    return GroupedOutcomes(z, factor * grouped.weight, factor * grouped.positives)


def balanced_intercept(offset: Array, weight: Array, target: Array, start: float) -> float:
    """Return the intercept at which the sum of the map is the sum of the targets: that of least log loss."""
    ones = np.broadcast_to(1.0, (1, offset.shape[0]))
    return float(fit_logistic(ones, weight, target, start=np.array([start]), offset=offset).coef[0])
