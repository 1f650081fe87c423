"""What a picture of a test shows, computed before anything is drawn."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, ndtri

from sklearn_calib.inference import CalibrationTestResult
from sklearn_calib.inference._tails import null_density

__all__ = ["NullCurve", "NullHistogram", "ScaleEvidence", "null_curve", "null_histogram", "scale_evidence"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# What counts as a tie with the observed statistic, as the tests count.
_TIE = 1e-8
_FEWEST_BINS, _MOST_BINS = 8, 60
# Small values are spread on a logarithmic axis if they span such a factor.
_WIDE = 20.0
_NODES = 801
# Smaller p-values are drawn here.
_LEAST = 1e-250


@dataclass(frozen=True, eq=False)
class NullHistogram:
    """Counts of the drawn statistics; no bin holds both draws as extreme as observed and others.

    ``extreme`` marks the bins of the former. ``log`` asks for a logarithmic axis.
    """

    edges: Array
    counts: NDArray[np.int64]
    extreme: Mask
    log: bool


@dataclass(frozen=True, eq=False)
class NullCurve:
    """Density of the null law at ``x``; ``extreme`` marks where ``x`` is as extreme as observed.

    ``top`` is the largest density worth showing, where the law has a pole.
    """

    x: Array
    density: Array
    extreme: Mask
    top: float


@dataclass(frozen=True, eq=False)
class ScaleEvidence:
    """Evidence of each scale, by number of bins; a critical value, and of what it is one.

    ``shown`` are standardised statistics, or, ``by_pvalue``, the p-values.
    """

    n_bins: Array
    shown: Array
    pvalues: Array
    critical: float
    critical_name: str
    by_pvalue: bool


def null_histogram(draws: Array, observed: float, tail: str) -> NullHistogram:
    """Return a histogram of draws with an edge just before the observed statistic, seen from the others.

    The width follows Freedman and Diaconis, 2 IQR n^(-1/3), within bounds.
    """
    slack = _TIE * (abs(observed) + float(draws.std()))
    log = tail == "lower" and min(observed, draws.min()) > 0.0 and draws.max() > _WIDE * draws.min()
    if tail == "upper":
        cuts = np.array([observed - slack])
    elif tail == "lower":
        cuts = np.array([observed + slack])
    else:
        cuts = np.array([-1.0, 1.0]) * max(abs(observed) - slack, 0.0)
    values = draws
    if log:
        values, cuts = np.log(draws), np.log(cuts)
    edges = _edges(values, cuts)
    counts, _ = np.histogram(values, edges)
    drawn = np.flatnonzero(counts)
    first, last = int(drawn[0]), int(drawn[-1]) + 1
    edges, counts = edges[first : last + 1], counts[first:last]
    extreme = edges[:-1] >= cuts[-1]
    if tail == "lower":
        extreme = ~extreme
    elif tail == "two-sided":
        extreme |= edges[1:] <= cuts[0]
    return NullHistogram(np.exp(edges) if log else edges, counts, extreme, log)


def _edges(values: Array, cuts: Array) -> Array:
    """Return edges over the range of the values and beyond, with the cuts among them."""
    low, high = float(values.min()), float(values.max())
    spread = high - low
    lower, upper = np.quantile(values, (0.25, 0.75))
    width = float(np.clip(2.0 * (upper - lower) * values.shape[0] ** (-1 / 3), spread / _MOST_BINS, None))
    width = min(width, spread / _FEWEST_BINS)
    if spread <= 1e-12 * max(abs(low), abs(high)):
        width = 0.1 * max(abs(low), abs(high)) or 1.0
    below = np.arange(max(np.ceil((cuts[0] - low) / width), 0.0) + 1.0, 0.0, -1.0)
    above = np.arange(1.0, max(np.ceil((high - cuts[-1]) / width), 0.0) + 2.0)
    between = cuts
    if cuts[-1] > cuts[0]:
        # nothing is drawn outside the values, so that few edges are needed there
        parts = int(np.clip(np.rint((cuts[-1] - cuts[0]) / width), 1, 8 * _MOST_BINS))
        between = np.linspace(cuts[0], cuts[-1], parts + 1)
    return np.unique(np.concatenate((cuts[0] - width * below, between, cuts[-1] + width * above)))


def null_curve(law: str, observed: float, tail: str) -> NullCurve:
    """Return the density of a law where it has mass, and as far as the observed statistic."""
    reach = abs(observed)
    if law == "normal":
        high = max(4.0, 1.1 * reach)
        low = -high
    elif law == "brownian range":
        low, high = 0.0, max(4.5, 1.1 * reach)
    else:
        high = max(float(chdtri(_degrees(law), 1e-3)), 1.1 * reach)
        low = 1e-6 * high
    x = np.union1d(np.linspace(low, high, _NODES), [-reach, reach] if law == "normal" else max(observed, low))
    if tail == "upper":
        extreme = x >= observed
    elif tail == "lower":
        extreme = x <= observed
    else:
        extreme = np.abs(x) >= reach
    density = null_density(law, x)
    top = float(density.max())
    if law == "chi2(1)":
        top = 2.0 * float(null_density(law, chdtri(1.0, np.array([0.5])))[0])
    return NullCurve(x, density, extreme, top)


def _degrees(law: str) -> int:
    null_density(law, np.ones(1))  # names the law if it is unknown
    return int(law.removeprefix("chi2(").removesuffix(")"))


def scale_evidence(result: CalibrationTestResult, level: float) -> ScaleEvidence | None:
    """Return the evidence of each scale, or None if the result has no scales with bins and deviations.

    Where the test compares standardised statistics, these; else, as their mean under the null hypothesis need
    not be 0, the p-values.
    """
    wanted = ("n_bins", "statistic", "null_std", "pvalue")
    scales = [scale for scale in result.scales if all(hasattr(scale, name) for name in wanted)]
    scales = sorted((scale for scale in scales if scale.null_std > 0.0), key=lambda scale: scale.n_bins)
    if not scales:
        return None
    n_bins, statistic, deviation, pvalues = np.array(
        [[float(getattr(scale, name)) for name in wanted] for scale in scales]
    ).T
    z = statistic / deviation
    drawn = None if result.null_distribution is None else _critical_draw(result, level)
    if _close(result.statistic, z.max()):
        if drawn is None:
            return ScaleEvidence(
                n_bins, z, pvalues, -float(ndtri(level)), "of one scale alone, normal law", False
            )
        return ScaleEvidence(n_bins, z, pvalues, drawn, "of the largest, by draws", False)
    if drawn is not None and z.shape[0] == 1 and _close(result.statistic, statistic[0]):
        return ScaleEvidence(n_bins, z, pvalues, drawn / float(deviation[0]), "by draws", False)
    shown = np.maximum(pvalues, _LEAST)
    if drawn is not None and result.tail == "lower" and _close(result.statistic, pvalues.min()):
        return ScaleEvidence(n_bins, shown, pvalues, drawn, "of the smallest, by draws", True)
    return ScaleEvidence(n_bins, shown, pvalues, level, "of one scale alone", True)


def _close(a: float, b: float) -> bool:
    return bool(np.isclose(a, b, rtol=1e-6, atol=1e-9))


def _critical_draw(result: CalibrationTestResult, level: float) -> float | None:
    """Return the draw beyond which (1 + #{draws at least as extreme}) / (1 + N) is at most ``level``."""
    draws: Any = result.null_distribution
    rank = int(np.floor(level * (draws.shape[0] + 1.0) + 1e-9))
    if rank < 1 or result.tail == "two-sided":
        return None
    return float(np.sort(draws)[rank - 1 if result.tail == "lower" else -rank])
