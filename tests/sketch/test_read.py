"""Reading CSV and Parquet some rows at a time: the cells of plain readers, and errors that say where."""

import csv
import gzip
import io
import os
import threading
from decimal import Decimal

import numpy as np
import pytest

from sklearn_calib.report import calibration_report
from sklearn_calib.sketch import CalibrationSketch, sketch_file
from sklearn_calib.sketch._read import table_files
from tests._program import main

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow reads files")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = CalibrationSketch().update([1, 0, 1, 0], [0.25, 0.5, 0.001, 1.0], sample_weight=[1, 2, 3, 4])


@pytest.mark.parametrize("batch_size", [1, 3, 1000])
@pytest.mark.parametrize("packed", [False, True])
def test_csv_of_all_kinds(tmp_path, batch_size, packed):
    text = (
        '\ufeff"the ""y""";"p ";name; w\r\n1;0.25;"a;b";1\r\n\r\n0;"0.5";"two\r\nlines";2\r\n'
        '1; 1e-3 ;é x;3\r\n0;+1.0;"q""q"; 4'
    )
    path = tmp_path / "a.csv"
    path.write_bytes(gzip.compress(text.encode("utf-8")) if packed else text.encode("utf-8"))
    given = {"p": "p", "sample_weight": "w", "delimiter": ";", "batch_size": batch_size}
    assert sketch_file(path, y='the "y"', **given) == ROWS
    with pytest.raises(ValueError, match="or more distinct outcomes"):
        sketch_file(path, y="name", pos_label="a;b", **given)


def test_other_encodings(tmp_path):
    path = tmp_path / "a.csv"
    for encoding in ("latin-1", "utf-16", "utf-8", "cp1252"):
        path.write_bytes("ö,p\nä,0.5\nö,0.25\n".encode(encoding))
        found = sketch_file(path, y="ö", p="p", pos_label="ö", encoding=encoding)
        assert found == CalibrationSketch().update([0, 1], [0.5, 0.25])
        assert found.pos_label == "ö"


def test_random_tables_are_read_as_by_the_csv_module(tmp_path):
    rng = np.random.default_rng(0)
    words = ["a", "a b", '"', "x\ny", ",", "1", "TRUE", "ü", "x\r\ny", "'"]
    numbers = ["0.5", "1", "0", "1e-7", "+0.5", "0.1234567890123456789", "4.9e-324", ".25", "1."]
    path = tmp_path / "a.csv"
    for _ in range(60):
        pair = rng.choice(words, size=2, replace=False)
        cells = [[rng.choice(pair), rng.choice(numbers), rng.choice(words)] for _ in range(40)]
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, lineterminator=str(rng.choice(["\n", "\r\n"])))
        writer.writerows([["y", "p", "g"], *cells])
        path.write_bytes(stream.getvalue().encode("utf-8"))
        table = list(csv.DictReader(io.StringIO(stream.getvalue(), newline="")))
        p = [float(row["p"]) for row in table]
        pos_label = str(max(pair))
        expected = CalibrationSketch().update([row["y"] == pos_label for row in table], p)
        batch_size = int(rng.integers(1, 50))
        assert sketch_file(path, y="y", p="p", pos_label=pos_label, batch_size=batch_size) == expected


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["0,1.5"], "row 5002 of column 'p' is 1.5, not a probability in [0, 1]. These look like perc"),
        (["0,-1"], "row 5002 of column 'p' is -1, not a probability in [0, 1]. Convert scores"),
        (["0,half"], "row 5002 of column 'p' is 'half', not a number."),
        (["0,inf"], "row 5002 of column 'p' is inf"),
        (["0,"], "column 'p' has empty or missing cells, the first in row 5002"),
        (["0,NaN"], "column 'p' has empty or missing cells, the first in row 5002"),
        (["0,#N/A"], "column 'p' has empty or missing cells, the first in row 5002"),
        ([",0.5"], "column 'y' has empty or missing cells, the first in row 5002"),
        (["n/a,0.5"], "column 'y' has empty or missing cells, the first in row 5002"),
        (['"two\nlines",0.5', "0,2"], "row 5003 of column 'p' is 2"),
        (["0,0.5,1"], "row 5002 has 3 cells, but the header has 2. Quote cells that contain a comma."),
        (["0"], "row 5002 has 1 cells, but the header has 2."),
    ],
)
def test_errors_late_in_a_file_name_the_row(tmp_path, rows, message):
    path = tmp_path / "late.csv"
    path.write_text("\n".join(["y,p", *["1,0.5"] * 5000, *rows, *["1,0.5"] * 5]), encoding="utf-8")
    with pytest.raises(ValueError, match=r"late\.csv") as caught:
        sketch_file(path, y="y", p="p", batch_size=700)
    assert message in str(caught.value)


