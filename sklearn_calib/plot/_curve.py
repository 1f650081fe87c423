"""The reliability curve and its band, without matplotlib."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib import _validation
from sklearn_calib._core._binning import fixed_bins, quantile_bins, uniform_bins
from sklearn_calib._core._grouping import (
    DISTINCT,
    GroupedOutcomes,
    as_sampled,
    group_sample,
    group_starts,
    sampled_probability,
    weight_words,
    weighting,
)
from sklearn_calib._core._isotonic import fit_isotonic
from sklearn_calib._core._proportion import clopper_pearson
from sklearn_calib._frame import FrameMixin
from sklearn_calib._html import number_text, result_html
from sklearn_calib._typing import Array
from sklearn_calib.metrics import ScoreDecomposition
from sklearn_calib.metrics._decomposition import SCORES, decompose
from sklearn_calib.metrics._smooth import smooth_result
from sklearn_calib.plot._bands import ReliabilityBand, equivalent_trials, pointwise_band
from sklearn_calib.plot._kernel_curve import KernelCurve
from sklearn_calib.plot._monotone_band import monotone_band, squared_weights
from sklearn_calib.plot._simulated import SimulatedOutcomes
from sklearn_calib.plot._smooth_curve import SmoothCurve, UnitAxis, shown_range

# Number of bins of the histogram of the predictions.
_HISTOGRAM = 50
# Maximum number of points of the isotonic band.
_POINTS = 400
_TINY = 1e-12
# Single predictions are shown as points if the fewest that hold _MOST of the samples are at most _FEW, or so
# far apart on average, as a fraction of the axis. A point needs so many samples, if any value has as many.
_MOST, _FEW, _APART, _ENOUGH = 0.9, 6, 1.0 / 15, 5.0


@dataclass(frozen=True, eq=False)
class ReliabilityCurve(FrameMixin):
    """Observed frequency against predicted probability, with its uncertainty.

    Attributes
    ----------
    kind : {"smooth", "points", "kernel", "binned", "isotonic"}
        How the curve is estimated; "points" are those of single predictions, where these take few values.
    predicted : ndarray of shape (m,)
        Predicted probabilities, non-decreasing.
    observed : ndarray of shape (m,)
        Event frequency at each prediction; NaN between those that are not joined.
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
        Axis on which the diagram is drawn.
    n_elsewhere : float
        Weight of predictions in the range shown that have too few samples for a point of their own.
    decomposition : ScoreDecomposition or None
        Decomposition of the Brier score, for the isotonic curve, or of the score of ``sharpness``.
    weights : {"sampling", "frequency", "case-control"} or None
        What the weights were taken to be; "case-control" if they depend on the outcome alone, or nearly so.
        None without weights.
    n_effective : float or None
        Effective number of samples, for sampling weights.
    weight_spread : float or None
        Standard deviation of log weights within the classes, of weights that depend nearly on the outcome
        alone.
    bandwidth : float or None
        Scale of the Gaussian of the kernel curve, in units of probability or log-odds.
    density : ndarray of shape (m,) or None
        Kernel density of the predictions at each of ``predicted``, per unit of that axis.
    gap : ndarray of shape (m,) or None
        Score that is expected at each prediction after calibration, with ``sharpness``.
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
    n_elsewhere: float = 0.0
    decomposition: ScoreDecomposition | None = None
    weights: str | None = None
    n_effective: float | None = None
    weight_spread: float | None = None
    bandwidth: float | None = None
    density: Array | None = field(default=None, repr=False)
    gap: Array | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        """The calibration error as text, "smECE = 0.067", with the parts of a score that was decomposed."""
        decimals = 3 if self.scale == "probability" and self.kind != "isotonic" else 4
        text = f"{self.error_name} = {number_text(self.error, decimals)}"
        parts = self.decomposition
        if parts is not None and self.kind == "kernel":
            text += f", {SCORES[parts.score_name]} {number_text(parts.score)}, calibration error "
            text += number_text(parts.miscalibration)
        elif parts is not None:
            text += f", DSC = {number_text(parts.discrimination)}, UNC = {number_text(parts.uncertainty)}"
        return text

    @property
    def _title(self) -> str:
        return "reliability points" if self.kind == "points" else f"{self.kind} reliability curve"

    @property
    def _size(self) -> str:
        words = weight_words(self)
        return f"{self.n_samples:g}" + (f"; {words}" if words else "")

    def __str__(self) -> str:
        return f"{self._title}: {self.label} (n = {self._size})"

    def _repr_html_(self) -> str:
        return result_html(self._title, [("error", self.label), ("n", self._size)])


