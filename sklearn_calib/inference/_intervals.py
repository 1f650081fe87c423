"""Confidence intervals for metrics."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import starmap
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib import _validation
from sklearn_calib._core._clusters import cluster_words, dependence_of, single_clusters
from sklearn_calib._core._grouping import (
    DISTINCT,
    group_sample,
    pooled_if_many,
    weight_fields,
    weight_words,
)
from sklearn_calib._core._null import bootstrap_counts
from sklearn_calib._docs import shared_docs
from sklearn_calib._html import number_text, text_html
from sklearn_calib._typing import Array, Weights
from sklearn_calib.inference._means import Mean, has_exact_limits, least_limits, loss_of, mean_loss
from sklearn_calib.inference._null_distribution import NullDistribution, null_distribution_of
from sklearn_calib.inference._populations import Populations, TablePopulations
from sklearn_calib.inference._sample_metric import Metric, SampleMetric, defined_values
from sklearn_calib.inference._sample_table import SampleTable, check_table, resolve_reduction
from sklearn_calib.inference._table_metrics import BoundMetric, JointMetric, MeanMetric, bind_metric
from sklearn_calib.metrics._metric_kernel import check_estimable, declaration
from sklearn_calib.metrics._names import as_metric
from sklearn_calib.metrics._reductions import check_problem
from sklearn_calib.metrics._summary import IntervalEstimate

# Multiples of the estimated miscalibration at which the sampling distribution can be simulated.
_MULTIPLES = (*np.arange(0.0, 1.5, 0.125), *np.outer(2.0 ** np.arange(6), (1.5, 2.0)).ravel())
# Samples of the predictions for the bias of a population value.
_MOST_RESAMPLED = 25
#: Intervals of scores from fewer samples of a class come with a warning, and do not decide.
FEWEST_EVENTS = 10
# A search begins between the first of these, and goes on to later ones while it must.
_FIRST_STEPS = (0, 8, 13, 15, 17, 19, 21, 23)


@shared_docs
@dataclass(frozen=True)
class ConfidenceInterval(IntervalEstimate):
    """Confidence interval of a metric.

    The estimate of a calibration error is biased upward by sampling noise and can lie outside the interval.
    Report ``corrected`` with the interval, and ``estimate`` together with ``expected``.

    Attributes
    ----------
    estimate : float
        What the metric returns on the sample.
    lower, upper : float
        Ends of the interval for the value in the population.
    method : {"inversion", "normal", "bootstrap"}
        How the interval was computed.
    confidence : float
        Confidence level.
    corrected : float
        The estimate, corrected for its bias. Of a calibration error, it is the value of the population, among
        those simulated for the interval, whose samples have the estimate on average, and the value of the
        perfectly calibrated population if the estimate is below ``expected``; NaN for its bootstrap. Equal to
        ``estimate`` for any other metric.
    expected : float
        Mean of the metric if the predictions were perfectly calibrated. NaN for the bootstrap, which does not
        simulate it.
    %(dependence)s
    """

    confidence: float = field(kw_only=True)
    corrected: float = field(kw_only=True)
    expected: float = field(default=float("nan"), kw_only=True)
    n_clusters: int | None = field(default=None, kw_only=True)
    design_effect: float | None = field(default=None, kw_only=True)
    n_effective: float | None = field(default=None, kw_only=True)
    weight_spread: float | None = field(default=None, kw_only=True)
    weights: str | None = field(default=None, kw_only=True)

    def __str__(self) -> str:
        interval = f"[{number_text(self.lower)}, {number_text(self.upper)}]"
        interval += f" ({self.confidence:.0%} confidence, {self.method})"
        clusters = f"; clusters: {cluster_words(self)}" if self.n_clusters else ""
        clusters += f"; weights: {weight_words(self)}" if self.weights else ""
        expected = f"expected {number_text(self.expected)}"
        if self.method == "inversion":
            estimate = f"estimate {number_text(self.estimate)}"
            return f"corrected {number_text(self.corrected)} {interval}; {estimate}, {expected}{clusters}"
        expected = "" if np.isnan(self.expected) else f"; {expected}"
        return f"estimate {number_text(self.estimate)} {interval}{expected}{clusters}"

    _repr_html_ = text_html


@shared_docs
def confidence_interval(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    metric: str | Metric = "smooth_ece",
    method: Literal["auto", "inversion", "bootstrap"] = "auto",
    confidence: float = 0.95,
    n_resamples: int = 200,
    random_state: int | np.random.Generator | np.random.RandomState | None = 0,
    sample_weight: ArrayLike | None = None,
    weights: Weights = "sampling",
    clusters: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Literal["classwise", "confidence", "top-label"] | None = None,
    labels: ArrayLike | None = None,
) -> ConfidenceInterval:
    r"""Compute a confidence interval for the population value of a metric.

    The estimate of a calibration error is biased upward, most of all where the population value is zero, and
    bootstrap samples add to the bias: bootstrap intervals are too high and may not even contain the
    estimate. For calibration errors, the sampling distribution is therefore simulated along a path of
    populations, from perfectly calibrated to more miscalibrated than estimated. The interval contains the
    values of those populations in which the estimate is not rejected, and those of constant shifts that
    agree with the number of events. Intervals of the Brier score and the log loss, which are means over the
    samples, are normal, and those of all other metrics are those of the bootstrap.

    Parameters
    ----------
    %(inference_sample)s
    %(metric)s
        Its parameters should not depend on the sample size.
    method : {"auto", "inversion", "bootstrap"}, default="auto"
        "auto" is "inversion" for a calibration error, that is a metric which is declared to be 0 under
        perfect calibration (:class:`~sklearn_calib.metrics.MetricKernel`), the normal interval of a mean for
        "brier_score" and "log_loss", and "bootstrap" for any other metric, such as the AUC, the net benefit
        or a function of yours. "bootstrap" is not recommended for calibration errors: its intervals are too
        high, as explained above.
    confidence : float, default=0.95
        Confidence level in (0, 1).
    n_resamples : int, default=200
        Number of simulated samples for each population of the path, at least 20; of metrics that fit a
        curve to each of them or solve a program, such as the ICI, the smooth calibration error and the lower
        distance to calibration, a quarter of that, but not less than 50. The number of bootstrap samples is
        ``5 * n_resamples - 1``.
    %(random_state)s
    %(inference_weight)s
    %(clusters)s
    %(pos_label)s
    %(inference_reduction)s

    Returns
    -------
    ConfidenceInterval
        Estimate, ends, and for calibration errors the corrected value and the mean under perfect calibration.

    Raises
    ------
    %(invalid)s

    Notes
    -----
    **Inversion.** The interval is found by inverting tests. Let m be the smoothed calibration curve of
    :func:`sklearn_calib.metrics.smooth_ece_result`. Population :math:`\lambda` has predictions distributed as
    in the sample and event probabilities :math:`p + \lambda (m(p) - p)`, clipped to [0, 1]. With
    :math:`\theta` the metric of the population, :math:`q_a` the a-quantile of the metric T of its simulated
    samples and :math:`\alpha_1 + \alpha_2 = 1 - \text{confidence}`, the population is accepted if

    .. math:: q_{\alpha_1} - \max(\mathrm{E}\, T - \theta, 0) \le \text{estimate} \le q_{1 - \alpha_2}.

    The upper end is at least the metric of constant shifts of the predictions that the score interval with
    continuity correction [1]_ of the number of events contains. If perfect calibration is not rejected, the
    lower end is 0. Where no population of the path is too miscalibrated, as where a threshold of the
    predictions separates the outcomes, m is the event frequency of each distinct prediction. Of more than
    4096 distinct predictions, samples are simulated in 2048 bins of neighbors. docs/intervals.md has the
    reasons, sampling weights, multiclass and multilabel targets, and the paths of some metrics.

    **Scores.** The interval of a binary problem contains the metric for the event rates between their exact
    limits (Clopper and Pearson; with weights or clusters at the effective number of samples), that is of the
    sample with its events weighted by one number and its other samples by another. So it has a length if all
    outcomes are equal. That of a mean loss contains the loss for the exact limits of the accuracy, too, and
    has a length if the likelier outcome of every sample has occurred.

    **Normal.** The ends are the mean :math:`\pm z` standard errors; with C clusters, the standard error is
    that of the sums over clusters, and z the quantile of Student's t distribution with C - 1 degrees of
    freedom.

    **Bootstrap.** The ends are the :math:`(1 \mp \text{confidence}) / 2` quantiles of the metric of samples
    drawn with replacement from the samples, or from the clusters. Samples on which it is undefined (NaN),
    such as the AUC without events, are left out. The interval is too short if the metric depends on few of
    them, such as fewer than ten events or errors. So is a normal one: fewer than ten samples of a class lead
    to a warning.

    Either method costs five to eleven times ``n_resamples`` evaluations of the metric, many at a time for
    metrics with a kernel (:class:`~sklearn_calib.metrics.MetricKernel`).

    References
    ----------
    .. [1] E. B. Wilson (1927). Probable inference, the law of succession, and statistical inference. Journal
       of the American Statistical Association 22. With the continuity correction of R. G. Newcombe (1998),
       Two-sided confidence intervals for the single proportion, Statistics in Medicine 17.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import confidence_interval
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> y = rng.random(500) < p**2
    >>> interval = confidence_interval(y, p, metric="cutoff_calibration_error")
    >>> interval.lower < 1 / 6 < interval.upper
    True
    """
    _validation.check_fraction(confidence, "confidence")
    _validation.check_option(method, "method", ("auto", "inversion", "bootstrap"))
    seed = _validation.seed_of(random_state)
    n_resamples = _validation.check_size(
        _validation.check_resamples(n_resamples, confidence), "n_resamples", minimum=20
    )
    metric = as_metric(metric)
    invertible = declaration(metric).calibration_error
    if method == "inversion" and not invertible:
        raise ValueError(
            "method='inversion' needs a calibration error, but metric is not declared to be one. Use "
            "method='bootstrap', or decorate a metric that is 0 in the population under perfect calibration "
            "with MetricKernel(calibration_error=True)."
        )
    bootstrap = method == "bootstrap" or not invertible
    metric, resolved = resolve_reduction(metric, reduction)
    checked = check_table(y_true, y_proba, sample_weight, weights, clusters, pos_label, resolved, labels)
    if isinstance(checked, _validation.BinarySample) and not bootstrap:
        sample: Any = group_sample(checked)
        check_estimable(metric, sample.total, sample.prob)
        interval = SharedIntervals(checked, confidence, n_resamples, seed, keep=False).interval(metric)
    else:
        bound = bind_metric(metric, checked, resolved, pool=not (bootstrap and invertible), population=True)
        sample, rng = bound.sample, np.random.default_rng(seed)
        exact = isinstance(checked, _validation.BinarySample) and has_exact_limits(metric)
        if bootstrap and sample.rarest < FEWEST_EVENTS and not exact:
            _validation.warn_user(
                f"The rarer class has only {sample.rarest:g} samples. Intervals of metrics that are not "
                f"calibration errors can be too short with fewer than {FEWEST_EVENTS}; use more samples."
            )
        if method == "auto" and (loss := loss_of(metric)):
            problem: Any = checked
            if not isinstance(checked, _validation.BinarySample):
                problem = check_problem(
                    y_true, y_proba, sample_weight, pos_label, labels, clusters, weights=weights
                )
            interval = _normal(mean_loss(loss, problem, resolved, 1.0 - confidence), confidence)
        elif bootstrap:
            interval = _bootstrap(bound, metric, confidence, n_resamples, rng)
            interval = replace(interval, corrected=np.nan) if invertible else interval
            if isinstance(checked, _validation.BinarySample):
                interval = _with_limits(interval, metric, checked)
        elif isinstance(bound, MeanMetric):
            interval = interval_by_inversion(
                bound, TablePopulations.estimated(bound, n_resamples, rng), confidence
            )
        else:
            raise ValueError(
                "A calibration error of the whole vector of probabilities has no interval by inversion. Pass "
                "reduction='classwise', 'confidence' or 'top-label', or method='bootstrap', whose intervals "
                "are too high."
            )
    if clusters is not None and sample.clusters is None:
        interval = replace(interval, **single_clusters(checked.total))
    return replace(interval, **weight_fields(checked, sample.clusters, sample.sampled_probability))


def _with_limits(
    interval: ConfidenceInterval, metric: Metric, sample: _validation.BinarySample
) -> ConfidenceInterval:
    low, high = least_limits(metric, sample, 1.0 - interval.confidence)
    return replace(interval, lower=min(interval.lower, low), upper=max(interval.upper, high))


class SharedIntervals:
    """Intervals and null distributions of several metrics of one checked sample.

    They are those of :func:`confidence_interval`. All metrics are evaluated on the same simulated samples,
    which ``keep`` stores. Of many distinct predictions, neighbors are pooled for calibration errors; for one
    that takes long for each sample, there are fewer bins and samples.
    """

    def __init__(
        self,
        sample: _validation.BinarySample,
        confidence: float,
        n_resamples: int,
        seed: int,
        keep: bool = True,
    ) -> None:
        self.sample, self.confidence, self.n_resamples, self.seed = sample, confidence, n_resamples, seed
        self.grouped = group_sample(sample)
        fields = weight_fields(sample, self.grouped.clusters, self.grouped.sampled_probability)
        self.weight_fields, self.keep = fields, keep

    @cached_property
    def populations(self) -> Populations:
        """Populations for most metrics."""
        return self._populations(self.n_resamples, DISTINCT, self.keep)

    def interval(self, metric: Metric) -> ConfidenceInterval:
        """Return the confidence interval, with the estimate from all distinct predictions."""
        if loss := loss_of(metric):
            mean = mean_loss(loss, self.sample, None, 1.0 - self.confidence)
            return replace(_normal(mean, self.confidence), **self.weight_fields)
        if not declaration(metric).calibration_error:
            bound = self.score(metric)
            rng = np.random.default_rng(self.seed)
            interval = _bootstrap(bound, metric, self.confidence, self.n_resamples, rng)
            return replace(_with_limits(interval, metric, self.sample), **self.weight_fields)
        populations = self._affordable(metric)
        interval = interval_by_inversion(self._bound(metric, populations), populations, self.confidence)
        interval = replace(interval, **self.weight_fields)
        if populations.grouped is self.grouped:
            return interval
        weights = {} if self.sample.w is None else {"sample_weight": self.sample.w}
        return replace(interval, estimate=float(metric(self.sample.y, self.sample.p, **weights)))

    def score(self, metric: Metric) -> SampleMetric:
        """Return a metric that is not a calibration error, on the samples."""
        return SampleMetric(
            metric, self.grouped, weighted=self.sample.w is not None, w=self.sample.sampling_weights
        )

    def null(self, metric: Metric) -> NullDistribution:
        """Return the null distribution."""
        populations = self._affordable(metric)
        rng = np.random.default_rng(self.seed)
        bound = self._bound(metric, populations)
        return null_distribution_of(bound, populations.n_resamples, rng, self.confidence)

    def _affordable(self, metric: Metric) -> Populations:
        kernel, n_resamples = declaration(metric), self.n_resamples
        # a function of yours may depend on every prediction
        most = kernel._most_distinct if kernel.make else sys.maxsize
        if most == DISTINCT:
            return self.populations
        if most < DISTINCT:
            n_resamples = max(min(50, n_resamples), n_resamples // 4)
        return self._populations(n_resamples, most)

    def _populations(self, n_resamples: int, most: int, keep: bool = False) -> Populations:
        small = pooled_if_many(self.grouped, most)
        return Populations.estimated(small, n_resamples, np.random.default_rng(self.seed), keep)

    def _bound(self, metric: Metric, populations: Populations) -> SampleMetric:
        small = populations.grouped
        return SampleMetric(
            metric, small, weighted=bool((small.weight != 1).any()), w=self.sample.sampling_weights
        )


def _normal(found: Mean, confidence: float) -> ConfidenceInterval:
    """Return the interval of a mean."""
    ends, expected = (found.estimate, found.lower, found.upper), found.expected
    return ConfidenceInterval(
        *ends, "normal", confidence=confidence, corrected=found.estimate, expected=expected
    )


def _range_of(metric: Metric, joint: bool) -> tuple[float, float]:
    """Return the range of a metric of binary problems, or with ``joint`` of vectors of probabilities."""
    kernel = declaration(metric)
    if kernel._loss is not None:
        return 0.0, kernel._loss.largest * (1.0 if joint else 0.5)
    return (0.0, np.inf) if kernel.calibration_error else kernel._range


def _bootstrap(
    bound: BoundMetric, metric: Metric, confidence: float, n_resamples: int, rng: np.random.Generator
) -> ConfidenceInterval:
    """Return the interval of the percentile bootstrap."""
    alpha, estimate, sample = 1.0 - confidence, bound.estimate, bound.sample
    if estimate == np.inf:
        # an observed loss that is infinite has a positive probability
        ends = np.array([np.inf, np.inf])
    else:
        n_draws = 5 * n_resamples - 1
        samples: Iterator[tuple[Array, Any]] = (
            sample.bootstrapped(n_draws, rng)
            if isinstance(sample, SampleTable)
            else bootstrap_counts(sample, n_draws, rng)
        )
        draws = defined_values(starmap(bound.values, samples))
        ends = np.quantile(draws, [alpha / 2, 1 - alpha / 2], method="weibull")
        if sample.clusters is not None:
            ends = estimate + sample.clusters.widening(alpha) * (ends - estimate)
            ends = np.clip(ends, *_range_of(metric, isinstance(bound, JointMetric)))
        if isinstance(bound, SampleMetric) and not bound.is_error:
            least, most = bound.at_exact_rates(confidence)
            ends = np.array([min(least, ends[0]), max(most, ends[1])])
    low, high = ends.tolist()
    dependence = dependence_of(sample.clusters, sample.sampled_probability)
    return ConfidenceInterval(
        estimate, low, high, "bootstrap", confidence=confidence, corrected=estimate, **dependence
    )


def interval_by_inversion(
    bound: SampleMetric | MeanMetric, populations: Populations | TablePopulations, confidence: float
) -> ConfidenceInterval:
    """Return the interval by inversion, from samples of populations with the predictions of ``bound``."""
    path = _Path(bound, populations, 1.0 - confidence)
    low, high = path.invert()
    if path.accepted_to_its_end:
        # the smoothed curve does not reach a sample like this, as of outcomes that a threshold separates
        populations = populations.with_direction(populations.residual)
        path = _Path(bound, populations, path.alpha)
        low, high = path.invert()
        if isinstance(bound, SampleMetric):
            high = max(high, bound.at_exact_rates(confidence)[1])
    for direction in populations.least_favorable(bound.least_favorable, path.alpha):
        low = min(low, _Path(bound, populations.with_direction(direction), path.alpha).lowest())
    return ConfidenceInterval(
        bound.estimate,
        float(low),
        float(high),
        "inversion",
        confidence=confidence,
        expected=path.expected,
        corrected=float(min(max(path.corrected(), low), high)),
        **dependence_of(bound.sample.clusters, bound.sample.sampled_probability),
    )


@dataclass(frozen=True)
class _Point:
    """One population: the metric in it, its mean in samples, and the quantiles for its acceptance."""

    multiple: float
    value: float
    mean: float
    lower: float
    upper: float


class _Path:
    """A metric along the path of populations."""

    def __init__(
        self, bound: SampleMetric | MeanMetric, populations: Populations | TablePopulations, alpha: float
    ) -> None:
        self.bound = bound
        self.populations = populations
        self.alpha = alpha
        self.points: dict[int, _Point] = {}
        self.null = self.draws(0.0)
        self.expected = float(self.null.mean())

    def draws(self, multiple: float) -> Array:
        """Return the metric of samples from the population."""
        draws = np.concatenate(list(starmap(self.bound.values, self.populations.samples(multiple))))
        if multiple and isinstance(self.populations, TablePopulations):
            draws = draws + self.populations.variation(self.bound, multiple)
        return defined_values([draws])

    def value(self, multiple: float) -> float:
        """Return the metric of the population.

        The population consists of the sampled predictions. A maximum over thresholds is larger for these than
        for their distribution, by a bias b that is proportional to the standard deviation of the sample.
        Predictions that are resampled from the sample have the bias 2^(1/2) b, and the difference gives b.
        Metrics that declare a least favorable direction are corrected for it.
        """
        truth = self.populations.truth(multiple)
        value = self.bound.population(truth)
        if self.bound.least_favorable is None:
            return value
        count = next(self.populations.samples(multiple))[0][:, :_MOST_RESAMPLED]
        resampled = float(self.bound.resampled_populations(truth, count).mean())
        return float(np.clip(value - (resampled - value) / (np.sqrt(2.0) - 1.0), 0.0, 1.0))

    def at(self, step: int) -> _Point:
        """Return the population at a multiple, simulated when it is first needed."""
        if step not in self.points:
            multiple = _MULTIPLES[step]
            draws = self.draws(multiple) if multiple else self.null
            # a calibration error is 0 in the calibrated population, of which the sample is a discrete copy
            value = self.value(multiple) if multiple else 0.0
            signal = value / self.expected if self.expected > 0 else np.inf
            alpha_low = 0.5 * self.alpha * (1.0 - np.exp(-signal * signal))
            # the j-th of N simulated values is exceeded with probability 1 - j / (N + 1)
            lower = float(np.quantile(draws, alpha_low, method="weibull"))
            upper = float(np.quantile(draws, 1.0 - (self.alpha - alpha_low), method="weibull"))
            # other populations with the same value can have samples without bias
            mean = float(draws.mean())
            lower -= max(mean - value, 0.0)
            self.points[step] = _Point(multiple, value, mean, lower, upper)
        return self.points[step]

    def lowest(self) -> float:
        """Return the least value that is accepted."""
        # the kernel can separate what is tied with the estimate
        estimate, slack = self.bound.estimate, self.bound.accuracy
        left, right, fraction = self._crossing(lambda point: point.upper, estimate - slack)
        if right.upper <= estimate + slack:
            # no population exceeds the estimate: the one on the left is accepted as well
            fraction = 0.0
        return (
            left.value
            + fraction * (right.value - left.value)
            + _beyond(right, estimate - slack - right.upper)
        )

    def invert(self) -> tuple[float, float]:
        """Return the least and greatest value that is accepted."""
        low, level = self.lowest(), self.bound.estimate + self.bound.accuracy
        left, right, fraction = self._crossing(lambda point: point.lower, level)
        high = left.value + fraction * (right.value - left.value) + _beyond(right, level - right.lower)
        at_shifts = [self.bound.population(truth) for truth in self.populations.shifts(self.alpha)]
        return min(low, high), max(low, high, *at_shifts)

    @property
    def accepted_to_its_end(self) -> bool:
        """Whether no population of the path is too miscalibrated for the estimate."""
        last = self.points.get(len(_MULTIPLES) - 1)
        return last is not None and last.lower < self.bound.estimate + self.bound.accuracy

    def corrected(self) -> float:
        """Return the value of the population whose samples have the estimate on average.

        By interpolation between the populations that the interval has simulated.
        """
        known = [self.points[step] for step in sorted(self.points)]
        means = np.maximum.accumulate([point.mean for point in known])
        return float(np.interp(self.bound.estimate, means, [point.value for point in known]))

    def _crossing(self, quantile: Callable[[_Point], float], level: float) -> tuple[_Point, _Point, float]:
        """Return two populations and the fraction of the way where a quantile reaches the level.

        By bisection of the multiples, and interpolation between the last two. The quantile grows along the
        path; if it has not reached the level at its end, or has at its beginning, both populations are these.
        """
        before, after = -1, -1
        for step in _FIRST_STEPS:
            if quantile(self.at(step)) >= level:
                after = step
                break
            before = step
        if after < 0 or before < 0:
            end = self.at(before if after < 0 else after)
            return end, end, 0.0
        while after - before > 1:
            middle = (before + after) // 2
            if quantile(self.at(middle)) >= level:
                after = middle
            else:
                before = middle
        left, right = self.at(before), self.at(after)
        return left, right, (level - quantile(left)) / (quantile(right) - quantile(left))


def _beyond(end: _Point, missing: float) -> float:
    """Return how far an accepted value exceeds that of the end of the path, whose quantile is too small.

    Beyond the end, value and quantiles are assumed to grow alike, as far as an error of 1.
    """
    return float(np.clip(missing, 0.0, max(1.0 - end.value, 0.0)))
