"""A sketch in place of arrays, everywhere: the result is that of its weighted sample, exactly."""

import warnings
from dataclasses import fields, is_dataclass

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.base import clone

from sklearn_calib import calibrators, inference, metrics, plot
from sklearn_calib.calibrators import GroupCalibrator, IsotonicCalibrator, PlattCalibrator
from sklearn_calib.inference import (
    BinomialTest,
    ConsistencyTest,
    CoxTest,
    CutoffTest,
    HosmerLemeshowTest,
    SequentialTest,
    SpiegelhalterTest,
    compare_models,
    confidence_interval,
    null_floor,
    paired_test,
)
from sklearn_calib.plot import (
    ComparisonDisplay,
    CutoffDisplay,
    DecisionDisplay,
    ReliabilityDisplay,
    TestDisplay,
)
from sklearn_calib.report import calibration_report
from sklearn_calib.sketch import CalibrationSketch
from tests._registry import METRICS
from tests.calibrators._registry import CALIBRATORS
from tests.inference._registry import TESTS

ALL_TESTS = {
    **{case.name: case.test for case in TESTS if not case.ordered},
    "cutoff": CutoffTest(random_state=0),
    "cutoff_draws": CutoffTest(method="monte_carlo", n_resamples=99, random_state=0),
    "cox": CoxTest(),
    "spiegelhalter": SpiegelhalterTest(),
    "hosmer_lemeshow": HosmerLemeshowTest(),
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
]


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    p = np.concatenate((rng.random(n - 40), rng.choice([0.1, 0.5, 0.75], 40)))
    return (rng.random(n) < 0.1 + 0.8 * p).astype(np.int64), p


@pytest.fixture(scope="module")
def data():
    """Labels, predictions, their sketch, and the arrays for which the sketch stands."""
    y, p = rows()
    sketch = CalibrationSketch().update(y, p)
    sample = sketch.as_weighted_sample()
    return y, p, sketch, (sample.y, sample.p), sample.w


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


def drawn(display):
    """Return the coordinates of every line of a display's figure."""
    lines = [line.get_xydata() for axes in display.figure_.axes for line in axes.get_lines()]
    plt.close("all")
    return lines


@pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)
def test_metrics(case, data):
    y, p, sketch, arrays, w = data
    found = case.call(sketch)
    assert isinstance(found, float)
    assert found == case.call(*arrays, sample_weight=w)
    # of the rows themselves: predictions moved by 2**-18 at most; a root near 0 and a choice of bins move more
    assert found == pytest.approx(case.call(y, p), abs=3e-4)


@pytest.mark.parametrize("name", ["confidence", "top-label", "canonical"])
@pytest.mark.parametrize("metric", [metrics.expected_calibration_error, metrics.kernel_calibration_error])
def test_reductions(name, metric, data):
    y, p, sketch, arrays, w = data
    assert metric(sketch, reduction=name) == metric(*arrays, sample_weight=w, reduction=name)


@pytest.mark.parametrize("function", RESULTS, ids=lambda function: function.__name__)
def test_results(function, data):
    y, p, sketch, arrays, w = data
    assert_same(function(sketch), function(*arrays, sample_weight=w))


def test_no_metric_is_forgotten(data):
    listed = {case.function.__name__ for case in METRICS} | {function.__name__ for function in RESULTS}
    functions = {name for name in metrics.__all__ if name[0].islower()}
    assert functions - listed <= {"refinement_loss"}
    y, p, sketch, arrays, w = data
    assert metrics.refinement_loss(sketch) == metrics.refinement_loss(*arrays, sample_weight=w)


@pytest.mark.parametrize("name", list(ALL_TESTS))
def test_tests(name, data):
    y, p, sketch, arrays, w = data
    test = ALL_TESTS[name]
    found = test.test(sketch)
    assert_same(found, test.test(*arrays, sample_weight=w))
    assert found.n_samples == y.shape[0]
    fitted = clone(test).fit(sketch)
    assert (fitted.pvalue_, fitted.n_features_in_, fitted.classes_.tolist()) == (found.pvalue, 1, [0, 1])
    assert fitted.score(sketch) == found.pvalue


