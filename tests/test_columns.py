"""Columns of features and groups: every type of a kind is read alike by every function that takes columns."""

import json
import re
import tracemalloc
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from sklearn_calib.calibrators import (
    GroupCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
    TemperatureCalibrator,
)
from sklearn_calib.inference import find_segments
from sklearn_calib.metrics import smooth_ece
from sklearn_calib.report import calibration_report
from sklearn_calib.report._command import main

pd, pl, pa, parquet = map(pytest.importorskip, ("pandas", "polars", "pyarrow", "pyarrow.parquet"))

N = 400
ROWS = np.random.default_rng(0).integers(0, 4, N)
P = np.random.default_rng(1).uniform(0.1, 0.9, N)
Y = (np.random.default_rng(2).random(N) < np.where(ROWS == 1, P / 3, P)).astype(int)


def rows(values):
    """Return a list of the values of all samples."""
    return [values[k] for k in ROWS]


def pandas_of(dtype, values):
    return pd.Series(rows(values), dtype=dtype)


def arrow_of(dtype, values):
    return pa.array(rows(values), dtype)


NUMBERS, WORDS = [1, 2.5, 10, 20], ["a", "b", "c", "d"]
DAYS = [date(2024, 3, 1), date(2024, 3, 2), date(2024, 3, 3), date(2024, 3, 10)]
MOMENTS = [datetime(day.year, day.month, day.day) for day in DAYS]
ROME = [moment.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=1))) for moment in MOMENTS]
SPANS = [timedelta(days=k) for k in (1, 2, 3, 10)]
FLAGS = [True, False, True, True]
DECIMALS = [Decimal(str(number)) for number in NUMBERS]
DATES = np.array(rows(DAYS), "M8[D]")
LENGTHS = np.array(rows(SPANS), "m8[D]")
RECURSIVE = []
RECURSIVE.append(RECURSIVE)
# Columns of the same values by kind, and the words of one of them.
KINDS = {
    "numbers": (
        "x = 2.5",
        [
            np.array(rows(NUMBERS)),
            rows(NUMBERS),
            rows(DECIMALS),
            rows([Fraction(number) for number in NUMBERS]),
            rows(["1", "2.50", "1e1", " 20"]),
            np.array(rows(NUMBERS), dtype=object),
            pandas_of("Float64", NUMBERS),
            pandas_of("string", ["1", "2.5", "10", "20"]),
            pandas_of(object, DECIMALS),
            pl.Series(rows(DECIMALS), strict=False),
            arrow_of(pa.decimal128(6, 2), DECIMALS),
            pa.chunked_array([arrow_of(pa.float32(), NUMBERS)]),
        ],
    ),
    "dates": (
        "x = 2024-03-02",
        [
            DATES,
            *(DATES.astype(f"M8[{unit}]") for unit in ("s", "ms", "us", "ns")),
            rows(DAYS),
            rows(MOMENTS),
            rows(ROME),
            rows([str(day) for day in DAYS]),
            pandas_of(None, pd.to_datetime(MOMENTS)),
            pandas_of(None, pd.to_datetime(MOMENTS, utc=True).tz_convert("Europe/Rome")),
            pandas_of(None, [pd.Period(day, "D") for day in DAYS]),
            pandas_of(object, [DAYS[0], MOMENTS[1], pd.Timestamp(DAYS[2]), ROME[3]]),
            pl.Series(rows(DAYS)),
            pl.Series(rows(MOMENTS)).dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Rome"),
            arrow_of(pa.date32(), DAYS),
            arrow_of(pa.timestamp("ns", tz="Europe/Rome"), ROME),
        ],
    ),
    "durations": (
        "x = 2 days",
        [
            LENGTHS,
            *(LENGTHS.astype(f"m8[{unit}]") for unit in ("h", "s", "ns")),
            rows(SPANS),
            pandas_of(None, pd.to_timedelta(SPANS)),
            pandas_of(object, [SPANS[0], pd.Timedelta(SPANS[1]), *SPANS[2:]]),
            pl.Series(rows(SPANS)),
            arrow_of(pa.duration("ms"), SPANS),
        ],
    ),
    "booleans": (
        "x = True",
        [
            np.array(rows(FLAGS)),
            rows(FLAGS),
            np.array(rows(FLAGS), dtype=object),
            pandas_of("boolean", FLAGS),
            pl.Series(rows(FLAGS)),
            arrow_of(pa.bool_(), FLAGS),
        ],
    ),
    "categories": (
        "x = b",
        [
            np.array(rows(WORDS)),
            rows(WORDS),
            # texts of any length, since numpy 2
            np.array(rows(WORDS), dtype=getattr(np.dtypes, "StringDType", lambda: object)()),
            pandas_of("category", WORDS),
            pandas_of(pd.CategoricalDtype(WORDS[::-1], ordered=True), WORDS),
            pandas_of("string", WORDS),
            pl.Series(rows(WORDS), dtype=pl.Categorical),
            pl.Series(rows(WORDS), dtype=pl.Enum(WORDS)),
            arrow_of(pa.string(), WORDS).dictionary_encode(),
        ],
    ),
    "codes": ("x = 02", [rows(["01", "02", "10", "20"]), pandas_of("category", ["01", "02", "10", "20"])]),
}


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setattr("sklearn_calib.calibrators._segment._ROUNDS", 1)
    monkeypatch.setattr("sklearn_calib.calibrators._segment._TREES", 4)


