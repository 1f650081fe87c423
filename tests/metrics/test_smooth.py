"""Smooth ECE against quadrature, the theory and the figures of the paper; one sample and many at once."""

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import norm

from sklearn_calib import metrics
from sklearn_calib._core._smoothing import CosineProjection, smoothed_errors
from sklearn_calib.metrics._smooth import _fixed_points
from tests._data import outside_data
from tests._references import absolute_integral, folded_gaussian_sum, smooth_ece_at
from tests._samples import simulated


def sample(seed=0, n=30):
    """Random rows, ties, mass at both ends, neighbors far closer than any cell, and weights."""
    rng = np.random.default_rng(seed)
    p = np.concatenate([rng.random(n), [0.0, 0.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.3, 0.3 + 1e-7]])
    return (rng.random(p.shape[0]) < 0.4).astype(int), p, rng.integers(1, 4, p.shape[0]).astype(float)


@pytest.mark.parametrize("s", [1e-3, 5e-3, 0.03, 0.2, 1.0])
def test_fixed_bandwidth_is_the_definition(s):
    y, p, w = sample()
    expected = smooth_ece_at(y, p, w, s)
    assert metrics.smooth_ece(y, p, sample_weight=w, bandwidth=s) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_automatic_bandwidth_is_the_fixed_point(seed):
    y, p, w = sample(seed)
    result = metrics.smooth_ece_result(y, p, sample_weight=w)
    assert result.value == result.bandwidth == metrics.smooth_ece(y, p, sample_weight=w)
    assert smooth_ece_at(y, p, w, result.value) == pytest.approx(result.value, abs=1e-6)
    signed = [smooth_ece_at(y, p, w, result.value, part) for part in (np.maximum, np.minimum)]
    assert (result.underprediction, result.overprediction) == pytest.approx(signed, abs=1e-6)


def test_perfect_groups_have_no_error_at_any_scale():
    y, p = [0, 1, 1, 1, 1, 0], [0.5, 0.5, 0.75, 0.75, 0.75, 0.75]
    assert metrics.smooth_ece(y, p) == pytest.approx(0, abs=1e-12)
    result = metrics.smooth_ece_result(y, p)
    assert result.value < 1e-12
    assert result.bandwidth == pytest.approx(2**-14)


