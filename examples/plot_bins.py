"""
What bins do to the calibration error
=====================================

The expected calibration error (ECE) sorts predictions into bins. Nobody knows how many bins are right, and
the number depends on the answer. Smooth ECE has none to choose.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_calib.datasets import load_solar_flares, make_discrete_forecasts
from sklearn_calib.metrics import expected_calibration_error, smooth_ece

# %%
# Two cases. On the left, two years of daily forecasts of solar flares. On the right, a model that can
# hardly decide: it says a little less than one half before every non-event, and a little more before every
# event. It is within a hair of saying one half each time, which would be calibrated. So it should have next
# to no calibration error.

flares = load_solar_flares()
undecided = make_discrete_forecasts(1000, [0.4995, 0.5005], [0, 1], random_state=0)
cases = {"Forecasts of solar flares": flares, "Always nearly one half": undecided}
n_bins = np.arange(2, 61)

fig, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
for ax, (name, data) in zip(axes, cases.items(), strict=True):
    errors = [expected_calibration_error(data.y_true, data.y_proba, n_bins=int(m)) for m in n_bins]
    smooth = smooth_ece(data.y_true, data.y_proba)
    print(f"{name:<28} ECE from {min(errors):.3f} to {max(errors):.3f}, smooth ECE {smooth:.3f}")
    ax.plot(n_bins, errors, "o-", color="0.45", markersize=4, linewidth=0.8, label="ECE")
    ax.axhline(smooth, color="C0", linewidth=2.5, label="smooth ECE")
    ax.set(title=name, xlabel="Number of bins", ylim=(0, None))
axes[0].set_ylabel("Calibration error")
axes[0].legend()

# %%
# The more bins, the more ECE counts noise as error. And when the edge of a bin falls between two
# predictions that are as good as equal, it jumps: an even number of bins has an edge at one half. Smooth
# ECE averages over neighbours instead, over a distance that it finds for itself, and a small change of the
# predictions changes it by little.

plt.show()
