"""Columns of CSV files of any size, some rows at a time.

The csv module of Python reads everything and says which line is at fault. Where pyarrow is installed it reads
ahead, several times as fast, as long as nothing is unusual; at the first thing that is, the other takes over.
"""

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from sklearn_calib.sketch._columns import Coded, Column, shortened

__all__ = ["csv_blocks"]

Block = dict[str, Column]
Rows = list[list[str]]

_DELIMITERS = (",", ";", "\t", "|")
_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_BREAK = re.compile(r"\r\n|\r|\n")
# Bytes that pyarrow takes at a time, of which it reads some 16 ahead, and rows that the csv module does.
_CHUNK = 1 << 19
_ROWS = 1 << 15
_UTF8 = "utf-8-sig"


def csv_blocks(
    file: Path,
    names: Sequence[str],
    numeric: Collection[str],
    delimiter: str,
    encoding: str,
    batch_size: int,
) -> Iterator[tuple[Block, int]]:
    """Yield columns of at most ``batch_size`` rows, with the number of bytes of the file that are read.

    Columns in ``numeric`` hold numbers. Raises ValueError, which names the file and what is wrong with it, or
    OSError.
    """
    encoding = _known(encoding)
    with file.open("rb") as raw:
        table = _Table(file, raw, delimiter, encoding)
        places = find_columns(str(file), table.header, names, _other(table.header, delimiter))
        done, complete = yield from _with_pyarrow(table, names, places, numeric, batch_size)
        if complete:
            return
        start, left = table.line, done
        for rows in table.rows(min(batch_size, _ROWS)):
            full = [row for row in rows if row]
            if left < len(full):
                cells = {name: [row[k] for row in full[left:]] for name, k in zip(names, places, strict=True)}
                place = _place(rows, start, left)
                position = raw.tell() if raw.seekable() else 0
                yield {name: Column(str(file), name, cell, place) for name, cell in cells.items()}, position
            left = max(left - len(full), 0)
            start = table.line


def find_columns(path: str, header: Sequence[str], names: Sequence[str], hint: str = "") -> list[int]:
    """Return the place of each named column."""
    for name in names:
        if header.count(name) > 1:
            raise ValueError(
                f"{path} has {header.count(name)} columns named {name!r}. Give them different names."
            )
        if name not in header:
            shown = ", ".join(shortened(name) for name in header[:30])
            more = f" and {len(header) - 30} more" if len(header) > 30 else ""
            if any("\0" in found for found in header):
                hint = " They hold NUL characters: name the encoding, such as utf-16-le."
            raise ValueError(f"{path} has no column {name!r}. Its columns are {shown}{more}.{hint}")
    return [header.index(name) for name in names]


class _Table:
    """Rows of texts, read one after the other, after the line of column names."""

    def __init__(self, file: Path, raw: IO[bytes], delimiter: str, encoding: str) -> None:
        self.file, self.delimiter, self.encoding = file, delimiter, encoding
        beginning = raw.peek(4) if isinstance(raw, io.BufferedReader) else b""
        self.is_gzip = beginning[:2] == _GZIP
        if beginning[:4] == _PARQUET:
            raise ValueError(f"{file} is a Parquet file by its content. Give it the ending .parquet.")
        stream: Any = gzip.GzipFile(fileobj=raw) if self.is_gzip else raw
        text = io.TextIOWrapper(stream, encoding=encoding, newline="")
        self._reader = csv.reader(text, delimiter=delimiter, strict=True)
        self.header = [name.strip() for name in self._next(self._first)]

    @property
    def line(self) -> int:
        """The number of lines that are read."""
        return int(self._reader.line_num)

    def rows(self, batch_size: int) -> Iterator[Rows]:
        """Yield the next rows, as many as in the header wide; empty lines are empty rows."""
        width = len(self.header)
        while True:
            start = self.line
            rows = self._next(lambda: list(islice(self._reader, batch_size)))
            if not rows:
                return
            if not {len(row) for row in rows} <= {0, width}:
                wrong = next(i for i, row in enumerate(rows) if len(row) not in (0, width))
                parted = _NAMES.get(self.delimiter, "delimiter")
                raise ValueError(
                    f"{self.file}: line {_line(rows, start, wrong)} has {len(rows[wrong])} cells, but the "
                    f"header has {width}. Quote cells that hold a {parted}."
                )
            yield rows

    def _first(self) -> list[str]:
        for row in self._reader:
            if any(cell.strip() for cell in row):
                return row
        raise ValueError(f"{self.file} is empty. It needs a line of column names and a line for each row.")

    def _next(self, read: Callable[[], Any]) -> Any:
        """Return what is read, or say what is wrong with the file."""
        try:
            return read()
        except csv.Error as error:
            raise ValueError(f"{self.file}: line {self.line} cannot be read as CSV ({error}).") from None
        except UnicodeError:
            shown = "utf-8" if self.encoding == _UTF8 else self.encoding
            where = _bad_line(self.file, self.encoding, self.is_gzip)
            raise ValueError(
                f"{self.file}: {where} holds bytes that are not {shown}. Save the file as UTF-8, or name its "
                "encoding, such as latin-1."
            ) from None
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{self.file}: the gzip data are damaged ({error}).") from None


