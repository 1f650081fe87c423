"""The reliability curve and its band, without matplotlib."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._binning import quantile_bins, uniform_bins
from sklearn_calib._core._grouping import GroupedOutcomes, group_sample, group_starts
from sklearn_calib._core._isotonic import fit_isotonic
from sklearn_calib._html import number_text, result_html
from sklearn_calib._typing import Array
from sklearn_calib._validation import (
    BinarySample,
    check_fraction,
    check_frequency_weights,
    check_generator,
    check_option,
    check_size,
)
from sklearn_calib.metrics import ScoreDecomposition
from sklearn_calib.metrics._binned import binned_error
from sklearn_calib.metrics._decomposition import decompose
from sklearn_calib.plot._bands import (
    ReliabilityBand,
    clopper_pearson,
    effective_size,
    pointwise_band,
    wilson_interval,
)
from sklearn_calib.plot._monotone_band import monotone_band
from sklearn_calib.plot._simulated import SimulatedOutcomes
from sklearn_calib.plot._smooth_curve import SmoothCurve, UnitAxis, shown_range, squared_weights

# Number of bins of the histogram of the predictions.
_HISTOGRAM = 50
# Maximum number of distinct predictions of simulated samples, and of points of the isotonic band.
_BINS, _POINTS = 4096, 400


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Observed frequency against predicted probability, with its uncertainty.

    Attributes
    ----------
    kind : {"smooth", "binned", "isotonic"}
        How the curve is estimated.
    predicted : ndarray of shape (m,)
        Predicted probabilities, non-decreasing.
    observed : ndarray of shape (m,)
        Event frequency at each prediction; NaN where there are too few samples to estimate it.
    band : ReliabilityBand or None
        Band of the curve.
    edges : ndarray of shape (b + 1,)
        Edges of the bins of a histogram of the predictions, equally spaced on the axis of the diagram. They
        span the range that it shows.
    counts : ndarray of shape (b,)
        Weight in each bin, without predictions that are not shown.
    error_name : str
        Short name of the calibration error of this curve.
    error : float
        Its value.
    n_samples : float
        Total weight.
    scale : {"probability", "logit"}
        Axis on which the diagram is drawn, and on which a smooth curve is smoothed.
    bandwidth : float or None
        Bandwidth of a smooth curve.
    decomposition : ScoreDecomposition or None
        Decomposition of the Brier score, for the isotonic curve.
    """

    kind: str
    predicted: Array = field(repr=False)
    observed: Array = field(repr=False)
    band: ReliabilityBand | None
    edges: Array = field(repr=False)
    counts: Array = field(repr=False)
    error_name: str
    error: float
    n_samples: float
    scale: str = "probability"
    bandwidth: float | None = None
    decomposition: ScoreDecomposition | None = None

    @property
    def label(self) -> str:
        """The calibration error as text, "smECE = 0.067"; for "isotonic" the parts of the Brier score."""
        decimals = 3 if self.scale == "probability" and self.decomposition is None else 4
        text = f"{self.error_name} = {number_text(self.error, decimals)}"
        if self.decomposition is not None:
            parts = self.decomposition
            text += f", DSC = {number_text(parts.discrimination)}, UNC = {number_text(parts.uncertainty)}"
        return text

    def __str__(self) -> str:
        return f"{self.kind} reliability curve: {self.label} (n = {self.n_samples:g})"

    def _repr_html_(self) -> str:
        rows = [("error", self.label), ("n", f"{self.n_samples:g}")]
        return result_html(f"{self.kind} reliability curve", rows)


# What simulated outcomes, and event probabilities at the points of the curve, if outcomes are not simulated
# from the predictions, give: the points of a band, and the map from weights of positives to curves there, for
# a smooth curve also from resampled weights of all samples.
_Redraw = Callable[[SimulatedOutcomes, Array | None], tuple[Array, Callable[..., Array]]]


