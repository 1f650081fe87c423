"""A sketch in place of arrays, everywhere: the result is that of its weighted sample, exactly."""

import warnings
from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from sklearn_calib import calibrators, metrics
from sklearn_calib.calibrators import IsotonicCalibrator, PlattCalibrator
from sklearn_calib.inference import (
    BinomialTest,
    ConsistencyTest,
    CoxTest,
    CutoffTest,
    HosmerLemeshowTest,
    SpiegelhalterTest,
)
from sklearn_calib.sketch import CalibrationSketch, WeightedSample
from tests._registry import METRICS
from tests.calibrators._registry import CALIBRATORS
from tests.inference._registry import TESTS

ALL_TESTS = {
    **{case.name: case.test for case in TESTS if not case.ordered},
    "cutoff": CutoffTest(random_state=0),
    "cutoff_draws": CutoffTest(method="monte_carlo", n_resamples=99, random_state=0),
    "cox": CoxTest(method="asymptotic"),
    "cox_draws": CoxTest(method="monte_carlo", n_resamples=99),
    "spiegelhalter": SpiegelhalterTest(method="asymptotic"),
    "spiegelhalter_draws": SpiegelhalterTest(method="monte_carlo", n_resamples=99),
    "hosmer_lemeshow": HosmerLemeshowTest(method="asymptotic"),
    "hosmer_lemeshow_draws": HosmerLemeshowTest(method="monte_carlo", n_resamples=99),
    "consistency": ConsistencyTest(metrics.smooth_ece, n_resamples=99, random_state=0),
    "consistency_pairs": ConsistencyTest(
        metrics.expected_calibration_error, n_resamples=99, resample="pairs", random_state=0
    ),
}

RESULTS = [
    metrics.smooth_ece_result,
    metrics.cutoff_result,
    metrics.decision_risk_result,
    metrics.calibration_summary,
    metrics.score_decomposition,
    metrics.distance_from_calibration,
    metrics.risk_coverage_curve,
]


def parts(result):
    """Return everything a result holds, by name."""
    assert is_dataclass(result)
    return {item.name: getattr(result, item.name) for item in fields(result)}


def assert_same(found, expected):
    """Compare results that may hold arrays and other results."""
    assert type(found) is type(expected)
    if is_dataclass(found):
        for name, value in parts(found).items():
            assert_same(value, getattr(expected, name))
    elif isinstance(found, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)
def test_metrics(case, data):
    found = case.call(data.sketch)
    assert isinstance(found, float)
    assert found == case.call(*data.arrays, sample_weight=data.w)
    # of the rows themselves: predictions moved by 2**-17 at most; roots near 0 move more
    assert found == pytest.approx(case.call(data.y, data.p), abs=3e-4)


@pytest.mark.parametrize("name", ["confidence", "top-label", "canonical"])
@pytest.mark.parametrize("metric", [metrics.expected_calibration_error, metrics.kernel_calibration_error])
def test_reductions(name, metric, data):
    assert metric(data.sketch, reduction=name) == metric(*data.arrays, sample_weight=data.w, reduction=name)


@pytest.mark.parametrize("function", RESULTS, ids=lambda function: function.__name__)
def test_results(function, data):
    assert_same(function(data.sketch), function(*data.arrays, sample_weight=data.w))


def test_no_metric_is_forgotten(data):
    listed = {case.function.__name__ for case in METRICS} | {function.__name__ for function in RESULTS}
    functions = {name for name in metrics.__all__ if name[0].islower()}
    others = {"area_under_risk_coverage", "net_benefit", "refinement_loss"}
    # of unlabelled samples, in a test of its own
    assert functions - listed <= others | {"expected_performance"}
    for name in others:
        metric = getattr(metrics, name)
        assert metric(data.sketch) == metric(*data.arrays, sample_weight=data.w)


def test_tests_see_what_they_see_in_the_rows(data):
    for name in ("tcal_asymptotic", "kernel_asymptotic", "cutoff", "cox", "spiegelhalter", "hosmer_lemeshow"):
        test = ALL_TESTS[name]
        found, expected = test.test(*data.arrays, sample_weight=data.w), test.test(data.y, data.p)
        # the order of events within a cell is lost, which the cutoff can feel
        assert found.statistic == pytest.approx(expected.statistic, rel=2e-3), name
        assert found.pvalue == pytest.approx(expected.pvalue, rel=2e-2), name


