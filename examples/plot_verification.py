"""
Verify a forecast: what is wrong with it, and what it costs
===========================================================

A proper score such as the Brier score mixes two things. One is how well the forecast tells days apart. The
other is whether its numbers mean what they say. The second part can be repaired without any new knowledge.
So take them apart.
"""

import matplotlib.pyplot as plt

from sklearn_calib.datasets import load_solar_flares
from sklearn_calib.inference import CutoffTest
from sklearn_calib.metrics import score_decomposition
from sklearn_calib.plot import CutoffDisplay, ReliabilityDisplay

# %%
# Two years of daily forecasts of solar flares, from a system in operation. The decomposition by isotonic
# regression (CORP) has no bins to choose. *Miscalibration* is what the best non-decreasing recalibration
# would have saved. *Discrimination* is what it would then be ahead of a constant forecast, whose score is
# the *uncertainty*.

flares = load_solar_flares()
print(flares)
print(score_decomposition(flares.y_true, flares.y_proba))
print(score_decomposition(flares.y_true, flares.y_proba, score="log_loss"))

# %%
# Where does it go wrong? The test finds the range of forecasts with the largest excess, and allows for the
# fact that it looked at all ranges.

result = CutoffTest(random_state=0).test(flares.y_true, flares.y_proba)
print(result.reason)

fig, axes = plt.subplots(1, 2, figsize=(12, 5.8), layout="constrained")
ReliabilityDisplay.from_predictions(
    flares.y_true, flares.y_proba, method="corp", band="consistency", ax=axes[0]
)
axes[0].set_title("How often a flare came")
CutoffDisplay.from_predictions(flares.y_true, flares.y_proba, ax=axes[1])
axes[1].set_title("Flares beyond those forecast, added up")
fig.suptitle("Solar flares, 2016 and 2017")
plt.show()
