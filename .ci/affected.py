"""List the benchmarks that import a file that was changed: python .ci/affected.py [BASE].

Without a base commit, or if it is unknown, or if pyproject.toml was changed, every benchmark is listed. An
import of a name from a package is followed to the file that defines the name.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EVERY = {"pyproject.toml"}


def benchmarks() -> list[Path]:
    """Return the package of the papers, which takes longest, and the scripts."""
    return [ROOT / "benchmarks" / "papers" / "__main__.py", *sorted((ROOT / "benchmarks").glob("[!_]*.py"))]


@cache
def imports(path: Path) -> tuple[tuple[str, str], ...]:
    """Return the imported names of a file at any depth, each with the name of its module."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.module or "", alias.name) for alias in node.names]
    return tuple(found)


@cache
def file_of(module: str, folder: Path) -> Path | None:
    """Return the file of a module beside a script or in the checkout; None if it belongs to a library."""
    for start in (folder, ROOT):
        place = start.joinpath(*module.split("."))
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if module and path.is_file():
                return path
    return None


def followed(folder: Path, module: str, name: str) -> Iterator[Path]:
    """Yield the files that an import in a file of a folder leads to."""
    target = file_of(f"{module}.{name}" if name else module, folder) or file_of(module, folder)
    if target is None:
        return
    if target.name == "__init__.py" and name:
        sources = [source for source, found in imports(target) if found == name and source != module]
        if sources:
            yield from followed(target.parent, sources[0], name)
            return
    yield target


@cache
def targets(path: Path) -> tuple[Path, ...]:
    """Return the files of the checkout that a file imports."""
    return tuple(target for each in imports(path) for target in followed(path.parent, *each))


def reached(script: Path) -> set[Path]:
    """Return the files of the checkout that a script imports, and itself."""
    found, waiting = set(), [script]
    if script.name == "__main__.py":
        waiting += script.parent.glob("*.py")
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += targets(path)
    return found


def changed(base: str) -> set[str] | None:
    """Return the paths that differ from a commit; None if it is unknown."""
    command = ["git", "-C", str(ROOT), "diff", "--name-only", base, "--"]
    done = subprocess.run(command, capture_output=True, text=True)
    return set(done.stdout.split()) if base and done.returncode == 0 else None


if __name__ == "__main__":
    paths = changed(sys.argv[1] if len(sys.argv) > 1 else "")
    for script in benchmarks():
        if paths is None or paths & {str(path.relative_to(ROOT)) for path in reached(script)} | paths & EVERY:
            print(script.relative_to(ROOT))
