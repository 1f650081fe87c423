"""Every metric with the properties that the generated tests check.

A new metric is one row here.
"""

from dataclasses import dataclass, field
from functools import partial
from inspect import signature

from sklearn_calib import metrics


@dataclass(frozen=True)
class MetricCase:
    """A metric with fixed parameters and what theory promises of it.

    ``flip_symmetric``: (1 - y, 1 - p) has the same error. ``zero_when_balanced``: 0 where as many events
    occur as are predicted. ``scale_free``: only shares of the weight matter. ``any_weights``: they need not
    be counts. ``root``: a root of squares, which are what is averaged over classes.
    """

    name: str
    function: object
    params: dict = field(default_factory=dict)
    flip_symmetric: bool = True
    zero_when_balanced: bool = True
    scale_free: bool = True
    any_weights: bool = True
    root: bool = False

    @property
    def call(self):
        return partial(self.function, **self.params)

    @property
    def of_decisions(self):
        """Whether it measures a gain of decisions, which is not that of the mean residual."""
        return "decision" in self.function.__name__

    def square(self, *args, **kwargs):
        """The squared error, which may be negative if it is debiased."""
        if "squared" in signature(self.function).parameters:
            return self.call(*args, squared=True, **kwargs)
        return self.call(*args, **kwargs) ** 2


def row(name, function, flags="", **params):
    """Return the case of a metric with parameters; "not_" before a flag denies it."""
    holds = {flag.removeprefix("not_"): not flag.startswith("not_") for flag in flags.split()}
    return MetricCase(name, function, params, **holds)


ece, smooth, noisy = metrics.expected_calibration_error, metrics.smooth_ece, metrics.logit_smoothed_ece
kernel, sweep = metrics.kernel_calibration_error, metrics.sweep_calibration_error
gap = metrics.decision_risk_gap
METRICS = [
    row("ece", ece),
    row("ece_l2", ece, "root", norm="l2"),
    row("ece_max", ece, norm="max"),
    # a prediction at the edge of two bins belongs to the upper one
    row("ece_quantile", ece, "not_flip_symmetric", strategy="quantile"),
    # the variance that is taken off is that of so many rows
    row("ece_debiased", ece, "not_scale_free not_any_weights root", norm="l2", debias=True),
    row("smooth_ece", smooth),
    row("smooth_ece_fixed", smooth, bandwidth=0.05),
    row("smooth_ece_logit", smooth, scale="logit"),
    # noise in log-odds makes the prediction itself uncertain; "auto" depends on the number of rows
    row("logit_smoothed_ece", noisy, "not_zero_when_balanced not_scale_free"),
    row("logit_smoothed_ece_fixed", noisy, "not_zero_when_balanced", bandwidth=0.2),
    row("logit_smoothed_ece_uniform", noisy, "not_zero_when_balanced", bandwidth=0.2, noise="uniform"),
    row("cutoff", metrics.cutoff_calibration_error),
    row("smooth_calibration_error", metrics.smooth_calibration_error),
    row("smooth_calibration_error_logit", metrics.smooth_calibration_error, scale="logit"),
    # pairs of a row with itself are left out, for which rows must be counted
    row("kernel_debiased", kernel, "not_scale_free not_any_weights root", debias=True),
    row("kernel_biased", kernel, "root", debias=False),
    # edges again: of quantiles, and of bins of equal width
    row("sweep", sweep, "not_flip_symmetric"),
    row("sweep_uniform", sweep, "not_flip_symmetric root", strategy="uniform", norm="l2"),
    row("calibration_loss", metrics.calibration_loss),
    row("lower_distance", metrics.lower_distance_to_calibration, n_bins=64),
    row("interval", metrics.interval_calibration_error),
    # the smooth curve is penalized as so many rows ask for
    row("ici", metrics.integrated_calibration_index, "not_scale_free"),
    # a flip would put the threshold at 0.7
    row("decision_risk_gap", gap, "not_flip_symmetric", threshold=0.3),
    row("decision_risk_gap_max", gap, threshold="max"),
    row("decision_risk_gap_either", gap, "not_flip_symmetric", threshold=0.3, recalibration="either"),
    row("calibration_decision_loss", metrics.calibration_decision_loss),
]

#: Public functions of predictions that are no rows above, and why.
ELSEWHERE = {
    "area_under_risk_coverage": "how well confidences order errors, no error of calibration",
    "calibration_summary": "a table of numbers, some of them no errors; tests/metrics/test_summary.py",
    "cutoff_result": "the parts of cutoff_calibration_error",
    "decision_risk_result": "the parts of decision_risk_gap",
    "distance_from_calibration": "bounds made of the errors above",
    "net_benefit": "a benefit, no error; tests/metrics/test_decision_losses.py",
    "expected_performance": "estimates without labels; tests/metrics/test_expected.py",
    "risk_coverage_curve": "the parts of area_under_risk_coverage",
    "refinement_loss": "what discrimination leaves, no error of calibration",
    "score_decomposition": "the parts of calibration_loss",
    "smooth_ece_result": "the parts of smooth_ece",
}
