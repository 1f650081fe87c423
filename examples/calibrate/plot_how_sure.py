"""
How sure can I be about the calibrated model?
=============================================

A certificate is an upper confidence bound of the cutoff calibration error of a calibrator on new data, from
its own training samples. No samples need to be held out. Here it is compared with the error on a million new
samples, for samples of different sizes.
"""

import matplotlib.pyplot as plt

from sklearn_calib.calibrators import IsotonicCalibrator, PlattCalibrator
from sklearn_calib.datasets import make_forecasts
from sklearn_calib.metrics import cutoff_calibration_error

new = make_forecasts(1_000_000, distortion="slope", random_state=1)
sizes = [200, 500, 1000, 2000, 5000, 10_000]
calibrators = {"isotonic regression": IsotonicCalibrator(), "Platt scaling": PlattCalibrator()}
methods = {"fitted": "certificate of the fitted map", "asymptotic": "certificate of all monotone maps"}

found = {name: {"error": [], "fitted": [], "asymptotic": []} for name in calibrators}
for name, calibrator in calibrators.items():
    for n in sizes:
        data = make_forecasts(n, distortion="slope", random_state=0)
        calibrator.fit(data.y_proba, data.y_true)
        for method in methods:
            certificate = calibrator.cutoff_certificate(method=method, random_state=0)
            found[name][method].append(float(certificate))
        error = cutoff_calibration_error(new.y_true, calibrator.transform(new.y_proba))
        found[name]["error"].append(error)

# %%
# Printed, a certificate says how it was found. With fewer than 100 samples, or 10 of a class, the default is
# replaced by the certificate of all monotone maps, and the result says so.

print(calibrator.cutoff_certificate(random_state=0))
few = make_forecasts(80, distortion="slope", random_state=0)
print(IsotonicCalibrator().fit(few.y_proba, few.y_true).cutoff_certificate())

# %%
# Both certificates hold with 95% confidence. The one of the fitted map is much tighter.

fig, axes = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True, layout="constrained")
for ax, (name, values) in zip(axes, found.items(), strict=True):
    for (method, label), style in zip(methods.items(), ("-", "--"), strict=True):
        ax.plot(sizes, values[method], style, color="0.2", marker="o", label=label)
    ax.plot(sizes, values["error"], "s", color="tab:red", label="error on a million new samples")
    ax.set(xscale="log", yscale="log", xlabel="Training samples", title=name.capitalize())
axes[0].set_ylabel("Cutoff calibration error")
axes[0].legend()
plt.show()

# %%
# The default is valid for the distribution at hand as the number of samples grows. For a bound that holds at
# every sample size and for all distributions at once, pass ``method="dkw"``.
