"""Stretches of predictions that are off by more than chance explains."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._null import draw_positives
from sklearn_calib.report._lines import ReportRegion
from sklearn_calib.report._sample import MOST_DISTINCT, cells_of, pooled

__all__ = ["find_regions"]

Array = NDArray[np.float64]

# A stretch consists of whole cells of neighbouring predictions.
_CELLS, _FINER = 64, 32
_MOST_REGIONS = 6
# Neighbours of one sign are one stretch if what parts them is at most this part of it.
_BRIDGE = 0.1
# A stretch counts from this variance on: below it a single unexpected event would decide.
_LEAST_VARIANCE = 3.0


def find_regions(
    grouped: GroupedOutcomes,
    confidence: float,
    n_resamples: int,
    generator: np.random.Generator,
) -> tuple[ReportRegion, ...]:
    r"""Return disjoint stretches that are off, in increasing order; all hold together with ``confidence``.

    Candidates are all runs of up to 64 cells of neighbouring predictions. With residual sum S and variance V
    of a run, and V_0 of all, the statistic is :math:`|S|/\sqrt V - \sqrt{2 \log(e V_0/V)}`, which lets short
    and long runs compete on equal terms [1]_. Those count that pass the quantile of its maximum over all runs
    in redrawn outcomes. Of these the one with the largest statistic is taken, then the largest that does not
    overlap, and so on; those of one sign that nearly touch are made one. In each, the run that counts and is
    farthest off for each row is named too.

    References
    ----------
    .. [1] L. Dümbgen and V. G. Spokoiny (2001). Multiscale testing of qualitative hypotheses. Annals of
       Statistics 29.
    """
    if grouped.variance.sum() <= 0.0:
        return ()
    cell = np.unique(cells_of(grouped, _CELLS), return_inverse=True)[1]
    n_cells = int(cell[-1]) + 1
    small, place = grouped, cell
    if grouped.prob.shape[0] > MOST_DISTINCT:
        # each of the cells is parted into finer ones, from whose means outcomes are redrawn
        fine = np.unique(cells_of(grouped, _FINER * _CELLS), return_inverse=True)[1]
        small, place = pooled(grouped, fine), cell[np.unique(fine, return_index=True)[1]]
    first, last = np.triu_indices(n_cells)
    spread = _over_runs(np.bincount(place, weights=small.variance)[:, np.newaxis], first, last)[:, 0]
    kept = spread >= min(_LEAST_VARIANCE, 0.5 * float(spread.max()))
    first, last, spread = first[kept], last[kept], spread[kept]
    scale = np.sqrt(spread)
    penalty = np.sqrt(2.0 * (1.0 + np.log(spread.max() / spread)))
    expected = np.bincount(place, weights=small.weight * small.prob)[:, np.newaxis]
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    highest = []
    for positives in draw_positives(small, n_resamples, generator):
        drawn = np.add.reduceat(positives, starts, axis=0, dtype=np.float64)
        sums = np.abs(_over_runs(drawn - expected, first, last))
        highest.append((sums / scale[:, np.newaxis] - penalty[:, np.newaxis]).max(axis=0))
    limit = float(np.quantile(np.concatenate(highest), confidence, method="weibull"))
    residual = np.bincount(cell, weights=grouped.residual)[:, np.newaxis]
    signed = _over_runs(residual, first, last)[:, 0]
    statistic = np.abs(signed) / scale - penalty
    off = statistic > limit
    first, last, signed, statistic = first[off], last[off], signed[off], statistic[off]
    rows = _over_runs(np.bincount(cell, weights=grouped.weight)[:, np.newaxis], first, last)[:, 0]
    regions = []
    for low, high, sign in _disjoint(first, last, signed, statistic)[:_MOST_REGIONS]:
        inside = np.flatnonzero((first >= low) & (last <= high) & (signed * sign > 0))
        worst = inside[np.argmax(np.abs(signed[inside]) / rows[inside])]
        chosen = [(cell >= a) & (cell <= b) for a, b in ((low, high), (first[worst], last[worst]))]
        regions.append(_region(grouped, *chosen))
    return tuple(sorted(regions, key=lambda region: region.lower))


def _disjoint(
    first: NDArray[np.intp], last: NDArray[np.intp], signed: Array, statistic: Array
) -> list[tuple[int, int, float]]:
    """Return disjoint runs (first, last, residual sum), the largest sums first.

    They are taken by their statistics. Then neighbours of one sign that (nearly) touch are made one, if that
    run counts too.
    """
    taken: list[tuple[int, int, float]] = []
    for run in np.argsort(-statistic, kind="stable").tolist():
        low, high = int(first[run]), int(last[run])
        if all(high < other_low or low > other_high for other_low, other_high, _ in taken):
            taken.append((low, high, float(signed[run])))
    runs = set(zip(first.tolist(), last.tolist(), strict=True))
    merged: list[tuple[int, int, float]] = []
    for low, high, total in sorted(taken):
        if merged and merged[-1][2] * total > 0 and (merged[-1][0], high) in runs:
            start, end, before = merged[-1]
            if low - end - 1 <= _BRIDGE * (high - start + 1):
                merged.pop()
                low, total = start, before + total
        merged.append((low, high, total))
    return sorted(merged, key=lambda run: -abs(run[2]))


def _over_runs(values: NDArray[Any], first: NDArray[np.intp], last: NDArray[np.intp]) -> Array:
    """Return the sums of the rows first, ..., last for each column."""
    below = np.concatenate((np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)))
    out: Array = below[last + 1] - below[first]
    return out


def _region(grouped: GroupedOutcomes, rows: NDArray[np.bool_], worst: NDArray[np.bool_]) -> ReportRegion:
    part, spot = _only(grouped, rows), _only(grouped, worst)
    (low, high), (worst_low, worst_high) = (
        (float(each.prob[0]), float(each.prob[-1])) for each in (part, spot)
    )
    return ReportRegion(
        low, high, *_frequencies(part), part.total, worst_low, worst_high, *_frequencies(spot)
    )


def _only(grouped: GroupedOutcomes, rows: NDArray[np.bool_]) -> GroupedOutcomes:
    return GroupedOutcomes(grouped.prob[rows], grouped.weight[rows], grouped.positives[rows])


def _frequencies(grouped: GroupedOutcomes) -> tuple[float, float]:
    """Return mean prediction and event frequency."""
    total = grouped.total
    return float(grouped.weight @ grouped.prob) / total, float(grouped.positives.sum()) / total
