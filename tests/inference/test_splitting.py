"""The sample splitting test."""

from itertools import combinations

import numpy as np
import pytest

from sklearn_calib._core._simplex_bins import alcoves
from sklearn_calib.inference import SampleSplittingTest, TCal
from tests._samples import simulated, simulated_classes


def class_sample(n, seed, power=1.0, n_classes=3):
    return simulated_classes(n, np.ones(n_classes), seed, power)


def slope(n, seed, a):
    """Uniform predictions z with event probabilities z + a (z - 1/2)."""
    return simulated(n, seed=seed, truth=lambda z: z + a * (z - 0.5))


def slow_norm(y, p, power):
    """T1 (power 0) or T2 (power 1) of all classes, in the metric of their null covariance, by loops."""
    n, n_classes = p.shape
    total, covariance = np.zeros(n_classes), np.zeros((n_classes, n_classes))
    for i in range(n):
        for k in range(n_classes):
            total[k] += p[i, k] ** power * ((y[i] == k) - p[i, k])
            for j in range(n_classes):
                both = p[i, k] * (k == j) - p[i, k] * p[i, j]
                covariance[k, j] += (p[i, k] * p[i, j]) ** power * both
    return np.sqrt(total @ np.linalg.pinv(covariance, rcond=1e-10) @ total)


def slow_two_sample(p, inside, n_bins):
    """sum (n_2 v - n_1 w)^2 over the bins, in units of (n_1 n_2)^2, less its value for bins of one sample."""
    code, n1, n2 = alcoves(p, n_bins), inside.sum(), (~inside).sum()
    total = 0.0
    for cell in np.unique(code):
        v, w = np.sum(inside & (code == cell)), np.sum(~inside & (code == cell))
        total += (n2 * v - n1 * w) ** 2
    return total / (n1 * n2) ** 2 - 1 / n1 - 1 / n2


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_means_are_those_of_the_definition(n_classes):
    test = SampleSplittingTest(n_resamples=99)
    y, p = class_sample(400, 1, power=2.5, n_classes=n_classes)
    found = {}
    # the event frequencies are right on average; those of half of the labels of class 0 exchanged are not
    for labels in (y, np.where(np.arange(400) % 2, np.maximum(y, 1), y)):
        result = test.test(labels, p if n_classes > 2 else p[:, 1])
        found[result.reason[11:13]] = result.statistic, labels
    for power, part in enumerate(("T1", "T2")):
        statistic, labels = found[part]
        assert statistic == pytest.approx(slow_norm(labels, p, power))


def test_means_by_hand():
    # residuals -.8 and .8 with variances .16: T1 is 0. The values of T2 of both classes are linear
    # combinations of the residuals, their norm that of two standardized residuals, (.64 + .64) / .16 = 8
    result = SampleSplittingTest(n_resamples=20_000).test([1, 0], [0.2, 0.8])
    assert result.statistic == pytest.approx(np.sqrt(8))
    # T2_1 = -.8 * .8 + .2 * .8 = -.48, with variance .16 (.04 + .64)
    assert result.reason == f"decided by T2, mostly of class 1, z = {-0.48 / np.sqrt(0.1088):.3g}"
    # no other labels are as unlikely; a third of alpha is for T2
    assert result.pvalue == pytest.approx(3 * 0.04, abs=3 * 4 * np.sqrt(0.04 * 0.96 / 20_000))


@pytest.mark.parametrize("cross_fit", [False, True])
def test_two_samples_are_those_of_the_definition(cross_fit):
    """The statistic, and its null distribution: all exchanges of halves that keep the four counts."""
    p = np.array([0.05, 0.1, 0.2, 0.3, 0.35, 0.45, 0.5, 0.6, 0.62, 0.8, 0.9, 0.95])
    columns, first = np.column_stack((1 - p, p)), np.isin(np.arange(12), [0, 1, 2, 4, 6, 8])
    # labels in both roles; the second one is used with cross_fit
    roles = np.array([[1, 1, 1, 1, 1, 1, 0, 1, 0, 1, 1, 0], [1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 1, 1]])
    roles = list(roles[: 1 + cross_fit])
    # floor(N^(2 / (4 s + 1))) bins, N = 4 samples with label 1
    test = SampleSplittingTest(smoothness=0.3, n_resamples=2000)
    found, null = test._compare(columns, np.ones(p.shape[0]), first, roles, 1, np.random.default_rng(0))
    assert found.n_bins == 3
    assert found.n_observed == (4 + 4 if cross_fit else 4)
    assert found.n_simulated == (5 + 5 if cross_fit else 5)

    def average(inside):
        return np.mean([slow_two_sample(columns[role == 1], inside[role == 1], 3) for role in roles])

    code = roles[0] + 2 * roles[-1]
    halves = [np.isin(np.arange(12), rows) for rows in combinations(range(12), 6)]
    kept = [h for h in halves if (np.bincount(code[h], None, 4) == np.bincount(code[first], None, 4)).all()]
    every = np.array([average(inside) for inside in kept])
    share = np.mean(every >= average(first) - 1e-12)
    assert 0.05 < share < 0.9
    assert found.pvalue == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 2000))
    # standardized values are the same up to location and scale
    values, drawn = np.unique(every.round(9)), np.unique(null.round(6))
    drawn, values = ((each - each[0]) / np.ptp(each) for each in (drawn, values))
    assert drawn == pytest.approx(values, abs=1e-4)


