"""
A drift, its alert, and its repair
==================================

A model was calibrated when it went into service, and one day the world changes. A monitor that looks at every
day's outcomes raises an alert within days, without having raised one before; a calibrator that learns from
the same stream takes over, and the evidence against the forecasts is gone.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit

from sklearn_calib.monitor import CalibrationMonitor, StreamingCalibrator
from sklearn_calib.plot import MonitorDisplay

# %%
# Half a year of 150 forecasts a day. From 1 April on events are rarer than before, and forecasts too sharp.

rng = np.random.default_rng(1)
DRIFT = np.datetime64("2025-04-01")


def outcomes_of(day):
    p = rng.beta(2.0, 2.5, size=150)
    truth = p if day < DRIFT else expit(0.7 * logit(p) - 0.5)
    return p, (rng.random(150) < truth).astype(int)


# %%
# The monitor is told what was forecast and what happened, day by day. Its promise: as long as the forecasts
# are calibrated, the probability of *any* alert, ever, is at most 1 %. The calibrator learns from the same
# days, and forgets: after 1000 rows a row counts half. Beside them a monitor watches the model as it is.

window = {"window": np.timedelta64(14, "D"), "n_slots": 14}
monitor, unrepaired = (CalibrationMonitor(alpha=0.01, **window) for _ in range(2))
calibrator, repaired = StreamingCalibrator(half_life=1000), False
for day in np.arange("2025-01-01", "2025-07-01", dtype="datetime64[D]"):
    p, y = outcomes_of(day)
    served = calibrator.transform(p) if repaired else p
    alerts = monitor.update(y, served, time=day)
    unrepaired.update(y, p, time=day)
    calibrator.partial_fit(p, y)
    for alert in alerts:
        print(alert)
        # the forecasts are others from now on, so that the test begins anew
        repaired = True
        monitor.restart()

# %%
# The alert came some days after the drift, and dates it. The evidence then begins anew at 1, and stays low.
# The errors are measured on 14 days, over which even perfect forecasts show one; after the alert the window
# fills again.

fig, axes = plt.subplots(2, 1, figsize=(8, 6), sharex=True, layout="constrained", height_ratios=[3, 2])
table = unrepaired.history()
axes[1].plot(table["time"], table["smooth_ece"], color="0.6", label="without repair")
MonitorDisplay.from_monitor(monitor, ax=axes, name="what was served")
for ax in axes:
    ax.axvline(DRIFT, color="0.4", linestyle=":", zorder=0)
axes[1].legend(loc="upper left")
plt.show()
