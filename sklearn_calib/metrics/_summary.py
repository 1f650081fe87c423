"""Calibration summary as reported for clinical prediction models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtr, ndtri, stdtrit, xlogy

from sklearn_calib import _validation
from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._clusters import cluster_words, dependence_of, single_clusters
from sklearn_calib._core._grouping import (
    GroupedOutcomes,
    contradiction_words,
    group_sample,
    pooled_if_many,
    weight_fields,
    weight_words,
)
from sklearn_calib._core._links import logit
from sklearn_calib._core._null import TIE
from sklearn_calib._core._proportion import clopper_pearson
from sklearn_calib._core._recalibration import LogitOutcomes, Recalibration
from sklearn_calib._core._smooth_logistic import smooth_frequency
from sklearn_calib._docs import shared_docs
from sklearn_calib._frame import FrameMixin
from sklearn_calib._html import number_text, result_html
from sklearn_calib._typing import Array, Weights
from sklearn_calib.metrics._decomposition import mean_score
from sklearn_calib.metrics._metric_kernel import MetricKernel, one_by_one
from sklearn_calib.metrics._reductions import Reduction, error_of_groups

_TITLE = "calibration summary: estimate [interval]"
_MEASURES = (
    *("observed_minus_expected", "observed_over_expected", "intercept", "slope", "slope_intercept"),
    *("ici", "e50", "e90", "emax", "brier", "scaled_brier", "c_index", "somers_d", "r2"),
    *("discrimination_index", "unreliability_index", "quality_index", "unreliability_pvalue"),
    *("spiegelhalter_z", "spiegelhalter_pvalue"),
)


@dataclass(frozen=True)
class IntervalEstimate:
    """An estimate with its confidence interval; all NaN if the sample does not determine it.

    Attributes
    ----------
    estimate : float
        The estimate.
    lower, upper : float
        Ends of the interval.
    method : str or None
        How the interval was computed.
    """

    estimate: float
    lower: float
    upper: float
    method: str | None = None

    def __str__(self) -> str:
        if np.isnan(self.estimate):
            return "not determined"
        return f"{number_text(self.estimate)} [{number_text(self.lower)}, {number_text(self.upper)}]"


@shared_docs
@dataclass(frozen=True, eq=False)
class CalibrationSummary(FrameMixin):
    """Calibration in the large, calibration intercept and slope, and a smooth calibration curve.

    The ``method`` of intervals is "profile", "sandwich" with clusters or sampling weights,
    "Clopper-Pearson" of ``observed_over_expected``, equal predictions and a ``c_index`` of 0 or 1, and
    "DeLong" of another ``c_index``. ``to_frame()`` has all measures, one row each; docs/migration/r.md
    compares them with those of R.

    Attributes
    ----------
    n_samples : float
        Number of samples.
    n_events : float
        Number of events.
    observed_minus_expected : float
        Event frequency minus mean prediction; 0 is best, positive if risks are underestimated.
    observed_over_expected : IntervalEstimate
        Event frequency over mean prediction; 1 is best.
    intercept : IntervalEstimate
        Calibration intercept: a in logit P(Y = 1) = a + logit(p), the calibration in the large; 0 is best.
    slope : IntervalEstimate
        Calibration slope: b in logit P(Y = 1) = a + b logit(p); 1 is best, below 1 predictions are too
        extreme.
    slope_intercept : IntervalEstimate
        The intercept a of the model with slope b.
    ici, e50, e90, emax : float
        Mean, median, 90th percentile and maximum of the absolute difference between predictions and the
        smooth curve; 0 is best.
    brier : float
        The Brier score.
    scaled_brier : float
        1 - Brier score / Brier score of the event frequency; 1 is best, 0 is the value for the event
        frequency. NaN if all outcomes are equal.
    c_index : IntervalEstimate
        Area under the ROC curve (C): the probability that an event has a greater prediction than another
        sample, plus half of that of a tie. Without limits if it is 0 or 1.
    r2 : float
        Nagelkerke's R2 of the model with ``slope``.
    discrimination_index, unreliability_index : float
        D, (the likelihood ratio statistic of the model with ``slope`` - 1) / n, and U, (that of the
        predictions against this model - 2) / n. NaN with clusters or sampling weights.
    unreliability_pvalue : float
        p-value of the hypothesis of intercept 0 and slope 1, by the likelihood ratio. NaN as before.
    spiegelhalter_z, spiegelhalter_pvalue : float
        z and normal p-value of Spiegelhalter's test. NaN as before.
    confidence : float
        Level of the intervals.
    %(dependence)s
    n_contradicted, n_extreme : float
        Number of samples whose outcome contradicts a prediction of exactly 0 or 1, and of all samples with
        such predictions, which intercept, slope and slope_intercept do not use.
    probabilities : ndarray of shape (m,)
        Distinct predictions in increasing order.
    curve : ndarray of shape (m,)
        The smooth curve: the fitted event frequency at each of ``probabilities``.
    """

    _rows_in = "_measures"

    n_samples: float
    n_events: float
    observed_minus_expected: float
    observed_over_expected: IntervalEstimate
    intercept: IntervalEstimate
    slope: IntervalEstimate
    slope_intercept: IntervalEstimate
    ici: float
    e50: float
    e90: float
    emax: float
    brier: float
    scaled_brier: float
    c_index: IntervalEstimate
    r2: float
    discrimination_index: float
    unreliability_index: float
    unreliability_pvalue: float
    spiegelhalter_z: float
    spiegelhalter_pvalue: float
    confidence: float
    probabilities: Array = field(repr=False)
    curve: Array = field(repr=False)
    n_clusters: int | None = None
    design_effect: float | None = None
    n_effective: float | None = None
    weight_spread: float | None = None
    n_contradicted: float = 0.0
    n_extreme: float = 0.0
    weights: str | None = None

    @property
    def somers_d(self) -> IntervalEstimate:
        """Somers' D (Dxy), 2 * ``c_index`` - 1."""
        c = self.c_index
        return replace(c, estimate=2 * c.estimate - 1, lower=2 * c.lower - 1, upper=2 * c.upper - 1)

    @property
    def quality_index(self) -> float:
        """Quality index Q, ``discrimination_index`` - ``unreliability_index``."""
        return self.discrimination_index - self.unreliability_index

    @property
    def _measures(self) -> list[dict[str, Any]]:
        found = {name: getattr(self, name) for name in _MEASURES}
        rows = {
            name: vars(value) if isinstance(value, IntervalEstimate) else {"estimate": value}
            for name, value in found.items()
        }
        return [{"measure": name, **row} for name, row in rows.items()]

    def _rows(self) -> list[tuple[str, str]]:
        extremes = contradiction_words(self.n_contradicted, self.n_extreme)
        scaled = "not determined" if np.isnan(self.scaled_brier) else number_text(self.scaled_brier)
        return [
            ("samples, events", f"{self.n_samples:g}, {self.n_events:g}"),
            ("observed - expected", number_text(self.observed_minus_expected)),
            ("observed / expected", str(self.observed_over_expected)),
            ("intercept", str(self.intercept)),
            ("slope", str(self.slope)),
            ("intercept with slope", str(self.slope_intercept)),
            ("ICI", number_text(self.ici)),
            ("E50, E90, Emax", f"{number_text(self.e50)}, {number_text(self.e90)}, {number_text(self.emax)}"),
            ("Brier, scaled Brier", f"{number_text(self.brier)}, {scaled}"),
            ("intervals", ", ".join([f"{100 * self.confidence:g}%", *self._methods])),
            *([("clusters", cluster_words(self))] if self.n_clusters else []),
            *([("weights", weight_words(self, corrected=False))] if self.weights else []),
            *([("extremes", extremes)] if extremes else []),
        ]

    @property
    def _methods(self) -> list[str]:
        intervals = (self.observed_over_expected, self.intercept, self.slope)
        return list(dict.fromkeys(each.method for each in intervals if each.method))

    def __str__(self) -> str:
        lines = [f"  {label:<20} {value}" for label, value in self._rows()]
        return "\n".join([_TITLE, *lines])

    def _repr_html_(self) -> str:
        return result_html(_TITLE, self._rows())