class BinnedCurve:
    """Event frequency against mean prediction in each occupied bin, effectively of ``size`` samples.

    ``bin_of`` is the bin of each distinct prediction, by default one for each.
    """

    def __init__(self, sample: _validation.BinarySample, bins: NDArray[np.int64] | None = None) -> None:
        self.sample, grouped, unweighted = sample, group_sample(sample), _unweighted(sample)
        single = np.arange(grouped.prob.shape[0])
        self.bin_of = single if bins is None else np.unique(bins, return_inverse=True)[1]
        mass = self._sums(grouped.weight)
        means = self._sums(grouped.weight * grouped.prob) / mass
        self.predicted = grouped.prob if bins is None else means
        self.observed = self._sums(grouped.positives) / mass
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
        # a bootstrap sample can be without samples of a single prediction
        return self.predicted, np.where(
            mass > 0, events / np.maximum(mass, _TINY), self.observed[:, np.newaxis]
        )


class IsotonicCurve:
    """The isotonic fit, constant within blocks and joined by lines, with the decomposition of the score."""

    bin_of = None

    def __init__(self, sample: _validation.BinarySample, grouped: GroupedOutcomes) -> None:
        self.sample, fit = sample, fit_isotonic(grouped)
        several = fit.upper > fit.lower
        keep = np.stack((np.ones_like(several), several), axis=1).ravel()
        self.predicted = np.stack((fit.lower, fit.upper), axis=1).ravel()[keep]
        self.observed = np.repeat(fit.value, 2)[keep]
        self.decomposition = decompose(grouped, "brier")

    def curves(self, outcomes: SimulatedOutcomes, weight: Array, positives: Array) -> tuple[Array, Array]:
        """Return at most 400 predictions, and the curves of r simulated samples there, (points, r)."""
        number = outcomes.prob.shape[0]
        x = outcomes.prob[np.unique(np.rint(np.linspace(0, number - 1, min(_POINTS, number))).astype(int))]
        samples = zip(np.broadcast_to(weight, positives.shape).T, positives.T, strict=True)
        fits = (fit_isotonic(GroupedOutcomes(outcomes.prob, *sums)) for sums in samples)
        return x, np.stack([fit.value[np.searchsorted(fit.upper, x)] for fit in fits], axis=1)


