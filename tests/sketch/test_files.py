"""Sketches of files and of record batches: the cells of plain readers, and errors that say where."""

import csv
import gzip
import io
import itertools
import os
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from sklearn_calib.sketch import CalibrationSketch, sketch_batches, sketch_file
from sklearn_calib.sketch._files import Columns, table_files
from tests._optional import Missing, feather, parquet, pyarrow

pytestmark = pytest.mark.skipif(isinstance(pyarrow, Missing), reason="pyarrow reads files")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    p = np.round(rng.beta(1, 2, 2000), 6)
    return (rng.random(2000) < p).astype(int), p, rng.integers(0, 3, 2000)


def write(path, header, *columns):
    lines = [",".join(str(cell) for cell in row) for row in zip(*columns, strict=True)]
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def test_files_of_all_formats_make_the_sketch_of_their_rows(rows, tmp_path):
    y, p, w = rows
    table = pyarrow.table({"q": 1 - p, "p": p, "w": w.astype(float), "y": np.where(y, "yes", "no")})
    for folder in ("csv", "parquet", "feather", "mixed"):
        (tmp_path / folder).mkdir()
    write(tmp_path / "csv" / "a.csv", "y,p,w", np.where(y, "yes", "no")[:90], p[:90], w[:90])
    write(tmp_path / "csv" / "b.CSV", "w,p,y", w[90:], p[90:], np.where(y, " yes ", "no")[90:])
    parquet.write_table(table[:900], tmp_path / "parquet" / "0.parquet", row_group_size=100)
    parquet.write_table(table[900:], tmp_path / "parquet" / "1.pq")
    feather.write_feather(table, tmp_path / "feather" / "a.feather", chunksize=300)
    feather.write_feather(table[:7], tmp_path / "mixed" / "a.arrow")
    write(tmp_path / "mixed" / "b.csv", "y,p,w", np.where(y, "yes", "no")[7:], p[7:], w[7:])
    whole = CalibrationSketch(precision=12).update(y, p, sample_weight=w)
    for folder in ("csv", "parquet", "feather", "mixed"):
        given = {"y": "y", "p": "p", "sample_weight": "w", "precision": 12}
        found = sketch_file(tmp_path / folder, pos_label="yes", **given)
        assert (found, found.pos_label) == (whole, "yes")
        negative = sketch_file(sorted((tmp_path / folder).iterdir())[::-1], pos_label="no", **given)
        assert negative == CalibrationSketch(precision=12).update(1 - y, p, sample_weight=w)


def read(columns, path):
    """Return the columns of a file, the first ones with their labels."""
    parts = list(columns.batches([path]))
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return found | {name: columns.labels(name)[found[name]] for name in columns._labels}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("delimiter", [";", "\t", "|", ","])
def test_csv_of_all_kinds(tmp_path, packed, delimiter):
    text = (
        '\ufeff"the ""y""";"p ";name; w\r\n1;0.25;"a;b";1\r\n\r\n0;"0.5";"two\r\nlines";2\r\n'
        '1; 1e-3 ;é x;3\r\n0;+1.0;"q""q"; 4'
    ).replace(";", delimiter)
    rows = CalibrationSketch().update([1, 0, 1, 0], [0.25, 0.5, 0.001, 1.0], sample_weight=[1, 2, 3, 4])
    path = tmp_path / "a.csv"
    for encoding in ("utf-8", "utf-16"):
        content = text.removeprefix("\ufeff" if encoding == "utf-16" else "").encode(encoding)
        path.write_bytes(gzip.compress(content) if packed else content)
        assert sketch_file(path, y='the "y"', p="p", sample_weight="w") == rows
        found = read(Columns(["name"], ["p"]), path)
        assert found["name"].tolist() == [f"a{delimiter}b", "two\r\nlines", "é x", 'q"q']


