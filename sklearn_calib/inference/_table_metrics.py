"""Any metric on simulated samples of multiclass or multilabel targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sklearn_calib import _validation
from sklearn_calib._core._grouping import group_outcomes, group_sample
from sklearn_calib._core._weights import written_out
from sklearn_calib._typing import Array
from sklearn_calib.inference._sample_metric import (
    FEWEST_OF_ROWS,
    Metric,
    SampleMetric,
    UndefinedMetricError,
)
from sklearn_calib.inference._sample_table import SampleTable
from sklearn_calib.metrics._metric_kernel import check_estimable, declaration


class ProblemMetric:
    """A metric on one binary problem of a table.

    It has the metric of samples of the ``group`` of each row, its distinct prediction.
    """

    def __init__(
        self, metric: Metric, table: SampleTable, column: int, rows: NDArray[np.intp], pool: bool
    ) -> None:
        self.column, self.rows = column, rows
        y, p = table.occurred(column)[rows], table.prob[rows, column]
        w = table.weights[rows] if table.sampling else None
        grouped = group_outcomes(y, p, w)
        self.metric = SampleMetric(
            metric, grouped, weighted=table.sampling, pool=pool, fewest=FEWEST_OF_ROWS, w=w
        )
        self.sample = self.metric.sample
        # runs of distinct predictions that were pooled
        run = np.searchsorted(np.cumsum(self.sample.weight), np.cumsum(grouped.weight) - 0.5 * grouped.weight)
        self.group = run[np.searchsorted(grouped.prob, p)]
        one, self._weights = np.ones(rows.shape[0]), table.weights
        self._sums = csr_array((one, (self.group, rows)), (self.sample.prob.shape[0], table.y.shape[0]))
        if table.clusters is not None:
            order = np.argsort(self.group, kind="stable")
            clusters = replace(
                table.clusters,
                group=self.group[order],
                code=table.clusters.code[rows][order],
                count=one,
                positives=y[order].astype(np.float64),
            )
            self.sample = replace(self.sample, clusters=clusters)

    def values(self, count: Array, positives: Callable[[int], Array]) -> tuple[Array, Array]:
        """Return the metric of r samples, and the numbers of samples of the problem."""
        count, total = self._grouped(count)
        return self.metric.values(count, self._sums @ positives(self.column)), total

    def population(self, truth: Array) -> tuple[float, float]:
        """Return the metric of a population, and the number of samples."""
        return self.metric.population(self._truth(truth)), self.sample.total

    def resampled_populations(self, truth: Array, count: Array) -> tuple[Array, Array]:
        """Return the metric of populations in which the rows have the counts (n, r), and their numbers."""
        count, total = self._grouped(count)
        return self.metric.resampled_populations(self._truth(truth), count), total

    def _grouped(self, count: Array) -> tuple[Array, Array]:
        """Return numbers of samples of each distinct prediction, and their sums."""
        count = self._sums @ count
        total = count.sum(axis=0)
        # no row belongs to the problem: its metric has weight 0, but needs a sample that it can evaluate
        count[:, total == 0.0] = self.sample.weight[:, np.newaxis]
        return count, total

    def _truth(self, truth: Array) -> Array:
        """Return the event probabilities of the distinct predictions."""
        return np.asarray(self._sums @ (self._weights * truth[:, self.column]) / self.sample.weight)


class MeanMetric:
    """The mean of a metric over the binary problems of a table, weighted by their numbers of samples.

    As :class:`SampleMetric`, for counts of the rows of the table, and a function that returns those of
    positives in a column.
    """

    def __init__(self, metric: Metric, table: SampleTable, *, pool: bool = True) -> None:
        self.sample = table
        self.problems = [ProblemMetric(metric, table, *problem, pool) for problem in table.problems()]
        self.estimate = _mean([(each.metric.estimate, each.sample.total) for each in self.problems])
        self.accuracy = max(each.metric.accuracy for each in self.problems)

    def values(self, count: Array, positives: Callable[[int], Array]) -> Array:
        """Return the metric of r samples."""
        return np.asarray(_mean([each.values(count, positives) for each in self.problems]))

    def population(self, truth: Array) -> float:
        """Return the metric of a population with probabilities ``truth``, shape (n, columns)."""
        return float(_mean([each.population(truth) for each in self.problems]))

    def resampled_populations(self, truth: Array, count: Array) -> Array:
        """Return the metric of populations in which the rows have the counts (n, r)."""
        return np.asarray(_mean([each.resampled_populations(truth, count) for each in self.problems]))

    @property
    def least_favorable(self) -> Callable[[Array, Array], Array] | None:
        """What a metric with a kernel declares on the lower end of its intervals, for each problem."""
        return self.problems[0].metric.least_favorable


def _mean(values: Any) -> Any:
    """Return the weighted mean of pairs of a value and a weight."""
    return sum(value * weight for value, weight in values) / sum(weight for _, weight in values)


class JointMetric:
    """A metric of the probabilities of all classes of a table, such as the log loss."""

    def __init__(self, metric: Metric, table: SampleTable) -> None:
        self.sample, self.metric = table, metric
        self.estimate = self._value(table.y, table.weights)
        if not np.isfinite(self.estimate) and not (declaration(metric).make and self.estimate == np.inf):
            raise UndefinedMetricError(
                f"metric returned {self.estimate}. Pass a metric that is finite for every sample."
            )

    def values(self, count: Array, positives: Callable[[int], Array]) -> Array:
        """Return the metric of r samples, one after the other."""
        occurred = np.stack([positives(k) > 0.0 for k in range(self.sample.prob.shape[1])], axis=2)
        outcomes = occurred.argmax(axis=2) if self.sample.exclusive else occurred.astype(np.int64)
        counts = np.broadcast_to(count, outcomes.shape[:2])
        pairs = zip(outcomes.swapaxes(0, 1), counts.T, strict=True)
        return np.array([self._value(y, each) for y, each in pairs])

    def _value(self, y: NDArray[Any], count: Array) -> float:
        if self.sample.sampling:
            return float(self.metric(y, self.sample.prob, sample_weight=count))
        rows = written_out(count)
        return float(self.metric(y[rows], self.sample.prob[rows]))


BoundMetric = SampleMetric | MeanMetric | JointMetric


def bind_metric(
    metric: Metric,
    sample: _validation.BinarySample | SampleTable,
    reduction: str | None,
    *,
    pool: bool = True,
    population: bool = False,
) -> BoundMetric:
    """Return the metric of checked samples, which must determine that of their ``population``."""
    if isinstance(sample, _validation.BinarySample):
        grouped = group_sample(sample)
        if population:
            check_estimable(metric, grouped.total, grouped.prob)
        weights = sample.sampling_weights
        return SampleMetric(metric, grouped, weighted=sample.w is not None, pool=pool, w=weights)
    if reduction is None:
        return JointMetric(metric, sample)
    if population:
        for column, rows in sample.problems():
            check_estimable(metric, rows.shape[0], sample.prob[rows, column])
    return MeanMetric(metric, sample, pool=pool)
