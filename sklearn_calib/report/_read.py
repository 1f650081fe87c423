"""Columns of CSV and Parquet files for the command line, with errors that say where."""

import csv
import gzip
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Column", "read_columns"]

Array = NDArray[np.float64]

_MISSING = {"", "na", "nan", "null", "none", "n/a", "#n/a"}
_DELIMITERS = (",", ";", "\t", "|")
_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}


class Column:
    """One column of a file: its name, its cells, and where each stands.

    Parameters
    ----------
    path : str
        Name of the file, for messages.
    name : str
        Name of the column.
    cells : sequence
        Texts, or, of a Parquet file, numbers, texts or None.
    lines : sequence of int or None
        Line of each cell in the file; None counts rows from 1.
    """

    def __init__(self, path: str, name: str, cells: Sequence[Any], lines: Sequence[int] | None) -> None:
        self.path, self.name, self._cells, self._lines = path, name, cells, lines
        empty = [i for i, cell in enumerate(cells) if _is_missing(cell)]
        if empty:
            raise ValueError(
                f"{path}: column {name!r} has {len(empty)} empty or missing "
                f"cell{'' if len(empty) == 1 else 's'}, "
                f"the first in {self.place(empty[0])}. Remove or fill such rows first."
            )

    def place(self, row: int) -> str:
        """Return where a row stands."""
        return f"row {row + 1}" if self._lines is None else f"line {self._lines[row]}"

    def numbers(self) -> Array:
        """Return the cells as finite numbers."""
        try:
            out = np.array(self._cells, dtype=np.float64)
        except (ValueError, TypeError):
            row = next(i for i, cell in enumerate(self._cells) if not _is_number(cell))
            cell = str(self._cells[row])
            raise ValueError(
                f"{self.path}: {self.place(row)} of column {self.name!r} is {_shown(cell)}, not a number."
                f"{_hint(cell)}"
            ) from None
        if not np.isfinite(out).all():
            row = int(np.flatnonzero(~np.isfinite(out))[0])
            raise ValueError(
                f"{self.path}: {self.place(row)} of column {self.name!r} is {_shown(str(self._cells[row]))}. "
                "Remove or replace such rows first."
            )
        return out

    def probabilities(self) -> Array:
        """Return the cells as numbers in [0, 1]."""
        out = self.numbers()
        wrong = (out < 0.0) | (out > 1.0)
        if wrong.any():
            row = int(wrong.argmax())
            hint = (
                "These look like percentages: divide them by 100."
                if out.min() >= 0.0 and 1.0 < out.max() <= 100.0
                else "Scores first need a calibrator."
            )
            raise ValueError(
                f"{self.path}: {self.place(row)} of column {self.name!r} is {out[row]:g}, not a "
                f"probability in "
                f"[0, 1]. {hint}"
            )
        return out

    def labels(self) -> NDArray[Any]:
        """Return the cells as whole numbers if all are, else as texts."""
        cells = self._cells
        if all(isinstance(cell, bool | np.bool_) for cell in cells):
            return np.array(cells, dtype=bool)
        try:
            values = np.array(cells, dtype=np.float64)
        except (ValueError, TypeError):
            return np.array([str(cell).strip() for cell in cells])
        whole = values.astype(np.int64) if np.isfinite(values).all() else None
        return np.array([str(cell) for cell in cells]) if whole is None or (whole != values).any() else whole


def _is_missing(cell: Any) -> bool:
    if isinstance(cell, str):
        return cell.strip().lower() in _MISSING
    return cell is None or cell != cell


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (ValueError, TypeError):
        return False
    return True


