"""The commands fit and apply: files of any size, the same numbers as the calibrator."""

import csv
import gzip

import numpy as np
import pytest

from sklearn_calib.calibrators import GroupCalibrator, IsotonicCalibrator, SplineCalibrator
from sklearn_calib.export import from_json
from tests._program import main

pytest.importorskip("pyarrow")
RNG = np.random.default_rng(0)
P = np.round(RNG.random(400), 4)
Y = (RNG.random(400) < P**1.5).astype(int)


def write(path, **columns):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return str(path)


def read(path):
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rt", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "predictions.csv", y=Y, p=P)


def refused(arguments, capsys):
    assert main(arguments) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_fit_and_apply(table, tmp_path, capsys, ending):
    saved, out = str(tmp_path / "map.json"), str(tmp_path / f"calibrated{ending}")
    assert main(["fit", table, "--y", "y", "--p", "p", "--out", saved, "--date", "2026-01-31"]) == 0
    assert "date = 2026-01-31" in capsys.readouterr().out
    texts = ["007", 'a "quoted", text', "é", "", "=1+1"]
    scores = ["0.25", "1e-3", "", "1", "0"]
    new = write(tmp_path / f"scores{ending}", id=texts, p=scores)
    assert main(["apply", saved, new, "--out", out]) == 0
    assert capsys.readouterr().out == "5 rows\n"
    rows = read(out)
    # other cells are as they were
    assert [row["id"] for row in rows] == texts
    assert [row["p"] for row in rows] == scores
    assert rows[2]["calibrated"] == ""
    wanted = SplineCalibrator().fit(P, Y).transform([0.25, 1e-3, 1.0, 0.0])
    found = [float(row["calibrated"]) for row in rows if row["calibrated"]]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


def test_many_batches_of_parquet_and_csv(table, tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.setattr("sklearn_calib.report._deploy.BATCH_SIZE", 64)
    saved = str(tmp_path / "map.json")
    main(["fit", table, "--y", "y", "--p", "p", "--calibrator", "isotonic", "--out", saved])
    wanted = IsotonicCalibrator().fit(P, Y).transform(P)
    out = str(tmp_path / "out.csv")
    assert main(["apply", saved, table, "--out", out, "--name", "q"]) == 0
    np.testing.assert_allclose([float(row["q"]) for row in read(out)], wanted, rtol=0, atol=1e-15)
    source, target = str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet")
    given = [None, *P[1:].tolist()]
    parquet.write_table(pyarrow.table({"p": given, "id": [f"{k:03}" for k in range(400)]}), source)
    assert main(["apply", saved, source, "--out", target]) == 0
    found = parquet.read_table(target)
    assert found.column_names == ["p", "id", "calibrated"]
    values = found["calibrated"].to_pylist()
    assert values[0] is None
    np.testing.assert_allclose(values[1:], wanted[1:], rtol=0, atol=1e-15)
    assert found["id"].to_pylist()[7] == "007"


def test_several_classes_and_groups(tmp_path):
    proba = RNG.dirichlet(np.ones(3), 300)
    labels = np.array(["cat", "dog", "owl"])[(proba.cumsum(axis=1) > RNG.random((300, 1))).argmax(axis=1)]
    columns = {"p_owl": proba[:, 2], "p_cat": proba[:, 0], "p_dog": proba[:, 1]}
    table = write(tmp_path / "three.csv", y=labels, **columns)
    saved, out = str(tmp_path / "map.json"), str(tmp_path / "out.csv")
    names = ["--p", *columns]
    assert main(["fit", table, "--y", "y", *names, "--calibrator", "temperature", "--out", saved]) == 0
    assert main(["apply", saved, table, *names, "--out", out]) == 0
    wanted = from_json(saved).transform(proba)
    for k, label in enumerate(["cat", "dog", "owl"]):
        found = [float(row[f"calibrated_{label}"]) for row in read(out)]
        np.testing.assert_allclose(found, wanted[:, k], rtol=0, atol=1e-12)
    groups = np.arange(400) % 2
    table = write(tmp_path / "groups.csv", y=Y, p=P, g=groups)
    given = ["--p", "p", "--group", "g"]
    assert main(["fit", table, "--y", "y", *given, "--calibrator", "isotonic", "--out", saved]) == 0
    assert main(["apply", saved, table, *given, "--out", out]) == 0
    wanted = GroupCalibrator(IsotonicCalibrator()).fit(P, Y, groups=groups).transform(P, groups)
    np.testing.assert_allclose([float(row["calibrated"]) for row in read(out)], wanted, rtol=0, atol=1e-12)


def test_sketches_and_the_positive_class(table, tmp_path):
    saved, sketch = str(tmp_path / "map.json"), str(tmp_path / "sketch.npz")
    main(["sketch", table, "--y", "y", "--p", "p", "--out", sketch])
    assert main(["fit", sketch, "--calibrator", "platt", "--out", saved]) == 0
    text = np.where(Y == 1, "bad", "good")
    named = write(tmp_path / "named.csv", y=text, p=P)
    other = str(tmp_path / "other.json")
    given = ["--y", "y", "--p", "p", "--pos-label", "bad", "--calibrator", "platt"]
    assert main(["fit", named, *given, "--out", other]) == 0
    np.testing.assert_allclose(from_json(other).transform(P), from_json(saved).transform(P), atol=1e-3)


def test_errors_name_what_is_wrong(table, tmp_path, capsys):
    saved, out = str(tmp_path / "map.json"), str(tmp_path / "out.csv")
    main(["fit", table, "--y", "y", "--p", "p", "--out", saved])
    capsys.readouterr()
    wrong = write(tmp_path / "wrong.csv", p=["0.1", "x"])
    assert "'x' at row 3" in refused(["apply", saved, wrong, "--out", out], capsys)
    beyond = write(tmp_path / "beyond.csv", p=["0.1", "7"])
    assert "outside [0, 1]" in refused(["apply", saved, beyond, "--out", out], capsys)
    ragged = tmp_path / "ragged.csv"
    ragged.write_text("p,id\n0.5\n", encoding="utf-8")
    assert "row 2 has 1 cells" in refused(["apply", saved, str(ragged), "--out", out], capsys)
    for arguments, match in (
        ([saved, table, "--p", "q", "--out", out], "columns named 'q'"),
        ([saved, table, "--p", "p", "y", "p", "--out", out], "--p names 3 columns"),
        ([saved, table, "--name", "y", "--out", out], "already has a column 'y'"),
        ([saved, table, "--out", str(tmp_path / "x.parquet")], "format of predictions.csv"),
        ([saved, table, "--out", table], "which is an input file"),
        ([saved, table, "--group", "y", "--out", out], "no groups"),
        ([table, table, "--out", out], "not JSON"),
        ([saved, str(tmp_path / "none.csv"), "--out", out], "No such file"),
        ([saved, table, "--out", str(tmp_path / "no" / "x.csv")], "folder does not exist"),
    ):
        assert match in refused(["apply", *arguments], capsys), arguments
    assert "--tolerance" in refused(
        ["fit", table, "--y", "y", "--p", "p", "--tolerance", "0", "-o", out], capsys
    )
    # nothing was written
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"predictions.csv", "map.json", "wrong.csv", "beyond.csv", "ragged.csv"}
