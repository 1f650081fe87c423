"""Risk-coverage curve and its area, against enumeration of the orders within ties."""

from fractions import Fraction
from itertools import pairwise, permutations

import numpy as np
import pytest

from sklearn_calib.metrics import area_under_risk_coverage, risk_coverage_curve
from tests._samples import simulated


def mean_over_orders(right, confidence):
    """Return the mean AURC over all orders of the samples that are consistent with the confidences."""
    n, areas = len(right), []
    for order in permutations(range(n)):
        if any(confidence[a] < confidence[b] for a, b in pairwise(order)):
            continue
        area = Fraction(0)
        for i in range(1, n + 1):
            area += Fraction(sum(1 - int(right[j]) for j in order[:i]), i)
        areas.append(area / n)
    return float(sum(areas) / len(areas))


def test_a_case_by_hand():
    # predicted classes 0, 1, 0, 1 with confidences .9, .6, .7, .8; wrong are the second and the third
    y, p = [0, 0, 1, 1], [0.1, 0.6, 0.3, 0.8]
    curve = risk_coverage_curve(y, p)
    np.testing.assert_allclose(curve.threshold, [0.9, 0.8, 0.7, 0.6])
    np.testing.assert_allclose(curve.coverage, [0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(curve.risk, [0, 0, 1 / 3, 1 / 2])
    assert curve.area == pytest.approx((1 / 3 + 1 / 2) / 4)
    assert (area_under_risk_coverage(y, p), curve.at(0.75)) == (curve.area, (0.5, 0.0))
    assert curve.at(0.0) == (1.0, 0.5)
    coverage, risk = curve.at(0.95)
    assert coverage == 0.0
    assert np.isnan(risk)
    # of the positive class itself: .8, .6, .3, .1 with one wrong among the first two
    by_class = risk_coverage_curve(y, p, reduction="classwise")
    np.testing.assert_allclose(by_class.risk, [0, 1 / 2, 1 / 3, 1 / 2])
    np.testing.assert_allclose(by_class.threshold, [0.8, 0.6, 0.3, 0.1])


def test_equal_confidences_of_both_classes_are_ties():
    # 1 - .32 is below .68 in floating point; half of the four samples are wrong
    p = [0.68, 0.32, 0.68, 0.32]
    for y in ([1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 1]):
        curve = risk_coverage_curve(y, p, pos_label=1)
        assert (curve.threshold.tolist(), curve.area) == ([0.68], pytest.approx(0.5))
    # real differences stay
    near = risk_coverage_curve([1, 1, 0], [1 - 2**-53, 1 - 2**-52, 1e-14], pos_label=1)
    assert near.threshold.shape == (3,)


@pytest.mark.parametrize("seed", range(6))
def test_ties_are_the_mean_over_all_orders(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    confidence, right = rng.integers(0, 3, n) / 4, rng.integers(0, 2, n)
    given = {"pos_label": 1, "reduction": "classwise"}
    found = area_under_risk_coverage(right, confidence, **given)
    assert found == pytest.approx(mean_over_orders(right, confidence), abs=1e-13)
    # a weight of k is k repetitions
    weight = rng.integers(0, 3, n)
    weight[0] += 1
    copies = np.repeat(np.arange(n), weight)
    expected = area_under_risk_coverage(right[copies], confidence[copies], **given)
    found = area_under_risk_coverage(right, confidence, sample_weight=weight, **given)
    assert found == pytest.approx(expected, abs=1e-13)


def test_curve_by_double_loop():
    rng = np.random.default_rng(3)
    P = np.round(rng.dirichlet([1, 1, 1], 60), 1)
    P[:, 2] = 1 - P[:, 0] - P[:, 1]
    P = np.abs(P)
    y = np.array([rng.choice(3, p=row / row.sum()) for row in P])
    curve, given = risk_coverage_curve(y, P), P
    P = P / P.sum(axis=1, keepdims=True)
    assert curve.threshold.tolist() == sorted({max(row) for row in P.tolist()}, reverse=True)
    for threshold, coverage, risk in zip(curve.threshold, curve.coverage, curve.risk, strict=True):
        accepted = wrong = 0
        for label, row in zip(y, P, strict=True):
            if row.max() >= threshold:
                accepted += 1
                wrong += row.argmax() != label
        assert (coverage, risk) == pytest.approx((accepted / 60, wrong / accepted))
    assert curve.area == pytest.approx(area_under_risk_coverage(y, given), abs=1e-15)


def test_unit_of_weights_does_not_matter():
    y = np.array([1, 0, 0, 1, 1])
    for weight in ([0.2] * 5, [1e-9] * 5):
        found = area_under_risk_coverage(y, [0.9, 0.8, 0.7, 0.6, 0.55], sample_weight=weight)
        assert found == pytest.approx(area_under_risk_coverage(y, [0.9, 0.8, 0.7, 0.6, 0.55]))


def test_many_samples_agree_with_a_sum_over_ranks():
    y, p = simulated(100_000)
    expected = np.mean(np.cumsum(1 - y[np.argsort(-p)]) / np.arange(1, 100_001))
    assert area_under_risk_coverage(y, p, reduction="classwise") == pytest.approx(expected, abs=1e-12)


def test_one_curve_needs_one_confidence_per_sample():
    P = np.full((4, 3), 1 / 3)
    with pytest.raises(ValueError, match=r"One curve needs one confidence per sample.*several classes"):
        risk_coverage_curve([0, 1, 2, 0], P, reduction="classwise")
    with pytest.raises(ValueError, match="several labels"):
        risk_coverage_curve([[0, 1], [1, 0]], [[0.2, 0.5], [0.4, 0.7]])
    with pytest.raises(ValueError, match="reduction must be one of 'confidence', 'classwise'"):
        risk_coverage_curve([0, 1], [0.2, 0.7], reduction="top-label")
