"""MonitorDisplay: what is drawn is the history."""

import numpy as np
import pytest

from sklearn_calib.monitor import CalibrationMonitor
from sklearn_calib.plot import MonitorDisplay
from tests.plot._legend import legend_texts

plt = pytest.importorskip("matplotlib.pyplot")
DAYS = np.arange("2024-03-01", "2024-03-13", dtype="datetime64[D]")


@pytest.fixture(scope="module")
def monitor():
    rng, window = np.random.default_rng(0), {"window": np.timedelta64(6, "D"), "n_slots": 3}
    names = ["smooth_ece", "cutoff_calibration_error"]
    monitor = CalibrationMonitor(**window, metrics=names, restart=True, alpha=0.01)
    for day in DAYS:
        p = rng.uniform(size=150)
        monitor.update(rng.random(150) < p**1.5, p, time=day)
    return monitor


def test_the_history_is_drawn(monitor):
    display, table = MonitorDisplay.from_monitor(monitor, name="$the model$"), monitor.history()
    assert (display.evidence_.get_xdata(orig=True) == table["time"]).all()
    np.testing.assert_allclose(display.evidence_.get_ydata(), table["log_evidence"] / np.log(10))
    np.testing.assert_allclose(display.threshold_.get_ydata(), np.log10(100.0))
    assert (display.alerts_.get_xdata(orig=True) == table["time"][table["alert"]]).all()
    assert table["alert"].sum() == len(monitor.alerts_) > 1
    known = np.isfinite(table["smooth_ece"])
    assert 1 < known.sum() < 12
    assert (display.error_.get_xdata(orig=True) == table["time"][known]).all()
    np.testing.assert_array_equal(display.error_.get_ydata(), table["smooth_ece"][known])
    assert [ax.get_ylabel() for ax in display.axes_] == ["log10 of the evidence", "smooth_ece"]
    assert display.axes_[1].get_xlabel() == "Time"
    assert legend_texts(display) == ["evidence", "alert at 100", f"{len(monitor.alerts_)} alerts"]
    assert display.ax_.get_legend().get_title().get_text() == r"\$the model\$"
    assert display.figure_ is display.ax_.figure
    display.figure_.draw_without_rendering()


def test_axes_and_lines_of_the_caller(monitor):
    _, axes = plt.subplots(2, 1)
    given = {"metric": "cutoff_calibration_error", "color": "k", "show_legend": False}
    display = MonitorDisplay.from_monitor(monitor, ax=axes, **given)
    assert display.axes_ == list(axes)
    assert display.evidence_.get_color() == display.error_.get_color() == "k"
    assert display.ax_.get_legend() is None
    assert axes[1].get_ylabel() == "cutoff_calibration_error"
    _, alone = plt.subplots()
    display = MonitorDisplay.from_monitor(monitor, ax=alone)
    assert display.axes_ == [alone]
    assert display.error_ is None
    assert len(plt.get_fignums()) == 2


def test_evidence_without_bounds_leaves_the_picture():
    monitor = CalibrationMonitor(mode="run-length", run_length=1000)
    for y, p in [([0, 1], [0.0, 1.0]), ([1, 0] * 20, [0.6] * 40), ([1], [0.0])]:
        monitor.update(y, p)
    assert np.isinf(monitor.history()["log_evidence"][[0, 2]]).all()
    display = MonitorDisplay.from_monitor(monitor)
    low, high = display.ax_.get_ylim()
    assert -6 < low < 0 < 6 <= high < 12
    shown = display.evidence_.get_ydata()
    assert np.isnan(shown[0])
    assert shown[2] > high
    assert low < display.alerts_.get_ydata()[0] < high
    assert display.axes_[1].get_xlabel() == "Samples"
    display.figure_.draw_without_rendering()


def test_what_cannot_be_drawn(monitor):
    known = "metric must be one of 'smooth_ece', 'cutoff_calibration_error'"
    for given, options, error, message in (
        ([], {}, TypeError, "monitor must be a CalibrationMonitor, got list"),
        (CalibrationMonitor(), {}, ValueError, "has not been updated"),
        (monitor, {"metric": "ece"}, ValueError, known),
        (monitor, {"ax": [1, 2, 3]}, TypeError, "ax must be one matplotlib Axes, or two"),
    ):
        with pytest.raises(error, match=message):
            MonitorDisplay.from_monitor(given, **options)