def _weighted_quantiles(values: Array, weight: Array, levels: Sequence[float]) -> Iterator[float]:
    """Yield the smallest values that at least a fraction of the weight does not exceed, for each level."""
    order = np.argsort(values)
    parts = list(blocks(order.shape[0]))
    ends = np.cumsum([weight[order[rows]].sum() for rows in parts])
    for level in levels:
        # sums of weights can be below the level by rounding
        goal = level * ends[-1] * (1.0 - TIE)
        k = min(int(np.searchsorted(ends, goal)), len(parts) - 1)
        part = order[parts[k]]
        below = np.cumsum(weight[part]) + (ends[k - 1] if k else 0.0)
        yield float(values[part[min(int(np.searchsorted(below, goal)), part.shape[0] - 1)]])


_UNKNOWN = IntervalEstimate(np.nan, np.nan, np.nan)
_MOST_STEPS = 200


def _profile_end(
    value: float, step: float, deviance: Callable[[float], tuple[float, float]], z: float
) -> float:
    """Return where the root of the deviance, twice the loss of log-likelihood, is z: about a step away.

    ``deviance`` returns its derivative, too.
    """
    at, low, high = 1.0, 0.0, np.inf
    for _ in range(_MOST_STEPS):
        loss, slope = deviance(value + at * step)
        root = float(np.sqrt(max(loss, 0.0)))
        low, high = (at, high) if root < z else (low, at)
        # Newton's method needs few steps, because the root is nearly linear
        move = 2.0 * root * (z - root) / (slope * step) if slope * step > 0.0 else np.inf
        at += move
        # it converges quadratically: the next step would be of the order of the square
        if abs(move) <= 1e-5 * at:
            break
        if not low < at < high:
            at = 2.0 * low if np.isinf(high) else 0.5 * (low + high)
    return value + at * step


