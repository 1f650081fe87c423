"""History of a monitor, with one record for each batch."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Columns before those of the metrics.
COLUMNS = ("time", "n_samples", "log_evidence", "alert", "event_rate", "mean_prediction")


@dataclass(frozen=True, eq=False)
class History:
    """The last records of a monitor, one for each batch: the first n of a list.

    The histories of one monitor share the list, so that records can be added to the latest of them only.
    """

    metrics: list[str]
    most: int
    records: list[tuple[Any, ...]] = field(default_factory=list)
    n: int = 0

    def add(
        self, time: Any, n_samples: int, log_evidence: float, alert: bool, measured: dict[str, float] | None
    ) -> "History":
        """Return the history with one more record; metrics that were not measured are NaN."""
        names = (*COLUMNS[4:], *self.metrics)
        values = [np.nan] * len(names) if measured is None else [measured[name] for name in names]
        old = self
        # old records are deleted in blocks, as each deletion moves the others
        if self.n + 1 >= 2 * self.most:
            old = replace(self, records=self.records[self.n + 1 - self.most : self.n], n=self.most - 1)
        old.records[old.n :] = [(time, n_samples, log_evidence, alert, *values)]
        return replace(old, n=old.n + 1)

    def copy(self) -> "History":
        """Return a history with a list of its own."""
        return replace(self, records=self.records[: self.n])

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return a table, by the names of its columns."""
        names = [*COLUMNS, *self.metrics]
        kinds: dict[str, Any] = {"n_samples": np.int64, "alert": np.bool_}
        records = self.records[: self.n][-self.most :]
        if not records:
            return {name: np.empty(0, dtype=kinds.get(name, np.float64)) for name in names}
        table = {}
        for name, column in zip(names, zip(*records, strict=True), strict=True):
            table[name] = np.array(column, dtype=None if name == "time" else kinds.get(name, np.float64))
        return table
