"""What the reliability diagram shows, against plain references."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import binomtest
from sklearn.isotonic import IsotonicRegression

from sklearn_calib._validation import BinarySample, check_binary
from sklearn_calib.metrics import expected_calibration_error, score_decomposition, smooth_ece_result
from sklearn_calib.plot._bands import clopper_pearson, wilson_interval
from sklearn_calib.plot._curve import reliability_curve
from sklearn_calib.plot._smooth_curve import KernelWindow
from tests._samples import simulated


def _local_size(t, p, w, s):
    sample = BinarySample(np.zeros(p.shape[0], dtype=int), p, w, sampling=w is not None)
    window = KernelWindow(t, p, sample, s, reflect=True)
    return window.local_size(window.x)


def sample_of(n=300, seed=0, weights=None):
    rng = np.random.default_rng(seed)
    p = np.round(rng.beta(0.6, 0.6, n), 2)
    y = (rng.random(n) < p**1.4).astype(int)
    return check_binary(y, p, weights if weights is None else weights(rng, n), weights="sampling")


def folded_gaussian(t, x, s):
    """Density at t of x + s * noise folded into [0, 1], image by image."""
    total = 0.0
    for period in range(-12, 13):
        for image in (2 * period + x, 2 * period - x):
            total += math.exp(-0.5 * ((t - image) / s) ** 2) / (s * math.sqrt(2 * math.pi))
    return total


def plain_local_size(t, p, w, s):
    first = second = mean = variance = 0.0
    for i in range(len(p)):
        k = folded_gaussian(t, p[i], s)
        first += w[i] * k
        second += w[i] ** 2 * k**2
        mean += w[i] * k * p[i]
        variance += w[i] ** 2 * k**2 * p[i] * (1 - p[i])
    mean /= first
    return first**2 / second * min(mean * (1 - mean) * second / variance, 1.0)


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
def test_local_size_against_double_loop(s):
    rng = np.random.default_rng(3)
    p = np.concatenate((rng.random(25), [0.0, 0.0, 1.0, 0.5, 0.5]))
    w = rng.exponential(size=p.shape[0])
    t = np.array([0.0, 0.013, 0.5, 0.77, 1.0])
    expected = [plain_local_size(u, p, w, s) for u in t]
    np.testing.assert_allclose(_local_size(t, p, w, s), expected, rtol=1e-9)
    expected = [plain_local_size(u, p, np.ones_like(p), s) for u in t]
    np.testing.assert_allclose(_local_size(t, p, None, s), expected, rtol=1e-9)


def rare_events(seed, n=8000):
    rng = np.random.default_rng(seed)
    p = expit(-7.5 + 1.8 * rng.standard_normal(n))
    return (rng.random(n) < p).astype(int), p


@pytest.mark.parametrize("shape", ["wide", "rare"])
def test_band_of_the_smooth_curve_against_its_definition(shape):
    """Wilson's interval of the frequency of the window, moved to the curve; of rare events in log-odds."""
    rng = np.random.default_rng(5)
    p = 0.9 * rng.beta(0.3, 2.0, 400)
    y, p = ((rng.random(400) < p).astype(int), p) if shape == "wide" else rare_events(1)
    found = reliability_curve(check_binary(y, p))
    low, high = np.sort(p)[-1 - int(0.0005 * p.size)] * np.array([1e-3, 1.0])
    for j in np.flatnonzero(np.isfinite(found.observed))[::60]:
        t = found.predicted[j]
        if shape == "wide":
            kernel = np.array([folded_gaussian(t, x, found.bandwidth) for x in p])
        else:
            place = np.log(np.clip(p, low, high) / (1 - np.clip(p, low, high)))
            kernel = np.exp(-0.5 * ((math.log(t / (1 - t)) - place) / found.bandwidth) ** 2) * (p <= high)
        total, squares = kernel.sum(), (kernel**2).sum()
        frequency, mean = kernel @ y / total, kernel @ p / total
        size = total**2 / squares
        size *= min(mean * (1 - mean) * squares / (kernel**2 @ (p * (1 - p))), 1.0)
        limits = [float(limit) for limit in wilson_interval(np.array(frequency), np.array(size), 0.95)]
        if shape == "wide":
            shift = min(max(t + frequency - mean, 0.0), 1.0) - frequency
            expected = [min(max(limit + shift, 0.0), 1.0) for limit in limits]
        else:
            ratio = t / (1 - t) * (1 - mean) / mean
            expected = [limit * ratio / (1 - limit + limit * ratio) for limit in limits]
        width = expected[1] - expected[0]
        np.testing.assert_allclose(
            [found.band.lower[j], found.band.upper[j]], expected, atol=0.01 * width, err_msg=f"{t}"
        )


