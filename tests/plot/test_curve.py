"""What the reliability diagram shows, against plain references."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from sklearn_calib._validation import check_binary
from sklearn_calib.metrics import expected_calibration_error, smooth_ece_result
from sklearn_calib.plot._bands import clopper_pearson, wilson_interval
from sklearn_calib.plot._compute import CurveOptions
from sklearn_calib.plot._smooth_curve import KernelWindow


def smooth_curve(sample, bandwidth, confidence):
    return CurveOptions(bandwidth=bandwidth, confidence=confidence).curve(sample)


def binned_curve(sample, n_bins, strategy, confidence):
    return CurveOptions("binned", n_bins=n_bins, strategy=strategy, confidence=confidence).curve(sample)


def _effective_size(t, p, w, s):
    return KernelWindow(t, p, w, s, reflect=True).effective_size()


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


@pytest.mark.parametrize(("events", "trials"), [(0, 7), (3, 10), (10, 10), (50, 400), (1, 1)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.9999])
def test_clopper_pearson_is_scipys(events, trials, confidence):
    expected = binomtest(events, trials).proportion_ci(confidence, method="exact")
    lower, upper = clopper_pearson(np.array([events]), np.array([trials]), (1 - confidence) / 2)
    assert lower[0] == pytest.approx(expected.low, abs=1e-10)
    assert upper[0] == pytest.approx(expected.high, abs=1e-10)


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


def test_effective_size_of_a_kernel_narrower_than_a_bin():
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


@pytest.mark.parametrize("bandwidth", ["smooth_ece", 0.03])
def test_smooth_curve_is_the_kernel_regression_of_smooth_ece(bandwidth):
    sample = sample_of()
    curve, own = smooth_curve(sample, bandwidth, 0.95), smooth_ece_result(sample.y, sample.p)
    width = own.bandwidth if bandwidth == "smooth_ece" else bandwidth
    result = smooth_ece_result(sample.y, sample.p, bandwidth=width)
    # the number is always smooth ECE, whatever the bandwidth of the curve
    assert curve.error == own.value
    assert curve.bandwidth == pytest.approx(width)
    shown = np.isfinite(curve.observed)
    assert shown.sum() > 50
    expected = np.interp(curve.predicted, result.grid, result.curve)
    np.testing.assert_allclose(curve.observed[shown], expected[shown], atol=1e-7)
    assert ((curve.lower <= curve.observed) & (curve.observed <= curve.upper))[shown].all()


def reflected(t, p, s):
    """Return the Gaussian kernel of p at t, reflected at 0 and 1."""
    return sum(np.exp(-0.5 * ((t[:, None] - each) / s) ** 2) for each in (p, -p, 2.0 - p))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_automatic_bandwidth_is_chosen_by_cross_validation(weighted):
    rng = np.random.default_rng(3)
    p = np.round(rng.uniform(0.02, 0.98, 700) * 1024 - 0.5) / 1024 + 0.5 / 1024
    y = (rng.uniform(size=700) < np.clip(p + 0.12 * np.sin(8 * np.pi * p), 0, 1)).astype(int)
    w = rng.integers(1, 3, size=700) if weighted else np.ones(700, dtype=int)
    curve = smooth_curve(check_binary(y, p, w if weighted else None), "auto", 0.95)
    y, p = np.repeat(y, w), np.repeat(p, w)
    rule = 1.06 * p.std() * len(p) ** -0.2
    own = smooth_ece_result(y, p).bandwidth
    assert own < rule
    widths = np.geomspace(rule, own, 8)
    losses = []
    for s in widths:
        kernel = reflected(p, p, s)
        np.fill_diagonal(kernel, 0.0)
        losses.append((y - kernel @ y / kernel.sum(axis=1)) ** 2)
    best = losses[int(np.argmin([loss.mean() for loss in losses]))]
    near = [(loss - best).mean() <= (loss - best).std() / np.sqrt(len(y)) for loss in losses]
    assert curve.bandwidth == pytest.approx(widths[near.index(True)])
    assert near.index(True) > 0
    # residuals are smoothed
    kernel = reflected(curve.predicted, p, curve.bandwidth)
    expected = np.clip(curve.predicted + kernel @ (y - p) / kernel.sum(axis=1), 0.0, 1.0)
    shown = np.isfinite(curve.observed)
    np.testing.assert_allclose(curve.observed[shown], expected[shown], atol=2e-3)


def test_a_calibrated_curve_stays_near_the_diagonal_up_to_its_ends():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=3000)
    curve = smooth_curve(check_binary((rng.uniform(size=3000) < p).astype(int), p), "auto", 0.95)
    np.testing.assert_allclose(curve.observed[[0, -1]], [0, 1], atol=0.02)
    assert np.nanmax(np.abs(curve.observed - curve.predicted)) < 0.07


def test_the_bandwidth_of_a_bad_model_does_not_hide_what_is_wrong():
    """Predictions that never leave [.35, .65] though the outcome is certain: the curve must be steep."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.35, 0.65, 1000)
    sample = check_binary((p > 0.5).astype(int), p)
    auto, wide = (smooth_curve(sample, bandwidth, 0.95) for bandwidth in ("auto", "smooth_ece"))
    at = [0.4, 0.6]
    np.testing.assert_allclose(np.interp(at, auto.predicted, auto.observed), [0, 1], atol=0.02)
    low, high = np.interp(at, wide.predicted, wide.observed)
    assert low > 0.2
    assert high < 0.8


