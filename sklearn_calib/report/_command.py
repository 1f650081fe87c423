"""The command line: ``python -m sklearn_calib report predictions.csv --y y --p p --out report.html``.

And ``python -m sklearn_calib sketch predictions.csv --y y --p p --out sketch.npz``, ``check``,
``fit predictions.csv --y y --p p --out map.json`` and ``apply map.json scores.csv --out calibrated.csv``.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._validation import check_fraction, check_integer, check_size
from sklearn_calib._writing import write_whole
from sklearn_calib.report._check_command import add_check, check_requirements, exit_status
from sklearn_calib.report._deploy import CALIBRATORS, apply_map, fit_map, load_map
from sklearn_calib.report._report import calibration_report
from sklearn_calib.report._requirements import CalibrationRequirements
from sklearn_calib.report._words import one_line
from sklearn_calib.sketch import CalibrationSketch
from sklearn_calib.sketch._outcomes import OutcomeSketches, ambiguous, is_label
from sklearn_calib.sketch._read import table_files
from sklearn_calib.sketch._tables import PredictionFiles, PredictionRows, check_delimiter, joined

_REPORT_EXAMPLES = """examples:
  python -m sklearn_calib report predictions.csv --y outcome --p probability --out report.html
  python -m sklearn_calib report predictions.csv.gz --y label --p p_cat p_dog p_bird --text
  python -m sklearn_calib report predictions.parquet --y died --p risk --group hospital --pos-label yes
  python -m sklearn_calib report sketch.npz --out report.html

