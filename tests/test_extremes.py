"""Extreme predictions and scores: finite metrics, probabilities in [0, 1], and no overflow."""

import re

import numpy as np
import pytest

from sklearn_calib import metrics
from sklearn_calib._core._links import EPS, logit
from sklearn_calib.calibrators import VennAbersCalibrator
from sklearn_calib.inference import CombinedTest, ConsistencyTest, compare_models, confidence_interval
from sklearn_calib.metrics._scores import log_loss
from sklearn_calib.report import CalibrationRequirements
from tests import _every as every
from tests._entries import entries
from tests._samples import simulated
from tests.calibrators._registry import CALIBRATORS

Y, P = every.binary()
# From the least positive number to the largest below 1, with both ends.
EXTREMES = np.array([0.0, 5e-324, 1e-308, 1e-300, 1e-100, 1e-17, EPS, 1e-10, 0.5, 1 - 1e-10, 1 - EPS, 1.0])


@pytest.mark.parametrize("case", CALIBRATORS, ids=lambda case: case.name)
def test_extreme_scores(case):
    """Nothing overflows, nothing leaves [0, 1], in the fit or after it."""
    calibrator = case.make()
    kind = calibrator._score_kind()
    far = np.array([-700.0, -300.0, -37.0, -1.0, 0.0, 1e-300, 1.0, 37.0, 300.0, 700.0])
    ends = EXTREMES if kind == "probability" else far
    rng = np.random.default_rng(0)
    scores = np.concatenate([np.repeat(ends, 3), rng.choice(ends, 20)])
    y = (rng.random(scores.shape[0]) < (0.2 + 0.6 * (scores > np.median(scores)))).astype(int)
    for fitted in (calibrator.fit(scores, y), case.make().fit(P if kind == "probability" else logit(P), Y)):
        for given in (ends, scores):
            proba = fitted.predict_proba(given)
            assert ((proba >= 0) & (proba <= 1)).all()
            np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-12)
        if case.monotone:
            assert (np.diff(fitted.transform(np.sort(ends))) >= 0).all()


def test_log_loss_of_extreme_predictions():
    """Finite, but where the definition is not: of a prediction of 0 or 1 that fails. The scorer clips it."""
    inner, y = np.repeat(EXTREMES[1:-1], 2), np.arange(24) % 2
    found = metrics.score_decomposition(y[2:-2], inner, score="log_loss")
    assert np.isfinite([found.score, found.miscalibration, found.discrimination, found.uncertainty]).all()
    assert found.score == pytest.approx(-np.log([1 - inner[::2], inner[1::2]]).mean(), rel=1e-9)
    ends = metrics.score_decomposition(y, np.repeat(EXTREMES, 2), score="log_loss")
    assert (ends.score, ends.miscalibration) == (np.inf, np.inf)
    assert log_loss(y, np.repeat(EXTREMES, 2)) == np.inf
    assert log_loss(y[2:-2], inner) == pytest.approx(found.score, rel=1e-12)


def test_log_loss_by_name_is_infinite_where_a_certainty_is_contradicted():
    y, p = simulated(200)
    certain = np.where(np.arange(200) < 2, 1.0 - y, p)
    agrees = np.where(np.arange(200) < 2, y, p)
    for clusters in (None, np.arange(200) // 4):
        found = confidence_interval(y, certain, metric="log_loss", clusters=clusters)
        assert (found.estimate, found.lower, found.upper) == (np.inf, np.inf, np.inf)
        assert confidence_interval(y, agrees, metric="log_loss", clusters=clusters).upper < 1.0
    assert confidence_interval(y, certain, metric="log_loss", sample_weight=np.ones(200)).lower == np.inf
    assert CalibrationRequirements({"log_loss": [0, 0.8]}).check(y, certain).outcome == "fail"
    assert ConsistencyTest("log_loss", n_resamples=39).test(y, certain).pvalue == 0.0
    expected = compare_models(y[2:], {"a": p[2:], "b": p[2:] ** 2}, metric="log_loss", n_resamples=39)
    found = compare_models(y, {"a": agrees, "b": p**2}, metric="log_loss", n_resamples=39)
    assert found.models[0].estimate == pytest.approx(0.99 * expected.models[0].estimate, rel=1e-12)
    with pytest.raises(ValueError, match=r"inf for predictions\['b'\] and 200 samples.*contradicted: leave"):
        compare_models(y, {"a": p, "b": certain}, metric="log_loss", n_resamples=39)
    three = np.column_stack([np.zeros(200), certain, 1.0 - certain])
    with pytest.raises(ValueError, match="contradicted: leave"):
        compare_models(2 - y, {"a": three, "b": three}, metric="log_loss", n_resamples=39)


@pytest.mark.parametrize("tiny", [1e-100, 1e-160, 1e-300, 5e-324])
def test_intervals_of_tiny_predictions(tiny):
    found = confidence_interval(np.arange(100) == 0, np.full(100, tiny), metric="smooth_ece", n_resamples=39)
    # one event of 100: the error is the event frequency
    assert found.estimate == pytest.approx(0.01)
    assert 0 <= found.lower < 0.01 < found.upper < 0.1


def test_large_weights_are_not_counts():
    """Beyond 2**53 all floats are integers: the number of samples is then the effective one."""
    weight = np.random.default_rng(0).uniform(0.5, 1.5, 120)
    for scale in (1e20, 1e50, 1e95):
        for metric in (metrics.logit_smoothed_ece, metrics.smooth_ece):
            found = metric(Y, P, sample_weight=scale * weight)
            assert found == pytest.approx(metric(Y, P, sample_weight=weight), rel=1e-12)


#: Methods of estimators, and what computes the same as the functions and draws or writes it.
SLOW = re.compile(r"\.|Display|report|compare_models")


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(entry, marks=pytest.mark.thorough if SLOW.search(entry.name) else (), id=entry.name)
        for entry in entries()
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_numpy_may_raise_floating_point_errors(entry):
    """What underflows is meant to, and is not the caller's concern."""
    with np.errstate(all="raise"):
        entry.call(**entry.good)


@pytest.mark.parametrize("weight", [1e15, 1e18])
def test_weights_that_sums_lose_in_rounding(weight):
    w = np.where(np.arange(Y.size) % 2, weight, 1.0)
    proba = VennAbersCalibrator().fit(P, Y, sample_weight=w).predict_proba(P)
    assert ((proba >= 0) & (proba <= 1)).all()


def test_a_test_of_one_hot_predictions():
    y = np.arange(30) % 3
    assert CombinedTest().test(y, np.eye(3)[y]).pvalue == 1.0
    assert CombinedTest().test(y, np.eye(3)[y[::-1]]).pvalue == 0.0
