"""Sketches of files of any size."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._progress import Progress
from sklearn_calib._typing import Array
from sklearn_calib.sketch._columns import Labels
from sklearn_calib.sketch._read import BATCH_SIZE, read_blocks

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
