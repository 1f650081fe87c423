"""Reports on dependent samples: clusters reach every number, and dependence is noticed."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm, t

from sklearn_calib._validation import BinarySample, check_binary
from sklearn_calib.inference import CombinedTest, CutoffTest
from sklearn_calib.inference._data_checks import serial_dependence
from sklearn_calib.report import calibration_report
from sklearn_calib.report._words import warnings
from tests._every import short_report
from tests._tiers import thorough

pytestmark = pytest.mark.usefixtures("one_measure")


def dependent(seed, n_clusters=40, size=15, rho=0.3):
    """Calibrated predictions whose outcomes depend on each other within clusters."""
    rng, clusters = np.random.default_rng(seed), np.repeat(np.arange(n_clusters), size)
    p = rng.beta(2, 3, clusters.size).round(3).clip(0.001, 0.999)
    effect = np.sqrt(rho) * rng.normal(size=n_clusters)[clusters]
    y = (effect + np.sqrt(1 - rho) * rng.normal(size=p.size) < norm.ppf(p)).astype(int)
    return y, p, clusters


@pytest.fixture(scope="module")
def data():
    return dependent(0)


@pytest.fixture(scope="module")
def clustered(data):
    y, p, clusters = data
    return short_report(y, p, clusters=clusters, groups=clusters % 2)


@pytest.fixture(scope="module")
def alone(data):
    return short_report(*data[:2])


def test_numbers_are_those_of_the_functions(data, clustered, one_measure):
    y, p, clusters = data
    draws = {"n_resamples": 199, "random_state": 0}
    combined = CombinedTest(method="monte_carlo", **draws).test(y, p, clusters=clusters)
    # two families of tests: all samples, and groups
    assert clustered.pvalue == min(1.0, 2 * combined.pvalue)
    assert (clustered.n_clusters, clustered.design_effect) == (40, combined.design_effect)
    assert clustered.n_effective == pytest.approx(600 / combined.design_effect)
    (line,) = (line for line in clustered.tests if line.name == "cutoff test")
    assert line.result.pvalue == CutoffTest(**draws).test(y, p, clusters=clusters).pvalue
    assert "binomial test" not in [line.name for line in clustered.tests]
    part = clustered.groups[1]
    odd = clusters % 2 == 1
    found = CutoffTest(**draws).test(y[odd], p[odd], clusters=clusters[odd])
    assert part.pvalue == found.pvalue
    y, p, clusters = data
    report = calibration_report(y, p, clusters=clusters, groups=clusters == 0, n_resamples=20)
    assert report.groups[1].pvalue == 1.0


def test_intervals_against_sums_over_clusters(data, clustered):
    """The interval of a mean is that of the t-test of the sums over clusters."""
    y, p, clusters = data
    line, loss = clustered.metric("brier"), (y - p) ** 2

    def half(values):
        sums = np.bincount(clusters, values - values.mean())
        return t.isf(0.025, 39) * np.sqrt(np.sum(sums**2) * 40 / 39) / 600

    assert line.estimate == pytest.approx(loss.mean())
    ends = loss.mean() - half(loss), loss.mean() + half(loss)
    assert (line.lower, line.upper) == pytest.approx(ends)
    # under perfect calibration the Brier score varies with (1 - 2 p) (y - p)
    assert line.null_upper - line.expected == pytest.approx(half((1 - 2 * p) * (y - p)))


def test_clusters_are_shown(clustered, alone, no_matplotlib):
    assert "clusters: 40 (design effect" in str(clustered)
    assert "effective number of samples" in clustered.to_html()
    assert clustered.to_dict()["n_clusters"] == 40
    assert not any("pass clusters" in line for line in clustered.warnings)
    assert clustered.metric("smooth_ece").expected > 1.1 * alone.metric("smooth_ece").expected


def test_dependence_is_noticed(alone, data):
    assert alone.dependence_pvalue <= 0.01
    assert any("pass clusters=" in line for line in alone.warnings)
    assert alone.n_clusters is None
    assert not any("clusters" in line for line in warnings(replace(alone, dependence_pvalue=0.02)))
    y, p, _ = data
    single = calibration_report(y, p, clusters=np.arange(y.size), n_resamples=20)
    assert single.pvalue == alone.pvalue
    assert single.n_clusters is None
    assert [line.estimate for line in single.metrics] == [line.estimate for line in alone.metrics]


def test_the_order_of_shuffled_sorted_or_repeated_samples_tells_nothing(data):
    y, p, _ = data

    def found(order, w=None, weights="sampling"):
        return serial_dependence(check_binary(y[order], p[order], w, weights=weights), 0)

    order = np.arange(y.size)
    assert found(order) <= 0.01
    assert found(order, np.random.default_rng(0).lognormal(size=y.size)) <= 0.01
    assert found(np.random.default_rng(1).permutation(y.size)) > 0.01
    assert np.isnan(found(np.argsort(y, kind="stable")))
    assert np.isnan(found(np.argsort(-y, kind="stable")))
    assert np.isnan(found(order, np.arange(y.size) % 3, "frequency"))


@pytest.mark.parametrize("kind", [*(thorough(kind) for kind in ("common", "rare")), "miscalibrated, sorted"])
def test_false_alarms_of_dependence(kind):
    """At most 1% of independent samples are called dependent, whatever their order and calibration."""
    rng = np.random.default_rng(5)
    alarms, repetitions = 0, 500 if kind == "miscalibrated, sorted" else 1500
    for k in range(repetitions):
        p = rng.beta(1, 60, 400) if kind == "rare" else rng.uniform(size=200)
        truth = np.sort(p) ** 1.7 if kind == "miscalibrated, sorted" else p
        p = np.sort(p) if kind == "miscalibrated, sorted" else p
        sample = BinarySample((rng.random(p.size) < truth).astype(np.int64), p, None)
        alarms += serial_dependence(sample, k) <= 0.01
    assert alarms <= binom.ppf(0.999, repetitions, 0.01)


def test_several_classes(no_class_intervals):
    rng = np.random.default_rng(2)
    P = (rng.multinomial(17, [0.3, 0.3, 0.4], 150) + 1) / 20
    y = np.array([rng.choice(3, p=row) for row in P])
    report = calibration_report(y, P, clusters=np.arange(150) // 5, n_resamples=20)
    assert report.n_clusters == 30
    assert report.design_effect >= 1.0
    by_class = np.argsort(y, kind="stable")
    assert np.isnan(calibration_report(y[by_class], P[by_class], n_resamples=20).dependence_pvalue)


def test_large_samples_with_clusters_are_simulated(one_measure):
    """Without clusters, tests of so many samples are asymptotic."""
    y, p, clusters = dependent(0, n_clusters=20, size=10)
    given = {"sample_weight": np.full(y.size, 600), "weights": "frequency", "clusters": clusters}
    found = calibration_report(y, p, **given, n_resamples=20, random_state=0)
    assert found.n_clusters == 20
    assert all("simulations" in test.result.method for test in found.tests)
    assert 0 < found.residual_pvalue <= 1
    y, p, clusters = dependent(0)
    p = np.clip(np.round(p, 1), 0.1, 0.9)
    found = calibration_report(y, p, clusters=clusters, n_resamples=20, random_state=0)
    (binomial,) = (test for test in found.tests if test.name == "binomial test")
    assert binomial.result.n_clusters == 40
