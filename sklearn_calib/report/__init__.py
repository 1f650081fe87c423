"""Calibration reports: metrics, tests, findings and figures for one set of predictions."""

from sklearn_calib.report._numbers import ReportMetric, ReportPart, ReportTest
from sklearn_calib.report._report import CalibrationReport, calibration_report
from sklearn_calib.report._requirements import (
    CalibrationRequirements,
    RequirementResult,
    RequirementsResult,
)

__all__ = [
    "CalibrationReport",
    "CalibrationRequirements",
    "ReportMetric",
    "ReportPart",
    "ReportTest",
    "RequirementResult",
    "RequirementsResult",
    "calibration_report",
]
