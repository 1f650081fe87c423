"""The reliability curve and its band, without matplotlib."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._core._binning import fixed_bins, quantile_bins, uniform_bins
from sklearn_calib._core._grouping import (
    DISTINCT,
    GroupedOutcomes,
    group_sample,
    group_starts,
    sampled_probability,
    weight_words,
    weighting,
)
from sklearn_calib._core._isotonic import fit_isotonic
from sklearn_calib._frame import FrameMixin
from sklearn_calib._html import number_text, result_html
from sklearn_calib._typing import Array
from sklearn_calib._validation import (
    BinarySample,
    check_fraction,
    check_generator,
    check_number_or_edges,
    check_option,
)
from sklearn_calib.metrics import ScoreDecomposition
from sklearn_calib.metrics._decomposition import decompose
from sklearn_calib.plot._bands import (
    ReliabilityBand,
    clopper_pearson,
    equivalent_trials,
    pointwise_band,
)
from sklearn_calib.plot._monotone_band import monotone_band, squared_weights
from sklearn_calib.plot._simulated import SimulatedOutcomes
from sklearn_calib.plot._smooth_curve import SmoothCurve, UnitAxis, moved, shown_range

# Number of bins of the histogram of the predictions.
_HISTOGRAM = 50
# Maximum number of points of the isotonic band.
_POINTS = 400
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class ReliabilityCurve(FrameMixin):
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
        Weight in each bin, without predictions that are not shown; sampling weights have the mean 1.
    error_name : str
        Short name of the calibration error of this curve.
    error : float
        Its value.
    n_samples : float
        Number of samples.
    scale : {"probability", "logit"}
        Axis on which the diagram is drawn, and on which a smooth curve is smoothed.
    bandwidth : float or None
        Bandwidth of a smooth curve, in log-odds if it is smoothed there.
    decomposition : ScoreDecomposition or None
        Decomposition of the Brier score, for the isotonic curve.
    weights : {"sampling", "frequency", "case-control"} or None
        What the weights were taken to be; "case-control" if they depend on the outcome alone. None without
        weights.
    n_effective : float or None
        Effective number of samples, for sampling weights.
    """

    _columns_in = ("predicted", "observed")

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
    weights: str | None = None
    n_effective: float | None = None

    @property
    def label(self) -> str:
        """The calibration error as text, "smECE = 0.067"; for "isotonic" the parts of the Brier score."""
        decimals = 3 if self.scale == "probability" and self.decomposition is None else 4
        text = f"{self.error_name} = {number_text(self.error, decimals)}"
        if self.decomposition is not None:
            parts = self.decomposition
            text += f", DSC = {number_text(parts.discrimination)}, UNC = {number_text(parts.uncertainty)}"
        return text

    @property
    def _size(self) -> str:
        words = weight_words(self)
        return f"{self.n_samples:g}" + (f"; {words}" if words else "")

    def __str__(self) -> str:
        return f"{self.kind} reliability curve: {self.label} (n = {self._size})"

    def _repr_html_(self) -> str:
        return result_html(f"{self.kind} reliability curve", [("error", self.label), ("n", self._size)])


class BinnedCurve:
    """Event frequency against mean prediction in each occupied bin, effectively of ``size`` samples.

    ``bin_of`` is the bin of each distinct prediction; ``unweighted`` are the samples without class weights.
    """

    error_name = "ECE"
    # points of the curve are the frequencies themselves
    shift, in_log_odds = 0.0, False

    def __init__(
        self,
        sample: BinarySample,
        grouped: GroupedOutcomes,
        unweighted: GroupedOutcomes,
        bins: NDArray[np.int64],
    ) -> None:
        self.sample, self.bin_of = sample, np.unique(bins, return_inverse=True)[1]
        mass = self._sums(grouped.weight)
        self.predicted = self._sums(grouped.weight * grouped.prob) / mass
        self.frequency = self.observed = self._sums(grouped.positives) / mass
        self.error = float((mass * np.abs(self.observed - self.predicted)).sum() / mass.sum())
        # Kish (1965); the number of samples without sampling weights
        number = self._sums(unweighted.weight)
        self.size = number * (number / self._sums(squared_weights(unweighted)))

    def _sums(self, values: Array) -> Array:
        return np.bincount(self.bin_of, weights=values).astype(np.float64)

    def curves(self, outcomes: SimulatedOutcomes, weight: Array, positives: Array) -> tuple[Array, Array]:
        """Return the points of the curves of r simulated samples, and the curves, (points, r)."""
        starts = group_starts(outcomes.part)
        events, mass = (np.add.reduceat(sums, starts, axis=0) for sums in (positives, weight))
        return self.predicted, events / mass

    def spread(self, values: Array, outcomes: SimulatedOutcomes) -> Array:
        """Return values at the points of the curve as values at the predictions of simulated outcomes."""
        return values[outcomes.part]

    @staticmethod
    def limits(frequency: Array, size: Array, confidence: float) -> tuple[Array, Array]:
        """Return exact limits of event probabilities."""
        return clopper_pearson(frequency * size, size, 0.5 * (1.0 - confidence))


