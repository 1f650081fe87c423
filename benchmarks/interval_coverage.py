"""How often the confidence intervals of calibration errors hold the value of the population.

Predictions are uniform, labels are drawn from sigmoid(slope * logit(p)): slope 1 is calibrated, less is
over-confidence. For each metric the script prints the coverage with its binomial standard error, on which
side the misses lie, and the mean width. The table in benchmarks/results was written by

    python benchmarks/interval_coverage.py --csv benchmarks/results/interval_coverage.csv
"""

import argparse
import csv
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import expit, logit

from sklearn_calib.inference import confidence_interval
from sklearn_calib.metrics import cutoff_calibration_error, expected_calibration_error, smooth_ece

METRICS = {
    "smooth ECE": smooth_ece,
    "cutoff calibration error": cutoff_calibration_error,
    "debiased l2 ECE": partial(expected_calibration_error, norm="l2", debias=True),
    "ECE, 15 bins": expected_calibration_error,
}


def population_value(metric, slope):
    """Return the metric of the law itself: a fine grid of predictions, both outcomes of each weighted."""
    p = (np.arange(100_000) + 0.5) / 100_000
    events = np.rint(expit(slope * logit(p)) * 2.0**40)
    weight = np.concatenate([events, 2.0**40 - events])
    return metric(np.repeat([1, 0], p.shape[0]), np.tile(p, 2), sample_weight=weight)


def measure(slope, n, repetitions, n_resamples):
    """Return one row per metric of the table."""
    truth = {name: population_value(metric, slope) for name, metric in METRICS.items()}
    ends = {name: np.empty((repetitions, 2)) for name in METRICS}
    for r in range(repetitions):
        rng = np.random.default_rng([n, r])
        p = rng.random(n)
        y = (rng.random(n) < expit(slope * logit(p))).astype(int)
        for name, metric in METRICS.items():
            interval = confidence_interval(metric, y, p, n_resamples=n_resamples, random_state=r)
            ends[name][r] = interval.lower, interval.upper
    rows = []
    for name, pairs in ends.items():
        # the ends are found on simulated quantiles, to about this accuracy
        above, below = pairs[:, 0] > truth[name] + 1e-6, pairs[:, 1] < truth[name] - 1e-6
        coverage = 1 - above.mean() - below.mean()
        rows.append(
            {
                "slope": slope,
                "n": n,
                "metric": name,
                "truth": truth[name],
                "repetitions": repetitions,
                "resamples": n_resamples,
                "coverage": coverage,
                "standard_error": np.sqrt(coverage * (1 - coverage) / repetitions),
                "too_high": above.mean(),
                "too_low": below.mean(),
                "width": np.mean(pairs[:, 1] - pairs[:, 0]),
            }
        )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slopes", type=float, nargs="+", default=[1.0, 0.8, 0.5])
    parser.add_argument("--size", type=int, default=1000, help="rows of a sample")
    parser.add_argument("--repetitions", type=int, default=600)
    parser.add_argument("--resamples", type=int, default=200)
    parser.add_argument("--csv", type=Path, help="also write the table to this file")
    parser.add_argument("--smoke", action="store_true", help="a few seconds, to see that it runs")
    args = parser.parse_args()
    if args.smoke:
        args.slopes, args.size, args.repetitions, args.resamples = [0.5], 200, 5, 20
    print(f"95 % intervals, {args.repetitions} samples each, {args.resamples} resamples")
    print("slope      n  metric                        truth  coverage (s.e.)   too high  too low   width")
    rows = []
    for slope in args.slopes:
        rows += measure(slope, args.size, args.repetitions, args.resamples)
        for row in rows[-len(METRICS) :]:
            print(
                "{slope:5.1f} {n:6d}  {metric:<26} {truth:8.4f} {coverage:9.3f} ({standard_error:.3f})"
                "{too_high:8.3f}{too_low:8.3f}{width:8.3f}".format(**row),
                flush=True,
            )
    if args.csv:
        args.csv.parent.mkdir(exist_ok=True)
        with args.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            for row in rows:
                writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})


if __name__ == "__main__":
    main()
