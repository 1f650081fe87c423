"""
Calibration by subgroup
=======================

A risk score can be calibrated on average although it is miscalibrated in each subgroup, with errors of
opposite sign. ``GroupCalibrator`` fits a map for each group.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_calib.calibrators import GroupCalibrator, PlattCalibrator
from sklearn_calib.datasets import make_forecasts
from sklearn_calib.inference import CombinedTest
from sklearn_calib.plot import ReliabilityDisplay

# %%
# Two hospitals use the same score, which overpredicts in the north and underpredicts in the south by the same
# amount on the log-odds scale.

north = make_forecasts(10_000, distortion="shift", strength=-0.7, random_state=1)
south = make_forecasts(10_000, distortion="shift", strength=0.7, random_state=2)
score = np.concatenate([north.y_proba, south.y_proba])
event = np.concatenate([north.y_true, south.y_true])
group = np.repeat(["north", "south"], 10_000)
fit = np.arange(20_000) % 4 > 0

# %%
# The pooled data are nearly calibrated, so a single map that is fitted to them changes little.

pooled = PlattCalibrator().fit(score[fit], event[fit])
separate = GroupCalibrator(PlattCalibrator()).fit(score[fit], event[fit], groups=group[fit])
predictions = {
    "A single map leaves both groups miscalibrated": pooled.transform(score[~fit]),
    "A map for each group calibrates both": separate.transform(score[~fit], groups=group[~fit]),
}
test = CombinedTest(random_state=0)
for name, p in predictions.items():
    pvalues = {"all": test.test(event[~fit], p).pvalue}
    for place in ("north", "south"):
        here = group[~fit] == place
        pvalues[place] = test.test(event[~fit][here], p[here]).pvalue
    print(f"{name:<48}" + "   ".join(f"{place}: p-value {value:.3f}" for place, value in pvalues.items()))

# %%
# The maps of small groups are shrunk; groups that do not occur in the training data use the pooled map.

fig, axes = plt.subplots(1, 2, figsize=(10, 5.6), sharey=True, layout="constrained")
for ax, (name, p) in zip(axes, predictions.items(), strict=True):
    for place in ("north", "south"):
        here = group[~fit] == place
        ReliabilityDisplay.from_predictions(event[~fit][here], p[here], name=place, ax=ax)
    ax.set_title(name)
fig.suptitle("One risk score in two hospitals (held-out patients)")
plt.show()
