"""Populations along a path of miscalibration, from which samples are simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtri

from sklearn_calib import _validation
from sklearn_calib._core._grouping import GroupedOutcomes, sampling_rate
from sklearn_calib._core._null import MAX_KEPT, CoupledOutcomes, draw_null, draw_outcomes, few_per_group
from sklearn_calib._typing import Array
from sklearn_calib.inference._sample_metric import SampleMetric
from sklearn_calib.inference._sample_table import Draws, SampleTable
from sklearn_calib.inference._table_metrics import MeanMetric, ProblemMetric
from sklearn_calib.metrics._smooth import smooth_result

# Simulations of the number of events, with clusters.
_SHIFT_DRAWS = 999
# Populations up to this multiple share simulated samples, of about so many bytes for each prediction.
_COUPLED = 2.0
_BYTES_KEPT = 4

# What a metric declares: miscalibration with more noise for the same value, of predictions and a direction.
LeastFavorable = Callable[[Array, Array], Array] | None


@dataclass(eq=False)
class Populations:
    """Populations from perfectly calibrated (0) through that of miscalibration ``direction`` (1) and beyond.

    Samples are simulated from the same random numbers for each of them. ``keep`` stores them in memory, for
    several metrics of the same predictions.
    """

    grouped: GroupedOutcomes
    n_resamples: int
    seed: int
    direction: Array
    keep: bool = False
    _kept: dict[float, list[tuple[NDArray[Any], NDArray[Any]]]] = field(default_factory=dict, init=False)
    _coupled: CoupledOutcomes | None = field(default=None, init=False)

    @classmethod
    def estimated(
        cls, grouped: GroupedOutcomes, n_resamples: int, rng: np.random.Generator, keep: bool = False
    ) -> Self:
        """Return populations in the direction of the estimated curve."""
        return cls(grouped, n_resamples, int(rng.integers(2**63)), _direction(grouped), keep)

    def with_direction(self, direction: Array) -> Self:
        """Return populations with another miscalibration, simulated from the same random numbers."""
        return replace(self, direction=direction, keep=False)

    @property
    def residual(self) -> Array:
        """The miscalibration of the population that equals the sample."""
        return self.grouped.positives / self.grouped.weight - self.grouped.prob

    def least_favorable(self, declared: LeastFavorable, alpha: float) -> list[Array]:
        """Return miscalibrations with more noise for the same value, for the lower end."""
        return [] if declared is None else [declared(self.grouped.prob, self.direction)]

    def truth(self, multiple: float) -> Array:
        """Return the event probabilities of the groups."""
        return np.clip(self.grouped.prob + multiple * self.direction, 0.0, 1.0)

    def shifts(self, alpha: float) -> list[Array]:
        """Return the event probabilities of populations at the ends of score intervals."""
        return shifted(self.grouped, alpha)

    def samples(self, multiple: float) -> Iterator[tuple[Array, Any]]:
        """Yield numbers of samples and of positive samples of the groups."""
        if multiple in self._kept:
            for count, positives in self._kept[multiple]:
                yield count.astype(np.float64), positives.astype(np.float64)
            return
        rng, kept, truth = np.random.default_rng(self.seed), [], self.truth(multiple)
        size = _BYTES_KEPT * self.n_resamples * self.grouped.prob.shape[0]
        if multiple <= _COUPLED and few_per_group(self.grouped) and size < MAX_KEPT:
            if self._coupled is None:
                ends = np.sort((self.truth(0.0), self.truth(_COUPLED)), axis=0)
                self._coupled = CoupledOutcomes(self.grouped, self.n_resamples, rng, *ends)
            drawn = self._coupled.draw(truth)
        else:
            grouped = self._sampled(truth) if multiple else self.grouped
            drawn = draw_outcomes(grouped, self.n_resamples, rng, truth=truth)
        for count, positives in drawn:
            if self.keep:
                # integers as those of as few bytes as the greatest number needs
                integers = self.grouped.design is None
                small = np.min_scalar_type(int(count.max())) if integers else np.dtype(np.float64)
                kept.append((count.astype(small), positives.astype(small)))
            yield count, positives
        if self.keep:
            self._kept[multiple] = kept

    def _sampled(self, truth: Array) -> GroupedOutcomes:
        """Return the sample with the numbers that are expected of each prediction under ``truth``.

        If weights depend on the outcome, the outcomes decide how often a prediction of the population is
        sampled. The weight of a prediction is its number in the population.
        """
        design = self.grouped.design
        if design is None or design.class_weights is None or design.clusters is not None:
            return self.grouped
        negative, positive = design.class_weights
        count = positive * design.positives + negative * (design.count - design.positives)
        count *= sampling_rate(truth, design.class_weights)[design.group]
        count *= design.count.sum() / count.sum()
        return replace(self.grouped, design=replace(design, count=count))


@dataclass(eq=False)
class TablePopulations:
    """As :class:`Populations`, of multiclass or multilabel targets: the curve is that of each binary problem.

    ``estimated_truth`` are the probabilities under the estimated curves.
    """

    table: SampleTable
    problems: list[ProblemMetric]
    n_resamples: int
    seed: int
    direction: Array
    estimated_truth: Array

    @classmethod
    def estimated(cls, metric: MeanMetric, n_resamples: int, rng: np.random.Generator) -> Self:
        """Return populations in the direction of the estimated curves."""
        table, direction = metric.sample, np.zeros_like(metric.sample.prob)
        for problem in metric.problems:
            direction[problem.rows, problem.column] = _direction(problem.sample)[problem.group]
        direction = table.tangent(direction)
        truth = table.probabilities(table.prob + direction)
        return cls(table, metric.problems, n_resamples, int(rng.integers(2**63)), direction, truth)

    def with_direction(self, direction: Array) -> Self:
        """Return populations with another miscalibration, simulated from the same random numbers."""
        return replace(self, direction=direction)

    @property
    def residual(self) -> Array:
        """The miscalibration of the population that equals the sample."""
        residual = np.zeros_like(self.table.prob)
        for problem in self.problems:
            rows, column = problem.rows, problem.column
            residual[rows, column] = self.table.occurred(column)[rows] - self.table.prob[rows, column]
        return residual

    def least_favorable(self, declared: LeastFavorable, alpha: float) -> list[Array]:
        """Return also the error of few problems alone: the same mean adds less to the noise of the others.

        These are the problems whose calibration is rejected, or that of the largest error.
        """
        directions = []
        if declared is not None:
            pairs = zip(self.table.prob.T, self.direction.T, strict=True)
            directions.append(np.column_stack([declared(p, direction) for p, direction in pairs]))
        if len(self.problems) > 1 and not (rejected := self._rejected(alpha)).all():
            # of each problem, on its rows
            errors = [self.direction[problem.rows, problem.column] for problem in self.problems]
            if not rejected.any():
                rejected[np.argmax([np.abs(error).sum() for error in errors])] = True
            alone = np.zeros_like(self.direction)
            for problem, error, kept in zip(self.problems, errors, rejected, strict=True):
                alone[problem.rows, problem.column] = error * kept
            directions.append(self.table.tangent(alone))
        return directions

    def _rejected(self, alpha: float) -> NDArray[np.bool_]:
        """Return the problems whose calibration is rejected at level alpha for all problems together.

        The largest standardized value of a sample decides: few simulated samples give its quantile.
        """
        samples = [[problem.values(*sample)[0] for problem in self.problems] for sample in self.samples(0.0)]
        null = np.concatenate(samples, axis=1)
        observed = np.array([each.metric.estimate + each.metric.accuracy for each in self.problems])
        center, spread = np.nanmean(null, axis=1), np.maximum(np.nanstd(null, axis=1), 1e-300)
        largest = np.fmax.reduce((null.T - center) / spread, axis=1)
        return np.asarray(
            (observed - center) / spread > np.nanquantile(largest, 1.0 - alpha, method="weibull")
        )

    def truth(self, multiple: float) -> Array:
        """Return the probabilities of the classes or labels, shape (n, columns)."""
        return self.table.probabilities(self.table.prob + multiple * self.direction)

    def shifts(self, alpha: float) -> list[Array]:
        """Return the probabilities if those of one problem are shifted."""
        shifts = []
        for problem, gap in zip(self.problems, self._gaps(), strict=True):
            for truth in shifted(problem.sample, alpha, gap):
                q = self.table.prob.copy()
                if self.table.exclusive:
                    rest = 1.0 - q[:, problem.column]
                    q *= ((1.0 - truth[problem.group]) / np.where(rest > 0.0, rest, 1.0))[:, np.newaxis]
                q[problem.rows, problem.column] = truth[problem.group]
                shifts.append(self.table.probabilities(q))
        return shifts

    def _gaps(self) -> list[Array | None]:
        """Return simulated sums of residuals of each problem, if there are weights or clusters."""
        table = self.table
        if table.clusters is None and not table.sampling:
            return [None] * len(self.problems)
        gaps: list[list[Array]] = [[] for _ in self.problems]
        for count, positives in table.simulated(table.prob, _SHIFT_DRAWS, np.random.default_rng(0)):
            for problem, sums in zip(self.problems, gaps, strict=True):
                rest = positives(problem.column) - count * table.prob[:, problem.column, np.newaxis]
                sums.append(rest[problem.rows].sum(axis=0))
        return [np.concatenate(sums) for sums in gaps]

    def samples(self, multiple: float) -> Draws:
        """Yield samples of the population."""
        estimated = self.estimated_truth if multiple else None
        rng = np.random.default_rng(self.seed)
        return self.table.simulated(self.truth(multiple), self.n_resamples, rng, estimated)

    def variation(self, metric: SampleMetric | MeanMetric, multiple: float) -> Array:
        """Return how the metric of the population varies with its predictions, which samples keep."""
        truth, rng = self.truth(multiple), np.random.default_rng((self.seed, 1))
        drawn = self.table.bootstrapped(self.n_resamples, rng)
        values = np.concatenate([metric.resampled_populations(truth, count) for count, _ in drawn])
        varied: Array = values - values.mean()
        return varied


def _direction(grouped: GroupedOutcomes) -> Array:
    """Return the smoothed miscalibration of the sample at each of its predictions."""
    result = smooth_result(_validation.BinarySample(*grouped.rows()), "auto", "probability")
    known = ~np.isnan(result.curve)
    direction: Array = np.interp(grouped.prob, result.grid[known], result.curve[known]) - grouped.prob
    if np.abs(direction).max() < 1e-6:
        # all residuals cancel exactly, so that no direction is estimated: a shift of one standard error
        direction = np.where(grouped.prob < 0.5, 1.0, -1.0) / np.sqrt(grouped.total)
    return direction


def shifted(grouped: GroupedOutcomes, alpha: float, gap: Array | None = None) -> list[Array]:
    """Return event probabilities shifted to either end of the score interval of the number of events.

    ``gap`` are simulated sums of residuals, if they do not follow from ``grouped``.
    """
    events, z, design = grouped.positives.sum(), -ndtri(alpha / 2.0), grouped.design
    deviation = np.sqrt(grouped.variance.sum())
    least = z if gap is None else 0.0
    if gap is None and grouped.clusters is not None:
        draws = draw_null(grouped, _SHIFT_DRAWS, np.random.default_rng(0))
        prob = grouped.prob[:, np.newaxis]
        gap = np.concatenate([(events - count * prob).sum(axis=0) for count, events in draws])
    if gap is not None and deviation > 0.0:
        # the quantile of the number of events, in standard deviations of that of independent ones
        z = max(least, float(np.quantile(np.abs(gap), 1.0 - alpha)) / deviation)
    # half of what one outcome adds to the sum of residuals
    jump = 0.5
    if design is not None and design.class_weights is not None:
        jump *= float(design.class_weights @ (events, grouped.total - events) / grouped.total)
    elif design is not None:
        jump *= float(design.squares.sum()) / grouped.total

    def truth(shift: float) -> Array:
        return np.clip(grouped.prob + shift, 0.0, 1.0)

    def excess(shift: float, side: float) -> float:
        q = truth(shift)
        deviation = np.sqrt(replace(grouped, prob=q).variance.sum())
        return float(side * (grouped.weight @ q - events) - jump - z * deviation)

    # without an event, or without a negative, one end is that of the shifts
    return [
        truth(side if excess(side, side) <= 0.0 else brentq(excess, -side, side, args=(side,)))
        for side in (-1.0, 1.0)
    ]
