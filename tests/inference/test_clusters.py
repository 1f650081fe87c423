"""Dependent samples: simulated outcomes, the estimated dependence, level and power of the tests."""

from dataclasses import replace

import numpy as np
import pytest
import sklearn
from scipy.special import expit, log_ndtr, ndtr, ndtri
from scipy.stats import binom, multivariate_normal, t
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_calib import calibrators, inference
from sklearn_calib._core._clusters import Clusters, Dependence, clusters_of_classes, dependence
from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib._core._null import draw_positives, sample_labels
from sklearn_calib.calibrators._certificate import fitted_steps
from sklearn_calib.meta import CalibratedClassifier
from sklearn_calib.metrics import calibration_summary
from tests._references import brier
from tests._tiers import thorough, weekly
from tests.inference._registry import TESTS

CASES = [case for case in TESTS if case.clusters]
every_test = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def dependent(n_clusters, size, rho, seed, shift=0.0):
    """Outcomes of a Gaussian copula, calibrated but for a shift of the log-odds."""
    rng, clusters = np.random.default_rng(seed), np.repeat(np.arange(n_clusters), size)
    p = expit(1.2 * rng.normal(size=clusters.size))
    latent = np.sqrt(rho) * rng.normal(size=n_clusters)[clusters]
    latent += np.sqrt(1 - rho) * rng.normal(size=clusters.size)
    order = rng.permutation(clusters.size)
    y = latent > -ndtri(expit(np.log(p / (1 - p)) + shift))
    return y[order].astype(int), p[order], clusters[order]


def few_clusters(kind, rng):
    """Return ten clusters of 30 samples, or 25 of unequal sizes."""
    size = np.full(10, 30) if kind == "equal" else np.rint(10 + 10 * rng.pareto(1.2, 25)).astype(int)
    return np.repeat(np.arange(size.size), np.minimum(size, 400))


def grouped(prob, group, code, count, rho):
    """Groups of cells whose correlation is known."""
    weight = np.bincount(group, count).astype(float)
    known, count = Dependence(np.array([rho]), np.ones(1)), np.asarray(count, float)
    clusters = Clusters(group, code, count, np.zeros(group.size), int(code.max()) + 1, known)
    return GroupedOutcomes(prob, weight, np.zeros_like(weight), clusters)


@pytest.mark.parametrize("count", [1.0, 3.0])
def test_simulated_outcomes_have_the_probabilities_and_the_covariance_of_the_copula(count):
    prob, rho = np.array([0.02, 0.3, 0.9, 0.0, 1.0]), 0.4
    group, code = np.array([0, 0, 1, 1, 2, 3, 4]), np.array([0, 1, 0, 1, 0, 0, 0])
    sample = grouped(prob, group, code, np.full(7, count), rho)
    drawn = np.hstack(list(draw_positives(sample, 10_000, np.random.default_rng(0)))).astype(float)
    weight = sample.weight
    assert drawn.mean(axis=1) == pytest.approx(weight * prob, abs=5 * np.sqrt(weight.max() ** 2 / 4 / 10_000))
    assert drawn[3:].std(axis=1).tolist() == [0.0, 0.0]
    both = multivariate_normal([0, 0], [[1, rho], [rho, 1]])
    for a, b in ((0, 1), (0, 2), (1, 2)):
        shared = np.intersect1d(code[group == a], code[group == b]).size * count**2
        expected = shared * (both.cdf(ndtri(prob[[a, b]])) - prob[a] * prob[b])
        assert np.cov(drawn[a], drawn[b])[0, 1] == pytest.approx(expected, abs=0.015 * count**2)


def test_slopes_that_differ_keep_the_probabilities():
    prob = ndtr(np.array([-2.0, 0.0, 1.0, 2.0]))
    sample = grouped(prob, np.arange(4), np.zeros(4, int), np.ones(4), 0.2)
    known = replace(sample.clusters.dependence, slope=np.array([0.8]), slope_probability=np.ones(1))
    sample = replace(sample, clusters=replace(sample.clusters, dependence=known))
    drawn = np.hstack(list(draw_positives(sample, 10_000, np.random.default_rng(0)))).astype(float)
    assert drawn.mean(axis=1) == pytest.approx(prob, abs=0.01)
    # the latent correlation of samples a and b
    x = np.array([-2.0, 0.0, 1.0, 2.0])
    for a, b in ((0, 3), (2, 3)):
        shared = (0.2 + 0.64 * x[a] * x[b]) / np.sqrt((1 + 0.64 * x[a] ** 2) * (1 + 0.64 * x[b] ** 2))
        both = multivariate_normal([0, 0], [[1, shared], [shared, 1]]).cdf(x[[a, b]])
        assert np.cov(drawn[a], drawn[b])[0, 1] == pytest.approx(both - prob[a] * prob[b], abs=0.01)


