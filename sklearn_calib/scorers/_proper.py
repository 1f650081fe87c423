"""Log loss and Brier score of a probability matrix, for folds on which scikit-learn's are not defined.

scikit-learn's scorers of these names read the classes from the labels of the fold and fail if one is missing.
These two get column indices from ``CalibrationScorer(..., reduction=None)``, which reads the classes from the
estimator. If scikit-learn's scorers are defined, the values agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._validation import check_weights
from sklearn_calib.metrics._scores import log_losses, squared_distances

Array = NDArray[Any]


def log_loss(codes: NDArray[np.int64], proba: Array, *, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean of -log(probability of the true class).

    As in scikit-learn, probabilities are clipped at the machine epsilon of their type.
    """
    _check_rows(proba)
    return _mean(log_losses(proba, codes), sample_weight)


def brier_loss(codes: NDArray[np.int64], proba: Array, *, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean squared distance of forecast and outcome vectors; for two classes, half of it.

    With this factor the binary case is the usual (probability of the positive class - outcome)^2.
    """
    _check_rows(proba)
    distance = squared_distances(proba, codes)
    return _mean(distance / 2 if proba.shape[1] == 2 else distance, sample_weight)


def _check_rows(proba: Array) -> None:
    wrong = ~((proba >= 0) & (proba <= 1)).all(axis=1)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"The prediction of sample {row} is {proba[row].tolist()}, but probabilities must lie in [0, 1]. "
            "Use a response_method that returns probabilities."
        )


def _mean(values: Array, sample_weight: ArrayLike | None) -> float:
    weights = None if sample_weight is None else check_weights(sample_weight, values.shape[0])
    return float(np.average(values, weights=weights))
