"""
A model that passed a test
==========================

Select the model with the best log loss among those whose calibration is not rejected. A test as the last step
of a pipeline passes the probabilities on: the pipeline is a classifier, and its ``score`` is the p-value. A
search over such pipelines uses the scorers of classifiers, and its best estimator is the model to serve.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from sklearn_calib import CrossFitScorer
from sklearn_calib.calibrators import PlattCalibrator, SplineCalibrator
from sklearn_calib.inference import TCal
from sklearn_calib.plot import ReliabilityDisplay

X, y = make_classification(4000, n_features=12, n_informative=5, flip_y=0.1, class_sep=0.8, random_state=3)
X_train, X_new, y_train, y_new = train_test_split(X, y, test_size=0.4, random_state=0)

# %%
# ``CrossFitScorer`` gives the calibrator scores of samples that the classifier has not seen, and
# "passthrough" leaves the calibrator out. Twice the mean of the p-values of the folds is a valid p-value.

pipeline = make_pipeline(CrossFitScorer(GaussianNB(), cv=3), PlattCalibrator(), TCal(n_resamples=199))
grid = {
    "crossfitscorer__estimator": [LogisticRegression(), GaussianNB()],
    "plattcalibrator": ["passthrough", PlattCalibrator(), SplineCalibrator()],
}
scoring = {"log_loss": "neg_log_loss", "pvalue": lambda model, X, y: model.score(X, y)}


def best_not_rejected(results):
    kept = 2 * results["mean_test_pvalue"] > 0.05
    return int(np.where(kept, results["mean_test_log_loss"], -np.inf).argmax())


search = GridSearchCV(pipeline, grid, scoring=scoring, refit=best_not_rejected, cv=3).fit(X_train, y_train)
for j, params in enumerate(search.cv_results_["params"]):
    loss, p = (search.cv_results_[f"mean_test_{name}"][j] for name in scoring)
    names = [value if isinstance(value, str) else type(value).__name__ for value in params.values()]
    chosen = "  <- selected" if j == search.best_index_ else ""
    print(f"{names[0]:<24}{names[1]:<20} log loss {-loss:.3f}, mean p-value {p:.3f}{chosen}")

# %%
# The selected pipeline was refitted to all training samples. Its ``pvalue_`` is that of the samples to which
# its calibrator was fitted, so it is no evidence. The p-value of new samples is.

print(f"p-value of the samples of the fit: {search.best_estimator_[-1].pvalue_:.3f}")
print(f"p-value of new samples: {search.best_estimator_.score(X_new, y_new):.3f}")
ReliabilityDisplay.from_predictions(y_new, search.predict_proba(X_new)[:, 1])
plt.title("The selected pipeline, on new samples")
plt.show()
