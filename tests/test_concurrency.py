"""Threads and processes: the same numbers as one after the other, and an error where a worker dies."""

import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from sklearn_calib import CalibratedClassifier, CrossFitScorer
from sklearn_calib.calibrators import SmoothedCalibrator
from sklearn_calib.inference import TCal
from sklearn_calib.monitor import CalibrationMonitor
from sklearn_calib.scorers import PValueScorer, get_scorer
from tests import _every as every

N_THREADS = 4


def at_once(calls):
    """Run functions in threads at the same time, each twice; return their results in order."""
    with ThreadPoolExecutor(N_THREADS) as pool:
        rounds = [[pool.submit(call) for call in calls] for _ in range(2)]
        first, again = ([future.result() for future in futures] for futures in rounds)
    assert every.differs(first, again) is None
    return first


@pytest.fixture(autouse=True)
def _switch_often():
    """Let threads take turns more often than usual, so that they meet."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("name", every.CALIBRATOR_NAMES)
def test_calibrators_predict_in_threads(name):
    calibrator, scores = every.fitted_calibrator(name)
    parts = [scores[k::N_THREADS] for k in range(N_THREADS)]
    calls = [lambda rows=rows: calibrator.predict_proba(rows) for rows in parts]
    calls += [lambda rows=rows: calibrator.transform(rows) for rows in parts]
    assert every.differs(at_once(calls), [call() for call in calls]) is None


@pytest.mark.parametrize("name", every.META_MAKERS)
def test_classifiers_predict_in_threads(name):
    X, y = every.features()
    model = clone(every.META_MAKERS[name]).fit(X, y)
    method = "transform" if hasattr(model, "transform") else "predict_proba"
    calls = [lambda k=k: getattr(model, method)(X[k::N_THREADS]) for k in range(N_THREADS)]
    assert every.differs(at_once(calls), [call() for call in calls]) is None


def test_randomized_predictions_in_threads():
    """With a whole number as seed each call has a generator of its own."""
    y, p = every.binary()
    calibrator = SmoothedCalibrator(randomized=True, random_state=3).fit(p, y)
    expected = calibrator.transform(p)
    for found in at_once([lambda: calibrator.transform(p)] * N_THREADS):
        np.testing.assert_array_equal(found, expected)


def numbers_of(model, n_jobs):
    X, y = every.features()
    fitted = clone(model).set_params(n_jobs=n_jobs)
    if isinstance(model, CrossFitScorer):
        return [fitted.fit_transform(X, y), fitted.transform(X)]
    return [fitted.fit(X, y).predict_proba(X)]


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.thorough)])
def test_workers_give_the_same(backend):
    """Threads or processes, by n_jobs or by the context: rounding at most, as arrays may lie otherwise."""
    X, y = every.features()
    p_value = PValueScorer(TCal(n_resamples=19, random_state=0))
    for name in ("ensemble", "pooled", "cross_fit"):
        model = every.META_MAKERS[name]
        expected = numbers_of(model, 1)
        with parallel_config(backend=backend):
            found = numbers_of(model, 2)
        with parallel_config(backend=backend, n_jobs=2):
            from_context = numbers_of(model, None)
        for one, two, three in zip(expected, found, from_context, strict=True):
            np.testing.assert_allclose(two, one, rtol=1e-12, atol=1e-14, err_msg=name)
            np.testing.assert_allclose(three, one, rtol=1e-12, atol=1e-14, err_msg=name)
    for scorer in (get_scorer("neg_smooth_ece"), p_value):
        alone = cross_val_score(every.META_MAKERS["ensemble"], X, y, scoring=scorer, cv=2)
        with parallel_config(backend=backend):
            shared = cross_val_score(every.META_MAKERS["ensemble"], X, y, scoring=scorer, cv=2, n_jobs=2)
        np.testing.assert_allclose(shared, alone, rtol=1e-9, atol=1e-12)


def test_errors_of_workers_are_those_of_one():
    X, y = every.features()
    messages = []
    for n_jobs in (1, 2):
        model = CalibratedClassifier(LogisticRegression(C=-1.0), cv=3, n_jobs=n_jobs)
        with parallel_config(backend="threading"), pytest.raises(ValueError, match="C") as caught:
            model.fit(X, y)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_pages_of_reports_in_threads(monkeypatch):
    """Figures are drawn one after the other, in a style that is gone afterward."""

    def drawn(*_):
        style = mpl.rcParams["svg.hashsalt"]
        time.sleep(0.02)
        assert mpl.rcParams["svg.hashsalt"] == style
        return "<svg></svg>"

    pytest.importorskip("jinja2")
    mpl = pytest.importorskip("matplotlib")
    report, before = every.RESULT_MAKERS["report"](), dict(mpl.rcParams)
    monkeypatch.setattr("sklearn_calib.report._figures._svg", drawn)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: report.to_html(), range(2))
    assert (first, first.count("<figure"), dict(mpl.rcParams)) == (second, 4, before)


def test_a_monitor_is_read_while_it_is_updated():
    """Every access sees the state after a complete update: batches of ten samples, slots of thirty."""
    monitor = CalibrationMonitor(window=300, n_slots=10, metrics="brier_score", restart=True)
    rng = np.random.default_rng(0)
    monitor.update(rng.random(10) < 0.5, rng.random(10))
    reading = Event()

    def update():
        reading.wait()
        for _ in range(45):
            p = rng.random(10)
            monitor.update(rng.random(10) < p**3, p)

    def read():
        n_reads = 0
        while not updates.done():
            window, history = monitor.window_, monitor.history()
            slots = [sketch.n_samples for _, _, sketch in window.slots()]
            assert window.n_seen % 10 == 0
            assert sum(slots) == window.n_samples == window.current().n_samples
            assert slots[:-1] == [30] * (len(slots) - 1)
            assert history["n_samples"].tolist() == [10 * k for k in range(1, history["n_samples"].size + 1)]
            assert set(monitor.errors_) == {"brier_score"}
            seen, _, inside = re.search(r"samples +(\d+) seen, ((\d+) in the window)", str(monitor)).groups()
            # a window that is full loses a slot at a time
            assert int(inside) == int(seen) if int(seen) < 300 else 270 < int(inside) <= 300
            n_reads += 1
            reading.set()
        return n_reads

    with ThreadPoolExecutor(3) as pool:
        updates = pool.submit(update)
        readers = [pool.submit(read) for _ in range(2)]
        updates.result()
        assert sum(reader.result() for reader in readers) > 20
    assert monitor.n_samples_seen_ == 460
