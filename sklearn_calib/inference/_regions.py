"""Intervals of predictions that are miscalibrated: a multiscale scan of the residuals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib import _validation
from sklearn_calib._core._grouping import DISTINCT, GroupedOutcomes, balanced_bins, group_sample, group_starts
from sklearn_calib._core._null import draw_positives
from sklearn_calib._docs import shared_docs
from sklearn_calib._typing import Array, Weights
from sklearn_calib.inference._testing import _simulated

# A region consists of whole bins of neighboring predictions; outcomes are simulated in finer ones.
_REGION_BINS, _FINER = 64, 32
_MOST_REGIONS = 6
# Neighboring regions of one sign are merged if the gap is at most this fraction of the result.
_BRIDGE = 0.1
# No region contains this fraction of the range without predictions, or so many mean distances.
_GAP, _DISTANCES = 0.125, 5.0


@dataclass(frozen=True)
class Region:
    """An interval of predictions that is miscalibrated, as :func:`find_regions` returns it.

    Attributes
    ----------
    lower, upper : float
        Its smallest and largest prediction.
    predicted, observed : float
        Mean prediction and event frequency.
    n_samples : float
        Number of samples.
    worst_lower, worst_upper : float
        Smallest and largest prediction of the subinterval with the largest error of the same sign that is
        significant by itself; often the whole interval.
    worst_predicted, worst_observed : float
        Mean prediction and event frequency there.
    """

    lower: float
    upper: float
    predicted: float
    observed: float
    n_samples: float
    worst_lower: float
    worst_upper: float
    worst_predicted: float
    worst_observed: float

    def __str__(self) -> str:
        direction = "low" if self.gap > 0.0 else "high"
        return (
            f"[{self.lower:.3g}, {self.upper:.3g}]: predictions are too {direction}, "
            f"mean {self.predicted:.3g}, observed {self.observed:.3g}, n = {self.n_samples:g}"
        )

    @property
    def gap(self) -> float:
        """Observed minus predicted: negative if the model overpredicts."""
        return self.observed - self.predicted


@shared_docs
def find_regions(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence: float = 0.95,
    n_resamples: int = 999,
    random_state: int | np.random.Generator | np.random.RandomState | None = 0,
    sample_weight: ArrayLike | None = None,
    weights: Weights = "sampling",
    clusters: ArrayLike | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
) -> tuple[Region, ...]:
    r"""Find the intervals of predictions in which events are more or less frequent than predicted.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of two classes.
    y_proba : array-like of shape (n,), (n, 1) or (n, 2)
        Predicted probability of the positive class; of two columns the last.
    confidence : float, default=0.95
        If the predictions are perfectly calibrated, no interval is found with this probability, in (0, 1).
    n_resamples : int, default=999
        Number of simulations, at least 1 / (1 - ``confidence``) - 1.
    %(random_state)s
    %(inference_weight)s
    %(clusters)s
    %(pos_label_or_labels)s

    Returns
    -------
    tuple of Region
        Disjoint intervals of predictions in increasing order, at most six.

    Raises
    ------
    %(invalid)s

    See Also
    --------
    CutoffTest : Test of the interval with the largest sum of residuals.
    find_segments : Segments of the samples, by their features.

    Notes
    -----
    Candidates are all runs of neighboring predictions in about 64 bins, without a wide gap; a prediction of
    many samples has a bin of its own. With residual sum S and variance V of a run, and V_0 of all, the
    statistic is :math:`\sqrt{2 V h(K |S|/V)} / K - \sqrt{2 \log(e V_0/V)}`, where
    :math:`h(x) = (1 + x) \log(1 + x) - x` and K is the positive part of the third cumulant over V, in the
    direction of S. The first term is :math:`|S|/\sqrt V` for K = 0, and for K = 1 the deviance of a Poisson
    number, where hardly an event is expected; the second puts short and long runs on an equal footing [1]_. A
    run is significant if it exceeds the quantile of the maximum
    over all runs for simulated outcomes. The significant run with the largest statistic is chosen, then the
    largest that does not overlap, and so on; neighbors of one sign are merged. In each, the significant run
    with the largest mean residual is reported too.

    Cost: one sort, and O(min(n, 2048) + 64^2) for each simulation.

    References
    ----------
    .. [1] L. Dümbgen and V. G. Spokoiny (2001). Multiscale testing of qualitative hypotheses. Annals of
       Statistics 29.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import find_regions
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=2000)
    >>> y = rng.uniform(size=2000) < np.where(p > 0.7, p - 0.2, p)
    >>> (region,) = find_regions(y, p)
    >>> print(f"from {region.lower:.1f} on {-region.gap:.1f} too high")
    from 0.7 on 0.2 too high
    """
    confidence = _validation.check_fraction(confidence, "confidence")
    n_resamples = _validation.check_resamples(n_resamples, confidence)
    generator = _validation.check_generator(random_state)
    sample = _validation.check_binary(
        y_true, y_proba, sample_weight, pos_label, clusters, weights=weights, labels=labels
    )
    return scan_regions(group_sample(sample), confidence, n_resamples, generator)


def scan_regions(
    grouped: GroupedOutcomes, confidence: float, n_resamples: int, generator: np.random.Generator
) -> tuple[Region, ...]:
    """Return the regions of grouped outcomes, as :func:`find_regions`."""
    # by-class weights: the distinct predictions as they were sampled, in the same order
    counted, grouped = grouped, grouped.as_sampled()
    if grouped.variance.sum() <= 0.0:
        return ()
    index, prob = balanced_bins(grouped, _REGION_BINS), grouped.prob
    wide = np.ptp(prob) * max(_GAP, _DISTANCES / grouped.total)
    parts = np.cumsum(np.diff(prob, prepend=prob[0]) > wide)
    # a prediction of many samples has a bin of its own
    common = grouped.weight * _REGION_BINS >= grouped.total
    index = index + parts + np.cumsum(common | np.append(False, common[:-1]))
    index = np.unique(index, return_inverse=True)[1]
    n_bins = int(index[-1]) + 1
    small, place = grouped, index
    if grouped.prob.shape[0] > DISTINCT:
        # each bin is divided into finer ones, from whose means outcomes are simulated
        fine = group_starts(balanced_bins(grouped, _FINER * _REGION_BINS) + index)
        small, place = grouped.pooled(fine), index[fine]
    first, last = np.triu_indices(n_bins)
    spread = _over_runs(np.bincount(place, weights=small.variance), first, last)
    parts = parts[group_starts(index)]
    kept = (spread > 0.0) & (parts[first] == parts[last])
    first, last, spread = first[kept], last[kept], spread[kept]
    # third cumulants over variances: 1 - 2 p times the size of a jump, 1 or a weight
    binomial = small.weight * small.prob * (1.0 - small.prob)
    jump = spread / _over_runs(np.bincount(place, weights=binomial), first, last)
    skewed = small.variance * (1.0 - 2.0 * small.prob)
    tilt = jump * _over_runs(np.bincount(place, weights=skewed), first, last) / spread
    ratio = _simulated.variance_ratio_of(small)
    penalty = np.sqrt(2.0 * (1.0 + np.log(spread.max() / spread)))

    def statistics(sums: Array) -> Array:
        """Return the statistic of each run from its sums of residuals, (runs, r)."""
        skewness = np.maximum(np.sign(sums) * tilt[:, np.newaxis], 1e-3 * jump[:, np.newaxis])
        x = np.abs(sums) * skewness / spread[:, np.newaxis]
        deviance = 2.0 * ((1.0 + x) * np.log1p(x) - x) * (spread / ratio.own)[:, np.newaxis] / skewness**2
        return np.asarray(np.sqrt(np.maximum(deviance, 0.0)) - penalty[:, np.newaxis])

    expected = np.bincount(place, weights=small.weight * small.prob)[:, np.newaxis]
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    highest = []
    for positives in draw_positives(small.samples, n_resamples, generator):
        drawn = np.add.reduceat(small.weighted_sums(positives), starts, axis=0, dtype=np.float64)
        sums = _over_runs(drawn - expected, first, last) * ratio.relative(positives) ** 0.5
        highest.append(statistics(sums).max(axis=0))
    limit = float(np.quantile(np.concatenate(highest), confidence, method="weibull"))
    signed = _over_runs(np.bincount(index, weights=grouped.residual), first, last)
    statistic = statistics(signed[:, np.newaxis])[:, 0]
    off = statistic > limit
    first, last, signed, statistic = first[off], last[off], signed[off], statistic[off]
    rows = _over_runs(np.bincount(index, weights=grouped.weight), first, last)
    count = counted.weight
    if counted.design is not None:
        count = np.bincount(counted.design.group, counted.design.count).astype(np.float64)
    regions = []
    for low, high, sign in _disjoint(first, last, signed, statistic)[:_MOST_REGIONS]:
        inside = np.flatnonzero((first >= low) & (last <= high) & (signed * sign > 0))
        worst = inside[np.argmax(np.abs(signed[inside]) / rows[inside])]
        found: list[float] = []
        for start, end in ((low, high), (first[worst], last[worst])):
            chosen = (index >= start) & (index <= end)
            part = GroupedOutcomes(counted.prob[chosen], counted.weight[chosen], counted.positives[chosen])
            found += [
                float(part.prob[0]),
                float(part.prob[-1]),
                *part.frequencies(),
                float(count[chosen].sum()),
            ]
        regions.append(Region(*found[:-1]))
    return tuple(sorted(regions, key=lambda region: region.lower))


def _disjoint(
    first: NDArray[np.intp], last: NDArray[np.intp], signed: Array, statistic: Array
) -> list[tuple[int, int, float]]:
    """Return disjoint runs (first, last, residual sum), the largest sums first.

    They are chosen by their statistics. Then neighbors of one sign that (nearly) touch are merged, if that
    run is significant too.
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
    """Return the sums of rows first, ..., last."""
    below = np.insert(np.cumsum(values, axis=0), 0, 0.0, axis=0)
    out: Array = below[last + 1] - below[first]
    return out
