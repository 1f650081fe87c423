"""The reliability curve and its band, without matplotlib."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._binning import quantile_bins, uniform_bins
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
    check_option,
    check_size,
)
from sklearn_calib.metrics import ScoreDecomposition
from sklearn_calib.metrics._decomposition import decompose
from sklearn_calib.plot._bands import (
    ReliabilityBand,
    clopper_pearson,
    equivalent_trials,
    pointwise_band,
    wilson_interval,
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


# What simulated outcomes, and event probabilities at the points of the curve, if outcomes are not simulated
# from the predictions, give: the points of a band, and the map from weights, and weights of positives, to
# curves there.
_Redraw = Callable[[SimulatedOutcomes, Array | None], tuple[Array, Callable[[Array, Array], Array]]]


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
    #: Event frequencies of windows or bins, effective numbers of samples, and limits of such frequencies.
    frequency: Array | None = None
    size: Array | None = None
    #: What is added to frequencies, or to their log-odds, in the curve.
    shift: Any = 0.0
    in_log_odds: bool = False
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
    if sample.sampling:
        # a part of a sample can have another mean weight
        mean = sample.weights.mean()
        rates = None if sample.class_weights is None else sample.class_weights / mean
        sample = replace(sample, w=sample.weights / mean, class_weights=rates)
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
    grouped, rates = group_sample(sample), sample.class_weights
    # weights by class transform probabilities: limits are those of the unweighted samples, transformed
    drawn = replace(sample, w=None, sampling=False, class_weights=None) if rates is not None else sample
    shown = shown or shown_range(grouped.prob, grouped.weight)
    if curve == "smooth":
        made = _smooth(sample, scale, shown)
    elif curve == "binned":
        if scale == "logit":
            bins = quantile_bins(grouped.weight, n_bins)
        elif shown == (0.0, 1.0):
            bins = uniform_bins(grouped.prob, n_bins)
        else:
            # of equal expected number of the rarer outcome: bins of equal mass would all be near one end
            rare = grouped.prob if shown[0] == 0.0 else 1.0 - grouped.prob
            bins = quantile_bins(grouped.weight * np.maximum(rare, _TINY), n_bins)
        made = _binned(sample, grouped, group_sample(drawn), bins)
    else:
        made = _isotonic(sample, grouped)
    found = None
    if exact:
        found = monotone_band(group_sample(drawn), confidence, str(band))
    elif band is not None:
        generator, bars = check_generator(random_state), curve == "binned"

        def simulate(truth: Array | None) -> tuple[Array, Array]:
            simulated = SimulatedOutcomes(group_sample(made.sample), DISTINCT, made.part_of)
            x, curve_of = made.redraw(simulated, truth)
            draw = simulated.resample if band == "bootstrap" else simulated.simulate
            return x, np.concatenate([curve_of(*sums) for sums in draw(n_resamples, generator)], axis=1)

        frequency, size = made.frequency, made.size
        if band == "confidence" and frequency is not None and size is not None and made.limits is not None:
            shift, in_log_odds = made.shift, made.in_log_odds
            if sample.clusters is not None:
                # two events and two non-events more: points without either vary, too
                truth, mean = ((x * size + 2.0) / (size + 4.0) for x in (made.observed, frequency))
                curves = moved(simulate(truth)[1].T, -shift, in_log_odds).T
                curves = _transformed(curves, rates)
                size = np.minimum(size, equivalent_trials(_transformed(mean, rates), curves, confidence))
            back = None if rates is None else 1.0 / rates
            lower, upper = (
                np.clip(moved(_transformed(limit, back), shift, in_log_odds), 0.0, 1.0)
                for limit in made.limits(_transformed(frequency, rates), size, confidence)
            )
            found = ReliabilityBand(band, confidence, made.predicted, lower, upper, bars=bars)
        else:
            found = pointwise_band(band, confidence, *simulate(None), bars)
    if rates is not None and found is not None and exact:
        lower, upper = (_transformed(limit, 1.0 / rates) for limit in (found.lower, found.upper))
        found = replace(found, lower=lower, upper=upper)
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
        **weighting(sample),
    )


def _transformed(prob: Array, class_weights: Array | None) -> Array:
    """Return event probabilities as they are among samples with weights by class."""
    if class_weights is None:
        return prob
    return sampled_probability(np.clip(prob, 0.0, 1.0).ravel(), class_weights).reshape(prob.shape)


def _smooth(sample: BinarySample, scale: str, shown: tuple[float, float]) -> _Estimate:
    curve = SmoothCurve(sample, scale, shown)

    def redraw(
        simulated: SimulatedOutcomes, truth: Array | None
    ) -> tuple[Array, Callable[[Array, Array], Array]]:
        if truth is not None:
            drawn = np.isfinite(truth)
            simulated.set_truth(np.interp(simulated.prob, curve.predicted[drawn], truth[drawn]))
        return curve.predicted, lambda weight, sums: curve.smooth(simulated.prob, weight, sums)

    name = "smECE" if scale == "probability" else "logit smECE"
    return _Estimate(
        curve.predicted,
        curve.observed,
        name,
        curve.error,
        curve.sample,
        redraw,
        frequency=curve.frequency,
        size=curve.local_size,
        shift=curve.shift,
        in_log_odds=curve.in_log_odds,
        limits=wilson_interval,
        bandwidth=curve.bandwidth,
    )


def _binned(
    sample: BinarySample,
    grouped: GroupedOutcomes,
    trials: GroupedOutcomes,
    bins: NDArray[np.int64],
) -> _Estimate:
    """Return event frequency against mean prediction in each occupied bin, with exact intervals.

    Their numbers of trials are those of the samples ``trials``.
    """
    index = np.unique(bins, return_inverse=True)[1]
    mass = np.bincount(index, weights=grouped.weight).astype(np.float64)
    predicted = np.bincount(index, weights=grouped.weight * grouped.prob) / mass
    observed = np.bincount(index, weights=grouped.positives) / mass
    # Kish (1965); the number of samples without sampling weights
    number, squares = (np.bincount(index, weights=part) for part in (trials.weight, squared_weights(trials)))
    size = number * (number / squares)

    def redraw(
        simulated: SimulatedOutcomes, truth: Array | None
    ) -> tuple[Array, Callable[[Array, Array], Array]]:
        starts = group_starts(simulated.part)
        if truth is not None:
            simulated.set_truth(np.repeat(truth, np.diff(starts, append=simulated.part.shape[0])))
        return predicted, lambda *sums: np.divide(*(np.add.reduceat(x, starts, axis=0) for x in sums[::-1]))

    return _Estimate(
        predicted,
        observed,
        "ECE",
        float((mass * np.abs(observed - predicted)).sum() / mass.sum()),
        sample,
        redraw,
        part_of=index,
        frequency=observed,
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

    def redraw(
        simulated: SimulatedOutcomes, truth: Array | None
    ) -> tuple[Array, Callable[[Array, Array], Array]]:
        number = simulated.prob.shape[0]
        x = simulated.prob[np.unique(np.rint(np.linspace(0, number - 1, min(_POINTS, number))).astype(int))]

        def fitted(weight: Array, sums: Array) -> Array:
            pairs = zip(np.broadcast_to(weight, sums.shape).T, sums.T, strict=True)
            fits = (fit_isotonic(GroupedOutcomes(simulated.prob, *pair)) for pair in pairs)
            return np.stack([one.value[np.searchsorted(one.upper, x)] for one in fits], axis=1)

        return x, fitted

    parts = decompose(grouped, "brier")
    return _Estimate(predicted, observed, "MCB", parts.miscalibration, sample, redraw, decomposition=parts)
