"""Fitting a calibrator beside scikit-learn's own regressors for calibration.

    python benchmarks/calibrator_speed.py

Ours groups equal scores, fits, and computes the training error for the certificate; theirs only fits. The two
run in turns, and each turn gives one ratio; the table shows the median time of ours, the median ratio theirs
/ ours, and its quartiles. Scores are continuous, the worst case for grouping. Everything runs on one thread,
and its processor time is measured, so that other programs on the machine disturb little.

Where scikit-learn has no such calibrator: beta calibration stands beside a logistic regression on both
logarithms, which is how it is commonly fitted; the spline, which searches for its penalty, beside a logistic
regression on as many splines at a single one; and Venn-Abers beside a single isotonic regression, where both
also predict as many rows.

    --sizes 1e3 1e5 1e6
    --seconds 4          time for each row of the table
    --smoke              one small size and two turns, to see that everything runs
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import time
from collections.abc import Callable

import numpy as np
import sklearn.calibration
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from sklearn_calib.calibrators import (
    BetaCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
    VennAbersCalibrator,
)

Task = Callable[[], object]
# The class is new in scikit-learn 1.8.
THEIR_TEMPERATURE = getattr(sklearn.calibration, "_TemperatureScaling", None)


def tasks(n: int) -> dict[str, tuple[Task, Task]]:
    """Return, by name, our fit and theirs, on the same rows."""
    rng = np.random.default_rng(0)
    score = 2 * rng.standard_normal(n)
    y = (rng.random(n) < expit(score / 2)).astype(np.int64)
    proba = expit(score)
    fresh = 2 * rng.standard_normal(n)
    sigmoid = sklearn.calibration._SigmoidCalibration
    found: dict[str, tuple[Task, Task]] = {
        "isotonic, probabilities": (
            lambda: IsotonicCalibrator().fit(proba, y),
            lambda: IsotonicRegression(out_of_bounds="clip").fit(proba, y),
        ),
        "isotonic, margins": (
            lambda: IsotonicCalibrator().fit(score, y),
            lambda: IsotonicRegression(out_of_bounds="clip").fit(score, y),
        ),
        "Platt, probabilities": (
            lambda: PlattCalibrator(link="identity").fit(proba, y),
            lambda: sigmoid().fit(proba, y),
        ),
        "Platt, margins": (
            lambda: PlattCalibrator(link="identity").fit(score, y),
            lambda: sigmoid().fit(score, y),
        ),
        "beta": (
            lambda: BetaCalibrator().fit(proba, y),
            lambda: LogisticRegression(C=1e12).fit(np.column_stack([np.log(proba), -np.log1p(-proba)]), y),
        ),
        "spline": (
            lambda: SplineCalibrator().fit(proba, y),
            lambda: make_pipeline(SplineTransformer(16, knots="quantile"), LogisticRegression()).fit(
                score[:, None], y
            ),
        ),
        "spline, monotone": (
            lambda: SplineCalibrator(monotone=True).fit(proba, y),
            lambda: make_pipeline(SplineTransformer(16, knots="quantile"), LogisticRegression()).fit(
                score[:, None], y
            ),
        ),
        "Venn-Abers, with prediction": (
            lambda: VennAbersCalibrator().fit(score, y).predict_interval(fresh),
            lambda: IsotonicRegression(out_of_bounds="clip").fit(score, y).predict(fresh),
        ),
    }
    if THEIR_TEMPERATURE is not None:
        both = np.column_stack([1 - proba, proba])
        found["temperature, two classes"] = (
            lambda: TemperatureCalibrator().fit(both, y),
            lambda: THEIR_TEMPERATURE().fit(both, y),
        )
        logits = 2 * rng.standard_normal((n, 10))
        several = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        label = (logits / 2 + rng.gumbel(size=(n, 10))).argmax(axis=1)
        label[:10] = np.arange(10)
        found["temperature, ten classes"] = (
            lambda: TemperatureCalibrator().fit(several, label),
            lambda: THEIR_TEMPERATURE().fit(several, label),
        )
    return found


def seconds(task: Task) -> float:
    start = time.process_time()
    task()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e3, 1e5, 1e6])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    sizes, budget = (
        ([1000], 0.0) if arguments.smoke else ([int(n) for n in arguments.sizes], arguments.seconds)
    )
    print(f"{'rows':>9}  {'calibrator':28}{'ours, s':>10}{'theirs / ours':>15}  quartiles")
    for n in sizes:
        for name, (ours, theirs) in tasks(n).items():
            ours(), theirs()
            times, end = [], time.perf_counter() + budget
            while len(times) < 2 or time.perf_counter() < end:
                times.append((seconds(ours), seconds(theirs)))
            mine = np.array(times)[:, 0]
            low, middle, high = np.quantile(np.array(times)[:, 1] / mine, [0.25, 0.5, 0.75])
            print(
                f"{n:9d}  {name:28}{np.median(mine):10.4f}{middle:15.2f}  {low:.2f} .. {high:.2f}", flush=True
            )


if __name__ == "__main__":
    main()
