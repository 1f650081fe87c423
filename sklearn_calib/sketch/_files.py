"""Named columns of CSV, Parquet and Feather files, read in batches of rows with pyarrow.

Labels are booleans or integers where all labels of the column are, else texts. Every error is a ValueError or
an OSError of one line that names the file, and the column and the row where there is one: the line of column
names of a CSV is row 1, as in a spreadsheet, and the first row of other files is row 1.
"""

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib import _validation
from sklearn_calib._typing import Array

FilePath = str | Path

_TABLES = (".parquet", ".pq", ".feather", ".arrow")
_ENDINGS = (".csv", ".csv.gz", *_TABLES)
# Texts that mean a missing cell, in any case of letters.
_MISSING = ("", "na", "nan", "null", "none", "n/a", "#n/a")
_GAP = "is empty or missing; remove or fill such rows first"
# Rows of a batch, and bytes of a block of CSV, of which pyarrow reads some 16 ahead; a row must fit into it.
_ROWS, _BLOCK = 1 << 19, 1 << 19


def table_files(path: FilePath | Sequence[FilePath]) -> list[Path]:
    """Return the files of a path, or of several; of a folder those in it, at any depth, sorted.

    In folders, names that begin with a dot or an underscore are left out.
    """
    paths = [path] if isinstance(path, str | Path) else list(path)
    if not paths or "" in paths:
        raise ValueError("path is empty. Name a file, or a folder ('.' for this one).")
    files = []
    for place in map(Path, paths):
        inside = [
            file
            for file in sorted(place.rglob("*"))
            if file.name.lower().endswith(_ENDINGS)
            # neither a folder nor a pipe
            and (file.is_file() or not file.exists())
            and not any(part.startswith((".", "_")) for part in file.relative_to(place).parts)
        ]
        if place.is_dir() and not inside:
            raise ValueError(f"{place} is a folder without files that end in {', '.join(_ENDINGS)}.")
        files += inside if place.is_dir() else [place]
    return files


class Columns:
    """Named columns of tables: labels by their numbers, probabilities in [0, 1], and weights >= 0.

    Features may be missing, and are found by the key (name, "feature").
    """

    def __init__(
        self,
        labels: Sequence[str],
        probabilities: Sequence[str],
        weights: Sequence[str] = (),
        features: Sequence[str] = (),
    ) -> None:
        for name in (*probabilities, *weights):
            if (name in probabilities) + (name in weights) + (name in labels) > 1:
                raise ValueError(f"column {name!r} is named for two purposes. Name another column.")
        self._numbers = {**dict.fromkeys(probabilities, True), **dict.fromkeys(weights, False)}
        self._features = list(features)
        self._labels: dict[str, dict[Any, int]] = {name: {} for name in labels}
        self._names = list(dict.fromkeys((*labels, *probabilities, *weights, *features)))

    def labels(self, name: str) -> NDArray[Any]:
        """Return the label of each number of a column: booleans or integers if all are, else texts."""
        found = list(self._labels[name])
        return np.array([str(label) for label in found] if any(isinstance(x, str) for x in found) else found)

    def table(self, names: Sequence[str], found: dict[str, NDArray[Any]]) -> Any:
        """Return columns of labels that were read as a table, which knows their names."""
        import pyarrow

        return pyarrow.table({name: self.labels(name)[found[name]] for name in names})

    def find(self, name: str, wanted: Any) -> Any:
        """Return the label that is named, or written so; None if it does not occur."""
        key = self._labels[name].get(_label(str(wanted)), self._labels[name].get(wanted))
        return None if key is None else self.labels(name)[key].item()

    def batches(self, files: Sequence[Path]) -> Iterator[dict[Any, NDArray[Any]]]:
        """Yield the rows of files in batches, labels as numbers; errors name the file."""
        try:
            import pyarrow
        except ImportError:
            raise ImportError(
                f"{files[0]}: files are read with pyarrow, which is not installed. Install it with "
                'python -m pip install "sklearn-calib[report]".'
            ) from None
        empty = True
        for file in files:
            read, row = (_table, 1) if file.suffix.lower() in _TABLES else (_rows_of_csv, 2)
            try:
                for batch in read(file, self._names, self._numbers):
                    yield self._checked(batch, str(file), row)
                    row += batch.num_rows
                    empty = empty and not batch.num_rows
            except (pyarrow.ArrowException, EOFError, zlib.error, csv.Error, OSError) as error:
                if isinstance(error, OSError) and error.filename:
                    raise
                message = (str(error) or type(error).__name__).splitlines()[0]
                raise ValueError(f"{file} cannot be read ({message}). Is it damaged?") from None
        if empty:
            raise ValueError(f"{', '.join(map(str, files[:3]))}: column names but no rows.")

    def _checked(self, batch: Any, file: str, row: int) -> dict[Any, NDArray[Any]]:
        """Return the columns of a record batch whose first row has the number ``row``."""
        found: dict[Any, NDArray[Any]] = {}
        for name, place in zip(self._names, _places(file, batch.schema.names, self._names), strict=True):
            cell = f"{file}: row %d of column {name!r}"
            if name in self._labels:
                found[name] = _encode(batch.column(place), self._labels[name], cell, row)
            if name in self._numbers:
                found[name] = _numbers(batch.column(place), cell, row, self._numbers[name])
            if name in self._features:
                found[name, "feature"] = _feature(batch.column(place))
        return found


