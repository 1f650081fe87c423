"""The value of a metric in a population."""

from collections.abc import Callable

import numpy as np


def population_value(metric: Callable[..., float], p: np.ndarray, events: np.ndarray) -> float:
    """Return the metric of predictions p that are followed by an event with probabilities ``events``.

    Each prediction occurs with both outcomes, weighted by their probabilities. As frequencies of 2^38 samples
    for each prediction, the noise for which metrics may correct is negligible.
    """
    frequencies = np.rint(np.concatenate([events, 1.0 - events]) * 2.0**38)
    return metric(np.repeat([1, 0], p.shape[0]), np.tile(p, 2), sample_weight=frequencies)
