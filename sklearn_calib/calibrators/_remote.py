"""Downweighting of outlying scores in parametric fits, for robustness."""

import numpy as np

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._newton import fit_logistic
from sklearn_calib._typing import Array

# Level of the quantile of absolute log-odds that bounds the core of the scores, at least the log-odds of .95.
_CORE_LEVEL = 0.95
_LEAST_REACH = float(np.log(19.0))
# Scores are outlying if their absolute log-odds exceed this multiple of the bound of the core.
_REMOTE = 3.0


def core_reach(odds: Array, weight: Array) -> float:
    """Return the bound of the core of the scores, in absolute log-odds."""
    # by increasing score these decrease, then increase: a stable sort merges the two runs
    order = np.argsort(odds, kind="stable")
    mass = np.cumsum(weight[order])
    # slightly less, so that rounding of the sum cannot select the next score
    core = np.searchsorted(mass, _CORE_LEVEL * (1.0 - 1e-12) * mass[-1])
    return max(float(odds[order[core]]), _LEAST_REACH)


def discounts(odds: Array, reach: float) -> Array:
    """Return the factor of the weight at absolute log-odds: min(1, (reach / odds)^3)."""
    ratio = np.divide(reach, odds, out=np.ones_like(odds), where=odds > reach)
    return np.asarray(ratio * ratio * ratio)


def discount_remote(z: Array, grouped: GroupedOutcomes) -> GroupedOutcomes | None:
    """Return log-odds with reduced weights of outlying ones, or None if there are none.

    The factor depends on the score alone, so that the estimate of a correctly specified model is consistent.
    The influence of a sample on the slope then decreases with the square of its log-odds.
    """
    farthest = float(np.abs(z[[0, -1]]).max())
    if farthest <= _REMOTE * _LEAST_REACH:
        return None
    # in most cases it suffices that the core extends beyond a third of the range
    inside = slice(*np.searchsorted(z, [-farthest / _REMOTE, farthest / _REMOTE]))
    if grouped.weight[inside].sum() < _CORE_LEVEL * (1.0 - 1e-9) * grouped.total:
        return None
    odds = np.abs(z)
    reach = _REMOTE * core_reach(odds, grouped.weight)
    if farthest <= reach:
        return None
    factor = discounts(odds, reach)
    return GroupedOutcomes(z, factor * grouped.weight, factor * grouped.positives)


def balanced_intercept(offset: Array, weight: Array, target: Array, start: float) -> float:
    """Return the intercept with minimal log loss, for which the map and the targets have the same sum."""
    ones = np.broadcast_to(1.0, (1, offset.shape[0]))
    return float(fit_logistic(ones, weight, target, start=np.array([start]), offset=offset).coef[0])
