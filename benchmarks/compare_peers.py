"""Time and memory of every metric, test and calibrator, compared with other packages in one run.

    python benchmarks/compare_peers.py

Other packages are installed in a separate virtual environment, created on first use in the user's cache
folder; all measurements use its Python. The table shows the median processor time of one call, and its ratio
to ``np.sort`` of as many predictions, measured alternately, with the quartiles of the ratio. A call that
exceeds the limit of time is stopped and shown as "> limit"; larger samples are then not measured.
The exponent is the slope of log time against log n from 10 000 samples on. Memory is the peak that one call
adds at the largest size, in bytes per sample. Calibrators are fitted to n scores and applied to as many new
ones.

    --sizes 1e3 1e4 ...  numbers of samples
    --only WORD ...      tasks or packages whose name contains one of the words
    --ours               omit other packages
    --limit 10           seconds for one call
    --seconds 0.6        minimum time for each measurement
    --memory 6           gigabytes for one call
    --python PATH        an interpreter with the packages of peers.txt, instead of a new environment
    --write              also write results/speed.csv and speed.md, and docs/_static/speed.png. With --only,
                         replace these rows, which must be measured on the same machine
    --smoke              one small size with the running Python and its packages, as a quick check
"""

import argparse
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import _speed_table as tables
from _options import parser_of
from _timing import allow, measure, vector_features

ROOT = Path(__file__).resolve().parents[1]
SIZES = (10**3, 10**4, 10**5, 10**6, 10**7)
#: Ten classes need ten times the memory.
MOST_ROWS_OF_CLASSES = 10**6
OURS = tables.OURS
THREADS = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMBA_NUM_THREADS",
    ),
    "1",
)


def work(request: dict[str, Any]) -> None:
    """Measure each job, a task of a package, for increasing sizes; print each measurement at once."""
    import warnings

    import numpy as np
    from _entries import data_of, own
    from _peer_entries import PEERS, missing_packages

    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w")
    # output of the tasks is discarded
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    if not request["jobs"]:
        gone = missing_packages()
        named = {
            task: [name for name in PEERS.get(task, {}) if name.split(": ")[0] not in gone] for task in own()
        }
        facts = {"entries": named, "missing": gone, "numpy": np.__version__, "features": vector_features()}
        print(json.dumps(facts), file=out, flush=True)
        return
    for name, package in request["jobs"]:
        for n in request["sizes"]:
            data = data_of(n)
            sort = lambda data=data: np.sort(data.p)  # noqa: E731
            try:
                if name == "np.sort":
                    task = sort
                else:
                    task = (own()[name] if package == OURS else PEERS[name][package])(data)
                sort()
                allow(request["limit"], request["memory"] * 1e9)
                answer = measure(task, sort, request["seconds"])
            except Exception as error:
                # torch reports a lack of memory in the text of another exception
                lack = isinstance(error, MemoryError) or "alloc" in str(error).lower()
                status = "memory" if lack else "failed"
                answer = {"status": status, "message": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=out, flush=True)
            if "status" in answer:
                break


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


def ask(python: str, request: dict[str, Any], **environment: str) -> list[dict[str, Any]]:
    """Return the answers of a new process, the last one with the reason if it was ended."""
    command = [python, "-W", "ignore", __file__, "--worker", json.dumps(request)]
    known = os.environ | THREADS | {"PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"} | environment
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=known)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode:
        stopped = done.returncode == -signal.SIGALRM
        why = "the limit of time" if stopped else f"code {done.returncode}"
        answers.append({"status": "limit" if stopped else "failed", "message": f"ended with {why}"})
    return answers


def run(options: argparse.Namespace, python: str, sizes: list[int]) -> tables.Run:
    """Measure everything, and print each line as it is known."""
    common = {"seconds": options.seconds, "memory": options.memory, "limit": options.limit}
    (facts,) = ask(python, {"jobs": []})
    features = facts["features"]
    table = tables.Run(
        machine=f"{_processor()}, Python {_version(python)}, numpy {facts['numpy']}, one thread",
        features=", ".join(features),
        limit=options.limit,
    )
    for package, why in facts["missing"].items():
        print(f"not compared: {package} ({why})")

    def cells(task: str, package: str, **environment: str) -> dict[int, tables.Cell]:
        chosen = [n for n in sizes if n <= MOST_ROWS_OF_CLASSES or not task.endswith("ten classes")]
        request = {"jobs": [[task, package]], "sizes": chosen, **common}
        answers = ask(python, request, **environment)
        return {n: tables.Cell.of(answer) for n, answer in zip(chosen, answers, strict=False)}

    table.sort.cells |= cells("np.sort", "")
    table.plain.cells |= cells("np.sort", "", NPY_DISABLE_CPU_FEATURES=" ".join(features))
    print(table.heading(), flush=True)
    jobs = [
        (task, package)
        for task, peers in facts["entries"].items()
        for package in [OURS, *([] if options.ours else peers)]
        if any(word in f"{package}: {task}" for word in options.only)
    ]
    # the quick check needs no process of its own for each job
    quick = ask(python, {"jobs": jobs, "sizes": sizes, **common}) if options.smoke else []
    for k, (task, package) in enumerate(jobs):
        found = {n: tables.Cell.of(quick[k]) for n in sizes} if options.smoke else cells(task, package)
        table.rows.append(tables.Row(task, package, found))
        print(table.line(table.rows[-1]), flush=True)
    return table


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
    parser = parser_of(__doc__, limit=10.0, seconds=0.6, memory=6.0)
    parser.add_argument("--sizes", nargs="+", type=lambda text: int(float(text)), default=list(SIZES))
    parser.add_argument("--only", nargs="+", metavar="WORD", default=[""])
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--python", metavar="PATH")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker)
        return
    sizes = sorted(options.sizes)
    if options.smoke:
        options.python, options.seconds, sizes = options.python or sys.executable, 0.0, [60]
    start = time.perf_counter()
    table = run(options, peer_python(options.python), sizes)
    print("\nCases in which another package is faster:", *(table.faster() or ["nothing"]), sep="\n- ")
    print(f"{(time.perf_counter() - start) / 60:.1f} minutes")
    if options.smoke and any(cell.status != "ok" for row in table.rows for cell in row.cells.values()):
        sys.exit("not everything could be measured")
    if options.write:
        if any(cell.status == "failed" for row in table.rows for cell in row.cells.values()):
            sys.exit(
                "nothing is written because calls failed: fix them, and do not edit the sources during a run"
            )
        if options.only != [""]:
            known = {(row.task, row.package): row for row in table.rows}
            table = tables.read(ROOT)
            table.rows = [known.get((row.task, row.package), row) for row in table.rows]
        tables.write(table, ROOT)


if __name__ == "__main__":
    main()
