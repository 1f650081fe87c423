"""Every container gives the numbers of the numpy array in it, at every public entrance."""

import os
import tracemalloc

import numpy as np
import pytest

from sklearn_calib import _validation as v
from sklearn_calib import inference, metrics
from sklearn_calib._validation import as_array, missing_values, shape_of
from tests._containers import CONTAINERS, Exchangeable, StandInTensor, memory_map, over
from tests._samples import simulated


@pytest.fixture(scope="module")
def data():
    """Labels, probabilities and frequencies of 48 rows, in multiples of 1/128, with ties."""
    rng = np.random.default_rng(5)
    p = rng.integers(1, 128, 48) / 128
    p[:8] = p[8:16]
    return (rng.random(48) < p).astype(np.int64), p, rng.integers(1, 4, 48)


@over(CONTAINERS)
def test_arrays_are_read_exactly(container, data, tmp_path):
    for values in data:
        found = as_array(container.make(values, tmp_path), "x")
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, values)
        assert shape_of(container.make(values, tmp_path), "x") == values.shape
    y, p, w = (container.make(values, tmp_path) for values in data)
    sample = v.check_binary(y, p, w)
    for found, values in zip((sample.y, sample.p, sample.w), data, strict=True):
        np.testing.assert_array_equal(found, values)
    np.testing.assert_array_equal(v.check_scores(p, kind="score"), data[1])
    np.testing.assert_array_equal(v.check_classes(y)[1], data[0])
    np.testing.assert_array_equal(v.check_groups(y, 48)[1], data[0])


@over(CONTAINERS)
def test_tables_are_read_exactly(container, data, tmp_path):
    y, p, _ = data
    two, three = np.column_stack([1 - p, p]), np.column_stack([1 - p, p / 2, p / 2])
    np.testing.assert_array_equal(v.check_probabilities(container.make(two, tmp_path)), p)
    sample = v.check_class_sample(container.make(y, tmp_path), container.make(three, tmp_path))
    np.testing.assert_array_equal(sample.p, three)
    np.testing.assert_array_equal(sample.y, y)


def test_tensors_elsewhere_and_of_bfloat16():
    for device, found in (("cuda", "cuda"), ("meta", "meta")):
        message = rf"y_proba is a tensor on the device .*{found}.*y_proba\.cpu\(\)"
        with pytest.raises(TypeError, match=message):
            v.check_probabilities(StandInTensor([0.5], device=device))
    with pytest.raises(TypeError, match=r"y_proba is on a device that is not the CPU .*type 2"):
        v.check_probabilities(Exchangeable([0.5], device=2))
    P = np.random.default_rng(0).dirichlet(np.ones(3), 1000)
    # eight significant bits, to the nearest
    scale = 2.0 ** (np.floor(np.log2(P)) - 7)
    rounded = np.rint(P / scale) * scale
    assert 1e-3 < np.abs(rounded.sum(axis=1) - 1).max() <= 2**-8
    y = rounded.argmax(axis=1)
    for given in (rounded, StandInTensor(rounded, "torch.bfloat16")):
        assert metrics.smooth_ece(y, given) == pytest.approx(metrics.smooth_ece(y, P), abs=0.004)
    with pytest.raises(ValueError, match=r"row 0 sums to 1\.0041, not 1"):
        v.check_class_sample([0, 1, 2], [[0.6, 0.2, 0.2041], *np.eye(3)[:2]])


def test_tensors_of_torch_that_numpy_cannot_hold():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"on the device 'meta'. Move it to the CPU first: y_proba\.cpu\(\)"):
        v.check_probabilities(torch.ones(3, device="meta"))
    with pytest.raises(TypeError, match=r"y_proba is a Tensor that numpy cannot read"):
        v.check_probabilities(torch.ones(3).to_sparse())
    with pytest.raises(TypeError, match=r"y_proba is a list that numpy cannot read: .*detach"):
        v.check_probabilities(list(torch.ones(3, requires_grad=True)))
    parameter = torch.nn.Parameter(torch.tensor([0.25, 0.5]))
    assert v.check_probabilities(parameter).tolist() == [0.25, 0.5]
    assert parameter.requires_grad
    p = torch.rand(100, dtype=torch.float64, requires_grad=True)
    assert np.shares_memory(v.check_probabilities(p), p.detach().numpy())


def test_masked_arrays():
    assert v.check_probabilities(np.ma.masked_array([0.25, 0.5], [False, False])).tolist() == [0.25, 0.5]
    with pytest.raises(ValueError, match=r"y_proba is masked at index 1. Remove or impute"):
        v.check_probabilities(np.ma.masked_array([0.25, 0.5], [False, True]))
    with pytest.raises(ValueError, match=r"y_true is masked at index 0"):
        v.check_labels(np.ma.masked_array([0, 1], [True, False]))
    ragged = np.empty(2, dtype=object)
    ragged[:] = [np.zeros(2), None]
    for values, expected in (
        (np.array([0.5, np.nan]), [False, True]),
        (np.array(["2020", "NaT"], dtype="M8[D]"), [False, True]),
        (np.array([1, 2]), [False, False]),
        (np.array(["a", None, float("nan")], dtype=object), [False, True, True]),
        (ragged, [False, True]),
    ):
        assert missing_values(values).tolist() == expected


