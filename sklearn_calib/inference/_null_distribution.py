"""The null distribution of a metric: its values under perfect calibration, for given predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import starmap
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib import _validation
from sklearn_calib._core._clusters import cluster_words, dependence_of
from sklearn_calib._core._grouping import weight_words, weighting
from sklearn_calib._core._null import draw_null
from sklearn_calib._docs import shared_docs
from sklearn_calib._html import number_text, text_html
from sklearn_calib._typing import Array, Weights
from sklearn_calib.inference._sample_metric import Metric, defined_values
from sklearn_calib.inference._sample_table import SampleTable, check_table, resolve_reduction
from sklearn_calib.inference._table_metrics import BoundMetric, bind_metric
from sklearn_calib.metrics._names import as_metric


@shared_docs
@dataclass(frozen=True)
class NullDistribution:
    """A metric under perfect calibration, for given predictions.

    Attributes
    ----------
    expected : float
        Its mean, the expected value of the metric.
    std : float
        Its standard deviation.
    quantile : float
        Its upper quantile: calibrated predictions exceed it with probability 1 - ``confidence``.
    confidence : float
        Level of ``quantile``.
    n_resamples : int
        Number of simulated samples.
    values : ndarray of shape (n_resamples,)
        The metric of each, in increasing order.
    %(dependence)s
    """

    expected: float
    std: float
    quantile: float
    confidence: float
    n_resamples: int
    values: Array = field(repr=False, compare=False)
    n_clusters: int | None = None
    design_effect: float | None = None
    n_effective: float | None = None
    weight_spread: float | None = None
    weights: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return (
            f"expected under calibration: {number_text(self.expected)} on average, at most "
            f"{number_text(self.quantile)} with probability {self.confidence:g} "
            f"({self.n_resamples} simulations)"
            + (f"; {weight_words(self)}" if self.weights else "")
            + (f"; clusters: {cluster_words(self)}" if self.n_clusters else "")
        )

    _repr_html_ = text_html


@shared_docs
def expected_under_calibration(
    y_true: ArrayLike | None,
    y_proba: ArrayLike,
    *,
    metric: str | Metric = "smooth_ece",
    confidence: float = 0.95,
    n_resamples: int = 999,
    random_state: int | np.random.Generator | np.random.RandomState | None = 0,
    sample_weight: ArrayLike | None = None,
    weights: Weights = "sampling",
    clusters: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Literal["classwise", "confidence", "top-label"] | None = None,
    labels: ArrayLike | None = None,
) -> NullDistribution:
    """Compute the mean and an upper quantile of a metric if the predictions were perfectly calibrated.

    Outcomes are simulated from the predictions, Y* ~ Bernoulli(p), and the metric is computed for each
    simulation. An observed calibration error below the mean is no evidence of miscalibration. Errors on
    samples of different sizes are comparable only together with their expected values.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, n_labels), or None
        Labels of two or more classes, or an indicator matrix of zeros and ones for multilabel targets. They
        are used only with ``clusters``, multilabel targets and weights that depend on the outcome; otherwise
        None has the same result.
    y_proba : array-like of shape (n,), (n, 1), (n, n_classes) or (n, n_labels)
        Predicted probabilities in [0, 1]: of the positive class (of two columns the last is used), of three
        or more classes in sorted order, or of each label.
    %(metric)s
        A simulated sample can lack one of the classes 0 and 1.
    confidence : float, default=0.95
        Level of the quantile, in (0, 1).
    n_resamples : int, default=999
        Number of simulated samples; at least 1 / (1 - ``confidence``) - 1.
    %(random_state)s
    %(inference_weight)s
        A prediction with a frequency of k has k outcomes of its own.
    clusters : array-like of shape (n,) or None, default=None
        Label of the cluster of each prediction. Outcomes of different clusters are independent, those of a
        cluster are simulated with the dependence that is estimated from ``y_true``.
    %(pos_label)s
    %(inference_reduction)s

    Returns
    -------
    NullDistribution
        Mean, standard deviation and quantile.

    Raises
    ------
    %(invalid)s

    See Also
    --------
    ConsistencyTest : The p-value of an observed metric from the same simulations.
    confidence_interval : Interval for the value in the population.

    Notes
    -----
    With N simulations the quantile is the simulated value of rank ``confidence`` (N + 1), interpolated: the
    metric of a new calibrated sample exceeds it with probability 1 - ``confidence``, including the randomness
    of the simulations.

    The classes of samples are simulated from their probabilities, and all binary problems of a reduction are
    evaluated on them. The labels of a multilabel target are simulated with the dependence between labels that
    is estimated from ``y_true``; see :func:`confidence_interval`.

    Cost: ``n_resamples`` evaluations of the metric, on the distinct predictions if weights are given. Binned,
    cutoff and smoothed errors of :mod:`sklearn_calib.metrics` and the risk gap are evaluated on many samples
    at once, which is several times faster; smoothed ones then agree with the function to 1e-6.
    Of many thousand distinct predictions, those that the bins or the smoothing hardly distinguish are pooled,
    which changes the mean by less than a thousandth of it, so that the cost does not grow with the
    number of samples.

    References
    ----------
    .. [1] J. Bröcker and L. A. Smith (2007). Increasing the reliability of reliability diagrams. Weather and
       Forecasting 22.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import expected_under_calibration
    >>> p = np.linspace(0.01, 0.99, 500)
    >>> null = expected_under_calibration(None, p, metric="cutoff_calibration_error")
    >>> 0.02 < null.expected < null.quantile < 0.06
    True
    """
    metric = as_metric(metric)
    confidence = _validation.check_fraction(confidence, "confidence")
    n_resamples = _validation.check_resamples(n_resamples, confidence)
    generator = _validation.check_generator(random_state)
    outcomes: Any = y_true
    if y_true is None:
        if clusters is not None:
            raise ValueError(
                "clusters need y_true: the dependence of outcomes within clusters is estimated from it. Pass "
                "y_true, too."
            )
        # all classes, for metrics that need them
        n, *columns = _validation.shape_of(y_proba, "y_proba")
        n_classes = max([2, *columns])
        outcomes, labels = np.resize(np.arange(n_classes), n), None
        pos_label = 1 if n_classes == 2 else pos_label
    metric, resolved = resolve_reduction(metric, reduction)
    sample = check_table(outcomes, y_proba, sample_weight, weights, clusters, pos_label, resolved, labels)
    if y_true is None:
        sample = replace(sample, class_weights=None)
    bound = bind_metric(metric, sample, resolved)
    null = null_distribution_of(bound, n_resamples, generator, confidence)
    return replace(null, **weighting(sample, null.design_effect))


def null_distribution_of(
    bound: BoundMetric, n_resamples: int, generator: np.random.Generator, confidence: float
) -> NullDistribution:
    """Return the null distribution of a metric that is bound to checked predictions."""
    sample = bound.sample
    samples: Iterator[tuple[Array, Any]] = (
        sample.simulated(sample.prob, n_resamples, generator)
        if isinstance(sample, SampleTable)
        else draw_null(sample, n_resamples, generator)
    )
    values = np.sort(defined_values(starmap(bound.values, samples)))
    return NullDistribution(
        expected=float(values.mean()),
        std=float(values.std()),
        quantile=float(np.quantile(values, confidence, method="weibull")),
        confidence=confidence,
        n_resamples=n_resamples,
        values=values,
        **dependence_of(sample.clusters, sample.sampled_probability),
    )
