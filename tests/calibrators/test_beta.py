"""Beta calibration against a general optimiser, against contradictions, and in hard cases."""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit
from scipy.stats import beta as beta_law
from sklearn.linear_model import LogisticRegression

from sklearn_calib.calibrators import BetaCalibrator, PlattCalibrator

EPS = 2.0**-53
FORMS = ["abm", "ab", "am"]

every_form = pytest.mark.parametrize("parameters", FORMS)


def coefficients(theta, parameters):
    if parameters == "ab":
        a, b = theta
        return a, b, (a - b) * np.log(2)
    return (theta[0], theta[0], theta[1]) if parameters == "am" else tuple(theta)


def ingredients(p, y, w):
    """Logarithms, targets, and discounts, from the definition."""
    q = np.clip(p, EPS, 1 - EPS)
    low, high = np.log(q), -np.log1p(-q)
    n, rate = w.sum(), (w[y == 1].sum() + 0.5) / (w.sum() + 1)
    target = (n * y + p + rate) / (n + 2)
    odds = np.abs(low + high)
    order = np.argsort(odds)
    reached = np.cumsum(w[order]) >= 0.95 * w.sum() - 1e-9
    reach = max(odds[order][reached][0], np.log(19))
    discount = np.where(odds > reach, (reach / np.maximum(odds, reach)) ** 3, 1.0)
    return low, high, target, discount, reach


def objective(abc, p, y, w):
    low, high, target, discount, _ = ingredients(p, y, w)
    a, b, c = abc
    z = a * low + b * high + c
    loss = target * np.logaddexp(0, -z) + (1 - target) * np.logaddexp(0, z)
    return float(np.sum(discount * w * loss) + ((a - 1) ** 2 + (b - 1) ** 2) / 200)


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
    a, b, c = coefficients(found.x, parameters)
    if parameters != "ab":
        low, high, target, *_ = ingredients(p, y, w)
        c = brentq(lambda t: np.sum(w * (expit(a * low + b * high + t) - target)), -200, 200, xtol=1e-13)
    return (a, b, c), found.fun


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
@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("n", [30, 400])
def test_agrees_with_a_general_optimiser(parameters, name, n):
    rng = np.random.default_rng(n)
    p, y = sample(name, n, rng)
    w = rng.integers(1, 4, n).astype(float)
    calibrator = BetaCalibrator(parameters=parameters).fit(p, y, w)
    (a, b, c), least = reference(p, y, w, parameters)
    assert calibrator.reach_ == pytest.approx(ingredients(p, y, w)[-1], rel=1e-12)
    assert min(calibrator.a_, calibrator.b_) >= 0
    grid = np.linspace(p.min(), p.max(), 50)
    expected = expit(a * np.log(np.clip(grid, EPS, 1)) - b * np.log1p(-np.clip(grid, 0, 1 - EPS)) + c)
    np.testing.assert_allclose(calibrator.transform(grid), expected, rtol=0, atol=3e-4)
    if parameters == "ab":
        ours = objective((calibrator.a_, calibrator.b_, calibrator.c_), p, y, w)
        assert ours <= least * (1 + 1e-11)


@pytest.mark.parametrize("parameters", ["abm", "am"])
@pytest.mark.parametrize("name", SAMPLES)
def test_slopes_are_optimal_and_the_mean_is_met(parameters, name):
    """The loss is that of the best intercept for the slopes; so it is compared at its own intercept."""
    rng = np.random.default_rng(7)
    p, y = sample(name, 300, rng)
    w = rng.random(300) * 3
    calibrator = BetaCalibrator(parameters=parameters).fit(p, y, w)
    a, b = calibrator.a_, calibrator.b_
    _, least = reference(p, y, w, parameters)
    best = minimize(lambda t: objective((a, b, t[0]), p, y, w), [calibrator.c_], options={"gtol": 1e-9})
    assert best.fun <= least * (1 + 1e-11)
    target = ingredients(p, y, w)[2]
    assert np.sum(w * calibrator.transform(p)) == pytest.approx(np.sum(w * target), rel=1e-12)


