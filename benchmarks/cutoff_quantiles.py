"""Quantiles of the asymptotic certificates, compared with simulated paths.

    python benchmarks/cutoff_quantiles.py

The margin of a certificate is a quantile of (range of a Brownian bridge on [0, pi]) + (its range on [pi, 1])
over sqrt(n). The package computes it from a closed form. Shown are the table of quantiles, and for some event
rates the quantiles of simulated paths. The range of a path with m steps is too small by about c / sqrt(m):
the ranges at m and at m / 4 steps are extrapolated to infinitely many steps, as twice the fine one minus the
coarse one. The last column is the difference in standard errors.

    --paths 100000       simulated paths for each event rate
    --steps 4096         steps of each path
    --smoke              few short paths, as a quick check
"""

import argparse
import math

import numpy as np

from sklearn_calib._core._bounds import bridge_ranges_quantile, bridge_ranges_sf

BASE_RATES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
CONFIDENCES = (0.5, 0.8, 0.9, 0.95, 0.975, 0.99, 0.999)
SIMULATED_RATES = (0.0625, 0.25, 0.5)
SIMULATED_CONFIDENCES = (0.5, 0.9, 0.95, 0.99)
PATHS_AT_A_TIME = 1000


def sum_of_ranges(path: np.ndarray, split: int) -> np.ndarray:
    """Return the sum of the ranges before and after the split, of paths in rows, in single precision."""
    return np.ptp(path[:, : split + 1], axis=1) + np.ptp(path[:, split:], axis=1)


def simulate(base_rate: float, paths: int, steps: int) -> np.ndarray:
    """Return the extrapolated sum of ranges of each path."""
    rng = np.random.default_rng(0)
    split = round(base_rate * steps)
    if split % 4 or not 0 < split < steps:
        raise ValueError(f"--steps must make {base_rate} x steps a multiple of 4, got {steps}")
    time = np.arange(steps + 1, dtype=np.float32) / np.float32(steps)
    sums = []
    for start in range(0, paths, PATHS_AT_A_TIME):
        rows = min(PATHS_AT_A_TIME, paths - start)
        walk = np.zeros((rows, steps + 1), dtype=np.float32)
        np.cumsum(rng.standard_normal((rows, steps), dtype=np.float32), axis=1, out=walk[:, 1:])
        walk /= np.float32(math.sqrt(steps))
        walk -= walk[:, -1:] * time
        sums.append(2 * sum_of_ranges(walk, split) - sum_of_ranges(walk[:, ::4], split // 4))
    return np.concatenate(sums)


def print_table() -> None:
    print("quantiles of the sum of ranges, by event rate and confidence (from the closed form)")
    print("   pi " + "".join(f"{confidence:>9g}" for confidence in CONFIDENCES))
    for base_rate in BASE_RATES:
        row = [bridge_ranges_quantile(confidence, base_rate) for confidence in CONFIDENCES]
        print(f"{base_rate:5g} " + "".join(f"{value:9.4f}" for value in row))


def print_comparison(paths: int, steps: int) -> None:
    print(f"\nagainst {paths} paths of {steps} steps, extrapolated")
    print("      pi  confidence  closed form  simulated  share above  standard errors")
    for base_rate in SIMULATED_RATES:
        sums = simulate(base_rate, paths, steps)
        for confidence in SIMULATED_CONFIDENCES:
            exact = bridge_ranges_quantile(confidence, base_rate)
            share = float(np.mean(sums > exact))
            expected = bridge_ranges_sf(exact, base_rate)
            error = math.sqrt(expected * (1 - expected) / paths)
            print(
                f"{base_rate:8g}{confidence:12g}{exact:13.4f}{np.quantile(sums, confidence):11.4f}"
                f"{share:13.4f}{(share - expected) / error:17.1f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--paths", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=4096)
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    print_table()
    if arguments.smoke:
        print_comparison(paths=1000, steps=256)
    else:
        print_comparison(arguments.paths, arguments.steps)


if __name__ == "__main__":
    main()
