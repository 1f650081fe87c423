"""Null distribution: moments by enumeration, the closed form for large samples, coverage of the quantile."""

import itertools
from functools import partial

import numpy as np
import pytest

from sklearn_calib.inference import NullDistribution, expected_under_calibration
from sklearn_calib.metrics import cutoff_calibration_error, expected_calibration_error, smooth_ece
from sklearn_calib.metrics._names import as_metric
from tests._samples import simulated_classes
from tests._tiers import thorough
from tests.inference import _properties

brier_score = as_metric("brier_score")
REDUCTIONS = ("classwise", "confidence", "top-label")
METRICS = [cutoff_calibration_error, smooth_ece, partial(expected_calibration_error, n_bins=5)]


@pytest.mark.parametrize("metric", METRICS, ids=["cutoff", "smooth", "binned"])
def test_moments_by_enumeration(metric):
    p = np.array([0.1, 0.3, 0.3, 0.6, 0.9])
    outcomes = np.array(list(itertools.product([0, 1], repeat=5)))
    probability = np.prod(np.where(outcomes == 1, p, 1 - p), axis=1)
    values = np.array([metric(y, p) for y in outcomes])
    mean = probability @ values
    std = np.sqrt(probability @ (values - mean) ** 2)
    null = expected_under_calibration(None, p, metric=metric, n_resamples=800, random_state=0)
    assert null.expected == pytest.approx(mean, abs=4 * std / np.sqrt(800))
    assert null.std == pytest.approx(std, rel=0.15)
    assert probability[values > null.quantile + 1e-5].sum() <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 800)
    # smoothed errors of many samples at once agree with those of one to 1e-6
    assert np.abs(null.values[:, np.newaxis] - values).min(axis=1).max() < 1e-6


def test_cutoff_tends_to_its_closed_form():
    p = np.random.default_rng(0).random(8000)
    null = expected_under_calibration(None, p, metric=cutoff_calibration_error, random_state=0)
    limit = np.sqrt(8 / np.pi * np.sum(p * (1 - p))) / 8000
    assert null.expected == pytest.approx(limit, rel=0.1)
    assert null.quantile == pytest.approx(limit * 2.497 / np.sqrt(8 / np.pi), rel=0.12)


