"""T-Cal, the test of perfect calibration by a debiased estimate of the squared l2 calibration error.

From top to bottom: the test, and its one decision, by the smallest tail probability over weight; the three
ways to tail probabilities, by simulated labels, by moments of T, and by the critical values of Theorems 3.1
and 3.2 of [TC]; the scales of Algorithms 1 and 2; several scales as one test; the composite null hypothesis
of Remark 3. Sums over bins, eq. (6), and moments of T are those of ``_core._nested_bins``, for K > 2 classes
of ``_core._simplex_bins``.

[TC] D. Lee, X. Huang, H. Hassani, E. Dobriban (2023). T-Cal: An optimal test for the calibration of
predictive models. Journal of Machine Learning Research 24. arXiv:2203.01850.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sklearn_calib import _validation
from sklearn_calib._core._binning import uniform_bins
from sklearn_calib._core._clusters import Clusters, clusters_of_classes, dependence_of
from sklearn_calib._core._grouping import GroupedOutcomes, group_sample
from sklearn_calib._core._nested_bins import MAX_LEVEL, NestedBins, NullMoments
from sklearn_calib._core._null import TIE, draw_positives, monte_carlo_pvalue
from sklearn_calib._core._simplex_bins import class_moments, nested_alcoves, simulated_statistics
from sklearn_calib._typing import Array
from sklearn_calib.inference._testing import _simulated
from sklearn_calib.inference._testing._base import CalibrationTest, CalibrationTestResult
from sklearn_calib.inference._testing._classes import REDUCTIONS, repeated
from sklearn_calib.inference._testing._tails import SMALLEST_PVALUE, gamma_sf

_METHODS = ("auto", "monte_carlo", "asymptotic", "theory")
_COMBINE = ("weighted", "bonferroni")

#: The approximation of "asymptotic" needs so many effective pairs: with fewer, T jumps when the outcomes of
#: one pair deviate, and no continuous distribution approximates it. (In simulations of rare events the levels
#: 0.1 to 5% hold from this number on; jumps can still double the level of 10%.)
FEWEST_PAIRS = 0.5

# Of so many probabilities of classes "auto" uses the asymptotic distribution.
_MANY_PROBABILITIES = 100_000

# Numbers simulated at a time, and samples at least.
_AT_ONCE, _FEWEST_AT_ONCE = 1 << 17, 16

# Paths simulated for L scales: _WORK / L^2 within these bounds (the error of the probability is 1 to 2% at
# the lower one).
_WORK, _FEWEST_PATHS, _MOST_PATHS = 1 << 19, 512, 4096
_SEED = 20220301

# Simulations for the moments of T with clusters.
_PILOT = 199

_NOTHING_SHARED = "no information: no two observations of uncertain outcome share a bin"
_CROWDED = (
    "predictions share bins more often than Assumption 3.1 admits, so that the null variance replaces the "
    "bound; use method='monte_carlo'"
)
_TOO_FEW_PAIRS = "too few pairs of observations for the approximation; use method='monte_carlo'"


@dataclass(frozen=True)
class TCalScale:
    """One scale of a T-Cal test.

    Attributes
    ----------
    n_bins : int
        Number of equal-width bins; for K > 2 classes the number of intervals m of each of K - 1 axes, which
        make m^(K - 1) bins.
    statistic : float
        T, the debiased estimate of the squared calibration error at this scale.
    null_std : float
        Standard deviation of T under the null hypothesis, exact given the predictions.
    pvalue : float
        p-value of this scale alone.
    n_paired : int
        Number of observations in bins of two or more; the others do not contribute.
    """

    n_bins: int
    statistic: float
    null_std: float
    pvalue: float
    n_paired: int

    def __str__(self) -> str:
        return (
            f"{self.n_bins} bins: T = {self.statistic:.4g}, null sd {self.null_std:.3g}, "
            f"p-value {self.pvalue:.4g}, {self.n_paired} paired"
        )


class TCal(CalibrationTest):
    """T-Cal: test of perfect calibration against smooth alternatives of any shape, binary or multiclass.

    The predictions are grouped into m equal-width bins, and the statistic is the debiased plug-in estimate of
    the squared l2 calibration error, eq. (6) of [1]_ in the scalar convention ::

        T = sum over bins I of (1 / (n |I|)) [(sum_{i in I} r_i)^2 - sum_{i in I} r_i^2],   r_i = y_i - p_i,

    whose mean is 0 under the null hypothesis. Only pairs of observations in one bin contribute. For K > 2
    classes r_i is the one-hot label minus the vector of probabilities, squares are squared Euclidean norms,
    and bins are the m^(K - 1) simplices of equal volume into which the probability simplex is cut (App. 8.2.3
    of [1]_).

    Parameters
    ----------
    smoothness : "adaptive" or float, default="adaptive"
        A float s > 0 assumes that the calibration curve is Hölder smooth of that order, and uses the one
        scale m = floor(n^(2 / (4 s + K - 1))) (Algorithm 1). "adaptive" uses m = 2, 4, ..., 2^B with
        B = ceil(2 / (K - 1) log2(n / sqrt(log n))), and combines them (Algorithm 2); B is at most 52. Scales
        at which no two observations are in the same bin contain no information and are left out.
    method : {"auto", "monte_carlo", "asymptotic", "theory"}, default="auto"
        How p-values are obtained. "monte_carlo": from simulated labels, Y* ~ Bernoulli(p); exact for any n,
        given the predictions. "asymptotic": from the variance and third cumulant of T given the
        predictions, through a gamma distribution, and for several scales a Gaussian copula with the
        correlations of neighboring scales; no resampling. Scales with few pairs are left out. "theory": the
        finite-sample critical values of Theorem 3.1 for one scale, and of Theorem 3.2, eq. (7), for several;
        they are far from sharp, and the p-value is the smallest level that rejects. "auto" is "asymptotic"
        for 100,000 independent samples and more with sum p (1 - p) of at least 2000 (more than 100,000
        probabilities, if there are K > 2 classes), else "monte_carlo".
    n_resamples : int, default=999
        Number of simulations of "monte_carlo".
    combine : {"weighted", "bonferroni"}, default="weighted"
        How several scales make one test. "weighted": the smallest p-value of a scale divided by its weight,
        a fraction of alpha, where p-values are those of gamma distributions with the variance and third
        cumulant of T, and at scales of less than half an effective pair, mostly the sum of
        p (1 - p) p' (1 - p') over the pairs in a bin, Cantelli's bounds; half of alpha is allocated equally,
        half in proportion to 1 / b to m = 2^b. It is exact with "monte_carlo" and accounts for the dependence
        of the scales with "asymptotic". "bonferroni", as in [1]_: the smallest p-value times the number of
        scales B; with "monte_carlo" it is at least B / (n_resamples + 1). "theory" always uses "bonferroni".
    tolerance : float, default=0
        The null hypothesis is that the l2 distance of the predictions from the calibration curve,
        sqrt(mean of (P(Y = 1 | p_i) - p_i)^2) or its Euclidean version, is at most this. See Notes.
    %(canonical)s
    random_state : int, Generator, RandomState or None, default=0
        Source of the simulations of "monte_carlo". The default makes the result reproducible.

    Attributes
    ----------
    result_ : CalibrationTestResult
        The result on the data given to ``fit``, with a :class:`TCalScale` for each scale.
    %(tested_fit)s

    Notes
    -----
    The p-value of "monte_carlo" is (1 + #{T* >= T}) / (1 + n_resamples), never 0.

    ``estimate`` is sqrt(max(T, 0)) at the scale that decided; if selected among several, it is biased
    upward. In the vector convention of [1]_, which compares one-hot labels with the probabilities of all
    classes, T of a binary problem is twice as large and the calibration error sqrt(2) times. The critical
    values of "theory" are applied in the vector convention, and for K > 2 it is used throughout. The bins for
    K > 2 depend on the order of the classes.

    The statistic of the result is T for a fixed smoothness, the smallest p-value over weight for "weighted",
    the smallest p-value of a scale for "bonferroni" (small values of both reject), and for "theory" the
    largest ratio of T to what rejects at level 1.

    "asymptotic" takes the moments of T exactly, but for the third cumulant with K > 2: there the predictions
    within a bin are treated as equal if it contains few samples.

    The critical values of "theory" are those of Chebyshev's inequality with an upper bound on the variance of
    T, valid for at most n bins, or a bounded density. Where the null variance of T, given the predictions,
    exceeds the bound, it replaces the bound and ``reason`` says so.

    With a ``tolerance`` c, miscalibration adds to a null statistic a mean of at most c^2, and a term linear
    in the outcomes whose variance is at most c^2 / n (2 c^2 / n for K > 2). The tests assume both to be
    attained, at all scales at once, with outcomes simulated from probabilities at distance c from the
    predictions toward the greatest variance; p-values are then conservative, up to a normal approximation
    of the linear term. "theory" adds the same mean and variance to its bounds. docs/methods/tcal.md compares
    this with Remark 3 of [1]_, and has the theorems on power.

    With ``clusters`` pairs of samples of the same cluster remain in T, whose mean is then not 0. Mean,
    variance and third cumulant of each scale are those of 199 simulated samples with the estimated
    dependence. The mean is subtracted from T of all samples that are compared, so that its error does not
    affect the level.

    Cost: one sort; then O(n) for all scales together, for each simulation or for the moments, in bounded
    memory. For K > 2, O(n (K + log n)) for each scale and O(n log K) for each simulation and scale; moments
    cost O(n K min(K, samples in a bin)).

    References
    ----------
    .. [1] D. Lee, X. Huang, H. Hassani, E. Dobriban (2023). T-Cal: An optimal test for the calibration of
       predictive models. Journal of Machine Learning Research 24.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import TCal
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=500)
    >>> y = rng.uniform(size=500) < p
    >>> TCal().test(y, p).rejects()
    False
    >>> result = TCal().test(y, p**2)
    >>> print(result)
    T-Cal: H0: P(Y = 1 | p) = p
      p-value    0.001  (999 simulations, weighted over 16 scales)
      statistic  ...
      estimate   ...
      n          500
      decided by 2 bins
    """

    _knows_clusters = _knows_sampling = True
    _reductions = ("canonical", *REDUCTIONS)

    def __init__(
        self,
        *,
        smoothness: str | float = "adaptive",
        method: str = "auto",
        n_resamples: int = 999,
        combine: str = "weighted",
        tolerance: float = 0.0,
        reduction: str = "canonical",
        random_state: Any = 0,
    ) -> None:
        self.smoothness = smoothness
        self.method = method
        self.n_resamples = n_resamples
        self.combine = combine
        self.tolerance = tolerance
        self.reduction = reduction
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_smoothness(self.smoothness)
        _validation.check_option(self.method, "method", _METHODS)
        _validation.check_size(self.n_resamples, "n_resamples")
        _validation.check_option(self.combine, "combine", _COMBINE)
        _validation.check_below_one(self.tolerance, "tolerance")
        _validation.check_randomness(self.random_state)

    def _test_sample(self, sample: _validation.BinarySample) -> CalibrationTestResult:
        large = _simulated.is_large(sample)
        return self._decide(BinaryScales(group_sample(sample), self._order), large, "P(Y = 1 | p) = p")

    def _test_classes(self, sample: _validation.ClassSample) -> CalibrationTestResult:
        if self.reduction != "canonical" or sample.y.ndim == 2:
            return super()._test_classes(sample)
        large = sample.p.size > _MANY_PROBABILITIES
        return self._decide(_ClassScales(sample, self._order), large, "P(Y = k | p) = p_k for every class k")

    @property
    def _simulates_labels(self) -> bool:
        return self.method != "asymptotic" and not self.tolerance

    @property
    def _order(self) -> float | None:
        """The order of smoothness, None if it is not known."""
        return None if isinstance(self.smoothness, str) else float(self.smoothness)

    def _decide(
        self, scales: "BinaryScales | _ClassScales", large: bool, null_hypothesis: str
    ) -> CalibrationTestResult:
        """Return the result: the smallest tail probability of a scale, over its weight, and its p-value."""
        method, tolerance, adaptive = self.method, float(self.tolerance), self._order is None
        if method == "theory":
            _simulated.refuse_clusters(scales.clusters, "method", method, "monte_carlo")
        else:
            method = "monte_carlo" if _simulated.simulates(method, large, scales.clusters) else "asymptotic"
        if tolerance:
            _simulated.refuse_clusters(scales.clusters, "tolerance", str(tolerance), "0")
        if scales.weighted and (tolerance or method == "theory"):
            raise ValueError(
                "method='theory' and tolerance > 0 assume samples of equal weight and cannot be given "
                "sampling weights. Use method='monte_carlo' and tolerance=0."
            )
        if tolerance:
            null_hypothesis = f"the l2 distance of p from its calibration curve is at most {tolerance:g}"
        n_scales = scales.n_bins.shape[0]
        weighted = adaptive and self.combine == "weighted" and method != "theory"
        # eq. (7): alpha / B for each scale
        weights = scale_weights(n_scales) if weighted else np.full(n_scales, 1.0 / n_scales)
        if method == "monte_carlo":
            found = _by_simulation(
                scales, tolerance, self.n_resamples, self.random_state, weights if weighted else None
            )
            words = f"{self.n_resamples} simulations"
        elif method == "asymptotic":
            found, words = _by_moments(scales, tolerance), method
        else:
            found, words = _by_theory(scales, tolerance), f"theory, Theorem 3.{2 if adaptive else 1}"
        usable, tails, null, tail = found.usable, found.tails, found.null, "upper"
        ratio = tails / weights
        # among ties that of the largest z
        best = int(np.lexsort((-found.z, ratio))[0])
        smallest = float(ratio[best])
        statistic, pvalue = float(scales.moments.statistic[0]), min(1.0, smallest)
        if not usable.shape[0]:
            statistic, pvalue, best = (0.0 if adaptive else statistic), 1.0, 0
        elif method == "theory":
            statistic = float(found.z[best]) if adaptive else statistic
        elif adaptive:
            statistic, tail = smallest if weighted else float(tails[best]), "lower"
            if null is not None:
                pvalue = monte_carlo_pvalue(-smallest, -null)
            elif weighted:
                tails = np.clip(smallest * weights[usable], SMALLEST_PVALUE, 1.0)
                pvalue = any_exceeds(tails, found.correlation)
        decided = f"decided by {scales.n_bins[best]:.0f} bins"
        if scales.n_classes > 2:
            decided += f" per axis, {scales.n_bins[best]:.0f}^{scales.n_classes - 1} bins"
            if not usable.shape[0]:
                found.reason += (
                    "; reduction='confidence' tests the predicted class alone, KernelTest needs no bins"
                )
        paired = np.flatnonzero(scales.moments.n_paired > 0.0)
        if adaptive:
            words += f", {'weighted' if weighted else 'bonferroni'} over {paired.shape[0]} scales"
        return CalibrationTestResult(
            test="T-Cal",
            null_hypothesis=null_hypothesis,
            statistic=statistic,
            pvalue=pvalue,
            estimate=float(np.sqrt(max(float(scales.moments.statistic[best]), 0.0))),
            method=words,
            n_samples=round(scales.n),
            scales=tuple(
                TCalScale(
                    n_bins=int(scales.n_bins[k]),
                    statistic=float(scales.moments.statistic[k]),
                    null_std=float(found.deviation[k]),
                    pvalue=float(found.pvalues[k]),
                    n_paired=int(scales.moments.n_paired[k]),
                )
                for k in paired
            ),
            null_distribution=null,
            tail=tail,
            reason=found.reason or decided,
            **dependence_of(scales.clusters, scales.probabilities),
        )


# ---- three ways to the tail probability of T at each scale


@dataclass(eq=False)
class ScalePvalues:
    """What is known of each scale, coarse to fine.

    ``usable`` are the indices of scales with information; ``tails`` the probabilities that decide, and ``z``
    breaks their ties; ``pvalues`` are those of each scale alone, and ``deviation`` is that of T.

    ``null`` is the smallest tail over weight of simulated samples, or T of them if there is one scale;
    ``correlation`` is that of each usable scale with the next one.
    """

    usable: NDArray[np.intp]
    tails: Array
    z: Array
    pvalues: Array
    deviation: Array
    null: Array | None = None
    correlation: Array = field(default_factory=lambda: np.empty(0))
    reason: str = ""

    @classmethod
    def nothing(cls, scales: "BinaryScales | _ClassScales", reason: str) -> "ScalePvalues":
        """Return what is known if no scale has information."""
        deviation = np.sqrt(scales.moments.variance)
        one = np.ones_like(deviation)
        return cls(np.empty(0, dtype=np.intp), one, np.zeros_like(one), one, deviation, reason=reason)


def _by_simulation(
    scales: "BinaryScales | _ClassScales",
    tolerance: float,
    n_resamples: int,
    random_state: Any,
    weights: Array | None,
) -> ScalePvalues:
    """Return tails from labels simulated from the predictions (App. 8.3.3).

    With ``weights`` they are those of :func:`tails_of_scales`, the same functions of every sample.
    """
    n_usable = usable_scales(scales.moments)
    if n_usable == 0:
        return ScalePvalues.nothing(scales, _NOTHING_SHARED)
    generator = _validation.check_generator(random_state)
    moments = scales.moments_within(tolerance)
    values = scales.simulate(n_resamples, generator, tolerance)[:, :n_usable]
    mean, spread = _displacement(scales, tolerance)
    deviation = np.sqrt(moments.deviation[:n_usable] ** 2 + spread)
    skewness = moments.third_cumulant[:n_usable] / moments.variance[:n_usable] ** 1.5
    if tolerance:
        # the same normal variable for all scales of a simulation
        values[1:] += mean + np.sqrt(spread) * generator.standard_normal((n_resamples, 1))
    z = (values - mean) / deviation
    if tolerance:
        centered = z - z.mean(axis=0)
        skewness = (centered**3).mean(axis=0) / np.maximum((centered**2).mean(axis=0) ** 1.5, 1e-300)
    columns = zip(values.T, TIE * deviation, strict=True)
    pvalues = np.array([monte_carlo_pvalue(t[0], t[1:], tie) for t, tie in columns])
    tails, null = pvalues, values[1:, 0] if scales.n_bins.shape[0] == 1 else None
    if weights is not None:
        tails = tails_of_scales(z, skewness, moments.pairs[:n_usable])
        tails, null = tails[0], (tails[1:] / weights[:n_usable]).min(axis=1)
    usable, n_scales = np.arange(n_usable), scales.n_bins.shape[0]
    return ScalePvalues(
        usable,
        _placed(tails, usable, np.ones(n_scales)),
        _placed(z[0], usable, np.full(n_scales, -np.inf)),
        _placed(pvalues, usable, np.ones(n_scales)),
        _placed(deviation, usable, np.sqrt(scales.moments.variance)),
        null=null,
    )


def _by_moments(scales: "BinaryScales | _ClassScales", tolerance: float) -> ScalePvalues:
    """Return tails of gamma distributions with the moments of T, and the correlation of the scales."""
    own = scales.moments
    usable = np.flatnonzero((own.variance > 0.0) & (own.pairs >= FEWEST_PAIRS))
    if usable.shape[0] == 0:
        return ScalePvalues.nothing(scales, _TOO_FEW_PAIRS)
    # T less its mean is a null statistic of this variance plus an independent normal variable, the same at
    # all scales; the skewness of perfect calibration is an upper bound of that of the sum
    mean, spread = _displacement(scales, tolerance)
    variance = scales.moments_within(tolerance).variance
    ratio = np.divide(variance, own.variance, out=np.zeros_like(variance), where=own.variance > 0.0)
    covariance = own.covariance[:-1] * np.sqrt(ratio[:-1] * ratio[1:]) + spread
    deviation = np.sqrt(variance + spread)
    z = (own.statistic[usable] - mean) / deviation[usable]
    skewness = own.third_cumulant[usable] / own.variance[usable] ** 1.5
    tails = _placed(gamma_sf(z, skewness), usable, np.ones_like(variance))
    return ScalePvalues(
        usable,
        tails,
        _placed(z, usable, np.full(variance.shape[0], -np.inf)),
        tails,
        deviation,
        correlation=chain_correlation(covariance, deviation, usable),
    )


def _by_theory(scales: "BinaryScales | _ClassScales", tolerance: float) -> ScalePvalues:
    """Return the smallest levels at which the critical values of the paper reject."""
    # Theorem 3.1: reject if T >= sqrt(2) K / sqrt(alpha) min(sqrt(M) / n, 1 / sqrt(M)), M = m^(K - 1)
    # bins, T in vector convention, which for binary problems is twice that of one probability
    factor = 1.0 if scales.n_classes == 2 else scales.n_classes
    n_cells = scales.n_bins ** (scales.n_classes - 1)
    bound = np.sqrt(2.0) * factor * np.minimum(np.sqrt(n_cells) / scales.n, n_cells**-0.5)
    mean, spread = _displacement(scales, tolerance)
    # Chebyshev's inequality with an upper bound on the variance of T, which for M > n bins holds only
    # if few predictions are in the same bin (Assumption 3.1); otherwise the variance replaces it.
    variance = scales.moments_within(tolerance).variance
    ratio = (scales.moments.statistic - mean) / np.sqrt(np.maximum(bound**2, variance) + spread)
    tails = 1.0 / np.maximum(ratio, 1.0) ** 2
    reason = _CROWDED if (np.sqrt(variance) > bound).any() else ""
    deviation = np.sqrt(scales.moments.variance)
    return ScalePvalues(np.arange(ratio.shape[0]), tails, ratio, tails, deviation, reason=reason)


def _placed(values: Array, index: NDArray[np.intp], rest: Array) -> Array:
    rest[index] = values
    return rest


# ---- the scales of Algorithms 1 and 2


def number_of_bins(n: float, smoothness: float, n_classes: int = 2) -> float:
    """Return m = floor(n^(2 / (4 s + K - 1))) of Algorithm 1, at most 2**52."""
    power = 2.0 / (4.0 * smoothness + n_classes - 1)
    return float(min(np.floor(n**power * (1.0 + 1e-12)), 2.0**MAX_LEVEL))


def finest_level(n: float, n_classes: int = 2) -> int:
    """Return B = ceil(2 / (K - 1) log2(n / sqrt(log n))) of Algorithm 2, from 1 to ``MAX_LEVEL``."""
    if n < 2.0:
        return 1
    level = 2.0 / (n_classes - 1) * np.log2(n / np.sqrt(np.log(n)))
    return int(min(max(np.ceil(level - 1e-12), 1.0), MAX_LEVEL))


def check_smoothness(smoothness: Any) -> None:
    """Raise unless the smoothness is "adaptive" or a positive number."""
    if not isinstance(smoothness, str):
        _validation.check_positive(smoothness, "smoothness")
    elif smoothness != "adaptive":
        raise ValueError(f"smoothness must be 'adaptive' or a positive number, got {smoothness!r}.")


def numbers_of_bins(n: float, smoothness: float | None, n_classes: int) -> Array:
    """Return m of Algorithm 1, or 2, 4, ..., 2^B of Algorithm 2 if the smoothness is not known."""
    if smoothness is None:
        return np.exp2(np.arange(1.0, finest_level(n, n_classes) + 1.0))
    return np.full(1, number_of_bins(n, smoothness, n_classes))


class BinaryScales:
    """Equal-width bins of [0, 1]: ``n_bins`` of each scale, coarse to fine, and the moments of T."""

    n_classes = 2

    def __init__(self, grouped: GroupedOutcomes, smoothness: float | None) -> None:
        self.grouped = grouped
        # with sampling weights, tied predictions of different weights
        self.samples, design = grouped.samples, grouped.design
        scale = None if design is None else design.weight
        self.n, self.probabilities = self.samples.total, grouped.prob
        self.n_bins = numbers_of_bins(self.n, smoothness, 2)
        self.clusters = grouped.clusters
        if smoothness is None:
            self.bins = NestedBins(self.samples, self.n_bins.shape[0], scale=scale)
        else:
            bin_of = uniform_bins(self.samples.prob, int(self.n_bins[0]))
            self.bins = NestedBins(self.samples, bin_of=bin_of, scale=scale)
        self.weighted = design is not None
        self.spread = _simulated.variance_ratio_of(grouped)
        self.moments = rescaled(self.bins.moments(), self.spread.own)
        self._mean = np.zeros_like(self.moments.statistic)
        if self.clusters is not None:
            # pairs of samples in a cluster shift the mean, the same for all samples that are compared
            pilot = self.simulate(_PILOT, np.random.default_rng(_SEED), 0.0)[1:]
            self._mean, self.moments = pilot.mean(axis=0), _simulated_moments(self.moments, pilot)

    def statistic(self, center: Array) -> Callable[[NDArray[Any]], Array]:
        """Return the function that computes T, less its mean under the null hypothesis, of many samples.

        With sampling weights it is multiplied by the ratio of the variances of this sample and of the other.
        """
        statistic, spread = self.bins.statistic_around(center), self.spread
        return lambda positives: (statistic(positives).T * spread.relative(positives)).T - self._mean

    def moments_within(self, tolerance: float) -> NullMoments:
        """Return the moments under the most uncertain probabilities within ``tolerance``."""
        if not tolerance:
            return self.moments
        return self.bins.moments(toward_uncertainty(self.samples.prob, tolerance))

    def simulate(self, n_resamples: int, generator: np.random.Generator, tolerance: float) -> Array:
        """Return T of the sample, and of samples with simulated outcomes, shape (1 + n_resamples, scales).

        The first is computed as the others are, so that rounding does not distinguish equal samples.
        """
        prob = toward_uncertainty(self.samples.prob, tolerance)
        statistic = self.statistic(prob)
        own = np.asarray(self.samples.positives)[:, np.newaxis]
        parts = [self.moments.statistic[np.newaxis] if tolerance else statistic(own)]
        null = replace(self.samples, prob=prob)
        simulated = draw_positives(null, n_resamples, generator, samples_at_once(prob.shape[0]))
        return np.concatenate([*parts, *map(statistic, simulated)])


class _ClassScales:
    """Equal-volume bins of the simplex, m^(K - 1) of them; as :class:`BinaryScales`."""

    def __init__(self, sample: _validation.ClassSample, smoothness: float | None) -> None:
        sample = sample.ordered()
        index, self.scale = repeated(sample)
        self.y, self.p = sample.y[index], sample.p[index]
        self.n, self.probabilities, self.n_classes = float(self.y.shape[0]), self.p, self.p.shape[1]
        self.n_bins = numbers_of_bins(self.n, smoothness, self.n_classes)
        self.cells = nested_alcoves(self.p, self.n_bins)
        self.weighted = sample.sampling
        self.spread = _simulated.VarianceRatio.of_classes(self.y, self.p, self.scale)
        self.moments = rescaled(class_moments(self.cells, self.y, self.p, self.scale), self.spread.own)
        self.clusters: Clusters | None = None
        self._mean = np.zeros_like(self.moments.statistic)
        if sample.clusters is not None:
            self.clusters = clusters_of_classes(self.y, self.p, sample.clusters[index])
            if usable_scales(self.moments):
                pilot = self.simulate(_PILOT, np.random.default_rng(_SEED), 0.0)[1:]
                self._mean, self.moments = pilot.mean(axis=0), _simulated_moments(self.moments, pilot)

    def moments_within(self, tolerance: float) -> NullMoments:
        """See :class:`BinaryScales`."""
        if not tolerance:
            return self.moments
        return class_moments(self.cells, self.y, self.p, self.scale, toward_uncertainty(self.p, tolerance))

    def simulate(self, n_resamples: int, generator: np.random.Generator, tolerance: float) -> Array:
        """See :class:`BinaryScales`."""
        prob = toward_uncertainty(self.p, tolerance)
        shared = self.cells[: usable_scales(self.moments)]
        given = shared, self.y, prob, self.scale, self.spread.relative_of_labels
        values = simulated_statistics(*given, n_resamples, generator, self.clusters)
        values -= self._mean[: len(shared)]
        if tolerance:
            values[0] = self.moments.statistic[: len(shared)]
        return values


def _simulated_moments(moments: NullMoments, values: Array) -> NullMoments:
    """Return the moments with those of simulated values in place of those of independent samples."""
    # scales of no information, the last ones, have no values
    left = moments.statistic.shape[0] - values.shape[1]
    values = np.pad(values, ((0, 0), (0, left)))
    centered = values - values.mean(axis=0)
    return replace(
        moments,
        statistic=moments.statistic - values.mean(axis=0),
        variance=np.where(moments.variance > 0.0, (centered**2).mean(axis=0), 0.0),
        third_cumulant=(centered**3).mean(axis=0),
    )


def rescaled(moments: NullMoments, ratio: float) -> NullMoments:
    """Return the moments of T if variances of residuals are ``ratio`` times as large."""
    return replace(
        moments,
        variance=ratio**2 * moments.variance,
        third_cumulant=ratio**3 * moments.third_cumulant,
        covariance=ratio**2 * moments.covariance,
    )


def usable_scales(moments: NullMoments) -> int:
    """Return the number of scales with information; pairs of a scale are pairs of all coarser ones."""
    return int(np.append((moments.variance > 0.0) & (moments.n_paired > 0.0), False).argmin())


def samples_at_once(n_groups: int) -> int:
    """Return how many numbers to simulate at a time."""
    return max(_AT_ONCE, _FEWEST_AT_ONCE * n_groups)


# ---- several scales as one test


def scale_weights(n_scales: int) -> Array:
    """Return how alpha is allocated to the scales, coarse to fine; the sum is 1.

    One half in equal parts, so that every scale keeps power; the other in proportion to 1 / b for the b-th
    one, since most miscalibration is smooth.
    """
    decreasing = 1.0 / np.arange(1.0, n_scales + 1.0)
    return 0.5 / n_scales + 0.5 * decreasing / decreasing.sum()


def tails_of_scales(z: Array, skewness: Array, pairs: Array) -> Array:
    """Return the tail probability of each z, a column for each scale; they compare simulated samples.

    They are those of gamma distributions. Where few pairs of events are expected, T is a small constant
    unless a pair occurs, and the gamma tail of the constant is nearly 0: there they are Cantelli's bounds,
    1 / (1 + z^2) for z > 0, which distributions of two values attain.
    """
    bound = np.clip(np.hypot(1.0, np.maximum(z, 0.0)) ** -2.0, SMALLEST_PVALUE, 1.0)
    return np.where(pairs < FEWEST_PAIRS, bound, gamma_sf(z, skewness))


def chain_correlation(covariance: Array, deviation: Array, levels: NDArray[np.intp]) -> Array:
    """Return the correlations of some levels, each with the next one of them.

    Those of neighboring levels are exact. Over a gap they are multiplied, as if levels formed a Markov
    chain: exact as well where the variance v hardly changes inside a coarser bin, since then
    cov(T_f, T_c) = var(T_c) for every finer level f.
    """
    product = deviation[:-1] * deviation[1:]
    neighbors = np.divide(covariance, product, out=np.zeros_like(product), where=product > 0.0)
    neighbors = np.clip(neighbors, 0.0, 1.0)
    return np.array([np.prod(neighbors[first:last]) for first, last in pairwise(levels)])


def any_exceeds(tails: Array, correlation: Array) -> float:
    """Return the probability that at least one of several events happens, from their own probabilities.

    The events are Z_k >= z_k for a Gaussian Markov chain Z_1, Z_2, ... with the given correlation of
    neighbors (a Gaussian copula). With N the number of events that happen,

        P(N > 0) = sum_k P(A_k) E[1/N | A_k]

    and each expectation is a mean over simulated paths in which event k happens, so that it is as accurate
    for very small probabilities as for large ones; the result lies between the largest of them and their
    sum. The paths are the same in every call.
    """
    n_scales = tails.shape[0]
    if n_scales == 1:
        return float(tails[0])
    rng = np.random.default_rng(_SEED)
    n_paths = min(max(_WORK // n_scales**2, _FEWEST_PATHS), _MOST_PATHS)
    noise = rng.standard_normal((n_scales, n_paths))
    path = np.empty_like(noise)
    path[0] = noise[0]
    for k, rho in enumerate(correlation, start=1):
        path[k] = rho * path[k - 1] + np.sqrt(1.0 - rho * rho) * noise[k]
    between = np.eye(n_scales)
    for k in range(n_scales - 1):
        between[k + 1, : k + 1] = correlation[k] * between[k, : k + 1]
        between[: k + 1, k + 1] = between[k + 1, : k + 1]
    threshold = -ndtri(tails)[:, np.newaxis]
    # one value from each of equal parts of a tail
    part = (rng.permutation(n_paths) + 0.5) / n_paths
    moved = np.empty_like(path)
    total = 0.0
    for k in range(n_scales):
        # simulate the k-th value from its tail, and the others given it
        value = -ndtri(np.maximum(tails[k] * part, np.finfo(np.float64).tiny))
        np.multiply(between[k][:, np.newaxis], value - path[k], out=moved)
        moved += path
        happened = np.count_nonzero(moved >= threshold, axis=0)
        happened += moved[k] < threshold[k]
        total += tails[k] * np.mean(1.0 / happened)
    return float(np.clip(total, tails.max(), min(1.0, tails.sum())))


# ---- the composite null hypothesis of Remark 3


def toward_uncertainty(p: Array, tolerance: float) -> Array:
    """Return label probabilities at distance ``tolerance`` from ``p`` toward the greatest uncertainty.

    For p of shape (n,) the distance is that of the probabilities of the positive class; for multiclass
    predictions it is Euclidean. It ends at equal probabilities, where labels have their greatest variance.
    """
    if not tolerance:
        return p
    if p.ndim == 1:
        return np.where(p > 0.5, np.maximum(p - tolerance, 0.5), np.minimum(p + tolerance, 0.5))
    way = 1.0 / p.shape[1] - p
    length = np.sqrt(np.square(way).sum(axis=1, keepdims=True))
    part = np.minimum(np.divide(tolerance, length, out=np.ones_like(length), where=length > tolerance), 1.0)
    out: Array = p + part * way
    return out


def _displacement(scales: BinaryScales | _ClassScales, tolerance: float) -> tuple[float, float]:
    """Return mean and variance of what miscalibration up to ``tolerance`` adds to T at most.

    With residuals R = (Y - q) + d, d = q - p, and Q = sum |d|^2 / n <= tolerance^2: the mean of T is at most
    Q; its part that is linear in Y - q has a variance of at most 4 Q lambda / n, where lambda is the largest
    eigenvalue of a covariance of labels, at most 1/4 for one probability and 1/2 for a vector of them.
    """
    mean = tolerance**2
    return mean, mean * (1.0 if scales.n_classes == 2 else 2.0) / scales.n