def table_of(column):
    """Return a table of the score and a column, of the library that the column is from."""
    if isinstance(column, pl.Series):
        return pl.DataFrame({"score": P, "x": column})
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return pa.table({"score": P, "x": column})
    return pd.DataFrame({"score": P, "x": column})


def names_of(result):
    return sorted(row.segment for row in result.segments)


@pytest.mark.parametrize("kind", KINDS)
def test_segments_of_each_kind(kind):
    words, columns = KINDS[kind]
    expected = find_segments({"x": columns[0]}, Y, P, segments="x", n_resamples=19)
    assert words in names_of(expected)
    for column in columns[1:]:
        assert find_segments(table_of(column), Y, P, segments="x", n_resamples=19) == expected
    gaps = pd.Series(columns[1]).astype(object).where(np.arange(N) > 90)
    found = names_of(find_segments({"x": gaps}, Y, P, segments="x", n_resamples=19))
    assert {words, "x missing"} < set(found)


@pytest.mark.parametrize("kind", KINDS)
def test_fitted_kinds(kind):
    """A calibrator that was fitted to one type of a kind predicts the same for all others."""
    columns = KINDS[kind][1]
    groups = GroupCalibrator().fit(P, Y, groups=columns[0])
    trees = SegmentCalibrator(PlattCalibrator()).fit(table_of(columns[0]), Y)
    pooled = PlattCalibrator().fit(P, Y).transform(P)
    found = [groups.transform(P, groups=columns[0]), trees.predict_proba(table_of(columns[0]))[:, 1]]
    assert min(np.abs(own - pooled).max() for own in found) > 0.005
    for column in columns[1:]:
        np.testing.assert_array_equal(groups.transform(P, groups=column), found[0])
        np.testing.assert_array_equal(trees.predict_proba(table_of(column))[:, 1], found[1])


