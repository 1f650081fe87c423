"""Multiclass and multilabel targets in tests of binary problems."""

import numpy as np
import pytest
from scipy.stats import binom

from sklearn_calib import inference
from sklearn_calib._core._null import SharedLabels
from sklearn_calib.metrics import expected_calibration_error
from tests._tiers import thorough, weekly

TESTS = [
    inference.TCal(reduction="joint", n_resamples=99), inference.CutoffTest(n_resamples=99),
    inference.CoxTest(n_resamples=99), inference.CoxTest(parameter="slope", n_resamples=99),
    inference.SpiegelhalterTest(n_resamples=99), inference.HosmerLemeshowTest(n_resamples=99),
    inference.BinomialTest(), inference.ConsistencyTest("smooth_ece", n_resamples=99),
    inference.CombinedTest(n_resamples=99), inference.KernelTest(reduction="joint", n_resamples=99),
    inference.SampleSplittingTest(reduction="joint", n_resamples=99),
]  # fmt: skip


def predictions(rng, n, n_classes):
    """Probabilities of few distinct values, so that the binomial test has power, too."""
    vectors = rng.dirichlet(np.ones(n_classes), size=8)
    return vectors[rng.integers(8, size=n)]


def labels_of(rng, p):
    return (rng.random(len(p))[:, None] > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)


def sharpened(p):
    return p**3 / np.sum(p**3, axis=1, keepdims=True)


def name_of(test):
    return type(test).__name__ + getattr(test, "parameter", "")


@pytest.mark.parametrize("test", TESTS, ids=name_of)
def test_several_classes_and_labels(test):
    rng = np.random.default_rng(0)
    p = predictions(rng, 300, 4)
    y = labels_of(rng, p)
    for outcome, names in [
        (y, {"class 0", "class 1", "class 2", "class 3", "confidence"}),
        ((y[:, None] == np.arange(4)).astype(int), {f"label {k}" for k in range(4)}),
    ]:
        good, bad = (test.test(outcome, each) for each in (p, sharpened(p)))
        assert not good.rejects(0.01)
        assert bad.rejects()
        assert {part.name for part in bad.scales} - {"mean over classes"} == names
        assert bad.pvalue == bad.scales[0].adjusted_pvalue == min(part.adjusted_pvalue for part in bad.scales)
        assert all(part.pvalue <= part.adjusted_pvalue for part in bad.scales)
        assert str(bad.scales[0]) in str(bad)


def fraction_above(values):
    return np.array([np.mean(values >= value - 1e-9) for value in values])


def test_smallest_pvalue_of_the_same_labels():
    rng = np.random.default_rng(3)
    p = rng.dirichlet([2.0, 1.0, 1.0], size=60)
    y = labels_of(rng, sharpened(p) ** 0.5 / np.sum(sharpened(p) ** 0.5, axis=1, keepdims=True))
    test = inference.ConsistencyTest("expected_calibration_error", n_resamples=59)
    result = test.test(y, p)
    # the labels that all parts read, whatever the order of the samples
    order = np.lexsort(p.T[::-1])
    y, p = y[order], p[order]
    assert test.test(y, p) == result
    seed = np.random.default_rng(0).integers(1 << 31, size=1)[0]
    simulated = np.concatenate(list(SharedLabels(p).draw(59, np.random.default_rng(seed))))
    assert abs(np.mean(simulated == 0) - p[:, 0].mean()) < 0.03
    top, values = p.argmax(axis=1), []
    for each in [y, *simulated]:
        problems = [*((each == k, p[:, k]) for k in range(3)), (each == top, p.max(axis=1))]
        values.append([expected_calibration_error(*problem, pos_label=True) for problem in problems])
    values = np.array(values)
    z = (values - values.mean(axis=0)) / values.std(axis=0)
    mean = z[:, :3].mean(axis=1)
    pvalue = np.column_stack([*map(fraction_above, values.T), fraction_above(mean)])
    # continuous values have no ties but those of their ranks, which go by the largest z
    z = np.column_stack((z, mean / mean.std()))

    def rank_of_smallest(pvalue, z):
        keys = []
        for own, size in zip(pvalue, z, strict=True):
            keys.append((own.min(), -max(size[k] for k in range(len(own)) if own[k] == own.min())))
        return np.array([np.mean([other <= key for other in keys]) for key in keys]), [-k[1] for k in keys]

    classes, largest = rank_of_smallest(pvalue[:, :3], z[:, :3])
    three = np.column_stack((classes, pvalue[:, 3], pvalue[:, 4]))
    joint, _ = rank_of_smallest(three, np.column_stack((largest, z[:, 3], z[:, 4])))
    assert result.pvalue == pytest.approx(joint[0])
    names = ["class 0", "class 1", "class 2", "confidence", "mean over classes"]
    found = {part.name: part.pvalue for part in result.scales}
    assert found == pytest.approx(dict(zip(names, pvalue[0], strict=True)))
    alone = test.set_params(reduction="classwise").test(y, p)
    assert alone.pvalue == pytest.approx(classes[0])
    assert alone.estimate == pytest.approx(values[0, :3].mean()) == result.estimate


