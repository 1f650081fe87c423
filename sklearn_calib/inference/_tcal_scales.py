"""The scales of a T-Cal test, their moments and their draws, for two classes and for several."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._alcoves import SharedCells
from sklearn_calib._core._binning import uniform_bins
from sklearn_calib._core._class_moments import class_moments
from sklearn_calib._core._dyadic import MAX_LEVEL, dyadic_moments
from sklearn_calib._core._grouping import (
    CHUNK,
    GroupedOutcomes,
    group_outcomes,
    group_starts,
    packed_sort,
)
from sklearn_calib._core._null_moments import NullMoments, bin_moments
from sklearn_calib._validation import BinarySample, ClassSample
from sklearn_calib.inference._tcal_bins import NestedBins, null_variance
from sklearn_calib.inference._tcal_classes import (
    draw_class_labels,
    draw_class_pairs,
    draw_plug_in,
    nested_alcoves,
)
from sklearn_calib.inference._tcal_draws import Draws, draw_labels, draw_pairs

__all__ = [
    "BinaryScales",
    "ClassScales",
    "Scales",
    "check_rows",
    "finest_level",
    "number_of_bins",
    "relaxed_law",
    "scale_shares",
    "usable_scales",
    "written_out",
]

Array = NDArray[np.float64]

# Weights of several classes, and of statistics that are not debiased, are written out as rows.
_MOST_ROWS = 1e8


def finest_level(n: float, n_classes: int = 2) -> int:
    """Return B = ceil(2 / (K - 1) log2(n / sqrt(log n))) of Algorithm 2, from 1 to ``MAX_LEVEL``."""
    if n < 2.0:
        return 1
    level = 2.0 / (n_classes - 1) * np.log2(n / np.sqrt(np.log(n)))
    return int(min(max(np.ceil(level - 1e-12), 1.0), MAX_LEVEL))


def number_of_bins(n: float, smoothness: float, n_classes: int = 2) -> float:
    """Return m = floor(n^(2 / (4 s + K - 1))) of Algorithm 1, at most 2**52."""
    power = 2.0 / (4.0 * smoothness + n_classes - 1)
    return float(min(np.floor(n**power * (1.0 + 1e-12)), 2.0**MAX_LEVEL))


def scale_shares(n_scales: int) -> Array:
    """Return how much of the level is spent on each scale, coarse to fine; the sum is 1.

    One half in equal parts, so that no scale is given up; the other in proportion to 1 / b for the b-th one,
    since most miscalibration is smooth.
    """
    decreasing = 1.0 / np.arange(1.0, n_scales + 1.0)
    return 0.5 / n_scales + 0.5 * decreasing / decreasing.sum()


def usable_scales(moments: NullMoments) -> int:
    """Return the number of scales with information; a scale shares its pairs with all coarser ones."""
    return int(np.append((moments.variance > 0.0) & (moments.rows > 0.0), False).argmin())


def relaxed_law(p: Array, tolerance: float) -> Array:
    """Return label probabilities at distance ``tolerance`` from ``p`` towards the greatest uncertainty.

    For p of shape (n,) the distance is that of the probabilities of the positive class; for rows of several
    classes it is Euclidean. It ends at equal probabilities: beyond them labels vary less again.
    """
    if p.ndim == 1:
        return np.where(p > 0.5, np.maximum(p - tolerance, 0.5), np.minimum(p + tolerance, 0.5))
    way = 1.0 / p.shape[1] - p
    length = np.sqrt(np.square(way).sum(axis=1, keepdims=True))
    share = np.minimum(np.divide(tolerance, length, out=np.ones_like(length), where=length > tolerance), 1.0)
    out: Array = p + share * way
    return out


class Scales(Protocol):
    """What a T-Cal test asks of its scales.

    ``n_bins`` is m of each scale, coarse to fine, and ``n_cells`` the number of its bins or cells;
    ``moments`` belong to the debiased statistic.
    """

    n: float
    n_classes: int
    n_bins: Array
    n_cells: Array
    moments: NullMoments

    def null_variance(self, usable: int, tolerance: float) -> Array:
        """Return the variance of T of the first scales under the relaxed law."""

    def draw(
        self,
        usable: int,
        n_resamples: int,
        generator: np.random.Generator,
        *,
        statistic: str,
        resample: str,
        tolerance: float,
    ) -> Draws:
        """Return observed and redrawn statistics of the first ``usable`` scales."""


class BinaryScales:
    """Equal-width bins of [0, 1]: m of them, or 2, 4, ... if ``smoothness`` is None."""

    n_classes = 2

    def __init__(self, sample: BinarySample, smoothness: float | None, ties: bool) -> None:
        self.grouped = _group(sample, ties)
        self.n = self.grouped.total
        self.cell: NDArray[np.int64] | None = None
        if smoothness is None:
            finest = finest_level(self.n)
            self.n_bins = np.exp2(np.arange(1.0, finest + 1.0))
            self.moments = dyadic_moments(self.grouped, finest)
        else:
            self.n_bins = np.full(1, number_of_bins(self.n, smoothness))
            self.cell = uniform_bins(self.grouped.prob, int(self.n_bins[0]))
            self.moments = bin_moments(self.grouped, self.cell)
        self.n_cells = self.n_bins

    def _bins(self, usable: int) -> NestedBins:
        if self.cell is None:
            return NestedBins.dyadic(self.grouped, usable)
        return NestedBins.single(self.grouped, self.cell)

    def null_variance(self, usable: int, tolerance: float) -> Array:
        """See :class:`Scales`."""
        law = relaxed_law(self.grouped.prob, tolerance)
        return null_variance(self.grouped, self._bins(usable), law)

    def draw(
        self,
        usable: int,
        n_resamples: int,
        generator: np.random.Generator,
        *,
        statistic: str,
        resample: str,
        tolerance: float,
    ) -> Draws:
        """See :class:`Scales`."""
        grouped = self.grouped
        if statistic != "debiased":
            check_rows(self.n)
            times = grouped.weight.astype(np.int64)
            p = np.repeat(grouped.prob, times)
            positives = np.asarray(grouped.positives, dtype=np.int64)
            # the class of the first column is the positive one
            outcome = np.repeat(
                np.tile(np.array([0, 1]), times.shape[0]),
                np.stack((positives, times - positives), axis=1).ravel(),
            )
            columns = np.column_stack((p, 1.0 - p))
            cells = nested_alcoves(columns, self.n_bins[:usable])
            # both columns say the same
            return draw_plug_in(cells, outcome, columns, statistic, n_resamples, generator).times(0.5)
        bins = self._bins(usable)
        if resample == "pairs":
            return draw_pairs(grouped, bins, n_resamples, generator)
        law = relaxed_law(grouped.prob, tolerance) if tolerance else None
        variance = self.moments.variance[:usable] if law is None else null_variance(grouped, bins, law)
        return draw_labels(grouped, bins, variance, n_resamples, generator, law)


class ClassScales:
    """Equal-volume cells of the simplex: m^(K - 1) of them, m = 2, 4, ... if ``smoothness`` is None."""

    def __init__(self, sample: ClassSample, smoothness: float | None) -> None:
        self.y, self.p = written_out(sample.y, sample.p, sample.w)
        self.n = float(self.y.shape[0])
        self.n_classes = self.p.shape[1]
        if smoothness is None:
            self.n_bins = np.exp2(np.arange(1.0, finest_level(self.n, self.n_classes) + 1.0))
        else:
            self.n_bins = np.full(1, number_of_bins(self.n, smoothness, self.n_classes))
        self.n_cells = self.n_bins ** (self.n_classes - 1)
        self.cells: list[SharedCells] = nested_alcoves(self.p, self.n_bins)
        self.moments = class_moments(self.cells, self.y, self.p)

    def null_variance(self, usable: int, tolerance: float) -> Array:
        """See :class:`Scales`."""
        if tolerance == 0.0:
            return self.moments.variance[:usable]
        law = relaxed_law(self.p, tolerance)
        return class_moments(self.cells[:usable], self.y, self.p, law).variance

    def draw(
        self,
        usable: int,
        n_resamples: int,
        generator: np.random.Generator,
        *,
        statistic: str,
        resample: str,
        tolerance: float,
    ) -> Draws:
        """See :class:`Scales`."""
        cells = self.cells[:usable]
        if statistic != "debiased":
            return draw_plug_in(cells, self.y, self.p, statistic, n_resamples, generator)
        if resample == "pairs":
            return draw_class_pairs(cells, self.y, self.p, n_resamples, generator)
        law = relaxed_law(self.p, tolerance) if tolerance else self.p
        variance = self.null_variance(usable, tolerance)
        return draw_class_labels(cells, self.y, self.p, law, variance, n_resamples, generator)


def written_out(y: NDArray[np.int64], p: Array, w: Array | None) -> tuple[NDArray[np.int64], Array]:
    """Return labels and predictions with each row repeated as often as its weight says."""
    if w is None:
        return y, p
    check_rows(float(w.sum()))
    times = w.astype(np.int64)
    return np.repeat(y, times), np.repeat(p, times, axis=0)


def check_rows(n: float) -> None:
    """Raise ValueError if frequencies stand for more rows than can be written out."""
    if n > _MOST_ROWS:
        raise ValueError(
            f"sample_weight stands for {n:.3g} observations, more than {_MOST_ROWS:.0e}, the most that can "
            "be written out as rows. Pass a part of the data."
        )


def _group(sample: BinarySample, ties: bool) -> GroupedOutcomes:
    """Sort outcomes by prediction, and group them; a few ties may stay apart unless ``ties`` must be groups.

    For the moments a row is a group like any other, and arrays for what is then known are saved.
    """
    if sample.w is not None:
        return group_outcomes(sample.y, sample.p, sample.w)
    key = packed_sort(sample.y, sample.p)
    n = key.shape[0]
    outcome = np.empty(n, dtype=np.int8)
    for first in range(0, n, CHUNK):
        part = key[first : first + CHUNK]
        outcome[first : first + CHUNK] = part & 1
        np.right_shift(part, 1, out=part)
    prob = key.view(np.float64)
    n_ties = np.count_nonzero(prob[1:] == prob[:-1])
    if n_ties == 0 or (not ties and n_ties < n / 8):
        positives: Any = outcome
        return GroupedOutcomes(prob, np.broadcast_to(np.float64(1.0), prob.shape), positives)
    starts = group_starts(prob)
    weight = np.diff(starts, append=n).astype(np.float64)
    return GroupedOutcomes(prob[starts], weight, np.add.reduceat(outcome, starts, dtype=np.float64))
