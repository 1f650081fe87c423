"""Signs that data are not what tests assume: dependence in their order, rounded predictions."""

import numpy as np
from scipy.special import bdtrc
from scipy.stats import norm

from sklearn_calib import _validation
from sklearn_calib._core._null import monte_carlo_pvalue
from sklearn_calib._typing import Array

# Lags, and most samples, of the test of dependence; rarer than this, dependence is reported.
_LAGS, _MOST_IN_ORDER, _N_PERMUTATIONS, DEPENDENCE_LEVEL = 5, 100_000, 299, 0.01


def serial_dependence(sample: _validation.BinarySample, seed: int) -> float:
    r"""Return the p-value of a test of positive autocorrelation of the residuals in the order of samples.

    Residuals are centered within 20 bins of predictions, so that miscalibration of sorted predictions has
    no effect. The statistic is :math:`S = \sum_{k=1}^5 \sum_i r_i r_{i+k}`; the p-value comes from
    permutations if that of the normal distribution is below 0.05. NaN if the order tells nothing: for
    frequencies, or sorted outcomes.
    """
    y, p = sample.y[:_MOST_IN_ORDER], sample.p[:_MOST_IN_ORDER]
    n, steps = y.shape[0], np.diff(y)
    if (
        (sample.w is not None and not sample.sampling)
        or n <= 2 * _LAGS
        or (steps >= 0).all()
        or (steps <= 0).all()
    ):
        return float("nan")
    residual = y - p
    bins = 20 * np.searchsorted(np.sort(p), p) // n
    sums, counts = np.bincount(bins, residual), np.bincount(bins)
    residual -= (sums / np.maximum(counts, 1))[bins]
    squares = float(residual @ residual)

    def statistic(r: Array) -> float:
        return sum(float(r[k:] @ r[:-k]) for k in range(1, _LAGS + 1))

    if squares == 0.0:
        return float("nan")
    observed = statistic(residual)
    pvalue = float(norm.sf((observed / squares + _LAGS / n) * (n / _LAGS) ** 0.5))
    if pvalue > 0.05:
        return pvalue
    generator = np.random.default_rng(seed)
    drawn = np.array([statistic(generator.permutation(residual)) for _ in range(_N_PERMUTATIONS)])
    return monte_carlo_pvalue(observed, drawn)


def contradiction_pvalue(n_impossible: float, n_certain: float, rounding: float) -> float:
    """Return the probability of as many contradictions if 0 and 1 were rounded by at most ``rounding``.

    It is P(B >= n_impossible) for a binomial variable B with ``n_certain`` trials.
    """
    if not n_impossible:
        return 1.0
    return float(bdtrc(n_impossible - 1.0, int(n_certain), rounding))


# Steps of rounded predictions, as numbers of steps in [0, 1]; their errors in single precision are smaller.
_FEWEST_STEPS, _MOST_STEPS, _STEP_ERROR = 10, 10_000, 1e-7


def largest_rounded(p: Array, n_samples: float) -> float:
    """Return the largest probability that may have been rounded to 0.

    This is half the largest step of which all predictions are multiples, if it is at most 1/10 and divides 1,
    and at least 1 / (2 n).
    """
    values = np.unique(p)
    for n_steps in range(max(1, values.shape[0] - 1), _MOST_STEPS + 1):
        # nearly always, a few values tell
        if _are_multiples(values[:16], n_steps) and _are_multiples(values, n_steps):
            return max(0.5 / n_samples, 0.5 / n_steps if n_steps >= _FEWEST_STEPS else 0.0)
    return 0.5 / n_samples


def _are_multiples(values: Array, n_steps: int) -> bool:
    """Tell whether all values are multiples of 1 / ``n_steps``."""
    return bool(np.abs(values - np.rint(values * n_steps) / n_steps).max() <= _STEP_ERROR)
