"""Sketches and windows that several threads read and fill at the same time."""

import numpy as np
import pytest

from sklearn_calib.sketch import CalibrationSketch, WindowedSketch
from tests._threads import switch_often, together  # noqa: F401

N_THREADS = 8


def samples(n, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return (rng.random(n) < p).astype(np.int64), p


def numbers_of(sketch):
    sample = sketch.as_weighted_sample()
    values = (sketch.n_samples, sketch.total_weight, sketch.event_rate, sketch.mean_prediction, sketch.n_bins)
    return values, sample.w.sum(), str(sketch)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sketch_is_read_by_threads(weighted):
    y, p = samples(3000)
    w = np.arange(3000) % 3 + 1.0 if weighted else None
    half = None if w is None else w[:1500]
    expected = CalibrationSketch(precision=10).update(y, p, sample_weight=w)
    for _ in range(20):
        sketch = CalibrationSketch(precision=10).update(y[:1500], p[:1500], sample_weight=half)
        assert sketch.n_samples == 1500
        assert sketch.event_rate > 0
        sketch.update(y[1500:], p[1500:], sample_weight=None if w is None else w[1500:])
        found = together([lambda sketch=sketch: numbers_of(sketch)] * N_THREADS)
        assert found == [numbers_of(expected)] * N_THREADS
        assert sketch == expected


def test_a_window_is_read_by_threads():
    y, p = samples(900)
    expected = CalibrationSketch(precision=10).update(y, p)
    for _ in range(20):
        window = WindowedSketch(1000, precision=10)
        for start in range(0, 900, 90):
            window.update(y[start : start + 90], p[start : start + 90])
        reads = [window.current, lambda window=window: window.copy().current()]
        reads += [lambda window=window: sum(sketch for _, _, sketch in window.slots())] * 2
        assert together(reads * 2) == [expected] * 8
        assert window.current() == expected


@pytest.mark.parametrize("size", [7, 3000, 70_000])
def test_a_sketch_is_filled_by_threads(size):
    """Small batches that wait, batches of one pass, and batches that are summed apart."""
    y, p = samples(size * N_THREADS)
    parts = [slice(k, None, N_THREADS) for k in range(N_THREADS)]
    expected = CalibrationSketch(precision=10).update(np.tile(y, 3), np.tile(p, 3))
    for _ in range(3 if size > 1000 else 20):
        sketch, seen = CalibrationSketch(precision=10), []

        def fill(part, sketch=sketch, seen=seen):
            for _ in range(2):
                sketch.update(y[part], p[part])
                seen.append((sketch.total_weight, sketch.n_samples))
            sketch.merge(CalibrationSketch(precision=10).update(y[part], p[part]))

        together([lambda part=part: fill(part) for part in parts])
        assert sketch == expected
        assert sketch.n_samples == 3 * y.shape[0]
        # each number is that of whole batches
        assert all(n % size == 0 for pair in seen for n in pair)


def test_sketches_that_are_merged_with_each_other():
    one, other = (CalibrationSketch(precision=10).update(*samples(100, seed)) for seed in (1, 2))
    together([lambda: one.merge(other), lambda: other.merge(one)])
    # one of them was first
    assert {one.n_samples, other.n_samples} in ({200, 300}, {200})


@pytest.mark.parametrize("timed", [False, True])
def test_a_window_is_filled_by_threads(timed):
    y, p = samples(50 * N_THREADS)
    parts = [slice(k, None, N_THREADS) for k in range(N_THREADS)]
    for _ in range(10):
        window = WindowedSketch(10_000, precision=10)

        def fill(part, window=window):
            for _ in range(2):
                window.update(y[part], p[part], time=y[part] * 5000.0 if timed else None)
                assert window.current().n_samples % 50 == 0

        together([lambda part=part: fill(part) for part in parts])
        assert window.current() == CalibrationSketch(precision=10).update(np.tile(y, 2), np.tile(p, 2))
        assert window.n_seen == window.n_samples == 2 * y.shape[0]
