"""
A log that is never kept
========================

A service scores millions of requests. It keeps no row: each hour becomes a sketch of at most a few megabytes,
and hours add up to days. Every number and picture can be had from a sketch, as if the rows were there.
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
    # many requests by day, few by night; in the evening the model promises too much
    for _ in range(20 + int(15 * np.sin(np.pi * hour / 24))):
        p = rng.beta(0.8, 4.0, 5_000)
        sketch.update(rng.random(5_000) < (p**1.15 if hour >= 18 else p), p)
    hours.append(sketch)

day = sum(hours)
print(day)

# %%
# The order of merging does not matter, bit for bit; and the sketch of the day is the sketch of all rows.

morning, evening = sum(hours[:18]), sum(hours[18:])
print(evening + morning == day, day - evening == morning)
for name, part in (("until 18 h", morning), ("from 18 h", evening)):
    found = confidence_interval(smooth_ece, part, random_state=0)
    print(f"{name}: cutoff {cutoff_calibration_error(part):.4f}, smooth ECE {found}")

# %%
# The hour at which it began can be seen, and the curve of the evening shows where.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
left.bar(range(24), [cutoff_calibration_error(sketch) for sketch in hours], color="C0")
left.set(xlabel="hour", ylabel="cutoff calibration error", title="Each hour")
ReliabilityDisplay.from_predictions(evening, ax=right)
right.set_title("The evening, from its sketch")
plt.show()
