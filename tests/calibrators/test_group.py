"""One calibrator per group against fits by hand."""

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
from sklearn_calib.export import from_json, to_json
from sklearn_calib.meta import CalibratedClassifier, CrossFitScorer
from tests._optional import pandas as pd


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
    ("groups", "message"),
    [
        ([1, 2], "groups has 2 samples but X has 4"),
        ([[1], [1], [2], [2]], r"groups must have shape \(n,\)"),
        (["a", None, "b", "b"], "groups has a missing value at index 1"),
        ([1.0, 2.0, np.nan, 1.0], "groups has a missing value at index 2"),
        (np.array(["a", 1, "b", 2], dtype=object), "groups mixes values of types"),
        ([1, "1", 1, "1"], "groups mixes values of types"),
        ([b"a", b"b", b"a", b"b"], "groups must be all numbers or all strings, got bytes"),
        (np.array(["2026", "2027"] * 2, "M8[Y]"), "groups must be all numbers or all strings, got date"),
    ],
)
def test_what_is_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        GroupCalibrator().fit([0.2, 0.8, 0.4, 0.6], [0, 1, 0, 1], groups=groups)


def test_groups_of_another_type_than_in_fit_are_refused(data):
    p, y, group, _ = data
    numbers = np.searchsorted(["a", "b", "c"], group)
    calibrator = GroupCalibrator().fit(p, y, groups=numbers)
    expected = calibrator.transform(p, groups=numbers)
    loaded = from_json(to_json(calibrator))
    for same in (numbers.astype(np.int8), numbers.astype(np.uint64), numbers.astype(float), numbers.tolist()):
        np.testing.assert_array_equal(calibrator.transform(p, groups=same), expected)
        np.testing.assert_allclose(loaded.transform(p, groups=same), expected, rtol=0, atol=1e-15)
    for model in (calibrator, loaded):
        with pytest.raises(ValueError, match=r"groups contains strings, such as '0', but .* were numbers"):
            model.transform(p, groups=numbers.astype(str))
    calibrator.fit(p, y, groups=numbers.astype(str))
    for model in (calibrator, from_json(to_json(calibrator))):
        with pytest.raises(ValueError, match=r"groups contains numbers, such as 0, but .* were strings"):
            model.predict(p, groups=numbers)


def test_calls_must_agree_with_fit(data):
    p, y, group, _ = data
    with pytest.raises(ValueError, match="groups were passed to fit, but not now"):
        GroupCalibrator().fit(p, y, groups=group).transform(p)
    with pytest.raises(ValueError, match="fit had no groups"):
        GroupCalibrator().fit(p, y).predict(p, groups=group)


def test_containers_and_shapes(data):
    p, y, group, _ = data
    expected = GroupCalibrator().fit(p, y, groups=group).transform(p, groups=group)
    frame = pd.DataFrame({"score": p}, index=np.arange(720)[::-1])
    for groups in (list(group), pd.Series(group, index=frame.index), pd.Categorical(group)):
        calibrator = GroupCalibrator()
        found = calibrator.fit_transform(frame, y, groups=groups)
        np.testing.assert_array_equal(found, expected[:, np.newaxis])
        assert calibrator.get_feature_names_out().tolist() == ["score"]
    pair = np.column_stack([1 - p, p])
    assert GroupCalibrator().fit_transform(pair, y, groups=group).shape == (720, 2)
