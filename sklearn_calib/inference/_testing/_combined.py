"""Several tests of calibration as one, with the exact joint null distribution of their statistics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_calib import _validation
from sklearn_calib._core._binning import octaves_pooled
from sklearn_calib._core._grouping import DISTINCT, GroupedOutcomes, group_sample
from sklearn_calib._core._links import logit
from sklearn_calib._core._null import TIE, draw_positives, monte_carlo_pvalue
from sklearn_calib._typing import Array
from sklearn_calib.inference._testing import _simulated
from sklearn_calib.inference._testing._base import CalibrationTest, CalibrationTestResult, result_of
from sklearn_calib.inference._testing._classes import ranks
from sklearn_calib.inference._testing._cox import CoxTest
from sklearn_calib.inference._testing._cutoff import CutoffTest
from sklearn_calib.inference._testing._spiegelhalter import SpiegelhalterTest
from sklearn_calib.inference._testing._tcal import (
    BinaryScales,
    TCal,
    samples_at_once,
    scale_weights,
    tails_of_scales,
    usable_scales,
)
from sklearn_calib.metrics._cutoff import cutoff_of_groups, walk_ranges

_DEFAULT = ("tcal", "cutoff", "slope")
# Components with power against many alternatives, which count twice.
_OMNIBUS = ("tcal", "cutoff")
# "asymptotic" counts greater p-values as this: the cotangent of 1 is infinite.
_LARGEST = 0.95
# Many distinct predictions are pooled in the bins of a sketch of this precision, on which a sample and its
# sketch agree.
_PRECISION = 11
# Smaller deviations from the mean, relative to the greatest log-odds, are rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class TestComponent:
    """One of the tests that were combined.

    Attributes
    ----------
    name : str
        Its name among the components.
    statistic : float
        Its statistic; large values are evidence against calibration.
    pvalue : float
        Its p-value, if it were the only test.
    """

    # the name would make pytest collect it
    __test__ = False

    name: str
    statistic: float
    pvalue: float


class CombinedTest(_simulated.SimulatedTest):
    """Test of calibration that is sensitive to oscillating, local, constant and slope errors at once.

    No single test is the most powerful against every kind of miscalibration. This one computes several
    statistics on the same simulated outcomes and compares the weighted harmonic mean of their p-values [1]_,
    to which every small p-value contributes, with its null distribution, simulated together with the
    components. For independent samples the level of "monte_carlo" is exact, whatever the correlation of the
    components.

    Parameters
    ----------
    components : sequence of str, default=("tcal", "cutoff", "slope")
        What is combined, at least one of: "tcal", minus the logarithm of the smallest p-value over weight of
        all scales (:class:`TCal`); "cutoff", the range of the cumulative residuals (:class:`CutoffTest`);
        "intercept" and "slope", the score tests of the logistic recalibration (:class:`CoxTest`): the second
        is that of a slope where the intercept is free; "spiegelhalter", the squared z
        (:class:`SpiegelhalterTest`).
    weights : sequence of float or None, default=None
        Weights of the components: positive numbers, in proportion. None gives "tcal" and "cutoff" the weight
        2 and every other component the weight 1.
    method : {"auto", "asymptotic", "monte_carlo"}, default="auto"
        "monte_carlo": outcomes are simulated from the predictions, which is exact for any n. "asymptotic":
        the asymptotic p-values of the component tests, combined as in [2]_, for large n. See Notes. "auto":
        as :class:`TCal`.
    %(simulated)s

    Attributes
    ----------
    result_ : CalibrationTestResult
        The result on the data given to ``fit``, with a :class:`TestComponent` for each component.
    %(tested_fit)s

    Notes
    -----
    With residual sums R_g, variances v_g = w_g p_g (1 - p_g) and x = logit(p), centered at its mean with
    weights v, the score statistics are (sum R)^2 / sum v and (sum R x)^2 / sum v x^2. Among the sample and
    the simulated samples, the p-value p_jk of component k in sample j is the fraction of them whose statistic
    is at least as large. With weights w_k that sum to 1 they are combined into ::

        H_j = 1 / sum_k (w_k / p_jk).

    The p-value of the test is the fraction of samples with H_j at most that of the sample. Since all are
    exchangeable under the null hypothesis, this is exact whatever the correlation of the components.
    ``estimate`` is the cutoff calibration error.

    The default components and weights were chosen by the simulation ``benchmarks/error_rates.py power``, for
    a small largest loss of power to the best single test.

    For small p-values w_k / p_k is close to w_k pi cot(pi p_k), which has a Cauchy distribution for uniform
    p_k; so has a weighted mean of them if they are independent, and nearly so in its upper tail if they are
    not. "asymptotic" gives the upper tail probability of sum_k w_k cot(pi min(p_k, .95)), as
    in [2]_. ``benchmarks/error_rates.py level`` estimates its level.

    More than 4096 distinct predictions are pooled in about 2000 bins of width 2^-11, and in 8 bins for each
    octave of p below 2^-8 and of 1 - p; "asymptotic" pools them for "tcal" only. The bins are unions of those
    of a :class:`~sklearn_calib.sketch.CalibrationSketch`, so that p-values of a sample and of its sketch
    agree; miscalibration within one bin is not detected. Samples with clusters are not pooled.

    Cost: one sort, and O(distinct predictions, at most about 3000) for each simulated sample.

    References
    ----------
    .. [1] D. J. Wilson (2019). The harmonic mean p-value for combining dependent tests. Proceedings of the
       National Academy of Sciences 116.
    .. [2] Y. Liu and J. Xie (2020). Cauchy combination test: a powerful test with analytic p-value
       calculation under arbitrary dependency structures. Journal of the American Statistical Association 115.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import CombinedTest
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.2, 0.8, size=1000)
    >>> y = rng.uniform(size=1000) < p + 0.15 * np.sin(40 * p)
    >>> result = CombinedTest().test(y, p)
    >>> result.rejects(0.01), min(result.scales, key=lambda component: component.pvalue).name
    (True, 'tcal')
    """

    def __init__(
        self,
        *,
        components: Sequence[str] = _DEFAULT,
        weights: Sequence[float] | None = None,
        method: str = "auto",
        n_resamples: int = 999,
        reduction: str = "joint",
        random_state: Any = 0,
    ) -> None:
        self.components = components
        self.weights = weights
        super().__init__(
            method=method, n_resamples=n_resamples, reduction=reduction, random_state=random_state
        )

    def _check_parameters(self) -> None:
        if not _is_list(self.components) or not len(self.components):
            raise ValueError(
                f"components must be a sequence of names, got {self.components!r}. Choose among "
                f"{', '.join(map(repr, _COMPONENTS))}."
            )
        for name in self.components:
            _validation.check_option(name, "components", tuple(_COMPONENTS))
        if len(set(self.components)) < len(self.components):
            raise ValueError(f"components names a test twice: {list(self.components)}.")
        if self.weights is not None:
            if not _is_list(self.weights) or len(self.weights) != len(self.components):
                raise ValueError(
                    f"weights must hold one positive number for each of the {len(self.components)} "
                    f"components, got {self.weights!r}."
                )
            for weight in self.weights:
                _validation.check_positive(weight, "weights")
        super()._check_parameters()

    def _test_sample(self, sample: _validation.BinarySample) -> CalibrationTestResult:
        names = list(self.components)
        weights, grouped = self._weights(), group_sample(sample)
        # sorted once for all components
        sample.cache.setdefault("grouped", grouped)
        pooled, plain = grouped, sample.clusters is None and not sample.sampling
        if grouped.prob.shape[0] > DISTINCT and plain:
            pooled = octaves_pooled(grouped, _PRECISION)
        if _simulated.simulates(self.method, _simulated.is_large(sample), sample.clusters):
            # groups of ties, in sorted order
            scales = BinaryScales(pooled, None)
            values = self._simulate(scales.samples, [_COMPONENTS[name](scales) for name in names])
            observed, method = values[0], f"{self.n_resamples} simulations, harmonic mean"
            slack = TIE * (np.abs(observed) + 1.0)
            columns = zip(values.T, slack, strict=True)
            pvalues = np.column_stack([ranks(column, column, tie) for column, tie in columns])
            own = pvalues[0]
            mean = 1.0 / (weights / pvalues).sum(axis=1)
            statistic, null = float(mean[0]), mean[1:]
            pvalue = monte_carlo_pvalue(-statistic, -null)
        else:
            # "tcal" is tested on the pooled sample
            samples = {"tcal": _validation.BinarySample(*pooled.rows()) if plain else sample}
            results = [_TESTS[name]._test_sample(samples.get(name, sample)) for name in names]
            observed = np.array([result.statistic for result in results])
            own, null = np.array([result.pvalue for result in results]), None
            statistic, method = float(1.0 / (weights / own).sum()), "asymptotic, Cauchy combination"
            total = float((weights / np.tan(np.pi * np.minimum(own, _LARGEST))).sum())
            # P(Cauchy >= total), accurate in the tail; without any information the p-value is 1
            pvalue = float(np.arctan2(1.0, total) / np.pi) if own.min() < 1.0 else 1.0
        decided = names[int((own / weights).argmin())]
        return result_of(
            grouped,
            test="combined test",
            statistic=statistic,
            pvalue=pvalue,
            estimate=cutoff_of_groups(grouped),
            method=f"{method} of {len(names)}",
            scales=tuple(
                TestComponent(name, float(value), float(p))
                for name, value, p in zip(names, observed, own, strict=True)
            ),
            null_distribution=null,
            reason=f"smallest weighted p-value: {decided}",
            tail="lower",
        )

    def _weights(self) -> Array:
        """Return the weights of the level; they sum to 1."""
        if self.weights is not None:
            weights = np.array(self.weights, dtype=np.float64)
        else:
            weights = np.array([2.0 if name in _OMNIBUS else 1.0 for name in self.components])
        out: Array = weights / weights.sum()
        return out

    def _simulate(self, grouped: GroupedOutcomes, parts: "list[Statistic]") -> Array:
        """Return the statistics of the sample, in the first row, and of samples with simulated outcomes."""
        own = grouped.positives[:, np.newaxis].astype(np.float64)
        values = [np.column_stack([part(own) for part in parts])]
        generator = _validation.check_generator(self.random_state)
        at_once = samples_at_once(grouped.prob.shape[0])
        for positives in draw_positives(grouped, self.n_resamples, generator, at_once):
            drawn = positives.astype(np.float64)
            values.append(np.column_stack([part(drawn) for part in parts]))
        return np.concatenate(values)


#: Statistics, one for each column of a matrix of positives.
Statistic = Callable[[Array], Array]


def tcal_evidence(scales: BinaryScales) -> Statistic:
    """Return the statistic of T-Cal with all scales: minus the logarithm of its smallest weighted p-value."""
    moments = scales.moments
    usable = usable_scales(moments)
    if usable == 0:
        return lambda positives: np.zeros(positives.shape[1])
    statistics, deviation = scales.statistic(scales.samples.prob), moments.deviation[:usable]
    skewness = moments.third_cumulant[:usable] / moments.variance[:usable] ** 1.5
    weights = scale_weights(scales.n_bins.shape[0])[:usable]

    def evidence(positives: Array) -> Array:
        z = statistics(positives)[:, :usable] / deviation
        tails = tails_of_scales(z, skewness, moments.pairs[:usable])
        out: Array = -np.log((tails / weights).min(axis=1))
        return out

    return evidence


def _cutoff(scales: BinaryScales) -> Statistic:
    grouped = scales.grouped
    expected = (grouped.weight * grouped.prob)[:, np.newaxis]
    deviation = np.sqrt(grouped.variance.sum() * scales.spread.own)

    def statistic(positives: Array) -> Array:
        reach = (
            walk_ranges(grouped.weighted_sums(positives) - expected)
            * scales.spread.relative(positives) ** 0.5
        )
        return reach / deviation if deviation > 0.0 else np.zeros_like(reach)

    return statistic


def _along(scales: BinaryScales, covariate: Callable[[Array], Array]) -> Statistic:
    """Return the squared sum of residuals times a covariate, a function of p, over its variance."""
    grouped = scales.grouped
    along, spread = covariate(grouped.prob), _simulated.variance_ratio_of(grouped, covariate)
    variance = float(grouped.variance @ along**2) * spread.own
    center = float(along @ (grouped.weight * grouped.prob))
    if variance <= 0.0:
        return lambda positives: np.zeros(positives.shape[1])
    return lambda positives: (
        (along @ grouped.weighted_sums(positives) - center) ** 2 / variance * spread.relative(positives)
    )


def _slope(scales: BinaryScales) -> Statistic:
    x, v = logit(scales.grouped.prob), scales.grouped.variance
    total = v.sum()
    middle = x @ v / total if total > 0.0 else 0.0

    def covariate(p: Array) -> Array:
        centered: Array = logit(p) - middle
        # a single uncertain group lies at the mean, up to rounding
        centered[np.abs(centered) <= _ROUNDING * np.abs(x).max()] = 0.0
        return centered

    return _along(scales, covariate)


def _is_list(value: Any) -> bool:
    """Return whether ``value`` is a sequence; an array if it has one dimension."""
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    return isinstance(value, Sequence) and not isinstance(value, str)


_COMPONENTS: dict[str, Callable[[BinaryScales], Statistic]] = {
    "tcal": tcal_evidence,
    "cutoff": _cutoff,
    "intercept": lambda scales: _along(scales, np.ones_like),
    "slope": _slope,
    "spiegelhalter": lambda scales: _along(scales, lambda p: 1.0 - 2.0 * p),
}

_TESTS: dict[str, CalibrationTest] = {
    "tcal": TCal(method="asymptotic"),
    "cutoff": CutoffTest(method="asymptotic"),
    "intercept": CoxTest(parameter="intercept", method="asymptotic"),
    "slope": CoxTest(parameter="slope", method="asymptotic"),
    "spiegelhalter": SpiegelhalterTest(method="asymptotic"),
}