def test_adjusted_pvalues_and_ties():
    # of few different values: ties of p-values go by the statistic
    rng = np.random.default_rng(0)
    for _ in range(10):
        p = predictions(rng, 40, 4)
        result = inference.CutoffTest(n_resamples=19).test(labels_of(rng, p), p, labels=range(4))
        pairs = [(part.adjusted_pvalue, part.pvalue) for part in result.scales]
        assert all(adjusted >= own for adjusted, own in pairs)
        assert (pairs, result.pvalue) == (sorted(pairs), pairs[0][0])
        assert (20 * result.pvalue).is_integer()
    # all are as bad as possible, and the classes have different statistics
    y, p = np.repeat([0, 1, 2], [10, 20, 30]), np.tile([0.97, 0.02, 0.01], (60, 1))
    worst = inference.SpiegelhalterTest(n_resamples=19, reduction="classwise").test(y, p)
    assert [part.pvalue for part in worst.scales] == [0.05] * 3
    assert worst.reason.startswith("smallest p-value: class 2")
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(6), size=100)
    text = str(inference.CutoffTest(n_resamples=19).test(labels_of(rng, p), p))
    assert text.count("  class ") == 3
    for words in ("confidence: ", "mean over classes: ", "and 3 others"):
        assert words in text


@pytest.mark.parametrize(
    "test",
    [inference.SampleSplittingTest(n_resamples=79), inference.CoxTest(parameter="slope", n_resamples=19)],
)
def test_few_simulations_can_reject_for_many_parts(test):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(5), size=250)
    sharp = p**5 / np.sum(p**5, axis=1, keepdims=True)
    assert test.set_params(reduction="joint").test(labels_of(rng, p), sharp).rejects()