def test_the_design_effect_is_the_ratio_of_variances():
    rng = np.random.default_rng(0)
    prob, code = np.sort(rng.uniform(size=60)), rng.integers(6, size=60)
    sample = grouped(prob, np.arange(60), code, np.ones(60), 0.3)
    drawn = np.hstack(list(draw_positives(sample, 8000, rng)))
    expected = drawn.sum(axis=0).var() / (prob * (1 - prob)).sum()
    assert sample.clusters.design_effect(prob) == pytest.approx(expected, rel=0.06)
    sample = grouped(np.array([0.2, 0.6]), np.array([0, 0, 1]), np.array([0, 1, 0]), np.ones(3), 0.3)
    one = np.hstack(list(draw_positives(sample, 50, np.random.default_rng(0), 2)))
    all_of_them = np.hstack(list(draw_positives(sample, 50, np.random.default_rng(0))))
    assert np.array_equal(one, all_of_them)


def likelihood(rho, tables):
    """Likelihood of clusters of (p, count, positives), integrated over a common shift."""
    z = np.linspace(-9, 9, 401)
    density, total = np.exp(-z * z / 2), 0.0
    for shift in np.linspace(-5, 5, 101):
        product = 1.0
        for rows in tables:
            given = density
            for p, count, positives in rows:
                q = ndtr((ndtri(p) + shift + np.sqrt(rho) * z) / np.sqrt(1 - rho))
                given = given * q**positives * (1 - q) ** (count - positives)
            product *= given.sum()
        total += product
    return total


def test_the_likelihood_is_that_of_the_copula():
    # quantiles in the middle of the bins, so that pooling changes nothing
    p = ndtr(np.array([-1.0, 0.25]))
    tables = [[(p[0], 6, k), (p[1], 6, other)] for k, other in ((0, 2), (4, 6), (1, 3), (0, 4), (3, 6))]
    code = np.repeat(np.arange(5), 2)
    prob, count, positives = np.array([row for rows in tables for row in rows]).T
    found = dependence(code, prob, count, positives)
    # times the prior, the variance ratio of clusters of 12 samples
    expected = np.array([likelihood(rho, tables) * (1 + 11 * rho) for rho in found.rho[1::6]])
    assert found.probability[1::6] / found.probability[1] == pytest.approx(expected / expected[0], rel=0.02)
    assert found.probability.sum() == pytest.approx(1)


def test_what_is_and_is_not_taken_for_dependence():
    y, p, clusters = dependent(100, 10, 0.0, seed=2, shift=0.6)
    assert inference.CoxTest(n_resamples=999).test(y, p, clusters=clusters).pvalue == 0.001
    found = dependence(clusters, p, np.ones_like(p), y.astype(float))
    assert found.median < 0.03
    # Ten large clusters with a correlation of .4, and 200 small ones of independent samples
    y, p, large = dependent(10, 100, 0.4, seed=0)
    other, q, _ = dependent(200, 5, 0.0, seed=1)
    code = np.append(large, 10 + np.repeat(np.arange(200), 5))
    both = [np.append(y, other).astype(float), np.append(p, q)]
    found = dependence(code, both[1], np.ones(2000), both[0])
    alone = dependence(large, p, np.ones(1000), y.astype(float))
    assert found.median > 0.7 * alone.median > 0.1
    p = np.repeat(np.random.default_rng(0).uniform(0.05, 0.95, 100), 3)
    y = np.repeat((np.random.default_rng(1).random(100) < p[::3]).astype(int), 3)
    found = group_outcomes(y, p, None, np.repeat(np.arange(100), 3))
    drawn = np.hstack(list(draw_positives(found, 200, np.random.default_rng(0))))
    assert np.isin(drawn, (0, 3)).mean() > 0.995