@every_form
@pytest.mark.parametrize("slope", [0.5, 1.0, 1.6])
@pytest.mark.parametrize("seed", range(3))
def test_four_contradicted_certainties_among_404(parameters, slope, seed):
    """Scores of exactly 0 and 1 with the other outcome hardly move the map where the other rows are."""
    rng = np.random.default_rng(seed)
    p = rng.random(400)
    y = (rng.random(400) < expit(slope * logit(p))).astype(int)
    clean = BetaCalibrator(parameters=parameters).fit(p, y)
    inner = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    for wrong, outcomes in (([0, 0, 1, 1], [1, 1, 0, 0]), ([0] * 4, [1] * 4), ([1] * 4, [0] * 4)):
        spoilt = BetaCalibrator(parameters=parameters).fit(np.append(p, wrong), np.append(y, outcomes))
        # two on either side balance; four on one side also change the event rate by .01
        bound = 0.015 if sum(wrong) == 2 else 0.03
        assert np.abs(spoilt.transform(inner) - clean.transform(inner)).max() < bound
        assert abs(spoilt.transform([0.1])[0] - clean.transform([0.1])[0]) < 0.02


def test_without_discount_they_would():
    """Maximum likelihood on the same rows: the case is a hard one."""
    rng = np.random.default_rng(0)
    p = rng.random(400)
    y = (rng.random(400) < expit(1.6 * logit(p))).astype(int)
    at = {}
    for key, rows, outcomes in (
        ("clean", p, y),
        ("spoilt", np.append(p, [0, 0, 1, 1]), np.append(y, [1, 1, 0, 0])),
    ):
        q = np.clip(rows, EPS, 1 - EPS)
        low, high = np.log(q), -np.log1p(-q)

        def loss(t, low=low, high=high, outcomes=outcomes):
            z = t[0] * low + t[1] * high + t[2]
            return np.sum(np.logaddexp(0, z) - outcomes * z)

        t = minimize(loss, [1.0, 1.0, 0.0]).x
        at[key] = expit(t[0] * np.log(0.1) - t[1] * np.log(0.9) + t[2])
    assert at["spoilt"] - at["clean"] > 0.1


def test_many_confident_rows_are_not_discounted():
    """Where far scores are common they count in full: the fit sees that they are right in 80 % only."""
    rng = np.random.default_rng(1)
    p = np.where(rng.random(2000) < 0.5, 1e-12, 1 - 1e-12)
    y = (rng.random(2000) < np.where(p > 0.5, 0.8, 0.2)).astype(int)
    calibrator = BetaCalibrator().fit(p, y)
    assert calibrator.reach_ == pytest.approx(logit(1 - 1e-12), rel=1e-4)
    for score in (1e-12, 1 - 1e-12):
        assert calibrator.transform([score])[0] == pytest.approx(y[p == score].mean(), abs=2e-3)


def test_recovers_the_map_of_beta_distributed_scores():
    """The derivation of the paper: log-odds of two beta densities."""
    rng = np.random.default_rng(2)
    n = 200_000
    p = np.concatenate([rng.beta(4, 1.5, n), rng.beta(1.2, 3, n)])
    y = np.repeat([1, 0], n)
    calibrator = BetaCalibrator().fit(p, y)
    # slopes are differences of the exponents, and the densities have equal weight
    assert calibrator.a_ == pytest.approx(4 - 1.2, abs=0.05)
    assert calibrator.b_ == pytest.approx(3 - 1.5, abs=0.05)
    grid = np.linspace(0.05, 0.95, 19)
    ratio = beta_law.pdf(grid, 4, 1.5) / (beta_law.pdf(grid, 4, 1.5) + beta_law.pdf(grid, 1.2, 3))
    np.testing.assert_allclose(calibrator.transform(grid), ratio, rtol=0, atol=5e-3)


def test_one_slope_is_platt_scaling_of_the_log_odds():
    """But for the weak prior and the targets, where no row is beyond the reach."""
    rng = np.random.default_rng(3)
    p = 0.05 + 0.9 * rng.random(20_000)
    y = (rng.random(20_000) < expit(1.3 * logit(p) - 0.4)).astype(int)
    found, platt = BetaCalibrator(parameters="am").fit(p, y), PlattCalibrator().fit(p, y)
    assert found.a_ == found.b_ == pytest.approx(platt.slope_, abs=1e-3)
    assert found.c_ == pytest.approx(platt.intercept_, abs=1e-3)


