"""Histogram binning: the event frequency of the bin that contains the score."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib import _validation
from sklearn_calib._core._binning import bin_starts
from sklearn_calib._core._grouping import GroupedOutcomes, group_scores
from sklearn_calib._core._maps import Step
from sklearn_calib._core._weights import whole_numbers
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators._base import BaseCalibrator
from sklearn_calib.calibrators._certificate import CutoffCertificateMixin, certify, outcomes_by_value
from sklearn_calib.metrics._cutoff import cutoff_of_groups

_STRATEGIES = ("quantile", "uniform")


class HistogramBinningCalibrator(CutoffCertificateMixin, BaseCalibrator):
    r"""Histogram binning: the map is the event frequency of the training samples in each bin.

    Parameters
    ----------
    n_bins : int or "auto", default="auto"
        Number of bins. "auto": the cube root of the number of training samples, rounded up, which is the
        order that minimizes the mean squared error for a smooth map. It is "cube_root" in scikit-learn.
    strategy : {"quantile", "uniform"}, default="quantile"
        "quantile": bins of equal weight, for any real scores. Tied scores are always in the same bin, so that
        with ties there can be fewer bins of unequal weight. "uniform": bins of equal width on [0, 1]; the
        scores must be probabilities.
    smoothing : float or None, default=0.5
        Pseudo-observations :math:`\alpha` of each class that are added to each bin, :math:`(k + \alpha) / (N
        + 2 \alpha)` for :math:`k` events of weight :math:`N`: 1 for Laplace's rule, 1/2 for Jeffreys' prior.
        None: the frequency itself, which can be 0 or 1.

    Attributes
    ----------
    n_bins_ : int
        Number of bins.
    bin_edges_ : ndarray of shape (n_bins_ - 1,)
        Edges between bins; a score on an edge belongs to the bin above. With "quantile" they are midway
        between two training scores. The outer bins are unbounded.
    bin_counts_ : ndarray of shape (n_bins_,)
        Weight of the training samples in each bin.
    bin_event_rates_ : ndarray of shape (n_bins_,)
        Frequency of ``classes_[1]`` among them; NaN for an empty bin.
    bin_values_ : ndarray of shape (n_bins_,)
        Value of the map in each bin: the frequency after smoothing.
    %(trained_fit)s

    See Also
    --------
    IsotonicCalibrator : Blocks chosen such that the map is monotone.
    ScalingBinningCalibrator : Bins of a parametric map, which need fewer samples.

    Notes
    -----
    O(n log n), for the sort of the scores.

    Only bins of equal width can be empty. Their value is interpolated linearly between the nearest bins with
    samples on both sides; outside the range of these it is constant.

    References
    ----------
    .. [1] Zadrozny, Elkan (2001). Obtaining calibrated probability estimates from decision trees and naive
       Bayesian classifiers. ICML.

    Examples
    --------
    >>> from sklearn_calib.calibrators import HistogramBinningCalibrator
    >>> scores, outcomes = [0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 0, 1, 0, 1, 1]
    >>> calibrator = HistogramBinningCalibrator(n_bins=2, smoothing=None).fit(scores, outcomes)
    >>> calibrator.bin_edges_.round(2), calibrator.bin_counts_
    (array([0.45]), array([3., 3.]))
    >>> calibrator.transform([0.0, 0.44, 0.5]).round(3)
    array([0.333, 0.333, 0.667])
    """

    _multiclass = False
    _fractions = True
    _monotone = False
    n_bins_: int
    bin_edges_: Array
    bin_counts_: Array
    bin_event_rates_: Array
    bin_values_: Array

    def __init__(
        self, *, n_bins: int | str = "auto", strategy: str = "quantile", smoothing: float | None = 0.5
    ) -> None:
        self.n_bins = n_bins
        self.strategy = strategy
        self.smoothing = smoothing

    def _check_parameters(self) -> None:
        check_bins(self.n_bins)
        _validation.check_option(self.strategy, "strategy", _STRATEGIES)
        if self.smoothing is not None:
            _validation.check_positive(self.smoothing, "smoothing")

    @property
    def _scale_free(self) -> bool:
        return self.smoothing is None

    def _score_kind(self) -> str:
        return "probability" if self.strategy == "uniform" else "score"

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        grouped = group_scores(codes, scores, weight)
        certify(self, grouped, weight)
        self.n_bins_ = resolve_bins(self.n_bins, self.training_size_)
        if self.strategy == "quantile":
            self.bin_edges_ = equal_mass_edges(grouped, self.n_bins_)
            self.n_bins_ = self.bin_edges_.shape[0] + 1
        else:
            self.bin_edges_ = np.arange(1.0, self.n_bins_) / self.n_bins_
        # scores are sorted
        starts = np.append(0, np.searchsorted(grouped.prob, self.bin_edges_))
        empty = np.diff(starts, append=grouped.prob.shape[0]) == 0
        count, events = np.zeros((2, self.n_bins_))
        count[~empty] = np.add.reduceat(grouped.weight, starts[~empty])
        events[~empty] = np.add.reduceat(grouped.positives, starts[~empty])
        self.bin_counts_ = count
        self.bin_event_rates_ = np.divide(events, count, out=np.full_like(count, np.nan), where=~empty)
        added = 0.0 if self.smoothing is None else float(self.smoothing)
        value = np.divide(events + added, count + 2.0 * added, out=np.zeros_like(count), where=~empty)
        number = np.arange(self.n_bins_)
        self.bin_values_ = np.interp(number, number[~empty], value[~empty])
        order = np.argsort(value[~empty], kind="stable")
        value, count, events = (part[~empty][order] for part in (value, count, events))
        fitted = GroupedOutcomes(value, count, events)
        self.training_cutoff_error_ = cutoff_of_groups(outcomes_by_value(fitted, value))
        if whole_numbers(weight):
            self._fitted_outcomes = value, count, events

    def _bin_of(self, scores: Array) -> NDArray[np.intp]:
        return np.searchsorted(self.bin_edges_, scores, side="right")

    def _may_be_certain(self) -> bool:
        return self.smoothing is None

    def _export(self, build: Any) -> Step:
        return Step(self.bin_edges_.copy(), self.bin_values_)

    def _map_scores(self, scores: Array) -> Array:
        mapped: Array = self.bin_values_[self._bin_of(scores)]
        return mapped


def check_bins(n_bins: Any) -> None:
    """Raise unless ``n_bins`` is "auto" or a positive integer."""
    if isinstance(n_bins, str):
        _validation.check_option(n_bins, "n_bins", ("auto",), "an integer")
    else:
        _validation.check_size(n_bins, "n_bins")


def resolve_bins(n_bins: int | str, size: float) -> int:
    """Return the number of bins for ``size`` samples."""
    if not isinstance(n_bins, str):
        return int(n_bins)
    # an effective size is rounded
    return math.ceil(round(size, 6) ** (1 / 3))


def equal_mass_edges(grouped: GroupedOutcomes, n_bins: int) -> Array:
    """Return edges, midway between neighboring scores, of at most ``n_bins`` bins of equal weight."""
    starts = bin_starts(grouped, n_bins, "quantile")[1:]
    below, above = grouped.prob[starts - 1], grouped.prob[starts]
    edge = (below + above) / 2.0
    # neighboring floats have no midpoint, and an edge belongs to the bin above it
    return np.where((edge > below) & (edge < above), edge, above)


def bin_sums(index: NDArray[np.intp], mass: Array, n_bins: int) -> Array:
    """Return the sum of ``mass`` in each bin."""
    return np.bincount(index, mass, minlength=n_bins).astype(np.float64, copy=False)
