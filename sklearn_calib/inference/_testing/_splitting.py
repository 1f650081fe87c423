"""Test of calibration by sample splitting: two means of residuals, and two-sample tests."""

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib import _validation
from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._nested_bins import MAX_LEVEL
from sklearn_calib._core._null import MAX_ELEMENTS, TIE, monte_carlo_pvalue, sample_labels, spawn
from sklearn_calib._core._simplex_bins import SharedCells, cell_statistics, nested_alcoves, shared_alcoves
from sklearn_calib._typing import Array
from sklearn_calib.inference._testing import _simulated
from sklearn_calib.inference._testing._base import CalibrationTest, CalibrationTestResult
from sklearn_calib.inference._testing._classes import REDUCTIONS, repeated
from sklearn_calib.inference._testing._tcal import check_smoothness, number_of_bins

# Combinations of means with a smaller variance, relative to that of one class, are left out.
_SINGULAR = 1e-6


@dataclass(frozen=True)
class SplitClass:
    """The two-sample test of one class.

    Attributes
    ----------
    label : int
        Index of the class; in a binary problem 1 is the positive one.
    n_observed, n_simulated : int
        Number of samples with this label in the half with its own labels, and in the half with simulated
        labels; with ``cross_fit`` the sums over both assignments of roles.
    n_bins : int
        Number of bins per axis of the scale that decided.
    statistic : float
        The largest standardized statistic of a scale.
    pvalue : float
        p-value of this class alone.
    """

    label: int
    n_observed: int
    n_simulated: int
    n_bins: int
    statistic: float
    pvalue: float


