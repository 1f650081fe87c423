"""Calibration reports: everything about one set of predictions, in words, numbers and pictures."""

from sklearn_calib.report._lines import ReportMetric, ReportPart, ReportRegion, ReportTest
from sklearn_calib.report._report import calibration_report
from sklearn_calib.report._result import CalibrationReport

__all__ = [
    "CalibrationReport",
    "ReportMetric",
    "ReportPart",
    "ReportRegion",
    "ReportTest",
    "calibration_report",
]