@pytest.mark.parametrize("scale", ["probability", "logit"])
def test_curve_and_density(scale):
    y, p = simulated(150, "beta", 2, 3, seed=2, truth=1.4)
    result = metrics.smooth_ece_result(y, p, scale=scale)
    assert result.scale == scale
    assert (np.diff(result.grid) > 0).all()
    axis = result.grid if scale == "probability" else np.log(result.grid / (1 - result.grid))
    assert trapezoid(result.density, axis) == pytest.approx(1, abs=1e-3)
    known = ~np.isnan(result.curve)
    assert ((result.curve[known] >= 0) & (result.curve[known] <= 1)).all()
    # direct kernel regression at a few points
    x = p if scale == "probability" else np.log(p / (1 - p))
    for j in np.flatnonzero(known)[:: max(1, known.sum() // 7)]:
        if result.density[j] < 1e-6:
            continue
        point = axis[j : j + 1]
        if scale == "probability":
            top = folded_gaussian_sum(point, x, y.astype(float), result.bandwidth)[0]
            bottom = folded_gaussian_sum(point, x, np.ones(150), result.bandwidth)[0]
        else:
            kernel = norm.pdf(point[0], x, result.bandwidth)
            top, bottom = kernel @ y, kernel.sum()
        assert result.curve[j] == pytest.approx(top / bottom, abs=1e-5)
        assert result.density[j] == pytest.approx(bottom / 150, abs=1e-5)


@pytest.mark.parametrize("s", [pytest.param(1e-3, marks=pytest.mark.thorough), 0.02, 1.0])
def test_area_below_the_curve_is_its_definition(s):
    # eq. 7 by quadrature, and Lemma 10
    random, p, w = sample(2)
    t = np.linspace(0, 1, 5_001 if s > 0.01 else 50_001)
    # without events near 0, or non-events near 1, the curve touches the diagonal at the ends
    for y in (random, (p > 0.5).astype(int)):
        events, mass = (folded_gaussian_sum(t, p, part, s) for part in (w * y, w))
        result = metrics.smooth_ece_result(y, p, sample_weight=w, bandwidth=s)
        expected = trapezoid(np.abs(events - t * mass), t) / w.sum()
        assert result.curve_error == pytest.approx(expected, abs=1e-6)
        assert abs(result.curve_error - result.value) <= np.sqrt(2 / np.pi) * s


@pytest.mark.parametrize("s", [0.01, 0.3, 3.0, 300.0])
def test_area_below_the_curve_on_the_logit_scale(s):
    y, p, w = sample(4)
    result = metrics.smooth_ece_result(y, p, sample_weight=w, bandwidth=s, scale="logit")
    expected = metrics.logit_smoothed_ece(y, p, sample_weight=w, bandwidth=s)
    assert result.curve_error == pytest.approx(expected, abs=1e-9)
    assert abs(result.curve_error - result.value) <= np.sqrt(2 / np.pi) * s / 4


def test_logit_scale_is_the_definition():
    y, p, w = sample(4)
    p = np.clip(p, 1e-4, 1 - 1e-4)
    h = np.log(p / (1 - p))
    for s in (0.05, 0.3, 2.0):
        t = np.linspace(h.min() - 9 * s, h.max() + 9 * s, 40001)
        g = sum(m * norm.pdf(t, c, s) for m, c in zip(w * (y - p) / w.sum(), h, strict=True))
        expected = absolute_integral(g, t[1] - t[0])
        found = metrics.smooth_ece(y, p, sample_weight=w, bandwidth=s, scale="logit")
        assert found == pytest.approx(expected, abs=1e-6)
    # whatever the guess, the automatic bandwidth is the fixed point
    for residuals in (1.0, 0.02):
        y = p + residuals * (y - p)
        value = metrics.smooth_ece(y, p, sample_weight=w, scale="logit")
        again = metrics.smooth_ece(y, p, sample_weight=w, bandwidth=value, scale="logit")
        assert again == pytest.approx(value, abs=1e-7)


def test_density_is_not_negative_by_rounding():
    for p in (0.1, 0.5, 0.93):
        result = metrics.smooth_ece_result([0, 1, 1], [p, p + 1e-3, p + 2e-3], bandwidth=0.01)
        assert (result.density >= 0).all()
        # far from all predictions there is no curve
        assert np.isnan(result.curve[np.abs(result.grid - p) > 0.2]).all()


@pytest.mark.parametrize("scale", ["probability", "logit"])
def test_a_guess_from_some_rows_changes_nothing(scale):
    y, p = simulated(100_000, "beta", 0.7, 0.9, seed=2, truth=1.2)
    expected = metrics.smooth_ece(y, p, scale=scale)
    # even where these rows mislead: sorted, with an error that is not the same everywhere
    order = np.argsort(p)
    assert metrics.smooth_ece(y[order], p[order], scale=scale) == pytest.approx(expected, abs=1e-6)
    assert metrics.smooth_ece(y, p, bandwidth=expected, scale=scale) == pytest.approx(expected, abs=1e-6)
    sure = np.append(np.repeat([0.0, 1.0], 50_000), 0.5)
    assert metrics.smooth_ece(np.repeat([0, 1], [50_000, 50_001]), sure) == pytest.approx(0.0, abs=1e-5)


def test_a_wide_kernel_sees_the_mean_residual_only():
    y, p, _ = sample()
    assert metrics.smooth_ece(y, p, bandwidth=1e300) == pytest.approx(abs(np.mean(y - p)))


def residuals(n, r, seed=0, power=1.0):
    """Return sorted predictions and the mean residuals of r samples of outcomes."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.random(n))
    return x, ((rng.random((n, r)) < x[:, None] ** power) - x[:, None]) / n


def error_by_quadrature(x, mass, s, nodes=20_001):
    values = np.abs(folded_gaussian_sum(np.linspace(0, 1, nodes), x, mass, s))
    return float((values[1:] + values[:-1]).sum() / 2 / (nodes - 1))


def test_fixed_points_on_a_longer_axis():
    x, mass = residuals(50, 20)
    found = _fixed_points(CosineProjection(x), mass, 12.0)
    errors = smoothed_errors(CosineProjection(x)(mass, found.min() / 12), found / 12)
    np.testing.assert_allclose(errors, found, atol=1e-6)


def test_fixed_points_of_every_size_at_once():
    """Samples whose bandwidths differ by orders of magnitude, and some that have none."""
    x, sign = np.linspace(0, 1, 400), np.where(np.arange(400) % 2, 1.0, -1.0)
    one_sign = [np.zeros(400), np.full(400, -1e-3), x / 400]
    mass = np.stack([*one_sign, 1e-9 * sign, 1e-6 * sign, 1e-3 * sign], axis=1)
    twice = _fixed_points(CosineProjection(x), np.repeat(mass, 4, axis=1), 1.0).reshape(6, 4)
    assert np.ptp(twice, axis=1).max() < 1e-6
    found = twice[:, 0]
    assert (found[0], found[1], found[2]) == (0, pytest.approx(0.4), pytest.approx(x.mean()))
    # alternating masses cancel where the scale is above their distance; finer ones than 2**-14 are not tried
    assert found[3] < 1e-6
    assert found[4] == pytest.approx(error_by_quadrature(x, mass[:, 4], max(found[4], 2.0**-14)), abs=1e-6)
    assert found[5] == pytest.approx(error_by_quadrature(x, mass[:, 5], found[5]), abs=1e-6)
    assert found[4] < 1e-3 < found[5]


def test_few_fine_samples_among_coarse_ones():
    x, coarse = residuals(800, 6, power=3.0)
    fine = np.where(np.arange(800) % 2, 1.0, -1.0)[:, np.newaxis] * np.array([2e-4, 4e-4])
    mass, project = np.hstack([coarse, fine]), CosineProjection(x)
    found = _fixed_points(project, mass, 1.0)
    for j in (0, 6, 7):
        assert found[j] == pytest.approx(_fixed_points(project, mass[:, [j]], 1.0)[0], abs=1e-6)
    assert found[6] < found[7] < 0.2 * found[:6].min()
    errors = smoothed_errors(project(mass[:, 6:], found[6]), found[6:])
    np.testing.assert_allclose(errors, found[6:], atol=1e-6)


@pytest.mark.parametrize("place", [lambda p: p, lambda p: 1 - p], ids=["0", "1"])
def test_predictions_on_a_part_of_the_axis(place):
    """Only the part around the predictions is smoothed if the errors are small: the value is the same."""
    rng = np.random.default_rng(0)
    p = np.sort(place(0.4 * rng.random(3000) ** 25))
    evaluate = metrics.smooth_ece.metric_kernel.make(p, 3000.0)
    for event in (rng.random(3000) < p, p > np.median(p)):
        y = event.astype(float)
        found = evaluate(np.ones((3000, 1)), y[:, np.newaxis])[0]
        assert found == pytest.approx(metrics.smooth_ece(y, p), abs=1e-7)


def test_resnet34_on_imagenet():
    # Figure 2(a): both errors .078
    data = np.load(outside_data("imagenet_confidences", "timm_resnet34.npz"))
    correct, confidence = data["correct"], data["conf"]
    assert metrics.expected_calibration_error(correct, confidence) == pytest.approx(0.0780, abs=5e-5)
    assert metrics.smooth_ece(correct, confidence) == pytest.approx(0.0779, abs=5e-5)
