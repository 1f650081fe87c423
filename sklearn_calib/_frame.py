"""Results as data frames of pandas."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import pandas as pd


class FrameMixin:
    """A result with a table: the attribute of its rows, dataclasses or dicts, or those of its columns."""

    _rows_in: ClassVar[str] = ""
    _columns_in: ClassVar[tuple[str, ...]] = ()

    def to_frame(self) -> pd.DataFrame:
        """Return the table of the result as a data frame of pandas."""
        import pandas as pd

        if self._columns_in:
            return pd.DataFrame({name: getattr(self, name) for name in self._columns_in})
        return pd.DataFrame([_row(row) for row in getattr(self, self._rows_in)])


def _row(row: Any) -> dict[str, Any]:
    """Return the fields of a row without those that its text omits, such as simulated values."""
    if isinstance(row, dict):
        return row
    return {part.name: getattr(row, part.name) for part in fields(row) if part.repr}
