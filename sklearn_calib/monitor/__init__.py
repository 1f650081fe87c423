"""Monitoring and recalibration of data streams."""

from sklearn_calib.monitor._alert import CalibrationAlert
from sklearn_calib.monitor._calibrator import StreamingCalibrator
from sklearn_calib.monitor._monitor import CalibrationMonitor

__all__ = ["CalibrationAlert", "CalibrationMonitor", "StreamingCalibrator"]
