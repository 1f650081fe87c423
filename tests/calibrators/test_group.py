"""Partial pooling of groups against an optimizer and fits by hand."""

import numpy as np
import pytest
import sklearn
from scipy.special import expit, logit, softmax
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_calib import calibrators as cal
from sklearn_calib.export import from_json, to_json
from sklearn_calib.meta import CalibratedClassifier, CrossFitScorer
from tests._optional import pandas as pd


@pytest.fixture
def data():
    """Scores that are too low for group a, too high for group b, and a small group c; integer weights."""
    rng, group = np.random.default_rng(0), np.repeat(["a", "b", "c"], [400, 300, 20])
    p = rng.uniform(0.05, 0.95, 720)
    y = (rng.random(720) < np.where(group == "a", np.sqrt(p), p**2)).astype(int)
    order = rng.permutation(720)
    return p[order], y[order], group[order], rng.integers(0, 3, 720)


def posterior_means(p, f, y, weight, group, found, shape):
    """Return coefficients and covariance, integrated numerically over the covariance and mean of groups.

    The likelihood is replaced by its quadratic approximation around ``found``, an array (groups, 2).
    """
    center = np.average(f, weights=weight)
    x = (f - center) / np.sqrt(np.average((f - center) ** 2, weights=weight))
    columns, h = np.column_stack([np.ones_like(x), x]), weight * p * (1 - p)
    origin = np.linalg.solve(columns.T * h @ columns, columns.T * h @ (logit(p) - f))
    size = len(found)
    information, gradient = np.zeros((2 * size, 2 * size)), np.zeros(2 * size)
    for k in range(size):
        rows, own = group == k, slice(2 * k, 2 * k + 2)
        q = expit(f[rows] + columns[rows] @ found[k])
        information[own, own] = columns[rows].T * (weight[rows] * q * (1 - q)) @ columns[rows]
        gradient[own] = columns[rows].T @ (weight[rows] * (y[rows] - q)) + information[own, own] @ found[k]
    away = gradient - information @ np.tile(origin, size)
    spreads, logs, means = np.geomspace(1e-3, 30, 300), [], []
    shares = [0.05, *(0.95 * 2 * norm.pdf(spreads) * spreads * np.log(spreads[1] / spreads[0]))]
    for spread, share in zip([0, *spreads], shares, strict=True):
        for variance in (0.01, 0.1, 1, 10, 100):
            prior = np.kron(np.eye(size), spread**2 * shape)
            prior += np.kron(np.ones((size, size)), variance * np.diag([1, 0.25]))
            joint = np.eye(2 * size) + information @ prior
            means.append([*(np.tile(origin, size) + prior @ np.linalg.solve(joint, away)), spread**2])
            evidence = away @ prior @ np.linalg.solve(joint, away) - np.linalg.slogdet(joint)[1]
            logs.append(np.log(share) + evidence / 2)
    mean = softmax(logs) @ np.array(means)
    return mean[:-1].reshape(size, 2), mean[-1] * shape


def test_coefficients_are_posterior_means(data):
    p, y, group, w = data
    codes = np.searchsorted(["a", "b", "c"], group)
    for weight in (None, w):
        calibrator = cal.GroupCalibrator().fit(p, y, weight, groups=group)
        weight = np.ones(720) if weight is None else weight
        f = logit(cal.PlattCalibrator().fit(p, y, weight).transform(p))
        center = np.average(f, weights=weight)
        spread = np.sqrt(np.average((f - center) ** 2, weights=weight))
        slope = (calibrator.slopes_ - 1) * spread
        found = np.array([calibrator.intercepts_ + slope * center / spread, slope]).T
        shape = calibrator.covariances_ / np.trace(calibrator.covariances_)
        expected, covariance = posterior_means(p, f, y, weight, codes, found, shape)
        np.testing.assert_allclose(found, expected, rtol=0, atol=0.02)
        np.testing.assert_allclose(calibrator.covariances_, covariance, rtol=0.1)
        # the largest differences between groups are those of the intercepts
        assert shape[0, 0] > 0.6
        assert calibrator.predict(p, groups=group).shape == (720,)


