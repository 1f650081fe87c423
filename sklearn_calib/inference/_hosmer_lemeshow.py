"""The test of Hosmer and Lemeshow: observed and expected events over bins of the predictions."""

import numpy as np

from sklearn_calib._core._binning import bin_starts
from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._validation import BinarySample, check_option, check_size
from sklearn_calib.inference._base import CalibrationTest, CalibrationTestResult
from sklearn_calib.inference._tails import chi2_sf

__all__ = ["HosmerLemeshowTest"]


class HosmerLemeshowTest(CalibrationTest):
    """Hosmer-Lemeshow test of calibration, for predictions that were not fitted on the tested data.

    Over bins of the predictions, with o_b events observed among n_b rows, e_b = sum of p expected, and mean
    prediction m_b = e_b / n_b, the statistic is

        H = sum_b (o_b - e_b)^2 / (n_b m_b (1 - m_b)),

    compared with the chi-squared law with one degree of freedom for each bin.

    Parameters
    ----------
    n_bins : int, default=10
        Number of bins. Empty ones, and those in which every prediction is 0 or every one 1, do not count.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal weight (the "deciles of risk") or of equal width, [j/n_bins, (j+1)/n_bins) with the last
        closed. Equal predictions always share a bin, so bins of equal weight are only as equal as ties allow.

    Attributes
    ----------
    result_ : CalibrationTestResult
        The result on the data given to ``fit``; its ``estimate`` is the root mean squared gap between event
        frequency and mean prediction, the binned l2 calibration error.
    statistic_, pvalue_ : float
        Its statistic and p-value.
    classes_ : ndarray
        The sorted labels seen by ``fit``.
    n_features_in_ : int
        Number of columns of ``X``.

    See Also
    --------
    TCal : Needs no choice of bins, and is exact in small samples.
    sklearn_calib.metrics.expected_calibration_error : The estimate alone, and its relatives.

    Notes
    -----
    Known to everyone, but its verdict depends on the bins. Two fewer degrees of freedom, as statistical
    packages report them, are right for a logistic regression tested on its own training data [1]_; here
    predictions are taken as given, and nothing is subtracted. The chi-squared law is a limit: it wants
    several expected events and non-events in every bin, and the result's ``reason`` states the fewest. The
    variance n_b m_b (1 - m_b) is that of equal predictions within the bin; where they differ it is too large,
    which makes the test cautious, the more so the wider the bins.

    Cost: one sort.

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
    1.00, p-value 0.607
    """

    def __init__(self, *, n_bins: int = 10, strategy: str = "quantile") -> None:
        self.n_bins = n_bins
        self.strategy = strategy

    def _check_parameters(self) -> None:
        check_size(self.n_bins, "n_bins")
        check_option(self.strategy, "strategy", ("quantile", "uniform"))

    def _test_sample(self, sample: BinarySample) -> CalibrationTestResult:
        grouped = group_outcomes(sample.y, sample.p, sample.w)
        starts = bin_starts(grouped, int(self.n_bins), self.strategy)
        terms = (
            grouped.weight,
            grouped.weight * grouped.prob,
            grouped.weight * (1.0 - grouped.prob),
            grouped.residual,
        )
        count, events, others, gap = (np.add.reduceat(term, starts) for term in terms)
        variance = events * others / count
        counts = variance > 0.0
        df = int(np.count_nonzero(counts))
        with np.errstate(over="ignore"):
            # events where they are next to impossible: infinite is right
            statistic = float((gap[counts] ** 2 / variance[counts]).sum())
        if df:
            pvalue = chi2_sf(statistic, df)
            fewest = float(np.minimum(events, others)[counts].min())
            reason = f"fewest expected events or non-events in a bin: {fewest:.3g}"
        else:
            pvalue, reason = 1.0, "no information: every prediction is 0 or 1"
        if (gap[~counts] != 0.0).any():
            # a gap without variance is an impossible outcome
            statistic = np.inf
        return CalibrationTestResult(
            test="Hosmer-Lemeshow test",
            null_hypothesis="P(Y = 1 | p) = p",
            statistic=statistic,
            pvalue=pvalue,
            estimate=float(np.sqrt((gap**2 / count).sum() / grouped.total)),
            method=f"asymptotic, chi-squared with {df} df",
            n_samples=int(grouped.total),
            reason=reason,
            null_law=f"chi2({df})" if df else "",
        )
