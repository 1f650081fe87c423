"""
Estimating class frequencies without labels
===========================================

Under label shift the frequencies of the classes change after training, and the samples within each class do
not. The frequencies can be estimated from unlabeled samples, and the probabilities corrected.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import confusion_matrix, log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from sklearn_calib.calibrators import PriorShiftCalibrator, VectorScalingCalibrator

X, y = load_digits(return_X_y=True)
X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.7, stratify=y, random_state=0)
X_held, X_new, y_held, y_new = train_test_split(
    X_rest, y_rest, test_size=0.5, stratify=y_rest, random_state=0
)

# of the new samples of digit k, the fraction (k + 1) / 10 is kept
rng = np.random.default_rng(0)
kept = rng.uniform(size=len(y_new)) < 0.1 + 0.1 * y_new
X_new, y_new = X_new[kept], y_new[kept]
true_frequency = np.bincount(y_new) / len(y_new)
print(f"{len(y_held)} labeled samples, {len(y_new)} new samples")

# %%
# The estimate by maximum likelihood needs calibrated probabilities, here those of vector scaling, fitted to
# labeled samples with the frequencies of the training data. The labels of the new samples are not used.

model = GaussianNB().fit(X_train, y_train)
scaling = VectorScalingCalibrator(penalty=0).fit(model.predict_proba(X_held), y_held)
p_held, p_new = (scaling.predict_proba(model.predict_proba(part)) for part in (X_held, X_new))
prior = np.bincount(y_held)
shifts = {
    "maximum likelihood": PriorShiftCalibrator(training_prior=prior, target_prior="em").fit(p_new),
    "black box": PriorShiftCalibrator(
        training_prior=prior,
        target_prior="black_box",
        confusion=confusion_matrix(y_held, p_held.argmax(axis=1)),
    ).fit(p_new),
}
print(f"log loss without correction  {log_loss(y_new, p_new):.3f}")
for name, shift in shifts.items():
    print(f"log loss, {name:<18} {log_loss(y_new, shift.predict_proba(p_new)):.3f}")

# %%
# The bars are two standard errors. The black box estimate uses only the predicted classes.

fig, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
ax.plot(true_frequency, "k_", ms=22, label="new samples, true")
ax.plot(prior / prior.sum(), "_", color="0.6", ms=22, label="labeled samples")
for place, (name, shift) in zip((-0.12, 0.12), shifts.items(), strict=True):
    ax.errorbar(np.arange(10) + place, shift.target_prior_, 2 * shift.standard_error_, fmt="o", label=name)
ax.set(xlabel="class", ylabel="frequency", xticks=range(10), title="Frequencies estimated without labels")
ax.legend()
plt.show()
