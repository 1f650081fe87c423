"""The combined test."""

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import cauchy

from sklearn_calib.inference import CombinedTest, CoxTest, CutoffTest, TCal
from sklearn_calib.sketch import CalibrationSketch
from tests._samples import simulated
from tests._tiers import thorough
from tests.inference import _properties

ALL = ("tcal", "cutoff", "intercept", "slope", "spiegelhalter")


def statistics(y, p):
    """Return the statistic of each component from its definition, p without ties."""
    r, v = y - p, p * (1 - p)
    walk = np.concatenate(([0.0], np.cumsum(r[np.argsort(p)])))
    x = logit(p) - (v @ logit(p)) / v.sum()
    return [
        -np.log(TCal(n_resamples=19, random_state=0).test(y, p).statistic),
        np.ptp(walk) / np.sqrt(v.sum()),
        r.sum() ** 2 / v.sum(),
        (r @ x) ** 2 / (v @ x**2),
        (r @ (1 - 2 * p)) ** 2 / (v @ (1 - 2 * p) ** 2),
    ]


def test_statistics_are_those_of_the_definition():
    y, p = _properties.sample(200, power=1.5)
    result = CombinedTest(components=ALL, n_resamples=19, random_state=0).test(y, p)
    assert [component.name for component in result.scales] == list(ALL)
    np.testing.assert_allclose([c.statistic for c in result.scales], statistics(y, p), rtol=1e-10)
    assert result.estimate == pytest.approx(CutoffTest(method="asymptotic").test(y, p).estimate)


@pytest.mark.parametrize(("n", "rate"), [(10_000, 0.5), (60_000, 0.01), thorough(60_000, 0.5)])
def test_a_sample_and_its_sketch_agree(n, rate):
    """By simulation, by asymptotic distributions, and by simulation of rare events."""
    y, p = simulated(n, "beta", 2 * rate, 2 * (1 - rate), seed=1)
    outcome, mean, weight = CalibrationSketch().update(y, p).weighted_sample()
    raw = CombinedTest().test(y, p)
    sketched = CombinedTest().test(outcome, mean, sample_weight=weight, weights="frequency")
    assert (raw.method, sketched.pvalue) == (sketched.method, pytest.approx(raw.pvalue, abs=0.005))
    assert sketched.estimate == pytest.approx(raw.estimate, rel=0.01)
    # pooled predictions lose little: statistics of the test are those of all samples
    own = {component.name: component for component in raw.scales}
    for name, test in (("cutoff", CutoffTest(method="asymptotic")), ("slope", CoxTest(parameter="slope"))):
        assert own[name].pvalue == pytest.approx(test.test(y, p).pvalue, abs=0.04)


def harmonic_mean_pvalue(values, weights):
    """Return the p-value of the first row by a plain loop over rows and components."""
    n, n_components = values.shape
    means = []
    for i in range(n):
        total = 0.0
        for k in range(n_components):
            at_least = sum(values[j, k] >= values[i, k] - 1e-7 for j in range(n))
            total += weights[k] * n / at_least
        means.append(sum(weights) / total)
    return means[0], np.mean([mean <= means[0] + 1e-12 for mean in means])


def test_harmonic_mean_against_a_plain_loop():
    # the rows are the sample and outcomes as the test simulates them
    y, p = np.array([1, 0, 0, 1, 1, 0, 1, 1]), np.linspace(0.1, 0.8, 8)
    weights, names = (4, 3, 3), ("cutoff", "intercept", "slope")
    result = CombinedTest(components=names, weights=weights, n_resamples=60)
    result = result.set_params(random_state=0).test(y, p)
    given = {"n_resamples": 60, "random_state": 0}
    parts = [CombinedTest(components=[name], **given).test(y, p) for name in names]
    # of one component, the p-value of each simulated sample among all; its rank stands for its value
    values = np.column_stack([-np.concatenate(([part.statistic], part.null_distribution)) for part in parts])
    statistic, pvalue = harmonic_mean_pvalue(values, weights)
    assert result.statistic == pytest.approx(statistic, rel=1e-12)
    assert result.pvalue == pytest.approx(pvalue, rel=1e-12)


@pytest.mark.parametrize("p", [[0.0, 3 / 2**20], [1.0, 1 - 3 / 2**20], [0.0, 5 / 2**20, 5 / 2**20]])
def test_slope_where_predictions_are_nearly_certain(p):
    y = (np.array(p) < 0.5) == (np.arange(len(p)) == 1)
    test = CombinedTest(components=["slope"], n_resamples=19, random_state=0)
    assert test.test(y.astype(int), p).scales[0].statistic == 0.0
    # the variances sum to .06, far below 1
    y, p = np.array([0, 0, 1, 0, 0]), np.array([0.001, 0.004, 0.01, 0.02, 0.025])
    assert test.test(y, p).scales[0].statistic == pytest.approx(statistics(y, p)[3])


def test_shares():
    y, p = _properties.sample(300, power=1.3)
    options = {"components": ALL, "n_resamples": 299, "random_state": 0}
    default = CombinedTest(**options).test(y, p)
    same = CombinedTest(weights=(2, 2, 1, 1, 1), **options).test(y, p)
    assert (same.pvalue, same.statistic) == (default.pvalue, default.statistic)
    # nearly all of the weight on one component
    only = CombinedTest(weights=(1e-9, 1, 1e-9, 1e-9, 1e-9), **options).test(y, p)
    assert only.pvalue == pytest.approx(only.scales[1].pvalue)
    # no two rows share a bin
    result = CombinedTest(n_resamples=39, random_state=0).test([1, 0], [0.2, 0.8])
    pvalues = {component.name: component.pvalue for component in result.scales}
    assert pvalues["tcal"] == 1
    assert min(pvalues.values()) < 1
    assert result.reason != "smallest weighted p-value: tcal"


def test_asymptotic_combinations():
    y, p = _properties.sample(300, power=1.3)
    weights = np.array([0.5, 0.125, 0.125, 0.125, 0.125])
    options = {"components": ALL, "weights": 8 * weights, "method": "asymptotic"}
    harmonic = CombinedTest(**options).test(y, p)
    pvalues = np.array([component.pvalue for component in harmonic.scales])
    assert harmonic.statistic == pytest.approx(1 / (weights / pvalues).sum())
    assert harmonic.pvalue == pytest.approx(cauchy.sf((weights * cauchy.isf(pvalues)).sum()))
    # one component alone, however small its p-value
    only = CombinedTest(components=["slope"], method="asymptotic").test(*_properties.sample(3000, power=8))
    assert only.pvalue == pytest.approx(only.scales[0].pvalue, rel=1e-10)