def test_tests_see_what_they_see_in_the_rows(data):
    y, p, sketch, _, _ = data
    for name in ("tcal_asymptotic", "kernel_asymptotic", "cutoff", "cox", "spiegelhalter", "hosmer_lemeshow"):
        found, expected = ALL_TESTS[name].test(sketch), ALL_TESTS[name].test(y, p)
        # the order of events within a cell is lost, which the cutoff can feel
        assert found.statistic == pytest.approx(expected.statistic, rel=2e-3), name
        assert found.pvalue == pytest.approx(expected.pvalue, rel=2e-2), name


def test_no_test_is_forgotten():
    kinds = {type(test) for test in ALL_TESTS.values()} | {SequentialTest}
    known = {
        value
        for value in vars(inference).values()
        if isinstance(value, type) and issubclass(value, inference.CalibrationTest)
    }
    assert kinds == known - {inference.CalibrationTest}


def test_streams_need_rows(data):
    y, p, sketch, _, _ = data
    test = SequentialTest()
    for call in (test.test, test.fit, test.partial_fit, test.score):
        with pytest.raises(TypeError, match="SequentialTest needs the rows in the order of time"):
            call(sketch) if call != test.partial_fit else call(sketch, None)
    assert test.fit(p, y).pvalue_ == test.test(y, p).pvalue


# those that are evaluated on many samples at once, and some that are not
INTERVALS = ("ece_debiased", "smooth_ece", "logit_smoothed_ece", "cutoff", "calibration_loss", "sweep")


@pytest.mark.parametrize("method", ["inversion", "percentile"])
@pytest.mark.parametrize(
    "case", [case for case in METRICS if case.name in INTERVALS], ids=lambda case: case.name
)
def test_intervals(case, method, data):
    y, p, sketch, arrays, w = data
    settings = {"n_resamples": 20, "random_state": 0, "method": method}
    found = confidence_interval(case.call, sketch, **settings)
    assert_same(found, confidence_interval(case.call, *arrays, sample_weight=w, **settings))


def test_floors(data):
    y, p, sketch, arrays, w = data
    settings = {"n_resamples": 39, "random_state": 0}
    for metric in (metrics.smooth_ece, metrics.calibration_loss):
        found = null_floor(metric, sketch, **settings)
        grouped = CalibrationSketch().update(1 - y, p)
        # outcomes do not count
        assert found.draws.tolist() == null_floor(metric, grouped, **settings).draws.tolist()
        sample = sketch.as_weighted_sample()
        assert_same(found, null_floor(metric, sample.p, sample_weight=sample.w, **settings))
    with pytest.raises(ValueError, match="sample_weight was passed beside a CalibrationSketch"):
        null_floor(metrics.smooth_ece, sketch, sample_weight=w)


BINARY = [case for case in CALIBRATORS if not case.log_odds]


@pytest.mark.parametrize("case", BINARY, ids=lambda case: case.name)
def test_calibrators(case, data):
    y, p, sketch, arrays, w = data
    grid = np.linspace(0.001, 0.999, 300)
    found = case.make().fit(sketch)
    expected = case.make().fit(arrays[1], arrays[0], w)
    np.testing.assert_array_equal(found.predict_proba(grid), expected.predict_proba(grid))
    assert found.classes_.tolist() == [0, 1]
    assert found.n_features_in_ == 1
    if hasattr(found, "cutoff_certificate"):
        assert found.cutoff_certificate() == expected.cutoff_certificate()
        draws = {"method": "bootstrap", "n_resamples": 99, "random_state": 0}
        assert found.cutoff_certificate(**draws) == expected.cutoff_certificate(**draws)


SMOOTH = ("platt", "modified_platt", "beta", "temperature", "spline", "smoothed", "prior_shift", "vector")


@pytest.mark.parametrize("case", [case for case in CALIBRATORS if case.name in SMOOTH], ids=lambda c: c.name)
def test_calibrators_learn_what_they_learn_from_rows(case, data):
    y, p, sketch, _, _ = data
    grid = np.linspace(0.01, 0.99, 99)
    found, expected = case.make().fit(sketch), case.make().fit(p, y)
    np.testing.assert_allclose(found.transform(grid), expected.transform(grid), atol=1e-4)


