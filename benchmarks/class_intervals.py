"""Coverage of the 95% confidence intervals of calibration errors of several classes or labels.

Probabilities of K classes are calibrated, too confident (temperature), or those of two classes are mixed and
that of another has a nonlinear error; the outcomes of five labels have a common cause, and are calibrated or
shifted. The script takes about half an hour:

    python benchmarks/class_intervals.py --write benchmarks/results
"""

import time
from itertools import product
from pathlib import Path

import numpy as np
from _options import parser_of
from _population import population_value
from interval_coverage import lines_of, summary, write
from scipy.special import expit, ndtri, softmax

from sklearn_calib.inference import confidence_interval
from sklearn_calib.metrics import cutoff_calibration_error, smooth_ece

METRICS = {"smooth ECE": smooth_ece, "cutoff": cutoff_calibration_error}


def predictions_of(kind, n, rng):
    """Return probabilities of classes, (n, K), or of five labels."""
    if kind == "5 labels":
        return expit(rng.standard_normal((n, 5)) + rng.standard_normal((n, 1)) + np.linspace(-2, 0, 5))
    n_classes = int(kind.split()[0])
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
}
PREDICTIONS = ("3 classes", "10 classes", "5 labels")


def simulate(kind, truth, n, rng):
    """Return outcomes and predictions."""
    p = predictions_of(kind, n, rng)
    q = TRUTHS[truth](p)
    if kind == "5 labels":
        latent = np.sqrt(0.6) * rng.standard_normal((n, 1)) + np.sqrt(0.4) * rng.standard_normal((n, 5))
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


def measure(kind, truth, n, repetitions, n_resamples, n_population):
    """Return one line of the table for each metric and reduction."""
    reductions = ["classwise"] if kind == "5 labels" else ["classwise", "confidence", "top-label"]
    names = list(product(METRICS, reductions))
    ends = {f"{metric}, {reduction}": np.empty((repetitions, 2)) for metric, reduction in names}
    values = {
        f"{metric}, {reduction}": reduced_value(METRICS[metric], reduction, kind, truth, n_population)
        for metric, reduction in names
    }
    for r in range(repetitions):
        y, p = simulate(kind, truth, n, np.random.default_rng([n, r, *map(ord, kind + truth)]))
        labels = None if kind == "5 labels" else range(p.shape[1])
        for metric, reduction in names:
            found = confidence_interval(
                y,
                p,
                metric=METRICS[metric],
                n_resamples=n_resamples,
                random_state=r,
                reduction=reduction,
                labels=labels,
            )
            ends[f"{metric}, {reduction}"][r] = found.lower, found.upper
    return lines_of(ends, values, n, kind, truth, n_resamples)


def main():
    parser = parser_of(__doc__, repetitions=300, resamples=50, sizes=[500])
    parser.add_argument("--predictions", nargs="+", choices=PREDICTIONS, default=PREDICTIONS)
    parser.add_argument("--write", type=Path, help="also write the tables to this folder")
    args = parser.parse_args()
    if args.smoke:
        args.sizes, args.repetitions, args.resamples, args.predictions = [60], 1, 20, PREDICTIONS[::2]
    lines, start = [], time.time()
    for n, kind in product(args.sizes, args.predictions):
        of_kind = ["calibrated", "shifted"] if kind == "5 labels" else list(TRUTHS)[:3]
        for truth in of_kind:
            for line in measure(
                kind, truth, n, args.repetitions, args.resamples, 2000 if args.smoke else 100_000
            ):
                lines.append(line)
                print(
                    "{metric:<24} {n:6d}  {predictions:<11} {truth:<15} {value:.4f}  {coverage:.3f} "
                    "({standard_error:.3f})  too high {too_high:.3f}  too low {too_low:.3f}  "
                    "width {width:.3f}".format(**line),
                    flush=True,
                )
        if args.write:
            write(lines, args.write, "classes")
    print(summary(lines), f"\n{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
