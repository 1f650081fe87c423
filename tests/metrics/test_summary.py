"""The clinical summary against general optimizers, and its curve against a fit in another basis."""

import math

import numpy as np
import pytest
from scipy.interpolate import BSpline
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, logit
from scipy.stats import binom, binomtest, chi2, norm
from scipy.stats import t as student_t

from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._core._recalibration import LogitOutcomes
from sklearn_calib._core._smooth_logistic import smooth_frequency
from sklearn_calib.inference import SpiegelhalterTest
from sklearn_calib.metrics import calibration_summary, integrated_calibration_index
from sklearn_calib.metrics._summary import _weighted_quantiles
from tests._samples import simulated


def sample(seed, n=150):
    rng = np.random.default_rng(seed)
    p = rng.beta(1.0, 2.0, n)
    p[: n // 3] = np.round(p[: n // 3], 1).clip(0.1, 0.9)
    y = (rng.random(n) < 1 / (1 + np.exp(-(0.3 + 0.6 * np.log(p / (1 - p)))))).astype(int)
    return y, p, rng.integers(1, 4, n)


KNOTS = (0.05, 0.275, 0.5, 0.725, 0.95)


def log_odds(p):
    return np.log(p / (1 - p))


def maximize(loss, size):
    return minimize(loss, np.zeros(size), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).x


@pytest.mark.parametrize("by_class", [False, True])
def test_sampling_weights_by_the_sandwich(by_class):
    """The estimates of weighted likelihood, with the CR3 variance in which each sample is a cluster."""
    rng = np.random.default_rng(7)
    p = np.round(rng.beta(2, 3, 60), 1) * 0.9 + 0.05
    y = (rng.random(60) < p).astype(int)
    w = np.where(y == 1, 1.0, 4.0) if by_class else np.round(np.exp(0.8 * rng.normal(size=60)), 1)
    w[:10] = w[0]
    found = calibration_summary(y, p, sample_weight=w)
    for name, column in (("intercept", 0), ("slope", 1), ("slope_intercept", 0)):
        x = np.ones((60, 1)) if name == "intercept" else np.column_stack((np.ones(60), log_odds(p)))
        offset = log_odds(p) if name == "intercept" else np.zeros(60)

        def loss(at, x=x, offset=offset):
            return float(np.sum(w * np.logaddexp(0, np.where(y == 1, -1, 1) * (offset + x @ at))))

        best = maximize(loss, x.shape[1])
        fitted = expit(offset + x @ best)
        inverse = np.linalg.inv((x.T * (w * fitted * (1 - fitted))) @ x)
        variance, squares, whole = 0.0, 0.0, inverse[column, column]
        for i in range(60):
            rise = inverse[column] @ x[i]
            share = w[i] * fitted[i] * (1 - fitted[i]) * rise**2 / whole
            variance += (w[i] * (y[i] - fitted[i]) * rise / (1 - share)) ** 2
            squares += share**2
        width = student_t.ppf(0.975, 1 / squares - 1) * math.sqrt(variance)
        estimate = getattr(found, name)
        assert estimate.estimate == pytest.approx(best[column], abs=1e-6)
        assert estimate.upper - estimate.estimate == pytest.approx(width, rel=1e-4)
    assert (found.n_samples, found.n_events) == (60, y.sum())
    assert found.n_effective == pytest.approx(w.sum() ** 2 / (w @ w))
    assert "sampling weights, effective number of samples" in str(found)
    found = calibration_summary(y, p, sample_weight=np.where(y == 1, 1.0, 4.0))
    assert found.weights == "case-control"
    assert "by class (case-control), effective number of samples" in str(found)
    found, again = (calibration_summary(y, p, sample_weight=factor * w) for factor in (1, 3))
    assert again.slope.upper == pytest.approx(found.slope.upper, rel=1e-9)
    # whole clusters of weighted samples
    code = np.arange(60) // 3
    grouped = calibration_summary(y, p, sample_weight=w, clusters=code)
    order = rng.permutation(60)
    again = calibration_summary(y[order], p[order], sample_weight=w[order], clusters=code[order])
    assert grouped.slope.lower == pytest.approx(again.slope.lower, rel=1e-9)
    equal = calibration_summary(y, p, clusters=code)
    one = calibration_summary(y, p, sample_weight=np.where(code == 0, 1 + 1e-9, 1.0), clusters=code)
    assert one.slope.lower == pytest.approx(equal.slope.lower, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_estimates_and_profile_intervals(seed):
    """At both ends the best fit with that parameter is as much worse as the chi-squared quantile says."""
    y, p, w = sample(seed, n=60)
    x = log_odds(p)
    found = calibration_summary(y, p, sample_weight=w, weights="frequency", confidence=0.9)

    def loss(a, b):
        return float(np.sum(w * np.logaddexp(0, np.where(y == 1, -1, 1) * (a + b * x))))

    (alone,), (both, slope) = maximize(lambda at: loss(*at, 1.0), 1), maximize(lambda at: loss(*at), 2)
    for estimate, value in ((found.intercept, alone), (found.slope_intercept, both), (found.slope, slope)):
        assert (estimate.estimate, estimate.method) == (pytest.approx(value, abs=1e-6), "profile")
    limit = norm.ppf(0.95) ** 2
    best = loss(found.slope_intercept.estimate, found.slope.estimate)
    for end in (found.slope.lower, found.slope.upper):
        partial_best = minimize_scalar(lambda a, end=end: loss(a, end), bounds=(-9, 9), method="bounded")
        assert 2 * (partial_best.fun - best) == pytest.approx(limit, abs=1e-5)
    for end in (found.slope_intercept.lower, found.slope_intercept.upper):
        partial_best = minimize_scalar(lambda b, end=end: loss(end, b), bounds=(-9, 9), method="bounded")
        assert 2 * (partial_best.fun - best) == pytest.approx(limit, abs=1e-5)
    best = loss(found.intercept.estimate, 1.0)
    for end in (found.intercept.lower, found.intercept.upper):
        assert 2 * (loss(end, 1.0) - best) == pytest.approx(limit, abs=1e-8)


def test_intervals_of_many_distinct_predictions_are_those_of_all():
    """They come from bins of neighbors, around the exact estimates."""
    rng = np.random.default_rng(3)
    p = expit(rng.normal(-5, 1.5, 6000))
    y = (rng.random(6000) < expit(0.8 * logit(p))).astype(int)
    found = calibration_summary(y, p)

    def loss(b):
        eta = b * logit(p)
        best = minimize_scalar(lambda a: np.sum(np.logaddexp(0, a + eta) - y * (a + eta)), bracket=(-2, 2))
        return best.fun

    least = loss(found.slope.estimate)
    for end in (found.slope.lower, found.slope.upper):
        assert 2 * (loss(end) - least) == pytest.approx(norm.ppf(0.975) ** 2, rel=1e-3)


def spline_reference(y, p, w, quantiles):
    """The penalized fit in a basis of B-splines that are made linear beyond the outer knots."""
    x = log_odds(p)
    values = np.unique(x)
    mass = np.array([w[x == value].sum() for value in values])
    knots = np.interp(quantiles, (np.cumsum(mass) - mass / 2) / mass.sum(), values)
    low, high = knots[0], knots[-1]
    full = np.concatenate([[low] * 4, knots[1:-1], [high] * 4])
    splines = [BSpline(full, row, 3) for row in np.eye(full.shape[0] - 4)]
    # natural: the second derivative vanishes at both ends
    ends = np.array([[s.derivative(2)(low), s.derivative(2)(high)] for s in splines])
    natural = np.linalg.svd(ends.T)[2][2:]

    def column(coefficients):
        s = BSpline(full, coefficients, 3)
        slope, inside = s.derivative(), np.clip(x, low, high)
        return s(inside) + np.where(x < low, slope(low), slope(high)) * (x - inside)

    basis, share = np.column_stack([column(row) for row in natural]), w / w.sum()
    penalty = 1e-4 * (share @ y) * (1 - share @ y) * w.sum()

    def loss(at):
        eta = basis @ at
        roughness = share @ (eta - share @ eta) ** 2
        return float(w @ np.logaddexp(0, np.where(y == 1, -eta, eta)) + penalty / 2 * roughness)

    def gradient(at):
        eta = basis @ at
        centered = eta - share @ eta
        return basis.T @ (w * (1 / (1 + np.exp(-eta)) - y) + penalty * share * centered)

    found = minimize(loss, np.zeros(basis.shape[1]), jac=gradient, method="BFGS", options={"gtol": 1e-8})
    return 1 / (1 + np.exp(-basis @ found.x))


def test_curve_and_distances():
    y, p, w = sample(4)
    curve = spline_reference(y, p, w, KNOTS)
    found = calibration_summary(y, p, sample_weight=w, weights="frequency")
    np.testing.assert_allclose(found.curve[np.searchsorted(found.probabilities, p)], curve, atol=1e-5)
    gap = np.repeat(np.abs(p - curve), w)
    assert found.ici == pytest.approx(gap.mean(), abs=1e-5)
    assert found.e50 == pytest.approx(np.quantile(gap, 0.5, method="inverted_cdf"), abs=1e-5)
    assert found.e90 == pytest.approx(np.quantile(gap, 0.9, method="inverted_cdf"), abs=1e-5)
    assert found.emax == pytest.approx(gap.max(), abs=1e-5)
    ici = integrated_calibration_index(y, p, sample_weight=w)
    assert ici == found.ici
    # a ratio of sums over samples: it knows neither the unit of the weights nor the number of repetitions
    for scaled in (7 * w, 1e-6 * w):
        assert integrated_calibration_index(y, p, sample_weight=scaled) == pytest.approx(ici, abs=1e-9)


@pytest.mark.parametrize(
    ("p", "y", "w"),
    [
        (
            [0.01, 0.04, 0.07, 0.29, 0.42, 0.55, 0.59, 0.79],
            [0, 0, 1, 0, 0, 0, 1, 0],
            [9, 1, 7, 5, 5, 4, 3, 4],
        ),
        ([0.06, 0.07, 0.36, 0.41, 0.44, 0.5], [0, 0, 1, 0, 1, 1], [753, 173, 2, 944, 270, 925]),
    ],
)
def test_curve_where_steps_have_to_be_halved(p, y, w):
    """All rows of a prediction have one outcome: steps pass far beyond the best curve."""
    p, y, w = np.array(p), np.array(y), np.array(w, dtype=float)
    curve = smooth_frequency(group_outcomes(y, p, w))
    np.testing.assert_allclose(curve, spline_reference(y, p, w, KNOTS), atol=1e-5)


def test_curve_with_one_knot():
    # predictions that cannot be told from 0 hold all knots; a straight line is left, as of two predictions
    y, w = np.array([0, 1, 0, 1, 0]), np.array([85.0, 5.0, 9.0, 0.5, 0.5])
    apart = smooth_frequency(group_outcomes(y, np.array([1e-18, 1e-18, 1e-20, 0.5, 0.5]), w))
    together = smooth_frequency(group_outcomes(y, np.full(5, 1e-18).clip([0, 0, 0, 0.5, 0.5]), w))
    assert together == pytest.approx([5 / 99, 0.5], abs=1e-3)
    assert apart == pytest.approx(together[[0, 0, 1]], abs=1e-9)


def test_equal_predictions_have_an_intercept_and_no_slope():
    found = calibration_summary(np.repeat([0, 1], [60, 20]), np.full(80, 0.4), confidence=0.95)
    # logit of 1/4 less that of 2/5
    assert found.intercept.estimate == pytest.approx(np.log(1 / 3) - np.log(2 / 3))
    # 20 events or more, and 20 or fewer, have the probability .025 at the ends
    low, high = expit(np.array([found.intercept.lower, found.intercept.upper]) + logit(0.4))
    assert [binom.sf(19, 80, low), binom.cdf(20, 80, high)] == pytest.approx([0.025, 0.025])
    assert np.isnan(found.slope.estimate)


@pytest.mark.parametrize("mass", [0.1, 1.0, 1 / 3, 7e-5])
@pytest.mark.parametrize("n", [10, 20, 70, 350])
def test_quantiles_of_equal_weights_do_not_miss_by_rounding(n, mass):
    values = np.random.default_rng(n).permutation(n).astype(float)
    for level in (0.1, 0.5, 0.9):
        # the least value that so many tenths of the rows do not exceed
        assert list(_weighted_quantiles(values, np.full(n, mass), [level])) == [round(level * n) - 1]


def test_large_and_scaled():
    y, p, w = sample(5)
    repeated, q = np.repeat(y, w), np.repeat(p, w)
    found = calibration_summary(y, p, sample_weight=w, weights="frequency")
    assert (found.n_samples, found.n_events) == (repeated.shape[0], repeated.sum())
    assert found.observed_minus_expected == pytest.approx(repeated.mean() - q.mean())
    ratio = found.observed_over_expected
    assert ratio.estimate == pytest.approx(repeated.sum() / q.sum())
    exact = binomtest(int(repeated.sum()), repeated.shape[0]).proportion_ci(method="exact")
    assert (ratio.lower, ratio.upper) == pytest.approx((exact.low / q.mean(), exact.high / q.mean()))
    brier = np.mean((repeated - q) ** 2)
    assert found.brier == pytest.approx(brier)
    assert found.scaled_brier == pytest.approx(1 - brier / np.var(repeated))


def test_borders():
    # all outcomes equal: no line, the curve is the base rate
    found = calibration_summary([0, 0, 0], [0.1, 0.2, 0.6])
    assert found.ici == pytest.approx(0.3)
    assert np.isnan([found.intercept.estimate, found.slope.estimate, found.scaled_brier]).all()
    ratio = found.observed_over_expected
    assert (ratio.estimate, ratio.lower) == (0.0, 0.0)
    # no event in three samples: the probability that has .975 of one or more, over the mean prediction .3
    assert ratio.upper == pytest.approx((1 - 0.025 ** (1 / 3)) / 0.3)
    assert "slope                not determined" in str(found)
    # separated: an intercept, no slope; the curve is finite
    found = calibration_summary([0, 0, 1, 1], [0.1, 0.2, 0.6, 0.7])
    assert math.isfinite(found.intercept.upper)
    assert math.isnan(found.slope.estimate)
    assert ((found.curve > 0) & (found.curve < 1)).all()
    assert (np.diff(found.curve) >= -1e-12).all()
    # nothing expected
    assert math.isnan(calibration_summary([0, 0], [0.0, 0.0]).observed_over_expected.estimate)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6])