class IsotonicCurve:
    """The isotonic fit, constant within blocks and joined by lines, with the decomposition of the score."""

    error_name, bin_of = "MCB", None

    def __init__(self, sample: BinarySample, grouped: GroupedOutcomes) -> None:
        self.sample, fit = sample, fit_isotonic(grouped)
        several = fit.upper > fit.lower
        keep = np.stack((np.ones_like(several), several), axis=1).ravel()
        self.predicted = np.stack((fit.lower, fit.upper), axis=1).ravel()[keep]
        self.observed = np.repeat(fit.value, 2)[keep]
        self.decomposition = decompose(grouped, "brier")
        self.error = self.decomposition.miscalibration

    def curves(self, outcomes: SimulatedOutcomes, weight: Array, positives: Array) -> tuple[Array, Array]:
        """Return at most 400 predictions, and the curves of r simulated samples there, (points, r)."""
        number = outcomes.prob.shape[0]
        x = outcomes.prob[np.unique(np.rint(np.linspace(0, number - 1, min(_POINTS, number))).astype(int))]
        samples = zip(np.broadcast_to(weight, positives.shape).T, positives.T, strict=True)
        fits = (fit_isotonic(GroupedOutcomes(outcomes.prob, *sums)) for sums in samples)
        return x, np.stack([fit.value[np.searchsorted(fit.upper, x)] for fit in fits], axis=1)