BINARY = [case for case in CALIBRATORS if not case.log_odds]


@pytest.mark.parametrize("case", BINARY, ids=lambda case: case.name)
def test_calibrators(case, data):
    grid = np.linspace(0.001, 0.999, 300)
    found = case.make().fit(data.sketch)
    expected = case.make().fit(data.arrays[1], data.arrays[0], data.w)
    np.testing.assert_array_equal(found.predict_proba(grid), expected.predict_proba(grid))
    assert found.classes_.tolist() == [0, 1]
    assert found.n_features_in_ == 1
    if hasattr(found, "cutoff_certificate"):
        for method in ("fitted", "bootstrap") if case.monotone else ("fitted",):
            options = {"method": method, "n_resamples": 99, "random_state": 0}
            assert found.cutoff_certificate(**options) == expected.cutoff_certificate(**options)


SMOOTH = ("platt", "modified_platt", "beta", "temperature", "spline", "smoothed", "prior_shift", "vector")


@pytest.mark.parametrize("case", [case for case in CALIBRATORS if case.name in SMOOTH], ids=lambda c: c.name)
def test_calibrators_learn_what_they_learn_from_rows(case, data):
    grid = np.linspace(0.01, 0.99, 99)
    found, expected = case.make().fit(data.sketch), case.make().fit(data.p, data.y)
    np.testing.assert_allclose(found.transform(grid), expected.transform(grid), atol=1e-4)


def test_calibrators_refuse_what_does_not_fit(data):
    with pytest.raises(ValueError, match="y was passed together with a CalibrationSketch"):
        PlattCalibrator().fit(data.sketch, data.y)
    with pytest.raises(ValueError, match="sample_weight was passed together with a CalibrationSketch"):
        PlattCalibrator().fit(data.sketch, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="requires y to be passed"):
        PlattCalibrator().fit(data.p)
    with pytest.raises(TypeError, match="X is a CalibrationSketch, which does not keep single samples"):
        PlattCalibrator().fit(data.sketch).transform(data.sketch)
    with pytest.raises(ValueError, match="only one class"):
        IsotonicCalibrator().fit(CalibrationSketch().update([1, 1], [0.25, 0.5]))


def test_real_weights_cannot_be_tested(data):
    y, p = data.y, data.p
    sketch = CalibrationSketch().update(y, p, sample_weight=np.full(y.shape[0], 0.3))
    assert metrics.smooth_ece(sketch) == pytest.approx(metrics.smooth_ece(y, p), abs=1e-5)
    y, p, w = sketch.weighted_sample()
    with pytest.raises(ValueError, match="whole numbers"):
        CoxTest().test(y, p, sample_weight=w)


def test_any_object_with_a_weighted_sample_is_a_summary(data):

    class Other:
        def as_weighted_sample(self):
            return data.sketch.as_weighted_sample()

    assert metrics.smooth_ece(Other()) == metrics.smooth_ece(data.sketch)
    with pytest.raises(ValueError, match="y_proba was passed together with a Other"):
        metrics.smooth_ece(Other(), data.p)

    # it is checked as arrays are
    class Broken:
        def as_weighted_sample(self):
            return WeightedSample(data.y, 2 * data.p, data.w)

    with pytest.raises(ValueError, match="y_proba contains"):
        metrics.smooth_ece(Broken())


def test_impossible_outcomes_are_told():
    sketch = CalibrationSketch().update([1, 0, 1, 0], [0.0, 0.5, 0.5, 1e-300])
    y, p, w = sketch.weighted_sample()
    found = BinomialTest(max_values=100).test(y, p, sample_weight=w)
    assert found.pvalue == 0.0
    assert "1 of 1 predictions of exactly 0 or 1 was contradicted" in found.reason
    assert calibrators.PlattCalibrator().fit(sketch).transform([0.5]).shape == (1,)


def test_nothing_warns(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics.calibration_summary(data.sketch)
