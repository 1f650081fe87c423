"""
Comparing the calibration of several models
===========================================

Estimates of calibration errors are noisy, so ranking models by them is not enough. ``ComparisonDisplay``
shows confidence intervals, the values expected under perfect calibration, and which differences are
significant.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_calib.calibrators import PlattCalibrator
from sklearn_calib.datasets import load_solar_flares
from sklearn_calib.plot import ComparisonDisplay, ScoreDecompositionDisplay

# %%
# Four forecasts of solar flares are evaluated on the second of two years: an operational system, the same
# system recalibrated on the first year, the frequency of flares after days with and without a flare, and the
# base rate.

flares = load_solar_flares()
y, p = flares.y_true[1:], flares.y_proba[1:]
yesterday = flares.y_true[:-1]
year = flares.date[1:].astype("datetime64[Y]")
learn, judge = year == year[0], year == year[-1]

after = np.array([y[learn & (yesterday == state)].mean() for state in (0, 1)])
forecasters = {
    "operational": p[judge],
    "recalibrated": PlattCalibrator().fit(p[learn], y[learn]).transform(p[judge]),
    "as yesterday": after[yesterday[judge]],
    "base rate": np.full(judge.sum(), y[learn].mean()),
}

# %%
# One year of data is not enough to tell the calibration of the four apart: no difference is significant after
# correction for multiple comparisons. The right panel shows the components of the Brier score; models further
# up and further left are better, and the grey lines are lines of equal score. The base rate has no
# discrimination: a calibrated forecast can be useless.

fig, (left, right) = plt.subplots(1, 2, figsize=(12.5, 4.8), layout="constrained")
display = ComparisonDisplay.from_predictions(y[judge], forecasters, n_resamples=499, ax=left)
print(display.comparisons["smooth ECE"])

plane = ScoreDecompositionDisplay.from_predictions(y[judge], forecasters, ax=right)
for name, parts in plane.decompositions.items():
    print(f"{name:<20} {parts}")
plt.show()