def test_scales_are_those_of_the_smaller_sample():
    y, p = slope(600, 0, 0.0)
    (negative, positive) = SampleSplittingTest(n_resamples=19).test(y, p).scales
    for part in (negative, positive):
        fewest = min(part.n_observed, part.n_simulated)
        finest = np.ceil(2 * np.log2(fewest / np.log(np.log(fewest))))
        assert np.log2(part.n_bins) in np.arange(1, finest + 1)
        fixed = SampleSplittingTest(smoothness=0.5, n_resamples=19).test(y, p).scales[part.label]
        assert fixed.n_bins == np.floor(fewest ** (2 / 3))


def test_bins():
    rng = np.random.default_rng(0)
    # half of the predictions are edges of the 5 bins
    p = rng.random(60).round(1)
    y = (rng.random(60) < p**2).astype(int)
    result = SampleSplittingTest(smoothness=0.5, n_resamples=19).test(y, p)
    m = min(result.scales, key=lambda part: part.pvalue).n_bins
    (scale,) = TCal(smoothness=(2 * np.log(60) / np.log(5.5) - 1) / 4).test(y, p).scales
    assert scale.n_bins == m == 5
    assert result.estimate == pytest.approx(np.sqrt(scale.statistic))
    p = np.random.default_rng(0).random(300) / 4
    for seed in range(6):
        result = SampleSplittingTest(n_resamples=19, random_state=seed).test(np.arange(300) < 40, p)
        assert all(part.n_bins > 4 or part.statistic == 0.0 for part in result.scales)


def wave(n, seed):
    """Predictions whose errors have mean 0 and are not correlated with them."""
    rng = np.random.default_rng(seed)
    u = rng.random(n)
    p = 0.2 + 0.6 * u
    return (rng.random(n) < p + 0.15 * np.cos(4 * np.pi * u)).astype(int), p


def test_details():
    y, p = wave(501, 1)
    result = SampleSplittingTest(n_resamples=99, random_state=0).test(y, p)
    assert [part.label for part in result.scales] == [0, 1]
    # the second half has one more
    assert sum(part.n_observed for part in result.scales) == 250
    assert sum(part.n_simulated for part in result.scales) == 251
    result = SampleSplittingTest(n_resamples=99, cross_fit=True, random_state=0).test(y, p)
    assert [part.n_observed for part in result.scales] == [501 - y.sum(), y.sum()]
    assert sum(part.n_simulated for part in result.scales) == 501
    assert "cross-fitted" in result.method
    y, p = wave(2000, 1)
    result = SampleSplittingTest(n_resamples=299, random_state=0).test(y, p)
    best = min(result.scales, key=lambda part: part.pvalue)
    assert result.reason == f"decided by the densities of class {best.label}, {best.n_bins} bins"
    # a third of the level is for the densities, of two classes
    assert (result.pvalue, result.statistic) == (pytest.approx(3 * 2 * best.pvalue), best.statistic)
    y, p = class_sample(100, 0)
    assert len(SampleSplittingTest(n_resamples=19, random_state=0).test(y, p).scales) == 3


def test_tiny_and_empty():
    for y, p in [([1], [0.3]), ([1, 0], [0.3, 0.3]), ([1, 1, 1], [0.5, 0.5, 0.5]), ([1] * 4, [1.0] * 4)]:
        for cross_fit in (False, True):
            test = SampleSplittingTest(n_resamples=19, cross_fit=cross_fit, random_state=0)
            assert test.test(y, p).pvalue > 0.2
            assert test.test(y, p).estimate >= 0
