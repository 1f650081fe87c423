"""Streaming calibrators and monitors that several threads read and feed at the same time."""

from itertools import chain

import numpy as np
import pytest

from sklearn_calib.calibrators import PlattCalibrator
from sklearn_calib.monitor import CalibrationMonitor, StreamingCalibrator
from sklearn_calib.sketch import CalibrationSketch
from tests._threads import switch_often, together  # noqa: F401

N_THREADS = 4
FORGETTING = [{}, {"window": 1000, "n_slots": 5}, {"half_life": 300}]


def samples(n, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return (rng.random(n) < p**2).astype(np.int64), p


def streaming(params):
    return StreamingCalibrator(PlattCalibrator(), precision=10, **params)


@pytest.mark.parametrize("params", FORGETTING, ids=str)
def test_predictions_after_a_batch(params):
    y, p = samples(400)
    grid = np.linspace(0, 1, 20)
    expected = streaming(params).partial_fit(p[:200], y[:200]).partial_fit(p[200:], y[200:]).transform(grid)
    for _ in range(15):
        calibrator = streaming(params).partial_fit(p[:200], y[:200])
        calibrator.transform(grid)
        calibrator.partial_fit(p[200:], y[200:])
        for found in together([lambda calibrator=calibrator: calibrator.transform(grid)] * N_THREADS):
            np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(calibrator.transform(grid), expected)


@pytest.mark.parametrize("params", FORGETTING, ids=str)
def test_batches_from_threads(params):
    """None is lost, the first ones of a stream included, and no map is that of older samples for good."""
    y, p = samples(100 * N_THREADS)
    parts = [slice(k, None, N_THREADS) for k in range(N_THREADS)]
    for _ in range(6):
        calibrator = streaming(params)

        def feed(part, calibrator=calibrator):
            for _ in range(2):
                calibrator.partial_fit(p[part], y[part])
                calibrator.transform([0.3])

        together([lambda part=part: feed(part) for part in parts])
        assert calibrator.n_samples_seen_ == 2 * y.shape[0]
        again = PlattCalibrator().fit(calibrator.sketch_)
        np.testing.assert_array_equal(calibrator.transform([0.3]), again.transform([0.3]))
        if not params:
            assert calibrator.sketch_ == CalibrationSketch(precision=10).update(np.tile(y, 2), np.tile(p, 2))


def test_a_monitor_that_is_fed_by_threads():
    y, p = samples(100 * N_THREADS)
    parts = [slice(k, None, N_THREADS) for k in range(N_THREADS)]
    for _ in range(3):
        monitor = CalibrationMonitor(window=5000, precision=10, metrics="cutoff_calibration_error")

        def feed(part, monitor=monitor):
            found = []
            for _ in range(3):
                found += monitor.update(y[part], p[part])
                assert monitor.n_samples_seen_ % 100 == 0
                assert "seen" in str(monitor)
            return found

        alerts = [*chain.from_iterable(together([lambda part=part: feed(part) for part in parts]))]
        assert monitor.n_samples_seen_ == monitor.window_.n_samples == 3 * y.shape[0]
        assert monitor.history()["n_samples"].tolist() == list(range(100, 3 * y.shape[0] + 1, 100))
        assert monitor.alerts_ == tuple(alerts)
        assert len(alerts) == 1
        assert monitor.window_.current() == CalibrationSketch(precision=10).update(
            np.tile(y, 3), np.tile(p, 3)
        )
