"""How often the risk among accepted samples exceeds its target, and how many samples are accepted.

    python benchmarks/selective_risk.py

In each repetition n held-out samples are drawn, a threshold of the confidence is chosen, and the risk among
the samples that it accepts is computed exactly, from the distribution. Shown are the fraction of repetitions
in which it exceeds the target (at most 0.05 is guaranteed), the fraction in which no threshold is found, and
the mean coverage, next to that of the best threshold of the distribution. Rules:

    selective     SelectiveClassifier, confidence .95
    Bonferroni    the lowest of 20 equally spaced thresholds whose p-value is at most .05 / 20
    observed      the lowest threshold with an observed risk of at most the target: no guarantee

Distributions: "calibrated" and "underconfident" probabilities of the predicted class, and "overconfident
top", where the 10% of the samples with the highest confidence have an error rate of 20%.

The table in benchmarks/results was written by

    python benchmarks/selective_risk.py --csv benchmarks/results/selective_risk.csv

    --repetitions 300
    --sizes 300 1000 5000
    --learning .2         fractions of the samples that determine the sequence of thresholds
    --csv PATH            also write the table to this file
    --smoke               few repetitions, as a quick check
"""

import csv
import warnings
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np
from _options import parser_of
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

from sklearn_calib import SelectiveClassifier
from sklearn_calib.meta import _selective

Array = NDArray[np.float64]
#: The population: equally likely confidences.
LEVELS = 0.5 + 0.5 * ((np.arange(2000) + 0.5) / 2000) ** (1 / 3)
TARGETS = (0.05, 0.1)


def overconfident(confidence: Array) -> Array:
    return np.where(confidence > np.quantile(LEVELS, 0.9), 0.8, confidence**0.5)


TRUTHS: dict[str, Callable[[Array], Array]] = {
    "calibrated": lambda confidence: confidence,
    "underconfident": lambda confidence: confidence**0.5,
    "overconfident top": overconfident,
}


@dataclass(frozen=True)
class Row:
    """The results of one rule."""

    distribution: str
    target: float
    n: int
    rule: str
    violations: float
    no_threshold: float
    coverage: float
    best_coverage: float


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose features are the probabilities of class 1."""

    def __init__(self) -> None:
        self.classes_ = np.array([0, 1])

    def fit(self, X: Array, y: Array) -> "Given":
        """Do nothing."""
        return self

    def predict_proba(self, X: Array) -> Array:
        """Return the features as probabilities."""
        return np.hstack([1.0 - X, X])


def selective(confidence: Array, wrong: Array, target: float, seed: int) -> float:
    model = SelectiveClassifier(FrozenEstimator(Given()), target=target, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(model.fit(confidence[:, None], 1 - wrong).threshold_)


def on_a_grid(confidence: Array, wrong: Array, target: float, seed: int) -> float:
    grid = np.linspace(0.5, 1.0, 21)[:-1]
    total, count = _selective.accepted_loss(confidence, wrong, np.ones(wrong.shape[0], dtype=np.int64), grid)
    passed = _selective.risk_pvalue(total, count, target, True) <= 0.05 / 20
    return float(grid[passed].min()) if passed.any() else np.inf


def observed(confidence: Array, wrong: Array, target: float, seed: int) -> float:
    order = np.argsort(-confidence)
    risk = np.cumsum(wrong[order]) / np.arange(1, wrong.shape[0] + 1)
    return float(confidence[order][risk <= target].min()) if (risk <= target).any() else np.inf


RULES = {"Bonferroni": on_a_grid, "observed": observed}


def study(sizes: list[int], repetitions: int, learning: list[float]) -> list[Row]:
    rows = []
    for name, truth in TRUTHS.items():
        risk = np.cumsum(1.0 - truth(LEVELS)[::-1]) / np.arange(1, LEVELS.shape[0] + 1)
        coverage = np.arange(1, LEVELS.shape[0] + 1) / LEVELS.shape[0]
        for target in TARGETS:
            best = float(coverage[risk <= target].max(initial=0.0))
            for n in sizes:
                rules = [(f"selective, {part:g}", selective, part) for part in learning]
                rules += [(rule, function, 0.2) for rule, function in RULES.items()]
                for rule, function, part in rules:
                    _selective._LEARNING = part
                    found = []
                    for seed in range(repetitions):
                        rng = np.random.default_rng([seed, n])
                        confidence = rng.choice(LEVELS, n)
                        wrong = (rng.random(n) >= truth(confidence)).astype(int)
                        last = int((function(confidence, wrong, target, seed) <= LEVELS).sum()) - 1
                        found.append(
                            (last >= 0 and risk[last] > target, last < 0, (last + 1) / LEVELS.shape[0])
                        )
                    rates = np.mean(np.array(found, dtype=float), axis=0).tolist()
                    rows.append(
                        Row(name, target, n, rule, *(round(rate, 4) for rate in rates), round(best, 4))
                    )
                    print(
                        f"{name:18} target {target:<5g} n {n:<6} {rule:15} violations {rates[0]:.3f}  none "
                        f"{rates[1]:.3f}  coverage {rates[2]:.3f} of {best:.3f}",
                        flush=True,
                    )
    return rows


def main() -> None:
    parser = parser_of(__doc__, repetitions=300, sizes=[300, 1000, 5000], learning=[0.2])
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    if options.smoke:
        options.sizes, options.repetitions = [300], 3
    rows = study(options.sizes, options.repetitions, options.learning)
    if options.csv:
        with options.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([item.name for item in fields(Row)])
            writer.writerows(astuple(row) for row in rows)


if __name__ == "__main__":
    main()