def test_what_is_no_array():
    for bad in ({0.1, 0.2}, (p for p in (0.1, 0.2)), {"a": 0.1}, object(), None):
        with pytest.raises(TypeError, match=r"y_proba must be an array.*got "):
            v.check_probabilities(bad)
    with pytest.raises(ValueError, match=r"y_proba cannot be read as an array: .*inhomogeneous.*equal len"):
        v.check_probabilities([[0.1, 0.9], [0.5]])
    pl = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"y_proba must be an array.*got LazyFrame. Collect"):
        v.check_probabilities(pl.LazyFrame({"p": [0.1]}))


def test_missing_values_of_any_library():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for labels in (
        pd.Series([1, None], dtype="Int64"),
        pd.Series([True, None], dtype="boolean"),
        pd.Series(["a", None], dtype="string"),
        pd.Series(["a", None], dtype="category"),
        pl.Series([1, None]),
        pl.Series([True, None]),
        pl.Series(["a", None]),
    ):
        with pytest.raises(ValueError, match=r"y_true contains (nan at index 1|missing values)"):
            v.check_labels(labels)
        with pytest.raises(ValueError, match=r"y_true contains (missing|NaN)|Input y_true contains NaN"):
            v.check_classes(labels, "y_true")
        with pytest.raises(ValueError, match="groups has a missing value at index 1"):
            v.check_groups(labels, 2)
    for p in (
        pd.Series([0.5, None], dtype="Float64"),
        pd.Series([0.5, pd.NA], dtype=object),
        pd.Series([True, None], dtype="boolean"),
        pd.DataFrame({"p": pd.Series([0.5, None], dtype="Float64")}),
        pl.Series([0.5, None]),
        pl.Series([True, None]),
    ):
        with pytest.raises(ValueError, match=r"y_proba contains (NaN|a missing value) at index 1"):
            v.check_probabilities(p)
        if len(p.shape) == 1:
            with pytest.raises(ValueError, match=r"contains (nan|a missing value) at index 1"):
                v.check_weights(p, 2)
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="y_proba contains NaN at index 1"):
        v.check_probabilities(pa.array([0.5, None]))
    with pytest.raises(ValueError, match="y_true contains missing values"):
        v.check_labels(pa.array([True, None]))


@pytest.mark.parametrize("kind", ["category", "string", "polars", "categorical", "enum", "dictionary"])
def test_text_labels(kind):
    text = ["no", "yes", "yes"]
    if kind in ("category", "string"):
        labels = pytest.importorskip("pandas").Series(text, dtype=kind)
    elif kind == "dictionary":
        labels = pytest.importorskip("pyarrow").array(text).dictionary_encode()
    else:
        pl = pytest.importorskip("polars")
        dtype = {"polars": pl.String, "categorical": pl.Categorical, "enum": pl.Enum(["yes", "no"])}[kind]
        labels = pl.Series(text, dtype=dtype)
    # the sorted order counts, whatever the order of the categories
    assert v.check_labels(labels).tolist() == [0, 1, 1]
    assert v.check_labels(labels, "no").tolist() == [1, 0, 0]
    classes, codes = v.check_classes(labels)
    assert (classes.tolist(), codes.tolist()) == (["no", "yes"], [0, 1, 1])


def test_mapped_files_are_read_in_place(tmp_path, data):
    n, rng = 1 << 18, np.random.default_rng(0)
    p, y, w = rng.random(n), rng.integers(0, 2, n), rng.random(n)
    mapped = [memory_map(values, tmp_path) for values in (y, p, w)]
    single = memory_map(p, tmp_path, np.float32)
    tracemalloc.start()
    try:
        sample = v.check_binary(*mapped[:2])
        assert tracemalloc.get_traced_memory()[1] < n
        tracemalloc.reset_peak()
        weighted = v.check_binary(*mapped)
        # no more than masks of one byte a row
        assert tracemalloc.get_traced_memory()[1] < 3 * n
        tracemalloc.reset_peak()
        converted = v.check_probabilities(single)
        assert 8 * n <= tracemalloc.get_traced_memory()[1] < 9 * n
    finally:
        tracemalloc.stop()
    for found, values in zip((sample.y, sample.p), mapped, strict=False):
        assert np.shares_memory(found, values)
    assert np.shares_memory(weighted.w, mapped[2])
    np.testing.assert_array_equal(converted, p.astype(np.float32).astype(np.float64))
    y, p, _ = data
    raw = tmp_path / "p.bin"
    raw.write_bytes(p.tobytes())
    mapped = np.memmap(raw, dtype=np.float64, mode="r")
    assert os.stat(raw).st_size == 8 * mapped.shape[0]
    np.testing.assert_array_equal(v.check_binary(y, mapped).p, p)
    assert np.shares_memory(v.check_probabilities(mapped), mapped)


class _Counted:
    """An object that numpy can only read by ``__array__``, which makes a copy."""

    def __init__(self, values):
        self.values, self.copies = values, 0

    def __array__(self, dtype=None, copy=None):
        self.copies += 1
        return self.values.copy()


@pytest.mark.parametrize(
    "call",
    [
        metrics.smooth_ece,
        metrics.calibration_summary,
        lambda y, p: inference.SpiegelhalterTest().test(y, p),
        lambda y, p: inference.confidence_interval(y, p, metric="brier_score", n_resamples=20),
    ],
)
def test_one_copy_of_foreign_arrays(call):
    y, p = simulated(100)
    P = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    for given in ((y, p), (P.argmax(axis=1), P)) if call is metrics.smooth_ece else ((y, p),):
        outcomes, predictions = map(_Counted, given)
        assert str(call(outcomes, predictions)) == str(call(*given))
        assert (outcomes.copies, predictions.copies) == (1, 1)
