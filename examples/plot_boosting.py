"""
Gradient boosting that was trained too long
===========================================

Boosting drives its training loss towards zero, and with it the probabilities towards 0 and 1. It may still
rank new cases well: what it says is then useful, but not to be taken at its word. A calibrator fitted on
rows that the trees did not see puts that right, and needs no new training.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import SplineCalibrator
from sklearn_calib.plot import ReliabilityDisplay

models = {"HistGradientBoosting": HistGradientBoostingClassifier(max_iter=200, random_state=0)}
try:
    from lightgbm import LGBMClassifier
except (ImportError, OSError):  # the latter where its library for threads is missing
    print("LightGBM is not installed, so this run does without it.")
else:
    models["LightGBM"] = LGBMClassifier(n_estimators=200, n_jobs=1, verbose=-1, random_state=0)

X, y = make_classification(14_000, n_features=20, n_informative=6, flip_y=0.2, class_sep=0.7, random_state=0)
X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=2000, random_state=0)
X_repair, X_test, y_repair, y_test = train_test_split(X_rest, y_rest, train_size=3000, random_state=0)

# %%
# ``FrozenEstimator`` says that the model is ready. ``CalibratedClassifier`` then spends all its rows on the
# calibrator. Without it the classifier would be trained again, once for each fold.

fig, axes = plt.subplots(1, len(models), figsize=(5 * len(models), 5.4), squeeze=False, layout="constrained")
for ax, (name, model) in zip(axes[0], models.items(), strict=True):
    model.fit(X_train, y_train)
    repaired = CalibratedClassifier(FrozenEstimator(model), SplineCalibrator()).fit(X_repair, y_repair)
    for when, fitted in {"as trained": model, "repaired": repaired}.items():
        p = fitted.predict_proba(X_test)[:, 1]
        ReliabilityDisplay.from_predictions(y_test, p, name=when, ax=ax)
        print(f"{name:<22}{when:<12} log loss {log_loss(y_test, p):.3f}")
    ax.set_title(name)

# %%
# The curve as trained is too flat: where the model says almost never, it happens now and then, and where it
# says almost always, sometimes not. The strips below show where the predictions went: away from both ends.

fig.suptitle("Boosted trees on new rows, before and after their repair")
plt.show()