def test_random_tables_are_read_as_by_the_csv_module(tmp_path):
    rng = np.random.default_rng(0)
    words = ["a", "a b", '"', "x\ny", ",", "1", "7.5", "ü", "x\r\ny", "'"]
    numbers = ["0.5", "1", "0", "1e-7", "+0.5", "0.1234567890123456789", "4.9e-324", ".25", "1."]
    path = tmp_path / "a.csv"
    for _ in range(20):
        pair = rng.choice(words, size=2, replace=False)
        cells = [[rng.choice(pair), rng.choice(numbers), rng.choice(words)] for _ in range(40)]
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, lineterminator=str(rng.choice(["\n", "\r\n"])))
        writer.writerows([["y", "p", "g"], *cells])
        path.write_bytes(stream.getvalue().encode("utf-8"))
        table = list(csv.DictReader(io.StringIO(stream.getvalue(), newline="")))
        found = read(Columns(["y", "g"], ["p"]), path)
        for name in ("y", "g"):
            assert found[name].tolist() == [row[name] for row in table]
        assert found["p"].tolist() == [float(row["p"]) for row in table]
        pos_label = str(max(pair))
        sketch = CalibrationSketch().update([row["y"] == pos_label for row in table], found["p"])
        assert sketch_file(path, y="y", p="p", pos_label=pos_label) == sketch


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["0,1.5"], "row 5002 of column 'p' is 1.5, not a probability in [0, 1]; percentages must"),
        (["0,half"], "row 5002 of column 'p' is 'half', not a number."),
        (['0,"0,5"'], "row 5002 of column 'p' is '0,5', not a number; write decimals with a point."),
        (["0,50%"], "row 5002 of column 'p' is '50%', not a number; write percentages as fractions."),
        (["0,"], "row 5002 of column 'p' is empty or missing"),
        (["n/a,0.5"], "row 5002 of column 'y' is empty or missing"),
        (['"two\nlines",0.5', "0,2"], "row 5003 of column 'p' is 2"),
        (["0,0.5,1"], "row 5002 has 3 cells, but the header has 2; quote cells that contain a delimiter"),
        (['"0,0.5'], "row 5002 has 1 cells, but the header has 2; quote cells that contain a delimiter, and"),
    ],
)
def test_errors_late_in_a_file_name_the_row(tmp_path, rows, message):
    path = tmp_path / "late.csv"
    path.write_text("\n".join(["y,p", *["1,0.5"] * 5000, *rows, *["1,0.5"] * 5]), encoding="utf-8")
    with pytest.raises(ValueError, match=r"late\.csv") as caught:
        sketch_file(path, y="y", p="p", pos_label=1)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_row_of_an_error_many_blocks_down(tmp_path):
    path = tmp_path / "a.csv"
    for last, message in (
        (b"0,7", "row 200002 of column 'p' is 7"),
        (b"\xff,0.5", "row 200002 of column 'y' contains bytes that are not UTF-8"),
        (b'"0,0.5', "row 200002 has 1 cells, but the header has 2; .* close all quotes"),
    ):
        path.write_bytes(b"y,p\n" + b"1,0.5\n" * 200_000 + last + b"\n" + b"1,0.5\n" * 100_000)
        with pytest.raises(ValueError, match=message):
            sketch_file(path, y="y", p="p")


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "bytes.csv"
    for content, message in (
        (gzip.compress(b"y,p\n1,0.5\n0,0.5\n")[:-9], r"bytes\.csv cannot be read .* Is it damaged"),
        (b'p,y,text\n0.5,0,a\n0.2,1,"half a', "a quote is not closed"),
        (b'y,p\n1,"' + b"x" * 2_000_000, "a row is longer than 524288 bytes; is a quote not closed"),
        (b"PAR1", "is a Parquet file by its content"),
        (b"\n \n", r"is empty\. It needs a line of column names"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            sketch_file(path, y="y", p="p")
    for name in ("a.parquet", "a.feather"):
        path.with_name(name).write_bytes(b"y,p\n1,0.5\n")
        with pytest.raises(ValueError, match=rf"{name} cannot be read"):
            sketch_file(path.with_name(name), y="y", p="p")
        with pytest.raises(FileNotFoundError):
            sketch_file(path.with_name(f"no-{name}"), y="y", p="p")


def test_a_pipe_can_be_read(tmp_path):
    path = tmp_path / "pipe"
    if not hasattr(os, "mkfifo"):
        pytest.skip("there are no named pipes here")
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_text("y,p\n1,0.5\n0,0.25\n", encoding="utf-8"))
    writer.start()
    assert sketch_file(path, y="y", p="p") == CalibrationSketch().update([1, 0], [0.5, 0.25])
    writer.join()


def test_parquet_cells_of_all_kinds(tmp_path):
    p, text = [0.5, 0.25, 1.0, 0.0], ["b", "a", "b", "b"]
    coded = pyarrow.DictionaryArray.from_arrays([2, 1, 2, 2], ["NA", "a", "b", "unused"])
    table = {
        "float": p,
        "single": pyarrow.array([0.5, 0.25, 1.0000001, 0.0], pyarrow.float32()),
        "decimal": [Decimal("0.5"), Decimal("0.25"), Decimal("1.00"), Decimal("0.00")],
        "digits": ["0.5", "0.25", "1", "0"],
        "codeddigits": pyarrow.array(["0.5", "0.25", "1", "0"]).dictionary_encode(),
        "whole": [3, 1, 3, 3],
        "flag": [True, False, True, True],
        "text": text,
        "large": pyarrow.array(text, pyarrow.large_string()),
        "coded": coded,
        "hole": [0.5, None, 1.0, None],
        "texthole": ["a", None, "b", None],
        "codedhole": pyarrow.array(["a", None, "b", None]).dictionary_encode(),
        "nan": [0.5, float("nan"), 1.0, 0.0],
        "lists": [[1], [2], [3], [4]],
    }
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table(table), path, row_group_size=3)
    expected = CalibrationSketch().update([1, 0, 1, 1], p)
    for column in ("float", "single", "decimal", "digits", "codeddigits"):
        assert sketch_file(path, y="text", p=column, pos_label="b") == expected
    for column, label in (("whole", 3), ("flag", None), ("large", "b"), ("coded", "b")):
        found = sketch_file(path, y=column, p="float", pos_label=label if label == "b" else None)
        assert (found, found.pos_label) == (expected, label)
    for y, column in (("text", "hole"), ("text", "nan"), ("texthole", "float"), ("codedhole", "float")):
        with pytest.raises(ValueError, match=f"row 2 of column '{column if y == 'text' else y}' is empty"):
            sketch_file(path, y=y, p=column, pos_label="b")
    for y, column, message in (
        ("lists", "float", "row 1 of column 'lists' has the type list"),
        ("text", "lists", "row 1 of column 'lists' or a later one is not a number"),
        ("coded", "text", "row 1 of column 'text' or a later one is not a number .*'b'"),
        ("text", "q", "no column 'q'. Its columns are 'float', 'single'"),
    ):
        with pytest.raises(ValueError, match=message):
            sketch_file(path, y=y, p=column)


