"""Cutoff calibration error and decision risk against enumeration, and the paper's inequalities."""

import numpy as np
import pytest

from sklearn_calib import metrics
from tests._samples import small


def test_walk():
    result = metrics.cutoff_result([0, 1, 1, 0], [0.2, 0.5, 0.5, 0.9])
    np.testing.assert_allclose(result.probabilities, [0.2, 0.5, 0.9])
    np.testing.assert_allclose(result.walk, [-0.05, 0.2, -0.025])
    assert result.value == pytest.approx(0.25)
    assert (result.lower, result.upper) == (0.5, 0.5)
    assert (result.base_rate, result.n_samples) == (0.5, 4)
    assert "too low" in str(result)


def test_decision_gaps_are_bounded():
    # Propositions 3.1 and 3.2
    for y, p, w in map(small, range(25)):
        cutoff = metrics.cutoff_calibration_error(y, p, sample_weight=w)
        values = np.unique(p)
        ece = sum(abs(np.sum((w * (y - p))[p == value])) for value in values) / w.sum()
        for recalibration, bound in (("monotone", cutoff), ("either", 2 * cutoff), ("any", ece)):
            result = metrics.decision_risk_result(y, p, recalibration=recalibration, sample_weight=w)
            assert result.bound == pytest.approx(bound, abs=1e-12)
            assert (result.gap <= result.bound + 1e-12).all()
            np.testing.assert_allclose(result.gap, np.maximum(result.risk - result.best_risk, 0))
            assert f"{result.gap.max():.4f}" in str(result)


def test_decision_gap_by_hand():
    # at 1/2, acting on .6 and .7 in vain costs 2 * .5 / 4
    assert metrics.decision_risk_gap([0, 0, 0, 1], [0.1, 0.6, 0.7, 0.8], threshold=0.5) == 0.25
    # a perfect separation by the threshold costs nothing
    assert metrics.decision_risk_gap([0, 0, 1, 1], [0.1, 0.2, 0.7, 0.8], threshold=0.5) == 0.0
    # two ways to the same cost, whose sums differ by rounding
    y, p = [0, 1, 0, 1, 0], [0.3, 0.1, 0.3, 0.1, 0.2]
    assert metrics.decision_risk_gap(y, p, threshold=0.4) == 0.0
    assert metrics.decision_risk_result(y, p, thresholds=[0.4]).gap.tolist() == [0.0]


def test_margin():
    y, p, _ = small(0)
    result = metrics.cutoff_result(np.tile(y, 100), np.tile(p, 100))
    margins = [result.margin(method=m) for m in ("asymptotic", "dkw", "paper")]
    assert 0 < margins[0] < margins[1] < margins[2]
    assert margins[1] == pytest.approx(4 * np.sqrt(np.log(4 / 0.05) / (2 * result.n_samples)))
    # also where they are not used
    for bad in ({"confidence": 1}, {"method": "hoeffding"}, {"n_resamples": 0}, {"random_state": "x"}):
        with pytest.raises((ValueError, TypeError), match=next(iter(bad))):
            result.margin(**bad)


def test_bootstrap_margin():
    y, p, _ = small(0)
    result = metrics.cutoff_result(np.tile(y, 100), np.tile(p, 100))
    margin = result.margin(method="bootstrap", random_state=0)
    assert 0 < margin < result.margin()
    weighted = metrics.cutoff_result(y, p, sample_weight=np.full(y.shape[0], 100), weights="frequency")
    assert weighted.margin(method="bootstrap", random_state=0) == margin
    assert result.margin(0.5, "bootstrap", random_state=0) < margin
    y, p = np.tile(y, 100), np.tile(p, 100)
    with pytest.raises(ValueError, match="n_resamples >= 19"):
        result.margin(method="bootstrap", n_resamples=18)
    with pytest.raises(TypeError, match="random_state"):
        result.margin(method="bootstrap", random_state="x")
    for method in ("bootstrap", "dkw", "paper"):
        with pytest.raises(ValueError, match="weights='frequency'"):
            metrics.cutoff_result([0, 1], [0.2, 0.4], sample_weight=[0.5, 1]).margin(method=method)
    w = np.tile([1, 10], y.shape[0])[: y.shape[0]]
    kinds = "sampling", "frequency"
    wide, plain = (metrics.cutoff_result(y, p, sample_weight=w, weights=kind) for kind in kinds)
    assert (wide.n_samples, plain.n_samples) == (y.shape[0], w.sum())
    assert wide.n_effective == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert plain.n_effective is None
    assert f"effective number of samples {wide.n_effective:,.0f}" in str(wide)
    assert wide.margin() > plain.margin()
    expected = metrics.cutoff_result(y, p).margin()
    assert metrics.cutoff_result(y, p, sample_weight=np.full(y.shape[0], 9.0)).margin() == expected
