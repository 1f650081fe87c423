"""What the reliability diagram shows, against plain references."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from sklearn_calib._validation import check_binary
from sklearn_calib.metrics import expected_calibration_error, smooth_ece_result
from sklearn_calib.plot._curve import _effective_size, binned_curve, smooth_curve, wilson_interval


def sample_of(n=300, seed=0, weights=None):
    rng = np.random.default_rng(seed)
    p = np.round(rng.beta(0.6, 0.6, n), 2)
    y = (rng.random(n) < p**1.4).astype(int)
    return check_binary(y, p, weights if weights is None else weights(rng, n))


def folded_gaussian(t, x, s):
    """Density at t of x + s * noise folded into [0, 1], image by image."""
    total = 0.0
    for period in range(-12, 13):
        for image in (2 * period + x, 2 * period - x):
            total += math.exp(-0.5 * ((t - image) / s) ** 2) / (s * math.sqrt(2 * math.pi))
    return total


def plain_effective_size(t, p, w, s):
    first = second = 0.0
    for i in range(len(p)):
        k = folded_gaussian(t, p[i], s)
        first += w[i] * k
        second += w[i] ** 2 * k**2
    return first**2 / second


@pytest.mark.parametrize(("events", "trials"), [(0, 7), (3, 10), (10, 10), (50, 400)])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_wilson_interval_is_scipys(events, trials, confidence):
    expected = binomtest(events, trials).proportion_ci(confidence, method="wilson")
    lower, upper = wilson_interval(np.array([events / trials]), np.array([trials]), confidence)
    assert lower[0] == pytest.approx(expected.low, abs=1e-12)
    assert upper[0] == pytest.approx(expected.high, abs=1e-12)


@pytest.mark.parametrize("s", [0.03, 0.3, 2.0])
def test_effective_size_against_double_loop(s):
    rng = np.random.default_rng(3)
    p = np.concatenate((rng.random(25), [0.0, 0.0, 1.0, 0.5, 0.5]))
    w = rng.exponential(size=p.shape[0])
    t = np.array([0.0, 0.013, 0.5, 0.77, 1.0])
    expected = [plain_effective_size(u, p, w, s) for u in t]
    np.testing.assert_allclose(_effective_size(t, p, w, s), expected, rtol=1e-9)
    expected = [plain_effective_size(u, p, np.ones_like(p), s) for u in t]
    np.testing.assert_allclose(_effective_size(t, p, None, s), expected, rtol=1e-9)


def test_effective_size_gathers_many_predictions_with_small_error():
    rng = np.random.default_rng(4)
    p = rng.beta(0.5, 2.0, 4000)
    t = np.array([0.0, 0.1, 0.4, 0.8])
    k = np.array([[folded_gaussian(u, x, 0.02) for x in p] for u in t])
    expected = k.sum(axis=1) ** 2 / (k**2).sum(axis=1)
    np.testing.assert_allclose(_effective_size(t, p, None, 0.02), expected, rtol=2e-3)


def test_effective_size_of_a_kernel_narrower_than_a_cell():
    p = (np.arange(400_000) + 0.5) / 400_000
    s = 2e-4
    # uniform density: n (int K)^2 / int K^2 = 2 n s sqrt(pi)
    size = _effective_size(np.array([0.25, 0.5]), p, None, s)
    np.testing.assert_allclose(size, 2 * 400_000 * s * math.sqrt(math.pi), rtol=0.02)


def test_whole_weights_are_repetitions():
    sample = sample_of(weights=lambda rng, n: rng.integers(0, 4, n))
    times = sample.w.astype(int)
    repeated = check_binary(np.repeat(sample.y, times), np.repeat(sample.p, times))
    for one, other in (
        (smooth_curve(sample, "auto", 0.9), smooth_curve(repeated, "auto", 0.9)),
        (binned_curve(sample, 7, "quantile", 0.9), binned_curve(repeated, 7, "quantile", 0.9)),
    ):
        for name in ("predicted", "observed", "lower", "upper", "density"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-6, atol=1e-8)
        assert one.error == pytest.approx(other.error, abs=1e-9)


def test_the_scale_of_sampling_weights_does_not_matter():
    y, p = sample_of().y, sample_of().p
    w = np.random.default_rng(1).exponential(size=p.shape[0])
    for curve in (lambda s: smooth_curve(s, "auto", 0.95), lambda s: binned_curve(s, 5, "uniform", 0.95)):
        one, other = curve(check_binary(y, p, w)), curve(check_binary(y, p, 1e-3 * w))
        np.testing.assert_allclose(one.upper - one.lower, other.upper - other.lower, rtol=1e-5)


def test_smooth_curve_is_that_of_smooth_ece():
    sample = sample_of()
    curve, result = smooth_curve(sample, "auto", 0.95), smooth_ece_result(sample.y, sample.p)
    assert curve.error == result.value
    shown = np.isfinite(curve.observed)
    at = np.searchsorted(result.grid, curve.predicted)
    np.testing.assert_array_equal(curve.predicted, result.grid[at])
    np.testing.assert_array_equal(curve.observed[shown], result.curve[at][shown])
    np.testing.assert_array_equal(curve.density, result.density[at])
    assert ((curve.lower <= curve.observed) & (curve.observed <= curve.upper))[shown].all()


def test_smooth_curve_is_drawn_only_near_predictions():
    rng = np.random.default_rng(0)
    p = np.concatenate((rng.uniform(0.1, 0.2, 400), rng.uniform(0.8, 0.9, 400), [0.5]))
    y = (rng.random(p.shape[0]) < p).astype(int)
    curve = smooth_curve(check_binary(y, p), 0.02, 0.95)
    shown = np.isfinite(curve.observed)
    inside = (np.abs(curve.predicted - 0.15) < 0.05) | (np.abs(curve.predicted - 0.85) < 0.05)
    assert shown[inside].all()
    outside = (np.abs(curve.predicted - 0.15) > 0.12) & (np.abs(curve.predicted - 0.85) > 0.12)
    assert not shown[outside].any()  # neither at the single prediction of one half


@pytest.mark.parametrize("p", [[0.3], [0.3] * 50, [0.0] * 20, [0.0, 1.0]])
def test_a_few_equal_predictions_give_a_curve(p):
    y = np.arange(len(p)) % 2
    curve = smooth_curve(check_binary(y, p, pos_label=1), "auto", 0.95)
    assert np.isfinite(curve.observed).any()
    shown = np.isfinite(curve.observed)
    assert np.isfinite(curve.lower[shown]).all()
    assert ((curve.lower >= 0) & (curve.upper <= 1))[shown].all()


def test_band_covers_the_smoothed_frequency():
    """Pointwise coverage over repeated samples, also at the ends where no event or only events are seen."""
    t = np.array([0.0, 0.1, 0.5, 0.9, 1.0])
    rng = np.random.default_rng(7)
    hits, repetitions, s = np.zeros(t.shape[0]), 300, 0.05
    for _ in range(repetitions):
        p = rng.beta(0.5, 0.5, 400)
        truth = p**1.3
        y = (rng.random(400) < truth).astype(int)
        curve = smooth_curve(check_binary(y, p), s, 0.95)
        k = np.zeros((t.shape[0], p.shape[0]))
        for image in (p, -p, 2 - p):
            k += np.exp(-0.5 * ((t[:, None] - image) / s) ** 2)
        target = k @ truth / k.sum(axis=1)
        lower, upper = (np.interp(t, curve.predicted, limit) for limit in (curve.lower, curve.upper))
        hits += (lower <= target) & (target <= upper)
    # 0.91 lies three binomial standard deviations below 0.95
    assert (hits / repetitions >= 0.91).all()


@pytest.mark.parametrize("n_bins", [1, 4, 15])
def test_uniform_bins_against_a_loop(n_bins):
    sample = sample_of(weights=lambda rng, n: rng.exponential(size=n))
    curve = binned_curve(sample, n_bins, "uniform", 0.8)
    rows = []
    for j in range(n_bins):
        member = (sample.p >= j / n_bins) & ((sample.p < (j + 1) / n_bins) | (j == n_bins - 1))
        w = sample.w[member]
        if w.size:
            mean = [float((w * v[member]).sum() / w.sum()) for v in (sample.p, sample.y)]
            size = w.sum() ** 2 / (w**2).sum()
            density = w.sum() / sample.total * n_bins
            rows.append([*mean, *wilson_interval(np.array(mean[1]), np.array(size), 0.8), density])
    found = np.column_stack([curve.predicted, curve.observed, curve.lower, curve.upper, curve.density])
    np.testing.assert_allclose(found, np.array(rows, dtype=float), rtol=1e-9)
    assert curve.error == pytest.approx(
        expected_calibration_error(sample.y, sample.p, sample_weight=sample.w, n_bins=n_bins)
    )


def test_quantile_bins_share_the_mass_and_meet_between_predictions():
    p = np.array([0.1, 0.1, 0.2, 0.3, 0.6, 0.7, 0.9, 1.0])
    curve = binned_curve(check_binary([0, 0, 1, 0, 1, 1, 0, 1], p), 2, "quantile", 0.95)
    np.testing.assert_allclose(curve.predicted, [0.175, 0.8])
    np.testing.assert_allclose(curve.observed, [0.25, 0.75])
    np.testing.assert_allclose(curve.edges, [[0.1, 0.45], [0.45, 1.0]])


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_binned_density_integrates_to_one(strategy):
    curve = binned_curve(sample_of(), 9, strategy, 0.95)
    assert float(curve.density @ np.diff(curve.edges, axis=1)[:, 0]) == pytest.approx(1.0)


def test_a_curve_prints_its_number():
    curve = smooth_curve(sample_of(), "auto", 0.95)
    assert str(curve) == f"smooth reliability curve: smECE = {curve.error:.4f} (n = 300)"
