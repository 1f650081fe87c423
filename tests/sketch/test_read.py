"""Reading CSV and Parquet some rows at a time: the same cells by both readers, and errors that say where."""

import csv
import gzip
import io
import sys
from decimal import Decimal

import numpy as np
import pytest

from sklearn_calib.sketch import sketch_file
from sklearn_calib.sketch._columns import Coded, Column, Labels
from sklearn_calib.sketch._read import read_blocks, table_files


@pytest.fixture(params=["pyarrow", "csv module"])
def engine(request, monkeypatch):
    """Read CSV with pyarrow first, and without it."""
    if request.param == "pyarrow":
        pytest.importorskip("pyarrow", reason="pyarrow reads ahead")
    else:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
    return request.param


def whole(path, names, numeric=("p",), **options):
    """Return whole columns: numbers, or the label of each row."""
    table = {name: Labels() for name in names}
    parts = {name: [] for name in names}
    for block, _ in read_blocks([path], names, numeric=numeric, **options):
        assert len({len(column) for column in block.values()}) == 1
        for name in names:
            parts[name].append(block[name].numbers() if name in numeric else table[name].encode(block[name]))
    joined = {name: np.concatenate(part) for name, part in parts.items()}
    return [
        (joined[name] if name in numeric else table[name].values()[joined[name]]).tolist() for name in names
    ]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 1000])
@pytest.mark.parametrize("packed", [False, True])
def test_csv_of_all_kinds(engine, tmp_path, batch_size, packed):
    text = (
        '\r\n\ufeff"y";"p ";name\r\n1;0.25;"a;b"\r\n\r\n0;"0.5";"two\r\nlines"\r\n1; 1e-3 ;é"x"\n0;1;"q""q"'
    )
    text = text.replace('é"x"', "é x").removeprefix("\r\n")
    path = tmp_path / "a.csv"
    path.write_bytes(gzip.compress(text.encode("utf-8")) if packed else text.encode("utf-8"))
    p, y, name = whole(path, ["p", "y", "name"], delimiter=";", batch_size=batch_size)
    assert p == [0.25, 0.5, 0.001, 1.0]
    assert y == [1, 0, 1, 0]
    assert name == ["a;b", "two\r\nlines", "é x", 'q"q']


def test_other_encodings(engine, tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes("y,p\nä,0.5\nö,0.25\n".encode("latin-1"))
    assert whole(path, ["y"], encoding="latin-1") == [["ä", "ö"]]
    path.write_bytes("y,p\nä,0.5\n".encode("utf-16"))
    assert whole(path, ["y", "p"], encoding="utf-16") == [["ä"], [0.5]]


def test_both_readers_agree_on_random_tables(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow", reason="pyarrow reads ahead")
    rng = np.random.default_rng(0)
    words = ["", "a", "a b", '"', "x\ny", ",", " 1", "1", "1.0", "TRUE", "ü", "x\r\ny", "NA "]
    numbers = ["0.5", "1", "0", "1e-7", "+0.5", " 0.25 ", "0.1234567890123456789", "4.9e-324", "1_0"]
    outcomes = {True: 0, False: 0}
    for trial in range(150):
        n, path = int(rng.integers(1, 40)), tmp_path / f"{trial}.csv"
        some_words = rng.choice(words, size=3)
        some_numbers = rng.choice(numbers, size=4)
        rows = [[rng.choice(some_words), rng.choice(some_numbers), rng.choice(some_words)] for _ in range(n)]
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, lineterminator=str(rng.choice(["\n", "\r\n"])))
        writer.writerows([["y", "p", "g"], *rows])
        text = stream.getvalue()
        if trial % 5 == 0:
            place = int(rng.integers(6, len(text)))
            text = text[:place] + str(rng.choice(["\n", ",", '"', "x", "\n\n"])) + text[place:]
        path.write_bytes(text.encode("utf-8"))
        found = []
        for hidden in (False, True):
            with monkeypatch.context() as context:
                if hidden:
                    context.setitem(sys.modules, "pyarrow", None)
                try:
                    found.append(whole(path, ["y", "p", "g"], batch_size=int(rng.integers(1, 30))))
                except ValueError:
                    found.append("refused")
        assert found[0] == found[1], text
        outcomes[found[0] == "refused"] += 1
    assert min(outcomes.values()) > 20, outcomes


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["0,1.5"], "line 5002 of column 'p' is 1.5, not a probability in [0, 1]. These look like perc"),
        (["0,-1"], "line 5002 of column 'p' is -1, not a probability in [0, 1]. Scores first"),
        (["0,half"], "line 5002 of column 'p' is 'half', not a number."),
        (["0,inf"], "line 5002 of column 'p' is 'inf'"),
        (["0,"], "column 'p' has empty or missing cells, the first in line 5002"),
        (["0,NaN"], "column 'p' has empty or missing cells, the first in line 5002"),
        ([",0.5"], "column 'y' has empty or missing cells, the first in line 5002"),
        (["", "", "0,2"], "line 5004 of column 'p' is 2"),
        (['"two\nlines",0.5', "0,2"], "line 5004 of column 'p' is 2"),
        (["0,0.5,1"], "line 5002 has 3 cells, but the header has 2"),
        (['0,"0.5'], "cannot be read as CSV"),
    ],
)
def test_errors_late_in_a_file_name_the_line(engine, tmp_path, rows, message):
    path = tmp_path / "late.csv"
    path.write_text("\n".join(["y,p", *["1,0.5"] * 5000, *rows, *["1,0.5"] * 5]), encoding="utf-8")
    table = Labels()

    def read():
        for block, _ in read_blocks([path], ["y", "p"], numeric=["p"], batch_size=700):
            table.encode(block["y"])
            block["p"].probabilities()

    with pytest.raises(ValueError, match=r"late\.csv") as caught:
        read()
    assert message in str(caught.value)


