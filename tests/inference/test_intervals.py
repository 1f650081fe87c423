"""Confidence intervals of metrics."""

from functools import cache, partial

import numpy as np
import pytest
from scipy.special import expit, logit, ndtr, softmax
from scipy.stats import beta, binom, multinomial

from sklearn_calib import metrics
from sklearn_calib._validation import check_binary
from sklearn_calib.inference import compare_models, confidence_interval, expected_under_calibration
from sklearn_calib.inference._intervals import SharedIntervals
from sklearn_calib.metrics import (
    MetricKernel,
    calibration_decision_loss,
    cutoff_calibration_error,
    decision_risk_gap,
    expected_calibration_error,
    kernel_calibration_error,
    logit_smoothed_ece,
    net_benefit,
    smooth_calibration_error,
    smooth_ece,
)
from sklearn_calib.metrics._names import as_metric, metric_names
from tests._samples import simulated, simulated_classes
from tests._tiers import thorough, weekly


def sample(n=400, slope=1.0, seed=0):
    return simulated(n, seed=seed, truth=lambda p: expit(slope * logit(p)))


def population(metric, slope):
    p = (np.arange(20_000) + 0.5) / 20_000
    truth = expit(slope * logit(p))
    weight = np.rint(np.concatenate([truth, 1 - truth]) * 2**38)
    return metric(np.repeat([1, 0], 20_000), np.tile(p, 2), sample_weight=weight)


SQUARED = partial(expected_calibration_error, norm="l2", debias=True)
METRICS = [smooth_ece, cutoff_calibration_error, SQUARED, kernel_calibration_error]


def hits(metric, truth, draw, n_runs, **options):
    """Return how many intervals of drawn samples contain the true value."""
    found = 0
    for seed in range(n_runs):
        y, p = draw(seed)
        interval = confidence_interval(y, p, metric=metric, random_state=seed, **options)
        found += interval.lower - 1e-6 <= truth <= interval.upper + 1e-6
    return found


@pytest.mark.parametrize(
    ("metric", "n_runs", "least"),
    # the kernel error takes longest
    [*(thorough(metric, 12, 9) for metric in METRICS[:3]), *(weekly(metric, 100, 87) for metric in METRICS)],
)
@pytest.mark.parametrize("slope", [1.0, 0.5])
def test_coverage(metric, slope, n_runs, least):
    """Fewer hits have a probability of 1% at a coverage of .93."""
    draw = partial(sample, 400, slope)
    assert hits(metric, population(metric, slope), draw, n_runs, n_resamples=50) >= least


@pytest.mark.parametrize(("prediction", "n"), [(0.3, 14), (0.1, 18)])
def test_exact_coverage_with_equal_predictions(prediction, n):
    """The error is abs(k / n - prediction) with k binomial: coverage is a sum over all k."""
    events = np.arange(n + 1)
    given = {"y_proba": np.full(n, prediction), "metric": cutoff_calibration_error, "n_resamples": 59}
    intervals = [confidence_interval(np.arange(n) < k, **given) for k in events]
    lower, upper = np.array([(interval.lower, interval.upper) for interval in intervals]).T
    for truth in np.linspace(0.0, 0.75, 76):
        value = abs(truth - prediction)
        covered = (lower - 1e-9 <= value) & (value <= upper + 1e-9)
        assert binom.pmf(events, n, truth) @ covered > 0.92


@pytest.mark.parametrize(("label", "far"), [(1, 0.7), (0, 0.3)])
def test_one_label_only(label, far):
    """The population may have one label only; it may also have some of the other."""
    interval = confidence_interval([label] * 30, [0.3] * 30, metric=cutoff_calibration_error)
    assert (interval.estimate, interval.upper) == pytest.approx((far, far))
    # 0.025 = (1 - rate)^30 at a rate of 0.116 of the other label
    assert far - 0.25 < interval.lower <= far - 0.09


SLOW = {"lower_distance_to_calibration": pytest.mark.thorough}


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in metric_names()])
def test_every_named_metric_has_an_interval(name):
    interval = confidence_interval(*sample(n=60), metric=name, n_resamples=20)
    assert interval.lower <= interval.upper
    assert {type(value) for value in vars(interval).values()} <= {float, str, type(None)}
    if interval.method == "inversion":
        assert interval.lower <= interval.corrected <= interval.upper


@pytest.mark.parametrize(
    "metric",
    [kernel_calibration_error, partial(kernel_calibration_error, bandwidth="median"), logit_smoothed_ece],
)
def test_error_of_equal_predictions(metric):
    """In a population it is the difference between them and the event rate."""
    interval = confidence_interval(np.arange(100) < 90, np.full(100, 0.5), metric=metric, n_resamples=25)
    assert interval.corrected == pytest.approx(0.4, abs=0.01)
    # 1.96 standard errors of the event rate
    assert (interval.lower, interval.upper) == pytest.approx((0.34, 0.46), abs=0.025)
    assert "95% confidence" in str(interval)


def test_metric_that_checks_its_weights():
    """A population is a sample with large weights, which the metrics of the package accept."""

    @MetricKernel(calibration_error=True)
    def metric(y, p, *, sample_weight=None):
        return expected_calibration_error(y, p, sample_weight=sample_weight)

    y, p = sample(200)
    expected = confidence_interval(y, p, metric="expected_calibration_error", n_resamples=20)
    found = confidence_interval(y, p, metric=metric, n_resamples=20)
    assert (found.lower, found.upper) == pytest.approx((expected.lower, expected.upper), abs=1e-6)


