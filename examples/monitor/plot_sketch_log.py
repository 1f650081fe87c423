"""
Calibration of a log in constant memory
=======================================

A service scores millions of requests. Instead of the requests, it stores a ``CalibrationSketch`` of a few
megabytes for each hour. Sketches can be added, and metrics, tests and displays accept their weighted samples.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_calib.inference import confidence_interval
from sklearn_calib.metrics import cutoff_calibration_error, smooth_ece
from sklearn_calib.plot import ReliabilityDisplay
from sklearn_calib.sketch import CalibrationSketch

rng = np.random.default_rng(0)
hours = []
for hour in range(24):
    sketch = CalibrationSketch()
    # more requests by day than by night; the model overpredicts in the evening
    for _ in range(20 + int(15 * np.sin(np.pi * hour / 24))):
        p = rng.beta(0.8, 4.0, 5_000)
        sketch.update(rng.random(5_000) < (p**1.15 if hour >= 18 else p), p)
    hours.append(sketch)

day = sum(hours)
print(day)

# %%
# The merged sketch does not depend on the order of merging; it is identical bit for bit.

morning, evening = sum(hours[:18]), sum(hours[18:])
print(evening + morning == day)
for name, part in (("until 18 h", morning), ("from 18 h", evening)):
    y, p, w = part.weighted_sample()
    cutoff = cutoff_calibration_error(y, p, sample_weight=w)
    found = confidence_interval(y, p, metric=smooth_ece, sample_weight=w, weights="frequency")
    print(f"{name}: cutoff {cutoff:.4f}, smooth ECE {found}")

# %%
# The bars show in which hours the error is large. The curve shows which predictions are too high.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
arrays = [sketch.weighted_sample() for sketch in hours]
errors = [cutoff_calibration_error(y, p, sample_weight=w) for y, p, w in arrays]
left.bar(range(24), errors, color="C0")
left.set(xlabel="Hour", ylabel="Cutoff calibration error", title="The error increases at 18 h")
y, p, w = evening.weighted_sample()
ReliabilityDisplay.from_predictions(y, p, sample_weight=w, weights="frequency", ax=right)
right.set_title("Overprediction after 18 h, from the sketch")
plt.show()
