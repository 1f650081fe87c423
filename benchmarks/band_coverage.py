"""Coverage of the bands of the reliability diagram, at the nominal level of 95%.

    python benchmarks/band_coverage.py

For each calibration curve, predictions and outcomes are simulated repeatedly. First table: how often the band
of the smooth curve contains the smoothed calibration curve at several predictions, and its mean width. Second
table, of bands for non-decreasing event probabilities: the probability that the simultaneous band contains
the whole curve, the average coverage of the pointwise band, and their mean widths.

    --repetitions 400
    --smoke              a few repetitions of small samples, as a quick check
"""

from collections.abc import Callable

import numpy as np
from _options import options_of
from scipy.special import expit, logit

from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._validation import check_binary
from sklearn_calib.plot._curve import reliability_curve
from sklearn_calib.plot._monotone_band import monotone_band

POINTS = np.array([0.01, 0.1, 0.3, 0.5, 0.8, 0.99])
Truth = Callable[[np.ndarray], np.ndarray]
TRUTHS: dict[str, Truth] = {
    "calibrated": lambda p: p,
    "over-confident": lambda p: expit(0.5 * logit(np.clip(p, 1e-12, 1 - 1e-12))),
    "two steps": lambda p: 0.1 + 0.5 * (p > 0.3) + 0.3 * (p > 0.8),
    "constant": lambda p: np.full_like(p, 0.05),
}
SMOOTH = [("calibrated", 200), ("calibrated", 1000), ("over-confident", 1000)]
MONOTONE = [
    *(("calibrated", n) for n in (50, 300, 1000, 10_000)),
    *((name, 1000) for name in ("over-confident", "two steps", "constant")),
]


def weights_at(points: np.ndarray, p: np.ndarray, s: float) -> np.ndarray:
    """Return the reflected Gaussian kernel about each point, one row a point (s well below 1)."""
    images = (p, -p, 2 - p)
    return sum(np.exp(-0.5 * ((points[:, None] - image) / s) ** 2) for image in images)


def simulate(n: int, truth: Truth, repetitions: int) -> np.ndarray:
    """Return coverage and width of the band of the smooth curve at each point."""
    rng = np.random.default_rng(0)
    total, times_drawn = np.zeros((2, POINTS.shape[0])), np.zeros(POINTS.shape[0])
    for _ in range(repetitions):
        p = rng.beta(0.5, 0.5, n)
        y = (rng.random(n) < truth(p)).astype(int)
        curve = reliability_curve(check_binary(y, p))
        kernel = weights_at(POINTS, p, curve.bandwidth)
        # the curve is that of smoothed residuals
        target = POINTS + kernel @ (truth(p) - p) / kernel.sum(axis=1)
        low, high = (np.interp(POINTS, curve.predicted, x) for x in (curve.band.lower, curve.band.upper))
        # with too few predictions nearby there is no curve
        shown = np.isfinite(low)
        times_drawn += shown
        total += shown & (low <= target) & (target <= high), np.where(shown, high - low, 0.0)
    return total / times_drawn


def simulate_monotone(n: int, truth: Truth, repetitions: int) -> np.ndarray:
    """Return coverage and width of the simultaneous and of the pointwise band."""
    rng, total = np.random.default_rng(0), np.zeros(4)
    for _ in range(repetitions):
        p = rng.beta(0.5, 0.5, n)
        grouped = group_outcomes((rng.random(n) < truth(p)).astype(int), p)
        target = truth(grouped.prob)
        for k, kind in enumerate(("simultaneous", "confidence")):
            lower, upper = monotone_band(grouped, 0.95, kind).at(grouped.prob)
            held = (lower <= target) & (target <= upper)
            whole = held.all() if kind == "simultaneous" else held.mean()
            total[2 * k : 2 * k + 2] += whole, (upper - lower).mean()
    return total / repetitions


def main() -> None:
    options = options_of(__doc__, repetitions=400)
    repetitions = 2 if options.smoke else options.repetitions
    print(f"{'smooth curve':32}" + " ".join(f"{point:>7}" for point in POINTS))
    for name, n in SMOOTH[: 1 if options.smoke else None]:
        for label, values in zip(("coverage", "width"), simulate(n, TRUTHS[name], repetitions), strict=True):
            print(f"{f'{name}, n = {n}':22}{label:10}" + " ".join(f"{value:7.3f}" for value in values))
    print("\nnon-decreasing         simultaneous    width  pointwise    width")
    for name, n in MONOTONE[: 1 if options.smoke else None]:
        found = simulate_monotone(n, TRUTHS[name], repetitions)
        print(
            f"{f'{name}, n = {n}':22}"
            + "".join(f"{v:{w}.3f}" for v, w in zip(found, (13, 9, 11, 9), strict=True))
        )


if __name__ == "__main__":
    main()
