"""Dominance of models over decision thresholds, from the definition, and its level."""

from itertools import product

import numpy as np
import pytest

from sklearn_calib.inference import dominance_test
from sklearn_calib.metrics import decision_risk_result

TAU = np.array([0.1, 0.25, 0.5, 0.8])


def dominant(y, a, b, **options):
    return dominance_test(y, {"a": a, "b": b}, **options)


def loss(y, p, t):
    return t * (1 - y) if p >= t else (1 - t) * y


def differences(y, a, b, tau=TAU):
    return np.array([[loss(y[i], a[i], t) - loss(y[i], b[i], t) for t in tau] for i in range(len(y))])


def largest(sums, squares):
    return max(s / np.sqrt(q) if q > 0 else 0.0 for s, q in zip(sums, squares, strict=True))


def scale(d, a, b, w=1.0):
    """The larger one of the sum of squares and of its expected value."""
    differ = [np.sum((w * ((a >= t) != (b >= t))) ** 2) * t * (1 - t) for t in TAU]
    return np.maximum((d**2).sum(axis=0), differ)


@pytest.fixture
def few():
    rng = np.random.default_rng(3)
    p = np.round(rng.random(9), 1)
    y = (rng.random(9) < p).astype(int)
    return y, p, np.round(rng.random(9), 1)


def exact(y, a, b, w=1.0):
    """Return the three p-values over all swaps of nine samples."""
    d = np.transpose(w * differences(y, a, b).T)
    squares, larger = (d**2).sum(axis=0), scale(d, a, b, w)
    counts = np.zeros(3)
    for signs in product((1, -1), repeat=9):
        flipped, observed = np.array(signs) @ d, d.sum(axis=0)
        for k, side in enumerate((np.abs, np.positive, np.negative)):
            counts[k] += largest(side(flipped), squares) >= largest(side(observed), larger) - 1e-9
    return counts / 2**9


@pytest.mark.parametrize("w", [[1] * 9, np.linspace(0.5, 1.5, 9), [1, 10, 2, 3, 1, 1, 10, 1, 2]], ids=str)
def test_all_swaps_by_enumeration(few, w):
    """Sampling weights stay with their samples."""
    (y, a, b), w = few, np.array(w)
    given = {"thresholds": TAU, "n_resamples": 20_000, "random_state": 0}
    found = dominant(y, a, b, sample_weight=w, **given)
    pvalues = [found.pvalue, found.pvalue_a_dominates, found.pvalue_b_dominates]
    np.testing.assert_allclose(pvalues, exact(y, a, b, w), atol=4 * 0.5 / np.sqrt(20_000))
    np.testing.assert_allclose(found.difference, w @ differences(y, a, b) / w.sum(), atol=1e-15)
    assert found.n_samples == 9
    order = np.random.default_rng(1).permutation(9)
    again = dominant(y[order], a[order], b[order], sample_weight=3 * w[order], **given)
    assert again.pvalue == found.pvalue
    np.testing.assert_allclose(again.upper, found.upper)
    if w[0] < w[1]:
        assert "sampling weights, effective number of samples" in str(found)
        assert found.n_effective == pytest.approx(w.sum() ** 2 / (w @ w))


def test_difference_of_risks(few):
    y, a, b = few
    w = np.array([1, 0, 2, 3, 1, 1, 4, 1, 2])
    counted = {"thresholds": TAU, "sample_weight": w, "weights": "frequency", "random_state": 0}
    found = dominant(y, a, b, **counted | {"thresholds": TAU[::-1]})
    assert found.thresholds.tolist() == TAU.tolist()
    risks = [decision_risk_result(y, p, thresholds=TAU, sample_weight=w).risk for p in (a, b)]
    np.testing.assert_allclose(found.difference, risks[0] - risks[1], atol=1e-15)
    assert found.n_samples == 15
    again = np.repeat(np.arange(9), w)
    repeated = dominant(y[again], a[again], b[again], thresholds=TAU, random_state=0)
    np.testing.assert_allclose(repeated.upper, found.upper)
    assert repeated.pvalue == found.pvalue
    # the models change places
    other = dominant(y, b, a, n_resamples=9999, **counted)
    assert other.pvalue_b_dominates == pytest.approx(found.pvalue_a_dominates, abs=0.05)
    assert (found.lower <= found.difference).all()
    assert (found.difference <= found.upper).all()
    y, a, b = few
    found = dominant(y, a, b, thresholds=TAU, sample_weight=np.where(y, 1, 5))
    assert found.weights == "case-control"
    text = f"by class (case-control), effective number of samples {found.n_effective:,.0f}"
    assert text in str(found)


