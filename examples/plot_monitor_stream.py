"""
Watch a stream, and stop when you like
======================================

Who tests a model every day will one day find a small p-value by chance alone. A sequential test allows for
that: its evidence may be looked at after every outcome, for as long as you like, and the chance of *ever*
raising a false alarm stays below the level.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_calib.datasets import make_forecasts
from sklearn_calib.inference import CoxTest, SequentialTest
from sklearn_calib.plot import TestDisplay

# %%
# Two models in operation. Of one the forecasts stay right. With the other one the world drifts after 1000
# outcomes: events become more frequent, and the model does not know.

before = make_forecasts(1000, distribution="peaked", random_state=0)
steady = make_forecasts(2000, distribution="peaked", random_state=1)
drifted = make_forecasts(2000, distribution="peaked", distortion="shift", strength=0.5, random_state=2)
streams = {"Nothing changes": (before, steady), "Events become more frequent": (before, drifted)}

# %%
# The e-value is the capital of a gambler who bets against the forecasts, at the odds that they offer. If
# they are right, he cannot hope to win. When he has multiplied his stake by 20, the forecasts are rejected
# at 5 %. In operation call ``partial_fit`` with each new batch of outcomes.

fig, axes = plt.subplots(1, 2, figsize=(11, 4.8), sharey=True, layout="constrained")
for ax, (name, parts) in zip(axes, streams.items(), strict=True):
    y, p = (np.concatenate([getattr(part, what) for part in parts]) for what in ("y_true", "y_proba"))
    result = SequentialTest().test(y, p)
    cox = CoxTest(method="asymptotic")
    naive = [cox.test(y[:n], p[:n]).rejects() for n in range(50, len(y) + 1, 10)]
    print(f"{name}: sequential alarm after outcome {result.rejected_at(0.05)}")
    print(f"{'':<{len(name)}}  an ordinary test raised {sum(naive)} alarms in {len(naive)} looks")
    TestDisplay.from_result(result, ax=ax)
    ax.axvline(1000, color="0.6", linestyle=":", zorder=0)
    ax.set_title(name)
plt.show()
