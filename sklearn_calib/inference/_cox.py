"""Cox's test of calibration: intercept and slope of a logistic recalibration."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import xlog1py, xlogy

from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes, group_starts
from sklearn_calib._core._links import expit, logit
from sklearn_calib._validation import BinarySample, check_option
from sklearn_calib.inference._base import CalibrationTest, CalibrationTestResult
from sklearn_calib.inference._tails import chi2_sf

__all__ = ["CoxTest"]

Array = NDArray[np.float64]

_PARAMETERS = ("both", "intercept", "slope")
_METHODS = ("likelihood_ratio", "score", "wald")
_MOST_STEPS = 200
_MOST_HALVINGS = 60
# Twice the log-likelihood still to be gained, at which a step is the last: parameters are then right to 1e-8
# of their standard errors before it, and to about the square of that after.
_CONVERGED = 1e-16
_ROUNDING = 1e-13


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
    >>> CoxTest("slope").test(y, p**3 / (p**3 + (1 - p) ** 3)).reason
    'slope 0.34'
    """

    def __init__(self, parameter: str = "both", method: str = "likelihood_ratio") -> None:
        self.parameter = parameter
        self.method = method

    def _check_parameters(self) -> None:
        check_option(self.parameter, "parameter", _PARAMETERS)
        check_option(self.method, "method", _METHODS)

    def _test_sample(self, sample: BinarySample) -> CalibrationTestResult:
        grouped = group_outcomes(sample.y, sample.p, sample.w)
        data = _Logits(grouped)
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


@dataclass(frozen=True, eq=False)
class _Fit:
    """A recalibration: its event probabilities, and whether the likelihood is attained at finite a and b."""

    intercept: float
    slope: float
    prob: Array
    complement: Array
    log_likelihood: float
    finite: bool = True

    @property
    def variance(self) -> Array:
        return self.prob * self.complement

    def describe(self, parameter: str) -> str:
        if not self.finite:
            return "a threshold separates the outcomes"
        parts = {"intercept": f"intercept {self.intercept:.3g}", "slope": f"slope {self.slope:.3g}"}
        return parts[parameter] if parameter in parts else ", ".join(parts.values())


