"""Piecewise linear functions with a measured largest deviation from a given map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from sklearn_calib._core._links import EPS, logit
from sklearn_calib._core._maps import FAR, LARGEST, NUMPY, Linear
from sklearn_calib._typing import Array

# Deviations are measured on a grid this much finer than the knots.
_FINER = 10
_FIRST_KNOTS = 33
_MOST_KNOTS = 50_000
# Fraction of the tolerance for deviations on the grid: between its points they are slightly larger.
_SAFETY = 0.98
_REACH = 700.0


@dataclass(frozen=True)
class Axis:
    """Scale of the scores: log-odds, or the inverse hyperbolic sine around a center."""

    name: str
    center: float = 0.0
    scale: float = 1.0

    def scores(self, n: int) -> Array:
        """Return n scores that cover the range of all scores."""
        if self.name == "logit":
            found = expit(np.linspace(-FAR, FAR, n))
            found[[0, -1]] = EPS, 1.0 - EPS
            return np.asarray(found)
        # quotients of scores and scale must be finite
        reach = min(float(np.log(LARGEST) - np.log(self.scale)), _REACH)
        return np.clip(self.center + self.scale * np.sinh(np.linspace(-reach, reach, n)), -LARGEST, LARGEST)

    def between(self, low: Array, high: Array, fraction: Array | float) -> Array:
        """Return scores between two others on the axis."""
        if self.name == "logit":
            a, b = logit(low), logit(high)
            found = expit(a + (b - a) * fraction)
        else:
            a, b = (np.arcsinh((end - self.center) / self.scale) for end in (low, high))
            found = self.center + self.scale * np.sinh(a + (b - a) * fraction)
        return np.asarray(np.clip(found, low, high))


def approximate(
    function: Callable[[Array], Array], axis: Axis, breaks: Array, tolerance: float, relative: bool
) -> Linear:
    """Return a piecewise linear function that deviates by at most ``tolerance`` from a map.

    Log-odds are linear along the axis. The function of scores is evaluated at knots, at all floats next to
    ``breaks``, where it may have jumps or corners, and at nine points between neighbouring knots; a piece
    that deviates more is split. With ``relative`` the deviation is that of log-odds.
    """
    ends = axis.scores(_FIRST_KNOTS)
    breaks = breaks[(breaks > ends[0]) & (breaks < ends[-1])]
    knots = np.unique(np.concatenate([ends, np.nextafter(breaks, -np.inf), breaks]))
    fraction = np.arange(1, _FINER)[:, np.newaxis] / _FINER
    while True:
        values = np.clip(logit(function(knots)), -FAR, FAR)
        line = Linear(axis.name, axis.center, axis.scale, "logit", knots, values)
        probe = axis.between(knots[:-1], knots[1:], fraction)
        truth = function(probe.ravel()).reshape(probe.shape)
        allowed = tolerance * _SAFETY * (truth * (1.0 - truth) if relative else 1.0)
        if relative:
            # near 1 the probabilities themselves are rounded
            allowed += np.where(truth > 0.5, 4.0 * EPS, 0.0)
        wrong = np.flatnonzero((np.abs(line.evaluate(NUMPY, probe) - truth) > allowed).any(axis=0))
        # there are no scores between neighbouring floats
        new = np.setdiff1d(axis.between(knots[wrong], knots[wrong + 1], 0.5), knots)
        if not new.size:
            return line
        knots = np.union1d(knots, new)
        if knots.size > _MOST_KNOTS:
            raise ValueError(
                f"tolerance={tolerance:g} needs more than {_MOST_KNOTS} knots for this map. Pass a "
                "greater one."
            )
