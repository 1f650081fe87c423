"""Columns of CSV and Parquet files of any size, read in batches of rows with pyarrow."""

import codecs
import csv
import glob
import gzip
import io
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from sklearn_calib.sketch._columns import MISSING, Column, not_a_number, shortened

#: Rows that are read at a time.
BATCH_SIZE = 1 << 18

FilePath = str | Path

_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".csv.gz")
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
# Block size of pyarrow's CSV reader in bytes, which reads some 16 blocks ahead; a row must fit into a block.
_BLOCK = 1 << 19
# Begins a line after the last one, which has too many cells: pyarrow reports it unless a quote is open there.
_END = "\x1fend of file\x1f"
_UNCLOSED = "ends within quotes: a quote is not closed. Is the file truncated?"


def table_files(paths: FilePath | Sequence[FilePath]) -> list[Path]:
    """Return the files of a path, a folder, a pattern, or several of these.

    Of a folder these are its CSV or Parquet files, at any depth, sorted; names that begin with a dot or an
    underscore are left out.
    """
    several = list(paths) if isinstance(paths, Sequence) and not isinstance(paths, str) else [paths]
    for path in several:
        if not isinstance(path, str | Path):
            raise TypeError(f"path must be a path or a sequence of paths, got {path!r}.")
        if not str(path):
            raise ValueError("path is an empty text. Name a file, or a folder ('.' for this one).")
    if not several:
        raise ValueError("path is empty. Name at least one file.")
    return [file for path in several for file in _expanded(path)]


def check_columns(y: Any, p: Sequence[Any], sample_weight: Any) -> None:
    """Raise unless columns are named by texts; that of weights may be None."""
    for name, value in (("y", y), *(("p", column) for column in p), ("sample_weight", sample_weight)):
        if not isinstance(value, str) and not (name == "sample_weight" and value is None):
            raise TypeError(f"{name} must be the name of a column, got {value!r}.")


def _expanded(path: FilePath) -> list[Path]:
    file = Path(path)
    if file.is_dir():
        return _of_folder(file)
    if not file.exists() and glob.has_magic(str(path)):
        found = sorted(Path(name) for name in glob.glob(str(path), recursive=True) if Path(name).is_file())
        if not found:
            raise ValueError(f"{path} matches no file.")
        return found
    return [file]


def _of_folder(folder: Path) -> list[Path]:
    files = sorted(
        file
        for file in folder.rglob("*")
        if file.name.lower().endswith(_PARQUET + _CSV)
        and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
        and file.is_file()
    )
    if not files:
        raise ValueError(f"{folder} is a folder without files that end in {', '.join(_PARQUET + _CSV)}.")
    if len({file.suffix.lower() in _PARQUET for file in files}) > 1:
        raise ValueError(f"{folder} contains both CSV and Parquet files. Name the files to read.")
    return files


def read_blocks(
    files: Sequence[Path],
    names: Sequence[str],
    *,
    numeric: Collection[str] = (),
    delimiter: str = ",",
    encoding: str = "utf-8",
    batch_size: int = BATCH_SIZE,
) -> Iterator[tuple[dict[str, Column], int]]:
    """Yield columns of CSV files (also gzipped) and, by their ending, of Parquet files, one after the other.

    Yields at most ``batch_size`` rows at a time, with the approximate number of bytes read so far. Columns in
    ``numeric`` contain numbers. Raises ValueError, which names the file and the problem, or OSError;
    ImportError without pyarrow.
    """
    names = list(dict.fromkeys(names))
    before = n_samples = 0
    for file in files:
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise ImportError(
                f"{file}: files are read with pyarrow, which is not installed. Install it with "
                'python -m pip install "sklearn-calib[report]".'
            ) from None
        if file.suffix.lower() in _PARQUET:
            batches, row = _parquet_batches(file, names, batch_size), 1
        else:
            # the line of column names is row 1, as in a spreadsheet
            batches, row = _csv_batches(file, names, numeric, delimiter, encoding), 2
        for whole, position in batches:
            for first in range(0, whole.num_rows, batch_size):
                batch = whole.slice(first, batch_size)
                yield arrow_columns(batch, names, str(file), row), before + position
                row += batch.num_rows
                n_samples += batch.num_rows
        before += file.stat().st_size
    if not n_samples:
        what = (
            f"{files[0]} has"
            if len(files) == 1
            else f"{files[0]} and the {len(files) - 1} files after it have"
        )
        raise ValueError(f"{what} column names but no rows.")


