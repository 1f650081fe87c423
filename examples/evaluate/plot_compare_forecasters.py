"""
Comparing the calibration of several models
===========================================

Calibration errors are estimated with sampling noise, so a ranking by their estimates can be wrong.
``ComparisonDisplay`` shows confidence intervals, the values expected under perfect calibration, and which
differences are significant.
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
first, second = year == year[0], year == year[-1]

after = np.array([y[first & (yesterday == state)].mean() for state in (0, 1)])
forecasters = {
    "operational": p[second],
    "recalibrated": PlattCalibrator().fit(p[first], y[first]).transform(p[second]),
    "as yesterday": after[yesterday[second]],
    "base rate": np.full(second.sum(), y[first].mean()),
}

# %%
# After correction for multiple comparisons, no difference in smooth ECE is significant: one year of data is
# not enough. The right panel shows the components of the Brier score. Models further up and further left are
# better; each gray line connects points of equal score. The base rate has no discrimination.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
display = ComparisonDisplay.from_predictions(y[second], forecasters, n_resamples=499, ax=left)
left.set_title("No significant difference in smooth ECE")
print(display.comparisons["smooth ECE"])

plane = ScoreDecompositionDisplay.from_predictions(y[second], forecasters, ax=right)
right.set_title("The base rate does not discriminate")
for name, parts in plane.decompositions.items():
    print(f"{name:<20} {parts}")
plt.show()
