"""p-values of tests from simulated outcomes, Y* ~ Bernoulli(p): when, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib import _validation
from sklearn_calib._core._clusters import dependence_of
from sklearn_calib._core._grouping import GroupedOutcomes, group_sample
from sklearn_calib._core._links import logit
from sklearn_calib._core._null import TIE, draw_positives, monte_carlo_pvalue
from sklearn_calib._typing import Array
from sklearn_calib.inference._testing._base import CalibrationTest, CalibrationTestResult
from sklearn_calib.inference._testing._tails import null_tail

_METHODS = ("auto", "asymptotic", "monte_carlo")

# Smallest ratio of variances under the weighted null hypothesis.
_LEAST_RATIO = 0.25

# Number of observations up to which "auto" of the classical tests simulates.
MOST_SIMULATED = 10_000

# From this number of samples and null variance on, "auto" of the other tests is asymptotic.
_LARGE, _LARGE_VARIANCE = 100_000.0, 2000.0


@dataclass(frozen=True, eq=False)
class Statistic:
    """The formula of a test for one sample, with what its result says.

    ``of`` maps residual sums of the groups, (groups, r), and their predictions, (groups,), to r values of the
    statistic; None if the predictions contain no information. Values far from 0 are evidence. Asymptotically
    the absolute value has the distribution ``null`` of :func:`null_tail`, on which "auto" relies if the
    sample is ``large``. With sampling weights, simulated values are multiplied by the ``power`` of the ratio
    of variances ``spread``.
    """

    value: float
    of: Callable[[Array, Array], Array] | None
    null: str
    large: bool
    estimate: float
    reason: str
    method: str = "asymptotic"
    spread: VarianceRatio | None = None
    power: float = 0.5


class SimulatedTest(CalibrationTest):
    """Base class of tests of simulated or asymptotic p-values.

    A test is its ``_statistic``; how samples are simulated, weighted and counted is said here.
    """

    _knows_clusters = _knows_sampling = True
    _name = ""
    _tail = "upper"

    def __init__(
        self,
        *,
        method: str = "auto",
        n_resamples: int = 999,
        reduction: str = "joint",
        random_state: Any = 0,
    ) -> None:
        self.method = method
        self.n_resamples = n_resamples
        self.reduction = reduction
        self.random_state = random_state

    @property
    def _simulates_labels(self) -> bool:
        return True

    def _check_parameters(self) -> None:
        _validation.check_option(self.method, "method", _METHODS)
        _validation.check_size(self.n_resamples, "n_resamples")
        _validation.check_randomness(self.random_state)

    def _statistic(self, sample: _validation.BinarySample) -> Statistic:
        raise AssertionError("a test defines _statistic or _test_sample")

    def _test_sample(self, sample: _validation.BinarySample) -> CalibrationTestResult:
        found = self._statistic(sample)
        null, method, asymptotic_null, pvalue, clustered = None, found.method, "", 1.0, {}
        simulate = simulates(self.method, found.large, sample.clusters)
        if found.of is not None and simulate:
            grouped, of = group_sample(sample), found.of
            spreads = () if found.spread is None else (found.spread,)
            # residuals have no rounding error where outcomes are almost certain
            expected = (grouped.weight * grouped.prob)[:, np.newaxis]

            def values(positives: Array) -> Array:
                return of(positives - expected, grouped.prob)

            null = simulated(self, grouped, values, *spreads, power=found.power)
            pvalue = monte_carlo_pvalue(abs(found.value), np.abs(null), TIE)
            method = f"{self.n_resamples} simulations{', two-sided' if self._tail == 'two-sided' else ''}"
        elif found.of is not None:
            pvalue, asymptotic_null = null_tail(found.null, found.value), found.null
        if sample.clusters is not None:
            grouped = group_sample(sample)
            clustered = dependence_of(grouped.clusters, grouped.prob)
        return CalibrationTestResult(
            test=self._name,
            null_hypothesis="P(Y = 1 | p) = p",
            statistic=found.value,
            pvalue=pvalue,
            estimate=found.estimate,
            method=method,
            n_samples=round(sample.total),
            null_distribution=null,
            reason=found.reason,
            tail=self._tail,
            asymptotic_null=asymptotic_null,
            **clustered,
        )


def is_large(sample: _validation.BinarySample) -> bool:
    """Tell whether asymptotic distributions are accurate, and simulations slow."""
    return sample.total >= _LARGE and float(sample.weights @ (sample.p * (1.0 - sample.p))) >= _LARGE_VARIANCE


def simulates(method: str, large: bool, clusters: Any = None) -> bool:
    """Tell whether the p-value is simulated: with clusters always, by "auto" if not ``large``."""
    if method == "asymptotic":
        refuse_clusters(clusters, "method", method, "monte_carlo")
    return clusters is not None or method == "monte_carlo" or (method == "auto" and not large)


def refuse_clusters(clusters: Any, parameter: str, value: str, instead: str) -> None:
    """Raise ValueError if there are clusters and the chosen method assumes independent samples."""
    if clusters is not None:
        raise ValueError(
            f"{parameter}={value!r} assumes independent samples and cannot be given clusters. Use "
            f"{parameter}={instead!r}."
        )


@dataclass(frozen=True, eq=False)
class VarianceRatio:
    """Variance of weighted residuals if the weighted population is calibrated, over that at each weight.

    With sampling weights w, predictions can be calibrated in the population, and not among the samples of a
    given weight. The variance of a sum of w u (y - p) is then estimated by the sum of

        w^2 u^2 v + w (w - c) u^2 (1 - 2 p) (r - v x' beta),   v = p (1 - p),   r = y - p,   x = (1, logit p),
        beta = (sum w v x x')^-1 sum w x r,   c = sum w^2 u^2 v / sum w u^2 v,

    where beta, a step of the weighted logistic recalibration, removes from r^2 = v + (1 - 2 p) r the
    miscalibration that is to be detected. As w (1 - 2 p) r has the mean 0 in that population, c can be the
    mean weight, and weights that are nearly equal have little influence. The ratio, at least 1/4, is linear
    in the outcomes; ``own`` is that of the sample. It is computed for simulated samples, too, so that
    p-values are exact if P(Y | p, w) = p.
    """

    own: float = 1.0
    _coefficients: Array | None = None
    _expected: float = 0.0

    @classmethod
    def of(
        cls, prob: Array, count: Array, positives: Array, weight: Array, along: Array | float = 1.0
    ) -> VarianceRatio:
        """Return the ratio for cells of ``count`` samples of equal weight, and the covariate u.

        ``prob`` and ``positives`` have one column, or one for each of K classes, over which sums are taken.
        """
        if (weight == 1.0).all():
            return cls()
        rows, total = [], 0.0
        for p in prob.T:
            v, x = p * (1.0 - p), np.stack((np.ones_like(p), logit(p)))
            squares = (weight * along) ** 2
            once, variance = weight * along**2, count @ (squares * v)
            skewed = once * (weight - variance / max(count @ (once * v), 1e-300)) * (1.0 - 2.0 * p)
            information = (count * weight * v * x) @ x.T
            beta = np.linalg.pinv(information, hermitian=True) @ (x @ (count * v * skewed))
            rows.append(skewed - weight * (beta @ x))
            total += float(variance)
        if total <= 0.0:
            return cls()
        coefficients = (np.stack(rows, axis=1) / total).ravel()
        expected = float(coefficients @ (count[:, np.newaxis] * prob).ravel())
        found = cls(1.0, coefficients, expected)
        return replace(found, own=float(found._ratio(coefficients @ positives.ravel())))

    @classmethod
    def of_classes(cls, y: NDArray[np.int64], p: Array, weight: Array) -> VarianceRatio:
        """Return the ratio for samples of labels with probabilities (n, K)."""
        return cls.of(p, np.ones_like(weight), np.eye(p.shape[1])[y], weight)

    def _ratio(self, combination: Array) -> Array:
        return np.maximum(1.0 + combination - self._expected, _LEAST_RATIO)

    def relative(self, positives: Array) -> Array | float:
        """Return the ratio of the sample over those of simulated ones, from positives of cells (cells, r)."""
        return 1.0 if self._coefficients is None else self.own / self._ratio(self._coefficients @ positives)

    def relative_of_labels(self, labels: NDArray[np.int64]) -> Array | float:
        """Return the same from labels of samples (r, n)."""
        if self._coefficients is None:
            return 1.0
        n = labels.shape[1]
        each = self._coefficients.reshape(n, -1)[np.arange(n), labels]
        return self.own / self._ratio(each.sum(axis=1))


def variance_ratio_of(
    grouped: GroupedOutcomes, along: Callable[[Array], Array] | None = None
) -> VarianceRatio:
    """Return the ratio of variances of grouped outcomes, and a covariate of p; 1 without sampling weights."""
    if grouped.design is None:
        return VarianceRatio()
    cells = grouped.samples
    covariate = 1.0 if along is None else along(cells.prob)
    columns = cells.prob[:, np.newaxis], cells.weight, cells.positives[:, np.newaxis]
    return VarianceRatio.of(*columns, grouped.design.weight, covariate)


def simulated(
    test: Any,
    grouped: GroupedOutcomes,
    statistic: Callable[[Array], Array],
    *spreads: VarianceRatio,
    power: float = 0.5,
) -> Array:
    """Return the statistic of each sample that is simulated with the parameters of ``test``.

    ``statistic`` maps weights of positives, shape (groups, r), to r values, or to (r, k). With sampling
    weights, values are multiplied by the ``power`` of the ratio of variances of the sample over that of the
    simulation; ``spreads`` are those of each of k values.
    """
    values = []
    spreads = spreads or (variance_ratio_of(grouped),)
    for positives in draw_positives(
        grouped.samples, test.n_resamples, _validation.check_generator(test.random_state)
    ):
        drawn = positives.astype(np.float64, copy=False)
        found = statistic(grouped.weighted_sums(drawn))
        if grouped.design is not None:
            ratio = np.stack([spread.relative(drawn) for spread in spreads]) ** power
            found = (found.T * ratio).T.reshape(found.shape)
        values.append(found)
    return np.concatenate(values)


def conditional_sums(prob: Array, n_events: int, values: Array, n_resamples: int, random_state: Any) -> Array:
    """Return sums of ``values`` over the events of simulated samples with exactly ``n_events`` events.

    Outcomes are independent Bernoulli(prob), given their number. It is best to choose, among probabilities of
    the same odds ratios, those that sum to ``n_events``: then no probability of a count underflows.
    """
    n = prob.shape[0]
    if 2 * n_events > n:
        others = conditional_sums(1.0 - prob, n - n_events, values, n_resamples, random_state)
        return values.sum() - others
    # ahead[i, k]: probability of k events among the outcomes from i on
    ahead = np.zeros((n + 1, n_events + 1))
    ahead[n, 0] = 1.0
    for i in range(n - 1, -1, -1):
        np.multiply(ahead[i + 1], 1.0 - prob[i], out=ahead[i])
        ahead[i, 1:] += prob[i] * ahead[i + 1, :-1]
    generator = _validation.check_generator(random_state)
    left = np.full(n_resamples, n_events)
    sums = np.zeros(n_resamples)
    for i in range(n):
        # the probability of an event, times that of the count; the last entry is for -1 events
        chance = prob[i] * ahead[i + 1, left - 1] * (left > 0)
        event = generator.random(n_resamples) * ahead[i, left] < chance
        sums += values[i] * event
        left -= event
    return sums
