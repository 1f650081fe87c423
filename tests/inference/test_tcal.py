"""T-Cal: values by hand, agreement of its methods, power, parameters."""

import itertools

import numpy as np
import pytest
from scipy.stats import norm

from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._core._nested_bins import NestedBins
from sklearn_calib._core._null import draw_positives
from sklearn_calib.inference import TCal
from sklearn_calib.inference._testing._tails import gamma_sf
from sklearn_calib.inference._testing._tcal import FEWEST_PAIRS, any_exceeds, chain_correlation, scale_weights
from tests.core.test_nested_bins import dyadic_moments, naive_statistic
from tests.inference._properties import sample


def wave(rng, n, periods, height=0.15):
    """Predictions in [.2, .8] whose calibration curve waves around the diagonal."""
    p = rng.uniform(0.2, 0.8, n)
    truth = p + height * np.sin(2 * np.pi * periods * (p - 0.2) / 0.6)
    return (rng.random(n) < truth).astype(int), p


@pytest.mark.parametrize("smoothness", ["adaptive", 3.0])
def test_many_samples_from_the_definition(smoothness):
    # more than one block, of which the first ends inside one of 6 bins
    rng = np.random.default_rng(1)
    p = np.append(rng.beta(0.5, 2.0, 119_000), np.round(rng.random(1000), 2))
    y = (rng.random(p.shape[0]) < p).astype(int)
    scales = TCal(smoothness=smoothness, method="asymptotic").test(y, p).scales
    assert [scale.n_bins for scale in scales[:3]] == ([2, 4, 8] if smoothness == "adaptive" else [6])
    n, r, v = p.shape[0], y - p, p * (1 - p)
    for scale in scales:
        bins = np.minimum((p * scale.n_bins).astype(int), scale.n_bins - 1)
        _, of, size = np.unique(bins, return_inverse=True, return_counts=True)
        s, q, v1, v2 = (np.bincount(of, values) for values in (r, r**2, v, v**2))
        assert scale.statistic == pytest.approx(np.sum((s**2 - q) / size) / n, rel=1e-9, abs=1e-13)
        assert scale.null_std == pytest.approx(np.sqrt(2 * np.sum((v1**2 - v2) / size**2)) / n, rel=1e-9)
        assert scale.n_paired == size[size > 1].sum()


def test_by_hand():
    # r = 1/2 twice in one bin: T = 2 (1/4) / (2 * 2) = 1/8, and its null standard deviation is 1/8
    result = TCal(n_resamples=19).test([1, 1], [0.5, 0.5])
    # B = 3, 1/16 effective pairs: 1 / (1 + z^2) for z = 1, and the first weight is 1/6 + (1/2) / (11/6)
    assert result.statistic == pytest.approx(0.5 / (1 / 6 + 3 / 11))
    assert (result.estimate, result.n_samples) == (pytest.approx(np.sqrt(1 / 8)), 2)
    assert [scale.n_bins for scale in result.scales] == [2, 4, 8]
    for scale in result.scales:
        assert (scale.statistic, scale.null_std) == (pytest.approx(1 / 8), pytest.approx(1 / 8))
        assert scale.n_paired == 2
    # the null distribution of T is +-1/8 with equal probability
    assert TCal(n_resamples=1999).test([1, 1], [0.5, 0.5]).pvalue == pytest.approx(0.5, abs=0.05)
    single = TCal(smoothness=1.0, n_resamples=1999).test([1, 1], [0.5, 0.5])
    np.testing.assert_allclose(np.unique(np.round(single.null_distribution, 9)), [-1 / 8, 1 / 8])
    for y, p in [([1], [0.4]), ([1, 0], [0.2, 0.8]), ([1, 0, 1], [0.1, 0.4, 0.9])]:
        for method in ("monte_carlo", "asymptotic", "theory"):
            result = TCal(method=method, n_resamples=19).test(y, p, pos_label=1)
            assert 0 < result.pvalue <= 1
            assert all(scale.n_paired >= 2 for scale in result.scales)
            if not result.scales:
                assert (result.pvalue, result.estimate) == (1, 0)
    grid = (np.arange(16) + 0.5) / 16
    result = TCal(n_resamples=19).test((grid > 0.3).astype(int), grid)
    assert [scale.n_bins for scale in result.scales] == [2, 4, 8]