def test_ab_passes_through_one_half():
    rng = np.random.default_rng(4)
    p = rng.random(500)
    y = (rng.random(500) < p**2).astype(int)
    calibrator = BetaCalibrator(parameters="ab").fit(p, y)
    assert calibrator.transform([0.5])[0] == pytest.approx(0.5, abs=1e-15)
    assert abs(calibrator.a_ - calibrator.b_) > 0.1


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
        smoothed = (4 + 0.7 + 4.5 / 11) / 12
        assert calibrator.transform([0.7])[0] == pytest.approx(smoothed, abs=1e-12)
    assert np.isfinite([calibrator.a_, calibrator.b_, calibrator.c_]).all()


@every_form
def test_large_samples_start_from_a_coarse_solution(parameters):
    """The solution is the same with and without it: here rows are repeated, so that both ways are taken."""
    rng = np.random.default_rng(5)
    p = rng.random(12_000)
    y = (rng.random(12_000) < p**2).astype(int)
    calibrator = BetaCalibrator(parameters=parameters).fit(p, y)
    w = np.ones(12_000)
    theta = np.array([calibrator.a_, calibrator.b_, calibrator.c_])
    if parameters != "ab":
        found = minimize(lambda t: objective((*theta[:2], t[0]), p, y, w), theta[2:])
        theta[2] = found.x[0]
    base = objective(theta, p, y, w)
    for step in (1e-3, -1e-3):
        for moved in {
            "abm": [(step, 0, 0), (0, step, 0), (0, 0, step)],
            "ab": [(step, 0, step * np.log(2)), (0, step, -step * np.log(2))],
            "am": [(step, step, 0), (0, 0, step)],
        }[parameters]:
            if min(theta[:2] + moved[:2]) >= 0:
                assert objective(theta + np.array(moved), p, y, w) > base


def test_never_certain_and_finite_at_the_ends():
    p = np.concatenate([np.zeros(50), np.ones(50)])
    calibrator = BetaCalibrator().fit(p, p.astype(int))
    proba = calibrator.transform([0.0, 1e-300, 0.5, 1.0])
    assert (proba > 0).all()
    assert (proba < 1).all()


