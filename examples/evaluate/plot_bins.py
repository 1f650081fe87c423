"""
Sensitivity of ECE to the number of bins
========================================

The expected calibration error (ECE) groups predictions into bins, and its value depends on their number.
Smooth ECE has no bins: it averages residuals with a kernel whose bandwidth is determined by the data.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_calib.datasets import load_solar_flares, make_discrete_forecasts
from sklearn_calib.metrics import expected_calibration_error, smooth_ece

# %%
# The left panel shows two years of daily forecasts of solar flares. The right panel shows a model that
# predicts 0.4995 before every non-event and 0.5005 before every event. Moving its predictions by 0.0005 makes
# it calibrated, so its calibration error should be close to 0.
#
# With more bins, ECE contains more sampling noise. It is also discontinuous: with an even number of bins
# there is an edge at 0.5, between the two predictions of the second model. Smooth ECE is continuous: small
# changes of the predictions change it little.

flares = load_solar_flares()
undecided = make_discrete_forecasts(1000, [0.4995, 0.5005], [0, 1], random_state=0)
cases = {
    "Solar flares: ECE increases with the number of bins": flares,
    "Predictions near 0.5: ECE is 0 or 0.5": undecided,
}
n_bins = np.arange(2, 61)

fig, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
for ax, (name, data) in zip(axes, cases.items(), strict=True):
    errors = [expected_calibration_error(data.y_true, data.y_proba, n_bins=int(m)) for m in n_bins]
    smooth = smooth_ece(data.y_true, data.y_proba)
    print(f"{name:<52} ECE from {min(errors):.3f} to {max(errors):.3f}, smooth ECE {smooth:.3f}")
    ax.plot(n_bins, errors, "o-", color="0.45", markersize=4, linewidth=0.8, label="ECE")
    ax.axhline(smooth, color="C0", linewidth=2.5, label="smooth ECE")
    ax.set(title=name, xlabel="Number of bins", ylim=(0, None))
axes[0].set_ylabel("Calibration error")
axes[0].legend()

plt.show()