def test_slopes_that_differ_are_found():
    rng, clusters = np.random.default_rng(0), np.repeat(np.arange(100), 40)
    q = rng.normal(size=clusters.size)
    for spread in (0.0, 0.5):
        slope = spread * rng.normal(size=100)[clusters]
        y = rng.normal(size=q.size) + slope * q > -np.sqrt(1 + spread**2 * q**2) * q
        found = dependence(clusters, ndtr(q), np.ones_like(q), y.astype(float))
        assert found.slope @ found.slope_probability / found.scale == pytest.approx(spread, abs=0.16)
    result = inference.CoxTest(parameter="slope", n_resamples=199).test(y, ndtr(q), clusters=clusters)
    assert result.pvalue > 0.05


QUICK = {"binomial", "cox", "cutoff_test", "consistency"}


@pytest.mark.parametrize(
    "case", [case if case.name in QUICK else thorough(case) for case in CASES], ids=lambda case: case.name
)
def test_dependence_is_no_miscalibration(case):
    """Without clusters most of these runs reject at 5%."""
    samples = [dependent(40, 25, 0.4, seed) for seed in range(6)]
    rejected = sum(case.test.test(y, p, clusters=clusters).rejects() for y, p, clusters in samples)
    assert rejected <= binom.ppf(0.9999, 6, 0.05)
    if case.name == "cutoff_test":
        assert sum(case.test.test(y, p).rejects() for y, p, _ in samples) > 2


def repeated(rng):
    """Every sample three times."""
    p = expit(1.2 * rng.normal(size=150))
    return (np.repeat(x, 3) for x in (rng.random(150) < p, p, np.arange(150)))


def eight_clusters(rng):
    return dependent(8, 30, 0.4, rng.integers(2**31))


def large_clusters(rng):
    """Dependence in ten large clusters, and small ones of independent samples."""
    y, p, clusters = dependent(10, 100, 0.3, rng.integers(2**31))
    other, q, small = dependent(200, 5, 0.0, rng.integers(2**31))
    return np.append(y, other), np.append(p, q), np.append(clusters, 10 + small)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("draw", "n_runs"),
    [thorough(repeated, 30), weekly(repeated, 200), weekly(eight_clusters, 200), weekly(large_clusters, 200)],
)
def test_level_of_tests_with_clusters(draw, n_runs):
    tests = ("tcal", "cutoff", "intercept", "slope")
    hits = np.zeros(5)
    for seed in range(n_runs):
        y, p, clusters = draw(np.random.default_rng(seed))
        combined = inference.CombinedTest(components=tests, n_resamples=99, random_state=seed)
        result = combined.test(y, p, clusters=clusters)
        hits += np.array([*(part.pvalue for part in result.scales), result.pvalue]) <= 0.05
    assert hits.max() <= binom.ppf(0.999, n_runs, 0.06)


@every_test
def test_miscalibration_is_found(case):
    y, p, clusters = dependent(100, 5, 0.1, seed=0)
    result = case.test.test(y, p**2.5, clusters=clusters)
    assert result.pvalue <= 0.05
    assert (result.n_clusters, result.n_effective) == (100, 500 / result.design_effect)
    assert 1 < result.design_effect < 2
    for text in (str(result), result._repr_html_()):
        assert "100 (design effect 1." in text


@every_test
def test_clusters_of_single_samples_change_nothing(case):
    y, p, _ = dependent(40, 3, 0.0, seed=0)
    alone = np.array([f"s{k}" for k in range(y.size)])
    with_clusters, without = case.test.test(y, p, clusters=alone), case.test.test(y, p)
    assert (with_clusters.pvalue, with_clusters.statistic) == (without.pvalue, without.statistic)
    assert without.n_clusters is without.design_effect is without.n_effective is None
    assert (with_clusters.n_clusters, with_clusters.design_effect, with_clusters.n_effective) == (120, 1, 120)


@every_test
def test_order_names_and_repetition_do_not_matter(case):
    y, p, clusters = dependent(30, 6, 0.2, seed=4)
    p, weight = np.round(p, 1), np.random.default_rng(0).integers(0, 4, size=y.size)
    weighted = case.test.test(y, p, sample_weight=weight, weights="frequency", clusters=clusters)
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(y.size), weight))
    repeated = case.test.test(y[rows], p[rows], clusters=[f"c{c:02d}" for c in clusters[rows]])
    assert weighted.pvalue == repeated.pvalue
    assert weighted.statistic == pytest.approx(repeated.statistic, rel=1e-9)
    assert weighted.n_samples == repeated.n_samples == weight.sum()


