"""What the picture of a cumulative residual walk shows, computed before anything is drawn."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from sklearn_calib._core._null import tail_rank
from sklearn_calib.inference import CalibrationTestResult, CutoffTest
from sklearn_calib.inference._tails import brownian_range_sf
from sklearn_calib.metrics import CutoffResult

__all__ = ["drawn_path", "interval_in_words", "strip_height", "thinned", "walk_test"]

Array = NDArray[np.float64]

# The path is cut into so many columns, of each of which its ends and extremes are kept.
_COLUMNS = 1000


def walk_test(
    result: CutoffResult, n_resamples: int, generator: np.random.Generator
) -> CalibrationTestResult:
    """Return the cutoff test of the data behind a result."""
    weight, positives = result.weight, result.positives
    if np.array_equal(weight, np.rint(weight)) and np.array_equal(positives, np.rint(positives)):
        m = weight.shape[0]
        test = CutoffTest(n_resamples=n_resamples, random_state=generator)
        return test.test(
            np.repeat([1, 0], m),
            np.tile(result.probabilities, 2),
            sample_weight=np.concatenate((positives, weight - positives)),
            pos_label=1,
        )
    deviation = _deviation(result)
    statistic = result.value / deviation if deviation > 0 else 0.0
    return CalibrationTestResult(
        test="cutoff test",
        null_hypothesis="P(Y = 1 | p) = p",
        statistic=statistic,
        pvalue=brownian_range_sf(statistic),
        estimate=result.value,
        method="asymptotic, effective sample size",
        n_samples=round(result.n_samples),
        null_law="brownian range" if deviation > 0 else "",
    )


def _deviation(result: CutoffResult) -> float:
    """Return the null standard deviation of the end of the walk."""
    p = result.probabilities
    share = result.weight / result.weight.sum()
    return math.sqrt(float(share @ (p * (1.0 - p))) / result.n_samples)


def strip_height(result: CutoffResult, test: CalibrationTestResult | None, confidence: float) -> float | None:
    """Return the range that calibrated walks keep with the given probability, or None if it is not known."""
    if test is None:
        return None
    if test.null_distribution is not None:
        draws = np.sort(test.null_distribution)
        rank = min(tail_rank(draws.shape[0], 1.0 - confidence), draws.shape[0])
        if rank < 1:
            raise ValueError(
                f"confidence={confidence:g} needs more draws than the {draws.shape[0]} of the test. Use "
                f"n_resamples >= {math.ceil(1.0 / (1.0 - confidence) - 1e-9) - 1}, or show_strip=False."
            )
        return float(draws[-rank]) * _deviation(result)
    if test.null_law != "brownian range":
        return None
    critical = brentq(lambda c: brownian_range_sf(c) - (1.0 - confidence), 0.1, 40.0, xtol=1e-10)
    return float(critical) * _deviation(result)


def drawn_path(result: CutoffResult, x: str) -> tuple[Array, Array, tuple[float, float]]:
    """Return the points of the path that are drawn, and the ends of the interval that attains the error."""
    walk = np.concatenate(([0.0], result.walk))
    if x == "probability":
        at = np.concatenate(([0.0], result.probabilities))
        ends = (result.lower, result.upper)
    else:
        at = np.concatenate(([0.0], np.cumsum(result.weight)))
        at /= at[-1]
        first = int(np.searchsorted(result.probabilities, result.lower))
        ends = (float(at[first]), float(at[int(np.searchsorted(result.probabilities, result.upper)) + 1]))
    kept = thinned(at, walk)
    at, walk = at[kept], walk[kept]
    if x == "probability" and at[-1] < 1.0:
        at, walk = np.append(at, 1.0), np.append(walk, walk[-1])
    return at, walk, ends


def thinned(x: Array, y: Array) -> NDArray[np.intp]:
    """Return the indices of the first, the last, the lowest and the highest point of each of 1000 columns.

    ``x`` lies in [0, 1], in increasing order. Of no more than 4000 points all are kept.
    """
    n = x.shape[0]
    if n <= 4 * _COLUMNS:
        return np.arange(n)
    column = np.minimum((x * _COLUMNS).astype(np.int64), _COLUMNS - 1)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    order = np.lexsort((y, column))
    stops = np.append(starts[1:], n) - 1
    # a stable sort within each column: its first is the lowest and its last the highest
    return np.unique(np.concatenate((starts, stops, order[starts], order[stops])))


def interval_in_words(result: CutoffResult, test: CalibrationTestResult | None, confidence: float) -> str:
    """Return the interval that attains the error, and how far predictions are off there on average."""
    inside = (result.probabilities >= result.lower) & (result.probabilities <= result.upper)
    share = float(result.weight[inside].sum() / result.weight.sum())
    points = 100.0 * result.value / share
    width = result.upper - result.lower
    digits = 2 if width >= 0.02 else 1 - math.floor(math.log10(width or 0.01))
    where = f"predictions {result.lower:.{digits}f} to {result.upper:.{digits}f}"
    if width == 0:
        where = f"predictions of {result.lower:.3g}"
    shown = f"{points:.0f}" if points >= 9.5 else f"{points:.2g}"
    text = f"{where}: {shown} point{'' if shown == '1' else 's'} too {'low' if result.signed > 0 else 'high'}"
    chance = test is not None and not test.rejects(1.0 - confidence)
    return text + (", may be chance" if chance else "")
