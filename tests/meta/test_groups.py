"""Groups that reach the calibrator of a wrapped classifier, in fit and in prediction."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_score, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_calib import calibrators
from sklearn_calib.meta import CalibratedClassifier
from sklearn_calib.metrics import smooth_ece
from sklearn_calib.scorers import CalibrationScorer, MultiScorer, get_scorer

X, Y = make_classification(600, n_features=5, flip_y=0.3, random_state=0)
GROUPS = np.array(["a", "b", "b", "c"])[np.random.default_rng(0).integers(0, 4, 600)]
FOLDS = StratifiedKFold(3)


def grouped(calibrator=None):
    found = calibrators.GroupCalibrator(calibrator)
    return found.set_fit_request(groups=True).set_predict_proba_request(groups=True)


@pytest.mark.parametrize("ensemble", [True, False])
def test_against_fits_by_hand(routing, ensemble):
    model = CalibratedClassifier(GaussianNB(), grouped(), cv=FOLDS, ensemble=ensemble)
    model.fit(X, Y, groups=GROUPS)
    fresh = np.roll(GROUPS, 1)
    folds = [(GaussianNB().fit(X[a], Y[a]), b) for a, b in FOLDS.split(X, Y)]

    def calibrated(scores, rows, base):
        calibrator = calibrators.GroupCalibrator().fit(scores, Y[rows], groups=GROUPS[rows])
        return calibrator.predict_proba(base.predict_proba(X)[:, 1], groups=fresh)

    held = [base.predict_proba(X[b])[:, 1] for base, b in folds]
    if ensemble:
        expected = np.mean([calibrated(p, b, base) for p, (base, b) in zip(held, folds, strict=True)], axis=0)
    else:
        rows = np.concatenate([b for _, b in folds])
        expected = calibrated(np.concatenate(held), rows, GaussianNB().fit(X, Y))
    found = model.predict_proba(X, groups=fresh)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X, groups=fresh), expected.argmax(axis=1))
    # the groups matter
    assert np.abs(found - model.predict_proba(X, groups=GROUPS)).max() > 0


def test_frozen_estimator_and_pipeline_around(routing):
    base = FrozenEstimator(GaussianNB().fit(X[:300], Y[:300]))
    frozen = CalibratedClassifier(base, grouped()).fit(X[300:], Y[300:], groups=GROUPS[300:])
    pipeline = make_pipeline(StandardScaler(), CalibratedClassifier(GaussianNB(), grouped(), cv=2))
    pipeline.fit(X, Y, groups=GROUPS)
    for model in (frozen, pipeline):
        np.testing.assert_allclose(model.predict_proba(X, groups=GROUPS).sum(axis=1), 1, rtol=0, atol=1e-14)
        with pytest.raises(ValueError, match="groups were passed to fit, but not now"):
            model.predict_proba(X)


def test_several_classes(routing):
    y = np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.8])
    native = grouped(calibrators.OneVsRestCalibrator(calibrators.PlattCalibrator()))
    model = CalibratedClassifier(GaussianNB(), native, cv=2).fit(X, y, groups=GROUPS)
    assert model.predict_proba(X, groups=GROUPS).shape == (600, 3)
    with pytest.raises(ValueError, match=r"does not support groups\. Use a multiclass calibrator"):
        CalibratedClassifier(GaussianNB(), grouped(), cv=2).fit(X, y, groups=GROUPS)


def test_what_is_not_requested_is_an_error_that_says_so(routing):
    calibrator = calibrators.GroupCalibrator().set_fit_request(groups=True)
    model = CalibratedClassifier(GaussianNB(), calibrator, cv=2).fit(X, Y, groups=GROUPS)
    with pytest.raises(UnsetMetadataPassedError, match=r"GroupCalibrator\.predict_proba"):
        model.predict_proba(X, groups=GROUPS)
    for calibrator in (calibrators.IsotonicCalibrator(), None, "passthrough"):
        model = CalibratedClassifier(GaussianNB(), calibrator, cv=2).fit(X, Y)
        with pytest.raises(TypeError, match="groups"):
            model.predict(X, groups=GROUPS)


def test_cross_validation_and_search_with_groups(routing):
    model = CalibratedClassifier(GaussianNB(), grouped(), cv=3, ensemble=False)
    scorer = get_scorer("neg_smooth_ece").set_score_request(groups=True)
    proper = CalibrationScorer("log_loss").set_score_request(groups=True)
    both = MultiScorer({"error": scorer, "loss": proper})
    given = {"cv": KFold(2), "params": {"groups": GROUPS}}
    scores = cross_val_score(model, X, Y, scoring=scorer, error_score="raise", **given)
    found = cross_validate(model, X, Y, scoring=both, error_score="raise", **given)
    for k, (train, test) in enumerate(KFold(2).split(X)):
        fitted = clone(model).fit(X[train], Y[train], groups=GROUPS[train])
        p = fitted.predict_proba(X[test], groups=GROUPS[test])[:, 1]
        assert scores[k] == found["test_error"][k] == pytest.approx(-smooth_ece(Y[test], p))
        assert found["test_loss"][k] == pytest.approx(-log_loss(Y[test], p))
    grid = {"calibrator__calibrator": [calibrators.PlattCalibrator(), None]}
    search = GridSearchCV(model, grid, scoring=scorer, cv=KFold(2), error_score="raise")
    search.fit(X, Y, groups=GROUPS)
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(scores.mean())


def test_without_routing_groups_are_never_dropped_and_the_error_says_what_to_do():
    message = r"those of cv or of GroupCalibrator.*enable_metadata_routing.*set_predict_proba_request"
    with pytest.raises(ValueError, match=message):
        CalibratedClassifier(GaussianNB(), calibrators.GroupCalibrator(), cv=2).fit(X, Y, groups=GROUPS)

    model = CalibratedClassifier(GaussianNB(), calibrators.GroupCalibrator(), cv=2).fit(X, Y)
    for method in (model.predict, model.predict_proba):
        with pytest.raises(ValueError, match="got groups, which is passed to the calibrator only"):
            method(X, groups=GROUPS)
