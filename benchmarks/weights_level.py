"""Level and power of every test for samples with sampling weights.

    python benchmarks/weights_level.py

Rejection rates at level .05, with 199 simulations. The predictions have log-odds N(-1, 1.5^2); designs:

    lognormal        calibrated; weights are lognormal, independent of all else
    with p           calibrated; samples are drawn with probability .05 + .95 p
    strata 1:4       one half of the population is sampled a quarter as often as the other; predictions are
                     calibrated in the population, too low in one half and too high in the other
    strata 1:10      the same with a tenth
    continuous       the miscalibration depends on a variable, with which the probability of being drawn
                     increases from .05 to 1; the population is calibrated
    case-control     calibrated; all cases, and about as many controls
    rare shifted     power: the log-odds of the stratum that is sampled a quarter as often are too low by .8
    only population  power: the population is miscalibrated, and its sample, 1:4, would be calibrated
    slope            power: log-odds too far from 0, by the factor 4/3; lognormal weights
    cases shifted    power: case-control samples, log-odds too low by .5

Columns are the tests; "no weights" is CutoffTest without weights, "frequency" the same with weights of 1, 4
and 10 as frequencies. A rate r has the standard error sqrt(r (1 - r) / runs).

    --sizes 200 1000      numbers of samples
    --runs 400            samples of each design
    --csv PATH            where to write the table
    --smoke               one run of each, not saved
"""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _options import parser_of
from scipy.special import expit, logit
from sklearn.base import clone

from sklearn_calib.inference import (
    BinomialTest,
    CombinedTest,
    ConsistencyTest,
    CoxTest,
    CutoffTest,
    HosmerLemeshowTest,
    KernelTest,
    SampleSplittingTest,
    SpiegelhalterTest,
    TCal,
)

RESULTS = Path(__file__).parent / "results" / "weights_level.csv"
N = {"n_resamples": 199}
TESTS = {
    "tcal": TCal(**N),
    "kernel": KernelTest(**N),
    "cutoff": CutoffTest(**N),
    "cox": CoxTest(**N),
    "cox slope": CoxTest(parameter="slope", **N),
    "spiegelhalter": SpiegelhalterTest(**N),
    "hosmer-lemeshow": HosmerLemeshowTest(**N),
    "smooth ece": ConsistencyTest("smooth_ece", **N),
    "combined": CombinedTest(**N),
    "splitting": SampleSplittingTest(**N),
    "binomial": BinomialTest(**N),
    "cutoff asymptotic": CutoffTest(method="asymptotic"),
    "cox asymptotic": CoxTest(method="asymptotic"),
    "tcal asymptotic": TCal(method="asymptotic"),
}
Sample = tuple[np.ndarray, np.ndarray, np.ndarray]
Design = Callable[[np.random.Generator, int], Sample]


def predictions(rng: np.random.Generator, n: int) -> np.ndarray:
    return expit(rng.normal(-1.0, 1.5, n))


