"""Who receives weights, groups and other metadata, with and without scikit-learn's metadata routing."""

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

from sklearn_calib.calibrators import IsotonicCalibrator, OneVsRestCalibrator, PlattCalibrator
from sklearn_calib.meta import CalibratedClassifier, CrossFitScorer, SelectiveClassifier
from tests._optional import pandas as pd

X, Y = make_classification(120, n_features=4, flip_y=0.2, random_state=0)
WEIGHT = np.random.default_rng(0).integers(1, 6, 120).astype(float)
GROUPS = np.arange(120) % 4
# the row number as a feature lets a witness tell which rows, and hence which weights, it should see
NUMBERED = np.column_stack([X, np.arange(120)])


class Witness(ClassifierMixin, BaseEstimator):
    """A classifier that remembers what it was given."""

    def fit(self, X, y, sample_weight=None, note=None):
        self.rows_ = X[:, -1].astype(int)
        self.weight_ = None if sample_weight is None else np.asarray(sample_weight)
        self.note_ = note
        self.inner_ = GaussianNB().fit(X[:, :-1], y, sample_weight=sample_weight)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X):
        return self.inner_.predict_proba(X[:, :-1])


class WitnessCalibrator(IsotonicCalibrator):
    """A calibrator that remembers its weights."""

    def fit(self, X, y, sample_weight=None):
        self.weight_ = None if sample_weight is None else np.asarray(sample_weight)
        return super().fit(X, y, sample_weight=sample_weight)


def test_without_routing_weights_reach_estimator_and_calibrator():
    model = CalibratedClassifier(Witness(), WitnessCalibrator(), cv=3)
    model.fit(NUMBERED, Y, sample_weight=WEIGHT, note="kept")
    for pair in model.calibrated_classifiers_:
        train = pair.estimator.rows_
        np.testing.assert_array_equal(pair.estimator.weight_, WEIGHT[train])
        assert pair.estimator.note_ == "kept"
        np.testing.assert_array_equal(pair.calibrator.weight_, WEIGHT[np.setdiff1d(np.arange(120), train)])
    pooled = CalibratedClassifier(Witness(), WitnessCalibrator(), cv=3, ensemble=False)
    pooled.fit(NUMBERED, Y, sample_weight=WEIGHT)
    np.testing.assert_array_equal(pooled.estimators_[0].weight_, WEIGHT)
    np.testing.assert_array_equal(pooled.calibrators_[0].weight_, WEIGHT)


class Early(Witness):
    """A classifier that remembers its evaluation sets, whatever their names."""

    def fit(self, X, y, sample_weight=None, note=None, **given):
        self.given_ = given
        return super().fit(X, y, sample_weight, note)


EVALUATION = ("eval_set", "sample_weight_eval_set", "X_val", "y_val", "val_sample_weight", "validation_data")


@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize("rows", [120, 7])
def test_evaluation_sets_stay_whole(rows, ensemble):
    part, labels = NUMBERED[:rows], Y[:rows]
    sets = {name: part if name[0] == "X" else labels for name in EVALUATION}
    sets |= {"step__eval_set": [(part, labels)], "evals": [(part, labels)], "value": np.arange(120)}
    frame = pd.DataFrame(part)
    model = CalibratedClassifier(Early(), IsotonicCalibrator(), cv=3, ensemble=ensemble)
    model.fit(NUMBERED, Y, sample_weight=WEIGHT, note=WEIGHT * 2, eval_X=frame, **sets)
    for estimator in model.estimators_:
        given = estimator.given_
        assert given.pop("eval_X") is frame
        # "value" contains a word that is none
        np.testing.assert_array_equal(given.pop("value"), estimator.rows_)
        assert given.keys() == sets.keys() - {"value"}
        assert all(given[name] is sets[name] for name in given)
        np.testing.assert_array_equal(estimator.note_, 2 * WEIGHT[estimator.rows_])
    selective = SelectiveClassifier(Early(), target=0.4).fit(NUMBERED, Y, eval_set=labels)
    assert selective.estimator_.given_["eval_set"] is labels
    scorer = CrossFitScorer(Early(), cv=3)
    scorer.fit_transform(NUMBERED, Y, X_val=part)
    assert scorer.estimator_.given_["X_val"] is part


def test_search_as_calibrator_receives_weights():
    search = GridSearchCV(WitnessCalibrator(), {}, cv=2)
    model = CalibratedClassifier(GaussianNB(), search, cv=2, ensemble=False).fit(X, Y, sample_weight=WEIGHT)
    np.testing.assert_array_equal(model.calibrators_[0].best_estimator_.weight_, WEIGHT)


@pytest.mark.parametrize(
    ("estimator_wants", "calibrator_wants"), [(True, True), (True, False), (False, True)]
)
@pytest.mark.parametrize("ensemble", [True, False])
def test_requests_decide(routing, estimator_wants, calibrator_wants, ensemble):
    model = CalibratedClassifier(
        Witness().set_fit_request(sample_weight=estimator_wants, note=False),
        WitnessCalibrator().set_fit_request(sample_weight=calibrator_wants),
        ensemble=ensemble,
    ).fit(NUMBERED, Y, sample_weight=WEIGHT)
    assert all((estimator.weight_ is not None) == estimator_wants for estimator in model.estimators_)
    assert all((calibrator.weight_ is not None) == calibrator_wants for calibrator in model.calibrators_)


