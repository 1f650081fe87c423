"""Tests of calibration by the squared kernel calibration error, for binary and multiclass problems."""

from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
from scipy.stats import norm

from sklearn_calib._core._clusters import dependence_of
from sklearn_calib._core._kernel import KERNELS, median_distance, null_cumulants
from sklearn_calib._core._null import monte_carlo_pvalue
from sklearn_calib._typing import Array
from sklearn_calib._validation import (
    BinarySample,
    ClassSample,
    check_generator,
    check_option,
    check_positive,
    check_randomness,
    check_size,
)
from sklearn_calib.inference._base import CalibrationTest, CalibrationTestResult
from sklearn_calib.inference._kernel_estimators import (
    Estimates,
    KernelSample,
    block_estimates,
    quadratic_estimates,
)
from sklearn_calib.inference._simulated import refuse_clusters
from sklearn_calib.inference._tails import SMALLEST_PVALUE, gamma_sf

_ESTIMATORS = ("quadratic", "block", "linear")
_METHODS = ("auto", "monte_carlo", "asymptotic", "theory")

# The adaptive test uses the median distance times these.
_GRID = np.array([4.0, 1.0, 0.25, 0.0625, 0.015625])

# What counts as a tie of two standardised statistics.
_TIE = 1e-9

# The gamma approximation needs this total variance of outcomes: with less, most samples contain no unlikely
# outcome, and all these have the same value of the statistic.
_LEAST_VARIANCE = 1.0

_NO_PAIR = "no information: no two observations of uncertain outcome are near each other"
_TOO_CERTAIN = "too few uncertain outcomes for the approximation; use method='monte_carlo'"
_ONE_SAMPLE = "no information: there are fewer than two observations"


@dataclass(frozen=True)
class KernelScale:
    """One bandwidth of a kernel test.

    Attributes
    ----------
    bandwidth : float
        Bandwidth of the kernel.
    statistic : float
        The estimate of the squared kernel calibration error.
    null_std : float
        Its standard deviation under the null hypothesis, exact given the predictions and the blocks.
    pvalue : float
        p-value of this bandwidth alone.
    """

    bandwidth: float
    statistic: float
    null_std: float
    pvalue: float

    def __str__(self) -> str:
        return (
            f"bandwidth {self.bandwidth:.3g}: SKCE = {self.statistic:.4g}, null sd {self.null_std:.3g}, "
            f"p-value {self.pvalue:.4g}"
        )


