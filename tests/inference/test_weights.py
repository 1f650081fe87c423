"""Sampling weights in every test: statistics by plain sums over samples, equalities, and levels."""

import itertools
from functools import partial

import numpy as np
import pytest
from scipy.special import expit, logit, ndtri
from scipy.stats import binomtest
from sklearn.base import clone

from sklearn_calib import inference
from sklearn_calib._core._grouping import group_sample
from sklearn_calib._core._nested_bins import NestedBins
from sklearn_calib._validation import check_binary
from sklearn_calib.metrics import calibration_summary, smooth_ece
from tests._samples import simulated, simulated_classes
from tests._tiers import thorough, weekly
from tests.inference._properties import check_level
from tests.inference._registry import TESTS


def drawn(n, seed, tied=True):
    y, p = simulated(n, "uniform", 0.1, 0.9, seed=seed, digits=1 if tied else None)
    return y, p, np.random.default_rng(seed).choice([0.5, 1.0, 2.5, 4.0], n)


def variance(y, p, w, u, null=None):
    """Return sum w^2 u^2 v + w (w - c) u^2 (vhat - v), by a loop over samples."""
    q = p if null is None else null
    x = [np.array([1.0, logit(each)]) for each in q]
    v = q * (1 - q)
    information = sum(w[i] * v[i] * np.outer(x[i], x[i]) for i in range(len(y)))
    step = np.linalg.solve(information, sum(w[i] * (y[i] - q[i]) * x[i] for i in range(len(y))))
    total = sum((w[i] * u[i]) ** 2 * v[i] for i in range(len(y)))
    c = total / sum(w[i] * u[i] ** 2 * v[i] for i in range(len(y)))
    change = sum(
        w[i] * (w[i] - c) * u[i] ** 2 * (1 - 2 * q[i]) * (y[i] - q[i] - v[i] * (x[i] @ step))
        for i in range(len(y))
    )
    return max(total + change, total / 4)


def ratio(y, p, w):
    v = p * (1 - p)
    return variance(y, p, w, np.ones_like(p)) / (w**2 @ v)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("method", ["monte_carlo", "asymptotic"])
def test_statistics_are_sums_over_samples(tied, method):
    y, p, w = drawn(60, 1, tied)
    options = {"method": method, **({} if method == "asymptotic" else {"n_resamples": 19})}
    given, w = {"sample_weight": w}, w / w.mean()
    a, one, u = w * (y - p), np.ones(60), 1 - 2 * p

    walk = [0.0, *(a[p <= value].sum() for value in np.unique(p))]
    found = inference.CutoffTest(**options).test(y, p, **given)
    assert found.statistic == pytest.approx((max(walk) - min(walk)) / np.sqrt(variance(y, p, w, one)))
    assert found.estimate == pytest.approx((max(walk) - min(walk)) / w.sum())

    found = inference.SpiegelhalterTest(**options).test(y, p, **given)
    assert found.statistic == pytest.approx((u @ a) / np.sqrt(variance(y, p, w, u)))

    v, x = p * (1 - p), logit(p)
    center = (w**2 * v) @ x / (w**2 @ v)
    parts = a.sum() ** 2 / variance(y, p, w, one), ((x - center) @ a) ** 2 / variance(y, p, w, x - center)
    assert inference.CoxTest(**options).test(y, p, **given).statistic == pytest.approx(sum(parts))
    intercept = inference.CoxTest(parameter="intercept", **options).test(y, p, **given)
    assert intercept.statistic == pytest.approx(parts[0])
    # the fitted intercept solves sum w (y - q) = 0
    shifts = np.linspace(-3, 3, 600_001)
    shift = shifts[np.argmin([abs(w @ (y - expit(x + s))) for s in shifts[::1000]]) * 1000]
    for _ in range(50):
        q = expit(x + shift)
        shift += w @ (y - q) / (w @ (q * (1 - q)))
    q = expit(x + shift)
    center = (w * q * (1 - q)) @ x / (w @ (q * (1 - q)))
    along = ((x - center) @ (w * (y - q))) ** 2 / variance(y, p, w, x - center, q)
    slope = inference.CoxTest(parameter="slope", **options).test(y, p, **given)
    assert slope.statistic == pytest.approx(along, rel=1e-6)

    found = inference.HosmerLemeshowTest(n_bins=2, strategy="uniform", **options).test(y, p, **given)
    total = 0.0
    for rows in (p < 0.5, p >= 0.5):
        mean = w[rows] @ p[rows] / w[rows].sum()
        total += a[rows].sum() ** 2 / ((w[rows] ** 2).sum() * mean * (1 - mean))
    assert found.statistic == pytest.approx(total / ratio(y, p, w))


