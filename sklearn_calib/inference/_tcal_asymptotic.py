"""T-Cal without resampling: the tail of T from its cumulants, and that of several scales together."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, ndtri
from scipy.stats import norm

from sklearn_calib._core._null_moments import NullMoments

__all__ = [
    "FEWEST_PAIRS",
    "SMALLEST_PVALUE",
    "any_exceeds",
    "chain_correlation",
    "relaxed",
    "tail_probability",
]

Array = NDArray[np.float64]

#: Tail probabilities below this are given as this.
SMALLEST_PVALUE = 1e-300

#: The approximation needs so many effective pairs: with fewer, T jumps when the outcomes of one pair
#: deviate, and no continuous law is near. (In simulations of rare events the levels
#: 0.1 to 5 % are kept from here on; at 10 % jumps can still double them.)
FEWEST_PAIRS = 0.5

# Paths simulated for L scales: _WORK / L^2 within these bounds (the error of the probability is 1 to 2 % at
# the lower one).
_WORK, _FEWEST_PATHS, _MOST_PATHS = 1 << 19, 512, 4096
_SEED = 20220301


def tail_probability(z: Array, skewness: Array) -> Array:
    """Return P(Z >= z) for Z of mean 0, variance 1 and given skewness, by Pearson's type III, a gamma law.

    A skewness of 0 or below gets the normal law, whose upper tail is the heavier one then.
    """
    skew = np.maximum(skewness, 1e-4)
    shape = 4.0 / skew**2
    gamma = gammaincc(shape, np.maximum(shape + z * np.sqrt(shape), 0.0))
    tail = np.where(skewness > 1e-4, gamma, norm.sf(z))
    return np.clip(tail, SMALLEST_PVALUE, 1.0)


def chain_correlation(moments: NullMoments, levels: NDArray[np.intp]) -> Array:
    """Return the correlations of some levels, each with the next one of them.

    Those of neighbouring levels are exact. Over a gap they are multiplied, as if levels formed a Markov
    chain: exact as well where the variance v hardly changes inside a coarser bin, since then
    cov(T_f, T_c) = var(T_c) for every finer level f.
    """
    deviation = np.sqrt(moments.variance)
    product = deviation[:-1] * deviation[1:]
    neighbours = np.divide(moments.covariance[:-1], product, out=np.zeros_like(product), where=product > 0.0)
    neighbours = np.clip(neighbours, 0.0, 1.0)
    return np.array([np.prod(neighbours[first:last]) for first, last in pairwise(levels)])


def relaxed(moments: NullMoments, variance: Array, mean: float, spread: float) -> NullMoments:
    """Return the moments of T - ``mean`` if T is a null statistic plus an independent normal variable.

    The first has ``variance``; the second, the same at all scales, has that ``mean`` and the variance
    ``spread``. The sum keeps the skewness of ``moments``, which is more than it has.
    """
    ratio = np.divide(variance, moments.variance, out=np.zeros_like(variance), where=moments.variance > 0.0)
    neighbours = np.sqrt(ratio[:-1] * ratio[1:])
    total = np.divide(
        variance + spread, moments.variance, out=np.zeros_like(variance), where=moments.variance > 0.0
    )
    return replace(
        moments,
        statistic=moments.statistic - mean,
        variance=variance + spread,
        third_cumulant=moments.third_cumulant * total**1.5,
        covariance=np.append(moments.covariance[:-1] * neighbours, 0.0) + spread,
    )


def any_exceeds(tails: Array, correlation: Array) -> float:
    """Return the probability that at least one of several events happens, from their own probabilities.

    The events are Z_k >= z_k for a Gaussian Markov chain Z_1, Z_2, ... with the given correlation of
    neighbours (a Gaussian copula). With N the number of events that happen,

        P(N > 0) = sum_k P(A_k) E[1/N | A_k]

    and each expectation is a mean over simulated paths in which event k happens, so that it is as accurate
    for very small probabilities as for large ones; the result lies between the largest of them and their
    sum. The paths are the same in every call.
    """
    n_scales = tails.shape[0]
    if n_scales == 1:
        return float(tails[0])
    rng = np.random.default_rng(_SEED)
    n_paths = min(max(_WORK // n_scales**2, _FEWEST_PATHS), _MOST_PATHS)
    noise = rng.standard_normal((n_scales, n_paths))
    path = np.empty_like(noise)
    path[0] = noise[0]
    for k, rho in enumerate(correlation, start=1):
        path[k] = rho * path[k - 1] + np.sqrt(1.0 - rho * rho) * noise[k]
    between = np.eye(n_scales)
    for k in range(n_scales - 1):
        between[k + 1, : k + 1] = correlation[k] * between[k, : k + 1]
        between[: k + 1, k + 1] = between[k + 1, : k + 1]
    threshold = -ndtri(tails)[:, np.newaxis]
    # one value from each of equal shares of a tail
    share = (rng.permutation(n_paths) + 0.5) / n_paths
    moved = np.empty_like(path)
    total = 0.0
    for k in range(n_scales):
        # draw the k-th value from its tail, and let the others follow it
        value = -ndtri(np.maximum(tails[k] * share, np.finfo(np.float64).tiny))
        np.multiply(between[k][:, np.newaxis], value - path[k], out=moved)
        moved += path
        happened = np.count_nonzero(moved >= threshold, axis=0)
        happened += moved[k] < threshold[k]
        total += tails[k] * np.mean(1.0 / happened)
    return float(np.clip(total, tails.max(), min(1.0, tails.sum())))