@pytest.mark.parametrize(
    ("cells", "positive"),
    [(["1.0", "0.0", "1"], None), ([True, False, True], None), ([False, 2], 2), ([1, "1", 2, "2.0"], 2),
     ([0, -1, 1], ValueError), (["0.5", "1.5"], ValueError), (["a", 1], ValueError)],
)  # fmt: skip
def test_labels_keep_their_kind_over_files(cells, positive, tmp_path):
    for k, cell in enumerate(cells):
        parquet.write_table(pyarrow.table({"y": [cell], "p": [0.5]}), tmp_path / f"{k}.parquet")
    if positive is ValueError:
        with pytest.raises(ValueError, match=r"column 'y' has (the labels|3 or more)"):
            sketch_file(tmp_path, y="y", p="p")
        return
    found = sketch_file(tmp_path, y="y", p="p")
    assert (found.pos_label, found.n_samples) == (positive, len(cells))


@pytest.mark.parametrize(
    ("negative", "positive", "shown"),
    [("0", "1", None), ("-1", "1", None), ("0.0", "1.0", None), ("9", "10", 10), ("False", "True", None),
     (0, 1, None), (-1.0, 1.0, None), (9, 10, 10), (False, True, None)],
)  # fmt: skip
def test_labels_may_come_in_any_order(negative, positive, shown, tmp_path):
    p = np.array([0.125, 0.25, 0.5])
    for order in itertools.product([0, 1], repeat=3):
        y = np.array(order)
        if len(set(order)) < 2:
            continue
        table = pyarrow.table({"y": np.where(y, positive, negative), "p": p})
        for size in (1, 2):
            feather.write_feather(table, tmp_path / "a.feather", chunksize=size)
            found = sketch_file(tmp_path, y="y", p="p")
            assert (found, found.pos_label) == (CalibrationSketch().update(y, p), shown)
        assert sketch_file(tmp_path, y="y", p="p", pos_label=negative) == CalibrationSketch().update(1 - y, p)


@pytest.mark.parametrize(
    ("label", "pos_label", "expected"),
    [("0", None, 0), ("1", None, 1), ("-1", None, 0), ("7", None, None), ("a", None, None), ("a", "a", 1),
     ("a", "b", 0), ("7", 7, 1), ("7", "7", 1), ("0", 1, 0), ("1", 0, 0)],
)  # fmt: skip
def test_single_labels(label, pos_label, expected, tmp_path):
    path = write(tmp_path / "a.csv", "y,p", [label] * 3, [0.25, 0.5, 0.75])
    if expected is None:
        with pytest.raises(ValueError, match=r"has the labels .* Name the positive class by pos_label"):
            sketch_file(path, y="y", p="p")
        return
    found = sketch_file(path, y="y", p="p", pos_label=pos_label)
    assert found == CalibrationSketch().update([expected] * 3, [0.25, 0.5, 0.75])


