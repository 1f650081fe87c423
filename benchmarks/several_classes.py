"""Level and power of the tests of calibration with three and ten classes, by simulation.

    python benchmarks/several_classes.py

Predictions are softmax(1.5 z + b) for standard normal z and equally spaced b from 0 to -2.5. Labels have the
predicted probabilities ("calibrated"), or those with the logit of one class greater by .45 (K = 10: .7), with
all logits times .75, or with the last two classes mixed (.35) or swapped (K = 10). Rejection rates at .05.

    --classes 3 10              numbers of classes
    --size 300                  samples
    --level 300, --power 200    repetitions
    --csv benchmarks/results/several_classes.csv
    --smoke                     few samples, as a quick check
"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _options import options_of
from scipy.special import softmax

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

DRAWS = 199


def tests() -> dict[str, Any]:
    return {
        "smooth ECE, joint": ConsistencyTest("smooth_ece", n_resamples=DRAWS),
        "T-Cal, canonical": TCal(n_resamples=DRAWS),
        "T-Cal, joint": TCal(reduction="joint", n_resamples=DRAWS),
        "kernel, canonical": KernelTest(n_resamples=DRAWS),
        "kernel, joint": KernelTest(reduction="joint", n_resamples=DRAWS),
        "cutoff, joint": CutoffTest(n_resamples=DRAWS),
        "Cox, joint": CoxTest(n_resamples=DRAWS),
        "Spiegelhalter, joint": SpiegelhalterTest(n_resamples=DRAWS),
        "Hosmer-Lemeshow, joint": HosmerLemeshowTest(n_resamples=DRAWS),
        "combined, joint": CombinedTest(n_resamples=DRAWS),
        "sample splitting, joint": SampleSplittingTest(reduction="joint", n_resamples=DRAWS),
        "binomial, joint": BinomialTest(max_values=10**6),
    }


def one_class(p: np.ndarray) -> np.ndarray:
    logits = np.log(p)
    logits[:, 1] += 0.45 if p.shape[1] == 3 else 0.7
    return softmax(logits, axis=1)


def mixed(p: np.ndarray) -> np.ndarray:
    q, a = p.copy(), 0.35 if p.shape[1] == 3 else 1.0
    q[:, -2] = (1 - a) * p[:, -2] + a * p[:, -1]
    q[:, -1] = (1 - a) * p[:, -1] + a * p[:, -2]
    return q


TRUTHS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "calibrated": lambda p: p,
    "one class": one_class,
    "temperature": lambda p: softmax(0.75 * np.log(p), axis=1),
    "two classes mixed": mixed,
}


def rates(truth: str, n_classes: int, n: int, runs: int, names: list[str]) -> list[dict[str, Any]]:
    rng = np.random.default_rng([n_classes, list(TRUTHS).index(truth)])
    found, rejected = tests(), dict.fromkeys(names, 0)
    for _ in range(runs):
        p = softmax(1.5 * rng.standard_normal((n, n_classes)) + np.linspace(0, -2.5, n_classes), axis=1)
        y = (rng.random(n)[:, None] > np.cumsum(TRUTHS[truth](p), axis=1)[:, :-1]).sum(axis=1)
        seed = int(rng.integers(1 << 31))
        for name in names:
            test = found[name]
            if "random_state" in test.get_params():
                test.set_params(random_state=seed)
            rejected[name] += test.test(y, p, labels=range(n_classes)).rejects(0.05 + 1e-12)
    return [
        {"labels": truth, "classes": n_classes, "test": name, "samples": runs, "rejected": f"{k / runs:.3f}"}
        for name, k in rejected.items()
    ]


def main() -> None:
    options = options_of(
        __doc__,
        classes=[3, 10],
        size=300,
        level=300,
        power=200,
        csv="benchmarks/results/several_classes.csv",
    )
    level, power, size = (1, 1, 40) if options.smoke else (options.level, options.power, options.size)
    table = []
    for n_classes in options.classes:
        for truth in TRUTHS:
            names = list(tests()) if truth == "calibrated" else list(tests())[:5]
            runs = level if truth == "calibrated" else power
            for row in rates(truth, n_classes, size, runs, names):
                print(*row.values(), sep="  ", flush=True)
                table.append(row)
    if not options.smoke:
        with Path(options.csv).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
