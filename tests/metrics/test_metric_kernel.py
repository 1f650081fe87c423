"""Metrics on many samples at once, against the plain loop of the public function."""

from functools import partial

import numpy as np
import pytest

from sklearn_calib import metrics
from sklearn_calib.inference import ConsistencyTest, confidence_interval, expected_under_calibration
from sklearn_calib.metrics._metric_kernel import bind_kernel, declaration
from sklearn_calib.metrics._names import as_metric, metric_names
from tests._samples import simulated
from tests._tiers import thorough

NORMS = [("l1", False), ("l2", False), ("max", False), ("l2", True)]
BINNED = [
    partial(metrics.expected_calibration_error, n_bins=n_bins, strategy=strategy, norm=norm, debias=debias)
    for strategy in ("uniform", "quantile")
    for n_bins, (norm, debias) in zip((4, 4, 15, 4), NORMS, strict=True)
] + [
    partial(metrics.expected_calibration_error, n_bins=1),
    partial(metrics.expected_calibration_error, n_bins=[0, 0.1, 0.5, 1]),
    partial(metrics.expected_calibration_error, n_bins=[0, 0.1, 0.5, 1], strategy="quantile", norm="l2"),
]
EXACT = [
    metrics.interval_calibration_error,
    metrics.cutoff_calibration_error,
    metrics.decision_risk_gap,
    partial(metrics.decision_risk_gap, threshold=0.05),
    partial(metrics.decision_risk_gap, threshold=0.97),
    partial(metrics.decision_risk_gap, threshold="max"),
    partial(metrics.decision_risk_gap, threshold="max", recalibration="any"),
    partial(metrics.decision_risk_gap, recalibration="either"),
    partial(metrics.decision_risk_gap, threshold=0.3, recalibration="any"),
    metrics.calibration_decision_loss,
    partial(metrics.calibration_decision_loss, recalibration="any"),
    metrics.expected_calibration_error,
    *BINNED,
    metrics.calibration_loss,
    partial(metrics.net_benefit, threshold=0.3),
    partial(metrics.refinement_loss, score="log_loss"),
    metrics.integrated_calibration_index,
    metrics.smooth_calibration_error,
    partial(metrics.smooth_calibration_error, scale="logit"),
    partial(metrics.lower_distance_to_calibration, n_bins=20),
]
SMOOTHED = [
    metrics.smooth_ece,
    partial(metrics.smooth_ece, pos_label=1, bandwidth="auto"),
    partial(metrics.smooth_ece, bandwidth=0.05),
    partial(metrics.smooth_ece, bandwidth=3.0),
    partial(metrics.smooth_ece, scale="logit", bandwidth=0.3),
    metrics.logit_smoothed_ece,
    partial(metrics.logit_smoothed_ece, bandwidth=0.4),
    partial(metrics.logit_smoothed_ece, bandwidth=0.01),
]
SLOW = [partial(metrics.smooth_ece, scale="logit")]
DRAWS = 3


def predictions():
    rng = np.random.default_rng(0)
    yield "uniform", np.sort(rng.random(60))
    yield "near 0", np.sort(0.03 * rng.random(30))
    yield "few", np.array([0.0, 0.1, 0.3, 0.5, 0.9, 1.0])
    yield "saturated", np.array([0.0, 1e-9, 0.5, 1.0])
    yield "one", np.array([0.3])


PREDICTIONS = dict(predictions())


def samples(prob, kind):
    """Return numbers of rows and of positive rows; some predictions have none where the rows vary."""
    rng = np.random.default_rng(1)
    shape = (prob.shape[0], DRAWS)
    if kind == "labels":
        count = np.ones(prob.shape[0])
        return count, rng.random(shape) < prob[:, np.newaxis]
    if kind == "ties":
        count = rng.integers(1, 12, prob.shape[0])
        return count * 1.0, rng.binomial(count[:, np.newaxis], 0.8 * prob[:, np.newaxis], shape) * 1.0
    count = rng.multinomial(2 * prob.shape[0] + 1, np.full(prob.shape[0], 1 / prob.shape[0]), size=DRAWS).T
    return count.astype(float), rng.binomial(count, np.sqrt(prob)[:, np.newaxis]).astype(float)


def plain_loop(metric, prob, count, positives):
    values = []
    for j in range(positives.shape[1]):
        rows = (count if count.ndim == 1 else count[:, j]).astype(int)
        events, p = positives[:, j].astype(int), np.repeat(prob, rows)
        y = np.concatenate([np.r_[np.ones(k), np.zeros(m - k)] for m, k in zip(rows, events, strict=True)])
        values.append(metric(y.astype(int), p))
    return np.array(values)


def check(metric, name, kind, power, atol):
    prob = PREDICTIONS[name]
    count, positives = samples(prob, kind)
    total = float(count.sum(axis=0).max())
    expected = plain_loop(metric, prob, count, positives)
    found = evaluator(metric, prob, total)(count, positives) ** power
    np.testing.assert_allclose(found, expected**power, atol=atol, rtol=0)
    assert bind_kernel(metric, total).accuracy >= atol


def evaluator(metric, prob, total):
    bound = bind_kernel(metric, total)
    evaluate = None if bound is None else bound.evaluator(prob, total)
    if evaluate is None:
        return None
    return lambda count, positives: evaluate(count.reshape(prob.shape[0], -1), positives)


