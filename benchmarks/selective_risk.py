"""How often the risk among accepted samples exceeds its target, and how many samples are accepted.

    python benchmarks/selective_risk.py

In each repetition n held-out samples are drawn, a threshold of the confidence is chosen, and the risk among
the samples that it accepts is computed exactly, from the distribution. Shown are the fraction of repetitions
in which it exceeds the target (at most 0.05 is guaranteed), the fraction in which no threshold is found, and
the mean coverage, next to that of the best threshold of the distribution. Rules:

    selective     SelectiveClassifier, confidence .95
    oracle        the lowest threshold that passes a binomial test of its own at the level .05, among those
                  whose true risk meets the target: it knows which these are
    Bonferroni    the lowest of 20 equally spaced thresholds whose p-value is at most .05 / 20
    observed      the lowest threshold with an observed risk of at most the target: no guarantee

Distributions: "calibrated", "underconfident" and "overconfident" probabilities of the predicted class, and
"overconfident top", where the 10% of the samples with the highest confidence have an error rate of 20%.

The table in benchmarks/results was written by

    python benchmarks/selective_risk.py --csv benchmarks/results/selective_risk.csv

    --repetitions 500
    --sizes 300 1000 3000 10000
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
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

from sklearn_calib import SelectiveClassifier

Array = NDArray[np.float64]
#: The population: equally likely confidences.
LEVELS = 0.5 + 0.5 * ((np.arange(2000) + 0.5) / 2000) ** (1 / 3)
TARGETS = (0.05, 0.1)


def overconfident_top(confidence: Array) -> Array:
    return np.where(confidence > np.quantile(LEVELS, 0.9), 0.8, confidence**0.5)


TRUTHS: dict[str, Callable[[Array], Array]] = {
    "calibrated": lambda confidence: confidence,
    "underconfident": lambda confidence: confidence**0.5,
    "overconfident": lambda confidence: np.maximum(1.0 - 2.0 * (1.0 - confidence), 0.5),
    "overconfident top": overconfident_top,
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


def selective(confidence: Array, wrong: Array, target: float, risk: Array) -> float:
    model = SelectiveClassifier(FrozenEstimator(Given()), target=target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(model.fit(confidence[:, None], 1 - wrong).threshold_)


def lowest(thresholds: Array, passed: NDArray[np.bool_]) -> float:
    return float(thresholds[passed].min(initial=np.inf))


def oracle(confidence: Array, wrong: Array, target: float, risk: Array) -> float:
    order = np.argsort(-confidence)
    count = np.arange(1, wrong.shape[0] + 1)
    allowed = risk[np.searchsorted(-LEVELS[::-1], -confidence[order], side="right") - 1] <= target
    return lowest(confidence[order], allowed & (binom.cdf(np.cumsum(wrong[order]), count, target) <= 0.05))


def on_a_grid(confidence: Array, wrong: Array, target: float, risk: Array) -> float:
    grid = np.linspace(0.5, 1.0, 21)[:-1]
    accepted = confidence >= grid[:, None]
    pvalue = binom.cdf((accepted * wrong).sum(axis=1), accepted.sum(axis=1), target)
    return lowest(grid, pvalue <= 0.05 / 20)


def observed(confidence: Array, wrong: Array, target: float, risk: Array) -> float:
    order = np.argsort(-confidence)
    found = np.cumsum(wrong[order]) / np.arange(1, wrong.shape[0] + 1)
    return lowest(confidence[order], found <= target)


RULES = {"selective": selective, "oracle": oracle, "Bonferroni": on_a_grid, "observed": observed}


def study(sizes: list[int], repetitions: int) -> list[Row]:
    rows = []
    for name, truth in TRUTHS.items():
        risk = np.cumsum(1.0 - truth(LEVELS)[::-1]) / np.arange(1, LEVELS.shape[0] + 1)
        coverage = np.arange(1, LEVELS.shape[0] + 1) / LEVELS.shape[0]
        for target in TARGETS:
            best = float(coverage[risk <= target].max(initial=0.0))
            for n in sizes:
                for rule, function in RULES.items():
                    found = []
                    for seed in range(repetitions):
                        rng = np.random.default_rng([seed, n])
                        confidence = rng.choice(LEVELS, n)
                        wrong = (rng.random(n) >= truth(confidence)).astype(int)
                        last = int((function(confidence, wrong, target, risk) <= LEVELS).sum()) - 1
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
    parser = parser_of(__doc__, repetitions=500, sizes=[300, 1000, 3000, 10000])
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    if options.smoke:
        options.sizes, options.repetitions = [300], 3
    rows = study(options.sizes, options.repetitions)
    if options.csv:
        with options.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([item.name for item in fields(Row)])
            writer.writerows(astuple(row) for row in rows)


if __name__ == "__main__":
    main()
