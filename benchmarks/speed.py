"""Speed of the package as ratios measured in one run.

    python benchmarks/speed.py

Times depend on the machine, so each is divided by the time of np.sort of the same predictions. The two are
measured alternately; the table shows the median of the ratios and their quartiles. numpy sorts about eight
times faster on processors with supported vector instructions, so the ratio to its sort without these
instructions is also given, measured at the same time in a second process. Everything runs on one thread.
``compare_peers.py`` measures all other functions, and other packages.

    --sizes 1e3 1e4 1e5 1e6    numbers of predictions
    --only WORD ...            rows whose name contains one of the words
    --seconds 3                time for each row
    --smoke                    one small size, as a quick check
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from _timing import Clock, vector_features

Task = Callable[[], object]
Build = Callable[[np.ndarray, np.ndarray], Task]

SIZES = (10**3, 10**4, 10**5, 10**6)
REFERENCE = "np.sort"
SHORTEST = 2e-3  # seconds; shorter calls are repeated for at least this time


@dataclass(frozen=True)
class Row:
    """One call to time: how to create it from (y, p), its sizes, and its target."""

    name: str
    build: Build
    sizes: tuple[int, ...] | None = None
    target: str = ""


def metric(name: str, **params: Any) -> Build:
    def build(y: np.ndarray, p: np.ndarray) -> Task:
        from sklearn_calib import metrics

        function = getattr(metrics, name)
        return lambda: function(y, p, **params)

    return build


def tcal(**params: Any) -> Build:
    def build(y: np.ndarray, p: np.ndarray) -> Task:
        from sklearn_calib.inference import TCal

        test = TCal(**params)
        return lambda: test.test(y, p)

    return build


def binomial(**params: Any) -> Build:
    def build(y: np.ndarray, p: np.ndarray) -> Task:
        from sklearn_calib.inference import BinomialTest

        test = BinomialTest(**params)
        # each prediction is one value, observed about a hundred thousand times
        count = np.random.default_rng(0).integers(50_000, 150_000, p.shape[0])
        positives = np.random.default_rng(1).binomial(count, p)
        weight = np.concatenate([positives, count - positives])
        outcome = np.repeat([1, 0], p.shape[0])
        prob = np.concatenate([p, p])
        return lambda: test.test(outcome, prob, sample_weight=weight)

    return build


def band(y: np.ndarray, p: np.ndarray) -> Task:
    from sklearn_calib._validation import check_binary
    from sklearn_calib.plot._curve import reliability_curve

    sample = check_binary(y, p)
    return lambda: reliability_curve(sample)


def np_sort(y: np.ndarray, p: np.ndarray) -> Task:
    return lambda: np.sort(p)


ROWS = [
    Row("smooth_ece", metric("smooth_ece"), target="<= 0.25x at 1e6, < 0.5 ms at 1e3"),
    Row("smooth_ece, logit scale", metric("smooth_ece", scale="logit")),
    Row("logit_smoothed_ece", metric("logit_smoothed_ece"), target="<= 0.5x at 1e6"),
    Row("cutoff_calibration_error", metric("cutoff_calibration_error"), target="<= 1.5x at 1e6"),
    Row("smooth_calibration_error", metric("smooth_calibration_error")),
    Row("expected_calibration_error", metric("expected_calibration_error")),
    Row("expected_calibration_error, quantile", metric("expected_calibration_error", strategy="quantile")),
    Row("TCal, asymptotic", tcal(method="asymptotic"), target="<= 5x at 1e6"),
    Row("TCal, 999 draws", tcal(n_resamples=999, random_state=0), (10**4,), target="< 0.4 s at 1e4"),
    Row("BinomialTest, values seen 1e5 times", binomial(), (10**4,), target="< 0.5 s at 1e4"),
    Row("BinomialTest, doubled tail", binomial(two_sided="doubled"), (10**4,), target="< 0.3 s at 1e4"),
    Row("smooth reliability curve with band", band),
]

BUILDS = {row.name: row.build for row in ROWS} | {REFERENCE: np_sort}


@cache
def sample(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return outcomes and slightly miscalibrated predictions in [0, 1], more of them near the ends."""
    rng = np.random.default_rng(0)
    p = rng.beta(0.7, 0.9, n)
    return (rng.random(n) < p**1.1).astype(np.int64), p


@cache
def task(name: str, n: int) -> tuple[Task, int]:
    """Return the call to time, after a first call, and how often to repeat it in one measurement."""
    call = BUILDS[name](*sample(n))
    call()
    start = time.perf_counter()
    call()
    return call, max(1, round(SHORTEST / max(time.perf_counter() - start, 1e-9)))


def measure(name: str, n: int) -> float:
    """Return seconds for one call."""
    call, repeats = task(name, n)
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


class Helper(Clock):
    """The same measurements in another process, with another environment or other processor features."""

    def __init__(self, python: str, environment: dict[str, str]) -> None:
        super().__init__([python, "-W", "ignore", __file__, "--helper"], environment)

    def measure(self, name: str, n: int) -> float:
        """Time a call in the other process."""
        return self.ask(f"{name}\t{n}")

    @staticmethod
    def serve() -> None:
        """Answer requests from standard input until it ends."""
        for line in sys.stdin:
            name, n = line.rstrip("\n").split("\t")
            print(measure(name, int(n)), flush=True)


def summary(ratios: Sequence[float]) -> str:
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    return f"{middle:8.3g} [{low:.3g}, {high:.3g}]"


def run_row(row: Row, n: int, plain: Helper, budget: float) -> str:
    """Measure one row alternately with both sorts and return its line of the table."""
    measure(row.name, n)  # the first call is not counted
    rounds: list[tuple[float, float, float]] = []
    start = time.perf_counter()
    while len(rounds) < 5 or (time.perf_counter() - start < budget and len(rounds) < 101):
        rounds.append((measure(row.name, n), measure(REFERENCE, n), plain.measure(REFERENCE, n)))
    ours, sort, plain_sort = np.array(rounds).T
    columns = [
        f"{row.name:<38}",
        f"{n:>9,}",
        f"{np.median(ours) * 1e3:10.3f}",
        f"{np.median(sort) * 1e3:10.3f}",
        f"{summary(ours / sort):<22}",
        f"{summary(ours / plain_sort):<22}",
        row.target,
    ]
    return "| " + " | ".join(columns) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", type=lambda text: int(float(text)), default=SIZES)
    parser.add_argument("--only", nargs="+", metavar="WORD")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--helper", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.helper:
        Helper.serve()
        return
    sizes, budget = ((1000,), 0.0) if options.smoke else (options.sizes, options.seconds)

    print(f"Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}, one thread")
    print(f"vector instructions of numpy: {', '.join(vector_features()) or 'none beyond its baseline'}")
    print(
        "ratio: to np.sort of the same predictions, median [quartiles]; plain: without vector instructions\n"
    )
    print(f"| {'':<38} | {'n':>9} | {'ms':>10} | {'sort ms':>10} | {'ratio':<22} | {'plain':<22} | target |")
    print("|---|---|---|---|---|---|---|")
    with Helper(sys.executable, {"NPY_DISABLE_CPU_FEATURES": " ".join(vector_features())}) as plain:
        for row in ROWS:
            if options.only and not any(word in row.name for word in options.only):
                continue
            for n in sizes if row.sizes is None or options.smoke else row.sizes:
                print(run_row(row, n, plain, budget), flush=True)


if __name__ == "__main__":
    main()
