"""Several tests of calibration as one, with the exact joint null distribution of their statistics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib._core._links import logit
from sklearn_calib._core._null import draw_positives
from sklearn_calib._validation import (
    BinarySample,
    check_generator,
    check_option,
    check_positive,
    check_randomness,
    check_size,
)
from sklearn_calib.inference._base import CalibrationTest, CalibrationTestResult
from sklearn_calib.inference._cox import CoxTest
from sklearn_calib.inference._cutoff_test import CutoffTest
from sklearn_calib.inference._spiegelhalter import SpiegelhalterTest
from sklearn_calib.inference._tcal import (
    TIE,
    BinaryScales,
    TCal,
    samples_at_once,
    smallest_pvalue,
    usable_scales,
    weighted_tails,
)
from sklearn_calib.metrics._cutoff import cutoff_of_groups, walk_ranges

__all__ = ["CombinedTest", "TestComponent"]

Array = NDArray[np.float64]

_DEFAULT = ("tcal", "intercept", "slope")
_METHODS = ("monte_carlo", "asymptotic")
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
        Its statistic; large values speak against calibration.
    pvalue : float
        Its p-value, if it were the only test.
    """

    # the name must not make pytest collect it
    __test__ = False

    name: str
    statistic: float
    pvalue: float


class CombinedTest(CalibrationTest):
    """Test of calibration that is sensitive to waves, to bumps, to shift and to slope at once.

    No single test is best against everything. This one computes several statistics on the same redrawn
    outcomes, and compares the smallest of their p-values, each divided by its weight, with its
    own null distribution. Strong correlation between the components therefore costs nothing, and the level is
    exact. Half of the level is for T-Cal, which sees any shape, the rest for the common special cases.

    Parameters
    ----------
    components : sequence of str, default=("tcal", "intercept", "slope")
        What is combined, at least one of: "tcal", minus the logarithm of the smallest
        p-value over weight of all scales (:class:`TCal`);
        "cutoff", the range of the residual walk (:class:`CutoffTest`); "intercept" and "slope", the score
        tests of the logistic recalibration (:class:`CoxTest`): the second is that of a slope where the
        intercept is free; "spiegelhalter", the squared z (:class:`SpiegelhalterTest`).
    weights : sequence of float or None, default=None
        How much of the level is spent on each component: positive numbers, in proportion. None spends half of
        it on "tcal", if it is among several, and the rest in equal parts.
    method : {"monte_carlo", "asymptotic"}, default="monte_carlo"
        "monte_carlo": outcomes are redrawn from the predictions, which is exact for any n. "asymptotic": the
        asymptotic p-values of the component tests, combined by Bonferroni, for large n.
    n_resamples : int, default=999
        Number of redrawn samples.
    random_state : int, Generator, RandomState or None, default=None
        Source of the draws; an integer makes the result reproducible.

    Attributes
    ----------
    result_ : CalibrationTestResult
        The result on the data given to ``fit``, with a :class:`TestComponent` for each component.
    statistic_, pvalue_ : float
        Its statistic, the smallest p-value of a component over its weight, and its p-value.
    classes_ : ndarray
        The sorted labels seen by ``fit``.
    n_features_in_ : int
        Number of columns of ``X``.

    Notes
    -----
    With residual sums R_g, variances v_g = w_g p_g (1 - p_g) and x = logit(p), centred at its mean with
    weights v, the score statistics are (sum R)^2 / sum v and (sum R x)^2 / sum v x^2. The p-value of a
    component is (1 + #{T* >= T}) / (1 + n_resamples); so is that of every draw among the others and the
    sample. With weights that sum to 1, the p-value of the test is the fraction of draws, and sample, whose
    smallest p-value over weight is at most that of the sample. Ties go by the largest statistic. ``estimate``
    is the cutoff calibration error.

    Cost: one sort, and O(n) for each redrawn sample.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import CombinedTest
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.2, 0.8, size=1000)
    >>> y = rng.uniform(size=1000) < p + 0.15 * np.sin(40 * p)
    >>> result = CombinedTest(random_state=0).test(y, p)
    >>> result.rejects(0.01), min(result.scales, key=lambda component: component.pvalue).name
    (True, 'tcal')
    """

    _smallest = 1e-60

    def __init__(
        self,
        *,
        components: Sequence[str] = _DEFAULT,
        weights: Sequence[float] | None = None,
        method: str = "monte_carlo",
        n_resamples: int = 999,
        random_state: Any = None,
    ) -> None:
        self.components = components
        self.weights = weights
        self.method = method
        self.n_resamples = n_resamples
        self.random_state = random_state

    def _check_parameters(self) -> None:
        if not _is_list(self.components) or not len(self.components):
            raise ValueError(
                f"components must be a sequence of names, got {self.components!r}. Choose among "
                f"{', '.join(map(repr, _COMPONENTS))}."
            )
        for name in self.components:
            check_option(name, "components", tuple(_COMPONENTS))
        if len(set(self.components)) < len(self.components):
            raise ValueError(f"components names a test twice: {list(self.components)}.")
        if self.weights is not None:
            if not _is_list(self.weights) or len(self.weights) != len(self.components):
                raise ValueError(
                    f"weights must hold one positive number for each of the {len(self.components)} "
                    f"components, got {self.weights!r}."
                )
            for weight in self.weights:
                check_positive(weight, "weights")
        check_option(self.method, "method", _METHODS)
        check_size(self.n_resamples, "n_resamples")
        check_randomness(self.random_state)

    def _test_sample(self, sample: BinarySample) -> CalibrationTestResult:
        names = list(self.components)
        weights = self._weights()
        if self.method == "monte_carlo":
            # groups of ties, in sorted order
            scales = BinaryScales(sample, None, simulated=True)
            grouped = scales.grouped
            values = self._simulate(grouped, [_COMPONENTS[name](scales) for name in names])
            observed, method = values[0], f"{self.n_resamples} label draws"
            slack = TIE * (np.abs(observed) + 1.0)
            statistic, pvalue, null, own = smallest_pvalue(values, values, slack, weights)
            # a smallest p-value over its weight is a Bonferroni p-value
            null = np.minimum(null, 1.0)
        else:
            grouped = group_outcomes(sample.y, sample.p, sample.w)
            results = [_TESTS[name]._test_sample(sample) for name in names]
            observed = np.array([result.statistic for result in results])
            own = np.array([result.pvalue for result in results])
            statistic, null, method = float((own / weights).min()), None, "asymptotic, Bonferroni"
            pvalue = min(1.0, statistic)
        decided = names[int((own / weights).argmin())]
        return CalibrationTestResult(
            test="combined test",
            null_hypothesis="P(Y = 1 | p) = p",
            statistic=min(1.0, statistic),
            pvalue=pvalue,
            estimate=cutoff_of_groups(grouped),
            method=f"{method}, smallest of {len(names)}",
            n_samples=int(grouped.total),
            scales=tuple(
                TestComponent(name, float(value), float(p))
                for name, value, p in zip(names, observed, own, strict=True)
            ),
            null_distribution=null,
            reason=f"decided by {decided}",
            tail="lower",
        )

    def _weights(self) -> Array:
        """Return the weights of the level; they sum to 1."""
        if self.weights is not None:
            weights = np.array(self.weights, dtype=np.float64)
        else:
            weights = np.ones(len(self.components))
            if "tcal" in self.components:
                weights[list(self.components).index("tcal")] = max(1, len(weights) - 1)
        out: Array = weights / weights.sum()
        return out

    def _simulate(self, grouped: GroupedOutcomes, parts: "list[Statistic]") -> Array:
        """Return the statistics of the sample, the first row, and of samples with simulated outcomes."""
        own = grouped.positives[:, np.newaxis].astype(np.float64)
        values = [np.column_stack([part(own) for part in parts])]
        generator = check_generator(self.random_state)
        at_once = samples_at_once(grouped.prob.shape[0])
        for positives in draw_positives(grouped, self.n_resamples, generator, at_once):
            drawn = positives.astype(np.float64)
            values.append(np.column_stack([part(drawn) for part in parts]))
        return np.concatenate(values)


