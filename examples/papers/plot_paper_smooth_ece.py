"""
Bandwidth selection of smooth ECE (Błasiok and Nakkiran 2024)
=============================================================

Figure 2(d) of Błasiok and Nakkiran (2024): 1000 predictions whose calibration curve is a sine wave around the
diagonal. The bandwidth of smooth ECE is the fixed point at which the bandwidth equals the error. The
reliability diagram with this bandwidth shows the sine wave. It is compared with the default curve of this
package on the forecasts of solar flares of Figure 2(b), and extended by the sharpness of the Brier score.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_calib.datasets import load_solar_flares
from sklearn_calib.metrics import expected_calibration_error, smooth_ece, smooth_ece_result
from sklearn_calib.plot import ReliabilityDisplay

rng = np.random.default_rng(0)
grid = np.linspace(0, 1, 400)


def truth(f):
    return f + 0.1 * np.sin(4 * np.pi * (2 * f - 1))


p = rng.uniform(size=1000)
y = (rng.uniform(size=1000) < truth(p)).astype(int)

# %%
# The population value is computed on a fine grid. Each prediction occurs with both outcomes, weighted by
# their probabilities.

fine = (np.arange(100_000) + 0.5) / 100_000
weight = np.concatenate([truth(fine), 1 - truth(fine)])
population = smooth_ece(np.repeat([1, 0], fine.size), np.tile(fine, 2), sample_weight=weight)
result = smooth_ece_result(y, p)
print(result)
print(f"population value: {population:.4f}")
for n_bins in (5, 15, 50):
    print(f"ECE with {n_bins} bins: {expected_calibration_error(y, p, n_bins=n_bins):.4f}")

# %%
# The left panel shows the error as a function of the bandwidth. It is nonincreasing (Lemma 1), so the fixed
# point is unique. The right panel shows the reliability diagram with this bandwidth, whose line is the wider
# the more predictions there are. The area between curve and diagonal, weighted by the density, is close to
# smooth ECE (Lemma 10).

widths = np.geomspace(0.005, 0.5, 60)
fig, axes = plt.subplots(1, 2, figsize=(10, 5.2), layout="constrained")
axes[0].loglog(widths, [smooth_ece(y, p, bandwidth=s) for s in widths], label="smoothed calibration error")
axes[0].loglog(widths, widths, "k:", label="bandwidth")
axes[0].plot(result.bandwidth, result.value, "o", label=f"smooth ECE = {result.value:.3f}")
axes[0].set(xlabel="Bandwidth s", ylabel="Smoothed calibration error")
axes[0].set_title("Smooth ECE is the fixed point of the error")
axes[0].legend()
axes[1].plot(grid, truth(grid), color="C1", label="true calibration curve")
ReliabilityDisplay.from_predictions(y, p, curve="kernel", ax=axes[1])
axes[1].set_title("The diagram with this bandwidth shows the sine wave")
plt.show()

# %%
# Forecasts of solar flares on 731 days. The kernel curve is a mean of outcomes whose predictions differ by up
# to about twice the bandwidth: it is horizontal at 0 and 1, and less steep than the event probability. The
# default curve estimates the event probability, with a confidence band. The right panel shows the score that
# calibration leaves: the area around the curve is the sharpness gap, here of the forecasts and of their mean
# on all days, which has no calibration error at all.

flares = load_solar_flares()
fig, axes = plt.subplots(1, 3, figsize=(10, 5.6), layout="constrained")
curves = {}
for ax, curve in zip(axes, ("kernel", "smooth"), strict=False):
    display = ReliabilityDisplay.from_predictions(flares.y_true, flares.y_proba, curve=curve, ax=ax)
    ax.set_title(f'curve="{curve}"')
    curves[curve] = np.interp(grid[5:-5], display.curve.predicted, display.curve.observed)
base_rate = np.full(flares.y_true.size, flares.y_true.mean())
for name, forecast in {"DAFFS": flares.y_proba, "base rate": base_rate}.items():
    display = ReliabilityDisplay.from_predictions(
        flares.y_true, forecast, curve="kernel", sharpness="brier", name=name, ax=axes[2]
    )
    print(f"{name}: {display.curve.decomposition}")
axes[2].set_title('sharpness="brier"')
print(f"largest difference of the curves: {np.nanmax(np.abs(curves['kernel'] - curves['smooth'])):.3f}")
plt.show()