def test_reductions_are_binary_problems():
    rng = np.random.default_rng(1)
    p = rng.dirichlet([3.0, 3.0, 3.0, 0.01], size=300)
    y, top = labels_of(rng, p), p.argmax(axis=1)
    for test in (inference.CutoffTest, inference.TCal):
        for given in ({}, {"clusters": np.arange(300) // 10}):
            binary = test(n_resamples=99).test(y == top, p.max(axis=1), pos_label=True, **given)
            found = test(n_resamples=99, reduction="confidence").test(y, p, **given)
            assert (found.pvalue, found.n_clusters) == (binary.pvalue, binary.n_clusters)
            assert (found.statistic, found.estimate) == pytest.approx((binary.statistic, binary.estimate))
    assert "confidence" in found.null_hypothesis
    result = inference.CutoffTest(reduction="top-label").test(y, p, labels=range(4))
    assert "no sample has the predicted class 3" in result.reason
    for part in result.scales:
        rows = top == part.label
        alone = inference.CutoffTest().test(y[rows] == part.label, p[rows, part.label], pos_label=True)
        assert part.estimate == pytest.approx(alone.estimate)
    # two classes have a confidence, too
    y, p = (y == 0).astype(int), p[:, 0]
    right = inference.CutoffTest().test(y == (p > 0.5), np.maximum(p, np.round(1 - p, 15)), pos_label=True)
    assert inference.CutoffTest(reduction="confidence").test(y, p).pvalue == right.pvalue
    assert inference.CutoffTest().test(y, p) == inference.CutoffTest(reduction="classwise").test(y, p)


def test_weights_of_several_classes():
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(3), size=150)
    y, w = labels_of(rng, p), rng.integers(0, 4, 150)
    test = inference.CutoffTest(n_resamples=99)
    counted = test.test(y, p, sample_weight=w, weights="frequency")
    repeated = test.test(np.repeat(y, w), np.repeat(p, w, axis=0))
    assert (counted.pvalue, counted.n_samples) == (repeated.pvalue, w.sum())
    # sampling weights: a copy of a sample with half of the weight is another sample
    sampled = test.test(y, p, sample_weight=w + 0.5)
    assert sampled.n_samples == 150
    assert 0 < sampled.pvalue <= 1
    assert test.test(y, p, sample_weight=np.full(150, 0.3)).pvalue == test.test(y, p).pvalue


def test_labels_have_no_confidence():
    y, p = np.array([[0, 1], [1, 1], [0, 0]]), np.array([[0.2, 0.7], [0.6, 0.9], [0.1, 0.4]])
    assert inference.CutoffTest().test(y, p).n_samples == 3
    assert inference.TCal().test(y, p).scales[0].name.startswith("label")
    with pytest.raises(ValueError, match="needs mutually exclusive classes"):
        inference.CutoffTest(reduction="confidence").test(y, p)
    # an impossible outcome of one label
    p[0, 1] = 0.0
    assert inference.CutoffTest().test(y, p).pvalue == 0.0


@pytest.mark.parametrize("kind", [*map(thorough, ("classes", "weights", "labels")), weekly("clusters")])
def test_level(kind):
    n_runs, found, rng = 80 if kind == "clusters" else 120, 0, np.random.default_rng(4)
    given = {"clusters": np.arange(120) // 4} if kind == "clusters" else {}
    for seed in range(n_runs):
        p = rng.dirichlet([2.0, 1.0, 0.3], size=120)
        # labels that do not exclude each other depend on the same latent variable
        y = (rng.random((120, 1)) < p).astype(int) if kind == "labels" else labels_of(rng, p)
        if kind == "weights":
            given["sample_weight"] = np.exp(rng.normal(size=120)) * (0.2 + p[:, 0])
        found += inference.CutoffTest(n_resamples=99, random_state=seed).test(y, p, **given).rejects()
    assert found <= binom.ppf(0.999, n_runs, 0.05)
    if kind in ("classes", "weights"):
        assert found >= binom.ppf(0.001, n_runs, 0.05)


@pytest.mark.parametrize("reduction", ["confidence", "top-label"])
def test_zeros_of_other_classes_do_not_contradict_a_confidence(reduction):
    p = np.array([[0.0, 0.5, 0.5]] * 4 + [[0.2, 0.3, 0.5]] * 8)
    y = np.array([0, 1, 1, 2, *([2, 1, 0, 2] * 2)])
    assert inference.CutoffTest(n_resamples=99, reduction=reduction).test(y, p).n_contradicted == 0
    assert inference.CutoffTest(n_resamples=99).test(y, p).n_contradicted == 1
    certain = np.vstack((p, [[1.0, 0.0, 0.0]]))
    assert inference.CutoffTest(n_resamples=99, reduction=reduction).test([*y, 1], certain).pvalue == 0.0