def test_scales_and_statistic_from_the_definition():
    y, p = sample(40)
    p[-1] = 1.0
    y[-1] = 1
    result = TCal(n_resamples=19).test(y, p)
    # B = ceil(2 log2(40 / sqrt(log 40))) = 9
    assert result.scales[-1].n_bins <= 2**9
    for scale in result.scales:
        assert scale.statistic == pytest.approx(naive_statistic(y, p, scale.n_bins), abs=1e-14)


@pytest.mark.parametrize(("smoothness", "n", "n_bins"), [(1, 32, 4), (0.25, 30, 30), (2, 99, 2), (30, 50, 1)])
def test_fixed_smoothness(smoothness, n, n_bins):
    # m = floor(n^(2 / (4 s + 1)))
    y, p = sample(n)
    for method in ("monte_carlo", "asymptotic", "theory"):
        result = TCal(smoothness=smoothness, method=method).test(y, p)
        (scale,) = result.scales
        assert scale.n_bins == n_bins
        assert result.statistic == scale.statistic == pytest.approx(naive_statistic(y, p, n_bins), abs=1e-14)
        assert result.pvalue == scale.pvalue


def test_very_rough_smoothness_has_very_many_bins():
    y, p = sample(50)
    # 50^(2 / (1 + 4e-12)) is just below 2500
    assert TCal(smoothness=1e-12, n_resamples=19).test(y, p).pvalue == 1
    p[1] = p[0]
    (scale,) = TCal(smoothness=1e-12, n_resamples=19).test(y, p).scales
    assert (scale.n_bins, scale.n_paired) == (2499, 2)


@pytest.mark.parametrize("p", [[0.1, 0.15, 0.15, 0.3, 0.6, 0.62], [1e-5, 2e-5, 0.4, 0.45, 0.5, 0.55]])
def test_pvalue_tends_to_the_exact_one(p):
    p, outcomes = np.array(p), np.array(list(itertools.product([0, 1], repeat=6)))
    chance = np.prod(np.where(outcomes == 1, p, 1 - p), axis=1)
    # B = ceil(2 log2(6 / sqrt(log 6))) = 5
    moments = [dyadic_moments(group_outcomes(y, p), 5) for y in outcomes]
    used = moments[0].variance > 0
    z = np.array([m.statistic for m in moments])[:, used] / np.sqrt(moments[0].variance[used])
    skewness = moments[0].third_cumulant[used] / moments[0].variance[used] ** 1.5
    tails = np.where(z > 0, 1 / (1 + z**2), 1)
    often = moments[0].pairs[used] >= 0.5
    tails[:, often] = gamma_sf(z, skewness)[:, often]
    value = (tails / scale_weights(5)[used]).min(axis=1)
    for row in (0, 3, 9, 31, 50):
        exact = chance @ (value <= value[row] * (1 + 1e-9))
        assert TCal(n_resamples=2000).test(outcomes[row], p).pvalue == pytest.approx(exact, abs=0.05)


def statistics_of_simulations(grouped, levels, n_draws, seed):
    """T of samples with simulated outcomes, shape (n_draws, levels)."""
    statistic = NestedBins(grouped, levels).statistic_around(grouped.prob)
    draws = draw_positives(grouped, n_draws, np.random.default_rng(seed))
    return np.concatenate([statistic(positives) for positives in draws])


