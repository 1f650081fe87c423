"""The table of promises names tests that exist, in every room."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (?!promise |---)(.+?) \| (.+) \|$", TEXT, flags=re.MULTILINE)
NAMED = [(promise, name) for promise, cell in ROWS for name in cell.split("<br>")]


@cache
def functions_of(path):
    """Return name and code of the functions at the top of a file that pytest collects as tests."""
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    return {node.name: ast.unparse(node) for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("promise", "name"), NAMED, ids=[name.strip("`") for _, name in NAMED])
def test_the_test_exists_and_needs_no_data_from_outside(promise, name):
    path, function = re.fullmatch(r"`([\w/]+\.py)::(test_\w+)`", name).groups()
    code = functions_of(path).get(function)
    assert code is not None, promise
    # a test that most people skip holds nothing
    assert "outside_data" not in code, promise


def test_promises_are_there():
    assert len(ROWS) > 30
    assert len({promise for promise, _ in ROWS}) == len(ROWS)


def test_no_room_is_without_a_promise():
    rooms = {path.parent.name for path in (ROOT / "sklearn_calib").glob("[!_]*/__init__.py")}
    said = " ".join(promise for promise, _ in ROWS)
    assert {room for room in rooms if f"`{room}`" not in said} == set()
