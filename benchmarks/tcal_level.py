"""How often T-Cal rejects perfect calibration: rejection rates under the null hypothesis.

    python benchmarks/tcal_level.py

Outcomes are drawn from the predictions, so every rejection is an error; the rate should not exceed the
level but by chance. "labels" is exact for every n and every way to combine scales (Bonferroni and "theory"
are conservative); "pairs" and "asymptotic" are approximations, and this is their test. The standard error
of a rate r is sqrt(r (1 - r) / repetitions); the last line of each table gives it for the nominal levels.

    --sizes 60 1000            numbers of observations
    --repetitions 1000 400     samples for each size
    --only WORD ...            rows whose name contains one of the words
    --jobs 1                   processes
    --smoke                    few samples, to see that everything runs
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit

from sklearn_calib.inference import TCal

LEVELS = (0.01, 0.05, 0.10)

PREDICTIONS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "uniform": lambda rng, n: rng.uniform(size=n),
    "near 0 and 1": lambda rng, n: expit(6.0 * rng.normal(size=n)),
    "tied": lambda rng, n: rng.integers(1, 10, size=n) / 10.0,
    "rare": lambda rng, n: rng.beta(0.5, 24.5, size=n),
}

METHODS: dict[str, dict[str, Any]] = {
    "labels, max": {"n_resamples": 199},
    "labels, min-p": {"n_resamples": 199, "combine": "min-p"},
    "labels, bonferroni": {"n_resamples": 399, "combine": "bonferroni"},
    "labels, s = 1": {"n_resamples": 199, "smoothness": 1.0},
    "pairs, max": {"n_resamples": 199, "resample": "pairs"},
    "pairs, s = 1": {"n_resamples": 199, "resample": "pairs", "smoothness": 1.0},
    "asymptotic, max": {"method": "asymptotic"},
    "asymptotic, min-p": {"method": "asymptotic", "combine": "min-p"},
    "asymptotic, bonferroni": {"method": "asymptotic", "combine": "bonferroni"},
    "asymptotic, s = 1": {"method": "asymptotic", "smoothness": 1.0},
    "theory": {"method": "theory"},
}


def pvalues(predictions: str, n: int, seed: Sequence[int], methods: Sequence[str]) -> list[float]:
    rng = np.random.default_rng(seed)
    p = PREDICTIONS[predictions](rng, n)
    y = rng.uniform(size=n) < p
    return [TCal(random_state=rng, **METHODS[method]).test(y, p).pvalue for method in methods]


def table(predictions: str, n: int, repetitions: int, methods: Sequence[str], jobs: int) -> None:
    index = list(PREDICTIONS).index(predictions)
    values = np.array(
        Parallel(n_jobs=jobs)(
            delayed(pvalues)(predictions, n, (index, n, repetition), methods)
            for repetition in range(repetitions)
        )
    )
    print(f"\nn = {n}, predictions {predictions}, {repetitions} samples")
    print(f"  {'':<24}" + "".join(f"{level:>8.2f}" for level in LEVELS))
    for method, column in zip(methods, values.T, strict=True):
        print(f"  {method:<24}" + "".join(f"{np.mean(column <= level):8.3f}" for level in LEVELS))
    errors = [np.sqrt(level * (1.0 - level) / repetitions) for level in LEVELS]
    print(f"  {'(standard error)':<24}" + "".join(f"{error:8.3f}" for error in errors))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[60, 1000])
    parser.add_argument("--repetitions", type=int, nargs="+", default=[1000, 400])
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args(arguments)
    repetitions = [10] * len(options.sizes) if options.smoke else options.repetitions
    if len(repetitions) != len(options.sizes):
        parser.error("give one number of repetitions for each size")
    methods = [name for name in METHODS if any(word in name for word in options.only)]
    for n, repeats in zip(options.sizes, repetitions, strict=True):
        for predictions in PREDICTIONS:
            table(predictions, n, repeats, methods, options.jobs)


if __name__ == "__main__":
    main()