def test_contradicted_and_tiny_predictions():
    y, p, clusters = dependent(30, 10, 0.2, seed=5)
    p[:3], y[:3] = 0.0, (1, 0, 0)
    result = inference.CutoffTest(random_state=0).test(y, p, clusters=clusters)
    assert result.pvalue == 0
    assert result.pvalue_others > 0.05
    assert result.n_clusters == 30
    y, p, clusters = dependent(20, 10, 0.3, seed=0)
    assert inference.CutoffTest(random_state=0).test(y, p**40 * 1e-200, clusters=clusters).pvalue < 0.01


@pytest.mark.parametrize(
    ("test", "n_classes"),
    [(case.test, 2) for case in CASES]
    + [(test(n_resamples=19), 3) for test in (inference.TCal, inference.KernelTest)],
)
@pytest.mark.filterwarnings("ignore:clusters has 10 distinct", "ignore:y_proba contains only 0 and 1")
def test_certain_predictions_with_clusters(test, n_classes):
    y, clusters = np.arange(40) % n_classes, np.repeat(np.arange(10), 4)
    result = test.test(y, np.eye(n_classes)[y], clusters=clusters)
    assert (result.pvalue, result.n_clusters, result.design_effect) == (1.0, 10, 1.0)


def test_metadata_routing():
    y, p, clusters = dependent(30, 10, 0.3, seed=6)
    test = inference.CutoffTest(n_resamples=99, random_state=0)
    pvalue = test.test(y, p, clusters=clusters).pvalue
    assert test.fit(p, y, clusters=clusters).pvalue_ == test.score(p, y, clusters=clusters) == pvalue
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(test).set_fit_request(clusters=True).set_score_request(clusters=True)
        pipeline = make_pipeline(routed).fit(p[:, None], y, clusters=clusters)
        assert pipeline[-1].result_.n_clusters == 30
        assert pipeline.score(p[:, None], y, clusters=clusters) == pvalue


def test_simulated_labels_have_the_probabilities_and_depend():
    rng = np.random.default_rng(0)
    p = np.array([[0.2, 0.3, 0.5], [0.2, 0.3, 0.5], [0.0, 0.9, 0.1], [0.2, 0.3, 0.5]])
    code = np.array([0, 0, 0, 1])
    clusters = clusters_of_classes(np.zeros(4, int), p, code)
    for rho, same in ((0.0, 0.38), (0.9, 0.8)):
        known = replace(clusters, dependence=Dependence(np.array([rho]), np.ones(1)))
        labels = np.concatenate(list(sample_labels(p, 6000, rng, known)))
        frequency = (labels[:, :, None] == np.arange(3)).mean(axis=0)
        assert frequency == pytest.approx(p, abs=4 * 0.5 / np.sqrt(6000))
        assert np.mean(labels[:, 0] == labels[:, 1]) >= same - 0.02
        # the chance that independent labels agree is .2^2 + .3^2 + .5^2
        assert np.mean(labels[:, 0] == labels[:, 3]) == pytest.approx(0.38, abs=0.02)


def dependent_classes(n_clusters, size, rho, rng):
    """Labels of three classes, calibrated and dependent within clusters."""
    code = np.repeat(np.arange(n_clusters), size)
    p = rng.dirichlet(np.ones(3), size=code.size)
    latent = np.sqrt(rho) * rng.normal(size=(n_clusters, 3))[code]
    latent += np.sqrt(1 - rho) * rng.normal(size=p.shape)
    return np.argmin(-log_ndtr(latent) / p, axis=1), p, code


@pytest.mark.parametrize(
    "test",
    [
        *(inference.KernelTest(), thorough(inference.KernelTest(bandwidth="adaptive"))),
        *(thorough(inference.TCal()), thorough(inference.TCal(smoothness=1.0))),
    ],
)
def test_several_classes(test):
    test, rng = clone(test).set_params(n_resamples=99, random_state=0), np.random.default_rng(1)
    rejected = 0
    for _ in range(2):
        y, p, clusters = dependent_classes(20, 6, 0.5, rng)
        result = test.test(y, p, clusters=clusters)
        rejected += result.rejects()
        assert 1.5 < result.design_effect < 6
    assert rejected <= 1
    y, p, clusters = dependent_classes(60, 4, 0.1, rng)
    sharp = p**3 / (p**3).sum(axis=1, keepdims=True)
    assert test.test(y, sharp, clusters=clusters).pvalue <= 0.01
    y, p, clusters = y[:100], p[:100], clusters[:100]
    weight = np.full(100, 2)
    twice = test.test(y, p, sample_weight=weight, weights="frequency", clusters=clusters)
    again = test.test(np.repeat(y, 2), np.repeat(p, 2, axis=0), clusters=np.repeat(clusters, 2))
    assert twice.pvalue == again.pvalue