def test_the_curve_of_narrow_predictions_ends_on_the_axis():
    rng = np.random.default_rng(0)
    for p in (rng.uniform(0.28, 0.3, 3000), np.full(50, 0.2)):
        found = reliability_curve(check_binary((rng.random(p.size) < p).astype(int), p))
        assert found.predicted[np.isfinite(found.observed)].max() <= found.edges[-1] + 1e-12


def reflected(t, p, s):
    """Return the Gaussian kernel of p at t, reflected at 0 and 1."""
    return sum(np.exp(-0.5 * ((t[:, None] - each) / s) ** 2) for each in (p, -p, 2.0 - p))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_automatic_bandwidth_is_chosen_by_cross_validation(weighted):
    rng = np.random.default_rng(3)
    p = np.round(rng.uniform(0.02, 0.98, 500) * 1024 - 0.5) / 1024 + 0.5 / 1024
    y = (rng.uniform(size=500) < np.clip(p + 0.15 * np.sin(8 * np.pi * p), 0, 1)).astype(int)
    w = rng.integers(1, 3, size=500) if weighted else np.ones(500, dtype=int)
    curve = reliability_curve(check_binary(y, p, w if weighted else None))
    y, p = np.repeat(y, w), np.repeat(p, w)
    rule = 1.06 * p.std() * (2 * min(y.sum(), (1 - y).sum())) ** -0.2
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
    # the number is smooth ECE at its own bandwidth
    assert curve.error == pytest.approx(smooth_ece_result(y, p).value, abs=1e-6)
    words = "; frequencies" if weighted else ""
    assert str(curve) == f"smooth reliability curve: smECE = {curve.error:.3f} (n = {len(y)}{words})"


@pytest.mark.parametrize("weighted", [False, True])
def test_smooth_curve_on_the_logit_axis_is_a_kernel_regression(weighted):
    rng = np.random.default_rng(0)
    x = rng.normal(-2.0, 1.5, 300)
    y, p = (rng.random(300) < expit(x)).astype(int), expit(x)
    p[:2] = 0.0, 1.0
    w = rng.exponential(size=300) if weighted else np.ones(300)
    w /= w.mean()
    curve = reliability_curve(check_binary(y, p, w if weighted else None, weights="sampling"), scale="logit")
    y, x, w = y[2:], x[2:], w[2:]
    spread = np.sqrt(np.cov(x, ddof=0, aweights=w))
    size = 2 * min(w[y == k].sum() ** 2 / (w[y == k] ** 2).sum() for k in (0, 1))
    assert curve.bandwidth == pytest.approx(1.06 * spread * size**-0.2)
    t = np.log(curve.predicted / (1 - curve.predicted))
    kernel = w * np.exp(-0.5 * ((t[:, None] - x) / curve.bandwidth) ** 2)
    shown = np.isfinite(curve.observed)
    outcome, mean = (kernel @ part / kernel.sum(axis=1) for part in (y, expit(x)))
    expected = expit(logit(outcome) + t - logit(mean))
    np.testing.assert_allclose(curve.observed[shown], expected[shown], atol=2e-3)
    assert curve.counts.sum() == pytest.approx(w.sum())


def test_smooth_curve_is_drawn_only_near_predictions():
    rng = np.random.default_rng(0)
    p = np.concatenate((rng.uniform(0.1, 0.15, 400), rng.uniform(0.85, 0.9, 400), [0.5]))
    curve = reliability_curve(check_binary((rng.random(p.shape[0]) < p).astype(int), p))
    shown = np.isfinite(curve.observed)
    assert shown[(np.abs(curve.predicted - 0.125) < 0.02) | (np.abs(curve.predicted - 0.875) < 0.02)].all()
    # neither at the single prediction of one half
    assert not shown[np.abs(curve.predicted - 0.5) < 0.05].any()
    drawn = curve.predicted[shown]
    assert 0.07 < drawn.min() < drawn.max() < 0.93