@pytest.mark.thorough
def test_bytes_that_cannot_be_decoded_are_found(engine, tmp_path):
    path = tmp_path / "bytes.csv"
    for n_rows in (3, 400_000):
        path.write_bytes(b"y,p\n" + b"1,0.5\n" * n_rows + b"\xff,0.5\n" + b"1,0.5\n" * 9)
        with pytest.raises(ValueError, match=f"line {n_rows + 2} holds bytes that are not utf-8"):
            whole(path, ["y", "p"])
    data = gzip.compress(b"y,p\n1,0.5\n\xff,0.5\n")
    path.write_bytes(data)
    with pytest.raises(ValueError, match="line 3 holds bytes"):
        whole(path, ["y", "p"])
    path.write_bytes(data[:-9])
    with pytest.raises(ValueError, match=r"bytes\.csv: "):
        whole(path, ["p", "y"])


def test_a_pipe_can_be_read(tmp_path):
    import os
    import threading

    path = tmp_path / "pipe"
    if not hasattr(os, "mkfifo"):
        pytest.skip("there are no named pipes here")
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_text("y,p\n1,0.5\n0,0.25\n", encoding="utf-8"))
    writer.start()
    assert whole(path, ["y", "p"]) == [[1, 0], [0.5, 0.25]]
    writer.join()