@pytest.mark.parametrize(
    "given", [{"method": "inversion"}, {"method": "bootstrap"}, {"metric": "area_under_risk_coverage"}]
)
def test_frequency_weights_are_repetition(given):
    y, p = sample(n=30)
    times = np.random.default_rng(0).integers(0, 4, 30)
    options = given | {"random_state": 0, "n_resamples": 50}
    weighted = confidence_interval(y, p, sample_weight=times, weights="frequency", **options)
    repeated = confidence_interval(np.repeat(y, times), np.repeat(p, times), **options)
    assert str(weighted) == f"{repeated}; weights: frequencies"


def weighted_sample(by_class, n=60):
    y, p = sample(n=n)
    p, w = np.round(p, 1), np.exp(0.8 * np.random.default_rng(1).normal(size=n))
    w[: n // 2] = np.round(w[: n // 2]) + 1
    return y, p, np.where(y == 1, 1.0, 5.0) if by_class else w


def redrawn(y, p, w, rng, by_class):
    """One sample with the weights and predictions of the sample, and outcomes under calibration."""
    rows = rng.integers(0, len(p), len(p))
    p, w = p[rows], w[rows]
    chance = p / (p + (1 - p) / 5) if by_class else p
    y = (rng.random(len(p)) < chance).astype(int)
    return y, p, np.where(y == 1, 1.0, 5.0) if by_class else w


@pytest.mark.parametrize("by_class", [False, True])
def test_sampling_weights_stay_with_their_samples(by_class):
    y, p, w = weighted_sample(by_class)
    given = {"metric": cutoff_calibration_error, "n_resamples": 300}
    found, rng = confidence_interval(y, p, sample_weight=w, **given), np.random.default_rng(2)
    samples = (redrawn(y, p, w, rng, by_class) for _ in range(600))
    draws = [cutoff_calibration_error(*drawn, sample_weight=weight) for *drawn, weight in samples]
    assert found.expected == pytest.approx(np.mean(draws), abs=6 * np.std(draws) / np.sqrt(300))
    assert found.estimate == pytest.approx(cutoff_calibration_error(y, p, sample_weight=w))
    # the upper end is at least that of a shift at an end of its score interval
    one, zero = (np.full(60, 1.0), np.full(60, 5.0)) if by_class else (w, w)
    for side in (-1, 1):
        for shift in np.linspace(0, 1, 1001):
            truth = np.clip(p + side * shift, 0, 1)
            chance = truth / (truth + (1 - truth) / 5) if by_class else truth
            variance = np.sum(chance * (one * (1 - truth)) ** 2 + (1 - chance) * (zero * truth) ** 2)
            if side * (w @ (truth - y)) - 0.5 * (w @ w) / w.sum() >= 1.959964 * np.sqrt(variance):
                break
        assert found.upper >= abs(w @ (truth - p)) / w.sum() - 0.0015
    again = confidence_interval(y, p, sample_weight=3 * w, **given)
    assert again.upper == pytest.approx(found.upper, rel=1e-9)
    assert found.n_effective == pytest.approx(w.sum() ** 2 / (w @ w))
    assert found.weights == ("case-control" if by_class else "sampling")
    shared = SharedIntervals(check_binary(y, p, w, weights="sampling"), 0.95, 20, 0)
    for name in ("cutoff_calibration_error", "brier_score"):
        interval = shared.interval(as_metric(name))
        assert (interval.weights, interval.n_effective) == (found.weights, found.n_effective)


def test_bootstrap_of_sampling_weights():
    y, p, w = weighted_sample(False)
    given = {"metric": "brier_score", "n_resamples": 400}
    found = confidence_interval(y, p, sample_weight=w, **given)
    rows, loss = np.random.default_rng(3).integers(0, 60, (20_000, 60)), (y - p) ** 2
    means = (w * loss)[rows].sum(axis=1) / w[rows].sum(axis=1)
    expected = np.quantile(means, [0.025, 0.975])
    # the interval contains the means for the exact limits of the accuracy, too
    wider = np.array([expected[0] - found.lower, found.upper - expected[1]]) / np.ptp(expected)
    assert (wider > -0.06).all()
    assert (wider < 0.15).all()
    equal = confidence_interval(y, p, sample_weight=np.full(60, 0.3), **given)
    assert str(equal) == str(confidence_interval(y, p, **given))


EVERY_METRIC = [
    smooth_ece,
    logit_smoothed_ece,
    partial(logit_smoothed_ece, noise="uniform"),
    cutoff_calibration_error,
    smooth_calibration_error,
    expected_calibration_error,
    partial(expected_calibration_error, strategy="quantile", norm="max"),
    SQUARED,
    decision_risk_gap,
]


@cache
def samples():
    rng = np.random.default_rng(0)
    return {
        "one": ([1], [0.4]),
        "one, saturated": ([0], [1.0]),
        "two, alike": ([0, 1], [0.5, 0.5]),
        "three": ([0, 1, 1], [0.1, 0.6, 0.7]),
        "five, one label": ([1, 1, 1, 1, 1], [0.1, 0.2, 0.3, 0.9, 1.0]),
        "right and saturated": ([0, 1, 1, 0], [0.0, 1.0, 1.0, 0.0]),
        "wrong and saturated": ([1, 0, 1, 0], [0.0, 1.0, 1.0, 0.0]),
        "constant": (rng.integers(0, 2, 30), np.full(30, 0.3)),
        "no events": (np.zeros(30, dtype=int), rng.random(30) / 100),
        "ties": (rng.integers(0, 2, 40), rng.random(40).round(1)),
        "all kinds": (rng.integers(0, 2, 25), np.r_[rng.random(10), np.repeat([0.0, 1.0, 0.5], 5)]),
    }


@pytest.mark.filterwarnings("ignore:The rarer class has only")
@pytest.mark.parametrize("metric", EVERY_METRIC, ids=lambda metric: getattr(metric, "func", metric).__name__)
def test_every_sample_has_an_interval(metric):
    """Of the cutoff error on each sample, of others on the samples of all kinds and on one more in turn."""
    turn = EVERY_METRIC.index(metric)
    for k, (name, data) in enumerate(samples().items()):
        if metric is not cutoff_calibration_error and name != "all kinds" and k != turn % 10:
            continue
        for method in ("inversion", "bootstrap"):
            interval = confidence_interval(*data, metric=metric, method=method, n_resamples=20)
            assert interval.estimate == pytest.approx(metric(*data), rel=1e-8)
            assert 0 <= interval.lower <= interval.upper <= 1
            assert method == "bootstrap" or interval.upper > interval.estimate - 1e-6
            assert np.isnan(interval.expected) == (method == "bootstrap")


SEPARABLE = {
    "one event": (np.repeat([0.05, 0.5], [59, 1]), 0.5),
    "close predictions": (np.repeat([0.02, 0.06], [97, 3]), 0.06),
    "twelve samples": (np.repeat([0.02, 0.1, 0.3, 0.6, 0.8, 0.97], 2), 0.6),
    "twelve events": (np.repeat([0.05, 0.2, 0.4, 0.45, 0.7], [20, 40, 28, 5, 7]), 0.45),
}


@pytest.mark.parametrize("name", SEPARABLE)
@pytest.mark.parametrize(
    ("metric", "power"),
    [("expected_calibration_error", 1), ("calibration_loss", 2), ("smooth_ece", 0), ("decision_risk_gap", 0)],
)
def test_outcomes_that_a_threshold_separates(name, metric, power):
    """An error that is the mean of a power of |y - p| varies at least as that mean of these samples does."""
    p, threshold = SEPARABLE[name]
    y = (p >= threshold).astype(int)
    found = confidence_interval(y, p, metric=metric, n_resamples=50)
    assert 0 <= found.lower <= found.corrected <= found.upper <= 1
    assert found.lower <= found.estimate <= found.upper
    loss = np.abs(y - p) ** power
    if power and found.estimate == pytest.approx(loss.mean()):
        error = loss.std() / np.sqrt(loss.size)
        assert found.lower < loss.mean() - error
        assert found.upper > loss.mean() + error


def separable(n, seed):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.02, 0.3, n)
    return (p > 0.25).astype(int), p


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("metric", "n", "truth"),
    [
        # means over uniform predictions of p and 1 - p, and of their squares
        ("expected_calibration_error", 30, (0.25**2 - 0.02**2 + 0.75**2 - 0.7**2) / 0.56),
        ("calibration_loss", 30, (0.25**3 - 0.02**3 + 0.75**3 - 0.7**3) / 0.84),
        ("calibration_loss", 100, (0.25**3 - 0.02**3 + 0.75**3 - 0.7**3) / 0.84),
    ],
)
def test_coverage_where_a_threshold_separates(metric, n, truth):
    found = hits(as_metric(metric), truth, partial(separable, n), 60, n_resamples=30)
    assert found >= binom.ppf(0.005, 60, 0.93)


