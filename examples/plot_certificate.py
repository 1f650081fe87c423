"""
A guarantee, and what it is worth in decisions
==============================================

A monotone calibrator can certify itself: from its own training rows alone it states a bound on its true
error, which holds with the confidence you ask for. No rows need to be kept back. And the bound speaks of
decisions: no one who acts above a threshold can lose more by trusting the probabilities.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from sklearn_calib.calibrators import IsotonicCalibrator
from sklearn_calib.metrics import cutoff_calibration_error, decision_risk_result
from sklearn_calib.plot import DecisionDisplay

X, y = make_classification(62_000, n_features=20, n_informative=5, flip_y=0.1, random_state=0)
X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=2000, random_state=0)
X_repair, X_test, y_repair, y_test = train_test_split(X_rest, y_rest, train_size=40_000, random_state=0)
forest = RandomForestClassifier(30, max_depth=4, n_jobs=1, random_state=0).fit(X_train, y_train)

# %%
# The cutoff calibration error adds up what events and predictions differ by, over the range of predictions
# where that is most. The certificate bounds it.

calibrator = IsotonicCalibrator().fit(forest.predict_proba(X_repair), y_repair)
certificate = calibrator.cutoff_certificate(confidence=0.95)
before = forest.predict_proba(X_test)[:, 1]
after = calibrator.transform(forest.predict_proba(X_test))
print(f"certificate, from the rows of the repair: at most {certificate:.4f}")
for name, p in {"before": before, "after": after}.items():
    print(
        f"{name:<7} on new rows: cutoff calibration error {cutoff_calibration_error(y_test, p):.4f}, "
        f"largest risk gap {decision_risk_result(y_test, p).gap.max():.4f}"
    )

# %%
# Who acts when the probability exceeds a threshold pays for alarms in vain and for missed events. The *risk
# gap* is the part of that cost that the best recalibration would save. It never exceeds the cutoff
# calibration error, so the certificate bounds it too, at all thresholds together.

fig, ax = plt.subplots(figsize=(8, 5.2), layout="constrained")
DecisionDisplay.from_predictions(y_test, before, name="before", show_bound=False, show_chance=False, ax=ax)
DecisionDisplay.from_predictions(y_test, after, name="after", show_bound=False, ax=ax)
ax.axhline(certificate, color="0.2", linestyle="--", label="certificate of the repair")
ax.legend(loc="upper center")
ax.set_title("What better calibration could save, at each threshold")
plt.show()