@pytest.mark.parametrize("tied", [True, False])
def test_pairs_of_samples(tied):
    y, p, w = drawn(14, 2, tied)
    tcal = inference.TCal(n_resamples=19).test(y, p, sample_weight=w)
    kernel = inference.KernelTest(bandwidth=0.2, n_resamples=19).test(y, p, sample_weight=w)
    w = w / w.mean()
    a, v, n = w * (y - p), w**2 * p * (1 - p), 14
    for scale in tcal.scales:
        bins = np.minimum((p * scale.n_bins).astype(int), scale.n_bins - 1)
        size = np.bincount(bins, minlength=scale.n_bins)[bins]
        pairs = [(i, j) for i, j in itertools.permutations(range(n), 2) if bins[i] == bins[j]]
        assert scale.statistic == pytest.approx(sum(a[i] * a[j] / (n * size[i]) for i, j in pairs))
        spread = np.sqrt(2 * sum(v[i] * v[j] / (n * size[i]) ** 2 for i, j in pairs))
        assert scale.null_std == pytest.approx(spread * ratio(y, p, w))
    near = np.exp(-np.abs(p[:, None] - p) / 0.2)
    pairs = list(itertools.permutations(range(n), 2))
    assert kernel.statistic == pytest.approx(sum(near[i, j] * a[i] * a[j] for i, j in pairs) / (n * (n - 1)))
    spread = np.sqrt(2 * sum(near[i, j] ** 2 * v[i] * v[j] for i, j in pairs)) / (n * (n - 1))
    assert kernel.scales[0].null_std == pytest.approx(spread * ratio(y, p, w))


def test_pairs_of_samples_of_classes():
    rng = np.random.default_rng(3)
    n, k = 16, 3
    p = rng.dirichlet(np.ones(k), n)
    p[8:12] = p[:4]
    y, w = rng.integers(0, k, n), rng.choice([0.5, 1.0, 3.0], n)
    tcal = inference.TCal(smoothness=0.4, n_resamples=19).test(y, p, sample_weight=w)
    kernel = inference.KernelTest(bandwidth=0.3, n_resamples=19).test(y, p, sample_weight=w)
    w = w / w.mean()
    r = w[:, None] * (np.eye(k)[y] - p)
    near = np.exp(-0.5 * np.abs(p[:, None] - p).sum(axis=2) / 0.3)
    pairs = list(itertools.permutations(range(n), 2))
    expected = sum(near[i, j] * (r[i] @ r[j]) for i, j in pairs) / (n * (n - 1))
    assert (kernel.statistic, tcal.n_samples) == (pytest.approx(expected), n)
    # unit bins: all samples of the simplex that share a cell of m = floor(16^(2 / 3.6)) = 4
    assert tcal.scales[0].n_bins == 4
    rows = [np.flatnonzero((p == each).all(axis=1)) for each in p[:4]]
    assert tcal.scales[0].n_paired >= sum(len(each) for each in rows if len(each) > 1)


def test_third_cumulant_by_enumeration():
    # gamma tails of the asymptotic method: T of all outcomes of few samples
    p, w = np.array([0.2, 0.2, 0.3, 0.35]), np.array([1.0, 3.0, 0.5, 1.5])
    w, outcomes = w / w.mean(), np.array(list(itertools.product([0, 1], repeat=4)))
    chance, a = np.prod(np.where(outcomes, p, 1 - p), axis=1), w * (outcomes - p)
    t = (a.sum(axis=1) ** 2 - (a**2).sum(axis=1)) / 16
    grouped = group_sample(check_binary([0, 1, 0, 1], p, w, weights="sampling"))
    moments = NestedBins(grouped.samples, 1, scale=grouped.design.weight).moments()
    assert moments.variance[0] == pytest.approx(chance @ t**2)
    assert moments.third_cumulant[0] == pytest.approx(chance @ t**3)