def test_the_row_of_an_error_many_blocks_down(tmp_path):
    path = tmp_path / "a.csv"
    for last, message in (
        (b"0,7", "row 300002 of column 'p' is 7"),
        (b"\xff,0.5", "row 300002 of column 'y' contains bytes that are not utf-8"),
        (b"0,x", "row 300002 of column 'p' is 'x', not a number"),
    ):
        path.write_bytes(b"y,p\n" + b"1,0.5\n" * 300_000 + last + b"\n1,0.5\n")
        with pytest.raises(ValueError, match=message):
            sketch_file(path, y="y", p="p")


def test_damaged_bytes_are_refused(tmp_path):
    path = tmp_path / "bytes.csv"
    data = gzip.compress(b"y,p\n1,0.5\n\xff,0.5\n")
    path.write_bytes(data)
    with pytest.raises(ValueError, match="row 3 of column 'y' contains bytes"):
        sketch_file(path, y="y", p="p")
    path.write_bytes(data[:-9])
    with pytest.raises(ValueError, match=r"bytes\.csv: the gzip data are damaged"):
        sketch_file(path, y="y", p="p")
    path.write_bytes(b"p,y\n0.5,no\n0.2,yes\xc3")
    with pytest.raises(ValueError, match="row 3"):
        sketch_file(path, y="y", p="p")
    path.write_bytes("y,p\n1,0.5\nä,0.5\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"bytes\.csv contains bytes that are not ascii"):
        sketch_file(path, y="y", p="p", encoding="ascii")


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
    table = {
        "float": p,
        "single": pyarrow.array(p, pyarrow.float32()),
        "decimal": [Decimal("0.5"), Decimal("0.25"), Decimal("1.00"), Decimal("0.00")],
        "digits": ["0.5", "0.25", "1", "0"],
        "whole": [3, 1, 3, 3],
        "flag": [True, False, True, True],
        "text": text,
        "large": pyarrow.array(text, pyarrow.large_string()),
        "coded": pyarrow.array(text).dictionary_encode(),
        "hole": [0.5, None, 1.0, None],
        "texthole": ["a", None, "b", None],
        "codedhole": pyarrow.array(["a", None, "b", None]).dictionary_encode(),
        "nan": [0.5, float("nan"), 1.0, 0.0],
        "lists": [[1], [2], [3], [4]],
    }
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table(table), path, row_group_size=3)
    expected = CalibrationSketch().update([1, 0, 1, 1], p)
    for batch_size in (1, 3, 100):
        for column in ("float", "single", "decimal", "digits"):
            found = sketch_file(path, y="text", p=column, pos_label="b", batch_size=batch_size)
            assert found == expected
        for column, label in (("whole", 3), ("flag", None), ("large", "b"), ("coded", "b")):
            given = {"pos_label": label if isinstance(label, str) else None, "batch_size": batch_size}
            found = sketch_file(path, y=column, p="float", **given)
            assert (found, found.pos_label) == (expected, label)
        for y, column in (("text", "hole"), ("text", "nan"), ("texthole", "float"), ("codedhole", "float")):
            wrong = column if y == "text" else y
            message = f"column '{wrong}' has empty or missing cells, the first in row 2"
            with pytest.raises(ValueError, match=message):
                sketch_file(path, y=y, p=column, pos_label="b", batch_size=batch_size)
    for y, column, message in (
        ("lists", "float", r"row 1 of column 'lists' is '\[1\]', not a number or a text"),
        ("text", "lists", r"row 1 of column 'lists' is '\[1\]', not a number"),
        ("text", "text", "row 1 of column 'text' is 'b', not a number"),
        ("text", "q", "has no column 'q'"),
    ):
        with pytest.raises(ValueError, match=message):
            sketch_file(path, y=y, p=column)