@pytest.mark.parametrize("p", [[0.3], [0.3] * 50, [0.0] * 20, [0.0, 1.0]])
def test_a_few_equal_predictions_give_a_curve(p):
    y = np.arange(len(p)) % 2
    curve = reliability_curve(check_binary(y, p, pos_label=1))
    shown = np.isfinite(curve.observed)
    assert shown.any()
    lower, upper = curve.band.lower[shown], curve.band.upper[shown]
    assert ((lower >= 0) & (lower <= curve.observed[shown]) & (curve.observed[shown] <= upper)).all()
    assert (upper <= 1).all()


@pytest.mark.weekly
def test_band_covers_the_smoothed_frequency():
    """Pointwise coverage over repeated samples, where the curve is not limited by 0 or 1."""
    t = np.array([0.1, 0.5, 0.9])
    rng = np.random.default_rng(7)
    hits, repetitions = np.zeros(t.shape[0]), 300
    for _ in range(repetitions):
        p = rng.beta(0.5, 0.5, 400)
        truth = p**1.3
        y = (rng.random(400) < truth).astype(int)
        curve = reliability_curve(check_binary(y, p))
        kernel = reflected(t, p, curve.bandwidth)
        target = np.clip(t + kernel @ (truth - p) / kernel.sum(axis=1), 0.0, 1.0)
        lower, upper = (
            np.interp(t, curve.predicted, limit) for limit in (curve.band.lower, curve.band.upper)
        )
        hits += (lower <= target) & (target <= upper)
    # 0.91 lies three binomial standard deviations below 0.95
    assert (hits / repetitions >= 0.91).all()


@pytest.mark.parametrize("n_bins", [1, 4, 15])
def test_uniform_bins_against_a_loop(n_bins):
    sample = sample_of(weights=lambda rng, n: rng.exponential(size=n))
    curve = reliability_curve(sample, "binned", n_bins, confidence=0.8)
    rows = []
    for j in range(n_bins):
        member = (sample.p >= j / n_bins) & ((sample.p < (j + 1) / n_bins) | (j == n_bins - 1))
        w = sample.w[member]
        if w.size:
            mean = [float((w * v[member]).sum() / w.sum()) for v in (sample.p, sample.y)]
            size = w.sum() ** 2 / (w**2).sum()
            limits = clopper_pearson(np.array(mean[1] * size), np.array(size), 0.1)
            rows.append([*mean, *limits])
    found = np.column_stack([curve.predicted, curve.observed, curve.band.lower, curve.band.upper])
    np.testing.assert_allclose(found, np.array(rows, dtype=float), rtol=1e-9)
    assert curve.error == pytest.approx(
        expected_calibration_error(sample.y, sample.p, sample_weight=sample.w, n_bins=n_bins)
    )


@pytest.mark.parametrize("scale", ["probability", "logit"])
@pytest.mark.parametrize("options", [{"strategy": "uniform"}, {"strategy": "quantile"}, {"n_bins": "edges"}])
def test_bins_are_those_of_the_binned_error(options, scale):
    # the axes end at the largest prediction, where "auto" has bins of its own
    sample = sample_of(weights=lambda rng, n: rng.exponential(size=n))
    sample = replace(sample, p=0.2 * sample.p)
    edges = [0, 0.01, 0.05, np.median(sample.p), 0.2, 1]
    options = {"n_bins": edges} if "n_bins" in options else {"n_bins": 5, **options}
    curve = reliability_curve(sample, "binned", **options, scale=scale)
    expected = expected_calibration_error(sample.y, sample.p, sample_weight=sample.w, **options)
    assert curve.error == pytest.approx(expected, abs=1e-12)


def test_bins_on_logit_axes_share_the_mass():
    p = np.array([0.1, 0.1, 0.2, 0.3, 0.6, 0.7, 0.9, 1.0])
    sample = check_binary([0, 0, 1, 0, 1, 1, 0, 1], p)
    curve = reliability_curve(sample, "binned", 2, scale="logit")
    np.testing.assert_allclose(curve.predicted, [0.175, 0.8])
    np.testing.assert_allclose(curve.observed, [0.25, 0.75])
    expected = expected_calibration_error(sample.y, p, n_bins=2, strategy="quantile")
    assert curve.error == pytest.approx(expected, abs=1e-15)


