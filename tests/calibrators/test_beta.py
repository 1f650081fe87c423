"""Beta calibration against a general optimizer, and in hard cases."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

from sklearn_calib.calibrators import BetaCalibrator
from tests._tiers import thorough

FORMS = ["abm", "ab", "am"]

every_form = pytest.mark.parametrize("parameters", FORMS)


def coefficients(theta, parameters):
    if parameters == "ab":
        a, b = theta
        return a, b, (a - b) * np.log(2)
    return (theta[0], theta[0], theta[1]) if parameters == "am" else tuple(theta)


def ingredients(p, y, w):
    """Logarithms and targets, from the definition; without zeros the limit changes no probability."""
    limit = min(p[p > 0].min(), 1 - p[p < 1].max(), 0.5 / np.sqrt(w.sum()))
    q = np.clip(p, limit, 1 - limit)
    n, rate = w.sum(), (w[y == 1].sum() + 0.5) / (w.sum() + 1)
    return np.log(q), -np.log1p(-q), (n * y + p + rate) / (n + 2)


def objective(abc, p, y, w):
    low, high, target = ingredients(p, y, w)
    a, b, c = abc
    z = a * low + b * high + c
    loss = target * np.logaddexp(0, -z) + (1 - target) * np.logaddexp(0, z)
    return float(np.sum(w * loss) + ((a - 1) ** 2 + (b - 1) ** 2) / 200)


def reference(p, y, w, parameters):
    start = {"abm": [1.0, 1.0, 0.0], "ab": [1.0, 1.0], "am": [1.0, 0.0]}[parameters]
    bounds = {"abm": [(0, None)] * 2 + [(None, None)], "ab": [(0, None)] * 2, "am": [(0, None), (None, None)]}
    found = minimize(
        lambda theta: objective(coefficients(theta, parameters), p, y, w),
        start,
        method="L-BFGS-B",
        bounds=bounds[parameters],
        options={"ftol": 1e-15, "gtol": 1e-8, "maxiter": 2000},
    )
    return coefficients(found.x, parameters), found.fun


def sample(name, n, rng):
    p = rng.random(n)
    if name == "confident":
        p = expit(12 * rng.normal(size=n))
    elif name == "narrow":
        p = 0.4 + 0.1 * p
    elif name == "ties":
        p = np.round(p, 1)
    y = (rng.random(n) < expit(0.7 * logit(np.clip(p, 1e-9, 1 - 1e-9)) + 0.5)).astype(int)
    if name == "rare":
        y = (rng.random(n) < 0.1 * p).astype(int)
    elif name == "reversed":
        y = 1 - y
    elif name == "hill":
        # log p has no use here, or -log(1 - p) none
        y = (rng.random(n) < 0.3 + 0.6 * (p > 0.9) + 0.2 * (p < 0.1)).astype(int)
    elif name == "separable":
        y = (p > 0.4).astype(int)
    y[:2] = [0, 1]
    return p, y


SAMPLES = ["plain", "confident", "narrow", "ties", "rare", "reversed", "hill", "separable"]


@every_form
@pytest.mark.parametrize(
    ("name", "n"),
    # of 12 000 rows a coarse solution is the start
    [*((name, 30 if place % 2 else 400) for place, name in enumerate(SAMPLES)), thorough("plain", 12_000)],
)
def test_agrees_with_a_general_optimizer(parameters, name, n):
    rng = np.random.default_rng(n)
    p, y = sample(name, n, rng)
    w = rng.integers(1, 4, n).astype(float)
    calibrator = BetaCalibrator(parameters=parameters).fit(p, y, w)
    (a, b, c), least = reference(p, y, w, parameters)
    assert min(calibrator.a_, calibrator.b_) >= 0
    grid = np.linspace(p.min(), p.max(), 50)
    inner = np.clip(grid, calibrator.min_proba_, 1 - calibrator.min_proba_)
    expected = expit(a * np.log(inner) - b * np.log1p(-inner) + c)
    np.testing.assert_allclose(calibrator.transform(grid), expected, rtol=0, atol=3e-4)
    assert objective((calibrator.a_, calibrator.b_, calibrator.c_), p, y, w) <= least * (1 + 1e-11)


def test_a_falling_relation_leaves_the_event_rate():
    p = np.linspace(0.01, 0.99, 200)
    y = (p < 0.5).astype(int)
    y[:20] = 0
    for parameters, expected in (("abm", (200 * 0.4 + 0.5 + 80.5 / 201) / 202), ("ab", 0.5)):
        calibrator = BetaCalibrator(parameters=parameters).fit(p, y)
        assert (calibrator.a_, calibrator.b_) == (0, 0)
        np.testing.assert_allclose(calibrator.transform([0.0, 0.3, 1.0]), expected, rtol=0, atol=1e-12)


@every_form
def test_a_single_score(parameters):
    calibrator = BetaCalibrator(parameters=parameters).fit(np.full(10, 0.7), [0] * 6 + [1] * 4)
    if parameters != "ab":
        assert calibrator.transform([0.7])[0] == pytest.approx((4 + 0.7 + 4.5 / 11) / 12, abs=1e-12)
    assert np.isfinite([calibrator.a_, calibrator.b_, calibrator.c_]).all()
