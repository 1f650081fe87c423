"""CrossFitScorer: held-out scores while fitting, the scores of one model afterward."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification
from sklearn.ensemble import StackingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from sklearn_calib.calibrators import IsotonicCalibrator
from sklearn_calib.meta import CrossFitScorer
from tests._optional import pandas as pd
from tests._optional import polars as pl


@pytest.mark.parametrize("shuffled", [False, True])
def test_scores_are_those_of_models_that_did_not_see_the_row(binary, three, shuffled):
    cv = StratifiedKFold(4, shuffle=True, random_state=0) if shuffled else StratifiedKFold(4)
    for (X, y), columns in ((binary, slice(1, None)), (three, slice(None))):
        stage = CrossFitScorer(GaussianNB(), cv=cv)
        scores = stage.fit_transform(X, y)
        expected = np.zeros((y.shape[0], np.unique(y).shape[0]))
        for train, test in cv.split(X, y):
            expected[test] = GaussianNB().fit(X[train], y[train]).predict_proba(X[test])
        np.testing.assert_array_equal(scores, expected[:, columns])
        np.testing.assert_array_equal(stage.transform(X), GaussianNB().fit(X, y).predict_proba(X)[:, columns])


@pytest.mark.parametrize(
    ("estimator", "response_method", "expected"),
    [
        (LogisticRegression(), "auto", "predict_proba"),
        (LogisticRegression(), "decision_function", "decision_function"),
        (LinearSVC(random_state=0), "auto", "decision_function"),
        (GaussianNB(), "predict_proba", "predict_proba"),
    ],
)
def test_response(binary, three, estimator, response_method, expected):
    for (X, y), n_columns in ((binary, 1), (three, 3)):
        stage = CrossFitScorer(estimator, response_method=response_method, cv=3)
        assert stage.fit_transform(X, y).shape == (y.shape[0], n_columns)
        assert (stage.response_method_, stage.transform(X).shape) == (expected, (y.shape[0], n_columns))


def test_weights_change_the_models_and_reach_them_by_step(binary):
    X, y = binary
    weight = np.random.default_rng(0).uniform(0.2, 3, 200)
    stage = CrossFitScorer(GaussianNB(), cv=3)
    scores, expected = stage.fit_transform(X, y, sample_weight=weight), np.zeros(200)
    for train, test in StratifiedKFold(3).split(X, y):
        model = GaussianNB().fit(X[train], y[train], sample_weight=weight[train])
        expected[test] = model.predict_proba(X[test])[:, 1]
    np.testing.assert_array_equal(scores[:, 0], expected)
    pipeline = make_pipeline(clone(stage), IsotonicCalibrator())
    pipeline.fit(X, y, crossfitscorer__sample_weight=weight, isotoniccalibrator__sample_weight=weight)
    np.testing.assert_array_equal(pipeline[0].transform(X), stage.transform(X))
    calibrator = IsotonicCalibrator().fit(scores, y, sample_weight=weight)
    np.testing.assert_array_equal(pipeline.predict_proba(X), calibrator.predict_proba(stage.transform(X)))


def test_groups_without_routing(binary):
    X, y = binary
    groups = np.arange(200) % 5
    by_groups = CrossFitScorer(GaussianNB(), cv=GroupKFold(5)).fit_transform(X, y, groups=groups)
    folds = list(GroupKFold(5).split(X, y, groups))
    np.testing.assert_array_equal(by_groups, CrossFitScorer(GaussianNB(), cv=folds).fit_transform(X, y))


def test_frozen_estimator_is_used_as_it_is(binary):
    X, y = binary
    base = GaussianNB().fit(X[:100], y[:100])
    stage = CrossFitScorer(FrozenEstimator(base))
    scores = stage.fit_transform(X[100:], y[100:])
    np.testing.assert_array_equal(scores, base.predict_proba(X[100:])[:, [1]])
    np.testing.assert_array_equal(stage.transform(X[100:]), scores)


def test_names_and_set_output(binary, three):
    X, y = binary
    frame = pd.DataFrame(X, columns=list("abcde"), index=np.arange(200) + 7)
    labels = np.array(["ham", "spam"])[y]
    stage = CrossFitScorer(LogisticRegression(), cv=3).set_output(transform="pandas")
    scores = stage.fit_transform(frame, labels)
    assert scores.columns.tolist() == ["crossfitscorer_spam"]
    assert scores.index.tolist() == frame.index.tolist()
    assert stage.transform(frame).columns.tolist() == ["crossfitscorer_spam"]
    assert stage.get_feature_names_out(list("abcde")).tolist() == ["crossfitscorer_spam"]
    with pytest.raises(ValueError, match="input_features"):
        stage.get_feature_names_out(list("vwxyz"))
    with pytest.raises(ValueError, match="input_features should have length equal"):
        CrossFitScorer(GaussianNB()).fit(X, y).get_feature_names_out(["a"])
    stage.set_output(transform="polars")
    assert isinstance(stage.transform(frame), pl.DataFrame)
    X, y = three
    names = CrossFitScorer(GaussianNB(), cv=3).fit(X, y).get_feature_names_out()
    assert names.tolist() == ["crossfitscorer_0", "crossfitscorer_1", "crossfitscorer_2"]
    assert names.dtype == object


def test_features_follow_the_scores(binary, three):
    for X, y in (binary, three):
        stage, plain = (CrossFitScorer(GaussianNB(), cv=3, passthrough=both) for both in (True, False))
        expected = np.column_stack([plain.fit_transform(X, y), X])
        np.testing.assert_array_equal(stage.fit_transform(X, y), expected)
        np.testing.assert_array_equal(stage.transform(X), np.column_stack([plain.transform(X), X]))
        names = [*plain.get_feature_names_out(), *(f"x{j}" for j in range(5))]
        assert stage.get_feature_names_out().tolist() == names
    assert stage.get_feature_names_out(list("abcde")).tolist() == [*names[:3], *"abcde"]
    with pytest.raises(TypeError, match="passthrough"):
        CrossFitScorer(GaussianNB(), passthrough=1).fit(X, y)


def test_features_of_tables_keep_their_types(binary):
    X, y = binary
    numbers = pd.DataFrame(X[:, :2], columns=["a", "b"], index=np.arange(200) + 7)
    frame = numbers.assign(kind=pd.Categorical(np.where(X[:, 2] > 0, "u", "v")))
    classifier = make_pipeline(ColumnTransformer([("numbers", "passthrough", ["a", "b"])]), GaussianNB())
    stage = CrossFitScorer(classifier, cv=3, passthrough=True)
    found = stage.fit_transform(frame, y)
    assert found.columns.tolist() == ["crossfitscorer_1", "a", "b", "kind"]
    assert stage.get_feature_names_out().tolist() == found.columns.tolist()
    pd.testing.assert_frame_equal(found[frame.columns], frame)
    expected = CrossFitScorer(GaussianNB(), cv=3).fit_transform(X[:, :2], y)[:, 0]
    np.testing.assert_array_equal(found["crossfitscorer_1"], expected)
    table = stage.fit(pl.from_pandas(frame), y).transform(pl.from_pandas(frame))
    assert isinstance(table, pl.DataFrame)
    assert table.columns == found.columns.tolist()
    # an array of several types remains one of objects
    array = stage.set_params(estimator=FromTexts()).fit(frame.to_numpy(), y).transform(frame.to_numpy())
    assert (array.dtype, array[:, 3].tolist()) == (object, frame["kind"].tolist())


class FromTexts(GaussianNB):
    """A classifier of the first column of an array of objects."""

    def fit(self, X, y):
        return super().fit(X[:, :1].astype(float), y)

    def predict_proba(self, X):
        return super().predict_proba(X[:, :1].astype(float))


def test_calibrator_as_final_estimator_of_a_stack(binary):
    X, y = binary
    given = {"final_estimator": IsotonicCalibrator(), "stack_method": "predict_proba"}
    stack = StackingClassifier([("nb", GaussianNB())], cv=3, **given).fit(X, y)
    pipeline = make_pipeline(CrossFitScorer(GaussianNB(), cv=3), IsotonicCalibrator()).fit(X, y)
    np.testing.assert_allclose(stack.predict_proba(X), pipeline.predict_proba(X), atol=1e-12)


def test_a_feature_with_the_name_of_a_score_is_refused():
    X, y = make_classification(60, n_features=4, random_state=0)
    table = pd.DataFrame(X, columns=["a", "crossfitscorer_1", "b", "c"])
    model = CrossFitScorer(LogisticRegression(), passthrough=True)
    with pytest.raises(ValueError, match="column 'crossfitscorer_1', the name of a score"):
        model.fit_transform(table, y)
