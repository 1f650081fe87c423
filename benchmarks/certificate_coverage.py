"""Coverage of certificates, for calibrators certified on their training samples.

    python benchmarks/certificate_coverage.py

Every population has finitely many scores, with their masses and event probabilities, so that the cutoff
calibration error of a fitted map in the population is computed exactly. In each repetition n samples are
simulated, each calibrator is fitted, and its certificates are compared with that error. Shown are the
coverage (fraction of repetitions in which the certificate is at least the error), and the means of the true
error and of the certificates. Samples with outcomes of one class
only are replaced.

Uniform certificates are valid for all monotone maps simultaneously. For the rows "any map" the true error is
the largest deviation between sample and population over all monotone maps and intervals, and the certificate
is the margin. For the rows "as it is" the score is the forecast, without a fit: the true error is the maximum
deviation of its residual sums, and the certificate is the margin of `cutoff_result`.

The table in benchmarks/results was written by

    python benchmarks/certificate_coverage.py --sizes 200 1000 --repetitions 200 \
        --csv benchmarks/results/certificate_coverage.csv

    --repetitions 500
    --confidence .95
    --sizes 200 1000 5000
    --resamples 199       bootstrap samples of each certificate of the fitted map
    --csv PATH            also write the table to this file
    --fitted              instead: certificates of the fitted map, method="fitted", see below
    --calibrators NAMES   some calibrators only, with --fitted
    --tables PATH         print the tables of docs/certificates.md from a file of --fitted
    --procedure           instead: how often `CertifiedCalibrator` misses its target, see below
    --smoke               few repetitions and two sizes, as a quick check

With --fitted, method="fitted" of every calibrator is compared with the true error of its map, for the same
populations and seven others. The file benchmarks/results/certificate_fitted.csv was written, by appending, by

    python benchmarks/certificate_coverage.py --fitted --csv benchmarks/results/certificate_fitted.csv

with
    --sizes 100 300 1000 10000 --repetitions 400 --resamples 199 --calibrators isotonic "histogram binning"
    --sizes 30 --repetitions 400 --resamples 39 --calibrators isotonic "histogram binning" Platt beta
    --sizes 100 300 1000 --repetitions 400 --resamples 39 --calibrators, all others but the following
    --sizes 100 300 1000 --repetitions 200 --resamples 39 --calibrators "modified Platt" "Platt, certified"
        "as it is, certified"
    --sizes 10000 --repetitions 100 --resamples 39 --calibrators Platt "monotone spline"
and sorted. The 95% quantile of 39 bootstrap samples is the second largest value.

With --procedure, `CertifiedCalibrator` gets maps whose true error is known: just above the target; just above
the target minus the margin; Platt scaling of "four atoms", whose error is .243; the nearest neighbor, whose
predictions are 0 and 1; and calibrated predictions. Shown is how often the fitted map is used, and how often
the true error of the resulting map exceeds the target, for the given sizes of the second half ("fitted": of
at most 1000), if the target is above the margin and below .8. The file
benchmarks/results/certificate_procedure.csv was written by

    python benchmarks/certificate_coverage.py --procedure --sizes 100 1000 10000 --repetitions 300 \
        --csv benchmarks/results/certificate_procedure.csv
"""

import argparse
import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from sklearn.neighbors import KNeighborsClassifier

from sklearn_calib._core._bounds import cutoff_bound
from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib.calibrators import (
    BaseCalibrator,
    BetaCalibrator,
    CertifiedCalibrator,
    HistogramBinningCalibrator,
    IsotonicCalibrator,
    ModifiedPlattCalibrator,
    PlattCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
    VennAbersCalibrator,
)
from sklearn_calib.calibrators._certificate import outcomes_by_value
from sklearn_calib.metrics._cutoff import cutoff_of_groups

METHODS = ("asymptotic", "dkw", "paper")
CALIBRATORS: dict[str, Callable[[], BaseCalibrator]] = {
    "isotonic": IsotonicCalibrator,
    "Platt": PlattCalibrator,
    "modified Platt": ModifiedPlattCalibrator,
    "temperature": TemperatureCalibrator,
    "beta": BetaCalibrator,
    "Venn-Abers": VennAbersCalibrator,
    "monotone spline": lambda: SplineCalibrator(monotone=True),
}
#: Calibrators of the study of the certificate of the fitted map; the last two certify an independent map.
FITTED = CALIBRATORS | {
    "histogram binning": HistogramBinningCalibrator,
    "Platt, certified": CertifiedCalibrator,
    "as it is, certified": lambda: CertifiedCalibrator("passthrough"),
}
# The other certificates hardly vary, but take long.
UNIFORM_REPETITIONS = 20
PROCEDURE_METHODS = (*METHODS, "fitted")
ANY_MAP = "any map"
AS_IT_IS = "as it is"


