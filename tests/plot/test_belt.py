"""The calibration belt: its distribution by simulation, its fits and limits by general optimisers."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import binom, chi2

from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._validation import check_binary
from sklearn_calib.plot._belt import belt_quantile, belt_sf, fit_belt
from sklearn_calib.plot._compute import CurveOptions


def sample_of(n, seed, bend=0.0, shift=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(0.0, 1.3, n)
    return (rng.random(n) < expit(x + bend * x**2 + shift)).astype(int), expit(x)


def plain_fit(y, x, degree):
    """Maximum likelihood on plain powers by a quasi-Newton method, several starts of none."""
    powers = np.vander(x, degree + 1, increasing=True)

    def loss(beta):
        eta = powers @ beta
        return np.logaddexp(0.0, eta).sum() - y @ eta

    def slope(beta):
        return powers.T @ (expit(powers @ beta) - y)

    start = np.zeros(degree + 1)
    start[1] = 1.0
    found = minimize(loss, start, jac=slope, method="BFGS", options={"gtol": 1e-9})
    return found.x, -found.fun, powers


@pytest.mark.parametrize(("degree", "selection"), [(1, 0.8), (2, 0.95), (3, 0.8), (4, 0.95)])
def test_distribution_given_the_degree_by_simulation(degree, selection):
    """chi-squared(2) plus chi-squared(1) variables that exceed the quantile of the selection."""
    rng = np.random.default_rng(degree)
    statistic = rng.chisquare(2, 60_000)
    for _ in range(degree - 1):
        statistic += chi2.isf(rng.random(60_000) * (1.0 - selection), 1)
    for level in (0.5, 0.2, 0.05, 0.01):
        at = np.quantile(statistic, 1.0 - level)
        error = 4.0 * np.sqrt(level * (1.0 - level) / 60_000)
        assert belt_sf(np.array(at), degree, selection) == pytest.approx(level, abs=error)


def test_distribution_in_closed_form_for_degrees_one_and_two():
    t = np.array([0.0, 1.0, 5.0, 12.0, 40.0])
    np.testing.assert_allclose(belt_sf(t, 1, 0.95), chi2.sf(t, 2), rtol=1e-12)
    k = chi2.ppf(0.95, 1)
    closed = chi2.sf(t, 1) + np.sqrt(2 / np.pi) * np.exp(-t / 2) * (np.sqrt(t) - np.sqrt(k))
    expected = np.where(t <= k, 1.0, closed / 0.05)
    np.testing.assert_allclose(belt_sf(t, 2, 0.95), expected, rtol=1e-9)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_quantile_inverts_the_tail(degree):
    for confidence in (0.1, 0.8, 0.95, 0.999):
        at = belt_quantile(confidence, degree, 0.95)
        assert belt_sf(np.array(at), degree, 0.95) == pytest.approx(1.0 - confidence, rel=1e-6)


@pytest.mark.parametrize(
    ("bend", "shift", "seed"), [(0.0, 0.0, 0), (0.0, 0.6, 1), (0.4, -0.4, 2), (-0.5, 0.5, 3)]
)
def test_selection_and_statistic_against_plain_fits(bend, shift, seed):
    y, p = sample_of(500, seed, bend, shift)
    x, degree = logit(p), 1
    likelihood = plain_fit(y, x, 1)[1]
    while degree < 4:
        more = plain_fit(y, x, degree + 1)[1]
        if 2.0 * (more - likelihood) <= chi2.ppf(0.95, 1):
            break
        degree, likelihood = degree + 1, more
    belt = fit_belt(group_outcomes(y, p))
    assert belt.degree == degree
    null = (y * np.log(p) + (1 - y) * np.log1p(-p)).sum()
    assert belt.statistic == pytest.approx(2.0 * (likelihood - null), abs=1e-5)
    assert belt.pvalue == pytest.approx(float(belt_sf(np.array(belt.statistic), degree, 0.95)))
    beta, _, powers = plain_fit(y, x, degree)
    np.testing.assert_allclose(belt.curve(p), expit(powers @ beta), atol=1e-5)
    assert (bend == 0.0) or degree >= 2
    assert str(belt).startswith(f"calibration belt of degree {degree}: statistic")


@pytest.mark.parametrize(("n", "bend"), [(40, 0.0), (60, 0.5), (400, 0.5)])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_limits_are_the_extremes_over_the_region(n, bend, confidence):
    y, p = sample_of(n, 11, bend)
    belt = fit_belt(group_outcomes(y, p))
    beta, best, powers = plain_fit(y, logit(p), belt.degree)
    reach = belt_quantile(confidence, belt.degree, 0.95)

    def slack(b):
        eta = powers @ b
        return (y @ eta - np.logaddexp(0.0, eta).sum()) - best + reach / 2

    def slack_slope(b):
        return powers.T @ (y - expit(powers @ b))

    points = np.sort(p)[[1, n // 3, n - 2]]
    band = belt.band(points, confidence)
    for at, low, high in zip(points, band.lower, band.upper, strict=True):
        way = np.vander([logit(at)], belt.degree + 1, increasing=True)[0]
        for sign, limit in ((1.0, high), (-1.0, low)):
            found = minimize(
                lambda b, way=way, sign=sign: -sign * way @ b,
                beta,
                jac=lambda b, way=way, sign=sign: -sign * way,
                constraints={"type": "ineq", "fun": slack, "jac": slack_slope},
                method="SLSQP",
                options={"maxiter": 500, "ftol": 1e-12},
            )
            assert expit(way @ found.x) == pytest.approx(limit, abs=2e-5)


def test_belts_are_nested_and_hold_the_curve():
    y, p = sample_of(300, 5, 0.3)
    curve = CurveOptions(method="belt").curve(check_binary(y, p))
    inner, outer = curve.bands
    assert (inner.confidence, outer.confidence) == (0.8, 0.95)
    assert (outer.lower < inner.lower).all()
    assert (inner.lower < curve.observed).all()
    assert (curve.observed < inner.upper).all()
    assert (inner.upper < outer.upper).all()
    assert curve.label() == f"degree {curve.belt.degree}, p = {curve.belt.pvalue:.2g}"
    only = CurveOptions(method="belt", confidence=0.8).curve(check_binary(y, p))
    assert len(only.bands) == 1
    assert CurveOptions(method="belt", band="none").curve(check_binary(y, p)).bands == ()


@pytest.mark.thorough
def test_level_of_the_test_and_of_the_belt():
    """Under calibration; the diagonal leaves the 95 % belt hardly more often than the test rejects."""
    pvalues, left = [], 0
    for seed in range(400):
        belt = fit_belt(group_outcomes(*sample_of(400, seed)))
        pvalues.append(belt.pvalue)
        if seed < 60:
            band = belt.band(belt.points()[::8], 0.95)
            left += bool(band.departures)
            # a point outside the region of parameters is needed to leave the belt
            assert belt.pvalue < 0.05 + 1e-9 or not band.departures
    for level in (0.05, 0.2, 0.5):
        rejected = int((np.array(pvalues) <= level).sum())
        assert binom.ppf(0.001, 400, level) <= rejected <= binom.ppf(0.999, 400, level) + 4
    assert left <= binom.ppf(0.999, 60, 0.05)


def test_departures_show_where_a_bad_model_fails():
    y, p = sample_of(3000, 0, 0.0, 0.8)
    belt = fit_belt(group_outcomes(y, p))
    (part,) = belt.band(belt.points(), 0.95).departures
    assert part.side == "above"
    assert part.start < 0.2
    assert part.stop > 0.8
    assert belt.pvalue < 1e-6


def test_whole_weights_are_repetitions_and_rows_have_no_order():
    y, p = sample_of(200, 4)
    times = np.random.default_rng(0).integers(1, 4, 200)
    one = fit_belt(group_outcomes(y, p, times.astype(float)))
    two = fit_belt(group_outcomes(np.repeat(y, times)[::-1].copy(), np.repeat(p, times)[::-1].copy()))
    assert one.statistic == pytest.approx(two.statistic, abs=1e-8)
    x = one.points()
    np.testing.assert_allclose(one.band(x, 0.9).lower, two.band(x, 0.9).lower, atol=1e-8)


def test_many_predictions_are_gathered_with_small_error():
    y, p = sample_of(20_000, 1, 0.05)
    belt = fit_belt(group_outcomes(y, p))
    beta, likelihood, _ = plain_fit(y, logit(p), belt.degree)
    null = (y * np.log(p) + (1 - y) * np.log1p(-p)).sum()
    assert belt.statistic == pytest.approx(2.0 * (likelihood - null), rel=0.01, abs=0.05)
    x = np.linspace(0.02, 0.98, 25)
    exact = expit(np.vander(logit(x), belt.degree + 1, increasing=True) @ beta)
    np.testing.assert_allclose(belt.curve(x), exact, atol=3e-4)


def test_two_values_have_a_line_and_no_more():
    p = np.repeat([0.3, 0.7], 30)
    y = np.tile([0, 0, 1], 20)
    belt = fit_belt(group_outcomes(y, p))
    assert belt.degree == 1
    np.testing.assert_allclose(belt.curve(np.array([0.3, 0.7])), [1 / 3, 1 / 3], atol=1e-7)


def test_what_separates_has_no_belt():
    for y in ([0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 0]):
        with pytest.raises(ValueError, match="no logistic fit exists"):
            fit_belt(group_outcomes(np.array(y), np.array([0.1, 0.2, 0.6, 0.7])))
