"""The command line: ``python -m sklearn_calib report predictions.csv --y y --p p --out report.html``.

And ``python -m sklearn_calib sketch predictions.csv --y y --p p --out sketch.npz``.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from sklearn_calib._validation import check_fraction, check_integer, check_size
from sklearn_calib._writing import write_whole
from sklearn_calib.report._inputs import read_inputs, read_sketch
from sklearn_calib.report._words import one_line

__all__ = ["main"]

_REPORT_EXAMPLES = """examples:
  python -m sklearn_calib report predictions.csv --y outcome --p probability --out report.html
  python -m sklearn_calib report predictions.csv.gz --y label --p p_cat p_dog p_bird --text
  python -m sklearn_calib report predictions.parquet --y died --p risk --group hospital --pos-label yes
  python -m sklearn_calib report sketch.npz --out report.html

More than a million rows of two classes are read into a sketch, in constant memory.
"""
_SKETCH_EXAMPLES = """examples:
  python -m sklearn_calib sketch monday.csv --y outcome --p probability --out monday.npz
  python -m sklearn_calib sketch scores/*.parquet --y died --p risk --out all.npz
  python -m sklearn_calib sketch monday.npz tuesday.npz --out days.npz
"""
_SIGPIPE = 13  # by number, as not every system has it
# A message of more characters is cut in its middle: what is at fault comes first, and what to do last.
_LONGEST = 1200
_FILES = "CSV (also gzipped) with a line of column names, Parquet (.parquet), a folder of either"


class _Parser(argparse.ArgumentParser):
    """One that takes each option once, and whose messages are short and printable."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in (None, "store"):
            self.register("action", name, _Once)

    def error(self, message: str) -> NoReturn:
        super().error(_shortened(message))


class _Once(argparse.Action):
    """Keep a value, the only one."""

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
    parser = _Parser(
        prog="python -m sklearn_calib", description="Calibration of predicted probabilities, from the shell."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    _add_report(commands)
    _add_sketch(commands)
    return parser


def _add_report(commands: Any) -> None:
    report = commands.add_parser(
        "report",
        help="report on the calibration of predictions in files",
        description="Report on the calibration of predicted probabilities in files: measures beside what "
        "noise alone would show, tests, where the predictions are off, and what to do. Prints text; --out "
        "writes a page of HTML that stands alone.",
        epilog=_REPORT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    report.add_argument("files", nargs="+", metavar="FILE", help=f"{_FILES}, or a saved sketch (.npz, .json)")
    _add_columns(report)
    report.add_argument("--group", metavar="COLUMN", help="column with a group for each row; a line for each")
    report.add_argument(
        "--sketch",
        choices=("auto", "always", "never"),
        default="auto",
        help="whether to sum rows up in a sketch, in constant memory (auto, the default: more than a million "
        "rows of two classes)",
    )
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


def _add_sketch(commands: Any) -> None:
    sketch = commands.add_parser(
        "sketch",
        help="sum predictions in files up in a small file, which can be merged with others",
        description="Sum any number of rows of two classes up in a sketch, in constant memory. Saved "
        "sketches among the files are merged into it.",
        epilog=_SKETCH_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sketch.add_argument("files", nargs="+", metavar="FILE", help=f"{_FILES}, or a saved sketch (.npz, .json)")
    _add_columns(sketch)
    sketch.add_argument(
        "--precision",
        type=int,
        metavar="BITS",
        help="predictions are told apart to 2**-BITS (default: 17, or that of saved sketches)",
    )
    sketch.add_argument("-o", "--out", required=True, metavar="FILE", help="the sketch: .npz or .json")
    sketch.set_defaults(group=None)


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
        help="label of each column of --p; by default what remains of their names after what they begin with "
        "in common, or 0, 1, 2, ...",
    )
    parser.add_argument(
        "--pos-label", metavar="LABEL", help="the positive one of two outcomes (default: the greater)"
    )
    parser.add_argument("--weight", metavar="COLUMN", help="column that says how often each row was observed")
    parser.add_argument("--delimiter", default=",", metavar="C", help="field delimiter of a CSV (default: ,)")
    parser.add_argument(
        "--encoding", default="utf-8", metavar="NAME", help="encoding of a CSV (default: utf-8)"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, default=None
        The arguments after the name of the program; those of the process by default.

    Returns
    -------
    int
        0, or 2 if the input or a file is at fault; a line on stderr then says how. 141 if the reader of the
        output, such as head, has seen enough.
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
        if options.command == "sketch":
            _sketch(options)
        else:
            _report(options)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (ValueError, TypeError, ImportError) as error:
        return _fail(str(error))
    except MemoryError:
        return _fail(
            f"there is not enough memory for {', '.join(options.files)}. If no line is longer than it should "
            "be, sum the rows up first: python -m sklearn_calib sketch, or --sketch always."
        )
    return 0


def _fail(message: str) -> int:
    """Print why nothing was done."""
    print(f"sklearn_calib: error: {_shortened(message)}", file=sys.stderr)
    return 2


def _shortened(message: str) -> str:
    """Return a message on one line, of a length that can be read."""
    shown = one_line(message)
    if len(shown) <= _LONGEST:
        return shown
    return f"{shown[: _LONGEST // 2]} ... {shown[-_LONGEST // 2 :]}"


def _report(options: argparse.Namespace) -> None:
    from sklearn_calib.report._report import calibration_report

    check_fraction(options.confidence, "--confidence")
    check_size(options.n_resamples, "--n-resamples")
    check_integer(options.seed, "--seed", 0)
    for name, target in (("--out", options.out), ("--json", options.json)):
        _check_folder(name, target)
        _check_not_read(name, target, options.files)
    if options.out is not None and options.json is not None and _same(options.out, options.json):
        raise ValueError(f"--out and --json name the same file, {options.out}. Name two.")
    inputs = read_inputs(options)
    report = calibration_report(
        inputs.y,
        inputs.p,
        sample_weight=inputs.sample_weight,
        groups=inputs.groups,
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
    sketch = read_sketch(options)
    sketch.save(options.out)
    _print(str(sketch))


def _check_folder(name: str, target: str | None) -> None:
    if target is not None and (not target or Path(target).is_dir()):
        raise ValueError(f"{name} names a folder, {target!r}. Name a file.")
    if target is not None and not Path(target).absolute().parent.is_dir():
        raise ValueError(f"{target}: its folder does not exist.")


def _check_not_read(name: str, target: str | None, files: Sequence[str]) -> None:
    if target is not None and any(_same(target, file) for file in files):
        raise ValueError(f"{name} names {target}, which is to be read. Name another file.")


def _same(first: str, second: str) -> bool:
    """Tell whether two names are of one regular file, which need not exist."""
    target = Path(first)
    return os.path.realpath(first) == os.path.realpath(second) and (target.is_file() or not target.exists())


def _name(files: Sequence[str]) -> str:
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    # a file may have a name that is no text; what is not, is shown by a mark
    name = os.fsencode(Path(files[0]).name).decode("utf-8", errors="replace")
    return f"{name}{more}"


def _print(text: str, end: str = "\n") -> None:
    """Print a text, whatever the encoding of the terminal."""
    if sys.stdout is None:  # it was closed when the process began
        return
    encoding = sys.stdout.encoding or "utf-8"
    try:
        print(text.encode(encoding, errors="replace").decode(encoding), end=end, flush=True)
    except OSError as error:
        # what is left would be written at the end of the process again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OSError(error.errno, error.strerror, "standard output") from None
