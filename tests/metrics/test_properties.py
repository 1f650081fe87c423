"""Laws of the metrics, where hypothesis looks for a counterexample among hard samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_calib import metrics
from tests import _references, _strategies
from tests._registry import ELSEWHERE, METRICS

pytestmark = _strategies.certain_predictions

every_metric = pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)
near = pytest.approx


def distinct_error(y, p, w):
    return sum(abs(np.sum((w * (y - p))[p == value])) for value in np.unique(p)) / w.sum()


def test_every_metric_is_in_the_registry():
    functions = {name for name in metrics.__all__ if name[0].islower()}
    assert functions == {case.function.__name__ for case in METRICS} | set(ELSEWHERE)


@every_metric
@given(sample=_strategies.samples(), data=st.data())
def test_rows(case, sample, data):
    y, p, w = sample
    value = case.call(y, p, sample_weight=w, pos_label=1)
    assert type(value) is float
    assert 0 <= value <= 1
    y_, p_, w_ = data.draw(_strategies.permuted(sample))
    assert case.call(y_, p_, sample_weight=w_, pos_label=1) == near(value, abs=1e-12)
    assert case.call(np.repeat(y, w), np.repeat(p, w), pos_label=1) == near(value, abs=1e-8)
    keep = w > 0
    assert case.call(y[keep], p[keep], sample_weight=w[keep], pos_label=1) == value


@pytest.mark.parametrize(
    "case", {case.function: case for case in METRICS}.values(), ids=lambda case: case.name
)
@_strategies.fewer
@given(sample=_strategies.samples(), pairs=st.lists(st.sampled_from(["ab", "ba"]), min_size=1, max_size=1))
def test_names_and_precision(case, sample, pairs):
    y, p, w = sample
    negative, positive = pairs[0]
    value = case.call(y, p, sample_weight=w, pos_label=1)
    assert case.call(np.where(y == 1, positive, negative), p, sample_weight=w, pos_label=positive) == value
    # halves that add up to the whole weight
    twice = (np.tile(values, 2) for values in (y, p))
    expected = near(case.call(y, p, sample_weight=2 * w, pos_label=1), abs=1e-8)
    assert case.call(*twice, sample_weight=np.tile(w, 2), pos_label=1) == expected
    single = p.astype(np.float32)
    assert case.call(y, single, pos_label=1) == case.call(y, single.astype(np.float64), pos_label=1)


@pytest.mark.parametrize("case", [case for case in METRICS if case.scale_free], ids=lambda case: case.name)
@_strategies.fewer
@given(sample=_strategies.samples(w=_strategies.weights), power=st.integers(-200, 200))
def test_any_weights(case, sample, power):
    y, p, w = sample
    value = case.call(y, p, sample_weight=w, pos_label=1)
    assert 0 <= value <= 1
    # a power of two changes no digit of a weight
    assert case.call(y, p, sample_weight=np.ldexp(w, power), pos_label=1) == near(value, abs=1e-8)


@pytest.mark.parametrize(
    "case", [case for case in METRICS if case.flip_symmetric], ids=lambda case: case.name
)
@_strategies.fewer
@given(sample=_strategies.samples(p=_strategies.symmetric))
def test_flip(case, sample):
    y, p, w = sample
    value = case.call(y, p, sample_weight=w, pos_label=1)
    assert case.call(1 - y, 1 - p, sample_weight=w, pos_label=1) == near(value, abs=1e-8)


@every_metric
@pytest.mark.parametrize(
    "p", [1 / 3, *(pytest.param(p, marks=pytest.mark.thorough) for p in (0.0, 5e-324, 1 - 2.0**-53, 1.0))]
)
def test_many_rows_of_one_value(case, p):
    n = 150_000
    for y in (np.arange(n) % 2, (np.arange(n) % 1000 == 0).astype(int)):
        value = case.call(y, np.full(n, p), pos_label=1)
        few = case.call([0, 1], [p, p], sample_weight=[n - y.sum(), y.sum()], pos_label=1)
        assert value == near(few, abs=1e-6)
        if case.zero_when_balanced and "debias" not in case.params and not case.of_decisions:
            # the loss is a difference of squared errors
            power = 2 if case.name == "calibration_loss" else 1
            assert value == near(abs(y.mean() - p) ** power, abs=1e-6)


@_strategies.more
@given(sample=_strategies.samples(y=_strategies.outcomes, w=_strategies.weights))
def test_calibration_loss_is_that_of_isotonic_regression(sample):
    y, p, w = sample
    fit = _references.isotonic_by_extremes(y, p, w)
    expected = np.sum(w * ((y - p) ** 2 - (y - fit) ** 2)) / w.sum()
    assert metrics.calibration_loss(y, p, sample_weight=w, pos_label=1) == near(expected, abs=1e-9)


@_strategies.more
@given(sample=_strategies.samples(y=_strategies.outcomes, w=_strategies.weights))
def test_cutoff_and_lipschitz_errors_are_their_definitions(sample):
    y, p, w = sample
    arguments = {"sample_weight": w, "pos_label": 1}
    cutoff = metrics.cutoff_calibration_error(y, p, **arguments)
    assert cutoff == near(_references.cutoff_by_enumeration(y, p, w), abs=1e-9)
    result = metrics.cutoff_result(y, p, **arguments)
    inside = (p >= result.lower) & (p <= result.upper)
    assert np.sum((w * (y - p))[inside]) / w.sum() == near(result.signed, abs=1e-9)
    assert abs(result.signed) == near(cutoff, abs=1e-9)


@_strategies.more
@given(sample=_strategies.samples(y=_strategies.outcomes, most=12))
def test_lipschitz_error_is_its_program(sample):
    y, p, w = sample
    value = metrics.smooth_calibration_error(y, p, sample_weight=w, pos_label=1)
    assert value == near(_references.lipschitz_program(y, p, w), abs=1e-6)


@_strategies.more
@given(
    sample=_strategies.samples(y=_strategies.outcomes),
    n_bins=st.one_of(st.integers(1, 40), st.just(100)),
    norm=st.sampled_from(["l1", "l2", "max"]),
)
def test_binned_error_is_a_loop_over_bins(sample, n_bins, norm):
    y, p, w = sample
    value = metrics.expected_calibration_error(y, p, sample_weight=w, pos_label=1, n_bins=n_bins, norm=norm)
    assert value == near(_references.binned_ece(y, p, w, np.arange(n_bins + 1) / n_bins, norm), abs=1e-12)


@_strategies.more
@given(sample=_strategies.samples(y=_strategies.outcomes, most=8), s=st.sampled_from([0.02, 0.1, 0.5, 2.0]))
def test_smooth_errors_are_their_quadratures(sample, s):
    y, p, w = sample
    found = metrics.smooth_ece(y, p, sample_weight=w, pos_label=1, bandwidth=s)
    assert found == near(_references.smooth_ece_at(y, p, w, s), abs=2e-5)
    found = metrics.logit_smoothed_ece(y, p, sample_weight=w, pos_label=1, bandwidth=s)
    assert found == near(_references.logit_smoothed_ece_at(y, p, w, s, 2.0**-53), abs=2e-5)


@_strategies.more
@given(
    sample=_strategies.samples(y=_strategies.outcomes),
    tau=st.sampled_from([0.05, 0.1, 0.29, 0.5, 0.7, 1 - 1e-9]),
)
def test_decision_gap_is_its_definition(sample, tau):
    y, p, w = sample
    arguments = {"sample_weight": w, "pos_label": 1}
    cutoff = metrics.cutoff_calibration_error(y, p, **arguments)
    # Propositions 3.2 and 3.1 of Rossellini et al. (2025)
    bounds = {"monotone": cutoff, "either": 2 * cutoff, "any": distinct_error(y, p, w)}
    for recalibration, bound in bounds.items():
        gap = metrics.decision_risk_gap(y, p, threshold=tau, recalibration=recalibration, **arguments)
        assert gap <= bound + 1e-12
        if recalibration != "any" or np.unique(p).size <= 10:
            assert gap == near(_references.decision_gap(y, p, w, tau, recalibration), abs=1e-12)


@_strategies.more
@given(sample=_strategies.samples(y=_strategies.outcomes, most=8))
def test_distances_are_their_programs(sample):
    y, p, w = sample
    found = metrics.distance_from_calibration(y, p, sample_weight=w, pos_label=1, n_bins=30)
    # an outcome between 0 and 1 is so much of both
    both = np.repeat([1, 0], y.size), np.tile(p, 2), np.append(w * y, w * (1 - y))
    # the programs are solved to 1e-7
    assert found.transport == near(_references.transport_program(*both, np.arange(31) / 30), abs=1e-6)
    assert found.interval == near(_references.interval_by_partitions(*both), abs=1e-9)
    assert found.smooth == near(_references.lipschitz_program(*both), abs=1e-6)
    assert 0 <= found.lower <= found.upper <= 1


@_strategies.more
@given(sample=_strategies.samples(y=_strategies.outcomes), score=st.sampled_from(["brier", "log_loss"]))
def test_decomposition_adds_up(sample, score):
    y, p, w = sample
    if score == "log_loss":
        # a certain forecast that is wrong has no finite loss
        p = np.clip(p, 1e-300, 1 - 2.0**-53)
    found = metrics.score_decomposition(y, p, sample_weight=w, pos_label=1, score=score)
    assert found.miscalibration >= 0
    assert found.discrimination >= 0
    assert found.score == near(found.miscalibration - found.discrimination + found.uncertainty, abs=1e-9)
    if score == "brier":
        # the expected score of an event with probability y
        losses = y * (1 - p) ** 2 + (1 - y) * p**2
        assert found.score == near(np.sum(w * losses) / w.sum(), abs=1e-12)