def test_calibrators_refuse_what_does_not_fit(data):
    y, p, sketch, _, _ = data
    with pytest.raises(ValueError, match="y was passed beside a CalibrationSketch"):
        PlattCalibrator().fit(sketch, y)
    with pytest.raises(ValueError, match="sample_weight was passed beside a CalibrationSketch"):
        PlattCalibrator().fit(sketch, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="requires y to be passed"):
        PlattCalibrator().fit(p)
    with pytest.raises(TypeError, match="X is a CalibrationSketch, which keeps no rows"):
        PlattCalibrator().fit(sketch).transform(sketch)
    with pytest.raises(ValueError, match="only one class"):
        IsotonicCalibrator().fit(CalibrationSketch().update([1, 1], [0.25, 0.5]))
    for group in (GroupCalibrator(group_column=0), GroupCalibrator()):
        with pytest.raises(ValueError, match="groups cannot be told"):
            group.fit(sketch, groups=None if group.group_column == 0 else y)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"method": "binned", "band": "none"},
        {"method": "corp", "band": "consistency", "n_resamples": 20, "random_state": 0},
        {"method": "belt"},
        {"band": "confidence", "n_resamples": 20, "random_state": 0, "scale": "logit"},
        {"error_interval": True, "n_resamples": 20, "random_state": 0},
        {"reduction": "confidence"},
    ],
    ids=str,
)
def test_reliability_diagrams(options, data):
    y, p, sketch, arrays, w = data
    found = drawn(ReliabilityDisplay.from_predictions(sketch, **options))
    expected = drawn(ReliabilityDisplay.from_predictions(*arrays, sample_weight=w, **options))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_other_displays(data):
    y, p, sketch, arrays, w = data
    few = {"n_resamples": 99, "random_state": 0}
    for make in (
        lambda *data, **weight: CutoffDisplay.from_predictions(*data, **weight, **few),
        lambda *data, **weight: DecisionDisplay.from_predictions(*data, **weight, **few),
        lambda *data, **weight: TestDisplay.from_predictions(ALL_TESTS["tcal"], *data, **weight),
    ):
        for one, other in zip(drawn(make(sketch)), drawn(make(*arrays, sample_weight=w)), strict=True):
            np.testing.assert_array_equal(one, other)
    labelled = CalibrationSketch(pos_label="ill").update(np.where(y == 1, "ill", "well"), p)
    assert "ill" in ReliabilityDisplay.from_predictions(labelled).ax_.get_xlabel()
    assert "ill" in CutoffDisplay.from_predictions(labelled, **few).figure_.axes[-1].get_xlabel()
    plt.close("all")


def test_no_display_is_forgotten():
    known = {name for name in plot.__all__ if name.endswith("Display")}
    assert known == {
        "ComparisonDisplay",
        "CutoffDisplay",
        "DecisionDisplay",
        "ReliabilityDisplay",
        "TestDisplay",
    }


def test_report(data):
    y, p, sketch, arrays, w = data
    settings = {"n_resamples": 20, "progress": False}
    found = calibration_report(sketch, **settings)
    assert str(found) == str(calibration_report(*arrays, sample_weight=w, **settings))
    assert found.n_samples == y.shape[0]
    labelled = CalibrationSketch(pos_label="ill").update(np.where(y == 1, "ill", "well"), p)
    assert calibration_report(labelled, **settings).positive == "ill"
    with pytest.raises(ValueError, match="groups need rows, which a CalibrationSketch does not keep"):
        calibration_report(sketch, groups=y)


def test_what_compares_rows_refuses(data):
    y, p, sketch, _, _ = data
    with pytest.raises(TypeError, match="y_true is a CalibrationSketch|y_proba_a is a CalibrationSketch"):
        paired_test(metrics.smooth_ece, sketch, sketch, sketch)
    with pytest.raises(TypeError, match="is a CalibrationSketch, which keeps no rows"):
        paired_test(metrics.smooth_ece, y, p, sketch)
    with pytest.raises(TypeError, match="is a CalibrationSketch, which keeps no rows"):
        compare_models(metrics.smooth_ece, y, {"a": p, "b": sketch})
    with pytest.raises(TypeError, match="is a CalibrationSketch, which keeps no rows"):
        ComparisonDisplay.from_predictions(y, {"a": p, "b": sketch})
    with pytest.raises(ValueError, match="groups need rows"):
        ReliabilityDisplay.from_predictions(sketch, groups=y)