def reliability_curve(
    sample: _validation.BinarySample,
    curve: str = "smooth",
    n_bins: int | ArrayLike = 15,
    strategy: str = "auto",
    band: str | None = "auto",
    confidence: float = 0.95,
    scale: str = "probability",
    n_resamples: int = 999,
    random_state: int = 0,
    shown: tuple[float, float] | None = None,
    sharpness: str | None = None,
    classes: _validation.ClassSample | None = None,
) -> ReliabilityCurve:
    """Check the options of ``ReliabilityDisplay.from_predictions`` and return the curve of a sample.

    ``shown`` is the range of a diagram on the scale of probabilities, by default that of the sample.
    ``classes`` are all probabilities if the sample is about the predicted class.
    """
    _validation.check_option(curve, "curve", ("smooth", "kernel", "binned", "isotonic"))
    _validation.check_option(strategy, "strategy", ("auto", "uniform", "quantile"))
    if band is not None:
        _validation.check_option(
            band, "band", ("auto", "confidence", "consistency", "simultaneous", "bootstrap"), "None"
        )
    if sharpness is not None:
        _validation.check_option(sharpness, "sharpness", ("brier", "log_loss"), "None")
        if curve != "kernel":
            raise ValueError(f"sharpness={sharpness!r} is for curve='kernel', got curve={curve!r}.")
    if band == "auto":
        band = "confidence" if curve != "kernel" else "bootstrap" if sharpness is None else None
    if (curve, band) == ("kernel", "confidence"):
        raise ValueError(
            "band='confidence' is not for curve='kernel', whose bias it would not account for. Pass "
            "band='bootstrap', or curve='smooth'."
        )
    _validation.check_option(scale, "scale", ("probability", "logit"))
    bins, confidence = (
        _validation.check_number_or_edges(n_bins),
        _validation.check_fraction(confidence, "confidence"),
    )
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
    if band == "bootstrap" and curve not in ("smooth", "kernel"):
        raise ValueError(
            f"band='bootstrap' is for curve='smooth' or 'kernel', got curve={curve!r}. Pass "
            "band='confidence', which is exact for this curve."
        )
    grouped = group_sample(sample)
    shown = shown or shown_range(grouped.prob, grouped.weight)
    # what is drawn: the curve, or points, and points beside the curve
    estimate: SmoothCurve | KernelCurve | BinnedCurve | IsotonicCurve
    more: dict[str, Any] = {}
    axis = UnitAxis(sample, grouped, scale, shown)
    beside: BinnedCurve | None = None
    error_name, error, elsewhere = "smECE" if scale == "probability" else "logit smECE", None, 0.0
    if curve == "smooth":
        error, number = smooth_result(sample, "auto", scale).value, _numbers(grouped)
        own = number >= min(_ENOUGH, float(number.max()))
        certain = (number >= _ENOUGH) & ((grouped.prob == 0.0) | (grouped.prob == 1.0))
        if _are_points(grouped, number, shown):
            curve, elsewhere = "points", float(grouped.weight[~own].sum())
            estimate = BinnedCurve(_at(sample, grouped.prob[own]))
        else:
            estimate = SmoothCurve(sample, grouped, shown)
            if certain.any() and scale == "probability":
                beside = BinnedCurve(_at(sample, grouped.prob[certain]))
    elif curve == "kernel":
        length = None if sharpness is None else axis.length
        if sharpness is not None:
            # areas can be compared
            axis = UnitAxis(sample, grouped, scale, (0.0, 1.0))
        estimate = KernelCurve(sample, scale, axis, length)
        error, more = estimate.error, {"bandwidth": estimate.bandwidth, "density": estimate.density}
        if sharpness is not None:
            more["gap"], more["decomposition"] = estimate.sharpness(sharpness, classes)
    elif curve == "binned":
        estimate = BinnedCurve(sample, _bins(grouped, bins, strategy, scale, shown))
        error_name, error = "ECE", estimate.error
    else:
        estimate = IsotonicCurve(sample, grouped)
        error_name, error = "MCB", estimate.decomposition.miscalibration
        more["decomposition"] = estimate.decomposition
    limits, generator = None, _validation.check_generator(random_state)
    if exact:
        limits = monotone_band(_unweighted(sample), confidence, str(band))
        if sample.class_weights is not None:
            back = 1.0 / sample.class_weights
            lower, upper = (_transformed(each, back) for each in (limits.lower, limits.upper))
            limits = replace(limits, lower=lower, upper=upper)
    elif band is not None:
        limits = _band(estimate, band, confidence, n_resamples, generator)
    predicted, observed = estimate.predicted, estimate.observed
    if beside is not None:
        predicted, observed = _beside((predicted, observed), (beside.predicted, beside.observed))
        if limits is not None and not exact:
            bars = _band(beside, str(band), confidence, n_resamples, generator)
            rows = _beside(*((each.predicted, each.lower, each.upper) for each in (limits, bars)))
            limits = ReliabilityBand(limits.kind, confidence, *rows)
    place = uniform_bins(axis.locate(axis.sample.p), _HISTOGRAM)
    return ReliabilityCurve(
        curve,
        predicted,
        observed,
        limits,
        axis.probability(np.linspace(0.0, 1.0, _HISTOGRAM + 1)),
        np.bincount(place, weights=axis.sample.w, minlength=_HISTOGRAM).astype(np.float64),
        error_name,
        error,
        sample.total,
        scale,
        elsewhere,
        **weighting(sample),
        **more,
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


def _unweighted(sample: _validation.BinarySample) -> GroupedOutcomes:
    """Return the outcomes without weights by class."""
    if sample.class_weights is None:
        return group_sample(sample)
    return group_sample(replace(as_sampled(sample), p=sample.p))


def _numbers(grouped: GroupedOutcomes) -> Array:
    """Return the number of samples at each prediction."""
    design = grouped.design
    return grouped.weight if design is None else np.bincount(design.group, design.count).astype(np.float64)


def _at(sample: _validation.BinarySample, prob: Array) -> _validation.BinarySample:
    """Return the samples with one of these predictions."""
    return sample.take(np.isin(sample.p, prob))


def _are_points(grouped: GroupedOutcomes, number: Array, shown: tuple[float, float]) -> bool:
    """Return whether predictions take so few values that a curve between them would be invented."""
    enough = _MOST * (1.0 - _TINY) * grouped.total
    if _FEW * float(grouped.weight.max()) < enough and float(number.max()) < _ENOUGH:
        return False
    order = np.argsort(-grouped.weight, kind="stable")
    main = order[: int(np.searchsorted(np.cumsum(grouped.weight[order]), enough)) + 1]
    apart = float(np.ptp(grouped.prob[main])) >= _APART * (main.shape[0] - 1) * (shown[1] - shown[0])
    return main.shape[0] <= _FEW or (apart and float(number[main].mean()) >= _ENOUGH)


def _beside(curve: tuple[Array, ...], points: tuple[Array, ...]) -> Array:
    """Return the rows of a curve, the first of which are predictions, and of points at 0 and 1 beside it."""
    rows = np.array(curve)
    for point in np.array(points).T[:, :, np.newaxis]:
        end = 0 if point[0] == 0.0 else -1
        between = np.full_like(point, np.nan)
        between[0] = 0.5 * (point[0] + rows[0, end])
        rows = np.concatenate((point, between, rows) if end == 0 else (rows, between, point), axis=1)
    return rows


def _band(
    curve: SmoothCurve | KernelCurve | BinnedCurve | IsotonicCurve,
    kind: str,
    confidence: float,
    n_resamples: int,
    generator: np.random.Generator,
) -> ReliabilityBand:
    """Return the pointwise band of a curve."""
    if isinstance(curve, SmoothCurve):
        return curve.band(kind, confidence, n_resamples, generator)
    if kind == "confidence" and isinstance(curve, BinnedCurve):
        return _exact_intervals(curve, confidence, n_resamples, generator)
    outcomes = SimulatedOutcomes(group_sample(curve.sample), DISTINCT, curve.bin_of)
    draw = outcomes.resample if kind == "bootstrap" else outcomes.simulate
    points, curves = _simulated_curves(curve, outcomes, draw(n_resamples, generator))
    return pointwise_band(kind, confidence, points, curves, isinstance(curve, BinnedCurve))


def _exact_intervals(
    curve: BinnedCurve, confidence: float, n_resamples: int, generator: np.random.Generator
) -> ReliabilityBand:
    """Return limits of the event frequencies.

    Class weights transform probabilities: limits are those of the samples without weights, transformed.
    """
    sample, class_weights, size = curve.sample, curve.sample.class_weights, curve.size
    if sample.clusters is not None:
        # with two more events and two more non-events, so that points with only one outcome vary, too
        truth = (curve.observed * size + 2.0) / (size + 4.0)
        outcomes = SimulatedOutcomes(group_sample(sample), DISTINCT, curve.bin_of)
        outcomes.set_truth(truth[outcomes.part])
        curves = _simulated_curves(curve, outcomes, outcomes.simulate(n_resamples, generator))[1]
        truth, curves = (_transformed(each, class_weights) for each in (truth, curves))
        size = np.minimum(size, equivalent_trials(truth, curves, confidence))
    events = size * _transformed(curve.observed, class_weights)
    back = None if class_weights is None else 1.0 / class_weights
    lower, upper = (
        _transformed(limit, back) for limit in clopper_pearson(events, size, 0.5 * (1.0 - confidence))
    )
    return ReliabilityBand("confidence", confidence, curve.predicted, lower, upper, bars=True)


def _simulated_curves(
    curve: KernelCurve | BinnedCurve | IsotonicCurve,
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
