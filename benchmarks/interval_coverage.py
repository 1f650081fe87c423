"""Coverage of the 95% confidence intervals of calibration errors and of other metrics.

Predictions have one of several distributions, and event probabilities differ from them by a shift, a slope in
log-odds or a nonlinear curve. For each case the script prints the coverage with its binomial standard error,
the fraction of intervals that lie above and below the population value, and the mean width. The tables in
benchmarks/results were written by

    python benchmarks/interval_coverage.py --write benchmarks/results
    python benchmarks/interval_coverage.py --study scores --resamples 20 --write benchmarks/results
    python benchmarks/interval_coverage.py --study decisions --sizes 200 --write benchmarks/results
    python benchmarks/interval_coverage.py --study logit --sizes 200 --write benchmarks/results
    python benchmarks/interval_coverage.py --study weights --repetitions 200 --resamples 40 \
        --write benchmarks/results

The first takes about an hour, with ``--sizes 5000`` two, and each of the others some minutes. "scores" are
metrics that are not calibration errors, with normal intervals of means and the bootstrap for others.
"weights" are samples with sampling weights, from designs instead of distributions of the predictions, and the
slope of the summary besides.
"""

import csv
import time
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from _options import parser_of
from _population import population_value
from scipy.special import expit, logit, ndtri
from scipy.stats import beta

from sklearn_calib.inference import confidence_interval
from sklearn_calib.metrics import (
    area_under_risk_coverage,
    calibration_decision_loss,
    calibration_summary,
    cutoff_calibration_error,
    decision_risk_gap,
    expected_calibration_error,
    logit_smoothed_ece,
    net_benefit,
    smooth_ece,
)
from sklearn_calib.metrics._names import as_metric


def accuracy(y, p, sample_weight=None):
    """Return the fraction of correct decisions at threshold 1/2."""
    return np.average(y == (p >= 0.5), weights=sample_weight)


def recalibration_slope(y, p, sample_weight=None):
    """Return the slope of the calibration summary."""
    return calibration_summary(y, p, sample_weight=sample_weight).slope.estimate


METRICS = {
    "smooth ECE": smooth_ece,
    "cutoff": cutoff_calibration_error,
    "debiased l2": partial(expected_calibration_error, norm="l2", debias=True),
    "Brier": as_metric("brier_score"),
    "log loss": as_metric("log_loss"),
    "AUC": as_metric("roc_auc"),
    "net benefit": partial(net_benefit, threshold=0.3),
    "accuracy": accuracy,
    "AURC": area_under_risk_coverage,
    "largest gap": partial(decision_risk_gap, threshold="max"),
    "CDL": calibration_decision_loss,
    "LS-ECE": logit_smoothed_ece,
    "slope": recalibration_slope,
}

# Quantile functions of the predictions.
PREDICTIONS = {
    "uniform": lambda u: u,
    "logit-normal": lambda u: expit(1.5 * ndtri(u)),
    "beta(.2, .2)": lambda u: beta.ppf(u, 0.2, 0.2),
    "deciles": lambda u: np.floor(10 * u) / 10 + 0.05,
    "2% events": lambda u: beta.ppf(u, 2, 98),
    "beta(2, 3)": lambda u: beta.ppf(u, 2, 3),
    "beta(.3, .3)": lambda u: beta.ppf(u, 0.3, 0.3),
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
    "slope 1.6": slope(1.6),
    "slope .7": slope(0.7),
    "slope .6": slope(0.6),
    "log-odds -.5": lambda p, u, rare: expit(logit(p) - 0.5),
    "bump": lambda p, u, rare: np.clip(p + 0.25 * np.exp(-((p - 0.3) ** 2) / 0.005), 0, 1),
}


def lognormal(rng, n, truth):
    """Return predictions, event probabilities and weights that depend on neither."""
    p, events = event_probabilities(POPULATION, truth, rng.random(n))
    return p, events, rng.lognormal(0.0, 0.8, n)


def strata(rng, n, truth):
    """One stratum is sampled ten times as often, and only both together have the event probabilities."""
    p, events = event_probabilities(POPULATION, truth, rng.random(n))
    often = rng.random(n) < 10 / 11
    return p, events - 0.7 * p * (1 - p) * np.where(often, 1, -1), np.where(often, 1.0, 10.0)


def inverse_probability(rng, n, truth):
    """High predictions are sampled more often."""
    p, events = event_probabilities(POPULATION, truth, rng.random(20 * n))
    sampled = np.flatnonzero(rng.random(20 * n) < 0.05 + 0.95 * p)[:n]
    return p[sampled], events[sampled], 1 / (0.05 + 0.95 * p[sampled])


def case_control(rng, n, truth, fraction=0.15):
    """All events are sampled, and a fraction of the others: 15%, or 5% if events are rare."""
    population = POPULATION if fraction == 0.15 else RARE
    p, events = event_probabilities(population, truth, rng.random(40 * n))
    y = rng.random(40 * n) < events
    sampled = np.flatnonzero(y | (rng.random(40 * n) < fraction))[:n]
    return p[sampled], y[sampled].astype(float), np.where(y[sampled], 1.0, 1 / fraction)