def _lines(grouped: GroupedOutcomes, z: float) -> tuple[IntervalEstimate, IntervalEstimate, IntervalEstimate]:
    """Return intercept for slope 1, slope, and intercept with that slope, with their intervals."""
    if not grouped.prob.size:
        return _UNKNOWN, _UNKNOWN, _UNKNOWN
    robust = grouped.clusters is not None or grouped.design is not None
    small = grouped if robust else pooled_if_many(grouped)
    data = LogitOutcomes(grouped)
    # of many distinct predictions, the likelihood of bins of neighbors, around the estimates of all
    shapes = (_UNKNOWN,) * 3 if small is grouped else _lines(small, z)

    def estimate(
        shape: IntervalEstimate,
        value: float,
        error: float,
        best: Recalibration,
        axis: Array,
        refit: Callable[[float], Recalibration],
        direction: Array,
    ) -> IntervalEstimate:
        if not (np.isfinite(value) and np.isfinite(error)):
            return _UNKNOWN
        if robust:
            margin = _robust_margin(grouped, data, best, direction, z)
            return IntervalEstimate(float(value), float(value - margin), float(value + margin), "sandwich")
        if np.isfinite(shape.estimate):
            low, high = (float(end - shape.estimate + value) for end in (shape.lower, shape.upper))
            return IntervalEstimate(float(value), low, high, "profile")
        # for so small a z the interval is that of Wald, and z^2 is below the rounding error of the likelihood
        if z < 1e-3:
            return IntervalEstimate(
                float(value), float(value - z * error), float(value + z * error), "profile"
            )

        def deviance(at: float) -> tuple[float, float]:
            fit = refit(at)
            return 2.0 * (best.log_likelihood - fit.log_likelihood), -2.0 * float(data.score_sums(fit) @ axis)

        low, high = (_profile_end(float(value), way * z * error, deviance, z) for way in (-1.0, 1.0))
        return IntervalEstimate(float(value), low, high, "profile")

    # sums of residuals, and of residuals times log-odds, from those of u
    once, along = np.array([1.0, 0.0]), np.array([data.center, data.spread])
    offset = data.fit_intercept()
    intercept = _UNKNOWN
    if offset.finite and data.constant and not robust:
        # of equal predictions the events are binomial
        limits = clopper_pearson(grouped.positives.sum(), np.array(grouped.total), float(ndtr(-z)))
        low, high = (logit(np.array(limits)) - logit(grouped.prob[:1])).tolist()
        intercept = IntervalEstimate(float(offset.intercept), low, high, "Clopper-Pearson")
    elif offset.finite:
        error = data.standard_errors(offset)[0]
        rows = np.array([error**2, 0.0])
        intercept = estimate(
            shapes[0], offset.intercept, error, offset, once, lambda at: data.at(at, 1.0), rows
        )
    if data.constant:
        return intercept, _UNKNOWN, _UNKNOWN
    both = data.fit_both()
    if not both.finite:
        return intercept, _UNKNOWN, _UNKNOWN
    _, for_intercept, for_slope = data.standard_errors(both)

    level, mixed = data.information(both)
    # rows of the inverse information: changes of slope and intercept by the scores of 1 and u
    for_u = for_slope**2 * data.spread * np.array([-mixed / level, 1.0])
    for_1 = np.array([1.0 / level, 0.0]) - (data.center + data.spread * mixed / level) * for_u

    return (
        intercept,
        estimate(shapes[1], both.slope, for_slope, both, along, data.fit_intercept, for_u),
        estimate(
            shapes[2],
            both.intercept,
            for_intercept,
            both,
            once,
            lambda at: data.fit_slope(at, both.slope),
            for_1,
        ),
    )


