"""Adjusted p-values, by hand and against the step-down procedure that they stand for."""

import numpy as np
import pytest

from sklearn_calib._core._multiple import adjust_pvalues
from tests._references import holm


def test_by_hand():
    assert adjust_pvalues(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjust_pvalues(np.array([0.5, 0.9])).tolist() == [1, 1]
    assert adjust_pvalues(np.empty(0)).tolist() == []


def test_holm_is_the_step_down_procedure():
    p = np.random.default_rng(0).random(50) ** 3
    np.testing.assert_allclose(adjust_pvalues(p), holm(p), rtol=1e-14)