@dataclass(frozen=True)
class Truth:
    """Scores in increasing order, their masses, and their event probabilities."""

    score: np.ndarray
    mass: np.ndarray
    event: np.ndarray

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return scores and outcomes of n independent samples, with at least one of each class."""
        while True:
            rows = rng.choice(self.score.shape[0], n, p=self.mass)
            y = (rng.random(n) < self.event[rows]).astype(int)
            if 0 < y.sum() < n:
                return self.score[rows], y

    def cutoff_error(self, calibrator: BaseCalibrator) -> float:
        """Return the cutoff calibration error of a fitted map in the population."""
        mapped = calibrator.transform(self.score)
        order = np.argsort(mapped, kind="stable")
        population = GroupedOutcomes(self.score, self.mass[order], (self.mass * self.event)[order])
        return cutoff_of_groups(outcomes_by_value(population, mapped[order]))

    def residual_deviation(self, scores: np.ndarray, y: np.ndarray) -> float:
        """Return the supremum over intervals J of |(P_n - P)[(Y - f) 1{f in J}]| for the score itself."""
        n, cells = scores.shape[0], self.score.shape[0]
        rows = np.searchsorted(self.score, scores)
        count, events = (np.bincount(rows, weights=w, minlength=cells) / n for w in (None, y))
        excess = events - self.mass * self.event - self.score * (count - self.mass)
        return float(np.ptp(np.concatenate([[0.0], np.cumsum(excess)])))

    def largest_disagreement(self, scores: np.ndarray, y: np.ndarray) -> float:
        """Return the supremum over monotone h and intervals J of |(P_n - P)[(Y - h(f)) 1{f in J}]|.

        It is linear in h, so step functions from 0 to 1 suffice: with cumulative excesses W_y of the fraction
        of samples with Y = y, an increasing step at c within J = [a, b] gives W_1(c) - W_1(a) - (W_0(b) -
        W_0(c)), a decreasing step the same with both classes exchanged.
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


def largest_step(before: np.ndarray, after: np.ndarray) -> float:
    """Return the largest before(c) - before(a) - after(b) + after(c) over a <= c <= b."""
    rise = before - np.minimum.accumulate(before)
    fall = after - np.minimum.accumulate(after[::-1])[::-1]
    return float((rise + fall).max())


def dense(
    event: Callable[[np.ndarray], np.ndarray],
    density: Callable[[np.ndarray], np.ndarray],
    n_scores: int = 1000,
) -> Truth:
    """Return a population on the midpoints of equal bins of [0, 1]."""
    score = (np.arange(n_scores) + 0.5) / n_scores
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
#: Further populations of the study of the certificate of the fitted map, each with 300 scores.
SHAPES = {
    "linear": dense(lambda p: p, flat, 300),
    "step": dense(lambda p: np.where(p < 0.5, 0.25, 0.75), flat, 300),
    "rare, 2 to 10%": dense(lambda p: 0.02 + 0.08 * p, flat, 300),
    "decreasing": dense(lambda p: 0.8 - 0.6 * p, flat, 300),
    "constant": dense(lambda p: np.full_like(p, 0.3), flat, 300),
    "U-shaped": dense(lambda p: 0.1 + 3.2 * (p - 0.5) ** 2, flat, 300),
    "two waves": dense(lambda p: 0.5 + 0.3 * np.sin(4 * np.pi * p), flat, 300),
}


