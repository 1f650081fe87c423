"""Smoothed errors of many samples at once, against sums, quadrature and the search for one sample."""

import numpy as np
import pytest

from sklearn_calib._core._smoothing import CosineProjection, smoothed_errors
from sklearn_calib.metrics import smooth_ece
from sklearn_calib.metrics._smooth import _fixed_points
from tests._references import folded_gaussian_sum


def residuals(n, r, seed=0, power=1.0):
    """Return sorted predictions and the mean residuals of r samples of outcomes."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.random(n))
    return x, ((rng.random((n, r)) < x[:, None] ** power) - x[:, None]) / n


def error_by_quadrature(x, mass, s, nodes=20_001):
    t = np.linspace(0, 1, nodes)
    values = np.abs(folded_gaussian_sum(t, x, mass, s))
    return float((values[1:] + values[:-1]).sum() / 2 / (nodes - 1))


def test_errors_are_the_integrals():
    x, mass = residuals(20, 6)
    s = np.array([0.02, 0.03, 0.1, 0.5, 0.04, 1.0])
    errors = smoothed_errors(CosineProjection(x)(mass, 0.02), s)
    expected = [error_by_quadrature(x, mass[:, j], s[j]) for j in range(6)]
    np.testing.assert_allclose(errors, expected, atol=1e-6)


@pytest.mark.parametrize("power", [1.0, 3.0])
def test_fixed_points_solve_the_definition(power):
    x, mass = residuals(30, 40, power=power)
    found = _fixed_points(CosineProjection(x), mass, 1.0)
    for j in range(0, 40, 8):
        # the error falls as the scale rises, so that it crosses the scale once
        below, above = found[j] - 2e-6, found[j] + 2e-6
        assert error_by_quadrature(x, mass[:, j], below, 4001) > below
        assert error_by_quadrature(x, mass[:, j], above, 4001) < above


def test_fixed_points_on_a_longer_axis():
    x, mass = residuals(50, 20)
    found = _fixed_points(CosineProjection(x), mass, 12.0)
    errors = smoothed_errors(CosineProjection(x)(mass, found.min() / 12), found / 12)
    np.testing.assert_allclose(errors, found, atol=1e-6)


def test_fixed_points_of_every_size_at_once():
    """Samples whose bandwidths differ by orders of magnitude, and some that have none."""
    x = np.linspace(0, 1, 400)
    sign = np.where(np.arange(400) % 2, 1.0, -1.0)
    one_sign = [np.zeros(400), np.full(400, -1e-3), x / 400]
    mass = np.stack([*one_sign, 1e-9 * sign, 1e-6 * sign, 1e-3 * sign], axis=1)
    twice = _fixed_points(CosineProjection(x), np.repeat(mass, 4, axis=1), 1.0).reshape(6, 4)
    assert np.ptp(twice, axis=1).max() < 1e-6
    found = twice[:, 0]
    assert found[0] == 0
    assert found[1] == pytest.approx(0.4)
    assert found[2] == pytest.approx(x.mean())
    # alternating masses cancel where the scale is above their distance; finer ones than 2**-14 are not tried
    assert found[3] < 1e-6
    assert found[4] == pytest.approx(error_by_quadrature(x, mass[:, 4], max(found[4], 2.0**-14)), abs=1e-6)
    assert found[5] == pytest.approx(error_by_quadrature(x, mass[:, 5], found[5]), abs=1e-6)
    assert found[4] < 1e-3 < found[5]


def test_few_fine_samples_among_coarse_ones():
    """What needs a finer scale than most of the others is looked at again."""
    x, coarse = residuals(800, 6, power=3.0)
    fine = np.where(np.arange(800) % 2, 1.0, -1.0)[:, np.newaxis] * np.array([2e-4, 4e-4])
    mass = np.hstack([coarse, fine])
    project = CosineProjection(x)
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
    evaluate = smooth_ece.metric_kernel.make(p, 3000.0)
    for event in (rng.random(3000) < p, p > np.median(p)):
        y = event.astype(float)
        found = evaluate(np.ones((3000, 1)), y[:, np.newaxis])[0]
        assert found == pytest.approx(smooth_ece(y, p), abs=1e-7)
