"""Exact test of calibration for discrete predictions: one binomial test per distinct value."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

from sklearn_calib import _validation
from sklearn_calib._core._grouping import GroupedOutcomes, group_sample
from sklearn_calib._core._multiple import adjust_pvalues
from sklearn_calib._core._null import TIE, monte_carlo_pvalue
from sklearn_calib._typing import Array
from sklearn_calib.inference._testing import _simulated
from sklearn_calib.inference._testing._base import CalibrationTest, CalibrationTestResult, result_of

# Numbers of events whose probabilities differ by less than this factor are equally likely; the usual choice.
_TIE = 1.0 + 1e-7
# Smallest p-value: what underflows is not impossible.
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class BinomialValue:
    """Observed outcomes of one distinct predicted value.

    Attributes
    ----------
    value : float
        The predicted probability.
    n_samples : int
        Number of observations with this prediction.
    n_positives : int
        How many of them are positive.
    frequency : float
        ``n_positives / n_samples``; with sampling weights the weighted frequency.
    pvalue : float
        p-value of the binomial test of this value alone.
    adjusted_pvalue : float
        The same, adjusted for the number of values.
    """

    value: float
    n_samples: int
    n_positives: int
    frequency: float
    pvalue: float
    adjusted_pvalue: float

    def rejects(self, alpha: float = 0.05) -> bool:
        """Tell whether ``adjusted_pvalue <= alpha``: level of all values together."""
        return self.adjusted_pvalue <= _validation.check_fraction(alpha, "alpha")

    def __str__(self) -> str:
        return (
            f"predicted {self.value:.4g}: {self.n_positives} of {self.n_samples} positive "
            f"({self.frequency:.4g}), p-value {self.pvalue:.4g}, adjusted {self.adjusted_pvalue:.4g}"
        )


class BinomialTest(CalibrationTest):
    r"""Exact test of perfect calibration for predictions that take few values.

    Given the predictions, the number :math:`K_g` of positives among the :math:`n_g` observations with
    predicted value :math:`v_g` is binomial under the null hypothesis. Each value gets its exact two-sided
    p-value :math:`P_g`, the probability of all outcomes that are not more likely than the observed one, as in
    ``scipy.stats.binomtest``. The test rejects if the smallest is too small for the number :math:`m` of
    values (Appendix 8.2.4 of [1]_):

    .. math:: P = \min(1,\; m \min_g P_g).

    The test uses no asymptotic distribution, no bins and no resampling: the level holds for any number of
    observations. The adjusted p-values in the ``scales`` of the result show which values are miscalibrated:
    Holm's step-down adjustment [2]_ controls the family-wise error rate under any dependence.

    Parameters
    ----------
    max_values : int or None, default=None
        Largest number of distinct predictions; more raise an error. None allows half the number of
        observations, that is two observations of each value on average: with fewer, the predictions are
        practically continuous, and testing each value separately has almost no power.
    n_resamples : int, default=999
        Number of simulations, with clusters only.
    %(tested_classes)s
    random_state : int, Generator, RandomState or None, default=0
        Source of these simulations.

    Attributes
    ----------
    result_ : CalibrationTestResult
        The result on the data given to ``fit``. Its ``scales`` contain one :class:`BinomialValue` for each
        distinct prediction, in increasing order; its ``statistic`` is :math:`-\log_{10} \min_g P_g`; its
        ``estimate`` is the mean distance between prediction and frequency,
        :math:`\sum_g (n_g / n) |K_g / n_g - v_g|`.
    %(tested_fit)s

    See Also
    --------
    TCal : For continuous predictions.
    HosmerLemeshowTest : Pools neighboring predictions into bins.

    Notes
    -----
    Under the predicted values 0 and 1 the outcome is certain. If the outcomes agree, the value has p-value 1
    and is not counted in :math:`m`; if one does not, it has probability zero and the overall p-value is 0,
    however many values there are. Otherwise p-values are computed from the tails and are never 0.

    With ``clusters`` the numbers :math:`K_g` are neither binomial nor independent. They are compared with
    those of simulated samples that have the estimated dependence within clusters: :math:`P_g` is the Monte
    Carlo p-value of :math:`Z_g = |K_g - n_g v_g| / (s_g^2 + 1)^{1/2}`, where :math:`s_g` is the standard
    deviation of the simulated numbers, and 1 keeps values with few expected events from dominating. P-values
    are adjusted by the joint distribution of the simulated :math:`Z_g` [3]_, by the largest of those that are
    not yet rejected. The ``statistic`` is the largest :math:`Z_g`.

    Predictions are distinct if they differ in any bit, so round them to the precision at which they were
    issued. If you round continuous predictions, the rounded ones are tested.

    Cost: one sort, and O(log n) evaluations of the binomial distribution for each value.

    References
    ----------
    .. [1] D. Lee, X. Huang, H. Hassani and E. Dobriban (2023). T-Cal: An Optimal Test for the Calibration of
       Predictive Models. JMLR 24. arXiv:2203.01850
    .. [2] S. Holm (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of
       Statistics 6.
    .. [3] P. H. Westfall and S. S. Young (1993). Resampling-Based Multiple Testing. Wiley.

    Examples
    --------
    Forecasts of rain in tenths:

    >>> import numpy as np
    >>> from sklearn_calib.inference import BinomialTest
    >>> y_proba = np.repeat([0.1, 0.5, 0.9], 20)
    >>> y_true = np.concatenate([np.arange(20) < k for k in (2, 11, 12)])
    >>> result = BinomialTest().test(y_true, y_proba)
    >>> print(result)
    binomial test: H0: P(Y = 1 | p) = p
      p-value    0.001247  (exact binomial, 3 values)
      statistic  3.381
      estimate   0.1167
      n          60
      least likely at 0.9, where the prediction is too high: 12 of 20 positive
    >>> for value in result.scales:
    ...     print(value)
    predicted 0.1: 2 of 20 positive (0.1), p-value 1, adjusted 1
    predicted 0.5: 11 of 20 positive (0.55), p-value 0.8238, adjusted 1
    predicted 0.9: 12 of 20 positive (0.6), p-value 0.0004156, adjusted 0.001247
    """

    _knows_clusters = _knows_sampling = True

    def __init__(
        self,
        *,
        max_values: int | None = None,
        n_resamples: int = 999,
        reduction: str = "joint",
        random_state: Any = 0,
    ) -> None:
        self.max_values = max_values
        self.n_resamples = n_resamples
        self.reduction = reduction
        self.random_state = random_state

    def _check_parameters(self) -> None:
        if self.max_values is not None:
            _validation.check_integer(self.max_values, "max_values")
        _validation.check_size(self.n_resamples, "n_resamples")
        _validation.check_randomness(self.random_state)

    def _test_sample(self, sample: _validation.BinarySample) -> CalibrationTestResult:
        grouped = group_sample(sample)
        positives, count, value = grouped.positives, grouped.weight, grouped.prob
        pvalues = np.where(positives == count * value, 1.0, 0.0)
        adjusted = pvalues.copy()
        uncertain = (value > 0.0) & (value < 1.0)
        if pvalues[~uncertain].all():
            self._check_discrete(grouped)
        m = int(np.count_nonzero(uncertain))
        values = f"{m} value{'' if m == 1 else 's'}"
        null = None
        if grouped.clusters is None and grouped.design is None:
            pvalues[uncertain] = np.maximum(
                _minlike(positives[uncertain], count[uncertain], value[uncertain]), _TINY
            )
            adjusted[uncertain] = adjust_pvalues(pvalues[uncertain])
            smallest = float(pvalues.min())
            statistic = abs(float(np.log10(smallest))) if smallest > 0.0 else np.inf
            method = f"exact binomial, {values}"
        else:
            center = (count * value)[:, np.newaxis]
            drawn = _simulated.simulated(self, grouped, lambda positives: (positives - center).T).T
            # Z = |K - n v| / (s^2 + 1)^(1/2), of the sample and of simulated ones
            spread = np.sqrt((drawn**2).mean(axis=1, keepdims=True) + 1.0)
            z = (np.abs(np.hstack((positives[:, np.newaxis] - center, drawn))) / spread)[uncertain]
            method = f"{self.n_resamples} simulations, {values}"
            largest = z.max(axis=0, initial=0.0)
            statistic, null = float(largest[0]), largest[1:]
            pvalues[uncertain] = [monte_carlo_pvalue(row[0], row[1:], TIE) for row in z]
            adjusted[uncertain] = _joint_pvalues(z)
        frequency, design = positives / count, grouped.design
        if design is not None:
            # numbers of samples; the frequency is weighted
            positives, count = (
                np.bincount(design.group, part).astype(np.float64)
                for part in (design.positives, design.count)
            )
        least = int(pvalues.argmin())
        return result_of(
            grouped,
            test="binomial test",
            statistic=statistic,
            pvalue=float(adjusted.min()),
            estimate=float(np.abs(grouped.residual).sum()) / grouped.total,
            method=method,
            scales=tuple(
                BinomialValue(v, int(n), int(k), f, p, a)
                for v, n, k, f, p, a in zip(
                    *(x.tolist() for x in (value, count, positives, frequency, pvalues, adjusted)),
                    strict=True,
                )
            ),
            null_distribution=null,
            reason=(
                _where(grouped, least, float(pvalues[least]))
                if m
                else "no information: every prediction is 0 or 1"
            ),
        )

    def _check_discrete(self, grouped: GroupedOutcomes) -> None:
        """Raise if there are too many distinct predictions."""
        found = grouped.prob.shape[0]
        limit: float
        if self.max_values is not None:
            limit, rule = self.max_values, f"max_values={self.max_values}"
        else:
            limit, rule = np.ceil(grouped.total / 2.0), "max_values=None asks for two observations each"
        if found > limit:
            raise ValueError(
                f"y_proba has {found} distinct values among {grouped.total:.0f} observations, but {rule}. "
                "Round y_proba to the precision at which it was issued, use TCal for continuous predictions, "
                "or raise max_values."
            )


def _joint_pvalues(z: Array) -> Array:
    """Return p-values of each row, adjusted by the largest simulated value of those that are not above it.

    The first column is observed.
    """
    order = np.argsort(-z[:, 0], kind="stable")
    ranked = z[order]
    largest = np.maximum.accumulate(ranked[::-1, 1:])[::-1]
    found = [
        monte_carlo_pvalue(observed, null, TIE) for observed, null in zip(ranked[:, 0], largest, strict=True)
    ]
    out = np.empty(z.shape[0])
    out[order] = np.maximum.accumulate(found)
    return out


def _minlike(k: Array, n: Array, p: Array) -> Array:
    """Return the probability of all outcomes not more likely than k, for Binomial(n, p), 0 < p < 1.

    Beyond the mean, on the side away from k, the probabilities decrease, so that the first one not above that
    of k is found by bisection, for all values at once. The upper side is searched; k above the mean is
    replaced by n - k with 1 - p.
    """
    result = np.ones_like(p)
    below, above = k < n * p, k > n * p
    for side, events, flipped in ((below, k, False), (above, n - k, True)):
        k_side, n_side, p_side = events[side], n[side], p[side]
        # P(N - K = j) is computed as P(K = N - j): 1 - p would round
        pmf = (lambda j, n, p: binom.pmf(n - j, n, p)) if flipped else binom.pmf
        observed = pmf(k_side, n_side, p_side) * _TIE
        low = np.floor((n_side - n_side * p_side) if flipped else n_side * p_side)
        high = n_side + 1.0
        # low has a larger probability than k, or is on its side of the mean; from high on none has
        while (open_ := high - low > 1.0).any():
            middle = np.where(open_, np.floor((low + high) / 2.0), high)
            small = pmf(middle, n_side, p_side) <= observed
            high = np.where(open_ & small, middle, high)
            low = np.where(open_ & ~small, middle, low)
        if flipped:
            result[side] = binom.sf(k[side] - 1.0, n_side, p_side) + binom.cdf(n_side - high, n_side, p_side)
        else:
            result[side] = binom.cdf(k_side, n_side, p_side) + binom.sf(high - 1.0, n_side, p_side)
    return np.minimum(result, 1.0)


def _where(grouped: GroupedOutcomes, least: int, smallest: float) -> str:
    """Return the value with the strongest evidence against calibration, in words."""
    if smallest == 1.0:
        return "no value stands out"
    verb = "low" if grouped.residual[least] > 0.0 else "high"
    return (
        f"least likely at {grouped.prob[least]:.4g}, where the prediction is too {verb}: "
        f"{grouped.positives[least]:.0f} of {grouped.weight[least]:.0f} positive"
    )
