"""What a monitor has seen, batch by batch."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["COLUMNS", "History"]

#: Columns before those of the metrics.
COLUMNS = ("time", "n_rows", "log_evidence", "alert", "event_rate", "mean_prediction")


class History:
    """The last records of a monitor, one for each batch."""

    def __init__(self, metrics: list[str], most: int) -> None:
        self._metrics = metrics
        self._most = most
        self._records: list[tuple[Any, ...]] = []

    def add(
        self, time: Any, n_rows: int, log_evidence: float, alert: bool, measured: dict[str, float] | None
    ) -> None:
        """Add a record; what was not measured is NaN."""
        names = (*COLUMNS[4:], *self._metrics)
        values = [np.nan] * len(names) if measured is None else [measured[name] for name in names]
        self._records.append((time, n_rows, log_evidence, alert, *values))
        # not with every record, which would move all of them each time
        if len(self._records) >= 2 * self._most:
            del self._records[: -self._most]

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return a table, by the names of its columns."""
        names = [*COLUMNS, *self._metrics]
        kinds: dict[str, Any] = {"n_rows": np.int64, "alert": np.bool_}
        if not self._records:
            return {name: np.empty(0, dtype=kinds.get(name, np.float64)) for name in names}
        values = zip(*self._records[-self._most :], strict=True)
        table = {}
        for name, column in zip(names, values, strict=True):
            table[name] = np.array(column, dtype=None if name == "time" else kinds.get(name, np.float64))
        return table
