"""Coverage of the 95% confidence intervals of calibration errors of several classes or labels.

Probabilities of K classes are calibrated, too confident (temperature), or those of two classes are mixed and
that of another has a nonlinear error; the outcomes of labels have a common cause, or are equal (copies), and
all of them, or only the first, are calibrated, shifted or too confident. Of the mean of classes or labels the
mean ends are printed beside the mean ends of the intervals of its parts. The tables were written by

    python benchmarks/class_intervals.py --metrics cutoff --repetitions 100 --write benchmarks/results

in about ten minutes of processor time. With all metrics and 300 repetitions, the script takes hours.
"""

import time
from itertools import product
from pathlib import Path

import numpy as np
from _options import parser_of
from _population import population_value
from interval_coverage import lines_of, summary, write
from scipy.special import expit, logit, ndtri, softmax

from sklearn_calib.inference import confidence_interval
from sklearn_calib.metrics import cutoff_calibration_error, expected_calibration_error, smooth_ece

METRICS = {"smooth ECE": smooth_ece, "cutoff": cutoff_calibration_error, "ECE": expected_calibration_error}


def predictions_of(kind, n, rng):
    """Return probabilities of classes or labels, (n, K)."""
    n_classes = int(kind.split()[0])
    if "copies" in kind:
        return np.tile(expit(1.4 * rng.standard_normal((n, 1)) - 1), n_classes)
    if "labels" in kind:
        ends = np.linspace(-2, 0, n_classes)
        return expit(rng.standard_normal((n, n_classes)) + rng.standard_normal((n, 1)) + ends)
    return softmax(1.5 * rng.standard_normal((n, n_classes)) + np.linspace(0, -2.5, n_classes), axis=1)


def mixed(p):
    """Mix the last two classes, and add a wave to the first."""
    q = p.copy()
    q[:, -2:] = p[:, -2:].mean(axis=1, keepdims=True)
    wave = 0.24 * np.sin(2 * np.pi * p[:, 0]) * np.minimum(p[:, 0], 1 - p[:, 0])
    q[:, 1:] *= ((1 - q[:, 0] - wave) / (1 - q[:, 0]))[:, np.newaxis]
    q[:, 0] += wave
    return q


TRUTHS = {
    "calibrated": lambda p: p,
    "temperature .6": lambda p: softmax(0.6 * np.log(p), axis=1),
    "mixed classes": mixed,
    "shifted": lambda p: np.clip(p + 0.05, 0, 1),
    "slope .6": lambda p: expit(0.6 * logit(p)),
    "first shifted": lambda p: np.clip(p + 0.15 * (np.arange(p.shape[1]) == 0), 0, 1),
}
PREDICTIONS = {
    **dict.fromkeys(
        ("3 classes", "5 classes", "10 classes"), ("calibrated", "temperature .6", "mixed classes")
    ),
    **dict.fromkeys(
        ("3 labels", "5 labels", "10 labels"), ("calibrated", "shifted", "slope .6", "first shifted")
    ),
    "5 copies": ("calibrated", "shifted", "slope .6"),
}


def simulate(kind, truth, n, rng):
    """Return outcomes and predictions."""
    p = predictions_of(kind, n, rng)
    q = TRUTHS[truth](p)
    if "classes" not in kind:
        common = 1.0 if "copies" in kind else 0.6
        latent = np.sqrt(common) * rng.standard_normal((n, 1))
        latent = latent + np.sqrt(1 - common) * rng.standard_normal(p.shape)
        return (latent < ndtri(q)).astype(int), p
    return (rng.random((n, 1)) > np.cumsum(q, axis=1)[:, :-1]).sum(axis=1), p


def reduced_value(metric, reduction, kind, truth, n):
    """Return the metric of a population of n samples."""
    p = predictions_of(kind, n, np.random.default_rng(0))
    q, top = TRUTHS[truth](p), p.argmax(axis=1)
    rows = np.arange(n)
    if reduction == "classwise":
        problems = [(1 / p.shape[1], p[:, k], q[:, k]) for k in range(p.shape[1])]
    elif reduction == "confidence":
        problems = [(1, p[rows, top], q[rows, top])]
    else:
        of_class = [np.flatnonzero(top == k) for k in range(p.shape[1])]
        problems = [(len(m) / n, p[m, k], q[m, k]) for k, m in enumerate(of_class)]
    return sum(weight * population_value(metric, *problem) for weight, *problem in problems)


def measure(metrics, kind, truth, n, repetitions, n_resamples, n_population):
    """Return one line of the table for each metric and reduction."""
    of_classes = "classes" in kind
    names = list(product(metrics, ["classwise", "confidence", "top-label"][: 3 if of_classes else 1]))
    parts = {f"{metric}, classwise": np.empty((repetitions, 2)) for metric in metrics}
    ends = {f"{metric}, {reduction}": np.empty((repetitions, 2)) for metric, reduction in names}
    values = {
        f"{metric}, {reduction}": reduced_value(METRICS[metric], reduction, kind, truth, n_population)
        for metric, reduction in names
    }
    for r in range(repetitions):
        y, p = simulate(kind, truth, n, np.random.default_rng([n, r, *map(ord, kind + truth)]))
        labels = range(p.shape[1]) if of_classes else None
        given = {"n_resamples": n_resamples, "random_state": r}
        for metric in metrics:
            columns = [y == k for k in labels] if of_classes else y.T
            found = [
                confidence_interval(column, each, metric=METRICS[metric], **given)
                for column, each in zip(columns, p.T, strict=True)
            ]
            parts[f"{metric}, classwise"][r] = np.mean([[each.lower, each.upper] for each in found], axis=0)
        for metric, reduction in names:
            found = confidence_interval(
                y,
                p,
                metric=METRICS[metric],
                reduction=reduction,
                labels=labels,
                **given,
            )
            ends[f"{metric}, {reduction}"][r] = found.lower, found.upper
    lines = lines_of(ends, values, n, kind, truth, n_resamples)
    for line in lines:
        for name, table in ("", ends), ("parts_", parts):
            lower, upper = table.get(line["metric"], np.full((1, 2), np.nan)).mean(axis=0)
            line |= {f"{name}lower": lower, f"{name}upper": upper}
    return lines


def main():
    parser = parser_of(__doc__, repetitions=300, resamples=50, sizes=[200])
    parser.add_argument("--metrics", nargs="+", choices=METRICS, default=METRICS)
    parser.add_argument("--predictions", nargs="+", choices=PREDICTIONS, default=PREDICTIONS)
    parser.add_argument("--write", type=Path, help="also write the tables to this folder")
    args = parser.parse_args()
    if args.smoke:
        args.sizes, args.repetitions, args.resamples, args.predictions = [60], 1, 20, list(PREDICTIONS)[::2]
    lines, start = [], time.time()
    for n, kind in product(args.sizes, args.predictions):
        for truth in PREDICTIONS[kind]:
            n_population = 2000 if args.smoke else 100_000
            for line in measure(args.metrics, kind, truth, n, args.repetitions, args.resamples, n_population):
                lines.append(line)
                print(
                    "{metric:<24} {n:6d}  {predictions:<11} {truth:<15} {value:.4f}  {coverage:.3f} "
                    "({standard_error:.3f})  too high {too_high:.3f}  too low {too_low:.3f}  "
                    "[{lower:.3f}, {upper:.3f}] of parts [{parts_lower:.3f}, {parts_upper:.3f}]".format(
                        **line
                    ),
                    flush=True,
                )
        if args.write:
            write(lines, args.write, "classes")
    print(summary(lines), f"\n{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
