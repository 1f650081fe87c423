"""
Which forecaster is better?
===========================

Four forecasters of solar flares, on the same days. A ranking by one number says little, since such numbers
are noisy. So draw their intervals, mark the floor that noise alone would reach, and say which differences
are real.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_calib.calibrators import PlattCalibrator
from sklearn_calib.datasets import load_solar_flares
from sklearn_calib.metrics import score_decomposition
from sklearn_calib.plot import ComparisonDisplay

# %%
# The first year teaches, the second one judges. Besides the system as it was issued there is a repaired
# one. The third says after a day with a flare how often flares followed on such days, and likewise after a
# quiet day. The last one always says the base rate of the first year.

flares = load_solar_flares()
y, p = flares.y_true[1:], flares.y_proba[1:]
yesterday = flares.y_true[:-1]
year = flares.date[1:].astype("datetime64[Y]")
learn, judge = year == year[0], year == year[-1]

after = np.array([y[learn & (yesterday == state)].mean() for state in (0, 1)])
forecasters = {
    "system, as issued": p[judge],
    "system, repaired": PlattCalibrator().fit(p[learn], y[learn]).transform(p[judge]),
    "as yesterday": after[yesterday[judge]],
    "base rate": np.full(judge.sum(), y[learn].mean()),
}

# %%
# On the left, one year is not much: the intervals overlap, and no difference survives the correction for
# many comparisons. On the right, the parts of the Brier score. Up is better, left is better, and the grey
# lines join equal scores. The base rate tells no day from another one: it has no discrimination at all.
# Calibration is not skill.

fig, (left, right) = plt.subplots(1, 2, figsize=(12.5, 4.8), layout="constrained")
display = ComparisonDisplay.from_predictions(y[judge], forecasters, n_resamples=499, ax=left)
print(display.comparisons["smooth ECE"])

for name, forecast in forecasters.items():
    parts = score_decomposition(y[judge], forecast)
    print(f"{name:<20} {parts}")
    label = f"{name}: {parts.score:.3f}"
    right.plot(parts.miscalibration, parts.discrimination, "o", markersize=11, label=label)
for score in np.arange(0.08, 0.25, 0.01):
    right.axline((0, parts.uncertainty - score), slope=1, color="0.88", zorder=0)
right.set(xlabel="Miscalibration", ylabel="Discrimination", xlim=(0, 0.025), ylim=(-0.005, 0.075))
right.legend(title="Brier score", loc="center right")
plt.show()
