"""Samples that are divided at random."""

import numpy as np

from sklearn_calib._typing import Array, Codes
from sklearn_calib._validation import check_frequency_weights

# More samples are not written out.
_MOST_SAMPLES = 10**8


def one_by_one(scores: Array, codes: Codes, weight: Array | None, instead: str) -> tuple[Array, Codes]:
    """Return the scores and codes of samples, repeated as often as their weights say."""
    if weight is None:
        return scores, codes
    times = check_frequency_weights(weight)
    total = int(times.sum())
    if total > _MOST_SAMPLES:
        raise ValueError(
            f"sample_weight sums to {total}, which exceeds the limit of 10**8 samples. Pass smaller "
            f"weights, or {instead}."
        )
    return np.repeat(scores, times), np.repeat(codes, times)
