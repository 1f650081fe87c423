"""Any metric on simulated samples of a binary problem."""

import warnings
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import GroupedOutcomes, group_starts
from sklearn_calib._core._weights import effective_size, written_out
from sklearn_calib._typing import Array
from sklearn_calib.metrics._metric_kernel import (
    BoundKernel,
    Evaluate,
    bind_kernel,
    value_of_groups,
)
from sklearn_calib.metrics._summary import event_rate_limits

Metric = Callable[..., float]

# Fewer distinct predictions than this are not pooled, as they decide which random numbers are drawn.
_FEWEST_POOLED = 1 << 13
#: The same where outcomes are drawn for the rows of a table.
FEWEST_OF_ROWS = 1 << 8
# Size of a sample that represents a population: the most samples that metrics count exactly.
_POPULATION = 2.0**53
# Number of event rates between their exact limits, and of the samples of which one is the finest fraction.
_RATES, _FRACTION = 9, 1000.0


def reduced_once(metric: Metric) -> Metric:
    """Return the metric such that it evaluates binary problems as they are, not by their confidence."""
    left = signature(metric).parameters.get("reduction")
    return partial(metric, reduction="classwise") if left and left.default == "confidence" else metric


def metric_value(metric: Metric, prob: Array, count: Array, positives: Array, weighted: bool) -> float:
    """Return the metric of a sample given by counts for each distinct prediction; it may not be finite.

    ``weighted`` passes counts as ``sample_weight``; otherwise samples are repeated, so that the metric does
    not need to support weights.
    """
    if weighted:
        y, p, weight = GroupedOutcomes(prob, count, positives).rows()
        value = metric(y, p, sample_weight=weight)
    else:
        rows = written_out(
            np.stack((positives, count - positives), axis=1).ravel(), "a metric with sample_weight"
        )
        value = metric(1 - rows % 2, prob[rows // 2])
    return float(value)


class UndefinedMetricError(ValueError):
    """A metric is not defined on the sample, such as the AUC without events."""


def _finite(number: float, count: Array, positives: NDArray[Any]) -> float:
    """Return the value of a metric, or raise an error if it is not finite."""
    if not np.isfinite(number):
        raise UndefinedMetricError(
            f"metric returned {number} for {positives.sum():g} positives among {count.sum():g} outcomes. "
            "Pass a metric that is finite for every sample."
        )
    return number


def check_weights_count(metric: Metric, grouped: GroupedOutcomes) -> None:
    """Raise an error unless the metric has the same value for weights as for samples that are repeated."""
    y, p, _ = grouped.rows()
    # about 200 samples have weights from 1 to 101, so that the values are hardly ever equal by coincidence
    times = np.ones(y.shape[0], dtype=np.int64)
    chosen = times[:: 1 + y.shape[0] // 200]
    chosen += 37 * np.arange(chosen.shape[0]) % 101
    advice = "Repeat the samples instead (np.repeat), or pass a metric in which a weight of 2 is two samples."
    try:
        signature(metric).bind(y, p, sample_weight=times)
    except TypeError as error:
        raise TypeError(f"metric cannot be called with sample_weight: {error}. {advice}") from None
    with warnings.catch_warnings():
        # the metric warns when it is evaluated on the sample itself
        warnings.simplefilter("ignore")
        weighted = metric(y, p, sample_weight=times)
        repeated = metric(np.repeat(y, times), np.repeat(p, times))
    if not np.isclose(weighted, repeated, rtol=1e-4, atol=1e-6, equal_nan=True):
        raise ValueError(
            f"metric does not use sample_weight as numbers of samples: it is {weighted:.6g} for weights of 1 "
            f"to 101, and {repeated:.6g} if the samples are repeated as often. {advice}"
        )


def at_event_rates(grouped: GroupedOutcomes, rates: Array) -> tuple[Array, Array]:
    """Return weights and weights of positives, (groups, r), of the sample with other event rates.

    These are shifts of the log-odds of an event: events are weighted by one number, other samples by another.
    If no sample has an outcome, the predictions tell where it would be.
    """
    of_outcomes = []
    for observed, chance in (
        (grouped.positives, grouped.prob),
        (grouped.weight - grouped.positives, 1.0 - grouped.prob),
    ):
        found = next(each for each in (observed, grouped.weight * chance, grouped.weight) if each.any())
        of_outcomes.append(found / found.sum())
    events, others = (np.outer(*pair) for pair in zip(of_outcomes, (rates, 1.0 - rates), strict=True))
    return grouped.total * (events + others), grouped.total * events


def pooled_for_kernel(
    bound: BoundKernel, grouped: GroupedOutcomes, fewest: int = _FEWEST_POOLED
) -> GroupedOutcomes:
    """Return fewer groups, with the same null distribution of the metric to a thousandth; or the same groups.

    Predictions that share a bin of the metric's kernel are replaced by their mean. A single value can move by
    more, as it would with other Monte Carlo samples.
    """
    if grouped.prob.shape[0] < fewest:
        return grouped
    index = bound.bins(grouped)
    if index is None:
        return grouped
    starts = group_starts(index)
    return grouped if 2 * starts.shape[0] > grouped.prob.shape[0] else grouped.pooled(starts)


def defined_values(values: Iterable[Array]) -> Array:
    """Return values on simulated samples that are not NaN; raise if these are few, or infinite."""
    every = np.concatenate(list(values))
    defined = every[~np.isnan(every)]
    if 2 * defined.shape[0] < every.shape[0] or np.isinf(defined).any():
        raise ValueError(
            f"metric is NaN on {np.isnan(every).sum()} and infinite on {np.isinf(every).sum()} of "
            f"{every.shape[0]} simulated samples. Pass a metric that is finite on most of them, or more "
            "samples of both classes."
        )
    return defined


class SampleMetric:
    """A metric on samples of the same distinct predictions.

    The metric is evaluated on ``grouped`` first, so that it can check its own parameters. One without a
    kernel is called with counts as ``sample_weight`` if ``weighted``. The attribute ``sample`` has the
    predictions to simulate from: ``grouped``, or pooled if ``pool`` and these are at least ``fewest``; values
    of other samples can differ from those of the metric by ``accuracy``. Of sampling weights ``w``, automatic
    parameters are those of the effective number of samples.
    """

    def __init__(
        self,
        metric: Metric,
        grouped: GroupedOutcomes,
        *,
        weighted: bool,
        pool: bool = True,
        fewest: int = _FEWEST_POOLED,
        w: Array | None = None,
    ) -> None:
        self.metric = metric
        self.weighted = weighted
        bound = bind_kernel(metric, grouped.total if w is None else effective_size(w))
        # the weights of pooled samples have another effective number
        self._sized = metric if bound is None else partial(metric, **bound.params)
        self.sample = grouped if bound is None or not pool else pooled_for_kernel(bound, grouped, fewest)
        self._evaluate = None if bound is None else bound.evaluator(self.sample.prob, grouped.total)
        if weighted and self._evaluate is None:
            check_weights_count(metric, grouped)
        # one that has the dimension of residuals
        self.is_error = bound is not None and bound.kernel.calibration_error
        self.estimate = metric_value(self._sized, grouped.prob, grouped.weight, grouped.positives, weighted)
        # the log loss of a contradicted 0 or 1
        if bound is None or self.is_error or self.estimate != np.inf:
            _finite(self.estimate, grouped.weight, grouped.positives)
        self.accuracy = 0.0 if bound is None or self._evaluate is None else bound.accuracy

    def values(self, count: Array, positives: Any) -> Array:
        """Return the metric of r samples: counts (groups,) or (groups, r), and of positives (groups, r)."""
        count = count if count.ndim == 2 else count[:, np.newaxis]
        if self._evaluate is not None:
            # samples of clusters and of sampling weights differ in size, and the kernel is bound to one
            factor = self.sample.total / count.sum(axis=0)
            if (factor != 1.0).any():
                count, positives = count * factor, positives * factor
            return self._evaluate(count, positives)
        counts = np.broadcast_to(count, positives.shape)
        return np.array(
            [
                metric_value(self._sized, self.sample.prob, rows, events.astype(np.float64), self.weighted)
                for rows, events in zip(counts.T, positives.T, strict=True)
            ]
        )

    def _exact_rates(self, confidence: float) -> Array:
        """Return event rates between their exact limits, with the one of most uncertain outcomes."""
        low, high = event_rate_limits(self.sample, confidence)
        return np.append(np.linspace(low, high, _RATES), np.clip(0.5, low, high))

    def at_exact_rates(self, confidence: float) -> tuple[float, float]:
        """Return the least and greatest metric for event rates between their exact limits."""
        return self._range(*at_event_rates(self.sample, self._exact_rates(confidence)))

    def extremes(self, confidence: float) -> tuple[float, float]:
        """Return the same for any outcomes with these rates.

        They are in the order of the predictions, or in the reverse order.
        """
        weight, total = self.sample.weight[:, np.newaxis], self.sample.total
        events, until = total * self._exact_rates(confidence), np.cumsum(weight, axis=0)
        positives = [np.clip(events - before, 0.0, weight) for before in (until - weight, total - until)]
        low, high = zip(*(self._range(weight, each) for each in positives), strict=True)
        return min(low), max(high)

    def _range(self, count: Array, positives: Array) -> tuple[float, float]:
        """Return the least and greatest metric of samples that may be fractions, where it is defined."""
        if self._evaluate is None and not (self.weighted and (self.sample.weight % 1.0).any()):
            # whole samples, of many copies of few: some metrics depend on their number
            copies = np.ceil(_FRACTION / self.sample.total)
            others, positives = (
                np.diff(np.rint(copies * np.cumsum(each, axis=0)), axis=0, prepend=0.0)
                for each in (count - positives, positives)
            )
            count = others + positives
        # rounding errors of sums must not leave the range of the metric
        values = np.round(self.values(count, positives), 12)
        values = values[~np.isnan(values)]
        return float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))

    def resampled_populations(self, truth: Array, count: Array) -> Array:
        """Return the metric of populations in which the predictions have the counts (groups, r)."""
        # samples of sampling weights differ in size
        count = count * (self.sample.total * self._copies / count.sum(axis=0))
        positives = truth[:, np.newaxis] * count
        if self._evaluate_population is not None:
            return self._evaluate_population(count, positives)
        pairs = zip(np.rint(count).T, np.rint(positives).T, strict=True)
        return np.array([metric_value(self.metric, self.sample.prob, *pair, True) for pair in pairs])

    @property
    def least_favorable(self) -> Callable[[Array, Array], Array] | None:
        """What a metric with a kernel declares on the lower end of its intervals."""
        bound = None if self._evaluate_population is None else bind_kernel(self.metric, np.inf)
        return None if bound is None else bound.kernel._least_favorable

    def population(self, truth: Array) -> float:
        """Return the metric of a population with event probabilities ``truth``: many copies of it."""
        count = self.sample.weight * self._copies
        # whole numbers, so that metrics that correct for the sample size use a large one
        positives = np.minimum(np.rint(truth * count), count)
        if self._evaluate_population is not None:
            population = GroupedOutcomes(self.sample.prob, count, positives)
            value = value_of_groups(self._evaluate_population, population)
        else:
            value = metric_value(self.metric, self.sample.prob, count, positives, True)
        return _finite(value, count, positives)

    @property
    def _copies(self) -> float:
        """Copies of each sample in a population, a power of two."""
        return float(2.0 ** np.floor(np.log2(_POPULATION / self.sample.total)))

    @cached_property
    def _evaluate_population(self) -> Evaluate | None:
        bound = bind_kernel(self.metric, np.inf)
        total = self.sample.total * self._copies
        evaluate = None if bound is None else bound.evaluator(self.sample.prob, total)
        if evaluate is None and not self.weighted:
            check_weights_count(self.metric, self.sample)
        return evaluate
