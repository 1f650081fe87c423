"""The geometric mean of calibrators."""

import math

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.utils import get_tags

from sklearn_calib import calibrators as cal
from tests._samples import simulated_classes


@pytest.fixture
def data():
    y, p = simulated_classes(200, [0.6, 0.8, 1.0])
    return p, y, np.random.default_rng(1).integers(1, 4, 200)


def members():
    platt = cal.OneVsRestCalibrator(cal.PlattCalibrator())
    return [platt, cal.MatrixScalingCalibrator(), cal.TemperatureCalibrator()]


@pytest.mark.parametrize("weights", [None, [1, 2, 0.5]])
def test_is_the_normalized_geometric_mean(weights, data):
    p, y, w = data
    found = cal.LogAverageCalibrator(members(), weights=weights).fit(p, y, w)
    parts = [one.fit(p, y, w).predict_proba(p) for one in members()]
    a = np.ones(3) if weights is None else np.array(weights)
    expected = np.empty_like(p)
    for i in range(200):
        product = math.prod(part[i] ** (share / a.sum()) for part, share in zip(parts, a, strict=True))
        expected[i] = product / sum(product)
    np.testing.assert_allclose(found.predict_proba(p), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.weights_, a / a.sum())
    losses = [log_loss(y, part) for part in parts]
    assert log_loss(y, found.predict_proba(p)) <= np.average(losses, weights=a) + 1e-12


@pytest.mark.parametrize("n", [200, pytest.param(40, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("weighted", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_the_default_for_several_classes(n, weighted, data):
    p, y, w = (part[:n] for part in data)
    w = w if weighted else np.ones(n)
    found = cal.LogAverageCalibrator().fit(p, y, w if weighted else None)
    joint = cal.StructuredMatrixScalingCalibrator(penalty="auto", shrink_temperature=True).fit(p, y, w)
    q = joint.predict_proba(p)
    splines = cal.OneVsRestCalibrator(cal.SplineCalibrator(n_knots=8)).fit(q, y, w)
    r = splines.predict_proba(q)
    gain = sum(w[i] * np.log(r[i, y[i]] / q[i, y[i]]) for i in range(n))
    size = sum(one.effective_parameters_ for one in splines.calibrators_)
    share = max(0, gain - 0.4 * size) / gain
    assert (share > 0) == (n == 200)
    np.testing.assert_allclose(found.weights_, [1 - share, share], rtol=0, atol=1e-6)
    product = q ** (1 - share) * r**share
    expected = product / product.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.predict_proba(p), expected, rtol=0, atol=1e-6)
    alone = cal.LogAverageCalibrator(weights=[0, 1]).fit(p, y, w).predict_proba(p)
    np.testing.assert_allclose(alone, r, rtol=0, atol=1e-6)
    with pytest.raises(ValueError, match="weights has 3 values, expected"):
        cal.LogAverageCalibrator(weights=[1, 2, 3]).fit(p, y)
    two = cal.LogAverageCalibrator().fit(p[:, 0], y == 0).transform(p[:, 0])
    assert ((two > 0) & (two < 1)).all()


@pytest.mark.thorough
def test_very_many_classes_have_no_interactions():
    z = 2 * np.random.default_rng(0).standard_normal((402, 201))
    y = np.tile(np.arange(201), 2)
    z[np.arange(402), y] += 3
    steps = []
    found = cal.LogAverageCalibrator(progress=lambda *step: steps.append(step)).fit(softmax(z, axis=1), y)
    assert steps == [(0, 2, "StructuredMatrixScalingCalibrator"), (1, 2, "OneVsRestCalibrator")]
    coef = found.calibrators_[0].coef_
    np.testing.assert_array_equal(coef, np.diag(coef.diagonal()))


def test_logits_are_calibrated_like_probabilities_with_many_samples():
    rng = np.random.default_rng(0)
    z = 2 * rng.standard_normal((600, 3))
    y = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
    found = cal.LogAverageCalibrator(link="identity").fit(z, y).predict_proba(z)
    np.testing.assert_allclose(found, softmax(z / 2, axis=1), atol=0.12)
    with pytest.raises(ValueError, match="link must be one of"):
        cal.LogAverageCalibrator(link="probit").fit(z, y)
    with pytest.raises(TypeError, match="progress must be True, False or a function"):
        cal.LogAverageCalibrator(progress="yes").fit(softmax(z, axis=1), y)


def test_for_two_classes_log_odds_are_averaged(data):
    p, y, w = data
    p, y = p[:, 0], (y == 0).astype(int)
    both = [cal.PlattCalibrator(), cal.TemperatureCalibrator()]
    found = cal.LogAverageCalibrator(both, weights=[3, 1]).fit(p, y, w).transform(p)
    odds = [np.log(q / (1 - q)) for q in (one.fit(p, y, w).transform(p) for one in both)]
    np.testing.assert_allclose(np.log(found / (1 - found)), (3 * odds[0] + odds[1]) / 4, rtol=1e-8)


def test_kinds_of_scores(data):
    p, y, _ = data
    logits = [cal.TemperatureCalibrator(link="identity"), cal.MatrixScalingCalibrator(link="identity")]
    assert cal.LogAverageCalibrator(logits).fit(np.log(p), y).predict_proba(np.log(p)).shape == (200, 3)
    with pytest.raises(ValueError, match="outside"):
        cal.LogAverageCalibrator([cal.TemperatureCalibrator(), LogisticRegression()]).fit(np.log(p), y)
    with pytest.raises(ValueError, match="require probabilities and others logits"):
        cal.LogAverageCalibrator([cal.TemperatureCalibrator(), logits[0]]).fit(p, y)


def test_tags_can_be_asked_before_parameters_are_checked():
    calibrator = cal.LogAverageCalibrator(calibrators=5)
    assert get_tags(calibrator).classifier_tags.multi_class
    with pytest.raises(TypeError, match="calibrators must be a list"):
        calibrator.fit([0.2, 0.8], [0, 1])
