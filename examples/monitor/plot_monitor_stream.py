"""
Sequential testing with e-values
================================

If an ordinary test is repeated every day, its probability of a false alarm increases with the number of
repetitions. A sequential test is anytime-valid: you can test after every outcome and stop at any time, and
the probability of any false alarm is at most the level.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_calib.datasets import make_forecasts
from sklearn_calib.inference import CoxTest, SequentialTest
from sklearn_calib.plot import TestDisplay

# %%
# The predictions of the first model stay calibrated. For the second one, events become more frequent after
# 1000 outcomes.

before = make_forecasts(1000, distribution="peaked", random_state=0)
steady = make_forecasts(2000, distribution="peaked", random_state=1)
drifted = make_forecasts(2000, distribution="peaked", distortion="shift", strength=0.5, random_state=2)
streams = {"Calibrated: no alarm": (before, steady), "Drift after 1000 outcomes: alarm": (before, drifted)}

# %%
# The e-value is a test martingale: under perfect calibration its expected value is 1 at all times.
# Calibration is rejected at level 5% when the e-value reaches 20. In production, call ``partial_fit`` with
# each batch.

fig, axes = plt.subplots(1, 2, figsize=(10, 4.8), sharey=True, layout="constrained")
for ax, (name, parts) in zip(axes, streams.items(), strict=True):
    y, p = (np.concatenate([getattr(part, what) for part in parts]) for what in ("y_true", "y_proba"))
    result = SequentialTest().test(y, p)
    cox = CoxTest(method="asymptotic")
    naive = [cox.test(y[:n], p[:n]).rejects() for n in range(50, len(y) + 1, 10)]
    print(f"{name}: sequential alarm after outcome {result.rejected_at(0.05)}")
    print(f"{'':<{len(name)}}  an ordinary test rejected {sum(naive)} times in {len(naive)} repetitions")
    TestDisplay.from_result(result, ax=ax)
    ax.axvline(1000, color="0.6", linestyle=":", zorder=0)
    ax.set_title(name)
plt.show()