@dataclass(frozen=True, eq=False)
class _Estimate:
    """An estimated curve, with what its bands need."""

    predicted: Array
    observed: Array
    error_name: str
    error: float
    #: The samples from which outcomes are simulated, and the parts that no simulated bin spans.
    sample: BinarySample
    redraw: _Redraw
    part_of: NDArray[np.int64] | None = None
    #: Effective numbers of samples of the points, and confidence limits of frequencies in so many samples.
    size: Array | None = None
    limits: Callable[[Array, Array, float], tuple[Array, Array]] | None = None
    bandwidth: float | None = None
    decomposition: ScoreDecomposition | None = None


def reliability_curve(
    sample: BinarySample,
    curve: str = "smooth",
    n_bins: int = 15,
    band: str | None = "confidence",
    confidence: float = 0.95,
    scale: str = "probability",
    n_resamples: int = 999,
    random_state: int = 0,
    shown: tuple[float, float] | None = None,
) -> ReliabilityCurve:
    """Check the options of ``ReliabilityDisplay.from_predictions`` and return the curve of a sample.

    ``shown`` is the range of a diagram on the scale of probabilities, by default that of the sample.
    """
    check_option(curve, "curve", ("smooth", "binned", "isotonic"))
    if band is not None:
        check_option(band, "band", ("confidence", "consistency", "simultaneous", "bootstrap"), "None")
    check_option(scale, "scale", ("probability", "logit"))
    n_bins, confidence = check_size(n_bins, "n_bins"), check_fraction(confidence, "confidence")
    exact = band == "simultaneous" or (curve, band) == ("isotonic", "confidence")
    if exact and sample.clusters is not None:
        raise ValueError(
            f"curve={curve!r} with band={band!r} assumes independent samples and cannot use clusters. Pass "
            "curve='smooth' or 'binned' with band='confidence', or band='consistency' or None."
        )
    if band == "bootstrap" and curve != "smooth":
        raise ValueError(
            f"band='bootstrap' is for curve='smooth', got curve={curve!r}. Pass band='confidence', which is "
            "exact for this curve."
        )
    if (exact or band == "bootstrap") and sample.w is not None:
        check_frequency_weights(sample.w)
    grouped = group_sample(sample)
    shown = shown or shown_range(grouped.prob, grouped.weight)
    if curve == "smooth":
        made = _smooth(sample, scale, shown)
    elif curve == "binned":
        whole = scale == "probability" and shown == (0.0, 1.0)
        made = _binned(sample, grouped, n_bins, "uniform" if whole else "quantile")
    else:
        made = _isotonic(sample, grouped)
    found = None
    if exact:
        found = monotone_band(grouped, confidence, str(band))
    elif band is not None:
        generator, bars = check_generator(random_state), curve == "binned"

        def simulate(truth: Array | None) -> tuple[Array, Array]:
            simulated = SimulatedOutcomes(made.sample, group_sample(made.sample), _BINS, made.part_of)
            x, curve_of = made.redraw(simulated, truth)
            if band == "bootstrap":
                curves = [curve_of(*sums) for sums in simulated.resample(n_resamples, generator)]
            else:
                curves = [curve_of(sums) for sums in simulated.simulate(n_resamples, generator)]
            return x, np.concatenate(curves, axis=1)

        if band == "confidence" and made.size is not None and made.limits is not None:
            size = made.size
            if sample.clusters is not None:
                # two events and two non-events more: points without either vary, too
                truth = (made.observed * size + 2.0) / (size + 4.0)
                size = np.minimum(size, effective_size(truth, simulate(truth)[1], confidence))
            limits = made.limits(made.observed, size, confidence)
            found = ReliabilityBand(band, confidence, made.predicted, *limits, bars=bars)
        else:
            found = pointwise_band(band, confidence, *simulate(None), bars)
    axis = UnitAxis(sample, scale, shown, 1e-6)
    place = uniform_bins(axis.locate(axis.sample.p), _HISTOGRAM)
    return ReliabilityCurve(
        curve,
        made.predicted,
        made.observed,
        found,
        axis.probability(np.linspace(0.0, 1.0, _HISTOGRAM + 1)),
        np.bincount(place, weights=axis.sample.w, minlength=_HISTOGRAM).astype(np.float64),
        made.error_name,
        made.error,
        sample.total,
        scale,
        made.bandwidth,
        made.decomposition,
    )


