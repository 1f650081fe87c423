"""Cutoff test: exactness of redrawn outcomes, and the choice between them."""

import numpy as np
import pytest

from sklearn_calib.inference import CutoffTest
from sklearn_calib.metrics import cutoff_calibration_error
from tests._references import brownian_range_tail
from tests._samples import simulated

ASYMPTOTIC = CutoffTest(method="asymptotic")


def test_by_hand():
    # residuals .5, .5, -.5: walk 0, .5, 1, .5 has range 1; variance 3/4
    result = ASYMPTOTIC.test([1, 1, 0], [0.5, 0.500001, 0.500002])
    assert result.statistic == pytest.approx(1 / np.sqrt(0.75), rel=1e-5)
    assert result.estimate == pytest.approx(1 / 3, rel=1e-5)
    assert result.pvalue == pytest.approx(brownian_range_tail(result.statistic))
    assert "[0.5, 0.5], where predictions are too low" in result.reason
    # one prediction: only the sum counts
    tied = ASYMPTOTIC.test([1, 1, 0], [0.5, 0.5, 0.5])
    assert tied.statistic == pytest.approx(0.5 / np.sqrt(0.75))


def test_auto_decides_by_effective_size():
    y, p = simulated(9000, "uniform", 0.4, 0.6)
    assert CutoffTest().test(y, p).method == "asymptotic"
    drawn = CutoffTest(random_state=0).test(y[:1000], p[:1000])
    assert drawn.method == "999 simulations"
    assert drawn.estimate == pytest.approx(cutoff_calibration_error(y[:1000], p[:1000]))
    assert drawn.null_distribution.shape == (999,)
    # many rows but few steps; many rows but rare events
    assert CutoffTest(n_resamples=49).test(y, np.round(p, 1)).method == "49 simulations"
    rare = np.linspace(1e-6, 1e-5, 9000)
    assert CutoffTest(n_resamples=49).test(np.zeros(9000, int), rare).method == "49 simulations"
    assert CutoffTest(n_resamples=9).test([0, 0], [1e-200, 1e-180]).pvalue == 1
