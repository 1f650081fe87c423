"""Grouped outcomes, isotonic blocks and links against plain loops."""

import numpy as np
import pytest

from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes, group_scores
from sklearn_calib._core._links import EPS, logit

EDGES = [0.0, 5e-324, 1e-310, 2.2e-308, 1e-16, 0.5 - 2**-54, 0.5, 0.5 + 2**-53, 1 - 2**-53, 1.0]


def sample(seed):
    rng = np.random.default_rng(seed)
    p = np.concatenate([rng.random(50), rng.integers(0, 5, 50) / 4, np.repeat(EDGES, 3)])
    y, order = rng.integers(0, 2, p.shape[0]), rng.permutation(p.shape[0])
    return y[order], p[order], rng.integers(1, 4, p.shape[0]).astype(float)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_groups(seed, weighted):
    y, p, w = sample(seed)
    grouped = group_outcomes(y, p, w if weighted else None)
    weight = w if weighted else np.ones_like(p)
    values = sorted(set(p.tolist()))
    assert grouped.prob.tolist() == values
    for value, total, positives in zip(values, grouped.weight, grouped.positives, strict=True):
        assert (total, positives) == (weight[p == value].sum(), (weight * y)[p == value].sum())
    np.testing.assert_allclose(grouped.residual, grouped.positives - grouped.weight * grouped.prob)
    assert grouped.total == weight.sum()


def test_rows_in_order_are_grouped_as_any_others():
    rng = np.random.default_rng(2)
    prob = np.sort(rng.random(50))
    prob[0] = -0.0
    # each prediction once or twice, as a summary has them
    for p in (prob, np.repeat(prob, rng.integers(1, 3, 50)), [0.5], [0.5, 0.5], [0.1, 0.3, 0.2, 0.4]):
        p = np.array(p)
        y, w = rng.integers(0, 2, p.shape[0]), rng.random(p.shape[0])
        first, order = group_outcomes(y, p, w), rng.permutation(p.shape[0])
        second = group_outcomes(y[order], p[order], w[order])
        for name in ("prob", "weight", "positives"):
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
        assert not np.signbit(first.prob).any()


def test_logit():
    p = np.array([0.0, EPS, 1e-5, 0.25, 0.5, 1 - 1e-5, 1 - EPS, 1.0])
    expected = np.log(np.clip(p, EPS, 1 - EPS)) - np.log1p(-np.clip(p, EPS, 1 - EPS))
    np.testing.assert_allclose(logit(p), expected, rtol=1e-12)
    assert logit(p)[0] == -logit(p)[-1]
    assert np.isfinite(logit(p)).all()
    # the largest number below 1 is not moved
    assert logit(np.array([np.nextafter(1.0, 0.0)])) == pytest.approx(53 * np.log(2))


SCORES = {
    "margins over several chunks": np.random.default_rng(1).normal(size=50_001) * 3,
    "ties of both signs": np.round(np.random.default_rng(2).normal(size=5000) * 4),
    "smallest floats": np.array([5e-324, -5e-324, 0.0, -0.0, 2.0**-1074, -1.0, 1.0, 1.0]),
    "a score that scaling would round": np.array([5e-324, 2.5, -1e300, 5e-324]),
    "largest floats": np.array([1.7e308, -1.7e308, 1.7e308, 0.0]),
    "neighbors": np.nextafter(np.array([3.0, 3.0, -3.0, -3.0, 3.0]), [4.0, 0.0, -4.0, 0.0, 3.0]),
    "one": np.array([-2.0]),
    "probabilities but for some": np.array([0.5, 3.0, 0.7, 1000.0, 0.2, 3.0]),
    "far above zero, little below": np.array([-0.1, 5.0, 2.0, 0.1, 40.0, -0.1]),
}


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("weighted", [False, True])
def test_groups_of_any_scores(name, weighted):
    scores, rng = SCORES[name], np.random.default_rng(0)
    y, w = rng.integers(0, 2, scores.shape[0]), rng.integers(1, 4, scores.shape[0]).astype(float)
    before, grouped = scores.copy(), group_scores(y, scores, w if weighted else None)
    mass = w if weighted else np.ones_like(scores)
    values, index = np.unique(scores + 0.0, return_inverse=True)
    np.testing.assert_array_equal(grouped.prob, values)
    assert not np.signbit(grouped.prob[grouped.prob == 0]).any()
    np.testing.assert_array_equal(grouped.weight, np.bincount(index, mass))
    np.testing.assert_array_equal(grouped.positives, np.bincount(index, mass * y))
    np.testing.assert_array_equal(scores, before)


def test_variance_of_the_positives_by_hand():
    grouped = GroupedOutcomes(np.array([0.2, 0.5, 1.0]), np.array([3.0, 2.0, 7.0]), np.ones(3))
    np.testing.assert_allclose(grouped.variance, [0.48, 0.5, 0.0])


def test_pooled_groups_lie_at_the_mean_of_their_predictions():
    grouped = GroupedOutcomes(np.array([0.1, 0.3, 0.9]), np.array([1.0, 3.0, 2.0]), np.array([0.0, 2.0, 1.0]))
    pooled = grouped.pooled(np.array([0, 2]))
    np.testing.assert_allclose(pooled.prob, [0.25, 0.9], rtol=1e-15)
    assert (pooled.weight.tolist(), pooled.positives.tolist()) == ([4.0, 2.0], [2.0, 1.0])
    equal = GroupedOutcomes(np.full(3, 0.1), np.array([0.1, 0.7, 0.2]), np.zeros(3))
    assert equal.pooled(np.array([0])).prob.tolist() == [0.1]
