"""Run benchmarks with --smoke, two at a time: python .ci/smoke.py SCRIPT ...

Each runs in a copy of this process, which has already imported what most of them need. The output of those
that fail is printed, and the exit status is then 1.
"""

import os
import runpy
import sys
import traceback
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

PROCESSES = 2
ROOT = Path(__file__).resolve().parents[1]


def prepare() -> None:
    """Import what most scripts need, with one thread for each process."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    os.environ.update(dict.fromkeys(threads, "1") | {"MPLBACKEND": "agg"})
    # the sources come last, so that the installed package is used
    sys.path.append(str(ROOT))
    package = Path(import_module("sklearn_calib").__path__[0])
    ours = [f"sklearn_calib.{path.parent.name}" for path in package.glob("[!_]*/__init__.py")]
    for name in ("matplotlib.pyplot", "pandas", "scipy.stats", "sklearn.ensemble", *ours):
        import_module(name)


def run(script: str, log: Path) -> int:
    """Run a script in this process, and return its exit status."""
    with log.open("wb") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    sys.argv = [script, "--smoke"]
    sys.path[0] = str(Path(script).resolve().parent)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code)
        return int(bool(end.code))
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def main(scripts: list[str]) -> int:
    """Run all scripts, and return 1 if one of them fails."""
    prepare()
    running, failed = {}, 0
    with TemporaryDirectory() as folder:
        logs = {script: Path(folder, f"{k}.txt") for k, script in enumerate(scripts)}
        waiting = list(logs)
        while waiting or running:
            if waiting and len(running) < PROCESSES:
                script = waiting.pop(0)
                sys.stdout.flush()
                pid = os.fork()
                if pid == 0:
                    os._exit(run(script, logs[script]))
                running[pid] = script
                continue
            pid, status, used = os.wait4(-1, 0)
            script = running.pop(pid)
            if status:
                failed = 1
                print(logs[script].read_text(encoding="utf-8"))
            seconds = used.ru_utime + used.ru_stime
            print(f"{'FAILED' if status else 'passed'}: {script} ({seconds:.1f} s)", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
