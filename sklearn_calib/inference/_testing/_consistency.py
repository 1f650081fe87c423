"""Any metric as a test of calibration, by Monte Carlo simulation."""

from copy import copy
from itertools import starmap
from typing import Any

from sklearn_calib import _validation
from sklearn_calib._core._grouping import group_sample
from sklearn_calib._core._null import draw_outcomes, monte_carlo_pvalue
from sklearn_calib.inference._sample_metric import Metric, SampleMetric, defined_values, reduced_once
from sklearn_calib.inference._testing import _simulated
from sklearn_calib.inference._testing._base import CalibrationTest, CalibrationTestResult, result_of
from sklearn_calib.metrics._names import as_metric, name_of

# What counts as a tie of two values of a metric, apart from rounding in proportion to it.
_TIE = 1e-12


class ConsistencyTest(CalibrationTest):
    """Test of perfect calibration by any metric, against its simulated null distribution.

    Parameters
    ----------
    metric : str or callable
        Name of a function of :mod:`sklearn_calib.metrics` that returns a number, "brier_score" or "log_loss",
        or ``metric(y_true, y_proba, *, sample_weight=None) -> float``, large for bad calibration, with
        parameters fixed by :func:`functools.partial`. It does not need the parameter ``sample_weight`` if the
        test is used without weights. Labels are 0 and 1; a simulated sample can lack one of them.
    n_resamples : int, default=999
        Number of simulated samples.
    resample : {"labels", "pairs"}, default="labels"
        What is simulated: only the outcomes, Y* ~ Bernoulli(p), which is exact given the predictions; or
        predictions, resampled with replacement, and then their outcomes (consistency resampling [1]_), which
        is approximate.
    %(tested_classes)s
    %(random_state)s

    Attributes
    ----------
    result_ : CalibrationTestResult
        The result on the data given to ``fit``; statistic and ``estimate`` are the metric.
    %(tested_fit)s

    See Also
    --------
    expected_under_calibration : Mean and quantile of the same simulations.
    CutoffTest, TCal : Much faster for their statistics.

    Notes
    -----
    The p-value is (1 + #{metric* >= metric}) / (1 + n_resamples), never 0. The test detects the errors to
    which the metric is sensitive: with a proper score it tests whether the score is worse than expected under
    the predictions. Cost: that of :func:`expected_under_calibration`; smoothed errors count as tied if they
    are within 1e-6.

    References
    ----------
    .. [1] J. Bröcker and L. A. Smith (2007). Increasing the reliability of reliability diagrams. Weather and
       Forecasting 22.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import ConsistencyTest
    >>> from sklearn_calib.metrics import smooth_ece
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=300)
    >>> y = rng.uniform(size=300) < p
    >>> test = ConsistencyTest(smooth_ece, n_resamples=99, random_state=0)
    >>> test.test(y, p).rejects(), test.test(y, p**2).rejects()
    (False, True)
    """

    _knows_clusters = _knows_sampling = True

    def __init__(
        self,
        metric: str | Metric,
        *,
        n_resamples: int = 999,
        resample: str = "labels",
        reduction: str = "joint",
        random_state: Any = 0,
    ) -> None:
        self.metric = metric
        self.n_resamples = n_resamples
        self.resample = resample
        self.reduction = reduction
        self.random_state = random_state

    @property
    def _simulates_labels(self) -> bool:
        return self.resample == "labels"

    def _check_parameters(self) -> None:
        as_metric(self.metric)
        _validation.check_size(self.n_resamples, "n_resamples")
        _validation.check_option(self.resample, "resample", ("labels", "pairs"))
        _validation.check_randomness(self.random_state)

    def _test_sample(self, sample: _validation.BinarySample) -> CalibrationTestResult:
        if self.resample == "pairs":
            _simulated.refuse_clusters(sample.clusters, "resample", self.resample, "labels")
        grouped = group_sample(sample)
        metric = as_metric(self.metric)
        bound = SampleMetric(metric, grouped, weighted=sample.w is not None, w=sample.sampling_weights)
        value = bound.estimate
        if self.resample == "pairs":
            generator = _validation.check_generator(self.random_state)
            null = defined_values(
                starmap(bound.values, draw_outcomes(bound.sample, self.n_resamples, generator))
            )
        else:
            weight, power = bound.sample.weight, 0.5 * bound.is_error
            null = defined_values(
                [
                    _simulated.simulated(
                        self, bound.sample, lambda each: bound.values(weight, each), power=power
                    )
                ]
            )
        return result_of(
            grouped,
            test=f"consistency test of {name_of(metric)}",
            statistic=value,
            pvalue=monte_carlo_pvalue(value, null, max(_TIE, bound.accuracy)),
            estimate=value,
            method=f"{self.n_resamples} {'simulations' if self.resample == 'labels' else 'resampled pairs'}",
            null_distribution=null,
            reason=f"mean under the null hypothesis {null.mean():.4g}",
        )

    def _test_classes(self, sample: _validation.ClassSample) -> CalibrationTestResult:
        binary = copy(self)
        binary.metric = reduced_once(as_metric(self.metric))
        return super(ConsistencyTest, binary)._test_classes(sample)
