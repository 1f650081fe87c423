"""Comparison of calibrators on real tables and networks, with those of other packages.

    python benchmarks/compare_calibrators.py [--peers]

Six classifiers are trained on each table; 100, 500 or 5000 other samples are used for calibration, and the
rest for evaluation, with several random splits. Outputs of networks are calibrated and evaluated in the same
way. A setting is one classifier on one table with one number of calibration samples. Each calibrator is
ranked in each setting by its mean log loss (and Brier score), and ranks are averaged over settings. The loss
of a method relative to the default is the mean difference on the same splits, with its standard error over
repetitions; the default is SplineCalibrator() for binary and LogAverageCalibrator() for multiclass problems.
A difference within one standard error is a tie. "improvement" is the loss of the uncalibrated forecasts minus
that of the method, the post-hoc improvement (PHI) of CalArena (arXiv:2605.30188).

Probabilities are clipped at 0.001 in log losses, so that a single impossible outcome does not dominate;
"p_below_1e-6" in the CSV file, "p < 1e-6" in the table, is the number of outcomes with such a probability.
If a method fails on a split, the uncalibrated forecasts are evaluated instead, and the failure is counted.
Probabilities are normalized to sum 1.

    --peers              also those of other packages, if installed: pip install -r benchmarks/peers.txt
    --classes two        only binary or only multiclass problems
    --repetitions 4      random splits
    --slow 2             the same, for methods of other packages that take more than half a second; their
                         differences then have no standard error
    --limit 60           processor seconds for a split, after which the method has failed
    --tables NAME ...    some of the tables, or networks
    --write FOLDER       write the tables as CSV
    --smoke              two bundled tables and classifiers, one repetition, as a quick check
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import contextlib
import io
import itertools
import signal
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from _calibrator_peers import Method, own_binary, own_multiclass, peers
from _forecasts import CLASSIFIERS, NETWORKS, TABLES, Split, network_splits, table_splits
from _options import parser_of
from sklearn.metrics import roc_auc_score

from sklearn_calib.metrics import smooth_ece

CLIP, HARD = 1e-3, 1e-6
ROWS = [100, 500, 5000]
SEVERAL = ["satellite", "digits", "wine", "diabetes, thirds"]
DEFAULT, DEFAULT_SEVERAL = "spline", "log average"
SCORES = ["log_loss", "brier", "smooth_ece", "auc"]
SLOW_SECONDS = 0.5


def main() -> None:
    arguments = _arguments()
    names = arguments.tables or [*TABLES, *NETWORKS]
    if arguments.smoke:
        names, arguments.repetitions, arguments.rows = ["breast cancer", "wine"], 1, [100]
    for several, default in ((False, DEFAULT), (True, DEFAULT_SEVERAL)):
        chosen = [name for name in names if (name in SEVERAL or name in NETWORKS) == several]
        if not chosen or arguments.classes not in (None, "several" if several else "two"):
            continue
        methods = own_multiclass() if several else own_binary()
        if arguments.peers:
            methods |= peers(several, _log)
        results = measure(_splits(chosen, arguments), methods, arguments.slow, arguments.limit)
        table = ranked(results, default)
        title = "Several classes" if several else "Two classes"
        settings = results[["source", "classifier", "rows"]].drop_duplicates()
        print(f"\n{title}: {len(settings)} settings, {results['split'].nunique()} splits")
        print(table.to_string(float_format=lambda value: f"{value:.4f}"), flush=True)
        if arguments.write:
            stem = arguments.write / f"calibrators_{'several' if several else 'two'}_classes"
            table.round(5).to_csv(f"{stem}.csv")
            Path(f"{stem}.md").write_text(markdown(table), encoding="utf-8")


def measure(splits: Iterable[Split], methods: dict[str, Method], slow: int, limit: int) -> pd.DataFrame:
    """Return one row per split and method, with its scores."""
    found, seconds = [], {}
    for number, split in enumerate(splits):
        binary = split.proba.shape[1] == 2
        scores, new = (split.fit_proba[:, 1], split.proba[:, 1]) if binary else (split.fit_proba, split.proba)
        place = (split.source, split.classifier, split.rows, split.repetition, number)
        found.append((*place, "uncalibrated", *scored(new, split.label), 0.0, 0))
        plain = found[-1][6:]
        for name, method in methods.items():
            like = (name, split.source, split.rows)
            if ":" in name and split.repetition >= slow and seconds.get(like, 0.0) > SLOW_SECONDS:
                continue
            start = time.process_time()
            try:
                with _silence(), _limit(limit if ":" in name else 0):
                    calibrated = method(scores.copy(), split.fit_label.copy(), new.copy())
                values = (
                    *scored(np.asarray(calibrated, dtype=np.float64), split.label),
                    time.process_time() - start,
                    0,
                )
            except Exception as error:
                if not any(row[5] == name and row[-1] for row in found):
                    _log(f"{name} failed on {place[:4]}: {type(error).__name__}: {str(error)[:200]}")
                values = (*plain[:-2], time.process_time() - start, 1)
            seconds[like] = max(seconds.get(like, 0.0), values[-2])
            found.append((*place, name, *values))
        if number % 50 == 49:
            _log(f"{number + 1} splits")
    columns = [
        "source",
        "classifier",
        "rows",
        "repetition",
        "split",
        "method",
        *SCORES,
        "p_below_1e-6",
        "seconds",
        "failed",
    ]
    return pd.DataFrame(found, columns=columns)


def scored(proba: np.ndarray, label: np.ndarray) -> tuple[float, ...]:
    """Return log loss, Brier score, smooth ECE (multiclass: of the confidence), AUC, count of p < 1e-6."""
    if not np.isfinite(proba).all() or proba.min() < -1e-6 or proba.max() > 1 + 1e-6:
        raise ValueError("did not return probabilities")
    proba = np.clip(proba, 0.0, 1.0)
    if proba.ndim == 1:
        of_label = np.where(label == 1, proba, 1.0 - proba)
        brier = np.square(1.0 - of_label).mean()
        return (
            _log_loss(of_label),
            brier,
            smooth_ece(label, proba),
            roc_auc_score(label, proba),
            _count_tiny(of_label),
        )
    proba = proba / np.maximum(proba.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    of_label = proba[np.arange(len(label)), label]
    brier = (np.square(proba).sum(axis=1) - 2.0 * of_label + 1.0).mean()
    error = smooth_ece(label, proba, reduction="confidence", labels=np.arange(proba.shape[1]))
    normalized = proba / proba.sum(axis=1, keepdims=True)
    area = roc_auc_score(label, normalized, multi_class="ovr", labels=np.arange(proba.shape[1]))
    return _log_loss(of_label), brier, error, area, _count_tiny(of_label)


def ranked(results: pd.DataFrame, default: str) -> pd.DataFrame:
    """Return one row per method, by rank in log loss, with differences to the default and their s.e."""
    cell = ["source", "classifier", "rows"]
    table = pd.DataFrame(index=pd.Index(results["method"].unique(), name="method"))
    for score in ("log_loss", "brier"):
        wide = results.pivot_table(score, [*cell, "repetition"], "method")
        excess = wide.sub(wide[default], axis=0)
        by_cell = excess.groupby(level=cell)
        mean, error = by_cell.mean(), by_cell.sem()
        table[f"{score}_rank"] = mean.rank(axis=1).mean()
        table[score] = wide[default].mean() + mean.mean()
        # of methods that ran everywhere; the variance is that over splits
        everywhere = excess.dropna(axis=1).groupby(level="repetition").mean()
        table[f"{score}_excess"], table[f"{score}_excess_se"] = mean.mean(), everywhere.sem()
        plain = table.loc["uncalibrated", f"{score}_excess"]
        table[f"{score}_improvement"] = plain - table[f"{score}_excess"]
        if score == "log_loss":
            table["better_cells"], table["worse_cells"] = (mean < -2 * error).sum(), (mean > 2 * error).sum()
    means = results.groupby([*cell, "method"])[["smooth_ece", "auc", "seconds"]].mean()
    table = table.join(means.groupby("method").mean()).join(
        results.groupby("method")[["p_below_1e-6", "failed"]].sum()
    )
    table["tie"] = np.where(table["log_loss_excess"].abs() <= table["log_loss_excess_se"], "tie", "")
    return table.sort_values(["log_loss_rank", "log_loss_excess"])


def markdown(table: pd.DataFrame) -> str:
    """Return the table for the documentation, with the difference to the default in thousandths."""

    def difference(row: pd.Series, score: str) -> str:
        mean, error = 1e3 * row[f"{score}_excess"], 1e3 * row[f"{score}_excess_se"]
        if mean == 0.0:
            return "default"
        if np.isnan(error):
            return f"{mean:+.1f}"
        return f"{mean:+.1f} ± {error:.1f}" + (" (tie)" if abs(mean) <= error else "")

    differences = ("excess, 1e-3", "improvement, 1e-3")
    loss, brier = ("rank, log loss", "log loss", *differences), ("rank, Brier", "Brier", *differences)
    head = " | ".join(["method", *loss, *brier, "smooth ECE", "AUC", "p < 1e-6"])
    lines = [f"| {head} |", "|---" + "|---:" * 11 + "|"]
    for name, row in table.iterrows():
        values = [
            f"**{name}**" if ":" not in name else name,
            f"{row['log_loss_rank']:.1f}",
            f"{row['log_loss']:.4f}",
            difference(row, "log_loss"),
            f"{1e3 * row['log_loss_improvement']:+.1f}",
            f"{row['brier_rank']:.1f}",
            f"{row['brier']:.4f}",
            difference(row, "brier"),
            f"{1e3 * row['brier_improvement']:+.1f}",
            f"{row['smooth_ece']:.4f}",
            f"{row['auc']:.4f}",
            f"{row['p_below_1e-6']:.0f}",
        ]
        lines.append("| " + " | ".join(values) + " |")
    return "\n".join(lines) + "\n"


def _splits(names: list[str], arguments: argparse.Namespace) -> Iterable[Split]:
    repetitions = range(arguments.repetitions)
    classifiers = dict(list(CLASSIFIERS.items())[: 2 if arguments.smoke else None])
    tables = [name for name in names if name in TABLES]
    networks = [name for name in names if name in NETWORKS]
    return itertools.chain(
        table_splits(tables, arguments.rows, repetitions, _log, classifiers),
        network_splits(networks, arguments.rows, repetitions, _log),
    )


def _log_loss(of_label: np.ndarray) -> float:
    return float(-np.log(np.clip(of_label, CLIP, 1.0 - CLIP)).mean())


def _count_tiny(of_label: np.ndarray) -> int:
    return int(np.sum(of_label < HARD))


@contextlib.contextmanager
def _limit(seconds: int):
    """Raise TimeoutError after ``seconds`` of processor time, unless it is 0."""

    def stop(number, frame):
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def _silence():
    """Suppress output and warnings of other packages."""
    with (
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = parser_of(__doc__, repetitions=4, slow=2, limit=60)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--classes", choices=["two", "several"])
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--tables", nargs="+", choices=[*TABLES, *NETWORKS])
    parser.add_argument("--write", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
