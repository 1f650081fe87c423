"""The import table of docs/architecture.md, read from there and enforced.

Numpy, scipy and the standard library may be used in every layer; of everything else a layer may import only
what its row names, at any depth of the code. A library of which the row says "inside functions" must not load
with the package.
"""

import ast
import re
import sys
from functools import cache

import pytest

from tests._scripts import ROOT

PACKAGE = ROOT / "sklearn_calib"
EVERYWHERE = {"numpy", "scipy"}
TYPES = "_typing"
TERMINAL = {"plot", "scorers", "report"}
# layers at the very end may import those
LAST = {"report": {"plot"}, "__main__": {"report"}}


def read_table(text):
    """Parse the rows ``| `layer` | `other`, library, library inside functions |`` into two sets for each."""
    rules = {}
    section = text.split("## Import rules")[1].split("\n## ")[0]
    for layer, cell in re.findall(r"^\| `(\w+)` \| (.+?) \|$", section, flags=re.MULTILINE):
        rules[layer] = allowed, lazy = set(), set()
        for item in re.split(r"[,;]", cell):
            name = item.replace("inside functions", "").strip().strip("`")
            (lazy if "inside functions" in item else allowed).add(name)
    return rules


def imports_of(tree, package):
    """Yield the absolute name of each import of a module of ``package``, its line, and if it is at load."""

    def visit(node, at_load):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno, at_load) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join(parts[: len(parts) - node.level + 1] + ([base] if base else []))
            # `from package import name` may import the module package.name: both names are checked
            yield from ((f"{base}.{alias.name}", node.lineno, at_load) for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for children, inner in ((node.body, False), (node.orelse, at_load)):
                for child in children:
                    yield from visit(child, inner)
        else:
            inner = at_load and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for child in ast.iter_child_nodes(node):
                # an expression holds no import
                if not isinstance(child, ast.expr):
                    yield from visit(child, inner)

    yield from visit(tree, True)


def covers(allowed, module):
    return any(module == name or module.startswith(name + ".") for name in allowed)


def violations(tree, package, layer, rule):
    """Return what a module of a layer imports against its rule."""
    found, (allowed, lazy) = [], rule
    for module, line, at_load in imports_of(tree, package):
        top, _, target = module.partition(".")
        if top == "sklearn_calib":
            if target.split(".")[0] not in {layer, TYPES, *allowed}:
                found.append(f"line {line}: {layer} imports {module}")
        elif top in sys.stdlib_module_names or top in EVERYWHERE or covers(allowed, module):
            continue
        elif not covers(lazy, module):
            found.append(f"line {line}: {layer} imports {module}")
        elif at_load:
            found.append(f"line {line}: {module} must be imported inside a function")
    return found


RULES = read_table((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
FILES = sorted(PACKAGE.rglob("*.py"))


def place(path):
    """Return the package that holds a file (for relative imports) and the file's layer."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1]), parts[1]


@cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def test_the_table_names_the_layers_that_exist():
    layers = {place(path)[1] for path in FILES} - {"__init__"}
    assert layers, "no module found"
    assert layers <= set(RULES), f"docs/architecture.md has no import row for {sorted(layers - set(RULES))}"
    for layer, (allowed, _) in RULES.items():
        inner = allowed & layers
        assert not inner & TERMINAL - LAST.get(layer, set()), f"{layer} imports what only the last layers may"


def test_imports_follow_the_table():
    found = {}
    for path in FILES:
        package, layer = place(path)
        rule = (set(RULES), set()) if layer == "__init__" else RULES[layer]
        found[path] = violations(tree_of(path), package, layer, rule)
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def circles(graph):
    """Return the groups of modules that import each other, directly or through others."""

    def reached(module):
        found, todo = set(), [module]
        while todo:
            new = graph[todo.pop()] - found
            found |= new
            todo += new
        return frozenset(found)

    ends = {module: reached(module) for module in graph}
    groups = {frozenset({a} | {b for b in ends[a] if a in ends[b]}) for a in graph if a in ends[a]}
    return sorted(sorted(group) for group in groups)


def test_no_module_is_part_of_an_import_circle():
    paths = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in FILES}
    modules = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    graph = {}
    for module, path in modules.items():
        names = {name for name, _, _ in imports_of(tree_of(path), place(path)[0])}
        names |= {name.rpartition(".")[0] for name in names}
        # a module of a package imports that package first: this is no import of its own
        graph[module] = {name for name in names & set(modules) if not f"{module}.".startswith(f"{name}.")}
    assert circles(graph) == []


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}, [["b", "c"]]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"e"}, "e": {"d"}}, [["a", "b", "c"], ["d", "e"]]),
    ],
)
def test_circles_are_found(graph, expected):
    assert circles(graph) == expected


def test_the_checker_sees_what_it_should():
    for layer, code, n_violations in [
        ("metrics", "import numpy as np\nfrom math import pi\nfrom ._cutoff import x\nfrom . import _y", 0),
        ("metrics", "from ..plot import ReliabilityDisplay", 1),
        ("metrics", "from .. import inference", 1),
        ("metrics", "from sklearn.metrics import log_loss", 1),
        ("metrics", "def f():\n    import sklearn_calib.scorers", 1),
        ("_core", "from sklearn_calib._validation import check_binary", 1),
        ("_validation", "from sklearn.utils import check_array", 0),
        ("_validation", "from sklearn.base import clone", 1),
        ("plot", "class A:\n    import matplotlib", 1),
        ("plot", "def f():\n    from matplotlib import pyplot", 0),
        ("plot", "if TYPE_CHECKING:\n    from matplotlib.axes import Axes", 0),
        ("plot", "def f():\n    import pandas", 1),
        ("report", "from sklearn_calib.plot import ReliabilityDisplay", 0),
    ]:
        assert len(violations(ast.parse(code), f"sklearn_calib.{layer}", layer, RULES[layer])) == n_violations
