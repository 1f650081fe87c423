"""Spline calibration against general optimizers, its limits, and a few wrong forecasts of 0 and 1."""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import expit, logit

from sklearn_calib.calibrators import PlattCalibrator, SplineCalibrator, _spline
from sklearn_calib.calibrators._pspline import PENALTIES, mid_quantiles, place_knots

GRID = np.linspace(0.01, 0.99, 99)


def sample(n, seed=0):
    """Outcomes that probabilities overstate at one end only."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.02, 0.98, n)
    return p, (rng.random(n) < np.where(p < 0.5, p, 0.5 + (p - 0.5) / 3)).astype(int)


def cox_de_boor(x, knots, j, degree):
    """Value at x of the j-th B-spline of a knot vector, by the recursion that defines it."""
    if degree == 0:
        last = knots[j + 1] == knots[-1]
        return float(knots[j] <= x < knots[j + 1] or (last and knots[j] < knots[j + 1] == x))
    left, right = knots[j + degree] - knots[j], knots[j + degree + 1] - knots[j + 1]
    value = 0.0
    if left > 0:
        value += (x - knots[j]) / left * cox_de_boor(x, knots, j, degree - 1)
    if right > 0:
        value += (knots[j + degree + 1] - x) / right * cox_de_boor(x, knots, j + 1, degree - 1)
    return value


class Definition:
    """The penalized loss as it is written in the docstring, and its minimizer by a general optimizer."""

    def __init__(self, p, y, n_knots):
        low, high = mid_quantiles(np.sort(logit(p)), np.ones_like(p), np.array([0.05, 0.95]))
        self.center, self.unit = (low + high) / 2, (high - low) / 2
        self.x = (logit(p) - self.center) / self.unit
        assert np.abs(self.x).max() < 2.5, "no remote scores"
        inner = place_knots(np.sort(self.x), np.ones_like(p), n_knots)
        self.knots = np.concatenate([[inner[0]] * 3, inner, [inner[-1]] * 3])
        self.size = n_knots + 2
        self.basis = self.design(self.x)
        self.greville = np.array([self.knots[j + 1 : j + 4].mean() for j in range(self.size)])
        events, others = y.sum(), (1 - y).sum()
        self.target = np.where(y == 1, (events + 1) / (events + 2), 1 / (others + 2))

    def design(self, x):
        return np.array([[cox_de_boor(value, self.knots, j, 3) for j in range(self.size)] for value in x])

    def penalty(self, c):
        total, g = 0.0, self.greville
        for j in range(self.size - 2):
            span = (g[j + 2] - g[j]) / 2
            slopes = [(c[k + 1] - c[k]) / (g[k + 1] - g[k]) for k in (j, j + 1)]
            total += ((slopes[1] - slopes[0]) / span) ** 2 * span
        return total

    def loss(self, c):
        f = self.basis @ c
        return np.sum(np.logaddexp(0, f) - self.target * f)

    def minimize(self, penalty, floor=None):
        """Minimize over coefficients, or over their increments above a floor."""
        sums = np.tri(self.size)
        design, square = self.basis @ sums, sums.T @ self.square() @ sums

        def objective(theta):
            f = design @ theta
            value = np.sum(np.logaddexp(0, f) - self.target * f) + penalty / 2 * theta @ square @ theta
            return value, design.T @ (expit(f) - self.target) + penalty * square @ theta

        bounds, start = [(None, None)] * self.size, np.zeros(self.size)
        if floor is not None:
            bounds = [(None, None), *((low, None) for low in floor)]
            start[1:] = floor
        options = {"maxiter": 20_000, "maxfun": 100_000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 40}
        found = minimize(objective, start, jac=True, bounds=bounds, method="L-BFGS-B", options=options)
        return sums @ found.x

    def square(self):
        """Polarisation of the quadratic form."""
        rows = np.eye(self.size)
        return np.array([[(self.penalty(a + b) - self.penalty(a - b)) / 4 for b in rows] for a in rows])

    def curve(self, c, p):
        return expit(self.design((logit(p) - self.center) / self.unit) @ c)


@pytest.mark.parametrize("penalty", [0.01, 1.0])
def test_agrees_with_a_general_optimizer(penalty):
    p, y = sample(150)
    definition, grid = Definition(p, y, 6), np.linspace(p.min(), p.max(), 50)
    expected = definition.curve(definition.minimize(penalty), grid)
    found = SplineCalibrator(n_knots=6, penalty=penalty).fit(p, y).transform(grid)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


def test_monotone_agrees_with_a_general_optimizer_with_bounds():
    rng = np.random.default_rng(3)
    p = rng.uniform(0.05, 0.95, 150)
    y = (rng.random(150) < np.where((p > 0.4) & (p < 0.7), 0.9 - p, p)).astype(int)
    definition = Definition(p, y, 6)
    floor = 1e-3 * (PlattCalibrator().fit(p, y).slope_ * definition.unit) * np.diff(definition.greville)
    grid, c = np.linspace(p.min(), p.max(), 50), definition.minimize(0.01, floor)
    assert (np.diff(c) <= floor + 1e-12).any(), "some bound is active"
    found = SplineCalibrator(n_knots=6, penalty=0.01, monotone=True).fit(p, y).transform(grid)
    np.testing.assert_allclose(found, definition.curve(c, grid), rtol=0, atol=2e-5)
    assert np.abs(SplineCalibrator(n_knots=6, penalty=0.01).fit(p, y).transform(grid) - found).max() > 0.01


def averaged_curve(p, y, n_knots):
    """The log-odds of the curve at ``p`` and at GRID, its parameters and penalty, by Akaike weights."""
    definition, n = Definition(p, y, n_knots), len(y)
    criteria, curves, parameters = [], [], []
    for penalty in (*PENALTIES, np.inf):
        single = SplineCalibrator(n_knots=n_knots, penalty=penalty).fit(p, y)
        q = single.transform(p)
        loss = -np.sum(definition.target * np.log(q) + (1 - definition.target) * np.log1p(-q))
        edf = 2.0
        if penalty < np.inf:
            information = (definition.basis.T * (q * (1 - q))) @ definition.basis
            edf = np.trace(np.linalg.solve(information + penalty * definition.square(), information))
        assert single.effective_parameters_ == pytest.approx(edf, abs=1e-5)
        criteria.append(2 * loss + 2 * edf + 2 * edf * (edf + 1) / (n - edf - 1))
        curves.append(logit(np.concatenate([q, single.transform(GRID)])))
        parameters.append(edf)
    share = np.exp(-0.5 * (np.array(criteria) - min(criteria)))
    share /= share.sum()
    return share @ np.array(curves), share @ parameters, (*PENALTIES, np.inf)[int(np.argmax(share))]


def shrunk_line(z, y, link, definition):
    """Slope and intercept of log-odds with the prior of the docstring, and their number of parameters."""
    deviation, usual = np.log(2), 2 / definition.unit
    start = 1.0 if link == "logit" else usual

    def loss(theta):
        f = start * np.exp(theta) * z
        if link == "identity":
            f = f + brentq(lambda a: np.sum(expit(f + a) - y), -500, 500, xtol=1e-13)
        return np.sum(np.logaddexp(0, f) - y * f)

    options = {"xatol": 1e-9}
    mode = minimize_scalar(lambda t: loss(t) + t**2 / (2 * deviation**2), bounds=(-6, 6), options=options).x
    slope = start * np.exp(mode)
    if link == "identity":
        return slope, brentq(lambda a: np.sum(expit(slope * z + a) - y), -500, 500, xtol=1e-13), 2.0
    bend = (loss(mode + 1e-3) - 2 * loss(mode) + loss(mode - 1e-3)) / 1e-6
    evidence = -loss(mode) - mode**2 / (2 * deviation**2) - np.log(1 + deviation**2 * bend) / 2
    share = 1 / (1 + np.exp(-loss(0.0) - evidence) / 2)
    return share * slope + 1 - share, 0.0, share


def rate(y):
    return (y.sum() + 0.5) / (len(y) + 1)


@pytest.mark.parametrize("link", ["logit", "identity"])
@pytest.mark.parametrize(("seed", "slope"), [(0, 1.0), (1, 0.4)])
def test_curve_and_lines_share_by_their_weights_of_akaike(seed, slope, link):
    rng = np.random.default_rng(seed)
    z, n = rng.uniform(-2.5, 3, 80), 80
    p, y = expit(z), (rng.random(n) < expit(slope * z)).astype(int)
    curve, parameters, best = averaged_curve(p, y, 7)
    beta, intercept, few = shrunk_line(z, y, link, Definition(p, y, 7))
    line = beta * np.concatenate([z, logit(GRID)]) + intercept

    def criterion(log_odds, k):
        return 2 * np.sum(np.logaddexp(0, log_odds) - y * log_odds) + 2 * k * (1 + (k + 1) / (n - k - 1))

    difference = criterion(curve[:n], parameters) - criterion(line[:n], few)
    share = 1 / (1 + np.exp(-difference / 2))
    assert 0.05 < share < 0.999, "both count"
    average, parameters = share * line + (1 - share) * curve, share * few + (1 - share) * parameters
    expected = expit(average) + 0.1 / n * (rate(y) - expit(average))
    if link == "logit":
        straight = PlattCalibrator(link="identity").fit(p, y).transform(np.concatenate([p, GRID]))
        difference = criterion(average[:n], parameters) - criterion(logit(straight[:n]), 2.0)
        share = 1 / (1 + 2 * np.exp(-difference / 4))
        assert 0.05 < share < 0.95, "both count"
        expected = share * straight + (1 - share) * expected
        parameters = share * 2.0 + (1 - share) * parameters
    scores, grid = (p, GRID) if link == "logit" else (z, logit(GRID))
    found = SplineCalibrator(n_knots=7, link=link).fit(scores, y)
    np.testing.assert_allclose(found.transform(grid), expected[n:], rtol=0, atol=5e-6)
    assert (found.effective_parameters_, found.penalty_) == (pytest.approx(parameters, abs=1e-4), best)


def test_few_samples_against_the_trend_leave_a_monotone_map():
    p = [1e-9, 0.0, 1e-3, 0.05, 0.9]
    steps = np.diff(SplineCalibrator(monotone=True).fit(p, [1, 0, 0, 0, 1]).transform(GRID))
    assert steps.min() >= 0 or steps.max() <= 0
    falling = SplineCalibrator(monotone=True).fit([0.2, 0.3, 0.6, 0.7], [1, 1, 0, 0]).transform(GRID)
    assert np.diff(falling).max() <= 0


def test_no_probability_beyond_what_the_rows_can_tell():
    p, y = np.array([0.0] * 50 + [1.0] * 50), np.array([0] * 50 + [1] * 50)
    for monotone in (False, True):
        extreme = SplineCalibrator(monotone=monotone).fit(p, y).transform([0.0, 1.0])
        assert extreme[0] >= 0.5 * 0.1 / 100
        assert extreme[1] <= 1 - 0.5 * 0.1 / 100


@pytest.mark.parametrize("monotone", [False, True])
def test_with_infinite_penalty_it_is_platt_scaling(monotone):
    p, y = sample(500)
    expected = PlattCalibrator(link="identity").fit(logit(p), y).transform(logit(GRID))
    for penalty, tolerance in ((np.inf, 1e-10), (1e8, 1e-6)):
        found = SplineCalibrator(penalty=penalty, monotone=monotone).fit(p, y).transform(GRID)
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(("monotone", "wrong"), [(True, [0, 0, 1, 1]), (False, [0] * 4), (True, [1] * 4)])
def test_a_few_wrong_forecasts_of_zero_and_one_move_little(monotone, wrong):
    """They pull Platt scaling of the bare log-odds as far as 0.1."""

    def log_odds(p):
        return logit(np.clip(p, 2.0**-53, 1 - 2.0**-53))

    bare = PlattCalibrator(link="identity")
    moved, platt = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        p = expit(rng.normal(0, 2, 400))
        y = (rng.random(400) < p).astype(int)
        both = np.append(p, wrong), np.append(y, 1 - np.array(wrong))
        spline = SplineCalibrator(monotone=monotone)
        clean, mixed = (spline.fit(*rows).transform([0.1])[0] for rows in ((p, y), both))
        moved.append(abs(mixed - clean))
        clean, mixed = (bare.fit(log_odds(x), z).transform(log_odds([0.1]))[0] for x, z in ((p, y), both))
        platt.append(abs(mixed - clean))
    assert max(moved) < 0.02
    assert min(platt) > 0.05


def test_many_forecasts_of_zero_and_one_are_believed():
    rng = np.random.default_rng(0)
    p = np.concatenate([expit(rng.normal(0, 1.5, 4000)), np.repeat([0.0, 1.0], 2000)])
    y = (rng.random(8000) < np.clip(p, 0.2, 0.8)).astype(int)
    found = SplineCalibrator().fit(p, y).transform(np.array([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(found, [0.2, 0.5, 0.8], atol=0.03)


def test_pooling_changes_little(monkeypatch):
    rng = np.random.default_rng(1)
    p = expit(rng.standard_t(3, 30_000))
    y = (rng.random(30_000) < p**2).astype(int)
    pooled = SplineCalibrator().fit(p, y).transform(p)
    monkeypatch.setattr(_spline, "_BINS", 10**6)
    plain = SplineCalibrator().fit(p, y).transform(p)
    assert np.abs(plain - pooled).max() < 5e-4
    # twice the difference of the expected log losses if the plain map is right
    assert np.mean(np.square(plain - pooled) / (plain * (1 - plain))) < 1e-7


def test_straight_outside_the_scores():
    p, y = sample(500)
    z = logit(p)
    calibrator = SplineCalibrator(link="identity", penalty=1.0).fit(z, y)
    steps = np.diff(logit(calibrator.transform(z.max() + np.arange(4) * 0.1)))
    assert np.ptp(steps) < 1e-9
    assert steps[0] > 0


def test_ends_against_the_trend_are_continued_level():
    """Log-odds that rise, and fall at the end: outside they stay."""
    z = np.linspace(-2, 2, 4000)
    y = np.random.default_rng(0).random(4000) < expit(np.where(z < 1.2, 2 * z, 2.4 - 4 * (z - 1.2)))
    inside, end, outside = SplineCalibrator(link="identity").fit(z, y).transform([1.2, 2.0, 3.0])
    assert inside > end + 0.2
    assert outside == pytest.approx(end, abs=1e-9)
    monotone = SplineCalibrator(link="identity", monotone=True).fit(z, y)
    assert np.diff(monotone.transform(np.linspace(-3, 3, 1000))).min() > 0


@pytest.mark.parametrize("monotone", [False, True])
def test_scale_and_direction_of_scores_do_not_matter(monotone):
    p, y = sample(300)
    z, calibrator = logit(p), SplineCalibrator(link="identity", monotone=monotone)
    expected = calibrator.fit(z, y).transform(z)
    for factor in (-1.0, 1e-90, 1e90):
        found = calibrator.fit(z * factor, y).transform(z * factor)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_only_the_monotone_map_has_a_certificate():
    p, y = sample(400)
    free, monotone = SplineCalibrator().fit(p, y), SplineCalibrator(monotone=True).fit(p, y)
    assert hasattr(monotone, "cutoff_certificate")
    assert not hasattr(free, "cutoff_certificate")
    assert not hasattr(free, "training_cutoff_error_")