def test_tails_of_one_and_of_several_scales():
    z = np.linspace(-3, 8, 45)
    np.testing.assert_allclose(gamma_sf(z, np.zeros(45)), norm.sf(z), rtol=1e-12)
    np.testing.assert_allclose(gamma_sf(z, np.full(45, 2e-4)), norm.sf(z), rtol=0.02)
    np.testing.assert_allclose(gamma_sf(z, np.full(45, -1.0)), norm.sf(z), rtol=1e-12)
    # skewness 2 is the exponential distribution, moved to mean 0
    np.testing.assert_allclose(gamma_sf(z, np.full(45, 2.0)), np.minimum(1, np.exp(-(z + 1))), rtol=1e-12)
    assert gamma_sf(np.array([1e5]), np.array([0.1]))[0] == 1e-300
    rng = np.random.default_rng(0)
    tails, correlation = np.array([0.01, 0.03, 0.001, 0.02]), np.array([0.9, 0.3, 0.7])
    path = [rng.standard_normal(300_000)]
    for rho in correlation:
        path.append(rho * path[-1] + np.sqrt(1 - rho**2) * rng.standard_normal(300_000))
    simulated = np.mean(np.any(np.array(path) >= norm.isf(tails)[:, None], axis=0))
    assert any_exceeds(tails, correlation) == pytest.approx(simulated, rel=0.02)
    # equal events; independent ones; tiny ones; a single one
    assert any_exceeds(np.full(5, 0.02), np.ones(4)) == pytest.approx(0.02, rel=1e-9)
    assert any_exceeds(np.full(5, 0.02), np.zeros(4)) == pytest.approx(1 - 0.98**5, rel=0.01)
    assert any_exceeds(np.full(3, 1e-200), np.zeros(2)) == pytest.approx(3e-200, rel=1e-6)
    assert any_exceeds(np.array([0.3]), np.empty(0)) == 0.3
    assert any_exceeds(np.array([0.9, 0.8]), np.zeros(1)) <= 1


@pytest.mark.parametrize("kind", ["uniform", "near the ends", "rare", "tied"])
def test_asymptotic_agrees_with_monte_carlo(kind):
    rng = np.random.default_rng(7)
    n, n_draws = 1000, 2000
    p = {
        "uniform": lambda: rng.random(n),
        "near the ends": lambda: 1 / (1 + np.exp(-4 * rng.normal(size=n))),
        "rare": lambda: 0.02 + 0.06 * rng.random(n),
        "tied": lambda: rng.integers(1, 20, n) / 20,
    }[kind]()
    y = (rng.random(n) < p).astype(int)
    grouped = group_outcomes(y, p)
    moments = dyadic_moments(grouped, 16)
    usable = np.flatnonzero(moments.pairs >= FEWEST_PAIRS)
    assert usable.shape[0] >= 4
    deviation = np.sqrt(moments.variance[usable])
    z_drawn = statistics_of_simulations(grouped, 16, n_draws, 1)[:, usable] / deviation
    skewness = moments.third_cumulant[usable] / deviation**3
    correlation = chain_correlation(moments.covariance[:-1], np.sqrt(moments.variance), usable)
    for z in (0.0, 1.0, 2.0, 3.0):
        tails = gamma_sf(np.full(usable.shape[0], z), skewness)
        simulated = np.mean(z_drawn >= z, axis=0)
        error = 4 * np.sqrt(simulated * (1 - simulated) / n_draws)
        np.testing.assert_array_less(np.abs(tails - simulated), error + 0.02 + 0.1 * tails)
        largest = np.mean(z_drawn.max(axis=1) >= z)
        error = 4 * np.sqrt(largest * (1 - largest) / n_draws)
        assert abs(any_exceeds(tails, correlation) - largest) <= error + 0.01 + 0.1 * largest
    weights = scale_weights(moments.variance.shape[0])[usable]
    weighted = (gamma_sf(z_drawn, skewness) / weights).min(axis=1)
    own = (gamma_sf(moments.statistic[usable] / deviation, skewness) / weights).min()
    distribution = any_exceeds(np.clip(own * weights, 1e-300, 1), correlation)
    assert distribution == pytest.approx(np.mean(weighted <= own), abs=0.04)


def test_theory():
    y, p = wave(np.random.default_rng(0), 4000, 1, height=0.19)
    # Theorem 3.1, vector convention: 2 T >= sqrt(2) K / sqrt(alpha) min(sqrt(m) / n, 1 / sqrt(m)), K = 2
    (scale,) = (result := TCal(smoothness=2.0, method="theory").test(y, p)).scales

    def rejects(alpha):
        m, n = scale.n_bins, 4000
        return 2 * scale.statistic >= np.sqrt(2) * 2 / np.sqrt(alpha) * min(np.sqrt(m) / n, 1 / np.sqrt(m))

    assert 0 < result.pvalue < 1
    assert rejects(result.pvalue * (1 + 1e-9))
    assert not rejects(result.pvalue * (1 - 1e-9))
    adaptive = TCal(method="theory").test(y, p)
    # B = ceil(2 log2(4000 / sqrt(log 4000))) = 21
    assert adaptive.pvalue == pytest.approx(min(1, 21 * min(scale.pvalue for scale in adaptive.scales)))
    assert TCal(method="theory").test(*wave(np.random.default_rng(0), 4000, 1, 0)).pvalue == 1


