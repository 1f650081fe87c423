"""A scorer that turns a metric of (labels, probabilities) into scikit-learn's score(estimator, X, y)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._docs import shared_docs
from sklearn_calib.metrics._direction import check_direction
from sklearn_calib.metrics._names import as_metric
from sklearn_calib.scorers._forecast import Forecast, ForecastScorer, Reduction

Array = NDArray[Any]


@shared_docs
class CalibrationScorer(ForecastScorer):
    """Score a fitted classifier by a metric of labels and predicted probabilities.

    Unlike in a scorer of :func:`sklearn.metrics.make_scorer`, the classes and their order are those of the
    fitted estimator and not those of the labels of the fold. It is therefore correct on a fold that lacks a
    class, as happens with rare events, and for labels such as ``{1, 2}`` or strings.

    .. warning::
        A calibration error is not a proper score: it is 0 for a model that always predicts the base rate, so
        a search by a calibration error alone selects a useless model. Combine it with the log loss or the
        Brier score (:class:`MultiScorer`) and select by :class:`BestCalibrated`.

    Parameters
    ----------
    metric : str or callable
        Name of a function of :mod:`sklearn_calib.metrics` that returns a number, "brier_score", "log_loss" or
        "roc_auc", or ``metric(y, proba, **metric_params) -> float``; with sample weights ``sample_weight`` is
        passed, too. For a binary problem, and for the reductions of a multiclass problem, ``y`` (n,) holds 0
        and 1 and ``proba`` (n,) the probability of 1. With ``reduction=None`` all classes are passed at once:
        ``y`` holds column indices, and ``proba`` has shape (n, n_classes). The same holds for multiclass
        problems if the metric has a parameter ``reduction``, as the metrics of this package have; it is then
        passed, too.
    greater_is_better : bool or None, default=None
        If False, the score is the negated metric, so that greater scores are better. None means what the
        metric declares (:class:`~sklearn_calib.metrics.MetricKernel`), True for ``net_benefit`` and "roc_auc"
        and False for the other metrics of this package; for a function of scikit-learn, what its registered
        scorer says. Any other function needs True or False.
    %(scored)s
    reduction : {"classwise", "confidence", "top-label"} or None, default="classwise"
        How multiclass predictions are evaluated. "classwise": the unweighted mean over classes of the metric
        of that class against the rest. "confidence": the largest probability of each sample against whether
        its class (the first of tied ones) is the true one. "top-label": the same within the samples of each
        predicted class, the mean weighted by their frequency. Both also apply to binary classifiers. None:
        the metric is called once, with the whole matrix, even for two classes. Multilabel targets, whose
        classifier predicts a matrix or a list with an array for each label, have "classwise", the mean over
        labels, and None, with ``y`` and ``proba`` of shape (n, n_labels).
    **metric_params
        Further keyword arguments of the metric. Pass an int seed here for a randomized metric.

    Notes
    -----
    Sample weights given to ``fit`` of a search are passed to the scorer; with metadata routing enabled, after
    ``scorer.set_score_request(sample_weight=True)``. ``set_score_request(groups=True)`` passes groups to the
    prediction of the estimator; scorers of scikit-learn pass metadata to the metric only.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_calib.metrics import smooth_ece
    >>> from sklearn_calib.scorers import CalibrationScorer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> scorer = CalibrationScorer(smooth_ece, bandwidth=0.05)
    >>> scorer
    CalibrationScorer(smooth_ece, bandwidth=0.05)
    >>> cross_val_score(GaussianNB(), X, y, scoring=scorer, cv=3).round(3)
    array([-0.082, -0.049, -0.047])
    """

    def __init__(
        self,
        metric: str | Callable[..., float],
        *,
        greater_is_better: bool | None = None,
        pos_label: Any = None,
        response_method: str | Sequence[str] = "predict_proba",
        reduction: Reduction = "classwise",
        **metric_params: Any,
    ) -> None:
        self.metric = _check_metric(metric, metric_params)
        check_direction(self.metric, greater_is_better)
        self.greater_is_better = greater_is_better
        self.pos_label = pos_label
        self.response_method = response_method
        self.reduction = reduction
        self.metric_params = metric_params

    # Not inherited from BaseEstimator, whose __repr__ does not support positional and variable parameters and
    # would print the memory address of the metric; clone, searches and routing need no more than this.
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, including those of the metric.

        Parameters
        ----------
        deep : bool, default=True
            Ignored; accepted for compatibility with scikit-learn.
        """
        return {**{name: getattr(self, name) for name in _OWN}, **self.metric_params}

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the scorer or of its metric, and return the scorer.

        Parameters
        ----------
        **params
            Names and new values; names that are not parameters of the scorer are passed to the metric.
        """
        CalibrationScorer.__init__(self, **{**self.get_params(), **params})
        return self

    def __repr__(self) -> str:
        shown = [_name(self.metric)]
        for name, default in _OWN.items():
            if name != "metric" and getattr(self, name) != default:
                shown.append(f"{name}={getattr(self, name)!r}")
        shown += [f"{name}={value!r}" for name, value in self.metric_params.items()]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _accept_sample_weight(self) -> bool:
        return accepts(self.metric, "sample_weight")

    def _score(self, forecast: Forecast, sample_weight: Array | None) -> float:
        params = dict(self.metric_params)
        if sample_weight is not None:
            if not self._accept_sample_weight():
                raise TypeError(
                    f"sample_weight was given but the metric {_name(self.metric)} does not support it. Score "
                    "without weights, or use a metric with a parameter sample_weight."
                )
            params["sample_weight"] = sample_weight
        several = forecast.classes.shape[0] > 2 or forecast.codes.ndim == 2
        value, whole = 0.0, several or self.reduction != "classwise"
        if self.reduction is None:
            value = self._evaluate(forecast.codes, forecast.probabilities, params)
        elif whole and self.pos_label is None and "reduction" in signature(self.metric).parameters:
            # the metric decides how classes are averaged, for example the squares of l2 errors
            params["reduction"] = self.reduction
            value = self._evaluate(forecast.codes, forecast.probabilities, params)
        else:
            for fraction, y, proba, index in self._problems(forecast, sample_weight):
                if index is not None and sample_weight is not None:
                    params["sample_weight"] = sample_weight[index]
                value += fraction * self._evaluate(y, proba, params)
        return value if check_direction(self.metric, self.greater_is_better) else -value

    def _evaluate(self, y: NDArray[np.int64], proba: Array, params: dict[str, Any]) -> float:
        value = self.metric(y, np.ascontiguousarray(proba), **params)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise TypeError(
                f"The metric {_name(self.metric)} returned {type(value).__name__}, not a number. "
                "Use a metric that returns a float."
            ) from None


#: Parameters other than those of the metric, with their defaults.
_OWN = {
    name: parameter.default
    for name, parameter in signature(CalibrationScorer).parameters.items()
    if parameter.kind is not Parameter.VAR_KEYWORD
}


def accepts(function: Callable[..., Any], name: str) -> bool:
    """Tell whether a function has a parameter of this name, or any keyword arguments."""
    parameters = signature(function).parameters
    return name in parameters or any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())


def _check_metric(metric: Any, metric_params: dict[str, Any]) -> Callable[..., float]:
    metric = as_metric(metric)
    for name in metric_params:
        if not accepts(metric, name):
            raise TypeError(
                f"{name!r} is neither a parameter of CalibrationScorer nor of the metric {_name(metric)}. "
                "Check its spelling."
            )
    return metric


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", None) or repr(function)
