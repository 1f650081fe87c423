"""
Model selection with a calibration metric
=========================================

Do not select a model by its calibration error alone: a model that always predicts the base rate has almost no
calibration error. The refit rule ``BestCalibrated`` considers only candidates whose proper score is close to
the best, and selects the best calibrated of these.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, train_test_split

from sklearn_calib.scorers import BestCalibrated, MultiScorer

X, y = make_classification(5000, n_features=15, n_informative=6, flip_y=0.1, class_sep=0.6, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

# %%
# The candidates differ in the number of boosting iterations and in the learning rate. ``MultiScorer`` calls
# ``predict_proba`` once for all scores. The candidate with the smallest calibration error is underfitted: its
# log loss is large.

search = GridSearchCV(
    HistGradientBoostingClassifier(max_leaf_nodes=8, random_state=0),
    {"max_iter": [1, 3, 10, 30, 100], "learning_rate": [0.03, 0.1, 0.3]},
    scoring=MultiScorer(["neg_log_loss", "neg_smooth_ece"]),
    refit=BestCalibrated(calibration="neg_smooth_ece", proper="neg_log_loss"),
    cv=5,
).fit(X_train, y_train)

loss, error = (-search.cv_results_[f"mean_test_{name}"] for name in ("neg_log_loss", "neg_smooth_ece"))
picks = {"smallest calibration error": error.argmin(), "refit rule": search.best_index_}
fig, ax = plt.subplots(figsize=(7.5, 5.2), layout="constrained")
ax.plot(loss, error, "o", color="0.6", label="candidates")
for (name, j), marker, color in zip(picks.items(), "Xo", ("C1", "C0"), strict=True):
    model = search.estimator.set_params(**search.cv_results_["params"][j]).fit(X_train, y_train)
    auc = roc_auc_score(y_test, model.predict_proba(X_test)[:, 1])
    print(f"{name:<27} {search.cv_results_['params'][j]}")
    print(f"{'':<27} log loss {loss[j]:.3f}, smooth ECE {error[j]:.3f}, AUC on test samples {auc:.3f}")
    ax.plot(loss[j], error[j], marker, color=color, markersize=13, label=f"{name}: AUC {auc:.2f}")
ax.set(
    xlabel="Log loss, cross-validated",
    ylabel="Smooth ECE, cross-validated",
    title="The smallest calibration error belongs to an underfitted model",
)
ax.legend()
plt.show()
