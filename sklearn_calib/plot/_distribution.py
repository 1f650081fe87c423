"""Where the predictions of a reliability diagram lie."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._binning import uniform_bins
from sklearn_calib._core._links import expit, logit
from sklearn_calib._validation import BinarySample

__all__ = ["FAR", "Distribution", "EdgePredictions", "distribution", "edge_predictions", "interior"]

Array = NDArray[np.float64]

#: Log-odds beyond which predictions are gathered at the ends of a logit axis: 1e-6.
FAR = 13.8

_HISTOGRAM = 50
# A rug has room for so many ticks.
_TICKS = 1000


class EdgePredictions(NamedTuple):
    """Predictions of exactly 0 or 1, which have no place on a logit axis.

    ``value`` is 0 or 1, ``weight`` their number, ``frequency`` how often the event followed.
    """

    value: float
    weight: float
    frequency: float


@dataclass(frozen=True, eq=False)
class Distribution:
    """Where the predictions lie.

    Attributes
    ----------
    edges : ndarray of shape (b + 1,)
        Edges of the bins of a histogram; equally spaced on the axis of the diagram.
    density : ndarray of shape (b,)
        Share of the weight in each bin, per unit of the axis (probability or log-odds); on the logit axis
        without predictions of exactly 0 or 1.
    events : ndarray of shape (b,)
        The part of ``density`` that is of predictions followed by the event.
    ticks : ndarray of shape (t,)
        Predictions, thinned to at most a thousand places of the axis.
    ticks_events : ndarray of shape (t,)
        Share of events among the predictions at each tick.
    """

    edges: Array = field(repr=False)
    density: Array = field(repr=False)
    events: Array = field(repr=False)
    ticks: Array = field(repr=False)
    ticks_events: Array = field(repr=False)


def distribution(sample: BinarySample, scale: str) -> Distribution:
    """Return a fine histogram of the predictions, by outcome, and a rug.

    A kernel density at the bandwidth of the curve would hide where the predictions of a bad model lie.
    """
    if scale == "logit":
        # the others are drawn at the edge
        sample = interior(sample)
    y, p, w = sample.y, sample.p, sample.w
    low, length = 0.0, 1.0
    place = p
    if scale == "logit":
        place = np.clip(logit(p), -FAR, FAR)
        low = float(place.min())
        length = max(float(place.max()) - low, 1e-6)
        place = np.clip((place - low) / length, 0.0, 1.0)
    found = uniform_bins(place, _HISTOGRAM) * 2 + y
    mass = np.bincount(found, weights=w, minlength=2 * _HISTOGRAM).astype(np.float64)
    unit = _HISTOGRAM / (float(mass.sum()) * length)
    edges = np.linspace(0.0, 1.0, _HISTOGRAM + 1)
    fine = uniform_bins(place, _TICKS)
    number = np.bincount(fine, weights=w, minlength=_TICKS).astype(np.float64)
    used = np.flatnonzero(number)
    ticks, share = (
        np.bincount(fine, weights=part if w is None else w * part, minlength=_TICKS)[used] / number[used]
        for part in (place, y)
    )
    if scale == "logit":
        edges, ticks = expit(low + length * edges), expit(low + length * ticks)
    # the mean of equal numbers can part from them by rounding
    return Distribution(
        edges, (mass[::2] + mass[1::2]) * unit, mass[1::2] * unit, ticks, np.clip(share, 0.0, 1.0)
    )


def edge_predictions(sample: BinarySample) -> tuple[EdgePredictions, ...]:
    """Return the predictions of exactly 0 and of exactly 1, if there are any."""
    found = []
    for value in (0.0, 1.0):
        rows = sample.p == value
        if rows.any():
            w = None if sample.w is None else sample.w[rows]
            total = float(rows.sum() if w is None else w.sum())
            events = float(sample.y[rows].sum() if w is None else w @ sample.y[rows])
            found.append(EdgePredictions(value, total, events / total))
    return tuple(found)


def interior(sample: BinarySample) -> BinarySample:
    """Return the rows with predictions other than 0 and 1, or all if there are no others."""
    inside = (sample.p > 0.0) & (sample.p < 1.0)
    if inside.all() or not inside.any():
        return sample
    return sample.take(inside)
