"""The commands ``fit`` and ``apply``: calibrators of predictions in files."""

import argparse
import csv
import gzip
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_calib._typing import Array
from sklearn_calib.calibrators import (
    AutoCalibrator,
    BetaCalibrator,
    GroupCalibrator,
    IsotonicCalibrator,
    OneVsRestCalibrator,
    PlattCalibrator,
    TemperatureCalibrator,
    VennAbersCalibrator,
)
from sklearn_calib.calibrators._default import default_calibrator
from sklearn_calib.calibrators._multiclass import is_binary
from sklearn_calib.export import ExportedCalibrator, from_json, to_json
from sklearn_calib.sketch._read import BATCH_SIZE, known_encoding

_PARQUET = (".parquet", ".pq")
#: Calibrators by the names that ``fit --calibrator`` takes.
CALIBRATORS: dict[str, Any] = {
    "auto": AutoCalibrator,
    "beta": BetaCalibrator,
    "isotonic": IsotonicCalibrator,
    "platt": PlattCalibrator,
    "temperature": TemperatureCalibrator,
    "venn-abers": VennAbersCalibrator,
}


def fit_map(inputs: Any, options: argparse.Namespace) -> ExportedCalibrator:
    """Fit a calibrator to predictions and write it as JSON."""
    labels = inputs.given.get("labels")
    several = labels is not None
    make = CALIBRATORS.get(options.calibrator)
    calibrator = default_calibrator("logit", several) if make is None else make()
    if several and is_binary(calibrator):
        calibrator = OneVsRestCalibrator(calibrator)
    y, positive = inputs.y, inputs.given.get("pos_label")
    if positive is not None and positive != max(np.unique(y).tolist()):
        # the last class is the one whose probability is given
        y = y == positive
    given = {"sample_weight": inputs.sample_weight}
    if inputs.groups is not None:
        calibrator, given = GroupCalibrator(calibrator), {**given, "groups": inputs.groups}
    if inputs.p is None:
        calibrator.fit(y)
    else:
        calibrator.fit(inputs.p, y, **given, **({"classes": labels} if several else {}))
    to_json(calibrator, options.out, tolerance=options.tolerance, date=options.date)
    return from_json(Path(options.out))


