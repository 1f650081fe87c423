"""Forecasts of classifiers on real tables, split for the comparison of calibrators.

Each split has samples to train a classifier, to calibrate, and to evaluate; it is random, stratified by
class, and different for each repetition and each number of calibration samples. Tables that are not part of
scikit-learn are read from a folder of data; missing ones are reported and omitted.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.ensemble import AdaBoostClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

# Maximum numbers of samples to train and to evaluate a classifier; and the minimum of either for a split.
MOST_TRAINED, MOST_SCORED, LEAST = 2000, 5000, 35

CLASSIFIERS = {
    "logistic regression": LogisticRegression(max_iter=1000),
    "naive Bayes": GaussianNB(),
    "random forest": RandomForestClassifier(100),
    "gradient boosting": HistGradientBoostingClassifier(max_iter=100),
    "neural network": MLPClassifier((50,), max_iter=60),
    "AdaBoost": AdaBoostClassifier(n_estimators=50),
}


@dataclass(frozen=True)
class Split:
    """Forecasts to calibrate and to evaluate: probabilities of all classes, and class indices."""

    source: str
    classifier: str
    rows: int
    repetition: int
    fit_proba: np.ndarray
    fit_label: np.ndarray
    proba: np.ndarray
    label: np.ndarray


def data_folder() -> Path:
    """Return the folder of the tables, ../shared/data unless the environment names another."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("SKLEARN_CALIB_DATA", default))


def _adult(folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    table = pd.read_csv(folder / "tabular" / "adult.csv.gz")
    return table.drop(columns="income-per-year"), _codes(table["income-per-year"])


def _fair(folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    table = pd.read_csv(folder / "tabular" / "fair.csv.gz")
    return table.drop(columns="affairs"), _codes(table["affairs"] > 0)


def _german(folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    table = pd.read_csv(folder / "tabular" / "german.csv.gz")
    return table.drop(columns="credit"), _codes(table["credit"] == 2)


def _satimage(folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    with np.load(folder / "tabular" / "satimage.npz") as stored:
        return pd.DataFrame(stored["X"].astype(float)), _codes(stored["y"])


def _damp_soil(folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the rarest type of soil, which classifiers confuse most, against the rest."""
    X, y = _satimage(folder)
    return X, _codes(y == 3)


def _recidivism(folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    table = pd.read_csv(folder / "recidivism" / "recid.csv")
    columns = ["race", "sex", "age", "juv_fel_count", "juv_misd_count", "priors_count", "charge_id"]
    return table[columns], _codes(table["two_year_recid"])


def _bundled(load: Callable, name: Callable[[np.ndarray], np.ndarray]) -> Callable:
    def read(folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
        X, y = load(return_X_y=True)
        return pd.DataFrame(X), _codes(name(y))

    return read


def _codes(labels: np.ndarray) -> np.ndarray:
    return np.unique(np.asarray(labels), return_inverse=True)[1]


TABLES = {
    "adult": _adult,
    "affairs": _fair,
    "German credit": _german,
    "recidivism": _recidivism,
    "damp soil": _damp_soil,
    "odd digits": _bundled(load_digits, lambda y: y % 2),
    "breast cancer": _bundled(load_breast_cancer, lambda y: y),
    "diabetes": _bundled(load_diabetes, lambda y: y > np.median(y)),
    "satellite": _satimage,
    "digits": _bundled(load_digits, lambda y: y),
    "wine": _bundled(load_wine, lambda y: y),
    "diabetes, thirds": _bundled(load_diabetes, lambda y: np.searchsorted(np.quantile(y, [1 / 3, 2 / 3]), y)),
}

NETWORKS = {
    "CIFAR-10 VGG": "vgg16_cifar10",
    "CIFAR-10 WideResNet": "wideresnet-16-4-cifar-10",
    "CIFAR-100 DenseNet": "densenet-bc-100-cifar-100",
}


def table_splits(
    names: list[str],
    rows: list[int],
    repetitions: range,
    log: Callable[[str], None],
    classifiers: dict[str, Any] = CLASSIFIERS,
) -> Iterator[Split]:
    """Yield the splits of tables, for each classifier."""
    folder = data_folder()
    for name in names:
        try:
            X, y = TABLES[name](folder)
        except FileNotFoundError:
            log(f"{name} is omitted, its file is not in {folder}")
            continue
        for n in rows:
            rest = (len(y) - n) // 2
            if rest < LEAST:
                continue
            for repetition in repetitions:
                seed = repetition + 1000 * n
                fit, other = train_test_split(np.arange(len(y)), train_size=n, random_state=seed, stratify=y)
                train, score = train_test_split(
                    other,
                    train_size=min(rest, MOST_TRAINED),
                    test_size=min(rest, MOST_SCORED),
                    random_state=seed,
                    stratify=y[other],
                )
                for title, classifier in classifiers.items():
                    model = pipeline_of(clone(classifier), X, seed)
                    with warnings.catch_warnings():
                        # networks are stopped early intentionally
                        warnings.simplefilter("ignore", ConvergenceWarning)
                        model.fit(X.iloc[train], y[train])
                        found = [model.predict_proba(X.iloc[part]) for part in (fit, score)]
                    yield Split(name, title, n, repetition, found[0], y[fit], found[1], y[score])


def network_splits(
    names: list[str], rows: list[int], repetitions: range, log: Callable[[str], None]
) -> Iterator[Split]:
    """Yield the splits of the outputs of networks, stratified by class."""
    for name in names:
        file = data_folder() / "cifar_softmax" / f"{NETWORKS[name]}.npz"
        if not file.is_file():
            log(f"{name} is omitted, {file} is missing")
            continue
        with np.load(file) as stored:
            proba, label = stored["probs"].astype(np.float64), stored["label"].astype(np.int64)
        proba /= proba.sum(axis=1, keepdims=True)
        for n in rows:
            if n < 2 * proba.shape[1]:
                continue
            for repetition in repetitions:
                fit, score = train_test_split(
                    np.arange(len(label)),
                    train_size=n,
                    test_size=min(len(label) - n, MOST_SCORED),
                    random_state=repetition + 1000 * n,
                    stratify=label,
                )
                yield Split(
                    name, "its own", n, repetition, proba[fit], label[fit], proba[score], label[score]
                )


def pipeline_of(classifier, X: pd.DataFrame, seed: int):
    """Return a pipeline that encodes the columns of X for a classifier."""
    if "random_state" in classifier.get_params():
        classifier.set_params(random_state=seed)
    numbers = make_column_selector(dtype_include=np.number)
    encode = make_column_transformer(
        (StandardScaler(), numbers),
        (
            OneHotEncoder(handle_unknown="ignore", min_frequency=5, sparse_output=False),
            make_column_selector(dtype_exclude=np.number),
        ),
    )
    return make_pipeline(encode, classifier)
