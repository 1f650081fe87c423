"""
A paper rerun: what bins do to two points
=========================================

Chidambaram, Lee, McSwiggen and Rezchikov (2024), Figure 2: a model says a hair less than one half where the
event never happens, and a hair more where it always does. Binned ECE is 0 or one half, by the parity of the
number of bins. Logit-smoothed ECE does not jump.
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
# The same seen from the model: let the two forecasts move apart. The ECE of two bins is one half as soon as
# they differ at all. With noise of scale sigma on the log-odds the error grows where they are sigma apart.

half = np.geomspace(1e-5, 1, 80)
fig, axes = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True, layout="constrained")
axes[0].plot(bins, binned, ".", label="ECE by number of bins")
axes[0].plot(bins, smoothed, label="logit-smoothed ECE by 1/sigma")
axes[0].set(xlabel="number of bins, or 1/sigma", ylabel="error", title="Two forecasts next to one half")
axes[0].legend(loc="center right")
axes[1].semilogx(
    half, [expected_calibration_error(y, expit([-d, d]), n_bins=2) for d in half], label="2 bins"
)
for s in (0.01, 0.1, 0.5):
    curve = [logit_smoothed_ece(y, expit([-d, d]), bandwidth=s) for d in half]
    axes[1].semilogx(half, curve, label=f"sigma = {s:g}")
axes[1].set(xlabel="log-odds of the two forecasts, up to sign", title="They move apart")
axes[1].legend()
plt.show()
