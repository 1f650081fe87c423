"""
Bias of the plug-in calibration error (Lee et al. 2023)
=======================================================

Example 3.3 and Figure 2 of Lee, Huang, Hassani and Dobriban (2023): one model is calibrated, the other is
not. The plug-in estimate of the squared calibration error is *smaller* for the miscalibrated model, because
its bias dominates. The debiased estimate of T-Cal is larger for the miscalibrated model.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_calib.inference import TCal
from sklearn_calib.metrics import expected_calibration_error

n, smoothness, scale = 10_000, 0.3, 100.0
m = int(n ** (2 / (4 * smoothness + 1)))


def bumps(p):
    """Return event probabilities with narrow bumps away from 1/2."""
    x = (m * p) % 1.0
    with np.errstate(divide="ignore"):
        height = scale * m**-smoothness * np.exp(-1 / (x * (1 - x)))
    return p + np.where(np.abs(p - 0.5) <= 0.25, np.sign(p - 0.5) * height, 0.0)


# %%
# The number of bins is that of the test for this smoothness, about two samples per bin.

test = TCal(smoothness=smoothness, method="asymptotic")
found = {"calibrated": [], "miscalibrated": []}
for seed in range(200):
    rng = np.random.default_rng(seed)
    for name, truth in (("calibrated", lambda p: p), ("miscalibrated", bumps)):
        p = rng.uniform(size=n)
        y = (rng.uniform(size=n) < truth(p)).astype(int)
        biased = expected_calibration_error(y, p, n_bins=m, norm="l2") ** 2
        found[name].append((biased, test.test(y, p).scales[0].statistic))
fig, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
for ax, column, title in zip(axes, (0, 1), ("plug-in", "debiased"), strict=True):
    for name, estimates in found.items():
        values = np.array(estimates)[:, column]
        print(f"{title:<9} {name:<14} mean {values.mean():.5f}, standard deviation {values.std():.5f}")
        ax.hist(values, bins=20, alpha=0.5, label=name)
        ax.axvline(values.mean(), color="0.3", ls="--", lw=1)
    ax.set(xlabel="Estimate of the squared calibration error", ylabel="Simulations")
    ax.set_title(f"{title.capitalize()} estimate, {m} bins")
    ax.legend()
fig.suptitle("Only the debiased estimate is larger for the miscalibrated model")
plt.show()
