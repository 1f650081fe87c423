"""The command line: files are read, and invalid ones are refused with one line that says where."""

import gzip
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import sklearn_calib
from sklearn_calib._html import printable
from sklearn_calib.report import _command, calibration_report
from sklearn_calib.sketch._batches import sketch_columns
from tests._program import main
from tests._tiers import thorough
from tests.report._page import checked

pytest.importorskip("pyarrow", reason="pyarrow reads files")
ROOT = Path(__file__).resolve().parents[2]
FAST = ["--n-resamples", "20"]
COLUMNS = ["--y", "y", "--p", "p"]
REPORT = [*COLUMNS, *FAST]
TABLE = "y,p\n" + "".join(f"{k % 2},{0.05 + k % 10 / 10:.2f}\n" for k in range(40))
pytestmark = pytest.mark.usefixtures("one_measure")


@pytest.fixture(scope="module")
def forecast():
    """Predictions at the edges of the bins of a sketch, which keeps them exactly."""
    rng = np.random.default_rng(0)
    p = rng.integers(1, 256, 120) / 256
    return (rng.random(120) < p).astype(int), p


def write(path, rows, header="y,p"):
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def table(tmp_path, forecast):
    return write(tmp_path / "predictions.csv", [f"{y},{p}" for y, p in zip(*forecast, strict=True)])