def test_theory_with_tied_predictions():
    """Each prediction twice, in more bins than predictions, as Assumption 3.1 excludes: Chebyshev's bound."""
    rng = np.random.default_rng(0)
    p = np.repeat(rng.uniform(0.3, 0.7, 800), 2)
    result = TCal(smoothness=0.01, method="theory").test((rng.random(1600) < p**2).astype(int), p)
    assert "Assumption 3.1" in result.reason
    (scale,) = result.scales
    assert scale.statistic > scale.null_std
    assert result.pvalue == pytest.approx((scale.null_std / scale.statistic) ** 2)
    p = np.repeat([0.3, 0.5, 0.7], 100)
    y = (np.random.default_rng(0).random(300) < p).astype(int)
    result = TCal(smoothness=0.25, method="theory").test(y, p)
    assert result.scales[0].n_bins == 300
    assert "Assumption" not in result.reason


@pytest.mark.parametrize("method", ["monte_carlo", "asymptotic"])
def test_weighted_statistic(method):
    y, p = wave(np.random.default_rng(0), 500, 3)
    result = TCal(method=method, n_resamples=99).test(y, p)
    fine = TCal(method="asymptotic").test(y, p)
    # the p-values of the asymptotic scales are the tails of the gamma distributions
    tails = {scale.n_bins: scale.pvalue for scale in fine.scales}
    # B = ceil(2 log2(500 / sqrt(log 500))) = 16
    ratio = {m: tail / scale_weights(16)[int(np.log2(m)) - 1] for m, tail in tails.items() if tail < 1}
    assert result.statistic == pytest.approx(min(ratio.values()), rel=1e-6)
    assert (result.reason, result.tail) == (f"decided by {min(ratio, key=ratio.get)} bins", "lower")


def test_bonferroni():
    y, p = sample(60)
    # B = ceil(2 log2(60 / sqrt(log 60))) = 10
    result = TCal(n_resamples=199, combine="bonferroni").test(y, p**8)
    assert result.statistic == min(scale.pvalue for scale in result.scales) == 1 / 200
    assert result.pvalue == pytest.approx(10 / 200)
    asymptotic = TCal(method="asymptotic", combine="bonferroni").test(y, p)
    assert asymptotic.pvalue == pytest.approx(min(1, 10 * min(scale.pvalue for scale in asymptotic.scales)))


def test_which_method_is_used():
    rng = np.random.default_rng(0)
    for p, expected in [
        (rng.random(2000), "simulations"),
        (rng.random(100_000), "asymptotic"),
        (rng.choice([0.001, 0.002], 100_000), "simulations"),
    ]:
        y = (rng.random(p.shape[0]) < p).astype(int)
        assert expected in TCal(n_resamples=9).test(y, p).method
    clusters, p = np.repeat(np.arange(1000), 100), np.round(rng.random(100_000), 1)
    y = (rng.random(100_000) < p).astype(int)
    assert "simulations" in TCal(n_resamples=9).test(y, p, clusters=clusters).method
    p = np.full(50, 1e-3) + 1e-5 * np.arange(50)
    result = TCal(method="asymptotic").test(np.arange(50) < 2, p)
    assert result.pvalue == 1
    assert "monte_carlo" in result.reason
    assert TCal().test(np.arange(50) < 2, p).pvalue < 0.01


def test_huge_weights_cost_nothing():
    y, p = [0, 1, 0, 1], [0.3, 0.3, 0.5, 0.5]
    drawn, limit = TCal(method="monte_carlo", n_resamples=99), TCal(method="asymptotic")

    def pvalue(test, *times):
        return test.test(y, p, sample_weight=times, weights="frequency").pvalue

    billion = 10**9
    assert pvalue(drawn, 7 * billion, 3 * billion, billion, billion) > 0.5
    assert pvalue(drawn, 6 * billion, 3 * billion, billion, billion) == 0.01
    assert pvalue(limit, 6 * billion, 3 * billion, billion, billion) < 1e-10
    with pytest.raises(ValueError, match="sample_weight"):
        pvalue(drawn, 1e17, 1, 1, 1)
