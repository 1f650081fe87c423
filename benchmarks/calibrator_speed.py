"""Time of fitting a calibrator, compared with scikit-learn's regressors.

    python benchmarks/calibrator_speed.py
    python benchmarks/calibrator_speed.py --only target

Other packages are compared by ``compare_peers.py``. Our calibrators group equal scores, fit the map, and
compute the training error for the certificate; scikit-learn's regressors only fit. Each repetition measures
ours, scikit-learn's and ``np.sort`` of the same scores, and gives one ratio. The table shows our median time,
the median of the ratios scikit-learn / ours with quartiles, and our median time as a multiple of the sort.
Scores are continuous, the worst case for grouping. Processor time of one thread is measured, so that other
programs on the machine have little influence.

If scikit-learn does not have the calibrator, it is compared as follows: beta calibration with a logistic
regression on both logarithms, the usual implementation; the spline, which selects its penalty, with a
logistic regression on the same number of splines with a fixed penalty; Venn-Abers calibration with a single
isotonic regression, including prediction of as many samples. There is no comparison for vector scaling of ten
classes, Dirichlet calibration (10 000 softmax outputs of 100 classes for all sizes), and certificates of
fitted maps with 999 bootstrap samples. The last column is the target, for a million samples unless it states
another number.

    --sizes 1e3 1e5 1e6
    --seconds 4          time for each row of the table
    --softmax FILE       softmax outputs for Dirichlet calibration: an .npz with ``probs`` and ``label``;
                         simulated by default
    --only WORD ...      only rows whose name, peer or target contains a word; "target" for those with one
    --smoke              one small size and two repetitions, as a quick check
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sklearn.calibration
from scipy.special import expit, softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from sklearn_calib.calibrators import (
    BetaCalibrator,
    DirichletCalibrator,
    HistogramBinningCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
    VectorScalingCalibrator,
    VennAbersCalibrator,
)

Task = Callable[[], object]
# The class is new in scikit-learn 1.8.
THEIR_TEMPERATURE = getattr(sklearn.calibration, "_TemperatureScaling", None)


@dataclass(frozen=True)
class Row:
    """Our task, that of scikit-learn if there is one, the scores for the sort, and the target."""

    name: str
    peer: str
    ours: Task
    theirs: Task | None
    scores: np.ndarray
    target: str = ""

    def chosen(self, words: list[str]) -> bool:
        """Tell whether one of the words is in the line, or there are none."""
        shown = f"{self.name} {self.peer} {'target ' + self.target if self.target else ''}"
        return not words or any(word in shown for word in words)


@dataclass(frozen=True)
class Sample:
    """Margins, probabilities and outcomes of n samples, and as many new probabilities."""

    score: np.ndarray
    proba: np.ndarray
    y: np.ndarray
    fresh: np.ndarray

    @classmethod
    def draw(cls, n: int) -> "Sample":
        """Return samples whose margins are too large by a factor of 2."""
        rng = np.random.default_rng(0)
        score = 2 * rng.standard_normal(n)
        y = (rng.random(n) < expit(score / 2)).astype(np.int64)
        return cls(score, expit(score), y, expit(2 * rng.standard_normal(n)))


def both(p: np.ndarray) -> np.ndarray:
    return np.column_stack([1 - p, p])


def rows(n: int) -> Iterator[Row]:
    """Yield the rows of the table."""
    sample = Sample.draw(n)
    score, proba, y, fresh = sample.score, sample.proba, sample.y, sample.fresh
    columns = both(proba)
    sigmoid = sklearn.calibration._SigmoidCalibration

    def isotonic(x: np.ndarray) -> IsotonicRegression:
        return IsotonicRegression(out_of_bounds="clip").fit(x, y)

    def splines() -> object:
        model = make_pipeline(SplineTransformer(16, knots="quantile"), LogisticRegression())
        return model.fit(score[:, None], y)

    def logarithms() -> object:
        return LogisticRegression(C=1e12).fit(np.column_stack([np.log(proba), -np.log1p(-proba)]), y)

    faster, five = "ratio > 1", "ratio >= 5"
    for name, x in (("probabilities", proba), ("margins", score)):
        yield Row(
            f"isotonic, {name}",
            "scikit-learn",
            lambda x=x: IsotonicCalibrator().fit(x, y).transform(x),
            lambda x=x: isotonic(x).predict(x),
            x,
            faster,
        )
    for name, x in (("probabilities", proba), ("margins", score)):
        yield Row(
            f"Platt, {name}",
            "scikit-learn",
            lambda x=x: PlattCalibrator(link="identity").fit(x, y),
            lambda x=x: sigmoid().fit(x, y),
            x,
            five,
        )
    if THEIR_TEMPERATURE is not None:
        yield Row(
            "temperature, two classes",
            "scikit-learn",
            lambda: TemperatureCalibrator().fit(columns, y),
            lambda: THEIR_TEMPERATURE().fit(columns, y),
            proba,
            five,
        )
        rng = np.random.default_rng(1)
        logits = 2 * rng.standard_normal((n, 10))
        label = (logits / 2 + rng.gumbel(size=(n, 10))).argmax(axis=1)
        label[:10] = np.arange(10)
        several = softmax(logits, axis=1)
        yield Row(
            "temperature, ten classes",
            "scikit-learn",
            lambda: TemperatureCalibrator().fit(several, label),
            lambda: THEIR_TEMPERATURE().fit(several, label),
            proba,
        )
        yield Row(
            "vector scaling, ten classes",
            "",
            lambda: VectorScalingCalibrator().fit(several, label),
            None,
            proba,
            "< 12 s",
        )
    yield Row("beta", "scikit-learn", lambda: BetaCalibrator().fit(proba, y), logarithms, proba)
    yield Row("spline", "scikit-learn", lambda: SplineCalibrator().fit(proba, y), splines, proba)
    yield Row(
        "spline, monotone",
        "scikit-learn",
        lambda: SplineCalibrator(monotone=True).fit(proba, y),
        splines,
        proba,
        "< 3 s",
    )
    yield Row(
        "Venn-Abers, with prediction",
        "scikit-learn",
        lambda: VennAbersCalibrator().fit(proba, y).predict_interval(fresh),
        lambda: isotonic(proba).predict(fresh),
        proba,
    )
    for name, calibrator in (
        ("isotonic", IsotonicCalibrator()),
        ("Platt", PlattCalibrator()),
        ("binning", HistogramBinningCalibrator()),
        ("monotone spline", SplineCalibrator(monotone=True)),
    ):
        calibrator.fit(proba, y)
        yield Row(
            f"certificate, {name}",
            "",
            lambda calibrator=calibrator: calibrator.cutoff_certificate(random_state=0),
            None,
            proba,
            "< 0.5 s at 100 000",
        )


def dirichlet_row(path: Path | None, n: int, n_classes: int) -> Row:
    """Return Dirichlet calibration of softmax outputs, from a file or simulated."""
    if path is None:
        rng = np.random.default_rng(2)
        logits = rng.standard_normal((n, n_classes))
        label = rng.integers(0, n_classes, n)
        label[:n_classes] = np.arange(n_classes)
        logits[np.arange(n), label] += 3.0 + rng.standard_normal(n)
        probs = softmax(2 * logits, axis=1)
    else:
        with np.load(path) as archive:
            probs, label = archive["probs"].astype(np.float64), archive["label"]
    return Row(
        f"Dirichlet, {probs.shape[0]} x {probs.shape[1]}",
        "",
        lambda: DirichletCalibrator().fit(probs, label),
        None,
        probs[:, 0],
        "< 30 s",
    )


def seconds(task: Task) -> float:
    start = time.process_time()
    task()
    return time.process_time() - start


def run_row(row: Row, n: int, budget: float) -> str:
    """Measure alternately, and return a line of the table."""
    times, end, least = [], time.perf_counter() + budget, 2
    while len(times) < least or time.perf_counter() < end:
        theirs = np.nan if row.theirs is None else seconds(row.theirs)
        times.append((seconds(row.ours), theirs, seconds(lambda: np.sort(row.scores))))
    # the first repetition warms up, unless it took so long that this is negligible
    ours, theirs, sort = np.array(times[1:] if len(times) > 2 else times).T
    low, middle, high = np.quantile(theirs / ours, [0.25, 0.5, 0.75])
    ratio = "" if row.theirs is None else f"{middle:8.2f}  {low:7.2f} .. {high:.2f}"
    return (
        f"{n:9d}  {row.name:28}{row.peer:24}{np.median(ours):9.4f}{np.median(ours / sort):9.1f}"
        f"{ratio:30}{row.target}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e3, 1e5, 1e6])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--softmax", type=Path)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    sizes, classes, budget = [int(n) for n in arguments.sizes], 100, arguments.seconds
    if arguments.smoke:
        sizes, classes, budget = [1000], 5, 0.0
    print(f"scikit-learn {sklearn.__version__}, numpy {np.__version__}, one thread")
    print(
        f"{'samples':>9}  {'calibrator':28}{'scikit-learn':24}{'ours, s':>9}{'/ sort':>9}"
        f"{'  sklearn / ours, quartiles':30}target"
    )
    for n in sizes:
        for row in rows(n):
            if row.chosen(arguments.only):
                print(run_row(row, n, budget), flush=True)
    dirichlet = dirichlet_row(arguments.softmax, 100 * classes, classes)
    if dirichlet.chosen(arguments.only):
        print(run_row(dirichlet, dirichlet.scores.shape[0], 0.0))


if __name__ == "__main__":
    main()
