"""The command line: ``python -m sklearn_calib report predictions.csv --y y --p p``, and ``check``."""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from sklearn_calib import _validation
from sklearn_calib._version import __version__
from sklearn_calib._writing import write_whole
from sklearn_calib.report._report import calibration_report
from sklearn_calib.report._requirements import CalibrationRequirements
from sklearn_calib.report._words import one_line
from sklearn_calib.sketch._batches import sketch_columns
from sklearn_calib.sketch._files import Columns, table_files

_REPORT_EXAMPLES = """examples:
  python -m sklearn_calib report predictions.csv --y outcome --p probability --out report.html
  python -m sklearn_calib report predictions.parquet --y died --p risk --group hospital --pos-label yes
  python -m sklearn_calib report predictions.csv --y outcome --p probability --segments age,region
  python -m sklearn_calib report predictions.csv.gz --y label --p p_cat p_dog p_bird --labels cat dog bird
  python -m sklearn_calib report predictions.csv --y red big old --p p_red p_big p_old

With more than a million rows of a binary target, without groups, clusters and segments, predictions are
rounded to 17 significant bits and summarized in constant memory.
"""
_CHECK_EXAMPLES = """requirements.toml, for example:
  slope = [0.9, 1.1]
  intercept = [-0.1, 0.1]
  certificate = 0.02
  smooth_ece = 0.03
  segment_difference = { limit = 0.05, min_samples = 500 }
  alpha = 0.05

examples:
  python -m sklearn_calib check predictions.csv --requirements requirements.toml --y outcome --p probability
  python -m sklearn_calib check scores.parquet --requirements requirements.toml --y died --p risk \\
      --group hospital --junit calibration.xml --markdown calibration.md

exit status: 0 if all requirements pass, 1 if any fails, 3 if none fails but some are
undecided, 2 for invalid input. With --undecided skipped, undecided requirements do not change the status.
"""
# With more rows of a binary target than this, the data are summarized in a sketch.
_MOST_ROWS = 1_000_000
_SIGINT, _SIGPIPE = 2, 13  # by number, as not every system has them


# Options with a text as value: name, what it is, help.
_OF_BOTH = (
    ("--pos-label", "LABEL", "the positive class of a binary target; required for text labels (default: 1)"),
    ("--weight", "COLUMN", "column of sample weights"),
    ("--group", "COLUMN", "column of groups; report evaluates each, check uses them for segment_difference"),
    (
        "--clusters",
        "COLUMN",
        "column of clusters (patient, customer, day); samples within a cluster may be dependent",
    ),
)
_OF_REPORT = (
    ("--out", "FILE", "write the report as a self-contained HTML page"),
    ("--json", "FILE", "write the numbers and sentences as JSON"),
    ("--segments", "COLUMN,...", "columns of features, in which miscalibrated segments are searched for"),
    ("--title", "TEXT", "name of the model, for the title (default: name of the file)"),
)
_OF_CHECK = (
    ("--junit", "FILE", "write the outcomes as JUnit XML"),
    ("--markdown", "FILE", "write the outcomes as a table in Markdown"),
)


class _Parser(argparse.ArgumentParser):
    """A parser whose messages are short and without control characters."""

    def error(self, message: str) -> NoReturn:
        super().error(one_line(message, 1200))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m sklearn_calib", description="Calibration of predicted probabilities.")
    parser.add_argument("--version", action="version", version=f"sklearn_calib {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    report = _add_command(
        commands,
        "report",
        "Report on the calibration of predicted probabilities in files: metrics with their "
        "expected values under perfect calibration, tests, miscalibrated intervals of predictions, and "
        "recommendations. Prints text; --out writes a self-contained HTML page.",
        _REPORT_EXAMPLES,
        _OF_REPORT,
    )
    report.add_argument(
        "--labels", nargs="+", metavar="LABEL", help="label of each column of --p, for three or more classes"
    )
    report.add_argument(
        "--text", action="store_true", help="print the report, even if --out or --json writes it to a file"
    )
    report.add_argument(
        "--confidence", type=float, default=0.95, metavar="LEVEL", help="level of intervals (default: 0.95)"
    )
    check = _add_command(
        commands,
        "check",
        "Check by equivalence tests whether predicted probabilities in files meet requirements "
        "on calibration: each passes, fails, or is undecided.",
        _CHECK_EXAMPLES,
        _OF_CHECK,
    )
    check.add_argument("--requirements", required=True, metavar="FILE", help="the requirements, in TOML")
    check.add_argument(
        "--undecided",
        choices=("failure", "skipped"),
        default="failure",
        help="how an undecided requirement counts in JUnit XML and for the exit status (default: failure)",
    )
    check.set_defaults(labels=None, segments=None)
    return parser


