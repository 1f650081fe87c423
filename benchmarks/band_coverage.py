"""Coverage of the bands of the reliability diagram, at the nominal level of 95%.

    python benchmarks/band_coverage.py

First table: how often the band of the smooth curve contains the event probability at five quantiles of the
predictions, for several distributions of predictions and calibration curves. Second table, of bands for
non-decreasing event probabilities: the probability that the simultaneous band contains the whole curve, the
average coverage of the pointwise band, and their mean widths.

    --repetitions 100
    --smoke              a few repetitions of small samples, as a quick check
"""

from collections.abc import Callable
from itertools import product

import numpy as np
from _options import options_of
from scipy.special import expit, logit

from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._validation import check_binary
from sklearn_calib.plot._curve import reliability_curve
from sklearn_calib.plot._monotone_band import monotone_band

QUANTILES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
Truth = Callable[[np.ndarray], np.ndarray]
TRUTHS: dict[str, Truth] = {
    "calibrated": lambda p: p,
    "over-confident": lambda p: expit(0.5 * logit(np.clip(p, 1e-12, 1 - 1e-12))),
    "two steps": lambda p: 0.1 + 0.5 * (p > 0.3) + 0.3 * (p > 0.8),
    "constant": lambda p: np.full_like(p, 0.05),
}
# calibration curves of the first table
SHAPES: dict[str, Truth] = {
    "calibrated": TRUTHS["calibrated"],
    "slope 0.6": lambda p: expit(0.6 * logit(p)),
    "shift 0.5": lambda p: expit(logit(p) + 0.5),
    "wave": lambda p: np.clip(p + 0.2 * np.sin(4 * np.pi * p), 0, 1),
    "two steps": lambda p: np.floor(3 * p.clip(0, 0.999)) / 3 + 1 / 6,
    "floor": lambda p: 0.01 + 0.98 * p,
}
PREDICTIONS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "rare": lambda rng, n: rng.beta(0.7, 20, n),
    "U-shaped": lambda rng, n: rng.beta(0.3, 0.3, n),
    "uniform": lambda rng, n: rng.random(n),
    "skewed": lambda rng, n: rng.beta(2, 5, n),
    "narrow": lambda rng, n: np.clip(rng.normal(0.3, 0.03, n), 0.01, 0.99),
    "two groups": lambda rng, n: rng.choice([0.15, 0.75], n, p=[0.6, 0.4]) + rng.normal(0, 0.03, n),
}
SIZES = (100, 1000, 4000)
MONOTONE = [
    *(("calibrated", n) for n in (50, 300, 1000, 10_000)),
    *((name, 1000) for name in ("over-confident", "two steps", "constant")),
]


def simulate(n: int, predictions: str, truth: Truth, repetitions: int) -> np.ndarray:
    """Return how often the band of the smooth curve contains the event probability at each quantile."""
    rng = np.random.default_rng(0)
    at = np.quantile(PREDICTIONS[predictions](rng, 100_000), QUANTILES)
    held, times_drawn = np.zeros((2, at.shape[0]))
    for _ in range(repetitions):
        p = PREDICTIONS[predictions](rng, n)
        low, high = reliability_curve(check_binary((rng.random(n) < truth(p)).astype(int), p)).band.at(at)
        # beyond the first and last bin there is no curve
        times_drawn += np.isfinite(low)
        held += (low <= truth(at)) & (truth(at) <= high)
    return held / times_drawn


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
    options = options_of(__doc__, repetitions=100)
    repetitions = 2 if options.smoke else options.repetitions
    print(f"{'smooth curve':34}" + "".join(f"{quantile:>7.0%}" for quantile in QUANTILES))
    cells = list(product(SIZES, PREDICTIONS, SHAPES))
    for n, predictions, name in cells[: 1 if options.smoke else None]:
        found = simulate(n, predictions, SHAPES[name], repetitions)
        print(f"{f'{predictions}, {name}, n = {n}':34}" + "".join(f"{value:7.2f}" for value in found))
    print("\nnon-decreasing         simultaneous    width  pointwise    width")
    for name, n in MONOTONE[: 1 if options.smoke else None]:
        found = simulate_monotone(n, TRUTHS[name], repetitions)
        print(
            f"{f'{name}, n = {n}':22}"
            + "".join(f"{v:{w}.3f}" for v, w in zip(found, (13, 9, 11, 9), strict=True))
        )


if __name__ == "__main__":
    main()