# Samples with sampling weights of one population, and of one with rare events.
POPULATION, RARE = "logit-normal, mean -1", "logit-normal, mean -3.5"
PREDICTIONS[POPULATION] = lambda u: expit(1.5 * ndtri(u) - 1)
PREDICTIONS[RARE] = lambda u: expit(1.4 * ndtri(u) - 3.5)
DESIGNS = {
    "lognormal": lognormal,
    "strata 1:10": strata,
    "1 / p": inverse_probability,
    "case-control": case_control,
    "case-control, rare": partial(case_control, fraction=0.05),
}

# Metrics, predictions and truths.
STUDIES = {
    "errors": (list(METRICS)[:3], list(PREDICTIONS)[:5], list(TRUTHS)[:13]),
    "scores": (list(METRICS)[3:9], ["beta(2, 3)", "beta(.3, .3)"], ["calibrated", "slope 1.6"]),
    "decisions": (["largest gap", "CDL"], ["beta(.3, .3)"], ["calibrated", "slope .7"]),
    "weights": (
        ["smooth ECE", "cutoff", "Brier", "slope"],
        list(DESIGNS),
        ["calibrated", "slope .6", "log-odds -.5"],
    ),
    "logit": (["LS-ECE"], ["uniform"], ["calibrated", "slope .5", "bump"]),
}


def event_probabilities(predictions, truth, u):
    """Return predictions and event probabilities at quantiles."""
    p = PREDICTIONS[predictions](u)
    return p, TRUTHS[truth](p, u, predictions == "2% events")


def measure(metrics, predictions, truth, n, repetitions, n_resamples):
    """Return one line of the table for each metric."""
    ends = {name: np.empty((repetitions, 2)) for name in metrics}
    for r in range(repetitions):
        rng = np.random.default_rng([n, r, *map(ord, predictions + truth)])
        if weighted := predictions in DESIGNS:
            p, events, w = DESIGNS[predictions](rng, n, truth)
        else:
            (p, events), w = event_probabilities(predictions, truth, rng.random(n)), None
        y = (rng.random(n) < events).astype(int)
        for name in metrics:
            if name == "slope":
                interval = calibration_summary(y, p, sample_weight=w).slope
            else:
                interval = confidence_interval(
                    y, p, metric=METRICS[name], n_resamples=n_resamples, random_state=r, sample_weight=w
                )
            ends[name][r] = interval.lower, interval.upper
    population = (RARE if "rare" in predictions else POPULATION) if weighted else predictions
    of_quantiles = event_probabilities(population, truth, (np.arange(20_000) + 0.5) / 20_000)
    values = {name: population_value(METRICS[name], *of_quantiles) for name in metrics}
    return lines_of(ends, values, n, predictions, truth, n_resamples)


def lines_of(ends, values, n, predictions, truth, n_resamples):
    """Return one line of the table for each metric, from the ends of its intervals and its value."""
    lines = []
    for name, pairs in ends.items():
        repetitions, (lower, upper), value = len(pairs), pairs.T, values[name]
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


def write(lines, folder, study):
    """Write all lines, and their summary."""
    name = "interval_coverage" + ("" if study == "errors" else f"_{study}")
    with (folder / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        for line in lines:
            writer.writerow({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in line.items()})
    (folder / f"{name}.md").write_text(summary(lines))


def main():
    parser = parser_of(__doc__, repetitions=400, resamples=50, sizes=[200, 1000])
    parser.add_argument("--study", default="errors", choices=STUDIES)
    parser.add_argument("--metrics", nargs="+", help="instead of those of the study", choices=METRICS)
    parser.add_argument("--predictions", nargs="+", choices=[*PREDICTIONS, *DESIGNS])
    parser.add_argument("--truths", nargs="+", choices=TRUTHS)
    parser.add_argument("--write", type=Path, help="also write the tables to this folder")
    args = parser.parse_args()
    if args.smoke:
        args.sizes, args.repetitions, args.resamples = [50], 1, 20
    lines, start = [], time.time()
    given = args.metrics, args.predictions, args.truths
    metrics, all_predictions, truths = (
        chosen or of_study for chosen, of_study in zip(given, STUDIES[args.study], strict=True)
    )
    for n, predictions in product(args.sizes, all_predictions):
        for truth in truths[:: 4 if args.smoke else 1]:
            for line in measure(metrics, predictions, truth, n, args.repetitions, args.resamples):
                lines.append(line)
                print(
                    "{metric:<12} {n:6d}  {predictions:<13} {truth:<16} {value:.4f}  {coverage:.3f} "
                    "({standard_error:.3f})  too high {too_high:.3f}  too low {too_low:.3f}  "
                    "width {width:.3f}".format(**line),
                    flush=True,
                )
        if args.write:
            write(lines, args.write, args.study)
    print(summary(lines), f"\n{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
