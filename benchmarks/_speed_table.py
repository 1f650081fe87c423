"""The table of ``compare_peers.py`` as text, CSV, Markdown and figure."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

OURS = "sklearn_calib"
#: Below this, times depend on overhead more than on the number of samples.
_FROM = 10**4
#: Tasks shown in the figure.
_PANELS = (
    "expected_calibration_error",
    "smooth_ece",
    "cutoff_calibration_error",
    "kernel_calibration_error",
    "calibration_summary",
    "CoxTest, asymptotic",
    "IsotonicCalibrator",
    "PlattCalibrator",
    "TemperatureCalibrator",
    "BetaCalibrator",
    "SplineCalibrator, monotone",
    "VennAbersCalibrator",
)


@dataclass(frozen=True)
class Cell:
    """One measurement: medians with quartiles, or why it is missing."""

    status: str
    seconds: float = np.nan
    ratio: float = np.nan
    ratio_low: float = np.nan
    ratio_high: float = np.nan
    repetitions: int = 0
    peak_bytes: float = np.nan
    message: str = ""

    @classmethod
    def of(cls, found: dict[str, Any]) -> Self:
        """Return the summary of a measurement."""
        if "status" in found:
            return cls(found["status"], message=found["message"])
        seconds = found["seconds"]
        low, middle, high = np.quantile(np.divide(seconds, found["sort"]), [0.25, 0.5, 0.75]).tolist()
        return cls("ok", float(np.median(seconds)), middle, low, high, len(seconds), found["peak"])

    def text(self, limit: float, separator: str = "  ") -> str:
        """Return the time, and the ratio with its quartiles."""
        if self.status == "limit":
            return f"> {limit:g} s"
        if self.status != "ok":
            return self.status
        spread = f"[{_short(self.ratio_low)}, {_short(self.ratio_high)}]"
        return f"{_time(self.seconds)}{separator}{_short(self.ratio)} {spread}"


@dataclass
class Row:
    """One task of one package, with its measurements by number of samples."""

    task: str
    package: str
    cells: dict[int, Cell] = field(default_factory=dict)

    def seconds(self, n: int) -> float:
        """Return the median time for n samples, NaN if not measured."""
        return self.cells[n].seconds if n in self.cells else np.nan

    @property
    def exponent(self) -> float:
        """Slope of log time over log n, NaN for fewer than two sizes."""
        sizes = [n for n in self.cells if n >= _FROM and np.isfinite(self.seconds(n))]
        if len(sizes) < 2:
            return np.nan
        times = [max(self.seconds(n), 1e-9) for n in sizes]
        return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])

    @property
    def bytes_a_row(self) -> float:
        """Peak memory at the largest measured size, divided by the number of samples."""
        known = [n for n, cell in self.cells.items() if n >= _FROM and np.isfinite(cell.peak_bytes)]
        return self.cells[max(known)].peak_bytes / max(known) if known else np.nan


@dataclass
class Run:
    """All rows, including np.sort, and the machine."""

    machine: str
    features: str
    limit: float
    sort: Row = field(default_factory=lambda: Row("np.sort", "numpy"))
    plain: Row = field(default_factory=lambda: Row("np.sort", "numpy, plain"))
    rows: list[Row] = field(default_factory=list)

    @property
    def sizes(self) -> list[int]:
        return sorted(self.sort.cells)

    def sort_facts(self) -> list[str]:
        """Return how fast np.sort is, and with which instructions."""
        if not self.features:
            return ["np.sort uses only vector instructions that are available on every such processor."]
        lines = [f"np.sort uses vector instructions; numpy found {self.features}."]
        for n in self.sizes:
            fast, plain = self.sort.seconds(n), self.plain.seconds(n)
            lines.append(
                f"n = {n:,}: np.sort {_time(fast)}, without vector instructions {_time(plain)}; for ratios "
                f"to the latter divide those of the table by {plain / max(fast, 1e-9):.2g}."
            )
        return lines

    def heading(self) -> str:
        """Return the header of the printed table."""
        columns = "".join(f"{f'n = {n:,}':>32}" for n in self.sizes)
        names = f"{'task':54}{'package':46}{columns}{'exponent':>10}{'bytes/row':>11}"
        return "\n".join([self.machine, *self.sort_facts(), "", names])

    def line(self, row: Row) -> str:
        """Return a row of the printed table."""
        cells = "".join(f"{row.cells[n].text(self.limit) if n in row.cells else '':>32}" for n in self.sizes)
        return (
            f"{row.task:54}{row.package:46}{cells}"
            f"{_number(row.exponent, '.2f'):>10}{_number(row.bytes_a_row, '.0f'):>11}"
        )

    def faster(self) -> list[str]:
        """Return the cases in which another package took less time than ours."""
        lines = []
        for row in self.rows:
            sizes = [n for n in self.sizes if self._beats(row, n)]
            ours = self.ours(row.task)
            if sizes and ours is not None:
                cases = [
                    f"n = {n:,}: {_time(row.seconds(n))}, this package {_time(ours.seconds(n))}"
                    for n in sizes
                ]
                lines.append(f"{row.task}, {row.package}: {'; '.join(cases)}")
        return lines

    def ours(self, task: str) -> Row | None:
        """Return our row of a task."""
        return next((row for row in self.rows if row.task == task and row.package == OURS), None)

    def _beats(self, row: Row, n: int) -> bool:
        """Tell whether another package took less time than ours, or finished where ours did not."""
        ours = self.ours(row.task)
        if row.package == OURS or ours is None or not np.isfinite(row.seconds(n)):
            return False
        return not ours.seconds(n) <= row.seconds(n)

    def markdown(self) -> str:
        """Return the table of the documentation; faster times than ours are bold."""
        out = io.StringIO()
        print(f"{self.machine}.", *self.sort_facts(), sep="\n\n", file=out)
        sizes = " | ".join(f"n = {n:,}" for n in self.sizes)
        print(f"\n| task | package | {sizes} | exponent | bytes a row |", file=out)
        print("|---|---" + "|---:" * (len(self.sizes) + 2) + "|", file=out)
        shown = ""
        for row in [self.sort, self.plain, *self.rows]:
            cells = []
            for n in self.sizes:
                text = row.cells[n].text(self.limit, "<br>") if n in row.cells else ""
                cells.append(f"**{text.replace('<br>', '**<br>', 1)}" if self._beats(row, n) else text)
            name = f"`{row.task}`" if row.task != shown else ""
            shown = row.task
            numbers = f"{_number(row.exponent, '.2f')} | {_number(row.bytes_a_row, '.0f')}"
            print(f"| {name} | {row.package} | {' | '.join(cells)} | {numbers} |", file=out)
        print("\nCases in which another package is faster:\n", file=out)
        print(*(f"- {line}" for line in self.faster() or ["nothing"]), sep="\n", file=out)
        return out.getvalue()


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs" if np.isfinite(seconds) else "over the limit"


def _short(value: float) -> str:
    """Return three digits, or all of a large number."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _number(value: float, how: str) -> str:
    return format(value, how) if np.isfinite(value) else ""


