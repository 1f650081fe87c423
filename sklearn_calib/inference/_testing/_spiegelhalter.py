"""Spiegelhalter's test of calibration, from the Brier score."""

import math

import numpy as np

from sklearn_calib import _validation
from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._grouping import group_sample
from sklearn_calib.inference._testing import _simulated

# A mean excess below this is rounding.
_ROUNDING = 1e-15


class SpiegelhalterTest(_simulated.SimulatedTest):
    """Spiegelhalter's z-test: compares the Brier score with its expectation under perfect calibration.

    The statistic is the Brier score minus its expectation under the null hypothesis, in units of its null
    standard deviation,

        Z = sum_i (y_i - p_i) (1 - 2 p_i) / sqrt(sum_i (1 - 2 p_i)^2 p_i (1 - p_i)),

    asymptotically standard normal; the test is two-sided. Positive values, a Brier score that is worse than
    expected, are typical of overconfident predictions; negative values of underconfident ones.

    Parameters
    ----------
    %(simulated_or_limit)s
    %(simulated)s

    Attributes
    ----------
    result_ : CalibrationTestResult
        The result on the data given to ``fit``; its ``estimate`` is the Brier score minus its expectation,
        with sign.
    %(tested_fit)s

    See Also
    --------
    CoxTest : Separates miscalibration into intercept and slope.
    CutoffTest : Also detects errors that cancel in the Brier score.

    Notes
    -----
    Mean 0 and variance 1 are exact given the predictions; only the normal distribution is an approximation.
    With few events the asymptotic test exceeds its level. Simulated outcomes are compared by abs(Z).

    The test has power in one direction: it does not detect errors whose weighted sum cancels, nor any at
    p = 1/2. Where no prediction other than 0, 1/2 and 1 occurs the p-value is 1.

    Cost: one pass if asymptotic, else one sort and O(distinct predictions) for each simulated sample.

    References
    ----------
    .. [1] D. J. Spiegelhalter (1986). Probabilistic prediction in patient management and clinical trials.
       Statistics in Medicine 5.

    Examples
    --------
    >>> from sklearn_calib.inference import SpiegelhalterTest
    >>> result = SpiegelhalterTest().test([0, 0, 1, 1], [0.1, 0.4, 0.7, 0.9])
    >>> print(f"{result.statistic:.3f}, p-value {result.pvalue:.3f}")
    -0.905, p-value 0.530
    """

    _name = "Spiegelhalter's z"
    _tail = "two-sided"

    def _statistic(self, sample: _validation.BinarySample) -> _simulated.Statistic:
        excess = variance = 0.0
        for rows in blocks(sample.p.shape[0]):
            p, u = sample.p[rows], 1.0 - 2.0 * sample.p[rows]
            weighted = u if sample.w is None else sample.w[rows] * u
            excess += float((sample.y[rows] - p) @ weighted)
            variance += float((p * (1.0 - p) * (weighted if sample.sampling else u)) @ weighted)
        spread = (
            _simulated.variance_ratio_of(group_sample(sample), lambda p: 1.0 - 2.0 * p)
            if sample.sampling
            else _simulated.VarianceRatio()
        )
        deviation = math.sqrt(variance * spread.own)
        direction = "above" if excess > 0.0 else "below"
        expected = abs(excess) <= _ROUNDING * sample.total
        reason = "Brier score as expected" if expected else f"Brier score {direction} its expectation"
        if known := deviation == 0.0:
            reason = "no information: every prediction is 0, 1/2 or 1"
        return _simulated.Statistic(
            # an excess without variance is an outcome of probability zero
            (np.inf if excess > 0.0 else 0.0) if known else excess / deviation,
            None if known else lambda residual, p: ((1.0 - 2.0 * p) / deviation) @ residual,
            null="normal",
            large=sample.total > _simulated.MOST_SIMULATED,
            estimate=excess / sample.total,
            reason=reason,
            method="asymptotic, normal, two-sided",
            spread=spread,
        )
