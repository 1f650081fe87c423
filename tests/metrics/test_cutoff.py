"""Cutoff calibration error and decision risk against enumeration, and the paper's inequalities."""

from itertools import product

import numpy as np
import pytest

from sklearn_calib import metrics
from tests._samples import small


def test_walk():
    result = metrics.cutoff_result([0, 1, 1, 0], [0.2, 0.5, 0.5, 0.9])
    np.testing.assert_allclose(result.probabilities, [0.2, 0.5, 0.9])
    np.testing.assert_allclose(result.walk, [-0.05, 0.2, -0.025])
    assert (result.value, result.lower, result.upper) == (pytest.approx(0.25), 0.5, 0.5)
    assert (result.base_rate, result.n_samples) == (0.5, 4)
    assert "too low" in str(result)


def test_decision_gaps_are_bounded():
    # Propositions 3.1 and 3.2
    for y, p, w in map(small, range(25)):
        cutoff = metrics.cutoff_calibration_error(y, p, sample_weight=w)
        ece = sum(abs(np.sum((w * (y - p))[p == value])) for value in np.unique(p)) / w.sum()
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


def test_bound_of_the_ece_over_all_signs():
    """The largest empirical Bernstein bound (Maurer and Pontil 2009) of the means of s(p) (y - p)."""
    rng = np.random.default_rng(0)
    for n, noise in ((60, 0.0), (60, 0.4), (4000, 0.3)):
        p = rng.choice([0.1, 0.3, 0.6, 0.9], n)
        y, bounds = (rng.random(n) < np.clip(p - noise, 0, 1)).astype(int), []
        for signs in product((-1, 1), repeat=4):
            z = np.array(signs)[np.searchsorted([0.1, 0.3, 0.6, 0.9], p)] * (y - p)
            step = np.log(2 / 0.1)
            bounds.append(z.mean() + np.sqrt(2 * z.var(ddof=1) * step / n) + 14 * step / (3 * (n - 1)))
        found = metrics.cutoff_result(y, p).ece_bound(0.9)
        # between the means of two of the signs there can be a larger one
        assert max(bounds) - 1e-12 <= found <= max(bounds) + 0.005
    half, weight = metrics.cutoff_result(y[:50], p[:50]), rng.integers(1, 4, 50)
    assert half.ece_bound() > half.ece_bound(0.5)
    repeated = metrics.cutoff_result(np.repeat(y[:50], weight), np.repeat(p[:50], weight))
    counted = metrics.cutoff_result(y[:50], p[:50], sample_weight=weight, weights="frequency")
    assert counted.ece_bound() == pytest.approx(repeated.ece_bound())
    assert counted.effective_support() == repeated.effective_support()
    # mean judgments vary less than judgments
    assert metrics.cutoff_result(p, p).ece_bound() < 1
    assert metrics.cutoff_result([1], [0.5], pos_label=1).ece_bound() == 1.0
    for call, message in (
        (lambda: half.ece_bound(1.0), "confidence must lie strictly between"),
        (lambda: half.effective_support(0.0), "fraction must lie strictly between"),
        (metrics.cutoff_result([0, 1], [0.2, 0.4], sample_weight=[0.5, 1]).ece_bound, "sampling weights"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_effective_support():
    result = metrics.cutoff_result(np.arange(100) % 2, np.repeat([0.1, 0.2, 0.3, 0.4], [50, 30, 15, 5]))
    assert [result.effective_support(f) for f in (0.4, 0.5, 0.51, 0.95, 0.96)] == [1, 1, 2, 3, 4]


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("values", [2, 20])
def test_bound_of_the_ece_covers_it(values, noise):
    """The error of fixed predictions, whose events are more or less frequent by a noise of 0 or .1."""
    t, rng = (np.arange(values) + 0.5) / values, np.random.default_rng(1)
    truth = np.clip(t + noise * (-1.0) ** np.arange(values), 0, 1)
    error, bounds = np.abs(truth - t).mean(), []
    for _ in range(200):
        index = rng.integers(values, size=2000)
        y = (rng.random(2000) < truth[index]).astype(int)
        bounds.append(metrics.cutoff_result(y, t[index]).ece_bound())
    assert np.mean(np.array(bounds) >= error) >= 0.95
    # noise of the values and of the mean, and the last term of the bound
    assert np.mean(bounds) < error + 0.5 * np.sqrt(values / 2000) + 0.04


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
