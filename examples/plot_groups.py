"""
Calibrated on the whole, wrong in every group
=============================================

A risk score can be right on average and mean different things for different people. Errors of groups cancel
in the total. A look at each group shows it, and one map for each group repairs it.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_calib.calibrators import GroupCalibrator, PlattCalibrator
from sklearn_calib.datasets import make_forecasts
from sklearn_calib.inference import CombinedTest
from sklearn_calib.plot import ReliabilityDisplay

# %%
# Two hospitals use the same score. Events are rarer in the north than the score says, and more frequent in
# the south, by the same amount.

north = make_forecasts(10_000, distortion="shift", strength=-0.7, random_state=1)
south = make_forecasts(10_000, distortion="shift", strength=0.7, random_state=2)
score = np.concatenate([north.y_proba, south.y_proba])
event = np.concatenate([north.y_true, south.y_true])
group = np.repeat(["north", "south"], 10_000)
fit = np.arange(20_000) % 4 > 0

# %%
# The pooled map sees only the total, in which there is nothing to repair.

pooled = PlattCalibrator().fit(score[fit], event[fit])
separate = GroupCalibrator(PlattCalibrator()).fit(score[fit], event[fit], groups=group[fit])
repairs = {
    "One map for all": pooled.transform(score[~fit]),
    "One map for each group": separate.transform(score[~fit], groups=group[~fit]),
}
test = CombinedTest(random_state=0)
for name, p in repairs.items():
    pvalues = {"all": test.test(event[~fit], p).pvalue}
    for place in ("north", "south"):
        here = group[~fit] == place
        pvalues[place] = test.test(event[~fit][here], p[here]).pvalue
    print(f"{name:<24}" + "   ".join(f"{place}: p-value {value:.3f}" for place, value in pvalues.items()))

# %%
# A group with too few rows, or one never seen before, gets the pooled map.

fig, axes = plt.subplots(1, 2, figsize=(10.5, 5.6), sharey=True, layout="constrained")
for ax, (name, p) in zip(axes, repairs.items(), strict=True):
    ReliabilityDisplay.from_predictions(event[~fit], p, groups=group[~fit], ax=ax)
    ax.set_title(name)
fig.suptitle("The same score in two hospitals, on new patients")
plt.show()
