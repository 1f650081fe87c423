"""Vectorized evaluation of a metric on many samples with the same predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from inspect import isfunction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import DISTINCT, GroupedOutcomes
from sklearn_calib._typing import Array

Evaluate = Callable[[Array, Array], Array]
Function = TypeVar("Function", bound=Callable[..., Any])

_ATTRIBUTE = "metric_kernel"
# Keywords of a metric, and the values for which a kernel (binary samples with labels 0 and 1) is valid.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "sample_weight": (),
    "pos_label": (1,),
    "reduction": ("classwise", "canonical"),
    "labels": (),
}


@dataclass(frozen=True)
class MeanLoss:
    """A metric that is the mean of a loss over the samples.

    ``of_outcomes(p)`` returns the losses of the outcomes 0 and 1, ``of_classes(p, codes)`` those of classes,
    and ``expected(p)`` the expected ones of classes if the probabilities, of shape (n, K), are right. They
    are at most ``largest``, those of outcomes at most half of it.
    """

    of_outcomes: Callable[[Array], tuple[Array, Array]]
    of_classes: Callable[[Array, NDArray[np.int64]], Array]
    expected: Callable[[Array], Array]
    largest: float

    def of_sample(self, sample: Any) -> Array:
        """Return the loss of each sample of a binary problem."""
        return np.where(sample.y == 1, *self.of_outcomes(sample.p)[::-1])

    def expected_of_sample(self, sample: Any) -> Array:
        """Return the loss that is expected of each sample if its probability is right."""
        # an infinite loss has probability 0
        of_0, of_1 = (np.where(np.isinf(loss), 0.0, loss) for loss in self.of_outcomes(sample.p))
        expected: Array = (1.0 - sample.p) * of_0 + sample.p * of_1
        return expected


@dataclass(frozen=True)
class MetricKernel:
    """Declare how a metric is evaluated on many samples with the same predictions at once.

    Null distributions, confidence intervals and consistency tests evaluate a metric on hundreds of samples
    that share their predictions. A metric that declares a kernel is evaluated on all of them by a few array
    operations; any other metric is called once per sample. Decorate the function with an instance.

    Parameters
    ----------
    make : callable or None, default=None
        ``make(prob, n_samples, **params) -> evaluate`` or None. ``prob``, of shape (groups,), holds the
        distinct predictions in increasing order, ``n_samples`` is the number of samples, and ``params`` are
        the keywords that :func:`functools.partial` has fixed. ``evaluate(count, positives)`` returns the
        metric of r samples, of shape (r,), from the counts of each prediction: ``count``, of shape
        (groups, r), or (groups, 1) if the counts are the same in all samples, and the counts of positive
        outcomes, ``positives``, of shape (groups, r). Return None for parameters without a faster way: the
        function is then called.
    calibration_error : bool, default=False
        Whether the metric is 0 in the population if the predictions are perfectly calibrated, and otherwise
        not less than 0, as a calibration error. Only then is there a bias of sampling noise to correct:
        :func:`~sklearn_calib.inference.confidence_interval` inverts tests for these metrics and uses the
        bootstrap for others, such as the AUC.
    greater_is_better : bool, default=False
        Whether greater values are better, as of the net benefit. It decides which models are the best in
        :func:`~sklearn_calib.inference.compare_models`, and the sign of a
        :class:`~sklearn_calib.scorers.CalibrationScorer`.

    Examples
    --------
    The absolute difference between event rate and mean prediction:

    >>> import numpy as np
    >>> from sklearn_calib.inference import expected_under_calibration
    >>> from sklearn_calib.metrics import MetricKernel
    >>> def make(prob, n_samples):
    ...     def evaluate(count, positives):
    ...         return abs((positives - prob[:, np.newaxis] * count).sum(axis=0)) / n_samples
    ...     return evaluate
    >>> @MetricKernel(make, calibration_error=True)
    ... def mean_bias(y_true, y_proba, sample_weight=None):
    ...     return abs(np.average(y_true, weights=sample_weight) - np.average(y_proba, weights=sample_weight))
    >>> null = expected_under_calibration(None, np.full(400, 0.5), metric=mean_bias)
    >>> 0.01 < null.expected < 0.03
    True
    """

    make: Callable[..., Evaluate | None] | None = None
    calibration_error: bool = field(default=False, kw_only=True)
    greater_is_better: bool = field(default=False, kw_only=True)
    # For metrics of this package. Largest difference between the kernel and the function:
    _accuracy: float = field(default=1e-12, kw_only=True)
    # ``bins(grouped, **params)``, a non-decreasing bin number for each distinct prediction, or None: of many
    # thousand predictions, those in a bin are replaced by their mean.
    _bins: Callable[..., NDArray[np.int64] | None] | None = field(default=None, kw_only=True)
    # Reports pool more distinct predictions than this; below ``DISTINCT`` they simulate fewer samples, too.
    _most_distinct: int = field(default=DISTINCT, kw_only=True)
    # ``at_size(n_samples, **params)``, the keywords whose automatic value depends on the number of samples.
    _at_size: Callable[..., dict[str, Any]] | None = field(default=None, kw_only=True)
    # ``least_favorable(prob, direction)``, miscalibration with more noise for the same value of the metric
    # than the estimated ``direction``: the lower end of a confidence interval allows for it, too.
    _least_favorable: Callable[[Array, Array], Array] | None = field(default=None, kw_only=True)
    # ``check(n_samples, n_distinct, **params)`` raises if these do not determine the value of the population.
    _check: Callable[..., None] | None = field(default=None, kw_only=True)
    # The range of a metric that is neither an error nor a mean loss: intervals could leave it with clusters.
    _range: tuple[float, float] = field(default=(-np.inf, np.inf), kw_only=True)
    # The loss of which the metric is the mean: its intervals are normal.
    _loss: MeanLoss | None = field(default=None, kw_only=True)

    def __call__(self, metric: Function) -> Function:
        """Attach the declaration to a metric, a function, and return the metric.

        Parameters
        ----------
        metric : callable
            ``metric(y_true, y_proba, sample_weight=None) -> float``.
        """
        if not isfunction(metric):
            raise TypeError(f"metric must be a function, got {metric!r}.")
        setattr(metric, _ATTRIBUTE, self)
        return metric


@dataclass(frozen=True)
class BoundKernel:
    """The declaration of a metric together with its fixed parameters."""

    kernel: MetricKernel
    params: dict[str, Any]

    @property
    def accuracy(self) -> float:
        """Return the largest difference between kernel and function."""
        return self.kernel._accuracy

    def evaluator(self, prob: Array, n_samples: float) -> Evaluate | None:
        """Return the function of counts and positives, or None if there is none for these parameters."""
        if self.kernel.make is None:
            return None
        return self.kernel.make(prob, n_samples, **self.params)

    def bins(self, grouped: GroupedOutcomes) -> NDArray[np.int64] | None:
        """Return the bins within which predictions may be pooled, or None."""
        return None if self.kernel._bins is None else self.kernel._bins(grouped, **self.params)


def without_partial(metric: Any) -> tuple[Any, dict[str, Any]]:
    """Return the function of a metric, bare or in a partial, and the keywords that are fixed."""
    return (metric.func, dict(metric.keywords)) if isinstance(metric, partial) else (metric, {})


def _declared(metric: Any) -> tuple[MetricKernel | None, dict[str, Any]]:
    """Return the declaration of a metric, bare or with keywords fixed by partial, and these keywords."""
    function, given = without_partial(metric)
    return None if getattr(metric, "args", ()) else getattr(function, _ATTRIBUTE, None), given


def is_metric(function: Any) -> bool:
    """Tell whether a function is declared as a metric."""
    return _declared(function)[0] is not None


def declaration(metric: Any) -> MetricKernel:
    """Return the declaration of a metric, by default that of any other function."""
    return _declared(metric)[0] or MetricKernel()


def check_estimable(metric: Any, n_samples: float, *predictions: Array) -> None:
    """Raise if predictions of a model do not determine the population value of the metric."""
    kernel, params = _declared(metric)
    if kernel is not None and kernel._check is not None:
        kernel._check(n_samples, max(np.unique(p).shape[0] for p in predictions), **params)


def bind_kernel(metric: Any, n_samples: float) -> BoundKernel | None:
    """Return the kernel of a metric for this sample size; None if no valid kernel is declared."""
    kernel, params = _declared(metric)
    if kernel is None:
        return None
    for name, neutral in _NEUTRAL.items():
        value = params.pop(name, None)
        if value is not None and not any(
            value is each or value == each for each in neutral if each is not None
        ):
            return None
    if kernel._at_size is not None:
        params |= kernel._at_size(n_samples, **params)
    return BoundKernel(kernel, params)


def of_groups(values: Callable[..., Any]) -> Callable[..., Evaluate]:
    """Return a kernel that evaluates ``values(samples, **params)`` for a list of grouped samples."""

    def make(prob: Array, n_samples: float, **params: Any) -> Evaluate:
        def evaluate(count: Array, positives: Array) -> Array:
            counts = np.broadcast_to(count, positives.shape)
            samples = []
            for weight, events in zip(counts.T, positives.T, strict=True):
                used = weight > 0
                samples.append(GroupedOutcomes(prob[used], weight[used], events[used].astype(np.float64)))
            return np.asarray(values(samples, **params))

        return evaluate

    return make


def one_by_one(value: Callable[..., float]) -> Callable[..., Evaluate]:
    """Return a kernel that evaluates ``value(grouped, **params)`` for one sample after the other."""
    return of_groups(lambda samples, **params: [value(each, **params) for each in samples])


def residuals(prob: Array, count: Array, positives: Array) -> Array:
    """Return the residual sum of each group, positives - count * prob, of shape (groups, r)."""
    expected = count * prob[:, np.newaxis]
    return np.subtract(positives, expected, out=expected if expected.shape == positives.shape else None)


def value_of_groups(evaluate: Evaluate, grouped: GroupedOutcomes) -> float:
    """Return the metric of one sample by its kernel."""
    return float(evaluate(grouped.weight[:, np.newaxis], grouped.positives[:, np.newaxis])[0])
