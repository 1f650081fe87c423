r"""Exact bands for event probabilities that are non-decreasing in the prediction.

Let the predictions be sorted and divided into bins 1, ..., C regardless of the outcomes, equal predictions
in the same bin. If the event probability q is non-decreasing, the number of events among the samples of bins
j..k is a sum of independent trials none of which has a probability above q(b_k), b_k the largest prediction
of bin k. A sum of trials is stochastically largest if all have that probability, so the Clopper-Pearson
lower bound of the pooled frequency is a lower bound of q(b_k), hence of q(x) for all x >= b_k; likewise the
upper bound holds for all x <= a_j, the smallest prediction of bin j.

With M intervals of bins in use, each bound at level alpha / (2 M) makes the band

    lower(x) = max over intervals with b_k <= x,    upper(x) = min over intervals with a_j >= x

simultaneous at level 1 - alpha in samples of any size (Dimitriadis et al. 2023). In use are all starts, and
about log(C) lengths in geometric progression. Pointwise, at one x, only intervals that end in the last bin
below x (or begin in the first bin above it) are needed, one of each length, and the level of each bound is
alpha over twice the number of lengths. With sampling weights w, the frequency in an interval counts as one of
(sum w)^2 / sum w^2 trials (Kish 1965). The band is then asymptotic.
"""

import math

import numpy as np

from sklearn_calib._core._binning import quantile_bins
from sklearn_calib._core._grouping import GroupedOutcomes, group_starts
from sklearn_calib._core._proportion import clopper_pearson
from sklearn_calib._typing import Array
from sklearn_calib.plot._bands import ReliabilityBand

# Bins per n^(1/3): the mean width of bands is flat around 4.5, from a hundred samples to a million.
_BINS = 4.5
_MOST_BINS = 500
# Ratio of neighboring lengths of intervals.
_RATIO = 1.25


def bin_count(n: float) -> int:
    """Return the number of bins of equal mass for n samples."""
    return min(math.ceil(_BINS * n ** (1.0 / 3.0)), _MOST_BINS)


def interval_lengths(n_bins: int) -> list[int]:
    """Return the lengths in use, from 1 to all bins, in geometric progression."""
    lengths = [1]
    while lengths[-1] < n_bins:
        lengths.append(min(max(lengths[-1] + 1, math.ceil(lengths[-1] * _RATIO)), n_bins))
    return lengths


def monotone_limits(
    weight: Array, squares: Array, positives: Array, alpha: float, lengths: list[int], *, pointwise: bool
) -> tuple[Array, Array]:
    """Return lower bounds of q from the end of each bin on, and upper bounds up to the beginning of each bin.

    ``squares`` are the sums of squared weights. ``lengths`` are those of the intervals in use; with
    ``pointwise`` the level holds at each x separately.
    """
    n_bins = weight.shape[0]

    def sums(part: Array) -> Array:
        total = np.concatenate(([0.0], np.cumsum(part)))
        return np.concatenate([total[length:] - total[:-length] for length in lengths])

    samples = sums(weight)
    # effective trials of each unit of weight
    unit = samples / sums(squares)
    number = len(lengths) if pointwise else sum(n_bins - length + 1 for length in lengths)
    low, high = clopper_pearson(unit * sums(positives), unit * samples, alpha / (2.0 * number))
    lower, upper = np.zeros(n_bins), np.ones(n_bins)
    start = 0
    for length in lengths:
        part = slice(start, start + n_bins - length + 1)
        np.maximum(lower[length - 1 :], low[part], out=lower[length - 1 :])
        np.minimum(upper[: n_bins - length + 1], high[part], out=upper[: n_bins - length + 1])
        start = part.stop
    if pointwise:
        return lower, upper
    return np.maximum.accumulate(lower), np.minimum.accumulate(upper[::-1])[::-1]


def squared_weights(grouped: GroupedOutcomes) -> Array:
    """Return the sum of squared weights of each prediction; a frequency k is k samples of weight 1."""
    design = grouped.design
    return grouped.weight if design is None else design.sums(design.weight * design.count)


def monotone_band(grouped: GroupedOutcomes, confidence: float, kind: str) -> ReliabilityBand:
    """Return the band of outcomes from 0 to 1, "simultaneous" or pointwise ("confidence")."""
    squares = squared_weights(grouped)
    index = quantile_bins(grouped.weight, bin_count(grouped.total**2 / float(squares.sum())))
    starts = group_starts(index)
    ends = np.append(starts[1:], index.shape[0]) - 1
    weight, squares, positives = (
        np.add.reduceat(part, starts) for part in (grouped.weight, squares, grouped.positives)
    )
    lengths = interval_lengths(starts.shape[0])
    lower, upper = monotone_limits(
        weight, squares, positives, 1.0 - confidence, lengths, pointwise=kind == "confidence"
    )
    first, last = grouped.prob[starts], grouped.prob[ends]
    # limits before, within and after each bin; at its ends they jump
    before, after = np.append(0.0, lower[:-1]), np.append(upper[1:], 1.0)
    single = first == last
    x = np.stack((first, first, last, last), axis=1)
    low = np.stack((before, np.where(single, lower, before), np.where(single, lower, before), lower), axis=1)
    high = np.stack((upper, np.where(single, upper, after), np.where(single, upper, after), after), axis=1)
    return ReliabilityBand(
        kind,
        confidence,
        np.concatenate(([0.0], x.ravel(), [1.0])),
        np.concatenate(([0.0], low.ravel(), lower[-1:])),
        np.concatenate((upper[:1], high.ravel(), [1.0])),
    )
