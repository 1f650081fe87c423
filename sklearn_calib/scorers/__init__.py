"""Metrics as scorers, by name, and a refit rule based on a proper score and calibration.

A calibration error is not a proper score: it is 0 for a constant prediction of the base rate. Select models
by ``scoring=MultiScorer(["neg_smooth_ece", "neg_log_loss"]), refit=BestCalibrated()``.
"""

from sklearn_calib.scorers._multi import MultiScorer
from sklearn_calib.scorers._names import get_scorer, get_scorer_names
from sklearn_calib.scorers._refit import BestCalibrated
from sklearn_calib.scorers._scorer import CalibrationScorer

__all__ = [
    "BestCalibrated",
    "CalibrationScorer",
    "MultiScorer",
    "get_scorer",
    "get_scorer_names",
]
