"""Log loss of the default calibrators on small calibration sets, compared with simpler ones and none.

    python benchmarks/small_samples.py [--write FOLDER]

There are 30 to 200 calibration samples. Simulated models have two, three or ten classes, are weak or strong,
and are calibrated, overconfident, underconfident, or shifted (wrong class frequencies); as the true
probabilities are known, losses are expectations over the labels. Real models are trained on a third of breast
cancer, digits, wine and, if their files are available, adult, German credit and affairs; margins are those of
a support vector machine, and "one feature" is naive Bayes with one numerical column. The loss is the mean log
loss in nats, with probabilities clipped at 1e-9, on the same splits for every method. "Platt" is Platt
scaling of log-odds (or margins), for several classes of each class against the rest; "Platt of p" that of
probabilities of two classes, "structured matrix" structured matrix scaling of several.

"excess" is the mean loss of the default minus that of another method, over all splits of a line, with the
standard error over repetitions.

    --repetitions 20     splits of each simulated case; half for real ones
    --rows 30 50         numbers of calibration samples
    --write FOLDER       write the tables
    --smoke              two repetitions of a few cases, as a quick check
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from _forecasts import TABLES, data_folder
from _options import parser_of
from scipy.special import softmax
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sklearn_calib.calibrators import (
    LogAverageCalibrator,
    OneVsRestCalibrator,
    PlattCalibrator,
    SplineCalibrator,
    StructuredMatrixScalingCalibrator,
    TemperatureCalibrator,
)

ROWS, N_CLASSES, N_SCORED = [30, 50, 100, 200], [2, 3, 10], 2000
MODELS = ["calibrated", "overconfident", "underconfident", "shifted"]
# Standard deviation of the true log-odds or, of more classes, of the true logits.
STRENGTHS = {"weak": 1.5, "strong": 4.0}
TRAINED = {
    "logistic regression": LogisticRegression(max_iter=2000),
    "naive Bayes": GaussianNB(),
    "random forest": RandomForestClassifier(100, random_state=0),
    "margins": SVC(),
    "one feature": GaussianNB(),
}
REAL = ["breast cancer", "digits", "wine", "adult", "German credit", "affairs"]
OTHERS = ["uncalibrated", "temperature", "Platt", "Platt of p", "structured matrix"]
CLIP = 1e-9


@dataclass(frozen=True)
class Case:
    """Scores for calibration and for evaluation, and the probabilities of the labels of the latter."""

    source: str
    model: str
    n_classes: int
    rows: int
    repetition: int
    link: str
    scores: np.ndarray
    labels: np.ndarray
    new: np.ndarray
    truth: np.ndarray


def main() -> None:
    arguments = _arguments()
    if arguments.smoke:
        arguments.repetitions, arguments.rows = 2, [30]
    real = REAL[2:3] if arguments.smoke else REAL
    cases = [*simulated_cases(arguments.rows, arguments.repetitions)]
    results = measure([*cases, *real_cases(real, arguments.rows, max(1, arguments.repetitions // 2))])
    tables = {
        "By number of samples": excesses(results, ["n_classes", "rows"]),
        "By model": excesses(results, ["n_classes", "model"]),
        "By source": excesses(results, ["source", "n_classes"]),
    }
    for title, table in tables.items():
        print(f"\n{title}\n{table.to_string(index=False)}")
    print(f"\n{summary(results)}")
    if arguments.write:
        text = "\n\n".join(f"{title}:\n\n{_markdown(table)}" for title, table in tables.items())
        path = arguments.write / "small_samples.md"
        path.write_text(f"{text}\n\n{summary(results)}\n", encoding="utf-8")
        by_case = results.groupby(["source", "model", "n_classes", "rows"], sort=False)
        by_case[["default", *OTHERS]].mean().to_csv(
            arguments.write / "small_samples.csv", float_format="%.4f"
        )


def simulated_cases(rows: list[int], repetitions: int) -> Iterator[Case]:
    """Yield the cases with known true probabilities."""
    for n_classes in N_CLASSES:
        for strength, scale in STRENGTHS.items():
            for n in rows:
                for repetition in range(repetitions):
                    rng = np.random.default_rng([n_classes, n, repetition])
                    eta, labels = _drawn(rng, n_classes, scale, n)
                    new, _ = _drawn(rng, n_classes, scale, N_SCORED)
                    truth = softmax(new, axis=1)
                    for model in MODELS:
                        fit, out = (_distorted(z, model) for z in (eta, new))
                        yield Case(
                            strength, model, n_classes, n, repetition, "logit", fit, labels, out, truth
                        )


def _drawn(rng: np.random.Generator, n_classes: int, scale: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return true logits, and labels among which each class has a sample."""
    # log-odds have the scale of logits
    scale = scale / np.sqrt(2.0) if n_classes == 2 else scale
    for _ in range(10_000):
        eta = scale * rng.standard_normal((n, n_classes))
        labels = (eta + rng.gumbel(size=eta.shape)).argmax(axis=1)
        if np.unique(labels).size == n_classes:
            return eta, labels
    raise RuntimeError("a class was always missing")


