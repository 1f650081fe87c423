"""Coverage of 95% intervals for dependent samples: smooth ECE, cutoff, l2, Brier score, intercept and slope.

    python benchmarks/cluster_coverage.py
    python benchmarks/cluster_coverage.py --summary

The event probability is expit(0.2 + 0.7 logit(p)), or expit(-0.4 + 0.85 logit(p)) for rare events (2%), with
a random intercept for each cluster as in cluster_level.py. "l2" is the debiased error of ten bins of equal
width. The population values are those of 10^6 independent samples. "certificate" is that of isotonic
regression, for the true error of the map fitted to the sample. Samples with less than two events are drawn
again; with less than ten there is no certificate. Counts of runs in which the interval is above, contains,
and is below the value are added to results/cluster_coverage.csv after each round, which is a run of each
setting and has a seed of its own.

    --runs 20                  rounds
    --seed 0                   of the first round
    --summary                  print the results there are
    --smoke                    one run of one setting, not saved
"""

import csv
import itertools
import time
import warnings
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from _options import parser_of
from cluster_level import clusters_of, conditional_logit
from scipy.special import expit, logit, ndtri
from sklearn.metrics import brier_score_loss

from sklearn_calib.calibrators import IsotonicCalibrator
from sklearn_calib.inference import confidence_interval
from sklearn_calib.metrics import (
    calibration_summary,
    cutoff_calibration_error,
    expected_calibration_error,
    smooth_ece,
)

RESULTS = Path(__file__).parent / "results" / "cluster_coverage.csv"
KEYS = ("clusters", "sizes", "correlation", "predictions", "events")
SETTINGS = list(
    itertools.product(
        (15, 30, 100), ("equal", "unequal"), (0.0, 0.2), ("varying", "constant"), ("common", "rare")
    )
)
METRICS = ("smooth ECE", "cutoff", "l2", "Brier", "intercept", "slope", "certificate")
#: Intercept and slope of the log-odds, and location and scale of the log-odds of predictions.
CURVES = {"common": (0.2, 0.7, 0.0, 1.2), "rare": (-0.4, 0.85, -4.15, 0.7)}
L2 = partial(expected_calibration_error, n_bins=10, norm="l2", debias=True)


def curve(p: np.ndarray, events: str) -> np.ndarray:
    """Return the event probability of each prediction."""
    intercept, slope, *_ = CURVES[events]
    return expit(intercept + slope * logit(p))


def predictions_of(own: np.ndarray, events: str) -> np.ndarray:
    """Return predictions from standard normal numbers."""
    *_, center, scale = CURVES[events]
    return expit(center + scale * own)


def truth(events: str) -> dict[str, float]:
    """Return the population values."""
    rng = np.random.default_rng(0)
    p = predictions_of(rng.normal(size=10**6), events)
    y = (rng.random(p.size) < curve(p, events)).astype(int)
    summary = calibration_summary(y, p)
    values = (
        smooth_ece(y, p),
        cutoff_calibration_error(y, p),
        L2(y, p),
        brier_score_loss(y, p),
        summary.intercept.estimate,
        summary.slope.estimate,
        0.0,
    )
    return dict(zip(METRICS, values, strict=True))


def intervals(setting: tuple, seed: Sequence[int]) -> dict[str, tuple[float, float]]:
    """Return the intervals for one sample."""
    n_clusters, sizes, rho, predictions, events = setting
    rng = np.random.default_rng(seed)
    clusters = clusters_of(n_clusters, sizes, rng)
    own = (
        rng.normal(size=n_clusters)[clusters] if predictions == "constant" else rng.normal(size=clusters.size)
    )
    p = predictions_of(own, events)
    deviation = np.sqrt(rho / (1 - rho) * np.pi**2 / 3)
    y = np.zeros(p.size, dtype=int)
    while y.sum() < 2:
        effect = deviation * rng.normal(size=n_clusters)[clusters]
        y = (rng.random(p.size) < expit(conditional_logit(curve(p, events), deviation) + effect)).astype(int)
    given = {"clusters": clusters, "random_state": seed[-1], "n_resamples": 100}
    found = {
        "smooth ECE": confidence_interval(y, p, metric="smooth_ece", **given),
        "cutoff": confidence_interval(y, p, metric="cutoff_calibration_error", **given),
        "l2": confidence_interval(y, p, metric=L2, **given),
        "Brier": confidence_interval(y, p, metric=brier_score_loss, method="bootstrap", **given),
    }
    summary = calibration_summary(y, p, clusters=clusters)
    found |= {"intercept": summary.intercept, "slope": summary.slope}
    out = {name: (interval.lower, interval.upper) for name, interval in found.items()}
    if y.sum() >= 10:
        calibrator = IsotonicCalibrator().fit(p, y, clusters=clusters)
        bound = calibrator.cutoff_certificate(n_resamples=199, random_state=seed[-1])
        # contains 0 if the bound holds
        out["certificate"] = (-1.0, bound.upper - true_error(calibrator, events))
    return out


def true_error(calibrator: IsotonicCalibrator, events: str) -> float:
    """Return the cutoff calibration error of a fitted map in the population."""
    p = predictions_of(ndtri((np.arange(4000) + 0.5) / 4000), events)
    mapped = calibrator.transform(p)
    walk = np.cumsum(curve(p, events) - mapped)[np.append(mapped[1:] != mapped[:-1], True)] / p.size
    return float(max(walk.max(), 0.0) - min(walk.min(), 0.0))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__, runs=20, seed=0)
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", category=UserWarning)
    if options.smoke:
        print(intervals(SETTINGS[0], (0, 0)))
        return
    if options.summary:
        summary(collected())
        return
    values = {events: truth(events) for events in CURVES}
    for run in range(options.seed, options.seed + options.runs):
        start, found = time.perf_counter(), {}
        for index, setting in enumerate(SETTINGS):
            for metric, (lower, upper) in intervals(setting, (7, index, run)).items():
                value = values[setting[-1]][metric]
                found[(*map(str, setting), metric)] = [lower > value, lower <= value <= upper, upper < value]
        total = collected()
        for key, outcome in found.items():
            total[key] += np.array(outcome)
        with RESULTS.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*KEYS, "metric", "above", "inside", "below"])
            writer.writerows([*key, *counts] for key, counts in total.items())
        print(f"round {run}: {time.perf_counter() - start:.0f} s", flush=True)
    summary(collected())


def collected() -> dict[tuple, np.ndarray]:
    """Return the counts in the file."""
    total: dict[tuple, np.ndarray] = defaultdict(lambda: np.zeros(3, dtype=int))
    if RESULTS.exists():
        with RESULTS.open() as file:
            for *key, above, inside, below in list(csv.reader(file))[1:]:
                total[tuple(key)] += [int(above), int(inside), int(below)]
    return total


def summary(total: dict[tuple, np.ndarray]) -> None:
    """Print coverage over all settings, and by each property of them."""
    for position, name in [(-2, "all"), *enumerate(KEYS)]:
        for level in dict.fromkeys(key[position] if position >= 0 else "" for key in total):
            rates = []
            for metric in METRICS:
                chosen = [
                    n
                    for key, n in total.items()
                    if key[-1] == metric and (position < 0 or key[position] == level)
                ]
                counts = np.sum(chosen, axis=0)
                rates.append(f"{metric} {counts[1] / counts.sum():.3f}" if chosen else "")
            print(name, level, *rates)


if __name__ == "__main__":
    main()
