"""Means of a loss over samples, such as the Brier score, with normal intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm, t

from sklearn_calib import _validation
from sklearn_calib._core._grouping import GroupedOutcomes, group_sample
from sklearn_calib._core._links import logit
from sklearn_calib._core._proportion import clopper_pearson
from sklearn_calib._core._recalibration import LogitOutcomes
from sklearn_calib._typing import Array
from sklearn_calib.inference._sample_metric import Metric, at_event_rates
from sklearn_calib.metrics._decision import net_benefit
from sklearn_calib.metrics._decomposition import refinement_loss
from sklearn_calib.metrics._metric_kernel import MeanLoss, declaration, without_partial
from sklearn_calib.metrics._reductions import class_samples
from sklearn_calib.metrics._scores import BRIER, LOG, mean_of_outcomes, roc_auc
from sklearn_calib.metrics._summary import concordance, event_rate_limits, sizes_of_means


class Mean(NamedTuple):
    """A mean over samples, its interval, and its value expected if the predictions are calibrated."""

    estimate: float
    lower: float
    upper: float
    expected: float


def half_width(
    sample: _validation.BinarySample | _validation.ClassSample, values: Array, alpha: float
) -> float:
    """Return half the width of the interval for the mean of ``values``, which sum to 0 with the weights.

    It is normal for independent samples. With C clusters the standard error is that of the sums over
    clusters, with the quantile of Student's t distribution with C - 1 degrees of freedom.
    """
    weighted = values if sample.w is None else values * sample.w
    if sample.clusters is None:
        variance = weighted @ (weighted if sample.sampling else values)
        return float(norm.isf(alpha / 2.0) * np.sqrt(variance)) / sample.total
    sums = np.bincount(sample.clusters, weighted)
    n_clusters = sums.shape[0]
    error = np.sqrt(sums @ sums * n_clusters / (n_clusters - 1.0))
    return float(t.isf(alpha / 2.0, n_clusters - 1) * error) / sample.total


def mean_of(
    sample: _validation.BinarySample | _validation.ClassSample,
    values: Array,
    expected: Array,
    alpha: float,
    most: float,
) -> Mean:
    """Return the mean of ``values``, one for each sample, with an interval from 0 to ``most``."""
    value, center = (float(np.average(each, weights=sample.w)) for each in (values, expected))
    if not np.isfinite(value):
        # a loss that was infinite has a positive probability
        return Mean(value, value, value, center)
    half = half_width(sample, values - value, alpha)
    return Mean(value, max(0.0, value - half), min(most, value + half), center)


def loss_of(metric: Metric) -> MeanLoss | None:
    """Return the loss of which a metric is the mean, or None; with parameters, it is any other metric."""
    return None if isinstance(metric, partial) else declaration(metric)._loss


def mean_loss(
    loss: MeanLoss,
    problem: _validation.BinarySample | _validation.ClassSample | list[_validation.BinarySample],
    reduction: str | None,
    alpha: float,
) -> Mean:
    """Return the mean of a loss over checked samples; of the binary problems of a reduction, if there is one.

    The classes are averaged in each sample, so that their dependence counts. The interval of one binary
    problem contains the means for the exact limits of the event rate, and each for those of the accuracy.
    """
    if isinstance(problem, _validation.ClassSample) and reduction is None:
        values, expected = loss.of_classes(problem.p, problem.y), loss.expected(problem.p)
        found = mean_of(problem, values, expected, alpha, loss.largest)
        if not np.isfinite(found.estimate):
            return found
        means = _at_accuracies(loss, problem, values, alpha)
        return found._replace(lower=min(found.lower, *means), upper=max(found.upper, *means))
    first: _validation.BinarySample | _validation.ClassSample
    if isinstance(problem, list):
        parts, first = problem, problem[0]
    elif reduction in ("confidence", "top-label"):
        # each sample belongs to the problem of one class
        (first,) = parts = class_samples(problem, "confidence")
    elif isinstance(problem, _validation.ClassSample):
        parts, first = class_samples(problem, "classwise"), problem
    else:
        parts, first = [problem], problem
    values, expected = (
        np.mean([of(part) for part in parts], axis=0) for of in (loss.of_sample, loss.expected_of_sample)
    )
    found = mean_of(first, values, expected, alpha, 0.5 * loss.largest)
    if len(parts) > 1 or not np.isfinite(found.estimate):
        return found
    low, high = found.lower, found.upper
    # events and others, right and wrong outcomes: the loss of an outcome is that of being right or wrong
    for part in (parts[0], *class_samples(parts[0], "confidence")):
        grouped = group_sample(part)
        evaluate = mean_of_outcomes(*loss.of_outcomes(grouped.prob), grouped.total)
        ends = evaluate(*at_event_rates(grouped, np.array(event_rate_limits(grouped, 1.0 - alpha))))
        low, high = min(low, float(ends.min())), max(high, float(ends.max()))
    return found._replace(lower=low, upper=high)


def _at_accuracies(
    loss: MeanLoss, problem: _validation.ClassSample, values: Array, alpha: float
) -> list[float]:
    """Return the mean of a loss at the exact limits of the accuracy.

    If no sample is right, or none is wrong, the most likely class, or the second, is in place of the label.
    """
    (confident,) = class_samples(problem, "confidence")
    right, w = confident.y == 1, confident.weights
    second, first = np.argsort(problem.p, axis=1)[:, -2:].T
    means = []
    for kind, label, chance in ((right, first, confident.p), (~right, second, 1.0 - confident.p)):
        if kind.any():
            means.append(float(np.average(values[kind], weights=w[kind])))
        else:
            chance = chance if chance.any() else np.ones_like(chance)
            # an infinite loss without a chance does not count
            rows = chance > 0.0
            losses = loss.of_classes(problem.p, label)[rows]
            means.append(float(np.average(losses, weights=(w * chance)[rows])))
    limits = event_rate_limits(group_sample(confident), 1.0 - alpha)
    return [rate * means[0] + (1.0 - rate) * means[1] for rate in limits]


def has_exact_limits(metric: Metric) -> bool:
    """Tell whether the limits of few samples are exact: those of a net benefit."""
    return without_partial(metric)[0] is net_benefit


def least_limits(metric: Metric, sample: _validation.BinarySample, alpha: float) -> tuple[float, float]:
    """Return limits that the interval contains: of a net benefit, refinement loss, AUC of 0 or 1; or none."""
    function, parameters = without_partial(metric)
    if has_exact_limits(metric):
        threshold = np.array([parameters.get("threshold", 0.5)])
        low, high = benefit_limits(group_sample(sample), threshold, alpha)
        return float(low[0]), float(high[0])
    if function is roc_auc:
        area = concordance(group_sample(sample), float(norm.isf(alpha / 2.0)))
        # nor do bootstrap samples of separated outcomes vary
        return (area.lower, area.upper) if area.method == "Clopper-Pearson" else (np.inf, -np.inf)
    if function is refinement_loss:
        return np.inf, _refinement_limit(sample, parameters.get("score"), alpha)
    return np.inf, -np.inf


def benefit_limits(grouped: GroupedOutcomes, thresholds: Array, alpha: float) -> tuple[Array, Array]:
    """Return limits of the net benefit at each threshold."""
    factors = np.ones_like(thresholds), -thresholds / (1.0 - thresholds)
    return _limits_of_rates(grouped, thresholds, factors, alpha)


def score_limits(grouped: GroupedOutcomes, thresholds: Array, alpha: float) -> tuple[Array, Array]:
    """Return limits of the mean elementary score at each threshold."""
    factors = 2.0 * (1.0 - thresholds), 2.0 * thresholds
    return _limits_of_rates(grouped, thresholds, factors, alpha, missed=True)


@np.errstate(under="ignore")
def _limits_of_rates(
    grouped: GroupedOutcomes,
    thresholds: Array,
    factors: tuple[Array, Array],
    alpha: float,
    missed: bool = False,
) -> tuple[Array, Array]:
    """Return limits of a sum of multiples of two frequencies, the first one positive.

    They are those of events and of other samples from each threshold on, or of events below it, ``missed``.
    The limits combine the exact ones of both (the method of variance estimates recovery) with the correlation
    of two numbers of a multinomial distribution, for which one is added to each number. It is negative: that
    of positive multiples, which would make the limits closer, is ignored.
    """
    first, place = np.searchsorted(grouped.prob, thresholds), np.arange(grouped.prob.shape[0])
    counts = grouped.positives, grouped.weight - grouped.positives
    true, false = (np.append(np.cumsum(count[::-1])[::-1], 0.0)[first] for count in counts)
    rates = np.array((grouped.positives.sum() - true if missed else true, false)) / grouped.total
    # those of the sum, as both frequencies depend on the same clusters
    chosen = ((place >= each, one, other) for each, one, other in zip(first, *factors, strict=True))
    sums = ((one * (acted != missed), other * acted) for acted, one, other in chosen)
    size = sizes_of_means(grouped, sums, 1.0 - alpha)
    low, high = clopper_pearson(size * rates, np.full(rates.shape, size), alpha / 2.0)
    added = (size * rates + 1.0) / (size + 2.0)
    correlation = np.where(factors[1] < 0.0, np.sqrt((added / (1.0 - added)).prod(axis=0)), 0.0)
    ends = [(factor * low_, factor * high_) for factor, low_, high_ in zip(factors, low, high, strict=True)]
    values = [factor * rate for factor, rate in zip(factors, rates, strict=True)]

    def margin(end: Callable[..., Array]) -> Array:
        one, other = (np.abs(value - end(*pair)) for value, pair in zip(values, ends, strict=True))
        return np.asarray(np.sqrt(one**2 + other**2 + 2.0 * correlation * one * other))

    value = values[0] + values[1]
    # the frequencies are not negative, and their sum is at most 1
    least, most = np.minimum(factors[1], 0.0), np.maximum(*factors)
    return np.maximum(value - margin(np.minimum), least), np.minimum(value + margin(np.maximum), most)


def _refinement_limit(sample: _validation.BinarySample, score: str | None, alpha: float) -> float:
    """Return an upper limit of a refinement loss.

    It is that of the score after logistic recalibration. The map is monotone: the mean of this score is at
    least the refinement loss. With two parameters it fits far less noise than isotonic regression does. Nor
    is the refinement loss greater than the score of the event rate.
    """
    loss, grouped, p = LOG if score == "log_loss" else BRIER, group_sample(sample), sample.p.copy()
    inside = (p > 0.0) & (p < 1.0)

    def frequency(rows: NDArray[np.bool_]) -> float:
        return float(np.average(sample.y[rows], weights=None if sample.w is None else sample.w[rows]))

    if inside.any():
        data = LogitOutcomes(grouped.uncertain())
        fit = None if data.constant or data.one_class else data.fit_both()
        if fit is None or fit.slope <= 0.0:
            p[inside] = frequency(inside)
        elif fit.finite:
            p[inside] = expit(fit.intercept + fit.slope * logit(p[inside]))
    # predictions of 0 and 1 become their frequencies, but keep the order
    for end in (0.0, 1.0):
        at = sample.p == end
        if at.any():
            others = p[~at]
            p[at] = (
                max(frequency(at), others.max(initial=0.0))
                if end
                else min(frequency(at), others.min(initial=1.0))
            )
    # an event rate beyond either limit can have a smaller score
    rate = np.clip(0.5, *event_rate_limits(grouped, 1.0 - alpha / 2.0))
    of_other, of_event = loss.of_outcomes(np.array([rate]))
    most = float((1.0 - rate) * of_other[0] + rate * of_event[0])
    return min(mean_loss(loss, replace(sample, p=p), None, alpha).upper, most)
