"""Number of samples for a test, a bound or an estimate of calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtr
from scipy.stats import chi2, norm

from sklearn_calib import _validation
from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes, pooled_if_many
from sklearn_calib._core._links import logit
from sklearn_calib._core._null import draw_positives
from sklearn_calib._core._recalibration import LogitOutcomes
from sklearn_calib._docs import shared_docs
from sklearn_calib._typing import Array
from sklearn_calib.inference._intervals import interval_by_inversion
from sklearn_calib.inference._populations import Populations
from sklearn_calib.inference._sample_metric import SampleMetric
from sklearn_calib.inference._testing._combined import tcal_evidence
from sklearn_calib.inference._testing._tails import brownian_range_sf
from sklearn_calib.inference._testing._tcal import BinaryScales
from sklearn_calib.metrics._smooth import smooth_ece

# Smaller levels, bounds and widths are refused.
_LEAST = 1e-12
# Measures whose width is planned.
_WITH_WIDTH = ("smooth_ece", "slope", "intercept", "observed_over_expected")
# Quantiles that represent a distribution.
_QUANTILES = 10_000
# The search for a wave begins and ends here.
_FEWEST, _MOST = 32, 1_000_000
# Its precision: ratio of the last two numbers of samples.
_PRECISION = 1.02
# Intervals that are simulated twice for a width, the simulations of each, those of the error and the number
# of events alone, and bins of the predictions.
_INTERVALS, _FEW, _CONTROLS, _POOLED = 12, 100, 400, 2048
# First guess of the mean width in units of the standard error of the mean residual, and the power of
# 1 / width to which n is proportional.
_FIRST_WIDTH, _EXPONENT = 3.5, 2.5
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# Simulated walks over tied predictions, of so many distinct ones; with more they are nearly Brownian.
_WALKS, _MOST_DISTINCT = 10_000, 1000


@shared_docs
def required_n_samples(
    y_proba: Any,
    *,
    slope: float | None = None,
    shift: float | None = None,
    wave: tuple[float, float] | None = None,
    bound: float | None = None,
    width: float | Mapping[str, float] | None = None,
    power: float = 0.8,
    alpha: float = 0.05,
    n_resamples: int = 999,
    random_state: int | np.random.Generator | np.random.RandomState | None = 0,
) -> int:
    r"""Compute the number of samples needed to detect a miscalibration, or to bound or estimate its size.

    Pass the predictions of a pilot sample, whose outcomes are not needed, and one goal: ``slope`` and
    ``shift``, ``wave``, ``bound``, or ``width``.

    Parameters
    ----------
    y_proba : array-like of shape (n,), (n, 1) or (n, 2), or distribution
        Predicted probabilities of the positive class, a sample from the distribution of the predictions; of
        two columns the last is used. Or a frozen distribution of scipy.stats on [0, 1].
    slope, shift : float, default=None
        Detect with :class:`CoxTest` that logit P(Y = 1 | p) = shift + slope logit(p); of one alone, the other
        is 1 or 0.
    wave : tuple (amplitude, n_periods), default=None
        Detect with :class:`TCal` that P(Y = 1 | p) = p + amplitude sin(2 pi n_periods p), clipped to [0, 1].
    bound : float, default=None
        If the predictions are calibrated, show that the cutoff calibration error is at most ``bound``: the
        error of the sample plus its bootstrap margin, ``cutoff_result(...).margin(1 - alpha, "bootstrap")``,
        which is the requirement "certificate" of :class:`~sklearn_calib.report.CalibrationRequirements`.
    width : float or dict of floats, default=None
        If the predictions are calibrated, estimate the smooth ECE with a :func:`confidence_interval` of level
        1 - ``alpha`` whose mean width is ``width``. A dict names measures and their widths: "smooth_ece", and
        "slope", "intercept" and "observed_over_expected" of
        :func:`~sklearn_calib.metrics.calibration_summary`; of several numbers of samples, the largest is
        returned.
    power : float, default=0.8
        Probability of reaching the goal, greater than ``alpha``; not used for ``width``.
    alpha : float, default=0.05
        Level of the test; 1 - ``alpha`` is the confidence of bound and interval.
    n_resamples : int, default=999
        Simulated samples for each number of samples that the search for ``wave`` tries.
    %(random_state)s

    Returns
    -------
    int
        The number of samples.

    Raises
    ------
    %(invalid)s

    See Also
    --------
    sklearn_calib.report.CalibrationRequirements : Requirements that a sample shows or refutes.

    Notes
    -----
    With :math:`x = (1, \mathrm{logit}\,p)`, q the event probability of the alternative and expectations over
    the predictions:

    - ``slope``, ``shift``: the score statistic of :class:`CoxTest` is :math:`Z^T I^{-1} Z` with the Fisher
      information :math:`I = \mathrm{E}\, p (1 - p)\, x x^T`. In the limit :math:`Z` is normal with mean
      :math:`\sqrt n\, u`, :math:`u = \mathrm{E} (q - p) x`, and covariance :math:`\mathrm{E}\, q (1 - q)\, x
      x^T + \mathrm{Cov}\, (q - p) x`. Close to the null hypothesis this is the noncentral chi-squared
      distribution with two degrees of freedom and noncentrality :math:`n\, u^T I^{-1} u` [1]_; the
      covariance of the alternative is more accurate. If all predictions are equal, the intercept is tested
      alone.
    - ``bound``: :math:`(c_{1-\alpha} + c_{\text{power}})\, \sigma / \sqrt n + 1 / n = \text{bound}`, with
      :math:`\sigma^2 = \mathrm{E}\, p (1 - p)` and quantiles c of the range of Brownian motion on [0, 1], the
      limit of the cumulative residuals. If predictions are tied, the quantiles are those of a random walk
      over the distinct predictions, simulated 10,000 times.
    - ``width`` of "slope" and "intercept": :math:`(2 z / \text{width})^2` times the entry of
      :math:`I^{-1}`, for the intercept :math:`1 / \mathrm{E}\, p (1 - p)`, since its slope is 1, with the
      normal quantile z of 1 - alpha / 2. Of "observed_over_expected":
      :math:`(1 - \bar p) / (\bar p\, s^2)`, with the mean prediction :math:`\bar p` and the standard error
      s of the logarithm for which the interval from :math:`e^{-z s}` to :math:`e^{z s}` has the width. For
      the slope and O/E see [2]_.
    - ``width`` of smooth ECE: the mean width of the intervals of calibrated samples, first with n from a
      guess and then with n from their result; widths are taken as proportional to :math:`n^{-0.4}`, and the
      two results are averaged on the logarithmic scale. The bandwidth of smooth ECE shrinks with n, so that
      widths shrink more slowly than :math:`n^{-1/2}`. The mean width is a regression of 12 widths on the
      smooth ECE and the number of events, at the means of 400 samples. The standard error is about 5%. This
      takes about as long as 25 intervals.
    - ``wave``: no formula is accurate for T-Cal, whose many scales are dependent. The power at n samples is
      simulated with ``n_resamples`` samples under the null hypothesis and as many under the alternative, and
      n is found by bisection to 2%, with the same seed for every n. The standard error is a few percent.

    Distributions are represented by their quantiles. For ``wave``, those of a pilot sample without ties are
    interpolated.

    References
    ----------
    .. [1] D. R. Cox and D. V. Hinkley (1974). Theoretical Statistics. Chapman and Hall. Section 9.3.
    .. [2] R. D. Riley et al. (2021). Minimum sample size for external validation of a clinical prediction
       model with a binary outcome. Statistics in Medicine 40, 4230-4251.

    Examples
    --------
    >>> from scipy.stats import uniform
    >>> from sklearn_calib.inference import required_n_samples
    >>> required_n_samples(uniform(), bound=0.02)
    8374
    >>> required_n_samples(uniform(), slope=0.8)
    882
    >>> required_n_samples(uniform(), width={"slope": 0.2, "observed_over_expected": 0.2})
    1787
    """
    goals = {
        "slope or shift": None if slope is None and shift is None else True,
        "wave": wave,
        "bound": bound,
        "width": width,
    }
    named = [name for name, value in goals.items() if value is not None]
    if len(named) != 1:
        raise ValueError(f"pass one goal: {', '.join(goals)}; got {' and '.join(named) or 'none'}.")
    _check_small(alpha, "alpha")
    if not _validation.check_fraction(power, "power") > alpha:
        raise ValueError(f"power must be greater than alpha={alpha:g}, got {power:g}.")
    _validation.check_size(n_resamples, "n_resamples")
    if wave is not None and n_resamples < _validation.least_resamples(alpha):
        raise ValueError(f"n_resamples={n_resamples} is too few for alpha={alpha:g}. Use more.")
    generator = _validation.check_generator(random_state)
    if hasattr(y_proba, "ppf"):
        y_proba = y_proba.ppf((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
    _validation.check_columns(y_proba, None, "y_proba")
    p = np.sort(_validation.check_probabilities(y_proba))
    if not ((p > 0.0) & (p < 1.0)).any():
        raise ValueError("y_proba contains only 0 and 1, which calibrated outcomes never contradict.")
    if bound is not None:
        return _for_bound(p, _check_small(bound, "bound"), power, alpha, generator)
    if width is not None:
        return _for_widths(p, width, alpha, generator)
    if wave is not None:
        return _for_wave(p, *_check_wave(wave), power, alpha, n_resamples, generator)
    return _for_line(
        p,
        1.0 if slope is None else _validation.check_positive(slope, "slope"),
        0.0 if shift is None else _check_shift(shift),
        power,
        alpha,
    )


def _check_small(value: Any, name: str) -> float:
    if _validation.check_fraction(value, name) < _LEAST:
        raise ValueError(f"{name} must be at least {_LEAST:g}, got {value!r}.")
    return float(value)


def _check_shift(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"shift must be a number, got {value!r}.")
    if not np.isfinite(float(value)):
        raise ValueError(f"shift must be finite, got {value!r}.")
    return float(value)


def _check_wave(wave: Any) -> tuple[float, float]:
    if not isinstance(wave, list | tuple) or len(wave) != 2:
        raise TypeError(f"wave must be (amplitude, n_periods), got {wave!r}.")
    return _validation.check_positive(wave[0], "wave: amplitude"), _validation.check_positive(
        wave[1], "wave: n_periods"
    )


def _tied(p: Array) -> bool:
    """Tell whether predictions are those of a discrete distribution: a tenth repeats another."""
    return bool(np.mean(p[1:] == p[:-1]) > 0.1) if p.shape[0] > 1 else True


def _of_size(p: Array, n: int) -> Array:
    """Return n predictions with the distribution of ``p``."""
    level = (np.arange(n) + 0.5) / n
    out: Array = np.quantile(p, level, method="inverted_cdf") if _tied(p) else np.quantile(p, level)
    return out


def _waved(p: Array, amplitude: float, n_periods: float) -> Array:
    """Return event probabilities with a wave."""
    return np.clip(p + amplitude * np.sin(2.0 * np.pi * n_periods * p), 0.0, 1.0)


def _for_line(p: Array, slope: float, shift: float, power: float, alpha: float) -> int:
    """Return the number for a test of intercept and slope."""
    # as the test does
    p = np.clip(p, 2.0**-53, 1.0 - 2.0**-53)
    x = logit(p)
    q = expit(shift + slope * x)
    columns = np.ones((1, p.shape[0])) if x[0] == x[-1] else np.stack((np.ones_like(x), x - x.mean()))
    gap = columns * (q - p)
    score = gap.mean(axis=1)
    # in coordinates in which the statistic is the squared length of the score
    root = np.linalg.inv(np.linalg.cholesky((columns * p * (1.0 - p)) @ columns.T))
    whole = (columns * q * (1.0 - q)) @ columns.T + gap @ gap.T - p.shape[0] * np.outer(score, score)
    variance, axes = np.linalg.eigh(root @ whole @ root.T)
    mean = axes.T @ root @ score * np.sqrt(p.shape[0])
    if not mean @ mean > 1e-20:
        raise ValueError(f"slope={slope:g} with shift={shift:g} is perfect calibration of y_proba.")
    limit = chi2.isf(alpha, mean.shape[0])

    deviation = np.sqrt(np.maximum(variance, 1e-12))

    def excess(log_n: float) -> float:
        return _exceeds(limit, np.exp(0.5 * log_n) * mean, deviation) - power

    least, most = (-np.log(mean @ mean) + side for side in (-20.0, 20.0))
    # outcomes that vary far more than predicted are detected at once
    return 1 if excess(least) >= 0.0 else int(np.ceil(np.exp(brentq(excess, least, most))))


def _exceeds(limit: float, mean: Array, deviation: Array) -> float:
    """Return P(|Z|**2 > limit) for one or two independent normal variables Z, the last with more variance."""

    def inside(reach: Any) -> Any:
        return ndtr((reach - mean[0]) / deviation[0]) - ndtr((-reach - mean[0]) / deviation[0])

    if mean.shape[0] == 1:
        return float(1.0 - inside(np.sqrt(limit)))
    angle, weight = 0.5 * np.pi * _NODES, 0.5 * np.pi * _WEIGHTS
    last, rest = np.sqrt(limit) * np.sin(angle), np.sqrt(limit) * np.cos(angle)
    density = np.exp(-0.5 * ((last - mean[1]) / deviation[1]) ** 2) / (np.sqrt(2.0 * np.pi) * deviation[1])
    # rest is also the derivative of the last variable by the angle
    return float(1.0 - (weight * rest * density) @ inside(rest))


def _for_bound(p: Array, bound: float, power: float, alpha: float, generator: np.random.Generator) -> int:
    """Return the number for a bound of the cutoff calibration error of calibrated predictions."""
    variance = p * (1.0 - p)
    deviation = float(np.sqrt(variance.mean()))
    if _tied(p) and np.unique(p).shape[0] <= _MOST_DISTINCT:
        steps = np.bincount(np.unique(p, return_inverse=True)[1], weights=variance / variance.sum())
        ends = np.cumsum(generator.standard_normal((_WALKS, steps.shape[0])) * np.sqrt(steps), axis=1)
        ranges = np.maximum(ends.max(axis=1), 0.0) - np.minimum(ends.min(axis=1), 0.0)
        quantiles = float(np.quantile(ranges, 1.0 - alpha) + np.quantile(ranges, power))
    else:
        quantiles = sum(
            float(brentq(lambda x, tail=tail: brownian_range_sf(x) - tail, 0.1, 50.0))
            for tail in (alpha, 1.0 - power)
        )
    # the positive root in n**0.5
    linear = quantiles * deviation
    return int(np.ceil(((linear + np.sqrt(linear**2 + 4.0 * bound)) / (2.0 * bound)) ** 2))


def _for_widths(p: Array, width: Any, alpha: float, generator: np.random.Generator) -> int:
    """Return the number for intervals of one or several measures of calibrated predictions."""
    widths = width if isinstance(width, Mapping) else {"smooth_ece": width}
    if not widths:
        raise ValueError('width must name one measure or more, such as {"slope": 0.2}, got {}.')
    for name in widths:
        _validation.check_option(
            name, "a measure of width", ("smooth_ece", "slope", "intercept", "observed_over_expected")
        )
    # samples with predictions of 0 and 1 are collected, but do not inform slope and intercept
    inner = p[(p > 0.0) & (p < 1.0)]
    data = LogitOutcomes(GroupedOutcomes(inner, np.full_like(inner, 1.0 / p.shape[0]), inner / p.shape[0]))
    error, _, of_slope = data.standard_errors(data.at(0.0, 1.0))
    z, found = norm.isf(0.5 * alpha), []
    for name, value in widths.items():
        if name == "smooth_ece":
            found.append(_for_width(p, _check_small(value, "width"), alpha, generator))
            continue
        goal = _validation.check_positive(value, f"width of {name}")
        if name == "observed_over_expected":
            n = (1.0 / p.mean() - 1.0) * (z / np.arcsinh(0.5 * goal)) ** 2
        elif name == "slope" and not np.isfinite(of_slope):
            raise ValueError("y_proba holds one value between 0 and 1, which does not determine a slope.")
        else:
            n = (2.0 * z * (of_slope if name == "slope" else error) / goal) ** 2
        found.append(int(np.ceil(n)))
    return max(found)


def _for_width(p: Array, width: float, alpha: float, generator: np.random.Generator) -> int:
    """Return the number for an interval of the smooth ECE of calibrated predictions."""
    found = 2.0 * np.log(_FIRST_WIDTH * np.sqrt(np.mean(p * (1.0 - p))) / width)
    estimates = []
    for _ in range(2):
        n = max(_FEWEST, int(np.ceil(np.exp(found))))
        if n > _MOST:
            raise ValueError(f"width={width:g} needs more than {_MOST} samples.")
        grouped = pooled_if_many(group_outcomes(np.zeros(n, dtype=np.int64), _of_size(p, n)), _POOLED)
        drawn = np.concatenate(list(draw_positives(grouped, _CONTROLS, generator)), axis=1, dtype=np.float64)
        errors = SampleMetric(smooth_ece, grouped, weighted=False).values(grouped.weight, drawn)
        widths = []
        for positives in drawn.T[:_INTERVALS]:
            bound = SampleMetric(smooth_ece, replace(grouped, positives=positives), weighted=False)
            interval = interval_by_inversion(
                bound, Populations.estimated(bound.sample, _FEW, generator), 1.0 - alpha
            )
            widths.append(interval.upper - interval.lower)
        # the widths of few intervals, at the mean of control variates that are simulated more often
        excess = drawn.sum(axis=0) - grouped.prob @ grouped.weight
        controls = np.column_stack((errors, excess, np.abs(excess)))
        columns = np.column_stack((np.ones(_INTERVALS), (controls - controls.mean(axis=0))[:_INTERVALS]))
        mean = np.linalg.lstsq(columns, np.array(widths), rcond=None)[0][0]
        found = np.log(n) + _EXPONENT * np.log(mean / width)
        estimates.append(found)
    return int(np.ceil(np.exp(np.mean(estimates))))


def _for_wave(
    p: Array,
    amplitude: float,
    n_periods: float,
    power: float,
    alpha: float,
    n_resamples: int,
    generator: np.random.Generator,
) -> int:
    """Return the number for T-Cal."""
    seed = int(generator.integers(2**63))
    if not np.abs(_waved(p, amplitude, n_periods) - p).max() > 1e-9:
        raise ValueError(f"wave={(amplitude, n_periods)} is perfect calibration of y_proba.")

    def reaches(n: int) -> bool:
        prob = _of_size(p, n)
        rng = np.random.default_rng(seed)
        scales = BinaryScales(group_outcomes(np.zeros(n, dtype=np.int64), prob), None)
        grouped, evidence = scales.grouped, tcal_evidence(scales)
        truth = _waved(grouped.prob, amplitude, n_periods)
        null, alternative = (
            np.concatenate([evidence(drawn) for drawn in draw_positives(each, n_resamples, rng)])
            for each in (grouped, replace(grouped, prob=truth))
        )
        return bool((alternative > np.quantile(null, 1.0 - alpha, method="weibull")).mean() >= power)

    low, high = _FEWEST, _FEWEST
    while not reaches(high):
        low, high = high, 2 * high
        if high > _MOST:
            raise ValueError(f"wave={(amplitude, n_periods)} needs more than {_MOST} samples.")
    while high > max(_PRECISION * low, low + 1):
        middle = int(np.sqrt(low * high))
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high