def _units(grouped: GroupedOutcomes) -> tuple[Any, Any, Array, Array, Array]:
    """Return cells of independent units: unit, group, weight, weight of positives; and numbers of units.

    Units are clusters, or samples of the same prediction, sampling weight and outcome.
    """
    design, cells = grouped.design, grouped.clusters
    if design is None:
        assert cells is not None
        return cells.code, cells.group, cells.count, cells.positives, np.ones(cells.n_clusters)
    negative, positive = (1.0, 1.0) if design.class_weights is None else design.class_weights
    if design.clusters is not None:
        cells = design.clusters
        weight, group = design.weight[cells.group], design.group[cells.group]
        events, others = weight * cells.positives * positive, cells.count - cells.positives
        return cells.code, group, events + weight * others * negative, events, np.ones(cells.n_clusters)
    weight, kinds = design.weight, np.arange(2 * design.group.shape[0])
    return (
        kinds,
        np.tile(design.group, 2),
        np.append(weight * positive, weight * negative),
        np.append(weight * positive, np.zeros_like(weight)),
        np.append(design.positives, design.count - design.positives),
    )


def _robust_margin(
    grouped: GroupedOutcomes, data: LogitOutcomes, fit: Recalibration, direction: Array, z: float
) -> float:
    """Return half the width of the interval of direction @ (sum of r, sum of r u), where r are residuals."""
    unit, group, weight, positives, number = _units(grouped)
    log_odds = logit(grouped.prob)
    prob = expit(fit.intercept + fit.slope * log_odds)
    rise = direction[0] + direction[1] * (log_odds - data.center) / data.spread
    # sums over each unit, and its fraction of the information
    influence = np.bincount(unit, (positives - weight * prob[group]) * rise[group])
    fraction = np.bincount(unit, weight * (prob * (1.0 - prob) * rise**2)[group])
    fraction = np.minimum(fraction / (number @ fraction), 1.0 - 1e-9)
    # [4], CR3: sum_c (influence_c / (1 - fraction_c))^2
    error = np.sqrt(number @ (influence / (1.0 - fraction)) ** 2)
    return float(stdtrit(max(1.0 / (number @ fraction**2) - 1.0, 1.0), ndtr(z)) * error)


