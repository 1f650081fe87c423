"""Tail probabilities that the classical tests share; never 1 - cdf where a tail is small, and never 0."""

import math

import numpy as np
from scipy.special import chdtrc, erfc, ndtr

__all__ = ["brownian_range_sf", "chi2_sf", "normal_two_sided"]

# Smallest p-value: what underflows is not impossible.
_TINY = float(np.finfo(np.float64).tiny)
# The two series of the range meet here; terms left out are below 1e-16 of the result on either side.
_MEETING_POINT = 2.0
# A range below this has probability under 1e-200.
_SMALLEST_RANGE = 0.1
_TERMS = np.arange(1.0, 10.0)


def chi2_sf(x: float, df: int) -> float:
    """Return P(chi-squared with ``df`` degrees of freedom > x), at least the smallest normal float."""
    return max(float(chdtrc(df, x)), _TINY)


def normal_two_sided(z: float) -> float:
    """Return P(|N(0, 1)| > |z|), at least the smallest normal float."""
    return max(float(erfc(abs(z) / math.sqrt(2.0))), _TINY)


def brownian_range_sf(x: float) -> float:
    """Return P(R > x) for the range R of Brownian motion on [0, 1]; 1 for x <= 0.

    In the tail the alternating series of Feller (1951), 8 sum_k (-1)^(k-1) k P(N(0, 1) > k x). It converges
    slowly for small x, where one minus its theta transform, the distribution function

        P(R <= x) = 8 sum_{k odd} (1 / (pi k)^2 + 1 / x^2) exp(-(pi k / x)^2 / 2),

    is accurate: there the tail is above .18.
    """
    if x < _SMALLEST_RANGE:
        return 1.0
    if x < _MEETING_POINT:
        odd = math.pi * (2.0 * _TERMS - 1.0)
        return 1.0 - 8.0 * float(((odd**-2.0 + x**-2.0) * np.exp(-0.5 * (odd / x) ** 2)).sum())
    terms = (-1.0) ** (_TERMS - 1.0) * _TERMS * ndtr(-_TERMS * x)
    return max(8.0 * float(terms.sum()), _TINY)