class SampleSplittingTest(CalibrationTest):
    """Test of calibration by sample splitting, from two means and a two-sample test (Algorithm 3 of [1]_).

    The first two parts are means over all samples, for every class k ::

        T1_k = (1/n) sum_i ([y_i = k] - p_ik),    T2_k = (1/n) sum_i p_ik ([y_i = k] - p_ik),

    whose expectations are 0 if the predictions are the true probabilities. The third part compares densities.
    Half of the samples, chosen at random, keep their labels; labels of the others are simulated from their
    predictions. For calibrated predictions, the predictions of samples with label k have the same
    distribution in both halves, which is tested by the chi-squared statistic (App. 8.2.2 of [1]_) ::

        sum over bins of (n_2 v - n_1 w)^2,

    where v and w count the samples of a bin with label k in the two halves, of n_1 and n_2 in all bins. It is
    that of Theorem 8.5, with critical values by permutation.

    None suffices alone. The densities agree if class k is over- or underpredicted in proportion everywhere,
    which T1_k shows; and residuals that increase or decrease with p_k, which T2_k shows, can reduce their
    difference (eq. 11 of [1]_). Residuals that cancel in both means are left to the densities.

    Parameters
    ----------
    smoothness : "adaptive" or float, default="adaptive"
        A float s > 0 uses the single scale m = floor(N^(2 / (4 s + K - 1))), where N = min(n_1, n_2).
        "adaptive" uses m = 2, 4, ..., 2^B with B = ceil(2 / (K - 1) log2(N / log log N)), the scales of
        Corollary 8.7 of [1]_, and compares the largest standardized statistic. The corollary permutes a
        U-statistic, with Bonferroni's correction for the scales.
    n_resamples : int, default=999
        Number of simulations of all labels, for T1 and T2, and of permutations of the halves. With K classes
        the densities can reject at level alpha only if ``n_resamples`` + 1 is at least 3 K / alpha.
    cross_fit : bool, default=False
        Whether each half has both roles, and the two statistics are averaged (App. 8.3.4 of [1]_). Otherwise
        the third part does not use the labels of one half.
    %(canonical)s
    random_state : int, Generator, RandomState or None, default=0
        Source of split, simulated labels and permutations. The result depends on it much more than for other
        tests, because the split is random, too.

    Attributes
    ----------
    result_ : CalibrationTestResult
        The result on the data given to ``fit``, with a :class:`SplitClass` for each class.
    %(tested_fit)s

    See Also
    --------
    TCal : Uses all labels at every scale.

    Notes
    -----
    T1, T2 and the densities each have a third of alpha, and the K classes of the densities equal parts of it.
    All T1_k are one statistic, sqrt(T1' C^-1 T1) with their covariance matrix C under the null hypothesis,
    and all T2_k are another; both are compared with those of simulated labels. This is at least the largest
    size of T1_k or T2_k over its standard deviation. [1]_ rejects if the size of one of them exceeds
    sqrt(3 K / (alpha n)), a bound that is far from sharp.

    p-values are exact for every n: given all labels, observed and simulated, every split is equally likely
    under the null hypothesis. Halves are permuted among the samples with label k, so that n_1 and n_2 do not
    change. With ``cross_fit`` a sample has one label for each assignment of roles; those with label k in the
    first, in the second, and in both are permuted separately, which keeps all counts and the dependence of
    the two statistics that are averaged.

    Against oscillating miscalibration :class:`TCal` has more power, since the densities use half of the
    labels (Sec. 6.1 of [1]_). docs/methods/tcal.md has the theorems.

    ``statistic`` is that of the part that decided: of the means the one above, of the densities the largest
    standardized one. ``estimate`` is the debiased l2 calibration error of all samples, as in :class:`TCal`,
    in the bins of the class with the smallest p-value of the densities.

    Samples are sorted by their predictions before they are split, so that the result does not depend on their
    order. Cost: O(n log n), and O(n) for each permutation and scale.

    References
    ----------
    .. [1] D. Lee, X. Huang, H. Hassani, E. Dobriban (2023). T-Cal: An optimal test for the calibration of
       predictive models. Journal of Machine Learning Research 24.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import SampleSplittingTest
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=2000)
    >>> y = rng.uniform(size=2000) < p
    >>> test = SampleSplittingTest(n_resamples=199, random_state=0)
    >>> test.test(y, p).rejects(), test.test(y, p**3).rejects()
    (False, True)
    """

    _knows_sampling = True
    _reductions = ("canonical", *REDUCTIONS)

    def __init__(
        self,
        *,
        smoothness: str | float = "adaptive",
        n_resamples: int = 999,
        cross_fit: bool = False,
        reduction: str = "canonical",
        random_state: Any = 0,
    ) -> None:
        self.smoothness = smoothness
        self.n_resamples = n_resamples
        self.cross_fit = cross_fit
        self.reduction = reduction
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_smoothness(self.smoothness)
        _validation.check_size(self.n_resamples, "n_resamples")
        _validation.check_flag(self.cross_fit, "cross_fit")
        _validation.check_randomness(self.random_state)

    def _test_sample(self, sample: _validation.BinarySample) -> CalibrationTestResult:
        return self._split(sample, np.column_stack((1.0 - sample.p, sample.p)), "P(Y = 1 | p) = p")

    def _test_classes(self, sample: _validation.ClassSample) -> CalibrationTestResult:
        if self.reduction != "canonical" or sample.y.ndim == 2:
            return super()._test_classes(sample)
        return self._split(sample, sample.p, "P(Y = k | p) = p_k for every class k")

    def _split(
        self, sample: _validation.BinarySample | _validation.ClassSample, p: Array, null_hypothesis: str
    ) -> CalibrationTestResult:
        index, scale = repeated(sample)
        y, p = sample.y[index], p[index]
        order = np.lexsort((scale, y, *p.T))
        y, p, scale = y[order], p[order], scale[order]
        n, n_classes = p.shape
        splitting, labeling, permuting, counting = spawn(_validation.check_generator(self.random_state), 4)
        first = splitting.permutation(n) < n // 2
        (drawn,) = next(sample_labels(p, 1, labeling))
        roles = [np.where(first, y, drawn), np.where(first, drawn, y)][: 1 + self.cross_fit]
        tests = [self._compare(p, scale, first, roles, label, permuting) for label in range(n_classes)]
        best, null = min(tests, key=lambda pair: pair[0].pvalue)
        z, joint = _means(y, p, scale, self.n_resamples, counting)
        pvalues = [monte_carlo_pvalue(own[0], own[1:], TIE) for own in joint]
        # Bonferroni over the classes, and a third of alpha for each part
        pvalues.append(n_classes * best.pvalue)
        part = int(np.argmin(pvalues))
        if part == 2:
            statistic, decided = best.statistic, f"the densities of class {best.label}, {best.n_bins} bins"
            decided += " per axis" if n_classes > 2 else ""
        else:
            statistic, null = float(joint[part, 0]), joint[part, 1:]
            # the values of T1 of two classes are equal up to rounding: that of the positive one
            label = int(np.flatnonzero(np.abs(z[part]) >= np.abs(z[part]).max() - TIE)[-1])
            decided = f"T{part + 1}, mostly of class {label}, z = {z[part, label]:.3g}"
        cells = shared_alcoves(p, float(best.n_bins))
        # eq. (6); the vector norm counts both classes of a binary problem
        squared = (cell_statistics(cells, y, p, scale) / cells.count).sum() / n
        squared /= 2.0 if n_classes == 2 else 1.0
        return CalibrationTestResult(
            test="sample splitting test",
            null_hypothesis=null_hypothesis,
            statistic=statistic,
            pvalue=min(1.0, 3.0 * pvalues[part]),
            estimate=float(np.sqrt(max(squared, 0.0))),
            method=f"{self.n_resamples} simulations and permutations{', cross-fitted' * self.cross_fit}",
            n_samples=n,
            scales=tuple(test for test, _ in tests),
            null_distribution=null,
            reason=f"decided by {decided}",
        )

    def _compare(
        self,
        p: Array,
        scale: Array,
        first: NDArray[np.bool_],
        roles: list[NDArray[np.int64]],
        label: int,
        generator: np.random.Generator,
    ) -> tuple[SplitClass, Array]:
        """Return the two-sample test of one class, and the null distribution of its statistic.

        ``first`` are the samples of one half, ``roles`` the labels of both halves, one of them simulated.
        """
        # the samples with this label in the first role, in both, in the last: exchangeable within each
        code = (roles[0] == label) + 2 * (roles[-1] == label)
        strata = [np.flatnonzero(code == role) for role in (1, 3, 2)]
        rows = np.concatenate(strata)
        pools = [slice(rows.shape[0] - strata[2].shape[0]), slice(strata[0].shape[0], None)][: len(roles)]
        own = first[rows]
        sizes = [(int(own[pool].sum()), int((~own[pool]).sum())) for pool in pools]
        n_bins = self._numbers_of_bins(min(min(size) for size in sizes), p.shape[1])
        scales = [nested_alcoves(p[rows[pool]], n_bins) for pool in pools]

        def average(inside: NDArray[np.bool_]) -> Array:
            parts = zip(scales, pools, strict=True)
            found = [_statistics(cells, inside[pool], scale[rows[pool]]) for cells, pool in parts]
            return np.mean(found, axis=0)

        values = [average(own[:, np.newaxis])]
        for some in blocks(self.n_resamples, MAX_ELEMENTS, rows.shape[0]):
            r = some.stop - some.start
            shuffled = [generator.permuted(np.tile(first[s], (r, 1)), axis=1).T for s in strata]
            values.append(average(np.concatenate(shuffled)))
        z = _standardized(np.concatenate(values))
        largest = z.max(axis=1)
        pvalue = monte_carlo_pvalue(largest[0], largest[1:], TIE)
        # the second role exchanges which half has simulated labels
        observed = sizes[0][0] + sum(size[1] for size in sizes[1:])
        simulated = rows.shape[0] + strata[1].shape[0] * (len(roles) - 1) - observed
        decided = int(n_bins[z[0].argmax()])
        return SplitClass(label, observed, simulated, decided, float(largest[0]), pvalue), largest[1:]

    def _numbers_of_bins(self, n: int, n_classes: int) -> Array:
        """Return m for ``n`` samples with a label in the half with fewer of them."""
        if not isinstance(self.smoothness, str):
            return np.full(1, number_of_bins(max(n, 1), float(self.smoothness), n_classes))
        # Corollary 8.7; log log n is positive from 3 on
        n = max(n, 3)
        finest = np.ceil(2.0 / (n_classes - 1) * np.log2(n / np.log(np.log(n))))
        return np.exp2(np.arange(1.0, min(finest, MAX_LEVEL) + 1.0))


