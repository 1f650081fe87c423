"""
Temperature scaling of neural network outputs
=============================================

Neural networks that are trained for many steps are often overconfident. Temperature scaling divides the
logits by a scalar; the predicted classes do not change.

Calibrators accept arrays, so you can use any framework for neural networks. Here a small network in numpy is
trained for too many steps on noisy images of digits.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax
from sklearn.datasets import load_digits

from sklearn_calib.calibrators import TemperatureCalibrator
from sklearn_calib.metrics import smooth_ece
from sklearn_calib.plot import ReliabilityDisplay

rng = np.random.default_rng(0)
X, y = load_digits(return_X_y=True)
X = (X + rng.normal(scale=6, size=X.shape)) / 10
train, calib, test = np.split(rng.permutation(len(y)), [500, 1000])

hidden = rng.normal(scale=0.3, size=(X.shape[1], 200))
output = np.zeros((200, 10))
for _ in range(600):
    active = np.maximum(X[train] @ hidden, 0)
    error = softmax(active @ output, axis=1) - np.eye(10)[y[train]]
    step = X[train].T @ (error @ output.T * (active > 0))
    output -= 0.001 * active.T @ error
    hidden -= 0.001 * step
logits = np.maximum(X @ hidden, 0) @ output

# %%
# The temperature is fitted to one set of held-out images and evaluated on another. Pass logits with
# ``link="identity"`` and probabilities with ``link="logit"``, the default.
#
# If your network has ``predict_proba`` and ``classes_``, you can wrap it in scikit-learn's
# ``FrozenEstimator`` and pass it to ``CalibratedClassifier``, as in the example
# :ref:`sphx_glr_auto_examples_calibrate_plot_boosting.py`.

calibrator = TemperatureCalibrator(link="identity").fit(logits[calib], y[calib])
outputs = {
    "softmax: overconfident": softmax(logits[test], axis=1),
    f"after temperature scaling, T = {calibrator.temperature_:.1f}": calibrator.predict_proba(logits[test]),
}
for name, p in outputs.items():
    accuracy = (p.argmax(axis=1) == y[test]).mean()
    error = smooth_ece(y[test], p, reduction="confidence")
    print(
        f"{name:<32} accuracy {accuracy:.3f}   mean confidence {p.max(axis=1).mean():.3f}   error {error:.3f}"
    )

# %%
# A curve below the diagonal means overconfidence: the accuracy is lower than the confidence.

fig, axes = plt.subplots(1, 2, figsize=(10, 5.4), sharey=True, layout="constrained")
for ax, (name, p) in zip(axes, outputs.items(), strict=True):
    ReliabilityDisplay.from_predictions(p.argmax(axis=1) == y[test], p.max(axis=1), ax=ax)
    ax.set(title=name[0].upper() + name[1:], xlabel="Confidence", ylabel="Accuracy")
fig.suptitle("Temperature scaling corrects an overconfident neural network (held-out digits)")
plt.show()