def test_bad_arguments_and_rows(tmp_path, monkeypatch):
    path = write(tmp_path / "a.csv", "y,p,w", [0, 1, 2], [0.5, 0.25, 0.75], [1, -1, 1])
    good = {"path": path, "y": "y", "p": "p"}
    for change, error, message in (
        ({}, ValueError, r"a\.csv: column 'y' has 3 or more distinct outcomes \(0, 1, 2\)"),
        ({"p": "w"}, ValueError, "row 3 of column 'w' is -1, not a probability"),
        ({"sample_weight": "w"}, ValueError, "row 3 of column 'w' is negative"),
        ({"y": "p"}, ValueError, "column .p. is named for two purposes"),
        ({"y": "q"}, ValueError, "no column 'q'"),
        ({"y": 3}, TypeError, "y must be the name of a column, got 3"),
        ({"p": ["p"]}, TypeError, "p must be the name of a column"),
        ({"sample_weight": 1}, TypeError, "sample_weight must be the name of a column, got 1"),
        ({"precision": 99}, ValueError, "precision must be at most"),
        ({"path": tmp_path / "missing.csv"}, FileNotFoundError, r"missing\.csv"),
        ({"path": []}, ValueError, "path is empty"),
        ({"path": ""}, ValueError, "path is empty"),
    ):
        with pytest.raises(error, match=message):
            sketch_file(**{**good, **change})
    two = write(tmp_path / "two.csv", "y,p,p", [0, 1], [0.5, 0.5], [0.5, 0.25])
    with pytest.raises(ValueError, match="2 columns named 'p'"):
        sketch_file(two, y="y", p="p")
    with pytest.raises(ValueError, match=r"pos_label=7 is not among the labels \[0, 1\] of .*two\.csv"):
        sketch_file(write(two, "y,p", [0, 1], [0.5, 0.5]), y="y", p="p", pos_label=7)
    with pytest.raises(TypeError, match="batches must be an iterable of batches, got int"):
        sketch_batches(5)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'a\.csv: .*pip install "sklearn-calib\[report\]"'):
        sketch_file(tmp_path / "a.csv", y="y", p="p")


def test_files_of_folders(tmp_path):
    for name in ["b.csv", "a.csv.gz", "year=1/part-0.csv", "_SUCCESS", "_x/part.csv", ".b.csv", "c.txt"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    wanted = [tmp_path / name for name in ("a.csv.gz", "b.csv", "year=1/part-0.csv")]
    assert table_files(tmp_path) == wanted
    assert table_files([tmp_path / "c.txt", str(tmp_path / "year=1")]) == [tmp_path / "c.txt", wanted[2]]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="folder without files that end in"):
        table_files(tmp_path / "empty")


def test_parts_without_rows_do_not_matter_unless_all_are(tmp_path):
    for name, rows in (("a", ""), ("b", "1,0.5\n"), ("c", "")):
        (tmp_path / f"{name}.csv").write_text(f"y,p\n{rows}", encoding="utf-8")
    files = table_files(tmp_path)
    assert sketch_file(tmp_path, y="y", p="p").n_samples == 1
    with pytest.raises(ValueError, match=r"a\.csv, .*c\.csv: column names but no rows"):
        sketch_file([files[0], files[2]], y="y", p="p")
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"y": pyarrow.array([0, 1], pyarrow.int64()), "p": [0.5, 0.25]})
    with parquet.ParquetWriter(path, table.schema) as writer:
        for part in (table[:0], table, table[:0]):
            writer.write_table(part)
    assert sketch_file(path, y="y", p="p") == CalibrationSketch().update([0, 1], [0.5, 0.25])


MEMORY = """
import sys
from sklearn_calib.sketch import sketch_file

def peak():
    # not by getrusage, which counts the process that started this one
    (line,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
    return int(line.split()[1])

small, large = sys.argv[1:]
sketch_file(small, y="y", p="p")
one = peak()
print(sketch_file(large, y="y", p="p").n_samples, peak() - one)
"""


@pytest.mark.weekly
@pytest.mark.parametrize("kind", ["csv", "parquet", "feather"])
def test_memory_does_not_grow_with_the_file(tmp_path, kind):
    """A file of 4.5 million rows (72 MB as arrays) takes little more than one of 1.5 million."""
    if not Path("/proc/self/status").exists():
        pytest.skip("the system does not say how much memory a process takes")
    from pyarrow import csv as arrow_csv

    rng, files = np.random.default_rng(0), []
    for n_parts in (3, 9):
        files.append(str(tmp_path / f"{n_parts}.{kind}"))
        p = np.round(rng.random(n_parts * 500_000), 7)
        table = pyarrow.table({"y": (rng.random(p.shape[0]) < p).astype(np.int64), "p": p})
        if kind == "csv":
            arrow_csv.write_csv(table, files[-1])
        elif kind == "parquet":
            parquet.write_table(table, files[-1], row_group_size=500_000)
        else:
            feather.write_feather(table, files[-1], chunksize=500_000)
    command = [sys.executable, "-c", MEMORY, *files]
    shown = subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    n_samples, kilobytes = map(int, shown.split())
    assert n_samples == 4_500_000
    # what pyarrow keeps of freed memory differs from run to run
    assert kilobytes < 12_000
