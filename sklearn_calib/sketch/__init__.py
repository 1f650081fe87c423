"""Summaries of constant size that stand for any number of rows."""

from sklearn_calib.sketch._sample import WeightedSample
from sklearn_calib.sketch._sketch import CalibrationSketch

__all__ = ["CalibrationSketch", "WeightedSample"]
