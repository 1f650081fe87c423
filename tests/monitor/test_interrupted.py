"""Batches that are broken off: a calibrator or a monitor is then as it was before, or as it is after."""

import copy

import numpy as np
import pytest

from sklearn_calib.calibrators import PlattCalibrator
from sklearn_calib.monitor import CalibrationMonitor, StreamingCalibrator
from tests._every import differs
from tests._interrupt import CALLS, RETURNS, count_calls, interrupt, spread


def samples(n, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.01, 0.99, n)
    return (rng.random(n) < p**2).astype(np.int64), p


def broken_off(make, change, state):
    """Break ``change`` off at many calls, each time on a new object; return how often it was made."""
    done = make()
    change(done)
    before, after, made = state(make()), state(done), 0
    assert differs(before, after)
    for events in (CALLS, RETURNS):
        fresh = make()
        total = count_calls(lambda fresh=fresh: change(fresh), events)
        for at in spread(total, n_between=4, n_ends=3):
            found = make()
            assert interrupt(lambda found=found: change(found), at, events)
            if at % 2:
                found = copy.deepcopy(found)
            difference = differs(state(found), before)
            assert difference is None or differs(state(found), after) is None, (at, difference)
            made += difference is not None
            # and it goes on as if nothing had been
            if difference is None:
                change(found)
            assert differs(state(found), after) is None, at
    return made


def learned(calibrator):
    if not hasattr(calibrator, "classes_"):
        return dict(vars(calibrator))
    found = calibrator.sketch_.as_weighted_sample()
    numbers = found.p, found.w, calibrator.transform([0.2, 0.7])
    # a copy adds up weights in another order, so that the last bits may differ
    rounded = [values.astype(np.float32) for values in numbers]
    return [calibrator.n_samples_seen_, calibrator.classes_, found.y, *rounded]


MEMORIES = {
    "full": {},
    "sliding": {"window": 100, "n_slots": 4},
    "fading": {"half_life": 100},
    # the weights become too large
    "fading fast": {"half_life": 2},
}


@pytest.mark.parametrize(
    ("name", "first", "weighted"),
    [
        ("full", False, False),
        ("full", True, True),
        ("sliding", False, True),
        ("fading", False, False),
        ("fading", True, False),
        ("fading fast", False, True),
    ],
)
def test_batches_of_a_calibrator(name, first, weighted):
    y, p = samples(120)
    y[:2] = y[-2:] = [0, 1]
    w = np.arange(70) % 3 + 1.0 if weighted else None

    def make():
        calibrator = StreamingCalibrator(PlattCalibrator(), precision=8, **MEMORIES[name])
        return calibrator if first else calibrator.partial_fit(p[:50], y[:50])

    made = broken_off(make, lambda found: found.partial_fit(p[50:], y[50:], sample_weight=w), learned)
    assert made or first


def watched(monitor):
    facts = monitor.n_samples_seen_, monitor.log_evidence_, monitor.alarmed_, monitor.alerts_, monitor.errors_
    return [monitor.window_.to_dict(), facts, monitor.history(), monitor.pvalue_]


BATCHES = {
    "calm": ({}, 20),
    "alert": ({}, 300),
    "alert and restart": ({"restart": True}, 300),
    "run length": ({"mode": "run-length", "run_length": 100, "max_history": 1}, 300),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_of_a_monitor(name):
    params, n = BATCHES[name]
    y, p = samples(50 + n)

    def make():
        monitor = CalibrationMonitor(window=100, precision=8, metrics="cutoff_calibration_error", **params)
        monitor.update(y[:25], p[:25])
        monitor.update(y[25:50], p[25:50])
        return monitor

    assert len(make().update(y[50:], p[50:])) == (n > 100)
    made = broken_off(make, lambda monitor: monitor.update(y[50:], p[50:]), watched)
    assert made > 0


def test_restarts_of_a_monitor():
    y, p = samples(300)

    def make():
        monitor = CalibrationMonitor(window=100, precision=8, metrics="cutoff_calibration_error")
        monitor.update(y, p)
        return monitor

    broken_off(make, lambda monitor: monitor.restart(), watched)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, MemoryError])
def test_a_metric_that_raises(error):
    """An error that is not one of numbers is passed on, and the batch is not in."""
    y, p = samples(200)
    raising = []

    def metric(y_true, y_proba, sample_weight=None):
        if raising:
            raise error("no")
        return 0.5

    monitor = CalibrationMonitor(window=100, precision=8, metrics=metric)
    monitor.update(y[:60], p[:60])
    before = watched(monitor)
    raising.append(True)
    with pytest.raises(error):
        monitor.update(y[60:], p[60:])
    raising.clear()
    assert differs(watched(monitor), before) is None
    other = CalibrationMonitor(window=100, precision=8, metrics=metric)
    other.update(y[:60], p[:60])
    assert monitor.update(y[60:], p[60:]) == other.update(y[60:], p[60:])
    assert differs(watched(monitor), watched(other)) is None


def test_copies_of_a_monitor_are_independent():
    y, p = samples(300)
    monitor = CalibrationMonitor(window=100, precision=8, metrics="cutoff_calibration_error")
    monitor.update(y[:50], p[:50])
    before, twin, third = watched(monitor), copy.copy(monitor), copy.deepcopy(monitor)
    twin.update(y[50:], p[50:])
    third.update(1 - y[50:], p[50:])
    assert differs(watched(monitor), before) is None
    again = copy.copy(monitor)
    again.update(y[50:], p[50:])
    assert differs(watched(again), watched(twin)) is None
    assert differs(watched(third), watched(twin))
