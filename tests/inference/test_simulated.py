"""Simulated p-values of the classical tests: against all outcomes, levels of small samples, defaults."""

import itertools
from functools import partial

import numpy as np
import pytest

from sklearn_calib import inference
from sklearn_calib.metrics import expected_calibration_error
from tests._samples import simulated
from tests._tiers import thorough, weekly
from tests.inference import _properties

TESTS = {
    "spiegelhalter": inference.SpiegelhalterTest(),
    "hosmer_lemeshow": inference.HosmerLemeshowTest(n_bins=3),
    "hosmer_lemeshow_uniform": inference.HosmerLemeshowTest(n_bins=4, strategy="uniform"),
    "cox": inference.CoxTest(),
    "cox_intercept": inference.CoxTest(parameter="intercept"),
    "cox_slope": inference.CoxTest(parameter="slope"),
}
PREDICTIONS = {
    "apart": [0.02, 0.15, 0.2, 0.45, 0.5, 0.7, 0.97],
    "tied": [0.1, 0.1, 0.1, 0.4, 0.4, 0.8, 0.8],
    "rare": [0.001, 0.004, 0.01, 0.03, 0.03, 0.05, 0.2],
    "close": [0.3, 0.3001, 0.3002, 0.3004, 0.9, 0.9001, 0.9003],
}
#: Two designs on which asymptotic tests exceed their levels: predictions near 0 and 1, and rare events.
DESIGNS = {"near 0 and 1": (0.2, 0.2), "rare": (0.5, 24.5)}


def copy_of(test, **parameters):
    return type(test)(**test.get_params() | parameters)


@pytest.fixture(params=TESTS)
def test(request):
    return TESTS[request.param]


BINNED = inference.ConsistencyTest(partial(expected_calibration_error, n_bins=5))


@pytest.mark.parametrize(
    ("test", "kind"),
    [(inference.CutoffTest(), "apart"), (inference.CutoffTest(), "tied"), (BINNED, "apart"), (BINNED, "rare"),
     ("spiegelhalter", "rare"), ("hosmer_lemeshow", "tied"), ("hosmer_lemeshow_uniform", "apart"),
     ("cox", "apart"), ("cox", "close"), ("cox_intercept", "rare"), ("cox_slope", "close"),
     ("cox_slope", "tied")],
)  # fmt: skip
def test_against_all_outcomes(test, kind):
    """The p-value is the probability of outcomes with as large a statistic, all 2^7 of them weighed."""
    test, p = TESTS.get(test, test), np.array(PREDICTIONS[kind])
    every = np.array(list(itertools.product([0, 1], repeat=7)))
    chance = np.prod(np.where(every == 1, p, 1 - p), axis=1)
    # the path without simulations: fits of its own, known suprema where a threshold separates
    alone = copy_of(test, **({"n_resamples": 1} if test is BINNED else {"method": "asymptotic"}))
    values = np.abs([alone.test(y, p, pos_label=1).statistic for y in every])
    for row in (0, 23, 100):
        among = chance
        if getattr(test, "parameter", "") == "slope":
            # given the number of events the intercept does not matter
            among = np.where(every.sum(axis=1) == every[row].sum(), chance, 0.0)
        exact = min(1.0, among[values >= values[row] - 1e-6].sum() / among.sum())
        found = copy_of(test, n_resamples=1000).test(every[row], p, pos_label=1)
        assert found.pvalue == pytest.approx(exact, abs=4.5 * np.sqrt(exact * (1 - exact) / 1000) + 2e-3)
        assert found.statistic == pytest.approx(alone.test(every[row], p, pos_label=1).statistic)


def pvalues_of(test, design, n, repetitions):
    """Return the p-values of perfectly calibrated samples."""
    samples = simulated((repetitions, n), "beta", *DESIGNS[design], seed=n)
    return [test.test(*sample, pos_label=1).pvalue for sample in zip(*samples, strict=True)]


