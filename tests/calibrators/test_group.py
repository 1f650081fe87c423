"""One calibrator per group against fits by hand, and every way to say what the groups are."""

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_calib.calibrators import (
    GroupCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    TemperatureCalibrator,
)
from sklearn_calib.meta import CalibratedClassifier, CrossFitScorer
from tests._optional import pandas as pd
from tests._optional import polars as pl


@pytest.fixture
def data():
    """Scores that are too low for group a, too high for group b, and a small group c; integer weights."""
    rng = np.random.default_rng(0)
    group = np.repeat(["a", "b", "c"], [400, 300, 20])
    p = rng.uniform(0.05, 0.95, 720)
    y = (rng.random(720) < np.where(group == "a", np.sqrt(p), p**2)).astype(int)
    order = rng.permutation(720)
    return p[order], y[order], group[order], rng.integers(0, 3, 720)


def by_hand(p, y, group, w=None, small=("c",)):
    """Fit each group by itself, and the small ones by the pool."""
    w = np.ones(len(p)) if w is None else w
    pooled = PlattCalibrator().fit(p, y, w)
    expected = pooled.transform(p)
    for name in set(group) - set(small):
        rows = group == name
        expected[rows] = PlattCalibrator().fit(p[rows], y[rows], w[rows]).transform(p[rows])
    return expected


def test_each_group_has_its_own_map(data):
    p, y, group, w = data
    for weight in (None, w):
        calibrator = GroupCalibrator().fit(p, y, weight, groups=group)
        found = calibrator.transform(p, groups=group)
        np.testing.assert_allclose(found, by_hand(p, y, group, weight), rtol=0, atol=1e-12)
        assert sorted(calibrator.calibrators_) == ["a", "b"]
        assert calibrator.pooled_groups_ == ["c"]
        np.testing.assert_array_equal(calibrator.predict_proba(p, groups=group)[:, 1], found)
        np.testing.assert_array_equal(calibrator.predict(p, groups=group), (found > 0.5).astype(int))
    bias = [abs(np.mean((found - y)[group == name])) for name in ("a", "b")]
    assert max(bias) < 0.05
    assert abs(np.mean((PlattCalibrator().fit(p, y).transform(p) - y)[group == "a"])) > 0.1


def test_every_way_to_pass_groups_is_the_same(data):
    p, y, group, _ = data
    expected = GroupCalibrator().fit(p, y, groups=group).transform(p, groups=group)
    frame = pd.DataFrame({"team": group, "score": p}, index=np.arange(720)[::-1])
    mixed = np.empty((720, 2), dtype=object)
    mixed[:, 0], mixed[:, 1] = p, group
    numbers = np.column_stack([p, np.unique(group, return_inverse=True)[1]])
    pair = pd.DataFrame({"no": 1 - p, "yes": p, "team": pd.Categorical(group)})
    for X, column in (
        (frame, "team"),
        (frame, 0),
        (pl.DataFrame({"score": p, "team": group}), "team"),
        (mixed, 1),
        (numbers, 1),
        (pair, "team"),
    ):
        calibrator = GroupCalibrator(group_column=column).fit(X, y)
        np.testing.assert_array_equal(calibrator.predict_proba(X)[:, 1], expected)
        assert calibrator.n_features_in_ == np.shape(X)[1]
    for groups in (list(group), pd.Series(group, index=frame.index), pd.Categorical(group)):
        calibrator = GroupCalibrator().fit(p, y, groups=groups)
        np.testing.assert_array_equal(calibrator.transform(p, groups=groups), expected)


def test_output_has_the_shape_and_names_of_the_scores(data):
    p, y, group, _ = data
    frame = pd.DataFrame({"team": group, "score": p}, index=np.arange(720)[::-1])
    calibrator = GroupCalibrator(group_column="team").fit(frame, y)
    assert calibrator.transform(frame).shape == (720, 1)
    assert calibrator.get_feature_names_out().tolist() == ["score"]
    table = calibrator.set_output(transform="pandas").transform(frame)
    assert table.columns.tolist() == ["score"]
    assert table.index.equals(frame.index)
    pair = pd.DataFrame({"no": 1 - p, "yes": p, "team": group})
    assert GroupCalibrator(group_column="team").fit(pair, y).transform(pair).shape == (720, 2)
    flat = GroupCalibrator().fit_transform(p, y, groups=group)
    np.testing.assert_array_equal(flat, calibrator.fit(frame, y).predict_proba(frame)[:, 1])


def test_unseen_groups_and_groups_of_one_class_have_the_pooled_map(data):
    p, y, group, _ = data
    pooled = PlattCalibrator().fit(p, y).transform(p)
    calibrator = GroupCalibrator().fit(p, y, groups=group)
    np.testing.assert_array_equal(calibrator.transform(p, groups=["z"] * 720), pooled)
    only = np.where(y == 1, "events", "others")
    one_class = GroupCalibrator().fit(p, y, groups=only)
    assert one_class.calibrators_ == {}
    assert one_class.pooled_groups_ == ["events", "others"]
    np.testing.assert_array_equal(one_class.transform(p, groups=only), pooled)


