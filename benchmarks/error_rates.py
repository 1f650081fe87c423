"""Level and power of every test of calibration, by simulation.

    python benchmarks/error_rates.py level      rejection rates if predictions are the true probabilities
    python benchmarks/error_rates.py power      rejection rates at level .05 if they are not

Under the null hypothesis every rejection is a type I error: the rate should not exceed the level except by
chance. A rate that exceeds it by more than three standard errors is replaced by that of twice as many new
samples; only tests that are documented as asymptotic or approximate may exceed the level again. All tests
are applied to the same samples; of the recommended ones "level" applies five times as many.

    --sizes 50 200 1000         numbers of observations ("level" only; "power" has n = 1000)
    --repetitions 1000          samples for each table
    --only WORD ...             tests with this name, or if there is none, whose name contains the word
    --jobs 1                    processes
    --csv PATH                  write the table
    --figure PATH               plot it
    --smoke                     few samples, as a quick check
"""

import argparse
import csv
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from _error_figures import RECOMMENDED, draw_level, draw_power
from _options import parser_of
from joblib import Parallel, delayed
from scipy import special
from tcal_power import perturb

from sklearn_calib.inference import (
    BinomialTest,
    CombinedTest,
    ConsistencyTest,
    CoxTest,
    CutoffTest,
    HosmerLemeshowTest,
    KernelTest,
    SampleSplittingTest,
    SequentialTest,
    SpiegelhalterTest,
    TCal,
)
from sklearn_calib.metrics import smooth_ece

Distribution = Callable[[np.random.Generator, int], np.ndarray]
Make = Callable[..., Any]

LEVELS = (0.01, 0.05, 0.10)
POWER_SIZE = 1000

# ---- distributions of the predictions under the null hypothesis


