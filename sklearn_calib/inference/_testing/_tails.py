"""Null distributions of the classical tests: densities, and tail probabilities, never 1 - cdf, never 0."""

import math
import re

import numpy as np
from scipy.special import chdtrc, erfc, gammaincc, gammaln, ndtr

from sklearn_calib._typing import Array

#: Tail probabilities of ``gamma_sf`` below this are returned as this.
SMALLEST_PVALUE = 1e-300

# Smallest p-value: what underflows is not impossible.
_TINY = float(np.finfo(np.float64).tiny)
# A range below this has probability under 1e-21; for a greater one the terms left out are below 1e-30.
_SMALLEST_RANGE = 0.3
_TERMS = np.arange(1.0, 41.0)


def chi2_sf(x: float, df: int) -> float:
    """Return P(chi-squared with ``df`` degrees of freedom > x), at least the smallest normal float."""
    return max(float(chdtrc(df, x)), _TINY)


def normal_two_sided(z: float) -> float:
    """Return P(|N(0, 1)| > |z|), at least the smallest normal float."""
    return max(float(erfc(abs(z) / math.sqrt(2.0))), _TINY)


def null_tail(distribution: str, x: float) -> float:
    """Return the tail probability of an ``asymptotic_null`` from ``x`` on; of "normal", of both tails."""
    if distribution == "normal":
        return normal_two_sided(x)
    return brownian_range_sf(x) if distribution == "brownian range" else chi2_sf(x, _degrees(distribution))


def gamma_sf(z: Array, skewness: Array) -> Array:
    """Return P(Z >= z) for Z of mean 0, variance 1 and given skewness, by a shifted gamma distribution.

    This is Pearson's type III. For a skewness of 0 or below the normal distribution is used, whose upper tail
    is heavier.
    """
    skew = np.maximum(skewness, 1e-4)
    shape = 4.0 / skew**2
    gamma = gammaincc(shape, np.maximum(shape + z * np.sqrt(shape), 0.0))
    return np.clip(np.where(skewness > 1e-4, gamma, ndtr(-z)), SMALLEST_PVALUE, 1.0)


def brownian_range_sf(x: float) -> float:
    """Return P(R > x) for the range R of Brownian motion on [0, 1]; 1 for x <= 0.

    The alternating series of Feller (1951), 8 sum_k (-1)^(k-1) k P(N(0, 1) > k x).
    """
    if x < _SMALLEST_RANGE:
        return 1.0
    terms = (-1.0) ** (_TERMS - 1.0) * _TERMS * ndtr(-_TERMS * x)
    return max(8.0 * float(terms.sum()), _TINY)


def null_density(distribution: str, x: Array) -> Array:
    """Return the density at ``x`` of a distribution that a result names in ``asymptotic_null``.

    "normal"; "chi2(k)", for positive ``x``; "brownian range", the derivative of :func:`brownian_range_sf`,
    negated: 8 sum_k (-1)^(k-1) k^2 phi(k x).
    """
    if distribution == "normal":
        return np.exp(-0.5 * x**2) / math.sqrt(2.0 * math.pi)
    if distribution == "brownian range":
        terms = (-1.0) ** (_TERMS - 1.0) * _TERMS**2 * null_density("normal", np.multiply.outer(x, _TERMS))
        return np.where(x < _SMALLEST_RANGE, 0.0, 8.0 * terms.sum(axis=1))
    half = _degrees(distribution) / 2.0
    return np.exp((half - 1.0) * np.log(x) - 0.5 * x - half * math.log(2.0) - gammaln(half))


def _degrees(distribution: str) -> int:
    chi2 = re.fullmatch(r"chi2\(([1-9][0-9]*)\)", distribution)
    if chi2 is None:
        raise ValueError(
            f"asymptotic_null must be 'normal', 'chi2(k)' or 'brownian range', got {distribution!r}."
        )
    return int(chi2[1])