def test_values_are_tested_together():
    """p-values and their adjustment, from the simulated numbers of events of each value."""
    y, p, clusters = dependent(60, 10, 0.3, seed=0)
    p = np.clip(np.round(p, 1), 0.1, 0.9)
    y = np.where((p == 0.9) & (np.arange(y.size) % 2 == 0), 0, y)
    sample = group_outcomes(y, p, None, clusters)
    drawn = np.hstack(list(draw_positives(sample, 499, np.random.default_rng(0)))).astype(float)
    center = sample.weight * sample.prob
    spread = np.sqrt(((drawn.T - center) ** 2).mean(axis=0) + 1)
    null, own = np.abs(drawn.T - center) / spread, np.abs(sample.positives - center) / spread
    result, smallest = inference.BinomialTest(n_resamples=499).test(y, p, clusters=clusters), 0.0
    for k in np.argsort(-own):
        largest = null[:, own <= own[k]].max(axis=1)
        smallest = max(smallest, (1 + np.sum(largest >= own[k] - 1e-9)) / 500)
        assert result.scales[k].adjusted_pvalue == pytest.approx(smallest)
        assert result.scales[k].pvalue == pytest.approx((1 + np.sum(null[:, k] >= own[k] - 1e-9)) / 500)
    assert result.statistic == pytest.approx(own.max())
    assert result.pvalue == min(value.adjusted_pvalue for value in result.scales)
    assert "0.9, where the prediction is too high" in result.reason


def test_expected_values_and_the_percentile_method():
    y, p, clusters = dependent(60, 20, 0.3, seed=2)
    given = {"metric": "cutoff_calibration_error", "n_resamples": 300, "random_state": 0}
    alone = inference.expected_under_calibration(None, p, **given)
    found = inference.expected_under_calibration(y, p, clusters=clusters, **given)
    assert found.expected > alone.expected
    assert found.quantile > 1.15 * alone.quantile
    assert "clusters: 60" in str(found)
    assert "60 (design effect" in found._repr_html_()
    with pytest.raises(ValueError, match="Pass y_true, too"):
        inference.expected_under_calibration(None, p, clusters=clusters, **given)
    assert inference.expected_under_calibration(y, p, **given) == alone
    y, p, clusters = dependent(200, 10, 0.4, seed=1)
    given = {"metric": brier, "method": "bootstrap", "random_state": 0}
    found = inference.confidence_interval(y, p, clusters=clusters, **given)
    loss = (y - p) ** 2 - np.mean((y - p) ** 2)
    error = np.sqrt(np.square(np.bincount(clusters, loss)).sum()) / y.size
    assert found.upper - found.lower == pytest.approx(2 * 1.96 * error, rel=0.15)
    assert (found.n_clusters, found.n_effective) == (200, pytest.approx(2000 / found.design_effect))
    assert "clusters: 200 (design effect" in str(found)


def cr3(y, p, clusters, slope):
    """Intervals of slope and intercept from the matrix formula of the sandwich, or of the intercept."""
    x = np.log(p / (1 - p))
    columns = np.stack((np.ones_like(x), x) if slope else (np.ones_like(x),))
    found = calibration_summary(y, p, clusters=clusters)
    line = found.slope_intercept.estimate + found.slope.estimate * x
    q = expit(line if slope else found.intercept.estimate + x)
    inverse = np.linalg.inv((columns * q * (1 - q)) @ columns.T)
    names = ("slope_intercept", "slope") if slope else ("intercept",)
    for k, name in enumerate(names):
        members = [clusters == c for c in np.unique(clusters)]
        share = [(inverse[k] @ columns[:, m]) ** 2 @ (q * (1 - q))[m] / inverse[k, k] for m in members]
        influence = [inverse[k] @ columns[:, m] @ (y - q)[m] for m in members]
        error = np.sqrt(sum((i / (1 - s)) ** 2 for i, s in zip(influence, share, strict=True)))
        margin = t.ppf(0.975, 1 / np.square(share).sum() - 1) * error
        estimate = getattr(found, name).estimate
        yield getattr(found, name), (estimate - margin, estimate + margin)


