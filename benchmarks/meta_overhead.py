"""Time of CalibratedClassifier, compared with scikit-learn's CalibratedClassifierCV.

    python benchmarks/meta_overhead.py

Both fit the same classifier with the same folds and the same type of calibrator, and then predict as many
samples as they were fitted to. The two alternate, and each repetition gives one ratio; the table shows the
median and quartiles. Processor time of one thread is measured, so that other programs on the machine have
little influence. Target: a median of at most 1.05 in every row.

A second table compares predict_proba of the default, ``CalibratedClassifier(LogisticRegression())`` with five
folds, with that of the classifier alone, for one sample and for many.

    --rows 1000 20000    numbers of training samples
    --seconds 6          time for each row of the table (at least 9 repetitions)
    --only WORD          classifiers whose name contains the word; "default": only the second table
    --many 200000        number of samples of the second table
    --smoke              one small size and two repetitions, as a quick check
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import time
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from sklearn_calib.calibrators import IsotonicCalibrator, PlattCalibrator
from sklearn_calib.meta import CalibratedClassifier

TARGET = 1.05
CALIBRATORS = {"isotonic": IsotonicCalibrator(), "sigmoid": PlattCalibrator(link="identity")}
ESTIMATORS = {
    "naive Bayes": GaussianNB(),
    "logistic": LogisticRegression(),
    "forest": RandomForestClassifier(10, max_depth=8, random_state=0),
}


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    estimator: str
    method: str
    ensemble: bool
    n_classes: int
    n_rows: int

    def models(self) -> tuple[Any, Any]:
        """Return ours and scikit-learn's."""
        base = ESTIMATORS[self.estimator]
        ours = CalibratedClassifier(base, CALIBRATORS[self.method], ensemble=self.ensemble)
        return ours, CalibratedClassifierCV(base, method=self.method, ensemble=self.ensemble)

    def __str__(self) -> str:
        return (
            f"{self.estimator:<12} {self.method:<9} {'ensemble' if self.ensemble else 'one':<9} "
            f"{self.n_classes:>7} {self.n_rows:>7}"
        )


def seconds(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the processor time of fitting and predicting."""
    start = time.process_time()
    model.fit(X, y).predict_proba(X)
    return time.process_time() - start


def measure(case: Case, budget: float, repetitions: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return times of ours, times of scikit-learn's, and their ratio in each repetition."""
    X, y = make_classification(
        case.n_rows, n_features=10, n_informative=5, n_classes=case.n_classes, flip_y=0.1, random_state=0
    )
    ours, theirs = case.models()
    gap = np.abs(clone(ours).fit(X, y).predict_proba(X) - clone(theirs).fit(X, y).predict_proba(X)).max()
    if gap > 1e-4:
        raise RuntimeError(f"{case}: the results differ by {gap:.2g}, so times cannot be compared.")
    times: list[tuple[float, float]] = []
    end = time.perf_counter() + budget
    while len(times) < (repetitions or 9) or (repetitions is None and time.perf_counter() < end):
        if len(times) % 2:
            second, first = seconds(theirs, X, y), seconds(ours, X, y)
        else:
            first, second = seconds(ours, X, y), seconds(theirs, X, y)
        times.append((first, second))
    mine, reference = np.array(times).T
    return mine, reference, mine / reference


def compare_default(many: int, repetitions: int) -> None:
    """Print the time of predict_proba of the default, compared with the classifier alone."""
    print("\npredict_proba of the default, compared with LogisticRegression\n")
    print(f"{'classes':>7} {'samples':>8} {'ms':>10} {'ms alone':>9}  ratio")
    for n_classes, n in product((2, 3, 10), (1, many)):
        X, y = make_classification(
            3000, n_features=10, n_informative=6, n_classes=n_classes, flip_y=0.1, random_state=0
        )
        bare = LogisticRegression().fit(X, y)
        model = CalibratedClassifier(LogisticRegression()).fit(X, y)
        queries = np.resize(X, (n, 10))
        # a call for one sample is shorter than the resolution of the clock
        calls = 20 if n == 1 else 1
        times = []
        for _ in range(repetitions + 1):
            pair = []
            for estimator in (model, bare):
                start = time.process_time()
                for _ in range(calls):
                    estimator.predict_proba(queries)
                pair.append((time.process_time() - start) / calls * 1e3)
            times.append(pair)
        ours, theirs = np.array(times[1:]).T
        print(
            f"{n_classes:7d} {n:8d} {np.median(ours):10.3f} {np.median(theirs):9.3f}  "
            f"{np.median(ours / theirs):.1f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 20000])
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--many", type=int, default=200000)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    rows = [300] if options.smoke else options.rows
    print("ratio: time of CalibratedClassifier to that of CalibratedClassifierCV, fit and predict_proba\n")
    heads = f"{'classifier':<12} {'method':<9} {'mode':<9} {'classes':>7} {'samples':>7}"
    print(f"{heads} {'ms':>9} {'sklearn':>9}  ratio")
    medians = []
    names = [name for name in ESTIMATORS if options.only in name]
    for values in product(names, CALIBRATORS, (True, False), (2, 3), rows):
        case = Case(*values)
        mine, reference, ratio = measure(case, options.seconds, 2 if options.smoke else None)
        low, middle, high = np.quantile(ratio, [0.25, 0.5, 0.75])
        medians.append(middle)
        mark = "" if middle <= TARGET else f"  above {TARGET}"
        print(
            f"{case} {np.median(mine) * 1e3:9.2f} {np.median(reference) * 1e3:9.2f}  "
            f"{middle:.3f} [{low:.3f}, {high:.3f}] of {ratio.size}{mark}",
            flush=True,
        )
    if medians:
        print(f"\nhighest median {max(medians):.3f}, target {TARGET}")
    compare_default(300 if options.smoke else options.many, 2 if options.smoke else 9)


if __name__ == "__main__":
    main()
