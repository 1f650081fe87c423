"""T-Cal for several classes, and its composite null hypothesis."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_calib._core import _simplex_bins as bins
from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._core._nested_bins import NestedBins
from sklearn_calib._core._null import sample_labels
from sklearn_calib.inference import TCal
from sklearn_calib.inference._testing._tcal import _displacement, toward_uncertainty
from tests._samples import simulated, simulated_classes
from tests.inference._properties import check_level


def sample(n=60, n_classes=3, seed=0, power=1.0):
    """Return labels and predictions; calibrated if ``power`` is 1."""
    return simulated_classes(n, np.ones(n_classes), seed, power)


def plain_statistic(y, p, m):
    """Return T at one scale, by loops over cells and pairs of rows."""
    n, total = len(y), 0.0
    residual, code = np.eye(p.shape[1])[y] - p, bins.alcoves(p, m)
    for cell in set(code.tolist()):
        rows = np.flatnonzero(code == cell)
        for i, j in product(rows, rows):
            if i != j:
                total += residual[i] @ residual[j] / (n * len(rows))
    return total


def one_cell(n):
    return bins.SharedCells(np.arange(n), np.array([0]), np.array([n]))


@pytest.mark.parametrize("n_classes", [3, 5])
def test_statistic_is_that_of_the_definition(n_classes):
    y, p = sample(70, n_classes)
    result = TCal(random_state=0, n_resamples=99).test(y, p)
    assert [scale.n_bins for scale in result.scales][:2] == [2, 4]
    for scale in result.scales:
        assert scale.statistic == pytest.approx(plain_statistic(y, p, scale.n_bins), abs=1e-12)


@pytest.mark.parametrize(("n_classes", "n"), [(2, 5), (3, 4), (4, 3)])
def test_moments_by_enumeration(n_classes, n):
    p = np.random.default_rng(0).dirichlet(np.ones(n_classes), n)
    for z, exact_third in [(p, False), (np.repeat(p[:1], n, axis=0), True)]:
        labels = np.array(list(product(range(n_classes), repeat=n)))
        chance = z[np.arange(n), labels].prod(axis=1)
        x = np.array([bins.cell_statistics(one_cell(n), y, z, np.ones(n))[0] for y in labels])
        w, kappa = bins.cell_cumulants(one_cell(n), z, np.ones(n))
        assert (chance @ x, chance @ x**2) == (pytest.approx(0, abs=1e-12), pytest.approx(2 * w[0]))
        if exact_third:
            assert chance @ x**3 == pytest.approx(kappa[0])


def test_third_cumulant_of_a_large_cell():
    # two classes: known from the binary formulas, times 8 for the norm of vectors
    p = np.random.default_rng(0).uniform(0.05, 0.3, 500)
    grouped = group_outcomes(np.zeros(500, dtype=np.int64), p)
    binary = NestedBins(grouped, bin_of=np.zeros(500, dtype=np.int64)).moments()
    y, columns = np.zeros(500, dtype=np.int64), np.column_stack((p, 1 - p))
    moments = bins.class_moments([one_cell(500)], y, columns, np.ones(500))
    assert moments.variance[0] == pytest.approx(4 * binary.variance[0])
    assert moments.pairs[0] == pytest.approx(binary.pairs[0])
    assert moments.third_cumulant[0] == pytest.approx(8 * binary.third_cumulant[0], rel=0.01)
    assert bins.shared_alcoves(np.eye(3), 4).starts.shape == (0,)


def test_moments_through_either_gram_matrix():
    # cells of fewer and of more rows than classes
    rng = np.random.default_rng(1)
    for n in (3, 4, 9):
        p = rng.dirichlet(np.ones(5), n)
        covariance = [np.diag(z) - np.outer(z, z) for z in p]
        total = sum(covariance)
        w, kappa = bins.cell_cumulants(one_cell(n), p, np.ones(n))
        assert w[0] == pytest.approx(np.trace(total @ total) - sum(np.trace(c @ c) for c in covariance))
        mean = p.mean(axis=0, keepdims=True)
        pair = sum(
            mean[0, a] * mean[0, b] * ((np.eye(5)[a] - mean[0]) @ (np.eye(5)[b] - mean[0])) ** 3
            for a, b in product(range(5), repeat=2)
        )
        triple = np.trace(total @ total @ total) * (1 - 1 / n) * (1 - 2 / n)
        assert kappa[0] == pytest.approx(4 * n * (n - 1) * pair + 8 * triple)


def equal(labels):
    return 1.0


@pytest.mark.parametrize("n_classes", [3, 40])
def test_simulations_are_those_of_the_definition(n_classes):
    """With many classes and few rows in a cell the table of counts is not written out."""
    y, p = sample(60, n_classes)
    p[30:] = p[:30]
    cells, weight = bins.nested_alcoves(p, np.array([2.0, 4.0])), np.ones(60)
    found = bins.simulated_statistics(cells, y, p, weight, equal, 2000, np.random.default_rng(5))
    labels = np.concatenate([y[np.newaxis], *sample_labels(p, 2000, np.random.default_rng(5))])
    expected = [[plain_statistic(row, p, m) for m in (2, 4)] for row in labels[:4]]
    np.testing.assert_allclose(found[:4], expected, atol=1e-12)
    moments = bins.class_moments(cells, y, p, weight)
    np.testing.assert_allclose(moments.statistic, expected[0], atol=1e-12)
    covariance = np.cov(found[1:].T)
    np.testing.assert_allclose(moments.variance, np.diag(covariance), rtol=0.2)
    assert moments.covariance[0] == pytest.approx(covariance[0, 1], rel=0.25)
    # labels that cannot be others
    certain = np.eye(n_classes)[y]
    sure = bins.simulated_statistics(cells, y, certain, weight, equal, 2, np.random.default_rng(0))
    np.testing.assert_allclose(sure, 0.0, atol=1e-12)


def test_pvalue_tends_to_the_exact_one():
    # the distribution of T at the only scale that is shared, by enumeration of all labels
    p = np.array([[0.6, 0.3, 0.1], [0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.2, 0.2, 0.6]])
    y, labels = np.array([2, 2, 2, 0]), np.array(list(product(range(3), repeat=4)))
    chance = p[np.arange(4), labels].prod(axis=1)
    values = np.array([plain_statistic(row, p, 64) for row in labels])
    exact = chance[values >= plain_statistic(y, p, 64) - 1e-12].sum()
    found = TCal(n_resamples=20_000, random_state=0).test(y, p).pvalue
    assert found == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000))


def test_asymptotic_agrees_with_monte_carlo():
    y, p = sample(1000, 3, power=1.1)
    drawn = TCal(n_resamples=799, random_state=0).test(y, p)
    smooth = TCal(method="asymptotic").test(y, p)
    assert 0.05 < drawn.pvalue < 0.95
    assert smooth.pvalue == pytest.approx(drawn.pvalue, abs=0.05)


def test_theory():
    y, p = sample(500, 3)
    result = TCal(smoothness=1.0, method="theory").test(y, p)
    # m = floor(500^(2/6)) = 7, so 49 cells
    statistic = plain_statistic(y, p, 7)
    bound = np.sqrt(2) * 3 * min(np.sqrt(49) / 500, 1 / np.sqrt(49))
    assert (result.scales[0].n_bins, result.statistic) == (7, pytest.approx(statistic))
    assert result.pvalue == pytest.approx(min(1, (bound / max(statistic, 1e-9)) ** 2))


def test_weights_are_repetitions():
    y, p = sample(50, 3)
    times = np.random.default_rng(0).integers(0, 4, 50)
    whole = np.repeat(y, times), np.repeat(p, times, axis=0)
    for options in [{}, {"smoothness": 1.0}, {"method": "asymptotic"}]:
        test = TCal(n_resamples=49, random_state=0, **options)
        weighted, repeated = test.test(y, p, sample_weight=times, weights="frequency"), test.test(*whole)
        assert (weighted.pvalue, weighted.n_samples) == (repeated.pvalue, times.sum())


def test_labels_and_columns():
    y, p = sample(80, 3)
    test = TCal(n_resamples=49, random_state=0)
    names, few = np.array(["a", "b", "c"]), y < 2
    assert test.test(names[y], p).pvalue == test.test(y + 1, p).pvalue == test.test(y, p).pvalue
    part = test.test(y[few], p[few]).pvalue
    assert test.test(names[y[few]], p[few], labels=names).pvalue == part
    assert test.test(y[few], p[few, 0], labels=[0, 1]).pvalue == test.test(y[few], p[few, 0]).pvalue
    for labels, proba, options, message in [
        (names[y[few]], p[few], {}, "2 distinct labels but y_proba has 3 columns"),
        (names[y[few]], p[few], {"labels": ["a", "b"]}, "labels has 2 distinct"),
        (names[y[few]], p[few], {"labels": ["a", "c", "d"]}, "not in labels"),
        (y[few], p[few], {"pos_label": 1}, "pos_label"),
        (y[few], p[few, 0], {"labels": [0, 1, 2]}, "labels must be both labels of a binary problem"),
        (y, 2 * p / 3, {}, "sums to"),
    ]:
        with pytest.raises(ValueError, match=message):
            test.test(labels, proba, **options)


def test_impossible_and_unshared_classes():
    p = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.2, 0.3, 0.5]])
    result = TCal(random_state=0).test([2, 1, 0], p)
    assert result.pvalue == 0
    assert result.reason == "1 of 1 predictions of exactly 0 or 1 was contradicted"
    assert result.contradicted.tolist() == [0]
    expected = TCal(random_state=0).test([1, 0], p[1:], labels=[0, 1, 2])
    assert result.pvalue_others == expected.pvalue
    certain = TCal(random_state=0).test([0, 1, 2], np.eye(3))
    assert (certain.pvalue, TCal(random_state=0).test([1], p[1:2]).pvalue) == (1, 1)
    y, p = sample(30, 60)
    result = TCal(random_state=0).test(y, p)
    assert result.pvalue == 1
    assert "reduction='confidence'" in result.reason
    y, p = sample(n=30)
    with pytest.raises(ValueError, match=r"30 rows count as 3e\+09 samples, .* at most 10\*\*7"):
        TCal().test(y, p, sample_weight=np.full(30, 1e8), weights="frequency")


def test_tolerance():
    p = np.random.default_rng(0).dirichlet(np.full(4, 0.4), 500)
    distribution = toward_uncertainty(p, 0.1)
    np.testing.assert_allclose(distribution.sum(axis=1), 1.0)
    distance = np.sqrt(np.square(distribution - p).sum(axis=1))
    assert distance.max() < 0.1 + 1e-12
    far = np.sqrt(np.square(p - 0.25).sum(axis=1)) > 0.1
    np.testing.assert_allclose(distance[far], 0.1)
    np.testing.assert_allclose(distribution[~far], 0.25)
    moved = toward_uncertainty(np.array([0.0, 0.3, 0.5, 0.52, 1.0]), 0.1)
    np.testing.assert_allclose(moved, [0.1, 0.4, 0.5, 0.5, 0.9])
    y, p = simulated(3000, "uniform", 0.2, 0.8, truth=lambda p: p + 0.15)
    assert TCal(tolerance=0.05, n_resamples=199, random_state=0).test(y, p).rejects()
    assert TCal(tolerance=0.05, method="asymptotic").test(y, p).rejects()
    assert "at most 0.05" in TCal(tolerance=0.05, method="asymptotic").test(y, p).null_hypothesis


@pytest.mark.parametrize("method", ["monte_carlo", "asymptotic", "theory"])
def test_tolerance_is_monotone_and_starts_at_the_simple_test(method):
    y, p = simulated(600, truth=lambda p: np.clip(p + 0.12, 0, 1))
    test = TCal(method=method, n_resamples=199, random_state=0)
    pvalues = [test.set_params(tolerance=t).test(y, p).pvalue for t in (0, 1e-9, 0.03, 0.08, 0.2)]
    assert pvalues[0] == pytest.approx(pvalues[1], abs=1e-6)
    assert np.diff(pvalues[1:]).min() >= 0
    assert pvalues[-1] > 0.9


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["monte_carlo", "asymptotic"])
@pytest.mark.parametrize("kind", ["shift", "wave", "part", "classes"])
def test_level_at_the_border_of_the_composite_null(method, kind):
    tolerance, pvalues = 0.08, []
    for seed in range(70):
        rng = np.random.default_rng(seed)
        if kind == "classes":
            p = rng.dirichlet(np.ones(3), 400)
            truth = toward_uncertainty(p, tolerance)
            y = (truth.cumsum(axis=1)[:, :-1] < rng.random((400, 1))).sum(axis=1)
        else:
            p = rng.uniform(0.2, 0.8, 400)
            wave, part = np.sqrt(2) * np.sin(20 * np.pi * p), 2.0 * (p < 0.35)
            off = {"shift": np.ones(400), "wave": wave, "part": part}[kind]
            # the distance over these very predictions is exactly the tolerance
            off *= tolerance / np.sqrt(np.mean(off**2))
            y = (rng.random(400) < p + off).astype(int)
        test = TCal(method=method, tolerance=tolerance, n_resamples=39, random_state=seed)
        pvalues.append(test.test(y, p).pvalue)
    check_level(pvalues, alpha=0.1)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_displacement_bounds_what_miscalibration_adds(n_classes):
    """T of residuals (Y - q) + d, in one bin: mean and variance of what d adds, where these are largest."""
    n, tolerance = 200, 0.1
    mean, spread = _displacement(SimpleNamespace(n_classes=n_classes, n=n), tolerance)
    if n_classes == 2:
        covariance, d = np.array([[0.25]]), np.array([tolerance])
    else:
        q = np.array([0.5, 0.5, 0.0])
        covariance, d = np.diag(q) - np.outer(q, q), tolerance * np.array([1, -1, 0]) / np.sqrt(2)
    # sum over i != j of d.d / (n |I|), and the variance of 2 sum over i of (Y_i - q).(n - 1) d / (n |I|)
    assert mean == pytest.approx(d @ d)
    added = n * (n - 1) * (d @ d) / n**2
    assert 0.99 * mean < added <= mean
    variance = n * 4 * (n - 1) ** 2 * (d @ covariance @ d) / n**4
    assert 0.98 * spread < variance <= spread