def arrow_columns(batch: Any, names: Sequence[str], path: str, first: int) -> dict[str, Column]:
    """Return columns of an Arrow record batch whose first row has the number ``first``."""
    places = _find_columns(path, batch.schema.names, names)
    return {name: Column(path, name, batch.column(k), first) for name, k in zip(names, places, strict=True)}


def _find_columns(path: str, header: Sequence[str], names: Sequence[str], hint: str = "") -> list[int]:
    """Return the place of each named column."""
    for name in names:
        if header.count(name) > 1:
            raise ValueError(
                f"{path} has {header.count(name)} columns named {name!r}. Give them different names."
            )
        if name not in header:
            shown = ", ".join(shortened(name) for name in header[:30])
            more = f" and {len(header) - 30} more" if len(header) > 30 else ""
            raise ValueError(f"{path} has no column {name!r}. Its columns are {shown}{more}.{hint}")
    return [header.index(name) for name in names]


def _parquet_batches(file: Path, names: Sequence[str], batch_size: int) -> Iterator[tuple[Any, int]]:
    import pyarrow
    from pyarrow import parquet

    size, done = file.stat().st_size, 0
    try:
        # without the buffer a whole row group is kept in memory
        with parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False) as opened:
            _find_columns(str(file), opened.schema_arrow.names, names)
            for batch in opened.iter_batches(batch_size, columns=list(names), use_threads=False):
                done += batch.num_rows
                yield batch, size * done // max(opened.metadata.num_rows, 1)
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.filename:
            raise
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{file} cannot be read as Parquet ({message}).") from None


def _csv_batches(
    file: Path, names: Sequence[str], numeric: Collection[str], delimiter: str, encoding: str
) -> Iterator[tuple[Any, int]]:
    import pyarrow
    from pyarrow import csv as arrow_csv

    encoding = known_encoding(encoding)
    header: list[str] = []
    ends: list[str] = []

    def skip_end(row: Any) -> str:
        if _END not in row.text:
            return "error"
        ends.append(row.text)
        return "skip"

    try:
        with file.open("rb", buffering=_BLOCK) as raw:
            stream: Any = raw
            if stream.peek(2)[:2] == b"\x1f\x8b":
                stream = io.BufferedReader(gzip.GzipFile(fileobj=raw), _BLOCK)
            header = _header(file, stream.peek(_BLOCK), delimiter, encoding)
            clean = [name.strip() for name in header]
            spelled = [header[k] for k in _find_columns(str(file), clean, names, _hint(clean, delimiter))]
            text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
            kinds = [pyarrow.float64() if name in numeric else text for name in names]
            if encoding != "utf-8":
                stream = pyarrow.transcoding_input_stream(pyarrow.PythonFile(stream, "r"), encoding, "utf-8")
            end = _END + delimiter * len(header)
            reader = arrow_csv.open_csv(
                _Appended(stream, f"\n{end}\n".encode()),
                read_options=arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip_end
                ),
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=spelled,
                    column_types=dict(zip(spelled, kinds, strict=True)),
                    null_values=[*MISSING, *map(str.upper, MISSING), "NaN", "None", "Null"],
                    strings_can_be_null=False,
                ),
            )
            for batch in reader:
                named = pyarrow.RecordBatch.from_arrays(batch.columns, names=list(names))
                yield named, raw.tell() if raw.seekable() else 0
            if ends != [end]:
                raise ValueError(f"{file} {_UNCLOSED}")
    except pyarrow.ArrowException as error:
        if _END in str(error):
            raise ValueError(f"{file} {_UNCLOSED}") from None
        if "Empty CSV" not in str(error):
            raise ValueError(_csv_error(file, str(error), header, delimiter)) from None
    except UnicodeError:
        raise ValueError(f"{file} contains {_not_encoded(encoding)}") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{file}: the gzip data are damaged ({error}).") from None


