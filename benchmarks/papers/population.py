"""Weighted samples that represent a distribution: each point twice, weighted by its event probability."""

from typing import Any

import numpy as np

__all__ = ["midpoints", "population"]

Array = np.ndarray


def midpoints(n: int) -> Array:
    """Return the midpoints of n equal bins of [0, 1]."""
    return (np.arange(n) + 0.5) / n


def population(forecast: Any, event: Any, mass: Any = None) -> dict[str, Array]:
    """Return arguments of a metric for forecasts with the given event probabilities and masses.

    Samples of weight 0 are omitted, so that no forecast has an outcome of probability zero.
    """
    p, g = np.asarray(forecast, dtype=float), np.asarray(event, dtype=float)
    weight = np.full(p.shape, 1.0 / p.shape[0]) if mass is None else np.asarray(mass, dtype=float)
    y, q = np.repeat([1, 0], p.shape[0]), np.tile(p, 2)
    w = np.concatenate([weight * g, weight * (1.0 - g)])
    keep = w > 0.0
    return {"y_true": y[keep], "y_proba": q[keep], "sample_weight": w[keep]}