def test_size_of_a_group_counts_weights(data):
    p, y, group, _ = data
    weight = np.where(group == "c", 5.0, 1.0)
    assert sorted(GroupCalibrator().fit(p, y, weight, groups=group).calibrators_) == ["a", "b", "c"]
    weight = np.where(group == "a", 0.0, 1.0)
    calibrator = GroupCalibrator().fit(p, y, weight, groups=group)
    assert sorted(calibrator.calibrators_) == ["b"]
    assert GroupCalibrator(min_group_size=301).fit(p, y, groups=group).pooled_groups_ == ["b", "c"]


def test_several_classes():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([1, 1, 1], 600)
    group = rng.integers(0, 2, 600)
    y = (proba.cumsum(axis=1) > rng.random((600, 1))).argmax(axis=1)
    calibrator = GroupCalibrator(TemperatureCalibrator()).fit(proba, y, groups=group)
    found = calibrator.transform(proba, groups=group)
    for name in (0, 1):
        rows = group == name
        expected = TemperatureCalibrator().fit(proba[rows], y[rows]).transform(proba[rows])
        np.testing.assert_allclose(found[rows], expected, rtol=0, atol=1e-12)
    column = np.column_stack([proba, group])
    wide = GroupCalibrator(TemperatureCalibrator(), group_column=3).fit(column, y)
    np.testing.assert_array_equal(wide.transform(column), found)
    with pytest.raises(ValueError, match="Only binary classification is supported by IsotonicCalibrator"):
        GroupCalibrator(IsotonicCalibrator()).fit(proba, y, groups=group)


def test_any_classifier_calibrates(data):
    p, y, group, _ = data
    calibrator = GroupCalibrator(LogisticRegression(C=1e6)).fit(p, y, groups=group)
    rows = group == "a"
    expected = LogisticRegression(C=1e6).fit(p[rows, None], y[rows]).predict_proba(p[rows, None])
    np.testing.assert_allclose(calibrator.predict_proba(p, groups=group)[rows], expected, atol=1e-12)


def test_groups_are_routed(data):
    p, y, group, _ = data
    expected = GroupCalibrator().fit(p, y, groups=group).predict_proba(p, groups=group)
    with sklearn.config_context(enable_metadata_routing=True):
        calibrator = GroupCalibrator().set_fit_request(groups=True).set_predict_proba_request(groups=True)
        model = make_pipeline("passthrough", calibrator).fit(p[:, None], y, groups=group)
        np.testing.assert_array_equal(model.predict_proba(p[:, None], groups=group), expected)


def test_in_other_estimators(data):
    """Without groups the pooled map serves, as in a meta-estimator that does not pass them on."""
    p, y, _, _ = data
    X = np.column_stack([p, np.zeros_like(p)])
    plain = CalibratedClassifier(LogisticRegression(), PlattCalibrator()).fit(X, y).predict_proba(X)
    grouped = CalibratedClassifier(LogisticRegression(), GroupCalibrator()).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(grouped, plain, rtol=0, atol=1e-12)
    staged = make_pipeline(CrossFitScorer(LogisticRegression()), GroupCalibrator()).fit(X, y)
    assert staged.predict_proba(X).shape == (720, 2)


@pytest.mark.parametrize(
    ("parameters", "groups", "error", "message"),
    [
        ({}, [1, 2], ValueError, "groups has 2 samples but X has 4"),
        ({}, [[1], [1], [2], [2]], ValueError, r"groups must have shape \(n,\)"),
        ({}, ["a", None, "b", "b"], ValueError, "groups has a missing value at index 1"),
        ({}, [1.0, 2.0, np.nan, 1.0], ValueError, "groups has a missing value at index 2"),
        ({}, np.array(["a", 1, "b", 2], dtype=object), ValueError, "groups mixes values of types"),
        ({"group_column": 1}, [1, 1, 2, 2], ValueError, "both give the groups"),
        ({"group_column": 2}, None, ValueError, "group_column=2 is out of range: X has 2 columns"),
        ({"group_column": "team"}, None, ValueError, "group_column='team' is not a column of X"),
        ({"group_column": -1}, None, ValueError, "group_column must be at least 0"),
        ({"group_column": 1.0}, None, TypeError, "group_column must be an integer"),
        ({"min_group_size": 0}, None, ValueError, "min_group_size must be at least 1"),
        ({"calibrator": PlattCalibrator}, None, TypeError, "calibrator is the class PlattCalibrator"),
    ],
)
def test_what_is_refused(parameters, groups, error, message):
    X = np.column_stack([[0.2, 0.8, 0.4, 0.6], [0.8, 0.2, 0.6, 0.4]])
    with pytest.raises(error, match=message):
        GroupCalibrator(**parameters).fit(X, [0, 1, 0, 1], groups=groups)


def test_calls_must_agree_with_fit(data):
    p, y, group, _ = data
    with pytest.raises(ValueError, match="groups were passed to fit, but not now"):
        GroupCalibrator().fit(p, y, groups=group).transform(p)
    with pytest.raises(ValueError, match="fit had no groups"):
        GroupCalibrator().fit(p, y).predict(p, groups=group)
    X = np.column_stack([p, group == "a"])
    fitted = GroupCalibrator(group_column=1).fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features, but GroupCalibrator is expecting 2"):
        fitted.transform(np.column_stack([X, p]))
    with pytest.raises(ValueError, match="X must have a column of scores and one of groups"):
        GroupCalibrator(group_column=1).fit(p, y)