def refused(arguments, capsys):
    """Return the one line on stderr with which the command ends."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sklearn_calib: error: ")
    assert err[:-1].isprintable()
    assert len(err) < 1300
    return err


def printed(arguments, capsys):
    assert main(["report", *arguments, *FAST]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out.strip()


def test_segments_are_searched_for(tmp_path, capsys):
    """Features are numbers or texts, and may be missing; they need not be apart from the other columns."""
    rng = np.random.default_rng(0)
    p, age = rng.uniform(0.1, 0.5, 400).round(2), rng.uniform(20, 80, 400).round(1)
    region = rng.choice(["north", "south", ""], 400)
    y = (rng.random(400) < p + 0.3 * (age <= 40)).astype(int)
    rows = [f"{a},{b},{'NA' if c > 75 else c},{d}" for a, b, c, d in zip(y, p, age, region, strict=True)]
    path, numbers = write(tmp_path / "a.csv", rows, "y,p,age,region"), tmp_path / "a.json"
    assert main(["report", path, *REPORT, "--segments", "age,region,p", "--json", str(numbers)]) == 0
    X = {"age": np.where(age > 75, np.nan, age), "region": np.where(region == "", None, region), "p": p}
    expected = calibration_report(y, p, name="a.csv", n_resamples=20, features=X)
    assert json.loads(numbers.read_text()) == json.loads(json.dumps(expected.to_dict()))
    assert expected.segments.segments
    capsys.readouterr()
    assert "no column 'income'" in refused(["report", path, *REPORT, "--segments", "age,income"], capsys)


def test_options_reach_the_report(tmp_path, forecast, no_matplotlib, capsys):
    y, p = forecast
    k = np.arange(120)
    rows = [f'{a},{b},{c % 3},"g, {c % 2}",c{c // 4}' for a, b, c in zip(y, p, k, strict=True)]
    path = write(tmp_path / "a.csv", rows, "y,p,w,g,c")
    page, numbers = tmp_path / "out.html", tmp_path / "out.json"
    options = ["--weight", "w", "--group", "g", "--clusters", "c", "--seed", "5", "--confidence", "0.9"]
    given = [path, *COLUMNS, "--pos-label", "0", *options, "--title", "T <b>", "--json", str(numbers)]
    wanted = {"pos_label": 0, "sample_weight": k % 3, "groups": np.where(k % 2, "g, 1", "g, 0")}
    wanted |= {"clusters": k // 4, "name": "T <b>", "confidence": 0.9, "n_resamples": 20, "random_state": 5}
    expected = calibration_report(y, p, **wanted)
    assert printed([*given, "--out", str(page), "--text"], capsys) == str(expected)
    assert page.read_text(encoding="utf-8") == expected.to_html()
    assert json.loads(numbers.read_text(encoding="utf-8")) == json.loads(json.dumps(expected.to_dict()))
    assert printed(given, capsys) == expected.verdict


@pytest.mark.thorough
def test_it_runs_as_a_program(tmp_path):
    command = [sys.executable, "-m", "sklearn_calib", "report", str(tmp_path / "no.csv"), *REPORT]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("sklearn_calib: error: ")
    assert "No such file" in done.stderr


def test_wrong_commands_and_the_version(tmp_path, capsys):
    assert "No such file" in refused(["report", str(tmp_path / "no.csv"), *REPORT], capsys)
    assert "without files" in refused(["report", str(tmp_path), *COLUMNS], capsys)
    version = f"sklearn_calib {sklearn_calib.__version__}\n"
    evil = ["report", "a.csv", *COLUMNS, "--\x1b[31m"]
    for arguments, printed in (
        (["report"], ""),
        (evil, ""),
        (["fit", "a.csv"], ""),
        (["--version"], version),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        out, err = capsys.readouterr()
        assert (stopped.value.code, out) == (0 if printed else 2, printed)
        assert "\x1b" not in err


def test_columns_of_classes_are_named(tmp_path, no_class_intervals, capsys):
    rng = np.random.default_rng(0)
    p = rng.multinomial(8, [0.3, 0.3, 0.4], 60) / 8
    for names, classes in ((["c", "a", "b"], np.array(list("abc"))), (["20", "3", "10"], [3, 10, 20])):
        y = np.array(classes)[np.arange(60) % 3]
        rows = [",".join(map(str, [label, *row, 0])) for label, row in zip(y, p.tolist(), strict=True)]
        path = write(tmp_path / "m.csv", rows, "y,u,v,w,x")
        given = [path, "--y", "y", "--p", "w", "u", "v", "--labels", *names]
        expected = calibration_report(y, p, name="m.csv", n_resamples=20)
        assert printed(given, capsys) == str(expected)
    three = ["report", path, "--y", "y", "--p", "u", "v", "w"]
    for arguments, message in (
        (three, "--p names 3 columns. Name the label of each"),
        ([*three, "--labels", "3", "10"], "--p names 3 columns. Name the label of each"),
        ([*three, "--labels", "3", "10", "30"], "the outcome 20 in column 'y' is not among --labels"),
        ([*three, "--labels", "3", "10", "20", "--pos-label", "3"], "A binary target needs one column"),
        ([*three, "--labels", "3", "10", "10"], "--labels names one twice"),
        ([*three, "u", "--labels", "3", "10", "20", "30"], "--p names one twice"),
        ([*three, "x", "--labels", "3", "10", "20", "z"], "whole numbers, but --labels others"),
        ([*three[:7], "--labels", "0", "1"], "A binary target needs one column of --p"),
        (three[:6], "3 distinct outcomes (3, 10, 20), but --p names one column"),
        ([*three[:6], "--labels", "0"], "--labels is for several columns"),
    ):
        assert message in refused(arguments, capsys)


def test_several_columns_of_labels(tmp_path, capsys):
    rng = np.random.default_rng(0)
    p = rng.integers(1, 16, (60, 2)) / 16
    y = (rng.random(p.shape) < p).astype(int)
    rows = [f"{a},{'true' if b else 'false'},{c},{d}" for (a, b), (c, d) in zip(y, p, strict=True)]
    path = write(tmp_path / "labels.csv", rows, "red,big,p1,p2")
    given = [path, "--y", "red", "big", "--p", "p1", "p2"]
    text = printed(given, capsys)
    assert "120 predictions of 2 labels" in text
    assert "Labels, worst first" in text
    expected = calibration_report(y, p, n_resamples=20, name="labels.csv")
    assert main(["report", *given, *FAST, "--json", str(tmp_path / "out.json")]) == 0
    capsys.readouterr()
    found = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert found["pvalue"] == expected.pvalue
    assert [part["name"] for part in found["classes"]] == ["red", "big"]
    limits = tmp_path / "limits.toml"
    limits.write_text("slope = [0.5, 2.0]")
    main(["check", *given, "--requirements", str(limits), *FAST])
    assert "slope in [0.5, 2.0], label big" in capsys.readouterr().out
    for wrong, message in [
        ([*given[:4], "--p", "p1"], "--y names 2 columns of labels, but --p 1"),
        ([*given, "--labels", "a", "b"], "--labels and --pos-label are for one column of --y"),
        ([*given, "--pos-label", "1"], "--labels and --pos-label are for one column of --y"),
        ([path, "--y", "red", "red", "--p", "p1", "p2"], "--y names one twice"),
        ([*given, "--group", "red"], "groups and features are not supported for multilabel targets"),
    ]:
        assert message in refused(["report", *wrong, *FAST], capsys)


def test_text_labels_need_a_positive_class(tmp_path, forecast, capsys):
    y, p = forecast
    rows = [f"{'yes' if a else 'no'},{b},{bool(a)}" for a, b in zip(y, p, strict=True)]
    path = write(tmp_path / "b.csv", rows, "y,p,truth")
    given = {"name": "b.csv", "n_resamples": 20}
    text = printed([path, *COLUMNS, "--pos-label", "yes"], capsys)
    assert 'positive class "yes"' in text
    assert text == str(calibration_report(np.where(y, "yes", "no"), p, pos_label="yes", **given))
    booleans = printed([path, "--y", "truth", "--p", "p"], capsys)
    assert booleans == str(calibration_report(y == 1, p, **given))
    for more, message in (
        ([], "contains the labels no, yes, so the class of the probabilities is ambiguous"),
        (["--pos-label", "7"], "--pos-label 7 does not occur among the outcomes: no, yes"),
    ):
        assert message in refused(["report", path, *COLUMNS, *more], capsys)


def test_many_rows_are_summarized(tmp_path, forecast, capsys, monkeypatch):
    """The report on a sketch differs only in what the order of the samples tells."""
    y, p = forecast
    lines = [f"{('no', 'yes')[a]},{b},2" for a, b in zip(y, p, strict=True)]
    paths = [write(tmp_path / "1.csv", lines[:50], "y,p,w"), write(tmp_path / "2.csv", lines[50:], "y,p,w")]
    given = [*paths, *COLUMNS, "--weight", "w", "--weights", "frequency", "--pos-label", "yes"]
    whole = printed(given, capsys)
    assert whole.startswith("Calibration report: 1.csv and 1 more")
    monkeypatch.setattr(_command, "_MOST_ROWS", 119)
    read = []
    monkeypatch.setattr(_command, "sketch_columns", lambda *a: read.append(a) or sketch_columns(*a))
    assert (printed(given, capsys), len(read)) == (whole, 1)
    unweighted = printed([*paths, *COLUMNS, "--pos-label", "yes"], capsys)
    assert len(read) == 2
    assert "frequencies" in whole
    assert "frequencies" not in unweighted


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_are_read_once_and_left_out_of_folders(tmp_path, table, capsys, monkeypatch):
    pipe, content = tmp_path / "pipe.csv", Path(table).read_bytes()
    os.mkfifo(pipe)
    # in a folder nobody may write to it
    whole = printed([str(tmp_path), *COLUMNS], capsys)
    monkeypatch.setattr(_command, "_MOST_ROWS", 50)

    def write_slowly():
        with pipe.open("wb", buffering=0) as file:
            for start in range(0, len(content), 7):
                file.write(content[start : start + 7])

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write_slowly)
        text = printed([str(pipe), *COLUMNS, "--title", tmp_path.name], capsys)
        written.result()
    assert text == whole
    parquet = tmp_path / "pipe.parquet"
    os.mkfifo(parquet)
    assert "from which only CSV can be read" in refused(["report", str(parquet), *COLUMNS], capsys)


def test_an_input_in_a_folder_is_not_overwritten(table, tmp_path, capsys):
    for command in (["report", "--json"], ["check", "--requirements", "x.toml", "--junit"]):
        assert "is an input file" in refused([*command, table, str(tmp_path), *COLUMNS], capsys)


@pytest.mark.parametrize("module", ["scipy", thorough("tomllib")])
def test_ctrl_c_while_the_program_is_imported(module, tmp_path):
    """Of the first module the package itself interrupts, of the second the command line."""
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt", encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    command = [sys.executable, "-m", "sklearn_calib", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_parquet(tmp_path, forecast, capsys):
    import pyarrow
    from pyarrow import parquet

    y, p = forecast
    path = tmp_path / "predictions.parquet"
    columns = {"y": y == 1, "p": p, "g": np.where(y, "u", "v"), "hole": [None, *p[1:].tolist()]}
    parquet.write_table(pyarrow.table(columns), path)
    expected = calibration_report(y == 1, p, name="predictions.parquet", n_resamples=20)
    assert printed([str(path), *COLUMNS], capsys) == str(expected)
    for column, message in (("hole", "column 'hole'"), ("q", "column 'q'"), ("g", "column 'g'")):
        assert message in refused(["report", str(path), "--y", "y", "--p", column], capsys)
    path.write_bytes(path.read_bytes()[:-4])
    assert str(path) in refused(["report", str(path), *COLUMNS], capsys)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ("y,p\n", "no rows"),
        ("y,q\n1,0.5\n", "no column 'p'"),
        ("y,p,p\n1,0.5,0.5\n", "2 columns named 'p'"),
        (TABLE + '1,"0.5', "quote is not closed"),
        ("y,p\na,0.5\na,0.25\n", "labels a, so the class"),
        ("y,\x1b]0;evil\x07q\n1,0.5\n", "no column 'p'"),
        (gzip.compress(TABLE.encode(), mtime=0)[:-9], "cannot be read"),
        ("y,p\n" + "".join(f"{'x' * 100_000}{k % 3},0.5\n" for k in range(9)), "3 distinct outcomes"),
        (f"y,p,{'x' * 140_000}\n1,0.5,2\n", "field larger than field limit"),
    ],
)
def test_bad_tables_are_refused(content, message, tmp_path, capsys):
    path = tmp_path / "bad.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    error = refused(["report", str(path), *REPORT], capsys)
    assert message in error
    assert str(path) in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--confidence", "nan"], "--confidence must lie strictly between 0 and 1"),
        (["--seed", "-1"], "--seed must be at least 0"),
        (["--n-resamples", "3"], "--n-resamples must be at least 20"),
        (["--weight", "\x1b[31m"], r"no column '\x1b[31m'"),
        (["--out", "{folder}"], "--out names a folder"),
        (["--out", "{folder}/no/r.html"], "its folder does not exist"),
        (["--out", "{folder}/t.csv"], "t.csv, which is an input file"),
        (["--y", "p"], "column 'p' is named for two purposes"),
        (["--weight", "p"], "column 'p' is named for two purposes"),
        (["--group", "p"], "column 'p' is named for two purposes"),
        (["--out", "{folder}/a.html", "--json", "{folder}/a.html"], "--out and --json name the same file"),
    ],
)
def test_bad_options_are_refused(options, message, tmp_path, capsys):
    """Before the work, and without a file left behind."""
    path = tmp_path / "t.csv"
    path.write_text(TABLE, encoding="utf-8")
    given = [option.format(folder=tmp_path) for option in options]
    assert message in refused(["report", str(path), *COLUMNS, *given], capsys)
    assert [file.name for file in tmp_path.iterdir()] == ["t.csv"]


def test_a_reader_that_has_seen_enough_is_no_error(table, monkeypatch, capsys):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["report", table, *REPORT]) == 141
        # what is still written goes nowhere
        print("more", flush=True)
    assert capsys.readouterr().err == ""


def test_a_file_that_cannot_be_written_is_named(table, tmp_path, monkeypatch, capsys):
    def full(self, target):
        raise OSError(28, "No space left on device", str(self), None, str(target))

    monkeypatch.setattr("pathlib.Path.replace", full)
    old = tmp_path / "old.json"
    old.write_text("as it was", encoding="utf-8")
    error = refused(["report", table, *REPORT, "--json", str(old)], capsys)
    assert "old.json: No space left on device" in error
    assert (old.read_text(encoding="utf-8"), len(list(tmp_path.iterdir()))) == ("as it was", 2)


EVILS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></title><iframe src=javascript:alert(1)>",
    "{{7*7}} ${7*7} &lt;b&gt; %s",
    "\x1b]0;title\x07\x1b[2J\x1b[31mred",
    "left \u202eright\u2028new line\r\nand another",
]
FORBIDDEN = {"script", "iframe", "img", "object", "embed", "form", "input", "base", "link", "a"}


def test_harmful_texts_are_shown_as_text(tmp_path, no_matplotlib, capsys):
    """Names of files, columns, labels, groups and the model reach the page, the JSON and the terminal."""
    evils = ['"' + evil.replace('"', '""') + '"' for evil in EVILS]
    header = f"{evils[0]},{evils[1]},{evils[4]}"
    rows = [f"{evils[k % 2]},{0.05 + k % 10 / 10:.2f},{evils[k // 2 % 6]}" for k in range(60)]
    path = tmp_path / "<img src=x onerror=alert(1)>\x1b[31m.csv"
    path.write_text("\r\n".join([header, *rows]), encoding="utf-8")
    page, numbers = tmp_path / "page.html", tmp_path / "numbers.json"
    columns = ["--y", EVILS[0], "--p", EVILS[1], "--group", EVILS[4], "--pos-label", EVILS[0]]
    out = printed([str(path), *columns, "--out", str(page), "--json", str(numbers), "--text"], capsys)
    assert all(line.isprintable() for line in out.splitlines())
    html = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in html
    found = checked(html)
    assert FORBIDDEN.isdisjoint(found.tags)
    shown = " ".join(" ".join(found.text).split())
    for evil in (*EVILS, path.name):
        clean = printable(" ".join(evil.split()))
        assert clean[:24] in shown, evil
    saved = json.loads(numbers.read_text(encoding="utf-8"))
    assert (saved["name"], saved["positive"]) == (path.name, EVILS[0])
    assert {part["name"] for part in saved["groups"]} == {evil.strip() for evil in EVILS}


def test_names_that_are_no_text(tmp_path, capsys):
    """A file whose name is no UTF-8 is reported on, and named in errors."""
    path = tmp_path / os.fsdecode(b"\xff\xfe.csv")
    try:
        path.write_text(TABLE, encoding="utf-8")
    except (OSError, UnicodeError):
        pytest.skip("this file system takes text names only")
    assert printed([str(path), *COLUMNS], capsys).startswith("Calibration report: \ufffd\ufffd.csv")
    assert "no column 'q'" in refused(["report", str(path), "--y", "y", "--p", "q"], capsys)
