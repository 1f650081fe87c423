"""Test of calibration by sample splitting: class counts, and observed labels against simulated ones."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._null import MAX_ELEMENTS, draw_positives, monte_carlo_pvalue, sample_labels, spawn
from sklearn_calib._core._simplex_bins import SharedCells, class_moments, nested_alcoves
from sklearn_calib._typing import Array
from sklearn_calib._validation import (
    BinarySample,
    ClassSample,
    check_flag,
    check_generator,
    check_randomness,
    check_size,
)
from sklearn_calib.inference._testing._base import CalibrationTest, CalibrationTestResult
from sklearn_calib.inference._testing._tcal import TIE, check_smoothness, numbers_of_bins, written_out

# What counts as a tie of two standardised counts.
_TIE = 1e-9


@dataclass(frozen=True)
class SplitClass:
    """The two-sample test of one class.

    Attributes
    ----------
    label : int
        Index of the class among the columns of the predictions.
    half : int
        Which half kept its labels, 0 or 1.
    n_observed, n_simulated : int
        Number of samples with this label in the half with its own labels, and in the half with simulated
        labels.
    n_bins : int
        Number of bins per axis of the scale that decided; 0 if there was nothing to compare.
    statistic : float
        The largest standardised statistic of a scale.
    pvalue : float
        p-value of this class alone.
    """

    label: int
    half: int
    n_observed: int
    n_simulated: int
    n_bins: int
    statistic: float
    pvalue: float


class SampleSplittingTest(CalibrationTest):
    """Test of calibration by a two-sample test between observed and simulated labels (Algorithm 3 of [1]_).

    The test rejects if one of two steps does.

    1. *Class counts.* For every class k, the mean T of [y_i = k] - p_ik has expectation 0 if the predictions
       are the true probabilities. Means T_1k and T_2k of the two halves of the sample have the same
       expectation, so that they are tested together, by the largest over the classes of ::

           |z_k|,   z_k = sum_i ([y_i = k] - p_ik) / sqrt(sum_i p_ik (1 - p_ik)).

    2. *Densities.* The sample is split at random. One half keeps its labels, the other gets labels simulated
       from its predictions. If the predictions are the true probabilities, then for every class k the
       predictions of the samples with label k have the same distribution in both halves. This is tested with
       the chi-squared two-sample statistic (App. 8.2.2 of [1]_) over the bins of :class:`TCal` ::

           sum over bins of [(N_1 / n_1 - N_2 / n_2)^2 - N_1 / n_1^2 - N_2 / n_2^2]

       where N_1 and N_2 count the n_1 and n_2 samples with label k of the two halves.

    Neither step suffices alone: residuals that cancel leave the class counts right, and a class that is
    equally over- or underpredicted everywhere leaves its density right.

    Parameters
    ----------
    smoothness : "adaptive" or float, default="adaptive"
        A float s > 0 uses the single scale m = floor(n_k^(2 / (4 s + K - 1))), where n_k = min(n_1, n_2);
        "adaptive" uses m = 2, 4, ..., up to the last one at which two samples are in the same bin, and
        compares the largest standardised statistic (the multi-scale version).
    n_resamples : int, default=999
        Number of simulations and permutations: class counts are compared with those of simulated labels, and
        the samples with label k of both halves are permuted, all scales together. Both steps are exact for
        any n. With K classes the second step can reject at level alpha only if ``n_resamples`` + 1 is at
        least 2 K / alpha, or 4 K / alpha with ``cross_fit``.
    cross_fit : bool, default=False
        Whether each half has both roles in turn; the smaller of the two p-values is doubled. Otherwise the
        second step does not use half of the labels.
    random_state : int, Generator, RandomState or None, default=0
        Source of split, simulated labels and permutations. The result depends on it much more than for other
        tests, because the split is random, too.

    Attributes
    ----------
    result_ : CalibrationTestResult
        The result on the data given to ``fit``, with a :class:`SplitClass` for each class and half.
    %(tested_fit)s

    See Also
    --------
    TCal : Uses all labels at every scale.

    Notes
    -----
    Half of alpha is allocated to the class counts, half to the densities, where the K classes are combined by
    Bonferroni. Both steps together attain the rate of Theorem 6.1 of [1]_, which is that of :class:`TCal`;
    the second step alone does not. The critical values of [1]_ are bounds with constants; the p-values here
    are computed from the null distributions.

    The test is mainly of theoretical interest: it reduces tests of calibration to two-sample tests. In
    practice prefer :class:`TCal`, which has more power where the class counts are right.

    ``statistic`` is that of the step and the class that decided, ``max |z_k|`` if the class counts did.
    ``estimate`` is the debiased l2 calibration error, as in :class:`TCal`, of the half with its own labels,
    at the scale with the smallest p-value.

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

    def __init__(
        self,
        *,
        smoothness: str | float = "adaptive",
        n_resamples: int = 999,
        cross_fit: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.smoothness = smoothness
        self.n_resamples = n_resamples
        self.cross_fit = cross_fit
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_smoothness(self.smoothness)
        check_size(self.n_resamples, "n_resamples")
        check_flag(self.cross_fit, "cross_fit")
        check_randomness(self.random_state)

    def _test_sample(self, sample: BinarySample) -> CalibrationTestResult:
        # the first column determines the bins and is that of the positive class
        columns = np.column_stack((sample.p, 1.0 - sample.p))
        return self._split(1 - sample.y, columns, sample, "P(Y = 1 | p) = p")

    def _test_classes(self, sample: ClassSample) -> CalibrationTestResult:
        return self._split(sample.y, sample.p, sample, "P(Y = k | p) = p_k for every class k")

    def _split(
        self, y: NDArray[np.int64], p: Array, sample: BinarySample | ClassSample, null_hypothesis: str
    ) -> CalibrationTestResult:
        y, p = written_out(sample.w, y, p)
        order = np.lexsort((y, *p.T[::-1]))
        y, p = y[order], p[order]
        n, n_classes = p.shape
        splitting, labelling, permuting, counting = spawn(check_generator(self.random_state), 4)
        mixed = splitting.permutation(n)
        halves = [mixed[: (n + 1) // 2], mixed[(n + 1) // 2 :]]
        tests: list[tuple[SplitClass, Array | None]] = []
        for half in range(2 if self.cross_fit else 1):
            own, other = halves[half], halves[1 - half]
            (drawn,) = sample_labels(p[other], 1, labelling) if other.size else ([np.empty(0)],)
            for label in range(n_classes):
                first, second = own[y[own] == label], other[drawn[0] == label]
                tests.append(self._compare(p, first, second, label, half, permuting))
        best, null = min(tests, key=lambda pair: pair[0].pvalue)
        own = halves[best.half]
        cells = nested_alcoves(p[own], np.array([float(max(best.n_bins, 1))])) if own.size else []
        moments = class_moments(cells, y[own], p[own])
        # the vector norm counts both classes of a binary problem
        unit = 2.0 if n_classes == 2 else 1.0
        error = float(np.sqrt(max(moments.statistic[0] / unit, 0.0)))
        axes = " per axis" if n_classes > 2 else ""
        decided = f"decided by {_class_name(best.label, n_classes)}, {best.n_bins} bins{axes}"
        if not best.n_bins:
            decided = "no information: no two samples of a class share a bin"
        statistic, pvalue = best.statistic, len(tests) * best.pvalue
        # the counts of all classes; the second one of a binary problem mirrors the first
        tested = slice(None) if n_classes > 2 else slice(1)
        expected, variance = p.sum(axis=0)[tested], (p * (1.0 - p)).sum(axis=0)[tested]
        scale = np.where(variance > 0.0, np.sqrt(variance), np.inf)
        observed = np.bincount(y, minlength=n_classes)[tested]
        z = np.abs((observed - expected) / scale)
        label = int(z.argmax())
        drawn_counts = _simulated_counts(p, self.n_resamples, counting)[:, tested]
        largest = np.abs((drawn_counts - expected) / scale).max(axis=1)
        pvalue_of_counts = monte_carlo_pvalue(float(z[label]), largest, _TIE)
        if pvalue_of_counts < pvalue:
            statistic, pvalue, null = float(z[label]), pvalue_of_counts, largest
            decided = (
                f"decided by the labels of {_class_name(label, n_classes)}: {observed[label]} observed, "
                f"{expected[label]:.4g} expected"
            )
        return CalibrationTestResult(
            test="sample splitting test",
            null_hypothesis=null_hypothesis,
            statistic=statistic,
            # each of the two steps has half of the level
            pvalue=min(1.0, 2.0 * pvalue),
            estimate=error,
            method=f"{self.n_resamples} permutations{', cross-fitted' if self.cross_fit else ''}",
            n_samples=n,
            # of two classes the columns were exchanged
            scales=tuple(test if n_classes > 2 else replace(test, label=1 - test.label) for test, _ in tests),
            null_distribution=null,
            reason=decided,
        )

    def _compare(
        self,
        p: Array,
        first: NDArray[np.intp],
        second: NDArray[np.intp],
        label: int,
        half: int,
        generator: np.random.Generator,
    ) -> tuple[SplitClass, Array | None]:
        """Return the two-sample test of the predictions of two sets of samples, and its null distribution."""
        n1, n2 = first.shape[0], second.shape[0]
        nothing = SplitClass(label, half, n1, n2, 0, 0.0, 1.0)
        if min(n1, n2) == 0:
            return nothing, None
        pool = p[np.concatenate((first, second))]
        n_bins = self._numbers_of_bins(n1 + n2, min(n1, n2), p.shape[1])
        scales = [cells for cells in nested_alcoves(pool, n_bins) if cells.count.size]
        if not scales:
            return nothing, None
        inside = np.arange(n1 + n2) < n1
        parts = [_statistics(scales, inside[:, np.newaxis], n1, n2)]
        step = max(1, MAX_ELEMENTS // (n1 + n2))
        for begin in range(0, self.n_resamples, step):
            r = min(step, self.n_resamples - begin)
            shuffled = generator.permuted(np.tile(inside, (r, 1)), axis=1).T
            parts.append(_statistics(scales, shuffled, n1, n2))
        statistic, pvalue, null, best = _largest_of_scales(np.concatenate(parts))
        return SplitClass(label, half, n1, n2, int(n_bins[best]), statistic, pvalue), null

    def _numbers_of_bins(self, n: int, n_fewer: int, n_classes: int) -> Array:
        """Return the scales for ``n`` samples of a class, ``n_fewer`` of them in one of the halves."""
        if isinstance(self.smoothness, str):
            return numbers_of_bins(float(n), None, n_classes)
        return numbers_of_bins(float(max(n_fewer, 1)), float(self.smoothness), n_classes)


def _simulated_counts(p: Array, n_resamples: int, generator: np.random.Generator) -> NDArray[Any]:
    """Return the counts of each class in simulated samples, shape (n_resamples, K)."""
    n, n_classes = p.shape
    if n_classes == 2:
        single = GroupedOutcomes(p[:, 0], np.ones(n), np.ones(n))
        draws = draw_positives(single, n_resamples, generator)
        first = np.concatenate([np.count_nonzero(drawn, axis=0) for drawn in draws])
        return np.column_stack((first, n - first))
    counts = []
    for labels in sample_labels(p, n_resamples, generator):
        r = labels.shape[0]
        labels += n_classes * np.arange(r)[:, np.newaxis]
        counts.append(np.bincount(labels.ravel(), minlength=r * n_classes).reshape(r, n_classes))
    return np.concatenate(counts)


def _class_name(label: int, n_classes: int) -> str:
    # the columns of a binary problem stand in the order positive, negative
    return f"class {label}" if n_classes > 2 else f"the {('positive', 'negative')[label]} class"


def _statistics(scales: list[SharedCells], inside: NDArray[np.bool_], n1: int, n2: int) -> Array:
    """Return the two-sample statistic of every scale, shape (r, scales), for r columns of ``inside``.

    Bins with a single sample contribute nothing.
    """
    out = np.empty((inside.shape[1], len(scales)))
    for k, cells in enumerate(scales):
        count = np.add.reduceat(inside[cells.rows], cells.starts, axis=0, dtype=np.float64)
        a = count / n1
        b = (cells.count[:, np.newaxis] - count) / n2
        out[:, k] = np.sum((a - b) ** 2 - a / n1 - b / n2, axis=0)
    return out


def _largest_of_scales(values: Array) -> tuple[float, float, Array, int]:
    """Return the largest standardised value of the sample, the first row, its p-value and null values.

    The last result is the index of its column.
    """
    z = _standardised(values)
    best = int(z[0].argmax())
    largest, drawn = float(z[0, best]), z[1:].max(axis=1)
    return largest, monte_carlo_pvalue(largest, drawn, TIE * (1.0 + abs(largest))), drawn, best


def _standardised(values: Array) -> Array:
    """Return columns standardised by mean and deviation of all rows, which exchangeability permits."""
    deviation = values.std(axis=0)
    return np.divide(
        values - values.mean(axis=0), deviation, out=np.zeros_like(values), where=deviation > 0.0
    )
