"""Changes the package in one small place at a time and asks whether a test notices: mutation testing.

``.ci/mutate`` copies the tracked files, makes an environment with what this needs, and calls this. Changes
come from cosmic-ray; this file chooses among them, runs the tests that belong to the changed file, and writes
docs/mutation.md. A process that has imported numpy, scipy, scikit-learn and pytest is forked for each mutant,
and imports the changed package: a run costs little more than its tests.
"""

import argparse
import ast
import contextlib
import hashlib
import importlib
import io
import json
import os
import re
import resource
import signal
import sys
import time
import tomllib
from functools import cache
from pathlib import Path

import parso
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator

PACKAGE = "sklearn_calib"
# one or two changes for each sign: a law that tells plus from minus tells plus from every other sign
SIGNS = {
    "Binary": "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Div Mod_FloorDiv Pow_Mul RShift_LShift LShift_RShift"
    " BitAnd_BitOr BitOr_BitAnd BitXor_BitOr",
    "Comparison": "Lt_LtE LtE_Lt Gt_GtE GtE_Gt Lt_Gt LtE_GtE Gt_Lt GtE_LtE Eq_NotEq NotEq_Eq Is_IsNot"
    " IsNot_Is",
    "Unary": "Delete_USub Delete_Not Delete_Invert",
}
KEYWORDS = "TrueWithFalse FalseWithTrue AndWithOr OrWithAnd BreakWithContinue ContinueWithBreak"
OPERATORS = [
    "core/NumberReplacer",
    "core/AddNot",
    *(f"core/Replace{word}" for word in KEYWORDS.split()),
    *(f"core/Replace{kind}Operator_{pair}" for kind, pairs in SIGNS.items() for pair in pairs.split()),
]
BOTH_WAYS = "minimum/maximum min/max argmin/argmax floor/ceil any/all log1p/log expm1/exp sf/cdf logsf/logcdf"
BOTH_WAYS += ' ndtr/ndtri "left"/"right"'
ONE_WAY = "sqrt/abs abs/positive cumsum/array reversed/list nextafter/maximum"
SWAPS = dict(pair.split("/") for pair in f"{BOTH_WAYS} {ONE_WAY}".split())
SWAPS |= {b: a for a, b in (pair.split("/") for pair in BOTH_WAYS.split())}
MADE_OF_WORDS = re.compile(r"__str__|_repr_html_|_html|_words|__repr__|_lines|_facts|_where|_rows|_title")
NOT_CHANGED = ("field", "warnings.warn", "cast", "Literal", "TypeVar")
TABLE = re.compile(r"(<!-- table -->\n).*?(<!-- end of the table -->)", re.DOTALL)


class SwapName(Operator):
    """One function or side in place of its counterpart."""

    names = SWAPS

    def mutation_positions(self, node):
        """Names and strings that have a counterpart; not the names of arguments."""
        if node.type in ("name", "string") and node.value in self.names:
            after = node.get_next_leaf()
            if after is None or after.value != "=":
                yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        """Put the counterpart in its place."""
        node.value = self.names[node.value]
        return node

    @classmethod
    def examples(cls):
        """None: they are for cosmic-ray's own tests."""
        return ()


class RemoveStatement(Operator):
    """``pass`` for a statement without which the rest still runs: ``x += y``, ``x[i] = y``, ``f(x)``."""

    def mutation_positions(self, node):
        """Statements that change something that is there already."""
        if node.parent is None or node.parent.type != "simple_stmt" or node.parent.children[0] is not node:
            return
        if node.type == "expr_stmt":
            changed, sign = node.children[0], node.children[1]
            if (sign.type == "operator" and sign.value != "=") or changed.type in ("atom_expr", "power"):
                yield node.start_pos, node.end_pos
        elif node.type in ("atom_expr", "power"):
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        """Say nothing in its place."""
        return parso.python.tree.Keyword("pass", node.start_pos, prefix=node.get_first_leaf().prefix)

    @classmethod
    def examples(cls):
        """None: they are for cosmic-ray's own tests."""
        return ()