KNOW = [(case.name, case.test) for case in TESTS if case.test._knows_sampling]


@pytest.mark.parametrize(("name", "test"), KNOW, ids=[name for name, _ in KNOW])
def test_equal_weights_scale_and_order(name, test):
    y, p, w = drawn(40, 4)
    plain = test.test(y, p)
    assert test.test(y, p, sample_weight=np.full(40, 2.5)) == plain
    assert test.test(y, p, sample_weight=np.ones(40), weights="frequency") == plain
    if getattr(test, "method", "") == "theory" or getattr(test, "tolerance", 0.0):
        with pytest.raises(ValueError, match="cannot be given sampling weights"):
            test.test(y, p, sample_weight=w)
        return
    if getattr(test, "method", "") == "asymptotic":
        # continuous in the weights
        nearly = test.test(y, p, sample_weight=np.linspace(1.0, 1.0 + 1e-5, 40))
        assert nearly.pvalue == pytest.approx(plain.pvalue, rel=1e-3)
    found = test.test(y, p, sample_weight=w)
    assert (found.weights, found.n_samples) == ("sampling", 40)
    assert found.n_effective == pytest.approx(w.sum() ** 2 / (w @ w))
    assert "sampling weights, effective number" in str(found)
    order = np.random.default_rng(5).permutation(40)
    again = test.test(y[order], p[order], sample_weight=8.0 * w[order])
    assert again.pvalue == pytest.approx(found.pvalue, rel=1e-9)
    assert again.statistic == pytest.approx(found.statistic, rel=1e-9, abs=1e-12)
    # a sample of weight 0 does not count
    nothing = test.test(np.append(y, 1), np.append(p, 0.5), sample_weight=np.append(w, 0.0))
    assert nothing.pvalue == pytest.approx(found.pvalue, rel=1e-9)
    # weights by class: the corrected probabilities are tested without weights
    c, odds = np.where(y, 0.5, 3.0), p / (1 - p) * 6
    found, corrected = test.test(y, p, sample_weight=c), test.test(y, odds / (1 + odds))
    assert (found.weights, found.pvalue) == ("case-control", pytest.approx(corrected.pvalue, rel=1e-6))
    assert "case-control" in str(found)


def test_contradicted_samples_and_rounded_weights_by_class():
    y, p, w = drawn(40, 6)
    y, p = np.append(y, [1, 0]), np.append(p, [0.0, 0.0])
    w = np.append(w, [5.0, 2.0])
    found = inference.CutoffTest(n_resamples=99).test(y, p, sample_weight=w)
    assert (found.pvalue, found.n_contradicted, found.n_extreme) == (0.0, 1, 2)
    assert found.contradicted.tolist() == [40]
    rest = w[np.arange(42) != 40]
    assert found.others.n_effective == pytest.approx(rest.sum() ** 2 / (rest @ rest))
    y, p, _ = drawn(200, 5)
    w = np.where(y == 1, 1.0, 10.0)
    both = (w, w.astype(np.float32) / 3.0)
    exact, rounded = (inference.CoxTest().test(y, p, sample_weight=each) for each in both)
    assert exact.weights == rounded.weights == "case-control"
    assert exact.pvalue == pytest.approx(rounded.pvalue)


def test_frequencies_too_large_to_be_repeated_are_refused_at_once():
    y, p, _ = drawn(100, 7)
    table, classes = np.column_stack([p / 2, p / 2, 1 - p]), np.arange(100) % 3
    given = {"sample_weight": np.full(100, 10**6), "weights": "frequency"}
    for call in (
        lambda: inference.find_segments({"x": p}, y, p, **given),
        lambda: inference.multicalibration_error({"x": p}, y, p, **given),
        lambda: inference.compare_models(y, {"a": p, "b": p**2}, **given),
        lambda: inference.confidence_interval(classes, table, reduction="classwise", **given),
        lambda: inference.SampleSplittingTest().test(y, p, **given),
    ):
        with pytest.raises(ValueError, match=r"100 rows count as 1e\+08 samples.* at most 10\*\*7 of them"):
            call()


