"""The test of Hosmer and Lemeshow: observed and expected events over bins of the predictions."""

from typing import Any

import numpy as np

from sklearn_calib import _validation
from sklearn_calib._core._binning import bin_starts
from sklearn_calib._core._grouping import group_sample
from sklearn_calib._typing import Array
from sklearn_calib.inference._testing import _simulated


class HosmerLemeshowTest(_simulated.SimulatedTest):
    """Hosmer-Lemeshow test of calibration, for predictions that were not fitted on the tested data.

    Over bins of the predictions, with o_b events observed among n_b samples, e_b = sum of p expected, and
    mean prediction m_b = e_b / n_b, the statistic is

        H = sum_b (o_b - e_b)^2 / (n_b m_b (1 - m_b)),

    asymptotically chi-squared with one degree of freedom for each bin.

    Parameters
    ----------
    n_bins : int or array-like of edges, default=10
        Number of bins, or their edges, which increase from 0 to 1. Empty bins, and those in which every
        prediction is 0 or every one 1, do not count.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal weight (the "deciles of risk") or of equal width; not used with edges. Bins are [a, b)
        with the last closed. Equal predictions are always in the same bin, so ties can make the weights of
        bins unequal.
    %(simulated_or_limit)s
    %(simulated)s

    Attributes
    ----------
    result_ : CalibrationTestResult
        The result on the data given to ``fit``; its ``estimate`` is the root mean squared gap between event
        frequency and mean prediction, the binned l2 calibration error.
    %(tested_fit)s

    See Also
    --------
    TCal : Needs no choice of bins.
    sklearn_calib.metrics.expected_calibration_error : The estimate alone, and its relatives.

    Notes
    -----
    The test is widely used, but its result depends on the bins. Statistical packages report two fewer degrees
    of freedom, which is correct for a logistic regression tested on its own training data [1]_; here
    the predictions are fixed, and nothing is subtracted.

    The chi-squared approximation needs several expected events and non-events in every bin; ``reason`` states
    the fewest. With fewer than about five the asymptotic test can exceed its level by far. The variance
    n_b m_b (1 - m_b) is that of equal predictions within the bin; where they differ it is too large, which
    makes the asymptotic test conservative, the more so the wider the bins. Simulations have neither problem.

    Cost: one sort, and O(distinct predictions) for each simulated sample.

    References
    ----------
    .. [1] D. W. Hosmer and S. Lemeshow (1980). Goodness of fit tests for the multiple logistic regression
       model. Communications in Statistics, Theory and Methods 9.

    Examples
    --------
    >>> from sklearn_calib.inference import HosmerLemeshowTest
    >>> y_true = [0, 0, 0, 1, 0, 1, 1, 1]
    >>> y_proba = [0.25, 0.25, 0.25, 0.25, 0.5, 0.5, 0.5, 0.5]
    >>> result = HosmerLemeshowTest(n_bins=2).test(y_true, y_proba)
    >>> print(f"{result.statistic:.2f}, p-value {result.pvalue:.3f}")
    1.00, p-value 0.835
    """

    def __init__(
        self,
        *,
        n_bins: Any = 10,
        strategy: str = "quantile",
        method: str = "auto",
        n_resamples: int = 999,
        reduction: str = "joint",
        random_state: Any = 0,
    ) -> None:
        self.n_bins = n_bins
        self.strategy = strategy
        super().__init__(
            method=method, n_resamples=n_resamples, reduction=reduction, random_state=random_state
        )

    def _check_parameters(self) -> None:
        _validation.check_number_or_edges(self.n_bins)
        _validation.check_option(self.strategy, "strategy", ("quantile", "uniform"))
        super()._check_parameters()

    _name = "Hosmer-Lemeshow test"

    def _statistic(self, sample: _validation.BinarySample) -> _simulated.Statistic:
        grouped = group_sample(sample)
        starts = bin_starts(grouped, _validation.check_number_or_edges(self.n_bins), self.strategy)
        weight, p = grouped.weight, grouped.prob
        count, events, others, gap = (
            np.add.reduceat(term, starts)
            for term in (weight, weight * p, weight * (1.0 - p), grouped.residual)
        )
        # n_b m_b (1 - m_b)
        variance = events * others / count
        if grouped.design is not None:
            # the sum of w^2 replaces that of w
            variance *= (
                np.add.reduceat(grouped.design.squares, starts)
                / count
                * _simulated.variance_ratio_of(grouped).own
            )
        used = variance > 0.0
        df = int(np.count_nonzero(used))

        def of(residual: Array, _: Array) -> Array:
            gaps = np.add.reduceat(residual, starts, axis=0)[used]
            return np.asarray((gaps**2 / variance[used, np.newaxis]).sum(axis=0))

        fewest = np.minimum(events, others)[used].min(initial=np.inf)
        reason = f"fewest expected events or non-events in a bin: {fewest:.3g}"
        # a gap without variance is an outcome of probability zero
        impossible = (gap[~used] != 0.0).any()
        return _simulated.Statistic(
            np.inf if impossible else float((gap[used] ** 2 / variance[used]).sum()),
            of if df else None,
            null=f"chi2({df})",
            large=grouped.total > _simulated.MOST_SIMULATED,
            estimate=float(np.sqrt((gap**2 / count).sum() / grouped.total)),
            reason=reason if df else "no information: every prediction is 0 or 1",
            method=f"asymptotic, chi-squared with {df} df",
            power=1.0,
        )
