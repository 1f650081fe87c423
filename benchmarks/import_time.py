"""Import time of the package, compared with that of its dependencies.

    python benchmarks/import_time.py

``import sklearn_calib`` alternates with the import statements of other packages in its modules, each in a new
process; these statements are read from the source of the loaded modules. Processor time of the imports is
measured, without the start of Python, and each pair gives one ratio. Target: a median of at most 1.15. The
same is printed for each subpackage, and the modules of the package that take longest by themselves.

Optional packages, such as pandas, are hidden, as if they were not installed: scikit-learn imports some of
them if they are available, which would reduce the ratio.

    --pairs 25        pairs for the package; subpackages have a fifth of them, at least three
    --as-installed    do not hide optional packages
    --smoke           few pairs, as a quick check
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

TARGET = 1.15
OPTIONAL = ("matplotlib", "pandas", "polars", "dask", "distributed", "pyarrow", "pyspark", "torch", "tqdm")
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
# compiled files are used, as after an installation
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
} | THREADS

HIDE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {optional!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""
CLOCK = """
from time import process_time
start = process_time()
{code}
print(process_time() - start)
"""
LOADED = """
{code}
import json, sys
print(json.dumps({{
    "files": sorted(module.__file__ for name, module in sys.modules.items()
                    if name.partition(".")[0] == "sklearn_calib"),
    "optional": [name for name in {optional!r} if name in sys.modules],
}}))
"""


def run(code: str, *, hide: bool, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process."""
    before = HIDE.format(optional=OPTIONAL) if hide else ""
    command = [sys.executable, *options, "-c", before + code]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT)


def seconds(code: str, *, hide: bool) -> float:
    """Return the processor time of some imports."""
    return float(run(CLOCK.format(code=code), hide=hide).stdout)


@cache
def imports_of_others(path: str) -> tuple[str, ...]:
    """Return the import statements of other packages that run when a module of ours is imported."""
    return tuple(_statements(ast.parse(Path(path).read_text(encoding="utf-8")).body))


def _statements(body: list[ast.stmt]) -> Iterator[str]:
    ours_or_standard = {"sklearn_calib", *sys.stdlib_module_names}
    for node in body:
        if isinstance(node, ast.Import):
            names = [item.name for item in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                yield from _statements(node.orelse)
            elif isinstance(node, ast.If | ast.Try):
                yield from _statements([*node.body, *node.orelse])
            continue
        if any(name.partition(".")[0] not in ours_or_standard for name in names):
            yield ast.unparse(node)


def needs(code: str, *, hide: bool) -> tuple[str, list[str]]:
    """Return the import statements of our modules for other packages, and the optional packages loaded."""
    found = json.loads(run(LOADED.format(code=code, optional=OPTIONAL), hide=hide).stdout)
    statements = {statement for path in found["files"] for statement in imports_of_others(path)}
    return "\n".join(sorted(statements)), found["optional"]


def in_turns(code: str, other: str, turns: int, *, hide: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the times of both in pairs, in alternating order."""
    pairs = []
    for turn in range(turns):
        if turn % 2:
            second, first = seconds(other, hide=hide), seconds(code, hide=hide)
        else:
            first, second = seconds(code, hide=hide), seconds(other, hide=hide)
        pairs.append((first, second))
    mine, theirs = np.array(pairs).T
    return mine, theirs


def own_modules(runs: int, *, hide: bool) -> dict[str, float]:
    """Return the minimum time of each module of the package by itself, in seconds."""
    found: dict[str, float] = {}
    for _ in range(runs):
        lines = run("import sklearn_calib", hide=hide, options=("-X", "importtime")).stderr
        for own, name in re.findall(r"import time:\s*(\d+) \|\s*\d+ \|\s*(sklearn_calib\S*)", lines):
            found[name] = min(found.get(name, np.inf), int(own) / 1e6)
    return found


def subpackages() -> list[str]:
    """Return the names of the subpackages."""
    import sklearn_calib

    folder = Path(sklearn_calib.__path__[0])
    return sorted(path.parent.name for path in folder.glob("[!_]*/__init__.py"))


def row(name: str, turns: int, *, hide: bool) -> tuple[str, float]:
    """Return a line of the table, and the median of the ratios."""
    code = f"import {name}"
    other, optional = needs(code, hide=hide)
    mine, theirs = in_turns(code, other, turns, hide=hide)
    low, middle, high = np.quantile(mine / theirs, [0.25, 0.5, 0.75])
    times = f"{np.median(mine) * 1e3:8.0f} {np.median(theirs) * 1e3:8.0f}"
    loaded = f"  loads {', '.join(optional)}" if optional else ""
    return f"{name:<26} {times}  {middle:.3f} [{low:.3f}, {high:.3f}] of {turns}{loaded}", float(middle)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=25)
    parser.add_argument("--as-installed", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    hide = not options.as_installed
    pairs = 2 if options.smoke else options.pairs
    other, _ = needs("import sklearn_calib", hide=hide)
    print(f"dependencies of the package, {len(other.splitlines())} statements:")
    modules = sorted({statement.split()[1] for statement in other.splitlines()})
    print(f"  {', '.join(modules)}\n")
    seconds("import sklearn_calib", hide=hide)
    print(f"{'import of':<26} {'ms':>8} {'ms deps':>8}  ratio")
    line, ratio = row("sklearn_calib", pairs, hide=hide)
    print(f"{line}{'' if ratio <= TARGET else f'  above {TARGET}'}", flush=True)
    chosen = subpackages()[:1] if options.smoke else subpackages()
    for subpackage in chosen:
        print(row(f"sklearn_calib.{subpackage}", max(pairs // 5, 3), hide=hide)[0], flush=True)
    found = own_modules(1 if options.smoke else 5, hide=hide)
    print(f"\nmodules of the package by themselves: {len(found)} in {sum(found.values()) * 1e3:.0f} ms")
    for name in sorted(found, key=found.__getitem__, reverse=True)[:8]:
        print(f"  {name:<44} {found[name] * 1e3:6.1f} ms")


if __name__ == "__main__":
    main()
