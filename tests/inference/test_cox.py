"""Cox's test against slow general-purpose fits, exact score moments, separable data, level and power."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import chi2

from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._core._recalibration import LogitOutcomes
from sklearn_calib.inference import CoxTest
from tests._samples import simulated
from tests.inference import _properties

FREE = {"both": [0, 1], "intercept": [0], "slope": [0, 1]}


def cox(**parameters):
    """The test without simulations; tests/inference/test_simulated.py has those."""
    return CoxTest(**{"method": "asymptotic"} | parameters)


def maximize(y, x, free):
    """Fit a and b, those not free fixed at 0 and 1, by a general optimizer."""

    def full(values):
        theta = np.array([0.0, 1.0])
        theta[free] = values
        return theta

    def loss(values):
        a, b = full(values)
        return np.sum(np.logaddexp(0, a + b * x) - y * (a + b * x))

    options = {"xatol": 1e-10, "fatol": 1e-13, "maxiter": 4000}
    return full(minimize(loss, np.array([0.0, 1.0])[free], method="Nelder-Mead", options=options).x)


def reference(y, p, parameter):
    """The statistic by textbook formulas: full matrices, general optimizer."""
    x = logit(p)
    design = np.column_stack((np.ones_like(x), x))
    null = maximize(y, x, [0]) if parameter == "slope" else np.array([0.0, 1.0])
    q, free = expit(design @ null), FREE[parameter]
    information = (design.T @ (design * (q * (1 - q))[:, None]))[np.ix_(free, free)]
    score = (design.T @ (y - q))[free]
    return score @ np.linalg.solve(information, score)


@pytest.mark.parametrize("parameter", FREE)
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_against_textbook_formulas(parameter, power):
    y, p = _properties.sample(80, seed=4, power=power)
    result = cox(parameter=parameter).test(y, p)
    assert result.statistic == pytest.approx(reference(y, p, parameter), rel=1e-5, abs=1e-8)
    df = 2 if parameter == "both" else 1
    assert result.pvalue == pytest.approx(chi2.sf(result.statistic, df))


def test_estimate_and_words():
    y, p = _properties.sample(80, seed=4, power=2)
    x = logit(p)
    a, b = maximize(y, x, [0, 1])
    result = cox().test(y, p)
    assert result.reason == f"intercept {a:.3g}, slope {b:.3g}"
    assert result.estimate == pytest.approx(np.mean(np.abs(expit(a + b * x) - p)), rel=1e-5)
    slope, level = cox(parameter="slope").test(y, p), maximize(y, x, [0])[0]
    assert slope.estimate == pytest.approx(np.mean(np.abs(expit(a + b * x) - expit(level + x))), rel=1e-5)
    assert cox(parameter="intercept").test(y, p).reason == f"intercept {level:.3g}"


def test_by_hand():
    # three of four events where 1/2 is predicted: score^2 / information = 1
    y, p = [1, 1, 1, 0], [0.5] * 4
    # with one prediction intercept and slope are one parameter
    both = cox().test(y, p)
    assert (both.statistic, both.pvalue) == (pytest.approx(1), pytest.approx(chi2.sf(1, 1)))
    slope = cox(parameter="slope").test(y, p)
    assert (slope.statistic, slope.pvalue) == (0, 1)
    assert "equal" in slope.reason
    for parameter, p in [("slope", [0.5, 0.5]), ("both", [0.0, 1.0])]:
        result = cox(parameter=parameter).test([0, 1], p)
        assert result.reason.startswith("no information")
        assert (result.pvalue, result.statistic, result.asymptotic_null) == (1, 0, "chi2(1)")
    slope = cox(parameter="slope").test([1, 1, 1], [0.2, 0.4, 0.6])
    assert (slope.statistic, slope.pvalue) == (0, 1)
    assert "outcomes are equal" in slope.reason
    assert cox(parameter="intercept").test([1, 1, 1], [0.2, 0.4, 0.6]).pvalue < 0.06


def test_standard_errors_without_information():
    """Of probabilities that are all 0 or 1 in floating point nothing can be said, of equal ones no slope."""
    y, p = np.array([0, 1, 1, 0]), np.array([0.1, 0.2, 0.8, 0.9])
    data = LogitOutcomes(group_outcomes(y, p))
    assert data.standard_errors(data.at(0.0, 1e4)) == (np.inf, np.inf, np.inf)
    equal = LogitOutcomes(group_outcomes(y, np.full(4, 0.2)))
    # 1 / sqrt(4 q (1 - q)) at q = 1/5
    assert equal.standard_errors(equal.at(0.0, 1.0)) == pytest.approx((1.25, np.inf, np.inf))


@pytest.mark.parametrize(
    ("y", "p"),
    [([0, 0, 1, 1], [0.2, 0.4, 0.6, 0.7]), ([1, 1, 0, 0], [0.2, 0.4, 0.6, 0.7]),
     ([0, 0, 1, 1, 1], [0.2, 0.4, 0.4, 0.4, 0.7]), ([1, 1, 0], [0.3, 0.5, 0.5]),
     ([1, 1, 1], [0.2, 0.4, 0.6])],
)  # fmt: skip
def test_separable(y, p):
    y, p = np.array(y), np.array(p)
    result = cox().test(y, p)
    assert result.statistic == pytest.approx(reference(y, p, "both"))
    assert "separation" in result.reason
    # the limit of the fit: frequencies of the distinct predictions
    limit = np.array([y[p == value].mean() for value in p])
    assert result.estimate == pytest.approx(np.mean(np.abs(limit - p)))


@pytest.mark.parametrize("parameter", ["both", "intercept", "slope"])
@pytest.mark.parametrize("method", ["asymptotic", "monte_carlo"])
def test_extreme_predictions(parameter, method):
    """Certain predictions carry no information, and nearly certain ones that are right next to none."""
    y, p = simulated(300, "beta", 2, 3, seed=1)
    test = CoxTest(parameter=parameter, method=method)
    expected, agreeing = test.test(y, p), test.test(np.r_[y, 0, 1, 1], np.r_[p, 0.0, 1.0, 1.0])
    contradicted = test.test(np.r_[y, 0, 1, 0], np.r_[p, 0.0, 1.0, 1.0]).others
    for found in (agreeing, contradicted):
        assert (found.statistic, found.pvalue) == (expected.statistic, expected.pvalue)
        assert found.reason == expected.reason
    near = test.test(np.r_[y, 0, 0], np.r_[p, 1e-300, 1e-18])
    assert near.statistic == pytest.approx(expected.statistic, rel=1e-3, abs=1e-3)
    if parameter == "both" and method == "asymptotic":
        # wrong ones are found, and the p-value stays above 0
        assert 0 < test.test(np.r_[y, [1] * 5], np.r_[p, [1e-12] * 5]).pvalue < 1e-10
