"""
A calibrator in a pipeline must not see training scores
=======================================================

A random forest knows its training rows nearly by heart. Fit a calibrator to its scores of these rows, and
it learns that the forest is always right. The probabilities then get worse than they were.
``CrossFitScorer`` hands on scores of rows that were held out.
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
# Both pipelines score new rows with the same forest, trained on all training rows. They differ only in the
# scores that their calibrator learned from.

X, y = make_classification(12_000, n_features=20, n_informative=5, flip_y=0.1, class_sep=0.6, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=1500, random_state=0)
forest = RandomForestClassifier(50, random_state=0).fit(X_train, y_train)
models = {
    "forest alone": forest,
    "in-sample stage": make_pipeline(FunctionTransformer(forest.predict_proba), SplineCalibrator()),
    "CrossFitScorer": make_pipeline(CrossFitScorer(forest), SplineCalibrator()),
}
fig, axes = plt.subplots(1, 3, figsize=(14, 5.4), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    p = model.fit(X_train, y_train).predict_proba(X_test)[:, 1]
    print(f"{name:<18} log loss on new rows {log_loss(y_test, p):.3f}")
    ReliabilityDisplay.from_predictions(y_test, p, ax=ax)
    ax.set_title(name)
fig.suptitle("Three ways to use the same forest, on new rows")
plt.show()