@every_form
@pytest.mark.parametrize("seed", range(40, 60))
def test_weights_and_scores_of_many_orders_of_magnitude(parameters, seed):
    """Warnings are errors here: the solver always ends."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 80))
    p = expit(rng.normal(size=n) * 10 ** rng.uniform(-6, 2) + rng.normal() * 3)
    y = rng.integers(0, 2, n)
    y[:2] = [0, 1]
    calibrator = BetaCalibrator(parameters=parameters).fit(p, y, 10 ** rng.uniform(-3, 6, n))
    assert min(calibrator.a_, calibrator.b_) >= 0
    proba = calibrator.transform(np.linspace(0, 1, 200))
    assert np.isfinite(proba).all()
    assert np.diff(proba).min() >= -2e-16


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="parameters must be one of 'abm', 'ab', 'am', got 'abc'"):
        BetaCalibrator(parameters="abc").fit([0.1, 0.9], [0, 1])
    with pytest.raises(ValueError, match=r"X contains 1.5 at index 1, outside \[0, 1\]"):
        BetaCalibrator().fit([0.1, 1.5], [0, 1])


def unpenalised(p, y, w, parameters):
    """Maximum likelihood by scikit-learn, on the features of each form; slopes may be negative."""
    low, high = np.log(p), -np.log1p(-p)
    columns = {
        "abm": np.column_stack([low, high]),
        "ab": np.column_stack([low + np.log(2), high - np.log(2)]),
        "am": (low + high)[:, None],
    }[parameters]
    model = LogisticRegression(
        C=np.inf, fit_intercept=parameters != "ab", solver="newton-cholesky", tol=1e-12, max_iter=1000
    ).fit(columns, y, w)
    theta = model.coef_[0].tolist() + ([] if parameters == "ab" else model.intercept_.tolist())
    return coefficients(theta, parameters)


@every_form
@pytest.mark.parametrize("name", ["plain", "narrow", "ties", "rare", "far"])
@pytest.mark.parametrize("n", [60, 10_000])
def test_plain_maximum_likelihood(parameters, name, n):
    rng = np.random.default_rng(n)
    p, y = sample("plain" if name == "far" else name, n, rng)
    p = np.clip(p, 0.01, 0.99)
    if name == "far":
        # contradicted forecasts close to 0 and 1 count in full
        p[:4], y[:4] = [1e-9, 1e-9, 1 - 1e-9, 1 - 1e-9], [1, 1, 0, 0]
    w = rng.integers(1, 4, n).astype(float)
    expected = unpenalised(p, y, w, parameters)
    found = BetaCalibrator(parameters=parameters, regularized=False).fit(p, y, w)
    assert found.reach_ == np.inf
    regularized = BetaCalibrator(parameters=parameters).fit(p, y, w)
    if min(expected[:2]) < 0:
        assert min(found.a_, found.b_) == 0
    else:
        np.testing.assert_allclose([found.a_, found.b_, found.c_], expected, rtol=1e-6, atol=1e-6)
        assert abs(found.a_ - regularized.a_) > 1e-6
    # the loss that is least is the plain one
    loss = [metric_loss(one.transform(p), y, w) for one in (found, regularized)]
    assert loss[0] <= loss[1]


def metric_loss(proba, y, w):
    return float(w @ np.where(y == 1, -np.log(proba), -np.log1p(-proba)))


@every_form
@pytest.mark.parametrize("name", ["reversed", "hill", "narrow"])
def test_plain_maximum_likelihood_under_the_constraint(parameters, name):
    rng = np.random.default_rng(11)
    p, y = sample(name, 300, rng)
    w = np.ones(300)
    low, high = np.log(p), -np.log1p(-p)

    def loss(theta):
        a, b, c = coefficients(theta, parameters)
        z = a * low + b * high + c
        return float(np.sum(np.logaddexp(0, z) - y * z))

    bounds = {"abm": [(0, None)] * 2 + [(None, None)], "ab": [(0, None)] * 2, "am": [(0, None), (None, None)]}
    best = minimize(
        loss, np.ones(len(bounds[parameters])), bounds=bounds[parameters], options={"ftol": 1e-15}
    )
    found = BetaCalibrator(parameters=parameters, regularized=False).fit(p, y)
    assert min(found.a_, found.b_) >= 0
    assert metric_loss(found.transform(p), y, w) == pytest.approx(best.fun, rel=1e-9)


def test_maximum_likelihood_by_hand():
    """Two scores, two parameters: the frequencies are met."""
    p, y = np.repeat([0.2, 0.9], [4, 8]), [0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1]
    calibrator = BetaCalibrator(parameters="am", regularized=False).fit(p, y)
    np.testing.assert_allclose(calibrator.transform([0.2, 0.9]), [0.25, 0.75], rtol=0, atol=1e-12)
    slope = 2 * np.log(3) / (np.log(9) + np.log(4))
    assert calibrator.a_ == calibrator.b_ == pytest.approx(slope, rel=1e-12)


@every_form
def test_maximum_likelihood_of_separated_outcomes_is_steep_and_ends(parameters):
    p = np.linspace(0.1, 0.9, 20)
    calibrator = BetaCalibrator(parameters=parameters, regularized=False).fit(p, (p > 0.5).astype(int))
    assert calibrator.transform([0.1])[0] < 1e-9
    assert calibrator.transform([0.9])[0] > 1 - 1e-9
    with pytest.raises(TypeError, match="regularized"):
        BetaCalibrator(regularized="no").fit([0.1, 0.9], [0, 1])


@pytest.mark.parametrize("weight", [1e-300, 1e-153, 1e153, 1e300])
@pytest.mark.parametrize("regularized", [True, False])
def test_weights_of_any_size(weight, regularized):
    p, y = sample("plain", 300, np.random.default_rng(3))
    found = BetaCalibrator(regularized=regularized).fit(p, y, np.full(300, weight))
    if weight > 1 or not regularized:
        # so many samples leave plain maximum likelihood but for the discount, which none of these needs
        plain = BetaCalibrator(regularized=False).fit(np.clip(p, 0.051, 0.949), y)
        limit = BetaCalibrator(regularized=regularized).fit(np.clip(p, 0.051, 0.949), y, np.full(300, weight))
        np.testing.assert_allclose(limit.transform(p), plain.transform(p), rtol=0, atol=1e-9)
    assert np.isfinite(found.transform([0.0, 0.5, 1.0])).all()
