"""What the reliability diagram shows, against plain references."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import beta, binomtest, norm
from sklearn.isotonic import IsotonicRegression

from sklearn_calib import metrics
from sklearn_calib._core._proportion import clopper_pearson
from sklearn_calib._validation import check_binary
from sklearn_calib.plot._curve import reliability_curve
from tests._references import kernel_mean
from tests._samples import simulated


def sample_of(weights=None):
    return check_binary(*simulated(300, "beta", 0.6, 0.6, truth=1.4, digits=2), weights, weights="sampling")


def plain_shift(u, size, events):
    """The shift in bins and its standard deviation: a generic optimizer for each of the twelve strengths."""
    m, center = len(u), (size * u).sum() / size.sum()
    unit = min(1.0, math.sqrt((size * (u - center) ** 2).sum() / size.sum()))
    line = np.column_stack((np.ones(m), (u - center) / unit))

    def loss(eta, n, s):
        return (n * np.logaddexp(0, eta) - s * eta).sum()

    def information(eta, n):
        return n * expit(eta) * expit(-eta)

    def penalized_line(b):
        eta = u + line @ b
        hessian = line.T @ (information(eta, size)[:, None] * line) + np.diag([0, 4.0])
        return loss(eta, size, events) + 2.0 * b[1] ** 2 - 0.5 * np.linalg.slogdet(hessian)[1], hessian

    b = minimize(lambda b: penalized_line(b)[0], np.zeros(2), tol=1e-12).x
    weight = information(u + line @ b, size)
    leverage = [weight[i] * line[i] @ np.linalg.solve(penalized_line(b)[1], line[i]) for i in range(m)]
    size, events = size + leverage, events + 0.5 * np.array(leverage)
    # the slope of the least-squares line through the shift has a prior, and so have the changes of slope
    slope = unit * (u - u.mean()) / ((u - u.mean()) ** 2).sum()
    change, near = np.zeros((m - 2, m)), np.median(np.diff(u))
    for i in range(m - 2):
        left, right = near / (u[i + 1] - u[i]), near / (u[i + 2] - u[i + 1])
        change[i, i : i + 3] = left, -left - right, right
    fits = []
    for waves in np.geomspace(0.5, 24.0, 12):
        strength = information(u, size).mean() * (m / (math.pi * waves)) ** 4
        penalty = 4.0 * np.outer(slope, slope) + strength * change.T @ change
        found = minimize(
            lambda a, penalty=penalty: loss(u + a, size, events) + 0.5 * a @ penalty @ a,
            line @ b,
            jac=lambda a, penalty=penalty: size * expit(u + a) - events + penalty @ a,
            hess=lambda a, penalty=penalty: np.diag(information(u + a, size)) + penalty,
            method="trust-exact",
            options={"gtol": 1e-9},
        )
        hessian = np.diag(information(u + found.x, size)) + penalty
        evidence = -found.fun + 0.5 * (m - 2) * math.log(strength) - 0.5 * np.linalg.slogdet(hessian)[1]
        fits.append((evidence, found.x, np.diag(np.linalg.inv(hessian))))
    evidence, shifts, variances = map(np.array, zip(*fits, strict=True))
    share = np.exp(evidence - evidence.max()) / np.exp(evidence - evidence.max()).sum()
    mean = share @ shifts
    return mean, np.sqrt(share @ (variances + (shifts - mean) ** 2))


@pytest.mark.parametrize("weights", [None, "frequency", "sampling"])
def test_smooth_curve_against_a_plain_penalized_regression(weights):
    rng = np.random.default_rng(0)
    values = np.sort(np.concatenate((rng.uniform(0.02, 0.2, 8), np.linspace(0.22, 0.9, 16))))
    p = rng.choice(values, 400)
    y = (rng.random(400) < np.clip(p + 0.15 * np.sin(9 * p), 0, 1)).astype(int)
    every = {"frequency": rng.integers(1, 4, 400), "sampling": rng.exponential(size=400)}
    w = every.get(weights, np.ones(400))
    given = {} if weights is None else {"sample_weight": w, "weights": weights}
    found = reliability_curve(check_binary(y, p, **given))
    total, events = (np.array([part[p == v].sum() for v in values]) for part in (w, w * y))
    size = total**2 / [(w[p == v] ** 2).sum() for v in values] if weights == "sampling" else total
    shift, sd = plain_shift(logit(values), size, size * events / total)
    t = logit(found.predicted)
    for curve, sign in ((found.observed, 0), (found.band.lower, -1), (found.band.upper, 1)):
        expected = expit(t + np.interp(t, logit(values), shift + sign * norm.ppf(0.975) * sd))
        np.testing.assert_allclose(curve, expected, atol=2e-5)
    assert found.predicted[[0, -1]] == pytest.approx(values[[0, -1]])
    # one curve for both axes, with the smooth ECE of each
    both = reliability_curve(check_binary(y, p, **given), scale="logit")
    np.testing.assert_array_equal(both.observed, found.observed)
    assert found.error == pytest.approx(metrics.smooth_ece(y, p, sample_weight=w))
    words = {None: "", "frequency": "; frequencies"}
    if weights in words:
        assert str(found) == f"smooth reliability curve: {found.label} (n = {w.sum():g}{words[weights]})"


def test_nearly_equal_predictions_have_half_an_event_more():
    """Three events in ten: (3 + 1/2) / (10 + 1), with the variance 1 / (11 q (1 - q)) in log-odds."""
    p = 0.5 + 1e-10 * np.arange(10)
    found, q = reliability_curve(check_binary([1, 0, 0, 1, 0, 0, 1, 0, 0, 0], p)), 3.5 / 11
    np.testing.assert_allclose(found.observed, q, atol=1e-6)
    half = norm.ppf(0.975) / math.sqrt(11 * q * (1 - q))
    np.testing.assert_allclose(found.band.lower, expit(logit(q) - half), atol=1e-6)
    np.testing.assert_allclose(found.band.upper, expit(logit(q) + half), atol=1e-6)


@pytest.mark.parametrize("center", [0.004, 0.996])
def test_a_class_that_is_hardly_expected_has_less_than_half_a_sample_more(center):
    """No sample of ten, and half of the 0.04 that are expected more, so that the curve is not beyond it."""
    found = reliability_curve(
        check_binary(np.full(10, center > 0.5), center + 1e-10 * np.arange(10), pos_label=1)
    )
    expected = 0.02 / 11
    np.testing.assert_allclose(np.minimum(found.observed, 1.0 - found.observed), expected, rtol=0.01)
    assert ((found.band.lower < center) & (center < found.band.upper)).all()


@pytest.mark.parametrize("noise", [1e-15, 1e-9, 1e-6])
def test_rounding_errors_of_predictions_do_not_matter(noise):
    y, p = simulated(900, "choice", np.linspace(0.1, 0.9, 30), truth=1.5)
    other = p + noise * np.random.default_rng(1).random(900)
    exact, noisy = (reliability_curve(check_binary(y, x)) for x in (p, other))
    at = np.linspace(0.11, 0.89, 50)
    for each, other in zip(exact.band.at(at), noisy.band.at(at), strict=True):
        np.testing.assert_allclose(each, other, atol=0.003)


@pytest.mark.parametrize("outcome", [0, 1])
def test_samples_with_one_outcome_have_a_curve(outcome):
    p = np.linspace(0.05, 0.95, 100)
    found = reliability_curve(check_binary(np.full(100, outcome), p, pos_label=1))
    assert (np.abs(found.observed - outcome) < 0.3).mean() > 0.9
    assert (found.band.lower < found.observed).all()
    assert (found.observed < found.band.upper).all()


def test_smooth_curve_of_a_case_control_sample_is_that_of_the_samples_drawn():
    y, p = simulated(600, "beta", 0.8, 3, truth=0.8)
    w = np.where(y == 1, 0.5, 4.0)
    found = reliability_curve(check_binary(y, p, w, weights="sampling"))
    drawn = p / 0.5 / (p / 0.5 + (1 - p) / 4.0)
    plain = reliability_curve(check_binary(y, drawn))
    assert found.weights == "case-control"
    x, t = logit(found.predicted), logit(plain.predicted)
    for one, other in ((found, plain), (found.band, plain.band)):
        for name in ("observed",) if one is found else ("lower", "upper"):
            moved = np.interp(x + np.log(8), t, logit(getattr(other, name)))
            np.testing.assert_allclose(logit(getattr(one, name)) + np.log(8), moved, atol=0.01)


@pytest.mark.thorough
def test_band_covers_the_truth_where_predictions_crowd():
    rng = np.random.default_rng(0)
    median, held = beta.median(0.7, 20), 0
    for _ in range(40):
        p = rng.beta(0.7, 20, 4000)
        y = (rng.random(4000) < expit(0.6 * logit(p))).astype(int)
        lower, upper = reliability_curve(check_binary(y, p)).band.at(median)
        held += bool(lower <= expit(0.6 * logit(median)) <= upper)
    assert held >= 34


@pytest.mark.weekly
@pytest.mark.parametrize("truth", [lambda p: p**1.3, lambda p: p + 0.2 * np.sin(4 * np.pi * p) * (1 - p) * p])
def test_band_covers_the_truth(truth):
    t, rng, held = np.array([0.1, 0.5, 0.9]), np.random.default_rng(7), np.zeros(3)
    for _ in range(300):
        p = rng.beta(0.5, 0.5, 400)
        lower, upper = reliability_curve(check_binary((rng.random(400) < truth(p)).astype(int), p)).band.at(t)
        held += (lower <= truth(t)) & (truth(t) <= upper)
    assert (held / 300 >= 0.91).all()


def few_values(name, n=400):
    rng = np.random.default_rng(1)
    return {
        "two": lambda: rng.choice([0.0005, 0.9995], n),
        "near": lambda: rng.choice([0.3, 0.301], n),
        "six": lambda: rng.choice([0.7, 0.75, 0.8, 0.85, 0.9, 0.95], n),
        "tenths": lambda: np.append(np.round(rng.beta(2, 2, n), 1), [0.123, 0.456, 0.789]),
        "votes": lambda: rng.binomial(5, rng.random(n)) / 5,
        "uniform": lambda: np.round(rng.random(n), 2),
        "narrow": lambda: np.round(rng.normal(0.3, 0.03, n), 2),
        "twentieths": lambda: np.round(20 * rng.random(n)) / 20,
        "many votes": lambda: rng.binomial(25, rng.random(n)) / 25,
        "ten": lambda: np.linspace(0.05, 0.95, 10),
    }[name]()


@pytest.mark.parametrize("scale", ["probability", "logit"])
@pytest.mark.parametrize("name", ["two", "near", "six", "tenths", "votes"])
def test_few_values_are_points_with_exact_intervals(name, scale):
    p = few_values(name)
    y = (np.random.default_rng(2).random(p.size) < p**1.2).astype(int)
    found = reliability_curve(check_binary(y, p), scale=scale)
    values = [v for v in np.unique(p) if (p == v).sum() >= 5]
    np.testing.assert_array_equal(found.predicted, values)
    assert found.kind == "points"
    assert found.band.bars
    for row, v in enumerate(values):
        interval = binomtest(int(y[p == v].sum()), int((p == v).sum())).proportion_ci(method="exact")
        assert found.observed[row] == pytest.approx(y[p == v].mean())
        limits = found.band.lower[row], found.band.upper[row]
        assert limits == pytest.approx((interval.low, interval.high), abs=1e-9)
    assert found.n_elsewhere == p.size - np.isin(p, values).sum()
    assert str(found).startswith("reliability points: ")
    twice = reliability_curve(check_binary(y, p, np.full(p.size, 2), weights="frequency"))
    repeated = reliability_curve(check_binary(np.repeat(y, 2), np.repeat(p, 2)))
    np.testing.assert_allclose(twice.band.lower, repeated.band.lower)


@pytest.mark.parametrize("name", ["uniform", "narrow", "twentieths", "many votes", "ten"])
def test_many_values_are_a_curve(name):
    p = few_values(name)
    assert reliability_curve(check_binary(np.arange(p.size) % 2, p)).kind == "smooth"


@pytest.mark.parametrize("band", ["confidence", "consistency", "bootstrap", "simultaneous"])
def test_many_predictions_of_exactly_0_and_1_are_points_beside_the_curve(band):
    rng = np.random.default_rng(0)
    p = np.concatenate((rng.uniform(0.05, 0.95, 300), np.zeros(60), np.ones(40)))
    y = (rng.random(400) < 0.9 * p + 0.05).astype(int)
    found = reliability_curve(check_binary(y, p), band=band, n_resamples=99)
    assert found.predicted[[0, -1]].tolist() == [0.0, 1.0]
    assert found.observed[[0, -1]] == pytest.approx([y[p == 0].mean(), y[p == 1].mean()])
    assert np.isnan(found.observed[[1, -2]]).all()
    assert found.predicted[[2, -3]] == pytest.approx([0.05, 0.95], abs=0.01)
    if band == "confidence":
        interval = binomtest(int(y[p == 0].sum()), 60).proportion_ci(method="exact")
        assert (found.band.lower[0], found.band.upper[0]) == pytest.approx((interval.low, interval.high))
        assert all(np.isfinite([part.start, part.stop]).all() for part in found.band.departures)
    if band == "consistency":
        assert found.band.upper[0] == 0.0
    assert np.isnan(reliability_curve(check_binary(y, p), scale="logit").observed).sum() == 0
    for number in (4, 5):
        some = np.arange(400) < 300 + number
        least = reliability_curve(check_binary(y[some], p[some]), band=band, n_resamples=99).predicted[0]
        assert (least == 0.0) == (number == 5)


def test_the_curve_of_narrow_predictions_ends_on_the_axis():
    rng = np.random.default_rng(0)
    for p in (rng.uniform(0.28, 0.3, 3000), np.full(50, 0.2)):
        found = reliability_curve(check_binary((rng.random(p.size) < p).astype(int), p))
        assert found.predicted[np.isfinite(found.observed)].max() <= found.edges[-1] + 1e-12


def test_smooth_curve_is_drawn_only_near_predictions():
    rng = np.random.default_rng(0)
    p = np.concatenate((rng.uniform(0.1, 0.15, 400), rng.uniform(0.85, 0.9, 400), [0.47, 0.5, 0.53]))
    curve = reliability_curve(check_binary((rng.random(p.shape[0]) < p).astype(int), p))
    shown = np.isfinite(curve.observed)
    assert shown[(np.abs(curve.predicted - 0.125) < 0.02) | (np.abs(curve.predicted - 0.875) < 0.02)].all()
    # not through three predictions around one half
    assert not shown[np.abs(curve.predicted - 0.5) < 0.05].any()
    drawn = curve.predicted[shown]
    assert 0.1 < drawn.min() < drawn.max() < 0.9


def test_a_frequent_prediction_between_gaps_is_a_point():
    rng = np.random.default_rng(0)
    p = np.concatenate((rng.uniform(0.1, 0.4, 400), np.full(30, 0.6), [0.8]))
    curve = reliability_curve(check_binary((rng.random(431) < p).astype(int), p))
    shown = np.isfinite(curve.observed) & (curve.predicted > 0.45)
    assert curve.predicted[shown].tolist() == [0.6]
    assert curve.band.lower[shown] < curve.observed[shown] < curve.band.upper[shown]
    (row,) = np.flatnonzero(shown)
    assert np.isnan(curve.observed[[row - 1, row + 1]]).all()


@pytest.mark.parametrize("n_bins", [1, 4, 15])
def test_uniform_bins_against_a_loop(n_bins):
    sample = sample_of(np.random.default_rng(0).exponential(size=300))
    curve, rows = reliability_curve(sample, "binned", n_bins, confidence=0.8), []
    for j in range(n_bins):
        member = (sample.p >= j / n_bins) & ((sample.p < (j + 1) / n_bins) | (j == n_bins - 1))
        w = sample.w[member]
        if w.size:
            mean = [float((w * v[member]).sum() / w.sum()) for v in (sample.p, sample.y)]
            size = w.sum() ** 2 / (w**2).sum()
            limits = clopper_pearson(np.array(mean[1] * size), np.array(size), 0.1)
            rows.append([*mean, *limits])
    found = np.column_stack([curve.predicted, curve.observed, curve.band.lower, curve.band.upper])
    np.testing.assert_allclose(found, np.array(rows, dtype=float), rtol=1e-9)
    expected = metrics.expected_calibration_error(sample.y, sample.p, sample_weight=sample.w, n_bins=n_bins)
    assert curve.error == pytest.approx(expected)


@pytest.mark.parametrize("scale", ["probability", "logit"])
@pytest.mark.parametrize("options", [{"strategy": "uniform"}, {"strategy": "quantile"}, {"n_bins": "edges"}])
def test_bins_are_those_of_the_binned_error(options, scale):
    # the axes end at the largest prediction, where "auto" has bins of its own
    sample = sample_of(np.random.default_rng(0).exponential(size=300))
    sample = replace(sample, p=0.2 * sample.p)
    edges = [0, 0.01, 0.05, np.median(sample.p), 0.2, 1]
    options = {"n_bins": edges} if "n_bins" in options else {"n_bins": 5, **options}
    curve = reliability_curve(sample, "binned", **options, scale=scale)
    expected = metrics.expected_calibration_error(sample.y, sample.p, sample_weight=sample.w, **options)
    assert curve.error == pytest.approx(expected, abs=1e-12)


def test_bins_on_logit_axes_share_the_mass():
    p = np.array([0.1, 0.1, 0.2, 0.3, 0.6, 0.7, 0.9, 1.0])
    sample = check_binary([0, 0, 1, 0, 1, 1, 0, 1], p)
    curve = reliability_curve(sample, "binned", 2, scale="logit")
    np.testing.assert_allclose((curve.predicted, curve.observed), ([0.175, 0.8], [0.25, 0.75]))
    expected = metrics.expected_calibration_error(sample.y, p, n_bins=2, strategy="quantile")
    assert curve.error == pytest.approx(expected, abs=1e-15)


def test_bins_of_rare_events_share_the_expected_events():
    rng = np.random.default_rng(0)
    p = expit(rng.normal(-6.0, 1.5, 20_000))
    y = (rng.random(20_000) < p).astype(int)
    for mirrored in (False, True):
        sample = check_binary(1 - y, 1 - p) if mirrored else check_binary(y, p)
        curve = reliability_curve(sample, "binned", 10)
        predicted = 1 - curve.predicted[::-1] if mirrored else curve.predicted
        # means of tenths of the cumulative sum of the predictions
        ordered = np.sort(p)
        tenth = np.minimum(10 * (np.cumsum(ordered) - ordered / 2) / p.sum(), 9.999).astype(int)
        np.testing.assert_allclose(predicted, [ordered[tenth == k].mean() for k in range(10)], rtol=1e-6)


def test_isotonic_curve_is_the_isotonic_fit():
    sample = sample_of()
    curve = reliability_curve(sample, "isotonic", band=None)
    expected = IsotonicRegression(y_min=0, y_max=1).fit(sample.p, sample.y)
    np.testing.assert_allclose(curve.observed, expected.predict(curve.predicted), atol=1e-12)
    parts = metrics.score_decomposition(sample.y, sample.p)
    assert curve.error == parts.miscalibration
    numbers = parts.miscalibration, parts.discrimination, parts.uncertainty
    assert curve.label == "MCB = {:.4f}, DSC = {:.4f}, UNC = {:.4f}".format(*numbers)
    assert curve.band is None


@pytest.mark.parametrize("scale", ["probability", "logit"])
@pytest.mark.parametrize("weights", ["none", "sampling", "case-control"])
def test_kernel_curve_is_that_of_the_paper(scale, weights):
    rng = np.random.default_rng(0)
    p = rng.beta(0.7, 0.7, 60)
    p[:4] = [0.0, 1.0, 1.0, 0.5] if scale == "probability" else [0.001, 0.999, 0.999, 0.5]
    y = (rng.random(60) < p**1.5).astype(int)
    every = {"sampling": rng.exponential(size=60), "case-control": np.where(y, 1.0, 5.0)}
    w = every.get(weights, np.ones(60))
    found = reliability_curve(check_binary(y, p, w, weights="sampling"), "kernel", scale=scale)
    s = metrics.smooth_ece(y, p, sample_weight=w, scale=scale)
    assert (found.kind, found.error_name) == ("kernel", "smECE" if scale == "probability" else "logit smECE")
    assert (found.bandwidth, found.error) == (pytest.approx(s, abs=1e-9), pytest.approx(s, abs=1e-9))
    assert found.band.kind == "bootstrap"
    rows = np.flatnonzero(np.isfinite(found.observed))[::23]
    expected = kernel_mean(found.predicted[rows], p, y, w, s, scale)
    np.testing.assert_allclose(found.observed[rows], expected, atol=1e-6)
    result = metrics.smooth_ece_result(y, p, sample_weight=w, scale=scale)
    density = np.interp(found.predicted, result.grid, result.density)
    np.testing.assert_allclose(found.density, density, atol=0.01 * density.max())
    shown = found.density * w.sum() / w.mean() * s * math.sqrt(2 * math.pi) >= 5
    assert np.isfinite(found.observed[shown]).all()
