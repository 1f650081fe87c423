"""Temperature scaling against a dense grid, and what it promises."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax

from sklearn_calib.calibrators import TemperatureCalibrator


def loss(z, y, w, beta):
    return -float(np.sum(w * log_softmax(beta * z, axis=1)[np.arange(y.shape[0]), y]))


def best_on_a_grid(z, y, w):
    """Inverse temperature by a dense grid of logarithms and then a bounded search around its best point."""
    grid = np.linspace(-6, 6, 121)
    best = grid[np.argmin([loss(z, y, w, np.exp(b)) for b in grid])]
    near, options = (best - 0.1, best + 0.1), {"xatol": 1e-10}
    return np.exp(minimize_scalar(lambda b: loss(z, y, w, np.exp(b)), bounds=near, options=options).x)


def overconfident(n, k, factor, rng):
    """Logits whose labels were drawn at the logits divided by the factor."""
    z = rng.normal(size=(n, k)) * 2
    y = (softmax(z / factor, axis=1).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    y[:k] = np.arange(k)
    return z, y


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("factor", [0.4, 1.0, 3.0])
def test_minimizes_the_log_loss(k, factor):
    rng = np.random.default_rng(k)
    z, y = overconfident(400, k, factor, rng)
    w = rng.random(400) + 0.1
    expected = best_on_a_grid(z, y, w)
    from_logits = TemperatureCalibrator(link="identity").fit(z, y, w)
    assert 1 / from_logits.temperature_ == pytest.approx(expected, rel=1e-7)
    proba = softmax(z, axis=1)
    from_proba = TemperatureCalibrator().fit(proba, y, w)
    assert from_proba.temperature_ == pytest.approx(from_logits.temperature_, rel=1e-10)
    found = from_proba.predict_proba(proba)
    np.testing.assert_allclose(found, softmax(z * expected, axis=1), rtol=0, atol=1e-7)


def test_two_columns_one_column_and_flat_are_one_problem():
    z, y = overconfident(300, 2, 2.0, np.random.default_rng(0))
    p = softmax(z, axis=1)
    expected = TemperatureCalibrator(link="identity").fit(z, y).predict_proba(z)
    for link, X in (("identity", z[:, 1] - z[:, 0]), ("logit", p), ("logit", p[:, 1])):
        result = TemperatureCalibrator(link=link).fit(X, y).predict_proba(X)
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("k", [2, 3])
def test_separated_classes_reach_the_end_of_the_range(k):
    """No finite temperature is best: the smallest of the range, and saturated probabilities."""
    p, y = np.full((3 * k, k), 0.3 / (k - 1)), np.tile(np.arange(k), 3)
    p[np.arange(3 * k), y] = 0.7
    calibrator = TemperatureCalibrator().fit(p, y)
    assert 0 < calibrator.temperature_ < 1e-3
    np.testing.assert_allclose(calibrator.predict_proba(p)[np.arange(3 * k), y], 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize("k", [2, 3])
def test_scores_worse_than_none_become_uniform(k):
    p, y = np.full((3 * k, k), 0.3 / (k - 1)), np.tile(np.arange(k), 3)
    p[np.arange(3 * k), (y + 1) % k] = 0.7
    calibrator = TemperatureCalibrator().fit(p, y)
    assert calibrator.temperature_ > 1e3
    np.testing.assert_allclose(calibrator.predict_proba(p), 1 / k, rtol=0, atol=1e-3)
    np.testing.assert_array_equal(calibrator.predict(p), p.argmax(axis=1))


@pytest.mark.parametrize("factor", [1e-90, 1e-8, 1.0, 1e8, 1e90])
def test_scale_of_the_logits_is_found(factor):
    z, y = overconfident(300, 3, 1.5, np.random.default_rng(5))
    unit = TemperatureCalibrator(link="identity").fit(z, y)
    scaled = TemperatureCalibrator(link="identity").fit(z * factor, y)
    assert scaled.temperature_ / factor == pytest.approx(unit.temperature_, rel=1e-9)
    margin = TemperatureCalibrator(link="identity").fit(factor * (z[:, 1] - z[:, 0]), np.minimum(y, 1))
    reference = TemperatureCalibrator(link="identity").fit(z[:, 1] - z[:, 0], np.minimum(y, 1))
    assert margin.temperature_ / factor == pytest.approx(reference.temperature_, rel=1e-9)


def test_certificate_only_for_two_classes():
    z, y = overconfident(500, 3, 2.0, np.random.default_rng(7))
    binary = TemperatureCalibrator(link="identity").fit(z[:, :2], (y > 0).astype(int))
    assert hasattr(binary, "training_cutoff_error_")
    several = binary.fit(z, y)
    assert not hasattr(several, "training_cutoff_error_")
    with pytest.raises(ValueError, match="A certificate needs a binary problem, but y had 3 classes"):
        several.cutoff_certificate()


def test_many_scores_with_remote_ones_are_fitted_to_the_end():
    # neighbors are pooled first, and three remote scores make that a bad start
    rng = np.random.default_rng(0)
    z = np.concatenate([0.01 * rng.normal(size=20_000), np.full(3, 600.0)])
    y = (rng.random(z.size) < expit(z)).astype(int)
    beta = 1.0 / TemperatureCalibrator(link="identity").fit(z, y).temperature_
    parts = z * (expit(beta * z) - y)
    assert abs(parts.sum()) < 1e-6 * np.abs(parts).sum()