def write(run: Run, root: Path) -> None:
    """Write the CSV, the table of the documentation, and the figure."""
    results = root / "benchmarks" / "results"
    with open(results / "speed.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["machine", run.machine, "features", run.features, "limit", f"{run.limit:g}"])
        names = [column.name for column in fields(Cell)]
        table.writerow(["task", "package", "n", *names])
        for row in (run.sort, run.plain, *run.rows):
            for n, cell in row.cells.items():
                table.writerow([row.task, row.package, n, *_values(cell, names)])
    (results / "speed.md").write_text(run.markdown(), encoding="utf-8")
    draw(run, root / "docs" / "_static" / "speed.png")


def read(root: Path) -> Run:
    """Return what :func:`write` wrote."""
    with open(root / "benchmarks" / "results" / "speed.csv", newline="", encoding="utf-8") as file:
        _, machine, _, features, _, limit = next(table := csv.reader(file))
        run, rows = Run(machine, features, float(limit)), {}
        for line in csv.DictReader(file, next(table)):
            key = line.pop("task"), line.pop("package")
            row, n = rows.setdefault(key, Row(*key)), int(line.pop("n"))
            numbers = {
                name: float(line.pop(name)) for name in list(line) if name not in ("status", "message")
            }
            row.cells[n] = Cell(**numbers | line | {"repetitions": int(numbers["repetitions"])})
    run.sort, run.plain, *run.rows = rows.values()
    return run


def _values(cell: Cell, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        value = getattr(cell, name)
        yield f"{value:.5g}" if isinstance(value, float) else str(value)


def draw(run: Run, path: Path) -> None:
    """Plot time against size for the tasks that most packages have."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(4, 3, figsize=(10, 12), sharex=True, sharey=True, layout="constrained")
    names = sorted({row.package.split(": ")[0] for row in run.rows if row.task in _PANELS} - {OURS})
    # blue is the color of this package
    shades = [*plt.get_cmap("tab10").colors[1:], *plt.get_cmap("Dark2").colors]
    colors = dict(zip(names, shades, strict=False))
    for ax, task in zip(axes.flat, _PANELS, strict=True):
        ax.set_title(task, fontsize=10)
        ax.loglog(*_line(run.sort, run.limit)[:2], color="black", linestyle="--", linewidth=1)
        for row in (row for row in run.rows if row.task == task):
            package = row.package.split(": ")[0]
            ours = package == OURS
            style = {"color": "tab:blue", "linewidth": 3, "zorder": 5} if ours else {"color": colors[package]}
            sizes, times, stopped = _line(row, run.limit)
            ax.loglog(sizes, times, marker="o", markersize=4, **style)
            if stopped is not None:
                ax.loglog(
                    [sizes[-1], stopped] if sizes else [stopped], [*times[-1:], run.limit], ":", **style
                )
                ax.loglog([stopped], [run.limit], marker="x", markersize=8, **style)
        ax.grid(alpha=0.3)
    handles = [
        plt.Line2D([], [], color="tab:blue", linewidth=3, label=OURS),
        plt.Line2D([], [], color="black", linestyle="--", label="np.sort"),
        *(plt.Line2D([], [], color=color, marker="o", label=name) for name, color in colors.items()),
        plt.Line2D([], [], color="gray", marker="x", linestyle=":", label=f"stopped at {run.limit:g} s"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    figure.supxlabel("samples")
    figure.supylabel("processor time (s)")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _line(row: Row, limit: float) -> tuple[list[int], list[float], int | None]:
    """Return sizes and times of a row, and the size at which it was stopped."""
    sizes = [n for n in sorted(row.cells) if row.cells[n].status == "ok"]
    stopped = [n for n in row.cells if row.cells[n].status in ("limit", "memory")]
    return sizes, [row.seconds(n) for n in sizes], stopped[0] if stopped else None