def test_the_summary_has_intervals_of_the_sandwich():
    y, p, clusters = dependent(40, 8, 0.3, seed=3)
    keep = np.random.default_rng(0).random(y.size) < 1 / (1 + clusters % 5)
    y, p, clusters = y[keep], p[keep], np.unique(clusters[keep], return_inverse=True)[1]
    found, alone = calibration_summary(y, p, clusters=clusters), calibration_summary(y, p)
    for name in ("intercept", "slope"):
        assert getattr(found, name).estimate == getattr(alone, name).estimate
    for slope in (True, False):
        for interval, expected in cr3(y, p, clusters, slope):
            assert (interval.lower, interval.upper) == pytest.approx(expected, rel=1e-6)
    assert found.observed_over_expected.upper > alone.observed_over_expected.upper
    assert "design effect" in str(found)
    assert (found.slope.method, found.observed_over_expected.method) == ("sandwich", "Clopper-Pearson")
    single = calibration_summary(y, p, clusters=np.arange(y.size))
    assert (single.slope, single.n_clusters, single.n_effective) == (alone.slope, y.size, y.size)


@pytest.mark.filterwarnings("ignore:clusters has 10 distinct")
@pytest.mark.parametrize(
    ("kind", "n_runs"), [thorough("unequal", 60), weekly("equal", 200), weekly("unequal", 200)]
)
def test_intervals_of_the_intercept_cover_with_few_clusters(kind, n_runs):
    covered = 0
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        clusters = few_clusters(kind, rng)
        p = expit(1.2 * rng.normal(size=clusters.size))
        latent = np.sqrt(0.2) * rng.normal(size=clusters.max() + 1)[clusters]
        y = (latent + np.sqrt(0.8) * rng.normal(size=p.size) > -ndtri(p)).astype(int)
        interval = calibration_summary(y, p, clusters=clusters).intercept
        covered += interval.lower <= 0 <= interval.upper
    assert covered >= binom.ppf(0.001, n_runs, 0.95)


def test_bad_clusters():
    for clusters, message in [
        (np.zeros(40), "clusters has 1 distinct label, too few"),
        (np.arange(40) % 2, "clusters has 2 distinct labels, too few"),
        (np.arange(40) % 3, "clusters has 3 distinct labels, too few.*at least 4, better 15"),
        (np.arange(39), "clusters has 39 samples but y_true has 40|clusters.*39"),
        (np.where(np.arange(40) == 7, np.nan, np.arange(40) % 20), "clusters has a missing value at index 7"),
        ([None] + ["a"] * 39, "clusters has a missing value at index 0"),
        (np.zeros((40, 2)), "clusters must be one column"),
        ([1, "1"] * 20, "clusters contains 1 and '1', which are equal as text"),
    ]:
        y, p, _ = dependent(10, 4, 0.0, seed=0)
        with pytest.raises(ValueError, match=message):
            inference.CutoffTest().test(y, p, clusters=clusters)


def test_few_clusters_are_warned_of():
    for n_clusters, with_events, message in (
        (14, 14, "clusters has 14 distinct labels. With fewer than 15"),
        (30, 9, "Only 9 clusters contain the outcome 1. With fewer than 10"),
    ):
        y, p, clusters = dependent(n_clusters, 20, 0.0, seed=0)
        y = np.where(clusters < with_events, y, 0)
        with pytest.warns(UserWarning, match=message):
            inference.CutoffTest(n_resamples=19).test(y, p, clusters=clusters)


LIMITS = (inference.CutoffTest, inference.CoxTest, inference.SpiegelhalterTest, inference.HosmerLemeshowTest)


@pytest.mark.parametrize(
    "test",
    [
        *(case.test for case in TESTS if not (case.clusters or case.ordered)),
        *(test(method="asymptotic") for test in LIMITS),
        inference.ConsistencyTest("smooth_ece", resample="pairs"),
    ],
)
def test_methods_for_independent_samples_refuse_clusters(test):
    y, p, clusters = dependent(20, 4, 0.0, seed=0)
    with pytest.raises(ValueError, match="assumes independent samples and cannot be given clusters"):
        test.test(y, p, clusters=clusters)


def models(n_clusters, size, seed):
    """Outcomes of clusters with a common effect, and two models that are wrong by the same amount."""
    rng, clusters = np.random.default_rng(seed), np.repeat(np.arange(n_clusters), size)
    effect, logits = 1.5 * rng.normal(size=n_clusters)[clusters], rng.normal(size=clusters.size)
    y = rng.uniform(size=clusters.size) < expit(logits + effect)
    return y.astype(int), expit(logits + 0.4), expit(logits - 0.4), clusters