def concordance(grouped: GroupedOutcomes, z: float) -> IntervalEstimate:
    """Return the area under the ROC curve with its interval."""
    kinds = grouped.positives, grouped.weight - grouped.positives
    n_events, n_others = (float(kind.sum()) for kind in kinds)
    if not min(n_events, n_others) > 0.0:
        return _UNKNOWN
    # the fraction of the other kind below, and what is left of it, from ranks in the middle of ties
    event, other = (np.cumsum(kind) for kind in kinds[::-1])
    for rank, kind, n in ((event, kinds[1], n_others), (other, kinds[0], n_events)):
        for rows in blocks(rank.shape[0]):
            rank[rows] -= 0.5 * kind[rows]
        rank /= n
    area = float(kinds[0] @ event) / n_events
    # changes of the area by an event and by another sample
    event -= area
    event /= n_events
    np.subtract(1.0 - area, other, out=other)
    other /= n_others
    if grouped.clusters is not None or grouped.design is not None:
        unit, group, weight, positives, number = _units(grouped)
        influence = np.bincount(unit, positives * event[group] + (weight - positives) * other[group])
        size = float(number.sum())
        variance, method = number @ influence**2 * size / max(size - 1.0, 1.0), "sandwich"
    else:
        squares = kinds[0] @ np.square(event, out=event), kinds[1] @ np.square(other, out=other)
        sizes = np.array([n_events, n_others])
        variance, method = squares @ (sizes / np.maximum(sizes - 1.0, 1.0)), "DeLong"
    if 0.0 < area < 1.0:
        margin = z * float(np.sqrt(variance))
    elif method == "DeLong":
        # so many pairs have no sample in common, and none is in another order: their exact limits
        margin, method = 1.0 - float(ndtr(-z)) ** (1.0 / min(n_events, n_others)), "Clopper-Pearson"
    else:
        margin = np.nan
    low, high = np.clip([area - margin, area + margin], 0.0, 1.0).tolist()
    return IntervalEstimate(area, low, high, method)


def _likelihood_measures(grouped: GroupedOutcomes, found: Recalibrations) -> dict[str, Any]:
    """Return R2, the indices D and U with the p-value of U, and Spiegelhalter's z with its p-value."""
    inside = grouped.uncertain()
    n, events = inside.total, float(inside.positives.sum())
    r2 = d = u_index = pvalue = z = np.nan
    robust = grouped.clusters is not None or grouped.design is not None
    if np.isfinite(found.slope.estimate):
        data = LogitOutcomes(inside)
        null = float(xlogy(events, events / n) + xlogy(n - events, 1 - events / n))
        best = data.at(found.slope_intercept.estimate, found.slope.estimate).log_likelihood
        r2 = float(np.expm1(2.0 * (null - best) / n) / np.expm1(2.0 * null / n))
        if not robust:
            loss = 2.0 * (best - data.at(0.0, 1.0).log_likelihood)
            d, u_index, pvalue = (2.0 * (best - null) - 1.0) / n, (loss - 2.0) / n, float(np.exp(-0.5 * loss))
        del data
    if not robust:
        total = variance = 0.0
        for part in grouped.parts():
            u = 1.0 - 2.0 * part.prob
            total += float(part.residual @ u)
            variance += float(part.variance @ u**2)
        z = total / variance**0.5 if variance > 0.0 else np.nan
    return {
        "r2": r2,
        "discrimination_index": d,
        "unreliability_index": u_index,
        "unreliability_pvalue": pvalue,
        "spiegelhalter_z": z,
        "spiegelhalter_pvalue": 2.0 * float(ndtr(-abs(z))),
    }


def _kish_size(grouped: GroupedOutcomes) -> float:
    """Return the effective number of independent units, by their weights."""
    unit, _, weight, _, number = _units(grouped)
    of_unit = np.bincount(unit, weight)
    return float((number @ of_unit) ** 2 / (number @ of_unit**2))


def _most_samples(grouped: GroupedOutcomes) -> float:
    """Return the number of samples; with sampling weights the effective one, whatever those of events."""
    weights = grouped.design is not None and grouped.design.clusters is None
    return _kish_size(grouped) if weights else grouped.samples.total


