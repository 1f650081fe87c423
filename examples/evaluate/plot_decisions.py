"""
Decision curves and Murphy diagrams
===================================

Decisions often compare a predicted probability with a threshold that depends on the costs of both errors.
``DecisionCurveDisplay`` shows the net benefit of models at all thresholds. ``MurphyDisplay`` shows whether
one model has lower expected costs than another at every threshold.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import PlattCalibrator
from sklearn_calib.datasets import load_german_credit
from sklearn_calib.inference import dominance_test
from sklearn_calib.metrics import calibration_decision_loss, net_benefit
from sklearn_calib.plot import DecisionCurveDisplay, MurphyDisplay

# %%
# Three models predict credit default: boosted trees, the same trees after calibration, and logistic
# regression.

credit = load_german_credit()
X_train, X_test, y_train, y_test = train_test_split(
    credit.X, credit.y, test_size=0.5, stratify=credit.y, random_state=0
)
trees = HistGradientBoostingClassifier(categorical_features=credit.is_categorical, random_state=0)
models = {
    "trees": trees,
    "calibrated trees": CalibratedClassifier(trees, PlattCalibrator(), ensemble=False),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
}
predictions = {}
for name, model in models.items():
    p = predictions[name] = model.fit(X_train, y_train).predict_proba(X_test)[:, 1]
    print(
        f"{name:<20} net benefit at 1/6 {net_benefit(y_test, p, threshold=1 / 6):.3f}, "
        f"calibration decision loss {calibration_decision_loss(y_test, p):.3f}"
    )

# %%
# A model dominates another model if the expected cost of its decisions is not higher at any threshold. It is
# then at least as good for every proper score. Each of the two tests has the null hypothesis that one model
# has no higher expected cost than the other at any threshold.

names = "calibrated trees", "trees"
print(dominance_test(y_test, {name: predictions[name] for name in names}))

# %%
# A threshold of 1/6 is optimal if a default costs five times as much as the rejection of a good applicant.
# Where a curve is below "treat all", rejecting every applicant is better than using the model. The second
# panel shows the differences to the trees, with simultaneous bands and the p-values of the hypothesis that
# the curves are equal. The Murphy diagram below shows the expected cost of the same decisions; all
# thresholds have the same weight there.

fig, panels = plt.subplot_mosaic("AB;CC", figsize=(10, 8.6), layout="constrained")
left, right, below = panels.values()
DecisionCurveDisplay.from_predictions(y_test, predictions, ax=left)
DecisionCurveDisplay.from_predictions(y_test, predictions, reference="trees", ax=right)
MurphyDisplay.from_predictions(y_test, predictions, ax=below)
fig.suptitle("Calibration significantly improves the decisions of boosted trees")
plt.show()
