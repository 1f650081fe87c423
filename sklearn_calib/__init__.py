"""Measure, test, repair and certify the calibration of predicted probabilities."""

from sklearn_calib._persistence import SavedVersionWarning
from sklearn_calib._version import __version__
from sklearn_calib.meta import CalibratedClassifier, CrossFitScorer
from sklearn_calib.scorers import get_scorer, get_scorer_names

__all__ = [
    "CalibratedClassifier",
    "CrossFitScorer",
    "SavedVersionWarning",
    "__version__",
    "get_scorer",
    "get_scorer_names",
]
