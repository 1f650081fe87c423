"""Scaling-binning: the values of a parametric map, averaged in bins of equal mass."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib import _validation
from sklearn_calib._core._grouping import group_scores
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators._base import BaseCalibrator, may_be_certain
from sklearn_calib.calibrators._histogram_binning import bin_sums, check_bins, equal_mass_edges, resolve_bins
from sklearn_calib.calibrators._multiclass import (
    check_calibrator,
    event_probability,
    fit_clone,
    one_by_one,
    scores_wanted,
)
from sklearn_calib.calibrators._platt import or_platt


class ScalingBinningCalibrator(BaseCalibrator):
    r"""Scaling-binning: the values of a fitted map, averaged within bins of equal mass.

    The training samples are split at random into three parts of about equal size (Section 4 of [1]_). A map
    is fitted to the first part; its values on the second part define bins of equal weight; and the value of
    each bin is the mean of the map over the samples of the third part in the bin. The result has few distinct
    values, so that its calibration error can be estimated, unlike that of a continuous map. It needs fewer
    samples than histogram binning, because the map has a smaller variance than the outcomes.

    Parameters
    ----------
    calibrator : calibrator, classifier or None, default=None
        A binary calibrator of this package, or any classifier with ``predict_proba``, which then receives the
        scores as one column and labels 0 and 1. It is cloned. None means :class:`PlattCalibrator`.
    n_bins : int or "auto", default=15
        Number of bins. "auto": the cube root of the number of samples of the second part, rounded up.
    split : bool, default=True
        Whether to split the samples. False: all samples are used in all three steps, as in the code of the
        authors; better with few samples, but without the guarantee of [1]_.
    random_state : int, Generator, RandomState or None, default=0
        Source of the split. Not used with ``split=False``.

    Attributes
    ----------
    calibrator_ : object
        The fitted map.
    n_bins_ : int
        Number of bins; can be fewer than ``n_bins`` if the map has tied values.
    bin_edges_ : ndarray of shape (n_bins_ - 1,)
        Edges between the bins of values of the map; a value on an edge belongs to the bin above.
    bin_counts_ : ndarray of shape (n_bins_,)
        Weight of the samples of the third part in each bin.
    bin_values_ : ndarray of shape (n_bins_,)
        Value of each bin, increasing: the mean of the map over these samples or, if there are none, over
        those of the second part.
    part_sizes_ : ndarray of shape (3,)
        Weight of the samples of each part.
    %(binary_fit)s

    See Also
    --------
    HistogramBinningCalibrator : Means of the outcomes in bins of the score.
    CertifiedCalibrator : Bound of the error of any map.

    Notes
    -----
    The cost is that of the fit and two sorts. The first part consists of a third of each class, rounded up,
    so that it has samples of both; the outcomes of the other parts are not used, and their samples are
    divided evenly. Weighted samples are expanded to repeated samples first, at most 10**7.

    References
    ----------
    .. [1] Kumar, Liang, Ma (2019). Verified uncertainty calibration. NeurIPS. arXiv:1909.10155.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import ScalingBinningCalibrator
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(3000)
    >>> y = rng.random(3000) < p**2
    >>> calibrator = ScalingBinningCalibrator(n_bins=4, random_state=0).fit(p, y)
    >>> calibrator.part_sizes_, calibrator.bin_values_.round(1)
    (array([1001., 1000.,  999.]), array([0. , 0.2, 0.4, 0.8]))
    """

    _multiclass = False
    calibrator_: Any
    n_bins_: int
    bin_edges_: Array
    bin_counts_: Array
    bin_values_: Array
    part_sizes_: Array
    _scale_free = False

    def __init__(
        self, calibrator: Any = None, *, n_bins: int | str = 15, split: bool = True, random_state: Any = 0
    ) -> None:
        self.calibrator = calibrator
        self.n_bins = n_bins
        self.split = split
        self.random_state = random_state

    def _check_parameters(self) -> None:
        if self.calibrator is not None:
            check_calibrator(self.calibrator)
        check_bins(self.n_bins)
        _validation.check_flag(self.split, "split")
        _validation.check_randomness(self.random_state)

    def _score_kind(self) -> str:
        return scores_wanted(or_platt(self.calibrator))

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        if self.split:
            scores, codes = one_by_one(scores, codes, weight, "smaller weights, or split=False")
            weight = None
            fitting, binning, averaging = _divide(codes, _validation.check_generator(self.random_state))
        else:
            fitting = np.arange(scores.shape[0])
            # sorted, so that sums do not depend on the order of the samples
            binning = averaging = np.lexsort((fitting if weight is None else weight, scores))
        mass = np.ones(scores.shape[0]) if weight is None else weight
        self.part_sizes_ = np.array([float(mass[rows].sum()) for rows in (fitting, binning, averaging)])
        own = None if weight is None else weight[fitting]
        self.calibrator_ = fit_clone(or_platt(self.calibrator), scores[fitting], codes[fitting], own)
        value = self._calibrated(scores)
        distinct = group_scores(np.zeros(binning.shape[0], dtype=np.int64), value[binning], mass[binning])
        self.bin_edges_ = equal_mass_edges(distinct, resolve_bins(self.n_bins, distinct.total))
        self.n_bins_ = self.bin_edges_.shape[0] + 1
        index = self._bin_of(value)
        self.bin_counts_ = bin_sums(index[averaging], mass[averaging], self.n_bins_)
        # a bin without samples of the third part has samples of the second
        rows = np.append(averaging, binning[self.bin_counts_[index[binning]] == 0.0])
        index, mass, value = index[rows], mass[rows], value[rows]
        self.bin_values_ = bin_sums(index, mass * value, self.n_bins_) / bin_sums(index, mass, self.n_bins_)

    def _calibrated(self, scores: Array) -> Array:
        """Return the values of the fitted map."""
        value = event_probability(self.calibrator_, scores)
        return _validation.check_probabilities(value, "calibrator.predict_proba(X)")

    def _bin_of(self, value: Array) -> NDArray[np.intp]:
        return np.searchsorted(self.bin_edges_, value, side="right")

    def _may_be_certain(self) -> bool:
        return may_be_certain(self.calibrator_)

    def _export(self, build: Any) -> Any:
        return build.steps(self, self.calibrator_)

    def _map_scores(self, scores: Array) -> Array:
        mapped: Array = self.bin_values_[self._bin_of(self._calibrated(scores))]
        return mapped


def _divide(codes: Codes, generator: np.random.Generator) -> list[NDArray[np.intp]]:
    """Return the samples of the three parts: for the fit (a third of each class), the bins and the means."""
    total = codes.shape[0]
    if total < 3:
        raise ValueError(
            f"X has {total} samples, which cannot be divided into three. Pass more, or split=False."
        )
    order, fitting = generator.permutation(total), np.zeros(total, dtype=bool)
    for k, count in enumerate(np.bincount(codes).tolist()):
        fitting[np.flatnonzero(codes[order] == k)[: -(-count // 3)]] = True
    return [order[fitting], *np.array_split(order[~fitting], 2)]
