"""Displays of calibration. Matplotlib is imported only when one is drawn."""

from sklearn_calib.plot._bands import ReliabilityBand
from sklearn_calib.plot._binning import BinningDisplay
from sklearn_calib.plot._comparison import ComparisonDisplay
from sklearn_calib.plot._curve import ReliabilityCurve
from sklearn_calib.plot._cutoff import CutoffDisplay
from sklearn_calib.plot._monitor import MonitorDisplay
from sklearn_calib.plot._reliability import ReliabilityDisplay, reliability_grid
from sklearn_calib.plot._risk_coverage import RiskCoverageDisplay
from sklearn_calib.plot._score_plane import ScoreDecompositionDisplay
from sklearn_calib.plot._segments import SegmentsDisplay
from sklearn_calib.plot._test_display import TestDisplay
from sklearn_calib.plot._threshold_curves import (
    DecisionCurveDisplay,
    DecisionDisplay,
    MurphyDisplay,
    ThresholdCurve,
)

__all__ = [
    "BinningDisplay",
    "ComparisonDisplay",
    "CutoffDisplay",
    "DecisionCurveDisplay",
    "DecisionDisplay",
    "MonitorDisplay",
    "MurphyDisplay",
    "ReliabilityBand",
    "ReliabilityCurve",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
    "ScoreDecompositionDisplay",
    "SegmentsDisplay",
    "TestDisplay",
    "ThresholdCurve",
    "reliability_grid",
]
