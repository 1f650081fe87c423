"""Measures of calibration error: functions of labels and predicted probabilities."""

from sklearn_calib.metrics._binned import expected_calibration_error
from sklearn_calib.metrics._cutoff import CutoffResult, cutoff_calibration_error, cutoff_result
from sklearn_calib.metrics._decision import (
    DecisionRiskResult,
    calibration_decision_loss,
    decision_risk_gap,
    decision_risk_result,
    net_benefit,
)
from sklearn_calib.metrics._decomposition import (
    ScoreDecomposition,
    calibration_loss,
    refinement_loss,
    score_decomposition,
)
from sklearn_calib.metrics._distance_bounds import (
    CalibrationDistance,
    distance_from_calibration,
    interval_calibration_error,
    lower_distance_to_calibration,
    smooth_calibration_error,
)
from sklearn_calib.metrics._expected import ExpectedPerformance, expected_performance
from sklearn_calib.metrics._kernel import kernel_calibration_error
from sklearn_calib.metrics._logit_smoothed import logit_smoothed_ece
from sklearn_calib.metrics._metric_kernel import MetricKernel
from sklearn_calib.metrics._risk_coverage import (
    RiskCoverageCurve,
    area_under_risk_coverage,
    risk_coverage_curve,
)
from sklearn_calib.metrics._smooth import SmoothECEResult, smooth_ece, smooth_ece_result
from sklearn_calib.metrics._summary import (
    CalibrationSummary,
    IntervalEstimate,
    calibration_summary,
    integrated_calibration_index,
)
from sklearn_calib.metrics._sweep import sweep_calibration_error

__all__ = [
    "CalibrationDistance",
    "CalibrationSummary",
    "CutoffResult",
    "DecisionRiskResult",
    "ExpectedPerformance",
    "IntervalEstimate",
    "MetricKernel",
    "RiskCoverageCurve",
    "ScoreDecomposition",
    "SmoothECEResult",
    "area_under_risk_coverage",
    "calibration_decision_loss",
    "calibration_loss",
    "calibration_summary",
    "cutoff_calibration_error",
    "cutoff_result",
    "decision_risk_gap",
    "decision_risk_result",
    "distance_from_calibration",
    "expected_calibration_error",
    "expected_performance",
    "integrated_calibration_index",
    "interval_calibration_error",
    "kernel_calibration_error",
    "logit_smoothed_ece",
    "lower_distance_to_calibration",
    "net_benefit",
    "refinement_loss",
    "risk_coverage_curve",
    "score_decomposition",
    "smooth_calibration_error",
    "smooth_ece",
    "smooth_ece_result",
    "sweep_calibration_error",
]
