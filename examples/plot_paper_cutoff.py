"""
A paper rerun: Platt scaling that stays wrong, and what repairs it
==================================================================

Rossellini, Soloff, Barber, Ren and Willett (2025), Figure 4: a score takes the values 0, 1/4, 1/2 and 1
equally often, and the event follows on the first and the last. No logistic curve bends so. Platt scaling
keeps its error with any number of rows. Modified Platt scaling notices; isotonic regression does not have it.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_calib.calibrators import IsotonicCalibrator, ModifiedPlattCalibrator, PlattCalibrator
from sklearn_calib.datasets import make_discrete_forecasts
from sklearn_calib.metrics import cutoff_calibration_error

scores, truth = np.array([0, 0.25, 0.5, 1]), np.array([1, 0, 0, 1])
sizes = (50, 100, 200, 500, 1000, 3000, 10_000)
calibrators = {
    "Platt": PlattCalibrator(link="identity"),
    "modified Platt, paper's tolerance": ModifiedPlattCalibrator(link="identity", tolerance="paper"),
    "modified Platt, sharp tolerance": ModifiedPlattCalibrator(link="identity"),
    "isotonic": IsotonicCalibrator(),
}

# %%
# The error of each map is that on the law itself: four values with their true probabilities.

limit = PlattCalibrator(link="identity").fit(scores, truth, np.full(4, 1e12))
print(f"Platt in the limit: slope {limit.slope_:.6f}, intercept {limit.intercept_:.6f}")
print(f"its cutoff calibration error: {limit.training_cutoff_error_:.6f}")
fig, ax = plt.subplots(figsize=(8, 5), layout="constrained")
for name, calibrator in calibrators.items():
    errors = np.zeros(len(sizes))
    for column, n in enumerate(sizes):
        for seed in range(20):
            data = make_discrete_forecasts(n, scores, truth, random_state=seed)
            fitted = calibrator.fit(data.y_proba, data.y_true).transform(scores)
            errors[column] += cutoff_calibration_error(truth, fitted) / 20
    ax.loglog(sizes, errors, "-o", lw=6 if name == "Platt" else 1.5, label=name)
    print(f"{name:<34} n = {sizes[-1]}: {errors[-1]:.4f}")

# %%
# At 95 % confidence, by the paper's bound and by the sharp one:

fit = IsotonicCalibrator().fit(data.y_proba, data.y_true)
for method in ("paper", "asymptotic"):
    print(f"isotonic, certified at n = {sizes[-1]} ({method}): {fit.cutoff_certificate(0.95, method):.3f}")
ax.set(xlabel="rows to calibrate with", ylabel="mean cutoff calibration error of the law")
ax.set_title("More rows do not help a curve of the wrong shape")
ax.legend()
plt.show()
