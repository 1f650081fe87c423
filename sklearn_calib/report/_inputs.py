"""What the commands are given: tables of rows, and saved sketches."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib.sketch import CalibrationSketch
from sklearn_calib.sketch._outcomes import OutcomeSketches, is_label
from sklearn_calib.sketch._read import table_files
from sklearn_calib.sketch._tables import PredictionFiles, PredictionRows, check_delimiter, joined

__all__ = ["MOST_ROWS", "ReportInputs", "read_inputs", "read_sketch"]

#: Of more rows than this the report is made from a sketch, if it may be.
MOST_ROWS = 1_000_000

_SAVED = (".npz", ".json")
_OF_TABLES = ("y", "p", "labels", "pos_label", "weight", "group")


@dataclass(frozen=True, eq=False)
class ReportInputs:
    """Arguments of a report: rows, a sketch as ``y``, or a dict of sketches by their groups."""

    y: Any
    p: Any = None
    sample_weight: Any = None
    groups: Any = None
    given: dict[str, Any] = field(default_factory=dict)


def read_inputs(options: argparse.Namespace) -> ReportInputs:
    """Return the rows of tables, or a sketch of them."""
    saved, tables = _files(options)
    several = tables and len(options.p) > 2
    if several and (saved or options.sketch == "always"):
        raise ValueError(
            f"a sketch is of two classes, but --p names {len(options.p)} columns. Report on the rows of "
            "tables, without --sketch always."
        )
    if saved and (options.group is not None or options.sketch == "never"):
        raise ValueError("saved sketches hold no rows: leave out --group and --sketch never.")
    if not tables:
        return ReportInputs(_merged(saved))
    reader = _reader(options, tables)
    if several or options.sketch == "never":
        most = float("inf")
    else:
        most = 0.0 if saved or options.sketch == "always" else MOST_ROWS
    whole = _merged(saved) if saved else CalibrationSketch()
    found = _read(options, reader, most, whole)
    if isinstance(found, list):
        return _rows(options, reader, found)
    if options.group is None:
        return ReportInputs(whole.merge(found[0]))
    return ReportInputs(_by_name(found, reader.groups.values().tolist()))


def read_sketch(options: argparse.Namespace) -> CalibrationSketch:
    """Return the sketch of all rows of tables and of saved sketches."""
    saved, tables = _files(options)
    if not saved:
        whole = CalibrationSketch(**({} if options.precision is None else {"precision": options.precision}))
    else:
        whole = _merged(saved)
        if options.precision not in (None, whole.precision):
            raise ValueError(
                f"--precision is {options.precision}, but saved sketches have {whole.precision}. "
                "Leave it out."
            )
    if not tables:
        return whole
    if len(options.p) > 2:
        raise ValueError(f"a sketch is of two classes, but --p names {len(options.p)} columns.")
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
            raise ValueError(
                f"--{name.replace('_', '-')} belongs to tables, but {saved[0]} is a saved sketch."
            )
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
        delimiter=options.delimiter,
        encoding=options.encoding,
    )


def _read(
    options: argparse.Namespace, reader: PredictionFiles, most: float, like: CalibrationSketch
) -> list[PredictionRows] | dict[int, CalibrationSketch]:
    """Return all rows, or if they are more than ``most`` a sketch for each group."""
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
            classes = _classes(options, reader.labels.values())
            if sketches is None:
                order = classes.order
                pos_label = like.pos_label if classes.positive is None else classes.positive
                sketches = OutcomeSketches(reader.labels, reader.where, like.precision, pos_label)
            if classes.order != order:
                raise ValueError(
                    f"{reader.where}: its first rows do not tell which column of --p belongs to which "
                    f"outcome. Name the label of each column, in the order of --p ({', '.join(options.p)}), "
                    "by --labels."
                )
        assert sketches is not None
        for part in kept:
            sketches.add(part.y, joined([part.p[k] for k in order]), part.w, part.groups)
        kept = []
    return kept if sketches is None else sketches.result()


def _rows(options: argparse.Namespace, reader: PredictionFiles, parts: list[PredictionRows]) -> ReportInputs:
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
    columns = [np.concatenate([part.p[k] for part in parts]) for k in classes.order]
    return ReportInputs(
        y=labels[np.concatenate([part.y for part in parts])],
        p=joined(columns),
        sample_weight=_together([part.w for part in parts]),
        groups=None
        if options.group is None
        else reader.groups.values()[_together([part.groups for part in parts])],
        given=given,
    )


def _together(parts: list[Any]) -> Any:
    return None if parts[0] is None else np.concatenate(parts)


def _by_name(sketches: dict[int, CalibrationSketch], names: list[Any]) -> dict[Any, CalibrationSketch]:
    """Return the sketch of each group that has weight; cells such as 1 and 1.0 name the same group."""
    found: dict[Any, CalibrationSketch] = {}
    for number, sketch in sketches.items():
        if sketch.n_cells:
            found[names[number]] = sketch + found[names[number]] if names[number] in found else sketch
    return found


@dataclass(frozen=True, eq=False)
class _Classes:
    """The order of the columns of --p by their labels, and these; or the positive label of two, or None."""

    order: list[int]
    labels: NDArray[Any] | None = None
    positive: Any = None


def _classes(options: argparse.Namespace, labels: NDArray[Any]) -> _Classes:
    """Find the class of each column from their names and the labels that occur."""
    if len(options.p) == 1:
        if options.labels is not None:
            raise ValueError("--labels belongs to several columns of --p; for one pass --pos-label.")
        return _Classes([0], positive=options.pos_label)
    if len(options.p) > 2 and options.pos_label is not None:
        raise ValueError("--pos-label belongs to two classes, but --p names three or more columns.")
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
    """Return what parts the names: "p_cat", "p_dog" become "cat", "dog"."""
    low, high = min(names), max(names)
    start = next((i for i, letter in enumerate(low) if i >= len(high) or letter != high[i]), len(low))
    return [name[start:] for name in names]
