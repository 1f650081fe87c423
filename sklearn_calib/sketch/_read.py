"""Columns of CSV and Parquet files of any size, some rows at a time."""

import glob
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from sklearn_calib.sketch._columns import Coded, Column
from sklearn_calib.sketch._read_csv import csv_blocks, find_columns

__all__ = ["BATCH_SIZE", "FilePath", "arrow_columns", "check_columns", "read_blocks", "table_files"]

#: Rows that are read at a time.
BATCH_SIZE = 1 << 18

FilePath = str | Path

_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".csv.gz")


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
        raise ValueError(f"{folder} is a folder of both CSV and Parquet files. Name those that are meant.")
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

    Each time come at most ``batch_size`` rows, and with them about how many bytes of all files are read so
    far. Columns in ``numeric`` hold numbers. Raises ValueError, which names the file and what is wrong with
    it, or OSError; ImportError for Parquet without pyarrow.
    """
    names = list(dict.fromkeys(names))
    before = n_rows = 0
    for file in files:
        if file.suffix.lower() in _PARQUET:
            blocks = _parquet_blocks(file, names, batch_size)
        else:
            blocks = csv_blocks(file, names, numeric, delimiter, encoding, batch_size)
        for block, position in blocks:
            n_rows += len(block[names[0]])
            yield block, before + position
        before += file.stat().st_size
    if not n_rows:
        what = (
            f"{files[0]} has"
            if len(files) == 1
            else f"{files[0]} and the {len(files) - 1} files after it have"
        )
        raise ValueError(f"{what} column names but no rows.")


def _parquet_blocks(
    file: Path, names: Sequence[str], batch_size: int
) -> Iterator[tuple[dict[str, Column], int]]:
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
    size, done = file.stat().st_size, 0
    try:
        # without the buffer a whole row group is held, however large
        with parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False) as opened:
            find_columns(str(file), opened.schema_arrow.names, names)
            n_rows = opened.metadata.num_rows
            for batch in opened.iter_batches(batch_size, columns=list(names), use_threads=False):
                block = arrow_columns(batch, names, str(file), done)
                done += batch.num_rows
                if batch.num_rows:
                    yield block, size * done // n_rows
    except pyarrow.ArrowException as error:
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{file} cannot be read as Parquet ({message}).") from None


def arrow_columns(batch: Any, names: Sequence[str], path: str, done: int) -> dict[str, Column]:
    """Return columns of an Arrow record batch that comes after ``done`` other rows."""
    find_columns(path, batch.schema.names, names)

    def place(row: int) -> str:
        return f"row {done + row + 1}"

    return {name: Column(path, name, _cells(batch.column(name)), place) for name in dict.fromkeys(names)}


def _cells(array: Any) -> Any:
    """Return the cells of an Arrow array for a column."""
    import pyarrow
    from pyarrow import types

    if array.null_count:
        return array.to_pylist()
    kind = array.type
    if types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind):
        return array.to_numpy(zero_copy_only=False)
    if types.is_string(kind) or types.is_large_string(kind):
        array = array.dictionary_encode()
    if isinstance(array, pyarrow.DictionaryArray) and not array.dictionary.null_count:
        return Coded(array.indices.to_numpy(zero_copy_only=False), array.dictionary.to_pylist())
    return array.to_pylist()
