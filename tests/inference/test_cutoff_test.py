"""Cutoff test: the distribution of the range, exactness of redrawn outcomes, and the choice between them."""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from sklearn_calib.inference import CutoffTest
from sklearn_calib.inference._tails import brownian_range_sf, chi2_sf, normal_two_sided
from sklearn_calib.metrics import cutoff_calibration_error
from tests.inference import _properties

ASYMPTOTIC = CutoffTest(method="asymptotic")
DRAWN = CutoffTest(method="monte_carlo", n_resamples=199, random_state=0)


@pytest.mark.parametrize(("level", "quantile"), [(0.1, 2.241), (0.05, 2.497), (0.01, 3.023)])
def test_quantiles_of_the_range(level, quantile):
    assert brownian_range_sf(quantile + 1e-3) < level < brownian_range_sf(quantile - 1e-3)


def test_law_of_the_range():
    # Feller's series with many terms, wherever it converges
    k = np.arange(1, 400)
    for x in (0.3, 0.7, 1.3, 1.999, 2.0, 2.7, 6.0):
        series = 8 * np.sum((-1.0) ** (k - 1) * k * norm.sf(k * x))
        assert brownian_range_sf(x) == pytest.approx(series, rel=1e-9)
    assert brownian_range_sf(20) == pytest.approx(8 * norm.sf(20), rel=1e-12)
    assert brownian_range_sf(0) == brownian_range_sf(0.05) == brownian_range_sf(0.2) == 1
    assert 0 < brownian_range_sf(1e6) < 1e-300
    # mean and second moment: sqrt(8 / pi) and 4 log 2
    assert quad(brownian_range_sf, 0, 12)[0] == pytest.approx(np.sqrt(8 / np.pi), abs=1e-7)
    assert quad(lambda x: 2 * x * brownian_range_sf(x), 0, 12)[0] == pytest.approx(4 * np.log(2), abs=1e-7)


def test_law_of_the_range_by_simulated_walks():
    steps = np.random.default_rng(0).choice([-1.0, 1.0], (2000, 2500))
    walk = np.cumsum(steps, axis=1)
    spread = np.maximum(walk.max(axis=1), 0) - np.minimum(walk.min(axis=1), 0)
    # the discrete walk misses half a step at either end, on average
    spread = (spread + 1) / 50
    for x in (1.2, 1.6, 2.2):
        expected = brownian_range_sf(x)
        error = np.sqrt(expected * (1 - expected) / 2000)
        assert np.mean(spread > x) == pytest.approx(expected, abs=3.5 * error + 0.005)


def test_other_tails():
    assert normal_two_sided(-1.959963984540054) == pytest.approx(0.05)
    assert normal_two_sided(12.0) == pytest.approx(2 * norm.sf(12.0))
    assert chi2_sf(3.841458820694124, 1) == pytest.approx(0.05)
    assert chi2_sf(0.0, 3) == 1
    assert normal_two_sided(1e9) > 0
    assert chi2_sf(1e9, 2) > 0


def test_by_hand():
    # residuals .5, .5, -.5: walk 0, .5, 1, .5 has range 1; variance 3/4
    result = ASYMPTOTIC.test([1, 1, 0], [0.5, 0.500001, 0.500002])
    assert result.statistic == pytest.approx(1 / np.sqrt(0.75), rel=1e-5)
    assert result.estimate == pytest.approx(1 / 3, rel=1e-5)
    assert result.pvalue == brownian_range_sf(result.statistic)
    assert "[0.5, 0.5], where predictions are too low" in result.reason
    # one prediction: only the sum counts
    tied = ASYMPTOTIC.test([1, 1, 0], [0.5, 0.5, 0.5])
    assert tied.statistic == pytest.approx(0.5 / np.sqrt(0.75))


@pytest.mark.parametrize("test", [ASYMPTOTIC, DRAWN, CutoffTest(random_state=0)])
def test_estimate_is_the_metric(test):
    y, p = _properties.sample(power=2)
    assert test.test(y, p).estimate == pytest.approx(cutoff_calibration_error(y, p))


def exact_pvalues(p):
    """Return statistic, probability and exact p-value of each label vector, by enumeration."""
    outcomes = np.array(list(itertools.product([0, 1], repeat=len(p))))
    probability = np.prod(np.where(outcomes == 1, p, 1 - p), axis=1)
    statistic = np.array([cutoff_calibration_error(y, p) for y in outcomes])
    pvalue = np.array([probability[statistic >= s - 1e-9].sum() for s in statistic])
    return outcomes, probability, pvalue