def test_the_curve_ends_with_the_predictions():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.3, 0.6, 500)
    curve = smooth_curve(check_binary((rng.random(500) < p).astype(int), p), 0.2, 0.95)
    drawn = curve.predicted[np.isfinite(curve.observed)]
    assert 0.27 < drawn.min() < 0.31
    assert 0.59 < drawn.max() < 0.63


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


@pytest.mark.thorough
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
            limits = clopper_pearson(np.array(mean[1] * size), np.array(size), 0.1)
            rows.append([*mean, *limits])
    found = np.column_stack([curve.predicted, curve.observed, curve.lower, curve.upper])
    np.testing.assert_allclose(found, np.array(rows, dtype=float), rtol=1e-9)
    assert curve.error == pytest.approx(
        expected_calibration_error(sample.y, sample.p, sample_weight=sample.w, n_bins=n_bins)
    )


def test_quantile_bins_share_the_mass():
    p = np.array([0.1, 0.1, 0.2, 0.3, 0.6, 0.7, 0.9, 1.0])
    curve = binned_curve(check_binary([0, 0, 1, 0, 1, 1, 0, 1], p), 2, "quantile", 0.95)
    np.testing.assert_allclose(curve.predicted, [0.175, 0.8])
    np.testing.assert_allclose(curve.observed, [0.25, 0.75])


@pytest.mark.parametrize("weighted", [False, True])
def test_density_is_a_histogram_of_the_predictions(weighted):
    sample = sample_of(weights=(lambda rng, n: rng.exponential(size=n)) if weighted else None)
    for curve in (smooth_curve(sample, "auto", 0.95), binned_curve(sample, 4, "uniform", 0.95)):
        # the predictions are multiples of 0.01, so the edges 0.00, 0.02, ... are safe from rounding
        expected = np.histogram(sample.p + 1e-9, curve.edges + 2e-9 * (curve.edges == 1), weights=sample.w)[0]
        np.testing.assert_allclose(curve.density / 50, expected / sample.total, rtol=1e-9)
        assert float(curve.density @ np.diff(curve.edges)) == pytest.approx(1.0)


def test_a_curve_prints_its_number():
    curve = smooth_curve(sample_of(), "auto", 0.95)
    assert str(curve) == f"smooth reliability curve: smECE = {curve.error:.4f} (n = 300)"
