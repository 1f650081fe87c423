"""The monitor: its guarantees by simulation, its alerts, its windows, and what it makes of bad input."""

import math
import pickle

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit
from scipy.stats import binom, norm, poisson
from sklearn.metrics import log_loss

from sklearn_calib.inference._betting._rounds import BettingRounds
from sklearn_calib.metrics import calibration_summary, cutoff_calibration_error, smooth_ece
from sklearn_calib.monitor import CalibrationAlert, CalibrationMonitor
from sklearn_calib.monitor._alert import find_tendency, shown_evidence, shown_time
from sklearn_calib.sketch import CalibrationSketch
from tests._samples import simulated
from tests.inference._bets import wealth_of_batches

# one slot for all rows: metrics are measured once, and at alerts
ALL = {"window": 10**9, "n_slots": 1}


def batch(rng, n=200, truth=None):
    p = rng.uniform(size=n)
    return (rng.random(n) < (p if truth is None else truth(p))).astype(int), p


def too_high(p):
    return expit(logit(p) - 0.6)


def measured(metric, sketch):
    y, p, w = sketch.weighted_sample()
    return metric(y, p, sample_weight=w)


def watched(batches, **params):
    monitor = CalibrationMonitor(**params)
    return monitor, [alert for part in batches for alert in monitor.update(*part)]


@pytest.mark.parametrize("mode", ["anytime", "run-length"])
def test_the_evidence_is_that_of_the_bets(mode):
    rng = np.random.default_rng(0)
    monitor = CalibrationMonitor(mode=mode, alpha=1e-3, run_length=10_000, **ALL)
    rounds, largest = BettingRounds(adds_wealth=mode == "run-length"), 0.0
    for number in range(30):
        y, p = batch(rng, truth=None if number < 20 else too_high)
        rng.shuffle(order := np.arange(200))
        alerts, value = monitor.update(y[order], p[order]), rounds.play(y, p)
        assert monitor.log_evidence_ == pytest.approx(value, rel=1e-9)
        largest = max(largest, value)
        if mode == "anytime":
            assert monitor.pvalue_ == pytest.approx(math.exp(-largest), rel=1e-9)
        else:
            assert monitor.pvalue_ is None
        if alerts:
            break
        assert value < math.log(monitor.threshold_)
    assert number >= 20
    assert math.exp(value) >= monitor.threshold_ == pytest.approx(1000 if mode == "anytime" else 10_000)
    assert monitor.evidence_ == alerts[0].evidence == pytest.approx(math.exp(value))
    assert monitor.alerts_ == tuple(alerts)


