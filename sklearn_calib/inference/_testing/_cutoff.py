"""Test of calibration by the range of the cumulative residuals, the cutoff calibration error."""

import numpy as np

from sklearn_calib import _validation
from sklearn_calib._core._grouping import GroupedOutcomes, group_sample
from sklearn_calib._core._weights import kish_size
from sklearn_calib._typing import Array
from sklearn_calib.inference._testing import _simulated
from sklearn_calib.metrics._cutoff import residual_walk, walk_extremes, walk_ranges

#: Effective size from which "auto" uses the asymptotic distribution.
LARGE = 2000.0


class CutoffTest(_simulated.SimulatedTest):
    """Test of perfect calibration by the cutoff calibration error.

    The statistic is the range of the cumulative residuals over the sorted distinct predictions, in units of
    their null standard deviation,

        R = n * cutoff / sqrt(sum_i p_i (1 - p_i)).

    It has no tuning parameter, and is powerful against predictions that are too high, or too low, over a
    whole interval.

    Parameters
    ----------
    method : {"auto", "asymptotic", "monte_carlo"}, default="auto"
        How the p-value is obtained. "asymptotic": from the asymptotic distribution, that of the range of
        Brownian motion on [0, 1]. "monte_carlo": from simulated outcomes, Y* ~ Bernoulli(p), exact given the
        predictions for any n. "auto": "asymptotic" if the effective size is at least 2000, else
        "monte_carlo"; see Notes.
    %(simulated)s

    Attributes
    ----------
    result_ : CalibrationTestResult
        The result on the data given to ``fit``; its ``estimate`` is the cutoff calibration error.
    %(tested_fit)s

    See Also
    --------
    sklearn_calib.metrics.cutoff_calibration_error : The estimate alone.
    TCal : Also detects oscillating miscalibration.

    Notes
    -----
    Under the null hypothesis the cumulative residuals are a martingale given the predictions, and converge to
    Brownian motion, whose range has the tail probability of [1]_,

        P(R > x) = 8 sum_{k >= 1} (-1)^(k-1) k P(N(0, 1) > k x),

    with quantiles 2.241, 2.497 and 3.023 at 90%, 95% and 99%. A random walk with few steps has a smaller
    range than Brownian motion, so the asymptotic distribution is conservative for small samples, and for
    large ones with few distinct predictions. The effective size is therefore the smaller of sum p (1 - p) and
    the effective number of steps, (sum_g v_g)^2 / sum_g v_g^2, where v_g is the variance of the residuals of
    distinct prediction g. At an effective size of 200 the level of a 5% test, measured with 20000 samples of
    four designs, lies between .039 and .048; at 2000, with 3000 to 8000 samples, between .048 and .053.

    If all predictions are 0 or 1 and agree with the outcomes, the p-value is 1.

    Cost: one sort, and O(distinct predictions) for each simulated sample.

    References
    ----------
    .. [1] W. Feller (1951). The asymptotic distribution of the range of sums of independent random variables.
       Annals of Mathematical Statistics 22.
    .. [2] I. Arrieta-Ibarra, P. Gujral, J. Tannen, M. Tygert and C. Xu (2022). Metrics of Calibration for
       Probabilistic Predictions. JMLR. arXiv:2205.09680

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import CutoffTest
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=500)
    >>> y = rng.uniform(size=500) < p
    >>> CutoffTest().test(y, p).rejects()
    False
    >>> print(CutoffTest().test(y, p**2))
    cutoff test: H0: P(Y = 1 | p) = p
      p-value    0.001  (999 simulations)
      ...
    """

    _name = "cutoff test"

    def _statistic(self, sample: _validation.BinarySample) -> _simulated.Statistic:
        grouped = group_sample(sample)
        walk, variance = residual_walk(grouped), grouped.variance
        reach = float(np.ptp(walk))
        deviation = float(np.sqrt(variance.sum() * _simulated.variance_ratio_of(grouped).own))
        known = deviation == 0.0
        return _simulated.Statistic(
            (np.inf if reach > 0.0 else 0.0) if known else reach / deviation,
            None if known else lambda residual, _: walk_ranges(residual) / deviation,
            null="brownian range",
            large=_walk_size(variance) >= LARGE,
            estimate=reach / grouped.total,
            reason="no information: every prediction is 0 or 1" if known else _where(grouped, walk),
            method="exact" if known else "asymptotic",
        )


def _walk_size(variance: Array) -> float:
    """Return the smaller of the total null variance and of the effective number of steps."""
    total = float(variance.sum())
    # the second is not needed, and could underflow, where the first is small
    return total if total < LARGE else min(total, kish_size(variance))


def _where(grouped: GroupedOutcomes, walk: Array) -> str:
    """Return the interval of predictions between the extremes of the cumulative residuals, in words."""
    first, last, signed = walk_extremes(walk)
    if signed == 0.0:
        return "no interval of predictions is miscalibrated"
    low, high = grouped.prob[first], grouped.prob[last]
    verb = "too low" if signed > 0 else "too high"
    return f"largest in [{low:.3g}, {high:.3g}], where predictions are {verb}"