def test_comparisons_respect_clusters():
    given = {"intervals": False, "metric": "cutoff_calibration_error", "n_resamples": 39, "random_state": 0}
    y, a, b, clusters = models(60, 10, 9)
    compared = inference.compare_models(y, {"a": a, "b": b}, clusters=clusters, **given)
    assert compared.n_clusters == 60
    assert "60 clusters" in str(compared)
    without = inference.compare_models(y, {"a": a, "b": b}, **given)
    (found,), (alone,) = compared.pairs, without.pairs
    assert found.null_distribution.std() > 1.3 * alone.null_distribution.std()
    assert found.difference == alone.difference
    assert inference.compare_models(y, {"a": a, "b": b}, clusters=np.arange(y.size), **given) == without


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_clusters_are_swapped_whole():
    y, a, b, clusters = models(5, 20, 0)
    given = {"metric": "brier_score", "clusters": clusters, "intervals": False}
    (found,) = inference.compare_models(y, {"a": a, "b": b}, **given).pairs
    loss = np.bincount(clusters, (y - a) ** 2 - (y - b) ** 2) / y.size
    swapped = loss @ np.array(np.meshgrid(*[[1, -1]] * 5)).reshape(5, -1)
    values = np.unique(np.round(found.null_distribution, 10))
    assert values == pytest.approx(np.unique(np.round(swapped, 10)))
    share = np.mean(np.abs(swapped) >= abs(loss.sum()) - 1e-12)
    assert found.pvalue == pytest.approx(share, abs=0.05)


@pytest.mark.filterwarnings("ignore:clusters has 10 distinct", "ignore:Only . clusters contain")
@pytest.mark.parametrize(
    ("kind", "metric", "n_runs"),
    [
        thorough("equal", "cutoff_calibration_error", 80),
        thorough("unequal", "brier_score", 80),
        *(
            weekly(kind, metric, 300)
            for kind in ("equal", "unequal")
            for metric in ("brier_score", "cutoff_calibration_error")
        ),
    ],
)
def test_level_of_comparisons_with_few_clusters(kind, metric, n_runs):
    rejected = 0
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        clusters = few_clusters(kind, rng)
        effects = rng.normal(size=(3, clusters.max() + 1))[:, clusters]
        shared, *own = rng.normal(size=(3, clusters.size))
        y = (rng.random(clusters.size) < expit(1.3 * shared + effects[0])).astype(int)
        a, b = (expit(1.3 * shared + 0.5 * (o + e)) for o, e in zip(own, effects[1:], strict=True))
        given = {"metric": metric, "n_resamples": 199, "random_state": seed, "clusters": clusters}
        (pair,) = inference.compare_models(y, {"a": a, "b": b}, intervals=False, **given).pairs
        rejected += pair.pvalue <= 0.05
    assert rejected <= binom.ppf(0.999, n_runs, 0.05)


