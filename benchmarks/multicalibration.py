"""Calibration given features, and of groups: log loss and errors of segments, compared with other methods.

    python benchmarks/multicalibration.py [--write FOLDER]
    python benchmarks/multicalibration.py --study groups [--write FOLDER]
    python benchmarks/multicalibration.py --study planted [--write FOLDER]
    python benchmarks/multicalibration.py --study time

"features": real tables, of which one half trains a classifier and a part of the other calibrates; and
simulated scores that are calibrated, except in a planted segment. Every method is fitted to the same score
and features, in random splits. The table has means over the repetitions on held-out samples, as differences
to the spline, in thousandths:

- log loss and Brier score, the former with the standard error over splits;
- worst segment: the largest difference of event rate and mean prediction in a segment of 100 or more samples,
  which are the categories and quarters of single features;
- multicalibration error: the largest cutoff calibration error of a segment, multiplied by its number of
  samples and divided by its standard deviation under calibration, sqrt(sum p (1 - p)); not in thousandths.

"planted": calibrated scores of 10 000 samples, but events are more frequent by 0.12 in a segment of two or
three features, or depend on smooth interactions of features, or not at all; mean difference of the true and
the predicted probabilities that is left in the segment, and mean log loss above that of the truth, in
thousandths.

"groups": logistic maps of groups whose coefficients vary; mean log loss above that of the true probabilities,
for one map, a map for each group, GroupCalibrator, and the posterior modes given the true mean and covariance
of the coefficients, which no method knows. "time": seconds of a fit of a million samples with 30 columns, and
of 100 000 groups. The packages mcgrad and lightgbm are included if they are installed.

    --data NAME ...       tables or simulations
    --sizes 1000 5000     samples for calibration
    --repetitions 5       random splits
    --write FOLDER        write the table, and for "features" all rows as a CSV file
    --smoke               two small data sets, two methods, as a quick check
"""

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from _forecasts import TABLES, data_folder, pipeline_of
from _options import parser_of
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from sklearn_calib.calibrators import (
    BetaCalibrator,
    GroupCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
    SplineCalibrator,
)
from sklearn_calib.metrics import cutoff_calibration_error

REAL = ("adult", "German credit", "affairs", "recidivism")
#: Share of the planted segment, and its error in log-odds.
PLANTED = {"calibrated": (0.0, 0.0), "planted, 5%": (0.05, 0.6), "planted, 15%": (0.15, 0.6)}
CLASSIFIERS = {
    "logistic regression": LogisticRegression(max_iter=2000),
    "random forest": RandomForestClassifier(200, random_state=0),
    "gradient boosting": HistGradientBoostingClassifier(random_state=0),
}
# Largest numbers of samples to train a classifier and to evaluate; and least number in a segment.
MOST_TRAINED, MOST_SCORED, LEAST = 5000, 20_000, 100
Method = Callable[[pd.DataFrame, np.ndarray, pd.DataFrame], np.ndarray]


def on_score(calibrator: object) -> Method:
    """Return a method that uses the score only."""
    return lambda fit, y, new: calibrator.fit(fit["score"], y).predict_proba(new["score"])[:, 1]


