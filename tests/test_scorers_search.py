"""Scorers inside scikit-learn: cross-validation, searches, routing, workers, and the refit rule."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    TunedThresholdClassifierCV,
    cross_val_score,
    cross_validate,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sklearn_calib import CalibratedClassifier, scorers
from sklearn_calib.calibrators import PlattCalibrator
from sklearn_calib.metrics import smooth_ece
from sklearn_calib.scorers import BestCalibrated, CalibrationScorer, MultiScorer, get_scorer
from tests._sklearn import SKLEARN
from tests._tiers import thorough

NAME = "neg_smooth_ece"


class Counting(ClassifierMixin, BaseEstimator):
    """Logistic regression that counts its predictions."""

    def __init__(self, C=1.0):
        self.C = C

    def fit(self, X, y):
        self.model_ = LogisticRegression(C=self.C).fit(X, y)
        self.classes_ = self.model_.classes_
        self.calls_ = []
        return self

    def predict_proba(self, X):
        self.calls_.append("predict_proba")
        return self.model_.predict_proba(X)

    def predict(self, X):
        self.calls_.append("predict")
        return self.model_.predict(X)


def by_hand(model, X, y, cv, fit_weight=None, weight=None):
    scores = []
    for train, test in cv.split(X, y):
        fitted = {} if fit_weight is None else {"sample_weight": fit_weight[train]}
        scored = {} if weight is None else {"sample_weight": weight[test]}
        p = clone(model).fit(X[train], y[train], **fitted).predict_proba(X[test])[:, 1]
        scores.append(-smooth_ece(y[test], p, pos_label=np.unique(y)[1], **scored))
    return scores


def test_cross_validation_by_object_and_by_name(binary):
    X, y = binary
    model, cv = make_pipeline(StandardScaler(), GaussianNB()), KFold(3)
    expected = by_hand(model, X, y, cv)
    score = cross_val_score(model, X, y, scoring=scorers.neg_smooth_ece, cv=cv)
    np.testing.assert_allclose(score, expected, rtol=1e-12)
    for scoring, key in (
        ([NAME, "neg_log_loss"], NAME),
        ({"a": NAME, "b": "accuracy"}, "a"),
        ({"a": scorers.neg_smooth_ece}, "a"),
        (MultiScorer([NAME, "accuracy"]), NAME),
    ):
        scores = cross_validate(model, X, y, scoring=scoring, cv=cv)
        np.testing.assert_allclose(scores[f"test_{key}"], expected, rtol=1e-12)


def test_strings_pass_where_the_documentation_says_so(binary):
    X, y = binary
    model = GaussianNB().fit(X, y)
    by_name, by_object = (
        permutation_importance(model, X, y, scoring=scoring, n_repeats=2, random_state=0).importances
        for scoring in (NAME, scorers.neg_smooth_ece)
    )
    np.testing.assert_array_equal(by_name, by_object)
    trees = HistGradientBoostingClassifier(scoring=NAME, early_stopping=True, max_iter=3, random_state=0)
    assert np.isfinite(trees.fit(X, np.array(["no", "yes"])[y]).validation_score_).all()


def test_searches_by_object(binary):
    X, y = binary
    cv, grid = KFold(3), {"var_smoothing": [1e-9, 1.0, 100.0]}
    search = GridSearchCV(GaussianNB(), grid, scoring=scorers.neg_smooth_ece, cv=cv).fit(X, y)
    expected = [np.mean(by_hand(GaussianNB(var_smoothing=v), X, y, cv)) for v in grid["var_smoothing"]]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected)
    assert search.best_index_ == int(np.argmax(expected))
    assert search.score(X, y) == scorers.neg_smooth_ece(search.best_estimator_, X, y)
    assert "scoring=CalibrationScorer(smooth_ece)" in repr(search)
    assert "smooth_ece" in search._repr_html_()
    assert clone(search).set_params(scoring__bandwidth=0.1).scoring.metric_params == {"bandwidth": 0.1}
    assert np.isfinite(cross_val_score(clone(search), X, y, cv=cv)).all()


def test_multi_scorer_predicts_once(binary):
    X, y = binary
    model = Counting().fit(X, y)
    names = [NAME, "neg_cutoff_calibration_error", "neg_log_loss", "neg_brier_score", "roc_auc"]
    scores = MultiScorer(names)(model, X, y)
    assert model.calls_ == ["predict_proba"]
    assert scores == {name: get_scorer(name)(model, X, y) for name in names}
    model.calls_.clear()
    mixed = MultiScorer({"ece": NAME, "accuracy": "accuracy", "f1": "f1", "self": lambda est, X, y: est.C})
    scores = mixed(model, X, y)
    assert sorted(model.calls_) == ["predict", "predict_proba"]
    assert (scores["accuracy"], scores["self"]) == (np.mean(model.predict(X) == y), 1.0)
    # a second call predicts anew
    model.calls_.clear()
    MultiScorer(names)(model, X[:50], y[:50])
    assert model.calls_ == ["predict_proba"]


def test_multi_scorer_only_keeps_the_prediction_of_its_own_rows(binary):
    X, y = binary
    model = Counting().fit(X, y)

    def elsewhere(estimator, X, y):
        return float(estimator.predict_proba(X[-1:])[0, 0])

    scores = MultiScorer({"a": NAME, "b": elsewhere})(model, X, y)
    assert scores["b"] == model.predict_proba(X[-1:])[0, 0]
    assert scores["a"] == scorers.neg_smooth_ece(model, X, y)


def test_multi_scorer_sees_a_fitted_estimator(binary):
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    X, y = binary

    def fitted(estimator, X, y):
        assert isinstance(estimator, GaussianNB)
        check_is_fitted(estimator)
        return 1.0

    scoring = MultiScorer({"a": fitted})
    assert scoring(GaussianNB().fit(X, y), X, y) == {"a": 1.0}
    with pytest.raises(NotFittedError):
        scoring(GaussianNB(), X, y)


def test_multi_scorer_checks_its_names():
    for scoring, error, message in [
        ([], ValueError, "at least one name"),
        ([NAME, NAME], ValueError, "no duplicates"),
        (["neg_nothing"], ValueError, "no scorer named"),
        ([scorers.neg_smooth_ece], TypeError, "must be strings"),
    ]:
        with pytest.raises(error, match=message):
            MultiScorer(scoring)


def fails_without_events(estimator, X, y):
    if len(set(y)) < 2:
        raise RuntimeError("one class only")
    return 0.5


@pytest.mark.parametrize("folds", ["some", "all"])
def test_a_part_that_fails_has_no_influence_on_the_others(folds):
    X, y = np.random.default_rng(0).normal(size=(90, 2)), np.zeros(90, dtype=int)
    y[[0, 1, 40]] = 1  # the last of three folds has no event

    def always(estimator, X, y):
        raise RuntimeError("broken")

    broken = fails_without_events if folds == "some" else always
    scoring = MultiScorer({"ece": NAME, "broken": broken, "loss": "neg_log_loss"})
    with pytest.warns(UserWarning, match=r"Scoring failed. The score 'broken' .* set to nan") as caught:
        scores = cross_validate(GaussianNB(), X, y, scoring=scoring, cv=KFold(3), return_train_score=True)
    assert len(caught) == (1 if folds == "some" else 6)
    assert "Traceback" in str(caught[0].message)
    np.testing.assert_allclose(scores["test_ece"], by_hand(GaussianNB(), X, y, KFold(3)))
    assert np.isfinite(scores["test_loss"]).all()
    expected = [0.5, 0.5, np.nan] if folds == "some" else [np.nan] * 3
    np.testing.assert_array_equal(scores["test_broken"], expected)
    grid, options = {"var_smoothing": [1e-9, 1.0]}, {"cv": KFold(3), "error_score": -7}
    with pytest.warns(UserWarning, match="set to -7"):
        search = GridSearchCV(GaussianNB(), grid, scoring=scoring, refit="loss", **options).fit(X, y)
    assert (search.cv_results_["split2_test_broken"] == -7).all()
    with pytest.raises(RuntimeError):
        cross_validate(GaussianNB(), X, y, scoring=scoring, cv=KFold(3), error_score="raise")
    # outside a cross-validation the error is raised
    with pytest.raises(RuntimeError):
        scoring(GaussianNB().fit(X, y), X[60:], y[60:])


def test_requests_of_parts_are_kept(binary, routing):
    X, y = binary
    w = np.random.default_rng(0).integers(1, 4, y.shape[0])
    model = GaussianNB().set_fit_request(sample_weight=False)
    parts = {
        "with": scorers.neg_smooth_ece.set_score_request(sample_weight=True),
        "alias": get_scorer("neg_log_loss").set_score_request(sample_weight="importance"),
        "without": scorers.neg_smooth_ece.set_score_request(sample_weight=False),
        "plain": lambda estimator, X, y: 1.0,
    }
    given = {"params": {"sample_weight": w, "importance": 2 * w[::-1]}, "cv": KFold(3)}
    wanted = cross_validate(model, X, y, scoring={name: parts[name] for name in list(parts)[:3]}, **given)
    found = cross_validate(model, X, y, scoring=clone(MultiScorer(parts)), **given)
    for name in ("with", "alias", "without"):
        np.testing.assert_array_equal(found[f"test_{name}"], wanted[f"test_{name}"])
    assert not np.allclose(found["test_with"], found["test_without"])
    np.testing.assert_array_equal(found["test_plain"], 1.0)


@pytest.mark.parametrize(
    "scoring",
    [NAME, scorers.neg_smooth_ece, get_scorer("pvalue_tcal"), MultiScorer([NAME])],
    ids=["name", "scorer", "pvalue", "multi"],
)
def test_thresholds_are_not_tuned_by_probabilities(binary, scoring):
    X, y = binary
    tuned = TunedThresholdClassifierCV(GaussianNB(), scoring=scoring)
    with pytest.raises(AttributeError, match=r"scores probabilities.*tune the threshold by a measure"):
        tuned.fit(X, y)


def test_multi_scorer_weighs_all_or_none(binary):
    X, y = binary
    model, w = GaussianNB().fit(X, y), np.random.default_rng(0).uniform(size=y.shape[0])
    scoring = MultiScorer([NAME, "neg_log_loss", "accuracy"])
    scores = scoring(model, X, y, sample_weight=w)
    assert scores == {name: get_scorer(name)(model, X, y, sample_weight=w) for name in scoring.scoring}
    assert scores["accuracy"] == pytest.approx(np.average(model.predict(X) == y, weights=w))
    deaf = MultiScorer({"a": NAME, "b": lambda estimator, X, y: 0.0})
    assert scoring._accept_sample_weight()
    assert not deaf._accept_sample_weight()
    with pytest.raises(ValueError, match=r"the scorers \['b'\] do not support it"):
        deaf(model, X, y, sample_weight=w)


def test_weights_are_routed(binary, routing):
    X, y = binary
    w = np.random.default_rng(0).integers(1, 4, y.shape[0])
    model = GaussianNB().set_fit_request(sample_weight=True)
    scorer = scorers.neg_smooth_ece.set_score_request(sample_weight=True)
    assert clone(scorer).get_metadata_routing().score.requests == {"sample_weight": True}
    cv = KFold(3)
    expected = by_hand(GaussianNB(), X, y, cv, w, w)
    scores = cross_validate(model, X, y, scoring=scorer, params={"sample_weight": w}, cv=cv)
    np.testing.assert_allclose(scores["test_score"], expected)
    several = MultiScorer([NAME, "neg_log_loss"]).set_score_request(sample_weight=True)
    search = GridSearchCV(model, {"var_smoothing": [1e-9]}, scoring=several, refit=BestCalibrated(), cv=cv)
    search.fit(X, y, sample_weight=w)
    np.testing.assert_allclose(search.cv_results_["mean_test_neg_smooth_ece"], np.mean(expected))


def test_an_undecided_request_is_an_error(binary, routing):
    from sklearn.exceptions import UnsetMetadataPassedError

    X, y = binary
    model = GaussianNB().set_fit_request(sample_weight=True)
    with pytest.raises(UnsetMetadataPassedError):
        cross_validate(model, X, y, scoring=scorers.neg_smooth_ece, params={"sample_weight": np.ones_like(y)})
    found = CalibrationScorer(lambda y, p: 0.0, greater_is_better=True).get_metadata_routing().score.requests
    assert found == {}


def test_weights_reach_the_scorer_of_a_search_without_routing(binary):
    X, y = binary
    w, cv = np.random.default_rng(0).integers(1, 4, y.shape[0]), KFold(3)
    search = GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9]}, scoring=scorers.neg_smooth_ece, cv=cv)
    found = search.fit(X, y, sample_weight=w).cv_results_["mean_test_score"][0]
    # scikit-learn hands weights to scorers since 1.7
    expected = by_hand(GaussianNB(), X, y, cv, w, w if SKLEARN >= (1, 7) else None)
    assert found == pytest.approx(np.mean(expected))


def test_a_classifier_without_probabilities_fails_clearly(binary):
    X, y = binary
    with pytest.raises(TypeError, match=r"LinearSVC has no method predict_proba.*calibrator"):
        cross_validate(LinearSVC(), X, y, scoring=scorers.neg_smooth_ece, error_score="raise")
    pipe = Pipeline([("scale", StandardScaler()), ("svm", LinearSVC())])
    with pytest.raises(TypeError, match="Pipeline has no method predict_proba"):
        cross_validate(pipe, X, y, scoring=MultiScorer([NAME]), error_score="raise")


def results(calibration, proper, names=("neg_smooth_ece", "neg_log_loss")):
    """Lay scores of shape (candidates, splits) out as a search does."""
    out = {"params": [{"candidate": j} for j in range(len(proper))]}
    for name, scores in zip(names, (calibration, proper), strict=True):
        scores = np.asarray(scores, dtype=float)
        for k in range(scores.shape[1]):
            out[f"split{k}_test_{name}"] = scores[:, k]
        out[f"mean_test_{name}"] = scores.mean(axis=1)
    return out


# mean -0.4, standard deviation 0.02, hence standard error 0.02 / sqrt(3) = 0.011547
BEST = [-0.38, -0.40, -0.42]


def test_rule_equals_its_definition():
    rng, chosen = np.random.default_rng(0), set()
    for _ in range(200):
        n_candidates, n_splits, slack = rng.integers(1, 8), rng.integers(2, 6), rng.choice([0.0, 1.0, 2.0])
        # coarse values, so that ties occur
        proper = -rng.integers(1, 5, (n_candidates, n_splits)) / 10
        calibration = -rng.integers(1, 3, (n_candidates, 1)) / 10 * np.ones((1, n_splits))
        means = [row.mean() for row in proper]
        best = max(range(n_candidates), key=lambda j: means[j])
        spread = sum((value - means[best]) ** 2 for value in proper[best]) / (n_splits - 1)
        bar = means[best] - slack * np.sqrt(spread / n_splits)
        good = [j for j in range(n_candidates) if means[j] >= bar]
        expected = max(good, key=lambda j: (calibration[j, 0], means[j], -j))
        found = BestCalibrated(n_standard_errors=slack)(results(calibration, proper))
        assert found == expected
        chosen.add(found != best)
    assert chosen == {True, False}


def test_the_best_of_those_whose_error_is_small_enough():
    proper = [BEST, [-0.5] * 3, [-0.6] * 3, [-0.5] * 3, [np.nan] * 3]
    table = results([[-0.05] * 3, [-0.02, -0.03, -0.04], [-0.001] * 3, [-0.01] * 3, [0.0] * 3], proper)
    for max_error, chosen in ((0.06, 0), (0.04, 3), (0.015, 3), (0.005, 2)):
        assert BestCalibrated(max_error=max_error)(table) == chosen
    # ties of the proper score go to the smaller error, and the bound itself is allowed
    assert BestCalibrated(max_error=0.25)(results([[-0.25], [-0.25]], [[-1.0], [-0.5]])) == 1
    with pytest.raises(ValueError, match=r"at most max_error=0.0001: the smallest is 0.001"):
        BestCalibrated(max_error=1e-4)(table)


def test_candidates_without_finite_scores_are_never_chosen():
    nan, inf = [np.nan] * 3, [-np.inf] * 3
    assert BestCalibrated()(results([[-0.1] * 3, nan, [0.0] * 3], [BEST, BEST, nan])) == 0
    assert BestCalibrated()(results([[0.0] * 3, [-0.1] * 3], [inf, BEST])) == 1
    assert BestCalibrated()(results([[np.inf] * 3, [-0.1] * 3], [BEST, BEST])) == 1
    # nor do they raise the bar
    assert BestCalibrated()(results([nan, [-0.2] * 3, [-0.1] * 3], [[0.0] * 3, BEST, [-0.405] * 3])) == 2
    with pytest.raises(ValueError, match=r"No candidate has a finite mean of both 'neg_smooth_ece'"):
        BestCalibrated()(results([nan, [-0.1] * 3], [BEST, nan]))


def test_one_split_and_names_that_contain_each_other():
    # one split has no standard error
    assert BestCalibrated()(results([[-0.1], [-0.0]], [[-0.4], [-0.41]])) == 0
    table = results([[-0.1] * 3, [0.0] * 3], [BEST, [-0.43] * 3])
    more = results([[-0.1] * 3] * 2, [[-9.0, 0.0, 9.0]] * 2, names=("x", "neg_log_loss_2"))
    assert BestCalibrated()({**table, **more}) == BestCalibrated()(table) == 0


def test_missing_scores_are_named():
    table = results([[-0.1]], [[-0.4]], names=("neg_smooth_ece", "roc_auc"))
    with pytest.raises(ValueError, match=r"'neg_log_loss', only \['neg_smooth_ece', 'roc_auc'\]"):
        BestCalibrated()(table)
    with pytest.raises(ValueError, match=r"did not compute 'neg_smooth_ece', only \['score'\]"):
        BestCalibrated()({"mean_test_score": [0.0]})


def test_construction_is_checked():
    for kwargs, error, message in [
        ({"calibration": "neg_log_loss"}, ValueError, "cannot select a model"),
        ({"proper": None}, TypeError, "proper must be the name"),
        ({"n_standard_errors": -1}, ValueError, "must be at least 0"),
        ({"n_standard_errors": "1"}, TypeError, "must be a number"),
        ({"max_error": -0.1}, ValueError, "max_error must be at least 0"),
    ]:
        with pytest.raises(error, match=message):
            BestCalibrated(**kwargs)


@pytest.mark.parametrize("proper", ["neg_log_loss", "neg_brier_score"])
def test_calibration_alone_selects_the_base_rate_and_the_rule_does_not(proper):
    X, y = make_classification(600, 10, n_informative=4, n_redundant=4, flip_y=0.05, random_state=0)
    pipe = Pipeline([("model", DummyClassifier())])
    grid = {"model": [DummyClassifier(strategy="prior"), GaussianNB(), LogisticRegression()]}
    ece = "neg_expected_calibration_error"
    alone = GridSearchCV(pipe, grid, scoring=scorers.neg_expected_calibration_error, cv=3).fit(X, y)
    assert isinstance(alone.best_params_["model"], DummyClassifier)
    scoring = MultiScorer([ece, proper, "roc_auc"])
    refit = BestCalibrated(calibration=ece, proper=proper)
    search = GridSearchCV(pipe, grid, scoring=scoring, refit=refit, cv=3).fit(X, y)
    assert isinstance(search.best_params_["model"], LogisticRegression)


SEVERAL = [
    OneVsRestClassifier(LogisticRegression()),
    MultiOutputClassifier(LogisticRegression()),
    DummyClassifier(),
    thorough(ClassifierChain(LogisticRegression(), random_state=0)),
    thorough(RandomForestClassifier(5, max_depth=3, random_state=0)),
]


@pytest.mark.parametrize("model", SEVERAL, ids=lambda model: type(model).__name__)
def test_multilabel_classifiers(model):
    X, Y = make_multilabel_classification(200, 5, n_classes=3, random_state=0)
    # trees and dummies are also trained without a sample of the last label
    Y[:, 2] = np.arange(200) < 3
    if not isinstance(model, RandomForestClassifier | DummyClassifier):
        Y[100, 2] = 1
    cv = KFold(3)
    names = ["neg_smooth_ece", "neg_log_loss", "neg_brier_score", "pvalue_cutoff"]
    found = cross_validate(model, X, Y, scoring=MultiScorer(names), cv=cv)
    assert found["test_neg_smooth_ece"].tolist() == cross_val_score(model, X, Y, scoring=NAME, cv=cv).tolist()
    for fold, (train, test) in enumerate(cv.split(X)):
        fitted = clone(model).fit(X[train], Y[train])
        P, classes = fitted.predict_proba(X[test]), fitted.classes_
        if isinstance(P, list):
            parts = zip(P, classes, strict=True)
            P = np.column_stack([p[:, list(c).index(1)] if 1 in c else np.zeros(len(p)) for p, c in parts])
        expected = [smooth_ece(Y[test][:, k], P[:, k]) for k in range(3)]
        assert found["test_neg_smooth_ece"][fold] == pytest.approx(-np.mean(expected), abs=1e-12)
        expected = [log_loss(Y[test][:, k], P[:, k], labels=[0, 1]) for k in range(3)]
        assert found["test_neg_log_loss"][fold] == pytest.approx(-np.mean(expected), abs=1e-12)
        assert found["test_neg_brier_score"][fold] == pytest.approx(-np.mean((P - Y[test]) ** 2), abs=1e-12)


def test_search_of_a_multilabel_classifier():
    X, Y = make_multilabel_classification(150, 5, n_classes=3, random_state=0)
    model = MultiOutputClassifier(CalibratedClassifier(GaussianNB(), PlattCalibrator(), cv=2))
    grid = {"estimator__estimator__var_smoothing": [1e-9, 1e-2]}
    scoring = MultiScorer(["neg_log_loss", NAME])
    search = GridSearchCV(model, grid, scoring=scoring, refit=BestCalibrated(), cv=2).fit(X, Y)
    by_name = GridSearchCV(model, grid, scoring=NAME, cv=2).fit(X, Y)
    assert by_name.cv_results_["mean_test_score"].tolist() == search.cv_results_[f"mean_test_{NAME}"].tolist()
    assert len(search.predict_proba(X)) == 3