@pytest.mark.thorough
def test_positions_grow_to_the_size(engine, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,p\n" + "1,0.5\n" * 300_000, encoding="utf-8")
    positions = [at for _, at in read_blocks([path, path], ["y", "p"], numeric=["p"], batch_size=50_000)]
    assert positions == sorted(positions)
    assert positions[-1] == 2 * path.stat().st_size
    assert len(positions) >= 12


def test_parquet_cells_of_all_kinds(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow reads Parquet")
    from pyarrow import parquet

    text = ["b", "a", "b", "c"]
    table = {
        "float": [0.5, 0.25, 1.0, 0.0],
        "single": pyarrow.array([0.5, 0.25, 1.0, 0.0], pyarrow.float32()),
        "whole": [3, 1, 3, 2],
        "flag": [True, False, True, True],
        "text": text,
        "large": pyarrow.array(text, pyarrow.large_string()),
        "coded": pyarrow.array(text).dictionary_encode(),
        "decimal": [Decimal("0.5"), Decimal("0.25"), Decimal("1.00"), Decimal("0.00")],
        "digits": ["0.5", "0.25", "1", "0"],
        "hole": [0.5, None, 1.0, None],
        "texthole": ["a", None, "b", None],
        "nan": [0.5, float("nan"), 1.0, 0.0],
        "lists": [[1], [2], [3], [4]],
    }
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table(table), path, row_group_size=3)
    numeric = ["float", "single", "decimal", "digits"]
    for batch_size in (1, 3, 100):
        assert whole(path, numeric, numeric, batch_size=batch_size) == [[0.5, 0.25, 1.0, 0.0]] * 4
        labels = whole(path, ["whole", "flag", "text", "large", "coded"], batch_size=batch_size)
        assert labels == [[3, 1, 3, 2], [True, False, True, True], text, text, text]
        for name in ("hole", "nan"):
            with pytest.raises(
                ValueError, match=f"column '{name}' has empty or missing cells, the first in row 2"
            ):
                whole(path, [name], [name], batch_size=batch_size)
        with pytest.raises(
            ValueError, match="column 'texthole' has empty or missing cells, the first in row 2"
        ):
            whole(path, ["texthole"], batch_size=batch_size)
    with pytest.raises(ValueError, match=r"row 1 of column 'lists' is '\[1\]', not a number or a text"):
        whole(path, ["lists"])
    with pytest.raises(ValueError, match="row 1 of column 'text' is 'b', not a number"):
        whole(path, ["text"], ["text"])
    with pytest.raises(ValueError, match="has no column 'q'"):
        whole(path, ["q"])


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1.0", "0.0", "1"], [1, 0, 1]),
        (["0.5", "1.5"], ["0.5", "1.5"]),
        (["01x", "2 "], ["01x", "2"]),
        ([True, False, True], [True, False, True]),
        ([True, 2], [1, 2]),
        ([1, "1"], [1, 1]),
        ([12345678901234567, 12345678901234568], ["12345678901234567", "12345678901234568"]),
        (["inf", "1"], ["inf", "1"]),
    ],
)
def test_labels_keep_their_kind(cells, values):
    table = Labels()
    for start in range(len(cells)):
        codes = table.encode(Column("a.csv", "y", cells[: start + 1], str))
    assert table.values()[codes].tolist() == values
    assert [type(v) for v in table.values()[codes].tolist()] == [type(v) for v in values]
    assert Coded(codes, [0] * len(cells)).cells() == [0] * len(cells)


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


def test_parts_without_rows_do_not_matter_unless_all_are(engine, tmp_path):
    for name, rows in (("a", ""), ("b", "1,0.5\n"), ("c", "")):
        (tmp_path / f"{name}.csv").write_text(f"y,p\n{rows}", encoding="utf-8")
    files = table_files(tmp_path)
    assert sum(len(block["y"]) for block, _ in read_blocks(files, ["y", "p"])) == 1
    with pytest.raises(ValueError, match=r"a\.csv and the 1 files after it have column names but no rows"):
        list(read_blocks([files[0], files[2]], ["y", "p"]))
    with pytest.raises(ValueError, match=r"a\.csv has column names but no rows"):
        list(read_blocks(files[:1], ["y", "p"]))


def test_parquet_without_rows_and_without_a_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    table = pa.table({"y": pa.array([0, 1], pa.int64()), "p": [0.5, 0.25]})
    with parquet.ParquetWriter(path, table.schema) as writer:
        for part in (table[:0], table, table[:0]):
            writer.write_table(part)
    assert whole(path, ["y", "p"]) == [[0, 1], [0.5, 0.25]]
    parquet.write_table(table[:0], path)
    with pytest.raises(ValueError, match=r"a\.parquet has column names but no rows"):
        whole(path, ["y", "p"])
    with pytest.raises(FileNotFoundError, match="No such file"):
        whole(tmp_path / "b.parquet", ["y", "p"])


def test_the_line_of_an_error_far_down(engine, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,p\n" + "1,0.5\n" * 40_000 + "0,7\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 40002 of column 'p' is 7"):
        sketch_file(path, y="y", p="p")


def test_a_character_that_the_end_cuts_off_is_found(engine, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"p,y\n0.5,no\n0.2,yes\xc3")
    with pytest.raises(ValueError, match="line 3"):
        whole(path, ["y", "p"])
