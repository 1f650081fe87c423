"""Estimators around classifiers: calibration as a wrapper, and a classifier as a pipeline stage."""

from ._classifier import CalibratedClassifier
from ._crossfit import CrossFitScorer
from ._pairs import CalibratedPair

__all__ = ["CalibratedClassifier", "CalibratedPair", "CrossFitScorer"]
