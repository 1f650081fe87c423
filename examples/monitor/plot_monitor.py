"""
Monitoring a model in production: drift, alert, recalibration
=============================================================

``CalibrationMonitor`` tests the calibration of a model after every batch of outcomes, and the probability of
any false alarm is bounded. After an alert, ``StreamingCalibrator`` recalibrates the predictions with a map
that is updated on the same stream.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit

from sklearn_calib.monitor import CalibrationMonitor, StreamingCalibrator
from sklearn_calib.plot import MonitorDisplay

# %%
# The stream has 150 predictions a day for half a year. From 1 April on, events are rarer and predictions are
# overconfident.

rng = np.random.default_rng(1)
DRIFT = np.datetime64("2025-04-01")


def outcomes_of(day):
    p = rng.beta(2.0, 2.5, size=150)
    truth = p if day < DRIFT else expit(0.7 * logit(p) - 0.5)
    return p, (rng.random(150) < truth).astype(int)


# %%
# The monitor is updated with predictions and outcomes every day. While the predictions are calibrated, the
# probability of an alert at any time is at most 1%. The calibrator is updated with the same data; the weight
# of a sample is halved after 1000 further samples. A second monitor tests the model without recalibration.

window = {"window": np.timedelta64(14, "D"), "n_slots": 14}
monitor, unchanged = (CalibrationMonitor(alpha=0.01, **window) for _ in range(2))
calibrator, recalibrated = StreamingCalibrator(half_life=1000), False
for day in np.arange("2025-01-01", "2025-07-01", dtype="datetime64[D]"):
    p, y = outcomes_of(day)
    served = calibrator.transform(p) if recalibrated else p
    alerts = monitor.update(y, served, time=day)
    unchanged.update(y, p, time=day)
    calibrator.partial_fit(p, y)
    for alert in alerts:
        print(alert)
        # the predictions change from here on, so the test is restarted
        recalibrated = True
        monitor.restart()

# %%
# The alert is raised a few days after the drift. The evidence, an e-value, then restarts at 1 and remains
# below the limit. The errors are computed in windows of 14 days; they are positive even under perfect
# calibration.

fig, axes = plt.subplots(2, 1, figsize=(8, 6), sharex=True, layout="constrained", height_ratios=[3, 2])
table = unchanged.history()
axes[1].plot(table["time"], table["smooth_ece"], color="0.6", label="without recalibration")
MonitorDisplay.from_monitor(monitor, ax=axes, name="served predictions")
for ax in axes:
    ax.axvline(DRIFT, color="0.4", linestyle=":", zorder=0)
axes[1].legend(loc="upper left")
axes[0].set_title("Drift on 1 April: an alert, then calibrated predictions again")
axes[1].set_ylabel("Smooth ECE (14 days)")
plt.show()
