"""Calibrators: estimators that map the scores of a classifier to calibrated probabilities."""

from sklearn_calib.calibrators._base import BaseCalibrator
from sklearn_calib.calibrators._isotonic import IsotonicCalibrator
from sklearn_calib.calibrators._platt import PlattCalibrator

__all__ = [
    "BaseCalibrator",
    "IsotonicCalibrator",
    "PlattCalibrator",
]
