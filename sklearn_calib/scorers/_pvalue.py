"""The p-value of a test of calibration as a score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from sklearn_calib._docs import shared_docs
from sklearn_calib._typing import Weights
from sklearn_calib.scorers._forecast import Array, Forecast, ForecastScorer, Reduction

if TYPE_CHECKING:
    from sklearn_calib.inference import CalibrationTest


@shared_docs
class PValueScorer(ForecastScorer, BaseEstimator):
    """Score a fitted classifier by the p-value of a test of calibration; greater is better.

    As in :class:`CalibrationScorer`, the classes and their order are those of the fitted estimator and not
    those of the labels of the fold, so that labels may be strings and a fold may lack a class.

    .. warning::
        A p-value does not measure the quality of a model: it is large for a model that always predicts the
        base rate, and in small samples. Do not select a model by it alone; combine it with the log loss or
        the Brier score (:class:`MultiScorer`) and select by :class:`BestCalibrated`.

    Parameters
    ----------
    test : CalibrationTest or str
        Any test of :mod:`sklearn_calib.inference`, or its name, such as "tcal"; its ``reduction`` decides
        what is tested for three or more classes or labels. It is copied before each use, so that scores are
        reproducible unless its ``random_state`` is None.
    %(scored)s
    weights : {"sampling", "frequency"}, default="sampling"
        What sample weights mean, as in the tests.

    Notes
    -----
    The mean of the p-values of several folds, which a search reports, is not a p-value; twice the mean is a
    valid p-value if those of the folds are valid (Rüschendorf 1982).

    With metadata routing enabled, sample weights reach the scorer after
    ``scorer.set_score_request(sample_weight=True)``.

    References
    ----------
    L. Rüschendorf (1982). Random variables with maximum sums. Advances in Applied Probability 14.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_calib.inference import CutoffTest
    >>> from sklearn_calib.scorers import PValueScorer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> scorer = PValueScorer(CutoffTest())
    >>> cross_val_score(GaussianNB(), X, y, scoring=scorer, cv=3).round(3)
    array([0.001, 0.001, 0.001])

    A constant prediction is calibrated, but useless:

    >>> cross_val_score(DummyClassifier(), X, y, scoring=scorer, cv=3).round(3)
    array([1.   , 1.   , 0.935])
    """

    # one class is tested with a positive label, or of two classes
    reduction: Reduction = "classwise"

    def __init__(
        self,
        test: str | CalibrationTest,
        *,
        pos_label: Any = None,
        response_method: str | Sequence[str] = "predict_proba",
        weights: Weights = "sampling",
    ) -> None:
        self.test = test
        self.pos_label = pos_label
        self.response_method = response_method
        self.weights = weights

    def _score(self, forecast: Forecast, sample_weight: Array | None) -> float:
        codes, proba, classes = forecast
        test = self._copy()
        weighted: dict[str, Any] = {"sample_weight": sample_weight, "weights": self.weights}
        if codes.ndim == 2:
            return test.test(codes, proba, **weighted).pvalue
        if self.pos_label is None and classes.shape[0] > 2:
            labels = np.arange(classes.shape[0])
            return test.test(codes, proba, labels=labels, **weighted).pvalue
        ((_, y, p, _),) = self._problems(forecast, sample_weight)
        # the positive class is 1, even if it is missing
        return test.test(y, np.ascontiguousarray(p), pos_label=1, **weighted).pvalue

    def _copy(self) -> CalibrationTest:
        """Return an unused copy of the test: a generator of random numbers would not repeat itself."""
        # tests are imported on first use
        from sklearn_calib.inference._names import as_test

        return clone(as_test(self.test))
