"""
Dependence of ECE on the bins (Chidambaram et al. 2024)
=======================================================

Figure 2 of Chidambaram, Lee, McSwiggen and Rezchikov (2024): a model predicts slightly less than 1/2 for all
non-events and slightly more than 1/2 for all events. Binned ECE is 0 for odd and 1/2 for even numbers of
bins. Logit-smoothed ECE is continuous. The authors use the two together to check whether a binned ECE can be
relied on: for the overconfident model on the right, as for the networks of their Figure 3, both agree and
hardly change, so that the bins make little difference.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from sklearn_calib.datasets import make_forecasts
from sklearn_calib.metrics import expected_calibration_error, logit_smoothed_ece
from sklearn_calib.plot import BinningDisplay

y = np.array([0, 1])
data = make_forecasts(20_000, distortion="slope", strength=0.6, random_state=0)
fig, panels = plt.subplot_mosaic("AB;CC", figsize=(10, 8.6), layout="constrained")
two, many, ax = panels.values()
display = BinningDisplay.from_predictions(y, expit([-5e-4, 5e-4]), ax=two)
two.set_title("Two predictions close to 1/2")
BinningDisplay.from_predictions(data.y_true, data.y_proba, ax=many)
many.set_title("An overconfident model, 20,000 samples")
print(f"binned, odd numbers of bins:  at most  {display.binned[::2].max():.4f}")
print(f"binned, even numbers of bins: at least {display.binned[1::2].min():.4f}")
values = ", ".join(f"{value:.4f}" for value in display.smoothed[[9, 29, 99]])
print(f"logit-smoothed at 1/sigma = 10, 30, 100: {values}")

# In the lower panel the difference between the two predictions increases. With two bins, ECE is 1/2
# for any small difference. Logit-smoothed ECE increases where the difference of the log-odds is of the order
# of the scale of the noise, sigma.
half = np.geomspace(1e-5, 1, 80)
ax.semilogx(
    half, [expected_calibration_error(y, expit([-d, d]), n_bins=2) for d in half], label="binned ECE, 2 bins"
)
for s in (0.01, 0.1, 0.5):
    curve = [logit_smoothed_ece(y, expit([-d, d]), bandwidth=s) for d in half]
    ax.semilogx(half, curve, label=f"logit-smoothed, sigma = {s:g}")
ax.set(xlabel="d, for log-odds -d and d", ylabel="Calibration error")
ax.set_title("Binned ECE is discontinuous at d = 0")
ax.legend(loc="upper left", bbox_to_anchor=(0.0, -0.15), ncols=2, fontsize="small", frameon=False)
plt.show()