class _Logits:
    """Grouped outcomes on the log-odds axis: x = logit(p), and u, x standardised."""

    def __init__(self, grouped: GroupedOutcomes) -> None:
        x = logit(grouped.prob)
        # clipping can make predictions equal
        starts = group_starts(x)
        self.x = x[starts]
        self.weight = np.add.reduceat(grouped.weight, starts)
        self.positives = np.add.reduceat(grouped.positives, starts)
        self.negatives = self.weight - self.positives
        self.constant = bool(self.x[0] == self.x[-1])
        self.base_rate = float(self.positives.sum() / grouped.total)
        self.one_class = self.base_rate in (0.0, 1.0)
        self.centre = float(self.weight @ self.x / grouped.total)
        spread = float(np.sqrt(self.weight @ (self.x - self.centre) ** 2 / grouped.total))
        self.spread = 1.0 if self.constant else spread
        self.u = (self.x - self.centre) / self.spread

    def at(self, intercept: float, slope: float) -> _Fit:
        """Return the model with given parameters."""
        return self._model(intercept + slope * self.x, intercept, slope)

    def _standardised(self, level: float, rise: float) -> _Fit:
        """Return the model level + rise * u."""
        slope = rise / self.spread
        return self._model(level + rise * self.u, level - slope * self.centre, slope)

    def _model(self, eta: Array, intercept: float, slope: float) -> _Fit:
        losses = self.positives * np.logaddexp(0.0, -eta) + self.negatives * np.logaddexp(0.0, eta)
        return _Fit(intercept, slope, expit(eta), expit(-eta), -float(losses.sum()))

    def residual(self, fit: _Fit) -> Array:
        """Return the residual sum of each group."""
        return self.positives * fit.complement - self.negatives * fit.prob

    def information(self, fit: _Fit) -> tuple[float, float, float]:
        """Return the entries (1, 1), (1, u), (u, u) of the Fisher information."""
        v = self.weight * fit.variance
        return float(v.sum()), float(v @ self.u), float(v @ self.u**2)

    def score_statistic(self, null: _Fit, parameter: str) -> float:
        residual = self.residual(null)
        level, mixed, _ = self.information(null)
        along_intercept = float(residual.sum())
        # the part of u that the intercept does not explain
        along_slope = float(residual @ (self.u - mixed / level))
        rest = float((self.weight * null.variance) @ (self.u - mixed / level) ** 2)
        by_intercept = along_intercept**2 / level
        by_slope = along_slope**2 / rest if rest > 0.0 else 0.0
        return {"intercept": by_intercept, "slope": by_slope, "both": by_intercept + by_slope}[parameter]

    def wald_statistic(self, full: _Fit, parameter: str) -> float:
        level, mixed, _ = self.information(full)
        if parameter == "intercept":
            return full.intercept**2 * level
        rise = (full.slope - 1.0) * self.spread
        rest = float((self.weight * full.variance) @ (self.u - mixed / level) ** 2)
        by_slope = rise**2 * rest
        if parameter == "slope":
            return by_slope
        # a + (b - 1) x, written in 1 and u, at the mean of u
        intercept = full.intercept + (full.slope - 1.0) * self.centre + rise * mixed / level
        return intercept**2 * level + by_slope

    def fit_intercept(self) -> _Fit:
        """Return the maximum likelihood fit with slope 1: the root of a decreasing function."""
        if self.one_class:
            return self._limit(np.full_like(self.x, self.base_rate))
        target = float(np.log(self.base_rate) - np.log1p(-self.base_rate))
        low, high = target - float(self.x[-1]) - 1e-6, target - float(self.x[0]) + 1e-6

        def excess(intercept: float) -> float:
            eta = intercept + self.x
            return float(self.positives @ expit(-eta) - self.negatives @ expit(eta))

        return self.at(float(brentq(excess, low, high, xtol=1e-13, rtol=1e-14)), 1.0)

    def fit_both(self) -> _Fit:
        """Return the maximum likelihood fit of intercept and slope, or its limit if a threshold separates."""
        limit = self._separated()
        if limit is not None:
            return self._limit(limit)
        # Newton's method with halved steps, from the constant model; the likelihood is concave
        point = np.array([np.log(self.base_rate) - np.log1p(-self.base_rate), 0.0])
        fit = self._standardised(*point)
        for _ in range(_MOST_STEPS):
            residual = self.residual(fit)
            first, mixed, second = self.information(fit)
            gradient = np.array([residual.sum(), residual @ self.u])
            determinant = first * second - mixed**2
            if not determinant > 0.0:
                break
            step = np.array([[second, -mixed], [-mixed, first]]) @ gradient / determinant
            gain = float(gradient @ step)
            least = fit.log_likelihood - _ROUNDING * (1.0 + abs(fit.log_likelihood))
            for _ in range(_MOST_HALVINGS):
                trial = self._standardised(*(point + step))
                if trial.log_likelihood >= least:
                    break
                step /= 2.0
            point, fit = point + step, trial
            if gain < _CONVERGED:
                break
        return fit

    def _separated(self) -> Array | None:
        """Return the limit of the event probabilities if a threshold separates the outcomes, else None."""
        events, others = np.flatnonzero(self.positives), np.flatnonzero(self.negatives)
        if self.one_class or events[0] >= others[-1] or others[0] >= events[-1]:
            return self.positives / self.weight
        return None

    def _limit(self, prob: Array) -> _Fit:
        likelihood = float((xlogy(self.positives, prob) + xlog1py(self.negatives, -prob)).sum())
        return _Fit(np.nan, np.nan, prob, 1.0 - prob, likelihood, finite=False)
