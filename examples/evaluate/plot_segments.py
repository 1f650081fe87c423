"""
Segments in which predictions are off
=====================================

A model can be calibrated on average and too low for some of the samples. ``find_segments`` searches for such
segments among all bins and categories of the features and their pairs, and accounts for their number.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_calib.datasets import make_forecasts
from sklearn_calib.inference import find_segments
from sklearn_calib.plot import SegmentsDisplay

# %%
# A score is calibrated for all clients but the young ones of one region, whose event rate it underestimates.

rng = np.random.default_rng(0)
n = 20_000
X = {
    "age": rng.integers(18, 80, n),
    "region": rng.choice(["north", "south", "west"], n),
    "income": np.round(rng.lognormal(10, 0.5, n)),
    "visits": rng.poisson(3, n),
}
data = make_forecasts(n, random_state=1)
young = (X["age"] <= 30) & (X["region"] == "south")
event = np.where(young & (rng.random(n) < 0.25), 1, data.y_true)
found = find_segments(X, event, data.y_proba)
print(found)

# %%
# All bins of two features, with intervals that hold for all of them together. The difference in a bin is
# smaller than that in the segment, because other samples are in it, too.

by_feature = find_segments(X, event, data.y_proba, segments=["age", "region"])
display = SegmentsDisplay.from_result(by_feature)
display.ax_.set_title("Young clients and the south are underpredicted")
plt.show()