def test_asymptotic_tests_exceed_the_level_of_small_samples():
    """So that the tests of the level could fail."""
    pvalues = pvalues_of(inference.HosmerLemeshowTest(method="asymptotic"), "rare", 60, 300)
    with pytest.raises(AssertionError, match="reject"):
        _properties.check_level(pvalues, 0.05)


@pytest.mark.parametrize(
    ("design", "n", "repetitions", "alphas"),
    [
        *(thorough(design, n, 200, (0.05, 0.1)) for design, n in (("rare", 30), ("near 0 and 1", 100))),
        *(weekly(design, n, 500, (0.01, 0.05, 0.1)) for design in DESIGNS for n in (10, 30, 100, 400)),
    ],
)
def test_level(test, design, n, repetitions, alphas):
    pvalues = pvalues_of(copy_of(test, n_resamples=199), design, n, repetitions)
    for alpha in alphas:
        _properties.check_level(pvalues, alpha)


@pytest.mark.weekly
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("test", [inference.SpiegelhalterTest(), inference.CoxTest()])
def test_level_of_the_default_beyond_simulation(test, design):
    """Where "auto" is asymptotic, a 5% test may reject 1% more often than that."""
    rng, rejected = np.random.default_rng(0), 0
    for _ in range(2000):
        p = rng.beta(*DESIGNS[design], 12_000)
        result = test.test((rng.random(12_000) < p).astype(int), p)
        assert result.null_distribution is None
        rejected += result.pvalue <= 0.05
    assert rejected / 2000 <= 0.06 + 3 * np.sqrt(0.06 * 0.94 / 2000)


def test_the_default_and_what_the_result_says(test):
    y, p = _properties.sample(100)
    small = test.test(y, p)
    assert small.method.startswith(("999 simulations", "score, 999"))
    assert small.null_distribution.shape == (999,)
    assert small.asymptotic_null == ""
    np.testing.assert_array_equal(copy_of(test).test(y, p).null_distribution, small.null_distribution)
    seeds = [copy_of(test, random_state=seed).test(y, p).null_distribution for seed in (1, 2)]
    assert not np.array_equal(*seeds)
    given = {"sample_weight": np.full(100, 101), "weights": "frequency"}
    large = test.test(y, p, **given)
    assert large.null_distribution is None
    assert large.asymptotic_null.startswith(("normal", "chi2"))
    assert large.pvalue == copy_of(test, method="asymptotic").test(y, p, **given).pvalue


def test_repetitions_and_the_rarer_side(test):
    """On either side of the limit of 10000 observations."""
    y, p = _properties.sample(50)
    for weight in (3, 201):
        weighted = test.test(y, p, sample_weight=np.full(50, weight), weights="frequency")
        repeated = test.test(np.repeat(y, weight), np.repeat(p, weight))
        assert (weighted.method, weighted.pvalue) == (repeated.method, pytest.approx(repeated.pvalue))
    # The number of simulated events is counted from the rarer side
    y, p = np.array([1, 1, 0, 1, 1, 1, 1, 1]), np.linspace(0.2, 0.9, 8)
    pair = [test.test(y, p).pvalue, test.test(1 - y, 1 - p).pvalue]
    assert pair[0] == pytest.approx(pair[1], abs=4.5 * np.sqrt(2 * 0.25 / 1000))


def test_slope():
    y, p = _properties.sample(5000)
    assert inference.CoxTest(parameter="slope").test(y, p).asymptotic_null == "chi2(1)"
    with pytest.raises(ValueError, match=r"method='monte_carlo'.*5000 x"):
        inference.CoxTest(parameter="slope", method="monte_carlo").test(y, p)
    rare = (np.arange(5000) < 100).astype(int)
    assert inference.CoxTest(parameter="slope", n_resamples=19).test(rare, p).null_distribution is not None
    # Predictions shifted in log-odds are other predictions, and the same test of the slope
    y, p = _properties.sample(60, power=1.5)
    odds = 3.0 * p / (1 - p)
    one, other = (inference.CoxTest(parameter="slope").test(y, q) for q in (p, odds / (1 + odds)))
    assert (other.statistic, other.pvalue) == (pytest.approx(one.statistic), one.pvalue)
