"""Decompositions of scores: the identity, the isotonic fit from its min-max formula, and bounds."""

import math
from functools import partial

import numpy as np
import pytest

from sklearn_calib.metrics import calibration_loss, refinement_loss, score_decomposition
from sklearn_calib.metrics._metric_kernel import bind_kernel
from tests._references import isotonic_by_extremes

SCORES = ["brier", "log_loss"]


def sample(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    p = rng.random(n) if seed % 2 else rng.integers(1, 10, n) / 10
    return (rng.random(n) < p ** rng.uniform(0.2, 4)).astype(int), p, rng.integers(1, 4, n)


def mean_score(y, p, w, score):
    losses = []
    for outcome, q in zip(y, p, strict=True):
        if score == "brier":
            losses.append((outcome - q) ** 2)
        else:
            chance = q if outcome else 1 - q
            losses.append(-math.log(chance) if chance > 0 else math.inf)
    return float(np.dot(w, losses) / np.sum(w))


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("seed", range(4))
def test_isotonic_parts(score, seed):
    y, p, w = sample(seed)
    given = {"sample_weight": w, "pos_label": 1, "score": score}
    found = score_decomposition(y, p, **given)
    fit, base = isotonic_by_extremes(y, p, w), np.full(y.shape[0], np.average(y, weights=w))
    original, refined, alone = (mean_score(y, q, w, score) for q in (p, fit, base))
    assert found.score == pytest.approx(original, abs=1e-12)
    assert found.miscalibration == pytest.approx(original - refined, abs=1e-12)
    assert found.discrimination == pytest.approx(alone - refined, abs=1e-12)
    assert found.uncertainty == pytest.approx(alone, abs=1e-12)
    assert found.refinement_loss == pytest.approx(refined, abs=1e-12)
    assert calibration_loss(y, p, **given) == found.miscalibration
    assert refinement_loss(y, p, **given) == pytest.approx(refined, abs=1e-12)


def test_no_part_is_negative_by_rounding():
    # predictions an ulp or two around the event rate: both parts are 0 but for the order of the sums
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 30))
        y = np.append((rng.random(n) < 0.5).astype(int), [0, 1])
        p = y.mean() + np.spacing(y.mean()) * rng.integers(-3, 4, n + 2)
        for score in SCORES:
            found = score_decomposition(y, p, score=score)
            assert found.miscalibration >= 0
            assert found.discrimination >= 0


def test_limits():
    # calibrated and constant: neither miscalibration nor discrimination
    found = score_decomposition([0, 1, 1, 0], [0.5] * 4)
    assert (found.miscalibration, found.discrimination, found.uncertainty) == (0.0, 0.0, 0.25)
    # an impossible event
    found = score_decomposition([0, 1, 1], [0.2, 0.0, 0.9], score="log_loss")
    assert (found.score, found.miscalibration) == (math.inf, math.inf)
    assert math.isfinite(found.discrimination)
    # monotone maps leave the refinement loss
    y, p, w = sample(5)
    expected = refinement_loss(y, p, sample_weight=w)
    assert refinement_loss(y, p**3, sample_weight=w) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("score", ["brier", "log_loss"])
def test_partition_over_distinct_predictions_with_ties_and_weights(score):
    """Murphy's sums over the distinct predictions, with divergences of the score."""
    rng = np.random.default_rng(1)
    p = rng.integers(1, 10, 150) / 10
    # frequencies that fall, which only this recalibration reverses
    y, w = (rng.random(150) < 1 - p).astype(int), rng.integers(0, 3, 150) * rng.random(150)

    def divergence(a, b):
        if score == "brier":
            return (a - b) ** 2
        return sum(q * np.log(q / r) for q, r in ((a, b), (1 - a, 1 - b)) if q > 0)

    base = np.average(y, weights=w)
    reliability = resolution = 0.0
    for value in np.unique(p[w > 0]):
        inside = p == value
        weight, observed = w[inside].sum() / w.sum(), np.average(y[inside], weights=w[inside])
        reliability += weight * divergence(observed, value)
        resolution += weight * divergence(observed, base)
    found = score_decomposition(y, p, score=score, recalibration="any", sample_weight=w)
    assert (found.miscalibration, found.discrimination) == pytest.approx((reliability, resolution))
    assert found.score == pytest.approx(reliability - resolution + found.uncertainty)
    assert "distinct predictions" in str(found)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("metric", [calibration_loss, refinement_loss])
def test_many_samples_of_fractional_weights_at_once(metric, score):
    """Sums of weights in two orders could be frequencies above 1, whose log loss is not a number."""
    rng = np.random.default_rng(0)
    prob, r = np.sort(rng.random(2000)), 70
    count = rng.gamma(1.0, size=(2000, r)) * (rng.random((2000, r)) < 0.7)
    count /= count.sum(axis=0)
    positives = count * (rng.random((2000, r)) < prob[:, np.newaxis] ** 2)
    evaluate = bind_kernel(partial(metric, score=score), 1.0).evaluator(prob, 1.0)
    y, p = np.repeat([1, 0], 2000), np.tile(prob, 2)
    weights = np.concatenate((positives, count - positives))
    one_by_one = [metric(y, p, score=score, sample_weight=w) for w in weights.T]
    np.testing.assert_allclose(evaluate(count, positives), one_by_one, rtol=0, atol=1e-12)
