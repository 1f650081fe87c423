"""Draws under perfect calibration, and the Monte Carlo p-value."""

import numpy as np
import pytest

from sklearn_calib._core import _null
from sklearn_calib._core._grouping import GroupedOutcomes, as_sampled, group_sample
from sklearn_calib._validation import check_binary, check_class_sample


def groups(prob, weight):
    """Return groups without positives: draws do not look at them."""
    prob, weight = np.asarray(prob, dtype=float), np.asarray(weight, dtype=float)
    return GroupedOutcomes(prob, weight, np.zeros_like(prob))


SINGLE = groups(np.linspace(0, 1, 11), np.ones(11))
LIGHT = groups([0.0, 0.1, 0.5, 1.0], [3, 1, 8, 2])
HEAVY = groups([0.0, 0.2, 0.4, 0.7, 1.0], [1, 9, 2, 1000, 50])


def all_positives(grouped, n_draws, seed=0, **options):
    chunks = list(_null.draw_positives(grouped, n_draws, np.random.default_rng(seed), **options))
    return np.concatenate([np.asarray(chunk, dtype=float) for chunk in chunks], axis=1)


@pytest.mark.parametrize("grouped", [SINGLE, LIGHT, HEAVY], ids=["single", "light", "heavy"])
def test_positives_are_binomial(grouped):
    n = 8000
    drawn, mean = all_positives(grouped, n), grouped.weight * grouped.prob
    variance = mean * (1 - grouped.prob)
    assert drawn.shape == (grouped.prob.shape[0], n)
    assert (drawn >= 0).all()
    assert (drawn <= grouped.weight[:, None]).all()
    np.testing.assert_array_less(np.abs(drawn.mean(axis=1) - mean), 4.5 * np.sqrt(variance / n) + 1e-12)
    # the variance of the sample variance, from the fourth moment of a binomial distribution
    fourth = variance * (1 + 3 * (grouped.weight - 2) * grouped.prob * (1 - grouped.prob))
    error = np.sqrt(np.maximum(fourth - variance**2, 0) / n)
    np.testing.assert_array_less(np.abs(drawn.var(axis=1) - variance), 5 * error + 20 / n)
    independent = np.corrcoef(drawn[variance > 0])
    np.fill_diagonal(independent, 0)
    assert np.abs(independent).max() < 5 / np.sqrt(n)


@pytest.mark.parametrize("grouped", [SINGLE, LIGHT, HEAVY], ids=["single", "light", "heavy"])
def test_chunks_do_not_matter(grouped):
    whole = all_positives(grouped, 50, max_elements=10**6)
    for max_elements in (1, 30, 77):
        np.testing.assert_array_equal(all_positives(grouped, 50, max_elements=max_elements), whole)
        parts = joined(_null.draw_outcomes(grouped, 50, np.random.default_rng(3), max_elements))
        (together,) = _null.draw_outcomes(grouped, 50, np.random.default_rng(3), 10**6)
        np.testing.assert_array_equal(parts, together)


@pytest.mark.parametrize("grouped", [SINGLE, LIGHT, HEAVY], ids=["single", "light", "heavy"])
def test_redrawn_samples(grouped):
    n_draws, n = 2000, grouped.total
    pairs = list(_null.draw_outcomes(grouped, n_draws, np.random.default_rng(1)))
    count, positives = (np.concatenate(part, axis=1) for part in zip(*pairs, strict=True))
    np.testing.assert_array_equal(count.sum(axis=0), n)
    assert (positives <= count).all()
    assert (positives[grouped.prob == 0] == 0).all()
    np.testing.assert_array_equal(positives[grouped.prob == 1], count[grouped.prob == 1])
    share = grouped.weight / n
    error = np.sqrt(n * share * (1 - share) / n_draws)
    np.testing.assert_array_less(np.abs(count.mean(axis=1) - grouped.weight), 4.5 * error)
    expected = grouped.prob * count.sum(axis=1)
    error = np.sqrt(expected * (1 - grouped.prob))
    np.testing.assert_array_less(np.abs(positives.sum(axis=1) - expected), 4.5 * error + 1e-9)


