"""
Multiclass calibration: confidence and classwise
================================================

A multiclass model can be calibrated in several senses. *Confidence* calibration requires only that the
predicted class is correct as often as its probability states; *classwise* calibration requires calibrated
probabilities for each class against the rest.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss

from sklearn_calib.calibrators import LogAverageCalibrator, TemperatureCalibrator
from sklearn_calib.datasets import make_multiclass_forecasts
from sklearn_calib.metrics import smooth_ece
from sklearn_calib.plot import ReliabilityDisplay

# %%
# The simulated predictions of three classes are overconfident, and biased towards rain at the expense of sun.

data = make_multiclass_forecasts(20_000, 3, temperature=2.0, random_state=0)
y = np.array(["sun", "cloud", "rain"])[data.y_true]
p = data.y_proba * [0.5, 1.0, 2.0]
p = np.column_stack([p[:, 1], p[:, 2], p[:, 0]]) / p.sum(axis=1, keepdims=True)  # sorted by name

fit, test = np.arange(4000), np.arange(4000, 20_000)
calibrators = {"temperature": TemperatureCalibrator(), "log average": LogAverageCalibrator()}
forecasts = {"as issued": p[test]} | {
    name: calibrator.fit(p[fit], y[fit]).predict_proba(p[test]) for name, calibrator in calibrators.items()
}

# %%
# Temperature scaling has one parameter, which cannot remove a bias between classes. ``LogAverageCalibrator``
# averages maps with parameters for each class.

print(f"{'':<14}{'confidence':>12}{'classwise':>12}{'log loss':>12}")
for name, q in forecasts.items():
    errors = [smooth_ece(y[test], q, reduction=how) for how in ("confidence", "classwise")]
    print(f"{name:<14}{errors[0]:12.3f}{errors[1]:12.3f}{log_loss(y[test], q):12.3f}")

fig, axes = plt.subplots(1, 3, figsize=(15, 6), sharey=True, layout="constrained")
for ax, (name, q) in zip(axes, forecasts.items(), strict=True):
    ReliabilityDisplay.from_predictions(y[test], q, ax=ax)
    ax.set_title(name[0].upper() + name[1:])
fig.suptitle("Temperature scaling leaves a bias between classes (one-vs-rest curves)")
plt.show()