def _effective_size(grouped: GroupedOutcomes, intercept: IntervalEstimate, z: float) -> float:
    """Return the number of independent samples whose number of events is as variable (Korn and Graubard).

    ``intercept`` is the calibration in the large, with its sandwich interval.
    """
    if not intercept.upper > intercept.lower:
        # outcomes that are all equal do not show their dependence
        return _kish_size(grouped)
    data = LogitOutcomes(grouped.uncertain())
    alone = data.standard_errors(data.fit_intercept())[0]
    size = grouped.total * (2.0 * z * alone / (intercept.upper - intercept.lower)) ** 2
    by_class = grouped.design is not None and grouped.design.class_weights is not None
    # events of smaller weights, as of case-control samples, are more than their weight
    return size if by_class else min(size, _most_samples(grouped))


def event_rate_limits(
    grouped: GroupedOutcomes, confidence: float, intercept: IntervalEstimate | None = None
) -> tuple[float, float]:
    """Return the exact limits of the event rate; with weights or clusters, at the effective size."""
    size, rate = size_of_events(grouped, confidence, intercept), grouped.positives.sum() / grouped.total
    low, high = clopper_pearson(np.array(rate * size), np.array(size), 0.5 * (1.0 - confidence))
    return float(low), float(high)


def size_of_events(
    grouped: GroupedOutcomes, confidence: float, intercept: IntervalEstimate | None = None
) -> float:
    """Return the number of samples, with weights or clusters the effective one for the event rate."""
    if (grouped.clusters or grouped.design) is None:
        return grouped.total
    z = -float(ndtri((1.0 - confidence) / 2.0))
    return _effective_size(grouped, intercept or _lines(grouped.uncertain(), z)[0], z)


def sizes_of_means(
    grouped: GroupedOutcomes, values: Iterable[tuple[Array, Array]], confidence: float
) -> Array:
    """Return the numbers of samples, with weights or clusters the effective ones, for means of values.

    The values of each group are given for events and other samples. Of a constant, the number is that for the
    event rate. Without weights and clusters, it is one number.
    """
    if (grouped.clusters or grouped.design) is None:
        return np.array(grouped.total)
    unit, group, weight, positives, number = _units(grouped)
    of_unit, most = np.bincount(unit, weight), _most_samples(grouped)
    total, z = float(number @ of_unit), -float(ndtri((1.0 - confidence) / 2.0))
    df = max(_kish_size(grouped) - 1.0, 1.0)
    scale = (df + 1.0) / df * float(stdtrit(df, ndtr(z)) / z) ** 2

    def size(of_event: Array, of_other: Array) -> float:
        first, second = (
            np.bincount(
                unit, positives * of_event[group] ** power + (weight - positives) * of_other[group] ** power
            )
            for power in (1, 2)
        )
        mean = float(number @ first) / total
        variance = scale * float(number @ (first - mean * of_unit) ** 2) / total**2
        if not variance > 0.0:
            return size_of_events(grouped, confidence)
        return min((float(number @ second) / total - mean**2) / variance, most)

    return np.array([size(*pair) for pair in values])