@pytest.mark.thorough
def test_false_alarms_are_at_most_one_in_a_run_length():
    rows, run_length, streams = 6000, 1500, 8
    alarms = 0
    for seed in range(streams):
        rng = np.random.default_rng([2, seed])
        parts = [batch(rng, 60) for _ in range(rows // 60)]
        monitor, alerts = watched(parts, mode="run-length", run_length=run_length, restart=True, **ALL)
        alarms += len(alerts)
        assert monitor.n_samples_seen_ == rows
    assert poisson.sf(alarms - 1, streams * rows / run_length) > 1e-3
    # it is near what is promised, so that no power is given away
    assert alarms > 0.2 * streams * rows / run_length


DRIFTS = {
    "more events": lambda p: expit(logit(p) + 0.6),
    "fewer events": lambda p: expit(logit(p) - 0.6),
    "overconfident": lambda p: expit(0.55 * logit(p)),
    "underconfident": lambda p: expit(1.7 * logit(p)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("direction", DRIFTS)
@pytest.mark.parametrize("mode", ["anytime", "run-length"])
def test_a_drift_is_found_dated_and_named(mode, direction):
    rng = np.random.default_rng(3)
    monitor = CalibrationMonitor(mode=mode, run_length=10**6, window=1000)
    for number in range(60):
        y, p = batch(rng, truth=None if number < 40 else DRIFTS[direction])
        alerts = monitor.update(y, p)
        if alerts:
            break
    (alert,) = alerts
    assert isinstance(alert, CalibrationAlert)
    assert 40 <= number < 50
    assert alert.direction == direction
    # batches are dated by the number of rows at their end
    assert abs(alert.since - 8000) <= 600
    assert alert.time == alert.n_samples == 200 * (number + 1)
    assert (alert.pvalue is None) == (mode == "run-length")
    assert alert.pvalue is None or alert.pvalue == pytest.approx(1 / alert.evidence)
    assert alert.n_samples_window == 1000
    sketch = monitor.window_.current()
    assert alert.errors == {"smooth_ece": measured(smooth_ece, sketch)} == monitor.errors_
    assert (alert.event_rate, alert.mean_prediction) == (sketch.event_rate, sketch.mean_prediction)


@pytest.mark.parametrize("restart", [False, True])
def test_restarts(restart):
    rng = np.random.default_rng(4)
    monitor, found = watched([batch(rng, truth=too_high) for _ in range(12)], restart=restart, window=2000)
    assert len(found) > 3 if restart else len(found) == 1
    assert monitor.alarmed_ == (not restart)
    monitor.restart()
    assert (monitor.alarmed_, monitor.log_evidence_, monitor.pvalue_) == (False, 0.0, 1.0)
    assert (monitor.window_.n_samples, monitor.errors_, monitor.n_samples_seen_) == (0, {}, 2400)
    monitor.update(*batch(rng))
    monitor.restart(empty_window=False)
    assert monitor.window_.n_samples == 200
    # as if nothing had been before
    fresh = CalibrationMonitor(restart=restart, window=2000)
    for part in [batch(rng, truth=too_high) for _ in range(2)]:
        again, first = ([alert.evidence for alert in each.update(*part)] for each in (monitor, fresh))
        assert again == first
        assert monitor.log_evidence_ == fresh.log_evidence_
    assert monitor.alerts_[: len(found)] == tuple(found)


def test_alerts_after_automatic_restarts_begin_with_new_evidence():
    rng = np.random.default_rng(6)
    parts = [batch(rng, truth=too_high) for _ in range(10)]
    monitor, alerts = watched(parts, alpha=0.01, restart=True, **ALL)
    first = alerts[0].n_samples // 200
    again, _ = watched(parts[first : first + 1], alpha=0.01, **ALL)
    assert monitor.history()["log_evidence"][first] == again.log_evidence_
    assert len(alerts) == monitor.history()["alert"].sum() > 2


def test_history_and_times(monkeypatch):
    rng = np.random.default_rng(7)
    days = np.arange("2024-03-01", "2024-03-15", dtype="datetime64[D]")
    metrics = ["cutoff_calibration_error", log_loss]
    monitor = CalibrationMonitor(window=np.timedelta64(6, "D"), n_slots=3, metrics=metrics)
    parts = [batch(rng, 50) for _ in days]
    for day, part in zip(days, parts, strict=True):
        monitor.update(*part, time=day)
    table = monitor.history()
    assert list(table) == [
        "time", "n_samples", "log_evidence", "alert", "event_rate", "mean_prediction",
        "cutoff_calibration_error", "log_loss",
    ]  # fmt: skip
    assert (table["time"] == days).all()
    assert table["n_samples"].tolist() == list(range(50, 750, 50))
    assert table["log_evidence"][-1] == monitor.log_evidence_
    assert not table["alert"].any()
    # slots of two days: a new one begins every second day, and the window holds three of them
    slot = days.astype(int) // 2
    moved = np.append(True, slot[1:] != slot[:-1])
    assert (np.isfinite(table["log_loss"]) == moved).all()
    last = np.flatnonzero(moved)[-1]
    held = [k for k in range(last + 1) if slot[k] > slot[last] - 3]
    y, p = (np.concatenate([parts[k][i] for k in held]) for i in (0, 1))
    sketch = CalibrationSketch().update(y, p)
    assert table["cutoff_calibration_error"][last] == measured(cutoff_calibration_error, sketch)
    assert table["log_loss"][last] == pytest.approx(log_loss(y, p), rel=1e-4)
    assert table["event_rate"][last] == y.mean()
    assert table["mean_prediction"][last] == sketch.mean_prediction
    monkeypatch.setattr("sklearn_calib.monitor._monitor._KEPT", 5)
    rng = np.random.default_rng(13)
    monitor, _ = watched([batch(rng, 40) for _ in range(12)], **ALL)
    assert monitor.history()["n_samples"].tolist() == [320, 360, 400, 440, 480]


def test_numbers_as_times_and_late_rows():
    rng = np.random.default_rng(8)
    monitor = CalibrationMonitor(window=5.0, n_slots=5, late="drop")
    for time in (1.5, 2.5, 9.5, 3.0):
        monitor.update(*batch(rng, 20), time=time)
    assert monitor.history()["time"].tolist() == [1.5, 2.5, 9.5, 9.5]
    assert (monitor.n_samples_seen_, monitor.window_.n_samples, monitor.window_.n_late) == (80, 20, 20)
    assert "too late" in str(monitor)
    strict = CalibrationMonitor(window=5.0, n_slots=5)
    strict.update(*batch(rng, 20), time=9.5)
    before = pickle.dumps(strict)
    with pytest.raises(ValueError, match="older than the window"):
        strict.update(*batch(rng, 20), time=3.0)
    assert pickle.dumps(strict) == before


def test_weights_repeat_rows_and_labels_are_read():
    rng = np.random.default_rng(9)
    weighted, repeated = (CalibrationMonitor(window=200) for _ in range(2))
    named = CalibrationMonitor(window=200, pos_label="ill")
    for _ in range(4):
        y, p = batch(rng, 80, too_high)
        times = rng.integers(0, 4, 80)
        weighted.update(y, p, sample_weight=times, weights="frequency")
        repeated.update(np.repeat(y, times), np.repeat(p, times))
        named.update(np.where(y == 1, "ill", "well"), p, sample_weight=times, weights="frequency")
    assert weighted.n_samples_seen_ == repeated.n_samples_seen_ == named.n_samples_seen_
    for other in (repeated, named):
        assert weighted.log_evidence_ == pytest.approx(other.log_evidence_, rel=1e-9)
    assert weighted.window_.current() == named.window_.current()
    single, whole = CalibrationMonitor(), CalibrationMonitor()
    for y, p, count in ((1, 0.3, 2), (0, 0.6, 1), (1, 0.9, 1)):
        single.update(y, p, sample_weight=count, weights="frequency")
        whole.update([y] * count, [p] * count)
    assert single.n_samples_seen_ == whole.n_samples_seen_ == 4
    assert single.log_evidence_ == whole.log_evidence_


def test_metrics_that_fail_are_missing_and_say_so():
    def strict(y_true, y_proba, sample_weight):
        if np.unique(y_true).size < 2:
            raise ValueError("one class")
        return np.float32(0.5)

    monitor = CalibrationMonitor(metrics=[strict, "smooth_ece"], window=10, n_slots=1)
    with pytest.warns(RuntimeWarning, match="strict failed on 2 samples: one class"):
        monitor.update([1, 1], [0.7, 0.8])
    monitor.update(*[np.tile(v, 10) for v in ([0, 1], [0.2, 0.8])])
    assert monitor.history()["strict"].tolist() == pytest.approx([math.nan, 0.5], nan_ok=True)
    assert monitor.errors_["strict"] == 0.5
    with pytest.raises(TypeError, match=r"plain\(y_true, y_proba, sample_weight=...\)"):
        CalibrationMonitor(metrics=plain)


def plain(y_true, y_proba):
    return 0.0


def test_empty_batches_and_impossible_outcomes():
    monitor = CalibrationMonitor()
    assert (monitor.update([], []), monitor.update([0, 1], [0.2, 0.3], sample_weight=[0, 0])) == ([], [])
    assert (monitor.n_samples_seen_, monitor.history()["time"].shape, monitor.errors_) == (0, (0,), {})
    assert (monitor.evidence_, CalibrationMonitor(mode="run-length").evidence_) == (1.0, 0.0)
    monitor = CalibrationMonitor()
    assert monitor.update([0, 1], [0.0, 1.0]) == []
    (alert,) = monitor.update([1, 0, 1], [0.5, 0.5, 0.0])
    assert alert.impossible == (1, 0.0)
    assert alert.evidence == alert.log_evidence == math.inf
    assert alert.pvalue == monitor.pvalue_ == 0.0
    assert "y = 1 where p = 0" in str(alert)
    assert "inf" in str(alert)


@pytest.mark.parametrize(
    ("args", "weight", "time", "message"),
    [
        (([0, 1], [0.2, 1.5]), None, None, "y_proba"),
        ((["a", "b"], [0.2, 0.3]), None, None, "pos_label"),
        (([0, 1], [0.2, 0.3]), [1, 2], None, "sampling weights"),
        (([0, 1], [0.2, 0.3]), None, 5.0, "time contains numbers"),
    ],
)
def test_bad_batches_leave_it_as_it_was(args, weight, time, message):
    monitor = CalibrationMonitor()
    monitor.update(*batch(np.random.default_rng(11), 50))
    before = pickle.dumps(monitor)
    with pytest.raises(ValueError, match=message):
        monitor.update(*args, sample_weight=weight, time=time)
    assert pickle.dumps(monitor) == before


def test_bad_parameters():
    for params, kind, message in [
        ({"mode": "always"}, ValueError, "mode must be one of"),
        ({"run_length": 1}, ValueError, "run_length must be at least 2"),
        ({"restart": "yes"}, TypeError, "restart must be True or False"),
        ({"dependent_batches": "yes"}, TypeError, "dependent_batches"),
        ({"window": -5}, ValueError, "window must be at least 1"),
        ({"metrics": "accuracy"}, ValueError, "metrics='accuracy' is not the name"),
        ({"metrics": []}, ValueError, "metrics is empty"),
        ({"metrics": [3]}, TypeError, "metrics must be the name of a metric"),
        ({"metrics": ["smooth_ece", "smooth_ece"]}, ValueError, "twice"),
    ]:
        with pytest.raises(kind, match=message):
            CalibrationMonitor(**params)


def test_texts():
    rng = np.random.default_rng(14)
    monitor, (alert,) = watched([batch(rng, truth=too_high) for _ in range(6)], alpha=0.01)
    text = str(monitor)
    facts = ("of any false alarm at most 0.01", "1200 seen, 1200 in the window", "alert at 100", "smooth_ece")
    for fact in facts:
        assert fact in text
        assert fact in monitor._repr_html_()
    assert "alerts (1)" in monitor._repr_html_()
    assert repr(monitor) == "<CalibrationMonitor(mode='anytime') of 1200 samples, 1 alerts>"
    for fact in ("rarer than predicted", f"{alert.n_samples} tested", "since", "anytime-valid"):
        assert fact in str(alert)
        assert fact in alert._repr_html_()
    assert "average run length at least 1e+06 samples" in str(CalibrationMonitor(mode="run-length"))
    str(CalibrationMonitor())
    assert (shown_evidence(np.log(123.456)), shown_evidence(np.inf)) == ("123.5", "inf")
    assert (shown_evidence(-np.inf), shown_evidence(5000 * np.log(10.0))) == ("0", "10^5000")
    assert (shown_time(7), shown_time(2.5)) == ("7", "2.5")
    for text in ("2024-03-01", "2024-03-01T12:30", "2024-03-01T12:30:05", "2024-03-01T12:30:05.000000001"):
        assert shown_time(np.datetime64(text, "ns")) == text


def clustered(rng, n=40, rho=0.4, truth=lambda p: p):
    """A batch whose outcomes depend on each other: P(Y = 1) = truth(p) for each of them."""
    p = rng.uniform(size=n)
    value = np.sqrt(rho) * rng.normal() + np.sqrt(1.0 - rho) * rng.normal(size=n)
    return (norm.cdf(value) < truth(p)).astype(int), p


@pytest.mark.parametrize("mode", ["anytime", "run-length"])
def test_evidence_of_dependent_batches_against_a_loop(mode):
    rng = np.random.default_rng(1)
    made = CalibrationMonitor(mode=mode, dependent_batches=True, **ALL)
    batches = [(*clustered(rng, n), rng.integers(1, 3, n)) for n in range(20, 45, 5)]
    expected = wealth_of_batches(batches, adds_wealth=mode == "run-length")
    for (y, p, w), wealth in zip(batches, expected, strict=True):
        made.update(y, p, sample_weight=w, weights="frequency")
        assert made.evidence_ == pytest.approx(wealth)


@pytest.mark.weekly
def test_dependent_batches_raise_no_false_alarms():
    """Independent bets on dependent batches raise false alarms; those of dependent batches do not."""
    alarms, repetitions = {}, {False: 15, True: 40}
    for dependent, count in repetitions.items():
        alarms[dependent] = 0
        for seed in range(count):
            rng = np.random.default_rng(seed)
            made = CalibrationMonitor(alpha=0.1, dependent_batches=dependent, **ALL)
            for _ in range(60):
                made.update(*clustered(rng))
            alarms[dependent] += made.alarmed_
    assert alarms[True] <= binom.ppf(0.999, 40, 0.1)
    assert alarms[False] > 15 / 2


@pytest.mark.parametrize("mode", ["anytime", "run-length"])
def test_saved_ones_go_on_where_they_were(mode):
    rng = np.random.default_rng(12)
    monitor, _ = watched([batch(rng) for _ in range(5)], mode=mode)
    loaded = pickle.loads(pickle.dumps(monitor))
    for name, column in monitor.history().items():
        np.testing.assert_array_equal(loaded.history()[name], column)
    for _ in range(8):
        part = batch(rng, truth=too_high)
        assert monitor.update(*part) == loaded.update(*part)
    assert (str(monitor), len(monitor.alerts_)) == (str(loaded), 1)


def loss(y, z):
    return np.logaddexp(0, z).sum() - (y * z).sum()


@pytest.mark.parametrize("truth", [*DRIFTS.values(), lambda p: p], ids=[*DRIFTS, "right"])
@pytest.mark.parametrize("n", [60, 2000])
def test_the_likelier_recalibration_decides(truth, n):
    y, p = simulated(n, "beta", 0.8, 1.5, truth=truth)
    z = logit(p)
    shift = minimize_scalar(lambda a: loss(y, a + z), bounds=(-5, 5), method="bounded")
    slope = minimize_scalar(lambda b: loss(y, b * z), bounds=(-5, 5), method="bounded")
    gains = np.array([loss(y, z) - shift.fun, loss(y, z) - slope.fun])
    words = ["more events" if shift.x > 0 else "fewer events"]
    words += ["overconfident" if slope.x < 1 else "underconfident"]
    expected = "unclear" if gains.max() < 1.92 else words[gains.argmax()]
    found = find_tendency(CalibrationSketch().update(y, p))
    assert (found["direction"], found["intercept"]) == (expected, pytest.approx(shift.x, abs=1e-3))
    assert found["slope"] == pytest.approx(calibration_summary(y, p).slope.estimate, abs=1e-3)


@pytest.mark.parametrize(
    ("y", "p", "direction", "finite"),
    [
        ([1] * 20, [0.5] * 20, "more events", (False, False)),
        ([0] * 20, np.linspace(0.3, 0.9, 20), "fewer events", (False, False)),
        ([0, 1] * 20, [0.2] * 40, "more events", (True, False)),
        ([0, 1] * 20, [0.5] * 40, "unclear", (True, False)),
        ([0] * 10 + [1] * 10, np.linspace(0.2, 0.8, 20), "unclear", (True, False)),
        ([0], [0.4], "unclear", (False, False)),
        ([0, 1, 1], [0.0, 1.0, 0.0], "more events", (True, False)),
        # the log-odds decide, whatever the outcomes of predictions of 0 and 1
        ([0, 0, 0, 1] * 25 + [1] * 100, [0.5] * 100 + [0.0] * 100, "fewer events", (True, False)),
    ],
)
def test_corners(y, p, direction, finite):
    found = find_tendency(CalibrationSketch().update(y, p))
    assert found["direction"] == direction
    assert (np.isfinite(found["intercept"]), np.isfinite(found["slope"])) == finite