def _add_command(
    commands: Any, name: str, description: str, examples: str, options: Iterable[tuple[str, str, str]]
) -> argparse.ArgumentParser:
    """Add the parser of a command, with the options of both."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=description.split(":")[0],
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="CSV (also gzipped) with a line of column names, Parquet, Feather, or a folder of these",
    )
    parser.add_argument(
        "--y",
        required=True,
        nargs="+",
        metavar="COLUMN",
        help="column with the outcomes, or one column of zeros and ones for each label (multilabel)",
    )
    parser.add_argument(
        "--p",
        required=True,
        nargs="+",
        metavar="COLUMN",
        help="column with the predicted probability of the positive class, or one for each class or label",
    )
    for option, metavar, text in (*_OF_BOTH, *options):
        parser.add_argument(option, metavar=metavar, help=text)
    parser.add_argument(
        "--weights",
        choices=("sampling", "frequency"),
        default="sampling",
        help="what --weight is: sampling weights, or whole numbers that count samples (default: sampling)",
    )
    parser.add_argument(
        "--n-resamples",
        type=int,
        default=200,
        metavar="N",
        help="number of simulations for intervals and null distributions; run time is nearly proportional "
        "(default: 200)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the simulations (default: 0)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, with the arguments of the process by default, and return the exit status.

    0, or 2 for invalid input, with a message on stderr; of ``check`` also 1 and 3, if requirements are not
    met. 141 if the reader of the output, such as head, has closed the pipe, and 130 for Ctrl-C.
    """
    try:
        return _run(_parser().parse_args(arguments))
    except BrokenPipeError:
        # what is left would be written at the end of the process again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + _SIGPIPE
    except KeyboardInterrupt:
        return 128 + _SIGINT
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except (ValueError, TypeError, ImportError, MemoryError) as error:
        message = str(error)
    print(f"sklearn_calib: error: {one_line(message, 1200)}", file=sys.stderr)
    return 2


def _run(options: argparse.Namespace) -> int:
    """Check the options, run the command and print its result; return the exit status."""
    _validation.check_size(options.n_resamples, "--n-resamples", minimum=20)
    _validation.check_integer(options.seed, "--seed", 0)
    text, status = _report(options) if options.command == "report" else _check(options)
    # characters that the encoding of the terminal lacks are replaced
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, errors="replace").decode(encoding), flush=True)
    return status


def _check_outputs(outputs: dict[str, str | None], files: Sequence[str | Path]) -> None:
    """Raise if a file cannot be written, or is an input file or the other output file."""
    given = {name: target for name, target in outputs.items() if target is not None}
    for name, target in given.items():
        path = Path(target)
        if not target or path.is_dir():
            raise ValueError(f"{name} names a folder, {target!r}. Name a file.")
        if not path.absolute().parent.is_dir():
            raise ValueError(f"{target}: its folder does not exist.")
        if os.path.realpath(target) in map(os.path.realpath, files):
            raise ValueError(f"{name} names {target}, which is an input file. Name another file.")
    if len({os.path.realpath(target) for target in given.values()}) < len(given):
        raise ValueError(f"{' and '.join(given)} name the same file, {target}. Name two.")


