"""The command line with sketches: made of tables of any size, saved, merged, and reported on."""

import json

import numpy as np
import pytest

from sklearn_calib.report import _command
from sklearn_calib.sketch import CalibrationSketch
from tests._program import main

pytest.importorskip("pyarrow", reason="pyarrow reads files")
pytestmark = pytest.mark.usefixtures("one_measure")
FAST = ["--n-resamples", "20"]


@pytest.fixture(scope="module")
def forecast():
    """Predictions at the edges of cells, which a sketch keeps exactly."""
    rng = np.random.default_rng(0)
    p = rng.integers(1, 256, 400) / 256
    return np.where(rng.random(400) < p, "yes", "no"), p, rng.integers(1, 4, 400), np.array(["u", "v"] * 200)


@pytest.fixture
def tables(tmp_path, forecast):
    paths = []
    for name, rows in (("a", slice(0, 150)), ("b", slice(150, None))):
        lines = [
            f"{y},{p},{1 - p},{w},{g}" for y, p, w, g in zip(*(part[rows] for part in forecast), strict=True)
        ]
        paths.append(tmp_path / f"{name}.csv")
        paths[-1].write_text("\n".join(["y,yes,no,w,g", *lines]), encoding="utf-8")
    return [str(path) for path in paths]


COLUMNS = ["--y", "y", "--p", "yes", "--pos-label", "yes"]


def run(arguments, capsys, expected=0):
    assert main(arguments) == expected
    out, err = capsys.readouterr()
    assert (out == "") == (expected != 0)
    assert err.startswith("sklearn_calib: error: ") == (expected != 0)
    return err if expected else out


def refused(arguments, capsys):
    return run(arguments, capsys, expected=2)


def numbers(arguments, capsys, tmp_path):
    """Return the report as plain objects, without what only the order of samples tells."""
    path = tmp_path / "out.json"
    run(["report", *arguments, "--json", str(path), "--title", "T", *FAST], capsys)
    found = json.loads(path.read_text(encoding="utf-8"))
    del found["dependence_pvalue"]
    return found


