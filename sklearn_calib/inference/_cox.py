"""Cox's test of calibration: intercept and slope of a logistic recalibration."""

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._core._recalibration import LogitOutcomes
from sklearn_calib._validation import BinarySample, check_option
from sklearn_calib.inference._base import CalibrationTest, CalibrationTestResult
from sklearn_calib.inference._tails import chi2_sf

__all__ = ["CoxTest"]

Array = NDArray[np.float64]

_PARAMETERS = ("both", "intercept", "slope")
_METHODS = ("likelihood_ratio", "score", "wald")


class CoxTest(CalibrationTest):
    """Cox's test: whether a logistic recalibration of the predictions leaves them as they are.

    In the model logit P(Y = 1 | p) = a + b logit(p) calibrated predictions have a = 0 and b = 1. A positive
    intercept means that events are more frequent than predicted, a slope below 1 that predictions are too
    extreme.

    Parameters
    ----------
    parameter : {"both", "intercept", "slope"}, default="both"
        The null hypothesis: "both", a = 0 and b = 1, with two degrees of freedom; "intercept", a = 0 in the
        model with b = 1, calibration in the large; "slope", b = 1 whatever a.
    method : {"likelihood_ratio", "score", "wald"}, default="likelihood_ratio"
        The statistic: twice the gain in log-likelihood, the derivative of the log-likelihood at the null
        hypothesis, or the distance of the estimate from it, the latter two squared in units of their standard
        errors. They agree in large samples. "score" fits least: nothing for "both" and "intercept", the
        intercept for "slope".

    Attributes
    ----------
    result_ : CalibrationTestResult
        The result on the data given to ``fit``. Its ``estimate`` is the mean absolute difference between the
        event probabilities fitted under the alternative and those under the null hypothesis.
    statistic_, pvalue_ : float
        Its statistic and p-value.
    classes_ : ndarray
        The sorted labels seen by ``fit``.
    n_features_in_ : int
        Number of columns of ``X``.

    See Also
    --------
    SpiegelhalterTest : One direction, no model.
    sklearn_calib.calibrators.PlattCalibrator : Repairs what this test finds.

    Notes
    -----
    p-values come from the chi-squared law, a limit for many observations. Predictions are clipped to
    [2**-53, 1 - 2**-53] before the logit.

    If some threshold separates the outcomes (all equal, for instance), the likelihood has a supremum but no
    finite maximum. The supremum is known, so that "likelihood_ratio" uses it; "score" needs none; "wald" has
    no estimate to measure, and raises ValueError. If all predictions are equal, intercept and slope cannot be
    told apart: "both" tests the intercept alone, with one degree of freedom, and "slope" has p-value 1, as it
    has if all outcomes are equal.

    Cost: one sort and a few passes over the distinct predictions.

    References
    ----------
    .. [1] D. R. Cox (1958). Two further applications of a model for binary regression. Biometrika 45.
    .. [2] M. E. Miller, S. L. Hui and W. M. Tierney (1991). Validation techniques for logistic regression
       models. Statistics in Medicine 10.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import CoxTest
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=500)
    >>> y = rng.uniform(size=500) < p
    >>> CoxTest().test(y, p).rejects()
    False
    >>> CoxTest(parameter="slope").test(y, p**3 / (p**3 + (1 - p) ** 3)).reason
    'slope 0.34'
    """

    def __init__(self, *, parameter: str = "both", method: str = "likelihood_ratio") -> None:
        self.parameter = parameter
        self.method = method

    def _check_parameters(self) -> None:
        check_option(self.parameter, "parameter", _PARAMETERS)
        check_option(self.method, "method", _METHODS)

    def _test_sample(self, sample: BinarySample) -> CalibrationTestResult:
        grouped = group_outcomes(sample.y, sample.p, sample.w)
        data = LogitOutcomes(grouped)
        parameter = self.parameter
        if parameter == "both" and data.constant:
            parameter = "intercept"
        reason = ""
        if not (grouped.prob * (1.0 - grouped.prob)).any():
            reason = "no information: every prediction is 0 or 1"
        elif parameter == "slope" and data.constant:
            reason = "no information: all predictions are equal"
        elif parameter == "slope" and data.one_class:
            reason = "no information: all outcomes are equal"
        if reason:
            statistic, estimate, df = 0.0, 0.0, 1
        else:
            null = data.fit_intercept() if parameter == "slope" else data.at(0.0, 1.0)
            full = data.fit_intercept() if parameter == "intercept" else data.fit_both()
            df = 2 if parameter == "both" else 1
            if self.method == "score":
                statistic = data.score_statistic(null, parameter)
            elif self.method == "likelihood_ratio":
                statistic = max(0.0, 2.0 * (full.log_likelihood - null.log_likelihood))
            elif full.finite:
                statistic = data.wald_statistic(full, parameter)
            else:
                raise ValueError(
                    "A threshold of y_proba separates the outcomes in y_true, so that the model has no "
                    "finite estimate for method='wald'. Use method='likelihood_ratio' or 'score'."
                )
            estimate = float(data.weight @ np.abs(full.prob - null.prob) / grouped.total)
            reason = full.describe(parameter)
        return CalibrationTestResult(
            test="Cox test",
            null_hypothesis=_NULL[self.parameter],
            statistic=statistic,
            pvalue=chi2_sf(statistic, df),
            estimate=estimate,
            method=f"{self.method.replace('_', ' ')}, chi-squared with {df} df",
            n_samples=int(grouped.total),
            reason=reason,
            null_law=f"chi2({df})",
        )


_NULL = {
    "both": "logit P(Y = 1 | p) = a + b logit(p) with a = 0 and b = 1",
    "intercept": "logit P(Y = 1 | p) = a + logit(p) with a = 0",
    "slope": "logit P(Y = 1 | p) = a + b logit(p) with b = 1",
}
