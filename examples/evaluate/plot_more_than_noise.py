"""
Calibration error and sampling noise
====================================

The calibration error of a finite sample is positive even if the predictions are perfectly calibrated. Compare
it with its distribution under perfect calibration, or use a test of calibration.
"""

import matplotlib.pyplot as plt

from sklearn_calib.datasets import make_forecasts
from sklearn_calib.inference import TCal, expected_under_calibration
from sklearn_calib.metrics import expected_calibration_error
from sklearn_calib.plot import ReliabilityDisplay, TestDisplay

# %%
# Two forecasters have 300 predictions each. The first one is calibrated. The calibration curve of the second
# one is a sine wave around the diagonal.

forecasters = {
    "Calibrated forecaster": make_forecasts(300, random_state=6),
    "Miscalibrated forecaster": make_forecasts(
        300, distortion="sine", periods=2, strength=0.2, random_state=6
    ),
}

# %%
# The *null distribution* of ECE is its distribution for outcomes that are simulated from the predicted
# probabilities. The T-Cal test compares squared errors in bins of many widths with their null distributions,
# and its p-value is exact for every sample size. In the diagrams, the light bars are 95% consistency
# intervals, which contain the bins if the predictions are calibrated. The histograms are the null
# distributions of T-Cal.

fig, axes = plt.subplots(2, 2, figsize=(10, 9), layout="constrained", height_ratios=(3, 2))
for (diagram, evidence), (name, data) in zip(axes.T, forecasters.items(), strict=True):
    error = expected_calibration_error(data.y_true, data.y_proba)
    null = expected_under_calibration(
        data.y_true, data.y_proba, metric=expected_calibration_error, random_state=0
    )
    result = TCal(random_state=0).test(data.y_true, data.y_proba)
    print(f"{name}: true error {data.true_ece:.3f}, T-Cal p-value {result.pvalue:.3f}")
    print(
        f"  ECE: estimate {error:.3f}, expected {null.expected:.3f} under calibration, 95% quantile "
        f"{null.quantile:.3f}"
    )
    ReliabilityDisplay.from_predictions(
        data.y_true, data.y_proba, curve="binned", band="consistency", name="15 bins", ax=diagram
    )
    diagram.set_title(name)
    TestDisplay.from_result(result, ax=evidence)
plt.show()
