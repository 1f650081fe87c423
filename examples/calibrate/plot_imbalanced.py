"""
Correcting probabilities after class weighting
==============================================

A model that is trained with ``class_weight="balanced"`` or with undersampling predicts as if half of the
samples were events. If the base rates are known, Bayes' theorem corrects the probabilities.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from sklearn_calib.calibrators import PriorShiftCalibrator
from sklearn_calib.plot import ReliabilityDisplay

rng = np.random.default_rng(0)
X = rng.normal(size=(200_000, 5))
y = (rng.uniform(size=len(X)) < expit(X @ [0.9, -0.6, 0.4, 0.2, 0.0] - 4.5)).astype(int)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
print(f"{y_test.sum()} events among {len(y_test)} test samples")

balanced = LogisticRegression(class_weight="balanced").fit(X_train, y_train)
p_train, p_test = (balanced.predict_proba(features)[:, 1] for features in (X_train, X_test))

# %%
# Balanced weights correspond to a base rate of 1/2 in training. The base rate of the target population is
# that of the labels passed to ``fit``. The correction shifts the log-odds by a known constant. Since no curve
# is estimated, the training samples can be reused.
#
# If one in ten non-events was kept, use ``PriorShiftCalibrator(training_weight={0: 0.1})``, which needs no
# labels. If the base rate of the target population is unknown, it can be estimated from unlabeled samples:
# :doc:`plot_label_shift`.

calibrator = PriorShiftCalibrator(training_weight="balanced").fit(p_train, y_train)
corrected = calibrator.transform(p_test)
print(f"odds are multiplied by {calibrator.odds_factor_:.4f}")
for name, p in {"balanced": p_test, "corrected": corrected}.items():
    print(f"{name:<10} mean prediction {p.mean():.4f}   events {y_test.mean():.4f}")

# %%
# For rare events, use logit axes and bins with equal numbers of samples. The correction shifts the whole
# curve without changing its shape.

fig, ax = plt.subplots(figsize=(6.6, 6.6), layout="constrained")
for name, p in {"class_weight='balanced'": p_test, "corrected": corrected}.items():
    ReliabilityDisplay.from_predictions(y_test, p, curve="binned", n_bins=20, scale="logit", name=name, ax=ax)
ax.set_title("Class weights inflate the probability of rare events")
plt.show()
