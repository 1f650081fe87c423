"""Choice of the clipping limit of tiny probabilities in multiclass problems."""

import numpy as np

from sklearn_calib._core._links import EPS
from sklearn_calib._core._null import TIE
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators._inverse_temperature import fit_inverse_temperature
from sklearn_calib.calibrators._softmax import log_losses

# Subnormal numbers have reduced precision and are treated as zero.
_TINY = 2.0**-1022
# A higher clipping limit, which makes distinct probabilities equal, must lower the sum of the losses by more
# than this (Akaike).
_PRICE = 1.0


def fit_log_clip(proba: Array, codes: Codes, weight: Array | None) -> float:
    """Return the limit of probabilities before the logarithm, the one with the smallest temperature loss."""
    limits = _limits(proba)
    if len(limits) == 1:
        return limits[0]
    w = np.ones(proba.shape[0]) if weight is None else weight
    best, least = limits[0], np.inf
    for limit in limits:
        logs = clipped_logs(proba, limit)
        beta = fit_inverse_temperature(logs, codes, weight)
        loss = float(log_losses(beta * logs, codes) @ w) + (0.0 if limit == limits[0] else _PRICE)
        if loss < least * (1.0 - TIE):
            best, least = limit, loss
    return best


def clipped_logs(proba: Array, limit: float) -> Array:
    """Return the logarithms of probabilities clipped at the limit."""
    logs: Array = np.maximum(proba, limit)
    return np.log(logs, out=logs)


def _limits(proba: Array) -> list[float]:
    """Return the candidate limits in increasing order; the first does not make distinct values equal."""
    least = float(proba.min())
    positive = least if least >= _TINY else float(proba[proba >= _TINY].min())
    lowest = min(positive, EPS)
    limits = {lowest}
    # each logarithm is twice the previous one
    limit = EPS
    while limit > lowest:
        limits.add(limit)
        limit *= limit
    if least < _TINY:
        limits.add(positive)
    return sorted(limits)
