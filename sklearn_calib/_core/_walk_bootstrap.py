"""Bootstrap of the cutoff walk: how far a sample's cutoff calibration error can lie from the population's.

Rows are drawn with replacement, and the deviation of the drawn rows from the sample stands for the deviation
of the sample from the population. Two deviations are of use. For fixed predictions it is the range of the
centred residual walk. For every monotone map of a score at once it is the largest amount by which the two can
disagree about any map and any interval. Why they bound the error stands in docs/certificates.md.
"""

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._null import draw_rows
from sklearn_calib._core._walk import walk_ranges

__all__ = ["bootstrap_margin", "largest_disagreement"]

Array = NDArray[np.float64]


def bootstrap_margin(
    grouped: GroupedOutcomes,
    confidence: float,
    n_resamples: int,
    generator: np.random.Generator,
    *,
    refitted: bool = False,
    event_rate: bool = False,
) -> float:
    """Return the bootstrap quantile of the deviation of the cutoff calibration error.

    Parameters
    ----------
    grouped : GroupedOutcomes
        Outcomes with integer weights, by prediction, or by score if ``refitted``.
    confidence : float
        Level of the quantile.
    n_resamples : int
        Number of bootstrap samples, at least 1 / (1 - ``confidence``) - 1.
    generator : Generator
        Source of the draws.
    refitted : bool
        Whether the margin is for all monotone maps of the score, for which its values do not matter, or for
        the predictions as they are.
    event_rate : bool
        Whether the margin must cover the deviation of the event rate as well; it does so if ``refitted``.

    Returns
    -------
    float
        The margin: the quantile, and 1 / n for the row at the end of an interval (2 / n if ``refitted``, one
        for each class), as a sample sees no interval that ends between its rows. O(n_resamples * n).
    """
    prob, weight, positives = grouped.prob, grouped.weight, grouped.positives
    total = grouped.total
    deviations = []
    for drawn, events in draw_rows(grouped, n_resamples, generator):
        events -= positives[:, np.newaxis]
        drawn -= weight[:, np.newaxis]
        if refitted:
            drawn -= events
            deviations.append(largest_disagreement(events, drawn))
        else:
            rate = np.abs(events.sum(axis=0)) if event_rate else 0.0
            drawn *= prob[:, np.newaxis]
            events -= drawn
            deviations.append(np.maximum(walk_ranges(events), rate))
    draws = np.concatenate(deviations) / total
    # of N draws the j-th is passed with probability j / (N + 1)
    return float(np.quantile(draws, confidence, method="weibull")) + (2.0 if refitted else 1.0) / total


def largest_disagreement(events: Array, others: Array) -> Array:
    """Return the largest ``|sum over J of (1 - h) events - h others|`` over monotone h and intervals J.

    It is linear in h, so that steps between 0 and 1 suffice. With walks W_1 and W_0 of the excesses, a rising
    step at c within J = (a, b] gives W_1(c) - W_1(a) - (W_0(b) - W_0(c)), and a falling step the same with
    both classes exchanged and the other sign.

    Parameters
    ----------
    events, others : ndarrays of shape (groups, r)
        Excess of rows with and without event, by increasing score, in r samples.

    Returns
    -------
    ndarray of shape (r,)
    """
    start = np.zeros((1, events.shape[1]))
    one, zero = (np.concatenate((start, np.cumsum(excess, axis=0))) for excess in (events, others))
    best = np.zeros(events.shape[1])
    for first, second in ((one, zero), (zero, one)):
        low, high = np.minimum.accumulate(first), np.maximum.accumulate(first)
        later_low = np.minimum.accumulate(second[::-1])[::-1]
        later_high = np.maximum.accumulate(second[::-1])[::-1]
        rising = (first - low) + (second - later_low)
        falling = (high - first) + (later_high - second)
        np.maximum(best, rising.max(axis=0), out=best)
        np.maximum(best, falling.max(axis=0), out=best)
    return best