@pytest.mark.parametrize(
    ("cells", "positive"),
    [
        (["1.0", "0.0", "1"], None),
        (["0.5", "1.5"], "1.5"),
        ([True, False, True], None),
        ([False, 2], 2),
        ([1, "1", 2, "2.0"], 2),
        ([12345678901234567, 12345678901234568], "12345678901234568"),
        (["inf", "1"], "inf"),
    ],
)
def test_labels_keep_their_kind_over_files(cells, positive, tmp_path):
    for k, cell in enumerate(cells):
        parquet.write_table(pyarrow.table({"y": [cell], "p": [0.5]}), tmp_path / f"{k}.parquet")
    found = sketch_file(tmp_path, y="y", p="p")
    assert (found.pos_label, type(found.pos_label)) == (positive, type(positive))
    assert found.n_samples == len(cells)


def test_groups_are_read_as_they_are_written(tmp_path, capsys):
    names = ["a;b", "two\nlines", "é x", 'q"q'] * 12
    p = np.tile([0.25, 0.75], 24)
    path = tmp_path / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["y", "p", "g"], *zip(np.tile([0, 1, 1], 16), p, names, strict=True)])
    assert main(["report", str(path), "--y", "y", "--p", "p", "--group", "g", "--n-resamples", "20"]) == 0
    expected = calibration_report(np.tile([0, 1, 1], 16), p, groups=names, name="a.csv", n_resamples=20)
    assert capsys.readouterr().out.strip() == str(expected)


def test_files_of_folders_and_patterns(tmp_path):
    names = [
        "b.csv",
        "a.csv.gz",
        "year=1/part-0.csv",
        "_SUCCESS",
        "_x/part.csv",
        ".a.csv.crc",
        ".b.csv",
        "c.txt",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    wanted = [tmp_path / name for name in ("a.csv.gz", "b.csv", "year=1/part-0.csv")]
    assert table_files(tmp_path) == wanted
    assert table_files(str(tmp_path / "*.csv*")) == wanted[:2]
    assert table_files([tmp_path / "c.txt", str(tmp_path / "year=*" / "*")]) == [
        tmp_path / "c.txt",
        wanted[2],
    ]
    assert table_files(tmp_path / "missing.csv") == [tmp_path / "missing.csv"]
    with pytest.raises(ValueError, match="matches no file"):
        table_files(str(tmp_path / "*.parquet"))
    (tmp_path / "d.parquet").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="both CSV and Parquet"):
        table_files(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="folder without files that end in"):
        table_files(tmp_path / "empty")
    with pytest.raises(ValueError, match="path is empty"):
        table_files([])
    with pytest.raises(TypeError, match="path must be a path"):
        table_files([3])
    with pytest.raises(TypeError, match="path must be a path"):
        table_files(3)


def test_parts_without_rows_do_not_matter_unless_all_are(tmp_path):
    for name, rows in (("a", ""), ("b", "1,0.5\n"), ("c", "")):
        (tmp_path / f"{name}.csv").write_text(f"y,p\n{rows}", encoding="utf-8")
    files = table_files(tmp_path)
    assert sketch_file(tmp_path, y="y", p="p").n_samples == 1
    with pytest.raises(ValueError, match=r"a\.csv and the 1 files after it have column names but no rows"):
        sketch_file([files[0], files[2]], y="y", p="p")
    with pytest.raises(ValueError, match=r"a\.csv has column names but no rows"):
        sketch_file(files[0], y="y", p="p")


def test_parquet_without_rows_and_without_a_file(tmp_path):
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"y": pyarrow.array([0, 1], pyarrow.int64()), "p": [0.5, 0.25]})
    with parquet.ParquetWriter(path, table.schema) as writer:
        for part in (table[:0], table, table[:0]):
            writer.write_table(part)
    assert sketch_file(path, y="y", p="p") == CalibrationSketch().update([0, 1], [0.5, 0.25])
    parquet.write_table(table[:0], path)
    with pytest.raises(ValueError, match=r"a\.parquet has column names but no rows"):
        sketch_file(path, y="y", p="p")
    with pytest.raises(FileNotFoundError, match="No such file"):
        sketch_file(tmp_path / "b.parquet", y="y", p="p")
