"""Rejection rates of kernel tests for calibrated predictions, and for predictions with shifted log-odds.

    python benchmarks/kernel_level.py

With a shift of 0 every rejection is a type I error, and the rate should not exceed the level except by
chance. Monte Carlo tests are exact; "asymptotic" is an approximation, which is evaluated here. With another
shift the rate is the power. The standard error of a rate r is sqrt(r (1 - r) / repetitions).

    --sizes 20 1000            numbers of observations
    --repetitions 500          samples for each size
    --shift 0                  shift of the logit of the predictions
    --wave 0                   amplitude of an oscillating deviation with 4 periods, in units of p (1 - p)
    --only WORD ...            rows whose name contains one of the words
    --smoke                    few samples, as a quick check
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import expit, logit

from sklearn_calib.inference import CalibrationTest, KernelTest, TCal

LEVELS = (0.01, 0.05, 0.10)

PREDICTIONS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "uniform": lambda rng, n: rng.uniform(size=n),
    "near 0 and 1": lambda rng, n: expit(6.0 * rng.normal(size=n)),
    "rare": lambda rng, n: rng.beta(0.5, 24.5, size=n),
}

TESTS: dict[str, tuple[type[CalibrationTest], dict[str, Any]]] = {
    "draws, laplacian": (KernelTest, {"n_resamples": 199}),
    "draws, gaussian": (KernelTest, {"kernel": "gaussian", "n_resamples": 199}),
    "draws, adaptive": (KernelTest, {"bandwidth": "adaptive", "n_resamples": 199}),
    "asymptotic, laplacian": (KernelTest, {"method": "asymptotic"}),
    "asymptotic, gaussian": (KernelTest, {"kernel": "gaussian", "method": "asymptotic"}),
    "asymptotic, block": (KernelTest, {"estimator": "block"}),
    "asymptotic, linear": (KernelTest, {"estimator": "linear"}),
    "theory": (KernelTest, {"method": "theory"}),
    "T-Cal": (TCal, {"n_resamples": 199}),
}


def pvalues(
    predictions: str, n: int, seed: Sequence[int], names: Sequence[str], shift: float, wave: float
) -> list[float]:
    rng = np.random.default_rng(seed)
    p = PREDICTIONS[predictions](rng, n)
    truth = p
    if shift:
        truth = expit(logit(np.clip(p, 1e-300, 1.0 - 1e-16)) + shift)
    truth = truth + wave * p * (1.0 - p) * np.sin(8.0 * np.pi * p)
    y = rng.uniform(size=n) < truth
    found = []
    for name in names:
        kind, parameters = TESTS[name]
        found.append(kind(**parameters, random_state=rng).test(y, p, pos_label=True).pvalue)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 1000])
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--shift", type=float, default=0.0)
    parser.add_argument("--wave", type=float, default=0.0)
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args(arguments)
    repetitions = 5 if options.smoke else options.repetitions
    names = [name for name in TESTS if any(word in name for word in options.only)]
    for n in options.sizes:
        for index, predictions in enumerate(PREDICTIONS):
            values = np.array(
                [
                    pvalues(predictions, n, (index, n, repetition), names, options.shift, options.wave)
                    for repetition in range(repetitions)
                ]
            )
            print(f"\nn = {n}, predictions {predictions}, {repetitions} samples")
            print(f"  {'':<24}" + "".join(f"{level:>8.2f}" for level in LEVELS))
            for name, column in zip(names, values.T, strict=True):
                print(f"  {name:<24}" + "".join(f"{np.mean(column <= level):8.3f}" for level in LEVELS))


if __name__ == "__main__":
    main()
