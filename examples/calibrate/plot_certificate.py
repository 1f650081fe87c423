"""
Certificate of a calibrated classifier and decision risk
========================================================

A monotone calibrator reports an upper confidence bound for its calibration error on new data. The bound is
computed from the samples to which the calibrator was fitted. It also bounds the loss of every decision that
compares the probability with a threshold.
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
X_calib, X_test, y_calib, y_test = train_test_split(X_rest, y_rest, train_size=40_000, random_state=0)
forest = RandomForestClassifier(30, max_depth=4, n_jobs=1, random_state=0).fit(X_train, y_train)

# %%
# The certificate bounds the cutoff calibration error: the largest sum of residuals over an interval of
# predictions, divided by the number of samples.

calibrator = IsotonicCalibrator().fit(forest.predict_proba(X_calib), y_calib)
certificate = calibrator.cutoff_certificate(confidence=0.95).upper
before = forest.predict_proba(X_test)[:, 1]
after = calibrator.transform(forest.predict_proba(X_test))
print(f"certificate, from the samples of the calibrator: at most {certificate:.4f}")
for name, p in {"before": before, "after": after}.items():
    print(
        f"{name:<7} on test samples: cutoff calibration error {cutoff_calibration_error(y_test, p):.4f}, "
        f"largest risk gap {decision_risk_result(y_test, p).gap.max():.4f}"
    )

# %%
# A decision that compares the probability with a threshold leads to false positives and false negatives,
# which have costs. The *risk gap* is the part of the cost that the best recalibration would save. It is at
# most the cutoff calibration error, so the certificate bounds it at all thresholds simultaneously.

fig, ax = plt.subplots(figsize=(8, 5.2), layout="constrained")
DecisionDisplay.from_predictions(y_test, {"before": before, "after": after}, ax=ax)
ax.axhline(certificate, color="0.2", linestyle="--", label="95% certificate of the calibrator")
ax.legend(loc="upper center")
ax.set_title("After calibration the risk gap is below its certificate")
plt.show()
