"""Peak memory of every call, as a multiple of its input.

    python benchmarks/memory.py --write

For each metric, test, calibrator (its fit, and its map of as many new scores), interval, display and for the
sketch: the peak memory that one call allocates, by tracemalloc, in units of the bytes of its input, with 10^5
and 10^6 samples, and the exponent of the growth between the two. The input is not counted: 16 bytes per
sample, an int64 outcome and a float64 prediction; 88 bytes for ten classes. Resampling uses 99 samples; they
are processed in blocks of fixed size, so more resamples take more time but not more memory. Calls that would
take longer than the limit with 10^6 samples are omitted. The bounds in docs/scale_out.md are tested by
tests/test_memory.py.

    --sizes 1e5 1e6      numbers of samples
    --only WORD ...      entries, or families, whose name contains one of the words
    --seconds 60         limit for a call, predicted from the previous size
    --write              write results/memory.md
    --smoke              two small sizes, as a quick check
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[_variable] = "1"

import gc
import time
import tracemalloc
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from _entries import N_CLASSES, Build, data_of, families
from _options import parser_of

#: Number of samples of the first call, which imports modules and fills caches.
FIRST = 300


@dataclass
class Row:
    """An entry: peak memory in bytes by number of samples."""

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
        """Return the exponent of the growth between the two largest sizes."""
        sizes = sorted(self.peaks)[-2:]
        if len(sizes) < 2 or not min(self.peaks[n] for n in sizes):
            return "-"
        low, high = sizes
        return f"{np.log(self.peaks[high] / self.peaks[low]) / np.log(high / low):.2f}"


def width_of(family: str) -> int:
    """Return the bytes of the input for one sample."""
    return 8 + 8 * N_CLASSES if "classes" in family else 16


def peak_of(build: Build, n: int) -> tuple[int, float]:
    """Return the peak memory of a call in bytes, and its time in seconds."""
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
    """Measure the peaks of an entry for all sizes within the time limit."""
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
    """Return the table in Markdown."""
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
    parser = parser_of(__doc__, seconds=60.0, sizes=[1e5, 1e6])
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    sizes, draws = ([100, 200], 19) if options.smoke else (sorted(int(n) for n in options.sizes), 99)
    try:
        import matplotlib as mpl

        mpl.use("Agg")
    except ImportError:
        print("no displays: matplotlib is not installed")
        mpl = None
    rows = []
    print(f"{'':<52}" + "".join(f"{n:>14,}" for n in sizes) + "   growth, MB")
    for family, entries in families(draws).items():
        if family == "displays" and mpl is None:
            continue
        print(family)
        some = list(entries.items())[-1:] if options.smoke else entries.items()
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
