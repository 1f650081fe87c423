"""Updates that are broken off: a sketch or a window is then as it was before, or as it is after."""

import copy

import numpy as np
import pytest

from sklearn_calib.sketch import CalibrationSketch, WindowedSketch
from tests._interrupt import CALLS, RETURNS, count_calls, interrupt, spread


def samples(n, seed=0):
    rng = np.random.default_rng(seed)
    p = np.concatenate((rng.random(n - n // 4), 2.0 ** -rng.uniform(1, 50, n // 4)))
    return (rng.random(n) < p).astype(np.int64), p


def filled(*sizes, pos_label=None, weighted=False):
    """Return a sketch with these batches, as they were added."""
    sketch = CalibrationSketch(precision=8, pos_label=pos_label)
    for number, size in enumerate(sizes):
        y, p = samples(size, number)
        sketch.update(y, p, sample_weight=np.arange(size) % 5 if weighted else None)
    return sketch


def broken_off(make, change, state):
    """Break ``change`` off at many calls, each time on a new object; return how often it was made."""
    before, done = state(make()), make()
    change(done)
    after, made = state(done), 0
    assert before != after
    for events in (CALLS, RETURNS):
        fresh = make()
        total = count_calls(lambda fresh=fresh: change(fresh), events)
        for at in spread(total, n_between=5, n_ends=4):
            found = make()
            assert interrupt(lambda found=found: change(found), at, events)
            # a call is noticed when the object is used again: whatever is asked first
            if at % 2:
                found = copy.copy(found)
            assert state(found) in (before, after), at
            made += state(found) == after
            # and it goes on as if nothing had been
            if state(found) == before:
                change(found)
            assert found == done
    return made


UPDATES = {
    "waiting": ([100], 50, False),
    "no more room": ([2000] * 16, 2000, False),
    "one pass": ([100, 3000], 3000, False),
    "apart": ([100, 3000], 70_000, False),
    "weights": ([100, 3000], 3000, True),
    "apart, weights": ([10], 70_000, True),
    "first": ([], 3000, False),
}


@pytest.mark.parametrize("name", UPDATES)
def test_updates_of_a_sketch(name):
    sizes, size, weighted = UPDATES[name]
    y, p = samples(size, 99)
    w = np.arange(size) % 3 if weighted else None
    broken_off(
        lambda: filled(*sizes),
        lambda sketch: sketch.update(y, p, sample_weight=w),
        CalibrationSketch.to_dict,
    )


@pytest.mark.parametrize("pos_label", [None, 1])
def test_merges_of_a_sketch(pos_label):
    other = filled(3000, pos_label=1, weighted=True)
    broken_off(
        lambda: filled(100, 3000, pos_label=pos_label),
        lambda sketch: sketch.merge(other),
        CalibrationSketch.to_dict,
    )


def test_reading_a_sketch():
    sketch = filled(100, 3000, 70)
    expected = sketch.copy().to_dict()
    for events in (CALLS, RETURNS):
        for at in spread(count_calls(lambda: filled(100, 3000, 70).to_dict(), events), 10, 4):
            sketch = filled(100, 3000, 70)
            interrupt(sketch.to_dict, at, events)
            assert sketch.to_dict() == expected


WINDOWS = {
    # time of the batches before, and of the one that is broken off
    "counted": (None, None),
    "first": ((), np.arange(300) % 7),
    "one slot": (([3.0], [4.0]), 4.5),
    "new slot": (([3.0], [4.0]), 5.5),
    "many slots, some too late": (([3.0], [4.0]), (np.arange(300) * 7919 % 130) / 10.0 - 3.0),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_updates_of_a_window(name):
    earlier, time = WINDOWS[name]
    y, p = samples(300)

    def make():
        window = WindowedSketch(100 if earlier is None else 10.0, late="drop", precision=8)
        for moment in (None, None) if earlier is None else earlier:
            window.update(y[:33], p[:33], time=moment)
        return window

    made = broken_off(make, lambda window: window.update(y, p, time=time), WindowedSketch.to_dict)
    # the samples are in before the call has ended
    assert made > 0


def test_merges_of_a_window():
    y, p = samples(300)

    def make(first=0):
        return WindowedSketch(10.0, precision=8).update(y, p, time=first + np.arange(300) % 13)

    broken_off(make, lambda window: window.merge(make(5)), WindowedSketch.to_dict)


def test_a_lack_of_memory_that_lasts(monkeypatch):
    """A batch of one slot for which there is never enough memory leaves the window as it was."""
    y, p = samples(70_000)
    window = WindowedSketch(10.0, precision=8).update(y[:3000], p[:3000], time=3.0)
    before = window.to_dict()

    def no_memory(*args, **kwargs):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(np, "empty", no_memory)
        with pytest.raises(MemoryError):
            window.update(y, p, time=4.0)
    # what is in these arrays now is another batch
    y[:], p[:] = 1, 0.25
    assert window.to_dict() == before


def test_as_many_samples_in_one_cell_as_packed_sums_can_count():
    n = 1 << 23
    y, p = np.ones(n, dtype=bool), np.full(n, 0.3, dtype=np.float32)
    sketch = CalibrationSketch(precision=8)
    for part in (slice(1000), slice(1000, 200_000), slice(200_000, None)):
        sketch.update(y[part], p[part])
    assert (sketch.n_samples, sketch.total_weight, sketch.event_rate) == (n, n, 1.0)
    assert sketch.mean_prediction == pytest.approx(p[0], abs=1e-7)
    assert CalibrationSketch(precision=8).update(y, p) == sketch
    sketch.update(y[:5000], p[:5000]).update(y[:5], p[:5])
    assert (sketch.n_samples, sketch.total_weight) == (n + 5005, n + 5005)
