"""Test of calibration by the squared kernel calibration error, for binary and multiclass problems."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_calib._core._clusters import dependence_of
from sklearn_calib._core._kernel import median_distance, null_cumulants
from sklearn_calib._core._null import TIE, monte_carlo_pvalue
from sklearn_calib._validation import (
    BinarySample,
    ClassSample,
    check_generator,
    check_positive,
)
from sklearn_calib.inference._testing._base import CalibrationTestResult
from sklearn_calib.inference._testing._classes import REDUCTIONS
from sklearn_calib.inference._testing._kernel_sample import KernelSample
from sklearn_calib.inference._testing._simulated import SimulatedTest, is_large, simulates
from sklearn_calib.inference._testing._tails import gamma_sf

# The adaptive test uses the median distance times these.
_GRID = np.array([4.0, 1.0, 0.25, 0.0625, 0.015625])

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
        Its standard deviation under the null hypothesis, exact given the predictions.
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


class KernelTest(SimulatedTest):
    r"""Test of perfect calibration by the squared kernel calibration error (SKCE), for any number of classes.

    For a pair of observations with one-hot labels e, predictions p and a Laplacian kernel of bandwidth s let
    ::

        h_ij = kappa(p_i, p_j) <e_i - p_i, e_j - p_j>,
        kappa(p, q) = exp(-d(p, q) / s),    d(p, q) = sum_k |p_k - q_k| / 2,

    which has mean 0 if predictions are calibrated, for every pair. The statistic is the mean of h over all
    pairs [1]_, and large values are evidence against the null hypothesis P(Y = k | p) = p_k for every class
    k: unlike a test of the confidence, this one tests the whole vector of probabilities. In a binary problem
    p is the probability of the positive class and h_ij = kappa(p_i, p_j) (y_i - p_i) (y_j - p_j) with d the
    absolute difference, which is half of the value for two columns.

    Parameters
    ----------
    bandwidth : "median", "adaptive" or float, default="median"
        A number s > 0; or the median of the distances d of all pairs of samples, for n > 1000 of 1000 samples
        equally spaced in the order of the predictions (and without zeros, if they are more than half); or
        "adaptive", five bandwidths from 1/64 to 4 times the median, of which the largest estimate in units of
        its null standard deviation is the statistic. Small bandwidths detect oscillating miscalibration.
    method : {"auto", "asymptotic", "monte_carlo"}, default="auto"
        How the p-value is obtained. "monte_carlo": from labels simulated from the predictions, exact given
        the predictions for any n. "asymptotic": for one bandwidth and a binary problem, a gamma distribution
        with the exact variance and third cumulant given the predictions; no resampling. "auto" is
        "asymptotic" where this exists and :class:`TCal` chooses it, else "monte_carlo".
    %(simulated_canonical)s

    Attributes
    ----------
    result_ : CalibrationTestResult
        The result on the data given to ``fit``, with a :class:`KernelScale` for each bandwidth.
    %(tested_fit)s

    Raises
    ------
    ValueError
        By :meth:`test`, also if ``method="asymptotic"`` is used with ``bandwidth="adaptive"`` or three or
        more classes, and for more than 8192 distinct predictions of three or more classes.

    See Also
    --------
    TCal : Uses bins instead of a kernel.
    CutoffTest : Uses cumulative residuals; no tuning parameter.

    Notes
    -----
    ``estimate`` is sqrt(max(SKCE, 0)), the kernel calibration error in units of probability, at the selected
    bandwidth; if it was selected among several, the estimate is biased upwards.

    The statistic of the result is the estimate of the SKCE itself, for "adaptive" the largest standardised
    estimate.

    The estimate has variance 2 sum_{i != j} kappa_ij^2 tr(S_i S_j) / (n (n - 1))^2 under the null hypothesis,
    where S = diag(p) - p p' is the covariance of a label; in a binary problem tr(S_i S_j) is replaced by v_i
    v_j with v = p (1 - p). The gamma distribution also matches the third cumulant. It approximates the
    asymptotic distribution, that of a weighted sum of independent chi-squared variables;
    ``benchmarks/error_rates.py level`` estimates the level, which is too low for rare events. Where sum_i v_i
    is below 1 it is not used: the p-value is 1, and ``reason`` says so.

    p-values of "monte_carlo" are (1 + #{T* >= T}) / (1 + n_resamples). A weight of k is the sample repeated k
    times.

    Cost for G distinct predictions, for each simulation: O(G) for binary problems, by a recursion over sorted
    predictions; O(G^2 K) for K classes, in memory O(G), some of the pairs at a time.

    References
    ----------
    .. [1] D. Widmann, F. Lindsten and D. Zachariah (2019). Calibration tests in multi-class classification: A
       unifying framework. Advances in Neural Information Processing Systems 32. arXiv:1910.11385

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import KernelTest
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet(np.ones(3), size=300)
    >>> y = np.array([rng.choice(3, p=row) for row in p])
    >>> KernelTest().test(y, p).rejects()
    False
    >>> sharp = p**2 / np.sum(p**2, axis=1, keepdims=True)
    >>> print(KernelTest().test(y, sharp))
    kernel test: H0: P(Y = k | p) = p_k for every class k
      p-value    0.001  (999 simulations)
      statistic  ...
      estimate   ...
      n          300
      bandwidth ...
    """

    _reductions = ("canonical", *REDUCTIONS)

    def __init__(
        self,
        *,
        bandwidth: str | float = "median",
        method: str = "auto",
        n_resamples: int = 999,
        reduction: str = "canonical",
        random_state: Any = 0,
    ) -> None:
        self.bandwidth = bandwidth
        super().__init__(
            method=method, n_resamples=n_resamples, reduction=reduction, random_state=random_state
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.bandwidth, str):
            check_positive(self.bandwidth, "bandwidth")
        elif self.bandwidth not in ("median", "adaptive"):
            raise ValueError(
                f"bandwidth must be 'median', 'adaptive' or a positive number, got {self.bandwidth!r}."
            )
        elif self.bandwidth == "adaptive" and self.method == "asymptotic":
            raise ValueError(
                "bandwidth='adaptive' needs the joint distribution of several statistics, which "
                "method='asymptotic' does not provide. Use method='monte_carlo'."
            )

    def _test_sample(self, sample: BinarySample) -> CalibrationTestResult:
        large = is_large(sample) and self.bandwidth != "adaptive"
        return self._result(KernelSample.from_binary(sample), large, "P(Y = 1 | p) = p")

    def _test_classes(self, sample: ClassSample) -> CalibrationTestResult:
        if self.reduction != "canonical" or sample.y.ndim == 2:
            return super()._test_classes(sample)
        if self.method == "asymptotic":
            raise ValueError(
                "method='asymptotic' is for binary problems, but y_proba has "
                f"{sample.p.shape[1]} columns. Use method='monte_carlo'."
            )
        return self._result(KernelSample.from_classes(sample), False, "P(Y = k | p) = p_k for every class k")

    def _result(self, sample: KernelSample, large: bool, null_hypothesis: str) -> CalibrationTestResult:
        simulate = simulates(self.method, large, sample.clusters)
        if isinstance(self.bandwidth, str):
            grid = _GRID if self.bandwidth == "adaptive" else np.ones(1)
            bandwidths = median_distance(sample.points, sample.weight) * grid
        else:
            bandwidths = np.array([float(self.bandwidth)])
        n_draws = self.n_resamples if simulate else 0
        generator = check_generator(self.random_state)
        observed, deviation, null = sample.estimates(bandwidths, n_draws, generator)
        usable = deviation > 0.0
        best, statistic, pvalue, distribution = 0, float(observed[0]), 1.0, None
        pvalues = np.ones(bandwidths.shape[0])
        reason = ""
        if sample.total < 2:
            reason = _ONE_SAMPLE
        elif not usable.any():
            reason = _NO_PAIR
        elif simulate:
            unit = np.where(usable, deviation, 1.0)
            z, scaled = np.where(usable, observed / unit, -np.inf), null / unit[:, np.newaxis]
            pvalues[usable] = [monte_carlo_pvalue(z[k], scaled[k], TIE) for k in np.flatnonzero(usable)]
            best = int(z.argmax())
            pvalue, distribution = float(pvalues[0]), null[0]
            if z.shape[0] > 1:
                statistic, distribution = float(z[best]), scaled[usable].max(axis=0)
                pvalue = monte_carlo_pvalue(statistic, distribution, TIE)
        else:
            p = sample.points[:, 0]
            if float(sample.weight @ (p * (1.0 - p))) < _LEAST_VARIANCE:
                reason = _TOO_CERTAIN
            else:
                variance, third = null_cumulants(
                    sample.points, sample.weight, float(bandwidths[0]), sample.scale
                )
                z = np.array(statistic / float(deviation[0]))
                pvalue = pvalues[0] = float(gamma_sf(z, np.array(third / variance**1.5)))
        if reason and bandwidths.shape[0] > 1:
            statistic = 0.0
        words = f"{self.n_resamples} simulations" if simulate else "asymptotic"
        if bandwidths.shape[0] > 1:
            words += f", max over {bandwidths.shape[0]} bandwidths"
        return CalibrationTestResult(
            test="kernel test",
            null_hypothesis=null_hypothesis,
            statistic=statistic,
            pvalue=pvalue,
            estimate=float(np.sqrt(max(observed[best], 0.0))),
            method=words,
            n_samples=sample.total,
            scales=tuple(
                KernelScale(*map(float, scale))
                for scale in zip(bandwidths, observed, deviation, pvalues, strict=True)
            ),
            null_distribution=distribution,
            reason=reason or f"bandwidth {float(bandwidths[best]):.3g}",
            **dependence_of(sample.clusters, sample.probabilities),
        )
