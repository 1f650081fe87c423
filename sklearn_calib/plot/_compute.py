"""From a sample to a reliability curve with the bands that are asked for."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
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
from sklearn_calib.metrics import calibration_loss, expected_calibration_error, smooth_ece
from sklearn_calib.plot._bands import binned_consistency, corp_consistency, smooth_consistency
from sklearn_calib.plot._belt import fit_belt
from sklearn_calib.plot._curve import ReliabilityBand, ReliabilityCurve, with_error_interval
from sklearn_calib.plot._distribution import distribution
from sklearn_calib.plot._monotone_band import monotone_band
from sklearn_calib.plot._smooth_curve import Smoother, smooth_curve
from sklearn_calib.plot._step_curve import binned_curve, corp_curve

__all__ = ["BANDS", "METHODS", "CurveOptions"]

METHODS = ("smooth", "binned", "corp", "belt")
BANDS = ("confidence", "consistency", "simultaneous", "none")
# Levels of the belt beside that of ``confidence``.
_INNER_BELT = 0.8


@dataclass(frozen=True)
class CurveOptions:
    """Checked parameters of a reliability curve; see ``ReliabilityDisplay.from_predictions``."""

    method: str = "smooth"
    band: str = "confidence"
    bandwidth: float | Literal["auto", "smooth_ece"] = "auto"
    n_bins: int = 15
    strategy: Literal["uniform", "quantile"] = "uniform"
    confidence: float = 0.95
    error_interval: bool = False
    scale: str = "probability"
    n_resamples: int = 999
    random_state: Any = 0

    def __post_init__(self) -> None:
        check_option(self.method, "method", METHODS)
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
                f"band={self.band!r} is not for method='belt', which is a band by itself. Leave band out."
            )
        check_flag(self.error_interval, "error_interval")
        if self.method == "belt" and self.error_interval:
            raise ValueError(
                "error_interval needs a calibration error, and method='belt' has a test instead."
            )

    def check_sample(self, sample: BinarySample) -> None:
        """Raise if the curve cannot be computed from a sample that is valid as such."""
        if self.method == "belt" and (sample.p.min() == 0.0 or sample.p.max() == 1.0):
            number = int(((sample.p == 0.0) | (sample.p == 1.0)).sum())
            raise ValueError(
                f"y_proba contains {number} predictions of exactly 0 or 1, whose log-odds are infinite: "
                "method='belt' cannot use them. Clip them first, say by np.clip(y_proba, 1e-6, 1 - 1e-6)."
            )
        exact = self.band == "simultaneous" or self.method == "belt"
        if sample.w is not None and (exact or (self.method, self.band) == ("corp", "confidence")):
            check_frequency_weights(sample.w)

    def curve(self, sample: BinarySample) -> ReliabilityCurve:
        """Return the curve of a sample."""
        self.check_sample(sample)
        grouped = group_outcomes(sample.y, sample.p, sample.w)
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
        return with_error_interval(curve, metric, sample) if self.error_interval else curve

    def _with_band(
        self,
        curve: ReliabilityCurve,
        sample: BinarySample,
        grouped: GroupedOutcomes,
        again: Smoother | NDArray[np.int64] | None,
    ) -> ReliabilityCurve:
        band: ReliabilityBand
        if self.band == "none":
            return replace(curve, bands=())
        if self.band == "simultaneous" or (self.band, self.method) == ("confidence", "corp"):
            return replace(curve, bands=(monotone_band(grouped, self.confidence, self.band),))
        if self.band == "confidence":
            return curve
        draws = (self.confidence, int(self.n_resamples), check_generator(self.random_state))
        if isinstance(again, Smoother):
            band = smooth_consistency(curve, again, *draws)
        elif again is None:
            band = corp_consistency(sample, grouped, *draws)
        else:
            band = binned_consistency(sample, grouped, again, curve.predicted, *draws)
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
            np.interp(x, 0.5 * (shown.edges[1:] + shown.edges[:-1]), shown.density),
            shown,
            "p-value",
            belt.pvalue,
            self.confidence,
            sample.total,
            scale=self.scale,
            belt=belt,
        )
