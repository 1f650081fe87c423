"""Scorers given by name."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import get_scorer as _sklearn_get_scorer
from sklearn.metrics import get_scorer_names as _sklearn_get_scorer_names

from sklearn_calib import _validation
from sklearn_calib._compat import register_scorers
from sklearn_calib._typing import Array
from sklearn_calib.metrics import (
    area_under_risk_coverage,
    decision_risk_gap,
    expected_calibration_error,
    net_benefit,
)
from sklearn_calib.metrics._metric_kernel import declaration
from sklearn_calib.metrics._names import known_metrics
from sklearn_calib.metrics._scores import log_losses, squared_distances
from sklearn_calib.scorers._pvalue import PValueScorer
from sklearn_calib.scorers._scorer import CalibrationScorer


def _log_loss(codes: NDArray[np.int64], proba: Array, *, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean of -log(probability of the true class), clipped as in scikit-learn."""
    return _mean(partial(log_losses, clip=True), codes, proba, sample_weight)


def _brier_score(codes: NDArray[np.int64], proba: Array, *, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean squared distance of forecast and outcome vectors; for two classes, half of it."""
    mean = _mean(squared_distances, codes, proba, sample_weight)
    return mean / 2.0 if proba.shape[1] == 2 or codes.ndim == 2 else mean


def _mean(
    losses: Callable[[Array, NDArray[np.int64]], Array],
    codes: NDArray[np.int64],
    proba: Array,
    sample_weight: ArrayLike | None,
) -> float:
    """Return the mean loss of a matrix of probabilities, defined also on a fold that lacks a class.

    Of multilabel targets it is the mean over the labels, which are problems of two classes.
    """
    if codes.ndim == 2:
        pairs = zip(codes.T, proba.T, strict=True)
        return float(
            np.mean([_mean(losses, y, np.column_stack([1 - p, p]), sample_weight) for y, p in pairs])
        )
    wrong = ~((proba >= 0) & (proba <= 1)).all(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"The prediction of sample {row} is {proba[row].tolist()}, but probabilities must lie in [0, 1]. "
            "Use a response_method that returns probabilities."
        )
    weights = None if sample_weight is None else _validation.check_weights(sample_weight, codes.shape[0])
    return float(np.average(losses(proba, codes), weights=weights))


#: Metrics of which smaller values are better, negated, and some of them with other parameters.
CALIBRATION_SCORERS = {
    f"neg_{name}": CalibrationScorer(metric)
    for name, metric in known_metrics().items()
    if not declaration(metric).greater_is_better
} | {
    "neg_area_under_risk_coverage": CalibrationScorer(area_under_risk_coverage, reduction="confidence"),
    "neg_maximum_calibration_error": CalibrationScorer(expected_calibration_error, norm="max"),
    "neg_maximum_decision_risk_gap": CalibrationScorer(decision_risk_gap, threshold="max"),
    "neg_quantile_calibration_error": CalibrationScorer(expected_calibration_error, strategy="quantile"),
}
#: p-values of tests of calibration.
PVALUE_SCORERS = {
    f"pvalue_{test}": PValueScorer(test)
    for test in ("cox", "cutoff", "hosmer_lemeshow", "spiegelhalter", "tcal")
}

#: Proper scores that are also defined on a fold without one of the classes. Their names are scikit-learn's.
_PROPER_SCORERS = {
    "neg_brier_score": CalibrationScorer(_brier_score, greater_is_better=False, reduction=None),
    "neg_log_loss": CalibrationScorer(_log_loss, greater_is_better=False, reduction=None),
}

#: Net benefit at threshold 0.5; ``set_params(threshold=...)`` changes it.
_BENEFIT_SCORERS = {"net_benefit": CalibrationScorer(net_benefit)}

#: All names of this package.
OWN_SCORERS: dict[str, Any] = {
    **CALIBRATION_SCORERS,
    **_BENEFIT_SCORERS,
    **PVALUE_SCORERS,
    **_PROPER_SCORERS,
}

register_scorers({**CALIBRATION_SCORERS, **_BENEFIT_SCORERS, **PVALUE_SCORERS})


def get_scorer(scoring: str | Callable[..., Any]) -> Callable[..., Any]:
    """Return a scorer by name.

    Parameters
    ----------
    scoring : str or callable
        A name of :func:`get_scorer_names`, any name accepted by :func:`sklearn.metrics.get_scorer`, or a
        scorer, which is returned unchanged.

    Returns
    -------
    callable
        ``scorer(estimator, X, y, sample_weight=None) -> float``, greater is better. For a name it is a new
        object, which can be changed, for example by ``set_score_request``, without side effects.

    Notes
    -----
    Calibration errors are not proper scores: they are 0 for a constant prediction of the base rate. Do not
    select a model by one of them alone, see :class:`BestCalibrated`, or by a p-value. "neg_log_loss" and
    "neg_brier_score" equal scikit-learn's, and are also defined on a fold that lacks a class.

    Importing this package registers the names of its calibration errors and p-values in scikit-learn, so
    that ``scoring="neg_smooth_ece"`` works wherever a name does. A worker process that has not imported this
    package does not have them: there, pass a scorer object.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_calib.scorers import get_scorer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> scorer = get_scorer("neg_expected_calibration_error")
    >>> scorer
    CalibrationScorer(expected_calibration_error)
    >>> round(scorer(GaussianNB().fit(X, y), X, y), 3)
    -0.056
    """
    if isinstance(scoring, str):
        if scoring in OWN_SCORERS:
            own: CalibrationScorer | PValueScorer = deepcopy(OWN_SCORERS[scoring])
            return own
        if scoring in _sklearn_get_scorer_names():
            found: Callable[..., Any] = _sklearn_get_scorer(scoring)
            return found
        raise ValueError(
            f"There is no scorer named {scoring!r}. Those of this package are {get_scorer_names()}; "
            "sklearn.metrics.get_scorer_names() lists scikit-learn's."
        )
    if callable(scoring):
        return scoring
    raise TypeError(f"scoring must be a name or a callable, got {scoring!r}.")


def get_scorer_names() -> list[str]:
    """Return the names of the scorers of this package.

    Most are calibration errors or p-values, hence not proper scores: select models by
    :class:`BestCalibrated`, not by one of them alone.

    Returns
    -------
    list of str
        Sorted names.

    Notes
    -----
    ``neg_`` with the name of a metric is its negative. "neg_maximum_calibration_error" and
    "neg_quantile_calibration_error" are those of the binned error with ``norm="max"`` and
    ``strategy="quantile"``, "neg_maximum_decision_risk_gap" that of the gap with ``threshold="max"``.
    ``pvalue_`` with the name of a test is its p-value. "net_benefit" has the threshold 0.5.

    Examples
    --------
    >>> from sklearn_calib.scorers import get_scorer_names
    >>> "neg_smooth_ece" in get_scorer_names()
    True
    """
    return sorted(OWN_SCORERS)
