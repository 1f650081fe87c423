"""
Is it more than noise?
======================

No calibration error of a finite sample is zero, not even that of the truth itself. So never read one alone.
Ask how large it would be if the forecasts were perfect, and whether what you found is larger than that.
"""

import matplotlib.pyplot as plt

from sklearn_calib.datasets import make_forecasts
from sklearn_calib.inference import TCal, null_floor
from sklearn_calib.metrics import expected_calibration_error
from sklearn_calib.plot import ReliabilityDisplay, TestDisplay

# %%
# Two forecasters with 300 forecasts each. One tells the truth. The other one is wrong in waves: a little
# too high here, a little too low there.

forecasters = {
    "Perfect": make_forecasts(300, random_state=6),
    "Wrong in waves": make_forecasts(300, distortion="sine", periods=2, strength=0.2, random_state=6),
}

# %%
# The *null floor* redraws all outcomes from the forecasts themselves, again and again, and measures each
# time. What comes out is the error of perfect forecasts. The T-Cal test looks for errors at many
# resolutions at once, and its p-value is exact in samples of every size.

fig, axes = plt.subplots(2, 2, figsize=(10.5, 9), layout="constrained", height_ratios=(3, 2))
for (diagram, evidence), (name, data) in zip(axes.T, forecasters.items(), strict=True):
    error = expected_calibration_error(data.y_true, data.y_proba)
    floor = null_floor(expected_calibration_error, data.y_proba, random_state=0)
    result = TCal(random_state=0).test(data.y_true, data.y_proba)
    print(f"{name}: true error {data.true_ece:.3f}, T-Cal p-value {result.pvalue:.3f}")
    print(f"  ECE {error:.3f}; of perfect forecasts {floor.mean:.3f}, up to {floor.quantile:.3f}")
    ReliabilityDisplay.from_predictions(
        data.y_true, data.y_proba, method="binned", band="consistency", name="15 bins", ax=diagram
    )
    diagram.set_title(name)
    TestDisplay.from_result(result, ax=evidence)

# %%
# Above, the light bars are where perfect forecasts would lie. Below are the values that the test statistic
# takes for perfect forecasts, and the one observed.

plt.show()
