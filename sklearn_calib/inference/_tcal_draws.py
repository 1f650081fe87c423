"""T-Cal by Monte Carlo: statistics of redrawn samples over nested bins, p-values over several scales."""

from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._null import draw_outcomes, draw_positives, monte_carlo_pvalue
from sklearn_calib._core._null_moments import residual_sums
from sklearn_calib.inference._tcal_bins import ROUNDING, NestedBins, null_deviation
from sklearn_calib.inference._tcal_labels import LabelStatistics, cells_at_once

__all__ = ["Draws", "combine_draws", "draw_labels", "draw_pairs"]

Array = NDArray[np.float64]

#: What counts as a tie of two standardised statistics.
_TIE = 1e-8


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
    own = LabelStatistics(grouped, bins, grouped.prob)
    statistics = own if law is None else LabelStatistics(grouped, bins, law)
    draws = draw_positives(null, n_resamples, generator, cells_at_once(grouped.prob.shape[0]))
    values = np.concatenate([own(own.own), *(statistics(positives) for positives in draws)])
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
    deviation = np.maximum(np.sqrt(np.maximum(variance, 0.0)), ROUNDING * scale)
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
