"""Confidence intervals for calibration errors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._html import result_html
from sklearn_calib._validation import (
    BinarySample,
    check_binary,
    check_fraction,
    check_frequency_weights,
    check_generator,
    check_integer,
    check_option,
)
from sklearn_calib.metrics import smooth_ece_result

__all__ = ["ConfidenceInterval", "confidence_interval"]

Array = NDArray[np.float64]
Metric = Callable[..., float]

# Multiples of the estimated miscalibration at which the sampling distribution is simulated; doubled from the
# last one on until the upper end is found.
_MULTIPLES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
_LARGEST_MULTIPLE = 64.0


@dataclass(frozen=True)
class ConfidenceInterval:
    """Confidence interval of a metric.

    Attributes
    ----------
    estimate : float
        The metric on the sample.
    low, high : float
        Ends of the interval for the value in the population.
    confidence : float
        Confidence level.
    null_mean : float
        Mean of the metric if the predictions were perfectly calibrated: the floor that sampling noise alone
        puts under the estimate. NaN for the percentile method, which does not simulate it.
    method : str
        "inversion" or "percentile".
    """

    estimate: float
    low: float
    high: float
    confidence: float
    null_mean: float
    method: str

    def __str__(self) -> str:
        text = f"{self.estimate:.4f} [{self.low:.4f}, {self.high:.4f}] ({self.confidence:.0%} confidence"
        return text + (")" if np.isnan(self.null_mean) else f", noise alone {self.null_mean:.4f})")

    def _repr_html_(self) -> str:
        return result_html(
            "confidence interval",
            [
                ("estimate", f"{self.estimate:.4f}"),
                ("interval", f"[{self.low:.4f}, {self.high:.4f}]"),
                ("confidence", f"{self.confidence:.0%}"),
                ("noise alone", "" if np.isnan(self.null_mean) else f"{self.null_mean:.4f}"),
            ],
        )


def confidence_interval(
    metric: Metric,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence: float = 0.95,
    method: Literal["inversion", "percentile"] = "inversion",
    n_resamples: int = 200,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    random_state: int | np.random.Generator | np.random.RandomState | None = None,
) -> ConfidenceInterval:
    r"""Compute a confidence interval for the population value of a calibration error.

    The estimate of a calibration error is too large on average, most of all where the truth is zero, and
    resampled data are noisier still: percentile intervals of the bootstrap sit too high and can miss even the
    estimate. Here the sampling distribution is simulated along a path of populations, from perfectly
    calibrated to more miscalibrated than estimated, and the interval holds the values of those populations in
    which the estimate is unsurprising.

    Parameters
    ----------
    metric : callable
        ``metric(y_true, y_proba, *, sample_weight=None) -> float``, such as any function of
        :mod:`sklearn_calib.metrics`, with parameters fixed by :func:`functools.partial`. Its parameters
        should not depend on the sample size.
    y_true : array-like of shape (n,)
        Labels of two classes.
    y_proba : array-like of shape (n,), (n, 1) or (n, 2)
        Predicted probabilities of the positive class in [0, 1]; of two columns the last is used.
    confidence : float, default=0.95
        Confidence level in (0, 1).
    method : {"inversion", "percentile"}, default="inversion"
        "percentile" is the plain bootstrap, right for averages such as the Brier score, not for calibration
        errors.
    n_resamples : int, default=200
        Simulated samples for each population of the path, or bootstrap samples.
    sample_weight : array-like of shape (n,), default=None
        Frequency weights: non-negative whole numbers.
    pos_label : label, default=None
        The positive class, as in the metrics.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the simulation; None draws a fresh one.

    Returns
    -------
    ConfidenceInterval
        Estimate, ends, and the mean of the metric under perfect calibration.

    Raises
    ------
    ValueError
        If an argument is malformed (the message names it), or weights are not whole numbers.

    Notes
    -----
    Let m be the smoothed calibration curve of :func:`sklearn_calib.metrics.smooth_ece_result`. Population
    :math:`\lambda` has predictions distributed as in the sample and event probabilities :math:`p + \lambda
    (m(p) - p)`, clipped to [0, 1]. Its samples are drawn with common random numbers. It is accepted if the
    estimate lies between the :math:`\alpha_1(\lambda)` and :math:`1 - \alpha_2(\lambda)` quantiles, with
    :math:`\alpha_1 + \alpha_2 = 1 - \text{confidence}`: at :math:`\lambda = 0`, where the error cannot be
    smaller, all of it is spent on the upper side, and half on each side once the population value is well
    above the noise. The cost is about ten times ``n_resamples`` evaluations of the metric.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import confidence_interval
    >>> from sklearn_calib.metrics import cutoff_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> y = rng.random(500) < p**2
    >>> interval = confidence_interval(cutoff_calibration_error, y, p, random_state=0)
    >>> interval.low < 1 / 6 < interval.high
    True
    """
    check_fraction(confidence, "confidence")
    check_option(method, "method", ("inversion", "percentile"))
    rng = check_generator(random_state)
    n_resamples = check_integer(n_resamples, "n_resamples", minimum=20)
    if not callable(metric):
        raise TypeError(f"metric must be callable, got {metric!r}.")
    sample = check_binary(y_true, y_proba, sample_weight, pos_label)
    if sample.w is not None:
        times = check_frequency_weights(sample.w)
        sample = BinarySample(np.repeat(sample.y, times), np.repeat(sample.p, times), None)
    estimate = float(metric(sample.y, sample.p))
    alpha = 1.0 - confidence
    if method == "percentile":
        n = sample.y.shape[0]
        draws = np.empty(n_resamples)
        for b in range(n_resamples):
            rows = rng.integers(0, n, n)
            draws[b] = metric(sample.y[rows], sample.p[rows])
        low, high = np.quantile(draws, [alpha / 2, 1 - alpha / 2])
        return ConfidenceInterval(estimate, float(low), float(high), confidence, float("nan"), method)
    path = _Path(metric, sample, n_resamples, int(rng.integers(2**63)))
    low, high, floor = _invert(path, estimate, alpha)
    return ConfidenceInterval(estimate, low, high, confidence, floor, method)


class _Path:
    """Populations from perfectly calibrated (0) through the estimated curve (1) and beyond."""

    def __init__(self, metric: Metric, sample: BinarySample, n_resamples: int, seed: int) -> None:
        self.metric = metric
        self.p = sample.p
        self.n_resamples = n_resamples
        self.seed = seed
        result = smooth_ece_result(sample.y, sample.p)
        known = ~np.isnan(result.curve)
        self.direction = np.interp(sample.p, result.grid[known], result.curve[known]) - sample.p
        if np.abs(self.direction).max() < 1e-6:
            # the sample is balanced to the last digit and points nowhere: a shift of one standard error
            self.direction = np.where(sample.p < 0.5, 1.0, -1.0) / np.sqrt(sample.p.shape[0])

    def truth(self, multiple: float) -> Array:
        """Return the event probabilities of the rows."""
        return np.clip(self.p + multiple * self.direction, 0.0, 1.0)

    def value(self, multiple: float) -> float:
        """Return the metric of the population: each row is both outcomes, weighted by their probabilities."""
        n = self.p.shape[0]
        # whole numbers, so that metrics that correct for the sample size find it large
        events = np.rint(self.truth(multiple) * 2.0**50)
        y = np.repeat(np.array([1, 0]), n)
        weight = np.concatenate((events, 2.0**50 - events))
        return float(self.metric(y, np.tile(self.p, 2), sample_weight=weight))

    def draws(self, multiple: float) -> Array:
        """Return the sorted metric of samples from the population, by the same random numbers for each."""
        rng = np.random.default_rng(self.seed)
        truth, n = self.truth(multiple), self.p.shape[0]
        out = np.empty(self.n_resamples)
        for b in range(self.n_resamples):
            rows = rng.integers(0, n, n)
            y = (rng.random(n) < truth[rows]).astype(np.int64)
            out[b] = self.metric(y, self.p[rows])
        return np.sort(out)


def _invert(path: _Path, estimate: float, alpha: float) -> tuple[float, float, float]:
    """Return the least and greatest population value that is accepted, and the mean at no miscalibration."""
    multiples: list[float] = []
    values: list[float] = []
    lower: list[float] = []
    upper: list[float] = []
    floor = 0.0
    pending = list(_MULTIPLES)
    while pending:
        multiple = pending.pop(0)
        draws = path.draws(multiple)
        value = path.value(multiple)
        if multiple == 0.0:
            floor = float(draws.mean())
        signal = value / floor if floor > 0 else np.inf
        alpha_low = 0.5 * alpha * (1.0 - np.exp(-(signal**2)))
        multiples.append(multiple)
        values.append(value)
        # of N draws the j-th is passed with probability j / (N + 1)
        tails = np.quantile(draws, [alpha_low, 1.0 - (alpha - alpha_low)], method="weibull")
        lower.append(float(tails[0]))
        upper.append(float(tails[1]))
        if not pending and lower[-1] <= estimate and multiple < _LARGEST_MULTIPLE:
            pending.append(2.0 * multiple)
    # quantiles grow along the path up to simulation noise
    upper_curve, lower_curve = np.maximum.accumulate(upper), np.maximum.accumulate(lower)
    first = _crossing(multiples, upper_curve, upper_curve >= estimate, estimate)
    last = _crossing(multiples, lower_curve, lower_curve > estimate, estimate)
    low, high = (float(np.interp(end, multiples, values)) for end in (first, last))
    return min(low, high), max(low, high), floor


def _crossing(multiples: list[float], curve: Array, passed: NDArray[np.bool_], level: float) -> float:
    """Return where a non-decreasing curve passes the level, or the end if it does not."""
    if not passed.any():
        return multiples[-1]
    j = int(passed.argmax())
    if j == 0:
        return multiples[0]
    share = (level - curve[j - 1]) / (curve[j] - curve[j - 1])
    return float(multiples[j - 1] + share * (multiples[j] - multiples[j - 1]))