def test_clusters_and_asymptotic_combination():
    y, p, w = drawn(120, 8)
    codes = np.repeat(np.arange(30), 4)
    for test in (
        *(inference.TCal, inference.CutoffTest, inference.CoxTest, inference.KernelTest),
        *(inference.CombinedTest, inference.HosmerLemeshowTest, inference.BinomialTest),
    ):
        found = test(n_resamples=99).test(y, p, sample_weight=w, clusters=codes)
        assert (found.n_clusters, found.n_samples, found.weights) == (30, 120, "sampling")
        assert found.n_effective == pytest.approx(w.sum() ** 2 / (w @ w) / found.design_effect)
        assert 0.0 < found.pvalue <= 1.0
    y, p, w = drawn(400, 4, tied=False)
    found = inference.CombinedTest(method="asymptotic").test(y, p, sample_weight=w)
    alone = inference.TCal(method="asymptotic").test(y, p, sample_weight=w)
    assert {part.name: part.pvalue for part in found.scales}["tcal"] == alone.pvalue


def strata(rng, n, ratio):
    """Return predictions that are calibrated in the population, not among samples of the same weight."""
    p, often = expit(rng.normal(-1.0, 1.5, n)), rng.random(n) < ratio / (1 + ratio)
    q = p + 0.8 * p * (1 - p) * np.where(often, -1.0, 1.0)
    return (rng.random(n) < q).astype(int), p, np.where(often, 1.0, ratio)


def nearly_by_class(rng, n, slope, spread=0.3):
    """Return a case-control sample whose weights vary within the classes, and the weights without that."""
    p = expit(rng.normal(-2.0, 1.0, 20 * n))
    y = rng.random(p.size) < expit(slope * (logit(p) + 2.0) - 2.0)
    c = np.where(y, 1.0, 18.0)
    kept = np.flatnonzero(rng.random(p.size) < 1 / c)[:n]
    return y[kept].astype(int), p[kept], c[kept] * np.exp(rng.normal(0, spread, kept.size)), c[kept]


def test_weights_that_depend_nearly_on_the_class_lose_nothing():
    rng, pvalues = np.random.default_rng(0), {"null": [], "nearly": [], "exact": []}
    for seed in range(40):
        test = inference.CoxTest(n_resamples=99, random_state=seed)
        y, p, w, _ = nearly_by_class(rng, 300, 1.0)
        pvalues["null"].append(test.test(y, p, sample_weight=w).pvalue)
        y, p, w, c = nearly_by_class(rng, 300, 0.6)
        found = test.test(y, p, sample_weight=w)
        pvalues["nearly"].append(found.pvalue)
        pvalues["exact"].append(test.test(y, p, sample_weight=c).pvalue)
    check_level(np.array(pvalues["null"]), alpha=0.05)
    power = {name: np.mean(np.array(each) <= 0.05) for name, each in pvalues.items()}
    assert power["nearly"] >= power["exact"] - 0.15 > 0.5
    assert found.weights == "case-control"
    log = np.log(w)
    spread = np.sqrt(sum(log[y == k].var() * np.mean(y == k) for k in (0, 1)))
    assert found.weight_spread == pytest.approx(spread)
    assert f"by class (case-control), spread of log weights {spread:.2g}, tested as" in str(found)
    means = np.array([w[y == k].mean() for k in (0, 1)])
    within = w / means[y]
    assert found.n_effective == pytest.approx(within.sum() ** 2 / (within @ within))
    # by definition: sampling weights within the classes, and corrected probabilities
    odds = p / (1 - p) * means[0] / means[1]
    corrected = test.test(y, odds / (1 + odds), sample_weight=within)
    assert (corrected.weights, corrected.pvalue) == ("sampling", pytest.approx(found.pvalue))