@shared_docs
def calibration_summary(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence: float = 0.95,
    sample_weight: ArrayLike | None = None,
    weights: Weights = "sampling",
    clusters: ArrayLike | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
) -> CalibrationSummary:
    r"""Compute the calibration measures that are reported for clinical prediction models.

    Calibration in the large, calibration intercept and slope, the distances between predictions and a smooth
    calibration curve, and the scaled Brier score.

    Parameters
    ----------
    %(binary_sample)s
    confidence : float, default=0.95
        Level of the confidence intervals, in (0, 1).
    %(inference_weight)s
    %(clusters)s
    %(pos_label_or_labels)s

    Returns
    -------
    CalibrationSummary
        All measures, and the smooth curve.

    %(raised)s

    See Also
    --------
    integrated_calibration_index : The ICI as a metric, also for multiclass targets.
    sklearn_calib.inference.CoxTest : Test of calibration intercept and slope.

    Notes
    -----
    Intercept and slope [1]_ are maximum likelihood estimates from the predictions strictly between 0 and 1;
    those of exactly 0 or 1 have infinite log-odds, see docs/inputs.md. They are not determined (NaN) if all
    outcomes are equal, the slope also if all predictions are equal or under perfect separation. Their
    intervals are those of the profile likelihood; of equal predictions, the log-odds of exact limits of the
    event probability; of more than 4096 distinct predictions, the intervals of bins of neighbors, moved to
    the estimates. The interval of O/E is the exact interval of the event probability (Clopper and Pearson)
    over the mean prediction. With clusters, or sampling weights, in which case each
    sample is a cluster of its own, standard errors are those of the sandwich estimator CR3 [4]_,

    .. math:: \Bigl(\sum_c \bigl[\psi_c / (1 - h_c)\bigr]^2\Bigr)^{1/2},

    with :math:`\psi_c` the first-order influence of cluster c on the estimate and :math:`h_c` its fraction of
    the information, and quantiles are those of Student's t distribution with :math:`1 / \sum_c h_c^2 - 1`
    degrees of freedom. The interval of O/E is then that of the effective number of samples [5]_: the one
    for which the interval of the intercept would be as wide without clusters and weights, and the number of
    clusters, by weight, if all outcomes are equal.

    The smooth curve is a logistic regression on a natural cubic spline of logit(p), whose five knots lie
    at the quantiles .05, .275, .5, .725 and .95 of the predictions (Section 2.4 of [3]_; fewer if these are
    tied). A penalty of :math:`10^{-4} \bar y (1 - \bar y)` times half the variance of the fitted log-odds,
    subtracted from the mean log-likelihood, keeps it finite under perfect separation. It depends on
    relative weights only: neither weights times a number nor repeated samples change the curve. ICI, E50,
    E90 and Emax are the mean, median, 90th percentile and maximum over the samples of its absolute
    difference from the prediction. R's packages, and [2]_, also use local regression, with which values
    differ; docs/paths/medicine.md has measured by how much. At 0 and 1 the curve is the event frequency of
    these predictions. O(n log n).

    The indices D, U and Q = D - U, R2 and C are those of [3]_ (Sections 10.8 and 10.9), D, U and R2 from the
    predictions strictly between 0 and 1. The interval of C is that of [6]_, with clusters or sampling weights
    from sums over clusters.

    References
    ----------
    .. [1] B. Van Calster et al. (2016). A calibration hierarchy for risk models was defined: from utopia to
       empirical data. Journal of Clinical Epidemiology 74.
    .. [2] P. C. Austin and E. W. Steyerberg (2019). The Integrated Calibration Index (ICI) and related
       metrics for quantifying the calibration of logistic regression models. Statistics in Medicine 38.
    .. [3] F. E. Harrell (2015). Regression Modeling Strategies, 2nd edition. Springer.
    .. [4] R. M. Bell and D. F. McCaffrey (2002). Bias reduction in standard errors for linear regression with
       multi-stage samples. Survey Methodology 28.
    .. [5] E. L. Korn and B. I. Graubard (1998). Confidence intervals for proportions with small expected
       number of positive counts estimated from survey data. Survey Methodology 24.
    .. [6] E. R. DeLong, D. M. DeLong and D. L. Clarke-Pearson (1988). Comparing the areas under two or more
       correlated receiver operating characteriztic curves: a nonparametric approach. Biometrics 44.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.metrics import calibration_summary
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=2000)
    >>> y = rng.uniform(size=2000) < p**2 / (p**2 + (1 - p) ** 2)
    >>> summary = calibration_summary(y, p)
    >>> summary.slope.lower < 2.0 < summary.slope.upper
    True
    >>> summary.intercept.lower < 0.0 < summary.intercept.upper
    True
    """
    _validation.check_fraction(confidence, "confidence")
    given = _validation.check_binary(
        y_true, y_proba, sample_weight, pos_label, clusters, weights=weights, labels=labels
    )
    grouped = group_sample(given)
    found = summarize(grouped, confidence)
    if clusters is not None and given.clusters is None:
        found = replace(found, **single_clusters(grouped.samples.total))
    return replace(found, **weight_fields(given, grouped.clusters, grouped.sampled_probability))


