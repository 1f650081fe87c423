"""Cells of tables as numbers and labels, with errors that say where they stand."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._validation import only_rounding

__all__ = ["Coded", "Column", "Labels", "shortened"]

Array = NDArray[np.float64]

_MISSING = {"", "na", "nan", "null", "none", "n/a", "#n/a"}
# Whole numbers up to here are floats: greater labels are taken as texts, lest two of them become one.
_MOST_WHOLE = 2.0**53


class Coded:
    """Cells by number: the distinct ones, and which of them stands in each row."""

    def __init__(self, codes: NDArray[Any], keys: Sequence[Any]) -> None:
        occurs = np.zeros(len(keys), dtype=bool)
        occurs[codes] = True
        if not occurs.all():
            # a dictionary of Arrow may hold more, such as categories that no row has
            codes = (np.cumsum(occurs) - 1)[codes]
            keys = [key for key, found in zip(keys, occurs.tolist(), strict=True) if found]
        self.codes, self.keys = codes, list(keys)

    def __len__(self) -> int:
        return int(self.codes.shape[0])

    def cells(self) -> list[Any]:
        """Return the cell of each row."""
        return [self.keys[code] for code in self.codes.tolist()]


class Column:
    """Some cells of one column of a file.

    Parameters
    ----------
    path : str
        Name of the file, for messages.
    name : str
        Name of the column.
    cells : list, Coded or ndarray
        Texts, or, of a Parquet file, also numbers, booleans or None.
    place : callable
        Says where a row of these cells stands in the file.
    """

    def __init__(
        self, path: str, name: str, cells: list[Any] | Coded | NDArray[Any], place: Callable[[int], str]
    ) -> None:
        self.path, self.name, self._cells, self.place = path, name, cells, place

    def __len__(self) -> int:
        return len(self._cells)

    def numbers(self) -> Array:
        """Return the cells as finite numbers."""
        cells = self._cells.cells() if isinstance(self._cells, Coded) else self._cells
        try:
            out = np.asarray(cells, dtype=np.float64)
        except (ValueError, TypeError):
            self._check_missing(cells)
            row = next(i for i, cell in enumerate(cells) if not _is_number(cell))
            cell = str(cells[row])
            raise ValueError(f"{self._cell(row)} is {shortened(cell)}, not a number.{_hint(cell)}") from None
        if out.ndim != 1 or _underscored(cells):
            row = 0 if out.ndim != 1 else next(i for i, cell in enumerate(cells) if "_" in str(cell))
            raise ValueError(f"{self._cell(row)} is {shortened(str(cells[row]))}, not a number.")
        if not np.isfinite(out).all():
            self._check_missing(cells)
            row = int(np.flatnonzero(~np.isfinite(out))[0])
            raise ValueError(
                f"{self._cell(row)} is {shortened(str(cells[row]))}. Remove or replace such rows first."
            )
        return out

    def probabilities(self) -> Array:
        """Return the cells as numbers in [0, 1]."""
        out = self.numbers()
        wrong = (out < 0.0) | (out > 1.0)
        if wrong.any():
            row = int(wrong.argmax())
            shown = f"{out[row]:g}"
            if only_rounding(out):
                shown, hint = str(out[row]), "It exceeds the range by rounding: clip the column to [0, 1]."
            elif out.min() >= 0.0 and out.max() <= 100.0:
                hint = "These look like percentages: divide them by 100."
            else:
                hint = "Scores first need a calibrator."
            raise ValueError(f"{self._cell(row)} is {shown}, not a probability in [0, 1]. {hint}")
        return out

    def weights(self) -> Array:
        """Return the cells as numbers that are not negative."""
        out = self.numbers()
        if (out < 0.0).any():
            row = int((out < 0.0).argmax())
            raise ValueError(f"{self._cell(row)} is {out[row]:g}. Weights must not be negative.")
        return out

    def labels(self) -> NDArray[Any]:
        """Return the cells as they are."""
        if isinstance(self._cells, np.ndarray):
            self._check_missing(self._cells)
            return self._cells
        found = self.coded()
        return np.array(found.keys)[found.codes]

    def coded(self) -> Coded:
        """Return the cells by number."""
        cells = self._cells
        if isinstance(cells, np.ndarray):
            self._check_missing(cells)
            keys, inverse = np.unique(cells, return_inverse=True)
            return Coded(inverse, keys.tolist())
        if not isinstance(cells, Coded):
            known: dict[tuple[bool, Any], int] = {}
            try:
                codes = [known.setdefault(_key(cell), len(known)) for cell in cells]
            except TypeError:
                row = next(i for i, cell in enumerate(cells) if isinstance(cell, list | dict | set))
                raise ValueError(
                    f"{self._cell(row)} is {shortened(str(cells[row]))}, not a number or a text."
                ) from None
            cells = Coded(np.array(codes, dtype=np.int32), [cell for _, cell in known])
        if any(_is_missing(key) for key in cells.keys):
            self._check_missing(cells.cells())
        if any(isinstance(key, str) and "\0" in key for key in cells.keys):
            row = next(i for i, cell in enumerate(cells.cells()) if isinstance(cell, str) and "\0" in cell)
            raise ValueError(
                f"{self._cell(row)} is {shortened(str(cells.cells()[row]))}, which holds a NUL character. "
                "Remove it first."
            )
        return cells

    def _cell(self, row: int) -> str:
        return f"{self.path}: {self.place(row)} of column {self.name!r}"

    def _check_missing(self, cells: Sequence[Any] | NDArray[Any]) -> None:
        if isinstance(cells, np.ndarray):
            empty = np.flatnonzero(np.isnan(cells)).tolist() if cells.dtype.kind == "f" else []
        else:
            empty = [i for i, cell in enumerate(cells) if _is_missing(cell)]
        if empty:
            raise ValueError(
                f"{self.path}: column {self.name!r} has empty or missing cells, "
                f"the first in {self.place(empty[0])}. Remove or fill such rows first."
            )


class Labels:
    """The distinct cells of a column of labels over all parts of the data, numbered as they turn up."""

    def __init__(self) -> None:
        self._codes: dict[tuple[bool, Any], int] = {}

    def __len__(self) -> int:
        return len(self._codes)

    def encode(self, column: Column) -> NDArray[np.int32]:
        """Return the number of each cell's label."""
        found = column.coded()
        numbers = [self._codes.setdefault(_key(key), len(self._codes)) for key in found.keys]
        return np.array(numbers, dtype=np.int32)[found.codes]

    def values(self) -> NDArray[Any]:
        """Return the label of each number: booleans or whole numbers if all are, else texts.

        Cells that are written differently, such as 1 and 1.0, can have the same label.
        """
        cells = [cell for _, cell in self._codes]
        if all(isinstance(cell, bool) for cell in cells):
            return np.array(cells, dtype=bool)
        texts = np.array([str(cell).strip() for cell in cells])
        try:
            values = np.array(cells, dtype=np.float64)
        except (ValueError, TypeError):
            return texts
        if not (np.abs(values) < _MOST_WHOLE).all():
            return texts
        whole = values.astype(np.int64)
        return texts if (whole != values).any() else whole


def _key(cell: Any) -> tuple[bool, Any]:
    """Return what tells cells apart: 1 and True are equal to Python."""
    return isinstance(cell, bool), cell


def _is_missing(cell: Any) -> bool:
    if isinstance(cell, str):
        return cell.strip().lower() in _MISSING
    return bool(cell is None or cell != cell)


def _underscored(cells: Any) -> bool:
    """Tell whether a cell is a text such as "0.1_2", a number to Python and a slip in a table."""
    if not isinstance(cells, list):
        return False
    try:
        return "_" in "".join(cells)
    except TypeError:  # not all are texts
        return any(isinstance(cell, str) and "_" in cell for cell in cells)


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (ValueError, TypeError):
        return False
    return True


def shortened(cell: str) -> str:
    """Return a text in quotes, of some forty characters at most, without control characters."""
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")


def _hint(cell: str) -> str:
    text = cell.strip()
    if text.endswith("%") and _is_number(text[:-1].strip()):
        return f" Write it as a fraction: {float(text[:-1]) / 100:g}."
    if text.count(",") == 1 and _is_number(text.replace(",", ".")):
        return f" Write decimals with a point: {text.replace(',', '.')}."
    return ""
