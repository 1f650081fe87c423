"""Calibrators of several classes on the outputs of networks: held-out log loss, Brier score, time.

    python benchmarks/multiclass_calibration.py FILE [FILE ...]

Each file is an .npz archive with ``probs`` (n, K) and ``label`` (n,), for example softmax outputs on the test
images of CIFAR. Its rows are divided at random; the first part is calibrated, the rest scored. Without files,
forecasts are simulated: logits whose labels are drawn after a linear map that mixes pairs of classes.
Everything runs on one thread, and processor time is measured. Log losses are clipped at 2**-53.

    --rows 1000 5000     rows to calibrate
    --smoke              few simulated rows, to see that everything runs
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import time
from pathlib import Path

import numpy as np
from scipy.special import softmax

from sklearn_calib.calibrators import (
    DirichletCalibrator,
    IsotonicCalibrator,
    LogAverageCalibrator,
    MatrixScalingCalibrator,
    OneVsRestCalibrator,
    PlattCalibrator,
    StructuredMatrixScalingCalibrator,
    TemperatureCalibrator,
    TopLabelCalibrator,
    VectorScalingCalibrator,
)

CALIBRATORS = {
    "temperature": TemperatureCalibrator(),
    "vector": VectorScalingCalibrator(),
    "vector, cv": VectorScalingCalibrator("cv"),
    "matrix": MatrixScalingCalibrator(),
    "matrix, cv": MatrixScalingCalibrator("cv"),
    "structured matrix": StructuredMatrixScalingCalibrator(),
    "Dirichlet, cv": DirichletCalibrator(),
    "Dirichlet, free diagonal, cv": DirichletCalibrator(diagonal_penalty=0.0),
    "one vs rest Platt": OneVsRestCalibrator(PlattCalibrator()),
    "top label Platt": TopLabelCalibrator(PlattCalibrator()),
    "top label isotonic, pooled": TopLabelCalibrator(IsotonicCalibrator(), "pooled"),
    "log average": LogAverageCalibrator([OneVsRestCalibrator(PlattCalibrator()), MatrixScalingCalibrator()]),
}


def simulated(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return forecasts that are too sure and mix up neighbouring classes, and labels."""
    rng = np.random.default_rng(0)
    z = 2 * rng.standard_normal((n, k))
    mixed = 0.5 * z + 0.2 * np.roll(z, 1, axis=1)
    labels = (mixed + rng.gumbel(size=(n, k))).argmax(axis=1)
    labels[:k] = np.arange(k)
    return softmax(z, axis=1), labels


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--rows", type=float, nargs="+", default=[1e3, 5e3])
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    sizes = [200] if arguments.smoke else [int(n) for n in arguments.rows]
    samples = {}
    for file in arguments.files:
        with np.load(file) as stored:
            samples[file.stem] = stored["probs"].astype(np.float64), stored["label"].astype(np.int64)
    if not samples:
        samples = {
            f"simulated, {k} classes": simulated(400 if arguments.smoke else 10_000, k) for k in (3, 10)
        }
    print(f"{'sample':26}{'rows':>7}  {'calibrator':30}{'log loss':>10}{'Brier':>8}{'fit, s':>9}")
    for name, (proba, labels) in samples.items():
        order = np.random.default_rng(0).permutation(labels.shape[0])
        for n in sizes:
            fit, rest = order[:n], order[n:]
            if np.unique(labels[fit]).shape[0] < proba.shape[1]:
                print(f"{name[:25]:26}{n:7d}  lacks a class among the rows to calibrate")
                continue
            for title, calibrator in CALIBRATORS.items():
                start = time.process_time()
                calibrator.fit(proba[fit], labels[fit])
                seconds = time.process_time() - start
                found = calibrator.predict_proba(proba[rest])
                true = found[np.arange(rest.shape[0]), labels[rest]]
                loss = -np.log(np.maximum(true, 2.0**-53)).mean()
                brier = (np.square(found).sum(axis=1) - 2 * true + 1).mean()
                print(f"{name[:25]:26}{n:7d}  {title:30}{loss:10.4f}{brier:8.4f}{seconds:9.2f}", flush=True)


if __name__ == "__main__":
    main()
