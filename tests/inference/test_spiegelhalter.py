"""Spiegelhalter's test: arithmetic, exact moments by enumeration, level and power."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import brier_score_loss

from sklearn_calib.inference import SpiegelhalterTest
from tests.inference import _properties

TEST = SpiegelhalterTest(method="asymptotic")


def test_by_hand():
    # residuals -.2, .2, covariates .6, -.6: sum -.24; variance 2 * .36 * .16
    result = TEST.test([0, 1], [0.2, 0.8])
    assert result.statistic == pytest.approx(-0.24 / np.sqrt(0.1152))
    assert result.pvalue == pytest.approx(2 * norm.sf(0.24 / np.sqrt(0.1152)))
    assert (result.estimate, result.asymptotic_null) == (pytest.approx(-0.12), "normal")
    y, p = _properties.sample(power=2)
    result = TEST.test(y, p)
    assert result.estimate == pytest.approx(brier_score_loss(y, p) - np.mean(p * (1 - p)))
    assert TEST.test([1, 0], [0.2, 0.8]).reason == "Brier score above its expectation"
    assert TEST.test([0, 1], [0.2, 0.8]).reason == "Brier score below its expectation"
    # one in four where a quarter is expected, three in four where three quarters are
    y, p = [0, 0, 0, 1, 0, 1, 1, 1], [0.25] * 4 + [0.75] * 4
    result = TEST.test(y, p)
    assert result.reason == "Brier score as expected"
    assert (result.statistic, result.pvalue) == (0.0, 1.0)
    result = TEST.test([0, 1, 1, 1], [0.5, 0.5, 0.5, 1.0])
    assert (result.statistic, result.pvalue, result.estimate) == (0.0, 1.0, 0.0)
    assert "no information" in result.reason
    assert TEST.test([1, 0], [0.0, 0.5]).statistic == np.inf
