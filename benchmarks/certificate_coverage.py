"""How often certificates hold, for calibrators fitted on the rows that they certify.

    python benchmarks/certificate_coverage.py

Every truth is a law on finitely many scores, each with its mass and its event probability, so that the cutoff
calibration error of a fitted map in the population is computed exactly. In each repetition n rows are drawn,
each calibrator is fitted, and its certificates are compared with that error. Shown are the share of
repetitions in which they hold, the binomial standard error of that of "asymptotic", and the means of the true
error and of the certificates. A sample with outcomes of one kind only cannot be fitted and is drawn again.

Certificates make room for the monotone map that fits its rows most deceptively. The rows "any map" show how
much of this room is needed: the true error is there the largest amount, over all monotone maps and intervals,
by which the sample and the population can disagree, and the certificate is the margin alone.

    --repetitions 500
    --confidence .95
    --sizes 200 1000 5000
    --smoke               few repetitions and two sizes, to see that everything runs
"""

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from sklearn_calib._core._bounds import cutoff_bound
from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib.calibrators import IsotonicCalibrator, ModifiedPlattCalibrator, PlattCalibrator
from sklearn_calib.calibrators._certificate import MonotoneCalibrator, cutoff_error_of_map

METHODS = ("asymptotic", "dkw", "paper")
CALIBRATORS: dict[str, Callable[[], MonotoneCalibrator]] = {
    "isotonic": IsotonicCalibrator,
    "Platt": PlattCalibrator,
    "modified Platt": ModifiedPlattCalibrator,
}
ANY_MAP = "any map"