def _means(
    y: NDArray[np.int64], p: Array, scale: Array, n_resamples: int, generator: np.random.Generator
) -> tuple[Array, Array]:
    """Return T1 and T2 of ``y`` over their standard deviations, (2, K), and their norms.

    The norms sqrt(T' C^-1 T), shape (2, 1 + n_resamples), are those of ``y`` and of simulated labels.
    """
    n, n_classes = p.shape
    spread, w = _simulated.VarianceRatio.of_classes(y, p, scale), scale[:, np.newaxis]
    sums, relative = [], []
    for labels in chain([y[np.newaxis]], sample_labels(p, n_resamples, generator)):
        r = labels.shape[0]
        place = (labels + n_classes * np.arange(r)[:, np.newaxis]).ravel()
        own = np.broadcast_to(scale, labels.shape)
        both = [np.bincount(place, v.ravel(), r * n_classes) for v in (own, own * p[np.arange(n), labels])]
        sums.append(np.reshape(both, (2, r, n_classes)))
        relative.append(np.broadcast_to(spread.relative_of_labels(labels), r))
    terms = np.stack((p, p * p)) * w
    variance = np.stack((p, p**3)) * (1.0 - p) * w * w
    size = np.sqrt(variance.sum(axis=1, keepdims=True))
    size[size == 0.0] = np.inf
    z = (np.concatenate(sums, axis=1) - terms.sum(axis=1, keepdims=True)) / size
    # cov([y = k], [y = l]) = -p_k p_l
    correlation = -(terms.transpose(0, 2, 1) / size.transpose(0, 2, 1)) @ (terms / size)
    correlation[:, np.arange(n_classes), np.arange(n_classes)] = 1.0
    # sums that depend on the others, as the last one of T1 does, add nothing
    inverse = np.linalg.pinv(correlation, rcond=_SINGULAR, hermitian=True)
    squares = np.maximum(((z @ inverse) * z).sum(axis=2), 0.0)
    return z[:, 0], np.sqrt(squares * np.concatenate(relative))


