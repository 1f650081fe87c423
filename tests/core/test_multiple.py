"""Adjusted p-values, by hand and against the step-down procedure that they stand for."""

import numpy as np
import pytest

from sklearn_calib._core._multiple import adjust_pvalues


def test_by_hand():
    pvalues = np.array([0.01, 0.04, 0.03, 0.005])
    assert adjust_pvalues(pvalues) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjust_pvalues(np.array([0.5, 0.9])).tolist() == [1, 1]
    assert adjust_pvalues(np.empty(0)).tolist() == []


def test_holm_is_the_step_down_procedure_and_never_above_bonferroni():
    p = np.random.default_rng(0).random(50) ** 3
    holm = adjust_pvalues(p)
    assert (holm <= np.minimum(50 * p, 1)).all()
    assert (holm >= p).all()
    assert (np.diff(holm[np.argsort(p)]) >= 0).all()
    # reject in order while p <= alpha / (values left)
    for alpha in (0.01, 0.05, 0.2):
        rejected = set()
        for i, index in enumerate(np.argsort(p)):
            if p[index] > alpha / (50 - i):
                break
            rejected.add(index)
        assert set(np.flatnonzero(holm <= alpha)) == rejected
