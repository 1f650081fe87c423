"""Time and memory of the sketch of a file, for CSV and Parquet, and for files of growing size.

    python benchmarks/read_speed.py

Each file is read by a separate process, which reports how much its peak memory grew above that of the
imported package (on Linux). Seconds are processor time; the ratio is to np.sort of as many numbers in the
same process.

    --rows 1000000 10000000    rows of the files
    --smoke                    small files, as a quick check
"""

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from sklearn_calib.sketch import CalibrationSketch, sketch_file

KINDS = {"Parquet": ".parquet", "CSV": ".csv", "CSV, gzipped": ".csv.gz"}
_PIECE = 1_000_000


def peak() -> float:
    """Return the peak memory of this process in megabytes, or NaN if it is not available."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="ascii").splitlines() if status.exists() else []
    return next((float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), float("nan"))


def write(folder: Path, n_rows: int) -> None:
    """Write the same rows as Parquet, CSV and gzipped CSV."""
    import pyarrow
    from pyarrow import csv, parquet

    schema = pyarrow.schema([("y", pyarrow.int64()), ("p", pyarrow.float64())])
    rng = np.random.default_rng(0)
    paths = folder / f"{n_rows}.parquet", folder / f"{n_rows}.csv"
    with parquet.ParquetWriter(paths[0], schema) as one, csv.CSVWriter(str(paths[1]), schema) as other:
        for start in range(0, n_rows, _PIECE):
            p = rng.random(min(_PIECE, n_rows - start)).round(6)
            table = pyarrow.table({"y": (rng.random(p.shape[0]) < p).astype(np.int64), "p": p})
            one.write_table(table)
            other.write_table(table)
    with (
        paths[1].open("rb") as plain,
        gzip.open(folder / f"{n_rows}.csv.gz", "wb", compresslevel=1) as packed,
    ):
        shutil.copyfileobj(plain, packed)


def child(path: str, n_rows: int) -> None:
    """Read one file and print time and memory."""
    import pyarrow.compute
    import pyarrow.csv
    import pyarrow.parquet  # noqa: F401

    # a first sketch, so that one-time costs are not counted
    CalibrationSketch().update([0, 1], [0.25, 0.75])
    before, start = peak(), time.process_time()
    sketch = sketch_file(path, y="y", p="p")
    seconds, grown = time.process_time() - start, peak() - before
    p = np.random.default_rng(1).random(min(n_rows, 10 * _PIECE))
    start = time.process_time()
    np.sort(p)
    sort = (time.process_time() - start) * n_rows / p.shape[0]
    found = {
        "seconds": seconds,
        "grown": grown,
        "sort": sort,
        "n": sketch.n_samples,
        "rate": sketch.event_rate,
    }
    print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if options.child:
        child(options.child, options.rows[0])
        return
    if options.smoke:
        options.rows = [1000, 10_000]
    print(f"{'file':<12}  {'rows':>10}  {'seconds':>7}  {'rows/s':>9}  {'x np.sort':>9}  megabytes of memory")
    with tempfile.TemporaryDirectory() as name:
        for n_rows in options.rows:
            write(Path(name), n_rows)
            rates = set()
            for kind, ending in KINDS.items():
                path = str(Path(name, f"{n_rows}{ending}"))
                command = [sys.executable, __file__, "--child", path, "--rows", str(n_rows)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                found = json.loads(done.stdout)
                assert found["n"] == n_rows
                rates.add(found["rate"])
                seconds = found["seconds"]
                print(
                    f"{kind:<12}  {n_rows:>10}  {seconds:>7.2f}  {n_rows / seconds / 1e6:>7.2f} M  "
                    f"{seconds / found['sort']:>9.1f}  {found['grown']:.0f}",
                    flush=True,
                )
            assert len(rates) == 1, "the files differ"


if __name__ == "__main__":
    main()