def _known(encoding: str) -> str:
    """Return an encoding that Python knows; a mark at the beginning of UTF-8 is not part of the text."""
    try:
        name = codecs.lookup(encoding).name
        # some codecs, such as base64, turn bytes into bytes
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    except (LookupError, ValueError):
        raise ValueError(f"encoding={encoding!r} is not an encoding that Python knows.") from None
    return _UTF8 if name == "utf-8" else encoding


def _other(header: list[str], delimiter: str) -> str:
    """Return a hint if the columns seem to be parted by something else."""
    if len(header) == 1:
        for other in _DELIMITERS:
            if other != delimiter and other in header[0]:
                shown = r"$'\t'" if other == "\t" else f"'{other}'"
                way = f"pass delimiter={other!r} (--delimiter {shown})"
                return f" They seem to be parted by a {_NAMES[other]}: {way}."
    return ""


def _line(rows: Rows, start: int, row: int) -> int:
    """Return the line on which a row ends, if the rows begin after line ``start``."""
    return start + row + 1 + sum(len(_BREAK.findall(cell)) for each in rows[: row + 1] for cell in each)


def _place(rows: Rows, start: int, left: int) -> Callable[[int], str]:
    """Return what finds the line of a row, where empty rows and the first ``left`` others do not count."""

    def place(row: int) -> str:
        full = [i for i, each in enumerate(rows) if each]
        return f"line {_line(rows, start, full[left + row])}"

    return place


def _bad_line(file: Path, encoding: str, is_gzip: bool) -> str:
    """Return the first line that cannot be decoded."""
    decoder = codecs.getincrementaldecoder(encoding)()
    lines = 1
    try:
        # a pipe cannot be read again, nor gzip data to a damaged end
        with gzip.open(file, "rb") if is_gzip else file.open("rb") as stream:
            while chunk := stream.read(_CHUNK) if file.is_file() else b"":
                decoder.decode(chunk)
                lines += chunk.count(b"\n")
            decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        # what the decoder holds back of the chunk before has no line break
        lines += error.object.count(b"\n", 0, error.start)
    except (OSError, EOFError, zlib.error, UnicodeError):
        return "some line"
    return f"line {lines}" if file.is_file() else "some line"


def _with_pyarrow(
    table: _Table, names: Sequence[str], places: Sequence[int], numeric: Collection[str], batch_size: int
) -> Generator[tuple[Block, int], None, tuple[int, bool]]:
    """Yield columns as long as nothing is unusual; return the number of rows, and whether these are all."""
    if table.encoding != _UTF8 or not table.file.is_file():
        return 0, False
    try:
        import pyarrow
        from pyarrow import csv as arrow_csv
    except ImportError:
        return 0, False
    kinds = {
        name: pyarrow.float64() if name in numeric else pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        for name in names
    }
    columns = [str(k) for k in range(len(table.header))]
    done = 0
    try:
        with table.file.open("rb") as raw:
            reader = arrow_csv.open_csv(
                gzip.GzipFile(fileobj=raw) if table.is_gzip else raw,
                read_options=arrow_csv.ReadOptions(
                    use_threads=False, block_size=_CHUNK, skip_rows=table.line, column_names=columns
                ),
                parse_options=arrow_csv.ParseOptions(delimiter=table.delimiter, newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=[columns[k] for k in places],
                    column_types={columns[k]: kinds[name] for name, k in zip(names, places, strict=True)},
                    null_values=[],
                    strings_can_be_null=False,
                ),
            )
            for batch in reader:
                for first in range(0, batch.num_rows, batch_size):
                    part = batch.slice(first, batch_size)
                    cells = [_plain(part.column(i)) for i in range(len(names))]
                    if not all(np.isfinite(cell).all() for cell in cells if isinstance(cell, np.ndarray)):
                        return done, False
                    block = {
                        name: Column(str(table.file), name, cell, _reread(table, done))
                        for name, cell in zip(names, cells, strict=True)
                    }
                    yield block, raw.tell()
                    done += part.num_rows
    except (ValueError, OSError, EOFError, zlib.error):
        # the other reader will meet it too, and say where
        return done, False
    return done, done > 0


def _plain(array: Any) -> Any:
    """Return numbers as numpy's, texts by number."""
    if hasattr(array, "dictionary"):
        return Coded(array.indices.to_numpy(zero_copy_only=False), array.dictionary.to_pylist())
    return array.to_numpy(zero_copy_only=False)


def _reread(table: _Table, done: int) -> Callable[[int], str]:
    """Return what finds the line of a row, after ``done`` others, by reading the file again."""

    def place(row: int) -> str:
        with table.file.open("rb") as raw:
            again = _Table(table.file, raw, table.delimiter, _UTF8)
            left, start = done + row, again.line
            for rows in again.rows(_ROWS):
                full = [i for i, each in enumerate(rows) if each]
                if left < len(full):
                    return f"line {_line(rows, start, full[left])}"
                left, start = left - len(full), again.line
        return f"row {done + row + 1}"

    return place
