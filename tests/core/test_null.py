"""Draws under perfect calibration, and the Monte Carlo p-value."""

import tracemalloc

import numpy as np
import pytest

from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib._core._null import draw_outcomes, draw_positives, monte_carlo_pvalue, sample_labels


def groups(prob, weight):
    """Return groups without positives: draws do not look at them."""
    prob, weight = np.asarray(prob, dtype=float), np.asarray(weight, dtype=float)
    return GroupedOutcomes(prob, weight, np.zeros_like(prob))


SINGLE = groups(np.linspace(0, 1, 11), np.ones(11))
LIGHT = groups([0.0, 0.1, 0.5, 1.0], [3, 1, 8, 2])
HEAVY = groups([0.0, 0.2, 0.4, 0.7, 1.0], [1, 9, 2, 1000, 50])


def all_positives(grouped, n_draws, seed=0, **options):
    chunks = list(draw_positives(grouped, n_draws, np.random.default_rng(seed), **options))
    return np.concatenate([np.asarray(chunk, dtype=float) for chunk in chunks], axis=1)


@pytest.mark.parametrize("grouped", [SINGLE, LIGHT, HEAVY], ids=["single", "light", "heavy"])
def test_positives_are_binomial(grouped):
    n = 20000
    drawn = all_positives(grouped, n)
    mean = grouped.weight * grouped.prob
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
        parts = [
            np.concatenate(part, axis=1)
            for part in zip(*draw_outcomes(grouped, 50, np.random.default_rng(3), max_elements), strict=True)
        ]
        (together,) = draw_outcomes(grouped, 50, np.random.default_rng(3), 10**6)
        np.testing.assert_array_equal(parts, together)


@pytest.mark.parametrize("grouped", [SINGLE, LIGHT, HEAVY], ids=["single", "light", "heavy"])
def test_redrawn_samples(grouped):
    n_draws, n = 4000, grouped.total
    pairs = list(draw_outcomes(grouped, n_draws, np.random.default_rng(1)))
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


def test_memory_does_not_grow_with_the_draws():
    rng = np.random.default_rng(0)
    p = rng.random(10**4)
    grouped = group_outcomes((rng.random(10**4) < p).astype(np.int64), p)
    tracemalloc.start()
    total = sum(int(chunk.sum()) for chunk in draw_positives(grouped, 999, rng))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == pytest.approx(999 * p.sum(), rel=0.01)
    assert peak < 20e6


def test_pvalue_by_hand():
    draws = np.array([0.0, 1.0, 2.0, 3.0])
    assert monte_carlo_pvalue(5.0, draws) == 1 / 5
    assert monte_carlo_pvalue(2.0, draws) == 3 / 5
    assert monte_carlo_pvalue(2.0 + 1e-12, draws) == 3 / 5
    assert monte_carlo_pvalue(2.01, draws) == 2 / 5
    assert monte_carlo_pvalue(2.01, draws, atol=0.02) == 3 / 5
    assert monte_carlo_pvalue(-1.0, draws) == 1.0


@pytest.mark.parametrize("ties", [False, True])
def test_pvalue_is_exact_when_the_sample_is_one_of_the_draws(ties):
    pool = np.random.default_rng(0).normal(size=40)
    if ties:
        pool = np.round(pool)
    pvalues = np.array([monte_carlo_pvalue(pool[i], np.delete(pool, i)) for i in range(40)])
    for alpha in np.arange(1, 41) / 40:
        share = np.mean(pvalues <= alpha + 1e-12)
        assert share <= alpha + 1e-12
        assert ties or share == pytest.approx(alpha)


def test_labels_have_their_probabilities():
    p = np.array([[0.2, 0.0, 0.5, 0.3], [0.0, 0.0, 1.0, 0.0], [0.25, 0.25, 0.25, 0.25]])
    draws = np.concatenate(list(sample_labels(p, 20_000, np.random.default_rng(0))))
    assert draws.shape == (20_000, 3)
    share = np.array([np.bincount(column, minlength=4) / 20_000 for column in draws.T])
    np.testing.assert_allclose(share, p, atol=0.015)
    assert (share[p == 0] == 0).all()