def test_predictions_vary_where_classes_are_always_right():
    """The mean over the classes is the mean of 2 (1 - c) / 3, with the confidence c."""
    confidence, y = np.random.default_rng(0).uniform(0.6, 0.95, (60, 1)), np.arange(60) % 3
    p = np.where(np.eye(3)[y] == 1.0, confidence, 0.5 * (1.0 - confidence))
    given = {"metric": "expected_calibration_error", "reduction": "classwise", "n_resamples": 50}
    found = confidence_interval(y, p, **given)
    loss = 2.0 / 3.0 * (1.0 - confidence)
    assert found.estimate == pytest.approx(loss.mean())
    assert found.upper - found.estimate == pytest.approx(1.96 * loss.std() / np.sqrt(60), rel=0.2)


def test_search_ends_where_its_bracket_crosses_by_rounding():
    n = np.array([17, 16, 14, 15, 17, 24, 21, 36, 16, 24])
    events = np.array([0, 1, 3, 2, 7, 15, 11, 24, 14, 21])
    p = np.repeat(np.arange(10) / 10 + 0.05, 2)
    weight = np.column_stack((n - events, events)).ravel()
    y, p = np.repeat(np.tile([0, 1], 10), weight), np.repeat(p, weight)
    interval = confidence_interval(y, p, metric=smooth_ece, n_resamples=50, random_state=316)
    assert interval.lower <= interval.estimate <= interval.upper < 0.2


def overconfident(rng, n):
    p = np.clip(rng.beta(0.3, 0.3, n), 1e-12, 1 - 1e-12)
    return p, expit(0.7 * logit(p))


def bump(rng, n):
    p = rng.random(n)
    return p, np.clip(p + 0.25 * np.exp(-((p - 0.3) ** 2) / 0.005), 0, 1)


NOISY = [
    (partial(decision_risk_gap, threshold="max"), overconfident),
    (calibration_decision_loss, overconfident),
    (logit_smoothed_ece, bump),
]