@dataclass(frozen=True)
class Recalibrations:
    """Intervals of the calibration in the large, and of intercept and slope on the log-odds."""

    observed_over_expected: IntervalEstimate
    intercept: IntervalEstimate
    slope: IntervalEstimate
    slope_intercept: IntervalEstimate


def recalibration_intervals(grouped: GroupedOutcomes, confidence: float) -> Recalibrations:
    """Return observed over expected, intercept for slope 1, slope, and intercept with that slope."""
    z = -float(ndtri((1.0 - confidence) / 2.0))
    intercept, slope, slope_intercept = _lines(grouped.uncertain(), z)
    predicted, observed = grouped.frequencies()
    ratio = _UNKNOWN
    if predicted > 0.0:
        limits = event_rate_limits(grouped, confidence, intercept)
        low, high = (limit / predicted for limit in limits)
        ratio = IntervalEstimate(observed / predicted, low, high, "Clopper-Pearson")
    return Recalibrations(ratio, intercept, slope, slope_intercept)


def summarize(grouped: GroupedOutcomes, confidence: float) -> CalibrationSummary:
    """Return the summary of grouped outcomes."""
    samples, total, events = grouped.samples, grouped.total, float(grouped.positives.sum())
    n_contradicted, n_extreme = samples.contradictions()
    recalibrations = recalibration_intervals(grouped, confidence)
    likelihood = _likelihood_measures(grouped, recalibrations)
    c_index = concordance(grouped, -float(ndtri((1.0 - confidence) / 2.0)))
    brier, alone = (
        mean_score(grouped.weight, grouped.positives, grouped.prob, "brier"),
        events / total * (1.0 - events / total),
    )
    curve = smooth_frequency(grouped)
    gap = np.subtract(grouped.prob, curve)
    np.abs(gap, out=gap)
    e50, e90 = _weighted_quantiles(gap, grouped.weight, (0.5, 0.9))
    return CalibrationSummary(
        n_samples=samples.total,
        n_events=float(samples.positives.sum()),
        observed_minus_expected=(events - float(grouped.weight @ grouped.prob)) / total,
        **vars(recalibrations),
        ici=float(grouped.weight @ gap) / total,
        e50=e50,
        e90=e90,
        emax=float(gap.max()),
        brier=brier,
        scaled_brier=1.0 - brier / alone if alone > 0.0 else np.nan,
        c_index=c_index,
        **likelihood,
        confidence=float(confidence),
        probabilities=grouped.prob,
        curve=curve,
        n_contradicted=n_contradicted,
        n_extreme=n_extreme,
        **dependence_of(grouped.clusters, grouped.sampled_probability),
    )


def _ici(grouped: GroupedOutcomes) -> float:
    gap = np.abs(grouped.prob - smooth_frequency(grouped))
    return min(float(grouped.weight @ gap) / grouped.total, 1.0)


@shared_docs
@MetricKernel(one_by_one(_ici), calibration_error=True, _most_distinct=256)
def integrated_calibration_index(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    """Compute the integrated calibration index (ICI) of predicted probabilities.

    The mean absolute difference between the predictions and a smooth calibration curve.

    Parameters
    ----------
    %(outcomes)s
    %(weight)s
    %(reduction)s

    %(error)s

    See Also
    --------
    calibration_summary : The curve, and the other calibration measures reported with it.

    Notes
    -----
    The curve is that of :func:`calibration_summary`; O(n log n).

    %(not_proper)s

    References
    ----------
    .. [1] P. C. Austin and E. W. Steyerberg (2019). The Integrated Calibration Index (ICI) and related
       metrics for quantifying the calibration of logistic regression models. Statistics in Medicine 38.

    Examples
    --------
    >>> from sklearn_calib.metrics import integrated_calibration_index
    >>> print(f"{integrated_calibration_index([0, 0, 1, 1], [0.9, 0.9, 0.9, 0.9]):.2f}")
    0.40
    """
    given = y_true, y_proba, sample_weight, pos_label, reduction, labels
    return error_of_groups(_ici, *given)
