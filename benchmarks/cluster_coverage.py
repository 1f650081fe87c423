"""Coverage of 95% intervals for dependent samples: smooth ECE, cutoff, Brier score, intercept and slope.

    python benchmarks/cluster_coverage.py

The event probability is expit(0.2 + 0.7 logit(p)), with a random intercept for each cluster as in
cluster_level.py. The population values are those of 10^6 independent samples. Counts of runs in which the
interval is above, contains, and is below the value are added to results/cluster_coverage.csv.

    --runs 20                  of each setting
    --seed 0                   of the first run
    --smoke                    one run of one setting, not saved
"""

import argparse
import csv
import itertools
import warnings
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from cluster_level import SIZES, conditional_logit
from scipy.special import expit, logit
from sklearn.metrics import brier_score_loss

from sklearn_calib.inference import confidence_interval
from sklearn_calib.metrics import calibration_summary, cutoff_calibration_error, smooth_ece

RESULTS = Path(__file__).parent / "results" / "cluster_coverage.csv"
SETTINGS = list(itertools.product((15, 30, 100), ("equal", "unequal"), (0.0, 0.2), ("varying", "constant")))
METRICS = ("smooth ECE", "cutoff", "Brier", "intercept", "slope")


def curve(p: np.ndarray) -> np.ndarray:
    """Return the event probability of each prediction."""
    return expit(0.2 + 0.7 * logit(p))


def truth() -> dict[str, float]:
    """Return the population values."""
    rng = np.random.default_rng(0)
    p = expit(1.2 * rng.normal(size=10**6))
    y = (rng.random(p.size) < curve(p)).astype(int)
    summary = calibration_summary(y, p)
    values = (
        smooth_ece(y, p),
        cutoff_calibration_error(y, p),
        brier_score_loss(y, p),
        summary.intercept.value,
        summary.slope.value,
    )
    return dict(zip(METRICS, values, strict=True))


def intervals(setting: tuple, seed: Sequence[int]) -> dict[str, tuple[float, float]]:
    """Return the intervals for one sample."""
    n_clusters, sizes, rho, predictions = setting
    rng = np.random.default_rng(seed)
    n = n_clusters * SIZES[n_clusters]
    size = np.full(n_clusters, SIZES[n_clusters])
    if sizes == "unequal":
        parts = np.append(rng.dirichlet(np.ones(n_clusters - 1)) * 2 / 3, 1 / 3)
        size = np.maximum(np.rint(parts * n).astype(int), 1)
    clusters = np.repeat(np.arange(n_clusters), size)
    own = (
        rng.normal(size=n_clusters)[clusters] if predictions == "constant" else rng.normal(size=clusters.size)
    )
    p = expit(1.2 * own)
    deviation = np.sqrt(rho / (1 - rho) * np.pi**2 / 3)
    effect = deviation * rng.normal(size=n_clusters)[clusters]
    y = (rng.random(p.size) < expit(conditional_logit(curve(p), deviation) + effect)).astype(int)
    given = {"clusters": clusters, "random_state": seed[-1], "n_resamples": 100}
    found = {
        "smooth ECE": confidence_interval(y, p, metric="smooth_ece", **given),
        "cutoff": confidence_interval(y, p, metric="cutoff_calibration_error", **given),
        "Brier": confidence_interval(y, p, metric=brier_score_loss, method="percentile", **given),
    }
    summary = calibration_summary(y, p, clusters=clusters)
    found |= {"intercept": summary.intercept, "slope": summary.slope}
    return {name: (interval.lower, interval.upper) for name, interval in found.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", category=UserWarning)
    if options.smoke:
        print(intervals(SETTINGS[0], (0, 0)))
        return
    values = truth()
    total: dict[tuple, np.ndarray] = defaultdict(lambda: np.zeros(3, dtype=int))
    if RESULTS.exists():
        with RESULTS.open() as file:
            for *key, above, inside, below in list(csv.reader(file))[1:]:
                total[tuple(key)] += [int(above), int(inside), int(below)]
    for run in range(options.seed, options.seed + options.runs):
        for index, setting in enumerate(SETTINGS):
            for metric, (lower, upper) in intervals(setting, (7, index, run)).items():
                value = values[metric]
                outcome = [lower > value, lower <= value <= upper, upper < value]
                total[(*map(str, setting), metric)] += np.array(outcome)
        with RESULTS.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(
                ["clusters", "sizes", "correlation", "predictions", "metric", "above", "inside", "below"]
            )
            writer.writerows([*key, *counts] for key, counts in total.items())
    for group in ("clusters", "sizes", "correlation", "predictions"):
        position = ("clusters", "sizes", "correlation", "predictions").index(group)
        for level in dict.fromkeys(key[position] for key in total):
            rates = []
            for metric in METRICS:
                counts = sum(total[key] for key in total if key[position] == level and key[4] == metric)
                rates.append(f"{metric} {counts[1] / counts.sum():.3f}")
            print(group, level, *rates)


if __name__ == "__main__":
    main()
