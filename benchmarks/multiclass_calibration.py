"""Held-out log loss of multiclass calibrators, relative to temperature scaling, and time.

    python benchmarks/multiclass_calibration.py [FILE ...]

A file is an .npz archive: with ``probs`` (n, K) and ``label`` (n,) it holds forecasts, for example softmax
outputs on the test images of CIFAR; with ``X`` and ``y`` a table, of which classifiers of scikit-learn are
trained on one part and predict the rest. scikit-learn's digits and wine are always included. Without
forecasts in files, some are simulated: logits whose labels are sampled after a linear map that mixes pairs of
classes.

The forecasts are split at random, ``--splits`` times; the first ``--rows`` are used for calibration, the rest
for evaluation. The first table has the mean log loss of temperature scaling, clipped at 2**-53, and the
difference of each calibrator with default parameters, in units of 0.0001; the last lines have the mean and
the maximum over the data sets. A class without a calibration sample gets one of weight zero; calibrators that
then raise an error are omitted (nan). The second table has the Brier score of the largest fits, and the third
the time of a fit to all samples, in seconds of processor time on one thread.

    --rows 100 500 1000 5000     calibration samples; at most 60% of a data set
    --splits 6                   random splits
    --smoke                      few simulated samples, one split, as a quick check
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_calib.calibrators import (
    BaseCalibrator,
    DirichletCalibrator,
    LogAverageCalibrator,
    MatrixScalingCalibrator,
    OneVsRestCalibrator,
    PlattCalibrator,
    SplineCalibrator,
    StructuredMatrixScalingCalibrator,
    TemperatureCalibrator,
    VectorScalingCalibrator,
    VennAbersCalibrator,
)

CALIBRATORS = {
    "temper.": TemperatureCalibrator(),
    "vector": VectorScalingCalibrator(),
    "matrix": MatrixScalingCalibrator(),
    "struct.": StructuredMatrixScalingCalibrator(),
    "Dirich.": DirichletCalibrator(),
    "log av.": LogAverageCalibrator(),
    "ovr Pl.": OneVsRestCalibrator(PlattCalibrator()),
    "ovr sp.": OneVsRestCalibrator(SplineCalibrator()),
    "ovr VA": OneVsRestCalibrator(VennAbersCalibrator()),
}
CLASSIFIERS = {
    "Bayes": GaussianNB(),
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "forest": RandomForestClassifier(100, random_state=0),
    "network": make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=200, random_state=0)),
}
# Fraction of training samples of a table, and their maximum number.
TRAINING, MOST_TRAINING = 0.3, 1000

Sample = tuple[np.ndarray, np.ndarray]


def simulated(n: int, k: int) -> Sample:
    """Return overconfident forecasts that confuse neighbouring classes, and labels."""
    rng = np.random.default_rng(0)
    z = 2 * rng.standard_normal((n, k))
    mixed = 0.5 * z + 0.2 * np.roll(z, 1, axis=1)
    labels = (mixed + rng.gumbel(size=(n, k))).argmax(axis=1)
    labels[:k] = np.arange(k)
    return softmax(z, axis=1), labels


def forecasts(name: str, X: np.ndarray, y: np.ndarray) -> dict[str, Sample]:
    """Return the forecasts of classifiers for held-out samples of a table."""
    codes = np.unique(y, return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(codes.shape[0])
    size = min(MOST_TRAINING, int(TRAINING * codes.shape[0]))
    train, rest = order[:size], order[size:]
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for title, classifier in CLASSIFIERS.items():
            proba = clone(classifier).fit(X[train], codes[train]).predict_proba(X[rest])
            found[f"{name}, {title}"] = proba, codes[rest]
    return found


def collect(files: list[Path], smoke: bool) -> dict[str, Sample]:
    """Return the samples by name."""
    samples: dict[str, Sample] = {}
    for file in files:
        with np.load(file, allow_pickle=False) as stored:
            if "probs" in stored:
                samples[file.stem] = stored["probs"].astype(np.float64), stored["label"].astype(np.int64)
            else:
                samples |= forecasts(file.stem, stored["X"].astype(np.float64), stored["y"])
    if not any(file.stem in samples for file in files):
        samples |= {f"simulated, {k} classes": simulated(400 if smoke else 10_000, k) for k in (3, 10)}
    if not smoke:
        for name, load in (("digits", load_digits), ("wine", load_wine)):
            samples |= forecasts(name, *load(return_X_y=True))
    return samples


def fit(calibrator: BaseEstimator, proba: np.ndarray, labels: np.ndarray) -> BaseCalibrator:
    """Return the fitted calibrator; classes without samples get a sample of weight zero."""
    absent = np.setdiff1d(np.arange(proba.shape[1]), labels)
    if absent.size == 0:
        return clone(calibrator).fit(proba, labels)
    weight = np.concatenate([np.ones(labels.shape[0]), np.zeros(absent.shape[0])])
    even = np.full((absent.shape[0], proba.shape[1]), 1.0 / proba.shape[1])
    return clone(calibrator).fit(np.vstack([proba, even]), np.concatenate([labels, absent]), weight)


def scores(calibrator: BaseEstimator, sample: Sample, n: int, split: int) -> tuple[float, float]:
    """Return log loss and Brier score of the held-out samples, or nan."""
    proba, labels = sample
    order = np.random.default_rng(split).permutation(labels.shape[0])
    rows, rest = order[:n], order[n:]
    try:
        found = fit(calibrator, proba[rows], labels[rows]).predict_proba(proba[rest])
    except ValueError:
        return np.nan, np.nan
    true = found[np.arange(rest.shape[0]), labels[rest]]
    return float(-np.log(np.maximum(true, 2.0**-53)).mean()), float(
        (np.square(found).sum(axis=1) - 2 * true + 1).mean()
    )


def line(name: str, n: int | str, values: np.ndarray, form: str) -> None:
    print(f"{name[:25]:26}{n:>6}" + "".join(f"{value:9{form}}" for value in values), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--rows", type=float, nargs="+", default=[1e2, 5e2, 1e3, 5e3])
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    sizes = [200] if arguments.smoke else [int(n) for n in arguments.rows]
    splits = 1 if arguments.smoke else arguments.splits
    samples = collect(arguments.files, arguments.smoke)
    head = f"{'sample':26}{'rows':>6}" + "".join(f"{title:>9}" for title in CALIBRATORS)
    print("log loss of temperature scaling; differences of the others, in 0.0001")
    print(head)
    brier = {}
    for n in sizes:
        table = []
        for name, sample in samples.items():
            if n > 0.6 * sample[1].shape[0]:
                continue
            found = np.array(
                [
                    np.mean([scores(calibrator, sample, n, split) for split in range(splits)], axis=0)
                    for calibrator in CALIBRATORS.values()
                ]
            )
            table.append(1e4 * (found[:, 0] - found[0, 0]))
            print(f"{name[:25]:26}{n:6d}{found[0, 0]:9.4f}", end="")
            print("".join(f"{value:9.0f}" for value in table[-1][1:]), flush=True)
            brier[name] = n, found[:, 1]
        if table:
            line("mean", n, np.mean(table, axis=0), ".0f")
            line("worst", n, np.max(table, axis=0), ".0f")
    print("\nBrier score, sum over the classes")
    print(head)
    for name, (n, values) in brier.items():
        line(name, n, values, ".4f")
    print("\nseconds of a fit to all samples")
    print(head)
    for name, (proba, labels) in samples.items():
        seconds = []
        for calibrator in CALIBRATORS.values():
            start = time.process_time()
            fit(calibrator, proba, labels)
            seconds.append(time.process_time() - start)
        line(name, labels.shape[0], np.array(seconds), ".2f")


if __name__ == "__main__":
    main()
