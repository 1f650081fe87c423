"""
Decision curves and Murphy diagrams
===================================

Predicted probabilities are used for decisions: act if the probability reaches a threshold that depends on
the costs. ``DecisionCurveDisplay`` shows the net benefit of models for all thresholds, and
``MurphyDisplay`` whether one model is better for every decision maker.
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
# Three models of the default of credits: boosted trees, the same trees calibrated, and logistic regression.

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
# A model dominates another one if the expected cost of its decisions is nowhere higher: it is then at least
# as good by every proper score. The tests ask for both directions whether the other model is better anywhere.

print(dominance_test(y_test, predictions["calibrated trees"], predictions["trees"], random_state=0))

# %%
# At a threshold of 1/6, the default of a credit costs five times as much as the refusal of a good one. Below
# the line "treat all" it is better to refuse everyone. The second panel shows the differences to the trees,
# with simultaneous bands and the p-values of the hypothesis that the curves are equal. The Murphy diagram on
# the right shows the cost of the same decisions, on a scale that does not grow with the threshold.

fig, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4.6), layout="constrained")
curves = DecisionCurveDisplay.from_predictions(y_test, predictions, reference="trees", ax=left)
curves.plot(middle, kind="differences")
MurphyDisplay.from_predictions(y_test, predictions, ax=right)
plt.show()