def _distorted(eta: np.ndarray, model: str) -> np.ndarray:
    factor = {"overconfident": 2.5, "underconfident": 0.4}.get(model, 1.0)
    offsets = np.linspace(-0.5, 0.5, eta.shape[1]) * (2.0 if model == "shifted" else 0.0)
    return softmax(factor * eta + offsets, axis=1)


def real_cases(names: list[str], rows: list[int], repetitions: int) -> Iterator[Case]:
    """Yield the cases of models trained on tables."""
    for name in names:
        try:
            X, y = TABLES[name](data_folder())
        except FileNotFoundError:
            print(f"{name} is omitted, its file is missing")
            continue
        numeric = X.select_dtypes("number").to_numpy(dtype=np.float64)
        X = pd.get_dummies(X).to_numpy(dtype=np.float64)
        n_classes = int(y.max()) + 1
        for n in rows:
            if len(y) < 2.5 * n:
                continue
            for repetition in range(repetitions):
                fit, rest = train_test_split(
                    np.arange(len(y)), train_size=n, random_state=repetition, stratify=y
                )
                train, new = train_test_split(rest, random_state=repetition, stratify=y[rest], train_size=0.4)
                train, new = train[:2000], new[:N_SCORED]
                for title, model in TRAINED.items():
                    if title in ("margins", "one feature") and n_classes > 2:
                        continue
                    column = repetition % numeric.shape[1]
                    features = numeric[:, [column]] if title == "one feature" else X
                    fitted = make_pipeline(StandardScaler(), model).fit(features[train], y[train])
                    margins = title == "margins"
                    scores = fitted.decision_function if margins else fitted.predict_proba
                    truth = np.eye(n_classes)[y[new]]
                    link = "identity" if margins else "logit"
                    yield Case(
                        name,
                        title,
                        n_classes,
                        n,
                        repetition,
                        link,
                        scores(features[fit]),
                        y[fit],
                        scores(features[new]),
                        truth,
                    )


def methods(link: str, n_classes: int) -> dict[str, Callable]:
    """Return the default and the methods that it is compared with."""
    if n_classes == 2:
        default, platt = SplineCalibrator(link=link), PlattCalibrator(link=link)
    else:
        default, platt = LogAverageCalibrator(), OneVsRestCalibrator(PlattCalibrator(link=link))
    found = {"default": default, "temperature": TemperatureCalibrator(link=link), "Platt": platt}
    if n_classes == 2 and link == "logit":
        found["Platt of p"] = PlattCalibrator(link="identity")
    if n_classes > 2:
        found["structured matrix"] = StructuredMatrixScalingCalibrator()
    return found


def measure(cases: list[Case], methods: Callable = methods) -> pd.DataFrame:
    """Return the loss of each method, one row per case."""
    found = []
    for case in cases:
        losses = {"uncalibrated": np.nan if case.link == "identity" else _loss(case.new, case.truth)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, method in methods(case.link, case.n_classes).items():
                proba = method.fit(case.scores, case.labels).predict_proba(case.new)
                losses[name] = _loss(proba, case.truth)
        place = (case.source, case.model, case.n_classes, case.rows, case.repetition)
        found.append(
            dict(zip(("source", "model", "n_classes", "rows", "repetition"), place, strict=True)) | losses
        )
    return pd.DataFrame(found)


def _loss(proba: np.ndarray, truth: np.ndarray) -> float:
    return float(-(truth * np.log(np.clip(proba, CLIP, 1.0))).sum(axis=1).mean())


def excesses(results: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return mean losses, and the loss of the default minus that of the others."""
    lines = []
    for place, part in results.groupby(by, sort=False):
        line = dict(zip(by, place, strict=True)) | {"default": f"{part['default'].mean():.4f}"}
        for other in OTHERS:
            excess = (part["default"] - part[other]).dropna()
            error = excess.groupby(part["repetition"]).mean().sem()
            line[f"minus {other}"] = f"{excess.mean():+.4f} ± {error:.4f}" if len(excess) else ""
        lines.append(line)
    return pd.DataFrame(lines)


def summary(results: pd.DataFrame) -> str:
    """Return the mean loss of the default minus that of each other method, one sentence each."""
    calibrated = results[results["model"] == "calibrated"]
    sentences = [
        f"Mean log loss of the default minus {other}: {(part['default'] - part[other]).mean():+.4f} ({name})."
        for name, part in (("all cases", results), ("calibrated models", calibrated))
        for other in OTHERS
    ]
    return "\n".join(sentences)


def _markdown(table: pd.DataFrame) -> str:
    lines = [table.columns, ["---"] * table.shape[1], *table.astype(str).to_numpy()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _arguments() -> argparse.Namespace:
    parser = parser_of(__doc__, repetitions=20)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--write", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
