"""The sample splitting test."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom

from sklearn_calib._core._simplex_bins import alcoves, shared_alcoves
from sklearn_calib.inference import SampleSplittingTest
from sklearn_calib.inference._testing._splitting import _statistics
from tests.inference import _properties
from tests.inference._properties import check_level


def class_sample(n, seed, power=1.0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3), n)
    truth = p**power / (p**power).sum(axis=1, keepdims=True)
    return (truth.cumsum(axis=1)[:, :-1] < rng.random((n, 1))).sum(axis=1), p


def test_statistic_is_that_of_the_definition():
    rng = np.random.default_rng(0)
    pool = rng.dirichlet(np.ones(3), 50)
    inside = rng.random((50, 4)) < 0.4
    inside = inside[:, inside.sum(axis=0) == inside.sum(axis=0)[0]]
    n1 = int(inside[:, 0].sum())
    found = _statistics([shared_alcoves(pool, m) for m in (2, 4)], inside, n1, 50 - n1)
    for k, m in enumerate((2, 4)):
        code = alcoves(pool, m)
        for column in range(inside.shape[1]):
            expected = 0.0
            for cell in set(code.tolist()):
                a = np.sum(inside[code == cell, column])
                b = np.sum(~inside[code == cell, column])
                expected += (a / n1 - b / (50 - n1)) ** 2 - a / n1**2 - b / (50 - n1) ** 2
            assert found[column, k] == pytest.approx(expected)


def test_permutations_tend_to_all_of_them():
    """Nine predictions in three bins: of all ways to choose four of them, those that differ as much."""
    p = np.array([0.05, 0.1, 0.2, 0.3, 0.5, 0.6, 0.62, 0.8, 0.9])
    columns = np.column_stack((p, 1 - p))
    first, second = np.array([0, 1, 2, 4]), np.array([3, 5, 6, 7, 8])
    # 3 = floor(4^(2 / (4 s + 1))) bins
    test = SampleSplittingTest(smoothness=0.35, n_resamples=2000)
    found, null = test._compare(columns, first, second, 0, 0, np.random.default_rng(0))
    assert (found.n_bins, found.n_observed, found.n_simulated) == (3, 4, 5)
    assert null.shape == (2000,)
    inside = np.zeros((9, 126), dtype=bool)
    for column, rows in enumerate(combinations(range(9), 4)):
        inside[list(rows), column] = True
    every = _statistics([shared_alcoves(columns, 3)], inside, 4, 5)[:, 0]
    (own,) = _statistics([shared_alcoves(columns, 3)], np.isin(np.arange(9), first)[:, np.newaxis], 4, 5)
    assert np.unique(null.round(9)).shape == np.unique(every.round(9)).shape
    share = np.mean(every >= own[0] - 1e-12)
    assert 0.05 < share < 0.9
    assert found.pvalue == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 2000))


@pytest.mark.thorough
@pytest.mark.parametrize("cross_fit", [False, True])
@pytest.mark.parametrize("kind", ["uniform", "tied", "classes"])
def test_level(cross_fit, kind):
    pvalues = []
    for seed in range(100):
        if kind == "classes":
            y, p = class_sample(90, seed)
        else:
            y, p = _properties.sample(90, seed)
            if kind == "tied":
                p = np.round(p, 1)
                y = (np.random.default_rng(seed + 1000).random(90) < p).astype(int)
        test = SampleSplittingTest(n_resamples=59, cross_fit=cross_fit, random_state=seed)
        pvalues.append(test.test(y, p).pvalue)
    check_level(pvalues, alpha=0.15)


@pytest.mark.parametrize("smoothness", ["adaptive", 1.0])
def test_power(smoothness):
    test = SampleSplittingTest(smoothness=smoothness, n_resamples=199, random_state=0)
    assert test.test(*_properties.sample(3000, power=4)).rejects()
    assert test.test(*class_sample(4000, 0, power=4)).rejects()


def class_counts_wrong(n, seed):
    """Predictions that do not vary with class frequencies that are wrong; the densities of a class agree."""
    y = np.random.default_rng(seed).choice(3, n, p=[0.5, 0.3, 0.2])
    return y, np.tile([0.2, 0.3, 0.5], (n, 1))


def constant_and_wrong(n, seed):
    return (np.random.default_rng(seed).random(n) < 0.7).astype(int), np.full(n, 0.3)


def narrow_and_wrong(n, seed):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.25, 0.35, n)
    return (rng.random(n) < p + 0.2).astype(int), p


@pytest.mark.parametrize("cross_fit", [False, True])
@pytest.mark.parametrize("data", [class_counts_wrong, constant_and_wrong, narrow_and_wrong])
def test_wrong_class_counts_are_found(data, cross_fit):
    """What the densities of the predictions within a class do not show: how frequent the class is."""
    test = SampleSplittingTest(cross_fit=cross_fit, n_resamples=199, random_state=0)
    pvalues = np.array([test.test(*data(400, seed)).pvalue for seed in range(10)])
    assert (pvalues <= 0.05).mean() >= 0.9
    assert "labels" in test.test(*data(400, 0)).reason


def test_class_counts_by_hand():
    # 3 of 4 where 1 is expected with variance 3 / 4: z = 4 / sqrt(3), of both classes alike
    y, p = [1, 1, 1, 0], [0.25] * 4
    result = SampleSplittingTest().test(y, p)
    assert result.statistic == pytest.approx(4 / np.sqrt(3))
    assert result.reason == "decided by the labels of the positive class: 3 observed, 1 expected"
    # P(|N - 1| >= 2) for N binomial(4, 1/4)
    exact = binom.sf(2, 4, 0.25)
    drawn = SampleSplittingTest(n_resamples=20_000, random_state=0).test(y, p)
    assert drawn.pvalue == pytest.approx(2 * exact, abs=2 * 4 * np.sqrt(exact / 20_000))
    assert drawn.null_distribution.shape == (20_000,)


@pytest.mark.thorough
@pytest.mark.parametrize("n_classes", [2, 3])
def test_level_of_the_class_counts(n_classes):
    """Predictions that do not vary leave nothing but the counts to test."""
    pvalues = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        p = np.array([0.3, 0.7] if n_classes == 2 else [0.2, 0.3, 0.5])
        y = rng.choice(n_classes, 60, p=p)
        test = SampleSplittingTest(n_resamples=79, random_state=seed)
        proba = np.full(60, p[1]) if n_classes == 2 else np.tile(p, (60, 1))
        pvalues.append(test.test(y, proba).pvalue)
    check_level(pvalues, alpha=0.15, least=0.03)


def wave(n, seed):
    """Predictions with errors that cancel: class counts are right."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.05, 0.95, n)
    return (rng.random(n) < p + 0.15 * np.sin(4 * np.pi * (p - 0.05) / 0.9)).astype(int), p


