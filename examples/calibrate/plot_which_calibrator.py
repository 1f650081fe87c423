"""
Choosing a calibrator by cross-validation
=========================================

Parametric calibrators are usually better for small samples, and flexible calibrators for large samples.
``AutoCalibrator`` compares them by cross-validation and selects the first one, in the order of preference,
within one standard error of the best.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_calib.calibrators import AutoCalibrator
from sklearn_calib.datasets import make_forecasts

# %%
# The lower panels show the excess log loss of the candidates with one standard error, the default calibrator
# first. The first candidate whose error bar includes 0 is selected (blue).

grid = np.linspace(0.01, 0.99, 99)
fig, axes = plt.subplots(2, 2, figsize=(10, 8), layout="constrained", height_ratios=(3, 2))
for (top, bottom), n in zip(axes.T, (300, 20_000), strict=True):
    data = make_forecasts(n, distortion="sine", strength=0.08, random_state=1)
    calibrator = AutoCalibrator().fit(data.y_proba, data.y_true)
    selection = calibrator.selection_
    print(f"{n} samples\n{selection}\n")

    order = np.argsort(data.y_proba)
    top.plot([0, 1], [0, 1], ":", color="0.4")
    top.plot(data.y_proba[order], data.true_proba[order], color="0.7", linewidth=5, label="true curve")
    top.plot(grid, calibrator.transform(grid), color="C0", linewidth=2, label=f"selected: {selection.chosen}")
    top.set(
        title=f"{n} samples: {selection.chosen} is selected",
        xlabel="Predicted probability",
        ylabel="Probability of the event",
        aspect="equal",
    )
    top.legend(loc="upper left")

    for candidate in selection.candidates:
        color = "C0" if candidate.name == selection.chosen else "0.6"
        bottom.errorbar(
            1000 * candidate.excess,
            candidate.name,
            xerr=1000 * candidate.standard_error,
            fmt="o",
            color=color,
        )
    bottom.axvline(0, color="0.4", linewidth=0.8, zorder=0)
    bottom.set_xlabel("Excess log loss (thousandths)")
    bottom.invert_yaxis()
plt.show()
