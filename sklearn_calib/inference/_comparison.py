"""Paired comparison of two models on the same samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core._null import monte_carlo_pvalue, tail_rank
from sklearn_calib._html import result_html
from sklearn_calib._typing import Array
from sklearn_calib._validation import (
    check_fraction,
    check_generator,
    check_option,
    check_size,
    least_resamples,
)
from sklearn_calib.inference._paired_samples import (
    HalfSamples,
    PairedSamples,
    check_paired,
    swapped_differences,
)
from sklearn_calib.inference._redraw import Metric
from sklearn_calib.metrics._names import as_metric

METHODS = ("auto", "half-sampling", "swap")
ALTERNATIVES = ("two-sided", "less", "greater")
# With fewer samples "auto" does not use half-sampling.
_FEW_SAMPLES = 30
_FEWEST_SAMPLES = 4


@dataclass(frozen=True)
class PairedComparison:
    """Comparison of a metric between two models on the same samples.

    Attributes
    ----------
    value_a, value_b : float
        The metric of each model; smaller is better.
    null_mean_a, null_mean_b : float
        Mean of the metric if the model were perfectly calibrated: the expected value of a calibration error
        under perfect calibration, or the score expected under the model's own predictions.
    difference : float
        ``value_a - value_b``; negative if model a is better.
    corrected_difference : float
        The bias-corrected difference, the centre of the interval. Equal to ``difference`` for averages over
        the samples, NaN for ``method="swap"``.
    lower, upper : float
        Confidence interval of the difference in the population; infinite at one end if the alternative is
        one-sided, NaN for ``method="swap"``.
    confidence : float
        Its confidence level.
    pvalue : float
        p-value of the hypothesis of ``method``.
    alternative : str
        "two-sided", "less" (model a is better) or "greater".
    method : str
        "half-sampling" or "swap".
    n_samples : int
        Number of samples; frequency weights count.
    n_clusters : int or None
        Number of clusters; None if samples were taken to be independent.
    null_distribution : ndarray
        Differences after each swap, or simulated errors of ``corrected_difference``.
    """

    value_a: float
    value_b: float
    null_mean_a: float
    null_mean_b: float
    difference: float
    corrected_difference: float
    lower: float
    upper: float
    confidence: float
    pvalue: float
    alternative: str
    method: str
    n_samples: int
    n_clusters: int | None = field(default=None, kw_only=True)
    null_distribution: Array = field(repr=False, compare=False)

    def _size(self) -> str:
        clusters = "" if self.n_clusters is None else f", {self.n_clusters} clusters"
        return f"n = {self.n_samples}{clusters}"

    def __str__(self) -> str:
        lines = [
            f"model a {self.value_a:.4f} (expected under calibration {self.null_mean_a:.4f})",
            f"model b {self.value_b:.4f} (expected under calibration {self.null_mean_b:.4f})",
            f"a - b   {self.difference:.4f}",
        ]
        if not np.isnan(self.corrected_difference):
            lines[-1] += (
                f", bias-corrected {self.corrected_difference:.4f} [{self.lower:.4f}, {self.upper:.4f}] "
                f"({100 * self.confidence:g}% confidence)"
            )
        lines.append(f"p-value {self.pvalue:.3g} ({self.alternative}, {self.method}, {self._size()})")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        without_noise = ""
        if not np.isnan(self.corrected_difference):
            without_noise = (
                f"{self.corrected_difference:.4f} [{self.lower:.4f}, {self.upper:.4f}] "
                f"({100 * self.confidence:g}% confidence)"
            )
        return result_html(
            "paired comparison",
            [
                ("model a", f"{self.value_a:.4f} (expected under calibration {self.null_mean_a:.4f})"),
                ("model b", f"{self.value_b:.4f} (expected under calibration {self.null_mean_b:.4f})"),
                ("a - b", f"{self.difference:.4f}"),
                ("bias-corrected", without_noise),
                ("p-value", f"{self.pvalue:.3g} ({self.alternative}, {self.method}, {self._size()})"),
            ],
        )


def paired_test(
    y_true: ArrayLike,
    y_proba_a: ArrayLike,
    y_proba_b: ArrayLike,
    *,
    metric: str | Metric,
    method: Literal["auto", "half-sampling", "swap"] = "auto",
    n_resamples: int = 999,
    confidence: float = 0.95,
    alternative: Literal["two-sided", "less", "greater"] = "two-sided",
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    pos_label: Any = None,
    random_state: int | np.random.Generator | np.random.RandomState | None = None,
) -> PairedComparison:
    r"""Test whether two models differ in a metric, from their predictions for the same samples.

    The two models can be one model before and after calibration. The estimate of a calibration error is
    biased upwards by an amount that depends on the model. A smaller estimate alone, or a bootstrap interval
    of the difference, is therefore no evidence of better calibration.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba_a, y_proba_b : array-like of shape (n,), (n, 1), (n, 2) or (n, K)
        Predicted probabilities of the two models, in [0, 1]; one or two columns are passed to the metric
        as the probability of the positive class, more of them unchanged.
    metric : str or callable
        Name of a function of :mod:`sklearn_calib.metrics` that returns a number, "brier_score" or "log_loss",
        or ``metric(y_true, y_proba) -> float``, smaller is better, such as
        :func:`sklearn.metrics.brier_score_loss`, with parameters fixed by :func:`functools.partial`. Labels
        are passed as 0, ..., K - 1. Subsets of the samples can lack a class: scikit-learn's ``log_loss``
        needs ``labels``.
    method : {"auto", "half-sampling", "swap"}, default="auto"
        "half-sampling" tests that the metric of both models is equal in the population, with an interval.
        "swap" is an exact test of a stronger hypothesis: see Notes. "auto" is "half-sampling", but "swap"
        for fewer than 30 samples.
    n_resamples : int, default=999
        Number of random splits or swaps. With "half-sampling", at least 2 / (1 - ``confidence``) - 1.
    confidence : float, default=0.95
        Confidence level of the interval, in (0, 1).
    alternative : {"two-sided", "less", "greater"}, default="two-sided"
        "less": the metric of model a is smaller.
    sample_weight : array-like of shape (n,) or None, default=None
        Frequencies: whole numbers, k for a sample that was observed k times.
    clusters : array-like of shape (n,) or None, default=None
        Label of the cluster of each sample. Clusters, which are independent, are halved and swapped whole.
    clusters : array-like of shape (n,) or None, default=None
        Label of the cluster of each sample. Clusters, which are independent, are halved and swapped whole.
    pos_label : label, default=None
        The positive class of a binary problem, as in the metrics.
    random_state : int, Generator, RandomState or None, default=None
        Source of the simulations; an integer makes the result reproducible.

    Returns
    -------
    PairedComparison
        Values, their means under perfect calibration, the difference with its interval, and the p-value.

    Raises
    ------
    ValueError
        If an argument is malformed (the message names it), weights are not whole numbers, there are too few
        samples or resamples, or the metric fails or is not finite on a subset of the samples.
    TypeError
        If ``metric`` cannot be called, or a parameter is of the wrong type.

    See Also
    --------
    compare_models : The same for any number of models.
    expected_under_calibration : The null means, with quantiles.

    Notes
    -----
    **Swap.** For each sample the two predictions are exchanged with probability 1/2. The null hypothesis is
    that this does not change the distribution of the data (given the outcome, and independently over
    samples). The p-value is the fraction of swaps, the identity included, with a difference at least as
    extreme. It is valid at any n and for any metric; all swaps are enumerated if there are no more than
    ``n_resamples`` + 1. For averages it is the sign-flip test of the differences of losses, which for large n
    is also valid for equal means. For calibration errors the hypothesis is stronger than equal errors:
    calibrated models of different sharpness are not exchangeable, nor are an overconfident and an
    underconfident model, and the hypothesis of equal errors is then rejected too often.

    **Half-sampling.** Samples are split at random into halves; the metric of the halves is
    :math:`t_1, t_2`, of all samples :math:`t`. If the metric is an average over samples (which is verified on
    the splits) the error of :math:`t` is distributed as :math:`(t_1 - t_2) / 2`, as in McCarthy [1]_.
    Otherwise squares are compared. Consider the metric as a norm of :math:`\mu + Z`, miscalibration plus
    noise: the halves have :math:`\mu + Z + e` and :math:`\mu + Z - e` with :math:`e` distributed as
    :math:`Z`. Then

    .. math:: C = \tfrac{1}{2} (t_1^2 + t_2^2) - t^2, \qquad L = \tfrac{1}{2} (t_1^2 - t_2^2)

    are the bias due to noise and the linear part: for a Euclidean norm :math:`C = \lVert e \rVert^2` and
    :math:`L = 2 (\mu + Z)^\top e`. So :math:`t^2 - \bar C` is unbiased for the squared error in the
    population, at perfect calibration for any norm; no model of the noise is needed. With differences between
    models :math:`\Delta` throughout, simulated errors are :math:`\Delta C - \overline{\Delta C} + \kappa
    \Delta L` with :math:`\kappa^2 = (1 - \operatorname{var} \Delta C / \operatorname{var} \Delta L)_+`, which
    removes from L a part of the variance that :math:`Z` adds to its slope. The p-value is obtained by
    inverting the interval at 0. Squares are converted to the units of the metric by dividing by the sum of
    both corrected errors, or by the noise where that is larger; the interval of two nearly calibrated models
    is therefore one of an attenuated difference. The approximation is best for norms of binned, cutoff or
    smoothed residuals with fixed parameters; its level is measured in ``benchmarks/comparison_level.py``.

    Cost: ``4 n_resamples`` evaluations of the metric on n / 2 samples, or ``2 n_resamples`` on n, and those
    of two null means.

    References
    ----------
    .. [1] P. J. McCarthy (1969). Pseudo-replication: half samples. Review of the International Statistical
       Institute 37.
    .. [2] B. Phipson and G. K. Smyth (2010). Permutation P-values should never be zero. Statistical
       Applications in Genetics and Molecular Biology 9.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import paired_test
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = rng.random(1000) < p
    >>> result = paired_test(y, p, p**2, metric="cutoff_calibration_error", random_state=0)
    >>> result.upper < 0 and result.pvalue < 0.01
    True
    """
    metric = as_metric(metric)
    check_option(alternative, "alternative", ALTERNATIVES)
    confidence = check_fraction(confidence, "confidence")
    n_resamples = check_size(n_resamples, "n_resamples")
    generator = check_generator(random_state)
    rows = check_paired(
        y_true, {"y_proba_a": y_proba_a, "y_proba_b": y_proba_b}, sample_weight, pos_label, clusters
    )
    sides = 2 if alternative == "two-sided" else 1
    method_used = choose_method(method, rows.y.shape[0], n_resamples, confidence, sides)
    if method_used == "swap":
        comparison = swap_test(metric, rows, 0, 1, n_resamples, generator, alternative)
    else:
        halves = HalfSamples.draw(metric, rows, n_resamples, generator)
        comparison = halves_test(halves, 0, 1, confidence, alternative)
    null_means = [rows.null_mean(metric, model, generator) for model in (0, 1)]
    values = [rows.value(metric, model) for model in (0, 1)]
    return assemble(comparison, values, null_means, confidence, alternative, method_used, rows)


@dataclass(frozen=True, eq=False)
class Contrast:
    """The part of a comparison that depends on the method."""

    corrected: float
    lower: float
    upper: float
    pvalue: float
    draws: Array


def assemble(
    contrast: Contrast,
    values: list[float],
    null_means: list[float],
    confidence: float,
    alternative: str,
    method: str,
    rows: PairedSamples,
) -> PairedComparison:
    """Return the result for users."""
    return PairedComparison(
        value_a=values[0],
        value_b=values[1],
        null_mean_a=null_means[0],
        null_mean_b=null_means[1],
        difference=values[0] - values[1],
        corrected_difference=contrast.corrected,
        lower=contrast.lower,
        upper=contrast.upper,
        confidence=confidence,
        pvalue=contrast.pvalue,
        alternative=alternative,
        method=method,
        n_samples=rows.y.shape[0],
        n_clusters=None if rows.clusters is None else int(rows.clusters.max()) + 1,
        null_distribution=contrast.draws,
    )


def choose_method(method: str, n_samples: int, n_resamples: int, confidence: float, sides: int) -> str:
    """Return the method that is used, if there are enough samples and resamples for it."""
    check_option(method, "method", METHODS)
    if method == "auto":
        method = "half-sampling" if n_samples >= _FEW_SAMPLES else "swap"
    if method == "half-sampling":
        if n_samples < _FEWEST_SAMPLES:
            raise ValueError(
                f"method='half-sampling' needs at least {_FEWEST_SAMPLES} samples, got {n_samples}. "
                "Use method='swap'."
            )
        tail = (1.0 - confidence) / sides
        if tail_rank(n_resamples, tail) < 1:
            raise ValueError(
                f"n_resamples={n_resamples} is too few for confidence={confidence:g}. "
                f"Use n_resamples >= {least_resamples(tail)}."
            )
    return method


def halves_test(halves: HalfSamples, a: int, b: int, confidence: float, alternative: str) -> Contrast:
    """Return interval and p-value of the difference of two models by their values on half-samples."""
    corrected, draws = halves.contrast(a, b)
    ordered = np.sort(draws)
    two_sided = alternative == "two-sided"
    rank = tail_rank(draws.shape[0], (1.0 - confidence) / (2 if two_sided else 1))
    low = corrected - float(ordered[-rank]) if alternative != "less" else -np.inf
    high = corrected - float(ordered[rank - 1]) if alternative != "greater" else np.inf
    # where a metric has few values, simulated values equal the estimate up to rounding
    tolerance = 1e-10 * max(abs(corrected), float(np.abs(draws).max()))
    return Contrast(corrected, low, high, tail_pvalue(corrected, draws, alternative, tolerance), draws)


def tail_pvalue(observed: float, draws: Array, alternative: str, tolerance: float = 0.0) -> float:
    """Return the Monte Carlo p-value; two-sided, twice the smaller tail."""
    upper = monte_carlo_pvalue(observed, draws, tolerance)
    lower = monte_carlo_pvalue(-observed, -draws, tolerance)
    if alternative == "greater":
        return upper
    return lower if alternative == "less" else min(1.0, 2.0 * min(upper, lower))


def swap_test(
    metric: Metric,
    rows: PairedSamples,
    a: int,
    b: int,
    n_resamples: int,
    generator: np.random.Generator,
    alternative: str,
) -> Contrast:
    """Return the p-value of the swap test; it has no interval."""
    values = [rows.value(metric, model) for model in (a, b)]
    observed = values[0] - values[1]
    draws, exact, accuracy = swapped_differences(metric, rows, a, b, n_resamples, generator)
    # sums in another order differ by rounding, and values of the kernel by its accuracy
    tolerance = 1e-10 * max(abs(values[0]), abs(values[1]), float(np.abs(draws).max())) + 4.0 * accuracy
    if alternative == "two-sided":
        # the distribution of the swaps is symmetric about zero
        observed, seen, side = abs(observed), np.abs(draws), "greater"
    else:
        seen, side = draws, alternative
    # of all swaps the first is the identity, counted once
    pvalue = tail_pvalue(observed, seen[1:] if exact else seen, side, tolerance)
    return Contrast(np.nan, np.nan, np.nan, pvalue, draws)