def _places(where: str, header: Sequence[str], names: Sequence[str]) -> list[int]:
    """Return the place of each named column."""
    for name in names:
        if header.count(name) != 1:
            state = f"{header.count(name)} columns named" if name in header else "no column"
            shown = ", ".join(f"{column!r:.40}" for column in header[:30])
            raise ValueError(f"{where}: {state} {name!r}. Its columns are {shown}.")
    return [header.index(name) for name in names]


def _label(text: str) -> Any:
    """Return the label that a text means: a boolean, an integer, or the text itself."""
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    # greater integers are not exact as floats, and those with leading zeros are codes
    return int(float(text)) if re.fullmatch(r"[+-]?(0|[1-9]\d{0,14})(\.0*)?", text) else text


def _feature(cells: Any) -> NDArray[Any]:
    """Return the values of a feature; of texts objects, and None where they are missing."""
    import pyarrow

    if pyarrow.types.is_string(cells.type) or pyarrow.types.is_large_string(cells.type):
        cells = cells.dictionary_encode()
    if not isinstance(cells, pyarrow.DictionaryArray):
        return _validation.as_array(cells, "a feature")
    words = [x.strip() if isinstance(x, str) else x for x in cells.dictionary.to_pylist()]
    known = np.array([None if str(x).lower() in _MISSING else x for x in [*words, None]], dtype=object)
    return known[cells.indices.fill_null(len(words)).to_numpy()]


def _encode(cells: Any, known: dict[Any, int], cell: str, first: int) -> NDArray[Any]:
    """Return the number of each label; new ones are added to those that are known."""
    import pyarrow

    if not isinstance(cells, pyarrow.DictionaryArray):
        try:
            cells = cells.dictionary_encode()
        except pyarrow.ArrowException:
            raise ValueError(f"{cell % first} has the type {cells.type}, not text or numbers.") from None
    if cells.null_count:
        _refuse(cells.is_null().to_numpy(zero_copy_only=False), cell, first, _GAP)
    codes, texts = cells.indices.to_numpy(), cells.dictionary.cast(pyarrow.string()).to_pylist()
    # a dictionary may hold categories that do not occur
    occurs = np.bincount(codes, minlength=len(texts)) > 0
    missing = np.array([text is None or text.strip().lower() in _MISSING for text in texts], dtype=bool)
    if (missing & occurs).any():
        _refuse(missing[codes], cell, first, _GAP)
    numbers = [
        known.setdefault(_label(text), len(known)) if there else -1
        for text, there in zip(texts, occurs, strict=True)
    ]
    return np.array(numbers, dtype=np.int32)[codes]


def _numbers(cells: Any, cell: str, first: int, probabilities: bool) -> Array:
    """Return finite numbers: probabilities, or weights."""
    import pyarrow

    if isinstance(cells, pyarrow.DictionaryArray):
        cells = cells.dictionary_decode()
    try:
        values: Array = cells.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)
    except pyarrow.ArrowException as error:
        raise ValueError(f"{cell % first} or a later one is not a number ({error}).") from None
    highest = values.max(initial=0.0)
    if values.min(initial=0.0) >= 0.0 and (highest <= 1.0 if probabilities else highest < np.inf):
        return values
    _refuse(np.isnan(values), cell, first, _GAP)
    _refuse(np.isinf(values), cell, first, "is infinite")
    if not probabilities:
        _refuse(values < 0.0, cell, first, "is negative, but weights must not be")
    wrong = (values < 0.0) | (values > 1.0)
    if not _validation.only_rounding(values):
        hint = "convert scores to probabilities with a calibrator first"
        if values.min() >= 0.0 and values.max() <= 100.0:
            hint = "percentages must be divided by 100"
        _refuse(wrong, cell, first, f"is {values[wrong.argmax()]:g}, not a probability in [0, 1]; {hint}")
    return np.clip(values, 0.0, 1.0)


def _refuse(wrong: NDArray[np.bool_], cell: str, first: int, what: str) -> None:
    """Raise for the first wrong cell."""
    if wrong.any():
        raise ValueError(f"{cell % (first + int(wrong.argmax()))} {what}.")


