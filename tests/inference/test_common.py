"""What holds for every test of calibration in the registry."""

import numpy as np
import pytest

from tests.inference import _properties
from tests.inference._registry import TESTS


@pytest.fixture(params=TESTS, ids=lambda case: case.name)
def case(request):
    return request.param


def test_rows_and_weights(case):
    _properties.check_rows_and_weights(case.test, case.ordered)


def test_estimator(case):
    _properties.check_estimator(case.test)


def test_bad_data(case):
    _properties.check_bad_data(case.test)


def test_impossible_outcomes(case):
    _properties.check_impossible(case.test)


def test_extremes(case):
    _properties.check_extremes(case.test)


@pytest.mark.parametrize("n", [20, 51, 77])
def test_what_was_almost_certain_is_no_evidence(case, n):
    """All draws have the very same labels; the rounding of sums must not tell the sample from them."""
    for chance in (1e-7, 1e-9, 1e-12):
        p = chance * (1 + np.random.default_rng(n).random(n))
        for y, proba in ((np.zeros(n, int), p), (np.ones(n, int), 1 - p)):
            assert case.test.test(y, proba, pos_label=1).pvalue >= 0.4


def test_pvalue_is_positive_otherwise(case):
    y, p = _properties.sample(300, power=4)
    assert 0 < case.test.test(y, p).pvalue <= 1


def test_result_is_reproducible_and_nothing_is_changed(case):
    y, p = _properties.sample(80, seed=3)
    y_before, p_before = y.copy(), p.copy()
    first, second = case.test.test(y, p), case.test.test(y, p)
    assert first == second
    if case.draws and first.null_distribution is not None:
        np.testing.assert_array_equal(first.null_distribution, second.null_distribution)
    np.testing.assert_array_equal(y, y_before)
    np.testing.assert_array_equal(p, p_before)


def test_flip(case):
    y, p = _properties.sample(80, seed=4)
    if case.flip:
        here, there = case.test.test(y, p), case.test.test(1 - y, 1 - p)
        assert there.estimate == pytest.approx(here.estimate, abs=1e-9)
        assert len(there.scales) == len(here.scales)
