"""SQL: executed, and compared with the calibrator."""

import sqlite3

import numpy as np
import pytest

from sklearn_calib import calibrators as cal
from sklearn_calib.export import ExportedCalibrator, from_json, to_json, to_sql
from tests._optional import duckdb
from tests.export._fitted import KINDS, data, every_kind, fingerprint, fitted, new_scores

#: Connections of a test, which it need not close.
OPENED = []


def sqlite(columns):
    """Return a connection with a table of scores, and with ln, exp and sqrt if SQLite was built without."""
    connection = sqlite3.connect(":memory:")
    OPENED.append(connection)
    try:
        connection.execute("SELECT ln(exp(sqrt(1.0)))")
    except sqlite3.OperationalError:
        for name, function in (("ln", np.log), ("exp", np.exp), ("sqrt", np.sqrt)):
            connection.create_function(
                name, 1, lambda x, f=function: None if x is None else float(f(x)), deterministic=True
            )
    names = ", ".join(f'"{name}"' for name in columns)
    connection.execute(f"CREATE TABLE scores ({names})")
    marks = ", ".join("?" * len(columns))
    connection.executemany(f"INSERT INTO scores VALUES ({marks})", zip(*columns.values(), strict=True))
    return connection


def duck(columns):
    pyarrow, connection = pytest.importorskip("pyarrow"), duckdb.connect()
    connection.register("given", pyarrow.table(columns))
    connection.execute("CREATE TABLE scores AS SELECT * FROM given")
    return connection


DATABASES = pytest.mark.parametrize("database", [sqlite, duck])


def query(connection, sql):
    """Return the rows of a query, with NaN for NULL, in the order of their first column."""
    rows = np.array(connection.execute(sql).fetchall(), dtype=np.float64)
    return rows[np.argsort(rows[:, 0], kind="stable"), 1:]


def table_of(scores):
    columns = {"id": list(range(len(scores)))}
    if scores.ndim == 1:
        return {**columns, "p": scores.tolist()}, "p"
    return {**columns, **{f"p {k}": scores[:, k].tolist() for k in range(3)}}, ["p 0", "p 1", "p 2"]


@every_kind
def test_queries_return_what_transform_does(case, n_classes):
    calibrator, loaded = fitted(case, n_classes)
    scores = new_scores(case, n_classes, 100)
    columns, names = table_of(scores)
    sql = to_sql(loaded, names, table="scores", keep=["id"])
    # of a map that is not one of the quick tier, one of the two
    for database in (sqlite, duck) if f"{case.name}-{n_classes}" in KINDS else (sqlite,):
        found = query(database(columns), sql)
        wanted = calibrator.transform(scores).reshape(found.shape)
        assert np.abs(found - wanted).max() <= loaded.document["tolerance"] + 1e-13


@DATABASES
def test_missing_and_impossible_scores_give_null(database):
    loaded = from_json(to_json(cal.PlattCalibrator().fit(*data(2))))
    columns = {"id": [0, 1, 2, 3, 4], "p": [0.5, None, -0.1, 1.1, 1.0]}
    for sql in (to_sql(loaded, table="scores", keep=["id"]), f"SELECT id, {to_sql(loaded)} FROM scores"):
        assert np.isnan(query(database(columns), sql)[:, 0]).tolist() == [False, True, True, True, False]
    several = from_json(to_json(cal.TemperatureCalibrator().fit(*data(3))))
    names = ["p 0", "p 1", "p 2"]
    parts = [0.2, None, 0.5, -0.2], [0.3, 0.5, 0.5, 0.7], [0.5] * 4
    columns = {"id": [0, 1, 2, 3], **dict(zip(names, parts, strict=True))}
    found = query(database(columns), to_sql(several, names, table="scores", keep=["id"], name="q"))
    assert np.isnan(found).tolist() == [[False] * 3, [True] * 3, [True] * 3, [True] * 3]


def test_nan_and_infinite_scores_give_null():
    scores, labels = data(2)
    loaded = from_json(to_json(cal.SplineCalibrator(link="identity").fit(scores, labels)))
    columns = {"id": [0, 1, 2, 3], "p": [0.5, float("nan"), float("inf"), -1e99]}
    found = query(duck(columns), to_sql(loaded, table="scores", keep=["id"]))
    assert np.isnan(found[:, 0]).tolist() == [False, True, True, False]


@DATABASES
@pytest.mark.parametrize("kind", ["probability", "logit"])
def test_scores_of_other_types(kind, database):
    """Integers, and decimal numbers of DuckDB, are cast."""
    scores, labels = data(2)
    link = "logit" if kind == "probability" else "identity"
    loaded = from_json(to_json(cal.PlattCalibrator(link=link).fit(scores, labels)))
    connection = database({"id": [0, 1], "p": [0, 1]})
    found = query(connection, to_sql(loaded, table="scores", keep=["id"]))
    np.testing.assert_allclose(found[:, 0], loaded.transform([0.0, 1.0]), rtol=1e-13)
    if database is duck:
        decimals = "(SELECT 0 AS id, 0.25::DECIMAL(5, 2) AS p)"
        sql = to_sql(loaded, table="scores", keep=["id"]).replace('"scores"', decimals)
        np.testing.assert_allclose(query(connection, sql)[:, 0], loaded.transform([0.25]), rtol=1e-13)