def _report(options: argparse.Namespace) -> tuple[str, int]:
    """Write the requested files, and return what is printed, and the exit status."""
    _validation.check_fraction(options.confidence, "--confidence")
    _check_outputs({"--out": options.out, "--json": options.json}, table_files(options.files))
    data, positive = _read(options)
    more = f" and {len(options.files) - 1} more" if len(options.files) > 1 else ""
    # file names can contain bytes that are not text; they are replaced by a mark
    name = os.fsencode(Path(options.files[0]).name).decode("utf-8", errors="replace") + more
    report = calibration_report(
        **data,
        name=name if options.title is None else options.title,
        confidence=options.confidence,
        n_resamples=options.n_resamples,
        random_state=options.seed,
    )
    if positive is not None:
        report = replace(report, positive=str(positive))
    if options.weight is None:
        # rows that were pooled have counts
        report = replace(report, weights=None)
    if options.out is not None:
        report.to_html(options.out)
    if options.json is not None:
        text = json.dumps(report.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        write_whole(options.json, f"{text}\n".encode())
    in_full = options.text or (options.out is None and options.json is None)
    return str(report) if in_full else report.verdict, 0


def _check(options: argparse.Namespace) -> tuple[str, int]:
    """Write the requested files, and return what is printed, and the exit status."""
    outputs = {"--junit": options.junit, "--markdown": options.markdown}
    _check_outputs(outputs, [*table_files(options.files), options.requirements])
    requirements = CalibrationRequirements.from_toml(options.requirements)
    if len(options.p) > 1 == len(options.y):
        raise ValueError(
            f"requirements are for a binary or a multilabel target, but --p names {len(options.p)} columns."
        )
    data, _ = _read(options)
    result = requirements.check(**data, n_resamples=options.n_resamples, random_state=options.seed)
    if options.junit is not None:
        write_whole(options.junit, result.to_junit(undecided=options.undecided).encode())
    if options.markdown is not None:
        write_whole(options.markdown, result.to_markdown().encode())
    undecided = 3 if options.undecided == "failure" else 0
    return str(result), {"pass": 0, "fail": 1, "undecided": undecided}[result.outcome]


def _read(options: argparse.Namespace) -> tuple[dict[str, Any], Any]:
    """Return the arguments that the files contain, and the positive label if 1 replaces it among outcomes."""
    several, multilabel = len(options.p) > 1, len(options.y) > 1
    if multilabel and len(options.y) != len(options.p):
        raise ValueError(
            f"--y names {len(options.y)} columns of labels, but --p {len(options.p)}. Name one of each label."
        )
    if multilabel and (options.labels is not None or options.pos_label is not None):
        raise ValueError("--labels and --pos-label are for one column of --y. Omit them.")
    if several and not multilabel:
        if options.labels is None or len(options.labels) != len(options.p):
            raise ValueError(
                f"--p names {len(options.p)} columns. Name the label of each, in the same order, by "
                "--labels; for a binary target name one column, that of the positive class."
            )
        if len(options.p) == 2 or options.pos_label is not None:
            raise ValueError("A binary target needs one column of --p: that of the positive class.")
    if not several and options.labels is not None:
        raise ValueError("--labels is for several columns of --p; for one column pass --pos-label.")
    for name, values in (("--y", options.y), ("--p", options.p), ("--labels", options.labels or [])):
        if len(set(values)) < len(values):
            raise ValueError(f"{name} names one twice: {', '.join(values)}.")
    files = table_files(options.files)
    y, labels = (
        options.y[0],
        [name for name in (*options.y, options.group, options.clusters) if name is not None],
    )
    features = [] if options.segments is None else options.segments.split(",")
    columns = Columns(labels, options.p, [] if options.weight is None else [options.weight], features)
    parts, n_rows, few = [], 0, several or len(labels) > 1 or bool(features)
    # a sketch has sums of weights only
    few |= options.weight is not None and options.weights == "sampling"
    batches = columns.batches(files)
    for part in batches:
        parts.append(part)
        n_rows += part[y].shape[0]
        if n_rows > _MOST_ROWS and not few:
            names, where = (y, options.p[0], options.weight), f"{files[0]}: column {y!r}"
            sketch = sketch_columns(columns, chain(parts, batches), names, options.pos_label, where)
            rows = dict(zip(("y_true", "y_proba", "sample_weight"), sketch.weighted_sample(), strict=True))
            given = {**rows, "weights": "frequency"}
            return given, sketch.pos_label
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    known = np.unique(columns.labels(y)).tolist()
    data: dict[str, Any] = {"y_true": columns.labels(y)[found[y]]}
    if multilabel:
        data["y_true"] = columns.table(options.y, found)
        data["y_proba"] = np.column_stack([found[name] for name in options.p])
    elif several:
        data["labels"], order = _class_labels(options, known)
        data["y_proba"] = np.column_stack([found[options.p[k]] for k in order])
    else:
        where = f"{files[0]}: column {y!r}"
        data["pos_label"] = _positive_label(options, columns, known, where)
        data["y_proba"] = found[options.p[0]]
    if options.weight is not None:
        data |= {"sample_weight": found[options.weight], "weights": options.weights}
    if options.group is not None:
        data["groups"] = columns.labels(options.group)[found[options.group]]
    if options.clusters is not None:
        data["clusters"] = found[options.clusters]
    if features:
        data["features"] = {name: found[name, "feature"] for name in features}
    return data, None


def _positive_label(options: argparse.Namespace, columns: Columns, known: list[Any], where: str) -> Any:
    """Return the label that is named by --pos-label, or None where the default is right."""
    shown = ", ".join(map(str, known[:5])) + (", ..." if len(known) > 5 else "")
    if len(known) > 2:
        raise ValueError(
            f"{where} has {len(known)} distinct outcomes ({shown}), but --p names one column. Name the "
            "column of a binary outcome by --y, or one column and label for each class by --p and --labels."
        )
    if options.pos_label is not None:
        label = columns.find(options.y[0], options.pos_label)
        if label is None:
            raise ValueError(f"--pos-label {options.pos_label} does not occur among the outcomes: {shown}.")
        return label
    if isinstance(known[-1], str):
        raise ValueError(
            f"{where} contains the labels {shown}, so the class of the probabilities is ambiguous. Pass the "
            "positive class by --pos-label."
        )
    return None


def _class_labels(options: argparse.Namespace, known: list[Any]) -> tuple[Any, list[int]]:
    """Return the labels in increasing order, and the columns of --p in their order."""
    missing = {str(label) for label in known} - set(options.labels)
    if missing:
        raise ValueError(f"the outcome {min(missing)} in column {options.y[0]!r} is not among --labels.")
    labels = np.array(options.labels)
    if not isinstance(known[0], str):
        try:
            labels = labels.astype(np.int64)
        except ValueError:
            raise ValueError(
                f"column {options.y[0]!r} contains whole numbers, but --labels others: {', '.join(labels)}."
            ) from None
    order = np.argsort(labels)
    return labels[order], order.tolist()
