"""Laws of the tests of calibration, where hypothesis looks for a counterexample among hard samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import _strategies
from tests.inference._registry import TESTS

pytestmark = _strategies.certain_predictions
#: Of these 1 - p is a float too, and none is the edge of a bin, which belongs to one side.
OFF_EDGES = st.one_of(
    st.integers(0, 2**19 - 1).map(lambda k: (2 * k + 1) / 2**20),
    st.sampled_from([0.0, 2.0**-53, 1.0 - 2.0**-53, 1.0]),
)


@pytest.mark.parametrize("case", TESTS, ids=lambda case: case.name)
@_strategies.fewer
@given(sample=_strategies.samples(both=True), data=st.data())
def test_rows(case, sample, data):
    y, p, w = sample
    found = case.test.test(y, p, sample_weight=w, weights="frequency")
    assert 0 <= found.pvalue <= 1
    # with predictions of the smallest numbers a squared distance may be beyond all numbers
    assert np.isfinite(found.statistic) or found.pvalue <= (1e-300 if found.asymptotic_null else 1e-3)
    assert np.isfinite(found.estimate)
    assert found.n_samples == w.sum()
    assert found.rejects(0.5) == (found.pvalue <= 0.5)
    assert f"{found.pvalue:.4g}" in str(found)
    if found.pvalue == 0:
        assert (((p == 0) & (y == 1)) | ((p == 1) & (y == 0)))[w > 0].any()
    # rows that are repeated and renamed, and in another order
    y, p, w = sample if case.ordered else data.draw(_strategies.permuted(sample))
    names = np.where(y == 1, "a", "b")
    other = case.test.test(np.repeat(names, w), np.repeat(p, w), pos_label="a")
    assert other.pvalue == pytest.approx(found.pvalue, rel=1e-6, abs=1e-12)
    assert other.estimate == pytest.approx(found.estimate, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("case", [case for case in TESTS if case.flip], ids=lambda case: case.name)
@_strategies.fewer
@given(sample=_strategies.samples(p=OFF_EDGES, both=True))
def test_flip(case, sample):
    y, p, w = sample
    here = case.test.test(y, p, sample_weight=w, weights="frequency")
    there = case.test.test(1 - y, 1 - p, sample_weight=w, weights="frequency")
    if not case.draws:
        assert there.estimate == pytest.approx(here.estimate, rel=1e-6, abs=1e-7)
    # draws of their own may decide on another scale, but each scale says the same
    for one, other in zip(here.scales, there.scales, strict=True):
        if hasattr(one, "statistic"):
            assert other.statistic == pytest.approx(one.statistic, rel=1e-6, abs=1e-7)
    assert (there.pvalue == 0) == (here.pvalue == 0)
