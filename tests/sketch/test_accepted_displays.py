"""A sketch in place of arrays in pictures and reports, and what is refused."""

import numpy as np
import pytest

from sklearn_calib import metrics, plot
from sklearn_calib.inference import (
    CoxTest,
    TCal,
    compare_models,
    paired_test,
)
from sklearn_calib.plot import (
    ComparisonDisplay,
    CutoffDisplay,
    DecisionDisplay,
    ReliabilityDisplay,
    RiskCoverageDisplay,
    TestDisplay,
)
from sklearn_calib.report import calibration_report
from sklearn_calib.sketch import CalibrationSketch

plt = pytest.importorskip("matplotlib.pyplot")


def drawn(display):
    """Return the coordinates of every line of a display's figure."""
    lines = [line.get_xydata() for axes in display.figure_.axes for line in axes.get_lines()]
    plt.close("all")
    return lines


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
    found = drawn(ReliabilityDisplay.from_predictions(data.sketch, **options))
    expected = drawn(ReliabilityDisplay.from_predictions(*data.arrays, sample_weight=data.w, **options))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_other_displays(data):
    few = {"n_resamples": 99, "random_state": 0}
    for make in (
        lambda *data, **weight: CutoffDisplay.from_predictions(*data, **weight, **few),
        lambda *data, **weight: DecisionDisplay.from_predictions(*data, **weight, **few),
        RiskCoverageDisplay.from_predictions,
        lambda *data, **weight: TestDisplay.from_predictions(
            *data, test=TCal(n_resamples=99, random_state=0), **weight
        ),
    ):
        for one, other in zip(
            drawn(make(data.sketch)), drawn(make(*data.arrays, sample_weight=data.w)), strict=True
        ):
            np.testing.assert_array_equal(one, other)
    labelled = CalibrationSketch(pos_label="ill").update(np.where(data.y == 1, "ill", "well"), data.p)
    assert "ill" in ReliabilityDisplay.from_predictions(labelled).ax_.get_xlabel()
    assert "ill" in CutoffDisplay.from_predictions(labelled, **few).figure_.axes[-1].get_xlabel()
    plt.close("all")


def test_report(data):
    settings = {"n_resamples": 20, "progress": False}
    found = calibration_report(data.sketch, **settings)
    plain = calibration_report(*data.arrays, sample_weight=data.w, **settings)
    assert str(found).replace(", computed from a sketch", "") == str(plain)
    assert found.n_samples == data.y.shape[0]
    labelled = CalibrationSketch(pos_label="ill").update(np.where(data.y == 1, "ill", "well"), data.p)
    assert calibration_report(labelled, **settings).positive == "ill"
    with pytest.raises(
        ValueError, match="groups need single samples, which a CalibrationSketch does not keep"
    ):
        calibration_report(data.sketch, groups=data.y)


CALLS = {
    "metric": metrics.smooth_ece,
    "binned": metrics.expected_calibration_error,
    "canonical": lambda *data, **more: metrics.kernel_calibration_error(*data, reduction="canonical", **more),
    "canonical bins": lambda *data, **more: metrics.expected_calibration_error(
        *data, reduction="canonical", **more
    ),
    "result": metrics.cutoff_result,
    "test": CoxTest().test,
    "report": calibration_report,
    "reliability": ReliabilityDisplay.from_predictions,
    "cutoff": CutoffDisplay.from_predictions,
    "decision": DecisionDisplay.from_predictions,
    "decision curve": plot.DecisionCurveDisplay.from_predictions,
    "murphy": plot.MurphyDisplay.from_predictions,
    "score plane": plot.ScoreDecompositionDisplay.from_predictions,
    "risk coverage": RiskCoverageDisplay.from_predictions,
    "test display": lambda *data, **more: TestDisplay.from_predictions(*data, test=CoxTest(), **more),
}


def test_no_display_is_forgotten():
    known = {name for name in plot.__all__ if name.endswith("Display")}
    assert known == {
        "ComparisonDisplay",
        "CutoffDisplay",
        "DecisionCurveDisplay",
        "DecisionDisplay",
        # takes the history of a monitor, which holds sketches already
        "MonitorDisplay",
        "MurphyDisplay",
        "ReliabilityDisplay",
        "RiskCoverageDisplay",
        "ScoreDecompositionDisplay",
        "TestDisplay",
    }


def test_what_compares_rows_refuses(data):
    with pytest.raises(TypeError, match="is a CalibrationSketch, which does not keep single samples"):
        paired_test(data.sketch, data.sketch, data.sketch, metric=metrics.smooth_ece)
    with pytest.raises(TypeError, match="is a CalibrationSketch, which does not keep single samples"):
        paired_test(data.y, data.p, data.sketch, metric=metrics.smooth_ece)
    with pytest.raises(TypeError, match="is a CalibrationSketch, which does not keep single samples"):
        compare_models(data.y, {"a": data.p, "b": data.sketch}, metric=metrics.smooth_ece)
    with pytest.raises(TypeError, match="is a CalibrationSketch, which does not keep single samples"):
        ComparisonDisplay.from_predictions(data.y, {"a": data.p, "b": data.sketch})
    with pytest.raises(ValueError, match="groups need single samples"):
        ReliabilityDisplay.from_predictions(data.sketch, groups=data.y)


@pytest.mark.parametrize("name", list(CALLS))
def test_mixtures_of_sketches_and_arrays_are_refused(name, data):
    call = CALLS[name]
    with pytest.raises(TypeError, match="y_proba is missing"):
        call(data.y)
    with pytest.raises(ValueError, match="y_proba was passed together with a CalibrationSketch"):
        call(data.sketch, data.p)
    with pytest.raises(ValueError, match="sample_weight was passed together with a CalibrationSketch"):
        call(data.sketch, sample_weight=np.ones(data.y.shape[0]))
    with pytest.raises(ValueError, match="pos_label=0 was passed with a CalibrationSketch"):
        call(data.sketch, pos_label=0)
    with pytest.raises(ValueError, match="The sketch is empty"):
        call(CalibrationSketch())
    with pytest.raises(TypeError, match="y_proba is a CalibrationSketch, which does not keep single samples"):
        call(data.y, data.sketch)


def test_labels_of_columns_do_not_belong_to_a_sketch(data):
    with pytest.raises(ValueError, match="labels"):
        metrics.smooth_ece(data.sketch, labels=[0, 1])
    with pytest.raises(ValueError, match="labels"):
        CoxTest().test(data.sketch, labels=[0, 1])
