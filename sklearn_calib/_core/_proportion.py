"""Exact limits of a probability, from a number of events."""

import numpy as np
from scipy.special import betaincinv

from sklearn_calib._typing import Array


def clopper_pearson(events: Array, trials: Array, risk: float | Array) -> tuple[Array, Array]:
    """Return the exact one-sided bounds of a probability, each with error probability at most ``risk``.

    The lower one is the root q of P(Bin(trials, q) >= events) = risk, a quantile of the beta distribution,
    which is also defined for fractional numbers.
    """
    others = trials - events
    lower = betaincinv(np.where(events > 0, events, 1.0), others + 1.0, risk)
    upper = 1.0 - betaincinv(np.where(others > 0, others, 1.0), events + 1.0, risk)
    return np.where(events > 0, lower, 0.0), np.where(others > 0, upper, 1.0)
