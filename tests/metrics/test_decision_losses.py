"""Decision loss, largest risk gap and net benefit from their definitions."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.linear_model import LogisticRegression

from sklearn_calib import metrics
from sklearn_calib.inference import confidence_interval, expected_under_calibration
from sklearn_calib.scorers import get_scorer
from tests._references import decision_gap, isotonic_by_extremes
from tests._samples import simulated


def samples():
    rng = np.random.default_rng(5)
    for n in (1, 2, 5, 9):
        for decimals in (1, 3):
            p = np.round(rng.random(n), decimals)
            yield rng.integers(0, 2, n), p, rng.integers(1, 4, n).astype(float)
    yield np.array([0, 1, 1]), np.array([0.0, 0.5, 1.0]), np.array([1.0, 2.0, 0.5])
    yield np.array([1, 0]), np.array([0.0, 1.0]), np.ones(2)
    yield np.array([1, 0, 1]), np.array([0.5, 0.5, 0.5]), np.ones(3)


def loss_by_linear_program(y, p, w, recalibrated):
    """The best proper score with values in [0, 1], on the forecasts before and after recalibration."""
    beliefs = np.unique(np.concatenate((p, recalibrated)))
    m = len(beliefs)
    before, after = np.searchsorted(beliefs, p), np.searchsorted(beliefs, recalibrated)
    gain = np.zeros(2 * m)
    for i in range(len(y)):
        gain[2 * after[i] + y[i]] += w[i] / w.sum()
        gain[2 * before[i] + y[i]] -= w[i] / w.sum()
    rules = []
    for true, said in product(range(m), range(m)):
        # no other report has a higher expected score
        rule = np.zeros(2 * m)
        for outcome, chance in ((0, 1 - beliefs[true]), (1, beliefs[true])):
            rule[2 * said + outcome] += chance
            rule[2 * true + outcome] -= chance
        rules.append(rule)
    return -linprog(-gain, A_ub=np.array(rules), b_ub=np.zeros(len(rules)), bounds=(0, 1)).fun


def frequencies(y, p, w):
    return np.array([np.average(y[p == value], weights=w[p == value]) for value in p])


def test_decision_loss_is_the_linear_program():
    for y, p, w in samples():
        increasing, decreasing = isotonic_by_extremes(y, p, w), isotonic_by_extremes(y, -p, w)
        fits_of = {"monotone": [increasing], "either": [increasing, decreasing]}
        for recalibration, fits in (fits_of | {"any": [frequencies(y, p, w)]}).items():
            found = metrics.calibration_decision_loss(y, p, sample_weight=w, recalibration=recalibration)
            assert found == pytest.approx(max(loss_by_linear_program(y, p, w, fit) for fit in fits), abs=1e-9)


def test_largest_gap_is_the_supremum():
    for y, p, w in samples():
        near = np.concatenate([np.arange(1, 20) / 20, p, p - 1e-9, p + 1e-9, [1e-9, 1 - 1e-9]])
        near = near[(near > 0) & (near < 1)]
        for recalibration in ("monotone", "either", "any"):
            gaps = [decision_gap(y, p, w, tau, recalibration) for tau in near]
            given = {"recalibration": recalibration, "sample_weight": w}
            found = metrics.decision_risk_gap(y, p, threshold="max", **given)
            assert found == pytest.approx(max(gaps), abs=1e-8)
            result = metrics.decision_risk_result(y, p, thresholds=near, **given)
            np.testing.assert_allclose(result.gap, gaps, rtol=0, atol=1e-12)
            assert metrics.decision_risk_result(y, p, **given).gap.max() <= found + 1e-15


def test_bounds_of_the_decision_loss():
    rng = np.random.default_rng(0)
    for power in (0.5, 1.0, 2.0):
        p = rng.random(300)
        y = (rng.random(300) < p**power).astype(int)
        gap, loss = metrics.decision_risk_gap(y, p, threshold="max"), metrics.calibration_decision_loss(y, p)
        assert gap <= loss <= 2 * gap <= 2 * metrics.cutoff_calibration_error(y, p)
        either, every = (metrics.calibration_decision_loss(y, p, recalibration=r) for r in ("either", "any"))
        assert loss <= either <= every


def expected(metric, p, truth):
    total = 0.0
    for outcome in product((0, 1), repeat=len(p)):
        y = np.array(outcome)
        total += np.prod(np.where(y == 1, truth, 1 - truth)) * metric(y, p)
    return total


def test_the_biased_square_of_the_kernel_error_is_truthful():
    square = partial(metrics.kernel_calibration_error, debias=False, squared=True)
    truth = np.array([0.35, 0.45, 0.5, 0.62])
    least = expected(square, truth, truth)
    assert least == pytest.approx(np.sum(truth * (1 - truth)) / 16)
    for p in [np.full(4, truth.mean()), truth + 0.02, *np.random.default_rng(0).random((20, 4))]:
        assert expected(square, p, truth) >= least - 1e-15


@pytest.mark.parametrize(
    "metric", [partial(metrics.decision_risk_gap, threshold="max"), metrics.calibration_decision_loss]
)
def test_pooled_predictions_have_the_same_null_distribution(metric):
    p = np.random.default_rng(0).beta(0.5, 2.0, 20_000)
    pooled = expected_under_calibration(None, p, metric=metric, n_resamples=30, random_state=0)
    rng = np.random.default_rng(1)
    plain = [metric((rng.random(20_000) < p).astype(int), p) for _ in range(30)]
    assert abs(pooled.expected - np.mean(plain)) < 3 * (np.std(plain) * np.sqrt(2 / 30))


def test_intervals_of_the_new_errors():
    y, p = simulated(500, truth=2)
    # the gap at t of the population is the integral of t - x^2 from t to sqrt(t), largest at t = 0.375
    metric = partial(metrics.decision_risk_gap, threshold="max")
    found = confidence_interval(y, p, metric=metric, n_resamples=40, random_state=0)
    t = np.linspace(0, 1, 10_001)
    assert found.lower < np.max(2 / 3 * t**1.5 - t**2 + t**3 / 3) < found.upper


def test_net_benefit_is_the_definition():
    for y, p, w in samples():
        for t in (0.01, 0.1, 0.5, 0.99):
            act = p >= t
            events = np.sum(w[act & (y == 1)]) / w.sum()
            others = np.sum(w[act & (y == 0)]) / w.sum()
            found = metrics.net_benefit(y, p, threshold=t, sample_weight=w)
            assert found == pytest.approx(events - others * t / (1 - t))
            risk = metrics.decision_risk_result(y, p, thresholds=[t], sample_weight=w).risk[0]
            assert found == pytest.approx(np.average(y, weights=w) - risk / (1 - t))


def test_net_benefit_of_a_published_example():
    # of 750 patients 105 have cancer; at 25% the model treats 72 of them, and 72 others. Net benefits of
    # the model, of treating all and of treating none, as the tests of the R package dcurves state them
    y = np.repeat([1, 0], [105, 645])
    model = np.concatenate([np.arange(105) < 72, np.arange(645) < 72]) * 0.5
    for p, published in ((model, 0.064), (np.ones(750) / 2, -0.1466667), (np.zeros(750), 0.0)):
        assert metrics.net_benefit(y, p, threshold=0.25) == pytest.approx(published, abs=1e-7)


def test_scorer_of_net_benefit():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = (X[:, 0] > 0.3).astype(int)
    model = LogisticRegression().fit(X, y)
    scorer = get_scorer("net_benefit").set_params(threshold=0.2)
    assert scorer(model, X, y) == metrics.net_benefit(y, model.predict_proba(X)[:, 1], threshold=0.2) > 0.2
    assert get_scorer("net_benefit").metric_params == {}
