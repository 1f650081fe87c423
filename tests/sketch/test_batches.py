"""Sketches of batches: the same as of all rows at once, whatever the batches are."""

import numpy as np
import pytest

from sklearn_calib.sketch import CalibrationSketch, sketch_batches


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    p = rng.beta(0.3, 0.6, 3000)
    p[:20], p[20:40] = 0.0, 1.0
    return (rng.random(3000) < p).astype(int), p, rng.integers(0, 4, 3000)


def cut(rng, n, n_parts):
    return np.split(np.arange(n), np.sort(rng.integers(0, n + 1, n_parts - 1)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_parts", [1, 2, 40])
def test_batches_make_the_sketch_of_all_rows(rows, weighted, n_parts):
    y, p, w = rows
    whole = CalibrationSketch(precision=12).update(y, p, sample_weight=w if weighted else None)
    rng = np.random.default_rng(n_parts)
    for order in (np.arange(3000), np.argsort(y, kind="stable"), rng.permutation(3000)):
        parts = [order[part] for part in cut(rng, 3000, n_parts)]
        batches = [(y[i], p[i], w[i]) if weighted else (y[i], p[i]) for i in parts]
        assert sketch_batches(iter(batches), precision=12) == whole
        mixed = [sketch_batches([batch], precision=12) if k % 2 else batch for k, batch in enumerate(batches)]
        assert sketch_batches(mixed, precision=12) == whole


def test_only_one_batch_is_held_at_a_time(rows):
    y, p, _ = rows
    alive = []

    def batches():
        import weakref

        for start in range(0, 3000, 500):
            part = p[start : start + 500].copy()
            alive.append(weakref.ref(part))
            yield y[start : start + 500], part
            del part
            assert sum(reference() is not None for reference in alive) <= 1

    assert sketch_batches(batches()).n_samples == 3000


def test_labels_by_name(rows):
    y, p, _ = rows
    names, parts = np.where(y == 1, "bad", "good"), cut(np.random.default_rng(1), 3000, 30)
    found = sketch_batches(((names[i], p[i]) for i in parts), pos_label="bad")
    assert (found, found.pos_label) == (CalibrationSketch().update(y, p), "bad")
    assert sketch_batches([]) == sketch_batches([([], [])]) == CalibrationSketch()


def test_bad_batches_are_named():
    for batch, error, message in [
        (([0, 1], [0.5, 1.5]), ValueError, "batch 1: y_proba contains 1.5 at index 1"),
        ((["a", "b"], [0.5, 0.5]), ValueError, r"batch 1: y_true has the labels \['a', 'b'\]"),
        (([0, 1],), ValueError, "batch 1 has 1 elements"),
        (np.zeros((2, 2)), TypeError, "batch 1 is a ndarray. Pass tuples"),
        (CalibrationSketch(precision=9), ValueError, "batch 1: precision differs: 17 and 9"),
    ]:
        with pytest.raises(error, match=message):
            sketch_batches([([0, 1], [0.5, 0.5]), batch])


def test_columns_of_arrow_batches(rows):
    pyarrow = pytest.importorskip("pyarrow")
    y, p, w = rows
    text = np.where(y, "b", "a")
    table = pyarrow.table(
        {"y": y == 1, "p": p, "w": w, "text": text, "int": y.astype("int8")}
        | {"coded": pyarrow.array(text).dictionary_encode()}
    )
    whole = CalibrationSketch().update(y, p)
    batches = [*table.slice(0, 0).to_batches(), *table.to_batches(max_chunksize=7)]
    for name in ("y", "int", "text", "coded"):
        pos_label = "b" if name in ("text", "coded") else None
        assert sketch_batches(((b[name], b["p"]) for b in batches), pos_label=pos_label) == whole
    weighted = CalibrationSketch().update(y, p, sample_weight=w)
    assert sketch_batches((b["y"], b["p"], b["w"]) for b in batches) == weighted
