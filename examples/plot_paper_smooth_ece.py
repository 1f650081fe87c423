"""
A paper rerun: smooth ECE chooses its own bandwidth
===================================================

Błasiok and Nakkiran (2024) draw 1000 forecasts whose truth is a wave about the diagonal, Figure 2(d). Smooth
ECE takes the bandwidth that equals the error it finds, and the diagram at that bandwidth shows the wave.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_calib.metrics import expected_calibration_error, smooth_ece, smooth_ece_result
from sklearn_calib.plot import ReliabilityDisplay

rng = np.random.default_rng(0)
grid = np.linspace(0, 1, 400)


def truth(f):
    return f + 0.1 * np.sin(4 * np.pi * (2 * f - 1))


p = rng.uniform(size=1000)
y = (rng.uniform(size=1000) < truth(p)).astype(int)

# %%
# The error of the law itself: a fine grid, each forecast with both outcomes, weighted by their probabilities.

fine = (np.arange(100_000) + 0.5) / 100_000
weight = np.concatenate([truth(fine), 1 - truth(fine)])
law = smooth_ece(np.repeat([1, 0], fine.size), np.tile(fine, 2), sample_weight=weight)
result = smooth_ece_result(y, p)
print(result)
print(f"of the law itself: {law:.4f}")
for n_bins in (5, 15, 50):
    print(f"ECE with {n_bins} bins: {expected_calibration_error(y, p, n_bins=n_bins):.4f}")

# %%
# On the left the error at each bandwidth: it does not increase (Lemma 1), and meets the line of equality
# once. On the right the diagram there. Its width is the density of the forecasts, so that the area between
# curve and diagonal is about the error (Lemma 10).

widths = np.geomspace(0.005, 0.5, 60)
fig, axes = plt.subplots(1, 2, figsize=(11, 5.2), layout="constrained")
axes[0].loglog(widths, [smooth_ece(y, p, bandwidth=s) for s in widths], label="error at bandwidth s")
axes[0].loglog(widths, widths, "k:", label="s")
axes[0].plot(result.bandwidth, result.value, "o", label=f"smooth ECE = {result.value:.3f}")
axes[0].set(xlabel="bandwidth s", ylabel="smoothed calibration error", title="The fixed point")
axes[0].legend()
ReliabilityDisplay.from_predictions(y, p, ax=axes[1], bandwidth="smooth_ece", density="width")
axes[1].plot(grid, truth(grid), color="C1", label="truth")
axes[1].set_title("The diagram at this bandwidth")
axes[1].legend()
plt.show()
