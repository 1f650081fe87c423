"""Coverage of the bands of the reliability diagram, at the nominal level of 95%.

    python benchmarks/band_coverage.py

For each calibration curve, predictions and outcomes are simulated repeatedly.

First table: coverage of the smoothed event frequency by the band of the smooth curve, and its mean width, at
several predictions, compared with a percentile bootstrap at the same bandwidth. The width of the bootstrap
interval vanishes at the ends, where all outcomes agree.

Second table: bands for non-decreasing event probabilities. Shown are the probability that the simultaneous
band contains the whole curve, the average coverage of the pointwise band, and their mean widths. For some
samples, the width of the simultaneous band is compared with that from all intervals of all predictions.

    --repetitions 400
    --smoke              a few repetitions, as a quick check
"""

import argparse
from collections.abc import Callable

import numpy as np
from scipy.special import expit, logit

from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._validation import check_binary
from sklearn_calib.plot._curve import reliability_curve
from sklearn_calib.plot._monotone_band import monotone_band, monotone_limits

POINTS = np.array([0.01, 0.1, 0.3, 0.5, 0.8, 0.99])
N_BOOT = 200

Truth = Callable[[np.ndarray], np.ndarray]
TRUTHS: dict[str, tuple[int, Truth]] = {
    "calibrated, n = 200": (200, lambda p: p),
    "calibrated, n = 1000": (1000, lambda p: p),
    "over-confident, n = 1000": (1000, lambda p: expit(0.5 * logit(np.clip(p, 1e-12, 1 - 1e-12)))),
}


def weights_at(points: np.ndarray, p: np.ndarray, s: float) -> np.ndarray:
    """Return the reflected Gaussian kernel about each point, one row a point (s well below 1)."""
    images = (p, -p, 2 - p)
    return sum(np.exp(-0.5 * ((points[:, None] - image) / s) ** 2) for image in images)


def simulate(n: int, truth: Truth, repetitions: int) -> np.ndarray:
    """Return coverage and width of our band, then of the bootstrap's, at each point."""
    rng = np.random.default_rng(0)
    total, times_drawn = np.zeros((4, POINTS.shape[0])), np.zeros(POINTS.shape[0])
    for _ in range(repetitions):
        p = rng.beta(0.5, 0.5, n)
        y = (rng.random(n) < truth(p)).astype(int)
        curve = reliability_curve(check_binary(y, p))
        kernel = weights_at(POINTS, p, curve.bandwidth)
        target = kernel @ truth(p) / kernel.sum(axis=1)
        ours = [np.interp(POINTS, curve.predicted, limit) for limit in (curve.band.lower, curve.band.upper)]
        times = rng.multinomial(n, np.full(n, 1 / n), size=N_BOOT)
        drawn = (times @ (kernel * y).T) / (times @ kernel.T)
        # with too few predictions nearby there is no curve, and neither band is evaluated
        shown = np.isfinite(ours[0])
        times_drawn += shown
        for row, (low, high) in enumerate((ours, np.quantile(drawn, [0.025, 0.975], axis=0))):
            total[2 * row] += shown & (low <= target) & (target <= high)
            total[2 * row + 1] += np.where(shown, high - low, 0.0)
    return total / times_drawn


MONOTONE: dict[str, tuple[int, Truth]] = {
    "calibrated, n = 50": (50, lambda p: p),
    "calibrated, n = 300": (300, lambda p: p),
    "calibrated, n = 1000": (1000, lambda p: p),
    "calibrated, n = 10000": (10_000, lambda p: p),
    "over-confident, n = 1000": TRUTHS["over-confident, n = 1000"],
    "two steps, n = 1000": (1000, lambda p: 0.1 + 0.5 * (p > 0.3) + 0.3 * (p > 0.8)),
    "constant, n = 1000": (1000, lambda p: np.full_like(p, 0.05)),
}
ALL_RUNS, MOST_ROWS = 4, 1000


def simulate_monotone(n: int, truth: Truth, repetitions: int) -> dict[str, float]:
    """Return coverage and width of the simultaneous and of the pointwise band."""
    rng = np.random.default_rng(0)
    found = dict.fromkeys(("simultaneous", "its width", "pointwise", "its mean width"), 0.0)
    ratios = []
    for number in range(repetitions):
        p = rng.beta(0.5, 0.5, n)
        grouped = group_outcomes((rng.random(n) < truth(p)).astype(int), p)
        target = truth(grouped.prob)
        for kind, names in (
            ("simultaneous", ("simultaneous", "its width")),
            ("confidence", ("pointwise", "its mean width")),
        ):
            lower, upper = monotone_band(grouped, 0.95, kind).at(grouped.prob)
            held = (lower <= target) & (target <= upper)
            found[names[0]] += held.all() if kind == "simultaneous" else held.mean()
            width = (upper - lower).mean()
            found[names[1]] += width
            if kind == "simultaneous" and n <= MOST_ROWS and number < ALL_RUNS:
                runs = list(range(1, grouped.prob.shape[0] + 1))
                low, high = monotone_limits(grouped.weight, grouped.positives, 0.05, runs, pointwise=False)
                ratios.append(width / (high - low).mean())
    means = {name: value / repetitions for name, value in found.items()}
    return means | {"width to all runs": float(np.mean(ratios))} if ratios else means


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    repetitions = 5 if options.smoke else options.repetitions
    print(f"{repetitions} repetitions; at predictions" + " ".join(f"{point:>7}" for point in POINTS))
    for name, (n, truth) in TRUTHS.items():
        found = simulate(n, truth, repetitions)
        print(f"\n{name}")
        labels = ("coverage", "width", "coverage, bootstrap", "width, bootstrap")
        for label, values in zip(labels, found, strict=True):
            print(f"  {label:<24}" + " ".join(f"{value:7.3f}" for value in values))
    for name, (n, truth) in MONOTONE.items():
        print(f"\nfor monotone curves: {name}")
        for label, value in simulate_monotone(n, truth, repetitions).items():
            print(f"  {label:<24}{value:8.3f}")


if __name__ == "__main__":
    main()
