"""Sketches of files: of the rows that are in them, however these are cut, ordered and labelled."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sklearn_calib.metrics import smooth_ece
from sklearn_calib.sketch import CalibrationSketch, sketch_arrow, sketch_batches, sketch_file
from sklearn_calib.sketch._columns import Column, Labels
from sklearn_calib.sketch._outcomes import OutcomeSketches
from tests._program import main

pytest.importorskip("pyarrow", reason="pyarrow reads files")
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


@pytest.mark.parametrize("batch_size", [1, 17, 100_000])
def test_files_make_the_sketch_of_their_rows(rows, tmp_path, batch_size):
    y, p, w = rows
    if batch_size == 1:
        y, p, w = y[:200], p[:200], w[:200]
    write(tmp_path / "a.csv", "y,p,w,q", y[:90], p[:90], w[:90], 1 - p[:90])
    write(tmp_path / "b.csv", "q,w,p,y", 1 - p[90:], w[90:], p[90:], y[90:])
    for path in (tmp_path, str(tmp_path / "?.csv"), [tmp_path / "b.csv", tmp_path / "a.csv"]):
        found = sketch_file(path, y="y", p="p", batch_size=batch_size)
        assert found == CalibrationSketch().update(y, p)
        assert found.pos_label is None
    found = sketch_file(tmp_path, y="y", p=["q", "p"], sample_weight="w", precision=12, batch_size=batch_size)
    assert found == CalibrationSketch(precision=12).update(y, p, sample_weight=w)
    negative = sketch_file(tmp_path, y="y", p=["p", "q"], pos_label=0, batch_size=batch_size)
    assert negative == CalibrationSketch().update(1 - y, 1 - p)
    assert negative.pos_label == 0


def test_parquet_and_csv_agree(rows, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    y, p, w = rows
    columns = {"y": np.where(y, "yes", "no"), "p": p, "w": w.astype(float)}
    (tmp_path / "parts").mkdir()
    parquet.write_table(
        pyarrow.table(columns).slice(0, 900), tmp_path / "parts" / "0.parquet", row_group_size=100
    )
    parquet.write_table(pyarrow.table(columns).slice(900), tmp_path / "parts" / "1.parquet")
    write(tmp_path / "a.csv", "y,p,w", columns["y"], p, w)
    whole = CalibrationSketch().update(y, p, sample_weight=w)
    for path in ("parts", "a.csv"):
        found = sketch_file(tmp_path / path, y="y", p="p", sample_weight="w", pos_label="yes", batch_size=333)
        assert found == whole
        assert found.pos_label == "yes"


def test_categories_that_no_row_has_are_no_labels(rows, tmp_path, capsys):
    pd = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    y, p, g = rows
    names = ["NA", "no", "no\0", "unknown", "yes"]
    frame = pd.DataFrame(
        {
            "y": pd.Categorical(np.where(y, "yes", "no"), categories=names),
            "p": p,
            "g": pd.Categorical(g * 2, categories=range(9)),
        }
    )
    table = pyarrow.Table.from_pandas(frame)
    whole = CalibrationSketch().update(y, p)
    frame.to_csv(tmp_path / "a.csv", index=False)
    parquet.write_table(table, tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        found = sketch_file(tmp_path / name, y="y", p="p", pos_label="yes", batch_size=333)
        assert found == whole
        assert found.pos_label == "yes"
    batches = table.to_batches(max_chunksize=500)
    assert sketch_arrow(batches, y="y", p="p", pos_label="yes") == whole
    for outcomes in (frame["y"], table["y"]):
        assert CalibrationSketch(pos_label="yes").update(outcomes, p) == whole
        assert smooth_ece(outcomes, p, pos_label="yes") == smooth_ece(y, p)
    out = tmp_path / "report.json"
    given = [
        "--y",
        "y",
        "--p",
        "p",
        "--pos-label",
        "yes",
        "--group",
        "g",
        "--n-resamples",
        "20",
        "--json",
        str(out),
    ]
    assert main(["report", str(tmp_path / "a.parquet"), *given]) == 0
    report = json.loads(out.read_text(encoding="utf-8"))
    assert report["positive"] == "yes"
    assert [part["name"] for part in report["groups"]] == ["0", "2", "4"]
    capsys.readouterr()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("negative", "positive", "shown"),
    [
        ("0", "1", None),
        ("-1", "1", None),
        ("0.0", "1.0", None),
        ("1", "2", 2),
        ("9", "10", 10),
        ("-1", "0", 0),
        ("False", "True", "True"),
    ],
)
def test_labels_may_come_in_any_order(negative, positive, shown, tmp_path):
    p = np.array([0.125, 0.25, 0.5, 0.625])
    for order in itertools.product([0, 1], repeat=4):
        y = np.array(order)
        if len(set(order)) < 2:
            continue
        path = write(tmp_path / "a.csv", "y,p", np.where(y, positive, negative), p)
        for batch_size in (1, 2, 3):
            found = sketch_file(path, y="y", p="p", batch_size=batch_size)
            assert found == CalibrationSketch().update(y, p)
            assert found.pos_label == shown
        assert sketch_file(path, y="y", p="p", pos_label=negative) == CalibrationSketch().update(1 - y, p)


def test_the_positive_class_of_texts_is_not_guessed(tmp_path):
    path = write(tmp_path / "a.csv", "y,p,q", ["no", "yes", "yes"], [0.25, 0.5, 0.75], [0.75, 0.5, 0.25])
    with pytest.raises(ValueError, match=r"column 'y' contains the labels \['no', 'yes'\].* pos_label='yes'"):
        sketch_file(path, y="y", p="p")
    expected = CalibrationSketch().update([0, 1, 1], [0.25, 0.5, 0.75])
    assert sketch_file(path, y="y", p="p", pos_label="yes") == expected
    assert sketch_file(path, y="y", p=["q", "p"]) == expected


@pytest.mark.parametrize(
    ("label", "pos_label", "expected"),
    [("0", None, 0), ("1", None, 1), ("-1", None, 0), ("7", None, None), ("a", None, None), ("a", "a", 1),
     ("a", "b", 0), ("7", 7, 1), ("7", "7", 1), ("0", 1, 0), ("1", 0, 0)],
)  # fmt: skip
def test_single_labels(label, pos_label, expected, tmp_path):
    path = write(tmp_path / "a.csv", "y,p", [label] * 3, [0.25, 0.5, 0.75])
    if expected is None:
        with pytest.raises(
            ValueError, match=r"a\.csv: column 'y' contains the single label .* Name it by pos_label"
        ):
            sketch_file(path, y="y", p="p", pos_label=pos_label)
        return
    found = sketch_file(path, y="y", p="p", pos_label=pos_label, batch_size=2)
    assert found == CalibrationSketch().update([expected] * 3, [0.25, 0.5, 0.75])


def test_groups_have_sketches_of_their_own(rows):
    pyarrow = pytest.importorskip("pyarrow")
    y, p, w = rows
    names, groups = np.where(y, "b", "a"), np.random.default_rng(1).integers(0, 20, 2000)
    order = np.argsort(1 - y, kind="stable")
    for weights in (None, w):
        labels = Labels()
        sketches = OutcomeSketches(labels, "here", 14, "b")
        for rows_of_part in np.split(order, [5, 700, 701, 1500]):
            codes = labels.encode(Column("here", "y", pyarrow.array(names[rows_of_part]), 1))
            part = None if weights is None else weights[rows_of_part]
            sketches.add(codes, p[rows_of_part], part, groups[rows_of_part])
        found = sketches.result()
        assert sorted(found) == list(range(20))
        for group, sketch in found.items():
            of = groups == group
            part = None if weights is None else weights[of]
            assert sketch == CalibrationSketch(precision=14).update(y[of], p[of], sample_weight=part)
            assert sketch.pos_label == "b"


def test_bad_arguments_and_rows(tmp_path):
    path = write(tmp_path / "a.csv", "y,p,w", [0, 1, 2], [0.5, 0.25, 0.75], [1, -1, 1])
    good = {"path": path, "y": "y", "p": "p"}
    for change, error, message in (
        ({}, ValueError, r"a\.csv: column 'y' has 3 or more distinct outcomes \(0, 1, 2\)"),
        ({"p": "w"}, ValueError, "row 3 of column 'w' is -1, not a probability"),
        ({"sample_weight": "w"}, ValueError, "row 3 of column 'w' is -1. Weights must not be negative"),
        ({"y": "p"}, ValueError, "3 or more distinct outcomes"),
        ({"y": "q"}, ValueError, "has no column 'q'"),
        ({"y": 3}, TypeError, "y must be the name of a column, got 3"),
        ({"p": [3]}, TypeError, "p must be the name of a column, got 3"),
        ({"p": []}, ValueError, "p must name one column or two, got 0"),
        ({"p": ["a", "b", "c"]}, ValueError, "p must name one column or two, got 3"),
        ({"sample_weight": 1}, TypeError, "sample_weight must be the name of a column, got 1"),
        ({"precision": 99}, ValueError, "precision must be at most"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"delimiter": ", "}, ValueError, "delimiter must be one character"),
        ({"encoding": "no"}, ValueError, "not an encoding"),
        ({"path": tmp_path / "missing.csv"}, FileNotFoundError, r"missing\.csv"),
        ({"path": []}, ValueError, "path is empty"),
    ):
        with pytest.raises(error, match=message):
            sketch_file(**{**good, **change})
    two = write(tmp_path / "two.csv", "y,p,q", [0, 1], [0.5, 0.5], [0.5, 0.25])
    with pytest.raises(ValueError, match="pos_label=7 does not occur among the outcomes"):
        sketch_file(two, y="y", p="p", pos_label=7)
    with pytest.raises(ValueError, match=r"row 1 sums to 0\.75"):
        sketch_file(two, y="y", p=["q", "p"])


def test_progress_counts_bytes(rows, tmp_path, capsys, monkeypatch):
    y, p, _ = rows
    files = [write(tmp_path / f"{k}.csv", "y,p", y, p) for k in range(3)]
    seen = []
    whole = sketch_file(tmp_path, y="y", p="p", batch_size=500, progress=lambda *what: seen.append(what))
    size = sum(file.stat().st_size for file in files)
    done = [at for at, _, _ in seen]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, size)
    assert {total for _, total, _ in seen} == {size}
    assert [name for name, _ in itertools.groupby(name for _, _, name in seen)] == ["0.csv", "1.csv", "2.csv"]
    assert sketch_file(tmp_path, y="y", p="p") == whole
    assert capsys.readouterr().err == ""
    pytest.importorskip("tqdm")
    assert sketch_file(tmp_path, y="y", p="p", progress=True) == whole
    assert "2.csv:" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ImportError, match="tqdm"):
        sketch_file(tmp_path, y="y", p="p", progress=True)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_without_pyarrow_files_are_refused(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / name).write_bytes(b"y,p\n1,0.5\n")
    with pytest.raises(ImportError, match=rf'{name}: .*pip install "sklearn-calib\[report\]"'):
        sketch_file(tmp_path, y="y", p="p")


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
sketch = sketch_file(large, y="y", p="p")
print(sketch.n_samples, peak() - one)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path, kind):
    """A file of 4.5 million rows (72 MB as arrays) takes little more than one of 1.5 million."""
    if not Path("/proc/self/status").exists():
        pytest.skip("the system does not say how much memory a process takes")
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow writes and reads fast")
    from pyarrow import csv, parquet

    rng = np.random.default_rng(0)
    files = []
    for n_parts in (3, 9):
        files.append(str(tmp_path / f"{n_parts}.{kind}"))
        schema = pyarrow.schema([("y", pyarrow.int64()), ("p", pyarrow.float64())])
        with {"csv": csv.CSVWriter, "parquet": parquet.ParquetWriter}[kind](files[-1], schema) as writer:
            for _ in range(n_parts):
                p = np.round(rng.random(500_000), 7)
                y = (rng.random(500_000) < p).astype(np.int64)
                writer.write_table(pyarrow.table({"y": y, "p": p}))
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, *files],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    n_samples, grown = (int(word) for word in done.stdout.split()[-2:])
    assert n_samples == 4_500_000
    # kilobytes; what pyarrow keeps of freed memory differs from run to run
    assert grown < 12_000


def test_what_holds_no_tables_is_refused():
    with pytest.raises(TypeError, match="batches must be an iterable of batches, got int"):
        sketch_batches(5)
    with pytest.raises(TypeError, match="batches must contain pyarrow record batches, got int"):
        sketch_arrow([5], y="y", p="p")
    with pytest.raises(ValueError, match="path is an empty text"):
        sketch_file("", y="y", p="p")
