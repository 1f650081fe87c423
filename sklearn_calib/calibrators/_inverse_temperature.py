"""The best inverse temperature: of grouped log-odds, and of rows of logits."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib.calibrators._logistic import StandardRows, chunks, is_long, pool_in_pairs, power_of_two

__all__ = [
    "USUAL_SLOPE",
    "fit_grouped_temperature",
    "fit_inverse_temperature",
    "fit_shrunk_temperature",
    "shrunk_temperature",
]

Array = NDArray[np.float64]
# From an inverse temperature to derivative and second derivative of the loss.
Derivatives = Callable[[float], tuple[float, float]]

# The inverse temperature stays within this factor (as a logarithm) of both 1 and 1 / typical logit.
_LARGEST_LOG = 709.0
_REACH = 10.0
_MAX_ITERATIONS = 100
_LAST_MOVE = 1e-8
_LAST_CHORD = 1e-6
# Rows of the subset whose solution is the start for all rows.
_COARSE_ROWS = 2048
# Logits handled at a time, so that temporaries stay in cache.
_CHUNK = 1 << 15
# Standard deviation of the normal prior of the logarithm of a shrunk temperature of several classes, and the
# prior odds that there is a temperature to be fitted at all.
_PRIOR_DEVIATION = 1.0
_PRIOR_ODDS = 2.0
#: Where that prior is centred for scores in an unknown unit, divided by their typical size.
USUAL_SLOPE = 2.0


def fit_grouped_temperature(z: Array, grouped: GroupedOutcomes) -> float:
    """Return the inverse temperature of grouped log-odds, in increasing order."""
    if z[0] == 0.0 and z[-1] == 0.0:
        return 1.0
    magnitude = power_of_two(z)
    if is_long(z):
        few, mass = pool_in_pairs(z, grouped.weight, 1.0 / magnitude)
    else:
        few, mass = z / magnitude, grouped.weight
    spread = float(np.sqrt((few * few * mass).sum() / grouped.total))
    few = few / spread
    rows = StandardRows(z, grouped.weight, 1.0 / magnitude, 0.0, 1.0 / spread)
    linear = float(rows.moments(grouped.positives)[0])
    scale, flat_slope = spread * magnitude, float(few @ mass) / 2.0 - linear
    separated = _separates(z, grouped)
    coarse = StandardRows(few, mass)
    beta = _solve(_derivatives_of(coarse, linear), scale, separated, flat_slope)
    if separated or flat_slope >= 0.0 or not is_long(z):
        return beta
    # the curvature of the pooled log-odds is nearly right, so that a step that proves small needs no other
    unit = beta * scale
    second = _derivatives_of(coarse, linear)(unit)[1]
    move = (linear - float(rows.gradient(np.array([unit, 0.0]))[0])) / (unit * second)
    if abs(move) <= _LAST_CHORD:
        return float(beta * np.exp(move))
    return _solve(_derivatives_of(rows, linear), scale, separated, flat_slope, beta)


def _separates(z: Array, grouped: GroupedOutcomes) -> bool:
    """Tell whether no event has negative and no other row positive log-odds."""
    return not any(
        (((positives > 0) & (part < 0)) | ((positives < weight) & (part > 0))).any()
        for part, weight, positives in (
            (z[rows], grouped.weight[rows], grouped.positives[rows]) for rows in chunks(z.shape[0])
        )
    )


def _derivatives_of(rows: StandardRows, linear: float) -> Derivatives:
    """Return the derivatives of sum_i weight_i log(1 + exp(beta x_i)) - beta linear."""

    def derivatives(beta: float) -> tuple[float, float]:
        gradient, hessian = rows.derivatives(np.array([beta, 0.0]))
        return float(gradient[0]) - linear, float(hessian[0, 0])

    return derivatives


def fit_inverse_temperature(z: Array, codes: NDArray[np.int64], weight: Array | None) -> float:
    """Return the inverse temperature of rows of logits."""
    n = z.shape[0]
    w = np.ones(n) if weight is None else weight
    # the loss of a row is log sum_k exp(beta d_k), with d the logits less that of the true class
    d, scale = _unit_scale(z - z[np.arange(n), codes][:, np.newaxis], w)
    if scale == 0.0:
        return 1.0
    start, stride = 1.0, n // _COARSE_ROWS
    if stride > 1 and not _is_separated(d[::stride]):
        start = _solve_rows(d[::stride], w[::stride], scale, start)
    return _solve_rows(d, w, scale, start)


def fit_shrunk_temperature(z: Array, codes: NDArray[np.int64], weight: Array | None, known: bool) -> float:
    """Return the shrunk inverse temperature of rows of logits; see ``shrunk_temperature``.

    Logits in a ``known`` unit are those of forecasts: the prior is centred at 1, and 1 is the rival.
    """
    n = z.shape[0]
    w = np.ones(n) if weight is None else weight
    d, scale = _unit_scale(z - z[np.arange(n), codes][:, np.newaxis], w)
    if scale == 0.0:
        return 1.0

    def loss(beta: float) -> float:
        size = max(1, _CHUNK // d.shape[1])
        parts = (slice(start, start + size) for start in range(0, n, size))
        return float(sum(w[part] @ logsumexp(beta * d[part], axis=1) for part in parts))

    centre = scale if known else USUAL_SLOPE
    beta, share = shrunk_temperature(
        lambda beta: _row_derivatives(d, w, beta), loss, centre, _PRIOR_DEVIATION
    )
    return share * (beta / scale) + 1.0 - share if known else min(beta / scale, float(np.exp(_LARGEST_LOG)))


def shrunk_temperature(
    derivatives: Derivatives, loss: Callable[[float], float], centre: float, deviation: float
) -> tuple[float, float]:
    """Return the inverse temperature of greatest posterior density, and the posterior share of this model.

    The logarithm of its ratio to ``centre`` has a normal prior of mean 0 and this standard ``deviation``.
    The rival is ``centre`` itself. The evidence is Laplace's approximation to the integral over it.
    """
    pull = 1.0 / deviation**2
    theta, low, high, bend = 0.0, -np.inf, np.inf, pull
    for _ in range(_MAX_ITERATIONS):
        beta = centre * float(np.exp(theta))
        first, second = derivatives(beta)
        slope = beta * first + pull * theta
        bend = beta * (beta * second + first) + pull
        low, high = (theta, high) if slope < 0.0 else (low, theta)
        # far from the solution the curvature says little
        step = float(np.clip(-slope / bend if bend > 0.0 else -slope, -1.0 - abs(theta), 1.0 + abs(theta)))
        moved = theta + step if low <= theta + step <= high else (low + high) / 2.0
        done = abs(moved - theta) <= _LAST_MOVE
        theta = moved
        if done:
            break
    beta = centre * float(np.exp(theta))
    gain = loss(centre) - loss(beta) - pull * theta * theta / 2.0
    return beta, float(expit(gain + np.log(_PRIOR_ODDS) + np.log(pull / max(bend, pull)) / 2.0))


def _is_separated(d: Array) -> bool:
    return not (d > 0.0).any()


def _solve_rows(d: Array, w: Array, scale: float, start: float) -> float:
    separated, flat_slope = _is_separated(d), float((d.mean(axis=1) * w).sum())
    return _solve(lambda beta: _row_derivatives(d, w, beta), scale, separated, flat_slope, start)


def _row_derivatives(d: Array, w: Array, beta: float) -> tuple[float, float]:
    """Return derivative and second derivative of sum_i w_i log sum_k exp(beta d_ik)."""
    first = second = 0.0
    rows = max(1, _CHUNK // d.shape[1])
    for start in range(0, d.shape[0], rows):
        part, share = d[start : start + rows], w[start : start + rows]
        e = beta * part
        e -= e.max(axis=1, keepdims=True)
        np.exp(e, out=e)
        total = e.sum(axis=1)
        e *= part
        mean = e.sum(axis=1) / total
        e *= part
        variance = e.sum(axis=1) / total - mean * mean
        first += float((share * mean).sum())
        second += float((share * variance).sum())
    return first, second


def _unit_scale(z: Array, weight: Array) -> tuple[Array, float]:
    """Return logits divided by their weighted root mean square, and the latter."""
    largest = float(max(z.max(), -z.min()))
    if largest == 0.0:
        return z, 0.0
    unit = z / largest
    square = np.einsum("ij,ij->i", unit, unit) / unit.shape[1]
    spread = float(np.sqrt((square * weight).sum() / weight.sum()))
    unit /= spread
    return unit, spread * largest


def _solve(
    derivatives: Derivatives, scale: float, separated: bool, flat_slope: float, start: float = 1.0
) -> float:
    """Return the inverse temperature at which the derivative of the loss vanishes.

    ``derivatives`` take it in units in which logits are of order 1; what is returned, and ``start``, belong
    to the logits themselves. The derivative increases. It is ``flat_slope`` at 0, and negative for ever if
    the rows are separated.
    """
    shift = float(np.log(scale))
    low, high = min(0.0, shift) - _REACH, max(0.0, shift) + _REACH
    if separated or flat_slope >= 0.0:
        return _finite_exp((high if separated else low) - shift)
    theta = float(np.clip(np.log(start) + shift, low, high))
    for iteration in range(_MAX_ITERATIONS):
        beta = float(np.exp(theta))
        first, second = derivatives(beta)
        low, high = (theta, high) if first < 0.0 else (low, theta)
        newton = theta - first / (beta * second) if second > 0.0 else low
        if abs(newton - theta) <= _LAST_MOVE:
            return _finite_exp(newton - shift)
        # bisection, where Newton leaves the bracket or takes too long
        inside = low < newton < high and iteration < _MAX_ITERATIONS // 2
        theta = newton if inside else (low + high) / 2.0
        if high - low <= _LAST_MOVE:
            break
    return _finite_exp(theta - shift)


def _finite_exp(x: float) -> float:
    """Return exp(x), or the largest float beside logits too small for one."""
    return float(np.exp(min(x, _LARGEST_LOG)))
