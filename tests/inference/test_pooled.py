"""Pooled predictions: metrics of redrawn samples have the same distribution, whatever the predictions are."""

from functools import partial

import numpy as np
import pytest

from sklearn_calib import metrics
from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib.inference import compare_models, confidence_interval, expected_under_calibration
from sklearn_calib.inference._sample_metric import pooled_for_kernel
from sklearn_calib.metrics._metric_kernel import bind_kernel
from tests._samples import simulated

POOLING = [
    metrics.smooth_ece,
    partial(metrics.smooth_ece, bandwidth=0.03),
    partial(metrics.smooth_ece, scale="logit"),
    partial(metrics.smooth_ece, scale="logit", bandwidth=0.2),
    metrics.logit_smoothed_ece,
    partial(metrics.logit_smoothed_ece, bandwidth=0.3),
    metrics.expected_calibration_error,
    partial(metrics.expected_calibration_error, n_bins=10, norm="l2", debias=True),
]
LEFT_ALONE = [
    metrics.cutoff_calibration_error,
    metrics.smooth_calibration_error,
    partial(metrics.expected_calibration_error, strategy="quantile"),
    partial(metrics.expected_calibration_error, norm="max"),
    partial(metrics.smooth_ece, reduction="confidence"),
    lambda y, p, sample_weight=None: 0.0,
]


def pooled(metric, grouped):
    bound = bind_kernel(metric, grouped.total)
    return grouped if bound is None else pooled_for_kernel(bound, grouped)


def identity(metric):
    if isinstance(metric, str):
        return metric
    return f"{getattr(metric, 'func', metric).__name__}-{getattr(metric, 'keywords', '')}"


def predictions(kind, n=40_000):
    rng = np.random.default_rng(0)
    if kind == "uniform":
        return np.sort(rng.random(n))
    if kind == "rare":
        return np.sort(rng.beta(2, 400, n))
    return np.sort(np.where(rng.random(n) < 0.5, rng.normal(0.2, 0.01, n), rng.normal(0.7, 0.02, n)))


def weighted(metric, prob, count, positives):
    """Return the metric by its own function, on distinct predictions with weights."""
    y = np.repeat([1, 0], prob.shape[0])
    return metric(y, np.tile(prob, 2), sample_weight=np.concatenate((positives, count - positives)))


#: Each metric with one kind of predictions. On the axis of log-odds uniform ones spread over too many cells.
KINDS = ["uniform", "rare", "rare", "two", "two", "rare", "uniform", "two"]


@pytest.mark.thorough
@pytest.mark.parametrize(("metric", "kind"), [*zip(POOLING, KINDS, strict=True)], ids=identity)
def test_values_of_redrawn_samples_are_the_same(metric, kind):
    prob = predictions(kind)
    n = prob.shape[0]
    grouped = GroupedOutcomes(prob, np.full(n, 30.0), np.zeros(n))
    fewer = pooled(metric, grouped)
    assert fewer.prob.shape[0] < n / 2
    assert fewer.total == grouped.total
    assert fewer.weight @ fewer.prob == pytest.approx(grouped.weight @ prob, rel=1e-13)
    if metric is metrics.logit_smoothed_ece:
        metric = partial(metric, bandwidth=grouped.total ** (-1 / 3))
    # cells are runs of groups
    ends = np.searchsorted(np.cumsum(grouped.weight), np.cumsum(fewer.weight))
    starts, rng = np.concatenate(([0], ends[:-1] + 1)), np.random.default_rng(1)
    power = 2 if getattr(metric, "keywords", {}).get("debias") else 1
    for drift in (0.0, 0.02):
        change, values = [], []
        for _ in range(8):
            count = rng.multinomial(int(grouped.total), np.full(n, 1 / n)).astype(float)
            positives = rng.binomial(count.astype(int), prob * (1 - drift)).astype(float)
            together = [np.add.reduceat(values, starts) for values in (count, positives)]
            full, short = weighted(metric, prob, count, positives), weighted(metric, fewer.prob, *together)
            change.append(short**power - full**power)
            values.append(full**power)
        # each draw moves a little, at random, as other draws would; the mean hardly moves
        assert np.abs(change).max() < max(0.2 * np.mean(values), 1e-6)
        assert abs(np.mean(change)) < 1e-3 * np.mean(values) + 2 * np.std(change) + 1e-7


