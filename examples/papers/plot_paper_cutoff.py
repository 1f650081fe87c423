"""
Cutoff calibration error of Platt scaling (Rossellini et al. 2025)
==================================================================

Figure 4 of Rossellini, Soloff, Barber, Ren and Willett (2025): a score takes the values 0, 1/4, 1/2 and 1
with equal frequency. The event occurs exactly at the first and the last value, so no logistic curve fits.
The error of Platt scaling does not converge to 0 as the number of samples grows. Modified Platt scaling
detects the misfit and replaces the curve by the event rate. Its error and that of isotonic regression
converge to 0.
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
# Upper confidence bounds for the error of isotonic regression: the bound of the paper and the asymptotic
# bound of this package.

data = make_discrete_forecasts(sizes[-1], scores, truth, random_state=0)
fit = IsotonicCalibrator().fit(data.y_proba, data.y_true)
for method in ("paper", "asymptotic"):
    print(
        f"isotonic, 95% bound at n = {sizes[-1]} ({method}): {fit.cutoff_certificate(0.95, method).upper:.3f}"
    )

# %%
# The error of each map is that in the population: four values with their true probabilities.

limit = PlattCalibrator(link="identity").fit(scores, truth, np.full(4, 1e12))
print(f"limit of Platt scaling: slope {limit.slope_:.6f}, intercept {limit.intercept_:.6f}")
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
ax.set(xlabel="Number of calibration samples", ylabel="Mean cutoff calibration error")
ax.set_title("The error of a misspecified Platt calibrator does not converge to 0")
ax.legend()
plt.show()
