"""Measure, test, repair and certify the calibration of predicted probabilities."""

__version__ = "0.1.0.dev0"
