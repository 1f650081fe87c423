"""
Calibrating out-of-fold scores in a pipeline
============================================

The scores of a random forest on its training samples are too optimistic. A calibrator that is fitted to them
makes the probabilities worse. ``CrossFitScorer`` passes out-of-fold scores to the next step of a pipeline.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_calib import CrossFitScorer
from sklearn_calib.calibrators import SplineCalibrator
from sklearn_calib.plot import ReliabilityDisplay

# %%
# Both pipelines score new samples with the same forest, fitted to all training samples. They differ only in
# the scores to which the calibrator is fitted.

X, y = make_classification(12_000, n_features=20, n_informative=5, flip_y=0.1, class_sep=0.6, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=1500, random_state=0)
forest = RandomForestClassifier(50, random_state=0).fit(X_train, y_train)
models = {
    "forest alone": forest,
    "in-sample scores": make_pipeline(FunctionTransformer(forest.predict_proba), SplineCalibrator()),
    "CrossFitScorer": make_pipeline(CrossFitScorer(forest), SplineCalibrator()),
}
fig, axes = plt.subplots(1, 3, figsize=(10, 5.4), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    p = model.fit(X_train, y_train).predict_proba(X_test)[:, 1]
    print(f"{name:<18} log loss on test samples {log_loss(y_test, p):.3f}")
    ReliabilityDisplay.from_predictions(y_test, p, ax=ax)
    ax.set_title(name)
fig.suptitle("Calibration with in-sample scores fails; with out-of-fold scores it succeeds")
plt.show()
