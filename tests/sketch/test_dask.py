"""Sketches of Dask data: those of the rows, however they are cut up."""

import sys

import numpy as np
import pytest

from sklearn_calib.sketch import CalibrationSketch, sketch_dask, sketch_file
from tests._optional import dask
from tests._optional import dask_array as da


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 1, 1000)
    return (rng.random(1000) < p).astype(int), p, rng.integers(0, 4, 1000)


@pytest.mark.parametrize("chunks", [(1000,), (300, 300, 300, 100), (1, 0, 999), tuple([20] * 50)])
def test_arrays(rows, chunks):
    y, p, w = rows
    arrays = [da.from_array(values, chunks=(chunks,)) for values in (y, p, w)]
    found = sketch_dask(arrays[0], arrays[1])
    assert (found, found.n_samples) == (CalibrationSketch().update(y, p), 1000)
    found = sketch_dask(arrays[0], arrays[1], sample_weight=arrays[2], precision=10)
    assert found == CalibrationSketch(precision=10).update(y, p, sample_weight=w)


@pytest.mark.parametrize("column_chunks", [1, 2])
def test_two_columns(rows, column_chunks):
    y, p, _ = rows
    both = da.from_array(np.column_stack((1 - p, p)), chunks=(300, column_chunks))
    assert sketch_dask(da.from_array(y, chunks=300), both) == CalibrationSketch().update(y, p)
    one = da.from_array(p[:, None], chunks=(300, 1))
    assert sketch_dask(da.from_array(y, chunks=300), one) == CalibrationSketch().update(y, p)


def test_it_can_be_put_off(rows):
    y, p, _ = rows
    later = sketch_dask(da.from_array(y, chunks=100), da.from_array(p, chunks=100), compute=False)
    assert dask.is_dask_collection(later)
    assert later.compute() == later.compute() == CalibrationSketch().update(y, p)
    assert dask.delayed(lambda a, b: a + b)(later, later).compute().n_samples == 2000


def test_frames_and_series(rows):
    pandas, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    y, p, w = rows
    frame = pandas.DataFrame({"y": y, "p": p, "q": 1 - p, "w": w, "text": np.where(y == 1, "b", "a")})
    loads = []

    def load(part):
        loads.append(part)
        return frame.iloc[part * 250 : part * 250 + 250]

    table = dd.from_map(load, range(4), meta=frame.iloc[:0])
    loads.clear()
    assert sketch_dask(table["y"], table["p"]) == CalibrationSketch().update(y, p)
    assert sorted(loads) == [0, 1, 2, 3]
    weighted = CalibrationSketch().update(y, p, sample_weight=w)
    assert sketch_dask(table["y"], table["p"], sample_weight=table["w"]) == weighted
    assert sketch_dask(table["y"], table[["q", "p"]]) == CalibrationSketch().update(y, p)
    assert sketch_dask(table[["y"]], table["p"]) == CalibrationSketch().update(y, p)
    assert sketch_dask(table["text"], table["p"], pos_label="b") == CalibrationSketch().update(y, p)
    # of arrays made from series the number of rows is unknown
    assert np.isnan(table["y"].values.chunks[0][0])
    assert sketch_dask(table["y"].values, table["p"].values) == CalibrationSketch().update(y, p)
    assert sketch_dask(table["y"], da.from_array(p, chunks=250)) == CalibrationSketch().update(y, p)
    some = table[table["w"] > 0]
    assert sketch_dask(some["y"], some["p"]) == CalibrationSketch().update(y[w > 0], p[w > 0])


def test_delayed_batches_and_sketches(rows, tmp_path):
    y, p, w = rows
    delayed = dask.delayed
    batches = [delayed((y[i : i + 90], p[i : i + 90])) for i in range(0, 1000, 90)]
    assert sketch_dask(batches) == CalibrationSketch().update(y, p)
    weighted = [delayed((y[i : i + 90], p[i : i + 90], w[i : i + 90])) for i in range(0, 1000, 90)]
    assert sketch_dask(weighted) == CalibrationSketch().update(y, p, sample_weight=w)
    pytest.importorskip("pyarrow", reason="pyarrow reads files")
    files = []
    for number, part in enumerate(np.array_split(np.arange(1000), 3)):
        files.append(tmp_path / f"{number}.csv")
        lines = [f"{'yes' if y[i] else 'no'},{p[i]}" for i in part.tolist()]
        files[-1].write_text("\n".join(["y,p", *lines]), encoding="utf-8")
    found = sketch_dask([delayed(sketch_file)(file, y="y", p="p", pos_label="yes") for file in files])
    assert (found, found.pos_label) == (CalibrationSketch().update(y, p), "yes")


def array(n=4, chunks=2, value=0.5):
    return da.full(n, value, chunks=chunks)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (lambda: (array(4, 2), array(4, 4)), {}, ValueError,
         "different numbers of partitions: y_true 2, y_proba 1"),
        (lambda: (array(4, 2), array(4, (1, 3))), {}, ValueError, "y_true and y_proba have different chunks: "
         r"partition 0 has 2 and 1 samples. Pass y_proba.rechunk\({0: y_true.chunks\[0\]}\)"),
        (lambda: (array(), array(), array(4, 4)), {}, ValueError, "sample_weight 1"),
        (lambda: (array((4, 1), 4), array()), {}, ValueError,
         r"y_true must have shape \(n,\), got shape \(4, 1\)"),
        (lambda: (array(), array((4, 1, 1), 4)), {}, ValueError,
         r"y_proba must have shape \(n,\), got shape"),
        (lambda: (np.zeros(4), array()), {}, TypeError, "y_true must be a Dask array or series, got ndarray"),
        (lambda: (array(),), {}, TypeError,
         "y_true without y_proba must be a sequence of Delayed batches, got"),
        (lambda: ([],), {}, ValueError, "empty sequence of batches"),
        (lambda: ([], None, array()), {}, ValueError, "sample_weight needs y_proba"),
        (lambda: (array(), array()), {"precision": 50}, ValueError, "precision must be at most"),
        # found on the workers
        (lambda: (array(value=1), array(value=1.5)), {}, ValueError, "partition [01]: y_proba contains 1.5"),
        (lambda: ([dask.delayed((1, 2, 3, 4))],), {}, ValueError, "partition 0 has 4 elements"),
        (lambda: ([dask.delayed(3)],), {}, TypeError, "partition 0 is a int"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(arguments, options, error, message):
    y, p, w = (*arguments(), None, None)[:3]
    with pytest.raises(error, match=message):
        sketch_dask(y, p, sample_weight=w, **options)


def test_errors_name_the_partition(rows):
    pandas, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    y, p, _ = rows
    frame = pandas.DataFrame({"y": y, "q": p, "p": np.where(np.arange(1000) == 777, 7.0, p)})
    table = dd.from_pandas(frame, npartitions=10)
    short = dd.from_pandas(pandas.DataFrame({"y": y[:990]}), npartitions=10)
    for columns, message in (
        ((table["y"], table["p"]), r"partition 7: y_proba contains 7\.0 at index 77"),
        ((short["y"], table["q"]), r"partition \d: y_true has 99 samples but y_proba has 100"),
    ):
        with pytest.raises(ValueError, match=message):
            sketch_dask(*columns)


def test_without_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.delayed", None)
    with pytest.raises(ImportError, match=r'pip install "sklearn-calib\[dask\]"'):
        sketch_dask([], [])