def with_features(fit: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    return SegmentCalibrator().fit(fit, y).predict_proba(new)[:, 1]


def stacked(fit: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    """Return the probabilities of boosting with the score as another feature."""
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    return model.fit(fit, y).predict_proba(new)[:, 1]


def lightgbm_with_offset(fit: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    """Return the probabilities of LightGBM from the log-odds of the score, stopped early."""
    import lightgbm

    start = [logit(part["score"].to_numpy()) for part in (fit, new)]
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=0)
    parts = [lightgbm.Dataset(fit.iloc[rows], y[rows], init_score=start[0][rows]) for rows in (train, test)]
    options = {"objective": "binary", "learning_rate": 0.05, "verbosity": -1, "seed": 0, "num_threads": 1}
    stop = lightgbm.early_stopping(20, verbose=False)
    model = lightgbm.train(options, parts[0], 500, valid_sets=[parts[1]], callbacks=[stop])
    return expit(start[1] + model.predict(new, raw_score=True, num_iteration=model.best_iteration))


def mcgrad(fit: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    """Return the probabilities of MCGrad with its default parameters."""
    from mcgrad.methods import MCGrad

    texts = [name for name in fit if fit[name].dtype == "category"]
    columns = {
        "categorical_feature_column_names": texts,
        "numerical_feature_column_names": [name for name in fit if name not in {"score", *texts}],
    }
    fit, new = (part.astype(dict.fromkeys(texts, str)) for part in (fit, new))
    return MCGrad().fit(fit.assign(y=y), "score", "y", **columns).predict(new, "score", **columns)


METHODS: dict[str, Method] = {
    "SplineCalibrator": on_score(SplineCalibrator()),
    "SegmentCalibrator": with_features,
    "no calibration": lambda fit, y, new: new["score"].to_numpy(),
    "PlattCalibrator": on_score(PlattCalibrator()),
    "BetaCalibrator": on_score(BetaCalibrator()),
    "IsotonicCalibrator": on_score(IsotonicCalibrator(clip="auto")),
    "mcgrad": mcgrad,
    "LightGBM with offset": lightgbm_with_offset,
    "stacked boosting": stacked,
}


def simulated(name: str, n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return calibrated scores with features, and outcomes that differ from them in a planted segment."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 6)) @ np.linalg.cholesky(0.3 + 0.7 * np.eye(6)).T
    table = pd.DataFrame(x, columns=[f"x{j}" for j in range(6)])
    table["region"] = pd.Categorical(rng.choice(list("abcde"), n, p=[0.35, 0.25, 0.2, 0.15, 0.05]))
    table["product"] = pd.Categorical(rng.choice(list("uvwxyz"), n))
    score = 0.7 * x[:, 0] + 0.5 * x[:, 1] - 0.5 * x[:, 2] + 0.4 * (table["region"] == "d") - 0.8
    share, error = PLANTED[name]
    inside = (table["region"] == "a") & (x[:, 3] > np.quantile(x[:, 3], 1.0 - share / 0.35))
    table.insert(0, "score", expit(score))
    return table, (rng.random(n) < expit(score + error * inside)).astype(int)


def splits(data: list[str], sizes: list[int], repetitions: int) -> Iterator[tuple]:
    """Yield name, size, and tables and outcomes for calibration and evaluation."""
    for name in data:
        for n in sizes if name in PLANTED else []:
            for seed in range(repetitions):
                X, y = simulated(name, n + MOST_SCORED, seed)
                yield name, n, X[:n], y[:n], X[n:].reset_index(drop=True), y[n:]
        if name in PLANTED:
            continue
        try:
            X, y = TABLES[name](data_folder())
        except FileNotFoundError:
            print(f"{name} is omitted, its file is not in {data_folder()}", flush=True)
            continue
        texts = [column for column in X if not pd.api.types.is_numeric_dtype(X[column])]
        X = X.astype(dict.fromkeys(texts, "category"))
        for seed in range(repetitions):
            order = np.random.default_rng(seed).permutation(len(y))
            train, rest = order[: min(len(y) // 3, MOST_TRAINED)], order[min(len(y) // 3, MOST_TRAINED) :]
            for classifier, model in CLASSIFIERS.items():
                model = pipeline_of(clone(model), X, seed).fit(X.iloc[train], y[train])
                score = np.clip(model.predict_proba(X.iloc[rest])[:, 1], 1e-4, 1.0 - 1e-4)
                table, labels = X.iloc[rest].reset_index(drop=True), y[rest]
                table.insert(0, "score", score)
                usable = [n for n in sizes if n <= 2 * len(rest) // 3] or [len(rest) // 2]
                for n in usable:
                    new = slice(n, n + MOST_SCORED)
                    yield f"{name}, {classifier}", n, table[:n], labels[:n], table[new], labels[new]


def segments_of(table: pd.DataFrame) -> list[np.ndarray]:
    """Return the members of each category, and of each quarter of a numerical feature."""
    found = []
    for name in table.columns.drop("score"):
        values = table[name]
        if values.dtype == "category":
            codes = values.cat.codes.to_numpy()
        else:
            edges = np.unique(np.quantile(values, [0.25, 0.5, 0.75]))
            codes = np.searchsorted(edges, values, side="left")
        found += [codes == k for k in np.unique(codes)]
    return [inside for inside in found if inside.sum() >= LEAST] or [np.ones(len(table), dtype=bool)]


def measures(y: np.ndarray, p: np.ndarray, segments: list[np.ndarray]) -> list[float]:
    """Return log loss, Brier score, error of the worst segment, and multicalibration error."""
    q = np.clip(p, 1e-9, 1.0 - 1e-9)
    loss = -np.mean(np.where(y == 1, np.log(q), np.log1p(-q)))
    worst = max(abs(float((y - p)[inside].mean())) for inside in segments)
    scaled = [
        cutoff_calibration_error(y[inside], q[inside], pos_label=1)
        * inside.sum()
        / np.sqrt((q * (1.0 - q))[inside].sum())
        for inside in segments
    ]
    return [loss, float(np.mean((y - p) ** 2)), worst, max(scaled)]


def study_features(arguments: argparse.Namespace) -> list[str]:
    names = list(METHODS)[:2] if arguments.smoke else list(METHODS)
    rows = []
    for source, n, X, y, new, labels in splits(arguments.data, arguments.sizes, arguments.repetitions):
        segments = segments_of(new)
        for name in list(names):
            began = time.perf_counter()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    p = np.asarray(METHODS[name](X.reset_index(drop=True), y, new), dtype=np.float64)
            except ImportError:
                print(f"{name} is omitted, it is not installed", flush=True)
                names.remove(name)
                continue
            seconds = time.perf_counter() - began
            rows.append((source.split(",")[0] if source not in PLANTED else source, source, n, name, seconds))
            rows[-1] += tuple(measures(labels, p, segments))
        print(f"{source}, n = {n}: done", flush=True)
    what = ["log loss", "Brier", "worst segment", "multicalibration error"]
    found = pd.DataFrame(rows, columns=["data", "source", "n", "method", "seconds", *what])
    split = found.groupby(["source", "n", "method"]).cumcount()
    spline = found[found["method"] == "SplineCalibrator"].set_index(["source", "n"])
    spline = spline.set_index(spline.groupby(level=[0, 1]).cumcount(), append=True)[what]
    base = spline.loc[list(zip(found["source"], found["n"], split, strict=True))].to_numpy()
    difference = found.assign(**{name: found[name] - base[:, k] for k, name in enumerate(what)})
    return _table(found, difference, what)


def _table(found: pd.DataFrame, difference: pd.DataFrame, what: list[str]) -> list[str]:
    """Return the lines of the table: each set of data and size, then the mean over all of them."""
    head = "| data | n | method | log loss | Brier | worst segment | multicalibration error | fit, s |"
    lines = [head, "|---|---:|---|---:|---:|---:|---:|---:|"]
    seconds = found.groupby(["data", "n", "method"], sort=False)["seconds"].mean()
    for (data, n), part in difference.groupby(["data", "n"], sort=False):
        for name, rows in part.groupby("method", sort=False):
            lines.append(_line(data, f"{n}", name, rows, found.loc[rows.index], seconds[data, n, name]))
    sources = difference.groupby(["data", "source", "n", "method"], sort=False)[what].mean().reset_index()
    errors = found.groupby(["data", "source", "n", "method"], sort=False)[what].mean().reset_index()
    for title, kept in (("real, mean", ~sources["data"].isin(PLANTED)), ("planted, mean", None)):
        kept = sources["data"].isin([name for name in PLANTED if "," in name]) if kept is None else kept
        for name, rows in sources[kept].groupby("method", sort=False):
            lines.append(_line(title, "", name, rows, errors.loc[rows.index], None))
    return lines


def _line(
    data: str, n: str, name: str, rows: pd.DataFrame, values: pd.DataFrame, seconds: float | None
) -> str:
    own = [1000.0 * rows[what].mean() for what in ("log loss", "Brier", "worst segment")]
    error = 1000.0 * rows["log loss"].std() / np.sqrt(len(rows)) if len(rows) > 1 else np.nan
    cells = [f"{own[0]:+.2f} ± {error:.2f}", f"{own[1]:+.2f}", f"{own[2]:+.1f}"]
    cells.append(f"{values['multicalibration error'].mean():.2f}")
    return f"| {data} | {n} | {name} | {' | '.join(cells)} | {'' if seconds is None else f'{seconds:.1f}'} |"


def planted(name: str, n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return scores with features, the true probabilities, and the members of the planted segment."""
    table, _ = simulated("calibrated", n, int(rng.integers(2**31)))
    p, x = table["score"].to_numpy(), table["x3"].to_numpy()
    inside = np.zeros(n, dtype=bool)
    if name == "smooth":
        waves = 0.4 * np.tanh(x) * np.tanh(table["x5"]) + 0.3 * (table["region"] == "b") * np.tanh(
            table["x0"]
        )
        return table, expit(logit(p) + waves.to_numpy()), inside
    if name != "calibrated":
        low = table["x5"].to_numpy() < (0.4 if name == "three features, 10%" else np.inf)
        share = {"two features, 5%": 0.05, "two features, 10%": 0.1}.get(name, 0.16)
        inside = (table["region"] == "a").to_numpy() & (x > np.quantile(x, 1.0 - share / 0.35)) & low
    return table, np.minimum(p + 0.12 * inside, 0.98), inside


def study_planted(arguments: argparse.Namespace) -> list[str]:
    lines = ["| errors | method | left in the segment | excess log loss |", "|---|---|---:|---:|"]
    names = ["two features, 5%", "two features, 10%", "three features, 10%", "smooth", "calibrated"]
    n = 1000 if arguments.smoke else 10_000
    for name in names[: 1 if arguments.smoke else None]:
        found: dict[str, list] = {"SplineCalibrator": [], "SegmentCalibrator": []}
        for seed in range(2 * arguments.repetitions):
            rng = np.random.default_rng(seed)
            X, p, inside = planted(name, 3 * n, rng)
            y = (rng.random(n) < p[:n]).astype(int)
            new, p, inside = X[n:].reset_index(drop=True), p[n:], inside[n:]
            for method, rows in found.items():
                q = np.clip(METHODS[method](X[:n], y, new), 1e-9, 1.0 - 1e-9)
                loss = np.mean(p * np.log(p / q) + (1.0 - p) * np.log((1.0 - p) / (1.0 - q)))
                rows.append(((p - q)[inside].mean() if inside.any() else np.nan, 1000.0 * loss))
        for method, rows in found.items():
            mean, error = np.mean(rows, axis=0), np.std(rows, axis=0) / np.sqrt(len(rows))
            left = f"{mean[0]:.3f} ± {error[0]:.3f}" if inside.any() else ""
            lines.append(f"| {name} | {method} | {left} | {mean[1]:.2f} ± {error[1]:.2f} |")
            print(lines[-1], flush=True)
    return lines


def grouped(rng: np.random.Generator, sizes: np.ndarray, spread: float) -> tuple[np.ndarray, ...]:
    """Return scores, groups, true probabilities and outcomes."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    score = rng.normal(-1.0, 1.0, len(group))
    shift, slope = rng.normal(0.0, spread, len(sizes)), rng.normal(1.0, spread / 2.0, len(sizes))
    p = expit(shift[group] + slope[group] * score)
    return expit(score), group, p, (rng.random(len(p)) < p).astype(int)


def study_groups(arguments: argparse.Namespace) -> list[str]:
    """Return excess log loss in 1e-5, for groups of equal sizes and of sizes from 1 to 100 000."""
    lines = [
        "| groups | samples | spread | pooled | separate | GroupCalibrator | known distribution |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    settings = {
        "10 groups": np.full(10, 20),
        "3000 groups": np.full(3000, 3),
        "1000 groups": np.full(1000, 30),
        "200 groups": np.full(200, 300),
        "20 groups": np.full(20, 3000),
        "36 groups": np.repeat([1, 10, 100, 1000, 10_000, 100_000], [10, 10, 8, 4, 3, 1]),
    }
    for title, sizes in list(settings.items())[4:5] if arguments.smoke else settings.items():
        repetitions = arguments.repetitions * max(1, 12_000 // sizes.sum())
        for spread in (0.0, 0.2, 0.5, 1.0):
            excess = np.zeros((repetitions, 4))
            for k in range(repetitions):
                score, group, p, y = grouped(np.random.default_rng(k), sizes, spread)
                pooled = PlattCalibrator().fit(score, y).transform(score)
                calibrator = GroupCalibrator().fit(score, y, groups=group)
                own = calibrator.transform(score, groups=group)
                known = given_distribution(logit(score), y, group, spread)
                for j, q in enumerate((pooled, separate(score, y, group, pooled), own, known)):
                    q = np.clip(q, 1e-9, 1.0 - 1e-9)
                    excess[k, j] = np.mean(p * np.log(p / q) + (1.0 - p) * np.log((1.0 - p) / (1.0 - q)))
            means, errors = excess.mean(axis=0), excess.std(axis=0) / np.sqrt(repetitions)
            numbers = " | ".join(f"{1e5 * m:.1f} ± {1e5 * e:.1f}" for m, e in zip(means, errors, strict=True))
            samples = f"{sizes.min()}" if sizes.min() == sizes.max() else f"{sizes.min()} to {sizes.max()}"
            lines.append(f"| {title} | {samples} | {spread:g} | {numbers} |")
            print(lines[-1], flush=True)
    return lines


def given_distribution(f: np.ndarray, y: np.ndarray, group: np.ndarray, spread: float) -> np.ndarray:
    """Return probabilities of the posterior modes of coefficients, whose distribution is known."""
    if spread == 0.0:
        return expit(f)
    mean, precision = np.array([0.0, 1.0]), np.diag([1.0, 4.0]) / spread**2
    coef = np.tile(mean, (group.max() + 1, 1))
    columns = np.column_stack([np.ones_like(f), f])
    products = columns[:, :, np.newaxis] * columns[:, np.newaxis]
    starts = np.searchsorted(group, np.arange(group.max() + 1))
    for _ in range(20):
        q = expit((columns * coef[group]).sum(axis=1))
        hessian = np.add.reduceat((q * (1.0 - q))[:, np.newaxis, np.newaxis] * products, starts) + precision
        gradient = np.add.reduceat((y - q)[:, np.newaxis] * columns, starts) - (coef - mean) @ precision
        step = np.linalg.solve(hessian, gradient[:, :, np.newaxis])[:, :, 0]
        coef += step / np.maximum(np.abs(step).max(axis=1, keepdims=True) / 2.0, 1.0)
    return expit((columns * coef[group]).sum(axis=1))


def separate(score: np.ndarray, y: np.ndarray, group: np.ndarray, pooled: np.ndarray) -> np.ndarray:
    """Return Platt scaling of each group with both outcomes, of others the pooled map."""
    found = pooled.copy()
    for k in range(group.max() + 1):
        own = slice(*np.searchsorted(group, [k, k + 1]))
        if 0 < y[own].sum() < len(y[own]):
            found[own] = PlattCalibrator().fit(score[own], y[own]).transform(score[own])
    return found


def study_time(arguments: argparse.Namespace) -> list[str]:
    lines, n = [], 2000 if arguments.smoke else 1_000_000
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 30))
    X[:, 0] = expit(X[:, 0])
    y = rng.random(n) < expit(logit(X[:, 0]) + 0.6 * ((X[:, 1] > 1.0) & (X[:, 2] > 0.0)))
    began = time.perf_counter()
    found = SegmentCalibrator().fit(X, y)
    seconds = time.perf_counter() - began
    trees = [each.n_iter_ for each in found.trees_]
    lines.append(f"SegmentCalibrator, {n} x 30: {seconds:.1f} s, {trees} trees, weight {found.weight_:.3f}")
    sizes = np.full(n // 10, 20)
    score, group, _, y = grouped(rng, sizes, 0.5)
    began = time.perf_counter()
    GroupCalibrator().fit(score, y, groups=group)
    lines.append(f"GroupCalibrator, {len(sizes)} groups of 20: {time.perf_counter() - began:.1f} s")
    print("\n".join(lines), flush=True)
    return lines


STUDIES = {
    "features": ("multicalibration.md", study_features),
    "planted": ("planted_segments.md", study_planted),
    "groups": ("group_calibration.md", study_groups),
    "time": ("multicalibration_time.txt", study_time),
}


def main() -> None:
    arguments = _arguments()
    if arguments.smoke:
        arguments.data, arguments.sizes, arguments.repetitions = ["calibrated", "planted, 15%"], [500], 1
    for study in STUDIES if arguments.smoke else [arguments.study]:
        name, run = STUDIES[study]
        lines = run(arguments)
        if study == "features":
            print("\n".join(lines), flush=True)
        if arguments.write and study == "features":
            with open(arguments.write / "multicalibration.csv", "w", encoding="utf-8", newline="") as file:
                cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
                csv.writer(file, lineterminator="\n").writerows([cells[0], *cells[2:]])
            lines = [*lines[:2], *(line for line in lines if ", mean |" in line)]
        if arguments.write:
            (arguments.write / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--study", choices=list(STUDIES), default="features")
    parser.add_argument("--data", nargs="+", default=[*REAL, *PLANTED])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 5000, 15_000])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--write", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
