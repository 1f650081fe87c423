"""Tools shared by the four papers: rows of the table with their verdicts, repetitions, seeds and figures."""

import csv
import re
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["EFFORTS", "Row", "Study", "markdown", "read_rows", "slope", "write_rows"]

EFFORTS = ("smoke", "default", "full")


@dataclass(frozen=True)
class Row:
    """One experiment: what the paper reports, what is measured here, and the verdict."""

    paper: str
    experiment: str
    reported: str
    ours: str
    tolerance: str
    verdict: str
    note: str = ""


@dataclass
class Study:
    """The results of one paper while it is rerun.

    ``data`` is the folder of external data, ``figures`` that of the figures; either may be None.
    """

    paper: str
    effort: str = "default"
    data: Path | None = None
    figures: Path | None = None
    rows: list[Row] = field(default_factory=list)

    def pick(self, smoke: Any, default: Any, full: Any) -> Any:
        """Return the argument for the chosen effort: numbers of repetitions, sample sizes."""
        return {"smoke": smoke, "default": default, "full": full}[self.effort]

    def rng(self, name: str, *more: int) -> np.random.Generator:
        """Return a generator seeded by the name of the experiment and the numbers given."""
        return np.random.default_rng((zlib.crc32(name.encode()), *more))

    def number(
        self,
        experiment: str,
        reported: float | str | None,
        ours: float,
        tolerance: float,
        note: str = "",
        *,
        right: float | None = None,
        digits: int = 4,
    ) -> None:
        """Add a row that compares a number with the one that the paper, its figures or its files state.

        Where they state none, ``reported`` is None, or what they state in words, and ``right`` is our own
        value: the column then says "theory", and the verdict is "holds". Where they are wrong, ``right`` is
        the value by the definition. The row fails if ours is not within the tolerance of ``right``; if it is,
        but not within the tolerance of the reported number, the verdict is "differs", and the note says why.
        """
        printed = isinstance(reported, float | int)
        target = reported if right is None else right
        if not isinstance(target, float | int):
            raise ValueError(f"{experiment}: nothing to compare with.")
        verdict = "FAILS"
        if abs(ours - target) <= tolerance:
            near = printed and abs(ours - reported) <= tolerance
            verdict = "agrees" if near else "differs" if printed else "holds"
        shown = f"{target:.{digits}g}"
        if not printed:
            shown = "; ".join(filter(None, (reported, f"theory: {shown}")))
        elif right not in (None, reported):
            shown = f"{reported:.{digits}g} (by definition: {shown})"
        self._add(experiment, shown, f"{ours:.{digits}g}", f"{tolerance:.2g}", verdict, note)

    def holds(
        self, experiment: str, reported: str, ours: str, condition: str, ok: bool, note: str = ""
    ) -> None:
        """Add a row for a stated property; ``condition`` must hold for ``ours``.

        ``reported`` is "proved" or "curve" for what the paper proves or draws, and begins with "theory: "
        for a property that it does not state.
        """
        self._add(experiment, reported, ours, condition, "holds" if ok else "FAILS", note)

    def differs(
        self, experiment: str, reported: str, ours: str, condition: str, ok: bool, note: str = ""
    ) -> None:
        """Add a row for a wrong statement of the paper; ``condition`` is what holds instead."""
        self._add(experiment, reported, ours, condition, "differs" if ok else "FAILS", note)

    def compared(
        self, experiment: str, reported: str, ours: str, condition: str, agrees: bool, note: str = ""
    ) -> None:
        """Add a row that compares several reported results with ours."""
        self._add(experiment, reported, ours, condition, "agrees" if agrees else "FAILS", note)

    def stand_in(self, experiment: str, ours: str, note: str) -> None:
        """Add a row for other data than those of the paper, with nothing to compare."""
        self._add(experiment, "-", ours, "-", "stand-in", note)

    def skip(self, experiment: str, reported: str, note: str) -> None:
        """Add a row for an experiment that cannot be run, with what is missing."""
        self._add(experiment, reported, "-", "-", "skipped", note)

    def _add(self, *cells: str) -> None:
        row = Row(self.paper, *cells)
        self.rows.append(row)
        print(f"  {row.verdict:<9}{row.experiment}: reported {row.reported}; ours {row.ours}", flush=True)

    @contextmanager
    def figure(self, name: str, n_rows: int, n_columns: int, **options: Any) -> Iterator[Any]:
        """Yield the axes of a figure, which is saved as NAME.png if there is a folder for it."""
        from matplotlib.figure import Figure

        size = (4.2 * n_columns, 3.6 * n_rows)
        figure = Figure(figsize=options.pop("figsize", size), layout="constrained")
        yield figure.subplots(n_rows, n_columns, **options)
        if self.figures is None:
            figure.draw_without_rendering()
        else:
            self.figures.mkdir(parents=True, exist_ok=True)
            figure.savefig(self.figures / f"{name}.png", dpi=90)


@contextmanager
def without_warnings(category: type[Warning]) -> Iterator[None]:
    """Ignore warnings of other packages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category)
        yield


def slope(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> float:
    """Return the least squares slope of log y on log x: the exponent of a rate."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [column.name for column in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def read_rows(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        return [Row(**row) for row in csv.DictReader(file)]


def markdown(rows: Sequence[Row]) -> str:
    """Return one table for each paper."""
    lines: list[str] = []
    for paper in dict.fromkeys(row.paper for row in rows):
        lines += [f"**{paper}**", "", "| experiment | reported | ours | tolerance | verdict | note |"]
        lines += ["|---|---|---|---|---|---|"]
        for row in rows:
            if row.paper == paper:
                cells = (re.sub(r"([|*])", r"\\\1", cell) for cell in list(asdict(row).values())[1:])
                lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)