def test_large_groups_have_their_own_map_and_equal_groups_the_pooled_one():
    rng = np.random.default_rng(0)
    p, group = rng.uniform(0.05, 0.95, 40_000), np.arange(40_000) % 4
    y = rng.random(40_000) < np.where(group == 0, p**2, p)
    found = cal.GroupCalibrator().fit(p, y, groups=group).transform(p, groups=group)
    for k in range(4):
        rows = group == k
        alone = cal.PlattCalibrator().fit(p[rows], y[rows]).transform(p[rows])
        np.testing.assert_allclose(found[rows], alone, rtol=0, atol=0.01)
    y = rng.random(40_000) < p
    calibrator = cal.GroupCalibrator().fit(p, y, groups=group)
    pooled = cal.PlattCalibrator().fit(p, y).transform(p)
    np.testing.assert_allclose(calibrator.transform(p, groups=group), pooled, rtol=0, atol=0.01)
    assert np.trace(calibrator.covariances_) < 0.01


def test_log_loss_of_small_groups_is_less_than_of_pooled_and_separate_maps():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(161), np.concatenate([np.ones(100, int), np.full(60, 40), [3000]]))
    p = rng.uniform(0.05, 0.95, group.size)
    truth = expit(logit(p) + rng.normal(0, 0.7, 161)[group])
    y = rng.random(group.size) < truth
    partial = cal.GroupCalibrator().fit(p, y, groups=group).transform(p, groups=group)
    pooled = cal.PlattCalibrator().fit(p, y).transform(p)
    separate = pooled.copy()
    for k in range(100, 161):
        rows = group == k
        separate[rows] = cal.PlattCalibrator().fit(p[rows], y[rows]).transform(p[rows])
    losses = [-np.mean(truth * np.log(q) + (1 - truth) * np.log1p(-q)) for q in (partial, pooled, separate)]
    assert losses[0] < min(losses[1:])


def test_unseen_groups_have_the_pooled_map_and_groups_of_one_class_are_shrunk(data):
    p, y, group, _ = data
    pooled = cal.PlattCalibrator().fit(p, y).transform(p)
    calibrator = cal.GroupCalibrator().fit(p, y, groups=group)
    np.testing.assert_array_equal(calibrator.transform(p, groups=["z"] * 720), pooled)
    only = np.where(y == 1, "events", "others")
    found = cal.GroupCalibrator().fit(p, y, groups=only).transform(p, groups=only)
    assert np.isfinite(found).all()
    assert found[y == 1].min() > found[y == 0].max()


def test_weights_count_repetitions(data):
    p, y, group, w = data
    times = np.repeat(np.arange(720), w)
    found = cal.GroupCalibrator().fit(p, y, w, groups=group)
    expected = cal.GroupCalibrator().fit(p[times], y[times], groups=group[times])
    np.testing.assert_allclose(found.slopes_, expected.slopes_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.intercepts_, expected.intercepts_, rtol=0, atol=1e-9)
    assert cal.GroupCalibrator().fit(p, y, group != "c", groups=group).groups_ == ["a", "b"]


def test_several_classes():
    rng = np.random.default_rng(0)
    proba, group = rng.dirichlet([1, 1, 1], 6000), rng.integers(0, 2, 6000)
    wrong = np.where(group[:, np.newaxis] == 0, proba**2, proba)
    y = ((wrong / wrong.sum(axis=1, keepdims=True)).cumsum(axis=1) > rng.random((6000, 1))).argmax(axis=1)
    calibrator = cal.GroupCalibrator(cal.TemperatureCalibrator()).fit(proba, y, groups=group)
    found = calibrator.transform(proba, groups=group)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=0, atol=1e-12)
    for name in (0, 1):
        rows = group == name
        expected = cal.TemperatureCalibrator().fit(proba[rows], y[rows]).transform(proba[rows])
        assert np.abs(found[rows] - expected).mean() < 0.02
    with pytest.raises(ValueError, match="Only binary classification is supported by IsotonicCalibrator"):
        cal.GroupCalibrator(cal.IsotonicCalibrator()).fit(proba, y, groups=group)


def test_any_classifier_calibrates(data):
    p, y, group, _ = data
    groups = ["z"] * 720
    found = cal.GroupCalibrator(LogisticRegression(C=1e6)).fit(p, y, groups=group).transform(p, groups=groups)
    expected = LogisticRegression(C=1e6).fit(p[:, None], y).predict_proba(p[:, None])[:, 1]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_groups_are_routed(data):
    p, y, group, _ = data
    expected = cal.GroupCalibrator().fit(p, y, groups=group).predict_proba(p, groups=group)
    with sklearn.config_context(enable_metadata_routing=True):
        calibrator = cal.GroupCalibrator().set_fit_request(groups=True).set_predict_proba_request(groups=True)
        model = make_pipeline("passthrough", calibrator).fit(p[:, None], y, groups=group)
        np.testing.assert_array_equal(model.predict_proba(p[:, None], groups=group), expected)