def test_drawn_pvalue_tends_to_the_exact_one():
    p = np.array([0.1, 0.3, 0.3, 0.6, 0.8, 0.95])
    outcomes, _, pvalue = exact_pvalues(p)
    test = CutoffTest(method="monte_carlo", n_resamples=4000, random_state=0)
    for row in range(0, 64, 7):
        error = np.sqrt(pvalue[row] * (1 - pvalue[row]) / 4000)
        found = test.test(outcomes[row], p).pvalue
        assert found == pytest.approx(pvalue[row], abs=4 * error + 1 / 4000)


def test_drawn_level_is_exact_for_tiny_samples():
    # averaged over every label vector with its probability, and over draws
    p = np.array([0.2, 0.4, 0.5, 0.9])
    outcomes, probability, _ = exact_pvalues(p)
    rejected = []
    for seed in range(40):
        test = CutoffTest(method="monte_carlo", n_resamples=19, random_state=seed)
        rejected.append(probability @ [test.test(y, p).pvalue <= 0.2 for y in outcomes])
    error = np.std(rejected) / np.sqrt(40)
    assert 0.01 < np.mean(rejected) <= 0.2 + 3 * error


@pytest.mark.parametrize(
    ("test", "n", "least"),
    [(DRAWN, 40, 0.07), (ASYMPTOTIC, 500, 0.06), (CutoffTest(method="asymptotic"), 8, 0.0)],
)
def test_level(test, n, least):
    _properties.check_level(
        [test.test(*_properties.sample(n, seed)).pvalue for seed in range(300)], least=least
    )


def test_power():
    y, p = _properties.sample(400, power=2)
    assert ASYMPTOTIC.test(y, p).pvalue < 1e-4
    assert DRAWN.test(y, p).pvalue == 1 / 200


def test_auto_decides_by_effective_size():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.4, 0.6, 9000)
    y = rng.random(9000) < p
    assert CutoffTest().test(y, p).method == "asymptotic"
    drawn = CutoffTest(random_state=0).test(y[:1000], p[:1000])
    assert drawn.method == "999 simulations"
    assert drawn.null_distribution.shape == (999,)
    # many rows but few steps; many rows but rare events
    assert CutoffTest(n_resamples=49).test(y, np.round(p, 1)).method == "49 simulations"
    rare = np.linspace(1e-6, 1e-5, 9000)
    assert CutoffTest(n_resamples=49).test(np.zeros(9000, int), rare).method == "49 simulations"
    assert CutoffTest(n_resamples=9).test([0, 0], [1e-200, 1e-180]).pvalue == 1


def test_the_limit_law_agrees_with_draws_where_it_is_chosen():
    y, p = _properties.sample(14_000, seed=3)
    limit = CutoffTest().test(y, p)
    drawn = CutoffTest(method="monte_carlo", n_resamples=400, random_state=0).test(y, p)
    assert limit.method == "asymptotic"
    assert limit.statistic == drawn.statistic
    assert limit.pvalue == pytest.approx(drawn.pvalue, abs=0.09)


def test_flip():
    y, p = _properties.sample(50)
    _properties.same(ASYMPTOTIC.test(1 - y, 1 - p), ASYMPTOTIC.test(y, p))


def test_seed():
    y, p = _properties.sample(50)
    assert DRAWN.test(y, p) == DRAWN.test(y, p)
    other = CutoffTest(n_resamples=199, random_state=1).test(y, p)
    assert not np.array_equal(other.null_distribution, DRAWN.test(y, p).null_distribution)


@pytest.mark.parametrize("test", [ASYMPTOTIC, DRAWN])
@_properties.every_check
def test_properties(test, check):
    check(test)


@pytest.mark.parametrize(
    ("parameters", "error", "named"),
    [
        ({"method": "exact"}, ValueError, "method"),
        ({"n_resamples": 0}, ValueError, "n_resamples"),
        ({"n_resamples": 9.5}, TypeError, "n_resamples"),
        ({"random_state": -1}, ValueError, "random_state"),
        ({"random_state": "x"}, TypeError, "random_state"),
        ({"method": "asymptotic", "random_state": "x"}, TypeError, "random_state"),
    ],
)
def test_bad_parameters(parameters, error, named):
    with pytest.raises(error, match=named):
        CutoffTest(**parameters).test([0, 1], [0.2, 0.3])