def test_certificates_of_dependent_samples_are_wider():
    y, p, clusters = dependent(100, 10, 0.4, seed=0)
    made = calibrators.CertifiedCalibrator(calibrator="passthrough", method="fitted")
    every = (None, clusters, np.arange(y.size))
    alone, found, single = (clone(made).fit(p, y, clusters=given) for given in every)
    assert found.certificate_ > 1.2 * alone.certificate_ == 1.2 * single.certificate_
    assert found.target_ > 1.3 * alone.target_
    paper = calibrators.CertifiedCalibrator("passthrough", method="paper")
    for method in ("asymptotic", "dkw", "paper"):
        with pytest.raises(ValueError, match=f"'{method}' assumes independent"):
            found.cutoff_certificate(method=method)
    for call, message in (
        (lambda: paper.fit(p, y, clusters=clusters), "method='paper' assumes independent samples"),
        (lambda: made.fit(p, y, np.ones(1000), clusters=clusters), "cannot be combined with sample_weight"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    y, p, clusters = dependent(40, 10, 0.2, seed=1)
    found = calibrators.CertifiedCalibrator(method="fitted").fit(p, y, clusters=clusters)
    assert found.certified_size_ == 200
    assert 0 < found.certificate_ < 1


@pytest.mark.parametrize(
    "calibrator",
    [
        *(calibrators.IsotonicCalibrator(), calibrators.HistogramBinningCalibrator(n_bins=8)),
        *map(thorough, (calibrators.PlattCalibrator(), calibrators.SplineCalibrator(monotone=True))),
    ],
)
def test_certificates_of_fitted_maps(calibrator):
    y, p, clusters = dependent(100, 10, 0.4, seed=3)

    def upper(y, p, clusters, *weight, **given):
        return clone(calibrator).fit(p, y, *weight, clusters=clusters).cutoff_certificate(**given).upper

    alone, found = upper(y, p, None), upper(y, p, clusters)
    assert found > 1.15 * alone == 1.15 * upper(y, p, np.arange(y.size))
    order = np.random.default_rng(0).permutation(y.size)
    assert upper(y[order], p[order], [f"c{c:03d}" for c in clusters[order]]) == found
    weight = np.random.default_rng(0).integers(0, 3, size=y.size)
    repeated = upper(*(np.repeat(part, weight) for part in (y, p, clusters)))
    assert upper(y, p, clusters, weight, weights="frequency") == pytest.approx(repeated, rel=1e-9)


def test_what_a_fit_has_met_of_a_cluster_does_not_count():
    """The spread of the simulated walk, for blocks and clusters known beforehand."""
    value, size = np.array([0.25, 0.75]), 40
    code = np.repeat(np.arange(8), 10)
    y, f = np.tile(np.arange(4), 20) == 0, np.repeat(value, size)
    y[size:] = ~y[size:]
    found = group_outcomes(y.astype(int), f, None, code)
    steps = np.hstack(list(fitted_steps(found, 5000, np.random.default_rng(0))))
    rate = (size * value + 0.5) / (size + 1)
    plain = np.hstack(list(draw_positives(replace(found, prob=rate), 5000, np.random.default_rng(1))))
    # each block holds a quarter of the events of its clusters: 2 of 8 are used
    factor = np.sqrt(1 / (1 - 2 / 8))
    assert steps.std(axis=1) == pytest.approx(factor * plain.std(axis=1), rel=0.04)
    assert steps.mean(axis=1) == pytest.approx(found.residual, abs=0.3)


@pytest.mark.thorough
def test_coverage_of_certificates_of_dependent_samples():
    covered = 0
    for seed in range(12):
        y, p, clusters = dependent(60, 20, 0.3, seed)
        calibrator = calibrators.IsotonicCalibrator().fit(p, y, clusters=clusters)
        x = np.sort(expit(1.2 * np.random.default_rng(seed).normal(size=20_000)))
        f = calibrator.transform(x)
        walk = np.cumsum(x - f)[np.append(f[1:] != f[:-1], True)] / x.size
        covered += max(walk.max(), 0) - min(walk.min(), 0) <= calibrator.cutoff_certificate().upper
    assert covered >= binom.ppf(0.001, 12, 0.95)


def test_clusters_reach_the_calibrator_of_a_classifier():
    y, p, clusters = dependent(60, 10, 0.4, seed=0)
    model = FrozenEstimator(LogisticRegression().fit(p[:, None], y))
    direct = calibrators.IsotonicCalibrator().fit(model.predict_proba(p[:, None]), y, clusters=clusters)
    certificate = direct.cutoff_certificate()
    fitted = CalibratedClassifier(model, calibrators.IsotonicCalibrator())
    assert fitted.fit(p[:, None], y, clusters=clusters).cutoff_certificate() == certificate
    with sklearn.config_context(enable_metadata_routing=True):
        routed = CalibratedClassifier(model, calibrators.IsotonicCalibrator().set_fit_request(clusters=True))
        routed.fit(p[:, None], y, clusters=clusters)
        assert routed.cutoff_certificate() == certificate


def test_fits_that_refuse_clusters():
    for calibrator, clusters, message in [
        (calibrators.SmoothedCalibrator(), np.arange(60) // 2, "certificates, which SmoothedCalibrator"),
        (calibrators.SplineCalibrator(), np.arange(60) // 2, "certificates, which SplineCalibrator"),
        (calibrators.PlattCalibrator(), np.arange(60) % 3, "clusters has 3 distinct labels, too few"),
        (calibrators.TemperatureCalibrator(), np.arange(60) // 2, "binary problems, but y has 3 classes"),
    ]:
        several = isinstance(calibrator, calibrators.TemperatureCalibrator)
        p = np.full((60, 3), 1 / 3) if several else np.linspace(0.1, 0.9, 60)
        with pytest.raises(ValueError, match=message):
            calibrator.fit(p, np.arange(60) % (3 if several else 2), clusters=clusters)
