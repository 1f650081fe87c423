"""Platt scaling against a general optimizer and in hard cases, and its modification with a tolerance."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

from sklearn_calib.calibrators import ModifiedPlattCalibrator, PlattCalibrator
from sklearn_calib.metrics import cutoff_result
from tests._samples import simulated


def objective(theta, s, y, w):
    """Log loss of sigmoid(a s + b) against Platt's smoothed targets, from the definition; its gradient."""
    positive, negative = w[y == 1].sum(), w[y == 0].sum()
    target = np.where(y == 1, (positive + 1) / (positive + 2), 1 / (negative + 2))
    z = theta[0] * s + theta[1]
    residual = w * (expit(z) - target)
    loss = np.sum(w * (target * np.logaddexp(0, -z) + (1 - target) * np.logaddexp(0, z)))
    return float(loss), np.array([np.sum(residual * s), np.sum(residual)])


def scenario(name, n, rng):
    s = rng.normal(size=n) * 2
    y = (rng.random(n) < expit(s - 0.5)).astype(int)
    if name == "separable":
        y = (s > 0.3).astype(int)
    elif name == "reversed":
        s = -s
    elif name == "heavy tails":
        s = rng.standard_cauchy(n) + y
    elif name == "ties":
        s = np.round(s)
    elif name == "probabilities":
        s = expit(s)
    elif name == "rare":
        y = (rng.random(n) < 0.03).astype(int)
    y[:2] = [0, 1]
    return s, y


SCENARIOS = ["plain", "separable", "reversed", "heavy tails", "ties", "rare"]


@pytest.mark.parametrize("name", [*SCENARIOS, "probabilities"])
@pytest.mark.parametrize("n", [10, 300, 20_000])
def test_minimizes_the_smoothed_log_loss(name, n):
    """At 20 000 rows the coarse start is in use."""
    rng = np.random.default_rng(n)
    s, y = scenario(name, n, rng)
    w = rng.random(n) * 2
    calibrator = PlattCalibrator(link="identity").fit(s, y, w)
    theta = np.array([calibrator.slope_, calibrator.intercept_])
    loss, gradient = objective(theta, s, y, w)
    assert np.abs(gradient).max() <= 1e-10 * w.sum() * max(1.0, float(np.abs(s).max()))
    if n < 1000:
        reference = minimize(objective, np.zeros(2), (s, y, w), jac=True, options={"gtol": 1e-9})
        assert loss <= reference.fun * (1 + 1e-12)
        np.testing.assert_allclose(theta, reference.x, rtol=2e-5, atol=2e-5)


def test_logit_link_reads_log_odds():
    rng = np.random.default_rng(2)
    p = np.concatenate([rng.random(400), np.repeat([0.0, 1.0], 20)])
    y = (rng.random(440) < p).astype(int)
    from_probabilities = PlattCalibrator().fit(p, y)
    least = from_probabilities.min_proba_
    odds = logit(np.clip(p, least, 1 - least))
    from_odds = PlattCalibrator(link="identity").fit(odds, y)
    np.testing.assert_allclose(from_probabilities.transform(p), from_odds.transform(odds), rtol=0, atol=1e-12)


def test_affine_change_of_the_score_changes_nothing():
    s, y = scenario("plain", 500, np.random.default_rng(3))
    result = PlattCalibrator(link="identity").fit(s, y).transform(s)
    for factor, shift in ((1e-12, 0), (1e6, 3e6), (1e90, 0), (-2.0, 5.0)):
        moved = factor * s + shift
        changed = PlattCalibrator(link="identity").fit(moved, y).transform(moved)
        np.testing.assert_allclose(changed, result, rtol=0, atol=1e-9)


def test_equal_scores_have_no_slope():
    calibrator = PlattCalibrator(link="identity").fit(np.full(10, 3.7), [0] * 7 + [1] * 3)
    assert calibrator.slope_ == 0
    assert calibrator.transform([3.7])[0] == pytest.approx((3 * 4 / 5 + 7 / 9) / 10, abs=1e-15)


def test_reversed_scores_give_a_decreasing_map_with_a_certificate():
    s, y = scenario("reversed", 2000, np.random.default_rng(4))
    calibrator = PlattCalibrator(link="identity").fit(s, y)
    turned = PlattCalibrator(link="identity").fit(-s, y)
    assert calibrator.slope_ < 0
    assert calibrator.training_cutoff_error_ == pytest.approx(turned.training_cutoff_error_, abs=1e-14)
    for method in ("asymptotic", "fitted"):
        certificates = [each.cutoff_certificate(method=method).upper for each in (calibrator, turned)]
        assert certificates[0] == pytest.approx(certificates[1], abs=1e-12)


# Rossellini et al. (2025), Figure 4: the score is uniform on four values, event probabilities 1, 0, 0, 1
SCORES = np.array([0.0, 0.25, 0.5, 1.0])
OUTCOMES = np.array([1, 0, 0, 1])


def rows(count):
    return SCORES, OUTCOMES, np.full(4, float(count))


def test_a_curve_that_is_wrong_with_infinite_data_is_dropped():
    calibrator = ModifiedPlattCalibrator(link="identity").fit(*rows(1e12))
    assert calibrator.fallback_used_
    assert calibrator.platt_cutoff_error_ == pytest.approx(0.242936, abs=1e-6)
    assert (calibrator.slope_, calibrator.intercept_) == pytest.approx((0.930895, -0.405804), abs=1e-6)
    assert calibrator.training_cutoff_error_ < 1e-12
    assert calibrator.cutoff_certificate(weights="frequency").upper < 1e-5
    np.testing.assert_allclose(calibrator.transform(SCORES), 0.5, rtol=0, atol=1e-12)


def test_a_right_curve_is_kept():
    y, p = simulated(5000)
    calibrator, platt = ModifiedPlattCalibrator().fit(p, y), PlattCalibrator().fit(p, y)
    assert not calibrator.fallback_used_
    assert calibrator.platt_cutoff_error_ == calibrator.training_cutoff_error_
    assert calibrator.training_cutoff_error_ == platt.training_cutoff_error_
    np.testing.assert_array_equal(calibrator.transform(p), platt.transform(p))


def test_tolerances():
    p, y, w = rows(25)
    made = ModifiedPlattCalibrator(link="identity", tolerance="paper").fit(p, y, w)
    assert made.tolerance_ == pytest.approx((20 + math.sqrt(2 * math.log(20))) / 10)
    assert not made.fallback_used_
    made = ModifiedPlattCalibrator(link="identity", confidence=0.8).fit(p, y, w)
    expected = cutoff_result(y, p, sample_weight=w, weights="frequency").margin(0.8)
    assert made.tolerance_ == pytest.approx(expected)
    error = made.platt_cutoff_error_
    for tolerance, used in ((error, False), (np.nextafter(error, 0), True)):
        made = ModifiedPlattCalibrator(link="identity", tolerance=tolerance).fit(p, y, w)
        assert (made.tolerance_, made.fallback_used_) == (tolerance, used)
    # of weights that are not counts, the effective number
    w = np.array([0.6, 0.3, 0.3, 0.3])
    made = ModifiedPlattCalibrator(link="identity").fit(p, y, w)
    assert made.training_size_ == pytest.approx(w.sum() ** 2 / np.sum(w**2))
    assert made.tolerance_ == pytest.approx(cutoff_result(y, p, sample_weight=w).margin())