def simulate(rng, n):
    x = rng.normal(size=n)
    p = 1 / (1 + np.exp(-1.5 * x))
    return (rng.random(n) < p).astype(int), p


def test_better_and_identical_models():
    rng = np.random.default_rng(0)
    y, p = simulate(rng, 2000)
    found = dominant(y, p, noisy(rng, p), random_state=0)
    assert found.pvalue_a_dominates > 0.5
    assert found.pvalue_b_dominates <= 0.01
    assert "a has no higher risk than b at any threshold: not rejected" in str(found)
    assert "b has no higher risk than a at any threshold: rejected (p = 0.001)" in str(found)
    # two models that each err elsewhere
    low, high = np.where(p < 0.5, p / 4, p), np.where(p < 0.5, p, 1 - (1 - p) / 4)
    found = dominant(y, low, high, random_state=0)
    assert max(found.pvalue_a_dominates, found.pvalue_b_dominates) <= 0.01
    p = np.linspace(0.1, 0.9, 20)
    found = dominant(np.arange(20) % 2, p, p, random_state=0)
    assert found.pvalue == found.pvalue_a_dominates == found.pvalue_b_dominates == 1.0
    assert (found.lower == found.upper).all()


def test_reductions_of_several_classes():
    rng = np.random.default_rng(0)
    a, b = rng.dirichlet(np.ones(3), 40), rng.dirichlet(np.ones(3), 40)
    y = rng.integers(0, 3, 40)
    d = np.mean([differences(y == k, a[:, k], b[:, k]) for k in range(3)], axis=0)
    found = dominant(y, a, b, thresholds=TAU, n_resamples=999, random_state=0)
    np.testing.assert_allclose(found.difference, d.mean(axis=0), atol=1e-15)
    order = rng.permutation(40)
    again = dominant(y[order], a[order], b[order], thresholds=TAU, random_state=0)
    assert (again.pvalue, *again.upper) == pytest.approx((found.pvalue, *found.upper))
    labels = dominant((y[:, np.newaxis] == np.arange(3)).astype(int), a, b, thresholds=TAU, random_state=0)
    assert labels.pvalue == found.pvalue
    # the classes of one sample are swapped together
    squares, signs = (d**2).sum(axis=0), rng.choice((-1, 1), (4000, 40))
    flips = np.array([largest(np.abs(each @ d), squares) for each in signs])
    differ = np.array([np.mean((a >= t) != (b >= t), axis=1) for t in TAU])
    observed = largest(np.abs(d.sum(axis=0)), np.maximum(squares, TAU * (1 - TAU) * (differ**2).sum(axis=1)))
    assert found.pvalue == pytest.approx(np.mean(flips >= observed - 1e-9), abs=0.06)
    assert found.n_samples == 40
    times = rng.integers(1, 6, 40)
    counted = dominant(y, a, b, sample_weight=times, weights="frequency")
    repeated = dominant(*(np.repeat(each, times, axis=0) for each in (y, a, b)))
    assert (counted.pvalue, counted.n_samples) == (repeated.pvalue, times.sum())
    np.testing.assert_allclose(counted.lower, repeated.lower)
    for reduction in ("confidence", "top-label"):
        found = dominant(y, a, b, thresholds=TAU, reduction=reduction, random_state=0)
        tops = ((y == p.argmax(axis=1), p.max(axis=1)) for p in (a, b))
        first, second = (decision_risk_result(*top, thresholds=TAU).risk for top in tops)
        np.testing.assert_allclose(found.difference, first - second, atol=1e-15)


