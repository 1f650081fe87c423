"""Calibration in operation: watch a stream of outcomes, and follow it."""

from sklearn_calib.monitor._alert import CalibrationAlert
from sklearn_calib.monitor._calibrator import StreamingCalibrator
from sklearn_calib.monitor._monitor import CalibrationMonitor

__all__ = ["CalibrationAlert", "CalibrationMonitor", "StreamingCalibrator"]