@pytest.mark.parametrize(("ending", "which"), [("csv", 1), ("parquet", -1)])
def test_reports_and_the_command_line(ending, which, tmp_path, one_measure):
    """Columns of each kind in a file are those in memory; durations have no form in CSV."""
    kinds = {kind: columns for kind, (_, columns) in KINDS.items() if kind != "durations" or which < 0}
    table = {"y": Y, "p": P, **{kind: columns[which] for kind, columns in kinds.items()}}
    if ending == "csv":
        pd.DataFrame(table).to_csv(tmp_path / "a.csv", index=False)
    else:
        parquet.write_table(pa.table(table), tmp_path / "a.parquet")
    features = {kind: columns[0] for kind, columns in kinds.items()}
    expected = calibration_report(Y, P, features=features, n_resamples=20).to_dict()["segments"]
    assert expected["n_tested"] == find_segments(features, Y, P, n_resamples=19).n_tested
    given = [str(tmp_path / f"a.{ending}"), "--y", "y", "--p", "p", "--segments", ",".join(kinds)]
    found = tmp_path / "found.json"
    assert main(["report", *given, "--n-resamples", "20", "--json", str(found)]) == 0
    assert json.loads(found.read_text())["segments"] == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1], [2, 3]], "the list [1] at index 1"),
        (["a", {"b": 1}], "the dict {'b': 1} at index 2"),
        ([{1}, 1], "the set {1} at index 1"),
        (["a", b"a"], "the bytes b'a' at index 2"),
        ([np.array([np.nan]), 1], "the ndarray array([nan]) at index 1"),
        (RECURSIVE, "the list [[[[[[[...]]]]]]] at index 1"),
        ([1, 2j], "the complex 2j at index 2"),
        ([1, 10**400], "a number beyond 1.8e308 at index 2"),
        ([Fraction(10**400), 1], "a number beyond 1.8e308 at index 1"),
        ([Decimal("1e400"), 1.0], "a number beyond 1.8e308 at index 1"),
        ([1, "1"], "1 and '1', which are equal as text"),
    ],
)
def test_values_that_are_refused(values, message):
    given = [None, *values, *values[:1] * (N - 1 - len(values))]
    for column in (given, pd.Series(given, dtype=object)):
        with pytest.raises(ValueError, match=re.escape(f"X['x'] contains {message}")):
            find_segments({"x": column}, Y, P)
    with pytest.raises(ValueError, match=re.escape(f"X['x'] contains {message}")):
        SegmentCalibrator().fit(pd.DataFrame({"score": P, "x": pd.Series(given, dtype=object)}), Y)
    with pytest.raises(ValueError, match=re.escape(f"groups contains {message}")):
        GroupCalibrator().fit(P, Y, groups=given)
    with pytest.raises(ValueError, match=re.escape(f"features['x'] contains {message}")):
        calibration_report(Y, P, features={"x": given})


@pytest.mark.parametrize(
    ("fitted", "other", "message"),
    [
        ("numbers", rows(WORDS), "categories, such as 'a', but numbers were fitted. Pass numbers"),
        ("numbers", rows(["1", "2", "3", "many"]), "categories, such as 'many', but numbers were fitted"),
        ("dates", rows([1, 2, 3, 4]), "numbers, such as '1', but dates were fitted. Pass dates, as in fit."),
        ("durations", DATES, "dates, such as '2024-03-01', but durations were fitted"),
        ("categories", rows([1, 2, 3, 4]), "numbers, such as '1', but categories, such as "),
    ],
)
def test_other_kinds_than_in_fit_are_refused(fitted, other, message):
    trees = SegmentCalibrator(PlattCalibrator()).fit(table_of(KINDS[fitted][1][0]), Y)
    with pytest.raises(ValueError, match=re.escape(f"X['x'] contains {message}")):
        trees.predict_proba(table_of(other))
    # a column without values is of any kind
    assert np.isfinite(trees.predict_proba(table_of(pd.Series([None] * N)))).all()
    if fitted == "categories":
        assert np.isfinite(trees.predict_proba(table_of(["other"] * N))).all()


def test_declared_categories_and_their_values():
    """A categorical type makes numbers categories, which are found among numbers and texts."""
    declared = pd.Series(rows([1, 2, 3, 4]), dtype="category")
    trees = SegmentCalibrator(PlattCalibrator()).fit(table_of(declared), Y)
    expected = trees.predict_proba(table_of(declared))
    for same in (rows([1, 2, 3, 4]), rows([1.0, 2.0, 3.0, 4.0]), rows(["1", "2", "3", "4"])):
        np.testing.assert_array_equal(trees.predict_proba(table_of(same)), expected)
    found = find_segments({"x": declared}, Y, P, n_resamples=19, segments="x")
    assert names_of(found) == ["all samples", *(f"x = {k}" for k in range(1, 5))]
    # whole numbers that are equal as floats
    found = find_segments({"x": ROWS + 2**60}, Y, P, n_resamples=19, segments="x")
    assert names_of(found) == ["all samples", *(f"x = {2**60 + k}" for k in range(4))]
    # most are the largest value
    found = find_segments({"x": np.minimum(np.arange(N), 70)}, Y, P, n_resamples=19, segments="x")
    assert names_of(found) == ["all samples", "x <= 69", "x > 69"]