def test_pvalue_by_hand():
    draws = np.array([0.0, 1.0, 2.0, 3.0])
    assert (_null.monte_carlo_pvalue(5.0, draws), _null.monte_carlo_pvalue(2.0, draws)) == (1 / 5, 3 / 5)
    assert _null.monte_carlo_pvalue(2.0 + 1e-12, draws) == 3 / 5
    assert _null.monte_carlo_pvalue(2.01, draws) == 2 / 5
    assert _null.monte_carlo_pvalue(2.01, draws, atol=0.02) == 3 / 5
    assert _null.monte_carlo_pvalue(-1.0, draws) == 1.0


RNG = np.random.default_rng(5)
TIED = RNG.integers(1, 8, 40) / 8
OUTCOMES = (RNG.random(40) < TIED).astype(int)
CODES = RNG.permutation(np.repeat(np.arange(20), 2))
DESIGNS = {
    "cells": (RNG.choice([0.5, 1.0, 3.0], 40), None),
    "single": (RNG.lognormal(size=40), None),
    "clusters": (RNG.choice([0.5, 1.0, 3.0], 40), CODES),
    "classes": (np.where(OUTCOMES, 0.3, 2.0), None),
    "raked": (np.where(OUTCOMES, 0.3, 2.0) * np.tile([1.0, 1.5], 20), None),
}


def designed(name, weights="sampling"):
    w, codes = DESIGNS[name]
    sample = check_binary(OUTCOMES, TIED, w, None, codes, weights=weights)
    return sample, group_sample(sample)


def joined(chunks):
    return [np.concatenate(part, axis=1) for part in zip(*chunks, strict=True)]


@pytest.mark.parametrize("name", DESIGNS)
def test_design_is_a_sum_over_samples(name):
    sample, grouped = designed(name)
    assert sample.w.mean() == pytest.approx(1.0)
    for g, prob in enumerate(grouped.prob):
        rows = sample.p == prob
        assert grouped.weight[g] == pytest.approx(sum(sample.w[rows]))
        assert grouped.positives[g] == pytest.approx(sum(sample.w[rows] * sample.y[rows]))
        if name not in ("classes", "raked"):
            assert grouped.variance[g] == pytest.approx(sum(w**2 * prob * (1 - prob) for w in sample.w[rows]))
    for part in (grouped.pooled(np.array([0, 2, 5])), grouped.uncertain()):
        assert part.variance.shape == part.prob.shape
        expected = part.design.weighted_sums(part.design.count, part.design.positives)[0]
        np.testing.assert_allclose(part.weight, expected)


@pytest.mark.parametrize("name", DESIGNS)
def test_draws_of_a_design_weigh_each_sample(name):
    sample, grouped = designed(name)
    count, positives = joined(_null.draw_null(grouped, 2000, np.random.default_rng(0)))
    drawn = all_positives(grouped.samples, 2000)
    c0, c1 = (1.0, 1.0) if sample.class_weights is None else sample.class_weights
    # every cell, weighted, added to its prediction
    expected, weight = np.zeros((2, grouped.prob.shape[0], 2000))
    for cell, group in enumerate(grouped.design.group):
        w = grouped.design.weight[cell]
        expected[group] += c1 * w * drawn[cell]
        weight[group] += c1 * w * drawn[cell] + c0 * w * (grouped.design.count[cell] - drawn[cell])
    np.testing.assert_allclose(positives, expected)
    np.testing.assert_allclose(np.broadcast_to(count, weight.shape), weight)
    if name != "clusters":
        residual = positives - count * grouped.prob[:, np.newaxis]
        np.testing.assert_array_less(np.abs(residual.mean(axis=1)), 4.5 * np.sqrt(grouped.variance / 2000))
        np.testing.assert_allclose(residual.var(axis=1), grouped.variance, rtol=0.2)


