"""Coverage of the 95% confidence intervals of calibration errors.

Predictions have one of five distributions, and event probabilities differ from them by a shift, a slope in
log-odds or a nonlinear curve. For each case the script prints the coverage with its binomial standard error,
the fraction of intervals that lie above and below the population value, and the mean width. The tables in
benchmarks/results were written by

    python benchmarks/interval_coverage.py --write benchmarks/results

in about an hour; ``--sizes 5000`` takes two.
"""

import csv
import time
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from _options import parser_of
from scipy.special import expit, logit, ndtri
from scipy.stats import beta

from sklearn_calib.inference import confidence_interval
from sklearn_calib.metrics import cutoff_calibration_error, expected_calibration_error, smooth_ece

METRICS = {
    "smooth ECE": smooth_ece,
    "cutoff": cutoff_calibration_error,
    "debiased l2": partial(expected_calibration_error, norm="l2", debias=True),
}

# Quantile functions of the predictions.
PREDICTIONS = {
    "uniform": lambda u: u,
    "logit-normal": lambda u: expit(1.5 * ndtri(u)),
    "beta(.2, .2)": lambda u: beta.ppf(u, 0.2, 0.2),
    "deciles": lambda u: np.floor(10 * u) / 10 + 0.05,
    "2% events": lambda u: beta.ppf(u, 2, 98),
}


def shift(size):
    """Return event probabilities shifted by ``size``; for rare events relative to the prediction."""
    return lambda p, u, rare: p * (1 + 5 * size) if rare else np.clip(p + size, 0, 1)


def slope(size):
    """Return event probabilities with log-odds multiplied by ``size``."""
    return lambda p, u, rare: expit(size * logit(np.clip(p, 1e-15, 1 - 1e-15)))


def curve(wave):
    """Return event probabilities p + 0.4 p (1 - p) wave(u), at the quantile u of the predictions."""
    return lambda p, u, rare: p + 0.4 * p * (1 - p) * wave(u)


TRUTHS = {
    "calibrated": slope(1.0),
    "slope .8": slope(0.8),
    "slope .5": slope(0.5),
    **{f"shift {size:+}": shift(size) for size in (-0.1, -0.05, -0.02, 0.02, 0.05, 0.1)},
    "sine, 2 periods": curve(lambda u: np.sin(4 * np.pi * u)),
    "sine, 8 periods": curve(lambda u: np.sin(16 * np.pi * u)),
    "step": curve(lambda u: np.where(u < 0.5, -1, 1)),
    "zigzag": curve(lambda u: np.where(np.floor(10 * u) % 2, -1, 1)),
}


def event_probabilities(predictions, truth, u):
    """Return predictions and event probabilities at quantiles."""
    p = PREDICTIONS[predictions](u)
    return p, TRUTHS[truth](p, u, predictions == "2% events")


def population_value(metric, predictions, truth):
    """Return the metric of a fine grid of quantiles, both outcomes of each weighted."""
    p, events = event_probabilities(predictions, truth, (np.arange(20_000) + 0.5) / 20_000)
    events = np.rint(events * 2.0**40)
    weight = np.concatenate([events, 2.0**40 - events])
    return metric(np.repeat([1, 0], p.shape[0]), np.tile(p, 2), sample_weight=weight)


def measure(metrics, predictions, truth, n, repetitions, n_resamples):
    """Return one line of the table for each metric."""
    ends = {name: np.empty((repetitions, 2)) for name in metrics}
    for r in range(repetitions):
        rng = np.random.default_rng([n, r, *map(ord, predictions + truth)])
        u = rng.random(n)
        p, events = event_probabilities(predictions, truth, u)
        y = (rng.random(n) < events).astype(int)
        for name in metrics:
            interval = confidence_interval(
                y, p, metric=METRICS[name], n_resamples=n_resamples, random_state=r
            )
            ends[name][r] = interval.lower, interval.upper
    lines = []
    for name, (lower, upper) in ((name, pairs.T) for name, pairs in ends.items()):
        value = population_value(METRICS[name], predictions, truth)
        # the ends are computed from simulated quantiles, to about this accuracy
        above, below = np.mean(lower > value + 1e-6), np.mean(upper < value - 1e-6)
        coverage = 1 - above - below
        lines.append(
            {
                "metric": name,
                "n": n,
                "predictions": predictions,
                "truth": truth,
                "value": value,
                "repetitions": repetitions,
                "resamples": n_resamples,
                "coverage": coverage,
                "standard_error": np.sqrt(coverage * (1 - coverage) / repetitions),
                "too_high": above,
                "too_low": below,
                "width": np.mean(upper - lower),
            }
        )
    return lines


def summary(lines):
    """Return the mean and the lowest coverage for each metric, n and distribution of the predictions."""
    table = [
        "| metric | n | predictions | mean coverage | lowest coverage (s.e.) | truth of the lowest |",
        "|---|---|---|---|---|---|",
    ]
    for key in dict.fromkeys((line["metric"], line["n"], line["predictions"]) for line in lines):
        group = [line for line in lines if (line["metric"], line["n"], line["predictions"]) == key]
        mean = np.mean([line["coverage"] for line in group])
        lowest = dict(min(group, key=lambda line: line["coverage"]))
        text = "| {metric} | {n} | {predictions} | {mean:.3f} | {lowest} | {truth} |"
        lowest["lowest"] = "{coverage:.3f} ({standard_error:.3f})".format(**lowest)
        table.append(text.format(mean=mean, **lowest))
    return "\n".join(table) + "\n"


def write(lines, folder):
    """Write all lines, and their summary."""
    with (folder / "interval_coverage.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        for line in lines:
            writer.writerow({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in line.items()})
    (folder / "interval_coverage.md").write_text(summary(lines))


def main():
    parser = parser_of(__doc__, repetitions=400, resamples=50, sizes=[200, 1000])
    parser.add_argument("--metrics", nargs="+", default=list(METRICS), choices=METRICS)
    parser.add_argument("--predictions", nargs="+", default=list(PREDICTIONS), choices=PREDICTIONS)
    parser.add_argument("--truths", nargs="+", default=list(TRUTHS), choices=TRUTHS)
    parser.add_argument("--write", type=Path, help="also write the tables to this folder")
    args = parser.parse_args()
    if args.smoke:
        args.sizes, args.repetitions, args.resamples = [50], 1, 20
    lines, start = [], time.time()
    for n, predictions in product(args.sizes, args.predictions):
        for truth in args.truths:
            for line in measure(args.metrics, predictions, truth, n, args.repetitions, args.resamples):
                lines.append(line)
                print(
                    "{metric:<12} {n:6d}  {predictions:<13} {truth:<16} {value:.4f}  {coverage:.3f} "
                    "({standard_error:.3f})  too high {too_high:.3f}  too low {too_low:.3f}  "
                    "width {width:.3f}".format(**line),
                    flush=True,
                )
        if args.write:
            write(lines, args.write)
    print(summary(lines), f"\n{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
