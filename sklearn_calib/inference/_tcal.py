"""T-Cal, the test of perfect calibration by a debiased estimate of the squared l2 calibration error."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._binning import uniform_bins
from sklearn_calib._core._dyadic import MAX_LEVEL, dyadic_moments
from sklearn_calib._core._grouping import (
    CHUNK,
    GroupedOutcomes,
    group_outcomes,
    group_starts,
    packed_sort,
)
from sklearn_calib._core._null_moments import NullMoments, bin_moments
from sklearn_calib._validation import (
    BinarySample,
    check_fraction,
    check_generator,
    check_integer,
    check_option,
    check_positive,
)
from sklearn_calib.inference._base import CalibrationTest, CalibrationTestResult
from sklearn_calib.inference._tcal_asymptotic import (
    FEWEST_PAIRS,
    any_exceeds,
    chain_correlation,
    tail_probability,
)
from sklearn_calib.inference._tcal_draws import NestedBins, combine_draws, draw_labels, draw_pairs

__all__ = ["TCal", "TCalScale"]

Array = NDArray[np.float64]
Cell = NDArray[np.int64] | None

_METHODS = ("monte_carlo", "asymptotic", "theory")
_COMBINE = ("max", "min-p", "bonferroni")
_RESAMPLE = ("labels", "pairs")


@dataclass(frozen=True)
class TCalScale:
    """One scale of a T-Cal test.

    Attributes
    ----------
    n_bins : int
        Number of equal-width bins.
    statistic : float
        T, the debiased estimate of the squared calibration error at this scale.
    null_std : float
        Standard deviation of T under the null hypothesis, exact given the predictions.
    pvalue : float
        p-value of this scale alone.
    n_paired : int
        Number of observations that share their bin with another; the others do not count.
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
    """T-Cal: test of perfect calibration, P(Y = 1 | p) = p, against alternatives of any shape.

    The predictions are cut into m equal-width bins, and the statistic is the debiased plug-in estimate of
    the squared l2 calibration error, eq. (6) of [1]_ in the scalar convention ::

        T = sum over bins I of (1 / (n |I|)) [(sum_{i in I} r_i)^2 - sum_{i in I} r_i^2],   r_i = y_i - p_i,

    whose mean is 0 under the null hypothesis. Only pairs of observations in one bin contribute.

    Parameters
    ----------
    smoothness : "adaptive" or float, default="adaptive"
        A float s > 0 assumes that the calibration curve is Hölder smooth of that order, and uses the one
        scale m = floor(n^(2 / (4 s + 1))) (Algorithm 1). "adaptive" uses m = 2, 4, ..., 2^B with
        B = ceil(2 log2(n / sqrt(log n))), and combines them (Algorithm 2); B is at most 52. Scales at which
        no two observations share a bin carry no information, and are left out.
    method : {"monte_carlo", "asymptotic", "theory"}, default="monte_carlo"
        How p-values are obtained. "monte_carlo": from redrawn samples; exact for any n if
        ``resample="labels"``. "asymptotic": from the exact variance and third cumulant of T given the
        predictions, through a gamma law, and for several scales a Gaussian copula with the correlations of
        neighbouring scales; no resampling, the choice for n of 1e5 and more. Scales with few pairs are left
        out. "theory": the finite-sample bound of Theorem 3.1, eq. (7), valid but far from sharp; the
        p-value is the smallest level that rejects.
    n_resamples : int, default=999
        Number of redrawn samples of "monte_carlo".
    combine : {"max", "min-p", "bonferroni"}, default="max"
        How several scales make one test. "max": the largest T divided by its null standard deviation.
        "min-p": the smallest p-value of a scale, compared with its own null law (ties go by the largest
        standardised T). "bonferroni", as in [1]_: the smallest p-value times the number of scales B.
        The first two are exact with "monte_carlo" and account for the dependence of the scales with
        "asymptotic"; "theory" always takes "bonferroni".
    resample : {"labels", "pairs"}, default="labels"
        What "monte_carlo" redraws: only the outcomes, Y* ~ Bernoulli(p), which is exact given the
        predictions; or whole samples, predictions drawn with replacement and then outcomes from them
        (consistency resampling). This is approximate: repeated rows share the finest bins, and the adaptive
        test rejects somewhat too often (6 to 10 % at a level of 5 % in our simulations).
    alpha : float, default=0.05
        Level at which the test must be able to reject: with "monte_carlo" and "bonferroni", ``n_resamples``
        + 1 has to be at least B / alpha, and too few are an error. Nothing else depends on it.
    random_state : int, Generator, RandomState or None, default=None
        Source of the draws of "monte_carlo"; an integer makes the result reproducible.

    Attributes
    ----------
    result_ : CalibrationTestResult
        The result on the data given to ``fit``, with a :class:`TCalScale` for each scale.
    statistic_, pvalue_ : float
        Its statistic and p-value.
    classes_ : ndarray
        The sorted labels seen by ``fit``.
    n_features_in_ : int
        Number of columns of ``X``.

    Notes
    -----
    The p-value of "monte_carlo" is (1 + #{T* >= T}) / (1 + n_resamples), never 0. A weight of k is the row
    repeated k times. The result depends neither on the order of rows nor on how draws are cut into pieces.

    ``estimate`` is sqrt(max(T, 0)) at the scale that decided; chosen among several, it is optimistic about
    how far the predictions are off. In the vector convention of [1]_, which compares one-hot labels with
    both class probabilities, T is twice as large and the calibration error sqrt(2) times; critical values
    of "theory" are applied in it.

    The statistic of the result is T for a fixed smoothness, the largest standardised T for "max", the
    smallest p-value of a scale for "min-p" and "bonferroni" (small values reject then), and for "theory" the
    largest ratio of T to what rejects at level 1.

    "asymptotic" takes the variance of T and the covariance of neighbouring scales exactly. The third cumulant
    is exact for bins wider than 2^-12; in narrower ones the rows of a bin are taken for alike.

    Cost: one sort; then O(n) for all scales together, for each redrawn sample or for the moments. Memory
    beyond the data is bounded, whatever the number of draws.

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
    >>> TCal(random_state=0).test(y, p).rejects()
    False
    >>> result = TCal(random_state=0).test(y, p**2)
    >>> print(result)
    T-Cal: H0: P(Y = 1 | p) = p
      p-value    0.001  (999 label draws, max over 16 scales)
      statistic  ...
      estimate   ...
      n          500
      decided by 2 bins
    """

    def __init__(
        self,
        smoothness: str | float = "adaptive",
        method: str = "monte_carlo",
        n_resamples: int = 999,
        combine: str = "max",
        resample: str = "labels",
        alpha: float = 0.05,
        random_state: Any = None,
    ) -> None:
        self.smoothness = smoothness
        self.method = method
        self.n_resamples = n_resamples
        self.combine = combine
        self.resample = resample
        self.alpha = alpha
        self.random_state = random_state

    def _check_parameters(self) -> None:
        if isinstance(self.smoothness, str):
            if self.smoothness != "adaptive":
                raise ValueError(
                    f"smoothness must be 'adaptive' or a positive number, got {self.smoothness!r}."
                )
        else:
            check_positive(self.smoothness, "smoothness")
        check_option(self.method, "method", _METHODS)
        check_integer(self.n_resamples, "n_resamples")
        check_option(self.combine, "combine", _COMBINE)
        check_option(self.resample, "resample", _RESAMPLE)
        check_fraction(self.alpha, "alpha")
        if not isinstance(self.random_state, np.random.RandomState):  # which this would advance
            check_generator(self.random_state)

    def _test_sample(self, sample: BinarySample) -> CalibrationTestResult:
        adaptive = isinstance(self.smoothness, str)
        if adaptive and self.method == "monte_carlo" and self.combine == "bonferroni":
            self._check_resamples(_finest_level(sample.total))
        grouped = _group(sample, ties=self.method == "monte_carlo")
        n = grouped.total
        if adaptive:
            finest = _finest_level(n)
            n_bins = np.exp2(np.arange(1.0, finest + 1.0))
            moments, cell = dyadic_moments(grouped, finest), None
        else:
            n_bins = np.full(1, _number_of_bins(n, float(self.smoothness)))
            cell = uniform_bins(grouped.prob, int(n_bins[0]))
            moments = bin_moments(grouped, cell)
        decide = {"monte_carlo": self._monte_carlo, "asymptotic": self._asymptotic, "theory": self._theory}
        decision = decide[self.method](grouped, cell, n_bins, moments)
        best = decision.scale
        paired = np.flatnonzero(moments.rows > 0.0)
        return CalibrationTestResult(
            test="T-Cal",
            null_hypothesis="P(Y = 1 | p) = p",
            statistic=decision.statistic,
            pvalue=decision.pvalue,
            estimate=float(np.sqrt(max(moments.statistic[best], 0.0))),
            method=decision.method
            + (f", {decision.combine} over {paired.shape[0]} scales" if adaptive else ""),
            n_samples=int(n),
            scales=tuple(
                TCalScale(
                    n_bins=int(n_bins[k]),
                    statistic=float(moments.statistic[k]),
                    null_std=float(np.sqrt(moments.variance[k])),
                    pvalue=float(decision.scale_pvalues[k]),
                    n_paired=int(moments.rows[k]),
                )
                for k in paired
            ),
            null_distribution=decision.null_distribution,
            reason=decision.reason or f"decided by {int(n_bins[best])} bins",
        )

    def _check_resamples(self, n_scales: int) -> None:
        needed = int(np.ceil(n_scales / self.alpha - 1e-9)) - 1
        if self.n_resamples < needed:
            raise ValueError(
                f"n_resamples={self.n_resamples} can never reject at alpha={self.alpha:g} with "
                f"combine='bonferroni' and {n_scales} scales. Use n_resamples >= {needed}, or "
                "combine='max' or 'min-p'."
            )

    def _monte_carlo(
        self, grouped: GroupedOutcomes, cell: Cell, n_bins: Array, moments: NullMoments
    ) -> "_Decision":
        method = f"{self.n_resamples} {'label' if self.resample == 'labels' else 'sample'} draws"
        # a level shares its pairs with all coarser ones, so that those with information come first
        usable = int(np.append((moments.variance > 0.0) & (moments.rows > 0.0), False).argmin())
        if usable == 0:
            return _Decision.undecided(cell, moments, method, self.combine, _NOTHING_SHARED)
        bins = NestedBins.dyadic(grouped, usable) if cell is None else NestedBins.single(grouped, cell)
        generator = check_generator(self.random_state)
        if self.resample == "labels":
            draws = draw_labels(grouped, bins, moments.variance[:usable], self.n_resamples, generator)
        else:
            draws = draw_pairs(grouped, bins, self.n_resamples, generator)
        combine = self.combine if cell is None else "single"
        statistic, pvalue, null, scale_pvalues = combine_draws(draws, combine)
        if combine == "bonferroni":
            pvalue = min(1.0, n_bins.shape[0] * statistic)
        elif combine == "single":
            statistic = float(moments.statistic[0])
        by_z = combine == "max"
        best = int(draws.observed_z.argmax()) if by_z else _smallest(scale_pvalues, draws.observed_z)
        everywhere = np.ones(n_bins.shape[0])
        everywhere[:usable] = scale_pvalues
        return _Decision(statistic, pvalue, best, everywhere, method, self.combine, null)

    def _asymptotic(
        self, grouped: GroupedOutcomes, cell: Cell, n_bins: Array, moments: NullMoments
    ) -> "_Decision":
        usable = np.flatnonzero((moments.variance > 0.0) & (moments.pairs >= FEWEST_PAIRS))
        if usable.shape[0] == 0:
            return _Decision.undecided(cell, moments, "asymptotic", self.combine, _TOO_FEW_PAIRS)
        deviation = np.sqrt(moments.variance[usable])
        z = moments.statistic[usable] / deviation
        skewness = moments.third_cumulant[usable] / deviation**3
        tails = tail_probability(z, skewness)
        best = int(z.argmax()) if self.combine == "max" else _smallest(tails, z)
        correlation = chain_correlation(moments, usable)
        if cell is not None:
            statistic, pvalue = float(moments.statistic[0]), float(tails[0])
        elif self.combine == "max":
            statistic = float(z[best])
            pvalue = any_exceeds(tail_probability(np.full_like(z, statistic), skewness), correlation)
        else:
            statistic = float(tails[best])
            if self.combine == "min-p":
                pvalue = any_exceeds(np.full_like(z, statistic), correlation)
            else:
                pvalue = min(1.0, n_bins.shape[0] * statistic)
        everywhere = np.ones(n_bins.shape[0])
        everywhere[usable] = tails
        return _Decision(statistic, pvalue, int(usable[best]), everywhere, "asymptotic", self.combine)

    def _theory(
        self, grouped: GroupedOutcomes, cell: Cell, n_bins: Array, moments: NullMoments
    ) -> "_Decision":
        # Theorem 3.1: reject if 2 T >= sqrt(2) K / sqrt(alpha) min(sqrt(m) / n, 1 / sqrt(m)), K = 2
        bound = np.sqrt(2.0) * np.minimum(np.sqrt(n_bins) / grouped.total, 1.0 / np.sqrt(n_bins))
        ratio = moments.statistic / bound
        scale_pvalues = 1.0 / np.maximum(ratio, 1.0) ** 2
        best = int(ratio.argmax())
        statistic = float(ratio[best] if cell is None else moments.statistic[0])
        pvalue = min(1.0, n_bins.shape[0] * float(scale_pvalues[best]))
        return _Decision(statistic, pvalue, best, scale_pvalues, "theory, Theorem 3.1", "bonferroni")