def test_few_distinct_predictions_of_equal_frequency(k):
    p = np.linspace(0.2, 0.7, k)
    # two of five in each
    y, repeated = np.tile([0, 0, 1, 0, 1], k), np.repeat(p, 5)
    assert integrated_calibration_index(y, repeated) == pytest.approx(np.abs(0.4 - p).mean(), abs=1e-9)


@pytest.mark.parametrize(
    ("y", "p", "w"),
    [
        # log-odds of nearly the same size, and one that is very far away
        ([1, 0, 1, 1, 1, 0], [0.5, 1e-200, 1e-300, 1e-3, 0.5 + 2**-53, 1e-3], [1, 1e5, 100, 1e10, 10, 1]),
        # others are so rare that the share of events is rounded
        ([1, 1, 0, 0, 1, 0], [1 - 1e-10, 1e-300, 5e-324, 0.5, 0.5, 1e-300], [10, 1e12, 1, 1, 1e5, 1]),
        (
            [1, 0, 0, 0, 1, 0],
            [0.5, 5e-324, 1 - 1e-10, 1 - 2**-53, 5e-324, 0.5],
            [1e12, 1, 1e5, 1e5, 100, 100],
        ),
        ([0, 0, 1, 0, 1, 0], [1e-3, 1 - 2**-53, 0.7, 1e-16, 5e-324, 1e-300], [1, 1, 100, 2, 10, 1e5]),
    ],
)
def test_the_line_is_found_for_extreme_predictions_and_frequencies(y, p, w):
    data = LogitOutcomes(group_outcomes(np.array(y), np.array(p), np.array(w, dtype=float)))
    fit = data.fit_both()
    assert fit.finite
    residual = data.positives * fit.complement() - data.negatives * fit.prob()
    # both derivatives vanish, compared with the parts that they are the sums of
    for part in (np.ones_like(data.x), data.u()):
        assert abs(residual @ part) < 1e-9 + 1e-6 * (np.abs(residual) @ np.abs(part))
    slope = calibration_summary(y, p, sample_weight=w, weights="frequency").slope
    assert slope.lower < slope.estimate < slope.upper


