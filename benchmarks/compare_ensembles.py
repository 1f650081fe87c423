"""Comparison of the modes of CalibratedClassifier on real tables, and on samples of other kinds.

    python benchmarks/compare_ensembles.py [--write benchmarks/results/ensembles.md]

Each classifier is fitted with the default calibrator to a random part of a table, stratified by class, with
ensemble=True, False and "joint", and evaluated on the rest. Shown are, as means over tables, sizes and
repetitions: the log loss less that of ensemble=True with its standard error, the calibration slope of binary
problems (1 is right, more is underconfident), and the times to fit and to predict relative to those of
ensemble=True. Probabilities are clipped at 0.001 in log losses.

The other kinds are rows of sparse counts, one hundred classes, a parameter search as classifier, and groups
with a GroupCalibrator.

    --rows 200 1000       samples for the fit
    --repetitions 2       random parts
    --tables NAME ...     some of the tables
    --write PATH          write the table as Markdown
    --smoke               one table, one classifier
"""

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _forecasts import TABLES, data_folder, pipeline_of
from _options import parser_of
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from sklearn_calib.meta import CalibratedClassifier
from sklearn_calib.metrics import calibration_summary

MODES = (True, False, "joint")
CLASSIFIERS = {
    "tree, leaves of 5": DecisionTreeClassifier(min_samples_leaf=5, random_state=0),
    "random forest": RandomForestClassifier(100, random_state=0),
    "gradient boosting": HistGradientBoostingClassifier(max_iter=50, random_state=0),
    "nearest neighbors": KNeighborsClassifier(),
    "logistic regression": LogisticRegression(max_iter=1000),
    "naive Bayes": GaussianNB(),
}
MOST_SCORED = 5000


def problems(names: list[str], rows: list[int], repetitions: range) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield kind, classifier, and the parts for the fit and the evaluation."""
    for name in names:
        try:
            X, y = TABLES[name](data_folder())
        except FileNotFoundError:
            print(f"{name} is omitted, its file is missing")
            continue
        for n in (n for n in rows if 2 * n <= len(y)):
            for seed in repetitions:
                parts = train_test_split(X, y, train_size=n, random_state=seed, stratify=y)
                fit, score = (parts[0], parts[2]), (parts[1][:MOST_SCORED], parts[3][:MOST_SCORED])
                for title, classifier in CLASSIFIERS.items():
                    yield title, pipeline_of(clone(classifier), X, seed), fit, score


def other_kinds(repetitions: range) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield simulated problems of other kinds than tables."""
    for seed in repetitions:
        rng = np.random.default_rng(seed)
        words = rng.dirichlet(np.full(500, 0.1), 4)
        y = rng.integers(0, 4, 3000)
        noisy = 0.5 * words[y] + 0.5 * words.mean(axis=0)
        counts = csr_array(np.array([rng.multinomial(20, p) for p in noisy]))
        yield "sparse counts", MultinomialNB(), (counts[:1000], y[:1000]), (counts[1000:], y[1000:])
        centers = rng.normal(size=(100, 10))
        y = np.concatenate([np.tile(np.arange(100), 10), rng.integers(0, 100, 3000)])
        X = centers[y] + rng.normal(size=(4000, 10))
        yield "100 classes", GaussianNB(), (X[:1000], y[:1000]), (X[1000:], y[1000:])
        X = rng.normal(size=(4000, 8))
        y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.logistic(size=4000) > 0).astype(int)
        search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [5, 20, 80]}, scoring="neg_log_loss")
        yield "parameter search", search, (X[:1000], y[:1000]), (X[1000:], y[1000:])


def slope(y: np.ndarray, proba: np.ndarray) -> float:
    """Return the calibration slope of a binary problem, NaN for others."""
    return calibration_summary(y, proba[:, 1]).slope.estimate if proba.shape[1] == 2 else np.nan


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a call and its time in seconds."""
    start = time.perf_counter()
    return call(), time.perf_counter() - start


def main() -> None:
    """Print the table."""
    defaults = {"rows": [200, 1000], "repetitions": 2, "tables": list(TABLES), "write": ""}
    arguments = parser_of(__doc__, **defaults).parse_args()
    repetitions = range(arguments.repetitions)
    if arguments.smoke:
        cases = [*problems(["wine"], [60], range(1))][:1]
    else:
        cases = [*problems(arguments.tables, arguments.rows, repetitions), *other_kinds(repetitions)]
    records = []
    for kind, classifier, fit, score in cases:
        for mode in MODES:
            model = CalibratedClassifier(clone(classifier), ensemble=mode)
            with warnings.catch_warnings(action="ignore"):
                _, to_fit = timed(lambda model=model, fit=fit: model.fit(*fit))
                proba, to_predict = timed(lambda model=model, score=score: model.predict_proba(score[0]))
                clipped = np.clip(proba, 1e-3, None)
                loss = log_loss(score[1], clipped / clipped.sum(axis=1, keepdims=True), labels=model.classes_)
                record = {"loss": loss, "slope": slope(score[1], proba), "fit": to_fit, "predict": to_predict}
            records.append({"kind": kind, "mode": str(mode), "case": len(records) // len(MODES)} | record)
    table = pd.DataFrame(records).set_index(["case", "kind", "mode"]).unstack("mode")
    lines = [
        "| classifier | cases | mode | log loss less that of True | slope | time to fit | to predict |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, part in [("all", table), *table.groupby("kind", sort=False)]:
        for mode in map(str, MODES):
            difference = part["loss", mode] - part["loss", "True"]
            error = difference.std(ddof=1) / np.sqrt(len(part)) if len(part) > 1 else np.nan
            shown = "0" if mode == "True" else f"{difference.mean():+.4f} ({error:.4f})"
            middle = part["slope", mode].median()
            fit, predict = (np.median(part[each, mode] / part[each, "True"]) for each in ("fit", "predict"))
            known = "" if np.isnan(middle) else f"{middle:.2f}"
            lines.append(f"| {kind} | {len(part)} | {mode} | {shown} | {known} | {fit:.2f} | {predict:.2f} |")
    print("\n".join(lines))
    if arguments.write:
        Path(arguments.write).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
