"""The window of the recent past against sketches of the rows that belong to it."""

import json
import pickle
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest

from sklearn_calib.sketch import CalibrationSketch, WindowedSketch
from tests._samples import simulated


def sketch_of(y, p, w=None):
    return CalibrationSketch().update(y, p, sample_weight=w)


def in_window(time, length, n_slots):
    """Return which times lie in the newest slot or the n_slots - 1 before it."""
    slot = np.floor(np.asarray(time) / length)
    return slot > slot.max() - n_slots


@pytest.mark.parametrize("sizes", [[1] * 57, [10] * 6, [3, 40, 7, 7], [100]])
def test_counted_rows(sizes):
    y, p = simulated(sum(sizes))
    window, end = WindowedSketch(20, n_slots=4), 0
    for size in sizes:
        start, end = end, end + size
        assert window.update(y[start:end], p[start:end]) is window
        keep = in_window(np.arange(end), 5, 4)
        assert window.current() == sketch_of(y[:end][keep], p[:end][keep])
        assert window.n_samples == window.current().n_samples == keep.sum()
        assert 15 < window.n_samples <= 20 or end < 16
        assert (window.newest, window.n_seen, window.n_late) == (end - 1, end, 0)
    for first, last, sketch in window.slots():
        assert (first % 5, last - first, sketch) == (0, 5, sketch_of(y[first:last], p[first:last]))
    newest = 5 * ((end - 1) // 5)
    for n_slots in (1, 2, 4, 99):
        start = max(0, newest - 5 * (min(n_slots, 4) - 1))
        assert window.current(n_slots) == sketch_of(y[start:end], p[start:end])
    with pytest.raises(ValueError, match="n_slots"):
        window.current(0)


def test_numbers_as_times_in_any_order():
    y, p = simulated(500, seed=1)
    time = np.random.default_rng(1).uniform(-30.0, 70.0, 500)
    window = WindowedSketch(8.0, n_slots=5).update(y, p, time=time)
    keep = in_window(time, 1.6, 5)
    assert window.current() == sketch_of(y[keep], p[keep])
    for found, expected in zip(window.weighted_sample(), window.current().weighted_sample(), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert (window.n_late, window.newest) == (0, time.max())
    # late rows within the window find their slot; the edge of a slot belongs to it
    edge = next(start for start, _, _ in window.slots())
    window.update([1], [0.5], time=edge)
    assert window.current() == sketch_of(np.append(y[keep], 1), np.append(p[keep], 0.5))
    in_slot = (time[keep] // 1.6).astype(int) == round(edge / 1.6)
    assert next(window.slots())[2].n_samples == in_slot.sum() + 1


def test_gaps_and_times_before_1970():
    window = WindowedSketch(10).update([0, 1], [0.2, 0.7], time=3)
    assert window.update([1], [0.5], time=1000).current() == sketch_of([1], [0.5])
    assert next(iter(window.slots()))[:2] == (1000.0, 1001.0)
    assert (WindowedSketch(10).current(), list(WindowedSketch(10).slots())) == (CalibrationSketch(), [])
    times = np.array(["1969-12-31T23:59", "1970-01-01"], dtype="datetime64[m]")
    window = WindowedSketch(np.timedelta64(2, "D"), n_slots=2).update([1, 0], [0.5, 0.4], time=times)
    assert [sketch.n_samples for _, _, sketch in window.slots()] == [1, 1]


def test_late_rows_and_other_kinds_of_time():
    y, p = simulated(6, seed=2)
    strict = WindowedSketch(10, n_slots=5).update(y[:2], p[:2], time=[20, 11])
    kept = strict.copy()
    message = r"time is 11.9 at index 1, older than the window, which begins at 12.0"
    with pytest.raises(ValueError, match=message):
        strict.update(y[:2], p[:2], time=[30, 11.9])
    assert (strict, strict.n_seen) == (kept, 2)
    lenient = WindowedSketch(10, n_slots=5, late="drop").update(y[:2], p[:2], time=[20, 13])
    lenient.update(y[2:5], p[2:5], time=[11, 40, 12])
    assert (lenient.current(), lenient.n_late, lenient.n_seen) == (sketch_of(y[3:4], p[3:4]), 1, 5)
    assert lenient.update(y, p, time=1).n_late == 7
    assert "too late" in str(lenient)
    assert "7" in lenient._repr_html_()
    for first, second in [(None, 5.0), (5.0, None)]:
        window = WindowedSketch(10).update([1], [0.5], time=first)
        with pytest.raises(ValueError, match=r"time (contains numbers|is required)"):
            window.update([1], [0.5], time=second)
    with pytest.raises(ValueError, match="y_proba"):
        WindowedSketch(10).update([1], [1.5])


def test_weights():
    y, p = simulated(40, seed=4)
    w = np.arange(40) % 3
    window = WindowedSketch(10, n_slots=5).update(y, p, sample_weight=w)
    keep = np.flatnonzero(w)[in_window(np.arange(np.count_nonzero(w)), 2, 5)]
    assert window.current() == sketch_of(y[keep], p[keep], w[keep])
    # rows without weight have no time
    timed = WindowedSketch(10).update(y, p, sample_weight=w, time=np.where(w > 0, 5.0, 1e6))
    assert (timed.newest, timed.update(y, p, sample_weight=np.zeros(40), time=99).newest) == (5.0, 5.0)
    assert timed.update([], [], time=99).newest == 5.0


DAYS = np.datetime64("2024-03-01") + np.arange(20)


def _as_pandas(kind):
    pd = pytest.importorskip("pandas")
    if kind == "zone":
        return list(pd.Series(DAYS).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    return list(pd.to_datetime(DAYS)) if kind == "scalars" else pd.Series(DAYS)


TOKYO = timezone(timedelta(hours=9))
TIMES = {
    "numpy": lambda: DAYS,
    "nanoseconds": lambda: DAYS.astype("datetime64[ns]"),
    "datetime": lambda: [datetime(2024, 3, 1) + timedelta(days=k) for k in range(20)],
    "date": lambda: [date(2024, 3, 1) + timedelta(days=k) for k in range(20)],
    "utc": lambda: [datetime(2024, 3, 1, tzinfo=UTC) + timedelta(days=k) for k in range(20)],
    "zone": lambda: [datetime(2024, 3, 1, 9, tzinfo=TOKYO) + timedelta(days=k) for k in range(20)],
    "series": lambda: _as_pandas("series"),
    "timestamps": lambda: _as_pandas("scalars"),
    "pandas_zone": lambda: _as_pandas("zone"),
}


@pytest.mark.parametrize("kind", TIMES)
def test_dates(kind):
    y, p = simulated(20, seed=5)
    times = TIMES[kind]()
    expected = WindowedSketch(np.timedelta64(7, "D"), n_slots=7).update(y, p, time=DAYS)
    assert expected.current() == sketch_of(y[-7:], p[-7:])
    start, end, _ = next(expected.slots())
    assert (start, end, expected.newest) == (DAYS[13], DAYS[14], DAYS[-1])
    assert WindowedSketch(timedelta(days=7), n_slots=7).update(y, p, time=times) == expected
    one_by_one = WindowedSketch(timedelta(days=7), n_slots=7)
    for row, time in enumerate(times):
        one_by_one.update(y[[row]], p[[row]], time=time)
    assert one_by_one == expected


@pytest.mark.parametrize("late", ["raise", "drop"])
def test_merging_is_seeing_all_rows(late):
    y, p = simulated(300, seed=6)
    time = np.sort(np.random.default_rng(6).uniform(0, 50, 300))
    owner = np.random.default_rng(7).integers(0, 3, 300)
    owner[time > 45] = 2
    whole = WindowedSketch(12.0, n_slots=6, late=late).update(y, p, time=time)
    parts = [WindowedSketch(12.0, n_slots=6, late=late) for _ in range(3)]
    for part, mine in zip(parts, (owner == k for k in range(3)), strict=True):
        for chosen in np.array_split(np.flatnonzero(mine), 5):
            part.update(y[chosen], p[chosen], time=time[chosen])
    for order in ([0, 1, 2], [2, 1, 0]):
        merged = WindowedSketch(12.0, n_slots=6, late=late)
        for k in order:
            merged.merge(parts[k])
        assert (merged, merged.current(), merged.n_seen) == (whole, whole.current(), 300)


def test_what_cannot_be_merged():
    window = WindowedSketch(12.0, n_slots=6).update([1], [0.5], time=1.0)
    kept = window.copy()
    for other, message in [
        (WindowedSketch(12.0, n_slots=3), "different windows"),
        (WindowedSketch(10.0, n_slots=6), "different windows"),
        (WindowedSketch(timedelta(12), n_slots=6), "different windows"),
        (WindowedSketch(12, n_slots=6).update([1], [0.5]), "different windows"),
        (WindowedSketch(12.0, n_slots=6, precision=10).update([1], [0.5], time=1), "precision differs"),
    ]:
        with pytest.raises(ValueError, match=message):
            window.merge(other)
    counted = WindowedSketch(12, n_slots=6).update([1], [0.5])
    with pytest.raises(ValueError, match="not in one order"):
        counted.merge(counted.copy())
    with pytest.raises(TypeError, match="windowed sketches"):
        window.merge(CalibrationSketch())
    assert window == kept
    assert window.merge(WindowedSketch(12.0, n_slots=6)) == kept
    assert WindowedSketch(12.0, n_slots=6).merge(window) == kept


FILLED = {
    "empty": lambda: WindowedSketch(10),
    "rows": lambda: WindowedSketch(10, n_slots=5, pos_label="a").update(["a", "b"] * 9, np.arange(18) / 17),
    "numbers": lambda: WindowedSketch(0.5).update([0, 1], [0.1, 0.2], time=[-1.3, -1.1]),
    "dates": lambda: WindowedSketch(timedelta(days=5), late="drop").update(
        [0, 1], [0.1, 0.2], sample_weight=[0.3, 2], time=np.datetime64("2024-02-29")
    ),
}


@pytest.mark.parametrize("name", FILLED)
def test_files_lose_nothing(tmp_path, name):
    window = FILLED[name]()
    window.save(tmp_path / "window.json")
    again = [
        WindowedSketch.load(tmp_path / "window.json"),
        WindowedSketch.from_dict(json.loads(json.dumps(window.to_dict()))),
        pickle.loads(pickle.dumps(window)),
        window.copy(),
    ]
    for loaded in again:
        assert (loaded, str(loaded), loaded.to_dict()) == (window, str(window), window.to_dict())
        if name == "rows":
            assert loaded.update(["b"], [0.5]) == FILLED[name]().update(["b"], [0.5])
            assert loaded != window


def test_damaged_files_are_refused(tmp_path):
    for change in ({"kind": "samples", "window": 3}, {"n_seen": 0}, {"slots": [[99, {}]]}, {"empty": None}):
        with pytest.raises(ValueError, match=r"saved|version"):
            WindowedSketch.from_dict(FILLED["numbers"]().to_dict() | change)
    path = tmp_path / "w.json"
    path.write_text("{nothing", encoding="utf-8")
    with pytest.raises(ValueError, match="damaged"):
        WindowedSketch.load(path)
    with pytest.raises(ValueError, match=r"\.json"):
        FILLED["numbers"]().save(tmp_path / "w.npz")


def test_bad_parameters():
    for make, kind, message in [
        (lambda: WindowedSketch(0), ValueError, "window must be at least 1"),
        (lambda: WindowedSketch(5e-324), ValueError, "window must be positive and finite, at least"),
        (lambda: WindowedSketch(10**30), ValueError, "window must be at most"),
        (lambda: WindowedSketch("7d"), TypeError, "window must be a number"),
        (lambda: WindowedSketch(np.timedelta64("NaT", "ns")), ValueError, "window must be positive"),
        (lambda: WindowedSketch(np.timedelta64(1, "M")), ValueError, "no fixed length"),
        (lambda: WindowedSketch(np.timedelta64(400 * 365, "D")), ValueError, "shorter than 290 years"),
        (lambda: WindowedSketch(timedelta(days=7), n_slots=11), ValueError, "whole nanoseconds"),
        (lambda: WindowedSketch(10, n_slots=0), ValueError, "n_slots"),
        (lambda: WindowedSketch(10, late="ignore"), ValueError, "late must be one of"),
        (lambda: WindowedSketch(10, precision=3), ValueError, "precision"),
    ]:
        with pytest.raises(kind, match=message):
            make()


def test_bad_times_change_nothing():
    for window, time, kind, message in [
        (timedelta(10), 3.0, ValueError, "time contains numbers, but window and earlier"),
        (timedelta(10), None, ValueError, "time is required, because window"),
        (10, DAYS[:2], ValueError, "is a number"),
        (10, "2024-01-01", TypeError, "time must hold numbers or dates"),
        (10, [True, False], TypeError, "numbers or dates"),
        (10, [1.0, 2.0, 3.0], ValueError, "time has 3 samples but y_true has 2"),
        (10, [1.0, np.nan], ValueError, "time contains nan at index 1"),
        (1e-12, 1e9, ValueError, "too far from 0"),
        (timedelta(10), [DAYS[0], np.datetime64("NaT", "ns")], ValueError, "NaT at index 1, not a date"),
        (timedelta(10), np.datetime64("1000-01-01"), ValueError, "at index 0, not a date of the years"),
        (timedelta(10), [DAYS[0], np.datetime64("2262-01-01")], ValueError, "at index 1, not a date"),
        (timedelta(10), [date(2024, 1, 1), date(1000, 1, 1)], ValueError, "1000-01-01 at index 1, not a"),
        (15, None, ValueError, "multiple of n_slots"),
    ]:
        sketch = WindowedSketch(window)
        with pytest.raises(kind, match=message):
            sketch.update([0, 1], [0.2, 0.4], time=time)
        assert (sketch, sketch.n_seen) == (WindowedSketch(window), 0)
