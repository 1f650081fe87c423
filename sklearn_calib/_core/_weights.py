"""What sample weights stand for: whole numbers can count samples, others have an effective size."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._typing import Array

# Samples that frequencies are expanded to.
_MOST_SAMPLES = 10**7
_FEW_COPIES = 8


def whole_numbers(w: Array | None) -> bool:
    """Tell whether weights are integers that count samples; None means weight 1."""
    # beyond 2**53 all floats are integers
    return w is None or bool(w.sum() <= 2.0**53 and np.array_equal(w, np.rint(w)))


def kish_size(w: NDArray[Any]) -> float:
    """Return (sum w)^2 / sum w^2, the effective number of samples with unequal weights (Kish 1965)."""
    return float(w.sum()) ** 2 / float(w @ w)


def within_classes(sample: Any) -> Array:
    """Return the weights over the mean weights of the classes: ones if they depend on the class alone."""
    if sample.class_weights is None:
        return np.ones(sample.y.shape[0])
    out: Array = sample.weights / sample.class_weights[sample.y]
    return out


def spread_within(y: NDArray[np.int64], w: Array) -> float:
    """Return the standard deviation of log weights within classes, pooled."""
    log = np.log(w)
    return float(np.std(log - (np.bincount(y, log) / np.maximum(np.bincount(y), 1))[y]))


def effective_size(w: Array) -> float:
    """Return the effective sample size of weights.

    Integer weights with a sum of at most 2**53 are frequencies and count as their sum.
    """
    return float(w.sum()) if whole_numbers(w) else kish_size(w)


def written_out(frequencies: NDArray[Any], instead: str = "a random part of the samples") -> NDArray[np.intp]:
    """Return the index of each sample, as often as its frequency says; raise if they are too many."""
    total, n = float(frequencies.sum()), frequencies.shape[0]
    # a few copies of each row are no larger than the rows
    if total > max(_MOST_SAMPLES, _FEW_COPIES * n):
        raise ValueError(
            f"{n} rows count as {total:.3g} samples, but they are repeated one by one here, at most 10**7 of "
            f"them. Pass {instead}."
        )
    return np.repeat(np.arange(frequencies.shape[0]), frequencies.astype(np.int64))
