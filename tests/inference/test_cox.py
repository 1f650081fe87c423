"""Cox's test against slow general-purpose fits, exact score moments, separable data, level and power."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import chi2

from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._core._recalibration import LogitOutcomes
from sklearn_calib.inference import CoxTest
from tests.inference import _properties

PARAMETERS = ["both", "intercept", "slope"]
STATISTICS = ["likelihood_ratio", "score", "wald"]
FREE = {"both": [0, 1], "intercept": [0], "slope": [0, 1]}
TESTED = {"both": [0, 1], "intercept": [0], "slope": [1]}


def cox(**parameters):
    """The test without simulations; tests/inference/test_simulated.py has those."""
    return CoxTest(**{"statistic": "likelihood_ratio", "method": "asymptotic"} | parameters)


def loss(theta, y, x):
    eta = theta[0] + theta[1] * x
    return np.sum(np.logaddexp(0, eta) - y * eta)


def maximise(y, x, free):
    """Fit a and b, those not free fixed at 0 and 1, by a general optimiser polished from several starts."""

    def of(values):
        theta = np.array([0.0, 1.0])
        theta[free] = values
        return loss(theta, y, x)

    start = np.array([0.0, 1.0])[free]
    options = {"xatol": 1e-10, "fatol": 1e-13, "maxiter": 4000}
    found = minimize(of, start, method="Nelder-Mead", options=options)
    theta = np.array([0.0, 1.0])
    theta[free] = found.x
    return theta


def reference(y, p, parameter, statistic):
    """The statistic by textbook formulas: full matrices, general optimiser."""
    x = logit(p)
    design = np.column_stack((np.ones_like(x), x))
    null = maximise(y, x, [0]) if parameter == "slope" else np.array([0.0, 1.0])
    full = maximise(y, x, FREE[parameter])
    if statistic == "likelihood_ratio":
        return 2 * (loss(null, y, x) - loss(full, y, x))
    theta = null if statistic == "score" else full
    q = expit(design @ theta)
    free = FREE[parameter]
    information = (design.T @ (design * (q * (1 - q))[:, None]))[np.ix_(free, free)]
    if statistic == "score":
        score = (design.T @ (y - q))[free]
        return score @ np.linalg.solve(information, score)
    tested = [free.index(j) for j in TESTED[parameter]]
    distance = (full - np.array([0.0, 1.0]))[TESTED[parameter]]
    covariance = np.linalg.inv(information)[np.ix_(tested, tested)]
    return distance @ np.linalg.solve(covariance, distance)


@pytest.mark.parametrize("parameter", PARAMETERS)
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_against_textbook_formulas(parameter, statistic, power):
    y, p = _properties.sample(80, seed=4, power=power)
    result = cox(parameter=parameter, statistic=statistic).test(y, p)
    assert result.statistic == pytest.approx(reference(y, p, parameter, statistic), rel=1e-5, abs=1e-8)
    df = 2 if parameter == "both" else 1
    assert result.pvalue == pytest.approx(chi2.sf(result.statistic, df))


def test_estimate_and_words():
    y, p = _properties.sample(80, seed=4, power=2)
    x = logit(p)
    a, b = maximise(y, x, [0, 1])
    result = cox().test(y, p)
    assert result.reason == f"intercept {a:.3g}, slope {b:.3g}"
    assert result.estimate == pytest.approx(np.mean(np.abs(expit(a + b * x) - p)), rel=1e-5)
    slope = cox(parameter="slope", statistic="score").test(y, p)
    level = maximise(y, x, [0])[0]
    assert slope.estimate == pytest.approx(np.mean(np.abs(expit(a + b * x) - expit(level + x))), rel=1e-5)
    assert cox(parameter="intercept").test(y, p).reason == f"intercept {level:.3g}"


def test_by_hand():
    # three of four events where 1/2 is predicted: score^2 / information = 1, and 2 (4 KL)
    y, p = [1, 1, 1, 0], [0.5] * 4
    assert cox(parameter="intercept", statistic="score").test(y, p).statistic == pytest.approx(1)
    ratio = 2 * (3 * np.log(1.5) + np.log(0.5))
    assert cox(parameter="intercept").test(y, p).statistic == pytest.approx(ratio)
    assert cox(parameter="intercept", statistic="wald").test(y, p).statistic == pytest.approx(
        np.log(3) ** 2 * 0.75
    )
    # with one prediction intercept and slope are one parameter
    both = cox().test(y, p)
    assert both.statistic == pytest.approx(ratio)
    assert both.pvalue == pytest.approx(chi2.sf(ratio, 1))
    slope = cox(parameter="slope").test(y, p)
    assert (slope.statistic, slope.pvalue) == (0, 1)
    assert "equal" in slope.reason


@pytest.mark.parametrize("parameter", ["both", "intercept"])
def test_ratios_of_many_samples_are_those_of_single_fits(parameter):
    rng = np.random.default_rng(0)
    p = np.sort(rng.uniform(0.05, 0.95, 40))
    data = LogitOutcomes(group_outcomes((np.arange(40) % 2).astype(float), p, np.ones(40)))
    outcomes = (rng.random((15, 40)) < p).astype(float)
    residuals = outcomes - p
    found = data.likelihood_ratio(
        data.at(0.0, 1.0), residuals.sum(axis=1), residuals @ data.u, slope_free=parameter == "both"
    )
    single = [cox(parameter=parameter).test(y, p).statistic for y in outcomes]
    np.testing.assert_allclose(found, single, rtol=1e-9, atol=1e-12)


def test_the_score_has_exact_mean():
    # E[score statistic] = degrees of freedom, given the predictions
    p = np.array([0.1, 0.3, 0.35, 0.6, 0.9])
    outcomes = np.array(list(itertools.product([0, 1], repeat=5)))
    probability = np.prod(np.where(outcomes == 1, p, 1 - p), axis=1)
    for parameter, df in [("both", 2), ("intercept", 1)]:
        test = cox(parameter=parameter, statistic="score")
        assert probability @ [test.test(y, p).statistic for y in outcomes] == pytest.approx(df)


def test_without_information_there_is_one_degree_of_freedom():
    for parameter, p in [("slope", [0.5, 0.5]), ("both", [0.0, 1.0])]:
        result = cox(parameter=parameter).test([0, 1], p)
        assert result.reason.startswith("no information")
        assert (result.pvalue, result.statistic, result.asymptotic_null) == (1, 0, "chi2(1)")


def test_standard_errors_without_information():
    """Of probabilities that are all 0 or 1 in floating point nothing can be said, of equal ones no slope."""
    y, p = np.array([0, 1, 1, 0]), np.array([0.1, 0.2, 0.8, 0.9])
    data = LogitOutcomes(group_outcomes(y, p))
    assert data.standard_errors(data.at(0.0, 1e4)) == (np.inf, np.inf, np.inf)
    equal = LogitOutcomes(group_outcomes(y, np.full(4, 0.2)))
    # 1 / sqrt(4 q (1 - q)) at q = 1/5
    assert equal.standard_errors(equal.at(0.0, 1.0)) == pytest.approx((1.25, np.inf, np.inf))


@pytest.mark.parametrize(
    ("y", "p", "supremum"),
    [
        ([0, 0, 1, 1], [0.2, 0.4, 0.6, 0.7], 0.0),
        ([1, 1, 0, 0], [0.2, 0.4, 0.6, 0.7], 0.0),
        ([0, 0, 1, 1, 1], [0.2, 0.4, 0.4, 0.4, 0.7], np.log(1 / 3) + 2 * np.log(2 / 3)),
        ([1, 1, 0], [0.3, 0.5, 0.5], 2 * np.log(0.5)),
        ([1, 1, 1], [0.2, 0.4, 0.6], 0.0),
        ([0, 0, 0], [0.2, 0.4, 0.6], 0.0),
    ],
)
def test_separable(y, p, supremum):
    y, p = np.array(y), np.array(p)
    null = np.sum(np.where(y == 1, np.log(p), np.log1p(-p)))
    result = cox().test(y, p)
    assert result.statistic == pytest.approx(2 * (supremum - null))
    assert "separation" in result.reason
    # the supremum is approached by steep models
    x = logit(p)
    grid = itertools.product(np.linspace(-60, 60, 121), np.linspace(-60, 60, 25))
    best = max(
        -loss((shift - slope * cut / 20, slope), y, x) for cut, slope in grid for shift in (0, 0.7, -5, 5)
    )
    assert best <= supremum + 1e-9
    assert best == pytest.approx(supremum, abs=0.05)
    score = cox(statistic="score").test(y, p)
    assert score.statistic == pytest.approx(score_of_both(y, p))
    with pytest.raises(ValueError, match="separates"):
        cox(statistic="wald").test(y, p)


def score_of_both(y, p):
    design = np.column_stack((np.ones_like(p), logit(p)))
    score = design.T @ (y - p)
    return score @ np.linalg.solve(design.T @ (design * (p * (1 - p))[:, None]), score)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_outcomes_of_one_class(statistic):
    slope = cox(parameter="slope", statistic=statistic).test([1, 1, 1], [0.2, 0.4, 0.6])
    assert (slope.statistic, slope.pvalue) == (0, 1)
    assert "outcomes are equal" in slope.reason
    if statistic == "wald":
        with pytest.raises(ValueError, match="wald"):
            cox(parameter="intercept", statistic=statistic).test([1, 1, 1], [0.2, 0.4, 0.6])
    else:
        assert cox(parameter="intercept", statistic=statistic).test([1, 1, 1], [0.2, 0.4, 0.6]).pvalue < 0.06


@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_extreme_predictions(scale):
    # certain and nearly certain predictions that are right change nothing
    rng = np.random.default_rng(1)
    x = scale * rng.normal(size=300)
    y = (rng.random(300) < expit(x)).astype(int)
    more_y, more_p = np.append(y, [0, 0, 1, 0]), np.append(expit(x), [0.0, 1e-300, 1.0, 1e-18])
    for parameter, statistic in itertools.product(PARAMETERS, STATISTICS):
        test = cox(parameter=parameter, statistic=statistic)
        found, expected = test.test(more_y, more_p), test.test(y, expit(x))
        assert found.statistic == pytest.approx(expected.statistic, rel=1e-3, abs=1e-3)
    # wrong ones are found, and the p-value stays above 0
    for statistic in ("likelihood_ratio", "score"):
        wrong = cox(parameter="both", statistic=statistic).test(
            np.append(y, [1] * 5), np.append(expit(x), [1e-12] * 5)
        )
        assert 0 < wrong.pvalue < 1e-10
    # values that clipping makes equal cannot be separated
    tied = cox().test([0, 1], [1e-30, 1e-20])
    assert 0 < tied.pvalue < 1e-10
    assert "separation" not in tied.reason


def test_confident_and_wrong():
    # the null model is flat where the data are; the fit must still be found
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 400)
    p = expit(rng.choice([-30.0, 30.0], 400) + rng.normal(size=400))
    x = logit(p)
    result = cox().test(y, p)
    best = min(loss((a, b), y, x) for a in np.linspace(-0.4, 0.4, 81) for b in np.linspace(-0.02, 0.02, 81))
    null = loss((0, 1), y, x)
    assert result.statistic == pytest.approx(2 * (null - best), rel=1e-4)
    assert result.statistic >= 2 * (null - best) * (1 - 1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("parameter", PARAMETERS)
@pytest.mark.parametrize("statistic", STATISTICS)
def test_level(parameter, statistic):
    test = cox(parameter=parameter, statistic=statistic)
    pvalues = [test.test(*_properties.sample(400, seed)).pvalue for seed in range(200)]
    _properties.check_level(pvalues, least=0.08)


def test_power_goes_where_it_should():
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000)
    y = (rng.random(3000) < expit(x)).astype(int)
    steep, shifted = expit(2 * x), expit(x - 0.5)
    for statistic in STATISTICS:
        assert cox(parameter="slope", statistic=statistic).test(y, steep).pvalue < 1e-6
        assert cox(parameter="intercept", statistic=statistic).test(y, shifted).pvalue < 1e-6
        assert cox(parameter="slope", statistic=statistic).test(y, shifted).pvalue > 0.01
        assert cox(parameter="both", statistic=statistic).test(y, steep).pvalue < 1e-6
        assert cox(parameter="both", statistic=statistic).test(y, shifted).pvalue < 1e-6


@pytest.mark.parametrize("parameter", PARAMETERS)
@pytest.mark.parametrize("statistic", STATISTICS)
def test_flip(parameter, statistic):
    y, p = _properties.sample()
    test = cox(parameter=parameter, statistic=statistic)
    _properties.same(test.test(1 - y, 1 - p), test.test(y, p))


@pytest.mark.parametrize(
    "test",
    [
        CoxTest(),
        CoxTest(parameter="slope", n_resamples=99),
        CoxTest(parameter="slope", statistic="wald"),
        CoxTest(parameter="intercept", statistic="likelihood_ratio", n_resamples=99),
    ],
)
@pytest.mark.parametrize(
    "check",
    [
        _properties.check_rows_and_weights,
        _properties.check_estimator,
        _properties.check_bad_data,
    ],
)
def test_properties(test, check):
    check(test)


@pytest.mark.parametrize("test", [cox(), cox(parameter="both", statistic="score"), cox(parameter="slope")])
def test_impossible(test):
    _properties.check_impossible(test)


@pytest.mark.parametrize(
    "parameters",
    [
        {"parameter": "a"},
        {"statistic": "exact"},
        {"statistic": None},
        {"method": "score"},
        {"n_resamples": 0},
        {"random_state": -1},
        {"method": "monte_carlo", "statistic": "wald"},
    ],
)
def test_bad_parameters(parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        cox(**parameters).test([0, 1], [0.2, 0.3])