def load_map(path: str) -> ExportedCalibrator:
    """Return the calibrator in a file; errors name the file."""
    try:
        return from_json(Path(path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def apply_map(found: ExportedCalibrator, options: argparse.Namespace, order: list[int]) -> int:
    """Copy a file, with calibrated probabilities as further columns; return the number of rows."""
    source, target = Path(options.file), Path(options.out)
    parquet = [path.suffix.lower() in _PARQUET for path in (source, target)]
    if parquet[0] != parquet[1]:
        raise ValueError(f"--out must be a file of the format of {source.name}, got {target.name}.")
    names = [options.name]
    if len(found.classes_) > 2:
        names = [f"{options.name}_{label}" for label in found.classes_.tolist()]

    def calibrate(columns: list[Any], where: str) -> Array:
        """Return one column for each name; NaN where a score is missing."""
        scores = np.column_stack(columns[: len(options.p)])[:, order]
        groups = None if options.group is None else np.asarray(columns[-1], dtype=object)
        known = ~np.isnan(scores).any(axis=1)
        proba = np.full((scores.shape[0], len(names)), np.nan)
        if known.any():
            try:
                part = found.predict_proba(scores[known], None if groups is None else groups[known])
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None
            proba[known] = part[:, -len(names) :]
        return proba

    with _whole_file(target) as part:
        copy = _copy_parquet if parquet[0] else _copy_csv
        return copy(source, part, options, names, calibrate)


@contextmanager
def _whole_file(target: Path) -> Iterator[Path]:
    """Yield a temporary name to write to, which is renamed to ``target`` when the file is complete."""
    part = target.with_name(f".{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _copy_csv(
    source: Path, target: Path, options: argparse.Namespace, names: list[str], calibrate: Any
) -> int:
    """Copy a CSV file with further columns; all other cells stay as they are."""
    opened: Any = gzip.open if source.suffix.lower() == ".gz" else open
    packed: Any = gzip.open if Path(options.out).suffix.lower() == ".gz" else open
    wanted, encoding = _columns(options), known_encoding(options.encoding)
    n_rows = 0
    with (
        opened(source, "rt", encoding=encoding, newline="") as file,
        packed(target, "wt", encoding=encoding, newline="") as out,
    ):
        reader = csv.reader(file, delimiter=options.delimiter)
        writer = csv.writer(out, delimiter=options.delimiter, lineterminator="\n")
        try:
            header = next(reader, [])
            header[:1] = [cell.removeprefix("\ufeff") for cell in header[:1]]
            place = [_place(header, name, source) for name in wanted]
            _check_new(header, names, source)
            writer.writerow([*header, *names])
            while rows := list(islice(reader, BATCH_SIZE >> 2)):
                rows = [row for row in rows if row]
                for k, row in enumerate(rows):
                    if len(row) != len(header):
                        raise ValueError(
                            f"{source}: row {n_rows + k + 2} has {len(row)} cells, not {len(header)}."
                        )
                columns: list[Any] = [
                    _numbers([row[k] for row in rows], name, source, n_rows + 2)
                    for k, name in zip(place[: len(options.p)], options.p, strict=True)
                ]
                columns += [[_group(row[k]) for row in rows] for k in place[len(options.p) :]]
                proba = calibrate(columns, f"{source}: after row {n_rows + 1}")
                texts = np.where(np.isnan(proba), "", proba.astype(str)).tolist() if rows else []
                writer.writerows([*row, *new] for row, new in zip(rows, texts, strict=True))
                n_rows += len(rows)
        except (csv.Error, UnicodeError, EOFError, gzip.BadGzipFile) as error:
            raise ValueError(f"{source} cannot be read: {error}.") from None
    return n_rows


def _copy_parquet(
    source: Path, target: Path, options: argparse.Namespace, names: list[str], calibrate: Any
) -> int:
    """Copy a Parquet file with further columns."""
    import pyarrow as pa
    from pyarrow import parquet

    n_rows = 0
    try:
        with parquet.ParquetFile(source) as file:
            schema = file.schema_arrow
            place = [_place(schema.names, name, source) for name in _columns(options)]
            _check_new(schema.names, names, source)
            for name in names:
                schema = schema.append(pa.field(name, pa.float64()))
            with parquet.ParquetWriter(target, schema) as writer:
                for batch in file.iter_batches(BATCH_SIZE):
                    columns: list[Any] = [
                        np.asarray(batch.column(k).cast(pa.float64()).to_numpy(zero_copy_only=False))
                        for k in place[: len(options.p)]
                    ]
                    columns += [batch.column(k).to_pylist() for k in place[len(options.p) :]]
                    proba = calibrate(columns, f"{source}: after row {n_rows}")
                    new = [pa.array(column, mask=np.isnan(column)) for column in proba.T]
                    writer.write_batch(pa.record_batch([*batch.columns, *new], schema=schema))
                    n_rows += batch.num_rows
    except pa.ArrowException as error:
        raise ValueError(f"{source} cannot be read: {error}") from None
    return n_rows


def _columns(options: argparse.Namespace) -> list[str]:
    return [*options.p, *([] if options.group is None else [options.group])]


def _place(header: list[str], name: str, source: Path) -> int:
    if header.count(name) != 1:
        hint = "" if len(header) > 1 else " Check --delimiter."
        raise ValueError(
            f"{source} has {header.count(name)} columns named {name!r}. Its columns are: "
            f"{', '.join(header[:20])}.{hint}"
        )
    return header.index(name)


def _check_new(header: list[str], names: list[str], source: Path) -> None:
    taken = [name for name in names if name in header]
    if taken:
        raise ValueError(f"{source} already has a column {taken[0]!r}. Choose another one by --name.")


def _numbers(cells: list[str], name: str, source: Path, first: int) -> Array:
    """Return cells as numbers; NaN for empty ones."""
    try:
        return np.array([float(cell) if cell.strip() else np.nan for cell in cells])
    except ValueError:
        for k, cell in enumerate(cells):
            try:
                float(cell or "nan")
            except ValueError:
                raise ValueError(
                    f"{source}: column {name!r} contains {cell[:40]!r} at row {first + k}, not a number."
                ) from None
        raise


def _group(cell: str) -> Any:
    """Return a cell as fit reads it: whole numbers are numbers."""
    return int(cell) if cell.removeprefix("-").isdecimal() else cell
