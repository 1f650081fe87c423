"""The command line: ``python -m sklearn_calib report predictions.csv --y y --p p --out report.html``."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib.report._read import read_columns

__all__ = ["main"]

_EXAMPLES = """examples:
  python -m sklearn_calib report predictions.csv --y outcome --p probability --out report.html
  python -m sklearn_calib report predictions.csv.gz --y label --p p_cat p_dog p_bird --text
  python -m sklearn_calib report predictions.parquet --y died --p risk --group hospital --pos-label yes
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sklearn_calib", description="Calibration of predicted probabilities, from the shell."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    report = commands.add_parser(
        "report",
        help="report on the calibration of predictions in a file",
        description="Report on the calibration of predicted probabilities in a file: measures beside what "
        "noise alone would show, tests, where the predictions are off, and what to do. Prints text; --out "
        "writes a page of HTML that stands alone.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    report.add_argument("file", help="CSV (also gzipped) with a line of column names, or Parquet (.parquet)")
    report.add_argument("--y", required=True, metavar="COLUMN", help="column with the outcomes")
    report.add_argument(
        "--p",
        required=True,
        nargs="+",
        metavar="COLUMN",
        help="column with the predicted probability of the positive class, or one column for each class",
    )
    report.add_argument(
        "--labels",
        nargs="+",
        metavar="LABEL",
        help="label of each column of --p; by default what remains of their names after what they begin with "
        "in common, or 0, 1, 2, ...",
    )
    report.add_argument(
        "--pos-label", metavar="LABEL", help="the positive one of two outcomes (default: the greater)"
    )
    report.add_argument("--weight", metavar="COLUMN", help="column that says how often each row was observed")
    report.add_argument("--group", metavar="COLUMN", help="column with a group for each row; a line for each")
    report.add_argument("--out", metavar="FILE", help="write the report as a page of HTML")
    report.add_argument("--json", metavar="FILE", help="write the numbers and sentences as JSON")
    report.add_argument(
        "--text", action="store_true", help="print the report also where --out or --json writes it to a file"
    )
    report.add_argument(
        "--title", metavar="TEXT", help="name of the model, for the title (default: of the file)"
    )
    report.add_argument(
        "--confidence", type=float, default=0.95, metavar="LEVEL", help="level of intervals (default: 0.95)"
    )
    report.add_argument(
        "--n-resamples",
        type=int,
        default=200,
        metavar="N",
        help="resamples behind intervals and floors; the time is nearly proportional (default: 200)",
    )
    report.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the resamples (default: 0)")
    report.add_argument(
        "--delimiter", default=",", metavar="C", help="what parts the cells of a CSV (default: ,)"
    )
    report.add_argument(
        "--encoding", default="utf-8", metavar="NAME", help="encoding of a CSV (default: utf-8)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, default=None
        The arguments after the name of the program; those of the process by default.

    Returns
    -------
    int
        0, or 2 if the input or a file is at fault; a line on stderr then says how.
    """
    options = _parser().parse_args(arguments)
    try:
        return _report(options)
    except BrokenPipeError:
        # the reader of the output, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return _fail(what)
    except (ValueError, TypeError, ImportError) as error:
        return _fail(str(error))


def _fail(message: str) -> int:
    print(f"sklearn_calib: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _report(options: argparse.Namespace) -> int:
    from sklearn_calib.report._report import calibration_report

    if len(options.delimiter) != 1:
        raise ValueError(f"--delimiter must be one character, got {options.delimiter!r}.")
    for target in (options.out, options.json):
        if target is not None and not Path(target).absolute().parent.is_dir():
            raise ValueError(f"{target}: its folder does not exist.")
    names = [options.y, *options.p] + [name for name in (options.weight, options.group) if name is not None]
    columns = read_columns(
        options.file, list(dict.fromkeys(names)), delimiter=options.delimiter, encoding=options.encoding
    )
    y = columns[options.y].labels()
    if len(options.p) < 3 and np.unique(y).shape[0] > 2:
        shown = ", ".join(str(label) for label in np.unique(y)[:5].tolist())
        raise ValueError(
            f"{options.file}: column {options.y!r} has {np.unique(y).shape[0]} distinct outcomes "
            f"({shown}, ...), too "
            "many for the columns of --p. Name the column of outcomes by --y, and one column for each "
            "class by --p."
        )
    probabilities = [columns[name].probabilities() for name in options.p]
    given: dict[str, Any] = {}
    if len(options.p) == 1:
        if options.labels is not None:
            raise ValueError("--labels belongs to several columns of --p; for one pass --pos-label.")
        p: NDArray[Any] = probabilities[0]
    else:
        p, given = _several(options, y, probabilities)
    if options.pos_label is not None:
        if "labels" in given:
            raise ValueError("--pos-label belongs to two classes, but --p names three or more columns.")
        given["pos_label"] = _as_label(options.pos_label, y)
    report = calibration_report(
        y,
        p,
        sample_weight=None if options.weight is None else columns[options.weight].numbers(),
        groups=None if options.group is None else columns[options.group].labels(),
        name=Path(options.file).name if options.title is None else options.title,
        confidence=options.confidence,
        n_resamples=options.n_resamples,
        random_state=options.seed,
        **given,
    )
    if options.out is not None:
        report.to_html(options.out)
    if options.json is not None:
        text = json.dumps(report.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    in_full = options.text or (options.out is None and options.json is None)
    _print(str(report) if in_full else report.verdict)
    return 0


def _print(text: str) -> None:
    """Print a text, whatever the encoding of the terminal."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, errors="replace").decode(encoding), flush=True)


def _as_label(text: str, y: NDArray[Any]) -> Any:
    """Return the label of ``y`` that is written so."""
    known = np.unique(y)
    for label in known.tolist():
        if str(label) == text:
            return label
    shown = ", ".join(str(label) for label in known[:20].tolist())
    raise ValueError(f"--pos-label {text} does not occur among the outcomes: {shown}.")


def _several(
    options: argparse.Namespace, y: NDArray[Any], columns: list[NDArray[np.float64]]
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return the columns in the order of their labels, and what tells the report of them."""
    found = np.unique(y)
    if options.labels is not None:
        if len(options.labels) != len(columns):
            raise ValueError(
                f"--labels names {len(options.labels)} labels for {len(columns)} columns of --p."
            )
        texts = list(options.labels)
    else:
        texts = _without_common_beginning(options.p)
        if not {str(label) for label in found.tolist()} <= set(texts):
            texts = [str(k) for k in range(len(columns))]
    if len(set(texts)) < len(texts):
        raise ValueError(f"--labels names a label twice: {', '.join(texts)}.")
    missing = {str(label) for label in found.tolist()} - set(texts)
    if missing:
        raise ValueError(
            f"the outcome {sorted(missing)[0]} in column {options.y!r} has no column of --p. Name the "
            f"label of each "
            f"column, in the order of --p ({', '.join(options.p)}), by --labels."
        )
    labels = (
        np.array([int(text) for text in texts]) if y.dtype.kind == "i" and _whole(texts) else np.array(texts)
    )
    order = np.argsort(labels, kind="stable")
    p = np.column_stack([columns[k] for k in order])
    if p.shape[1] == 2:
        return p, {"pos_label": labels[order[-1]].item()}
    return p, {"labels": labels[order]}


def _whole(texts: Sequence[str]) -> bool:
    return all(text.removeprefix("-").isdecimal() for text in texts)


def _without_common_beginning(names: Sequence[str]) -> list[str]:
    """Return what parts the names: "p_cat", "p_dog" become "cat", "dog"."""
    low, high = min(names), max(names)
    start = next((i for i, letter in enumerate(low) if i >= len(high) or letter != high[i]), len(low))
    return [name[start:] for name in names]
