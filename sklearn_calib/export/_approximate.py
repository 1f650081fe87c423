"""Piecewise linear and step functions with a measured largest deviation from a given map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from sklearn_calib._core._inverse import switches
from sklearn_calib._core._links import EPS, logit
from sklearn_calib._core._maps import FAR, LARGEST, NUMPY, Linear, Step
from sklearn_calib._typing import Array

Function = Callable[[Array], Array]

# Deviations are measured on a grid this much finer than the knots.
_FINER = 10
_FIRST_KNOTS = 33
_MOST_KNOTS = 50_000
# Fraction of the tolerance for deviations on the grid: between its points they are slightly larger.
_SAFETY = 0.98
_STEP_GRID = 4097
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
        if max(abs(self.center), self.scale) > LARGEST / 4.0:
            raise ValueError(f"Scores beyond {LARGEST:g} cannot be exported. Divide them by a constant.")
        # quotients of scores and scale must be finite
        reach = min(float(np.log(LARGEST) - np.log(self.scale)), _REACH)
        return np.clip(self.center + self.scale * np.sinh(np.linspace(-reach, reach, n)), -LARGEST, LARGEST)

    def between(self, low: Array, high: Array, fraction: Array | float) -> Array:
        """Return scores between two others on the axis; the middle float if these coincide there."""
        if self.name == "logit":
            a, b = logit(low), logit(high)
            found = expit(a + (b - a) * fraction)
        else:
            a, b = (np.arcsinh((end - self.center) / self.scale) for end in (low, high))
            found = self.center + self.scale * np.sinh(a + (b - a) * fraction)
        return np.asarray(np.clip(found, low, high))


def approximate(
    function: Function,
    axis: Axis,
    breaks: Array,
    tolerance: float,
    *,
    relative: bool = False,
    straight: bool = False,
) -> Linear:
    """Return a piecewise linear function that deviates by at most ``tolerance`` from a map.

    The function of scores is evaluated at knots, at all floats next to ``breaks``, where it may have jumps or
    corners, and at nine points between neighbouring knots; a piece that deviates more is split. With
    ``relative`` the deviation is that of log-odds. With ``straight`` probabilities are interpolated in the
    score, otherwise log-odds along the axis.
    """

    def line(knots: Array) -> Linear:
        proba = function(knots)
        if straight:
            return Linear("score", 0.0, 1.0, "probability", knots, proba)
        return Linear(axis.name, axis.center, axis.scale, "logit", knots, np.clip(logit(proba), -FAR, FAR))

    ends = axis.scores(_FIRST_KNOTS)
    breaks = breaks[(breaks > ends[0]) & (breaks < ends[-1])]
    knots = np.unique(np.concatenate([ends, np.nextafter(breaks, -np.inf), breaks]))
    while True:
        probe = _probes(axis, knots)
        truth = function(probe.ravel()).reshape(probe.shape)
        deviation = np.abs(line(knots).evaluate(NUMPY, probe) - truth)
        wrong = np.flatnonzero((deviation > _allowed(truth, tolerance, relative)).any(axis=0))
        middle = axis.between(knots[wrong], knots[wrong + 1], 0.5)
        stuck = (middle == knots[wrong]) | (middle == knots[wrong + 1])
        middle[stuck] = (knots[wrong] / 2.0 + knots[wrong + 1] / 2.0)[stuck]
        # there are no scores between neighbouring floats
        new = np.setdiff1d(middle, knots)
        if not new.size:
            break
        knots = np.union1d(knots, new)
        if knots.size > _MOST_KNOTS:
            raise ValueError(
                f"tolerance={tolerance:g} needs more than {_MOST_KNOTS} knots for this map. Pass a "
                "greater one."
            )
    points = np.unique(np.concatenate([knots, _probes(axis, knots).ravel()]))
    truth = function(points)
    return line(_thinned(line(knots), points, truth, _allowed(truth, tolerance, relative)))


def _allowed(truth: Array, tolerance: float, relative: bool) -> Array | float:
    """Return the largest deviation that is allowed at each probability."""
    if not relative:
        return tolerance * _SAFETY
    # near 1 the probabilities themselves are rounded
    return tolerance * _SAFETY * truth * (1.0 - truth) + np.where(truth > 0.5, 4.0 * EPS, 0.0)


def _probes(axis: Axis, knots: Array) -> Array:
    fraction = np.arange(1, _FINER)[:, np.newaxis] / _FINER
    return axis.between(knots[:-1], knots[1:], fraction)


def _thinned(line: Linear, points: Array, truth: Array, allowed: Array | float) -> Array:
    """Return the knots without redundant ones, from left to right."""
    place = np.asarray(line.along(NUMPY, points))
    height = truth if line.values == "probability" else np.clip(logit(truth), -FAR, FAR)
    allowed = np.broadcast_to(allowed, points.shape)
    at = np.searchsorted(points, line.x)

    def holds(first: int, last: int) -> bool:
        rows = slice(at[first], at[last] + 1)
        x, y = place[rows], height[rows]
        gap = x[-1] - x[0]
        if gap <= 0.0:
            return last == first + 1
        found = y[0] + (x - x[0]) * ((y[-1] - y[0]) / gap)
        found = found if line.values == "probability" else expit(found)
        return bool((np.abs(found - truth[rows]) <= allowed[rows]).all())

    kept, first, last = [0], 0, line.x.shape[0] - 1
    while first < last:
        step = 1
        while first + 2 * step <= last and holds(first, first + 2 * step):
            step *= 2
        low, high = first + step, min(first + 2 * step, last)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if holds(first, middle) else (low, middle - 1)
        kept.append(low)
        first = low
    return np.asarray(line.x[kept])


def find_steps(function: Function, axis: Axis, breaks: Array) -> Step:
    """Return a piecewise constant map with at most one jump between two points of a grid."""
    known = np.unique(np.concatenate([axis.scores(_STEP_GRID), np.nextafter(breaks, -np.inf), breaks]))
    if axis.name == "logit":
        known = np.concatenate([[0.0], known, [1.0]])
    values = function(known)
    jump = np.flatnonzero(values[1:] != values[:-1])
    same = values[jump]
    edges = switches(lambda scores: function(scores) == same, known[jump], known[jump + 1])[1]
    return Step(edges, function(np.append(known[0], edges)))


def merge_steps(step: Step, tolerance: float, relative: bool) -> Step:
    """Return a step function with few steps that deviates by at most ``tolerance``."""
    least = most = float(step.values[0])
    edges: list[float] = []
    values: list[float] = []
    for edge, value in zip(step.edges.tolist(), step.values[1:].tolist(), strict=True):
        low, high = min(least, value), max(most, value)
        allowed = tolerance * _SAFETY * (low * (1.0 - high) if relative else 1.0)
        if high - low > 2.0 * allowed:
            edges.append(edge)
            values.append(least / 2.0 + most / 2.0)
            low = high = value
        least, most = low, high
    return Step(np.array(edges), np.array([*values, least / 2.0 + most / 2.0]))