def _smooth(sample: BinarySample, scale: str, shown: tuple[float, float]) -> _Estimate:
    curve = SmoothCurve(sample, scale, shown)

    def redraw(simulated: SimulatedOutcomes, truth: Array | None) -> tuple[Array, Callable[..., Array]]:
        if truth is not None:
            drawn = np.isfinite(truth)
            simulated.set_truth(np.interp(simulated.prob, curve.predicted[drawn], truth[drawn]))
        return curve.predicted, lambda *sums: curve.smooth(simulated.prob, *sums)

    name = "smECE" if scale == "probability" else "logit smECE"
    return _Estimate(
        curve.predicted,
        curve.observed,
        name,
        curve.error,
        curve.sample,
        redraw,
        size=curve.effective_size,
        limits=wilson_interval,
        bandwidth=curve.bandwidth,
    )


def _binned(
    sample: BinarySample,
    grouped: GroupedOutcomes,
    n_bins: int,
    strategy: Literal["uniform", "quantile"],
) -> _Estimate:
    """Return event frequency against mean prediction in each occupied bin, with exact intervals."""
    uniform = strategy == "uniform"
    found = uniform_bins(grouped.prob, n_bins) if uniform else quantile_bins(grouped.weight, n_bins)
    index = np.unique(found, return_inverse=True)[1]
    mass = np.bincount(index, weights=grouped.weight).astype(np.float64)
    predicted = np.bincount(index, weights=grouped.weight * grouped.prob) / mass
    observed = np.bincount(index, weights=grouped.positives) / mass
    size = mass
    if sample.w is not None:
        # sampling weights make Kish's effective size the number of trials
        row = index[np.searchsorted(grouped.prob, sample.p)]
        size = mass**2 / np.bincount(row, weights=squared_weights(sample.w))

    def redraw(simulated: SimulatedOutcomes, truth: Array | None) -> tuple[Array, Callable[[Array], Array]]:
        starts = group_starts(simulated.part)
        weight = np.add.reduceat(simulated.weight, starts)
        if truth is not None:
            simulated.set_truth(np.repeat(truth, np.diff(starts, append=simulated.part.shape[0])))
        return predicted, lambda sums: np.add.reduceat(sums, starts, axis=0) / weight[:, np.newaxis]

    return _Estimate(
        predicted,
        observed,
        "ECE",
        binned_error(sample, n_bins, strategy),
        sample,
        redraw,
        part_of=index,
        size=size,
        limits=lambda found, n, level: clopper_pearson(found * n, n, 0.5 * (1.0 - level)),
    )


def _isotonic(sample: BinarySample, grouped: GroupedOutcomes) -> _Estimate:
    """Return the isotonic fit, constant within blocks and joined by lines, and the score decomposition."""
    fit = fit_isotonic(grouped)
    several = fit.upper > fit.lower
    keep = np.stack((np.ones_like(several), several), axis=1).ravel()
    predicted = np.stack((fit.lower, fit.upper), axis=1).ravel()[keep]
    observed = np.repeat(fit.value, 2)[keep]

    def redraw(simulated: SimulatedOutcomes, truth: Array | None) -> tuple[Array, Callable[[Array], Array]]:
        number = simulated.prob.shape[0]
        x = simulated.prob[np.unique(np.rint(np.linspace(0, number - 1, min(_POINTS, number))).astype(int))]

        def fitted(sums: Array) -> Array:
            fits = (fit_isotonic(GroupedOutcomes(simulated.prob, simulated.weight, part)) for part in sums.T)
            return np.stack([one.value[np.searchsorted(one.upper, x)] for one in fits], axis=1)

        return x, fitted

    parts = decompose(grouped, "brier")
    return _Estimate(predicted, observed, "MCB", parts.miscalibration, sample, redraw, decomposition=parts)