@pytest.mark.parametrize("metric", LEFT_ALONE, ids=identity)
def test_other_metrics_tell_all_predictions_apart(metric):
    grouped = GroupedOutcomes(predictions("uniform"), np.ones(40_000), np.zeros(40_000))
    assert pooled(metric, grouped) is grouped


def test_cells_end_where_bins_do():
    # all within one cell, and on both sides of the end of the first of 15 bins, or of 10
    for metric, edge in [(POOLING[6], 1 / 15), (POOLING[7], 0.1)]:
        prob, positives = edge + np.linspace(-1e-5, 1e-5, 10_000), np.arange(10_000.0) % 2
        fewer = pooled(metric, GroupedOutcomes(prob, np.ones(10_000), positives))
        assert fewer.prob == pytest.approx([edge - 5e-6, edge + 5e-6], abs=1e-8)
        assert (fewer.weight.tolist(), fewer.positives.tolist()) == ([5000, 5000], [2500, 2500])
    p = np.linspace(0.1, 0.9, 10_000)
    grouped = GroupedOutcomes(p, np.ones_like(p), np.arange(p.shape[0]) % 2.0)
    assert pooled(partial(metrics.smooth_ece, bandwidth=1e-5), grouped) is grouped
    assert pooled(partial(metrics.smooth_ece, bandwidth=0.1), grouped).prob.shape[0] < 5000


@pytest.mark.thorough
def test_intervals_and_floors_of_pooled_and_repeated_rows_agree():
    y, p = simulated(30_000, seed=3, truth=lambda p: 0.9 * p)
    # the same rows with few distinct predictions are not pooled
    coarse = (np.floor(p * 2000) + 0.5) / 2000
    assert pooled(metrics.smooth_ece, group_outcomes(y.astype(np.int64), coarse)).prob.shape[0] == 2000
    settings = {"n_resamples": 100, "random_state": 0}
    fine, rough = (confidence_interval(y, values, **settings) for values in (p, coarse))
    assert fine.estimate == pytest.approx(rough.estimate, abs=1e-6)
    assert (fine.lower, fine.upper) == pytest.approx((rough.lower, rough.upper), abs=2e-3)
    assert fine.lower < 0.05 < fine.upper
    first, second = (expected_under_calibration(None, values, **settings) for values in (p, coarse))
    assert first.expected == pytest.approx(second.expected, rel=0.1)


@pytest.mark.thorough
def test_classes_of_few_hundred_rows_agree_with_a_plain_loop():
    rng = np.random.default_rng(2)
    logits = 2 * rng.standard_normal((600, 3))
    p, truth = (np.exp(z) / np.exp(z).sum(axis=1, keepdims=True) for z in (logits, 0.6 * logits))
    y = (truth.cumsum(axis=1) < rng.random((600, 1))).sum(axis=1)

    @metrics.MetricKernel(calibration_error=True)
    def loop(y_true, y_proba, sample_weight=None):
        return metrics.smooth_ece(y_true, y_proba, sample_weight=sample_weight)

    given = {"reduction": "classwise", "random_state": 0}
    fast, slow = (
        confidence_interval(y, p, metric=m, n_resamples=20, **given) for m in (metrics.smooth_ece, loop)
    )
    models = {"a": p, "b": truth}
    (a,), (b,) = (
        compare_models(y, models, metric=m, n_resamples=39, intervals=False, **given).pairs
        for m in (metrics.smooth_ece, loop)
    )
    for one, other in ((fast, slow), (a, b)):
        for name in ("corrected", "lower", "upper"):
            assert getattr(one, name) == pytest.approx(
                getattr(other, name), abs=0.03 * (slow.upper - slow.lower)
            )
    assert (fast.estimate, a.difference) == pytest.approx((slow.estimate, b.difference), abs=1e-9)


def test_interval_of_net_benefit_depends_on_two_groups():
    (y, p), metric = simulated(10_000), partial(metrics.net_benefit, threshold=0.3)
    two = np.where(p < 0.3, p[p < 0.3].mean(), p[p >= 0.3].mean())
    assert confidence_interval(y, p, metric=metric) == confidence_interval(y, two, metric=metric)
