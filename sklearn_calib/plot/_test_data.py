"""What a picture of a test shows, computed before anything is drawn."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, ndtri

from sklearn_calib._core._null import tail_rank
from sklearn_calib.inference import (
    BinomialValue,
    CalibrationTestResult,
    SequentialTestResult,
    SplitClass,
    TestComponent,
)
from sklearn_calib.inference._tails import null_density
from sklearn_calib.plot._walk_path import thinned

__all__ = [
    "EvidencePath",
    "NullCurve",
    "NullHistogram",
    "ScaleEvidence",
    "evidence_path",
    "null_curve",
    "null_histogram",
    "scale_evidence",
]

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
# Where a p-value of 0 is drawn, as a part of the smallest one that is not.
_BEYOND = 1e-3


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
    """Evidence of each part of a test; a critical value, and of what it is one.

    ``at`` places the parts on an axis with the title ``axis``, logarithmic to ``base`` if that is not 0, or
    numbers them if they have ``names``. ``shown`` are standardised statistics, or, ``by_pvalue``, the
    p-values.
    """

    at: Array
    axis: str
    base: int
    names: tuple[str, ...]
    part: str
    shown: Array
    pvalues: Array
    critical: float
    critical_name: str
    by_pvalue: bool


@dataclass(frozen=True, eq=False)
class EvidencePath:
    """Logarithm to base 10 of the e-value after each observation, thinned, and where it passed a level.

    ``reached`` is the number of the observation, or None; ``early`` says that it was before the first one.
    """

    number: Array
    evidence: Array
    critical: float
    reached: int | None
    early: bool


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
    """Return the evidence of each part of a test, or None if the result does not know of parts.

    Where the test compares standardised statistics of scales, these; else, as their mean under the null
    hypothesis need not be 0, the p-values.
    """
    first = result.scales[0] if result.scales else None
    if isinstance(first, BinomialValue):
        at, pvalues = _columns(result.scales, "value", "adjusted_pvalue")
        whole = "for all values at once"
        return _by_pvalue(at, "Predicted probability", 0, (), "value", pvalues, level, whole)
    if isinstance(first, TestComponent | SplitClass):
        numbers = np.arange(float(len(result.scales)))
        (pvalues,) = _columns(result.scales, "pvalue")
        part = "component" if isinstance(first, TestComponent) else "class"
        names = tuple(
            scale.name if part == "component" else f"{scale.label}, half {scale.half + 1}"
            for scale in result.scales
        )
        axis = "" if part == "component" else "Predicted class, and the half that keeps its labels"
        return _by_pvalue(numbers, axis, 0, names, part, pvalues, level, f"of one {part} alone")
    for place, axis, base, part in (
        ("n_bins", "Number of bins", 2, "scale"),
        ("bandwidth", "Bandwidth of the kernel", 10, "bandwidth"),
    ):
        wanted = (place, "statistic", "null_std", "pvalue")
        scales = [scale for scale in result.scales if all(hasattr(scale, name) for name in wanted)]
        scales = sorted((scale for scale in scales if scale.null_std > 0.0), key=attrgetter(place))
        if scales:
            return _of_scales(result, level, _columns(scales, *wanted), (axis, base, part))
    return None


def _columns(scales: Sequence[Any], *names: str) -> Array:
    return np.array([[float(getattr(scale, name)) for scale in scales] for name in names])


def _by_pvalue(
    at: Array,
    axis: str,
    base: int,
    names: tuple[str, ...],
    part: str,
    pvalues: Array,
    critical: float,
    critical_name: str,
) -> ScaleEvidence:
    # what is impossible stands above all that is not
    possible = np.append(pvalues[pvalues > 0.0], critical)
    shown = np.maximum(pvalues, max(_BEYOND * float(possible.min()), _LEAST))
    return ScaleEvidence(at, axis, base, names, part, shown, pvalues, critical, critical_name, True)


def _of_scales(
    result: CalibrationTestResult,
    level: float,
    columns: Array,
    words: tuple[str, int, str],
) -> ScaleEvidence:
    """Return the evidence of scales that have a statistic and its null standard deviation."""
    at, statistic, deviation, pvalues = columns
    axis, base, part = words
    z = statistic / deviation
    drawn = None if result.null_distribution is None else _critical_draw(result, level)
    critical, name = -float(ndtri(level)), f"of one {part} alone, normal law"
    standardised = _close(result.statistic, z.max())
    if standardised and drawn is not None:
        critical, name = drawn, "of the largest, by draws"
    elif drawn is not None and z.shape[0] == 1 and _close(result.statistic, statistic[0]):
        standardised, critical, name = True, drawn / float(deviation[0]), "by draws"
    if standardised:
        return ScaleEvidence(at, axis, base, (), part, z, pvalues, critical, name, False)
    critical, name = level, f"of one {part} alone"
    if drawn is not None and result.tail == "lower" and _close(result.statistic, pvalues.min()):
        critical, name = drawn, "of the smallest, by draws"
    return _by_pvalue(at, axis, base, (), part, pvalues, critical, name)


def evidence_path(result: SequentialTestResult, level: float) -> EvidencePath:
    """Return the evidence of a sequential test against the number of observations."""
    path = result.log_e_path / math.log(10.0)
    number = result.n_before + np.arange(1.0, path.shape[0] + 1.0)
    early = result.max_log_e_before >= -math.log(level)
    reached = None if early else result.rejected_at(level)
    kept = thinned((number - number[0]) / max(1.0, number[-1] - number[0]), path)
    return EvidencePath(number[kept], path[kept], -math.log10(level), reached, early)


def _close(a: float, b: float) -> bool:
    return bool(np.isclose(a, b, rtol=1e-6, atol=1e-9))


def _critical_draw(result: CalibrationTestResult, level: float) -> float | None:
    """Return the draw beyond which (1 + #{draws at least as extreme}) / (1 + N) is at most ``level``."""
    draws: Any = result.null_distribution
    rank = tail_rank(draws.shape[0], level)
    if rank < 1 or result.tail == "two-sided":
        return None
    return float(np.sort(draws)[rank - 1 if result.tail == "lower" else -rank])
