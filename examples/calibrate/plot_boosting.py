"""
Recalibrating an overfitted gradient boosting model
===================================================

With too many boosting iterations, predictions approach 0 and 1: they still rank new samples well, but they
are overconfident. A calibrator that is fitted to held-out samples corrects them without retraining.
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
except (ImportError, OSError):  # OSError: its thread library is missing
    print("LightGBM is not installed and therefore omitted.")
else:
    models["LightGBM"] = LGBMClassifier(n_estimators=200, n_jobs=1, verbose=-1, random_state=0)

X, y = make_classification(14_000, n_features=20, n_informative=6, flip_y=0.2, class_sep=0.7, random_state=0)
X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=2000, random_state=0)
X_calib, X_test, y_calib, y_test = train_test_split(X_rest, y_rest, train_size=3000, random_state=0)

# %%
# ``FrozenEstimator`` marks the model as fitted, so that ``CalibratedClassifier`` fits the calibrator only.
# Without it, the classifier would be refitted on each fold. The curve of the original model is too flat: low
# predictions are too low, and high predictions are too high. The histograms show that recalibration moves
# the predictions away from 0 and 1.

fig, axes = plt.subplots(1, len(models), figsize=(5 * len(models), 5.4), squeeze=False, layout="constrained")
for ax, (name, model) in zip(axes[0], models.items(), strict=True):
    model.fit(X_train, y_train)
    recalibrated = CalibratedClassifier(FrozenEstimator(model), SplineCalibrator()).fit(X_calib, y_calib)
    for when, fitted in {"as trained": model, "recalibrated": recalibrated}.items():
        p = fitted.predict_proba(X_test)[:, 1]
        ReliabilityDisplay.from_predictions(y_test, p, name=when, ax=ax)
        print(f"{name:<22}{when:<14} log loss {log_loss(y_test, p):.3f}")
    ax.set_title(name)
fig.suptitle("Boosted trees are overconfident; a spline calibrator corrects them (held-out samples)")
plt.show()
