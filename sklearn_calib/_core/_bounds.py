"""Margins of the plug-in cutoff calibration error, and their limiting distribution.

For a fixed score f and simultaneously for all monotone maps h, the errors of sample and population differ by
at most V_1 + V_0, where V_y is the largest deviation of the empirical probability of {Y = y, f in J} over
intervals J. With the two classes mapped to adjacent intervals of [0, 1], this is the range of a uniform
empirical process on [0, pi] plus its range on [pi, 1], pi = P(Y = 1). Proofs are in docs/certificates.md.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfc

from sklearn_calib._typing import Array

#: Names of the margins, tightest first.
BOUND_METHODS = ("asymptotic", "dkw", "paper")
#: These methods and the one that needs the outcomes, :func:`bootstrap_margin`.
MARGIN_METHODS = (*BOUND_METHODS, "bootstrap")


# Below this multiple of its standard deviation the range of a bridge has probability under 1e-8.
_SMALLEST_RANGE = 0.45
# Terms j = -_TERMS.._TERMS of the image series; at the smallest range the first omitted term is exp(-32).
_TERMS = 8
# A range exceeds its end point by more than this multiple with probability exp(-128).
_REACH = 8.0
# Limits of the confidence for which the quadrature is accurate.
_LOWEST_CONFIDENCE = 1e-6
_LOWEST_RISK = 1e-9
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)


def cutoff_bound(
    n: float,
    confidence: float = 0.95,
    method: str = "asymptotic",
    *,
    base_rate: float | None = None,
    refitted: bool = False,
) -> float:
    """Return the margin around a plug-in cutoff calibration error that holds with ``confidence`` = 1 - d.

    "asymptotic" is the quantile of the limiting distribution over sqrt(n), see
    :func:`bridge_ranges_quantile`, where ``base_rate`` is the probability of an event, None the worst case
    1/2. "dkw" is 4 sqrt(log(4 / d) / (2 n)), for every n. Both hold simultaneously for all monotone maps of a
    fixed score. "paper" is (20 + sqrt(2 log(1 / d))) / sqrt(n), Proposition 4.1 of Rossellini et al. (2025),
    and for a monotone map that was ``refitted`` on the same samples (30 + 2 sqrt(2 log(2 / d))) / sqrt(n),
    Propositions 5.1 (isotonic regression) and D.1 (modified Platt scaling). Margins above 1 are
    uninformative.
    """
    risk = 1.0 - confidence
    if method == "asymptotic":
        scale = bridge_ranges_quantile(confidence, 0.5 if base_rate is None else base_rate)
    elif method == "dkw":
        scale = 4.0 * math.sqrt(math.log(4.0 / risk) / 2.0)
    elif refitted:
        scale = 30.0 + 2.0 * math.sqrt(2.0 * math.log(2.0 / risk))
    else:
        scale = 20.0 + math.sqrt(2.0 * math.log(1.0 / risk))
    return scale / math.sqrt(n)


@lru_cache(maxsize=4096)
def bridge_ranges_quantile(confidence: float, base_rate: float = 0.5) -> float:
    """Return the quantile of (range of a Brownian bridge on [0, pi]) + (its range on [pi, 1]).

    With pi = 0 or 1 this is Kuiper's distribution. Computed from the closed form of the tail, without
    simulation: relative accuracy 1e-7 for confidences from .5 to 1 - 1e-9. Above, the bound of "dkw" is
    returned, and below 1e-6 the quantile at 1e-6; both are conservative.
    """
    risk = 1.0 - max(confidence, _LOWEST_CONFIDENCE)
    # the tail is below the bound by Dvoretzky, Kiefer, Wolfowitz and Massart, and so is the quantile
    upper = 4.0 * math.sqrt(math.log(4.0 / risk) / 2.0)
    if risk < _LOWEST_RISK:
        return upper
    return float(brentq(lambda x: bridge_ranges_sf(x, base_rate) - risk, 0.1, upper, xtol=1e-9, rtol=1e-9))


def bridge_ranges_sf(x: float, base_rate: float = 0.5) -> float:
    """Return P(range of a Brownian bridge on [0, pi] + its range on [pi, 1] > x).

    Given the value z of the bridge at pi, normal with variance pi (1 - pi), the two parts are independent
    bridges from 0 to z. Therefore the tail is the average over z >= 0 of
    P(R_1 > x - z) + int_z^(x-z) P(R_0 > x - r) dP(R_1 <= r), with the closed form of :func:`_range_sf`; both
    integrals are computed by Gauss-Legendre quadrature.
    """
    short = min(base_rate, 1.0 - base_rate)
    if short <= 0.0:
        return float(_range_sf(np.array([x]), np.array([0.0]), 1.0)[0])
    spread = math.sqrt(short * (1.0 - short))
    # both ranges are at least |z|, so that beyond x / 2 their sum always exceeds x
    top = min(x / 2.0, _REACH * spread)
    z, z_weight = _on_interval(np.array([0.0]), np.array([top]))
    z, z_weight = z[0], z_weight[0]
    low = np.maximum(z, _SMALLEST_RANGE * math.sqrt(short))
    high = np.maximum(np.minimum(x - z, z + _REACH * math.sqrt(short)), low)
    r, r_weight = _on_interval(low, high)
    column = z[:, None]
    inner = _range_pdf(r, column, short) * _range_sf(x - r, column, 1.0 - short)
    tail = (inner * r_weight).sum(axis=1) + _range_sf(high, z, short)
    density = np.exp(-0.5 * (z / spread) ** 2) / (spread * math.sqrt(2.0 * math.pi))
    beyond = float(erfc(top / (spread * math.sqrt(2.0))))
    return min(1.0, 2.0 * float((tail * density * z_weight).sum()) + beyond)


def _on_interval(low: Array, high: Array) -> tuple[Array, Array]:
    """Return Gauss-Legendre nodes and weights on each interval, one row per interval."""
    half = (high - low)[:, None] / 2.0
    return low[:, None] + half * (1.0 + _NODES), half * _WEIGHTS


@np.errstate(under="ignore")
def _range_sf(r: Array, z: Array, t: float) -> Array:
    """Return P(range > r) of a Brownian bridge from 0 to z >= 0 over time t.

    The method of images gives the joint distribution of minimum and maximum; integrated over the maximum,
    P(range <= r) = sum_j [1 + 2 j - 2 j (r - z) (z + 2 j r) / t] exp(-2 j r (z + j r) / t) for r >= z,
    whose term j = 0 is 1. For z = 0, t = 1 it is Kuiper's distribution.
    """
    j = _images(r)
    factor = 1.0 + 2.0 * j - 2.0 * j / t * (r - z) * (z + 2.0 * j * r)
    terms = factor * np.exp(-2.0 * j / t * r * (z + j * r))
    certain = (r <= z) | (r < _SMALLEST_RANGE * math.sqrt(t))
    return np.where(certain, 1.0, np.clip(-terms.sum(axis=0), 0.0, 1.0))


@np.errstate(under="ignore")
def _range_pdf(r: Array, z: Array, t: float) -> Array:
    """Return the density of the range, the derivative in r of 1 - :func:`_range_sf`, for r >= z."""
    j = _images(r)
    far, rate = z + 2.0 * j * r, 2.0 * j / t
    factor = 1.0 + 2.0 * j - rate * (r - z) * far
    slope = -rate * (far + 2.0 * j * (r - z))
    density: Array = ((slope - factor * rate * far) * np.exp(-rate * r * (z + j * r))).sum(axis=0)
    return density


def _images(r: Array) -> Array:
    """Return the indices of the images other than 0, on an axis before those of r."""
    j = np.arange(1.0, _TERMS + 1.0)
    return np.concatenate([-j, j]).reshape(-1, *([1] * r.ndim))