class _Appended(io.RawIOBase):
    """A binary stream with some bytes appended."""

    def __init__(self, stream: Any, end: bytes) -> None:
        self._stream, self._end = stream, end

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:  # pragma: no cover  (a thread of pyarrow calls it)
        found = self._stream.read(size)
        if not found:
            found, self._end = self._end, b""
        return found


def _header(file: Path, beginning: bytes, delimiter: str, encoding: str) -> list[str]:
    """Return the column names as they are written; bytes that are not text are marked."""
    if beginning[:4] == b"PAR1":
        raise ValueError(f"{file} is a Parquet file by its content. Give it the ending .parquet.")
    # for bytes that are not UTF-8 pyarrow reports the row
    known, errors = ("utf-8-sig", "replace") if encoding == "utf-8" else (encoding, "strict")
    text = codecs.getincrementaldecoder(known)(errors).decode(beginning[:_BLOCK])
    if len(beginning) >= _BLOCK and not re.search("[\r\n]", text):
        raise ValueError(f"{file}: its first line is longer than {_BLOCK} bytes. Is it a CSV?")
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if any(cell.strip() for cell in row):
                return row
    except csv.Error as error:
        raise ValueError(f"{file}: the line of column names cannot be read as CSV ({error}).") from None
    raise ValueError(f"{file} is empty. It needs a line of column names and a line for each row.")


def _hint(header: list[str], delimiter: str) -> str:
    """Return advice for unusual column names."""
    if any("\0" in name for name in header):
        return " They contain NUL characters: name the encoding, such as utf-16."
    if len(header) == 1:
        for other, name in _DELIMITERS.items():
            if other != delimiter and other in header[0]:
                shown = r"$'\t'" if other == "\t" else f"'{other}'"
                way = f"pass delimiter={other!r} (--delimiter {shown})"
                return f" They seem to be separated by a {name}: {way}."
    return ""


def known_encoding(encoding: str) -> str:
    """Return the name of an encoding that Python supports."""
    try:
        # some codecs, such as base64, turn bytes into bytes
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        return codecs.lookup(encoding).name
    except (LookupError, ValueError):
        raise ValueError(f"encoding={encoding!r} is not an encoding that Python supports.") from None


def _not_encoded(encoding: str) -> str:
    return f"bytes that are not {encoding}. Save the file as UTF-8, or name its encoding, such as latin-1."


def _csv_error(file: Path, message: str, header: Sequence[str], delimiter: str) -> str:
    """Return pyarrow's error message with the file name and the column name."""
    if found := re.match(r"In CSV column #(\d+): Row #(\d+): (.*)", message, flags=re.DOTALL):
        column, row, what = found.groups()
        place = f"{file}: row {row} of column {header[int(column)].strip()!r}"
        if "invalid UTF8" in what:
            return f"{place} contains {_not_encoded('utf-8')}"
        if value := re.search("invalid value '(.*)'", what, flags=re.DOTALL):
            return not_a_number(place, value[1])
        return f"{place}: {what}"
    if found := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", message):
        parted = _DELIMITERS.get(delimiter, "delimiter")
        return (
            f"{file}: row {found[1]} has {found[3]} cells, but the header has {found[2]}. Quote cells that "
            f"contain a {parted}."
        )
    if "straddl" in message:
        message = f"a row is longer than {_BLOCK} bytes; is a quote not closed?"
    return f"{file} cannot be read as CSV ({message.splitlines()[0]})."
