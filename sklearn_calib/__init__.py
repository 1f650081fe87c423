"""Measure, test, repair and certify the calibration of predicted probabilities."""

from sklearn_calib.meta import CalibratedClassifier, CrossFitScorer
from sklearn_calib.scorers import get_scorer, get_scorer_names

__version__ = "0.1.0.dev0"

__all__ = ["CalibratedClassifier", "CrossFitScorer", "__version__", "get_scorer", "get_scorer_names"]
