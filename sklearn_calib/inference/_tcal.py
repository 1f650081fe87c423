"""T-Cal, the test of perfect calibration by a debiased estimate of the squared l2 calibration error."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._validation import (
    BinarySample,
    ClassSample,
    check_fraction,
    check_generator,
    check_option,
    check_positive,
    check_randomness,
    check_share,
    check_size,
)
from sklearn_calib.inference._base import CalibrationTest, CalibrationTestResult
from sklearn_calib.inference._tcal_decision import DECIDE, Options
from sklearn_calib.inference._tcal_scales import BinaryScales, ClassScales, Scales, finest_level

__all__ = ["TCal", "TCalScale"]

Array = NDArray[np.float64]

_METHODS = ("monte_carlo", "asymptotic", "theory")
_COMBINE = ("weighted", "max", "min-p", "bonferroni")
_RESAMPLE = ("labels", "pairs")
_STATISTICS = ("debiased", "biased", "l1")
_REDUCTIONS = ("canonical", "confidence")


@dataclass(frozen=True)
class TCalScale:
    """One scale of a T-Cal test.

    Attributes
    ----------
    n_bins : int
        Number of equal-width bins; for several classes the number of parts m of each of K - 1 axes, which
        make m^(K - 1) cells.
    statistic : float
        T, the debiased estimate of the squared calibration error at this scale (or the statistic chosen
        instead).
    null_std : float
        Standard deviation of T under the null hypothesis: exact given the predictions, or that of the draws
        where labels are not all that is redrawn, or T is not debiased.
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
    """T-Cal: test of perfect calibration against alternatives of any shape, for two classes or several.

    The predictions are cut into m equal-width bins, and the statistic is the debiased plug-in estimate of
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
        at which no two observations share a bin carry no information, and are left out.
    method : {"monte_carlo", "asymptotic", "theory"}, default="monte_carlo"
        How p-values are obtained. "monte_carlo": from redrawn samples; exact for any n if
        ``resample="labels"``. "asymptotic": from the variance and third cumulant of T given the predictions,
        through a gamma law, and for several scales a Gaussian copula with the correlations of neighbouring
        scales; no resampling, the choice for n of 1e5 and more. Scales with few pairs are left out. "theory":
        the finite-sample critical values of Theorem 3.1 for one scale, and of Theorem 3.2, eq. (7), for
        several. They are far from sharp. With more than n bins they need Assumption 3.1 of [1]_, that
        predictions have a bounded density; see Notes. The p-value is the smallest level that rejects.
    n_resamples : int, default=999
        Number of redrawn samples of "monte_carlo".
    combine : {"weighted", "max", "min-p", "bonferroni"}, default="weighted"
        How several scales make one test. "weighted": the smallest p-value of a scale divided by its share of
        the level, where p-values are those of gamma laws with the variance and third cumulant of T; half of
        the level is spent equally, half in proportion to 1 / b on m = 2^b. "max": the largest T divided by
        its null standard deviation, which favours coarse scales, whose laws have heavier tails. "min-p": the
        smallest p-value of a scale, by rank among the draws (ties go by the largest standardised T), compared
        with its own null law. "bonferroni", as in [1]_: the smallest p-value times the number of scales B.
        All but the last are exact with "monte_carlo" and account for the dependence of the scales with
        "asymptotic"; "theory" always takes "bonferroni".
    resample : {"labels", "pairs"}, default="labels"
        What "monte_carlo" redraws: only the outcomes, Y* ~ Bernoulli(p), which is exact given the
        predictions; or whole samples, predictions drawn with replacement and then outcomes from them
        (consistency resampling). This is approximate: repeated samples share the finest bins, so that the
        level is not exact.
    statistic : {"debiased", "biased", "l1"}, default="debiased"
        For comparison (Sec. 4.1 of [1]_), "biased" keeps the squares sum r_i^2 in T, and "l1" is the plug-in
        estimate of the l1 calibration error. Their values are dominated by noise; redrawn labels make valid
        tests of them all the same. Both need ``method="monte_carlo"`` and ``resample="labels"``.
    tolerance : float, default=0
        Test the composite null hypothesis that the l2 distance of the predictions from the calibration curve,
        sqrt(mean of (P(Y = 1 | p_i) - p_i)^2) or its Euclidean version, is at most this (Remark 3 of [1]_,
        where it is c0 n^(-2 s / (4 s + K - 1))). See Notes.
    reduction : {"canonical", "confidence"}, default="canonical"
        What is tested of three or more classes: the whole vector of probabilities, or whether the predicted
        class is right as often as its probability says, a binary problem.
    alpha : float, default=0.05
        Level at which the test must be able to reject: with "monte_carlo", ``n_resamples`` + 1 has to be at
        least 1 / alpha, and B / alpha with "bonferroni"; too few are an error. Nothing else depends on it.
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

    ``estimate`` is sqrt(max(T, 0)) at the scale that decided (T itself for "l1"); chosen among several, it
    is optimistic about how far the predictions are off. In the vector convention of [1]_, which compares
    one-hot labels with the probabilities of all classes, T of a binary problem is twice as large and the
    calibration error sqrt(2) times; critical values of "theory" are applied in it, and for K > 2 all else is.
    The cells for K > 2 depend on the order of the classes.

    The statistic of the result is T for a fixed smoothness, the smallest p-value over share for "weighted",
    the largest standardised T for "max", the smallest p-value of a scale for "min-p" and "bonferroni" (small
    values of the first and the last two reject), and for "theory" the largest ratio of T to what rejects at
    level 1. Standardised "biased" and "l1" statistics are centred and scaled by mean and standard deviation
    over the draws and the sample.

    "asymptotic" takes the variance of T and the covariance of neighbouring scales exactly. The third cumulant
    is exact for bins wider than 2^-12; in narrower ones the rows of a bin are taken for alike, as they are in
    cells of few rows for K > 2.

    The critical values of "theory" are those of Chebyshev's inequality with an upper bound on the variance of
    T. For at most n bins (n cells) the bound holds for any predictions. For more it holds if predictions have
    a bounded density (Assumption 3.1), so that few of them share a bin; tied predictions violate it. Where
    the null variance of T, given the predictions, exceeds the bound, the variance takes its place and
    ``reason`` says so: the level then holds for any predictions.

    With a ``tolerance`` c, miscalibration adds to a null statistic a mean of at most c^2, and a term linear
    in the outcomes whose variance is at most c^2 / n (2 c^2 / n for K > 2). The tests assume both to be
    attained, at all scales at once, with outcomes drawn from probabilities that are c away from the
    predictions towards the greatest variance; p-values are then conservative, up to a normal approximation
    of the linear term. "theory" adds the same mean and variance to its bounds.

    Cost: one sort; then O(n) for all scales together, for each redrawn sample or for the moments. Memory
    beyond the data is bounded, whatever the number of draws. For K > 2, O(n (K + log n)) for each scale and
    O(n log K) for each redrawn sample and scale; moments cost O(n K min(K, rows in a cell)). Cells that hold
    observations are found by a hash; the others are never enumerated.

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
      p-value    0.001  (999 label draws, weighted over 16 scales)
      statistic  ...
      estimate   ...
      n          500
      decided by 2 bins
    """

    _smallest = 1e-60

    def __init__(
        self,
        *,
        smoothness: str | float = "adaptive",
        method: str = "monte_carlo",
        n_resamples: int = 999,
        combine: str = "weighted",
        resample: str = "labels",
        statistic: str = "debiased",
        tolerance: float = 0.0,
        reduction: str = "canonical",
        alpha: float = 0.05,
        random_state: Any = None,
    ) -> None:
        self.smoothness = smoothness
        self.method = method
        self.n_resamples = n_resamples
        self.combine = combine
        self.resample = resample
        self.statistic = statistic
        self.tolerance = tolerance
        self.reduction = reduction
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
        check_size(self.n_resamples, "n_resamples")
        check_option(self.combine, "combine", _COMBINE)
        check_option(self.resample, "resample", _RESAMPLE)
        check_option(self.statistic, "statistic", _STATISTICS)
        check_option(self.reduction, "reduction", _REDUCTIONS)
        check_share(self.tolerance, "tolerance")
        self._check_combination()
        check_fraction(self.alpha, "alpha")
        if self.method == "monte_carlo":
            self._check_resamples(1)
        check_randomness(self.random_state)

    def _check_combination(self) -> None:
        if self.statistic != "debiased" and (
            self.method != "monte_carlo" or self.resample != "labels" or self.tolerance
        ):
            raise ValueError(
                f"statistic={self.statistic!r} is for comparison only: it needs method='monte_carlo', "
                "resample='labels' and tolerance=0. Use statistic='debiased' for all else."
            )
        if self.tolerance and self.method == "monte_carlo" and self.resample == "pairs":
            raise ValueError("tolerance needs resample='labels' (or another method), got resample='pairs'.")

    def _check_resamples(self, n_scales: int) -> None:
        needed = np.ceil(n_scales / self.alpha - 1e-9) - 1
        if self.n_resamples < needed:
            several = f" with combine='bonferroni' and {n_scales} scales" if n_scales > 1 else ""
            instead = ", or another way to combine" if n_scales > 1 else ""
            raise ValueError(
                f"n_resamples={self.n_resamples} can never reject at alpha={self.alpha:g}{several}. "
                f"Use n_resamples >= {needed:.0f}{instead}."
            )

    def _check_draws(self, n: float, n_classes: int) -> None:
        if isinstance(self.smoothness, str) and (self.method, self.combine) == ("monte_carlo", "bonferroni"):
            self._check_resamples(finest_level(n, n_classes))

    def _test_sample(self, sample: BinarySample) -> CalibrationTestResult:
        self._check_draws(sample.total, 2)
        smoothness = None if isinstance(self.smoothness, str) else float(self.smoothness)
        return self._decide(
            BinaryScales(sample, smoothness, ties=self.method == "monte_carlo"), "P(Y = 1 | p) = p"
        )

    def _test_classes(self, sample: ClassSample) -> CalibrationTestResult:
        if self.reduction == "confidence":
            top = sample.p.argmax(axis=1)
            confidence = np.minimum(sample.p[np.arange(top.shape[0]), top], 1.0)
            return replace(
                self._test_sample(BinarySample((sample.y == top).astype(np.int64), confidence, sample.w)),
                null_hypothesis="P(predicted class is right | confidence) = confidence",
            )
        n = float(sample.y.shape[0] if sample.w is None else sample.w.sum())
        self._check_draws(n, sample.p.shape[1])
        smoothness = None if isinstance(self.smoothness, str) else float(self.smoothness)
        return self._decide(ClassScales(sample, smoothness), "P(Y = k | p) = p_k for every class k")

    def _decide(self, scales: Scales, null_hypothesis: str) -> CalibrationTestResult:
        adaptive = isinstance(self.smoothness, str)
        options = Options(
            adaptive=adaptive,
            combine=self.combine,
            statistic=self.statistic,
            resample=self.resample,
            tolerance=float(self.tolerance),
            n_resamples=self.n_resamples,
            generator=lambda: check_generator(self.random_state),
        )
        decision = DECIDE[self.method](scales, options)
        best = decision.scale
        paired = np.flatnonzero(scales.moments.rows > 0.0)
        error = max(float(decision.observed[best]), 0.0)
        if self.tolerance:
            null_hypothesis = f"the l2 distance of p from its calibration curve is at most {self.tolerance:g}"
        return CalibrationTestResult(
            test="T-Cal" if self.statistic == "debiased" else f"T-Cal, {self.statistic} statistic",
            null_hypothesis=null_hypothesis,
            statistic=decision.statistic,
            pvalue=decision.pvalue,
            estimate=error if self.statistic == "l1" else float(np.sqrt(error)),
            method=decision.method
            + (f", {decision.combine} over {paired.shape[0]} scales" if adaptive else ""),
            n_samples=int(scales.n),
            scales=tuple(
                TCalScale(
                    n_bins=int(scales.n_bins[k]),
                    statistic=float(decision.observed[k]),
                    null_std=float(decision.deviation[k]),
                    pvalue=float(decision.scale_pvalues[k]),
                    n_paired=int(scales.moments.rows[k]),
                )
                for k in paired
            ),
            null_distribution=decision.null_distribution,
            tail=decision.tail,
            reason=decision.reason or _decided_by(int(scales.n_bins[best]), scales.n_classes),
        )


def _decided_by(n_bins: int, n_classes: int) -> str:
    if n_classes == 2:
        return f"decided by {n_bins} bins"
    return f"decided by {n_bins} parts of each axis, {n_bins}^{n_classes - 1} cells"
