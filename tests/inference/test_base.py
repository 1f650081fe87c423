"""The result and the estimator side of tests of calibration."""

import dataclasses

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline

from sklearn_calib import CrossFitScorer
from sklearn_calib.calibrators import IsotonicCalibrator, PlattCalibrator
from sklearn_calib.inference import CalibrationTestResult, CoxTest, KernelTest, SpiegelhalterTest, TCal
from tests.inference._properties import sample

RESULT = CalibrationTestResult(
    test="name", null_hypothesis="nothing", statistic=1.5, pvalue=0.04, estimate=0.1, method="by hand",
    n_samples=7, null_distribution=np.zeros(3), reason="because",
)  # fmt: skip


def test_result_is_frozen_and_readable():
    lines = ["name: H0: nothing", "  p-value    0.04  (by hand)", "  statistic  1.5", "  estimate   0.1"]
    assert str(RESULT).splitlines() == [*lines, "  n          7", "  because"]
    assert "because" not in str(dataclasses.replace(RESULT, reason=""))
    assert "null_distribution" not in repr(RESULT)
    with pytest.raises(dataclasses.FrozenInstanceError):
        RESULT.pvalue = 0.0
    with pytest.raises(TypeError):
        iter(RESULT)
    assert RESULT.rejects(0.04)
    assert not RESULT.rejects(0.01)
    with pytest.raises(ValueError, match="alpha"):
        RESULT.rejects(0)


def test_fit_stores_what_was_tested_and_test_does_not():
    y, p = sample()
    names, test = np.where(y == 1, "no", "yes"), TCal(method="asymptotic")
    result = test.test(1 - y, p)
    assert vars(test).keys() == test.get_params().keys()
    for X in (p, p[:, None], np.column_stack((1 - p, p))):
        fitted = clone(test).fit(X, names)
        assert fitted.result_ == result
        assert fitted.n_features_in_ == (1 if X.ndim == 1 else X.shape[1])
        assert fitted.classes_.tolist() == ["no", "yes"]
        assert fitted.transform(X) is clone(test).fit_transform(X, names) is X
        np.testing.assert_array_equal(fitted.predict_proba(X), np.column_stack((1 - p, p)))
        np.testing.assert_array_equal(fitted.predict(X), np.where(p > 0.5, "yes", "no"))
    for call, error, message in (
        (lambda: fitted.predict_proba(np.full((60, 3), 1 / 3)), ValueError, r"\(60, 3\), but fit had 2"),
        (lambda: clone(test).fit(p, y).transform(p + 1), ValueError, "X contains"),
        (lambda: TCal().predict(p), NotFittedError, "not fitted"),
        (lambda: TCal().transform(p), NotFittedError, "not fitted"),
    ):
        with pytest.raises(error, match=message):
            call()
    # samples of one class only
    only = clone(test).fit(p, np.zeros(60, dtype=int))
    assert only.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(only.predict(p), p > 0.5)


def test_score_keeps_the_meaning_of_labels():
    y, p = sample()
    names = np.where(y == 1, "yes", "no")
    test = TCal(method="asymptotic").fit(p, names)
    one_class = y == 1
    expected = test.test(np.ones(one_class.sum(), dtype=int), p[one_class]).pvalue
    assert test.score(p[one_class], names[one_class]) == expected
    with pytest.raises(ValueError, match="maybe"):
        test.score(p[:2], ["yes", "maybe"])
    given = {"sample_weight": np.arange(60) % 3, "weights": "frequency"}
    assert test.score(p, names, **given) == test.test(y, p, **given).pvalue
    assert TCal(method="asymptotic").score(p, y) == test.test(y, p).pvalue


def test_predictions_of_several_classes_and_labels():
    rng = np.random.default_rng(0)
    p, test = rng.dirichlet(np.ones(4), 80), KernelTest(n_resamples=19, random_state=0)
    # the last class does not occur
    fitted = clone(test).fit(p, np.arange(80) % 3)
    np.testing.assert_array_equal(fitted.classes_, np.arange(4))
    np.testing.assert_array_equal(fitted.predict(p), p.argmax(axis=1))
    np.testing.assert_array_equal(fitted.predict_proba(p), p)
    assert fitted.score(p, np.arange(80) % 3) == fitted.pvalue_
    for k in (2, 4):
        proba = rng.random((80, k))
        labels = (rng.random((80, k)) < proba).astype(int)
        fitted = TCal(n_resamples=19, random_state=0).fit(proba, labels)
        np.testing.assert_array_equal(fitted.predict(proba), proba > 0.5)
        np.testing.assert_array_equal(fitted.predict_proba(proba), proba)
        assert fitted.transform(proba) is proba
        assert fitted.score(proba, labels) == fitted.pvalue_
    with pytest.raises(ValueError, match="pos_label=1 needs a binary problem, but y_proba has 4 columns"):
        test.test(np.arange(80) % 3, p, pos_label=1)


def test_scorers_accept_a_pipeline_that_ends_with_a_test():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.where(rng.random(400) < 1 / (1 + np.exp(-2 * X[:, 0])), "yes", "no")
    model = make_pipeline(CrossFitScorer(LogisticRegression()), PlattCalibrator())
    test = TCal(method="asymptotic")
    tested = make_pipeline(*(step for _, step in model.steps), test)
    scoring = ["neg_log_loss", "roc_auc", "accuracy"]
    found, wanted = (cross_validate(each, X, y, scoring=scoring, cv=2) for each in (tested, model))
    for name in scoring:
        np.testing.assert_array_equal(found[f"test_{name}"], wanted[f"test_{name}"])
    grid = {"plattcalibrator": [PlattCalibrator(), IsotonicCalibrator(clip="auto")]}
    scoring = {"loss": "neg_log_loss", "pvalue": lambda model, X, y: model.score(X, y)}
    search = GridSearchCV(tested, grid, scoring=scoring, refit="loss", cv=2).fit(X, y)
    np.testing.assert_array_equal(search.classes_, ["no", "yes"])
    served = search.best_estimator_[:-1]
    np.testing.assert_array_equal(search.predict_proba(X), served.predict_proba(X))
    np.testing.assert_array_equal(search.predict(X), served.predict(X))
    assert log_loss(y, search.predict_proba(X)) < 0.6
    assert search.best_estimator_.score(X, y) == test.test(y, served.transform(X), pos_label="yes").pvalue


def test_tiny_predictions_count_as_1e_60():
    y, p = [0, 1, 0, 0, 1, 1], np.array([0.0, 5e-324, 1e-61, 1e-60, 0.5, 1.0])
    raised = [0.0, 1e-60, 1e-60, 1e-60, 0.5, 1.0]
    for test in (SpiegelhalterTest(), CoxTest(), TCal(random_state=0)):
        assert test.test(y, p) == test.test(y, raised)
