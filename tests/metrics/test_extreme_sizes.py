"""Weights and bandwidths of any size: shares of weight count, and a number or an error comes out."""

from functools import partial

import numpy as np
import pytest

from sklearn_calib import metrics

RNG = np.random.default_rng(0)
P = np.round(RNG.uniform(size=200), 2)
Y = (RNG.uniform(size=200) < P).astype(int)
W = RNG.integers(1, 5, 200).astype(float)
# by distinct predictions, the limit of all that is smoothed less and less
EXACT = sum(abs((Y - P)[value == P].sum()) for value in np.unique(P)) / 200

BY_SHARE = [
    metrics.calibration_loss,
    metrics.cutoff_calibration_error,
    partial(metrics.decision_risk_gap, threshold=0.3),
    metrics.expected_calibration_error,
    partial(metrics.expected_calibration_error, norm="l2", strategy="quantile"),
    metrics.interval_calibration_error,
    partial(metrics.kernel_calibration_error, debias=False),
    partial(metrics.kernel_calibration_error, debias=False, kernel="gaussian"),
    partial(metrics.logit_smoothed_ece, bandwidth=0.3),
    metrics.lower_distance_to_calibration,
    metrics.refinement_loss,
    metrics.smooth_calibration_error,
    metrics.smooth_ece,
    metrics.sweep_calibration_error,
    partial(metrics.sweep_calibration_error, strategy="uniform"),
]


def named(metric):
    """Return a name that is the same in every process, which the address of a function is not."""
    if not isinstance(metric, partial):
        return metric.__name__
    return f"{metric.func.__name__}, {', '.join(map(str, metric.keywords.values()))}"


@pytest.mark.parametrize("scale", [1e-90, 1e-20, 1e10])
@pytest.mark.parametrize("metric", BY_SHARE, ids=named)
def test_only_shares_of_weight_count(metric, scale):
    expected = metric(Y, P, sample_weight=W)
    assert metric(Y, P, sample_weight=W * scale) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("noise", ["gaussian", "uniform"])
def test_noise_that_cannot_be_resolved_is_refused(noise):
    error = partial(metrics.logit_smoothed_ece, Y, P, noise=noise)
    assert error(bandwidth=1e-7) == pytest.approx(EXACT, rel=1e-6)
    assert error(bandwidth=1e4) < EXACT + 0.5
    for bandwidth in (1e-9, 1e-299, 1e5, 1e300):
        with pytest.raises(ValueError, match="is out of range: choose a value from 1e-07 to 10000"):
            error(bandwidth=bandwidth)


def test_a_wide_kernel_sees_the_mean_residual_only():
    assert metrics.smooth_ece(Y, P, bandwidth=1e300) == pytest.approx(abs(np.mean(Y - P)))