@pytest.mark.parametrize("metric", METRICS, ids=["cutoff", "smooth", "binned"])
def test_weights_are_repetition(metric):
    _, p = _properties.sample(30)
    times = np.random.default_rng(0).integers(0, 12, 30)
    options = {"n_resamples": 30, "random_state": 0}
    rows = np.random.default_rng(1).permutation(np.repeat(np.arange(30), times))
    given = {"sample_weight": times, "weights": "frequency"}
    weighted = expected_under_calibration(None, p, metric=metric, **given, **options)
    repeated = expected_under_calibration(None, p[rows], metric=metric, **options)
    np.testing.assert_allclose(weighted.values, repeated.values, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("by_class", [False, True])
def test_sampling_weights_and_weights_by_class(by_class):
    rng = np.random.default_rng(1)
    p, n = np.round(rng.uniform(0.1, 0.9, 40), 1), 1000
    own = rng.uniform(0.2, 3.0, 40)
    # negatives are sampled a fifth as often, and weigh five times as much
    chance = p / (p + (1 - p) / 5) if by_class else p

    def draw():
        y = rng.random(40) < chance
        return y, np.where(y, 1.0, 5.0) if by_class else own

    y, w = draw()
    given = {"metric": "cutoff_calibration_error", "sample_weight": w, "n_resamples": n}
    null = expected_under_calibration(y if by_class else None, p, **given)
    values = [cutoff_calibration_error(y, p, sample_weight=w) for y, w in (draw() for _ in range(n))]
    assert null.expected == pytest.approx(np.mean(values), abs=4.5 * np.std(values) * np.sqrt(2 / n))
    assert null.weights == ("case-control" if by_class else "sampling")
    if not by_class:
        assert null.n_effective == pytest.approx(w.sum() ** 2 / (w @ w))
        assert "sampling weights" in str(null)


def test_columns_seed_and_words():
    _, p = _properties.sample(30)
    given, expected = ((p, 3), (np.column_stack((1 - p, p)), 3), (p, 4)), expected_under_calibration
    null, columns, other = (expected(None, q, metric=METRICS[0], random_state=seed) for q, seed in given)
    assert null == columns != other
    assert isinstance(null, NullDistribution)
    assert null.values.shape == (999,)
    words = f"expected under calibration: {null.expected:.4f} on average, at most {null.quantile:.4f}"
    assert str(null).startswith(words)
    null = expected_under_calibration(None, [0.0, 1.0, 1.0], metric=cutoff_calibration_error)
    assert (null.expected, null.std, null.quantile) == (0.0, 0.0, 0.0)


def test_bad_arguments():
    for arguments, error, named in [
        ({"metric": 7}, TypeError, "metric must be the name"),
        ({"metric": "ece"}, ValueError, "metric=.ece. is not the name of a metric"),
        ({"metric": lambda y, p: np.nan}, ValueError, "metric returned nan"),
        ({"y_proba": [0.1, 1.1]}, ValueError, "y_proba"),
        ({"sample_weight": [0.5, 1], "weights": "frequency"}, ValueError, "sample_weight"),
        ({"sample_weight": [2, 1], "weights": "counts"}, ValueError, "weights must be"),
        ({"sample_weight": [1]}, ValueError, "sample_weight"),
        ({"n_resamples": 18}, ValueError, "n_resamples >= 19"),
        ({"confidence": 1.0}, ValueError, "confidence"),
        ({"random_state": "x"}, TypeError, "random_state"),
    ]:
        good = {"metric": cutoff_calibration_error, "y_true": None, "y_proba": [0.1, 0.2], "n_resamples": 19}
        assert expected_under_calibration(**good).n_resamples == 19
        with pytest.raises(error, match=named):
            expected_under_calibration(**(good | arguments))


@pytest.mark.parametrize(
    ("metric", "reduction"),
    # scores of all classes at once are computed sample by sample
    [
        *itertools.product((METRICS[0], brier_score), REDUCTIONS),
        (METRICS[0], None),
        thorough(brier_score, None),
    ],
)
def test_several_classes_by_enumeration(metric, reduction):
    p = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4], [0.2, 0.5, 0.3]])
    probability, value = [], []
    for labels in itertools.product(range(3), repeat=4):
        y = np.array(labels)
        probability.append(np.prod(p[np.arange(4), y]))
        top = p.argmax(axis=1)
        problems = {
            "classwise": [(1 / 3, y == k, p[:, k]) for k in range(3)],
            "confidence": [(1, y == top, p.max(axis=1))],
            "top-label": [((top == k).mean(), (y == k)[top == k], p[top == k, k]) for k in range(3)],
        }
        if reduction is None and metric is brier_score:
            value.append(brier_score(y, p))
        else:
            parts = problems[reduction or "classwise"]
            value.append(sum(w * metric(events.astype(int), q) for w, events, q in parts))
    mean = np.average(value, weights=probability)
    deviation = np.sqrt(np.average((value - mean) ** 2, weights=probability))
    found = expected_under_calibration(None, p, metric=metric, reduction=reduction, n_resamples=2499)
    assert found.expected == pytest.approx(mean, abs=4 * deviation / 50)
    assert found.std == pytest.approx(deviation, rel=0.05)


@pytest.mark.parametrize("kind", ["sampling", "multilabel"])
def test_the_expected_value_is_the_mean_over_columns(kind):
    rng = np.random.default_rng(0)
    p, given = rng.dirichlet([2, 1, 1], 200), {"metric": "cutoff_calibration_error"}
    y = (rng.random((200, 1)) < p).astype(int) if kind == "multilabel" else None
    if kind == "sampling":
        given["sample_weight"] = rng.lognormal(size=200)
    found = expected_under_calibration(y, p, **given)
    means = [expected_under_calibration(None, q, **given).expected for q in p.T]
    assert found.expected == pytest.approx(np.mean(means), rel=0.05)
    assert (found.weights == "sampling") == (kind == "sampling")


@pytest.mark.thorough
def test_samples_of_several_classes_drawn_by_class():
    """Calibrated in the population, of which one class was sampled in full and the others in part."""
    rng = np.random.default_rng(0)
    kept, observed, expected = np.array([1.0, 0.5, 0.2]), [], []
    for seed in range(100):
        y, p = simulated_classes(600, [2, 1, 1], seed)
        some = rng.random(600) < kept[y]
        y, p, given = y[some], p[some], {"sample_weight": 1 / kept[y[some]]}
        observed.append(cutoff_calibration_error(y, p, **given))
        given |= {"metric": METRICS[0], "n_resamples": 19, "random_state": seed}
        found = expected_under_calibration(y, p, **given)
        assert found.weights == "case-control"
        expected.append(found.expected)
    assert abs(np.mean(observed) - np.mean(expected)) < 0.3 * np.std(observed)
