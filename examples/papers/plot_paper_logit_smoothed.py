"""
Discontinuity of binned ECE (Chidambaram et al. 2024)
=====================================================

Figure 2 of Chidambaram, Lee, McSwiggen and Rezchikov (2024): a model predicts slightly less than 1/2 for all
non-events and slightly more than 1/2 for all events. Binned ECE is 0 for odd and 1/2 for even numbers of
bins. Logit-smoothed ECE is continuous.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from sklearn_calib.metrics import expected_calibration_error, logit_smoothed_ece

y = np.array([0, 1])
p = expit(np.array([-5e-4, 5e-4]))
bins = np.arange(1, 101)
binned = np.array([expected_calibration_error(y, p, n_bins=int(m)) for m in bins])
smoothed = np.array([logit_smoothed_ece(y, p, bandwidth=1 / m) for m in bins])
print(f"binned, odd numbers of bins:  at most  {binned[::2].max():.4f}")
print(f"binned, even numbers of bins: at least {binned[1::2].min():.4f}")
print(f"logit-smoothed at 1/sigma = 10, 30, 100: {smoothed[9]:.4f}, {smoothed[29]:.4f}, {smoothed[99]:.4f}")

# %%
# In the right panel the difference between the two predictions increases. With two bins, ECE is 1/2 for any
# small difference. Logit-smoothed ECE with noise of scale sigma increases where the difference of the
# log-odds is of the order of sigma.

half = np.geomspace(1e-5, 1, 80)
fig, axes = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True, layout="constrained")
axes[0].plot(bins, binned, ".", label="binned ECE")
axes[0].plot(bins, smoothed, label="logit-smoothed ECE")
axes[0].set(xlabel="Number of bins, or 1/sigma", ylabel="Calibration error")
axes[0].set_title("Binned ECE depends on the parity of the number of bins")
axes[0].legend(loc="center right")
axes[1].semilogx(
    half, [expected_calibration_error(y, expit([-d, d]), n_bins=2) for d in half], label="binned ECE, 2 bins"
)
for s in (0.01, 0.1, 0.5):
    curve = [logit_smoothed_ece(y, expit([-d, d]), bandwidth=s) for d in half]
    axes[1].semilogx(half, curve, label=f"logit-smoothed, sigma = {s:g}")
axes[1].set(xlabel="d, for log-odds -d and d", title="Binned ECE is discontinuous at d = 0")
axes[1].legend()
plt.show()