def _shown(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")


def _hint(cell: str) -> str:
    text = cell.strip()
    if text.endswith("%") and _is_number(text[:-1].strip()):
        return f" Write it as a fraction: {float(text[:-1]) / 100:g}."
    if text.count(",") == 1 and _is_number(text.replace(",", ".")):
        return f" Write decimals with a point: {text.replace(',', '.')}."
    return ""


def read_columns(
    path: str | Path, names: Sequence[str], *, delimiter: str = ",", encoding: str = "utf-8"
) -> dict[str, Column]:
    """Return columns of a CSV file (also gzipped) or, by its ending, of a Parquet file.

    Raises ValueError, which names the file and what is wrong with it, or OSError.
    """
    file = Path(path)
    if file.is_dir():
        raise ValueError(f"{path} is a folder. Name a file.")
    if file.suffix.lower() in (".parquet", ".pq"):
        return _read_parquet(file, names)
    return _read_csv(file, names, delimiter, encoding)


def _read_csv(file: Path, names: Sequence[str], delimiter: str, encoding: str) -> dict[str, Column]:
    raw = file.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError) as error:
            raise ValueError(f"{file}: the gzip data are damaged ({error}).") from None
    if raw[:4] == b"PAR1":
        raise ValueError(f"{file} is a Parquet file by its content. Give it the ending .parquet.")
    try:
        text = raw.decode(
            "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
        )
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{file}: line {line} holds bytes that are not {encoding}. Save the file as UTF-8, or name its "
            "encoding, such as --encoding latin-1."
        ) from None
    except LookupError:
        raise ValueError(f"--encoding {encoding} is not an encoding that Python knows.") from None
    if not text.strip():
        raise ValueError(f"{file} is empty. It needs a line of column names and a line for each row.")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [name.strip() for name in next(row for row in reader if row)]
        places = _find(file, header, names, delimiter)
        cells: list[list[str]] = [[] for _ in places]
        lines: list[int] = []
        width = len(header)
        for row in reader:
            if not row:
                continue
            if len(row) != width:
                raise ValueError(
                    f"{file}: line {reader.line_num} has {len(row)} cells, but the header has {width}. "
                    f"Quote cells "
                    f"that hold a {_NAMES.get(delimiter, 'delimiter')}."
                )
            for column, place in zip(cells, places, strict=True):
                column.append(row[place])
            lines.append(reader.line_num)
    except csv.Error as error:
        raise ValueError(f"{file}: line {reader.line_num} cannot be read as CSV ({error}).") from None
    if not lines:
        raise ValueError(f"{file} has column names but no rows.")
    return {name: Column(str(file), name, column, lines) for name, column in zip(names, cells, strict=True)}


def _find(file: Path, header: list[str], names: Sequence[str], delimiter: str) -> list[int]:
    """Return the place of each named column."""
    for name in names:
        if header.count(name) > 1:
            raise ValueError(
                f"{file} has {header.count(name)} columns named {name!r}. Give them different names."
            )
        if name not in header:
            raise ValueError(f"{file} has no column {name!r}. {_existing(header)}{_other(header, delimiter)}")
    return [header.index(name) for name in names]


def _existing(header: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in header[:30])
    return f"Its columns are {shown}{f' and {len(header) - 30} more' if len(header) > 30 else ''}."


def _other(header: list[str], delimiter: str) -> str:
    """Return a hint if the columns seem to be parted by something else."""
    if len(header) == 1:
        for other in _DELIMITERS:
            if other != delimiter and other in header[0]:
                shown = r"$'\t'" if other == "\t" else f"'{other}'"
                return f" They seem to be parted by a {_NAMES[other]}: pass --delimiter {shown}."
    return ""


def _read_parquet(file: Path, names: Sequence[str]) -> dict[str, Column]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError(
            f"{file}: Parquet files are read with pyarrow, which is not installed. Install it with "
            'python -m pip install "sklearn-calib[report]", or save the data as CSV.'
        ) from None
    if not file.is_file():
        raise FileNotFoundError(2, "No such file or directory", str(file))
    try:
        opened = parquet.ParquetFile(file)
        header = list(opened.schema_arrow.names)
        for name in names:
            if name not in header:
                raise ValueError(f"{file} has no column {name!r}. {_existing(header)}")
        table = opened.read(columns=list(dict.fromkeys(names)))
    except pyarrow.ArrowException as error:
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{file} cannot be read as Parquet ({message}).") from None
    if table.num_rows == 0:
        raise ValueError(f"{file} has columns but no rows.")
    return {name: Column(str(file), name, table.column(name).to_pylist(), None) for name in names}