@pytest.mark.parametrize(
    ("metric", "simulate", "n_runs", "least"),
    [thorough(*NOISY[2], 40, 33), *(weekly(*case, 120, 104) for case in NOISY)],
)
def test_coverage_of_weak_miscalibration_with_much_noise(metric, simulate, n_runs, least):
    """Fewer hits have a probability of 1% or 1.5% at a coverage of .92."""
    p, truth = simulate(np.random.default_rng(0), 40_000)
    weight = np.rint(np.concatenate([truth, 1 - truth]) * 2**38)
    value = metric(np.repeat([1, 0], p.size), np.tile(p, 2), sample_weight=weight)

    def draw(seed):
        rng = np.random.default_rng(seed)
        p, truth = simulate(rng, 200)
        return (rng.random(200) < truth).astype(int), p

    assert hits(metric, value, draw, n_runs, n_resamples=40) >= least


def accuracy(y, p, sample_weight=None):
    return np.average(y == (p >= 0.5), weights=sample_weight)


OTHERS = {
    "brier_score": "brier_score",
    "log_loss": "log_loss",
    "net_benefit": partial(net_benefit, threshold=0.3),
    "area_under_risk_coverage": "area_under_risk_coverage",
    "roc_auc": "roc_auc",
    "accuracy": accuracy,
}


@pytest.mark.parametrize(
    ("name", "n", "n_runs"),
    [
        *(thorough(name, 200, 60) for name in ("brier_score", "accuracy", "roc_auc")),
        *(weekly(name, 200, 200) for name in OTHERS),
        *(weekly(name, 1000, 200) for name in OTHERS if name != "area_under_risk_coverage"),
    ],
)
def test_coverage_of_metrics_that_are_not_calibration_errors(name, n, n_runs):
    """The number of hits has a probability of 99.5% at a coverage of .95."""
    u = (np.arange(20_000) + 0.5) / 20_000
    fine = beta.ppf(u, 2, 3)
    weight, metric = expit(1.6 * logit(fine)), as_metric(OTHERS[name])
    weight = np.concatenate([weight, 1 - weight])
    truth = metric(np.repeat([1, 0], u.size), np.tile(fine, 2), sample_weight=weight)

    def draw(seed):
        return simulated(n, "beta", 2, 3, seed=seed, truth=lambda p: expit(1.6 * logit(p)))

    low, high = binom.ppf([0.0025, 0.9975], n_runs, 0.95)
    assert low <= hits(metric, truth, draw, n_runs, n_resamples=40) <= high


def test_intervals_of_metrics_that_are_not_calibration_errors():
    y, p = simulated(1000, "beta", 2, 3, seed=1, truth=lambda p: expit(1.6 * logit(p)))
    for metric in (*OTHERS.values(), "refinement_loss"):
        interval = confidence_interval(y, p, metric=metric, n_resamples=20)
        assert interval.method == ("normal" if metric in ("brier_score", "log_loss") else "bootstrap")
        assert interval.corrected == interval.estimate
        assert interval.lower < interval.estimate < interval.upper < interval.lower + 0.1
        assert "corrected" not in str(interval) + interval._repr_html_()
        with pytest.raises(ValueError, match="method='inversion' needs a calibration error"):
            confidence_interval(y, p, metric=metric, method="inversion")
    interval = confidence_interval(y, p, metric="brier_score")
    half = 1.959964 * ((y - p) ** 2).std() / np.sqrt(1000)
    ends = interval.estimate - half, interval.estimate + half
    assert (interval.lower, interval.upper) == pytest.approx(ends, rel=1e-6)
    assert interval.expected == pytest.approx(np.mean(p * (1 - p)))
    bootstrap = confidence_interval(y, p, metric="brier_score", method="bootstrap")
    assert (bootstrap.lower, bootstrap.upper) == pytest.approx(ends, abs=0.15 * half)
    assert np.isnan(bootstrap.expected)


@pytest.mark.filterwarnings("ignore:The rarer class has only", "ignore:clusters has", "ignore:Only ")
@pytest.mark.parametrize(
    ("metric", "low", "high"),
    [
        *(("brier_score", 0, 1), ("log_loss", 0, np.inf), ("roc_auc", 0, 1), ("smooth_ece", 0, 1)),
        *(("net_benefit", -np.inf, 1), thorough("refinement_loss", 0, np.inf)),
        thorough("area_under_risk_coverage", 0, 1),
    ],
)
def test_intervals_stay_in_the_range_of_the_metric(metric, low, high):
    p, clusters = np.repeat([0.02, 0.3, 0.95], 8), np.tile(np.arange(4), 6)
    near, far = (p > 0.5).astype(int), (p < 0.5).astype(int)
    near[0] = far[-1] = 1
    for y in (near, far):
        for given in ({}, {"clusters": clusters}, {"method": "bootstrap", "clusters": clusters}):
            found = confidence_interval(y, p, metric=metric, confidence=0.99, n_resamples=200, **given)
            assert low <= found.lower <= found.upper <= high


