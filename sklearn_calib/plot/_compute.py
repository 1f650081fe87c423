"""Compute a reliability curve with the requested bands."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._binning import quantile_bins, uniform_bins
from sklearn_calib._core._grouping import GroupedOutcomes, group_sample, group_starts
from sklearn_calib._core._isotonic import fit_isotonic
from sklearn_calib._typing import Array
from sklearn_calib._validation import (
    BinarySample,
    check_flag,
    check_fraction,
    check_frequency_weights,
    check_generator,
    check_option,
    check_positive,
    check_randomness,
    check_resamples,
    check_size,
)
from sklearn_calib.inference._intervals import Populations, bound_metric, inverted
from sklearn_calib.metrics import (
    calibration_loss,
    expected_calibration_error,
    smooth_ece,
)
from sklearn_calib.metrics._binned import binned_error
from sklearn_calib.metrics._decomposition import decompose
from sklearn_calib.plot._bands import ReliabilityBand, clopper_pearson, consistency_band
from sklearn_calib.plot._belt import fit_belt
from sklearn_calib.plot._curve import ReliabilityCurve, distribution, edge_predictions
from sklearn_calib.plot._monotone_band import monotone_band
from sklearn_calib.plot._simulated import SimulatedOutcomes
from sklearn_calib.plot._smooth_curve import Smoother, smooth_curve, squared_weights

METHODS = ("smooth", "binned", "corp", "belt")
BANDS = ("confidence", "consistency", "simultaneous", "none")
# Level of the second belt.
_INNER_BELT = 0.8
# Maximum number of distinct predictions of simulated samples, and of points of the isotonic band.
_BINS, _POINTS = 4096, 400


@dataclass(frozen=True)
class CurveOptions:
    """Checked parameters of a reliability curve; see ``ReliabilityDisplay.from_predictions``."""

    method: str = "smooth"
    band: str | None = "confidence"
    bandwidth: float | Literal["auto", "smooth_ece"] = "auto"
    n_bins: int = 15
    strategy: Literal["uniform", "quantile"] = "uniform"
    confidence: float = 0.95
    error_interval: bool = False
    scale: str = "probability"
    n_resamples: int = 999
    random_state: Any = 0

    def __post_init__(self) -> None:
        check_option(self.method, "method", (*METHODS, "isotonic"))
        if self.method == "isotonic":
            object.__setattr__(self, "method", "corp")
        if self.band is None:
            object.__setattr__(self, "band", "none")
        check_option(self.band, "band", BANDS)
        check_option(self.strategy, "strategy", ("uniform", "quantile"))
        check_option(self.scale, "scale", ("probability", "logit"))
        check_size(self.n_bins, "n_bins")
        check_fraction(self.confidence, "confidence")
        check_size(self.n_resamples, "n_resamples")
        check_randomness(self.random_state)
        if self.band == "consistency":
            check_resamples(self.n_resamples, self.confidence)
        if isinstance(self.bandwidth, str):
            check_option(self.bandwidth, "bandwidth", ("auto", "smooth_ece"))
        else:
            check_positive(self.bandwidth, "bandwidth")
        if self.method == "belt" and self.band in ("consistency", "simultaneous"):
            raise ValueError(
                f"method='belt' does not support band={self.band!r}: it has its own band. Omit band."
            )
        check_flag(self.error_interval, "error_interval")
        if self.method == "belt" and self.error_interval:
            raise ValueError(
                "error_interval is not available for method='belt', which has a test instead of an error."
            )

    def check_sample(self, sample: BinarySample) -> None:
        """Raise if the curve cannot be computed from a sample that is valid as such."""
        if self.method == "belt" and (sample.p.min() == 0.0 or sample.p.max() == 1.0):
            number = int(((sample.p == 0.0) | (sample.p == 1.0)).sum())
            raise ValueError(
                f"y_proba contains {number} predictions of exactly 0 or 1, whose log-odds are infinite: "
                "method='belt' cannot use them. Clip them first, e.g. np.clip(y_proba, 1e-6, 1 - 1e-6)."
            )
        exact = self.band == "simultaneous" or self.method == "belt"
        if sample.clusters is not None and (exact or (self.method, self.band) == ("corp", "confidence")):
            raise ValueError(
                f"method={self.method!r} with band={self.band!r} assumes independent samples and cannot use "
                "clusters. Pass method='smooth' or 'binned', or band='consistency' or 'none'."
            )
        if sample.w is not None and (exact or (self.method, self.band) == ("corp", "confidence")):
            check_frequency_weights(sample.w)

    def curve(self, sample: BinarySample) -> ReliabilityCurve:
        """Return the curve of a sample."""
        self.check_sample(sample)
        grouped = group_sample(sample)
        if self.method == "belt":
            return self._belt(sample, grouped)
        again: Smoother | NDArray[np.int64] | None = None
        metric: Callable[..., float]
        if self.method == "smooth":
            curve, again = smooth_curve(sample, self.bandwidth, self.confidence, self.scale)
            metric = partial(smooth_ece, scale="logit") if self.scale == "logit" else smooth_ece
        elif self.method == "binned":
            curve, again = binned_curve(
                sample, grouped, self.n_bins, self.strategy, self.confidence, self.scale
            )
            metric = partial(expected_calibration_error, n_bins=self.n_bins, strategy=self.strategy)
        else:
            curve, metric = corp_curve(sample, grouped, self.confidence, self.scale), calibration_loss
        curve = self._with_band(curve, sample, grouped, again)
        if self.error_interval:
            if sample.w is not None:
                check_frequency_weights(sample.w)
            bound = bound_metric(metric, grouped, weighted=sample.w is not None)
            populations = Populations(bound.grouped, 200, np.random.default_rng(0))
            interval = inverted(bound, populations, self.confidence)
            limits = (interval.lower, interval.upper)
            curve = replace(curve, error_interval=limits, error_corrected=interval.corrected)
        return curve

    def _with_band(
        self,
        curve: ReliabilityCurve,
        sample: BinarySample,
        grouped: GroupedOutcomes,
        again: Smoother | NDArray[np.int64] | None,
    ) -> ReliabilityCurve:
        if self.band == "none":
            return replace(curve, bands=())
        if self.band == "simultaneous" or (self.band, self.method) == ("confidence", "corp"):
            return replace(curve, bands=(monotone_band(grouped, self.confidence, str(self.band)),))
        around = self.band == "confidence"
        if around and sample.clusters is None:
            return curve
        simulation = (around, self.confidence, int(self.n_resamples), check_generator(self.random_state))
        if isinstance(again, Smoother):
            band = _smooth_band(curve, again, *simulation)
        elif again is None:
            band = _corp_consistency(sample, grouped, *simulation[1:])
        else:
            band = _binned_band(sample, grouped, again, curve, *simulation)
        return replace(curve, bands=(band,))

    def _belt(self, sample: BinarySample, grouped: GroupedOutcomes) -> ReliabilityCurve:
        belt = fit_belt(grouped)
        x = belt.points()
        levels = sorted({_INNER_BELT, self.confidence}) if self.band != "none" else []
        shown = distribution(sample, self.scale)
        return ReliabilityCurve(
            "belt",
            x,
            belt.curve(x),
            tuple(belt.band(x, level) for level in levels),
            shown.density_at(x),
            shown,
            "p-value",
            belt.pvalue,
            self.confidence,
            sample.total,
            scale=self.scale,
            belt=belt,
        )


def binned_curve(
    sample: BinarySample,
    grouped: GroupedOutcomes,
    n_bins: int,
    strategy: Literal["uniform", "quantile"],
    confidence: float,
    scale: str = "probability",
) -> tuple[ReliabilityCurve, NDArray[np.int64]]:
    """Return event frequency against mean prediction in each occupied bin, with exact intervals.

    The second is the bin of each group of ``grouped``. Sampling weights make Kish's effective size the number
    of trials.
    """
    uniform = strategy == "uniform"
    found = uniform_bins(grouped.prob, n_bins) if uniform else quantile_bins(grouped.weight, n_bins)
    index = np.unique(found, return_inverse=True)[1]
    mass = np.bincount(index, weights=grouped.weight).astype(np.float64)
    predicted = np.bincount(index, weights=grouped.weight * grouped.prob) / mass
    observed = np.bincount(index, weights=grouped.positives) / mass
    size = mass
    if sample.w is not None:
        row = index[np.searchsorted(grouped.prob, sample.p)]
        size = mass**2 / np.bincount(row, weights=squared_weights(sample.w))
    lower, upper = clopper_pearson(observed * size, size, 0.5 * (1.0 - confidence))
    curve = ReliabilityCurve(
        "binned",
        predicted,
        observed,
        (ReliabilityBand("confidence", confidence, predicted, lower, upper, bars=True),),
        mass,
        distribution(sample, scale),
        "ECE",
        binned_error(sample, n_bins, strategy),
        confidence,
        sample.total,
        scale=scale,
        at_edges=edge_predictions(sample) if scale == "logit" else (),
    )
    return curve, index


def corp_curve(
    sample: BinarySample, grouped: GroupedOutcomes, confidence: float, scale: str = "probability"
) -> ReliabilityCurve:
    """Return the isotonic fit, constant within blocks and joined by lines, and the score decomposition."""
    fit = fit_isotonic(grouped)
    several = fit.upper > fit.lower
    keep = np.stack((np.ones_like(several), several), axis=1).ravel()
    predicted = np.stack((fit.lower, fit.upper), axis=1).ravel()[keep]
    observed = np.repeat(fit.value, 2)[keep]
    shown = distribution(sample, scale)
    parts = decompose(grouped, "brier")
    return ReliabilityCurve(
        "corp",
        predicted,
        observed,
        (),
        shown.density_at(predicted),
        shown,
        "MCB",
        parts.miscalibration,
        confidence,
        sample.total,
        scale=scale,
        decomposition=parts,
        at_edges=edge_predictions(sample) if scale == "logit" else (),
    )


def _smooth_band(
    curve: ReliabilityCurve,
    smoother: Smoother,
    around: bool,
    confidence: float,
    n_resamples: int,
    generator: np.random.Generator,
) -> ReliabilityBand:
    """Return the simulated band of a smooth curve at its bandwidth: consistency, or ``around`` the curve."""
    sample = smoother.sample
    grouped = group_sample(sample)
    simulated = SimulatedOutcomes(sample, grouped, _BINS)
    drawn = np.isfinite(curve.observed)
    shown = np.where(drawn, 1.0, np.nan)[:, np.newaxis]
    if around:
        simulated.set_truth(np.interp(simulated.prob, curve.predicted[drawn], curve.observed[drawn]))

    def smoothed(sums: Array) -> Array:
        return np.asarray(shown * smoother.smooth(simulated.prob, sums))

    return consistency_band(
        simulated,
        curve.predicted,
        smoothed,
        confidence,
        n_resamples,
        generator,
        around=curve.observed if around else None,
    )


def _binned_band(
    sample: BinarySample,
    grouped: GroupedOutcomes,
    bin_of: NDArray[np.int64],
    curve: ReliabilityCurve,
    around: bool,
    confidence: float,
    n_resamples: int,
    generator: np.random.Generator,
) -> ReliabilityBand:
    """Return simulated bars at the bins of the groups, whose indices are non-decreasing."""
    simulated = SimulatedOutcomes(sample, grouped, _BINS, bin_of)
    starts = group_starts(simulated.part)
    mass = np.add.reduceat(simulated.weight, starts)
    if around:
        # Jeffreys' estimate: bins without events, or with nothing else, also vary
        estimate = (curve.observed * mass + 0.5) / (mass + 1.0)
        simulated.set_truth(np.repeat(estimate, np.diff(starts, append=simulated.part.shape[0])))

    def frequencies(sums: Array) -> Array:
        return np.asarray(np.add.reduceat(sums, starts, axis=0) / mass[:, np.newaxis])

    return consistency_band(
        simulated,
        curve.predicted,
        frequencies,
        confidence,
        n_resamples,
        generator,
        bars=True,
        around=curve.observed if around else None,
    )


def _corp_consistency(
    sample: BinarySample,
    grouped: GroupedOutcomes,
    confidence: float,
    n_resamples: int,
    generator: np.random.Generator,
) -> ReliabilityBand:
    """Return the consistency band of the isotonic fit."""
    simulated = SimulatedOutcomes(sample, grouped, _BINS)
    n_bins = simulated.prob.shape[0]
    chosen = np.unique(np.rint(np.linspace(0, n_bins - 1, min(_POINTS, n_bins))).astype(np.int64))
    x = simulated.prob[chosen]

    def fitted(sums: Array) -> Array:
        fits = (
            fit_isotonic(GroupedOutcomes(simulated.prob, simulated.weight, positives)) for positives in sums.T
        )
        return np.stack([fit.value[np.searchsorted(fit.upper, x)] for fit in fits], axis=1)

    return consistency_band(simulated, x, fitted, confidence, n_resamples, generator)