CALLS = {
    "metric": metrics.smooth_ece,
    "binned": metrics.expected_calibration_error,
    "canonical": lambda *data, **more: metrics.kernel_calibration_error(*data, reduction="canonical", **more),
    "canonical bins": lambda *data, **more: metrics.expected_calibration_error(
        *data, reduction="canonical", **more
    ),
    "result": metrics.cutoff_result,
    "test": CoxTest().test,
    "interval": lambda *data, **more: confidence_interval(metrics.smooth_ece, *data, **more),
    "report": calibration_report,
    "reliability": ReliabilityDisplay.from_predictions,
    "cutoff": CutoffDisplay.from_predictions,
    "decision": DecisionDisplay.from_predictions,
    "test display": lambda *data, **more: TestDisplay.from_predictions(CoxTest(), *data, **more),
}


@pytest.mark.parametrize("name", list(CALLS))
def test_mixtures_of_sketches_and_arrays_are_refused(name, data):
    y, p, sketch, _, _ = data
    call = CALLS[name]
    with pytest.raises(TypeError, match="y_proba is missing"):
        call(y)
    with pytest.raises(ValueError, match="y_proba was passed beside a CalibrationSketch"):
        call(sketch, p)
    with pytest.raises(ValueError, match="sample_weight was passed beside a CalibrationSketch"):
        call(sketch, sample_weight=np.ones(y.shape[0]))
    with pytest.raises(ValueError, match="pos_label=0 was passed beside a CalibrationSketch"):
        call(sketch, pos_label=0)
    with pytest.raises(ValueError, match="The sketch is empty"):
        call(CalibrationSketch())
    with pytest.raises(TypeError, match="y_proba is a CalibrationSketch, which keeps no rows"):
        call(y, sketch)


def test_labels_of_columns_do_not_belong_to_a_sketch(data):
    sketch = data[2]
    with pytest.raises(ValueError, match="labels"):
        metrics.smooth_ece(sketch, labels=[0, 1])
    with pytest.raises(ValueError, match="labels"):
        CoxTest().test(sketch, labels=[0, 1])


def test_real_weights_cannot_be_tested():
    y, p = rows()
    sketch = CalibrationSketch().update(y, p, sample_weight=np.full(y.shape[0], 0.3))
    assert metrics.smooth_ece(sketch) == pytest.approx(metrics.smooth_ece(y, p), abs=1e-5)
    with pytest.raises(ValueError, match="whole numbers"):
        CoxTest().test(sketch)
    with pytest.raises(ValueError, match="whole numbers"):
        confidence_interval(metrics.smooth_ece, sketch)


def test_any_object_with_a_weighted_sample_is_a_summary(data):
    y, p, sketch, arrays, w = data

    class Other:
        def as_weighted_sample(self):
            return sketch.as_weighted_sample()

    assert metrics.smooth_ece(Other()) == metrics.smooth_ece(sketch)
    with pytest.raises(ValueError, match="y_proba was passed beside a Other"):
        metrics.smooth_ece(Other(), p)
    # it is checked as arrays are
    broken = type(
        "Broken", (), {"as_weighted_sample": lambda self: type(sketch.as_weighted_sample())(y, p * 2, w)}
    )
    with pytest.raises(ValueError, match="y_proba contains"):
        metrics.smooth_ece(broken())


def test_impossible_outcomes_are_told():
    sketch = CalibrationSketch().update([1, 0, 1, 0], [0.0, 0.5, 0.5, 1e-300])
    found = BinomialTest(max_values=100).test(sketch)
    assert found.pvalue == 0.0
    assert "impossible" in found.reason
    assert calibrators.PlattCalibrator().fit(sketch).transform([0.5]).shape == (1,)


def test_nothing_warns(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics.calibration_summary(data[2])
