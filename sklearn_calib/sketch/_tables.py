"""Sketches of files of any size."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._progress import Progress
from sklearn_calib._typing import Array
from sklearn_calib._validation import check_integer
from sklearn_calib.sketch._columns import Labels
from sklearn_calib.sketch._files import check_precision
from sklearn_calib.sketch._outcomes import OutcomeSketches
from sklearn_calib.sketch._read import BATCH_SIZE, FilePath, check_columns, read_blocks, table_files
from sklearn_calib.sketch._sketch import CalibrationSketch

Codes = NDArray[np.int32]
Show = bool | Callable[[int, int, str], Any] | None


@dataclass(frozen=True, eq=False)
class PredictionRows:
    """Some rows of files: numbers of labels, of groups and of clusters; predictions by column; weights."""

    y: Codes
    p: tuple[Array, ...]
    w: Array | None
    groups: Codes | None
    clusters: Codes | None


class PredictionFiles:
    """Predictions in files, read some rows at a time; labels and groups are numbered as they turn up.

    Parameters
    ----------
    files : list of Path
        CSV or Parquet files.
    y : str
        Column of outcomes.
    p : sequence of str
        Columns of probabilities.
    weight, group, clusters : str or None
        Columns of weights, of groups and of clusters.
    """

    def __init__(
        self,
        files: list[Path],
        y: str,
        p: Sequence[str],
        weight: str | None = None,
        group: str | None = None,
        clusters: str | None = None,
        *,
        delimiter: str = ",",
        encoding: str = "utf-8",
        batch_size: int = BATCH_SIZE,
    ) -> None:
        self.files, self.labels, self.groups, self.clusters = files, Labels(), Labels(), Labels()
        self._y, self._p, self._weight, self._group, self._clusters = y, tuple(p), weight, group, clusters
        self._options: dict[str, Any] = {
            "delimiter": delimiter,
            "encoding": encoding,
            "batch_size": batch_size,
        }

    @property
    def where(self) -> str:
        """Where the labels stand, for messages."""
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return f"{self.files[0]}{more}: column {self._y!r}"

    def rows(self, progress: Show = False) -> Iterator[PredictionRows]:
        """Yield the rows."""
        numeric = [*self._p, *([] if self._weight is None else [self._weight])]
        labels = [name for name in (self._y, self._group, self._clusters) if name is not None]
        total = sum(file.stat().st_size for file in self.files)
        with Progress(progress, total, "B") as step:
            step.reach(0, self.files[0].name)
            for block, position in read_blocks(
                self.files, [*labels, *numeric], numeric=set(numeric) - set(labels), **self._options
            ):
                yield PredictionRows(
                    self.labels.encode(block[self._y]),
                    tuple(block[name].probabilities() for name in self._p),
                    None if self._weight is None else block[self._weight].weights(),
                    None if self._group is None else self.groups.encode(block[self._group]),
                    None if self._clusters is None else self.clusters.encode(block[self._clusters]),
                )
                step.reach(position, self._at(position))

    def _at(self, position: int) -> str:
        """Return the name of the file that is being read."""
        for file in self.files:
            position -= file.stat().st_size
            if position < 0:
                break
        return file.name


def sketch_file(
    path: FilePath | Sequence[FilePath],
    *,
    y: str,
    p: str | Sequence[str],
    sample_weight: str | None = None,
    pos_label: Any = None,
    precision: int = 17,
    batch_size: int = BATCH_SIZE,
    delimiter: str = ",",
    encoding: str = "utf-8",
    progress: Show = None,
) -> CalibrationSketch:
    """Return the sketch of the predictions in files of any size, read in batches of rows.

    Parameters
    ----------
    path : str, Path or sequence of these
        CSV files (also gzipped) with a line of column names, and Parquet files (``.parquet``, ``.pq``); each
        a file, a pattern such as ``"scores/*.parquet"``, or a folder, whose files are read at any depth.
    y : str
        Column of outcomes, with two labels.
    p : str or sequence of two str
        Column of the predicted probability of the positive class; of two columns, which sum to 1, the last.
    sample_weight : str, default=None
        Column of non-negative weights.
    pos_label : label, default=None
        The positive class, as a label or as it is written. By default 1 for labels in {0, 1} or {-1, 1}, else
        the greater of the two; required for text labels (except numbers, true and false) if ``p`` is one
        column.
    precision : int, default=17
        Precision of the sketch.
    batch_size : int, default=262144
        Number of rows read at a time. The sketch does not depend on it, up to the rounding of non-integer
        weights.
    delimiter : str, default=","
        Field delimiter of a CSV.
    encoding : str, default="utf-8"
        Encoding of a CSV.
    progress : bool, callable or None, default=None
        None shows a bar if stderr is a terminal and tqdm is installed, True always, False never. A function
        is called as ``progress(done, total, file)``, with numbers of bytes.

    Returns
    -------
    CalibrationSketch
        The sketch of all samples.

    Raises
    ------
    ValueError
        If a file or an argument is malformed; the message names the file, the column and the row.
    OSError
        If a file cannot be read.
    ImportError
        If pyarrow is not installed, or ``progress=True`` and tqdm is not installed.

    See Also
    --------
    sketch_batches : The sketch of an iterable of batches.
    sketch_dask : The sketch of distributed data.

    Notes
    -----
    Time is proportional to the rows; memory is that of a sketch and of ``batch_size`` rows. Whole numbers in
    the column of outcomes are labels of numbers, in a CSV too; all other cells are texts. In messages the
    line of column names of a CSV is row 1, as in a spreadsheet, and the first row of a Parquet file is row 1.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn_calib.sketch import sketch_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part, row in enumerate(["yes,0.75", "no,0.25", "no,0.5"]):
    ...         with Path(folder, f"part-{part}.csv").open("w") as file:
    ...             print("died,risk", row, sep=chr(10), file=file)
    ...     sketch = sketch_file(folder, y="died", p="risk", pos_label="yes")
    >>> print(sketch)
    sketch of 3 samples
      total weight     3
      event rate       0.333333
      mean prediction  0.5
      bins             3 of precision 17
    """
    check_precision(precision)
    if not isinstance(p, Iterable):
        raise TypeError(f"p must be the name of a column, or those of two, got {p!r}.")
    columns = [p] if isinstance(p, str) else list(p)
    check_columns(y, columns, sample_weight)
    if len(columns) not in (1, 2):
        raise ValueError(
            f"p must name one column or two, got {len(columns)}. A sketch is for binary targets."
        )
    check_delimiter(delimiter)
    if not isinstance(encoding, str):
        raise TypeError(f"encoding must be the name of one, such as 'utf-8', got {encoding!r}.")
    files = PredictionFiles(
        table_files(path),
        y,
        columns,
        sample_weight,
        delimiter=delimiter,
        encoding=encoding,
        # more rows than a file can have are all of them
        batch_size=min(check_integer(batch_size, "batch_size"), 1 << 31),
    )
    sketches = OutcomeSketches(files.labels, files.where, precision, pos_label, ordered=len(columns) == 2)
    for rows in files.rows(progress):
        sketches.add(rows.y, joined(rows.p), rows.w)
    return sketches.result()[0]


def joined(p: Sequence[Array]) -> Array:
    """Return the only column, or the columns side by side."""
    return p[0] if len(p) == 1 else np.column_stack(p)


def check_delimiter(delimiter: Any, name: str = "delimiter") -> str:
    """Return ``delimiter`` if it is one valid character."""
    if not isinstance(delimiter, str) or len(delimiter) != 1:
        raise ValueError(f"{name} must be one character, got {delimiter!r}.")
    if delimiter in '"\r\n':
        raise ValueError(f"{name} must not be a quote or the end of a line, got {delimiter!r}.")
    return delimiter
