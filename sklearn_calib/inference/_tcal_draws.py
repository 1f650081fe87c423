"""T-Cal by Monte Carlo: statistics of redrawn samples over nested bins, p-values over several scales."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sklearn_calib._core._dyadic import shared_levels
from sklearn_calib._core._grouping import GroupedOutcomes, group_starts
from sklearn_calib._core._null import draw_outcomes, draw_positives, monte_carlo_pvalue
from sklearn_calib._core._null_moments import residual_sums

__all__ = [
    "Draws",
    "LabelStatistics",
    "NestedBins",
    "combine_draws",
    "draw_labels",
    "draw_pairs",
    "null_deviation",
    "null_variance",
]

Array = NDArray[np.float64]

#: A standard deviation below this part of the expected sum of squares is all rounding error: it does not
#: divide.
_ROUNDING = 1e-6

#: What counts as a tie of two standardised statistics.
_TIE = 1e-8


@dataclass(frozen=True, eq=False)
class _Step:
    """How to sum over the bins of one level.

    ``matrix`` adds up groups, or, if ``chained``, the bins of the step before. ``inverse`` is 1/|I|, 0 for
    a bin of one row. ``members`` are the groups that take part (None for all): the others are alone in
    their bin.
    """

    matrix: csr_array
    inverse: Array
    chained: bool
    members: NDArray[np.intp] | None


@dataclass(frozen=True, eq=False)
class NestedBins:
    """Bins of several levels, each inside a bin of the next coarser one; ``steps`` go from fine to coarse.

    A level with about as many bins as groups is summed over all of them, coarser ones over its bins; finer
    ones over the groups that still share a bin. A draw therefore costs O(n) for all levels together.
    """

    steps: tuple[_Step, ...]

    @classmethod
    def dyadic(cls, grouped: GroupedOutcomes, finest: int) -> "NestedBins":
        """Return the bins of the levels 1, ..., ``finest``."""
        prob, weight = grouped.prob, grouped.weight
        n_groups = prob.shape[0]
        # two groups share a bin down to this level; the first has no left neighbour, the last no right one
        shared = shared_levels(prob, finest)
        company = np.where(weight > 1.5, finest, np.maximum(shared[:-1], shared[1:]))
        levels = np.arange(finest + 1)
        n_members = n_groups - np.searchsorted(np.sort(company), levels)
        n_bins = 1 + np.searchsorted(np.sort(shared[1:-1]), levels)
        finer_cost = np.cumsum(n_members[::-1])[::-1] - n_members
        coarser_cost = np.cumsum(n_bins) - n_bins[0]
        link = 1 + int((finer_cost + coarser_cost)[1:].argmin())
        steps: list[_Step] = []
        parts = np.arange(n_groups)
        for level in range(finest, 0, -1):
            if level > link:
                members = np.flatnonzero(company >= level)
                starts = np.flatnonzero(shared[members] < level)
                count = np.add.reduceat(weight[members], starts) if members.shape[0] else np.empty(0)
                steps.append(_Step(_adder(members, starts, n_groups), _inverse(count), False, members))
                continue
            opens = np.flatnonzero(shared[:-1] < level)
            count = np.add.reduceat(weight, opens)
            if level == link:
                steps.append(
                    _Step(_adder(np.arange(n_groups), opens, n_groups), _inverse(count), False, None)
                )
            else:
                starts = np.searchsorted(parts, opens)
                adder = _adder(np.arange(parts.shape[0]), starts, parts.shape[0])
                steps.append(_Step(adder, _inverse(count), True, None))
            parts = opens
        return cls(tuple(steps))

    @classmethod
    def single(cls, grouped: GroupedOutcomes, cell: NDArray[np.int64]) -> "NestedBins":
        """Return one level of bins; ``cell`` is the non-decreasing bin of each group."""
        starts = group_starts(cell)
        n_groups = cell.shape[0]
        inverse = _inverse(np.add.reduceat(grouped.weight, starts))
        return cls((_Step(_adder(np.arange(n_groups), starts, n_groups), inverse, False, None),))

    def sums(self, *values: Array) -> Iterator[tuple[_Step, list[Array]]]:
        """Yield each step with the sums over its bins of arrays of shape (groups, r)."""
        totals = list(values)
        for step in self.steps:
            totals = [step.matrix @ part for part in (totals if step.chained else values)]
            yield step, totals

    def statistics(self, columns: Array, n: float) -> Array:
        """Return T of every level, coarse to fine, shape (r, levels).

        T = sum over bins of (S^2 - Q) / (n |I|), eq. (6) of [TC]; ``columns``, of shape (groups, 2 r), holds
        the residual sums of r samples, and then their square sums.
        """
        r = columns.shape[1] // 2
        out = np.empty((len(self.steps), r))
        for row, (step, (total,)) in enumerate(self.sums(columns)):
            s, q = total[:, :r], total[:, r:]
            np.einsum("b,br,br->r", step.inverse, s, s, out=out[row])
            out[row] -= step.inverse @ q
        out /= n
        return out[::-1].T


def _adder(members: NDArray[np.intp], starts: NDArray[np.intp], n_columns: int) -> csr_array:
    """Return the matrix that adds up runs of ``members``, each begun at one of ``starts``."""
    ends = np.append(starts, members.shape[0])
    ones = np.ones(members.shape[0])
    return csr_array(
        (ones, members.astype(np.int32), ends.astype(np.int32)), shape=(starts.shape[0], n_columns)
    )


def _inverse(count: Array) -> Array:
    return np.where(count > 1.5, 1.0 / np.maximum(count, 1.0), 0.0)


@dataclass(frozen=True, eq=False)
class Draws:
    """Observed and redrawn statistics, one column for each scale: T, and z, T over its null deviation.

    ``deviation`` is that of the observed sample.
    """

    observed: Array
    observed_z: Array
    deviation: Array
    drawn: Array
    drawn_z: Array

    @classmethod
    def pooled(cls, values: Array) -> "Draws":
        """Return draws from the observed (first) and redrawn statistics, shape (draws + 1, scales).

        z is centred and scaled by mean and deviation of all of them, which exchangeability allows.
        """
        deviation = values.std(axis=0)
        centred = values - values.mean(axis=0)
        z = np.divide(centred, deviation, out=np.zeros_like(values), where=deviation > 0.0)
        return cls(values[0], z[0], deviation, values[1:], z[1:])

    def times(self, factor: float) -> "Draws":
        """Return the draws of the statistics times a positive factor."""
        return replace(
            self,
            observed=factor * self.observed,
            deviation=factor * self.deviation,
            drawn=factor * self.drawn,
        )

    def displaced(self, mean: float, spread: float, noise: Array) -> "Draws":
        """Return draws to which a normal variable is added, the same for all scales of a draw.

        Its variance is ``spread``, its mean ``mean``; ``noise`` holds standard normal numbers.
        """
        deviation = np.sqrt(self.deviation**2 + spread)
        drawn = self.drawn + (mean + np.sqrt(spread) * noise)[:, np.newaxis]
        return Draws(
            self.observed, (self.observed - mean) / deviation, deviation, drawn, (drawn - mean) / deviation
        )


def null_variance(grouped: GroupedOutcomes, bins: NestedBins, law: Array) -> Array:
    """Return the variance of T of every level, coarse to fine, if ``law`` are the event probabilities."""
    v = law * (1.0 - law)
    sums = bins.sums((grouped.weight * v)[:, np.newaxis], (grouped.weight * v * v)[:, np.newaxis])
    terms = [2.0 * step.inverse**2 @ (a * a - v2)[:, 0] for step, (a, v2) in sums]
    return np.maximum(np.array(terms[::-1]), 0.0) / grouped.total**2


def null_deviation(grouped: GroupedOutcomes, bins: NestedBins, variance: Array) -> Array:
    """Return the square roots of variances of T, kept above rounding."""
    v = (grouped.weight * grouped.prob * (1.0 - grouped.prob))[:, np.newaxis]
    scale = np.array([step.inverse @ total[:, 0] for step, (total,) in bins.sums(v)])[::-1]
    out: Array = np.maximum(np.sqrt(variance), _ROUNDING * scale / grouped.total)
    return out


class LabelStatistics:
    """T of every level for given numbers of positives, which share the predictions of one sample."""

    def __init__(self, grouped: GroupedOutcomes, bins: NestedBins) -> None:
        self.grouped, self.bins = grouped, bins
        self._buffer = np.empty(0)

    @property
    def own(self) -> NDArray[Any]:
        """The positives of the sample itself, of the type of its draws.

        Both go through the same arithmetic, so that equal samples tie exactly.
        """
        grouped = self.grouped
        single = grouped.weight.shape[0] == int(grouped.total)
        return (grouped.positives > 0.5 if single else grouped.positives)[:, np.newaxis]

    def __call__(self, positives: NDArray[Any], centre: Array) -> Array:
        """Return T around the probabilities ``centre``, shape (r, levels), of ``positives`` (groups, r)."""
        n_groups, r = positives.shape
        if self._buffer.shape[0] < 2 * positives.size:
            self._buffer = np.empty(2 * positives.size)
        columns = self._buffer[: 2 * positives.size].reshape(n_groups, 2 * r)
        residual, square = columns[:, :r], columns[:, r:]
        centre = centre[:, np.newaxis]
        if positives.dtype == bool:
            np.subtract(positives, centre, out=residual)
            np.multiply(residual, residual, out=square)
        else:
            weight = self.grouped.weight[:, np.newaxis]
            residual[:], square[:] = residual_sums(centre, weight, positives)
        return self.bins.statistics(columns, self.grouped.total)


def draw_labels(
    grouped: GroupedOutcomes,
    bins: NestedBins,
    variance: Array,
    n_resamples: int,
    generator: np.random.Generator,
    law: Array | None = None,
) -> Draws:
    """Redraw the outcomes; ``variance``, all positive, is the null variance of T of each level.

    They are drawn from ``law``, and T of the draws taken around it; by default these are the predictions.
    """
    null = grouped if law is None else replace(grouped, prob=law)
    deviation = null_deviation(null, bins, variance)
    statistics = LabelStatistics(grouped, bins)
    observed = statistics(statistics.own, grouped.prob)
    drawn = [statistics(positives, null.prob) for positives in draw_positives(null, n_resamples, generator)]
    values = np.concatenate((observed, *drawn))
    z = values / deviation
    return Draws(values[0], z[0], deviation, values[1:], z[1:])


def draw_pairs(
    grouped: GroupedOutcomes,
    bins: NestedBins,
    n_resamples: int,
    generator: np.random.Generator,
) -> Draws:
    """Redraw predictions and outcomes; each draw is divided by the null standard deviation of its own."""
    prob = grouped.prob[:, np.newaxis]
    own = (grouped.weight[:, np.newaxis], grouped.positives[:, np.newaxis])
    values, deviations = [], []
    for count, positives in chain([own], draw_outcomes(grouped, n_resamples, generator)):
        statistic, deviation = _moments_of_draws(prob, count, positives, bins, grouped.total)
        values.append(statistic)
        deviations.append(deviation)
    value, deviation = np.concatenate(values), np.concatenate(deviations)
    z = np.divide(value, deviation, out=np.zeros_like(value), where=deviation > 0.0)
    return Draws(value[0], z[0], deviation[0], value[1:], z[1:])


def _moments_of_draws(
    prob: Array, count: Array, positives: Array, bins: NestedBins, n: float
) -> tuple[Array, Array]:
    """Return T and its null standard deviation, kept above rounding, of draws with their own ``count``."""
    v = prob * (1.0 - prob)
    residual, square = residual_sums(prob, count, positives)
    a = count * v
    columns = (residual, square, np.ascontiguousarray(count, dtype=np.float64), a, a * v)
    # a group that is alone in its bin still pairs with its own repetitions
    alone = _bin_terms(*columns) if any(step.members is not None for step in bins.steps) else []
    everywhere = np.array([term.sum(axis=0) for term in alone])
    out = np.empty((len(bins.steps), 3, count.shape[1]))
    for row, (step, totals) in enumerate(bins.sums(*columns)):
        out[row] = [term.sum(axis=0) for term in _bin_terms(*totals)]
        if step.members is not None:
            out[row] += everywhere - [term[step.members].sum(axis=0) for term in alone]
    statistic, variance, scale = np.moveaxis(out[::-1], 1, 0)
    deviation = np.maximum(np.sqrt(np.maximum(variance, 0.0)), _ROUNDING * scale)
    return statistic.T / n, deviation.T / n


def _bin_terms(s: Array, q: Array, count: Array, a: Array, v2: Array) -> tuple[Array, Array, Array]:
    """Return what bins add to T, its variance and the expected square sum, but for n."""
    inverse = np.divide(1.0, count, out=np.zeros_like(count), where=count > 1.5)
    x = s * s
    x -= q
    x *= inverse
    w = a * a
    w -= v2
    w *= inverse
    w *= inverse
    w *= 2.0
    return x, w, a * inverse


def combine_draws(
    draws: Draws, combine: str, weights: Array | None = None
) -> tuple[float, float, Array | None, Array]:
    """Return statistic, p-value, the statistic of each draw (None if unknown), and the p-value of each scale.

    "single": the only scale; "max": the largest z; "min-p": the smallest p-value, where that of every draw is
    its rank among draws and observed sample, ties decided by the largest z at the scales that attain it;
    "bonferroni": the smallest p-value, to be multiplied by the number of scales. With ``weights``, p-values
    are divided by them before the smallest one is taken.
    """
    n_draws, n_scales = draws.drawn.shape
    slack = _TIE * (np.abs(draws.observed) + draws.deviation)
    scale_p = np.array(
        [monte_carlo_pvalue(draws.observed[k], draws.drawn[:, k], slack[k]) for k in range(n_scales)]
    )
    if combine == "single":
        return float(draws.observed[0]), float(scale_p[0]), draws.drawn[:, 0], scale_p
    if combine == "max":
        largest = float(draws.observed_z.max())
        drawn = draws.drawn_z.max(axis=1)
        return largest, monte_carlo_pvalue(largest, drawn, _TIE * (1.0 + abs(largest))), drawn, scale_p
    weight = np.ones(n_scales) if weights is None else weights
    smallest = float((scale_p / weight).min())
    if combine == "bonferroni":
        return smallest, smallest, None, scale_p
    every_p = np.empty((n_draws + 1, n_scales))
    for k in range(n_scales):
        every = np.append(draws.drawn[:, k], draws.observed[k])
        fewer = np.searchsorted(np.sort(every), every - slack[k])
        every_p[:, k] = (n_draws + 1 - fewer) / (n_draws + 1) / weight[k]
    every_z = np.vstack((draws.drawn_z, draws.observed_z))
    least = every_p.min(axis=1)
    largest_z = np.where(every_p == least[:, np.newaxis], every_z, -np.inf).max(axis=1)
    tie = _TIE * (1.0 + abs(largest_z[-1]))
    as_small = (least < least[-1]) | ((least == least[-1]) & (largest_z >= largest_z[-1] - tie))
    return smallest, float(np.mean(as_small)), least[:-1], scale_p
