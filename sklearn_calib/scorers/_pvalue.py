"""The p-value of a test of calibration as a score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from sklearn_calib._validation import as_array
from sklearn_calib.scorers._forecast import (
    Forecast,
    Reduction,
    binary_problems,
    check_reduction,
    read_forecast,
)
from sklearn_calib.scorers._routing import WeightedScorer

if TYPE_CHECKING:
    from sklearn_calib.inference import CalibrationTest


# Scores of the same model on the same data must agree.
_SEED = 0


class PValueScorer(WeightedScorer, BaseEstimator):
    """Score a fitted classifier by the p-value of a test of calibration; greater is better.

    As in :class:`CalibrationScorer`, the classes and their order are those of the fitted estimator and not
    those of the labels of the fold, so that labels may be strings and a fold may lack a class.

    .. warning::
        A p-value does not measure the quality of a model, and is not a proper score. It tests perfect
        calibration: it is large for a model that always predicts the base rate, large in small samples, and
        uniformly distributed for calibrated models. Do not select a model by it alone. Combine it with the
        log loss or the Brier score (:class:`MultiScorer`) and select by :class:`BestCalibrated`, or use it as
        a diagnostic.

    Parameters
    ----------
    test : CalibrationTest or str
        Any test of :mod:`sklearn_calib.inference`, or its name, such as "tcal". It is copied before each use.
        If the test is randomized and its ``random_state`` is None, the copy has seed 0: scores are
        reproducible, and candidates of a search are compared with the same random numbers.
    pos_label : label, default=None
        The class whose probability is tested, against all others. None means ``estimator.classes_[1]`` for
        binary and ``reduction`` for multiclass classifiers.
    response_method : str or sequence of str, default="predict_proba"
        Method of the estimator that returns probabilities; in a sequence, the first that exists is used. Use
        ``"predict"`` for a regressor of 0/1 outcomes whose prediction is a probability.
    reduction : {"classwise", "confidence", "top-label"} or None, default="classwise"
        Null hypothesis for K > 2 classes. "classwise": every class, against the rest, is calibrated; the
        score is K times the smallest p-value, at most 1 (Bonferroni), which is a valid p-value. "confidence":
        the largest probability of a sample is calibrated as the probability that its class is true.
        "top-label": this holds within the samples of every predicted class, again by Bonferroni. Both also
        apply to binary classifiers. None: canonical calibration, of the whole vector of probabilities, for
        tests that support it.

    Raises
    ------
    TypeError
        On construction, if ``test`` is not a test of calibration; when called, if the estimator has no such
        method, or a parameter of the test has the wrong type.
    ValueError
        When called, if the options contradict each other, a label is unknown to the estimator, or the test
        rejects its input: decision scores outside [0, 1], sample weights that are not whole numbers.

    Notes
    -----
    The mean of the p-values of several folds, which a search reports, is not a p-value; twice the mean is a
    valid p-value if those of the folds are valid (Rüschendorf 1982).

    Sample weights are frequencies. With metadata routing enabled they reach the scorer after
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

    def __init__(
        self,
        test: str | CalibrationTest,
        *,
        pos_label: Any = None,
        response_method: str | Sequence[str] = "predict_proba",
        reduction: Reduction = "classwise",
    ) -> None:
        self.test = _checked(test)
        self.pos_label = pos_label
        self.response_method = response_method
        self.reduction = reduction

    def __call__(
        self, estimator: Any, X: Any, y_true: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> float:
        """Score a fitted estimator.

        Parameters
        ----------
        estimator : object
            Fitted, with the method ``response_method`` and, unless it is a regressor, ``classes_``.
        X : array-like or sparse matrix with n rows
            Test data.
        y_true : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), default=None
            Frequency weights: whole numbers.

        Returns
        -------
        float
            The p-value, in [0, 1].
        """
        check_reduction(self.reduction, self.pos_label)
        if sample_weight is not None:
            sample_weight = as_array(sample_weight, "sample_weight")
        forecast = read_forecast(estimator, X, y_true, self.response_method, self.pos_label)
        if self.reduction is None:
            return self._pvalue_of_all(forecast, sample_weight)
        problems = binary_problems(forecast, self.reduction, self.pos_label, sample_weight)
        pvalues = []
        for _, y, proba, index in problems:
            weight = sample_weight if sample_weight is None or index is None else sample_weight[index]
            # the positive class is 1, even if it is missing
            result = self._copy().test(y, np.ascontiguousarray(proba), sample_weight=weight, pos_label=1)
            pvalues.append(result.pvalue)
        return min(1.0, len(pvalues) * min(pvalues))

    def _pvalue_of_all(self, forecast: Forecast, sample_weight: ArrayLike | None) -> float:
        codes, proba, classes = forecast
        n_classes = classes.shape[0]
        named = {"pos_label": 1} if n_classes == 2 else {"labels": np.arange(n_classes)}
        return self._copy().test(codes, proba, sample_weight=sample_weight, **named).pvalue

    def _copy(self) -> CalibrationTest:
        """Return a copy of the test, with a seed."""
        test: CalibrationTest = clone(_checked(self.test))
        if test.get_params(deep=False).get("random_state", _SEED) is None:
            test.set_params(random_state=_SEED)
        return test


def _checked(test: str | CalibrationTest) -> CalibrationTest:
    # tests are imported on first use
    from sklearn_calib.inference._names import as_test

    return as_test(test)
