"""
Certificates by number of training samples
==========================================

A certificate is an upper confidence bound for the cutoff calibration error of a calibrator on new data. It is
computed from the training samples of the calibrator, so no held-out samples are needed. Here it is compared
with the error on a million new samples, for different numbers of training samples.
"""

import matplotlib.pyplot as plt

from sklearn_calib.calibrators import IsotonicCalibrator, PlattCalibrator
from sklearn_calib.datasets import make_forecasts
from sklearn_calib.metrics import cutoff_calibration_error

new = make_forecasts(1_000_000, distortion="slope", random_state=1)
sizes = [200, 500, 1000, 2000, 5000, 10_000]
calibrators = {"isotonic regression": IsotonicCalibrator(), "Platt scaling": PlattCalibrator()}
methods = {"fitted": "certificate of the fitted map", "asymptotic": "certificate for all monotone maps"}

found = {name: {"error": [], "fitted": [], "asymptotic": []} for name in calibrators}
for name, calibrator in calibrators.items():
    for n in sizes:
        data = make_forecasts(n, distortion="slope", random_state=0)
        calibrator.fit(data.y_proba, data.y_true)
        for method in methods:
            certificate = calibrator.cutoff_certificate(method=method, random_state=0)
            found[name][method].append(certificate.upper)
        error = cutoff_calibration_error(new.y_true, calibrator.transform(new.y_proba))
        found[name]["error"].append(error)

# %%
# A printed certificate names its method. With few samples it is large.

print(calibrator.cutoff_certificate(random_state=0))
few = make_forecasts(80, distortion="slope", random_state=0)
print(IsotonicCalibrator().fit(few.y_proba, few.y_true).cutoff_certificate())

# %%
# Both certificates hold with 95% confidence. The certificate of the fitted map is much smaller. It is valid
# as the number of samples grows, for the distribution at hand. For a bound that holds for every sample size
# and every distribution, pass ``method="dkw"``.

fig, axes = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True, layout="constrained")
for ax, (name, values) in zip(axes, found.items(), strict=True):
    for (method, label), style in zip(methods.items(), ("-", "--"), strict=True):
        ax.plot(sizes, values[method], style, color="0.2", marker="o", label=label)
    ax.plot(sizes, values["error"], "s", color="tab:red", label="error on a million new samples")
    ax.set(xscale="log", yscale="log", xlabel="Training samples", title=name.capitalize())
axes[0].set_ylabel("Cutoff calibration error")
axes[0].legend()
fig.suptitle("Both certificates exceed the error on new samples; that of the fitted map is closer to it")
plt.show()