def _table(file: Path, names: Sequence[str], numbers: Any) -> Iterator[Any]:
    """Yield record batches of a Parquet or Feather file."""
    from pyarrow import OSFile, ipc, parquet, types

    if file.exists() and not file.is_file():
        raise ValueError(f"{file} is a pipe or device, from which only CSV can be read. Save it as a file.")
    # a file that cannot be opened has Python's error, which names it
    file.open("rb").close()
    if file.suffix.lower() in (".feather", ".arrow"):
        with OSFile(str(file)) as opened, ipc.open_file(opened) as reader:
            yield from (reader.get_batch(k) for k in range(reader.num_record_batches))
        return
    schema = parquet.read_schema(file)
    _places(str(file), schema.names, names)
    # texts of labels arrive encoded, as they are stored
    texts = [name for name in names if name not in numbers and types.is_string(schema.field(name).type)]
    # without the buffer a whole row group is kept in memory
    with parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False, read_dictionary=texts) as opened:
        yield from opened.iter_batches(_ROWS, columns=list(names), use_threads=False)


def _rows_of_csv(file: Path, names: Sequence[str], numbers: Any) -> Iterator[Any]:
    """Yield record batches of a CSV with a line of column names; also gzipped, and in UTF-16."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    with io.BufferedReader(_Whole(file), _BLOCK) as raw:
        packed = raw.peek(2)[:2] == b"\x1f\x8b"
        stream: Any = io.BufferedReader(gzip.GzipFile(fileobj=raw), _BLOCK) if packed else raw
        start = stream.peek(_BLOCK)[:_BLOCK]
        if start[:4] == b"PAR1":
            raise ValueError(f"{file} is a Parquet file by its content. Give it the ending .parquet.")
        wide = start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        encoding = "utf-16" if wide else "utf-8"
        text = codecs.getincrementaldecoder(encoding)("replace").decode(start).removeprefix("\ufeff")
        line = next((line for line in text.splitlines() if line.strip()), "")
        if not line:
            raise ValueError(f"{file} is empty. It needs a line of column names and a line for each row.")
        # the delimiter by which most of the names are found
        read = {delimiter: next(csv.reader([line], delimiter=delimiter)) for delimiter in ",;\t|"}
        delimiter = max(read, key=lambda sign: len({name.strip() for name in read[sign]} & set(names)))
        written = read[delimiter]
        header = [name.strip() for name in written]
        places = _places(str(file), header, names)
        text_type = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        kinds = [pyarrow.float64() if name in numbers else text_type for name in names]
        counted, n_rows = _Counted(stream), 0
        reader: Any = ()
        try:
            reader = arrow_csv.open_csv(
                pyarrow.PythonFile(counted, "r"),
                read_options=arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK, encoding=encoding),
                parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=[written[k] for k in places],
                    column_types=dict(zip([written[k] for k in places], kinds, strict=True)),
                    null_values=[*_MISSING, *map(str.upper, _MISSING), "NaN", "None", "Null"],
                    strings_can_be_null=True,
                ),
            )
            for batch in reader:
                yield pyarrow.RecordBatch.from_arrays(batch.columns, names=list(names))
                n_rows += batch.num_rows
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"{file}: {_words(str(error), header)}.") from None
        finally:
            # a thread of pyarrow that reads ahead would abort the process if the interpreter ended before it
            counted.ended = True
            with suppress(pyarrow.ArrowInvalid):
                deque(reader, maxlen=0)
        if counted.quotes % 2 and counted.lines != n_rows + 1:
            raise ValueError(f"{file}: a quote is not closed. Is the file truncated?")


class _Whole(io.FileIO):
    """A file that fills a buffer, even if it is a pipe, which passes on a little at a time."""

    def readinto(self, buffer: Any) -> int:
        view, n = memoryview(buffer), 0
        while n < len(view) and (more := super().readinto(view[n:])):
            n += more
        return n


class _Counted(io.RawIOBase):
    """A binary stream that counts what it is read of: an odd number of quotes leaves one open."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.quotes, self.lines, self.ended = stream, 0, 0, False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:  # pragma: no cover  (a thread of pyarrow calls it)
        block: bytes = b"" if self.ended else self._stream.read(size)
        self.quotes += block.count(b'"')
        self.lines += block.count(b"\n")
        return block


def _words(message: str, header: Sequence[str]) -> str:
    """Return pyarrow's message on a CSV with the name of the column, and advice."""
    if found := re.match(r"In CSV column #(\d+): Row #(\d+): (.*)", message, re.DOTALL):
        place = f"row {found[2]} of column {header[int(found[1])]!r}"
        cell = re.search("invalid value '(.*)'", found[3], re.DOTALL)
        if cell is None:
            return f"{place} contains bytes that are not UTF-8; save the file as UTF-8"
        hint = "; write decimals with a point" if cell[1].count(",") == 1 else ""
        hint = "; write percentages as fractions" if cell[1].strip().endswith("%") else hint
        hint = "; is a quote not closed?" if "\n" in cell[1] else hint
        return f"{place} is {cell[1]!r:.40}, not a number{hint}"
    if found := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", message):
        return (
            f"row {found[1]} has {found[3]} cells, but the header has {found[2]}; quote cells that contain a "
            "delimiter, and close all quotes"
        )
    if "straddl" in message:
        return f"a row is longer than {_BLOCK} bytes; is a quote not closed?"
    return message.splitlines()[0].rstrip(".")