def simplex(n_classes: int, concentration: float, rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.dirichlet(np.full(n_classes, concentration), n)


NULLS: dict[str, Distribution] = {
    "uniform": lambda rng, n: rng.uniform(size=n),
    "near 0 and 1": lambda rng, n: special.expit(6.0 * rng.normal(size=n)),
    "tied": lambda rng, n: rng.integers(1, 10, size=n) / 10.0,
    "rare": lambda rng, n: rng.beta(0.5, 24.5, size=n),
    "K = 3": partial(simplex, 3, 1.0),
    "K = 10": partial(simplex, 10, 0.2),
}

# ---- alternatives: a distribution of the predictions, and the calibration curve


def wave(k: int, p: np.ndarray) -> np.ndarray:
    return p + 0.15 * np.sin(2.0 * np.pi * k * (p - 0.2) / 0.6)


def _logistic(a: float, b: float, p: np.ndarray) -> np.ndarray:
    return special.expit(a + b * special.logit(p))


def _wave_everywhere(k: int, p: np.ndarray) -> np.ndarray:
    return p + 0.15 * np.sin(2.0 * np.pi * k * p)


def _normal_log_odds(rng: np.random.Generator, n: int) -> np.ndarray:
    return special.expit(rng.normal(0.0, 1.5, n))


def _curved(p: np.ndarray) -> np.ndarray:
    h = special.logit(p)
    return special.expit(h + 0.12 * (h**2 - 1.5**2))


def _middle(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.uniform(0.2, 0.8, n)


ALTERNATIVES: dict[str, tuple[Distribution, Callable[[np.ndarray], np.ndarray]]] = {
    "wave, 1 period": (_middle, partial(wave, 1)),
    "wave, 4 periods": (_middle, partial(wave, 4)),
    "wave, 8 periods": (_middle, partial(wave, 8)),
    "T-Cal bumps": (NULLS["uniform"], lambda p: perturb(p, 0.6, 100.0, 40)),
    "bump on [.4, .5]": (NULLS["uniform"], lambda p: p + 0.25 * ((p > 0.4) & (p < 0.5))),
    "slope .75": (NULLS["uniform"], partial(_logistic, 0.0, 0.75)),
    "slope 1.4": (NULLS["uniform"], partial(_logistic, 0.0, 1.4)),
    "shift .25": (NULLS["uniform"], partial(_logistic, 0.25, 1.0)),
    "rare, shift .5": (NULLS["rare"], partial(_logistic, 0.5, 1.0)),
    "rare, slope .7": (NULLS["rare"], partial(_logistic, -0.9, 0.7)),
    "tied, shift .25": (NULLS["tied"], partial(_logistic, 0.25, 1.0)),
    "wave on [0, 1], 4 periods": (NULLS["uniform"], partial(_wave_everywhere, 4)),
    "wave on [0, 1], 8 periods": (NULLS["uniform"], partial(_wave_everywhere, 8)),
    "bump at .7": (NULLS["uniform"], lambda p: p + 0.2 * np.exp(-0.5 * ((p - 0.7) / 0.04) ** 2)),
    "curved log-odds": (_normal_log_odds, _curved),
}

# ---- tests: how to create one from a generator, and the distributions to which it applies

BINARY = ("uniform", "near 0 and 1", "tied", "rare")
EVERYWHERE = tuple(NULLS)


TESTS: dict[str, tuple[Make, tuple[str, ...]]] = {
    "T-Cal": (partial(TCal, n_resamples=199), EVERYWHERE),
    "T-Cal, Bonferroni": (partial(TCal, n_resamples=599, combine="bonferroni"), EVERYWHERE),
    "T-Cal, s = 1": (partial(TCal, smoothness=1.0, n_resamples=199), EVERYWHERE),
    "T-Cal, confidence": (partial(TCal, n_resamples=199, reduction="confidence"), ("K = 3", "K = 10")),
    "T-Cal, asymptotic": (lambda random_state: TCal(method="asymptotic"), EVERYWHERE),
    "T-Cal, theory": (lambda random_state: TCal(method="theory"), EVERYWHERE),
    "sample splitting": (partial(SampleSplittingTest, n_resamples=199), EVERYWHERE),
    "sample splitting, cross-fitted": (
        partial(SampleSplittingTest, n_resamples=199, cross_fit=True),
        EVERYWHERE,
    ),
    "kernel": (partial(KernelTest, n_resamples=199), EVERYWHERE),
    "kernel, adaptive": (partial(KernelTest, bandwidth="adaptive", n_resamples=199), EVERYWHERE),
    "kernel, asymptotic": (lambda random_state: KernelTest(method="asymptotic"), BINARY),
    "combined": (partial(CombinedTest, n_resamples=199), BINARY),
    "combined, asymptotic": (lambda random_state: CombinedTest(method="asymptotic"), BINARY),
    "cutoff": (partial(CutoffTest, n_resamples=199), BINARY),
    "cutoff, asymptotic": (lambda random_state: CutoffTest(method="asymptotic"), BINARY),
    "smooth ECE, redrawn": (partial(ConsistencyTest, smooth_ece, n_resamples=199), BINARY),
    "binomial": (lambda random_state: BinomialTest(), ("tied",)),
    "Spiegelhalter": (partial(SpiegelhalterTest, n_resamples=199), BINARY),
    "Hosmer-Lemeshow": (partial(HosmerLemeshowTest, n_resamples=199), BINARY),
    "Cox": (partial(CoxTest, n_resamples=199), BINARY),
    "Spiegelhalter, asymptotic": (partial(SpiegelhalterTest, method="asymptotic"), BINARY),
    "Hosmer-Lemeshow, asymptotic": (partial(HosmerLemeshowTest, method="asymptotic"), BINARY),
    "Cox, asymptotic": (partial(CoxTest, method="asymptotic"), BINARY),
    "sequential": (lambda random_state: SequentialTest(), BINARY),
    "Cox, intercept": (partial(CoxTest, parameter="intercept", n_resamples=199), BINARY),
    "Cox, slope": (partial(CoxTest, parameter="slope", n_resamples=199), BINARY),
}


#: The largest n for slow tests, by name and by whether the problem is multiclass.
MOST_ROWS = {
    ("sample splitting, cross-fitted", False): 1000,
    ("sample splitting, cross-fitted", True): 1000,
    ("T-Cal, Bonferroni", True): 1000,
    ("kernel", True): 200,
    ("kernel, adaptive", True): 200,
}


#: Tests without a column of power, which is measured elsewhere or not of interest.
NOT_FOR_USE = (
    "T-Cal, theory",
    "sample splitting, cross-fitted",
)


def pvalues(
    distribution: Distribution,
    curve: Callable[[np.ndarray], np.ndarray] | None,
    n: int,
    seed: Sequence[int],
    names: Sequence[str],
) -> list[float]:
    """Return the p-value of each test on the sample of a seed."""
    rng = np.random.default_rng(seed)
    p = distribution(rng, n)
    if p.ndim == 1:
        y = (rng.uniform(size=n) < (p if curve is None else curve(p))).astype(int)
    else:
        y = (p.cumsum(axis=1)[:, :-1] < rng.uniform(size=(n, 1))).sum(axis=1)
    # an independent source of simulations for each test
    return [
        TESTS[name][0](random_state=np.random.default_rng((*seed, list(TESTS).index(name)))).test(y, p).pvalue
        for name in names
    ]


def simulate(
    distribution: Distribution,
    curve: Callable[[np.ndarray], np.ndarray] | None,
    key: tuple[int, int],
    repetitions: int,
    names: Sequence[str],
    jobs: int,
) -> np.ndarray:
    """Return p-values of shape (repetitions, tests)."""
    n = key[1]
    seeds = [(*key, repetition) for repetition in range(repetitions)]
    return np.array(
        Parallel(n_jobs=jobs)(delayed(pvalues)(distribution, curve, n, seed, names) for seed in seeds)
    )


def chosen(words: Sequence[str], distribution: str, n: int) -> list[str]:
    """Return the requested tests that apply to a distribution of the predictions, without the slowest."""
    return [
        name
        for name, (_, distributions) in TESTS.items()
        if distribution in distributions
        and (not words or any(word == name if word in TESTS else word in name for word in words))
        and n <= MOST_ROWS.get((name, distribution.startswith("K")), n)
    ]


def rates(column: np.ndarray) -> tuple[list[float], list[bool]]:
    """Return the rejection rate at each level, and whether it exceeds the level significantly."""
    found = [float(np.mean(column <= level + 1e-12)) for level in LEVELS]
    errors = [np.sqrt(level * (1.0 - level) / column.shape[0]) for level in LEVELS]
    return found, [r > level + 3.0 * e for r, level, e in zip(found, LEVELS, errors, strict=True)]


def level(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    for (index, (distribution_name, distribution)), n in product(enumerate(NULLS.items()), options.sizes):
        names = chosen(options.only, distribution_name, n)
        for group, factor in ((RECOMMENDED, 5), ([name for name in TESTS if name not in RECOMMENDED], 1)):
            tested = [name for name in names if name in group]
            values = simulate(
                distribution, None, (index, n), factor * options.repetitions, tested, options.jobs
            )
            columns = dict(zip(tested, values.T, strict=True))
            # all tests share their samples, so that an unusual set of them would affect all
            doubtful = [name for name, column in columns.items() if any(rates(column)[1])]
            again = simulate(distribution, None, (50 + index, n), 2 * len(values), doubtful, options.jobs)
            for name, column in (columns | dict(zip(doubtful, again.T, strict=True))).items():
                found, beyond = rates(column)
                rows.append(
                    {"test": name, "predictions": distribution_name, "n": n, "samples": column.shape[0]}
                    | {f"at_{level:g}": f"{r:.4f}" for r, level in zip(found, LEVELS, strict=True)}
                    | {"exceeds": "yes" if any(beyond) else "no"}
                )
                print("".join(f"{value!s:<{32 if key == 'test' else 14}}" for key, value in rows[-1].items()))
    rows.sort(
        key=lambda row: (list(NULLS).index(row["predictions"]), row["n"], list(TESTS).index(row["test"]))
    )
    exceeding = [row for row in rows if row["exceeds"] == "yes"]
    print(f"{len(exceeding)} of {len(rows)} rates exceed a level by more than three standard errors")
    if options.csv:
        path = options.csv.with_name(f"{options.csv.stem}_exceeded.csv")
        write_csv(path, exceeding, [key for key in rows[0] if key != "exceeds"])
    return rows


def write_csv(path: Path, rows: Sequence[dict[str, Any]], heads: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, heads, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def power(options: argparse.Namespace) -> list[dict[str, Any]]:
    table: dict[str, dict[str, Any]] = {}
    n = 50 if options.smoke else POWER_SIZE
    for index, (name, (distribution, curve)) in enumerate(ALTERNATIVES.items()):
        distribution_name = next((key for key, value in NULLS.items() if value is distribution), "uniform")
        tests = [test for test in chosen(options.only, distribution_name, n) if test not in NOT_FOR_USE]
        values = simulate(distribution, curve, (100 + index, n), options.repetitions, tests, options.jobs)
        for test, column in zip(tests, values.T, strict=True):
            table.setdefault(test, {"test": test})[name] = f"{np.mean(column <= 0.05 + 1e-12):.3f}"
        print(f"{name}: done", flush=True)
    rows = [{name: row.get(name, "") for name in ("test", *ALTERNATIVES)} for row in table.values()]
    # largest difference to the best test with an exact level
    every = np.array([[float(row[name] or 0.0) for name in ALTERNATIVES] for row in rows])
    best = every[["asymptotic" not in row["test"] for row in rows]].max(axis=0)
    for row, lost in zip(rows, (best - every).max(axis=1), strict=True):
        row["largest loss"] = f"{lost:.3f}"
    heads = [*ALTERNATIVES, "largest loss"]
    print(f"\nRejection rates at level .05, n = {n}, {options.repetitions} samples; ", end="")
    print(f"standard errors at most {0.5 / np.sqrt(options.repetitions):.3f}")
    for k, head in enumerate(heads, start=1):
        print(f"  ({k}) {head}")
    print(f"  {'':<44}" + "".join(f"{f'({k})':>7}" for k in range(1, len(heads) + 1)))
    for row in rows:
        print(f"  {row['test']:<44}" + "".join(f"{row[head]:>7}" for head in heads))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__, repetitions=1000, jobs=1, sizes=[50, 200, 1000])
    parser.add_argument("what", nargs="?", choices=["level", "power"])
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args(arguments)
    if options.smoke:
        options.sizes, options.repetitions = [50], 1
    elif options.what is None:
        parser.error("the first argument must be level or power")
    for what, measure, draw in (("level", level, draw_level), ("power", power, draw_power)):
        if options.what not in (what, None):
            continue
        rows = measure(options)
        if options.csv:
            write_csv(options.csv, rows, list(rows[0]))
        if options.figure:
            options.figure.parent.mkdir(parents=True, exist_ok=True)
            draw(options.figure, rows)


if __name__ == "__main__":
    main()
