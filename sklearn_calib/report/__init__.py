"""Calibration reports: everything about one set of predictions, in numbers, words and figures."""

from sklearn_calib.report._numbers import ReportMetric, ReportPart, ReportRegion, ReportTest
from sklearn_calib.report._report import CalibrationReport, calibration_report

__all__ = [
    "CalibrationReport",
    "ReportMetric",
    "ReportPart",
    "ReportRegion",
    "ReportTest",
    "calibration_report",
]