@pytest.mark.thorough
def test_intervals_hardly_widen_with_weights_that_depend_nearly_on_the_class():
    y, p, w, c = nearly_by_class(np.random.default_rng(1), 400, 0.4, spread=1e-5)
    for codes in (None, np.arange(400) // 2):
        given = {"metric": "smooth_ece", "clusters": codes, "n_resamples": 39}
        nearly, exact = (inference.confidence_interval(y, p, sample_weight=each, **given) for each in (w, c))
        assert (nearly.lower, nearly.upper) == pytest.approx((exact.lower, exact.upper), rel=1e-3)
        assert (nearly.weights, exact.weight_spread) == ("case-control", None)
        assert nearly.weight_spread < 2e-5
        summary = partial(calibration_summary, y, p, clusters=codes)
        nearly, exact = (summary(sample_weight=each).slope for each in (w, c))
        assert (nearly.lower, nearly.upper) == pytest.approx((exact.lower, exact.upper), rel=1e-3)
    nearly, exact = (inference.find_regions(y, p, sample_weight=each, n_resamples=99) for each in (w, c))
    assert [region.n_samples for region in nearly] == [region.n_samples for region in exact] != []


@pytest.mark.parametrize(("n_events", "spread", "known"), [(10, 0.7, 1), (9, 0.7, 0), (10, 0.8, 0)])
def test_when_weights_depend_nearly_on_the_class(n_events, spread, known):
    """Ten samples of each class, and a spread of at most a quarter of the difference of means."""
    y = np.repeat([1, 0], [n_events, 40])
    noise = np.where(np.arange(y.size) % 2, spread, -spread)
    noise[:n_events] -= noise[:n_events].mean()
    p = np.linspace(0.1, 0.9, y.size)
    found = inference.CoxTest(n_resamples=19).test(y, p, sample_weight=np.exp(noise + np.where(y, 0.0, 3.0)))
    assert found.weights == ("case-control" if known else "sampling")


@pytest.mark.thorough
def test_classes_with_weights_that_depend_nearly_on_them():
    rng, pvalues = np.random.default_rng(2), []
    for seed in range(30):
        y, p = simulated_classes(3000, [6.0, 2.0, 0.5], seed)
        inclusion = np.array([0.02, 0.1, 0.6])[y] * rng.choice([1.0, 0.8], 3000)
        kept = rng.random(3000) < inclusion
        given = {"sample_weight": 1 / inclusion[kept]}
        found = inference.TCal(n_resamples=99, random_state=seed).test(y[kept], p[kept], **given)
        pvalues.append(found.pvalue)
    assert found.weights == "case-control"
    check_level(np.array(pvalues), alpha=0.05)
    exact = {"sample_weight": 1 / np.array([0.02, 0.1, 0.6])[y[kept]]}
    interval = partial(inference.confidence_interval, y[kept], p[kept], n_resamples=39)
    nearly, alone = (interval(reduction="classwise", **weights) for weights in (given, exact))
    assert nearly.upper == pytest.approx(alone.upper, rel=0.3)
    # the predicted class is no class of the design
    assert interval(reduction="confidence", **given).weights == "sampling"


LEVELS = {
    "tcal": inference.TCal(), "kernel": inference.KernelTest(), "cutoff": inference.CutoffTest(),
    "cox": inference.CoxTest(), "combined": inference.CombinedTest(),
    "smooth": inference.ConsistencyTest("smooth_ece"), "splitting": inference.SampleSplittingTest(),
}  # fmt: skip


@pytest.mark.parametrize(
    ("null", "name", "runs"),
    [
        *(thorough("population", name, 100) for name in LEVELS if name != "smooth"),
        *(weekly(null, name, 250) for null in ("samples", "population") for name in LEVELS),
    ],
)
def test_level(null, name, runs):
    """In the population; among the samples it holds of equal weights."""
    rng, pvalues = np.random.default_rng(9), []
    for _ in range(runs):
        y, p, w = strata(rng, 300, 4.0)
        if null == "samples":
            y = (rng.random(300) < p).astype(int)
        test = clone(LEVELS[name]).set_params(n_resamples=99, random_state=int(rng.integers(1 << 31)))
        pvalues.append(test.test(y, p, sample_weight=w).pvalue)
    check_level(np.array(pvalues), alpha=0.05)
    check_level(np.array(pvalues), alpha=0.1, least=0.0 if name in ("smooth", "splitting") else 0.04)


@pytest.mark.weekly
def test_coverage_of_case_control_samples_of_rare_events():
    """Of 120, fewer than 108 have a probability of 1.3% at a coverage of .95."""
    x = ndtri((np.arange(200_000) + 0.5) / 200_000) - 3.5
    truth, p = expit(x), expit(1.4 * x + 1.4)
    outcomes = np.repeat([1, 0], x.shape[0])
    value = smooth_ece(outcomes, np.tile(p, 2), sample_weight=np.concatenate((truth, 1.0 - truth)) * 2.0**30)
    rng, hits = np.random.default_rng(3), 0
    weight = 2.0 * np.array([1.0 - truth.mean(), truth.mean()])
    for _ in range(120):
        cases = rng.choice(x.shape[0], 750, p=truth / truth.sum())
        controls = rng.choice(x.shape[0], 750, p=(1.0 - truth) / (1.0 - truth).sum())
        y, found = np.repeat([1, 0], 750), p[np.concatenate((cases, controls))]
        interval = inference.confidence_interval(y, found, sample_weight=weight[y], n_resamples=40)
        hits += interval.lower <= value <= interval.upper
    assert hits >= 108


def test_dependence_of_case_control_samples_is_that_of_the_samples():
    """Clusters and weights by class: as the corrected probabilities without weights."""
    rng = np.random.default_rng(0)
    p, codes = expit(rng.normal(-2.5, 1.0, 2000)), np.repeat(np.arange(80), 25)
    y = (rng.random(2000) < p).astype(int)
    kept = (y == 1) | (rng.random(2000) < 0.15)
    y, p, codes, w = y[kept], p[kept], codes[kept], np.where(y == 1, 1.0, 1 / 0.15)[kept]
    corrected = p / (p + 0.15 * (1 - p))
    given = {"metric": "cutoff_calibration_error", "n_resamples": 20, "clusters": codes}
    found = inference.confidence_interval(y, p, sample_weight=w, **given)
    plain = inference.confidence_interval(y, corrected, **given)
    assert found.design_effect == pytest.approx(plain.design_effect)
    assert found.design_effect < 1.3
    alone = inference.confidence_interval(y, p, sample_weight=w, **given | {"clusters": None})
    assert found.upper < 1.5 * alone.upper


@pytest.mark.thorough
def test_clusters_of_weighted_classes_hardly_widen_the_interval_if_they_are_independent():
    rng = np.random.default_rng(1)
    y, p = simulated_classes(1500, [6.0, 2.0, 0.5])
    kept = rng.random(1500) < np.array([0.05, 0.4, 1.0])[y]
    y, p, w = y[kept], p[kept], np.array([20.0, 2.5, 1.0])[y[kept]]
    given = {"metric": "cutoff_calibration_error", "reduction": "classwise", "n_resamples": 20}
    alone = inference.confidence_interval(y, p, sample_weight=w, **given)
    codes = rng.integers(0, y.size // 5, y.size)
    found = inference.confidence_interval(y, p, sample_weight=w, clusters=codes, **given)
    assert found.upper < 1.5 * alone.upper


def test_upper_end_of_equal_predictions_in_a_case_control_sample():
    """The error is abs(prevalence - p), and the number of cases binomial: its exact interval, transformed."""
    y, p, w = np.repeat([1, 0], 300), np.full(600, 0.02), np.repeat([0.02, 1.98], 300)
    found = inference.confidence_interval(y, p, metric="cutoff_calibration_error", sample_weight=w)
    fraction = binomtest(300, 600).proportion_ci(0.95).low
    prevalence = fraction * 0.02 / (fraction * 0.02 + (1 - fraction) * 1.98)
    assert found.upper == pytest.approx(0.02 - prevalence, rel=0.05)
