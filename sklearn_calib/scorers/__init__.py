"""Metrics and tests as scorers, by name, and a refit rule based on a proper score and calibration.

Each name of :func:`get_scorer_names` is also an attribute of this module, a new scorer at each access::

    from sklearn_calib.scorers import neg_smooth_ece
    cross_val_score(model, X, y, scoring=neg_smooth_ece)

A calibration error is not a proper score: it is 0 for a constant prediction of the base rate. Select models
by ``scoring=MultiScorer(["neg_smooth_ece", "neg_log_loss"]), refit=BestCalibrated()``.
"""

from copy import deepcopy

from sklearn_calib.scorers._multi import MultiScorer
from sklearn_calib.scorers._names import OWN_SCORERS, get_scorer, get_scorer_names
from sklearn_calib.scorers._pvalue import PValueScorer
from sklearn_calib.scorers._refit import BestCalibrated
from sklearn_calib.scorers._scorer import CalibrationScorer

__all__ = [
    "BestCalibrated",
    "CalibrationScorer",
    "MultiScorer",
    "PValueScorer",
    "get_scorer",
    "get_scorer_names",
]


def __getattr__(name: str) -> CalibrationScorer | PValueScorer:
    # a copy each time: set_score_request on a shared object would reach every user of the name
    if name in OWN_SCORERS:
        own: CalibrationScorer | PValueScorer = deepcopy(OWN_SCORERS[name])
        return own
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *OWN_SCORERS])