def test_texts_of_which_most_are_numbers_are_told():
    column = [str(k) for k in range(N - 1)] + ["many"]
    with pytest.warns(UserWarning, match=r"X\['x'\] contains texts: 399 different numbers, but also 'many'"):
        found = find_segments({"x": column}, Y, P, n_resamples=19)
    assert found.left_out == {"x": "400 categories, none with 50 samples"}
    assert find_segments({"x": [*column[:-1], None]}, Y, P, n_resamples=19).left_out == {}
    assert find_segments({"x": rows(["1", "2", "3", "many"])}, Y, P, n_resamples=19).n_tested > 0


def test_names_that_are_equal_as_text():
    for X in ({0: P, "0": P}, pd.DataFrame({0: P, "0": Y})):
        with pytest.raises(ValueError, match="columns named 0 and '0', which are equal as text"):
            find_segments(X, Y, P)
    with pytest.raises(ValueError, match="columns named 0 and '0', which are equal as text"):
        SegmentCalibrator().fit(pd.DataFrame({0: P, "0": Y}), Y)
    found = find_segments({1: ROWS, 0: ROWS > 1}, Y, P, segments=[0], n_resamples=19)
    assert names_of(found) == ["0 = False", "0 = True", "all samples"]
    with pytest.raises(ValueError, match="X has a column 'predicted class'"):
        find_segments({"predicted class": ROWS}, Y, P, reduction="top-label")
    # texts that differ only at the end, which arrays of texts do not keep
    rest = ["a", "a\0", "b", "b"]
    assert find_segments({"x": rows(rest)}, Y, P, segments="x", n_resamples=19).n_tested == 4


@pytest.mark.thorough
@pytest.mark.parametrize("door", ["find_segments", "SegmentCalibrator", "GroupCalibrator"])
def test_one_long_text_takes_no_memory(door):
    n = 20_000
    p, y = np.tile(P, n // N), np.tile(Y, n // N)
    texts = ["x" * 10**6, *(f"comment {k % 5000}" for k in range(n - 1))]
    tracemalloc.start()
    if door == "find_segments":
        find_segments({"x": texts}, y, p, n_resamples=19)
    elif door == "GroupCalibrator":
        GroupCalibrator().fit(p, y, groups=texts).transform(p, groups=texts)
    else:
        SegmentCalibrator(PlattCalibrator()).fit(pd.DataFrame({"score": p, "x": texts}), y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6


LEVELS = ["low", "mid", "high"]


@pytest.mark.parametrize("names", [LEVELS, [f"p_{x}" for x in LEVELS], [f"{x} risk" for x in LEVELS]])
def test_columns_that_end_in_the_names_of_classes(names):
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([1, 1, 1], 300)
    y = np.array(LEVELS)[(proba.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1)]
    table = pd.DataFrame(proba, columns=names)
    for function in (smooth_ece, lambda y, table: TemperatureCalibrator().fit(table, y)):
        with pytest.raises(ValueError, match=r"must be in the order of the labels, \['high', 'low', 'mid'\]"):
            function(y, table)
    ordered = table[[names[2], *names[:2]]]
    expected = smooth_ece(y, ordered.to_numpy())
    assert smooth_ece(y, ordered) == expected
    # labels that lack a class are placed by the names
    some, plain = y != "mid", ordered.to_numpy()
    assert smooth_ece(y[some], ordered[some]) == smooth_ece(y[some], plain[some], labels=sorted(LEVELS))
    codes, numbered = np.searchsorted(sorted(LEVELS), y), ["proba_2", "proba_0", "proba_1"]
    with pytest.raises(ValueError, match="must be in the order of the labels, \\['0', '1', '2'\\]"):
        smooth_ece(codes, pd.DataFrame(proba, columns=numbered))
    kind = pd.Series(pd.Categorical(y, LEVELS, ordered=True))
    for function in (smooth_ece, lambda y, proba: TemperatureCalibrator().fit(proba, y)):
        with pytest.raises(ValueError, match=r"is an ordered categorical, \['low', 'mid', 'high'\], but"):
            function(kind, proba)
    assert smooth_ece(kind, ordered) == smooth_ece(kind.astype(object), ordered.to_numpy()) == expected
    two = pd.Categorical(np.where(y == "low", "no", "event"), ["no", "event"], ordered=True)
    with pytest.raises(ValueError, match="is an ordered categorical"):
        smooth_ece(two, np.column_stack([proba[:, 0], 1 - proba[:, 0]]))
