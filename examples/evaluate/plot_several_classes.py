"""
Multiclass calibration: confidence and classwise
================================================

There are several definitions of multiclass calibration. *Confidence* calibration requires that the accuracy
equals the probability of the predicted class. *Classwise* calibration requires calibrated probabilities for
each class against the rest.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss

from sklearn_calib.calibrators import LogAverageCalibrator, TemperatureCalibrator
from sklearn_calib.datasets import make_multiclass_forecasts
from sklearn_calib.metrics import smooth_ece
from sklearn_calib.plot import ReliabilityDisplay

# %%
# The simulated predictions for three classes are overconfident; rain is overpredicted, and sun is
# underpredicted.

data = make_multiclass_forecasts(20_000, 3, temperature=2.0, random_state=0)
y = np.array(["sun", "cloud", "rain"])[data.y_true]
p = data.y_proba * [0.5, 1.0, 2.0]
p = np.column_stack([p[:, 1], p[:, 2], p[:, 0]]) / p.sum(axis=1, keepdims=True)  # sorted by name

fit, test = np.arange(4000), np.arange(4000, 20_000)
calibrators = {"temperature": TemperatureCalibrator(), "log average": LogAverageCalibrator()}
forecasts = {"not calibrated": p[test]} | {
    name: calibrator.fit(p[fit], y[fit]).predict_proba(p[test]) for name, calibrator in calibrators.items()
}

# %%
# Temperature scaling has one parameter and cannot correct a bias between classes. ``LogAverageCalibrator``
# averages maps that have parameters for each class.

print(f"{'':<16}{'confidence':>12}{'classwise':>12}{'log loss':>12}")
for name, q in forecasts.items():
    errors = [smooth_ece(y[test], q, reduction=how) for how in ("confidence", "classwise")]
    print(f"{name:<16}{errors[0]:12.3f}{errors[1]:12.3f}{log_loss(y[test], q):12.3f}")

fig, axes = plt.subplots(1, 3, figsize=(10, 5.4), sharey=True, layout="constrained")
for ax, (name, q) in zip(axes, forecasts.items(), strict=True):
    for weather, column in zip(np.unique(y), q.T, strict=True):
        ReliabilityDisplay.from_predictions(y[test] == weather, column, name=weather, ax=ax)
    ax.set_title(name[0].upper() + name[1:])
fig.suptitle("Temperature scaling does not correct a bias between classes (one-vs-rest curves)")
plt.show()
