"""
Score decomposition and cumulative residuals of a forecast
==========================================================

A proper score such as the Brier score measures calibration and discrimination together. The decomposition by
isotonic regression (CORP) separates the two. The cutoff test finds the interval of predictions with the
largest miscalibration.
"""

import matplotlib.pyplot as plt

from sklearn_calib.datasets import load_solar_flares
from sklearn_calib.inference import CutoffTest
from sklearn_calib.metrics import score_decomposition
from sklearn_calib.plot import CutoffDisplay, ReliabilityDisplay

# %%
# The data are two years of daily forecasts of solar flares by an operational system. *Miscalibration* is the
# improvement of the score by the best nondecreasing recalibration. *Discrimination* is the improvement of the
# recalibrated forecast over a constant forecast, whose score is the *uncertainty*.

flares = load_solar_flares()
print(flares)
print(score_decomposition(flares.y_true, flares.y_proba))
print(score_decomposition(flares.y_true, flares.y_proba, score="log_loss"))

# %%
# The cutoff test finds the interval of predictions with the largest cumulative residual. Its p-value accounts
# for the search over all intervals.

result = CutoffTest(random_state=0).test(flares.y_true, flares.y_proba)
print(result.reason)

fig, axes = plt.subplots(1, 2, figsize=(10, 5.8), layout="constrained")
ReliabilityDisplay.from_predictions(
    flares.y_true, flares.y_proba, curve="isotonic", band="consistency", ax=axes[0]
)
axes[0].set_title("The isotonic calibration curve leaves the 95% band")
CutoffDisplay.from_predictions(flares.y_true, flares.y_proba, ax=axes[1])
axes[1].set_title("Flares are overpredicted from 0.06 to 0.96")
fig.suptitle("Forecasts of solar flares, 2016 and 2017")
plt.show()
