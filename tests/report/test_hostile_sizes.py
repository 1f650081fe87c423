"""Files with lines and cells of fifty megabytes, and of millions of rows, in processes of little memory."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow reads files")

ROOT = Path(__file__).resolve().parents[2]
ROWS = "y,p\n" + "".join(f"{k % 2},{0.05 + k % 10 / 10:.2f}\n" for k in range(40))
LARGE = 50_000_000
#: How the last line begins, what is repeated in it and how often, and what the command says of it.
FILES = {
    "cell": ("1,", "9", LARGE, "cannot be read as CSV"),
    "quoted": ('1,"', "a", LARGE, "cannot be read as CSV"),
    "cells": ("1,", "0.5,", LARGE // 4, "cannot be read as CSV"),
}
# What runs the command on files one after the other, and prints what it came to and the memory it took.
PROGRAM = """
import re, resource, sys
from tests._program import main

def memory(name):
    return int(re.search(name + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024

small, more, *files = sys.argv[1:]
columns = ["--y", "y", "--p", "p", "--out", small + ".npz"]
assert main(["sketch", small, *columns]) == 0
before = memory("VmHWM")
size = memory("VmSize") + int(more)
resource.setrlimit(resource.RLIMIT_AS, (size, size))
codes = [main(["sketch", file, *columns]) for file in files]
print("codes", *codes)
print("grown", memory("VmHWM") - before)
"""

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux"),
]


def run(tmp_path, memory, *files):
    small = tmp_path / "small.csv"
    small.write_text(ROWS, encoding="utf-8")
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(small), str(memory), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    *_, codes, grown = done.stdout.splitlines()
    return codes.split()[1:], int(grown.split()[1]), done.stderr.splitlines()


def test_lines_and_cells_of_fifty_megabytes(tmp_path):
    """Refused in one line each; memory beyond that of a small file is at most eight times the file."""
    paths = []
    for name, (start, part, times, _) in FILES.items():
        paths.append(tmp_path / f"{name}.csv")
        paths[-1].write_text(ROWS + start + part * times + "\n", encoding="utf-8")
    codes, _, errors = run(tmp_path, 8 * LARGE, *paths)
    assert codes == ["2"] * len(FILES)
    assert len(errors) == len(FILES)
    for path, error, (*_, messages) in zip(paths, errors, FILES.values(), strict=True):
        assert error.startswith("sklearn_calib: error: ")
        assert str(path) in error
        assert any(message in error for message in messages.split("|")), error


def test_two_million_rows_take_little_more_than_forty(tmp_path):
    """A sketch has constant size, and only the rows of one batch are in memory."""
    path = tmp_path / "many.csv"
    lines = "".join(f"{k % 2},{k * 7919 % 1_000_003 / 1_000_003:.6f}\n" for k in range(200_000))
    path.write_text("y,p\n" + lines * 10, encoding="utf-8")
    codes, grown, _ = run(tmp_path, 1 << 30, path)
    assert codes == ["0"]
    assert grown < 8 * path.stat().st_size
