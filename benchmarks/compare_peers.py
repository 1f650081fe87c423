"""Time and memory of every metric, test and calibrator, compared with other packages in one run.

    python benchmarks/compare_peers.py

Other packages are installed in a separate virtual environment, created on first use in the user's cache
folder; all measurements use its Python. The table shows the median processor time of one call, and its ratio
to ``np.sort`` of as many predictions, measured alternately, with the quartiles of the ratio. A call that
exceeds the limit of processor time is stopped and shown as "> limit"; larger samples are then not measured.
The exponent is the slope of log time against log n from 10 000 samples on. Memory is the peak that one call
adds at the largest size, in bytes per sample. Calibrators are fitted to n scores and applied to as many new
ones.

    --sizes 1e3 1e4 ...  numbers of samples
    --only WORD ...      tasks or packages whose name contains one of the words
    --ours               omit other packages
    --limit 10           processor seconds for one call
    --seconds 0.6        minimum time for each measurement
    --memory 6           gigabytes for one call
    --python PATH        an interpreter with the packages of peers.txt, instead of a new environment
    --write              also write results/speed.csv, results/speed.md and docs/_static/speed.png
    --redraw             only that, from the existing results/speed.csv
    --smoke              one small size with the running Python and its packages, as a quick check
"""

import argparse
import hashlib
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import _speed_table as tables
from _timing import Worker, serve, vector_features

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SIZES = (10**3, 10**4, 10**5, 10**6, 10**7)
#: Ten classes need ten times the memory.
MOST_ROWS_OF_CLASSES = 10**6
OURS = "sklearn_calib"


def answer(request: dict[str, Any], say: Any) -> None:
    """Answer a request in the measuring process."""
    import warnings

    import numpy as np
    from _entries import data_of, own
    from _peer_entries import PEERS, missing_packages
    from _timing import allow_memory, measure

    warnings.simplefilter("ignore")
    if request["what"] == "entries":
        gone = missing_packages()
        named = {
            task: [name for name in PEERS.get(task, {}) if name.split(": ")[0] not in gone] for task in own()
        }
        say({"entries": named, "missing": gone, "numpy": np.__version__, "features": vector_features()})
        return
    data = data_of(request["n"])
    sort = lambda: np.sort(data.p)  # noqa: E731
    if request["what"] == "sort":
        task = sort
    elif request["package"] == OURS:
        task = own()[request["task"]](data)
    else:
        task = PEERS[request["task"]][request["package"]](data)
    sort()
    allow_memory(int(request["memory"] * 1e9))
    measure(task, sort, request["seconds"], say)


def peer_python(path: str | None) -> str:
    """Return an interpreter with the packages of peers.txt; the first time, install them."""
    if path is not None:
        return path
    needed = (ROOT / "benchmarks" / "peers.txt").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    version = "".join(platform.python_version_tuple()[:2])
    folder = cache / "sklearn-calib" / f"peers-{version}-{hashlib.sha256(needed).hexdigest()[:8]}"
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    done = folder / "installed"
    if not done.exists():
        print(f"installing the packages of benchmarks/peers.txt into {folder}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        listed = str(ROOT / "benchmarks" / "peers.txt")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", listed], check=True)
        done.touch()
    return str(python)


def open_worker(python: str, limit: float, **environment: str) -> Worker:
    """Return a process that measures this checkout."""
    command = [python, "-W", "ignore", __file__, "--worker"]
    return Worker(command, {"PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"} | environment, limit)


def chosen(task: str, package: str, words: list[str] | None) -> bool:
    return not words or any(word in f"{package}: {task}" for word in words)


def run(options: argparse.Namespace, python: str, sizes: list[int]) -> tables.Run:
    """Measure everything, and print each line as it is known."""
    common = {"seconds": options.seconds, "memory": options.memory}
    with open_worker(python, options.limit) as worker:
        facts = worker.ask_once({"what": "entries"})
        features = facts["features"]
        table = tables.Run(
            machine=f"{_processor()}, Python {_version(python)}, numpy {facts['numpy']}, one thread",
            features=", ".join(features),
            limit=options.limit,
        )
        for package, why in facts["missing"].items():
            print(f"not compared: {package} ({why})")
        with open_worker(python, options.limit, NPY_DISABLE_CPU_FEATURES=" ".join(features)) as plain:
            for n in sizes:
                request = {"what": "sort", "n": n, **common}
                table.sort.cells[n] = tables.Cell.of(worker.ask(request))
                table.plain.cells[n] = tables.Cell.of(plain.ask(request))
        print(table.heading(), flush=True)
        for task, peers in facts["entries"].items():
            for package in [OURS, *([] if options.ours else peers)]:
                if chosen(task, package, options.only):
                    cells = _cells(worker, task, package, sizes, common)
                    row = tables.Row(task, package, cells)
                    table.rows.append(row)
                    print(table.line(row), flush=True)
    return table


def _cells(
    worker: Worker, task: str, package: str, sizes: list[int], common: dict[str, Any]
) -> dict[int, tables.Cell]:
    cells: dict[int, tables.Cell] = {}
    for n in sizes:
        if n > MOST_ROWS_OF_CLASSES and task.endswith("ten classes"):
            continue
        request = {"what": "time", "task": task, "package": package, "n": n, **common}
        cells[n] = tables.Cell.of(worker.ask(request))
        if cells[n].status != "ok":
            break
    return cells


def _version(python: str) -> str:
    command = [python, "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", type=lambda text: int(float(text)), default=list(SIZES))
    parser.add_argument("--only", nargs="+", metavar="WORD")
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--limit", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=0.6)
    parser.add_argument("--memory", type=float, default=6.0)
    parser.add_argument("--python", metavar="PATH")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--redraw", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(answer)
        return
    if options.redraw:
        tables.write(tables.read(RESULTS / "speed.csv"), ROOT)
        return
    sizes = sorted(options.sizes)
    if options.smoke:
        options.python, options.seconds, sizes = options.python or sys.executable, 0.0, [60]
    start = time.perf_counter()
    table = run(options, peer_python(options.python), sizes)
    print("\nFaster than ours:", *(table.faster() or ["nothing"]), sep="\n- ")
    print(f"{(time.perf_counter() - start) / 60:.1f} minutes")
    if options.smoke and any(cell.status != "ok" for row in table.rows for cell in row.cells.values()):
        sys.exit("not everything could be measured")
    if options.write:
        if any(cell.status == "failed" for row in table.rows for cell in row.cells.values()):
            sys.exit(
                "nothing is written because calls failed: fix them, and do not edit the sources during a run"
            )
        tables.write(table, ROOT)


if __name__ == "__main__":
    main()