def identity(metric):
    return f"{getattr(metric, 'func', metric).__name__}-{getattr(metric, 'keywords', '')}"


@pytest.mark.parametrize("metric", EXACT, ids=identity)
def test_sums_agree_to_rounding(metric):
    debiased = getattr(metric, "keywords", {}).get("debias")
    for name in PREDICTIONS:
        for kind in ("labels", "ties", "pairs"):
            check(metric, name, kind, 2 if debiased else 1, 1e-12)


@pytest.mark.parametrize("metric", SMOOTHED, ids=identity)
def test_smoothed_errors_agree(metric):
    for name in PREDICTIONS:
        for kind in ("labels", "ties", "pairs"):
            check(metric, name, kind, 1, 1e-6)


@pytest.mark.parametrize("kind", ["labels", "pairs"])
@pytest.mark.parametrize("metric", SLOW, ids=identity)
def test_logit_axis_agrees(metric, kind):
    check(metric, "few", kind, 1, 1e-6)


def test_few_samples_of_predictions_far_apart_on_the_logit_axis():
    # much farther than the kernel reaches
    metric = partial(metrics.smooth_ece, scale="logit", bandwidth=0.05)
    prob = np.array([0.001, 0.2, 0.5, 0.55, 0.999])
    count, positives = samples(prob, "ties")
    found = evaluator(metric, prob, float(count.sum()))(count, positives)
    np.testing.assert_allclose(found, plain_loop(metric, prob, count, positives), atol=1e-6)


@pytest.mark.parametrize(
    "metric",
    [
        lambda y, p: 0.5,
        partial(metrics.smooth_ece, [0, 1]),
        partial(metrics.smooth_ece, pos_label=0),
        partial(metrics.smooth_ece, sample_weight=[1.0]),
        partial(metrics.logit_smoothed_ece, noise="uniform"),
        partial(metrics.logit_smoothed_ece, bandwidth=1e-7),
    ],
)
def test_what_is_not_known_is_left_to_the_loop(metric):
    assert evaluator(metric, np.array([0.2, 0.4]), 2.0) is None


def test_reductions_of_a_binary_problem():
    """One that changes a binary problem is left to the loop, one that does not is known."""
    prob = np.array([0.2, 0.4])
    assert evaluator(partial(metrics.smooth_ece, reduction="confidence"), prob, 2.0) is None
    assert evaluator(partial(metrics.smooth_ece, reduction="classwise", labels=None), prob, 2.0) is not None


def make(prob, n_samples, power=1.0):
    def evaluate(count, positives):
        return np.abs((positives - count * prob[:, np.newaxis]).sum(axis=0) / n_samples) ** power

    return evaluate


@metrics.MetricKernel(make, calibration_error=True)
def of_a_user(y_true, y_proba, sample_weight=None, power=1.0):
    weight = np.ones(len(y_true)) if sample_weight is None else sample_weight
    return abs(weight @ (np.asarray(y_true) - y_proba) / weight.sum()) ** power


@pytest.mark.parametrize(
    "metric",
    [
        EXACT[0],
        partial(of_a_user, power=2.0),
        *(thorough(metric) for metric in (*EXACT[1:5], metrics.smooth_ece, metrics.logit_smoothed_ece)),
    ],
    ids=identity,
)
def test_floor_test_and_interval_are_those_of_the_loop(metric):
    @metrics.MetricKernel(calibration_error=True)
    def loop(y_true, y_proba, sample_weight=None):
        return metric(y_true, y_proba, sample_weight=sample_weight)

    y, p = simulated(70, seed=2, truth=1.3, digits=2)
    given = {"random_state": 0, "n_resamples": 40}
    ours, theirs = (expected_under_calibration(None, p, metric=m, **given) for m in (metric, loop))
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-6)
    for resample in ("labels", "pairs"):
        given = {"n_resamples": 39, "resample": resample, "random_state": 0}
        ours, theirs = (ConsistencyTest(m, **given).test(y, p) for m in (metric, loop))
        assert ours.pvalue == theirs.pvalue
        np.testing.assert_allclose(ours.null_distribution, theirs.null_distribution, atol=1e-6)
    # the lower end of some metrics allows for populations that the loop does not declare
    other = bind_kernel(metric, 70).kernel._least_favorable is not None
    for method in ("bootstrap",) if other else ("inversion", "bootstrap"):
        options = {"method": method, "n_resamples": 20, "random_state": 0}
        ours, theirs = (confidence_interval(y, p, metric=m, **options) for m in (metric, loop))
        assert (ours.lower, ours.upper) == pytest.approx((theirs.lower, theirs.upper), abs=1e-5)


def test_calibration_errors_are_declared():
    others = {"area_under_risk_coverage", "net_benefit", "refinement_loss"}
    others |= {"brier_score", "brier_score_loss", "log_loss", "roc_auc", "roc_auc_score"}
    for name in metric_names():
        metric = as_metric(name)
        for each in (metric, partial(metric)):
            assert declaration(each).calibration_error == (name not in others)
            expected = name in ("net_benefit", "roc_auc", "roc_auc_score")
            assert declaration(each).greater_is_better == (expected)
    assert not declaration(lambda y, p: 0.0).calibration_error
    assert declaration(metrics.MetricKernel(calibration_error=True)(lambda y, p: 0.0)).calibration_error
