"""Kernel smoothing as a calibrator against double loops, and the guarantee of its randomized form."""

import numpy as np
import pytest
from scipy.special import expit, logit

from sklearn_calib.calibrators import SmoothedCalibrator
from sklearn_calib.metrics import smooth_ece


def kernel(t, p, s, scale="probability"):
    """Density at t of p + s N folded into [0, 1], by its images; at logit(t) of logit(p) + s N."""
    images = [2 * k + sign * p for k in range(-4, 5) for sign in (1, -1)]
    if scale == "logit":
        t, images = logit(t), [logit(p)]
    return sum(np.exp(-0.5 * ((t - image) / s) ** 2) for image in images) / (s * np.sqrt(2 * np.pi))


SCALES = pytest.mark.parametrize("scale", ["probability", "logit"])


def sample(n=120, seed=0):
    rng = np.random.default_rng(seed)
    p = np.clip(np.round(rng.random(n), 2), 0.002, 0.998)
    return p, (rng.random(n) < p**2).astype(int), rng.integers(1, 4, n)


@SCALES
@pytest.mark.parametrize("bandwidth", ["auto", 0.03, 0.5])
def test_agrees_with_a_double_loop(bandwidth, scale):
    p, y, w = sample()
    calibrator = SmoothedCalibrator(bandwidth=bandwidth, scale=scale).fit(p, y, w)
    s, error = calibrator.bandwidth_, smooth_ece(y, p, sample_weight=w, scale=scale)
    assert s == pytest.approx(error if bandwidth == "auto" else bandwidth)
    # with narrow kernels at the scores only: elsewhere a few tails decide
    grid = np.unique(p) if (bandwidth, scale) == (0.03, "logit") else np.linspace(0.002, 0.998, 41)
    expected = []
    for t in grid:
        mass = [w[i] * kernel(t, p[i], s, scale) for i in range(120)]
        expected.append(sum(m * y[i] for i, m in enumerate(mass)) / sum(mass))
    np.testing.assert_allclose(calibrator.transform(grid), expected, rtol=0, atol=2e-4)


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_predictions_of_0_and_1_on_the_logit_scale(end):
    calibrator = SmoothedCalibrator(scale="logit").fit([end, end, 0.5, 0.5], [0, 1, 0, 1])
    assert (np.diff(calibrator.grid_) > 0).all()
    np.testing.assert_allclose(calibrator.transform([0.0, 0.5, 1.0]), 0.5, atol=1e-6)


@SCALES
def test_noise_is_reproducible(scale):
    p, y, _ = sample()
    calibrator = SmoothedCalibrator(scale=scale, randomized=True, random_state=3).fit(p, y)
    noise = np.random.default_rng(3).standard_normal(120) * calibrator.bandwidth_
    noisy = np.abs(p + noise)
    noisy = np.where(noisy > 1, 2 - noisy, noisy)
    if scale == "logit":
        noisy = expit(logit(p) + noise)
    plain = SmoothedCalibrator(scale=scale).fit(p, y)
    np.testing.assert_allclose(calibrator.transform(p), plain.transform(noisy), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(calibrator.transform(p), calibrator.predict_proba(p)[:, 1])
    # every call begins with the same noise
    alone = [calibrator.transform(p[i : i + 1])[0] for i in range(5)]
    np.testing.assert_array_equal(alone, [calibrator.transform(np.append(p[i], p))[0] for i in range(5)])
    generator = SmoothedCalibrator(randomized=True, random_state=np.random.default_rng(0)).fit(p, y)
    assert np.abs(generator.transform(p) - generator.transform(p)).max() > 0


def test_far_from_all_scores():
    """Interpolated where the kernel has no mass."""
    calibrator = SmoothedCalibrator(bandwidth=0.01).fit([0.2, 0.2, 0.6, 0.6], [0, 1, 1, 1])
    expected = [0.5, 0.5, 0.75, 1, 1]
    np.testing.assert_allclose(calibrator.transform([0.0, 0.2, 0.4, 0.6, 1.0]), expected, atol=1e-3)
