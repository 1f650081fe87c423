"""
Random forest that predicts exactly 0 and 1
===========================================

A random forest averages the votes of its trees. Where all trees agree it predicts exactly 0 or 1. A single
outcome that contradicts such a prediction is impossible under calibration, so that the p-value of every test
is 0. This is correct but uninformative. Results, figures and reports therefore show how many predictions of 0
or 1 were contradicted, and the test of the other samples.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from sklearn_calib.inference import CombinedTest
from sklearn_calib.meta import CalibratedClassifier
from sklearn_calib.plot import TestDisplay
from sklearn_calib.report import calibration_report

X, y = make_classification(9000, 20, n_informative=6, flip_y=0.03, class_sep=1.2, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=3000, random_state=0)
forest = RandomForestClassifier(random_state=0).fit(X_train, y_train)
p = forest.predict_proba(X_test)[:, 1]

# %%
# The result has two p-values: ``pvalue`` for all samples, and ``pvalue_others`` for the samples that do not
# contradict a prediction of 0 or 1. ``contradicted`` contains the indices of the other samples.

result = CombinedTest(random_state=0).test(y_test, p)
print(result)
wrong = result.contradicted
print(f"samples {wrong}: predictions {p[wrong]}, labels {y_test[wrong]}")

# %%
# The primary test of the report excludes the contradicted samples. The first finding contains their number
# and recommends what to do.

print(calibration_report(y_test, p, name="random forest", random_state=0))

# %%
# After calibration with cross-validation on the training samples, no prediction is 0 or 1.

calibrated = CalibratedClassifier(RandomForestClassifier(random_state=0)).fit(X_train, y_train)
q = calibrated.predict_proba(X_test)[:, 1]
print(f"smallest prediction {q.min():.4f}, largest {q.max():.4f}")

fig, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
for ax, name, proba in zip(axes, ("random forest", "calibrated"), (p, q), strict=True):
    TestDisplay.from_predictions(y_test, proba, test=CombinedTest(random_state=0), name=name, ax=ax)
fig.suptitle("The forest is miscalibrated even without its contradicted predictions of 0 and 1")
plt.show()