class KernelTest(CalibrationTest):
    r"""Test of perfect calibration by the squared kernel calibration error (SKCE), for any number of classes.

    For a pair of observations with one-hot labels e, predictions p and a kernel kappa of bandwidth s let ::

        h_ij = kappa(p_i, p_j) <e_i - p_i, e_j - p_j>,
        kappa(p, q) = exp(-d(p, q) / s)              "laplacian", d(p, q) = sum_k |p_k - q_k| / 2,
        kappa(p, q) = exp(-d(p, q)^2 / (2 s^2))      "gaussian",  d(p, q) = ||p - q|| / sqrt(2),

    which has mean 0 if predictions are calibrated, for every pair. The statistics are means of h over pairs
    [1]_, and large values are evidence against the null hypothesis P(Y = k | p) = p_k for every class k:
    unlike a test of the confidence, this one tests the whole vector of probabilities. In a binary problem p
    is the probability of the positive class and h_ij = kappa(p_i, p_j) (y_i - p_i) (y_j - p_j) with d the
    absolute difference, which is half of the value for two columns.

    Parameters
    ----------
    kernel : {"laplacian", "gaussian"}, default="laplacian"
        The kernel. Both distinguish calibrated predictions from all others.
    bandwidth : "median", "adaptive" or float, default="median"
        A number s > 0; or the median of the distances d of all pairs of samples, for n > 1000 of 1000 samples
        equally spaced in the order of the predictions (and without zeros, if they are more than half); or
        "adaptive", five bandwidths from 1/64 to 4 times the median, of which the largest estimate in units of
        its null standard deviation is the statistic. Small bandwidths detect oscillating miscalibration.
    estimator : {"quadratic", "block", "linear"}, default="quadratic"
        Which pairs enter the mean. "quadratic": all, the most powerful. "block": those within blocks of
        ``block_size`` samples. "linear": disjoint pairs, blocks of two. Blocks are formed after a shuffle by
        ``random_state``, so that the order of samples does not matter.
    method : {"auto", "monte_carlo", "asymptotic", "theory"}, default="auto"
        How the p-value is obtained. "monte_carlo": from labels simulated from the predictions, exact given
        the predictions for any n and every estimator. "asymptotic": a normal distribution for blocks, and for
        the quadratic estimator of a binary problem a gamma distribution with the exact variance and third
        cumulant given the predictions; no resampling. "theory": Hoeffding's inequality, valid for any n, but
        far from sharp. "auto" is "asymptotic" for blocks of a single bandwidth, else "monte_carlo".
    block_size : int or None, default=None
        Number of samples in a block, at least 2; None means the square root of n. Only for
        ``estimator="block"``.
    n_resamples : int, default=999
        Number of simulated samples of "monte_carlo".
    random_state : int, Generator, RandomState or None, default=None
        Source of the simulations and of the blocks; an integer makes the result reproducible.

    Attributes
    ----------
    result_ : CalibrationTestResult
        The result on the data given to ``fit``, with a :class:`KernelScale` for each bandwidth.
    %(tested_fit)s

    Raises
    ------
    ValueError
        By :meth:`test`, also if ``block_size`` exceeds n or is used with another estimator; if
        ``bandwidth="adaptive"`` is used with another method than "monte_carlo"; for three or more classes if
        the quadratic estimator is used with more than 8192 distinct predictions or ``method="asymptotic"``.

    See Also
    --------
    TCal : Uses bins instead of a kernel.
    CutoffTest : Uses cumulative residuals; no tuning parameter.

    Notes
    -----
    ``estimate`` is sqrt(max(SKCE, 0)), the kernel calibration error in units of probability, at the selected
    bandwidth; if it was selected among several, the estimate is biased upwards.

    The statistic of the result is the estimate of the SKCE itself, with two exceptions: the largest
    standardised estimate for "adaptive"; and for the asymptotic test of blocks with means t_b their sum,
    divided by the root of the larger of sum_b t_b^2 and its expectation under the null hypothesis. It is
    standard normal for many blocks. The studentised mean of [1]_ uses the first alone, which is far too small
    if events are rare and none, or no two in a block, were observed. Samples that do not fill a block are
    left out.

    The quadratic estimator has variance 2 sum_{i != j} kappa_ij^2 tr(S_i S_j) / (n (n - 1))^2 under the null
    hypothesis, where S = diag(p) - p p' is the covariance of a label; in a binary problem tr(S_i S_j) is
    replaced by v_i v_j with v = p (1 - p). The gamma distribution also matches the third cumulant. It
    approximates the asymptotic distribution, that of a weighted sum of independent chi-squared variables; the
    test is close to its level from about 20 observations on, and conservative for rare events;
    ``python benchmarks/kernel_level.py`` prints the levels of all asymptotic tests. Where sum_i v_i is below
    1 it is not used: the p-value is 1, and ``reason`` says so.

    p-values of "monte_carlo" are (1 + #{T* >= T}) / (1 + n_resamples). The p-value of "theory", for T > 0 of
    m blocks of B samples (m = 1 for "quadratic"), is exp(-2 m floor(B / 2) T^2 / c^2) [2]_, where c, the
    range of h, is 2 in a binary problem and 4 otherwise. A weight of k is the sample repeated k times.

    Cost of the quadratic estimator for G distinct predictions, for each simulation: O(G) for the binary
    Laplacian kernel, by a recursion over sorted predictions; O(G min(G, 1 + r / s)) for the binary Gaussian,
    by cosines and sines (r is the range of the predictions; exact up to rounding); O(G^2 K) for K classes, in
    memory O(G), some of the pairs at a time. Blocks cost O(n block_size) for each simulation, in bounded
    memory.

    References
    ----------
    .. [1] D. Widmann, F. Lindsten and D. Zachariah (2019). Calibration tests in multi-class classification: A
       unifying framework. Advances in Neural Information Processing Systems 32. arXiv:1910.11385
    .. [2] W. Hoeffding (1963). Probability inequalities for sums of bounded random variables. Journal of the
       American Statistical Association 58. Section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import KernelTest
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet(np.ones(3), size=300)
    >>> y = np.array([rng.choice(3, p=row) for row in p])
    >>> KernelTest(random_state=0).test(y, p).rejects()
    False
    >>> sharp = p**2 / np.sum(p**2, axis=1, keepdims=True)
    >>> print(KernelTest(random_state=0).test(y, sharp))
    kernel test: H0: P(Y = k | p) = p_k for every class k
      p-value    0.001  (999 simulations)
      statistic  ...
      estimate   ...
      n          300
      quadratic estimator, laplacian kernel, bandwidth ...
    """

    _knows_clusters = True

    def __init__(
        self,
        *,
        kernel: str = "laplacian",
        bandwidth: str | float = "median",
        estimator: str = "quadratic",
        method: str = "auto",
        block_size: int | None = None,
        n_resamples: int = 999,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.estimator = estimator
        self.method = method
        self.block_size = block_size
        self.n_resamples = n_resamples
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_option(self.kernel, "kernel", KERNELS)
        check_option(self.estimator, "estimator", _ESTIMATORS)
        check_option(self.method, "method", _METHODS)
        if isinstance(self.bandwidth, str):
            if self.bandwidth not in ("median", "adaptive"):
                raise ValueError(
                    f"bandwidth must be 'median', 'adaptive' or a positive number, got {self.bandwidth!r}."
                )
            if self.bandwidth == "adaptive" and self.method in ("asymptotic", "theory"):
                raise ValueError(
                    "bandwidth='adaptive' needs the joint distribution of several statistics, which "
                    f"method={self.method!r} does not provide. Use method='monte_carlo'."
                )
        else:
            check_positive(self.bandwidth, "bandwidth")
        if self.block_size is not None:
            check_size(self.block_size, "block_size", 2)
            if self.estimator != "block":
                raise ValueError(
                    f"block_size={self.block_size} is for estimator='block', not {self.estimator!r}. Omit it."
                )
        check_size(self.n_resamples, "n_resamples")
        check_randomness(self.random_state)

    def _test_sample(self, sample: BinarySample) -> CalibrationTestResult:
        return self._result(KernelSample.from_binary(sample), "P(Y = 1 | p) = p")

    def _test_classes(self, sample: ClassSample) -> CalibrationTestResult:
        if self.method == "asymptotic" and self.estimator == "quadratic":
            raise ValueError(
                "method='asymptotic' with estimator='quadratic' is for binary problems, but y_proba has "
                f"{sample.p.shape[1]} columns. Use method='monte_carlo', or estimator='block'."
            )
        return self._result(KernelSample.from_classes(sample), "P(Y = k | p) = p_k for every class k")

    def _result(self, sample: KernelSample, null_hypothesis: str) -> CalibrationTestResult:
        n, quadratic = sample.total, self.estimator == "quadratic"
        size = self._samples_per_block(n)
        bandwidths = self._bandwidths(sample)
        method = self.method
        if method == "auto":
            single = bandwidths.shape[0] == 1
            method = "asymptotic" if single and not quadratic else "monte_carlo"
        if not quadratic:
            refuse_clusters(sample.clusters, "estimator", self.estimator, "quadratic")
        if method != "monte_carlo":
            refuse_clusters(sample.clusters, "method", method, "monte_carlo")
        if n < 2:
            nothing = np.zeros(bandwidths.shape[0])
            decision = _Decision.undecided(nothing, _ONE_SAMPLE)
            estimates = Estimates(nothing, nothing, nothing[:, np.newaxis], nothing[:, np.newaxis])
        else:
            n_draws = self.n_resamples if method == "monte_carlo" else 0
            generator = check_generator(self.random_state)
            if quadratic:
                estimates = quadratic_estimates(sample, self.kernel, bandwidths, n_draws, generator)
            else:
                estimates = block_estimates(sample, self.kernel, bandwidths, size, n_draws, generator)
            decision = self._decide(method, sample, bandwidths, estimates, size)
        best = decision.scale
        described = "quadratic estimator"
        if not quadratic:
            described = f"{estimates.blocks.shape[1]} blocks of {size}"
        words = f"{self.n_resamples} simulations" if method == "monte_carlo" else method
        if bandwidths.shape[0] > 1:
            words += f", max over {bandwidths.shape[0]} bandwidths"
        return CalibrationTestResult(
            test="kernel test",
            null_hypothesis=null_hypothesis,
            statistic=decision.statistic,
            pvalue=decision.pvalue,
            estimate=float(np.sqrt(max(estimates.observed[best], 0.0))),
            method=words,
            n_samples=n,
            scales=tuple(
                KernelScale(float(bandwidth), float(observed), float(deviation), float(pvalue))
                for bandwidth, observed, deviation, pvalue in zip(
                    bandwidths, estimates.observed, estimates.deviation, decision.scale_pvalues, strict=True
                )
            ),
            null_distribution=decision.null_distribution,
            reason=decision.reason
            or f"{described}, {self.kernel} kernel, bandwidth {float(bandwidths[best]):.3g}",
            asymptotic_null="normal" if decision.normal else "",
            **dependence_of(sample.clusters, sample.probabilities),
        )

    def _samples_per_block(self, n: int) -> int:
        if self.estimator == "quadratic":
            return n
        if self.estimator == "linear":
            return 2
        if self.block_size is None:
            return max(2, isqrt(n))
        if self.block_size > n:
            raise ValueError(
                f"block_size={self.block_size} exceeds the number of observations, {n}. Use a smaller one."
            )
        return int(self.block_size)

    def _bandwidths(self, sample: KernelSample) -> Array:
        if not isinstance(self.bandwidth, str):
            return np.array([float(self.bandwidth)])
        median = median_distance(sample.points, sample.weight, self.kernel)
        return median * (_GRID if self.bandwidth == "adaptive" else np.ones(1))

    def _decide(
        self, method: str, sample: KernelSample, bandwidths: Array, estimates: Estimates, size: int
    ) -> "_Decision":
        if not estimates.deviation.any():
            return _Decision.undecided(estimates.observed, _NO_PAIR)
        if method == "monte_carlo":
            return _monte_carlo(estimates)
        statistic = float(estimates.observed[0])
        if method == "theory":
            width = 2.0 if sample.points.shape[1] == 1 else 4.0
            halves = estimates.blocks.shape[1] * (size // 2)
            exponent = -2.0 * halves * (max(statistic, 0.0) / width) ** 2
            return _Decision.single(statistic, max(float(np.exp(exponent)), SMALLEST_PVALUE))
        if self.estimator == "quadratic":
            p = sample.points[:, 0]
            if float(sample.weight @ (p * (1.0 - p))) < _LEAST_VARIANCE:
                return _Decision.undecided(estimates.observed, _TOO_CERTAIN)
            variance, third = null_cumulants(sample.points, sample.weight, self.kernel, float(bandwidths[0]))
            z = statistic / float(estimates.deviation[0])
            return _Decision.single(statistic, float(gamma_sf(np.array(z), np.array(third / variance**1.5))))
        # the larger of the sum of squares and its expectation, in units that cannot underflow
        m, unit = estimates.blocks.shape[1], float(estimates.deviation[0])
        spread = np.sqrt(np.mean((estimates.blocks[0] / unit) ** 2) / m)
        z = statistic / (unit * max(float(spread), 1.0))
        return _Decision.single(z, max(float(norm.sf(z)), SMALLEST_PVALUE), normal=True)


@dataclass(frozen=True, eq=False)
class _Decision:
    """Result of a method for the estimates: ``scale`` is the index of the selected bandwidth."""

    statistic: float
    pvalue: float
    scale: int
    scale_pvalues: Array
    null_distribution: Array | None = None
    reason: str = ""
    normal: bool = False

    @classmethod
    def single(cls, statistic: float, pvalue: float, *, normal: bool = False) -> "_Decision":
        return cls(statistic, pvalue, 0, np.array([pvalue]), normal=normal)

    @classmethod
    def undecided(cls, observed: Array, reason: str) -> "_Decision":
        statistic = float(observed[0]) if observed.shape[0] == 1 else 0.0
        return cls(statistic, 1.0, 0, np.ones(observed.shape[0]), reason=reason)


def _monte_carlo(estimates: Estimates) -> _Decision:
    deviation = estimates.deviation
    usable = deviation > 0.0
    unit = np.where(usable, deviation, 1.0)
    z = np.where(usable, estimates.observed / unit, -np.inf)
    null = estimates.null / unit[:, np.newaxis]
    scale_pvalues = np.array(
        [
            monte_carlo_pvalue(value, draws, _TIE) if use else 1.0
            for value, draws, use in zip(z, null, usable, strict=True)
        ]
    )
    best = int(z.argmax())
    if z.shape[0] == 1:
        statistic, pvalue, distribution = (
            float(estimates.observed[0]),
            float(scale_pvalues[0]),
            estimates.null[0],
        )
    else:
        statistic, distribution = float(z[best]), null[usable].max(axis=0)
        pvalue = monte_carlo_pvalue(statistic, distribution, _TIE)
    return _Decision(statistic, pvalue, best, scale_pvalues, distribution)