@pytest.mark.filterwarnings("ignore:The rarer class has only")
@pytest.mark.parametrize("name", ["net_benefit", "mine"])
def test_equal_outcomes_have_the_interval_of_the_exact_limit(name):
    """Twenty samples without an event, of which 12 are treated: net benefit -12/20 at threshold 1/2."""
    p = np.repeat([0.6, 0.1], [12, 8])

    def mine(y, p):
        return np.mean(np.where(p >= 0.5, 2.0 * y - 1.0, 0.0))

    found = confidence_interval(np.zeros(20), p, metric=mine if name == "mine" else name, confidence=0.9)
    rate = 1 - 0.05 ** (1 / 20)
    # events are where they are predicted: 12 * .6 of 12 * .6 + 8 * .1 are treated
    upper = rate * 7.2 / 8.0 - (1 - rate) * 0.6
    if name != "mine":
        # no true positives, and 12 of 20 false positives; the cosine of an angle is their correlation
        other, cosine = 0.6 - beta.ppf(0.05, 12, 9), np.sqrt(1 / 21 * 13 / 9)
        upper = -0.6 + np.sqrt(rate**2 + other**2 + 2 * cosine * rate * other)
    assert found.lower <= found.estimate == pytest.approx(-0.6)
    assert found.upper == pytest.approx(upper, abs=1e-9 if name != "mine" else 2e-3)


