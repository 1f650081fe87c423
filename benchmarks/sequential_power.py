"""The sequential test: type I errors under continuous monitoring, power, and cost per observation.

    python benchmarks/sequential_power.py

First table: the fraction of calibrated streams whose e-value *ever* reaches 1 / alpha, which must not exceed
alpha, and for comparison the same for Cox's test repeated after every 100 observations, which has no such
guarantee. Second table: the fraction of miscalibrated streams rejected at level 0.05, and the median number
of observations at which the sequential test rejects, compared with tests at the end of the stream. The
standard error of a rate r is sqrt(r (1 - r) / repetitions).

    --size 2000                length of the streams
    --repetitions 200          streams for each row
    --smoke                    few short streams, as a quick check
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from scipy.special import expit, logit

from sklearn_calib.inference import CoxTest, SequentialTest, TCal

Truth = Callable[[np.ndarray], np.ndarray]

COX = CoxTest(statistic="likelihood_ratio", method="asymptotic")

PREDICTIONS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "uniform": lambda rng, n: rng.uniform(size=n),
    "near 0 and 1": lambda rng, n: expit(6.0 * rng.normal(size=n)),
    "tied": lambda rng, n: rng.integers(1, 10, size=n) / 10.0,
    "rare": lambda rng, n: rng.beta(0.5, 24.5, size=n),
}

ERRORS: dict[str, Truth] = {
    "shift by 0.2": lambda p: expit(logit(p) + 0.2),
    "shift by 0.4": lambda p: expit(logit(p) + 0.4),
    "slope 0.8": lambda p: expit(0.8 * logit(p)),
    "slope 0.6": lambda p: expit(0.6 * logit(p)),
    "oscillating by 0.1": lambda p: np.clip(p + 0.1 * np.sin(8.0 * np.pi * p), 0.0, 1.0),
    "oscillating by 0.2": lambda p: np.clip(p + 0.2 * np.sin(8.0 * np.pi * p), 0.0, 1.0),
    "local, 0.2 on [0.4, 0.5]": lambda p: p + 0.2 * ((p > 0.4) & (p < 0.5)),
}


def stream(rng: np.random.Generator, p: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (rng.random(p.shape[0]) < truth).astype(int), p


def level_table(size: int, repetitions: int) -> None:
    print(f"fraction of {repetitions} calibrated streams of {size} rejected at any time")
    print(f"{'predictions':14}{'alpha':>7}{'sequential':>12}{'Cox, repeated':>15}")
    for number, (name, make) in enumerate(PREDICTIONS.items()):
        once, repeated = [], []
        for i in range(repetitions):
            rng = np.random.default_rng([number, i])
            p = make(rng, size)
            y, p = stream(rng, p, p)
            once.append(SequentialTest().test(y, p, pos_label=1).pvalue)
            looks = range(100, size + 1, 100)
            repeated.append(min(COX.test(y[:n], p[:n], pos_label=1).pvalue for n in looks))
        for alpha in (0.01, 0.05, 0.1):
            rates = [np.mean(np.array(values) <= alpha) for values in (once, repeated)]
            print(f"{name:14}{alpha:7.2f}{rates[0]:12.3f}{rates[1]:15.3f}")


def power_table(size: int, repetitions: int) -> None:
    print(f"\nfraction of {repetitions} miscalibrated streams of {size} rejected at 0.05")
    print(f"{'error':26}{'sequential':>11}{'decided at':>11}{'Cox':>7}{'T-Cal':>7}")
    for number, (name, truth) in enumerate(ERRORS.items()):
        decided, cox, tcal = [], 0, 0
        for i in range(repetitions):
            rng = np.random.default_rng([100 + number, i])
            p = rng.uniform(size=size)
            y, p = stream(rng, p, truth(p))
            row = SequentialTest().test(y, p).rejected_at(0.05)
            decided.append(np.inf if row is None else row)
            cox += COX.test(y, p).rejects(0.05)
            tcal += TCal(method="asymptotic").test(y, p).rejects(0.05)
        times = np.array(decided)
        median = f"{np.median(times[np.isfinite(times)]):.0f}" if np.isfinite(times).any() else "-"
        share = np.isfinite(times).mean()
        print(f"{name:26}{share:11.3f}{median:>11}{cox / repetitions:7.3f}{tcal / repetitions:7.3f}")


def cost(size: int) -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(size=size)
    y, p = stream(rng, p, p)
    start = time.process_time()
    SequentialTest().test(y, p)
    whole = time.process_time() - start
    start = time.process_time()
    np.sort(p)
    print(
        f"\n{size} observations at once: {whole:.2f} s, {whole / (time.process_time() - start):.0f} np.sort"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    size, repetitions = (300, 3) if options.smoke else (options.size, options.repetitions)
    level_table(size, repetitions)
    power_table(size, repetitions)
    cost(10_000 if options.smoke else 1_000_000)


if __name__ == "__main__":
    main()