def test_predictions_of_0_and_1_do_not_change_intercept_and_slope():
    y, p = simulated(2000, "beta", 2, 3, seed=1, truth=lambda p: expit(1.08 * logit(p)))
    p[:20], p[20:30] = 1.0, 0.0
    for given in ({}, {"clusters": np.arange(2000) // 4}):
        found = calibration_summary(y, p, **given)
        inside = {key: value[30:] if key == "clusters" else value for key, value in given.items()}
        expected = calibration_summary(y[30:], p[30:], **inside)
        for name in ("intercept", "slope", "slope_intercept"):
            assert getattr(found, name).estimate == pytest.approx(getattr(expected, name).estimate, rel=1e-9)
        wanted = expected.slope.lower
        assert found.slope.lower == pytest.approx(wanted, rel=0.02 if "clusters" in given else 1e-9)
        wrong = (y[:20] == 0).sum() + y[20:30].sum()
        assert (found.n_contradicted, found.n_extreme) == (wrong, 30)
        assert f"{wrong} of 30 predictions of exactly 0 or 1 were contradicted" in str(found)
        # the curve is the event frequency of these predictions
        assert (found.curve[0], found.curve[-1]) == (y[20:30].mean(), y[:20].mean())
        np.testing.assert_allclose(found.curve[1:-1], expected.curve, rtol=1e-9)
        gaps = 1970 * expected.ici + 10 * found.curve[0] + 20 * (1 - found.curve[-1])
        assert found.ici == pytest.approx(gaps / 2000, rel=1e-9)
    with pytest.warns(UserWarning, match="only 0 and 1"):
        certain = calibration_summary([0, 1] * 20, [0, 1, 1, 1] * 10)
    assert str(certain.slope) == str(certain.intercept) == "not determined"
    assert certain.ici == pytest.approx(0.25)


def test_events_alone_are_as_many_as_their_units():
    y, p = np.ones(12, dtype=int), np.full(12, 0.9)
    weight, clusters = np.arange(1.0, 13), np.repeat(np.arange(4), 3)
    kish = weight.sum() ** 2 / (weight @ weight)
    with pytest.warns(UserWarning, match="clusters"):
        in_clusters = calibration_summary(y, p, clusters=clusters)
    weighted = calibration_summary(y, p, sample_weight=weight)
    for found, size in ((calibration_summary(y, p), 12), (in_clusters, 4), (weighted, kish)):
        ratio = found.observed_over_expected
        # all events: the probability p with p**size = .025
        assert (ratio.lower, ratio.upper) == pytest.approx((0.025 ** (1 / size) / 0.9, 1 / 0.9))


@pytest.mark.parametrize("kind", ["clusters", "weights"])
def test_dependent_events_are_fewer(kind):
    """Samples and weights that are repeated in clusters have the interval of as many clusters, about."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.2, 0.8, 400)
    y = (rng.random(400) < p).astype(int)
    alone = calibration_summary(y, p).observed_over_expected
    if kind == "clusters":
        y, p, given = np.tile(y, 5), np.tile(p, 5), {"clusters": np.tile(np.arange(400), 5)}
        size = 400.0
    else:
        weight = np.where(rng.random(400) < 0.5, 1.0, 9.0)
        given, size = {"sample_weight": weight}, weight.sum() ** 2 / (weight @ weight)
    ratio = calibration_summary(y, p, **given).observed_over_expected
    wider = (ratio.upper - ratio.lower) / (alone.upper - alone.lower)
    assert wider == pytest.approx((400 / size) ** 0.5, rel=0.1)


def test_ratio_of_a_case_control_sample_has_the_precision_of_its_cases():
    rng = np.random.default_rng(0)
    p = 0.04 * rng.random(20_000)
    y = (rng.random(20_000) < p).astype(int)
    kept = (y == 1) | (rng.random(20_000) < 0.25)
    found = calibration_summary(y[kept], p[kept], sample_weight=np.where(y == 1, 1.0, 4.0)[kept])
    ratio = found.observed_over_expected
    assert np.log(ratio.upper / ratio.estimate) == pytest.approx(1.96 / np.sqrt(y.sum()), rel=0.05)


def test_the_measures_of_the_table_of_rms():
    """C by pairs, likelihood ratios by general optimization, and the z of the test."""
    y, p, _ = sample(3)
    found = calibration_summary(y, p)
    events, others = p[y == 1], p[y == 0]
    pairs = (events[:, np.newaxis] > others) + 0.5 * (events[:, np.newaxis] == others)
    variances = (pairs.mean(axis=axis).var(ddof=1) / pairs.shape[1 - axis] for axis in (0, 1))
    area, margin, c = pairs.mean(), norm.ppf(0.975) * math.sqrt(sum(variances)), found.c_index
    assert (c.estimate, c.lower, c.upper) == pytest.approx((area, area - margin, area + margin))
    dxy = found.somers_d
    assert (dxy.estimate, dxy.upper) == pytest.approx((2 * c.estimate - 1, 2 * c.upper - 1))

    def loss(at):
        return float(np.sum(np.logaddexp(0, np.where(y == 1, -1, 1) * (at[0] + at[1] * log_odds(p)))))

    n, null, best = y.size, -binomial_log_likelihood(y), loss(maximize(loss, 2))
    ratio, of_predictions = 2 * (null - best), 2 * (loss([0, 1]) - best)
    assert found.r2 == pytest.approx((1 - np.exp(-ratio / n)) / (1 - np.exp(-2 * null / n)))
    assert found.discrimination_index == pytest.approx((ratio - 1) / n)
    assert found.unreliability_index == pytest.approx((of_predictions - 2) / n)
    assert found.quality_index == pytest.approx((ratio - of_predictions + 1) / n)
    assert found.unreliability_pvalue == pytest.approx(chi2.sf(of_predictions, 2))
    z = SpiegelhalterTest(method="asymptotic").test(y, p)
    assert (found.spiegelhalter_z, found.spiegelhalter_pvalue) == pytest.approx((z.statistic, z.pvalue))


def binomial_log_likelihood(y):
    return float(np.sum(np.log(np.where(y == 1, y.mean(), 1 - y.mean()))))


def test_the_interval_of_c_of_clusters_and_weights():
    y, p, w = sample(4)
    plain, alone = calibration_summary(y, p), calibration_summary(y, p, clusters=np.arange(y.size))
    assert alone.c_index == plain.c_index
    twice = calibration_summary(np.tile(y, 2), np.tile(p, 2), clusters=np.tile(np.arange(y.size), 2))
    assert twice.c_index.lower == pytest.approx(plain.c_index.lower, rel=0.01)
    weighted = calibration_summary(y, p, sample_weight=w)
    pairs = (p[y == 1][:, np.newaxis] > p[y == 0]) + 0.5 * (p[y == 1][:, np.newaxis] == p[y == 0])
    area = np.average(pairs, weights=np.outer(w[y == 1], w[y == 0]))
    changes = (
        (np.average(pairs, axis=1, weights=w[y == 0]) - area) * w[y == 1] / w[y == 1].sum(),
        (np.average(pairs, axis=0, weights=w[y == 1]) - area) * w[y == 0] / w[y == 0].sum(),
    )
    error = math.sqrt(y.size / (y.size - 1) * sum(np.sum(change**2) for change in changes))
    assert weighted.c_index.estimate == pytest.approx(area)
    assert weighted.c_index.upper == pytest.approx(area + norm.ppf(0.975) * error)
    for found in (twice, weighted):
        assert np.isnan([found.unreliability_index, found.quality_index, found.spiegelhalter_z]).all()
    given = [0, 0, 1, 1], [0.1, 0.2, 0.6, 0.7]
    assert calibration_summary(*given).c_index.lower == pytest.approx(0.025 ** (1 / 2))
    twice = calibration_summary(*np.tile(given, 16), clusters=np.tile(np.arange(32), 2))
    assert np.isnan(twice.c_index.lower)
