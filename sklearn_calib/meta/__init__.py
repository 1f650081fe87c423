"""Estimators around classifiers: calibration as a wrapper, and a classifier as a pipeline stage."""

from sklearn_calib.meta._classifier import CalibratedClassifier
from sklearn_calib.meta._crossfit import CrossFitScorer
from sklearn_calib.meta._pairs import CalibratedPair

__all__ = ["CalibratedClassifier", "CalibratedPair", "CrossFitScorer"]