def study(sizes: list[int], repetitions: int, confidence: float, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the results of all populations, sizes and calibrators, of "any map" and of "as it is"."""
    rng = np.random.default_rng(seed)
    labels = [*CALIBRATORS, ANY_MAP, AS_IT_IS]
    for (name, truth), n in itertools.product(TRUTHS.items(), sizes):
        certificates = {label: np.empty((repetitions, len(METHODS))) for label in labels}
        errors = {label: np.empty(repetitions) for label in labels}
        for i in range(repetitions):
            scores, y = truth.draw(n, rng)
            for label, refitted in ((ANY_MAP, True), (AS_IT_IS, False)):
                certificates[label][i] = [
                    cutoff_bound(n, confidence, m, base_rate=float(y.mean()), refitted=refitted)
                    for m in METHODS
                ]
            for label, make in CALIBRATORS.items():
                calibrator = make().fit(scores, y)
                errors[label][i] = truth.cutoff_error(calibrator)
                bounds = calibrator.training_cutoff_error_ + certificates[ANY_MAP][i]
                certificates[label][i] = np.minimum(bounds, 1.0)
            errors[ANY_MAP][i] = truth.largest_disagreement(scores, y)
            errors[AS_IT_IS][i] = truth.residual_deviation(scores, y)
        for label in labels:
            row = {"truth": name, "n": n, "calibrator": label, "repetitions": repetitions}
            row |= {"confidence": confidence, "error": errors[label].mean()}
            holds = np.mean(certificates[label] >= errors[label][:, np.newaxis], axis=0)
            means = certificates[label].mean(axis=0)
            for what, values in (("holds", holds), ("mean", means)):
                row |= {f"{what}_{m}": value for m, value in zip(METHODS, values, strict=True)}
            # the certificate of the paper divided by that of "asymptotic"
            yield row | {"ratio": means[-1] / means[0]}


def fitted_study(
    sizes: list[int],
    repetitions: int,
    confidence: float,
    n_resamples: int,
    labels: list[str] | None = None,
    seed: int = 0,
) -> Iterator[dict[str, Any]]:
    """Yield the results of method="fitted" for all populations, sizes and named calibrators."""
    for n in sizes:
        for number, (name, truth) in enumerate((TRUTHS | SHAPES).items()):
            rng = np.random.default_rng([seed, n, number])
            samples = [truth.draw(n, rng) for _ in range(repetitions)]
            for label in labels or list(FITTED):
                found = [
                    certified(
                        truth, FITTED[label](), *sample, confidence, n_resamples, i < UNIFORM_REPETITIONS
                    )
                    for i, sample in enumerate(samples)
                ]
                known = pd.DataFrame(found)
                row = {"truth": name, "n": n, "calibrator": label, "repetitions": len(known)}
                row |= {"holds": np.mean(known["fitted"] >= known["error"])}
                row |= {"error_95": np.quantile(known["error"], confidence)}
                row |= known[["fitted", "uniform", "published"]].mean()
                yield row | {"ratio": row["fitted"] / row["error_95"] if row["error_95"] > 0 else np.inf}


def procedure_study(
    sizes: list[int], repetitions: int, confidence: float, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """Yield how often the resulting map misses the target, for halves of the given sizes."""
    for method, size in itertools.product(PROCEDURE_METHODS, sizes):
        margin = cutoff_bound(size, confidence, "asymptotic" if method == "fitted" else method)
        # of "fitted", the margin is about that of one map
        margin *= 0.5 if method == "fitted" else 1.0
        platt, neighbor = PlattCalibrator(link="identity"), KNeighborsClassifier(1)
        for name, target, calibrator, truth in (
            ("just above the target", 1.5 * margin, "passthrough", too_low(1.5 * margin + 1e-6)),
            ("just above target - margin", 1.5 * margin, "passthrough", too_low(0.5 * margin + 1e-6)),
            ("misspecified Platt", 0.24, platt, TRUTHS["four atoms"]),
            ("nearest neighbor", 0.16, neighbor, TRUTHS["calibrated"]),
            ("calibrated", 1.5 * margin, "passthrough", TRUTHS["calibrated"]),
        ):
            # a larger simulation of "fitted" takes too long
            if not 1.01 * margin < target < 0.8 or (method == "fitted" and size > 1000):
                continue
            rng = np.random.default_rng([seed, size])
            accepted = missed = 0
            for i in range(repetitions):
                certified = CertifiedCalibrator(
                    calibrator, target=target, confidence=confidence, method=method, random_state=i
                )
                with warnings.catch_warnings(action="ignore"):
                    certified.fit(*truth.draw(size if calibrator == "passthrough" else 2 * size, rng))
                accepted += certified.accepted_
                missed += truth.cutoff_error(certified) > target
            row = {"method": method, "n": size, "map": name, "repetitions": repetitions, "target": target}
            yield row | {"margin": margin, "used": accepted / repetitions, "missed": missed / repetitions}


def too_low(error: float) -> Truth:
    """Return a population whose scores are too low by the given error."""
    score = (np.arange(1000) + 0.5) / 1000 * (1 - error)
    return Truth(score, np.full(1000, 0.001), score + error)


def certified(
    truth: Truth,
    calibrator: BaseCalibrator,
    scores: np.ndarray,
    y: np.ndarray,
    confidence: float,
    n_resamples: int,
    uniform: bool,
) -> dict[str, float]:
    """Return the true error of a fitted calibrator, and its certificates."""
    # without the warning that a constant is used
    with warnings.catch_warnings(action="ignore"):
        calibrator.fit(scores, y)
    fitted = calibrator.cutoff_certificate(
        confidence, "fitted", n_resamples=n_resamples, random_state=int(y.sum())
    )
    found = {"error": truth.cutoff_error(calibrator), "fitted": fitted.upper}
    # the uniform certificates are for monotone maps only
    known = uniform and not isinstance(calibrator, HistogramBinningCalibrator)
    for name, method in (("uniform", "asymptotic"), ("published", "paper")):
        found[name] = calibrator.cutoff_certificate(confidence, method).upper if known else np.nan
    return found


def tabulate(rows: Iterator[dict[str, Any]], path: Path | None, append: bool) -> pd.DataFrame:
    """Print rows, and write each as soon as it is known."""
    table = []
    for row in rows:
        table.append(row)
        new = path is not None and not (append and path.exists())
        if path is not None:
            line = pd.DataFrame([row])
            line.to_csv(
                path, mode="w" if new else "a", header=new, index=False, na_rep="nan", float_format="%.4g"
            )
            append = True
        shown = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()}
        print(*(f"{key} {value};" for key, value in shown.items()), flush=True)
    return pd.DataFrame(table)


def print_tables(path: Path) -> None:
    """Print the tables of docs/certificates.md from a file of --fitted."""
    table = pd.read_csv(path)
    print("Coverage over the populations, lowest to highest\n")
    sizes = sorted(table["n"].unique())
    print("| | " + " | ".join(f"n = {n}" for n in sizes) + " |\n|---|" + "---|" * len(sizes))
    groups = table.groupby(["calibrator", "n"])
    found = groups.agg(low=("holds", "min"), high=("holds", "max"), number=("repetitions", "first"))
    for label in FITTED:
        cells = [
            "{:.3f} to {:.3f} ({:.0f})".format(*found.loc[label, n]) if (label, n) in found.index else ""
            for n in sizes
        ]
        print(f"| {label} | " + " | ".join(cells) + " |")
    print("\nMean certificates of isotonic regression, n = 1000\n")
    print("| | 95% quantile of the true error | fitted | uniform | published | fitted / true |")
    print("|---|---|---|---|---|---|")
    for row in table.query("n == 1000 and calibrator == 'isotonic'").itertuples():
        numbers = [f"{value:.4f}" for value in (row.error_95, row.fitted, row.uniform, row.published)]
        print(f"| {row.truth} | " + " | ".join(numbers) + f" | {row.ratio:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 1000, 5000])
    parser.add_argument("--resamples", type=int, default=199)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--fitted", action="store_true")
    parser.add_argument("--procedure", action="store_true")
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--calibrators", nargs="+", choices=list(FITTED))
    arguments = parser.parse_args()
    if arguments.tables:
        print_tables(arguments.tables)
        return
    if arguments.smoke:
        arguments.sizes, arguments.repetitions, arguments.resamples = [300], 1, 39
    common = arguments.sizes, arguments.repetitions, arguments.confidence
    if arguments.procedure or arguments.smoke:
        tabulate(procedure_study(*common), arguments.csv, append=False)
    if arguments.fitted or arguments.smoke:
        rows = fitted_study(*common, arguments.resamples, arguments.calibrators)
        tabulate(rows, arguments.csv, append=True)
    if arguments.smoke or not (arguments.fitted or arguments.procedure):
        table = tabulate(study(*common), arguments.csv, append=False)
        for method in METHODS:
            worst = table.loc[table[f"holds_{method}"].idxmin()]
            place = f"{worst['truth']}, n = {worst['n']}, {worst['calibrator']}"
            print(f"{method}: lowest coverage {worst[f'holds_{method}']:.3f} ({place})")


if __name__ == "__main__":
    main()