@pytest.mark.filterwarnings("ignore:Only 9 clusters")
def test_clusters_are_swapped_together():
    rng = np.random.default_rng(4)
    group = np.array([3, 1, 1, 2, 5, 5, 5, 8, 2, 9, 9, 4, 6, 7, 7, 0, 10, 11, 12, 13, 14, 14])
    a, b = np.round(rng.random((2, 22)), 1)
    y, w = rng.integers(0, 2, 22), rng.integers(1, 3, 22)
    d = w[:, np.newaxis] * differences(y, a, b)
    sums = np.array([d[group == each].sum(axis=0) for each in range(15)])
    differ = w[:, np.newaxis] * np.array([(a >= t) != (b >= t) for t in TAU]).T
    differ = np.array([differ[group == each].sum(axis=0) for each in range(15)])
    squares = (sums**2).sum(axis=0)
    flips = [largest(np.abs(s @ sums), squares) for s in rng.choice((-1, 1), (8000, 15))]
    larger = np.maximum(squares, TAU * (1 - TAU) * (differ**2).sum(axis=0))
    exact = np.mean(np.array(flips) >= largest(np.abs(sums.sum(axis=0)), larger) - 1e-9)
    given = {"thresholds": TAU, "random_state": 0}
    found = dominant(y, a, b, sample_weight=w, clusters=group, n_resamples=9999, **given)
    assert found.pvalue == pytest.approx(exact, abs=0.03)
    assert dominant(y, a, b, clusters=np.arange(22), **given).pvalue == dominant(y, a, b, **given).pvalue


def noisy(rng, p):
    return 1 / (1 + np.exp(-np.log(p / (1 - p)) - rng.normal(size=len(p))))


def test_coverage_and_conservative_dominance():
    """Of true probabilities and noisy ones, whose risks differ by what 200 000 of them say."""
    rng = np.random.default_rng(9)
    _, p = simulate(rng, 200_000)
    q, tau = noisy(rng, p), TAU[:, np.newaxis]
    truth = np.mean(((p >= tau).astype(int) - (q >= tau)) * (tau * (1 - p) - (1 - tau) * p), axis=1)
    counts = np.zeros(3)
    for _ in range(80):
        y, p = simulate(rng, 250)
        found = dominant(y, p, noisy(rng, p), thresholds=TAU, n_resamples=199, random_state=rng)
        missed = ((truth < found.lower) | (truth > found.upper)).any()
        counts += (found.pvalue <= 0.05, found.pvalue_a_dominates <= 0.05, missed)
    assert counts[0] > 0.3 * 80
    assert counts[1] <= 0.05 * 80
    # binomial, four standard errors
    assert counts[2] <= 80 * 0.05 + 4 * np.sqrt(80 * 0.05 * 0.95)


def test_bad_input(few):
    y, a, b = few
    three = np.full((9, 3), 1 / 3)
    for models, given, message in (
        ({"a": a, "b": np.where(b > 0.5, np.nan, b)}, {}, r"predictions\['b'\] contains NaN"),
        ({"a": a[:8], "b": b[:8]}, {}, r"y_true has 9 samples but predictions\['a'\] has 8"),
        ({"a": a, "b": three}, {}, r"\['b'\] has shape \(9, 3\) but predictions\['a'\] has \(9,\)"),
        ({"a": a, "b": b, "c": b}, {}, r"must contain two models, got 3\. Pass"),
        ({"a": a, "b": b}, {"n_resamples": 5}, "n_resamples"),
        ({"a": a, "b": b}, {"thresholds": [0.5, 1.0]}, "thresholds"),
        ({"a": a, "b": b}, {"clusters": [1, 2]}, "clusters"),
        ({"a": a, "b": b}, {"reduction": "all"}, "reduction"),
    ):
        with pytest.raises(ValueError, match=message):
            dominance_test(y, models, **given)