@pytest.mark.filterwarnings("ignore:The rarer class has only")
@pytest.mark.parametrize("n", [3, 8, thorough(25)])
@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.8])
def test_limits_of_net_benefit(n, threshold):
    """All numbers of true and false positives, with their probabilities; other outcomes are half and half."""
    odds = threshold / (1 - threshold)
    counts = [(k, m, n - k - m) for k in range(n + 1) for m in range(n + 1 - k)]
    ends = []
    for events, others, untreated in counts:
        y = np.repeat([1, 0, 1, 0], [events, others, untreated // 2, untreated - untreated // 2])
        p = np.repeat([threshold, threshold / 2], [events + others, untreated])
        metric = partial(net_benefit, threshold=threshold)
        found = confidence_interval(y, p, metric=metric, confidence=0.9, n_resamples=20)
        assert found.estimate == pytest.approx((events - odds * others) / n)
        ends.append((found.lower, found.upper))
    lower, upper = np.transpose(ends)
    for treated in (0.03, 0.1, 0.3, 0.7, 1.0):
        for rate in np.linspace(0, 1, 11):
            tp, fp = treated * rate, treated * (1 - rate)
            chance, value = multinomial.pmf(counts, n, [tp, fp, 1 - treated]), tp - odds * fp
            assert max(chance[lower > value + 1e-9].sum(), chance[upper < value - 1e-9].sum()) <= 0.05


def test_auc_with_few_events():
    """Bootstrap samples without events are left out: of the others all quantiles, from the definition."""
    rng = np.random.default_rng(0)
    p = rng.random(100)
    y = np.arange(100) < 3
    with pytest.warns(UserWarning, match="rarer class has only 3 samples"):
        interval = confidence_interval(y, p, metric="roc_auc", n_resamples=400)
    values = []
    for _ in range(1500):
        rows = rng.integers(0, 100, 100)
        events, others = p[rows][y[rows]], p[rows][~y[rows]]
        if events.size:
            values.append(np.mean(events[:, np.newaxis] > others))
    assert len(values) < 1480
    expected = np.quantile(values, [0.025, 0.975])
    assert (interval.lower, interval.upper) == pytest.approx(expected, abs=0.04)
    assert expected_under_calibration(None, p / 20, metric="roc_auc").expected > 0.5
    with pytest.raises(ValueError, match="metric is NaN on"):
        expected_under_calibration(None, p / 1000, metric="roc_auc")


def test_metrics_that_ignore_their_weights():
    y, p = sample(n=60)
    counted = {"sample_weight": np.random.default_rng(0).integers(1, 4, 60), "weights": "frequency"}

    def ignores(y, p, sample_weight=None):
        return accuracy(y, p)

    def lacks(y, p):
        return accuracy(y, p)

    expected = str(confidence_interval(y, p, metric=accuracy, n_resamples=20))
    for metric, error, text in (
        (ignores, ValueError, "does not use sample_weight as numbers of samples"),
        (lacks, TypeError, "cannot be called with sample_weight"),
    ):
        # without weights, samples are repeated
        assert str(confidence_interval(y, p, metric=metric, n_resamples=20)) == expected
        # a population has weights
        of_population = MetricKernel(calibration_error=True)(metric)
        for function, given in (
            (confidence_interval, {"metric": metric} | counted),
            (expected_under_calibration, {"metric": metric} | counted),
            (confidence_interval, {"metric": of_population}),
        ):
            with pytest.raises(error, match=text):
                function(y, p, n_resamples=39, **given)


def test_bad_arguments():
    for arguments, error, named in [
        ({"confidence": 1.0}, ValueError, "confidence"),
        ({"method": "bca"}, ValueError, "method"),
        ({"confidence": 0.999}, ValueError, "n_resamples=200 is too few"),
        ({"n_resamples": 5}, ValueError, "n_resamples"),
        ({"sample_weight": [0.5, 1.0], "weights": "frequency"}, ValueError, "sample_weight"),
        ({"weights": "counts"}, ValueError, "weights"),
        ({"metric": 7}, TypeError, "metric must be the name"),
        ({"metric": "ece"}, ValueError, "metric=.ece. is not the name of a metric"),
        ({"y_proba": [0.1, np.nan]}, ValueError, "y_proba"),
        (
            {"metric": kernel_calibration_error, "sample_weight": [1, 2], "y_true": [1, 1]},
            ValueError,
            "debias",
        ),
    ]:
        good = {"metric": smooth_ece, "y_true": [0, 1], "y_proba": [0.1, 0.2]}
        with pytest.raises(error, match=named):
            confidence_interval(**(good | arguments))


@pytest.mark.parametrize("metric", [decision_risk_gap, calibration_decision_loss])
def test_maps_of_any_kind_need_ties(metric):
    """Of a calibrated population, whose value is 0, the lower end for distinct predictions was above 0."""
    (y, p), kept = sample(120), partial(metric, recalibration="any")
    tied = np.round(p, 1)
    with pytest.raises(ValueError, match=r"120 samples with 120 distinct predictions.*Round"):
        confidence_interval(y, p, metric=kept)
    with pytest.raises(ValueError, match="Round the predictions"):
        compare_models(y, {"a": tied, "b": p}, metric=kept)
    if metric is decision_risk_gap:
        models = {"a": tied, "b": tied[::-1]}
        assert compare_models(y, models, metric=kept, n_resamples=19, confidence=0.9).pairs
    assert confidence_interval(y, tied, metric=kept, n_resamples=20).lower < 0.02
    assert expected_under_calibration(None, p, metric=kept, n_resamples=20).expected > 0.05


def classes(n=300, n_classes=3, temperature=1.0, seed=0):
    rng = np.random.default_rng(seed)
    p = softmax(1.5 * rng.standard_normal((n, n_classes)) + np.linspace(0, -2, n_classes), axis=1)
    q = softmax(temperature * np.log(p), axis=1)
    return (rng.random((n, 1)) > np.cumsum(q, axis=1)[:, :-1]).sum(axis=1), p


@pytest.mark.parametrize(
    ("metric", "reduction"),
    [*((cutoff_calibration_error, each) for each in ("classwise", "confidence")), (smooth_ece, "top-label")],
)
def test_estimate_of_several_classes_is_the_metric(metric, reduction):
    y, p = classes(100, temperature=0.3)
    found = confidence_interval(y, p, metric=metric, reduction=reduction, n_resamples=20)
    assert found.estimate == pytest.approx(metric(y, p, reduction=reduction), abs=1e-5)
    assert 0 < found.lower <= found.corrected < found.estimate < found.upper
    names, fixed = np.array(["a", "b", "c"]), partial(metric, reduction=reduction)
    assert confidence_interval(names[y], p, metric=fixed, n_resamples=20) == found


def test_confidence_is_a_binary_problem():
    y, p = classes(100)
    given = {"metric": "smooth_ece", "n_resamples": 20}
    of_top = confidence_interval(y == p.argmax(axis=1), p.max(axis=1), **given)
    found = confidence_interval(y, p, reduction="confidence", **given)
    assert (found.lower, found.upper) == pytest.approx((of_top.lower, of_top.upper))
    # of two columns, too
    y, p = sample(100)
    two = np.column_stack((1 - p, p))
    found = confidence_interval(y, two, reduction="top-label", **given)
    assert found.estimate == pytest.approx(smooth_ece(y, two, reduction="top-label"), abs=1e-5)


@pytest.mark.parametrize(
    ("reduction", "n_runs", "least"),
    [thorough("classwise", 30, 24), weekly("classwise", 80, 68), weekly("top-label", 80, 68)],
)
def test_coverage_of_several_classes(reduction, n_runs, least):
    """The error of mixed classes at K = 3; fewer hits have a probability below .001 at .95."""
    y, p = classes(200_000, temperature=0.6, seed=999)
    truth = cutoff_calibration_error(y, p, reduction=reduction)
    draw, given = partial(classes, 300, 3, 0.6), {"reduction": reduction, "n_resamples": 50}
    assert hits(cutoff_calibration_error, truth, draw, n_runs, **given) >= least


def labels(n, n_labels, off, seed):
    """Labels with a common cause, whose probabilities differ from the predictions by ``off``."""
    rng = np.random.default_rng(seed)
    p = expit(rng.standard_normal((n, n_labels)) - 0.8)
    latent = rng.standard_normal((n, 1)) + rng.standard_normal((n, n_labels))
    return (ndtr(latent / np.sqrt(2)) < p + off).astype(int), p


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("metric", "n_labels", "off", "n_runs"),
    [
        *((METRICS[1], n_labels, off, 100) for n_labels in (3, 10) for off in (0.0, 0.05, "first")),
        (METRICS[0], 3, 0.05, 60),
        (METRICS[0], 10, "first", 40),
    ],
)
def test_coverage_of_labels(metric, n_labels, off, n_runs):
    """All labels are shifted, or only the first."""
    shifts = 0.15 * np.eye(n_labels)[0] if off == "first" else np.full(n_labels, off)
    found = hits(metric, shifts.mean(), partial(labels, 200, n_labels, shifts), n_runs, n_resamples=40)
    assert found >= binom.ppf(0.005, n_runs, 0.93)


@pytest.mark.thorough
def test_the_mean_of_miscalibrated_labels_has_the_interval_of_its_parts():
    """Errors that labels have in common are not dependence between them."""
    y, p = labels(500, 5, 0.12, 0)
    given = {"metric": "smooth_ece", "n_resamples": 100}
    mean = confidence_interval(y, p, **given)
    parts = [confidence_interval(*pair, **given) for pair in zip(y.T, p.T, strict=True)]
    assert min(part.lower for part in parts) > 0
    assert mean.lower > np.mean([part.lower for part in parts]) - 0.002
    assert mean.upper < np.mean([part.upper for part in parts]) + 0.002


def test_labels_that_are_equal_have_the_interval_of_one():
    """The mean of equal labels varies as one of them, and more than that of independent ones."""
    y, p = sample(200, slope=0.5)
    interval = partial(confidence_interval, metric="cutoff_calibration_error", n_resamples=100)
    of_one, of_equal = interval(y, p), interval(np.tile(y, (4, 1)).T, np.tile(p, (4, 1)).T)
    others = [sample(200, slope=0.5, seed=seed) for seed in range(4)]
    of_others = interval(*(np.column_stack(columns) for columns in zip(*others, strict=True)))
    width = of_one.upper - of_one.lower
    assert of_equal.estimate == pytest.approx(of_one.estimate)
    assert of_equal.upper - of_equal.lower == pytest.approx(width, rel=0.15)
    assert of_others.upper - of_others.lower < 0.8 * width


@pytest.mark.parametrize("options", [{}, {"reduction": "top-label"}, {"metric": "log_loss"}])
def test_weights_of_several_classes_are_repetition(options):
    y, p = classes(45)
    times = 1 + np.arange(45) % 3
    options = {"metric": "cutoff_calibration_error", "n_resamples": 20} | options
    found = confidence_interval(y, p, sample_weight=times, weights="frequency", **options)
    repeated = confidence_interval(np.repeat(y, times), np.repeat(p, times, axis=0), **options)
    assert found.weights == "frequency"
    numbers = repeated.lower, repeated.estimate, repeated.upper
    assert (found.lower, found.estimate, found.upper) == pytest.approx(numbers, rel=1e-12)


def test_bootstrap_of_several_classes():
    """Intervals of averages are those of their standard errors."""
    n = 150
    y, p = classes(n, temperature=0.7)
    one_hot = np.eye(3)[y]
    losses = {
        (None, "log_loss"): -np.log(p[np.arange(n), y]),
        ("classwise", "brier_score"): ((one_hot - p) ** 2).mean(axis=1),
        ("top-label", "brier_score"): ((y == p.argmax(axis=1)) - p.max(axis=1)) ** 2,
    }
    for (reduction, metric), loss in losses.items():
        found = confidence_interval(y, p, metric=metric, reduction=reduction)
        assert found.estimate == pytest.approx(loss.mean())
        margin = 1.96 * loss.std() / np.sqrt(n)
        assert found.upper - found.lower == pytest.approx(2 * margin, rel=0.12)
    canonical = partial(kernel_calibration_error, reduction="canonical")
    found = confidence_interval(y, p, metric=canonical, method="bootstrap", n_resamples=20)
    assert found.estimate == canonical(y, p) < found.upper


@pytest.mark.parametrize("reduction", ["classwise", "top-label"])
def test_clusters_of_several_classes(reduction):
    """Copies of the same samples are one sample each."""
    y, p = classes(60, temperature=0.6)
    copied = {"y_true": np.tile(y, 4), "y_proba": np.tile(p, (4, 1)), "clusters": np.tile(np.arange(60), 4)}
    for metric, n_resamples in (("cutoff_calibration_error", 20), ("brier_score", 200)):
        options = {"metric": metric, "reduction": reduction, "n_resamples": n_resamples}
        alone = confidence_interval(y, p, **options)
        copies = confidence_interval(**copied, **options)
        ratio = (copies.upper - copies.lower) / (alone.upper - alone.lower)
        if metric == "brier_score":
            assert ratio == pytest.approx(1, rel=0.1)
        else:
            assert (copies.n_clusters, copies.design_effect > 2.4) == (60, True)
            assert ratio > 0.7


def test_bad_arguments_of_several_classes():
    for labels, options, named in [
        ("each", {"reduction": "confidence"}, "mutually exclusive"),
        ("each", {"clusters": np.arange(30)}, "multilabel"),
        ("", {"metric": partial(smooth_ece, reduction="confidence"), "reduction": "classwise"}, "only one"),
        ("", {"metric": partial(kernel_calibration_error, reduction="canonical")}, "whole vector"),
        ("", {"reduction": "canonical"}, "reduction must be"),
        ("", {"pos_label": 1}, "pos_label"),
        ("", {"labels": [0, 1]}, "labels"),
    ]:
        y, p = classes(30)
        y = np.eye(3, dtype=int)[y] if labels else y
        with pytest.raises(ValueError, match=named):
            confidence_interval(y, p, **{"metric": "smooth_ece"} | options)


@pytest.mark.parametrize("reduction", [None, "classwise", "confidence", "top-label"])
def test_a_metric_of_the_confidence_is_reduced_once(reduction):
    y, p = simulated_classes(60, np.ones(3))
    given = {} if reduction is None else {"reduction": reduction}
    wanted = metrics.area_under_risk_coverage(y, p, **given)
    found = confidence_interval(y, p, metric="area_under_risk_coverage", n_resamples=20, **given)
    assert found.estimate == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("noise", ["gaussian", "uniform"])
def test_automatic_bandwidth_with_tied_predictions_of_unequal_weights(noise):
    y, p = simulated(60, "choice", np.linspace(0.1, 0.9, 9), seed=1)
    w = 0.37 * np.random.default_rng(1).integers(1, 5, 60)
    metric = partial(metrics.logit_smoothed_ece, noise=noise)
    found = confidence_interval(y, p, metric=metric, sample_weight=w, n_resamples=20)
    assert found.estimate == pytest.approx(metric(y, p, sample_weight=w), abs=1e-9)


def test_weights_by_class_and_the_default_metric():
    y, p = np.arange(40) % 2, np.full((40, 3), 1 / 3)
    with pytest.raises(ValueError, match="no sample of the class of column 2"):
        confidence_interval(y, p, sample_weight=1.0 + y, labels=[0, 1, 2])
    y, p = sample(20)
    given = {"n_resamples": 20}
    assert confidence_interval(y, p, **given) == confidence_interval(y, p, metric="smooth_ece", **given)
    null = expected_under_calibration(y, p, metric="smooth_ece", **given)
    assert str(expected_under_calibration(y, p, **given)) == str(null)


def test_net_benefit_of_clusters_has_its_own_design_effect():
    """Samples of a cluster have equal outcomes, but those that are treated are in clusters of their own."""
    y = np.concatenate((np.repeat(np.arange(120) % 6 == 0, 10), np.arange(30) % 3 == 0)).astype(int)
    p, clusters = (
        np.repeat([0.15, 0.4], [1200, 30]),
        np.append(np.repeat(np.arange(120), 10), 120 + np.arange(30)),
    )
    metric = partial(net_benefit, threshold=0.3)
    alone, found = (confidence_interval(y, p, metric=metric, clusters=each) for each in (None, clusters))
    assert found.design_effect > 9
    assert 1 < (found.upper - found.lower) / (alone.upper - alone.lower) < 1.05


def test_a_wrong_sample_of_small_weight_does_not_make_intervals_shorter():
    y, w = np.arange(100) % 2, np.repeat([1.0, 9.0], [80, 20])
    p, wrong = np.where(y == 1, 0.99, 0.01), np.append(1 - y[0], y[1:])
    none, one = (confidence_interval(each, p, metric="brier_score", sample_weight=w) for each in (y, wrong))
    assert one.upper > none.upper > 0.05


def test_area_under_the_curve_of_separated_outcomes():
    """12 pairs of an event and another sample are independent."""
    y, p = np.repeat([0, 1], [12, 20]), np.linspace(0.1, 0.9, 32)
    found = confidence_interval(y, p, metric="roc_auc", n_resamples=20)
    assert (found.lower, found.upper) == pytest.approx((0.025 ** (1 / 12), 1))
    assert metrics.calibration_summary(y, p).c_index.lower == pytest.approx(found.lower)
    assert confidence_interval(1 - y, p, metric="roc_auc", n_resamples=20).upper == pytest.approx(
        1 - found.lower
    )


def test_losses_of_outcomes_that_are_all_right():
    """20 right ones: up to 16.8 % may be wrong, at level .025."""
    y, wrong = np.repeat([0, 1], 10), 1 - 0.025 ** (1 / 20)
    found = confidence_interval(y, np.where(y == 1, 0.99, 0.01), metric="brier_score")
    assert (found.estimate, found.lower) == pytest.approx((1e-4, 1e-4))
    assert found.upper == pytest.approx((1 - wrong) * 0.01**2 + wrong * 0.99**2)
    assert (
        confidence_interval(1 - y, np.where(y == 1, 0.99, 0.01), metric="brier_score").lower < 0.99**2 - 0.1
    )
    classes, wrong = np.arange(30) % 3, 1 - 0.025 ** (1 / 30)
    found = confidence_interval(classes, np.where(np.eye(3)[classes] == 1, 0.98, 0.01), metric="brier_score")
    of_right, of_wrong = 0.02**2 + 2 * 0.01**2, 0.98**2 + 0.99**2 + 0.01**2
    expected = of_right, (1 - wrong) * of_right + wrong * of_wrong
    assert (found.lower, found.upper) == pytest.approx(expected)


@pytest.mark.parametrize("score", ["brier", "log_loss"])
def test_refinement_loss_is_at_most_the_score_of_the_event_rate(score):
    metric, most = partial(metrics.refinement_loss, score=score), 0.25 if score == "brier" else np.log(2)
    p = (np.arange(200) + 0.5) / 200
    for truth in (lambda p: 1 - p, lambda p: 0.5):
        found = confidence_interval(*simulated(200, truth=truth), metric=metric, n_resamples=20)
        assert found.estimate < found.upper <= most + 1e-11
    with pytest.warns(UserWarning, match="rarer class has only 0 samples"):
        none = confidence_interval(np.zeros(25, dtype=int), p[:25], metric=metric, pos_label=1)
    rate = 1 - 0.0125 ** (1 / 25)
    entropy = -rate * np.log(rate) - (1 - rate) * np.log1p(-rate)
    assert none.upper == pytest.approx(rate * (1 - rate) if score == "brier" else entropy)


@pytest.mark.filterwarnings("ignore:y_proba contains only 0 and 1")
@pytest.mark.parametrize("score", ["brier", "log_loss"])
def test_refinement_loss_where_predictions_of_zero_and_one_are_contradicted(score):
    y, p = np.repeat([1, 0, 1, 0], [5, 95, 90, 10]), np.repeat([0.0, 1.0], 100)
    found = confidence_interval(y, p, metric=partial(metrics.refinement_loss, score=score))
    frequency = np.where(p == 0, 0.05, 0.9)
    least = confidence_interval(y, frequency, metric="brier_score" if score == "brier" else score).upper
    assert found.estimate < least <= found.upper < np.inf


@pytest.mark.thorough
@pytest.mark.parametrize("score", ["brier", "log_loss"])
def test_upper_limits_of_the_refinement_loss_allow_for_the_isotonic_fit(score):
    """Calibrated uniform predictions have 1/6, of the log loss 1/2; the samples have a fifth less."""
    value, found = {"brier": 1 / 6, "log_loss": 1 / 2}[score], []
    for seed in range(40):
        y, p = simulated(40, seed=seed)
        metric = partial(metrics.refinement_loss, score=score)
        found.append(confidence_interval(y, p, metric=metric, confidence=0.9, n_resamples=20))
    assert np.mean([interval.estimate for interval in found]) < 0.85 * value
    # 7 or more of 40 have a probability of .003 at level .05
    assert sum(interval.upper < value for interval in found) < 7
