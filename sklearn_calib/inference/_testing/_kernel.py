"""Test of calibration by the squared kernel calibration error, for binary and multiclass problems."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib import _validation
from sklearn_calib._core._blocks import block_sum
from sklearn_calib._core._clusters import Clusters, clusters_of_classes, dependence_of
from sklearn_calib._core._grouping import GroupedOutcomes, group_sample, group_starts, ones
from sklearn_calib._core._kernel import (
    MAX_DENSE,
    Form,
    kernel_form,
    median_distance,
    null_cumulants,
    null_variance,
)
from sklearn_calib._core._null import MAX_ELEMENTS, TIE, draw_positives, monte_carlo_pvalue, sample_labels
from sklearn_calib._core._weights import written_out
from sklearn_calib._typing import Array
from sklearn_calib.inference._testing import _simulated
from sklearn_calib.inference._testing._base import CalibrationTestResult
from sklearn_calib.inference._testing._classes import REDUCTIONS
from sklearn_calib.inference._testing._tails import gamma_sf


@dataclass(frozen=True, eq=False)
class KernelSample:
    """Distinct predictions in increasing order, with the number of samples and of samples of each class.

    ``points`` and ``counts`` have one column per class; in a binary problem one for the positive class.
    """

    points: Array
    weight: Array
    counts: Array
    # sampling weights of the samples of each point, of which some are tied
    scale: Array
    clusters: Clusters | None = None
    # binary samples
    grouped: GroupedOutcomes | None = None
    # multiclass samples with clusters: the point of each sample
    point: NDArray[np.intp] | None = None

    @classmethod
    def from_binary(cls, sample: _validation.BinarySample) -> "KernelSample":
        """Group outcomes by their prediction."""
        grouped = group_sample(sample)
        cells = grouped.samples
        scale = ones(cells.prob.shape[0]) if grouped.design is None else grouped.design.weight
        points, counts = cells.prob[:, np.newaxis], cells.positives[:, np.newaxis]
        return cls(points, cells.weight, counts, scale, cells.clusters, cells)

    @classmethod
    def from_classes(cls, sample: _validation.ClassSample) -> "KernelSample":
        """Group labels by their vector of probabilities."""
        scale = sample.weights if sample.sampling else np.ones(sample.y.shape[0])
        order = np.lexsort((scale, *sample.p.T[::-1]))
        p, y, scale = sample.p[order], sample.y[order], scale[order]
        w = np.ones_like(scale) if sample.sampling else sample.weights[order]
        changes = np.any(p[1:] != p[:-1], axis=1) | (scale[1:] != scale[:-1])
        group = np.concatenate(([0], np.cumsum(changes)))
        starts = group_starts(group)
        counts = np.zeros((starts.shape[0], p.shape[1]))
        np.add.at(counts, (group, y), w)
        found = cls(p[starts], np.add.reduceat(w, starts), counts, scale[starts])
        if sample.clusters is None:
            return found
        rows = written_out(w)
        clusters = clusters_of_classes(y[rows], p[rows], sample.clusters[order[rows]])
        return replace(found, clusters=clusters, point=group[rows])

    @property
    def probabilities(self) -> Array:
        """The predictions of ``clusters``: of points, or of multiclass samples."""
        return self.points[:, 0] if self.point is None else self.points[self.point]

    @property
    def total(self) -> int:
        """Number of samples."""
        return int(self.weight.sum())

    def squares(self, counts: Array) -> Array:
        """Return the sum over samples of squared residuals for counts (r, G, C): (r,).

        No term is negative: the rounding error of differences could exceed the contribution of rare events.
        """
        if self.points.shape[1] == 1:
            return np.asarray(
                block_sum(self.points.shape[0], lambda rows: self._binary_squares(counts, rows))
            )
        weight = np.square(self.scale)[:, np.newaxis]
        square, opposite = weight * np.square(self.points), weight * np.square(1.0 - self.points)
        others = square @ (1.0 - np.eye(square.shape[1]))
        return np.asarray(np.einsum("rgc,gc->r", counts, opposite + others))

    def _binary_squares(self, counts: Array, rows: slice) -> Array:
        p, column, square = self.points[rows, 0], counts[:, rows, 0], np.square(self.scale[rows])
        others = self.weight[rows] - column
        return np.asarray(column @ (square * np.square(1.0 - p)) + others @ (square * np.square(p)))

    def draw(self, n_draws: int, generator: np.random.Generator) -> Iterator[Array]:
        """Yield counts (r, G, C) of labels simulated from the predictions, ``n_draws`` in all."""
        n_points, n_columns = self.points.shape
        if self.grouped is not None:
            for positives in draw_positives(self.grouped, n_draws, generator):
                yield np.asarray(positives.T[:, :, np.newaxis], dtype=np.float64)
            return
        if self.point is not None:
            place, size = self.point * n_columns, n_points * n_columns
            for labels in sample_labels(self.points[self.point], n_draws, generator, self.clusters):
                drawn = np.bincount(place + labels[0], minlength=size).astype(np.float64)
                yield drawn.reshape(1, n_points, n_columns)
            return
        trials = self.weight.astype(np.int64)
        # all pairs are computed once for the simulations of a step
        step = max(256 // n_columns, MAX_ELEMENTS // (n_points * n_columns), 1)
        for first in range(0, n_draws, step):
            r = min(step, n_draws - first)
            yield generator.multinomial(trials, self.points, size=(r, n_points)).astype(np.float64)

    def estimates(
        self, bandwidths: Array, n_draws: int, generator: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        """Return the mean of h over all pairs of samples, the unbiased estimator, at each bandwidth.

        Then its standard deviation under the null hypothesis, given the predictions, and its values for
        simulated labels, (bandwidths, n_draws).
        """
        n_points, n_columns = self.points.shape
        if n_columns > 1 and n_points > MAX_DENSE:
            raise ValueError(
                f"y_proba has {n_points} distinct rows, but the test computes all pairs of them for three or "
                f"more classes, at most {MAX_DENSE} rows. Pass a random subset of the samples, or use TCal."
            )
        # a single sample has no pair
        pairs = max(float(self.total) * (self.total - 1.0), 1.0)
        observed, deviation = np.zeros((2, bandwidths.shape[0]))
        null = np.zeros((bandwidths.shape[0], n_draws))
        spread = _simulated.VarianceRatio.of(self.points, self.weight, self.counts, self.scale)
        seed = generator.integers(1 << 32, size=4).tolist()
        for scale, bandwidth in enumerate(bandwidths):
            form = kernel_form(self.points, bandwidth)
            observed[scale] = self._pair_sums(form, self.counts[np.newaxis])[0] / pairs
            variance = null_variance(self.points, self.weight, bandwidth, self.scale)
            deviation[scale] = np.sqrt(variance) / pairs * spread.own
            # the labels are the same for every bandwidth
            drawn = self.draw(n_draws, np.random.default_rng(seed))
            if n_draws:
                values = [
                    self._pair_sums(form, counts) * spread.relative(counts.reshape(counts.shape[0], -1).T)
                    for counts in drawn
                ]
                null[scale] = np.concatenate(values) / pairs
        if self.clusters is not None:
            # pairs of samples in a cluster shift the mean, the same for all samples that are compared
            mean, deviation = null.mean(axis=1), null.std(axis=1)
            observed, null = observed - mean, null - mean[:, np.newaxis]
        return observed, deviation, null

    def _pair_sums(self, form: Form, counts: Array) -> Array:
        """Return sum_{i != j} kappa_ij <r_i, r_j> over samples for counts (r, G, C): (r,)."""
        n_draws, _, n_columns = counts.shape

        def residual(rows: slice) -> Array:
            gap = counts[:, rows] - self.weight[rows, np.newaxis] * self.points[rows]
            weighted = np.moveaxis(gap, 2, 1) * self.scale[rows]
            return weighted.reshape(-1, weighted.shape[-1])

        forms = form(residual).reshape(n_draws, n_columns).sum(axis=1)
        out: Array = forms - self.squares(counts)
        return out


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


class KernelTest(_simulated.SimulatedTest):
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
    bandwidth; if it was selected among several, the estimate is biased upward.

    The statistic of the result is the estimate of the SKCE itself, for "adaptive" the largest standardized
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
            _validation.check_positive(self.bandwidth, "bandwidth")
        elif self.bandwidth not in ("median", "adaptive"):
            raise ValueError(
                f"bandwidth must be 'median', 'adaptive' or a positive number, got {self.bandwidth!r}."
            )
        elif self.bandwidth == "adaptive" and self.method == "asymptotic":
            raise ValueError(
                "bandwidth='adaptive' needs the joint distribution of several statistics, which "
                "method='asymptotic' does not provide. Use method='monte_carlo'."
            )

    def _test_sample(self, sample: _validation.BinarySample) -> CalibrationTestResult:
        large = _simulated.is_large(sample) and self.bandwidth != "adaptive"
        return self._result(KernelSample.from_binary(sample), large, "P(Y = 1 | p) = p")

    def _test_classes(self, sample: _validation.ClassSample) -> CalibrationTestResult:
        if self.reduction != "canonical" or sample.y.ndim == 2:
            return super()._test_classes(sample)
        if self.method == "asymptotic":
            raise ValueError(
                "method='asymptotic' is for binary problems, but y_proba has "
                f"{sample.p.shape[1]} columns. Use method='monte_carlo'."
            )
        return self._result(KernelSample.from_classes(sample), False, "P(Y = k | p) = p_k for every class k")

    def _result(self, sample: KernelSample, large: bool, null_hypothesis: str) -> CalibrationTestResult:
        simulate = _simulated.simulates(self.method, large, sample.clusters)
        if isinstance(self.bandwidth, str):
            grid = _GRID if self.bandwidth == "adaptive" else np.ones(1)
            bandwidths = median_distance(sample.points, sample.weight) * grid
        else:
            bandwidths = np.array([float(self.bandwidth)])
        n_draws = self.n_resamples if simulate else 0
        generator = _validation.check_generator(self.random_state)
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
