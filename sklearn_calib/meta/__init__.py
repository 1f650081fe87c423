"""Meta-estimators: calibrated classifiers, out-of-fold scores in a pipeline, and abstention."""

from sklearn_calib.meta._classifier import CalibratedClassifier
from sklearn_calib.meta._crossfit import CrossFitScorer
from sklearn_calib.meta._pairs import CalibratedPair
from sklearn_calib.meta._selective import SelectiveClassifier

__all__ = ["CalibratedClassifier", "CalibratedPair", "CrossFitScorer", "SelectiveClassifier"]
