"""Time of calibrated predictions: one sample, and a million.

    python benchmarks/serving.py

A logistic regression of ten features alone, in scikit-learn's CalibratedClassifierCV with isotonic
regression, and in CalibratedClassifier with isotonic regression and with the default spline; then the map
alone, for scores of the classifier: as a calibrator, loaded from JSON, and with ONNX Runtime if it is
installed. Shown is the median processor time of one thread over 9 repetitions, so that other
programs on the machine have little influence. Targets: 20 microseconds for one sample with a loaded map, and
for each pair of a CalibratedClassifier 150 microseconds more than the classifier alone.

    --out FILE           write the table
    --smoke              fewer samples and repetitions, as a quick check
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from sklearn_calib.calibrators import IsotonicCalibrator, SplineCalibrator
from sklearn_calib.export import from_json, to_json, to_onnx
from sklearn_calib.meta import CalibratedClassifier

MANY = 1_000_000


def calls(X: np.ndarray, y: np.ndarray) -> dict[str, tuple[Callable[[np.ndarray], Any], bool]]:
    """Return functions by name, and whether their input is scores instead of features."""
    bare = LogisticRegression().fit(X, y)
    scores = bare.predict_proba(X)[:, 1]
    found: dict[str, tuple[Callable[[np.ndarray], Any], bool]] = {
        "LogisticRegression": (bare.predict_proba, False)
    }
    for ensemble in (False, True):
        members = "5 members" if ensemble else "1 member"
        theirs = CalibratedClassifierCV(bare, method="isotonic", ensemble=ensemble).fit(X, y)
        found[f"CalibratedClassifierCV, isotonic, {members}"] = theirs.predict_proba, False
        for name, calibrator in (("isotonic", IsotonicCalibrator()), ("spline", SplineCalibrator())):
            ours = CalibratedClassifier(bare, calibrator, ensemble=ensemble).fit(X, y)
            found[f"CalibratedClassifier, {name}, {members}"] = ours.predict_proba, False
    for name, calibrator in (("isotonic", IsotonicCalibrator()), ("spline", SplineCalibrator())):
        calibrator.fit(scores, y)
        found[f"scores: {type(calibrator).__name__}"] = calibrator.transform, True
        loaded = from_json(to_json(calibrator))
        found[f"scores: {name} loaded from JSON ({loaded.n_knots_} knots)"] = loaded.transform, True
        if find_spec("skl2onnx") and find_spec("onnxruntime"):
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            model = to_onnx(loaded, dtype="float64").SerializeToString()
            session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            found[f"scores: {name} in ONNX Runtime"] = (
                lambda values, session=session: session.run(
                    ["probabilities"], {"scores": values[:, np.newaxis]}
                ),
                True,
            )
    return found


def measure(
    function: Callable[[np.ndarray], Any], values: np.ndarray, n_calls: int, repetitions: int
) -> float:
    """Return the median time of one call in seconds."""
    times = []
    for _ in range(repetitions + 1):
        start = time.process_time()
        for _ in range(n_calls):
            function(values)
        times.append((time.process_time() - start) / n_calls)
    return float(np.median(times[1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    many, repetitions, n_calls = (1000, 2, 5) if options.smoke else (MANY, 9, 300)
    X, y = make_classification(3000, n_features=10, flip_y=0.2, random_state=0)
    features = np.resize(X, (many, 10))
    scores = np.random.default_rng(0).random(many)
    lines = ["| prediction | one sample (microseconds) | a million samples (seconds) |", "|---|---|---|"]
    print("\n".join(lines))
    for name, (function, of_scores) in calls(X, y).items():
        values = scores if of_scores else features
        one = measure(function, values[:1].copy(), n_calls, repetitions) * 1e6
        all_of_them = measure(function, values, 1, min(repetitions, 3)) * MANY / many
        lines.append(f"| {name} | {one:.{1 if one < 10 else 0}f} | {all_of_them:.2f} |")
        print(lines[-1], flush=True)
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