def test_rare_events_are_smoothed_in_log_odds_up_to_a_thousandth_of_the_axis():
    rng = np.random.default_rng(0)
    p = expit(rng.normal(-6.0, 1.5, 4000))
    y = (rng.random(4000) < expit(0.8 * np.log(p / (1 - p)) - 0.5)).astype(int)
    p[:500], y[:500] = 0.0, 0
    curve = reliability_curve(check_binary(y, p))
    low, high = curve.edges[[0, -1]]
    assert low == 0.0
    assert high < 0.5
    y, p = y[p <= high], p[p <= high]
    least = np.log(1e-3 * high / (1 - 1e-3 * high))
    x = np.log(np.maximum(p, 1e-3 * high) / (1 - np.maximum(p, 1e-3 * high)))
    assert x.min() == pytest.approx(least)
    assert curve.bandwidth == pytest.approx(1.06 * x.std() * (2 * y.sum()) ** -0.2)
    t = curve.predicted
    kernel = np.exp(-0.5 * ((np.log(t / (1 - t))[:, None] - x) / curve.bandwidth) ** 2)
    outcome, mean = (kernel @ part / kernel.sum(axis=1) for part in (y, p))
    expected = expit(logit(outcome) + logit(t) - np.maximum(logit(mean), least))
    shown = np.isfinite(curve.observed)
    np.testing.assert_allclose(curve.observed[shown], expected[shown], atol=2e-2 * high)
    # one event of a sparse tail does not make a peak
    turns = np.diff(np.sign(np.diff(curve.observed[shown])))
    assert np.count_nonzero(turns) <= 4
    # the mirror image
    mirrored = reliability_curve(check_binary(1 - y, 1 - p))
    plain = reliability_curve(check_binary(y, p))
    np.testing.assert_allclose(mirrored.observed[::-1], 1 - plain.observed, atol=1e-9)


def test_balanced_predictions_are_smoothed_as_probabilities():
    y, p = simulated(500, "uniform", 0.0, 0.3)
    gaps = np.diff(reliability_curve(check_binary(y, p)).predicted)
    np.testing.assert_allclose(gaps, gaps[0])


def test_bins_of_rare_events_share_the_expected_events():
    rng = np.random.default_rng(0)
    p = expit(rng.normal(-6.0, 1.5, 20_000))
    y = (rng.random(20_000) < p).astype(int)
    for mirrored in (False, True):
        sample = check_binary(1 - y, 1 - p) if mirrored else check_binary(y, p)
        curve = reliability_curve(sample, "binned", 10)
        predicted = 1 - curve.predicted[::-1] if mirrored else curve.predicted
        # means of tenths of the cumulative sum of the predictions
        ordered = np.sort(p)
        tenth = np.minimum(10 * (np.cumsum(ordered) - ordered / 2) / p.sum(), 9.999).astype(int)
        np.testing.assert_allclose(predicted, [ordered[tenth == k].mean() for k in range(10)], rtol=1e-6)


def test_isotonic_curve_is_the_isotonic_fit():
    sample = sample_of()
    curve = reliability_curve(sample, "isotonic", band=None)
    expected = IsotonicRegression(y_min=0, y_max=1).fit(sample.p, sample.y)
    np.testing.assert_allclose(curve.observed, expected.predict(curve.predicted), atol=1e-12)
    parts = score_decomposition(sample.y, sample.p)
    assert curve.error == parts.miscalibration
    assert curve.label == (
        f"MCB = {parts.miscalibration:.4f}, DSC = {parts.discrimination:.4f}, UNC = {parts.uncertainty:.4f}"
    )
    assert curve.band is None


def test_logit_curves_end_where_no_event_is_expected():
    rng = np.random.default_rng(0)
    h = rng.uniform(-14.0, -4.0, 4000)
    p = expit(h)
    curve = reliability_curve(check_binary(rng.random(4000) < p, p), scale="logit")
    t = np.log(curve.predicted / (1.0 - curve.predicted))
    kernel = np.exp(-0.5 * ((t[:, np.newaxis] - np.clip(h, -13.8, 13.8)) / curve.bandwidth) ** 2)
    expected, drawn = kernel @ p, np.isfinite(curve.observed)
    assert drawn.any()
    assert expected[drawn].min() >= 0.49
    assert expected[~drawn].max() <= 0.51


def test_the_band_on_logit_axes_ends_with_the_curve():
    y, p = rare_events(2)
    found = reliability_curve(check_binary(y, p), scale="logit")
    np.testing.assert_array_equal(np.isnan(found.band.lower), np.isnan(found.observed))
    assert np.isnan(found.observed).any()
