"""
Outputs of a neural network from any framework
==============================================

A network that was trained for long says "99 %" too often. Temperature scaling divides its logits by one
number, so that confidence becomes honest while every predicted class stays what it was.

A calibrator asks for arrays and for nothing else. It does not matter which framework made them, and the
network is neither copied nor trained again. Here plain numpy plays the framework: a small network learns to
read digits from scans with heavy noise, for far too many steps.
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
train, repair, test = np.split(rng.permutation(len(y)), [500, 1000])

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
# Scans that the network was not trained on fit the one number; other scans show what it does. The
# calibrator takes logits with ``link="identity"`` and probabilities with ``link="logit"``, its default.
#
# *A network behind* ``predict_proba``: if there is an object with that method and ``classes_``, wrap it in
# scikit-learn's ``FrozenEstimator`` and hand it to ``CalibratedClassifier``, as in the example on gradient
# boosting.

calibrator = TemperatureCalibrator(link="identity").fit(logits[repair], y[repair])
outputs = {
    "softmax of the network": softmax(logits[test], axis=1),
    f"divided by a temperature of {calibrator.temperature_:.1f}": calibrator.predict_proba(logits[test]),
}
for name, p in outputs.items():
    accuracy = (p.argmax(axis=1) == y[test]).mean()
    error = smooth_ece(y[test], p, reduction="confidence")
    print(
        f"{name:<32} accuracy {accuracy:.3f}   mean confidence {p.max(axis=1).mean():.3f}   error {error:.3f}"
    )

# %%
# Below the diagonal the network is less often right than it says.

fig, axes = plt.subplots(1, 2, figsize=(10, 5.4), sharey=True, layout="constrained")
for ax, (name, p) in zip(axes, outputs.items(), strict=True):
    ReliabilityDisplay.from_predictions(y[test], p, reduction="confidence", ax=ax)
    ax.set_title(name[0].upper() + name[1:])
fig.suptitle("How often a network is right, by how sure it is")
plt.show()