def selected(rng: np.random.Generator, n: int, values: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Return ``n`` of the values, which are drawn with the given probabilities."""
    return values[rng.random(values.shape[0]) < chance][:n]


def lognormal(rng: np.random.Generator, n: int, slope: float = 1.0) -> Sample:
    p = predictions(rng, n)
    return p, expit(slope * logit(p)), np.exp(0.8 * rng.standard_normal(n))


def with_p(rng: np.random.Generator, n: int) -> Sample:
    many = predictions(rng, 10 * n + 400)
    p = selected(rng, n, many, 0.05 + 0.95 * many)
    return p, p, 1.0 / (0.05 + 0.95 * p)


def strata(rng: np.random.Generator, n: int, ratio: float) -> Sample:
    p, often = predictions(rng, n), rng.random(n) < ratio / (1.0 + ratio)
    q = p + 0.8 * p * (1.0 - p) * np.where(often, -1.0, 1.0)
    return p, q, np.where(often, 1.0, ratio)


def continuous(rng: np.random.Generator, n: int) -> Sample:
    many = rng.random(10 * n)
    x, p = selected(rng, n, many, 0.05 + 0.95 * many), predictions(rng, n)
    return p, p + 1.6 * (0.5 - x) * p * (1.0 - p), 1.0 / (0.05 + 0.95 * x)


def rare_shifted(rng: np.random.Generator, n: int) -> Sample:
    p, often = predictions(rng, n), rng.random(n) < 0.8
    return p, np.where(often, p, expit(logit(p) + 0.8)), np.where(often, 1.0, 4.0)


def only_population(rng: np.random.Generator, n: int) -> Sample:
    p, often = predictions(rng, n), rng.random(n) < 0.8
    return p, p + 0.9 * p * (1.0 - p) * np.where(often, -0.25, 1.0), np.where(often, 1.0, 4.0)


def case_control(rng: np.random.Generator, n: int, shift: float = 0.0) -> Sample:
    """Return predictions, outcomes, and weights."""
    p = expit(rng.normal(-3.0, 1.5, 12 * n))
    y = rng.random(p.shape[0]) < expit(logit(p) + shift)
    chance = y.mean() / (1.0 - y.mean())
    kept = np.flatnonzero(rng.random(p.shape[0]) < np.where(y, 1.0, chance))[:n]
    return p[kept], y[kept], np.where(y[kept], 1.0, 1.0 / chance)


DESIGNS: dict[str, Design] = {
    "lognormal": lognormal,
    "with p": with_p,
    "strata 1:4": lambda rng, n: strata(rng, n, 4.0),
    "strata 1:10": lambda rng, n: strata(rng, n, 10.0),
    "continuous": continuous,
    "case-control": case_control,
    "rare shifted": rare_shifted,
    "only population": only_population,
    "slope": lambda rng, n: lognormal(rng, n, 0.75),
    "cases shifted": lambda rng, n: case_control(rng, n, 0.5),
}
WHOLE = ("strata 1:4", "strata 1:10")


def pvalues(name: str, rng: np.random.Generator, n: int) -> dict[str, float]:
    """Return the p-value of every test for one sample."""
    p, q, w = DESIGNS[name](rng, n)
    y = q if "case" in name else rng.random(p.shape[0]) < q
    y = np.asarray(y, dtype=np.int64)
    # a seed for all samples would make their results dependent
    tests = {key: clone(test) for key, test in TESTS.items()}
    for test in tests.values():
        if "random_state" in test.get_params():
            test.set_params(random_state=int(rng.integers(1 << 31)))
    found = {key: test.test(y, p, sample_weight=w).pvalue for key, test in tests.items() if key != "binomial"}
    # its predictions are tenths, with outcomes of the same distance from them
    tenths = np.clip(np.round(p, 1), 0.1, 0.9)
    if "case" not in name:
        moved = np.asarray(rng.random(p.shape[0]) < np.clip(tenths + q - p, 0.0, 1.0), dtype=np.int64)
        found["binomial"] = tests["binomial"].test(moved, tenths, sample_weight=w).pvalue
    found["no weights"] = tests["cutoff"].test(y, p).pvalue
    if name in WHOLE:
        found["frequency"] = tests["cutoff"].test(y, p, sample_weight=w, weights="frequency").pvalue
    return found


def main() -> None:
    options = parser_of(__doc__, sizes=[200, 1000], runs=400, csv=str(RESULTS)).parse_args()
    runs, sizes = (1, [60]) if options.smoke else (options.runs, options.sizes)
    columns = [*TESTS, "no weights", "frequency"]
    rows = []
    for n in sizes:
        for k, name in enumerate(DESIGNS):
            rng = np.random.default_rng([n, k])
            found = [pvalues(name, rng, n) for _ in range(runs)]
            row = {"n": n, "design": name, "runs": runs}
            for key in columns:
                values = np.array([each[key] for each in found if key in each])
                row[key] = f"{np.mean(values <= 0.05):.3f}" if values.size else ""
            rows.append(row)
            print(*(f"{key} {value}" for key, value in row.items()), sep=", ", flush=True)
            if not options.smoke:
                with open(options.csv, "w", newline="", encoding="utf-8") as file:
                    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(rows)


if __name__ == "__main__":
    main()