def test_in_other_estimators(data):
    """Without groups the pooled map serves, as in a meta-estimator that does not pass them on."""
    p, y, _, _ = data
    X = np.column_stack([p, np.zeros_like(p)])
    plain = CalibratedClassifier(LogisticRegression(), cal.PlattCalibrator()).fit(X, y).predict_proba(X)
    grouped = CalibratedClassifier(LogisticRegression(), cal.GroupCalibrator()).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(grouped, plain, rtol=0, atol=1e-12)
    staged = make_pipeline(CrossFitScorer(LogisticRegression()), cal.GroupCalibrator()).fit(X, y)
    assert staged.predict_proba(X).shape == (720, 2)


def test_what_is_refused():
    for groups, message in [
        ([1, 2], "groups has 2 samples but X has 4"),
        ([[1], [1], [2], [2]], r"groups contains the list \[1\] at index 0"),
        (np.ones((4, 1)), r"groups must be one column of shape \(n,\)"),
        (["a", None, "b", "b"], "groups has a missing value at index 1"),
        ([1.0, 2.0, np.nan, 1.0], "groups has a missing value at index 2"),
        ([1, "1", 1, "1"], "groups contains 1 and '1', which are equal as text"),
        ([b"a", b"b", b"a", b"b"], "groups contains the bytes b'a' at index 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            cal.GroupCalibrator().fit([0.2, 0.8, 0.4, 0.6], [0, 1, 0, 1], groups=groups)


def test_groups_among_the_scores_are_named():
    table = pd.DataFrame({"p": [0.2, 0.8, 0.4, 0.6], "group": ["a", "b", "a", "b"]})
    y = [0, 1, 0, 1]
    for found in (table, table.assign(group=[1, 0, 1, 0])):
        with pytest.raises(ValueError, match=r"If a column has the groups, pass it as groups="):
            cal.GroupCalibrator().fit(found, y)
    with pytest.raises(ValueError, match=r"out\.$"):
        cal.GroupCalibrator().fit(table[["group"]], y)
    cal.GroupCalibrator().fit(table[["p"]], y, groups=table["group"])


def test_groups_of_another_type_than_in_fit_are_converted_or_refused(data):
    p, y, group, _ = data
    numbers = np.searchsorted(["a", "b", "c"], group)
    calibrator = cal.GroupCalibrator().fit(p, y, groups=numbers)
    expected, loaded = calibrator.transform(p, groups=numbers), from_json(to_json(calibrator))
    texts = numbers.astype(str)
    for same in (numbers.astype(np.uint64), numbers.astype(float), numbers.tolist(), texts, texts.tolist()):
        np.testing.assert_array_equal(calibrator.transform(p, groups=same), expected)
        np.testing.assert_allclose(loaded.transform(p, groups=same), expected, rtol=0, atol=1e-15)
    for model in (calibrator, loaded):
        with pytest.raises(ValueError, match="groups contains categories, such as 'a', but numbers, such"):
            model.transform(p, groups=group)
    calibrator.fit(p, y, groups=texts)
    assert calibrator.groups_ == ["0", "1", "2"]
    np.testing.assert_array_equal(calibrator.transform(p, groups=numbers), expected)
    calibrator.fit(p, y, groups=group)
    for model in (calibrator, from_json(to_json(calibrator))):
        with pytest.raises(ValueError, match="groups contains numbers, such as '0', but categories, such"):
            model.predict(p, groups=numbers)


def test_calls_must_agree_with_fit(data):
    p, y, group, _ = data
    with pytest.raises(ValueError, match="groups were passed to fit, but not now"):
        cal.GroupCalibrator().fit(p, y, groups=group).transform(p)
    with pytest.raises(ValueError, match="fit had no groups"):
        cal.GroupCalibrator().fit(p, y).predict(p, groups=group)


def test_containers_and_shapes(data):
    p, y, group, _ = data
    expected = cal.GroupCalibrator().fit(p, y, groups=group).transform(p, groups=group)
    frame = pd.DataFrame({"score": p}, index=np.arange(720)[::-1])
    for groups in (list(group), pd.Series(group, index=frame.index), pd.Categorical(group)):
        calibrator = cal.GroupCalibrator()
        found = calibrator.fit_transform(frame, y, groups=groups)
        np.testing.assert_array_equal(found, expected[:, np.newaxis])
        assert calibrator.get_feature_names_out().tolist() == ["score"]
