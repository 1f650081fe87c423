"""Calibration in operation: watch a stream of outcomes, and follow it."""

from sklearn_calib.monitor._calibrator import StreamingCalibrator

__all__ = ["StreamingCalibrator"]
