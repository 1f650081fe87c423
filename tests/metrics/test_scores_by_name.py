"""Brier score, log loss and AUC, wherever a metric is accepted by name."""

from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from sklearn.metrics import get_scorer as sklearn_scorer

from sklearn_calib import inference
from sklearn_calib.metrics import smooth_ece
from sklearn_calib.monitor import CalibrationMonitor
from sklearn_calib.plot import ComparisonDisplay
from sklearn_calib.scorers import CalibrationScorer
from tests._tiers import thorough

NAMES = dict.fromkeys(("brier_score", "brier_score_loss"), brier_score_loss)
NAMES |= {"log_loss": log_loss, "roc_auc": roc_auc_score}


@pytest.fixture(scope="module")
def forecast():
    rng = np.random.default_rng(0)
    p = np.append(rng.uniform(size=198).round(2), [0.0, 1.0])
    return (rng.uniform(size=200) < p).astype(int), p, rng.integers(1, 4, 200)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("auc", "roc_auc"), ("ECE", "expected_calibration_error"), ("brier", "brier_score"),
     ("logloss", "log_loss"), ("smoth_ece", "smooth_ece"), ("", None), ("accuracy", None)],
)  # fmt: skip
def test_the_name_that_is_meant_is_suggested(given, meant, forecast):
    with pytest.raises(ValueError, match=f"metric='{given}' is not the name of a metric") as caught:
        inference.confidence_interval(*forecast[:2], metric=given)
    suggested = str(caught.value).partition("Did you mean ")[2].split("?")[0]
    assert suggested == ("" if meant is None else repr(meant))


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_scikit_learn(name, forecast):
    y, p, w = forecast
    expected = NAMES[name]

    def estimate(y, p, **given):
        given |= {"method": "bootstrap", "n_resamples": 40, "random_state": 0}
        return inference.confidence_interval(y, p, metric=name, **given).estimate

    assert estimate(y, p) == pytest.approx(expected(y, p), rel=1e-12)
    assert estimate(y, p, sample_weight=w) == pytest.approx(expected(y, p, sample_weight=w), rel=1e-12)
    assert estimate(1 - y, 1 - p, pos_label=1) == pytest.approx(expected(y, p), rel=1e-12)


def test_labels_and_classes_are_averaged():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 60)
    y = (rng.random(p.shape) < p).astype(int)
    for name, expected in NAMES.items():
        found = inference.confidence_interval(y, p, metric=name, n_resamples=40, random_state=0).estimate
        assert found == pytest.approx(np.mean([expected(y[:, k], p[:, k]) for k in range(3)]))
    classes = np.arange(60) % 3
    area = np.mean([roc_auc_score(classes == k, p[:, k]) for k in range(3)])
    found = inference.confidence_interval(classes, p, metric="roc_auc", n_resamples=40, random_state=0)
    assert found.estimate == pytest.approx(area)


def test_three_classes_and_a_class_that_is_missing():
    p = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8], [0.6, 0.3, 0.1]])

    def value(metric, y, p):
        given = {"metric": metric, "n_resamples": 19, "random_state": 0, "intervals": False}
        return inference.compare_models(y, {"a": p, "b": p}, **given).models[0].estimate

    def log(y, p):
        return value("log_loss", y, p)

    def brier(y, p):
        return value("brier_score", y, p)

    assert log([0, 2, 0], p) == pytest.approx(-np.log([0.2, 0.8, 0.6]).mean(), rel=1e-12)
    squares = [0.8**2 + 0.3**2 + 0.5**2, 0.1**2 + 0.1**2 + 0.2**2, 0.4**2 + 0.3**2 + 0.1**2]
    assert brier([0, 2, 0], p) == pytest.approx(np.mean(squares), rel=1e-12)
    assert log([1, 1], [0.5, 0.25]) == pytest.approx(np.log([2, 4]).mean(), rel=1e-12)


@pytest.mark.parametrize("name", ["brier_score_loss", "roc_auc", "smooth_ece", thorough("log_loss")])
def test_names_and_functions_give_the_same_inference(name, forecast):
    y, p, _ = forecast
    y, p = y[:40], np.clip(p[:40], 0.01, 0.99)
    function = {**NAMES, "log_loss": partial(log_loss, labels=[0, 1]), "smooth_ece": smooth_ece}[name]
    by_name, by_function = (
        inference.expected_under_calibration(None, p, metric=metric, n_resamples=19, random_state=0)
        for metric in (name, function)
    )
    np.testing.assert_allclose(by_name.values, by_function.values, rtol=1e-12)
    tests = [inference.ConsistencyTest(metric, n_resamples=19, random_state=0) for metric in (name, function)]
    assert tests[0].test(y, p**2).pvalue == tests[1].test(y, p**2).pvalue
    models, options = {"a": p, "b": p**2}, {"n_resamples": 19, "intervals": False}
    found, other = (inference.compare_models(y, models, metric=m, **options) for m in (name, function))
    assert found.pairs[0].difference == pytest.approx(other.pairs[0].difference, rel=1e-12)
    assert found.pairs[0].pvalue == other.pairs[0].pvalue
    assert found.models[0].estimate == pytest.approx(function(y, p), rel=1e-12)


def test_names_in_scorers_monitors_and_displays(forecast):
    y, p, _ = forecast
    model = LogisticRegression().fit(p[:, None], y)
    for name, scorer in (("brier_score_loss", "neg_brier_score"), ("log_loss", "neg_log_loss")):
        expected = sklearn_scorer(scorer)(model, p[:, None], y)
        assert CalibrationScorer(name)(model, p[:, None], y) == pytest.approx(expected, rel=1e-12)
    monitor = CalibrationMonitor(metrics=["log_loss", "smooth_ece"])
    monitor.update(y, p)
    assert monitor.history()["log_loss"][-1] == pytest.approx(log_loss(y, p), rel=1e-6)
    pytest.importorskip("matplotlib")
    display = ComparisonDisplay.from_predictions(
        y, {"a": p, "b": p**2}, metrics=["brier_score_loss", "log_loss"], n_resamples=59, random_state=0
    )
    assert len(display.figure_.axes) == 2
