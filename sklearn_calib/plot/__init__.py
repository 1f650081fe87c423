"""Displays: pictures of calibration, with matplotlib imported only when one is drawn."""

from sklearn_calib.plot._curve import ReliabilityCurve
from sklearn_calib.plot._reliability import ReliabilityDisplay
from sklearn_calib.plot._test_display import TestDisplay

__all__ = ["ReliabilityCurve", "ReliabilityDisplay", "TestDisplay"]