def wordy(source):
    """Where annotations, defaults, errors, decorators, words for readers and lists of names begin and end."""
    ranges = []
    for node in ast.walk(ast.parse(source)):
        skipped = []
        if isinstance(node, ast.FunctionDef):
            skipped = [*node.decorator_list]
            ranges.append(((node.lineno, node.col_offset), (node.body[0].lineno, node.body[0].col_offset)))
            if MADE_OF_WORDS.fullmatch(node.name):
                skipped.append(node)
        elif isinstance(node, ast.ClassDef):
            skipped = [*node.decorator_list]
        elif isinstance(node, ast.AnnAssign):
            skipped = [node.annotation]
        elif (
            isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom)
            or (isinstance(node, ast.Call) and ast.unparse(node.func) in NOT_CHANGED)
            or (isinstance(node, ast.keyword) and node.arg == "strict")  # of zip: an assertion
            or (isinstance(node, ast.Assign) and any("__" in ast.unparse(target) for target in node.targets))
        ):
            skipped = [node]
        ranges += [
            ((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in skipped if n is not None
        ]
    return ranges


def places(source):
    """Find every mutation of a source: the operator, which of its occurrences, the line and the column."""
    skipped = wordy(source)
    chosen = {name: get_operator(name)() for name in OPERATORS} | {
        "swap": SwapName(),
        "remove": RemoveStatement(),
    }
    for name, operator in chosen.items():
        nodes = ast_nodes(get_ast(source))
        found = [place for node in nodes for place in operator.mutation_positions(node)]
        for k, (start, stop) in enumerate(found):
            # columns of ast count bytes, those of parso characters: the same in code of plain letters
            if not any(a <= start and stop <= b for a, b in skipped):
                yield name, operator, k, start


def sample(path, count, seed):
    """Choose mutants of a file at random, in an order that a change elsewhere in the file does not alter."""
    source = path.read_text(encoding="utf-8")
    lines, plain = source.split("\n"), ast.dump(ast.parse(source))
    found = list(places(source))

    def rank(place):
        name, _, k, (line, column) = place
        key = [str(seed), path.name, name, str(k % 2), lines[line - 1], str(column)]
        return hashlib.sha256("\0".join(key).encode()).hexdigest()

    chosen = {}
    for _, operator, k, _ in sorted(found, key=rank):
        if len(chosen) == count:
            break
        changed = mutate_code(source, operator, k)
        try:
            same = changed is None or ast.dump(ast.parse(changed)) == plain
        except SyntaxError:
            continue
        if not same:
            new = changed.split("\n")
            at = next(i for i, (a, b) in enumerate(zip(lines, new, strict=False)) if a != b)
            before, after = lines[at].strip(), re.sub(r"(?<=\S) {2,}", " ", new[at]).strip()
            if after.replace("shape[ -1]", "shape[0]") == before:
                continue  # nearly all arrays have one axis
            chosen.setdefault(
                (before, after), {"line": at + 1, "before": before, "after": after, "source": changed}
            )
    return len(found), list(chosen.values())


class Chosen:
    """A plugin of pytest: notes how long tests take, or runs those that were chosen, the quickest first."""

    def __init__(self, wanted=None):
        self.wanted, self.took = wanted, {}

    def pytest_collection_modifyitems(self, config, items):
        """Leave out what was not chosen."""
        if self.wanted is not None:
            order = {name: k for k, name in enumerate(self.wanted)}
            items[:] = sorted(
                (item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid]
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """Note the processor's time of set-up, call and the end."""
        start = time.process_time()
        done = yield
        self.took[item.nodeid] = time.process_time() - start
        return done


def run(arguments, wanted, timeout):
    """Run tests in a forked process: exit code (None if it took too long), seconds of each, output."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(read)
        sys.dont_write_bytecode = wanted is not None
        text, code, chosen = io.StringIO(), 99, Chosen(wanted)
        sys.stdout = sys.stderr = text
        try:
            # seconds of the processor, however busy the machine is
            resource.setrlimit(resource.RLIMIT_CPU, (timeout, timeout + 1))
            common = [
                "-q",
                "-p",
                "no:cacheprovider",
                "--capture=sys",
                "-o",
                "addopts=--import-mode=importlib",
            ]
            code = int(
                pytest.main([*common, *(["-x"] if wanted is not None else []), *arguments], plugins=[chosen])
            )
        finally:
            with os.fdopen(write, "w") as file:
                json.dump({"code": code, "took": chosen.took, "text": text.getvalue()[-3000:]}, file)
            os._exit(0)
    os.close(write)
    os.set_blocking(read, False)
    deadline, received = time.monotonic() + 20 * timeout, b""
    while True:
        try:
            piece = os.read(read, 1 << 16)
            received += piece
            if not piece:
                break
        except BlockingIOError:
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
    os.close(read)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if not received:
        return {"code": None, "took": {}, "text": ""}
    return json.loads(received)


@cache
def seconds_of(file, slow):
    """Time each test of one file, with nothing changed; but not those that simulate for long."""
    done = run([file, "-k", f"not ({slow})"], None, 900)
    if done["code"] not in (0, 5):  # 5: all of them simulate
        raise SystemExit(f"{file} fails without a change\n{done['text']}")
    return done["took"]


def tests_of(name, table):
    """The tests of a file: those of its own name in its room, and those that the settings name."""
    room, file = name.split("/")
    own = f"tests/{room.lstrip('_')}/test_{file.lstrip('_')}.py"
    found = [own] if Path(own).is_file() else []
    return found + [test for test in table.get(name, []) if test not in found]


def try_file(name, settings, known, options):
    """Try the mutants of one file; returns what is known about it now."""
    path = Path(PACKAGE, f"{name}.py")
    original = path.read_text(encoding="utf-8")
    tests = tests_of(name, settings["tests"])
    count = settings["count"] if options.count is None else options.count
    all_of_them, chosen = sample(path, count, options.seed)
    explained = {(e["file"], e["before"], e["after"]): e["why"] for e in settings.get("explained", [])}
    before = {(m["before"], m["after"]): m["outcome"] for m in known.get("mutants", [])}
    result = {"all": all_of_them, "mutants": []}
    to_run = []
    for mutant in chosen:
        key = (mutant["before"], mutant["after"])
        record = {k: mutant[k] for k in ("line", "before", "after")}
        result["mutants"].append(record)
        if not options.fresh and before.get(key) == "killed":
            record["outcome"] = "killed"
        elif not options.fresh and (name, *key) in explained:
            record["outcome"] = "survived"
        else:
            to_run.append((record, mutant["source"]))
    if to_run and options.run:
        took = {
            test: seconds for file in tests for test, seconds in seconds_of(file, settings["slow"]).items()
        }
        wanted, spent = [], 0.0
        for test, seconds in sorted(took.items(), key=lambda item: item[1]):
            spent += seconds
            if spent > options.budget:
                spent -= seconds
                break
            wanted.append(test)
        print(f"{name}: {len(to_run)} mutants, {len(wanted)} of {len(took)} tests, {spent:.1f} s", flush=True)
        for record, source in to_run:
            for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
                stale.unlink()
            path.write_text(source, encoding="utf-8")
            try:
                done = run(tests, wanted, int(6 + 3 * spent))
            finally:
                path.write_text(original, encoding="utf-8")
            # no test at all (5) is nothing noticed
            record["outcome"] = "survived" if done["code"] in (0, 5) else "killed"
            if record["outcome"] == "survived":
                print(
                    f"  {name}.py:{record['line']}\n    - {record['before']}\n    + {record['after']}",
                    flush=True,
                )
    result["mutants"] = [m for m in result["mutants"] if "outcome" in m]
    return result


def table(results, settings):
    """Write the results as Markdown: a row for each file, then every survivor with its explanation."""
    explained = {(e["file"], e["before"], e["after"]): e["why"] for e in settings.get("explained", [])}
    lines = ["| file | mutants | tried | killed | explained | open |", "|---|---:|---:|---:|---:|---:|"]
    totals, reasons = [0] * 5, []
    for name, result in sorted(results.items()):
        left = [m for m in result["mutants"] if m["outcome"] == "survived"]
        why = [(m, explained.get((name, m["before"], m["after"]))) for m in left]
        known = sum(reason is not None for _, reason in why)
        row = [
            result["all"],
            len(result["mutants"]),
            len(result["mutants"]) - len(left),
            known,
            len(left) - known,
        ]
        totals = [a + b for a, b in zip(totals, row, strict=True)]
        lines.append(f"| `{name}.py` | " + " | ".join(map(str, row)) + " |")
        for mutant, reason in why:
            if reason is not None:
                reasons += [f"- `{name}.py`: `{mutant['before']}` as `{mutant['after']}`: {reason}"]
    lines.append("| all | " + " | ".join(map(str, totals)) + " |")
    return "\n".join([*lines, "", *reasons, ""]), totals[-1]


def main():
    """Read the options, try mutants, print or write the table; 1 if a survivor has no explanation."""
    parser = argparse.ArgumentParser(prog=".ci/mutate", description=__doc__.split("\n")[0])
    parser.add_argument(
        "files", nargs="*", help="such as metrics/_smooth or _core; all of the settings if none is named"
    )
    parser.add_argument(
        "--root", type=Path, default=Path.cwd(), help="where the settings are read and the table is written"
    )
    parser.add_argument("--results", type=Path, help="file that keeps what was tried (.mutants.json)")
    parser.add_argument(
        "--count", type=int, help="mutants of each file; as many as the settings say if not given"
    )
    parser.add_argument(
        "--budget", type=float, default=3.0, help="seconds of tests for a mutant, the quickest first"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="try again what was killed or explained before")
    parser.add_argument("--no-run", dest="run", action="store_false", help="only the table of what was tried")
    parser.add_argument("--write", action="store_true", help="write the table into docs/mutation.md")
    options = parser.parse_args()
    with (options.root / ".ci" / "mutants.toml").open("rb") as file:
        settings = tomllib.load(file)
    kept = options.results or options.root / ".mutants.json"
    results = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    here = [
        p.relative_to(PACKAGE).with_suffix("").as_posix()
        for room in settings["rooms"]
        for p in sorted(Path(PACKAGE, room).glob("_*.py"))
    ]
    names = [name for name in here if not name.endswith("__init__")]
    untested = [name for name in names if not tests_of(name, settings["tests"])]
    if untested:
        raise SystemExit(f"no tests belong to {', '.join(untested)}. Name them in .ci/mutants.toml.")
    named = [wanted.removeprefix(f"{PACKAGE}/").removesuffix(".py").rstrip("/") for wanted in options.files]
    chosen = [
        name for name in names if not named or any(name == n or name.startswith(f"{n}/") for n in named)
    ]
    if options.run:
        os.environ |= {
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        for module in settings["imported_once"]:
            importlib.import_module(module)
    for name in chosen:
        results[name] = try_file(name, settings, results.get(name, {}), options)
        kept.write_text(json.dumps(results, indent=0), encoding="utf-8")
    text, unexplained = table({name: results[name] for name in names if name in results}, settings)
    print(text)
    if options.write:
        page = options.root / "docs" / "mutation.md"
        page.write_text(
            TABLE.sub(lambda m: m[1] + text + m[2], page.read_text(encoding="utf-8")), encoding="utf-8"
        )
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
