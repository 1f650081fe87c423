"""Every calibrator of the registry behind a classifier."""

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from sklearn_calib.calibrators import (
    BaseCalibrator,
    MatrixScalingCalibrator,
    OneVsRestCalibrator,
    PlattCalibrator,
    TemperatureCalibrator,
)
from sklearn_calib.meta import CalibratedClassifier
from tests._optional import pandas as pd
from tests.calibrators._registry import CALIBRATORS, once_a_class

every_calibrator = pytest.mark.parametrize("case", once_a_class(CALIBRATORS), ids=lambda case: case.name)


def problem(n_classes):
    X, y = make_classification(
        400, n_features=6, n_informative=4, n_classes=n_classes, class_sep=1.5, flip_y=0.1, random_state=0
    )
    return X, np.array(["c", "a", "b"])[y], np.random.default_rng(0).integers(0, 3, 400)


class Sums(ClassifierMixin, BaseEstimator):
    """A score that is exact whatever the order in memory: the first feature, in steps of 1/64."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return np.round(np.asarray(X)[:, 0] * 64) / 64


def exact_classifier(case):
    """Return a classifier without rounding, and the method that the calibrator reads."""
    if case.log_odds:
        return Sums(), "decision_function"
    return DecisionTreeClassifier(max_depth=5, random_state=0), "predict_proba"


@every_calibrator
@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_binary(case, ensemble, weighted):
    X, y, w = problem(2)
    model = CalibratedClassifier(LogisticRegression(), case.make(), cv=3, ensemble=ensemble)
    model.fit(X, y, **({"sample_weight": w} if weighted else {}))
    proba = model.predict_proba(X)
    assert model.classes_.tolist() == ["a", "c"]
    assert ((proba >= 0) & (proba <= 1)).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-14)
    assert all(isinstance(calibrator, BaseCalibrator) for calibrator in model.calibrators_)
    # the classifier is informative, and stays so
    event = y == "c"
    assert np.mean((proba[:, 1] - event) ** 2) < event.var() * (1.01 if case.constant else 0.9)


@every_calibrator
def test_several_classes(case):
    X, y, _ = problem(3)
    calibrator = case.make() if case.multiclass else OneVsRestCalibrator(case.make())
    response = "decision_function" if case.log_odds else "predict_proba"
    model = CalibratedClassifier(
        LogisticRegression(), calibrator, response_method=response, cv=3, ensemble=False
    ).fit(X, y)
    proba = model.predict_proba(X)
    assert proba.shape == (400, 3)
    assert ((proba >= 0) & (proba <= 1)).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-14)


@pytest.mark.thorough
@every_calibrator
def test_survives_search_labels_frozen_estimators_frames_jobs_and_pickle(case):
    """One problem of three classes or two, put in the ways in which models are used."""
    X, y, w = problem(3 if case.multiclass and not case.log_odds else 2)
    base, response = exact_classifier(case)
    base.fit(X[:150], y[:150])
    model = CalibratedClassifier(base, case.make(), response_method=response, cv=2, ensemble=True)
    expected = model.fit(X, y).predict_proba(X)

    frame = pd.DataFrame(X, index=np.arange(400)[::-1] * 7 - 3, columns=[f"f{k}" for k in range(6)])
    labels = pd.Series(y, index=np.roll(frame.index, 5))
    framed = clone(model).fit(frame, labels)
    np.testing.assert_array_equal(framed.predict_proba(frame), expected)
    assert set(framed.predict(frame)) <= set(y)

    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.predict_proba(X), expected)
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), expected)

    frozen = clone(model).set_params(estimator=FrozenEstimator(base), ensemble="auto")
    frozen.fit(X[150:], y[150:], sample_weight=w[150:])
    assert len(frozen.calibrators_) == 1
    assert frozen.predict_proba(X).shape == expected.shape


@pytest.mark.thorough
def test_workers_change_nothing():
    X, y, _ = problem(2)
    for case in CALIBRATORS:
        base, response = exact_classifier(case)
        one, two = (
            CalibratedClassifier(base, case.make(), response_method=response, cv=2, n_jobs=k)
            .fit(X, y)
            .predict_proba(X)
            for k in (1, 2)
        )
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-12, err_msg=case.name)


@pytest.mark.thorough
@pytest.mark.parametrize("n_classes", [2, 3])
def test_grid_over_calibrators_and_their_parameters(n_classes):
    X, y, w = problem(n_classes)
    cases = [case for case in CALIBRATORS if not case.log_odds and (case.multiclass or n_classes == 2)]
    model = CalibratedClassifier(LogisticRegression(), cv=2, response_method="predict_proba")
    grid = [
        {"calibrator": [case.make() for case in cases]},
        {"calibrator": [OneVsRestCalibrator(PlattCalibrator())], "calibrator__calibrator__link": ["logit"]},
        {"calibrator": [TemperatureCalibrator()], "calibrator__link": ["logit"]},
    ]
    search = GridSearchCV(model, grid, scoring="neg_log_loss" if n_classes == 3 else "roc_auc", cv=2)
    search.fit(X, y, sample_weight=w)
    scores = search.cv_results_["mean_test_score"]
    assert scores.shape == (len(cases) + 2,)
    assert not np.isnan(scores).any()
    assert search.best_estimator_.classes_.tolist() == np.unique(y).tolist()


@every_calibrator
@pytest.mark.parametrize("ensemble", [True, False])
def test_weights_are_routed(case, ensemble):
    """Weights that only the calibrator asks for, against fits by hand."""
    X, y, w = problem(2)
    response = "decision_function" if case.log_odds else "predict_proba"
    with sklearn.config_context(enable_metadata_routing=True):
        calibrator = case.make().set_fit_request(sample_weight=True)
        estimator = LogisticRegression().set_fit_request(sample_weight=False)
        model = CalibratedClassifier(
            estimator, calibrator, response_method=response, cv=StratifiedKFold(2), ensemble=ensemble
        ).fit(X, y, sample_weight=w)
        found = model.predict_proba(X)
        first = model.calibrated_classifiers_[0]
    train, held = next(StratifiedKFold(2).split(X, y))
    if ensemble:
        base = LogisticRegression().fit(X[train], y[train])
        np.testing.assert_array_equal(first.estimator.coef_, base.coef_)
        scores = getattr(base, response)(X)
        scores = scores[:, -1] if scores.ndim == 2 else scores
        by_hand = case.make().fit(scores[held], y[held], w[held]).predict_proba(scores)
        np.testing.assert_array_equal(first.predict_proba(X), by_hand)
    unweighted = (
        CalibratedClassifier(
            LogisticRegression(),
            case.make(),
            response_method=response,
            cv=StratifiedKFold(2),
            ensemble=ensemble,
        )
        .fit(X, y)
        .predict_proba(X)
    )
    # weights of 0, 1 and 2 change every map that is fitted
    assert np.abs(found - unweighted).max() > 1e-6


@every_calibrator
def test_a_class_that_a_fold_lacks_is_named(case):
    X, y, _ = problem(2)
    folds = [(np.arange(400), np.flatnonzero(y == "a")), (np.arange(400), np.arange(400))]
    response = "decision_function" if case.log_odds else "predict_proba"
    model = CalibratedClassifier(
        LogisticRegression(), case.make(), response_method=response, cv=folds, ensemble=True
    )
    with pytest.raises(ValueError, match=r"class 'c' has no sample of positive weight in the held-out part"):
        model.fit(X, y)
    assert model.set_params(ensemble=False).fit(X, y).predict_proba(X).shape == (400, 2)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [case.name for case in CALIBRATORS if case.multiclass or case.name == "platt"]
)
def test_a_hundred_classes_with_few_rows_each(name):
    case = next(case for case in CALIBRATORS if case.name == name)
    calibrator = case.make()
    if "penalty" in calibrator.get_params():
        calibrator.set_params(penalty=1.0)
    elif name == "log_average":
        calibrator.set_params(
            calibrators=[OneVsRestCalibrator(PlattCalibrator()), MatrixScalingCalibrator(penalty=1.0)]
        )
    rng = np.random.default_rng(0)
    centres = 3 * rng.standard_normal((100, 8))
    y = np.tile(np.arange(100), 6)
    X = centres[y] + rng.standard_normal((600, 8))
    response = "decision_function" if case.log_odds else "predict_proba"
    base = FrozenEstimator(LinearDiscriminantAnalysis().fit(X[:300], y[:300]))
    model = CalibratedClassifier(base, calibrator, response_method=response).fit(X[300:], y[300:])
    proba = model.predict_proba(X)
    assert proba.shape == (600, 100)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert (model.predict(X[300:]) == y[300:]).mean() > 0.7