@dataclass(frozen=True, eq=False)
class _Decision:
    """What a method makes of the moments: ``scale`` is the index of the scale that decided."""

    statistic: float
    pvalue: float
    scale: int
    scale_pvalues: Array
    method: str
    combine: str
    null_distribution: Array | None = None
    reason: str = ""

    @classmethod
    def undecided(
        cls, cell: Cell, moments: NullMoments, method: str, combine: str, reason: str
    ) -> "_Decision":
        statistic = 0.0 if cell is None else float(moments.statistic[0])
        return cls(statistic, 1.0, 0, np.ones(moments.statistic.shape[0]), method, combine, None, reason)


_NOTHING_SHARED = "no information: no two observations of uncertain outcome share a bin"
_TOO_FEW_PAIRS = "too few pairs of observations for the approximation; use method='monte_carlo'"


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


def _finest_level(n: float) -> int:
    """Return B = ceil(2 log2(n / sqrt(log n))) of Algorithm 2, from 1 to ``MAX_LEVEL``."""
    if n < 2.0:
        return 1
    level = 2.0 * np.log2(n / np.sqrt(np.log(n)))
    return int(min(max(np.ceil(level - 1e-12), 1.0), MAX_LEVEL))


def _number_of_bins(n: float, smoothness: float) -> float:
    """Return m = floor(n^(2 / (4 s + 1))) of Algorithm 1, at most 2**52."""
    return float(min(np.floor(n ** (2.0 / (4.0 * smoothness + 1.0)) * (1.0 + 1e-12)), 2.0**MAX_LEVEL))


def _smallest(pvalues: Array, z: Array) -> int:
    """Return the index of the smallest p-value, among ties that of the largest z."""
    return int(np.lexsort((-z, pvalues))[0])