def reliability_curve(
    sample: BinarySample,
    curve: str = "smooth",
    n_bins: int | ArrayLike = 15,
    strategy: str = "auto",
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
    check_option(strategy, "strategy", ("auto", "uniform", "quantile"))
    if band is not None:
        check_option(band, "band", ("confidence", "consistency", "simultaneous", "bootstrap"), "None")
    check_option(scale, "scale", ("probability", "logit"))
    bins, confidence = check_number_or_edges(n_bins), check_fraction(confidence, "confidence")
    if sample.sampling:
        # a part of a sample can have another mean weight
        mean = sample.weights.mean()
        class_weights = None if sample.class_weights is None else sample.class_weights / mean
        sample = replace(sample, w=sample.weights / mean, class_weights=class_weights)
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
    grouped, class_weights = group_sample(sample), sample.class_weights
    unweighted = grouped
    if class_weights is not None:
        unweighted = group_sample(replace(sample, w=None, sampling=False, class_weights=None))
    shown = shown or shown_range(grouped.prob, grouped.weight)
    estimate: SmoothCurve | BinnedCurve | IsotonicCurve
    if curve == "smooth":
        estimate = SmoothCurve(sample, scale, shown)
    elif curve == "binned":
        estimate = BinnedCurve(sample, grouped, unweighted, _bins(grouped, bins, strategy, scale, shown))
    else:
        estimate = IsotonicCurve(sample, grouped)
    limits, generator = None, check_generator(random_state)
    if exact:
        limits = monotone_band(unweighted, confidence, str(band))
        if class_weights is not None:
            lower, upper = (_transformed(each, 1.0 / class_weights) for each in (limits.lower, limits.upper))
            limits = replace(limits, lower=lower, upper=upper)
    elif band == "confidence" and not isinstance(estimate, IsotonicCurve):
        limits = _confidence_band(estimate, sample, confidence, n_resamples, generator)
    elif band is not None:
        outcomes = SimulatedOutcomes(group_sample(estimate.sample), DISTINCT, estimate.bin_of)
        draw = outcomes.resample if band == "bootstrap" else outcomes.simulate
        points, curves = _simulated_curves(estimate, outcomes, draw(n_resamples, generator))
        limits = pointwise_band(band, confidence, points, curves, isinstance(estimate, BinnedCurve))
    axis = UnitAxis(sample, scale, shown, 1e-6)
    place = uniform_bins(axis.locate(axis.sample.p), _HISTOGRAM)
    return ReliabilityCurve(
        curve,
        estimate.predicted,
        estimate.observed,
        limits,
        axis.probability(np.linspace(0.0, 1.0, _HISTOGRAM + 1)),
        np.bincount(place, weights=axis.sample.w, minlength=_HISTOGRAM).astype(np.float64),
        estimate.error_name,
        estimate.error,
        sample.total,
        scale,
        estimate.bandwidth if isinstance(estimate, SmoothCurve) else None,
        estimate.decomposition if isinstance(estimate, IsotonicCurve) else None,
        **weighting(sample),
    )


def _bins(
    grouped: GroupedOutcomes, bins: int | Array, strategy: str, scale: str, shown: tuple[float, float]
) -> NDArray[np.int64]:
    """Return the bin of each distinct prediction."""
    if isinstance(bins, int) and (strategy == "quantile" or (strategy == "auto" and scale == "logit")):
        return quantile_bins(grouped.weight, bins)
    if not isinstance(bins, int) or strategy == "uniform" or shown == (0.0, 1.0):
        return fixed_bins(grouped.prob, bins)
    # of equal expected number of the rarer outcome: bins of equal mass would all be near one end
    rare = grouped.prob if shown[0] == 0.0 else 1.0 - grouped.prob
    return quantile_bins(grouped.weight * np.maximum(rare, _TINY), bins)


def _confidence_band(
    curve: SmoothCurve | BinnedCurve,
    sample: BinarySample,
    confidence: float,
    n_resamples: int,
    generator: np.random.Generator,
) -> ReliabilityBand:
    """Return limits of the event frequencies, moved to the curve.

    Class weights transform probabilities: limits are those of the samples without weights, transformed.
    """
    class_weights, size = sample.class_weights, curve.size
    if sample.clusters is not None:
        # with two more events and two more non-events, so that points with only one outcome vary, too
        truth, mean = ((x * size + 2.0) / (size + 4.0) for x in (curve.observed, curve.frequency))
        outcomes = SimulatedOutcomes(group_sample(curve.sample), DISTINCT, curve.bin_of)
        outcomes.set_truth(curve.spread(truth, outcomes))
        curves = _simulated_curves(curve, outcomes, outcomes.simulate(n_resamples, generator))[1]
        frequencies = _transformed(moved(curves.T, -curve.shift, curve.in_log_odds).T, class_weights)
        size = np.minimum(size, equivalent_trials(_transformed(mean, class_weights), frequencies, confidence))
    back = None if class_weights is None else 1.0 / class_weights
    lower, upper = (
        np.clip(moved(_transformed(limit, back), curve.shift, curve.in_log_odds), 0.0, 1.0)
        for limit in curve.limits(_transformed(curve.frequency, class_weights), size, confidence)
    )
    bars = isinstance(curve, BinnedCurve)
    return ReliabilityBand("confidence", confidence, curve.predicted, lower, upper, bars)


def _simulated_curves(
    curve: SmoothCurve | BinnedCurve | IsotonicCurve,
    outcomes: SimulatedOutcomes,
    samples: Iterator[tuple[Array, Array]],
) -> tuple[Array, Array]:
    """Return the points of the curves of simulated samples, and the curves, (points, r)."""
    points, curves = zip(*(curve.curves(outcomes, *sums) for sums in samples), strict=True)
    return points[0], np.concatenate(curves, axis=1)


def _transformed(prob: Array, class_weights: Array | None) -> Array:
    """Return event probabilities as they are among samples with weights by class."""
    if class_weights is None:
        return prob
    return sampled_probability(np.clip(prob, 0.0, 1.0).ravel(), class_weights).reshape(prob.shape)