#: Statistics, one for each column of a matrix of positives.
Statistic = Callable[[Array], Array]


def _tcal(scales: BinaryScales) -> Statistic:
    moments, grouped = scales.moments, scales.grouped
    usable = usable_scales(moments)
    if usable == 0:
        return lambda positives: np.zeros(positives.shape[1])
    statistics, deviation = scales.bins.statistic_around(grouped.prob), moments.deviation[:usable]
    skewness = moments.third_cumulant[:usable] / moments.variance[:usable] ** 1.5
    n_scales = scales.n_bins.shape[0]

    def evidence(positives: Array) -> Array:
        z = statistics(positives)[:, :usable] / deviation
        out: Array = -np.log(weighted_tails(z, skewness, n_scales).min(axis=1))
        return out

    return evidence


def _cutoff(scales: BinaryScales) -> Statistic:
    expected = (scales.grouped.weight * scales.grouped.prob)[:, np.newaxis]
    deviation = np.sqrt(scales.grouped.variance.sum())

    def statistic(positives: Array) -> Array:
        reach = walk_ranges(positives - expected)
        return reach / deviation if deviation > 0.0 else np.zeros_like(reach)

    return statistic


def _along(scales: BinaryScales, covariate: Array) -> Statistic:
    """Return the squared sum of residuals times a covariate, over its variance."""
    grouped = scales.grouped
    variance = float(grouped.variance @ covariate**2)
    centre = float(covariate @ (grouped.weight * grouped.prob))
    if variance <= 0.0:
        return lambda positives: np.zeros(positives.shape[1])
    return lambda positives: (covariate @ positives - centre) ** 2 / variance


def _intercept(scales: BinaryScales) -> Statistic:
    return _along(scales, np.ones_like(scales.grouped.prob))


def _slope(scales: BinaryScales) -> Statistic:
    x, v = logit(scales.grouped.prob), scales.grouped.variance
    total = v.sum()
    lever = x - (x @ v / total if total > 0.0 else 0.0)
    # a single group that is uncertain stands at the mean, but for rounding
    lever[np.abs(lever) <= _ROUNDING * np.abs(x).max()] = 0.0
    return _along(scales, lever)


def _spiegelhalter(scales: BinaryScales) -> Statistic:
    return _along(scales, 1.0 - 2.0 * scales.grouped.prob)


def _is_list(value: Any) -> bool:
    """Return whether ``value`` is a sequence; an array if it has one dimension."""
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    return isinstance(value, Sequence) and not isinstance(value, str)


_COMPONENTS: dict[str, Callable[[BinaryScales], Statistic]] = {
    "tcal": _tcal,
    "cutoff": _cutoff,
    "intercept": _intercept,
    "slope": _slope,
    "spiegelhalter": _spiegelhalter,
}

_TESTS: dict[str, CalibrationTest] = {
    "tcal": TCal(method="asymptotic"),
    "cutoff": CutoffTest(method="asymptotic"),
    "intercept": CoxTest(parameter="intercept", method="asymptotic"),
    "slope": CoxTest(parameter="slope", method="asymptotic"),
    "spiegelhalter": SpiegelhalterTest(method="asymptotic"),
}
