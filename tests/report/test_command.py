"""The command line: files are read, and bad ones are refused with one line that says where."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sklearn_calib.report import calibration_report
from tests._program import main

pytest.importorskip("pyarrow", reason="pyarrow reads files")
ROOT = Path(__file__).resolve().parents[2]
FAST = ["--n-resamples", "20"]
pytestmark = pytest.mark.usefixtures("one_measure")


@pytest.fixture(scope="module")
def forecast():
    rng = np.random.default_rng(0)
    p = np.round(rng.beta(2, 3, 120), 4)
    return (rng.random(120) < p).astype(int), p


def write(path, rows, header="y,p"):
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def table(tmp_path, forecast):
    return write(tmp_path / "predictions.csv", [f"{y},{p}" for y, p in zip(*forecast, strict=True)])


def refused(arguments, capsys):
    assert main(["report", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sklearn_calib: error: ")
    assert err.count("\n") == 1
    return err


def test_default_prints_the_report(table, forecast, capsys):
    assert main(["report", table, "--y", "y", "--p", "p", *FAST]) == 0
    out, err = capsys.readouterr()
    assert out.strip() == str(calibration_report(*forecast, name="predictions.csv", n_resamples=20))
    assert err == ""


def test_options_reach_the_report(tmp_path, forecast, capsys):
    y, p = forecast
    rows = [f'{a},{b},{k % 3},"g, {k % 2}"' for k, (a, b) in enumerate(zip(y, p, strict=True))]
    path = write(tmp_path / "a.csv", rows, "y,p,w,g")
    page, numbers = tmp_path / "out.html", tmp_path / "out.json"
    options = ["--weight", "w", "--group", "g", "--seed", "5", "--confidence", "0.9", "--title", "T <b>"]
    files = ["--out", str(page), "--json", str(numbers), "--text"]
    assert main(["report", path, "--y", "y", "--p", "p", "--pos-label", "0", *options, *files, *FAST]) == 0
    k = np.arange(120)
    expected = calibration_report(
        y,
        p,
        pos_label=0,
        sample_weight=k % 3,
        groups=np.where(k % 2, "g, 1", "g, 0"),
        name="T <b>",
        confidence=0.9,
        n_resamples=20,
        random_state=5,
    )
    assert capsys.readouterr().out.strip() == str(expected)
    assert page.read_text(encoding="utf-8") == expected.to_html()
    assert json.loads(numbers.read_text(encoding="utf-8")) == json.loads(json.dumps(expected.to_dict()))


def test_with_a_file_the_verdict_alone_is_printed(table, tmp_path, capsys):
    assert main(["report", table, "--y", "y", "--p", "p", "--out", str(tmp_path / "r.html"), *FAST]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "Smooth ECE" in out


def test_it_runs_as_a_program(table, tmp_path):
    numbers = tmp_path / "r.json"
    command = [sys.executable, "-m", "sklearn_calib", "report"]
    done = subprocess.run(
        [*command, table, "--y", "y", "--p", "p", "--json", str(numbers), *FAST],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(numbers.read_text(encoding="utf-8"))["name"] == "predictions.csv"


def test_help_names_the_options(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["report", "--help"])
    assert ended.value.code == 0
    usage = capsys.readouterr().out
    assert "--n-resamples" in usage
    assert "examples:" in usage


@pytest.mark.parametrize("names", ["p_a p_b p_c", "p_c p_a p_b"])
def test_columns_find_their_classes(names, tmp_path, capsys):
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], 90).round(5)
    p[:, 2] = 1 - p[:, 0] - p[:, 1]
    y = np.array(list("abc"))[np.arange(90) % 3]
    rows = [f"{label}," + ",".join(f"{v:.5f}" for v in row) for label, row in zip(y, p, strict=True)]
    path = write(tmp_path / "m.csv", rows, "y,p_a,p_b,p_c")
    expected = str(calibration_report(y, p.round(5), name="m.csv", n_resamples=20))
    assert main(["report", path, "--y", "y", "--p", *names.split(), *FAST]) == 0
    assert capsys.readouterr().out.strip() == expected
    order = [name[-1] for name in names.split()]
    assert main(["report", path, "--y", "y", "--p", *names.split(), "--labels", *order, *FAST]) == 0
    assert capsys.readouterr().out.strip() == expected
    message = refused([path, "--y", "y", "--p", *names.split(), "--labels", "a", "b", "d"], capsys)
    assert "the outcome c in column 'y' has no column of --p" in message
    assert "2 labels for 3 columns" in refused(
        [path, "--y", "y", "--p", *names.split(), "--labels", "a", "b"], capsys
    )
    assert "--pos-label is for a binary target" in refused(
        [path, "--y", "y", "--p", *names.split(), "--pos-label", "a"], capsys
    )
    assert "3 distinct outcomes (a, b, c" in refused([path, "--y", "y", "--p", "p_a"], capsys)


def test_two_columns_and_text_labels(tmp_path, forecast, capsys):
    y, p = forecast
    rows = [f"{'yes' if a else 'no'},{b},{1 - b:.4f}" for a, b in zip(y, p, strict=True)]
    path = write(tmp_path / "b.csv", rows, "y,yes,no")
    assert main(["report", path, "--y", "y", "--p", "yes", "no", *FAST]) == 0
    both = capsys.readouterr().out
    assert main(["report", path, "--y", "y", "--p", "yes", "--pos-label", "yes", *FAST]) == 0
    assert capsys.readouterr().out == both
    assert 'positive class "yes"' in both
    assert main(["report", path, "--y", "y", "--p", "no", "--pos-label", "no", *FAST]) == 0
    negative = capsys.readouterr().out
    assert 'positive class "no"' in negative
    for columns in (["yes", "no"], ["no", "yes"]):
        assert main(["report", path, "--y", "y", "--p", *columns, "--pos-label", "no", *FAST]) == 0
        assert capsys.readouterr().out == negative
    assert "--pos-label 7 is not the label of a column of --p: yes, no" in refused(
        [path, "--y", "y", "--p", "yes", "no", "--pos-label", "7"], capsys
    )


def test_integer_classes_without_names(tmp_path, capsys):
    rng = np.random.default_rng(1)
    p = rng.dirichlet([1, 1, 1], 60)
    rows = [f"{k % 3},{row[0]!r},{row[1]!r},{row[2]!r}" for k, row in enumerate(p.tolist())]
    path = write(tmp_path / "i.csv", rows, "y,first,second,third")
    assert main(["report", path, "--y", "y", "--p", "first", "second", "third", *FAST]) == 0
    expected = calibration_report(np.arange(60) % 3, p, name="i.csv", n_resamples=20)
    assert capsys.readouterr().out.strip() == str(expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty. It needs a line of column names"),
        ("  \n", "is empty"),
        ("y,p\n", "has column names but no rows"),
        ("y;p\n1;0.5\n", "They seem to be separated by a semicolon: pass delimiter=';' (--delimiter ';')"),
        ("y\tp\n1\t0.5\n", "They seem to be separated by a tab"),
        ("y,q\n1,0.5\n", "has no column 'p'. Its columns are 'y', 'q'."),
        ("y,p,p\n1,0.5,0.5\n", "has 2 columns named 'p'"),
        ("y,p\n1,0.5\n0,abc\n", "row 3 of column 'p' is 'abc', not a number."),
        ("y,p\n1,0.5\n0,80%\n", "row 3 of column 'p' is '80%', not a number. Write it as a fraction: 0.8."),
        ('y,p\n1,"0,8"\n', "Write decimals with a point: 0.8."),
        (
            "y,p\n1,80\n0,20.5\n",
            "row 2 of column 'p' is 80, not a probability in [0, 1]. These look like perc",
        ),
        ("y,p\n1,-3\n0,20.5\n", "Convert scores to probabilities with a calibrator first."),
        ("y,p\n1,inf\n", "row 2 of column 'p' is inf"),
        ("y,p\n1,0.5\n,0.5\n0,0.1\nNA,0.2\n", "column 'y' has empty or missing cells, the first in row 3"),
        ("y,p\n1,nan\n", "column 'p' has empty or missing cells, the first in row 2"),
        ("y,p\n1,0.5\n0\n", "row 3 has 1 cells, but the header has 2"),
        ('y,p\n1,0.5\n0,"0.5\n', "ends within quotes"),
        ("y,p\n1,0.5\n1,0.25\n", ""),
        ("y,p\na,0.5\na,0.25\n", "single label 'a'"),
    ],
)
def test_bad_tables_are_refused(content, message, tmp_path, capsys):
    path = tmp_path / "bad.csv"
    path.write_text(content, encoding="utf-8")
    arguments = [str(path), "--y", "y", "--p", "p", *FAST]
    if not message:
        assert main(["report", *arguments]) == 0
        return
    error = refused(arguments, capsys)
    assert message in error
    if "label 'a'" not in message:
        assert str(path) in error


def test_bad_bytes_and_files_are_refused(tmp_path, table, capsys):
    path = tmp_path / "bytes.csv"
    path.write_bytes(b"y,p\n1,0.5\n\xff,0.5\n")
    assert "row 3 of column 'y' contains bytes that are not utf-8" in refused(
        [str(path), "--y", "y", "--p", "p"], capsys
    )
    path.write_bytes(gzip.compress(b"y,p\n1,0.5\n" * 50)[:-12])
    assert "gzip data are damaged" in refused([str(path), "--y", "y", "--p", "p"], capsys)
    assert "No such file" in refused([str(tmp_path / "no.csv"), "--y", "y", "--p", "p"], capsys)
    (tmp_path / "empty").mkdir()
    assert "is a folder without files" in refused([str(tmp_path / "empty"), "--y", "y", "--p", "p"], capsys)
    given = [table, "--y", "y", "--p", "p"]
    assert "not an encoding" in refused([*given, "--encoding", "no"], capsys)
    assert "one character" in refused([*given, "--delimiter", "ab"], capsys)
    assert "its folder does not exist" in refused([*given, "--out", str(tmp_path / "no" / "r.html")], capsys)
    assert "does not occur among the outcomes: 0, 1" in refused([*given, "--pos-label", "7"], capsys)
    assert "n_resamples" in refused([*given, "--n-resamples", "3"], capsys)
    assert "--labels is for several columns" in refused([*given, "--labels", "a"], capsys)
    assert "--y and --p must name columns of" in refused([table, "--y", "y"], capsys)
    with pytest.raises(SystemExit) as stopped:
        main(["report"])
    assert stopped.value.code == 2


def test_parquet(tmp_path, forecast, capsys):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow reads Parquet")
    parquet = pytest.importorskip("pyarrow.parquet")
    y, p = forecast
    path = tmp_path / "predictions.parquet"
    parquet.write_table(
        pyarrow.table({"y": y == 1, "p": p, "g": np.where(y, "u", "v"), "hole": [None, *p[1:].tolist()]}),
        path,
    )
    assert main(["report", str(path), "--y", "y", "--p", "p", *FAST]) == 0
    expected = calibration_report(y == 1, p, name="predictions.parquet", n_resamples=20)
    assert capsys.readouterr().out.strip() == str(expected)
    message = refused([str(path), "--y", "y", "--p", "hole"], capsys)
    assert "column 'hole' has empty or missing cells, the first in row 1" in message
    assert "has no column 'q'. Its columns are 'y', 'p', 'g', 'hole'." in refused(
        [str(path), "--y", "y", "--p", "q"], capsys
    )
    assert "row 1 of column 'g' is" in refused([str(path), "--y", "y", "--p", "g"], capsys)
    bad = tmp_path / "bad.parquet"
    bad.write_text("y,p\n1,0.5\n", encoding="utf-8")
    assert "cannot be read as Parquet" in refused([str(bad), "--y", "y", "--p", "p"], capsys)
    assert "No such file" in refused([str(tmp_path / "no.parquet"), "--y", "y", "--p", "p"], capsys)
    disguised = tmp_path / "really.csv"
    disguised.write_bytes(path.read_bytes())
    assert "is a Parquet file by its content" in refused([str(disguised), "--y", "y", "--p", "p"], capsys)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_without_pyarrow_files_are_refused(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / name
    path.write_bytes(b"y,p\n1,0.5\n")
    assert 'pip install "sklearn-calib[report]"' in refused([str(path), "--y", "y", "--p", "p"], capsys)


@pytest.mark.parametrize("arguments", [["report", "--help"], ["report"]], ids=["help", "report"])
def test_a_reader_that_has_seen_enough_is_no_error(arguments, table, monkeypatch, capsys):
    reading, writing = os.pipe()
    os.close(reading)
    given = arguments if len(arguments) > 1 else [*arguments, table, "--y", "y", "--p", "p", *FAST]
    with os.fdopen(writing, "w", encoding="utf-8") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert main(given) == 141
        # what is still written goes nowhere
        print("more", flush=True)
    assert capsys.readouterr().err == ""


def test_a_full_disk_is_named(table, tmp_path, monkeypatch, capsys):
    if not Path("/dev/full").exists():
        pytest.skip("there is no device that is full")
    given = [table, "--y", "y", "--p", "p"]
    sketch = tmp_path / "s.json"
    sketch.symlink_to("/dev/full")
    for arguments, name in (
        (["report", *given, *FAST, "--json", "/dev/full"], "/dev/full"),
        (["sketch", *given, "--out", str(sketch)], sketch),
    ):
        assert main(arguments) == 2
        assert f"error: {name}: No space left on device" in capsys.readouterr().err
    with open("/dev/full", "w", encoding="utf-8") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["report", *given, *FAST]) == 2
        print("more", flush=True)
    assert "error: standard output: No space left on device" in capsys.readouterr().err
    # a process whose output is closed when it begins
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["report", *given, *FAST]) == 0


SIGNALLED = """
import os, pathlib, runpy, signal, sys, time

number = getattr(signal, sys.argv.pop())

def interrupted(part, target):
    assert part.suffix == ".part" and part.is_file()
    os.kill(os.getpid(), number)
    time.sleep(60)

pathlib.Path.replace = interrupted
runpy.run_module("sklearn_calib", run_name="__main__")
"""


@pytest.mark.thorough
def test_signals_end_the_program_without_a_trace(table, tmp_path):
    if os.name != "posix":
        pytest.skip("signals of POSIX")
    (tmp_path / "out").mkdir()
    out = ["--out", str(tmp_path / "out" / "s.npz")]
    codes = {"SIGTERM": 143, "SIGINT": 130}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SIGNALLED, "sketch", table, "--y", "y", "--p", "p", *out, name],
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
        for name in codes
    ]
    for process, code in zip(running, codes.values(), strict=True):
        assert (process.communicate()[1], process.returncode) == (b"", code)
    assert list((tmp_path / "out").iterdir()) == []
