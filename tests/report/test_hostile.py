"""Files, names and options meant to do harm: refused in one line, or shown as the text that they are."""

import gzip
import json
import os
import random
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sklearn_calib.sketch import CalibrationSketch
from tests._program import main
from tests.report._page import checked

pytest.importorskip("pyarrow", reason="pyarrow reads files")
pytestmark = pytest.mark.usefixtures("one_measure")
ROOT = Path(__file__).resolve().parents[2]
COLUMNS = ["--y", "y", "--p", "p"]
FAST = ["--n-resamples", "20"]
FORBIDDEN = {"script", "iframe", "img", "object", "embed", "form", "input", "base", "link", "a"}
ROWS = "".join(f"{k % 2},{0.05 + k % 10 / 10:.2f}\n" for k in range(40))
TABLE = "y,p\n" + ROWS
EVILS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "</style></title><iframe src=javascript:alert(1)>",
    "=cmd|'/C calc'!A0",
    "{{7*7}} ${7*7} &lt;b&gt; %s",
    "\x1b]0;title\x07\x1b[2J\x1b[31mred",
    "left \u202eright\u2028new line\r\nand another",
]


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return str(path)


def quoted(cell):
    return '"' + cell.replace('"', '""') + '"'


def refused(arguments, capsys):
    """Return the one line on stderr with which the command ends."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sklearn_calib: error: ")
    assert err.endswith("\n")
    assert err[:-1].isprintable()
    assert len(err) < 1300
    return err


def report_on(files, tmp_path, capsys, options=(), columns=COLUMNS):
    """Run the command and return the page, the JSON and the text, each checked for what it may not hold."""
    page, numbers = tmp_path / "page.html", tmp_path / "numbers.json"
    written = ["--out", str(page), "--json", str(numbers), "--text"]
    assert main(["report", *files, *columns, *FAST, *written, *options]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert all(line.isprintable() for line in out.splitlines())
    html = page.read_text(encoding="utf-8")
    found = checked(html)
    assert FORBIDDEN.isdisjoint(found.tags)
    return html, found, json.loads(numbers.read_text(encoding="utf-8")), out


def seen(evil, found):
    """Tell whether a text stands on the page as text, its blanks and control characters aside."""
    clean = " ".join("".join(c if c.isprintable() else " " for c in evil).split())
    return clean[:24] in " ".join(" ".join(found.text).split())


def test_groups_titles_and_columns_are_text(tmp_path, capsys):
    """Names of columns, of groups and of the model reach the page, the JSON and the terminal."""
    header = ",".join(quoted(name) for name in (EVILS[0], EVILS[1], EVILS[4]))
    rows = [
        f"{k % 2},{0.05 + k % 10 / 10:.2f},{quoted(EVILS[k // 2 % len(EVILS)])}"
        for k in range(10 * len(EVILS))
    ]
    path = write(tmp_path / "t.csv", "\r\n".join([header, *rows]))
    columns = ["--y", EVILS[0], "--p", EVILS[1]]
    given = ["--group", EVILS[4], "--title", "".join(EVILS)]
    html, found, numbers, _ = report_on([path], tmp_path, capsys, given, columns)
    assert "Content-Security-Policy" in html
    assert "default-src 'none'" in html
    for evil in EVILS:
        assert seen(evil, found), evil
    assert numbers["name"] == "".join(EVILS)
    assert {part["name"] for part in numbers["groups"]} == {evil.strip() for evil in EVILS}


@pytest.mark.parametrize(
    "k", [0, *(pytest.param(k, marks=pytest.mark.thorough) for k in range(2, len(EVILS), 2))]
)
def test_labels_of_two_classes_are_text(k, tmp_path, capsys):
    rows = "".join(f"{quoted(EVILS[k + i % 2])},{0.05 + i % 10 / 10:.2f}\r\n" for i in range(40))
    path = write(tmp_path / "t.csv", "y,p\r\n" + rows)
    positive = max(EVILS[k].strip(), EVILS[k + 1].strip())
    _, found, numbers, out = report_on([path], tmp_path, capsys, options=[f"--pos-label={positive}"])
    assert numbers["positive"] == positive
    assert seen(positive, found)
    assert "\x1b" not in out


def test_labels_of_several_classes_and_names_of_files_are_text(tmp_path, capsys):
    labels = EVILS[:4]
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 80).round(6)
    p[:, 3] = 1 - p[:, :3].sum(axis=1)
    rows = [quoted(labels[k % 4]) + "," + ",".join(f"{v:.6f}" for v in p[k]) for k in range(80)]
    path = write(tmp_path / "<img src=x onerror=alert(1)>\x1b[31m.csv", "\n".join(["y,a,b,c,d", *rows]))
    columns = ["--y", "y", "--p", "a", "b", "c", "d", "--labels", *labels]
    _, found, numbers, _ = report_on([path], tmp_path, capsys, columns=columns)
    assert {part["name"] for part in numbers["classes"]} == set(labels)
    assert seen("<img src=x onerror=alert(1)> [31m.csv", found)


def test_names_that_are_no_text(tmp_path, capsys):
    """A file whose name is no UTF-8 is reported on, and named in errors."""
    try:
        path = write(tmp_path / os.fsdecode(b"\xff\xfe.csv"), TABLE)
    except (OSError, UnicodeError):
        pytest.skip("this file system takes text names only")
    _, _, numbers, _ = report_on([path], tmp_path, capsys)
    assert numbers["name"] == "\ufffd\ufffd.csv"
    assert "has no column 'q'" in refused(["report", path, "--y", "y", "--p", "q"], capsys)


BAD = {
    "long row": (TABLE + "1,0.5,7\n", "row 42 has 3 cells, but the header has 2"),
    "short row": (TABLE + "1\n", "row 42 has 1 cells"),
    "empty": ("", "is empty"),
    "blank": ("\n \n", "is empty"),
    "only a header": ("y,p\n", "has column names but no rows"),
    "only a header, unfinished": ("y,p", "has column names but no rows"),
    "header of blanks": (" , \n1,0.5\n", "is empty|has no column 'y'"),
    "two marks of UTF-8": ("\ufeff\ufeff" + TABLE, r"has no column 'y'. Its columns are '\\ufeffy', 'p'"),
    "UTF-16": (TABLE.encode("utf-16"), "name the encoding, such as utf-16"),
    "UTF-16 without a mark": (TABLE.encode("utf-16-le"), "contain NUL characters: name the encoding"),
    "Latin-1": (b"y,p\n\xe4,0.5\n", "row 2 of column 'y' contains bytes that are not utf-8"),
    "all bytes": (bytes(range(256)) * 20, "NUL characters"),
    "NULs": (b"\0" * 5000, "NUL characters"),
    "NUL in the header": ("y\0,p\n" + ROWS, "NUL characters"),
    "NUL in a number": (TABLE + "1,0.5\0\n", r"row 42 of column 'p' is '0.5\\x00', not a number"),
    "NUL in an outcome": (TABLE + "1\0,0.5\n", r"row 42 of column 'y' is '1\\x00', which contains a NUL"),
    "NUL that would make labels one": (
        "y,p\n" + "a,0.1\na\0,0.2\nb,0.3\n",
        r"row 3 of column 'y' is 'a\\x00', which contains a NUL",
    ),
    "control characters": ("y,\x1b]0;evil\x07q\n" + ROWS, r"Its columns are 'y', '\\x1b\]0;evil\\x07q'"),
    "control characters in a number": (TABLE + "1,\x1b[2J\n", r"is '\\x1b\[2J', not a number"),
    "three labels of control characters": (
        "y,p\n" + "".join(f"\x1b[2J{k % 3},0.5\n" for k in range(30)),
        "3 distinct outcomes",
    ),
    "underscored number": (TABLE + "1,0.1_2\n", "row 42 of column 'p' is '0.1_2', not a number"),
    "hexadecimal number": (TABLE + "1,0x1p-2\n", "is '0x1p-2', not a number"),
    "formula": (TABLE + "1,=0.5+0\n", "is '=0.5\\+0', not a number"),
    "cell too large": (TABLE + "1," + "9" * 2_000_000 + "\n", "a row is longer than 524288 bytes"),
    "header too large": ("y," + "q" * 3_000_000 + "\n" + ROWS, "first line is longer than 524288 bytes"),
    "long names": ("y," + ",".join(f"{'c' * 10_000}{k}" for k in range(40)) + "\n", "and 11 more"),
    "many names": ("y," + ",".join(f"c{k}" for k in range(50_000)) + "\n", "and 49971 more"),
    "long labels": (
        "y,p\n" + "".join(f"{'x' * 100_000}{k % 3},0.5\n" for k in range(9)),
        "3 distinct outcomes .* one column for each class by --p",
    ),
    "two columns of one name": ("y,p,p\n1,0.5,0.5\n", "has 2 columns named 'p'"),
    "ragged": ("y,p\n1,0.5\n\n0\n1,0.5,1\n", "row 3 has 1 cells, but the header has 2"),
    "unclosed quote": (TABLE + '1,"0.5\n', "ends within quotes: a quote is not closed"),
    "unclosed quote in the first cell": (TABLE + '"1', "ends within quotes"),
    "unclosed quote of another column": ('y,p,note\n1,0.5,a\n0,0.5,"b\n1,0.25,c\n', "ends within quotes"),
    "text after a quote": (TABLE + '1,"0.5"x\n', "row 42 of column 'p' is '0.5x', not a number"),
    "beyond floats": (TABLE + "1,1e400\n", "row 42 of column 'p' is inf"),
    "gzip of nothing known": (b"\x1f\x8b" + bytes(range(200)), "gzip data are damaged"),
    "gzip cut off": (gzip.compress(TABLE.encode())[:-9], "gzip data are damaged"),
    "gzip and more": (gzip.compress(TABLE.encode()) + b"more", "gzip data are damaged"),
    "Parquet by name of CSV": (b"PAR1" + bytes(100), "is a Parquet file by its content"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_tables_are_refused_in_one_line(name, tmp_path, capsys):
    content, message = BAD[name]
    path = write(tmp_path / "bad.csv", content)
    found = refused(["report", path, *COLUMNS, *FAST], capsys)
    assert path in found
    assert re.search(message, found), found
    assert refused(["sketch", path, *COLUMNS, "--out", str(tmp_path / "s.npz")], capsys).count(path) == 1
    assert not (tmp_path / "s.npz").exists()


@pytest.mark.parametrize(
    "content",
    [TABLE, "\ufeff" + TABLE, TABLE.replace("\n", "\r\n"), TABLE.replace("\n", "\r"), TABLE + "\n\n"],
)
def test_harmless_oddities_are_read(content, tmp_path, capsys):
    plain = CalibrationSketch().update(*np.loadtxt(TABLE.splitlines()[1:], delimiter=",").T)
    for name, stored in (("t.csv", content.encode()), ("t.csv.gz", gzip.compress(content.encode()))):
        path = write(tmp_path / name, stored)
        assert main(["sketch", path, *COLUMNS, "--out", str(tmp_path / "s.json")]) == 0
        assert CalibrationSketch.load(tmp_path / "s.json") == plain
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            (["--encoding", name], "is not an encoding that Python supports")
            for name in ("base64", "hex", "zlib")
        ),
        (["--encoding", "x" * 10_000], "is not an encoding that Python supports"),
        (["--encoding", "punycode"], "contains bytes that are not punycode"),
        (["--encoding", "undefined"], "contains bytes that are not undefined"),
        (["--encoding", "utf-32"], "contains bytes that are not utf-32"),
        (["--delimiter", ""], "must be one character"),
        (["--delimiter", "\n"], "must not be a quote or the end of a line"),
        (["--delimiter", '"'], "must not be a quote or the end of a line"),
        (["--delimiter", " "], "has no column 'y'"),
        (["--delimiter", "\u2028"], "has no column 'y'"),
        (["--confidence", "nan"], "--confidence must lie strictly between 0 and 1"),
        (["--seed", "-1"], "--seed must be at least 0"),
        (["--n-resamples", "0"], "--n-resamples must be at least"),
        (["--pos-label", "\x1b[31m"], "does not occur among the outcomes"),
        (["--weight", "\x1b[31m"], r"has no column '\x1b[31m'"),
        (["--out", "/"], "--out names a folder"),
        (["--out", "no/\x1b[31m/r.html"], "its folder does not exist"),
        (["--out", "a" * 300], "File name too long|too long"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, message, tmp_path, capsys):
    if "/" in options[1] and os.name != "posix":
        pytest.skip("paths of POSIX")
    path = write(tmp_path / "t.csv", TABLE)
    beside = [] if options[0] in FAST else FAST
    found = refused(["report", path, *COLUMNS, *beside, *options], capsys)
    assert message in found or re.search(message, found), found


def test_damaged_parquet(tmp_path, capsys):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    y, p = np.arange(40) % 2, 0.05 + np.arange(40) % 10 / 10
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"y": y, "p": p}), path)
    whole = path.read_bytes()
    for length in (0, 1, 4, 8, 100, len(whole) - 9, len(whole) - 8, len(whole) - 4, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert "cannot be read as Parquet" in refused(["report", str(path), *COLUMNS], capsys)
    damaged = random.Random(0)
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(damaged.choice([1, 3, 20])):
            data[damaged.randrange(len(data))] = damaged.randrange(256)
        path.write_bytes(data)
        # pages carry no sums: a damaged number may look like one
        if main(["sketch", str(path), *COLUMNS, "--out", str(tmp_path / "s.npz")]):
            assert capsys.readouterr().err.startswith("sklearn_calib: error: ")
    capsys.readouterr()


@pytest.mark.parametrize("kind", ["list", "struct", "struct_y", "times", "names"])
def test_odd_parquet(kind, tmp_path, capsys):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    y, p = np.arange(40) % 2, 0.05 + np.arange(40) % 10 / 10
    columns, message = {
        "list": ({"y": y, "p": [[v] for v in p]}, "row 1 of column 'p' is '[0.05]', not a number"),
        "struct": ({"y": y, "p": [{"p": v} for v in p]}, "not a number"),
        "struct_y": ({"y": [{"a": "<b>"}] * 40, "p": p}, "not a number or a text"),
        "times": ({"y": y, "p": pa.array(y.astype("M8[s]"))}, "not a number"),
        "names": ({"y": y, "\x1b[31m<b>": p}, r"Its columns are 'y', '\x1b[31m<b>'"),
    }[kind]
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table(columns), path)
    assert message in refused(["report", str(path), *COLUMNS], capsys)


SKETCH = {
    "format": "sklearn_calib.CalibrationSketch", "version": 2, "precision": 17, "pos_label": None,
    "n_samples": 1, "bins": [1], "negatives": [1], "positives": [0], "offset": [0],
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is damaged or no saved"),
        ("[" * 100_000, "is damaged or no saved"),
        ('{"a":' * 100_000, "is damaged or no saved"),
        ("null", "not a saved CalibrationSketch"),
        ("1e999", "not a saved CalibrationSketch"),
        (SKETCH | {"version": 99}, "Read it with a newer release"),
        (SKETCH | {"precision": 10**30}, "is damaged"),
        (SKETCH | {"n_samples": -1}, "is damaged"),
        (SKETCH | {"bins": [10**30]}, "is damaged"),
        (SKETCH | {"bins": [[1]]}, "is damaged"),
        (SKETCH | {"bins": ["<b>"]}, "is damaged"),
        (SKETCH | {"negatives": [float("nan")]}, "is damaged"),
        (SKETCH | {"negatives": [1e308], "positives": [1e308]}, "is damaged"),
        (SKETCH | {"pos_label": {"\x1b[31m": ["<b>"]}}, "is damaged"),
    ],
)
def test_damaged_sketches_of_json(content, message, tmp_path, capsys):
    path = write(tmp_path / "s.json", content if isinstance(content, str) else json.dumps(content))
    found = refused(["report", path], capsys)
    assert message in found
    assert found.count(path) == 1
    refused(["sketch", path, path, "--out", str(tmp_path / "both.npz")], capsys)


def test_labels_of_sketches_are_text(tmp_path, capsys):
    evil = "".join(EVILS[1:])
    sketch = CalibrationSketch(pos_label=evil)
    y, p = np.loadtxt(TABLE.splitlines()[1:], delimiter=",").T
    sketch.update(np.where(y == 1, evil, "no"), p).save(tmp_path / "s.json")
    _, found, numbers, _ = report_on([str(tmp_path / "s.json")], tmp_path, capsys, columns=[])
    assert numbers["positive"] == evil
    assert seen(evil, found)


def test_damaged_sketches_of_arrays(tmp_path, capsys):
    y, p = np.loadtxt(TABLE.splitlines()[1:], delimiter=",").T
    path = tmp_path / "s.npz"
    CalibrationSketch().update(y, p).save(path)
    whole = path.read_bytes()
    damaged, kept = random.Random(1), 0
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(damaged.choice([1, 3, 20])):
            data[damaged.randrange(len(data))] = damaged.randrange(256)
        path.write_bytes(data)
        code = main(["sketch", str(path), "--out", str(tmp_path / "out.npz")])
        if code == 0:  # what was damaged tells nothing, such as a date
            kept += 1
            assert CalibrationSketch.load(tmp_path / "out.npz").event_rate == y.mean()
        else:
            assert capsys.readouterr().err.startswith("sklearn_calib: error: ")
    assert kept < 75
    # an array of objects would be a pickle, which is a program
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("head", "bins", "negatives", "positives", "offset"):
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, np.array([Bomb()], dtype=object), allow_pickle=True)
    capsys.readouterr()
    assert "is damaged or no saved" in refused(["report", str(path)], capsys)


class Bomb:
    """What would raise if it were loaded."""

    def __reduce__(self):
        return (pytest.fail, ("the pickle was loaded",))


@pytest.mark.thorough
def test_the_program_ends_with_a_line_and_a_code(tmp_path):
    """As a process: no traceback whatever the bytes, and pages of names that are no text."""
    path = write(tmp_path / "\x1b[31m<b>.csv", b"\x00\xff\xfe,;\n\x1b")
    command = [sys.executable, "-m", "sklearn_calib", "report"]
    done = subprocess.run([*command, path, *COLUMNS], capture_output=True, cwd=ROOT)
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.startswith(b"sklearn_calib: error: ")
    assert done.stderr.count(b"\n") == 1
    assert b"Traceback" not in done.stderr
    assert b"\x1b" not in done.stderr
