"""How a T-Cal test makes a p-value of the statistics of its scales."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sklearn_calib.inference._tcal_asymptotic import (
    FEWEST_PAIRS,
    SMALLEST_PVALUE,
    any_exceeds,
    chain_correlation,
    relaxed,
    tail_probability,
)
from sklearn_calib.inference._tcal_draws import Draws, combine_draws
from sklearn_calib.inference._tcal_scales import Scales, scale_shares, usable_scales

__all__ = ["DECIDE", "Decision", "Options", "tails_over_shares"]

Array = NDArray[np.float64]

_NOTHING_SHARED = "no information: no two observations of uncertain outcome share a bin"
_CROWDED = (
    "predictions share bins more often than Assumption 3.1 admits, so that the null variance replaces the "
    "bound; use method='monte_carlo'"
)
_TOO_FEW_PAIRS = "too few pairs of observations for the approximation; use method='monte_carlo'"


@dataclass(frozen=True)
class Options:
    """The parameters of a test that its decision depends on; ``adaptive`` tells one scale from several."""

    adaptive: bool
    combine: str
    statistic: str
    resample: str
    tolerance: float
    n_resamples: int
    generator: Callable[[], np.random.Generator]


@dataclass(frozen=True, eq=False)
class Decision:
    """What a method makes of the scales: ``scale`` is the index of the one that decided.

    ``observed`` and ``deviation`` are the statistic of each scale and its null standard deviation.
    """

    statistic: float
    pvalue: float
    scale: int
    scale_pvalues: Array
    observed: Array
    deviation: Array
    method: str
    combine: str
    null_distribution: Array | None = None
    reason: str = ""
    tail: str = "upper"


def _undecided(scales: Scales, options: Options, method: str, reason: str) -> Decision:
    moments = scales.moments
    statistic = 0.0 if options.adaptive else float(moments.statistic[0])
    if scales.n_classes > 2:
        reason += "; reduction='confidence' tests the predicted class alone, KernelTest needs no cells"
    ones, deviation = np.ones_like(moments.variance), np.sqrt(moments.variance)
    return Decision(
        statistic, 1.0, 0, ones, moments.statistic, deviation, method, options.combine, None, reason
    )


def _displacement(scales: Scales, tolerance: float) -> tuple[float, float]:
    """Return mean and variance of what miscalibration up to ``tolerance`` adds to T at most.

    With residuals R = (Y - q) + d, d = q - p, and Q = sum |d|^2 / n <= tolerance^2: the mean of T is at most
    Q; its part that is linear in Y - q has a variance of at most 4 Q lambda / n, where lambda is the largest
    eigenvalue of a covariance of labels, at most 1/4 for one probability and 1/2 for a vector of them.
    """
    mean = tolerance**2
    return mean, mean * (1.0 if scales.n_classes == 2 else 2.0) / scales.n


def _monte_carlo(scales: Scales, options: Options) -> Decision:
    moments = scales.moments
    method = f"{options.n_resamples} {'label' if options.resample == 'labels' else 'sample'} draws"
    usable = usable_scales(moments)
    if usable == 0:
        return _undecided(scales, options, method, _NOTHING_SHARED)
    generator = options.generator()
    draws = scales.draw(
        usable,
        options.n_resamples,
        generator,
        statistic=options.statistic,
        resample=options.resample,
        tolerance=options.tolerance,
    )
    if options.tolerance:
        mean, spread = _displacement(scales, options.tolerance)
        draws = draws.displaced(mean, spread, generator.standard_normal(options.n_resamples))
    combine = options.combine if options.adaptive else "single"
    statistic, pvalue, null, some_pvalues = combine_draws(draws, "max" if combine == "weighted" else combine)
    best = int(draws.observed_z.argmax()) if combine == "max" else _smallest(some_pvalues, draws.observed_z)
    if combine == "bonferroni":
        pvalue = min(1.0, scales.n_bins.shape[0] * statistic)
    elif combine == "weighted":
        smallest, which = weighted_tails(draws, scales, options)
        statistic, best, null = float(smallest[0]), int(which[0]), smallest[1:]
        # equal samples differ by rounding
        pvalue = float((1 + np.count_nonzero(null <= statistic * (1.0 + 1e-9))) / (1 + null.shape[0]))
    scale_pvalues = np.ones_like(moments.variance)
    scale_pvalues[:usable] = some_pvalues
    observed, deviation = moments.statistic.copy(), np.sqrt(moments.variance)
    observed[:usable], deviation[:usable] = draws.observed, draws.deviation
    if combine == "single":
        statistic = float(observed[0])
    return Decision(
        statistic,
        pvalue,
        best,
        scale_pvalues,
        observed,
        deviation,
        method,
        options.combine,
        null,
        tail="lower" if combine in ("weighted", "min-p", "bonferroni") else "upper",
    )


def weighted_tails(draws: Draws, scales: Scales, options: Options) -> tuple[Array, NDArray[np.intp]]:
    """Return the smallest tail probability over share of the level, of the sample and of each draw.

    With it the scale at which it is attained. Tails are those of gamma laws: whatever their accuracy, they
    are the same functions of every sample.
    """
    z = np.vstack((draws.observed_z, draws.drawn_z))
    usable = z.shape[1]
    if options.statistic == "debiased" and options.resample == "labels" and not options.tolerance:
        skewness = scales.moments.third_cumulant[:usable] / scales.moments.variance[:usable] ** 1.5
    else:
        centred = z - z.mean(axis=0)
        skewness = (centred**3).mean(axis=0) / np.maximum((centred**2).mean(axis=0) ** 1.5, 1e-300)
    ratio = tails_over_shares(z, skewness, scales.n_bins.shape[0])
    return ratio.min(axis=1), ratio.argmin(axis=1)


def tails_over_shares(z: Array, skewness: Array, n_scales: int) -> Array:
    """Return the tail probability of each z, of the first of ``n_scales`` scales, over its share."""
    return tail_probability(z, skewness) / scale_shares(n_scales)[: z.shape[-1]]


def _asymptotic(scales: Scales, options: Options) -> Decision:
    moments = scales.moments
    usable = np.flatnonzero((moments.variance > 0.0) & (moments.pairs >= FEWEST_PAIRS))
    if usable.shape[0] == 0:
        return _undecided(scales, options, "asymptotic", _TOO_FEW_PAIRS)
    if options.tolerance:
        variance = scales.null_variance(moments.variance.shape[0], options.tolerance)
        moments = relaxed(moments, variance, *_displacement(scales, options.tolerance))
    everywhere = np.sqrt(moments.variance)
    deviation = everywhere[usable]
    z = moments.statistic[usable] / deviation
    skewness = moments.third_cumulant[usable] / deviation**3
    tails = tail_probability(z, skewness)
    best = int(z.argmax()) if options.combine == "max" else _smallest(tails, z)
    correlation = chain_correlation(moments, usable)
    if not options.adaptive:
        statistic, pvalue = float(scales.moments.statistic[0]), float(tails[0])
    elif options.combine == "weighted":
        shares = scale_shares(scales.n_bins.shape[0])[usable]
        best = int((tails / shares).argmin())
        statistic = float(tails[best] / shares[best])
        pvalue = any_exceeds(np.clip(statistic * shares, SMALLEST_PVALUE, 1.0), correlation)
    elif options.combine == "max":
        statistic = float(z[best])
        pvalue = any_exceeds(tail_probability(np.full_like(z, statistic), skewness), correlation)
    else:
        statistic = float(tails[best])
        if options.combine == "min-p":
            pvalue = any_exceeds(np.full_like(z, statistic), correlation)
        else:
            pvalue = min(1.0, scales.n_bins.shape[0] * statistic)
    scale_pvalues = np.ones_like(moments.variance)
    scale_pvalues[usable] = tails
    return Decision(
        statistic,
        pvalue,
        int(usable[best]),
        scale_pvalues,
        scales.moments.statistic,
        everywhere,
        "asymptotic",
        options.combine,
        tail="lower" if options.adaptive and options.combine != "max" else "upper",
    )


def _theory(scales: Scales, options: Options) -> Decision:
    # Theorem 3.1: reject if T >= sqrt(2) K / sqrt(alpha) min(sqrt(M) / n, 1 / sqrt(M)), M = m^(K - 1) cells,
    # T in vector convention, which for two classes is twice that of one probability
    factor = 1.0 if scales.n_classes == 2 else scales.n_classes
    bound = np.sqrt(2.0) * factor * np.minimum(np.sqrt(scales.n_cells) / scales.n, scales.n_cells**-0.5)
    mean, spread = _displacement(scales, options.tolerance)
    # Chebyshev's inequality with an upper bound on the variance of T, which for M > n cells holds only if few
    # predictions share a cell (Assumption 3.1); else the variance itself is put there.
    variance = scales.moments.variance
    if options.tolerance:
        variance = scales.null_variance(variance.shape[0], options.tolerance)
    crowded = np.sqrt(variance) > bound
    ratio = (scales.moments.statistic - mean) / np.sqrt(np.maximum(bound**2, variance) + spread)
    scale_pvalues = 1.0 / np.maximum(ratio, 1.0) ** 2
    best = int(ratio.argmax())
    statistic = float(ratio[best] if options.adaptive else scales.moments.statistic[0])
    return Decision(
        statistic,
        min(1.0, ratio.shape[0] * float(scale_pvalues[best])),
        best,
        scale_pvalues,
        scales.moments.statistic,
        np.sqrt(scales.moments.variance),
        "theory, " + ("Theorem 3.2" if options.adaptive else "Theorem 3.1"),
        "bonferroni",
        reason=_CROWDED if crowded.any() else "",
    )


def _smallest(pvalues: Array, z: Array) -> int:
    """Return the index of the smallest p-value, among ties that of the largest z."""
    return int(np.lexsort((-z, pvalues))[0])


#: The decision of each method.
DECIDE: dict[str, Callable[[Scales, Options], Decision]] = {
    "monte_carlo": _monte_carlo,
    "asymptotic": _asymptotic,
    "theory": _theory,
}