@pytest.mark.parametrize("name", DESIGNS)
def test_resampled_designs_keep_weight_and_outcome_together(name):
    sample, grouped = designed(name)
    n = 1500
    for truth in (None, np.full(grouped.prob.shape, 0.5)):
        count, positives = joined(_null.draw_outcomes(grouped, n, np.random.default_rng(0), truth=truth))
        residual = (positives - count * (grouped.prob if truth is None else truth)[:, np.newaxis]).sum(axis=0)
        assert abs(residual.mean()) < 4.5 * residual.std() / np.sqrt(n)
    count, positives = joined(_null.bootstrap_counts(grouped, n, np.random.default_rng(0)))
    for found, own in ((count, grouped.weight), (positives, grouped.positives)):
        expected = 4.5 * found.std(axis=1) / np.sqrt(n) + 1e-9
        np.testing.assert_array_less(np.abs(found.mean(axis=1) - own), expected)
    total = positives.sum(axis=0)
    if name != "clusters":
        # of resampled samples: the sum of squared deviations
        terms = sample.w * sample.y
        assert total.var() == pytest.approx(np.square(terms - terms.mean()).sum(), rel=0.15)


def test_weights_by_class_correct_the_probabilities():
    sample, _ = designed("classes")
    p, (c0, c1) = TIED, sample.class_weights
    corrected = as_sampled(sample)
    np.testing.assert_allclose(corrected.p, (p / c1) / (p / c1 + (1 - p) / c0))
    assert corrected.w is None
    # weights that vary within the classes: what remains of them are sampling weights
    sample, grouped = designed("raked")
    corrected = as_sampled(sample)
    c0, c1 = sample.class_weights
    assert (c0, c1) == tuple(pytest.approx(sample.w[sample.y == k].mean()) for k in (0, 1))
    np.testing.assert_allclose(corrected.p, (TIED / c1) / (TIED / c1 + (1 - TIED) / c0))
    within = sample.w / np.where(sample.y, c1, c0)
    np.testing.assert_allclose(corrected.w, within / within.mean())
    assert corrected.sampling
    found = grouped.as_sampled()
    for g, prob in enumerate(grouped.prob):
        rows = prob == TIED
        assert found.prob[g] == pytest.approx(corrected.p[rows][0])
        assert found.weight[g] == pytest.approx(within[rows].sum())
        wanted = within[rows] @ within[rows] * found.prob[g] * (1 - found.prob[g])
        assert found.variance[g] == pytest.approx(wanted)
    # a class of one sample has its weight, too, but a few samples are no evidence of a design by class
    for rows, known in ((np.arange(40), True), (np.r_[0:2, 38:40], False)):
        y = (rows == 0).astype(int)
        some = check_binary(y, TIED[rows], np.where(y == 1, 1.0, 5.0), 1, weights="sampling")
        assert (some.class_weights is not None) == known
    labels, proba = np.arange(30) % 3, np.random.default_rng(2).dirichlet(np.ones(3), 30)
    several = check_class_sample(labels, proba, np.array([1.0, 2.0, 5.0])[labels], weights="sampling")
    expected = proba / np.array([1.0, 2.0, 5.0])
    np.testing.assert_allclose(as_sampled(several).p, expected / expected.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("grouped", [SINGLE, LIGHT], ids=["single", "light"])
def test_coupled_outcomes_are_those_of_each_population(grouped):
    low, high = 0.5 * grouped.prob, np.minimum(1.5 * grouped.prob, 1.0)
    coupled = _null.CoupledOutcomes(grouped, 40, np.random.default_rng(3), low, high)
    for truth in (low, grouped.prob, high):
        expected = joined(_null.draw_outcomes(grouped, 40, np.random.default_rng(3), truth=truth))
        np.testing.assert_array_equal(joined(coupled.draw(truth)), expected)


@pytest.mark.parametrize("n_classes", [2, 3, 10, 128, 129, 300])
def test_labels_are_those_of_a_search_in_each_row(n_classes):
    rng, n_draws = np.random.default_rng(n_classes), 40
    p = rng.dirichlet(np.full(n_classes, 0.3), 20)
    # exact zeros, among them the first and the last class
    p[:5, [0, -1]] = 0.0
    p[:, n_classes // 2] += 1e-3
    found = np.concatenate(list(_null.sample_labels(p, n_draws, np.random.default_rng(1))))
    uniform, below = np.random.default_rng(1).random((n_draws, 20)), np.cumsum(p, axis=1)
    rows = [np.searchsorted(row / row[-1], u, side="right") for row, u in zip(below, uniform.T, strict=True)]
    np.testing.assert_array_equal(found, np.transpose(rows))
