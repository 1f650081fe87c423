"""False segments of calibrated predictions, and power against miscalibration of a segment, of find_segments.

    python benchmarks/segments_power.py [--write FOLDER]

There are four categorical and six numerical features, of which some determine the predictions. Outcomes have
the predicted probabilities, but for a segment: one category, of 15% of the samples, and values of another
feature above a limit that is not the limit of a bin.

    reported    fraction of the repetitions in which some segment is reported
    hit         fraction in which a reported segment and the miscalibrated samples have more than 0.3 of their
                union in common
    segments    mean number of reported segments
    bias        of segments that hit, mean of the estimated difference minus the true one
    covered     fraction of all reported segments whose interval contains the true difference

    --repetitions 200    repetitions; four times as many for up to 5000 samples
    --simulations 199    simulations in each
    --write FOLDER       write the table
    --time               instead, seconds and peak memory of one million samples, and of 200 features
    --smoke              two repetitions of a few cases, as a quick check
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[_variable] = "1"

import re
import resource
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _options import parser_of

from sklearn_calib.inference import find_segments, multicalibration_error


class Case(NamedTuple):
    """A segment of a fraction ``size`` of n samples, with probabilities above the predictions by ``off``."""

    name: str
    n: int
    size: float = 0.0
    off: float = 0.0
    base: float = -0.8
    design: str = ""


CASES = [
    *(Case("calibrated", n) for n in (1000, 5000, 20_000)),
    *(Case("calibrated, rare events", n, base=-5.0) for n in (5000, 20_000)),
    Case("calibrated, weights", 5000, design="weights"),
    Case("calibrated, clusters", 5000, design="clusters"),
    *(Case("5% off by 0.1", n, 0.05, 0.1) for n in (5000, 20_000)),
    *(Case("10% off by 0.1", n, 0.1, 0.1) for n in (5000, 20_000)),
    *(Case("10% off by 0.05", n, 0.1, 0.05) for n in (5000, 20_000)),
]


def sample(case: Case, rng: np.random.Generator) -> tuple[dict, np.ndarray, np.ndarray, np.ndarray, dict]:
    """Return features, outcomes, predictions, true probabilities, and further arguments."""
    n = case.n
    letters = [
        rng.choice(5, n, p=[0.35, 0.25, 0.2, 0.15, 0.05]),
        rng.choice(8, n),
        rng.choice(2, n),
        rng.choice(12, n, p=(1.0 / np.arange(1, 13)) / (1.0 / np.arange(1, 13)).sum()),
    ]
    numbers = rng.standard_normal((n, 6)) @ np.linalg.cholesky(0.3 + 0.7 * np.eye(6)).T
    log_odds = case.base + 0.7 * numbers[:, 0] + 0.5 * numbers[:, 1] - 0.5 * numbers[:, 2]
    log_odds += np.array([-0.3, 0.2, 0.0, 0.4, -0.5])[letters[0]]
    p = 1.0 / (1.0 + np.exp(-log_odds))
    here = letters[0] == 3
    inside = here & (numbers[:, 3] > np.quantile(numbers[here, 3], 1.0 - case.size / 0.15))
    truth = np.clip(p + case.off * inside, 0.0, 1.0)
    X = {f"letter{j}": np.array(list("abcdefghijkl"))[code] for j, code in enumerate(letters)}
    X |= {f"number{j}": column for j, column in enumerate(numbers.T)}
    uniform, more = rng.random(n), {}
    if case.design == "weights":
        more["sample_weight"] = np.exp(0.7 * rng.standard_normal(n))
    elif case.design == "clusters":
        from scipy.special import ndtr

        code = rng.integers(n // 25, size=n)
        effect = rng.standard_normal(n // 25)[code]
        uniform = ndtr(np.sqrt(0.05) * effect + np.sqrt(0.95) * rng.standard_normal(n))
        more["clusters"] = code
    return X, (uniform < truth).astype(int), p, truth, more


def members(words: str, X: dict) -> np.ndarray:
    """Return which samples are in a segment that is described in words."""
    inside = np.ones(len(next(iter(X.values()))), dtype=bool)
    for part in [] if words == "all samples" else words.split(" and "):
        low, name, sign, value = re.fullmatch(r"(?:(\S+) < )?(\w+) (=|<=|>) (\S+)", part).groups()
        column = X[name]
        if sign == "=":
            inside &= column == value
        else:
            inside &= column <= float(value) if sign == "<=" else column > float(value)
        if low is not None:
            inside &= column > float(low)
    return inside


def measure(case: Case, repetitions: int, simulations: int) -> dict[str, float]:
    """Return the frequencies of a case."""
    reported, hits, numbers, estimates, covered, seconds = [], [], [], [], [], 0.0
    for repetition in range(repetitions):
        X, y, p, truth, more = sample(case, np.random.default_rng([case.n, repetition]))
        begin = time.perf_counter()
        found = find_segments(X, y, p, n_resamples=simulations, random_state=repetition, **more).segments
        seconds += time.perf_counter() - begin
        wrong, hit = truth != p, False
        weight = more.get("sample_weight", np.ones(case.n))
        for row in found:
            inside = members(row.segment, X)
            true = float(np.average((truth - p)[inside], weights=weight[inside]))
            covered.append(row.lower <= true <= row.upper)
            if (inside & wrong).sum() > 0.3 * (inside | wrong).sum():
                hit = True
                estimates.append(row.difference - true)
        reported.append(bool(found))
        numbers.append(len(found))
        hits.append(hit)
    return {
        "reported": float(np.mean(reported)),
        "hit": float(np.mean(hits)),
        "segments": float(np.mean(numbers)),
        "bias": float(np.mean(estimates)) if estimates else np.nan,
        "covered": float(np.mean(covered)) if covered else np.nan,
        "seconds": seconds / repetitions,
    }


def time_of_large() -> None:
    """Print the seconds, and the peak memory besides the data, of many samples, and of many features."""
    X, y, p, _, _ = sample(Case("calibrated", 1_000_000), np.random.default_rng(0))
    columns = list(X)
    many = np.random.default_rng(0).standard_normal((1500, 200))
    for name, run in (
        ("find_segments, a million samples", lambda: find_segments(X, y, p)),
        ("find_segments, segments=all columns", lambda: find_segments(X, y, p, segments=columns)),
        (
            "multicalibration_error, segments=all columns",
            lambda: multicalibration_error(X, y, p, segments=columns),
        ),
        ("find_segments, 200 features of 1500 samples", lambda: find_segments(many, y[:1500], p[:1500])),
    ):
        before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        run()
        more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(f"{name}: {time.perf_counter() - begin:.0f} s, {more:.0f} MB more", flush=True)


def main() -> None:
    parser = parser_of(__doc__, repetitions=200, simulations=199)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--time", action="store_true")
    arguments = parser.parse_args()
    if arguments.time:
        time_of_large()
        return
    cases = [case._replace(n=2000) for case in CASES if case.n == 5000] if arguments.smoke else CASES
    lines = ["case,n,repetitions,reported,hit,segments,bias,covered"]
    for case in cases:
        repetitions = 2 if arguments.smoke else arguments.repetitions * (4 if case.n <= 5000 else 1)
        row = measure(case, repetitions, 39 if arguments.smoke else arguments.simulations)
        numbers = ",".join("" if np.isnan(row[key]) else f"{row[key]:.3f}" for key in list(row)[:-1])
        lines.append(f'"{case.name}",{case.n},{repetitions},{numbers}')
        print(f"{lines[-1]}   {row['seconds']:.2f} s", flush=True)
    if arguments.write:
        (arguments.write / "segments_power.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
