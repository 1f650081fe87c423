"""
Rare events: undo what reweighting did
======================================

When events are rare, many people train with ``class_weight="balanced"`` or throw most non-events away. The
model then learns a world in which every second case is an event, and its probabilities speak of that world.
Bayes' formula leads back, and all it needs to know is the two base rates.
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
print(f"{y_test.sum()} events among {len(y_test)} new rows")

balanced = LogisticRegression(class_weight="balanced").fit(X_train, y_train)
p_train, p_test = (balanced.predict_proba(rows)[:, 1] for rows in (X_train, X_test))

# %%
# With balanced weights the base rate of the training world is one half. The other one is read off the
# labels that are passed to ``fit``. No curve is estimated here: the log-odds move by one known constant, so
# that the rows which trained the model can be used again.
#
# If instead you kept one non-event of ten, say ``PriorShiftCalibrator(sampling_rate=0.1)``. If the base
# rate of the place of use is unknown, ``target_prior="em"`` estimates it from unlabelled scores.

calibrator = PriorShiftCalibrator(training_prior=0.5).fit(p_train, y_train)
corrected = calibrator.transform(p_test)
print(f"odds are multiplied by {calibrator.odds_factor_:.4f}")
for name, p in {"balanced": p_test, "corrected": corrected}.items():
    print(f"{name:<10} mean prediction {p.mean():.4f}   events {y_test.mean():.4f}")

# %%
# On the usual axes all of the corrected predictions would crowd in one corner. The logit scale gives each
# factor in the odds the same room. Bins with equally many rows suit rare events. The whole curve has moved,
# and its shape stayed.

fig, ax = plt.subplots(figsize=(6.6, 6.6), layout="constrained")
for name, p in {"class_weight='balanced'": p_test, "corrected for the base rate": corrected}.items():
    ReliabilityDisplay.from_predictions(
        y_test, p, method="binned", strategy="quantile", n_bins=20, scale="logit", name=name, ax=ax
    )
ax.set_title("A rare event, on logit axes")
plt.show()
