"""Cox's test of calibration: intercept and slope of a logistic recalibration."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit

from sklearn_calib import _validation
from sklearn_calib._core._blocks import block_sum
from sklearn_calib._core._grouping import GroupedOutcomes, group_sample
from sklearn_calib._core._links import logit
from sklearn_calib._core._null import monte_carlo_pvalue
from sklearn_calib._core._recalibration import ROWS, LogitOutcomes, Recalibration
from sklearn_calib._core._weights import written_out
from sklearn_calib._typing import Array
from sklearn_calib.inference._testing import _simulated
from sklearn_calib.inference._testing._base import CalibrationTestResult, result_of
from sklearn_calib.inference._testing._tails import chi2_sf

_PARAMETERS = ("both", "intercept", "slope")
# Largest table from which outcomes given their sum are simulated, in numbers.
_LARGEST_TABLE = 5_000_000
# What counts as a tie: fits end a little before their maximum.
_TIE = 1e-7


class CoxTest(_simulated.SimulatedTest):
    """Cox's test of calibration intercept and slope, by a logistic recalibration of the predictions.

    In the model logit P(Y = 1 | p) = a + b logit(p) calibrated predictions have a = 0 and b = 1. A positive
    intercept means that events are more frequent than predicted, a slope below 1 that predictions are
    overconfident.

    Parameters
    ----------
    parameter : {"both", "intercept", "slope"}, default="both"
        The null hypothesis: "both", a = 0 and b = 1, with two degrees of freedom; "intercept", a = 0 in the
        model with b = 1, calibration in the large; "slope", b = 1 with free a.
    method : {"auto", "asymptotic", "monte_carlo"}, default="auto"
        How the p-value is obtained. "monte_carlo": from simulated outcomes, exact for any n. They are
        Y* ~ Bernoulli(p) for "both" and "intercept"; for "slope", whose null hypothesis has a free intercept,
        outcomes of the model with b = 1 given the number of events, whose distribution does not depend on
        the intercept. "asymptotic": from the chi-squared distribution. "auto": simulated outcomes for up
        to 10000 observations (for "slope", if also n times the number of the rarer outcomes is at most 5
        million), else asymptotic.
    %(simulated)s

    Attributes
    ----------
    result_ : CalibrationTestResult
        The result on the data given to ``fit``. Its ``estimate`` is the mean absolute difference between the
        event probabilities fitted under the alternative and those under the null hypothesis.
    %(tested_fit)s

    See Also
    --------
    SpiegelhalterTest : Tests one direction, without a model.
    sklearn_calib.calibrators.PlattCalibrator : Recalibrates by the same model.

    Notes
    -----
    The statistic is that of the score test, the squared derivative of the log-likelihood at the null
    hypothesis in units of its variance. It needs no fit of the alternative: it exists under perfect
    separation, and is fast to simulate. The chi-squared distribution is a limit for many observations; with
    few events, or predictions close to 0 and 1, the asymptotic test exceeds its level. Predictions of
    exactly 0 or 1, whose log-odds are infinite, are not used, see docs/inputs.md.

    If all predictions are equal, intercept and slope are not identified: "both" tests the intercept alone,
    with one degree of freedom, and "slope" has p-value 1, as it has if all outcomes are equal.

    With sampling weights, "both" adds the squared scores of the intercept and of the centered log-odds, each
    divided by its own variance. They are centered such that both are uncorrelated if P(Y = 1 | p, w) = p; if
    only the weighted population is calibrated, their correlation is neglected.

    Cost: one sort, and O(distinct predictions) for each simulated sample.

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

    def __init__(
        self,
        *,
        parameter: str = "both",
        method: str = "auto",
        n_resamples: int = 999,
        reduction: str = "joint",
        random_state: Any = 0,
    ) -> None:
        self.parameter = parameter
        super().__init__(
            method=method, n_resamples=n_resamples, reduction=reduction, random_state=random_state
        )

    @property
    def _simulates_labels(self) -> bool:
        return self.parameter != "slope"

    def _check_parameters(self) -> None:
        _validation.check_option(self.parameter, "parameter", _PARAMETERS)
        super()._check_parameters()

    def _test_sample(self, sample: _validation.BinarySample) -> CalibrationTestResult:
        whole = group_sample(sample)
        grouped = whole.uncertain()
        data = LogitOutcomes(grouped if grouped.prob.size else whole)
        parameter = self.parameter
        if parameter == "both" and data.constant:
            parameter = "intercept"
        reason = ""
        if not grouped.prob.size:
            reason = "no information: every prediction is 0 or 1"
        elif parameter == "slope" and data.constant:
            reason = "no information: all predictions are equal"
        elif parameter == "slope" and data.one_class:
            reason = "no information: all outcomes are equal"
        draws, df = None, 1
        if reason:
            statistic, estimate = 0.0, 0.0
        else:
            null = data.fit_intercept() if parameter == "slope" else data.at(0.0, 1.0)
            full = data.fit_intercept() if parameter == "intercept" else data.fit_both()
            df = 2 if parameter == "both" else 1
            scores = data.scores(null, parameter)
            own = scores(*data.score_sums(null))
            # the null hypothesis of the slope leaves the intercept open: the fitted one
            true = grouped
            if parameter == "slope":
                true = replace(grouped, prob=expit(null.intercept + logit(grouped.prob)))

            def along_u(p: Array) -> Array:
                u = (logit(p) - data.center - null.intercept) / data.spread
                return u - data.residual_center(null, parameter)

            along = [None, along_u]
            spreads = [_simulated.variance_ratio_of(true, covariate) for covariate in along[ROWS[parameter]]]
            unit = np.sqrt([spread.own for spread in spreads])
            own /= unit
            statistic = float(own @ own)
            changes = block_sum(
                data.x.shape[0], lambda rows: data.weight[rows] @ np.abs(full.prob(rows) - null.prob(rows))
            )
            estimate = float(changes / whole.total)
            reason = full.describe(parameter)
            drawn = self._simulated_scores(grouped, true, data, null, scores, spreads)
            if drawn is not None:
                drawn /= unit[:, np.newaxis]
            if drawn is not None and grouped.clusters is not None:
                both = np.column_stack((own, drawn))
                covariance = drawn @ drawn.T / drawn.shape[1]
                statistics = (both * (np.linalg.pinv(covariance, hermitian=True) @ both)).sum(axis=0)
                statistic, draws = float(statistics[0]), statistics[1:]
            elif drawn is not None:
                draws = (drawn * drawn).sum(axis=0)
        if draws is None:
            pvalue, method = chi2_sf(statistic, df), f"chi-squared with {df} df"
        else:
            pvalue, method = monte_carlo_pvalue(statistic, draws, _TIE), f"{self.n_resamples} simulations"
        return result_of(
            whole,
            test="Cox test",
            null_hypothesis=_NULL[self.parameter],
            statistic=statistic,
            pvalue=pvalue,
            estimate=estimate,
            method=f"score, {method}",
            null_distribution=draws,
            reason=reason,
            asymptotic_null=f"chi2({df})" if draws is None else "",
        )

    def _simulated_scores(
        self,
        grouped: GroupedOutcomes,
        true: GroupedOutcomes,
        data: LogitOutcomes,
        null: Recalibration,
        scores: Callable[[Any, Any], Array],
        spreads: list[_simulated.VarianceRatio],
    ) -> Array | None:
        """Return the scores of simulated samples, (1 or 2, r), or None if the p-value is asymptotic."""
        clusters = grouped.clusters
        n_rarer = min(data.positives.sum(), data.negatives.sum())
        conditional = self.parameter == "slope" and clusters is None and grouped.design is None
        fits = not conditional or grouped.total * n_rarer <= _LARGEST_TABLE
        if self.method == "monte_carlo" and not fits:
            raise ValueError(
                "method='monte_carlo' with parameter='slope' needs a table of observations x rarer outcomes, "
                f"{grouped.total:.0f} x {n_rarer:.0f}, which exceeds the limit of {_LARGEST_TABLE} numbers. "
                "Use method='asymptotic'."
            )
        if not (
            fits and _simulated.simulates(self.method, grouped.total > _simulated.MOST_SIMULATED, clusters)
        ):
            return None
        center = data.weight * null.prob()
        if conditional:
            rows = written_out(data.weight)
            along = _simulated.conditional_sums(
                null.prob()[rows],
                int(data.positives.sum()),
                data.u()[rows],
                self.n_resamples,
                self.random_state,
            )
            sums = np.stack((np.zeros_like(along), along - center @ data.u()))
            return scores(*sums)
        u = (logit(grouped.prob) - data.center) / data.spread
        covariates = np.stack((np.ones_like(u), u))
        offset = np.array([[center.sum()], [center @ data.u()]])
        return _simulated.simulated(
            self,
            true,
            lambda positives: scores(*(covariates @ positives - offset)).T,
            *spreads,
        ).T


_NULL = {
    "both": "logit P(Y = 1 | p) = a + b logit(p) with a = 0 and b = 1",
    "intercept": "logit P(Y = 1 | p) = a + logit(p) with a = 0",
    "slope": "logit P(Y = 1 | p) = a + b logit(p) with b = 1",
}
