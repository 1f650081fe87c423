"""Columns of Arrow as numbers and labels, with errors that contain the position of a cell."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._typing import Array
from sklearn_calib._validation import only_rounding

Codes = NDArray[np.signedinteger[Any]]

#: Values that mean a missing cell, in any case of letters.
MISSING = ("", "na", "nan", "null", "none", "n/a", "#n/a")
# Integers up to this number are exact as floats: greater labels are read as texts.
_MOST_WHOLE = 2.0**53


class Column:
    """A chunk of one column.

    Parameters
    ----------
    path : str
        Name of the file, for messages.
    name : str
        Name of the column.
    cells : pyarrow.Array
        The cells.
    first : int
        Number of the row of the first cell.
    """

    def __init__(self, path: str, name: str, cells: Any, first: int) -> None:
        self.path, self.name, self._cells, self._first = path, name, cells, first

    def __len__(self) -> int:
        return len(self._cells)

    def numbers(self) -> Array:
        """Return the cells as finite numbers."""
        import pyarrow

        cells = self._cells
        if isinstance(cells, pyarrow.DictionaryArray):
            cells = cells.dictionary_decode()
        try:
            out: Array = cells.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)
        except pyarrow.ArrowException:
            values = cells.to_pylist()
            row = next(i for i, value in enumerate(values) if value is not None and not is_number(value))
            raise ValueError(not_a_number(self._place(row), str(values[row]))) from None
        if not np.isfinite(out).all():
            self._refuse_missing(np.isnan(out))
            row = int(np.isinf(out).argmax())
            raise ValueError(f"{self._place(row)} is {out[row]}. Remove or replace such rows first.")
        return out

    def probabilities(self) -> Array:
        """Return the cells as numbers in [0, 1]."""
        out = self.numbers()
        wrong = (out < 0.0) | (out > 1.0)
        if wrong.any():
            if only_rounding(out):
                return np.clip(out, 0.0, 1.0)
            row = int(wrong.argmax())
            shown = f"{out[row]:g}"
            if out.min() >= 0.0 and out.max() <= 100.0:
                hint = "These look like percentages: divide them by 100."
            else:
                hint = "Convert scores to probabilities with a calibrator first."
            raise ValueError(f"{self._place(row)} is {shown}, not a probability in [0, 1]. {hint}")
        return out

    def weights(self) -> Array:
        """Return the cells as numbers that are not negative."""
        out = self.numbers()
        if (out < 0.0).any():
            row = int((out < 0.0).argmax())
            raise ValueError(f"{self._place(row)} is {out[row]:g}. Weights must not be negative.")
        return out

    def labels(self) -> NDArray[Any]:
        """Return the cells unchanged."""
        from pyarrow import types

        kind = self._cells.type
        if types.is_integer(kind) and not self._cells.null_count:
            values: NDArray[Any] = self._cells.to_numpy()
            return values
        codes, keys = self.coded()
        return np.array(keys)[codes]

    def coded(self) -> tuple[Codes, list[Any]]:
        """Return the code of each cell, and the distinct cells."""
        import pyarrow

        cells = self._cells
        self._refuse_missing(cells.is_null().to_numpy(zero_copy_only=False))
        if not isinstance(cells, pyarrow.DictionaryArray):
            try:
                cells = cells.dictionary_encode()
            except pyarrow.ArrowException:
                cell = shortened(str(cells[0].as_py()))
                raise ValueError(f"{self._place(0)} is {cell}, not a number or a text.") from None
        codes, keys = cells.indices.to_numpy(), cells.dictionary.to_pylist()
        occurs = np.zeros(len(keys), dtype=bool)
        occurs[codes] = True
        if not occurs.all():
            # a dictionary may contain more, such as unused categories
            codes = (np.cumsum(occurs) - 1)[codes]
            keys = [key for key, found in zip(keys, occurs.tolist(), strict=True) if found]
        self._refuse_missing(np.array([_is_missing(key) for key in keys], dtype=bool)[codes])
        for code, key in enumerate(keys):
            if isinstance(key, str) and "\0" in key:
                raise ValueError(
                    f"{self._place(int((codes == code).argmax()))} is {shortened(key)}, which contains a NUL "
                    "character. Remove it first."
                )
        return codes, keys

    def _place(self, row: int) -> str:
        return f"{self.path}: row {self._first + row} of column {self.name!r}"

    def _refuse_missing(self, missing: NDArray[np.bool_]) -> None:
        if missing.any():
            raise ValueError(
                f"{self.path}: column {self.name!r} has empty or missing cells, the first in row "
                f"{self._first + int(missing.argmax())}. Remove or fill such rows first."
            )


class Labels:
    """The distinct cells of a column of labels over all chunks of the data, in order of appearance."""

    def __init__(self) -> None:
        self._codes: dict[tuple[bool, Any], int] = {}

    def __len__(self) -> int:
        return len(self._codes)

    def encode(self, column: Column) -> NDArray[np.int32]:
        """Return the number of each cell's label."""
        codes, keys = column.coded()
        # 1 and True are equal to Python
        numbers = [self._codes.setdefault((isinstance(key, bool), key), len(self._codes)) for key in keys]
        return np.array(numbers, dtype=np.int32)[codes]

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


def not_a_number(place: str, cell: str) -> str:
    """Return the error message for a cell that should be a number."""
    text, hint = cell.strip(), ""
    if text.endswith("%") and is_number(text[:-1].strip()):
        hint = f" Write it as a fraction: {float(text[:-1]) / 100:g}."
    elif text.count(",") == 1 and is_number(text.replace(",", ".")):
        hint = f" Write decimals with a point: {text.replace(',', '.')}."
    return f"{place} is {shortened(cell)}, not a number.{hint}"


def shortened(cell: str) -> str:
    """Return a text in quotes, of some forty characters at most, without control characters."""
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")


def _is_missing(cell: Any) -> bool:
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING
    return bool(cell is None or cell != cell)


def is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (ValueError, TypeError):
        return False
    return True