def test_unrequested_weights_are_an_error_that_names_the_part(routing):
    model = CalibratedClassifier(GaussianNB().set_fit_request(sample_weight=True), IsotonicCalibrator())
    with pytest.raises(UnsetMetadataPassedError, match=r"IsotonicCalibrator\.fit"):
        model.fit(X, Y, sample_weight=WEIGHT)
    with pytest.raises(UnsetMetadataPassedError, match=r"GaussianNB\.fit"):
        CrossFitScorer(GaussianNB()).fit_transform(X, Y, sample_weight=WEIGHT)
    nowhere = CalibratedClassifier(
        GaussianNB().set_fit_request(sample_weight=False),
        IsotonicCalibrator().set_fit_request(sample_weight=False),
    )
    with pytest.raises(TypeError, match=r"unexpected argument.*sample_weight"):
        nowhere.fit(X, Y, sample_weight=WEIGHT)
    with pytest.raises(TypeError, match=r"unexpected argument.*color"):
        CalibratedClassifier(GaussianNB(), IsotonicCalibrator()).fit(X, Y, color=WEIGHT)


def test_defaults_request_weights(routing):
    model = CalibratedClassifier().fit(X, Y, sample_weight=WEIGHT)
    with sklearn.config_context(enable_metadata_routing=False):
        expected = CalibratedClassifier().fit(X, Y, sample_weight=WEIGHT)
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


@pytest.mark.parametrize("ensemble", [True, False])
def test_groups_are_routed_to_the_splitter_from_outside(routing, ensemble):
    model = CalibratedClassifier(GaussianNB(), IsotonicCalibrator(), cv=GroupKFold(2), ensemble=ensemble)
    outer = cross_validate(model, X, Y, cv=GroupKFold(2), params={"groups": GROUPS}, return_estimator=True)
    assert np.isfinite(outer["test_score"]).all()
    folds = list(GroupKFold(4).split(X, Y, GROUPS))
    by_groups, by_list = (
        CalibratedClassifier(GaussianNB(), IsotonicCalibrator(), cv=cv, ensemble=ensemble)
        for cv in (GroupKFold(4), folds)
    )
    expected = by_list.fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(by_groups.fit(X, Y, groups=GROUPS).predict_proba(X), expected)


def test_weights_pass_pipelines_searches_and_lifts(routing):
    y = np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.8])
    estimator = make_pipeline(StandardScaler(), LogisticRegression().set_fit_request(sample_weight=True))
    estimator[0].set_fit_request(sample_weight=False)
    calibrator = PlattCalibrator(link="identity").set_fit_request(sample_weight=True)
    model = CalibratedClassifier(estimator, calibrator, cv=2)
    plain = model.fit(X, y).predict_proba(X)
    assert np.abs(plain - model.fit(X, y, sample_weight=WEIGHT).predict_proba(X)).max() > 1e-3
    assert all(isinstance(lifted, OneVsRestCalibrator) for lifted in model.calibrators_)
    scorer = get_scorer("neg_log_loss").set_score_request(sample_weight=True)
    search = GridSearchCV(model, {"calibrator__link": ["identity", "logit"]}, scoring=scorer, cv=2)
    search.fit(X, y, sample_weight=WEIGHT)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    spline = make_pipeline(
        SplineTransformer(n_knots=3).set_fit_request(sample_weight=False),
        LogisticRegression().set_fit_request(sample_weight=True),
    )
    model = CalibratedClassifier(GaussianNB().set_fit_request(sample_weight=False), spline, cv=2)
    first, second = (model.fit(X, Y, sample_weight=w).predict_proba(X) for w in (None, WEIGHT))
    assert np.abs(first - second).max() > 1e-3


def test_frozen_estimator_and_passthrough_route(routing):
    frozen = FrozenEstimator(GaussianNB().fit(X, Y))
    model = CalibratedClassifier(frozen, WitnessCalibrator().set_fit_request(sample_weight=True))
    model.fit(X, Y, sample_weight=WEIGHT)
    np.testing.assert_array_equal(model.calibrators_[0].weight_, WEIGHT)
    bayes = GaussianNB().set_fit_request(sample_weight=True)
    plain = CalibratedClassifier(bayes, "passthrough", ensemble=False).fit(X, Y, sample_weight=WEIGHT)
    expected = GaussianNB().fit(X, Y, sample_weight=WEIGHT).predict_proba(X)
    np.testing.assert_allclose(plain.predict_proba(X), expected, atol=1e-14)


def test_weights_are_routed_through_a_cross_fit_pipeline(routing):
    stage = CrossFitScorer(Witness().set_fit_request(sample_weight=True, note=False), cv=3)
    calibrator = WitnessCalibrator().set_fit_request(sample_weight=True)
    model = make_pipeline(stage, calibrator).fit(NUMBERED, Y, sample_weight=WEIGHT)
    np.testing.assert_array_equal(model[0].estimator_.weight_, WEIGHT)
    np.testing.assert_array_equal(model[1].weight_, WEIGHT)
    scorer = get_scorer("neg_brier_score").set_score_request(sample_weight=True)
    scores = cross_val_score(model, NUMBERED, Y, params={"sample_weight": WEIGHT}, cv=2, scoring=scorer)
    assert np.isfinite(scores).all()
    grouped = make_pipeline(CrossFitScorer(GaussianNB(), cv=GroupKFold(2)), IsotonicCalibrator())
    cv = list(GroupKFold(2).split(X, Y, GROUPS))
    by_list = make_pipeline(CrossFitScorer(GaussianNB(), cv=cv), IsotonicCalibrator())
    expected = by_list.fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(grouped.fit(X, Y, groups=GROUPS).predict_proba(X), expected)
