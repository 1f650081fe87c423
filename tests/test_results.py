"""Results as data frames."""

import numpy as np
import pytest

from sklearn_calib import calibrators, inference, metrics, plot, report
from tests._optional import pandas as pd

RNG = np.random.default_rng(0)
P = RNG.random(80)
Y = (RNG.random(80) < P).astype(int)
CLASSES = RNG.dirichlet(np.ones(3), 80)
MODELS = {"a": P, "b": P**2}
TABLES = {
    "comparison": (lambda: inference.compare_models(Y, MODELS, n_resamples=39, intervals=False), "name", 2),
    "dominance": (lambda: inference.dominance_test(Y, MODELS, thresholds=[0.2, 0.5]), "difference", 2),
    "test": (lambda: inference.TCal(random_state=0).test(Y, P), "pvalue", None),
    "classes": (lambda: inference.CutoffTest().test(CLASSES.argmax(axis=1), CLASSES), "pvalue", None),
    "cutoff": (lambda: metrics.cutoff_result(Y, P), "walk", 80),
    "risk": (lambda: metrics.decision_risk_result(Y, P, thresholds=[0.2, 0.5]), "gap", 2),
    "coverage": (lambda: metrics.risk_coverage_curve(Y, P), "risk", None),
    "smooth": (lambda: metrics.smooth_ece_result(Y, P), "density", None),
    "summary": (lambda: metrics.calibration_summary(Y, P), "estimate", 20),
    "requirements": (lambda: report.CalibrationRequirements({"slope": [0.8, 1.2]}).check(Y, P), "outcome", 1),
    "one test": (lambda: inference.SpiegelhalterTest().test(Y, P), "pvalue", 1),
    "selection": (lambda: calibrators.AutoCalibrator().fit(P, Y).selection_, "log_loss", None),
    "expected": (lambda: metrics.expected_performance(P, certificate=0.01), "lower", 11),
    "curve": (lambda: plot.ReliabilityDisplay.from_predictions(Y, P).curve, "observed", None),
    "band": (lambda: plot.ReliabilityDisplay.from_predictions(Y, P).curve.band, "lower", None),
    "threshold": (lambda: plot.DecisionCurveDisplay.from_predictions(Y, P).curves[None], "value", None),
    "segments": (lambda: inference.find_segments({"x": P}, Y, P, segments=["x"]), "difference", 1),
}


@pytest.mark.parametrize("kind", TABLES)
def test_results_with_a_table_become_data_frames(kind):
    make, column, n_rows = TABLES[kind]
    frame = make().to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert column in frame
    assert frame[column].notna().all()
    assert frame.shape[0] == n_rows if n_rows else frame.shape[0] > 1


def test_a_frame_has_the_numbers_of_the_result():
    summary = metrics.calibration_summary(Y, P)
    frame = summary.to_frame().set_index("measure")
    slope = frame.loc["slope"]
    assert (slope.estimate, slope.lower, slope.upper, slope.method) == tuple(vars(summary.slope).values())
    assert frame.loc["ici", "estimate"] == summary.ici
    assert np.isnan(frame.loc["ici", "lower"])


def test_a_frame_of_a_test_is_that_of_the_samples_that_are_not_contradicted():
    result = inference.TCal(random_state=0).test(np.append(Y, 1), np.append(P, 0.0))
    pd.testing.assert_frame_equal(result.to_frame(), result.others.to_frame())