def _statistics(scales: list[SharedCells], inside: NDArray[np.bool_], weight: Array) -> Array:
    """Return the chi-squared statistic of every scale, shape (r, scales), for r columns of ``inside``.

    With sums of weights v and w of a bin, and n1 and n2 of all bins, it is sum (v / n1 - w / n2)^2 less the
    squares of the terms of single samples, so that bins with one sample contribute nothing.
    """
    out = np.empty((inside.shape[1], len(scales)))
    n1 = weight @ inside
    n1, n2 = np.maximum(n1, TIE), np.maximum(weight.sum() - n1, TIE)
    for k, cells in enumerate(scales):
        each, half = weight[cells.rows], inside[cells.rows].astype(np.float64)
        total, squares = np.add.reduceat(each, cells.starts)[:, np.newaxis], (each * each) @ half
        half *= each[:, np.newaxis]
        v = np.add.reduceat(half, cells.starts, axis=0)
        gap = v / n1 - (total - v) / n2
        out[:, k] = (gap * gap).sum(axis=0) - squares / n1**2 - (each @ each - squares) / n2**2
    return out


def _standardized(values: Array) -> Array:
    """Return columns standardized by mean and deviation of all rows, which exchangeability permits.

    Constant columns, as of a scale with all samples in one bin, are 0.
    """
    deviation = values.std(axis=0)
    varies = deviation > TIE * np.abs(values).max(axis=0)
    return np.divide(values - values.mean(axis=0), deviation, out=np.zeros_like(values), where=varies)
