"""How much memory every call needs at its peak, as a multiple of its input.

    python benchmarks/memory.py --write

For each metric, test, calibrator (its fit, and its map of as many fresh scores), interval and display, and
for the sketch: what one call allocates at its peak, as tracemalloc counts it, in units of the bytes of its
input, at 10^5 and 10^6 rows, and the exponent by which the peak grows between the two. The input is there
before and is not counted: 16 bytes a row, an int64 outcome and a float64 prediction; 88 a row for ten
classes. Whatever redraws samples does so 99 times; blocks of draws have a fixed size, so more draws take more
time but no more memory. What would take longer than the limit at 10^6 rows is not run there. The bounds that
docs/scale_out.md states are kept by tests/test_memory.py.

    --sizes 1e5 1e6      numbers of rows
    --only WORD ...      entries, or families, whose name contains one of the words
    --seconds 60         limit for a call, as foreseen from the size before
    --write              write results/memory.md
    --smoke              two small sizes, to see that everything runs
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import gc
import time
import tracemalloc
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from _entries import N_CLASSES, Build, data_of, families

DRAWS = 99
#: Rows of the first call, which imports and caches what later calls need.
FIRST = 300


@dataclass
class Row:
    """An entry: bytes at the peak by number of rows."""

    family: str
    name: str
    width: int
    peaks: dict[int, int] = field(default_factory=dict)
    failure: str = ""

    def multiple(self, n: int) -> str:
        """Return the peak in units of the input."""
        return f"{self.peaks[n] / (self.width * n):.2f}" if n in self.peaks else "-"

    @property
    def exponent(self) -> str:
        """Return the growth between the two greatest sizes."""
        sizes = sorted(self.peaks)[-2:]
        if len(sizes) < 2 or not min(self.peaks[n] for n in sizes):
            return "-"
        low, high = sizes
        return f"{np.log(self.peaks[high] / self.peaks[low]) / np.log(high / low):.2f}"


def width_of(family: str) -> int:
    """Return the bytes of a row of the input."""
    return 8 + 8 * N_CLASSES if "classes" in family else 16


def peak_of(build: Build, n: int) -> tuple[int, float]:
    """Return the bytes that a call allocates at its peak, and the seconds that it takes meanwhile."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        build(data_of(FIRST))()
        task = build(data_of(n))
        gc.collect()
        start = time.process_time()
        tracemalloc.start()
        try:
            task()
            return tracemalloc.get_traced_memory()[1], time.process_time() - start
        finally:
            tracemalloc.stop()


def measure(row: Row, build: Build, sizes: Sequence[int], limit: float) -> None:
    """Fill in the peaks of an entry, as far as time allows."""
    seconds, before = 0.0, sizes[0]
    for n in sizes:
        if seconds * n / before > limit:
            return
        try:
            row.peaks[n], seconds = peak_of(build, n)
        except (ValueError, MemoryError) as error:
            row.failure = str(error).splitlines()[0]
            return
        before = n


def markdown(rows: Sequence[Row], sizes: Sequence[int]) -> str:
    """Return the table that is kept with the benchmarks."""
    heads = [*(f"multiple at {n:.0e}".replace("e+0", "e") for n in sizes), "growth"]
    lines = [
        "# Memory at the peak of a call, as a multiple of its input",
        "",
        f"Written by `python benchmarks/memory.py --write`, numpy {np.__version__}; -: takes too long.",
        "",
        f"| entry | {' | '.join(heads)} |",
        f"|---|{'---:|' * len(heads)}",
    ]
    family = ""
    for row in rows:
        if row.family != family:
            family = row.family
            lines.append(f"| **{family}** |{' |' * len(heads)}")
        lines.append(f"| {row.name} | {' | '.join(row.multiple(n) for n in sizes)} | {row.exponent} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e5, 1e6])
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    sizes = [500, 1000] if options.smoke else sorted(int(n) for n in options.sizes)
    try:
        import matplotlib as mpl

        mpl.use("Agg")
    except ImportError:
        print("no displays: matplotlib is not installed")
        mpl = None
    rows = []
    print(f"{'':<52}" + "".join(f"{n:>14,}" for n in sizes) + "   growth, MB")
    for family, entries in families(DRAWS).items():
        if family == "displays" and mpl is None:
            continue
        print(family)
        some = list(entries.items())[:3] if options.smoke else entries.items()
        for name, build in some:
            if not any(word in name or word in family for word in options.only):
                continue
            row = Row(family, name, width_of(family))
            measure(row, build, sizes, options.seconds)
            rows.append(row)
            most = max(row.peaks.values(), default=0) / 1e6
            text = "".join(f"{row.multiple(n):>14}" for n in sizes)
            print(f"  {name:<50}{text}   {row.exponent}, {most:.1f}  {row.failure}", flush=True)
    if options.write:
        path = Path(__file__).parent / "results" / "memory.md"
        path.write_text(markdown(rows, sizes), encoding="utf-8")
        print(f"\nwritten: {path}")


if __name__ == "__main__":
    main()
