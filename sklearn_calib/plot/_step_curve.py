"""Reliability curves from bins, and from isotonic regression."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._binning import quantile_bins, uniform_bins
from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._isotonic import fit_isotonic
from sklearn_calib._validation import BinarySample
from sklearn_calib.metrics import expected_calibration_error, score_decomposition
from sklearn_calib.plot._curve import ReliabilityBand, ReliabilityCurve
from sklearn_calib.plot._distribution import distribution, edge_predictions
from sklearn_calib.plot._monotone_band import clopper_pearson
from sklearn_calib.plot._smooth_curve import squared_weights

__all__ = ["binned_curve", "corp_curve"]

Array = NDArray[np.float64]


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
    found = uniform_bins(grouped.prob, n_bins) if uniform else quantile_bins(grouped, n_bins)
    index = np.unique(found, return_inverse=True)[1]
    mass = np.bincount(index, weights=grouped.weight).astype(np.float64)
    predicted = np.bincount(index, weights=grouped.weight * grouped.prob) / mass
    observed = np.bincount(index, weights=grouped.positives) / mass
    size = mass
    if sample.w is not None:
        row = index[np.searchsorted(grouped.prob, sample.p)]
        size = mass**2 / np.bincount(row, weights=squared_weights(sample.w))
    lower, upper = clopper_pearson(observed * size, size, 0.5 * (1.0 - confidence))
    error = expected_calibration_error(
        sample.y, sample.p, sample_weight=sample.w, pos_label=1, n_bins=n_bins, strategy=strategy
    )
    curve = ReliabilityCurve(
        "binned",
        predicted,
        observed,
        (ReliabilityBand("confidence", confidence, predicted, lower, upper, bars=True),),
        mass,
        distribution(sample, scale),
        "ECE",
        error,
        confidence,
        sample.total,
        scale=scale,
        at_edges=edge_predictions(sample) if scale == "logit" else (),
    )
    return curve, index


def corp_curve(
    sample: BinarySample, grouped: GroupedOutcomes, confidence: float, scale: str = "probability"
) -> ReliabilityCurve:
    """Return the isotonic fit, level within blocks and joined by lines, with the parts of the Brier score."""
    fit = fit_isotonic(grouped)
    several = fit.upper > fit.lower
    keep = np.stack((np.ones_like(several), several), axis=1).ravel()
    predicted = np.stack((fit.lower, fit.upper), axis=1).ravel()[keep]
    observed = np.repeat(fit.value, 2)[keep]
    shown = distribution(sample, scale)
    parts = score_decomposition(sample.y, sample.p, sample_weight=sample.w, pos_label=1)
    return ReliabilityCurve(
        "corp",
        predicted,
        observed,
        (),
        np.interp(predicted, 0.5 * (shown.edges[1:] + shown.edges[:-1]), shown.density),
        shown,
        "MCB",
        parts.miscalibration,
        confidence,
        sample.total,
        scale=scale,
        decomposition=parts,
        at_edges=edge_predictions(sample) if scale == "logit" else (),
    )