@pytest.mark.parametrize(("n_classes", "database"), [(2, sqlite), (3, duck)])
def test_groups_in_queries(n_classes, database):
    scores, labels = data(n_classes)
    groups = np.array(["a", "it's"])[np.arange(len(scores)) % 2]
    calibrator = cal.GroupCalibrator(cal.TemperatureCalibrator()).fit(scores, labels, groups=groups)
    groups = groups.copy()
    groups[:50] = "new"
    columns, names = table_of(scores)
    columns = {**columns, "g": [*groups[:-1].tolist(), None]}
    found = query(database(columns), to_sql(calibrator, names, table="scores", keep=["id"], group="g"))
    wanted = calibrator.transform(scores, groups=groups).reshape(found.shape)
    np.testing.assert_allclose(found[:-1], wanted[:-1], rtol=0, atol=1e-13)
    assert np.isnan(found[-1]).all()


def test_names_are_quoted():
    loaded = from_json(to_json(cal.PlattCalibrator().fit(*data(2))))
    name = "a 'b'; DROP TABLE scores"
    connection = sqlite({name: [0, 1], "select": [0.25, 0.5]})
    found = query(connection, to_sql(loaded, "select", table="main.scores", keep=[name], name="group"))
    np.testing.assert_allclose(found[:, 0], loaded.transform([0.25, 0.5]), rtol=1e-13)
    assert to_sql(loaded, quote="`").startswith("CASE WHEN `p` BETWEEN")


@pytest.mark.parametrize("bad", ['a"b', "a\\"])
def test_names_that_databases_read_differently_are_refused(bad):
    loaded = from_json(to_json(cal.PlattCalibrator().fit(*data(2))))
    for names in ({"score": bad}, {"table": f"main.{bad}"}, {"keep": [bad]}, {"name": bad}):
        with pytest.raises(ValueError, match='contains " or a backslash'):
            to_sql(loaded, **{"table": "scores", **names})
    with pytest.raises(ValueError, match="quote must be one of"):
        to_sql(loaded, quote="'")


@pytest.mark.parametrize("label", ["a\\", "'; DROP TABLE scores; --", "it''s"])
def test_groups_that_databases_read_differently_are_refused(label):
    scores, labels = data(2)
    groups = np.array(["a", label])[np.arange(len(scores)) % 2]
    calibrator = cal.GroupCalibrator().fit(scores, labels, groups=groups)
    with pytest.raises(ValueError, match="contains a backslash, or quotation marks"):
        to_sql(calibrator, group="g")


@pytest.mark.parametrize(("n_classes", "database"), [(2, duck), (3, sqlite)])
def test_tables_may_have_columns_of_any_name(n_classes, database):
    """Also those that the query uses itself, for other values, and as the name of the table."""
    scores, labels = data(n_classes)
    groups = np.array(["a", "b"])[np.arange(len(scores)) % 2]
    base = cal.TemperatureCalibrator() if n_classes == 3 else cal.SplineCalibrator(link="identity")
    calibrator = cal.GroupCalibrator(base).fit(scores, labels, groups=groups)
    parts = scores.reshape(len(scores), -1)[:50]
    names = [f"calib_{k + 1}" for k in range(parts.shape[1])]
    columns = {"calib_0": list(range(50))} | {one: parts[:, k].tolist() for k, one in enumerate(names)}
    columns |= {f"calib_{k}": [0.5] * 50 for k in range(len(names) + 1, 40)}
    columns |= {"calib_layer_0": groups[:50].tolist()}
    connection = database(columns)
    connection.execute("ALTER TABLE scores RENAME TO calib_layer_0")
    given = {"keep": ["calib_0"], "group": "calib_layer_0", "name": "calib_9", "materialized": True}
    found = query(connection, to_sql(calibrator, names, table="calib_layer_0", **given))
    wanted = calibrator.transform(scores[:50], groups=groups[:50]).reshape(found.shape)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("link", "longest", "database"), [("logit", 18_000, duck), ("identity", 60_000, sqlite)]
)
def test_the_sql_of_a_spline_is_short_and_accurate(link, longest, database):
    calibrator = cal.SplineCalibrator(link=link).fit(*data(2))
    query_of_table = to_sql(calibrator, table="scores", keep=["id"])
    expression = to_sql(calibrator)
    assert max(len(query_of_table), len(expression)) < longest
    scores = new_scores(None, 2, 1000)
    connection = database(table_of(scores)[0])
    for sql in (query_of_table, f"SELECT id, {expression} FROM scores"):
        assert 1e-6 < np.abs(query(connection, sql)[:, 0] - calibrator.transform(scores)).max() <= 1e-4


def test_wrong_columns_are_refused():
    for given, match in [({"score": ["a", "b"]}, "names 2 columns"), ({"group": "g"}, "Omit group")]:
        with pytest.raises(ValueError, match=match):
            to_sql(cal.PlattCalibrator().fit(*data(2)), **given)


def test_queries_of_several_classes_need_a_table_and_groups_a_column():
    calibrator = cal.TemperatureCalibrator().fit(*data(3))
    with pytest.raises(ValueError, match="table is missing"):
        to_sql(calibrator, ["a", "b", "c"])
    with pytest.raises(ValueError, match="3 classes"):
        to_sql(calibrator, table="scores")
    scores, labels = data(2)
    grouped = cal.GroupCalibrator().fit(scores, labels, groups=np.arange(scores.size) % 2)
    with pytest.raises(ValueError, match="Name the column of groups"):
        to_sql(grouped)
    assert "MATERIALIZED" not in to_sql(calibrator, ["a", "b", "c"], table="t", materialized=False)


def test_texts_of_a_document_never_become_code():
    document = from_json(to_json(cal.PlattCalibrator().fit(*data(2)))).document
    evil = "*/ DROP TABLE scores; --"
    changed = {**document, "calibrator": evil, "written_by": evil, "classes": ["'; DROP TABLE scores", evil]}
    assert "DROP" not in to_sql(ExportedCalibrator({**changed, "fingerprint": fingerprint(changed)}))
