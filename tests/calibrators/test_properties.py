"""Laws of the calibrators, where hypothesis looks for a counterexample among hard samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_calib.calibrators import IsotonicCalibrator
from tests import _references, _strategies
from tests.calibrators._registry import CALIBRATORS, calibrators_with, once_a_class

pytestmark = _strategies.certain_predictions

GRID = np.unique([*_strategies.HARD, *np.linspace(0.0, 1.0, 33)])
SYMMETRIC = np.concatenate([[0.0, 2.0**-53], np.arange(1, 64) / 64, [1 - 2.0**-53, 1.0]])

#: Examples for a law that is repeated for the rows of the registry.
few = settings(max_examples=max(3, settings.default.max_examples // 5))
#: Fits of this one take long, and its members have the laws.
SLOW = {"auto"}
#: These are made for several classes, for which their laws are tested in the first tier.
SEVERAL = {"auto", "vector", "matrix", "structured_matrix", "dirichlet", "log_average"}

binary = _strategies.samples(both=True)
#: Probabilities with finite log-odds of moderate size, for maps whose fit may stop short of infinity.
inner = st.integers(1, 1023).map(lambda k: k / 1024) | st.sampled_from([2.0**-20, 0.5, 1 - 2.0**-20])


@pytest.mark.filterwarnings("ignore:.*so that the constant event rate is used")
@calibrators_with(slow=SEVERAL)
@few
@given(sample=binary, data=st.data())
def test_rows(case, sample, data):
    y, p, w = sample
    fitted = case.make().fit(p, y, w)
    found = fitted.transform(GRID)
    assert np.isfinite(found).all()
    assert found.min() >= 0
    assert found.max() <= 1
    y_, p_, w_ = sample if case.drawn else data.draw(_strategies.permuted(sample))
    np.testing.assert_array_equal(case.make().fit(p_, y_, w_).transform(GRID), found)
    keep = w > 0
    np.testing.assert_array_equal(case.make().fit(p[keep], y[keep], w[keep]).transform(GRID), found)
    # ties and single rows have the same image
    np.testing.assert_array_equal(fitted.transform(np.repeat(GRID, 2))[::2], found)
    alone = [fitted.transform([value])[0] for value in GRID[::10]]
    # the last bit belongs to linear algebra
    np.testing.assert_allclose(alone, found[::10], rtol=1e-13, atol=1e-13)


@calibrators_with(without="drawn", slow=SEVERAL)
@few
@given(sample=_strategies.samples(p=inner, both=True))
def test_weight_is_repetition(case, sample):
    y, p, w = sample
    found = case.make().fit(p, y, w).transform(GRID)
    repeated = case.make().fit(np.repeat(p, w), np.repeat(y, w)).transform(GRID)
    np.testing.assert_allclose(repeated, found, rtol=0, atol=1e-7)


# where samples are drawn, weights are counts
@pytest.mark.filterwarnings("ignore:sample_weight sums to")
@pytest.mark.parametrize(
    "case", once_a_class([case for case in CALIBRATORS if not (case.counts or case.drawn)])
)
@few
@given(sample=_strategies.samples(p=inner, both=True), power=st.integers(-20, 20))
def test_scale_of_weights(case, sample, power):
    y, p, w = sample
    # beyond the scores, limits of probabilities depend on the number of samples
    least = np.minimum(p, 1.0 - p).min()
    grid = np.append(p, GRID[np.abs(GRID - 0.5) <= 0.5 - least])
    found = case.make().fit(p, y, w).transform(grid)
    # a power of two changes no digit of a weight
    scaled = case.make().fit(p, y, np.ldexp(w.astype(np.float64), power)).transform(grid)
    np.testing.assert_allclose(scaled, found, rtol=0, atol=1e-9)


@calibrators_with(without="again")
@few
@given(sample=_strategies.samples(p=inner, both=True))
def test_another_fit_changes_nothing(case, sample):
    y, p, w = sample
    found = case.make().fit(p, y, w).transform(p)
    again = case.make().fit(found, y, w).transform(found)
    # where scores say nothing the temperature ends at its bound, short of a constant
    bounded = case.name in ("temperature", "group_temperature")
    # scores beyond those of the fit are clipped
    used = w > 0
    np.testing.assert_allclose(again[used], found[used], rtol=0, atol=5e-4 if bounded else 1e-7)


@calibrators_with("monotone")
@few
@given(sample=binary)
def test_ranking_is_kept(case, sample):
    y, p, w = sample
    steps = np.diff(case.make().fit(p, y, w).transform(GRID))
    # parametric maps turn where outcomes fall with the scores
    turns = case.name.startswith(("platt", "modified_platt", "beta", "spline", "certified"))
    assert steps.min() >= -2e-16 or (turns and steps.max() <= 2e-16)


@calibrators_with("flip", slow=SEVERAL)
@few
@given(sample=_strategies.samples(p=inner, both=True))
def test_flip(case, sample):
    y, p, w = sample
    found = case.make().fit(p, y, w).transform(SYMMETRIC)
    turned = case.make().fit(1 - p, 1 - y, w).transform(1 - SYMMETRIC)
    # the bandwidth of smooth ECE is found to 5e-7, and its sums are as accurate
    tolerance = 2e-6 if case.name.startswith("smoothed") else 1e-7
    np.testing.assert_allclose(turned, 1 - found, rtol=0, atol=tolerance)


@calibrators_with("multiclass", slow=SLOW)
@few
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 62), st.integers(1, 62), st.integers(0, 3)),
        min_size=1,
        max_size=15,
    )
)
def test_several_classes(case, rows):
    rows = [*rows, (0, 20, 20, 1), (1, 30, 1, 1), (2, 1, 1, 1)]
    y, first, second, w = np.array(rows).T
    p = np.column_stack([first, np.minimum(second, 63 - first), 64 - first - np.minimum(second, 63 - first)])
    p = np.log(p / 64) if case.log_odds else p / 64
    found = case.make().fit(p, y, w).predict_proba(p)
    assert np.isfinite(found).all()
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=0, atol=1e-14)
    keep = w > 0
    order = slice(None) if case.drawn else slice(None, None, -1)
    again = case.make().fit(p[keep][order], y[keep][order], w[keep][order])
    np.testing.assert_allclose(again.predict_proba(p), found, rtol=0, atol=1e-9)


@_strategies.more
@given(sample=_strategies.samples(w=_strategies.weights, both=True))
def test_isotonic_is_the_best_monotone_map(sample):
    y, p, w = sample
    fitted = IsotonicCalibrator(interpolation="step").fit(p, y, w).transform(p)
    np.testing.assert_allclose(fitted, _references.isotonic_by_extremes(y, p, w), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "case",
    once_a_class(
        [
            case
            for case in CALIBRATORS
            if case.name in ("isotonic", "isotonic_step", "venn_abers", "auto_any_score")
        ],
        slow={"auto_any_score"},
    ),
)
@given(scores=st.lists(st.floats(-1e100, 1e100), min_size=2, max_size=12, unique=True), data=st.data())
def test_any_finite_scores(case, scores, data):
    y = data.draw(st.lists(st.integers(0, 1), min_size=len(scores), max_size=len(scores)))
    y[0], y[1] = 0, 1
    fitted = case.make().fit(np.array(scores), y)
    found = fitted.transform(np.sort(scores))
    assert ((found >= 0) & (found <= 1)).all()
    if case.monotone:
        assert np.diff(fitted.transform([-1e100, *np.sort(scores), 1e100])).min() >= -2e-16
