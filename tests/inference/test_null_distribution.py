"""Null distribution: moments by enumeration, the closed form for large samples, coverage of the quantile."""

import itertools
from functools import partial

import numpy as np
import pytest

from sklearn_calib.inference import NullDistribution, expected_under_calibration
from sklearn_calib.metrics import cutoff_calibration_error, expected_calibration_error, smooth_ece
from sklearn_calib.metrics._names import as_metric
from tests.inference import _properties

brier_score = as_metric("brier_score")


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
    # smoothed errors of many samples at once agree with those of one to 1e-6
    assert np.abs(null.values[:, np.newaxis] - values).min(axis=1).max() < 1e-6


def test_cutoff_tends_to_its_closed_form():
    p = np.random.default_rng(0).random(8000)
    null = expected_under_calibration(None, p, metric=cutoff_calibration_error, random_state=0)
    limit = np.sqrt(8 / np.pi * np.sum(p * (1 - p))) / 8000
    assert null.expected == pytest.approx(limit, rel=0.1)
    assert null.quantile == pytest.approx(limit * 2.497 / np.sqrt(8 / np.pi), rel=0.12)


def test_quantile_is_exceeded_as_often_as_it_says():
    rng = np.random.default_rng(5)
    exceeded = []
    for seed in range(100):
        p = rng.random(30)
        y = (rng.random(30) < p).astype(int)
        null = expected_under_calibration(
            None, p, metric=cutoff_calibration_error, n_resamples=49, confidence=0.9, random_state=seed
        )
        exceeded.append(cutoff_calibration_error(y, p) > null.quantile)
    _properties.check_level(1.0 - np.array(exceeded), alpha=0.1, least=0.07)


@pytest.mark.parametrize("metric", METRICS, ids=["cutoff", "smooth", "binned"])
def test_weights_are_repetition(metric):
    _, p = _properties.sample(30)
    times = np.random.default_rng(0).integers(0, 12, 30)
    options = {"n_resamples": 30, "random_state": 0}
    weighted = expected_under_calibration(
        None, p, metric=metric, sample_weight=times, weights="frequency", **options
    )
    repeated = expected_under_calibration(None, np.repeat(p, times), metric=metric, **options)
    np.testing.assert_allclose(weighted.values, repeated.values, rtol=1e-8, atol=1e-12)
    order = np.random.default_rng(1).permutation(30)
    given = {"sample_weight": times[order], "weights": "frequency"}
    assert expected_under_calibration(None, p[order], metric=metric, **given, **options) == weighted


def test_sampling_weights_and_weights_by_class():
    rng = np.random.default_rng(1)
    p = np.round(rng.uniform(0.1, 0.9, 40), 1)
    w, n = rng.uniform(0.2, 3.0, 40), 1000
    null = expected_under_calibration(
        None, p, metric="cutoff_calibration_error", sample_weight=w, n_resamples=n
    )
    values = [cutoff_calibration_error(rng.random(40) < p, p, sample_weight=w) for _ in range(n)]
    assert null.expected == pytest.approx(np.mean(values), abs=4.5 * np.std(values) * np.sqrt(2 / n))
    assert null.weights == "sampling"
    assert null.n_effective == pytest.approx(w.sum() ** 2 / (w @ w))
    assert "sampling weights" in str(null)
    # negatives are sampled a fifth as often, and weigh five times as much
    y = rng.random(40) < p / (p + (1 - p) / 5)
    w = np.where(y, 1.0, 5.0)
    null = expected_under_calibration(y, p, metric="cutoff_calibration_error", sample_weight=w, n_resamples=n)
    values = []
    for _ in range(n):
        drawn = rng.random(40) < p / (p + (1 - p) / 5)
        values.append(cutoff_calibration_error(drawn, p, sample_weight=np.where(drawn, 1.0, 5.0)))
    assert null.weights == "case-control"
    assert null.expected == pytest.approx(np.mean(values), abs=4.5 * np.std(values) * np.sqrt(2 / n))


def test_columns_seed_and_words():
    _, p = _properties.sample(30)
    metric = cutoff_calibration_error
    null = expected_under_calibration(None, p, metric=metric, random_state=3)
    assert null == expected_under_calibration(
        None, np.column_stack((1 - p, p)), metric=metric, random_state=3
    )
    assert null != expected_under_calibration(None, p, metric=metric, random_state=4)
    assert isinstance(null, NullDistribution)
    assert null.values.shape == (999,)
    assert str(null).startswith(
        f"expected under calibration: {null.expected:.4f} on average, at most {null.quantile:.4f}"
    )


def test_certain_predictions_have_no_noise():
    null = expected_under_calibration(None, [0.0, 1.0, 1.0], metric=cutoff_calibration_error)
    assert (null.expected, null.std, null.quantile) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
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
    ],
)
def test_bad_arguments(arguments, error, named):
    good = {"metric": cutoff_calibration_error, "y_true": None, "y_proba": [0.1, 0.2], "n_resamples": 19}
    assert expected_under_calibration(**good).n_resamples == 19
    with pytest.raises(error, match=named):
        expected_under_calibration(**(good | arguments))


@pytest.mark.parametrize(
    ("metric", "reduction"),
    [
        # scores of all classes at once are computed sample by sample
        pytest.param(
            metric,
            reduction,
            marks=pytest.mark.thorough if (metric, reduction) == (brier_score, None) else (),
        )
        for metric in (cutoff_calibration_error, brier_score)
        for reduction in ("classwise", "confidence", "top-label", None)
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


def test_the_multilabel_expected_value_is_that_of_its_columns():
    rng = np.random.default_rng(0)
    p = rng.random((60, 3))
    y = (rng.random((60, 1)) < p).astype(int)
    found = expected_under_calibration(y, p, metric="smooth_ece", n_resamples=499)
    means = [expected_under_calibration(None, q, metric="smooth_ece", n_resamples=499).expected for q in p.T]
    assert found.expected == pytest.approx(np.mean(means), rel=0.05)


def test_sampling_weights_of_several_classes():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([2, 1, 1], 200)
    options = {"metric": "cutoff_calibration_error", "sample_weight": rng.lognormal(size=200)}
    found = expected_under_calibration(None, p, **options)
    means = [expected_under_calibration(None, q, **options).expected for q in p.T]
    assert found.expected == pytest.approx(np.mean(means), rel=0.05)
    assert found.weights == "sampling"


@pytest.mark.thorough
def test_samples_of_several_classes_drawn_by_class():
    """Calibrated in the population, of which one class was sampled in full and the others in part."""
    rng = np.random.default_rng(0)
    kept, observed, expected = np.array([1.0, 0.5, 0.2]), [], []
    for _ in range(100):
        p = rng.dirichlet([2, 1, 1], 600)
        y = (rng.random((600, 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
        some = rng.random(600) < kept[y]
        y, p, w = y[some], p[some], 1 / kept[y[some]]
        found = expected_under_calibration(
            y, p, metric="cutoff_calibration_error", sample_weight=w, n_resamples=19, random_state=rng
        )
        assert found.weights == "case-control"
        observed.append(cutoff_calibration_error(y, p, sample_weight=w))
        expected.append(found.expected)
    error = np.std(observed) / 10
    assert abs(np.mean(observed) - np.mean(expected)) < 3 * error