def test_details():
    y, p = wave(500, 1)
    result = SampleSplittingTest(n_resamples=99, cross_fit=True, random_state=0).test(y, p)
    assert [(test.label, test.half) for test in result.scales] == [(1, 0), (0, 0), (1, 1), (0, 1)]
    # half of the level is for the class counts, the other half for two classes and two halves
    assert result.pvalue == pytest.approx(min(1, 2 * 4 * min(test.pvalue for test in result.scales)))
    assert sum(test.n_observed for test in result.scales) == 500
    assert result.scales[0].n_observed + result.scales[2].n_observed == y.sum()
    assert "cross-fitted" in result.method
    # of an odd number of rows the first half has one more
    odd = SampleSplittingTest(n_resamples=19, cross_fit=True, random_state=0).test(y[:51], p[:51])
    sizes = [sum(test.n_observed for test in odd.scales if test.half == half) for half in (0, 1)]
    assert sizes == [26, 25]
    y, p = class_sample(100, 0)
    assert len(SampleSplittingTest(n_resamples=19, random_state=0).test(y, p).scales) == 3


def test_tiny_and_empty():
    for y, p in [([1], [0.3]), ([1, 0], [0.3, 0.3]), ([1, 1, 1], [0.5, 0.5, 0.5]), ([1] * 4, [1.0] * 4)]:
        result = SampleSplittingTest(n_resamples=19, random_state=0).test(y, p)
        assert result.pvalue > 0.2
        assert result.estimate >= 0