@dataclass(frozen=True)
class Truth:
    """Scores in increasing order, their masses, and their event probabilities."""

    score: np.ndarray
    mass: np.ndarray
    event: np.ndarray

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return scores and outcomes of n independent rows, with at least one outcome of each kind."""
        while True:
            rows = rng.choice(self.score.shape[0], n, p=self.mass)
            y = (rng.random(n) < self.event[rows]).astype(int)
            if 0 < y.sum() < n:
                return self.score[rows], y

    def cutoff_error(self, calibrator: MonotoneCalibrator) -> float:
        """Return the cutoff calibration error of a fitted map in the population."""
        population = GroupedOutcomes(self.score, self.mass, self.mass * self.event)
        return cutoff_error_of_map(population, calibrator.transform(self.score))

    def largest_disagreement(self, scores: np.ndarray, y: np.ndarray) -> float:
        """Return the supremum over monotone h and intervals J of |(P_n - P)[(Y - h(f)) 1{f in J}]|.

        It is linear in h, so steps from 0 to 1 suffice: with walks W_y of the excess share of rows with Y =
        y, a rising step at c within J = [a, b] gives W_1(c) - W_1(a) - (W_0(b) - W_0(c)), a falling step the
        same with both classes exchanged.
        """
        n, cells = scores.shape[0], self.score.shape[0]
        rows = np.searchsorted(self.score, scores)
        events = np.bincount(rows, weights=y, minlength=cells) / n - self.mass * self.event
        others = np.bincount(rows, weights=1 - y, minlength=cells) / n - self.mass * (1 - self.event)
        one, zero = (np.concatenate([[0.0], np.cumsum(excess)]) for excess in (events, others))
        return max(
            largest_step(sign * first, sign * second)
            for sign in (1, -1)
            for first, second in ((one, zero), (zero, one))
        )


@dataclass(frozen=True)
class Result:
    """What the repetitions of one truth, size and calibrator gave; arrays hold one number per method."""

    truth: str
    n: int
    calibrator: str
    coverage: np.ndarray
    certificate: np.ndarray
    error: float


def largest_step(before: np.ndarray, after: np.ndarray) -> float:
    """Return the largest before(c) - before(a) - after(b) + after(c) over a <= c <= b."""
    rise = before - np.minimum.accumulate(before)
    fall = after - np.minimum.accumulate(after[::-1])[::-1]
    return float((rise + fall).max())


def dense(event: Callable[[np.ndarray], np.ndarray], density: Callable[[np.ndarray], np.ndarray]) -> Truth:
    """Return a truth on 1000 scores, the middles of equal cells of [0, 1]."""
    score = (np.arange(1000) + 0.5) / 1000
    mass = density(score)
    return Truth(score, mass / mass.sum(), event(score))


def atoms(score: list[float], mass: list[float], event: list[float]) -> Truth:
    return Truth(np.array(score), np.array(mass) / sum(mass), np.array(event))


def flat(p: np.ndarray) -> np.ndarray:
    return np.ones_like(p)


def at_the_ends(p: np.ndarray) -> np.ndarray:
    return 1 / np.sqrt(p * (1 - p))


def rare(p: np.ndarray) -> np.ndarray:
    return np.exp(-100 * p)


TRUTHS = {
    "calibrated": dense(lambda p: p, flat),
    "over-confident": dense(lambda p: expit(0.4 * logit(p)), at_the_ends),
    "under-confident": dense(lambda p: expit(2.5 * logit(p)), flat),
    "shifted": dense(lambda p: expit(logit(p) - 1), flat),
    "wave": dense(lambda p: np.clip(p + 0.2 * np.sin(6 * np.pi * p), 0, 1), flat),
    "noise": dense(lambda p: np.full_like(p, 0.5), flat),
    "sharp step": dense(lambda p: (p > 0.5).astype(float), flat),
    "reversed": dense(lambda p: 1 - p, flat),
    "rare, calibrated": dense(lambda p: p, rare),
    "rare, overstated": dense(lambda p: p / 3, rare),
    "four atoms": atoms([0, 0.25, 0.5, 1], [1, 1, 1, 1], [1, 0, 0, 1]),
    "two atoms": atoms([0.3, 0.7], [1, 1], [0.5, 0.5]),
    "atoms, rare": atoms([0.001, 0.01, 0.1], [0.9, 0.09, 0.01], [0.005, 0.03, 0.2]),
}


def simulate(
    name: str, n: int, repetitions: int, confidence: float, rng: np.random.Generator
) -> list[Result]:
    """Return one result per calibrator, all of them fitted to the same rows, and one for any map."""
    truth = TRUTHS[name]
    labels = [*CALIBRATORS, ANY_MAP]
    certificates = {label: np.empty((repetitions, len(METHODS))) for label in labels}
    errors = {label: np.empty(repetitions) for label in labels}
    for i in range(repetitions):
        scores, y = truth.draw(n, rng)
        for label, make in CALIBRATORS.items():
            calibrator = make().fit(scores, y)
            errors[label][i] = truth.cutoff_error(calibrator)
            certificates[label][i] = [calibrator.cutoff_certificate(confidence, method) for method in METHODS]
        errors[ANY_MAP][i] = truth.largest_disagreement(scores, y)
        certificates[ANY_MAP][i] = [
            cutoff_bound(n, confidence, method, base_rate=y.mean(), refitted=True) for method in METHODS
        ]
    return [
        Result(
            name,
            n,
            label,
            np.mean(certificates[label] >= errors[label][:, None], axis=0),
            certificates[label].mean(axis=0),
            float(errors[label].mean()),
        )
        for label in labels
    ]


def study(sizes: list[int], repetitions: int, confidence: float, seed: int = 0) -> Iterator[Result]:
    """Yield the results of all truths and sizes."""
    rng = np.random.default_rng(seed)
    for name in TRUTHS:
        for n in sizes:
            yield from simulate(name, n, repetitions, confidence, rng)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 1000, 5000])
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    sizes, repetitions = ([200, 1000], 20) if arguments.smoke else (arguments.sizes, arguments.repetitions)
    print(f"confidence {arguments.confidence:g}, {repetitions} repetitions")
    header = "".join(f"{method:>12}" for method in METHODS)
    print(f"{'':39}{'holds':>36} {'standard':>9}{'true':>8}{'mean certificate':>36}")
    print(f"{'truth':18}{'n':>5} {'calibrator':>15}{header} {'error':>9}{'error':>8}{header}")
    results = []
    for result in study(sizes, repetitions, arguments.confidence):
        results.append(result)
        coverage = "".join(f"{share:12.3f}" for share in result.coverage)
        certificate = "".join(f"{value:12.4f}" for value in result.certificate)
        error = math.sqrt(result.coverage[0] * (1 - result.coverage[0]) / repetitions)
        print(
            f"{result.truth:18}{result.n:5d} {result.calibrator:>15}{coverage} {error:9.3f}"
            f"{result.error:8.4f}{certificate}"
        )
    print()
    for j, method in enumerate(METHODS):
        worst = min(results, key=lambda result: result.coverage[j])
        print(
            f"{method:>10}: lowest coverage {worst.coverage[j]:.3f} ({worst.truth}, n = {worst.n}, "
            f"{worst.calibrator})"
        )


if __name__ == "__main__":
    main()