def close(one, other):
    """Tell whether numbers agree, and texts are equal."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(close, one, other))
    return one == (pytest.approx(other, rel=1e-9, abs=1e-12) if isinstance(other, float) else other)


@pytest.mark.parametrize("extra", [[], ["--weight", "w"], ["--group", "g"]])
def test_a_sketch_gives_the_same_report(tables, tmp_path, capsys, extra):
    rows = numbers([*tables, *COLUMNS, *extra, "--sketch", "never"], capsys, tmp_path)
    always = numbers([*tables, *COLUMNS, *extra, "--sketch", "always"], capsys, tmp_path)
    assert (rows.pop("sketched"), always.pop("sketched")) == (False, True)
    assert close(rows, always)
    if not extra:
        assert numbers([*tables, *COLUMNS], capsys, tmp_path) == {**rows, "sketched": False}
    assert [part["name"] for part in rows["groups"]] == (["u", "v"] if "--group" in extra else [])


def test_many_rows_become_a_sketch(tables, tmp_path, capsys, monkeypatch):
    for most, sketched in ((400, False), (399, True), (100, True)):
        monkeypatch.setattr(_command, "_MOST_ROWS", most)
        report = numbers([*tables, *COLUMNS], capsys, tmp_path)
        assert (report["sketched"], report["n_samples"]) == (sketched, 400)
        assert ("computed from a sketch" in run(["report", *tables, *COLUMNS, *FAST], capsys)) == sketched


def test_sketches_are_written_and_merged(tables, tmp_path, forecast, capsys):
    y, p, w, _ = forecast
    whole = CalibrationSketch().update(y == "yes", p)
    one, two, both, all_of_it = (str(tmp_path / name) for name in ("1.npz", "2.json", "both.npz", "all.json"))
    run(["sketch", tables[0], *COLUMNS, "--out", one], capsys)
    printed = run(["sketch", tables[1], *COLUMNS, "-o", two], capsys)
    assert printed.strip() == str(CalibrationSketch.load(two))
    run(["sketch", one, two, "--out", both], capsys)
    run(["sketch", one, tables[1], *COLUMNS, "--out", all_of_it], capsys)
    for path in (both, all_of_it):
        found = CalibrationSketch.load(path)
        assert found == whole
        assert found.pos_label == "yes"
    options = ["--weight", "w", "--precision", "9", "--pos-label", "no"]
    run(["sketch", *tables, "--y", "y", "--p", "yes", "no", *options, "--out", one], capsys)
    expected = CalibrationSketch(precision=9).update(y == "no", 1 - p, sample_weight=w)
    assert CalibrationSketch.load(one) == expected
    report = numbers([both], capsys, tmp_path)
    assert close(report, {**numbers([*tables, *COLUMNS], capsys, tmp_path), "sketched": True})
    assert numbers([two, tables[0], *COLUMNS], capsys, tmp_path) == report
    assert run(["report", both, *FAST], capsys).startswith("Calibration report: both.npz\n")
    run(["sketch", tables[0], *COLUMNS, "-o", one], capsys)
    assert "1.npz and 1 more" in run(["report", one, two, *FAST], capsys)


def test_what_does_not_fit_is_refused(tables, tmp_path, capsys):
    saved, coarse = str(tmp_path / "s.npz"), str(tmp_path / "c.npz")
    run(["sketch", *tables, *COLUMNS, "--out", saved], capsys)
    run(["sketch", *tables, *COLUMNS, "--precision", "9", "--out", coarse], capsys)
    three = ["--y", "y", "--p", "yes", "no", "w"]
    out = ["--out", str(tmp_path / "x.npz")]
    for arguments, message in (
        (["sketch", saved, coarse, *out], "cannot be merged with"),
        (["sketch", saved, "--precision", "9", *out], "--precision is 9, but saved sketches have 17"),
        (["sketch", *tables, "--precision", "0", *COLUMNS, *out], "precision must be at least"),
        (["sketch", saved, "--y", "y", *out], "--y is for tables, but"),
        (["report", saved, "--pos-label", "y"], "--pos-label is for tables, but"),
        (["sketch", *tables, *three, *out], "a sketch is for a binary target, but --p names 3 columns"),
        (["sketch", *tables, *out], "--y and --p must name columns of"),
        (["sketch", *tables, *COLUMNS, "--out", "x.csv"], "--out must end in .npz or .json, got x.csv"),
        (["sketch", *tables, *COLUMNS, "--out", str(tmp_path / "no" / "x.npz")], "its folder does not exist"),
        (
            ["report", *tables, *three, "--sketch", "always"],
            "a sketch is for a binary target, but --p names 3",
        ),
        (["report", saved, *tables, *three], "a sketch is for a binary target, but --p names 3 columns"),
        (["report", saved, *tables, *COLUMNS, "--group", "g"], "a saved sketch does not contain single rows"),
        (["report", saved, *tables, *COLUMNS, "--sketch", "never"], "does not contain single rows"),
        (
            ["report", *tables, "--y", "w", "--p", "yes", "--sketch", "always"],
            "a sketch is for a binary target",
        ),
        (["report", *tables, *COLUMNS[:4], "--pos-label", "x", "--sketch", "always"], "does not occur among"),
        (["report", str(tmp_path / "none.npz")], "No such file"),
    ):
        assert message in refused(arguments, capsys)
    assert not (tmp_path / "x.npz").exists()


def test_columns_of_both_classes_may_come_to_light_late(tmp_path, capsys):
    path = tmp_path / "late.csv"
    path.write_text("y,p_0,p_1\n" + "0,0.5,0.5\n" * 3 + "1,0.25,0.75\n", encoding="utf-8")
    given = [str(path), "--y", "y", "--p", "p_1", "p_0", "--out", str(tmp_path / "s.npz")]
    run(["sketch", *given], capsys)
    assert CalibrationSketch.load(tmp_path / "s.npz") == CalibrationSketch().update(
        [0, 0, 0, 1], [0.5, 0.5, 0.5, 0.75]
    )
    # 0 and 1 could be the numbers of the columns, until 2 shows that they are not
    path.write_text("y,p_2,p_1\n" + "1,0.5,0.5\n" * 300_000 + "0,0.25,0.75\n", encoding="utf-8")
    given = [str(path), "--y", "y", "--p", "p_2", "p_1", "--out", str(tmp_path / "s.npz")]
    assert "Name the label of each column" in refused(["sketch", *given], capsys)


def test_groups_without_weight_are_left_out_and_equal_names_are_one(tmp_path, capsys):
    rows = ["0,0.2,1,1", "1,0.7,1.0,1", "0,0.3,3,0"] + ["0,0.35,1,2", "1,0.8,2,4"] * 30
    path = tmp_path / "groups.csv"
    path.write_text("\n".join(["y,p,g,w", *rows]), encoding="utf-8")
    given = [str(path), "--y", "y", "--p", "p", "--group", "g", "--weight", "w", "--n-resamples", "20"]
    texts = [run(["report", *given, "--sketch", how], capsys) for how in ("always", "never")]
    for text in texts:
        lines = [line.lstrip("* ").split()[:2] for line in text.splitlines()]
        assert ["1", "62"] in lines
        assert ["2", "120"] in lines
        assert not any(line[:1] == ["3"] for line in lines)


def test_the_positive_label_may_be_that_of_the_second_column(tmp_path, capsys):
    path = tmp_path / "two.csv"
    path.write_text("y,p_0,p_1\n" + "0,0.5,0.5\n1,0.25,0.75\n" * 20, encoding="utf-8")
    given = ["report", str(path), "--y", "y", "--p", "p_0", "p_1", "--n-resamples", "20"]
    assert run([*given, "--pos-label", "1"], capsys) == run(given, capsys)
    assert "--labels names a label twice: 0, 0" in refused([*given, "--labels", "0", "0"], capsys)


@pytest.mark.parametrize(
    "command", [["report", *FAST], ["report", "--sketch", "always"], ["sketch", "--out", "s.npz"]]
)
def test_text_labels_need_a_positive_class(tables, capsys, command):
    """As for every function: the class of a single column of probabilities is not guessed from texts."""
    message = refused([*command[:1], *tables, *COLUMNS[:4], *command[1:]], capsys)
    assert "column 'y' contains the labels ['no', 'yes']" in message
    assert "Pass the positive class by --pos-label" in message


def test_texts_true_and_false_are_booleans(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("y,p\n" + "true,0.75\nfalse,0.25\n" * 20, encoding="utf-8")
    given = [str(tmp_path / "a.csv"), "--y", "y", "--p", "p"]
    rows, sketched = (numbers([*given, *more], capsys, tmp_path) for more in ([], ["--sketch", "always"]))
    assert rows["positive"] == sketched["positive"] == "true"