With more than a million rows of a binary target, the data are summarized in a sketch, in constant memory.
"""
_SKETCH_EXAMPLES = """examples:
  python -m sklearn_calib sketch monday.csv --y outcome --p probability --out monday.npz
  python -m sklearn_calib sketch scores/*.parquet --y died --p risk --out all.npz
  python -m sklearn_calib sketch monday.npz tuesday.npz --out days.npz
"""
_FIT_EXAMPLES = """examples:
  python -m sklearn_calib fit predictions.csv --y outcome --p probability --out map.json
  python -m sklearn_calib fit january.parquet --y died --p risk --calibrator isotonic --out map.json
"""
_APPLY_EXAMPLES = """examples:
  python -m sklearn_calib apply map.json scores.csv --p probability --out calibrated.csv
  python -m sklearn_calib apply map.json scores.parquet --p risk --name calibrated_risk --out new.parquet
"""
_SIGPIPE = 13  # by number, as not every system has it
# Longer messages are shortened in the middle: the cause comes first, the advice last.
_LONGEST = 1200
_FILES = "CSV (also gzipped) with a line of column names, Parquet (.parquet), a folder of either"


class _Parser(argparse.ArgumentParser):
    """A parser that accepts each option once, and prints short messages without control characters."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in (None, "store"):
            self.register("action", name, _Once)

    def error(self, message: str) -> NoReturn:
        super().error(_shortened(message))


class _Once(argparse.Action):
    """Store a value that may be given only once."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        given = vars(namespace).setdefault("given", set())
        if option_string is not None and self.dest in given:
            raise argparse.ArgumentError(self, "is given twice")
        given.add(self.dest)
        setattr(namespace, self.dest, values)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m sklearn_calib", description="Calibration of predicted probabilities.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    _add_report(commands)
    _add_sketch(commands)
    add_check(partial(_new_command, commands))
    _add_fit(commands)
    _add_apply(commands)
    return parser


def _new_command(
    commands: Any,
    name: str,
    summary: str,
    description: str,
    examples: str,
    *,
    tables: bool = True,
    simulates: bool = False,
) -> argparse.ArgumentParser:
    """Add the parser of a command, with the options for tables and for simulations."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if tables:
        parser.add_argument(
            "files", nargs="+", metavar="FILE", help=f"{_FILES}, or a saved sketch (.npz, .json)"
        )
        _add_columns(parser)
    parser.add_argument("--delimiter", default=",", metavar="C", help="field delimiter of a CSV (default: ,)")
    parser.add_argument(
        "--encoding", default="utf-8", metavar="NAME", help="encoding of a CSV (default: utf-8)"
    )
    if simulates:
        parser.add_argument(
            "--clusters",
            metavar="COLUMN",
            help="column of clusters (patient, customer, day); samples within a cluster may be dependent",
        )
        parser.add_argument(
            "--seed", type=int, default=0, metavar="N", help="seed of the simulations (default: 0)"
        )
    return parser


def _add_report(commands: Any) -> None:
    report = _new_command(
        commands,
        "report",
        "report on the calibration of predictions in files",
        "Report on the calibration of predicted probabilities in files: metrics with their "
        "expected values under perfect calibration, tests, miscalibrated intervals of predictions, and "
        "recommendations. Prints text; --out writes a self-contained HTML page.",
        _REPORT_EXAMPLES,
        simulates=True,
    )
    report.add_argument(
        "--group", metavar="COLUMN", help="column of groups; the report evaluates each group separately"
    )
    report.add_argument(
        "--sketch",
        choices=("auto", "always", "never"),
        default="auto",
        help="whether to summarize the data in a sketch, in constant memory (default: auto, with more than a "
        "million rows of a binary target)",
    )
    report.add_argument("--out", metavar="FILE", help="write the report as a self-contained HTML page")
    report.add_argument("--json", metavar="FILE", help="write the numbers and sentences as JSON")
    report.add_argument(
        "--text", action="store_true", help="print the report, even if --out or --json writes it to a file"
    )
    report.add_argument(
        "--title", metavar="TEXT", help="name of the model, for the title (default: name of the file)"
    )
    report.add_argument(
        "--confidence", type=float, default=0.95, metavar="LEVEL", help="level of intervals (default: 0.95)"
    )
    report.add_argument(
        "--n-resamples",
        type=int,
        default=200,
        metavar="N",
        help="number of simulations for intervals and null distributions; run time is nearly proportional "
        "(default: 200)",
    )


def _add_sketch(commands: Any) -> None:
    sketch = _new_command(
        commands,
        "sketch",
        "summarize predictions in files in a small, mergeable file",
        "Summarize any number of rows of a binary target in a sketch, in constant memory. "
        "Saved sketches among the files are merged into it.",
        _SKETCH_EXAMPLES,
    )
    sketch.add_argument(
        "--precision",
        type=int,
        metavar="BITS",
        help="resolution of predictions, 2**-BITS (default: 17, or that of saved sketches)",
    )
    sketch.add_argument("-o", "--out", required=True, metavar="FILE", help="the sketch: .npz or .json")
    sketch.set_defaults(group=None, clusters=None)


def _add_fit(commands: Any) -> None:
    fit = _new_command(
        commands,
        "fit",
        "fit a calibrator to predictions in files, and write it as JSON",
        "Fit a calibrator to predicted probabilities and outcomes in files, and write it as JSON "
        "for the command apply and for sklearn_calib.export.from_json.",
        _FIT_EXAMPLES,
    )
    fit.add_argument("--group", metavar="COLUMN", help="column of groups; fits one calibrator for each")
    fit.add_argument(
        "--calibrator",
        choices=("default", *CALIBRATORS),
        default="default",
        help="the calibrator (default: a spline, or an average of calibrators for three or more classes)",
    )
    fit.add_argument(
        "--tolerance",
        type=float,
        default=1e-6,
        metavar="EPS",
        help="maximum deviation of the written map from the calibrator (default: 1e-6)",
    )
    fit.add_argument("--date", metavar="TEXT", help="date of the data, recorded in the output")
    fit.add_argument("-o", "--out", required=True, metavar="FILE", help="the calibrator, as JSON")
    fit.set_defaults(clusters=None)


def _add_apply(commands: Any) -> None:
    apply = _new_command(
        commands,
        "apply",
        "add calibrated probabilities to a file",
        "Copy a CSV or Parquet file of any size, and append columns of calibrated probabilities. "
        "Rows without a score get an empty value.",
        _APPLY_EXAMPLES,
        tables=False,
    )
    apply.add_argument("map", metavar="MAP", help="a calibrator written by the command fit or by to_json")
    apply.add_argument("file", metavar="FILE", help="CSV (also gzipped) or Parquet (.parquet)")
    apply.add_argument(
        "--p", nargs="+", default=["p"], metavar="COLUMN", help="columns of scores, as for fit (default: p)"
    )
    apply.add_argument(
        "--labels", nargs="+", metavar="LABEL", help="label of each column of --p, as for the command fit"
    )
    apply.add_argument("--group", metavar="COLUMN", help="column of groups")
    apply.add_argument(
        "--name", default="calibrated", metavar="COLUMN", help="name of the new column (default: calibrated)"
    )
    apply.add_argument("-o", "--out", required=True, metavar="FILE", help="the copy, in the same format")
    apply.set_defaults(y=None, pos_label=None)


def _add_columns(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--y", metavar="COLUMN", help="column with the outcomes")
    parser.add_argument(
        "--p",
        nargs="+",
        metavar="COLUMN",
        help="column with the predicted probability of the positive class, or one column for each class",
    )
    parser.add_argument(
        "--labels",
        nargs="+",
        metavar="LABEL",
        help="label of each column of --p; by default their names without a common prefix, or 0, 1, 2, ...",
    )
    parser.add_argument(
        "--pos-label",
        metavar="LABEL",
        help="the positive class of a binary target; required for text labels and a single column of --p "
        "(default: 1)",
    )
    parser.add_argument("--weight", metavar="COLUMN", help="column of integer frequency weights")


# With more rows than this the report is computed from a sketch, if --sketch allows it.
_MOST_ROWS = 1_000_000

_SAVED = (".npz", ".json")
_OF_TABLES = ("y", "p", "labels", "pos_label", "weight", "group", "clusters")


@dataclass(frozen=True, eq=False)
class _Inputs:
    """Arguments of a report: rows, a sketch as ``y``, or a dict of sketches by their groups."""

    y: Any
    p: Any = None
    sample_weight: Any = None
    groups: Any = None
    clusters: Any = None
    given: dict[str, Any] = field(default_factory=dict)


def _read_inputs(options: argparse.Namespace) -> _Inputs:
    """Return the rows of tables, or a sketch of them."""
    saved, tables = _files(options)
    several = tables and len(options.p) > 2
    if options.clusters is not None and (saved or options.sketch == "always"):
        raise ValueError(
            "--clusters needs the rows of tables, which a sketch does not keep. Omit --clusters, or omit "
            "saved sketches and --sketch always."
        )
    if several and (saved or options.sketch == "always"):
        raise ValueError(
            f"a sketch is for a binary target, but --p names {len(options.p)} columns. Omit --sketch always, "
            "to report on the rows of the tables."
        )
    if saved and (options.group is not None or options.sketch == "never"):
        raise ValueError("a saved sketch does not contain single rows: omit --group and --sketch never.")
    if not tables:
        return _Inputs(_merged(saved))
    reader = _reader(options, tables)
    if several or options.sketch == "never" or options.clusters is not None:
        most = float("inf")
    else:
        most = 0.0 if saved or options.sketch == "always" else _MOST_ROWS
    whole = _merged(saved) if saved else CalibrationSketch()
    found = _read(options, reader, most, whole)
    if isinstance(found, list):
        return _rows(options, reader, found)
    if options.group is None:
        return _Inputs(whole.merge(found[0]))
    return _Inputs(_by_name(found, reader.groups.values().tolist()))


def _read_sketch(options: argparse.Namespace) -> CalibrationSketch:
    """Return the sketch of all rows of tables and of saved sketches."""
    saved, tables = _files(options)
    if not saved:
        whole = CalibrationSketch(**({} if options.precision is None else {"precision": options.precision}))
    else:
        whole = _merged(saved)
        if options.precision not in (None, whole.precision):
            raise ValueError(
                f"--precision is {options.precision}, but saved sketches have {whole.precision}. "
                "Omit --precision."
            )
    if not tables:
        return whole
    if len(options.p) > 2:
        raise ValueError(f"a sketch is for a binary target, but --p names {len(options.p)} columns.")
    found = _read(options, _reader(options, tables), 0.0, whole)
    assert isinstance(found, dict)
    return whole.merge(found[0])


def _files(options: argparse.Namespace) -> tuple[list[Path], list[Path]]:
    """Return saved sketches and tables."""
    files = table_files(options.files)
    saved = [file for file in files if file.suffix.lower() in _SAVED]
    tables = [file for file in files if file.suffix.lower() not in _SAVED]
    check_delimiter(options.delimiter, "--delimiter")
    if tables and (options.y is None or options.p is None):
        raise ValueError(f"--y and --p must name columns of {tables[0]}.")
    for name in _OF_TABLES:
        if not tables and getattr(options, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} is for tables, but {saved[0]} is a saved sketch.")
    return saved, tables


def _merged(saved: list[Path]) -> CalibrationSketch:
    whole = _loaded(saved[0])
    for file in saved[1:]:
        sketch = _loaded(file)
        try:
            whole.merge(sketch)
        except ValueError as error:
            raise ValueError(f"{file} cannot be merged with {saved[0]}: {error}") from None
    return whole


def _loaded(file: Path) -> CalibrationSketch:
    try:
        return CalibrationSketch.load(file)
    except ValueError as error:
        named = str(file) in str(error)
        raise ValueError(str(error) if named else f"{file}: {error}") from None


def _reader(options: argparse.Namespace, tables: list[Path]) -> PredictionFiles:
    return PredictionFiles(
        tables,
        options.y,
        options.p,
        options.weight,
        options.group,
        options.clusters,
        delimiter=options.delimiter,
        encoding=options.encoding,
    )


def _read(
    options: argparse.Namespace, reader: PredictionFiles, most: float, like: CalibrationSketch
) -> list[PredictionRows] | dict[int, CalibrationSketch]:
    """Return all rows, or for more than ``most`` rows a sketch for each group."""
    kept: list[PredictionRows] = []
    n_rows = n_labels = 0
    sketches: OutcomeSketches | None = None
    order: list[int] = []
    for rows in reader.rows(None):
        n_rows += rows.y.shape[0]
        kept.append(rows)
        if n_rows <= most:
            continue
        if len(reader.labels) > n_labels:
            n_labels = len(reader.labels)
            classes = _classes(options, reader.labels.values(), like.pos_label)
            if sketches is None:
                order = classes.order
                pos_label = like.pos_label if classes.positive is None else classes.positive
                sketches = OutcomeSketches(reader.labels, reader.where, like.precision, pos_label)
            if classes.order != order:
                raise ValueError(
                    f"{reader.where}: the first rows do not determine which column of --p belongs to which "
                    f"outcome. Name the label of each column, in the order of --p ({', '.join(options.p)}), "
                    "by --labels."
                )
        assert sketches is not None
        for part in kept:
            sketches.add(part.y, joined([part.p[k] for k in order]), part.w, part.groups)
        kept = []
    return kept if sketches is None else sketches.result()


def _rows(options: argparse.Namespace, reader: PredictionFiles, parts: list[PredictionRows]) -> _Inputs:
    labels = reader.labels.values()
    known = np.unique(labels).tolist()
    if len(options.p) < 3 and len(known) > 2:
        raise ValueError(
            f"{reader.where} has {len(known)} distinct outcomes ({', '.join(map(str, known[:5]))}, ...), too "
            "many for the columns of --p. Name the column of outcomes by --y, and one column for each class "
            "by --p."
        )
    classes = _classes(options, labels)
    given: dict[str, Any] = {}
    if classes.labels is not None:
        given["labels"] = classes.labels
    elif classes.positive is not None:
        named = [label for label in known if is_label(label, classes.positive)]
        if not named:
            raise ValueError(
                f"--pos-label {classes.positive} does not occur among the outcomes: "
                f"{', '.join(map(str, known[:20]))}."
            )
        given["pos_label"] = named[0]
    elif len(known) == 2 and isinstance(known[1], str):
        given["pos_label"] = known[1]  # the text "true"
    columns = [np.concatenate([part.p[k] for part in parts]) for k in classes.order]
    return _Inputs(
        y=labels[np.concatenate([part.y for part in parts])],
        p=joined(columns),
        sample_weight=_together([part.w for part in parts]),
        groups=None
        if options.group is None
        else reader.groups.values()[_together([part.groups for part in parts])],
        clusters=_together([part.clusters for part in parts]),
        given=given,
    )


def _together(parts: list[Any]) -> Any:
    return None if parts[0] is None else np.concatenate(parts)


def _by_name(sketches: dict[int, CalibrationSketch], names: list[Any]) -> dict[Any, CalibrationSketch]:
    """Return the sketch of each group that has weight; cells such as 1 and 1.0 name the same group."""
    found: dict[Any, CalibrationSketch] = {}
    for number, sketch in sketches.items():
        if sketch.n_bins:
            found[names[number]] = sketch + found[names[number]] if names[number] in found else sketch
    return found


@dataclass(frozen=True, eq=False)
class _Classes:
    """The order of the columns of --p by their labels, and the labels; or the positive label, or None."""

    order: list[int]
    labels: NDArray[Any] | None = None
    positive: Any = None


def _classes(options: argparse.Namespace, labels: NDArray[Any], of_sketch: Any = None) -> _Classes:
    """Find the class of each column from their names and the labels that occur, or that of saved sketches."""
    if len(options.p) == 1:
        if options.labels is not None:
            raise ValueError("--labels is for several columns of --p; for one column pass --pos-label.")
        known = np.unique(labels).tolist()
        if options.pos_label is None and of_sketch is None and ambiguous(known):
            raise ValueError(
                f"column {options.y!r} contains the labels {known}, so the class of the probabilities in "
                f"column {options.p[0]!r} is ambiguous. Pass the positive class by --pos-label."
            )
        return _Classes([0], positive=options.pos_label)
    if len(options.p) > 2 and options.pos_label is not None:
        raise ValueError("--pos-label is for a binary target, but --p names three or more columns.")
    of_columns = _labels_of_columns(options, labels)
    order = np.argsort(of_columns, kind="stable").tolist()
    if len(options.p) > 2:
        return _Classes(order, labels=of_columns[order])
    if options.pos_label is not None:
        if not is_label(of_columns[order[1]].item(), options.pos_label):
            order = order[::-1]
        if not is_label(of_columns[order[1]].item(), options.pos_label):
            shown = ", ".join(str(label) for label in of_columns.tolist())
            raise ValueError(f"--pos-label {options.pos_label} is not the label of a column of --p: {shown}.")
    return _Classes(order, positive=of_columns[order[1]].item())


def _labels_of_columns(options: argparse.Namespace, labels: NDArray[Any]) -> NDArray[Any]:
    """Return the label of each column of --p, by --labels, by their names, or by their number."""
    found = {str(label) for label in labels.tolist()}
    if options.labels is not None:
        if len(options.labels) != len(options.p):
            raise ValueError(
                f"--labels names {len(options.labels)} labels for {len(options.p)} columns of --p."
            )
        texts = list(options.labels)
    else:
        texts = _without_common_beginning(options.p)
        if not found <= set(texts):
            texts = [str(k) for k in range(len(options.p))]
    if len(set(texts)) < len(texts):
        raise ValueError(f"--labels names a label twice: {', '.join(texts)}.")
    if not found <= set(texts):
        raise ValueError(
            f"the outcome {min(found - set(texts))} in column {options.y!r} has no column of --p. Name the "
            f"label of each column, in the order of --p ({', '.join(options.p)}), by --labels."
        )
    return np.array([int(text) for text in texts] if labels.dtype.kind == "i" and _whole(texts) else texts)


def _whole(texts: Sequence[str]) -> bool:
    return all(text.removeprefix("-").isdecimal() for text in texts)


def _without_common_beginning(names: Sequence[str]) -> list[str]:
    """Return the names without their common prefix: "p_cat", "p_dog" become "cat", "dog"."""
    low, high = min(names), max(names)
    start = next((i for i, letter in enumerate(low) if i >= len(high) or letter != high[i]), len(low))
    return [name[start:] for name in names]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, default=None
        The arguments after the name of the program; those of the process by default.

    Returns
    -------
    int
        0, or 2 for invalid input, with a message on stderr; of ``check`` also 1 and 3, if requirements are
        not met. 141 if the reader of the output, such as head, has closed the pipe.
    """
    try:
        try:
            return _run(arguments)
        finally:
            # of what argparse prints, too
            _print("", end="")
    except BrokenPipeError:
        return 128 + _SIGPIPE


def _run(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.command == "check":
            return _check(options)
        {"sketch": _sketch, "fit": _fit, "apply": _apply, "report": _report}[options.command](options)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (ValueError, TypeError, ImportError) as error:
        return _fail(str(error))
    except MemoryError:
        return _fail(
            f"there is not enough memory for {', '.join(options.files)}. Check the file for overlong lines, "
            "or summarize it first: python -m sklearn_calib sketch, or --sketch always."
        )
    return 0


def _fail(message: str) -> int:
    """Print an error message."""
    print(f"sklearn_calib: error: {_shortened(message)}", file=sys.stderr)
    return 2


def _shortened(message: str) -> str:
    """Return a message on one line, shortened if necessary."""
    shown = one_line(message)
    if len(shown) <= _LONGEST:
        return shown
    return f"{shown[: _LONGEST // 2]} ... {shown[-_LONGEST // 2 :]}"


def _report(options: argparse.Namespace) -> None:
    check_fraction(options.confidence, "--confidence")
    check_size(options.n_resamples, "--n-resamples")
    check_integer(options.seed, "--seed", 0)
    _check_outputs({"--out": options.out, "--json": options.json}, options.files)
    inputs = _read_inputs(options)
    report = calibration_report(
        inputs.y,
        inputs.p,
        sample_weight=inputs.sample_weight,
        groups=inputs.groups,
        clusters=inputs.clusters,
        name=_name(options.files) if options.title is None else options.title,
        confidence=options.confidence,
        n_resamples=options.n_resamples,
        random_state=options.seed,
        **inputs.given,
    )
    if options.out is not None:
        report.to_html(options.out)
    if options.json is not None:
        text = json.dumps(report.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        write_whole(options.json, f"{text}\n".encode())
    in_full = options.text or (options.out is None and options.json is None)
    _print(str(report) if in_full else report.verdict)


def _sketch(options: argparse.Namespace) -> None:
    _check_folder("--out", options.out)
    if Path(options.out).suffix.lower() not in (".npz", ".json"):
        raise ValueError(f"--out must end in .npz or .json, got {options.out}.")
    sketch = _read_sketch(options)
    sketch.save(options.out)
    _print(str(sketch))


def _check(options: argparse.Namespace) -> int:
    check_size(options.n_resamples, "--n-resamples", minimum=20)
    check_integer(options.seed, "--seed", 0)
    outputs = {"--junit": options.junit, "--markdown": options.markdown}
    _check_outputs(outputs, [*options.files, options.requirements])
    if not Path(options.requirements).exists() or Path(options.requirements).is_dir():
        raise ValueError(f"--requirements: {options.requirements!r} is not a file.")
    requirements = CalibrationRequirements.from_toml(options.requirements)
    if options.p is not None and len(options.p) > 2:
        raise ValueError(f"requirements are for a binary target, but --p names {len(options.p)} columns.")
    inputs = _read_inputs(options)
    result = check_requirements(
        options,
        requirements,
        inputs.y,
        inputs.p,
        sample_weight=inputs.sample_weight,
        groups=inputs.groups,
        clusters=inputs.clusters,
        **inputs.given,
    )
    _print(str(result))
    return exit_status(result, options.undecided)


def _check_outputs(outputs: dict[str, str | None], files: Sequence[str]) -> None:
    """Raise if a file cannot be written, or is an input file or the other output file."""
    for name, target in outputs.items():
        _check_folder(name, target)
        _check_not_read(name, target, files)
    first, second = outputs.values()
    if first is not None and second is not None and _same(first, second):
        raise ValueError(f"{' and '.join(outputs)} name the same file, {first}. Name two.")


def _fit(options: argparse.Namespace) -> None:
    check_fraction(options.tolerance, "--tolerance")
    _check_folder("--out", options.out)
    _check_not_read("--out", options.out, options.files)
    options.sketch = "auto" if options.group is None else "never"
    _print(str(fit_map(_read_inputs(options), options)))


def _apply(options: argparse.Namespace) -> None:
    options.files = [options.file]
    _check_folder("--out", options.out)
    _check_not_read("--out", options.out, [options.file, options.map])
    check_delimiter(options.delimiter, "--delimiter")
    found = load_map(options.map)
    labels = found.classes_
    order = _classes(options, labels).order
    if len(options.p) not in {len(labels), 3 - len(labels)}:
        raise ValueError(
            f"--p names {len(options.p)} columns, but {options.map} has {len(labels)} classes. Name one "
            "column for each class; of two classes the second is enough."
        )
    _print(f"{apply_map(found, options, order)} rows")


def _check_folder(name: str, target: str | None) -> None:
    if target is not None and (not target or Path(target).is_dir()):
        raise ValueError(f"{name} names a folder, {target!r}. Name a file.")
    if target is not None and not Path(target).absolute().parent.is_dir():
        raise ValueError(f"{target}: its folder does not exist.")


def _check_not_read(name: str, target: str | None, files: Sequence[str]) -> None:
    if target is not None and any(_same(target, file) for file in files):
        raise ValueError(f"{name} names {target}, which is an input file. Name another file.")


def _same(first: str, second: str) -> bool:
    """Tell whether two names are of one regular file, which need not exist."""
    target = Path(first)
    return os.path.realpath(first) == os.path.realpath(second) and (target.is_file() or not target.exists())


def _name(files: Sequence[str]) -> str:
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    # file names can contain bytes that are not text; they are replaced by a mark
    name = os.fsencode(Path(files[0]).name).decode("utf-8", errors="replace")
    return f"{name}{more}"


def _print(text: str, end: str = "\n") -> None:
    """Print a text; characters that the encoding of the terminal lacks are escaped."""
    if sys.stdout is None:  # it was closed when the process began
        return
    encoding = sys.stdout.encoding or "utf-8"
    try:
        print(text.encode(encoding, errors="replace").decode(encoding), end=end, flush=True)
    except OSError as error:
        # what is left would be written at the end of the process again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OSError(error.errno, error.strerror, "standard output") from None
