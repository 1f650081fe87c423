"""What depends on the release of scikit-learn in the comparisons with its calibration."""

from functools import cache

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV

__all__ = ["SKLEARN", "calibrates_log_odds"]

#: Major and minor version.
SKLEARN = tuple(int(part) for part in sklearn.__version__.split(".")[:2])


class _Given(ClassifierMixin, BaseEstimator):
    """The only feature is the probability."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.classes_[(X[:, 0] > 0.5).astype(int)]

    def predict_proba(self, X):
        return np.hstack([1 - X, X])


@cache
def calibrates_log_odds() -> bool:
    """Tell whether the sigmoid of scikit-learn is one of the log-odds of probabilities.

    Its pull request 34313, which is not merged, proposes this, and that ``predict_proba`` is used where a
    classifier has it, also by isotonic calibration. The release is unknown, so this looks at the numbers.
    """
    X = np.array([0.5, 0.75, 0.9]).reshape(-1, 1)
    model = CalibratedClassifierCV(_Given(), method="sigmoid", ensemble=False)
    y = (np.arange(60) % 20 < np.repeat([6, 10, 16], 20)).astype(int)
    p = model.fit(np.repeat(X, 20, axis=0), y).predict_proba(X)
    # the new log-odds are linear in log-odds, 0, log 3 and 2 log 3, or in the probability
    middle, last = np.diff(np.log(p[:, 1] / p[:, 0]))
    return bool(np.isclose(middle, last))
